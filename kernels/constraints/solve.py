"""Solve of all constraint rows of a world, island by island: sweeps, then Newton's method.

An island starts from the impulses of the last step, unless these would add energy to it. A few sweeps of
projected Gauss-Seidel solve most islands. Where they do not, Newton's method solves the rows with laws around
the impulses that they found (`laws`, `newton`), in rounds that move the centre of the laws to the last
solution: near rest a few rounds with one factor leave what is rigid contact but for rounding; in motion the
first one is enough.

Stage: constraints, solve
Called by: solvers/featherstone/constraints.py
Reads: BlockSystemView, ContactView, IslandView, RowsView, SolveOptions, TreeView, WorldDofsView
Writes: BlockSystemView, ImpulseView, IslandView, LawView, NewtonView, RowsView, UnsolvedView,
    factorizations, iterations, passed, residual, start_share, world_state, z, z_moving
"""

import warp as wp

from newtonsim.kernels.algebra.block_cholesky import BlockSystemView
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.chains import is_single, push_row, push_triple, triple_velocity
from newtonsim.kernels.constraints.dof_rows import ACTED, NOTHING_ACTED, PUSHED, TIMED
from newtonsim.kernels.constraints.gauss_seidel import (
    push_dof,
    relax_contact,
    relax_dof,
    relax_pair,
    relax_spin,
)
from newtonsim.kernels.constraints.impacts import any_rebound, propagate_impacts
from newtonsim.kernels.constraints.islands import IslandView, find_islands
from newtonsim.kernels.constraints.laws import (
    LawView,
    has_spin,
    is_wedged,
    move_centres,
    return_to_centres,
    set_bounds,
    set_regularisation,
)
from newtonsim.kernels.constraints.newton import NewtonView, copy_island, lay_out_rows, minimize
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView, WorldDofsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# sweeps before Newton's method
SWEEPS = wp.constant(10)
# residual of Newton's method [m/s or rad/s]: the largest, over that of the last sweep, and the smallest
TOLERANCE = wp.constant(5.0e-5)
RELATIVE = wp.constant(1.0e-3)
FINEST = wp.constant(2.0e-6)
# speed [m/s] that the regularisation of a contact lets pass under its load, and that share of what the first
# sweep changes: that is nothing where a load is borne as in the last step, and much in an impact
PASSING = wp.constant(3.0e-4)
PASSING_SHARE = wp.constant(0.1)
# residual [m/s or rad/s] above which a step counts as unsolved, unless single precision allows no better
PROMISED = wp.constant(1.0e-4)
# residual above which a round is undone
FAILED = wp.constant(1.0e-3)
# relative rounding of the velocities that impulses add up to
ROUNDING = wp.constant(1.0e-7)
# velocity [m/s or rad/s] that the regularisation may let pass beyond what is allowed when the rounds of
# Newton's method end, and most of them
SETTLED = wp.constant(2.0e-5)
ROUNDS = wp.constant(20)
# factorizations in one round, and in all, beyond which something moves and the rounds end, too; and in all
# where more passes than should under load
CALM = wp.constant(2)
ENOUGH = wp.constant(10)
TOO_MANY = wp.constant(20)
# share of the impulse of a wedged contact that the next step starts from
EASED = wp.constant(0.5)


@wp.struct
class SolveOptions:
    """What a user can choose about the solve."""

    sweeps: int  # most sweeps where Newton's method would cost too much
    factorizations: int  # most factorizations of an island
    cost: float  # largest Σ dofs · length² of its panels
    tolerance: float  # largest change of a velocity in the last sweep [m/s or rad/s]
    pyramidal: int  # 1: friction is bounded by pyramids


@wp.struct
class UnsolvedView:
    """Steps that ended with a residual above what is promised."""

    steps: wp.array(dtype=int)  # (W) their number
    worst: wp.array(dtype=float)  # (W) largest residual of them [m/s or rad/s]
    any: wp.array(dtype=int)  # (1) 1 once there was one; threads write nothing else there


@wp.struct
class SolveReport:
    """How the solve of an island went."""

    sweeps: int
    factorizations: int
    residual: float  # [m/s or rad/s]
    passed: float  # by how much the regularisation lets rows miss their targets [m/s or rad/s]
    tolerance: float  # of Newton's method [m/s or rad/s]
    at_start: float  # change of a velocity in the first sweep [m/s or rad/s]
    passing: float  # velocity that the regularisation lets pass under load [m/s]
    unsolved: int  # 1 if it ended above what is promised
    laid_out: int  # 1 if its matrix is, -1 if that would cost too much
    factorized: int  # 1 if its matrix is factorized


@wp.func
def apply_impulses(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    z: wp.array(dtype=float),
):
    """z += B p for all rows of an island."""
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        push_row(tree, rows.pair.leaf[p], p, depth, rows.pair.impulse[p], rows.pair.B, z)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        push_dof(tree, rows.dof, r, rows.dof.impulse[r], z)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        push_triple(tree, rows.contact.leaf[c], c, depth, rows.contact.impulse[c], rows.contact.B, z)
        if rows.spins == 1:
            if wp.length_sq(rows.spin.impulse[c]) > 0.0:
                push_triple(tree, rows.contact.leaf[c], c, depth, rows.spin.impulse[c], rows.spin.B, z)


@wp.func(inline=False)
def work_of(rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int) -> float:
    """Work of the impulses of an island at the velocities that they want [J]."""
    work = float(0.0)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        impulse = rows.pair.impulse[p]
        work += wp.max(impulse, 0.0) * rows.pair.target_lower[p]
        work += wp.min(impulse, 0.0) * rows.pair.target_upper[p]
        work -= 0.5 * rows.pair.softness[p] * impulse * impulse
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        push = rows.dof.impulse[r]
        work += wp.max(push, 0.0) * rows.dof.target_lower[r]
        work += wp.min(push, 0.0) * rows.dof.target_upper[r]
        work -= 0.5 * rows.dof.softness[r] * push * push
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        work += wp.dot(rows.contact.impulse[c], rows.contact.target[c])
        work -= 0.5 * rows.contact.softness[c] * rows.contact.impulse[c][0] * rows.contact.impulse[c][0]
        if has_spin(rows, c):
            work += wp.dot(rows.spin.impulse[c], rows.spin.target[c])
    return work


@wp.func
def island_energy(islands: wp.ref[IslandView], k: int, z: wp.array(dtype=float)) -> float:
    """Kinetic energy of an island [J]."""
    total = float(0.0)
    trees = islands.trees[k]
    for e in range(trees[0], trees[1]):
        t = islands.tree[e]
        for i in range(islands.dof_start[t], islands.dof_start[t + 1]):
            total += z[islands.dof[i]] * z[islands.dof[i]]
    return 0.5 * total


@wp.func(inline=False)
def drop_impulses(rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int):
    """Set the impulses of all rows of an island to zero."""
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        rows.pair.impulse[islands.pair[i]] = 0.0
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        rows.dof.impulse[islands.dof_row[i]] = 0.0
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        rows.contact.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
        if rows.spins == 1:
            rows.spin.impulse[c] = wp.vec3(0.0, 0.0, 0.0)


@wp.func(inline=False)
def start_island(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    z_free: wp.array(dtype=float),
    z: wp.array(dtype=float),
):
    """Start from the impulses of the last step, or from none if these are worse than none.

    Impulses p that solve the rows minimise |z|² / 2 - pᵀt over all that their bounds allow, so that they
    leave no more energy than there was without them and what they do at the velocities t that their rows
    want. Those of a step that was another, before a load was taken away, may leave much more.
    """
    energy = island_energy(islands, k, z_free)
    apply_impulses(tree, rows, islands, k, depth, z)
    if island_energy(islands, k, z) > energy + work_of(rows, islands, k):
        copy_island(islands, k, z_free, z)
        drop_impulses(rows, islands, k)


@wp.func
def sweep_island(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update every row of an island once; returns the largest velocity change."""
    change = float(0.0)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        change = wp.max(change, relax_pair(tree, rows.pair, islands.pair[i], depth, z))
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        change = wp.max(change, relax_dof(tree, rows.dof, islands.dof_row[i], z))
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        change = wp.max(change, relax_contact(tree, rows.contact, c, depth, pyramidal, z))
        if rows.spins == 1:
            change = wp.max(change, relax_spin(tree, rows.contact, rows.spin, c, depth, pyramidal, z))
    return change


@wp.func(inline=False)
def solve_by_newton(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    s: wp.ref[SolveOptions],
    before: SolveReport,
    laws: wp.ref[LawView],
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
    z: wp.array(dtype=float),
) -> SolveReport:
    """Rounds of Newton's method from the present impulses; the matrix is laid out.

    A round that is stopped far from the solution is undone, and the island swept once more.
    """
    pyramidal = s.pyramidal == 1
    report = before
    factorized = before.factorized == 1
    move_centres(rows, islands, k, True, report.at_start, laws)
    copy_island(islands, k, z, n.centre)
    set_bounds(rows, islands, k, laws)
    rounds = int(0)
    while rounds < ROUNDS:
        used = report.factorizations
        found = minimize(
            tree,
            rows,
            islands,
            k,
            w,
            depth,
            laws,
            pyramidal,
            report.tolerance,
            s.factorizations - used,
            factorized,
            n,
            sys,
            z,
        )
        if not found.residual <= FAILED and found.rounded == 0:
            return_to_centres(rows, islands, k, laws)
            copy_island(islands, k, n.centre, z)
            report.factorizations = used + found.factorizations
            report.factorized = 0
            # what a sweep still changes tells how far the impulses are from targets that may be new
            report.residual = sweep_island(tree, rows, islands, k, depth, pyramidal, z)
            report.unsolved = 1
            return report
        fresh = int(not factorized)
        factorized = factorized or found.factorizations > 0
        report.factorizations = used + found.factorizations
        report.residual = found.residual
        report.unsolved = int(found.residual > PROMISED and found.rounded == 0)
        set_bounds(rows, islands, k, laws)
        shift = move_centres(rows, islands, k, False, report.at_start, laws)
        report.passed = shift.most
        copy_island(islands, k, z, n.centre)
        rounds += 1
        restless = found.factorizations > CALM + fresh or report.factorizations >= ENOUGH
        sinks = shift.most > report.passing and report.factorizations < TOO_MANY
        if shift.excess <= wp.max(report.tolerance, SETTLED) or (restless and not sinks):
            rounds = ROUNDS
        elif sinks:
            set_regularisation(rows, islands, k, report.passing, laws)
            factorized = False
    report.factorized = int(factorized)
    return report


@wp.func(inline=False)
def solve_island(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    s: wp.ref[SolveOptions],
    before: SolveReport,
    laws: wp.ref[LawView],
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
    z: wp.array(dtype=float),
) -> SolveReport:
    """Solve the rows of an island from the present impulses.

    `before` reports on a solve of the same rows with other targets, if there was one: Newton's method then
    goes on from there, with its factor.
    """
    pyramidal = s.pyramidal == 1
    report = before
    report.factorizations = 0
    if before.factorized == 1:
        return solve_by_newton(tree, rows, islands, k, w, depth, s, report, laws, n, sys, z)
    change = float(s.tolerance + 1.0)
    sweeps = int(0)
    most = wp.min(SWEEPS, s.sweeps)
    while sweeps < most and change > s.tolerance:
        change = sweep_island(tree, rows, islands, k, depth, pyramidal, z)
        if sweeps == 0:
            report.at_start = change
        sweeps += 1
    if change > s.tolerance and report.laid_out == 0:
        report.laid_out = -1
        cost = lay_out_rows(tree, rows, islands, k, w, sys)
        if cost > 0.0 and cost <= s.cost:
            report.laid_out = 1
    if change > s.tolerance and report.laid_out == 1:
        copy_island(islands, k, z, n.y)
        report.passing = wp.max(PASSING, PASSING_SHARE * report.at_start)
        load = set_regularisation(rows, islands, k, report.passing, laws)
        report.tolerance = wp.max(wp.clamp(RELATIVE * change, FINEST, TOLERANCE), ROUNDING * load)
        report = solve_by_newton(tree, rows, islands, k, w, depth, s, report, laws, n, sys, z)
    else:
        while sweeps < s.sweeps and change > s.tolerance:
            change = sweep_island(tree, rows, islands, k, depth, pyramidal, z)
            sweeps += 1
        report.residual = change
        report.unsolved = int(change > PROMISED and s.cost > 0.0)
    report.sweeps = sweeps
    return report


@wp.func
def has_rows(islands: wp.ref[IslandView], k: int) -> bool:
    """True if an island has rows."""
    dofs = islands.dofs[k]
    pairs = islands.pairs[k]
    touches = islands.contacts[k]
    return dofs[1] > dofs[0] or pairs[1] > pairs[0] or touches[1] > touches[0]


@wp.func
def pushes_apart(rows: wp.ref[RowsView], c: int) -> bool:
    """True if contact c removes a penetration, other than by the force of a spring."""
    pressing = rows.contact.impulse[c][0] > 0.0
    return rows.contact.soft[c] == 0 and rows.contact.impact[c][1] > 0.0 and pressing


@wp.func
def acts(rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int) -> int:
    """ACTED if a row of the island has an impulse, PUSHED if a contact removes a penetration."""
    state = int(NOTHING_ACTED)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        if rows.dof.impulse[islands.dof_row[i]] != 0.0:
            state = wp.max(state, ACTED)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        if rows.pair.impulse[islands.pair[i]] != 0.0:
            state = wp.max(state, ACTED)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        if rows.contact.impulse[c][0] != 0.0:
            state = wp.max(state, ACTED)
            if pushes_apart(rows, c):
                state = PUSHED
    return state


@wp.func(inline=False)
def keep_solution(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    moving: wp.ref[ImpulseView],
    start_share: wp.array(dtype=float),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
):
    """Keep the solution that moves the positions; the next step starts from its impulses.

    It starts from less of what does not yield: such impulses would grow for ever.
    """
    copy_island(islands, k, z, moving.z)
    copy_island(islands, k, z, z_moving)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        moving.dof[r] = rows.dof.impulse[r]
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        moving.pair[p] = rows.pair.impulse[p]
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        moving.contact[c] = rows.contact.impulse[c]
        start_share[c] = 1.0
        if pushes_apart(rows, c):
            v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, z)
            if is_wedged(rows, c, v):
                start_share[c] = EASED
        if rows.spins == 1:
            moving.spin[c] = rows.spin.impulse[c]


@wp.func(inline=False)
def stop_pushing(tree: wp.ref[TreeView], rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int) -> bool:
    """Let penetrating contacts of single bodies want no more than to stay; true if one wanted more."""
    pushed = bool(False)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        impact = rows.contact.impact[c]
        pushes = pushes_apart(rows, c) and impact[1] == impact[2]
        for side in range(2):
            leaf = rows.contact.leaf[c][side]
            if leaf >= 0:
                pushes = pushes and is_single(tree, leaf)
        if pushes:
            target = rows.contact.target[c]
            rows.contact.target[c] = wp.vec3(target[0] - impact[1], target[1], target[2])
            pushed = True
    return pushed


@wp.func
def keep_articulated(
    tree: wp.ref[TreeView],
    islands: wp.ref[IslandView],
    k: int,
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
):
    """Let the positions of articulated bodies move with their velocities."""
    trees = islands.trees[k]
    for e in range(trees[0], trees[1]):
        t = islands.tree[e]
        if tree.joint_start[t + 1] - tree.joint_start[t] > 1:
            for i in range(islands.dof_start[t], islands.dof_start[t + 1]):
                z_moving[islands.dof[i]] = z[islands.dof[i]]


@wp.func
def any_timed(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int) -> bool:
    """True if positions of the world move through an impact at another rate than their velocity."""
    found = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.contact.first_impact[c][0] > 0.0:
            found = True
    return found


@wp.func
def shift_timed(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int, sign: float):
    """Let impacts within the step want the velocity of positions (sign 1), or again that after it (-1)."""
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.contact.first_impact[c][0] > 0.0:
            slip = rows.contact.slip_before_impact[c]
            shift = wp.vec3(rows.contact.moving[c][0] - rows.contact.impact[c][2], slip[0], slip[1])
            rows.contact.target[c] = rows.contact.target[c] + sign * shift


@wp.kernel
def solve_rows(
    first: int,
    tree: TreeView,
    dofs: WorldDofsView,
    rows: RowsView,
    contacts: ContactView,
    depth: int,
    dt: float,
    restitution_speed: float,
    s: SolveOptions,
    islands: IslandView,
    laws: LawView,
    newton: NewtonView,
    sys: BlockSystemView,
    moving: ImpulseView,
    start_share: wp.array(dtype=float),
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    iterations: wp.array(dtype=int),
    factorizations: wp.array(dtype=int),
    residual: wp.array(dtype=float),
    passed: wp.array(dtype=float),
    unsolved: UnsolvedView,
):
    """One thread per world: impulses of all its rows, z after them, and the z that moves the positions.

    Both differ where penetration is removed: what pushes single bodies apart moves them, but leaves them no
    velocity (as in Catto, "Solver2D", 2024, and the split impulses of Bullet). Else penetrations would become
    energy. Soft contacts keep it: it is the force of their springs. So do articulated bodies, whose momentum
    depends on the pose: coordinates that move at another rate than their velocities would change it. Both
    differ, too, where something rebounds within the step: the positions of the world then move with the mean
    of the velocities before and after the impact, see `rebounds`. The first solution, which `moving` keeps
    then, is that for the positions.
    """
    w = first + wp.tid()
    if any_rebound(rows.contact, contacts, w):
        propagate_impacts(tree, dofs, rows.contact, contacts, w, depth, restitution_speed, dt, moving, z)
    has_impact = any_timed(rows, contacts, w)
    if has_impact:
        shift_timed(rows, contacts, w, 1.0)
    find_islands(tree, rows, contacts, w, islands)
    begin = islands.tree_start[w]
    end = begin + islands.count[w]
    state = int(NOTHING_ACTED)
    if has_impact:
        state = TIMED
    total = SolveReport()
    for k in range(begin, end):
        # without impulses; positions move with it, too, where nothing acts
        copy_island(islands, k, z, z_moving)
        if has_rows(islands, k):
            start_island(tree, rows, islands, k, depth, z_moving, z)
            report = solve_island(tree, rows, islands, k, w, depth, s, SolveReport(), laws, newton, sys, z)
            factors = report.factorizations
            own = acts(rows, islands, k)
            state = wp.max(state, own)
            if own == PUSHED or has_impact or end > begin + 1:
                keep_solution(tree, rows, islands, k, depth, moving, start_share, z, z_moving)
            if own == PUSHED and not has_impact:
                if stop_pushing(tree, rows, islands, k):
                    again = solve_island(tree, rows, islands, k, w, depth, s, report, laws, newton, sys, z)
                    report.residual = wp.max(report.residual, again.residual)
                    report.passed = wp.max(report.passed, again.passed)
                    report.unsolved = wp.max(report.unsolved, again.unsolved)
                    factors += again.factorizations
                    keep_articulated(tree, islands, k, z, z_moving)
            total.sweeps = wp.max(total.sweeps, report.sweeps)
            total.factorizations = wp.max(total.factorizations, factors)
            total.residual = wp.max(total.residual, report.residual)
            total.passed = wp.max(total.passed, report.passed)
            total.unsolved = wp.max(total.unsolved, report.unsolved)
        else:
            copy_island(islands, k, z, moving.z)
    if has_impact:
        shift_timed(rows, contacts, w, -1.0)
        for k in range(begin, end):
            if has_rows(islands, k):
                stop_pushing(tree, rows, islands, k)
                after = solve_island(tree, rows, islands, k, w, depth, s, SolveReport(), laws, newton, sys, z)
                total.residual = wp.max(total.residual, after.residual)
                total.passed = wp.max(total.passed, after.passed)
                total.unsolved = wp.max(total.unsolved, after.unsolved)
                total.factorizations = wp.max(total.factorizations, after.factorizations)
    world_state[w] = state
    iterations[w] = total.sweeps
    factorizations[w] = total.factorizations
    residual[w] = total.residual
    passed[w] = total.passed
    if total.unsolved == 1:
        unsolved.steps[w] = unsolved.steps[w] + 1
        unsolved.worst[w] = wp.max(unsolved.worst[w], total.residual)
        unsolved.any[0] = 1
