"""What decided the impulse of each row of joints and constraints in a converged substep, and its slopes."""

import warp as wp

from newtonsim.kernels.body_axes import AxisView
from newtonsim.kernels.body_contacts import BodySettings
from newtonsim.kernels.body_gradient_rows import (
    ROW_BOUND,
    ROW_FORCE,
    ROW_HELD,
    ROW_LIMIT,
    ROW_OFF,
    ROW_RATE,
    ROW_SPEED,
    RowGradientView,
    polynomial_slope,
    rate_of,
)
from newtonsim.kernels.body_joints import block_enabled, direct_row, measure_row
from newtonsim.kernels.body_rows import (
    ROW_BALL_DOF,
    ROW_LINEAR_AXIS,
    Pair,
    RowView,
    SpinView,
    Twists,
    Wrench,
    block_frames,
    coupling,
    inverse_mass,
    load_twists,
    pair_at,
    row_rate,
)
from newtonsim.kernels.body_sweeps import BlockView, interval_of, is_rigid
from newtonsim.kernels.moving_bodies import MotionView
from newtonsim.kernels.pair_rows import PAIR_COUPLING, PAIR_DISTANCE, PairFrames
from newtonsim.kernels.views import MODE_FORCE, MODE_POSITION, MODE_VELOCITY

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# compliance of a rigid row, as a share of its mobility: redundant rows share their impulse by it
SOFTNESS = wp.constant(1.0e-7)
# rows below this share of another number are rounding
ROUNDING = wp.constant(1.0e-6)


@wp.func
def turned_back(phi: wp.vec3, torque: wp.vec3) -> wp.vec3:
    """Transposed left Jacobian of the exponential map at rotation vector phi, times a torque.

    Solà, Deray, Atchuthan, "A micro Lie theory for state estimation in robotics", 2018, eq. 145.
    """
    angle2 = wp.dot(phi, phi)
    a = 0.5 - angle2 / 24.0
    b = 1.0 / 6.0 - angle2 / 120.0
    if angle2 > 1.0e-2:
        angle = wp.sqrt(angle2)
        a = (1.0 - wp.cos(angle)) / angle2
        b = (angle - wp.sin(angle)) / (angle2 * angle)
    c = wp.cross(phi, torque)
    return torque - a * c + b * wp.cross(phi, c)


@wp.func
def store_end(r: int, w: Wrench, p: Pair, u: Twists, dt: float, view: RowGradientView):
    """Slope of the mean rate of row r by the velocities, from its wrench at the end of the substep."""
    t0 = w.torque + wp.cross(p.r0, w.force)
    t1 = w.torque + wp.cross(p.r1, w.force)
    view.end0[r] = wp.spatial_vector(-turned_back(u.w0 * dt, t0), -w.force)
    view.end1[r] = wp.spatial_vector(turned_back(u.w1 * dt, t1), w.force)


@wp.func
def decide_axis(
    r: int,
    start: float,
    end: float,
    rate: float,
    axis: AxisView,
    s: BodySettings,
    block: BlockView,
    view: RowGradientView,
):
    """What holds along an axis: the branches of `body_axes.axis_velocity` at the solution."""
    dt = s.dt
    rows = block.rows
    w = rows.mobility[r]
    d = rows.dof[r]
    a = rows.index[r]
    rest = end - dt * rate
    if rows.kind[r] == ROW_BALL_DOF:
        rest = rows.rest[r]
    free = rate - w * view.push[r]
    constant = dt * axis.force[d]
    by_end = axis.drive.armature[d]
    by_rate = dt * axis.drive.damping[d]
    if by_end > 0.0:
        constant += axis.drive.armature[d] * (rows.before[r] - (rest - rows.start[r]) / dt)
    if a >= 0:
        stiffness = dt * axis.drive.stiffness[a]
        constant += stiffness * (axis.drive.spring_ref[a] - rest)
        by_end += dt * stiffness
        bound = dt * axis.drive.effort_limit[a]
        drive = float(0.0)
        give_end = float(0.0)
        give_rate = float(0.0)
        if axis.drive.mode[a] == MODE_FORCE:
            drive = dt * axis.act[a]
        elif axis.drive.mode[a] == MODE_POSITION:
            drive = dt * axis.drive.target_ke[a] * (axis.act[a] - rest)
            give_end = dt * dt * axis.drive.target_ke[a]
            give_rate = dt * axis.drive.target_kd[a]
        elif axis.drive.mode[a] == MODE_VELOCITY:
            give_rate = dt * axis.drive.target_ke[a]
            drive = give_rate * axis.act[a]
        v = (free + w * (constant + drive)) / (1.0 + w * (by_end + by_rate + give_end + give_rate))
        effort = drive - (give_end + give_rate) * v
        if wp.abs(effort) > bound:
            view.drive[r] = wp.where(effort > 0.0, 1, -1)
            constant += wp.clamp(effort, -bound, bound)
        else:
            constant += drive
            by_end += give_end
            by_rate += give_rate
    slope = by_end + by_rate
    v = (free + w * constant) / (1.0 + w * slope)
    view.mode[r] = ROW_FORCE
    view.scale[r] = 1.0
    friction = axis.friction[d] * dt
    if friction > 0.0:
        if friction < wp.abs(v) * (1.0 + w * slope) / w:
            view.slip[r] = wp.where(v > 0.0, 1, -1)
            constant -= float(view.slip[r]) * friction
        else:
            view.mode[r] = ROW_RATE
            constant -= v * (1.0 + w * slope) / w
        v = (free + w * constant) / (1.0 + w * slope)
    if a >= 0:
        lower = axis.limit_lower[a]
        upper = axis.limit_upper[a]
        reached = rest + dt * v
        ke = axis.limit_ke[a]
        if reached < lower or reached > upper:
            side = wp.where(reached < lower, -1, 1)
            bound = wp.where(side < 0, lower, upper)
            if axis.soft_limits == 1 and ke > 0.0:
                kick = dt * ke * (bound - rest)
                soft = (free + w * (constant + kick)) / (
                    1.0 + w * (slope + dt * (dt * ke + axis.limit_kd[a]))
                )
                if (soft - v) * float(side) < 0.0:
                    view.soft[r] = side
                    v = soft
                    by_end += dt * dt * ke
                    by_rate += dt * axis.limit_kd[a]
            else:
                back = (bound - rest) / dt
                gap = bound - rows.start[r]
                mode = ROW_LIMIT
                if gap > 0.0 and side < 0 and back > axis.limit_speed:
                    back = axis.limit_speed
                    mode = ROW_RATE
                elif gap < 0.0 and side > 0 and back < -axis.limit_speed:
                    back = -axis.limit_speed
                    mode = ROW_RATE
                if (back - v) * float(side) < 0.0:
                    v = back
                    view.mode[r] = mode
                    view.side[r] = side
        limit = axis.velocity_limit[a]
        if wp.abs(v) > limit:
            view.mode[r] = ROW_SPEED
            view.side[r] = wp.where(v > 0.0, 1, -1)
    if view.mode[r] == ROW_FORCE:
        view.by_end[r] = by_end
        view.by_rate[r] = by_rate
    else:
        hold(r, view.mode[r], SOFTNESS * w, view)


@wp.func
def hold(r: int, mode: int, softness: float, view: RowGradientView):
    """Let row r hold what it measures at the end, or its rate."""
    view.mode[r] = mode
    view.scale[r] = 1.0 / softness
    at_end = mode == ROW_HELD or mode == ROW_LIMIT
    view.by_end[r] = wp.where(at_end, 1.0, 0.0)
    view.by_rate[r] = wp.where(at_end, 0.0, 1.0)


@wp.func
def decide_interval(
    r: int, k: int, end: float, rate: float, block: BlockView, s: BodySettings, view: RowGradientView
):
    """Whether row r is at a limit: `body_sweeps.solve_interval` at the solution."""
    rows = block.rows
    allowed = interval_of(r, k, block)
    compliance = float(0.0)
    if k < block.joints and rows.kind[r] == PAIR_DISTANCE:
        compliance = block.linear_compliance[k] / (s.dt * s.dt)
    rest = end - s.dt * rate
    free = rate - rows.mobility[r] * rows.impulse[r]
    reached = rest + s.dt * free
    bound = wp.clamp(reached, allowed[0], allowed[1])
    if bound == reached or rows.impulse[r] == 0.0:
        return
    wanted = (bound - rest) / s.dt
    mode = ROW_LIMIT
    if rows.start[r] < allowed[0] and wanted > s.limit_speed:
        mode = ROW_RATE
    if rows.start[r] > allowed[1] and wanted < -s.limit_speed:
        mode = ROW_RATE
    view.side[r] = wp.where(reached < bound, -1, 1)
    hold(r, mode, compliance + SOFTNESS * rows.mobility[r], view)


@wp.kernel
def begin_rows(first: int, rows_impulse: wp.array(dtype=float), view: RowGradientView):
    """One thread per row: nothing decided yet."""
    r = first + wp.tid()
    view.mode[r] = ROW_OFF
    view.side[r] = 0
    view.drive[r] = 0
    view.slip[r] = 0
    view.soft[r] = 0
    view.aside[r] = 0.0
    view.ahead[r] = 0.0
    view.multiplier[r] = 0.0
    view.lean[r] = 0.0
    view.answer[r] = wp.spatial_vector()
    view.push[r] = rows_impulse[r]
    view.total[r] = rows_impulse[r]
    view.scale[r] = 0.0
    view.by_end[r] = 0.0
    view.by_rate[r] = 0.0


@wp.kernel
def push_by_couplings(first: int, block: BlockView, view: RowGradientView):
    """One thread per row: add the impulses of couplings to those of the axes."""
    r = first + wp.tid()
    rows = block.rows
    if rows.kind[r] == PAIR_COUPLING:
        wp.atomic_add(view.push, rows.coupled[r][0], rows.impulse[r])
        if rows.coupled[r][1] >= 0:
            wp.atomic_sub(view.push, rows.coupled[r][1], rows.before[r] * rows.impulse[r])


@wp.func
def share_held(
    r: int,
    k: int,
    w: Wrench,
    p: Pair,
    f: PairFrames,
    m: float,
    spin: SpinView,
    rows: RowView,
    view: RowGradientView,
):
    """Take from the held rows of block k what row r does to them: `body_joints.clear_of_held`."""
    first = rows.row_start[k]
    t0 = w.torque + wp.cross(p.r0, w.force)
    t1 = w.torque + wp.cross(p.r1, w.force)
    turn0 = wp.vec3(0.0)
    turn1 = wp.vec3(0.0)
    if f.b0 >= 0:
        turn0 = spin.inv_inertia[f.b0] * t0
    if f.b1 >= 0:
        turn1 = spin.inv_inertia[f.b1] * t1
    y = wp.spatial_vector()
    for i in range(rows.held[k]):
        e = first + i
        y[i] = m * wp.dot(rows.force[e], w.force)
        y[i] += wp.dot(rows.torque0[e], turn0) + wp.dot(rows.torque1[e], turn1)
    y = rows.inverse[k] * y
    view.answer[r] = y
    for i in range(rows.held[k]):
        view.total[first + i] = view.total[first + i] - y[i] * view.push[r]


@wp.kernel
def decide_rows(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    entering: wp.array(dtype=wp.spatial_vector),
    fresh: float,
    s: BodySettings,
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
):
    """One thread per block: how its rows act, and their slopes."""
    k = first + wp.tid()
    rows = block.rows
    begin = rows.row_start[k]
    if begin == rows.row_start[k + 1] or not block_enabled(k, block.joints, block.enabled, block.loop):
        return
    if rows.kind[begin] == PAIR_COUPLING:
        return
    dt = s.dt
    f = block_frames(k, block.joints, block.joint, block.loop)
    u = load_twists(f, bodies)
    m = inverse_mass(f.b0, bodies) + inverse_mass(f.b1, bodies)
    p = pair_at(f, Twists(), bodies, spin, 0.0)
    e = pair_at(f, u, bodies, spin, dt)
    before = Twists()
    if f.b0 >= 0:
        before.w0 = wp.spatial_top(entering[f.b0])
        before.v0 = wp.spatial_bottom(entering[f.b0])
    if f.b1 >= 0:
        before.w1 = wp.spatial_top(entering[f.b1])
        before.v1 = wp.spatial_bottom(entering[f.b1])
    count = rows.held[k]
    for r in range(begin, rows.row_start[k + 1]):
        view.pull0[r] = wp.spatial_vector(-rows.torque0[r], -rows.force[r])
        view.pull1[r] = wp.spatial_vector(rows.torque1[r], rows.force[r])
        store_end(r, direct_row(r, k, block.joint, e, near, rows), e, u, dt, view)
        if r < begin + count:
            mobility = coupling(r, r, m, rows)
            if mobility > 0.0:
                hold(r, ROW_HELD, rows.give[r] + SOFTNESS * mobility, view)
                if k >= block.joints:
                    most = block.loop.max_force[k - block.joints] * dt
                    if wp.abs(rows.impulse[r]) >= most * (1.0 - ROUNDING):
                        view.mode[r] = ROW_BOUND
                        view.side[r] = wp.where(rows.impulse[r] > 0.0, 1, -1)
                        view.scale[r] = 1.0
                        view.by_end[r] = 0.0
                        view.by_rate[r] = 0.0
        elif rows.mobility[r] > 0.0:
            w = direct_row(r, k, block.joint, p, near, rows)
            rate = row_rate(r, u, rows)
            view.aside[r] = rate - rate_of(w, p, u)
            view.ahead[r] = rows.before[r] - fresh * rate_of(w, p, before)
            share_held(r, k, w, p, f, m, spin, rows, view)
            end = measure_row(r, k, block.joint, e, near, rows)
            if rows.kind[r] >= ROW_LINEAR_AXIS:
                decide_axis(r, rows.start[r], end, rate, block.axis, s, block, view)
            else:
                decide_interval(r, k, end, rate, block, s, view)


@wp.kernel
def decide_couplings(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    dt: float,
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
):
    """One thread per row: how couplings act."""
    r = first + wp.tid()
    rows = block.rows
    if rows.kind[r] != PAIR_COUPLING:
        return
    k = view.block[r]
    c = k - block.joints
    if rows.mobility[r] <= 0.0 or block.loop.enabled[c] == 0:
        return
    at_end = float(0.0)
    if rows.coupled[r][1] >= 0:
        rb = rows.coupled[r][1]
        jb = block.row_joint[rb]
        fb = block_frames(jb, block.joints, block.joint, block.loop)
        eb = pair_at(fb, load_twists(fb, bodies), bodies, spin, dt)
        at_end = polynomial_slope(c, measure_row(rb, jb, block.joint, eb, near, rows), block.loop)
    view.slope[r] = wp.vec2(rows.before[r], at_end)
    hold(r, ROW_HELD, block.loop.linear_compliance[c] / (dt * dt) + SOFTNESS * rows.mobility[r], view)
    most = block.loop.max_force[c] * dt
    if wp.abs(rows.impulse[r]) >= most * (1.0 - ROUNDING):
        view.mode[r] = ROW_BOUND
        view.side[r] = wp.where(rows.impulse[r] > 0.0, 1, -1)
        view.scale[r] = 1.0
        view.by_end[r] = 0.0


@wp.kernel
def decide_relaxed(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
):
    """One thread per block: the rigid rows that correct velocities at the end of a substep."""
    k = first + wp.tid()
    rows = block.rows
    begin = rows.row_start[k]
    count = rows.held[k]
    for r in range(begin, rows.row_start[k + 1]):
        view.mode[r] = ROW_OFF
    if count == 0 or not block_enabled(k, block.joints, block.enabled, block.loop):
        return
    f = block_frames(k, block.joints, block.joint, block.loop)
    m = inverse_mass(f.b0, bodies) + inverse_mass(f.b1, bodies)
    p = pair_at(f, Twists(), bodies, spin, 0.0)
    for r in range(begin, begin + count):
        mobility = coupling(r, r, m, rows)
        if is_rigid(r, k, block) and mobility > 0.0:
            store_end(r, direct_row(r, k, block.joint, p, near, rows), p, Twists(), 0.0, view)
            view.pull0[r] = view.end0[r]
            view.pull1[r] = view.end1[r]
            hold(r, ROW_HELD, SOFTNESS * mobility, view)


@wp.kernel
def lean_rows(first: int, block: BlockView, view: RowGradientView):
    """One thread per block: multipliers of the rates of held rows that its axes leave out of their own."""
    k = first + wp.tid()
    rows = block.rows
    begin = rows.row_start[k]
    count = rows.held[k]
    for i in range(count):
        total = float(0.0)
        for r in range(begin + count, rows.row_start[k + 1]):
            total += view.multiplier[r] * view.by_rate[r] * view.answer[r][i]
        view.lean[begin + i] = total
