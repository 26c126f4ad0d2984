"""Constraint rows between two bodies or dofs: loops, distances, swing and twist limits, couplings, friction.

A row measures one number c of the motion of body 1 relative to body 0: a coordinate of an anchor, a cosine,
an angle. Its rate is the power of opposite unit wrenches on both bodies at one point, so that linear and
angular momentum are conserved. The target rate brings c to zero, or keeps it within an interval. The position
at the end of the step is c + h c' + h² c''/2: the second-order term, from the bias accelerations of the
bodies, is part of the target rate, so that loops do not drift apart in motion.

Where each body is to be pushed at its own anchor, offsets of anchors are measured along axes of the world, or
across a slide along those of frame 0, and rotations as Euler angles, all without their second-order terms
(`PAIR_SPAN`, `PAIR_ACROSS`, `PAIR_ANGLES`): momentum is then conserved in as far as the error is small.

Welds, connected points and couplings may be rows by reference instead, see `kernels.views.references`. Rows
by reference between bodies act on each body at its own anchor, and those of welds and connected points
include c'' in their acceleration.

Dry friction of ball and floating joints acts on other velocities than those of their dofs: on the turning of
body 1 relative to body 0 about the axes of body 1, and on the velocity of the origin of its frame along the
axes of the world. It has no position: the velocity at the end of the step, c' + h c'', is kept at zero by a
bounded impulse.

Sources: Baumgarte, "Stabilization of constraints and integrals of motion in dynamical systems", 1972;
Featherstone, "Rigid Body Dynamics Algorithms", 2008, chapter 8 (loop joints and their stabilisation);
MuJoCo's documentation, "Overview: Floating objects" and "XML reference: frictionloss" (velocities of ball and
free joints).

Stage: constraints, assembly of rows
Called by: solvers/featherstone/constraints.py, kernels/constraints/adjoint/row_terms.py,
    kernels/constraints/geometric_stiffness.py, kernels/constraints/solve/prediction.py,
    kernels/constraints/solve/pushes.py, kernels/penalty/loops.py
Reads: BodyStateView, ConstraintSettings, JointView, KinematicsView, L, LoopView, PairRowView, TreeView,
    body_A, gravity, mass, q, qd, z
Writes: PairRowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.constraints.chains import fill_chain, leaf_of, row_velocity, whiten_sides
from newtonsim.kernels.constraints.dof_rows import UNBOUNDED, ConstraintSettings, limit_speed
from newtonsim.kernels.constraints.pair_measures import (
    TINY,
    BodyMotion,
    RowMeasure,
    is_friction,
    measure_reference,
    measure_row,
    relative_rotation,
)
from newtonsim.kernels.trees.dof_inertia import is_moved
from newtonsim.kernels.trees.point_motion import BodyStateView, base_gravity, point_motion
from newtonsim.kernels.views.model import JointView, KinematicsView, TreeView
from newtonsim.kernels.views.pair_rows import (
    PAIR_ACROSS,
    PAIR_ANGLES,
    PAIR_COUPLING,
    PAIR_DISTANCE,
    PAIR_OFFSET,
    PAIR_ROTATION,
    PAIR_SLIDE,
    PAIR_SPAN,
    PAIR_SWING,
    PAIR_TENDON,
    PAIR_TWIST,
    LoopView,
    PairRowView,
)
from newtonsim.kernels.views.references import (
    RowReference,
    impedance,
    rate_reference,
    read_parameters,
    reference_at,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# rows whose mobility is below this share of that without cancellation are rounding
RIGID_ROW = wp.constant(1.0e-10)
LEAST_TURN = wp.constant(1.0e-4)  # half of the length that weights a rotation, see `loop_reference` [m]
# share of the inverse inertia below which a side of a row moves nothing of its own
LEAST_SIDE = wp.constant(1.0e-6)
NO_MOBILITY = wp.constant(1.0e-20)  # of a row that no dof moves
NO_DISTANCE_SQUARED = wp.constant(1.0e-24)  # [m²] keeps the derivative finite at a distance of zero


@wp.struct
class PairFrames:
    """Two bodies and the anchor frame of each."""

    b0: int
    b1: int
    X0: wp.transform
    X1: wp.transform


@wp.func
def body_motion(
    b: int,
    frame: wp.transform,
    tree: TreeView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
) -> BodyMotion:
    """Motion of the anchor `frame` of body b; body -1 is the world."""
    X = frame
    if b >= 0:
        X = bodies.q[b] * frame
    down = base_gravity(b, tree, gravity)
    p = point_motion(b, wp.transform_get_translation(X), tree, kin, body_A, down, bodies)
    # every member is set once: reverse mode would count what was overwritten
    m = BodyMotion()
    m.x = wp.transform_get_translation(X)
    m.q = wp.transform_get_rotation(X)
    m.w = p.w
    m.v = p.v
    m.alpha = p.alpha
    m.a = p.a
    return m


@wp.func
def acts_at_own_anchors(kind: int) -> bool:
    """True for rows that push each body at its own anchor."""
    return kind == PAIR_SPAN or kind == PAIR_ACROSS


@wp.func
def holds_equality(kind: int) -> bool:
    """True for rows that bring to zero what they measure of two bodies."""
    return kind <= PAIR_ROTATION or acts_at_own_anchors(kind) or kind == PAIR_ANGLES


@wp.func
def measures_offset(kind: int) -> bool:
    """True for rows on how far anchors are apart."""
    return kind == PAIR_OFFSET or acts_at_own_anchors(kind)


@wp.func
def pushed_at(asks: bool, kind: int, m0: BodyMotion, m1: BodyMotion) -> wp.vec3:
    """Point at which a row acts on body 0: that on body 1, or its own anchor."""
    x = m1.x
    if asks or acts_at_own_anchors(kind):
        x = m0.x
    return x


@wp.func
def row_interval(kind: int, j: int, c: int, index: int, loop: LoopView) -> wp.vec2:
    """Least and largest allowed value of the measure of a row."""
    interval = wp.vec2(0.0, 0.0)
    if kind == PAIR_DISTANCE:
        if j >= 0:
            interval = wp.vec2(loop.joint_distance_lower[j], loop.joint_distance_upper[j])
        else:
            interval = wp.vec2(loop.distance_lower[c], loop.distance_upper[c])
        if interval[0] < 0.0:
            interval[0] = -UNBOUNDED
        if interval[1] < 0.0:
            interval[1] = UNBOUNDED
    elif kind == PAIR_SWING:
        interval = wp.vec2(-UNBOUNDED, loop.joint_swing_limit[j])
    elif kind == PAIR_TWIST and j >= 0:
        interval = wp.vec2(loop.joint_twist_lower[j], loop.joint_twist_upper[j])
    elif kind == PAIR_SLIDE or kind == PAIR_TWIST:
        interval = wp.vec2(loop.limit_lower[index], loop.limit_upper[index])
    return interval


@wp.func
def pair_frames(r: int, joint: JointView, loop: LoopView, rows: PairRowView) -> PairFrames:
    """Bodies and anchor frames of a row, of a joint or a constraint."""
    f = PairFrames()
    j = rows.joint[r]
    if j >= 0:
        f.b0 = joint.parent[j]
        f.b1 = joint.child[j]
        f.X0 = joint.X_p[j]
        if is_friction(rows.kind[r]):
            f.X1 = wp.transform_identity()
        else:
            f.X1 = joint.X_c[j]
    else:
        c = rows.constraint[r]
        f.b0 = loop.parent[c]
        f.b1 = loop.child[c]
        f.X0 = loop.X_p[c]
        f.X1 = loop.X_c[c]
    return f


@wp.func
def recovery_rate(c: int, loop: LoopView, s: ConstraintSettings) -> float:
    """Rate at which errors of constraint c are removed [1/s]."""
    rate = s.loop_rate
    if loop.recovery_time[c] > 0.0:
        rate = 1.0 / wp.max(loop.recovery_time[c], s.dt)
    return rate


@wp.func
def equality_speed(value: float, rate: float, s: ConstraintSettings) -> float:
    """Velocity that removes an error."""
    return wp.clamp(-rate * value, -s.max_limit_speed, s.max_limit_speed)


@wp.func
def bend_of(curvature: float, s: ConstraintSettings) -> float:
    """h/2 times the second derivative of a measure, where a step is short enough for it to tell anything."""
    return wp.clamp(0.5 * s.dt * curvature, -s.max_limit_speed, s.max_limit_speed)


@wp.func
def want_equality(
    r: int,
    c: int,
    value: float,
    bend: float,
    compliance: float,
    loop: LoopView,
    s: ConstraintSettings,
    rows: PairRowView,
):
    """Bounds of a row that drives `value` to zero; `bend` is h/2 times its second derivative."""
    rate = recovery_rate(c, loop, s)
    speed = equality_speed(value, rate, s) - bend
    rows.target_lower[r] = speed
    rows.target_upper[r] = speed
    # the compliance exerts its force at the end of the step, see `rate`
    rows.softness[r] = compliance * rate / s.dt
    rows.upper[r] = loop.max_force[c] * s.dt
    rows.lower[r] = -rows.upper[r]


@wp.func
def want_interval(
    r: int,
    value: float,
    bend: float,
    interval: wp.vec2,
    speed: float,
    s: ConstraintSettings,
    rows: PairRowView,
) -> bool:
    """Bounds of a row that keeps `value` within an interval; returns whether it is in reach."""
    gap0 = value - interval[0]
    gap1 = interval[1] - value
    rows.target_lower[r] = limit_speed(gap0, s) - bend
    rows.target_upper[r] = -limit_speed(gap1, s) - bend
    rows.softness[r] = s.limit_cfm
    rows.lower[r] = -UNBOUNDED
    rows.upper[r] = UNBOUNDED
    return wp.min(gap0, gap1) < s.limit_margin + 2.0 * wp.abs(speed) * s.dt


@wp.func
def has_loop_reference(kind: int, c: int, loop: LoopView) -> bool:
    """True if rows of the given kind of constraint c are by reference."""
    found = bool(False)
    if loop.by_reference == 1 and (holds_equality(kind) or kind == PAIR_COUPLING):
        found = loop.ref[c, 0] != 0.0
    return found


@wp.func
def loop_violation(c: int, m0: BodyMotion, m1: BodyMotion, loop: LoopView) -> float:
    """Distance of the anchors; for a weld, combined with half the `turn` times the sine of half the angle."""
    total = wp.length_sq(m1.x - m0.x) + NO_DISTANCE_SQUARED
    if loop.weight[c][2] > 0.0:
        q = relative_rotation(m0, m1)
        total += loop.turn[c] * loop.turn[c] * (q[0] * q[0] + q[1] * q[1] + q[2] * q[2])
    return wp.sqrt(total)


@wp.func
def loop_reference(
    kind: int,
    c: int,
    row: RowMeasure,
    rate: float,
    violation: float,
    share: float,
    loop: LoopView,
    s: ConstraintSettings,
) -> RowReference:
    """Target and softness of a row by reference of constraint c, in the units of its measure.

    In the residual of a weld, a rotation is weighted by a length; as this divides a row by a length, its
    softness is divided by the square. Implicit forces reduce the inverse weight by a factor.
    """
    weight = loop.weight[c][0]
    if kind == PAIR_ROTATION or kind == PAIR_ANGLES:
        arm = wp.max(0.5 * loop.turn[c], LEAST_TURN)
        weight = loop.weight[c][1] / (arm * arm)
    p = read_parameters(c, loop.ref, loop.imp)
    d = impedance(violation, p)
    return reference_at(d, row.value, rate, row.curvature, share * weight, p, s.dt, s.late)


@wp.func
def wrench_at(x: wp.vec3, row: RowMeasure) -> wp.spatial_vector:
    """Wrench of a row that acts at x, about the origin of x."""
    return wp.spatial_vector(row.torque + wp.cross(x, row.force), row.force)


@wp.func
def last_dof(b: int, tree: TreeView) -> int:
    """Last dof that moves body b, -1 for none; `leaf_of` has no reverse mode."""
    leaf = int(-1)
    if b >= 0:
        leaf = tree.body_leaf[b]
    return leaf


@wp.func
def row_sums(
    f: PairFrames,
    x0: wp.vec3,
    x1: wp.vec3,
    row: RowMeasure,
    tree: TreeView,
    kin: KinematicsView,
    loop: LoopView,
) -> wp.vec2:
    """Σ J² light and Σ J² heavy over the dofs that move a row between bodies, each dof alone.

    The quotient of the latter by the former is the share of the row's inverse weight that remains with
    implicit forces.
    """
    light = float(NO_MOBILITY)
    heavy = float(NO_MOBILITY)
    leaf0 = last_dof(f.b0, tree)
    leaf1 = last_dof(f.b1, tree)
    if leaf1 >= 0:
        origin1 = kin.origin[tree.body_tree[f.b1]]
        for k in range(tree.dof_depth[leaf1] + 1):
            d = tree.row_dof[tree.dof_row[leaf1] + k]
            both = wp.where(is_moved(leaf0, d, tree), 1.0, 0.0)
            wrench = wrench_at(x1 - origin1, row) - both * wrench_at(x0 - origin1, row)
            rate = wp.dot(kin.S[d], wrench)
            light += rate * rate * loop.light[d]
            heavy += rate * rate * loop.heavy[d]
    if leaf0 >= 0:
        origin0 = kin.origin[tree.body_tree[f.b0]]
        for k in range(tree.dof_depth[leaf0] + 1):
            d = tree.row_dof[tree.dof_row[leaf0] + k]
            alone = wp.where(is_moved(leaf1, d, tree), 0.0, 1.0)
            rate = alone * wp.dot(kin.S[d], wrench_at(x0 - origin0, row))
            light += rate * rate * loop.light[d]
            heavy += rate * rate * loop.heavy[d]
    return wp.vec2(light, heavy)


@wp.func
def coupling_share(leaf: wp.vec2i, slope: float, loop: LoopView, s: ConstraintSettings) -> float:
    """The same share for a coupling of two dofs."""
    share = float(1.0)
    if s.late == 1:
        light = loop.light[leaf[0]]
        heavy = loop.heavy[leaf[0]]
        if leaf[1] >= 0:
            light += slope * slope * loop.light[leaf[1]]
            heavy += slope * slope * loop.heavy[leaf[1]]
        share = heavy / light
    return share


@wp.func
def want_reference(r: int, c: int, reference: RowReference, loop: LoopView, dt: float, rows: PairRowView):
    """Bounds of a row by reference."""
    rows.target_lower[r] = reference.target
    rows.target_upper[r] = reference.target
    rows.softness[r] = reference.softness
    rows.upper[r] = loop.max_force[c] * dt
    rows.lower[r] = -rows.upper[r]


@wp.func
def start_rate(
    r: int, leaf: wp.vec2i, depth: int, tree: TreeView, qd: wp.array(dtype=float), B: wp.array2d(dtype=float)
) -> float:
    """Rate of a row at velocities qd, from its Jacobian before whitening."""
    rate = float(0.0)
    for side in range(2):
        if leaf[side] >= 0:
            row = tree.dof_row[leaf[side]]
            for k in range(tree.dof_depth[leaf[side]] + 1):
                rate += B[r, side * depth + k] * qd[tree.row_dof[row + k]]
    return rate


@wp.func
def fill_wrench(
    r: int,
    b: int,
    leaf: int,
    offset: int,
    arm: wp.vec3,
    torque: wp.vec3,
    force: wp.vec3,
    tree: TreeView,
    kin: KinematicsView,
    L: wp.array(dtype=float),
    B: wp.array2d(dtype=float),
) -> float:
    """Jacobian of one side; returns its mobility if no product of vectors cancelled."""
    fill_chain(tree, kin, r, leaf, offset, wp.spatial_vector(torque + wp.cross(arm, force), force), B)
    total = float(0.0)
    push = wp.length(force)
    moment = wp.length(torque) + wp.length(arm) * push
    row = tree.dof_row[leaf]
    for k in range(tree.dof_depth[leaf] + 1):
        d = tree.row_dof[row + k]
        scale = L[tree.dof_row[d] + k]
        S = kin.S[d]
        most = wp.length(wp.spatial_top(S)) * moment + wp.length(wp.spatial_bottom(S)) * push
        total += most * most * scale * scale
    return total


@wp.func
def yields_by_reference(d: int, loop: LoopView) -> bool:
    """True if the dry friction of dof d is by reference."""
    found = bool(False)
    if loop.friction_by_reference == 1:
        found = loop.friction_ref[d, 0] != 0.0
    return found


@wp.func
def rub_reference(d: int, rate: float, share: float, loop: LoopView, s: ConstraintSettings) -> RowReference:
    """Target and softness of the dry friction of dof d at a rate; for the share see `loop_reference`."""
    p = read_parameters(d, loop.friction_ref, loop.friction_imp)
    return rate_reference(rate, share * loop.dof_weight[d], p, s.dt, s.late)


@wp.func
def largest_force(r: int, loop: LoopView, rows: PairRowView) -> float:
    """Bound of the force of a row that is bounded [N or N m]."""
    bound = float(0.0)
    if is_friction(rows.kind[r]):
        bound = loop.friction[rows.index[r]]
    else:
        bound = loop.max_force[rows.constraint[r]]
    return bound


@wp.func
def want_friction(
    r: int,
    f: PairFrames,
    m1: BodyMotion,
    row: RowMeasure,
    rate: float,
    tree: TreeView,
    kin: KinematicsView,
    loop: LoopView,
    s: ConstraintSettings,
    rows: PairRowView,
):
    """Bounds of a row of dry friction, given its rate at the start of the step."""
    d = rows.index[r]
    reference = RowReference()
    if yields_by_reference(d, loop):
        share = float(1.0)
        if s.late == 1:
            sums = row_sums(f, m1.x, m1.x, row, tree, kin, loop)
            share = sums[1] / sums[0]
        reference = rub_reference(d, rate, share, loop, s)
    rows.target_lower[r] = reference.target - s.dt * row.curvature
    rows.target_upper[r] = rows.target_lower[r]
    rows.softness[r] = reference.softness
    rows.upper[r] = largest_force(r, loop, rows) * s.dt
    rows.lower[r] = -rows.upper[r]


@wp.func
def adds_energy(kind: int, c: int, loop: LoopView) -> bool:
    """True for rows that remove errors of positions, other than those by reference."""
    return not is_friction(kind) and not has_loop_reference(kind, c, loop)


@wp.func
def wanted_push(lower: float, upper: float) -> float:
    """Velocity at which a row removes an error; 0 for a limit that is not violated."""
    push = lower
    if lower < upper:
        push = wp.max(lower, 0.0) + wp.min(upper, 0.0)
    return push


@wp.func
def place_body_row(
    r: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    L: wp.array(dtype=float),
    loop: LoopView,
    depth: int,
    s: ConstraintSettings,
    rows: PairRowView,
) -> float:
    """Jacobian and target velocity of a row between bodies; returns a bound of its mobility, 0 if idle."""
    kind = rows.kind[r]
    c = rows.constraint[r]
    f = pair_frames(r, joint, loop, rows)
    m0 = body_motion(f.b0, f.X0, tree, kin, body_A, gravity, bodies)
    m1 = body_motion(f.b1, f.X1, tree, kin, body_A, gravity, bodies)
    asks = has_loop_reference(kind, c, loop)
    row = measure_row(kind, m0, m1, rows.axis0[r], rows.axis1[r])
    if asks:
        row = measure_reference(kind, m0, m1, rows.axis0[r])
    rows.force[r] = row.force
    rows.torque[r] = row.torque
    rows.point[r] = m1.x
    x0 = pushed_at(asks, kind, m0, m1)
    rows.point0[r] = x0
    rate0 = wp.dot(row.force, m0.v + wp.cross(m0.w, x0 - m0.x)) + wp.dot(row.torque, m0.w)
    rate1 = wp.dot(row.force, m1.v) + wp.dot(row.torque, m1.w)
    bend = bend_of(row.curvature, s)
    if kind == PAIR_DISTANCE:
        rows.turn[r] = s.dt / wp.max(row.value, TINY)
    if is_friction(kind):
        if loop.friction[rows.index[r]] <= 0.0:
            return 0.0
    elif holds_equality(kind):
        compliance = loop.angular_compliance[c]
        if measures_offset(kind):
            compliance = loop.linear_compliance[c]
        want_equality(r, c, row.value, bend, compliance, loop, s, rows)
    else:
        interval = row_interval(kind, rows.joint[r], c, rows.index[r], loop)
        if not want_interval(r, row.value, bend, interval, rate1 - rate0, s, rows):
            return 0.0
    leaf = wp.vec2i(leaf_of(tree, f.b1), leaf_of(tree, f.b0))
    rows.leaf[r] = leaf
    mobility = float(0.0)
    # the row does not contain bodies that no dof moves: their velocities are part of the target
    prescribed = float(0.0)
    if leaf[0] >= 0:
        arm = m1.x - kin.origin[tree.body_tree[f.b1]]
        mobility += fill_wrench(r, f.b1, leaf[0], 0, arm, row.torque, row.force, tree, kin, L, rows.B)
    else:
        prescribed += rate1
    if leaf[1] >= 0:
        arm = x0 - kin.origin[tree.body_tree[f.b0]]
        mobility += fill_wrench(r, f.b0, leaf[1], depth, arm, -row.torque, -row.force, tree, kin, L, rows.B)
    else:
        prescribed -= rate0
    if asks:
        rate = start_rate(r, leaf, depth, tree, loop.qd, rows.B) + prescribed
        violation = loop_violation(c, m0, m1, loop)
        share = float(1.0)
        if s.late == 1:
            sums = row_sums(f, x0, m1.x, row, tree, kin, loop)
            share = sums[1] / sums[0]
        reference = loop_reference(kind, c, row, rate, violation, share, loop, s)
        want_reference(r, c, reference, loop, s.dt, rows)
    if is_friction(kind):
        rate = prescribed
        if loop.friction_by_reference == 1:
            rate += start_rate(r, leaf, depth, tree, loop.qd, rows.B)
        want_friction(r, f, m1, row, rate, tree, kin, loop, s, rows)
    if adds_energy(kind, c, loop):
        rows.push[r] = wanted_push(rows.target_lower[r] + bend, rows.target_upper[r] + bend)
        rows.bend[r] = bend
    rows.target_lower[r] = rows.target_lower[r] - prescribed
    rows.target_upper[r] = rows.target_upper[r] - prescribed
    return mobility


@wp.func
def fill_unit(tree: TreeView, r: int, d: int, offset: int, factor: float, B: wp.array2d(dtype=float)):
    """Jacobian of one dof times a factor."""
    for k in range(tree.dof_depth[d]):
        B[r, offset + k] = 0.0
    B[r, offset + tree.dof_depth[d]] = factor


@wp.func
def place_coupling(
    r: int,
    tree: TreeView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    loop: LoopView,
    depth: int,
    s: ConstraintSettings,
    rows: PairRowView,
):
    """Jacobian and target velocity of q_a - p(q_b) = 0 with a polynomial p, linearised at q_b."""
    c = rows.constraint[r]
    leaf = rows.dofs[r]
    rows.leaf[r] = leaf
    value = float(0.0)
    slope = float(0.0)
    bend = float(0.0)
    x = float(0.0)
    if leaf[1] >= 0:
        x = q[tree.dof_coord[leaf[1]]]
    for n in range(5):
        # Horner's scheme of p, p' and p''/2
        bend = bend * x + slope
        slope = slope * x + value
        value = value * x + loop.coefficients[c, 4 - n]
    fill_unit(tree, r, leaf[0], 0, 1.0, rows.B)
    curvature = float(0.0)
    if leaf[1] >= 0:
        fill_unit(tree, r, leaf[1], depth, -slope, rows.B)
        curvature = -2.0 * bend * qd[leaf[1]] * qd[leaf[1]]
    gap = q[tree.dof_coord[leaf[0]]] - value
    if has_loop_reference(PAIR_COUPLING, c, loop):
        rate = start_rate(r, leaf, depth, tree, loop.qd, rows.B)
        row = RowMeasure()
        row.value = gap
        share = coupling_share(leaf, slope, loop, s)
        reference = loop_reference(PAIR_COUPLING, c, row, rate, gap, share, loop, s)
        want_reference(r, c, reference, loop, s.dt, rows)
    else:
        turn = bend_of(curvature, s)
        want_equality(r, c, gap, turn, loop.linear_compliance[c], loop, s, rows)
        rows.push[r] = rows.target_lower[r] + turn
        rows.bend[r] = turn


@wp.func
def acts_by_force(kind: int) -> bool:
    """True for rows of forces between bodies; others are of torques, or of efforts of dofs."""
    return measures_offset(kind) or kind == PAIR_SLIDE or kind == PAIR_DISTANCE


@wp.func
def tree_mass(leaf: int, tree: TreeView, joint: JointView, mass: wp.array(dtype=float)) -> float:
    """Mass of the tree of a dof [kg]."""
    t = tree.body_tree[tree.dof_body[leaf]]
    return mass[joint.child[tree.joint[tree.joint_start[t]]]]


@wp.func
def moved_mass(
    kind: int, leaf: wp.vec2i, sides: wp.vec2, tree: TreeView, joint: JointView, mass: wp.array(dtype=float)
) -> float:
    """Mass of the heavier tree that a row of forces moves, or the larger inertia that another row does.

    `sides` has the inverse inertia of each side. One that is nearly zero is no side: the row is between
    bodies or dofs of one tree, whose Jacobian has them all in the other.
    """
    heaviest = float(0.0)
    for side in range(2):
        if leaf[side] >= 0:
            if acts_by_force(kind):
                heaviest = wp.max(heaviest, tree_mass(leaf[side], tree, joint, mass))
            elif sides[side] > LEAST_SIDE * (sides[0] + sides[1]):
                heaviest = wp.max(heaviest, 1.0 / sides[side])
    return heaviest


@wp.func
def aim_of(r: int, rows: PairRowView) -> float:
    """Target velocity of a row, less its push."""
    push = rows.push[r]
    target = rows.target_lower[r]
    if push < 0.0:
        target = rows.target_upper[r]
    return target - push


@wp.kernel
def build_pair_rows(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    loop: LoopView,
    mass: wp.array(dtype=float),
    depth: int,
    s: ConstraintSettings,
    rows: PairRowView,
):
    """One thread per row: Jacobian, target velocity, bounds, and the warm start from the last impulse."""
    r = first + wp.tid()
    start = rows.impulse[r]
    rows.delassus[r] = 0.0
    rows.push[r] = 0.0
    rows.bend[r] = 0.0
    rows.turn[r] = 0.0
    rows.centre[r] = 0.0
    rows.mass[r] = 0.0
    if rows.kind[r] == PAIR_TENDON:
        return
    rows.impulse[r] = 0.0
    if rows.constraint[r] >= 0:
        if loop.enabled[rows.constraint[r]] == 0:
            return
    mobility = float(0.0)
    if rows.kind[r] == PAIR_COUPLING:
        place_coupling(r, tree, q, qd, loop, depth, s, rows)
    else:
        mobility = place_body_row(r, tree, joint, kin, body_A, gravity, bodies, L, loop, depth, s, rows)
        if mobility <= 0.0:
            return
    leaf = rows.leaf[r]
    whiten_sides(tree, L, r, leaf, depth, rows.B)
    sides = wp.vec2(0.0, 0.0)
    for side in range(2):
        if leaf[side] >= 0:
            for k in range(side * depth, side * depth + tree.dof_depth[leaf[side]] + 1):
                sides[side] += rows.B[r, k] * rows.B[r, k]
    total = sides[0] + sides[1]
    rows.turn[r] = total * rows.turn[r]
    if total > RIGID_ROW * mobility:
        rows.delassus[r] = total
        if adds_energy(rows.kind[r], rows.constraint[r], loop):
            rows.mass[r] = moved_mass(rows.kind[r], leaf, sides, tree, joint, mass)
            rows.free[r] = row_velocity(tree, leaf, r, depth, rows.B, z) - aim_of(r, rows)
        rows.impulse[r] = wp.clamp(s.warm_start * start, rows.lower[r], rows.upper[r])
