"""Constraints that scripts create, as records and as constraints of the model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.surface.constants import (
    JOINT_FIXED,
    JOINT_GEAR,
    JOINT_POINT2POINT,
    JOINT_PRISMATIC,
)
from newtonsim.scene.enums import JointType

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body

TYPES = (JOINT_FIXED, JOINT_GEAR, JOINT_POINT2POINT, JOINT_PRISMATIC)
DEFAULT_MAX_FORCE = 500.0
ERROR_SHARE = {JOINT_FIXED: 0.2, JOINT_PRISMATIC: 0.2, JOINT_POINT2POINT: 0.08}
"""Share of its error that a constraint removes in a step, as measured."""
GEAR_SHARE = 0.2
"""The same of gears, times their erp."""
NEVER = 1.0e30


class ModelArrays(Protocol):
    """What a constraint asks of an engine."""

    def write(self, name: str, rows: slice | np.ndarray | int, values: npt.ArrayLike) -> None:
        """Set entries of an array of the model in place, in every world."""


@dataclass(slots=True, eq=False)
class Constraint:
    """A constraint between two links, or a link and the world.

    Attributes:
        parent_body, parent_link: Parent; link -1 is the base.
        child_body, child_link: Child; body -1 is the world.
        kind: JOINT_FIXED, JOINT_POINT2POINT, JOINT_PRISMATIC or JOINT_GEAR.
        axis: Axis in the parent's frame (3,).
        parent_frame, child_frame: Joint frames in the inertial frames, or in the world; of the child that of
            the first world.
        child_rows: Joint frames of the child (W, 7) where the worlds differ, None where they do not.
        max_force: [N or N m]; an array (W,) where the worlds differ.
        gear_ratio, gear_aux_link, relative_position, erp: Of gears, see changeConstraint.
        index: Index of the constraint in a world of the engine, -1 where it stands for none.
        last_wrench: Moment and force in the last step (W, 6), if the engine of that step is gone.
    """

    parent_body: int
    parent_link: int
    child_body: int
    child_link: int
    kind: int
    axis: np.ndarray
    parent_frame: Pose
    child_frame: Pose
    child_rows: np.ndarray | None = None
    max_force: float | np.ndarray = DEFAULT_MAX_FORCE
    gear_ratio: float = 0.0
    gear_aux_link: int = 0
    relative_position: float = 0.0
    erp: float = 0.0
    index: int = -1
    last_wrench: np.ndarray | None = None

    @property
    def differs(self) -> bool:
        """Whether the worlds have frames or limits of their own."""
        return self.child_rows is not None or isinstance(self.max_force, np.ndarray)

    def frame_rows(self) -> np.ndarray:
        """Joint frame of the child (7,), or (W, 7) where the worlds differ."""
        return self.child_frame.row() if self.child_rows is None else self.child_rows

    @property
    def slot_kind(self) -> Hashable:
        """What another constraint has to share to stand in the same slot, None if none can."""
        if self.kind == JOINT_GEAR or self.is_void:
            return None
        return self.kind, self.axis.tobytes() if self.kind == JOINT_PRISMATIC else b""

    @property
    def is_void(self) -> bool:
        """Whether it holds a link to itself: it is kept and reported, and does nothing."""
        return (self.parent_body, self.parent_link) == (self.child_body, self.child_link)

    def build(self, builder: ModelBuilder, bodies: dict[int, Body], time_step: float) -> None:
        """Add the constraint to the builder of a world, after all bodies.

        Args:
            builder: The builder.
            bodies: Bodies of the client by unique id.
            time_step: Time of one stepSimulation [s].
        """
        self.index = -1
        if self.is_void:
            return
        if self.kind == JOINT_GEAR:
            self._build_gear(builder, bodies, time_step)
            return
        parent, child = self.bodies(bodies)
        kind = JointType.FIXED
        linear: list[JointAxis | npt.ArrayLike] = []
        if self.kind == JOINT_POINT2POINT:
            kind = JointType.BALL
        elif self.kind == JOINT_PRISMATIC:
            kind, linear = JointType.PRISMATIC, [self.axis]
        self.index = builder.add_loop_joint(
            kind,
            parent,
            child,
            self.parent_frame.row(),
            self.child_frame.row(),
            linear,
            [],
            max_force=float(np.max(self.max_force)),
            recovery_time=time_step / ERROR_SHARE[self.kind],
            collision_filter=False,
        )

    def bodies(self, bodies: dict[int, Body]) -> tuple[int, int]:
        """Return the bodies of a world of the engine that it holds, -1 for the world."""
        parent = bodies[self.parent_body].first_row + self.parent_link + 1
        child = -1
        if self.child_body >= 0:
            child = bodies[self.child_body].first_row + self.child_link + 1
        return parent, child

    def take(self, other: Constraint, engine: ModelArrays | None) -> None:
        """Take what changeConstraint may have changed of another one, and tell an engine.

        Args:
            other: The same constraint in another client.
            engine: The engine, None without one.
        """
        changed = bool(np.any(self.max_force != other.max_force)) or self.child_frame is not other.child_frame
        self.child_frame, self.max_force = other.child_frame, other.max_force
        self.child_rows = other.child_rows
        self.gear_ratio, self.gear_aux_link = other.gear_ratio, other.gear_aux_link
        self.relative_position, self.erp = other.relative_position, other.erp
        if changed:
            self.tell(engine)

    def tell(self, engine: ModelArrays | None) -> None:
        """Hand the greatest force and the child's frame to an engine that has the constraint."""
        if engine is None or self.index < 0:
            return
        engine.write("constraint_max_force", self.index, self.max_force)
        if self.kind != JOINT_GEAR:
            engine.write("constraint_X_c", self.index, self.frame_rows())

    def _build_gear(self, builder: ModelBuilder, bodies: dict[int, Body], time_step: float) -> None:
        """Couple the velocities of two joints: ratio v_parent + v_child = 0."""
        first, second = bodies[self.parent_body], bodies.get(self.child_body)
        if second is None or self.gear_ratio == 0.0:
            return
        joints = [body.first_joint + link + 1 for body, link in self._geared(first, second)]
        places = [(body, link + 1) for body, link in self._geared(first, second)]
        if any(link < 1 or body.u_count[link] != 1 for body, link in places):
            return
        positions = [float(body.q[0, body.q_start[link]]) for body, link in places]
        ratio = -1.0 / self.gear_ratio
        if self.erp:
            positions[1] = ratio * positions[0] - ratio * self.relative_position
        self.index = builder.add_constraint_gear(
            joints[1],
            joints[0],
            ratio,
            offset=positions[1] - ratio * positions[0],
            max_force=float(np.max(self.max_force)),
            recovery_time=time_step / (GEAR_SHARE * self.erp) if self.erp else NEVER,
        )

    def _geared(self, first: Body, second: Body) -> tuple[tuple[Body, int], tuple[Body, int]]:
        return (first, self.parent_link), (second, self.child_link)
