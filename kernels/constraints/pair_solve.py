"""Projected Gauss-Seidel over the rows between bodies and dofs alone, see `gauss_seidel`.

Stage: constraints, solve without contacts
Called by: solvers/featherstone/constraints.py
Reads: Teams, TreeView
Writes: PairRowView, acted, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, own_team
from newtonsim.kernels.constraints.chains import team_push_row
from newtonsim.kernels.constraints.gauss_seidel import relax_pair
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def solve_pairs(
    teams: Teams,
    tree: wp.array(dtype=TreeView),
    rows: wp.array(dtype=PairRowView),
    depth: int,
    max_iterations: int,
    tolerance: float,
    z: wp.array(dtype=float),
    acted: wp.array(dtype=int),
):
    """One team per world: impulses of the rows between bodies or dofs, and z after them."""
    team = own_team(teams, wp.tid())
    w = team.index
    begin = rows[0].world_start[w]
    end = rows[0].world_start[w + 1]
    for p in range(begin, end):
        if rows[0].delassus[p] > 0.0:
            team_push_row(team, tree[0], rows[0].leaf[p], p, depth, rows[0].impulse[p], rows[0].B, z)
    used = int(0)
    change = tolerance + 1.0
    while used < max_iterations and change > tolerance:
        change = float(0.0)
        for p in range(begin, end):
            change = wp.max(change, relax_pair(team, tree[0], rows[0], p, depth, z))
        used += 1
    any = int(0)
    for p in range(begin, end):
        if rows[0].impulse[p] != 0.0:
            any = int(1)
    acted[w] = any
