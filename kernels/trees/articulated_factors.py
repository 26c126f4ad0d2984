"""Factors of the joint-space inertia from articulated-body inertias, for chains of any length.

H = Lᵀ D L with the sparsity of the tree, stored as in `crba`, whose solves use it; H itself is not formed.
D_d = S_dᵀ I^A S_d is the inertia of dof d when all bodies behind it yield, and L_dk = S_kᵀ I^A S_d / D_d
(Rodriguez, Jain, Kreutz-Delgado, "A spatial operator algebra for manipulator modeling and control", 1991;
recursion as in Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 7.3). Articulated inertias are
taken about the body's own centre of mass, where they do not grow with the length of the chain and lose no
precision.

Stage: smooth dynamics, factors of the joint-space inertia
Called by: newtonsim/runtime/inertia_factors.py
Reads: BodyView, JointView, KinematicsView, LevelView, ResistanceView, Teams, TreeView, diagonal
Writes: ArticulatedView, KinematicsView, L
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, own_team, sync
from newtonsim.kernels.trees.forward_kinematics import turn_inertia
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, LevelView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# pivots below this share of those without the joint's other dofs are rounding, as at gimbal lock
PIVOT_FLOOR = wp.constant(1.0e-6)


@wp.struct
class ArticulatedView:
    """Articulated-body inertia of each body, in world axes about its centre of mass.

    It takes the wrench (rotational w + coupling v, couplingᵀ w + translational v) to accelerate by (w, v).
    """

    mass: wp.array(dtype=float)  # (B) [kg] of the body and all bodies behind it
    rotational: wp.array(dtype=wp.mat33)  # (B) [kg m²]
    coupling: wp.array(dtype=wp.mat33)  # (B) [kg m]
    translational: wp.array(dtype=wp.mat33)  # (B) [kg]


@wp.struct
class ResistanceView:
    """What forces that resist the motion of bodies add to their inertia in an implicit step.

    It is the time step times the negative slope of the wrench by the velocity about the centre of mass, in
    world axes.
    """

    rotational: wp.array(dtype=wp.mat33)  # (B) [kg m²]
    translational: wp.array(dtype=wp.mat33)  # (B) [kg]


@wp.func
def hang(articulated: ArticulatedView, b: int, parent: int, r: wp.vec3):
    """Add body b, whose centre of mass lies at r from the parent's, to its parent."""
    articulated.mass[parent] = articulated.mass[parent] + articulated.mass[b]
    X = wp.skew(r)
    coupled = articulated.coupling[b] * X
    shifted = X * articulated.translational[b]
    turned = shifted * X
    rotational = articulated.rotational[b] - coupled - wp.transpose(coupled)
    rotational -= 0.5 * (turned + wp.transpose(turned))
    articulated.rotational[parent] = articulated.rotational[parent] + rotational
    articulated.coupling[parent] = articulated.coupling[parent] + articulated.coupling[b] + shifted
    articulated.translational[parent] = articulated.translational[parent] + articulated.translational[b]


@wp.func
def pivot_floor(articulated: ArticulatedView, b: int, w: wp.vec3, v: wp.vec3, diagonal: float) -> float:
    """Least pivot of a dof that moves body b with (w, v), given the inertia before its joint yields."""
    J = articulated.rotational[b]
    C = articulated.coupling[b]
    M = articulated.translational[b]
    return PIVOT_FLOOR * (wp.dot(w, J * w) + 2.0 * wp.dot(w, C * v) + wp.dot(v, M * v) + diagonal)


@wp.func
def yield_joint(
    begin: int,
    end: int,
    b: int,
    tree: TreeView,
    kin: KinematicsView,
    diagonal: wp.array(dtype=float),
    articulated: ArticulatedView,
    L: wp.array(dtype=float),
):
    """Write the rows of the dofs of body b's joint, and subtract from its inertia what they yield."""
    com = kin.body_com[b]
    J = articulated.rotational[b]
    C = articulated.coupling[b]
    M = articulated.translational[b]
    for i in range(end - begin):
        d = end - 1 - i
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        w = wp.spatial_top(kin.S[d])
        v = wp.spatial_bottom(kin.S[d]) + wp.cross(w, com)
        torque = J * w + C * v
        force = wp.transpose(C) * w + M * v
        pivot = wp.dot(w, torque) + wp.dot(v, force) + diagonal[d]
        if i > 0:
            pivot = wp.max(pivot, pivot_floor(articulated, b, w, v, diagonal[d]))
        inverse = 1.0 / pivot
        wrench = wp.spatial_vector(torque + wp.cross(com, force), force)
        for k in range(depth):
            L[row + k] = inverse * wp.dot(kin.S[tree.row_dof[row + k]], wrench)
        L[row + depth] = wp.sqrt(inverse)
        J -= wp.outer(torque, inverse * torque)
        C -= wp.outer(torque, inverse * force)
        M -= wp.outer(force, inverse * force)
    articulated.rotational[b] = J
    articulated.coupling[b] = C
    articulated.translational[b] = M


@wp.func
def begin_body(b: int, body: BodyView, kin: KinematicsView, articulated: ArticulatedView):
    """Inertia of body b alone."""
    turn_inertia(b, body, kin)
    articulated.mass[b] = body.mass[b]
    articulated.rotational[b] = kin.body_I[b]
    articulated.coupling[b] = wp.mat33()
    articulated.translational[b] = body.mass[b] * wp.identity(n=3, dtype=float)


@wp.func(inline=True)
def yield_trees(
    team: Team,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    kin: KinematicsView,
    diagonal: wp.array(dtype=float),
    articulated: ArticulatedView,
    L: wp.array(dtype=float),
):
    """Rows of a tree from its leaves on, given the inertia of each body alone."""
    begin = levels.first[team.index]
    end = levels.first[team.index + 1]
    for n in range(end - begin):
        level = end - 1 - n
        for family in range(levels.family[level] + team.lane, levels.family[level + 1], lanes(team)):
            start = levels.family_start[family]
            last = levels.family_start[family + 1] - 1
            for i in range(start, last + 1):
                j = levels.joint[start + last - i]
                b = joint.child[j]
                yield_joint(joint.qd_start[j], joint.qd_start[j + 1], b, tree, kin, diagonal, articulated, L)
                parent = joint.parent[j]
                if parent >= 0:
                    hang(articulated, b, parent, kin.body_com[b] - kin.body_com[parent])
        sync(team)


@wp.kernel
def factorize_chains(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    diagonal: wp.array(dtype=float),
    kin: KinematicsView,
    articulated: ArticulatedView,
    L: wp.array(dtype=float),
):
    """One team per tree: L (below the diagonal) and D^(-1/2) (on it) of the joint-space inertia.

    `diagonal` is added to the diagonal of H. The square root of the inverse scales rows of Jacobians and
    velocities in energy coordinates. Inertias of bodies in world axes go to `kin`.
    """
    team = own_team(teams, wp.tid())
    first = levels.joint_start[levels.first[team.index]]
    for i in range(first + team.lane, levels.joint_start[levels.first[team.index + 1]], lanes(team)):
        begin_body(joint.child[levels.joint[i]], body, kin, articulated)
    sync(team)
    yield_trees(team, tree, levels, joint, kin, diagonal, articulated, L)


@wp.kernel
def factorize_resisted(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    diagonal: wp.array(dtype=float),
    resistance: ResistanceView,
    kin: KinematicsView,
    articulated: ArticulatedView,
    L: wp.array(dtype=float),
):
    """One team per tree: `factorize_chains` with what resists the motion of bodies."""
    team = own_team(teams, wp.tid())
    first = levels.joint_start[levels.first[team.index]]
    for i in range(first + team.lane, levels.joint_start[levels.first[team.index + 1]], lanes(team)):
        b = joint.child[levels.joint[i]]
        begin_body(b, body, kin, articulated)
        articulated.rotational[b] = articulated.rotational[b] + resistance.rotational[b]
        articulated.translational[b] = articulated.translational[b] + resistance.translational[b]
    sync(team)
    yield_trees(team, tree, levels, joint, kin, diagonal, articulated, L)
