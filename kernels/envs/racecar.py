"""A car with two steered wheels that drives to a ball.

Body 0 of a world is the chassis, the last one the ball. The motors are those that steer the left and the
right front wheel, and then those of the left and the right rear wheel.

Stage: environment, starts, actions, observations, rewards
Called by: newtonsim/envs/tasks/racecar.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

MAX_SPEED = wp.constant(0)  # [m/s]
MAX_STEER = wp.constant(1)  # [rad] of a virtual wheel in the middle
WHEEL_RADIUS = wp.constant(2)  # [m]
WHEELBASE = wp.constant(3)  # [m]
TRACK = wp.constant(4)  # [m]
BALL_RADIUS = wp.constant(5)  # [m]
NEAREST = wp.constant(6)  # [m] of the ball at the start
FARTHEST = wp.constant(7)
DISCRETE = wp.constant(8)  # 1 if the action is a number from 0 to 8
HULL_X = wp.constant(9)  # [m] half extents of the chassis
HULL_Y = wp.constant(10)
HULL_Z = wp.constant(11)
HULL_UP = wp.constant(12)  # [m] height of its middle over the axles


@wp.func
def command(env: EnvView, w: int) -> wp.vec2:
    """Throttle and steering, both from -1 to 1."""
    if env.numbers[DISCRETE] == 1.0:
        choice = int(env.actions[w, 0])
        return wp.vec2(float(choice // 3 - 1), float(choice % 3 - 1))
    throttle = wp.clamp(env.actions[w, 0], env.action_low[0], env.action_high[0])
    return wp.vec2(throttle, wp.clamp(env.actions[w, 1], env.action_low[1], env.action_high[1]))


@wp.kernel
def drive_car(first: int, env: EnvView):
    """One thread per world: angles and speeds with which all four wheels roll about one centre (Ackermann).

    If κ = tan(steering) / wheelbase is the curvature of the path of the middle of the rear axle, a point at y
    to its left moves 1 - κ y times as fast.
    """
    w = first + wp.tid()
    action = command(env, w)
    half = 0.5 * env.numbers[TRACK]
    slope = wp.tan(env.numbers[MAX_STEER] * action[1])
    curvature = slope / env.numbers[WHEELBASE]
    spin = env.numbers[MAX_SPEED] * action[0] / env.numbers[WHEEL_RADIUS]
    for k in range(2):
        y = half * float(1 - 2 * k)
        inner = 1.0 - curvature * y
        env.joint_act[w * env.axes + env.motor_axis[k]] = env.motor_gear[k] * wp.atan(slope / inner)
        env.joint_act[w * env.axes + env.motor_axis[2 + k]] = env.motor_gear[2 + k] * spin * inner


@wp.func
def ball_in_car(env: EnvView, w: int) -> wp.vec3:
    """Middle of the ball in the frame of the chassis [m]."""
    ball = wp.transform_get_translation(env.body_q[(w + 1) * env.bodies - 1])
    return wp.transform_point(wp.transform_inverse(env.body_q[w * env.bodies]), ball)


@wp.kernel
def observe_ball(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: position of the ball, as seen from the car."""
    w = first + wp.tid()
    if mask[w]:
        ball = ball_in_car(env, w)
        env.obs[w, 0] = ball[0]
        env.obs[w, 1] = ball[1]


@wp.kernel
def score_car(first: int, env: EnvView):
    """One thread per world: minus the distance between the surfaces of chassis and ball; never over."""
    w = first + wp.tid()
    ball = ball_in_car(env, w)
    gap = wp.vec3(
        wp.max(wp.abs(ball[0]) - env.numbers[HULL_X], 0.0),
        wp.max(wp.abs(ball[1]) - env.numbers[HULL_Y], 0.0),
        wp.max(wp.abs(ball[2] - env.numbers[HULL_UP]) - env.numbers[HULL_Z], 0.0),
    )
    env.reward[w] = -wp.max(wp.length(gap) - env.numbers[BALL_RADIUS], 0.0)
    env.terminated[w] = False


@wp.kernel
def spawn_ball(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: the ball lies in any direction; its seven coordinates are the last ones."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = random_of(env, w, SPAWN)
    angle = 6.283185307 * wp.randf(state)
    distance = uniform(env.numbers[NEAREST], env.numbers[FARTHEST], wp.randf(state))
    at = (w + 1) * env.coords - 7
    env.joint_q[at] = distance * wp.cos(angle)
    env.joint_q[at + 1] = distance * wp.sin(angle)
