"""Count of steps whose constraints were not solved as well as promised, and the warning of them."""

from __future__ import annotations

import warnings
from typing import cast

import numpy as np

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.constraints.solve import PROMISED, UnsolvedView
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model


class UnsolvedSteps:
    """Steps of each world that ended with a residual above 1e-4 m/s or rad/s, though not for rounding.

    Where sweeps alone were asked for, nothing is promised, and nothing counts.

    Args:
        model: The model.

    Attributes:
        view: Counts and largest residuals by world.
        alarm: 1 if there is one, on the CPU; None on others.
    """

    def __init__(self, model: Model):
        self.model = model
        worlds, device = model.world_count, model.device
        self.view = UnsolvedView()
        self.view.steps = zeros(worlds, dtype=int, device=device)
        self.view.worst = zeros(worlds, dtype=float, device=device)
        self.view.any = zeros(1, dtype=int, device=device)
        # on the CPU the array is read without a copy, which is cheap enough for every step
        self.alarm = cast("np.ndarray", self.view.any.numpy()).data if device.is_cpu else None
        self._warned = False

    def report(self, contacts: Contacts) -> None:
        """Warn once, with the worst world and its size; waits for the device.

        Args:
            contacts: Contacts of the last step.
        """
        if self._warned or not (self.view.any.numpy() if self.alarm is None else self.alarm)[0]:
            return
        self._warned = True
        worst = self.view.worst.numpy()
        world = int(np.argmax(worst))
        bodies = int(np.count_nonzero(self.model.body_world.numpy() == world))
        touching = int(contacts.world_count.numpy()[world])
        warnings.warn(
            f"FeatherstoneSolver: constraints were left with a residual of {worst[world]:.2g} m/s or rad/s, "
            f"more than {float(PROMISED):g}, in world {world} with {bodies} bodies and {touching} contacts; "
            "allow more work by the options factorizations and direct_cost; "
            "solver.constraints.unsolved counts such steps",
            RuntimeWarning,
            stacklevel=4,
        )
