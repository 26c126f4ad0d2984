"""Shooting: all controls at once, by their gradient through the whole horizon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NotDifferentiableError
from newtonsim.optimize.checks import check_count, check_share, warn_of_gradients
from newtonsim.optimize.cost_rollout import CostRollout
from newtonsim.optimize.result import Result
from newtonsim.optimize.runs import Runs, apply_controls
from newtonsim.runtime.progress import OptimizationProgress

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem, Start
    from newtonsim.scene.state import State

_STATUSES = {0: "converged", 1: "iterations", 2: "stalled"}
"""Meaning of SciPy's status codes."""


class Shooting:
    """Single shooting with L-BFGS-B: gradients of `newtonsim.diff.Rollout`, no linear models.

    Byrd, Lu, Nocedal and Zhu, "A limited memory algorithm for bound constrained optimization", 1995, by
    SciPy. Controls are scaled by half the range between their bounds if these are finite.

    Args:
        problem: The problem.
        checkpoint: What the gradient keeps of the steps, see `newtonsim.diff.Rollout`.

    Attributes:
        problem: The problem.
        controls: Controls from which the next call starts, (horizon, M).

    Raises:
        NewtonsimError: An argument is out of range.
        NotDifferentiableError: A cost has no gradient.
    """

    def __init__(self, problem: Problem, checkpoint: str | int = "auto"):
        self.problem = problem
        self._rollout = CostRollout(problem, (f"control.{problem.inputs}",), checkpoint=checkpoint)
        self._runs = Runs(problem, 1, apply_controls)
        width = 0.5 * (problem.high - problem.low)
        self._scale = np.where(np.isfinite(width) & (width > 0.0), width, 1.0)
        self.controls = problem.read_controls(None)

    def solve(
        self,
        start: Start = None,
        controls: npt.ArrayLike | None = None,
        iterations: int = 100,
        tolerance: float = 1e-7,
    ) -> Result:
        """Optimise from a start.

        Args:
            start: Start: a State of one world, (joint_q, joint_qd), or None for that of the builder.
            controls: First guess, (M,) or (horizon, M); None for what was found before.
            iterations: Largest number of iterations of L-BFGS-B.
            tolerance: Ends when an iteration lowers the cost by less than this fraction.

        Returns:
            The best controls that were tried.

        Raises:
            NewtonsimError: An argument does not fit.
            NotDifferentiableError: The solver or a cost has no gradient, or the first guess leads where the
                solver has none.

        Warns:
            RuntimeWarning: Where the search stalled, the solver has no gradient; the best controls are kept.
        """
        from scipy.optimize import minimize

        check_count("iterations", iterations)
        check_share("tolerance", tolerance)
        problem = self.problem
        q, qd = problem.read_start(start)
        if controls is not None:
            self.controls = problem.read_controls(controls)
        begun = time.perf_counter()
        search = _Search(self, self._rollout.state(q, qd), self.controls)
        low, high = (np.tile(x / self._scale, problem.horizon) for x in (problem.low, problem.high))
        status = "not finite"
        with OptimizationProgress(type(self).__name__, iterations) as progress:

            def note(_: np.ndarray) -> None:
                search.history.append(search.cost)
                progress.tell(len(search.history) - 1, search.cost)

            before = np.inf
            while np.isfinite(search.cost) and before - search.cost > tolerance * abs(search.cost):
                # another search, which begins along the gradient, may go on where rounding, a short step or a
                # cost that is not finite ended one
                before, left = search.cost, iterations + 1 - len(search.history)
                search.walls, search.reason = 0, None
                found = minimize(
                    search.evaluate,
                    (search.controls / self._scale).reshape(-1),
                    jac=True,
                    method="L-BFGS-B",
                    bounds=list(zip(low, high, strict=True)),
                    callback=note,
                    options={"maxiter": left, "ftol": tolerance, "gtol": 0.0},
                )
                if search.cost < search.history[-1]:
                    note(found.x)
                confirmed = status == "converged" and before - search.cost <= tolerance * abs(search.cost)
                status = _STATUSES[found.status]
                if len(search.history) > iterations:
                    status = "iterations"
                    break
                if search.walls:
                    status = "stalled"
                elif confirmed:  # also where rounding ended the search that confirms it
                    status = "converged"
        if status == "stalled" and search.reason is not None:
            warn_of_gradients(self, search.reason)
        self.controls = search.controls
        self._runs.view.sequence.assign(self.controls[:, :, None].astype(np.float32))
        self._runs.run(q, qd)
        states, seconds = self._runs.states(0), time.perf_counter() - begun
        return Result(status, search.cost, self.controls, *states, search.history, problem.interval, seconds)

    def evaluate(self, state: State, controls: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the cost of controls (horizon, M) from a state, and its gradient by them, float64."""
        problem = self.problem
        result = self._rollout(state, controls)
        gradient = result.gradients[f"control.{problem.inputs}"].numpy().astype(np.float64)
        gradient = gradient[:, problem.entries].reshape(problem.horizon, problem.hold, -1).sum(axis=1)
        cost = float(result.losses.numpy()[0])
        for change, weight in problem.changes(controls):
            cost += 0.5 * float((weight * change**2).sum())
            slope = weight * change
            gradient += slope
            gradient[:-1] -= slope[1:]
        return cost, gradient


class _Search:
    """The function that is minimised, of scaled controls, and the best of its arguments.

    Args:
        shooting: Evaluates controls.
        state: Where they begin.
        controls: The first ones.

    Attributes:
        cost: Lowest cost.
        controls: Its controls.
        history: Lowest cost so far, of the first controls and after each iteration.
        walls: How many controls were tried that have no finite cost or no gradient.
        reason: Why they have no gradient, None if all have one.
    """

    walls = 0
    reason: NotDifferentiableError | None = None

    def __init__(self, shooting: Shooting, state: State, controls: np.ndarray):
        self._shooting, self._state = shooting, state
        self.cost, self.controls = shooting.evaluate(state, controls)[0], controls
        self.history = [self.cost]

    def evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient."""
        scale = self._shooting._scale
        controls = x.reshape(self.controls.shape) * scale
        try:
            cost, gradient = self._shooting.evaluate(self._state, controls)
        except NotDifferentiableError as error:
            self.reason = error
            cost, gradient = np.inf, np.zeros(controls.shape)
        if cost < self.cost:
            self.cost, self.controls = cost, controls
        if not (np.isfinite(cost) and np.isfinite(gradient).all()):
            # so much above the best that the line search turns back, and not to almost nothing
            self.walls += 1
            return self.cost + (abs(self.cost) or 1.0), np.zeros(x.size)
        return cost, (gradient * scale).reshape(-1)
