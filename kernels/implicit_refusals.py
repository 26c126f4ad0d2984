"""What has no gradient in an implicit step of particles: worlds in which it acts are marked."""

import warp as wp

from newtonsim.kernels.particle_grid import GridView
from newtonsim.kernels.particle_pairs import PairView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

TOUCHES_BODY = wp.constant(1)
TOUCHES_PARTICLE = wp.constant(2)
NOT_SOLVED = wp.constant(3)
BOUNCES = wp.constant(4)


@wp.kernel
def mark_pairs(
    first: int, grid: GridView, pairs: PairView, world: wp.array(dtype=int), reason: wp.array(dtype=int)
):
    """One thread per place of the grid: whether its particle presses on another."""
    a = first + wp.tid()
    i = grid.order[a]
    if i < 0:
        return
    for k in range(pairs.start[a], pairs.start[a] + pairs.count[a]):
        if pairs.pair[k].push != 0.0:
            reason[world[i]] = TOUCHES_PARTICLE


@wp.kernel
def mark_unsolved(
    first: int, residual: wp.array(dtype=wp.float64), most: wp.float64, reason: wp.array(dtype=int)
):
    """One thread per world: whether its linear system has not been solved; NaN counts as solved."""
    w = first + wp.tid()
    if residual[w] > most:
        reason[w] = NOT_SOLVED


@wp.kernel
def keep_reasons(first: int, reason: wp.array(dtype=int), kept: wp.array(dtype=int)):
    """One thread per world: keep why a step had no gradient."""
    w = first + wp.tid()
    if reason[w] != 0:
        kept[w] = reason[w]
