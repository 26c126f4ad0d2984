"""Solve of all constraint rows of a world, island by island: sweeps, then Newton's method.

An island starts from the impulses of the last step, unless these would add energy to it. A few sweeps of
projected Gauss-Seidel solve most islands. For the others, Newton's method solves the rows with regularised
laws, centred at the impulses that the sweeps found (`laws`, `newton`). Each round moves the centre of the
laws to the last solution: near rest, a few rounds with one factorization yield rigid contact up to rounding;
in motion, the first round is enough.

Stage: constraints, solve
Called by: solvers/featherstone/constraints.py, kernels/constraints/solve/sweep_stage.py
Reads: ContactView, SolveOptions, SolveReport, Teams, TreeView, WorldDofsView
Writes: SolveViews, world_state
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, Teams, lanes, max_lanes, own_team, sync
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.dof_rows import NOTHING_ACTED, PUSHED, TIMED
from newtonsim.kernels.constraints.impacts import (
    any_rebound,
    propagate_impacts,
    weaken_rebounds,
    work_of_rebounds,
)
from newtonsim.kernels.constraints.islands import IslandView, copy_island, find_islands
from newtonsim.kernels.constraints.laws import (
    UNREST,
    move_centres,
    return_to_centres,
    set_bounds,
    set_centres,
    soften,
)
from newtonsim.kernels.constraints.rows import RowsView, WorldDofsView
from newtonsim.kernels.constraints.solve.apart import (
    acts,
    choose_starts,
    keep_impulses,
    move_singles,
    solve_apart,
    sweep_apart,
)
from newtonsim.kernels.constraints.solve.coupled import number_unknowns
from newtonsim.kernels.constraints.solve.leaps import (
    find_leap,
    largest_response,
    passed_by_pairs,
    shift_centres,
    take_leap,
)
from newtonsim.kernels.constraints.solve.load_sharing import even_out
from newtonsim.kernels.constraints.solve.matrix import lay_out_rows
from newtonsim.kernels.constraints.solve.newton import find_reach, minimize
from newtonsim.kernels.constraints.solve.pushes import limit_pushes, share_of_pushes, soften_pairs
from newtonsim.kernels.constraints.solve.sweeps import (
    apply_impulses,
    drop_impulses,
    island_energy,
    start_anew,
    sweep_island,
    work_of,
)
from newtonsim.kernels.constraints.solve.velocities import fastest_row
from newtonsim.kernels.constraints.solve.views import SolveReport, SolveViews
from newtonsim.kernels.constraints.solve.wedges import count_wedged, find_wedged, note_sagging
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# state of a world whose rows are still to be solved, where those of others are solved already
UNSOLVED = wp.constant(-1)

# sweeps after which Newton's method takes over if they converge too slowly
FEWEST = wp.constant(10)
# initial sweeps in which contacts are softened about their starting impulses, by this share of their weight:
# a new load spreads over all contacts that can bear it, instead of going to the first one
SOFT_SWEEPS = wp.constant(4)
SOFT_SHARE = wp.constant(0.5)
# change of a velocity in the first sweep below which loads are not spread [m/s or rad/s]
SMALL_CHANGE = wp.constant(5.0e-5)
# residual of Newton's method: the largest, over that of the last sweep, and the smallest [m/s or rad/s]
TOLERANCE = wp.constant(5.0e-5)
RELATIVE = wp.constant(1.0e-3)
FINEST = wp.constant(2.0e-6)
# velocity error [m/s] that the regularisation of a contact allows under its load, and this error as a share
# of what the first sweep changes: none where a load is as in the last step, much in an impact
PASSING = wp.constant(3.0e-4)
PASSING_SHARE = wp.constant(0.2)
MOST_PASSING = wp.constant(0.2)
# residual [m/s or rad/s] above which a step counts as unsolved, unless single precision is the limit
PROMISED = wp.constant(1.0e-4)
# residual above which a round is undone, and single precision is no excuse
FAILED = wp.constant(1.0e-3)
# error of the regularisation of rows other than contacts [m/s or rad/s] above which an island counts as
# unsolved: no impact excuses it
LOOSE = wp.constant(0.02)
# that of rows between bodies above which rounds leap beside contacts
PASSED_MUCH = wp.constant(0.01)
# rounding error of a round, over what a load sags without it, up to which the round is kept
WORTH = wp.constant(0.1)
# relative rounding error of sums of impulses
ROUNDING = wp.constant(1.0e-7)
# velocity error [m/s or rad/s] of the regularisation beyond what is allowed at which the rounds of Newton's
# method end; most rounds; those after which they leap if rows between bodies still pass much; and the factor
# by which a round should at least reduce the error
SETTLED = wp.constant(2.0e-5)
ROUNDS = wp.constant(20)
ROUNDS_BEFORE_LEAPS = wp.constant(5)
PROGRESS = wp.constant(0.7)
# tolerance of sweeps [m/s or rad/s] for which these are meant, and their least share that is required
USUAL_TOLERANCE = wp.constant(1.0e-5)
LEAST_FINE = wp.constant(0.05)
# share of the regularisation that remains for the next round of a cheap island
STIFFER = wp.constant(0.1)
# cost of a matrix, in the units of `SolveOptions.cost`, below which an island has many rounds, also where
# loose bodies move; Newton steps in one round, for such islands and for others, above which an island counts
# as moving and the round is the last; most factorizations in a later round, in total, and in total where
# rounds leap; the first two numbers at rest, where an island is cheap or a load sags by more than an error of
# the round [m/s or rad/s]; and those that have to be left for a new round
CHEAP = wp.constant(1.0e5)
CHEAP_IN_MOTION = wp.constant(5.0e3)
CALM_IF_CHEAP = wp.constant(14)
CALM = wp.constant(4)
SHORT = wp.constant(8)
TOO_MANY = wp.constant(14)
TOO_MANY_LEAPING = wp.constant(22)
SHORT_AT_REST = wp.constant(24)
TOO_MANY_AT_REST = wp.constant(48)
SAGGING = wp.constant(5.0e-3)
LEFT = wp.constant(2)
# energy that rebounds may add to an island, as a share: rounding
SPARE = wp.constant(1.0e-2)

# an island without contacts, or one in which rows between bodies bear more than a round achieves: rounds are
# followed by leaps; and an island whose last round was
LEAPS = wp.constant(3)
LEAPT = wp.constant(4)
# layout of a matrix by `sweep_rows`
LAID_OUT_BEFORE = wp.constant(2)
# what an island is solved for: velocities that move the positions, without impacts or with them, those at the
# end of a step with impacts, and the latter for the first time
POSITIONS = wp.constant(0)
POSITIONS_IN_IMPACT = wp.constant(1)
VELOCITIES = wp.constant(2)
NEW_VELOCITIES = wp.constant(3)


@wp.struct
class SolveOptions:
    """Options of the solve."""

    sweeps: int  # most sweeps if Newton's method would cost too much
    factorizations: int  # most factorizations of an island
    cost: float  # largest Σ dofs · length² of its panels
    tolerance: float  # largest change of a velocity in the last sweep [m/s or rad/s]
    pyramidal: int  # 1: friction is bounded by pyramids
    keep: int  # 1: the impulses that remove penetrations are requested as well


@wp.func
def recall(reports: wp.array(dtype=SolveReport), k: int, report: wp.ref[SolveReport]) -> bool:
    """Set a report to the stored one on an island; True if the island is not solved."""
    report = reports[k]
    return report.hopeless > 0


@wp.func(inline=False)
def add_report(team: Team, report: wp.ref[SolveReport], views: wp.ref[SolveViews]):
    """Take the report on an island into that on its world, which tells the worst of all."""
    if team.lane == 0:
        w = team.index
        total = views.totals[w]
        total.sweeps = wp.max(total.sweeps, report.sweeps)
        total.factorizations = wp.max(total.factorizations, report.factorizations)
        total.residual = wp.max(total.residual, report.residual)
        total.passed = wp.max(total.passed, report.passed)
        total.unsolved = wp.max(total.unsolved, report.unsolved)
        views.totals[w] = total


@wp.func
def count_passed(report: wp.ref[SolveReport]):
    """Count what the regularisation lets rows but contacts pass where rounds leap: no impact excuses it."""
    if report.passed > LOOSE and report.thorough >= LEAPS:
        report.residual = wp.max(report.residual, report.passed)
        report.unsolved = 1


@wp.func
def sags(report: wp.ref[SolveReport]) -> bool:
    """True if an island at rest yields to its load."""
    return report.resting == 1 and report.passed > SAGGING


@wp.func
def most_for(report: wp.ref[SolveReport]) -> wp.vec2i:
    """Most factorizations in a later round, and in all rounds; the first may make more.

    At rest, what contacts yield under a load adds up from step to step. Once they bear it, the next steps
    start from these impulses. Where rounds are dear, these steps do what little is left.
    """
    most = wp.vec2i(SHORT, TOO_MANY)
    if sags(report) or (report.resting == 1 and report.thorough > 0 and report.thorough < LEAPS):
        most = wp.vec2i(SHORT_AT_REST, TOO_MANY_AT_REST)
    elif report.thorough >= LEAPS:
        most[1] = TOO_MANY_LEAPING
    return most


@wp.func(inline=False)
def solve_by_newton(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    s: wp.ref[SolveOptions],
    passing: float,
    tolerance: float,
    report: wp.ref[SolveReport],
):
    """Rounds of Newton's method from the current impulses; the matrix is laid out.

    `passing` is the velocity error that the regularisation allows under load [m/s], `tolerance` that of the
    method [m/s or rad/s]. A round that stops short of the solution is undone; if it is the first, the island
    is swept once.
    """
    pyramidal = s.pyramidal == 1
    factorized = bool(False)
    copy_island(team, views.islands, k, views.newton.z, views.newton.centre)
    set_bounds(team, views.rows, views.islands, k, views.laws)
    calm = int(CALM)
    factor = float(1.0)
    if report.thorough > 0:
        calm = int(CALM_IF_CHEAP)
        factor = float(STIFFER)
    # a finer tolerance of sweeps also means a smaller error of the regularisation
    fine = wp.clamp(s.tolerance / USUAL_TOLERANCE, LEAST_FINE, 1.0)
    allowed = factor * fine
    rounds = int(0)
    while rounds < ROUNDS:
        used = report.factorizations
        most = s.factorizations
        if rounds > 0:
            limits = most_for(report)
            most = wp.min(most, wp.min(used + limits[0], limits[1]))
        leaps = report.thorough >= LEAPS
        found = minimize(team, tree, views, k, depth, pyramidal, tolerance, most - used, factorized, leaps)
        good = found.residual <= PROMISED
        if rounds == 0 or leaps:
            good = found.residual <= wp.max(FAILED, tolerance) or found.rounded == 1
            good = good or found.residual <= ROUNDING * largest_response(team, views, k)
        elif found.rounded == 1:
            good = good or found.residual <= 2.0 * report.residual
            good = good or (sags(report) and found.residual <= WORTH * report.passed)
        if not good:
            if report.thorough == LEAPT:
                shift_centres(team, views, k, views.rows.spins, -1.0)
            return_to_centres(team, views.rows, views.islands, k, views.laws)
            copy_island(team, views.islands, k, views.newton.centre, views.newton.z)
            report.factorizations = used + found.factorizations
            report.factorized = 0
            if rounds == 0:
                # the change in a sweep shows how far the impulses are from the targets
                report.residual = sweep_island(team, tree, views, k, depth, pyramidal, 0.0, views.newton.z)
                report.unsolved = 1
            count_passed(report)
            return
        factorized = factorized or found.factorizations > 0
        report.factorizations = used + found.factorizations
        report.residual = found.residual
        report.unsolved = int(found.residual > PROMISED and (found.rounded == 0 or found.residual > FAILED))
        set_bounds(team, views.rows, views.islands, k, views.laws)
        before = report.passed
        length = float(0.0)
        if leaps:
            length = find_leap(team, views, k, report.thorough == LEAPS)
        held = passed_by_pairs(team, views, k)
        shift = move_centres(
            team, views.rows, views.islands, k, report.at_start, passing, factor, allowed, views.laws
        )
        report.passed = shift.most
        if leaps and views.islands.contacts[k][0] < views.islands.contacts[k][1]:
            # an impact excuses what contacts pass
            report.passed = held
        copy_island(team, views.islands, k, views.newton.z, views.newton.centre)
        rounds += 1
        settled = shift.excess <= wp.max(fine * SETTLED, wp.min(tolerance, SETTLED))
        restless = report.factorizations >= most_for(report)[1] - LEFT or found.steps > calm
        if report.thorough == 0:
            restless = restless or (rounds > 1 and shift.most > PROGRESS * before)
        sinks = (shift.sinking > 0 or sags(report)) and report.factorizations < most_for(report)[1]
        if (restless or rounds >= ROUNDS_BEFORE_LEAPS) and not leaps and held > PASSED_MUCH:
            report.thorough = LEAPS
            sinks = True
        if settled or (restless and not sinks):
            rounds = ROUNDS
        elif shift.stiffened > 0:
            factorized = False
        if rounds < ROUNDS and leaps:
            if report.thorough == LEAPT and report.passed > before:
                # rows have met or left bounds: directions begin anew
                report.thorough = LEAPS
            else:
                report.thorough = LEAPS + int(take_leap(team, views, k, length))
    report.factorized = int(factorized)
    count_passed(report)


@wp.func
def is_articulated(tree: wp.ref[TreeView], islands: wp.ref[IslandView], k: int) -> bool:
    """True if a tree of an island has more than one joint."""
    found = bool(False)
    trees = islands.trees[k]
    for e in range(trees[0], trees[1]):
        t = islands.tree[e]
        found = found or tree.joint_start[t + 1] - tree.joint_start[t] > 1
    return found


@wp.func(inline=False)
def solve_by_sweeps(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    contacts: wp.ref[ContactView],
    k: int,
    depth: int,
    s: wp.ref[SolveOptions],
    warm: bool,
    report: wp.ref[SolveReport],
):
    """Sweep the rows of an island from the current impulses, until they are solved or converge too slowly.

    The report is a new one.
    """
    pyramidal = s.pyramidal == 1
    report = SolveReport()
    set_centres(team, views.rows, views.islands, k, views.laws)
    change = float(s.tolerance + 1.0)
    before = float(change)
    sweeps = int(0)
    hopeless = bool(False)
    anew = bool(False)
    shared = bool(False)
    while sweeps < s.sweeps and change > s.tolerance and not hopeless:
        earlier = before
        before = change
        share = float(0.0)
        if sweeps == 0 or (sweeps < SOFT_SWEEPS and report.at_start > SMALL_CHANGE):
            share = float(SOFT_SHARE)
        change = sweep_island(team, tree, views, k, depth, pyramidal, share, views.newton.z)
        sweeps += 1
        if sweeps == 1 or anew:
            report.at_start = change
            anew = sweeps == 1 and warm and start_anew(team, views, k)
            if anew:
                change = float(s.tolerance + 1.0)
        uneven = sweeps == SOFT_SWEEPS and report.at_start > SMALL_CHANGE
        solved = change <= s.tolerance and not shared
        if solved:
            # a solved island may still share its load unevenly
            shared = True
            uneven = uneven or is_articulated(tree, views.islands, k)
        uneven = uneven and sweeps < s.sweeps
        if uneven and even_out(team, tree, views, contacts, k, depth, solved):
            # it has to be swept again, and this change does not show how sweeps converge
            change = float(s.tolerance + 1.0)
        elif sweeps >= FEWEST and s.cost > 0.0 and report.laid_out == 0:
            rate = wp.sqrt(change / earlier)
            hopeless = change * wp.pow(rate, float(s.sweeps - sweeps)) > s.tolerance
            if hopeless:
                cost = lay_out_rows(team, tree, views.rows, views.islands, k, team.index, views.sys)
                report.laid_out = 1
                report.thorough = int(cost <= CHEAP) + int(cost <= CHEAP_IN_MOTION)
                if views.islands.contacts[k][0] == views.islands.contacts[k][1]:
                    # whose rounds are linear and need no new factorization
                    report.thorough = LEAPS
                if cost <= 0.0 or cost > s.cost:
                    report.laid_out = -1
                    hopeless = False
    report.sweeps = sweeps
    report.hopeless = int(hopeless)
    report.residual = change
    report.unsolved = int(change > PROMISED and s.cost > 0.0)


@wp.func(inline=False)
def go_on_by_newton(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    s: wp.ref[SolveOptions],
    report: wp.ref[SolveReport],
):
    """Solve the rows of an island for which sweeps, the report on which it goes on, converge too slowly."""
    report.unsolved = 0
    if report.laid_out == LAID_OUT_BEFORE:
        # its world has room for one layout, which may now be that of another island
        lay_out_rows(team, tree, views.rows, views.islands, k, team.index, views.sys)
    set_centres(team, views.rows, views.islands, k, views.laws)
    copy_island(team, views.islands, k, views.newton.z, views.newton.y)
    find_reach(team, tree, views, k)
    report.resting = int(fastest_row(team, tree, views, k, depth, views.newton.z) <= UNREST)
    if report.thorough == 1 and not is_articulated(tree, views.islands, k):
        report.thorough = report.resting
    number_unknowns(team, views, k, is_articulated(tree, views.islands, k))
    passing = wp.clamp(PASSING_SHARE * report.at_start, PASSING, MOST_PASSING)
    if report.resting == 1:
        # what changed was a load, not an impact
        passing = wp.min(passing, SAGGING)
    load = soften(team, views.rows, views.islands, k, passing, views.laws)
    tolerance = wp.max(wp.clamp(RELATIVE * report.residual, FINEST, TOLERANCE), ROUNDING * load)
    solve_by_newton(team, tree, views, k, depth, s, passing, tolerance, report)


@wp.func
def has_rows(islands: wp.ref[IslandView], k: int) -> bool:
    """True if an island has rows."""
    dofs = islands.dofs[k]
    pairs = islands.pairs[k]
    touches = islands.contacts[k]
    return dofs[1] > dofs[0] or pairs[1] > pairs[0] or touches[1] > touches[0]


@wp.func
def note_energy(team: Team, views: wp.ref[SolveViews], k: int):
    """Note the kinetic energy of an island without impulses."""
    energy = island_energy(team, views, k, views.z_moving)
    if team.lane == 0:
        views.islands.energy[k] = energy


@wp.func(inline=False)
def any_timed(team: Team, rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int) -> bool:
    """True if positions of the world move through an impact at another rate than their velocity."""
    found = float(0.0)
    c0 = contacts.world_start[w]
    for c in range(c0 + team.lane, c0 + contacts.world_count[w], lanes(team)):
        if rows.contact.first_impact[c][0] > 0.0:
            found = 1.0
    return max_lanes(team, found) > 0.0


@wp.func(inline=False)
def shift_timed(team: Team, rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int, sign: float):
    """Set targets of contacts to the velocity that moves the positions (sign 1), or to that at the end (-1).

    The positions follow impacts within the step, and leave penetrations.
    """
    c0 = contacts.world_start[w]
    for c in range(c0 + team.lane, c0 + contacts.world_count[w], lanes(team)):
        shift = wp.vec3(0.0, 0.0, 0.0)
        if rows.contact.impact[c][1] == rows.contact.impact[c][2]:
            shift[0] = rows.contact.push[c]
        if rows.contact.first_impact[c][0] > 0.0:
            slip = rows.contact.slip_before_impact[c]
            shift = wp.vec3(rows.contact.moving[c][0] - rows.contact.impact[c][2], slip[0], slip[1])
        rows.contact.target[c] = rows.contact.target[c] + sign * shift


@wp.func(inline=False)
def begin_world(
    team: Team,
    tree: wp.ref[TreeView],
    dofs: wp.ref[WorldDofsView],
    views: wp.ref[SolveViews],
    contacts: wp.ref[ContactView],
    depth: int,
    dt: float,
    restitution_speed: float,
) -> bool:
    """Propagate impacts through a world and find its islands; returns True if one changes in the step."""
    w = team.index
    if any_rebound(team, views.rows.contact, contacts, w):
        propagate_impacts(
            team,
            tree,
            dofs,
            views.rows.contact,
            contacts,
            w,
            depth,
            restitution_speed,
            dt,
            views.moving,
            views.newton.z,
        )
    if team.lane == 0:
        find_islands(tree, views.rows, contacts, w, views.islands)
    sync(team)
    for k in range(views.islands.tree_start[w], views.islands.tree_start[w] + views.islands.count[w]):
        soften_pairs(team, views, k, 1.0, 1.0)
    has_impact = any_timed(team, views.rows, contacts, w)
    if has_impact:
        shift_timed(team, views.rows, contacts, w, 1.0)
    return has_impact


@wp.func(inline=False)
def begin_island(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    contacts: wp.ref[ContactView],
    k: int,
    depth: int,
    s: wp.ref[SolveOptions],
    report: wp.ref[SolveReport],
):
    """Sweep an island from the impulses of the last step, if it has rows; the report is a new one."""
    report = SolveReport()
    # without impulses; it also moves the positions where no row acts
    copy_island(team, views.islands, k, views.newton.z, views.z_moving)
    if has_rows(views.islands, k):
        apply_impulses(team, tree, views, k, depth, 1.0)
        solve_by_sweeps(team, tree, views, contacts, k, depth, s, True, report)
    else:
        copy_island(team, views.islands, k, views.newton.z, views.moving.z)


@wp.func(inline=False)
def gains_energy(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    timed: bool,
) -> bool:
    """True if the rebounds of a solved island of linkages have added energy, beside other targets."""
    if not is_articulated(tree, views.islands, k):
        # impacts that are propagated through loose bodies would be taken for gains
        return False
    work = work_of(team, views, k) - work_of_rebounds(team, views.rows.contact, views.islands, k, timed)
    allowed = (1.0 + SPARE) * views.islands.energy[k] + wp.max(0.0, work)
    return island_energy(team, views, k, views.newton.z) > allowed


@wp.func(inline=False)
def limit_rebounds(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    timed: bool,
) -> bool:
    """Weaken the rebounds of a solved island if they add energy; True if it has to be solved again.

    Its impulses are withdrawn then. `SolveViews.z_moving` is still z without impulses, for the positions.
    """
    if timed:
        note_energy(team, views, k)
    again = gains_energy(team, tree, views, k, timed)
    if again:
        again = weaken_rebounds(team, views.rows.contact, views.islands, k, timed)
    if again:
        apply_impulses(team, tree, views, k, depth, -1.0)
        sync(team)
        drop_impulses(team, views, k)
        sync(team)
    return again


@wp.func(inline=False)
def sweep_again(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    contacts: wp.ref[ContactView],
    k: int,
    depth: int,
    s: wp.ref[SolveOptions],
    goal: int,
    report: wp.ref[SolveReport],
) -> bool:
    """Weaken rebounds or pushes of a solved island if they add energy, and sweep it once more.

    Returns False, and leaves the report, if there was nothing to weaken. What the island is solved for,
    `goal`, is one of POSITIONS, POSITIONS_IN_IMPACT, VELOCITIES and NEW_VELOCITIES, for which it is swept at
    any rate.
    """
    again = goal == NEW_VELOCITIES
    if goal == POSITIONS_IN_IMPACT or goal == VELOCITIES:
        timed = goal == POSITIONS_IN_IMPACT
        again = limit_rebounds(team, tree, views, k, depth, timed)
    if not again and goal <= POSITIONS_IN_IMPACT:
        share = share_of_pushes(team, views, k)
        again = share < 1.0
        if again:
            limit_pushes(team, tree, views, k, depth, share)
    if again:
        solve_by_sweeps(team, tree, views, contacts, k, depth, s, False, report)
    return again


@wp.func(inline=False)
def end_island(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    s: wp.ref[SolveOptions],
    has_impact: bool,
    factorized: bool,
) -> int:
    """Find how the positions of a solved island move, and where its next step starts; returns its state."""
    pyramidal = s.pyramidal == 1
    keep = s.keep == 1
    own = acts(team, tree, views, k, depth)
    swept = bool(False)
    if own == PUSHED and not has_impact:
        if factorized:
            solve_apart(team, tree, views, k, depth, pyramidal, keep)
        else:
            sweep_apart(team, tree, views, k, depth, pyramidal, s.tolerance)
            swept = True
        move_singles(team, tree, views, k)
    else:
        copy_island(team, views.islands, k, views.newton.z, views.z_moving)
        if has_impact or keep:
            keep_impulses(team, views, k, views.newton.z)
    choose_starts(team, tree, views, k, depth, swept)
    find_wedged(team, views, k)
    return own


@wp.func
def state_at_start(has_impact: bool) -> int:
    """State of a world in which no row has acted yet."""
    state = int(NOTHING_ACTED)
    if has_impact:
        state = TIMED
    return state


@wp.func(inline=False)
def write_report(w: int, views: wp.ref[SolveViews]):
    """Write the report on the solve of a world."""
    total = views.totals[w]
    views.iterations[w] = total.sweeps
    views.factorizations[w] = total.factorizations
    views.residual[w] = total.residual
    views.passed[w] = total.passed
    count_wedged(w, views.unsolved)
    if total.unsolved == 1:
        views.unsolved.steps[w] = views.unsolved.steps[w] + 1
        views.unsolved.worst[w] = wp.max(views.unsolved.worst[w], total.residual)
        views.unsolved.any[0] = 1


@wp.kernel
def solve_rows(
    teams: Teams,
    tree: wp.array(dtype=TreeView),
    dofs: wp.array(dtype=WorldDofsView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    dt: float,
    restitution_speed: float,
    s: SolveOptions,
    resumed: int,
    begun: int,
    reports: wp.array(dtype=SolveReport),
    views: wp.array(dtype=SolveViews),
    world_state: wp.array(dtype=int),
):
    """One team per world: impulses of all its rows, z after them, and the z that moves the positions.

    The two z differ where penetration is removed: impulses that push single bodies apart move them, but add
    no velocity (as in Catto, "Solver2D", 2024, and the split impulses of Bullet); otherwise penetrations
    would turn into energy. Soft contacts do add velocity, since it is due to the force of their springs. So
    do articulated bodies, whose momentum depends on the pose and would change if coordinates moved at another
    rate than their velocities. The two also differ where a body rebounds within the step: the positions of
    the world then move with the mean of the velocities before and after the impact, see `rebounds`. In that
    case the first solution, which `moving` keeps, is that for the positions.

    If `begun` is 1, `sweep_rows` has swept all islands and solved those for which sweeps were enough, and
    this kernel solves the others. `reports` by island and `SolveViews.totals` by world hold its results.
    If `resumed` is 1, `adjoint.outcome.resume_rows` has solved all worlds but those that are UNSOLVED.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    if resumed == 1:
        if world_state[w] != UNSOLVED:
            return
    has_impact = bool(False)
    if begun == 1:
        if views[0].totals[w].hopeless == 0:
            return
        has_impact = any_timed(team, views[0].rows, contacts[0], w)
    else:
        if team.lane == 0:
            views[0].totals[w] = SolveReport()
        has_impact = begin_world(team, tree[0], dofs[0], views[0], contacts[0], depth, dt, restitution_speed)
    begin = views[0].islands.tree_start[w]
    end = begin + views[0].islands.count[w]
    state = state_at_start(has_impact)
    if begun == 1:
        state = wp.max(state, world_state[w])
    # one for all islands: each variable would have its own memory on a GPU's stack
    report = SolveReport()
    for k in range(begin, end):
        todo = has_rows(views[0].islands, k)
        if begun == 1:
            todo = recall(reports, k, report)
        else:
            begin_island(team, tree[0], views[0], contacts[0], k, depth, s, report)
        again = todo
        # the loop at the end of the kernel is alike: a function for both would take more stack on a GPU
        while again:
            if report.hopeless == 1:
                go_on_by_newton(team, tree[0], views[0], k, depth, s, report)
            goal = int(has_impact)
            again = sweep_again(team, tree[0], views[0], contacts[0], k, depth, s, goal, report)
        if todo:
            factorized = report.factorized == 1
            own = end_island(team, tree[0], views[0], k, depth, s, has_impact, factorized)
            state = wp.max(state, own)
            if own == PUSHED and not has_impact and factorized:
                report.factorizations += 1
            if sags(report):
                note_sagging(team, views[0], k)
            add_report(team, report, views[0])
    if has_impact:
        shift_timed(team, views[0].rows, contacts[0], w, -1.0)
        for k in range(begin, end):
            if has_rows(views[0].islands, k):
                goal = int(NEW_VELOCITIES)
                while goal >= VELOCITIES:
                    again = sweep_again(team, tree[0], views[0], contacts[0], k, depth, s, goal, report)
                    goal = int(POSITIONS)
                    if again:
                        goal = int(VELOCITIES)
                        if report.hopeless == 1:
                            go_on_by_newton(team, tree[0], views[0], k, depth, s, report)
                add_report(team, report, views[0])
    if team.lane == 0:
        world_state[w] = state
        write_report(w, views[0])
