"""Inertia that keeps light bodies calm while they transmit large forces.

A force f that acts on a body at r from its centre of mass turns with the world, not with the body: when the
body turns, the torque r × f changes by -K per radian, with the geometric stiffness K = (f·r) 1 - r fᵀ. A link
in tension thus swings about the line of pull like a string, faster under a larger pull and with a lighter
link, and a step that takes forces from its start is stable only up to h² K = 4 I. Therefore the inertia that
a step uses is at least h² K: what a step that takes forces from its middle would add, four times over. Slower
motions hardly change, and momentum does not change at all, since only changes of the velocity are divided by
the inertia.

What the stiffness made of the inertia is held, and released slowly: an inertia that followed the forces as
they swing would pump energy into the chain. What is new in a step is at rest and takes up its share of the
angular momentum of the body, so that energy is lost and never gained: a link that whips about when its load
is caught would otherwise pull at the load with an energy that nothing had given it.

The forces are those of the rows between bodies in the last step and, within a tree, those that hold and turn
what hangs on each joint.

Sources: Tournier and others, "Stable constrained dynamics", 2015; Andrews, Teichmann, Kry, "Geometric
stiffness for real-time constrained multibody dynamics", 2017 (diagonal stiffness, added where the step needs
it).

Stage: smooth dynamics, before the joint-space inertia; and at the end of a step
Called by: solvers/geometric_stiffness.py
Reads: BodyView, JointView, LevelView, LoopView, PairRowView, StiffnessView, Teams, TreeView, added, body_q,
    body_qd, gravity, inertia, mask, stiffened, world
Writes: StiffnessView, body_f, gradient, source
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team, sync
from newtonsim.kernels.constraints.pair_rows import acts_by_force, pair_frames
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import BodyView, JointView, LevelView, TreeView
from newtonsim.kernels.views.pair_rows import LoopView, PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


HOLD = wp.constant(10.0)  # time constant with which a held inertia is released [s]


@wp.struct
class StiffnessView:
    """Forces that bodies transmit, and the inertia that their step needs; B bodies."""

    light: wp.array(dtype=int)  # (B) 1 for bodies that may need more inertia than their own
    pull: wp.array(dtype=wp.vec3)  # (B) [N] sum of the forces of rows in the last step, world axes
    turning: wp.array(dtype=wp.vec3)  # (B) [N m] diagonal of their geometric stiffness, body axes
    force: wp.array(dtype=wp.vec3)  # (B) [N] from the parent, on the body and all that hangs on it
    acceleration: wp.array(dtype=wp.vec3)  # (B) [m/s²] of the centre of mass if joints do not accelerate
    stiffness: wp.array(dtype=wp.vec3)  # (B) [N m] of all forces, likewise
    held: wp.array(dtype=wp.vec3)  # (B) [kg m²] least inertia, from earlier steps, likewise
    inertia: wp.array(dtype=wp.mat33)  # (B) [kg m²] about the centre of mass, body axes
    added: wp.array(dtype=wp.vec3)  # (B) [kg m²] what this step has added to its diagonal


@wp.func
def stiffness_of(force: wp.vec3, arm: wp.vec3, pose: wp.transform) -> wp.vec3:
    """Diagonal of the geometric stiffness of a force at `arm` from the centre of mass, in body axes [N m]."""
    turn = wp.quat_inverse(wp.transform_get_rotation(pose))
    products = wp.cw_mul(wp.quat_rotate(turn, force), wp.quat_rotate(turn, arm))
    total = products[0] + products[1] + products[2]
    return wp.vec3(total, total, total) - products


@wp.func
def pull_at(
    b: int,
    force: wp.vec3,
    point: wp.vec3,
    body: BodyView,
    body_q: wp.array(dtype=wp.transform),
    stiffness: StiffnessView,
):
    """Add a force on body b at a point of the world; b may be -1."""
    if b >= 0:
        arm = point - wp.transform_point(body_q[b], body.com[b])
        wp.atomic_add(stiffness.pull, b, force)
        wp.atomic_add(stiffness.turning, b, stiffness_of(force, arm, body_q[b]))


@wp.func
def needed_inertia(b: int, dt: float, stiffness: StiffnessView) -> wp.vec3:
    """Least inertia of body b in this step, given its stiffness [kg m²]."""
    return wp.max(dt * dt * stiffness.stiffness[b], stiffness.held[b])


@wp.kernel
def release_bodies(first: int, dt: float, stiffness: StiffnessView):
    """One thread per body, at the end of a step: clear its forces, hold its inertia, and release some."""
    b = first + wp.tid()
    stiffness.pull[b] = wp.vec3()
    stiffness.turning[b] = wp.vec3()
    if stiffness.light[b] == 1:
        stiffness.held[b] = wp.exp(-dt / HOLD) * needed_inertia(b, dt, stiffness)


@wp.kernel
def forget_pulls(
    first: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), stiffness: StiffnessView
):
    """One thread per body: clear those of masked worlds."""
    b = first + wp.tid()
    if world[b] >= 0:
        if mask[world[b]]:
            stiffness.pull[b] = wp.vec3()
            stiffness.turning[b] = wp.vec3()
            stiffness.held[b] = wp.vec3()


@wp.kernel
def add_pulls(
    first: int,
    joint: JointView,
    body: BodyView,
    loop: LoopView,
    rows: PairRowView,
    body_q: wp.array(dtype=wp.transform),
    dt: float,
    stiffness: StiffnessView,
):
    """One thread per row between bodies, after the solve; `body_q` are poses at which they were built."""
    r = first + wp.tid()
    impulse = rows.impulse[r]
    if impulse == 0.0 or not acts_by_force(rows.kind[r]):
        return
    f = pair_frames(r, joint, loop, rows)
    force = (impulse / dt) * rows.force[r]
    pull_at(f.b1, force, rows.point[r], body, body_q, stiffness)
    pull_at(f.b0, -force, rows.point0[r], body, body_q, stiffness)


@wp.func
def centripetal(b: int, arm: wp.vec3, body_qd: wp.array(dtype=wp.spatial_vector)) -> wp.vec3:
    """Acceleration of a point at `arm` relative to another of the same body, by its turning alone."""
    w = wp.spatial_top(body_qd[b])
    return wp.cross(w, wp.cross(w, arm))


@wp.func
def hold_body(
    j: int,
    gravity: wp.vec3,
    joint: JointView,
    body: BodyView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    stiffness: StiffnessView,
):
    """Force that holds the child of joint j alone on its way; needs the acceleration of the parent."""
    b = joint.child[j]
    p = joint.parent[j]
    acceleration = wp.vec3()
    if not is_floating(joint.type[j]):
        com = wp.transform_point(body_q[b], body.com[b])
        anchor = wp.transform_point(body_q[b], wp.transform_get_translation(joint.X_c[j]))
        acceleration = centripetal(b, com - anchor, body_qd)
        if p >= 0:
            from_com = anchor - wp.transform_point(body_q[p], body.com[p])
            acceleration += stiffness.acceleration[p] + centripetal(p, from_com, body_qd)
    stiffness.acceleration[b] = acceleration
    stiffness.force[b] = body.mass[b] * (acceleration - gravity) - stiffness.pull[b]
    stiffness.stiffness[b] = stiffness.turning[b]


@wp.func
def hang_body(
    j: int,
    dt: float,
    joint: JointView,
    body: BodyView,
    body_q: wp.array(dtype=wp.transform),
    stiffness: StiffnessView,
):
    """Hang the child of joint j on its parent, and find its inertia; all that hangs on it is known."""
    b = joint.child[j]
    p = joint.parent[j]
    if not is_floating(joint.type[j]):
        force = stiffness.force[b]
        anchor = wp.transform_point(body_q[b], wp.transform_get_translation(joint.X_c[j]))
        arm = anchor - wp.transform_point(body_q[b], body.com[b])
        stiffness.stiffness[b] = stiffness.stiffness[b] + stiffness_of(force, arm, body_q[b])
        if p >= 0:
            arm = anchor - wp.transform_point(body_q[p], body.com[p])
            stiffness.force[p] = stiffness.force[p] + force
            stiffness.stiffness[p] = stiffness.stiffness[p] - stiffness_of(force, arm, body_q[p])
    inertia = body.inertia[b]
    if stiffness.light[b] == 1:
        held = stiffness.held[b]
        needed = needed_inertia(b, dt, stiffness)
        added = wp.vec3()
        for i in range(3):
            before = wp.max(inertia[i, i], held[i])
            inertia[i, i] = wp.max(inertia[i, i], needed[i])
            added[i] = inertia[i, i] - before
        stiffness.added[b] = added
    stiffness.inertia[b] = inertia


@wp.kernel
def stiffen_trees(
    teams: Teams,
    tree: TreeView,
    levels: LevelView,
    joint: JointView,
    body: BodyView,
    gravity: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    dt: float,
    stiffness: StiffnessView,
):
    """One team per tree: the inertia of its bodies, given their poses and velocities."""
    team = own_team(teams, wp.tid())
    down = gravity[tree.world[team.index]]
    begin = levels.first[team.index]
    end = levels.first[team.index + 1]
    for level in range(begin, end):
        for i in range(levels.joint_start[level] + team.lane, levels.joint_start[level + 1], lanes(team)):
            hold_body(levels.joint[i], down, joint, body, body_q, body_qd, stiffness)
        sync(team)
    for n in range(end - begin):
        level = end - 1 - n
        for family in range(levels.family[level] + team.lane, levels.family[level + 1], lanes(team)):
            start = levels.family_start[family]
            last = levels.family_start[family + 1] - 1
            for i in range(start, last + 1):
                hang_body(levels.joint[start + last - i], dt, joint, body, body_q, stiffness)
        sync(team)


@wp.kernel
def slow_bodies(
    first: int,
    added: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    dt: float,
    body_f: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: the torque with which what was added to its inertia begins the step at rest."""
    b = first + wp.tid()
    turn = wp.transform_get_rotation(body_q[b])
    spin = wp.quat_rotate_inv(turn, wp.spatial_top(body_qd[b]))
    torque = wp.quat_rotate(turn, wp.cw_mul(added[b], spin)) / dt
    wp.atomic_sub(body_f, b, wp.spatial_vector(torque, wp.vec3(0.0, 0.0, 0.0)))


@wp.kernel
def reverse_inertia(
    first: int,
    inertia: wp.array(dtype=wp.mat33),
    stiffened: wp.array(dtype=wp.mat33),
    gradient: wp.array(dtype=wp.mat33),
    source: wp.array(dtype=wp.mat33),
):
    """One thread per body: move the gradient of the inertia that a step used to that of the body's own."""
    b = first + wp.tid()
    moved = source[b]
    for i in range(3):
        if stiffened[b][i, i] > inertia[b][i, i]:
            moved[i, i] = 0.0
    gradient[b] = gradient[b] + moved
    source[b] = wp.mat33()
