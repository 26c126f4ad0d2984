"""Small kernels of hand-written backward passes."""

import warp as wp

from newtonsim.kernels.constraint_rows import PUSHED
from newtonsim.kernels.energy_coordinates import copy_tree, to_joint_velocities
from newtonsim.kernels.gauss_seidel import is_single
from newtonsim.kernels.views import TreeView

wp.set_module_options({"enable_backward": False})


@wp.kernel
def scale(first: int, a: wp.array(dtype=float), factor: float, b: wp.array(dtype=float)):
    """One thread per entry: b = factor a."""
    i = first + wp.tid()
    b[i] = factor * a[i]


@wp.kernel
def select_moving(
    first: int,
    tree: TreeView,
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    solved: wp.array(dtype=float),
    moving: wp.array(dtype=float),
):
    """One thread per dof: velocity that the coordinates moved with, see `gauss_seidel.solve_rows`."""
    d = first + wp.tid()
    velocity = qd[d]
    if world_state[tree.dof_world[d]] == PUSHED:
        if is_single(tree, d):
            velocity = solved[d]
    moving[d] = velocity


@wp.kernel
def find_pushing_velocities(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    z: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    v: wp.array(dtype=float),
):
    """One thread per tree: joint velocities of the solution that moves single bodies, of all trees."""
    t = first + wp.tid()
    if world_state[tree.world[t]] == PUSHED:
        to_joint_velocities(tree, L, t, z, v)
    else:
        copy_tree(tree, t, qd, v)


@wp.kernel
def split_gradient(
    first: int,
    tree: TreeView,
    world_state: wp.array(dtype=int),
    qd_gradient: wp.array(dtype=float),
    moving_gradient: wp.array(dtype=float),
    final: wp.array(dtype=float),
    pushing: wp.array(dtype=float),
):
    """One thread per dof: gradients of the final solution and of the one that moves the coordinates."""
    d = first + wp.tid()
    apart = bool(False)
    if world_state[tree.dof_world[d]] == PUSHED:
        apart = is_single(tree, d)
    if apart:
        final[d] = qd_gradient[d]
        pushing[d] = moving_gradient[d]
    else:
        final[d] = qd_gradient[d] + moving_gradient[d]
        pushing[d] = 0.0
