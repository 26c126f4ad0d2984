"""Arrays of an environment, and the structs through which kernels see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.envs.episodes import EpisodeView
from newtonsim.kernels.envs.views import EnvView
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.envs.task import Motors, Task
    from newtonsim.envs.vision import CameraSensor
    from newtonsim.scene.model import Model
    from newtonsim.simulator import Simulator


class Buffers:
    """Everything that an environment keeps on the device, in addition to the simulation.

    Args:
        task: The task.
        motors: Motors that its actions drive.
        model: Model of all worlds, which are copies of one.
        readings: Number of values that the sensors of a world measure.
        sensor: The camera whose pictures are the observations; None if the task's numbers are.

    Attributes:
        view: What kernels of the task see; the arrays of the state are those of `attach`.
        episodes: Ends and statistics of episodes.
        everyone: A mask of all worlds.
        asked: The mask of the last call of reset.
        observations: What a step returns, (num_envs, ...): `view.obs` or pictures.
        final_observations: The same, at the end of the last complete episodes.
    """

    def __init__(
        self, task: Task, motors: Motors, model: Model, readings: int, sensor: CameraSensor | None = None
    ):
        worlds, device = model.world_count, model.device
        actions = 1 if task.discrete_actions else len(motors.low)
        view = self.view = EnvView()
        self._count_of_worlds(model)
        view.body_mass, view.body_com = model.body_mass, model.body_com
        view.body_inertia, view.joint_axis_mode = model.body_inertia, model.joint_axis_mode
        view.motor_axis = put(motors.axes, dtype=int, device=device)
        view.motor_gear = put(motors.gears, dtype=float, device=device)
        view.numbers = put(task.numbers() or [0.0], dtype=float, device=device)
        view.strength = put(np.ones(worlds), dtype=float, device=device)
        view.action_low = put(motors.low, dtype=float, device=device)
        view.action_high = put(motors.high, dtype=float, device=device)
        view.control_dt = task.dt * task.frame_skip
        view.key = zeros(worlds, dtype=int, device=device)
        view.episode = zeros(worlds, dtype=int, device=device)
        view.length = zeros(worlds, dtype=int, device=device)
        wrenches = model.body_count if task.contact_wrenches else 0
        view.body_wrench = zeros(wrenches, dtype=wp.spatial_vector, device=device)
        view.memory = zeros((worlds, max(task.memory_size, 1)), dtype=float, device=device)
        view.kept = zeros((worlds, max(task.kept_size, 1)), dtype=float, device=device)
        view.terrain = put(np.full(worlds, -1.0), dtype=float, device=device)
        view.actions = zeros((worlds, actions), dtype=float, device=device)
        view.sensed = zeros((worlds, readings), dtype=float, device=device)
        view.obs = zeros((worlds, task.observation_size), dtype=float, device=device)
        view.reward = zeros(worlds, dtype=float, device=device)
        view.terminated = zeros(worlds, dtype=bool, device=device)
        view.success = zeros(worlds, dtype=bool, device=device)
        self.episodes = _episodes(worlds, task.observation_size, task.privileged_size, device)
        self.everyone = put(np.ones(worlds, bool), dtype=bool, device=device)
        self.asked = put(np.ones(worlds, bool), dtype=bool, device=device)
        self.observations, self.final_observations = view.obs, self.episodes.final_obs
        if sensor is not None:
            shape = (worlds, *sensor.shape)
            self.observations = zeros(shape, dtype=wp.uint8, device=device)
            self.final_observations = zeros(shape, dtype=wp.uint8, device=device)

    def _count_of_worlds(self, model: Model) -> None:
        """Record how much of the model each world has."""
        self.view.coords = _per_world("coords", model.world_coord_start, model.joint_coord_count)
        self.view.dofs = _per_world("dofs", model.world_dof_start, model.joint_dof_count)
        self.view.bodies = _per_world("bodies", model.world_body_start, model.body_count)
        self.view.axes = model.joint_axis_count // model.world_count

    def attach(self, sim: Simulator) -> EnvView:
        """Return the view with the current arrays of a simulation."""
        state, control = sim.state, sim.control
        self.view.joint_q, self.view.joint_qd = state.joint_q, state.joint_qd
        self.view.body_q, self.view.body_qd = state.body_q, state.body_qd
        self.view.body_f = state.body_f
        self.view.joint_act, self.view.joint_f = control.joint_act, control.joint_f
        marks = getattr(sim.solver, "world_nonfinite", None)
        self.episodes.nonfinite = (
            wp.zeros(0, dtype=bool, device=state.joint_q.device) if marks is None else marks
        )
        return self.view

    def critics_view(self) -> EnvView:
        """Return the attached view with the privileged observations in place of those of the policy."""
        return replaced(self.view, obs=self.episodes.privileged)


def replaced(view: EnvView, **arrays: wp.array) -> EnvView:
    """Return a copy of a view of an environment with some other arrays."""
    copy: Any = EnvView()
    for name in copy._cls.vars:
        setattr(copy, name, arrays.get(name, getattr(view, name)))
    return copy


def _per_world(what: str, starts: np.ndarray, total: int) -> int:
    """Return how many elements each world has, from the first of each world and the end of the last."""
    sizes = np.diff(np.asarray(starts))
    if np.any(sizes != sizes[0]) or sizes.sum() != total:
        raise ModelError(f"{what}: expected the same number in every world and none outside, got {sizes}")
    return int(sizes[0])


def _episodes(worlds: int, observation_size: int, privileged_size: int, device: wp.Device) -> EpisodeView:
    """Return the statistics of episodes, all zero."""
    view = EpisodeView()
    view.truncated = zeros(worlds, dtype=bool, device=device)
    view.ended = zeros(worlds, dtype=bool, device=device)
    view.fresh = zeros(worlds, dtype=bool, device=device)
    view.waiting = zeros(worlds, dtype=bool, device=device)
    view.broken = zeros(worlds, dtype=bool, device=device)
    view.failures = zeros(worlds, dtype=int, device=device)
    view.episode_return = zeros(worlds, dtype=float, device=device)
    view.final_return = zeros(worlds, dtype=float, device=device)
    view.final_length = zeros(worlds, dtype=int, device=device)
    view.final_obs = zeros((worlds, observation_size), dtype=float, device=device)
    view.privileged = zeros((worlds, privileged_size), dtype=float, device=device)
    view.final_privileged = zeros((worlds, privileged_size), dtype=float, device=device)
    return view
