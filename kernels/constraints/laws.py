"""Laws of constraint rows: the impulse of a row as a function of its velocity.

Around a centre q of the impulses, a row with the velocity v, the target t, the softness c and the
regularisation R has the impulse

    p(v) = P((R q + t - v) / (R + c)),

where P is the projection onto its bounds. Due to R, the velocity misses its target by R (p - q), which
vanishes if the centre is the solution: bodies at rest stay at rest as if contact were rigid. Castro, Han,
Masterjohn, "Irrotational contact fields", 2023, use laws of this kind; the centre is that of the proximal
point method (Rockafellar, "Monotone operators and the proximal point algorithm", 1976).

Stage: constraints, solve
Called by: kernels/constraints/adjoint/, kernels/constraints/linear/, kernels/constraints/solve/
Reads: IslandView, LawView, RowsView
Writes: LawView, RowsView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes
from newtonsim.kernels.constraints.contact_rows import (
    CONTACT_RIGID,
    CONTACT_SMOOTH,
    PUSHED_SOFTNESS,
    SLOW_PUSH,
    spin_width,
    weighed_bound,
)
from newtonsim.kernels.constraints.islands import IslandView, copy_impulses
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.constraints.smoothing import friction_matrix, friction_per_slip, friction_slope

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# regularisation of contacts, over the larger of their Delassus number and the inverse weight of their bodies:
# most and least
SOFT = wp.constant(1.0)
STIFF = wp.constant(1.0e-5)
# regularisation of other rows over their Delassus number, most and least
SOFT_ROW = wp.constant(1.0e-2)
STIFF_ROW = wp.constant(1.0e-4)
# velocity error of rows above which it falls, as a share of the change in the first sweep
ROW_PASSING = wp.constant(0.2)
# the same for torsional and rolling friction
SOFT_SPIN = wp.constant(0.2)
# a row with too large an error gets a regularisation for this share of the allowed error; the least factor
SPARE = wp.constant(0.3)
LEAST_FACTOR = wp.constant(1.0e-3)
# velocity error that the regularisation of a contact may cause, as a share of the velocity; as a share of the
# change in the first sweep, for contacts and for other rows; speeds and changes that weight causes in a step,
# above which these shares count [m/s]
ALLOWED = wp.constant(1.0e-3)
ALLOWED_CHANGE = wp.constant(2.0e-3)
ALLOWED_ROW = wp.constant(2.0e-5)
ALLOWED_SHARE = wp.constant(2.0e-3)
UNREST = wp.constant(0.1)
# share of its push that a wedged contact does not achieve, and the speed that its impulse would give its
# bodies, over its push
WEDGED = wp.constant(0.5)
STRAINED = wp.constant(100.0)
SMALLEST_LOAD = wp.constant(1.0e-12)
# error of a row, over the allowed one, above which the rounds have to continue
SINKING = wp.constant(2.0)


@wp.struct
class LawView:
    """Data of laws besides the rows: R rows on dofs, P rows between bodies, C contacts."""

    centre: ImpulseView  # of all rows; no z
    dof_R: wp.array(dtype=float)  # (R) regularisation
    pair_R: wp.array(dtype=float)  # (P)
    contact_v: wp.array(dtype=wp.vec3)  # (C) velocities at which the law was last evaluated
    contact_bound: wp.array(dtype=float)  # (C) of friction [N s]
    contact_R: wp.array(dtype=wp.vec2)  # (C) regularisation of normal and friction [1/kg]
    contact_slope: wp.array(dtype=float)  # (C) of the normal impulse, in the current matrix [kg]
    dof_branch: wp.array(dtype=int)  # (R) branches of the laws in the current matrix
    pair_branch: wp.array(dtype=int)  # (P)
    contact_branch: wp.array(dtype=int)  # (C)
    spin_branch: wp.array(dtype=int)  # (C)
    spin_bound: wp.array(dtype=wp.vec2)  # (C) of torsional and rolling friction [N m s]


@wp.struct
class RowLaw:
    """Impulse of a row at a velocity, and its negative slope there."""

    impulse: float
    slope: float
    branch: int  # 1 if it is the equation of the row that decides, 0 a bound


@wp.struct
class TripleLaw:
    """Impulses of three rows at a velocity, and their negative slope there."""

    impulse: wp.vec3
    slope: wp.vec4  # entry 0, 0 of a symmetric matrix, then 1, 1, then 2, 2 and 1, 2; the others are zero
    branch: int  # bit by bit: 1 if the equation of the row determines it, 0 if a bound does


@wp.func
def slope_matrix(slope: wp.vec4) -> wp.mat33:
    """The slope of a `TripleLaw` as a matrix."""
    return wp.mat33(slope[0], 0.0, 0.0, 0.0, slope[1], slope[3], 0.0, slope[3], slope[2])


@wp.func
def slope_along(slope: wp.vec4, d: wp.vec3) -> float:
    """dᵀ G d for the slope G of a `TripleLaw`."""
    across = wp.vec2(slope[1] * d[1] + slope[3] * d[2], slope[3] * d[1] + slope[2] * d[2])
    return d[0] * (slope[0] * d[0]) + d[1] * across[0] + d[2] * across[1]


@wp.func
def row_law(v: float, centre: float, R: float, softness: float, target: wp.vec2, bounds: wp.vec2) -> RowLaw:
    """Law of a row with an interval of target velocities and bounds of its impulse."""
    law = RowLaw()
    compliance = R + softness
    low = (R * centre + target[0] - v) / compliance
    high = (R * centre + target[1] - v) / compliance
    wanted = wp.max(0.0, low) + wp.min(0.0, high)
    law.impulse = wp.clamp(wanted, bounds[0], bounds[1])
    law.slope = 0.0
    if law.impulse == wanted and (wanted != 0.0 or target[0] == target[1]):
        law.slope = 1.0 / compliance
        law.branch = 1
    return law


@wp.func
def dof_law(rows: wp.ref[RowsView], laws: wp.ref[LawView], r: int, v: float) -> RowLaw:
    """Law of a row on one dof."""
    target = wp.vec2(rows.dof.target_lower[r], rows.dof.target_upper[r])
    bounds = wp.vec2(rows.dof.lower[r], rows.dof.upper[r])
    return row_law(v, laws.centre.dof[r], laws.dof_R[r], rows.dof.softness[r], target, bounds)


@wp.func
def pair_law(rows: wp.ref[RowsView], laws: wp.ref[LawView], r: int, v: float) -> RowLaw:
    """Law of a row between two bodies or dofs."""
    target = wp.vec2(rows.pair.target_lower[r], rows.pair.target_upper[r])
    bounds = wp.vec2(rows.pair.lower[r], rows.pair.upper[r])
    return row_law(v, laws.centre.pair[r], laws.pair_R[r], rows.pair.softness[r], target, bounds)


@wp.func
def friction_law(t: wp.vec2, R: float, bound: float, pyramidal: bool) -> TripleLaw:
    """Law of two friction rows, in entries 1 and 2, whose impulses would be t without a bound."""
    law = TripleLaw()
    size = wp.length(t)
    if pyramidal:
        limited = wp.vec2(wp.clamp(t[0], -bound, bound), wp.clamp(t[1], -bound, bound))
        law.impulse = wp.vec3(0.0, limited[0], limited[1])
        if limited[0] == t[0] and bound > 0.0:
            law.slope[1] = 1.0 / R
            law.branch = 2
        if limited[1] == t[1] and bound > 0.0:
            law.slope[2] = 1.0 / R
            law.branch += 4
    elif size <= bound:
        law.impulse = wp.vec3(0.0, t[0], t[1])
        if bound > 0.0:
            law.slope[1] = 1.0 / R
            law.slope[2] = 1.0 / R
            law.branch = 6
    else:
        share = bound / size
        law.impulse = wp.vec3(0.0, share * t[0], share * t[1])
        d = t / size
        slope = share / R
        law.slope = wp.vec4(0.0, slope * d[1] * d[1], slope * d[0] * d[0], -slope * d[0] * d[1])
    return law


@wp.func(inline=False)
def smooth_friction_law(left: wp.vec2, width: float, bound: float, pyramidal: bool) -> TripleLaw:
    """Law of two friction rows, in entries 1 and 2, against the slip -left, softened over `width`."""
    law = TripleLaw()
    K = friction_matrix(left, width)
    t = friction_per_slip(wp.length(left), width) * left
    if pyramidal:
        K = wp.mat22()
        for i in range(2):
            t[i] = friction_per_slip(wp.abs(left[i]), width) * left[i]
            K[i, i] = friction_slope(wp.abs(left[i]), width)
    law.impulse = bound * wp.vec3(0.0, t[0], t[1])
    law.slope = bound * wp.vec4(0.0, K[0, 0], K[1, 1], K[0, 1])
    if bound > 0.0:
        law.branch = 6
    return law


@wp.func
def unbounded_friction(rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, v: wp.vec3) -> wp.vec2:
    """Impulses of the friction rows of a rigid contact at the velocity v, if nothing bounded them."""
    R = laws.contact_R[c][1]
    centre = laws.centre.contact[c]
    left = rows.contact.target[c] - v
    return wp.vec2(centre[1] + left[1] / R, centre[2] + left[2] / R)


@wp.func
def contact_law(
    rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, v: wp.vec3, pyramidal: bool
) -> TripleLaw:
    """Law of a normal row and two friction rows."""
    R = laws.contact_R[c]
    softness = rows.contact.softness[c]
    centre = laws.centre.contact[c]
    left = rows.contact.target[c] - v
    law = TripleLaw()
    if rows.contact.slip_width[c] > 0.0:
        slip_left = wp.vec2(left[1], left[2])
        law = smooth_friction_law(slip_left, rows.contact.slip_width[c], laws.contact_bound[c], pyramidal)
    else:
        t = unbounded_friction(rows, laws, c, v)
        law = friction_law(t, R[1], laws.contact_bound[c], pyramidal)
    normal = (R[0] * centre[0] + left[0]) / (R[0] + softness)
    if normal > 0.0:
        law.impulse[0] = normal
        law.slope[0] = 1.0 / (R[0] + softness)
        law.branch += 1
    return law


@wp.func(inline=False)
def smooth_spin_law(
    rows: wp.ref[RowsView], c: int, left: wp.vec3, bound: wp.vec2, pyramidal: bool
) -> TripleLaw:
    """Law of a torsional row and two rolling rows of a softened contact."""
    law = TripleLaw()
    delassus = rows.spin.delassus[c]
    roll = spin_width(rows.contact.slip_width[c], rows.spin.rolling[c])
    if delassus[1] > 0.0 and roll > 0.0:
        law = smooth_friction_law(wp.vec2(left[1], left[2]), roll, bound[1], pyramidal)
    turn = spin_width(rows.contact.slip_width[c], rows.spin.torsion[c])
    if delassus[0] > 0.0 and turn > 0.0:
        law.impulse[0] = bound[0] * friction_per_slip(wp.abs(left[0]), turn) * left[0]
        law.slope[0] = bound[0] * friction_slope(wp.abs(left[0]), turn)
        law.branch += 1
    return law


@wp.func
def spin_law(rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, v: wp.vec3, pyramidal: bool) -> TripleLaw:
    """Law of a torsional row and two rolling rows."""
    delassus = rows.spin.delassus[c]
    centre = laws.centre.spin[c]
    bound = laws.spin_bound[c]
    left = rows.spin.target[c] - v
    law = TripleLaw()
    if rows.contact.slip_width[c] > 0.0:
        return smooth_spin_law(rows, c, left, bound, pyramidal)
    if delassus[1] > 0.0:
        R = SOFT_SPIN * delassus[1]
        t = wp.vec2(centre[1] + left[1] / R, centre[2] + left[2] / R)
        law = friction_law(t, R, bound[1], pyramidal)
    if delassus[0] > 0.0 and bound[0] > 0.0:
        S = SOFT_SPIN * delassus[0]
        torsion = centre[0] + left[0] / S
        law.impulse[0] = wp.clamp(torsion, -bound[0], bound[0])
        if law.impulse[0] == torsion:
            law.slope[0] = 1.0 / S
            law.branch += 1
    return law


@wp.func
def friction_by_bound(law: TripleLaw, bound: float, smooth: bool) -> wp.vec2:
    """Change of the impulses in entries 1 and 2 of a law with their bound."""
    change = wp.vec2(0.0, 0.0)
    if bound > 0.0:
        # that of an impulse which its own equation determines is zero
        if smooth or law.branch < 2 or law.branch & 2 == 0:
            change[0] = law.impulse[1] / bound
        if smooth or law.branch < 4:
            change[1] = law.impulse[2] / bound
    return change


@wp.func(inline=False)
def weighed_slope(t: wp.vec2, across: float, stretch: wp.vec2) -> wp.mat22:
    """Slope of weighted friction t that slides, whose bound follows its direction, see `weighed_bound`.

    `across` is the slope across its direction with a bound that does not.
    """
    size = wp.cw_mul(t, stretch)
    turned = across / wp.length_sq(size) * wp.cw_mul(size, stretch)
    return wp.mat22(across, 0.0, 0.0, across) - wp.outer(t, turned)


@wp.func
def coupled_slope(rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, law: TripleLaw) -> wp.mat33:
    """Slope of the law of a contact whose bound of friction follows its normal impulse."""
    G = slope_matrix(law.slope)
    change = friction_by_bound(law, laws.contact_bound[c], rows.contact.slip_width[c] > 0.0)
    t = wp.vec2(law.impulse[1], law.impulse[2])
    stretch = rows.contact.stretch[c]
    by_normal = rows.contact.friction[c] * law.slope[0]
    if stretch[0] != stretch[1]:
        by_normal = weighed_bound(t, by_normal, stretch)
    G[1, 0] = by_normal * change[0]
    G[2, 0] = by_normal * change[1]
    if stretch[0] != stretch[1] and law.branch < 2 and wp.length_sq(t) > 0.0:
        H = weighed_slope(t, law.slope[1] + law.slope[2], stretch)
        G[1, 1] = H[0, 0]
        G[1, 2] = H[0, 1]
        G[2, 1] = H[1, 0]
        G[2, 2] = H[1, 1]
    return G


@wp.func
def spin_by_contact(
    rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, law: TripleLaw, normal_slope: float
) -> wp.mat33:
    """Slope of torsional and rolling friction by the velocities of the contact: of its normal, column 0."""
    M = wp.mat33()
    bound = laws.spin_bound[c]
    smooth = rows.contact.slip_width[c] > 0.0
    change = friction_by_bound(law, bound[1], smooth)
    M[1, 0] = rows.spin.rolling[c] * normal_slope * change[0]
    M[2, 0] = rows.spin.rolling[c] * normal_slope * change[1]
    if bound[0] > 0.0 and (smooth or law.branch & 1 == 0):
        M[0, 0] = rows.spin.torsion[c] * normal_slope * law.impulse[0] / bound[0]
    return M


@wp.func
def has_spin(rows: wp.ref[RowsView], c: int) -> bool:
    """True if contact c has torsional or rolling friction; otherwise its spin rows are not built."""
    found = bool(False)
    if rows.spins == 1:
        delassus = rows.spin.delassus[c]
        found = delassus[0] > 0.0 or delassus[1] > 0.0
    return found


@wp.func
def dof_leaf(rows: wp.ref[RowsView], r: int) -> wp.vec2i:
    """Last dofs of a row on one dof."""
    return wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)


@wp.func(inline=False)
def soften(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    passing: float,
    laws: wp.ref[LawView],
) -> float:
    """Give all rows their initial regularisation.

    The regularisation allows a small velocity error under the current load: heavy bodies do not sink into
    light ones.

    Args:
        team: The team.
        rows: All rows.
        islands: Islands.
        k: The island.
        passing: That velocity [m/s].
        laws: Receives the regularisation.

    Returns:
        Largest velocity that an impulse gives the bodies of its contact [m/s].
    """
    load = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        laws.dof_R[r] = SOFT_ROW * rows.dof.delassus[r]
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        laws.pair_R[p] = SOFT_ROW * rows.pair.delassus[p]
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        weight = rows.contact.weight[c]
        normal = rows.contact.impulse[c][0]
        load = wp.max(load, weight[0] * normal)
        most = passing / wp.max(normal, SMALLEST_LOAD)
        laws.contact_R[c] = wp.vec2(
            wp.clamp(most, STIFF * weight[0], SOFT * weight[0]),
            wp.clamp(most, STIFF * weight[1], SOFT * weight[1]),
        )
        if rows.contact.soft[c] == CONTACT_SMOOTH:
            # its own softness is sufficient
            laws.contact_R[c] = wp.vec2(0.0, 0.0)
    return max_lanes(team, load)


@wp.func
def stiffen(R: float, least: float, passed: float, passing: float, factor: float) -> float:
    """New regularisation of a row with the velocity error `passed`, where `passing` is allowed."""
    stiffer = factor * R
    if passed > passing:
        stiffer = wp.min(stiffer, R * wp.max(LEAST_FACTOR, SPARE * passing / passed))
    return wp.min(R, wp.max(least, stiffer))


@wp.func
def is_wedged(rows: wp.ref[RowsView], c: int, push: float, lacks: float, impulse: float) -> bool:
    """True if contact c hardly yields to an impulse that should give it the velocity `push` [m/s]."""
    strained = rows.contact.weight[c][0] * impulse > STRAINED * push
    return rows.contact.soft[c] == 0 and push > SLOW_PUSH and lacks > WEDGED * push and strained


@wp.func
def is_stuck(rows: wp.ref[RowsView], c: int) -> bool:
    """True if contact c should push articulated bodies apart, and its impulse far exceeds what this takes."""
    speed = rows.contact.delassus[c][0] * rows.contact.impulse[c][0]
    strained = PUSHED_SOFTNESS * speed > WEDGED
    return rows.contact.soft[c] == CONTACT_RIGID and rows.contact.impact[c][1] > SLOW_PUSH and strained


@wp.func
def set_centres(
    team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int, laws: wp.ref[LawView]
):
    """Set the centres to the current impulses of an island."""
    copy_impulses(team, islands, k, rows.spins, rows.impulse, laws.centre)


@wp.func
def return_to_centres(
    team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int, laws: wp.ref[LawView]
):
    """Set the impulses of an island to the centres."""
    copy_impulses(team, islands, k, rows.spins, laws.centre, rows.impulse)


@wp.struct
class Shift:
    """Velocity errors due to the regularisation [m/s or rad/s]."""

    most: float
    excess: float  # beyond what is allowed
    stiffened: int  # rows whose regularisation shrank
    sinking: int  # contacts among them whose error is so large that the rounds have to continue


@wp.func(inline=False)
def move_centres(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    at_start: float,
    passing: float,
    factor: float,
    allowed: float,
    laws: wp.ref[LawView],
) -> Shift:
    """Move the centres to the current impulses; returns errors of the regularisation around the last ones.

    The regularisation of rows falls by `factor`, and further where the error exceeds `passing` [m/s or
    rad/s], so that heavy bodies do not sink into light ones. The error that is `allowed`, in the usual
    measure, is a share of the velocity of a row; it is larger where contacts of the island are fast and the
    first sweep changed much, by `at_start` [m/s or rad/s].
    """
    shift = Shift()
    # motors have no limit of speed
    may = wp.max(passing, ROW_PASSING * at_start)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        before = laws.dof_R[r]
        missed = before * wp.abs(rows.dof.impulse[r] - laws.centre.dof[r])
        shift.most = wp.max(shift.most, missed)
        laws.centre.dof[r] = rows.dof.impulse[r]
        laws.dof_R[r] = stiffen(before, STIFF_ROW * rows.dof.delassus[r], missed, may, 1.0)
        shift.stiffened += int(laws.dof_R[r] < before)
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        old = laws.pair_R[p]
        lacking = old * wp.abs(rows.pair.impulse[p] - laws.centre.pair[p])
        shift.most = wp.max(shift.most, lacking)
        laws.centre.pair[p] = rows.pair.impulse[p]
        laws.pair_R[p] = stiffen(old, STIFF_ROW * rows.pair.delassus[p], lacking, may, 1.0)
        shift.stiffened += int(laws.pair_R[p] < old)
    others = max_lanes(team, shift.most) - allowed * ALLOWED_ROW * at_start
    fastest = float(0.0)
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        R = laws.contact_R[c]
        change = rows.contact.impulse[c] - laws.centre.contact[c]
        passed = wp.max(R[0] * wp.abs(change[0]), R[1] * wp.max(wp.abs(change[1]), wp.abs(change[2])))
        shift.most = wp.max(shift.most, passed)
        speed = wp.max(wp.abs(laws.contact_v[c]))
        shift.excess = wp.max(shift.excess, passed - allowed * ALLOWED * speed)
        fastest = wp.max(fastest, speed)
        laws.centre.contact[c] = rows.contact.impulse[c]
        if rows.spins == 1:
            laws.centre.spin[c] = rows.spin.impulse[c]
        weight = STIFF * rows.contact.weight[c]
        stiffer = wp.vec2(
            stiffen(R[0], weight[0], passed, passing, factor),
            stiffen(R[1], weight[1], passed, passing, factor),
        )
        laws.contact_R[c] = stiffer
        shift.stiffened += int(stiffer[0] < R[0] or stiffer[1] < R[1])
        shift.sinking += int(passed > SINKING * passing and (stiffer[0] < R[0] or stiffer[1] < R[1]))
    shift.most = max_lanes(team, shift.most)
    shift.excess = max_lanes(team, shift.excess)
    shift.stiffened = int(sum_lanes(team, float(shift.stiffened)))
    shift.sinking = int(sum_lanes(team, float(shift.sinking)))
    fastest = max_lanes(team, fastest)
    moving = ALLOWED_SHARE * wp.max(0.0, wp.min(at_start, fastest) - UNREST)
    shift.excess -= allowed * wp.max(moving, ALLOWED_CHANGE * at_start)
    shift.excess = wp.max(shift.excess, others)
    return shift


@wp.func(inline=False)
def set_bounds(
    team: Team, rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int, laws: wp.ref[LawView]
):
    """Set the bounds of friction to those of the normal impulses."""
    touches = islands.contacts[k]
    for i in range(touches[0] + team.lane, touches[1], lanes(team)):
        c = islands.contact[i]
        normal = rows.contact.impulse[c][0]
        p = rows.contact.impulse[c]
        bound = rows.contact.friction[c] * normal
        stretch = rows.contact.stretch[c]
        if stretch[0] != stretch[1]:
            bound = weighed_bound(wp.vec2(p[1], p[2]), bound, stretch)
        laws.contact_bound[c] = bound
        if rows.spins == 1:
            laws.spin_bound[c] = normal * wp.vec2(rows.spin.torsion[c], rows.spin.rolling[c])
