"""Drives whose least effort is not minus the largest: wheels and pendulums by closed forms."""

import math

import numpy as np
import pytest
from physics.scenes import GRAVITY, add_hinge, many, z_up

import newtonsim
from newtonsim import JointAxis, JointMode
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, XPBDSolver

Y = (0.0, 1.0, 0.0)
INERTIA, LEAST, MOST = 0.5, -1.0, 3.0
STEPS = {FeatherstoneSolver: 1.0 / 240.0, XPBDSolver: 1.0 / 240.0, SemiImplicitSolver: 2.0e-4}
MODES = {
    JointMode.FORCE: (0.0, 10.0),
    JointMode.TARGET_VELOCITY: (50.0, 1.0e3),
    JointMode.TARGET_POSITION: (50.0, 1.0e3),
}
"""Gain, and a command that asks for more than the drive has for as long as the test lasts."""


@pytest.mark.parametrize("kind", STEPS)
def test_wheels_speed_up_at_the_largest_and_slow_down_at_the_least_effort(kind, device: str):
    """After half a second each way, the speed is t f / I; the numbers of several worlds are their own."""
    world = z_up(0.0)
    for mode, (ke, _) in MODES.items():
        axis = JointAxis(Y, mode=mode, target_ke=ke, effort_limit=MOST, effort_lower=LEAST)
        add_hinge(world, length=0.0, inertia=INERTIA, axis=axis)
    model = many(world, 2).finalize(device)
    command = np.tile([command for _, command in MODES.values()], 2)
    command[3:] *= -1.0
    dt = STEPS[kind]
    options = {"angular_damping": 0.0} if kind is SemiImplicitSolver else {}
    simulator = newtonsim.Simulator(model, kind(model, **options), dt=dt)
    simulator.control.joint_act.assign(command.astype(np.float32))
    simulator.step(round(0.5 / dt))
    expected = np.repeat([MOST, LEAST], 3) * 0.5 / INERTIA
    np.testing.assert_allclose(simulator.state.joint_qd.numpy(), expected, rtol=2.0e-3)
    simulator.control.joint_act.assign(-command.astype(np.float32))
    simulator.step(round(0.5 / dt))
    both = np.full(6, (MOST + LEAST) * 0.5 / INERTIA)
    np.testing.assert_allclose(simulator.state.joint_qd.numpy(), both, rtol=2.0e-3)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_servo_holds_a_pendulum_where_its_weight_is_the_bound(side: float, device: str):
    """A stiff servo that is told to lift it to the horizontal rests at m g l sin(q) = its bound."""
    world = z_up()
    axis = JointAxis(Y, target_ke=1.0e4, target_kd=10.0, mode=JointMode.TARGET_POSITION, damping=2.0)
    axis.effort_limit, axis.effort_lower, axis.action = MOST, LEAST, side * 0.5 * math.pi
    add_hinge(world, mass=1.0, length=0.5, axis=axis)
    model = world.finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    simulator.step(240 * 8)
    bound = MOST if side > 0.0 else LEAST
    angle = math.asin(bound / (GRAVITY * 0.5))
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), [angle], atol=1.0e-4)


@pytest.mark.parametrize("bounds", [{"effort_lower": 0.5}, {"effort_limit": -1.0}])
def test_bounds_without_zero_are_refused(bounds: dict):
    world = z_up()
    add_hinge(world, axis=JointAxis(Y, **bounds), key="elbow")
    with pytest.raises(ModelError, match=r"'elbow'.*do not enclose zero"):
        world.finalize("cpu")


def test_fields_take_no_least_effort_above_zero():
    world = z_up()
    add_hinge(world, key="elbow")
    model = world.finalize("cpu")
    with pytest.raises(NewtonsimError, match="effort_lower: expected numbers from -inf to 0"):
        newtonsim.View(model, "elbow").joints.effort_lower = 1.0
