"""Poses and velocities of a kinematic tree in one pass, for where no gradient is recorded.

The same functions as in `forward_kinematics`, whose kernels take one quantity each.

Stage: forward kinematics, first and last of a step, without gradient
Called by: newtonsim/runtime/launcher.py, newtonsim/simulator.py
Reads: BodyView, JointView, TreeView, mask, q, qd
Writes: KinematicsView, body_q, body_qd
"""

import warp as wp

from newtonsim.kernels.trees.forward_kinematics import (
    move_joint,
    place_joint,
    root_position,
    world_pose,
    world_velocity,
)
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def place_tree(
    t: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: KinematicsView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """Frames, motion subspaces, velocities, and the states of the bodies of one tree."""
    begin = tree.joint_start[t]
    origin = root_position(tree.joint[begin], joint, q)
    kin.origin[t] = origin
    for i in range(begin, tree.joint_start[t + 1]):
        j = tree.joint[i]
        place_joint(j, origin, joint, body.com, q, kin)
        move_joint(j, joint, qd, kin)
        b = joint.child[j]
        body_q[b] = world_pose(b, origin, kin)
        body_qd[b] = world_velocity(b, body, kin)


@wp.kernel
def place_trees(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: KinematicsView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One thread per tree: frames, motion subspaces, velocities, and the states of its bodies."""
    place_tree(first + wp.tid(), tree, joint, body, q, qd, kin, body_q, body_qd)


@wp.kernel
def place_masked_trees(
    first: int,
    mask: wp.array(dtype=bool),
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: KinematicsView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One thread per tree: the same for those of the masked worlds."""
    t = first + wp.tid()
    if mask[tree.world[t]]:
        place_tree(t, tree, joint, body, q, qd, kin, body_q, body_qd)
