"""Sensors of environments, one row of readings per world: inertial, contact, joint; and noise on all.

Stage: environment, sensors
Called by: newtonsim/envs/contact_pairs.py, newtonsim/envs/sensors.py
Reads: ContactView, DriveView, EnvView, ImuView, ShapeView, SoleView, 10 arrays
Writes: EnvView, ImuView, SoleView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.envs.views import SENSE, EnvView, random_of
from newtonsim.kernels.trees.joint_forces import bounded_effort, drive_effort
from newtonsim.kernels.views.model import MODE_FORCE, DriveView
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

TOUCHING = wp.constant(1.0e-3)  # [m] gap up to which surfaces count as touching


@wp.struct
class SoleView:
    """The sole of each of the B bodies of a world: points x of its frame with up · x <= top."""

    up: wp.array(dtype=wp.vec3)  # (B) unit; zero for a body that has none
    top: wp.array(dtype=float)  # (B) [m]; negative for a body that has none
    rigid: wp.array(dtype=int)  # (B) first of the bodies to which a body is fixed, or itself
    tree: wp.array(dtype=int)  # tree of each body of all worlds
    gap: wp.array2d(dtype=float)  # (W, B) least gap under soles of bodies fixed to each other, at most 0 [m]


@wp.struct
class ImuView:
    """An inertial measurement unit in each of W worlds."""

    body: int  # body that carries it, counted from the first of its world
    pose: wp.transform  # in the body's frame
    column: int  # first of its readings
    gravity: wp.array(dtype=wp.vec3)  # (W) [m/s²]
    velocity: wp.array(dtype=wp.vec3)  # (W) [m/s] world, before the step
    orientation: wp.array(dtype=wp.quat)  # (W) in the world, before the step


@wp.func
def imu_velocity(env: EnvView, imu: ImuView, b: int) -> wp.vec3:
    """Velocity of the unit on body b, world axes."""
    X = env.body_q[b]
    arm = wp.transform_point(X, wp.transform_get_translation(imu.pose)) - wp.transform_point(
        X, env.body_com[b]
    )
    return wp.spatial_bottom(env.body_qd[b]) + wp.cross(wp.spatial_top(env.body_qd[b]), arm)


@wp.func
def imu_orientation(env: EnvView, imu: ImuView, b: int) -> wp.quat:
    """Orientation of the unit on body b in the world."""
    return wp.transform_get_rotation(env.body_q[b]) * wp.transform_get_rotation(imu.pose)


@wp.kernel
def note_motion(first: int, env: EnvView, imu: ImuView):
    """One thread per world: store velocity and orientation before the step."""
    w = first + wp.tid()
    b = w * env.bodies + imu.body
    imu.velocity[w] = imu_velocity(env, imu, b)
    imu.orientation[w] = imu_orientation(env, imu, b)


@wp.kernel
def sense_motion(first: int, env: EnvView, imu: ImuView, mask: wp.array(dtype=bool), fresh: int):
    """One thread per world: specific force, angular velocity, orientation.

    The force is the mean over the step, in the axes midway between those before and after it, which is
    second-order accurate for a rotating unit. At the start of an episode, nothing has accelerated yet.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    b = w * env.bodies + imu.body
    q = imu_orientation(env, imu, b)
    axes = q
    force = -imu.gravity[w]
    if fresh == 0:
        force = force + (imu_velocity(env, imu, b) - imu.velocity[w]) / env.control_dt
        before = imu.orientation[w]
        if wp.dot(before, q) < 0.0:
            before = -before
        axes = wp.normalize(before + q)
    force = wp.quat_rotate_inv(axes, force)
    spin = wp.quat_rotate_inv(q, wp.spatial_top(env.body_qd[b]))
    for i in range(3):
        env.sensed[w, imu.column + i] = force[i]
        env.sensed[w, imu.column + 3 + i] = spin[i]
    for i in range(4):
        env.sensed[w, imu.column + 6 + i] = q[i]


@wp.kernel
def sense_touch(
    first: int,
    env: EnvView,
    wrench: wp.array(dtype=wp.spatial_vector),
    body: wp.array(dtype=int),
    threshold: float,
    column: int,
    mask: wp.array(dtype=bool),
    fresh: int,
):
    """One thread per world: for each body the force of its contacts, world axes, and 1 if it is large.

    At the start of an episode, no step has found contacts.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    for k in range(body.shape[0]):
        force = wp.vec3(0.0, 0.0, 0.0)
        if fresh == 0:
            force = wp.spatial_bottom(wrench[w * env.bodies + body[k]])
        for i in range(3):
            env.sensed[w, column + 4 * k + i] = force[i]
        env.sensed[w, column + 4 * k + 3] = wp.where(wp.length(force) > threshold, 1.0, 0.0)


@wp.func
def note_sole(env: EnvView, w: int, soles: SoleView, body: int, x: wp.vec3, gap: float):
    """Note the gap at point x of a body of world w, in its frame, if the point belongs to its sole."""
    b = body - w * env.bodies
    if body >= 0 and b >= 0 and b < env.bodies:
        if wp.dot(soles.up[b], x) <= soles.top[b]:
            soles.gap[w, soles.rigid[b]] = wp.min(soles.gap[w, soles.rigid[b]], gap)


@wp.func
def mark_touch(env: EnvView, w: int, column: int, soles: SoleView, body: int, x: wp.vec3, gap: float):
    """Mark a body of world w that touches at x, in its frame, unless that belongs to its sole."""
    b = body - w * env.bodies
    if body >= 0 and b >= 0 and b < env.bodies:
        if wp.dot(soles.up[b], x) > soles.top[b] and gap - soles.gap[w, soles.rigid[b]] <= TOUCHING:
            env.sensed[w, column + b] = 1.0


@wp.func
def touches_other(contacts: ContactView, soles: SoleView, c: int, b0: int, b1: int) -> bool:
    """Whether bodies, or the world for -1, touch in contact c and are not of the same tree."""
    touch = contacts.distance[c] <= TOUCHING
    if b0 >= 0 and b1 >= 0:
        touch = touch and soles.tree[b0] != soles.tree[b1]
    return touch


@wp.kernel
def sense_undesired(
    first: int,
    env: EnvView,
    contacts: ContactView,
    shape: ShapeView,
    soles: SoleView,
    column: int,
    mask: wp.array(dtype=bool),
    fresh: int,
):
    """One thread per world: for each body 1 if it touches what is not its own tree, other than with its sole.

    A sole that sinks into soft ground takes the leg above with it: what is less deep than the sole of the
    same body, or of one that is fixed to it, does not touch. At the start of an episode, no step has found
    contacts.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    for b in range(env.bodies):
        env.sensed[w, column + b] = 0.0
        soles.gap[w, b] = 0.0
    if fresh == 1:
        return
    begin = contacts.world_start[w]
    end = begin + contacts.world_count[w]
    for c in range(begin, end):
        b0 = shape.body[contacts.shape0[c]]
        b1 = shape.body[contacts.shape1[c]]
        if touches_other(contacts, soles, c, b0, b1):
            note_sole(env, w, soles, b0, contacts.point0[c] + contacts.offset0[c], contacts.distance[c])
            note_sole(env, w, soles, b1, contacts.point1[c] + contacts.offset1[c], contacts.distance[c])
    for c in range(begin, end):
        b0 = shape.body[contacts.shape0[c]]
        b1 = shape.body[contacts.shape1[c]]
        if touches_other(contacts, soles, c, b0, b1):
            x0 = contacts.point0[c] + contacts.offset0[c]
            x1 = contacts.point1[c] + contacts.offset1[c]
            mark_touch(env, w, column, soles, b0, x0, contacts.distance[c])
            mark_touch(env, w, column, soles, b1, x1, contacts.distance[c])


@wp.kernel
def show_readings(
    first: int,
    env: EnvView,
    readings: wp.array2d(dtype=float),
    column: int,
    mask: wp.array(dtype=bool),
    fresh: int,
):
    """One thread per world: readings of a step; zeros at the start of an episode, before any step."""
    w = first + wp.tid()
    if not mask[w]:
        return
    for k in range(readings.shape[1]):
        env.sensed[w, column + k] = wp.where(fresh == 1, 0.0, readings[w, k])


@wp.kernel
def sense_joints(
    first: int,
    env: EnvView,
    drive: DriveView,
    act: wp.array(dtype=float),
    force: wp.array(dtype=float),
    dof: wp.array(dtype=int),
    coord: wp.array(dtype=int),
    axis: wp.array(dtype=int),
    column: int,
    mask: wp.array(dtype=bool),
    fresh: int,
):
    """One thread per world: positions, velocities, and efforts of the drives plus those given directly.

    Drives act with the position and velocity at the end of a solver step, which is what the state holds. At
    the start of an episode, none has acted yet.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    n = dof.shape[0]
    for k in range(n):
        d = w * env.dofs + dof[k]
        a = w * env.axes + axis[k]
        q = env.joint_q[w * env.coords + coord[k]]
        v = env.joint_qd[d]
        effort = float(0.0)
        if fresh == 0:
            effort = act[a]
            if drive.mode[a] != MODE_FORCE:
                effort = drive_effort(drive, a, act[a], q, v)
            effort = bounded_effort(drive, a, effort) + force[d]
        env.sensed[w, column + k] = q
        env.sensed[w, column + n + k] = v
        env.sensed[w, column + 2 * n + k] = effort


@wp.kernel
def add_noise(
    first: int, env: EnvView, deviation: wp.array(dtype=float), mask: wp.array(dtype=bool), fresh: int
):
    """One thread per reading: normal noise that depends on world, episode, step and reading alone."""
    i = first + wp.tid()
    n = deviation.shape[0]
    w = i // n
    c = i % n
    if mask[w] and deviation[c] > 0.0:
        purpose = SENSE
        if fresh == 0:
            purpose = SENSE - 1 - env.length[w]
        state = wp.rand_init(int(random_of(env, w, purpose)), c)
        env.sensed[w, c] = env.sensed[w, c] + deviation[c] * wp.randn(state)
