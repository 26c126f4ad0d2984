"""Shapes on height fields."""

import numpy as np
import pytest
from collision.harness import IDENTITY, pose, random_poses
from collision.solids import height_along
from collision.surfaces_lab import SurfaceLab, triangle_distances
from collision.test_mesh_contacts import SOLIDS

from newtonsim.geometry import Heightfield
from newtonsim.geometry.edges import edge_table, grid_edges
from newtonsim.kernels.collision.families.mesh import collide_mesh
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_MESH


def lab(solid, field, device: str, scale=1.0) -> SurfaceLab:
    return SurfaceLab(collide_mesh, FAMILY_MESH, solid, field, device, scale_b=scale)


def hills(cells: int = 40) -> Heightfield:
    """Smooth hills, 4 m wide, 10 cm cells."""
    x = np.linspace(-2.0, 2.0, cells + 1)
    heights = 0.3 * np.sin(1.5 * x)[None, :] * np.cos(1.1 * x)[:, None]
    return Heightfield(heights, (4.0, 4.0))


@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (7, 4)])
def test_edges_of_a_grid_are_those_of_any_mesh(shape):
    rng = np.random.default_rng(4)
    for heights in (rng.uniform(-0.2, 0.2, shape), np.zeros(shape), np.round(rng.uniform(0, 1.5, shape))):
        surface = Heightfield(heights, (2.0, 3.0)).to_mesh().surface
        for found, expected in zip(grid_edges(*surface, shape), edge_table(*surface, both_sides=False)):
            np.testing.assert_array_equal(found, expected)


def test_ball_over_hills(device):
    """The gap is the distance of the centre from the triangles, above the surface and below it."""
    field, radius = hills(), 0.1
    mesh = field.to_mesh()
    corners = mesh.vertices.astype(np.float64)[mesh.indices.reshape(-1, 3)]
    rng = np.random.default_rng(2)
    poses = random_poses(rng, 200, 1.7)
    x, z = poses[:, 0], poses[:, 2]
    height = 0.3 * np.sin(1.5 * x) * np.cos(1.1 * z)
    poses[:, 1] = height + rng.uniform(0.02, 0.2, 200)
    apart = triangle_distances(poses[:, :3], corners).min(axis=1)
    for distance, m in zip(apart, lab(SOLIDS["sphere"], field, device).collide(poses, IDENTITY, 0.15)):
        assert m.distance.min() == pytest.approx(distance - radius, abs=2e-5)
        assert m.normal[:, 1].min() > 0.5


@pytest.mark.parametrize("depth", [0.001, 0.05, 0.3, 2.0])
@pytest.mark.parametrize("kind", SOLIDS)
def test_only_upwards(kind, depth, device):
    """However deep below a level field a shape is, it is pushed up by all of its depth."""
    solid = SOLIDS[kind]
    field = Heightfield(np.zeros((9, 11)), (3.0, 2.0))
    low = height_along(solid, IDENTITY, np.array([0.0, -1.0, 0.0]))
    (m,) = lab(solid, field, device).collide(pose((0.13, low - depth, 0.21), angle=0.2), IDENTITY, 0.01)
    assert m.distance.min() == pytest.approx(-depth, abs=1e-4)
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-5)


def test_mirrored_field_pushes_upwards_too(device):
    for scale in ((-1.0, 1.0, 1.0), (1.0, 2.0, -0.5)):
        tester = lab(SOLIDS["box"], hills(), device, scale)
        poses = random_poses(np.random.default_rng(1), 40, 0.7)
        poses[:, 1] = 0.6 * np.sin(1.5 * poses[:, 0] / scale[0]) * np.cos(1.1 * poses[:, 2] / scale[2]) / 2
        poses[:, 1] *= scale[1]
        for m in tester.collide(poses, IDENTITY, 0.02):
            assert len(m)
            assert m.normal[:, 1].min() > 0.0


def test_outside_of_the_field_there_is_nothing(device):
    field = Heightfield(np.zeros((5, 5)), (2.0, 2.0))
    X = np.array([pose((1.3, 0.0, 0.0)), pose((1.3, -0.3, 0.0)), pose((0.0, 0.3, 1.3))])
    for m in lab(SOLIDS["sphere"], field, device).collide(X, IDENTITY, 0.1):
        assert len(m) == 0


def test_one_tall_cell(device):
    """A ball beside a single spike of a field touches its flank, and never gets a push downwards."""
    heights = np.zeros((21, 21))
    heights[10, 10] = 0.5
    field = Heightfield(heights, (2.0, 2.0))
    mesh = field.to_mesh()
    corners = mesh.vertices.astype(np.float64)[mesh.indices.reshape(-1, 3)]
    rng = np.random.default_rng(6)
    p = rng.uniform([-0.3, 0.1, -0.3], [0.3, 0.7, 0.3], (200, 3))
    X = np.concatenate([p, np.broadcast_to(IDENTITY[3:], (200, 4))], axis=1)
    apart = triangle_distances(p, corners).min(axis=1)
    inside = np.hypot(p[:, 0], p[:, 2]) < 0.12
    for distance, m in zip(
        apart[~inside], lab(SOLIDS["sphere"], field, device).collide(X[~inside], IDENTITY, 0.05)
    ):
        if distance < 0.149:
            assert m.distance.min() == pytest.approx(distance - 0.1, abs=2e-5)
            assert m.normal[:, 1].min() >= 0.0
