"""The lowest point of a shape, against the lowest of many points on its surface."""

import numpy as np
import pytest

from newtonsim.geometry.mesh import Mesh
from newtonsim.geometry.transforms import transform_point
from newtonsim.render.shapes import ShapeTable, shape_outline
from newtonsim.scene.enums import GeoType

RNG = np.random.default_rng(5)
POSE = np.array([0.3, -0.2, 0.9, *(np.array([0.1, 0.5, -0.3, 0.8]) / np.linalg.norm([0.1, 0.5, -0.3, 0.8]))])
TETRAHEDRON = Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])


def directions(count: int = 40000) -> np.ndarray:
    points = RNG.normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def surface(kind: GeoType) -> tuple[np.ndarray, np.ndarray]:
    """Return a scale and points that cover the surface of a shape."""
    d = directions()
    ring = d * [1, 0, 1] / np.hypot(d[:, 0], d[:, 2])[:, None]
    if kind == GeoType.SPHERE:
        return np.array([0.4, 0, 0]), 0.4 * d
    if kind == GeoType.BOX:
        return np.array([0.1, 0.2, 0.3]), np.sign(d) * [0.1, 0.2, 0.3]
    if kind == GeoType.CAPSULE:
        return np.array([0.1, 0.5, 0]), 0.1 * d + np.sign(d) * [0, 0.5, 0]
    if kind == GeoType.CYLINDER:
        return np.array([0.2, 0.5, 0]), 0.2 * ring + np.sign(d) * [0, 0.5, 0]
    if kind == GeoType.CONE:
        return np.array([0.2, 0.5, 0]), np.concatenate([0.2 * ring - [0, 0.5, 0], [[0, 0.5, 0]]])
    if kind == GeoType.ELLIPSOID:
        return np.array([0.1, 0.2, 0.3]), d * [0.1, 0.2, 0.3]
    return np.array([2.0, 1.0, 0.5]), TETRAHEDRON.vertices * [2.0, 1.0, 0.5]


KINDS = [
    GeoType.SPHERE,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.CONE,
    GeoType.ELLIPSOID,
    GeoType.MESH,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("up", [(0, 0, 1), (0, 1, 0), (0, -0.6, 0.8)])
def test_lowest_point(kind: GeoType, up: tuple):
    scale, points = surface(kind)
    table = ShapeTable(
        kind=np.array([kind]),
        scale=scale[None],
        body=np.array([0]),
        world=np.array([0]),
        transform=np.array([[0, 0, 0, 0, 0, 0, 1.0]]),
        visible=np.array([True]),
        color=[(1, 1, 1, 1)],
        source=[TETRAHEDRON if kind == GeoType.MESH else None],
        key=["shape"],
    )
    expected = np.min(transform_point(POSE, points) @ np.array(up, float))
    assert table.lowest(POSE[None], np.array(up))[0] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_outline_lies_on_the_surface(kind: GeoType):
    scale, points = surface(kind)
    lines = np.concatenate(shape_outline(kind, scale, TETRAHEDRON))
    np.testing.assert_allclose(lines.min(axis=0), points.min(axis=0), atol=5e-3)
    np.testing.assert_allclose(lines.max(axis=0), points.max(axis=0), atol=5e-3)
