"""Adjoint of contacts of particles and triangles with rigid bodies that move in the same sweeps.

The terms are those of `particles.adjoint.contacts` for motions relative to the body: the point moves by d,
and the body by h (v + ω × r), with r from the expected centre of mass at the end of the substep. The body
receives the opposite impulse; therefore the Lagrangian contains the multiplier of the point relative to that
of the body, λ - h (λᵥ + λω × r). Contacts are found, and bodies respond to them, at the expected pose.

Stage: backward pass of particles among bodies, contacts
Called by: solvers/particles/adjoint_bodies.py, kernels/particles/adjoint/coupled_system.py
Reads: ComponentView, SubstepView, TouchSlopes, TouchedBodies, facing, goal, inertia, middle, stiffness,
    world
Writes: ReverseView, SubstepView, TouchBlocks, TouchSlopes, TouchedBodies, by_centre, by_expected, by_facing,
    by_origin, matrix, reason, right, total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.adjoint.substep import BODY_MOVES
from newtonsim.kernels.particles.adjoint.contacts import (
    ONE,
    ZERO,
    TouchSlopes,
    approach,
    blend_double,
    blend_single,
    corner_at,
    corners_in,
    does_stick,
    force_of,
    hard_law,
    hard_row,
    hardness,
    listed_in,
    member_of,
    overlap_at,
    soft_law,
    weight_at,
)
from newtonsim.kernels.particles.adjoint.elements import SubstepView, unit
from newtonsim.kernels.particles.adjoint.expected_bodies import carried
from newtonsim.kernels.particles.adjoint.steps import ReverseView
from newtonsim.kernels.particles.adjoint.unsupported import BOUNCES, TOUCHES_BODY
from newtonsim.kernels.particles.vbd.components import ComponentView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# stiffness of a constraint, over that of the particle that it holds: if many hold one body, iterations
# increase with stiffness
HARD_ON_BODY = wp.constant(wp.float64(3.0e3))


@wp.struct
class TouchedBodies:
    """Rigid bodies in a substep, as seen from particles; B bodies."""

    world: wp.array(dtype=int)  # (B) -1 for those without an adjoint
    role: wp.array(dtype=int)  # (B) BODY_*
    origin: wp.array(dtype=wp.vec3)  # (B) [m] of the body frame, expected at the end
    centre: wp.array(dtype=wp.vec3)  # (B) [m] of mass, likewise
    expected: wp.array(dtype=wp.spatial_vector)  # (B) velocities that lead to this pose
    velocity: wp.array(dtype=wp.spatial_vector)  # (B) velocities after the sweeps
    carry: wp.array(dtype=wp.mat33)  # (B) effect of an angular impulse in the middle of the substep
    by_turns: wp.array(dtype=wp.vec3d)  # (B) λ, which weights impulses of particles on it
    by_pushes: wp.array(dtype=wp.vec3d)
    impulse: wp.array(dtype=wp.spatial_vector)  # (B) of particles [N m s, N s]
    own: wp.array2d(dtype=wp.mat33d)  # (B, 4) blocks of a body with itself, by rows
    by_origin: wp.array(dtype=wp.vec3d)  # (B) gradients: by the pose, its turn, the centre, velocities
    by_centre: wp.array(dtype=wp.vec3d)
    by_turn: wp.array(dtype=wp.vec3d)
    by_spin: wp.array(dtype=wp.vec3d)
    by_speed: wp.array(dtype=wp.vec3d)
    by_expected_spin: wp.array(dtype=wp.vec3d)
    by_expected_speed: wp.array(dtype=wp.vec3d)


@wp.struct
class TouchBlocks:
    """Blocks between points of contact and bodies, and the particles or triangles of each world."""

    member: wp.array(dtype=int)
    world_start: wp.array(dtype=int)  # (W + 2)
    point_spin: wp.array2d(dtype=wp.mat33d)  # rows of the point, columns of the body
    point_speed: wp.array2d(dtype=wp.mat33d)
    spin_point: wp.array2d(dtype=wp.mat33d)  # rows of the body
    speed_point: wp.array2d(dtype=wp.mat33d)


@wp.struct
class Place:
    """Position of a contact and motion of its sides."""

    start: wp.vec3d  # of the point, at the start of the substep
    goal: wp.vec3d  # displacements of the point by inertia, and in total
    d: wp.vec3d
    centre: wp.vec3d  # of the body
    spin: wp.vec3d  # its velocities, and the expected ones
    speed: wp.vec3d
    expected_spin: wp.vec3d
    expected_speed: wp.vec3d


@wp.struct
class Rates:
    """Slopes of the Lagrangian of a contact."""

    moved: wp.vec3d  # by the predicted point relative to the body
    turn: wp.vec3d  # by rotation of the normal
    place: Place
    overlap: wp.float64
    mu: wp.float64


@wp.kernel
def carry_impulses(
    first: int,
    inertia: wp.array(dtype=wp.mat33),
    middle: wp.array(dtype=wp.quat),
    facing: wp.array(dtype=wp.quat),
    bodies: TouchedBodies,
):
    """One thread per body: effect of its angular impulses."""
    b = first + wp.tid()
    bodies.carry[b] = wp.identity(3, dtype=float)
    if bodies.role[b] == BODY_MOVES:
        bodies.carry[b] = carried(inertia[b], middle[b], facing[b])


@wp.kernel
def begin_touched(first: int, bodies: TouchedBodies):
    """One thread per body: clear the sums of contacts."""
    b = first + wp.tid()
    bodies.impulse[b] = wp.spatial_vector()
    for k in range(4):
        bodies.own[b, k] = wp.mat33d()
    bodies.by_origin[b] = wp.vec3d()
    bodies.by_centre[b] = wp.vec3d()
    bodies.by_turn[b] = wp.vec3d()
    bodies.by_spin[b] = wp.vec3d()
    bodies.by_speed[b] = wp.vec3d()
    bodies.by_expected_spin[b] = wp.vec3d()
    bodies.by_expected_speed[b] = wp.vec3d()


@wp.kernel
def hand_velocities(first: int, bodies: TouchedBodies, total: wp.array(dtype=wp.spatial_vector)):
    """One thread per body: add the gradient with respect to its velocity, and clear it."""
    b = first + wp.tid()
    total[b] = total[b] + wp.spatial_vector(wp.vec3(bodies.by_spin[b]), wp.vec3(bodies.by_speed[b]))
    bodies.by_spin[b] = wp.vec3d()
    bodies.by_speed[b] = wp.vec3d()


@wp.kernel
def hand_predictions(
    first: int,
    facing: wp.array(dtype=wp.quat),
    bodies: TouchedBodies,
    by_origin: wp.array(dtype=wp.vec3),
    by_centre: wp.array(dtype=wp.vec3),
    by_facing: wp.array(dtype=wp.quat),
    by_expected: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: add the gradients with respect to its expected pose."""
    b = first + wp.tid()
    by_origin[b] = by_origin[b] + wp.vec3(bodies.by_origin[b])
    by_centre[b] = by_centre[b] + wp.vec3(bodies.by_centre[b])
    g = wp.vec3(bodies.by_turn[b])
    # a turn δ changes the quaternion by ½ δ q
    by_facing[b] = by_facing[b] + wp.quat(g[0], g[1], g[2], 0.0) * facing[b] * 2.0
    by_expected[b] = by_expected[b] + wp.spatial_vector(
        wp.vec3(bodies.by_expected_spin[b]), wp.vec3(bodies.by_expected_speed[b])
    )


@wp.func
def normal_after(n0: wp.vec3d, curvature: wp.mat33d, moved: wp.vec3d, turn: wp.vec3d) -> wp.vec3d:
    """Normal of a surface after the point moved along it and the surface rotated."""
    return wp.normalize(n0 + curvature * moved + wp.cross(turn, n0))


@wp.func
def velocity_of(speed: wp.vec3d, spin: wp.vec3d, p: wp.vec3d, centre: wp.vec3d) -> wp.vec3d:
    """Velocity of the point p of a body."""
    return speed + wp.cross(spin, p - centre)


@wp.func
def hard_touch(
    moved: wp.vec3d,
    turn: wp.vec3d,
    start: wp.vec3d,
    goal: wp.vec3d,
    d: wp.vec3d,
    centre: wp.vec3d,
    spin: wp.vec3d,
    speed: wp.vec3d,
    expected_spin: wp.vec3d,
    expected_speed: wp.vec3d,
    overlap0: wp.float64,
    mu: wp.float64,
    multiplier: wp.vec3d,
    by_spin: wp.vec3d,
    by_speed: wp.vec3d,
    hold: wp.vec3d,
    n0: wp.vec3d,
    push: wp.float64,
    force: wp.vec3d,
    curvature: wp.mat33d,
    sticks: int,
    dt: wp.float64,
) -> wp.float64:
    """Lagrangian of a hard contact with a body at the multipliers of the point, the body and the contact."""
    n = normal_after(n0, curvature, moved, turn)
    overlap = overlap_at(overlap0, n0, curvature, moved)
    come = goal - velocity_of(expected_speed, expected_spin, start + goal, centre) * dt
    more = velocity_of(speed - expected_speed, spin - expected_spin, start + d, centre)
    slide = d - velocity_of(speed, spin, start + d, centre) * dt
    relative = multiplier - velocity_of(by_speed, by_spin, start + d, centre) * dt
    work = hard_law(n, overlap, come, (d - goal) - more * dt, slide, relative, hold, n0, mu, push, sticks)
    if sticks == 1:
        # the force is that of the constraint, and acts at the point
        work -= wp.dot(force, relative)
    return work


@wp.func
def soft_touch(
    moved: wp.vec3d,
    turn: wp.vec3d,
    start: wp.vec3d,
    goal: wp.vec3d,
    d: wp.vec3d,
    centre: wp.vec3d,
    spin: wp.vec3d,
    speed: wp.vec3d,
    expected_spin: wp.vec3d,
    expected_speed: wp.vec3d,
    overlap0: wp.float64,
    mu: wp.float64,
    multiplier: wp.vec3d,
    by_spin: wp.vec3d,
    by_speed: wp.vec3d,
    n0: wp.vec3d,
    curvature: wp.mat33d,
    stick: wp.float64,
    stiffness: wp.float64,
    viscous: wp.float64,
    reach: wp.float64,
    dt: wp.float64,
) -> wp.float64:
    """Work of a contact of VBD with a body at the multipliers of the point and the body."""
    n = normal_after(n0, curvature, moved, turn)
    at_goal = overlap_at(overlap0, n0, curvature, moved)
    come = goal - velocity_of(expected_speed, expected_spin, start + goal, centre) * dt
    more = velocity_of(speed - expected_speed, spin - expected_spin, start + d, centre)
    slide = d - velocity_of(speed, spin, start + d, centre) * dt
    relative = multiplier - velocity_of(by_speed, by_spin, start + d, centre) * dt
    gone = (d - goal) - more * dt
    return soft_law(n, at_goal, come, gone, slide, relative, mu, stick, stiffness, viscous, reach)


@wp.func
def place_from(
    start: wp.vec3d,
    goal: wp.vec3d,
    d: wp.vec3d,
    centre: wp.vec3d,
    spin: wp.vec3d,
    speed: wp.vec3d,
    expected_spin: wp.vec3d,
    expected_speed: wp.vec3d,
) -> Place:
    """A `Place` from these parts."""
    place = Place()
    place.start = start
    place.goal = goal
    place.d = d
    place.centre = centre
    place.spin = spin
    place.speed = speed
    place.expected_spin = expected_spin
    place.expected_speed = expected_speed
    return place


@wp.func
def rates_from(moved: wp.vec3d, turn: wp.vec3d, place: Place, overlap: wp.float64, mu: wp.float64) -> Rates:
    """`Rates` from these parts."""
    rates = Rates()
    rates.moved = moved
    rates.turn = turn
    rates.place = place
    rates.overlap = overlap
    rates.mu = mu
    return rates


@wp.func
def place_of(
    touch: TouchSlopes,
    i: int,
    k: int,
    b: int,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    bodies: TouchedBodies,
) -> Place:
    """Position and motions of contact k of particle or triangle i with body b."""
    velocity = bodies.velocity[b]
    expected = bodies.expected[b]
    return place_from(
        blend_single(touch, i, k, s.x),
        blend_single(touch, i, k, goal),
        blend_single(touch, i, k, s.u),
        wp.vec3d(bodies.centre[b]),
        wp.vec3d(wp.spatial_top(velocity)),
        wp.vec3d(wp.spatial_bottom(velocity)),
        wp.vec3d(wp.spatial_top(expected)),
        wp.vec3d(wp.spatial_bottom(expected)),
    )


@wp.func
def soft_rates(
    touch: TouchSlopes,
    i: int,
    k: int,
    at: Place,
    multiplier: wp.vec3d,
    by_spin: wp.vec3d,
    by_speed: wp.vec3d,
    dt: wp.float64,
) -> Rates:
    """Slopes of `soft_touch`."""
    (
        moved,
        turn,
        start,
        goal,
        d,
        centre,
        spin,
        speed,
        e_spin,
        e_speed,
        overlap,
        mu,
        m,
        ms,
        mv,
        n,
        c,
        st,
        ke,
        kd,
        r,
        h,
    ) = wp.grad(soft_touch)(
        wp.vec3d(),
        wp.vec3d(),
        at.start,
        at.goal,
        at.d,
        at.centre,
        at.spin,
        at.speed,
        at.expected_spin,
        at.expected_speed,
        wp.float64(touch.contacts.overlap[i, k]),
        wp.float64(touch.contacts.mu[i, k]),
        multiplier,
        by_spin,
        by_speed,
        wp.vec3d(touch.contacts.normal[i, k]),
        wp.mat33d(touch.curvature[i, k]),
        wp.float64(touch.contacts.stick[i, k]),
        touch.stiffness,
        touch.damping / dt,
        touch.friction_speed * dt,
        dt,
    )
    place = place_from(start, goal, d, centre, spin, speed, e_spin, e_speed)
    return rates_from(moved, turn, place, overlap, mu)


@wp.func
def hard_rates(
    touch: TouchSlopes,
    i: int,
    k: int,
    at: Place,
    multiplier: wp.vec3d,
    by_spin: wp.vec3d,
    by_speed: wp.vec3d,
    hard: wp.float64,
    dt: wp.float64,
) -> Rates:
    """Slopes of `hard_touch`, at the multiplier of the contact that follows from those of its sides."""
    n = wp.vec3d(touch.contacts.normal[i, k])
    sticks = does_stick(touch.contacts, i, k)
    relative = multiplier - velocity_of(by_speed, by_spin, at.start + at.d, at.centre) * dt
    hold = relative * hard
    if sticks == 0:
        slide = at.d - velocity_of(at.speed, at.spin, at.start + at.d, at.centre) * dt
        hold = n * (wp.dot(hard_row(touch, i, k, slide), relative) * hard)
    (
        moved,
        turn,
        start,
        goal,
        d,
        centre,
        spin,
        speed,
        e_spin,
        e_speed,
        overlap,
        mu,
        m,
        ms,
        mv,
        ho,
        nn,
        pu,
        fo,
        c,
        st,
        h,
    ) = wp.grad(hard_touch)(
        wp.vec3d(),
        wp.vec3d(),
        at.start,
        at.goal,
        at.d,
        at.centre,
        at.spin,
        at.speed,
        at.expected_spin,
        at.expected_speed,
        wp.float64(touch.contacts.overlap[i, k]),
        wp.float64(touch.contacts.mu[i, k]),
        multiplier,
        by_spin,
        by_speed,
        hold,
        n,
        wp.float64(touch.contacts.push[i, k]) / (dt * dt),
        force_of(touch, i, k, dt),
        wp.mat33d(touch.curvature[i, k]),
        sticks,
        dt,
    )
    place = place_from(start, goal, d, centre, spin, speed, e_spin, e_speed)
    return rates_from(moved, turn, place, overlap, mu)


@wp.func
def hardness_on_body(touch: TouchSlopes, i: int, stiffness: wp.array(dtype=wp.float64)) -> wp.float64:
    """Stiffness that represents a constraint between a point and a body [N/m]."""
    if touch.inside == 0:
        return HARD_ON_BODY * stiffness[i]
    return hardness(touch, i, stiffness)


@wp.func
def body_touched(touch: TouchSlopes, i: int, k: int) -> int:
    """Body of contact k of particle or triangle i if it presses, or -1."""
    b = int(-1)
    if touch.contacts.push[i, k] != 0.0:
        b = touch.body[touch.contacts.shape[i, k]]
    return b


@wp.kernel
def couple_bodies(
    first: int,
    touch: TouchSlopes,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    stiffness: wp.array(dtype=wp.float64),
    world: wp.array(dtype=int),
    bodies: TouchedBodies,
    matrix: wp.array(dtype=wp.mat33d),
    blocks: TouchBlocks,
    reason: wp.array(dtype=int),
):
    """One thread per particle or triangle: blocks of its contacts with bodies, or why they have none."""
    i = first + wp.tid()
    corners = corners_in(touch)
    for k in range(touch.contacts.count[i]):
        b = body_touched(touch, i, k)
        if b >= 0:
            w = world[corner_at(touch, i, 0)]
            if bodies.world[b] != w:
                reason[w] = TOUCHES_BODY
            if approach(touch.contacts, i, k, s) > touch.slowest:
                reason[w] = BOUNCES
            at = place_of(touch, i, k, b, goal, s, bodies)
            own = wp.mat33d()
            spin_point = wp.mat33d()
            speed_point = wp.mat33d()
            point_spin = wp.mat33d()
            point_speed = wp.mat33d()
            spin_spin = wp.mat33d()
            spin_speed = wp.mat33d()
            speed_spin = wp.mat33d()
            speed_speed = wp.mat33d()
            for column in range(9):
                axis = column % 3
                on_point = wp.where(column < 3, ONE, ZERO)
                on_spin = wp.where(column >= 3 and column < 6, ONE, ZERO)
                on_speed = wp.where(column >= 6, ONE, ZERO)
                if column < 3 or bodies.role[b] == BODY_MOVES:
                    by_point = unit(axis) * on_point
                    by_spin = wp.vec3d(wp.transpose(bodies.carry[b]) * wp.vec3(unit(axis))) * on_spin
                    by_speed = unit(axis) * on_speed
                    rates = Rates()
                    if touch.hard == 0:
                        rates = soft_rates(touch, i, k, at, by_point, by_spin, by_speed, s.dt)
                    else:
                        hard = hardness_on_body(touch, i, stiffness)
                        rates = hard_rates(touch, i, k, at, by_point, by_spin, by_speed, hard, s.dt)
                    for row in range(3):
                        if column < 3:
                            own[row, axis] = rates.place.d[row]
                            spin_point[row, axis] = rates.place.spin[row]
                            speed_point[row, axis] = rates.place.speed[row]
                        elif column < 6:
                            point_spin[row, axis] = rates.place.d[row]
                            spin_spin[row, axis] = rates.place.spin[row]
                            speed_spin[row, axis] = rates.place.speed[row]
                        else:
                            point_speed[row, axis] = rates.place.d[row]
                            spin_speed[row, axis] = rates.place.spin[row]
                            speed_speed[row, axis] = rates.place.speed[row]
            blocks.point_spin[i, k] = point_spin
            blocks.point_speed[i, k] = point_speed
            blocks.spin_point[i, k] = spin_point
            blocks.speed_point[i, k] = speed_point
            wp.atomic_add(bodies.own, b, 0, spin_spin)
            wp.atomic_add(bodies.own, b, 1, spin_speed)
            wp.atomic_add(bodies.own, b, 2, speed_spin)
            wp.atomic_add(bodies.own, b, 3, speed_speed)
            for row in range(corners):
                for column in range(corners):
                    share = weight_at(touch, i, k, row) * weight_at(touch, i, k, column)
                    place = touch.entry[i]
                    if touch.inside == 1:
                        place = touch.entry[9 * i + 3 * row + column]
                    wp.atomic_add(matrix, place, own * share)


@wp.func
def add_rates(
    touch: TouchSlopes,
    i: int,
    k: int,
    b: int,
    factor: wp.float64,
    at: Place,
    rates: Rates,
    bodies: TouchedBodies,
    reverse: ReverseView,
):
    """Add slopes, times a factor, to the gradients with respect to the start of the substep."""
    largest = corner_at(touch, i, 0)
    for c in range(corners_in(touch)):
        p = corner_at(touch, i, c)
        share = factor * weight_at(touch, i, k, c)
        wp.atomic_add(reverse.x, p, (rates.moved + rates.place.start) * share)
        # the predicted point also depends on inertia
        wp.atomic_add(reverse.goal, p, (rates.moved + rates.place.goal) * share)
        if touch.radius[p] > touch.radius[largest]:
            largest = p
    wp.atomic_add(touch.radius_grad, largest, float(factor * rates.overlap))
    shape = touch.contacts.shape[i, k]
    wp.atomic_add(touch.mu_grad, shape, float(factor * rates.mu) * touch.mu_share)
    arm = (at.start + at.goal) - wp.vec3d(bodies.origin[b])
    wp.atomic_add(bodies.by_origin, b, rates.moved * (-factor))
    wp.atomic_add(bodies.by_centre, b, rates.place.centre * factor)
    wp.atomic_add(bodies.by_turn, b, (rates.turn - wp.cross(arm, rates.moved)) * factor)
    wp.atomic_add(bodies.by_expected_spin, b, rates.place.expected_spin * factor)
    wp.atomic_add(bodies.by_expected_speed, b, rates.place.expected_speed * factor)


@wp.kernel
def push_bodies(
    first: int, touch: TouchSlopes, goal: wp.array(dtype=wp.vec3), s: SubstepView, bodies: TouchedBodies
):
    """One thread per particle or triangle: its impulses on bodies."""
    i = first + wp.tid()
    for k in range(touch.contacts.count[i]):
        b = body_touched(touch, i, k)
        if b >= 0:
            at = place_of(touch, i, k, b, goal, s, bodies)
            push = force_of(touch, i, k, s.dt) * (-s.dt)
            spun = wp.cross(at.start + at.d - at.centre, push)
            wp.atomic_add(bodies.impulse, b, wp.spatial_vector(wp.vec3(spun), wp.vec3(push)))


@wp.kernel
def reverse_bodies(
    first: int,
    touch: TouchSlopes,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    stiffness: wp.array(dtype=wp.float64),
    bodies: TouchedBodies,
    reverse: ReverseView,
):
    """One thread per particle or triangle: gradients of its contacts with bodies, and their forces."""
    i = first + wp.tid()
    for k in range(touch.contacts.count[i]):
        b = body_touched(touch, i, k)
        if b >= 0:
            force = force_of(touch, i, k, s.dt)
            for c in range(corners_in(touch)):
                share = weight_at(touch, i, k, c)
                wp.atomic_add(s.residual, corner_at(touch, i, c), -force * share)
            at = place_of(touch, i, k, b, goal, s, bodies)
            multiplier = blend_double(touch, i, k, s.multiplier)
            by_spin = bodies.by_turns[b]
            by_speed = bodies.by_pushes[b]
            rates = Rates()
            if touch.hard == 0:
                rates = soft_rates(touch, i, k, at, multiplier, by_spin, by_speed, s.dt)
            else:
                hard = hardness_on_body(touch, i, stiffness)
                rates = hard_rates(touch, i, k, at, multiplier, by_spin, by_speed, hard, s.dt)
            add_rates(touch, i, k, b, -ONE, at, rates, bodies, reverse)


@wp.kernel
def reverse_body_momentum(
    first: int,
    touch: TouchSlopes,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    components: ComponentView,
    bodies: TouchedBodies,
    reverse: ReverseView,
    right: wp.array(dtype=wp.vec3d),
):
    """One thread per chunk: `contacts.reverse_touches` for contacts with bodies."""
    chunk = first + wp.tid()
    component = components.chunk_component[chunk]
    if components.free[component] == 0:
        return
    origin = wp.vec3d(s.x[components.particle[components.chunk_start[components.component_start[component]]]])
    turn = wp.vec3d(wp.spatial_top(components.motion[component]))
    move = wp.vec3d(wp.spatial_bottom(components.motion[component]))
    listed = listed_in(touch, components, chunk)
    none = wp.vec3d()
    for n in range(listed[0], listed[1]):
        i = member_of(touch, components, n)
        for k in range(touch.contacts.count[i]):
            b = body_touched(touch, i, k)
            if b >= 0:
                at = place_of(touch, i, k, b, goal, s, bodies)
                arm = at.start - origin + at.d
                rates = soft_rates(touch, i, k, at, -(move + wp.cross(turn, arm)), none, none, s.dt)
                by_arm = wp.cross(force_of(touch, i, k, s.dt), turn)
                rates.place.start = rates.place.start + by_arm
                add_rates(touch, i, k, b, ONE, at, rates, bodies, reverse)
                wp.atomic_add(bodies.by_spin, b, rates.place.spin)
                wp.atomic_add(bodies.by_speed, b, rates.place.speed)
                for c in range(corners_in(touch)):
                    share = weight_at(touch, i, k, c)
                    wp.atomic_add(right, corner_at(touch, i, c), (rates.place.d + by_arm) * share)
