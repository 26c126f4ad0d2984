"""Terms of observations; each writes its numbers, starting at its column.

Stage: environment, observations
Called by: newtonsim/envs/terms/library.py
Reads: EnvView, TermView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView
from newtonsim.kernels.envs.views import EnvView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def observe_velocity(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: velocity of the base's centre of mass in its own axes [m/s], 3 numbers."""
    w = first + wp.tid()
    if mask[w]:
        b = w * env.bodies + term.base
        turn = wp.transform_get_rotation(env.body_q[b])
        value = wp.quat_rotate_inv(turn, wp.spatial_bottom(env.body_qd[b]))
        for i in range(3):
            env.obs[w, term.column + i] = value[i]


@wp.kernel
def observe_spin(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: angular velocity of the base in its own axes [rad/s], 3 numbers."""
    w = first + wp.tid()
    if mask[w]:
        b = w * env.bodies + term.base
        turn = wp.transform_get_rotation(env.body_q[b])
        value = wp.quat_rotate_inv(turn, wp.spatial_top(env.body_qd[b]))
        for i in range(3):
            env.obs[w, term.column + i] = value[i]


@wp.kernel
def observe_down(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: downward direction in the base's axes, 3 numbers."""
    w = first + wp.tid()
    if mask[w]:
        turn = wp.transform_get_rotation(env.body_q[w * env.bodies + term.base])
        value = wp.quat_rotate_inv(turn, wp.vec3(0.0, 0.0, -1.0))
        for i in range(3):
            env.obs[w, term.column + i] = value[i]


@wp.kernel
def observe_command(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the command, 3 numbers."""
    w = first + wp.tid()
    if mask[w]:
        for i in range(3):
            env.obs[w, term.column + i] = env.memory[w, term.command + i]


@wp.kernel
def observe_angles(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: coordinates of the joints from home [rad or m], one for each."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(term.coords.shape[0]):
            env.obs[w, term.column + k] = env.joint_q[w * env.coords + term.coords[k]] - term.home[k]


@wp.kernel
def observe_targets(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: targets of the joints' drives from home [rad or m], one for each."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(term.axes.shape[0]):
            env.obs[w, term.column + k] = env.joint_act[w * env.axes + term.axes[k]] - term.home[k]


@wp.kernel
def observe_rates(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: velocities of the joints times the weight [rad/s or m/s], one for each."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(term.dofs.shape[0]):
            env.obs[w, term.column + k] = term.weight * env.joint_qd[w * env.dofs + term.dofs[k]]


@wp.kernel
def observe_actions(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the last actions, one number for each."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(env.actions.shape[1]):
            env.obs[w, term.column + k] = env.memory[w, term.action + k]


@wp.kernel
def observe_height(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: height of the base's origin [m], 1 number."""
    w = first + wp.tid()
    if mask[w]:
        p = wp.transform_get_translation(env.body_q[w * env.bodies + term.base])
        env.obs[w, term.column] = p[2]


@wp.kernel
def observe_axes(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the rotation matrix of the base, row by row, 9 numbers."""
    w = first + wp.tid()
    if mask[w]:
        turn = wp.quat_to_matrix(wp.transform_get_rotation(env.body_q[w * env.bodies + term.base]))
        for i in range(3):
            for j in range(3):
                env.obs[w, term.column + 3 * i + j] = turn[i, j]


@wp.kernel
def observe_target(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: from a point of the base to the target, world axes [m], 3 numbers.

    Numbers: the point in the frame of the base [m].
    """
    w = first + wp.tid()
    if mask[w]:
        point = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
        place = wp.transform_point(env.body_q[w * env.bodies + term.base], point)
        for i in range(3):
            env.obs[w, term.column + i] = env.memory[w, term.command + i] - place[i]


@wp.kernel
def observe_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: from a point of the base to a body, world axes [m], 3 numbers.

    Numbers: the point in the frame of the base [m].
    """
    w = first + wp.tid()
    if mask[w]:
        point = wp.vec3(term.numbers[0], term.numbers[1], term.numbers[2])
        place = wp.transform_point(env.body_q[w * env.bodies + term.base], point)
        body = wp.transform_get_translation(env.body_q[w * env.bodies + term.bodies[0]])
        for i in range(3):
            env.obs[w, term.column + i] = body[i] - place[i]


@wp.kernel
def observe_field(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the selected entries of a field of the model."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(term.entries.shape[1]):
            for i in range(term.width):
                value = term.field[term.entries[w, k] * term.width + i]
                env.obs[w, term.column + k * term.width + i] = value


@wp.kernel
def observe_sensor(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: readings of a sensor. Numbers: how many, an offset, least and greatest."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(int(term.numbers[0])):
            value = env.sensed[w, term.sensed + k] + term.numbers[1]
            env.obs[w, term.column + k] = wp.clamp(value, term.numbers[2], term.numbers[3])
