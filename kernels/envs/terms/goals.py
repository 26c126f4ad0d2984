"""Terms of rewards for points at a target, such as a hand at a goal or a cube in a hand.

The target is the command, a point in the world [m].

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
def near_target(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 - tanh(distance / width) of a point of the base from the target.

    The goal is reached within a given distance. Numbers: the point in the frame of the base [m], width [m],
    that distance [m].
    """
    w = first + wp.tid()
    point = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
    place = wp.transform_point(env.body_q[w * env.bodies + term.base], point)
    c = term.command
    distance = wp.length(wp.vec3(env.memory[w, c], env.memory[w, c + 1], env.memory[w, c + 2]) - place)
    env.success[w] = distance < term.numbers[4]
    value = 1.0 - wp.tanh(distance / term.numbers[3])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def near_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 - tanh(distance / width) of a point of the base from a body.

    Numbers: the point in the frame of the base [m], width [m].
    """
    w = first + wp.tid()
    point = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
    place = wp.transform_point(env.body_q[w * env.bodies + term.base], point)
    body = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
    value = 1.0 - wp.tanh(wp.length(body - place) / term.numbers[3])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def bring_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 for a body that is lifted, and 1 - tanh(distance / width) from the target.

    Numbers: height that counts as lifted [m], width [m], distance that counts as brought [m].
    """
    w = first + wp.tid()
    body = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
    c = term.command
    distance = wp.length(wp.vec3(env.memory[w, c], env.memory[w, c + 1], env.memory[w, c + 2]) - body)
    env.success[w] = distance < term.numbers[2]
    value = float(0.0)
    if body[2] > term.numbers[0]:
        value = 2.0 - wp.tanh(distance / term.numbers[1])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def hold_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 for a body at a point of the base that keeps fingers from closing.

    Numbers: the point in the frame of the base [m], greatest distance of the body from it [m], least distance
    of the term's joints from the targets of their drives, towards closing [m].
    """
    w = first + wp.tid()
    point = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
    place = wp.transform_point(env.body_q[w * env.bodies + term.base], point)
    body = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
    held = wp.length(body - place) < term.numbers[3]
    for k in range(term.coords.shape[0]):
        target = env.joint_act[w * env.axes + term.axes[k]]
        if env.joint_q[w * env.coords + term.coords[k]] - target < term.numbers[4]:
            held = False
    if held:
        env.reward[w] = env.reward[w] + env.control_dt * term.weight


@wp.func
def way_onto(w: int, env: EnvView, term: TermView, height: float) -> wp.vec3:
    """From the first body of a term to the place at a height above the second [m]."""
    start = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
    below = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[1]])
    return below + wp.vec3(0.0, 0.0, height) - start


@wp.kernel
def bring_onto_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 for a body that is lifted, and 1 - tanh(distance / width) from above another.

    Numbers: height that counts as lifted [m], width [m], height of the one above the other [m].
    """
    w = first + wp.tid()
    distance = wp.length(way_onto(w, env, term, term.numbers[2]))
    body = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
    value = float(0.0)
    if body[2] > term.numbers[0]:
        value = 2.0 - wp.tanh(distance / term.numbers[1])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def rest_on_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1 for a body that rests on another, and that the hand has let go.

    The goal is reached then. Numbers: the point in the frame of the base [m], height of the one above the
    other [m], greatest distance of their middles along the ground [m], greatest error of the height [m],
    greatest speed [m/s], least distance of the point from the body [m].
    """
    w = first + wp.tid()
    way = way_onto(w, env, term, term.numbers[3])
    upper = w * env.bodies + term.bodies[0]
    point = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
    hand = wp.transform_point(env.body_q[w * env.bodies + term.base], point)
    rests = wp.length(wp.vec2(way[0], way[1])) < term.numbers[4]
    rests = rests and wp.abs(way[2]) < term.numbers[5]
    rests = rests and wp.length(wp.spatial_bottom(env.body_qd[upper])) < term.numbers[6]
    away = wp.length(wp.transform_get_translation(env.body_q[upper]) - hand)
    rests = rests and away > term.numbers[7]
    env.success[w] = rests
    if rests:
        env.reward[w] = env.reward[w] + env.control_dt * term.weight
