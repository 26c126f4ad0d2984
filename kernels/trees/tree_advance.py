"""Update of the velocities of a whole tree in one pass, for steps without a gradient.

It uses the functions of `rnea`, `joint_forces`, `crba`, `middle_velocity` and `forward_kinematics`, whose
kernels compute one quantity each.

Stage: smooth dynamics and integration, without gradient
Called by: solvers/featherstone/articulated_bodies.py, solvers/featherstone/smooth.py,
    kernels/trees/tree_smooth.py
Reads: BodyView, DriveView, JointView, KinematicsView, L, LevelView, Teams, TreeView, 11 arrays
Writes: ForceView, end, qd_end, qdd, used
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.trees.crba import solve_tree
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.trees.joint_forces import force_residual
from newtonsim.kernels.trees.middle_velocity import is_single_rotating, write_middle_spin
from newtonsim.kernels.trees.rnea import accelerate_joint, body_wrench
from newtonsim.kernels.views.gravity import gravity_of
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


@wp.func(inline=True)
def balance_forces(
    team: Team,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    gravity: wp.vec3,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    forces: ForceView,
):
    """forces.tau = M(q) qdd + c(q, qd) - Jᵀ body_f of one tree, see `rnea`; no `sync` at the end."""
    origin = kin.origin[team.index]
    begin = levels.first[team.index]
    end = levels.first[team.index + 1]
    for level in range(begin, end):
        for i in range(levels.joint_start[level] + team.lane, levels.joint_start[level + 1], lanes(team)):
            j = levels.joint[i]
            b = joint.child[j]
            accelerate_joint(j, origin, gravity, joint, qd, qdd, kin, forces.dof_A, forces.body_A)
            forces.body_F[b] = body_wrench(
                body.mass[b], kin.body_com[b], kin.body_I[b], kin.body_V[b], forces.body_A[b], body_f[b]
            )
        sync(team)
    for n in range(end - begin):
        level = end - 1 - n
        for family in range(levels.family[level] + team.lane, levels.family[level + 1], lanes(team)):
            start = levels.family_start[family]
            last = levels.family_start[family + 1] - 1
            for i in range(start, last + 1):
                j = levels.joint[start + last - i]
                wrench = forces.body_F[joint.child[j]]
                d = int(joint.qd_start[j])
                while d < joint.qd_start[j + 1]:
                    forces.tau[d] = wp.dot(kin.S[d], wrench)
                    d += 1
                parent = joint.parent[j]
                if parent >= 0:
                    # not +=, which is atomic: the lane has all children to itself
                    forces.body_F[parent] = forces.body_F[parent] + wrench
        sync(team)


@wp.func(inline=True)
def advance_tree(
    team: Team,
    tree: wp.ref[TreeView],
    levels: wp.ref[LevelView],
    drive: wp.ref[DriveView],
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
    """qd_end = qd + h (q̈ - H⁻¹ r) of one tree, with the force balance r at the acceleration q̈."""
    start = tree.dof_start[team.index] + team.lane
    end = tree.dof_start[team.index + 1]
    i = int(start)
    while i < end:
        d = tree.dof[i]
        qd_end[d] = -dt * force_residual(d, tree, drive, implicit, q, qd, qdd, act, joint_f, tau, dt)
        i += lanes(team)
    solve_tree(team, tree, levels, L, qd_end)
    i = int(start)
    while i < end:
        d = tree.dof[i]
        qd_end[d] = qd_end[d] + qd[d] + dt * qdd[d]
        i += lanes(team)


@wp.kernel
def predict_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    drive: DriveView,
    gravity: wp.array(dtype=wp.vec3),
    kin: KinematicsView,
    body_f: wp.array(dtype=wp.spatial_vector),
    L: wp.array(dtype=float),
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    dt: float,
    forces: ForceView,
    qd_end: wp.array(dtype=float),
):
    """One team per tree: velocities at the end of the step, with velocity-dependent forces at its start."""
    team = own_team(teams, wp.tid())
    down = gravity[tree.world[team.index]]
    balance_forces(team, levels, joint, body, down, kin, qd, qdd, body_f, forces)
    advance_tree(team, tree, levels, drive, L, implicit, q, qd, qdd, act, joint_f, forces.tau, dt, qd_end)


@wp.kernel
def fall_freely(
    first: int,
    joint: JointView,
    world: wp.array(dtype=int),
    kin: KinematicsView,
    gravity: wp.array(dtype=wp.vec3),
    qdd: wp.array(dtype=float),
):
    """One thread per joint: accelerations of a tree on a floating joint in free fall."""
    j = first + wp.tid()
    if joint.parent[j] < 0 and is_floating(joint.type[j]):
        down = gravity_of(gravity, world[j])
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            qdd[d] = wp.dot(wp.spatial_bottom(kin.S[d]), down)


@wp.func
def keeps_spin(
    t: int, tree: TreeView, start: wp.array(dtype=float), predicted: wp.array(dtype=float)
) -> bool:
    """True if no torque turns a single rotating body, the gyroscopic one included: the spin stays."""
    first = tree.dof_start[t]
    same = bool(True)
    for i in range(first, first + 3):
        d = tree.dof[i]
        same = same and predicted[d] == start[d]
    return same


@wp.kernel
def finish_from_start(
    teams: Teams,
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
    """One team per tree: keep the prediction; single rotating bodies end according to the midpoint rule.

    `used` is the velocity at which the velocity-dependent forces were evaluated.
    """
    team = own_team(teams, wp.tid())
    t = team.index
    for i in range(tree.dof_start[t] + team.lane, tree.dof_start[t + 1], lanes(team)):
        d = tree.dof[i]
        used[d] = start[d]
        end[d] = predicted[d]
    if is_single_rotating(t, tree, joint):
        sync(team)
        if team.lane == 0:
            if keeps_spin(t, tree, start, predicted):
                for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
                    d = tree.dof[i]
                    used[d] = 0.5 * (start[d] + predicted[d])
            else:
                write_middle_spin(t, tree, joint, body, kin, start, predicted, dt, used)
            for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
                d = tree.dof[i]
                end[d] = 2.0 * used[d] - start[d]
