"""Modes of the rows of joints and constraints in a converged substep, and slopes of their impulses.

Stage: backward pass in maximal coordinates, first, the active set
Called by: solvers/maximal/adjoint.py
Reads: BlockView, BodySettings, MotionView, RowGradientView, RowView, SpinView, near
Writes: RowGradientView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import left_jacobian_factors, world_axis
from newtonsim.kernels.maximal.adjoint.row_terms import (
    ROW_BOUND,
    ROW_FORCE,
    ROW_HELD,
    ROW_LIMIT,
    ROW_OFF,
    ROW_RATE,
    ROW_SPEED,
    RowGradientView,
    polynomial_slope,
)
from newtonsim.kernels.maximal.axes import AxisView, drive_impulse
from newtonsim.kernels.maximal.contacts import BodySettings
from newtonsim.kernels.maximal.joints import ball_turn, block_enabled, direct_row, measure_row
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import (
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
)
from newtonsim.kernels.maximal.sweeps import BlockView, held_impulse, interval_of, is_rigid
from newtonsim.kernels.trees.joint_forces import least_effort
from newtonsim.kernels.views.pair_rows import PAIR_COUPLING, PAIR_DISTANCE

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# additional compliance of held rows, as a share of their mobility
SOFTNESS = wp.constant(1.0e-5)
# rows below this share of another number are rounding
ROUNDING = wp.constant(1.0e-6)


@wp.func
def turned_back(phi: wp.vec3, torque: wp.vec3) -> wp.vec3:
    """Transposed left Jacobian of the exponential map at rotation vector phi, times a torque."""
    factors = left_jacobian_factors(phi)
    c = wp.cross(phi, torque)
    return torque - factors[0] * c + factors[1] * wp.cross(phi, c)


@wp.func
def store_end(r: int, w: Wrench, p: Pair, u: Twists, dt: float, view: RowGradientView):
    """Slope of the mean rate of row r with respect to velocities, from its wrench at the substep's end."""
    t0 = w.torque + wp.cross(p.r0, w.force)
    t1 = w.torque + wp.cross(p.r1, w.force)
    view.end0[r] = wp.spatial_vector(-turned_back(u.w0 * dt, t0), -w.force)
    view.end1[r] = wp.spatial_vector(turned_back(u.w1 * dt, t1), w.force)


@wp.func
def store_ball_end(r: int, number: int, p: Pair, u: Twists, dt: float, view: RowGradientView):
    """Slope of the mean rate about an axis of frame 0, `maximal.joints.ball_turn`, by the velocities."""
    n = wp.quat_rotate(p.q0, world_axis(number))
    relative = u.w1 - u.w0
    middle = n - 0.5 * dt * wp.cross(u.w0, n)
    turning = turned_back(u.w0 * dt, wp.cross(n, relative - 0.5 * dt * wp.cross(relative, u.w0)))
    own = dt * (turning - 0.5 * wp.cross(n, relative))
    view.end0[r] = wp.spatial_vector(own - middle, wp.vec3(0.0))
    view.end1[r] = wp.spatial_vector(middle, wp.vec3(0.0))


@wp.func
def push_along(
    r: int, free: float, axis: AxisView, s: BodySettings, block: BlockView, view: RowGradientView
) -> wp.vec2:
    """Impulses along an axis that are linear in its mean rate; records a drive at its effort limit.

    Args:
        r: Row of the axis.
        free: Mean rate without impulses along it.
        axis: What acts.
        s: Settings of the substep.
        block: Rows.
        view: Receives the side of the limit.

    Returns:
        The impulse at a rate of zero, and its decrease per unit rate.
    """
    dt = s.dt
    w = block.rows.mobility[r]
    d = block.rows.dof[r]
    a = block.rows.index[r]
    constant = dt * axis.force[d]
    slope = dt * axis.drive.damping[d]
    if a >= 0:
        start = block.rows.start[r]
        stiffness = dt * axis.drive.stiffness[a]
        constant += stiffness * (axis.drive.spring_ref[a] - start)
        slope += dt * stiffness
        most = dt * axis.drive.effort_limit[a]
        least = dt * least_effort(axis.drive.effort_lower[a], axis.drive.effort_limit[a])
        driven = drive_impulse(a, start, axis, dt)
        drive = driven[0]
        drive_slope = driven[1]
        effort = drive - drive_slope * (free + w * (constant + drive)) / (1.0 + w * (slope + drive_slope))
        if effort > most or effort < least:
            view.drive[r] = wp.where(effort > most, 1, -1)
            constant += wp.clamp(effort, least, most)
        else:
            constant += drive
            slope += drive_slope
    return wp.vec2(constant, slope)


@wp.func
def limit_axis(
    r: int,
    v: float,
    free: float,
    push: wp.vec2,
    axis: AxisView,
    s: BodySettings,
    block: BlockView,
    view: RowGradientView,
) -> float:
    """Slope of the impulses of row r with respect to its mean rate within the limits of its axis.

    Notes which limit acts.

    Args:
        r: Row of the axis.
        v: Mean rate without limits.
        free: Mean rate without impulses along the axis.
        push: See `push_along`.
        axis: What acts.
        s: Settings of the substep.
        block: Rows.
        view: Receives the limit.
    """
    dt = s.dt
    w = block.rows.mobility[r]
    a = block.rows.index[r]
    start = block.rows.start[r]
    slope = push[1]
    gap = axis.limit_lower[a] - start
    side = -1
    if start + dt * v > axis.limit_upper[a]:
        gap = axis.limit_upper[a] - start
        side = 1
    if (dt * v - gap) * float(side) > 0.0:
        ke = axis.limit_ke[a]
        if axis.soft_limits == 1 and ke > 0.0:
            more = dt * (dt * ke + axis.limit_kd[a])
            soft = (free + w * (push[0] + dt * ke * gap)) / (1.0 + w * (slope + more))
            if (soft - v) * float(side) < 0.0:
                view.soft[r] = side
                v = soft
                slope += more
        else:
            back = gap / dt
            mode = ROW_LIMIT
            if gap * float(side) < 0.0 and wp.abs(back) > axis.limit_speed:
                back = -float(side) * axis.limit_speed
                mode = ROW_RATE
            if (back - v) * float(side) < 0.0:
                v = back
                view.mode[r] = mode
                view.side[r] = side
    if wp.abs(v) > axis.velocity_limit[a]:
        view.mode[r] = ROW_SPEED
        view.side[r] = wp.where(v > 0.0, 1, -1)
    return slope


@wp.func
def decide_axis(
    r: int, mean: float, axis: AxisView, s: BodySettings, block: BlockView, view: RowGradientView
):
    """What holds along an axis of a mean rate: the branches of `maximal.axes.axis_velocity` at the
    solution."""
    w = block.rows.mobility[r]
    free = mean - w * block.rows.impulse[r]
    push = push_along(r, free, axis, s, block, view)
    constant = push[0]
    slope = push[1]
    v = (free + w * constant) / (1.0 + w * slope)
    view.mode[r] = ROW_FORCE
    view.scale[r] = 1.0
    friction = axis.friction[block.rows.dof[r]] * s.dt
    if friction > 0.0:
        if friction < wp.abs(v) * (1.0 + w * slope) / w:
            view.slip[r] = wp.where(v > 0.0, 1, -1)
            constant -= float(view.slip[r]) * friction
        else:
            view.mode[r] = ROW_RATE
            constant -= v * (1.0 + w * slope) / w
        v = (free + w * constant) / (1.0 + w * slope)
    if block.rows.index[r] >= 0:
        slope = limit_axis(r, v, free, wp.vec2(constant, slope), axis, s, block, view)
    view.impulse_slope[r] = slope
    if view.mode[r] != ROW_FORCE:
        hold(r, view.mode[r], 0.0, w, view)


@wp.func
def hold(r: int, mode: int, compliance: float, mobility: float, view: RowGradientView):
    """Let row r hold its measure at the end."""
    lent = SOFTNESS * mobility
    view.mode[r] = mode
    view.scale[r] = 1.0 / (compliance + lent)
    view.lent[r] = lent / (compliance + lent)
    view.impulse_slope[r] = 1.0


@wp.func
def bound_force(r: int, x: float, most: float, view: RowGradientView):
    """Let row r push with its largest force if its impulse x has reached it."""
    if wp.abs(x) >= most * (1.0 - ROUNDING):
        view.mode[r] = ROW_BOUND
        view.side[r] = wp.where(x > 0.0, 1, -1)
        view.scale[r] = 1.0
        view.lent[r] = 0.0
        view.impulse_slope[r] = 0.0


@wp.func
def decide_interval(r: int, k: int, mean: float, block: BlockView, s: BodySettings, view: RowGradientView):
    """Whether row r of a mean rate is at a limit: `maximal.sweeps.solve_interval` at the solution."""
    rows = block.rows
    allowed = interval_of(r, k, block)
    compliance = float(0.0)
    if k < block.joints and rows.kind[r] == PAIR_DISTANCE:
        compliance = block.linear_compliance[k] / (s.dt * s.dt)
    reached = rows.start[r] + s.dt * (mean - rows.mobility[r] * rows.impulse[r])
    bound = wp.clamp(reached, allowed[0], allowed[1])
    if bound == reached or rows.impulse[r] == 0.0:
        return
    goal = (bound - rows.start[r]) / s.dt
    mode = ROW_LIMIT
    if rows.start[r] < allowed[0] and goal > s.limit_speed:
        mode = ROW_RATE
    if rows.start[r] > allowed[1] and goal < -s.limit_speed:
        mode = ROW_RATE
    view.side[r] = wp.where(reached < bound, -1, 1)
    hold(r, mode, compliance, rows.mobility[r], view)


@wp.kernel
def begin_rows(first: int, rows: RowView, view: RowGradientView):
    """One thread per row: clear its mode."""
    r = first + wp.tid()
    view.mode[r] = ROW_OFF
    view.side[r] = 0
    view.drive[r] = 0
    view.slip[r] = 0
    view.soft[r] = 0
    view.total[r] = rows.impulse[r]
    view.scale[r] = 0.0
    view.lent[r] = 0.0
    view.impulse_slope[r] = 0.0


@wp.kernel
def decide_rows(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    s: BodySettings,
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
):
    """One thread per block: modes of its rows, and their slopes."""
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
    count = rows.held[k]
    for r in range(begin, rows.row_start[k + 1]):
        w = direct_row(r, k, block.joint, p, near, rows)
        view.pull0[r] = wp.spatial_vector(-w.torque - wp.cross(p.r0, w.force), -w.force)
        view.pull1[r] = wp.spatial_vector(w.torque + wp.cross(p.r1, w.force), w.force)
        if r < begin + count:
            view.total[r] = held_impulse(k, r - begin, rows)
            mobility = coupling(r, r, m, rows)
            if mobility > 0.0:
                store_end(r, direct_row(r, k, block.joint, e, near, rows), e, u, dt, view)
                hold(r, ROW_HELD, rows.scaled_compliance[r], mobility, view)
                if k >= block.joints:
                    bound_force(r, rows.impulse[r], block.loop.max_force[k - block.joints] * dt, view)
        elif rows.mobility[r] > 0.0:
            end = measure_row(r, k, block.joint, e, near, rows)
            if rows.kind[r] == ROW_BALL_DOF:
                end = ball_turn(rows.number[r], e, u, dt)
                store_ball_end(r, rows.number[r], e, u, dt, view)
            else:
                store_end(r, direct_row(r, k, block.joint, e, near, rows), e, u, dt, view)
            mean = (end - rows.start[r]) / dt
            if rows.kind[r] >= ROW_LINEAR_AXIS:
                decide_axis(r, mean, block.axis, s, block, view)
            else:
                decide_interval(r, k, mean, block, s, view)


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
    """One thread per row: modes of couplings."""
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
    hold(r, ROW_HELD, block.loop.linear_compliance[c] / (dt * dt), rows.mobility[r], view)
    bound_force(r, rows.impulse[r], block.loop.max_force[c] * dt, view)


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
            hold(r, ROW_HELD, 0.0, mobility, view)
