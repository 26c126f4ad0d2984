"""Small kernels of hand-written backward passes."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_constrained_worlds(
    first: int,
    dof_world: wp.array(dtype=int),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    constrained: wp.array(dtype=int),
):
    """One thread per dof: mark worlds whose velocity is not the unconstrained one, to the last bit."""
    d = first + wp.tid()
    if v_free[d] != v_end[d]:
        constrained[dof_world[d]] = 1


@wp.kernel
def poison_constrained_worlds(
    first: int,
    dof_world: wp.array(dtype=int),
    constrained: wp.array(dtype=int),
    gradient: wp.array(dtype=float),
):
    """One thread per dof: no number at all is better than a wrong one."""
    d = first + wp.tid()
    if constrained[dof_world[d]] != 0:
        gradient[d] = wp.nan


@wp.kernel
def negate(first: int, a: wp.array(dtype=float), b: wp.array(dtype=float)):
    """One thread per entry: b = -a."""
    i = first + wp.tid()
    b[i] = -a[i]
