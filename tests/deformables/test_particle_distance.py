"""Signed distances of particles from shapes of every kind.

A distance is right if the point at that distance against the normal lies on the surface, and if no point
nearer does: the ball of that radius about the particle lies on one side. Both are asked of level functions
in double precision that know nothing of the kernels.
"""

import numpy as np
import pytest
import trimesh
from queries.solids import hull_planes, level
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.enums import GeoType
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.particles.contacts import ParticleContacts

RADIUS = 4.0  # [m] of the particles, larger than any distance asked for
POSE = np.array([0.3, -0.2, 0.5, *Rotation.from_euler("xyz", [0.4, -0.7, 1.1]).as_quat()])
PLACE = {"pos": POSE[:3], "rot": POSE[3:], "thickness": 0.0}
RNG = np.random.default_rng(5)
DIRECTIONS = RNG.standard_normal((400, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
CORNERS = RNG.standard_normal((12, 3)) * [0.6, 0.3, 0.5]


def measure(builder, points, ahead=None, device="cpu"):
    """Distances (n,) and world normals (n, 3) of points from the only shape; infinite where none is found.

    Args:
        builder: With one shape and no particles.
        points: In the world (n, 3).
        ahead: Displacement that has led there (3,), none if not given.
        device: Where to.
    """
    for point in points:
        builder.add_particle(point, (0.0, 0.0, 0.0), 1.0, radius=RADIUS)
    model = builder.finalize(device)
    contacts, state = ParticleContacts(model, model, "mean"), model.state()
    if ahead is not None:
        state.particle_qd.assign(np.tile(ahead, (len(points), 1)).astype(np.float32))
    launch, bodies = Launcher(model, False), MovingBodies(model)
    dt = 0.0 if ahead is None else 1.0
    contacts.find(launch, model.particle_inv_mass, state.particle_q, state.particle_qd, dt, bodies)
    view = contacts.contacts
    found = view.count.numpy() > 0
    distance = np.where(found, RADIUS - view.overlap.numpy()[:, 0], np.inf)
    return distance.astype(np.float64), view.normal.numpy()[:, 0].astype(np.float64)


def local(points):
    """Points of the frame of the shape."""
    return Rotation.from_quat(POSE[3:]).inv().apply(points - POSE[:3])


def world(points):
    return Rotation.from_quat(POSE[3:]).apply(points) + POSE[:3]


def check(of_level, points, distance, normal, tolerance):
    """Distances and normals against a level function of points in the frame of the shape."""
    assert np.all(np.isfinite(distance))
    assert np.abs(np.linalg.norm(normal, axis=1) - 1.0).max() < 1e-5
    p = local(points)
    n = Rotation.from_quat(POSE[3:]).inv().apply(normal)
    assert np.abs(of_level(p - distance[:, None] * n)).max() < tolerance
    assert np.all((of_level(p) > 0.0) == (distance > 0.0))
    ball = p[:, None] + (np.abs(distance)[:, None, None] - tolerance).clip(0.0) * DIRECTIONS
    inside = of_level(ball) < -tolerance
    assert not np.any(inside & (distance > 0.0)[:, None])
    outside = of_level(ball) > tolerance
    assert not np.any(outside & (distance < 0.0)[:, None])


SIZES = {
    GeoType.SPHERE: (0.4,),
    GeoType.BOX: (0.3, 0.5, 0.2),
    GeoType.CAPSULE: (0.3, 0.4),
    GeoType.CYLINDER: (0.3, 0.4),
    GeoType.CONE: (0.35, 0.4),
    GeoType.ELLIPSOID: (0.5, 0.2, 0.35),
}
NAMES = {
    GeoType.SPHERE: ("radius",),
    GeoType.BOX: ("hx", "hy", "hz"),
    GeoType.CAPSULE: ("radius", "half_height"),
    GeoType.CYLINDER: ("radius", "half_height"),
    GeoType.CONE: ("radius", "half_height"),
    GeoType.ELLIPSOID: ("a", "b", "c"),
}


@pytest.mark.parametrize("kind", list(SIZES), ids=lambda kind: kind.name)
def test_solids(kind, device):
    builder = newtonsim.ModelBuilder()
    add = getattr(builder, f"add_shape_{kind.name.lower()}")
    upright = {"up_axis": 1} if kind in (GeoType.CAPSULE, GeoType.CYLINDER, GeoType.CONE) else {}
    add(-1, **PLACE, **dict(zip(NAMES[kind], SIZES[kind])), **upright)
    points = world(RNG.uniform(-1.0, 1.0, (300, 3)))
    distance, normal = measure(builder, points, device=device)
    check(lambda p: level(kind, np.array(SIZES[kind]), p), points, distance, normal, 2e-5)


def test_ellipsoids_at_their_axes(device):
    """On planes of symmetry the nearest point is found as well."""
    size = np.array([0.5, 0.2, 0.35])
    builder = newtonsim.ModelBuilder()
    builder.add_shape_ellipsoid(-1, **PLACE, a=0.5, b=0.2, c=0.35)
    rays = np.concatenate([np.eye(3), -np.eye(3), [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]])
    points = world(np.concatenate([rays * 0.7, rays * 0.1, np.zeros((1, 3))]))
    distance, normal = measure(builder, points, device=device)
    check(lambda p: level(GeoType.ELLIPSOID, size, p), points, distance, normal, 1e-4)
    assert np.isclose(distance[-1], -0.2, atol=1e-4)


def test_hulls(device):
    """Beside edges and corners too."""
    mesh = trimesh.convex.convex_hull(CORNERS)
    builder = newtonsim.ModelBuilder()
    source = newtonsim.Mesh(mesh.vertices, mesh.faces.reshape(-1))
    builder.add_shape_mesh(-1, **PLACE, mesh=source, scale=(1.0, 1.2, 0.8), convex=True)
    planes = hull_planes(CORNERS * [1.0, 1.2, 0.8])
    points = world(RNG.uniform(-1.5, 1.5, (400, 3)))
    distance, normal = measure(builder, points, device=device)
    check(lambda p: level("hull", None, p, planes), points, distance, normal, 2e-5)


def test_solid_meshes(device):
    """A mesh that collides as its triangles; within 0.8 degrees its normal stands for the direction."""
    mesh = trimesh.convex.convex_hull(CORNERS)
    builder = newtonsim.ModelBuilder()
    source = newtonsim.Mesh(mesh.vertices, mesh.faces.reshape(-1))
    builder.add_shape_mesh(-1, **PLACE, mesh=source, scale=(1.0, 1.2, 0.8), convex=False)
    planes = hull_planes(CORNERS * [1.0, 1.2, 0.8])
    points = world(RNG.uniform(-1.0, 1.0, (200, 3)))
    distance, normal = measure(builder, points, device=device)
    check(lambda p: level("hull", None, p, planes), points, distance, normal, 5e-4)


def test_distance_fields(device):
    """The field of a box, interpolated on its grid; within and beyond the box of the field."""
    box = trimesh.creation.box((0.6, 1.0, 0.4))
    source = newtonsim.Mesh(np.asarray(box.vertices), np.asarray(box.faces).reshape(-1))
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sdf(-1, **PLACE, sdf=newtonsim.SDF.from_mesh(source, voxel_size=0.02))
    points = world(RNG.uniform(-0.9, 0.9, (200, 3)))
    distance, _ = measure(builder, points, device=device)
    p = np.abs(local(points)) - [0.3, 0.5, 0.2]
    expected = np.linalg.norm(p.clip(0.0), axis=1) + p.max(axis=1).clip(max=0.0)
    assert np.abs(distance - expected).max() < 0.02


def test_height_fields(device):
    """A slope: above it the distance along its normal, beneath it the depth, however deep."""
    rise = np.tile(np.linspace(-1.0, 1.0, 9), (5, 1))  # 45 degrees along x
    builder = newtonsim.ModelBuilder()
    field = newtonsim.Heightfield(rise, size=(2.0, 2.0))
    builder.add_shape_heightfield(-1, **PLACE, heightfield=field)
    p = RNG.uniform(-0.3, 0.3, (100, 3))
    distance, normal = measure(builder, world(p), device=device)
    assert np.abs(distance - (p[:, 1] - p[:, 0]) / np.sqrt(2.0)).max() < 1e-5
    n = Rotation.from_quat(POSE[3:]).inv().apply(normal)
    assert np.abs(n - np.array([-1.0, 1.0, 0.0]) / np.sqrt(2.0)).max() < 1e-4


def test_planes(device):
    """A half-space, and a rectangle that is touched from above and round its border."""
    p = RNG.uniform(-1.0, 1.0, (200, 3))
    builder = newtonsim.ModelBuilder()
    builder.add_shape_plane(**PLACE, width=0.0, length=0.0)
    distance, _ = measure(builder, world(p), device=device)
    assert np.abs(distance - p[:, 1]).max() < 1e-5
    builder = newtonsim.ModelBuilder()
    builder.add_shape_plane(**PLACE, width=1.0, length=0.6)
    p[:, 1] = np.abs(p[:, 1])
    distance, _ = measure(builder, world(p), device=device)
    beside = (np.abs(p[:, [0, 2]]) - [0.5, 0.3]).clip(0.0)
    expected = np.sqrt(p[:, 1] ** 2 + (beside**2).sum(axis=1))
    assert np.abs(distance - expected).max() < 1e-5


def test_open_meshes_are_touched_from_where_one_comes(device):
    """A sheet seen by particles that came from above and from below, and end on either side."""
    corners = np.array([[-2.0, 0.0, -2.0], [2.0, 0.0, -2.0], [2.0, 0.0, 2.0], [-2.0, 0.0, 2.0]])
    source = newtonsim.Mesh(corners, [0, 2, 1, 0, 3, 2])
    p = RNG.uniform(-0.5, 0.5, (50, 3)) * [1.0, 0.1, 1.0]
    for side in (1.0, -1.0):
        builder = newtonsim.ModelBuilder()
        builder.add_shape_mesh(-1, **PLACE, mesh=source, convex=False)
        way = Rotation.from_quat(POSE[3:]).apply([0.0, -side, 0.0])
        distance, _ = measure(builder, world(p), ahead=way, device=device)
        assert np.abs(distance - side * p[:, 1]).max() < 1e-5


def test_thickness_and_flags(device):
    """Walls count, shapes that meet no other shapes do not, the ground does while the model says so."""
    points = [[0.0, 2.0, 0.0]]
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sphere(-1, radius=0.5, thickness=0.1)
    assert np.isclose(measure(builder, points, device=device)[0], 1.4, atol=1e-6)
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sphere(-1, radius=0.5, has_shape_collision=False)
    assert np.isinf(measure(builder, points, device=device)[0])
    builder.set_ground_plane(offset=-1.0)
    assert np.isclose(measure(builder, [[0.0, 2.0, 0.0]], device=device)[0][-1], 3.0, atol=1e-6)
