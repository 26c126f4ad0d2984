"""Arguments of a step of FeatherstoneSolver, and what its sweeps start from."""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from newtonsim.kernels.steps import warm_start
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.step import Step

_FAMILIES = {"dof": "dof_row", "pair": "pair_row", "contact": "contact", "spin": "contact"}
"""Families of rows, and the kind of index that they have."""


class StartingImpulses:
    """Impulses that warm starts gave the rows of a step, by which the step can be solved again bit by bit.

    Args:
        stage: The constraint stage whose rows they are, or one that is like it.

    Attributes:
        values: All of it as one array of floats.
    """

    def __init__(self, stage: ConstraintStage):
        rows = {family: getattr(stage.rows, family).impulse for family in _FAMILIES}
        rows = {family: array for family, array in rows.items() if len(array)}
        device = stage.model.device
        sizes = [len(array) * wp.types.type_size_in_bytes(array.dtype) // 4 for array in rows.values()]
        self.values = zeros(sum(sizes), dtype=float, device=device)
        self._impulses: dict[str, wp.array] = {}
        place = self.values.ptr
        for (family, array), size in zip(rows.items(), sizes):
            self._impulses[family] = wp.array(ptr=place, dtype=array.dtype, shape=array.shape, device=device)
            place += 4 * size  # pyright: ignore[reportOperatorIssue]

    def keep(self, launch: Launcher, stage: ConstraintStage) -> None:
        """Copy them, after the rows of a step are built and before they are solved."""
        for family, impulse in self._impulses.items():
            self._copy(launch, family, getattr(stage.rows, family).impulse, impulse)

    def restore(self, launch: Launcher, stage: ConstraintStage) -> None:
        """Write them into the rows of a stage, likewise."""
        for family, impulse in self._impulses.items():
            self._copy(launch, family, impulse, getattr(stage.rows, family).impulse)

    def _copy(self, launch: Launcher, family: str, source: wp.array, target: wp.array) -> None:
        kernel = warm_start.copy_vectors if source.dtype is wp.vec3 else warm_start.copy_numbers
        launch(kernel, _FAMILIES[family], reads=dict(source=source), writes=dict(target=target))


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
