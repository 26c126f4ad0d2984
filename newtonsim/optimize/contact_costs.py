"""Costs of contact forces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.kernels.optimize import costs
from newtonsim.optimize.checks import read_numbers
from newtonsim.optimize.costs import Expansions, ReadyCost, Sizes, check_weights, find_body, read_rows

if TYPE_CHECKING:
    from newtonsim.runtime.launcher import Launcher


class ContactForceCost(ReadyCost):
    """Half the weighted squares of the force of all contacts on a body, such as a foot, beyond a reference.

    The force is the mean of the last step of each control, by `FeatherstoneSolver` with hard contacts. It is
    only known in forward runs and has no gradient: use it with `MPPI` and `CEM`.

    Args:
        body: Index in the robot, or name.
        weight: Weight along the way [1/(N² s)], a number or one for each axis of the world.
        final_weight: Weight at the horizon [1/N²], likewise.
        reference: Force that costs nothing [N], world axes, (3,), or (horizon, 3); such as the share of the
            weight that a foot should carry.

    Attributes:
        reference: As given; another of the same shape may be set at any time.

    Raises:
        NewtonsimError: A weight is negative or not finite.
    """

    contact_forces = True

    def __init__(
        self,
        body: int | str,
        weight: npt.ArrayLike = 0.0,
        final_weight: npt.ArrayLike = 0.0,
        reference: npt.ArrayLike = (0.0, 0.0, 0.0),
    ):
        super().__init__()
        rows = []
        for name, values in (("weight", weight), ("final_weight", final_weight)):
            check_weights(name, values)
            rows.append(np.broadcast_to(read_numbers(f"ContactForceCost: {name}", values, (), (3,)), 3))
        self.body, self._weights = body, np.concatenate(rows)[None]
        self._given = {"reference": reference}

    @property
    def reference(self) -> Any:
        """Force that costs nothing."""
        return self._given["reference"]

    @reference.setter
    def reference(self, values: npt.ArrayLike) -> None:
        self._replace("reference", values)

    def prepare(self, problem: Sizes) -> None:
        device = problem.model.device
        self._number = find_body("ContactForceCost", problem.model.body_key, self.body)
        rows = read_rows("ContactForceCost: reference", self._given["reference"], problem.horizon, (3,))
        self._put("reference", rows, device)
        self._put("weights", self._weights, device, wp.spatial_vector)

    def add(self, launch: Launcher, view: Any) -> None:
        reads = dict(body=self._number, reference=self._arrays["reference"], weights=self._arrays["weights"])
        launch(costs.add_contact_cost, "world", reads=reads, writes=dict(view=view))

    def expand(self, points: Expansions) -> None:
        """Nothing: `Problem.check_gradient` refuses it before."""
