"""Terms of contacts in the scalar S whose derivatives are the gradient of a step, see `row_terms`.

With J w = frame · (velocity of the contact point on body 0 - on body 1) under a velocity w, and
u = J v⁺ + b the mean velocity of the step (b: `contact_rows.contact_bend`), a contact that sticks adds
-p · J λ + m · (u - t) + C p_n m_n, and one that slides -p · J λ + m_n (u_n + C p_n - t_n) - ν · f, where
ν = J_t λ is held fixed and f is the friction against the slip u_t, -μ p_n u_t/|u_t|. Impulses p and
multipliers λ, m are held fixed as well; frame, point, distance, b, target velocity t, softness C and
friction μ follow from poses, velocities and materials as in the forward pass. The features in contact are
fixed (`contact_features`), and so is the weight by which bodies that are pushed apart yield.

Stage: backward pass of constraints, after the multipliers
Called by: solvers/featherstone/constraint_adjoint.py, solvers/featherstone/contact_adjoint.py
Reads: BodyStateView, ConstraintSettings, ContactMotionView, ContactParameters, ContactRowView, ContactView,
    FeatureView, KinematicsView, ModelShapeMaterials, ShapeView, Span, TreeView, 14 arrays
Writes: found, out, reason
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.algebra.spans import Span
from newtonsim.kernels.algebra.teams import alone
from newtonsim.kernels.collision.contact_features import (
    NORMAL_UNKNOWN,
    FeatureView,
    body_pose,
    contact_geometry,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import ROW_BOUNDED, ROW_HOLDS, ROW_OPEN, SLOWEST_SLIP
from newtonsim.kernels.constraints.chains import head_of, weight_of_heads
from newtonsim.kernels.constraints.contact_rows import (
    CONTACT_REFERENCE,
    CONTACT_RIGID,
    CONTACT_SMOOTH,
    CONTACT_SPRING,
    MIN_DAMPING,
    ContactRowView,
    closing_velocity,
    contact_bend,
    contact_frame,
    contact_reference,
    contact_roundness,
    contact_spring,
    contact_yield,
    pushed_softness,
    rolling_radius,
    spin_width,
    way_ahead,
)
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.constraints.impacts import any_rebound
from newtonsim.kernels.constraints.rebounds import count_bounces, end_of_bounces, time_of_impact
from newtonsim.kernels.constraints.smoothing import friction_per_slip
from newtonsim.kernels.trees.point_motion import (
    BodyStateView,
    base_gravity,
    parting_acceleration,
    point_motion,
)
from newtonsim.kernels.views.model import KinematicsView, TreeView
from newtonsim.kernels.views.references import (
    ContactParameters,
    combine,
    contact_friction,
    contact_spin_friction,
)
from newtonsim.kernels.views.shapes import ShapeView
from newtonsim.kernels.views.structs import ModelShapeMaterials

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# share of a contact's softness above which it is due to a push, up to rounding
BY_PUSH = wp.constant(0.999)

# squared slip [m²/s²] that is negligible against the width over which friction is softened
SLOWEST_SQUARE = wp.constant(1.0e-16)


@wp.struct
class ContactMotionView:
    """World velocities (ω, v of the centre of mass) of bodies, in several velocity fields over one pose.

    Bodies without joints have their own velocities, but zero under the multiplier.
    """

    com: wp.array(dtype=wp.vec3)  # (B) [m] body frame
    multiplier: wp.array(dtype=wp.spatial_vector)  # (B) under λ
    end: wp.array(dtype=wp.spatial_vector)  # (B) of the solution
    start: wp.array(dtype=wp.spatial_vector)  # (B) at the start of the step
    free: wp.array(dtype=wp.spatial_vector)  # (B) without constraints
    outcome: wp.array(dtype=wp.spatial_vector)  # (B) after propagated impacts


@wp.func
def relative_velocity(
    b0: int,
    b1: int,
    x0: wp.vec3,
    x1: wp.vec3,
    body_q: wp.array(dtype=wp.transform),
    com: wp.array(dtype=wp.vec3),
    body_qd: wp.array(dtype=wp.spatial_vector),
) -> wp.vec3:
    """Velocity of the world point x0 on body 0 relative to that of x1 on body 1 [m/s]."""
    return point_velocity(b0, x0, body_q, com, body_qd) - point_velocity(b1, x1, body_q, com, body_qd)


@wp.func
def relative_spin(b0: int, b1: int, body_qd: wp.array(dtype=wp.spatial_vector)) -> wp.vec3:
    """Angular velocity of body 0 relative to body 1 [rad/s]."""
    w = wp.vec3(0.0, 0.0, 0.0)
    if b0 >= 0:
        w += wp.spatial_top(body_qd[b0])
    if b1 >= 0:
        w -= wp.spatial_top(body_qd[b1])
    return w


@wp.func
def wanted_velocity(
    distance: float,
    approach: float,
    rate: float,
    soft: int,
    pushes: int,
    push_share: float,
    s: ConstraintSettings,
) -> float:
    """Target normal velocity of a contact without restitution; zero for a penetration unless it pushes."""
    speed = float(0.0)
    if pushes == 1 or distance >= s.contact_skin:
        speed = closing_velocity(distance, approach, rate, soft, push_share, s)
    return speed


@wp.func
def slide_term(nu: wp.vec2, u: wp.vec2, bound: float, width: float) -> float:
    """-ν · (friction of that bound against the velocity u, softened over a width if there is one)."""
    term = bound * wp.dot(nu, u)
    if width > 0.0:
        # not by a length, whose derivative at rest is not finite
        speed = wp.sqrt(wp.dot(u, u) + SLOWEST_SQUARE)
        term = term * friction_per_slip(speed, width)
    else:
        term = term / wp.max(wp.length(u), SLOWEST_SLIP)
    return term


@wp.func(inline=True)
def contact_term(
    c: int,
    tree: TreeView,
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    mass: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    motion: ContactMotionView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    s: ConstraintSettings,
    law: ContactParameters,
    rows: ContactRowView,
    impulse: wp.array(dtype=wp.vec3),
    mode: int,
    multiplier: wp.array(dtype=wp.vec3),
    pushes: wp.array(dtype=int),
    rounds: wp.array(dtype=int),
    positions: int,
) -> float:
    """Terms of the normal and tangential rows of contact c, which acts, see `contact_lagrangian`."""
    w = contacts.world[c]
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    b0 = shape.body[s0]
    b1 = shape.body[s1]
    g = contact_geometry(c, body_pose(b0, body_q), body_pose(b1, body_q), contacts.normal[c], features)
    # the points of both bodies as in `build_contact_rows`
    ahead = way_ahead(rows.leaf[c], g.distance) * g.normal
    x0 = g.point + ahead
    x1 = g.point - ahead
    frame = contact_frame(g.normal)
    p = impulse[c]
    m = multiplier[c]
    # softness and rate as in `build_contact_rows`
    spring = contact_spring(s0, s1, material, s.soft_contacts)
    soft = rows.soft[c]
    rate = s.contact_rate
    softness = rows.softness[c]
    if soft == CONTACT_SPRING:
        damping = wp.max(s.dt * spring[0] + spring[1], MIN_DAMPING)
        rate = spring[0] / damping
        softness = 1.0 / (s.dt * damping)
    m0 = point_motion(b0, x0, tree, kin, body_A, base_gravity(b0, tree, gravity), bodies)
    m1 = point_motion(b1, x1, tree, kin, body_A, base_gravity(b1, tree, gravity), bodies)
    approach_start = wp.dot(g.normal, m0.v - m1.v)
    if soft == CONTACT_SMOOTH:
        head0 = head_of(rows.leaf[c][0], tree.dof_row, tree.row_dof, tree.dof_body)
        head1 = head_of(rows.leaf[c][1], tree.dof_row, tree.row_dof, tree.dof_body)
        weight = weight_of_heads(head0, head1, mass)
        softness = s.contact_cfm + contact_yield(g.distance, approach_start, rate, weight, s)
    roundness = contact_roundness(shape, s0, s1)
    part = parting_acceleration(m0, m1, g.normal, roundness, rolling_radius(shape, s0, s1), s.dt)
    bend = contact_bend(frame * part, rows.impact[c][0], rows.soft[c], s)
    target = wanted_velocity(g.distance, approach_start, rate, soft, pushes[c], rows.push_share[c], s)
    if soft == CONTACT_REFERENCE:
        reference = contact_reference(s0, s1, b0, b1, g.distance, approach_start, law, s)
        target = reference.target
        softness = reference.softness
    if soft == CONTACT_RIGID and rows.push[c] == 0.0:
        yielding = pushed_softness(rows.weight[c][0], target)
        if yielding > BY_PUSH * softness:
            softness = yielding
    slip_before = wp.vec3(0.0, 0.0, 0.0)
    if rows.impact[c][2] > rows.impact[c][1]:
        approach = wp.dot(g.normal, relative_velocity(b0, b1, x0, x1, body_q, motion.com, motion.start))
        free = frame * relative_velocity(b0, b1, x0, x1, body_q, motion.com, motion.free)
        restitution = combine(material.restitution[s0], material.restitution[s1], s.restitution_product)
        outcome = float(0.0)
        if rounds[w] > 0:
            after = relative_velocity(b0, b1, x0, x1, body_q, motion.com, motion.outcome)
            outcome = wp.max(0.0, wp.dot(g.normal, after))
        closing = target
        share = rows.moving[c][1]
        if share < 0.0:
            target = outcome
        else:
            bounces = count_bounces(
                rows.first_impact[c], rows.impact[c][0] * share, s.restitution_speed, s.dt
            )
            more = float(0.0)
            if rounds[w] > 0:
                # as in `want_outcome`
                if outcome < -restitution * free[0]:
                    restitution = -outcome / free[0]
                else:
                    more = outcome + restitution * free[0]
            gap = wp.max(0.0, g.distance)
            hit = time_of_impact(gap, approach, (approach - free[0]) / s.dt, s.dt)
            target = end_of_bounces(hit, gap, restitution, bounces, s.dt)[positions] + more
            if positions == 1:
                slip_before = (hit[1] / s.dt) * free
        target = closing + rows.moving[c][2] * (target - closing)
    under = frame * relative_velocity(b0, b1, x0, x1, body_q, motion.com, motion.multiplier)
    end = frame * relative_velocity(b0, b1, x0, x1, body_q, motion.com, motion.end) + bend
    total = m[0] * (end[0] + softness * p[0] - target) - wp.dot(p, under)
    if mode == ROW_HOLDS:
        total = total + m[1] * (end[1] - slip_before[1]) + m[2] * (end[2] - slip_before[2])
    else:
        mu = contact_friction(s0, s1, material, law, s.friction_product)
        slip = wp.vec2(end[1] - slip_before[1], end[2] - slip_before[2])
        total = total + slide_term(wp.vec2(m[1], m[2]), slip, mu * p[0], rows.slip_width[c])
    return total


@wp.kernel
def contact_lagrangian(
    span: Span,
    tree: TreeView,
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    mass: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    motion: ContactMotionView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    s: ConstraintSettings,
    law: ContactParameters,
    rows: ContactRowView,
    impulse: wp.array(dtype=wp.vec3),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=wp.vec3),
    pushes: wp.array(dtype=int),
    rounds: wp.array(dtype=int),
    positions: int,
    out: wp.array(dtype=float),
):
    """A span of contact places: terms of their normal and tangential rows.

    Args:
        span: The places.
        tree: Topology.
        contacts: Contacts of the step.
        features: What `contact_features.find_features` found.
        shape: Shapes.
        material: Their materials.
        mass: Mass behind the first body of each chain [kg], whose weight softened contacts bear.
        body_q: World poses at the start of the step.
        motion: Velocities of bodies.
        kin: Velocities of trees at the start of the step.
        body_A: Accelerations of their bodies at constant joint velocities, on a base that accelerates against
            gravity.
        gravity: Gravity.
        bodies: Poses of all bodies, and velocities of those on no tree.
        s: Settings of the step.
        law: Parameters of contacts by reference.
        rows: Rows as the step solved them.
        impulse: Impulses of the solution.
        mode: 0 open, 1 sticking, 2 sliding.
        multiplier: m; of a contact that slides, m of the normal and J λ of the tangents.
        pushes: 0 where the target velocity omits the penetration.
        rounds: Rounds of impact by world; 0 where every contact rebounds as it would alone.
        positions: 1 for the solution that moves the positions, where it differs from that at the end.
        out: Receives the terms.
    """
    for c in range(span.first + wp.tid(), span.end, span.step):
        w = contacts.world[c]
        if c - contacts.world_start[w] < contacts.world_count[w] and mode[c] != ROW_OPEN:
            out[c] = contact_term(
                c,
                tree,
                contacts,
                features,
                shape,
                material,
                mass,
                body_q,
                motion,
                kin,
                body_A,
                gravity,
                bodies,
                s,
                law,
                rows,
                impulse,
                mode[c],
                multiplier,
                pushes,
                rounds,
                positions,
            )


@wp.kernel
def spin_lagrangian(
    first: int,
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    mu: wp.array(dtype=float),
    mu_torsion: wp.array(dtype=float),
    mu_rolling: wp.array(dtype=float),
    body_q: wp.array(dtype=wp.transform),
    motion: ContactMotionView,
    s: ConstraintSettings,
    law: ContactParameters,
    slip_width: wp.array(dtype=float),
    normal_impulse: wp.array(dtype=wp.vec3),
    impulse: wp.array(dtype=wp.vec3),
    mode: wp.array(dtype=wp.vec2i),
    multiplier: wp.array(dtype=wp.vec3),
    out: wp.array(dtype=float),
):
    """One thread per contact place: terms of torsional and rolling friction, added to those of the contact.

    `normal_impulse` holds the impulses of the contacts; `mode` is that of torsional and of rolling friction.
    The other arguments are those of `contact_lagrangian`.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    modes = mode[c]
    if modes[0] == ROW_OPEN and modes[1] == ROW_OPEN:
        return
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    b0 = shape.body[s0]
    b1 = shape.body[s1]
    g = contact_geometry(c, body_pose(b0, body_q), body_pose(b1, body_q), contacts.normal[c], features)
    frame = contact_frame(g.normal)
    p = impulse[c]
    m = multiplier[c]
    friction = contact_spin_friction(s0, s1, mu, mu_torsion, mu_rolling, law, s.friction_product)
    under = frame * relative_spin(b0, b1, motion.multiplier)
    end = frame * relative_spin(b0, b1, motion.end)
    total = -wp.dot(p, under)
    if modes[0] == ROW_HOLDS:
        total = total + m[0] * end[0]
    if modes[0] == ROW_BOUNDED:
        torsion = friction[0]
        bound = torsion * normal_impulse[c][0]
        if slip_width[c] > 0.0:
            turn_width = spin_width(slip_width[c], torsion)
            total = total + m[0] * bound * friction_per_slip(wp.abs(end[0]), turn_width) * end[0]
        else:
            total = total + m[0] * wp.sign(end[0]) * bound
    if modes[1] == ROW_HOLDS:
        total = total + m[1] * end[1] + m[2] * end[2]
    if modes[1] == ROW_BOUNDED:
        rolling = friction[1]
        limit = rolling * normal_impulse[c][0]
        roll_width = spin_width(slip_width[c], rolling)
        total = total + slide_term(wp.vec2(m[1], m[2]), wp.vec2(end[1], end[2]), limit, roll_width)
    wp.atomic_add(out, c, total)


@wp.kernel
def refuse_contacts(
    first: int,
    contacts: ContactView,
    features: FeatureView,
    rows: ContactRowView,
    mode: wp.array(dtype=int),
    restitution: int,
    no_rule: int,
    propagated: int,
    reason: wp.array(dtype=int),
):
    """One thread per world: add to its reasons those for which contacts that act have no gradient.

    Args:
        first: First world.
        contacts: Contacts of the step.
        features: What `contact_features.find_features` found.
        rows: Rows as the step solved them.
        mode: 0 for contacts that do not act.
        restitution: 0 if impacts with restitution have no gradient.
        no_rule: Bit for a contact between features that no rule covers.
        propagated: Bit for an impact with restitution that has no gradient.
        reason: Receives the bits.
    """
    w = first + wp.tid()
    found = int(0)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if mode[c] != ROW_OPEN:
            if features.normal[c] == NORMAL_UNKNOWN:
                found = found | no_rule
            rebounds = rows.impact[c][2] > rows.impact[c][1]
            if rebounds and restitution == 0:
                found = found | propagated
    reason[w] = reason[w] | found


@wp.kernel(enable_backward=False)
def refuse_compliant_contacts(
    first: int, contacts: ContactView, features: FeatureView, no_rule: int, reason: wp.array(dtype=int)
):
    """One thread per world: add the bit `no_rule` if surfaces overlap whose features no rule covers."""
    w = first + wp.tid()
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if contacts.distance[c] < 0.0 and features.normal[c] == NORMAL_UNKNOWN:
            reason[w] = reason[w] | no_rule


@wp.kernel(enable_backward=False)
def find_rebounding_worlds(
    first: int, contacts: ContactView, rows: ContactRowView, found: wp.array(dtype=int)
):
    """One thread per world: 1 if a contact rebounds in the step."""
    w = first + wp.tid()
    found[w] = int(any_rebound(alone(w), rows, contacts, w))
