"""Joint velocities with which a step moved, and their gradients in energy coordinates and multipliers.

If a step pushed bodies apart or solved impacts within it, coordinates moved at another rate than the
velocities at its end; these two have separate gradients.

Stage: backward pass of constraints, changes of variables
Called by: solvers/featherstone/constraint_adjoint.py, solvers/featherstone/step_adjoint.py
Reads: L, TreeView, 10 arrays
Writes: b, final, mask, moving, multiplier, pushing, v, y
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import axpyi
from newtonsim.kernels.constraints.chains import is_single
from newtonsim.kernels.constraints.dof_rows import PUSHED, TIMED
from newtonsim.kernels.constraints.energy_coordinates import copy_tree, to_joint_velocities
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def scale(first: int, a: wp.array(dtype=float), factor: float, b: wp.array(dtype=float)):
    """One thread per entry: b = factor a."""
    i = first + wp.tid()
    b[i] = factor * a[i]


@wp.func
def moves_apart(tree: wp.ref[TreeView], d: int, world_state: wp.array(dtype=int)) -> bool:
    """True if a dof moved at another rate than its velocity, see `solve.solve_rows`."""
    state = world_state[tree.dof_world[d]]
    apart = state == TIMED
    if state == PUSHED:
        apart = is_single(tree, d)
    return apart


@wp.kernel
def select_moving(
    first: int,
    tree: TreeView,
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    solved: wp.array(dtype=float),
    moving: wp.array(dtype=float),
):
    """One thread per dof: velocity with which the coordinates moved."""
    d = first + wp.tid()
    velocity = qd[d]
    if moves_apart(tree, d, world_state):
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
    """One thread per tree: joint velocities of the solution that moves coordinates, for all trees."""
    t = first + wp.tid()
    if world_state[tree.world[t]] >= PUSHED:
        to_joint_velocities(tree, L, t, z, v)
    else:
        copy_tree(tree, t, qd, v)


@wp.kernel
def mark_pushed(first: int, world_state: wp.array(dtype=int), mask: wp.array(dtype=int)):
    """One thread per world: 1 if a dof moved at another rate than its velocity."""
    w = first + wp.tid()
    mask[w] = int(world_state[w] >= PUSHED)


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
    if moves_apart(tree, d, world_state):
        final[d] = qd_gradient[d]
        pushing[d] = moving_gradient[d]
    else:
        final[d] = qd_gradient[d] + moving_gradient[d]
        pushing[d] = 0.0


@wp.kernel
def to_energy_gradient(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    gradient: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    """One thread per tree: y = D^(-1/2) L^(-T) gradient."""
    t = first + wp.tid()
    start = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(start, end):
        d = tree.dof[i]
        y[d] = gradient[d]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        axpyi(tree.dof_depth[d], -y[d], L, tree.row_dof, row, y)
        y[d] = y[d] * L[row + tree.dof_depth[d]]


@wp.kernel
def to_multiplier(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    zeta: wp.array(dtype=float),
    reason: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
):
    """One thread per tree: λ = L⁻¹ D^(-1/2) ζ; NaN in worlds without a gradient."""
    t = first + wp.tid()
    if reason[tree.world[t]] != 0:
        for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
            multiplier[tree.dof[n]] = wp.nan
    else:
        to_joint_velocities(tree, L, t, zeta, multiplier)
