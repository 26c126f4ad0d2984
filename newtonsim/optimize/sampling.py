"""Optimisers that draw controls at random, run all in parallel, and draw the next ones about the best."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError
from newtonsim.kernels.optimize import sampling
from newtonsim.optimize.checks import check_count, check_positive, check_share, read_numbers, warn_of_costs
from newtonsim.optimize.result import Result
from newtonsim.optimize.runs import Runs, apply_controls
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.progress import OptimizationProgress
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem, Start

_Run = tuple[float, np.ndarray, np.ndarray, np.ndarray]
"""Cost, controls and states of a sample."""

_PATIENCE = 5
"""Number of iterations without progress after which an optimisation ends."""


class Sampling(ABC):
    """Common base of sampling optimisers: noise, runs, and the mean of the samples.

    The first sample of each iteration is the mean itself. Samples whose costs are not finite have no weight.

    Args:
        problem: The problem.
        samples: Number of samples per iteration, one world each.
        noise: Standard deviation of the controls, a number or one for each, (M,); None for a fifth of the
            range between their bounds.
        knots: Number of knots, evenly spread over the horizon, at which the noise is independent; cubic
            splines lead from one to the next. None for noise that is independent in each control.
        seed: Seed of the random numbers; the same seed gives the same result.
        threads: See `Simulator`.

    Attributes:
        problem: The problem.
        controls: The mean, (horizon, M).

    Raises:
        NewtonsimError: An argument is out of range.
    """

    def __init__(
        self,
        problem: Problem,
        samples: int,
        noise: npt.ArrayLike | None,
        knots: int | None,
        seed: int,
        threads: int | None,
    ):
        check_count("samples", samples)
        if samples < 2:
            raise NewtonsimError(f"samples: expected at least 2, got {samples}")
        count = problem.horizon if knots is None else knots
        check_count("knots", count)
        if count > problem.horizon:
            raise NewtonsimError(f"knots: expected at most the horizon, {problem.horizon}, got {knots}")
        self.problem, self.samples = problem, int(samples)
        self._first_deviation = np.tile(_read_noise(problem, noise), (count, 1))
        device, inputs = problem.model.device, len(problem.entries)
        self._seed = int(seed)
        self._mean = zeros((problem.horizon, inputs), dtype=float, device=device)
        self._deviation = put(self._first_deviation, dtype=float, device=device)
        self._least = put(0.01 * self._first_deviation[0], dtype=float, device=device)
        self._basis = put(_spline(problem.horizon, count), dtype=float, device=device)
        self._noise = zeros((count, inputs, self.samples), dtype=float, device=device)
        self._draws = zeros(self.samples, dtype=int, device=device)
        self._weights = zeros(self.samples, dtype=float, device=device)
        self._runs = Runs(problem, self.samples, apply_controls, self._draw, threads)
        starts = {"control": (0, problem.horizon * inputs), "noise": (0, count * inputs)}
        self._launch = Launcher(
            self._runs.model, record_tape=False, shard=Shard(self._runs.model).with_starts(starts)
        )
        self.controls = problem.read_controls(None)

    def solve(
        self,
        start: Start = None,
        controls: npt.ArrayLike | None = None,
        iterations: int = 50,
        tolerance: float = 1e-4,
    ) -> Result:
        """Optimise from a start.

        Args:
            start: Start: a State of one world, (joint_q, joint_qd), or None for that of the builder.
            controls: First guess, (M,) or (horizon, M); None for what was found before.
            iterations: Largest number of iterations.
            tolerance: Ends when five iterations lower the cost by less than this fraction.

        Returns:
            The best sample of all iterations. `controls` is the mean of the last one.

        Raises:
            NewtonsimError: An argument does not fit.
        """
        check_count("iterations", iterations)
        check_share("tolerance", tolerance)
        q, qd = self.problem.read_start(start)
        if controls is not None:
            self.controls = self.problem.read_controls(controls)
        begun, history = time.perf_counter(), []
        best: _Run = (np.inf, np.empty(0), np.empty(0), np.empty(0))
        self._deviation.assign(self._first_deviation)
        status = "iterations"
        with OptimizationProgress(type(self).__name__, iterations) as progress:
            for _ in range(iterations):
                costs = self._iterate(q, qd)
                if not history:
                    history.append(float(costs[0]))
                    best = self._best(costs, np.inf) or self._run(0, float(costs[0]))
                best = self._best(costs, best[0]) or best
                history.append(best[0])
                progress.tell(len(history) - 1, best[0])
                if not np.isfinite(best[0]):
                    status = "not finite"
                    break
                if len(history) > _PATIENCE and _stands_still(history, tolerance):
                    status = "converged" if history[-1] < history[0] else "stalled"
                    break
        return Result(status, *best, history, self.problem.interval, time.perf_counter() - begun)

    def improve(self, start: Start, iterations: int) -> np.ndarray:
        """Make some iterations from where the last ones ended, and return the first control, (M,).

        Args:
            start: The start, see `solve`.
            iterations: Number of iterations.

        Warns:
            RuntimeWarning: No sample has a finite cost; the controls are unchanged.
        """
        q, qd = self.problem.read_start(start)
        self._deviation.assign(self._first_deviation)
        finite = [np.isfinite(self._iterate(q, qd)).any() for _ in range(iterations)]
        if not any(finite):
            warn_of_costs(self)
        return self.controls[0].copy()

    def shift(self) -> None:
        """Shift the controls by one; the last one is repeated."""
        self.controls = np.concatenate([self.controls[1:], self.controls[-1:]])

    @abstractmethod
    def _weigh(self, costs: np.ndarray) -> np.ndarray:
        """Return weights of samples with sum 1 from their costs, of which one is finite at least."""

    def _iterate(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Draw, run, and move the mean; returns the costs."""
        self._mean.assign(self.controls.astype(np.float32))
        costs = self._runs.run(q, qd)
        finite = np.where(np.isfinite(costs), costs, np.inf)
        if np.isfinite(finite).any():
            self._weights.assign(self._weigh(finite).astype(np.float32))
            self._fit()
            self.controls = self._mean.numpy().astype(np.float64)
        return costs

    def _fit(self) -> None:
        """Launch kernels that move the mean to the weighted samples."""
        self._launch(
            sampling.average_controls,
            "control",
            reads=dict(weights=self._weights, sequence=self._runs.view.sequence),
            writes=dict(mean=self._mean),
        )

    def _draw(self, launch: Launcher, view: Any) -> None:
        launch(
            sampling.draw_controls,
            "world",
            reads=dict(seed=self._seed, mean=self._mean, deviation=self._deviation, basis=self._basis),
            writes=dict(draws=self._draws, noise=self._noise, run=view),
        )

    def _best(self, costs: np.ndarray, below: float) -> _Run | None:
        """Cost, controls and states of the best sample, if it costs less."""
        finite = np.where(np.isfinite(costs), costs, np.inf)
        world = int(np.argmin(finite))
        return self._run(world, float(finite[world])) if finite[world] < below else None

    def _run(self, world: int, cost: float) -> _Run:
        return (cost, self._runs.controls(world), *self._runs.states(world))


class MPPI(Sampling):
    """Model predictive path integral control: samples are weighted by the exponential of their costs.

    Williams and others, "Information theoretic MPC for model-based reinforcement learning", 2017, algorithm
    2; the noise itself costs nothing, γ = 0 there, and the temperature follows the spread of the costs.

    Args:
        problem: The problem.
        samples: See `Sampling`.
        noise: See `Sampling`.
        knots: See `Sampling`.
        temperature: λ over the standard deviation of the better half of an iteration's costs: near 0 only the
            best sample matters, above 1 nearly all have the same weight.
        seed: See `Sampling`.
        threads: See `Sampling`.
    """

    def __init__(
        self,
        problem: Problem,
        samples: int = 256,
        noise: npt.ArrayLike | None = None,
        knots: int | None = None,
        temperature: float = 0.2,
        seed: int = 0,
        threads: int | None = None,
    ):
        self.temperature = check_positive("temperature", temperature)
        super().__init__(problem, samples, noise, knots, seed, threads)

    def _weigh(self, costs: np.ndarray) -> np.ndarray:
        finite = np.sort(costs[np.isfinite(costs)])
        spread = float(np.std(finite[: max(2, len(finite) // 2)]))
        weights = np.exp(-(costs - finite[0]) / max(self.temperature * spread, 1e-12))
        return weights / weights.sum()


class CEM(Sampling):
    """Cross-entropy method: the next samples are drawn about the best, with their mean and deviation.

    Rubinstein, "The cross-entropy method for combinatorial and continuous optimization", 1999; de Boer and
    others, "A tutorial on the cross-entropy method", 2005.

    Args:
        problem: The problem.
        samples: See `Sampling`.
        noise: Noise of the first iteration, see `Sampling`; it never falls below a hundredth of it.
        knots: See `Sampling`.
        elites: Fraction of the samples that are used.
        seed: See `Sampling`.
        threads: See `Sampling`.
    """

    def __init__(
        self,
        problem: Problem,
        samples: int = 256,
        noise: npt.ArrayLike | None = None,
        knots: int | None = None,
        elites: float = 0.1,
        seed: int = 0,
        threads: int | None = None,
    ):
        if not check_positive("elites", elites) <= 1.0:
            raise NewtonsimError(f"elites: expected a fraction of at most 1, got {elites!r}")
        self.elites = float(elites)
        super().__init__(problem, samples, noise, knots, seed, threads)

    def _weigh(self, costs: np.ndarray) -> np.ndarray:
        count = min(max(2, round(self.elites * len(costs))), int(np.isfinite(costs).sum()))
        weights = np.zeros(len(costs))
        weights[np.argpartition(costs, count - 1)[:count]] = 1.0 / count
        return weights

    def _fit(self) -> None:
        super()._fit()
        self._launch(
            sampling.fit_deviations,
            "noise",
            reads=dict(weights=self._weights, noise=self._noise, least=self._least),
            writes=dict(deviation=self._deviation),
        )


def _read_noise(problem: Problem, noise: npt.ArrayLike | None) -> np.ndarray:
    """Standard deviation of each control, (M,)."""
    count = len(problem.entries)
    if noise is None:
        spread = 0.2 * (problem.high - problem.low)
        if not np.isfinite(spread).all():
            k = int(np.flatnonzero(~np.isfinite(spread))[0])
            raise NewtonsimError(f"noise: give a number, since control {k} has no bounds")
        noise = spread
    numbers = np.broadcast_to(read_numbers("noise", noise, (), (count,)), count)
    if (numbers < 0.0).any() or not numbers.any():
        raise NewtonsimError(f"noise: expected positive numbers, got {numbers.tolist()}")
    return numbers


def _spline(horizon: int, knots: int) -> np.ndarray:
    """Values at all controls of the natural cubic splines that are 1 at one knot, (horizon, knots)."""
    from scipy.interpolate import CubicSpline

    if knots == horizon or knots < 2:
        return np.eye(horizon) if knots == horizon else np.ones((horizon, 1))
    places = np.linspace(0.0, horizon - 1.0, knots)
    return CubicSpline(places, np.eye(knots), bc_type="natural")(np.arange(horizon))


def _stands_still(history: list[float], tolerance: float) -> bool:
    return history[-1 - _PATIENCE] - history[-1] < tolerance * abs(history[-1])
