"""A file with everything besides its model moves as in MuJoCo, by one call."""

import warnings

import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator
from newtonsim.actuators import FileControls, solver_from_report
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import (
    FeatherstoneSolver,
    MuJoCoSolver,
    SemiImplicitSolver,
    VBDSolver,
    XPBDSolver,
)

DT = 0.002
EVERYTHING = """<mujoco><compiler angle="radian"/>
  <option timestep="0.002" density="30" viscosity=".5" wind=".5 0 0" integrator="implicitfast"/>
  <default><joint axis="0 1 0" damping=".1"/></default>
  <worldbody><site name="root" pos=".1 0 .3"/>
    <body name="upper" gravcomp=".6"><joint name="shoulder"/>
      <geom type="capsule" size=".04" fromto="0 0 0 .4 0 0"/>
      <body name="lower" gravcomp="1" pos=".4 0 0"><joint name="elbow" ref=".2"/>
        <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0"/><site name="end" pos=".25 0 0"/>
        <body name="hand" pos=".3 0 0"><joint name="wrist"/><geom size=".05"/>
          <body name="finger" pos=".1 0 0"><joint name="finger"/><geom size=".03" pos=".05 0 0"/></body>
        </body></body></body>
    <body name="leaf" pos="0 1 0" gravcomp=".9"><freejoint name="leaf"/>
      <geom type="box" size=".1 .1 .005"/></body>
  </worldbody>
  <tendon><spatial name="biceps"><site site="root"/><site site="end"/></spatial>
    <fixed name="cord"><joint joint="wrist" coef="1"/><joint joint="finger" coef="-.5"/></fixed></tendon>
  <actuator>
    <position name="servo" joint="elbow" kp="30" kv="3" timeconst=".05"/>
    <muscle name="biceps" tendon="biceps" force="60" lengthrange=".2 .8"/>
    <motor name="push" joint="shoulder" gear="4" ctrlrange="-.5 .5"/>
    <velocity name="brake" joint="shoulder" kv="2"/>
    <position name="cord" tendon="cord" kp="2" kv=".2" timeconst=".03" ctrlrange="-.4 .4"/>
  </actuator>
  <keyframe><key name="home" qpos=".1 .3 -.2 .1 0 1 0 1 0 0 0" ctrl=".4 .3 .2 .1 -.1"/></keyframe></mujoco>"""

CTRL = np.array([0.6, 0.4, 2.0, -0.3, 0.9])
"""Beyond their ranges: the motor's, and that of the cord."""


def read(text: str = EVERYTHING, worlds: int = 1, **options):
    robot = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(UnsupportedElementWarning, match="solver_from_report makes"):
        report = parse_mjcf(text, robot, ignore_inertial_definitions=False, strict=True, **options)
    scene = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(robot, worlds, spacing=(0, 0, 0))
    return report, scene.finalize("cpu")


def mujocos_motion(integrator: int, ctrl: np.ndarray | None, keyframe: bool, seconds: float) -> np.ndarray:
    theirs = mujoco.MjModel.from_xml_string(EVERYTHING)
    theirs.opt.integrator = integrator
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(theirs)
    if keyframe:
        mujoco.mj_resetDataKeyframe(theirs, data, 0)
    if ctrl is not None:
        data.ctrl[:] = ctrl
    for _ in range(round(seconds / DT)):
        mujoco.mj_step(theirs, data)
    mujoco.mj_kinematics(theirs, data)
    return data.xipos[1:].copy()


def centres(simulator: Simulator, worlds: int) -> np.ndarray:

    q = simulator.state.body_q.numpy().astype(np.float64)
    com = simulator.model.body_com.numpy().astype(np.float64)
    return (q[:, :3] + quat_rotate(q[:, 3:], com)).reshape(worlds, -1, 3)


@pytest.mark.parametrize("worlds", [1, 2])
def test_a_second_of_everything_beside_mujoco(worlds: int):
    """FeatherstoneSolver beside MuJoCo's integrator `discrete`, each world under its own controls."""
    report, model = read(worlds=worlds)
    options = {"coriolis": "start", "tolerance": 1.0e-7, "iterations": 200}
    simulator = Simulator(model, solver_from_report(report, model, DT, strict=True, **options), dt=DT)
    ctrl = np.array([CTRL, 0.3 * CTRL])[:worlds]
    FileControls(report, model).write(simulator.control, ctrl)
    simulator.step(500)
    discrete = int(mujoco.mjtIntegrator.mjINT_DISCRETE)
    for own, given in zip(centres(simulator, worlds), ctrl, strict=True):
        np.testing.assert_allclose(own, mujocos_motion(discrete, given, False, 1.0), atol=1e-3)


def test_a_second_of_everything_by_mujocos_own_solver():
    report, model = read()
    options = {"use_mujoco": True, "joint_damping": 0.0, "disable_contacts": True, "solver": "newton"}
    options |= {"integrator": "implicitfast", "iterations": 100, "ls_iterations": 50}
    solver = solver_from_report(report, model, DT, MuJoCoSolver, strict=True, **options)
    simulator = Simulator(model, solver, dt=DT)
    FileControls(report, model).write(simulator.control, CTRL)
    simulator.step(500)
    theirs = mujocos_motion(int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST), CTRL, False, 1.0)
    np.testing.assert_allclose(centres(simulator, 1)[0], theirs, atol=1e-5)


def test_controls_start_as_in_the_file():
    """In a keyframe, whose controls are those of all actuators, also of two on one joint."""
    report, model = read(keyframe="home")
    options = {"coriolis": "start", "tolerance": 1.0e-7, "iterations": 200}
    simulator = Simulator(model, solver_from_report(report, model, DT, **options), dt=DT)
    simulator.step(250)
    theirs = mujocos_motion(int(mujoco.mjtIntegrator.mjINT_DISCRETE), None, True, 0.5)
    np.testing.assert_allclose(centres(simulator, 1)[0], theirs, atol=1e-3)


def test_controls_are_those_of_mujoco():
    """The same file in both, under random controls within and beyond all ranges."""
    report, model = read()
    control = model.control()
    controls = FileControls(report, model)
    assert controls.count == 5
    for _ in range(3):
        ctrl = np.random.default_rng(1).uniform(-2.0, 2.0, 5)
        controls.write(control, ctrl)
    # ctrl where there is one actuator; motor and brake act on the shoulder, whose velocity drive has gain 2
    act = control.joint_act.numpy()
    assert act[1] == np.float32(ctrl[0])
    assert 2.0 * act[0] == pytest.approx(4.0 * np.clip(ctrl[2], -0.5, 0.5) + 2.0 * ctrl[3], rel=1e-6)
    np.testing.assert_array_equal(control.tendon_act.numpy(), np.float32(ctrl[[1, 4]]))
    with pytest.raises(ModelError, match=r"ctrl: expected shape \(5,\) or \(1, 5\), got \(4,\)"):
        controls.write(control, ctrl[:4])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_controls_that_are_not_finite_are_refused(wrong: float):
    """By actuator and world, before anything is written."""
    report, model = read(worlds=3)
    control, controls = model.control(), FileControls(report, model)
    controls.write(control, np.full((3, 5), 0.25))
    before = control.joint_act.numpy(), control.tendon_act.numpy()
    ctrl = np.zeros((3, 5))
    ctrl[2, 3] = wrong
    name = report.actuators[3]["name"]
    with pytest.raises(ModelError, match=f"ctrl: {wrong} for actuator 3 '{name}' in world 2"):
        controls.write(control, ctrl)
    with pytest.raises(ModelError, match=f"ctrl: {wrong} for actuator 3 '{name}' in world 0"):
        controls.write(control, ctrl[2])
    for now, then in zip((control.joint_act, control.tendon_act), before, strict=True):
        np.testing.assert_array_equal(now.numpy(), then)


WHAT_MUJOCO_HAS = """<mujoco><option density="1"/><worldbody><site name="s"/>
  <body gravcomp="1"><joint name="j" stiffness="1 2"/><geom size=".1" pos=".1 0 0"/>
  <site name="tip" pos=".2 0 0"/></body></worldbody>
  <actuator><motor name="jet" site="tip" gear="0 0 1"/></actuator></mujoco>"""


@pytest.mark.parametrize("solver", [FeatherstoneSolver, XPBDSolver])
def test_what_a_solver_lacks_is_named(solver):
    report, model = read(WHAT_MUJOCO_HAS)
    words, more = ["1 elements of kind joint what MuJoCoSolver has: stiffness"], "1 actuators of the model"
    words += [more, "gravity compensation of 1 bodies", "the medium"] if solver is XPBDSolver else []
    with pytest.warns(UnsupportedElementWarning, match=f"{solver.__name__} lacks") as told:
        solver_from_report(report, model, DT, solver)
    text = next(str(one.message) for one in told if "lacks" in str(one.message))
    assert all(word in text for word in words), text
    assert ("the medium" in text) == (more in text) == (solver is XPBDSolver)
    with pytest.raises(ModelError, match=f"{solver.__name__} lacks what the file asks for"):
        solver_from_report(report, model, DT, solver, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver_from_report(report, model, DT, MuJoCoSolver, strict=True, use_mujoco=True)


def test_a_name_that_several_things_of_a_world_have_is_refused():
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    text = '<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>'
    for _ in range(2):
        report = parse_mjcf(text + '<actuator><motor name="m" joint="j"/></actuator></mujoco>', builder)
    with pytest.raises(ModelError, match="controls: 2 elements have the name of what 'j' names, in 1 world"):
        FileControls(report, builder.finalize("cpu"))


TENDON = """<mujoco><worldbody><body>
  <joint name="j" range="0 1" solreflimit="0.02 1"/><geom size=".1" pos=".1 0 0"/></body></worldbody>
  <tendon><fixed name="t" stiffness="3"><joint joint="j" coef="1"/></fixed></tendon>
  <actuator><motor joint="j"/></actuator></mujoco>"""


def read_tendon():
    robot = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_mjcf(TENDON, robot, strict=True)
    return report, robot.finalize("cpu")


@pytest.mark.parametrize("solver", [XPBDSolver, VBDSolver, SemiImplicitSolver])
def test_solvers_of_bodies_name_what_of_the_model_they_leave_out(solver):
    """As they do themselves when they step; FeatherstoneSolver leaves out nothing of it."""
    report, model = read_tendon()
    with pytest.raises(ModelError, match=f"{solver.__name__} lacks .*joint_limit_solref.*tendons"):
        solver_from_report(report, model, DT, solver, strict=True)
    assert FeatherstoneSolver.ignored(model) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver_from_report(report, model, DT, strict=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"report": None}, "report: expected what an importer returns.*got None"),
        ({"report": "robot.xml"}, "report: expected what an importer returns.*got 'robot.xml'"),
        ({"model": None}, "model: expected a Model"),
        ({"kind": "featherstone"}, "kind: expected a class of solvers.*got 'featherstone'"),
    ],
)
def test_arguments_of_another_kind_are_named(given, words):
    report, model = read_tendon()
    with pytest.raises(ModelError, match=words):
        solver_from_report(**{"report": report, "model": model, "dt": DT, "kind": FeatherstoneSolver} | given)
    if "kind" not in given:
        with pytest.raises(ModelError, match=words):
            FileControls(**{"report": report, "model": model} | given)
