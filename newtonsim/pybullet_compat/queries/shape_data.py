"""Boxes about links, links in boxes, and the shapes that links collide as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.hull import ConvexHull
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.pybullet_compat.surface.arguments import vec3
from newtonsim.pybullet_compat.surface.constants import (
    GEOM_BOX,
    GEOM_CAPSULE,
    GEOM_CYLINDER,
    GEOM_HEIGHTFIELD,
    GEOM_MESH,
    GEOM_PLANE,
    GEOM_SPHERE,
)
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.link_shapes import (
    BARE_LINK,
    LinkShapes,
    world_box,
    world_boxes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.pybullet_compat.descriptions.description import Geometry
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.client import Client

CONTACT_DISTANCE = 0.02
"""Distance within which PyBullet looks for contacts unless it is told [m]."""
BREAKING = "contactBreakingThreshold"
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
    if bodyUniqueId in client.soft_bodies:
        return client.soft_bodies[bodyUniqueId].bounds()
    body, place = client.bodies.get(bodyUniqueId), linkIndex + 1
    if body is None or place >= len(body.links):
        raise error("getAABB failed.")
    box = client.part(LinkShapes).boxes(body)[place] or BARE_LINK
    engine = client.engine
    if (engine is not None and engine.unread_poses) or body.stale_poses:
        client.read_poses(body)
    if client.num_worlds == 1:
        return world_box(body, place, box)
    return world_boxes(body, place, box)


def getOverlappingObjects(client: Client, aabbMin: Sequence[float], aabbMax: Sequence[float]) -> tuple | None:
    """Return the links whose boxes meet a box, by unique id and link.

    As in PyBullet these are the boxes of the last search for contacts: about the poses at the start of the
    last step, wider by the distance within which contacts are looked for; links of bodies that were just
    made are bounded tightly. Links without shapes are points.

    Args:
        client: The client.
        aabbMin: Lower corner [m], world.
        aabbMax: Upper corner.

    Returns:
        (body, link) of each, None if there is none; in clients of several worlds one such result for each.
    """
    low, high = vec3(aabbMin, "aabbMin"), vec3(aabbMax, "aabbMax")
    shapes, worlds = client.part(LinkShapes), client.num_worlds
    if worlds == 1:
        return _overlapping(client, shapes, low, high) or None
    found: list[list[tuple[int, int]]] = [[] for _ in range(worlds)]
    for uid in sorted(client.bodies):
        body = client.bodies[uid]
        poses, reach = client.force_poses(body), _reach(client, body)
        for place, known in enumerate(shapes.boxes(body)):
            box = known or BARE_LINK
            lower, upper = world_boxes(body, place, box, poses, reach)
            for world in np.flatnonzero(((lower <= high) & (upper >= low)).all(axis=1)):
                found[world].append((uid, place - 1))
    return tuple(tuple(links) or None for links in found)


def _overlapping(client: Client, shapes: LinkShapes, low: tuple, high: tuple) -> tuple[tuple[int, int], ...]:
    """The links in the only world whose boxes meet a box, in plain numbers."""
    found, uid_before = [], None
    for uid, link in sorted(_links_near(client, shapes, low, high)):
        if uid != uid_before:
            uid_before, body = uid, client.bodies[uid]
            poses, reach, boxes = client.force_poses(body), _reach(client, body), shapes.boxes(body)
        (x0, y0, z0), (x1, y1, z1) = world_box(body, link + 1, boxes[link + 1] or BARE_LINK, poses, reach)
        if x0 <= high[0] and x1 >= low[0] and y0 <= high[1] and y1 >= low[1]:
            if z0 <= high[2] and z1 >= low[2]:
                found.append((uid, link))
    return tuple(found)


def _links_near(client: Client, shapes: LinkShapes, low: tuple, high: tuple) -> set[tuple[int, int]]:
    """The links in the only world that may have boxes in a box, and some others.

    Links are where they are now, or at the start of the last step; both are looked at.
    """
    engine = client.engine
    if engine is None or not client.bodies:
        return {(uid, place - 1) for uid, body in client.bodies.items() for place in range(len(body.links))}
    if engine.unread_poses:
        engine.read_poses()
    far = shapes.extents(client, engine) + client.settings.parameters.get(BREAKING, CONTACT_DISTANCE)
    now, before = engine.pose[0, :, :3], engine.all_start_poses()[0, :, :3]
    near = (np.minimum(now, before) - far <= high) & (np.maximum(now, before) + far >= low)
    found = {engine.rows[row] for row in np.flatnonzero(near.all(axis=1)).tolist()}
    for body in client.stale_bodies:
        found.update((body.uid, place - 1) for place in range(len(body.links)))
    return found


def _reach(client: Client, body: Body) -> float:
    """By how much the boxes of a body are wider than its links [m]."""
    has_stepped = client.engine is not None and client.engine.steps > body.placed_at
    if not (has_stepped or body.was_placed or body.start_pose is not None):
        return 0.0
    return client.settings.parameters.get(BREAKING, CONTACT_DISTANCE)


def getCollisionShapeData(client: Client, objectUniqueId: int, linkIndex: int) -> tuple:
    """Return what a link collides as.

    Args:
        client: The client.
        objectUniqueId: The body.
        linkIndex: Its link, -1 for the base.

    Returns:
        (body, link, GEOM_*, dimensions, file name, position and rotation in the inertial frame) of each
        shape; height fields are left out. Dimensions that differ between worlds are an array (W, 3).

    Raises:
        error: The body or the link does not exist.
    """
    body = client.bodies.get(objectUniqueId)
    if body is None or not -1 <= linkIndex < len(body.links) - 1:
        raise error("Error receiving collision shape info")
    shapes = client.part(LinkShapes)
    known = shapes.data.get((objectUniqueId, linkIndex))
    if known is not None:
        return known
    link = body.links[linkIndex + 1]
    inverse = link.inertial_pose.inverse()
    found = []
    for geometry in link.collisions:
        if geometry.kind != GEOM_HEIGHTFIELD:
            pose = inverse @ geometry.pose
            name = (geometry.file or "unknown_file").encode() if geometry.kind == GEOM_MESH else b""
            frame = (tuple(pose.p.tolist()), tuple(pose.q.tolist()))
            size = _dimensions(geometry)
            if geometry.variants:
                size = np.array([_dimensions(variant) for variant in geometry.variants])
            found.append((objectUniqueId, linkIndex, int(geometry.kind), size, name, *frame))
    shapes.data[objectUniqueId, linkIndex] = tuple(found)
    return tuple(found)


def _dimensions(geometry: Geometry) -> tuple[float, float, float]:
    kind, r = geometry.kind, float(geometry.radius)
    if kind == GEOM_SPHERE:
        return r, r, r
    if kind == GEOM_BOX:
        x, y, z = geometry.half_extents
        return 2.0 * float(x), 2.0 * float(y), 2.0 * float(z)
    if kind in (GEOM_CYLINDER, GEOM_CAPSULE):
        return float(geometry.height), r, 0.0
    x, y, z = geometry.normal if kind == GEOM_PLANE else geometry.scale
    return float(x), float(y), float(z)


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
        link. (0, ()) for shapes that are not hulls.

    Raises:
        error: The body or the link does not exist.
    """
    if bodyUniqueId in client.soft_bodies:
        return client.soft_bodies[bodyUniqueId].mesh_data(flags)
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
