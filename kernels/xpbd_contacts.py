"""Particles against rigid bodies in extended position-based dynamics: contacts, friction, anchors.

Impulses of contacts are accumulated over the sweeps and kept in the friction cone as a whole. Bodies feel
them as `moving_bodies` describes.
"""

import warp as wp

from newtonsim.kernels.moving_bodies import (
    MotionView,
    deviation_at,
    inverse_mass_at,
    push_body,
    velocity_at,
)
from newtonsim.kernels.point_distance import RigidView, shape_distance
from newtonsim.kernels.shapes import shape_pose

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most contacts of a particle; the deepest ones are kept
CONTACTS = wp.constant(4)
# part of the overlap at the start of a substep that one substep removes
RECOVERY = wp.constant(0.2)


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
