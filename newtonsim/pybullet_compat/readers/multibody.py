"""Arguments of createMultiBody as the description of a body."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import (
    BodyDescription,
    Geometry,
    Link,
    Surface,
    Visual,
)
from newtonsim.pybullet_compat.descriptions.kinds import JointKind, LoadFlag
from newtonsim.pybullet_compat.descriptions.mass import collision_margin, inertia_of_shapes
from newtonsim.pybullet_compat.readers.shapes import ShapeRecord, pose_of, vector_or

LINK_ARRAYS = (
    "linkMasses",
    "linkCollisionShapeIndices",
    "linkVisualShapeIndices",
    "linkPositions",
    "linkOrientations",
    "linkInertialFramePositions",
    "linkInertialFrameOrientations",
    "linkParentIndices",
    "linkJointTypes",
    "linkJointAxis",
)
_LIMITS = (1.0, -1.0)
_MOVING = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.SPHERICAL, JointKind.PLANAR)


class MultiBodyReader:
    """Makes descriptions from the shapes of a client.

    Args:
        collisions: Shapes of createCollisionShape by id.
        visuals: Shapes of createVisualShape by id.
        flags: URDF_... flags.
    """

    def __init__(self, collisions: dict[int, ShapeRecord], visuals: dict[int, list[Visual]], flags: LoadFlag):
        self.collisions, self.visuals, self.flags = collisions, visuals, flags

    def read(
        self, base: tuple, base_frame: Pose, links: dict[str, Sequence], pose: Pose, maximal: bool
    ) -> BodyDescription:
        """Make a description.

        Args:
            base: (mass, collision shape id, visual shape id) of the base; masses may be arrays (W,).
            base_frame: Its inertial frame.
            links: The arrays by the names of `LINK_ARRAYS`, all of one length.
            pose: Link frame of the base in the world.
            maximal: useMaximalCoordinates.
        """
        mass, collision, visual = base
        root = self._link("link0", mass, collision, visual, base_frame)
        made = [self._child(number, links) for number in range(len(links["linkMasses"]))]
        parents = [int(parent) for parent in links["linkParentIndices"]]
        below: dict[int, list[int]] = {}
        for number, parent in enumerate(parents, 1):
            below.setdefault(parent, []).append(number)
        order, stack = [], list(reversed(below.get(0, [])))
        while stack:
            number = stack.pop()
            order.append(number)
            stack.extend(reversed(below.get(number, [])))
        places = {number: place for place, number in enumerate(order)}
        for number in order:
            made[number - 1].parent = places.get(parents[number - 1], -1)
        return BodyDescription(
            base=root,
            links=[made[number - 1] for number in order],
            pose=pose,
            self_collision=bool(self.flags & LoadFlag.USE_SELF_COLLISION),
            collide_parent=bool(self.flags & LoadFlag.USE_SELF_COLLISION_INCLUDE_PARENT),
            exclude_ancestors=bool(self.flags & LoadFlag.USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS),
            maximal=maximal,
        )

    def _child(self, number: int, links: dict[str, Sequence]) -> Link:
        (
            mass,
            collision,
            visual,
            position,
            orientation,
            inertial_position,
            inertial_orientation,
            _,
            kind,
            axis,
        ) = (links[name][number] for name in LINK_ARRAYS)
        frame = pose_of(inertial_position, inertial_orientation)
        mass = mass if isinstance(mass, np.ndarray) else float(mass)
        link = self._link(f"link{number + 1}", mass, int(collision), int(visual), frame)
        link.joint_name = f"joint{number + 1}"
        link.joint_type = int(kind) if int(kind) in tuple(_MOVING) else int(JointKind.FIXED)
        link.joint_pose = pose_of(position, orientation)
        link.limits = _LIMITS
        if link.joint_type != JointKind.FIXED:
            direction = vector_or(axis, np.zeros(3), "linkJointAxis")
            length = float(np.linalg.norm(direction))
            link.axis_length = length or 1.0
            link.axis = direction / link.axis_length
        return link

    def _link(self, name: str, mass: float | np.ndarray, collision: int, visual: int, frame: Pose) -> Link:
        record = self.collisions.get(collision, ShapeRecord())
        shapes: list[Geometry] = [copy(shape) for shape in record.collisions]
        visuals = self.visuals.get(visual, record.visuals)
        masses = tuple(mass.tolist()) if isinstance(mass, np.ndarray) else ()
        first = masses[0] if masses else float(mass)
        inertia = np.zeros(3)
        if not self.flags & LoadFlag.USE_INERTIA_FROM_FILE:
            inertia = inertia_of_shapes(first, shapes, frame, compound_margin=0.0)
            if first > 0.0 and masses:
                inertia = np.reshape(masses, (-1, 1)) / first * inertia
        margin = collision_margin(shapes, frame, compound_margin=0.0)
        return Link(
            name=name,
            mass=first,
            masses=masses,
            inertia=inertia,
            inertial_pose=frame,
            collisions=shapes,
            visuals=[copy(seen) for seen in visuals],
            surface=Surface(collision_margin=margin),
        )
