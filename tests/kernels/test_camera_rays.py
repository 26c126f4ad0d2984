"""Rays of cameras, what they meet, which pixels a box touches, and colours in bytes."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from queries.solids import spans, triangle_hits
from scipy.spatial.transform import Rotation

from newtonsim.kernels.camera.elements import meet_triangle, turn_to_y
from newtonsim.kernels.camera.pictures import pack_color, primitive_uv, repeat, unpack_color
from newtonsim.kernels.camera.rays import (
    LENS_FISHEYE,
    LENS_PINHOLE,
    CameraRays,
    Mount,
    aim_cameras,
    ray_direction,
)
from newtonsim.kernels.camera.scene import meet_plane, meet_primitive
from newtonsim.kernels.camera.tiles import TILE, pack_span, span_in_tile
from newtonsim.scene.enums import GeoType

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(
    __name__,
    turn_to_y,
    pack_color,
    primitive_uv,
    repeat,
    unpack_color,
    ray_direction,
    meet_plane,
    meet_primitive,
    pack_span,
    span_in_tile,
)

# looks along -z, x to the right and y up; half the picture is 0.8 wide and 0.6 high at depth 1
PINHOLE = {
    "direction": [0.0, 0.0, -1.0],
    "direction_x": [0.8, 0.0, 0.0],
    "direction_y": [0.0, 0.6, 0.0],
    "lens": int(LENS_PINHOLE),
    "near": 0.01,
}


@wp.kernel
def meet_triangles(
    corner: wp.array2d(dtype=wp.vec3),
    o: wp.array(dtype=wp.vec3),
    d: wp.array(dtype=wp.vec3),
    found: wp.array(dtype=wp.vec3),
):
    """One thread per ray: where it meets its triangle, and the weights of the first two corners."""
    i = wp.tid()
    t, u, v = meet_triangle(corner[i, 0], corner[i, 1], corner[i, 2], o[i], d[i])
    found[i] = wp.vec3(t, u, v)


def test_rays_of_a_pinhole_lie_in_a_plane_and_those_of_a_fisheye_on_a_sphere(device):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1.0, 1.0, (2, 100))
    d = call(device, ray_direction, PINHOLE, x, y)
    np.testing.assert_allclose(d, np.stack([0.8 * x, 0.6 * y, -np.ones(100)], axis=1), atol=1e-6)
    fisheye = PINHOLE | {
        "lens": int(LENS_FISHEYE), "angle": [1.4, 1.4], "widest": 1.4,
        "direction_x": [1.0, 0.0, 0.0], "direction_y": [0.0, 1.0, 0.0],
    }  # fmt: skip
    d = call(device, ray_direction, fisheye, x, y)
    theta = 1.4 * np.hypot(x, y)
    seen = theta <= 1.4
    assert not d[~seen].any()
    # equidistant: the angle from the axis grows with the distance from the middle
    np.testing.assert_allclose(np.arccos(-d[seen, 2]), theta[seen], atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(d[seen], axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.arctan2(d[seen, 1], d[seen, 0]), np.arctan2(y, x)[seen], atol=1e-4)


def test_cameras_move_with_their_bodies(device):
    turns = Rotation.random(2, random_state=1)
    body = np.concatenate([[1.0, 2.0, 3.0], turns[0].as_quat()])
    own = np.concatenate([[0.1, 0.2, 0.3], turns[1].as_quat()])
    mounts = np.zeros(2, Mount.numpy_dtype())
    mounts["body"], mounts["pose"] = [0, -1], own
    mounts["rays"]["direction"], mounts["rays"]["origin"] = [0.0, 0.0, -1.0], [0.0, 0.0, 0.5]
    aimed = wp.zeros(2, dtype=CameraRays, device=device)
    given = [
        wp.array(mounts, dtype=Mount, device=device),
        wp.array([body], dtype=wp.transform, device=device),
    ]
    wp.launch(aim_cameras, 2, [*given, aimed], device=device)
    local = turns[1].apply([0.0, 0.0, 0.5]) + own[:3]
    axis = turns[1].apply([0.0, 0.0, -1.0])
    np.testing.assert_allclose(aimed.numpy()["origin"], [turns[0].apply(local) + body[:3], local], atol=1e-5)
    np.testing.assert_allclose(aimed.numpy()["direction"], [turns[0].apply(axis), axis], atol=1e-5)


def test_triangles_on_rays_of_any_length(device):
    rng = np.random.default_rng(2)
    corners, o = rng.normal(size=(300, 3, 3)), rng.normal(size=(300, 3)) * 2.0
    d = corners.mean(axis=1) + 0.5 * rng.normal(size=(300, 3)) - o
    found = wp.zeros(300, dtype=wp.vec3, device=device)
    given = [wp.array(values, dtype=wp.vec3, device=device) for values in (corners, o, d)]
    wp.launch(meet_triangles, 300, [*given, found], device=device)
    t, u, v = found.numpy().astype(np.float64).T
    for k in range(300):
        exact, _, rim = triangle_hits(corners[k], np.array([[0, 1, 2]]), o[k : k + 1], d[k : k + 1])
        if abs(rim[0, 0]) > 1e-3:
            assert np.isfinite(t[k]) == np.isfinite(exact[0, 0])
    hit = np.isfinite(t)
    assert 50 < hit.sum() < 250
    weights = np.stack([u, v, 1.0 - u - v], axis=1)[hit]
    point = np.einsum("nk,nki->ni", weights, corners[hit])
    np.testing.assert_allclose(o[hit] + t[hit, None] * d[hit], point, atol=2e-3)


@pytest.mark.parametrize("kind", [GeoType.BOX, GeoType.CYLINDER, GeoType.CONE, GeoType.ELLIPSOID])
def test_first_point_of_a_solid_from_outside_and_from_within(device, kind):
    rng = np.random.default_rng(3)
    size = np.array([0.3, 0.5, 0.2])
    o = rng.normal(size=(200, 3))
    o[:40] *= 0.02
    d = 0.3 * rng.normal(size=(200, 3)) - o
    length = np.linalg.norm(d, axis=1)
    enter, leave, least = spans(kind, size, [0, 0, 0, 0, 0, 0, 1], o, d / length[:, None], 9.0)
    clear = (np.abs(least) > 1e-3) & (np.abs(enter) > 1e-3)
    for backs in (False, True):
        t = call(device, meet_primitive, int(kind), size, o, d, 100.0, backs)
        exact = np.where(enter >= 0.0, enter, np.where(backs & (leave >= 0.0), leave, np.inf)) / length
        np.testing.assert_allclose(t[clear], exact[clear], rtol=1e-4, atol=1e-4)
    near = call(device, meet_primitive, int(kind), size, o, d, 0.3, False)
    assert np.all((near < 0.3) | np.isinf(near))


def test_planes_have_borders_unless_they_are_endless(device):
    o, d = np.array([[0.5, 2.0, 0.2], [0.5, -2.0, 0.2]]), np.array([[0.1, -1.0, 0.0], [0.1, 1.0, 0.0]])
    half = [0.6, 0.0, 0.3]
    assert np.isinf(call(device, meet_plane, half, o, d, 9.0, True)).all()
    half[0] = 0.8
    np.testing.assert_allclose(call(device, meet_plane, half, o, d, 9.0, False), [2.0, np.inf])
    np.testing.assert_allclose(call(device, meet_plane, half, o, d, 9.0, True), [2.0, 2.0])
    np.testing.assert_allclose(call(device, meet_plane, np.zeros(3), o, d, 1.5, True), [np.inf, np.inf])


def test_pixels_that_a_box_touches(device):
    rng = np.random.default_rng(4)
    middle = np.stack([*rng.uniform(-0.3, 0.3, (2, 50)), -rng.uniform(2.0, 5.0, 50)], axis=1)
    half = rng.uniform(0.01, 0.1, (50, 3))
    across, corner = np.array([80.0, 60.0]), np.array([64.0, 48.0])
    span = call(device, span_in_tile, PINHOLE, [0.0, 0.0, -1.0], middle, half, across, corner)
    sides = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    p = middle[:, None] + half[:, None] * sides
    # a point at (x, y) of the picture is on the ray direction + x direction_x + y direction_y
    column = (1.0 + p[..., 0] / -p[..., 2] / 0.8) * across[0] - corner[0]
    line = (1.0 - p[..., 1] / -p[..., 2] / 0.6) * across[1] - corner[1]
    exact = np.stack([column.min(axis=1), column.max(axis=1), line.min(axis=1), line.max(axis=1)], axis=1)
    assert np.all((span - exact) * [-1, 1, -1, 1] >= 0.0)
    np.testing.assert_allclose(span, exact, atol=0.1)
    # what reaches to the camera may be anywhere
    whole = call(
        device, span_in_tile, PINHOLE, [0.0, 0.0, -1.0], [0.0, 0.0, -0.05], [0.1] * 3, across, corner
    )
    assert whole[0].tolist() == [0.0, TILE, 0.0, TILE]
    assert call(device, pack_span, [-3.2, 4.9, 2.0, 99.0])[0].tolist() == [0, 4, 2, TILE - 1]


def test_colours_in_bytes(device):
    bytes_ = np.random.default_rng(5).integers(0, 256, (50, 4))
    packed = call(device, pack_color, bytes_ / 255.0)
    np.testing.assert_array_equal(packed.view(np.uint8).reshape(-1, 4), bytes_)
    np.testing.assert_allclose(call(device, unpack_color, packed), bytes_ / 255.0, atol=1e-6)
    assert call(device, pack_color, [2.0, -1.0, 0.5, 1.0]).view(np.uint8).tolist() == [255, 0, 127, 255]
    k = np.arange(-9, 9)
    np.testing.assert_array_equal(call(device, repeat, k, 4), k % 4)


def test_texture_coordinates_cover_every_face_of_a_box_once(device):
    size, rng = np.array([0.2, 0.5, 0.3]), np.random.default_rng(6)
    for n in np.vstack([np.eye(3), -np.eye(3)]):
        p = rng.uniform(-1.0, 1.0, (50, 3)) * size
        axis = np.flatnonzero(n)[0]
        p[:, axis] = n[axis] * size[axis]
        uv = call(device, primitive_uv, int(GeoType.BOX), size, p, n)
        assert np.all((uv >= 0.0) & (uv <= 1.0))
        # an affine map that keeps the orientation, as seen from outside
        across = p[:, np.arange(3) != axis] / size[np.arange(3) != axis]
        matrix = np.linalg.lstsq(np.hstack([across, np.ones((50, 1))]), uv)[0][:2]
        assert abs(np.linalg.det(matrix)) == pytest.approx(0.25, rel=1e-3)


def test_rotation_to_the_y_axis(device):
    axis = np.vstack([np.eye(3), -np.eye(3), Rotation.random(30, random_state=7).apply([1.0, 0.0, 0.0])])
    R = call(device, turn_to_y, axis)
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", R, axis), np.tile([0, 1, 0], (len(axis), 1)), atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.det(R), 1.0, atol=1e-5)
