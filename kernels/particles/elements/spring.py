"""Springs: the energy ½ ke (|d| - L)² of the vector d between two particles, of either precision.

Stage: substeps, penalty forces and backward passes of particles, elements
Called by: kernels/particles/adjoint/work.py, kernels/particles/vbd/rows.py,
    kernels/particles/xpbd/springs.py, kernels/penalty/elements.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

from typing import Any

import newtonsim.kernels.lazy_warp as wp


@wp.func
def controlled_length(rest_length: Any, control: Any):
    """L: the length [m] without force of a spring that a control shortens by its share."""
    return rest_length * (type(control)(1.0) - control)
