"""An arm of seven joints that reaches for a target, and one with a gripper that picks up a cube.

The first seven coordinates of a world are the angles of the arm, the last body is a marker of the target,
which nothing touches. Memory: targets of the drives of the arm [rad], then the target [m].

Stage: environment, starts, actions, observations, rewards
Called by: newtonsim/envs/tasks/manipulation.py
Reads: EnvView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

JOINTS = wp.constant(7)
TARGET = wp.constant(7)  # of the memory

HAND = wp.constant(0)  # body of a world that ends the arm
TOOL = wp.constant(1)  # [m] of the point that reaches, along z of the hand
ACTION_SCALE = wp.constant(2)  # [rad] change of a drive's target at action 1
ANGLE_NOISE = wp.constant(3)  # [rad]
TARGET_LOW = wp.constant(4)  # [m] three numbers: corner of the box of targets
TARGET_HIGH = wp.constant(7)  # [m] three numbers
HOME = wp.constant(10)  # [rad] seven numbers
LOWER = wp.constant(17)  # [rad] seven numbers: limits of the joints
UPPER = wp.constant(24)  # [rad] seven numbers
REACHED = wp.constant(31)  # [m] distance at which the target counts as reached

# numbers of reaching
SPARSE = wp.constant(32)  # 1 for rewards of -1 and 0

# numbers of picking
CUBE_HALF = wp.constant(32)  # [m]
OPENING = wp.constant(33)  # [m] of each finger from the middle when open
CUBE_LOW = wp.constant(34)  # [m] x and y: corner of the rectangle where the cube starts
CUBE_HIGH = wp.constant(36)  # [m] x and y
CUBE_TURN = wp.constant(38)  # [rad] about z, to both sides
LIFTED = wp.constant(39)  # [m] height that counts as lifted
NEAR = wp.constant(40)  # [m] largest distance of a grasped cube from the middle of the fingers
PRESSED = wp.constant(41)  # [m] least distance of blocked fingers from their closed targets


@wp.func
def tool_point(env: EnvView, w: int) -> wp.vec3:
    """Point between the fingers, or the middle of the flange."""
    hand = env.body_q[w * env.bodies + int(env.numbers[HAND])]
    return wp.transform_point(hand, wp.vec3(0.0, 0.0, env.numbers[TOOL]))


@wp.func
def target_point(env: EnvView, w: int) -> wp.vec3:
    """The target."""
    return wp.vec3(env.memory[w, TARGET], env.memory[w, TARGET + 1], env.memory[w, TARGET + 2])


@wp.func
def aim_arm(env: EnvView, w: int):
    """Actions shift the targets of the drives of the arm, within the limits of the joints."""
    for k in range(JOINTS):
        action = wp.clamp(env.actions[w, k], env.action_low[k], env.action_high[k])
        angle = env.memory[w, k] + env.numbers[ACTION_SCALE] * action
        angle = wp.clamp(angle, env.numbers[LOWER + k], env.numbers[UPPER + k])
        env.memory[w, k] = angle
        env.joint_act[w * env.axes + k] = angle


@wp.func
def write_vector(env: EnvView, w: int, at: int, value: wp.vec3):
    """Put three numbers into the observation."""
    for i in range(3):
        env.obs[w, at + i] = value[i]


@wp.func
def observe_arm(env: EnvView, w: int):
    """Angles and their rates, the first fourteen numbers."""
    for k in range(JOINTS):
        env.obs[w, k] = env.joint_q[w * env.coords + k]
        env.obs[w, JOINTS + k] = env.joint_qd[w * env.dofs + k]


@wp.func
def spawn_arm(env: EnvView, w: int, state: wp.uint32) -> wp.uint32:
    """Put the arm near its home pose, where its drives hold it, and the target anywhere in its box."""
    size = env.numbers[ANGLE_NOISE]
    for k in range(JOINTS):
        angle = env.numbers[HOME + k] + uniform(-size, size, wp.randf(state))
        env.joint_q[w * env.coords + k] = angle
        env.joint_act[w * env.axes + k] = angle
        env.memory[w, k] = angle
    for i in range(3):
        low = env.numbers[TARGET_LOW + i]
        env.memory[w, TARGET + i] = uniform(low, env.numbers[TARGET_HIGH + i], wp.randf(state))
    env.body_q[(w + 1) * env.bodies - 1] = wp.transform(target_point(env, w), wp.quat_identity())
    return state


@wp.kernel
def aim_reach(first: int, env: EnvView):
    """One thread per world: shift the targets of the drives."""
    aim_arm(env, first + wp.tid())


@wp.kernel
def observe_reach(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: angles, rates, the flange, the target, and from the flange to the target."""
    w = first + wp.tid()
    if not mask[w]:
        return
    observe_arm(env, w)
    tool = tool_point(env, w)
    target = target_point(env, w)
    write_vector(env, w, 14, tool)
    write_vector(env, w, 17, target)
    write_vector(env, w, 20, target - tool)


@wp.kernel
def score_reach(first: int, env: EnvView):
    """One thread per world: minus the distance, or -1 until the target is reached; never over."""
    w = first + wp.tid()
    distance = wp.length(target_point(env, w) - tool_point(env, w))
    reward = -distance
    if env.numbers[SPARSE] == 1.0:
        reward = -1.0
        if distance <= env.numbers[REACHED]:
            reward = 0.0
    env.reward[w] = reward
    env.success[w] = distance <= env.numbers[REACHED]
    env.terminated[w] = False


@wp.kernel
def spawn_reach(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: the arm near home, a new target."""
    w = first + wp.tid()
    if mask[w]:
        state = random_of(env, w, SPAWN)
        spawn_arm(env, w, state)


@wp.func
def cube_body(env: EnvView, w: int) -> int:
    """The cube is the body before the marker."""
    return (w + 1) * env.bodies - 2


@wp.kernel
def aim_pick(first: int, env: EnvView):
    """One thread per world: shift the targets of the arm; the last action opens the fingers."""
    w = first + wp.tid()
    aim_arm(env, w)
    grip = wp.clamp(env.actions[w, JOINTS], env.action_low[JOINTS], env.action_high[JOINTS])
    env.joint_act[w * env.axes + JOINTS] = 0.5 * (1.0 + grip) * env.numbers[OPENING]


@wp.kernel
def observe_pick(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: arm, fingers, grasp point, cube with its velocities, goal, and differences."""
    w = first + wp.tid()
    if not mask[w]:
        return
    observe_arm(env, w)
    env.obs[w, 14] = env.joint_q[w * env.coords + JOINTS]
    env.obs[w, 15] = env.joint_qd[w * env.dofs + JOINTS]
    b = cube_body(env, w)
    tool = tool_point(env, w)
    cube = wp.transform_get_translation(env.body_q[b])
    turn = wp.transform_get_rotation(env.body_q[b])
    goal = target_point(env, w)
    write_vector(env, w, 16, tool)
    write_vector(env, w, 19, cube)
    for i in range(4):
        env.obs[w, 22 + i] = turn[i]
    write_vector(env, w, 26, wp.spatial_bottom(env.body_qd[b]))
    write_vector(env, w, 29, wp.spatial_top(env.body_qd[b]))
    write_vector(env, w, 32, goal)
    write_vector(env, w, 35, cube - tool)
    write_vector(env, w, 38, goal - cube)


@wp.func
def is_grasped(env: EnvView, w: int, apart: float) -> bool:
    """Whether the cube is between the fingers and keeps them from reaching their targets."""
    stopped = env.joint_q[w * env.coords + JOINTS] - env.joint_act[w * env.axes + JOINTS]
    return apart < env.numbers[NEAR] and stopped > env.numbers[PRESSED]


@wp.kernel
def score_pick(first: int, env: EnvView):
    """One thread per world: nearness of the cube, a bonus for the grasp; lifted, nearness of the goal."""
    w = first + wp.tid()
    cube = wp.transform_get_translation(env.body_q[cube_body(env, w)])
    apart = wp.length(cube - tool_point(env, w))
    reward = 1.0 - wp.tanh(10.0 * apart)
    if is_grasped(env, w, apart):
        reward += 0.25
    to_goal = wp.length(target_point(env, w) - cube)
    if cube[2] > env.numbers[CUBE_HALF] + env.numbers[LIFTED]:
        reward = 2.25 + 1.0 - wp.tanh(5.0 * to_goal)
    env.reward[w] = reward
    env.success[w] = to_goal <= env.numbers[REACHED]
    env.terminated[w] = False


@wp.kernel
def spawn_pick(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: the arm near home with open fingers, the cube on the table, a new goal."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = spawn_arm(env, w, random_of(env, w, SPAWN))
    q = w * env.coords
    for k in range(2):
        env.joint_q[q + JOINTS + k] = env.numbers[OPENING]
    env.joint_act[w * env.axes + JOINTS] = env.numbers[OPENING]
    at = (w + 1) * env.coords - 7
    for i in range(2):
        env.joint_q[at + i] = uniform(env.numbers[CUBE_LOW + i], env.numbers[CUBE_HIGH + i], wp.randf(state))
    half = 0.5 * uniform(-env.numbers[CUBE_TURN], env.numbers[CUBE_TURN], wp.randf(state))
    env.joint_q[at + 5] = wp.sin(half)
    env.joint_q[at + 6] = wp.cos(half)
