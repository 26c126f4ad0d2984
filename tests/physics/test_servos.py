"""Servos: bounded velocity constraints on joints."""

import math

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, add_hinge, diagonal_inertia, many, quaternion, z_up
from scipy.spatial.transform import Rotation

from newtonsim import Simulator, dynamics
from newtonsim.scene.enums import JointType
from newtonsim.scene.topology import topology_of
from newtonsim.solvers import FeatherstoneSolver, ServoMode

DT = 1.0 / 240.0
INERTIA = 0.02 + 0.5**2
"""Of one hinged link about its hinge [kg m^2]."""


def servo_simulator(builder, device: str, substeps: int = 1, **options) -> Simulator:
    """A simulator whose joints have servos in mode VELOCITY, without gains."""
    model = builder.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, servos=True, **options), DT, substeps=substeps)
    joints = model.joint_type.numpy()[topology_of(model).dof_joint]
    mode = np.where(joints == JointType.FREE, ServoMode.OFF, ServoMode.VELOCITY)
    simulator.solver.servos.mode.assign(mode.astype(np.int32))
    return simulator


def arm(links: int = 7, gravity: float = -GRAVITY, **joint):
    """A chain of hinges with crossed axes."""
    world = z_up(gravity)
    parent = -1
    for i in range(links):
        place = None if parent < 0 else wp.transform((0.0, 0.0, -0.3), wp.quat_identity())
        axis = (0.0, 1.0, 0.0) if i % 2 else (0.6, 0.0, 0.8)
        parent = add_hinge(
            world, parent=parent, length=0.15, axis=axis, mass=2.0 / (1 + i), parent_xform=place, **joint
        )
    return world


def test_position_error_shrinks_by_one_factor_at_any_load(device: str):
    """Seven crossed hinges under gravity: every error becomes 1 - kp of itself in each step."""
    simulator = servo_simulator(arm(), device)
    target = np.array([0.5, -0.7, 0.9, 0.3, -0.6, 0.4, 0.2])
    servos = simulator.solver.servos
    servos.kp.fill_(0.1)
    servos.target_q.assign(target)
    for step in range(1, 31):
        simulator.step()
        left = target - simulator.state.joint_q.numpy()
        np.testing.assert_allclose(left, 0.9**step * target, rtol=0.0, atol=2.0e-5)


@pytest.mark.parametrize("kd", [1.0, 0.5, 0.1])
def test_velocity_error_shrinks_by_one_factor(device: str, kd: float):
    world = z_up(0.0)
    add_hinge(world)
    simulator = servo_simulator(world, device)
    servos = simulator.solver.servos
    servos.kd.fill_(kd)
    servos.target_qd.fill_(3.0)
    for step in range(1, 6):
        simulator.step()
        speed = float(simulator.state.joint_qd.numpy()[0])
        assert 3.0 - speed == pytest.approx(3.0 * (1.0 - kd) ** step, abs=1.0e-5)


def test_gain_on_velocity_sees_forces_of_the_step(device: str):
    """With kd = 1/2 half of the velocity that a torque gives within the step is taken away."""
    world = z_up(0.0)
    add_hinge(world)
    simulator = servo_simulator(world, device)
    simulator.solver.servos.kd.fill_(0.5)
    simulator.control.joint_f.fill_(100.0)
    simulator.step()
    assert simulator.state.joint_qd.numpy()[0] == pytest.approx(0.5 * 100.0 * DT / INERTIA, rel=1.0e-5)
    assert simulator.solver.servos.applied.numpy()[0] == pytest.approx(-50.0, rel=1.0e-4)


@pytest.mark.parametrize(("substeps", "period"), [(1, None), (4, None), (4, DT)])
def test_force_limit(device: str, substeps: int, period: float | None):
    """A saturated servo gives its force times the period in every solver step."""
    world = z_up(0.0)
    add_hinge(world)
    simulator = servo_simulator(world, device, substeps=substeps)
    servos = simulator.solver.servos
    servos.period = period
    servos.target_qd.fill_(100.0)
    servos.max_force.fill_(10.0)
    simulator.step()
    times = 1 if period is None else substeps
    assert simulator.state.joint_qd.numpy()[0] == pytest.approx(times * 10.0 * DT / INERTIA, rel=1.0e-5)
    assert servos.applied.numpy()[0] == pytest.approx(10.0, rel=1.0e-6)


def test_applied_torques_hold_the_arm(device: str):
    """Servos at rest give the torques of inverse dynamics at rest."""
    simulator = servo_simulator(arm(), device)
    servos = simulator.solver.servos
    servos.kp.fill_(0.1)
    pose = np.array([0.5, -0.7, 0.9, 0.3, -0.6, 0.4, 0.2])
    servos.target_q.assign(pose)
    simulator.state.joint_q.assign(pose)
    simulator.step(200)
    model, rest = simulator.model, simulator.state
    expected = dynamics.inverse_dynamics(model, rest, wp.zeros_like(rest.joint_qd)).numpy()
    np.testing.assert_allclose(servos.applied.numpy(), expected, rtol=0.0, atol=2.0e-3)
    servos.mode.fill_(ServoMode.OFF)
    simulator.step()
    assert not servos.applied.numpy().any()


def test_speed_limit_of_a_servo(device: str):
    world = z_up()
    add_hinge(world)
    simulator = servo_simulator(world, device)
    servos = simulator.solver.servos
    servos.kp.fill_(0.1)
    servos.max_speed.fill_(0.7)
    for sign in (1.0, -1.0):
        servos.target_q.fill_(2.0 * sign)
        simulator.step()
        assert simulator.state.joint_qd.numpy()[0] == pytest.approx(0.7 * sign, abs=1.0e-5)


def test_servo_gives_way_to_a_joint_limit(device: str):
    """A servo of unlimited force drives into a limit: the link stops there, and nothing grows."""
    world = z_up(0.0)
    add_hinge(world, limit_lower=-0.5, limit_upper=0.5)
    simulator = servo_simulator(world, device)
    simulator.solver.servos.target_qd.fill_(2.0)
    simulator.step(100)
    assert simulator.state.joint_q.numpy()[0] == pytest.approx(0.5, abs=1.0e-4)
    assert abs(simulator.state.joint_qd.numpy()[0]) < 1.0e-4
    assert abs(simulator.solver.servos.applied.numpy()[0]) < 1.0


def test_pd_servo_is_backward_euler(device: str):
    """Spring and damper that act at the end of the step: I (v' - v)/h = kp (q_d - q - h v') - kd v'."""
    world = z_up(0.0)
    add_hinge(world)
    simulator = servo_simulator(world, device)
    servos = simulator.solver.servos
    servos.mode.fill_(ServoMode.PD)
    servos.kp.fill_(5.0e3)
    servos.kd.fill_(20.0)
    servos.target_q.fill_(0.8)
    q = v = 0.0
    for _ in range(50):
        simulator.step()
        v = (INERTIA * v + DT * 5.0e3 * (0.8 - q)) / (INERTIA + DT * 20.0 + DT**2 * 5.0e3)
        q += DT * v
        assert simulator.state.joint_q.numpy()[0] == pytest.approx(q, abs=2.0e-5)


def ball(gravity: float = 0.0):
    """A link with three different moments of inertia on a ball joint that stands askew."""
    world = z_up(gravity)
    body = world.add_body(mass=2.0, com=wp.vec3(0.1, 0.0, -0.2), I_m=diagonal_inertia(0.05, 0.08, 0.03))
    askew = wp.quat(*quaternion((1.0, 2.0, 3.0), 0.7))
    world.add_joint_ball(-1, body, parent_xform=wp.transform((0.0, 0.0, 1.0), askew))
    return world


def test_ball_joint_turns_the_shortest_way(device: str):
    """The rotation that is left shrinks by 1 - kp about a fixed axis, under gravity."""
    simulator = servo_simulator(ball(-GRAVITY), device)
    start, target = Rotation.from_rotvec([0.3, -0.2, 0.5]), Rotation.from_rotvec([-0.4, 0.9, 2.0])
    servos = simulator.solver.servos
    servos.kp.fill_(0.2)
    # the same rotation as its negative
    servos.target_q.assign(-target.as_quat())
    simulator.state.joint_q.assign(start.as_quat())
    whole = (target * start.inv()).as_rotvec()
    for step in range(1, 20):
        simulator.step()
        left = (target * Rotation.from_quat(simulator.state.joint_q.numpy()).inv()).as_rotvec()
        np.testing.assert_allclose(left, 0.8**step * whole, rtol=0.0, atol=3.0e-5)


def test_ball_joint_is_held(device: str):
    """A fast link on a ball joint stops at once, by the impulse that is its angular momentum."""
    simulator = servo_simulator(ball(), device)
    spin = np.array([3.0, -5.0, 4.0])
    simulator.state.joint_qd.assign(spin)
    mass = dynamics.mass_matrix(simulator.model, simulator.state).numpy()[0]
    simulator.step()
    assert np.abs(simulator.state.joint_qd.numpy()).max() < 1.0e-4
    applied = simulator.solver.servos.applied.numpy()
    # what gyroscopic forces do within the step is of the order of the step
    np.testing.assert_allclose(applied * DT, -mass @ spin, rtol=0.0, atol=0.1 * np.abs(mass @ spin).max())


def test_servos_of_a_legged_robot_stand(device: str):
    """Four legs of two hinges hold a trunk on the ground: contact carries its weight, joints their angles."""
    world = z_up()
    trunk = world.add_body(mass=4.0, I_m=diagonal_inertia(0.1, 0.1, 0.1))
    world.add_joint_free(trunk)
    for x in (-0.2, 0.2):
        for y in (-0.2, 0.2):
            place = wp.transform((x, y, 0.0), wp.quat_identity())
            thigh = add_hinge(world, parent=trunk, mass=0.5, length=0.1, inertia=2.0e-3, parent_xform=place)
            place = wp.transform((0.0, 0.0, -0.2), wp.quat_identity())
            shin = add_hinge(world, parent=thigh, mass=0.3, length=0.1, inertia=1.0e-3, parent_xform=place)
            world.add_shape_sphere(shin, pos=(0.0, 0.0, -0.2), radius=0.03, density=0.0)
    world.joint_q[2] = 0.5
    world.set_ground_plane()
    simulator = servo_simulator(world, device)
    servos = simulator.solver.servos
    servos.kp.fill_(0.1)
    servos.max_force.fill_(60.0)
    targets = np.concatenate([simulator.state.joint_q.numpy()[:7], [0.4, -0.8] * 4])
    servos.target_q.assign(targets)
    simulator.step(480)
    q = simulator.state.joint_q.numpy()
    height = 0.03 + 0.4 * math.cos(0.4)
    assert q[2] == pytest.approx(height, abs=2.0e-3)
    np.testing.assert_allclose(q[7:], targets[7:], rtol=0.0, atol=3.0e-3)
    assert np.abs(simulator.state.joint_qd.numpy()).max() < 1.0e-2
    weight = simulator.solver.contact_forces().numpy().sum(axis=0)
    assert abs(weight[2]) == pytest.approx(7.2 * GRAVITY, rel=0.01)


def test_worlds_agree_bitwise(device: str):
    """Worlds of a batch with different targets move as each does alone."""
    targets = np.array([0.3, -0.4, 0.8])
    batch = servo_simulator(many(arm(3), 3), device)
    batch.solver.servos.kp.fill_(0.1)
    batch.solver.servos.max_force.fill_(8.0)
    batch.solver.servos.target_q.assign(np.concatenate([targets, -targets, 2.0 * targets]))
    batch.step(40)
    for world, factor in enumerate((1.0, -1.0, 2.0)):
        alone = servo_simulator(arm(3), device)
        alone.solver.servos.kp.fill_(0.1)
        alone.solver.servos.max_force.fill_(8.0)
        alone.solver.servos.target_q.assign(factor * targets)
        alone.step(40)
        mine = batch.state.joint_q.numpy()[3 * world : 3 * world + 3]
        np.testing.assert_array_equal(mine, alone.state.joint_q.numpy())


def test_wrong_options_are_refused(device: str):
    with pytest.raises(ValueError, match="servos"):
        FeatherstoneSolver(arm(2).finalize(device), servos=True, sleep=True)
    with pytest.raises(ValueError, match="servos"):
        FeatherstoneSolver(arm(2).finalize(device, requires_grad=True), servos=True)
    simulator = servo_simulator(arm(2), device)
    simulator.solver.servos.period = -1.0
    with pytest.raises(ValueError, match="period"):
        simulator.step()
