"""Smooth dynamics of a whole tree in two launches, for steps without a gradient.

There are two because loops act between the predicted velocity and the final one.

Stage: smooth dynamics, without gradient
Called by: solvers/featherstone/smooth.py
Reads: BodyView, DriveView, JointView, KinematicsView, L, LevelView, Teams, TreeView, 11 arrays
Writes: CompositeView, ForceView, KinematicsView, L, body_f, body_q, body_qd, diagonal, floor, implicit,
    middle, qd_end
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.trees.crba import CompositeView, eliminate, fill_inertia, sum_composites
from newtonsim.kernels.trees.forward_kinematics import move_joint
from newtonsim.kernels.trees.free_body import (
    advance_free_body,
    factorize_free_body,
    is_free_body,
    move_free_body_to_middle,
    place_free_body,
)
from newtonsim.kernels.trees.joint_forces import select_drive
from newtonsim.kernels.trees.middle_velocity import is_single_rotating, write_middle_spin
from newtonsim.kernels.trees.tree_advance import advance_tree, balance_forces
from newtonsim.kernels.trees.tree_state import place_tree
from newtonsim.kernels.views.model import (
    BodyView,
    DriveView,
    ForceView,
    JointView,
    KinematicsView,
    LevelView,
    TreeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def begin_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    drive: DriveView,
    gravity: wp.array(dtype=wp.vec3),
    given: wp.array(dtype=wp.spatial_vector),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    dt: float,
    kin: KinematicsView,
    composite: CompositeView,
    floor: wp.array(dtype=float),
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
    L: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    forces: ForceView,
    qd_end: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """One team per tree: place it, factorize its inertia, and predict its velocities at the end of the step.

    Velocity-dependent forces are those at the start of the step. `body_f` receives the wrenches `given`.
    """
    team = own_team(teams, wp.tid())
    t = team.index
    if is_free_body(team, tree, joint):
        b = joint.child[tree.joint[tree.joint_start[t]]]
        body_f[b] = given[b]
        place_free_body(t, tree, joint, body, q, qd, kin, body_q, body_qd)
        factorize_free_body(t, dt, tree, joint, body, drive, kin, composite, implicit, diagonal, L)
        advance_free_body(
            t,
            tree,
            joint,
            body,
            drive,
            gravity[tree.world[t]],
            kin,
            L,
            qd,
            qd,
            qdd,
            body_f,
            joint_f,
            dt,
            forces,
            qd_end,
        )
        return
    place_tree(team, tree, levels, joint, body, q, qd, kin, body_q, body_qd)
    for i in range(tree.joint_start[t] + team.lane, tree.joint_start[t + 1], lanes(team)):
        b = joint.child[tree.joint[i]]
        body_f[b] = given[b]
    i = int(tree.dof_start[t] + team.lane)
    end = tree.dof_start[t + 1]
    while i < end:
        select_drive(tree.dof[i], tree, drive, q, qd, act, dt, implicit, diagonal)
        i += lanes(team)
    sum_composites(team, levels, joint, body, kin, composite)
    fill_inertia(team, tree, kin, composite, diagonal, L, floor)
    eliminate(team, tree, floor, L)
    down = gravity[tree.world[t]]
    balance_forces(team, levels, joint, body, down, kin, qd, qdd, body_f, forces)
    advance_tree(team, tree, levels, drive, L, implicit, q, qd, qdd, act, joint_f, forces.tau, dt, qd_end)


@wp.func(inline=True)
def move_to_middle(
    team: Team,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """Joint velocities of one tree in the middle of the step, and the spatial velocities there."""
    t = team.index
    if is_single_rotating(t, tree, joint):
        if team.lane == 0:
            write_middle_spin(t, tree, joint, body, kin, start, predicted, dt, middle)
    else:
        for i in range(tree.dof_start[t] + team.lane, tree.dof_start[t + 1], lanes(team)):
            d = tree.dof[i]
            middle[d] = 0.5 * (start[d] + predicted[d])
    sync(team)
    for level in range(levels.first[t], levels.first[t + 1]):
        for i in range(levels.joint_start[level] + team.lane, levels.joint_start[level + 1], lanes(team)):
            move_joint(levels.joint[i], joint, middle, kin)
        sync(team)


@wp.kernel
def finish_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    drive: DriveView,
    gravity: wp.array(dtype=wp.vec3),
    body_f: wp.array(dtype=wp.spatial_vector),
    L: wp.array(dtype=float),
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    dt: float,
    kin: KinematicsView,
    middle: wp.array(dtype=float),
    forces: ForceView,
    qd_end: wp.array(dtype=float),
):
    """One team per tree: velocities at the end of the step, with velocity-dependent forces in its middle.

    `middle` receives the joint velocities there, `kin` the spatial velocities.
    """
    team = own_team(teams, wp.tid())
    t = team.index
    if is_free_body(team, tree, joint):
        move_free_body_to_middle(t, tree, joint, kin, start, predicted, dt, middle)
        advance_free_body(
            t,
            tree,
            joint,
            body,
            drive,
            gravity[tree.world[t]],
            kin,
            L,
            middle,
            start,
            qdd,
            body_f,
            joint_f,
            dt,
            forces,
            qd_end,
        )
        return
    move_to_middle(team, tree, levels, joint, body, kin, start, predicted, dt, middle)
    down = gravity[tree.world[t]]
    balance_forces(team, levels, joint, body, down, kin, middle, qdd, body_f, forces)
    advance_tree(team, tree, levels, drive, L, implicit, q, start, qdd, act, joint_f, forces.tau, dt, qd_end)
