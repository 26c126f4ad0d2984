"""What the scenes have in common: builders, bodies made of one shape, and meshes by formula."""

import math

import numpy as np
import numpy.typing as npt

import newtonsim
from newtonsim import Mesh, ModelBuilder

DT = 1.0 / 240.0
"""Time step [s] that the scenes are made for."""

UPRIGHT_FIELD = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))
"""Rotation (xyzw) that turns the heights of a height field, along its local y, up to z."""


def new_scene(friction: float, restitution: float = 0.0) -> ModelBuilder:
    """Return an empty builder, z up, whose shapes have this friction and restitution by default."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.default_shape_mu = friction
    builder.default_shape_restitution = restitution
    return builder


def add_box(
    builder: ModelBuilder,
    position: npt.ArrayLike,
    half: npt.ArrayLike,
    mass: float,
    rotation: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0),
    key: str | None = None,
) -> int:
    """Add a free uniform box.

    Args:
        builder: Receives the box.
        position: Centre [m] (3,).
        half: Half extents [m] (3,).
        mass: Mass [kg].
        rotation: Quaternion xyzw.
        key: Name of body and shape.

    Returns:
        The index of the body.
    """
    hx, hy, hz = (float(h) for h in half)
    body = builder.add_body(origin=(*position, *rotation), key=key)
    builder.add_shape_box(body, hx=hx, hy=hy, hz=hz, density=mass / (8.0 * hx * hy * hz), key=key)
    return body


def about(axis: npt.ArrayLike, angle: float) -> np.ndarray:
    """Return the quaternion xyzw of a turn by an angle [rad] about a unit axis."""
    return np.append(np.sin(0.5 * angle) * np.asarray(axis, dtype=np.float64), np.cos(0.5 * angle))


def prism(outline: npt.ArrayLike, low: float, high: float) -> Mesh:
    """Return the closed mesh of an upright prism.

    Args:
        outline: Convex polygon in the x-y plane, counter-clockwise from above, shape (n, 2) [m].
        low: Height of the lower face [m].
        high: Height of the upper face [m].
    """
    return turned_rings([(outline, low), (outline, high)])


def turned_rings(rings: list[tuple[npt.ArrayLike, float]]) -> Mesh:
    """Return the closed mesh that joins polygons of equal numbers of corners, one above the other.

    Args:
        rings: Convex polygons about the z axis, counter-clockwise from above, shape (n, 2) [m], each with
            its height [m], from the bottom to the top. Neighbours may have one height, which makes a flat
            shoulder.
    """
    polygons = [np.asarray(polygon, dtype=np.float64) for polygon, _ in rings]
    n = len(polygons[0])
    points = [np.column_stack([polygon, np.full(n, z)]) for polygon, (_, z) in zip(polygons, rings)]
    middle = [
        np.append(polygons[0].mean(axis=0), rings[0][1]),
        np.append(polygons[-1].mean(axis=0), rings[-1][1]),
    ]
    vertices = np.concatenate([*points, middle])
    here, there = np.arange(n), np.roll(np.arange(n), -1)
    triangles = []
    for k in range(len(rings) - 1):
        a, b, c, d = k * n + here, k * n + there, (k + 1) * n + there, (k + 1) * n + here
        triangles += [np.column_stack([a, b, c]), np.column_stack([a, c, d])]
    bottom, top, last = len(vertices) - 2, len(vertices) - 1, (len(rings) - 1) * n
    triangles.append(np.column_stack([np.full(n, bottom), there, here]))
    triangles.append(np.column_stack([np.full(n, top), last + here, last + there]))
    return Mesh(vertices, np.concatenate(triangles))


def regular_polygon(corners: int, radius: float) -> np.ndarray:
    """Return the corners (n, 2) [m] of a regular polygon with this circumradius [m]."""
    angle = np.arange(corners) * (math.tau / corners)
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])
