"""Joint velocities to energy coordinates, in which constraint rows are solved, and back.

Stage: constraints, before and after the solve
Called by: solvers/featherstone/constraints.py, solvers/featherstone/solver.py,
    kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/velocities.py
Reads: L, TreeView, limit, qd, v_free, world_state, z, z_moving
Writes: MarksView, moving_qd, qd, z
"""

import warp as wp

from newtonsim.kernels.algebra.sparse_blas import copyi, doti
from newtonsim.kernels.constraints.dof_rows import NOTHING_ACTED, PUSHED
from newtonsim.kernels.steps.nonfinite import MarksView, mark
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def to_energy_coordinates(
    first: int, tree: TreeView, L: wp.array(dtype=float), qd: wp.array(dtype=float), z: wp.array(dtype=float)
):
    """One thread per dof: z = √D L qd, in which the kinetic energy is zᵀz / 2."""
    d = first + wp.tid()
    row = tree.dof_row[d]
    depth = tree.dof_depth[d]
    y = qd[d] + doti(depth, L, tree.row_dof, row, qd)
    z[d] = y / L[row + depth]


@wp.func
def to_joint_velocities(
    tree: wp.ref[TreeView],
    L: wp.array(dtype=float),
    t: int,
    z: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """qd = L⁻¹ D^(-1/2) z of one tree."""
    for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[n]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        qd[d] = z[d] * L[row + depth] - doti(depth, L, tree.row_dof, row, qd)


FROM_FORCES = wp.constant(1)  # the velocity without constraints is no number
FROM_CONSTRAINTS = wp.constant(2)


@wp.func
def copy_tree(tree: wp.ref[TreeView], t: int, source: wp.array(dtype=float), target: wp.array(dtype=float)):
    """Copy the dofs of one tree."""
    start = tree.dof_start[t]
    copyi(tree.dof_start[t + 1] - start, tree.dof, start, source, target)


@wp.kernel
def accept_velocities(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    moving_qd: wp.array(dtype=float),
    marks: MarksView,
):
    """One thread per tree: joint velocities, and those that move the positions.

    Worlds without impulse keep theirs to the last bit. Velocities that are no numbers mark their tree and its
    world, with FROM_FORCES or FROM_CONSTRAINTS as the cause.
    """
    t = first + wp.tid()
    state = world_state[tree.world[t]]
    if state == NOTHING_ACTED:
        copy_tree(tree, t, v_free, qd)
    else:
        to_joint_velocities(tree, L, t, z, qd)
    if state >= PUSHED:
        to_joint_velocities(tree, L, t, z_moving, moving_qd)
    else:
        copy_tree(tree, t, qd, moving_qd)
    broken = bool(False)
    cause = int(FROM_CONSTRAINTS)
    for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
        if not wp.isfinite(qd[tree.dof[n]]):
            broken = True
            if not wp.isfinite(v_free[tree.dof[n]]):
                cause = FROM_FORCES
    mark(marks, tree.world[t], t, broken, cause)


@wp.kernel
def clamp_velocities(
    first: int, limit: wp.array(dtype=float), qd: wp.array(dtype=float), moving_qd: wp.array(dtype=float)
):
    """One thread per dof: bound its velocities."""
    d = first + wp.tid()
    qd[d] = wp.clamp(qd[d], -limit[d], limit[d])
    moving_qd[d] = wp.clamp(moving_qd[d], -limit[d], limit[d])


@wp.kernel
def accept_prediction(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    qd: wp.array(dtype=float),
):
    """One thread per tree: joint velocities after impulses, where there were any."""
    t = first + wp.tid()
    if world_state[tree.world[t]] != NOTHING_ACTED:
        to_joint_velocities(tree, L, t, z, qd)
