"""The result of an optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

STATUSES = ("converged", "stalled", "iterations", "not finite")
"""How an optimisation can end."""


@dataclass(frozen=True)
class Result:
    """The best controls that an optimiser found, and the resulting motion.

    Attributes:
        status: "converged"; "stalled" if nothing that was tried was better; "iterations" if these were used
            up; or "not finite" if the first guess has no finite cost and nothing better was found.
        cost: Cost of the controls.
        controls: The controls, (horizon, M).
        joint_q: Coordinates before the first control and after each, (horizon + 1, C).
        joint_qd: Velocities, likewise, (horizon + 1, N).
        history: Lowest cost so far, of the first guess and after each iteration.
        interval: Time that a control lasts [s].
        seconds: Time that it took [s].
        gains: Feedback of `ILQR`, `FDDP` and `MultipleShooting`, (horizon, M, 2 N):
            `controls[t] + gains[t] @ (x - x[t])` with the state (q, q̇) in tangent coordinates, and with the
            control before beyond it where a `ControlRateCost` counts; None of other optimisers.
        gaps: Largest gap between states and where the steps before them lead, for each entry of `history`,
            which then has the costs of the trajectories with these gaps; None of optimisers that have none.
            `cost`, `joint_q` and `joint_qd` are those of a motion without gaps.
    """

    status: str
    cost: float
    controls: np.ndarray
    joint_q: np.ndarray
    joint_qd: np.ndarray
    history: list[float]
    interval: float
    seconds: float
    gains: np.ndarray | None = None
    gaps: list[float] | None = None

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return len(self.history) - 1

    def __str__(self) -> str:
        if not np.isfinite(self.cost):
            tried = f"after {self.iterations} iterations, {self.seconds:.2f} s"
            return f"{self.status}: the first guess costs {self.history[0]:.6g}, and nothing better {tried}"
        costs = f"cost {self.history[0]:.6g} -> {self.cost:.6g}"
        open_gaps = self.status != "converged" and self.gaps is not None and self.gaps[-1] > 0.0
        gap = f", gaps of up to {self.gaps[-1]:.2g} left" if open_gaps and self.gaps else ""
        return f"{self.status}: {costs} in {self.iterations} iterations, {self.seconds:.2f} s{gap}"

    def plot(self) -> Any:
        """Draw the cost by iteration, and coordinates, velocities and controls over time.

        Needs the `plot` extra (matplotlib).

        Returns:
            The `matplotlib.figure.Figure`; save it with `figure.savefig(path)`.

        Raises:
            ImportError: The extra is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("plot needs matplotlib: pip install 'newtonsim[plot]'") from error
        figure = Figure(figsize=(11.0, 6.0), layout="constrained")
        cost, q, control, qd = figure.subplots(2, 2).reshape(-1)
        history = np.array(self.history)
        cost.plot(history, marker=".")
        finite = history[np.isfinite(history)]
        cost.set(xlabel="iteration", ylabel="cost", title=str(self))
        if len(finite) and finite.min() > 0.0:
            cost.set_yscale("log")
        times = self.interval * np.arange(len(self.joint_q))
        q.plot(times, self.joint_q)
        q.set(xlabel="time [s]", ylabel="joint_q [rad or m]")
        qd.plot(times, self.joint_qd)
        qd.set(xlabel="time [s]", ylabel="joint_qd [rad/s or m/s]")
        control.step(times, np.concatenate([self.controls, self.controls[-1:]]), where="post")
        control.set(xlabel="time [s]", ylabel="controls")
        return figure
