"""The hand that turns a cube: rewards in NumPy, cubes that fall, starts, and fingers that turn it."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim import envs
from newtonsim.errors import NewtonsimError

STEP = 0.05
"""Time of a step of the environment [s]."""


class Turning:
    """An environment without a time limit."""

    def __init__(self, worlds: int, seed: int = 3, **options: object):
        self.env = envs.make("TurnInHand", worlds, "cpu", threads=1, max_episode_steps=0, **options)
        self.env.reset(seed=seed)
        self.home = np.array(self.env.task.built.home)

    def still(self) -> np.ndarray:
        """Return actions that do nothing."""
        return np.zeros((self.env.num_envs, 16), np.float32)

    def of_worlds(self, name: str) -> np.ndarray:
        """Return a flat array of the state with one row for each world."""
        return getattr(self.env.sim.state, name).numpy().reshape(self.env.num_envs, -1)

    def cube(self) -> np.ndarray:
        """Return the cube's poses, (n, 7)."""
        at = 7 * self.env.model.body_key.index("cube")
        return self.of_worlds("body_q")[:, at : at + 7].astype(float)

    def cube_velocity(self) -> np.ndarray:
        """Return the cube's (ω, v), (n, 6)."""
        at = 6 * self.env.model.body_key.index("cube")
        return self.of_worlds("body_qd")[:, at : at + 6].astype(float)


def test_the_cube_lies_in_the_hand_until_it_is_moved():
    """For five seconds, in every world, on the palm whose normal is up."""
    t = Turning(16)
    palm = t.of_worlds("body_q")[0, :7].astype(float)
    np.testing.assert_allclose(Rotation.from_quat(palm[3:]).apply([1.0, 0.0, 0.0]), [0, 0, 1], atol=1e-6)
    before = t.cube()
    for _ in range(100):
        assert not t.env.step(t.still())[2].any()
    after = t.cube()
    # from the surface of the palm's box, which is 11.1 mm above its origin
    np.testing.assert_allclose(after[:, 2] - palm[2], 0.0111 + 0.0225, atol=5e-4)
    assert np.abs(after[:, :2] - before[:, :2]).max() < 1e-3
    assert np.abs(t.cube_velocity()).max() < 1e-2


def test_starts_vary_within_their_ranges():
    t = Turning(256, offset=0.005, cube_turn=0.3)
    pose = t.cube()
    rest = np.array([0.0145, 0.0, 0.25 + 0.0338])  # the palm is turned from x to z
    off = pose[:, :3] - rest
    assert np.abs(off[:, :2]).max() <= 0.005 + 1e-6
    assert np.ptp(off[:, :2], axis=0).min() > 0.009
    np.testing.assert_allclose(off[:, 2], 0.0, atol=1e-6)
    turn = Rotation.from_quat(pose[:, 3:]).as_rotvec()
    np.testing.assert_allclose(turn[:, :2], 0.0, atol=1e-6)
    assert np.abs(turn[:, 2]).max() <= 0.3 + 1e-6
    assert np.ptp(turn[:, 2]) > 0.55
    joints = t.of_worlds("joint_q")[:, :16] - t.home
    assert np.abs(joints).max() <= 0.02 + 1e-6
    assert np.ptp(joints, axis=0).min() > 0.035


def test_rewards_of_random_states():
    """Written down in NumPy, of cubes in the air that turn, move and fall, and fingers that move."""
    t = Turning(256)
    newtonsim.View(t.env.sim).gravity = (0.0, 0.0, 0.0)
    rng = np.random.default_rng(0)
    q, qd = t.of_worlds("joint_q"), t.of_worlds("joint_qd")
    q[:, :16] = t.home + rng.uniform(-0.1, 0.1, (256, 16))
    # high above the hand, or behind it and below
    down = rng.uniform(size=256) < 0.3
    q[:, 16:19] = np.where(down[:, None], [0.5, 0.0, 0.1], [0.0, 0.0, 0.6])
    qd[:, 16:19] = [0.0, 0.0, 1.0] * rng.uniform(-1.0, 1.0, (256, 1))
    qd[:, 19:] = rng.uniform(-0.3, 0.3, (256, 3))
    action = rng.uniform(-1.0, 1.0, (256, 16)).astype(np.float32)
    _, reward, terminated, *_ = t.env.step(action)
    np.testing.assert_array_equal(terminated, down)
    # worlds that have ended begin anew at once: their states are those of a start
    v = t.cube_velocity()
    joints, rates = t.of_worlds("joint_q")[:, :16], t.of_worlds("joint_qd")[:, :16]
    assert np.any(np.abs(v[~down, 2]) > 0.5)
    assert np.any(np.abs(v[~down, 2]) < 0.5)
    efforts = t.env.sensor("drives")[:, 32:]
    expected = 2.0 * np.clip(v[:, 2], -0.5, 0.5) - 2.0 * (v[:, 3:] ** 2).sum(axis=1)
    expected -= 0.1 * (efforts**2).sum(axis=1) + 0.02 * ((joints - t.home) ** 2).sum(axis=1)
    np.testing.assert_allclose(reward[~down] / STEP, expected[~down], atol=2e-4)
    # drives of 3 N m/rad and 0.05 N m s/rad at the targets that the actions moved, up to 0.7 N m
    target = np.clip(t.home + 0.1 * action, t.env.task.built.lower, t.env.task.built.upper)
    torque = np.clip(3.0 * (target - joints) - 0.05 * rates, -0.7, 0.7)
    np.testing.assert_allclose(efforts[~down], torque[~down], atol=0.01)
    # a cube that falls costs 200 for one step, less than 5 for all else
    assert np.all(np.abs(reward[down] / STEP + 200.0) < 5.0)


def test_a_cube_that_falls_ends_the_episode():
    """Pushed off the palm to the side it falls freely, and the episode ends 5 cm below the palm's origin."""
    t = Turning(4)
    t.of_worlds("joint_q")[1, 16:18] = (0.05, -0.15)
    ended = []
    for step in range(12):
        _, reward, terminated, *_ = t.env.step(t.still())
        ended += [(step, w) for w in np.flatnonzero(terminated)]
        if ended:
            break
    # √(2 (0.0338 + 0.05) / g) = 0.131 s
    assert ended == [(2, 1)]
    assert reward[1] < -9.0 < reward[0]


def test_observations_are_those_of_hand_and_cube():
    t = Turning(8)
    rng = np.random.default_rng(1)
    target = np.tile(t.home, (8, 1))
    for _ in range(4):
        action = rng.uniform(-1.0, 1.0, (8, 16)).astype(np.float32)
        obs = t.env.step(action)[0]
        target = np.clip(target + 0.1 * action, t.env.task.built.lower, t.env.task.built.upper)
    assert t.env.task.term_names()["observations"] == [
        "angles",
        "rates",
        "targets",
        "cube",
        "cube_axes",
        "cube_velocity",
        "cube_spin",
    ]
    pose, v = t.cube(), t.cube_velocity()
    turn = Rotation.from_quat(pose[:, 3:])
    expected = [
        t.of_worlds("joint_q")[:, :16] - t.home,
        t.of_worlds("joint_qd")[:, :16],
        target - t.home,
        pose[:, :3] - [0.0145, 0.0, 0.2838],
        turn.as_matrix().reshape(8, 9),
        turn.inv().apply(v[:, 3:]),
        turn.inv().apply(v[:, :3]),
    ]
    np.testing.assert_allclose(obs, np.concatenate(expected, axis=1), atol=1e-5)


def test_a_base_that_is_not_fixed_is_refused():
    with pytest.raises(NewtonsimError, match="base: expected a body that is fixed to the world"):
        envs.make("TurnInHand", 1, "cpu", base="first_distal")


GAIT = 0.01 * np.array(
    [
        [-7, 86, 133, 115, -16, 34, 105, 102, 7, 110, 95, 80, 112, 24, 35, 41],
        [-30, -6, 19, 12, 17, -31, 5, -11, 3, -13, -20, 13, 11, 21, -7, 6],
        [9, 44, 7, -12, -40, 21, -6, -21, -15, -2, -2, -3, -12, 18, -5, 3],
    ]
)
"""Middle, and parts with sine and cosine of 5 rad/s, of the angles of the joints [rad].

The first finger pushes one side of the cube while the second one makes way, and comes back above the cube.
"""


def test_a_gait_turns_the_cube_on_and_on():
    """Fingers that move by a clock turn it by more than a radian in six seconds, which earns something."""
    earned, turned = {}, {}
    for name in ("gait", "rest"):
        t = Turning(16, seed=11)
        target = np.tile(t.home, (16, 1))
        total, angle = np.zeros(16), np.zeros(16)
        for step in range(120):
            wave = np.array([1.0, np.sin(5.0 * STEP * step), np.cos(5.0 * STEP * step)])
            action = np.clip((wave @ GAIT - target) / 0.1, -1.0, 1.0) * (name == "gait")
            target = np.clip(target + 0.1 * action, t.env.task.built.lower, t.env.task.built.upper)
            _, reward, terminated, *_ = t.env.step(action.astype(np.float32))
            assert not terminated.any()
            total += reward
            spin = t.cube_velocity()[:, 2]
            np.testing.assert_allclose(t.env.metrics()["turning"].values, spin, atol=1e-5)
            angle += STEP * spin
        earned[name], turned[name] = total, angle
    assert np.abs(turned["rest"]).max() < 0.02
    assert np.median(turned["gait"]) > 1.0
    assert turned["gait"].min() > 0.1
    assert np.median(earned["gait"]) > np.median(earned["rest"]) + 0.3


def test_a_policy_finds_the_cube_by_chance():
    """Fingers begin beside it: noise as at the start of training turns it either way; it does not fall."""
    t = Turning(64, seed=5)
    rng, angle = np.random.default_rng(0), np.zeros(64)
    for _ in range(60):
        action = np.clip(0.5 * rng.standard_normal((64, 16)), -1.0, 1.0)
        _, _, terminated, *_ = t.env.step(action.astype(np.float32))
        assert not terminated.any()
        angle += STEP * t.cube_velocity()[:, 2]
    # 0.03 with fingers that are stretched at first, which did not learn
    assert angle.std() > 0.12
    assert min((angle > 0.1).sum(), (angle < -0.1).sum()) > 5


def hand_file(folder, fixed: bool = True, bends: tuple[float, float] = (-1.5, 1.5)) -> str:
    """Write a hand of two fingers of two links on a palm, as a URDF file without gains; return its path.

    The palm, a box, is fixed to a wrist, and its normal is -y.
    """

    def link(name: str, mass: float, size: str, at: str) -> str:
        shape = f'<origin xyz="{at}"/><geometry><box size="{size}"/></geometry>'
        inertia = '<inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/>'
        return (
            f'<link name="{name}"><inertial><origin xyz="{at}"/><mass value="{mass}"/>{inertia}</inertial>'
            f"<collision>{shape}</collision></link>"
        )

    def joint(name: str, kind: str, parent: str, child: str, at: str) -> str:
        return (
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{at}" rpy="0 0 0"/><axis xyz="1 0 0"/>'
            f'<limit lower="{bends[0]}" upper="{bends[1]}" effort="2" velocity="10"/></joint>'
        )

    parts = [
        link("wrist", 0.2, "0.05 0.04 0.04", "0 0 0"),
        link("palm", 0.3, "0.08 0.02 0.1", "0 0 0.05"),
        joint("mount", "fixed" if fixed else "revolute", "wrist", "palm", "0.01 0 0.02"),
    ]
    for side, x in (("left", 0.03), ("right", -0.03)):
        parts += [
            link(f"{side}_low", 0.02, "0.015 0.015 0.05", "0 0 0.025"),
            link(f"{side}_high", 0.01, "0.015 0.015 0.04", "0 0 0.02"),
            joint(f"{side}_root", "revolute", "palm", f"{side}_low", f"{x} 0 0.1"),
            joint(f"{side}_middle", "revolute", f"{side}_low", f"{side}_high", "0 0 0.05"),
        ]
    path = folder / "hand.urdf"
    path.write_text("\n".join(['<robot name="own">', *parts, "</robot>"]))
    return str(path)


def test_a_hand_of_a_file_holds_the_cube(tmp_path):
    """Its palm is upwards, 0.25 m above the ground, and the cube lies between its middle and the fingers."""
    env = envs.make(
        "TurnInHand", 8, "cpu", robot=hand_file(tmp_path), base="palm", palm=(0.0, -2.0, 0.0), offset=0.0
    )
    env.reset(seed=0)
    names = env.model.body_key
    poses = env.sim.state.body_q.numpy().reshape(8, -1, 7).astype(float)
    palm, cube = poses[0, names.index("palm")], poses[0, names.index("cube")]
    np.testing.assert_allclose(Rotation.from_quat(palm[3:]).apply([0.0, -1.0, 0.0]), [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(palm[:3], [0.0, 0.0, 0.25], atol=1e-6)
    # the middle of the palm is at z = 0.05, the fingers begin at 0.1; a cube of 45 mm on a palm of 20 mm
    rest = Rotation.from_quat(palm[3:]).inv().apply(cube[:3] - palm[:3])
    np.testing.assert_allclose(rest, [0.0, -(0.01 + 0.0225), 0.075], atol=1e-5)
    still = np.zeros(env.action_space.shape, np.float32)
    assert not any(env.step(still)[2].any() for _ in range(60))
    after = env.sim.state.body_q.numpy().reshape(8, -1, 7)
    assert np.abs(after[:, names.index("cube"), :3] - poses[:, names.index("cube"), :3]).max() < 1e-3
    # the fingers, stretched and level, bear their weight and could bear the cube
    low = env.sim.state.joint_q.numpy().reshape(8, -1)[:, :4]
    assert 0.0 < np.abs(low).max() < 0.1


def test_gains_of_hands_bear_what_they_carry(tmp_path):
    """With the cube at the end of a finger, each joint gives by the angle that the page says."""
    env = envs.make("TurnInHand", 1, "cpu", robot=hand_file(tmp_path), base="palm", palm=(0, -1, 0), mass=0.3)
    stiffness = dict(zip(env.task.built.joints, env.model.joint_target_ke.numpy()[env.task.built.axes]))
    # weights in kg, and their distances from the axes in m; the ends of the links are 0.09 and 0.04 m away
    root = 9.81 * (0.02 * 0.025 + 0.01 * 0.07 + 0.3 * 0.09)
    middle = 9.81 * (0.01 * 0.02 + 0.3 * 0.04)
    np.testing.assert_allclose(stiffness["left_root"], root / 0.1, rtol=1e-4)
    np.testing.assert_allclose(stiffness["right_middle"], middle / 0.1, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"base: unknown for .*hand.urdf.*there are 'wrist', 'palm', 'left_low', 'left_high'"),
        ({"base": "palm"}, "palm: unknown; give the normal of the palm in the frame of 'palm'"),
        ({"base": "palm", "palm": (0.0, 0.0, 0.0)}, r"palm: \(0.0, 0.0, 0.0\) is no direction"),
        ({"base": "palm", "palm": "up"}, "palm: 'up' is no direction"),
        ({"base": "left_low", "palm": (0, -1, 0)}, "base: expected a body that is fixed to the world"),
    ],
)
def test_hands_that_are_not_described_are_refused(tmp_path, options: dict, message: str):
    with pytest.raises(NewtonsimError, match=message):
        envs.make("TurnInHand", 1, "cpu", robot=hand_file(tmp_path), **options)


@pytest.mark.parametrize("palm", [(0, 1, 0), (1, 0, 0), (0, 0, 1), (0, 0, -1)])
def test_a_palm_is_where_fingers_bend_to(tmp_path, palm: tuple):
    """About x by up to 1.5 rad the fingers, along z, bend to -y, which leaves no other side for a palm."""
    options = {"robot": hand_file(tmp_path, bends=(-0.1, 1.5)), "base": "palm"}
    with pytest.raises(NewtonsimError, match=r"its fingers bend towards \(0.0, -1.0, -0.0\d\)"):
        envs.make("TurnInHand", 1, "cpu", **options, palm=palm)
    with pytest.raises(NewtonsimError, match=r"palm: unknown.*bend towards \(0.0, -1.0, "):
        envs.make("TurnInHand", 1, "cpu", **options)
    # up to 50 degrees off
    envs.make("TurnInHand", 1, "cpu", **options, palm=(0, -1, 1)).close()


def test_a_base_without_shapes_needs_a_place_of_rest(tmp_path):
    path = tmp_path / "hand.xml"
    path.write_text(
        '<mujoco><worldbody><body name="palm"><inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/>'
        '<body name="finger" pos="0.1 0 0"><joint name="bend" axis="0 1 0" range="-90 90"/>'
        '<geom size=".02 .02 .05" type="box"/></body></body></worldbody></mujoco>'
    )
    options = {"robot": str(path), "base": "palm", "palm": (0, 0, 1)}
    with pytest.raises(NewtonsimError, match="rest: 'palm', the base, has no shapes that collide"):
        envs.make("TurnInHand", 1, "cpu", **options)
    env = envs.make("TurnInHand", 1, "cpu", **options, rest=(0.0, 0.0, 0.1))
    assert env.reset(seed=0)[0].shape == (1, 3 + 18)
