"""Contact of particles with rigid bodies in vertex block descent: penalty forces with friction.

A body yields within the sweep in which it is pushed: its mobility acts in series with the contact, like the
compliance of extended position-based dynamics, so that stiff contacts with light bodies converge. Its
velocity contains the impulses of previous sweeps, which are stored with the contacts. Friction is Coulomb's,
smoothed below a speed (Li et al., "Incremental potential contact", TOG 39(4), 2020).

Stage: VBD substep, contacts with shapes
Called by: solvers/vbd/particles.py, kernels/particles/vbd/components.py, kernels/particles/vbd/sweep.py
Reads: DescentView, MotionView, StencilView, TouchView, order
Writes: MotionView, TouchView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.moving_bodies import (
    MotionView,
    deviation_at,
    inverse_mass_at,
    push_body,
    velocity_at,
)
from newtonsim.kernels.particles.contacts import ContactView, FaceView, blend, corners_of
from newtonsim.kernels.particles.vbd.elements import Block, StencilView
from newtonsim.kernels.particles.vbd.particles import DescentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# [m] least depth of the inside of a triangle below its corners
LEVEL = wp.constant(1.0e-5)


@wp.struct
class TouchView:
    """Contacts with rigid bodies and their material."""

    contacts: ContactView
    faces: FaceView
    triangles: wp.array2d(dtype=int)  # (T, 3) particles
    body: wp.array(dtype=int)  # (S) body of each shape
    stiffness: float  # [N/m]
    damping: float  # [N s/m]
    friction_speed: float  # [m/s] slip above which friction is Coulomb's


@wp.struct
class Push:
    """Force of a contact on the particles, and its stiffness."""

    normal: wp.vec3  # out of the shape
    press: float  # [N] along the normal
    stiffness: float  # [N/m] along the normal
    drag: wp.vec3  # [N] friction
    resistance: float  # [N/m] across the normal


@wp.func
def is_covered(touch: TouchView, t: int, k: int) -> bool:
    """Whether a corner of triangle t is at least as deep in the shape of its contact k as the inside."""
    for corner in range(3):
        i = touch.triangles[t, corner]
        for other in range(touch.contacts.count[i]):
            if touch.contacts.shape[i, other] == touch.faces.touch.shape[t, k]:
                if touch.contacts.overlap[i, other] >= touch.faces.touch.overlap[t, k] - LEVEL:
                    return True
    return False


@wp.kernel
def drop_covered_faces(first: int, order: wp.array(dtype=int), touch: TouchView):
    """One thread per triangle: drop contacts of its inside that are no deeper than a corner's.

    A triangle that lies flat on a shape is held by its corners; more springs would make the contact harder.
    """
    t = order[first + wp.tid()]
    faces = touch.faces.touch
    kept = int(0)
    for k in range(faces.count[t]):
        if not is_covered(touch, t, k):
            if kept < k:
                faces.shape[t, kept] = faces.shape[t, k]
                faces.normal[t, kept] = faces.normal[t, k]
                faces.overlap[t, kept] = faces.overlap[t, k]
                faces.before[t, kept] = faces.before[t, k]
                faces.mu[t, kept] = faces.mu[t, k]
                faces.stick[t, kept] = faces.stick[t, k]
                touch.faces.weight[t, kept] = touch.faces.weight[t, k]
            kept += 1
    faces.count[t] = kept


@wp.func
def push_of(
    touch: TouchView,
    view: ContactView,
    i: int,
    k: int,
    p: wp.vec3,
    d: wp.vec3,
    goal: wp.vec3,
    dt: float,
    bodies: MotionView,
) -> Push:
    """Force of contact k of particle or triangle i.

    Args:
        touch: Materials.
        view: The contacts.
        i: The particle or triangle.
        k: Number of its contact.
        p: The point of contact [m].
        d: Its displacement in the substep [m].
        goal: Its displacement by inertia, with which the contact was found [m].
        dt: Length of the substep [s].
        bodies: The bodies.
    """
    push = Push()
    n = view.normal[i, k]
    b = touch.body[view.shape[i, k]]
    push.normal = n
    push.press = 0.0
    push.stiffness = 0.0
    push.drag = wp.vec3(0.0)
    push.resistance = 0.0
    overlap = view.overlap[i, k] - wp.dot(n, d - goal - deviation_at(bodies, b, p) * dt)
    viscous = touch.damping / dt
    stiffness = touch.stiffness + viscous
    # where the force of spring and damper starts
    overlap -= wp.max(view.before[i, k], 0.0) * (viscous / stiffness)
    # the body's share of the overlap: the impulse so far does not count as motion
    w = inverse_mass_at(bodies, b, p, n) * dt
    stiffness = stiffness / (1.0 + stiffness * w * dt)
    press = stiffness * (overlap + w * view.push[i, k])
    if press <= 0.0 and overlap <= -view.stick[i, k]:
        return push
    push.press = press
    push.stiffness = stiffness
    slide = d - velocity_at(bodies, b, p) * dt
    slide -= n * wp.dot(n, slide)
    size = wp.length(slide)
    most = view.mu[i, k] * wp.max(press, 0.0)
    reach = touch.friction_speed * dt
    if most > 0.0:
        resistance = most * (2.0 - size / reach) / reach
        if size > reach:
            resistance = most / size
        # along the motion, or along the friction so far
        across = slide
        if size == 0.0:
            across = view.hold[i, k]
        far = wp.length(across)
        if far > 0.0:
            w = inverse_mass_at(bodies, b, p, across / far) * dt
            resistance = resistance / (1.0 + resistance * w * dt)
            drag = (slide + w * view.hold[i, k]) * (-resistance)
            size = wp.length(drag)
            if size > most:
                drag = drag * (most / size)
            push.drag = drag
        push.resistance = resistance
    return push


@wp.func
def add_push(push: Push, weight: float, block: wp.ref[Block]):
    """Add the force of a contact on a particle with a weight in it."""
    n = push.normal
    block.force += (n * push.press + push.drag) * weight
    square = weight * weight
    along = (push.stiffness - push.resistance) * square
    across = push.resistance * square
    block.diagonal += wp.cw_mul(n, n) * along + wp.vec3(across)
    block.mixed += wp.vec3(n[1] * n[2], n[2] * n[0], n[0] * n[1]) * along


@wp.func
def add_contacts(
    touch: TouchView,
    i: int,
    dt: float,
    bodies: MotionView,
    descent: DescentView,
    s: StencilView,
    block: wp.ref[Block],
) -> int:
    """Add the contacts of particle i; returns how many press."""
    pressing = int(0)
    for k in range(touch.contacts.count[i]):
        push = push_of(touch, touch.contacts, i, k, s.x[i] + s.u[i], s.u[i], descent.goal[i], dt, bodies)
        if push.stiffness > 0.0:
            add_push(push, 1.0, block)
            pressing += 1
    return pressing


@wp.func
def push_of_face(
    touch: TouchView, t: int, k: int, dt: float, bodies: MotionView, descent: DescentView, s: StencilView
) -> Push:
    """Force of contact k of the inside of triangle t."""
    corner = corners_of(touch.triangles, t)
    weight = touch.faces.weight[t, k]
    d = blend(s.u, corner, weight)
    p = blend(s.x, corner, weight) + d
    return push_of(touch, touch.faces.touch, t, k, p, d, blend(descent.goal, corner, weight), dt, bodies)


@wp.func
def add_face_contacts(
    touch: TouchView,
    slot: int,
    i: int,
    dt: float,
    bodies: MotionView,
    descent: DescentView,
    s: StencilView,
    block: wp.ref[Block],
) -> int:
    """Add the contacts of the inside of the triangles of particle i; returns how many press."""
    pressing = int(0)
    for pair in range(s.triangle_start[slot], s.triangle_start[slot + 1]):
        t = s.triangle_element[pair]
        for k in range(touch.faces.touch.count[t]):
            push = push_of_face(touch, t, k, dt, bodies, descent, s)
            if push.stiffness > 0.0:
                weight = touch.faces.weight[t, k]
                own = weight[0]
                if touch.triangles[t, 1] == i:
                    own = weight[1]
                elif touch.triangles[t, 2] == i:
                    own = weight[2]
                add_push(push, own, block)
                pressing += 1
    return pressing


@wp.func
def apply_impulse(
    touch: TouchView, view: ContactView, i: int, k: int, p: wp.vec3, push: Push, dt: float, bodies: MotionView
):
    """Push the body of a contact by the change of its impulse in the sweep."""
    normal = push.press * dt
    hold = push.drag * (-dt)
    change = hold - view.hold[i, k] - push.normal * (normal - view.push[i, k])
    view.push[i, k] = normal
    view.hold[i, k] = hold
    push_body(bodies, touch.body[view.shape[i, k]], p, change)


@wp.kernel
def push_by_particles(
    first: int, touch: TouchView, dt: float, bodies: MotionView, descent: DescentView, s: StencilView
):
    """One thread per particle: push the bodies that it touches."""
    i = first + wp.tid()
    p = s.x[i] + s.u[i]
    for k in range(touch.contacts.count[i]):
        push = push_of(touch, touch.contacts, i, k, p, s.u[i], descent.goal[i], dt, bodies)
        apply_impulse(touch, touch.contacts, i, k, p, push, dt, bodies)


@wp.kernel
def push_by_faces(
    first: int,
    order: wp.array(dtype=int),
    touch: TouchView,
    dt: float,
    bodies: MotionView,
    descent: DescentView,
    s: StencilView,
):
    """One thread per triangle: push the bodies that its inside touches."""
    t = order[first + wp.tid()]
    corner = corners_of(touch.triangles, t)
    for k in range(touch.faces.touch.count[t]):
        weight = touch.faces.weight[t, k]
        push = push_of_face(touch, t, k, dt, bodies, descent, s)
        p = blend(s.x, corner, weight) + blend(s.u, corner, weight)
        apply_impulse(touch, touch.faces.touch, t, k, p, push, dt, bodies)
