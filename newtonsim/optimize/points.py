"""Points of a trajectory as worlds: linear models of the steps, quadratic models of the costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from newtonsim.diff import Linearizer
from newtonsim.diff.coordinates import coordinate_rates
from newtonsim.dynamics import Dynamics
from newtonsim.dynamics.recordings import Recordings
from newtonsim.kernels.optimize import expansions
from newtonsim.kernels.optimize.views import ExpansionView
from newtonsim.kinematics import eval_fk
from newtonsim.optimize.runs import cost_view
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.allocation import put, write, zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.optimize.costs import Changes, Cost
    from newtonsim.optimize.problem import Problem

_SPAN = 1e-3
"""Half width of differences of slopes, of coordinates, velocities and controls alike."""


class Expansion(NamedTuple):
    """Quadratic models of the costs of y = (x after a control, that control), with x = (q, q̇).

    If costs depend on the previous control, x = (q, q̇, control before), and `changes` holds the costs of the
    difference between a control and that in the state before it.

    Attributes:
        slope: Shape (horizon, S + M) with the numbers S of a state, float64.
        curvature: Shape (horizon, S + M, S + M), float64, not negative.
        changes: Costs of changes, see `costs.Changes`.
    """

    slope: np.ndarray
    curvature: np.ndarray
    changes: Sequence[Changes] = ()


def remember_controls(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return A and B of states that hold the control before as well."""
    horizon, states, inputs = B.shape
    wide, tall = (
        np.zeros((horizon, states + inputs, states + inputs)),
        np.zeros((horizon, states + inputs, inputs)),
    )
    wide[:, :states, :states] = A
    tall[:, :states], tall[:, states:] = B, np.eye(inputs)
    return wide, tall


class Points:
    """One world for each control of a trajectory.

    Args:
        problem: The problem.
        method: See `newtonsim.diff.Linearizer`.

    Attributes:
        model: Model of the worlds.
        launch: Launches over them.
        view: What their costs are functions of.
        expansion: Where ready costs add their slopes and curvatures.
        rows: Room for the slopes of six residuals, (horizon, 6, N).
    """

    def __init__(self, problem: Problem, method: str):
        problem.check_gradient()
        self.problem, horizon = problem, problem.horizon
        self.model = problem.make_model(horizon, requires_grad=True)
        model, device = self.model, self.model.device
        solver = problem.solver(model)
        # the trajectory changes little from one iteration to the next
        self._linearizer = Linearizer(
            model, solver, problem.dt, problem.hold, problem.inputs, method, warm_start=True
        )
        self._state, self._control = model.state(requires_grad=True), model.control(requires_grad=True)
        step = put(problem.hold * np.arange(1, horizon + 1), dtype=int, device=device)
        self._losses = wp.zeros(horizon, dtype=float, device=device, requires_grad=True)
        self.launch = Launcher(model, record_tape=True)
        self.view: Any = cost_view(problem, model, self._state, self._control, step, self._losses)
        self._states, self._inputs = 2 * self.view.dofs, len(problem.entries)
        view: Any = ExpansionView()
        view.slope = zeros((horizon, self._states), dtype=float, device=device)
        view.curvature = zeros((horizon, self._states, self._states), dtype=float, device=device)
        view.control_slope = zeros((horizon, self._inputs), dtype=float, device=device)
        view.control_curvature = zeros((horizon, self._inputs), dtype=float, device=device)
        self.expansion = view
        self.rows = zeros((horizon, 6, self.view.dofs), dtype=float, device=device)
        self._dynamics = Dynamics(model)
        self._motion, self._recordings = Motion(model), Recordings(model)
        self._sum: Expansion

    def jacobian(self) -> wp.array:
        """Geometric Jacobians of all bodies, see `Dynamics.jacobian`."""
        return self._dynamics.jacobian(self._state)

    def linearize(self, q: np.ndarray, qd: np.ndarray, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A (horizon, S, S) and B (horizon, S, M) at the states before the controls.

        Args:
            q: Coordinates of the trajectory, (horizon + 1, C).
            qd: Velocities, (horizon + 1, N).
            controls: Shape (horizon, M).
        """
        self._write(q[:-1], qd[:-1], controls)
        A, B = self._linearizer(self._state, self._control)
        B = B[:, :, self.problem.entries]
        return remember_controls(A, B) if self.problem.memory else (A, B)

    def expand(self, q: np.ndarray, qd: np.ndarray, controls: np.ndarray) -> Expansion:
        """Return the quadratic models of the costs at the states after the controls; see `linearize`."""
        horizon, states = self.problem.horizon, self._states
        count = states + self._inputs
        self._write(q[1:], qd[1:], controls)
        state = self._state
        arrays = (state.joint_q, state.joint_qd, state.body_q, state.body_qd)
        self._recordings.run("place", arrays, self._place)
        self._sum = Expansion(np.zeros((horizon, count)), np.zeros((horizon, count, count)))
        self.launch(expansions.clear_expansion, "world", writes=dict(expansion=self.expansion))
        for cost in self.problem.costs:
            cost.expand(self)
        slope, curvature = self._sum.slope, self._sum.curvature
        slope[:, :states] += self.expansion.slope.numpy()
        slope[:, states:] += self.expansion.control_slope.numpy()
        curvature[:, :states, :states] += self.expansion.curvature.numpy()
        diagonal = np.arange(states, count)
        curvature[:, diagonal, diagonal] += self.expansion.control_curvature.numpy()
        if not self.problem.memory:
            return self._sum
        rest = np.r_[: self._states, self._states + self._inputs : count + self._inputs]
        wide = np.zeros((horizon, count + self._inputs)), np.zeros((horizon, *2 * (count + self._inputs,)))
        wide[0][:, rest] = slope
        wide[1][:, rest[:, None], rest] = curvature
        return Expansion(*wide, self.problem.changes(controls))

    def expand_by_differences(self, cost: Cost) -> None:
        """Add slope and curvature of a cost that is known by its gradient alone.

        The curvature is the difference of slopes; its negative eigenvalues become 0.
        """
        q = self._state.joint_q.numpy().copy()
        qd = self._state.joint_qd.numpy().copy()
        control = self.view.control.numpy().copy()
        rates = coordinate_rates(self.model, q)
        horizon, count = self._sum.slope.shape

        def move(step: np.ndarray) -> np.ndarray:
            """Return the slope with all worlds moved by a step (count,)."""
            steps = np.tile(step, (horizon, 1))
            dofs = self.view.dofs
            moved = control.reshape(horizon, -1).copy()
            moved[:, self.problem.entries] += steps[:, 2 * dofs :].astype(np.float32)
            self._state.joint_q.assign(rates.move(q, steps[:, :dofs].reshape(-1)))
            self._state.joint_qd.assign(qd + steps[:, dofs : 2 * dofs].reshape(-1).astype(np.float32))
            self.view.control.assign(moved.reshape(-1))
            return self._slope(cost)

        self._sum.slope[:] += move(np.zeros(count))
        columns = [(move(_SPAN * e) - move(-_SPAN * e)) / (2.0 * _SPAN) for e in np.eye(count)]
        curvature = np.stack(columns, axis=2)
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.swapaxes(1, 2)))
        self._sum.curvature[:] += (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
        self._state.joint_q.assign(q)
        self._state.joint_qd.assign(qd)
        self.view.control.assign(control)
        eval_fk(self.model, self._state.joint_q, self._state.joint_qd, None, self._state)

    def _slope(self, cost: Cost) -> np.ndarray:
        """Return the slope of a cost at the current state and control, (horizon, 2 N + M)."""
        state: Any = self._state
        horizon = self.problem.horizon
        with wp.Tape() as tape:
            eval_fk(self.model, state.joint_q, state.joint_qd, None, state)
            cost.add(self.launch, self.view)
        ones = wp.full(horizon, 1.0, dtype=float, device=self.model.device)
        tape.backward(grads={self._losses: ones})
        by_q = state.joint_q.grad.numpy().astype(np.float64)
        slope = np.concatenate(
            [
                coordinate_rates(self.model, state.joint_q.numpy()).pull_back(by_q).reshape(horizon, -1),
                state.joint_qd.grad.numpy().reshape(horizon, -1),
                self.view.control.grad.numpy().reshape(horizon, -1)[:, self.problem.entries],
            ],
            axis=1,
        )
        tape.zero()
        for array in (state.joint_q, state.joint_qd, state.body_q, state.body_qd, self.view.control):
            array.grad.zero_()
        return slope

    def _write(self, q: np.ndarray, qd: np.ndarray, controls: np.ndarray) -> None:
        """Write coordinates, velocities and controls to the worlds."""
        state, array = self._state, self.view.control
        write(state.joint_q, q)
        write(state.joint_qd, qd)
        inputs = array.numpy().reshape(self.problem.horizon, -1).copy()
        inputs[:, self.problem.entries] = controls
        write(array, inputs)

    def _place(self) -> None:
        """Place the bodies from the joints."""
        state, launch = self._state, Launcher(self.model, record_tape=False)
        launch.place(self._motion, state.joint_q, state.joint_qd, state.body_q, state.body_qd)
