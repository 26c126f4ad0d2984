"""Coulomb friction of contacts: a box on a slope sticks, or slides at g (sin α - µ cos α)."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, diagonal_inertia, many, quaternion, z_up

import newtonsim

FRICTION = 0.5
HALF = 0.1


def slope_frame(angle: float, heading: float) -> tuple[np.ndarray, np.ndarray]:
    """Normal of a plane that falls by `angle` towards `heading`, and the direction of steepest descent."""
    downhill = np.array([math.cos(heading), math.sin(heading), 0.0])
    normal = math.sin(angle) * downhill + np.array([0.0, 0.0, math.cos(angle)])
    return normal, math.cos(angle) * downhill - np.array([0.0, 0.0, math.sin(angle)])


def box_on_slope(angle: float, heading: float, device: str, worlds: int = 1) -> newtonsim.Model:
    """Boxes that rest on a tilted ground plane, turned about its normal so that no edge points downhill."""
    normal, _ = slope_frame(angle, heading)
    tilt = wp.quat(*quaternion((-math.sin(heading), math.cos(heading), 0.0), angle))
    turned = tilt * wp.quat(*quaternion((0.0, 0.0, 1.0), 0.4))
    world = z_up()
    body = world.add_body(origin=wp.transform(wp.vec3(*(normal * HALF)), turned))
    world.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF, mu=FRICTION, restitution=0.0)
    builder = many(world, worlds)
    builder.set_ground_plane(normal=tuple(normal), mu=FRICTION, restitution=0.0)
    return builder.finalize(device)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("ratio", [0.5, 0.95])
def test_box_sticks_below_the_friction_angle(device: str, ratio: float, cone: str):
    angle = math.atan(ratio * FRICTION)
    run = Run(box_on_slope(angle, 0.3, device), 1.0 / 240.0, cone=cone)
    start = run.body_q[0, :3]
    run.run_for(3.0)
    assert np.linalg.norm(run.body_q[0, :3] - start) < 2.0e-3
    assert np.abs(run.body_qd[0]).max() < 1.0e-3


@pytest.mark.parametrize("heading", [0.0, 0.3, math.pi / 4.0])
@pytest.mark.parametrize("ratio", [1.2, 2.0])
def test_box_slides_above_the_friction_angle(device: str, ratio: float, heading: float):
    """An elliptic cone gives the same friction in every direction; a pyramid would not."""
    angle = math.atan(ratio * FRICTION)
    run = Run(box_on_slope(angle, heading, device), 1.0 / 240.0)
    run.run_for(0.25)
    velocity = run.body_qd[0, 3:]
    run.run_for(0.5)
    acceleration = (run.body_qd[0, 3:] - velocity) / 0.5
    _, downhill = slope_frame(angle, heading)
    expected = GRAVITY * (math.sin(angle) - FRICTION * math.cos(angle))
    np.testing.assert_allclose(acceleration, expected * downhill, rtol=0.0, atol=0.02 * expected)
    assert np.abs(run.body_qd[0, :3]).max() < 2.0e-2


def test_tilted_gravity_is_a_slope(device: str):
    """The same physics with a level plane and the gravity vector set at run time."""
    angle = math.atan(1.5 * FRICTION)
    model = box_on_slope(0.0, 0.0, device)
    model.gravity = (GRAVITY * math.sin(angle), 0.0, -GRAVITY * math.cos(angle))
    run = Run(model, 1.0 / 240.0)
    run.run_for(0.5)
    expected = GRAVITY * (math.sin(angle) - FRICTION * math.cos(angle))
    np.testing.assert_allclose(run.body_qd[0, 3:], [0.5 * expected, 0.0, 0.0], rtol=0.0, atol=0.01 * expected)


def test_sliding_sphere_starts_to_roll(device: str):
    """A sphere thrown without spin slides until v = 5/7 v0, at t = 2 v0 / 7 µ g, and then rolls on."""
    radius, speed, mu = 0.1, 2.0, 0.3
    world = z_up()
    body = world.add_body(origin=wp.transform((0.0, 0.0, radius), wp.quat_identity()))
    world.add_shape_sphere(body, radius=radius, mu=mu, restitution=0.0)
    world.set_ground_plane(mu=mu, restitution=0.0)
    run = Run(world.finalize(device), 1.0 / 480.0).start(joint_qd=[0.0, 0.0, 0.0, speed, 0.0, 0.0])
    slip_ends = 2.0 * speed / (7.0 * mu * GRAVITY)
    run.run_for(0.5 * slip_ends)
    expected = speed - mu * GRAVITY * run.dt * round(0.5 * slip_ends / run.dt)
    assert run.body_qd[0, 3] == pytest.approx(expected, rel=1.0e-2)
    run.run_for(2.0 * slip_ends)
    assert run.body_qd[0, 3] == pytest.approx(5.0 / 7.0 * speed, rel=1.0e-2)
    assert run.body_qd[0, 1] * radius == pytest.approx(run.body_qd[0, 3], rel=1.0e-2)


def test_moving_floor_carries_a_box(device: str):
    """A kinematic floor that starts to move drags the box by µ times the normal impulse, then carries it."""
    mu, velocity = 0.4, np.array([1.0, 0.0, 0.2])
    world = z_up()
    floor = world.add_body(mass=0.0)
    world.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), body=floor, width=0.0, length=0.0, mu=mu)
    box = world.add_body(origin=wp.transform((0.0, 0.0, HALF), wp.quat_identity()))
    world.add_shape_box(box, hx=HALF, hy=HALF, hz=HALF, mu=mu)
    run = Run(world.finalize(device), 1.0 / 240.0)
    body_qd = run.body_qd
    body_qd[floor, 3:] = velocity
    run.state.body_qd.assign(body_qd)
    run.run_for(0.1)
    assert run.body_qd[box, 3] == pytest.approx(mu * (0.1 * GRAVITY + velocity[2]), rel=0.05)
    run.run_for(1.9)
    np.testing.assert_allclose(run.body_qd[box, 3:], velocity, rtol=0.0, atol=1.0e-3)
    assert run.body_q[box, 2] - run.body_q[floor, 2] == pytest.approx(HALF, abs=1.0e-3)


@pytest.mark.parametrize("heading", [0.0, 0.5])
@pytest.mark.parametrize("inertia", [0.004, 0.4])
def test_weighted_friction_leans_to_where_a_wheel_is_heavier(device: str, inertia: float, heading: float):
    """A wheel that turns freely skids: friction along x and y in proportion to the slips over D_x and D_y.

    D = 1/m + r² (a_x²) / J along x, where the wheel of inertia J rolls towards a, and likewise along y.
    """
    mass, radius, slip = 11.0, 0.1, np.array([2.0, 1.0])
    world = z_up()
    turned = wp.quat(*quaternion((0.0, 0.0, 1.0), heading))
    start = wp.transform(wp.vec3(0.0, 0.0, radius), turned)
    carriage = world.add_body(origin=start, mass=mass - 1.0, I_m=diagonal_inertia(1.0e3, 1.0e3, 1.0e3))
    world.add_joint_free(carriage)
    wheel = world.add_body(origin=start, mass=1.0, I_m=diagonal_inertia(inertia, inertia, inertia))
    world.add_joint_revolute(carriage, wheel, axis=(0.0, 1.0, 0.0), armature=0.0)
    world.add_shape_sphere(wheel, radius=radius, density=0.0, mu=FRICTION, restitution=0.0)
    world.set_ground_plane(mu=FRICTION, restitution=0.0)
    run = Run(world.finalize(device), 1.0e-4, cone="weighted").start(joint_qd=[0, 0, 0, *slip, 0, 0])
    run.run_for(1.0e-3)
    towards = np.array([math.cos(heading), math.sin(heading)])
    delassus = 1.0 / mass + radius**2 * towards**2 / inertia
    friction = -FRICTION * GRAVITY * (slip / delassus) / np.linalg.norm(slip / delassus)
    np.testing.assert_allclose(run.body_qd[carriage, 3:5] - slip, 1.0e-3 * friction, rtol=0.02, atol=2.0e-5)
