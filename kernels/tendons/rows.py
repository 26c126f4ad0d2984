"""Constraint rows of tendons: limits of lengths, dry friction, equalities, implicit forces, armature.

Limits and equalities are rows by reference. A spring k, damping b and armature a that act on the length l
add (a + h (b + h k)) JᵀJ to the matrix of an implicit step. This would fill the factors, which are sparse
along the trees, so they are a row, too: with the rate r = J v,

    impulse = -h k (l - l0 + h r⁺) - h b r⁺ - a (r⁺ - r⁻ + h J̇ q̇) = p - w r⁺,    w = a + h (b + h k),

which is a row of the softness 1/w and the target p/w. A servo is likewise, with bounds. A muscle, of which
the force at the start acts anyway, has a row for what damping b and stiffness k change, -h b (r⁺ - r⁻)
- h² k r⁺, where references are those at the end of the step. Springs, damping and
servos of any stiffness are thus stable at any time step, as those of joints are, along the tendon. J is that
at the start of the step, so that the stiffness T/l of a tension T across a straight part l is explicit.

They are stored among the rows between bodies, which have room for the dofs of two chains.

Source: MuJoCo's documentation, "Computation", and "XML reference", elements tendon and equality/tendon;
Baraff and Witkin, "Large steps in cloth simulation", 1998 (forces at the end of a step).

Stage: constraints, assembly of rows
Called by: solvers/tendons.py, kernels/tendons/row_terms.py
Reads: L, TendonDrive, TendonMotion, TendonRowView, TreeView, act
Writes: PairRowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.constraints.chains import whiten_sides
from newtonsim.kernels.constraints.dof_rows import UNBOUNDED
from newtonsim.kernels.tendons.forces import TendonDrive, is_servo, muscle_slopes, spring_stretch
from newtonsim.kernels.tendons.paths import TendonMotion
from newtonsim.kernels.views.model import MODE_POSITION, TreeView
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.kernels.views.references import impedance, read_parameters, reference_at, row_reference

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

TENDON_LIMIT = wp.constant(0)
TENDON_FRICTION = wp.constant(1)
TENDON_EQUALITY = wp.constant(2)
TENDON_PASSIVE = wp.constant(3)  # spring, damping and armature
TENDON_SERVO = wp.constant(4)
TENDON_MUSCLE = wp.constant(5)  # what its force changes


@wp.struct
class TendonRowView:
    """R rows of tendons, ordered by world, and their parts: entries of both tendons."""

    place: wp.array(dtype=int)  # (R) its place among the rows between bodies
    kind: wp.array(dtype=int)  # (R) TENDON_*
    leaf: wp.array(dtype=wp.vec2i)  # (R) last dofs of both chains, or -1
    tendon: wp.array(dtype=wp.vec2i)  # (R) the second one is -1 except for equalities
    number: wp.array(dtype=int)  # (R) the equality, or the tendon
    weight: wp.array(dtype=float)  # (R) inverse weight in the reference pose
    part_start: wp.array(dtype=int)  # (R + 1)
    part_entry: wp.array(dtype=int)  # (Q) entry of a tendon
    part_slot: wp.array(dtype=int)  # (Q) place in the row
    part_second: wp.array(dtype=int)  # (Q) 1 for entries of the second tendon
    lower: wp.array(dtype=float)  # (T) limits of the length
    upper: wp.array(dtype=float)  # (T)
    margin: wp.array(dtype=float)  # (T) distance below which they act
    ref: wp.array2d(dtype=float)  # (T, 2)
    imp: wp.array2d(dtype=float)  # (T, 5)
    friction: wp.array(dtype=float)  # (T) [N]
    armature: wp.array(dtype=float)  # (T) [kg]
    enabled: wp.array(dtype=int)  # by equality
    lengths: wp.array2d(dtype=float)  # by equality, lengths of both that count as zero
    coefficients: wp.array2d(dtype=float)  # by equality, polynomial of the second length
    equality_ref: wp.array2d(dtype=float)
    equality_imp: wp.array2d(dtype=float)


@wp.struct
class TendonGoal:
    """Target of a row of a tendon."""

    acts: int
    slope: float  # of the second tendon's rate in the row's
    slowest: float  # target velocities
    fastest: float
    softness: float
    bound: float  # of the impulse


@wp.func
def equality_value(k: int, x: float, rows: TendonRowView) -> wp.vec2:
    """The polynomial of an equality and its slope."""
    c0 = rows.coefficients[k, 0]
    c1 = rows.coefficients[k, 1]
    c2 = rows.coefficients[k, 2]
    c3 = rows.coefficients[k, 3]
    c4 = rows.coefficients[k, 4]
    value = c0 + x * (c1 + x * (c2 + x * (c3 + x * c4)))
    return wp.vec2(value, c1 + x * (2.0 * c2 + x * (3.0 * c3 + x * 4.0 * c4)))


@wp.func
def limit_goal(r: int, t: int, motion: TendonMotion, dt: float, late: int, rows: TendonRowView) -> TendonGoal:
    """The nearer limit of a length, if it acts."""
    goal = TendonGoal()
    goal.slowest = -UNBOUNDED
    goal.fastest = UNBOUNDED
    goal.bound = UNBOUNDED
    below = motion.length[t] - rows.lower[t]
    above = rows.upper[t] - motion.length[t]
    gap = wp.min(below, above) - rows.margin[t]
    if gap < 0.0:
        goal.acts = 1
        parameters = read_parameters(t, rows.ref, rows.imp)
        if above < below:
            reference = row_reference(gap, -motion.rate[t], rows.weight[r], parameters, dt, late)
            goal.fastest = -reference.target
            goal.softness = reference.softness
        else:
            reference = row_reference(gap, motion.rate[t], rows.weight[r], parameters, dt, late)
            goal.slowest = reference.target
            goal.softness = reference.softness
    return goal


@wp.func
def equality_goal(r: int, motion: TendonMotion, dt: float, late: int, rows: TendonRowView) -> TendonGoal:
    """An equality between the lengths of two tendons, or of one and a number."""
    goal = TendonGoal()
    k = rows.number[r]
    t0 = rows.tendon[r][0]
    t1 = rows.tendon[r][1]
    goal.bound = UNBOUNDED
    goal.acts = rows.enabled[k]
    x = float(0.0)
    other = float(0.0)
    if t1 >= 0:
        x = motion.length[t1] - rows.lengths[k, 1]
        other = motion.rate[t1]
    polynomial = equality_value(k, x, rows)
    value = motion.length[t0] - rows.lengths[k, 0] - polynomial[0]
    goal.slope = -polynomial[1]
    rate = motion.rate[t0] - polynomial[1] * other
    parameters = read_parameters(k, rows.equality_ref, rows.equality_imp)
    d = impedance(value, parameters)
    reference = reference_at(d, value, rate, 0.0, rows.weight[r], parameters, dt, late)
    goal.slowest = reference.target
    goal.fastest = reference.target
    goal.softness = reference.softness
    return goal


@wp.func
def implicit_goal(impulse: float, weight: float, bound: float) -> TendonGoal:
    """A row whose impulse is `impulse` - `weight` r⁺ within a bound, see the file."""
    goal = TendonGoal()
    if weight > 0.0:
        goal.acts = 1
        goal.slowest = impulse / weight
        goal.fastest = goal.slowest
        goal.softness = 1.0 / weight
        goal.bound = wp.min(bound, UNBOUNDED)
    return goal


@wp.func
def passive_goal(t: int, motion: TendonMotion, drive: TendonDrive, dt: float, armature: float) -> TendonGoal:
    """Spring, damping and armature, see the file."""
    stretch = spring_stretch(t, motion.length[t], drive)
    impulse = armature * (motion.rate[t] - dt * motion.bend[t])
    weight = armature + dt * drive.damping[t]
    if stretch != 0.0:
        impulse -= dt * drive.stiffness[t] * stretch
        weight += dt * dt * drive.stiffness[t]
    return implicit_goal(impulse, weight, UNBOUNDED)


@wp.func
def servo_goal(t: int, act: float, motion: TendonMotion, drive: TendonDrive, dt: float) -> TendonGoal:
    """The drive, while it is a servo."""
    impulse = float(0.0)
    weight = float(0.0)
    if is_servo(t, drive):
        if drive.mode[t] == MODE_POSITION:
            impulse = dt * drive.target_ke[t] * (act - motion.length[t])
            weight = dt * (drive.target_kd[t] + dt * drive.target_ke[t])
        else:
            impulse = dt * drive.target_ke[t] * act
            weight = dt * drive.target_ke[t]
    return implicit_goal(impulse, weight, dt * drive.effort_limit[t])


@wp.func
def muscle_goal(
    t: int, act: float, motion: TendonMotion, drive: TendonDrive, dt: float, late: int
) -> TendonGoal:
    """What the force of a muscle changes within the step."""
    slopes = wp.vec2(0.0, 0.0)
    if late == 1:
        slopes = muscle_slopes(t, act, motion.length[t], motion.rate[t], drive)
    impulse = dt * slopes[0] * motion.rate[t]
    return implicit_goal(impulse, dt * (slopes[0] + dt * slopes[1]), UNBOUNDED)


@wp.func
def tendon_goal(
    r: int,
    motion: TendonMotion,
    drive: TendonDrive,
    act: wp.array(dtype=float),
    dt: float,
    late: int,
    rows: TendonRowView,
) -> TendonGoal:
    """Target of row r."""
    goal = TendonGoal()
    t = rows.tendon[r][0]
    if rows.kind[r] == TENDON_LIMIT:
        goal = limit_goal(r, t, motion, dt, late, rows)
    elif rows.kind[r] == TENDON_EQUALITY:
        goal = equality_goal(r, motion, dt, late, rows)
    elif rows.kind[r] == TENDON_PASSIVE:
        goal = passive_goal(t, motion, drive, dt, rows.armature[t])
    elif rows.kind[r] == TENDON_SERVO:
        goal = servo_goal(t, act[t], motion, drive, dt)
    elif rows.kind[r] == TENDON_MUSCLE:
        goal = muscle_goal(t, act[t], motion, drive, dt, late)
    else:
        goal.acts = 1
        goal.bound = rows.friction[t] * dt
    return goal


@wp.func
def fill_tendon_row(
    r: int,
    p: int,
    slope: float,
    tree: TreeView,
    motion: TendonMotion,
    depth: int,
    rows: TendonRowView,
    pair: PairRowView,
):
    """Jacobian of row r of a tendon at place p."""
    leaf = rows.leaf[r]
    for side in range(2):
        if leaf[side] >= 0:
            for k in range(tree.dof_depth[leaf[side]] + 1):
                pair.B[p, side * depth + k] = 0.0
    for i in range(rows.part_start[r], rows.part_start[r + 1]):
        factor = float(1.0)
        if rows.part_second[i] == 1:
            factor = slope
        slot = rows.part_slot[i]
        pair.B[p, slot] = pair.B[p, slot] + factor * motion.J[rows.part_entry[i]]


@wp.kernel
def build_tendon_rows(
    first: int,
    tree: TreeView,
    motion: TendonMotion,
    drive: TendonDrive,
    act: wp.array(dtype=float),
    rows: TendonRowView,
    L: wp.array(dtype=float),
    depth: int,
    dt: float,
    late: int,
    warm_start: float,
    pair: PairRowView,
):
    """One thread per row of a tendon: Jacobian, targets, softness, and the warm start."""
    r = first + wp.tid()
    p = rows.place[r]
    start = pair.impulse[p]
    pair.impulse[p] = 0.0
    pair.delassus[p] = 0.0
    goal = tendon_goal(r, motion, drive, act, dt, late, rows)
    if goal.acts == 0:
        return
    fill_tendon_row(r, p, goal.slope, tree, motion, depth, rows, pair)
    leaf = rows.leaf[r]
    pair.leaf[p] = leaf
    whiten_sides(tree, L, p, leaf, depth, pair.B)
    total = float(0.0)
    for side in range(2):
        if leaf[side] >= 0:
            for k in range(side * depth, side * depth + tree.dof_depth[leaf[side]] + 1):
                total += pair.B[p, k] * pair.B[p, k]
    pair.delassus[p] = total
    pair.target_lower[p] = goal.slowest
    pair.target_upper[p] = goal.fastest
    pair.softness[p] = goal.softness
    pair.upper[p] = goal.bound
    pair.lower[p] = -goal.bound
    pair.impulse[p] = wp.clamp(warm_start * start, -goal.bound, goal.bound)
