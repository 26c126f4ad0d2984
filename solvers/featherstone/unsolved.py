"""Count of steps whose constraints were not solved to the tolerance, and warning about these."""

from __future__ import annotations

import warnings
from typing import cast

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.constraints.rows import (
    SAGGING_CONTACT,
    STRAINED_ROW,
    WEDGED_CONTACT,
    WEDGED_ROW,
    UnsolvedView,
)
from newtonsim.kernels.constraints.solve.solve import PROMISED
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of

_TOLD = {
    int(
        WEDGED_CONTACT
    ): "cannot be pushed out of an overlap, as contacts from other sides or joints hold against "
    "it; contacts give way, so that impulses stay bounded",
    int(
        WEDGED_ROW
    ): "cannot go where constraints or joints demand, as others hold against these; they give way, "
    "so that impulses stay bounded",
    int(
        STRAINED_ROW
    ): "carry more load through a distance constraint than a step resolves, and oscillate; shorten the "
    "step, make them heavier, or tie them at points (add_constraint_connect)",
    int(
        SAGGING_CONTACT
    ): "sink into each other under a load that is heavy for what bears it; allow more work by the options "
    "factorizations and direct_cost, or make what bears it heavier",
}
"""What is told of bodies, by what was noted."""
WORSE = 10.0
"""Residual over that of the last warning at which there is another one."""


class UnsolvedSteps:
    """Steps of each world that ended with a residual above 1e-4 m/s or rad/s that is not due to rounding.

    If only sweeps were requested, there is no tolerance, and no step counts.

    Args:
        model: The model.

    Attributes:
        view: Counts and largest residuals by world, and contacts and rows that were wedged in or strained.
        alarm: Not 0 if there is a residual to tell of, or something is wedged in, to be read on the CPU; None
            on others.
    """

    def __init__(self, model: Model):
        self.model = model
        worlds, device = model.world_count, model.device
        self.view = UnsolvedView()
        self.view.steps = zeros(worlds, dtype=int, device=device)
        self.view.worst = zeros(worlds, dtype=float, device=device)
        self._flags = zeros(2, dtype=int, device=device)
        self.view.any, self.view.any_wedged = self._flags[:1], self._flags[1:]
        self.view.wedged = zeros(worlds, dtype=wp.vec2i, device=device)
        self.view.wedged_now = zeros(worlds, dtype=int, device=device)
        self.view.wedged_by = zeros(worlds, dtype=int, device=device)
        self.view.wedged_run = zeros(worlds, dtype=int, device=device)
        self.view.wedged_steps = zeros(worlds, dtype=int, device=device)
        # on the CPU both flags are read at once and without a copy, which is cheap enough for every step
        self.alarm = cast("np.ndarray", self._flags.numpy()).view(np.int64).data if device.is_cpu else None
        self._told, self._named = 0.0, False

    def report(self, contacts: Contacts) -> None:
        """Warn of steps with a residual, again once it is ten times as large, and once of what is wedged in.

        Waits for the device.

        Args:
            contacts: Contacts of the last step.
        """
        unsolved, wedged = self._flags.numpy()
        if unsolved:
            worst = float(self.view.worst.numpy().max())
            if worst > WORSE * self._told:
                self._told = worst
                self._warn_of_residual(contacts)
        if wedged and not self._named:
            self._named = True
            self._warn_of_wedges()

    def _warn_of_wedges(self) -> None:
        """Warn with the bodies of the world in which it lasted longest."""
        wedged = self.view.wedged.numpy()
        world = int(np.argmax(self.view.wedged_steps.numpy()))
        owner = topology_of(self.model).view.dof_body.numpy()
        names = " and ".join(f"body '{self.model.body_key[owner[dof - 1]]}'" for dof in wedged[world] if dof)
        warnings.warn(
            f"FeatherstoneSolver: in world {world}, {names} {_TOLD[self.view.wedged_by.numpy()[world]]}; "
            "solver.constraints.unsolved.view.wedged tells of other worlds",
            RuntimeWarning,
            stacklevel=5,
        )

    def _warn_of_residual(self, contacts: Contacts) -> None:
        """Warn with the worst world and its size."""
        worst = self.view.worst.numpy()
        world = int(np.argmax(worst))
        bodies = int(np.count_nonzero(self.model.body_world.numpy() == world))
        touching = int(contacts.world_count.numpy()[world])
        warnings.warn(
            f"FeatherstoneSolver: constraints were left with a residual of {worst[world]:.2g} m/s or rad/s, "
            f"more than {float(PROMISED):g}, in world {world} with {bodies} bodies and {touching} contacts; "
            "shorten the step, or allow more work by the options factorizations and direct_cost; "
            "solver.constraints.unsolved counts such steps",
            RuntimeWarning,
            stacklevel=5,
        )
