"""Constraints that scripts create, as records and as constraints of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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
    from collections.abc import Iterable, Sequence

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
    """What a constraint asks of an engine.

    Attributes:
        worlds: Number of worlds.
    """

    worlds: int

    def write(self, name: str, rows: slice | np.ndarray | int, values: npt.ArrayLike) -> None:
        """Set entries of an array of the model in place, in every world."""

    def write_numbers(self, name: str, row: int, numbers: Sequence[float]) -> None:
        """Do what `write` does for one row of the only world, without NumPy."""

    def write_for_all(self, name: str, row: int, number: float) -> None:
        """Do what `write` does for one row of a single number that is the same in all worlds."""


@dataclass(slots=True, eq=False)
class Constraint:
    """A constraint between two links, or a link and the world.

    Attributes:
        parent_body, parent_link: Parent; link -1 is the base.
        child_body, child_link: Child; body -1 is the world.
        kind: JOINT_FIXED, JOINT_POINT2POINT, JOINT_PRISMATIC or JOINT_GEAR.
        axis: Axis in the parent's frame (3,).
        parent_frame, child_frame: Joint frames in the inertial frames, or in the world, of the first world.
        parent_rows, child_rows: The same of each world (W, 7) where they differ, None where they do not.
        max_force: [N or N m] as reported; an array (W,) where the worlds differ.
        max_impulse: Bound of one step of the solver along each axis [N s or N m s]: the greatest force times
            the length that steps had when it was given, whatever they have later; an array (W,) likewise.
        gear_ratio, gear_aux_link, relative_position, erp: Of gears, see changeConstraint; link -1 is none.
        index: Index of the constraint in a world of the engine, -1 where it stands for none.
        last_wrench: What `as_told` said of the last step (W, 6), if the engine of that step is gone.
        last_turn: Orientation of the parent (W, 4) at the start of that step, likewise.
        changed_at: Step of the engine after which its ratio was changed, so that only `last_wrench` knows the
            force of that step; -1 for none.
    """

    parent_body: int
    parent_link: int
    child_body: int
    child_link: int
    kind: int
    axis: np.ndarray
    parent_frame: Pose
    child_frame: Pose
    parent_rows: np.ndarray | None = None
    child_rows: np.ndarray | None = None
    max_force: float | np.ndarray = DEFAULT_MAX_FORCE
    max_impulse: float | np.ndarray = DEFAULT_MAX_IMPULSE
    gear_ratio: float = 0.0
    gear_aux_link: int = -1
    relative_position: float = 0.0
    erp: float = 0.0
    index: int = -1
    last_wrench: np.ndarray | None = None
    last_turn: np.ndarray | None = None
    changed_at: int = -1

    @property
    def differs(self) -> bool:
        """Whether the worlds have frames or limits of their own."""
        rows = (self.parent_rows, self.child_rows)
        return any(frames is not None for frames in rows) or isinstance(self.max_force, np.ndarray)

    @property
    def slot_kind(self) -> tuple[int, bytes]:
        """What another constraint has to share to stand in the same slot: its type, and the axes it frees."""
        return self.kind, self.slide.tobytes() if self.kind == JOINT_PRISMATIC else b""

    def acts(self, bodies: dict[int, Body]) -> bool:
        """Whether it does anything: some do not, between what nothing moves, and gears without a ratio."""
        if self.kind == JOINT_GEAR:
            return self.gear_ratio != 0.0 and self.gear_places(bodies) is not None
        ends = (self.parent_body, self.parent_link), (self.child_body, self.child_link)
        return not self.is_void and any(uid in bodies and bodies[uid].moves(link + 1) for uid, link in ends)

    def adds_loads(self, bodies: dict[int, Body], others: Iterable[Constraint]) -> bool:
        """Whether loads may now pass from one body to others.

        A body of one link that floats and is held by this constraint alone only follows.

        Args:
            bodies: Bodies of the client by unique id.
            others: Its other constraints.
        """
        if self.kind == JOINT_GEAR:
            return False
        ends = {self.parent_body, self.child_body}
        held = {uid for other in others for uid in (other.parent_body, other.child_body)}
        found = [bodies[uid] for uid in ends if uid in bodies]
        return any(len(body.links) > 1 or (body.floating and body.uid in held) for body in found)

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
        self.bind(-1)
        if not self.acts(bodies):
            return
        options = {
            "max_force": float(np.max(self.limit(settings))),
            "recovery_time": self.recovery_time(settings),
        }
        if self.kind == JOINT_GEAR:
            joints = [bodies[uid].first_joint + place for uid, place in self._gear_ends]
            offset, ratio = self.gear_coefficients(bodies)
            self.index = builder.add_constraint_gear(joints[1], joints[0], ratio, offset=offset, **options)
            return
        first, second = self.rows_of_ends(bodies)
        poses = [np.reshape(frame, (-1, 7))[0] for frame in self.frames()]
        self.index = add_loop(builder, self.slot_kind, first, second, *poses, **options)

    def bind(self, index: int) -> None:
        """Stand for a constraint of an engine, -1 for none."""
        self.index, self.changed_at = index, -1

    def rows_of_ends(self, bodies: dict[int, Body]) -> tuple[int, int]:
        """Return the bodies of a world of the engine that it holds, -1 for the world."""
        parent, child = self._row(bodies, self.parent_body, self.parent_link), -1
        if self.child_body >= 0:
            child = self._row(bodies, self.child_body, self.child_link)
        return parent, child

    @staticmethod
    def _row(bodies: dict[int, Body], body: int, link: int) -> int:
        return bodies[body].first_row + link + 1

    def frames(self) -> tuple[np.ndarray, np.ndarray]:
        """Joint frames of the parent and the child, (7,) or (W, 7) where the worlds differ."""
        parent = self.parent_frame.row() if self.parent_rows is None else self.parent_rows
        return parent, self.child_frame.row() if self.child_rows is None else self.child_rows

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
        """Hand the greatest force and the frames to an engine that has the constraint."""
        if engine is not None and self.index >= 0:
            self.tell_limit(engine, settings)
            self.tell_frames(engine)

    def tell_limit(self, engine: ModelArrays | None, settings: Settings) -> None:
        """Hand the greatest force to an engine that has the constraint."""
        if engine is not None and self.index >= 0:
            _write(engine, "constraint_max_force", self.index, self.limit(settings))

    def tell_child(self, engine: ModelArrays | None) -> None:
        """Hand the child's frame to an engine that has the constraint; gears have none."""
        if engine is None or self.index < 0 or self.kind == JOINT_GEAR:
            return
        if self.child_rows is not None or engine.worlds > 1:
            engine.write(FRAMES[1], self.index, self.frames()[1])
        else:
            engine.write_numbers(FRAMES[1], self.index, self.child_frame.numbers())

    def tell_frames(self, engine: ModelArrays) -> None:
        """Hand both frames to an engine that has the constraint; gears have none."""
        if self.kind == JOINT_GEAR:
            return
        if engine.worlds > 1:
            for name, rows in zip(FRAMES, self.frames()):
                engine.write(name, self.index, rows)
            return
        for name, frame in zip(FRAMES, (self.parent_frame, self.child_frame)):
            engine.write_numbers(name, self.index, frame.numbers())

    def tell_gear(self, engine: ModelArrays, bodies: dict[int, Body]) -> None:
        """Hand ratio and offset of a gear to an engine that has it."""
        offset, ratio = self.gear_coefficients(bodies)
        engine.write("constraint_coefficients", self.index, [offset, ratio, 0.0, 0.0, 0.0])

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
            self.tell_limit(engine, settings)
            _write(engine, "constraint_recovery_time", self.index, self.recovery_time(settings))

    def gear_places(self, bodies: dict[int, Body]) -> list[tuple[Body, int]] | None:
        """Bodies, and places of their links, whose joints a gear couples, the parent's first.

        None if one of them has no joint of one coordinate.
        """
        if self.child_body not in bodies:
            return None
        places = [(bodies[uid], place) for uid, place in self._gear_ends]
        return None if any(place < 1 or body.u_count[place] != 1 for body, place in places) else places

    def auxiliary_velocity(self, bodies: dict[int, Body]) -> int | None:
        """Place, among the parent's velocities, of the joint that a gear follows; None if it follows none."""
        body, place = bodies[self.parent_body], self.gear_aux_link + 1
        if place < 1 or place >= len(body.links) or body.u_count[place] != 1:
            return None
        return body.u_start[place]

    @property
    def _gear_ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.parent_body, self.parent_link + 1), (self.child_body, self.child_link + 1)

    def gear_coefficients(self, bodies: dict[int, Body]) -> tuple[float, float]:
        """Offset and ratio with which q_child = offset + ratio q_parent: gear_ratio v_child + v_parent = 0.

        Without erp the offset is that of the present positions of the first world, which count for nothing.
        """
        places = self.gear_places(bodies)
        assert places is not None  # it acts
        positions = [float(body.q[0, body.q_start[place]]) for body, place in places]
        ratio = -1.0 / self.gear_ratio
        if self.erp:
            positions[1] = ratio * positions[0] - ratio * self.relative_position
        return positions[1] - ratio * positions[0], ratio


def _write(engine: ModelArrays, name: str, row: int, value: float | np.ndarray) -> None:
    """Set a number of an array of the model, or one for each world."""
    if value.__class__ is float:
        engine.write_for_all(name, row, value)  # pyright: ignore[reportArgumentType]
    else:
        engine.write(name, row, value)


def add_loop(
    builder: ModelBuilder,
    slot_kind: tuple[int, bytes],
    first: int,
    second: int,
    first_frame: npt.ArrayLike,
    second_frame: npt.ArrayLike,
    **options: Any,
) -> int:
    """Add a constraint between two bodies of a builder, or a body and the world; return its index.

    Args:
        builder: The builder.
        slot_kind: What it is, see `Constraint.slot_kind`; not a gear.
        first: A body.
        second: Another one, -1 for the world.
        first_frame: Joint frame in the first body (7,).
        second_frame: Joint frame in the second body (7,).
        **options: Of `ModelBuilder.add_loop_joint`.
    """
    constraint_type, slide = slot_kind
    kind = JointType.FIXED
    linear: list[JointAxis | npt.ArrayLike] = []
    if constraint_type == JOINT_POINT2POINT:
        kind = JointType.BALL
    elif constraint_type == JOINT_PRISMATIC:
        axis = np.frombuffer(slide)
        kind, linear = JointType.PRISMATIC, [axis]
        if not axis.any():  # it slides anywhere
            kind, linear = JointType.D6, list(np.eye(3))
    return builder.add_loop_joint(
        kind, first, second, first_frame, second_frame, linear, [], collision_filter=False, **options
    )
