"""Multiple shooting by sequential quadratic programming."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.optimize.checks import check_count
from newtonsim.optimize.gaps import GapClosing

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem


class MultipleShooting(GapClosing):
    """Direct multiple shooting: states between segments are unknowns, and gaps there are constraints.

    Bock and Plitt, "A multiple shooting algorithm for direct solution of optimal control problems", 1984.
    Each quadratic subproblem, with the Gauss-Newton curvature of the costs and the linear models as equality
    constraints, is solved by the sweep of `ILQR`. Errors of the linear models grow over a segment rather than
    over the horizon: long and unstable motions converge from guesses from which single shooting does not.

    Args:
        problem: The problem.
        segment: Controls of a segment, of which the last one may have fewer.
        method: How the motion is linearised, "adjoint" or "difference", see `newtonsim.diff.Linearizer`.

    Attributes:
        problem: The problem.
        segment: Controls of a segment.
        controls: Controls from which the next iteration starts, (horizon, M).

    Raises:
        NewtonsimError: An argument is out of range.
    """

    def __init__(self, problem: Problem, segment: int = 1, method: str = "adjoint"):
        check_count("segment", segment)
        self.segment = int(segment)
        super().__init__(problem, method)

    def _jumps(self) -> np.ndarray:
        begins = np.arange(self.problem.horizon) % self.segment == 0
        begins[0] = False
        return begins
