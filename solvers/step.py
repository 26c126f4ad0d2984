"""The arguments of one step of a solver, and the requirements for recording it on a tape."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.runtime.shards import Shard
from newtonsim.scene.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State

CONVERGENCE_TOLERANCE = 0.01
"""Fraction of the constraints' effect that recorded steps may miss without a warning."""


@dataclass
class Step:
    """Arguments of one step, see `SolverBase.step`.

    Attributes:
        state_in: State at the start.
        state_out: Receives the state at the end.
        control: Inputs.
        contacts: Contacts at the start; None to collide inside the step.
        dt: Time step [s].
        worlds: Worlds that the step and its backward pass handle; None for all.
    """

    state_in: State
    state_out: State
    control: Control
    contacts: Contacts | None
    dt: float
    worlds: Shard | None = field(default=None, kw_only=True)

    def arrays(
        self, model: Model, materials: Collection[str], without: Collection[str] = ()
    ) -> list[wp.array]:
        """Arrays of the step and its model that have gradients.

        Args:
            model: The model.
            materials: Names of those of its shape materials that the step reads.
            without: Names of arrays of the model with respect to which the step is not differentiated.
        """
        states = (self.state_in, self.state_out)
        arrays = [getattr(state, spec.name) for spec in STATE_ARRAYS for state in states]
        arrays += [getattr(self.control, spec.name) for spec in CONTROL_ARRAYS]
        arrays += [a for name, a in vars(model).items() if isinstance(a, wp.array) and name not in without]
        arrays += [getattr(model.shape_materials, name, None) for name in materials]
        return [a for a in arrays if a is not None and a.size and a.grad is not None]

    def check_not_in_place(self) -> None:
        """Raise ValueError if the step overwrites the state that its backward pass needs."""
        if self.state_in is self.state_out:
            raise ValueError("state_in and state_out must differ while a gradient is recorded")

    def check_gradients(self, has_adjoint: bool) -> None:
        """Raise a ValueError if there are no arrays for gradients, or contacts may change before the backward
        pass.

        Args:
            has_adjoint: Whether the solver has a backward pass for its model.
        """
        if not (self.state_in.requires_grad and self.state_out.requires_grad and has_adjoint):
            raise ValueError(
                "a recorded step needs a model finalized with requires_grad=True and states that require "
                "gradients"
            )
        if self.contacts is not None:
            raise ValueError(
                "contacts: pass None while a gradient is recorded; a buffer that is filled again before the "
                "backward pass would give a wrong one"
            )
