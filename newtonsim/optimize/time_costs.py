"""Costs of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import warp as wp

from newtonsim.kernels.optimize import costs
from newtonsim.optimize.checks import check_positive, read_numbers
from newtonsim.optimize.costs import Expansions, ReadyCost, Sizes, check_weights, find_body, read_rows

if TYPE_CHECKING:
    from newtonsim.runtime.launcher import Launcher


class TimeCost(ReadyCost):
    """Time until a point of a body reaches a target, and any time that it is away from it again.

    A second at the distance d costs weight · (1 - exp(-d² / (2 r²))): the full weight far away, nothing at
    the target, and smooth in between, so that it has a gradient within a few radii. If the horizon is longer
    than the motion needs, the minimum is the fastest way to get there and stay.

    Args:
        body: Index in the robot, or name.
        target: Position in the world [m], (3,), or (horizon, 3).
        radius: Distance r within which the point has arrived [m].
        weight: Cost of a second.
        point: The point, in the body [m], (3,).

    Attributes:
        target: As given; another of the same shape may be set at any time.

    Raises:
        NewtonsimError: The weight is negative, the radius not positive, or one of them not finite.
    """

    def __init__(
        self,
        body: int | str,
        target: npt.ArrayLike,
        radius: float,
        weight: float = 1.0,
        point: npt.ArrayLike = (0.0, 0.0, 0.0),
    ):
        super().__init__()
        check_weights("weight", weight)
        self.body, self._weight, self._radius = body, float(weight), check_positive("radius", radius)
        self._point = wp.vec3(*read_numbers("TimeCost: point", point, (3,)).tolist())
        self._given = {"target": target}

    @property
    def target(self) -> Any:
        """Target position."""
        return self._given["target"]

    @target.setter
    def target(self, values: npt.ArrayLike) -> None:
        self._replace("target", values)

    def prepare(self, problem: Sizes) -> None:
        self._number = find_body("TimeCost", problem.model.body_key, self.body)
        rows = read_rows("TimeCost: target", self._given["target"], problem.horizon, (3,))
        self._put("target", rows, problem.model.device)

    def add(self, launch: Launcher, view: Any) -> None:
        launch(
            costs.add_time_cost,
            "world",
            reads=dict(
                body=self._number,
                point=self._point,
                target=self._arrays["target"],
                radius=self._radius,
                weight=self._weight,
            ),
            writes=dict(view=view),
        )

    def expand(self, points: Expansions) -> None:
        points.expand_by_differences(self)
