"""Servos with a damping ratio have the damping that MuJoCo compiles, and move as there."""

import mujoco
import numpy as np
import pytest

import newtonsim
from newtonsim.fidelity import compare_with_oracle
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import MuJoCoSolver

LEG = """<mujoco><compiler angle="radian"/><option timestep=".002"/><worldbody>
<body name="torso" pos="0 0 1">{base}<geom type="box" size=".2 .1 .05" density="300"/>
<body pos=".2 0 0"><joint name="hip" axis="1 .3 0" armature=".01"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02"/><site name="high" pos=".1 0 -.1"/>
<body pos="0 0 -.3"><joint name="knee" axis="0 1 0" ref=".3"/>
  <geom type="capsule" fromto="0 0 0 .1 0 -.3" size=".02"/><site name="low" pos=".1 0 -.2"/>
<body pos="0 .1 -.1"><joint name="toe" {toe}/><geom type="box" size=".05 .02 .1"/></body></body></body></body>
</worldbody><tendon><fixed name="both"><joint joint="hip" coef="2"/><joint joint="knee" coef="-.5"/></fixed>
<spatial name="rope"><site site="high"/><site site="low"/></spatial></tendon>
<actuator>{actuators}</actuator></mujoco>"""
ON_JOINTS = """<position joint="hip" kp="20" dampratio=".7" gear="3"/>
<general joint="knee" gainprm="5" biastype="affine" biasprm=".4 -5 .5" forcerange="-9 9"/>
<position joint="toe" kp="3" kv=".2" ctrlrange="-1 1"/>"""
SAME_JOINT = """<position joint="knee" kp="5" dampratio="1"/><position joint="knee" kp="2" dampratio=".5"/>
<general joint="toe" gainprm="4" biastype="affine" biasprm="0 -4 -.5"/>"""
ON_TENDONS = """<position tendon="both" kp="7" dampratio="1.3" gear="2"/>
<position tendon="rope" kp="90" dampratio="1"/>"""
HINGE, BALL = 'axis="0 0 1"', 'type="ball"'


def read(folder, actuators: str, base: str = "<freejoint/>", toe: str = HINGE):
    path = folder / "leg.xml"
    path.write_text(LEG.format(actuators=actuators, base=base, toe=toe))
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    as_there = {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False, "floating": None}
    return str(path), builder, parse_mjcf(str(path), builder, **as_there)


@pytest.mark.parametrize("actuators", [ON_JOINTS, SAME_JOINT])
def test_drives_have_the_damping_that_mujoco_compiles(actuators, tmp_path):
    path, builder, report = read(tmp_path, actuators)
    mj = mujoco.MjModel.from_xml_path(path)
    expected = np.zeros(builder.joint_axis_count)
    for number, entry in enumerate(report.actuators):
        expected[entry["axis"]] -= mj.actuator_biasprm[number, 2] * mj.actuator_gear[number, 0] ** 2
        assert entry["law"]["bias"][2] == pytest.approx(mj.actuator_biasprm[number, 2], rel=1.0e-5)
    assert expected.max() > 0.3
    np.testing.assert_allclose(builder.joint_target_kd, expected, rtol=1.0e-5, atol=1.0e-12)
    assert not report.of_kind("unsupported")
    found = compare_with_oracle(path)
    assert found.agrees, found.lines()


def test_drives_of_tendons_have_it(tmp_path):
    path, builder, report = read(tmp_path, ON_TENDONS, base="")
    mj = mujoco.MjModel.from_xml_path(path)
    expected = -mj.actuator_biasprm[:, 2] * mj.actuator_gear[:, 0] ** 2
    places = [entry["tendon"] for entry in report.actuators]
    np.testing.assert_allclose(np.array(builder.tendon_target_kd)[places], expected, rtol=1.0e-4)
    assert not report.of_kind("unsupported")
    assert not report.of_kind("approximated")


def test_a_tendon_of_a_robot_with_ball_joints_is_approximated(tmp_path):
    _, _, report = read(tmp_path, ON_TENDONS, base="", toe=BALL)
    assert {"dampratio" in entry.message for entry in report.of_kind("approximated")} == {True}


def test_mujoco_solver_has_it_where_drives_are_not_enough(tmp_path):
    """On a ball joint, MuJoCo computes the damping itself."""
    servo = '<position joint="toe" kp="3" dampratio="1" gear="1 2 3"/>'
    path, builder, report = read(tmp_path, servo, toe=BALL)
    assert "ball joint" in report.of_kind("deferred")[0].message
    mj = mujoco.MjModel.from_xml_path(path)
    solver = MuJoCoSolver(builder.finalize("cpu"), use_mujoco=True)
    ours = solver.mj_model.actuator_biasprm
    np.testing.assert_allclose(ours[-1:, :3], mj.actuator_biasprm[:, :3], rtol=1.0e-4)
    assert mj.actuator_biasprm[0, 2] < -0.01


def test_a_gain_that_is_not_that_of_a_servo_pushes(tmp_path):
    """MuJoCo leaves a positive third bias as it is unless gain and second bias are opposite."""
    general = '<general joint="toe" gainprm="5" biastype="affine" biasprm="0 -4 .5"/>'
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="push away"):
        path, builder, report = read(tmp_path, general)
    assert mujoco.MjModel.from_xml_path(path).actuator_biasprm[0, 2] == 0.5
    assert report.actuators[0]["law"]["bias"][2] == 0.5
    assert max(builder.joint_target_kd) == 0.0
