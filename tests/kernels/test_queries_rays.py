"""Rays against solids and surfaces: closed forms against bisection of level functions in double precision."""

import numpy as np
import pytest
import trimesh
import warp as wp
from kernel_calls import DeviceFunctions
from queries.solids import hull_planes, level, spans, triangle_hits

from newtonsim.geometry import Heightfield, Mesh
from newtonsim.geometry.hull import ConvexHull, pack_hulls
from newtonsim.kernels.queries.closest_points import (
    CLASS_CONVEX,
    CLASS_FIELD,
    CLASS_HALF_SPACE,
    CLASS_NONE,
    CLASS_SURFACE,
    class_of,
)
from newtonsim.kernels.queries.ray_solids import span_of_solid
from newtonsim.kernels.queries.ray_surfaces import cast_along_heights, cast_on_mesh, cast_on_sheet
from newtonsim.kernels.queries.ray_times import times_of_primitive
from newtonsim.kernels.queries.rays import SceneView, inverse_direction, ray_meets_box
from newtonsim.kernels.views.shapes import KIND_HULL
from newtonsim.scene.enums import GeoType

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__,
    class_of,
    span_of_solid,
    cast_along_heights,
    cast_on_mesh,
    cast_on_sheet,
    inverse_direction,
    ray_meets_box,
)

KINDS = [GeoType.SPHERE, GeoType.BOX, GeoType.CAPSULE, GeoType.CYLINDER, GeoType.CONE, GeoType.ELLIPSOID]
SIZE = np.array([0.3, 0.5, 0.2])
AT_ORIGIN = [0, 0, 0, 0, 0, 0, 1]


@wp.kernel
def cast_on_primitives(
    kind: int,
    size: wp.vec3,
    o: wp.array(dtype=wp.vec3),
    d: wp.array(dtype=wp.vec3),
    times: wp.array(dtype=wp.vec2),
):
    """One thread per ray: when it enters and leaves a primitive."""
    i = wp.tid()
    enter, leave = times_of_primitive(kind, size, o[i], d[i])
    times[i] = wp.vec2(enter, leave)


def rays(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    o = rng.normal(size=(count, 3))
    d = 0.4 * rng.normal(size=(count, 3)) - o
    return o, d / np.linalg.norm(d, axis=1, keepdims=True)


def check_spans(enter, leave, kind, o, d, planes=None):
    exact_enter, exact_leave, least = spans(kind, SIZE, AT_ORIGIN, o, d, 5.0, planes)
    clear = np.abs(least) > 1e-3  # rays that graze are decided by rounding
    hit = np.isfinite(exact_enter) & clear
    assert hit.sum() > 50
    np.testing.assert_array_equal((enter <= leave)[clear], np.isfinite(exact_enter)[clear])
    np.testing.assert_allclose(enter[hit], exact_enter[hit], atol=3e-5)
    np.testing.assert_allclose(leave[hit], exact_leave[hit], atol=3e-5)
    return hit


@pytest.mark.parametrize("kind", [*KINDS, "hull"])
def test_part_of_a_line_in_a_solid_and_the_normals_at_its_ends(device, kind):
    o, d = rays(300, 0)
    points = np.random.default_rng(1).normal(size=(15, 3)) * 0.4
    hulls = pack_hulls([ConvexHull(points)], device)
    planes = hull_planes(points)
    number = int(KIND_HULL if kind == "hull" else kind)
    span = call(device, span_of_solid, number, SIZE, hulls, 0, 0.0, o, d)
    hit = check_spans(span["enter"], span["exit"], kind, o, d, planes)
    for name, sign in [("enter", -1.0), ("exit", 1.0)]:
        p = (o + span[name][:, None] * d)[hit]
        n = span[f"{name}_normal"][hit].astype(np.float64)
        np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, atol=1e-5)
        assert np.all(sign * np.sum(n * d[hit], axis=1) > -1e-4)
        # outward: along the normal the level grows, and faster than along any other direction nearby
        rise = level(kind, SIZE, p + 1e-2 * n, planes)
        assert np.all(rise > 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_times_without_normals(device, kind):
    o, d = rays(300, 2)
    d *= 1.7  # times count in lengths of the direction
    times = wp.zeros(300, dtype=wp.vec2, device=device)
    given = [wp.array(values, dtype=wp.vec3, device=device) for values in (o, d)]
    wp.launch(cast_on_primitives, 300, [int(kind), wp.vec3(*SIZE), *given, times], device=device)
    enter, leave = 1.7 * times.numpy().T
    check_spans(enter, leave, kind, o, d / 1.7)


def test_first_front_of_a_stretched_and_mirrored_mesh(device):
    shape = trimesh.creation.icosphere(2)
    source = Mesh(shape.vertices, shape.faces, compute_inertia=False)
    mesh = source.finalize(device)
    o, d = rays(200, 3)
    o *= 2.5
    for scale in ([0.6, 0.9, 1.2], [-0.6, 0.9, 1.2]):
        hit = call(device, cast_on_mesh, mesh, scale, o, d, 100.0, True)
        found, _, rim = triangle_hits(shape.vertices * scale, shape.faces, o, d)
        exact = found.min(axis=1)
        clear = np.where(
            np.isfinite(exact), np.take_along_axis(rim, found.argmin(axis=1)[:, None], 1)[:, 0], 1.0
        )
        clear = clear > 1e-3
        np.testing.assert_array_equal(np.isfinite(hit["distance"])[clear], np.isfinite(exact)[clear])
        met = clear & np.isfinite(exact)
        assert met.sum() > 50
        np.testing.assert_allclose(hit["distance"][met], exact[met], rtol=1e-5)
        p = o[met] + exact[met, None] * d[met]
        # stretched normals are those of the ellipsoid that the mesh comes near to
        ellipsoid = p / np.square(scale)
        ellipsoid /= np.linalg.norm(ellipsoid, axis=1, keepdims=True)
        cosine = np.abs(np.sum(hit["normal"][met] * ellipsoid, axis=1))
        assert cosine.min() > 0.9


def test_rays_straight_down_on_a_height_field_agree_with_rays_on_its_mesh(device):
    field = Heightfield(np.random.default_rng(4).uniform(-0.2, 0.2, (6, 7)), (2.0, 3.0))
    mesh = field.finalize(device)
    o = np.random.default_rng(5).uniform(-1.0, 1.0, (200, 3)) * [1.1, 0.0, 1.6] + [0.0, 2.0, 0.0]
    down = [0.0, -2.0, 0.0]
    scale = [1.0, 1.5, 0.9]
    heights = call(device, cast_along_heights, mesh, scale, o, down, False)
    query = call(device, cast_on_mesh, mesh, scale, o, down, 100.0, False)
    np.testing.assert_allclose(heights["distance"], query["distance"], rtol=1e-5)
    met = np.isfinite(heights["distance"])
    assert 100 < met.sum() < 200
    np.testing.assert_allclose(heights["normal"][met], query["normal"][met], atol=1e-4)
    # from below, and back sides not wanted
    assert np.isinf(
        call(device, cast_along_heights, mesh, scale, -o, [0.0, 2.0, 0.0], False)["distance"]
    ).all()


def test_sheets_end_at_their_border_and_are_seen_from_behind_if_asked(device):
    o = np.array([[0.9, 1.0, 0.4], [1.1, 1.0, 0.4], [0.9, -1.0, 0.4]])
    d = np.array([[0.0, -0.5, 0.0], [0.0, -0.5, 0.0], [0.0, 0.5, 0.0]])
    size = [2.0, 1.0, 0.0]
    np.testing.assert_array_equal(
        call(device, cast_on_sheet, size, o, d, False)["distance"], [2, np.inf, np.inf]
    )
    np.testing.assert_array_equal(call(device, cast_on_sheet, size, o, d, True)["distance"], [2, np.inf, 2])
    np.testing.assert_array_equal(call(device, cast_on_sheet, np.zeros(3), o, d, True)["distance"], [2, 2, 2])


def test_boxes_that_a_ray_may_meet(device):
    o, d = rays(300, 6)
    d[:20, 0] = 0.0
    lower, upper = np.array([-0.3, -0.5, -0.2]), np.array([0.3, 0.5, 0.2])
    inverse = call(device, inverse_direction, d)
    assert np.isfinite(inverse).all()
    t = np.linspace(0.0, 2.0, 4001)
    p = o[:, None] + t[:, None] * d[:, None]
    inside = np.all((p >= lower) & (p <= upper), axis=2).any(axis=1)
    found = call(device, ray_meets_box, o, inverse, lower, upper, 2.0)
    # a miss is a loss, too much is only slow
    assert np.all(found[inside])
    assert found.sum() < inside.sum() + 10


def test_every_kind_of_shape_has_its_class(device):
    scene = SceneView()
    kinds = [
        GeoType.SPHERE,
        GeoType.MESH,
        GeoType.HFIELD,
        GeoType.SDF,
        GeoType.PLANE,
        GeoType.PLANE,
        GeoType.NONE,
    ]
    scene.shape.kind = wp.array([int(k) for k in kinds] + [int(KIND_HULL)], dtype=int, device=device)
    size = np.ones((8, 3))
    size[4] = 0.0
    scene.shape.geo.scale = wp.array(size, dtype=wp.vec3, device=device)
    expected = [
        CLASS_CONVEX,
        CLASS_SURFACE,
        CLASS_SURFACE,
        CLASS_FIELD,
        CLASS_HALF_SPACE,
        CLASS_CONVEX,
        CLASS_NONE,
    ]
    assert call(device, class_of, scene, np.arange(8)).tolist() == [int(c) for c in expected] + [CLASS_CONVEX]
