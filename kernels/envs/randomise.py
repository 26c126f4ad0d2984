"""Random masses, friction, motors, drives, pushes and terrain of worlds, drawn for each episode.

Stage: environment, starts and pushes
Called by: newtonsim/envs/randomise.py
Reads: EnvView, RangeView, mask
Writes: EnvView, RangeView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import inverse_of
from newtonsim.kernels.envs.views import PUSH, RANDOMISE, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class RangeView:
    """Ranges and destinations of random values; nominal values are those of the model at the start."""

    mass_low: float
    mass_high: float
    friction_low: float
    friction_high: float
    strength_low: float
    strength_high: float
    gains_low: float
    gains_high: float
    terrain_low: float
    terrain_high: float
    draws_mass: int  # 1 if mass and inertia are written, 0 if they stay as they are
    draws_friction: int  # likewise
    draws_gains: int  # likewise, by gains or strength
    draws_terrain: int
    push_every: int  # steps of the environment between two pushes, 0 for none
    push_force: float  # [N] largest along each horizontal axis
    nominal_mass: wp.array(dtype=float)
    nominal_inertia: wp.array(dtype=wp.mat33)
    nominal_mu: wp.array(dtype=float)
    nominal_ke: wp.array(dtype=float)
    nominal_kd: wp.array(dtype=float)
    mass: wp.array(dtype=float)
    inv_mass: wp.array(dtype=float)
    inertia: wp.array(dtype=wp.mat33)
    inv_inertia: wp.array(dtype=wp.mat33)
    mu: wp.array(dtype=float)
    ke: wp.array(dtype=float)
    kd: wp.array(dtype=float)
    shape_start: wp.array(dtype=int)  # (W + 1) first shape of each world


@wp.kernel
def draw_worlds(first: int, env: EnvView, ranges: RangeView, mask: wp.array(dtype=bool)):
    """One thread per world: draw all but the pushes for the masked ones.

    A quantity without a range does not change, since other draws may have set it permanently. Its numbers are
    drawn anyway, so that those of the others do not depend on which ranges are given.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    state = random_of(env, w, RANDOMISE)
    env.strength[w] = uniform(ranges.strength_low, ranges.strength_high, wp.randf(state))
    grip = uniform(ranges.friction_low, ranges.friction_high, wp.randf(state))
    if ranges.draws_friction == 1:
        for s in range(ranges.shape_start[w], ranges.shape_start[w + 1]):
            ranges.mu[s] = grip * ranges.nominal_mu[s]
    for k in range(env.bodies):
        b = w * env.bodies + k
        factor = uniform(ranges.mass_low, ranges.mass_high, wp.randf(state))
        if ranges.draws_mass == 1:
            ranges.mass[b] = factor * ranges.nominal_mass[b]
            ranges.inertia[b] = factor * ranges.nominal_inertia[b]
            if ranges.mass[b] > 0.0:
                ranges.inv_mass[b] = 1.0 / ranges.mass[b]
                ranges.inv_inertia[b] = inverse_of(ranges.inertia[b])
    for k in range(env.axes):
        axis = w * env.axes + k
        stiffness = env.strength[w] * uniform(ranges.gains_low, ranges.gains_high, wp.randf(state))
        damping = env.strength[w] * uniform(ranges.gains_low, ranges.gains_high, wp.randf(state))
        if ranges.draws_gains == 1:
            ranges.ke[axis] = stiffness * ranges.nominal_ke[axis]
            ranges.kd[axis] = damping * ranges.nominal_kd[axis]
    if ranges.draws_terrain == 1:
        env.terrain[w] = uniform(ranges.terrain_low, ranges.terrain_high, wp.randf(state))


@wp.kernel
def push_worlds(first: int, env: EnvView, ranges: RangeView):
    """One thread per world: at intervals, a random horizontal force on body 0 for one step."""
    w = first + wp.tid()
    b = w * env.bodies
    force = wp.vec3(0.0, 0.0, 0.0)
    if (env.length[w] + 1) % ranges.push_every == 0:
        state = random_of(env, w, PUSH + env.length[w])
        force[0] = uniform(-ranges.push_force, ranges.push_force, wp.randf(state))
        force[1] = uniform(-ranges.push_force, ranges.push_force, wp.randf(state))
    env.body_f[b] = wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), force)
