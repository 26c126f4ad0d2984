"""Marks of worlds whose state became NaN or infinite, and the warning of them."""

from __future__ import annotations

import warnings

import numpy as np
import warp as wp

from newtonsim.kernels.particles import coupling
from newtonsim.kernels.steps import motion as steps_motion
from newtonsim.kernels.steps import reset
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.state import State


class NonfiniteWorlds:
    """Worlds of a model that became NaN or infinite.

    Args:
        model: The model.

    Attributes:
        worlds: Whether each is, until it is reset, bool, shape (world_count,).
        any: 1 if there is one that `report` has not seen, shape (1,).
    """

    def __init__(self, model: Model):
        self.model = model
        self.worlds = zeros(model.world_count, dtype=bool, device=model.device)
        self.any = zeros(1, dtype=int, device=model.device)
        # on the CPU the array is read without a copy, which is cheap enough for every step
        self._any_view = memoryview(self.any.numpy()) if model.device.is_cpu else None
        self._reported = np.zeros(model.world_count, dtype=bool)

    def mark(self, launch: Launcher, state: State) -> None:
        """Mark the worlds whose particles or bodies are at no place in a state."""
        model, marks = self.model, [self.worlds, self.any]
        if model.particle_count:
            inputs = [model.particle_world, state.particle_q, state.particle_qd, *marks]
            launch(coupling.mark_nonfinite, "particle", inputs)
        if model.body_count:
            launch(steps_motion.mark_bodies, "body", [model.body_world, state.body_qd, *marks])

    def report(self) -> None:
        """Warn once of each; waits for the device."""
        found = self.any.numpy() if self._any_view is None else self._any_view
        if not found[0]:
            return
        # an array operation would be recorded if a step is being captured
        if self._any_view is None:
            self.any.zero_()
        else:
            self._any_view[0] = 0
        now = self.worlds.numpy().copy()
        fresh = np.flatnonzero(now & ~self._reported)
        self._reported = now
        if len(fresh):
            named = ", ".join(map(str, fresh[:8])) + (", ..." if len(fresh) > 8 else "")
            warnings.warn(
                f"{len(fresh)} of {len(now)} worlds have become non-finite (NaN or infinite): {named}; "
                "shorten the step, check inputs, and reset these worlds",
                RuntimeWarning,
                stacklevel=4,
            )

    def reset(self, world_mask: wp.array | None) -> None:
        """Forget the marks of the masked worlds, bool, shape (world_count,), or of all."""
        if world_mask is None:
            self.worlds.zero_()
        else:
            launch = Launcher(self.model, record_tape=False)
            launch(reset.clear_flags, "world", [world_mask, self.worlds])
        self.report_anew()

    def report_anew(self) -> None:
        """Let `report` warn again of worlds that have lost their marks; on a GPU it does not."""
        if self.model.device.is_cpu:
            self._reported &= self.worlds.numpy()
