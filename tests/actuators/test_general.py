"""Actuators of MJCF files against MuJoCo's steps, and finite differences."""

import math
import warnings

import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator
from newtonsim.actuators import ActuatedSolver, Actuators, General, general_actuators
from newtonsim.errors import NewtonsimError
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver

DT = 0.002
TEXT = """<mujoco><compiler angle="radian"/><option timestep="{dt}" integrator="Euler" gravity="0 0 -9.81"/>
  <worldbody><body name="a"><joint name="j" axis="0 1 0" ref=".3" damping=".2"/>
    <inertial pos="0 0 -.2" mass="1" diaginertia=".02 .02 .02"/>
    <body name="b" pos="0 0 -.4"><joint name="s" type="slide" axis="0 0 1"/>
      <inertial pos="0 0 0" mass=".5" diaginertia=".01 .01 .01"/></body></body>
  </worldbody><actuator>{actuators}<position joint="s" kp="300" kv="20"/></actuator></mujoco>"""

REFERENCE = (0.3, 0.0)
"""Position of both joints at coordinate 0."""

CASES = {
    "motor": '<motor joint="j" gear="3" ctrlrange="-.4 .4"/>',
    "position": '<position joint="j" kp="20" kv="1" gear="2"/>',
    "position with a filter": '<position joint="j" kp="20" kv="1" timeconst=".05"/>',
    "velocity": '<velocity joint="j" kv=".8"/>',
    "filter": '<general joint="j" dyntype="filter" dynprm=".04" gainprm="4" gear="-1.5"/>',
    "exact filter": '<general joint="j" dyntype="filterexact" dynprm=".04" gainprm="4"/>',
    "early": '<general joint="j" dyntype="filter" dynprm=".02" gainprm="4" actearly="true"/>',
    "integrator": '<general joint="j" dyntype="integrator" gainprm="3" actrange="-.2 .1"/>',
    "intvelocity": '<intvelocity joint="j" kp="15" kv=".5" actrange="-1 1"/>',
    "damper": '<damper joint="j" kv=".7" ctrlrange="0 1"/>',
    "cylinder": '<cylinder joint="j" timeconst=".03" area="2.5" bias=".1 -3 -.2"/>',
    "affine gain": '<general joint="j" gaintype="affine" gainprm="2 .7 -.3" biastype="affine" '
    'biasprm=".2 -4 -.5"/>',
    "pushes away": '<general joint="j" gainprm="2" biastype="affine" biasprm="0 1.5 0"/>',
    "one-sided force": '<motor joint="j" gear="3" forcerange="-.1 .5"/>',
}


def read(text: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = parse_mjcf(text, builder)
    return builder, report


@pytest.mark.parametrize("case", CASES)
def test_motion_is_that_of_mujoco(device: str, case: str):
    """A second of motion under a control that swings beyond its range."""
    text = TEXT.format(dt=DT, actuators=CASES[case])
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    builder, report = read(text)
    model = builder.finalize(device)
    actuators = Actuators(model, general_actuators(report.actuators), DT)
    sim = Simulator(model, ActuatedSolver(FeatherstoneSolver(model), actuators), DT)
    sim.state.joint_qd.assign(np.array([1.5, 0.0], np.float32))
    data.qvel[0] = 1.5
    own, other, torques = [], [], []
    for n in range(500):
        control = 0.8 * math.sin(0.02 * n), 0.05 * math.sin(0.03 * n)
        sim.control.joint_act.assign(np.array(control, np.float32))
        data.ctrl[:] = control
        sim.step()
        mujoco.mj_step(theirs, data)
        own.append(np.add(sim.state.joint_q.numpy(), REFERENCE))
        other.append(data.qpos.copy())
        torques.append((actuators.driven.joint_f.numpy()[0], data.qfrc_actuator[0]))
    assert np.ptp(other, axis=0)[0] > 0.05
    np.testing.assert_allclose(own, other, atol=2e-3)
    first, second = np.array(torques).T
    np.testing.assert_allclose(first, second, atol=0.02 + 0.01 * np.abs(second).max())


def test_worlds_of_mujocos_own_solver_are_driven_too():
    """Behind an ActuatedSolver MuJoCo does what it does with the file's own actuator."""
    text = TEXT.format(dt=DT, actuators=CASES["exact filter"])
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    builder, report = read(text)
    model = builder.finalize("cpu")
    actuators = Actuators(model, general_actuators(report.actuators), DT)
    sim = Simulator(model, ActuatedSolver(MuJoCoSolver(model, use_mujoco=True), actuators), DT)
    for _ in range(100):
        sim.control.joint_act.fill_(0.4)
        data.ctrl[:] = 0.4
        sim.step()
        mujoco.mj_step(theirs, data)
    np.testing.assert_allclose(np.add(sim.state.joint_q.numpy(), REFERENCE), data.qpos, atol=2e-3)


def test_what_has_no_law_is_refused():
    for actuators, message in (
        (
            '<motor joint="j"/><velocity name="v" joint="j"/>',
            "actuator 'v': the joint 'j' already has one",
        ),
        (
            '<general name="m" joint="j" gaintype="user"/>',
            "actuator 'm': it is not an affine actuator of one joint",
        ),
    ):
        _, report = read(TEXT.format(dt=DT, actuators=actuators))
        with pytest.raises(NewtonsimError, match=message):
            general_actuators(report.actuators)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dynamics": "user"}, "there is no 'user'; there are none, integrator"),
        ({"time_constant": 0.0}, "time_constant"),
        ({"gain": (1.0,)}, "gain: expected 3 factors"),
        ({"gear": math.inf}, "gear"),
        ({"force_range": (1.0, -1.0)}, "force_range"),
    ],
)
def test_wrong_laws_are_refused(options: dict, message: str):
    with pytest.raises(NewtonsimError, match=message):
        General(**options)
