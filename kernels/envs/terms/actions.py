"""Conversion of actions to targets of drives or thrusts of rotors; the last two actions are stored.

Stage: environment, first of a step, actions
Called by: newtonsim/envs/terms/library.py
Reads: EnvView, TermView
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def aim_joints(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: actions shift the targets of the drives from home; numbers: a scale for each."""
    w = first + wp.tid()
    n = env.actions.shape[1]
    for k in range(n):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        env.joint_act[w * env.axes + term.axes[k]] = term.home[k] + term.numbers[k] * action
        env.memory[w, term.action + n + k] = env.memory[w, term.action + k]
        env.memory[w, term.action + k] = action


@wp.kernel
def shift_joints(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: actions shift current targets of the drives; numbers: step, least, greatest."""
    w = first + wp.tid()
    n = env.actions.shape[1]
    for k in range(n):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        axis = w * env.axes + term.axes[k]
        target = env.joint_act[axis] + term.numbers[k] * action
        env.joint_act[axis] = wp.clamp(target, term.numbers[n + k], term.numbers[2 * n + k])
        env.memory[w, term.action + n + k] = env.memory[w, term.action + k]
        env.memory[w, term.action + k] = action


@wp.kernel
def spin_rotors(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: thrusts of rotors along z of the base, from 0 to the greatest.

    Numbers: greatest thrust [N], then for each rotor its place in the frame of the base [m] and the torque
    about z for a thrust [m]. Efforts of a world are scaled by its strength.
    """
    w = first + wp.tid()
    b = w * env.bodies + term.base
    turn = wp.transform_get_rotation(env.body_q[b])
    force = wp.vec3(0.0, 0.0, 0.0)
    torque = wp.vec3(0.0, 0.0, 0.0)
    n = env.actions.shape[1]
    for k in range(n):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        lift = wp.vec3(0.0, 0.0, env.strength[w] * 0.5 * (1.0 + action) * term.numbers[0])
        place = wp.vec3(term.numbers[1 + 4 * k], term.numbers[2 + 4 * k], term.numbers[3 + 4 * k])
        force += lift
        torque += wp.cross(place - env.body_com[b], lift) + term.numbers[4 + 4 * k] * lift
        env.memory[w, term.action + n + k] = env.memory[w, term.action + k]
        env.memory[w, term.action + k] = action
    env.body_f[b] = wp.spatial_vector(wp.quat_rotate(turn, torque), wp.quat_rotate(turn, force))
