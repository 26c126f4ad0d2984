"""Optimisers of states and controls together: gaps between states close while the cost falls."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.linalg import LinAlgError

from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.kernels.optimize import runs
from newtonsim.optimize.checks import check_count, check_share, read_numbers, warn_of_costs, warn_of_gradients
from newtonsim.optimize.points import Expansion, Points
from newtonsim.optimize.result import Result
from newtonsim.optimize.riccati import BackwardSweep, Step
from newtonsim.optimize.runs import Runs
from newtonsim.runtime.progress import OptimizationProgress
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem, Start
    from newtonsim.runtime.launcher import Launcher

_LENGTHS = 0.5 ** np.arange(8)
"""Step lengths that are tried in parallel."""
_LEAST_DAMPING, _FIRST_DAMPING, _MOST_DAMPING = 1e-8, 1e-6, 1e8
_PART = 1e-3
"""Fraction of the expected decrease that must be achieved."""
_RESERVE = 0.5
"""Fraction of the penalty of the gaps that must remain as a decrease if the cost itself rises."""


class Guess(NamedTuple):
    """Controls, and the states in which they start.

    Attributes:
        controls: Shape (horizon, M).
        q: Coordinates, (horizon, C).
        qd: Velocities, (horizon, N).
    """

    controls: np.ndarray
    q: np.ndarray
    qd: np.ndarray


class Trajectory(NamedTuple):
    """A guess, and the motion that results from it.

    Attributes:
        cost: Cost of the controls and of the states that they lead to.
        guess: The guess.
        end_q: Coordinates at the start and after each control, (horizon + 1, C).
        end_qd: Velocities, (horizon + 1, N).
        gaps: From the states of the guess to where the controls before them lead, (horizon, 2 N).
    """

    cost: float
    guess: Guess
    end_q: np.ndarray
    end_qd: np.ndarray
    gaps: np.ndarray

    @property
    def gap(self) -> float:
        """Largest gap."""
        return float(np.abs(self.gaps).max())


class Course(NamedTuple):
    """Where a full step leads according to the linear models.

    Attributes:
        states: Changes of the states of the guess, (horizon, S).
        slope: Slope of the cost by the length of the step.
        curvature: Its curvature.
    """

    states: np.ndarray
    slope: float
    curvature: float


class GapClosing(ABC):
    """Common base of `FDDP` and `MultipleShooting`: linear models, the backward sweep, and the line search.

    The merit of a trajectory is its cost and μ times the sum of its gaps, with a weight μ that grows until
    a step is expected to lower it (Nocedal and Wright, "Numerical optimization", 2006, section 18.3).

    Args:
        problem: The problem.
        method: How the motion is linearised, see `newtonsim.diff.Linearizer`.

    Attributes:
        problem: The problem.
        controls: Controls from which the next iteration starts, (horizon, M).

    Raises:
        NewtonsimError: An argument is out of range.
    """

    def __init__(self, problem: Problem, method: str):
        self.problem = problem
        self._points = Points(problem, method)
        model, horizon, worlds = problem.model, problem.horizon, len(_LENGTHS)
        inputs, dofs, coords = len(problem.entries), model.joint_dof_count, model.joint_coord_count
        self._length = put(_LENGTHS, dtype=float, device=model.device)
        self._jump = zeros(horizon, dtype=int, device=model.device)
        shapes = {
            "controls": (horizon, inputs),
            "change": (horizon, inputs),
            "gain": (horizon, inputs, 2 * dofs + problem.memory),
            "q": (horizon, coords),
            "qd": (horizon, dofs),
            "step": (horizon, 2 * dofs),
            "gap": (horizon, 2 * dofs),
            # of all worlds
            "difference": (worlds, 2 * dofs),
            "move": (worlds * dofs,),
            "node_q": (horizon, worlds * coords),
            "node_qd": (horizon, worlds * dofs),
            "found": (horizon, worlds, 2 * dofs),
        }
        self._arrays = {
            name: zeros(shape, dtype=float, device=model.device) for name, shape in shapes.items()
        }
        self._backward = BackwardSweep(horizon, 2 * dofs + problem.memory, inputs)
        self._runs = Runs(problem, worlds, self._act, move=(self._find, self._place))
        self.controls = problem.read_controls(None)
        self._states: tuple[np.ndarray, np.ndarray] | None = None
        self._end: tuple[np.ndarray, np.ndarray] | None = None
        self._damping, self._weight = _FIRST_DAMPING, 0.0

    @abstractmethod
    def _jumps(self) -> np.ndarray:
        """Which states move along with the linear model rather than with the motion, bool (horizon,)."""

    def solve(
        self,
        start: Start = None,
        controls: npt.ArrayLike | None = None,
        states: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        iterations: int = 50,
        tolerance: float = 1e-5,
        gap_tolerance: float = 1e-4,
    ) -> Result:
        """Optimise from a start.

        Args:
            start: Start: a State of one world, (joint_q, joint_qd), or None for that of the builder.
            controls: First guess, (M,) or (horizon, M); None for what was found before.
            states: First guess of (joint_q, joint_qd) before the first control and after each,
                (horizon + 1, C) and (horizon + 1, N), of which the first and the last row do not matter. They
                need not be connected by a motion. None for those that result from the controls, which poor
                controls may lead far away.
            iterations: Largest number of iterations.
            tolerance: Ends when an iteration lowers the cost by less than this fraction,
            gap_tolerance: and no gap is larger [rad, m, and per s].

        Returns:
            The result, with feedback about it. The feedback closes remaining gaps.

        Raises:
            NewtonsimError: An argument does not fit.
            NotDifferentiableError: The solver or a cost has no gradient, or the first guess leads where the
                solver has none.

        Warns:
            RuntimeWarning: The best motion that was found leads where the solver has no gradient.
        """
        check_count("iterations", iterations)
        check_share("tolerance", tolerance)
        check_share("gap_tolerance", gap_tolerance)
        q, qd = self.problem.read_start(start)
        if controls is not None:
            self.controls = self.problem.read_controls(controls)
        self._states = None if states is None else self._read_states(states)
        begun, status = time.perf_counter(), "iterations"
        self._damping, self._weight = _FIRST_DAMPING, 0.0
        first = self._follow_controls(q, qd)
        best = first if self._states is None else self._evaluate(q, qd)
        history, gaps, gains = [best.cost], [best.gap], None
        with OptimizationProgress(type(self).__name__, iterations) as progress:
            while len(history) <= iterations and np.isfinite(best.cost):
                try:
                    found, step, expected = self._iterate(best, tolerance, gap_tolerance)
                except NotDifferentiableError as reason:
                    if len(history) == 1:
                        raise
                    warn_of_gradients(self, reason)
                    status = "stalled"
                    break
                gains = step.gains if step is not None else gains
                better, change = found is not best, abs(best.cost - found.cost)
                closed = best.gap <= gap_tolerance and found.gap <= gap_tolerance
                best = found
                history.append(best.cost)
                gaps.append(best.gap)
                progress.tell(len(history) - 1, best.cost)
                if closed and (change if better else expected) <= tolerance * abs(best.cost):
                    status = "converged"
                    break
                if not better:
                    status = "stalled"
                    break
        if not np.isfinite(best.cost):  # from these states; the motion by the controls alone may be finite
            status = "stalled"
        self._keep(best)
        best = self._close(best, gains)
        if not best.cost <= first.cost and np.isfinite(first.cost):
            best = first
        if not np.isfinite(best.cost):
            status = "not finite"
        seconds = time.perf_counter() - begun
        found = (best.guess.controls, best.end_q, best.end_qd)
        return Result(status, best.cost, *found, history, self.problem.interval, seconds, gains, gaps)

    def improve(self, start: Start, iterations: int) -> np.ndarray:
        """Make some iterations from where the last ones ended, and return the first control, (M,).

        States continue from there, too: if the start differs from the expected one, there is a gap.

        Args:
            start: The start, see `solve`.
            iterations: Number of iterations.

        Warns:
            RuntimeWarning: The controls have no finite cost from this start; they are unchanged.
        """
        q, qd = self.problem.read_start(start)
        best = self._follow_controls(q, qd) if self._states is None else self._evaluate(q, qd)
        for _ in range(iterations):
            if not np.isfinite(best.cost):
                warn_of_costs(self)
                break
            best = self._iterate(best, 0.0, 0.0)[0]
        self._keep(best)
        return self.controls[0].copy()

    def shift(self) -> None:
        """Move controls and states on by one; the last control stays."""
        self.controls = np.concatenate([self.controls[1:], self.controls[-1:]])
        if self._states is not None and self._end is not None:
            q, qd = (np.concatenate([x[1:], end[None]]) for x, end in zip(self._states, self._end))
            self._states, self._end = (q, qd), None

    def _keep(self, best: Trajectory) -> None:
        """Continue from a trajectory next time."""
        self.controls, self._states = best.guess.controls, (best.guess.q, best.guess.qd)
        self._end = best.end_q[-1], best.end_qd[-1]

    def _iterate(
        self, best: Trajectory, tolerance: float, gap_tolerance: float
    ) -> tuple[Trajectory, Step | None, float]:
        """Return a better trajectory, or the same one, the step that led to it, and the expected decrease.

        Steps are damped the more until one is good enough, or none is expected to matter.
        """
        guess = best.guess
        q = np.concatenate([guess.q, best.end_q[-1:]])
        qd = np.concatenate([guess.qd, best.end_qd[-1:]])
        A, B = self._points.linearize(q, qd, guess.controls)
        expansion = self._points.expand(best.end_q, best.end_qd, guess.controls)
        low, high = self.problem.low - guess.controls, self.problem.high - guess.controls
        # no gap is between a control and what the next state remembers of it
        gaps = np.pad(best.gaps, ((0, 0), (0, self.problem.memory)))
        total, first, expected = float(np.abs(best.gaps).sum()), None, np.inf
        while self._damping <= _MOST_DAMPING:
            try:
                step = self._backward(A, B, expansion, low, high, self._damping, gaps)
            except LinAlgError:
                self._damping *= 10.0
                continue
            course = linear_course(A, B, expansion, gaps, step)
            if first is None:
                first, expected = step, -(course.slope + 0.5 * course.curvature)
            if total > 0.0:
                rise = course.slope + 0.5 * max(course.curvature, 0.0)
                self._weight = max(self._weight, rise / ((1.0 - _RESERVE) * total))
            tried, merits, length = self._try(best, step, course)
            merit = best.cost + self._weight * total
            decrease = self._weight * total - course.slope
            if merit - merits > _PART * length * decrease and tried is not None:
                self._damping = max(_LEAST_DAMPING, 0.2 * self._damping)
                return tried, step, expected
            if best.gap <= gap_tolerance and expected <= tolerance * abs(best.cost):
                return best, step, expected
            self._damping *= 10.0
        self._damping = _FIRST_DAMPING
        return best, first, expected

    def _try(self, best: Trajectory, step: Step, course: Course) -> tuple[Trajectory | None, float, float]:
        """Try all lengths of a step; returns the best trajectory, its merit, and its length."""
        states = course.states[:, : best.gaps.shape[1]]
        costs = self._run(best.guess, best.gaps, step, states, self._jumps())
        sums = np.abs(self._arrays["found"].numpy()).sum(axis=(0, 2), dtype=np.float64)
        merits = costs + self._weight * sums
        merits = np.where(np.isfinite(merits), merits, np.inf)
        world = int(np.argmin(merits))
        found = self._trajectory(world, costs) if np.isfinite(merits[world]) else None
        return found, float(merits[world]), float(_LENGTHS[world])

    def _follow_controls(self, q: np.ndarray, qd: np.ndarray) -> Trajectory:
        """The motion that the controls lead to."""
        states = [np.tile(x, (self.problem.horizon, 1)) for x in (q, qd)]
        return self._plain_run(
            Guess(self.controls, states[0], states[1]), self._no_step(), np.zeros(len(states[0]), bool)
        )

    def _evaluate(self, q: np.ndarray, qd: np.ndarray) -> Trajectory:
        """What controls and states lead to, that of the start being another."""
        assert self._states is not None
        guess = Guess(self.controls, self._states[0].copy(), self._states[1].copy())
        guess.q[0], guess.qd[0] = q, qd
        jumps = np.ones(self.problem.horizon, bool)
        jumps[0] = False
        return self._plain_run(guess, self._no_step(), jumps)

    def _close(self, best: Trajectory, gains: np.ndarray | None) -> Trajectory:
        """The motion by the controls, with feedback about the states that it has gaps from."""
        step = self._no_step() if gains is None else self._no_step()._replace(gains=gains)
        return self._plain_run(best.guess, step, np.zeros(self.problem.horizon, bool))

    def _no_step(self) -> Step:
        shape = self.controls.shape
        states = 2 * self.problem.model.joint_dof_count + self.problem.memory
        return Step(np.zeros(shape), np.zeros((*shape, states)), 0.0)

    def _plain_run(self, guess: Guess, step: Step, jumps: np.ndarray) -> Trajectory:
        """A run without changes; all worlds do the same.

        What breaks down on the way keeps its guess: feedback about states that are not finite is none.
        """
        none = np.zeros((len(guess.q), 2 * self.problem.model.joint_dof_count))
        found = self._trajectory(0, self._run(guess, none, step, none, jumps))
        return found if np.isfinite(found.cost) else found._replace(guess=guess)

    def _run(
        self, guess: Guess, gaps: np.ndarray, step: Step, states: np.ndarray, jumps: np.ndarray
    ) -> np.ndarray:
        """Run all lengths of a step from a guess; returns the costs of the worlds."""
        values = {
            "controls": guess.controls,
            "change": step.change,
            "gain": step.gains,
            "q": guess.q,
            "qd": guess.qd,
            "step": states,
            "gap": gaps,
        }
        for name, array in values.items():
            self._arrays[name].assign(array.astype(np.float32))
        self._jump.assign(jumps.astype(np.int32))
        return self._runs.run(guess.q[0].astype(np.float32), guess.qd[0].astype(np.float32))

    def _trajectory(self, world: int, costs: np.ndarray) -> Trajectory:
        """What a world did."""
        horizon, arrays = self.problem.horizon, self._arrays
        q, qd = (
            arrays[name].numpy().reshape(horizon, len(_LENGTHS), -1)[:, world].astype(np.float64)
            for name in ("node_q", "node_qd")
        )
        guess = Guess(self._runs.controls(world), q, qd)
        gaps = arrays["found"].numpy()[:, world].astype(np.float64)
        return Trajectory(float(costs[world]), guess, *self._runs.states(world), gaps)

    def _read_states(self, states: Any) -> tuple[np.ndarray, np.ndarray]:
        """States before each control."""
        model, rows = self.problem.model, self.problem.horizon + 1
        if not (isinstance(states, (tuple, list)) and len(states) == 2):
            raise NewtonsimError(f"states: expected (joint_q, joint_qd), got {states!r}")
        q = read_numbers("states: joint_q", states[0], (rows, model.joint_coord_count))
        qd = read_numbers("states: joint_qd", states[1], (rows, model.joint_dof_count))
        return q[:-1], qd[:-1]

    def _find(self, launch: Launcher, view: Any) -> None:
        arrays = self._arrays
        launch(
            runs.find_nodes,
            "world",
            reads=dict(
                joint=launch.views.joint,
                body_com=launch.model.body_com,
                length=self._length,
                jump=self._jump,
                step=arrays["step"],
                gap=arrays["gap"],
                q=arrays["q"],
                qd=arrays["qd"],
                run=view,
            ),
            writes=dict(
                move=arrays["move"],
                node_q=arrays["node_q"],
                node_qd=arrays["node_qd"],
                found=arrays["found"],
            ),
        )

    def _place(self, launch: Launcher, view: Any) -> None:
        reads = dict(node_q=self._arrays["node_q"], node_qd=self._arrays["node_qd"])
        launch(runs.place_at_nodes, "world", reads=reads, writes=dict(run=view))

    def _act(self, launch: Launcher, view: Any) -> None:
        arrays = self._arrays
        launch(
            runs.follow_feedback,
            "world",
            reads=dict(
                joint=launch.views.joint,
                body_com=launch.model.body_com,
                length=self._length,
                controls=arrays["controls"],
                change=arrays["change"],
                gain=arrays["gain"],
                q=arrays["q"],
                qd=arrays["qd"],
            ),
            writes=dict(difference=arrays["difference"], run=view),
        )


def linear_course(A: np.ndarray, B: np.ndarray, expansion: Expansion, gaps: np.ndarray, step: Step) -> Course:
    """Follow a whole step through the linear models; arguments as in `riccati.BackwardSweep`."""
    horizon, count, inputs = B.shape
    states, x = np.zeros((horizon, count)), np.zeros(count)
    slope = curvature = 0.0
    for t in range(horizon):
        x = x + gaps[t]
        states[t] = x
        u = step.change[t] + step.gains[t] @ x
        for change, weight in expansion.changes:
            more = u - x[count - inputs :]
            slope += float(weight[t] * change[t] @ more)
            curvature += float(weight[t] * more @ more)
        x = A[t] @ x + B[t] @ u
        y = np.concatenate([x, u])
        slope += float(expansion.slope[t] @ y)
        curvature += float(y @ expansion.curvature[t] @ y)
    return Course(states, slope, curvature)
