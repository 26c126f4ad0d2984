"""Feasibility-driven differential dynamic programming."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.optimize.gaps import GapClosing

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem


class FDDP(GapClosing):
    """Feasibility-driven differential dynamic programming: `ILQR` that may start with inconsistent states.

    Mastalli and others, "Crocoddyl: An efficient and versatile framework for multi-contact optimal control",
    2020. A step of length α follows the motion with feedback, and leaves the share 1 - α of each gap open; a
    whole step closes all of them. It neglects the curvature of the motion, and treats bounds as `ILQR` does.
    Unlike in that paper, steps are judged by the cost and the sum of the gaps.

    Args:
        problem: The problem.
        method: How the motion is linearised, "adjoint" or "difference", see `newtonsim.diff.Linearizer`.

    Attributes:
        problem: The problem.
        controls: Controls from which the next iteration starts, (horizon, M).

    Raises:
        NewtonsimError: An argument is out of range.
    """

    def __init__(self, problem: Problem, method: str = "adjoint"):
        super().__init__(problem, method)

    def _jumps(self) -> np.ndarray:
        return np.zeros(self.problem.horizon, bool)
