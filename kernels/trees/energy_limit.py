"""Kinetic energy that a step adds to fast linkages by its length, and its removal.

Velocity-dependent forces do no work beyond that of the change of the joint-space inertia with the pose: the
kinetic energy in the next pose is that in the present one, plus the work of all other forces. A step in which
links turn far satisfies this badly, and light links that spin inside a linkage gain energy in every step,
faster and faster. Where too much has been added, motion relative to the centre of mass is slowed down until
the balance holds, as in energy-correcting integrators (LaBudde, Greenspan, "Energy and momentum conserving
methods of arbitrary order", 1976; Hairer, Lubich, Wanner, "Geometric Numerical Integration", 2006, IV.4).

Single bodies follow the midpoint rule, which needs none of this.

Stage: last of a step, velocities in the new pose
Called by: kernels/constraints/step_end.py
Reads: BodyView, JointView, KinematicsView, L, S, TreeView, 9 arrays
Writes: KinematicsView, body_qd, far, qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import doti
from newtonsim.kernels.algebra.teams import Team, lanes
from newtonsim.kernels.trees.forward_kinematics import is_floating, move_joint, world_velocity
from newtonsim.kernels.trees.rnea import body_wrench
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, TreeView

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
def velocity_between(
    b: int,
    tree: wp.ref[TreeView],
    S: wp.array(dtype=wp.spatial_vector),
    start: wp.array(dtype=float),
    end: wp.array(dtype=float),
) -> wp.spatial_vector:
    """Spatial velocity of body b at the mean of two velocities of the joints."""
    velocity = wp.spatial_vector()
    leaf = tree.body_leaf[b]
    if leaf >= 0:
        for k in range(tree.dof_depth[leaf] + 1):
            d = tree.row_dof[tree.dof_row[leaf] + k]
            velocity += S[d] * (0.5 * (start[d] + end[d]))
    return velocity


@wp.struct
class TreeMotion:
    """Momentum and energy of a tree."""

    mass: float  # [kg]
    momentum: wp.vec3  # [N s]
    energy: float  # kinetic, with that of the addition to the diagonal of its inertia [J]


@wp.func
def expected_motion(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    kin: wp.ref[KinematicsView],
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.vec3,
    L: wp.array(dtype=float),
    start: wp.array(dtype=float),
    free: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
) -> TreeMotion:
    """Motion in the next pose: the present one, and what velocity-dependent forces have taken from it.

    Args:
        t: The tree.
        tree: Topology.
        joint: Joints.
        body: Inertial parameters.
        kin: Poses at the start, and velocities at which those forces were evaluated.
        body_A: Accelerations there, less gravity.
        gravity: Gravity [m/s²].
        L: Factors of the joint-space inertia.
        start: Joint velocities at the start of the step.
        free: Those without constraints.
        qd: Those at its end.
        dt: Time step [s].
    """
    expected = TreeMotion()
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        row = tree.dof_row[d]
        depth = tree.dof_depth[d]
        z = (qd[d] + doti(depth, L, tree.row_dof, row, qd)) / L[row + depth]
        expected.energy += 0.5 * z * z
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        b = joint.child[tree.joint[i]]
        com = kin.body_com[b]
        acceleration = body_A[b] + wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), gravity)
        wrench = body_wrench(
            body.mass[b], com, kin.body_I[b], kin.body_V[b], acceleration, wp.spatial_vector()
        )
        expected.energy += dt * wp.dot(velocity_between(b, tree, kin.S, start, free), wrench)
        end = velocity_between(b, tree, kin.S, qd, qd)
        p = body.mass[b] * (wp.spatial_bottom(end) + wp.cross(wp.spatial_top(end), com))
        expected.momentum += p + dt * wp.spatial_bottom(wrench)
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


@wp.func
def slow_down(
    t: int,
    tree: TreeView,
    joint: JointView,
    expected: TreeMotion,
    found: TreeMotion,
    qd: wp.array(dtype=float),
):
    """Reduce joint velocities to the expected energy; a floating tree keeps its momentum."""
    root = tree.joint[tree.joint_start[t]]
    floats = is_floating(joint.type[root]) and joint.parent[root] < 0
    before = wp.vec3(0.0, 0.0, 0.0)
    after = wp.vec3(0.0, 0.0, 0.0)
    if floats:
        before = found.momentum / found.mass
        after = expected.momentum / found.mass
    within = found.energy - 0.5 * found.mass * wp.dot(before, before)
    wanted = expected.energy - 0.5 * found.mass * wp.dot(after, after)
    factor = float(0.0)
    if within > 0.0:
        factor = wp.min(1.0, wp.sqrt(wp.max(wanted, 0.0) / within))
    linear = joint.qd_start[root] + 3
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[i]
        if floats and d >= linear and d < linear + 3:
            qd[d] = after[d - linear] + factor * (qd[d] - before[d - linear])
        else:
            qd[d] = factor * qd[d]


@wp.func
def limit_energy(
    t: int,
    tree: wp.ref[TreeView],
    joint: wp.ref[JointView],
    body: wp.ref[BodyView],
    gravity: wp.vec3,
    L: wp.array(dtype=float),
    diagonal: wp.array(dtype=float),
    start: wp.array(dtype=float),
    free: wp.array(dtype=float),
    mid: wp.ref[KinematicsView],
    mid_A: wp.array(dtype=wp.spatial_vector),
    body_q: wp.array(dtype=wp.transform),
    dt: float,
    kin: wp.ref[KinematicsView],
    qd: wp.array(dtype=float),
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """Take from the velocities of a tree at the end of a step the energy that is due to its length.

    Args:
        t: The tree.
        tree: Topology.
        joint: Joints.
        body: Inertial parameters.
        gravity: Gravity [m/s²].
        L: Factors of the joint-space inertia.
        diagonal: Additions to its diagonal.
        start: Joint velocities at the start of the step.
        free: Those without constraints.
        mid: Velocities at which velocity-dependent forces were evaluated, in the pose at the start.
        mid_A: Accelerations there, less gravity.
        body_q: Poses at the end.
        dt: Time step [s].
        kin: The same, and velocities there.
        qd: Joint velocities there.
        body_qd: Velocities of the bodies there.
    """
    expected = expected_motion(t, tree, joint, body, mid, mid_A, gravity, L, start, free, qd, dt)
    found = actual_motion(t, tree, joint, body, diagonal, body_q, qd, body_qd)
    if not found.energy > (1.0 + UNNOTICED) * wp.max(expected.energy, 0.0):
        return
    slow_down(t, tree, joint, expected, found, qd)
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        j = tree.joint[i]
        move_joint(j, joint, qd, kin)
        body_qd[joint.child[j]] = world_velocity(joint.child[j], body, kin)
