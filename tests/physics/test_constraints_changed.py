"""Constraints and fixed joints whose numbers change between steps, with a captured step."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, add_hinge, diagonal_inertia, quaternion, z_up

from newtonsim import Simulator
from newtonsim.solvers import FeatherstoneSolver, ServoMode

DT = 1.0 / 240.0
ERP = 0.1


def free_box(world, height: float = 1.0) -> int:
    """A free body of 2 kg."""
    body = world.add_body(
        origin=((0.0, 0.0, height), (0.0, 0.0, 0.0, 1.0)), mass=2.0, I_m=diagonal_inertia(0.02, 0.02, 0.02)
    )
    world.add_joint_free(body)
    world.joint_q[-5] = height
    return body


def simulator_of(world, device: str, **options) -> Simulator:
    model = world.finalize(device)
    solver = FeatherstoneSolver(model, max_limit_speed=100.0, **options)
    simulator = Simulator(model, solver, DT)
    if model.constraint_count:
        model.constraint_recovery_time.fill_(DT / ERP)
    return simulator


def assign_row(array: wp.array, row: int, values) -> None:
    """Write one entry of a device array."""
    host = array.numpy().copy()
    host[row] = values
    array.assign(host)


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_body_follows_a_moved_anchor(device: str, kind: str):
    """The rest of the error is (1 - erp)^n, and a constraint force of the weight remains."""
    world = z_up()
    body = free_box(world)
    if kind == "connect":
        world.add_constraint_connect(-1, body, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
    else:
        world.add_constraint_weld(-1, body)
    simulator = simulator_of(world, device)
    simulator.step(2)
    model = simulator.model
    assign_row(model.constraint_X_p, 0, [0.3, -0.2, 1.1, 0.0, 0.0, 0.0, 1.0])
    for step in range(1, 60):
        simulator.step()
        left = np.array([0.3, -0.2, 1.1]) - simulator.state.body_q.numpy()[0, :3]
        np.testing.assert_allclose(left, (1.0 - ERP) ** step * np.array([0.3, -0.2, 0.1]), atol=5.0e-4)
    simulator.step(200)
    force = simulator.solver.constraint_forces().numpy()[0]
    np.testing.assert_allclose(force[3:], [0.0, 0.0, 2.0 * GRAVITY], rtol=0.0, atol=0.02)


def test_weld_turns_with_its_frame(device: str):
    world = z_up()
    body = free_box(world)
    world.add_constraint_weld(-1, body)
    simulator = simulator_of(world, device)
    turned = quaternion((1.0, 2.0, 3.0), 1.2)
    assign_row(simulator.model.constraint_X_p, 0, [0.0, 0.0, 1.0, *turned])
    simulator.step(150)
    assert abs(turned @ simulator.state.body_q.numpy()[0, 3:]) == pytest.approx(1.0, abs=1.0e-5)


def test_force_limit_of_each_axis(device: str):
    """An anchor that may pull with 5 N on each axis slows the fall of 2 kg by 2.5 m/s²."""
    world = z_up()
    body = free_box(world)
    world.add_constraint_connect(-1, body, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
    simulator = simulator_of(world, device)
    simulator.step()
    simulator.model.constraint_max_force.fill_(5.0)
    simulator.step(48)
    assert simulator.state.joint_qd.numpy()[5] == pytest.approx(-48 * DT * (GRAVITY - 2.5), rel=1.0e-3)
    assert simulator.solver.constraint_forces().numpy()[0, 5] == pytest.approx(5.0, rel=1.0e-4)


def test_constraint_switched_off_and_on(device: str):
    world = z_up()
    body = free_box(world)
    world.add_constraint_connect(-1, body, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
    simulator = simulator_of(world, device)
    simulator.step()
    simulator.model.constraint_enabled.fill_(0)
    simulator.step(10)
    assert simulator.state.joint_qd.numpy()[5] == pytest.approx(-10 * DT * GRAVITY, rel=1.0e-3)
    simulator.model.constraint_enabled.fill_(1)
    simulator.step(200)
    assert simulator.state.body_q.numpy()[0, 2] == pytest.approx(1.0, abs=1.0e-4)


def gear(device: str, ratio: float, **options) -> Simulator:
    """Two wheels of 0.1 and 0.2 kg m² on the world with v_a + ratio v_b = 0."""
    world = z_up(0.0)
    for inertia in (0.1, 0.2):
        add_hinge(world, length=0.0, inertia=inertia)
    world.add_constraint_coupling(0, 1, (0.0, -ratio))
    return simulator_of(world, device, **options)


@pytest.mark.parametrize("ratio", [1.0, -2.0, 0.5])
def test_gear_on_velocities_alone(device: str, ratio: float):
    """Endless time of recovery couples velocities: momentum is shared, positions do not count."""
    simulator = gear(device, ratio)
    simulator.model.constraint_recovery_time.fill_(1.0e30)
    simulator.state.joint_q.assign([0.4, 0.9])
    simulator.state.joint_qd.assign([1.0, 0.0])
    simulator.step()
    # minimal kinetic energy of the change with v_a = -ratio v_b
    v_b = -ratio * 0.1 / (0.1 * ratio**2 + 0.2)
    np.testing.assert_allclose(simulator.state.joint_qd.numpy(), [-ratio * v_b, v_b], atol=1.0e-6)
    effort = simulator.solver.constraint_forces().numpy()[0, 0]
    assert effort == pytest.approx(0.1 * (-ratio * v_b - 1.0) / DT, rel=1.0e-4)


def test_gear_drives_to_its_target(device: str):
    """With a servo on the first wheel, the second goes to (target - q_a) / ratio at the rate of the ERP."""
    simulator = gear(device, 2.0, servos=True)
    servos = simulator.solver.servos
    servos.mode.assign([ServoMode.VELOCITY, ServoMode.OFF])
    servos.kp.fill_(0.1)
    servos.target_q.assign([0.5, 0.0])
    simulator.state.joint_q.assign([0.5, 0.0])
    assign_row(simulator.model.constraint_coefficients, 0, [0.3, -2.0, 0.0, 0.0, 0.0])
    for step in range(1, 30):
        simulator.step()
        expected = -0.1 * (1.0 - (1.0 - ERP) ** step)
        np.testing.assert_allclose(simulator.state.joint_q.numpy(), [0.5, expected], atol=2.0e-5)


def test_static_bodies_move_with_their_joints(device: str):
    """A box rests on a table that is taken away, then on a plane that is lifted and tilted."""
    world = z_up()
    floor = world.add_body(mass=0.0)
    world.add_joint_fixed(-1, floor)
    world.add_shape_plane(body=floor, plane=(0.0, 0.0, 1.0, 0.0), width=0.0, length=0.0)
    table = world.add_body(mass=0.0)
    world.add_joint_fixed(-1, table, parent_xform=wp.transform((0.0, 0.0, 0.5), wp.quat_identity()))
    world.add_shape_box(table, hx=0.5, hy=0.5, hz=0.5)
    box = free_box(world, 1.15)
    world.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=0.0)
    simulator = simulator_of(world, device)
    # the floor and the table never meet
    assert simulator.model.shape_contact_pairs.numpy().tolist() == [[0, 2], [1, 2]]
    simulator.step(240)
    assert simulator.state.body_q.numpy()[box, 2] == pytest.approx(1.1, abs=1.0e-3)
    assign_row(simulator.model.joint_X_p, 1, [0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 1.0])
    simulator.step(240)
    np.testing.assert_allclose(simulator.state.body_q.numpy()[table, :3], [0.0, 0.0, -3.0])
    assert simulator.state.body_q.numpy()[box, 2] == pytest.approx(0.1, abs=1.0e-3)
    tilt = quaternion((0.0, 1.0, 0.0), 0.3)
    assign_row(simulator.model.joint_X_p, 0, [0.0, 0.0, 0.2, *tilt])
    simulator.step(120)
    x, _, z = simulator.state.body_q.numpy()[box, :3]
    normal = np.array([np.sin(0.3), np.cos(0.3)])
    assert normal @ [x, z - 0.2] == pytest.approx(0.1, abs=2.0e-3)


def test_nearly_massless_links(device: str):
    """A chain whose first link weighs a millionth of the second one swings like a double pendulum."""
    world = z_up()
    parent = -1
    for mass, inertia in ((1.0e-6, 1.0e-9), (1.0, 0.02)):
        place = wp.transform((0.0, 0.0, 0.0 if parent < 0 else -0.4), wp.quat_identity())
        parent = add_hinge(world, parent=parent, mass=mass, length=0.2, inertia=inertia, parent_xform=place)
    model = world.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, coriolis="start"), DT)
    simulator.state.joint_q.assign([0.5, 0.3])
    simulator.step(240)
    expected = _double_pendulum(np.array([0.5, 0.3]), 240)
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), expected, rtol=0.0, atol=2.0e-3)


def _double_pendulum(q: np.ndarray, steps: int) -> np.ndarray:
    """Semi-implicit Euler of a weight on a massless rod, in absolute angles, from Lagrange's equations."""
    rod, arm, mass, inertia = 0.4, 0.2, 1.0, 0.02
    angle, speed = np.cumsum(q), np.zeros(2)
    for _ in range(steps):
        cosine, sine = np.cos(angle[0] - angle[1]), np.sin(angle[0] - angle[1])
        matrix = mass * np.array(
            [[rod**2, rod * arm * cosine], [rod * arm * cosine, arm**2 + inertia / mass]]
        )
        force = -mass * GRAVITY * np.array([rod * np.sin(angle[0]), arm * np.sin(angle[1])])
        force += mass * rod * arm * sine * np.array([-(speed[1] ** 2), speed[0] ** 2])
        speed = speed + DT * np.linalg.solve(matrix, force)
        angle = angle + DT * speed
    return np.array([angle[0], angle[1] - angle[0]])
