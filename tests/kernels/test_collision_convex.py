"""Convex shapes: support points, nearest points of simplices, overlaps of faces, against brute force."""

import numpy as np
import pytest
import warp as wp
from collision.harness import Solid
from collision.solids import support as exact_support
from kernel_calls import DeviceFunctions
from scipy.spatial import ConvexHull as SciPyHull
from scipy.spatial import HalfspaceIntersection

from newtonsim.geometry.hull import ConvexHull, pack_hulls
from newtonsim.kernels.collision.convex.clip import CLIP_ROOM, overlap
from newtonsim.kernels.collision.convex.convex import rounding, support
from newtonsim.kernels.collision.convex.epa import EPA_EDGES, toggle_edge
from newtonsim.kernels.collision.convex.facets import box_face, contact_frame
from newtonsim.kernels.collision.convex.manifold_points import choose_four
from newtonsim.kernels.collision.convex.minkowski import (
    segment_weights,
    tetrahedron_weights,
    triangle_weights,
)
from newtonsim.kernels.views.shapes import KIND_HULL, HullView
from newtonsim.scene.enums import GeoType

call = DeviceFunctions(
    __name__,
    overlap,
    rounding,
    support,
    toggle_edge,
    box_face,
    contact_frame,
    choose_four,
    segment_weights,
    tetrahedron_weights,
    triangle_weights,
)

SOLIDS = {
    "sphere": Solid(GeoType.SPHERE, (0.4, 0.0, 0.0)),
    "box": Solid(GeoType.BOX, (0.2, 0.5, 0.3)),
    "capsule": Solid(GeoType.CAPSULE, (0.2, 0.5, 0.0)),
    "cylinder": Solid(GeoType.CYLINDER, (0.3, 0.2, 0.0)),
    "cone": Solid(GeoType.CONE, (0.3, 0.4, 0.0)),
    "ellipsoid": Solid(GeoType.ELLIPSOID, (0.2, 0.5, 0.3)),
}


def directions(count: int, seed: int) -> np.ndarray:
    d = np.random.default_rng(seed).normal(size=(count, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True)


@pytest.mark.parametrize("name", SOLIDS)
def test_support_points_reach_as_far_as_the_solid(device, name):
    solid, d = SOLIDS[name], directions(200, 0)
    shape = {"kind": int(solid.kind), "size": solid.size}
    found = call(device, support, shape, HullView(), d) + call(device, rounding, shape)[:, None] * d
    np.testing.assert_allclose(
        np.sum(found * d, axis=1), np.sum(exact_support(solid, d) * d, axis=1), atol=2e-6
    )


@pytest.mark.parametrize("points", [12, 200])
def test_support_of_a_hull_is_the_farthest_of_its_vertices(device, points):
    # of many vertices the search climbs from neighbour to neighbour; all lie on a sphere, so all count
    hull = ConvexHull(directions(points, 1))
    d = directions(300, 2)
    shape = {"kind": int(KIND_HULL), "hull": 0}
    found = call(device, support, shape, pack_hulls([hull], device), d)
    np.testing.assert_allclose(np.sum(found * d, axis=1), np.max(d @ hull.vertices.T, axis=1), atol=1e-6)


@pytest.mark.parametrize("corners", [2, 3, 4])
def test_nearest_point_of_a_simplex_is_a_support_point_of_its_own_direction(device, corners):
    rng = np.random.default_rng(corners)
    p = rng.normal(size=(corners, 2000, 3)) + rng.normal(size=(2000, 3))
    function = {2: segment_weights, 3: triangle_weights, 4: tetrahedron_weights}[corners]
    weights = call(device, function, *p).astype(np.float64)
    inside = np.all(weights == 1.0, axis=1)
    nearest = np.einsum("nk,kni->ni", weights, p)
    # the condition of the nearest point v of a convex set: v·(c - v) >= 0 for all its corners c
    slack = np.einsum("kni,ni->nk", p - nearest, nearest)
    assert np.all(weights >= 0.0)
    np.testing.assert_allclose(weights[~inside].sum(axis=1), 1.0, atol=1e-5)
    # thin triangles leave rounding, the nearest point of a wrong side leaves tenths
    assert slack[~inside].min() > -1e-3
    for tetrahedron in p[:, inside].transpose(1, 0, 2):
        assert np.all(SciPyHull(tetrahedron).equations[:, 3] < 1e-6)
    assert inside.any() == (corners == 4)


def test_contact_frames_are_right_handed_for_all_normals(device):
    n = np.vstack([np.eye(3), -np.eye(3), directions(50, 3), [[1e-4, 0.0, -1.0]]])
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    axes = call(device, contact_frame, np.zeros(3), n)["axes"]
    np.testing.assert_allclose(axes @ axes.transpose(0, 2, 1), np.tile(np.eye(3), (len(n), 1, 1)), atol=2e-6)
    np.testing.assert_allclose(np.linalg.det(axes), 1.0, atol=2e-6)
    np.testing.assert_allclose(axes[:, 2], n, atol=1e-6)


def test_face_of_a_box_has_the_four_corners_farthest_along_its_normal(device):
    size = np.array([0.2, 0.5, 0.3])
    for normal in np.vstack([np.eye(3), -np.eye(3)]):
        corner = wp.zeros(4, dtype=wp.vec3, device=device)
        label = wp.zeros(4, dtype=int, device=device)
        axis = call(device, box_face, size, normal, corner, label)[0]
        found = corner.numpy()
        assert normal[axis] != 0.0
        np.testing.assert_allclose(found @ normal, size[axis], atol=1e-6)
        assert len(np.unique(label.numpy())) == len(np.unique(np.round(found, 4), axis=0)) == 4
        # one after the other around the face
        assert np.all(np.count_nonzero(np.abs(found - np.roll(found, 1, axis=0)) > 1e-6, axis=1) == 1)


def facet(device, corners: np.ndarray, height: float, slope: np.ndarray):
    """A face over places (n, 2) of the contact frame that run counter-clockwise, as the kernels have it."""
    points = np.hstack([corners, (height + corners @ slope)[:, None]])
    face = {"count": len(corners), "height": height, "slope": slope, "turn": 1.0}
    labels = wp.array(np.arange(len(corners)), dtype=int, device=device)
    return face, wp.array(points, dtype=wp.vec3, device=device), labels


def test_overlap_of_two_faces_is_the_intersection_of_the_polygons(device):
    rng = np.random.default_rng(4)
    for count_a, count_b in [(4, 4), (3, 8), (8, 5), (4, 3)]:
        angles_a, angles_b = (np.arange(n) * 2.0 * np.pi / n + rng.uniform() for n in (count_a, count_b))
        a = np.stack([np.cos(angles_a), 0.7 * np.sin(angles_a)], axis=1)
        b = np.stack([0.3 + 0.8 * np.cos(angles_b), 0.1 + np.sin(angles_b)], axis=1)
        slope_a, slope_b = 0.1 * rng.normal(size=(2, 2))
        x = wp.zeros(int(CLIP_ROOM), dtype=wp.vec3, device=device)
        code = wp.zeros(int(CLIP_ROOM), dtype=int, device=device)
        faces = [*facet(device, a, 0.02, slope_a), *facet(device, b, -0.01, slope_b)]
        count = call(device, overlap, *faces, 0.0, x, code)[0]
        found = x.numpy()[:count]
        planes = np.vstack([SciPyHull(a).equations, SciPyHull(b).equations])
        exact = HalfspaceIntersection(planes, np.array([0.2, 0.05])).intersections
        assert SciPyHull(found[:, :2]).volume == pytest.approx(SciPyHull(exact).volume, rel=1e-4)
        np.testing.assert_allclose(found[:, 2], 0.03 + found[:, :2] @ (slope_a - slope_b), atol=1e-6)
        assert len(set(code.numpy()[:count])) == count


def test_overlap_of_lines_ends_where_one_of_both_ends(device):
    square = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    line, beside = np.array([[-1.5, 0.0], [0.5, 0.0]]), np.array([[2.0, 0.0], [-0.4, 0.0]])
    across = np.array([[0.0, -1.0], [0.2, 1.0]])
    slope_a, slope_b = np.array([0.1, 0.0]), np.array([-0.05, 0.0])
    for other, expected in [(beside, [-0.4, 0.5]), (square, [-1.0, 0.5]), (across, [])]:
        x = wp.zeros(int(CLIP_ROOM), dtype=wp.vec3, device=device)
        code = wp.zeros(int(CLIP_ROOM), dtype=int, device=device)
        faces = [*facet(device, line, 0.02, slope_a), *facet(device, other, -0.01, slope_b)]
        count = call(device, overlap, *faces, 1e-4, x, code)[0]
        found = x.numpy()[:count]
        np.testing.assert_allclose(np.sort(found[:, 0]), expected, atol=1e-5)
        np.testing.assert_allclose(found[:, 2], 0.03 + 0.15 * found[:, 0], atol=1e-6)


def test_four_points_of_many_hold_the_deepest_and_most_of_the_area(device):
    rng = np.random.default_rng(5)
    for _ in range(20):
        angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, 12))
        points = np.stack([np.cos(angle), np.sin(angle), rng.uniform(-1.0, 0.0, 12)], axis=1)
        array = wp.array(points, dtype=wp.vec3, device=device)
        chosen = [k for k in call(device, choose_four, 12, 1e-5, array)[0] if k >= 0]
        assert np.argmin(points[:, 2]) in chosen
        whole, kept = SciPyHull(points[:, :2]), SciPyHull(points[chosen, :2])
        assert kept.volume > 0.3 * whole.volume


def test_toggled_edges_of_a_patch_of_faces_leave_its_border(device):
    hull = SciPyHull(directions(30, 6))
    turned = [
        face if np.linalg.det(hull.points[face]) > 0.0 else face[::-1] for face in hull.simplices.tolist()
    ]
    patch = [face for face in turned if hull.points[face].mean(axis=0)[2] > 0.3]
    edges = wp.zeros(int(EPA_EDGES), dtype=int, device=device)
    count = 0
    sides = [(f[k], f[(k + 1) % 3]) for f in patch for k in range(3)]
    for i, j in sides:
        count = call(device, toggle_edge, edges, count, i, j)[0]
    found = {(e & 255, e >> 8) for e in edges.numpy()[:count].tolist()}
    assert found == {(i, j) for i, j in sides if (j, i) not in sides}
