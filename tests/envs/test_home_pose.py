"""What follows from a robot's file alone: the height at which it stands, its feet, gains of its drives."""

import math
import warnings
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from small_quadruped import HIP, KNEE, LENGTH, MASSES, RADIUS, quadruped

from newtonsim import envs
from newtonsim.builder import ModelBuilder
from newtonsim.envs.terms.home_pose import HomePose
from newtonsim.envs.terms.robots import BuiltRobot, Robot
from newtonsim.errors import DefaultsWarning, NewtonsimError
from newtonsim.examples import asset_path

HOME = {"*_hip": HIP, "*_knee": KNEE}
HEIGHT = 2.0 * LENGTH * math.cos(HIP) + RADIUS


def built(path: Path, scale: float = 1.0, **fields: Any) -> tuple[BuiltRobot, ModelBuilder]:
    """Return the quadruped of a scale, and its builder."""
    path.write_text(quadruped(scale))
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    robot = Robot(str(path), "trunk", feet="*_lower", **{"home": HOME, **fields})
    return BuiltRobot(robot, builder, self_collisions=False), builder


@pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")
def test_it_stands_on_its_feet(tmp_path: Path):
    """Closed forms: two links that are bent alike, with a sphere at their end."""
    robot, builder = built(tmp_path / "pup.urdf")
    assert builder.joint_q[2] == pytest.approx(HEIGHT, abs=1e-6)
    # the shank leans by hip + knee: its lowest point is below the middle of the sphere, seen in its frame
    lean = HIP + KNEE
    point = (RADIUS * math.sin(lean), 0.0, -LENGTH - RADIUS * math.cos(lean))
    np.testing.assert_allclose(robot.foot_points, [point] * 4, atol=1e-6)
    assert robot.foot_height == pytest.approx(0.03 * HEIGHT)


def test_a_level_sole_touches_in_its_middle():
    """Of the humanoid: its feet are boxes, whose corners are all lowest."""
    path = str(asset_path("zoo/g1_like.xml"))
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    robot = BuiltRobot(Robot(path, "pelvis", "*_foot", keyframe="home"), builder, False)
    np.testing.assert_allclose(robot.foot_points, [[0.035, 0.0, -0.035]] * 2, atol=1e-3)


def test_a_sole_of_several_shapes_touches_in_their_middle(tmp_path: Path):
    """Whatever their order: a robot whose feet list the left shape first stays its own mirror image."""
    sole = '<geom type="capsule" size=".02" fromto="-.05 {0} -.5 .15 {0} -.5"/>'
    leg = (
        '<body name="{0}_leg" pos="0 {1} 0"><joint name="{0}_hip" axis="1 0 0"/>'
        f"{sole.format(0.03)}{sole.format(-0.03)}</body>"
    )
    legs = leg.format("left", 0.1) + leg.format("right", -0.1)
    path = tmp_path / "biped.xml"
    path.write_text(
        '<mujoco><worldbody><body name="base" pos="0 0 .52"><freejoint/><geom size=".1" mass="10"/>'
        f"{legs}</body></worldbody></mujoco>"
    )
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    robot = BuiltRobot(Robot(str(path), "base", "*_leg"), builder, False)
    np.testing.assert_allclose(robot.foot_points, [[0.05, 0.0, -0.52]] * 2, atol=1e-5)


def test_gains_carry_the_weight_and_damp_the_limbs(tmp_path: Path):
    """Closed forms of the knee: a quarter of the weight at the foot's distance, and a rod that swings."""
    with pytest.warns(DefaultsWarning, match=r"pup\.urdf has no gains of drives; they follow") as told:
        _, builder = built(tmp_path / "pup.urdf")
    assert len(told) == 1
    ends = min(builder.joint_target_ke), max(builder.joint_target_ke)
    assert f"stiffness {ends[0]:.3g} to {ends[1]:.3g} [N m/rad" in str(told[0].message)
    knee = builder.joint_axis_start[builder.joint_key.index("fl_knee")]
    weight = 9.81 * (MASSES["trunk"] + 4.0 * (MASSES["upper"] + MASSES["lower"])) / 4.0
    lean = HIP + KNEE
    # the lowest point of the foot as seen from the knee
    arm = math.hypot(LENGTH * math.sin(lean), LENGTH * math.cos(lean) + RADIUS)
    stiffness = 5.0 * weight * arm
    inertia = MASSES["lower"] * ((0.03**2 + 0.14**2) / 12.0 + (0.5 * LENGTH) ** 2)
    assert builder.joint_target_ke[knee] == pytest.approx(stiffness, rel=1e-4)
    assert builder.joint_target_kd[knee] == pytest.approx(1.4 * math.sqrt(stiffness * inertia), rel=1e-4)


@pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")
def test_similar_robots_give_alike(tmp_path: Path):
    """Torques of the weight go with the fourth power of the size, and so do the gains."""
    small, large = (built(tmp_path / "pup.urdf", scale)[1] for scale in (0.5, 2.0))
    ratio = np.array(large.joint_target_ke) / np.array(small.joint_target_ke)
    np.testing.assert_allclose(ratio, 4.0**4, rtol=1e-4)
    # a damping is a torque times a time, which goes with the square root of the size
    ratio = np.array(large.joint_target_kd) / np.array(small.joint_target_kd)
    np.testing.assert_allclose(ratio, 4.0**4.5, rtol=1e-4)


def test_heavy_rears_have_stiffer_legs(tmp_path: Path):
    """The lever rule, with limbs that are bent backward, and with a trunk whose mass is 8 cm behind."""
    path = tmp_path / "rear.urdf"
    middle = '<origin xyz="0.0 0.0 0.0"/><mass value="4.0"/>'
    assert quadruped().count(middle) == 1
    gains = []
    for text in (quadruped(), quadruped().replace(middle, middle.replace("0.0 0.0 0.0", "-0.08 0.0 0.0"))):
        path.write_text(text)
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        robot = Robot(str(path), "trunk", feet="*_lower", home=HOME)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DefaultsWarning)
            BuiltRobot(robot, builder, self_collisions=False)
        knees = [builder.joint_axis_start[builder.joint_key.index(f"{leg}_knee")] for leg in ("fl", "rl")]
        gains.append([builder.joint_target_ke[axis] for axis in knees])
    total = MASSES["trunk"] + 4.0 * (MASSES["upper"] + MASSES["lower"])
    limbs = 4.0 * (MASSES["upper"] + MASSES["lower"]) * 0.5 * LENGTH * math.sin(HIP)
    # feet are below the hips, 0.15 m before and behind the middle
    (front, rear), (front_then, rear_then) = gains
    behind = [(limbs + 0.08 * trunk) / total / 0.15 for trunk in (0.0, MASSES["trunk"])]
    assert rear / front == pytest.approx(1.0 + behind[0], rel=1e-3)
    assert rear_then / front == pytest.approx(1.0 + behind[1], rel=1e-3)
    # in a walk the others carry their share, too
    assert front_then == pytest.approx(front)


def test_limbs_without_feet_swing_at_their_frequency():
    """Of the arm: the inertias of its joints are the diagonal of MuJoCo's M(q)."""
    path = str(asset_path("zoo/fr3_like.xml"))
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    robot = BuiltRobot(Robot(path, "hand", joints="joint?", keyframe="home", floating=False), builder, False)
    model = mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    inertia = np.diag(full)[:7]
    joints = [builder.joint_key.index(name) for name in robot.joints]
    gains = np.array(HomePose(builder).gains(joints, [], []))
    np.testing.assert_allclose(gains[:, 0], inertia * (6.0 * math.pi) ** 2, rtol=1e-4)
    np.testing.assert_allclose(gains[:, 1], 1.4 * np.sqrt(gains[:, 0] * inertia), rtol=1e-4)


@pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_robots_of_all_sizes_stand_on_them(scale: float, tmp_path: Path):
    """With targets at home they sink by less than a sixth of their height, and do not fall."""
    path = tmp_path / "pup.urdf"
    path.write_text(quadruped(scale))
    options: dict[str, Any] = {"robot": str(path), "base": "trunk", "feet": "*_lower", "home": HOME}
    env = envs.make("Velocity", 2, "cpu", threads=1, reset_noise_scale=0.0, **options)
    env.reset(seed=0)
    for _ in range(150):
        _, _, terminated, *_ = env.step(np.zeros(env.action_space.shape, np.float32))
        assert not terminated.any()
    heights = env.sim.state.body_q.numpy().reshape(2, -1, 7)[:, 0, 2]
    assert np.all(heights > 5.0 / 6.0 * scale * HEIGHT)
    assert np.abs(env.sim.state.joint_qd.numpy()).max() < 0.05


@pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")
def test_the_camera_is_as_far_away_as_suits_the_robot(tmp_path: Path):
    """It sees robots of one shape at the same angles, whatever their size; that of the zoo is as it was."""
    path, found = tmp_path / "pup.urdf", []
    for scale in (0.5, 2.0):
        path.write_text(quadruped(scale))
        options: dict[str, Any] = {"robot": str(path), "base": "trunk", "feet": "*_lower", "home": HOME}
        env = envs.make("Velocity", 1, "cpu", **options)
        found.append(np.array(env.task.camera_pose()))
    np.testing.assert_allclose(found[1], 4.0 * found[0], rtol=1e-4)
    usual = envs.make("Velocity", 1, "cpu").task
    np.testing.assert_allclose(usual.camera_pose(), (usual.camera_eye, usual.camera_target), rtol=5e-3)


def test_gains_and_home_are_told_unless_they_are_given(tmp_path: Path):
    with pytest.warns(DefaultsWarning) as told:
        built(tmp_path / "pup.urdf", home={})
    assert "pup.urdf: joints whose limits exclude 0 start at a limit" in str(told[1].message)
    assert "fl_knee at -0.3 of -2.4 to -0.3; fr_knee at" in str(told[1].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DefaultsWarning)
        _, builder = built(tmp_path / "pup.urdf", stiffness=20.0, damping={"*_hip": 0.5, "*_knee": 0.2})
    assert set(builder.joint_target_ke) == {20.0}
    assert builder.joint_target_kd == [0.5, 0.2] * 4
    # one of them alone leaves the other to the masses
    with pytest.warns(DefaultsWarning, match=r"stiffness 20 \[N m/rad or N/m\], damping 0"):
        built(tmp_path / "pup.urdf", stiffness=20.0)


def test_a_home_beyond_limits_is_refused(tmp_path: Path):
    with pytest.raises(
        NewtonsimError, match=r"home: 'fl_knee': expected a value within its limits, -2\.4 to -0\.3, got 0\.5"
    ):
        built(tmp_path / "pup.urdf", home={"*_knee": 0.5})
    with pytest.raises(NewtonsimError, match=r"'fr_knee': .*, got 0\.5 from '\*_knee'"):
        built(tmp_path / "pup.urdf", home={"*_knee": 0.5, "fl_knee": -1.0})


@pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")
def test_the_last_pattern_of_home_that_names_a_joint_counts(tmp_path: Path):
    """Also where the angle of an earlier one would be beyond the limits of this joint."""
    home = {"*": -1.0, "*_hip": 0.4, "fr_hip": 0.2}
    _, builder = built(tmp_path / "pup.urdf", home=home)
    assert builder.joint_act == pytest.approx([0.4, -1.0, 0.2, -1.0, 0.4, -1.0, 0.4, -1.0])


@pytest.mark.filterwarnings("ignore::newtonsim.errors.DefaultsWarning")
def test_actions_have_the_scale_of_the_task_unless_the_robot_has_one(tmp_path: Path):
    """Legs shift by half a radian from home, the targets of arms move by a twentieth in a step."""
    path = tmp_path / "pup.urdf"
    path.write_text(quadruped())
    legs: dict[str, Any] = {"robot": str(path), "base": "trunk", "feet": "*_lower", "home": HOME}
    arm = {"robot": str(asset_path("zoo/fr3_like.xml")), "base": "hand", "joints": "joint?"}
    scaled = {**legs, "action_scale": {"*_knee": 0.3}}
    for name, options, scale in (
        ("Velocity", legs, [0.5] * 8),
        ("Velocity", scaled, [0.5, 0.3] * 4),
        ("Reach", arm, [0.05] * 7),
    ):
        env = envs.make(name, 1, "cpu", threads=1, **options)
        assert env.task.built.scale == scale
        env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stiffness": -3.0}, "stiffness: expected a positive number, got -3.0"),
        ({"stiffness": {"*_calf": "high"}}, r"stiffness of '\*_calf': expected a positive number"),
        ({"damping": -1.0}, "damping: expected a positive number"),
        ({"action_scale": math.nan}, "action_scale: expected a positive number, got nan"),
        ({"height": -1.0}, "height: expected a positive number"),
        ({"sole_height": -1.0}, "sole_height: expected a positive number"),
        ({"max_sideways": -1.0}, "max_sideways: expected a positive number"),
        ({"command_seconds": 0.0}, "command_seconds: expected a positive number"),
        ({"still": 2.0}, "still: expected a share from 0 to 1"),
        ({"base": "*_calf"}, r"base: '\*_calf' names several bodies: fl_calf, fr_calf"),
    ],
)
def test_options_that_no_robot_has_are_refused(options: dict, message: str):
    with pytest.raises(NewtonsimError, match=message):
        envs.make("Velocity", 1, "cpu", **options)
