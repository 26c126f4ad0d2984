"""Copies of the values with which the sweeps of a step start.

Stage: all constraints, before and after the solve
Called by: solvers/featherstone/step.py
Reads: source
Writes: target
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def copy_numbers(first: int, source: wp.array(dtype=float), target: wp.array(dtype=float)):
    """One thread per entry."""
    i = first + wp.tid()
    target[i] = source[i]


@wp.kernel
def copy_vectors(first: int, source: wp.array(dtype=wp.vec3), target: wp.array(dtype=wp.vec3)):
    """One thread per entry."""
    i = first + wp.tid()
    target[i] = source[i]
