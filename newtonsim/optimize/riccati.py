"""The backward sweep that all optimisers with linear models share.

A kernel on the CPU processes all controls, and stops at one that would leave its bounds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.linalg import LinAlgError

from newtonsim.kernels.optimize import riccati
from newtonsim.optimize.box import minimise
from newtonsim.optimize.points import Expansion
from newtonsim.runtime import compilation
from newtonsim.scene.allocation import zeros


class Step(NamedTuple):
    """The result of a backward sweep.

    Attributes:
        change: Changes of the controls, (horizon, M).
        gains: Feedback, (horizon, M, S), with the numbers S of a state: 2 N, and M more where costs ask for
            the control before.
        decrease: The expected decrease of the cost for a full step.
    """

    change: np.ndarray
    gains: np.ndarray
    decrease: float


class BackwardSweep:
    """Finds changes and gains from the horizon back to the start.

    Tassa, Mansard and Todorov, "Control-limited differential dynamic programming", 2014; with gaps the slope
    of the value moves on to where the next state is, as in Mastalli and others, "Crocoddyl: An efficient and
    versatile framework for multi-contact optimal control", 2020, eq. 13.

    Args:
        horizon: Number of controls.
        states: Numbers S of a state.
        inputs: Numbers M of a control.
    """

    def __init__(self, horizon: int, states: int, inputs: int):
        self._shape = horizon, states, inputs
        count = states + inputs
        shapes = {
            "F": (horizon, states, count),
            "slope": (horizon, count),
            "curvature": (horizon, count, count),
            "rise": (horizon, inputs),
            "weight": (horizon, inputs),
            "gaps": (horizon, states),
            "low": (horizon, inputs),
            "high": (horizon, inputs),
            "change": (horizon, inputs),
            "gain": (horizon, inputs, states),
            "decrease": (1,),
            "v": (states,),
            "V": (states, states),
            "W": (count, states),
            "Z": (count, count),
            "q": (count,),
            "Q": (count, count),
            "damped": (inputs, inputs),
            "L": (inputs, inputs),
        }
        view, cpu = riccati.SweepView(), wp.get_device("cpu")
        view.states, view.inputs = states, inputs
        for name, shape in shapes.items():
            setattr(view, name, zeros(math.prod(shape), dtype=wp.float64, device=cpu))
        view.status = zeros(2, dtype=int, device=cpu)
        self._view: Any = view
        self._memory = {name: getattr(view, name).numpy().reshape(shape) for name, shape in shapes.items()}
        self._status = view.status.numpy()

    def __call__(
        self,
        A: np.ndarray,
        B: np.ndarray,
        expansion: Expansion,
        low: np.ndarray,
        high: np.ndarray,
        damping: float,
        gaps: np.ndarray | None = None,
    ) -> Step:
        """Find a step.

        Args:
            A: Slopes of the state after each control by that before it, (horizon, S, S).
            B: Slopes by the control, (horizon, S, M).
            expansion: Costs of the states after the controls, before any gap, and of the controls.
            low: Lower bounds of changes of the controls, (horizon, M).
            high: Upper bounds of changes.
            damping: Fraction of the diagonal that is added to the curvature by the controls.
            gaps: From the state before each control to where the control before it leads, (horizon, S); None
                where there are none.

        Returns:
            The step. Its decrease does not include the cost of closing the gaps.

        Raises:
            LinAlgError: The damping is too small.
        """
        horizon, states, _ = self._shape
        memory, view = self._memory, self._view
        memory["F"][:, :, :states], memory["F"][:, :, states:] = A, B
        memory["slope"][:], memory["curvature"][:] = expansion.slope, expansion.curvature
        memory["low"][:], memory["high"][:] = low, high
        memory["gaps"][:] = 0.0 if gaps is None else gaps
        for name in ("rise", "weight", "decrease", "v", "V"):
            memory[name][:] = 0.0
        for rise, weight in expansion.changes:
            memory["rise"] += weight * rise
            memory["weight"] += weight
        view.damping, view.changes, view.open = damping, bool(expansion.changes), gaps is not None
        last, given = horizon - 1, False
        while last >= 0:
            reads = dict(last=last, given=given)
            compilation.launch(riccati.sweep_back, 1, reads=reads, writes=dict(view=view), device="cpu")
            if self._status[0] == riccati.INDEFINITE:
                raise LinAlgError("the curvature by the controls is not positive definite")
            if self._status[0] == riccati.DONE:
                break
            last, given = int(self._status[1]), True
            self._stay_within(last)
        return Step(memory["change"].copy(), memory["gain"].copy(), float(memory["decrease"][0]))

    def _stay_within(self, t: int) -> None:
        """Replace change and gains of a control that would leave its bounds by those that stay within."""
        memory, states = self._memory, self._shape[1]
        change, gain, damped = memory["change"][t], memory["gain"][t], memory["damped"]
        change[:], free = minimise(damped, memory["q"][states:], memory["low"][t], memory["high"][t])
        gain[:] = 0.0
        if free.any():
            across = memory["Q"][states:, :states]
            gain[free] = -np.linalg.solve(damped[np.ix_(free, free)], across[free])
