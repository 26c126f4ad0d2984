"""Every shape that meets a plane rests on its surface, and rolls and spins as its inertia says."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, many, quaternion, rotation_matrices, z_up
from scipy.spatial import ConvexHull

import newtonsim
from newtonsim.testing import random_quaternion

HALF, RADIUS = 0.15, 0.1
CUBE_VERTICES = np.array([[x, y, z] for x in (-HALF, HALF) for y in (-HALF, HALF) for z in (-HALF, HALF)])
CUBE_TRIANGLES = [
    0,
    1,
    3,
    0,
    3,
    2,
    4,
    6,
    7,
    4,
    7,
    5,
    0,
    4,
    5,
    0,
    5,
    1,
    2,
    3,
    7,
    2,
    7,
    6,
    0,
    2,
    6,
    0,
    6,
    4,
    1,
    5,
    7,
    1,
    7,
    3,
]


def add_shape(builder: newtonsim.ModelBuilder, kind: str, body: int, **options) -> None:
    """Add a shape that lies along the body's y axis where it has an axis."""
    if kind == "sphere":
        builder.add_shape_sphere(body, radius=RADIUS, **options)
    elif kind == "box":
        builder.add_shape_box(body, hx=HALF, hy=0.5 * HALF, hz=0.7 * HALF, **options)
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius=RADIUS, half_height=HALF, **options)
    elif kind == "cylinder":
        builder.add_shape_cylinder(body, radius=RADIUS, half_height=HALF, **options)
    else:
        mesh = newtonsim.Mesh(CUBE_VERTICES, CUBE_TRIANGLES)
        builder.add_shape_mesh(body, mesh=mesh, **options)


def lowest_points(kind: str, body_q: np.ndarray) -> np.ndarray:
    """Height of the lowest point of each body (n,), from the geometry of the shape alone."""
    R = rotation_matrices(body_q[:, 3:])
    up = R[:, 2, :]
    center = body_q[:, 2].astype(np.float64)
    along = HALF * np.abs(up[:, 1])
    if kind == "sphere":
        return center - RADIUS
    if kind == "box":
        return center - np.abs(up) @ [HALF, 0.5 * HALF, 0.7 * HALF]
    if kind == "capsule":
        return center - along - RADIUS
    if kind == "cylinder":
        return center - along - RADIUS * np.sqrt(np.maximum(0.0, 1.0 - up[:, 1] ** 2))
    return center - HALF * np.abs(up).sum(axis=1)


SHAPES = ["sphere", "box", "capsule", "cylinder", "mesh"]


@pytest.mark.parametrize("rate", [60, 240])
@pytest.mark.parametrize("kind", SHAPES)
def test_dropped_shape_rests_on_its_surface(device: str, kind: str, rate: int):
    worlds = 12
    world = z_up()
    add_shape(world, kind, world.add_body())
    builder = many(world, worlds)
    builder.set_ground_plane()
    rng = np.random.default_rng(0)
    starts = [np.concatenate([[0.0, 0.0, 0.6], random_quaternion(rng)]) for _ in range(worlds)]
    # Round shapes would roll for ever: they start without spin and sideways velocity.
    speeds = rng.normal(size=(worlds, 6)) if kind in ("box", "mesh") else np.zeros((worlds, 6))
    run = Run(builder.finalize(device), 1.0 / rate).start(starts, speeds)
    (poses,) = run.record(4 * rate, "body_q")
    # a cube that comes down on an edge may stand on it for a second, and lands when it falls over
    depths = [lowest_points(kind, pose).min() for pose in poses[2 * rate :]]
    assert min(depths) > -1.0e-2
    np.testing.assert_allclose(lowest_points(kind, run.body_q), 0.0, rtol=0.0, atol=1.0e-3)
    assert np.abs(run.body_qd[:, [2, 5]]).max() < 2.0e-2
    if kind in ("box", "mesh"):
        assert np.abs(run.body_qd).max() < 5.0e-3
        # A face is down: one body axis is vertical.
        assert np.abs(rotation_matrices(run.body_q[:, 3:])[:, 2, :]).max(axis=1).min() > 1.0 - 1.0e-4


TETRAHEDRON = np.array(
    [[0.04, 0.0, -0.012], [-0.02, 0.034, -0.012], [-0.02, -0.034, -0.012], [0.0, 0.0, 0.04]]
)
HULLS = {
    "tetrahedron": TETRAHEDRON,
    "plate": CUBE_VERTICES / HALF * [0.04, 0.02, 0.01],
    "rod": CUBE_VERTICES / HALF * [0.1, 0.005, 0.005],
    "octahedron": 0.04 * np.concatenate([np.eye(3), -np.eye(3)]),
}


def hulls_on_a_plane(kind: str, size: float, device: str) -> newtonsim.Model:
    """Worlds with one of `HULLS` each, and a plane of a size [m], 0 for an infinite one."""
    hull = ConvexHull(HULLS[kind])
    a, b, c = np.moveaxis(hull.points[hull.simplices], 1, 0)
    outwards = np.sum(np.cross(b - a, c - a) * hull.equations[:, :3], axis=1) > 0.0
    faces = np.where(outwards[:, None], hull.simplices, hull.simplices[:, ::-1])
    world = z_up()
    world.add_shape_mesh(world.add_body(), mesh=newtonsim.Mesh(HULLS[kind], faces), convex=True)
    world.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), width=size, length=size)
    return many(world, 40).finalize(device)


def lowest_corners(kind: str, body_q: np.ndarray) -> np.ndarray:
    """Height [m] of the lowest corner of each hull (..., n), given poses (..., n, 7)."""
    heights = np.einsum("...j,vj->...v", rotation_matrices(body_q[..., 3:])[..., 2, :], HULLS[kind])
    return heights.min(axis=-1) + body_q[..., 2]


def turned_at(height: float, count: int) -> list[np.ndarray]:
    """Poses at a height [m], turned at random, (7,) each."""
    rng = np.random.default_rng(0)
    return [np.concatenate([[0.0, 0.0, height], random_quaternion(rng)]) for _ in range(count)]


@pytest.mark.parametrize("size", [0.0, 2.0])
@pytest.mark.parametrize("kind", HULLS)
def test_hulls_that_fall_on_a_plane_stay_above_it(device: str, kind: str, size: float):
    """One corner of a hull stops, and the others go on by 4 cm in the step: they must stop, too."""
    model = hulls_on_a_plane(kind, size, device)
    run = Run(model, 1.0 / 60.0).start(turned_at(0.35, model.world_count))
    (poses,) = run.record(120, "body_q")
    depths = -lowest_corners(kind, poses)
    assert depths.max() < 7.0e-3
    assert np.quantile(depths.max(axis=0), 0.9) < 3.0e-3
    assert depths[-1].max() < 1.0e-3


@pytest.mark.parametrize("kind", HULLS)
def test_hulls_below_the_ground_are_lifted_out(device: str, kind: str):
    """The half-space is solid: what starts in it comes up, and is not thrown."""
    model = hulls_on_a_plane(kind, 0.0, device)
    run = Run(model, 1.0 / 60.0).start(turned_at(-0.1, model.world_count))
    (poses,) = run.record(180, "body_q")
    assert lowest_corners(kind, poses[-1]).min() > -1.0e-3
    assert lowest_corners(kind, poses).max() < 1.0e-2


@pytest.mark.parametrize("kind", ["sphere", "capsule", "cylinder"])
def test_round_shape_rolls_down_a_slope(device: str, kind: str):
    """Without slip a = g sin α / (1 + I / m r²), and the spin goes with the speed."""
    slope, seconds = 0.2, 1.0
    normal = (math.sin(slope), 0.0, math.cos(slope))
    builder = z_up()
    body = builder.add_body(origin=wp.transform(wp.vec3(*normal) * RADIUS, wp.quat_identity()))
    add_shape(builder, kind, body, mu=1.0, restitution=0.0)
    builder.set_ground_plane(normal=normal, mu=1.0, restitution=0.0)
    model = builder.finalize(device)
    run = Run(model, 1.0 / 240.0)
    run.run_for(seconds)
    inertia = model.body_inertia.numpy()[0, 1, 1] / (model.body_mass.numpy()[0] * RADIUS**2)
    speed = GRAVITY * math.sin(slope) / (1.0 + inertia) * seconds
    expected = [0.0, speed / RADIUS, 0.0, speed * math.cos(slope), 0.0, -speed * math.sin(slope)]
    np.testing.assert_allclose(run.body_qd[0], expected, rtol=0.0, atol=1.0e-2 * speed / RADIUS)
    np.testing.assert_allclose(run.body_qd[0, 3:], expected[3:], rtol=0.0, atol=1.0e-2 * speed)


def test_spinning_box_is_stopped_by_friction(device: str):
    """Four corners at distance r slide about the vertical: the torque is µ m g r, whatever the direction."""
    mu, spin, half = 0.4, 8.0, 0.1
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, half), wp.quat(*quaternion((0, 0, 1), 0.3))))
    builder.add_shape_box(body, hx=half, hy=half, hz=half, mu=mu, restitution=0.0)
    builder.set_ground_plane(mu=mu, restitution=0.0)
    run = Run(builder.finalize(device), 1.0 / 2000.0).start(joint_qd=[0.0, 0.0, spin, 0.0, 0.0, 0.0])
    rate = mu * GRAVITY * math.sqrt(2.0) * half / (2.0 / 3.0 * half**2)
    seconds = 0.5 * spin / rate
    run.run_for(seconds)
    assert run.body_qd[0, 2] == pytest.approx(spin - rate * run.dt * round(seconds / run.dt), rel=2.0e-2)
    run.run_for(seconds * 1.2)
    assert np.abs(run.body_qd[0]).max() < 1.0e-3


@pytest.mark.parametrize("mass", [1.0e-3, 1.0e4])
def test_weight_does_not_matter_at_rest(device: str, mass: float):
    """A gram and ten tonnes rest alike: no tolerance is hidden in newtons."""
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, HALF + 0.05), wp.quat_identity()))
    builder.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF, density=mass / (8.0 * HALF**3))
    builder.set_ground_plane()
    run = Run(builder.finalize(device), 1.0 / 120.0).run_for(2.0)
    assert run.body_q[0, 2] == pytest.approx(HALF, abs=1.0e-3)
    assert np.abs(run.body_qd).max() < 1.0e-4


def test_all_touching_vertices_of_a_hull_count(device: str):
    """A prism of 64 sides lies on two edges' ends: the vertices that touch are found, not those far out."""
    angle = np.arange(64) * 2.0 * np.pi / 64
    ring = np.stack([0.1 * np.sin(angle), 0.0 * angle, -0.1 * np.cos(angle)], axis=1)
    points = np.concatenate([ring + np.array((0.0, -0.2, 0.0)), ring + np.array((0.0, 0.2, 0.0))])
    faces = [[i, (i + 1) % 64, 64 + i] for i in range(64)]
    faces += [[(i + 1) % 64, 64 + (i + 1) % 64, 64 + i] for i in range(64)]
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(
        mass=1.0, I_m=np.eye(3), origin=wp.transform((0.0, 0.0, 0.0999), wp.quat_identity())
    )
    builder.add_shape_mesh(body, mesh=newtonsim.Mesh(points, faces, compute_inertia=False), density=0.0)
    builder.set_ground_plane()
    model = builder.finalize(device)
    contacts = newtonsim.collide(model, model.state())
    count = int(contacts.rigid_contact_count.numpy()[0])
    lowest = contacts.rigid_contact_distance.numpy()[:count] < -5e-5
    ends = contacts.rigid_contact_point0.numpy()[:count][lowest]
    np.testing.assert_allclose(np.sort(ends[:, 1]), [-0.2, 0.2], atol=1e-6)
