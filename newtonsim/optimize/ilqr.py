"""Iterative linear-quadratic regulator with control limits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.linalg import LinAlgError

from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels.optimize import runs
from newtonsim.optimize.checks import check_count, check_share, warn_of_costs, warn_of_gradients
from newtonsim.optimize.points import Expansion, Points
from newtonsim.optimize.result import Result
from newtonsim.optimize.riccati import BackwardSweep, Step
from newtonsim.optimize.runs import Runs
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.progress import OptimizationProgress
from newtonsim.scene.allocation import put, write, zeros

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem, Start

_LENGTHS = 0.5 ** np.arange(8)
"""Step lengths that are tried in parallel."""
_LEAST_DAMPING, _FIRST_DAMPING, _MOST_DAMPING = 1e-8, 1e-6, 1e8
_PART = 1e-3
"""Fraction of the expected decrease that must be achieved."""
_GOOD_PART = 0.5
"""Fraction above which a full step is taken without trying shorter ones."""


class _Trajectory(NamedTuple):
    """A run: its cost, controls (horizon, M), and states (horizon + 1, ...)."""

    cost: float
    controls: np.ndarray
    q: np.ndarray
    qd: np.ndarray


class ILQR:
    """Iterative linear-quadratic regulator: Newton's method without the curvature of the motion.

    Tassa, Erez and Todorov, "Synthesis and stabilization of complex behaviors through online trajectory
    optimization", 2012; bounds as in Tassa, Mansard and Todorov, "Control-limited differential dynamic
    programming", 2014. The points of the trajectory are worlds, in which `newtonsim.diff.Linearizer` finds
    linear models of the motion, and costs their quadratic ones. Lengths of steps are tried in worlds, too.

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
        self.problem = problem
        self._points = Points(problem, method)
        device, horizon = problem.model.device, problem.horizon
        inputs, dofs = len(problem.entries), problem.model.joint_dof_count
        self._length = put(_LENGTHS, dtype=float, device=device)
        self._reference = {
            "controls": zeros((horizon, inputs), dtype=float, device=device),
            "change": zeros((horizon, inputs), dtype=float, device=device),
            "gain": zeros((horizon, inputs, 2 * dofs + problem.memory), dtype=float, device=device),
            "q": zeros((horizon, problem.model.joint_coord_count), dtype=float, device=device),
            "qd": zeros((horizon, dofs), dtype=float, device=device),
        }
        self._difference = zeros((len(_LENGTHS), 2 * dofs), dtype=float, device=device)
        self._runs = Runs(problem, len(_LENGTHS), self._follow)
        # which a GPU runs in no less time than all of them
        self._whole = Runs(problem, 1, self._follow) if device.is_cpu else self._runs
        self._backward = BackwardSweep(horizon, 2 * dofs + problem.memory, inputs)
        self.controls = problem.read_controls(None)
        self._damping = _FIRST_DAMPING

    def solve(
        self,
        start: Start = None,
        controls: npt.ArrayLike | None = None,
        iterations: int = 50,
        tolerance: float = 1e-5,
    ) -> Result:
        """Optimise from a start.

        Args:
            start: Start: a State of one world, (joint_q, joint_qd), or None for that of the builder.
            controls: First guess, (M,) or (horizon, M); None for what was found before.
            iterations: Largest number of iterations.
            tolerance: Ends when an iteration lowers the cost by less than this fraction.

        Returns:
            The result, with feedback about it.

        Raises:
            NewtonsimError: An argument does not fit.
            NotDifferentiableError: The solver or a cost has no gradient, or the first guess leads where the
                solver has none.

        Warns:
            RuntimeWarning: The best motion that was found leads where the solver has no gradient.
        """
        check_count("iterations", iterations)
        check_share("tolerance", tolerance)
        q, qd = self.problem.read_start(start)
        if controls is not None:
            self.controls = self.problem.read_controls(controls)
        begun, status = time.perf_counter(), "iterations"
        self._damping = _FIRST_DAMPING
        best = self._first_run(q, qd)
        history, gains = [best.cost], None
        with OptimizationProgress(type(self).__name__, iterations) as progress:
            while len(history) <= iterations and np.isfinite(best.cost):
                try:
                    found, step, expected = self._iterate(best, tolerance)
                except NotDifferentiableError as reason:
                    if len(history) == 1:
                        raise
                    warn_of_gradients(self, reason)
                    status = "stalled"
                    break
                gains = step.gains if step is not None else gains
                decrease, best = best.cost - found.cost, found
                history.append(best.cost)
                progress.tell(len(history) - 1, best.cost)
                better = decrease > 0.0
                if (decrease if better else expected) <= tolerance * abs(best.cost):
                    status = "converged"
                    break
                if not better:
                    status = "stalled"
                    break
        if not np.isfinite(best.cost):
            status = "not finite"
        self.controls = best.controls
        seconds = time.perf_counter() - begun
        return Result(status, *best, history, self.problem.interval, seconds, gains)

    def improve(self, start: Start, iterations: int) -> np.ndarray:
        """Make some iterations from where the last ones ended, and return the first control, (M,).

        Args:
            start: The start, see `solve`.
            iterations: Number of iterations.

        Warns:
            RuntimeWarning: The controls have no finite cost from this start; they are unchanged.
        """
        best = self._first_run(*self.problem.read_start(start))
        for _ in range(iterations):
            if not np.isfinite(best.cost):
                warn_of_costs(self)
                break
            best = self._iterate(best, 0.0)[0]
        self.controls = best.controls
        return self.controls[0].copy()

    def shift(self) -> None:
        """Shift the controls by one; the last one is repeated."""
        self.controls = np.concatenate([self.controls[1:], self.controls[-1:]])

    def _first_run(self, q: np.ndarray, qd: np.ndarray) -> _Trajectory:
        """Follow the controls without feedback."""
        horizon = self.problem.horizon
        states = (np.tile(x, (horizon + 1, 1)) for x in (q, qd))
        none = np.zeros_like(self.controls)
        gains = np.zeros((*none.shape, 2 * len(qd) + self.problem.memory))
        run = self._run(_Trajectory(np.nan, self.controls, *states), Step(none, gains, 0.0))
        # feedback about states that are not finite is none either
        return run if np.isfinite(run.cost) else run._replace(controls=self.controls)

    def _iterate(self, best: _Trajectory, tolerance: float) -> tuple[_Trajectory, Step | None, float]:
        """Return a better run, or the same one, the step that led to it, and the decrease that was expected.

        Steps are damped the more until one is good enough, or none is expected to matter.
        """
        A, B = self._points.linearize(best.q, best.qd, best.controls)
        expansion = self._points.expand(best.q, best.qd, best.controls)
        first: Step | None = None
        while self._damping <= _MOST_DAMPING:
            try:
                step = self._sweep(A, B, expansion, best.controls)
            except LinAlgError:
                self._damping *= 10.0
                continue
            first = first or step
            tried = self._run(best, step)
            if best.cost - tried.cost > _PART * _LENGTHS[-1] * step.decrease:
                self._damping = max(_LEAST_DAMPING, 0.2 * self._damping)
                return tried, step, step.decrease
            if first.decrease <= tolerance * abs(best.cost):
                return best, step, first.decrease
            self._damping *= 10.0
        self._damping = _FIRST_DAMPING
        return best, first, np.inf if first is None else first.decrease

    def _sweep(self, A: np.ndarray, B: np.ndarray, expansion: Expansion, controls: np.ndarray) -> Step:
        """See `riccati.BackwardSweep`."""
        low, high = self.problem.low - controls, self.problem.high - controls
        return self._backward(A, B, expansion, low, high, self._damping)

    def _run(self, about: _Trajectory, step: Step) -> _Trajectory:
        """Follow a step from a trajectory, with all lengths unless the whole is good, and return the best."""
        values = {
            "controls": about.controls,
            "change": step.change,
            "gain": step.gains,
            "q": about.q[:-1],
            "qd": about.qd[:-1],
        }
        for name, array in self._reference.items():
            write(array, values[name])
        whole = self._best_of(self._whole, about)
        if np.isnan(about.cost) or about.cost - whole.cost > _GOOD_PART * step.decrease:
            return whole
        return self._best_of(self._runs, about) if self._runs is not self._whole else whole

    def _best_of(self, runs: Runs, about: _Trajectory) -> _Trajectory:
        """Run worlds from the start of a trajectory, and return the best."""
        costs = runs.run(about.q[0], about.qd[0])
        costs = np.where(np.isfinite(costs), costs, np.inf)
        world = int(np.argmin(costs))
        return _Trajectory(float(costs[world]), runs.controls(world), *runs.states(world))

    def _follow(self, launch: Launcher, view: Any) -> None:
        launch(
            runs.follow_feedback,
            "world",
            reads=dict(
                joint=launch.views.joint,
                body_com=launch.model.body_com,
                length=self._length,
                controls=self._reference["controls"],
                change=self._reference["change"],
                gain=self._reference["gain"],
                q=self._reference["q"],
                qd=self._reference["qd"],
            ),
            writes=dict(difference=self._difference, run=view),
        )
