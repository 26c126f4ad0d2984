"""Terms of rewards of legged robots and of drones: each adds its weight times a value times the step.

Stage: environment, rewards
Called by: newtonsim/envs/terms/library.py, newtonsim/envs/terms/task.py
Reads: EnvView, TermView
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView, point_of
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def begin_score(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: clear reward, end of episode and goal."""
    w = first + wp.tid()
    env.reward[w] = 0.0
    env.terminated[w] = False
    env.success[w] = False


@wp.kernel
def stay_alive(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: 1."""
    w = first + wp.tid()
    env.reward[w] = env.reward[w] + env.control_dt * term.weight


@wp.kernel
def track_velocity(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: a bell around the commanded velocity. Numbers: its width [m²/s²]."""
    w = first + wp.tid()
    b = w * env.bodies + term.base
    turn = wp.transform_get_rotation(env.body_q[b])
    velocity = wp.quat_rotate_inv(turn, wp.spatial_bottom(env.body_qd[b]))
    dx = env.memory[w, term.command] - velocity[0]
    dy = env.memory[w, term.command + 1] - velocity[1]
    value = wp.exp(-(dx * dx + dy * dy) / term.numbers[0])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def track_turning(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: a bell around the commanded turning. Numbers: its width [rad²/s²]."""
    w = first + wp.tid()
    b = w * env.bodies + term.base
    turn = wp.transform_get_rotation(env.body_q[b])
    spin = wp.quat_rotate_inv(turn, wp.spatial_top(env.body_qd[b]))
    error = env.memory[w, term.command + 2] - spin[2]
    value = wp.exp(-error * error / term.numbers[0])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def vertical_speed(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared velocity along z of the base [m²/s²]."""
    w = first + wp.tid()
    b = w * env.bodies + term.base
    turn = wp.transform_get_rotation(env.body_q[b])
    velocity = wp.quat_rotate_inv(turn, wp.spatial_bottom(env.body_qd[b]))
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * velocity[2] * velocity[2]


@wp.kernel
def rolling(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared angular velocity about x and y of the base [rad²/s²]."""
    w = first + wp.tid()
    b = w * env.bodies + term.base
    turn = wp.transform_get_rotation(env.body_q[b])
    spin = wp.quat_rotate_inv(turn, wp.spatial_top(env.body_qd[b]))
    value = spin[0] * spin[0] + spin[1] * spin[1]
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def spinning(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared angular velocity of the base [rad²/s²]."""
    w = first + wp.tid()
    spin = wp.spatial_top(env.body_qd[w * env.bodies + term.base])
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * wp.dot(spin, spin)


@wp.kernel
def leaning(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared sine of the base's tilt."""
    w = first + wp.tid()
    turn = wp.transform_get_rotation(env.body_q[w * env.bodies + term.base])
    down = wp.quat_rotate_inv(turn, wp.vec3(0.0, 0.0, -1.0))
    value = down[0] * down[0] + down[1] * down[1]
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def be_upright(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: from 0 upside down to 1 upright, ((1 + cosine of the tilt) / 2)²."""
    w = first + wp.tid()
    turn = wp.transform_get_rotation(env.body_q[w * env.bodies + term.base])
    cosine = wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0))[2]
    value = 0.25 * (1.0 + cosine) * (1.0 + cosine)
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def be_high(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: height of the base over that of home, from 0 to 1. Numbers: that height [m]."""
    w = first + wp.tid()
    p = wp.transform_get_translation(env.body_q[w * env.bodies + term.base])
    value = wp.clamp(p[2] / term.numbers[0], 0.0, 1.0)
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def jerking(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared change of the actions."""
    w = first + wp.tid()
    n = env.actions.shape[1]
    value = float(0.0)
    for k in range(n):
        change = env.memory[w, term.action + k] - env.memory[w, term.action + n + k]
        value += change * change
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def leaving_home(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared distance of the joints from home [rad² or m²]."""
    w = first + wp.tid()
    value = float(0.0)
    for k in range(term.coords.shape[0]):
        off = env.joint_q[w * env.coords + term.coords[k]] - term.home[k]
        value += off * off
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def moving_joints(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared velocities of the joints [rad²/s² or m²/s²]."""
    w = first + wp.tid()
    value = float(0.0)
    for k in range(term.dofs.shape[0]):
        rate = env.joint_qd[w * env.dofs + term.dofs[k]]
        value += rate * rate
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def step_in_the_air(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: for each foot that lands, the time it was in the air beyond a least one [s].

    A foot touches if its sensor says so or, without one, if its point is low. What is remembered is the time
    in the air. Nothing is earned while the command is to stand still. Numbers: height [m] below which a point
    is low, least time [s], speed that counts as a command [m/s], points in the frames of their bodies [m].
    """
    w = first + wp.tid()
    value = float(0.0)
    for k in range(term.bodies.shape[0]):
        point = point_of(term, 3, k)
        touch = wp.transform_point(env.body_q[w * env.bodies + term.bodies[k]], point)[2] < term.numbers[0]
        if term.sensed >= 0:
            touch = env.sensed[w, term.sensed + 4 * k + 3] > 0.0
        up = env.memory[w, term.note + k]
        if touch and up > 0.0:
            value += wp.max(up - term.numbers[1], 0.0)
        up += env.control_dt
        if touch:
            up = 0.0
        env.memory[w, term.note + k] = up
    x = env.memory[w, term.command]
    y = env.memory[w, term.command + 1]
    z = env.memory[w, term.command + 2]
    if x * x + y * y + z * z < term.numbers[2] * term.numbers[2]:
        value = 0.0
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def slip_feet(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the squared horizontal velocities of points of feet that touch [m²/s²].

    When a foot touches: see `step_in_the_air`. Numbers: height [m] below which a point is low, points in the
    frames of their bodies [m].
    """
    w = first + wp.tid()
    value = float(0.0)
    for k in range(term.bodies.shape[0]):
        b = w * env.bodies + term.bodies[k]
        point = point_of(term, 1, k)
        touch = wp.transform_point(env.body_q[b], point)[2] < term.numbers[0]
        if term.sensed >= 0:
            touch = env.sensed[w, term.sensed + 4 * k + 3] > 0.0
        if touch:
            turn = wp.transform_get_rotation(env.body_q[b])
            arm = wp.quat_rotate(turn, point - env.body_com[b])
            v = wp.spatial_bottom(env.body_qd[b]) + wp.cross(wp.spatial_top(env.body_qd[b]), arm)
            value += v[0] * v[0] + v[1] * v[1]
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def undesired_contacts(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: number of the bodies that touch other than with their soles, by their sensor."""
    w = first + wp.tid()
    value = float(0.0)
    for k in range(term.bodies.shape[0]):
        value += env.sensed[w, term.sensed + term.bodies[k]]
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value


@wp.kernel
def touch_otherwise(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: number of the bodies that touch anything, according to their sensor."""
    w = first + wp.tid()
    value = float(0.0)
    for k in range(term.bodies.shape[0]):
        value += env.sensed[w, term.sensed + 4 * k + 3]
    env.reward[w] = env.reward[w] + env.control_dt * term.weight * value
