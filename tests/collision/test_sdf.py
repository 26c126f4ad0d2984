"""Distance fields made of meshes, and shapes against them."""

import functools

import numpy as np
import pytest
import warp as wp
from collision.harness import IDENTITY, box, capsule, cylinder, pose, random_poses, rotation, to_local
from collision.solids import height_along, off_surface, support
from collision.surfaces_lab import SurfaceLab, box_mesh, concatenated, floor_mesh
from collision.test_mesh_contacts import SOLIDS

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.geometry import SDF, Mesh
from newtonsim.kernels.collision.families.sdf import collide_sdf
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_SDF
from newtonsim.kernels.collision.surfaces.distance_grid import read_field

RADIUS = 0.5


def ball_mesh(subdivisions: int = 4, radius: float = RADIUS) -> Mesh:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=subdivisions, radius=radius)
    return Mesh(ball.vertices, ball.faces)


@functools.cache
def ball_field(device: str) -> SDF:
    """The distance from the ball, sampled once for all solids."""
    return SDF.from_mesh(ball_mesh(), resolution=48, device=device)


def lab(a, b, device: str, scale_b=1.0) -> SurfaceLab:
    return SurfaceLab(collide_sdf, FAMILY_SDF, a, b, device, scale_b=scale_b)


def read(sdf: SDF, points: np.ndarray, device: str) -> np.ndarray:
    """The field at points (n, 3)."""
    sdf.finalize(device)
    value, slope = (
        wp.zeros(len(points), dtype=float, device=device),
        wp.zeros(len(points), dtype=wp.vec3, device=device),
    )
    inputs = [sdf.volume.id, wp.array(points, dtype=wp.vec3, device=device), 1e-3, value, slope]
    wp.launch(read_field, dim=len(points), inputs=inputs, device=device)
    return value.numpy()


def box_distance(p: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Signed distance of points (n, 3) from a box."""
    q = np.abs(p) - half
    return np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(np.max(q, axis=1), 0.0)


def test_field_of_a_box_and_a_ball(device):
    rng = np.random.default_rng(0)
    half = np.array([0.5, 0.2, 0.3])
    sdf = SDF.from_mesh(box_mesh(*half), voxel_size=0.02, margin=0.1, device=device)
    p = rng.uniform(-1.0, 1.0, (5000, 3)) * (half + 0.09)
    # linear interpolation rounds the edges off by a part of a voxel
    np.testing.assert_allclose(read(sdf, p, device), box_distance(p, half), atol=0.01)
    over_one_face = np.diff(np.sort(np.abs(p) - half, axis=1), axis=1)[:, 1] > 0.05
    over_one_face &= np.sort(np.abs(p) - half, axis=1)[:, 1] < -0.03
    over_one_face &= box_distance(p, half) > -0.15
    assert over_one_face.sum() > 1000
    np.testing.assert_allclose(
        read(sdf, p, device)[over_one_face], box_distance(p, half)[over_one_face], atol=1e-5
    )
    ball = SDF.from_mesh(ball_mesh(), resolution=40, device=device)
    p = rng.normal(size=(5000, 3))
    p *= rng.uniform(0.3, 0.53, (5000, 1)) / np.linalg.norm(p, axis=1, keepdims=True)
    np.testing.assert_allclose(read(ball, p, device), np.linalg.norm(p, axis=1) - RADIUS, atol=2e-3)


def test_mass_is_that_of_the_mesh(device):
    mesh = box_mesh(0.5, 0.2, 0.3)
    sdf = SDF.from_mesh(mesh, resolution=16, device=device)
    builder = newtonsim.ModelBuilder()
    body = builder.add_body()
    builder.add_shape_sdf(body, sdf=sdf, density=1000.0)
    assert builder.body_mass[body] == pytest.approx(240.0, rel=1e-5)
    np.testing.assert_allclose(
        sdf.I, np.diag([0.24 * (0.04 + 0.09), 0.24 * 0.34, 0.24 * 0.29]) / 3.0, atol=1e-7
    )


def test_bounds_hold_the_surface(device):
    sdf = SDF.from_mesh(box_mesh(0.5, 0.2, 0.3), voxel_size=0.05, margin=0.1, device=device)
    lower, upper = sdf.bounds()
    assert np.all(upper >= [0.6 - 1e-6, 0.3 - 1e-6, 0.4 - 1e-6])
    assert np.all(upper <= 0.06 + np.array([0.6, 0.3, 0.4]))
    np.testing.assert_allclose(lower, -upper)


@pytest.mark.parametrize(
    ("mesh", "options", "words"),
    [
        (floor_mesh(2, 1.0), {}, "closed"),
        (Mesh(box_mesh(1, 1, 1).vertices, box_mesh(1, 1, 1).indices[::-1]), {}, "inside out"),
        (box_mesh(1, 1, 1, name="crate"), {"voxel_size": 1e-4}, "crate.*voxels"),
        (box_mesh(1, 1, 1), {"voxel_size": -1.0}, "voxel size"),
        (box_mesh(1, 1, 1), {"resolution": 0}, "resolution"),
        (box_mesh(1, 1, 1), {"margin": float("nan")}, "margin"),
    ],
)
def test_bad_requests_are_refused(mesh, options, words, device):
    with pytest.raises(ModelError, match=words):
        SDF.from_mesh(mesh, **options, device=device)


def test_field_given_as_a_volume(device):
    """A field without a mesh knows its box and points on its surface."""
    made = SDF.from_mesh(ball_mesh(), resolution=32, device=device)
    made.finalize(device)
    given = SDF(made.volume)
    assert given.finalize(device) == made.volume.id
    for a, b in zip(given.bounds(), made.bounds()):
        np.testing.assert_allclose(a, b, atol=2.0 / 32)
    points = given.surface_points
    assert len(points) > 500
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), RADIUS, atol=5e-3)
    assert SDF().finalize(device) == 0


@pytest.mark.parametrize("kind", SOLIDS)
def test_solid_on_a_ball(kind, device):
    """The least gap of a solid from a ball field is that of its nearest point from the ball's centre."""
    solid, radius = SOLIDS[kind], RADIUS
    rng = np.random.default_rng(3)
    poses = random_poses(rng, 60, 0.0)
    d = rng.normal(size=(60, 3))
    poses[:, :3] = d / np.linalg.norm(d, axis=1, keepdims=True) * rng.uniform(0.5, 0.75, (60, 1))
    found = lab(solid, ball_field(device), device).collide(poses, IDENTITY, 0.2)
    seen = 0
    for X, m in zip(poses, found):
        # Frank-Wolfe in float64: the point of the solid nearest to the ball's centre
        x = X[:3].copy()
        for _ in range(1000):
            s = rotation(X) @ support(solid, (-x / np.linalg.norm(x))[None] @ rotation(X))[0] + X[:3]
            step = s - x
            if -(step @ x) < 1e-5:
                break
            x += np.clip(-(step @ x) / (step @ step), 0.0, 1.0) * step
        gap = np.linalg.norm(x) - radius
        if gap < 0.15:
            seen += 1
            nearest = np.argmin(m.distance)
            assert m.distance[nearest] == pytest.approx(gap, abs=3e-3)
            assert m.normal[nearest] @ x / np.linalg.norm(x) > 0.98
            assert np.max(off_surface(solid, to_local(X, m.point))) < 1e-3
    assert seen > 20


@pytest.mark.parametrize("kind", SOLIDS)
@pytest.mark.parametrize("depth", [0.004, -0.01])
def test_solid_on_the_flat_side_of_a_box(kind, depth, device):
    """Upright on the top of a box field: the depth is that over the plane, the normal is vertical."""
    solid = SOLIDS[kind]
    field = SDF.from_mesh(box_mesh(1.0, 0.2, 1.0), resolution=50, device=device)
    low = height_along(solid, IDENTITY, np.array([0.0, -1.0, 0.0]))
    (m,) = lab(solid, field, device).collide(pose((0.1, 0.2 + low - depth, 0.2), angle=0.3), IDENTITY, 0.02)
    assert m.distance.min() == pytest.approx(-depth, abs=1e-4)
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-3)
    if kind in ("box", "cylinder", "cone"):
        # it stands on all of its base
        centre = m.point.mean(axis=0)
        np.testing.assert_allclose(centre[[0, 2]], [0.1, 0.2], atol=0.01)
        assert len(m) >= 4


def test_box_over_the_edge_of_a_field(device):
    """A box that overhangs is held at the rim of the field as well."""
    field = SDF.from_mesh(box_mesh(0.5, 0.1, 0.5), resolution=50, device=device)
    (m,) = lab(box(0.2, 0.05, 0.1), field, device).collide(pose((0.4, 0.148, 0.0)), IDENTITY, 0.005)
    touching = m.point[m.distance < 0.0]
    assert touching[:, 0].min() == pytest.approx(0.2, abs=1e-3)
    assert touching[:, 0].max() > 0.45
    assert m.normal[m.distance < 0.0][:, 1].min() > 0.9


def test_ball_in_the_corner_of_a_field(device):
    """A ball between floor and wall of one field touches both."""
    wall = box_mesh(0.2, 0.6, 0.5)
    wall.vertices += np.array([-0.7, 0.1, 0.0], np.float32)
    floor = box_mesh(0.9, 0.2, 0.5)
    floor.vertices += np.array([0.0, -0.7, 0.0], np.float32)
    room = concatenated([Mesh(wall.vertices, wall.indices), Mesh(floor.vertices, floor.indices)])
    field = SDF.from_mesh(room, resolution=60, device=device)
    (m,) = lab(SOLIDS["sphere"], field, device).collide(
        pose((-0.5 + 0.098, -0.5 + 0.097, 0.0)), IDENTITY, 0.01
    )
    for direction, depth in (((1.0, 0.0, 0.0), 0.002), ((0.0, 1.0, 0.0), 0.003)):
        along = m.normal @ direction > 0.97
        assert along.any()
        assert m.distance[along].min() == pytest.approx(-depth, abs=1.5e-3)


@pytest.mark.parametrize("scale", [1e-2, 5.0])
def test_scale(scale, device):
    field = SDF.from_mesh(box_mesh(0.5, 0.2, 0.5), resolution=40, device=device)
    for solid in (capsule(0.05 * scale, 0.1 * scale), cylinder(0.1 * scale, 0.05 * scale)):
        low = height_along(solid, IDENTITY, np.array([0.0, -1.0, 0.0]))
        X = pose((0.1 * scale, 0.2 * scale + low - 0.001 * scale, 0.0))
        (m,) = lab(solid, field, device, scale).collide(X, IDENTITY, 0.01 * scale)
        assert m.distance.min() == pytest.approx(-0.001 * scale, abs=1e-4 * scale)
        assert m.normal[:, 1].min() > 0.999


@pytest.mark.parametrize("as_field", [False, True], ids=["mesh", "field"])
def test_box_mesh_and_box_field_on_a_field(as_field, device):
    """Both kinds of sampled shapes lie flat on the top of another field."""
    half = np.array([0.2, 0.1, 0.15])
    other = box_mesh(*half)
    if as_field:
        other = SDF.from_mesh(other, resolution=24, device=device)
    field = SDF.from_mesh(box_mesh(0.6, 0.2, 0.6), resolution=40, device=device)
    X = pose((0.05, 0.298, 0.1), angle=0.4)
    (m,) = lab(other, field, device).collide(X, IDENTITY, 0.01)
    assert len(m) >= 4
    np.testing.assert_allclose(m.distance, -0.002, atol=2e-3)
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-2)
    local = to_local(X, m.point)
    assert np.ptp(local[:, 0]) > 0.3
    assert np.ptp(local[:, 2]) > 0.2
    # half over the rim, the corner of the field carries it
    (m,) = lab(other, field, device).collide(pose((0.55, 0.298, 0.1)), IDENTITY, 0.005)
    touching = m.point[m.distance < 0.0]
    assert touching[:, 0].max() > 0.55
    assert touching[:, 0].min() < 0.4
