"""Parallel runs of many worlds over the horizon, and their costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.errors import NewtonsimError
from newtonsim.kernels.optimize import runs
from newtonsim.kernels.optimize.views import CostView, RunView
from newtonsim.runtime.capture import capture_launches, capturing
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, write, zeros
from newtonsim.simulator import Simulator

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

Stage = Callable[[Launcher, Any], None]
"""Launches over the worlds of a `RunView`."""


def cost_view(
    problem: Problem, model: Model, state: State, control: Control, step: wp.array, losses: wp.array
) -> Any:
    """Return what costs of the worlds of a model are functions of; this allocates, which no recording may."""
    view: Any = CostView()
    worlds = model.world_count
    view.joint_q, view.joint_qd = state.joint_q, state.joint_qd
    view.body_q, view.body_qd = state.body_q, state.body_qd
    view.control = getattr(control, problem.inputs)
    view.entry = put(problem.entries, dtype=int, device=model.device)
    view.contact_f = zeros(0, dtype=wp.spatial_vector, device=model.device)
    view.sequence = zeros((0, 0, 0), dtype=float, device=model.device)
    view.step, view.losses = step, losses
    view.coords, view.dofs = model.joint_coord_count // worlds, model.joint_dof_count // worlds
    view.joints, view.bodies = model.joint_count // worlds, model.body_count // worlds
    view.inputs = len(view.control) // worlds
    view.hold, view.steps, view.interval = problem.hold, problem.steps, problem.interval
    return view


class Runs:
    """Worlds that start in the same state and follow their own controls.

    The whole run is replayed as a graph: the start, and for each control its application, the steps, their
    costs, and the record of the state.

    Args:
        problem: The problem.
        worlds: Number of worlds.
        act: Launches kernels that apply the next control of each world, as
            `kernels.optimize.runs.apply_controls` does from `view.sequence`.
        begin: Launches what else happens at the start.
        threads: See `Simulator`.
        move: Launches what finds the states from which the worlds go on with their next control, and then
            what writes them to `view.joint_q` and `view.joint_qd`; None where they go on from where they are.

    Attributes:
        view: Controls and states, a `RunView`.
    """

    def __init__(
        self,
        problem: Problem,
        worlds: int,
        act: Stage,
        begin: Stage | None = None,
        threads: int | None = None,
        move: tuple[Stage, Stage] | None = None,
    ):
        self.problem, self.worlds = problem, worlds
        self.model = problem.make_model(worlds)
        model, device = self.model, self.model.device
        self._act, self._begin, self._move = act, begin, move
        self.view: Any = RunView()
        self._costs: Any = None  # made when kernels are loaded, before anything is recorded
        self._make_room(device)
        self._wrenches: wp.array | None = None
        if any(cost.contact_forces for cost in problem.costs):
            self._wrenches = zeros(model.body_count, dtype=wp.spatial_vector, device=device)
        self._everyone = put(np.ones(worlds, bool), dtype=bool, device=device)
        solver = problem.solver(model)
        if self._wrenches is not None:
            _check_forces(solver)
        self.sim = Simulator(
            model, solver, problem.interval, problem.hold, threads, self._launch_before, self._launch_after
        )
        launch = Launcher(model, record_tape=False)
        try:
            self._launch_start(launch)
        except NotImplementedError as error:
            raise NewtonsimError(f"solver: {error}; FeatherstoneSolver does") from error
        with capturing:
            self._start = capture_launches(lambda: self._launch_start(launch), device)

    def _make_room(self, device: wp.Device) -> None:
        problem, model, worlds, view = self.problem, self.model, self.worlds, self.view
        count, rows = len(problem.entries), problem.horizon
        view.coords, view.dofs = model.joint_coord_count // worlds, model.joint_dof_count // worlds
        view.joints, view.hold = model.joint_count // worlds, problem.hold
        view.step = zeros(worlds, dtype=int, device=device)
        view.losses = zeros(worlds, dtype=float, device=device)
        view.entry = put(problem.entries, dtype=int, device=device)
        view.low = put(problem.low, dtype=float, device=device)
        view.high = put(problem.high, dtype=float, device=device)
        view.start_q = zeros(view.coords, dtype=float, device=device)
        view.start_qd = zeros(view.dofs, dtype=float, device=device)
        view.sequence = zeros((rows, count, worlds), dtype=float, device=device)
        view.q = zeros((rows + 1, worlds * view.coords), dtype=float, device=device)
        view.qd = zeros((rows + 1, worlds * view.dofs), dtype=float, device=device)

    def run(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Run all worlds from one state to the horizon.

        Args:
            q: Coordinates, (C,).
            qd: Velocities, (N,).

        Returns:
            Cost of each world, (worlds,), float64.
        """
        write(self.view.start_q, q)
        write(self.view.start_qd, qd)
        self._start(1)
        self.sim.step(self.problem.horizon)
        return self.view.losses.numpy().astype(np.float64)

    def controls(self, world: int) -> np.ndarray:
        """Controls of a world, (horizon, M), float64."""
        return self.view.sequence.numpy()[:, :, world].astype(np.float64)

    def states(self, world: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (horizon + 1, C) and velocities (horizon + 1, N) of a world, float64."""
        view = self.view
        q = view.q.numpy()[:, world * view.coords : (world + 1) * view.coords]
        qd = view.qd.numpy()[:, world * view.dofs : (world + 1) * view.dofs]
        return q.astype(np.float64), qd.astype(np.float64)

    def _attach(self, sim: Simulator) -> Any:
        """The view, with the arrays of a simulation."""
        view = self.view
        view.joint_q, view.joint_qd = sim.state.joint_q, sim.state.joint_qd
        view.control = getattr(sim.control, self.problem.inputs)
        view.inputs = len(view.control) // self.worlds
        return view

    def _launch_start(self, launch: Launcher) -> None:
        view = self._attach(self.sim)

        def spawn() -> None:
            launch(runs.begin_runs, "world", writes=dict(run=view))

        self.sim.reset_worlds(launch, self._everyone, spawn)
        if self._begin is not None:
            self._begin(launch, view)

    def _launch_before(self, launch: Launcher, sim: Simulator) -> None:
        view = self._attach(sim)
        if self._move is not None:
            find, put_there = self._move
            find(launch, view)
            sim.reset_worlds(launch, self._everyone, lambda: put_there(launch, view))
        self._act(launch, view)

    def _launch_after(self, launch: Launcher, sim: Simulator) -> None:
        view = self._attach(sim)
        launch(runs.count_steps, "world", writes=dict(run=view))
        if self._costs is None:
            self._costs = cost_view(self.problem, self.model, sim.state, sim.control, view.step, view.losses)
            self._costs.sequence = view.sequence
            if self._wrenches is not None:
                self._costs.contact_f = self._wrenches
        if self._wrenches is not None:
            dt = sim.dt / sim.substeps
            solver: Any = sim.solver
            solver.external_wrenches(launch.shard, dt, self._wrenches, constraints=False)
        for cost in self.problem.costs:
            cost.add(launch, self._costs)
        launch(runs.record_states, "world", writes=dict(run=view))


def apply_controls(launch: Launcher, view: Any) -> None:
    """Launch what applies the next control of the sequence of each world."""
    launch(runs.apply_controls, "world", writes=dict(run=view))


def _check_forces(solver: Any) -> None:
    """Refuse solvers that cannot report contact forces within a recording."""
    if not hasattr(solver, "external_wrenches"):
        raise NewtonsimError(
            f"solver: {type(solver).__name__} does not report contact forces; FeatherstoneSolver does"
        )
    if getattr(solver, "compliant", False):
        raise NewtonsimError(
            "solver: forces of compliant contacts are not available; use contact_mode='hard'"
        )
