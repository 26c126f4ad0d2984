"""Base of the solvers whose steps consist only of launches."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.steps.replay import repeat_launches
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.compilation import begin, load_once
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.step import Step


class LaunchedSolver(SolverBase):
    """A solver whose step is a series of launches, over all worlds or over some of them.

    It does what all such solvers need around their launches: it checks arguments, puts steps on a tape,
    compiles kernels before the first step, and reports failures. A subclass writes `_prepare`, `_record` and
    `_advance`.
    """

    divides_worlds = True

    step_type: ClassVar[type[Step]] = Step
    """Arguments of a step as `_record` and `_advance` take them."""

    differentiated_controls: ClassVar[tuple[str, ...]] = ()
    """Arrays of `Control`; a step is recorded if one of them has a gradient."""

    def __init__(self, model: Model | None):
        super().__init__(model)
        if model is not None:
            begin(repeat_launches.module, model.device)

    @abstractmethod
    def _prepare(self, model: Model) -> Control:
        """Check the model and the options of a step, and return the inputs of steps that are given none."""

    @abstractmethod
    def _record(self, tape: wp.Tape, model: Model, step: Step) -> None:
        """Put the backward pass of a step on a tape, before the step is made.

        Raises:
            NotDifferentiableError: The model or an option has no gradient.
            ValueError: The step is in place, has contacts of its own, or model or states have no gradients.
        """

    def _use_memory(self, step: Step) -> None:
        """Give a step what the last `use_step_memory` and `use_worlds` said; most solvers have neither."""

    @abstractmethod
    def _advance(self, shard: Shard, step: Step) -> None:
        """Launch a step of some worlds."""

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`.

        Raises:
            ModelError: The model has elements that the solver does not move, or a state, the control or the
                contacts do not fit it.
            NotDifferentiableError: A tape records something without a gradient.
            ValueError: The model is not the solver's, dt or an option is out of range, or a gradient is
                recorded in place.
        """
        default = self._prepare(model)
        control = self.check_step(model, state_in, state_out, control, default, contacts, dt)
        step = self.step_type(state_in, state_out, control, contacts, dt)
        self._use_memory(step)
        tape = active_tape()
        if tape is not None and self._wants_gradient(model, step):
            self._record(tape, model, step)
        run = partial(self._advance, step.worlds or Shard(model), step)
        load_once(self, run, model.device)
        run()
        if model.device.is_cpu:
            self.report()

    def _wants_gradient(self, model: Model, step: Step) -> bool:
        if step.state_in.requires_grad or model.requires_grad:
            return True
        arrays = (getattr(step.control, name) for name in self.differentiated_controls)
        return any(array is not None and array.requires_grad for array in arrays)

    def step_worlds(
        self,
        shard: Shard,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance some worlds by one step; see `SolverBase.step_worlds`."""
        self._advance(shard, self.step_type(state_in, state_out, control, contacts, dt))
