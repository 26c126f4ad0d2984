"""A quadruped on terrain: patches of increasing difficulty, chosen in each world by the robot's progress.

Memory: as in `kernels.envs.quadruped`, then the target heading [rad]. Kept between episodes: level and kind
of the patch, start of the episode, and distance covered. Numbers: those of `kernels.envs.quadruped` for
twelve motors, those named below, then the height of the platform of each patch, kind by kind within a level.

Stage: environment, starts, actions, rewards
Called by: newtonsim/envs/tasks/quadruped_terrain.py, kernels/envs/terms/events.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.quadruped import (
    MAX_TILT,
    MAX_TURN,
    MIN_HEIGHT,
    observe_trunk,
    orientation,
    own_down,
    spawn_pose,
    tracking_reward,
)
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

LEVELS = wp.constant(20)
KINDS = wp.constant(21)
PATCH_SIZE = wp.constant(22)  # [m]
FIRST_LEVELS = wp.constant(23)  # number of levels in which first episodes start
SECONDS = wp.constant(24)  # [s] of an episode
CURRICULUM = wp.constant(25)  # 1 if levels change
STANDING = wp.constant(26)  # [m] of the trunk above the ground
SCAN = wp.constant(27)  # first column of the height scan
BELOW = wp.constant(28)  # column of the ground below the trunk
PLATFORMS = wp.constant(29)

HEADING = wp.constant(27)  # place in the memory

# places in what is kept
LEVEL = wp.constant(0)
KIND = wp.constant(1)
START = wp.constant(2)  # x and y
WALKED = wp.constant(4)  # [m] from the start, -1 before the first step
WANTED = wp.constant(5)  # [m] distance that the command requires in a whole episode

START_SPREAD = wp.constant(0.5)  # [m] about the middle of a patch
LEAST_COMMAND = wp.constant(0.2)  # [m/s]; slower ones stand still
TURN_GAIN = wp.constant(0.5)  # [1/s] gain from heading error to commanded turning
SEEN_HEIGHT = wp.constant(1.0)  # [m] largest value in the observation


@wp.func
def turning_to(heading: float, turn: wp.quat, most: float) -> float:
    """Turning that brings a body with a given orientation to a heading, at most `most` [rad/s]."""
    ahead = wp.quat_rotate(turn, wp.vec3(1.0, 0.0, 0.0))
    error = heading - wp.atan2(ahead[1], ahead[0])
    error = wp.atan2(wp.sin(error), wp.cos(error))
    return wp.clamp(TURN_GAIN * error, -most, most)


@wp.func
def turn_to(env: EnvView, w: int) -> float:
    """Turning that brings the trunk to its target heading [rad/s]."""
    return turning_to(env.memory[w, HEADING], orientation(env, w), env.numbers[MAX_TURN])


@wp.kernel
def observe_on_terrain(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: the observation on flat ground, and heights of the ground around the trunk."""
    w = first + wp.tid()
    if not mask[w]:
        return
    env.memory[w, 2] = turn_to(env, w)
    observe_trunk(env, w)
    begin = 12 + 3 * env.actions.shape[1]
    for k in range(env.obs.shape[1] - begin):
        height = env.sensed[w, int(env.numbers[SCAN]) + k] + env.numbers[STANDING]
        env.obs[w, begin + k] = wp.clamp(height, -SEEN_HEIGHT, SEEN_HEIGHT)


@wp.kernel
def score_on_terrain(first: int, env: EnvView):
    """One thread per world: rewards of flat ground without the tilt; over when the trunk sinks or topples."""
    w = first + wp.tid()
    env.reward[w] = tracking_reward(env, w, 0.0)
    height = -env.sensed[w, int(env.numbers[BELOW])]
    env.terminated[w] = height < env.numbers[MIN_HEIGHT] or -own_down(env, w)[2] < env.numbers[MAX_TILT]
    p = wp.transform_get_translation(env.body_q[w * env.bodies])
    away = wp.vec2(p[0] - env.kept[w, START], p[1] - env.kept[w, START + 1])
    env.kept[w, WALKED] = wp.length(away)


@wp.func
def whole(u: float, n: int) -> int:
    """Whole number from 0 to n - 1 for u in [0, 1)."""
    return wp.min(int(u * float(n)), n - 1)


@wp.func
def next_level(env: EnvView, w: int, u: float) -> int:
    """Level of the next episode: one up, one down or the same; random after the last level."""
    level = int(env.kept[w, LEVEL])
    walked = env.kept[w, WALKED]
    if env.numbers[CURRICULUM] == 0.0 or walked < 0.0:
        return level
    if walked > 0.5 * env.numbers[PATCH_SIZE]:
        level += 1
    elif walked < 0.5 * env.kept[w, WANTED]:
        level = wp.max(level - 1, 0)
    levels = int(env.numbers[LEVELS])
    if level >= levels:
        level = whole(u, levels)
    return level


@wp.kernel
def spawn_on_terrain(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: a patch, a command, and the home pose with noise about the patch's middle."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = random_of(env, w, SPAWN)
    spawn_pose(env, w, state)
    # in addition to those of the pose, which every robot draws
    state = wp.rand_init(int(state), 1)
    anywhere = wp.randf(state)
    level = next_level(env, w, anywhere)
    if env.episode[w] == 0:
        level = whole(anywhere, int(env.numbers[FIRST_LEVELS]))
        env.kept[w, KIND] = float(whole(wp.randf(state), int(env.numbers[KINDS])))
    levels = int(env.numbers[LEVELS])
    if env.terrain[w] >= 0.0:
        level = whole(env.terrain[w], levels)
    kinds = int(env.numbers[KINDS])
    kind = int(env.kept[w, KIND])
    env.kept[w, LEVEL] = float(level)
    size = env.numbers[PATCH_SIZE]
    x = (float(level) + 0.5 - 0.5 * float(levels)) * size
    y = (float(kind) + 0.5 - 0.5 * float(kinds)) * size
    q = w * env.coords
    env.joint_q[q] = x + uniform(-START_SPREAD, START_SPREAD, wp.randf(state))
    env.joint_q[q + 1] = y + uniform(-START_SPREAD, START_SPREAD, wp.randf(state))
    env.joint_q[q + 2] = env.numbers[PLATFORMS + level * kinds + kind] + env.numbers[STANDING]
    command = wp.vec2(env.memory[w, 0], env.memory[w, 1])
    if wp.length(command) < LEAST_COMMAND:
        command = wp.vec2(0.0, 0.0)
    for i in range(2):
        env.memory[w, i] = command[i]
        env.kept[w, START + i] = env.joint_q[q + i]
    env.memory[w, HEADING] = uniform(-3.14159265, 3.14159265, wp.randf(state))
    env.kept[w, WALKED] = -1.0
    env.kept[w, WANTED] = wp.length(command) * env.numbers[SECONDS]
