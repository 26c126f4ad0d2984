"""Links of bodies as collision queries see them: their kind, and boxes about them.

A link with one shape in its inertial frame is that shape; any other is a compound, whose box is that about
the boxes of its parts, turned with the link. Boxes of boxes and spheres are exact, cylinders and capsules
have the turned box about them, and hulls and surfaces are larger by their collision margin. The box about a
capsule that a file gives by its ends lies along the axes of the link, and is larger by a margin of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import quat_matrix, transform_multiply
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.frames import coincide
from newtonsim.pybullet_compat.descriptions.mass import is_compound, is_plain
from newtonsim.pybullet_compat.surface.constants import (
    GEOM_BOX,
    GEOM_CAPSULE,
    GEOM_CYLINDER,
    GEOM_HEIGHTFIELD,
    GEOM_MESH,
    GEOM_PLANE,
    GEOM_SPHERE,
)

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.descriptions.description import Geometry, Link
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine
    from newtonsim.pybullet_compat.world.structure import WorldContent

COMPOUND, CONVEX, SURFACE = 0, 1, 2
"""Kinds of links in the order in which PyBullet names them in a contact."""

ENDLESS = 1.0e30
"""Half extent that planes report [m]."""

MESH_MARGIN = 0.001
"""Margin that surfaces always have, and hulls in a compound; boxes of hulls have it in addition [m]."""

SPHERES_MARGIN = 0.04
"""What the box about a hull of two spheres has in addition, as measured [m]."""

TOUCHING = 0.02
"""Gap at which a link may report a contact, over the radius about its origin that its box lies in."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalBox:
    """Box about a link in its inertial frame.

    Attributes:
        kind: COMPOUND, CONVEX or SURFACE.
        centre: (3,) [m].
        half: Half extents that turn with the link (3,) [m].
        radius: What the box in the world has in addition on each side [m].
        margins: Collision margins that the turning half extents have in addition.
        variants: The box in each world, where shapes have other sizes; the others are those of the first one.
        extent: How far it goes from the link's centre of mass along any axis, without margins, at most [m].
    """

    kind: int
    centre: tuple[float, float, float]
    half: tuple[float, float, float]
    radius: float = 0.0
    margins: int = 0
    variants: tuple[LocalBox, ...] = ()
    extent: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "extent", math.hypot(*self.centre) + math.hypot(*self.half) + self.radius)

    def reach(self, margin: float) -> float:
        """Gap up to which the link reports contacts without force [m]."""
        extents = np.array(self.half) + self.radius + self.margins * margin
        return TOUCHING * float(np.linalg.norm(extents) + np.linalg.norm(self.centre))


SQRT3 = math.sqrt(3.0)
BARE_LINK = LocalBox(CONVEX, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), margins=1)
"""What bounds a link without shapes: its margin about the centre of mass."""


def is_single(link: Link) -> bool:
    """Whether a link collides as one shape and not as a compound."""
    if len(link.collisions) == 1 and link.collisions[0].joins_spheres:
        return coincide(link.inertial_pose, Pose.identity())
    return is_plain(link.collisions, link.inertial_pose) and not is_compound(link.collisions[0])


def local_box(link: Link) -> LocalBox | None:
    """Return the box about a link, None for links without shapes."""
    worlds = max((len(geometry.variants) for geometry in link.collisions), default=0)
    if not worlds:
        return _box_of(link.collisions, link) if link.collisions else None
    shapes = [[g.variants[w] if g.variants else g for g in link.collisions] for w in range(worlds)]
    variants = tuple(_box_of(own, link) for own in shapes)
    return replace(variants[0], variants=variants)


def _box_of(geometries: Sequence[Geometry], link: Link) -> LocalBox:
    if is_single(link):
        geometry = geometries[0]
        if geometry.joins_spheres:
            return LocalBox(CONVEX, _triple(geometry.pose.p), _triple(_half_by_ends(geometry)), margins=1)
        return _single(geometry)
    lower, upper = np.full(3, np.inf), np.full(3, -np.inf)
    for geometry in geometries:
        middle, half = _in_link(geometry, link)
        lower, upper = np.minimum(lower, middle - half), np.maximum(upper, middle + half)
    return LocalBox(COMPOUND, _triple(0.5 * (lower + upper)), _triple(0.5 * (upper - lower)), margins=1)


def _in_link(geometry: Geometry, link: Link) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half extents of the box about a part of a compound, along the axes of the inertial frame."""
    pose = geometry.pose_in(link.inertial_pose)
    if geometry.joins_spheres:
        return pose.p, np.abs(quat_matrix(link.inertial_pose.q)).T @ (
            _half_by_ends(geometry) + SPHERES_MARGIN
        )
    part, turn = _single(geometry), quat_matrix(pose.q)
    half = np.abs(turn) @ (np.array(part.half) + part.margins * MESH_MARGIN) + part.radius
    return pose.p + turn @ part.centre, half


def _half_by_ends(geometry: Geometry) -> np.ndarray:
    """Half extents of the box about two spheres along the axes of the link frame."""
    return 0.5 * geometry.height * np.abs(quat_matrix(geometry.pose.q)[:, 2]) + geometry.radius


def shape_box(link: Link, number: int, part: int) -> tuple[np.ndarray, LocalBox]:
    """Return the box about one of the shapes of a link, with `variants` where worlds have other sizes.

    Args:
        link: The link.
        number: Number of its geometry.
        part: Number of the shape among those of the geometry: of the mesh, if there are several.

    Returns:
        The frame of the box in the inertial frame (7,), and the box, which is centred there.
    """
    geometry = link.collisions[number]
    if geometry.kind == GEOM_MESH and len(geometry.meshes) > 1:
        geometry = replace(geometry, meshes=geometry.meshes[part : part + 1])
    box = _single(geometry)
    frame = geometry.pose_in(link.inertial_pose).row()
    middle = transform_multiply(frame, (*box.centre, 0.0, 0.0, 0.0, 1.0))
    return middle, replace(box, centre=(0.0, 0.0, 0.0), variants=tuple(map(_single, geometry.variants)))


def _single(geometry: Geometry) -> LocalBox:
    """Box about a geometry in its own frame."""
    zero, kind, r = (0.0, 0.0, 0.0), geometry.kind, geometry.radius
    if kind == GEOM_SPHERE:
        return LocalBox(CONVEX, zero, zero, radius=r)
    if kind == GEOM_BOX:
        return LocalBox(CONVEX, zero, _triple(geometry.half_extents))
    if geometry.joins_spheres:
        half = np.array([r, r, 0.5 * geometry.height + r]) + SPHERES_MARGIN
        return LocalBox(CONVEX, zero, _triple(half))
    if kind in (GEOM_CYLINDER, GEOM_CAPSULE):
        return LocalBox(CONVEX, zero, (r, r, 0.5 * geometry.height + (r if kind == GEOM_CAPSULE else 0.0)))
    if kind == GEOM_PLANE:
        return LocalBox(SURFACE, zero, zero, radius=ENDLESS)
    if kind == GEOM_HEIGHTFIELD:
        low, high = geometry.heightfield.bounds()
        low, high = low[[2, 0, 1]], high[[2, 0, 1]]  # its local axes lie along y, z and x of the geometry
        return LocalBox(SURFACE, _triple(0.5 * (low + high)), _triple(0.5 * (high - low)))
    if kind != GEOM_MESH or not geometry.meshes:
        return LocalBox(CONVEX, zero, zero)
    corners = [mesh.bounds() for mesh in geometry.meshes]
    low, high = np.min([c[0] for c in corners], axis=0), np.max([c[1] for c in corners], axis=0)
    centre, half = _triple(0.5 * (low + high)), 0.5 * (high - low)
    if geometry.concave:
        return LocalBox(SURFACE, centre, _triple(half + MESH_MARGIN))
    return LocalBox(CONVEX, centre, _triple(half + MESH_MARGIN), margins=1)


def _triple(values: Iterable[float]) -> tuple[float, float, float]:
    x, y, z = values
    return float(x), float(y), float(z)


class LinkShapes:
    """Boxes and shape data of the links of a client's bodies, kept from call to call.

    Args:
        client: The client.

    Attributes:
        data: What getCollisionShapeData says, by body and link.
    """

    def __init__(self, client: Client):
        self._boxes: dict[int, tuple[Body, list[LocalBox | None]]] = {}
        self.data: dict[tuple[int, int], tuple] = {}
        self._extents: tuple[WorldContent, np.ndarray] | None = None

    def boxes(self, body: Body) -> list[LocalBox | None]:
        """Boxes of the base and the links of a body, None for those without shapes."""
        known = self._boxes.get(body.uid)
        if known is None or known[0] is not body:
            known = self._boxes[body.uid] = (body, [local_box(link) for link in body.links])
        return known[1]

    def extents(self, client: Client, engine: Engine) -> np.ndarray:
        """How far the shapes of each link of an engine's world go from it along any axis, at most (links, 1).

        Links of empty slots have an extent of minus infinity.
        """
        if self._extents is None or self._extents[0] is not engine.content:
            far = np.full((len(engine.rows), 1), -np.inf)
            for row, (uid, link) in enumerate(engine.rows):
                if uid in client.bodies:
                    body = client.bodies[uid]
                    box = self.boxes(body)[link + 1] or BARE_LINK
                    margin = body.surface["collision_margin"][0, link + 1]
                    far[row] = box.extent + SQRT3 * box.margins * margin
            self._extents = engine.content, far
        return self._extents[1]

    def margins_changed(self) -> None:
        """Note that a collision margin was changed."""
        self._extents = None

    def body_removed(self, uid: int) -> None:
        """Forget a body."""
        self._boxes.pop(uid, None)
        self.data = {key: found for key, found in self.data.items() if key[0] != uid}

    def reset(self) -> None:
        """Forget all bodies."""
        self._boxes.clear()
        self.data.clear()


def world_box(
    body: Body, place: int, box: LocalBox, poses: np.ndarray | None = None, reach: float = 0.0
) -> tuple[tuple, tuple]:
    """Return the corners of the box about a link in the only world, in plain numbers for speed.

    Args:
        body: The body; its poses are fresh.
        place: Place of the link.
        box: Its box.
        poses: Poses of all links (W, links, 7), those of the body by default.
        reach: What is added on all sides [m].
    """
    x, y, z, i, j, k, w = (body.pose if poses is None else poses)[0, place].tolist()
    r, (a, b, c), (u, v, t) = box.radius + reach, box.half, box.centre
    if box.margins:
        margin = box.margins * body.surface["collision_margin"][0, place].item()
        a, b, c = a + margin, b + margin, c + margin
    # rotation matrix of the quaternion, row by row
    r00, r01, r02 = 1.0 - 2.0 * (j * j + k * k), 2.0 * (i * j - k * w), 2.0 * (i * k + j * w)
    r10, r11, r12 = 2.0 * (i * j + k * w), 1.0 - 2.0 * (i * i + k * k), 2.0 * (j * k - i * w)
    r20, r21, r22 = 2.0 * (i * k - j * w), 2.0 * (j * k + i * w), 1.0 - 2.0 * (i * i + j * j)
    x, y, z = (
        x + r00 * u + r01 * v + r02 * t,
        y + r10 * u + r11 * v + r12 * t,
        z + r20 * u + r21 * v + r22 * t,
    )
    dx = abs(r00) * a + abs(r01) * b + abs(r02) * c + r
    dy = abs(r10) * a + abs(r11) * b + abs(r12) * c + r
    dz = abs(r20) * a + abs(r21) * b + abs(r22) * c + r
    return (x - dx, y - dy, z - dz), (x + dx, y + dy, z + dz)


def world_boxes(
    body: Body, place: int, box: LocalBox, poses: np.ndarray | None = None, reach: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the box about a link in all worlds, (W, 3) each, see `world_box`."""
    pose = (body.pose if poses is None else poses)[:, place]
    boxes = box.variants or (box,)
    half, centre = np.array([b.half for b in boxes]), np.array([b.centre for b in boxes])
    radius = np.array([[b.radius] for b in boxes])
    half = half + box.margins * body.surface["collision_margin"][:, place, None]
    turn = quat_matrix(pose[:, 3:])
    middle = pose[:, :3] + (turn @ centre[..., None])[..., 0]
    extent = (np.abs(turn) @ half[..., None])[..., 0] + radius + reach
    return middle - extent, middle + extent
