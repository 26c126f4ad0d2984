"""Rotors that a task drives take the place of the actuators of the file that are the same."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator, envs
from newtonsim.builder import ActuatorLaw, ActuatorTarget
from newtonsim.envs.terms import ZOO, Robot
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.learn.transfer import solver_of
from newtonsim.solvers import MuJoCoSolver

MOTOR = '<motor name="front_right" site="front_right" gear="0 0 1 0 0 -0.00596" ctrlrange="0 0.16"/>'


def drone(path: Path, motor: str) -> Robot:
    """Return the drone of the zoo with another motor in front on the right."""
    known = ZOO["crazyflie_like"]
    text = Path(known.file).read_text()
    assert text.count(MOTOR) == 1
    path.write_text(text.replace(MOTOR, motor))
    return Robot(**{**vars(known), "file": str(path)})


@pytest.mark.parametrize("engine", [None, "mujoco"])
def test_rotors_of_the_task_are_no_loss(engine: str | None):
    solver = {} if engine is None else {"make_solver": solver_of(engine)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsupportedElementWarning)
        env = envs.make("Hover", 2, "cpu", threads=1, **solver)
    assert env.model.actuator_count == 0


@pytest.mark.parametrize(
    "motor",
    [
        MOTOR.replace("0 0 1 0 0", "1 0 0 0 0"),  # pushes forward
        MOTOR.replace("-0.00596", "0.00596"),  # turns the other way
        MOTOR.replace('site="front_right"', 'site="rear_left"').replace("-0.00596", "0.00596"),
        MOTOR.replace("/>", ' refsite="rear_left"/>'),
        '<adhesion name="front_right" body="drone" ctrlrange="0 1"/>',
    ],
)
def test_actuators_that_are_no_rotor_of_the_task_stay(motor: str, tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsupportedElementWarning)
        env = envs.make("Hover", 2, "cpu", threads=1, robot=drone(tmp_path / "drone.xml", motor))
    assert list(env.model.actuator_key) == ["front_right"] * 2


def test_rotors_are_found_where_the_axes_of_their_frames_differ(tmp_path: Path):
    text = MOTOR.replace('site="front_right"', 'site="turned"').replace(
        "0 0 1 0 0 -0.00596", "1 0 0 -0.00596 0 0"
    )
    robot = drone(tmp_path / "drone.xml", text)
    # the x axis of this frame points up
    site = '<site name="turned" pos="0.0325 -0.0325 0.012" euler="0 -1.5707963 0"/>'
    whole = Path(robot.file).read_text()
    Path(robot.file).write_text(whole.replace('<site name="front_right"', site + '<site name="front_right"'))
    assert envs.make("Hover", 1, "cpu", threads=1, robot=robot).model.actuator_count == 0


def test_actuators_that_remain_keep_their_controls():
    """Of three motors on sites the one in the middle is removed: the force of the others, over the mass."""
    builder = ModelBuilder(up_vector=(0, 0, 1), gravity=0.0)
    body = builder.add_body(mass=2.0, I_m=np.eye(3), key="box")
    builder.add_joint_free(body)
    for axis in range(3):
        gear = tuple(float(k == axis) for k in range(3))
        builder.add_actuator(
            ActuatorTarget.SITE, ActuatorLaw(gear=gear), bodies=(body, -1), action=1.0 + axis, key="xyz"[axis]
        )
    with pytest.raises(ModelError, match="no actuator 3, only 3"):
        builder.remove_actuators([1, 3])
    builder.remove_actuators([1])
    assert list(builder.actuator_key) == ["x", "z"]
    model = builder.finalize("cpu")
    simulator = Simulator(model, MuJoCoSolver(model, use_mujoco=True), dt=0.01)
    simulator.step(10)
    np.testing.assert_allclose(simulator.state.joint_qd.numpy()[3:], [0.05, 0.0, 0.15], rtol=1e-5, atol=1e-7)
