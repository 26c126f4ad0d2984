"""Bodies cross the seams of floors made of several shapes as if the floor were one; real steps stop them."""

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run

import newtonsim
from newtonsim import ModelBuilder

TILE = 0.1  # [m]
SPEED = 2.0  # [m/s]
G = 9.81


def block(x: float, y: float, z: float) -> newtonsim.Mesh:
    """A box with these half extents, as a mesh."""
    corners = np.array([[i, j, k] for i in (-x, x) for j in (-y, y) for k in (-z, z)])
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
    faces += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    return newtonsim.Mesh(corners, faces)


def wheel(corners: int, radius: float, half_width: float) -> newtonsim.Mesh:
    """A prism about y that stands on one of its sides."""
    turn = 2.0 * np.pi * (np.arange(corners) + 0.5) / corners
    rim = radius * np.column_stack([np.sin(turn), np.zeros(corners), -np.cos(turn)])
    sides = [rim + np.array([0.0, y, 0.0]) for y in (-half_width, half_width)]
    faces = [[0, k + 1, k] for k in range(1, corners - 1)]
    faces += [[corners, corners + k, corners + k + 1] for k in range(1, corners - 1)]
    for k in range(corners):
        n = (k + 1) % corners
        faces += [[k, n, corners + n], [k, corners + n, corners + k]]
    return newtonsim.Mesh(np.concatenate(sides), faces)


def quarter_turn(axis: tuple) -> wp.quat:
    return wp.quat_from_axis_angle(wp.vec3(*axis), np.pi / 2.0)


# what slides: height of its origin, and how its shape is added
BODIES: dict[str, tuple[float, Callable]] = {
    "box": (0.05, lambda w, b, mu: w.add_shape_box(b, hx=0.05, hy=0.05, hz=0.05, mu=mu)),
    "hull": (0.05, lambda w, b, mu: w.add_shape_mesh(b, mesh=block(0.05, 0.05, 0.05), convex=True, mu=mu)),
    "sphere": (0.03, lambda w, b, mu: w.add_shape_sphere(b, radius=0.03, mu=mu)),
    "capsule": (
        0.03,
        lambda w, b, mu: w.add_shape_capsule(b, radius=0.03, half_height=0.05, up_axis=0, mu=mu),
    ),
    "cylinder": (
        0.02,
        lambda w, b, mu: w.add_shape_cylinder(b, radius=0.04, half_height=0.02, up_axis=2, mu=mu),
    ),
    "roller": (
        0.04,
        lambda w, b, mu: w.add_shape_cylinder(b, radius=0.04, half_height=0.02, up_axis=1, mu=mu),
    ),
    "wheel": (
        0.04 * np.cos(np.pi / 24),
        lambda w, b, mu: w.add_shape_mesh(b, mesh=wheel(24, 0.04, 0.02), convex=True, mu=mu),
    ),
}


def skid(world: ModelBuilder, body: int, mu: float) -> None:
    """Two boxes of one body, one after the other."""
    for x in (-0.04, 0.04):
        world.add_shape_box(body, pos=(x, 0.0, 0.0), hx=0.02, hy=0.05, hz=0.05, mu=mu)


def tile(
    world: ModelBuilder, kind: str, x: float, z: float, mu: float, body: int = -1, half: float = 0.5 * TILE
):
    """A tile 1 m wide and 10 cm thick, with its top at height z."""
    place = (x, 0.0, z - 0.05)
    if kind == "hull":
        world.add_shape_mesh(body, pos=place, mesh=block(half, 0.5, 0.05), convex=True, mu=mu)
    else:
        world.add_shape_box(body, pos=place, hx=half, hy=0.5, hz=0.05, mu=mu)


def floor(world: ModelBuilder, kind: str, mu: float = 0.0, tiles: int = 24) -> None:
    """A row of tiles, fixed to the world."""
    for i in range(tiles):
        tile(world, kind, i * TILE, 0.0, mu, -1)


def slider(world: ModelBuilder, name: str, mu: float = 0.0, x: float = 0.013) -> int:
    z, add = BODIES[name] if name != "skid" else (0.05, skid)
    body = world.add_body(origin=wp.transform((x, 0.007, z), wp.quat_identity()))
    add(world, body, mu)
    return body


def launched(
    world: ModelBuilder, device: str, dt: float, bodies: list[int], v: tuple, spin: float = 0.0
) -> Run:
    """The scene with a velocity [m/s] of some free bodies, which turn about y by `spin` [rad/s]."""
    run = Run(world.finalize(device), dt)
    qd = run.joint_qd.reshape(-1, 6)
    for body in bodies:
        qd[body, 1], qd[body, 3:] = spin, v
    run.start(run.joint_q, qd)
    return run


@pytest.mark.parametrize("dt", [1.0 / 600.0, 1.0 / 240.0, 1.0 / 60.0])
@pytest.mark.parametrize("name", [*BODIES, "skid"])
@pytest.mark.parametrize("kind", ["box", "hull"])
def test_what_slides_without_friction_keeps_its_speed(device: str, kind: str, name: str, dt: float):
    """Nothing pushes it but what bears it: its speed, height and direction stay (Newton's first law)."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    floor(world, kind)
    body = slider(world, name)
    run = launched(world, device, dt, [body], (SPEED, 0.0, 0.0))
    start = run.body_q[body].copy()
    highest = 0.0
    for _ in range(round(1.0 / dt)):
        run.step()
        highest = max(highest, run.body_q[body, 2] - start[2])
    v, w = run.body_qd[body, 3:], run.body_qd[body, :3]
    # the step that crosses a seam between two that lie in each other by the slop turns it by less than this
    np.testing.assert_allclose(v, [SPEED, 0.0, 0.0], atol=0.005)
    np.testing.assert_allclose(run.body_q[body, :2] - start[:2], [SPEED, 0.0], atol=0.005)
    assert highest < 3e-4
    assert np.abs(w).max() < 0.1


@pytest.mark.parametrize("mu", [0.2, 0.5])
@pytest.mark.parametrize("kind", ["box", "hull"])
@pytest.mark.parametrize("name", ["box", "hull", "capsule", "cylinder"])
def test_what_slides_with_friction_stops_where_coulomb_says(device: str, name: str, kind: str, mu: float):
    """After v² / (2 µ g), up to half a step."""
    dt = 1.0 / 240.0
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    floor(world, kind, mu)
    body = slider(world, name, mu)
    run = launched(world, device, dt, [body], (SPEED, 0.0, 0.0))
    x = run.body_q[body, 0]
    run.run_for(1.3)
    assert np.abs(run.body_qd[body]).max() < 1e-3
    assert abs(run.body_q[body, 0] - x - SPEED**2 / (2.0 * mu * G)) < 0.6 * SPEED * dt


@pytest.mark.parametrize("direction", [(1.0, 0.0), (0.8, 0.6), (1.0, 0.05)], ids=str)
def test_a_ball_rolls_straight_across_a_floor_of_squares(device: str, direction: tuple):
    """One that rolls without slipping goes on as it does, whatever corners and edges it passes."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for i in range(-1, 14):
        for j in range(-2, 10):
            place = (i * TILE + 0.5 * TILE * (j % 2), j * TILE, -0.05)
            world.add_shape_box(-1, pos=place, hx=0.5 * TILE, hy=0.5 * TILE, hz=0.05, mu=0.8)
    ball = world.add_body(origin=wp.transform((0.013, 0.007, 0.03), wp.quat_identity()))
    world.add_shape_sphere(ball, radius=0.03, mu=0.8)
    along = np.array(direction) / np.linalg.norm(direction)
    run = Run(world.finalize(device), 1.0 / 240.0)
    qd = np.zeros((1, 6))
    qd[0, :2] = SPEED / 0.03 * np.array([-along[1], along[0]])
    qd[0, 3:5] = SPEED * along
    run.start(run.joint_q, qd)
    run.run_for(0.5)
    np.testing.assert_allclose(run.body_qd[ball, 3:], [*(SPEED * along), 0.0], atol=0.005)
    np.testing.assert_allclose(run.body_q[ball, :2] - [0.013, 0.007], SPEED * 0.5 * along, atol=0.002)


def approach(device: str, kind: str, name: str, height: float) -> tuple[Run, int]:
    """A body on its way to a step at x = 0.35 m, or to a wall there, 1 m high, on a tile that is level."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    floor(world, kind, tiles=4)
    tile(world, kind, 0.85, 0.0 if height == 1.0 else height, 0.0, half=0.5)
    if height == 1.0:
        world.add_shape_box(-1, pos=(0.85, 0.0, 0.5), hx=0.5, hy=0.5, hz=0.5, mu=0.0)
    body = slider(world, name)
    return launched(world, device, 1.0 / 240.0, [body], (SPEED, 0.0, 0.0)), body


def pass_impact(run: Run, body: int) -> None:
    """Go on to the second step after the speed has dropped; the first one of an impact may close a gap."""
    while run.body_qd[body, 3] > 0.98 * SPEED and run.body_q[body, 0] < 1.0:
        run.step()
    run.step()
    run.step()


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("kind", ["box", "hull"])
def test_a_wall_stops_what_slides(device: str, kind: str, name: str):
    run, body = approach(device, kind, name, 1.0)
    run.run_for(0.4)
    assert abs(run.body_qd[body, 3]) < 0.1
    assert run.body_q[body, 0] < 0.35 - 0.019


@pytest.mark.parametrize(
    ("name", "half_length", "half_height", "turning"),
    [
        ("box", 0.05, 0.05, 0.1**2 / 6.0),
        ("hull", 0.05, 0.05, 0.1**2 / 6.0),
        ("cylinder", 0.04, 0.02, 0.04**2 / 4.0 + 0.04**2 / 12.0),
    ],
)
@pytest.mark.parametrize("kind", ["box", "hull"])
def test_what_slides_trips_over_a_step_of_5_mm(
    device: str, kind: str, name: str, half_length: float, half_height: float, turning: float
):
    """A plastic impact at the front, the floor below it: ω = v h / (k² + a² + h²) from the moment about it.

    The step hits between its foot and its top, by which the arm h of the centre differs.
    """
    run, body = approach(device, kind, name, 0.005)
    pass_impact(run, body)
    after = []
    for h in (half_height - 0.005, half_height):
        after.append(SPEED * h * h / (turning + half_length**2 + h * h))
    assert 0.9 * after[0] < run.body_qd[body, 3] < 1.1 * after[1]
    assert run.body_q[body, 0] < 0.35 - half_length + 0.015


@pytest.mark.parametrize("name", ["sphere", "roller", "wheel"])
def test_what_is_round_loses_speed_at_a_step_of_5_mm(device: str, name: str):
    """A plastic impact leaves the part of the velocity across the normal at the edge, cos α = 1 - h / r."""
    run, body = approach(device, "box", name, 0.005)
    pass_impact(run, body)
    r = BODIES[name][0]
    left = SPEED * (1.0 - 0.005 / r) ** 2
    np.testing.assert_allclose(run.body_qd[body, 3], left, rtol=0.1)


@pytest.mark.parametrize("name", ["box", "hull"])
def test_both_sides_of_a_ridge_bear_what_stands_on_it(device: str, name: str):
    """Two blocks lean to either side by 5 degrees and meet in a ridge; the cube comes to lie on one."""
    lean = np.radians(5.0)
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for side in (-1.0, 1.0):
        turn = wp.quat_from_axis_angle(wp.vec3(0.0, side, 0.0), float(lean))
        # the middle of the block's upper edge, at its inner end, is the origin
        c, s = np.cos(lean), np.sin(lean)
        x, z = side * 0.25, -0.05
        place = (c * x + side * s * z, 0.0, -side * s * x + c * z)
        world.add_shape_box(-1, pos=place, rot=turn, hx=0.25, hy=0.5, hz=0.05, mu=1.0)
    body = slider(world, name, 1.0, x=0.01)
    run = Run(world.finalize(device), 1.0 / 240.0)
    run.run_for(2.0)
    q = run.body_q[body]
    tilt = 2.0 * np.arcsin(np.abs(q[3:6]).max())
    assert np.abs(run.body_qd[body]).max() < 1e-3
    np.testing.assert_allclose(tilt, lean, atol=np.radians(0.3))
    # its centre is half its size over the plane of the side that it lies on
    over = np.cos(lean) * q[2] + np.sin(lean) * q[0]
    np.testing.assert_allclose(over, 0.05, atol=3e-4)


def test_crowded_worlds_have_no_seams_either(device: str):
    """So many boxes that pairs are swept, not listed: they slide in a column, each at its own speed."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for i in range(50):
        world.add_shape_box(-1, pos=(i * TILE, 2.0, -0.05), hx=0.5 * TILE, hy=2.5, hz=0.05, mu=0.0)
    bodies = []
    for k in range(40):
        bodies.append(world.add_body(origin=wp.transform((0.013, 0.1 * k, 0.03), wp.quat_identity())))
        world.add_shape_box(bodies[-1], hx=0.03, hy=0.03, hz=0.03, mu=0.0)
    model = world.finalize(device)
    assert model.shape_contact_pairs is None
    run = Run(model, 1.0 / 240.0)
    qd = np.zeros((40, 6))
    qd[:, 3] = np.linspace(1.0, 4.0, 40)
    run.start(run.joint_q, qd)
    run.run_for(1.0)
    np.testing.assert_allclose(run.body_qd[:, 3], qd[:, 3], atol=0.002)
    np.testing.assert_allclose(run.body_q[:, 0] - 0.013, qd[:, 3], atol=0.002)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_box_tips_over_an_edge_onto_the_next_tile(device: str, side: float):
    """Its middle is beyond the edge of a tile 2 cm higher than the next: it turns, and lies on both."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    tile(world, "box", -0.25 * side, 0.02, 1.0, half=0.25)
    tile(world, "box", 0.25 * side, 0.0, 1.0, half=0.25)
    body = world.add_body(origin=wp.transform((0.02 * side, 0.0, 0.07), wp.quat_identity()))
    world.add_shape_box(body, hx=0.1, hy=0.05, hz=0.05, mu=1.0)
    run = Run(world.finalize(device), 1.0 / 240.0)
    lowest = 1.0
    corners = np.array([[i, j, k] for i in (-0.1, 0.1) for j in (-0.05, 0.05) for k in (-0.05, 0.05)])
    for _ in range(480):
        run.step()
        turn = wp.quat_to_matrix(wp.quat(*run.body_q[body, 3:].tolist()))
        at = corners @ np.array(turn).reshape(3, 3).T + run.body_q[body, :3]
        lowest = min(lowest, at[:, 2].min())
    assert np.abs(run.body_qd[body]).max() < 1e-3
    assert abs(run.body_q[body, 4]) > 0.05
    assert lowest > -3e-4


@pytest.mark.parametrize("name", [*BODIES])
def test_the_ground_and_plates_level_with_it_are_one_floor(device: str, name: str):
    """Two plates in a ground plane: what slides onto them and off again keeps its speed."""
    world = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    world.set_ground_plane(mu=0.0)
    for x in (0.6, 1.2):
        tile(world, "box", x, 0.0, 0.0, half=0.15)
    body = slider(world, name)
    run = launched(world, device, 1.0 / 240.0, [body], (SPEED, 0.0, 0.0)).run_for(1.0)
    np.testing.assert_allclose(run.body_qd[body, 3:], [SPEED, 0.0, 0.0], atol=0.005)
