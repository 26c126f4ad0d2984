"""Linear models of steps: how the state after them depends on the state before and on the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import warp as wp

from newtonsim.diff import checks
from newtonsim.diff.closed_form import ClosedForm
from newtonsim.diff.coordinates import Blocks, coordinate_rates, rate_of_coordinates
from newtonsim.diff.inputs import Controls, copy_controls
from newtonsim.diff.rollout import Rollout, RolloutResult
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.kinematics import eval_fk
from newtonsim.runtime.shards import Shard, runs_of
from newtonsim.scene.arrays import COUNTS
from newtonsim.scene.state import State
from newtonsim.solver_protocol import DifferentiableSolver

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_RECORDING = 1200
"""Backward passes of a world that take as long as to record one anew, 0.1 s."""

_INPUTS = {"joint_f": "dof", "joint_act": "axis"}
_JOINT = ("joint_q", "joint_qd")
_BODY = ("body_q", "body_qd")


class Linearization(NamedTuple):
    """δx⁺ = A δx + B δu for every world.

    The state is x = (q, q̇) in tangent coordinates: δq has one number for each degree of freedom, and q ⊕ δq
    is q after a step of time 1 with velocity δq. For rotations these are angles about the axes in which
    `joint_qd` measures angular velocity.

    Attributes:
        A: Shape (world_count, 2 n, 2 n) with n degrees of freedom in each world, float64.
        B: Shape (world_count, 2 n, inputs), float64.
    """

    A: np.ndarray
    B: np.ndarray


class Linearizer:
    """Linear models of the same number of steps at many states; graphs are captured once.

    Where a contact just touches or a joint is at its limit, derivatives from both sides differ, and so do the
    methods. The adjoint is the linear model of one side: pressing contacts stay closed, and sticking ones
    keep sticking. It holds for small motions within these contacts, and does not know that feet can be
    lifted. The difference is the mean slope over ± `span`, in which contacts open and close. It depends on
    `span`: the derivative of the velocity after a step of h with respect to the height of a resting box is 0
    by the adjoint and -g h / (2 span) by the difference, since the box falls from above and stays from below.
    Choose the adjoint for motions that keep their contacts, and the difference with a span of the size of the
    expected motions for others.

    Args:
        model: A model whose worlds have equal numbers of degrees of freedom; finalized with
            `requires_grad=True` if "adjoint" runs backward.
        solver: A solver made for it.
        dt: Time of a step [s].
        steps: Number of steps, with the same inputs in all of them.
        inputs: What u is: "joint_f" or "joint_act".
        method: "adjoint" takes the derivative of each step, "difference" runs forward 2 (2 n + inputs) times;
            both for all worlds at once. The derivative is exact up to rounding. FeatherstoneSolver has it in
            closed form, all columns at once, see `LinearSteps`; in worlds where it has none, the adjoint
            runs backward 2 n times. The difference works with every solver and through contacts without a
            gradient, and is accurate to three or four digits in float32. At resting contact they are
            different models, see above.
        span: Half width of differences, of angles [rad], positions [m] and velocities.
        input_span: Half width of differences of inputs.
        warm_start: Whether a call starts from the impulses of the solver's last step, instead of none. With
            contacts it takes about half of the time if that step was similar, such as the one before in a
            simulation or the same one in the last iteration of iLQR. Results then depend on that step,
            within the accuracy of the solver; so does how contacts share a load if they may share it in
            several ways. Only the closed form of FeatherstoneSolver makes use of it.

    Raises:
        NewtonsimError: An argument is out of range, the model has no joints, or its worlds differ.
        NotDifferentiableError: The solver has no gradient; use differences.
    """

    def __init__(
        self,
        model: Model,
        solver: DifferentiableSolver,
        dt: float,
        steps: int = 1,
        inputs: str = "joint_f",
        method: str = "adjoint",
        span: float = 3.0e-3,
        input_span: float = 0.1,
        warm_start: bool = False,
    ):
        if inputs not in _INPUTS:
            raise NewtonsimError(f"inputs: expected one of {list(_INPUTS)}, got {inputs!r}")
        if method not in ("adjoint", "difference"):
            raise NewtonsimError(f"method: expected 'adjoint' or 'difference', got {method!r}")
        for name, width in (("span", span), ("input_span", input_span)):
            if not width > 0.0:
                raise NewtonsimError(f"{name}: expected a positive number, got {width!r}")
        self.model, self.inputs, self.method = model, inputs, method
        self.span, self.input_span = span, input_span
        self._worlds = model.world_count
        self._dofs = self._per_world("dof")
        self._input_count = self._per_world(_INPUTS[inputs])
        if not self._dofs:
            raise NewtonsimError("linearize: the model has no joints")
        self._options = {"model": model, "solver": solver, "steps": steps, "dt": dt, "checkpoint": "tape"}
        self._rollout = Rollout(**self._options) if method == "difference" else None
        self._closed = self._closed_form(solver, steps, dt, warm_start) if method == "adjoint" else None
        # of all worlds, and of chosen ones, which are recorded anew when others are chosen
        self._rollouts: dict[bool, Rollout] = {}
        self._chosen: Shard | None = None

    def __call__(self, state: State, controls: Controls = None) -> Linearization:
        """Linearise about a state.

        Args:
            state: The state; `joint_q` and `joint_qd` are read, bodies are placed accordingly.
            controls: Inputs, see `Rollout.evaluate`, but no sequences.

        Returns:
            A and B.
        """
        if self.method == "difference":
            return self._by_differences(self._start(state), controls)
        if self._closed is None:
            return self._by_adjoint(self._start(state), controls, None)
        A, B, lacking = self._closed(state, controls)
        if len(lacking):
            worlds = self._worth_choosing(lacking)
            adjoint = self._by_adjoint(self._start(state), controls, worlds)
            A[lacking], B[lacking] = adjoint.A[lacking], adjoint.B[lacking]
        return Linearization(A, B)

    def _worth_choosing(self, lacking: np.ndarray) -> Shard | None:
        """The worlds that the closed form lacks, unless all of them are done as soon; None for all."""
        if 2 * self._dofs * (self._worlds - len(lacking)) < _RECORDING:
            return None
        mask = np.zeros(self._worlds, bool)
        mask[lacking] = True
        chosen = tuple(range(first, end) for first, end in runs_of(mask))
        if self._chosen is None or self._chosen.worlds != chosen:
            self._chosen = Shard(self.model, chosen)
        return self._chosen

    def _closed_form(
        self, solver: DifferentiableSolver, steps: int, dt: float, warm_start: bool
    ) -> ClosedForm | None:
        """Return the closed-form derivative of the solver's steps, None if there is none."""
        checks.check_numbers(steps, dt, None)
        checks.check_solver(solver, self.model)
        linear = solver.make_linear_model(self.inputs)
        return None if linear is None else ClosedForm(self.model, solver, linear, steps, dt, warm_start)

    def _per_world(self, per: str) -> int:
        """Number of entries that each world has."""
        total = getattr(self.model, COUNTS[per])
        if per == "dof":
            counts = np.diff(self.model.world_dof_start)
            if len(set(counts.tolist())) > 1 or counts.sum() != total:
                raise NewtonsimError(
                    "linearize: every world needs the same number of degrees of freedom, "
                    "and none may be outside worlds"
                )
        if total % self._worlds:
            raise NewtonsimError(f"linearize: {total} inputs cannot be divided evenly among worlds")
        return total // self._worlds

    def _start(self, state: State) -> State:
        """Return a copy with bodies placed by the joints."""
        self.model.check_state(state)
        start = self.model.state(requires_grad=self.method == "adjoint")
        start.assign(state)
        eval_fk(self.model, start.joint_q, start.joint_qd, None, start)
        return start

    def _by_adjoint(self, start: State, controls: Controls, chosen: Shard | None) -> Linearization:
        """A and B of chosen worlds, None for all; what stands for others has no meaning."""
        rollout, result = self._run(start, controls, chosen)
        n, worlds = self._dofs, self._worlds
        joints = None
        if chosen is not None:
            joints = [first + i for first, count in chosen.ranges("joint") for i in range(count)]
        ends = rate_of_coordinates(self.model, result.state.joint_q.numpy(), joints)
        begins = coordinate_rates(self.model, start.joint_q.numpy(), joints)
        A = np.zeros((worlds, 2 * n, 2 * n))
        B = np.zeros((worlds, 2 * n, self._input_count))
        for row in range(2 * n):
            seeds = self._seeds(ends, row)
            gradients = rollout.backward(state_seeds=seeds)
            q, qd = self._to_joints(start, gradients)
            A[:, row, :n] = begins.pull_back(q).reshape(worlds, n)
            A[:, row, n:] = qd.reshape(worlds, n)
            B[:, row] = gradients[f"control.{self.inputs}"].numpy().reshape(worlds, -1)
        return Linearization(A, B)

    def _run(self, start: State, controls: Controls, chosen: Shard | None) -> tuple[Rollout, RolloutResult]:
        """Run forward once, with gradients with respect to what the solver reads: joints, bodies or both."""
        zero = {"joint_qd": wp.zeros(len(start.joint_qd), dtype=float, device=self.model.device)}
        rollout = self._rollouts.get(chosen is None)
        if rollout is not None:
            rollout.worlds = chosen
            return rollout, rollout(start, controls, state_seeds=zero)
        for names in (_JOINT + _BODY, _JOINT, _BODY):
            wrt = [f"state.{name}" for name in names] + [f"control.{self.inputs}"]
            rollout = Rollout(wrt=wrt, warn=False, **self._options)
            rollout.worlds = chosen
            try:
                result = rollout(start, controls, state_seeds=zero)
            except NotDifferentiableError as error:
                reason = error
                continue
            self._rollouts[chosen is None] = rollout
            return rollout, result
        raise reason

    def _seeds(self, ends: Blocks, row: int) -> dict[str, wp.array]:
        """Gradient of a coordinate of the final state in all worlds."""
        device, n = self.model.device, self._dofs
        dofs = np.zeros((self._worlds, n))
        if row >= n:
            dofs[:, row - n] = 1.0
            return {"joint_qd": wp.array(dofs.reshape(-1), dtype=float, device=device)}
        dofs[:, row] = 1.0
        return {"joint_q": wp.array(ends.pull_back(dofs.reshape(-1)), dtype=float, device=device)}

    def _to_joints(self, start: State, gradients: dict[str, wp.array]) -> tuple[np.ndarray, np.ndarray]:
        """Gradients with respect to joint_q and joint_qd, with what comes from the bodies that they place."""
        q, qd = (
            gradients[f"state.{name}"].numpy().astype(np.float64) if f"state.{name}" in gradients else 0.0
            for name in _JOINT
        )
        if "state.body_q" not in gradients:
            return q, qd
        for array in (start.joint_q, start.joint_qd):
            array.grad.zero_()
        with wp.Tape() as tape:
            eval_fk(self.model, start.joint_q, start.joint_qd, None, start)
        tape.backward(grads={getattr(start, name): gradients[f"state.{name}"] for name in _BODY})
        return q + start.joint_q.grad.numpy(), qd + start.joint_qd.grad.numpy()

    def _by_differences(self, start: State, controls: Controls) -> Linearization:
        n, worlds, model = self._dofs, self._worlds, self.model
        q, qd = start.joint_q.numpy().copy(), start.joint_qd.numpy().copy()
        control = copy_controls(model, controls)
        u = control[self.inputs].numpy().copy()
        middle = self._rollout.evaluate(start, control).state.joint_q.numpy()
        ends = rate_of_coordinates(model, middle)
        begins = coordinate_rates(model, q)

        def moved(column: int, offset: float) -> tuple[np.ndarray, np.ndarray]:
            """Return coordinates and velocities at the end, with one number of each world moved."""
            step = np.zeros((worlds, 2 * n + self._input_count))
            step[:, column] = offset
            start.joint_q.assign(begins.move(q, step[:, :n].reshape(-1)))
            start.joint_qd.assign(qd + step[:, n : 2 * n].reshape(-1).astype(np.float32))
            control[self.inputs].assign(u + step[:, 2 * n :].reshape(-1).astype(np.float32))
            eval_fk(model, start.joint_q, start.joint_qd, None, start)
            end = self._rollout.evaluate(start, control).state
            return end.joint_q.numpy().astype(np.float64), end.joint_qd.numpy().astype(np.float64)

        columns = []
        for column in range(2 * n + self._input_count):
            span = self.span if column < 2 * n else self.input_span
            (q_high, qd_high), (q_low, qd_low) = moved(column, span), moved(column, -span)
            rates = np.concatenate(
                [
                    ends.push(ends.nearer(q_high) - ends.nearer(q_low)).reshape(worlds, n),
                    (qd_high - qd_low).reshape(worlds, n),
                ],
                axis=1,
            )
            columns.append(rates / (2.0 * span))
        both = np.stack(columns, axis=2)
        return Linearization(both[:, :, : 2 * n], both[:, :, 2 * n :])


def linearize(
    model: Model,
    solver: DifferentiableSolver,
    state: State,
    control: Controls,
    dt: float,
    steps: int = 1,
    inputs: str = "joint_f",
    method: str = "adjoint",
    span: float = 3.0e-3,
    input_span: float = 0.1,
) -> Linearization:
    """Linearise a step, or several with the same inputs, about a state of every world.

    Use a `Linearizer` for repeated calls. It describes the arguments, the errors, and how to choose between
    the methods: at resting contact they are different models.

    Returns:
        A (world_count, 2 n, 2 n) and B (world_count, 2 n, inputs), see `Linearization`.
    """
    return Linearizer(model, solver, dt, steps, inputs, method, span, input_span)(state, control)
