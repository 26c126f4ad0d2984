"""Derivatives of contact rows by the coordinates and velocities of the dofs that move their bodies.

A contact that acts has the rows e = J v⁺ + b + C p - t (see `constraints.adjoint.contact_terms`) and the
force Fᵀ p in its frame F. Their changes at a given velocity v⁺ and impulse p, for each dof of both chains,
follow from the rules of `geometry` and from changes of body velocities and accelerations as in
`trees.rnea_derivatives`: a displacement along dof j with the motion subspace S changes the velocity v of a
body that it carries by Ψ̇ - v × S, its acceleration a at constant joint velocities by Ψ̈ - a × S - v × Ψ̇.

Stage: linear models of steps, contacts
Called by: solvers/featherstone/linear_model.py
Reads: BodyStateView, ChainView, ConstraintSettings, ContactRowView, ContactView, FeatureView,
    KinematicsView, ModelShapeMaterials, ShapeView, TreeView, body_A, external, falls, gravity, mode
Writes: ContactChangeView, wrench
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import cross_motion
from newtonsim.kernels.collision.contact_features import (
    ContactGeometry,
    FeatureView,
    body_pose,
    contact_geometry,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import ROW_OPEN
from newtonsim.kernels.constraints.contact_rows import (
    CONTACT_SMOOTH,
    CONTACT_SPRING,
    ContactRowView,
    contact_bend,
    contact_frame,
    contact_roundness,
    contact_spring,
    pushed_softness,
    rolling_radius,
    spring_damping,
    way_ahead,
)
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.constraints.linear.geometry import (
    Displacement,
    geometry_change,
    touching_point,
    unit_change,
)
from newtonsim.kernels.constraints.smoothing import LEAST_SHARE
from newtonsim.kernels.trees.point_motion import (
    BodyStateView,
    PointMotion,
    arc_acceleration,
    base_gravity,
    faster_turn,
    lacking_gravity,
    parting_acceleration,
    point_motion,
)
from newtonsim.kernels.trees.rnea_derivatives import ChainView
from newtonsim.kernels.views.model import KinematicsView, TreeView
from newtonsim.kernels.views.shapes import ShapeView
from newtonsim.kernels.views.structs import ModelShapeMaterials

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class ContactChangeView:
    """Changes of contacts by the dofs of both chains, in the layout of `ContactRowView.B`."""

    by_q: wp.array2d(dtype=wp.vec3)  # (C, 2 * depth) of the rows
    by_qd: wp.array2d(dtype=wp.vec3)  # (C, 2 * depth)
    force0: wp.array2d(dtype=wp.spatial_vector)  # (C, 2 * depth) impulse on body 0 about its tree's origin
    force1: wp.array2d(dtype=wp.spatial_vector)  # (C, 2 * depth) on body 1


@wp.struct
class TouchSlopes:
    """Slopes of target velocity and softness of a normal row by its initial gap and approach velocity."""

    target: wp.vec2
    softness: wp.vec2


@wp.struct
class Touching:
    """What all changes of a contact need; side 0 moves by m0 and end0."""

    n: wp.vec3
    frame: wp.mat33
    distance: float
    x0: wp.vec3  # [m]
    x1: wp.vec3
    m0: PointMotion
    m1: PointMotion
    end0: PointMotion  # velocities at the end of the step in the geometry at its start
    end1: PointMotion
    impulse: wp.vec3
    force: wp.vec3  # the same in world axes
    part: wp.vec3
    roundness: float
    most_round: float
    restitution: float
    slopes: TouchSlopes


@wp.struct
class MotionChange:
    """Change of a `PointMotion`."""

    w: wp.vec3
    v: wp.vec3
    a: wp.vec3


@wp.func
def smooth_slopes(
    gap: float, approach: float, softness: float, rate: float, s: ConstraintSettings
) -> TouchSlopes:
    """Slopes of a softened contact, see `smoothing.smooth_touch`; `softness` is its CFM."""
    first = -gap
    last = first - s.dt * approach
    most = wp.max(first, last)
    slopes = TouchSlopes()
    slopes.target = wp.vec2(-1.0 / s.dt, 0.0)
    if most > 0.0:
        # by the depths at the start and at the end
        size = wp.max(wp.abs(last - first), 1.0e-30)
        mean = most * most / (2.0 * size)
        depth = 2.0 / 3.0 * most
        by_most = most / size - mean / size
        dmean = wp.vec2(by_most, mean / size)
        ddepth = wp.vec2(2.0 / 3.0, 0.0)
        if last > first:
            dmean = wp.vec2(mean / size, by_most)
            ddepth = wp.vec2(0.0, 2.0 / 3.0)
        if first > 0.0 and last > 0.0:
            mean = 0.5 * (first + last)
            depth = (first * first + first * last + last * last) / (3.0 * mean)
            dmean = wp.vec2(0.5, 0.5)
            ddepth = wp.vec2(2.0 * first + last, first + 2.0 * last) / (3.0 * mean)
            ddepth = ddepth - depth / mean * dmean
        bend = wp.tanh(rate * depth / s.max_push_speed)
        slope = rate * (1.0 - bend * bend)
        slopes.target = slope * wp.vec2(-ddepth[0] - ddepth[1], -s.dt * ddepth[1])
        share = mean / s.smoothing
        if share > LEAST_SHARE:
            per_mean = -softness / mean
            slopes.softness = per_mean * wp.vec2(-dmean[0] - dmean[1], -s.dt * dmean[1])
    return slopes


@wp.func
def touch_slopes(
    c: int,
    s0: int,
    s1: int,
    distance: float,
    approach: float,
    material: ModelShapeMaterials,
    rows: ContactRowView,
    s: ConstraintSettings,
) -> TouchSlopes:
    """Slopes of `contact_rows.closing_velocity` and of the softness of contact c."""
    slopes = TouchSlopes()
    slopes.target = wp.vec2(-1.0 / s.dt, 0.0)
    if rows.soft[c] == CONTACT_SMOOTH:
        yields = rows.softness[c] - s.contact_cfm
        slopes = smooth_slopes(distance, approach, yields, s.contact_rate, s)
    elif rows.soft[c] == CONTACT_SPRING:
        if distance < 0.0:
            spring = contact_spring(s0, s1, material, s.soft_contacts)
            slopes.target[0] = -spring[0] / spring_damping(spring, s.dt)
    elif distance < s.contact_skin:
        depth = -distance - s.contact_slop
        slopes.target[0] = 0.0
        if depth > 0.0 and s.contact_rate * depth < s.max_push_speed:
            slopes.target[0] = -rows.push_share[c] * s.contact_rate
        closing = rows.impact[c][1]
        yielding = pushed_softness(rows.weight[c][0], closing)
        if yielding > 0.0 and yielding >= rows.softness[c]:
            slopes.softness[0] = yielding / closing * slopes.target[0]
    return slopes


@wp.func
def motion_change(
    m: PointMotion, dV: wp.spatial_vector, dA: wp.spatial_vector, r: wp.vec3, dx: wp.vec3
) -> MotionChange:
    """Change of the motion of a point at r from the origin, displaced by dx, given that of its body."""
    change = MotionChange()
    change.w = wp.spatial_top(dV)
    change.v = wp.spatial_bottom(dV) + wp.cross(change.w, r) + wp.cross(m.w, dx)
    alpha = wp.spatial_top(dA)
    change.a = wp.spatial_bottom(dA) + wp.cross(alpha, r) + wp.cross(m.alpha, dx)
    change.a = change.a + wp.cross(change.w, m.v) + wp.cross(m.w, change.v)
    return change


@wp.func
def parting_change(t: Touching, d0: MotionChange, d1: MotionChange, dn: wp.vec3, dt: float) -> wp.vec3:
    """Change of `point_motion.parting_acceleration`, at the spin that there is beyond a radian in a step."""
    turn = t.m0.w - t.m1.w
    dturn = d0.w - d1.w
    spin = wp.dot(turn, t.n)
    dspin = wp.dot(dturn, t.n) + wp.dot(turn, dn)
    a = t.m0.a - t.m1.a
    da = d0.a - d1.a
    most = t.most_round * (wp.length_sq(turn) - spin * spin)
    dmost = 2.0 * t.most_round * (wp.dot(turn, dturn) - spin * dspin)
    parting = wp.dot(a, t.n)
    left = float(0.0)
    dleft = float(0.0)
    if wp.abs(parting) > most:
        left = parting - wp.sign(parting) * most
        dleft = wp.dot(da, t.n) + wp.dot(a, dn) - wp.sign(parting) * dmost
    slipping = a + t.roundness * spin * turn
    dslipping = da + t.roundness * (dspin * turn + spin * dturn)
    along = left - wp.dot(slipping, t.n)
    dalong = dleft - wp.dot(dslipping, t.n) - wp.dot(slipping, dn)
    return arc_acceleration(faster_turn(t.m0, t.m1), dslipping + dalong * t.n + along * dn, dt)


@wp.func
def frame_change(n: wp.vec3, frame: wp.mat33, dn: wp.vec3) -> wp.mat33:
    """Change of `contact_rows.contact_frame`."""
    t = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        t = wp.vec3(0.0, 1.0, 0.0)
    along = wp.dot(t, n)
    dt1 = unit_change(t - along * n, -wp.dot(t, dn) * n - along * dn)
    return wp.matrix_from_rows(dn, dt1, wp.cross(dn, frame[1]) + wp.cross(n, dt1))


@wp.func
def row_change(
    t: Touching,
    g: ContactGeometry,
    dframe: wp.mat33,
    d0: MotionChange,
    d1: MotionChange,
    dend: wp.vec3,
    soft: int,
    s: ConstraintSettings,
) -> wp.vec3:
    """Change of the rows due to velocities at the end, the bend, and softness and target of the normal."""
    part = t.frame * parting_change(t, d0, d1, g.normal, s.dt) + dframe * t.part
    e = t.frame * dend + dframe * (t.end0.v - t.end1.v)
    e = e + contact_bend(part, t.restitution, soft, s)
    dapproach = wp.dot(t.n, d0.v - d1.v) + wp.dot(g.normal, t.m0.v - t.m1.v)
    by = wp.vec2(g.distance, dapproach)
    e[0] = e[0] + t.impulse[0] * wp.dot(t.slopes.softness, by) - wp.dot(t.slopes.target, by)
    return e


@wp.func
def touching_contact(
    c: int,
    b0: int,
    b1: int,
    tree: TreeView,
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    falls: wp.array(dtype=int),
    end: KinematicsView,
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    rows: ContactRowView,
    s: ConstraintSettings,
) -> Touching:
    """What all changes of contact c need."""
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    g = contact_geometry(c, body_pose(b0, bodies.q), body_pose(b1, bodies.q), contacts.normal[c], features)
    ahead = way_ahead(rows.leaf[c], g.distance) * g.normal
    t = Touching()
    t.n = g.normal
    t.distance = g.distance
    t.frame = contact_frame(g.normal)
    t.x0 = g.point + ahead
    t.x1 = g.point - ahead
    t.m0 = point_motion(b0, t.x0, tree, kin, body_A, lacking_gravity(b0, tree, falls, gravity), bodies)
    t.m1 = point_motion(b1, t.x1, tree, kin, body_A, lacking_gravity(b1, tree, falls, gravity), bodies)
    t.end0 = point_motion(b0, t.x0, tree, end, body_A, base_gravity(b0, tree, gravity), bodies)
    t.end1 = point_motion(b1, t.x1, tree, end, body_A, base_gravity(b1, tree, gravity), bodies)
    t.impulse = rows.impulse[c]
    t.force = wp.transpose(t.frame) * t.impulse
    t.roundness = contact_roundness(shape, s0, s1)
    t.restitution = rows.impact[c][0]
    t.most_round = rolling_radius(shape, s0, s1)
    t.part = parting_acceleration(t.m0, t.m1, t.n, t.roundness, t.most_round, s.dt)
    approach = wp.dot(t.n, t.m0.v - t.m1.v)
    t.slopes = touch_slopes(c, s0, s1, t.distance, approach, material, rows, s)
    return t


@wp.func
def origin_of(b: int, tree: TreeView, kin: KinematicsView) -> wp.vec3:
    """Reference point, in the world, of the spatial vectors of body b."""
    origin = wp.vec3()
    if b >= 0:
        if tree.body_tree[b] >= 0:
            origin = kin.origin[tree.body_tree[b]]
    return origin


@wp.func
def force_change(
    force: wp.vec3, dforce: wp.vec3, x: wp.vec3, dx: wp.vec3, carried: wp.vec3
) -> wp.spatial_vector:
    """Change of a force at x from the origin, relative to one that moves with the body."""
    return wp.spatial_vector(wp.cross(dx - carried, force) + wp.cross(x, dforce), dforce)


@wp.kernel
def linearize_contacts(
    first: int,
    tree: TreeView,
    contacts: ContactView,
    features: FeatureView,
    shape: ShapeView,
    material: ModelShapeMaterials,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    falls: wp.array(dtype=int),
    start: ChainView,
    end: KinematicsView,
    ending: ChainView,
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    rows: ContactRowView,
    mode: wp.array(dtype=int),
    depth: int,
    s: ConstraintSettings,
    change: ContactChangeView,
):
    """One thread per contact place: changes of its rows and forces by every dof that moves its bodies.

    Args:
        first: First place.
        tree: Topology.
        contacts: Contacts of the step.
        features: What `contact_features.find_features` found.
        shape: Shapes.
        material: Their materials.
        kin: Poses and velocities at the start of the step.
        body_A: Accelerations of bodies at constant joint velocities, as rows were built with them.
        falls: Trees for which these are accelerations in free fall.
        start: Ψ̇, Ψ̈ and Ψ̇ + Ṡ of the dofs in that motion.
        end: The same poses with the velocities at the end.
        ending: Ψ̇ of the dofs there.
        gravity: Gravity.
        bodies: Poses of all bodies, and velocities of those on no tree.
        rows: Rows as the step solved them.
        mode: 0 for contacts that do not act.
        depth: Longest chain of dofs.
        s: Settings of the step.
        change: Receives the changes.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w] or mode[c] == ROW_OPEN:
        return
    b0 = shape.body[contacts.shape0[c]]
    b1 = shape.body[contacts.shape1[c]]
    t = touching_contact(
        c,
        b0,
        b1,
        tree,
        contacts,
        features,
        shape,
        material,
        kin,
        body_A,
        falls,
        end,
        gravity,
        bodies,
        rows,
        s,
    )
    X0 = body_pose(b0, bodies.q)
    X1 = body_pose(b1, bodies.q)
    y0 = touching_point(c, 0, X0, -t.n, features)
    y1 = touching_point(c, 1, X1, t.n, features)
    o0 = origin_of(b0, tree, kin)
    o1 = origin_of(b1, tree, kin)
    soft = rows.soft[c]
    leaf = rows.leaf[c]
    way = float(0.0)
    if (leaf[0] < 0 or leaf[1] < 0) and t.distance > 0.0:
        way = 0.5
    still = wp.spatial_vector()
    still_geometry = ContactGeometry()
    for side in range(2):
        if leaf[side] >= 0:
            b = b0
            r = t.x0 - o0
            sign = float(1.0)
            if side == 1:
                b = b1
                r = t.x1 - o1
                sign = -1.0
            row = tree.dof_row[leaf[side]]
            V = kin.body_V[b]
            A = body_A[b]
            V_end = end.body_V[b]
            for k in range(tree.dof_depth[leaf[side]] + 1):
                d = tree.row_dof[row + k]
                S = kin.S[d]
                rate = start.rate[d]
                # by a displacement
                moved = Displacement()
                moved.turn = wp.spatial_top(S)
                moved.move = wp.spatial_bottom(S) + wp.cross(moved.turn, r)
                moved.at = t.x0
                m0 = moved
                m1 = Displacement()
                carried0 = wp.spatial_bottom(S) + wp.cross(moved.turn, kin.body_com[b])
                carried1 = wp.vec3()
                if side == 1:
                    moved.at = t.x1
                    m0 = Displacement()
                    m1 = moved
                    carried1 = carried0
                    carried0 = wp.vec3()
                g = geometry_change(c, X0, X1, y0, y1, m0, m1, t.n, features)
                dahead = way * (g.distance * t.n + t.distance * g.normal)
                dx0 = g.point + dahead
                dx1 = g.point - dahead
                dframe = frame_change(t.n, t.frame, g.normal)
                dV = rate - cross_motion(V, S)
                dA = start.drift[d] - cross_motion(A, S) - cross_motion(V, rate)
                dV_end = ending.rate[d] - cross_motion(V_end, S)
                dend = sign * (wp.spatial_bottom(dV_end) + wp.cross(wp.spatial_top(dV_end), r))
                dend = dend + wp.cross(t.end0.w, dx0) - wp.cross(t.end1.w, dx1)
                d0 = motion_change(t.m0, still, still, t.x0 - o0, dx0)
                d1 = motion_change(t.m1, still, still, t.x1 - o1, dx1)
                if side == 0:
                    d0 = motion_change(t.m0, dV, dA, r, dx0)
                else:
                    d1 = motion_change(t.m1, dV, dA, r, dx1)
                at = side * depth + k
                change.by_q[c, at] = row_change(t, g, dframe, d0, d1, dend, soft, s)
                dforce = wp.transpose(dframe) * t.impulse
                if leaf[0] >= 0:
                    change.force0[c, at] = force_change(t.force, dforce, t.x0 - o0, dx0, carried0)
                if leaf[1] >= 0:
                    change.force1[c, at] = -force_change(t.force, dforce, t.x1 - o1, dx1, carried1)
                # by a velocity
                dA = start.turn[d] - cross_motion(V, S)
                d0 = MotionChange()
                d1 = MotionChange()
                if side == 0:
                    d0 = motion_change(t.m0, S, dA, r, wp.vec3())
                else:
                    d1 = motion_change(t.m1, S, dA, r, wp.vec3())
                dend = sign * moved.move
                change.by_qd[c, at] = row_change(t, still_geometry, wp.mat33(), d0, d1, dend, soft, s)


@wp.kernel
def begin_wrenches(
    first: int, external: wp.array(dtype=wp.spatial_vector), wrench: wp.array(dtype=wp.spatial_vector)
):
    """One thread per body: external wrenches, to which contacts add theirs."""
    b = first + wp.tid()
    wrench[b] = external[b]


@wp.kernel
def add_contact_wrenches(
    first: int,
    tree: TreeView,
    contacts: ContactView,
    shape: ShapeView,
    kin: KinematicsView,
    bodies: BodyStateView,
    rows: ContactRowView,
    mode: wp.array(dtype=int),
    features: FeatureView,
    dt: float,
    wrench: wp.array(dtype=wp.spatial_vector),
):
    """One thread per contact place: the mean wrench of a contact that acts on its bodies, about their COM."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w] or mode[c] == ROW_OPEN:
        return
    b0 = shape.body[contacts.shape0[c]]
    b1 = shape.body[contacts.shape1[c]]
    g = contact_geometry(c, body_pose(b0, bodies.q), body_pose(b1, bodies.q), contacts.normal[c], features)
    force = wp.transpose(contact_frame(g.normal)) * rows.impulse[c] / dt
    ahead = way_ahead(rows.leaf[c], g.distance) * g.normal
    if rows.leaf[c][0] >= 0:
        arm = g.point + ahead - origin_of(b0, tree, kin) - kin.body_com[b0]
        wp.atomic_add(wrench, b0, wp.spatial_vector(wp.cross(arm, force), force))
    if rows.leaf[c][1] >= 0:
        arm = g.point - ahead - origin_of(b1, tree, kin) - kin.body_com[b1]
        wp.atomic_add(wrench, b1, -wp.spatial_vector(wp.cross(arm, force), force))
