"""What an engine is built from: a world as the content of a builder, shared by clients that are alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.constraint_records import Constraint


@dataclass(slots=True)
class WorldContent:
    """One world of a client as a builder, and what its shapes and bodies are.

    Attributes:
        builder: Bodies, joints, shapes and constraints.
        rows: (body unique id, link index) of each body of the builder.
        shape_link: The same of each shape.
        shape_geometry: Number of the geometry of its link that each shape belongs to.
        places: First row and first joint of each body by unique id.
        constraint_places: Index of each constraint by unique id, -1 where it stands for none.
    """

    builder: ModelBuilder
    rows: list[tuple[int, int]] = field(default_factory=list)
    shape_link: list[tuple[int, int]] = field(default_factory=list)
    shape_geometry: list[int] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    constraint_places: dict[int, int] = field(default_factory=dict)

    def bind(self, bodies: dict[int, Body], constraints: dict[int, Constraint]) -> None:
        """Tell bodies and constraints of a client of this structure, by unique id, where they are."""
        for uid, body in bodies.items():
            body.first_row, body.first_joint = self.places[uid]
        for uid, constraint in constraints.items():
            constraint.index = self.constraint_places[uid]


@dataclass(eq=False, slots=True)
class Structure:
    """What an engine is built from and cannot change while it lives; clients that are alike share one.

    Attributes:
        content: The content of a world, None until an engine is built.
    """

    content: WorldContent | None = None
