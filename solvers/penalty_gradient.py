"""Backward pass of a SemiImplicitSolver step.

The forward pass keeps nothing but its states. Backward, the step's contacts are found again from the stored
state, its kernels run once more on a tape of their own, and this tape runs back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.shards import Shard
from newtonsim.state import State
from newtonsim.workspace import Launcher

if TYPE_CHECKING:
    from newtonsim.solvers.semi_implicit import SemiImplicitSolver


@dataclass
class RecordedStep:
    """Arguments of one recorded step."""

    state_in: State
    state_out: State
    control: Control
    contacts: Contacts | None
    dt: float


class StepAdjoint:
    """Backward pass, shared by all steps of a solver.

    Args:
        solver: A solver whose model was finalized with gradients.
    """

    def __init__(self, solver: SemiImplicitSolver):
        self.solver = solver
        parts = (solver.elements, solver.bodies)
        arrays = [a for part in parts for a in vars(part).values() if isinstance(a, wp.array)]
        self._scratch = [a for a in arrays if a.requires_grad and a.size]

    def record(self, tape: wp.Tape, step: RecordedStep) -> None:
        """Append the backward pass of one step to a tape."""
        model = self.solver.model
        arrays = [getattr(state, s.name) for s in STATE_ARRAYS for state in (step.state_in, step.state_out)]
        arrays += [getattr(step.control, spec.name) for spec in CONTROL_ARRAYS]
        arrays += [a for a in vars(model).values() if isinstance(a, wp.array)]
        arrays += [getattr(model.shape_materials, name, None) for name in ("ke", "kd", "kf", "mu")]
        tracked = [a for a in arrays if a is not None and a.size and a.grad is not None]
        tape.record_func(lambda: self.run(step), tracked)

    def run(self, step: RecordedStep) -> None:
        """Add the step's contribution to the gradients of its inputs."""
        solver, model = self.solver, self.solver.model
        shard = Shard(model).with_starts(solver.starts)
        launch = Launcher(model, record_tape=False, shard=shard)
        contacts = solver.find_contacts(launch, step.state_in, None, step.dt, curved=True)
        for array in self._scratch:
            array.grad.zero_()
        with wp.Tape() as tape:
            launch = Launcher(model, record_tape=True, shard=shard)
            solver.advance(launch, step.state_in, step.state_out, step.control, contacts, step.dt)
        tape.backward()
