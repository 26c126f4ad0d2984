"""Convex hulls of point sets."""

import itertools

import numpy as np
import pytest
from scipy.spatial import ConvexHull as Qhull

from newtonsim.errors import ModelError
from newtonsim.geometry.hull import ConvexHull, pack_hulls

CUBE = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def edge_count(hull: ConvexHull) -> int:
    return sum(len(ids) for ids in hull.neighbors) // 2


def volume(hull: ConvexHull) -> float:
    """Volume within the faces, by the divergence theorem: negative parts if a face is the wrong way round."""
    total = 0.0
    for face in hull.faces:
        p = hull.vertices[face].astype(float)
        for q, r in itertools.pairwise(p[1:]):
            total += np.linalg.det([p[0], q, r]) / 6.0
    return total


def sphere_points(count: int, seed: int) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_a_cube_has_six_square_faces():
    rng = np.random.default_rng(0)
    hull = ConvexHull(np.vstack([CUBE, CUBE, rng.uniform(-1.0, 1.0, (50, 3))]))
    assert sorted(map(tuple, hull.vertices.tolist())) == sorted(map(tuple, CUBE.tolist()))
    assert [len(face) for face in hull.faces] == [4] * 6
    assert sorted(map(tuple, hull.normals.round(6).tolist())) == sorted(
        map(tuple, np.vstack([np.eye(3), -np.eye(3)]).tolist())
    )
    assert [len(ids) for ids in hull.neighbors] == [3] * 8
    assert volume(hull) == pytest.approx(8.0)


@pytest.mark.parametrize("seed", range(5))
def test_faces_close_around_the_points(seed: int):
    points = np.random.default_rng(seed).normal(size=(60, 3)) * [1.0, 3.0, 0.2] + [5.0, 0.0, 0.0]
    hull = ConvexHull(points)
    assert volume(hull) == pytest.approx(Qhull(points).volume, rel=1e-5)
    assert len(hull.vertices) - edge_count(hull) + len(hull.faces) == 2
    for face, normal in zip(hull.faces, hull.normals):
        heights = (points - hull.vertices[face[0]]) @ normal
        assert np.max(heights) < 1e-5
        assert np.linalg.norm(normal) == pytest.approx(1.0, abs=1e-6)
        p = hull.vertices[face]
        assert np.dot(np.cross(p[1] - p[0], p[2] - p[1]), normal) > 0.0


def test_ends_of_a_fine_cylinder_are_one_face_each():
    angle = 2.0 * np.pi * np.arange(32) / 32
    ring = np.stack([np.cos(angle), 0.0 * angle, np.sin(angle)], axis=1)
    hull = ConvexHull(np.vstack([ring - np.array([0.0, 2.0, 0.0]), ring + np.array([0.0, 2.0, 0.0])]))
    assert sorted(len(face) for face in hull.faces) == [4] * 32 + [32] * 2


@pytest.mark.parametrize("thickness", [0.0, 1e-9])
def test_points_in_a_plane_give_a_polygon_with_two_sides(thickness: float):
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    square = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [1, 0.5, thickness]]) @ axes.T
    hull = ConvexHull(square)
    assert len(hull.vertices) == 4
    assert [len(face) for face in hull.faces] == [4, 4]
    assert np.allclose(hull.normals[0], -hull.normals[1])
    assert abs(hull.normals[0] @ axes[:, 2]) == pytest.approx(1.0)
    assert [len(ids) for ids in hull.neighbors] == [2] * 4
    for face, normal in zip(hull.faces, hull.normals):
        p = hull.vertices[face]
        assert np.dot(np.cross(p[1] - p[0], p[2] - p[1]), normal) > 0.0


def test_a_thin_plate_keeps_its_thickness():
    hull = ConvexHull(CUBE * [1.0, 1.0, 1e-4])
    assert len(hull.faces) == 6
    assert np.ptp(hull.vertices[:, 2]) == pytest.approx(2e-4)


def test_points_on_a_line_give_its_ends():
    hull = ConvexHull(np.outer([0.3, -1.0, 2.0, 0.5], [1.0, 2.0, -1.0]))
    assert len(hull.vertices) == 2
    assert np.allclose(np.ptp(hull.vertices, axis=0), [3.0, 6.0, 3.0])
    assert hull.faces == []
    assert [ids.tolist() for ids in hull.neighbors] == [[1], [0]]


def test_coinciding_points_give_one_vertex():
    hull = ConvexHull(np.tile([1.0, 2.0, 3.0], (7, 1)))
    assert hull.vertices.tolist() == [[1.0, 2.0, 3.0]]
    assert hull.faces == []
    assert [ids.tolist() for ids in hull.neighbors] == [[]]


@pytest.mark.parametrize(
    ("points", "count", "word"),
    [(np.zeros((0, 3)), 64, "no points"), ([[0, 0, np.nan]], 64, "finite"), (CUBE, 5, "max_vertices")],
)
def test_what_is_refused(points, count: int, word: str):
    with pytest.raises(ModelError, match=word):
        ConvexHull(points, max_vertices=count)


@pytest.mark.parametrize(("count", "error"), [(64, 0.06), (32, 0.12), (6, 0.6)])
def test_large_hulls_are_reduced_from_inside(count: int, error: float):
    points = sphere_points(3000, 2) * [1.0, 0.5, 0.8]
    hull = ConvexHull(points, max_vertices=count)
    assert len(hull.vertices) <= count
    assert np.allclose(hull.vertices.min(axis=0), points.min(axis=0), atol=1e-6)
    assert np.allclose(hull.vertices.max(axis=0), points.max(axis=0), atol=1e-6)
    directions = sphere_points(2000, 3)
    lost = np.max(points @ directions.T, axis=0) - np.max(hull.vertices @ directions.T, axis=0)
    assert np.min(lost) > -1e-6
    assert np.max(lost) < error


def test_large_flat_hulls_are_reduced():
    angle = np.linspace(0.0, 2.0 * np.pi, 400, endpoint=False)
    hull = ConvexHull(np.stack([np.cos(angle), 0.0 * angle, np.sin(angle)], axis=1), max_vertices=16)
    assert len(hull.vertices) == 16
    assert len(hull.faces) == 2
    # no two neighbours are much farther apart than in a regular polygon
    outline = hull.vertices[hull.faces[0]]
    assert np.max(np.linalg.norm(outline - np.roll(outline, 1, axis=0), axis=1)) < 2.1 * np.sin(np.pi / 8)


def test_packed_hulls_keep_their_own_numbers(device: str):
    hulls = [ConvexHull(CUBE), ConvexHull([[1.0, 2.0, 3.0]]), ConvexHull(sphere_points(20, 4))]
    view = pack_hulls(hulls, device)
    vertex_start, neighbor_start = view.vertex_start.numpy(), view.neighbor_start.numpy()
    face_start, corner_start = view.face_start.numpy(), view.corner_start.numpy()
    for k, hull in enumerate(hulls):
        vertices = slice(vertex_start[k], vertex_start[k + 1])
        assert np.array_equal(view.vertex.numpy()[vertices], hull.vertices)
        for i, ids in enumerate(hull.neighbors, start=vertex_start[k]):
            assert np.array_equal(view.neighbor.numpy()[neighbor_start[i] : neighbor_start[i + 1]], ids)
        assert np.array_equal(view.face_normal.numpy()[face_start[k] : face_start[k + 1]], hull.normals)
        for i, face in enumerate(hull.faces, start=face_start[k]):
            assert np.array_equal(view.corner.numpy()[corner_start[i] : corner_start[i + 1]], face)


def test_nothing_to_pack(device: str):
    view = pack_hulls([], device)
    assert view.vertex_start.numpy().tolist() == [0]
    assert len(view.corner) == 0
