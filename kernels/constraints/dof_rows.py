"""Constraint rows on one dof: joint and velocity limits, bounded drives, dry friction, servos.

A row keeps its velocity v within a target interval [target_lower, target_upper] by an impulse within
[lower, upper]: a limit has an interval and no bounds, dry friction and servos have a single velocity and
bounds, and a drive at its effort limit has softness as well. Rows between two bodies are in `pair_rows`. Rows
on one dof are a separate family because there are many of them, most of them are out of reach and omitted,
and they are half as wide.

Stage: constraints, assembly of rows
Called by: kernels/constraints/adjoint/row_terms.py, kernels/constraints/linear/selection.py,
    kernels/constraints/pair_rows.py, kernels/constraints/step_end.py, kernels/constraints/world_dof_rows.py
Reads: DofRowView, DriveView, L, LimitView, ServoView, TreeView, act, implicit, mass, q, v_free
Writes: DofRowView, ServoView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.constraints.chains import inverse_weight, whiten_chain
from newtonsim.kernels.constraints.servos import ServoView, servo_row
from newtonsim.kernels.constraints.smoothing import smooth_softness, smooth_speed
from newtonsim.kernels.trees.joint_forces import least_effort
from newtonsim.kernels.views.model import MODE_POSITION, DriveView, TreeView
from newtonsim.kernels.views.references import (
    RowReference,
    rate_reference,
    read_parameters,
    row_reference,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

UNBOUNDED = wp.constant(1.0e30)
ROW_LIMIT = wp.constant(0)
ROW_DRIVE = wp.constant(1)
ROW_FRICTION = wp.constant(2)
ROW_SERVO = wp.constant(3)
# contacts that are springs and dampers
CONTACTS_RIGID = wp.constant(0)
CONTACTS_SOFT = wp.constant(1)
CONTACTS_BY_SHAPE = wp.constant(2)
# what happened in a world in a step
NOTHING_ACTED = wp.constant(0)
ACTED = wp.constant(1)
PUSHED = wp.constant(2)  # and single bodies moved at another rate than their velocities, apart
TIMED = wp.constant(3)  # and all bodies did, because one rebounded within the step
# share of its velocity limit at which a joint gets the row that enforces it
NEAR_VELOCITY_LIMIT = wp.constant(0.5)


@wp.struct
class ConstraintSettings:
    """Numbers that determine stiffness and damping of the constraints."""

    dt: float  # [s]
    contact_rate: float  # rate at which penetration is removed [1/s]
    contact_cfm: float  # softness added to the Delassus diagonal [1/kg]
    contact_slop: float  # penetration left alone [m]
    contact_skin: float  # gap below which a contact counts as closed [m]
    soft_contacts: int  # CONTACTS_*: which contacts have stiffness and damping of the materials
    friction_product: int  # 1: friction of a pair is the product, 0: the mean, 2: the larger of both shapes'
    restitution_product: int  # likewise, 0 or 1
    max_push_speed: float  # fastest removal of penetration [m/s]
    restitution_speed: float  # slowest approach that bounces [m/s]
    limit_rate: float  # rate at which a violated joint limit is restored [1/s]
    max_limit_speed: float  # fastest restoration of limits and loops [rad/s or m/s]
    limit_cfm: float
    limit_margin: float  # distance to a joint limit at which its row exists [rad or m]
    loop_rate: float  # rate at which errors of loops and couplings are removed [1/s]
    warm_start: float  # share of the last step's impulse
    smoothing: float  # width over which contacts and limits are softened [m]; 0 if they are rigid
    weighted: int  # 1 if friction is weighted, see `contact_rows.weighed_bound`
    late: int  # 1 if rows by reference use the state at the end of the step, see `views.references`


@wp.struct
class LimitView:
    """Limits of the motion of joint axes and dofs."""

    lower: wp.array(dtype=float)  # (A) [rad or m]
    upper: wp.array(dtype=float)  # (A)
    velocity: wp.array(dtype=float)  # (A) [rad/s or m/s]
    friction: wp.array(dtype=float)  # (D) [N m or N]
    lever: wp.array(dtype=float)  # (A) displacement of the body by a rad [m]; 1 for prismatic axes
    by_reference: int  # 1 if a limit has the parameters that follow
    ref: wp.array2d(dtype=float)  # (A, 2) see `references.RowParameters`; zero for the solver's own stiffness
    imp: wp.array2d(dtype=float)  # (A, 5)
    margin: wp.array(dtype=float)  # (A) distance below which the limit acts [rad or m]
    weight: wp.array(dtype=float)  # (D) inverse inertia of each dof in the reference pose
    light: wp.array(dtype=float)  # (D) 1 / inertia of each dof alone, and with the terms of implicit forces;
    heavy: wp.array(dtype=float)  # (D) for rows that use the state at the end of the step
    qd: wp.array(dtype=float)  # (D) velocities at the start of the step
    friction_by_reference: int  # 1 if a dry friction has the parameters that follow
    friction_ref: wp.array2d(dtype=float)  # (D, 2)
    friction_imp: wp.array2d(dtype=float)  # (D, 5)


@wp.struct
class DofRowView:
    """Rows on one dof; world w owns the first world_count[w] places of its range."""

    source_kind: wp.array(dtype=int)  # (R) candidate rows
    source_dof: wp.array(dtype=int)  # (R)
    source_limit: wp.array(dtype=int)  # (R) candidate for the limits of the same dof, of drives; else -1
    place: wp.array(dtype=int)  # (R) row of each candidate, or -1
    world_start: wp.array(dtype=int)  # (W + 1) for candidates and rows alike
    world_count: wp.array(dtype=int)  # (W)
    world: wp.array(dtype=int)  # (R)
    source: wp.array(dtype=int)  # (R) candidate of each row
    lower: wp.array(dtype=float)  # (R) bounds of the impulse
    upper: wp.array(dtype=float)
    target_lower: wp.array(dtype=float)  # (R) bounds of the target velocity
    target_upper: wp.array(dtype=float)
    softness: wp.array(dtype=float)  # (R) CFM
    delassus: wp.array(dtype=float)  # (R) BᵀB
    impulse: wp.array(dtype=float)  # (R)
    memory: wp.array(dtype=float)  # (R) last impulse of each candidate
    B: wp.array2d(dtype=float)  # (R, depth)


@wp.struct
class DofRow:
    """A row on one dof."""

    lower: float  # bounds of the impulse
    upper: float
    slowest: float  # bounds of the target velocity
    fastest: float
    softness: float  # CFM


@wp.func
def limit_speed(gap: float, s: ConstraintSettings) -> float:
    """Target velocity of a limit, towards the free side: it closes the gap, or removes the violation."""
    speed = -gap / s.dt
    if gap < 0.0:
        speed = wp.min(-gap * s.limit_rate, s.max_limit_speed)
    return speed


@wp.func
def axis_limit_speed(gap: float, lever: float, s: ConstraintSettings) -> float:
    """Target velocity of the limit of a joint axis, which may be softened."""
    speed = limit_speed(gap, s)
    if s.smoothing > 0.0:
        speed = smooth_speed(gap, s.smoothing / lever, s.limit_rate, s.max_limit_speed, s.dt)
    return speed


@wp.func
def limit_softness(gap: float, top: float, lever: float, weight: float, s: ConstraintSettings) -> float:
    """CFM of a limit at a distance `gap`, or of the velocity limit `top` if that is reached first.

    A softened limit that carries the weight of the tree yields by the angle at which the end of a lever of
    that length [m] moves by the width.
    """
    softness = s.limit_cfm
    if s.smoothing > 0.0 and gap < top * s.dt:
        width = s.smoothing / lever
        yields = smooth_softness(width, s.limit_rate, s.max_limit_speed, weight / lever, s.dt)
        softness = softness + yields
    return softness


@wp.func
def limit_velocities(
    x: float, lower: float, upper: float, top: float, lever: float, s: ConstraintSettings
) -> wp.vec2:
    """Interval of velocities that the limits of an axis at x and of its velocity allow."""
    slowest = wp.clamp(axis_limit_speed(x - lower, lever, s), -top, top)
    fastest = wp.clamp(-axis_limit_speed(upper - x, lever, s), -top, top)
    return wp.vec2(slowest, fastest)


@wp.func
def drive_rate(drive: DriveView, a: int, dt: float) -> float:
    """Negative slope of the effort of the drive of axis a by the velocity at the end of the step."""
    rate = drive.target_ke[a]
    if drive.mode[a] == MODE_POSITION:
        rate = drive.target_kd[a] + dt * drive.target_ke[a]
    return rate


@wp.func
def drive_velocity(drive: DriveView, a: int, act: float, q: float, rate: float) -> float:
    """Velocity at which the drive of axis a exerts no effort, given its `drive_rate`."""
    velocity = act
    if drive.mode[a] == MODE_POSITION:
        velocity = drive.target_ke[a] * (act - q) / rate
    return velocity


@wp.func
def has_reference(a: int, limit: LimitView) -> bool:
    """True if the limits of axis a are by reference."""
    found = bool(False)
    if limit.by_reference == 1:
        found = limit.ref[a, 0] != 0.0
    return found


@wp.func
def dof_weight(d: int, limit: LimitView, s: ConstraintSettings) -> float:
    """Inverse inertia of dof d; for rows solved together with implicit forces, reduced by these."""
    weight = limit.weight[d]
    if s.late == 1:
        weight = weight * limit.heavy[d] / limit.light[d]
    return weight


@wp.func
def limit_reference(
    d: int, a: int, below: float, above: float, limit: LimitView, s: ConstraintSettings
) -> RowReference:
    """Target and softness relative to the nearer limit of axis a of dof d, given the gaps at both limits."""
    p = read_parameters(a, limit.ref, limit.imp)
    gap = below
    v = limit.qd[d]
    if above < below:
        gap = above
        v = -v
    return row_reference(gap - limit.margin[a], v, dof_weight(d, limit, s), p, s.dt, s.late)


@wp.func
def reference_row(
    d: int,
    a: int,
    below: float,
    above: float,
    speed: float,
    driven: bool,
    s: ConstraintSettings,
    limit: LimitView,
) -> DofRow:
    """The limits by reference of axis a of dof d, which act from their margin on, and its velocity limit."""
    row = DofRow()
    top = limit.velocity[a]
    acts = wp.min(below, above) < limit.margin[a]
    if acts or driven or speed > NEAR_VELOCITY_LIMIT * top:
        row.lower = -UNBOUNDED
        row.upper = UNBOUNDED
        row.slowest = -wp.min(top, UNBOUNDED)
        row.fastest = -row.slowest
    if acts:
        reference = limit_reference(d, a, below, above, limit, s)
        row.softness = reference.softness
        if above < below:
            row.fastest = wp.clamp(-reference.target, -top, top)
        else:
            row.slowest = wp.clamp(reference.target, -top, top)
    return row


@wp.func
def has_friction_reference(d: int, limit: LimitView) -> bool:
    """True if the dry friction of dof d is by reference."""
    found = bool(False)
    if limit.friction_by_reference == 1:
        found = limit.friction_ref[d, 0] != 0.0
    return found


@wp.func
def friction_reference(d: int, limit: LimitView, s: ConstraintSettings) -> RowReference:
    """Target and softness of dry friction. It has no position, so that it creeps by R while it holds."""
    p = read_parameters(d, limit.friction_ref, limit.friction_imp)
    return rate_reference(limit.qd[d], dof_weight(d, limit, s), p, s.dt, s.late)


@wp.func
def friction_row(d: int, limit: LimitView, s: ConstraintSettings) -> DofRow:
    """The dry friction of dof d."""
    row = DofRow()
    row.upper = limit.friction[d] * s.dt
    row.lower = -row.upper
    if has_friction_reference(d, limit):
        reference = friction_reference(d, limit, s)
        row.slowest = reference.target
        row.fastest = reference.target
        row.softness = reference.softness
    return row


@wp.func
def is_held(
    d: int, tree: TreeView, limit: LimitView, implicit: wp.array(dtype=int), v_free: wp.array(dtype=float)
) -> bool:
    """True if a row of dof d acts that its free velocity lacks: its drive is bounded, or it is too fast."""
    held = implicit[d] == 0
    a = tree.dof_axis[d]
    if a >= 0:
        held = held or wp.abs(v_free[d]) > limit.velocity[a]
    return held


@wp.func
def moves_otherwise(
    d: int, tree: TreeView, limit: LimitView, implicit: wp.array(dtype=int), v_free: wp.array(dtype=float)
) -> bool:
    """True if dof d moves otherwise than its free velocity says, as a dof of its tree is held."""
    t = tree.body_tree[tree.dof_body[d]]
    found = bool(False)
    for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
        if is_held(tree.dof[i], tree, limit, implicit, v_free):
            found = True
    return found


@wp.func
def limit_row(
    d: int,
    tree: TreeView,
    limit: LimitView,
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    driven: bool,
    mass: wp.array(dtype=float),
    s: ConstraintSettings,
) -> DofRow:
    """The limits of the axis of dof d and of its velocity, if one is in reach, or if it is `driven`.

    Then all are, since what is in reach is found by the free velocity.
    """
    row = DofRow()
    a = tree.dof_axis[d]
    x = q[tree.dof_coord[d]]
    speed = wp.abs(v_free[d])
    gap = wp.min(x - limit.lower[a], limit.upper[a] - x)
    top = limit.velocity[a]
    if has_reference(a, limit):
        row = reference_row(d, a, x - limit.lower[a], limit.upper[a] - x, speed, driven, s, limit)
    elif driven or gap < s.limit_margin + speed * s.dt or speed > NEAR_VELOCITY_LIMIT * top:
        row.lower = -UNBOUNDED
        row.upper = UNBOUNDED
        allowed = limit_velocities(x, limit.lower[a], limit.upper[a], top, limit.lever[a], s)
        row.slowest = allowed[0]
        row.fastest = allowed[1]
        weight = inverse_weight(tree, wp.vec2i(d, -1), mass)
        row.softness = limit_softness(gap, top, limit.lever[a], weight, s)
    return row


@wp.func
def drive_row(
    d: int,
    tree: TreeView,
    drive: DriveView,
    q: wp.array(dtype=float),
    act: wp.array(dtype=float),
    s: ConstraintSettings,
) -> DofRow:
    """The drive of dof d, which may exceed its effort limit in this step."""
    row = DofRow()
    a = tree.dof_axis[d]
    row.upper = drive.effort_limit[a] * s.dt
    row.lower = least_effort(drive.effort_lower[a], drive.effort_limit[a]) * s.dt
    rate = drive_rate(drive, a, s.dt)
    row.slowest = drive_velocity(drive, a, act[a], q[tree.dof_coord[d]], rate)
    row.fastest = row.slowest
    row.softness = 1.0 / (s.dt * rate)
    return row


@wp.func
def bounded_servo_row(
    d: int,
    tree: TreeView,
    limit: LimitView,
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    servo: ServoView,
    s: ConstraintSettings,
) -> DofRow:
    """The servo of dof d, which yields to limits."""
    row = DofRow()
    a = tree.dof_axis[d]
    aim = servo_row(d, servo, tree, q, v_free, s.dt)
    row.upper = wp.min(aim.bound, UNBOUNDED)
    row.lower = -row.upper
    row.slowest = aim.velocity
    if a >= 0:
        # if a servo worked against a limit, the result would depend on the order of the rows
        angle = q[tree.dof_coord[d]]
        ceiling = wp.min(-limit_speed(limit.upper[a] - angle, s), limit.velocity[a])
        floor = wp.max(limit_speed(angle - limit.lower[a], s), -limit.velocity[a])
        row.slowest = wp.max(wp.min(row.slowest, ceiling), wp.min(floor, ceiling))
    row.fastest = row.slowest
    row.softness = aim.softness
    return row


@wp.func
def candidate_row(
    kind: int,
    d: int,
    drive: DriveView,
    tree: TreeView,
    limit: LimitView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    act: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    servo: ServoView,
    any_held: bool,
    s: ConstraintSettings,
) -> DofRow:
    """A row of the given kind on dof d, in whose world a dof may be held.

    Both bounds are equal if it is not needed.
    """
    row = DofRow()
    if kind == ROW_LIMIT:
        driven = bool(False)
        if any_held:
            driven = moves_otherwise(d, tree, limit, implicit, v_free)
        row = limit_row(d, tree, limit, q, v_free, driven, mass, s)
    elif kind == ROW_DRIVE:
        if implicit[d] == 0:
            row = drive_row(d, tree, drive, q, act, s)
    elif kind == ROW_FRICTION:
        row = friction_row(d, limit, s)
    else:
        row = bounded_servo_row(d, tree, limit, q, v_free, servo, s)
    return row


@wp.func
def put_row(r: int, source: int, row: DofRow, rows: DofRowView):
    """Write a row to its place."""
    rows.source[r] = source
    rows.place[source] = r
    rows.lower[r] = row.lower
    rows.upper[r] = row.upper
    rows.target_lower[r] = row.slowest
    rows.target_upper[r] = row.fastest
    rows.softness[r] = row.softness


@wp.func
def build_row(r: int, tree: TreeView, L: wp.array(dtype=float), s: ConstraintSettings, rows: DofRowView):
    """Compute B for a unit generalised force, and apply the warm start."""
    source = rows.source[r]
    d = rows.source_dof[source]
    depth = tree.dof_depth[d]
    for k in range(depth):
        rows.B[r, k] = 0.0
    rows.B[r, depth] = 1.0
    whiten_chain(tree, L, r, d, 0, 0, rows.B)
    total = float(0.0)
    for k in range(depth + 1):
        total += rows.B[r, k] * rows.B[r, k]
    rows.delassus[r] = total
    rows.impulse[r] = wp.clamp(s.warm_start * rows.memory[source], rows.lower[r], rows.upper[r])


@wp.func
def remember_row(r: int, servo: ServoView, rows: DofRowView):
    """Store the impulse for the warm start of the next step, and report that of a servo."""
    source = rows.source[r]
    rows.memory[source] = rows.impulse[r]
    if rows.source_kind[source] == ROW_SERVO:
        servo.applied[rows.source_dof[source]] = rows.impulse[r] / servo.period


@wp.func
def forget_row(source: int, servo: ServoView, rows: DofRowView):
    """Clear the impulse of a candidate that has no row."""
    rows.place[source] = -1
    rows.memory[source] = 0.0
    if rows.source_kind[source] == ROW_SERVO:
        servo.applied[rows.source_dof[source]] = 0.0
