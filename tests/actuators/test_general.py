"""Actuators of MJCF files against MuJoCo's steps, and finite differences."""

import math
import warnings

import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator
from newtonsim.actuators import (
    Activation,
    ActuatedSolver,
    Actuators,
    AxisOf,
    FileControls,
    General,
    general_actuators,
    solver_from_report,
    tendon_actuators,
)
from newtonsim.errors import ImportFileError, NewtonsimError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver
from newtonsim.utils import export_mjcf

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

DRIVES = {
    name: CASES[name] for name in CASES if "position" in name or "filter" in name or name in "early"
} | {
    "motor": CASES["motor"],
    "velocity": CASES["velocity"],
    "integrator": CASES["integrator"],
    "intvelocity": CASES["intvelocity"],
    "cylinder": CASES["cylinder"],
    "stiff servo with a filter": '<position joint="j" kp="4000" kv="200" timeconst=".02"/>',
    "servo without damping": '<position joint="j" kp="40" timeconst=".05"/>',
    "integrating motor": '<general joint="j" dyntype="integrator" gainprm="3" ctrlrange="-.5 .5"/>',
    "one-sided force": CASES["one-sided force"],
    "as a muscle": '<general joint="j" dyntype="muscle" dynprm=".02 .05" gainprm="3" ctrlrange="0 1"/>',
}
"""What drives behind activations do."""


def read(text: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = parse_mjcf(text, builder)
    return builder, report


def swing(device: str, text: str, integrator: str, explicit: bool):
    """Motions and torques here and in MuJoCo for a second under a control that swings beyond its range."""
    theirs = mujoco.MjModel.from_xml_string(text)
    theirs.opt.integrator = getattr(mujoco.mjtIntegrator, integrator)
    data = mujoco.MjData(theirs)
    builder, report = read(text)
    model = builder.finalize(device)
    laws = general_actuators(report.actuators)
    if explicit:
        laws = {AxisOf(one["key"], one["place"]): General(**one["law"]) for one in report.actuators}
    assert all(isinstance(law, General if explicit else Activation) for law in laws.values())
    actuators = Actuators(model, laws, DT)
    solver = FeatherstoneSolver(model, coriolis="start", tolerance=1.0e-7)
    sim = Simulator(model, ActuatedSolver(solver, actuators), DT)
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
    return np.array(own), np.array(other), np.array(torques)


@pytest.mark.parametrize("case", CASES)
def test_laws_are_those_of_mujoco(device: str, case: str):
    """General actuators are explicit, as in MuJoCo's Euler integrator."""
    text = TEXT.format(dt=DT, actuators=CASES[case])
    own, other, torques = swing(device, text, "mjINT_EULER", explicit=True)
    np.testing.assert_allclose(own, other, atol=2e-3)
    first, second = torques.T
    np.testing.assert_allclose(first, second, atol=0.02 + 0.01 * np.abs(second).max())


@pytest.mark.parametrize("case", DRIVES)
def test_drives_behind_activations_move_as_in_mujoco(device: str, case: str):
    """Their stiffness and damping are implicit, as in MuJoCo's integrator `discrete`, and stable if stiff."""
    text = TEXT.format(dt=DT, actuators=DRIVES[case])
    own, other, _ = swing(device, text, "mjINT_DISCRETE", explicit=False)
    np.testing.assert_allclose(own, other, atol=2e-5)


@pytest.mark.parametrize(("bounds", "atol"), [("-4 4", 5e-4), ("-1.5 4", 4e-3), ("-4 0", 1e-3)])
def test_force_ranges_bound_drives_behind_activations(bounds, atol):
    """The bound is that of the force at the end of a step, in MuJoCo of that at its start: of first order."""
    servo = f'<position joint="j" kp="50" kv="2" gear="2" forcerange="{bounds}" timeconst=".05"/>'
    own, other, _ = swing("cpu", TEXT.format(dt=DT, actuators=servo), "mjINT_DISCRETE", explicit=False)
    free = servo.replace(bounds, "-40 40")
    _, unbounded, _ = swing("cpu", TEXT.format(dt=DT, actuators=free), "mjINT_DISCRETE", explicit=False)
    assert np.abs(unbounded - other).max() > 40.0 * atol
    np.testing.assert_allclose(own, other, atol=atol)


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


def test_what_has_no_law_is_left_to_the_drives_and_named():
    """The rest of the file moves as in MuJoCo: here a servo with a filter."""
    both = '<motor name="m" joint="j" gear="2"/><velocity name="v" joint="j" kv=".4"/>'
    text = TEXT.format(dt=DT, actuators=both).replace('kv="20"', 'kv="20" timeconst=".05"')
    builder, report = read(text)
    model = builder.finalize("cpu")
    with pytest.warns(UnsupportedElementWarning, match=r"'m', one of 2 of the joint 'j'; 'v', one of 2"):
        laws = general_actuators(report.actuators)
    assert list(laws) == [(AxisOf("s", 0),)]
    theirs = mujoco.MjModel.from_xml_string(text)
    theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    data = mujoco.MjData(theirs)
    data.ctrl[:] = 0.3, -0.5, 0.05
    solver = FeatherstoneSolver(model, coriolis="start", tolerance=1.0e-7)
    sim = Simulator(model, ActuatedSolver(solver, Actuators(model, laws, DT)), DT)
    drive = sum(one["scale"] * ctrl + one["offset"] for one, ctrl in zip(report.actuators[:2], data.ctrl))
    sim.control.joint_act.assign(np.array([drive, data.ctrl[2]], np.float32))
    sim.step(300)
    mujoco.mj_step(theirs, data, 300)
    np.testing.assert_allclose(np.add(sim.state.joint_q.numpy(), REFERENCE), data.qpos, atol=2e-5)
    assert np.abs(data.qpos).min() > 0.02


def test_unknown_kinds_are_named():
    _, report = read(TEXT.format(dt=DT, actuators='<general name="m" joint="j" gaintype="user"/>'))
    with pytest.warns(UnsupportedElementWarning, match="'m', which is not an affine actuator of one joint"):
        laws = general_actuators(report.actuators)
    assert list(laws) == [(AxisOf("s", 0),)]


STARTS = """<mujoco><compiler angle="radian"/><option timestep="0.002" gravity="0 0 0"/><worldbody>
  <body name="a"><joint name="a" axis="0 1 0" ref=".3" damping=".2"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body>
  <body name="b"><joint name="b" axis="0 1 0" damping=".2"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body>
  <body name="d"><joint name="d" axis="0 1 0" damping=".2"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body>
  <body name="c"><joint name="c" axis="0 1 0" damping=".2"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body></worldbody>
  <tendon><fixed name="t"><joint joint="c" coef="2"/></fixed></tendon>
  <actuator><position joint="a" kp="5" kv=".3" timeconst=".05"/><position joint="b" kp="5" kv=".3"
    timeconst=".05"/><position joint="d" kp="5" kv=".3" timeconst=".05"/>
    <position tendon="t" kp="5" kv=".3" ctrlrange="-.5 .5"/></actuator>
  <keyframe><key name="home" qpos=".3 0 0 .1" ctrl=".1 -.4 .6 .8"/></keyframe></mujoco>"""


@pytest.mark.parametrize("keyframe", [None, "home"])
@pytest.mark.parametrize("worlds", [1, 2])
def test_controls_start_as_in_the_file(keyframe: str | None, worlds: int):
    """With MuJoCo's ctrl of its start or of a keyframe, also of joints of one law and of tendons."""
    theirs = mujoco.MjModel.from_xml_string(STARTS)
    theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    data = mujoco.MjData(theirs)
    if keyframe is not None:
        mujoco.mj_resetDataKeyframe(theirs, data, 0)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = parse_mjcf(STARTS, builder, keyframe=keyframe)
    scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, worlds)
    model = scene.finalize("cpu")
    laws = general_actuators(report.actuators)
    tendons = tendon_actuators(report.actuators, builder.tendon_key)
    assert [len(key) for key in laws] == [1, 2], "those of one law are one group wherever they start"
    actuators = Actuators(model, laws, DT, tendons=tendons)
    solver = FeatherstoneSolver(model, coriolis="start", tolerance=1.0e-7)
    sim = Simulator(model, ActuatedSolver(solver, actuators), DT)
    np.testing.assert_allclose(sim.control.joint_act.numpy()[:3], data.ctrl[:3], rtol=1e-6)
    np.testing.assert_allclose(sim.control.tendon_act.numpy(), data.ctrl[3], rtol=1e-6)
    sim.step(300)
    mujoco.mj_step(theirs, data, 300)
    found = np.add(sim.state.joint_q.numpy().reshape(worlds, 4), [0.3, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(found, np.tile(data.qpos, (worlds, 1)), atol=2e-5)


def test_a_keyframe_starts_the_drives_of_tendons():
    """Without `Actuators`, inputs are those of drives, whose range bounds the control of the keyframe."""
    theirs = mujoco.MjModel.from_xml_string(STARTS)
    data = mujoco.MjData(theirs)
    mujoco.mj_resetDataKeyframe(theirs, data, 0)
    mujoco.mj_forward(theirs, data)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parse_mjcf(STARTS, builder, keyframe="home")
    assert builder.keyframes[0]["ctrl"] == pytest.approx([0.1, -0.4, 0.6, 0.8])
    force = builder.tendon_target_ke[0] * (builder.tendon_act[0] - 2.0 * data.qpos[3])
    assert force == pytest.approx(data.actuator_force[3])


def test_initial_controls_are_as_many_as_patterns():
    builder, _ = read(STARTS)
    model = builder.finalize("cpu")
    law = Activation(dynamics="none", initial=(0.1, 0.2, 0.3))
    with pytest.raises(NewtonsimError, match="initial: expected one number, or one for each of 2 patterns"):
        Actuators(model, {("a", "b"): law}, DT)
    with pytest.raises(NewtonsimError, match="initial: expected a number"):
        Activation(initial=math.nan)


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


ACTS = STARTS.replace("</tendon>", '<spatial name="m"><site site="o"/><site site="e"/></spatial></tendon>')
ACTS = ACTS.replace("<worldbody>", '<worldbody><site name="o" pos="0 3 .5"/>')
ACTS = ACTS.replace(
    "</worldbody>",
    """<body name="e" pos="0 3 0"><joint name="e" axis="0 1 0" damping=".2"/><site name="e" pos=".3 0 0"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body>
  <body name="f"><joint name="f" axis="0 1 0" damping=".2"/>
    <inertial pos="0 0 0" mass="1" diaginertia=".02 .02 .02"/></body></worldbody>""",
)
ACTS = ACTS.replace(
    "</actuator>",
    """<muscle name="m" tendon="m" force="20" lengthrange=".2 .8"/>
  <general joint="f" dyntype="integrator" gaintype="affine" gainprm="1 .3 -.2"/></actuator>""",
)
ACTS = ACTS.replace(
    'qpos=".3 0 0 .1" ctrl=".1 -.4 .6 .8"',
    'qpos=".3 0 0 .1 .2 0" ctrl=".1 -.4 .6 .8 .5 .1" act=".2 -.3 .4 .7 -.25"',
)


@pytest.mark.parametrize("worlds", [1, 2])
def test_activations_start_as_in_a_keyframe(device: str, worlds: int):
    """Of servos, also those of one law, of a muscle and of a general actuator; and again after a reset."""
    theirs = mujoco.MjModel.from_xml_string(ACTS)
    theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    data = mujoco.MjData(theirs)
    mujoco.mj_resetDataKeyframe(theirs, data, 0)
    assert np.abs(data.act).min() > 0.1
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = parse_mjcf(ACTS, builder, keyframe="home")
    assert not [entry for entry in report.entries if "keyframe" in entry.message]
    assert builder.keyframes[0]["act"] == pytest.approx([0.2, -0.3, 0.4, 0.0, 0.7, -0.25])
    scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(builder, worlds)
    model = scene.finalize(device)
    solver = solver_from_report(report, model, DT, coriolis="start", tolerance=1.0e-7)
    sim = Simulator(model, solver, DT)
    mujoco.mj_step(theirs, data, 300)
    for _ in range(2):
        sim.step(300)
        found = np.add(sim.state.joint_q.numpy().reshape(worlds, 6), [0.3, 0.0, 0.0, 0.0, 0.0, 0.0])
        expected = np.tile(data.qpos, (worlds, 1))
        np.testing.assert_allclose(found[:, :4], expected[:, :4], atol=5e-5)
        np.testing.assert_allclose(found, expected, atol=2e-3)  # forces at the start of a step
        sim.reset()


def test_activations_of_a_keyframe_are_as_many_as_there_are():
    """MuJoCo refuses such a file."""
    with pytest.raises(ImportFileError, match="attribute 'act' has 2 values, the model has 3"):
        read(STARTS.replace('ctrl=".1 -.4 .6 .8"', 'act="1 2"'))
    builder, _ = read(STARTS)
    model = builder.finalize("cpu")
    with pytest.raises(NewtonsimError, match="start: expected one number, or one for each of 2 patterns"):
        Actuators(model, {("a", "b"): Activation(start=(0.1, 0.2, 0.3))}, DT)


SKEW = {
    "motor": '<motor tendon="t" gear="-2" forcerange="-.1 .4"/>',
    "filter": '<general tendon="t" gear="1.5" dyntype="filter" dynprm=".05" forcerange="-.3 .1" gainprm="2" '
    'biastype="affine" biasprm=".05 0 0"/>',
    "joint": '<general joint="j" dyntype="filterexact" dynprm=".05" forcerange=".02 .6" gainprm="4"/>',
}


@pytest.mark.parametrize("case", SKEW)
def test_forces_of_motors_keep_to_ranges_that_are_not_symmetric(device: str, case: str, tmp_path):
    """On tendons as on joints, with and without dynamics; an export writes them back."""
    text = TEXT.format(dt=DT, actuators=SKEW[case]).replace(
        "<actuator>", '<tendon><fixed name="t"><joint joint="j" coef="1.3"/></fixed></tendon><actuator>'
    )

    def mujocos_motion(theirs: mujoco.MjModel) -> np.ndarray:
        theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
        data = mujoco.MjData(theirs)
        for n in range(300):
            data.ctrl[:] = math.sin(0.02 * n), 0.0
            mujoco.mj_step(theirs, data)
        return data.qpos.copy()

    theirs = mujoco.MjModel.from_xml_string(text)
    expected = mujocos_motion(theirs)
    builder, report = read(text)
    model = builder.finalize(device)
    sim = Simulator(model, solver_from_report(report, model, DT, coriolis="start", tolerance=1.0e-7), DT)
    controls = FileControls(report, model)
    for n in range(300):
        controls.write(sim.control, [math.sin(0.02 * n), 0.0])
        sim.step()
    np.testing.assert_allclose(np.add(sim.state.joint_q.numpy(), REFERENCE), expected, atol=2e-5)
    path = tmp_path / "again.xml"
    export_mjcf(model, path, imported=report)
    again = mujoco.MjModel.from_xml_path(str(path))
    np.testing.assert_allclose(np.add(mujocos_motion(again), REFERENCE), expected, atol=1e-4)
    bound = theirs.actuator_forcerange[0].copy()
    theirs.actuator_forcerange[0] = np.abs(bound).max() * np.array([-1.0, 1.0])
    assert np.abs(mujocos_motion(theirs) - expected).max() > 1e-3
