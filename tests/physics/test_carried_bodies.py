"""Bodies that friction carries along arcs stay where they lie, and rolling bodies keep their way.

What lies at radius r on a table that turns at w is accelerated by w² r towards the axle. Were it only not to
slip in the geometry at the start of every step, it would leave the circle by h² w² r/2 in each. What is left
is of third order: it falls behind by h³ w³ r/6.
"""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run, diagonal_inertia, rotation_matrices, z_up

import newtonsim

DT = 1.0 / 240.0
HALF = 0.05  # of the box [m]
RADIUS = 0.5  # [m]


def add_table(builder, axis: str, kind: str) -> int:
    """A body that turns about the z or the y axis of the world: on a hinge, or as prescribed."""
    body = builder.add_body(mass=20.0 * (kind == "hinge"), I_m=diagonal_inertia(4.0, 4.0, 4.0))
    if kind == "hinge":
        direction = (0.0, 0.0, 1.0) if axis == "z" else (0.0, 1.0, 0.0)
        limits = {"limit_lower": -math.inf, "limit_upper": math.inf}
        builder.add_joint_revolute(-1, body, axis=direction, armature=1.0e6, **limits)
    return body


def spinning(run: Run, table: int, box: int, kind: str, spin: np.ndarray) -> Run:
    """Let the table turn at a spin [rad/s], and the box with it."""
    arm = run.body_q[box, :3]
    free = [*spin, *np.cross(spin, arm)]
    if kind == "hinge":
        return run.start(joint_qd=[np.abs(spin).max(), *free])
    run.start(joint_qd=free)
    velocities = run.body_qd
    velocities[table, :3] = spin
    run.state.body_qd.assign(velocities)
    return run


def pose_on(run: Run, table: int, box: int) -> tuple[np.ndarray, np.ndarray]:
    """Place and rotation matrix of the box in the frame of the table."""
    turned = rotation_matrices(run.body_q[:, 3:])
    place = turned[table].T @ (run.body_q[box, :3] - run.body_q[table, :3])
    return place, turned[table].T @ turned[box]


@pytest.mark.parametrize("kind", ["hinge", "prescribed"])
def test_a_box_rides_on_a_turntable(device: str, kind: str):
    """Without bias accelerations it creeps outwards by 4 mm/s."""
    speed, turns = 2.0, 3.0
    builder = z_up()
    table = add_table(builder, "z", kind)
    builder.add_shape_box(table, pos=(0.0, 0.0, -0.05), hx=0.8, hy=0.8, hz=0.05, mu=0.8, density=0.0)
    box = builder.add_body(origin=wp.transform((RADIUS, 0.0, HALF), wp.quat_identity()))
    builder.add_shape_box(box, hx=HALF, hy=HALF, hz=HALF, mu=0.8)
    run = Run(builder.finalize(device), DT)
    spinning(run, table, box, kind, np.array([0.0, 0.0, speed])).run_for(turns * 2.0 * math.pi / speed)
    place, rotation = pose_on(run, table, box)
    assert np.linalg.norm(place - [RADIUS, 0.0, HALF]) < 4.0e-4
    assert np.abs(rotation - np.eye(3)).max() < 1.0e-3


@pytest.mark.parametrize("kind", ["hinge", "prescribed"])
def test_a_box_rides_in_a_wheel(device: str, kind: str):
    """Fast enough, it stays on the rim of a wheel with a level axle; without bias accelerations it sinks."""
    speed, turns = 5.5, 3.0
    builder = z_up()
    wheel = add_table(builder, "y", kind)
    place = (0.0, 0.0, -RADIUS - HALF - 0.05)
    builder.add_shape_box(wheel, pos=place, hx=0.2, hy=0.2, hz=0.05, mu=1.5, density=0.0)
    box = builder.add_body(origin=wp.transform((0.0, 0.0, -RADIUS), wp.quat_identity()))
    builder.add_shape_box(box, hx=HALF, hy=HALF, hz=HALF, mu=1.5)
    run = Run(builder.finalize(device), DT)
    spinning(run, wheel, box, kind, np.array([0.0, speed, 0.0])).run_for(turns * 2.0 * math.pi / speed)
    place, rotation = pose_on(run, wheel, box)
    assert abs(place[2] + RADIUS) < 2.0e-4
    assert np.abs(place[:2]).max() < 1.0e-3
    assert np.abs(rotation - np.eye(3)).max() < 2.0e-3


@pytest.mark.parametrize("spin", [0.0, 20.0])
def test_a_ball_rolls_straight(device: str, spin: float):
    """A ball that rolls and spins about the vertical keeps its velocity: nothing slips, nothing acts."""
    radius, speed = 0.1, 2.0
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, radius), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=radius, mu=0.8, restitution=0.0)
    builder.set_ground_plane(mu=0.8, restitution=0.0)
    run = Run(builder.finalize(device), DT)
    run.start(joint_qd=[0.0, speed / radius, spin, speed, 0.0, 0.0]).run_for(2.0)
    np.testing.assert_allclose(run.body_q[0, :3], [2.0 * speed, 0.0, radius], atol=2.0e-3)
    np.testing.assert_allclose(run.body_qd[0], [0.0, speed / radius, spin, speed, 0.0, 0.0], atol=2.0e-3)


@pytest.mark.parametrize("speed", [2.0, 33.0, 66.0])
def test_a_wheel_keeps_its_height(device: str, speed: float):
    """A cylinder that rolls, by up to 2.75 rad a step: where it touches, points leave the ground, not it.

    Over 2 s it may slip by a ten-thousandth of its way, and turn aside by a ten-thousandth of a radian:
    float32 resolves 8 um of the 132 m of the fastest.
    """
    radius = 0.1
    builder = z_up()
    body = builder.add_body(origin=wp.transform((0.0, 0.0, radius), wp.quat_identity()))
    builder.add_shape_cylinder(body, radius=radius, half_height=0.05, up_axis=1, mu=0.8, restitution=0.0)
    builder.set_ground_plane(mu=0.8, restitution=0.0)
    run = Run(builder.finalize(device), DT)
    run.start(joint_qd=[0.0, speed / radius, 0.0, speed, 0.0, 0.0])
    (poses,) = run.record(480, "body_q")
    assert np.abs(poses[:, 0, 2] - radius).max() < 2.0e-4
    np.testing.assert_allclose(run.body_q[0, :3], [2.0 * speed, 0.0, radius], atol=5.0e-3)
    spin = speed / radius
    np.testing.assert_allclose(run.body_qd[0], [0.0, spin, 0.0, speed, 0.0, 0.0], atol=1.0e-4 * spin)


def rolling_spin(corners: int, radius: float, inertia: float, spin: float, passed: int) -> float:
    """Spin of a polygon of 1 kg over the last of some corners, given that over the first one [rad/s].

    It turns about one corner after the other, and each impact keeps the angular momentum about the next one
    (McGeer, "Passive dynamic walking", 1990, the rimless wheel).
    """
    about_corner = inertia + radius**2
    kept = (inertia + radius**2 * math.cos(2.0 * math.pi / corners)) / about_corner
    fall = 2.0 * 9.81 * radius * (1.0 - math.cos(math.pi / corners)) / about_corner
    square = spin**2
    for _ in range(passed):
        square = kept**2 * (square + fall) - fall
    return math.sqrt(square)


def test_a_polygon_rolls_over_its_corners(device: str):
    """Its centre rises to the radius over each corner, not beyond: it is too slow to take off."""
    corners, radius, spin, inertia = 24, 0.2, 6.0, 0.02
    angle = np.arange(corners) * 2.0 * np.pi / corners
    ring = radius * np.stack([np.sin(angle), 0.0 * angle, -np.cos(angle)], axis=1)
    points = np.concatenate([ring + side * np.array((0.0, 0.05, 0.0)) for side in (-1.0, 1.0)])
    after = (np.arange(corners) + 1) % corners
    faces = np.stack([np.arange(corners), after, corners + np.arange(corners)], axis=1)
    builder = z_up()
    body = builder.add_body(
        mass=1.0, I_m=inertia * np.eye(3), origin=wp.transform((0.0, 0.0, radius), wp.quat_identity())
    )
    builder.add_shape_mesh(
        body, mesh=newtonsim.Mesh(points, faces, compute_inertia=False), density=0.0, convex=True, mu=2.0
    )
    builder.set_ground_plane(mu=2.0)
    run = Run(builder.finalize(device), DT)
    run.start(joint_qd=[0.0, spin, 0.0, spin * radius, 0.0, 0.0])
    poses, speeds = run.record(240, "body_q", "body_qd")
    assert poses[:, 0, 2].max() < radius + 1.0e-4
    side = 2.0 * radius * math.sin(math.pi / corners)
    passed = int(poses[-1, 0, 0] / side)
    found = np.interp(passed * side, poses[:, 0, 0], speeds[:, 0, 1])
    assert found == pytest.approx(rolling_spin(corners, radius, inertia, spin, passed), rel=0.08)
