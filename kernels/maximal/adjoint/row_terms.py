"""Terms of a substep's Lagrangian that belong to joints and constraints, in kernels that a tape can reverse.

The modes of rows are known (`maximal.adjoint.modes`); see `maximal.adjoint.substep` for the rest.

Stage: backward pass in maximal coordinates, joints and constraints
Called by: solvers/maximal/adjoint.py, kernels/maximal/adjoint/modes.py
Reads: BlockView, MotionView, RowGradientView, SpinView, multiplier, near
Writes: term
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.maximal.axes import AxisView
from newtonsim.kernels.maximal.joints import ball_turn, direct_row, measure_row, row_compliance
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import (
    ROW_BALL_DOF,
    ROW_LINEAR_AXIS,
    Pair,
    SpinView,
    Twists,
    Wrench,
    block_frames,
    load_twists,
    pair_at,
)
from newtonsim.kernels.maximal.sweeps import BlockView
from newtonsim.kernels.trees.joint_forces import least_effort
from newtonsim.kernels.views.model import MODE_FORCE, MODE_POSITION, MODE_VELOCITY
from newtonsim.kernels.views.pair_rows import (
    PAIR_COUPLING,
    PAIR_DISTANCE,
    PAIR_SWING,
    LoopView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# modes: what determines the impulse of a row
ROW_OFF = wp.constant(0)  # nothing: it does not push
ROW_FORCE = wp.constant(1)  # a force law
ROW_HELD = wp.constant(2)  # its measure at the end
ROW_LIMIT = wp.constant(3)  # a limit at the end
ROW_RATE = wp.constant(4)  # a given mean rate
ROW_SPEED = wp.constant(5)  # the velocity limit
ROW_BOUND = wp.constant(6)  # the largest force


@wp.struct
class RowGradientView:
    """Modes of the R rows of W worlds in a substep."""

    world_start: wp.array(dtype=int)  # (W + 1) into `row`
    row: wp.array(dtype=int)  # (R) rows in the order of their worlds
    block: wp.array(dtype=int)  # (R)
    mode: wp.array(dtype=int)  # (R) ROW_*
    side: wp.array(dtype=int)  # (R) bound at which it is: -1 lower, 1 upper
    drive: wp.array(dtype=int)  # (R) bound at which the drive is, 0 for none
    slip: wp.array(dtype=int)  # (R) sign of the rate against which dry friction acts, 0 for none
    soft: wp.array(dtype=int)  # (R) soft limit that pushes: -1 lower, 1 upper, 0 for none
    total: wp.array(dtype=float)  # (R) impulse along the wrench of the row
    multiplier: wp.array(dtype=float)  # (R)
    # the target of the row changes with velocities by scale * impulse_slope * end
    pull0: wp.array(dtype=wp.spatial_vector)  # (R) (torque, force) on body 0 for a unit impulse
    pull1: wp.array(dtype=wp.spatial_vector)  # (R) on body 1
    # (R) slope of the mean rate with respect to the velocity of body 0
    end0: wp.array(dtype=wp.spatial_vector)
    end1: wp.array(dtype=wp.spatial_vector)  # (R) of body 1
    impulse_slope: wp.array(dtype=float)  # (R) decrease of a force law's impulse per mean rate, 1 if held
    scale: wp.array(dtype=float)  # (R) inverse softness of held rows, 1 for force laws
    lent: wp.array(dtype=float)  # (R) share of the additional softness
    slope: wp.array(dtype=wp.vec2)  # (R) of a coupling's polynomial at the start and at the end


@wp.func
def rate_of(w: Wrench, p: Pair, u: Twists) -> float:
    """Power of a wrench on two bodies."""
    t0 = w.torque + wp.cross(p.r0, w.force)
    t1 = w.torque + wp.cross(p.r1, w.force)
    return wp.dot(w.force, u.v1 - u.v0) + wp.dot(t1, u.w1) - wp.dot(t0, u.w0)


@wp.func
def twists_of(b0: int, b1: int, twist: wp.array(dtype=wp.spatial_vector)) -> Twists:
    """Two of an array of velocities; body -1 stands still."""
    u = Twists()
    if b0 >= 0:
        u.v0 = wp.spatial_bottom(twist[b0])
        u.w0 = wp.spatial_top(twist[b0])
    if b1 >= 0:
        u.v1 = wp.spatial_bottom(twist[b1])
        u.w1 = wp.spatial_top(twist[b1])
    return u


@wp.func
def bound_of(r: int, k: int, side: int, block: BlockView) -> float:
    """The limit of row r on one side."""
    kind = block.rows.kind[r]
    upper = side > 0
    bound = float(0.0)
    if kind >= ROW_LINEAR_AXIS:
        a = block.rows.index[r]
        if upper:
            bound = block.axis.limit_upper[a]
        else:
            bound = block.axis.limit_lower[a]
    elif kind == PAIR_DISTANCE:
        if k < block.joints:
            if upper:
                bound = block.loop.joint_distance_upper[k]
            else:
                bound = block.loop.joint_distance_lower[k]
        else:
            if upper:
                bound = block.loop.distance_upper[k - block.joints]
            else:
                bound = block.loop.distance_lower[k - block.joints]
    elif kind == PAIR_SWING:
        bound = block.loop.joint_swing_limit[k]
    elif k < block.joints:
        if upper:
            bound = block.loop.joint_twist_upper[k]
        else:
            bound = block.loop.joint_twist_lower[k]
    else:
        if upper:
            bound = block.loop.limit_upper[block.rows.index[r]]
        else:
            bound = block.loop.limit_lower[block.rows.index[r]]
    return bound


@wp.func
def kept_share(
    k: int, joints: int, start: float, rigid: bool, block: BlockView, dt: float, speed: float
) -> float:
    """Share of an initial error that a held row keeps at the end: `maximal.joints.aim_row`."""
    keep = float(0.0)
    if k >= joints:
        recovery = block.loop.recovery_time[k - joints]
        if recovery > 0.0:
            keep = wp.max(0.0, 1.0 - dt / recovery)
    if rigid:
        keep = wp.max(keep, 1.0 - dt * speed / wp.max(wp.abs(start), 1.0e-9))
    return keep


@wp.func
def polynomial_value(c: int, x: float, loop: LoopView) -> float:
    """Polynomial of coupling c."""
    a = loop.coefficients
    return a[c, 0] + x * (a[c, 1] + x * (a[c, 2] + x * (a[c, 3] + x * a[c, 4])))


@wp.func
def polynomial_slope(c: int, x: float, loop: LoopView) -> float:
    """Its derivative."""
    a = loop.coefficients
    return a[c, 1] + x * (2.0 * a[c, 2] + x * (3.0 * a[c, 3] + x * (4.0 * a[c, 4])))


@wp.func
def axis_impulse(
    r: int, end: float, mean: float, axis: AxisView, dt: float, block: BlockView, view: RowGradientView
) -> float:
    """Total impulse along an axis, as in `maximal.axes.axis_velocity`.

    Args:
        r: The row.
        end: Coordinate at the end.
        mean: Mean rate in the substep.
        axis: What acts.
        dt: Length of the substep.
        block: Rows.
        view: The modes of the rows.
    """
    d = block.rows.dof[r]
    a = block.rows.index[r]
    x = dt * axis.force[d] - dt * axis.drive.damping[d] * mean
    if view.slip[r] != 0:
        x -= float(view.slip[r]) * axis.friction[d] * dt
    if a >= 0:
        x += dt * axis.drive.stiffness[a] * (axis.drive.spring_ref[a] - end)
        if view.drive[r] != 0:
            most = axis.drive.effort_limit[a]
            x += dt * wp.where(view.drive[r] > 0, most, least_effort(axis.drive.effort_lower[a], most))
        elif axis.drive.mode[a] == MODE_FORCE:
            x += dt * axis.act[a]
        elif axis.drive.mode[a] == MODE_POSITION:
            x += dt * (axis.drive.target_ke[a] * (axis.act[a] - end) - axis.drive.target_kd[a] * mean)
        elif axis.drive.mode[a] == MODE_VELOCITY:
            x += dt * axis.drive.target_ke[a] * (axis.act[a] - mean)
        if view.soft[r] != 0:
            bound = axis.limit_lower[a]
            if view.soft[r] > 0:
                bound = axis.limit_upper[a]
            x += dt * (axis.limit_ke[a] * (bound - end) - axis.limit_kd[a] * mean)
    return x


@wp.kernel
def weigh_rows(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    dt: float,
    recovery_speed: float,
    multiplier: wp.array(dtype=wp.spatial_vector),
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
    term: wp.array(dtype=float),
):
    """One thread per row of a joint or constraint: its terms of the Lagrangian.

    Args:
        first: First row.
        block: Rows.
        near: Joint coordinates at the start of the step.
        dt: Length of the substep.
        recovery_speed: See `BodySettings`.
        multiplier: Multipliers of the bodies, as velocities.
        bodies: Poses at the start, velocities that lead to the end.
        spin: Centres of mass at the start.
        view: How the rows act.
        term: The terms.
    """
    r = first + wp.tid()
    mode = view.mode[r]
    term[r] = 0.0
    rows = block.rows
    if mode == ROW_OFF or rows.kind[r] == PAIR_COUPLING:
        return
    k = view.block[r]
    joints = block.joints
    kind = rows.kind[r]
    f = block_frames(k, joints, block.joint, block.loop)
    u = load_twists(f, bodies)
    p = pair_at(f, Twists(), bodies, spin, 0.0)
    e = pair_at(f, u, bodies, spin, dt)
    w = direct_row(r, k, block.joint, p, near, rows)
    along = rate_of(w, p, twists_of(f.b0, f.b1, multiplier))
    total = -view.total[r] * along
    m = view.multiplier[r]
    start = measure_row(r, k, block.joint, p, near, rows)
    end = measure_row(r, k, block.joint, e, near, rows)
    if kind == ROW_BALL_DOF:
        end = ball_turn(rows.number[r], e, u, dt)
    mean = (end - start) / dt
    if mode == ROW_FORCE:
        total -= m * axis_impulse(r, end, mean, block.axis, dt, block, view)
    elif mode == ROW_HELD:
        compliance = row_compliance(
            r, k, joints, rows, block.loop, block.linear_compliance, block.angular_compliance
        )
        rigid = compliance == 0.0
        if k >= joints:
            rigid = rigid and block.loop.max_force[k - joints] > 1.0e30
        keep = kept_share(k, joints, start, rigid, block, dt, recovery_speed)
        total += m * ((end - keep * start) / dt + compliance / (dt * dt) * view.total[r])
    elif mode == ROW_LIMIT:
        bound = bound_of(r, k, view.side[r], block)
        total += m * (end - bound) / dt
        if k < joints and kind == PAIR_DISTANCE:
            total += m * block.linear_compliance[k] / (dt * dt) * view.total[r]
    elif mode == ROW_RATE:
        total += m * mean
    elif mode == ROW_SPEED:
        a = rows.index[r]
        total += m * (mean - float(view.side[r]) * block.axis.velocity_limit[a])
    elif mode == ROW_BOUND:
        total -= m * float(view.side[r]) * block.loop.max_force[k - joints] * dt
    term[r] = total


@wp.kernel
def weigh_couplings(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    dt: float,
    multiplier: wp.array(dtype=wp.spatial_vector),
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
    term: wp.array(dtype=float),
):
    """One thread per row: the terms of couplings between axes; the axes have theirs by `weigh_rows`.

    The wrench of a coupling has the slope of the start.
    """
    r = first + wp.tid()
    rows = block.rows
    if rows.kind[r] != PAIR_COUPLING:
        return
    term[r] = 0.0
    if view.mode[r] == ROW_OFF:
        return
    c = view.block[r] - block.joints
    ra = rows.coupled[r][0]
    rb = rows.coupled[r][1]
    ja = block.row_joint[ra]
    fa = block_frames(ja, block.joints, block.joint, block.loop)
    pa = pair_at(fa, Twists(), bodies, spin, 0.0)
    ea = pair_at(fa, load_twists(fa, bodies), bodies, spin, dt)
    start = measure_row(ra, ja, block.joint, pa, near, rows)
    end = measure_row(ra, ja, block.joint, ea, near, rows)
    x_start = float(0.0)
    x_end = float(0.0)
    along = float(0.0)
    if rb >= 0:
        jb = block.row_joint[rb]
        fb = block_frames(jb, block.joints, block.joint, block.loop)
        pb = pair_at(fb, Twists(), bodies, spin, 0.0)
        eb = pair_at(fb, load_twists(fb, bodies), bodies, spin, dt)
        x_start = measure_row(rb, jb, block.joint, pb, near, rows)
        x_end = measure_row(rb, jb, block.joint, eb, near, rows)
        wb = direct_row(rb, jb, block.joint, pb, near, rows)
        along = rate_of(wb, pb, twists_of(fb.b0, fb.b1, multiplier))
    wa = direct_row(ra, ja, block.joint, pa, near, rows)
    along = (
        rate_of(wa, pa, twists_of(fa.b0, fa.b1, multiplier))
        - polynomial_slope(c, x_start, block.loop) * along
    )
    total = -view.total[r] * along
    m = view.multiplier[r]
    if view.mode[r] == ROW_HELD:
        keep = float(0.0)
        if block.loop.recovery_time[c] > 0.0:
            keep = wp.max(0.0, 1.0 - dt / block.loop.recovery_time[c])
        error = end - polynomial_value(c, x_end, block.loop)
        total += m * (error - keep * (start - polynomial_value(c, x_start, block.loop))) / dt
        total += m * block.loop.linear_compliance[c] / (dt * dt) * rows.impulse[r]
    else:
        total -= m * float(view.side[r]) * block.loop.max_force[c] * dt
    term[r] = total


@wp.kernel
def weigh_relaxed(
    first: int,
    block: BlockView,
    near: wp.array(dtype=float),
    multiplier: wp.array(dtype=wp.spatial_vector),
    bodies: MotionView,
    spin: SpinView,
    view: RowGradientView,
    term: wp.array(dtype=float),
):
    """One thread per row: terms of a rigid row that corrects velocities at the end of a substep.

    Args:
        first: First row.
        block: Rows.
        near: Joint coordinates at the start of the step.
        multiplier: Multipliers of the bodies, as velocities.
        bodies: Poses and velocities at the end.
        spin: Centres of mass there.
        view: How the rows act.
        term: The terms.
    """
    r = first + wp.tid()
    term[r] = 0.0
    if view.mode[r] != ROW_HELD:
        return
    rows = block.rows
    k = view.block[r]
    f = block_frames(k, block.joints, block.joint, block.loop)
    p = pair_at(f, Twists(), bodies, spin, 0.0)
    w = direct_row(r, k, block.joint, p, near, rows)
    along = rate_of(w, p, twists_of(f.b0, f.b1, multiplier))
    rate = rate_of(w, p, load_twists(f, bodies))
    term[r] = view.multiplier[r] * rate - rows.relaxed[r] * along
