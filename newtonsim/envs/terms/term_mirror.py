"""Mirror maps of the terms of a task, from those of its robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.envs.terms.symmetry import KINDS, SignedPermutation
from newtonsim.envs.terms.term import PER_ACTION, PER_JOINT
from newtonsim.errors import NewtonsimError

if TYPE_CHECKING:
    from newtonsim.envs.terms.robot_mirror import RobotMirror


class TermMirror:
    """Mirror maps of terms.

    Args:
        robot: The mirror image of the robot.
        task: Name of the task, for errors.
        action: The action, a `PlacedTerm`.

    Attributes:
        actions: Mirror map of actions.

    Raises:
        NewtonsimError: The action has none.
    """

    def __init__(self, robot: RobotMirror, task: str, action: Any):
        self._robot, self._task = robot, task
        self.actions = self._map_of(action, None)

    def of(self, placed: Any) -> SignedPermutation:
        """Return the mirror map of an observation.

        Raises:
            NewtonsimError: It has none, or one of another size.
        """
        found = self._map_of(placed, placed.size)
        if len(found) != placed.size:
            raise NewtonsimError(
                f"{self._task}: symmetry: {placed.name}: its mirror map has {len(found)} numbers, the term "
                f"{placed.size}"
            )
        return found

    def _map_of(self, placed: Any, size: int | None) -> SignedPermutation:
        mirror = getattr(placed.term, "mirror", None)
        if mirror is None:
            raise NewtonsimError(
                f"{self._task}: symmetry: {placed.name}: its mirror map is unknown; give the term a `mirror`"
            )
        if mirror == PER_ACTION:
            return self.actions
        if mirror == PER_JOINT:
            mirror = self._robot.map_of(placed.joints, placed.name)
            self._check_scales(placed, mirror)
        elif mirror == "same":
            mirror = range(1, (size or 0) + 1)
        elif isinstance(mirror, str):
            if mirror not in KINDS:
                known = ", ".join((*KINDS, "same", PER_JOINT, PER_ACTION))
                raise NewtonsimError(
                    f"{self._task}: symmetry: {placed.name}: mirror: expected one of {known}, got {mirror!r}"
                )
            self._robot.check_central(placed.base, placed.name)
            if placed.term.bodies is not None:
                self._robot.check_central(placed.bodies[0], placed.name)
            mirror = KINDS[mirror]
        return SignedPermutation.of_places(mirror)

    def _check_scales(self, placed: Any, places: list[int]) -> None:
        """Raise an error if numbers of a term, one for each joint, differ from those of the counterparts."""
        scales = np.asarray(placed.term.numbers, float)[: len(places)]
        if len(scales) < len(places):
            return
        differ = scales != scales[np.abs(places) - 1]
        if differ.any():
            name = placed.joints[int(np.flatnonzero(differ)[0])]
            raise NewtonsimError(f"{self._task}: symmetry: {placed.name}: joint {name!r} has another scale")
