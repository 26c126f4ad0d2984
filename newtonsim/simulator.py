"""Stepping loop: owns states, captures the step into a graph, resets worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import warp as wp

from newtonsim.errors import NewtonsimError
from newtonsim.kernels import reset as reset_kernels
from newtonsim.kinematics import check_length, eval_fk

if TYPE_CHECKING:
    from newtonsim.contacts import Contacts
    from newtonsim.control import Control
    from newtonsim.model import Model
    from newtonsim.state import State


class Solver(Protocol):
    """What Simulator asks of a solver."""

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step."""

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget what earlier steps left in the solver."""

    def report(self) -> None:
        """Warn of what went wrong in earlier steps and has not been reported yet."""


_REPORT_EVERY = 100
"""Calls of `step` between two reports on a GPU, where a report waits for the device."""


class Simulator:
    """Steps a model with a solver, replaying one captured graph per step.

    Write to the arrays of `state` and `control` in place between steps: the graph holds on to them. Their
    values, and those of the model's arrays, may change at any time; call `recapture` after changing anything
    that is not an array element, such as `model.ground` or an option of the solver.

    Args:
        model: The model.
        solver: A solver made for it.
        dt: Time of one `step` [s].
        substeps: Solver steps that one `step` is divided into.

    Attributes:
        state: The current state.
        control: The inputs that every step reads.
        time: Simulated time [s].

    Raises:
        ValueError: dt or substeps is not positive.
    """

    def __init__(self, model: Model, solver: Solver, dt: float, substeps: int = 1):
        if not dt > 0.0 or not np.isfinite(dt):
            raise ValueError(f"dt: expected a positive number, got {dt}")
        if substeps < 1:
            raise ValueError(f"substeps: expected at least 1, got {substeps}")
        self.model = model
        self.solver = solver
        self.dt = dt
        self.substeps = substeps
        self.time = 0.0
        self._calls = 0
        self.state: State = model.state(requires_grad=False)
        self.control: Control = model.control(requires_grad=False)
        if model.joint_count:
            eval_fk(model, self.state.joint_q, self.state.joint_qd, None, self.state)
        self._initial = self.state.clone()
        self._graph: wp.Graph | None = None
        self._worlds = self._world_of_entries()

    def step(self, n: int = 1) -> None:
        """Advance by n times dt.

        Raises:
            ValueError: n is negative.
        """
        if n < 0:
            raise ValueError(f"n: expected a number not below 0, got {n}")
        if self._graph is None and n > 0:
            # the first step runs eagerly: kernels are compiled and loaded outside the capture
            self._advance()
            with wp.ScopedCapture(device=self.model.device) as capture:
                self._advance()
            self._graph = capture.graph
            self.time += self.dt
            n -= 1
        for _ in range(n):
            wp.capture_launch(self._graph)
            self.time += self.dt
        self._calls += 1
        if self.model.device.is_cpu or self._calls % _REPORT_EVERY == 0:
            self.solver.report()

    def recapture(self) -> None:
        """Drop the captured graph; the next step captures a new one."""
        self._graph = None

    def reset(self, world_mask: wp.array | np.ndarray | None = None, state: State | None = None) -> None:
        """Put worlds back to a state and forget what the solver remembers of them.

        Args:
            world_mask: Worlds to reset, bool, shape (world_count,); None for all.
            state: State to copy from; None for the one that the simulation started from.

        Raises:
            NewtonsimError: The mask has the wrong length or holds no booleans.
        """
        model, device = self.model, self.model.device
        source = self._initial if state is None else state
        if world_mask is None:
            world_mask = np.ones(model.world_count, dtype=bool)
            self.time = 0.0
        if not isinstance(world_mask, wp.array):
            world_mask = np.asarray(world_mask)
            if world_mask.dtype != bool:
                raise NewtonsimError(f"world_mask: expected booleans, one per world, got {world_mask.dtype}")
            world_mask = wp.array(world_mask, dtype=bool, device=device)
        check_length("world_mask", world_mask, model.world_count)
        target = self.state
        for name in ("joint_q", "joint_qd"):
            if getattr(source, name) is not None and len(self._worlds[name]):
                inputs = [world_mask, self._worlds[name], getattr(source, name), getattr(target, name)]
                wp.launch(reset_kernels.restore_floats, len(self._worlds[name]), inputs, device=device)
        if model.body_count:
            inputs = [world_mask, model.body_world, source.body_q, source.body_qd]
            inputs += [target.body_q, target.body_qd, target.body_f]
            wp.launch(reset_kernels.restore_bodies, model.body_count, inputs, device=device)
        if model.particle_count:
            inputs = [world_mask, self._worlds["particle"], source.particle_q, source.particle_qd]
            inputs += [target.particle_q, target.particle_qd, target.particle_f]
            wp.launch(reset_kernels.restore_particles, model.particle_count, inputs, device=device)
        self.solver.reset(target, world_mask)

    def _advance(self) -> None:
        for _ in range(self.substeps):
            self.solver.step(self.model, self.state, self.state, self.control, None, self.dt / self.substeps)

    def _world_of_entries(self) -> dict[str, wp.array]:
        """World of each coordinate, dof and particle; -1 for those of the global world."""
        model = self.model
        starts = {
            "joint_q": (model.world_coord_start, model.joint_coord_count),
            "joint_qd": (model.world_dof_start, model.joint_dof_count),
            "particle": (model.world_particle_start, model.particle_count),
        }
        result = {}
        for name, (start, count) in starts.items():
            world = np.searchsorted(np.asarray(start), np.arange(count), side="right") - 1
            world[world >= model.world_count] = -1
            result[name] = wp.array(world, dtype=int, device=model.device)
        return result
