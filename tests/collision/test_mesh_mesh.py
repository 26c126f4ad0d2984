"""Triangle meshes and height fields against each other."""

import numpy as np
import pytest
from collision.harness import IDENTITY, box, pose, random_poses, rotation
from collision.solids import height_along
from collision.surfaces_lab import SurfaceLab, box_mesh, concatenated, floor_mesh
from collision.test_mesh_contacts import CoalPair, bumpy_ball, coal_mesh

from newtonsim.geometry import Heightfield, Mesh
from newtonsim.kernels.collision.families.mesh_mesh import collide_mesh_mesh
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_MESH_MESH


def lab(a, b, device: str, scale_a=1.0, scale_b=1.0) -> SurfaceLab:
    return SurfaceLab(collide_mesh_mesh, FAMILY_MESH_MESH, a, b, device, scale_a, scale_b)


def torus(ring: float = 0.1, tube: float = 0.03) -> Mesh:
    """A closed ring about z, not convex."""
    import trimesh

    mesh = trimesh.creation.torus(ring, tube, major_sections=24, minor_sections=12)
    return Mesh(mesh.vertices, mesh.faces)


class CoalMeshes(CoalPair):
    """Distances of a mesh at many poses from another at the origin, in coal."""

    def __init__(self, a: Mesh, b: Mesh, scale_a, scale_b):
        triangles = [m.indices.reshape(-1, 3) for m in (a, b)]
        self.shape = coal_mesh(a.vertices * np.float32(scale_a), triangles[0])
        self.mesh = coal_mesh(b.vertices * np.float32(scale_b), triangles[1])
        self.turn = np.eye(3)


@pytest.mark.parametrize(
    "scales", [((1, 1, 1), (1, 1, 1)), ((1.5, -0.8, 1), (1, 0.9, -1.2))], ids=["plain", "mirrored"]
)
def test_gaps_match_another_engine(scales, device):
    """A ring around and through a bumpy ball: the smallest gap and its direction."""
    a, b = torus(), bumpy_ball()
    pair = CoalMeshes(a, b, *(np.array(s, np.float32) for s in scales))
    rng = np.random.default_rng(4)
    poses, gaps, directions = [], [], []
    while len(poses) < 150:
        X = random_poses(rng, 1, 0.0)[0]
        d = rng.normal(size=3)
        X[:3] = d / np.linalg.norm(d) * rng.uniform(0.4, 0.8)
        gap, direction = pair.distance(X)
        if 0.002 < gap < 0.04 and direction @ X[:3] > 0.0:
            poses.append(X)
            gaps.append(gap)
            directions.append(direction)
    found = lab(a, b, device, *scales).collide(np.array(poses), IDENTITY, 0.05)
    for gap, direction, m in zip(gaps, directions, found):
        nearest = np.argmin(m.distance)
        assert m.distance[nearest] == pytest.approx(gap, abs=2e-5)
        assert m.normal[nearest] @ direction > 1.0 - 1e-3


@pytest.mark.parametrize("depth", [0.003, -0.003, 0.05])
@pytest.mark.parametrize("cells", [1, 7])
def test_box_on_a_floor(depth, cells, device):
    """A box made of triangles stands on its corners, on a closed box and on a floor of many triangles."""
    solid = box(0.2, 0.1, 0.15)
    for floor, top in ((box_mesh(1.0, 0.5, 1.0), 0.5), (floor_mesh(cells, 3.0), 0.0)):
        X = pose((0.1, top + 0.1 - depth, 0.2), angle=0.3)
        (m,) = lab(box_mesh(*solid.size), floor, device).collide(X, IDENTITY, 0.01)
        np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-5)
        np.testing.assert_allclose(m.distance, -depth, atol=1e-5)
        np.testing.assert_allclose(m.point[:, 1], top - depth, atol=1e-5)
        for d in (rotation(X)[:, 0], rotation(X)[:, 2]):
            assert np.max(m.point @ d) == pytest.approx(height_along(solid, X, d), abs=1e-5)
            assert np.min(m.point @ d) == pytest.approx(-height_along(solid, X, -d), abs=1e-5)


def test_cube_in_a_tray(device):
    """A cube in the corner of a solid tray touches the bottom and two walls, each along its normal."""
    walls = []
    for size, place in (
        ((0.5, 0.05, 0.5), (0, -0.05, 0)),
        ((0.05, 0.3, 0.5), (-0.55, 0.2, 0)),
        ((0.5, 0.3, 0.05), (0, 0.2, -0.55)),
    ):
        part = box_mesh(*size)
        walls.append(Mesh(part.vertices + np.array(place, np.float32), part.indices))
    X = pose((-0.5 + 0.1 - 0.001, 0.1 - 0.002, -0.5 + 0.1 - 0.003))
    (m,) = lab(box_mesh(0.1, 0.1, 0.1), concatenated(walls), device).collide(X, IDENTITY, 0.0)
    for axis, depth in ((0, 0.001), (1, 0.002), (2, 0.003)):
        along = m.normal[:, axis] > 0.999
        assert along.any()
        np.testing.assert_allclose(m.distance[along].min(), -depth, atol=1e-5)
    assert np.all(m.normal.max(axis=1) > 0.999)


def test_crossing_edges(device):
    """Two bars across each other on their edges touch at the crossing, along the common perpendicular."""
    bar = box_mesh(0.02, 0.02, 0.5)
    half = 0.02 * np.sqrt(2.0)
    turned = pose((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), np.pi / 4)
    from scipy.spatial.transform import Rotation

    for angle in (0.3, 1.2, np.pi / 2):
        across = (Rotation.from_rotvec([0.0, angle, 0.0]) * Rotation.from_quat(turned[3:])).as_quat()
        for gap in (-0.001, 0.002):
            X = turned + np.array([0.0, 2.0 * half + gap, 0.0, 0, 0, 0, 0])
            (m,) = lab(bar, bar, device).collide(X, np.concatenate([[0.0, 0.0, 0.0], across]), 0.01)
            nearest = np.argmin(m.distance)
            assert m.distance[nearest] == pytest.approx(gap, abs=1e-5)
            np.testing.assert_allclose(m.normal[nearest], [0.0, 1.0, 0.0], atol=1e-4)
            np.testing.assert_allclose(m.point[nearest, [0, 2]], 0.0, atol=1e-3)


def test_overhanging_edge_is_held_by_the_rim(device):
    """A box on its edge, half over a rim: it is held at the inner end of the edge and at the rim."""
    X = pose((0.96, 0.2 + 0.1 * np.sqrt(2.0) - 0.001, 0.05), (1.0, 0.0, 0.0), np.pi / 4)
    (m,) = lab(box_mesh(0.1, 0.1, 0.1), box_mesh(1.0, 0.2, 1.0), device).collide(X, IDENTITY, 0.0)
    deep = m.point[m.distance < -0.0005]
    assert deep[:, 0].min() == pytest.approx(0.86, abs=1e-4)
    assert deep[:, 0].max() == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-3)


def test_mesh_under_a_terrain_comes_up(device):
    field = Heightfield(np.full((12, 12), 0.2), (4.0, 4.0))
    for depth in (0.01, 0.15, 0.5):
        X = pose((0.3, 0.2 + 0.1 - depth, 0.1), angle=0.5)
        (m,) = lab(box_mesh(0.1, 0.1, 0.1), field, device).collide(X, IDENTITY, 0.01)
        assert m.distance.min() == pytest.approx(-depth, abs=1e-4)
        assert m.normal[:, 1].min() > 0.999


def test_points_are_on_shape_0_and_normals_lead_to_it(device):
    """Exchanging the shapes mirrors the contacts."""
    a, b = torus(), bumpy_ball()
    X = pose((0.0, 0.42, 0.0), (1.0, 0.2, 0.0), 1.0)
    (one,) = lab(a, b, device).collide(X, IDENTITY, 0.05)
    (two,) = lab(b, a, device).collide(IDENTITY, X, 0.05)
    assert len(one)
    assert two.distance.min() == pytest.approx(one.distance.min(), abs=1e-5)
    i, j = np.argmin(one.distance), np.argmin(two.distance)
    np.testing.assert_allclose(two.normal[j], -one.normal[i], atol=1e-3)
    np.testing.assert_allclose(two.other[j], one.point[i], atol=1e-4)
