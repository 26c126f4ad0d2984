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
Reads: SolveViews, TreeView
Writes: SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_cholesky import factorize, solve
from newtonsim.kernels.algebra.dense_inverse import invert
from newtonsim.kernels.algebra.teams import Team, has_one_lane, max_lanes, sum_lanes, sync
from newtonsim.kernels.constraints.islands import copy_island, tree_share
from newtonsim.kernels.constraints.laws import dof_leaf, has_spin, return_to_centres
from newtonsim.kernels.constraints.solve.coupled import (
    assemble_densely,
    find_slopes,
    take_dense_direction,
)
from newtonsim.kernels.constraints.solve.line_search import search
from newtonsim.kernels.constraints.solve.matrix import assemble
from newtonsim.kernels.constraints.solve.velocities import (
    KEPT,
    apply_laws,
    fastest_row,
    project_step,
)
from newtonsim.kernels.constraints.solve.views import MOST_KEPT, SolveViews
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
# residual [m/s or rad/s] on the way above which z, the sum of all steps in single precision, may have lost
# digits that matter; y on the way, over that in the end, above which velocities of rows, sums of the same
# kind, may have; residual that is good enough after that [m/s or rad/s]; and one larger than any
WILD = wp.constant(30.0)
FAR = wp.constant(10.0)
RENEWED = wp.constant(5.0e-5)
UNKNOWN = wp.constant(1.0e30)


@wp.func
def reach_of(
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    leaf: wp.vec2i,
    delassus: float,
):
    """Extend the reach of the trees of two dofs by a row."""
    reach = wp.sqrt(delassus)
    for side in range(2):
        if leaf[side] >= 0:
            t = tree.body_tree[tree.dof_body[leaf[side]]]
            views.newton.tree_reach[t] = wp.max(views.newton.tree_reach[t], reach)


@wp.func(inline=False)
def find_reach(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
):
    """Find the largest velocity of a row of each tree at an energy of half a joule [m/s or rad/s]."""
    if team.lane == 0:
        trees = views.islands.trees[k]
        for e in range(trees[0], trees[1]):
            views.newton.tree_reach[views.islands.tree[e]] = 0.0
        dofs = views.islands.dofs[k]
        for i in range(dofs[0], dofs[1]):
            r = views.islands.dof_row[i]
            reach_of(tree, views, dof_leaf(views.rows, r), views.rows.dof.delassus[r])
        pairs = views.islands.pairs[k]
        for i in range(pairs[0], pairs[1]):
            p = views.islands.pair[i]
            reach_of(tree, views, views.rows.pair.leaf[p], views.rows.pair.delassus[p])
        touches = views.islands.contacts[k]
        for i in range(touches[0], touches[1]):
            c = views.islands.contact[i]
            delassus = views.rows.contact.delassus[c]
            most = wp.max(delassus[0], delassus[1])
            reach_of(tree, views, views.rows.contact.leaf[c], most)
            if has_spin(views.rows, c):
                turn = views.rows.spin.delassus[c]
                reach_of(tree, views, views.rows.contact.leaf[c], wp.max(turn[0], turn[1]))


@wp.func(inline=False)
def find_gap(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> float:
    """Gradient of the function, and the right-hand side of Newton's step.

    Returns a bound of the residual by the Cauchy-Schwarz inequality; rows have at most two sides.
    """
    bound = float(0.0)
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        total = float(0.0)
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            gap = views.newton.y[d] - views.newton.z[d]
            views.newton.gap[d] = gap
            views.sys.x[i] = -gap
            total += gap * gap
        if share.whole == 0:
            total = sum_lanes(team, total)
        bound = wp.max(bound, views.newton.tree_reach[t] * wp.sqrt(total))
    return 2.0 * max_lanes(team, bound)


@wp.func(inline=False)
def take_direction(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> wp.vec3:
    """Compute Newton's step by dof; returns the slope along it, its square, and that of y."""
    start = float(0.0)
    square = float(0.0)
    whole = float(0.0)
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            x = views.sys.x[i]
            views.newton.step[d] = x
            start += views.newton.gap[d] * x
            square += x * x
            whole += views.newton.y[d] * views.newton.y[d]
    return wp.vec3(sum_lanes(team, start), sum_lanes(team, square), sum_lanes(team, whole))


@wp.func
def advance(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    alpha: float,
):
    """y += alpha step."""
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.newton.y[d] = views.newton.y[d] + alpha * views.newton.step[d]


@wp.func
def kept_dot(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    j: int,
) -> wp.vec2:
    """Products of a stored step with the current direction, and with itself."""
    dofs = views.newton.step.shape[0]
    product = float(0.0)
    square = float(0.0)
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            kept = views.newton.steps[j * dofs + views.islands.dof[i]]
            product += kept * views.sys.x[i]
            square += kept * kept
    return wp.vec2(sum_lanes(team, product), sum_lanes(team, square))


@wp.func(inline=False)
def correct_direction(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    kept: int,
):
    """Apply Broyden's correction to the direction, from the steps with the same factor.

    It learns what the matrix omits: that bounds of friction follow the normal impulses. The form that needs
    only the steps is that of Kelley, "Iterative Methods for Linear and Nonlinear Equations", 1995, section
    7.3.
    """
    dofs = views.newton.step.shape[0]
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for j in range(kept):
        dot = kept_dot(team, views, k, j)
        part = dot[0] / wp.max(dot[1], SMALLEST_SQUARE)
        for e in range(share.tree, trees[1], share.trees):
            t = views.islands.tree[e]
            for i in range(
                views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs
            ):
                if j + 1 < kept:
                    views.sys.x[i] = (
                        views.sys.x[i] + part * views.newton.steps[(j + 1) * dofs + views.islands.dof[i]]
                    )
                else:
                    views.sys.x[i] = views.sys.x[i] / wp.max(1.0 - part, LEAST_PROGRESS)


@wp.func
def keep_step(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    j: int,
):
    """Store the current step as number j."""
    dofs = views.newton.step.shape[0]
    trees = views.islands.trees[k]
    share = tree_share(team, trees)
    for e in range(share.tree, trees[1], share.trees):
        t = views.islands.tree[e]
        for i in range(views.islands.dof_start[t] + share.dof, views.islands.dof_start[t + 1], share.dofs):
            d = views.islands.dof[i]
            views.newton.steps[j * dofs + d] = views.newton.step[d]


@wp.func(inline=False)
def find_direction(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    follow: bool,
    stale: bool,
    kept: int,
) -> wp.vec3:
    """Newton's step; returns the slope along it, its square, and that of y.

    Args:
        team: The team.
        tree: Topology.
        views: What the solve works on; receives the result.
        k: The island.
        depth: Longest chain of dofs.
        pyramidal: Whether friction is bounded by pyramids.
        follow: Whether the bounds of friction follow the normal impulses; only a dense matrix tells.
        stale: Whether the matrix has to be set up anew.
        kept: Steps from which Broyden's correction learns.
    """
    along = wp.vec3(0.0, 0.0, 0.0)
    if views.newton.dense.inverted[team.index] == 1:
        if stale:
            find_slopes(team, views, k, pyramidal, follow)
            assemble_densely(team, tree, views, k, depth)
            invert(team, views.newton.dense, team.index, views.newton.dense.unknowns[team.index])
        along = take_dense_direction(team, views)
    else:
        if stale:
            assemble(team, tree, views, k, depth, pyramidal, False)
            factorize(team, views.sys, team.index)
        solve(team, views.sys, team.index)
        correct_direction(team, views, k, kept)
        along = take_direction(team, views, k)
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
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    pyramidal: bool,
    tolerance: float,
    most: int,
    factorized: bool,
    leaps: bool,
) -> Minimum:
    """Make Newton steps from the velocities y until the residual is at most `tolerance`.

    Args:
        team: The team.
        tree: Topology.
        views: What the solve works on; receives the result.
        k: The island.
        depth: Longest chain of dofs.
        pyramidal: Whether friction is bounded by pyramids.
        tolerance: Residual that is good enough [m/s or rad/s].
        most: Most factorizations.
        factorized: Whether the system holds a factor that may be used again.
        leaps: Whether rounds leap, which count on small steps of z from where it is.
    """
    found = Minimum()
    stale = not factorized
    small = views.newton.dense.unknowns[team.index] > 0
    dense = factorized and views.newton.dense.inverted[team.index] == 1
    followed = factorized
    running = int(1)
    enough = float(tolerance)
    last = float(0.0)
    largest = float(0.0)
    farthest = float(0.0)
    along = wp.vec3(0.0, 0.0, 0.0)
    alpha = float(0.0)
    rounded = bool(False)
    near = bool(False)
    kept = int(0)
    while running == 1:
        # far from the solution, it would oscillate if the matrix did not tell how bounds follow impulses
        near = near or (alpha > 0.9 and alpha < 1.1)
        follow = (near or small) and found.steps < FOLLOWING
        counts = apply_laws(team, tree, views, k, depth, pyramidal, follow, alpha)
        switched = counts[0]
        found.residual = find_gap(team, views, k)
        last_one = rounded or found.factorizations >= most or found.steps >= MOST_STEPS
        stuck = found.steps > 0 and stale and switched == 0 and found.residual > STALLED * last
        # an exact step that gains nothing is due to rounding if the residual itself is small
        if found.residual <= LOOSE * enough or last_one or (dense and stuck):
            found.residual = fastest_row(team, tree, views, k, depth, views.newton.gap)
        # where a step by a matrix of this state gains little, rounding is the limit, if the residual is small
        stalled = found.steps > 0 and stale and found.residual > STALLED * last
        done = found.residual <= enough or last_one or (stalled and found.residual <= ROUNDING)
        renews = done and largest > WILD and not leaps
        if renews:
            # z is that of the impulses again, and the method goes on from there
            return_to_centres(team, views.rows, views.islands, k, views.laws)
            copy_island(team, views.islands, k, views.newton.centre, views.newton.z)
            alpha = float(KEPT)
            if farthest > FAR * FAR * along[2]:
                alpha = float(0.0)
            enough = wp.max(tolerance, RENEWED)
            last = float(UNKNOWN)
            largest = float(0.0)
            rounded = bool(False)
        elif done:
            running = 0
        else:
            if found.steps > 0:
                slow = found.residual > REUSE * last and switched > 0
                stale = slow or (found.residual > STALLED * last and kept != 1)
                if dense:
                    stale = switched > 0 or found.residual > REUSE * last
            last = found.residual
            largest = wp.max(largest, last)
        if running == 1 and not renews:
            if dense:
                stale = stale or follow != followed
            followed = follow
            if stale:
                found.factorizations += 1
                kept = 0
                # without sliding contacts the matrix is symmetric, which halves the work of a lane alone
                dense = small and (counts[1] > 0 or not has_one_lane(team))
                if team.lane == 0:
                    views.newton.dense.inverted[team.index] = int(dense)
                sync(team)
            along = find_direction(team, tree, views, k, depth, pyramidal, follow, stale, kept)
            project_step(team, tree, views, k, depth)
            alpha = float(1.0)
            searches = kept == 0
            if dense:
                searches = stale and along[0] < 0.0
            if searches:
                follows = dense and follow
                alpha = search(team, views, k, along[0], along[1], pyramidal, follows)
            if alpha == 1.0 and kept < MOST_KEPT and not dense:
                keep_step(team, views, k, kept)
                kept += 1
            else:
                kept = 0
            advance(team, views, k, alpha)
            farthest = wp.max(farthest, along[2])
            found.steps += 1
            rounded = alpha * alpha * along[1] <= RESOLUTION * RESOLUTION * along[2]
            found.rounded = int(rounded)
    return found
