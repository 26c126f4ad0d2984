"""Contacts and anchors between particles or triangles and rigid bodies in extended position-based dynamics.

Impulses of contacts are accumulated over the sweeps and kept in the friction cone as a whole (Müller,
Macklin, Chentanez, Jeschke, Kim, "Detailed rigid body simulation with extended position based dynamics", SCA
2020, section 3.5, with the Coulomb cone instead of two tests). `moving_bodies` describes how they act on
bodies.

Stage: XPBD substep, contacts with shapes
Called by: solvers/particles/contacts.py, solvers/xpbd/particles.py
Reads: ContactView, FaceView, MotionView, RigidView, body, face, indices, inv_mass, particle, point, v, x
Writes: ContactView, FaceView, MotionView, shift, v
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.moving_bodies import (
    MotionView,
    deviation_at,
    inverse_mass_at,
    push_body,
    velocity_at,
)
from newtonsim.kernels.particles.contacts import UNBOUNDED, ContactView, FaceView, blend, corners_of
from newtonsim.kernels.particles.point_distance import RigidView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# share of the overlap at the start of a substep that the substep removes
RECOVERY = wp.constant(0.2)


@wp.func
def within_cone(hold: wp.vec3, most: float) -> wp.vec3:
    """Impulse of friction, limited to the Coulomb cone."""
    square = wp.length_sq(hold)
    if square > most * most:
        return hold * (most / wp.sqrt(square))
    return hold


@wp.func
def touch(
    contacts: ContactView,
    i: int,
    k: int,
    bodies: MotionView,
    b: int,
    p: wp.vec3,
    shift: wp.vec3,
    motion: wp.vec3,
    w: float,
    dt: float,
    relaxation: float,
) -> wp.vec3:
    """Solve contact k of particle or triangle i, and apply the reaction to body b.

    Args:
        contacts: The contacts, which hold the multipliers.
        i: Particle or triangle.
        k: Contact.
        bodies: The bodies.
        b: Body of the shape, -1 for none.
        p: Point of contact [m].
        shift: Correction of its position so far [m].
        motion: Its whole motion within the substep [m].
        w: Its inverse mass [1/kg].
        dt: Length of the substep [s].
        relaxation: Factor on the correction along the normal.

    Returns:
        The impulse on the point, times the length of the substep [kg m].
    """
    n = contacts.normal[i, k]
    overlap = contacts.overlap[i, k]
    old = contacts.push[i, k]
    w_n = w + inverse_mass_at(bodies, b, p, n)
    if w_n <= 0.0:
        return wp.vec3(0.0)
    allowed = wp.max(contacts.before[i, k], 0.0) * (1.0 - RECOVERY)
    depth = overlap - allowed - wp.dot(n, shift - deviation_at(bodies, b, p) * dt)
    least = float(0.0)
    if contacts.stick[i, k] > 0.0 and overlap > -contacts.stick[i, k]:
        least = -UNBOUNDED
    push = wp.max(old + relaxation * depth / w_n, least)
    contacts.push[i, k] = push
    slide = motion - velocity_at(bodies, b, p) * dt
    slide = slide - n * wp.dot(n, slide)
    distance = wp.length(slide)
    held = contacts.hold[i, k]
    hold = held
    if distance > 0.0:
        hold = held + slide / (w + inverse_mass_at(bodies, b, p, slide / distance))
    hold = within_cone(hold, contacts.mu[i, k] * wp.abs(push))
    contacts.hold[i, k] = hold
    change = n * (push - old) - (hold - held)
    push_body(bodies, b, p, -change / dt)
    return change


@wp.kernel
def solve_contacts(
    first: int,
    inv_mass: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    relaxation: float,
    bodies: MotionView,
    contacts: ContactView,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: push it out of shapes, hold it by friction, and push the bodies back."""
    i = first + wp.tid()
    w = inv_mass[i]
    for k in range(contacts.count[i]):
        b = rigid.shape.body[contacts.shape[i, k]]
        moved = shift[i]
        p = x[i] + moved
        change = touch(contacts, i, k, bodies, b, p, moved, v[i] * dt + moved, w, dt, relaxation)
        shift[i] = moved + change * w


@wp.kernel
def solve_face_contacts(
    first: int,
    face: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    inv_mass: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    relaxation: float,
    bodies: MotionView,
    faces: FaceView,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per triangle of one colour: as `solve_contacts`, for a point of the triangle."""
    t = face[first + wp.tid()]
    corner = corners_of(indices, t)
    for k in range(faces.touch.count[t]):
        b = rigid.shape.body[faces.touch.shape[t, k]]
        weight = faces.weight[t, k]
        w = float(0.0)
        for c in range(3):
            w += weight[c] * weight[c] * inv_mass[corner[c]]
        moved = blend(shift, corner, weight)
        p = blend(x, corner, weight) + moved
        motion = blend(v, corner, weight) * dt + moved
        change = touch(faces.touch, t, k, bodies, b, p, moved, motion, w, dt, relaxation)
        for c in range(3):
            shift[corner[c]] = shift[corner[c]] + change * (weight[c] * inv_mass[corner[c]])


@wp.kernel
def bounce(
    first: int,
    inv_mass: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    dt: float,
    restitution: float,
    slowest: float,
    bodies: MotionView,
    contacts: ContactView,
    v: wp.array(dtype=wp.vec3),
):
    """One thread per particle: if it came faster than `slowest` [m/s], it leaves with its share of the speed.

    Müller et al. 2020, section 3.6.
    """
    i = first + wp.tid()
    w = inv_mass[i]
    for k in range(contacts.count[i]):
        if contacts.push[i, k] > 0.0:
            b = rigid.shape.body[contacts.shape[i, k]]
            n = contacts.normal[i, k]
            came = (contacts.overlap[i, k] - contacts.before[i, k]) / dt
            leaves = wp.dot(n, v[i] - velocity_at(bodies, b, x[i]))
            if came > slowest and leaves < restitution * came:
                push = (restitution * came - leaves) / (w + inverse_mass_at(bodies, b, x[i], n))
                v[i] = v[i] + n * (push * w)
                push_body(bodies, b, x[i], -push * n)


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
    """One thread per anchor: count it among the contacts of its body."""
    b = body[first + wp.tid()]
    if b >= 0:
        wp.atomic_add(bodies.touching, b, 1)
