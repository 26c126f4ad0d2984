"""MuJoCo's general actuator on a joint: activation, a gain and a bias that are affine in length and velocity.

Source: MuJoCo's documentation, "Computation: Actuation model", and "XML reference: general".

Stage: actuators, before a solver step
Called by: newtonsim/actuators/general.py
Reads: GeneralView, activation, command, coord, dof, q, qd
Writes: activation_out, effort
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

DYNAMICS_NONE = wp.constant(0)
DYNAMICS_INTEGRATOR = wp.constant(1)
DYNAMICS_FILTER = wp.constant(2)
DYNAMICS_FILTER_EXACT = wp.constant(3)


@wp.struct
class GeneralView:
    """General actuators of one law; N of them."""

    gear: wp.array(dtype=float)  # (N) length of the actuator by position of the joint
    gain: wp.array(dtype=wp.vec3)  # (N) of 1, length and velocity
    bias: wp.array(dtype=wp.vec3)  # (N) likewise
    time_constant: wp.array(dtype=float)  # (N) [s] time constant of the activation
    reference: float  # [rad or m] position in the file at coordinate 0
    dynamics: int
    early: int  # 1 if the force depends on the activation at the end of the step, 0 at its start
    control: wp.vec2  # least and most
    force: wp.vec2  # [N m or N] least and most
    range: wp.vec2  # of the activation, least and most


@wp.func
def next_activation(view: GeneralView, i: int, u: float, a: float, dt: float) -> float:
    """Activation at the end of a step."""
    end = u
    if view.dynamics == DYNAMICS_INTEGRATOR:
        end = a + dt * u
    if view.dynamics == DYNAMICS_FILTER:
        end = a + dt * (u - a) / view.time_constant[i]
    if view.dynamics == DYNAMICS_FILTER_EXACT:
        end = a + (u - a) * (1.0 - wp.exp(-dt / view.time_constant[i]))
    return wp.clamp(end, view.range[0], view.range[1])


@wp.kernel
def apply_general(
    first: int,
    view: GeneralView,
    coord: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    dt: float,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    command: wp.array(dtype=float),
    activation: wp.array2d(dtype=float),
    activation_out: wp.array2d(dtype=float),
    effort: wp.array(dtype=float),
):
    """One thread per actuator: its activation and the effort of the joint, gear (gain a + bias)."""
    i = first + wp.tid()
    u = wp.clamp(command[i], view.control[0], view.control[1])
    acts = u
    if view.dynamics != DYNAMICS_NONE:
        start = activation[i, 0]
        end = next_activation(view, i, u, start, dt)
        activation_out[i, 0] = end
        acts = wp.where(view.early == 1, end, start)
    gear = view.gear[i]
    motion = wp.vec3(1.0, gear * (q[coord[i]] + view.reference), gear * qd[dof[i]])
    force = wp.dot(view.gain[i], motion) * acts + wp.dot(view.bias[i], motion)
    effort[i] = gear * wp.clamp(force, view.force[0], view.force[1])
