"""MuJoCo's general actuator on a joint: activation, a gain and a bias that are affine in length and velocity.

Source: MuJoCo's documentation, "Computation: Actuation model", and "XML reference: general".

Stage: actuators, before a solver step
Called by: newtonsim/actuators/general.py
Reads: ActivationView, GeneralView, activation, command, coord, dof, q, qd
Writes: activation_out, effort
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.actuators.activation import ActivationView, acting_input

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class GeneralView:
    """General actuators of one law; N of them."""

    gear: wp.array(dtype=float)  # (N) length of the actuator by position of the joint
    gain: wp.array(dtype=wp.vec3)  # (N) of 1, length and velocity
    bias: wp.array(dtype=wp.vec3)  # (N) likewise
    reference: float  # [rad or m] position in the file at coordinate 0
    force: wp.vec2  # [N m or N] least and most


@wp.kernel
def apply_general(
    first: int,
    view: GeneralView,
    follows: ActivationView,
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
    acts = acting_input(follows, i, command[i], dt, activation, activation_out)
    gear = view.gear[i]
    motion = wp.vec3(1.0, gear * (q[coord[i]] + view.reference), gear * qd[dof[i]])
    force = wp.dot(view.gain[i], motion) * acts + wp.dot(view.bias[i], motion)
    effort[i] = gear * wp.clamp(force, view.force[0], view.force[1])
