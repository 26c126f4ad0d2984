"""Newton's method for constraint rows with laws.

With the laws p(v) of `laws` and fixed bounds of friction, the velocities y in energy coordinates are the
minimum of a convex function,

    |y - z°|² / 2 + Σ ψ(Bᵀ y),  ψ' = -p,

with the gradient y - z° - B p(Bᵀ y), which is the difference between y and the velocities z that the impulses
cause, and the generalised Hessian 1 + B G Bᵀ, G = -dp/dv (Todorov, "Convex and analytically-invertible
dynamics with contacts and constraints", 2014; Castro, Permenter, Han, "An unconstrained convex formulation of
compliant contact", 2022). Newton's method with an exact line search converges to it from any start (for the
final steps, see Hintermüller, Ito, Kunisch, "The primal-dual active set strategy as a semismooth Newton
method", 2002). Near the solution, the bounds of friction follow the normal impulses. The Hessian does not
contain this dependence; Broyden's correction learns it from the steps, so that they converge faster than a
fixed-point iteration.

The residual is the largest row velocity of that difference: the velocities at which the impulses obey their
laws differ by this much from those that the impulses cause.

Stage: constraints, solve
Called by: kernels/constraints/adjoint/system.py, kernels/constraints/apart.py, kernels/constraints/solve.py
Reads: BlockSystemView, IslandView, LawView, NewtonView, RowsView, TreeView, x, z
Writes: BlockSystemView, LawView, NewtonView, RowsView, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_cholesky import factorize, solve
from newtonsim.kernels.algebra.block_system import (
    BlockSystemView,
    add_row,
    add_triple,
    begin_system,
    couple,
    lay_out,
    set_identity,
)
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes, sync
from newtonsim.kernels.constraints.chains import (
    row_velocity,
    team_push_row,
    team_push_triple,
    triple_velocity,
)
from newtonsim.kernels.constraints.islands import IslandView, tree_share
from newtonsim.kernels.constraints.laws import (
    LawView,
    contact_law,
    dof_law,
    dof_leaf,
    has_spin,
    pair_law,
    slope_along,
    slope_matrix,
    spin_law,
)
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# steps in which the bounds of friction follow, and their largest number
FOLLOWING = wp.constant(25)
MOST_STEPS = wp.constant(100)
# steps that Broyden's correction uses; the square of a step below which it is ignored; and the least share of
# a direction that remains where each step undoes most of the one before
MOST_KEPT = wp.constant(6)
SMALLEST_SQUARE = wp.constant(1.0e-30)
LEAST_PROGRESS = wp.constant(0.2)
# regularisation of contacts, over their weight, where bodies move apart
APART = wp.constant(1.0e-3)
# slope that ends a line search, over that at its start; most evaluations of the slope
FLAT = wp.constant(1.0e-2)
SEARCHES = wp.constant(20)
# share of the residual after a step up to which its factor is used again although rows have switched
REUSE = wp.constant(0.1)
# bound of the residual, over the tolerance, below which the residual itself is computed
LOOSE = wp.constant(8.0)
# residual [m/s] below which stagnation is due to rounding
ROUNDING = wp.constant(1.0e-4)
STALLED = wp.constant(0.5)
# step, over the velocities, below which it is rounding
RESOLUTION = wp.constant(1.0e-7)


@wp.struct
class NewtonView:
    """Workspace: D dofs, T trees, R rows on dofs, P rows between bodies, C contacts."""

    y: wp.array(dtype=float)  # (D) velocities of the iteration, energy coordinates
    centre: wp.array(dtype=float)  # (D) velocities that the impulses at the centres of the laws cause
    gap: wp.array(dtype=float)  # (D) y minus the velocities that its impulses cause
    step: wp.array(dtype=float)  # (D)
    steps: wp.array(dtype=float)  # (MOST_KEPT D) steps with the current factor, one after the other
    tree_reach: wp.array(dtype=float)  # (T) square root of the largest Delassus number of the rows of a tree
    dof_v: wp.array(dtype=wp.vec2)  # (R) velocity, and its change in the step, or that of the impulse
    pair_v: wp.array(dtype=wp.vec2)  # (P)
    contact_dv: wp.array(dtype=wp.vec3)  # (C) change of a contact's velocity in the step, or of its impulse
    spin_v: wp.array(dtype=wp.vec3)  # (C)
    spin_dv: wp.array(dtype=wp.vec3)  # (C)


@wp.func(inline=False)
def lay_out_rows(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    sys: wp.ref[BlockSystemView],
) -> float:
    """Lay out the matrix for all rows of an island; see `lay_out`."""
    cost = float(0.0)
    if team.lane == 0:
        trees = islands.trees[k]
        begin_system(sys, w, islands.tree, trees[0], trees[1])
        if trees[1] > trees[0] + 1:
            pairs = islands.pairs[k]
            for i in range(pairs[0], pairs[1]):
                couple(tree, sys, w, rows.pair.leaf[islands.pair[i]])
            touches = islands.contacts[k]
            for i in range(touches[0], touches[1]):
                couple(tree, sys, w, rows.contact.leaf[islands.contact[i]])
        cost = lay_out(sys, w)
    return max_lanes(team, cost)


@wp.func
def follow_bound(rows: wp.ref[RowsView], laws: wp.ref[LawView], c: int, v: wp.vec3):
    """Set the friction bounds of a contact to those of its normal impulse at the velocity v."""
    R = laws.contact_R[c][0]
    left = rows.contact.target[c][0] - v[0]
    push = wp.max(0.0, (R * laws.centre.contact[c][0] + left) / (R + rows.contact.softness[c]))
    laws.contact_bound[c] = rows.contact.friction[c] * push
    if has_spin(rows, c):
        laws.spin_bound[c] = push * wp.vec2(rows.spin.torsion[c], rows.spin.rolling[c])


@wp.func
def push_changes(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    n: wp.ref[NewtonView],
    z: wp.array(dtype=float),
):
    """z += B times the changes of all impulses, which are stored in place of those of velocities."""
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        if n.dof_v[r][1] != 0.0:
            team_push_row(team, tree, dof_leaf(rows, r), r, depth, n.dof_v[r][1], rows.dof.B, z)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        if n.pair_v[p][1] != 0.0:
            team_push_row(team, tree, rows.pair.leaf[p], p, depth, n.pair_v[p][1], rows.pair.B, z)
    touches = islands.contacts[k]
    i = int(touches[0])
    while i < touches[1]:
        c = islands.contact[i]
        change = n.contact_dv[c]
        if wp.length_sq(change) > 0.0:
            team_push_triple(team, tree, rows.contact.leaf[c], c, depth, change, rows.contact.B, z)
        if has_spin(rows, c):
            team_push_triple(team, tree, rows.contact.leaf[c], c, depth, n.spin_dv[c], rows.spin.B, z)
        i += 1


@wp.func(inline=False)
def apply_laws(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    laws: wp.ref[LawView],
    pyramidal: bool,
    follow: bool,
    alpha: float,
    n: wp.ref[NewtonView],
    z: wp.array(dtype=float),
) -> int:
    """Give every row the impulse of its law at the velocities y; z follows.

    The velocities of the rows are recomputed if `alpha` is 0; otherwise they advance along the last step by
    this length. Returns the number of rows on other branches of their laws than in the matrix.
    """
    switched = int(0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        v = float(n.dof_v[r][0] + alpha * n.dof_v[r][1])
        if alpha == 0.0:
            v = row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, n.y)
        law = dof_law(rows, laws, r, v)
        n.dof_v[r] = wp.vec2(v, law.impulse - rows.dof.impulse[r])
        rows.dof.impulse[r] = law.impulse
        switched += int(law.branch != laws.dof_branch[r])
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        u = float(n.pair_v[p][0] + alpha * n.pair_v[p][1])
        if alpha == 0.0:
            u = row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, n.y)
        law = pair_law(rows, laws, p, u)
        n.pair_v[p] = wp.vec2(u, law.impulse - rows.pair.impulse[p])
        rows.pair.impulse[p] = law.impulse
        switched += int(law.branch != laws.pair_branch[p])
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        x = laws.contact_v[c] + alpha * n.contact_dv[c]
        if alpha == 0.0:
            x = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, n.y)
        laws.contact_v[c] = x
        if follow:
            follow_bound(rows, laws, c, x)
        triple = contact_law(rows, laws, c, x, pyramidal)
        switched += int(triple.branch != laws.contact_branch[c])
        n.contact_dv[c] = triple.impulse - rows.contact.impulse[c]
        rows.contact.impulse[c] = triple.impulse
        if has_spin(rows, c):
            s = n.spin_v[c] + alpha * n.spin_dv[c]
            if alpha == 0.0:
                s = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, n.y)
            n.spin_v[c] = s
            turn = spin_law(rows, laws, c, s, pyramidal)
            switched += int(turn.branch != laws.spin_branch[c])
            n.spin_dv[c] = turn.impulse - rows.spin.impulse[c]
            rows.spin.impulse[c] = turn.impulse
        i += lanes(team)
    sync(team)
    push_changes(team, tree, rows, islands, k, depth, n, z)
    return int(sum_lanes(team, float(switched)))


@wp.func(inline=False)
def fastest_row(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    x: wp.array(dtype=float),
) -> float:
    """Largest velocity of a row for x."""
    most = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        most = wp.max(most, wp.abs(row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, x)))
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        most = wp.max(most, wp.abs(row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, x)))
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, x)
        most = wp.max(most, wp.max(wp.abs(v)))
        if has_spin(rows, c):
            s = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, x)
            most = wp.max(most, wp.max(wp.abs(s)))
        i += lanes(team)
    return max_lanes(team, most)


@wp.func
def reach_of(tree: wp.ref[TreeView], n: wp.ref[NewtonView], leaf: wp.vec2i, delassus: float):
    """Extend the reach of the trees of two dofs by a row."""
    reach = wp.sqrt(delassus)
    for side in range(2):
        if leaf[side] >= 0:
            t = tree.body_tree[tree.dof_body[leaf[side]]]
            n.tree_reach[t] = wp.max(n.tree_reach[t], reach)


@wp.func(inline=False)
def find_reach(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    n: wp.ref[NewtonView],
):
    """Find the largest velocity of a row of each tree at an energy of half a joule [m/s or rad/s]."""
    if team.lane == 0:
        trees = islands.trees[k]
        for e in range(trees[0], trees[1]):
            n.tree_reach[islands.tree[e]] = 0.0
        dofs = islands.dofs[k]
        for i in range(dofs[0], dofs[1]):
            r = islands.dof_row[i]
            reach_of(tree, n, dof_leaf(rows, r), rows.dof.delassus[r])
        pairs = islands.pairs[k]
        for i in range(pairs[0], pairs[1]):
            p = islands.pair[i]
            reach_of(tree, n, rows.pair.leaf[p], rows.pair.delassus[p])
        touches = islands.contacts[k]
        for i in range(touches[0], touches[1]):
            c = islands.contact[i]
            delassus = rows.contact.delassus[c]
            most = wp.max(delassus[0], delassus[1])
            reach_of(tree, n, rows.contact.leaf[c], most)
            if has_spin(rows, c):
                turn = rows.spin.delassus[c]
                reach_of(tree, n, rows.contact.leaf[c], wp.max(turn[0], turn[1]))


@wp.func
def push_of(rows: wp.ref[RowsView], c: int) -> float:
    """Speed at which contact c removes a penetration, in addition to its target [m/s]."""
    push = float(0.0)
    if rows.contact.impact[c][1] == rows.contact.impact[c][2]:
        push = rows.contact.push[c]
    return push


@wp.func
def parts_slowly(rows: wp.ref[RowsView], c: int, v: wp.vec3) -> bool:
    """True if contact c presses, or separates more slowly than its penetration should be removed."""
    presses = rows.contact.impulse[c][0] > 0.0
    push = push_of(rows, c)
    return presses or (push > 0.0 and v[0] - rows.contact.target[c][0] < push)


@wp.func(inline=False)
def assemble(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    laws: wp.ref[LawView],
    pyramidal: bool,
    apart: bool,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
):
    """Set the matrix to the Hessian.

    If bodies should move `apart`, contacts that press or separate too slowly are hard.
    """
    set_identity(team, sys, w)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        law = dof_law(rows, laws, r, n.dof_v[r][0])
        laws.dof_branch[r] = law.branch
        if law.slope > 0.0:
            add_row(team.lane, lanes(team), tree, sys, w, dof_leaf(rows, r), depth, r, law.slope, rows.dof.B)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        law = pair_law(rows, laws, p, n.pair_v[p][0])
        laws.pair_branch[p] = law.branch
        if law.slope > 0.0:
            add_row(team.lane, lanes(team), tree, sys, w, rows.pair.leaf[p], depth, p, law.slope, rows.pair.B)
    touches = islands.contacts[k]
    i = int(touches[0])
    while i < touches[1]:
        c = islands.contact[i]
        triple = contact_law(rows, laws, c, laws.contact_v[c], pyramidal)
        G = slope_matrix(triple.slope)
        if apart and parts_slowly(rows, c, laws.contact_v[c]):
            G[0, 0] = 1.0 / (APART * rows.contact.weight[c][0] + rows.contact.softness[c])
        laws.contact_branch[c] = triple.branch
        laws.contact_slope[c] = G[0, 0]
        if G[0, 0] + G[1, 1] + G[2, 2] > 0.0:
            add_triple(
                team.lane, lanes(team), tree, sys, w, rows.contact.leaf[c], depth, c, G, rows.contact.B
            )
        if has_spin(rows, c):
            turn = spin_law(rows, laws, c, n.spin_v[c], pyramidal)
            S = slope_matrix(turn.slope)
            laws.spin_branch[c] = turn.branch
            if S[0, 0] + S[1, 1] + S[2, 2] > 0.0:
                add_triple(
                    team.lane, lanes(team), tree, sys, w, rows.contact.leaf[c], depth, c, S, rows.spin.B
                )
        i += 1
    sync(team)


@wp.func(inline=False)
def project_step(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    n: wp.ref[NewtonView],
):
    """Velocities of all rows by the step."""
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        v = row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, n.step)
        n.dof_v[r] = wp.vec2(n.dof_v[r][0], v)
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        u = row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, n.step)
        n.pair_v[p] = wp.vec2(n.pair_v[p][0], u)
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        n.contact_dv[c] = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, n.step)
        if has_spin(rows, c):
            n.spin_dv[c] = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, n.step)
        i += lanes(team)


@wp.func(inline=False)
def total_slope(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    alpha: float,
    laws: wp.ref[LawView],
    pyramidal: bool,
    n: wp.ref[NewtonView],
) -> wp.vec2:
    """Contributions of the rows to slope and curvature along the step, minus the slope at its start."""
    slope = float(0.0)
    curvature = float(0.0)
    dofs = islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = islands.dof_row[i]
        v = n.dof_v[r]
        law = dof_law(rows, laws, r, v[0] + alpha * v[1])
        slope -= (law.impulse - rows.dof.impulse[r]) * v[1]
        curvature += law.slope * v[1] * v[1]
    pairs = islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = islands.pair[i]
        u = n.pair_v[p]
        law = pair_law(rows, laws, p, u[0] + alpha * u[1])
        slope -= (law.impulse - rows.pair.impulse[p]) * u[1]
        curvature += law.slope * u[1] * u[1]
    touches = islands.contacts[k]
    i = int(touches[0] + team.lane)
    while i < touches[1]:
        c = islands.contact[i]
        d = n.contact_dv[c]
        triple = contact_law(rows, laws, c, laws.contact_v[c] + alpha * d, pyramidal)
        slope -= wp.dot(triple.impulse - rows.contact.impulse[c], d)
        curvature += slope_along(triple.slope, d)
        if has_spin(rows, c):
            e = n.spin_dv[c]
            turn = spin_law(rows, laws, c, n.spin_v[c] + alpha * e, pyramidal)
            slope -= wp.dot(turn.impulse - rows.spin.impulse[c], e)
            curvature += slope_along(turn.slope, e)
        i += lanes(team)
    return wp.vec2(sum_lanes(team, slope), sum_lanes(team, curvature))


@wp.func(inline=False)
def search(
    team: Team,
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    start: float,
    square: float,
    laws: wp.ref[LawView],
    pyramidal: bool,
    n: wp.ref[NewtonView],
) -> float:
    """Length of the step at which the slope along it vanishes, by safeguarded Newton steps.

    Args:
        team: The team.
        rows: All rows.
        islands: Islands.
        k: The island.
        start: Slope at its start, negative.
        square: Square of the step.
        laws: What the laws of the rows depend on.
        pyramidal: Whether friction is bounded by pyramids.
        n: Workspace.
    """
    low = float(0.0)
    high = float(-1.0)
    alpha = float(1.0)
    for _k in range(SEARCHES):
        more = total_slope(team, rows, islands, k, alpha, laws, pyramidal, n)
        slope = start + alpha * square + more[0]
        if wp.abs(slope) <= -FLAT * start:
            break
        if slope < 0.0:
            low = alpha
        else:
            high = alpha
        next = alpha - slope / (square + more[1])
        if high >= 0.0 and (next <= low or next >= high):
            next = 0.5 * (low + high)
        elif next <= low:
            next = 2.0 * alpha
        alpha = next
    return alpha


@wp.func(inline=False)
def find_gap(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
    z: wp.array(dtype=float),
) -> float:
    """Gradient of the function, and the right-hand side of Newton's step.

    Returns a bound of the residual by the Cauchy-Schwarz inequality; rows have at most two sides.
    """
    bound = float(0.0)
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        total = float(0.0)
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            gap = n.y[d] - z[d]
            n.gap[d] = gap
            sys.x[i] = -gap
            total += gap * gap
        if share.whole == 0:
            total = sum_lanes(team, total)
        bound = wp.max(bound, n.tree_reach[t] * wp.sqrt(total))
    return 2.0 * max_lanes(team, bound)


@wp.func(inline=False)
def take_direction(
    team: Team, islands: wp.ref[IslandView], k: int, n: wp.ref[NewtonView], sys: wp.ref[BlockSystemView]
) -> wp.vec3:
    """Compute Newton's step by dof; returns the slope along it, its square, and that of y."""
    start = float(0.0)
    square = float(0.0)
    whole = float(0.0)
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            x = sys.x[i]
            n.step[d] = x
            start += n.gap[d] * x
            square += x * x
            whole += n.y[d] * n.y[d]
    return wp.vec3(sum_lanes(team, start), sum_lanes(team, square), sum_lanes(team, whole))


@wp.func
def advance(team: Team, islands: wp.ref[IslandView], k: int, alpha: float, n: wp.ref[NewtonView]):
    """y += alpha step."""
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            n.y[d] = n.y[d] + alpha * n.step[d]


@wp.func
def kept_dot(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    j: int,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
) -> wp.vec2:
    """Products of a stored step with the current direction, and with itself."""
    dofs = n.step.shape[0]
    product = float(0.0)
    square = float(0.0)
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            kept = n.steps[j * dofs + islands.dof[i]]
            product += kept * sys.x[i]
            square += kept * kept
    return wp.vec2(sum_lanes(team, product), sum_lanes(team, square))


@wp.func(inline=False)
def correct_direction(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    kept: int,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
):
    """Apply Broyden's correction to the direction, from the steps with the same factor.

    It learns what the matrix omits: that bounds of friction follow the normal impulses. The form that needs
    only the steps is that of Kelley, "Iterative Methods for Linear and Nonlinear Equations", 1995, section
    7.3.
    """
    dofs = n.step.shape[0]
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for j in range(kept):
        dot = kept_dot(team, islands, k, j, n, sys)
        part = dot[0] / wp.max(dot[1], SMALLEST_SQUARE)
        for e in range(share.tree, trees[1], share.trees):
            t = islands.tree[e]
            for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
                if j + 1 < kept:
                    sys.x[i] = sys.x[i] + part * n.steps[(j + 1) * dofs + islands.dof[i]]
                else:
                    sys.x[i] = sys.x[i] / wp.max(1.0 - part, LEAST_PROGRESS)


@wp.func
def keep_step(team: Team, islands: wp.ref[IslandView], k: int, j: int, n: wp.ref[NewtonView]):
    """Store the current step as number j."""
    dofs = n.step.shape[0]
    trees = islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = islands.tree[e]
        for i in range(islands.dof_start[t] + share.dof, islands.dof_start[t + 1], share.dofs):
            d = islands.dof[i]
            n.steps[j * dofs + d] = n.step[d]


@wp.struct
class Minimum:
    """Result of Newton's method."""

    steps: int
    factorizations: int
    residual: float
    rounded: int  # 1 if the last step was only rounding


@wp.func(inline=False)
def minimize(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    laws: wp.ref[LawView],
    pyramidal: bool,
    tolerance: float,
    most: int,
    factorized: bool,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
    z: wp.array(dtype=float),
) -> Minimum:
    """Make Newton steps from the velocities y until the residual is at most `tolerance`.

    Args:
        team: The team.
        tree: Topology.
        rows: All rows; receives the impulses.
        islands: Islands.
        k: The island.
        w: Its world.
        depth: Longest chain of dofs.
        laws: What the laws of the rows depend on.
        pyramidal: Whether friction is bounded by pyramids.
        tolerance: Residual that is good enough [m/s or rad/s].
        most: Most factorizations.
        factorized: Whether the system holds a factor that may be used again.
        n: Workspace.
        sys: Matrix, laid out for the island.
        z: Velocities that the impulses cause.
    """
    found = Minimum()
    stale = not factorized
    running = int(1)
    last = float(0.0)
    alpha = float(0.0)
    rounded = bool(False)
    near = bool(False)
    kept = int(0)
    while running == 1:
        # if bounds followed impulses far from the solution, it would oscillate
        near = near or (alpha > 0.9 and alpha < 1.1)
        follow = near and found.steps < FOLLOWING
        switched = apply_laws(team, tree, rows, islands, k, depth, laws, pyramidal, follow, alpha, n, z)
        found.residual = find_gap(team, islands, k, n, sys, z)
        last_one = rounded or found.factorizations >= most or found.steps >= MOST_STEPS
        if found.residual <= LOOSE * tolerance or last_one:
            found.residual = fastest_row(team, tree, rows, islands, k, depth, n.gap)
        if found.residual <= tolerance or last_one:
            running = 0
        else:
            stalled = stale and found.residual > STALLED * last and found.residual <= ROUNDING
            if found.steps > 0:
                slow = found.residual > REUSE * last and switched > 0
                stale = slow or (found.residual > STALLED * last and kept != 1)
                if stalled:
                    running = 0
            last = found.residual
        if running == 1:
            if stale:
                assemble(team, tree, rows, islands, k, w, depth, laws, pyramidal, False, n, sys)
                factorize(team, sys, w)
                found.factorizations += 1
                kept = 0
            solve(team, sys, w)
            correct_direction(team, islands, k, kept, n, sys)
            along = take_direction(team, islands, k, n, sys)
            project_step(team, tree, rows, islands, k, depth, n)
            alpha = float(1.0)
            if kept == 0:
                alpha = search(team, rows, islands, k, along[0], along[1], laws, pyramidal, n)
            if alpha == 1.0 and kept < MOST_KEPT:
                keep_step(team, islands, k, kept, n)
                kept += 1
            else:
                kept = 0
            advance(team, islands, k, alpha, n)
            found.steps += 1
            rounded = alpha * alpha * along[1] <= RESOLUTION * RESOLUTION * along[2]
            found.rounded = int(rounded)
    return found
