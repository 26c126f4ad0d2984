"""MuJoCo's activation dynamics: how the activation of an actuator follows its control.

A muscle's activation follows by da/dt = (u - a)/tau, where tau is slower the more active it is when it rises,
tau_on (0.5 + 1.5 a), and faster when it falls, tau_off/(0.5 + 1.5 a); over a band of controls, the smoothing,
one blends into the other.

Source: MuJoCo's documentation, "Computation: Actuation model" and "Modeling: Muscles".

Stage: actuators, before a solver step
Called by: newtonsim/actuators/activation.py, newtonsim/actuators/actuators.py, kernels/actuators/general.py,
    kernels/actuators/laws.py
Reads: ActivationView, act, activation, command, drive, mask, start, taken, world
Writes: act_out, activation, activation_out
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

DYNAMICS_NONE = wp.constant(0)
DYNAMICS_INTEGRATOR = wp.constant(1)
DYNAMICS_FILTER = wp.constant(2)
DYNAMICS_FILTER_EXACT = wp.constant(3)
DYNAMICS_MUSCLE = wp.constant(4)
# smallest smoothing
SHARP = wp.constant(1.0e-15)


@wp.struct
class ActivationView:
    """Activation of N actuators of one law."""

    time_constant: wp.array(dtype=float)  # (N) [s] of a rising activation
    release: wp.array(dtype=float)  # (N) [s] of a muscle's falling activation
    smoothing: float  # width of the band of controls between both
    dynamics: int
    early: int  # 1 if the activation at the end of the step acts, 0 if that at its start
    control: wp.vec2  # least and most
    range: wp.vec2  # of the activation, least and most


@wp.func
def smooth_step(x: float) -> float:
    """Quintic from 0 to 1 over 0..1, flat with its first two derivatives at the ends."""
    y = wp.clamp(x, 0.0, 1.0)
    return y * y * y * (3.0 * y * (2.0 * y - 5.0) + 10.0)


@wp.func
def muscle_rate(rise: float, release: float, smoothing: float, u: float, a: float) -> float:
    """Rate of a muscle's activation [1/s]."""
    inside = wp.clamp(a, 0.0, 1.0)
    off = wp.clamp(u, 0.0, 1.0) - a
    rising = rise * (0.5 + 1.5 * inside)
    falling = release / (0.5 + 1.5 * inside)
    tau = wp.where(off > 0.0, rising, falling)
    if smoothing > SHARP:
        tau = falling + (rising - falling) * smooth_step(off / smoothing + 0.5)
    return off / tau


@wp.func
def follow(
    dynamics: int, time_constant: float, release: float, smoothing: float, u: float, a: float, dt: float
) -> float:
    """Activation that follows the control u from a for a step, without its range."""
    end = u
    if dynamics == DYNAMICS_INTEGRATOR:
        end = a + dt * u
    if dynamics == DYNAMICS_FILTER:
        end = a + dt * (u - a) / time_constant
    if dynamics == DYNAMICS_FILTER_EXACT:
        end = a + (u - a) * (1.0 - wp.exp(-dt / time_constant))
    if dynamics == DYNAMICS_MUSCLE:
        end = a + dt * muscle_rate(time_constant, release, smoothing, u, a)
    return end


@wp.func
def next_activation(view: ActivationView, i: int, u: float, a: float, dt: float) -> float:
    """Activation at the end of a step."""
    end = follow(view.dynamics, view.time_constant[i], view.release[i], view.smoothing, u, a, dt)
    return wp.clamp(end, view.range[0], view.range[1])


@wp.func
def acting_input(
    view: ActivationView,
    i: int,
    command: float,
    dt: float,
    activation: wp.array2d(dtype=float),
    activation_out: wp.array2d(dtype=float),
) -> float:
    """What acts during a step, the control within its range or the activation that follows it."""
    u = wp.clamp(command, view.control[0], view.control[1])
    acting = u
    if view.dynamics != DYNAMICS_NONE:
        start = activation[i, 0]
        end = next_activation(view, i, u, start, dt)
        activation_out[i, 0] = end
        acting = wp.where(view.early == 1, end, start)
    return acting


@wp.kernel
def activate_drives(
    first: int,
    view: ActivationView,
    drive: wp.array(dtype=int),
    scale: float,
    offset: float,
    bound: wp.vec2,
    dt: float,
    command: wp.array(dtype=float),
    activation: wp.array2d(dtype=float),
    activation_out: wp.array2d(dtype=float),
    act_out: wp.array(dtype=float),
):
    """One thread per actuator: its activation, and the control input of its drive."""
    i = first + wp.tid()
    act = scale * acting_input(view, i, command[i], dt, activation, activation_out) + offset
    act_out[drive[i]] = wp.clamp(act, bound[0], bound[1])


@wp.kernel
def pass_inputs(
    first: int, taken: wp.array(dtype=int), act: wp.array(dtype=float), act_out: wp.array(dtype=float)
):
    """One thread per tendon, or actuator of the model: its control passes unless an actuator took it."""
    t = first + wp.tid()
    if taken[t] == 0:
        act_out[t] = act[t]


@wp.kernel(enable_backward=False)
def start_activations(
    first: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    start: wp.array(dtype=float),
    activation: wp.array2d(dtype=float),
):
    """One thread per actuator of a masked world: give it the activation that it starts with."""
    i = first + wp.tid()
    if mask[world[i]]:
        activation[i, 0] = start[i]
