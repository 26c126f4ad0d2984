"""Steps on a tape: what they were called with, and their backward passes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.errors import NotDifferentiableError
from newtonsim.scene.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from newtonsim.solvers.maximal.adjoint import BodyAdjoint
    from newtonsim.solvers.particles.adjoint import ParticleAdjoint


@dataclass
class RecordedStep:
    """Arguments of one recorded step."""

    state_in: State
    state_out: State
    control: Control
    contacts: Contacts | None
    dt: float

    def arrays(
        self, model: Model, materials: Collection[str], without: Collection[str] = ()
    ) -> list[wp.array]:
        """Arrays of the step and its model that have gradients.

        Args:
            model: The model.
            materials: Names of those of its shape materials that the step reads.
            without: Names of arrays of the model by which the step is not differentiated.
        """
        states = (self.state_in, self.state_out)
        arrays = [getattr(state, spec.name) for spec in STATE_ARRAYS for state in states]
        arrays += [getattr(self.control, spec.name) for spec in CONTROL_ARRAYS]
        arrays += [a for name, a in vars(model).items() if isinstance(a, wp.array) and name not in without]
        arrays += [getattr(model.shape_materials, name, None) for name in materials]
        return [a for a in arrays if a is not None and a.size and a.grad is not None]


def record_sweeps(
    tape: wp.Tape,
    solver: str,
    model: Model,
    adjoint: ParticleAdjoint | None,
    bodies: BodyAdjoint | None,
    step: RecordedStep,
    substeps: int,
) -> None:
    """Put the backward pass of one step of XPBD or VBD on a tape.

    Args:
        tape: The tape.
        solver: Name of the solver, for errors.
        model: The model of the step.
        adjoint: Backward pass of its particles; None if there is none.
        bodies: Backward pass of its rigid bodies; None if there is none.
        step: The step.
        substeps: Substeps that it is made of.

    Raises:
        NotDifferentiableError: The model has what has no gradient.
        ValueError: The step is in place, has contacts of its own, or model or states have no gradients.
    """
    _check(solver, model, adjoint is not None or bodies is not None, step)
    if adjoint is not None:
        adjoint.make_room()
    if bodies is not None:
        bodies.make_room(substeps)

    def run() -> None:
        if adjoint is not None:
            adjoint.run(step)
        if bodies is not None:
            bodies.run(step, substeps)

    materials = ("ke", "kd", "kf", "mu", "restitution")
    tape.record_func(run, step.arrays(model, materials, without=("joint_axis", "joint_armature")))


def _check(solver: str, model: Model, has_adjoint: bool, step: RecordedStep) -> None:
    """Raise if a step of XPBD or VBD cannot be recorded."""
    if model.body_count and model.particle_count:
        raise NotDifferentiableError(f"{solver}: particles among rigid bodies have no gradients")
    if step.state_in is step.state_out:
        raise ValueError("state_in and state_out must differ while a gradient is recorded")
    if not (has_adjoint and step.state_in.requires_grad and step.state_out.requires_grad):
        raise ValueError(
            "a recorded step needs a model finalized with requires_grad=True and states that "
            "require gradients"
        )
    if step.contacts is not None:
        raise ValueError(
            "contacts: pass None while a gradient is recorded; a buffer that is filled again before the "
            "backward pass would give a wrong one"
        )
