"""What the shapes of a client sweep over while it steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.collision.pairs.swept_bounds import widen_bounds
from newtonsim.runtime.launcher import Launcher

if TYPE_CHECKING:
    from newtonsim.collision.contacts import Contacts
    from newtonsim.solvers.featherstone.stages import StepForces


class SweptBounds:
    """A stage of every step that widens boxes around the shapes by those in which contacts are looked for.

    Args:
        contacts: Contacts of the solver, which are found before the stages of the step.
    """

    def __init__(self, contacts: Contacts):
        self._place = contacts.placement
        count, device = len(self._place.lower), self._place.lower.device
        self._lower = wp.full(count, wp.vec3(np.inf), dtype=wp.vec3, device=device)
        self._upper = wp.full(count, wp.vec3(-np.inf), dtype=wp.vec3, device=device)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """Widen the boxes; see `StepStage`."""
        place = self._place
        launch(
            widen_bounds,
            "shape",
            reads=dict(lower=place.lower, upper=place.upper),
            writes=dict(swept_lower=self._lower, swept_upper=self._upper),
        )

    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corners (shapes, 3) [m], in arrays of their own."""
        return self._lower.numpy().copy(), self._upper.numpy().copy()
