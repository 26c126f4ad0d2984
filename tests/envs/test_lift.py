"""The arm that lifts a cube: its hand moves as actions say, and a script succeeds with them."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.examples import asset_path
from newtonsim.scene.enums import JointType

TIP = np.array([0.0, 0.0, 0.1034])
GANTRY = """
<mujoco>
  <default>
    <position kp="4000" kv="200"/>
    <joint damping="1" armature="0.1"/>
  </default>
  <worldbody>
    <body name="beam" pos="0.4 0 0.6" euler="0 0 0.5">
      <joint name="joint1" type="slide" axis="1 0 0" range="-1 1"/>
      <geom type="box" size="0.05 0.05 0.05" mass="1"/>
      <body name="carriage">
        <joint name="joint2" type="slide" axis="0 1 0" range="-1 1"/>
        <geom type="box" size="0.04 0.04 0.04" mass="1"/>
        <body name="hand" euler="3.14159265 0 0">
          <joint name="joint3" type="slide" axis="0 0 1" range="-1 1"/>
          <geom type="box" size="0.03 0.03 0.03" mass="1"/>
          <body name="left" pos="0 0 0.06">
            <joint name="left_finger" type="slide" axis="0 1 0" range="0 0.04"/>
            <geom type="box" size="0.01 0.005 0.02" pos="0 0.005 0.02" mass="0.05"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="joint1"/> <position joint="joint2"/> <position joint="joint3"/>
    <position joint="left_finger"/>
  </actuator>
</mujoco>
"""


class Hand:
    """The hand of an environment's robots, and what it should grasp."""

    def __init__(self, env: envs.BatchedEnv):
        self.env = env
        self.hand, self.cube = (env.model.body_key.index(name) for name in ("hand", "cube"))

    def pose(self) -> tuple[np.ndarray, Rotation]:
        """Return where the tips are, (n, 3) [m], and how hands are turned."""
        poses = self._bodies()[:, self.hand]
        turn = Rotation.from_quat(poses[:, 3:])
        return poses[:, :3] + turn.apply(TIP), turn

    def cubes(self) -> np.ndarray:
        """Return where the cubes are, (n, 3) [m]."""
        return self._bodies()[:, self.cube, :3]

    def opening(self) -> np.ndarray:
        """Return how far a finger is open, (n,) [m]."""
        return self.env.sim.state.joint_q.numpy().reshape(self.env.num_envs, -1)[:, 7]

    def towards(self, place: np.ndarray, opening: float) -> np.ndarray:
        """Return actions that bring the tips to a place."""
        way = (place - self.pose()[0]) / 0.02
        grip = np.full((len(way), 1), opening)
        return np.concatenate([np.clip(0.35 * way, -1.0, 1.0), grip], axis=1).astype(np.float32)

    def _bodies(self) -> np.ndarray:
        return self.env.sim.state.body_q.numpy().reshape(self.env.num_envs, -1, 7).astype(float)


def make(worlds: int, **options: object) -> tuple[envs.BatchedEnv, Hand, np.ndarray]:
    """Return an environment without a time limit, its hands, and its targets (n, 3) [m]."""
    env = envs.make("Lift", worlds, "cpu", threads=1, max_episode_steps=0, **options)
    env.reset(seed=5)
    return env, Hand(env), env.buffers.view.memory.numpy()[:, :3].astype(float)


def test_a_script_lifts_cubes_to_their_targets():
    """Above the cube, down, close, to the target: within the time of an episode, in every world."""
    env, hand, goal = make(32)
    cube, total = hand.cubes(), np.zeros(32)
    above = cube + np.array([0.0, 0.0, 0.1])
    assert env.task.episode_steps == 100
    for steps, place, opening in ((35, above, 1.0), (15, cube, 1.0), (10, cube, -1.0), (40, goal, -1.0)):
        for _ in range(steps):
            _, reward, *_, infos = env.step(hand.towards(place, opening))
            total += reward
        if opening < 0.0 and place is cube:
            # the fingers are at the cube's faces or edges, which are 20 to 28 mm from its middle
            assert np.all((hand.opening() > 0.019) & (hand.opening() < 0.029))
    assert infos["is_success"].all()
    np.testing.assert_allclose(hand.cubes(), goal, atol=0.01)
    # all of the stages: near, held, and twice 2 - tanh(0) with weights of 6 and 3
    np.testing.assert_allclose(reward / 0.04, 20.0, atol=0.7)
    rest, _, _ = make(32)
    idle = np.sum([rest.step(np.zeros((32, 4), np.float32))[1] for _ in range(100)], axis=0)
    assert total.min() > 100.0 * idle.mean()


def test_hands_move_along_straight_lines_and_point_down():
    """Within the speed that joints follow at."""
    env, hand, _ = make(16, reset_noise_scale=0.0)
    way = np.random.default_rng(0).uniform(-0.25, 0.25, (16, 3))
    way[:, 2] = np.abs(way[:, 2])
    for _ in range(20):  # until the drives follow at an even pace
        env.step(np.zeros((16, 4), np.float32))
    start, before = hand.pose()
    for _ in range(12):
        env.step(np.concatenate([way, np.zeros((16, 1))], axis=1).astype(np.float32))
    for _ in range(20):
        env.step(np.zeros((16, 4), np.float32))
    end, after = hand.pose()
    np.testing.assert_allclose(end - start, 12 * 0.02 * way, atol=0.003)
    assert after.apply([0.0, 0.0, 1.0])[:, 2].max() < -0.9999
    assert (after * before.inv()).magnitude().max() < 0.06


def test_tilted_hands_turn_down():
    env, hand, _ = make(32, reset_noise_scale=0.2)
    assert hand.pose()[1].apply([0.0, 0.0, 1.0])[:, 2].max() > -0.99
    for _ in range(40):
        env.step(np.zeros((32, 4), np.float32))
    assert hand.pose()[1].apply([0.0, 0.0, 1.0])[:, 2].max() < -0.9999


def test_hands_stop_above_the_ground():
    """The tip stops at the height of the middle of the cube."""
    env, hand, _ = make(4, events={"cube": None})
    for _ in range(60):
        env.step(np.tile(np.array([0.0, 0.5, -1.0, 1.0], np.float32), (4, 1)))
    np.testing.assert_allclose(hand.pose()[0][:, 2], 0.02, atol=0.003)


def test_fingers_open_and_close_at_their_speed():
    env, hand, _ = make(2)
    rest = np.zeros(3)
    env.step(np.array([[*rest, -1.0], [*rest, 0.0]], np.float32))
    targets = env.sim.control.joint_act.numpy().reshape(2, -1)[:, 7:9]
    np.testing.assert_allclose(targets, 0.04 - 0.2 * 0.04, atol=1e-6)
    for _ in range(20):
        env.step(np.array([[*rest, -1.0], [*rest, 0.0]], np.float32))
    np.testing.assert_allclose(hand.opening(), [0.0, 0.02], atol=5e-4)


def test_the_grip_is_as_strong_as_it_should_be():
    """A heavier cube than friction of both fingers can bear stays where it is; a lighter one rises."""
    env, hand, _ = make(2, grip=2.0, cube_turn=0.0)
    # friction of cube and fingers is 1: the fingers bear twice their force
    of_cube = [world * env.model.body_count // 2 + hand.cube for world in range(2)]
    factor = np.array([0.25, 0.6]) / 0.1
    mass, inertia = env.model.body_mass.numpy(), env.model.body_inertia.numpy()
    mass[of_cube] *= factor
    inertia[of_cube] *= factor[:, None, None]
    env.model.body_mass.assign(mass)
    env.model.body_inertia.assign(inertia)
    env.model.body_inv_mass.assign(1.0 / mass)
    env.model.body_inv_inertia.assign(np.linalg.inv(inertia))
    cube = hand.cubes()
    for steps, height, opening in ((35, 0.1, 1.0), (15, 0.0, 1.0), (15, 0.0, -1.0), (25, 0.1, -1.0)):
        for _ in range(steps):
            env.step(hand.towards(cube + np.array([0.0, 0.0, height]), opening))
    np.testing.assert_allclose(hand.cubes()[:, 2], [0.12, 0.02], atol=0.01)


def test_rewards_of_random_states():
    """Of all stages, written down in NumPy."""
    env, hand, goal = make(64)
    rng = np.random.default_rng(0)
    for opening in (1.0, -1.0, -1.0, -1.0, -1.0):
        action = np.concatenate([rng.uniform(-1.0, 1.0, (64, 3)), np.full((64, 1), opening)], axis=1)
        action[32:, :3] *= 0.1  # where the fingers may get hold of the cube
        before = env.sim.state.joint_q.numpy().reshape(64, -1)
        at = env.task._cube_at
        before[:, at : at + 3] = hand.pose()[0] + rng.uniform(-0.008, 0.008, (64, 3))
        before[:16, at : at + 3] = goal[:16] + rng.uniform(-0.04, 0.04, (16, 3))
        env.sim.state.joint_qd.numpy().reshape(64, -1)[:, 9:] = 0.0
        last = env.buffers.view.memory.numpy()[:, 3:7].copy()
        _, reward, *_, infos = env.step(action.astype(np.float32))
    q, qd = (a.numpy().reshape(64, -1) for a in (env.sim.state.joint_q, env.sim.state.joint_qd))
    targets = env.sim.control.joint_act.numpy().reshape(64, -1)
    cube, tip = hand.cubes(), hand.pose()[0]
    near, far = np.linalg.norm(cube - tip, axis=1), np.linalg.norm(cube - goal, axis=1)
    held = (near < 0.015) & np.all(q[:, 7:9] - targets[:, 7:9] > 0.002, axis=1)
    lifted = cube[:, 2] > 0.04
    expected = 1.0 - np.tanh(near / 0.2) + held
    expected += 6.0 * lifted * (2.0 - np.tanh(far / 0.4)) + 3.0 * lifted * (2.0 - np.tanh(far / 0.1))
    expected -= 0.02 * ((action - last) ** 2).sum(axis=1) + 0.002 * (qd[:, :9] ** 2).sum(axis=1)
    np.testing.assert_allclose(reward / 0.04, expected, atol=2e-3)
    np.testing.assert_array_equal(infos["is_success"], far < 0.05)
    assert 16 < held.sum() < 64
    assert 3 < infos["is_success"].sum() < 16


def test_robots_with_slides_move_their_hands_as_well(tmp_path):
    """A gantry, turned by half a radian about the vertical, with one finger."""
    file = tmp_path / "gantry.xml"
    file.write_text(GANTRY)
    env, hand, _ = make(2, robot=str(file), base="hand", home={"left_finger": 0.04}, reset_noise_scale=0.0)
    for _ in range(20):
        env.step(np.zeros((2, 4), np.float32))
    start = hand.pose()[0]
    for _ in range(10):
        env.step(np.array([[0.5, -0.2, -0.6, 0.0], [-0.3, 0.4, 0.5, 1.0]], np.float32))
    for _ in range(20):
        env.step(np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], np.float32))
    way = np.array([[0.1, -0.04, -0.12], [-0.06, 0.08, 0.1]])
    np.testing.assert_allclose(hand.pose()[0] - start, way, atol=0.003)
    q = env.sim.state.joint_q.numpy().reshape(2, -1)
    np.testing.assert_allclose(q[:, 3], [0.02, 0.04], atol=1e-3)


@pytest.mark.parametrize("turn", [0.0, 0.25, 3.0])
def test_cubes_are_turned_by_up_to_their_option(turn: float):
    env = envs.make("Lift", 64, "cpu", threads=1, cube_turn=turn)
    env.reset(seed=0)
    at = env.task._cube_at
    quaternion = env.sim.state.joint_q.numpy().reshape(64, -1)[:, at + 3 : at + 7]
    yaw = Rotation.from_quat(quaternion).as_euler("zyx")[:, 0]
    assert np.abs(yaw).max() <= turn + 1e-6
    assert np.ptp(yaw) >= 1.8 * turn


@pytest.mark.parametrize("task", ["Lift", "Stack"])
@pytest.mark.parametrize(
    ("joints", "message"),
    [
        (
            "joint?",
            "none of 'joint1', 'joint2', 'joint3' moves fingers of the hand, which is the base, 'hand'",
        ),
        ("*_finger", "none of 'left_finger' carries the hand, which is the base, 'hand'"),
    ],
)
def test_robots_without_arm_or_fingers_are_refused(tmp_path, task: str, joints: str, message: str):
    file = tmp_path / "gantry.xml"
    file.write_text(GANTRY)
    with pytest.raises(NewtonsimError, match=message):
        envs.make(task, 1, "cpu", robot=str(file), base="hand", joints=joints)


def test_arms_of_urdf_files_are_fixed_to_the_world():
    """Such files do not say so; an arm that floats falls over, which the tasks of arms do not mean."""
    arm = str(asset_path("arm7.urdf"))
    env = envs.make("Reach", 2, "cpu", robot=arm, base="link_7")
    env.reset(seed=0)
    assert JointType.FREE not in env.model.joint_type.numpy()
    assert np.abs(env.sim.state.body_q.numpy().reshape(2, -1, 7)[:, 0, :3]).max() == 0.0
    walking = envs.make("Velocity", 1, "cpu", robot=arm, base="base", feet="link_7")
    assert JointType.FREE in walking.model.joint_type.numpy()
