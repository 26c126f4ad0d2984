"""Settings of a client: what setPhysicsEngineParameter and its relatives change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from newtonsim.solvers.featherstone.options import ConstraintOptions


OPTIONS = {
    "restitutionVelocityThreshold": "restitution_speed",
    "erp": "loop_erp",
    "contactERP": "contact_erp",
    "contactSlop": "contact_slop",
    "globalCFM": "contact_cfm",
}
"""Parameters of the physics engine that are options of the solver."""


@dataclass(slots=True)
class Settings:
    """Numbers that belong to the world as a whole, with the defaults of a fresh PyBullet world.

    Attributes:
        gravity: [m/s²] (3,), or (W, 3) where worlds have their own.
        time_step: Time of one stepSimulation [s].
        stands_still: Whether a stepSimulation takes no time instead, as after setTimeStep(0).
        substeps: Steps of the solver in one stepSimulation; 0 counts as 1.
        iterations: Most iterations of the solver.
        real_time: Whether a thread steps by the clock.
        parameters: The other values that getPhysicsEngineParameters reports, by name.
        search_path: The last path of setAdditionalSearchPath, "" for none; one for all clients.
    """

    gravity: np.ndarray = field(default_factory=lambda: np.zeros(3))
    time_step: float = 1.0 / 240.0
    stands_still: bool = False
    substeps: int = 0
    iterations: int = 50
    real_time: bool = False
    parameters: dict[str, float] = field(default_factory=dict)
    search_path: ClassVar[str] = ""

    @property
    def solver_step(self) -> float:
        """Time of one step of the solver [s]."""
        return self.time_step / max(self.substeps, 1)

    def has(self, given: dict[str, object]) -> bool:
        """Whether these parameters of setPhysicsEngineParameter are what they are to be already."""
        own = {"numSolverIterations": self.iterations, "numSubSteps": self.substeps}
        return all(own.get(name, self.parameters.get(name)) == value for name, value in given.items())

    def apply_options(self, options: ConstraintOptions) -> None:
        """Pass on the parameters of the constraint solve that were set; others keep the solver's defaults.

        The solver goes on by Newton's method after a few sweeps: a lower number of iterations than the
        default is not taken over.
        """
        for name, target in OPTIONS.items():
            if name in self.parameters:
                setattr(options, target, float(self.parameters[name]))
        options.cone = "weighted" if self.parameters.get("enableConeFriction", 1) else "pyramidal"
        options.iterations = max(options.iterations, self.iterations if self.iterations > 50 else 0)

    def reset(self) -> None:
        """Restore what resetSimulation restores; it leaves time step, substeps and search path."""
        self.gravity = np.zeros(3)
        self.iterations = 50
        self.parameters.clear()
