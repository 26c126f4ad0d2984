"""Terms of a gait: two feet that are lifted in turn by a clock.

The clock of a world counts the steps of its episode. A foot is in the air in the first part of its cycle and
on the ground in the rest; the second foot is half a period away from the first. Every other episode begins
with the second foot. While the command is to stand still, both feet are on the ground.

Stage: environment, all stages
Called by: newtonsim/envs/terms/library.py
Reads: EnvView, TermView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView, point_of
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

PI = wp.constant(3.14159265)
STILL = wp.constant(0.1)  # [m/s and rad/s] commands below which a robot stands


@wp.func
def cycle_of(step: int, episode: int, foot: int, dt: float, period: float) -> float:
    """Part of a foot's cycle that is over, from 0 to 1."""
    turns = float(step) * dt / period + 0.5 * float((episode + foot) % 2)
    return turns - wp.floor(turns)


@wp.func
def lifted(cycle: float, air: float) -> float:
    """Share of its greatest height at which a foot should be: a bell in the first part, `air`, of a cycle."""
    share = float(0.0)
    if cycle < air:
        s = wp.sin(PI * cycle / air)
        share = s * s
    return share


@wp.func
def walks(env: EnvView, w: int, command: int) -> float:
    """1 while the command, from that column of the memory on, is to move, 0 while it is to stand."""
    x = env.memory[w, command]
    y = env.memory[w, command + 1]
    z = env.memory[w, command + 2]
    share = float(0.0)
    if x * x + y * y + z * z >= STILL * STILL:
        share = 1.0
    return share


@wp.kernel
def step_joints(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the clock lifts the legs, and actions shift the targets of the drives from there.

    Numbers: a scale for each action, the shift of each joint when its foot is highest [rad or m], its foot,
    period [s], share of a cycle in the air.
    """
    w = first + wp.tid()
    n = env.actions.shape[1]
    period = term.numbers[3 * n]
    air = term.numbers[3 * n + 1]
    moves = walks(env, w, term.command)
    for k in range(n):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        foot = int(term.numbers[2 * n + k])
        cycle = cycle_of(env.length[w] + 1, env.episode[w], foot, env.control_dt, period)
        target = term.home[k] + moves * term.numbers[n + k] * lifted(cycle, air)
        env.joint_act[w * env.axes + term.axes[k]] = target + term.numbers[k] * action
        env.memory[w, term.action + n + k] = env.memory[w, term.action + k]
        env.memory[w, term.action + k] = action


@wp.kernel
def observe_gait(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: sine and cosine of the first foot's cycle, or zeros. Numbers: period [s]."""
    w = first + wp.tid()
    if mask[w]:
        moves = walks(env, w, term.command)
        cycle = cycle_of(env.length[w] + 1, env.episode[w], 0, env.control_dt, term.numbers[0])
        env.obs[w, term.column] = moves * wp.sin(2.0 * PI * cycle)
        env.obs[w, term.column + 1] = moves * wp.cos(2.0 * PI * cycle)


@wp.kernel
def lift_feet(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: a bell around the heights that the clock asks of the points of feet.

    Numbers: height of a point on the ground [m], greatest lift [m], width of the bell [m²], period [s], share
    of a cycle in the air, points in the frames of their bodies [m].
    """
    w = first + wp.tid()
    moves = walks(env, w, term.command)
    total = float(0.0)
    for k in range(term.bodies.shape[0]):
        point = point_of(term, 5, k)
        height = wp.transform_point(env.body_q[w * env.bodies + term.bodies[k]], point)[2] - term.numbers[0]
        cycle = cycle_of(env.length[w] + 1, env.episode[w], k, env.control_dt, term.numbers[3])
        error = height - moves * term.numbers[1] * lifted(cycle, term.numbers[4])
        total += error * error
    value = wp.exp(-total / term.numbers[2])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value
