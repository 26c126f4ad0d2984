"""What a step does with a whole tree in one pass, for where no gradient is recorded.

The same functions as in `joint_forces`, `crba`, `middle_velocity` and `forward_kinematics`, whose kernels
take one quantity each.

Stage: smooth dynamics and integration, without gradient
Called by: solvers/featherstone/articulated_bodies.py, solvers/featherstone/smooth.py
Reads: BodyView, DriveView, JointView, KinematicsView, L, TreeView, 10 arrays
Writes: KinematicsView, end, middle, qd_end, qdd, used
"""

import warp as wp

from newtonsim.kernels.trees.crba import solve_tree
from newtonsim.kernels.trees.forward_kinematics import is_floating, move_joint
from newtonsim.kernels.trees.joint_forces import force_residual
from newtonsim.kernels.trees.middle_velocity import is_single_rotating, write_middle_velocity
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def advance_trees(
    first: int,
    tree: TreeView,
    drive: DriveView,
    L: wp.array(dtype=float),
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    tau: wp.array(dtype=float),
    dt: float,
    qd_end: wp.array(dtype=float),
):
    """One thread per tree: qd_end = qd + h (q̈ - H⁻¹ r), with the force balance r at the acceleration q̈."""
    t = first + wp.tid()
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        qd_end[d] = -dt * force_residual(d, tree, drive, implicit, q, qd, qdd, act, joint_f, tau, dt)
    solve_tree(t, tree, L, qd_end)
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        qd_end[d] = qd_end[d] + qd[d] + dt * qdd[d]


@wp.kernel
def fall_freely(
    first: int,
    joint: JointView,
    kin: KinematicsView,
    gravity: wp.array(dtype=wp.vec3),
    qdd: wp.array(dtype=float),
):
    """One thread per joint: accelerations of a tree on a floating joint that falls as it is."""
    j = first + wp.tid()
    if joint.parent[j] < 0 and is_floating(joint.type[j]):
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            qdd[d] = wp.dot(wp.spatial_bottom(kin.S[d]), gravity[0])


@wp.kernel
def move_to_middle(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """One thread per tree: joint velocities in the middle of the step, and the spatial velocities there."""
    t = first + wp.tid()
    write_middle_velocity(t, tree, joint, body, kin, start, predicted, dt, middle)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        move_joint(tree.joint[i], joint, middle, kin)


@wp.kernel
def finish_from_start(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    used: wp.array(dtype=float),
    end: wp.array(dtype=float),
):
    """One thread per tree: keep the prediction; single rotating bodies end where the midpoint rule says.

    `used` is the velocity at which the velocity-dependent forces were taken.
    """
    t = first + wp.tid()
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        used[d] = start[d]
        end[d] = predicted[d]
    if is_single_rotating(t, tree, joint):
        write_middle_velocity(t, tree, joint, body, kin, start, predicted, dt, used)
        for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
            d = tree.dof[i]
            end[d] = 2.0 * used[d] - start[d]
