"""Bodies that roll, slide and rest on meshes, height fields and distance fields, through the whole solver."""

import numpy as np
import pytest
import warp as wp
from collision.surfaces_lab import box_mesh, concatenated, floor_mesh
from collision.test_mesh_contacts import bumpy_ball
from physics.scenes import Run

import newtonsim
from newtonsim.geometry import SDF, Heightfield, Mesh

DT = 1.0 / 240.0


def tray() -> Mesh:
    """Floor and four walls, boxes that touch each other, as one mesh; the floor is at y = 0."""
    parts = []
    for size, place in (
        ((0.2, 0.02, 0.2), (0.0, -0.02, 0.0)),
        ((0.02, 0.1, 0.2), (-0.22, 0.08, 0.0)),
        ((0.02, 0.1, 0.2), (0.22, 0.08, 0.0)),
        ((0.2, 0.1, 0.02), (0.0, 0.08, -0.22)),
        ((0.2, 0.1, 0.02), (0.0, 0.08, 0.22)),
    ):
        part = box_mesh(*size)
        parts.append(Mesh(part.vertices + np.array(place, np.float32), part.indices))
    return concatenated(parts)


def bolt() -> Mesh:
    """A six-sided shank with a six-sided head, not convex."""
    import trimesh

    profile = [(0.0, -0.04), (0.01, -0.04), (0.01, 0.0325), (0.02, 0.0325), (0.02, 0.0475), (0.0, 0.0475)]
    mesh = trimesh.creation.revolve(profile, sections=6)
    return Mesh(mesh.vertices, mesh.faces)


def run(
    add_body, add_ground, device: str, speed=(0.0, 0.0, 0.0), place=(0.0, 0.0, 0.0), q=(0.0, 0.0, 0.0, 1.0)
):
    """One body on a ground, ready to step."""
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(origin=wp.transform(place, wp.normalize(wp.quat(*q))))
    add_body(builder, body)
    add_ground(builder)
    runner = Run(builder.finalize(device), DT)
    runner.start(joint_qd=[0.0, 0.0, 0.0, *speed])
    return runner


def on_floor(builder):
    builder.add_shape_mesh(-1, mesh=floor_mesh(24, 6.0), mu=0.5)


def on_plane(builder):
    builder.set_ground_plane((0.0, 1.0, 0.0), 0.0, mu=0.5)


def box_of(builder, body):
    builder.add_shape_box(body, hx=0.1, hy=0.05, hz=0.08, density=1000.0, mu=0.5)


def ball_of(builder, body):
    builder.add_shape_sphere(body, radius=0.1, density=1000.0, mu=0.5)


@pytest.mark.parametrize(("add_body", "height"), [(box_of, 0.05), (ball_of, 0.1)], ids=["box", "ball"])
def test_sliding_and_rolling_as_on_a_plane(add_body, height, device):
    """From 2 m/s on a floor of 1152 triangles the body comes as far as on the plane, and stays level."""
    found = []
    for ground in (on_floor, on_plane):
        runner = run(add_body, ground, device, speed=(1.6, 0.0, 1.2), place=(-1.0, height, -0.8))
        (track,) = runner.record(240, "body_q", every=4)
        found.append(track[:, 0])
    on_mesh, plane = found
    np.testing.assert_allclose(on_mesh[:, 1], height, atol=2e-4)
    np.testing.assert_allclose(on_mesh[-1, :3], plane[-1, :3], atol=0.01)
    if add_body is box_of:
        # braked by friction: v^2 / (2 mu g)
        gone = np.linalg.norm(on_mesh[-1, [0, 2]] - [-1.0, -0.8])
        assert gone == pytest.approx(4.0 / (2.0 * 0.5 * 9.81), abs=0.02)
        turned = 2.0 * np.linalg.norm(on_mesh[-1, 3:6])
        assert turned < 0.02


def bolt_of(builder, body):
    builder.add_shape_mesh(body, mesh=bolt(), density=7800.0, convex=False)


def small_box_of(builder, body):
    builder.add_shape_box(body, hx=0.03, hy=0.02, hz=0.04, density=1000.0)


def on_tray_mesh(builder):
    builder.add_shape_mesh(-1, mesh=tray())


def on_tray_field(builder):
    builder.add_shape_sdf(-1, sdf=SDF.from_mesh(tray(), resolution=64))


@pytest.mark.parametrize("ground", [on_tray_mesh, on_tray_field], ids=["mesh", "field"])
@pytest.mark.parametrize("add_body", [bolt_of, small_box_of], ids=["bolt", "box"])
def test_comes_to_rest_in_a_tray(add_body, ground, device):
    """Dropped askew, the body ends at rest on the bottom, inside of the walls."""
    runner = run(add_body, ground, device, (0.4, 0.0, 0.2), (0.0, 0.1, 0.0), (0.3, 0.1, 0.2, 0.9))
    runner.run_for(4.0)
    assert np.max(np.abs(runner.body_qd)) < 1e-3
    x, y, z = runner.body_q[0, :3]
    assert max(abs(x), abs(z)) < 0.2
    assert 0.005 < y < 0.05
    before = runner.body_q
    runner.run_for(2.0)
    np.testing.assert_allclose(runner.body_q, before, atol=1e-4)


def test_bodies_stay_on_a_terrain(device):
    """Boxes come to rest on hills, capsules roll in the valleys, and nothing sinks in."""
    x = np.linspace(-2.0, 2.0, 41)
    heights = 0.2 * np.cos(1.5 * x)[None, :] + 0.2 * np.cos(1.5 * x)[:, None]
    builder = newtonsim.ModelBuilder()
    rng = np.random.default_rng(0)
    for k in range(6):
        p = rng.uniform([-1.0, 0.7, -1.0], [1.0, 1.2, 1.0])
        body = builder.add_body(origin=wp.transform(p, wp.quat_identity()))
        if k % 2:
            builder.add_shape_box(body, hx=0.1, hy=0.08, hz=0.12, density=1000.0)
        else:
            builder.add_shape_capsule(body, radius=0.06, half_height=0.1, density=1000.0)
    builder.add_shape_heightfield(-1, heightfield=Heightfield(heights, (4.0, 4.0)))
    runner = Run(builder.finalize(device), DT).run_for(3.0)
    x, y, z = runner.body_q[:, :3].T
    over = y - 0.2 * np.cos(1.5 * x) - 0.2 * np.cos(1.5 * z)
    inside = np.maximum(np.abs(x), np.abs(z)) < 1.9
    assert inside.sum() >= 4
    assert over[inside].min() > 0.02
    boxes = inside & (np.arange(6) % 2 == 1)
    assert np.max(np.abs(runner.body_qd[boxes])) < 0.05
    # no faster than the drop from the highest start allows
    assert np.max(np.linalg.norm(runner.body_qd[:, 3:], axis=1)) < np.sqrt(2.0 * 9.81 * 1.6)


def test_thin_plate_does_not_fall_through_one_sheet(device):
    """A plate of 4 mm dropped flat from 1 m onto two triangles lies on them, at 60 steps a second."""
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(origin=wp.transform((0.1, 1.0, 0.05), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.15, hy=0.002, hz=0.15, density=1000.0)
    builder.add_shape_mesh(-1, mesh=floor_mesh(1, 2.0))
    runner = Run(builder.finalize(device), 1.0 / 60.0).run_for(2.0)
    assert runner.body_q[0, 1] == pytest.approx(0.002, abs=5e-4)
    assert np.max(np.abs(runner.body_qd)) < 1e-2


def rough_field() -> Heightfield:
    return Heightfield(np.random.default_rng(1).uniform(0.0, 0.25, (41, 41)), (4.0, 4.0))


def on_rough_field(builder):
    builder.add_shape_heightfield(-1, heightfield=rough_field())


def on_rough_sheet(builder):
    field = rough_field().to_mesh()
    builder.add_shape_mesh(-1, mesh=Mesh(field.vertices, field.indices, compute_inertia=False))


def add_heap(builder, count: int) -> None:
    """Bodies of seven kinds, turned at random, over a square of 1.6 m."""
    ball = bumpy_ball(1)
    options = {"density": 1000.0}
    rng = np.random.default_rng(0)
    for k in range(count):
        place = ((k % 6 - 2.5) * 0.28, 0.9 + 0.28 * (k // 6), (k // 3 % 4 - 1.5) * 0.35)
        body = builder.add_body(origin=wp.transform(place, wp.normalize(wp.quat(*rng.normal(size=4)))))
        match k % 7:
            case 0:
                builder.add_shape_box(body, hx=0.1, hy=0.05, hz=0.15, **options)
            case 1:
                builder.add_shape_capsule(body, radius=0.05, half_height=0.1, **options)
            case 2:
                builder.add_shape_cylinder(body, radius=0.1, half_height=0.04, **options)
            case 3:
                builder.add_shape_cone(body, radius=0.1, half_height=0.1, **options)
            case 4:
                builder.add_shape_sphere(body, radius=0.08, **options)
            case _:
                scale = (0.3, 0.2, 0.4)
                builder.add_shape_mesh(body, mesh=ball, scale=scale, convex=k % 7 == 5, **options)


@pytest.mark.parametrize("ground", [on_rough_field, on_rough_sheet], ids=["field", "sheet"])
def test_heap_on_rough_ground(ground, device):
    """Shapes of all kinds dropped on ground as rough as they are large: none is flung, none falls through."""
    builder = newtonsim.ModelBuilder()
    add_heap(builder, 28)
    ground(builder)
    runner = Run(builder.finalize(device), 1.0 / 60.0)
    (speeds,) = runner.record(240, "body_qd", every=4)
    # the fall from the highest start
    assert np.max(np.linalg.norm(speeds[..., 3:], axis=-1)) < np.sqrt(2.0 * 9.81 * 2.1)
    assert runner.body_q[:, 1].min() > 0.0
    assert np.quantile(np.linalg.norm(speeds[-1, :, 3:], axis=-1), 0.8) < 0.02


@pytest.mark.parametrize("speed", [10.0, 60.0])
def test_fast_ball_does_not_pass_a_sheet(speed, device):
    """A ball that moves by many of its radii a step stops at two triangles."""
    runner = run(
        ball_of,
        lambda b: b.add_shape_mesh(-1, mesh=floor_mesh(1, 4.0)),
        device,
        (0.0, -speed, 0.0),
        (0.1, 2.0, 0.2),
    )
    runner.run_for(0.5)
    assert runner.body_q[0, 1] > 0.095


def test_a_rod_across_a_solid_is_not_pushed_out_lengthwise(device):
    """It lies 0.1 mm deep on the top face; the faces at the sides, which it crosses as well, do not push."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    corners = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.08, 0.08) for z in (-0.06, 0.06)])
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
    faces += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    builder.add_shape_mesh(-1, mesh=newtonsim.Mesh(corners, faces))
    rod = builder.add_body(origin=wp.transform((0.0, 0.05, 0.0899), wp.quat_identity()))
    builder.add_shape_box(rod, hx=0.4, hy=0.03, hz=0.03)
    model = builder.finalize(device)
    contacts = newtonsim.collide(model, model.state())
    count = int(contacts.rigid_contact_count.numpy()[0])
    assert count == 4
    np.testing.assert_allclose(contacts.rigid_contact_distance.numpy()[:count], -1e-4, atol=3e-5)
    np.testing.assert_allclose(contacts.rigid_contact_normal.numpy()[:count], [[0, 0, 1]] * count, atol=1e-4)
