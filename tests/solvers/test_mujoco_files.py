"""MuJoCoSolver on what a file asks for: welds off the origins, a medium, and tendons along many chains."""

import re
import warnings

import mujoco
import numpy as np
import pytest

from newtonsim import ModelBuilder, Simulator
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, MuJoCoSolver
from newtonsim.utils import export_mjcf

DT = 0.002
BODY = '<inertial pos=".02 -.01 .03" mass=".8" diaginertia=".01 .02 .015"/>'
WELD = f"""<mujoco><compiler angle="radian"/><option timestep="0.002"/><worldbody>
  <body name="a" pos="0 0 1" euler=".4 .2 -.3"><freejoint/>{BODY}</body>
  <body name="b" pos=".5 .1 .9" euler="-.2 .5 .1"><freejoint/>{BODY}</body>
  <body name="c" pos="0 1 1"><joint axis="0 1 0" pos="0 0 .2"/>{BODY}</body></worldbody>
  <equality><weld body1="a" body2="b" anchor=".1 .2 -.1" relpose=".3 -.1 .2 .9 .1 .3 -.2" torquescale=".4"/>
  <weld body1="c" anchor=".05 .1 .2" relpose="0 1 1.1 .95 .05 .3 0" solref=".04 .8"/></equality></mujoco>"""
MEDIUM = """<mujoco><compiler angle="radian"/>
  <option timestep="0.002" density="900" viscosity=".4" wind=".6 -.3 .2"/><worldbody>
  <body name="a" pos="0 0 1"><freejoint/><geom type="capsule" fromto="0 0 0 .3 .2 .1" size=".04"/></body>
  <body name="b" pos="1 0 1" euler=".3 .5 .2"><joint axis="0 1 .3" pos="0 0 .3"/>
    <geom type="cylinder" size=".05 .2" euler=".7 .2 .1" pos=".1 0 -.1"/></body>
  <body name="c" pos="2 0 1"><freejoint/><geom type="box" size=".1 .05 .08" euler=".1 .2 .3"/></body>
  </worldbody></mujoco>"""


def read(text: str):
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        options = {"floating": None, "mujoco_defaults": True, "stiffness": 0.0, "damping": 0.0}
        report = parse_mjcf(text, builder, **options)
    return builder, report


def positions(source: str, steps: int) -> np.ndarray:
    """Positions of the bodies in MuJoCo, of a text or a file."""
    load = mujoco.MjModel.from_xml_string if source.startswith("<") else mujoco.MjModel.from_xml_path
    model = load(source)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, steps)
    mujoco.mj_kinematics(model, data)
    return np.array([data.body(name).xpos for name in "abc"])


def ours(builder: ModelBuilder, report, steps: int) -> np.ndarray:
    """Positions of the same bodies by MuJoCoSolver, with MuJoCo's own options."""
    model = builder.finalize("cpu")
    options = {"solver": "newton", "iterations": 100, "joint_damping": 0.0, "disable_contacts": True}
    simulator = Simulator(model, MuJoCoSolver(model, use_mujoco=True, **options), DT)
    simulator.step(steps)
    return simulator.state.body_q.numpy()[[report.bodies[name] for name in "abc"], :3]


@pytest.mark.parametrize(("text", "shift"), [(WELD, 0.05), (MEDIUM, 0.5)], ids=["welds", "medium"])
def test_files_move_as_in_mujoco(text: str, shift: float, tmp_path):
    """Half a second, also of the export: welds off the origins, and shapes of revolution in a wind."""
    expected = positions(text, 250)
    alone = re.sub(r"<equality>.*</equality>", "", text.replace('density="900"', ""), flags=re.DOTALL)
    without = positions(alone, 250)
    assert np.abs(expected - without).max() > shift
    builder, report = read(text)
    np.testing.assert_allclose(ours(builder, report, 250), expected, atol=1e-5)
    export_mjcf(builder, tmp_path / "again.xml")
    np.testing.assert_allclose(positions(str(tmp_path / "again.xml"), 250), expected, atol=1e-5)


def test_motors_inherit_no_range_from_their_joint():
    """`inheritrange` of a class is for servos; a motor of that class has a control without bounds."""
    text = """<mujoco><compiler angle="radian"/><default><general/><position inheritrange=".5"/></default>
      <worldbody><body><joint name="j" axis="0 1 0" range="-1 2"/><geom size=".1"/></body>
      <body><joint name="k" axis="0 1 0" range="-1 2"/><geom size=".1"/></body></worldbody>
      <actuator><motor joint="j" gear="3"/><position joint="k" kp="5"/></actuator></mujoco>"""
    theirs = mujoco.MjModel.from_xml_string(text)
    builder, report = read(text)
    ranges = [entry["ctrl_range"] for entry in report.actuators]
    assert not theirs.actuator_ctrllimited[0]
    assert ranges[0] is None
    np.testing.assert_allclose(ranges[1], theirs.actuator_ctrlrange[1])
    assert builder.joint_effort_limit[report.actuators[0]["axis"]] == np.inf


def chains(tendon: str) -> str:
    """Three pendulums whose angles one tendon sums."""
    body = '<body name="{0}" pos="{1} 0 0"><joint name="{0}j" axis="0 1 0" damping=".05"/>{2}</body>'
    bodies = "".join(body.format(name, place, BODY) for place, name in enumerate("abc"))
    along = '<joint joint="aj" coef="1"/><joint joint="bj" coef="-.5"/><joint joint="cj" coef=".8"/>'
    return f"""<mujoco><option timestep="0.002"/><worldbody>{bodies}</worldbody>
      <tendon><fixed name="t" {tendon}>{along}</fixed></tendon></mujoco>"""


def angles(text: str, steps: int) -> np.ndarray:
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, steps)
    return data.qpos.copy()


def test_springs_of_tendons_along_many_chains():
    """A spring and a damper along three trees: half a second of FeatherstoneSolver beside MuJoCo."""
    text = chains('stiffness="3" damping=".1" springlength=".7"')
    builder, _ = read(text)
    model = builder.finalize("cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), DT)
    simulator.step(250)
    expected = angles(text, 250)
    assert np.abs(expected - angles(chains(""), 250)).max() > 0.05
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), expected, atol=2e-3)


def test_limits_of_tendons_along_many_chains():
    """FeatherstoneSolver refuses them by name; MuJoCoSolver has them."""
    text = chains('range="-.05 .1"')
    builder, _ = read(text)
    model = builder.finalize("cpu")
    with pytest.raises(
        ModelError, match=r"tendon 't': .* along at most two kinematic chains, but these are 3"
    ):
        FeatherstoneSolver(model)
    options = {"solver": "newton", "iterations": 100, "joint_damping": 0.0}
    simulator = Simulator(model, MuJoCoSolver(model, use_mujoco=True, **options), DT)
    simulator.step(250)
    expected = angles(text, 250)
    assert np.abs(expected - angles(chains(""), 250)).max() > 0.02
    np.testing.assert_allclose(simulator.state.joint_q.numpy(), expected, atol=1e-5)


ROLLING = """<mujoco><option timestep="0.002" cone="elliptic"/><worldbody>
<geom name="floor" type="plane" size="5 5 .1"/>
<geom name="step" type="box" size=".1 .1 .1" pos="3 0 0" condim="4" friction="0.8 0.02 0.003"/>
<body name="ball" pos="0 0 .08"><freejoint/><geom name="ball" size=".08" mass="1" condim="6"/></body>
</worldbody><keyframe><key name="k" qvel="0.5 0 0 0 6.25 5"/></keyframe></mujoco>"""


def test_torsional_and_rolling_friction_is_that_of_the_file(tmp_path):
    """Also of geoms of condim 3 and 4, since MuJoCo takes the larger value of two."""
    theirs = mujoco.MjModel.from_xml_string(ROLLING)
    data = mujoco.MjData(theirs)
    mujoco.mj_resetDataKeyframe(theirs, data, 0)
    mujoco.mj_step(theirs, data, 500)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    options = {"ignore_inertial_definitions": False, "mujoco_defaults": True}
    parse_mjcf(ROLLING, builder, keyframe="k", **options)
    model = builder.finalize("cpu")
    exact = {"solver": "newton", "iterations": 100, "cone": "elliptic", "joint_damping": 0.0}
    solver = MuJoCoSolver(model, use_mujoco=True, **exact)
    np.testing.assert_allclose(solver.mj_model.geom_friction, theirs.geom_friction, rtol=1e-6)
    assert solver.mj_model.geom_condim.tolist() == theirs.geom_condim.tolist()
    simulator = Simulator(model, solver, dt=0.002)
    simulator.step(500)
    assert data.qpos[0] > 0.4
    assert simulator.state.joint_q.numpy()[0] == pytest.approx(data.qpos[0], abs=1e-4)
    export_mjcf(builder, tmp_path / "out.xml")
    again = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    for name in ("floor", "step", "ball"):
        np.testing.assert_allclose(again.geom(name).friction, theirs.geom(name).friction, rtol=1e-6)
        assert again.geom(name).condim == theirs.geom(name).condim


SKEW = """<mujoco><option timestep="0.001"/><worldbody><body name="a" pos="0 0 1">
<joint name="j" axis="0 1 0" damping="0.1" actuatorfrcrange="-3 1.5"/>
<geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" contype="0" conaffinity="0"/></body></worldbody>
<actuator><position joint="j" kp="15" kv="0.3"/></actuator>
<keyframe><key name="up" ctrl="0.9"/><key name="down" ctrl="-0.9"/></keyframe></mujoco>"""


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_range_of_efforts_that_is_not_symmetric_bounds_both_ways(way, tmp_path):
    """Beside MuJoCo, MuJoCoSolver steps as the file does, FeatherstoneSolver as its integrator `discrete`."""
    theirs = mujoco.MjModel.from_xml_string(SKEW)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    options = {"ignore_inertial_definitions": False, "strict": True, "keyframe": way}
    report = parse_mjcf(SKEW, builder, **options)
    model = builder.finalize("cpu")
    exact = {"solver": "newton", "iterations": 100, "joint_damping": 0.0}
    for solver, integrator in (
        (MuJoCoSolver(model, use_mujoco=True, **exact), mujoco.mjtIntegrator.mjINT_EULER),
        (FeatherstoneSolver(model, coriolis="start"), mujoco.mjtIntegrator.mjINT_DISCRETE),
    ):
        theirs.opt.integrator = integrator
        data = mujoco.MjData(theirs)
        mujoco.mj_resetDataKeyframe(theirs, data, theirs.key(way).id)
        mujoco.mj_step(theirs, data, 100)
        simulator = Simulator(model, solver, dt=0.001)
        simulator.step(100)
        assert simulator.state.joint_q.numpy()[0] == pytest.approx(data.qpos[0], abs=1e-5)
    export_mjcf(builder, tmp_path / "out.xml", imported=report)
    again = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    assert again.jnt_actfrcrange.tolist() == theirs.jnt_actfrcrange.tolist()
    export_mjcf(builder, tmp_path / "out.xml")
    again = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    assert again.actuator_forcerange.tolist() == theirs.jnt_actfrcrange.tolist()
