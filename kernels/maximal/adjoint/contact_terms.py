"""Terms of contacts of bodies in the Lagrangian of a substep, in kernels that a tape can reverse.

A contact acts in three systems of a substep: the shift that removes its penetration, the velocities that lead
to the end, and the correction of velocities there. In each it pushes with the impulse p and the angular
impulse y on body 0, where v and w are the velocity and the spin of body 0 relative to body 1 at its point,
and these residuals vanish at the solution, with parts along the normal n and across it:

- an impulse across n that sticks: v across n; one that slides: p + μ (p_n + s) v / |v| across n, where s is
  the impulse of the shift; one that does not act: p;
- along n: v_n - target where the contact pushes, else p_n;
- likewise y across n against w (rolling) with ρ p_n for μ (p_n + s), and y along n (torsion).

In the velocities that lead to the end, v and w are relative to those of the time before an impact.

The term of a contact is m · residual - p · v(λ) - y · w(λ), with m its multiplier and λ those of the bodies.
Normal, point and gap follow from the poses at the start of the step, where features are found, as in
`contact_features`; the points then move with the bodies, while the normal is constant.

Stage: backward pass in maximal coordinates, contacts
Called by: solvers/maximal/contact_adjoint.py, kernels/maximal/adjoint/contact_system.py
Reads: BodyContactView, BodySettings, ContactStageView, ContactView, FeatureView, ModelShapeMaterials, 16
    arrays
Writes: foreseen, motion_before_impact, term, velocity
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import inverse_of, rotate_inertia
from newtonsim.kernels.collision.contact_features import FeatureView, body_pose, contact_geometry
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.adjoint.substep import BODY_MOVES
from newtonsim.kernels.maximal.contacts import (
    NO_REBOUND,
    BodyContactView,
    BodySettings,
    coefficients_of,
    foresee,
    mixed,
    point_off,
    rebound,
)
from newtonsim.kernels.views.shapes import ShapeView
from newtonsim.kernels.views.structs import ModelShapeMaterials

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# systems
STAGE_SHIFT = wp.constant(0)
STAGE_POSITION = wp.constant(1)
STAGE_VELOCITY = wp.constant(2)
# modes of a part of a contact
OPEN = wp.constant(0)
HOLDS = wp.constant(1)
SLIDES = wp.constant(2)
# slowest slip [m/s or rad/s] whose direction counts
SLOWEST_SLIP = wp.constant(1.0e-4)


@wp.struct
class ContactStageView:
    """Contacts in one of the systems of a substep; C contact places. Pairs of vectors are angular, linear.

    Six rows a contact: normal, two tangents, torsion, two of rolling. What row k asks for changes with the
    relative motion by `scale * along`, and its multiplier is `scale * pull · (motion under λ)`.
    """

    acts: wp.array(dtype=int)  # (C) 0 for contacts without terms
    mode: wp.array(dtype=wp.vec4i)  # (C) of normal, sliding, torsion, rolling
    arm0: wp.array(dtype=wp.vec3)  # (C) [m]
    arm1: wp.array(dtype=wp.vec3)  # (C)
    gap: wp.array(dtype=float)  # (C) [m] at the start of the substep
    total: wp.array(dtype=wp.spatial_vector)  # (C) impulse so far in the substep, which bounds friction
    push: wp.array(dtype=wp.spatial_vector)  # (C) impulse of this system
    wedge: wp.array(dtype=float)  # (C) [N s] impulse of the shift
    # (C) gradient with respect to the impulse, from systems that come later
    want: wp.array(dtype=wp.spatial_vector)
    multiplier: wp.array(dtype=wp.spatial_vector)  # (C)
    along: wp.array2d(dtype=wp.spatial_vector)  # (C, 6)
    pull: wp.array2d(dtype=wp.spatial_vector)  # (C, 6)
    scale: wp.array2d(dtype=float)  # (C, 6)


@wp.struct
class PlacedContact:
    """Normal, arms from the centres of mass [m] and gap [m]; world."""

    normal: wp.vec3
    arm0: wp.vec3
    arm1: wp.vec3
    gap: float


@wp.func
def place_contact(
    c: int,
    b0: int,
    b1: int,
    places: BodyContactView,
    contacts: ContactView,
    features: FeatureView,
    start: wp.array(dtype=wp.transform),
    pose: wp.array(dtype=wp.transform),
    center: wp.array(dtype=wp.vec3),
) -> PlacedContact:
    """Contact c at the current poses, found at those of the step's start: `maximal.contacts.place_point`."""
    s0 = body_pose(b0, start)
    s1 = body_pose(b1, start)
    g = contact_geometry(c, s0, s1, contacts.normal[c], features)
    round0 = wp.length(contacts.offset0[c])
    round1 = wp.length(contacts.offset1[c])
    p0 = g.point + (round0 + 0.5 * g.distance) * g.normal
    p1 = g.point - (round1 + 0.5 * g.distance) * g.normal
    x0 = wp.transform_point(body_pose(b0, pose) * wp.transform_inverse(s0), p0)
    x1 = wp.transform_point(body_pose(b1, pose) * wp.transform_inverse(s1), p1)
    placed = PlacedContact()
    placed.normal = g.normal
    placed.gap = wp.dot(g.normal, x0 - x1) - round0 - round1
    off = point_off(placed.gap, places.bounces[c])
    x = x0 - (round0 + off) * g.normal
    if places.follows[c] == 1:
        x = x1 + (round1 + off) * g.normal
    if b0 >= 0:
        placed.arm0 = x - center[b0]
    if b1 >= 0:
        placed.arm1 = x - center[b1]
    return placed


@wp.func
def relative_motion(
    b0: int, b1: int, r0: wp.vec3, r1: wp.vec3, twist: wp.array(dtype=wp.spatial_vector)
) -> wp.spatial_vector:
    """Spin and velocity of body 0 relative to body 1 at a point with these arms."""
    v = wp.vec3(0.0)
    w = wp.vec3(0.0)
    if b0 >= 0:
        w += wp.spatial_top(twist[b0])
        v += wp.spatial_bottom(twist[b0]) + wp.cross(wp.spatial_top(twist[b0]), r0)
    if b1 >= 0:
        w -= wp.spatial_top(twist[b1])
        v -= wp.spatial_bottom(twist[b1]) + wp.cross(wp.spatial_top(twist[b1]), r1)
    return wp.spatial_vector(w, v)


@wp.func
def across_residual(mode: int, rate: wp.vec3, impulse: wp.vec3, bound: float, n: wp.vec3) -> wp.vec3:
    """Residual of friction across the normal; see the module."""
    slip = rate - wp.dot(n, rate) * n
    residual = impulse - wp.dot(n, impulse) * n
    if mode == HOLDS:
        residual = slip
    if mode == SLIDES:
        residual = residual + bound * slip / wp.max(wp.length(slip), SLOWEST_SLIP)
    return residual


@wp.func
def target_of(stage: int, gap: float, now: float, seen: wp.vec3, s: BodySettings) -> float:
    """Normal velocity of a pushing contact in the solution.

    Args:
        stage: The system.
        gap: Distance at the start of the substep.
        now: Its value, which determines the branch.
        seen: See `foresee_contacts`.
        s: Settings.
    """
    target = float(0.0)
    if stage == STAGE_VELOCITY:
        target = seen[0]
    if stage == STAGE_POSITION:
        target = seen[1]
        if seen[2] < 0.0 and now > 0.0:
            target = -gap / s.dt
    if stage == STAGE_SHIFT:
        target = s.push_speed
        if -now < s.push_speed * s.dt:
            target = -gap / s.dt
    return target


@wp.kernel
def start_bodies(
    first: int,
    mass: wp.array(dtype=float),
    inertia: wp.array(dtype=wp.mat33),
    role: wp.array(dtype=int),
    middle: wp.array(dtype=wp.quat),
    free: wp.array(dtype=wp.spatial_vector),
    kick: wp.array(dtype=wp.spatial_vector),
    velocity: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: its velocity before joints and contacts act, which determines expected impacts."""
    b = first + wp.tid()
    twist = free[b]
    if role[b] == BODY_MOVES:
        spun = rotate_inertia(middle[b], inverse_of(inertia[b])) * wp.spatial_top(kick[b])
        twist = twist + wp.spatial_vector(spun, wp.spatial_bottom(kick[b]) / mass[b])
    velocity[b] = twist


@wp.kernel
def foresee_contacts(
    first: int,
    contacts: ContactView,
    places: BodyContactView,
    features: FeatureView,
    material: ModelShapeMaterials,
    gravity: wp.array(dtype=wp.vec3),
    role: wp.array(dtype=int),
    s: BodySettings,
    start: wp.array(dtype=wp.transform),
    pose: wp.array(dtype=wp.transform),
    center: wp.array(dtype=wp.vec3),
    velocity: wp.array(dtype=wp.spatial_vector),
    foreseen: wp.array(dtype=wp.vec3),
    motion_before_impact: wp.array(dtype=wp.spatial_vector),
):
    """One thread per contact place: its bounces, as in `maximal.contacts.place_contacts`.

    Args:
        first: First place.
        contacts: Contacts of the step.
        places: Their bounces in the forward pass.
        features: What `contact_features.find_features` found.
        material: Materials of the shapes.
        gravity: Gravity.
        role: How bodies take part.
        s: Settings of the substep.
        start: Poses at the start of the step.
        pose: Poses at the start of the substep.
        center: Centres of mass there.
        velocity: From `start_bodies`.
        foreseen: Receives normal velocities after an impact and up to the end of the substep; the third
            number is negative if the latter is not foreseen.
        motion_before_impact: Receives spin and velocity up to the impact.
    """
    c = first + wp.tid()
    foreseen[c] = wp.vec3(0.0, 0.0, -1.0)
    motion_before_impact[c] = wp.spatial_vector()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w] or places.bounces[c] == NO_REBOUND:
        return
    b0 = places.body0[c]
    b1 = places.body1[c]
    at = place_contact(c, b0, b1, places, contacts, features, start, pose, center)
    motion = relative_motion(b0, b1, at.arm0, at.arm1, velocity)
    approach = -wp.dot(at.normal, wp.spatial_bottom(motion))
    pull = float(0.0)
    if b0 >= 0:
        if role[b0] == BODY_MOVES:
            pull -= wp.dot(at.normal, gravity[w])
    if b1 >= 0:
        if role[b1] == BODY_MOVES:
            pull += wp.dot(at.normal, gravity[w])
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    e = mixed(material.restitution[s0], material.restitution[s1], s.product)
    bounces = places.bounces[c]
    if bounces >= 0:
        seen = foresee(at.gap, approach, pull, e, bounces, s)
        foreseen[c] = seen
        motion_before_impact[c] = seen[2] * motion
    else:
        foreseen[c] = wp.vec3(rebound(approach, at.gap, wp.max(pull, 0.0), e, s.step), 0.0, -1.0)


@wp.kernel
def weigh_contacts(
    first: int,
    contacts: ContactView,
    places: BodyContactView,
    features: FeatureView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    mu_torsion: wp.array(dtype=float),
    mu_rolling: wp.array(dtype=float),
    s: BodySettings,
    stage: int,
    start: wp.array(dtype=wp.transform),
    pose: wp.array(dtype=wp.transform),
    center: wp.array(dtype=wp.vec3),
    multiplier: wp.array(dtype=wp.spatial_vector),
    velocity: wp.array(dtype=wp.spatial_vector),
    foreseen: wp.array(dtype=wp.vec3),
    motion_before_impact: wp.array(dtype=wp.spatial_vector),
    view: ContactStageView,
    term: wp.array(dtype=float),
):
    """One thread per contact place: its term in one system.

    Args:
        first: First place.
        contacts: Contacts of the step.
        places: Their bodies.
        features: What `contact_features.find_features` found.
        shape: Shapes.
        material: Their materials.
        mu_torsion: Torsional friction of the shapes.
        mu_rolling: Rolling friction.
        s: Settings of the substep.
        stage: STAGE_*.
        start: Poses at the start of the step.
        pose: Those at which the system has its arms.
        center: Centres of mass there.
        multiplier: Multipliers of the bodies that impulses move, 0 of others.
        velocity: Solution.
        foreseen: See `foresee_contacts`.
        motion_before_impact: Likewise.
        view: How contacts act.
        term: Receives the terms.
    """
    c = first + wp.tid()
    term[c] = 0.0
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w] or view.acts[c] == 0:
        return
    b0 = places.body0[c]
    b1 = places.body1[c]
    at = place_contact(c, b0, b1, places, contacts, features, start, pose, center)
    n = at.normal
    motion = relative_motion(b0, b1, at.arm0, at.arm1, velocity)
    under = relative_motion(b0, b1, at.arm0, at.arm1, multiplier)
    mode = view.mode[c]
    impulse = wp.spatial_bottom(view.total[c])
    spin = wp.spatial_top(view.total[c])
    along = wp.dot(n, impulse)
    mu = coefficients_of(contacts.shape0[c], contacts.shape1[c], material, mu_torsion, mu_rolling, s)
    normal = along
    if mode[0] == HOLDS:
        normal = wp.dot(n, wp.spatial_bottom(motion))
        normal = normal - target_of(stage, at.gap, view.gap[c], foreseen[c], s)
    if stage == STAGE_POSITION:
        motion = motion - motion_before_impact[c]
    rate = wp.spatial_bottom(motion)
    turning = wp.spatial_top(motion)
    twist = wp.dot(n, spin)
    if mode[2] == HOLDS:
        twist = wp.dot(n, turning)
    if mode[2] == SLIDES:
        twist = twist + wp.sign(wp.dot(n, turning)) * mu[1] * along
    push = across_residual(mode[1], rate, impulse, mu[0] * (along + view.wedge[c]), n) + normal * n
    roll = across_residual(mode[3], turning, spin, mu[2] * along, n) + twist * n
    m = view.multiplier[c]
    residual = wp.spatial_vector(roll, push)
    term[c] = wp.dot(m, residual) - wp.dot(view.push[c], under)
