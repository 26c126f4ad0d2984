"""What sensors in joints read, as measured with PyBullet's module.

A step has two passes of forward dynamics there: forces with the velocities at its start, then the impulses
of motors, limits, contacts and constraints, with the velocities that the first pass led to. A sensor adds up
what its joint transmits in both. The second pass counts motors and limits as external: as a moment about the
axis, or as a force at the centres of mass of both links, which along a slider leaves out the moment of that
force about the parent. It counts again what depends on velocities: the acceleration v × S q̇ of each joint,
moments ω × I ω, the force m ω × v of a floating base, and the damping of bodies.

The wrench that the solver finds has the impulses with their true effect. What is added here is how the tree,
with joints that are free, answers the difference: the articulated-body algorithm (Featherstone, "Rigid Body
Dynamics Algorithms", 2008, section 7.3), in world axes about the tree's origin.

Stage: after a step, where forces are read
Called by: newtonsim/pybullet_compat/engine/sensors.py
Reads: BodyView, JointView, KinematicsView, TreeView, angular, impulse, limit_row, linear, motor_row, qd,
    wrench
Writes: SecondPassView, reading
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import cross_motion
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

STIFF = wp.constant(1.0e-12)
"""Inertia along a dof up to which it does not accelerate [kg m² or kg]."""


@wp.struct
class SecondPassView:
    """Intermediate results of the articulated-body algorithm, about the origin of each tree."""

    V: wp.array(dtype=wp.spatial_vector)  # (B) velocity
    A: wp.array(dtype=wp.spatial_vector)  # (B) acceleration
    inertia: wp.array(dtype=wp.spatial_matrix)  # (B) articulated inertia
    bias: wp.array(dtype=wp.spatial_vector)  # (B) articulated bias force
    c: wp.array(dtype=wp.spatial_vector)  # (D) acceleration of the dof by velocities
    U: wp.array(dtype=wp.spatial_vector)  # (D) inertia times axis
    resistance: wp.array(dtype=float)  # (D) inertia along the dof
    effort: wp.array(dtype=float)  # (D) generalised force along the dof
    own: wp.array(dtype=wp.spatial_vector)  # (J) moment and force of motor and limit, at the centre of mass


@wp.func
def rigid_inertia(mass: float, com: wp.vec3, inertia: wp.mat33) -> wp.spatial_matrix:
    """Spatial inertia about the origin, RBDA eq. 2.63; `inertia` is about the centre of mass."""
    c = wp.skew(com)
    top = inertia - mass * c * c
    side = mass * c
    result = wp.spatial_matrix()
    for i in range(3):
        for k in range(3):
            result[i, k] = top[i, k]
            result[i, k + 3] = side[i, k]
            result[i + 3, k] = side[k, i]
        result[i + 3, i + 3] = mass
    return result


@wp.func
def at_origin(torque: wp.vec3, force: wp.vec3, x: wp.vec3) -> wp.spatial_vector:
    """A wrench at a point as one about the origin."""
    return wp.spatial_vector(torque + wp.cross(x, force), force)


@wp.func
def damped(d: float, motion: wp.vec3) -> wp.vec3:
    """Deceleration by a medium."""
    return d * (1.0 + wp.length(motion)) * motion


@wp.func
def pushed_apart(S: wp.spatial_vector, force: float) -> wp.spatial_vector:
    """Moment about the axis of a joint, or force along it, that has a generalised force."""
    turning = wp.spatial_top(S)
    sliding = wp.spatial_bottom(S)
    size = wp.length_sq(turning)
    if size > 0.0:
        return wp.spatial_vector(force / size * turning, wp.vec3(0.0, 0.0, 0.0))
    return wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), force / wp.length_sq(sliding) * sliding)


@wp.kernel
def read_joint_sensors(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
    motor_row: wp.array(dtype=int),
    limit_row: wp.array(dtype=int),
    impulse: wp.array(dtype=float),
    rate: float,
    wrench: wp.array(dtype=wp.spatial_vector),
    work: SecondPassView,
    reading: wp.array(dtype=wp.spatial_vector),
):
    """One thread per tree: moment and force on the child of each joint at its centre of mass, world axes.

    `kin` has the pose at the start of the step, `qd` the velocities without impulses, `linear` and `angular`
    the damping of bodies. `impulse` times `rate` are forces of motors and limits, in the rows of each dof, -1
    for none, and `wrench` is what joints transmit, about their own frames.
    """
    t = first + wp.tid()
    begin = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    zero = wp.spatial_vector()
    for k in range(begin, end):
        j = tree.joint[k]
        b = joint.child[j]
        parent = joint.parent[j]
        floats = is_floating(joint.type[j])
        V = zero
        if parent >= 0:
            V = work.V[parent]
        before = V
        own = zero
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            rate_d = kin.S[d] * qd[d]
            work.c[d] = zero
            if not floats:
                work.c[d] = cross_motion(before, rate_d)
                effort = float(0.0)
                if motor_row[d] >= 0:
                    effort += rate * impulse[motor_row[d]]
                if limit_row[d] >= 0:
                    effort += rate * impulse[limit_row[d]]
                own = own + pushed_apart(kin.S[d], effort)
            V = V + rate_d
            if joint.type[j] != JOINT_BALL:
                before = V
        work.V[b] = V
        work.own[j] = own
        com = kin.body_com[b]
        mass = body.mass[b]
        w = wp.spatial_top(V)
        v = wp.spatial_bottom(V) + wp.cross(w, com)
        push = mass * damped(linear[b], v)
        if parent < 0 and floats:
            push = push + mass * wp.cross(w, v)
        turn = wp.cross(w, kin.body_I[b] * w) + kin.body_I[b] * damped(angular[b], w)
        work.inertia[b] = rigid_inertia(mass, com, kin.body_I[b])
        work.bias[b] = at_origin(turn, push, com)
        if parent >= 0:
            missing = wp.cross(com - kin.body_com[parent], wp.spatial_bottom(own))
            work.bias[parent] = work.bias[parent] - wp.spatial_vector(missing, wp.vec3(0.0, 0.0, 0.0))
    for back in range(end - begin):
        j = tree.joint[end - 1 - back]
        b = joint.child[j]
        parent = joint.parent[j]
        inertia = work.inertia[b]
        bias = work.bias[b]
        last = joint.qd_start[j + 1] - 1
        for i in range(joint.qd_start[j + 1] - joint.qd_start[j]):
            d = last - i
            U = inertia * kin.S[d]
            resistance = wp.dot(kin.S[d], U)
            along = -wp.dot(kin.S[d], bias)
            work.U[d] = U
            work.resistance[d] = resistance
            work.effort[d] = along
            if resistance > STIFF:
                inertia = inertia - wp.outer(U, U) / resistance
                bias = bias + U * (along / resistance)
            bias = bias + inertia * work.c[d]
        if parent >= 0:
            work.inertia[parent] = work.inertia[parent] + inertia
            work.bias[parent] = work.bias[parent] + bias
    for k in range(begin, end):
        j = tree.joint[k]
        b = joint.child[j]
        A = zero
        if joint.parent[j] >= 0:
            A = work.A[joint.parent[j]]
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            A = A + work.c[d]
            if work.resistance[d] > STIFF:
                A = A + kin.S[d] * ((work.effort[d] - wp.dot(work.U[d], A)) / work.resistance[d])
        work.A[b] = A
        com = kin.body_com[b]
        more = work.inertia[b] * A + work.bias[b]
        force = wp.spatial_bottom(wrench[j])
        anchor = wp.transform_get_translation(kin.body_X[b] * joint.X_c[j])
        torque = wp.spatial_top(wrench[j]) + wp.cross(anchor - com, force)
        torque = torque + wp.spatial_top(more) - wp.cross(com, wp.spatial_bottom(more))
        reading[j] = wp.spatial_vector(torque, force + wp.spatial_bottom(more)) - work.own[j]
