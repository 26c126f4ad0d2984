"""Steps with the costs of a problem, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.diff import Rollout
from newtonsim.kinematics import eval_fk
from newtonsim.optimize.runs import cost_view
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.diff import RolloutResult
    from newtonsim.optimize.problem import Problem
    from newtonsim.scene.control import Control


class CostRollout:
    """A `newtonsim.diff.Rollout` whose losses are the costs of a problem.

    Args:
        problem: The problem.
        wrt: What to differentiate with respect to, see `Rollout`.
        worlds: Number of copies of the robot.
        checkpoint: See `Rollout`.
        endless: Whether a call makes the steps of one control, at whose end there are no final costs.
        strict: See `Rollout`.

    Attributes:
        problem: The problem.
        model: Model of the worlds.
        rollout: The rollout.

    Raises:
        NewtonsimError: An argument is out of range.
        NotDifferentiableError: A cost has no gradient.
    """

    def __init__(
        self,
        problem: Problem,
        wrt: Sequence[str],
        worlds: int = 1,
        checkpoint: str | int = "auto",
        endless: bool = False,
        strict: bool = True,
    ):
        problem.check_gradient()
        self.problem, self._endless = problem, endless
        self.model = problem.make_model(worlds, requires_grad=True)
        self._launch = Launcher(self.model, record_tape=True)
        self._view: Any = None
        self.rollout = Rollout(
            self.model,
            problem.solver(self.model),
            problem.hold if endless else problem.steps,
            problem.dt,
            running=self._add_costs,
            wrt=wrt,
            checkpoint=checkpoint,
            strict=strict,
            warn=False,
        )
        self._rest = getattr(self.model.control(), problem.inputs).numpy()

    def __call__(self, state: State, controls: np.ndarray) -> RolloutResult:
        """Run forward and back from a state with controls (horizon, M) of one world."""
        rows = np.tile(self._rest, (self.problem.steps, 1))
        rows[:, self.problem.entries] = np.repeat(controls, self.problem.hold, axis=0)
        return self.rollout(state, {self.problem.inputs: rows})

    def state(self, q: np.ndarray, qd: np.ndarray) -> State:
        """A state of all worlds."""
        state = self.model.state()
        state.joint_q.assign(q)
        state.joint_qd.assign(qd)
        eval_fk(self.model, state.joint_q, state.joint_qd, None, state)
        return state

    def _add_costs(self, step: wp.array, state: State, control: Control, losses: wp.array) -> None:
        if self._view is None:  # made in the first step, which is not recorded
            self._view = cost_view(self.problem, self.model, state, control, step, losses)
            if self._endless:
                self._view.steps = -1
        for cost in self.problem.costs:
            cost.add(self._launch, self._view)
