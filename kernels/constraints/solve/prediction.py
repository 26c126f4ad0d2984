"""Rows between bodies in the predicted velocity, in whose middle velocity-dependent forces are taken.

Stage: constraints, before the smooth dynamics of the middle of the step
Called by: solvers/featherstone/constraints.py
Reads: Teams, TreeView
Writes: PairRowView, acted, z
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, lanes, max_lanes, own_team, sync
from newtonsim.kernels.constraints.chains import team_push_row
from newtonsim.kernels.constraints.pair_rows import acts_by_force
from newtonsim.kernels.constraints.solve.gauss_seidel import relax_pair
from newtonsim.kernels.constraints.solve.pushes import soften_pair
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# softness of rows here, over the one that they have in the solve of a step
SOFTNESS = wp.constant(60.0)


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
    """One team per world: impulses of the rows between bodies or dofs, and z after them.

    The rows are soft about the impulses of the last step. Those that contradict each other would otherwise
    have nearly unlimited impulses, and velocities at which velocity-dependent forces are nonsense.
    """
    team = own_team(teams, wp.tid())
    w = team.index
    begin = rows[0].world_start[w]
    end = rows[0].world_start[w + 1]
    mass = float(0.0)
    inertia = float(0.0)
    for p in range(begin + team.lane, end, lanes(team)):
        if acts_by_force(rows[0].kind[p]):
            mass = wp.max(mass, rows[0].mass[p])
        else:
            inertia = wp.max(inertia, rows[0].mass[p])
    mass = max_lanes(team, mass)
    inertia = max_lanes(team, inertia)
    for i in range(team.lane, end - begin, lanes(team)):
        soften_pair(rows[0], end - 1 - i, mass, inertia, SOFTNESS, 1.0)
    sync(team)
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
