"""Constraints that scripts create, as records and as constraints of the model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.geometry.transforms import quat_conjugate, quat_rotate
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
    from newtonsim.pybullet_compat.world.settings import Settings

TYPES = (JOINT_FIXED, JOINT_GEAR, JOINT_POINT2POINT, JOINT_PRISMATIC)
DEFAULT_MAX_FORCE = 500.0
DEFAULT_MAX_IMPULSE = 500.0
"""What holds a constraint that was given no greatest force [N s or N m s], as measured."""
ERROR_SHARE = 0.2
"""Share of its error that a constraint removes in a step, where the parameter erp does not say otherwise."""
GEAR_SHARE = 0.2
"""The same of gears, times their erp."""
NEVER = 1.0e30
FRAMES = ("constraint_X_p", "constraint_X_c")
"""Frames of a model's constraint in its first and in its second body."""


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
        max_force: [N or N m] as reported; an array (W,) where the worlds differ.
        max_impulse: Bound of one step of the solver along each axis [N s or N m s]: the greatest force times
            the length that steps had when it was given, whatever they have later; an array (W,) likewise.
        gear_ratio, gear_aux_link, relative_position, erp: Of gears, see changeConstraint.
        index: Index of the constraint in a world of the engine, -1 where it stands for none.
        last_wrench: What `as_told` said of the last step (W, 6), if the engine of that step is gone.
        last_turn: Orientation of the parent (W, 4) at the start of that step, likewise.
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
    max_impulse: float | np.ndarray = DEFAULT_MAX_IMPULSE
    gear_ratio: float = 0.0
    gear_aux_link: int = 0
    relative_position: float = 0.0
    erp: float = 0.0
    index: int = -1
    last_wrench: np.ndarray | None = None
    last_turn: np.ndarray | None = None

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
        return self.kind, self.slide.tobytes() if self.kind == JOINT_PRISMATIC else b""

    @property
    def is_void(self) -> bool:
        """Whether it holds a link to itself: it is kept and reported, and does nothing."""
        return (self.parent_body, self.parent_link) == (self.child_body, self.child_link)

    def limit(self, settings: Settings) -> float | np.ndarray:
        """Force that has the greatest impulse in a step of the solver [N or N m], or one for each world.

        A gear's acts on the parent; the engine has that on the child.
        """
        lever = abs(self.gear_ratio) if self.kind == JOINT_GEAR else 1.0
        return lever * self.max_impulse / settings.solver_step

    def recovery_time(self, settings: Settings) -> float:
        """Time constant with which errors go away [s]."""
        if self.kind == JOINT_GEAR:
            return settings.solver_step / (GEAR_SHARE * self.erp) if self.erp else NEVER
        share = settings.parameters.get("erp", ERROR_SHARE)
        return settings.solver_step / share if share > 0.0 else NEVER

    def build(self, builder: ModelBuilder, bodies: dict[int, Body], settings: Settings) -> None:
        """Add the constraint to the builder of a world, after all bodies.

        Args:
            builder: The builder.
            bodies: Bodies of the client by unique id.
            settings: Settings of the client.
        """
        self.index = -1
        if self.is_void:
            return
        if self.kind == JOINT_GEAR:
            self._build_gear(builder, bodies, settings)
            return
        first, second, *frames = self.ends(bodies)
        kind = JointType.FIXED
        linear: list[JointAxis | npt.ArrayLike] = []
        if self.kind == JOINT_POINT2POINT:
            kind = JointType.BALL
        elif self.kind == JOINT_PRISMATIC:
            kind, linear = JointType.PRISMATIC, [self.slide]
            if not self.axis.any():  # it slides anywhere
                kind, linear = JointType.D6, list(np.eye(3))
        self.index = builder.add_loop_joint(
            kind,
            first,
            second,
            *(np.reshape(frame, (-1, 7))[0] for frame in frames),
            linear,
            [],
            max_force=float(np.max(self.limit(settings))),
            recovery_time=self.recovery_time(settings),
            collision_filter=False,
        )

    def bind(self, index: int) -> None:
        """Stand for a constraint of the engine that a client with the same bodies has built."""
        self.index = index

    def ends(self, bodies: dict[int, Body]) -> tuple[int, int, np.ndarray, np.ndarray]:
        """Return the bodies of a world of the engine that it holds, -1 for the world, and their frames."""
        parent, child = self._row(bodies, self.parent_body, self.parent_link), -1
        if self.child_body >= 0:
            child = self._row(bodies, self.child_body, self.child_link)
        return parent, child, *self.frames()

    @staticmethod
    def _row(bodies: dict[int, Body], body: int, link: int) -> int:
        return bodies[body].first_row + link + 1

    def frames(self) -> tuple[np.ndarray, np.ndarray]:
        """Joint frames of the parent and the child, (7,) or (W, 7)."""
        return self.parent_frame.row(), self.frame_rows()

    @property
    def slide(self) -> np.ndarray:
        """Axis of a prismatic one in the joint frame of the parent (3,)."""
        return quat_rotate(quat_conjugate(self.parent_frame.q), self.axis)

    def take(self, other: Constraint, engine: ModelArrays | None, settings: Settings) -> None:
        """Take what changeConstraint may have changed of another one, and tell an engine.

        Args:
            other: The same constraint in another client.
            engine: The engine, None without one.
            settings: Settings of the engine's client.
        """
        changed = bool(np.any(self.max_impulse != other.max_impulse))
        changed = changed or self.child_frame is not other.child_frame
        self.child_frame, self.max_force, self.max_impulse = (
            other.child_frame,
            other.max_force,
            other.max_impulse,
        )
        self.child_rows = other.child_rows
        self.gear_ratio, self.gear_aux_link = other.gear_ratio, other.gear_aux_link
        self.relative_position, self.erp = other.relative_position, other.erp
        if changed:
            self.tell(engine, settings)

    def tell(self, engine: ModelArrays | None, settings: Settings) -> None:
        """Hand the greatest force and the child's frame to an engine that has the constraint."""
        if engine is None or self.index < 0:
            return
        engine.write("constraint_max_force", self.index, self.limit(settings))
        if self.kind != JOINT_GEAR:
            for name, frame in zip(FRAMES, self.frames()):
                engine.write(name, self.index, frame)

    def as_told(self, wrench: np.ndarray) -> np.ndarray:
        """Moment and force on the child, or first the effort of a gear on its parent, by those of an engine.

        Args:
            wrench: On the second body of the engine's constraint, or on the first axis that a gear couples,
                of a step with the present ratio (W, 6) [N m, N].
        """
        if self.kind == JOINT_GEAR:
            return wrench / self.gear_ratio
        return wrench

    def tell_times(self, engine: ModelArrays, settings: Settings) -> None:
        """Hand over what depends on the time of a step."""
        if self.index >= 0:
            engine.write("constraint_max_force", self.index, self.limit(settings))
            engine.write("constraint_recovery_time", self.index, self.recovery_time(settings))

    def _build_gear(self, builder: ModelBuilder, bodies: dict[int, Body], settings: Settings) -> None:
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
            max_force=float(np.max(self.limit(settings))),
            recovery_time=self.recovery_time(settings),
        )

    def _geared(self, first: Body, second: Body) -> tuple[tuple[Body, int], tuple[Body, int]]:
        return (first, self.parent_link), (second, self.child_link)
