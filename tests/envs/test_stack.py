"""The arm that stacks cubes: a script succeeds, and only cubes that rest on each other count."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim import envs

TIP = np.array([0.0, 0.0, 0.1034])
UP = np.array([0.0, 0.0, 1.0])


class Stacking:
    """An environment without a time limit."""

    def __init__(self, worlds: int, seed: int = 5, **options: object):
        self.env = envs.make("Stack", worlds, "cpu", threads=1, max_episode_steps=0, **options)
        self.env.reset(seed=seed)
        self.cube = self.env.model.body_key.index("cube")

    def place(self, name: str) -> np.ndarray:
        """Return where bodies of a name are, (n, 3) [m]."""
        return self._pose(name)[:, :3].copy()

    def tips(self) -> np.ndarray:
        """Return where the tips of the hands are, (n, 3) [m]."""
        pose = self._pose("hand")
        return pose[:, :3] + Rotation.from_quat(pose[:, 3:]).apply(TIP)

    def go(self, steps: int, place: np.ndarray, opening: float) -> tuple[np.ndarray, np.ndarray]:
        """Bring the tips to a place; return the sum of rewards, and which goals are reached at the end."""
        total = np.zeros(self.env.num_envs)
        for _ in range(steps):
            way = np.clip(0.35 * (place - self.tips()) / 0.02, -1.0, 1.0)
            action = np.concatenate([way, np.full((len(way), 1), opening)], axis=1).astype(np.float32)
            _, reward, *_, infos = self.env.step(action)
            total += reward
        return total, infos["is_success"]

    def put(self, name: str, places: np.ndarray) -> None:
        """Move cubes, at rest."""
        at = getattr(self.env.task, {"cube": "_cube_at", "lower_cube": "_lower_at"}[name])
        q = self.env.sim.state.joint_q.numpy().reshape(self.env.num_envs, -1)
        q[:, at : at + 7] = np.concatenate([places, np.tile([0, 0, 0, 1], (len(places), 1))], axis=1)

    def _pose(self, name: str) -> np.ndarray:
        poses = self.env.sim.state.body_q.numpy().reshape(self.env.num_envs, -1, 7).astype(float)
        return poses[:, self.env.model.body_key.index(name)]


def test_a_script_stacks_cubes_within_an_episode():
    """Above the cube, down, close, up, over the lower one, down, open, up: in every world."""
    s = Stacking(16)
    cube, lower = s.place("cube"), s.place("lower_cube")
    ways = (
        (35, cube + 0.1 * UP, 1.0),
        (15, cube, 1.0),
        (10, cube, -1.0),
        (15, cube + 0.12 * UP, -1.0),
        (45, lower + 0.12 * UP, -1.0),
        (25, lower + 0.041 * UP, -1.0),
        (8, lower + 0.041 * UP, 1.0),
        (25, lower + 0.16 * UP, 1.0),
    )
    assert sum(steps for steps, *_ in ways) <= s.env.task.episode_steps
    total = np.zeros(16)
    for steps, place, opening in ways:
        reward, reached = s.go(steps, place, opening)
        total += reward
    assert reached.all()
    np.testing.assert_allclose(
        s.place("cube") - s.place("lower_cube"), np.tile(0.04 * UP, (16, 1)), atol=0.01
    )
    distance = s.env.metrics()["distance"].values
    np.testing.assert_allclose(
        distance, np.linalg.norm(s.place("lower_cube") + 0.04 * UP - s.place("cube"), axis=1), atol=1e-5
    )
    random = Stacking(16)
    random.env.action_space.seed(0)
    rest = np.sum([random.env.step(random.env.action_space.sample())[1] for _ in range(178)], axis=0)
    assert total.min() > 10.0 * rest.max()


@pytest.mark.parametrize(
    ("way", "reached"),
    [
        ((0.0, 0.0, 0.04), True),
        ((0.015, 0.0, 0.04), True),
        ((0.0, 0.06, 0.0), False),  # beside it
        ((0.0, 0.0, 0.1), False),  # above it: it falls
    ],
)
def test_cubes_that_rest_on_each_other_count(way: tuple[float, float, float], reached: bool):
    s = Stacking(2)
    s.put("lower_cube", np.tile([0.5, 0.1, 0.02], (2, 1)))
    s.put("cube", np.array([0.5, 0.1, 0.02]) + np.tile(way, (2, 1)))
    reward = s.env.step(np.zeros((2, 4), np.float32))
    assert reward[4]["is_success"].tolist() == [reached] * 2
    # "stacked" has the weight 20
    assert np.all((reward[1] / 0.04 > 20.0) == reached)


def test_rewards_of_random_states():
    """Written down in NumPy, without gravity: cubes below open hands, almost stacked, or moving."""
    s = Stacking(512)
    newtonsim.View(s.env.sim).gravity = (0.0, 0.0, 0.0)
    s.go(40, np.tile([0.5, 0.1, 0.3], (512, 1)), 1.0)
    rng = np.random.default_rng(0)
    way = rng.uniform((-0.02, -0.02, 0.0402), (0.02, 0.02, 0.048), (512, 3))
    cube = s.tips() - np.outer(rng.uniform(0.022, 0.04, 512), UP)
    s.put("cube", cube)
    s.put("lower_cube", cube - way)
    qd = s.env.sim.state.joint_qd.numpy().reshape(512, -1)
    qd[:, 9:] = 0.0
    qd[:, 14] = rng.uniform(0.0, 0.08, 512)  # the cube rises
    _, reward, *_, infos = s.env.step(np.tile(np.array([0, 0, 0, 1], np.float32), (512, 1)))
    cube, way = s.place("cube"), s.place("lower_cube") + 0.04 * UP - s.place("cube")
    aside, error = np.linalg.norm(way[:, :2], axis=1), np.abs(way[:, 2])
    speed = np.linalg.norm(s.env.sim.state.body_qd.numpy().reshape(512, -1, 6)[:, s.cube, 3:], axis=1)
    near = np.linalg.norm(cube - s.tips(), axis=1)
    conditions = np.array([aside < 0.02, error < 0.005, speed < 0.05, near > 0.03])
    stacked = conditions.all(axis=0)
    np.testing.assert_array_equal(infos["is_success"], stacked)
    # every condition decides somewhere
    assert all(np.any(~one & (conditions.sum(axis=0) == 3)) for one in conditions)
    far = np.linalg.norm(way, axis=1)
    expected = 1.0 - np.tanh(near / 0.2) + 20.0 * stacked
    expected += 6.0 * (2.0 - np.tanh(far / 0.4)) + 3.0 * (2.0 - np.tanh(far / 0.1))
    rates = s.env.sim.state.joint_qd.numpy().reshape(512, -1)[:, :9]
    expected -= 0.002 * (rates**2).sum(axis=1)
    # hands have come to rest, so that `jerking` costs next to nothing
    np.testing.assert_allclose(reward / 0.04, expected, atol=0.02)


def test_starts_are_apart_and_vary():
    s = Stacking(256, cube_turn=0.5)
    cube, lower = s.place("cube"), s.place("lower_cube")
    for places, low, high in ((cube, (0.4, -0.2), (0.6, -0.08)), (lower, (0.4, 0.08), (0.6, 0.2))):
        assert np.all((places[:, :2] >= np.array(low) - 1e-6) & (places[:, :2] <= np.array(high) + 1e-6))
        assert np.all(np.ptp(places[:, :2], axis=0) > 0.9 * (np.array(high) - np.array(low)))
    # drawn independently
    assert abs(np.corrcoef(cube[:, 0], lower[:, 0])[0, 1]) < 0.2


def test_observations_are_ways_from_the_tip():
    s = Stacking(4)
    obs = s.env.observations()[0]
    names = s.env.task.term_names()["observations"]
    assert names == ["angles", "rates", "actions", "cube", "lower_cube"]
    tip = s.tips()
    np.testing.assert_allclose(obs[:, -6:-3], s.place("cube") - tip, atol=1e-5)
    np.testing.assert_allclose(obs[:, -3:], s.place("lower_cube") - tip, atol=1e-5)
