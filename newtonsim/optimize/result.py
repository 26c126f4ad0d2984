"""The result of an optimiser."""

from __future__ import annotations

import os
import pathlib
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

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the cost by iteration, and coordinates, velocities and controls over time.

        Needs the `plot` extra (matplotlib).

        Args:
            path: File to save it as, in a folder that is made if it does not exist; None for none.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ImportError: The extra is not installed.
        """
        figure, cost = motion_figure(self.joint_q, self.joint_qd, self.controls, self.interval)
        history = np.array(self.history)
        cost.plot(history, marker=".")
        finite = history[np.isfinite(history)]
        cost.set(xlabel="iteration", ylabel="cost", title=str(self))
        if len(finite) and finite.min() > 0.0:
            cost.set_yscale("log")
        save_figure(figure, path)
        return figure


def motion_figure(
    joint_q: np.ndarray, joint_qd: np.ndarray, controls: np.ndarray, interval: float
) -> tuple[Any, Any]:
    """Return a figure of a motion and its controls over time, and axes left free for something else.

    Raises:
        ImportError: The `plot` extra is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'newtonsim[plot]'") from error
    figure = Figure(figsize=(11.0, 6.0), layout="constrained")
    free, q, control, qd = figure.subplots(2, 2).reshape(-1)
    times = interval * np.arange(len(joint_q))
    q.plot(times, joint_q)
    q.set(xlabel="time [s]", ylabel="joint_q [rad or m]")
    qd.plot(times, joint_qd)
    qd.set(xlabel="time [s]", ylabel="joint_qd [rad/s or m/s]")
    control.step(times, np.concatenate([controls, controls[-1:]]), where="post")
    control.set(xlabel="time [s]", ylabel="controls")
    return figure, free


def save_figure(figure: Any, path: str | os.PathLike[str] | None) -> None:
    """Save a figure, if a path is given, in a folder that is made if it does not exist."""
    if path is not None:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
