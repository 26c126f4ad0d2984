"""Terms that end episodes.

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
def end_low(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the base is low. Numbers: least height of its origin [m]."""
    w = first + wp.tid()
    p = wp.transform_get_translation(env.body_q[w * env.bodies + term.base])
    if p[2] < term.numbers[0]:
        env.terminated[w] = True


@wp.kernel
def end_near_ground(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the base is low above the surface below its sensor. Numbers: least height [m]."""
    w = first + wp.tid()
    if -env.sensed[w, term.sensed] < term.numbers[0]:
        env.terminated[w] = True


@wp.kernel
def end_tilted(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the base is tilted. Numbers: cosine of the largest tilt."""
    w = first + wp.tid()
    turn = wp.transform_get_rotation(env.body_q[w * env.bodies + term.base])
    if wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0))[2] < term.numbers[0]:
        env.terminated[w] = True


@wp.kernel
def end_far(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the base is far from the target. Numbers: largest distance [m]."""
    w = first + wp.tid()
    p = wp.transform_get_translation(env.body_q[w * env.bodies + term.base])
    c = term.command
    off = wp.vec3(env.memory[w, c], env.memory[w, c + 1], env.memory[w, c + 2]) - p
    if wp.length(off) > term.numbers[0]:
        env.terminated[w] = True


@wp.kernel
def end_touching(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: one of the bodies touches anything."""
    w = first + wp.tid()
    for k in range(term.bodies.shape[0]):
        if env.sensed[w, term.sensed + 4 * k + 3] > 0.0:
            env.terminated[w] = True
