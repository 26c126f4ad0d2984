"""Constraint rows of contacts: normal and two tangents; for torsion and rolling see `spin_rows`.

The forces on both sides of a contact act at one point of the world, in the middle of the gap or overlap:
forces at two points would not conserve angular momentum. If one side is static or kinematic, this does not
matter, and a gap is closed at the surface of the moving side.

Bodies of trees move along arcs. If u is the relative velocity due to the end velocity in the geometry at the
start of the step, the mean over the step is u + h u'/2, see `kernels.trees.point_motion`. The targets apply
to this mean, so that friction opposes the mean slip, and objects that are carried along do not creep.

Stage: constraints, assembly of rows
Called by: solvers/featherstone/constraints.py, kernels/constraints/adjoint/, kernels/constraints/,
    kernels/constraints/linear/contacts.py, kernels/constraints/solve/
Reads: BodyStateView, ConstraintSettings, ContactParameters, ContactRowView, ContactView, KinematicsView, L,
    ModelShapeMaterials, ShapeView, TreeView, body_A, falls, gravity, mass, z
Writes: ContactRowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_in_world
from newtonsim.kernels.algebra.sparse_blas import row_gram3
from newtonsim.kernels.collision.contacts import ContactView, rounding
from newtonsim.kernels.constraints.chains import (
    fill_velocity,
    inverse_weight,
    is_single,
    leaf_of,
    triple_velocity,
    whiten_sides,
)
from newtonsim.kernels.constraints.dof_rows import (
    CONTACTS_BY_SHAPE,
    CONTACTS_SOFT,
    ConstraintSettings,
)
from newtonsim.kernels.constraints.rebounds import after_impact, time_of_impact
from newtonsim.kernels.constraints.smoothing import CREEP_RATE, smooth_softness, smooth_touch
from newtonsim.kernels.trees.point_motion import (
    BodyStateView,
    lacking_gravity,
    parting_acceleration,
    point_motion,
)
from newtonsim.kernels.views.model import KinematicsView, TreeView
from newtonsim.kernels.views.references import (
    IDLE,
    ContactParameters,
    RowReference,
    combine,
    contact_friction,
    mixed_parameters,
    row_reference,
)
from newtonsim.kernels.views.shapes import GEO_BOX, GEO_HFIELD, GEO_MESH, GEO_PLANE, KIND_HULL, ShapeView
from newtonsim.kernels.views.structs import ModelShapeMaterials

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

RIGID_DIRECTION = wp.constant(1.0e-8)
# Delassus number of a normal row, over the inverse weight of its bodies, below which it is softened
LEAST_LIGHTNESS = wp.constant(1.0e-3)
# keeps materials without stiffness and damping from dividing by zero [N s/m]
MIN_DAMPING = wp.constant(1.0e-9)
MIN_WEIGHT = wp.constant(1.0e-30)
# largest radius of relative curvature [m] for which surfaces are assumed to roll
LARGEST_RADIUS = wp.constant(10.0)
# least Delassus number of a tangent, over that of the other, by which weighted friction is weighed
LEAST_YIELD = wp.constant(1.0e-4)
# softness of contacts that push articulated bodies apart faster than the second number, over their inverse
# mass and that speed [s/m]: if pushes contradict each other, none gives its bodies more than the inverse of
# it [m/s]
PUSHED_SOFTNESS = wp.constant(1.0e-2)
SLOW_PUSH = wp.constant(0.01)  # [m/s]
# kind of a contact: rigid, spring and damper of materials, softened over the width of the settings, or by
# reference
CONTACT_RIGID = wp.constant(0)
CONTACT_SPRING = wp.constant(1)
CONTACT_SMOOTH = wp.constant(2)
CONTACT_REFERENCE = wp.constant(3)


@wp.struct
class ContactRowView:
    """Three rows (normal, two tangents) per contact place; see `chains` for B and leaf."""

    leaf: wp.array(dtype=wp.vec2i)  # (C) last dof of each side, or -1
    place: wp.array(dtype=wp.vec3)  # (C) point of application, in the world [m]
    friction: wp.array(dtype=float)  # (C)
    softness: wp.array(dtype=float)  # (C) CFM of the normal row [1/kg]
    slip_width: wp.array(dtype=float)  # (C) slip over which friction is softened, 0 for Coulomb's [m/s]
    weight: wp.array(dtype=wp.vec2)  # (C) larger of Delassus number and inverse weight, as `delassus` [1/kg]
    push_share: wp.array(dtype=float)  # (C) share of the target push that adds no undue energy
    push: wp.array(dtype=float)  # (C) speed that removes a penetration, in addition to the target [m/s]
    soft: wp.array(dtype=int)  # (C) CONTACT_*
    target: wp.array(dtype=wp.vec3)  # (C) of the velocity along normal, tangent 1, tangent 2 [m/s]
    impact: wp.array(dtype=wp.vec3)  # (C) restitution, target along the normal without and with it [m/s]
    first_impact: wp.array(dtype=wp.vec3)  # (C) in the step, see `rebounds.time_of_impact`
    slip_before_impact: wp.array(dtype=wp.vec2)  # (C) over the whole step [m/s]
    # (C) target velocity of positions [m/s]; shares of the rebound left by propagation and by the energy;
    # what the pull of a step may add to the rebound [m/s]
    moving: wp.array(dtype=wp.vec4)
    delassus: wp.array(dtype=wp.vec2)  # (C) normal, largest tangential
    impulse: wp.array(dtype=wp.vec3)  # (C) [N s] along normal, tangent 1, tangent 2
    memory: wp.array(dtype=wp.vec3)  # (C) last impulse of each contact feature
    coupling: wp.array(dtype=wp.vec2)  # (C) Delassus entries of the first row with the two others
    # (C) impulses along the tangents over those of their rows; 1 without weighted friction
    stretch: wp.array(dtype=wp.vec2)
    B: wp.array2d(dtype=wp.vec3)  # (C, 2 * depth)


@wp.struct
class NormalTargets:
    """Target normal velocities [m/s] of a contact at the end of a step."""

    closing: float  # without restitution
    rebound: float  # with it
    moving: float  # with which the positions move
    impact: wp.vec3  # see `rebounds.time_of_impact`; zero if not used


@wp.struct
class SpinRowView:
    """Angular rows (about normal, tangent 1, tangent 2) per contact place; empty without such friction."""

    torsion: wp.array(dtype=float)  # (C) [m] torque about the normal over normal force
    rolling: wp.array(dtype=float)  # (C) [m] torque about the tangents over normal force
    target: wp.array(dtype=wp.vec3)  # (C) of the angular velocity [rad/s]
    delassus: wp.array(dtype=wp.vec2)  # (C) about the normal, largest about a tangent
    impulse: wp.array(dtype=wp.vec3)  # (C) [N m s]
    memory: wp.array(dtype=wp.vec3)  # (C)
    coupling: wp.array(dtype=wp.vec2)  # (C) Delassus entries of the first row with the two others
    B: wp.array2d(dtype=wp.vec3)  # (C, 2 * depth)


@wp.func
def spin_width(slip_width: float, coefficient: float) -> float:
    """Angular velocity [rad/s] over which torsional or rolling friction of a coefficient [m] is softened."""
    width = float(0.0)
    if coefficient > 0.0:
        width = slip_width / coefficient
    return width


@wp.func
def contact_spring(s0: int, s1: int, material: ModelShapeMaterials, choice: int) -> wp.vec2:
    """Stiffness [N/m] and damping [N s/m] of a contact; negative if it is rigid."""
    spring = wp.vec2(-1.0, 0.0)
    ke0 = material.ke[s0]
    ke1 = material.ke[s1]
    if choice == CONTACTS_SOFT:
        spring = 0.5 * wp.vec2(ke0 + ke1, material.kd[s0] + material.kd[s1])
    elif choice == CONTACTS_BY_SHAPE:
        if ke0 > 0.0 and ke1 > 0.0:
            spring = wp.vec2(ke0 * ke1 / (ke0 + ke1), material.kd[s0] + material.kd[s1])
        elif ke0 > 0.0:
            spring = wp.vec2(ke0, material.kd[s0])
        elif ke1 > 0.0:
            spring = wp.vec2(ke1, material.kd[s1])
    return spring


@wp.func
def closing_velocity(
    distance: float, approach: float, rate: float, soft: int, push_share: float, s: ConstraintSettings
) -> float:
    """Target normal velocity of a contact without restitution [m/s].

    A gap may close in the step. Penetration is removed at `rate` [1/s], in rigid contact at a bounded speed
    and down to the slop; the target contains the share `push_share` of this. Rigid contacts within the skin
    count as closed: all points of a face at rest then have the same target, zero, which they can reach
    together.
    """
    speed = -distance / s.dt
    if soft == CONTACT_SMOOTH:
        speed = smooth_touch(distance, approach, s.smoothing, rate, s.max_push_speed, s.dt).speed
    elif soft == CONTACT_SPRING:
        if distance < 0.0:
            speed = -rate * distance
    elif distance < s.contact_skin:
        speed = push_share * wp.min(rate * wp.max(0.0, -distance - s.contact_slop), s.max_push_speed)
    return speed


@wp.func
def contact_yield(
    distance: float, approach: float, rate: float, weight: float, s: ConstraintSettings
) -> float:
    """CFM of a softened contact of bodies with that inverse weight [1/kg]."""
    touch = smooth_touch(distance, approach, s.smoothing, rate, s.max_push_speed, s.dt)
    return smooth_softness(s.smoothing, rate, s.max_push_speed, weight, s.dt) / touch.share


@wp.func
def pushed_softness(weight: float, closing: float) -> float:
    """Least CFM of a contact that pushes articulated bodies of that weight apart at that speed [1/kg]."""
    softness = float(0.0)
    if closing > SLOW_PUSH:
        softness = PUSHED_SOFTNESS * weight * closing
    return softness


@wp.func
def contact_target(
    distance: float,
    approach: float,
    approach_free: float,
    restitution: float,
    rate: float,
    soft: int,
    push_share: float,
    s: ConstraintSettings,
) -> NormalTargets:
    """Target normal velocities of a contact at the end of the step, see `closing_velocity`.

    If a body would collide in this step, it bounces at once, unless the contact is softened.
    """
    target = NormalTargets()
    target.closing = closing_velocity(distance, approach, rate, soft, push_share, s)
    target.rebound = target.closing
    target.moving = target.closing
    bounces = restitution > 0.0 and approach < -s.restitution_speed and soft < CONTACT_SMOOTH
    if bounces and distance + s.dt * approach_free <= 0.0:
        gap = wp.max(0.0, distance)
        pull = (approach - approach_free) / s.dt
        impact = time_of_impact(gap, approach, pull, s.dt)
        after = after_impact(impact, gap, restitution, s.restitution_speed, s.dt)
        if impact[0] > 0.0 and after[0] > target.closing:
            target.impact = impact
            target.rebound = after[0]
            target.moving = after[1]
    return target


@wp.func
def moves_singles(tree: wp.ref[TreeView], leaf: wp.vec2i) -> bool:
    """True if each side is a single body, or one that no dof moves."""
    singles = bool(True)
    for side in range(2):
        if leaf[side] >= 0:
            singles = singles and is_single(tree, leaf[side])
    return singles


@wp.func
def tangent_of(n: wp.vec3) -> wp.vec3:
    """A unit vector perpendicular to n that depends on n alone."""
    t = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        t = wp.vec3(0.0, 1.0, 0.0)
    return wp.normalize(t - wp.dot(t, n) * n)


@wp.func
def contact_frame(n: wp.vec3) -> wp.mat33:
    """Normal and both tangents as rows."""
    t1 = tangent_of(n)
    return wp.matrix_from_rows(n, t1, wp.cross(n, t1))


@wp.struct
class TripleDelassus:
    """Entries of the 3x3 block of BᵀB that a sweep needs; zero where rigid."""

    diagonal: wp.vec2  # of row 0, and the largest eigenvalue of the block of rows 1 and 2
    coupling: wp.vec2  # of row 0 with the others


@wp.func
def triple_delassus(
    tree: TreeView, c: int, leaf: wp.vec2i, depth: int, B: wp.array2d(dtype=wp.vec3)
) -> TripleDelassus:
    """Delassus numbers of three rows."""
    G = wp.mat33()
    if leaf[0] >= 0:
        G += row_gram3(tree.dof_depth[leaf[0]] + 1, B, c, 0)
    if leaf[1] >= 0:
        G += row_gram3(tree.dof_depth[leaf[1]] + 1, B, c, depth)
    normal = G[0, 0]
    half = 0.5 * (G[1, 1] - G[2, 2])
    tangential = 0.5 * (G[1, 1] + G[2, 2]) + wp.sqrt(half * half + G[1, 2] * G[1, 2])
    # for a direction in which nothing can move, only rounding remains, by which one must not divide
    noise = RIGID_DIRECTION * (normal + tangential)
    if normal <= noise:
        normal = 0.0
    if tangential <= noise:
        tangential = 0.0
    result = TripleDelassus()
    result.diagonal = wp.vec2(normal, tangential)
    result.coupling = wp.vec2(G[0, 1], G[0, 2])
    return result


@wp.func
def stretch_tangents(
    tree: TreeView, c: int, leaf: wp.vec2i, depth: int, B: wp.array2d(dtype=wp.vec3)
) -> wp.vec2:
    """Scale both tangential rows to the same Delassus number, the larger one; returns the factors.

    Coulomb's law in the scaled rows is weighted friction, see `weighed_bound`.
    """
    G = wp.mat33()
    if leaf[0] >= 0:
        G += row_gram3(tree.dof_depth[leaf[0]] + 1, B, c, 0)
    if leaf[1] >= 0:
        G += row_gram3(tree.dof_depth[leaf[1]] + 1, B, c, depth)
    most = wp.max(G[1, 1], G[2, 2])
    stretch = wp.vec2(1.0, 1.0)
    if most > RIGID_DIRECTION * (G[0, 0] + most):
        for i in range(2):
            stretch[i] = wp.sqrt(most / wp.max(G[i + 1, i + 1], LEAST_YIELD * most))
        factors = wp.vec3(1.0, stretch[0], stretch[1])
        for side in range(2):
            if leaf[side] >= 0:
                for i in range(tree.dof_depth[leaf[side]] + 1):
                    B[c, side * depth + i] = wp.cw_mul(factors, B[c, side * depth + i])
    return stretch


@wp.func(inline=False)
def weighed_bound(t: wp.vec2, bound: float, stretch: wp.vec2) -> float:
    """Bound of the impulses t of both tangential rows, given that of the impulse that they stand for.

    With Coulomb's law in scaled rows, friction along each tangent is in proportion to the slip along it over
    the Delassus number: it leans to the tangent along which the bodies are heavier. This is where a
    Gauss-Seidel method ends that divides each tangential row by its own Delassus number, and then scales both
    impulses to the bound.
    """
    weighed = bound
    size = wp.length(wp.cw_mul(t, stretch))
    if size > 0.0:
        weighed = bound * (wp.length(t) / size)
    return weighed


@wp.func
def stretched(impulse: wp.vec3, stretch: wp.vec2) -> wp.vec3:
    """Impulse along normal and tangents that the impulses of the rows stand for."""
    return wp.vec3(impulse[0], stretch[0] * impulse[1], stretch[1] * impulse[2])


@wp.func
def contact_point(
    contacts: ContactView, c: int, b0: int, b1: int, body_q: wp.array(dtype=wp.transform)
) -> wp.vec3:
    """World point at which contact c acts on both sides: the middle between both surfaces."""
    x0 = point_in_world(b0, contacts.point0[c] + contacts.offset0[c], body_q)
    x1 = point_in_world(b1, contacts.point1[c] + contacts.offset1[c], body_q)
    return 0.5 * (x0 + x1)


@wp.func
def way_ahead(leaf: wp.vec2i, distance: float) -> float:
    """Offset [m] from the middle of a gap to the point of application on each side, given their last dofs.

    If one side is moved by no dof, the contact acts at the surface of the other, at any time in the step.
    """
    way = float(0.0)
    if leaf[0] < 0 or leaf[1] < 0:
        way = 0.5 * wp.max(0.0, distance)
    return way


@wp.func
def contact_roundness(shape: ShapeView, s0: int, s1: int) -> float:
    """Radius [m] of relative curvature of the surfaces in contact, if they are spheres or capsules."""
    round0 = rounding(shape, s0)
    round1 = rounding(shape, s1)
    radius = round0 + round1
    if round0 > 0.0 and round1 > 0.0:
        radius = round0 * round1 / radius
    return radius


@wp.func
def is_polyhedral(kind: int) -> bool:
    """True for shapes with flat faces, which touch others with points that stay in place on them."""
    solid = kind == GEO_BOX or kind == KIND_HULL or kind == GEO_MESH
    return solid or kind == GEO_PLANE or kind == GEO_HFIELD


@wp.func
def rolling_radius(shape: ShapeView, s0: int, s1: int) -> float:
    """Largest radius [m] of relative curvature that the surfaces in contact may have."""
    radius = LARGEST_RADIUS
    if is_polyhedral(shape.kind[s0]) and is_polyhedral(shape.kind[s1]):
        radius = 0.0
    return radius


@wp.func
def contact_bend(acceleration: wp.vec3, restitution: float, soft: int, s: ConstraintSettings) -> wp.vec3:
    """Mean velocity [m/s] at a contact, minus that in the geometry at the start of the step.

    It does not apply along the normal of contacts that may rebound, since impacts have their own time within
    the step, and of those by reference.
    """
    bend = 0.5 * s.dt * acceleration
    if soft != CONTACT_SMOOTH and (restitution > 0.0 or soft == CONTACT_REFERENCE):
        bend = wp.vec3(0.0, bend[1], bend[2])
    return bend


@wp.struct
class ContactPlace:
    """Point and axes of a contact."""

    x0: wp.vec3  # [m] point of side 0 in the world
    x1: wp.vec3
    frame: wp.mat33  # normal and both tangents as rows
    leaf: wp.vec2i  # last dof of each side, or -1


@wp.func
def contact_place(
    c: int, tree: TreeView, shape: ShapeView, body_q: wp.array(dtype=wp.transform), contacts: ContactView
) -> ContactPlace:
    """Point and axes of contact c."""
    b0 = shape.body[contacts.shape0[c]]
    b1 = shape.body[contacts.shape1[c]]
    n = contacts.normal[c]
    x = contact_point(contacts, c, b0, b1, body_q)
    place = ContactPlace()
    place.leaf = wp.vec2i(leaf_of(tree, b0), leaf_of(tree, b1))
    ahead = way_ahead(place.leaf, contacts.distance[c]) * n
    place.x0 = x + ahead
    place.x1 = x - ahead
    place.frame = contact_frame(n)
    return place


@wp.func
def fill_contact(
    c: int,
    place: ContactPlace,
    tree: TreeView,
    kin: KinematicsView,
    shape: ShapeView,
    L: wp.array(dtype=float),
    contacts: ContactView,
    depth: int,
    weighted: int,
    rows: ContactRowView,
):
    """Jacobian of contact c in energy coordinates, and its Delassus numbers."""
    leaf = place.leaf
    if leaf[0] >= 0:
        origin = kin.origin[tree.body_tree[shape.body[contacts.shape0[c]]]]
        fill_velocity(tree, kin, c, leaf[0], 0, place.frame, place.x0 - origin, rows.B)
    if leaf[1] >= 0:
        origin = kin.origin[tree.body_tree[shape.body[contacts.shape1[c]]]]
        fill_velocity(tree, kin, c, leaf[1], depth, -place.frame, place.x1 - origin, rows.B)
    whiten_sides(tree, L, c, leaf, depth, rows.B)
    stretch = wp.vec2(1.0, 1.0)
    if weighted == 1:
        stretch = stretch_tangents(tree, c, leaf, depth, rows.B)
    rows.stretch[c] = stretch
    delassus = triple_delassus(tree, c, leaf, depth, rows.B)
    rows.delassus[c] = delassus.diagonal
    rows.coupling[c] = delassus.coupling
    rows.leaf[c] = leaf
    rows.place[c] = 0.5 * (place.x0 + place.x1)


@wp.func
def spring_damping(spring: wp.vec2, dt: float) -> float:
    """Damping [N s/m] of a spring and damper at the end of a step."""
    return wp.max(dt * spring[0] + spring[1], MIN_DAMPING)


@wp.func
def contact_reference(
    s0: int,
    s1: int,
    b0: int,
    b1: int,
    distance: float,
    approach: float,
    law: ContactParameters,
    s: ConstraintSettings,
) -> RowReference:
    """Target and softness of the normal row of a contact by reference; idle without overlap."""
    weight = float(0.0)
    if b0 >= 0:
        weight += law.weight[b0]
    if b1 >= 0:
        weight += law.weight[b1]
    reference = row_reference(distance, approach, weight, mixed_parameters(s0, s1, law), s.dt, s.late)
    if distance >= 0.0:
        reference.target = -IDLE
    return reference


@wp.func
def soften_contact(
    c: int,
    tree: TreeView,
    material: ModelShapeMaterials,
    mass: wp.array(dtype=float),
    contacts: ContactView,
    s: ConstraintSettings,
    law: ContactParameters,
    rows: ContactRowView,
) -> float:
    """Set friction and softness of contact c, given its Jacobian; returns the inverse weight of its bodies.

    A contact whose normal impulse hardly moves the joints of its bodies would need nearly infinite impulses
    for any target velocity. It therefore gets a softness, and its target is limited so that it takes no more
    than the energy that its bodies would have at that velocity if they were free; `mass` is that of the
    subtree behind each body [kg]. The further softness of a softened contact depends on the approach
    velocity, see `aim_contact`.
    """
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    rows.slip_width[c] = 0.0
    rows.friction[c] = contact_friction(s0, s1, material, law, s.friction_product)
    softness = s.contact_cfm
    spring = contact_spring(s0, s1, material, s.soft_contacts)
    weight = inverse_weight(tree, rows.leaf[c], mass)
    soft = int(CONTACT_RIGID)
    if spring[0] >= 0.0:
        soft = CONTACT_SPRING
        # the force of spring and damper at the end of the step, as ERP and CFM
        softness = 1.0 / (s.dt * spring_damping(spring, s.dt))
    elif s.smoothing > 0.0:
        soft = CONTACT_SMOOTH
        rows.slip_width[c] = CREEP_RATE * s.smoothing
    if law.given == 1:
        parameters = mixed_parameters(s0, s1, law)
        if parameters.given == 1:
            soft = CONTACT_REFERENCE
            rows.slip_width[c] = 0.0
    delassus = rows.delassus[c]
    rows.softness[c] = wp.max(softness, LEAST_LIGHTNESS * weight - delassus[0])
    rows.weight[c] = wp.vec2(wp.max(delassus[0], weight), wp.max(delassus[1], weight))
    rows.soft[c] = soft
    rows.push_share[c] = wp.sqrt(wp.min(1.0, delassus[0] / wp.max(weight, MIN_WEIGHT)))
    return weight


@wp.func
def aim_contact(
    c: int,
    place: ContactPlace,
    tree: TreeView,
    kin: KinematicsView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    bodies: BodyStateView,
    body_A: wp.array(dtype=wp.spatial_vector),
    falls: wp.array(dtype=int),
    gravity: wp.array(dtype=wp.vec3),
    z: wp.array(dtype=float),
    contacts: ContactView,
    depth: int,
    weight: float,
    s: ConstraintSettings,
    law: ContactParameters,
    rows: ContactRowView,
):
    """Set the targets of contact c, given its Jacobian and softness, and its starting impulse.

    The velocity that removes a penetration of single bodies is not part of the target, but stored as `push`:
    it moves them apart and adds no speed, see `solve.solve_rows`.

    `body_A` are accelerations of bodies of trees at constant joint velocities, taken at the start: the
    velocities predicted for the middle of the step do not include contacts yet. `falls` marks the trees whose
    accelerations are those in free fall.
    """
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    b0 = shape.body[s0]
    b1 = shape.body[s1]
    n = contacts.normal[c]
    m0 = point_motion(b0, place.x0, tree, kin, body_A, lacking_gravity(b0, tree, falls, gravity), bodies)
    m1 = point_motion(b1, place.x1, tree, kin, body_A, lacking_gravity(b1, tree, falls, gravity), bodies)
    frame = place.frame
    leaf = place.leaf
    soft = rows.soft[c]
    restitution = combine(material.restitution[s0], material.restitution[s1], s.restitution_product)
    if soft == CONTACT_REFERENCE:
        restitution = 0.0
    roundness = contact_roundness(shape, s0, s1)
    part = parting_acceleration(m0, m1, n, roundness, rolling_radius(shape, s0, s1), s.dt)
    bend = contact_bend(frame * part, restitution, soft, s)
    # the rows do not contain sides that no dof moves: their velocities are part of the targets
    prescribed = wp.vec3(0.0, 0.0, 0.0)
    if leaf[0] < 0:
        prescribed += m0.v
    if leaf[1] < 0:
        prescribed -= m1.v
    moved = frame * prescribed
    free = triple_velocity(tree, leaf, c, depth, rows.B, z) + moved
    approach = wp.dot(n, m0.v - m1.v)
    rate = s.contact_rate
    if soft == CONTACT_SPRING:
        spring = contact_spring(s0, s1, material, s.soft_contacts)
        rate = spring[0] / spring_damping(spring, s.dt)
    elif soft == CONTACT_SMOOTH:
        yields = s.contact_cfm + contact_yield(contacts.distance[c], approach, rate, weight, s)
        rows.softness[c] = wp.max(rows.softness[c], yields)
    target = contact_target(
        contacts.distance[c], approach, free[0], restitution, rate, soft, rows.push_share[c], s
    )
    if soft == CONTACT_REFERENCE:
        reference = contact_reference(s0, s1, b0, b1, contacts.distance[c], approach, law, s)
        target.closing = reference.target
        target.rebound = reference.target
        target.moving = reference.target
        rows.softness[c] = wp.max(rows.softness[c], reference.softness)
    rows.push[c] = 0.0
    alone = soft == CONTACT_RIGID and target.rebound == target.closing and moves_singles(tree, leaf)
    if alone and target.closing > 0.0:
        rows.push[c] = target.closing
        target.closing = 0.0
        target.rebound = 0.0
        target.moving = 0.0
    if soft == CONTACT_RIGID:
        rows.softness[c] = wp.max(rows.softness[c], pushed_softness(rows.weight[c][0], target.closing))
    rows.target[c] = wp.vec3(target.rebound, 0.0, 0.0) - bend - moved
    rows.impact[c] = wp.vec3(restitution, target.closing, target.rebound)
    rows.first_impact[c] = target.impact
    rows.slip_before_impact[c] = target.impact[1] / s.dt * wp.vec2(free[1], free[2])
    rows.moving[c] = wp.vec4(target.moving, 1.0, 1.0, wp.abs(target.impact[2]) * s.dt)
    rows.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
    if contacts.match[c] >= 0:
        shrink = wp.cw_div(wp.vec2(1.0, 1.0), rows.stretch[c])
        rows.impulse[c] = s.warm_start * stretched(rows.memory[contacts.match[c]], shrink)


@wp.kernel
def build_contact_rows(
    first: int,
    tree: TreeView,
    kin: KinematicsView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    bodies: BodyStateView,
    body_A: wp.array(dtype=wp.spatial_vector),
    falls: wp.array(dtype=int),
    gravity: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    contacts: ContactView,
    depth: int,
    s: ConstraintSettings,
    law: ContactParameters,
    rows: ContactRowView,
):
    """One thread per contact place: normal and tangential rows, targets, warm start."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    place = contact_place(c, tree, shape, bodies.q, contacts)
    fill_contact(c, place, tree, kin, shape, L, contacts, depth, s.weighted, rows)
    stretch = rows.stretch[c]
    place.frame = wp.diag(wp.vec3(1.0, stretch[0], stretch[1])) * place.frame
    weight = soften_contact(c, tree, material, mass, contacts, s, law, rows)
    aim_contact(
        c,
        place,
        tree,
        kin,
        shape,
        material,
        bodies,
        body_A,
        falls,
        gravity,
        z,
        contacts,
        depth,
        weight,
        s,
        law,
        rows,
    )
