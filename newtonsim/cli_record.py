"""What ``newtonsim run`` keeps of a run for animations and pictures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.cli_scene import UP, root_bodies

if TYPE_CHECKING:
    from newtonsim.cli_report import Figures
    from newtonsim.model import Model
    from newtonsim.render.usd import UsdAnimation
    from newtonsim.state import State

FRAMES_PER_SECOND = 30.0
DRAWN_WORLDS = 64
CURVES = 16


class Recorder:
    """Keeps what the pictures and the animation need, once a frame.

    Args:
        model: The scene.
        arguments: Which files are wanted.
        figures: Counts and names.
    """

    def __init__(self, model: Model, arguments: argparse.Namespace, figures: Figures):
        self.model, self.arguments, self.figures = model, arguments, figures
        self.worlds = range(min(DRAWN_WORLDS, figures.worlds))
        self.spacing = 0.0
        self.bases = root_bodies(model)
        self.times: list[float] = []
        self.heights: list[np.ndarray] = []
        self.joints: list[np.ndarray] = []
        self.kinetic: list[np.ndarray] = []
        self.animation: UsdAnimation | None = None

    def frame(self, state: State, seconds: float) -> None:
        """Record the state at a simulated time [s]."""
        if not self.times:
            self._start(state)
        self.times.append(seconds)
        if self.arguments.plot:
            from newtonsim import dynamics

            energy = dynamics.kinetic_energy(self.model, state).numpy().reshape(self.figures.worlds, -1)
            self.kinetic.append(energy.sum(axis=1)[:CURVES])
            # A copy: on the CPU numpy() is a view of the array that the next step overwrites.
            self.joints.append(state.joint_q.numpy().reshape(self.figures.worlds, -1)[0].copy())
            if self.bases.size:
                self.heights.append(state.body_q.numpy()[self.bases[:CURVES, 0], :3] @ UP)
        if self.animation is not None:
            self.animation.record(state, seconds)

    def write(self, state: State) -> None:
        """Write the files."""
        if self.animation is not None:
            self.animation.save()
        if self.arguments.snapshot:
            from newtonsim.render.pictures import save_snapshot

            shown = range(min(9, self.figures.worlds))
            title = f"{self.figures.robot} after {self.figures.simulated_seconds:g} s"
            save_snapshot(
                self.arguments.snapshot, self.model, state, worlds=shown, spacing=self.spacing, title=title
            )
        if self.arguments.plot:
            from newtonsim.render.pictures import save_curves

            save_curves(self.arguments.plot, self._panels(), f"{self.figures.worlds} x {self.figures.robot}")

    def _start(self, state: State) -> None:
        """Choose the distance between drawn worlds, and open the animation."""
        points = state.body_q.numpy()[: self.figures.bodies, :3]
        self.spacing = 1.0 + 1.5 * float(np.ptp(points, axis=0).max())
        if self.arguments.usd:
            from newtonsim.render.usd import UsdAnimation

            self.animation = UsdAnimation(
                self.arguments.usd,
                self.model,
                fps=FRAMES_PER_SECOND,
                worlds=self.worlds,
                spacing=self.spacing,
            )

    def _panels(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the curves to draw, by label."""
        times, panels = np.array(self.times), {}
        joints = np.array(self.joints)
        if self.heights:
            panels["base height [m]"] = (times, np.array(self.heights))
            joints = joints[:, 7:]
        if joints.shape[1]:
            panels["joints of world 0 [rad, m]"] = (times, joints)
        panels["kinetic energy [J]"] = (times, np.array(self.kinetic))
        return panels
