"""Springs: the energy ½ ke (|d| - L)² of the vector d between two particles, of either precision."""

from typing import Any

import warp as wp


@wp.func
def controlled_length(rest_length: Any, control: Any):
    """L: the length [m] without force of a spring that a control shortens by its share."""
    return rest_length * (type(control)(1.0) - control)
