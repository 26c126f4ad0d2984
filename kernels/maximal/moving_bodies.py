"""Rigid bodies during the solve of particles among them, or of their own constraints, within a step.

The bodies move with separate velocities, which impulses of the particles change; if another solver handles
the bodies, it receives the sum of these impulses. If many particles touch one body, each acts on a share of
its mass, so that all can be handled in parallel (mass splitting: Tonge, Benevolenski, Voroshilov, "Mass
splitting for jitter-free parallel rigid body simulation", SIGGRAPH 2012).

Stage: before and after the substeps in maximal coordinates
Called by: solvers/maximal/moving_bodies.py, kernels/maximal/adjoint/substep.py, kernels/maximal/,
    kernels/particles/adjoint/expected_bodies.py, kernels/particles/, kernels/particles/vbd/contacts.py,
    kernels/particles/xpbd/contacts.py
Reads: MotionView, body_f, body_q, body_qd, gravity, inv_inertia, inv_mass, world
Writes: MotionView, body_f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import quat_exp, unit_quat
from newtonsim.kernels.views.gravity import gravity_of

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class MotionView:
    """Rigid bodies during the substeps of particles; B bodies."""

    origin: wp.array(dtype=wp.transform)  # (B) poses of the body frames at the start of the substep
    pose: wp.array(dtype=wp.transform)  # (B) at its end, as far as known when it began
    velocity: wp.array(dtype=wp.spatial_vector)  # (B) angular and of the centre of mass [rad/s, m/s]
    expected: wp.array(dtype=wp.spatial_vector)  # (B) velocities that lead from origin to pose
    com: wp.array(dtype=wp.vec3)  # (B) [m] in the body frames
    inv_mass: wp.array(dtype=float)  # (B) [1/kg] 0 for bodies that impulses do not move within a step
    inv_inertia: wp.array(dtype=wp.mat33)  # (B) in the body frames
    impulse: wp.array(dtype=wp.spatial_vector)  # (B) of a sweep, about the centre of mass
    total: wp.array(dtype=wp.spatial_vector)  # (B) of the step
    touching: wp.array(dtype=int)  # (B) particles in contact or anchored
    articulated: int  # 1 if bodies yield by `mobility`, not by inv_mass and inv_inertia
    mobility: wp.array(dtype=wp.spatial_matrix)  # (B) change of the velocity by an impulse, world axes


@wp.func
def velocity_at(bodies: MotionView, b: int, p: wp.vec3) -> wp.vec3:
    """Velocity of the point of body b at world point p; body -1 stands still."""
    u = wp.vec3(0.0)
    if b >= 0:
        arm = p - wp.transform_point(bodies.pose[b], bodies.com[b])
        u = wp.spatial_bottom(bodies.velocity[b]) + wp.cross(wp.spatial_top(bodies.velocity[b]), arm)
    return u


@wp.func
def deviation_at(bodies: MotionView, b: int, p: wp.vec3) -> wp.vec3:
    """Velocity of a point of body b beyond the expected one."""
    u = wp.vec3(0.0)
    if b >= 0:
        arm = p - wp.transform_point(bodies.pose[b], bodies.com[b])
        more = bodies.velocity[b] - bodies.expected[b]
        u = wp.spatial_bottom(more) + wp.cross(wp.spatial_top(more), arm)
    return u


@wp.func
def inverse_mass_at(bodies: MotionView, b: int, p: wp.vec3, n: wp.vec3) -> float:
    """Inverse mass of body b for a particle that pushes at world point p along n."""
    w = float(0.0)
    if b >= 0:
        if bodies.articulated == 1:
            arm = p - wp.transform_point(bodies.pose[b], bodies.com[b])
            push = wp.spatial_vector(wp.cross(arm, n), n)
            w = wp.dot(push, bodies.mobility[b] * push) * float(wp.max(bodies.touching[b], 1))
        elif bodies.inv_mass[b] > 0.0:
            arm = p - wp.transform_point(bodies.pose[b], bodies.com[b])
            turn = wp.quat_rotate_inv(wp.transform_get_rotation(bodies.pose[b]), wp.cross(arm, n))
            w = bodies.inv_mass[b] + wp.dot(turn, bodies.inv_inertia[b] * turn)
            w = w * float(wp.max(bodies.touching[b], 1))
    return w


@wp.func
def push_body(bodies: MotionView, b: int, p: wp.vec3, impulse: wp.vec3):
    """Add an impulse [N s] at world point p to body b."""
    if b >= 0:
        arm = p - wp.transform_point(bodies.pose[b], bodies.com[b])
        wp.atomic_add(bodies.impulse, b, wp.spatial_vector(wp.cross(arm, impulse), impulse))


@wp.func
def moved(X: wp.transform, com: wp.vec3, twist: wp.spatial_vector, dt: float) -> wp.transform:
    """Pose of a body frame after a time at constant velocity."""
    r = wp.transform_get_rotation(X)
    c = wp.transform_point(X, com) + wp.spatial_bottom(twist) * dt
    r = unit_quat(quat_exp(wp.spatial_top(twist) * dt) * r)
    return wp.transform(c - wp.quat_rotate(r, com), r)


@wp.kernel
def begin_bodies(
    first: int,
    world: wp.array(dtype=int),
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    inv_mass: wp.array(dtype=float),
    inv_inertia: wp.array(dtype=wp.mat33),
    gravity: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
):
    """One thread per body: start a step with the velocities due to forces alone."""
    b = first + wp.tid()
    bodies.inv_mass[b] = inv_mass[b]
    bodies.inv_inertia[b] = inv_inertia[b]
    bodies.total[b] = wp.spatial_vector()
    bodies.impulse[b] = wp.spatial_vector()
    twist = body_qd[b]
    w = bodies.inv_mass[b]
    if w > 0.0:
        r = wp.transform_get_rotation(body_q[b])
        torque = wp.quat_rotate_inv(r, wp.spatial_top(body_f[b]))
        turn = wp.quat_rotate(r, bodies.inv_inertia[b] * torque)
        push = wp.spatial_bottom(body_f[b]) * w + gravity_of(gravity, world[b])
        twist = twist + wp.spatial_vector(turn, push) * dt
    bodies.velocity[b] = twist
    bodies.expected[b] = twist
    bodies.pose[b] = body_q[b]
    bodies.origin[b] = body_q[b]


@wp.kernel
def move_bodies(first: int, before: float, dt: float, bodies: MotionView):
    """One thread per body: end a substep of length `before`, and begin the next one."""
    b = first + wp.tid()
    twist = bodies.velocity[b]
    start = moved(bodies.origin[b], bodies.com[b], twist, before)
    bodies.origin[b] = start
    bodies.pose[b] = moved(start, bodies.com[b], twist, dt)
    bodies.expected[b] = twist
    bodies.touching[b] = 0


@wp.kernel
def apply_impulses(first: int, bodies: MotionView):
    """One thread per body: apply the impulses of a sweep."""
    b = first + wp.tid()
    impulse = bodies.impulse[b]
    bodies.impulse[b] = wp.spatial_vector()
    bodies.total[b] = bodies.total[b] + impulse
    r = wp.transform_get_rotation(bodies.pose[b])
    kick = wp.quat_rotate(r, bodies.inv_inertia[b] * wp.quat_rotate_inv(r, wp.spatial_top(impulse)))
    push = wp.spatial_bottom(impulse) * bodies.inv_mass[b]
    bodies.velocity[b] = bodies.velocity[b] + wp.spatial_vector(kick, push)


@wp.kernel
def end_bodies(first: int, dt: float, bodies: MotionView, body_f: wp.array(dtype=wp.spatial_vector)):
    """One thread per body: the impulses of all substeps as a force over the step."""
    b = first + wp.tid()
    body_f[b] = body_f[b] + bodies.total[b] / dt
