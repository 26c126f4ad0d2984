"""Distances of points from shapes, of elements from each other, and where particles are in grids."""

import numpy as np
import pytest
import trimesh
import warp as wp
from collision.harness import Solid
from collision.solids import off_surface
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.geometry.hull import ConvexHull, pack_hulls
from newtonsim.kernels.particles.aerodynamics import air_force
from newtonsim.kernels.particles.contacts import weights_of
from newtonsim.kernels.particles.grid import folded, is_placeable, lattice_cell
from newtonsim.kernels.particles.pairs import come_near, wrapped
from newtonsim.kernels.particles.point_distance import hull_distance, solid_distance
from newtonsim.kernels.particles.self_contact.bvh_surface import boxes_overlap
from newtonsim.kernels.particles.self_contact.contact import press
from newtonsim.kernels.particles.self_contact.geometry import (
    fine_normal,
    nearest_of_segments,
    nearest_on_triangle,
)
from newtonsim.scene.enums import GeoType

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__,
    air_force,
    weights_of,
    folded,
    is_placeable,
    lattice_cell,
    come_near,
    wrapped,
    hull_distance,
    solid_distance,
    boxes_overlap,
    press,
    fine_normal,
)


@wp.kernel
def nearest_pairs(
    x: wp.array2d(dtype=wp.vec3d), weights: wp.array(dtype=wp.vec3d), parameters: wp.array(dtype=wp.vec3d)
):
    """One thread per row of four points: the first against the triangle of the others, and two segments."""
    i = wp.tid()
    a = x[i, 0]
    b = x[i, 1]
    c = x[i, 2]
    d = x[i, 3]
    weights[i] = nearest_on_triangle(a, b, c, d)
    parameters[i] = nearest_of_segments(b - a, d - c, a - c, wp.float64(1.0e-12))


def surface_samples(solid: Solid, count: int) -> np.ndarray:
    """Points of the surface in evenly spread directions from the middle, by bisection."""
    d = Rotation.random(count, random_state=0).apply([1.0, 0.0, 0.0])
    low, high = np.zeros(count), np.full(count, 5.0)
    for _ in range(50):
        middle = 0.5 * (low + high)
        inside = off_surface(solid, middle[:, None] * d) < 0.0
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low[:, None] * d


SOLIDS = {
    "sphere": Solid(GeoType.SPHERE, (0.4, 0.0, 0.0)),
    "box": Solid(GeoType.BOX, (0.2, 0.5, 0.3)),
    "capsule": Solid(GeoType.CAPSULE, (0.2, 0.5, 0.0)),
    "cylinder": Solid(GeoType.CYLINDER, (0.3, 0.2, 0.0)),
    "cone": Solid(GeoType.CONE, (0.3, 0.4, 0.0)),
    "ellipsoid": Solid(GeoType.ELLIPSOID, (0.2, 0.5, 0.3)),
    "hull": Solid(11, (1, 1, 1), ConvexHull(Rotation.random(20, random_state=9).apply([0.5, 0.0, 0.0]))),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_gap_of_a_point_is_that_of_the_nearest_point_of_the_surface(device, name):
    solid = SOLIDS[name]
    p = np.random.default_rng(1).uniform(-0.9, 0.9, (300, 3))
    if name == "hull":
        gap = call(device, hull_distance, pack_hulls([solid.hull], device), 0, p, 10.0)
    else:
        gap = call(device, solid_distance, int(solid.kind), solid.size, p)
    distance, normal = gap["distance"].astype(np.float64), gap["normal"].astype(np.float64)
    np.testing.assert_array_equal(distance < 0.0, off_surface(solid, p) < 0.0)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0, atol=1e-5)
    # back along the normal lies a point of the surface, and no sample of it is nearer
    np.testing.assert_allclose(off_surface(solid, p - distance[:, None] * normal), 0.0, atol=5e-5)
    samples = surface_samples(solid, 3000)
    nearest = np.linalg.norm(p[:, None] - samples[None], axis=2).min(axis=1)
    assert np.all(np.abs(distance) <= nearest + 5e-5)


def test_nearest_features_of_elements(device):
    x = np.random.default_rng(2).normal(size=(400, 4, 3))
    weights, parameters = (wp.zeros(400, dtype=wp.vec3d, device=device) for _ in range(2))
    points = wp.array(x, dtype=wp.vec3d, device=device)
    wp.launch(nearest_pairs, 400, [points, weights, parameters], device=device)
    w = weights.numpy()
    exact = trimesh.triangles.closest_point(x[:, 1:], x[:, 0])
    np.testing.assert_allclose(np.einsum("nk,nki->ni", w, x[:, 1:]), exact, atol=1e-10)
    st = parameters.numpy()[:, :2]
    u, v = x[:, 1] - x[:, 0], x[:, 3] - x[:, 2]
    gap = x[:, 0] + st[:, :1] * u - x[:, 2] - st[:, 1:] * v
    # slopes of half the squared distance vanish inside and point outward at the ends
    for slope, t in [(np.sum(gap * u, axis=1), st[:, 0]), (-np.sum(gap * v, axis=1), st[:, 1])]:
        assert np.all((t >= 0.0) & (t <= 1.0))
        assert np.all(slope[t > 0.0] < 1e-10)
        assert np.all(slope[t < 1.0] > -1e-10)
    # the direction of a gap that single precision would lose
    a, b = np.array([0.0, 0.0, 1e-7]), np.eye(3)
    np.testing.assert_allclose(
        call(device, fine_normal, False, a, b[0], b[1], -b[0] - b[1])[0], b[2], atol=1e-6
    )


def test_force_of_self_contact_is_the_slope_of_its_energy(device):
    radius = 0.02
    g = np.linspace(0.004, 0.03, 200)
    force, stiffness = call(device, press, radius, g).T.astype(np.float64)
    smooth = np.abs(g - radius) > 3e-4  # it begins with a kink
    smooth[[0, -1]] = False
    np.testing.assert_allclose(-np.gradient(force, g)[smooth], stiffness[smooth], rtol=0.1, atol=0.05)
    assert force[g > radius].max() == 0.0
    # both formulas agree where they meet
    low, high = call(device, press, radius, [0.5 * radius * (1 - 1e-4), 0.5 * radius * (1 + 1e-4)])
    np.testing.assert_allclose(low, high, rtol=1e-3)


def test_weights_of_a_point_in_a_triangle(device):
    rng = np.random.default_rng(3)
    corners, weights = rng.normal(size=(50, 3, 3)), rng.dirichlet([1, 1, 1], 50)
    p = np.einsum("nk,nki->ni", weights, corners)
    found = call(device, weights_of, dict(zip("abc", corners.transpose(1, 0, 2))), p)
    np.testing.assert_allclose(np.einsum("nk,nki->ni", found, corners), p, atol=1e-4)


def test_air_brakes_along_the_motion_and_lifts_across_it(device):
    rng = np.random.default_rng(4)
    ab, ac, v = rng.normal(size=(3, 50, 3))
    drag = call(device, air_force, ab, ac, v, 1.2, 0.0)
    n = np.cross(ab, ac)
    area = 0.5 * np.linalg.norm(n, axis=1)
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    np.testing.assert_allclose(
        drag, -1.2 * (area * np.abs(np.sum(n * v, axis=1)))[:, None] * v, rtol=1e-4, atol=1e-5
    )
    lift = call(device, air_force, ab, ac, v, 0.0, 1.2)
    np.testing.assert_allclose(np.sum(lift * v, axis=1), 0.0, atol=1e-4)
    # against the side from which the air comes, and with the square of the speed
    assert np.all(np.sum(lift * n, axis=1) * np.sum(v * n, axis=1) < 1e-6)
    np.testing.assert_allclose(
        call(device, air_force, ab, ac, 2.0 * v, 0.0, 1.2), 4.0 * lift, rtol=1e-4, atol=1e-5
    )
    # the order of the corners does not matter
    np.testing.assert_allclose(call(device, air_force, ac, ab, v, 0.0, 1.2), lift, rtol=1e-4, atol=1e-5)


def test_cells_of_particles(device):
    p = np.random.default_rng(5).normal(size=(100, 3)) * 1e4
    cells = call(device, lattice_cell, p, 0.1)
    exact = np.floor(np.float32(p).astype(np.float64) / np.float64(np.float32(0.1)))
    np.testing.assert_array_equal(cells, exact)
    assert call(device, is_placeable, [[0, 0, 0], [np.nan, 0, 0], [0, 0, np.nan]]).tolist() == [
        True,
        False,
        False,
    ]
    c = np.arange(-20, 20)
    np.testing.assert_array_equal(call(device, folded, c, 7), c % 7)
    np.testing.assert_array_equal(call(device, wrapped, np.arange(-1, 8), 7), np.arange(-1, 8) % 7)


def test_what_is_near(device):
    rng = np.random.default_rng(6)
    p, o = rng.uniform(0.0, 1.0, (2, 200, 4))
    distance = np.linalg.norm(p[:, :3] - o[:, :3], axis=1)
    found = call(device, come_near, p, o, 0.1)
    # all that touch or attract each other, and none that is far away
    assert np.all(found[distance < p[:, 3] + o[:, 3] + 0.1])
    assert not np.any(found[distance > 2.0 * (p[:, 3] + o[:, 3] + 0.1)])
    a, b = rng.uniform(-1.0, 1.0, (2, 200, 3))
    size = rng.uniform(0.0, 0.8, (2, 200, 3))
    meet = np.all((a <= b + size[1]) & (b <= a + size[0]), axis=1)
    np.testing.assert_array_equal(call(device, boxes_overlap, a, a + size[0], b, b + size[1]), meet)
