"""The properties of a body that an engine is built with: bodies that share them fit each other's slots."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from newtonsim.pybullet_compat.descriptions.description import Geometry, Link
from newtonsim.pybullet_compat.surface.constants import GEOM_MESH
from newtonsim.pybullet_compat.world.body import Body


def body_kind(body: Body, floating: bool | None = None) -> Hashable:
    """Return what another body must share to take the same slot, None if none can.

    It leaves out what is written whenever a body enters a slot: state, motors, damping, surfaces, limits of
    joints, and the mass of the base. Shapes of files are the same if their meshes are the same objects.

    Args:
        body: The body.
        floating: Whether its base is to be free, None for as it is.
    """
    if floating is None and body.made_from is not None and not body.driven:
        if body.made_from.kind is None:
            body.made_from.kind = _kind(body, body.floating)
        return body.made_from.kind
    return _kind(body, body.floating if floating is None else floating)


def _kind(body: Body, floating: bool) -> Hashable:
    description = body.description
    if body.driven or _has_sizes_by_world(body) or (len(body.links) > 1 and _differs(body)):
        return None
    flags = (description.self_collision, description.collide_parent, description.exclude_ancestors)
    shapes = tuple(_shapes(body, place, link) for place, link in enumerate(body.links))
    if len(body.links) == 1:
        return floating, flags, shapes
    joints = tuple(_joint(body, place) for place in range(1, len(body.links)))
    return floating, flags, shapes, joints, body.mass[0, 1:].tobytes(), body.inertia[0, 1:].tobytes()


def _has_sizes_by_world(body: Body) -> bool:
    return body.worlds > 1 and any(shape.variants for link in body.links for shape in link.collisions)


def _differs(body: Body) -> bool:
    """Whether worlds differ in a property that an engine is built with."""
    return body.worlds > 1 and any(bool((array != array[0]).any()) for array in (body.mass, body.inertia))


def _joint(body: Body, place: int) -> Hashable:
    link, frames = body.links[place], body.joint_frames(place)
    axis = (link.joint_type, link.axis_length, link.axis.tobytes())
    return body.parents[place], axis, *(frame.tobytes() for frame in frames)


def _shapes(body: Body, place: int, link: Link) -> Hashable:
    """Collision shapes of a link, and their collision filters."""
    if not link.collisions:
        return link.group, link.mask
    frame = link.inertial_pose
    geometries = tuple(_geometry(geometry) for geometry in link.collisions)
    has_meshes = any(geometry.kind == GEOM_MESH for geometry in link.collisions)
    margin = body.surface["collision_margin"][0, place] if has_meshes else 0.0
    return link.group, link.mask, frame.p.tobytes(), frame.q.tobytes(), margin, geometries


def _geometry(geometry: Geometry) -> Hashable:
    """What a shape is made of; the pattern of a slot keeps the objects whose identity counts."""
    return (
        geometry.kind,
        np.asarray(geometry.pose.p).tobytes(),
        np.asarray(geometry.pose.q).tobytes(),
        geometry.radius,
        geometry.height,
        tuple(geometry.half_extents),
        tuple(geometry.normal),
        tuple(map(id, geometry.meshes)),
        geometry.concave,
        id(geometry.heightfield),
    )
