"""Triangles, height fields and meshes against trimesh, SciPy and closed forms."""

import numpy as np
import pytest
import trimesh
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.geometry import Heightfield, Mesh
from newtonsim.kernels.collision.pairs.bounds import Bounds
from newtonsim.kernels.collision.surfaces.field_values import field_normal
from newtonsim.kernels.collision.surfaces.fields import level_at
from newtonsim.kernels.collision.surfaces.height_grid import surface_at
from newtonsim.kernels.collision.surfaces.mesh_boxes import triangles_after, triangles_in_box
from newtonsim.kernels.collision.surfaces.surfaces import box_gap
from newtonsim.kernels.collision.surfaces.triangle_distance import level_of_surface
from newtonsim.kernels.collision.surfaces.triangle_surface import (
    ROLE_SOLID,
    ROLE_TERRAIN,
    mirrored,
    nearest_on_triangle,
)

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__, field_normal, level_at, surface_at, box_gap, level_of_surface, mirrored, nearest_on_triangle
)


@wp.kernel
def list_triangles(mesh: wp.uint64, box: wp.array(dtype=Bounds), seen: wp.array2d(dtype=int)):
    """One thread per box: how often each triangle is among those in the box."""
    i = wp.tid()
    batch = triangles_in_box(mesh, box[i], 0)
    while batch.count > 0:
        for k in range(batch.count):
            seen[i, batch.triangle[k]] = seen[i, batch.triangle[k]] + 1
        batch = triangles_after(mesh, box[i], batch)


def test_nearest_point_of_a_triangle(device):
    rng = np.random.default_rng(0)
    corners = rng.normal(size=(500, 3, 3))
    p = rng.normal(size=(500, 3)) * 2.0
    found = call(device, nearest_on_triangle, dict(zip("abc", corners.transpose(1, 0, 2))), p)
    exact = trimesh.triangles.closest_point(corners, p)
    np.testing.assert_allclose(
        np.linalg.norm(found - p, axis=1), np.linalg.norm(exact - p, axis=1), atol=1e-4
    )
    np.testing.assert_allclose(found, exact, atol=2e-3)


def hilly() -> Heightfield:
    heights = np.random.default_rng(1).uniform(-0.3, 0.3, (5, 8))
    return Heightfield(heights, (3.0, 2.0))


def test_height_of_a_field_is_that_of_its_triangles(device):
    field = hilly()
    mesh = field.finalize(device)
    vertices, triangles = field.to_mesh().surface
    x, z = np.random.default_rng(2).uniform(-0.99, 0.99, (2, 400)) * np.array([[1.5], [1.0]])
    place = call(device, surface_at, mesh, x, z)
    corner = vertices[triangles.reshape(-1, 3)[place["triangle"]]].astype(np.float64)
    # solved for the plane of the triangle that it names, which has to lie over the place
    matrix = np.stack([corner[..., 0], corner[..., 2], np.ones((400, 3))], axis=1)
    weights = np.linalg.solve(matrix, np.stack([x, z, np.ones(400)], axis=1)[..., None])[..., 0]
    assert weights.min() > -1e-4
    np.testing.assert_allclose(place["height"], np.sum(weights * corner[..., 1], axis=1), atol=1e-5)
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= normal[:, 1:2]
    np.testing.assert_allclose(place["normal"] / place["normal"][:, 1:2], normal, atol=1e-4)
    # the border belongs to the field, what is beyond does not
    border = call(device, surface_at, mesh, [1.5, 1.501, 0.0, 0.0], [1.0, 0.0, -1.0, -1.001])
    assert (border["triangle"] >= 0).tolist() == [True, False, True, False]


def test_batches_hold_every_triangle_in_a_box_once(device):
    ball = trimesh.creation.icosphere(3)
    mesh = Mesh(ball.vertices, ball.faces, compute_inertia=False)
    lower, upper = (
        np.float32([[-2, -2, -2], [0.3, -1, -1], [3, 3, 3]]),
        np.float32([[2, 2, 2], [1, 1, 0.2], [4, 4, 4]]),
    )
    boxes = np.zeros(3, Bounds.numpy_dtype())
    boxes["lower"], boxes["upper"] = lower, upper
    seen = wp.zeros((3, len(ball.faces)), dtype=int, device=device)
    boxes = wp.array(boxes, dtype=Bounds, device=device)
    wp.launch(list_triangles, 3, [mesh.finalize(device), boxes, seen], device=device)
    corners = np.float32(ball.vertices)[ball.faces]
    meet = [
        np.all((corners.min(axis=1) <= u) & (corners.max(axis=1) >= l), axis=1) for l, u in zip(lower, upper)
    ]
    np.testing.assert_array_equal(seen.numpy(), np.array(meet, np.int32))
    assert meet[0].all()
    assert 32 < meet[1].sum() < len(ball.faces)


def test_signed_distance_from_a_stretched_box(device):
    shape = trimesh.creation.box([1.0, 1.0, 1.0]).subdivide()
    mesh = Mesh(shape.vertices, shape.faces, compute_inertia=False)
    scale = np.array([0.8, 1.2, 2.0])
    half = 0.5 * scale
    p = np.random.default_rng(3).uniform(-1.0, 1.0, (300, 3)) * half * 1.5
    surface = {
        "mesh": mesh.finalize(device), "scale": scale, "role": int(ROLE_SOLID), "winding": 1.0,
        "lower": -half, "upper": half, "size": 2.0 * np.linalg.norm(half), "X": [0, 0, 0, 0, 0, 0, 1],
    }  # fmt: skip
    level = call(device, level_of_surface, surface, p, [0.0, 5.0, 0.0], 1.0, 5.0)
    beyond = np.abs(p) - half
    exact = np.linalg.norm(np.maximum(beyond, 0.0), axis=1) + np.minimum(beyond.max(axis=1), 0.0)
    assert level["found"].all()
    np.testing.assert_allclose(level["value"], exact, atol=2e-5)
    outside = exact > 0.01
    away = np.sign(p) * np.maximum(beyond, 0.0)
    away = away[outside] / exact[outside, None]
    np.testing.assert_allclose(level["slope"][outside], away, atol=2e-3)


def test_a_point_under_a_terrain_is_inside_however_deep(device):
    field = hilly()
    lower, upper = field.bounds()
    surface = {
        "mesh": field.finalize(device), "scale": [1, 1, 1], "role": int(ROLE_TERRAIN), "winding": 1.0,
        "lower": lower, "upper": upper, "size": np.linalg.norm(upper - lower), "X": [0, 0, 0, 0, 0, 0, 1],
    }  # fmt: skip
    level = call(
        device, level_of_surface, surface, [[0.2, -1.5, 0.1], [0.2, 1.5, 0.1]], np.zeros(3), 1.0, 3.0
    )
    assert level["found"].tolist() == [1, 1]
    assert -1.8 < level["value"][0] < -1.0
    assert 1.0 < level["value"][1] < 1.8
    assert level["slope"][0, 1] > 0.0


def test_gap_of_boxes(device):
    rng = np.random.default_rng(4)
    a, b = rng.uniform(-1.0, 1.0, (2, 100, 3))
    half_a, half_b = rng.uniform(0.1, 0.4, (2, 100, 3))
    found = call(device, box_gap, a - half_a, a + half_a, b - half_b, b + half_b)
    apart = np.maximum(np.abs(a - b) - half_a - half_b, 0.0)
    np.testing.assert_allclose(found, np.linalg.norm(apart, axis=1), atol=1e-6)


@pytest.mark.parametrize("scale", [(1, 2, 3), (-1, 2, 3), (-1, -2, 3), (-1, -2, -3), (1, 0, -1)])
def test_scale_mirrors_where_its_determinant_is_negative(device, scale):
    assert call(device, mirrored, scale)[0] == np.sign(np.prod(scale))


def test_level_of_a_field_is_the_distance_within_its_box_and_beyond(device):
    lower, voxel, radius = -0.5, 0.02, 0.3
    grid = lower + voxel * np.stack(np.meshgrid(*[np.arange(51)] * 3, indexing="ij"), axis=3)
    values = np.float32(np.linalg.norm(grid, axis=3) - radius)
    volume = wp.Volume.load_from_numpy(values, [lower] * 3, voxel, 1.0, device=device)
    p = np.random.default_rng(5).uniform(-0.45, 0.45, (200, 3))
    p = p[np.linalg.norm(p, axis=1) > 0.05]
    scale = 1.5
    field = {"volume": volume.id, "scale": scale, "lower": [-0.48 * scale] * 3, "upper": [0.48 * scale] * 3}
    field["X"] = [0, 0, 0, 0, 0, 0, 1]
    # the same points within, and far outside of the box
    for factor in (scale, 4.0 * scale):
        at = factor * p
        level = call(device, level_at, field, at)
        away = np.linalg.norm(at, axis=1)
        exact = away - scale * radius
        inside = np.all(np.abs(at) < 0.46 * scale, axis=1)
        np.testing.assert_allclose(level["value"][inside], exact[inside], atol=3e-3)
        outside = ~inside & (exact > 0.0)
        np.testing.assert_allclose(level["value"][outside], exact[outside], rtol=2e-2, atol=3e-3)
        cosine = np.sum(level["slope"] * at, axis=1) / away
        assert cosine.min() > 0.98
    n = call(device, field_normal, volume.id, p, 0.01)
    np.testing.assert_allclose(n, p / np.linalg.norm(p, axis=1, keepdims=True), atol=0.05)
