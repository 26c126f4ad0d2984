"""Convex shapes against triangle meshes: distances, depths, directions, sides, edges and scales."""

import functools

import numpy as np
import pytest
from collision.harness import (
    IDENTITY,
    Solid,
    box,
    capsule,
    cone,
    cylinder,
    ellipsoid,
    hull,
    pose,
    random_poses,
    rotation,
    sphere,
    to_local,
)
from collision.solids import coal_shape, height_along, off_surface
from collision.surfaces_lab import SurfaceLab, box_mesh, concatenated, floor_mesh, triangle_distances

from newtonsim.geometry import Mesh
from newtonsim.kernels.collision.families.mesh import collide_mesh
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_MESH

SOLIDS = {
    "sphere": sphere(0.1),
    "box": box(0.1, 0.06, 0.15),
    "capsule": capsule(0.05, 0.12),
    "cylinder": cylinder(0.08, 0.1),
    "cone": cone(0.1, 0.12),
    "ellipsoid": ellipsoid(0.06, 0.1, 0.14),
    "hull": hull(np.random.default_rng(5).normal(size=(24, 3)) * 0.06),
}
CURVED = ("cylinder", "cone", "ellipsoid")
SCALES = {"plain": (1.0, 1.0, 1.0), "stretched": (1.4, 0.7, 1.0), "mirrored": (-1.2, 0.8, 1.0)}
REACH = 0.15


def bumpy_ball(subdivisions: int = 2, bumps: float = 0.15) -> Mesh:
    """A closed mesh of radius about 0.4 with convex and concave edges."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=subdivisions)
    wave = np.sin(7.0 * ball.vertices[:, 0]) * np.cos(6.0 * ball.vertices[:, 1] + 1.0)
    return Mesh(ball.vertices * (0.4 + 0.4 * bumps * wave)[:, None], ball.faces)


def lab(solid: Solid, mesh: Mesh, device: str, scale=1.0) -> SurfaceLab:
    return SurfaceLab(collide_mesh, FAMILY_MESH, solid, mesh, device, scale_b=scale)


def coal_mesh(vertices: np.ndarray, triangles: np.ndarray):
    """The mesh in coal."""
    import coal

    points, corners = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for v in vertices.astype(np.float64):
        points.append(v)
    for t in triangles.tolist():
        corners.append(coal.Triangle(*t))
    mesh = coal.BVHModelOBBRSS()
    mesh.beginModel(len(triangles), len(vertices))
    mesh.addSubModel(points, corners)
    mesh.endModel()
    return mesh


class CoalPair:
    """Distances of a solid at many poses from a mesh at the origin, in coal."""

    def __init__(self, solid: Solid, mesh: Mesh, scale):
        self.mesh = coal_mesh(mesh.vertices * np.asarray(scale, np.float32), mesh.indices.reshape(-1, 3))
        self.shape, self.turn = coal_shape(solid)

    def distance(self, X: np.ndarray) -> tuple[float, np.ndarray]:
        """Distance [m], zero for overlap, and the direction from the mesh to the solid."""
        import coal

        request, result = coal.DistanceRequest(), coal.DistanceResult()
        request.enable_signed_distance = False
        request.gjk_tolerance = 1e-8
        place = coal.Transform3s(rotation(X) @ self.turn, X[:3])
        distance = coal.distance(self.shape, place, self.mesh, coal.Transform3s.Identity(), request, result)
        apart = result.getNearestPoint1() - result.getNearestPoint2()
        return distance, apart / max(np.linalg.norm(apart), 1e-30)


@functools.cache
def near_poses(kind: str, scale: str, count: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poses (count, 7) of a solid around the bumpy ball at gaps below REACH, the gaps and directions."""
    rng = np.random.default_rng(len(kind) + 10 * len(scale))
    pair = CoalPair(SOLIDS[kind], bumpy_ball(), SCALES[scale])
    poses, gaps, directions = [], [], []
    while len(poses) < count:
        X = random_poses(rng, 1, 0.0)[0]
        d = rng.normal(size=3)
        X[:3] = d / np.linalg.norm(d) * rng.uniform(0.3, 0.9)
        gap, direction = pair.distance(X)
        outside = direction @ X[:3] > 0.0
        if outside and 0.005 < gap < 0.9 * REACH:
            poses.append(X)
            gaps.append(gap)
            directions.append(direction)
    return np.array(poses), np.array(gaps), np.array(directions)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", SOLIDS)
def test_gaps_match_another_engine(kind, scale, device):
    poses, gaps, directions = near_poses(kind, scale)
    solid, mesh = SOLIDS[kind], bumpy_ball()
    corners = (mesh.vertices * SCALES[scale]).astype(np.float64)[mesh.indices.reshape(-1, 3)]
    found = lab(solid, mesh, device, SCALES[scale]).collide(poses, IDENTITY, REACH)
    for X, gap, direction, m in zip(poses, gaps, directions, found):
        nearest = np.argmin(m.distance)
        assert abs(m.distance[nearest] - gap) < 5e-5
        assert m.normal[nearest] @ direction > 1.0 - (1e-3 if kind in CURVED else 1e-4)
        point, other = m.point[nearest : nearest + 1], m.other[nearest : nearest + 1]
        # along a curved side the place is less certain than the distance
        tolerance = 3e-3 if kind in CURVED else 1e-4
        assert abs(off_surface(solid, to_local(X, point))[0]) < tolerance
        assert triangle_distances(other, corners).min() < tolerance


@pytest.mark.parametrize("kind", SOLIDS)
def test_shallow_penetration_is_the_way_back(kind, device):
    """A solid pushed into the mesh by the shortest way has about that depth; no point asks for far more."""
    poses, gaps, directions = near_poses(kind, "plain")
    depth = 0.004
    poses = poses.copy()
    poses[:, :3] -= (gaps + depth)[:, None] * directions
    found = lab(SOLIDS[kind], bumpy_ball(), device).collide(poses, IDENTITY, 0.0)
    least = np.array([np.min(m.distance) for m in found])
    # where the solid hangs on an edge that is not allowed to push sideways, the way out is longer
    assert np.all(least > -1.7 * depth)
    assert np.quantile(least, 0.5) == pytest.approx(-depth, rel=1e-2)
    # a sharp edge may find a shorter way out sideways
    assert np.quantile(least, 0.9) < -0.85 * depth
    for direction, m in zip(directions, found):
        assert np.max(m.normal @ direction) > 0.3


def floor_poses(solid: Solid, gap: float, count: int = 60) -> np.ndarray:
    """Poses at a gap over the plane y = 0, one third of them flat."""
    rng = np.random.default_rng(3)
    poses = random_poses(rng, count, 0.5)
    for k in range(0, count, 3):
        poses[k, 3:] = pose(angle=rng.uniform(0.0, 6.0))[3:]
    for X in poses:
        X[1] = 0.0
        X[1] = gap + height_along(solid, X, np.array([0.0, -1.0, 0.0]))
    return poses


@pytest.mark.parametrize("gap", [-0.003, 0.02])
@pytest.mark.parametrize("kind", SOLIDS)
def test_floor_of_triangles_is_a_plane(kind, gap, device):
    """Depths, directions and extent of the contacts are those with the plane."""
    solid = SOLIDS[kind]
    poses = floor_poses(solid, gap)
    found = lab(solid, floor_mesh(10, 2.0), device).collide(poses, IDENTITY, 0.05)
    for X, m in zip(poses, found):
        assert len(m)
        np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-5)
        np.testing.assert_allclose(m.point[:, 1], m.distance, atol=2e-6)
        assert m.distance.min() == pytest.approx(gap, abs=1e-5)
        assert np.all(off_surface(solid, to_local(X, m.point)) < 1e-4)
    # a box stands on all of its face
    for X, m in zip(poses[::3], found[::3]):
        for d in (rotation(X)[:, 0], rotation(X)[:, 2]) if kind == "box" else ():
            reach = np.max(m.point @ d) - X[:3] @ d
            assert reach == pytest.approx(height_along(solid, X, d) - X[:3] @ d, abs=1e-5)


@pytest.mark.parametrize("kind", ["sphere", "box", "cylinder", "capsule"])
def test_nothing_is_felt_of_edges_inside_of_a_flat_floor(kind, device):
    """Sliding over triangles, a little sunk in: the normal stays vertical and the depth the same."""
    solid = SOLIDS[kind]
    X = np.repeat(pose((0.0, 0.0, 0.0), (0.2, 1.0, 0.1), 0.3)[None], 400, axis=0)
    X[:, 1] = height_along(solid, X[0], np.array([0.0, -1.0, 0.0])) - 0.004
    X[:, 0], X[:, 2] = np.linspace(-0.6, 0.6, 400), np.linspace(-0.2, 0.3, 400)
    found = lab(solid, floor_mesh(12, 2.0), device).collide(X, IDENTITY, 0.002)
    assert min(m.normal[:, 1].min() for m in found) > 1.0 - 1e-6
    np.testing.assert_allclose([m.distance.min() for m in found], -0.004, atol=1e-5)
    assert len({len(m) for m in found}) == 1


def test_corner_of_a_box_keeps_its_feature_from_triangle_to_triangle(device):
    X = np.repeat(pose((0.0, 0.0595, 0.0))[None], 200, axis=0)
    X[:, 0] = np.linspace(-0.5, 0.5, 200)
    found = lab(SOLIDS["box"], floor_mesh(12, 2.0), device).collide(X, IDENTITY, 0.01)
    assert {frozenset(m.feature) for m in found} == {frozenset(found[0].feature)}
    assert len(found[0]) == 4
    assert len(set(found[0].feature)) == 4


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 10.0, 1e3])
def test_sizes(scale, device):
    """The same scene at another size has the same contacts."""
    rng = np.random.default_rng(9)
    poses = random_poses(rng, 60, 0.0)
    d = rng.normal(size=(60, 3))
    poses[:, :3] = d / np.linalg.norm(d, axis=1, keepdims=True) * rng.uniform(0.4, 0.6, (60, 1))
    grown = poses.copy()
    grown[:, :3] *= scale
    mesh = bumpy_ball()
    for solid in (SOLIDS["box"], SOLIDS["sphere"]):
        larger = Solid(solid.kind, tuple(scale * s for s in solid.size))
        small = lab(solid, mesh, device).collide(poses, IDENTITY, 0.05)
        large = lab(larger, mesh, device, scale).collide(grown, IDENTITY, 0.05 * scale)
        for a, b in zip(small, large):
            assert (len(a) > 0) == (len(b) > 0)
            if len(a):
                assert b.distance.min() == pytest.approx(scale * a.distance.min(), abs=2e-5 * scale)


def test_wide_terrain_keeps_its_precision(device):
    """A ball of 10 cm on a floor of a kilometre."""
    solid = SOLIDS["sphere"]
    mesh = floor_mesh(40, 1000.0)
    rng = np.random.default_rng(1)
    poses = random_poses(rng, 100, 480.0)
    poses[:, 1] = 0.099
    for m in lab(solid, mesh, device).collide(poses, IDENTITY, 0.02):
        assert len(m) == 1
        assert m.distance[0] == pytest.approx(-0.001, abs=1e-6)
        assert m.normal[0, 1] > 1.0 - 1e-6


SHARE = [0.2, 0.45, 0.6, 0.9, 1.5]


@pytest.mark.parametrize("share", SHARE)
@pytest.mark.parametrize("kind", SOLIDS)
def test_solid_pushes_outwards_from_any_depth(kind, share, device):
    """Sunk into a large closed box by a share of its height, up to fully inside."""
    solid = SOLIDS[kind]
    low = height_along(solid, IDENTITY, np.array([0.0, -1.0, 0.0]))
    high = height_along(solid, IDENTITY, np.array([0.0, 1.0, 0.0]))
    depth = share * (low + high)
    X = pose((0.1, 0.5 + low - depth, -0.2), angle=0.4)
    (m,) = lab(solid, box_mesh(2.0, 0.5, 2.0), device).collide(X, IDENTITY, 0.02)
    assert len(m)
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-4)
    assert m.distance.min() == pytest.approx(-depth, abs=1e-4)


def test_wall_of_a_closed_shell_pushes_from_its_own_side(device):
    """A hollow box with walls of 1 cm: what touches the inner side does not see the outer one."""
    inner, outer = box_mesh(0.5, 0.5, 0.5), box_mesh(0.51, 0.51, 0.51)
    inner = Mesh(inner.vertices, inner.indices.reshape(-1, 3)[:, ::-1])
    shell = concatenated([inner, outer])
    assert shell.is_closed
    tester = lab(SOLIDS["sphere"], shell, device)
    for depth in (0.002, 0.008, 0.02):
        for y, up in ((-0.4 - depth, 1.0), (0.61 - depth, 1.0), (0.4 + depth, -1.0)):
            (m,) = tester.collide(pose((0.1, y, 0.07)), IDENTITY, 0.05)
            np.testing.assert_allclose(m.normal, [[0.0, up, 0.0]], atol=1e-5)
            assert m.distance[0] == pytest.approx(-depth, abs=1e-5)


def test_one_triangle_is_touched_from_both_sides(device):
    triangle = Mesh([(0, 0, 0), (0, 0, 1), (1, 0, 0)], [0, 1, 2], compute_inertia=False)
    for kind in SOLIDS:
        solid = SOLIDS[kind]
        low = height_along(solid, IDENTITY, np.array([0.0, -1.0, 0.0]))
        high = height_along(solid, IDENTITY, np.array([0.0, 1.0, 0.0]))
        above, below = (
            lab(solid, triangle, device).collide(pose((0.25, y, 0.25)), IDENTITY, 0.01)[0]
            for y in (low - 0.002, 0.002 - high)
        )
        for m, up in ((above, 1.0), (below, -1.0)):
            vertical = np.broadcast_to([0.0, up, 0.0], m.normal.shape)
            np.testing.assert_allclose(m.normal, vertical, atol=1e-5)
            assert m.distance.min() == pytest.approx(-0.002, abs=1e-5)


def test_borders_of_a_sheet(device):
    """A ball beside and over the border of a sheet touches the border."""
    solid = SOLIDS["sphere"]
    angles = np.radians([10.0, 60.0, 90.0, 120.0, 170.0])
    X = np.array([pose((1.0 + 0.11 * np.sin(a), 0.11 * np.cos(a), 0.1)) for a in angles])
    for a, m in zip(angles, lab(solid, floor_mesh(6, 2.0), device).collide(X, IDENTITY, 0.05)):
        assert m.distance.min() == pytest.approx(0.01, abs=1e-5)
        nearest = m.normal[np.argmin(m.distance)]
        np.testing.assert_allclose(nearest, [np.sin(a), np.cos(a), 0.0], atol=1e-4)


def test_box_over_an_edge(device):
    """A box that overhangs a step is held at its corners on the step and where its edges cross the rim."""
    (m,) = lab(box(0.2, 0.1, 0.15), box_mesh(1.0, 0.5, 1.0), device).collide(
        pose((0.95, 0.599, 0.3)), IDENTITY, 0.01
    )
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-5)
    expected = [[x, 0.499, z] for x in (0.75, 1.0) for z in (0.15, 0.45)]
    np.testing.assert_allclose(m.sorted_by(0, 2), expected, atol=1e-5)
    np.testing.assert_allclose(m.distance, -0.001, atol=1e-5)


def test_valley_and_wall_hold_from_both_sides(device):
    """A ball and a box in the corner between floor and wall of one mesh touch both."""
    floor, wall = box_mesh(1.0, 0.5, 1.0), box_mesh(0.5, 1.0, 1.0)
    floor.vertices[:, 1] -= 0.5
    wall.vertices[:, 0] -= 0.5
    room = concatenated([Mesh(floor.vertices, floor.indices), Mesh(wall.vertices, wall.indices)])
    for solid, half in ((SOLIDS["sphere"], (0.1, 0.1)), (SOLIDS["box"], (0.1, 0.06))):
        (m,) = lab(solid, room, device).collide(pose((half[0] - 0.002, half[1] - 0.003, 0.1)), IDENTITY, 0.01)
        up, right = m.normal[:, 1] > 0.999, m.normal[:, 0] > 0.999
        assert up.any()
        assert right.any()
        assert np.all(up | right)
        np.testing.assert_allclose(m.distance[up].min(), -0.003, atol=1e-5)
        np.testing.assert_allclose(m.distance[right].min(), -0.002, atol=1e-5)


def test_spike_under_a_box_is_found(device):
    """The point of a tetrahedron pokes into the middle of a face, far from all corners of the box."""
    spike = Mesh(
        [(0.02, 0.0, 0.0), (-0.01, 0.0, 0.017), (-0.01, 0.0, -0.017), (0.0, 0.3, 0.0)],
        [0, 1, 2, 0, 3, 1, 1, 3, 2, 2, 3, 0],
    )
    assert spike.is_closed
    (m,) = lab(box(0.3, 0.1, 0.3), spike, device).collide(pose((0.0, 0.395, 0.0)), IDENTITY, 0.02)
    assert len(m) == 1
    np.testing.assert_allclose(m.normal, [[0.0, 1.0, 0.0]], atol=1e-4)
    np.testing.assert_allclose(m.distance, -0.005, atol=1e-5)
    np.testing.assert_allclose(m.other, [[0.0, 0.3, 0.0]], atol=1e-4)
