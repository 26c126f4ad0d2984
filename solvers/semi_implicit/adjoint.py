"""Backward pass of a SemiImplicitSolver step.

The forward pass keeps nothing but its states. Backward, the step's contacts are found again from the stored
state, its kernels run once more on a tape of their own, and this tape runs back.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels.collision import contact_features
from newtonsim.kernels.collision.contact_features import FeatureView
from newtonsim.kernels.penalty import unsupported as penalty_unsupported
from newtonsim.runtime.compilation import load_once
from newtonsim.runtime.copies import copy, fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.runtime.tapes import Tape
from newtonsim.scene.allocation import zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.contact_features import features_of
from newtonsim.solvers.semi_implicit.bodies import BodyForces
from newtonsim.solvers.semi_implicit.elements import ElementForces
from newtonsim.solvers.step import Step

_MOVED = ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q", "joint_qd")
"""Arrays of a state that a step writes."""


class Forces(Protocol):
    """What the backward pass asks of the forward one, which `SemiImplicitSolver` has.

    Attributes:
        model: The model.
        bodies: Forces on bodies.
        elements: Forces on particles.
        starts: Kinds of index of its elements, see `Shard`.
    """

    model: Model
    bodies: BodyForces
    elements: ElementForces
    starts: dict[str, np.ndarray]

    def find_contacts(
        self,
        launch: Launcher,
        state: State,
        contacts: Contacts | None,
        dt: float,
        curved: bool,
        buffer: Contacts | None = None,
    ) -> Contacts:
        """Find what touches at the start of a step."""
        ...

    def advance(
        self,
        launch: Launcher,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts,
        dt: float,
        features: FeatureView | None = None,
    ) -> None:
        """All of a step that has a gradient."""


class SemiImplicitAdjoint:
    """Backward pass, shared by all steps of a solver.

    Args:
        solver: A solver whose model was finalized with gradients.
    """

    def __init__(self, solver: Forces):
        self.solver, model = solver, solver.model
        parts = [solver.elements, solver.bodies]
        if solver.bodies.loops is not None:
            parts.append(solver.bodies.loops)
        arrays = [a for part in parts for a in vars(part).values() if isinstance(a, wp.array)]
        self._scratch = [a for a in arrays if a.requires_grad and a.size]
        # neither the states of the rollout nor the solver's contacts change in a backward pass
        self._end = model.state(requires_grad=True)
        self._contacts = Contacts(model)
        count = self._contacts.rigid_contact_max
        self._features = features_of(count, model.device) if count else None
        self._refused = zeros(model.world_count, dtype=bool, device=model.device)

    def record(self, tape: wp.Tape, step: Step) -> None:
        """Append the backward pass of one step to a tape."""
        tracked = step.arrays(self.solver.model, ("ke", "kd", "kf", "mu"))
        tape.record_func(lambda: self.run(step), tracked)

    def run(self, step: Step) -> None:
        """Add the step's contribution to the gradients of its inputs.

        Raises:
            NotDifferentiableError: A contact acted that has no derivative, and no graph is being captured.
        """
        device = self.solver.model.device
        load_once(self, partial(self._reverse, step), device)
        self._reverse(step)
        if not device.is_capturing:
            self.check()

    def _reverse(self, step: Step) -> None:
        """Everything that `run` launches."""
        solver, model = self.solver, self.solver.model
        shard = Shard(model).with_starts(solver.starts)
        launch = Launcher(model, record_tape=False, shard=shard)
        contacts = solver.find_contacts(
            launch, step.state_in, None, step.dt, curved=True, buffer=self._contacts
        )
        for array in self._scratch:
            fill(array.grad)
        for name in _MOVED:
            array = getattr(self._end, name)
            if array is not None:
                copy(array.grad, getattr(step.state_out, name).grad)
        if self._features is not None:
            self._find_features(launch, step.state_in)
        with Tape() as tape:
            recorded = Launcher(model, record_tape=True, shard=shard)
            end, inputs = self._end, (step.control, contacts, step.dt)
            solver.advance(recorded, step.state_in, end, *inputs, features=self._features)
        tape.backward()

    def _find_features(self, launch: Launcher, state: State) -> None:
        """Find the features in contact; gradients of worlds where one has no rule become NaN."""
        model, plan, contacts = launch.model, collision_plan_of(launch.model), self._contacts.view
        launch(
            contact_features.find_features,
            "contact",
            reads=dict(contacts=contacts, shape=plan.shape, hulls=plan.hulls, body_q=state.body_q),
            writes=dict(features=self._features),
        )
        launch(
            penalty_unsupported.refuse_unknown,
            "contact",
            reads=dict(
                contacts=contacts,
                features=self._features,
                shape_body=model.shape_body,
                body_world=model.body_world,
            ),
            writes=dict(refused=self._refused, body_qd_grad=self._end.body_qd.grad),
        )

    def check(self) -> None:
        """Raise if a gradient was refused since the last call; waits for the device.

        Raises:
            NotDifferentiableError: It was; the message names the worlds.
        """
        worlds = np.flatnonzero(self._refused.numpy())
        if len(worlds):
            self._refused.zero_()
            raise NotDifferentiableError(
                f"worlds {worlds[:8].tolist()}: contacts between bodies acted that have no derivative, such "
                "as those of distance fields; the gradients of these worlds are NaN"
            )
