"""Rows between two bodies, for sweeps that correct velocities according to position errors.

The error of a row is measured at the end of the substep, nonlinearly; the wrench that removes it has the
direction of the start. This is SHAKE (Ryckaert, Ciccotti, Berendsen, "Numerical integration of the cartesian
equations of motion of a system with constraints", 1977), a symplectic method: swinging bodies keep their
energy, whereas directions at the end, as in Müller, Macklin, Chentanez, Jeschke, Kim, "Detailed rigid body
simulation with extended position based dynamics", SCA 2020, remove energy from every swing. Forces on both
bodies of a row act at one point, so that momentum and angular momentum are conserved.

Stage: substep in maximal coordinates, assembly of rows and sweeps
Called by: kernels/maximal/adjoint/modes.py, kernels/maximal/adjoint/row_terms.py,
    kernels/maximal/adjoint/system.py, kernels/maximal/contacts.py, kernels/maximal/joints.py,
    kernels/maximal/sweeps.py
Reads: JointView, LoopView, MotionView, RowView, SpinView
Writes: MotionView, RowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import quat_exp, unit_quat
from newtonsim.kernels.constraints.pair_rows import PairFrames
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.views.model import JointView
from newtonsim.kernels.views.pair_rows import (
    PAIR_COSINE,
    PAIR_DISTANCE,
    PAIR_OFFSET,
    PAIR_ROTATION,
    PAIR_SLIDE,
    PAIR_SWING,
    PAIR_TWIST,
    LoopView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# kinds of rows besides those of `pair_rows`
ROW_LINEAR_AXIS = wp.constant(8)
ROW_ANGULAR_AXIS = wp.constant(9)
ROW_BALL_DOF = wp.constant(10)
# an axis that both frames share: component of the rotation vector between its directions
ROW_TILT = wp.constant(-1)
TINY = wp.constant(1.0e-9)


@wp.struct
class SpinView:
    """Rotation of B bodies in a substep."""

    com: wp.array(dtype=wp.vec3)  # (B) [m] centres of mass in the world
    inv_inertia: wp.array(dtype=wp.mat33)  # (B) [1/(kg m²)] world axes
    middle: wp.array(dtype=wp.quat)  # (B) orientation in the middle of the substep
    shift: wp.array(
        dtype=wp.spatial_vector
    )  # (B) velocities that move bodies in the substep, and end with it
    entering: wp.array(dtype=wp.spatial_vector)  # (B) velocities at the start, before forces act
    weld: wp.array(dtype=int)  # (B) fixed joint that holds the body, -1 for another one, -2 for none
    limited: wp.array(dtype=int)  # (1) number of rotations of bodies that were limited in a substep


@wp.struct
class RowView:
    """Blocks of rows, one for each joint (N joints), then one for each constraint; R rows.

    Held rows of a block come first and are solved together; the others, axes and limits, have wrenches that
    do not affect these.
    """

    world_start: wp.array(dtype=int)  # (W + 1) in `block`
    block: wp.array(dtype=int)  # (N) ordered by world
    row_start: wp.array(dtype=int)  # (N + 1)
    held: wp.array(dtype=int)  # (N) number of held rows
    inverse: wp.array(dtype=wp.spatial_matrix)  # (N) of the mobility of the held rows
    kind: wp.array(dtype=int)  # (R)
    axis0: wp.array(dtype=wp.vec3)  # (R) in frame 0
    axis1: wp.array(dtype=wp.vec3)  # (R) in frame 1
    number: wp.array(dtype=int)  # (R) of an axis among the linear or the angular ones of its joint
    index: wp.array(dtype=int)  # (R) joint axis, or limits of a constraint, -1 for none
    dof: wp.array(dtype=int)  # (R) or -1
    coupled: wp.array(dtype=wp.vec2i)  # (R) rows of coupled axes
    force: wp.array(dtype=wp.vec3)  # (R) on body 1 for a unit impulse
    torque0: wp.array(dtype=wp.vec3)  # (R) about the centre of mass of body 0, to be subtracted there
    torque1: wp.array(dtype=wp.vec3)  # (R)
    turn0: wp.array(dtype=wp.vec3)  # (R) change of angular velocity
    turn1: wp.array(dtype=wp.vec3)  # (R)
    mobility: wp.array(dtype=float)  # (R) rate for a unit impulse
    start: wp.array(dtype=float)  # (R) measure of the row at the start of the substep
    before: wp.array(dtype=float)  # (R) mean rate in the last substep
    rate_excess: wp.array(dtype=float)  # (R) difference between that and the rate at the end of the last step
    rest: wp.array(dtype=float)  # (R) its measure at the end if its rate were 0
    scaled_compliance: wp.array(dtype=float)  # (R) compliance of a held row over the square of the substep
    goal: wp.array(dtype=float)  # (R) target of a held row at the end of the substep
    impulse: wp.array(dtype=float)  # (R) kept from step to step
    carried: wp.array(dtype=float)  # (R) impulse along an axis by couplings
    held_response: wp.array(dtype=wp.spatial_vector)  # (R) taken from held rows by a unit impulse
    relaxed: wp.array(dtype=float)  # (R) impulse by which velocities alone were corrected in the substep


@wp.struct
class Pair:
    """Two bodies and the frames of a row on them, in world axes."""

    q0: wp.quat  # orientation of frame 0
    q1: wp.quat
    d: wp.vec3  # [m] from the origin of frame 0 to that of frame 1
    r0: wp.vec3  # [m] from the centre of mass of body 0 to the origin of frame 1
    r1: wp.vec3  # [m] from that of body 1


@wp.struct
class Wrench:
    """Force at the origin of frame 1 and torque, on body 1; the opposite acts on body 0."""

    force: wp.vec3
    torque: wp.vec3


@wp.struct
class Twists:
    """Velocities of two bodies."""

    v0: wp.vec3
    w0: wp.vec3
    v1: wp.vec3
    w1: wp.vec3


@wp.func
def block_frames(k: int, joints: int, joint: JointView, loop: LoopView) -> PairFrames:
    """Bodies and frames of block k."""
    f = PairFrames()
    if k < joints:
        f.b0 = joint.parent[k]
        f.b1 = joint.child[k]
        f.X0 = joint.X_p[k]
        f.X1 = joint.X_c[k]
    else:
        c = k - joints
        f.b0 = loop.parent[c]
        f.b1 = loop.child[c]
        f.X0 = loop.X_p[c]
        f.X1 = loop.X_c[c]
    return f


@wp.func
def load_twists(f: PairFrames, bodies: MotionView) -> Twists:
    """Velocities of both bodies; body -1 stands still."""
    u = Twists()
    if f.b0 >= 0:
        u.v0 = wp.spatial_bottom(bodies.velocity[f.b0])
        u.w0 = wp.spatial_top(bodies.velocity[f.b0])
    if f.b1 >= 0:
        u.v1 = wp.spatial_bottom(bodies.velocity[f.b1])
        u.w1 = wp.spatial_top(bodies.velocity[f.b1])
    return u


@wp.func
def store_twists(f: PairFrames, u: Twists, bodies: MotionView):
    """Write the velocities of bodies that impulses move."""
    if f.b0 >= 0:
        if bodies.inv_mass[f.b0] > 0.0:
            bodies.velocity[f.b0] = wp.spatial_vector(u.w0, u.v0)
    if f.b1 >= 0:
        if bodies.inv_mass[f.b1] > 0.0:
            bodies.velocity[f.b1] = wp.spatial_vector(u.w1, u.v1)


@wp.func
def inverse_mass(b: int, bodies: MotionView) -> float:
    """Inverse mass of body b [1/kg], 0 for the world."""
    w = float(0.0)
    if b >= 0:
        w = bodies.inv_mass[b]
    return w


@wp.func
def pair_at(f: PairFrames, u: Twists, bodies: MotionView, spin: SpinView, dt: float) -> Pair:
    """Both frames after a time at constant velocities; distances stay exact for large coordinates."""
    o0 = wp.quat_identity()
    o1 = wp.quat_identity()
    c0 = wp.vec3(0.0)
    c1 = wp.vec3(0.0)
    a0 = wp.transform_get_translation(f.X0)
    a1 = wp.transform_get_translation(f.X1)
    if f.b0 >= 0:
        c0 = spin.com[f.b0]
        a0 = a0 - bodies.com[f.b0]
        o0 = wp.transform_get_rotation(bodies.origin[f.b0])
        if dt > 0.0:
            o0 = unit_quat(quat_exp(u.w0 * dt) * o0)
        a0 = wp.quat_rotate(o0, a0)
    if f.b1 >= 0:
        c1 = spin.com[f.b1]
        a1 = a1 - bodies.com[f.b1]
        o1 = wp.transform_get_rotation(bodies.origin[f.b1])
        if dt > 0.0:
            o1 = unit_quat(quat_exp(u.w1 * dt) * o1)
        a1 = wp.quat_rotate(o1, a1)
    p = Pair()
    p.q0 = o0 * wp.transform_get_rotation(f.X0)
    p.q1 = o1 * wp.transform_get_rotation(f.X1)
    p.d = (c1 - c0) + dt * (u.v1 - u.v0) + (a1 - a0)
    p.r0 = p.d + a0
    p.r1 = a1
    return p


@wp.func
def relative_rotation(p: Pair) -> wp.quat:
    """Shortest rotation from frame 0 to frame 1."""
    q = wp.quat_inverse(p.q0) * p.q1
    if q[3] < 0.0:
        q = -q
    return q


@wp.func
def row_value(kind: int, p: Pair, axis0: wp.vec3, axis1: wp.vec3) -> float:
    """Measure of a row: a length [m] or an angle [rad]."""
    value = float(0.0)
    if kind == PAIR_OFFSET or kind == PAIR_SLIDE:
        value = wp.dot(wp.quat_rotate(p.q0, axis0), p.d)
    elif kind == PAIR_COSINE:
        n0 = wp.quat_rotate(p.q0, axis0)
        n1 = wp.quat_rotate(p.q1, axis1)
        # by angles, since the slope of the cosine vanishes if bodies are far from their place
        goal = wp.atan2(wp.length(wp.cross(axis0, axis1)), wp.dot(axis0, axis1))
        value = goal - wp.atan2(wp.length(wp.cross(n0, n1)), wp.dot(n0, n1))
    elif kind == ROW_TILT:
        a0 = wp.quat_rotate(p.q0, axis1)
        a1 = wp.quat_rotate(p.q1, axis1)
        c = wp.cross(a0, a1)
        sine = wp.length(c)
        angle = wp.atan2(sine, wp.dot(a0, a1))
        # opposite directions differ by half a turn about any normal
        value = angle
        if sine > 1.0e-6:
            value = wp.dot(wp.quat_rotate(p.q0, axis0), c) * (angle / sine)
        elif angle < 1.0:
            value = wp.dot(wp.quat_rotate(p.q0, axis0), c)
    elif kind == PAIR_ROTATION:
        q = relative_rotation(p)
        v = wp.vec3(q[0], q[1], q[2])
        sine = wp.length(v)
        scale = float(2.0)
        if sine > 1.0e-4:
            scale = 2.0 * wp.atan2(sine, q[3]) / sine
        value = scale * wp.dot(v, axis0)
    elif kind == PAIR_TWIST:
        q = relative_rotation(p)
        value = 2.0 * wp.atan2(wp.dot(wp.vec3(q[0], q[1], q[2]), axis0), q[3])
    elif kind == PAIR_SWING:
        n0 = wp.quat_rotate(p.q0, axis0)
        n1 = wp.quat_rotate(p.q1, axis0)
        value = wp.atan2(wp.length(wp.cross(n0, n1)), wp.dot(n0, n1))
    elif kind == PAIR_DISTANCE:
        value = wp.length(p.d)
    return value


@wp.func
def row_wrench(kind: int, p: Pair, axis0: wp.vec3, axis1: wp.vec3) -> Wrench:
    """The wrench whose power is the rate of a row."""
    w = Wrench()
    n0 = wp.quat_rotate(p.q0, axis0)
    if kind == PAIR_OFFSET or kind == PAIR_SLIDE:
        w.force = n0
    elif kind == PAIR_COSINE:
        t = wp.cross(wp.quat_rotate(p.q1, axis1), n0)
        size = wp.length(t)
        if size > TINY:
            w.torque = t / size
    elif kind == PAIR_ROTATION or kind == ROW_TILT:
        w.torque = n0
    elif kind == PAIR_TWIST:
        n1 = wp.quat_rotate(p.q1, axis0)
        # the decomposition is singular at a swing by half a turn
        w.torque = (n0 + n1) / wp.max(1.0 + wp.dot(n0, n1), 0.1)
    elif kind == PAIR_SWING:
        u = wp.cross(n0, wp.quat_rotate(p.q1, axis0))
        sine = wp.length(u)
        if sine > TINY:
            w.torque = u / sine
    elif kind == PAIR_DISTANCE:
        length = wp.length(p.d)
        # if the anchors coincide, any direction will do
        w.force = wp.vec3(0.0, 1.0, 0.0)
        if length > TINY:
            w.force = p.d / length
    return w


@wp.func
def row_rate(r: int, u: Twists, rows: RowView) -> float:
    """Rate of row r."""
    return wp.dot(rows.force[r], u.v1 - u.v0) + wp.dot(rows.torque1[r], u.w1) - wp.dot(rows.torque0[r], u.w0)


@wp.func
def push(r: int, x: float, m0: float, m1: float, u: Twists, rows: RowView) -> Twists:
    """Velocities after an impulse x along row r, of bodies with inverse masses m0 and m1."""
    n = rows.force[r] * x
    e = Twists()
    e.v0 = u.v0 - n * m0
    e.w0 = u.w0 - rows.turn0[r] * x
    e.v1 = u.v1 + n * m1
    e.w1 = u.w1 + rows.turn1[r] * x
    return e


@wp.func
def place_wrench(
    r: int, w: Wrench, p: Pair, f: PairFrames, bodies: MotionView, spin: SpinView, rows: RowView
):
    """Store the wrench of row r, and the changes of angular velocity that it causes."""
    rows.force[r] = w.force
    rows.torque0[r] = w.torque + wp.cross(p.r0, w.force)
    rows.torque1[r] = w.torque + wp.cross(p.r1, w.force)
    rows.turn0[r] = wp.vec3(0.0)
    rows.turn1[r] = wp.vec3(0.0)
    if f.b0 >= 0:
        rows.turn0[r] = spin.inv_inertia[f.b0] * rows.torque0[r]
    if f.b1 >= 0:
        rows.turn1[r] = spin.inv_inertia[f.b1] * rows.torque1[r]


@wp.func
def coupling(r: int, s: int, m: float, rows: RowView) -> float:
    """Rate of row r for a unit impulse along row s of the same bodies; m is the sum of inverse masses."""
    return (
        m * wp.dot(rows.force[r], rows.force[s])
        + wp.dot(rows.torque0[r], rows.turn0[s])
        + wp.dot(rows.torque1[r], rows.turn1[s])
    )


@wp.func_native(
    """
    auto A = K;
    for (int k = 0; k < n; ++k) {
        const float pivot = A.data[k][k];
        if (!(pivot > 1.0e-6f * K.data[k][k] && K.data[k][k] > 0.0f)) {
            for (int i = 0; i < n; ++i) A.data[i][k] = A.data[k][i] = 0.0f;
            continue;
        }
        const float scale = 1.0f / pivot;
        A.data[k][k] = 1.0f;
        for (int j = 0; j < 6; ++j) A.data[k][j] *= scale;
        for (int i = 0; i < n; ++i) {
            if (i == k) continue;
            const float factor = A.data[i][k];
            A.data[i][k] = 0.0f;
            for (int j = 0; j < 6; ++j) A.data[i][j] -= factor * A.data[k][j];
        }
    }
    return A;
    """
)
def invert(K: wp.spatial_matrix, n: int) -> wp.spatial_matrix:
    """Inverse of the leading n rows and columns of a positive semidefinite matrix, by Gauss and Jordan.

    A row that depends on previous ones, or along which nothing moves, gets zeros and exerts no impulse; its
    pivot is only rounding.
    """
    ...
