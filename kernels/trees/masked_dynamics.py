"""Poses, velocities, dynamics and residuals of masked worlds; the others cost almost nothing.

Entries that are not written hold results of another call and must not be read.

Stage: backward pass of smooth dynamics
Called by: solvers/featherstone/contact_adjoint.py, solvers/featherstone/impact_adjoint.py,
    solvers/featherstone/step_adjoint.py
Reads: BodyView, DriveView, JointView, KinematicsView, TreeView, 15 arrays
Writes: KinematicsView, body_A, body_F, body_q, body_qd, dof_A, residual, tau
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.forward_kinematics import body_velocity, end_pose, move_joint, place_joint
from newtonsim.kernels.trees.joint_forces import force_residual
from newtonsim.kernels.trees.rnea import tree_inverse_dynamics
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def compute_masked_poses(
    first: int,
    mask: wp.array(dtype=int),
    tree: TreeView,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    kin: KinematicsView,
):
    """One thread per tree: `forward_kinematics.compute_poses` where its world is in the mask."""
    t = first + wp.tid()
    if mask[tree.world[t]] == 0:
        return
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        place_joint(tree.joint[i], kin.origin[t], joint, body_com, q, kin)


@wp.kernel
def compute_masked_velocities(
    first: int,
    mask: wp.array(dtype=int),
    tree: TreeView,
    joint: JointView,
    qd: wp.array(dtype=float),
    kin: KinematicsView,
):
    """One thread per tree: spatial velocities of dof frames and bodies, where its world is in the mask."""
    t = first + wp.tid()
    if mask[tree.world[t]] == 0:
        return
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        move_joint(tree.joint[i], joint, qd, kin)


@wp.kernel
def masked_inverse_dynamics(
    first: int,
    mask: wp.array(dtype=int),
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    gravity: wp.array(dtype=wp.vec3),
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    body_F: wp.array(dtype=wp.spatial_vector),
    tau: wp.array(dtype=float),
):
    """One thread per tree: tau = M(q) qdd + c(q, qd) - Jᵀ body_f, where its world is in the mask."""
    t = first + wp.tid()
    if mask[tree.world[t]] == 0:
        return
    tree_inverse_dynamics(t, tree, joint, body, gravity, kin, qd, qdd, body_f, dof_A, body_A, body_F, tau)


@wp.kernel
def masked_force_residual(
    first: int,
    mask: wp.array(dtype=int),
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    qd_end: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    tau: wp.array(dtype=float),
    dt: float,
    residual: wp.array(dtype=float),
):
    """One thread per tree: `joint_forces.joint_force_residual` of its dofs where its world is in the mask."""
    t = first + wp.tid()
    if mask[tree.world[t]] == 0:
        return
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        residual[d] = force_residual(d, tree, drive, implicit, q, qd_end, qdd, act, joint_f, tau, dt)


@wp.kernel
def write_masked_poses(
    first: int,
    mask: wp.array(dtype=int),
    tree: TreeView,
    kin: KinematicsView,
    com: wp.array(dtype=wp.vec3),
    loose_q: wp.array(dtype=wp.transform),
    loose_qd: wp.array(dtype=wp.spatial_vector),
    dt: float,
    body_q: wp.array(dtype=wp.transform),
):
    """One thread per body: `forward_kinematics.end_pose` if its world is in the mask or it is on no tree."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t >= 0:
        if mask[tree.world[t]] == 0:
            return
    body_q[b] = end_pose(b, tree, kin, com, loose_q, loose_qd, dt)


@wp.kernel
def write_masked_velocities(
    first: int,
    mask: wp.array(dtype=int),
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    loose_qd: wp.array(dtype=wp.spatial_vector),
    share: float,
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: `forward_kinematics.body_velocity` if its world is in the mask or it is on no
    tree."""
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t >= 0:
        if mask[tree.world[t]] == 0:
            return
    body_qd[b] = body_velocity(b, tree, body, kin, loose_qd, share)
