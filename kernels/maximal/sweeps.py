"""Gauss-Seidel sweeps over the joints, constraints and contacts of a world, one after the other.

Stage: substep in maximal coordinates, sweeps
Called by: solvers/maximal/sweeps.py, kernels/maximal/adjoint/modes.py
Reads: BlockView, BodyContactView, BodySettings, ContactView, MotionView, SpinView
Writes: BlockView, BodyContactView, MotionView, SpinView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.axes import AxisView, axis_velocity
from newtonsim.kernels.maximal.contact_sweep import relax_contact, solve_contact, start_contact
from newtonsim.kernels.maximal.contacts import BodyContactView, BodySettings
from newtonsim.kernels.maximal.joints import block_enabled, polynomial
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import (
    ROW_LINEAR_AXIS,
    RowView,
    SpinView,
    Twists,
    block_frames,
    inverse_mass,
    load_twists,
    pair_at,
    push,
    row_rate,
    row_wrench,
    store_twists,
)
from newtonsim.kernels.views.model import JointView
from newtonsim.kernels.views.pair_rows import (
    PAIR_COUPLING,
    PAIR_DISTANCE,
    PAIR_OFFSET,
    PAIR_SWING,
    LoopView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class BlockView:
    """Data of the rows of joints and constraints."""

    joints: int
    joint: JointView
    enabled: wp.array(dtype=int)  # (J)
    linear_compliance: wp.array(dtype=float)  # (J)
    angular_compliance: wp.array(dtype=float)  # (J)
    loop: LoopView
    axis: AxisView
    row_joint: wp.array(dtype=int)  # (R) joint of a row, or -1
    rows: RowView


@wp.func
def interval_of(r: int, k: int, block: BlockView) -> wp.vec2:
    """Least and largest allowed measure of row r of block k."""
    kind = block.rows.kind[r]
    lower = float(-1.0e30)
    upper = float(1.0e30)
    if kind == PAIR_DISTANCE:
        if k < block.joints:
            lower = block.loop.joint_distance_lower[k]
            upper = block.loop.joint_distance_upper[k]
        else:
            lower = block.loop.distance_lower[k - block.joints]
            upper = block.loop.distance_upper[k - block.joints]
        lower = wp.where(lower < 0.0, -1.0e30, lower)
        upper = wp.where(upper < 0.0, 1.0e30, upper)
    elif kind == PAIR_SWING:
        upper = block.loop.joint_swing_limit[k]
    elif k < block.joints:
        lower = block.loop.joint_twist_lower[k]
        upper = block.loop.joint_twist_upper[k]
    else:
        lower = block.loop.limit_lower[block.rows.index[r]]
        upper = block.loop.limit_upper[block.rows.index[r]]
    return wp.vec2(lower, upper)


@wp.func
def solve_interval(r: int, k: int, rate: float, block: BlockView, s: BodySettings) -> float:
    """Impulse that keeps the measure of row r within its interval at the end of the substep."""
    rows = block.rows
    allowed = interval_of(r, k, block)
    compliance = float(0.0)
    if k < block.joints and rows.kind[r] == PAIR_DISTANCE:
        compliance = block.linear_compliance[k] / (s.dt * s.dt)
    # mean rates in the substep, see `axis_velocity`
    free = rate + (rows.rest[r] - rows.start[r]) / s.dt - rows.mobility[r] * rows.impulse[r]
    bound = wp.clamp(rows.start[r] + s.dt * free, allowed[0], allowed[1])
    goal = (bound - rows.start[r]) / s.dt
    # from outside, no faster than this
    if rows.start[r] < allowed[0]:
        goal = wp.max(free, wp.min(goal, s.limit_speed))
    elif rows.start[r] > allowed[1]:
        goal = wp.min(free, wp.max(goal, -s.limit_speed))
    return (goal - free) / (rows.mobility[r] + compliance)


@wp.func
def held_impulse(k: int, i: int, rows: RowView) -> float:
    """Impulse of held row i of block k: its own, minus what the other rows take from it."""
    first = rows.row_start[k]
    total = rows.impulse[first + i]
    for r in range(first + rows.held[k], rows.row_start[k + 1]):
        total -= rows.held_response[r][i] * (rows.impulse[r] + rows.carried[r])
    return total


@wp.func
def solve_held(k: int, u: Twists, m0: float, m1: float, block: BlockView, s: BodySettings) -> Twists:
    """Solve for velocities that bring all held rows of block k to their targets."""
    rows = block.rows
    first = rows.row_start[k]
    count = rows.held[k]
    wrong = wp.spatial_vector()
    for i in range(count):
        r = first + i
        wrong[i] = (rows.goal[r] - rows.rest[r]) / s.dt - row_rate(r, u, rows)
        if rows.scaled_compliance[r] > 0.0:
            wrong[i] -= rows.scaled_compliance[r] * held_impulse(k, i, rows)
    x = rows.inverse[k] * wrong * relaxation_of(k, rows, s)
    e = u
    for i in range(count):
        r = first + i
        total = rows.impulse[r] + x[i]
        if k >= block.joints:
            most = block.loop.max_force[k - block.joints] * s.dt
            total = wp.clamp(total, -most, most)
        e = push(r, total - rows.impulse[r], m0, m1, e, rows)
        rows.impulse[r] = total
    return e


@wp.func
def relaxation_of(k: int, rows: RowView, s: BodySettings) -> float:
    """Factor on the corrections of block k: the mean of its rows'.

    With several factors the correction would no longer be that of a symmetric system, and could diverge.
    """
    total = float(0.0)
    first = rows.row_start[k]
    for r in range(first, first + rows.held[k]):
        total += wp.where(rows.kind[r] == PAIR_OFFSET, s.linear_relaxation, s.angular_relaxation)
    return total / float(rows.held[k])


@wp.func
def solve_coupling(r: int, c: int, block: BlockView, s: BodySettings, bodies: MotionView):
    """Keep q_a = p(q_b) at the end of the substep."""
    rows = block.rows
    if rows.mobility[r] <= 0.0:
        return
    ra = rows.coupled[r][0]
    rb = rows.coupled[r][1]
    slope = rows.before[r]
    ja = block.row_joint[ra]
    fa = block_frames(ja, block.joints, block.joint, block.loop)
    rate = row_rate(ra, load_twists(fa, bodies), rows)
    end = rows.rest[ra] + s.dt * rate
    jb = int(0)
    x = float(0.0)
    if rb >= 0:
        jb = block.row_joint[rb]
        fb = block_frames(jb, block.joints, block.joint, block.loop)
        x = rows.rest[rb] + s.dt * row_rate(rb, load_twists(fb, bodies), rows)
    error = end - polynomial(c, x, block.loop)[0]
    keep = float(0.0)
    if block.loop.recovery_time[c] > 0.0:
        keep = wp.max(0.0, 1.0 - s.dt / block.loop.recovery_time[c])
    compliance = block.loop.linear_compliance[c] / (s.dt * s.dt)
    wrong = (error - keep * rows.start[r]) / s.dt + compliance * rows.impulse[r]
    most = block.loop.max_force[c] * s.dt
    total = wp.clamp(rows.impulse[r] - wrong / (rows.mobility[r] + compliance), -most, most)
    change = total - rows.impulse[r]
    rows.impulse[r] = total
    push_coupled(ra, ja, change, block, bodies)
    if rb >= 0:
        push_coupled(rb, jb, -slope * change, block, bodies)


@wp.func
def push_coupled(r: int, j: int, x: float, block: BlockView, bodies: MotionView):
    """Apply an impulse along the axis of row r of joint j."""
    block.rows.carried[r] = block.rows.carried[r] + x
    f = block_frames(j, block.joints, block.joint, block.loop)
    u = load_twists(f, bodies)
    u = push(r, x, inverse_mass(f.b0, bodies), inverse_mass(f.b1, bodies), u, block.rows)
    store_twists(f, u, bodies)


@wp.func
def solve_block(k: int, block: BlockView, s: BodySettings, bodies: MotionView):
    """Correct the velocities of both bodies of block k by all its rows."""
    rows = block.rows
    first = rows.row_start[k]
    end = rows.row_start[k + 1]
    if first == end or not block_enabled(k, block.joints, block.enabled, block.loop):
        return
    if rows.kind[first] == PAIR_COUPLING:
        solve_coupling(first, k - block.joints, block, s, bodies)
        return
    f = block_frames(k, block.joints, block.joint, block.loop)
    m0 = inverse_mass(f.b0, bodies)
    m1 = inverse_mass(f.b1, bodies)
    u = load_twists(f, bodies)
    count = rows.held[k]
    if count > 0:
        u = solve_held(k, u, m0, m1, block, s)
    for r in range(first + count, end):
        if rows.mobility[r] > 0.0:
            rate = row_rate(r, u, rows)
            total = float(0.0)
            if rows.kind[r] >= ROW_LINEAR_AXIS:
                free = rate - rows.mobility[r] * rows.impulse[r]
                total = (axis_velocity(r, free, block.axis, s.dt, rows) - free) / rows.mobility[r]
            else:
                total = solve_interval(r, k, rate, block, s)
            u = push(r, total - rows.impulse[r], m0, m1, u, rows)
            rows.impulse[r] = total
    store_twists(f, u, bodies)


@wp.kernel
def start_sweeps(
    first: int,
    block: BlockView,
    contacts: ContactView,
    view: BodyContactView,
    s: BodySettings,
    spin: SpinView,
    bodies: MotionView,
):
    """One thread per world: apply a share of the impulses of the last substep."""
    w = first + wp.tid()
    rows = block.rows
    for i in range(rows.world_start[w], rows.world_start[w + 1]):
        k = rows.block[i]
        if block_enabled(k, block.joints, block.enabled, block.loop):
            f = block_frames(k, block.joints, block.joint, block.loop)
            m0 = inverse_mass(f.b0, bodies)
            m1 = inverse_mass(f.b1, bodies)
            u = load_twists(f, bodies)
            for r in range(rows.row_start[k], rows.row_start[k + 1]):
                u = push(r, rows.impulse[r], m0, m1, u, rows)
            store_twists(f, u, bodies)
    begin = contacts.world_start[w]
    for c in range(begin, begin + contacts.world_count[w]):
        start_contact(c, contacts, view, s, spin, bodies)


@wp.kernel
def sweep_worlds(
    first: int,
    block: BlockView,
    contacts: ContactView,
    view: BodyContactView,
    s: BodySettings,
    backward: int,
    share: int,
    spin: SpinView,
    bodies: MotionView,
):
    """One thread per world: correct velocities by its joints, then its contacts, forward or backward.

    With `share` the points of a pair of shapes divide their correction.
    """
    w = first + wp.tid()
    rows = block.rows
    start = rows.world_start[w]
    count = rows.world_start[w + 1] - start
    for i in range(count):
        place = wp.where(backward == 1, count - 1 - i, i)
        solve_block(rows.block[start + place], block, s, bodies)
    begin = contacts.world_start[w]
    count = contacts.world_count[w]
    for i in range(count):
        place = wp.where(backward == 1, count - 1 - i, i)
        solve_contact(begin + place, contacts, view, s, share, spin, bodies)


@wp.func
def is_rigid(r: int, k: int, block: BlockView) -> bool:
    """Whether row r of block k holds without compliance and without a force limit."""
    rigid = block.rows.scaled_compliance[r] == 0.0
    if k >= block.joints:
        rigid = rigid and block.loop.max_force[k - block.joints] > 1.0e30
    return rigid


@wp.func
def relax_held(k: int, block: BlockView, spin: SpinView, bodies: MotionView):
    """Remove the relative velocity that block k forbids from its bodies, at their current poses.

    The mobility is that at the start of the substep; an inexact one makes the result less accurate, but
    conserves momentum as well. If the bodies rotated far, it would overshoot and add energy.
    """
    rows = block.rows
    count = rows.held[k]
    if count == 0 or not block_enabled(k, block.joints, block.enabled, block.loop):
        return
    f = block_frames(k, block.joints, block.joint, block.loop)
    u = load_twists(f, bodies)
    p = pair_at(f, u, bodies, spin, 0.0)
    first = rows.row_start[k]
    v = (u.v1 + wp.cross(u.w1, p.r1)) - (u.v0 + wp.cross(u.w0, p.r0))
    wrong = wp.spatial_vector()
    wrenches = wp.spatial_matrix()
    for i in range(count):
        r = first + i
        if is_rigid(r, k, block):
            n = row_wrench(rows.kind[r], p, rows.axis0[r], rows.axis1[r])
            wrenches[i] = wp.spatial_vector(n.torque, n.force)
            wrong[i] = -(wp.dot(n.force, v) + wp.dot(n.torque, u.w1 - u.w0))
    x = rows.inverse[k] * wrong
    total = wp.transpose(wrenches) * x
    torque = wp.spatial_top(total)
    force = wp.spatial_bottom(total)
    kick = Twists()
    curvature = float(0.0)
    if f.b0 >= 0:
        turn = torque + wp.cross(p.r0, force)
        kick.v0 = bodies.inv_mass[f.b0] * force
        kick.w0 = spin.inv_inertia[f.b0] * turn
        curvature += wp.dot(kick.v0, force) + wp.dot(kick.w0, turn)
    if f.b1 >= 0:
        turn = torque + wp.cross(p.r1, force)
        kick.v1 = bodies.inv_mass[f.b1] * force
        kick.w1 = spin.inv_inertia[f.b1] * turn
        curvature += wp.dot(kick.v1, force) + wp.dot(kick.w1, turn)
    # no further than to the least energy
    share = float(1.0)
    power = wp.dot(x, wrong)
    if curvature > power:
        share = wp.max(power, 0.0) / curvature
    u.v0 = u.v0 - share * kick.v0
    u.w0 = u.w0 - share * kick.w0
    u.v1 = u.v1 + share * kick.v1
    u.w1 = u.w1 + share * kick.w1
    store_twists(f, u, bodies)
    for i in range(count):
        rows.relaxed[first + i] = rows.relaxed[first + i] + share * x[i]


@wp.kernel
def relax_worlds(
    first: int,
    block: BlockView,
    contacts: ContactView,
    view: BodyContactView,
    backward: int,
    share: int,
    spin: SpinView,
    bodies: MotionView,
):
    """One thread per world: velocities that joints and contacts allow at the current poses.

    For `share` see `sweep_worlds`.
    """
    w = first + wp.tid()
    rows = block.rows
    start = rows.world_start[w]
    count = rows.world_start[w + 1] - start
    for i in range(count):
        place = wp.where(backward == 1, count - 1 - i, i)
        relax_held(rows.block[start + place], block, spin, bodies)
    begin = contacts.world_start[w]
    count = contacts.world_count[w]
    for i in range(count):
        place = wp.where(backward == 1, count - 1 - i, i)
        relax_contact(begin + place, contacts, view, share, spin, bodies)
