"""Transfer of controls from the user to actuators, and from actuators to the solver.

Stage: actuators, before a solver step
Called by: newtonsim/actuators/activation.py, newtonsim/actuators/actuators.py, newtonsim/actuators/groups.py
Reads: 13 arrays
Writes: act_out, applied, command, count, count_out, force_out, values
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.joint_forces import least_effort

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def pass_controls(
    first: int,
    dof_axis: wp.array(dtype=int),
    taken: wp.array(dtype=int),
    act: wp.array(dtype=float),
    force: wp.array(dtype=float),
    act_out: wp.array(dtype=float),
    force_out: wp.array(dtype=float),
):
    """One thread per dof: controls of dofs without an actuator pass unchanged."""
    d = first + wp.tid()
    if taken[d] == 0:
        force_out[d] = force[d]
        if dof_axis[d] >= 0:
            act_out[dof_axis[d]] = act[dof_axis[d]]


@wp.kernel
def take_commands(
    first: int,
    axis: wp.array(dtype=int),
    act: wp.array(dtype=float),
    command: wp.array(dtype=float),
):
    """One thread per actuator: the control of its axis is its command."""
    i = first + wp.tid()
    command[i] = act[axis[i]]


@wp.kernel
def count_commands(first: int, count: wp.array(dtype=int), count_out: wp.array(dtype=int)):
    """One thread per actuator: count the commands since its world started."""
    i = first + wp.tid()
    count_out[i] = count[i] + 1


@wp.kernel
def pass_targets(
    first: int,
    axis: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    command: wp.array(dtype=float),
    force: wp.array(dtype=float),
    act_out: wp.array(dtype=float),
    force_out: wp.array(dtype=float),
):
    """One thread per actuator: pass the command to the solver's drive."""
    i = first + wp.tid()
    act_out[axis[i]] = command[i]
    force_out[dof[i]] = force[dof[i]]


@wp.kernel
def pass_forces(
    first: int, dof: wp.array(dtype=int), force: wp.array(dtype=float), force_out: wp.array(dtype=float)
):
    """One thread per actuator: pass the force on its dof."""
    i = first + wp.tid()
    force_out[dof[i]] = force[dof[i]]


@wp.kernel
def add_efforts(
    first: int,
    axis: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    limit: wp.array(dtype=float),
    lower: wp.array(dtype=float),
    effort: wp.array(dtype=float),
    act: wp.array(dtype=float),
    force: wp.array(dtype=float),
    applied: wp.array(dtype=float),
    act_out: wp.array(dtype=float),
    force_out: wp.array(dtype=float),
):
    """One thread per actuator: add its effort, within the bounds of the axis, to the force on the dof."""
    i = first + wp.tid()
    most = limit[axis[i]]
    bounded = wp.clamp(effort[i], least_effort(lower[axis[i]], most), most)
    applied[i] = bounded
    act_out[axis[i]] = act[axis[i]]
    force_out[dof[i]] = force[dof[i]] + bounded


@wp.kernel(enable_backward=False)
def forget_numbers(
    first: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), values: wp.array2d(dtype=float)
):
    """One thread per actuator of a masked world: zero its stored values."""
    i = first + wp.tid()
    if mask[world[i]]:
        for k in range(values.shape[1]):
            values[i, k] = 0.0


@wp.kernel(enable_backward=False)
def forget_counts(
    first: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), count: wp.array(dtype=int)
):
    """One thread per actuator of a masked world: reset its number of commands."""
    i = first + wp.tid()
    if mask[world[i]]:
        count[i] = 0
