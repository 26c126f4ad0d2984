"""The quadruped on terrain: shapes of the patches, where it begins, what it sees, how levels change."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.envs.terrain import KINDS, Terrain, make_terrain
from newtonsim.errors import NewtonsimError
from newtonsim.kinematics import eval_fk

FOOT_RADIUS = 0.024
SHANK = [0.0, 0.0, -0.21]


def walkers(num_envs: int, **options) -> envs.BatchedEnv:
    return envs.make("QuadrupedTerrain", num_envs, device="cpu", **options)


def kept(env: envs.BatchedEnv) -> np.ndarray:
    return env.buffers.view.kept.numpy().copy()


def cell_corners(terrain: Terrain, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Heights at the four corners of the cell that each place is in, 0 beyond the patches, (4, ...)."""
    size = (np.array(terrain.heights.shape) - 1) * 0.1
    i, j = np.floor((x + 0.5 * size[0]) / 0.1), np.floor((y + 0.5 * size[1]) / 0.1)
    out = (i < 0) | (j < 0) | (i >= terrain.heights.shape[0] - 1) | (j >= terrain.heights.shape[1] - 1)
    i, j = np.where(out, 0, i).astype(int), np.where(out, 0, j).astype(int)
    corners = [terrain.heights[i + a, j + b] for a in (0, 1) for b in (0, 1)]
    return np.where(out, 0.0, np.stack(corners))


def teleport(env: envs.BatchedEnv, xyz: np.ndarray) -> None:
    """Put the trunks to places, as they are turned, at rest."""
    state, worlds = env.sim.state, env.num_envs
    q = state.joint_q.numpy().reshape(worlds, -1)
    q[:, :3] = xyz
    state.joint_q.assign(q.ravel())
    state.joint_qd.zero_()
    eval_fk(env.model, state.joint_q, state.joint_qd, None, state)


def test_patches_grow_harder_around_their_platforms():
    terrain = make_terrain()
    assert terrain.heights.shape == (801, 481)
    for kind, name in enumerate(KINDS):
        patches = [
            terrain.heights[80 * k : 80 * k + 81, 80 * kind : 80 * kind + 81] for k in range(terrain.levels)
        ]
        for level, patch in enumerate(patches):
            assert np.ptp(patch[31:50, 31:50]) < 1e-6
            middle = terrain.middle(level, kind)
            np.testing.assert_allclose(middle, [8 * level - 36, 8 * kind - 20, patch[40, 40]], atol=1e-6)
            rim = np.concatenate([patch[0], patch[-1], patch[:, 0], patch[:, -1]])
            np.testing.assert_allclose(rim, 0.0, atol=0.09 if name == "rough" else 0.0)
        steps = [max(np.abs(np.diff(p, axis=a)).max() for a in (0, 1)) for p in patches]
        assert steps[-1] > 2.0 * steps[0]
        if name in ("hill", "valley"):
            np.testing.assert_allclose([steps[0], steps[-1]], [0.005, 0.04], rtol=1e-3)
            assert np.sign(patches[-1][40, 40]) == (1 if name == "hill" else -1)
        elif name.startswith("stairs"):
            np.testing.assert_allclose(steps, 0.03 + 0.15 * np.arange(10) / 9, rtol=1e-3)
            assert np.sign(patches[-1][40, 40]) == (1 if name == "stairs_down" else -1)
        elif name == "blocks":
            assert np.abs(patches[-1]).max() == pytest.approx(0.2)
        else:
            assert 0.06 < np.abs(patches[-1]).max() < 0.08
    assert np.array_equal(make_terrain().heights, terrain.heights)
    assert not np.array_equal(make_terrain(seed=1).heights, terrain.heights)


def test_every_patch_is_a_place_to_stand_on():
    env = walkers(500, randomise={"terrain": (0.0, 1.0)}, reset_noise_scale=0.0)
    terrain = env.task.terrain
    env.reset(seed=3)
    patches = kept(env)[:, :2].astype(int)
    assert len({tuple(patch) for patch in patches.tolist()}) == terrain.platforms.size
    poses = env.sim.state.body_q.numpy().reshape(500, 13, 7)
    middle = np.array([terrain.middle(*patch) for patch in patches.tolist()])
    assert np.abs(poses[:, 0, :2] - middle[:, :2]).max() <= 0.5
    assert np.ptp(poses[:, 0, 0] - middle[:, 0]) > 0.9
    shanks = poses[:, 3::3].reshape(-1, 7)
    feet = shanks[:, :3] + Rotation.from_quat(shanks[:, 3:]).apply(SHANK)
    above = feet[:, 2] - FOOT_RADIUS - cell_corners(terrain, feet[:, 0], feet[:, 1]).mean(axis=0)
    assert -0.002 < above.min() < above.max() < 0.01
    for _ in range(12):
        obs, _, terminated, *_ = env.step(np.zeros((500, 12)))
        assert not terminated.any()
        assert np.abs(obs[:, 2]).max() < 0.25
    np.testing.assert_allclose(obs[:, 8], -1.0, atol=0.02)


def test_levels_follow_the_rule():
    """The rule of Rudin et al. in NumPy, at the ends of many episodes that walked by any distance."""
    env = walkers(
        80, levels=4, kinds=["rough", "hill"], max_forward=0.5, max_sideways=0.3, max_episode_steps=1
    )
    rng = np.random.default_rng(0)
    env.reset(seed=1)
    assert set(kept(env)[:, 0]) == {0.0, 1.0, 2.0}
    seen, restarted = np.zeros(3, int), []
    for _ in range(8):
        before, commands = kept(env), env.buffers.view.memory.numpy()[:, :2].copy()
        walked = rng.uniform(0.0, 6.0, 80)
        angle = rng.uniform(-np.pi, np.pi, 80)
        places = before[:, 2:4] + walked[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        teleport(env, np.column_stack([places, np.full(80, 3.0)]))
        assert env.step(np.zeros((80, 12)))[3].all()
        after = kept(env)
        speed = np.linalg.norm(commands, axis=1)
        assert np.all((speed == 0.0) | (speed >= 0.2))
        half_way = 0.5 * speed * 20.0
        up, down = walked > 4.0, (walked <= 4.0) & (walked < half_way)
        sure = (np.abs(walked - 4.0) > 0.02) & (np.abs(walked - half_way) > 0.02)
        wanted = np.maximum(before[:, 0] + up - 1.0 * down, 0.0)
        past = sure & (wanted > 3.0)
        restarted += after[past, 0].tolist()
        sure &= ~past
        np.testing.assert_array_equal(after[sure, 0], wanted[sure])
        np.testing.assert_array_equal(after[:, 1], before[:, 1])
        seen += [up.sum(), down.sum(), (~up & ~down).sum()]
    assert seen.min() > 20
    assert set(restarted) == {0.0, 1.0, 2.0, 3.0}
    # calls of reset without a step are no episodes
    before = kept(env)
    env.reset()
    np.testing.assert_array_equal(kept(env)[:, :2], before[:, :2])


def test_levels_stay_without_curriculum():
    env = walkers(20, levels=2, kinds=["rough"], curriculum=False, max_episode_steps=2)
    env.reset(seed=1)
    before = kept(env)[:, 0]
    assert set(before) == {0.0, 1.0}
    for _ in range(6):
        env.step(np.zeros((20, 12)))
    np.testing.assert_array_equal(kept(env)[:, 0], before)


def test_heights_are_those_below_the_grid():
    env = walkers(60, levels=3, height_noise=0.0, randomise={"terrain": (0.0, 1.0)})
    terrain, rng = env.task.terrain, np.random.default_rng(5)
    env.reset(seed=2)
    places = rng.uniform([-13.0, -26.0, 1.5], [13.0, 26.0, 1.5], (60, 3))
    teleport(env, places)
    obs = env.step(np.zeros((60, 12)))[0]
    poses = env.sim.state.body_q.numpy().reshape(60, 13, 7)[:, 0]
    ahead = Rotation.from_quat(poses[:, 3:]).apply([1.0, 0.0, 0.0])[:, :2]
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    left = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    x, y = np.meshgrid(np.linspace(-0.8, 0.8, 17), np.linspace(-0.5, 0.5, 11), indexing="ij")
    grid = x.ravel()[:, None, None] * ahead + y.ravel()[:, None, None] * left + poses[:, :2]
    corners = cell_corners(terrain, grid[..., 0], grid[..., 1])
    standing = env.sim._initial.joint_q.numpy()[2]
    low, high = (
        np.clip(bound(corners, axis=0) - poses[:, 2] + standing, -1.0, 1.0).T for bound in (np.min, np.max)
    )
    # where float32 puts a point into the next cell its corners may not hold the height
    inside = (obs[:, 48:] >= low - 2e-3) & (obs[:, 48:] <= high + 2e-3)
    assert inside.mean() > 0.995
    assert np.ptp(low) > 0.5


def test_the_trunk_is_low_above_the_ground_only():
    """In a valley and on a hill: 0.1 m above the ground is an end, 0.3 m is none."""
    for kind in ("valley", "hill"):
        env = walkers(2, levels=1, kinds=[kind], autoreset_mode="Disabled", reset_noise_scale=0.0)
        x, y, z = env.task.terrain.middle(0, 0)
        env.reset(seed=0)
        teleport(env, np.array([[x, y, z + 0.1], [x, y, z + 0.3166]]))
        np.testing.assert_array_equal(env.step(np.zeros((2, 12)))[2], [True, False])


def test_turning_is_towards_the_heading():
    env = walkers(50, levels=1, kinds=["rough"], max_turn=0.8)
    obs = env.reset(seed=0)[0]
    q = env.sim.state.joint_q.numpy().reshape(50, -1)[:, 3:7]
    heading = Rotation.from_quat(q).as_euler("ZYX")[:, 0]
    target = env.buffers.view.memory.numpy()[:, 27]
    error = np.remainder(target - heading + np.pi, 2.0 * np.pi) - np.pi
    np.testing.assert_allclose(obs[:, 11], np.clip(0.5 * error, -0.8, 0.8), atol=1e-5)
    assert np.ptp(target) > 5.0


def test_same_seed_same_walks_whatever_the_threads():
    options = {"levels": 3, "max_episode_steps": 9, "height_noise": 0.02}
    many, few = walkers(60, threads=2, **options), walkers(3, threads=1, **options)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (24, 60, 12)).astype(np.float32)
    first = many.reset(seed=8)[0]
    np.testing.assert_array_equal(first[:3], few.reset(seed=8)[0])
    for action in actions:
        for a, b in zip(many.step(action)[:4], few.step(action[:3])[:4], strict=True):
            np.testing.assert_array_equal(a[:3], b)
    np.testing.assert_array_equal(kept(many)[:3], kept(few))
    assert not np.array_equal(kept(many)[:, 0], kept(many)[0, 0])
    # nothing is kept over a seed
    np.testing.assert_array_equal(many.reset(seed=8)[0], first)


def test_wrong_options_are_named():
    for options, message in (
        ({"kinds": ["hil"]}, "kinds: there is no 'hil'; did you mean 'hill'"),
        ({"kinds": []}, "kinds: expected some of rough"),
        ({"levels": 0}, "levels: expected a whole number of at least 1, got 0"),
        ({"patch_size": 2.0}, "patch_size: expected at least 4 m, got 2.0"),
        ({"first_levels": 11}, r"first_levels: expected 1\.\.10, got 11"),
        (
            {"levels": 1, "kinds": ["hill"], "randomise": {"terrain": (0.5, 1.5)}},
            "terrain: expected a range within",
        ),
    ):
        with pytest.raises(NewtonsimError, match=message):
            walkers(1, **options)
    with pytest.raises(NewtonsimError, match="randomise: Ant has no terrain"):
        envs.make("Ant", 1, device="cpu", randomise={"terrain": (0.0, 1.0)})
