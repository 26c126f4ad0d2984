"""Terms of rows on dofs and between bodies in the scalar whose derivatives are the gradient of a step.

With the multipliers (λ, m) of `constraints.adjoint.solve`, impulses p and end velocities v⁺ held fixed, the
gradient with respect to any input of the step is that of -S,

    S = h λᵀ r + Σ [ -p J λ + m (J v⁺ + C p - t) ] - Σ_bounded (J λ) bound,

where r is the force balance of the smooth part. Each kernel writes one number per row, using functions of the
forward pass; reverse mode differentiates these.

Stage: backward pass of constraints, after the multipliers
Called by: solvers/featherstone/constraint_adjoint.py, solvers/featherstone/contact_adjoint.py,
    solvers/featherstone/step_adjoint.py
Reads: BodyStateView, BodyView, ConstraintSettings, DofRowView, DriveView, JointView, KinematicsView,
    LimitView, LoopView, PairRowView, Span, TreeView, V_end, V_multiplier, V_start, 15 arrays
Writes: body_q, body_qd, out, sums, total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spans import Span
from newtonsim.kernels.constraints.adjoint.modes import ROW_BOUNDED, ROW_HOLDS, ROW_OPEN
from newtonsim.kernels.constraints.chains import head_of, weight_of_heads
from newtonsim.kernels.constraints.dof_rows import (
    ROW_DRIVE,
    ROW_FRICTION,
    ROW_LIMIT,
    ConstraintSettings,
    DofRowView,
    LimitView,
    drive_rate,
    drive_velocity,
    friction_reference,
    has_friction_reference,
    has_reference,
    limit_reference,
    limit_softness,
    limit_speed,
    limit_velocities,
)
from newtonsim.kernels.constraints.pair_measures import (
    RowMeasure,
    is_friction,
    measure_friction,
    measure_reference,
    measure_row,
)
from newtonsim.kernels.constraints.pair_rows import (
    PairFrames,
    body_motion,
    coupling_share,
    equality_speed,
    has_loop_reference,
    holds_equality,
    largest_force,
    loop_reference,
    loop_violation,
    measures_offset,
    pair_frames,
    pushed_at,
    recovery_rate,
    row_interval,
    row_sums,
    rub_reference,
    yields_by_reference,
)
from newtonsim.kernels.trees.forward_kinematics import body_velocity, end_pose
from newtonsim.kernels.trees.joint_forces import least_effort
from newtonsim.kernels.trees.point_motion import BodyStateView
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView, TreeView
from newtonsim.kernels.views.pair_rows import (
    PAIR_COUPLING,
    PAIR_TENDON,
    LoopView,
    PairRowView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def write_poses(
    span: Span,
    tree: TreeView,
    kin: KinematicsView,
    com: wp.array(dtype=wp.vec3),
    loose_q: wp.array(dtype=wp.transform),
    loose_qd: wp.array(dtype=wp.spatial_vector),
    dt: float,
    body_q: wp.array(dtype=wp.transform),
):
    """A span of bodies, see `end_pose`."""
    for b in range(span.first + wp.tid(), span.end, span.step):
        body_q[b] = end_pose(b, tree, kin, com, loose_q, loose_qd, dt)


@wp.kernel
def write_velocities(
    span: Span,
    tree: TreeView,
    body: BodyView,
    kin: KinematicsView,
    loose_qd: wp.array(dtype=wp.spatial_vector),
    share: float,
    body_qd: wp.array(dtype=wp.spatial_vector),
):
    """A span of bodies, see `body_velocity`."""
    for b in range(span.first + wp.tid(), span.end, span.step):
        body_qd[b] = body_velocity(b, tree, body, kin, loose_qd, share)


@wp.kernel
def add_up_masses(first: int, tree: TreeView, mass: wp.array(dtype=float), total: wp.array(dtype=float)):
    """One thread per body: add its mass to that of the first body of its chain; `total` is 0 on entry."""
    b = first + wp.tid()
    head = head_of(tree.body_leaf[b], tree.dof_row, tree.row_dof, tree.dof_body)
    if head >= 0:
        wp.atomic_add(total, head, mass[b])


@wp.func
def dof_term(
    r: int,
    drive: DriveView,
    limit: LimitView,
    tree: TreeView,
    q: wp.array(dtype=float),
    act: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    s: ConstraintSettings,
    rows: DofRowView,
    p: float,
    mode: int,
    m: float,
) -> float:
    """Term of a row on one dof that acts with the impulse p."""
    source = rows.source[r]
    kind = rows.source_kind[source]
    d = rows.source_dof[source]
    a = tree.dof_axis[d]
    term = float(0.0)
    if mode == ROW_BOUNDED:
        if kind == ROW_FRICTION:
            term = -m * wp.sign(p) * limit.friction[d] * s.dt
        if kind == ROW_DRIVE:
            most = drive.effort_limit[a]
            bound = wp.where(p < 0.0, least_effort(drive.effort_lower[a], most), most)
            term = -m * bound * s.dt
    elif kind == ROW_LIMIT:
        x = q[tree.dof_coord[d]]
        top = limit.velocity[a]
        allowed = limit_velocities(x, limit.lower[a], limit.upper[a], top, limit.lever[a], s)
        target = allowed[1]
        if p > 0.0:
            target = allowed[0]
        softness = s.limit_cfm
        if s.smoothing > 0.0:
            gap = wp.min(x - limit.lower[a], limit.upper[a] - x)
            head = head_of(d, tree.dof_row, tree.row_dof, tree.dof_body)
            weight = weight_of_heads(head, -1, mass)
            softness = limit_softness(gap, top, limit.lever[a], weight, s)
        if has_reference(a, limit):
            below = x - limit.lower[a]
            above = limit.upper[a] - x
            reference = limit_reference(d, a, below, above, limit, s)
            softness = 0.0
            target = -wp.sign(p) * top
            if wp.min(below, above) < limit.margin[a]:
                softness = reference.softness
                if (p > 0.0) == (below <= above):
                    target = wp.sign(p) * wp.clamp(reference.target, -top, top)
        term = m * (softness * p - target)
    elif kind == ROW_DRIVE:
        rate = drive_rate(drive, a, s.dt)
        velocity = drive_velocity(drive, a, act[a], q[tree.dof_coord[d]], rate)
        term = m * (p / (s.dt * rate) - velocity)
    elif kind == ROW_FRICTION:
        if has_friction_reference(d, limit):
            reference = friction_reference(d, limit, s)
            term = m * (reference.softness * p - reference.target)
    return term


@wp.kernel
def dof_lagrangian(
    span: Span,
    drive: DriveView,
    limit: LimitView,
    tree: TreeView,
    q: wp.array(dtype=float),
    act: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    s: ConstraintSettings,
    rows: DofRowView,
    impulse: wp.array(dtype=float),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    """A span of places: terms of rows on one dof; `mass` as in `contact_terms.contact_lagrangian`."""
    for r in range(span.first + wp.tid(), span.end, span.step):
        if mode[r] != ROW_OPEN:
            out[r] = dof_term(
                r, drive, limit, tree, q, act, mass, s, rows, impulse[r], mode[r], multiplier[r]
            )


@wp.func
def spin_of(
    b: int,
    tree: TreeView,
    V: wp.array(dtype=wp.spatial_vector),
    loose_qd: wp.array(dtype=wp.spatial_vector),
    share: float,
) -> wp.vec3:
    """Angular velocity of body b in a velocity field V; for a body on no tree, `share` of its own."""
    w = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        if tree.body_tree[b] >= 0:
            w = wp.spatial_top(V[b])
        else:
            w = share * wp.spatial_top(loose_qd[b])
    return w


@wp.func
def velocity_of(
    b: int,
    x: wp.vec3,
    tree: TreeView,
    kin: KinematicsView,
    V: wp.array(dtype=wp.spatial_vector),
    bodies: BodyStateView,
    share: float,
) -> wp.vec3:
    """Velocity of the world point x on body b, see `spin_of`."""
    v = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        t = tree.body_tree[b]
        if t >= 0:
            v = wp.spatial_bottom(V[b]) + wp.cross(wp.spatial_top(V[b]), x - kin.origin[t])
        else:
            arm = x - wp.transform_point(bodies.q[b], bodies.com[b])
            v = share * (wp.spatial_bottom(bodies.qd[b]) + wp.cross(wp.spatial_top(bodies.qd[b]), arm))
    return v


@wp.func
def rate_in(
    f: PairFrames,
    x0: wp.vec3,
    x1: wp.vec3,
    row: RowMeasure,
    V: wp.array(dtype=wp.spatial_vector),
    share: float,
    tree: TreeView,
    kin: KinematicsView,
    bodies: BodyStateView,
) -> float:
    """Rate of a row that acts on body 0 at x0 and on body 1 at x1, in a velocity field V, see `spin_of`."""
    spin = spin_of(f.b1, tree, V, bodies.qd, share) - spin_of(f.b0, tree, V, bodies.qd, share)
    speed = velocity_of(f.b1, x1, tree, kin, V, bodies, share) - velocity_of(
        f.b0, x0, tree, kin, V, bodies, share
    )
    return wp.dot(row.force, speed) + wp.dot(row.torque, spin)


@wp.func
def body_row_terms(
    r: int,
    holds: bool,
    p: float,
    m: float,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    V_multiplier: wp.array(dtype=wp.spatial_vector),
    V_end: wp.array(dtype=wp.spatial_vector),
    V_start: wp.array(dtype=wp.spatial_vector),
    sums: wp.array(dtype=wp.vec2),
    loop: LoopView,
    s: ConstraintSettings,
    rows: PairRowView,
) -> float:
    """Terms of a row between bodies."""
    kind = rows.kind[r]
    c = rows.constraint[r]
    asks = has_loop_reference(kind, c, loop)
    f = pair_frames(r, joint, loop, rows)
    m0 = body_motion(f.b0, f.X0, tree, kin, body_A, gravity, bodies)
    m1 = body_motion(f.b1, f.X1, tree, kin, body_A, gravity, bodies)
    row = measure_row(kind, m0, m1, rows.axis0[r], rows.axis1[r])
    x0 = pushed_at(asks, kind, m0, m1)
    if asks:
        row = measure_reference(kind, m0, m1, rows.axis0[r])
    total = -p * rate_in(f, x0, m1.x, row, V_multiplier, 0.0, tree, kin, bodies)
    bend = wp.where(asks, 0.0, wp.where(is_friction(kind), 1.0, 0.5) * s.dt * row.curvature)
    if holds:
        total += m * (rate_in(f, x0, m1.x, row, V_end, 1.0, tree, kin, bodies) + bend)
        if asks:
            rate_start = rate_in(f, x0, m1.x, row, V_start, 1.0, tree, kin, bodies)
            violation = loop_violation(c, m0, m1, loop)
            share = float(1.0)
            if s.late == 1:
                share = sums[r][1] / sums[r][0]
            reference = loop_reference(kind, c, row, rate_start, violation, share, loop, s)
            total += m * (reference.softness * p - reference.target)
        elif is_friction(kind):
            d = rows.index[r]
            if yields_by_reference(d, loop):
                rate_start = rate_in(f, x0, m1.x, row, V_start, 1.0, tree, kin, bodies)
                share = float(1.0)
                if s.late == 1:
                    share = sums[r][1] / sums[r][0]
                reference = rub_reference(d, rate_start, share, loop, s)
                total += m * (reference.softness * p - reference.target)
        elif holds_equality(kind):
            compliance = loop.angular_compliance[c]
            if measures_offset(kind):
                compliance = loop.linear_compliance[c]
            rate = recovery_rate(c, loop, s)
            total += m * (compliance * rate / s.dt * p - equality_speed(row.value, rate, s))
        else:
            interval = row_interval(kind, rows.joint[r], c, rows.index[r], loop)
            if p > 0.0:
                total -= m * limit_speed(row.value - interval[0], s)
            else:
                total += m * limit_speed(interval[1] - row.value, s)
    return total


@wp.kernel
def weigh_rows(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    loop: LoopView,
    rows: PairRowView,
    sums: wp.array(dtype=wp.vec2),
):
    """One thread per row: `row_sums` of rows by reference, before `pair_lagrangian` divides them.

    Reverse mode does not preserve sums in a loop, but it does preserve arrays.
    """
    r = first + wp.tid()
    kind = rows.kind[r]
    c = rows.constraint[r]
    if holds_equality(kind) and has_loop_reference(kind, c, loop):
        f = pair_frames(r, joint, loop, rows)
        m0 = body_motion(f.b0, f.X0, tree, kin, body_A, gravity, bodies)
        m1 = body_motion(f.b1, f.X1, tree, kin, body_A, gravity, bodies)
        row = measure_reference(kind, m0, m1, rows.axis0[r])
        sums[r] = row_sums(f, m0.x, m1.x, row, tree, kin, loop)
    if is_friction(kind) and yields_by_reference(rows.index[r], loop):
        f = pair_frames(r, joint, loop, rows)
        m0 = body_motion(f.b0, f.X0, tree, kin, body_A, gravity, bodies)
        m1 = body_motion(f.b1, f.X1, tree, kin, body_A, gravity, bodies)
        row = measure_friction(kind, m0, m1, rows.axis0[r])
        sums[r] = row_sums(f, m1.x, m1.x, row, tree, kin, loop)


@wp.func
def coupling_terms(
    r: int,
    holds: bool,
    p: float,
    m: float,
    tree: TreeView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    multiplier: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    loop: LoopView,
    s: ConstraintSettings,
    rows: PairRowView,
) -> float:
    """Terms of a coupling of two dofs."""
    c = rows.constraint[r]
    leaf = rows.dofs[r]
    c0 = loop.coefficients[c, 0]
    c1 = loop.coefficients[c, 1]
    c2 = loop.coefficients[c, 2]
    c3 = loop.coefficients[c, 3]
    c4 = loop.coefficients[c, 4]
    x = float(0.0)
    other = float(0.0)
    speed = float(0.0)
    rate_end = float(0.0)
    if leaf[1] >= 0:
        x = q[tree.dof_coord[leaf[1]]]
        other = multiplier[leaf[1]]
        speed = qd[leaf[1]]
        rate_end = v_end[leaf[1]]
    value = q[tree.dof_coord[leaf[0]]] - (c0 + x * (c1 + x * (c2 + x * (c3 + x * c4))))
    slope = c1 + x * (2.0 * c2 + x * (3.0 * c3 + x * 4.0 * c4))
    curvature = -(2.0 * c2 + x * (6.0 * c3 + x * 12.0 * c4)) * speed * speed
    total = p * slope * other
    asks = has_loop_reference(PAIR_COUPLING, c, loop)
    if holds and asks:
        rate_start = loop.qd[leaf[0]]
        if leaf[1] >= 0:
            rate_start -= slope * loop.qd[leaf[1]]
        row = RowMeasure()
        row.value = value
        share = coupling_share(leaf, slope, loop, s)
        reference = loop_reference(PAIR_COUPLING, c, row, rate_start, value, share, loop, s)
        total += m * (-slope * rate_end + reference.softness * p - reference.target)
    if holds and not asks:
        rate = recovery_rate(c, loop, s)
        total += m * (-slope * rate_end + loop.linear_compliance[c] * rate / s.dt * p)
        total += m * (0.5 * s.dt * curvature - equality_speed(value, rate, s))
    return total


@wp.kernel
def pair_lagrangian(
    first: int,
    tree: TreeView,
    joint: JointView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    bodies: BodyStateView,
    V_multiplier: wp.array(dtype=wp.spatial_vector),
    V_end: wp.array(dtype=wp.spatial_vector),
    V_start: wp.array(dtype=wp.spatial_vector),
    sums: wp.array(dtype=wp.vec2),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    lambda_: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    loop: LoopView,
    s: ConstraintSettings,
    rows: PairRowView,
    impulse: wp.array(dtype=float),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    """One thread per row: terms of a row between two bodies or dofs.

    `kin` and `body_A` hold the motion at which the rows were built.
    """
    r = first + wp.tid()
    if mode[r] == ROW_OPEN or rows.kind[r] == PAIR_TENDON:
        return
    holds = mode[r] == ROW_HOLDS
    p = impulse[r]
    m = multiplier[r]
    total = float(0.0)
    if rows.kind[r] == PAIR_COUPLING:
        total = coupling_terms(r, holds, p, m, tree, q, qd, lambda_, v_end, loop, s, rows)
    else:
        total = body_row_terms(
            r,
            holds,
            p,
            m,
            tree,
            joint,
            kin,
            body_A,
            gravity,
            bodies,
            V_multiplier,
            V_end,
            V_start,
            sums,
            loop,
            s,
            rows,
        )
    if mode[r] == ROW_BOUNDED:
        total -= m * wp.sign(p) * largest_force(r, loop, rows) * s.dt
    out[r] = total
