"""Arguments of a step of FeatherstoneSolver, and what its sweeps start from."""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.steps import warm_start
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.step import Step

_KINDS = {
    "dof": "dof_row",
    "pair": "pair_row",
    "contact": "contact",
    "spin": "contact",
    "pull": "body",
    "turning": "body",
    "held": "body",
}
"""What a step starts from, and the kind of index that it has."""


def _sources(stage: ConstraintStage) -> dict[str, wp.array]:
    """What a step starts from: impulses of rows, and the forces that bodies transmitted in the last step."""
    rows = stage.rows
    sources = {family: getattr(rows, family).impulse for family in ("dof", "pair", "contact", "spin")}
    if stage.stiffness is not None:
        sources["pull"], sources["turning"], sources["held"] = stage.stiffness.memory
    return {name: array for name, array in sources.items() if len(array)}


class StartingImpulses:
    """What earlier steps gave a step to start from, by which it can be solved again bit by bit.

    Where the impulses that the step found say all of its solution, they take the place of those with which it
    started, and nothing has to be solved again.

    Args:
        stage: The constraint stage whose rows they are, or one that is like it.

    Attributes:
        values: All of it as one array of floats.
    """

    def __init__(self, stage: ConstraintStage):
        from newtonsim.kernels.constraints.adjoint.outcome import OutcomeView

        sources = {**_sources(stage), "state": stage.world_state, "residual": stage.residual}
        device = stage.model.device
        sizes = [len(array) * wp.types.type_size_in_bytes(array.dtype) // 4 for array in sources.values()]
        self.values = zeros(sum(sizes), dtype=float, device=device)
        self._kept: dict[str, wp.array] = {}
        place = self.values.ptr
        for (name, array), size in zip(sources.items(), sizes):
            self._kept[name] = wp.array(ptr=place, dtype=array.dtype, shape=array.shape, device=device)
            place += 4 * size  # pyright: ignore[reportOperatorIssue]
        self._outcome = OutcomeView()
        for name in ("state", "residual", "dof", "contact", "spin"):
            if name in self._kept:
                setattr(self._outcome, name, self._kept[name])

    def keep(self, launch: Launcher, stage: ConstraintStage) -> None:
        """Copy it, after the rows of a step are built and before they are solved."""
        for name, source in _sources(stage).items():
            self._copy(launch, name, source, self._kept[name])

    def keep_outcome(self, launch: Launcher, stage: ConstraintStage, contacts: Contacts) -> None:
        """Keep the impulses that the step found instead, where these say all of its solution."""
        from newtonsim.kernels.constraints.adjoint import outcome

        launch(
            outcome.keep_outcome,
            "world",
            reads=dict(
                rows=stage.rows,
                contacts=contacts.view,
                world_state=stage.world_state,
                residual=stage.residual,
            ),
            writes=dict(outcome=self._outcome),
        )

    def resume(self, launch: Launcher, stage: ConstraintStage, contacts: Contacts) -> None:
        """Take the impulses for the solution where they are it; then the stage finds the others."""
        from newtonsim.kernels.constraints.adjoint import outcome

        launch(
            outcome.resume_rows,
            "world team",
            reads=dict(
                tree=launch.views.tree,
                contacts=contacts.view,
                depth=topology_of(stage.model).max_depth,
                outcome=self._outcome,
            ),
            writes=dict(views=stage.buffers.views, world_state=stage.world_state),
        )

    def restore(self, launch: Launcher, stage: ConstraintStage) -> None:
        """Write the impulses into the rows of a stage, once they are built."""
        self._restore(launch, stage, of_bodies=False)

    def restore_pulls(self, launch: Launcher, stage: ConstraintStage) -> None:
        """Write the forces that bodies transmitted into a stage, before its step begins."""
        self._restore(launch, stage, of_bodies=True)

    def _restore(self, launch: Launcher, stage: ConstraintStage, of_bodies: bool) -> None:
        for name, target in _sources(stage).items():
            if (_KINDS[name] == "body") == of_bodies:
                self._copy(launch, name, self._kept[name], target)

    def _copy(self, launch: Launcher, name: str, source: wp.array, target: wp.array) -> None:
        kernel = warm_start.copy_vectors if source.dtype is wp.vec3 else warm_start.copy_numbers
        launch(kernel, _KINDS[name], reads=dict(source=source), writes=dict(target=target))


@dataclass
class FeatherstoneStep(Step):
    """Arguments of one step, and what its backward pass needs beside them.

    Attributes:
        starts: Receives the impulses that the step starts from; None if no backward pass needs them.
        repeated: Whether the step stands for all steps of a rollout, at whose end
            `FeatherstoneAdjoint.check` is called.
    """

    starts: StartingImpulses | None = None
    repeated: bool = False

    def keep_starts(self, launch: Launcher, constraints: ConstraintStage) -> None:
        """Keep the impulses of rows that are built, if a backward pass needs them."""
        if self.starts is not None:
            self.starts.keep(launch, constraints)

    def keep_outcome(self, launch: Launcher, constraints: ConstraintStage, contacts: Contacts) -> None:
        """Keep the impulses that were found for them, likewise."""
        if self.starts is not None:
            self.starts.keep_outcome(launch, constraints, contacts)
