"""Model predictive control: optimise repeatedly, and apply the first control each time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.optimize.checks import check_count
from newtonsim.optimize.result import motion_figure, save_figure

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem, Start
    from newtonsim.simulator import Simulator


class Improvable(Protocol):
    """An optimiser that continues from its last result: `MPPI`, `CEM`, `ILQR`, `FDDP`, `MultipleShooting`."""

    problem: Problem

    def improve(self, start: Start, iterations: int) -> np.ndarray:
        """Make some iterations, and return the first control."""
        ...

    def shift(self) -> None:
        """Shift the controls by one."""
        ...


@dataclass(frozen=True)
class ControlledMotion:
    """A robot's motion under a `Controller`.

    Attributes:
        joint_q: Coordinates before the first control and after each, (steps + 1, C).
        joint_qd: Velocities, likewise, (steps + 1, N).
        body_q: World poses of the bodies, likewise, (steps + 1, B, 7) [m, quaternion xyzw].
        controls: The controls, (steps, M).
        interval: Time that a control lasts [s].
        seconds: Time that each took the controller [s], (steps,).
    """

    joint_q: np.ndarray
    joint_qd: np.ndarray
    body_q: np.ndarray
    controls: np.ndarray
    interval: float
    seconds: np.ndarray

    def __str__(self) -> str:
        rate, needed = 1.0 / np.median(self.seconds), 1.0 / self.interval
        return f"{len(self.controls)} controls, {rate:.0f} a second where {needed:.0f} are needed"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the time that controls took, and coordinates, velocities and controls over time.

        Needs the `plot` extra (matplotlib).

        Args:
            path: File to save it as, in a folder that is made if it does not exist; None for none.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ImportError: The extra is not installed.
        """
        figure, took = motion_figure(self.joint_q, self.joint_qd, self.controls, self.interval)
        took.plot(self.interval * np.arange(len(self.seconds)), 1e3 * self.seconds)
        took.set(xlabel="time [s]", ylabel="a control took [ms]", title=str(self))
        save_figure(figure, path)
        return figure


class Controller:
    """Controls a robot by an optimiser over a receding horizon.

    Each call starts with the controls of the last one, shifted by one: call it once in every
    `problem.interval`, and apply the control until the next call.

    Args:
        optimizer: `MPPI`, `CEM`, `ILQR`, `FDDP` or `MultipleShooting`; its `solve` may have found the first
            controls.
        iterations: Iterations of a call.

    Raises:
        NewtonsimError: The optimiser is not one of these, or `iterations` is not positive.
    """

    def __init__(self, optimizer: Improvable, iterations: int = 1):
        if not (hasattr(optimizer, "improve") and hasattr(optimizer, "shift")):
            known = "MPPI, CEM, ILQR, FDDP or MultipleShooting"
            raise NewtonsimError(f"optimizer: expected {known}, got {type(optimizer).__name__}")
        check_count("iterations", iterations)
        self.optimizer, self.iterations = optimizer, int(iterations)
        self._called = False

    def __call__(self, state: Start) -> np.ndarray:
        """Return the control for a state, (M,).

        Args:
            state: State of the robot: a State of one world, or (joint_q, joint_qd).

        Raises:
            NewtonsimError: The state does not fit.
        """
        if self._called:
            self.optimizer.shift()
        self._called = True
        return self.optimizer.improve(state, self.iterations)

    def run(
        self, steps: int, each: Callable[[int], object] | None = None, simulator: Simulator | None = None
    ) -> ControlledMotion:
        """Control a robot in simulation.

        Args:
            steps: Number of controls.
            each: Called with 0, 1, 2, ... before each control, such as to move the target of a cost.
            simulator: Simulator of one world whose steps last as long as a control; None for
                `problem.make_simulator()`.

        Raises:
            NewtonsimError: `steps` is not positive, or the state does not fit.
        """
        check_count("steps", steps)
        problem = self.optimizer.problem
        sim = problem.make_simulator() if simulator is None else simulator
        states, controls, seconds = [_numbers(sim)], [], []
        for t in range(steps):
            if each is not None:
                each(t)
            begun = time.perf_counter()
            controls.append(self(sim.state))
            seconds.append(time.perf_counter() - begun)
            problem.apply(sim, controls[-1])
            sim.step()
            states.append(_numbers(sim))
        q, qd, poses = (np.array(x) for x in zip(*states, strict=True))
        return ControlledMotion(q, qd, poses, np.array(controls), problem.interval, np.array(seconds))


def _numbers(sim: Simulator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates, velocities and poses of the present state."""
    state = sim.state
    return state.joint_q.numpy().copy(), state.joint_qd.numpy().copy(), state.body_q.numpy().copy()
