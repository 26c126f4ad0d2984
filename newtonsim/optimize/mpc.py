"""Model predictive control: optimise repeatedly, and apply the first control each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.optimize.checks import check_count

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Start


class Improvable(Protocol):
    """An optimiser that continues from its last result: `MPPI`, `CEM`, `ILQR`, `FDDP`, `MultipleShooting`."""

    def improve(self, start: Start, iterations: int) -> np.ndarray:
        """Make some iterations, and return the first control."""
        ...

    def shift(self) -> None:
        """Shift the controls by one."""
        ...


class Controller:
    """Controls a robot by an optimiser over a receding horizon.

    Each call starts with the controls of the last one, shifted by one: call it once in every
    `problem.interval`, and apply the control until the next call.

    Args:
        optimizer: `MPPI`, `CEM`, `ILQR`, `FDDP` or `MultipleShooting`; its `solve` may have found the first
            controls.
        iterations: Iterations of a call.

    Raises:
        NewtonsimError: The optimiser is not one of these, or `iterations` is not positive.
    """

    def __init__(self, optimizer: Improvable, iterations: int = 1):
        if not (hasattr(optimizer, "improve") and hasattr(optimizer, "shift")):
            known = "MPPI, CEM, ILQR, FDDP or MultipleShooting"
            raise NewtonsimError(f"optimizer: expected {known}, got {type(optimizer).__name__}")
        check_count("iterations", iterations)
        self.optimizer, self.iterations = optimizer, int(iterations)
        self._called = False

    def __call__(self, state: Start) -> np.ndarray:
        """Return the control for a state, (M,).

        Args:
            state: State of the robot: a State of one world, or (joint_q, joint_qd).

        Raises:
            NewtonsimError: The state does not fit.
        """
        if self._called:
            self.optimizer.shift()
        self._called = True
        return self.optimizer.improve(state, self.iterations)
