"""Rows of joints and constraints between bodies: their wrenches and measures.

Stage: substep in maximal coordinates, before and after the sweeps
Called by: solvers/maximal/sweeps.py, kernels/maximal/adjoint/modes.py, kernels/maximal/adjoint/row_terms.py,
    kernels/maximal/adjoint/substep.py, kernels/maximal/sweeps.py
Reads: BodySettings, JointView, LoopView, MotionView, RowView, SpinView, 10 arrays
Writes: MotionView, RowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_vec3, world_axis
from newtonsim.kernels.constraints.pair_rows import PairFrames
from newtonsim.kernels.maximal.axes import axis_value, axis_wrench
from newtonsim.kernels.maximal.contacts import BodySettings
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import (
    ROW_ANGULAR_AXIS,
    ROW_BALL_DOF,
    ROW_LINEAR_AXIS,
    ROW_TILT,
    Pair,
    RowView,
    SpinView,
    Twists,
    Wrench,
    block_frames,
    coupling,
    inverse_mass,
    invert,
    load_twists,
    pair_at,
    place_wrench,
    row_rate,
    row_value,
    row_wrench,
)
from newtonsim.kernels.views.model import JointView
from newtonsim.kernels.views.pair_rows import (
    PAIR_COUPLING,
    PAIR_OFFSET,
    LoopView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# rotation in a substep [rad] up to which sweeps include all of a row's curvature, and above which none
CURVED = wp.constant(0.7)
STRAIGHT = wp.constant(1.4)
# share of an axis's mobility that is rounding, with the reaction of the held rows
ROUNDING = wp.constant(1.0e-6)


@wp.func
def block_enabled(k: int, joints: int, enabled: wp.array(dtype=int), loop: LoopView) -> bool:
    """Whether block k acts."""
    on = bool(False)
    if k < joints:
        on = enabled[k] != 0
    else:
        on = loop.enabled[k - joints] != 0
    return on


@wp.func
def row_compliance(
    r: int,
    k: int,
    joints: int,
    rows: RowView,
    loop: LoopView,
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
) -> float:
    """Compliance of a held row [m/N or rad/(N m)]."""
    compliance = float(0.0)
    if k < joints:
        compliance = angular[k]
        if rows.kind[r] == PAIR_OFFSET:
            compliance = linear[k]
    else:
        compliance = loop.angular_compliance[k - joints]
        if rows.kind[r] == PAIR_OFFSET:
            compliance = loop.linear_compliance[k - joints]
    return compliance


@wp.func
def measure_row(
    r: int, k: int, joint: JointView, p: Pair, near: wp.array(dtype=float), rows: RowView
) -> float:
    """Measure of row r of block k."""
    value = float(0.0)
    kind = rows.kind[r]
    if kind == ROW_LINEAR_AXIS or kind == ROW_ANGULAR_AXIS:
        value = axis_value(r, k, joint, p, near, rows)
    elif kind != ROW_BALL_DOF:
        value = row_value(kind, p, rows.axis0[r], rows.axis1[r])
    return value


@wp.func
def direct_row(
    r: int, k: int, joint: JointView, p: Pair, near: wp.array(dtype=float), rows: RowView
) -> Wrench:
    """Wrench of row r of block k."""
    w = Wrench()
    kind = rows.kind[r]
    if kind == ROW_LINEAR_AXIS or kind == ROW_ANGULAR_AXIS:
        w = axis_wrench(r, k, joint, p, near, rows)
    elif kind == ROW_BALL_DOF:
        w.torque = wp.quat_rotate(p.q0, world_axis(rows.number[r]))
    else:
        w = row_wrench(kind, p, rows.axis0[r], rows.axis1[r])
    return w


@wp.func
def ball_turn(number: int, p: Pair, u: Twists, dt: float) -> float:
    """Rotation about an axis of frame 0 in a substep that ends at p, by the direction in its middle [rad]."""
    n = wp.quat_rotate(p.q0, world_axis(number))
    return dt * wp.dot(n - 0.5 * dt * wp.cross(u.w0, n), u.w1 - u.w0)


@wp.func
def clear_of_held(k: int, r: int, m: float, rows: RowView):
    """Add the reaction of the held rows of block k to row r, so that it pushes without moving those."""
    first = rows.row_start[k]
    count = rows.held[k]
    if count == 0:
        return
    y = wp.spatial_vector()
    for e in range(count):
        y[e] = coupling(first + e, r, m, rows)
    y = rows.inverse[k] * y
    rows.held_response[r] = y
    for e in range(count):
        s = first + e
        rows.force[r] = rows.force[r] - y[e] * rows.force[s]
        rows.torque0[r] = rows.torque0[r] - y[e] * rows.torque0[s]
        rows.torque1[r] = rows.torque1[r] - y[e] * rows.torque1[s]
        rows.turn0[r] = rows.turn0[r] - y[e] * rows.turn0[s]
        rows.turn1[r] = rows.turn1[r] - y[e] * rows.turn1[s]


@wp.func
def aim_row(
    r: int,
    k: int,
    joints: int,
    compliance: float,
    loop: LoopView,
    dt: float,
    warm: float,
    s: BodySettings,
    rows: RowView,
):
    """Target of held row r at the end of the substep, and its starting impulse.

    The error of a rigid row at the start is removed at a bounded speed.
    """
    start = rows.start[r]
    keep = float(0.0)
    rigid = compliance == 0.0
    if k >= joints:
        rigid = rigid and loop.max_force[k - joints] > 1.0e30
        recovery = loop.recovery_time[k - joints]
        if recovery > 0.0:
            keep = wp.max(0.0, 1.0 - dt / recovery)
    if rigid:
        keep = wp.max(keep, 1.0 - dt * s.recovery_speed / wp.max(wp.abs(start), 1.0e-9))
    rows.scaled_compliance[r] = compliance / (dt * dt)
    rows.goal[r] = keep * start
    rows.impulse[r] = wp.where(rigid, warm, 0.0) * rows.impulse[r]
    rows.relaxed[r] = 0.0


@wp.func
def curved_share(u: Twists, dt: float) -> float:
    """Share of the nonlinear part of row measures that is used, given the rotation of the bodies.

    If they rotate by more than a radian, the directions at the start no longer reduce errors at the end:
    sweeps would increase both. Without this part, sweeps are linear and lose energy for any rotation; the
    remaining error is removed in the next substeps, at a bounded speed.
    """
    angle = dt * wp.sqrt(wp.max(wp.length_sq(u.w0), wp.length_sq(u.w1)))
    return wp.clamp((STRAIGHT - angle) / (STRAIGHT - CURVED), 0.0, 1.0)


@wp.func
def steady_share(u: Twists, dt: float) -> float:
    """Share of earlier impulses that still applies, given the rotation of their directions."""
    angle = dt * wp.sqrt(wp.max(wp.length_sq(u.w0), wp.length_sq(u.w1))) / CURVED
    return wp.max(1.0 - angle * angle, 0.0)


@wp.func
def place_block(
    k: int,
    joints: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    loop: LoopView,
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
    near: wp.array(dtype=float),
    fresh: int,
    s: BodySettings,
    bodies: MotionView,
    spin: SpinView,
    rows: RowView,
):
    """Directions and mobilities of the rows of block k at the start of a substep."""
    if not block_enabled(k, joints, enabled, loop):
        for r in range(rows.row_start[k], rows.row_start[k + 1]):
            rows.impulse[r] = 0.0
            rows.carried[r] = 0.0
        return
    dt = s.dt
    f = block_frames(k, joints, joint, loop)
    m = inverse_mass(f.b0, bodies) + inverse_mass(f.b1, bodies)
    p = pair_at(f, Twists(), bodies, spin, 0.0)
    entering = Twists()
    if f.b0 >= 0:
        entering.w0 = wp.spatial_top(spin.entering[f.b0])
        entering.v0 = wp.spatial_bottom(spin.entering[f.b0])
    if f.b1 >= 0:
        entering.w1 = wp.spatial_top(spin.entering[f.b1])
        entering.v1 = wp.spatial_bottom(spin.entering[f.b1])
    share = curved_share(entering, dt)
    warm = s.joint_warm_start * steady_share(entering, dt)
    first = rows.row_start[k]
    count = rows.held[k]
    K = wp.spatial_matrix()
    for i in range(count):
        r = first + i
        place_wrench(r, direct_row(r, k, joint, p, near, rows), p, f, bodies, spin, rows)
        rows.start[r] = measure_row(r, k, joint, p, near, rows)
        for e in range(i + 1):
            mobility = coupling(first + e, r, m, rows)
            K[i, e] = mobility
            K[e, i] = mobility
        compliance = row_compliance(r, k, joints, rows, loop, linear, angular)
        aim_row(r, k, joints, compliance, loop, dt, warm, s, rows)
        K[i, i] = K[i, i] + rows.scaled_compliance[r]
    rows.inverse[k] = invert(K, count)
    for r in range(first + count, rows.row_start[k + 1]):
        rows.carried[r] = 0.0
        if rows.kind[r] == PAIR_COUPLING:
            rows.impulse[r] = 0.0
            continue
        rows.impulse[r] = wp.where(rows.kind[r] >= ROW_LINEAR_AXIS, warm, 0.0) * rows.impulse[r]
        place_wrench(r, direct_row(r, k, joint, p, near, rows), p, f, bodies, spin, rows)
        rows.start[r] = measure_row(r, k, joint, p, near, rows)
        rate = row_rate(r, entering, rows)
        excess = rows.before[r] - rate
        if fresh == 1:
            excess = rows.rate_excess[r]
        rows.before[r] = rate + share * excess
        alone = coupling(r, r, m, rows)
        clear_of_held(k, r, m, rows)
        mobility = coupling(r, r, m, rows)
        rows.mobility[r] = wp.where(mobility > ROUNDING * alone, mobility, 0.0)


@wp.func
def measure_block(
    k: int,
    joints: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    loop: LoopView,
    near: wp.array(dtype=float),
    dt: float,
    bodies: MotionView,
    spin: SpinView,
    rows: RowView,
):
    """Measure the rows of block k at the end of the substep, for the current velocities."""
    if block_enabled(k, joints, enabled, loop):
        f = block_frames(k, joints, joint, loop)
        u = load_twists(f, bodies)
        p = pair_at(f, u, bodies, spin, dt)
        share = curved_share(u, dt)
        for r in range(rows.row_start[k], rows.row_start[k + 1]):
            if rows.kind[r] == ROW_BALL_DOF:
                turned = ball_turn(rows.number[r], p, u, dt)
                rows.rest[r] = share * (turned - dt * row_rate(r, u, rows))
            elif rows.kind[r] != PAIR_COUPLING:
                if rows.kind[r] == ROW_TILT:
                    # nor if the axis itself is far from its place
                    a0 = wp.quat_rotate(p.q0, rows.axis1[r])
                    share = share * wp.max(wp.dot(a0, wp.quat_rotate(p.q1, rows.axis1[r])), 0.0)
                curved = measure_row(r, k, joint, p, near, rows) - dt * row_rate(r, u, rows) - rows.start[r]
                rows.rest[r] = rows.start[r] + share * curved


@wp.kernel
def place_joints(
    first: int,
    joints: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    loop: LoopView,
    linear: wp.array(dtype=float),
    angular: wp.array(dtype=float),
    near: wp.array(dtype=float),
    fresh: int,
    s: BodySettings,
    bodies: MotionView,
    spin: SpinView,
    rows: RowView,
):
    """One thread per joint: directions and mobilities of its rows."""
    k = first + wp.tid()
    place_block(k, joints, joint, enabled, loop, linear, angular, near, fresh, s, bodies, spin, rows)


@wp.kernel
def measure_joints(
    first: int,
    joints: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    loop: LoopView,
    near: wp.array(dtype=float),
    dt: float,
    bodies: MotionView,
    spin: SpinView,
    rows: RowView,
):
    """One thread per joint: measure its rows at the end of the substep."""
    measure_block(first + wp.tid(), joints, joint, enabled, loop, near, dt, bodies, spin, rows)


@wp.kernel
def keep_rates(first: int, joint: JointView, dt: float, bodies: MotionView, rows: RowView):
    """One thread per joint: mean rates of its axes in the substep, for the velocities before relaxation."""
    j = first + wp.tid()
    f = PairFrames()
    f.b0 = joint.parent[j]
    f.b1 = joint.child[j]
    u = load_twists(f, bodies)
    for r in range(rows.row_start[j] + rows.held[j], rows.row_start[j + 1]):
        rows.before[r] = row_rate(r, u, rows) + (rows.rest[r] - rows.start[r]) / dt


@wp.kernel
def compare_rates(first: int, qd: wp.array(dtype=float), rows: RowView):
    """One thread per joint: difference between mean rates and those at the end of the step."""
    j = first + wp.tid()
    for r in range(rows.row_start[j], rows.row_start[j + 1]):
        if rows.dof[r] >= 0:
            rows.rate_excess[r] = rows.before[r] - qd[rows.dof[r]]


@wp.kernel
def forget_rates(first: int, mask: wp.array(dtype=bool), rows: RowView):
    """One thread per world: clear the stored values of its joints if it is masked."""
    w = first + wp.tid()
    if mask[w]:
        for i in range(rows.world_start[w], rows.world_start[w + 1]):
            k = rows.block[i]
            for r in range(rows.row_start[k], rows.row_start[k + 1]):
                rows.rate_excess[r] = 0.0
                rows.impulse[r] = 0.0


@wp.func
def polynomial(c: int, x: float, loop: LoopView) -> wp.vec2:
    """Value and slope of the polynomial of coupling c, by Horner's scheme."""
    value = float(0.0)
    slope = float(0.0)
    for n in range(5):
        slope = slope * x + value
        value = value * x + loop.coefficients[c, 4 - n]
    return wp.vec2(value, slope)


@wp.func
def shared_coupling(
    r: int, s: int, joints: wp.vec2i, joint: JointView, bodies: MotionView, rows: RowView
) -> float:
    """Rate of axis row r for a unit impulse along axis row s of another joint."""
    total = float(0.0)
    for i in range(2):
        a = wp.where(i == 0, joint.parent[joints[0]], joint.child[joints[0]])
        ta = wp.where(i == 0, rows.torque0[r], rows.torque1[r])
        for k in range(2):
            b = wp.where(k == 0, joint.parent[joints[1]], joint.child[joints[1]])
            if a == b and a >= 0:
                turn = wp.where(k == 0, rows.turn0[s], rows.turn1[s])
                part = bodies.inv_mass[a] * wp.dot(rows.force[r], rows.force[s]) + wp.dot(ta, turn)
                total += wp.where(i == k, part, -part)
    return total


@wp.func
def place_coupling(
    r: int,
    c: int,
    joint: JointView,
    row_joint: wp.array(dtype=int),
    loop: LoopView,
    bodies: MotionView,
    rows: RowView,
):
    """Slope and mobility of a coupling q_a = p(q_b), linearised at the start; `before` holds the slope."""
    ra = rows.coupled[r][0]
    rb = rows.coupled[r][1]
    w = rows.mobility[ra]
    slope = float(0.0)
    x = float(0.0)
    if rb >= 0:
        x = rows.start[rb]
        slope = polynomial(c, x, loop)[1]
        pair = wp.vec2i(row_joint[ra], row_joint[rb])
        w += slope * slope * rows.mobility[rb]
        w -= 2.0 * slope * shared_coupling(ra, rb, pair, joint, bodies, rows)
    rows.before[r] = slope
    rows.mobility[r] = w
    rows.start[r] = rows.start[ra] - polynomial(c, x, loop)[0]


@wp.kernel
def place_constraints(
    first: int,
    joints: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    loop: LoopView,
    near: wp.array(dtype=float),
    fresh: int,
    s: BodySettings,
    row_joint: wp.array(dtype=int),
    bodies: MotionView,
    spin: SpinView,
    rows: RowView,
):
    """One thread per world: directions and mobilities of the rows of its constraints, after the joints'."""
    w = first + wp.tid()
    for i in range(rows.world_start[w], rows.world_start[w + 1]):
        k = rows.block[i]
        if k >= joints:
            c = k - joints
            place_block(
                k,
                joints,
                joint,
                enabled,
                loop,
                loop.linear_compliance,
                loop.angular_compliance,
                near,
                fresh,
                s,
                bodies,
                spin,
                rows,
            )
            for r in range(rows.row_start[k], rows.row_start[k + 1]):
                if rows.kind[r] == PAIR_COUPLING:
                    place_coupling(r, c, joint, row_joint, loop, bodies, rows)


@wp.kernel
def measure_constraints(
    first: int,
    joints: int,
    joint: JointView,
    enabled: wp.array(dtype=int),
    loop: LoopView,
    near: wp.array(dtype=float),
    dt: float,
    bodies: MotionView,
    spin: SpinView,
    rows: RowView,
):
    """One thread per world: measure the rows of its constraints at the end of the substep."""
    w = first + wp.tid()
    for i in range(rows.world_start[w], rows.world_start[w + 1]):
        if rows.block[i] >= joints:
            measure_block(rows.block[i], joints, joint, enabled, loop, near, dt, bodies, spin, rows)


@wp.kernel
def push_floating(
    first: int,
    joint: JointView,
    force: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    friction: wp.array(dtype=float),
    dt: float,
    bodies: MotionView,
    spin: SpinView,
):
    """One thread per joint: generalised forces, damping and dry friction of free bodies."""
    j = first + wp.tid()
    d = joint.qd_start[j]
    if joint.qd_start[j + 1] - d != 6:
        return
    b = joint.child[j]
    f = PairFrames()
    f.b0 = joint.parent[j]
    f.b1 = b
    u = load_twists(f, bodies)
    axes = wp.quat_identity()
    arm = wp.vec3(0.0)
    if f.b0 >= 0:
        axes = wp.transform_get_rotation(bodies.origin[f.b0]) * wp.transform_get_rotation(joint.X_p[j])
        arm = spin.com[b] - spin.com[f.b0]
        u.v0 = u.v0 + wp.cross(u.w0, arm)
    w = wp.quat_rotate_inv(axes, u.w1 - u.w0)
    v = wp.quat_rotate_inv(axes, u.v1 - u.v0)
    torque = load_vec3(force, d)
    push = load_vec3(force, d + 3)
    for k in range(3):
        e = wp.quat_rotate(axes, world_axis(k))
        turn = wp.dot(e, spin.inv_inertia[b] * e)
        torque[k] = resisted(torque[k], w[k], turn, damping[d + k], friction[d + k], dt)
        push[k] = resisted(push[k], v[k], bodies.inv_mass[b], damping[d + 3 + k], friction[d + 3 + k], dt)
    torque = wp.quat_rotate(axes, torque) * dt
    push = wp.quat_rotate(axes, push) * dt
    kick = wp.spatial_vector(spin.inv_inertia[b] * torque, push * bodies.inv_mass[b])
    wp.atomic_add(bodies.velocity, b, kick)
    if f.b0 >= 0:
        torque = torque + wp.cross(arm, push)
        kick = wp.spatial_vector(spin.inv_inertia[f.b0] * torque, push * bodies.inv_mass[f.b0])
        wp.atomic_sub(bodies.velocity, f.b0, kick)


@wp.func
def resisted(force: float, v: float, w: float, damping: float, friction: float, dt: float) -> float:
    """A force along a direction of velocity v and inverse mass w, with damping at the end of the substep."""
    end = (v + dt * w * force) / (1.0 + dt * w * damping)
    total = force - damping * end
    if friction > 0.0 and w > 0.0:
        most = wp.abs(end) * (1.0 + dt * w * damping) / (dt * w)
        total -= wp.sign(end) * wp.min(friction, most)
    return total
