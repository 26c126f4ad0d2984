"""Loop joints, welds, distances and couplings by penalty: springs and dampers.

Each row of `pair_rows` measures one number of the motion of body 1 relative to body 0, and has the wrench
whose power is the rate of that number: a spring and a damper along it keep the number at its target. All rows
oscillate at the frequency of the joints' springs (`penalty.joints`).

Stage: penalty forces, constraints
Called by: solvers/semi_implicit/loops.py
Reads: AttachView, BodyMotionView, JointInputView, JointView, LoopRowView, LoopView, dof_joint, effort,
    given, order, slot, start
Writes: effort, f, part
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.constraints.pair_measures import (
    BodyMotion,
    measure_row,
)
from newtonsim.kernels.constraints.pair_rows import (
    row_interval,
)
from newtonsim.kernels.penalty.joints import (
    AttachView,
    BodyMotionView,
    JointInputView,
    inverse_inertia,
    inverse_mass,
    joint_anchor,
    lever,
    stable_gains,
    turning,
)
from newtonsim.kernels.views.model import JointView
from newtonsim.kernels.views.pair_rows import (
    PAIR_COUPLING,
    PAIR_ROTATION,
    LoopView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class LoopRowView:
    """Rows of the constraints, see `pair_rows`."""

    kind: wp.array(dtype=int)  # (R) PAIR_*
    constraint: wp.array(dtype=int)  # (R)
    index: wp.array(dtype=int)  # (R) axis of the constraint's limits
    dofs: wp.array(dtype=wp.vec2i)  # (R) coupled dofs, -1 for none
    axis0: wp.array(dtype=wp.vec3)  # (R) in frame 0
    axis1: wp.array(dtype=wp.vec3)  # (R) in frame 1


@wp.func
def anchor_motion(frame: wp.transform, w: wp.vec3) -> BodyMotion:
    """Position and orientation of a body's anchor, and its angular velocity, for `measure_row`."""
    m = BodyMotion()
    m.x = wp.transform_get_translation(frame)
    m.q = wp.transform_get_rotation(frame)
    m.w = w
    return m


@wp.func
def hold_equality(value: float, rate: float, k: float, d: float, compliance: float, most: float) -> float:
    """Effort along a number that drives it to zero, at most `most`."""
    return wp.clamp(-(k * value + d * rate) / (1.0 + compliance * k), -most, most)


@wp.func
def hold_interval(value: float, rate: float, k: float, d: float, interval: wp.vec2) -> float:
    """Effort that keeps a number within an interval; an interval without width acts on both sides."""
    effort = float(0.0)
    if interval[0] == interval[1]:
        effort = k * (interval[0] - value) - d * rate
    elif value < interval[0]:
        effort = wp.max(k * (interval[0] - value) - d * rate, 0.0)
    elif value > interval[1]:
        effort = wp.min(k * (interval[1] - value) - d * rate, 0.0)
    return effort


@wp.kernel
def pull_loops(
    first: int,
    order: wp.array(dtype=int),
    rows: LoopRowView,
    loop: LoopView,
    attach: AttachView,
    bodies: BodyMotionView,
    place: int,
    part: wp.array(dtype=wp.spatial_vector),
):
    """One thread per row between bodies: wrenches on both at their centres of mass."""
    r = order[first + wp.tid()]
    part[place + 2 * r] = wp.spatial_vector()
    part[place + 2 * r + 1] = wp.spatial_vector()
    c = rows.constraint[r]
    kind = rows.kind[r]
    if kind == PAIR_COUPLING or loop.enabled[c] == 0:
        return
    b0 = loop.parent[c]
    b1 = loop.child[c]
    X0 = joint_anchor(b0, loop.X_p[c], bodies)
    X1 = joint_anchor(b1, loop.X_c[c], bodies)
    x = wp.transform_get_translation(X1)
    w0 = turning(b0, bodies)
    w1 = turning(b1, bodies)
    row = measure_row(kind, anchor_motion(X0, w0), anchor_motion(X1, w1), rows.axis0[r], rows.axis1[r])
    # the forces on both bodies act at the same point
    v = point_velocity(b1, x, bodies.q, bodies.com, bodies.qd)
    v -= point_velocity(b0, x, bodies.q, bodies.com, bodies.qd)
    rate = wp.dot(row.force, v) + wp.dot(row.torque, w1 - w0)
    inv_mass = inverse_mass(b0, bodies) + inverse_mass(b1, bodies)
    turns = wp.dot(row.torque, (inverse_inertia(b0, bodies) + inverse_inertia(b1, bodies)) * row.torque)
    if inv_mass <= 0.0 or wp.length_sq(row.force) + turns <= 0.0:
        return
    compliance = loop.linear_compliance[c]
    scale = float(1.0)
    if turns > 0.0:
        compliance = loop.angular_compliance[c]
        scale = inv_mass / turns
    else:
        inv_mass += lever(b0, x, bodies) + lever(b1, x, bodies)
    gain = stable_gains(attach, inv_mass)
    k = gain[0] * scale
    d = gain[1] * scale
    effort = float(0.0)
    if kind <= PAIR_ROTATION:
        effort = hold_equality(row.value, rate, k, d, compliance, loop.max_force[c])
    else:
        effort = hold_interval(row.value, rate, k, d, row_interval(kind, -1, c, rows.index[r], loop))
    force = effort * row.force
    torque = effort * row.torque
    if b0 >= 0:
        com = wp.transform_point(bodies.q[b0], bodies.com[b0])
        part[place + 2 * r] = -wp.spatial_vector(torque + wp.cross(x - com, force), force)
    if b1 >= 0:
        com = wp.transform_point(bodies.q[b1], bodies.com[b1])
        part[place + 2 * r + 1] = wp.spatial_vector(torque + wp.cross(x - com, force), force)


@wp.func
def dof_mobility(d: int, dof_joint: wp.array(dtype=int), joint: JointView, bodies: BodyMotionView) -> wp.vec2:
    """Sum of both bodies' inverse masses, and the largest acceleration of a dof by a unit effort on it."""
    j = dof_joint[d]
    p = joint.parent[j]
    c = joint.child[j]
    inv_mass = inverse_mass(p, bodies) + inverse_mass(c, bodies)
    mobility = wp.trace(inverse_inertia(p, bodies)) + wp.trace(inverse_inertia(c, bodies))
    if d - joint.qd_start[j] < joint.axis_dim[j, 0]:
        x = wp.transform_get_translation(joint_anchor(c, joint.X_c[j], bodies))
        mobility = inv_mass + lever(p, x, bodies) + lever(c, x, bodies)
    return wp.vec2(inv_mass, mobility)


@wp.kernel
def couple_joints(
    first: int,
    order: wp.array(dtype=int),
    rows: LoopRowView,
    loop: LoopView,
    joint: JointView,
    dof_joint: wp.array(dtype=int),
    attach: AttachView,
    inputs: JointInputView,
    bodies: BodyMotionView,
    effort: wp.array(dtype=float),
):
    """One thread per row: contribution of a coupling to the efforts of its two dofs."""
    r = order[first + wp.tid()]
    effort[2 * r] = 0.0
    effort[2 * r + 1] = 0.0
    c = rows.constraint[r]
    if rows.kind[r] != PAIR_COUPLING or loop.enabled[c] == 0:
        return
    a = rows.dofs[r][0]
    b = rows.dofs[r][1]
    ja = dof_joint[a]
    qa = inputs.q[joint.q_start[ja] + a - joint.qd_start[ja]]
    c0 = loop.coefficients[c, 0]
    value = qa - c0
    rate = inputs.qd[a]
    slope = float(0.0)
    size = dof_mobility(a, dof_joint, joint, bodies)
    mobility = size[1]
    if b >= 0:
        jb = dof_joint[b]
        q = inputs.q[joint.q_start[jb] + b - joint.qd_start[jb]]
        c1 = loop.coefficients[c, 1]
        c2 = loop.coefficients[c, 2]
        c3 = loop.coefficients[c, 3]
        c4 = loop.coefficients[c, 4]
        value = qa - (c0 + q * (c1 + q * (c2 + q * (c3 + q * c4))))
        slope = c1 + q * (2.0 * c2 + q * (3.0 * c3 + q * 4.0 * c4))
        rate = inputs.qd[a] - slope * inputs.qd[b]
        mobility += slope * slope * dof_mobility(b, dof_joint, joint, bodies)[1]
    if size[0] <= 0.0 or mobility <= 0.0:
        return
    gain = stable_gains(attach, size[0])
    scale = size[0] / mobility
    k = gain[0] * scale
    pull = hold_equality(value, rate, k, gain[1] * scale, loop.linear_compliance[c], loop.max_force[c])
    effort[2 * r] = pull
    effort[2 * r + 1] = -slope * pull


@wp.kernel
def sum_efforts(
    first: int,
    start: wp.array(dtype=int),
    slot: wp.array(dtype=int),
    effort: wp.array(dtype=float),
    given: wp.array(dtype=float),
    f: wp.array(dtype=float),
):
    """One thread per dof: its input plus the efforts of couplings."""
    d = first + wp.tid()
    total = given[d]
    for k in range(start[d], start[d + 1]):
        total += effort[slot[k]]
    f[d] = total
