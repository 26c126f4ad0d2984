"""Walking by a clock: its terms against NumPy, drives that actions do not move, and what is refused."""

from typing import Any

import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation
from small_biped import BIPED

from newtonsim import envs
from newtonsim.envs.terms import library
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs.terms import gait

WORLDS, DT, PERIOD, AIR, LIFT = 2, 0.02, 0.6, 0.35, 0.1
CLOCK = {"period": PERIOD, "air": AIR, "lift": LIFT}
LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
SWING = {"hip_pitch": -0.35, "knee": 0.7, "ankle_pitch": -0.35}


def make(command: tuple[float, float, float] = (0.5, 0.0, 0.0), **options: Any) -> envs.BatchedEnv:
    """Return worlds with one command, which start at home."""
    events = {"command": {"low": command, "high": command}}
    more = {"events": events, "reset_noise_scale": 0.0, **CLOCK, **options}
    return envs.make("VelocityBiped", WORLDS, "cpu", threads=1, **more)


def lifts(step: int, first: int) -> np.ndarray:
    """Return how high the clock lifts both feet, relative to the highest, if a foot is the first."""
    cycle = (step * DT / PERIOD + 0.5 * ((np.arange(2) + first) % 2)) % 1.0
    return np.where(cycle < AIR, np.sin(np.pi * cycle / AIR) ** 2, 0.0)


def targets(env: envs.BatchedEnv) -> dict[str, np.ndarray]:
    """Return the targets of the drives of all worlds by names of joints."""
    view = env.buffers.view
    every = view.joint_act.numpy().reshape(WORLDS, -1)
    names = [n for n in env.model.joint_key[: len(env.model.joint_key) // WORLDS] if n != "root"]
    assert len(names) == every.shape[1] == 29
    return dict(zip(names, every.T))


def home_of(name: str) -> float:
    """Return the angle of a joint in the keyframe of the file [rad]."""
    part = name.split("_", 1)[1]
    sign = -1.0 if name.startswith("right") else 1.0
    angles = {"hip_pitch": -0.2, "knee": 0.4, "ankle_pitch": -0.2, "shoulder_pitch": 0.2, "elbow": 0.9}
    return sign * 0.2 if part == "shoulder_roll" else angles.get(part, 0.0)


def test_the_clock_lifts_the_legs_in_turn_and_actions_add_to_it():
    env = make(ends={"low": None, "tilted": None})
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    seen = np.zeros(2)
    for step in range(1, 41):
        action = rng.uniform(-0.3, 0.3, env.action_space.shape).astype(np.float32)
        obs, *_ = env.step(action)
        lift = lifts(step, 0)
        seen = np.maximum(seen, lift)
        found = targets(env)
        for k, name in enumerate(f"{side}_{part}" for side in ("left", "right") for part in LEG):
            shift = SWING.get(name.split("_", 1)[1], 0.0) * lift[k // 6]
            expected = home_of(name) + shift + 0.25 * action[:, k]
            np.testing.assert_allclose(found[name], expected, atol=1e-5, err_msg=name)
        angle = 2.0 * np.pi * step * DT / PERIOD
        np.testing.assert_allclose(obs[:, -2:], [[np.sin(angle), np.cos(angle)]] * WORLDS, atol=1e-4)
    assert np.all(seen > 0.98)


def test_every_other_episode_begins_with_the_other_foot():
    env = make()
    env.reset(seed=0)
    env.reset(options={"reset_mask": np.array([True, False])})
    obs, *_ = env.step(np.zeros(env.action_space.shape, np.float32))
    np.testing.assert_allclose(obs[0, -2:], -obs[1, -2:], atol=1e-5)
    knees = targets(env)["left_knee"], targets(env)["right_knee"]
    np.testing.assert_allclose(knees[0] - 0.4, 0.7 * np.array([lifts(1, 1)[0], lifts(1, 0)[0]]), atol=1e-5)
    np.testing.assert_allclose(knees[1] - 0.4, 0.7 * np.array([lifts(1, 1)[1], lifts(1, 0)[1]]), atol=1e-5)


def test_a_robot_that_is_to_stand_keeps_both_feet_on_the_ground():
    env = make((0.05, 0.0, 0.05))
    env.reset(seed=0)
    for _ in range(30):
        obs, _, terminated, *_ = env.step(np.zeros(env.action_space.shape, np.float32))
        assert not terminated.any()
    np.testing.assert_array_equal(obs[:, -2:], 0.0)
    for name, target in targets(env).items():
        np.testing.assert_allclose(target, home_of(name), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["Velocity", "GetUp"])
def test_drives_that_actions_do_not_move_hold_their_joints_at_home(name: str):
    """Arms bent at home stay bent while the legs alone are driven."""
    legs = ("*_hip_*", "*_knee", "*_ankle_*")
    env = envs.make(name, WORLDS, "cpu", threads=1, robot="g1_like", joints=legs, height=0.7752)
    env.reset(seed=0)
    assert env.single_action_space.shape == (12,)
    for _ in range(5):
        env.step(np.zeros(env.action_space.shape, np.float32))
    found = targets(env)
    for joint in ("left_shoulder_pitch", "left_shoulder_roll", "right_shoulder_roll", "right_elbow"):
        np.testing.assert_allclose(found[joint], home_of(joint), atol=1e-6, err_msg=joint)


def test_held_arms_stay_where_they_were():
    env = make(height=3.0, ends={"low": None})
    env.reset(seed=0)
    for _ in range(25):
        env.step(np.zeros(env.action_space.shape, np.float32))
    q = env.sim.state.joint_q.numpy().reshape(WORLDS, -1)[:, 7:]
    names = [n for n in env.model.joint_key[: len(env.model.joint_key) // WORLDS] if n != "root"]
    for joint in ("left_elbow", "right_elbow", "left_shoulder_pitch", "right_shoulder_roll"):
        assert np.abs(q[:, names.index(joint)] - home_of(joint)).max() < 0.1, joint


def test_feet_earn_by_the_heights_that_the_clock_asks_for():
    others = {name: None for name in make().task.term_names()["rewards"] if name != "lift_feet"}
    env = make(rewards=others)
    env.reset(seed=0)
    feet = [env.model.body_key.index(f"{side}_foot") for side in ("left", "right")]
    earned = []
    for step in range(1, 31):
        _, reward, terminated, *_ = env.step(np.zeros(env.action_space.shape, np.float32))
        if terminated.any():
            break
        poses = env.sim.state.body_q.numpy()[feet]
        heights = poses[:, 2] + Rotation.from_quat(poses[:, 3:]).apply([0.03, 0.0, -0.035])[:, 2] - 0.015
        error = heights - LIFT * lifts(step, 0)
        earned.append(np.exp(-(error**2).sum() / 0.003))
        assert reward[0] == pytest.approx(DT * earned[-1], abs=1e-5)
    assert len(earned) > 20
    assert max(earned) > 0.8
    assert min(earned) < 0.5


def test_joints_that_the_clock_does_not_move_cost_their_distance_from_home():
    others = {name: None for name in make().task.term_names()["rewards"] if name != "spreading"}
    env = make(rewards=others)
    env.reset(seed=0)
    action = np.random.default_rng(1).uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
    for _ in range(3):
        _, reward, *_ = env.step(action)
    q = env.sim.state.joint_q.numpy().reshape(WORLDS, -1)[:, 7:19].reshape(WORLDS, 2, 6)
    np.testing.assert_allclose(reward, -DT * (q[:, :, [1, 2, 5]] ** 2).sum(axis=(1, 2)), atol=1e-6)
    assert reward.max() < -1e-4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"period": 0.0}, "VelocityBiped: period: expected a number above 0, got 0"),
        ({"air": 1.0}, "VelocityBiped: air: expected a number above 0 and below 1, got 1"),
        ({"lift": -0.1}, "VelocityBiped: lift: expected a number above 0, got -0.1"),
        ({"robot": "go2_like"}, "VelocityBiped: swing: unknown for .*go2_like.xml; give the shifts"),
        ({"robot": "go2_like", "swing": {"*_knee": 0.5}}, "VelocityBiped: feet: expected two, got 4"),
        ({"swing": {"*_nee": 0.5}}, r"'\*_nee' matches no joints of one axis"),
    ],
)
def test_gaits_that_cannot_be_are_refused(options: dict[str, Any], words: str):
    with pytest.raises(NewtonsimError, match=words):
        envs.make("VelocityBiped", 1, "cpu", **options)


def test_any_urdf_steps_by_naming_its_legs(tmp_path: Any):
    path = tmp_path / "biped.urdf"
    path.write_text(BIPED)
    parts = {"base": "body", "feet": "?_leg", "height": 0.43, "stiffness": 80.0, "damping": 4.0}
    env = make(robot=str(path), swing={"?_hip": -0.3}, action_scale=0.5, **parts)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (WORLDS, 12 + 3 * 2 + 2)
    action = np.array([[0.2, -0.1]] * WORLDS, np.float32)
    for step in range(1, 10):
        env.step(action)
        drives = env.buffers.view.joint_act.numpy().reshape(WORLDS, 2)
        np.testing.assert_allclose(drives, 0.5 * action - 0.3 * lifts(step, 0), atol=1e-5)


HIP = """
  <body name="{0}_thigh" pos="0 {1} -.1">
    <joint name="{0}_hip_x" axis="1 0 0" range="-.5 .5"/>
    <joint name="{0}_hip_z" axis="0 0 1" range="-.5 .5"/>
    <joint name="{0}_hip_y" axis="0 1 0" range="-1.5 1.5"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".04" mass="1.5"/>
    <body name="{0}_foot" pos="0 0 -.3">
      <joint name="{0}_knee" axis="0 1 0" range="0 2"/>
      <geom type="box" pos=".03 0 -.3" size=".1 .05 .02" mass="1"/>
    </body>
  </body>"""
BALLOON = f"""<mujoco>
  <compiler angle="radian"/>
  <worldbody><body name="torso" pos="0 0 1.23">
    <freejoint name="root"/> <geom type="box" size=".1 .15 .15" mass="5"/>
    <body name="pelvis" pos="0 0 -.4"> <geom type="box" size=".1 .15 .05" mass="3"/>
    {HIP.format("left", 0.1)} {HIP.format("right", -0.1)} </body>
  </body></worldbody>
</mujoco>"""


def test_hips_of_several_hinges_have_a_joint_for_each(tmp_path: Any):
    """As most humanoids of MuJoCo have them; the base need not be the body that floats."""
    path = tmp_path / "biped.xml"
    path.write_text(BALLOON)
    legs = ("*_hip_?", "*_knee")
    parts = {"base": "pelvis", "feet": "*_foot", "joints": legs, "home": {"*_hip_y": -0.2, "*_knee": 0.4}}
    env = make(robot=str(path), swing={"*_hip_y": -0.3, "*_knee": 0.6}, action_scale=0.5, **parts)
    env.reset(seed=0)
    names = [f"{side}_{joint}" for side in ("left", "right") for joint in ("hip_x", "hip_z", "hip_y", "knee")]
    assert list(env.task.built.joints) == names
    assert env.task.standing == pytest.approx(env.sim.state.body_q.numpy()[1, 2])
    action = np.random.default_rng(0).uniform(-0.1, 0.1, (WORLDS, 8)).astype(np.float32)
    home, swing = np.tile([0.0, 0.0, -0.2, 0.4], 2), np.array([0.0, 0.0, -0.3, 0.6])
    for step in range(1, 6):
        _, _, terminated, *_ = env.step(action)
        assert not terminated.any()
        drives = env.buffers.view.joint_act.numpy().reshape(WORLDS, 8)
        shifts = np.outer(lifts(step, 0), swing).ravel()
        np.testing.assert_allclose(drives, home + 0.5 * action + shifts, atol=1e-5)
    # turning about x and z changes its sign in a mirror at y = 0
    assert env.symmetry().actions.places() == [-5, -6, 7, 8, -1, -2, 3, 4]


def test_the_clock_lifts_only_joints_of_legs():
    with pytest.raises(NewtonsimError, match="swing: 'waist_yaw' does not belong to one leg"):
        make(joints="*", swing={"waist_yaw": 0.1})


def test_every_term_of_the_clock_is_in_the_library():
    there = {value for value in vars(gait).values() if isinstance(value, wp.Kernel)}
    known = {library.OBSERVATIONS["gait"]().kernel, library.REWARDS["lift_feet"]().kernel}
    assert there == known | {library.step([], [], [], 0.8, 0.4).kernel}
