"""Contacts of particles and triangles with static shapes, in the adjoint of an implicit step.

Feature and weights of a contact are those found at the predicted point, and its normal rotates with the point
according to the curvature of the surface. Contacts in XPBD are hard: in a sticking contact, the whole
displacement of the point is prescribed; in a sliding one, only that along the normal, and friction opposes
the slip with μ times the normal force (Coulomb). In the adjoint, prescribed displacements act as stiff
springs on the multipliers, and their forces are the multipliers of the constraints. VBD's contacts are
springs with smooth friction, see `particles.vbd.contacts`.

Stage: backward pass of particles, contacts
Called by: solvers/particles/adjoint_contacts.py, solvers/vbd/adjoint.py,
    kernels/particles/adjoint/body_touches.py, kernels/particles/adjoint/coupled_system.py
Reads: ComponentView, MatrixView, SubstepView, TouchSlopes, diagonal, goal, stiffness, world
Writes: MatrixView, ReverseView, SubstepView, TouchSlopes, reason, right, stiffness
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.elements import MatrixView, SubstepView, unit
from newtonsim.kernels.particles.adjoint.steps import ReverseView, cut_off
from newtonsim.kernels.particles.adjoint.unsupported import BOUNCES, TOUCHES_BODY
from newtonsim.kernels.particles.contacts import ContactView
from newtonsim.kernels.particles.vbd.components import ComponentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
THREE = wp.constant(wp.float64(3.0))
# stiffness of a constraint, over that of the particles that it holds
HARD = wp.constant(wp.float64(1.0e6))
HARD_INSIDE = wp.constant(wp.float64(1.0e3))
# share of the overlap at the start of a substep of XPBD that remains at its end
KEPT = wp.constant(wp.float64(0.8))
# share of the largest friction above which a contact slides
SLIDING = wp.constant(0.9999)
# [m] slip below which it has no direction
STILL = wp.constant(wp.float64(1.0e-12))


@wp.struct
class TouchSlopes:
    """Contacts of particles, or of the inside of triangles, and their gradients."""

    contacts: ContactView
    inside: int  # 1 for triangles
    triangles: wp.array2d(dtype=int)
    weight: wp.array2d(dtype=wp.vec3)  # of the corners of triangles
    entry: wp.array(dtype=int)  # blocks of the matrix: of particles, or 9 for each triangle
    body: wp.array(dtype=int)  # of each shape
    curvature: wp.array2d(dtype=wp.mat33)  # [1/m] slope of the normals
    radius: wp.array(dtype=float)
    radius_grad: wp.array(dtype=float)
    mu_grad: wp.array(dtype=float)  # of the shapes
    mu_share: float  # of the friction of a shape in that of a contact
    meets_bodies: (
        int  # 1 where `body_touches` has the contacts of rigid bodies, 0 where they have no gradient
    )
    hard: int  # 1 for XPBD, 0 for VBD
    slowest: float  # [m/s] approach speed above which a particle is stopped after a substep, or bounces
    restitution: float
    stiffness: wp.float64  # of VBD's [N/m]
    damping: wp.float64  # [N s/m]
    friction_speed: wp.float64  # [m/s]


@wp.func
def corners_in(touch: TouchSlopes) -> int:
    """Particles of a contact."""
    return wp.where(touch.inside == 1, 3, 1)


@wp.func
def corner_at(touch: TouchSlopes, i: int, c: int) -> int:
    """Particle c of the contacts of particle or triangle i."""
    p = i
    if touch.inside == 1:
        p = touch.triangles[i, c]
    return p


@wp.func
def weight_at(touch: TouchSlopes, i: int, k: int, c: int) -> wp.float64:
    """Its weight in contact k."""
    w = ONE
    if touch.inside == 1:
        w = wp.float64(touch.weight[i, k][c])
    return w


@wp.func
def blend_single(touch: TouchSlopes, i: int, k: int, m: wp.array(dtype=wp.vec3)) -> wp.vec3d:
    """Value at the point of contact k."""
    total = wp.vec3d()
    for c in range(corners_in(touch)):
        total += wp.vec3d(m[corner_at(touch, i, c)]) * weight_at(touch, i, k, c)
    return total


@wp.func
def blend_double(touch: TouchSlopes, i: int, k: int, m: wp.array(dtype=wp.vec3d)) -> wp.vec3d:
    """Value at the point of contact k."""
    total = wp.vec3d()
    for c in range(corners_in(touch)):
        total += m[corner_at(touch, i, c)] * weight_at(touch, i, k, c)
    return total


@wp.func
def across(n: wp.vec3d, d: wp.vec3d) -> wp.vec3d:
    """Part of a vector across a normal."""
    return d - n * wp.dot(n, d)


@wp.func
def normal_at(n: wp.vec3d, curvature: wp.mat33d, moved: wp.vec3d) -> wp.vec3d:
    """Normal of a surface after the point moved."""
    return wp.normalize(n + curvature * moved)


@wp.func
def overlap_at(overlap: wp.float64, n: wp.vec3d, curvature: wp.mat33d, moved: wp.vec3d) -> wp.float64:
    """Overlap after the point moved [m]."""
    return overlap - wp.dot(n, moved) - HALF * wp.dot(moved, curvature * moved)


@wp.func
def hard_work(
    moved: wp.vec3d,
    goal: wp.vec3d,
    d: wp.vec3d,
    multiplier: wp.vec3d,
    hold: wp.vec3d,
    n0: wp.vec3d,
    overlap0: wp.float64,
    mu: wp.float64,
    push: wp.float64,
    curvature: wp.mat33d,
    sticks: int,
) -> wp.float64:
    """Lagrangian of a hard contact at given multipliers.

    Args:
        moved: Displacement of the predicted point since the contact was found [m].
        goal: Displacement of the point by inertia [m].
        d: Displacement of the point [m].
        multiplier: Multiplier at the point.
        hold: Multiplier of the constraint: a vector where it sticks, along the normal where it slides.
        n0: Normal.
        overlap0: Overlap [m].
        mu: Friction.
        push: Normal force [N].
        curvature: Curvature of the surface [1/m].
        sticks: Whether friction holds.
    """
    n = normal_at(n0, curvature, moved)
    overlap = overlap_at(overlap0, n0, curvature, moved)
    return hard_law(n, overlap, goal, d - goal, d, multiplier, hold, n0, mu, push, sticks)


@wp.func
def hard_law(
    n: wp.vec3d,
    overlap: wp.float64,
    come: wp.vec3d,
    gone: wp.vec3d,
    slide: wp.vec3d,
    multiplier: wp.vec3d,
    hold: wp.vec3d,
    n0: wp.vec3d,
    mu: wp.float64,
    push: wp.float64,
    sticks: int,
) -> wp.float64:
    """Lagrangian of a hard contact, see `hard_work`.

    Motions are relative to the shape [m]: `come` is that by inertia, with which the contact was found, `gone`
    what the substep adds to it, and `slide` their sum.
    """
    left = wp.dot(n, gone) - overlap + KEPT * wp.max(overlap + wp.dot(n, come), ZERO)
    if sticks == 1:
        return wp.dot(hold, across(n, slide) + n * left)
    force = n * push
    slip = across(n, slide)
    size = wp.length(slip)
    if size > STILL:
        force -= slip * (mu * wp.abs(push) / size)
    return wp.dot(hold, n0) * left - wp.dot(force, multiplier)


@wp.func
def soft_work(
    moved: wp.vec3d,
    goal: wp.vec3d,
    d: wp.vec3d,
    multiplier: wp.vec3d,
    n0: wp.vec3d,
    overlap0: wp.float64,
    mu: wp.float64,
    curvature: wp.mat33d,
    stick: wp.float64,
    stiffness: wp.float64,
    viscous: wp.float64,
    reach: wp.float64,
) -> wp.float64:
    """Work of a contact of VBD; `viscous` is its damping over dt, `reach` the slip of full friction [m]."""
    n = normal_at(n0, curvature, moved)
    at_goal = overlap_at(overlap0, n0, curvature, moved)
    return soft_law(n, at_goal, goal, d - goal, d, multiplier, mu, stick, stiffness, viscous, reach)


@wp.func
def soft_law(
    n: wp.vec3d,
    at_goal: wp.float64,
    come: wp.vec3d,
    gone: wp.vec3d,
    slide: wp.vec3d,
    multiplier: wp.vec3d,
    mu: wp.float64,
    stick: wp.float64,
    stiffness: wp.float64,
    viscous: wp.float64,
    reach: wp.float64,
) -> wp.float64:
    """Work of a contact of VBD, see `soft_work`; motions are relative to the shape as in `hard_law`."""
    total = stiffness + viscous
    overlap = at_goal - wp.dot(n, gone)
    overlap -= wp.max(at_goal + wp.dot(n, come), ZERO) * (viscous / total)
    press = total * overlap
    if press <= ZERO and overlap <= -stick:
        return ZERO
    slip = across(n, slide)
    size = wp.length(slip)
    most = mu * wp.max(press, ZERO)
    force = n * press
    if size > reach:
        force -= slip * (most / size)
    elif size > STILL:
        force -= slip * (most * (TWO - size / reach) / reach)
    else:
        force -= slip * (most * TWO / reach)
    return -wp.dot(force, multiplier)


@wp.func
def is_elsewhere(touch: TouchSlopes, i: int, k: int) -> bool:
    """Whether contact k of particle or triangle i is one with a rigid body, which `body_touches` handles."""
    return touch.meets_bodies == 1 and touch.body[touch.contacts.shape[i, k]] >= 0


@wp.func
def does_stick(contacts: ContactView, i: int, k: int) -> int:
    """Whether friction of a hard contact holds."""
    most = contacts.mu[i, k] * wp.abs(contacts.push[i, k])
    return wp.where(wp.length(contacts.hold[i, k]) < SLIDING * most, 1, 0)


@wp.struct
class Slopes:
    """Slopes of the Lagrangian of a contact."""

    moved: wp.vec3d  # by the predicted point
    goal: wp.vec3d  # by the displacement by inertia
    d: wp.vec3d  # by the displacement
    overlap: wp.float64
    mu: wp.float64


@wp.func
def soft_slopes(
    touch: TouchSlopes, i: int, k: int, goal: wp.vec3d, d: wp.vec3d, multiplier: wp.vec3d, dt: wp.float64
) -> Slopes:
    """Slopes of `soft_work`."""
    moved, by_goal, by_d, by_multiplier, by_n, by_overlap, by_mu, cu, st, ke, kd, reach = wp.grad(soft_work)(
        wp.vec3d(),
        goal,
        d,
        multiplier,
        wp.vec3d(touch.contacts.normal[i, k]),
        wp.float64(touch.contacts.overlap[i, k]),
        wp.float64(touch.contacts.mu[i, k]),
        wp.mat33d(touch.curvature[i, k]),
        wp.float64(touch.contacts.stick[i, k]),
        touch.stiffness,
        touch.damping / dt,
        touch.friction_speed * dt,
    )
    slopes = Slopes()
    slopes.moved = moved
    slopes.goal = by_goal
    slopes.d = by_d
    slopes.overlap = by_overlap
    slopes.mu = by_mu
    return slopes


@wp.func
def hard_row(touch: TouchSlopes, i: int, k: int, d: wp.vec3d) -> wp.vec3d:
    """Total force of a sliding contact over its normal force."""
    n = wp.vec3d(touch.contacts.normal[i, k])
    slip = across(n, d)
    size = wp.length(slip)
    if size > STILL:
        factor = wp.float64(touch.contacts.mu[i, k]) / size
        if touch.contacts.push[i, k] < 0.0:
            factor = -factor
        n -= slip * factor
    return n


@wp.func
def hardness(touch: TouchSlopes, i: int, stiffness: wp.array(dtype=wp.float64)) -> wp.float64:
    """Stiffness that represents a constraint [N/m]."""
    if touch.inside == 0:
        return HARD * stiffness[i]
    most = wp.max(stiffness[corner_at(touch, i, 0)], stiffness[corner_at(touch, i, 1)])
    return HARD_INSIDE * wp.max(most, stiffness[corner_at(touch, i, 2)])


@wp.kernel
def note_stiffness(
    first: int, diagonal: wp.array(dtype=int), m: MatrixView, stiffness: wp.array(dtype=wp.float64)
):
    """One thread per particle: its stiffness before contacts [N/m]."""
    i = first + wp.tid()
    stiffness[i] = wp.abs(wp.trace(m.value[diagonal[i]])) / THREE


@wp.kernel
def weigh_contacts(
    first: int,
    touch: TouchSlopes,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    stiffness: wp.array(dtype=wp.float64),
    world: wp.array(dtype=int),
    m: MatrixView,
    reason: wp.array(dtype=int),
):
    """One thread per particle or triangle: blocks of its contacts, or why they have no gradient."""
    i = first + wp.tid()
    corners = corners_in(touch)
    for k in range(touch.contacts.count[i]):
        push = touch.contacts.push[i, k]
        if push != 0.0 and not is_elsewhere(touch, i, k):
            w = world[corner_at(touch, i, 0)]
            if touch.body[touch.contacts.shape[i, k]] >= 0:
                reason[w] = TOUCHES_BODY
            came = approach(touch.contacts, i, k, s)
            if came > touch.slowest and touch.restitution > 0.0:
                reason[w] = BOUNCES
            d = blend_single(touch, i, k, s.u)
            block = wp.mat33d()
            if touch.hard == 0:
                target = blend_single(touch, i, k, goal)
                for axis in range(3):
                    slopes = soft_slopes(touch, i, k, target, d, unit(axis), s.dt)
                    for row in range(3):
                        block[row, axis] = slopes.d[row]
            else:
                hard = hardness(touch, i, stiffness)
                if does_stick(touch.contacts, i, k) == 1:
                    block = wp.identity(n=3, dtype=wp.float64) * hard
                else:
                    n = wp.vec3d(touch.contacts.normal[i, k])
                    block = wp.outer(n, hard_row(touch, i, k, d)) * hard
                    slip = across(n, d)
                    size = wp.length(slip)
                    if size > STILL:
                        drag = wp.float64(touch.contacts.mu[i, k] * wp.abs(push)) / (s.dt * s.dt * size)
                        way = slip / size
                        plane = wp.identity(n=3, dtype=wp.float64) - wp.outer(n, n) - wp.outer(way, way)
                        block += plane * drag
            for row in range(corners):
                for column in range(corners):
                    share = weight_at(touch, i, k, row) * weight_at(touch, i, k, column)
                    place = touch.entry[i]
                    if touch.inside == 1:
                        place = touch.entry[9 * i + 3 * row + column]
                    wp.atomic_add(m.value, place, block * share)


@wp.func
def approach(contacts: ContactView, i: int, k: int, s: SubstepView) -> float:
    """Approach speed of contact k without forces of contacts and elements [m/s]."""
    return (contacts.overlap[i, k] - contacts.before[i, k]) / float(s.dt)


@wp.func
def force_of(touch: TouchSlopes, i: int, k: int, dt: wp.float64) -> wp.vec3d:
    """Force of contact k [N]: XPBD stores its impulse times dt, VBD its impulse."""
    impulse = wp.vec3d(touch.contacts.normal[i, k] * touch.contacts.push[i, k] - touch.contacts.hold[i, k])
    if touch.hard == 1:
        impulse = impulse / dt
    return impulse / dt


@wp.func
def add_slopes(
    touch: TouchSlopes,
    i: int,
    k: int,
    factor: wp.float64,
    moved: wp.vec3d,
    by_goal: wp.vec3d,
    by_overlap: wp.float64,
    by_mu: wp.float64,
    reverse: ReverseView,
):
    """Add slopes, times a factor.

    They are with respect to the predicted point, the displacement by inertia, radius and friction.
    """
    largest = corner_at(touch, i, 0)
    for c in range(corners_in(touch)):
        p = corner_at(touch, i, c)
        share = factor * weight_at(touch, i, k, c)
        # the predicted point moves with the start and with inertia
        wp.atomic_add(reverse.x, p, moved * share)
        wp.atomic_add(reverse.goal, p, (moved + by_goal) * share)
        if touch.radius[p] > touch.radius[largest]:
            largest = p
    wp.atomic_add(touch.radius_grad, largest, float(factor * by_overlap))
    shape = touch.contacts.shape[i, k]
    wp.atomic_add(touch.mu_grad, shape, float(factor * by_mu) * touch.mu_share)


@wp.kernel
def reverse_contacts(
    first: int,
    touch: TouchSlopes,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    stiffness: wp.array(dtype=wp.float64),
    reverse: ReverseView,
):
    """One thread per particle or triangle: gradients of its contacts at the multipliers, and their forces."""
    i = first + wp.tid()
    for k in range(touch.contacts.count[i]):
        push = touch.contacts.push[i, k]
        if push != 0.0 and not is_elsewhere(touch, i, k):
            d = blend_single(touch, i, k, s.u)
            target = blend_single(touch, i, k, goal)
            multiplier = blend_double(touch, i, k, s.multiplier)
            force = force_of(touch, i, k, s.dt)
            for c in range(corners_in(touch)):
                share = weight_at(touch, i, k, c)
                wp.atomic_add(s.residual, corner_at(touch, i, c), -force * share)
            if touch.hard == 0:
                slopes = soft_slopes(touch, i, k, target, d, multiplier, s.dt)
                add_slopes(touch, i, k, -ONE, slopes.moved, slopes.goal, slopes.overlap, slopes.mu, reverse)
            else:
                sticks = does_stick(touch.contacts, i, k)
                n = wp.vec3d(touch.contacts.normal[i, k])
                hard = hardness(touch, i, stiffness)
                hold = multiplier * hard
                if sticks == 0:
                    hold = n * (wp.dot(hard_row(touch, i, k, d), multiplier) * hard)
                moved, by_goal, by_d, by_m, by_hold, by_n, by_overlap, by_mu, by_push, cu, kind = wp.grad(
                    hard_work
                )(
                    wp.vec3d(),
                    target,
                    d,
                    multiplier,
                    hold,
                    n,
                    wp.float64(touch.contacts.overlap[i, k]),
                    wp.float64(touch.contacts.mu[i, k]),
                    wp.float64(push) / (s.dt * s.dt),
                    wp.mat33d(touch.curvature[i, k]),
                    sticks,
                )
                add_slopes(touch, i, k, -ONE, moved, by_goal, by_overlap, by_mu, reverse)


@wp.func
def stopped_work(
    moved: wp.vec3d, v: wp.vec3d, multiplier: wp.vec3d, n0: wp.vec3d, curvature: wp.mat33d
) -> wp.float64:
    """Product of a multiplier with a velocity without its component along the normal of a contact."""
    return wp.dot(multiplier, across(normal_at(n0, curvature, moved), v))


@wp.func
def stops(touch: TouchSlopes, i: int, k: int, s: SubstepView, v: wp.vec3d) -> bool:
    """Whether contact k removes the remaining approach velocity, see `particles.xpbd.contacts.bounce`."""
    if touch.contacts.push[i, k] <= 0.0 or approach(touch.contacts, i, k, s) <= touch.slowest:
        return False
    return wp.dot(wp.vec3d(touch.contacts.normal[i, k]), v) < ZERO


@wp.kernel
def reverse_stops(first: int, touch: TouchSlopes, fastest: wp.float64, s: SubstepView, reverse: ReverseView):
    """One thread per particle: from the velocity after contacts stopped it to that before."""
    i = first + wp.tid()
    for after in range(touch.contacts.count[i]):
        last = touch.contacts.count[i] - 1 - after
        v = cut_off(wp.vec3d(s.u[i]) / s.dt, fastest)
        for k in range(last):
            if stops(touch, i, k, s, v):
                v = across(wp.vec3d(touch.contacts.normal[i, k]), v)
        if stops(touch, i, last, s, v):
            moved, by_v, by_multiplier, by_n, by_curvature = wp.grad(stopped_work)(
                wp.vec3d(),
                v,
                reverse.v[i],
                wp.vec3d(touch.contacts.normal[i, last]),
                wp.mat33d(touch.curvature[i, last]),
            )
            reverse.v[i] = by_v
            add_slopes(touch, i, last, ONE, moved, wp.vec3d(), ZERO, ZERO, reverse)


@wp.func
def listed_in(touch: TouchSlopes, components: ComponentView, chunk: int) -> wp.vec2i:
    """First particle or triangle of a chunk in the list of components, and the end."""
    if touch.inside == 1:
        return wp.vec2i(components.chunk_face[chunk], components.chunk_face[chunk + 1])
    return wp.vec2i(components.chunk_start[chunk], components.chunk_start[chunk + 1])


@wp.func
def member_of(touch: TouchSlopes, components: ComponentView, n: int) -> int:
    """Particle or triangle n of that list."""
    if touch.inside == 1:
        return components.face[n]
    return components.particle[n]


@wp.kernel
def reverse_touches(
    first: int,
    touch: TouchSlopes,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    reverse: ReverseView,
    components: ComponentView,
    right: wp.array(dtype=wp.vec3d),
):
    """One thread per chunk: from the motion of its component to the contacts that changed its momentum."""
    chunk = first + wp.tid()
    component = components.chunk_component[chunk]
    if components.free[component] == 0:
        return
    origin = wp.vec3d(s.x[components.particle[components.chunk_start[components.component_start[component]]]])
    turn = wp.vec3d(wp.spatial_top(components.motion[component]))
    move = wp.vec3d(wp.spatial_bottom(components.motion[component]))
    listed = listed_in(touch, components, chunk)
    for n in range(listed[0], listed[1]):
        i = member_of(touch, components, n)
        for k in range(touch.contacts.count[i]):
            push = touch.contacts.push[i, k]
            if push != 0.0 and not is_elsewhere(touch, i, k):
                d = blend_single(touch, i, k, s.u)
                arm = blend_single(touch, i, k, s.x) - origin + d
                target = blend_single(touch, i, k, goal)
                slopes = soft_slopes(touch, i, k, target, d, -(move + wp.cross(turn, arm)), s.dt)
                by_arm = wp.cross(force_of(touch, i, k, s.dt), turn)
                # the arm ends at the displacement of the substep, not at that by inertia
                moved = slopes.moved + by_arm
                add_slopes(touch, i, k, ONE, moved, slopes.goal - by_arm, slopes.overlap, slopes.mu, reverse)
                for c in range(corners_in(touch)):
                    share = weight_at(touch, i, k, c)
                    wp.atomic_add(right, corner_at(touch, i, c), (slopes.d + by_arm) * share)
