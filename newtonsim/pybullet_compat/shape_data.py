"""Boxes about links, links in boxes, and the shapes that links collide as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.hull import ConvexHull
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.pybullet_compat.arguments import vectors
from newtonsim.pybullet_compat.constants import (
    GEOM_BOX,
    GEOM_CAPSULE,
    GEOM_CYLINDER,
    GEOM_HEIGHTFIELD,
    GEOM_MESH,
    GEOM_PLANE,
    GEOM_SPHERE,
)
from newtonsim.pybullet_compat.errors import error
from newtonsim.pybullet_compat.link_shapes import LinkBoxes, world_boxes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.pybullet_compat.description import Geometry
    from newtonsim.pybullet_compat.scene import Client

ALL_VERTICES = 1 << 30


def getAABB(client: Client, bodyUniqueId: int, linkIndex: int = -1) -> tuple:
    """Return the box about a link, as PyBullet bounds its shapes.

    Args:
        client: The client.
        bodyUniqueId: The body.
        linkIndex: Its link, -1 for the base.

    Returns:
        Lower and upper corner [m], world; (W, 3) each in clients of several worlds.

    Raises:
        error: The body or the link does not exist.
    """
    if bodyUniqueId < 0:
        raise error("getAABB failed; invalid bodyUniqueId")
    if linkIndex < -1:
        raise error("getAABB failed; invalid linkIndex")
    body, place = client.bodies.get(bodyUniqueId), linkIndex + 1
    if body is None or place >= len(body.links):
        raise error("getAABB failed.")
    box = client.part(LinkBoxes).of(body)[place]
    engine = client.engine
    if (engine is not None and engine.unread_poses) or body.stale_poses:
        client.read_poses(body)
    if client.num_worlds > 1:
        if box is None:
            return np.zeros((client.num_worlds, 3)), np.zeros((client.num_worlds, 3))
        margin = box.margins * body.surface["collision_margin"][:, place]
        half = np.array(box.half) + margin[:, None]
        radius = np.full(client.num_worlds, box.radius)
        return world_boxes(body.pose[:, place], np.tile(box.centre, (client.num_worlds, 1)), half, radius)
    if box is None:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    x, y, z, i, j, k, w = body.pose[0, place].tolist()
    r, (h0, h1, h2), (c0, c1, c2) = box.radius, box.half, box.centre
    if box.margins:
        margin = box.margins * body.surface["collision_margin"][0, place].item()
        h0, h1, h2 = h0 + margin, h1 + margin, h2 + margin
    # rotation matrix of the quaternion, row by row
    ii, jj, kk, ij, ik, jk, iw, jw, kw = i * i, j * j, k * k, i * j, i * k, j * k, i * w, j * w, k * w
    r00, r01, r02 = 1.0 - 2.0 * (jj + kk), 2.0 * (ij - kw), 2.0 * (ik + jw)
    r10, r11, r12 = 2.0 * (ij + kw), 1.0 - 2.0 * (ii + kk), 2.0 * (jk - iw)
    r20, r21, r22 = 2.0 * (ik - jw), 2.0 * (jk + iw), 1.0 - 2.0 * (ii + jj)
    x, y, z = (
        x + r00 * c0 + r01 * c1 + r02 * c2,
        y + r10 * c0 + r11 * c1 + r12 * c2,
        z + r20 * c0 + r21 * c1 + r22 * c2,
    )
    ex = abs(r00) * h0 + abs(r01) * h1 + abs(r02) * h2 + r
    ey = abs(r10) * h0 + abs(r11) * h1 + abs(r12) * h2 + r
    ez = abs(r20) * h0 + abs(r21) * h1 + abs(r22) * h2 + r
    return (x - ex, y - ey, z - ez), (x + ex, y + ey, z + ez)


def getOverlappingObjects(client: Client, aabbMin: Sequence[float], aabbMax: Sequence[float]) -> tuple | None:
    """Return the links whose boxes meet a box, by unique id and link.

    Args:
        client: The client.
        aabbMin: Lower corner [m], world.
        aabbMax: Upper corner.

    Returns:
        (body, link) of each, None if there is none; in clients of several worlds one such result for each.
    """
    low, high = vectors(aabbMin, 3, client, "aabbMin"), vectors(aabbMax, 3, client, "aabbMax")
    keys, poses, centres, halves, radii = [], [], [], [], []
    boxes = client.part(LinkBoxes)
    for uid in sorted(client.bodies):
        body = client.bodies[uid]
        client.read_poses(body)
        for place, box in enumerate(boxes.of(body)):
            if box is not None:
                keys.append((uid, place - 1))
                poses.append(body.pose[:, place])
                centres.append(box.centre)
                halves.append(np.array(box.half) + box.margins * body.surface["collision_margin"][0, place])
                radii.append(box.radius)
    found = [None] * client.num_worlds
    if keys:
        lower, upper = world_boxes(np.stack(poses, 1), np.array(centres), np.array(halves), np.array(radii))
        meets = ((lower <= high[:, None]) & (upper >= low[:, None])).all(axis=-1)
        for world, row in enumerate(meets):
            found[world] = tuple(keys[k] for k in np.flatnonzero(row)) or None
    return found[0] if client.num_worlds == 1 else tuple(found)


def getCollisionShapeData(client: Client, objectUniqueId: int, linkIndex: int) -> tuple:
    """Return what a link collides as.

    Args:
        client: The client.
        objectUniqueId: The body.
        linkIndex: Its link, -1 for the base.

    Returns:
        (body, link, GEOM_*, dimensions, file name, position and rotation in the inertial frame) of each
        shape; height fields are left out.

    Raises:
        error: The body or the link does not exist.
    """
    body = client.bodies.get(objectUniqueId)
    if body is None or not -1 <= linkIndex < len(body.links) - 1:
        raise error("Error receiving collision shape info")
    link = body.links[linkIndex + 1]
    inverse = link.inertial_pose.inverse()
    found = []
    for geometry in link.collisions:
        if geometry.kind != GEOM_HEIGHTFIELD:
            pose = inverse @ geometry.pose
            name = (geometry.file or "unknown_file").encode() if geometry.kind == GEOM_MESH else b""
            frame = (tuple(pose.p.tolist()), tuple(pose.q.tolist()))
            found.append((objectUniqueId, linkIndex, geometry.kind, _dimensions(geometry), name, *frame))
    return tuple(found)


def _dimensions(geometry: Geometry) -> tuple[float, float, float]:
    kind, r = geometry.kind, float(geometry.radius)
    if kind == GEOM_SPHERE:
        return r, r, r
    if kind == GEOM_BOX:
        return tuple(2.0 * float(h) for h in geometry.half_extents)
    if kind in (GEOM_CYLINDER, GEOM_CAPSULE):
        return float(geometry.height), r, 0.0
    return tuple(float(x) for x in (geometry.normal if kind == GEOM_PLANE else geometry.scale))


def getMeshData(
    client: Client, bodyUniqueId: int, linkIndex: int = -1, collisionShapeIndex: int = -1, flags: int = 0
) -> tuple:
    """Return the vertices of a soft body, or those of the convex hulls that a link collides as.

    Args:
        client: The client.
        bodyUniqueId: The body.
        linkIndex: Its link, -1 for the base.
        collisionShapeIndex: Shape of the link, negative for the first.
        flags: MESH_DATA_*, for soft bodies.

    Returns:
        Number of vertices, and the vertices: of soft bodies in the world, else in the inertial frame of the
        link. (0, ()) for shapes that are no hulls.

    Raises:
        error: The body or the link does not exist.
    """
    if bodyUniqueId in client.soft_bodies:
        from newtonsim.pybullet_compat import soft_bodies

        return soft_bodies.mesh_data(client, bodyUniqueId)
    body = client.bodies.get(bodyUniqueId)
    if body is None or not -1 <= linkIndex < len(body.links) - 1:
        raise error("getMeshData failed")
    link = body.links[linkIndex + 1]
    inverse = link.inertial_pose.inverse()
    parts = [
        (inverse @ geometry.pose, mesh)
        for geometry in link.collisions
        for mesh in (geometry.meshes if not geometry.concave and geometry.kind == GEOM_MESH else [None])
    ]
    if not parts:
        return 0, ()
    pose, mesh = parts[collisionShapeIndex if 0 <= collisionShapeIndex < len(parts) else 0]
    if mesh is None:
        return 0, ()
    corners = ConvexHull(mesh.vertices, ALL_VERTICES).vertices.astype(np.float64)
    return len(corners), tuple(map(tuple, (pose.p + quat_rotate(pose.q, corners)).tolist()))
