"""Poses and velocities of a kinematic tree in one pass, for steps without a gradient.

It uses the functions of `forward_kinematics`, whose kernels compute one quantity each.

Stage: forward kinematics, first and last of a step, without gradient
Called by: newtonsim/runtime/launcher.py, newtonsim/simulator.py, kernels/constraints/step_end.py,
    kernels/trees/energy_limit.py, kernels/trees/tree_smooth.py
Reads: BodyView, JointView, LevelView, Teams, TreeView, mask, q, qd
Writes: KinematicsView, body_q, body_qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.trees.forward_kinematics import (
    anchor_frame,
    move_joint,
    place_dofs,
    root_position,
    world_pose,
    world_velocity,
)
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, LevelView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def is_identity(X: wp.transform) -> bool:
    """True if a frame coincides with that in which it is given."""
    r = wp.transform_get_rotation(X)
    apart = wp.length_sq(wp.transform_get_translation(X)) + wp.abs(r[0]) + wp.abs(r[1]) + wp.abs(r[2])
    return apart == 0.0 and r[3] == 1.0


@wp.func(inline=True)
def place_tree(
    team: Team,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: KinematicsView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """Frames, motion subspaces, velocities, and the states of the bodies of one tree."""
    t = team.index
    origin = root_position(tree.joint[tree.joint_start[t]], joint, q)
    if team.lane == 0:
        kin.origin[t] = origin
    for level in range(levels.first[t], levels.first[t + 1]):
        for i in range(levels.joint_start[level] + team.lane, levels.joint_start[level + 1], lanes(team)):
            j = levels.joint[i]
            b = joint.child[j]
            behind = anchor_frame(j, origin, joint, kin)
            place_dofs(j, behind, joint, body.com, q, kin)
            last = joint.qd_start[j + 1] - 1
            if last >= joint.qd_start[j]:
                behind = kin.dof_X[last]
            X_c = joint.X_c[j]
            # a product less in the chain of those that wait for each other, for most robots of files
            if not is_identity(X_c):
                behind = behind * wp.transform_inverse(X_c)
            kin.body_X[b] = behind
            move_joint(j, joint, qd, kin)
            body_q[b] = world_pose(b, origin, kin)
            body_qd[b] = world_velocity(b, body, kin)
        sync(team)


@wp.kernel
def place_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: KinematicsView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One team per tree: frames, motion subspaces, velocities, and the states of its bodies."""
    place_tree(own_team(teams, wp.tid()), tree, levels, joint, body, q, qd, kin, body_q, body_qd)


@wp.kernel
def place_masked_trees(
    teams: Teams,
    mask: wp.array(dtype=bool),
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    kin: KinematicsView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One team per tree: the same for those of the masked worlds."""
    team = own_team(teams, wp.tid())
    if mask[tree.world[team.index]]:
        place_tree(team, tree, levels, joint, body, q, qd, kin, body_q, body_qd)
