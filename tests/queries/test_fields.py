"""Signed distance fields seen by rays and by other shapes."""

import numpy as np
import pytest
import warp as wp
from queries.test_rays import SOLIDS, add_solid, aimed_rays, bumpy_ball, query_of, random_pose

import newtonsim
from newtonsim.errors import ModelError

RADIUS, HALF, VOXEL = 0.6, 0.8, 0.04


class BallField(newtonsim.SDF):
    """Exact distances from a ball on a grid."""

    def __init__(self, device):
        place = np.arange(-HALF, HALF + 0.5 * VOXEL, VOXEL)
        grid = np.stack(np.meshgrid(place, place, place, indexing="ij"), axis=-1)
        values = (np.linalg.norm(grid, axis=-1) - RADIUS).astype(np.float32)
        volume = wp.Volume.load_from_numpy(
            values, min_world=(-HALF, -HALF, -HALF), voxel_size=VOXEL, bg_value=1.0, device=device
        )
        super().__init__(volume)

    def bounds(self):
        return np.full(3, -HALF), np.full(3, HALF)


def ball_scene(device, scale, pose):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sdf(-1, pose[:3], pose[3:], BallField(device), (scale, scale, scale))
    return builder


@pytest.mark.parametrize("scale", [1e-2, 1.0, 50.0])
def test_rays(device, scale):
    rng = np.random.default_rng(1)
    pose = random_pose(rng, scale)
    query = query_of(ball_scene(device, scale, pose), device)
    origins, directions = aimed_rays(2000, rng, 3.0 * scale, scale)
    origins[:300] = rng.uniform(-0.9, 0.9, (300, 3)) * scale
    # the same ball in closed form
    along = -np.einsum("ij,ij->i", origins, directions)
    room = (RADIUS * scale) ** 2 - np.sum((origins + along[:, None] * directions) ** 2, axis=1)
    half = np.sqrt(np.maximum(room, 0.0))
    enter, leave = along - half, along + half
    error = 0.02 * scale
    clear = np.abs(room) > 0.05 * scale**2
    clear &= (np.abs(enter) > error) & (np.abs(leave) > error)
    for inside in (False, True):
        hits = query.rays(origins + pose[:3], directions, inside=inside)
        expected = np.where(enter >= 0.0, enter, leave if inside else np.inf)
        expected = np.where((room < 0.0) | (leave < 0.0), np.inf, expected)
        distance = hits.distance.numpy()
        np.testing.assert_allclose(distance[clear], expected[clear], atol=2e-3 * scale)
        hit = clear & np.isfinite(expected)
        assert hit.sum() > 300
        outward = origins[hit] + expected[hit, None] * directions[hit]
        outward /= np.linalg.norm(outward, axis=1, keepdims=True)
        assert np.einsum("ij,ij->i", outward, hits.normal.numpy()[hit]).min() > 0.99


def test_distances(device):
    """Solids against a ball on a grid, and against the same ball in closed form."""
    rng = np.random.default_rng(2)
    pose = random_pose(rng, 1.0)
    builder = ball_scene(device, 0.5, pose)
    builder.add_shape_sphere(-1, pose[:3], radius=0.5 * RADIUS)
    mesh = newtonsim.Mesh(*bumpy_ball(rng, 1))
    for k in range(60):
        place = random_pose(rng, 1.0)
        place[:3] = pose[:3] + place[:3] / np.linalg.norm(place[:3]) * rng.uniform(0.2, 2.0)
        if k % 7 == 6:
            builder.add_shape_mesh(-1, place[:3], place[3:], mesh, (0.3, 0.2, 0.25), convex=False)
        else:
            add_solid(builder, SOLIDS[k % 7], rng.uniform(0.1, 0.3, 3).tolist(), place)
    builder.add_shape_plane((0.3, 1.0, 0.2, 1.0), width=0.0, length=0.0)
    query = query_of(builder, device)
    others = query.shapes(np.arange(2, 63))
    field, ball = query.closest(others, query.shapes(0)), query.closest(others, query.shapes(1))
    distance, expected = field.distance.numpy()[0], ball.distance.numpy()[0]
    # deeper down the two differ: the field has the depth of a point, not of the whole shape
    clear = expected > -0.02
    assert clear.sum() > 40
    np.testing.assert_allclose(distance[clear], expected[clear], atol=2e-3)
    assert np.all(distance[~clear] < 0.0)
    cosine = np.einsum("ij,ij->i", field.normal.numpy()[0], ball.normal.numpy()[0])
    assert cosine[clear & (expected > 0.02)].min() > 0.999
    off = np.linalg.norm(field.point_b.numpy()[0] - pose[:3], axis=1) - 0.5 * RADIUS
    assert np.abs(off[clear]).max() < 3e-3
    turned = query.closest(query.shapes(0), others)
    np.testing.assert_allclose(turned.distance.numpy(), field.distance.numpy(), atol=1e-6)


def test_two_fields_are_refused(device):
    builder = ball_scene(device, 0.5, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    field = builder.shape_geo_src[0]
    builder.add_shape_sdf(-1, (3.0, 0.0, 0.0), sdf=field)
    query = query_of(builder, device)
    with pytest.raises(ModelError, match="two signed distance fields"):
        query.closest(query.shapes(0), query.shapes(1))
