"""Contacts of bodies in sweeps over velocities: normal, friction in a cone, torsion, rolling, restitution.

The gap is recomputed at the start of every substep, from points that move with the bodies; within a substep,
it changes with the velocities. Impulses are accumulated over the sweeps and stored from step to step; their
sum bounds friction (Coulomb), not the correction of one sweep. Then velocities are corrected alone, so that
the removal of a penetration adds no speed, and for restitution (Müller, Macklin, Chentanez, Jeschke, Kim,
"Detailed rigid body simulation with extended position based dynamics", SCA 2020, section 3.6). A body that
bounces in a substep ends it at the position that it reaches after its impact, see `rebounds`.

Stage: substep in maximal coordinates, before and after the sweeps
Called by: solvers/maximal/sweeps.py, kernels/maximal/adjoint/contact_terms.py,
    kernels/maximal/contact_sweep.py
Reads: BodyContactView, BodySettings, ContactView, ModelShapeMaterials, MotionView, ShapeView, SpinView,
    gravity, mask, mu_rolling, mu_torsion
Writes: BodyContactView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_in_world
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.rebounds import count_bounces, end_of_bounces, time_of_impact
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import SpinView, inverse_mass
from newtonsim.kernels.views.shapes import GEO_CAPSULE, GEO_SPHERE, ShapeView
from newtonsim.kernels.views.structs import ModelShapeMaterials

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# a contact that does not bounce due to the motion at the start of the substep, but may bounce if hit later
UNTIMED = wp.constant(-1)
NO_REBOUND = wp.constant(-2)


@wp.struct
class BodySettings:
    """Numbers of a substep."""

    dt: float  # [s]
    step: float  # [s] length of the whole step, over which gravity acts
    before: float  # [s] time of the step before the substep
    linear_relaxation: float  # factors on corrections
    angular_relaxation: float
    contact_relaxation: float
    warm_start: float  # share of the impulses of the last substep that contacts start from
    joint_warm_start: float  # and joints
    push_speed: float  # [m/s] at which a penetration is removed
    recovery_speed: float  # [m/s or rad/s] at which errors of joints at the start are removed
    limit_speed: float  # [m/s or rad/s] at which violated limits are restored
    torsion: float  # [m] torsional friction of shapes without their own
    rolling: float  # [m]
    restitution: int  # 1 if contacts bounce
    product: int  # 1 for products of both shapes' friction, 0 for means
    angular_damping: float  # [1/s]


@wp.struct
class BodyContactView:
    """Contacts during sweeps; C contact places."""

    body0: wp.array(dtype=int)  # (C)
    body1: wp.array(dtype=int)  # (C)
    follows: wp.array(dtype=int)  # (C) the shape, 0 or 1, with which the point of contact moves
    arm0: wp.array(dtype=wp.vec3)  # (C) [m] from the centres of mass to the point of contact
    arm1: wp.array(dtype=wp.vec3)  # (C)
    turn0: wp.array(dtype=wp.mat33)  # (C) change of angular velocity by an impulse at the point
    turn1: wp.array(dtype=wp.mat33)  # (C)
    mobility: wp.array(dtype=wp.vec2)  # (C) [1/kg] along the normal, and at most along a tangent
    spin_mobility: wp.array(dtype=wp.vec2)  # (C) [1/(kg m²)] about the normal, and at most about a tangent
    friction: wp.array(dtype=wp.vec3)  # (C) coefficients of friction, torsion [m], rolling [m]
    gap: wp.array(dtype=float)  # (C) [m] at the start of the substep
    speed: wp.array(dtype=float)  # (C) [m/s] least normal velocity to the end of the substep
    target: wp.array(dtype=float)  # (C) [m/s] normal velocity after the substep, if the contact pushes
    bounces: wp.array(
        dtype=int
    )  # (C) bounces after the expected impact in the substep; or UNTIMED, NO_REBOUND
    motion_before_impact: wp.array(dtype=wp.spatial_vector)  # (C) mean relative spin and velocity
    shift: wp.array(dtype=float)  # (C) [N s] impulse that removes a penetration in the substep
    share: wp.array(dtype=float)  # (C) 1 over the points of the pair
    impulse: wp.array(dtype=wp.vec3)  # (C) [N s] on body 0, world axes
    spin: wp.array(dtype=wp.vec3)  # (C) [N m s] likewise
    pushes: wp.array(dtype=int)  # (C) 1 if the contact pushed in the sweeps over positions
    memory: wp.array(dtype=wp.vec3)  # (C) impulses of the last step
    spin_memory: wp.array(dtype=wp.vec3)  # (C)


@wp.func
def arm_matrix(b: int, arm: wp.vec3, spin: SpinView) -> wp.mat33:
    """Change of the angular velocity of body b by an impulse at the end of an arm."""
    turn = wp.mat33()
    if b >= 0:
        turn = spin.inv_inertia[b] * wp.skew(arm)
    return turn


@wp.func
def mixed(a: float, b: float, product: int) -> float:
    """Product or mean of a parameter of both materials."""
    return wp.where(product == 1, a * b, 0.5 * (a + b))


@wp.func
def rebound(approach: float, gap: float, pull: float, e: float, dt: float) -> float:
    """Speed after an impact in the substep that yields the correct apex [m/s].

    A body that approaches at this speed at the end of a kick by gravity hits with
    v² = (approach - g h/2)² + 2 g gap - (g h/2)². It leaves the surface at the end of the step and rises by
    v'²/2g - v' h/2 in steps of that length, which must equal e² v²/2g.

    Args:
        approach: Speed towards the surface after the kick [m/s].
        gap: Distance before the step [m].
        pull: Acceleration g towards the surface [m/s²].
        e: Coefficient of restitution.
        dt: Time between kicks [s].
    """
    half = 0.5 * pull * dt
    speed = approach - half
    square = wp.max(0.0, speed * speed + 2.0 * pull * wp.max(gap, 0.0) - half * half)
    return half + wp.sqrt(half * half + e * e * square)


@wp.func
def way_to_impact(gap: float, approach: float, s: BodySettings) -> float:
    """Distance at the start of the step, from that of a substep [m]."""
    return wp.max(gap, 0.0) + s.before * approach


@wp.func
def foresee(gap: float, approach: float, pull: float, e: float, bounces: int, s: BodySettings) -> wp.vec3:
    """Normal velocities after an impact in the substep and to its end, and the time of the impact.

    Args:
        gap: Distance at the start of the substep [m].
        approach: Speed towards the surface [m/s].
        pull: Acceleration towards the surface [m/s²]; that of the whole step is in `approach`.
        e: Coefficient of restitution.
        bounces: Further ones in the step, see `rebounds.count_bounces`.
        s: Settings.

    Returns:
        Both velocities [m/s], away from the surface, and the share of the substep before the impact.
    """
    way = way_to_impact(gap, approach, s)
    impact = time_of_impact(way, pull * s.step - approach, pull, s.step)
    end = end_of_bounces(impact, way, e, bounces, s.step)
    # displacement in the rest of the step after the substep
    height = way + s.step * end[1] - (s.step - s.before - s.dt) * end[0]
    share = wp.clamp((impact[1] - s.before) / s.dt, 0.0, 1.0)
    return wp.vec3(end[0], (height - wp.max(gap, 0.0)) / s.dt, share)


@wp.func
def bounces_of(gap: float, approach: float, pull: float, e: float, s: BodySettings) -> int:
    """Value of `BodyContactView.bounces` of a contact in the substep."""
    bounces = int(NO_REBOUND)
    # an approach due to one step of gravity does not bounce
    if e > 0.0 and approach > 2.0 * wp.abs(pull) * s.step:
        bounces = UNTIMED
        if gap < approach * s.dt:
            impact = time_of_impact(way_to_impact(gap, approach, s), pull * s.step - approach, pull, s.step)
            bounces = count_bounces(impact, e, 0.0, s.step)
            if bounces < 0:
                bounces = NO_REBOUND
    return bounces


@wp.func
def relative_velocity(b0: int, b1: int, r0: wp.vec3, r1: wp.vec3, bodies: MotionView) -> wp.vec3:
    """Velocity of body 0 relative to body 1 at a point."""
    v = wp.vec3(0.0)
    if b0 >= 0:
        v = wp.spatial_bottom(bodies.velocity[b0]) + wp.cross(wp.spatial_top(bodies.velocity[b0]), r0)
    if b1 >= 0:
        v -= wp.spatial_bottom(bodies.velocity[b1]) + wp.cross(wp.spatial_top(bodies.velocity[b1]), r1)
    return v


@wp.func
def relative_spin(b0: int, b1: int, bodies: MotionView) -> wp.vec3:
    """Angular velocity of body 0 relative to body 1."""
    w = wp.vec3(0.0)
    if b0 >= 0:
        w = wp.spatial_top(bodies.velocity[b0])
    if b1 >= 0:
        w -= wp.spatial_top(bodies.velocity[b1])
    return w


@wp.func
def push_contact(c: int, x: wp.vec3, view: BodyContactView, bodies: MotionView):
    """Apply an impulse at the point of contact c to both bodies."""
    b0 = view.body0[c]
    b1 = view.body1[c]
    if b0 >= 0:
        kick = wp.spatial_vector(view.turn0[c] * x, bodies.inv_mass[b0] * x)
        bodies.velocity[b0] = bodies.velocity[b0] + kick
    if b1 >= 0:
        kick = wp.spatial_vector(view.turn1[c] * x, bodies.inv_mass[b1] * x)
        bodies.velocity[b1] = bodies.velocity[b1] - kick


@wp.func
def point_off(gap: float, bounces: int) -> float:
    """Distance of the point of application from the surface with which it moves [m]."""
    return wp.where(bounces >= 0, 0.0, 0.5 * gap)


@wp.func
def place_point(
    c: int, contacts: ContactView, bodies: MotionView, spin: SpinView, view: BodyContactView
) -> float:
    """Arms and mobilities of contact c at the current poses; returns the gap [m].

    The impulse acts on both bodies in the middle between both surfaces; in an impact, marked by
    `view.bounces`, where they meet.
    """
    b0 = view.body0[c]
    b1 = view.body1[c]
    n = contacts.normal[c]
    x0 = point_in_world(b0, contacts.point0[c], bodies.origin)
    x1 = point_in_world(b1, contacts.point1[c], bodies.origin)
    round0 = wp.length(contacts.offset0[c])
    round1 = wp.length(contacts.offset1[c])
    # current position of the smaller or round shape
    gap = wp.dot(n, x0 - x1) - round0 - round1
    off = point_off(gap, view.bounces[c])
    x = x0 - (round0 + off) * n
    if view.follows[c] == 1:
        x = x1 + (round1 + off) * n
    r0 = wp.vec3(0.0)
    r1 = wp.vec3(0.0)
    if b0 >= 0:
        r0 = x - spin.com[b0]
    if b1 >= 0:
        r1 = x - spin.com[b1]
    view.arm0[c] = r0
    view.arm1[c] = r1
    turn0 = arm_matrix(b0, r0, spin)
    turn1 = arm_matrix(b1, r1, spin)
    view.turn0[c] = turn0
    view.turn1[c] = turn1
    m = inverse_mass(b0, bodies) + inverse_mass(b1, bodies)
    t = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        t = wp.vec3(0.0, 1.0, 0.0)
    t = wp.normalize(t - wp.dot(t, n) * n)
    s = wp.cross(n, t)
    kn = m + wp.dot(n, wp.cross(turn0 * n, r0) + wp.cross(turn1 * n, r1))
    answer_t = wp.cross(turn0 * t, r0) + wp.cross(turn1 * t, r1)
    answer_s = wp.cross(turn0 * s, r0) + wp.cross(turn1 * s, r1)
    tt = wp.dot(t, answer_t)
    ss = wp.dot(s, answer_s)
    ts = wp.dot(s, answer_t)
    half = 0.5 * (tt - ss)
    view.mobility[c] = wp.vec2(kn, m + 0.5 * (tt + ss) + wp.sqrt(half * half + ts * ts))
    return gap


@wp.func
def follower(s0: int, s1: int, shape: ShapeView) -> int:
    """The shape with which a point of contact moves: a round one, or else the smaller one."""
    round0 = shape.kind[s0] == GEO_SPHERE or shape.kind[s0] == GEO_CAPSULE
    round1 = shape.kind[s1] == GEO_SPHERE or shape.kind[s1] == GEO_CAPSULE
    second = shape.radius[s1] < shape.radius[s0]
    if round0 != round1:
        second = round1
    return int(second)


@wp.func
def coefficients_of(
    s0: int,
    s1: int,
    material: ModelShapeMaterials,
    mu_torsion: wp.array(dtype=float),
    mu_rolling: wp.array(dtype=float),
    s: BodySettings,
) -> wp.vec3:
    """Coefficients of friction, torsion [m] and rolling [m] of two shapes."""
    torsion = mixed(mu_torsion[s0], mu_torsion[s1], 0)
    rolling = mixed(mu_rolling[s0], mu_rolling[s1], 0)
    if s.product == 1:
        torsion = material.mu[s1] * mu_torsion[s0] + material.mu[s0] * mu_torsion[s1]
        rolling = material.mu[s1] * mu_rolling[s0] + material.mu[s0] * mu_rolling[s1]
    torsion = wp.where(torsion > 0.0, torsion, s.torsion)
    rolling = wp.where(rolling > 0.0, rolling, s.rolling)
    return wp.vec3(mixed(material.mu[s0], material.mu[s1], s.product), torsion, rolling)


@wp.kernel
def place_contacts(
    first: int,
    contacts: ContactView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    mu_torsion: wp.array(dtype=float),
    mu_rolling: wp.array(dtype=float),
    gravity: wp.array(dtype=wp.vec3),
    fresh: int,
    s: BodySettings,
    bodies: MotionView,
    spin: SpinView,
    view: BodyContactView,
):
    """One thread per contact place: gap, arms, coefficients, and the starting impulse.

    If `fresh`, the contacts are those of a new collision pass, and get their impulse from their match.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    b0 = shape.body[s0]
    b1 = shape.body[s1]
    view.body0[c] = b0
    view.body1[c] = b1
    view.follows[c] = follower(s0, s1, shape)
    view.bounces[c] = NO_REBOUND
    gap = place_point(c, contacts, bodies, spin, view)
    view.gap[c] = gap
    n = contacts.normal[c]
    view.friction[c] = coefficients_of(s0, s1, material, mu_torsion, mu_rolling, s)
    W = wp.mat33()
    pull = float(0.0)
    if b0 >= 0:
        W = W + spin.inv_inertia[b0]
        if bodies.inv_mass[b0] > 0.0:
            pull -= wp.dot(n, gravity[w])
    if b1 >= 0:
        W = W + spin.inv_inertia[b1]
        if bodies.inv_mass[b1] > 0.0:
            pull += wp.dot(n, gravity[w])
    about = wp.dot(n, W * n)
    view.spin_mobility[c] = wp.vec2(about, W[0, 0] + W[1, 1] + W[2, 2] - about)
    view.target[c] = 0.0
    view.speed[c] = -wp.max(gap, 0.0) / s.dt
    view.motion_before_impact[c] = wp.spatial_vector()
    view.shift[c] = 0.0
    if s.restitution == 1:
        e = mixed(material.restitution[s0], material.restitution[s1], s.product)
        approach = -wp.dot(n, relative_velocity(b0, b1, view.arm0[c], view.arm1[c], bodies))
        bounces = bounces_of(gap, approach, pull, e, s)
        view.bounces[c] = bounces
        if bounces == UNTIMED:
            view.target[c] = rebound(approach, gap, wp.max(pull, 0.0), e, s.step)
        elif bounces >= 0:
            gap = place_point(c, contacts, bodies, spin, view)
            seen = foresee(gap, approach, pull, e, bounces, s)
            view.target[c] = seen[0]
            view.speed[c] = seen[1]
            slip = relative_velocity(b0, b1, view.arm0[c], view.arm1[c], bodies)
            view.motion_before_impact[c] = seen[2] * wp.spatial_vector(relative_spin(b0, b1, bodies), slip)
    view.share[c] = 1.0 / float(wp.max(pair_size(c, contacts), 1))
    if fresh == 1:
        view.impulse[c] = wp.vec3(0.0)
        view.spin[c] = wp.vec3(0.0)
        if contacts.match[c] >= 0:
            view.impulse[c] = view.memory[contacts.match[c]]
            view.spin[c] = view.spin_memory[contacts.match[c]]


@wp.func
def pair_size(c: int, contacts: ContactView) -> int:
    """Contacts next to c that join the same shapes, c included."""
    w = contacts.world[c]
    begin = contacts.world_start[w]
    end = begin + contacts.world_count[w]
    lower = c
    while lower > begin and contacts.shape0[lower - 1] == contacts.shape0[c]:
        if contacts.shape1[lower - 1] != contacts.shape1[c]:
            break
        lower -= 1
    upper = c + 1
    while upper < end and contacts.shape0[upper] == contacts.shape0[c]:
        if contacts.shape1[upper] != contacts.shape1[c]:
            break
        upper += 1
    return upper - lower


@wp.kernel
def place_contacts_again(
    first: int, contacts: ContactView, bodies: MotionView, spin: SpinView, view: BodyContactView
):
    """One thread per contact place: arms and mobilities at the current poses, where bodies push."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    view.pushes[c] = 0
    if wp.dot(contacts.normal[c], view.impulse[c]) > 0.0:
        view.pushes[c] = 1
        view.gap[c] = place_point(c, contacts, bodies, spin, view)


@wp.kernel
def keep_impulses(first: int, contacts: ContactView, view: BodyContactView):
    """One thread per contact place: keep its impulse for the next step."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] < contacts.world_count[w]:
        view.memory[c] = view.impulse[c]
        view.spin_memory[c] = view.spin[c]


@wp.kernel
def forget_contacts(first: int, mask: wp.array(dtype=bool), contacts: ContactView, view: BodyContactView):
    """One thread per contact place: forget its impulse if its world is masked."""
    c = first + wp.tid()
    if mask[contacts.world[c]]:
        view.memory[c] = wp.vec3(0.0)
        view.spin_memory[c] = wp.vec3(0.0)
