"""Inverse masses and inertias, which solvers in maximal coordinates read.

Stage: preparation of a rollout whose masses are differentiated
Called by: newtonsim/diff/bridge.py
Reads: inertia, mass
Writes: inverse
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def invert_masses(
    first: int,
    mass: wp.array(dtype=float),
    inverse: wp.array(dtype=float),
):
    """One thread per body or particle: 1/m, or 0 for what has no mass and does not move."""
    i = first + wp.tid()
    inverse[i] = wp.where(mass[i] > 0.0, 1.0 / mass[i], 0.0)


@wp.kernel
def invert_inertias(
    first: int,
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    inverse: wp.array(dtype=wp.mat33),
):
    """One thread per body: the inverse of the inertia of what has mass; others keep theirs."""
    b = first + wp.tid()
    if mass[b] > 0.0:
        inverse[b] = wp.inverse(inertia[b])
