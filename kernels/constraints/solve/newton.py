"""Newton's method for constraint rows with laws.

With the laws p(v) of `laws` and fixed bounds of friction, the velocities y in energy coordinates are the
minimum of a convex function,

    |y - z°|² / 2 + Σ ψ(Bᵀ y),  ψ' = -p,

with the gradient y - z° - B p(Bᵀ y), which is the difference between y and the velocities z that the impulses
cause, and the generalised Hessian 1 + B G Bᵀ, G = -dp/dv (Todorov, "Convex and analytically-invertible
dynamics with contacts and constraints", 2014; Castro, Permenter, Han, "An unconstrained convex formulation of
compliant contact", 2022). Newton's method with an exact line search converges to it from any start (for the
final steps, see Hintermüller, Ito, Kunisch, "The primal-dual active set strategy as a semismooth Newton
method", 2002). Near the solution, the bounds of friction follow the normal impulses. This Hessian does not
contain the dependence; Broyden's correction learns it from the steps, so that they converge faster than a
fixed-point iteration. For a small island with an articulated body, the matrix contains it (`coupled`), and
the bounds follow from the first step on.

The residual is the largest row velocity of that difference: the velocities at which the impulses obey their
laws differ by this much from those that the impulses cause.

Stage: constraints, solve
Called by: kernels/constraints/solve/solve.py
Reads: BlockSystemView, IslandView, LawView, NewtonView, RowsView, TreeView
Writes: BlockSystemView, LawView, NewtonView, RowsView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_cholesky import factorize, solve
from newtonsim.kernels.algebra.block_system import BlockSystemView
from newtonsim.kernels.algebra.dense_inverse import invert
from newtonsim.kernels.algebra.teams import Team, has_one_lane, max_lanes, sum_lanes, sync
from newtonsim.kernels.constraints.islands import IslandView, tree_share
from newtonsim.kernels.constraints.laws import LawView, dof_leaf, has_spin
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.coupled import (
    assemble_densely,
    find_slopes,
    take_dense_direction,
)
from newtonsim.kernels.constraints.solve.line_search import search
from newtonsim.kernels.constraints.solve.matrix import assemble
from newtonsim.kernels.constraints.solve.velocities import (
    MOST_KEPT,
    NewtonView,
    apply_laws,
    fastest_row,
    project_step,
)
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# steps in which the bounds of friction follow, and their largest number
FOLLOWING = wp.constant(25)
MOST_STEPS = wp.constant(100)
# square of a step below which Broyden's correction ignores it, and the least share of a direction that
# remains where each step undoes most of the one before
SMALLEST_SQUARE = wp.constant(1.0e-30)
LEAST_PROGRESS = wp.constant(0.2)
# share of the residual after a step up to which its factor is used again although rows have switched
REUSE = wp.constant(0.1)
# bound of the residual, over the tolerance, below which the residual itself is computed
LOOSE = wp.constant(8.0)
# residual [m/s] below which stagnation is due to rounding
ROUNDING = wp.constant(1.0e-4)
STALLED = wp.constant(0.5)
# step, over the velocities, below which it is rounding
RESOLUTION = wp.constant(1.0e-7)


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


@wp.func(inline=False)
def find_gap(
    team: Team,
    islands: wp.ref[IslandView],
    k: int,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
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
            gap = n.y[d] - n.z[d]
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


@wp.func(inline=False)
def find_direction(
    team: Team,
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    laws: wp.ref[LawView],
    pyramidal: bool,
    follow: bool,
    stale: bool,
    kept: int,
    n: wp.ref[NewtonView],
    sys: wp.ref[BlockSystemView],
) -> wp.vec3:
    """Newton's step; returns the slope along it, its square, and that of y.

    Args:
        team: The team.
        tree: Topology.
        rows: All rows.
        islands: Islands.
        k: The island.
        w: Its world.
        depth: Longest chain of dofs.
        laws: What the laws of the rows depend on.
        pyramidal: Whether friction is bounded by pyramids.
        follow: Whether the bounds of friction follow the normal impulses; only a dense matrix tells.
        stale: Whether the matrix has to be set up anew.
        kept: Steps from which Broyden's correction learns.
        n: Workspace.
        sys: Sparse matrix, laid out for the island.
    """
    along = wp.vec3(0.0, 0.0, 0.0)
    if n.dense.inverted[w] == 1:
        if stale:
            find_slopes(team, rows, islands, k, laws, pyramidal, follow, n)
            assemble_densely(team, tree, rows, islands, k, w, depth, n)
            invert(team, n.dense, w, n.dense.unknowns[w])
        along = take_dense_direction(team, w, n)
    else:
        if stale:
            assemble(team, tree, rows, islands, k, w, depth, laws, pyramidal, False, n, sys)
            factorize(team, sys, w)
        solve(team, sys, w)
        correct_direction(team, islands, k, kept, n, sys)
        along = take_direction(team, islands, k, n, sys)
    return along


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
    """
    found = Minimum()
    stale = not factorized
    small = n.dense.unknowns[w] > 0
    dense = factorized and n.dense.inverted[w] == 1
    followed = factorized
    running = int(1)
    last = float(0.0)
    alpha = float(0.0)
    rounded = bool(False)
    near = bool(False)
    kept = int(0)
    while running == 1:
        # far from the solution, it would oscillate if the matrix did not tell how bounds follow impulses
        near = near or (alpha > 0.9 and alpha < 1.1)
        follow = (near or small) and found.steps < FOLLOWING
        counts = apply_laws(team, tree, rows, islands, k, depth, laws, pyramidal, follow, alpha, n)
        switched = counts[0]
        found.residual = find_gap(team, islands, k, n, sys)
        last_one = rounded or found.factorizations >= most or found.steps >= MOST_STEPS
        stuck = found.steps > 0 and stale and switched == 0 and found.residual > STALLED * last
        # an exact step that gains nothing is due to rounding if the residual itself is small
        if found.residual <= LOOSE * tolerance or last_one or (dense and stuck):
            found.residual = fastest_row(team, tree, rows, islands, k, depth, n.gap)
        if found.residual <= tolerance or last_one:
            running = 0
        else:
            stalled = stale and found.residual > STALLED * last and found.residual <= ROUNDING
            if found.steps > 0:
                slow = found.residual > REUSE * last and switched > 0
                stale = slow or (found.residual > STALLED * last and kept != 1)
                if dense:
                    stale = switched > 0 or found.residual > REUSE * last
                if stalled:
                    running = 0
            last = found.residual
        if running == 1:
            if dense:
                stale = stale or follow != followed
            followed = follow
            if stale:
                found.factorizations += 1
                kept = 0
                # without sliding contacts the matrix is symmetric, which halves the work of a lane alone
                dense = small and (counts[1] > 0 or not has_one_lane(team))
                if team.lane == 0:
                    n.dense.inverted[w] = int(dense)
                sync(team)
            along = find_direction(
                team, tree, rows, islands, k, w, depth, laws, pyramidal, follow, stale, kept, n, sys
            )
            project_step(team, tree, rows, islands, k, depth, n)
            alpha = float(1.0)
            searches = kept == 0
            if dense:
                searches = stale and along[0] < 0.0
            if searches:
                follows = dense and follow
                alpha = search(team, rows, islands, k, along[0], along[1], laws, pyramidal, follows, n)
            if alpha == 1.0 and kept < MOST_KEPT and not dense:
                keep_step(team, islands, k, kept, n)
                kept += 1
            else:
                kept = 0
            advance(team, islands, k, alpha, n)
            found.steps += 1
            rounded = alpha * alpha * along[1] <= RESOLUTION * RESOLUTION * along[2]
            found.rounded = int(rounded)
    return found
