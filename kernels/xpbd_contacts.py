"""Particles against rigid bodies in extended position-based dynamics: contacts, friction, anchors.

While particles make their substeps, the bodies move with velocities of their own that feel the impulses of
the particles; the sum of these impulses is what the solver of the bodies is given. Where many particles touch
one body, each sees a part of its mass, so that all can be handled at once (mass splitting: Tonge,
Benevolenski, Voroshilov, "Mass splitting for jitter-free parallel rigid body simulation", SIGGRAPH 2012).
Impulses of contacts are accumulated over the sweeps and kept in the friction cone as a whole.
"""

import warp as wp

from newtonsim.kernels.shapes import shape_pose
from newtonsim.kernels.spatial import quat_exp, unit_quat
from newtonsim.kernels.xpbd_shapes import RigidView, shape_distance

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most contacts of a particle; the deepest ones are kept
CONTACTS = wp.constant(4)
# part of the overlap at the start of a substep that one substep removes
RECOVERY = wp.constant(0.2)


@wp.struct
class MotionView:
    """Rigid bodies during the substeps of particles; B bodies."""

    origin: wp.array(dtype=wp.transform)  # (B) poses of the body frames at the start of the substep
    pose: wp.array(dtype=wp.transform)  # (B) at its end, as far as known when it began
    velocity: wp.array(dtype=wp.spatial_vector)  # (B) angular and of the centre of mass [rad/s, m/s]
    expected: wp.array(dtype=wp.spatial_vector)  # (B) velocities that lead from origin to pose
    com: wp.array(dtype=wp.vec3)  # (B) [m] in the body frames
    inv_mass: wp.array(dtype=float)  # (B) [1/kg] 0 for bodies that feel nothing within a step
    inv_inertia: wp.array(dtype=wp.mat33)  # (B) in the body frames
    impulse: wp.array(dtype=wp.spatial_vector)  # (B) of a sweep, about the centre of mass
    total: wp.array(dtype=wp.spatial_vector)  # (B) of the step
    touching: wp.array(dtype=int)  # (B) particles in contact or anchored


@wp.struct
class ContactView:
    """Contacts of N particles, CONTACTS for each."""

    count: wp.array(dtype=int)  # (N)
    shape: wp.array2d(dtype=int)  # (N, CONTACTS)
    normal: wp.array2d(dtype=wp.vec3)  # out of the shape
    overlap: wp.array2d(dtype=float)  # [m] of the predicted position
    before: wp.array2d(dtype=float)  # [m] at the start of the substep
    push: wp.array2d(dtype=float)  # impulse along the normal, times the length of the substep [kg m]
    hold: wp.array2d(dtype=wp.vec3)  # impulse of friction on the body, likewise


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
    """Inverse mass that a particle feels when it pushes body b at world point p along n."""
    w = float(0.0)
    if b >= 0:
        if bodies.inv_mass[b] > 0.0:
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
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_f: wp.array(dtype=wp.spatial_vector),
    share: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    inv_inertia: wp.array(dtype=wp.mat33),
    gravity: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
):
    """One thread per body: start a step from the velocities that forces alone would give, as the solver does.

    `share` is the body's part of the mass that moves with it: 1 for a free body, 0 for one on a fixed tree.
    """
    b = first + wp.tid()
    bodies.inv_mass[b] = inv_mass[b] * share[b]
    bodies.inv_inertia[b] = inv_inertia[b] * wp.where(share[b] == 1.0, 1.0, 0.0)
    bodies.total[b] = wp.spatial_vector()
    bodies.impulse[b] = wp.spatial_vector()
    twist = body_qd[b]
    w = bodies.inv_mass[b]
    if w > 0.0:
        r = wp.transform_get_rotation(body_q[b])
        torque = wp.quat_rotate_inv(r, wp.spatial_top(body_f[b]))
        turn = wp.quat_rotate(r, bodies.inv_inertia[b] * torque)
        push = wp.spatial_bottom(body_f[b]) * w + gravity[0]
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
    """One thread per body: feel the impulses of a sweep."""
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


@wp.kernel
def find_contacts(
    first: int,
    world: wp.array(dtype=int),
    inv_mass: wp.array(dtype=float),
    radius: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
    contacts: ContactView,
):
    """One thread per particle: shapes that its predicted position overlaps, or comes near."""
    i = first + wp.tid()
    contacts.count[i] = 0
    if inv_mass[i] <= 0.0:
        return
    count = int(0)
    start = x[i] - v[i] * dt
    reach = radius[i] + 0.5 * wp.length(v[i]) * dt
    for k in range(rigid.start[world[i]], rigid.start[world[i] + 1]):
        s = rigid.listed[k]
        X = shape_pose(rigid.shape, s, bodies.pose)
        gap = shape_distance(rigid, s, X, x[i], start, reach)
        if gap.distance < reach:
            place = int(count)
            if count == CONTACTS:
                place = int(0)
                for other in range(1, CONTACTS):
                    if contacts.overlap[i, other] < contacts.overlap[i, place]:
                        place = other
                if radius[i] - gap.distance <= contacts.overlap[i, place]:
                    place = -1
            else:
                count += 1
            if place >= 0:
                b = rigid.shape.body[s]
                approach = wp.dot(gap.normal, (v[i] - velocity_at(bodies, b, x[i])) * dt)
                contacts.shape[i, place] = s
                contacts.normal[i, place] = gap.normal
                contacts.overlap[i, place] = radius[i] - gap.distance
                contacts.before[i, place] = radius[i] - gap.distance + approach
                contacts.push[i, place] = 0.0
                contacts.hold[i, place] = wp.vec3(0.0)
                if b >= 0 and gap.distance < radius[i]:
                    wp.atomic_add(bodies.touching, b, 1)
    contacts.count[i] = count


@wp.kernel
def solve_contacts(
    first: int,
    inv_mass: wp.array(dtype=float),
    friction: wp.array(dtype=float),
    shape_friction: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
    contacts: ContactView,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: push it out of shapes and hold it by friction, and push the bodies back."""
    i = first + wp.tid()
    w = inv_mass[i]
    for k in range(contacts.count[i]):
        s = contacts.shape[i, k]
        n = contacts.normal[i, k]
        b = rigid.shape.body[s]
        p = x[i] + shift[i]
        allowed = wp.max(contacts.before[i, k], 0.0) * (1.0 - RECOVERY)
        apart = wp.dot(n, shift[i] - deviation_at(bodies, b, p) * dt)
        depth = contacts.overlap[i, k] - allowed - apart
        old = contacts.push[i, k]
        push = wp.max(old + depth / (w + inverse_mass_at(bodies, b, p, n)), 0.0)
        contacts.push[i, k] = push
        shift[i] = shift[i] + n * ((push - old) * w)
        slide = v[i] * dt + shift[i] - velocity_at(bodies, b, p) * dt
        slide = slide - n * wp.dot(n, slide)
        distance = wp.length(slide)
        held = contacts.hold[i, k]
        hold = held
        if distance > 0.0:
            hold = held + slide / (w + inverse_mass_at(bodies, b, p, slide / distance))
        most = friction[i] * shape_friction[s] * push
        size = wp.length(hold)
        if size > most:
            hold = hold * (most / size)
        contacts.hold[i, k] = hold
        shift[i] = shift[i] - (hold - held) * w
        push_body(bodies, b, p, (hold - held - n * (push - old)) / dt)


@wp.kernel
def solve_anchors(
    first: int,
    particle: wp.array(dtype=int),
    body: wp.array(dtype=int),
    point: wp.array(dtype=wp.vec3),
    inv_mass: wp.array(dtype=float),
    dt: float,
    x: wp.array(dtype=wp.vec3),
    bodies: MotionView,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per anchor: hold a particle at a point of a body, or of the world."""
    a = first + wp.tid()
    i = particle[a]
    b = body[a]
    goal = point[a]
    if b >= 0:
        goal = wp.transform_point(bodies.pose[b], point[a])
    error = x[i] + shift[i] - goal - deviation_at(bodies, b, goal) * dt
    distance = wp.length(error)
    if distance > 0.0 and inv_mass[i] > 0.0:
        n = error / distance
        push = n * (distance / (inv_mass[i] + inverse_mass_at(bodies, b, goal, n)))
        shift[i] = shift[i] - push * inv_mass[i]
        push_body(bodies, b, goal, push / dt)


@wp.kernel
def count_anchors(first: int, body: wp.array(dtype=int), bodies: MotionView):
    """One thread per anchor: count it among what touches its body."""
    b = body[first + wp.tid()]
    if b >= 0:
        wp.atomic_add(bodies.touching, b, 1)
