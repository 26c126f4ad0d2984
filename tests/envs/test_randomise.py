"""Worlds that differ by their masses, friction, motors and pushes; pictures of worlds."""

import gymnasium
import numpy as np
import pytest

from newtonsim import envs
from newtonsim.errors import NewtonsimError

ONE = {"mass": (1.0, 1.0), "friction": (1.0, 1.0), "strength": (1.0, 1.0)}


def ant(num_envs: int = 3, **randomise) -> envs.BatchedEnv:
    return envs.make("Ant", num_envs, device="cpu", randomise=randomise or None, max_episode_steps=0)


def actions(steps: int, num_envs: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (steps, num_envs, 8)).astype(np.float32)


def test_factors_of_one_change_nothing():
    plain, same = ant(), ant(**ONE)
    np.testing.assert_array_equal(plain.reset(seed=1)[0], same.reset(seed=1)[0])
    for action in actions(4, 3):
        np.testing.assert_array_equal(plain.step(action)[0], same.step(action)[0])


def test_what_is_drawn():
    env = ant(50, mass=(0.5, 2.0), friction=(0.2, 0.4), strength=(0.8, 1.0))
    model = env.model
    nominal = [a.numpy().copy() for a in (model.body_mass, model.body_inertia, model.shape_materials.mu)]
    env.reset(seed=1)
    factors = (model.body_mass.numpy() / nominal[0]).reshape(50, 13)
    assert factors.min() >= 0.5
    assert factors.max() <= 2.0
    # standard error of the mean of 650 uniform numbers of this range: 0.017
    np.testing.assert_allclose(factors.mean(), 1.25, atol=0.08)
    np.testing.assert_allclose(
        model.body_inertia.numpy(), factors.reshape(-1, 1, 1) * nominal[1], rtol=1e-6, atol=1e-12
    )
    np.testing.assert_allclose(model.body_inv_mass.numpy() * model.body_mass.numpy(), 1.0, rtol=1e-6)
    product = model.body_inv_inertia.numpy() @ model.body_inertia.numpy()
    np.testing.assert_allclose(product, np.tile(np.eye(3), (650, 1, 1)), atol=1e-5)
    starts = np.asarray(model.world_shape_start)
    grip = model.shape_materials.mu.numpy()[: starts[-1]] / nominal[2][: starts[-1]]
    grip = grip.reshape(50, -1)
    assert np.all(grip == grip[:, :1])
    assert 0.2 <= grip.min() < grip.max() <= 0.4
    strength = env.buffers.view.strength.numpy()
    assert 0.8 <= strength.min() < strength.max() <= 1.0


def test_draws_depend_on_seed_and_episode_alone():
    ranges = {"mass": (0.5, 2.0), "strength": (0.5, 1.0), "push_seconds": 0.1, "push_force": 5.0}
    few, many = ant(2, **ranges), ant(5, **ranges)
    few.reset(seed=3)
    many.reset(seed=3)
    chosen = actions(6, 5)
    for action in chosen:
        expected = few.step(action[:2])[0]
        np.testing.assert_array_equal(many.step(action)[0][:2], expected)
    before = few.model.body_mass.numpy().reshape(2, 13).copy()
    few.reset(options={"reset_mask": np.array([True, False])})
    after = few.model.body_mass.numpy().reshape(2, 13)
    np.testing.assert_array_equal(after[1], before[1])
    assert not np.any(after[0] == before[0])


def test_strength_halves_the_force():
    pair = [
        envs.make("CartPoleSwingUp", 1, device="cpu", randomise={"strength": (factor, factor)})
        for factor in (0.5, 1.0)
    ]
    for env in pair:
        env.reset(seed=1)
    forces = []
    for env in pair:
        env.step(np.ones((1, 1)))
        forces.append(env.sim.control.joint_act.numpy()[0])
    np.testing.assert_allclose(forces, [5.0, 10.0])


def test_strength_scales_the_gains_of_drives():
    env = envs.make("Quadruped", 4, device="cpu", randomise={"strength": (0.5, 0.9)})
    env.reset(seed=1)
    strength = np.repeat(env.buffers.view.strength.numpy(), 12)
    assert 0.5 <= strength.min() < strength.max() <= 0.9
    np.testing.assert_allclose(env.model.joint_target_ke.numpy(), 60.0 * strength, rtol=1e-6)
    np.testing.assert_allclose(env.model.joint_target_kd.numpy(), 2.0 * strength, rtol=1e-6)


def test_gains_are_drawn_for_each_drive():
    env = envs.make("Quadruped", 40, device="cpu", randomise={"gains": (0.6, 1.4), "strength": (0.5, 0.5)})
    env.reset(seed=1)
    stiffness = env.model.joint_target_ke.numpy() / (0.5 * 60.0)
    damping = env.model.joint_target_kd.numpy() / (0.5 * 2.0)
    for factors in (stiffness, damping):
        assert 0.6 <= factors.min() < 0.65
        assert 1.35 < factors.max() <= 1.4
        assert len(np.unique(factors)) > 470
        # standard error of the mean of 480 uniform numbers of this range: 0.011
        np.testing.assert_allclose(factors.mean(), 1.0, atol=0.045)
    assert abs(np.corrcoef(stiffness, damping)[0, 1]) < 0.2
    before = stiffness.reshape(40, 12)
    env.reset(options={"reset_mask": np.arange(40) == 3})
    after = env.model.joint_target_ke.numpy().reshape(40, 12) / (0.5 * 60.0)
    changed = np.any(after != before, axis=1)
    np.testing.assert_array_equal(changed, np.arange(40) == 3)


def test_terrain_is_drawn_for_each_episode():
    env = envs.make("QuadrupedTerrain", 60, device="cpu", levels=5, randomise={"terrain": (0.4, 1.0)})
    levels = []
    for _ in range(2):
        env.reset(seed=None if levels else 1)
        levels.append(env.buffers.view.kept.numpy()[:, 0].copy())
        assert set(levels[-1]) == {2.0, 3.0, 4.0}
    assert not np.array_equal(*levels)


def test_pushes_come_at_their_times():
    env, calm = ant(push_seconds=0.15, push_force=3.0), ant()
    env.reset(seed=1)
    calm.reset(seed=1)
    action = np.zeros((3, 8))
    for k in range(1, 7):
        obs, expected = env.step(action)[0], calm.step(action)[0]
        force = env.sim.state.body_f.numpy().reshape(3, 13, 6)
        pushed = k % 3 == 0
        assert np.all(force[:, 0, 3:5] != 0.0) == pushed
        assert np.abs(force).max() <= 3.0
        np.testing.assert_array_equal(force[:, 1:], 0.0)
        assert np.array_equal(obs, expected) == (k < 3)


def test_wrong_ranges_are_named():
    for name, value in (
        ("mass", (0.0, 1.0)),
        ("mass", 2.0),
        ("friction", ("a", 1)),
        ("strength", (1.0, np.nan)),
        ("friction", (2.0, 1.0)),
        ("gains", (-1.0, 1.0)),
        ("push_seconds", -1.0),
        ("push_force", "a"),
    ):
        with pytest.raises(NewtonsimError, match=f"{name}: expected"):
            ant(**{name: value})
    with pytest.raises(NewtonsimError, match="randomise: expected a dict of ranges by name, got 'mass'"):
        envs.make("Ant", 1, device="cpu", randomise="mass")
    for half in ("push_seconds", "push_force"):
        with pytest.raises(NewtonsimError, match="pushes need both push_seconds and push_force"):
            ant(**{half: 2.0})
    with pytest.raises(NewtonsimError, match="randomise: there is no 'masses'; did you mean 'mass'"):
        ant(masses=(1.0, 2.0))


def test_pictures():
    env = envs.make("CartPole", 2, device="cpu", render_mode="rgb_array", render_size=(64, 48))
    env.reset(seed=1)
    first, second = env.render()
    assert first.shape == (48, 64, 3)
    assert first.dtype == np.uint8
    assert np.ptp(first) > 50
    for _ in range(5):
        env.step(np.array([0, 1]))
    left, right = env.render()
    assert not np.array_equal(left, right)
    assert not np.array_equal(left, first)
    assert second.shape == (48, 64, 3)
    single = gymnasium.make("newtonsim/CartPole-v0", device="cpu", render_mode="rgb_array")
    single.reset(seed=1)
    assert single.render().shape == (240, 320, 3)
    with pytest.warns(UserWarning, match="requires render_mode='rgb_array'"):
        assert envs.make("CartPole", 1, device="cpu").render() is None
    with pytest.raises(NewtonsimError, match="render_mode: expected 'rgb_array' or None, got 'human'"):
        envs.make("CartPole", render_mode="human")
