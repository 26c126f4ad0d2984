"""What Python functions see of an environment in place of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.errors import NewtonsimError

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
        memory: What the task remembers, (num_envs, n).
        kept: What it remembers from episode to episode, (num_envs, n).
        sensed: Readings of the sensors, (num_envs, n).
        obs: Observations, (num_envs, n).
        reward: Rewards, (num_envs,).
        terminated: Whether an episode is over, (num_envs,).
        length: Steps of the episode before this one, (num_envs,).
        episode: Number of the episode, (num_envs,).

    Raises:
        NewtonsimError: NumPy is asked for on a GPU.
    """

    def __init__(self, buffers: Buffers, sim: Simulator, output: str):
        device = sim.model.device
        if output == "numpy" and not device.is_cpu:
            raise NewtonsimError(f"Python functions on {device} need output='torch', got 'numpy'")
        view, worlds = buffers.attach(sim), sim.model.world_count
        convert = wp.to_torch if output == "torch" else wp.array.numpy
        for name in _OWN:
            setattr(self, name, convert(getattr(view, name)))
        for name in _ROWS:
            array = getattr(view, name)
            if array is not None and len(array):
                values: Any = convert(array)
                setattr(self, name, values.reshape(worlds, -1, *values.shape[1:]))
