"""What actuators of a model act on: lengths, their rates, and the wrenches of a unit of force.

An actuator pulls along a length l with a force f. What acts on the bodies or coordinates is f times the
change of l with their motion; for a frame without a frame of reference, which has no length, it is f times
the gear. A force in a frame of reference acts on the body of that frame, too, but not on coordinates that
move both bodies: their last common ancestor takes what the pair of forces would turn them with.

A crank of length L pushes a slider along the axis a of its frame; with v from the slider's frame to the pin,
its place is l = a·v - √((a·v)² + L² - v²), or a·v where the pin is out of reach.

Source: MuJoCo's documentation, "Computation: Actuation model" and "XML reference: actuator/general".

Stage: forces at the start of a step, of actuators
Called by: solvers/model_actuators.py
Reads: TransmissionView, body_com, body_q, body_qd, q, qd, tendon_length, tendon_rate
Writes: arm, length, rate
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# what an actuator acts on: a coordinate with one dof, a tendon, a ball joint along the gear in the child's or
# in the parent's frame, a free joint likewise, a frame, a frame against another one, a crank, contacts
ON_DOF = wp.constant(0)
ON_TENDON = wp.constant(1)
ON_BALL = wp.constant(2)
ON_BALL_IN_PARENT = wp.constant(3)
ON_FREE = wp.constant(4)
ON_FREE_IN_PARENT = wp.constant(5)
ON_FRAME = wp.constant(6)
ON_FRAMES = wp.constant(7)
ON_CRANK = wp.constant(8)
ON_CONTACTS = wp.constant(9)
# bodies on which one actuator acts
SIDES = wp.constant(3)
# smallest sine of half an angle that is divided by, and smallest square of a crank's height [m^2]
SMALL = wp.constant(1.0e-4)
FLAT = wp.constant(1.0e-12)


@wp.struct
class TransmissionView:
    """What N actuators act on, in the order of their worlds; A actuators of the model."""

    kind: wp.array(dtype=int)  # (N) ON_*
    dof: wp.array(dtype=int)  # (N) or -1
    coord: wp.array(dtype=int)  # (N) or -1
    tendon: wp.array(dtype=int)  # (N) or -1
    body: wp.array(dtype=int)  # (3 N) of the frame, of the frame of reference, common ancestor; or -1
    frame: wp.array(dtype=wp.transform)  # (N) in the first body
    reference: wp.array(dtype=wp.transform)  # (N) in the second one
    force: wp.array(dtype=wp.vec3)  # (N) first three gears
    torque: wp.array(dtype=wp.vec3)  # (N) last three gears
    crank: wp.array(dtype=float)  # (N) [m] length of the rod


@wp.func
def frame_in_world(b: int, frame: wp.transform, body_q: wp.array(dtype=wp.transform)) -> wp.transform:
    """A frame of body b."""
    X = frame
    if b >= 0:
        X = wp.transform_multiply(body_q[b], frame)
    return X


@wp.func
def turn_vector(q: wp.quat) -> wp.vec3:
    """Shortest rotation vector of a unit quaternion [rad]."""
    sign = wp.where(q[3] < 0.0, -1.0, 1.0)
    v = sign * wp.vec3(q[0], q[1], q[2])
    w = sign * q[3]
    turn = 2.0 / wp.max(w, SMALL) * v
    size = wp.length(v)
    if size > SMALL:
        turn = (2.0 * wp.atan2(size, w) / size) * v
    return turn


@wp.func
def push_at(
    b: int,
    x: wp.vec3,
    torque: wp.vec3,
    force: wp.vec3,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
) -> wp.spatial_vector:
    """Wrench about the centre of mass of body b of a torque and a force at x; none on the world."""
    wrench = wp.spatial_vector()
    if b >= 0:
        com = wp.transform_point(body_q[b], body_com[b])
        wrench = wp.spatial_vector(torque + wp.cross(x - com, force), force)
    return wrench


@wp.kernel
def measure_actuators(
    first: int,
    view: TransmissionView,
    body_com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    tendon_length: wp.array(dtype=float),
    tendon_rate: wp.array(dtype=float),
    arm: wp.array(dtype=wp.spatial_vector),
    length: wp.array(dtype=float),
    rate: wp.array(dtype=float),
):
    """One thread per actuator: its length, the rate of it, and the wrenches of a unit of force."""
    i = first + wp.tid()
    kind = view.kind[i]
    gear = view.force[i]
    turn = view.torque[i]
    l = float(0.0)
    speed = float(0.0)
    if kind == ON_DOF:
        l = gear[0] * q[view.coord[i]]
        speed = gear[0] * qd[view.dof[i]]
    if kind == ON_TENDON:
        l = gear[0] * tendon_length[view.tendon[i]]
        speed = gear[0] * tendon_rate[view.tendon[i]]
    if kind >= ON_BALL and kind < ON_CONTACTS:
        b0 = view.body[SIDES * i]
        b1 = view.body[SIDES * i + 1]
        X0 = frame_in_world(b0, view.frame[i], body_q)
        X1 = frame_in_world(b1, view.reference[i], body_q)
        x0 = wp.transform_get_translation(X0)
        x1 = wp.transform_get_translation(X1)
        R0 = wp.transform_get_rotation(X0)
        R1 = wp.transform_get_rotation(X1)
        force = wp.vec3(0.0, 0.0, 0.0)
        torque = wp.vec3(0.0, 0.0, 0.0)
        opposite = wp.vec3(0.0, 0.0, 0.0)
        if kind == ON_BALL or kind == ON_BALL_IN_PARENT:
            torque = wp.quat_rotate(R0, gear)
            if kind == ON_BALL_IN_PARENT:
                torque = wp.quat_rotate(R1, gear)
            opposite = -torque
            l = wp.dot(torque, wp.quat_rotate(R1, turn_vector(wp.quat_inverse(R1) * R0)))
        elif kind == ON_FREE or kind == ON_FREE_IN_PARENT:
            force = gear
            torque = wp.quat_rotate(R0, turn)
            if kind == ON_FREE_IN_PARENT:
                torque = turn
        elif kind == ON_FRAME:
            force = wp.quat_rotate(R0, gear)
            torque = wp.quat_rotate(R0, turn)
        elif kind == ON_FRAMES:
            force = wp.quat_rotate(R1, gear)
            torque = wp.quat_rotate(R1, turn)
            opposite = -torque
            l = wp.dot(force, x0 - x1) + wp.dot(turn, turn_vector(wp.quat_inverse(R1) * R0))
            if view.body[SIDES * i + 2] >= 0:
                arm[SIDES * i + 2] = wp.spatial_vector(wp.cross(force, x0 - x1), wp.vec3(0.0, 0.0, 0.0))
        elif kind == ON_CRANK:
            a = wp.quat_rotate(R1, wp.vec3(0.0, 0.0, 1.0))
            v = x0 - x1
            along = wp.dot(a, v)
            square = along * along + view.crank[i] * view.crank[i] - wp.dot(v, v)
            l = gear[0] * along
            force = gear[0] * a
            opposite = gear[0] * wp.cross(a, v)
            if square > FLAT:
                height = wp.sqrt(square)
                l = gear[0] * (along - height)
                force = gear[0] * ((1.0 - along / height) * a + v / height)
                opposite = (gear[0] * (1.0 - along / height)) * wp.cross(a, v)
        w0 = push_at(b0, x0, torque, force, body_com, body_q)
        arm[SIDES * i] = w0
        if b0 >= 0:
            speed += wp.dot(w0, body_qd[b0])
        if kind != ON_FREE and kind != ON_FREE_IN_PARENT and kind != ON_FRAME:
            w1 = push_at(b1, x1, opposite, -force, body_com, body_q)
            arm[SIDES * i + 1] = w1
            if b1 >= 0:
                speed += wp.dot(w1, body_qd[b1])
        if kind == ON_FRAMES and view.body[SIDES * i + 2] >= 0:
            common = wp.cross(force, x0 - x1)
            speed += wp.dot(common, wp.spatial_top(body_qd[view.body[SIDES * i + 2]]))
    length[i] = l
    rate[i] = speed
