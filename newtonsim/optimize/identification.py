"""Identification: the parameters of a model that explain a log best."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.diff.coordinates import rate_of_coordinates
from newtonsim.errors import NewtonsimError
from newtonsim.optimize.checks import check_count, check_share, read_numbers
from newtonsim.optimize.cost_rollout import CostRollout
from newtonsim.optimize.costs import JointCost, Sizes
from newtonsim.optimize.parameters import Parameter
from newtonsim.optimize.points import Points
from newtonsim.optimize.runs import Runs, apply_controls
from newtonsim.runtime.progress import OptimizationProgress

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem, Start

_SPAN, _LEAST_SPAN, _MOST_SPAN = 0.03, 1e-3, 0.1
"""Half widths of differences: the first one, the least, the greatest."""
_DEVIATIONS = 3.0
"""The half width as a multiple of a parameter's deviation if all others were known."""
_DAMPING = 10.0 ** np.arange(-4.0, 3.0)
"""Fractions of the diagonal of the curvature that are tried as damping."""

_UNLIKELY = 3.0
"""Deviations of the reduced chi-square above which noise does not explain a misfit."""


class LogCost(JointCost):
    """Misfit of a log: half the squares of the errors of coordinates and velocities, over their deviations.

    With normal noise of these deviations this is the negative logarithm of the likelihood, and the least cost
    is about half the number of measurements.

    Args:
        joint_q: Measured coordinates after each control, (horizon, C).
        deviation: Standard deviation of their noise, a number or one for each degree of freedom, (N,);
            inf for what was not measured.
        joint_qd: Measured velocities, (horizon, N); None for none.
        rate_deviation: Standard deviation of their noise, likewise.

    Raises:
        NewtonsimError: A deviation is not positive.
    """

    def __init__(
        self,
        joint_q: npt.ArrayLike,
        deviation: npt.ArrayLike,
        joint_qd: npt.ArrayLike | None = None,
        rate_deviation: npt.ArrayLike = np.inf,
    ):
        self._deviations = []
        for name, values in (("deviation", deviation), ("rate_deviation", rate_deviation)):
            numbers = read_numbers(f"LogCost: {name}", values, np.shape(values), finite=False)
            if not (numbers > 0.0).all():
                raise NewtonsimError(f"LogCost: {name}: expected positive numbers, got {numbers.min():g}")
            self._deviations.append(numbers)
        super().__init__(joint_q=joint_q, joint_qd=joint_qd)

    def prepare(self, problem: Sizes) -> None:
        for name, deviation in zip(("position", "velocity"), self._deviations, strict=True):
            self._weights[name] = (1.0 / (deviation**2 * problem.interval), 1.0 / deviation**2)
        super().prepare(problem)

    def measurements(self, problem: Sizes) -> int:
        """Number of measurements in the log of a problem: those whose deviation is finite."""
        dofs = problem.model.joint_dof_count
        finite = [np.isfinite(np.broadcast_to(deviation, dofs)) for deviation in self._deviations]
        return problem.horizon * int(np.count_nonzero(finite))


@dataclass(frozen=True)
class Identified:
    """The parameters that explain a log best.

    Attributes:
        status: As in `Result`; "converged" if the last refinement gained nothing, "iterations" if it did.
        cost: Misfit.
        values: Values, by name of the parameter.
        errors: Standard deviation of each, from the curvature of the misfit: those of the noise alone, where
            the misfit is one of `LogCost`; nan where the log says nothing of a number.
        history: Lowest misfit so far, of the guess and after each iteration.
        evaluations: Number of motions that were run.
        seconds: Time that it took [s].
        measurements: Number of measurements in the log; 0 if other costs than `LogCost` are in the misfit.
    """

    status: str
    cost: float
    values: dict[str, float]
    errors: dict[str, float]
    history: list[float]
    evaluations: int
    seconds: float
    measurements: int

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return len(self.history) - 1

    @property
    def reduced_chi_square(self) -> float:
        """Mean square of the residuals, over the squares of their deviations, per degree of freedom.

        It is 1 ± √(2 / (measurements - parameters)) if noise alone is left. Far above that, the search ended
        in a local minimum, or the model or the deviations are wrong, and `errors` are too small. nan if the
        misfit has other costs than `LogCost`, or the log has no more measurements than parameters.
        Bevington, "Data reduction and error analysis for the physical sciences", 1969.
        """
        freedom = self.measurements - len(self.values)
        return 2.0 * self.cost / freedom if freedom > 0 else float("nan")

    def __str__(self) -> str:
        found = [f"{name}: {value:.5g} ± {self.errors[name]:.2g}" for name, value in self.values.items()]
        costs = f"misfit {self.history[0]:.6g} -> {self.cost:.6g}"
        spent = f"{self.evaluations} motions, {self.seconds:.2f} s"
        return "\n".join([f"{self.status}: {costs}, {spent}", *found, *self._fit()])

    def _fit(self) -> list[str]:
        """A line on the fit, if it can be judged."""
        if not np.isfinite(self.reduced_chi_square):
            return []
        scatter = (2.0 / (self.measurements - len(self.values))) ** 0.5
        line = f"reduced chi-square {self.reduced_chi_square:.3g}, noise alone leaves 1 ± {scatter:.2g}"
        if self.reduced_chi_square > 1.0 + _UNLIKELY * scatter:
            line += ": a local minimum, or the model or the deviations are wrong; errors are too small"
        return [line]


class Identification:
    """Finds parameters of the model that minimise the cost of a problem with the controls of a log.

    SciPy's L-BFGS-B follows the gradient of `newtonsim.diff.Rollout`. If contacts stick, slip or open at
    other times, the misfit has kinks, at which it stops: the damped Gauss-Newton method continues from there
    (Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", 1963), with differences
    of motions over some deviations of each parameter. Errors are those of maximum likelihood: Ljung, "System
    identification", 1999, section 7.4.

    Args:
        problem: Robot, horizon and steps of the log; its costs are the misfit, see `LogCost`.
        parameters: The parameters to find.
        controls: Commands of the robot, (horizon, M); inputs need no bounds.
        checkpoint: See `newtonsim.diff.Rollout`.

    Attributes:
        problem: The problem.
        parameters: Copies of the parameters, with guess and bounds of this model.
        controls: Commands of the robot, (horizon, M).
        model: The model; after `solve` it has the parameters found.
        rollout: Motions with their gradients.
        runs: Motions alone.
        points: Their states as worlds, for the curvature of the misfit.

    Raises:
        NewtonsimError: An argument is out of range, or a parameter is not in the model.
        NotDifferentiableError: A parameter or a cost has no gradient.
    """

    def __init__(
        self,
        problem: Problem,
        parameters: Sequence[Parameter],
        controls: npt.ArrayLike | None = None,
        checkpoint: str | int = "auto",
    ):
        if isinstance(parameters, Parameter) or not len(parameters):
            raise NewtonsimError(f"parameters: expected a list of at least one, got {parameters!r}")
        names = [parameter.name for parameter in parameters]
        if len(set(names)) < len(names):
            raise NewtonsimError(f"parameters: one is listed twice: {names}")
        self.problem = problem
        shape = (problem.horizon, len(problem.entries))
        given = problem.read_controls(None) if controls is None else controls
        self.controls = np.broadcast_to(read_numbers("controls", given, shape, shape[1:]), shape)
        wrt = tuple(dict.fromkeys(parameter.place.name for parameter in parameters))
        self.rollout = CostRollout(problem, wrt, checkpoint=checkpoint)
        self.model = self.rollout.model
        self.runs, self.points = Runs(problem, 1, apply_controls), Points(problem, "adjoint")
        # those of the log, within bounds or not
        self.runs.view.sequence.assign(self.controls[:, :, None].astype(np.float32))
        self.parameters = tuple(parameter.bind(self.model) for parameter in parameters)

    def solve(
        self, start: Start = None, iterations: int = 50, tolerance: float = 1e-6, refinements: int = 5
    ) -> Identified:
        """Find the parameters.

        Args:
            start: Start of the log: a State of one world, (joint_q, joint_qd), or None for that of the
                builder.
            iterations: Largest number of iterations of L-BFGS-B.
            tolerance: It ends when an iteration lowers the misfit by less than this fraction.
            refinements: Largest number of Gauss-Newton iterations after that.

        Returns:
            The best parameters that were tried; the model has them.

        Raises:
            NewtonsimError: An argument does not fit.
            NotDifferentiableError: The solver has no gradient with respect to a parameter.
        """
        from scipy.optimize import minimize

        check_count("iterations", iterations)
        check_share("tolerance", tolerance)
        check_count("refinements", refinements)
        begun = time.perf_counter()
        search = _Search(self, self.problem.read_start(start))
        status = "not finite"
        with OptimizationProgress(type(self).__name__, iterations + refinements) as progress:

            def note(_: np.ndarray) -> None:
                search.history.append(search.cost)
                progress.tell(len(search.history) - 1, search.cost)

            if np.isfinite(search.cost):
                found = minimize(
                    search.evaluate,
                    search.x,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=list(zip(*search.bounds, strict=True)),
                    callback=note,
                    options={"maxiter": iterations, "ftol": tolerance, "gtol": 0.0},
                )
                status = "iterations" if found.status == 1 else "converged"
                for _ in range(refinements):
                    better = search.refine()
                    note(search.x)
                    # a valley of the misfit that curves takes many small steps
                    status = "iterations" if better else "converged"
                    if not better:
                        break
        if status == "converged" and not search.cost < search.history[0]:
            status = "stalled"
        errors = search.errors()
        values = search.write(search.x)
        names = [parameter.name for parameter in self.parameters]
        return Identified(
            status,
            search.cost,
            dict(zip(names, values, strict=True)),
            dict(zip(names, errors, strict=True)),
            search.history,
            search.evaluations,
            time.perf_counter() - begun,
            self._measurements(),
        )

    def _measurements(self) -> int:
        """Number of measurements in the log; 0 if there are other costs."""
        logs = [cost for cost in self.problem.costs if isinstance(cost, LogCost)]
        whole = len(logs) == len(self.problem.costs)
        return sum(log.measurements(self.problem) for log in logs) if whole else 0


class _Search:
    """The misfit as a function of logarithms of numbers, or of shares of the way between their bounds.

    Args:
        of: What is searched for.
        start: Coordinates and velocities at the start.

    Attributes:
        x: The best so far.
        cost: Its misfit.
        bounds: Least and greatest x.
        history: Lowest misfit so far, of the first guess and after each iteration.
        evaluations: Number of evaluations.
    """

    def __init__(self, of: Identification, start: tuple[np.ndarray, np.ndarray]):
        self._of, self._parameters = of, of.parameters
        self._start, self._state = start, of.rollout.state(*start)
        ends = [(p.guess, p.low, p.high) for p in of.parameters]
        rows = np.array([[self._into(p, v) for v in row] for p, row in zip(of.parameters, ends, strict=True)])
        self.x, self.bounds = rows[:, 0], (rows[:, 1], rows[:, 2])
        self._spans = np.full(len(self.x), _SPAN)
        self.evaluations, self.cost = 0, np.inf
        self.evaluate(self.x)
        self.cost = self.cost if np.isfinite(self.cost) else np.nan
        self.history = [self.cost]

    def evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the logarithm of 1 and the misfit, which bends less far from the best, and its slope."""
        values = self.write(x)
        result = self._of.rollout(self._state, self._of.controls)
        self.evaluations += 1
        cost = float(result.losses.numpy()[0])
        gradients = {name: array.numpy() for name, array in result.gradients.items()}
        pairs = zip(self._parameters, values, strict=True)
        slope = np.array([p.slope(gradients[p.place.name]) * self._rate(p, v) for p, v in pairs])
        if not (np.isfinite(cost) and np.isfinite(slope).all()):
            # far above all else, so that the line search turns back
            return 1e3, np.zeros(x.size)
        if cost < self.cost:
            self.cost, self.x = cost, x.copy()
        return float(np.log1p(max(cost, 0.0))), slope / (1.0 + max(cost, 0.0))

    def write(self, x: np.ndarray) -> list[float]:
        """Write the parameters of x to the model, and return them."""
        values = [self._out_of(p, float(v)) for p, v in zip(self._parameters, x, strict=True)]
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.write(self._of.model, value)
        return values

    def refine(self) -> bool:
        """Make a Gauss-Newton step; return whether it lowers the misfit by more than rounding."""
        best, cost = self.x.copy(), self.cost
        slope, curvature = self._model()
        scale = np.diag(np.maximum(np.diagonal(curvature), 1e-12))
        for damping in _DAMPING:
            self._try(best - np.linalg.solve(curvature + damping * scale, slope))
        return cost - self.cost > 1e-3 * (1.0 + abs(cost))

    def errors(self) -> list[float]:
        """Standard deviations of the numbers, from the curvature about the best."""
        if not np.isfinite(self.cost):
            return [np.nan] * len(self.x)
        _, curvature = self._model()
        try:
            deviations = np.sqrt(np.diagonal(np.linalg.inv(curvature)))
        except np.linalg.LinAlgError:
            return [np.nan] * len(self.x)
        values = [self._out_of(p, float(v)) for p, v in zip(self._parameters, self.x, strict=True)]
        rates = [abs(self._rate(p, v)) for p, v in zip(self._parameters, values, strict=True)]
        return [float(rate * d) for rate, d in zip(rates, deviations, strict=True)]

    def _try(self, x: np.ndarray) -> None:
        """Run a motion, and keep its numbers if they are the best."""
        x = np.clip(x, *self.bounds)
        cost = self._run(x)[0]
        if cost < self.cost:
            self.cost, self.x = cost, x

    def _model(self) -> tuple[np.ndarray, np.ndarray]:
        """Slope and Gauss-Newton curvature of the misfit about the best, by differences of motions."""
        points, controls = self._of.points, self._of.controls
        _, q, qd = self._run(self.x)
        expansion, states = points.expand(q, qd, controls), 2 * qd.shape[1]
        ends = rate_of_coordinates(points.model, q[1:].reshape(-1))
        moves = []
        for k, span in enumerate(self._spans):
            step = span * np.eye(len(self.x))[k]
            (_, q_high, qd_high), (_, q_low, qd_low) = self._run(self.x + step), self._run(self.x - step)
            high, low = (ends.nearer(q[1:].reshape(-1)) for q in (q_high, q_low))
            way = ends.push(high - low).reshape(len(controls), -1)
            moves.append(np.concatenate([way, (qd_high - qd_low)[1:]], axis=1) / (2.0 * span))
        J = np.stack(moves, axis=2)
        slope = np.einsum("tik,ti->k", J, expansion.slope[:, :states])
        curvature = np.einsum("tik,tij,tjl->kl", J, expansion.curvature[:, :states, :states], J)
        sizes = np.maximum(np.diagonal(curvature), 1e-12)
        self._spans = np.clip(_DEVIATIONS * sizes**-0.5, _LEAST_SPAN, _MOST_SPAN)
        return slope, curvature

    def _run(self, x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Cost, coordinates and velocities of a motion."""
        of = self._of
        for parameter, value in zip(self._parameters, self.write(x), strict=True):
            parameter.write(of.runs.model, value)
        self.evaluations += 1
        cost = float(of.runs.run(*self._start)[0])
        return (cost if np.isfinite(cost) else np.inf), *of.runs.states(0)

    @staticmethod
    def _into(parameter: Parameter, value: float | None) -> float:
        assert value is not None
        return float(np.log(value)) if parameter.positive else value / (parameter.high - parameter.low)

    @staticmethod
    def _out_of(parameter: Parameter, x: float) -> float:
        return float(np.exp(x)) if parameter.positive else x * (parameter.high - parameter.low)

    @staticmethod
    def _rate(parameter: Parameter, value: float) -> float:
        """How fast the number moves with x."""
        return value if parameter.positive else parameter.high - parameter.low
