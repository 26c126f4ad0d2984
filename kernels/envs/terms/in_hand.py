"""Terms of rewards and ends for an object that lies in a hand and is turned there.

Source: Qi, Kumar, Calandra, Ma, Malik, "In-hand object rotation via rapid motor adaptation", 2022: rewards
for a bounded angular velocity about an axis, and costs of speed, efforts and distance from the initial pose.

Stage: environment, rewards
Called by: newtonsim/envs/terms/library.py
Reads: EnvView, TermView
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def turn_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: angular velocity of a body about the vertical [rad/s], within bounds.

    Numbers: greatest size that counts [rad/s].
    """
    w = first + wp.tid()
    spin = wp.spatial_top(env.body_qd[w * env.bodies + term.bodies[0]])[2]
    value = wp.clamp(spin, -term.numbers[0], term.numbers[0])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def drifting(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: squared speed of the centre of mass of a body [m²/s²]."""
    w = first + wp.tid()
    velocity = wp.spatial_bottom(env.body_qd[w * env.bodies + term.bodies[0]])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * wp.length_sq(velocity)


@wp.kernel
def exerting(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: sum of squares of readings of a sensor, as of the efforts of drives.

    Numbers: the first reading and how many there are.
    """
    w = first + wp.tid()
    start = term.sensed + int(term.numbers[0])
    total = float(0.0)
    for k in range(int(term.numbers[1])):
        total += env.sensed[w, start + k] * env.sensed[w, start + k]
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * total


@wp.func
def has_dropped(w: int, env: EnvView, term: TermView) -> bool:
    """True if the origin of a body is more than the first number below that of the base [m]."""
    base = wp.transform_get_translation(env.body_q[w * env.bodies + term.base])
    body = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
    return body[2] < base[2] - term.numbers[0]


@wp.kernel
def dropping(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 while a body is far below the base. Numbers: that distance [m]."""
    w = first + wp.tid()
    if has_dropped(w, env, term):
        env.reward[w] = env.reward[w] + env.control_dt * term.weight


@wp.kernel
def end_dropped(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: a body is far below the base. Numbers: that distance [m]."""
    w = first + wp.tid()
    if has_dropped(w, env, term):
        env.terminated[w] = True
