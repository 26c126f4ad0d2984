"""Gymnasium's robots: what MuJoCo compiles is what we import."""

import inspect
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.importers import parse_mjcf
from newtonsim.scene.enums import JointMode, JointType

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
FILES = sorted(path.name for path in ASSETS.glob("*.xml"))
WITHOUT_INERTIAL = (
    "ant.xml",
    "humanoid.xml",
    "walker2d.xml",
    "hopper.xml",
    "half_cheetah.xml",
    "swimmer.xml",
)


@pytest.mark.parametrize("name", FILES)
def test_masses_poses_and_geoms_are_those_of_mujoco(twin, name):
    pair = twin(ASSETS / name)
    pair.check_masses()
    pair.check_start()
    pair.check_geoms()


@pytest.mark.parametrize(
    "name", ["ant.xml", "humanoid.xml", "walker2d.xml", "half_cheetah.xml", "pusher.xml"]
)
def test_poses_at_random_coordinates_are_those_of_mujoco(twin, name):
    pair = twin(ASSETS / name)
    for seed in range(5):
        pair.check_poses(seed)


@pytest.mark.parametrize("name", WITHOUT_INERTIAL)
def test_default_arguments_give_the_same_masses_where_the_file_defines_none(twin, name):
    twin(ASSETS / name, ignore_inertial_definitions=True).check_masses()


SINGLE_AXIS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
"""As numbers: MuJoCo's enums compare unequal to NumPy's integers from the left."""


@pytest.mark.parametrize(
    "name", ["ant.xml", "humanoid.xml", "walker2d.xml", "hopper.xml", "half_cheetah.xml"]
)
def test_joint_settings_are_those_of_mujoco(twin, name):
    pair = twin(ASSETS / name)
    mj, builder, report = pair.mj, pair.builder, pair.report
    axis_of = {}
    for index in range(builder.joint_count):
        for place in range(sum(builder.joint_axis_dim[index])):
            axis_of[builder.joint_qd_start[index] + place] = builder.joint_axis_start[index] + place
    for joint in range(mj.njnt):
        dof, theirs = report.joint_dofs[mj.joint(joint).name], mj.jnt_dofadr[joint]
        assert builder.joint_damping[dof] == pytest.approx(mj.dof_damping[theirs])
        assert builder.joint_armature[dof] == pytest.approx(mj.dof_armature[theirs])
        assert builder.joint_friction[dof] == pytest.approx(mj.dof_frictionloss[theirs])
        if int(mj.jnt_type[joint]) in SINGLE_AXIS:
            axis, ref = axis_of[dof], mj.qpos0[mj.jnt_qposadr[joint]]
            assert builder.joint_stiffness[axis] == pytest.approx(mj.jnt_stiffness[joint])
            spring = mj.qpos_spring[mj.jnt_qposadr[joint]]
            assert builder.joint_spring_ref[axis] == pytest.approx(spring - ref)
            if mj.jnt_limited[joint]:
                limits = (builder.joint_limit_lower[axis] + ref, builder.joint_limit_upper[axis] + ref)
                assert limits == pytest.approx(tuple(mj.jnt_range[joint]))
            else:
                assert builder.joint_limit_upper[axis] == 1.0e6


def test_ant_is_what_it_looks_like(z_up):
    report = parse_mjcf(ASSETS / "ant.xml", z_up, floating=None, strict=True)
    assert set(z_up.shape_geo_thickness) == {0.01}
    assert z_up.body_count == 13
    assert z_up.articulation_key == ["torso"]
    assert z_up.articulation_count == 1
    assert JointType(z_up.joint_type[report.joints["root"]]) == JointType.FREE
    # motors: pure torques of at most gear * ctrlrange, no hidden gains
    axis = report.actuators[0]["axis"]
    assert JointMode(z_up.joint_axis_mode[axis]) == JointMode.FORCE
    assert z_up.joint_target_ke[axis] == z_up.joint_target_kd[axis] == 0.0
    assert z_up.joint_effort_limit[axis] == pytest.approx(150.0)
    assert report.actuators[0]["scale"] == 150.0
    assert [actuator["joint"] for actuator in report.actuators[:2]] == ["hip_4", "ankle_4"]
    # the file names a time step
    assert z_up.solver_hint["timestep"] == 0.01


def test_the_ant_floats_unless_told_otherwise_in_so_many_words(z_up):
    report = parse_mjcf(ASSETS / "ant.xml", z_up)
    assert JointType(z_up.joint_type[report.joints["root"]]) == JointType.FREE
    # its first seven coordinates are the pose of the torso, and what is written there moves the torso alone
    model = z_up.finalize("cpu")
    q = model.joint_q.numpy()
    q[:7] = 1.0, 2.0, 3.0, 0.0, 0.0, np.sin(0.1), np.cos(0.1)
    state = model.state()
    newtonsim.eval_fk(model, wp.array(q, dtype=float, device="cpu"), model.joint_qd, None, state)
    np.testing.assert_allclose(state.body_q.numpy()[report.bodies["torso"]], q[:7], atol=1e-6)
    default = inspect.signature(parse_mjcf).parameters["floating"].default
    assert default in (False,)
    assert default is not False
    assert repr(default) == "False"


@pytest.mark.parametrize("floating", [True, None])
def test_floating_in_so_many_words(z_up, floating):
    parse_mjcf(ASSETS / "ant.xml", z_up, floating=floating)
    assert JointType(z_up.joint_type[0]) == JointType.FREE


def test_floating_false_fixes_the_ant_and_says_so(z_up):
    report = parse_mjcf(ASSETS / "ant.xml", z_up, floating=False)
    assert JointType(z_up.joint_type[0]) == JointType.FIXED
    assert any("free joint is replaced" in entry.message for entry in report.of_kind("approximated"))
    np.testing.assert_allclose(list(z_up.body_q[0])[:3], (0.0, 0.0, 0.75), atol=1e-7)
