"""Data of the kernels of environments: a struct of arrays, and counter-based random numbers.

Lengths: W worlds, A actions, O observations, S readings of sensors, M memory, K kept, all of one world; world
w owns the coordinates from `w * coords` on, likewise its dofs, axes and bodies.

Stage: environment, all stages
Called by: newtonsim/envs/__init__.py, kernels/envs/, kernels/envs/terms/
Reads: EnvView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp


@wp.struct
class EnvView:
    """State, controls, task and results of all worlds of an environment."""

    # of the model and the simulation, flat over all worlds
    joint_q: wp.array(dtype=float)
    joint_qd: wp.array(dtype=float)
    body_q: wp.array(dtype=wp.transform)
    body_qd: wp.array(dtype=wp.spatial_vector)
    body_f: wp.array(dtype=wp.spatial_vector)
    joint_act: wp.array(dtype=float)
    joint_f: wp.array(dtype=float)
    joint_axis_mode: wp.array(dtype=int)
    body_mass: wp.array(dtype=float)
    body_com: wp.array(dtype=wp.vec3)
    body_inertia: wp.array(dtype=wp.mat33)
    body_wrench: wp.array(dtype=wp.spatial_vector)  # (τ, f) of contacts at the COM, for tasks that ask for it
    # how many of them each world has
    coords: int
    dofs: int
    axes: int
    bodies: int
    # of the task
    motor_axis: wp.array(dtype=int)  # (A) axis of a world that each action drives
    motor_gear: wp.array(dtype=float)  # (A) effort or target of it at action 1
    action_low: wp.array(dtype=float)  # (A)
    action_high: wp.array(dtype=float)  # (A)
    numbers: wp.array(dtype=float)  # constants that the task names
    control_dt: float  # [s] time of one step of the environment
    # of the episodes
    key: wp.array(dtype=int)  # (W) from the seed
    episode: wp.array(dtype=int)  # (W) number of the episode
    strength: wp.array(dtype=float)  # (W) factor on the efforts of motors
    length: wp.array(dtype=int)  # (W) steps of the episode so far
    terrain: wp.array(dtype=float)  # (W) first level as a share of the hardest, -1 for the task's choice
    memory: wp.array2d(dtype=float)  # (W, M) memory of the task from step to step
    kept: wp.array2d(dtype=float)  # (W, K) memory from episode to episode
    actions: wp.array2d(dtype=float)  # (W, A)
    sensed: wp.array2d(dtype=float)  # (W, S) readings of the task's sensors
    # results
    obs: wp.array2d(dtype=float)  # (W, O)
    reward: wp.array(dtype=float)  # (W)
    terminated: wp.array(dtype=bool)  # (W)
    success: wp.array(dtype=bool)  # (W) whether the goal is reached, of tasks that have one


SPAWN = wp.constant(0)
RANDOMISE = wp.constant(1)
PUSH = wp.constant(2)  # and all numbers from here on, one for each step
SENSE = wp.constant(-1)  # and all numbers down from here, one for each step


@wp.func
def random_of(env: EnvView, w: int, purpose: int) -> wp.uint32:
    """Start of the random numbers of a world's episode for one purpose, independent of other worlds."""
    of_episode = wp.rand_init(env.key[w], env.episode[w])
    return wp.rand_init(int(of_episode), purpose)


@wp.func
def uniform(low: float, high: float, u: float) -> float:
    """Number between two bounds for u in [0, 1)."""
    return low + (high - low) * u
