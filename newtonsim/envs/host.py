"""The view of an environment for Python functions that replace kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.errors import NewtonsimError, did_you_mean

if TYPE_CHECKING:
    from newtonsim.envs.buffers import Buffers
    from newtonsim.simulator import Simulator

_ROWS = ("joint_q", "joint_qd", "body_q", "body_qd", "body_f", "joint_act", "joint_f")
_OWN = ("actions", "memory", "kept", "sensed", "obs", "reward", "terminated", "length", "episode")


class HostView:
    """Arrays of all worlds as NumPy arrays or torch tensors, to be read and written in place.

    Args:
        buffers: Arrays of the environment.
        sim: The simulation.
        output: "numpy", on the CPU only, or "torch".

    Attributes:
        joint_q: Joint coordinates, (num_envs, n).
        joint_qd: Joint velocities, (num_envs, n).
        body_q: Poses of the bodies, xyz and quaternion xyzw, (num_envs, n, 7).
        body_qd: Angular velocity and velocity of the centre of mass, world axes, (num_envs, n, 6).
        body_f: Torque and force at the centre of mass for the next step, (num_envs, n, 6).
        joint_act: Inputs of the drives, (num_envs, n).
        joint_f: Generalised forces, (num_envs, n).
        actions: Actions, (num_envs, n).
        memory: Memory of the task, (num_envs, n).
        kept: Memory that lasts from episode to episode, (num_envs, n).
        sensed: Readings of the sensors, (num_envs, n).
        obs: Observations, (num_envs, n).
        reward: Rewards, (num_envs,).
        terminated: Whether an episode is over, (num_envs,).
        length: Steps of the episode before this one, (num_envs,).
        episode: Number of the episode, (num_envs,).

    Raises:
        NewtonsimError: NumPy is requested on a GPU.
        AttributeError: An attribute is assigned, as in `w.obs = ...`, which would change no array.
    """

    def __init__(self, buffers: Buffers, sim: Simulator, output: str):
        device = sim.model.device
        if output == "numpy" and not device.is_cpu:
            raise NewtonsimError(f"Python functions on {device} need output='torch', got 'numpy'")
        view, worlds = buffers.attach(sim), sim.model.world_count
        convert = wp.to_torch if output == "torch" else wp.array.numpy
        arrays = {name: convert(getattr(view, name)) for name in _OWN}
        for name in _ROWS:
            array = getattr(view, name)
            if array is not None and len(array):
                values: Any = convert(array)
                arrays[name] = values.reshape(worlds, -1, *values.shape[1:])
        vars(self).update(arrays)

    def __setattr__(self, name: str, value: Any) -> None:
        arrays = vars(self)
        # `w.obs += 1` has written into the array already, and assigns the same one
        if name in arrays and arrays[name] is value:
            return
        if name in arrays:
            raise AttributeError(
                f"HostView: {name} cannot be assigned to; write into the array: w.{name}[:] = ..."
            )
        raise AttributeError(f"HostView: there is no {name!r} to write into{did_you_mean(name, arrays)}")
