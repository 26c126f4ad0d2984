"""Kinetic energy that a step adds to fast linkages by its length, and its removal.

Velocity-dependent forces do no work beyond that of the change of the joint-space inertia with the pose: the
kinetic energy in the next pose is that in the present one, plus the work of all other forces. A step in which
links turn far satisfies this badly, and light links that spin inside a linkage gain energy in every step,
faster and faster. Where too much has been added, motion relative to the centre of mass is slowed down until
the balance holds, and the coordinates move at these velocities, as in energy-correcting integrators
(LaBudde, Greenspan, "Energy and momentum conserving methods of arbitrary order", 1976; Hairer, Lubich,
Wanner, "Geometric Numerical Integration", 2006, IV.4).

Single bodies follow the midpoint rule, which needs none of this.

Stage: last of a step, velocities in the new pose
Called by: kernels/constraints/step_end.py
Reads: BodyView, JointView, KinematicsView, LevelView, S, TreeView, 12 arrays
Writes: KinematicsView, body_q, body_qd, far, moving_qd, q_end, qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, alone, lanes
from newtonsim.kernels.trees.forward_kinematics import is_floating, move_joint, world_velocity
from newtonsim.kernels.trees.joint_forces import integrate_joint
from newtonsim.kernels.trees.rnea import body_wrench
from newtonsim.kernels.trees.tree_state import place_tree
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, LevelView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# rotation of a body in a step [rad] below which nothing is checked
FAR = wp.constant(0.3)
# share of the energy that a step may add unnoticed
UNNOTICED = wp.constant(0.1)


@wp.func
def note_far_turns(
    team: Team,
    tree: TreeView,
    joint: JointView,
    body_qd: wp.array(dtype=wp.spatial_vector),
    dt: float,
    far: wp.array(dtype=int),
):
    """far[t] = 1 if a body of a tree with several joints rotates far in a step; no `sync` at either end."""
    t = team.index
    if tree.joint_start[t + 1] - tree.joint_start[t] > 1:
        for i in range(tree.joint_start[t] + team.lane, tree.joint_start[t + 1], lanes(team)):
            spin = wp.spatial_top(body_qd[joint.child[tree.joint[i]]])
            if wp.dot(spin, spin) * dt * dt > FAR * FAR:
                far[t] = 1


@wp.func
def body_velocity(
    b: int,
    tree: wp.ref[TreeView],
    S: wp.array(dtype=wp.spatial_vector),
    base: wp.array(dtype=float),
    plus: wp.array(dtype=float),
    minus: wp.array(dtype=float),
) -> wp.spatial_vector:
    """Spatial velocity of body b at the joint velocities base + (plus - minus) / 2."""
    velocity = wp.spatial_vector()
    leaf = tree.body_leaf[b]
    if leaf >= 0:
        for k in range(tree.dof_depth[leaf] + 1):
            d = tree.row_dof[tree.dof_row[leaf] + k]
            velocity += S[d] * (base[d] + 0.5 * (plus[d] - minus[d]))
    return velocity


@wp.struct
class TreeMotion:
    """Momentum and energy of a tree."""

    mass: float  # [kg]
    momentum: wp.vec3  # [N s]
    energy: float  # kinetic, with that of the addition to the diagonal of its inertia [J]


@wp.func
def kinetic_energy(mass: float, com: wp.vec3, inertia: wp.mat33, velocity: wp.spatial_vector) -> float:
    """Kinetic energy of a body [J], given its spatial velocity about the origin, all in world axes."""
    w = wp.spatial_top(velocity)
    v = wp.spatial_bottom(velocity) + wp.cross(w, com)
    return 0.5 * (mass * wp.dot(v, v) + wp.dot(w, inertia * w))


@wp.func
def turning(mass: float, com: wp.vec3, inertia: wp.mat33, wrench: wp.spatial_vector) -> float:
    """Energy of the motion that a wrench about the origin gives a body at rest in 1 s, at most [J/s²].

    The rotational inertia about each axis is taken for a third of the trace, or more.
    """
    force = wp.spatial_bottom(wrench)
    torque = wp.spatial_top(wrench) - wp.cross(com, force)
    energy = float(0.0)
    if mass > 0.0:
        energy += 0.5 * wp.dot(force, force) / mass
    if wp.trace(inertia) > 0.0:
        energy += 1.5 * wp.dot(torque, torque) / wp.trace(inertia)
    return energy


@wp.func
def expected_motion(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    kin: wp.ref[KinematicsView],
    body_A: wp.array(dtype=wp.spatial_vector),
    lacking: wp.vec3,
    diagonal: wp.array(dtype=float),
    middle: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    free: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
) -> TreeMotion:
    """Motion in the next pose: the present one, and what velocity-dependent forces have taken from it.

    Where these forces are so large that motion would turn by more than one radian in the step, they tell
    nothing: the energy expected is that at the start.

    Args:
        t: The tree.
        tree: Topology.
        joint: Joints.
        body: Inertial parameters.
        kin: Poses at the start, and velocities at which those forces were evaluated.
        body_A: Accelerations there, less `lacking`.
        lacking: Gravity, or nothing for trees whose balance is that in free fall [m/s²].
        diagonal: Additions to the diagonal of the joint-space inertia.
        middle: Joint velocities in the middle of the step, the mean of those at its start and the predicted.
        predicted: Joint velocities with velocity-dependent forces of the start.
        free: Those without constraints.
        qd: Those at the end of the step.
        dt: Time step [s].
    """
    expected = TreeMotion()
    begun = float(0.0)
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        speed = 2.0 * middle[d] - predicted[d]
        begun += 0.5 * diagonal[d] * speed * speed
        expected.energy += 0.5 * diagonal[d] * qd[d] * qd[d]
    turned = float(0.0)
    moving = float(0.0)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        b = joint.child[tree.joint[i]]
        mass = body.mass[b]
        com = kin.body_com[b]
        inertia = kin.body_I[b]
        acceleration = body_A[b] + wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), lacking)
        wrench = body_wrench(mass, com, inertia, kin.body_V[b], acceleration, wp.spatial_vector())
        # at the mean of start and end, of which a step in place has overwritten the first
        mean = body_velocity(b, tree, kin.S, middle, free, predicted)
        expected.energy += dt * wp.dot(mean, wrench)
        start = 2.0 * kin.body_V[b] - body_velocity(b, tree, kin.S, predicted, predicted, predicted)
        begun += kinetic_energy(mass, com, inertia, start)
        end = body_velocity(b, tree, kin.S, qd, qd, qd)
        expected.energy += kinetic_energy(mass, com, inertia, end)
        p = mass * (wp.spatial_bottom(end) + wp.cross(wp.spatial_top(end), com))
        expected.momentum += p + dt * wp.spatial_bottom(wrench)
        turned += dt * dt * turning(mass, com, inertia, wrench)
        moving += kinetic_energy(mass, com, inertia, kin.body_V[b])
    if turned > moving or expected.energy < 0.0:
        expected.energy = begun
    return expected


@wp.func
def actual_motion(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    diagonal: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    qd: wp.array(dtype=float),
    body_qd: wp.array(dtype=wp.spatial_vector),
) -> TreeMotion:
    """Motion in the next pose, as the step has made it."""
    found = TreeMotion()
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        found.energy += 0.5 * diagonal[d] * qd[d] * qd[d]
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        b = joint.child[tree.joint[i]]
        v = wp.spatial_bottom(body_qd[b])
        w = wp.quat_rotate_inv(wp.transform_get_rotation(body_q[b]), wp.spatial_top(body_qd[b]))
        found.energy += 0.5 * (body.mass[b] * wp.dot(v, v) + wp.dot(w, body.inertia[b] * w))
        found.momentum += body.mass[b] * v
        found.mass += body.mass[b]
    return found


@wp.struct
class Slowing:
    """How much slower a tree becomes."""

    linear: int  # first linear dof of a floating root, -1 if the root is held
    before: wp.vec3  # velocity of the centre of mass [m/s]; zero if the root is held
    after: wp.vec3  # the same afterwards
    factor: float  # of motion relative to it


@wp.func
def slowing_of(t: int, tree: TreeView, joint: JointView, expected: TreeMotion, found: TreeMotion) -> Slowing:
    """What gives tree t the expected energy, if it has more, and the momentum if it floats."""
    slowing = Slowing()
    slowing.linear = -1
    root = tree.joint[tree.joint_start[t]]
    if is_floating(joint.type[root]) and joint.parent[root] < 0:
        slowing.linear = joint.qd_start[root] + 3
        slowing.before = found.momentum / found.mass
        slowing.after = expected.momentum / found.mass
        carried = 0.5 * found.mass * wp.dot(slowing.after, slowing.after)
        if carried > expected.energy:
            slowing.after *= wp.sqrt(wp.max(expected.energy, 0.0) / carried)
    within = found.energy - 0.5 * found.mass * wp.dot(slowing.before, slowing.before)
    wanted = expected.energy - 0.5 * found.mass * wp.dot(slowing.after, slowing.after)
    if within > 0.0:
        slowing.factor = wp.min(1.0, wp.sqrt(wp.max(wanted, 0.0) / within))
    return slowing


@wp.func
def slow_down(t: int, tree: TreeView, slowing: Slowing, qd: wp.array(dtype=float)):
    """Reduce joint velocities of tree t."""
    linear = slowing.linear
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        if linear >= 0 and d >= linear and d < linear + 3:
            k = d - linear
            qd[d] = slowing.after[k] + slowing.factor * (qd[d] - slowing.before[k])
        else:
            qd[d] = slowing.factor * qd[d]


@wp.func
def limit_energy(
    t: int,
    tree: wp.ref[TreeView],
    levels: wp.ref[LevelView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    lacking: wp.vec3,
    diagonal: wp.array(dtype=float),
    middle: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    free: wp.array(dtype=float),
    mid: wp.ref[KinematicsView],
    mid_A: wp.array(dtype=wp.spatial_vector),
    dt: float,
    kin: wp.ref[KinematicsView],
    moving_qd: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    q_end: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """Take from a tree the energy that is due to the length of a step, and move it at these velocities.

    Args:
        t: The tree.
        tree: Topology.
        levels: Its levels.
        joint: Joints.
        body: Inertial parameters.
        lacking: Gravity that the accelerations omit [m/s²], see `expected_motion`.
        diagonal: Additions to the diagonal of the joint-space inertia.
        middle: Joint velocities in the middle of the step.
        predicted: Those with velocity-dependent forces of the start.
        free: Those without constraints.
        mid: Velocities at which velocity-dependent forces were evaluated, in the pose at the start.
        mid_A: Accelerations there, less `lacking`.
        dt: Time step [s].
        kin: Frames and velocities at the end.
        moving_qd: Velocities at which the coordinates move.
        qd: Joint velocities at the end.
        q_end: Joint coordinates there.
        body_q: Poses of the bodies there.
        body_qd: Velocities of the bodies there.
    """
    expected = expected_motion(
        t, tree, joint, body, mid, mid_A, lacking, diagonal, middle, predicted, free, qd, dt
    )
    found = actual_motion(t, tree, joint, body, diagonal, body_q, qd, body_qd)
    if not found.energy > (1.0 + UNNOTICED) * wp.max(expected.energy, 0.0):
        return
    slowing = slowing_of(t, tree, joint, expected, found)
    slow_down(t, tree, slowing, qd)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        # back, since a step in place has overwritten where they were
        integrate_joint(tree.joint[i], joint, body.com, q_end, moving_qd, -dt, q_end)
    slow_down(t, tree, slowing, moving_qd)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        integrate_joint(tree.joint[i], joint, body.com, q_end, moving_qd, dt, q_end)
    place_tree(alone(t), tree, levels, joint, body, q_end, qd, kin, body_q, body_qd)
    found = actual_motion(t, tree, joint, body, diagonal, body_q, qd, body_qd)
    slow_down(t, tree, slowing_of(t, tree, joint, expected, found), qd)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        j = tree.joint[i]
        move_joint(j, joint, qd, kin)
        body_qd[joint.child[j]] = world_velocity(joint.child[j], body, kin)
