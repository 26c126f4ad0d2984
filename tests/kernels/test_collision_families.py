"""Narrow phases of boxes, capsules and planes: their inner functions against brute force."""

import numpy as np
import pytest
from collision.harness import Solid
from collision.solids import support as exact_support
from kernel_calls import DeviceFunctions
from scipy.optimize import minimize_scalar
from scipy.spatial.transform import Rotation

from newtonsim.kernels.collision.families.box import best_axis
from newtonsim.kernels.collision.families.mesh import axis_number
from newtonsim.kernels.collision.families.plane import candidate_count, candidate_point, on_plane
from newtonsim.kernels.collision.families.round import axis_gap, nearest_axes, nearest_to_box, way_out
from newtonsim.scene.enums import GeoType

call = DeviceFunctions(
    __name__,
    best_axis,
    axis_number,
    candidate_count,
    candidate_point,
    on_plane,
    axis_gap,
    nearest_axes,
    nearest_to_box,
    way_out,
)


def test_best_axis_of_two_boxes_is_the_best_of_all_fifteen(device):
    rng = np.random.default_rng(0)
    count = 300
    a, b = rng.uniform(0.1, 1.0, (2, count, 3))
    R = Rotation.random(count, random_state=0).as_matrix()
    offset = rng.uniform(-1.5, 1.5, (count, 3))
    boxes = {"a": a, "b": b, "rotation": R, "offset": offset, "spread": np.abs(R)}
    found = call(device, best_axis, boxes, 10.0)
    for k in range(count):
        own = [*np.eye(3), *R[k].T]
        axes = np.array(own + [np.cross(e, f) for e in np.eye(3) for f in R[k].T])
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        gaps = np.abs(axes @ offset[k]) - np.abs(axes) @ a[k] - np.abs(axes @ R[k]) @ b[k]
        assert found["separation"][k] == pytest.approx(gaps.max(), abs=2e-3)
        n = found["normal"][k]
        gap = abs(n @ offset[k]) - np.abs(n) @ a[k] - np.abs(n @ R[k]) @ b[k]
        assert found["separation"][k] == pytest.approx(gap, abs=1e-5)
        # from b to a
        assert n @ offset[k] <= 1e-6


def random_axes(rng: np.random.Generator, count: int, spread: float) -> dict:
    return {"center": rng.uniform(-spread, spread, (count, 3)), "half": rng.normal(size=(count, 3))}


def test_nearest_point_of_two_axes(device):
    rng = np.random.default_rng(1)
    a, b = random_axes(rng, 200, 2.0), random_axes(rng, 200, 2.0)
    t = call(device, nearest_axes, a, b)
    gap = call(device, axis_gap, a, b, t)
    grid = np.linspace(-1.0, 1.0, 201)
    points_a = a["center"][:, None] + grid[:, None] * a["half"][:, None]
    points_b = b["center"][:, None] + grid[:, None] * b["half"][:, None]
    for k in range(200):
        brute = np.linalg.norm(points_a[k][:, None] - points_b[k][None], axis=2).min()
        assert gap[k] <= brute + 1e-5
        assert gap[k] >= brute - 0.05


def test_parallel_axes_touch_in_the_middle_of_where_they_lie_beside_each_other(device):
    a = {"center": [0.0, 0.0, 0.0], "half": [0.0, 1.0, 0.0]}
    b = {"center": [0.5, 1.0, 0.0], "half": [0.0, -0.6, 0.0]}
    # beside each other from y = 0.4 to y = 1
    assert call(device, nearest_axes, a, b)[0] == pytest.approx(0.7, abs=1e-6)


def test_nearest_point_of_an_axis_to_a_box(device):
    rng = np.random.default_rng(2)
    size = np.array([0.5, 0.3, 0.8])
    a = random_axes(rng, 200, 2.0)
    t = call(device, nearest_to_box, a, size)

    def gap(k: int, x: float) -> float:
        return np.linalg.norm(np.maximum(np.abs(a["center"][k] + x * a["half"][k]) - size, 0.0))

    for k in range(200):
        exact = minimize_scalar(lambda x, k=k: gap(k, x) ** 2, bounds=(-1.0, 1.0), method="bounded")
        assert gap(k, t[k]) <= min(np.sqrt(exact.fun), gap(k, -1.0), gap(k, 1.0)) + 1e-4


def test_way_out_of_a_box_is_the_shortest_translation_that_parts_them(device):
    rng = np.random.default_rng(3)
    size = np.array([0.5, 0.3, 0.8])
    a = {"center": rng.uniform(-0.2, 0.2, (100, 3)), "half": rng.normal(size=(100, 3))}
    found = call(device, way_out, a, size)
    n, separation = found[:, :3], found[:, 3]
    np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, atol=1e-5)
    low = np.sum(n * a["center"], axis=1) - np.abs(np.sum(n * a["half"], axis=1))
    np.testing.assert_allclose(separation, low - np.abs(n) @ size, atol=1e-5)
    # in no other direction do the axis and the box come apart sooner
    others = Rotation.random(3000, random_state=3).apply([1.0, 0.0, 0.0])
    ends = np.abs(a["half"] @ others.T)
    assert np.all((a["center"] @ others.T - ends - np.abs(others) @ size).max(axis=1) <= separation + 1e-4)


@pytest.mark.parametrize(
    "kind", [GeoType.SPHERE, GeoType.BOX, GeoType.CAPSULE, GeoType.CYLINDER, GeoType.CONE, GeoType.ELLIPSOID]
)
def test_deepest_candidate_against_a_plane_is_the_lowest_point_of_the_shape(device, kind):
    size = np.array([0.3, 0.4, 0.2])
    n = Rotation.random(100, random_state=4).apply([0.0, 1.0, 0.0])
    count = call(device, candidate_count, int(kind))[0]
    points = np.array([call(device, candidate_point, int(kind), size, k, n) for k in range(count)])
    lowest = np.einsum("kni,ni->nk", points, n).min(axis=1)
    exact = np.sum(exact_support(Solid(kind, tuple(size)), -n) * n, axis=1)
    np.testing.assert_allclose(lowest, exact, atol=5e-4 if kind in (GeoType.CYLINDER, GeoType.CONE) else 1e-6)


def test_points_over_a_finite_plane(device):
    turn = Rotation.from_euler("xyz", [0.3, 0.4, 0.5])
    X = np.concatenate([[1.0, 2.0, 3.0], turn.as_quat()])
    local = np.random.default_rng(5).uniform(-2.0, 2.0, (100, 3))
    found = call(device, on_plane, turn.apply(local) + X[:3], X, [2.0, 1.0, 0.0])
    np.testing.assert_array_equal(found, (np.abs(local[:, 0]) <= 1.0) & (np.abs(local[:, 2]) <= 0.5))
    assert call(device, on_plane, local, X, [0.0, 0.0, 0.0]).all()


def test_axis_number_names_the_nearest_of_six_directions(device):
    six = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]], float)
    n = Rotation.random(200, random_state=6).apply([1.0, 0.0, 0.0])
    np.testing.assert_array_equal(call(device, axis_number, n), np.argmax(n @ six.T, axis=1))
