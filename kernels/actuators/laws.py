"""The law of each actuator of a model: activation from control, force from activation, length and rate.

An actuator pulls with the force gain(l, l') a + bias(l, l') within its range, where a is the control or the
activation that follows it, see `activation`. Gains and biases are constant, affine, or those of muscles, see
`tendons.muscles`. All of it is taken at the start of the step.

Source: MuJoCo's documentation, "Computation: Actuation model" and "XML reference: actuator/general".

Stage: forces at the start of a step, of actuators
Called by: solvers/model_actuators.py
Reads: LawView, act, ctrl, length, rate
Writes: act_out, force
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.actuators.activation import DYNAMICS_NONE, follow
from newtonsim.kernels.tendons.muscles import active_force, resting_force

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# kinds of gains and biases
CONSTANT = wp.constant(0)
AFFINE = wp.constant(1)
MUSCLE = wp.constant(2)


@wp.struct
class LawView:
    """Laws of N actuators, in the order of their worlds."""

    number: wp.array(dtype=int)  # (N) actuator of the model
    gain_kind: wp.array(dtype=int)  # (N)
    bias_kind: wp.array(dtype=int)  # (N) a constant one is zero
    gain: wp.array(dtype=wp.vec3)  # (N) constant, per length and per rate
    bias: wp.array(dtype=wp.vec3)  # (N)
    gain_muscle: wp.array2d(dtype=float)  # (N, 10) see `tendons.muscles`
    bias_muscle: wp.array2d(dtype=float)  # (N, 10)
    dynamics: wp.array(dtype=int)  # (N) DYNAMICS_*
    times: wp.array(dtype=wp.vec3)  # (N) [s] time constant, that of release, and the width between both
    early: wp.array(dtype=int)  # (N) 1 if the activation at the end of the step acts
    control: wp.array(dtype=wp.vec2)  # (N) least and most
    activation: wp.array(dtype=wp.vec2)  # (N)
    bound: wp.array(dtype=wp.vec2)  # (N) of the force


@wp.func
def affine(factors: wp.vec3, length: float, rate: float) -> float:
    """A number that grows with length and rate."""
    return factors[0] + factors[1] * length + factors[2] * rate


@wp.func
def gain_of(law: LawView, i: int, length: float, rate: float) -> float:
    """Force of a unit of activation."""
    gain = law.gain[i][0]
    if law.gain_kind[i] == AFFINE:
        gain = affine(law.gain[i], length, rate)
    if law.gain_kind[i] == MUSCLE:
        gain = active_force(i, length, rate, law.gain_muscle)
    return gain


@wp.func
def bias_of(law: LawView, i: int, length: float, rate: float) -> float:
    """Force without activation."""
    bias = float(0.0)
    if law.bias_kind[i] == AFFINE:
        bias = affine(law.bias[i], length, rate)
    if law.bias_kind[i] == MUSCLE:
        bias = resting_force(i, length, law.bias_muscle)
    return bias


@wp.kernel
def actuate(
    first: int,
    law: LawView,
    ctrl: wp.array(dtype=float),
    act: wp.array(dtype=float),
    length: wp.array(dtype=float),
    rate: wp.array(dtype=float),
    dt: float,
    force: wp.array(dtype=float),
    act_out: wp.array(dtype=float),
):
    """One thread per actuator: its force, and its activation at the end of the step."""
    i = first + wp.tid()
    a = law.number[i]
    u = wp.clamp(ctrl[a], law.control[i][0], law.control[i][1])
    start = act[a]
    end = start
    acting = u
    if law.dynamics[i] != DYNAMICS_NONE:
        times = law.times[i]
        end = follow(law.dynamics[i], times[0], times[1], times[2], u, start, dt)
        end = wp.clamp(end, law.activation[i][0], law.activation[i][1])
        acting = wp.where(law.early[i] == 1, end, start)
    act_out[a] = end
    total = gain_of(law, i, length[i], rate[i]) * acting + bias_of(law, i, length[i], rate[i])
    force[i] = wp.clamp(total, law.bound[i][0], law.bound[i][1])
