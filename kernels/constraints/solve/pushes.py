"""Rows between bodies that pull against each other: softness, and a bound of the energy of their pushes.

A row that holds bodies together drives the error of their positions to zero: its target velocity is its push.
Rows with the Delassus matrix A, the pushes t and the velocities u if nothing acted, due to loads, have the
impulses p = A⁻¹ (t - u). The pushes alone would give the bodies the energy tᵀA⁻¹t / 2; by the inequality of
Cauchy and Schwarz this is at least (pᵀt)² / (2 pᵀA p), where pᵀA p = pᵀ(t - u). Usually it is about the
energy of the heaviest body moving as fast as the rows demand. Where rows contradict each other, or a linkage
hardly moves along them, A is nearly singular, and impulses would have no bound: they would grow from step to
step, and be let loose when the pose changes.
Therefore:

- Rows are a little soft about their impulses of the last step, by a share of the inverse mass of the heaviest
  tree that an island's rows move. Since a load is part of the island, it hardly sags, however light the links
  that bear it, and not at all at rest.
- If the pushes of a solved island add more energy than it takes to follow them, they are reduced by one
  factor, rows become softer, now about zero, and the island is solved once more. Its rows still hold their
  bodies, and remove errors more slowly. What tension does to bodies that turn is a load, not a push: the
  targets of rows contain it as their bend.

Sources: Baumgarte, "Stabilization of constraints and integrals of motion in dynamical systems", 1972;
Tikhonov and Arsenin, "Solutions of ill-posed problems", 1977.

Stage: constraints, before and after the solve of an island
Called by: kernels/constraints/solve/prediction.py, kernels/constraints/solve/solve.py,
    kernels/constraints/solve/sweep_stage.py
Reads: PairRowView, SolveViews, TreeView
Writes: PairRowView, SolveViews
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Team, lanes, max_lanes, sum_lanes, sync
from newtonsim.kernels.constraints.dof_rows import UNBOUNDED
from newtonsim.kernels.constraints.pair_rows import acts_by_force
from newtonsim.kernels.constraints.solve.sweeps import apply_impulses, drop_impulses
from newtonsim.kernels.constraints.solve.views import SolveViews
from newtonsim.kernels.constraints.solve.wedges import note_contradiction
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# softness of rows, as shares of the inverse mass, or inertia, of the heaviest tree at a row of the island; a
# lever makes the torque of a load larger than its inertia alone would tell
YIELD = wp.constant(1.0e-3)
YIELD_TURN = wp.constant(1.0e-4)
# energy that pushes may add, over that of the heaviest tree moving as fast as one of them demands
AMPLE = wp.constant(4.0)
# pushes that add no energy worth a second solve [m/s or rad/s]
SLOW = wp.constant(1.0e-3)
# factor of the softness if they add more; least share of the pushes that remains then: with less of both,
# bodies that are torn to two sides would be shaken at metres per second, with more they would take seconds to
# get where they can; and the share below which rows contradict each other
SOFTER = wp.constant(100.0)
SLOWEST = wp.constant(0.05)
CONTRADICTION = wp.constant(0.1)


@wp.func
def soften_pair(rows: wp.ref[PairRowView], p: int, mass: float, inertia: float, factor: float, about: float):
    """Make a row between bodies softer, about a share of its impulse.

    Args:
        rows: All rows between bodies.
        p: The row.
        mass: That of the heaviest tree which such rows of its island move [kg].
        inertia: The largest inertia which others move [kg m²].
        factor: Softness over the least one.
        about: The share.
    """
    if rows.mass[p] > 0.0:
        softness = factor * YIELD_TURN / inertia
        if acts_by_force(rows.kind[p]):
            softness = factor * YIELD / mass
        rows.softness[p] = rows.softness[p] + softness
        centre = about * softness * rows.impulse[p]
        rows.centre[p] = rows.centre[p] + centre
        rows.target_lower[p] = rows.target_lower[p] + centre
        rows.target_upper[p] = rows.target_upper[p] + centre


@wp.func(inline=False)
def soften_pairs(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
    factor: float,
    about: float,
):
    """Make rows between bodies of an island softer, by a factor of the least softness.

    They are soft about the share `about` of their impulses.
    """
    mass = float(0.0)
    inertia = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        if acts_by_force(views.rows.pair.kind[p]):
            mass = wp.max(mass, views.rows.pair.mass[p])
        else:
            inertia = wp.max(inertia, views.rows.pair.mass[p])
    mass = max_lanes(team, mass)
    inertia = max_lanes(team, inertia)
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        soften_pair(views.rows.pair, views.islands.pair[i], mass, inertia, factor, about)


@wp.func(inline=False)
def ample_energy(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> float:
    """Twice the energy that pushes of an island may add [J]; 0 if they are not worth a second solve."""
    fastest = float(0.0)
    total = float(0.0)
    mass = float(0.0)
    turning = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        push = wp.abs(views.rows.pair.push[p])
        if acts_by_force(views.rows.pair.kind[p]):
            fastest = wp.max(fastest, push)
            total += push
            mass = wp.max(mass, views.rows.pair.mass[p])
        elif push >= SLOW:
            turning += views.rows.pair.mass[p] * push * push
    fastest = max_lanes(team, fastest)
    total = sum_lanes(team, total)
    turning = sum_lanes(team, turning)
    ample = float(0.0)
    if fastest >= SLOW or turning > 0.0:
        # rows in line add up
        ample = max_lanes(team, mass) * wp.max(AMPLE * fastest * fastest, total * total) + AMPLE * turning
    return ample


@wp.func(inline=False)
def share_of_pushes(
    team: Team,
    views: wp.ref[SolveViews],
    k: int,
) -> float:
    """Share of the pushes of a solved island that adds no more energy than it takes to follow them."""
    ample = ample_energy(team, views, k)
    if ample == 0.0:
        return 1.0
    work = float(0.0)
    load = float(0.0)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        push = views.rows.pair.push[p]
        holds = views.rows.pair.target_lower[p] == views.rows.pair.target_upper[p]
        if views.rows.pair.mass[p] > 0.0 and (holds or push != 0.0):
            work += views.rows.pair.impulse[p] * push
            load -= views.rows.pair.impulse[p] * views.rows.pair.free[p]
    dofs = views.islands.dofs[k]
    for i in range(dofs[0] + team.lane, dofs[1], lanes(team)):
        r = views.islands.dof_row[i]
        if views.rows.dof.lower[r] > -UNBOUNDED and views.rows.dof.upper[r] < UNBOUNDED:
            # a drive, or dry friction, that is held up pulls like a load
            load += views.rows.dof.delassus[r] * views.rows.dof.impulse[r] * views.rows.dof.impulse[r]
    work = wp.max(sum_lanes(team, work), 0.0)
    load = wp.max(sum_lanes(team, load), 0.0)
    share = float(1.0)
    if work * work > ample * (work + load):
        share = wp.max(ample * (work + load) / (work * work), SLOWEST)
    return share


@wp.func(inline=False)
def limit_pushes(
    team: Team,
    tree: wp.ref[TreeView],
    views: wp.ref[SolveViews],
    k: int,
    depth: int,
    share: float,
):
    """Leave a share of the pushes of a solved island, which has to be solved again."""
    if share < CONTRADICTION:
        note_contradiction(team, views, k)
    apply_impulses(team, tree, views, k, depth, -1.0)
    # whose lanes meet before they write
    soften_pairs(team, views, k, SOFTER - 1.0, 0.0)
    drop_impulses(team, views, k)
    pairs = views.islands.pairs[k]
    for i in range(pairs[0] + team.lane, pairs[1], lanes(team)):
        p = views.islands.pair[i]
        push = views.rows.pair.push[p]
        lower = views.rows.pair.target_lower[p] - views.rows.pair.centre[p]
        upper = views.rows.pair.target_upper[p] - views.rows.pair.centre[p]
        less = (1.0 - share) * (push - views.rows.pair.bend[p])
        holds = lower == upper
        # of a limit, only the bound that is violated
        views.rows.pair.target_lower[p] = lower - wp.where(holds or push > 0.0, less, 0.0)
        views.rows.pair.target_upper[p] = upper - wp.where(holds or push < 0.0, less, 0.0)
        views.rows.pair.push[p] = 0.0  # it is not reduced again
    sync(team)
