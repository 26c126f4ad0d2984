"""What the links of bodies are to collision queries: boxes about them, and their kind.

A link with one shape in its inertial frame is that shape; any other is a compound, whose box is that
about the boxes of its parts, turned with the link. Boxes of boxes and spheres are exact, cylinders and capsules have
the turned box about them, and hulls and surfaces are larger by their collision margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import quat_matrix
from newtonsim.pybullet_compat.constants import (
    GEOM_BOX,
    GEOM_CAPSULE,
    GEOM_CYLINDER,
    GEOM_HEIGHTFIELD,
    GEOM_MESH,
    GEOM_PLANE,
    GEOM_SPHERE,
)

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.description import Geometry, Link
    from newtonsim.pybullet_compat.multibody import Body

COMPOUND, CONVEX, SURFACE = 0, 1, 2
"""Kinds of links in the order in which PyBullet names them in a contact."""

ENDLESS = 1.0e30
"""Half extent that planes report [m]."""

HULL_MARGIN = 0.001
"""What the box of a hull has on each side besides the collision margin [m]."""

TOUCHING = 0.02
"""Gap at which a link may report a contact, over the half diagonal of its box."""

_SAME = 1.0e-9


@dataclass(frozen=True, slots=True, eq=False)
class LocalBox:
    """Box about a link in its inertial frame.

    Attributes:
        kind: COMPOUND, CONVEX or SURFACE.
        centre: (3,) [m].
        half: Half extents that turn with the link (3,) [m].
        radius: What the box in the world has in addition on each side [m].
        margins: Collision margins that the turning half extents have in addition.
    """

    kind: int
    centre: tuple[float, float, float]
    half: tuple[float, float, float]
    radius: float = 0.0
    margins: int = 0

    def reach(self, margin: float) -> float:
        """Gap up to which the link reports contacts without force [m]."""
        if self.kind == COMPOUND:
            return 0.0
        extents = np.array(self.half) + self.radius + self.margins * margin
        return TOUCHING * float(np.linalg.norm(extents))


def local_box(link: Link) -> LocalBox | None:
    """Return the box about a link, None for links without shapes."""
    if not link.collisions:
        return None
    inverse = link.inertial_pose.inverse()
    poses = [inverse @ geometry.pose for geometry in link.collisions]
    first = link.collisions[0]
    parts = sum(max(len(geometry.meshes), 1) for geometry in link.collisions)
    centred = np.abs(poses[0].p).max() < _SAME and np.abs(poses[0].q[:3]).max() < _SAME
    if parts == 1 and centred:
        return _single(first)
    lower, upper = np.full(3, np.inf), np.full(3, -np.inf)
    margin = link.surface.collision_margin
    for geometry, pose in zip(link.collisions, poses):
        part = _single(geometry)
        middle = pose.p + quat_matrix(pose.q) @ part.centre
        half = np.abs(quat_matrix(pose.q)) @ (np.array(part.half) + part.margins * margin) + part.radius
        lower, upper = np.minimum(lower, middle - half), np.maximum(upper, middle + half)
    return LocalBox(COMPOUND, _triple(0.5 * (lower + upper)), _triple(0.5 * (upper - lower)), margins=1)


def _single(geometry: Geometry) -> LocalBox:
    """Box about a geometry in its own frame."""
    zero, kind, r = (0.0, 0.0, 0.0), geometry.kind, geometry.radius
    if kind == GEOM_SPHERE:
        return LocalBox(CONVEX, zero, zero, radius=r)
    if kind == GEOM_BOX:
        return LocalBox(CONVEX, zero, _triple(geometry.half_extents))
    if kind in (GEOM_CYLINDER, GEOM_CAPSULE):
        return LocalBox(CONVEX, zero, (r, r, 0.5 * geometry.height + (r if kind == GEOM_CAPSULE else 0.0)))
    if kind == GEOM_PLANE:
        return LocalBox(SURFACE, zero, zero, radius=ENDLESS)
    if kind == GEOM_HEIGHTFIELD:
        low, high = geometry.heightfield.bounds()
        # columns run along x and heights along z of the link, see `model_building`
        low, high = np.array([low[0], -high[2], low[1]]), np.array([high[0], -low[2], high[1]])
        return LocalBox(SURFACE, _triple(0.5 * (low + high)), _triple(0.5 * (high - low)))
    if kind != GEOM_MESH or not geometry.meshes:
        return LocalBox(CONVEX, zero, zero)
    corners = [mesh.bounds() for mesh in geometry.meshes]
    low, high = np.min([c[0] for c in corners], axis=0), np.max([c[1] for c in corners], axis=0)
    centre, half = _triple(0.5 * (low + high)), 0.5 * (high - low)
    if geometry.concave:
        return LocalBox(SURFACE, centre, _triple(half), margins=1)
    return LocalBox(CONVEX, centre, _triple(half + HULL_MARGIN), margins=1)


def _triple(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = values
    return float(x), float(y), float(z)


class LinkBoxes:
    """Boxes about all links of a client's bodies, kept from call to call."""

    def __init__(self, client: object):
        self._boxes: dict[int, tuple[Body, list[LocalBox | None]]] = {}

    def of(self, body: Body) -> list[LocalBox | None]:
        """Boxes of the base and the links of a body."""
        known = self._boxes.get(body.uid)
        if known is None or known[0] is not body:
            known = self._boxes[body.uid] = (body, [local_box(link) for link in body.links])
        return known[1]

    def body_removed(self, uid: int) -> None:
        """Forget a body."""
        self._boxes.pop(uid, None)

    def reset(self) -> None:
        """Forget all bodies."""
        self._boxes.clear()


def world_boxes(
    pose: np.ndarray, centre: np.ndarray, half: np.ndarray, radius: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper corners of boxes at many poses.

    Args:
        pose: Poses of links (..., 7).
        centre: Centres of their boxes (..., 3).
        half: Turning half extents (..., 3).
        radius: Half extents that do not turn (...).
    """
    turn = quat_matrix(pose[..., 3:])
    middle = pose[..., :3] + (turn @ centre[..., None])[..., 0]
    reach = (np.abs(turn) @ half[..., None])[..., 0] + radius[..., None]
    return middle - reach, middle + reach
