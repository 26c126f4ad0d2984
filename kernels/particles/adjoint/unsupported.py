"""Worlds of an implicit step in which a term without gradient acts, or sweeps stopped early.

Stage: backward pass of particles, worlds without gradient
Called by: solvers/particles/adjoint.py, solvers/xpbd/adjoint.py
Reads: GridView, PairView, SubstepView, SystemView, goal, reason, residual, solved, stepped, world
Writes: kept_reason, reason, sums
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.kernels.particles.adjoint.system import SystemView
from newtonsim.kernels.particles.grid import GridView
from newtonsim.kernels.particles.pairs import PairView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ZERO = wp.constant(wp.float64(0.0))
# part of a velocity
ROUNDING = wp.constant(wp.float64(1.0e-3))
TOUCHES_BODY = wp.constant(1)
TOUCHES_PARTICLE = wp.constant(2)
NOT_SOLVED = wp.constant(3)
BOUNCES = wp.constant(4)
BODIES = wp.constant(5)


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
    """One thread per world: mark it if its linear system is unsolved; NaN counts as solved."""
    w = first + wp.tid()
    if residual[w] > most:
        reason[w] = NOT_SOLVED


@wp.kernel
def weigh_residuals(
    first: int,
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    system: SystemView,
    sums: wp.array(dtype=wp.vec2d),
):
    """One thread per world: add up squares of residual forces, and of acting forces, over masses.

    Forces that change velocities by less than the share `ROUNDING` count as rounding: in free flight, there
    are no forces to balance.
    """
    w = first + wp.tid()
    total = wp.vec2d()
    for n in range(system.world_start[w], system.world_start[w + 1]):
        i = system.particle[n]
        if s.mass[i] > ZERO:
            u = wp.vec3d(s.u[i])
            acted = wp.length_sq(u - wp.vec3d(goal[i])) + ROUNDING * ROUNDING * wp.length_sq(u)
            scale = s.mass[i] / (s.dt * s.dt * s.dt * s.dt)
            total += wp.vec2d(wp.length_sq(s.residual[i]) / s.mass[i], acted * scale)
    sums[w] = sums[w] + total


@wp.kernel
def compare_ends(
    first: int,
    solved: wp.array(dtype=wp.vec3),
    stepped: wp.array(dtype=wp.vec3),
    goal: wp.array(dtype=wp.vec3),
    s: SubstepView,
    system: SystemView,
    sums: wp.array(dtype=wp.vec2d),
):
    """One thread per world: distance of a step from the converged one, and effect of forces in the latter.

    Args:
        first: First world.
        solved: Velocities after the converged step [m/s].
        stepped: Velocities after the actual step [m/s].
        goal: Displacements by inertia in the last substep [m].
        s: The last substep of the converged step.
        system: The particles of each world.
        sums: Squares of both by masses, added to, as in `weigh_residuals`.
    """
    w = first + wp.tid()
    total = wp.vec2d()
    for n in range(system.world_start[w], system.world_start[w + 1]):
        i = system.particle[n]
        if s.mass[i] > ZERO:
            u = wp.vec3d(s.u[i])
            acted = wp.length_sq(u - wp.vec3d(goal[i])) + ROUNDING * ROUNDING * wp.length_sq(u)
            off = wp.vec3d(stepped[i]) - wp.vec3d(solved[i])
            total += wp.vec2d(wp.length_sq(off), acted / (s.dt * s.dt)) * s.mass[i]
    sums[w] = sums[w] + total


@wp.kernel
def keep_reasons(first: int, reason: wp.array(dtype=int), kept_reason: wp.array(dtype=int)):
    """One thread per world: store why a step had no gradient."""
    w = first + wp.tid()
    if reason[w] != 0:
        kept_reason[w] = reason[w]
