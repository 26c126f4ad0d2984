"""Actuators that are no drives: MuJoCoSolver on the import, and MuJoCo on the export, move as on the file."""

import warnings

import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator
from newtonsim.actuators import ActuatedSolver, Actuators, AxisOf, General, general_actuators
from newtonsim.builder import ActuatorLaw, ActuatorTarget
from newtonsim.errors import ModelError, NewtonsimError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver, SemiImplicitSolver
from newtonsim.utils import export_mjcf

DT = 0.002
BODIES = """<mujoco><compiler angle="radian"/><option timestep="0.002" gravity="0 0 -9.81"/>
  <worldbody>
    <site name="anchor" pos=".2 .1 .4" euler=".3 .2 .1"/>
    <site name="rail" pos="0 0 .3" euler="0 1.57 0"/>
    <body name="a" pos="0 0 .2"><joint name="j" axis="0 1 0" ref=".3" damping=".2"/>
      <inertial pos=".02 0 -.2" mass="1" diaginertia=".02 .03 .025"/>
      <site name="pin" pos="0 0 -.1" euler=".2 0 .4"/>
      <body name="b" pos="0 0 -.4"><joint name="s" type="slide" axis="0 0 1" ref=".05" damping="1"/>
        <inertial pos="0 0 0" mass=".5" diaginertia=".01 .01 .01"/>
        <body name="c" pos="0 .1 0"><joint name="ball" type="ball" damping=".01"/>
          <inertial pos=".05 .02 -.1" mass=".3" diaginertia=".004 .003 .002"/></body></body></body>
    <body name="d" pos="1 0 0"><freejoint name="free"/>
      <inertial pos=".01 0 .02" mass=".7" diaginertia=".01 .02 .015"/>
      <site name="tip" pos=".1 .2 0" euler=".5 .4 .3"/></body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="j" coef=".7"/><joint joint="s" coef="-1.3"/></fixed></tendon>
  <actuator>{actuators}</actuator></mujoco>"""

CASES = {
    "site": '<motor site="tip" gear="1 2 3 .1 .2 .3"/>',
    "site against another": '<position site="tip" refsite="anchor" kp="4" kv=".4" gear="1 -.5 .3 0 .2 .1"/>',
    "crank": '<motor cranksite="pin" slidersite="rail" cranklength=".6" gear="2"/>',
    "ball": '<motor joint="ball" gear=".02 .03 -.01"/>',
    "ball in the parent": '<position jointinparent="ball" kp=".1" kv=".01" gear=".3 -.2 .4"/>',
    "free": '<motor joint="free" gear="1 2 8 .1 -.2 .05"/>',
    "free in the parent": '<motor jointinparent="free" gear="1 2 8 .1 -.2 .05"/>',
    "several, with states": '<cylinder joint="j" timeconst=".03" area="2.5" bias=".1 -3 -.2"/>'
    '<general joint="j" dyntype="integrator" gainprm="3" biastype="affine" biasprm="0 -2" actrange="-.2 .1"/>'
    '<motor joint="j"/>',
    "several, one in the parent": '<motor jointinparent="j" gear="2"/>'
    '<intvelocity joint="j" kp="5" kv=".3" actrange="-1 1"/>',
    "affine gain of a tendon": '<general tendon="t" gaintype="affine" gainprm="2 .7 -.3" '
    'biastype="affine" biasprm=".2 -4 -.5"/>',
    "pushes a tendon away": '<general tendon="t" gainprm="2" biastype="affine" biasprm="0 1.5 0"/>',
    "several of a tendon": '<general tendon="t" dyntype="filter" dynprm=".04" gainprm="4"/>'
    '<position tendon="t" kp="20" kv="1"/>',
    "muscle without lengthrange": '<muscle joint="j" force="5"/>',
    "muscle with another bias": '<general joint="j" gaintype="muscle" gainprm=".75 1.05 5 200 .5 1.6 1.5 1.3 '
    '1.2" dyntype="muscle" dynprm=".01 .04" lengthrange="-1 1"/>',
}


def read(text: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        report = parse_mjcf(text, builder, floating=None, mujoco_defaults=True, ensure_nonstatic_links=False)
    return builder, report


def limited(text: str) -> str:
    """The file with limits where MuJoCo needs them to find the lengths of muscles."""
    return text.replace('ref=".3"', 'ref=".3" range="-1 1.4"') if "<muscle" in text else text


def theirs(model: mujoco.MjModel, ctrl: np.ndarray, steps: int) -> np.ndarray:
    data = mujoco.MjData(model)
    data.ctrl[:] = ctrl
    mujoco.mj_step(model, data, steps)
    mujoco.mj_kinematics(model, data)
    return np.concatenate([data.xpos[1:], data.xmat[1:].reshape(-1, 9)[:, :3]], axis=1)


def ours(builder: ModelBuilder, report, ctrl: np.ndarray, steps: int) -> np.ndarray:
    model = builder.finalize("cpu")
    options = {"integrator": "euler", "solver": "newton", "iterations": 100, "joint_damping": 0.0}
    simulator = Simulator(model, MuJoCoSolver(model, use_mujoco=True, **options), DT)
    drives, inputs = simulator.control.joint_act.numpy(), np.zeros(model.actuator_count, np.float32)
    for entry, value in zip(report.actuators, ctrl):
        if entry["actuator"] is not None:
            inputs[entry["actuator"]] = value
        elif entry["axis"] is not None:
            drives[entry["axis"]] += entry["scale"] * value
        else:
            acts = simulator.control.tendon_act.numpy()
            acts[entry["tendon"]] = entry["scale"] * value + entry["offset"]
            simulator.control.tendon_act.assign(acts)
    simulator.control.joint_act.assign(drives)
    simulator.control.actuator_ctrl.assign(inputs)
    simulator.step(steps)
    poses = simulator.state.body_q.numpy().astype(np.float64)
    poses = poses[[report.bodies[name] for name in "abcd"]]
    first = [mujoco_column(q) for q in poses[:, 3:]]
    return np.concatenate([poses[:, :3], first], axis=1)


def exported_controls(model: mujoco.MjModel, builder: ModelBuilder, report, ctrl: np.ndarray) -> np.ndarray:
    """The same controls for the actuators of an export, which are named after what they act on."""
    inputs = np.zeros(model.nu)
    for entry, value in zip(report.actuators, ctrl):
        if entry["actuator"] is not None:
            name = builder.actuator_key[entry["actuator"]]
        else:
            on_tendon = entry["tendon"] is not None
            name = builder.tendon_key[entry["tendon"]] if on_tendon else entry["joint"]
            value = entry["scale"] * value + entry["offset"]
            value -= builder.tendon_offset[entry["tendon"]] if on_tendon else 0.0
        inputs[model.actuator(name).id] = value
    return inputs


def mujoco_column(q: np.ndarray) -> np.ndarray:
    """First row of the rotation matrix of a quaternion xyzw."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, q[[3, 0, 1, 2]])
    return matrix[:3]


@pytest.mark.parametrize("case", CASES)
def test_motion_is_that_of_the_file(case: str, tmp_path):
    """Half a second; of the export in MuJoCo as well."""
    text = limited(BODIES.format(actuators=CASES[case]))
    model = mujoco.MjModel.from_xml_string(text)
    ctrl = np.linspace(0.4, 0.7, model.nu)
    expected, still = theirs(model, ctrl, 250), theirs(model, 0.0 * ctrl, 250)
    assert np.abs(expected - still).max() > 1e-3
    builder, report = read(text)
    assert builder.actuator_count >= 1
    np.testing.assert_allclose(ours(builder, report, ctrl, 250), expected, atol=1e-5)
    path = tmp_path / "again.xml"
    export_mjcf(builder, path)
    again = mujoco.MjModel.from_xml_path(str(path))
    np.testing.assert_allclose(
        theirs(again, exported_controls(again, builder, report, ctrl), 250), expected, atol=1e-5
    )


def test_only_some_solvers_have_them():
    """The report says so, and a solver without them warns of them."""
    text = BODIES.format(actuators='<motor name="thrust" site="tip" gear="0 0 3"/>')
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(text, builder, floating=None)
    assert "on a site, unless FeatherstoneSolver or" in report.of_kind("deferred")[0].message
    model = builder.finalize("cpu")
    with pytest.warns(UnsupportedElementWarning, match="ignores 1 actuators of the model .'thrust'"):
        SemiImplicitSolver(model)


def hover(worlds: int) -> ModelBuilder:
    """A ball that a filtered thruster on a site holds, in worlds at different places."""
    builder, world = ModelBuilder(up_vector=(0.0, 0.0, 1.0)), ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = world.add_body(mass=1.0, I_m=0.1 * np.eye(3), key="ball")
    law = ActuatorLaw(gear=(0.0, 0.0, 9.81), dynamics_type="filter", dynamics=(0.1,))
    world.add_actuator(ActuatorTarget.SITE, law, bodies=(body, -1), key="thruster")
    builder.replicate(world, worlds, (2.0, 0.0, 0.0))
    return builder


@pytest.mark.parametrize("use_mujoco", [True, False])
def test_worlds_have_controls_and_activations_of_their_own(use_mujoco: bool):
    """v = -g t + g u (t - T (1 - exp(-t/T))) with the control u; a reset world starts without activation."""
    model = hover(2).finalize("cpu")
    solver = MuJoCoSolver(model, use_mujoco=use_mujoco)
    simulator = Simulator(model, solver, 0.001)
    simulator.control.actuator_ctrl.assign([1.0, 2.0])
    time, T = 0.2, 0.1
    simulator.step(200)
    rise = np.array([1.0, 2.0]) * (time - T * (1.0 - np.exp(-time / T)))
    np.testing.assert_allclose(simulator.state.body_qd.numpy()[:, 5], 9.81 * (rise - time), atol=0.01)
    before = simulator.state.body_qd.numpy()[:, 5].copy()
    simulator.reset(np.array([True, False]))
    simulator.step(1)
    gained = simulator.state.body_qd.numpy()[:, 5] - np.array([0.0, before[1]])
    expected = 9.81 * (np.array([0.0, 2.0 * (1.0 - np.exp(-time / T))]) - 1.0) * 0.001
    np.testing.assert_allclose(gained, expected, atol=2e-4)


def test_what_it_acts_on_must_be_there():
    """Errors name the actuator, or the number."""
    builder = ModelBuilder()
    with pytest.raises(ModelError, match="actuator 'pull': what it acts on is missing, TENDON needs it"):
        builder.add_actuator(ActuatorTarget.TENDON, ActuatorLaw(), key="pull")
    with pytest.raises(ModelError, match="gain_type: expected one of fixed, affine, muscle, got 'cubic'"):
        ActuatorLaw(gain_type="cubic")
    builder.add_actuator(ActuatorTarget.SITE, ActuatorLaw(), bodies=(3, -1), key="push")
    with pytest.raises(ModelError, match="actuator 'push': bodies 3 is not a valid body"):
        builder.finalize("cpu")


def test_axes_of_one_body_have_laws_of_their_own():
    """A filter on the second of two hinges of a body: general actuators name that axis alone."""
    text = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body name="a">
      <joint name="x" axis="1 0 0" damping=".1"/><joint name="y" axis="0 1 0" damping=".1"/>
      <inertial pos="0 0 0" mass="1" diaginertia=".02 .03 .025"/></body></worldbody>
      <actuator><general joint="y" dyntype="filter" dynprm=".05" gainprm="2"/></actuator></mujoco>"""
    builder, report = read(text)
    model = builder.finalize("cpu")
    laws = general_actuators(report.actuators)
    assert list(laws) == [(AxisOf("x_y", 1),)]
    solver = ActuatedSolver(FeatherstoneSolver(model), Actuators(model, laws, DT))
    simulator = Simulator(model, solver, DT)
    simulator.control.joint_act.assign([0.0, 0.5])
    simulator.step(100)
    reference = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(reference)
    data.ctrl[:] = 0.5
    mujoco.mj_step(reference, data, 100)
    assert abs(data.qpos[1]) > 0.1
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), data.qpos, atol=2e-3)


def test_a_solver_with_copied_drives_is_refused():
    """MuJoCoSolver copies drives when it is created; actuators that replace them must be there before."""
    text = BODIES.format(actuators='<general joint="j" gaintype="affine" gainprm="2 .7 -.3"/>')
    builder, report = read(text)
    model = builder.finalize("cpu")
    early = MuJoCoSolver(model, use_mujoco=True)
    actuators = Actuators(model, general_actuators(report.actuators), DT)
    with pytest.raises(NewtonsimError, match=r"copied the drive of joint 'j'.*create the actuators before"):
        ActuatedSolver(early, actuators)
    ActuatedSolver(MuJoCoSolver(model, use_mujoco=True), actuators)
    with pytest.raises(NewtonsimError, match="joint 'j' has 1 degrees of freedom"):
        Actuators(model, {AxisOf("j", 1): General()}, DT)
