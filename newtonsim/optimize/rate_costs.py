"""Costs of changes from one control to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newtonsim.kernels.optimize import costs
from newtonsim.optimize.checks import read_numbers
from newtonsim.optimize.costs import Changes, Expansions, ReadyCost, Sizes, check_weights

if TYPE_CHECKING:
    from newtonsim.runtime.launcher import Launcher


class ControlRateCost(ReadyCost):
    """Half the weighted squares of the rates at which controls change, ½ weight · (Δu / interval)².

    It is integrated over the time of a control, so that the cost of a motion does not depend on the time
    step. `ILQR` and similar optimisers treat the previous control as part of the state: gains have M further
    columns, for the deviation of the previous control from its reference.

    Args:
        weight: A number, or one for each control, (M,) [s over their unit squared].
        before: The control before the first, (M,); None if the first change costs nothing.

    Attributes:
        before: As given; another may be set at any time, such as the robot's last command.

    Raises:
        NewtonsimError: A weight is negative or not finite.
    """

    def __init__(self, weight: npt.ArrayLike, before: npt.ArrayLike | None = None):
        super().__init__()
        check_weights("weight", weight)
        self._weight = weight
        self._given = {"before": before}

    @property
    def before(self) -> Any:
        """The control before the first."""
        return self._given["before"]

    @before.setter
    def before(self, values: npt.ArrayLike | None) -> None:
        if "before" in self._arrays:
            self._set_before(values, self._arrays["before"].shape[0])
        self._given["before"] = values

    def prepare(self, problem: Sizes) -> None:
        count, device = len(problem.entries), problem.model.device
        weight = np.broadcast_to(read_numbers("ControlRateCost: weight", self._weight, (), (count,)), count)
        self._interval, self._weights = problem.interval, weight
        self._put("weight", weight, device)
        self._put("before", np.zeros(count), device)
        self._put("counts", np.zeros(1), device)
        self._set_before(self._given["before"], count)

    def add(self, launch: Launcher, view: Any) -> None:
        arrays = self._arrays
        reads = dict(weight=arrays["weight"], before=arrays["before"], counts=arrays["counts"])
        launch(costs.add_rate_cost, "world", reads=reads, writes=dict(view=view))

    def expand(self, points: Expansions) -> None:
        """Nothing: `changes` has all of it."""

    def changes(self, controls: np.ndarray) -> Changes:
        first = self._before if self._before is not None else controls[0]
        change = np.diff(controls, axis=0, prepend=first[None])
        weight = np.tile(self._weights / self._interval, (len(change), 1))
        if self._before is None:
            weight[0] = 0.0
        return Changes(change, weight)

    def _set_before(self, values: Any, count: int) -> None:
        self._before = None
        if values is not None:
            self._before = np.broadcast_to(
                read_numbers("ControlRateCost: before", values, (count,), ()), count
            ).astype(np.float64)
            self._arrays["before"].assign(self._before.astype(np.float32))
        self._arrays["counts"].fill_(float(values is not None))
