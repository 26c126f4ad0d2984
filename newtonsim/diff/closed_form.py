"""Linear models of steps of solvers that have them in closed form, recorded once and replayed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.diff.inputs import ControlInputs, Controls
from newtonsim.dynamics.recordings import Recordings
from newtonsim.errors import NewtonsimError
from newtonsim.runtime.shards import Shard, divide_among, wanted_threads
from newtonsim.runtime.side_by_side import SideBySide
from newtonsim.scene.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.scene.control import Control

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State
    from newtonsim.solver_protocol import DifferentiableSolver, LinearSteps

_STATE = tuple(spec.name for spec in STATE_ARRAYS)
_CONTROL = tuple(spec.name for spec in CONTROL_ARRAYS)
_FORCES = ("body_f", "particle_f")
_MATERIALS = ("ke", "kd", "mu", "restitution")

_SHARD_WORK = 450
"""Least degrees of freedom in a shard: 30 ants or 16 humanoids.

Measured with 256 humanoids on one core with 1 MB of level 2 cache: 72 µs a world in shards of 16 worlds, 74
in shards of 64, 77 in shards of 128.
"""


class ClosedForm:
    """Linear models of several steps with the same inputs, composed of those of each step.

    Steps are recorded for the arrays that are given, so that the same state and control with other contents
    cost only a replay.

    Args:
        model: The model.
        solver: Its solver.
        linear: Makes its steps and their linear models.
        steps: Number of steps.
        dt: Time of each [s].
        warm_start: Whether the first step starts from what the solver's last one left.
    """

    def __init__(
        self,
        model: Model,
        solver: DifferentiableSolver,
        linear: LinearSteps,
        steps: int,
        dt: float,
        warm_start: bool,
    ):
        self._model, self._solver, self._linear = model, solver, linear
        self._steps, self._dt, self._warm_start = steps, dt, warm_start
        self._ends = model.state(requires_grad=False), model.state(requires_grad=False)
        self._inputs = ControlInputs(model, 1)
        self._all = wp.full(model.world_count, True, dtype=bool, device=model.device)
        threads = wanted_threads(model, None)
        self._shards = divide_among(model, threads, _SHARD_WORK)
        self._recordings = Recordings(model, SideBySide(min(threads, len(self._shards))))

    def __call__(self, state: State, controls: Controls) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return A (world_count, 2 n, 2 n) and B (world_count, 2 n, inputs) about a state.

        The third array has the worlds in which something acted in one of the steps that the closed form does
        not cover, (worlds,).

        Raises:
            ModelError: The state or the control does not fit the model.
            NewtonsimError: Other controls do not fit it.
            NotDifferentiableError: A contact acted whose shapes have no gradient.
        """
        control = self._control(controls)
        if self._steps > 1:
            for name in _FORCES:
                if getattr(state, name) is not None:
                    for end in self._ends:
                        wp.copy(getattr(end, name), getattr(state, name))
        A, B, lacking = self._one_step(state, self._ends[0], control, first=True)
        for i in range(1, self._steps):
            by_state, by_inputs, more = self._one_step(
                self._ends[1 - i % 2], self._ends[i % 2], control, first=False
            )
            A, B, lacking = by_state @ A, by_state @ B + by_inputs, np.union1d(lacking, more)
        return A, B, lacking

    def _control(self, controls: Controls) -> Control:
        if isinstance(controls, Control):
            return controls
        self._inputs.set(controls)
        if self._inputs.sequences:
            raise NewtonsimError(f"controls: expected no sequences, got {self._inputs.sequences}")
        return self._inputs.control

    def _one_step(
        self, state: State, end: State, control: Control, first: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Make a step, the first one of a call or a later one, and its linear model."""
        self._model.check_state(state)
        self._model.check_control(control)
        arrays = [getattr(state, name) for name in _STATE]
        arrays += [getattr(control, name) for name in _CONTROL]
        self._recordings.run(
            (first, *self._what_is_baked()),
            tuple(arrays),
            *(partial(self._launch, shard, state, end, control, first) for shard in self._shards),
        )
        lacking = self._linear.not_covered()
        return self._linear.A.numpy().copy(), self._linear.B.numpy().copy(), lacking

    def _what_is_baked(self) -> tuple:
        """Return what a step must be recorded again for, apart from the model's revision."""
        materials = self._model.shape_materials
        arrays = () if materials is None else tuple(id(getattr(materials, name)) for name in _MATERIALS)
        return self._solver.baked_revision(), *arrays

    def _launch(self, shard: Shard, state: State, end: State, control: Control, first: bool) -> None:
        if first and self._warm_start:
            self._linear.forget_nonfinite(shard)
        elif first:
            self._solver.reset_worlds(shard, state, self._all)
        self._linear.step(shard, state, end, control, self._dt)
