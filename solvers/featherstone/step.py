"""Arguments of a step of FeatherstoneSolver."""

from __future__ import annotations

from dataclasses import dataclass

from newtonsim.runtime.launcher import Launcher
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.warm_start import StartingImpulses
from newtonsim.solvers.step import Step


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
