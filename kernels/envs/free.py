"""Robots with a free base that run forward: ant, humanoid.

Body 0 of a world is the torso, on a free joint; all further coordinates are angles. Memory: x before the
step, of the torso or of the centre of mass. "The centre of mass" means that of the whole robot.

Stage: environment, starts, actions, observations, rewards
Called by: newtonsim/envs/tasks/free.py
Reads: EnvView, Teams, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team
from newtonsim.kernels.envs.actions import drive
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

FORWARD_WEIGHT = wp.constant(0)
CONTROL_COST = wp.constant(1)
CONTACT_COST = wp.constant(2)
HEALTHY_REWARD = wp.constant(3)
TERMINATES = wp.constant(4)  # 1 if the episode ends when the robot is not healthy
Z_LOW = wp.constant(5)
Z_HIGH = wp.constant(6)
WRENCH_CLIP = wp.constant(7)  # of wrenches, in observation and cost
MOST_CONTACT_COST = wp.constant(8)
FOLLOWS_COM = wp.constant(9)  # 1 if the speed is that of the centre of mass, 0 for the torso
POSITION_NOISE = wp.constant(10)
VELOCITY_NOISE = wp.constant(11)
NORMAL_VELOCITY = wp.constant(12)  # 1 if the noise of velocities is normal rather than uniform
SEES_INERTIA = wp.constant(13)
SEES_VELOCITY = wp.constant(14)
SEES_EFFORT = wp.constant(15)
SEES_WRENCH = wp.constant(16)


@wp.func
def com_of_body(env: EnvView, b: int) -> wp.vec3:
    """Centre of mass of a body in the world."""
    return wp.transform_point(env.body_q[b], env.body_com[b])


@wp.func
def com_of_robot(env: EnvView, w: int) -> wp.vec3:
    """Centre of mass of all bodies of a world."""
    total = float(0.0)
    moment = wp.vec3(0.0, 0.0, 0.0)
    for k in range(env.bodies):
        b = w * env.bodies + k
        total += env.body_mass[b]
        moment += env.body_mass[b] * com_of_body(env, b)
    return moment / total


@wp.func
def wrench_about(env: EnvView, b: int, about: wp.vec3) -> wp.spatial_vector:
    """External wrench on a body about a point, (τ, f), clamped."""
    force = wp.spatial_bottom(env.body_wrench[b])
    torque = wp.spatial_top(env.body_wrench[b]) + wp.cross(com_of_body(env, b) - about, force)
    clip = env.numbers[WRENCH_CLIP]
    wrench = wp.spatial_vector(torque, force)
    for i in range(6):
        wrench[i] = wp.clamp(wrench[i], -clip, clip)
    return wrench


@wp.func
def observe_torso(env: EnvView, w: int):
    """Height, quaternion wxyz, velocity of the torso's origin, angular velocity in its own axes."""
    q = w * env.coords
    v = w * env.dofs
    env.obs[w, 0] = env.joint_q[q + 2]
    env.obs[w, 1] = env.joint_q[q + 6]
    for k in range(3):
        env.obs[w, 2 + k] = env.joint_q[q + 3 + k]
    turn = wp.quat(env.joint_q[q + 3], env.joint_q[q + 4], env.joint_q[q + 5], env.joint_q[q + 6])
    spin = wp.vec3(env.joint_qd[v], env.joint_qd[v + 1], env.joint_qd[v + 2])
    of_com = wp.vec3(env.joint_qd[v + 3], env.joint_qd[v + 4], env.joint_qd[v + 5])
    of_origin = of_com - wp.cross(spin, wp.quat_rotate(turn, env.body_com[w * env.bodies]))
    own_spin = wp.quat_rotate_inv(turn, spin)
    at = env.coords - 2
    for k in range(3):
        env.obs[w, at + k] = of_origin[k]
        env.obs[w, at + 3 + k] = own_spin[k]


@wp.func
def observe_inertia(env: EnvView, w: int, b: int, about: wp.vec3, at: int):
    """Inertia of a body about a point (xx, yy, zz, xy, xz, yz), mass times offset, mass."""
    R = wp.quat_to_matrix(wp.transform_get_rotation(env.body_q[b]))
    m = env.body_mass[b]
    d = com_of_body(env, b) - about
    I = R * env.body_inertia[b] * wp.transpose(R) + m * (
        wp.dot(d, d) * wp.identity(n=3, dtype=float) - wp.outer(d, d)
    )
    for i in range(3):
        env.obs[w, at + i] = I[i, i]
        env.obs[w, at + 6 + i] = m * d[i]
    env.obs[w, at + 3] = I[0, 1]
    env.obs[w, at + 4] = I[0, 2]
    env.obs[w, at + 5] = I[1, 2]
    env.obs[w, at + 9] = m


@wp.func
def observe_velocity(env: EnvView, w: int, b: int, about: wp.vec3, at: int):
    """Angular velocity of a body, and velocity of its point that is currently at `about`."""
    spin = wp.spatial_top(env.body_qd[b])
    velocity = wp.spatial_bottom(env.body_qd[b]) + wp.cross(spin, about - com_of_body(env, b))
    for i in range(3):
        env.obs[w, at + i] = spin[i]
        env.obs[w, at + 3 + i] = velocity[i]


@wp.kernel
def observe_walker(teams: Teams, env: EnvView, mask: wp.array(dtype=bool)):
    """One team per world: torso, angles, velocities, then selected quantities of each body and motor."""
    team = own_team(teams, wp.tid())
    w = team.index
    if not mask[w]:
        return
    if team.lane == 0:
        observe_torso(env, w)
    for k in range(team.lane, env.coords - 7, lanes(team)):
        env.obs[w, 5 + k] = env.joint_q[w * env.coords + 7 + k]
    at = int(env.coords - 2 + 6)
    for k in range(team.lane, env.dofs - 6, lanes(team)):
        env.obs[w, at + k] = env.joint_qd[w * env.dofs + 6 + k]
    at += env.dofs - 6
    com = com_of_robot(env, w)
    if env.numbers[SEES_INERTIA] == 1.0:
        for k in range(team.lane, env.bodies, lanes(team)):
            observe_inertia(env, w, w * env.bodies + k, com, at + 10 * k)
        at += 10 * env.bodies
    if env.numbers[SEES_VELOCITY] == 1.0:
        for k in range(team.lane, env.bodies, lanes(team)):
            observe_velocity(env, w, w * env.bodies + k, com, at + 6 * k)
        at += 6 * env.bodies
    if env.numbers[SEES_EFFORT] == 1.0:
        for k in range(team.lane, env.axes, lanes(team)):
            env.obs[w, at + k] = env.joint_act[w * env.axes + k]
        at += env.axes
    if env.numbers[SEES_WRENCH] == 1.0:
        for k in range(team.lane, env.bodies, lanes(team)):
            wrench = wrench_about(env, w * env.bodies + k, com)
            for i in range(6):
                env.obs[w, at + 6 * k + i] = wrench[i]


@wp.kernel
def drive_and_note(first: int, env: EnvView):
    """One thread per world: drive the motors, and store the position of the robot."""
    w = first + wp.tid()
    drive(env, w)
    env.memory[w, 0] = forward_position(env, w)


@wp.func
def forward_position(env: EnvView, w: int) -> float:
    """x of the torso or of the centre of mass."""
    x = env.joint_q[w * env.coords]
    if env.numbers[FOLLOWS_COM] == 1.0:
        com = com_of_robot(env, w)
        x = com[0]
    return x


@wp.func
def contact_cost(env: EnvView, w: int) -> float:
    """Weighted and clamped squares of all external wrenches."""
    com = com_of_robot(env, w)
    total = float(0.0)
    for k in range(env.bodies):
        wrench = wrench_about(env, w * env.bodies + k, com)
        total += wp.dot(wrench, wrench)
    return wp.min(env.numbers[CONTACT_COST] * total, env.numbers[MOST_CONTACT_COST])


@wp.kernel
def score_walker(first: int, env: EnvView):
    """One thread per world: speed along x and a bonus for health, minus squares of actions and contacts."""
    w = first + wp.tid()
    forward = (forward_position(env, w) - env.memory[w, 0]) / env.control_dt
    effort = float(0.0)
    for k in range(env.actions.shape[1]):
        effort += env.actions[w, k] * env.actions[w, k]
    z = env.joint_q[w * env.coords + 2]
    healthy = z >= env.numbers[Z_LOW] and z <= env.numbers[Z_HIGH]
    reward = env.numbers[FORWARD_WEIGHT] * forward - env.numbers[CONTROL_COST] * effort - contact_cost(env, w)
    if healthy:
        reward += env.numbers[HEALTHY_REWARD]
    env.reward[w] = reward
    env.terminated[w] = env.numbers[TERMINATES] == 1.0 and not healthy


@wp.kernel
def spawn_walker(first: int, env: EnvView, mask: wp.array(dtype=bool)):
    """One thread per world: noise on all coordinates and velocities; the quaternion is normalised."""
    w = first + wp.tid()
    if not mask[w]:
        return
    state = random_of(env, w, SPAWN)
    q = w * env.coords
    size = env.numbers[POSITION_NOISE]
    for k in range(env.coords):
        env.joint_q[q + k] = env.joint_q[q + k] + uniform(-size, size, wp.randf(state))
    turn = wp.normalize(
        wp.quat(env.joint_q[q + 3], env.joint_q[q + 4], env.joint_q[q + 5], env.joint_q[q + 6])
    )
    for k in range(4):
        env.joint_q[q + 3 + k] = turn[k]
    size = env.numbers[VELOCITY_NOISE]
    for k in range(env.dofs):
        noise = uniform(-size, size, wp.randf(state))
        if env.numbers[NORMAL_VELOCITY] == 1.0:
            noise = size * wp.randn(state)
        env.joint_qd[w * env.dofs + k] = noise
