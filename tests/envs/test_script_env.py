"""Vector environments around PyBullet scenes: physics, ends of episodes, stable-baselines3 on them."""

import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from stable_baselines3 import PPO

from newtonsim.adapters.stable_baselines3_env import Sb3Env
from newtonsim.envs.script_env import ScriptEnv
from newtonsim.errors import CheckpointError, NewtonsimError
from newtonsim.examples.learning import panda_reaches
from newtonsim.pybullet_compat.stand_ins.pybullet_data import getDataPath
from newtonsim.scene.checkpoint_file import read_file, write_file

DT = 1.0 / 240.0


class Hover(ScriptEnv):
    """A ball of 1 kg without damping that is pushed up and down, and falls below the ground."""

    observation_size, action_size, frame_skip, episode_steps = 2, 1, 1, 12

    def build(self, sim):
        sim.setGravity(0, 0, -10.0)
        self.ball = sim.createMultiBody(1.0, sim.createCollisionShape(sim.GEOM_SPHERE, radius=0.1))
        sim.changeDynamics(self.ball, -1, linearDamping=0.0)

    def spawn(self, sim, worlds):
        self.started = worlds
        heights = self.np_random.uniform(0.01, 0.1, len(worlds))[:, None] * [0, 0, 1]
        sim.resetBasePositionAndOrientation(self.ball, heights, [0, 0, 0, 1], worlds=worlds)

    def act(self, sim, actions):
        sim.applyExternalForce(self.ball, -1, 40 * actions * [0, 0, 1], [0, 0, 0], sim.LINK_FRAME)

    def observe(self, sim):
        height = sim.getBasePositionAndOrientation(self.ball)[0][:, 2]
        return np.stack([height, sim.getBaseVelocity(self.ball)[0][:, 2]], axis=1)

    def score(self, sim, obs):
        return obs[:, 0], obs[:, 0] < 0.0, obs[:, 0] > 0.08


class Bounce(Hover):
    """The same ball over ground that it hits, so that the solver remembers contacts."""

    def build(self, sim):
        super().build(sim)
        sim.createMultiBody(
            0.0, sim.createCollisionShape(sim.GEOM_BOX, halfExtents=[1, 1, 0.1]), -1, [0, 0, -0.2]
        )

    def score(self, sim, obs):
        return obs[:, 0], obs[:, 0] < -1.0


@pytest.mark.parametrize("kind", [Hover, Bounce])
def test_a_run_that_was_cut_is_the_same_to_the_bit(kind, tmp_path):
    """Episodes begin after the cut: the counts of steps and the random numbers go along."""
    actions = np.random.default_rng(1).uniform(-1.0, 0.2, (30, 6, 1))

    def results(env, first):
        return [
            b"".join(np.ascontiguousarray(part).tobytes() for part in env.step(a)[:4])
            for a in actions[first:]
        ]

    run, fresh, used = (kind(6, device="cpu") for _ in range(3))
    run.reset(seed=3)
    for cut in range(8):
        run.step(actions[cut])
    run.save(tmp_path / "run.ckpt")
    expected = results(run, 8)
    ended = run.ended_episodes()
    assert ended[1].any()
    used.reset(seed=9)
    used.step(actions[0])
    for env in (fresh, used):
        env.restore(tmp_path / "run.ckpt")
        assert results(env, 8) == expected
        assert np.array_equal(env.ended_episodes(), ended)
    for env in (run, fresh, used):
        env.close()


def test_checkpoints_of_other_scripts_and_damaged_ones_change_nothing(env, tmp_path):
    env.reset(seed=1)
    env.save(tmp_path / "run.ckpt")
    env.step(np.ones((6, 1)))
    before = env.observe(env.sim)
    facts, arrays = read_file(tmp_path / "run.ckpt")
    write_file(tmp_path / "world", facts, {**arrays, "world": arrays["world"][:-1]})
    write_file(tmp_path / "random", {**facts, "random": {"bit_generator": "no"}}, arrays)
    write_file(tmp_path / "counts", facts, {**arrays, "lengths": arrays["lengths"][:2]})
    (tmp_path / "cut").write_bytes((tmp_path / "run.ckpt").read_bytes()[:-5])
    for name in ("world", "random", "counts", "cut", "none"):
        with pytest.raises(CheckpointError, match=name):
            env.restore(tmp_path / name)
        assert np.array_equal(env.observe(env.sim), before)
    other = Bounce(6, device="cpu")
    with pytest.raises(CheckpointError, match="env was 'Hover', here 'Bounce'"):
        other.restore(tmp_path / "run.ckpt")
    other.close()


@pytest.fixture
def env():
    made = Hover(6, device="cpu")
    yield made
    made.close()


def test_worlds_go_by_newtons_laws_from_episode_to_episode(env):
    """Semi-implicit Euler by hand, with clipped actions; what ends starts anew in the same step."""
    obs, infos = env.reset(seed=3)
    assert infos == {}
    rng = np.random.default_rng(0)
    x, v = obs.T.astype(float)
    assert not v.any()
    assert ((x >= 0.01) & (x <= 0.1)).all()
    assert len(set(x.tolist())) == 6
    returns, lengths, falls, limits = np.zeros(6), np.zeros(6, int), 0, 0
    for _ in range(60):
        actions = rng.uniform(-2.0, 2.0, (6, 1)) + np.linspace(-3.0, 0.6, 6)[:, None]
        obs, reward, terminated, truncated, infos = env.step(actions)
        v = v + DT * (-10.0 + 40.0 * np.clip(actions[:, 0], -1, 1))
        x = x + DT * v
        returns, lengths = returns + x, lengths + 1
        assert reward == pytest.approx(x, abs=1e-5)
        assert (terminated == (x < 0.0)).all()
        assert (truncated == ((lengths == 12) & (x >= 0.0))).all()
        assert (infos["is_success"] == (x > 0.08)).all()
        ended = terminated | truncated
        falls, limits = falls + terminated.sum(), limits + truncated.sum()
        assert ("final_obs" in infos) == ended.any()
        if ended.any():
            assert (infos["_final_obs"] == ended).all()
            assert (infos["_episode"] == ended).all()
            assert infos["final_obs"][ended] == pytest.approx(np.stack([x, v], axis=1)[ended], abs=1e-5)
            assert infos["episode"]["r"][ended] == pytest.approx(returns[ended], abs=1e-4)
            assert (infos["episode"]["l"][ended] == lengths[ended]).all()
            assert (env.started == np.flatnonzero(ended)).all()
            x[ended], v[ended] = obs[ended, 0], 0.0
            assert ((x[ended] >= 0.01) & (x[ended] <= 0.1)).all()
            returns[ended] = lengths[ended] = 0
        assert obs == pytest.approx(np.stack([x, v], axis=1), abs=1e-5)
    assert falls > 3
    assert limits > 3
    assert not env.failures.any()


def test_seeds_and_masks(env):
    first = env.reset(seed=5)[0]
    assert (env.reset(seed=5)[0] == first).all()
    assert (env.reset()[0] != first).any()
    assert (env.reset(seed=[1, 2])[0] == env.reset(seed=[1, 2])[0]).all()
    obs = env.step(np.ones((6, 1)))[0]
    mask = np.array([True, False] * 3)
    again = env.reset(options={"reset_mask": mask})[0]
    assert (again[~mask] == obs[~mask]).all()
    assert not again[mask, 1].any()


class Breaks(Hover):
    """Its second world breaks when it is told to."""

    breaks = False

    def observe(self, sim):
        obs = super().observe(sim)
        obs[1, 1] = np.nan if self.breaks else obs[1, 1]
        return obs

    def spawn(self, sim, worlds):
        self.breaks = False
        super().spawn(sim, worlds)


def test_a_world_that_breaks_starts_anew():
    env = Breaks(3, device="cpu")
    env.reset(seed=0)
    env.breaks = True
    obs, reward, terminated, _, infos = env.step(np.ones((3, 1)))
    assert terminated.tolist() == infos["failed"].tolist() == [False, True, False]
    assert reward[1] == 0.0
    assert not infos["final_obs"][1].any()
    assert np.isfinite(obs).all()
    assert env.failures.tolist() == [0, 1, 0]
    env.close()


def test_what_is_wrong_is_named(env):
    with pytest.raises(NewtonsimError, match="step: call reset first"):
        env.step(np.zeros((6, 1)))
    env.reset()
    with pytest.raises(NewtonsimError, match=r"actions: expected shape \(6, 1\), got \(6,\)"):
        env.step(np.zeros(6))
    with pytest.raises(NewtonsimError, match="actions: expected finite numbers"):
        env.step(np.full((6, 1), np.nan))
    with pytest.raises(NewtonsimError, match="reset_mask: expected booleans"):
        env.reset(options={"reset_mask": [1, 0]})
    with pytest.raises(NewtonsimError, match="options: the only option is 'reset_mask'"):
        env.reset(options={"mask": None})
    with pytest.raises(NewtonsimError, match="num_envs: expected a whole number of at least 2, got 1"):
        Hover(1)
    with pytest.raises(NewtonsimError, match="max_episode_steps"):
        Hover(2, max_episode_steps=-1)


class Sizeless(Hover):
    action_size = 0


class Crooked(Hover):
    def observe(self, sim):
        return np.zeros(6)


class Lumped(Hover):
    def score(self, sim, obs):
        return super().score(sim, obs)[0], False


class Scoreless(ScriptEnv):
    build = Hover.build
    act = Hover.act
    observe = Hover.observe


def test_what_a_class_lacks_is_named():
    with pytest.raises(TypeError, match=r"Scoreless.*score"):
        Scoreless(2, device="cpu")
    env = Lumped(6, device="cpu")
    env.reset()
    with pytest.raises(
        NewtonsimError, match=r"score: expected terminations in shape \(6,\), Lumped returned \(\)"
    ):
        env.step(np.zeros((6, 1)))
    env.close()
    with pytest.raises(NewtonsimError, match="Sizeless: expected action_size or single_action_space"):
        Sizeless(2, device="cpu")
    env = Crooked(6, device="cpu")
    with pytest.raises(NewtonsimError, match=r"observe: expected shape \(6, 2\), Crooked returned \(6,\)"):
        env.reset()
    env.close()


class Scored(Hover):
    scores: tuple = ()

    def score(self, sim, obs):
        return self.scores


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((np.zeros((3, 1)), np.zeros(3, bool)), r"rewards in shape \(3,\), Scored returned \(3, 1\)"),
        ((np.zeros(3), False), r"terminations in shape \(3,\), Scored returned \(\)"),
        ((np.zeros(3), np.zeros(3, bool), True), r"successes in shape \(3,\), Scored returned \(\)"),
        ((np.zeros(3),), "two or three arrays, Scored returned 1"),
    ],
)
def test_scores_of_other_shapes_are_refused(scores, said):
    env = Scored(3, device="cpu")
    env.scores = scores
    env.reset()
    with pytest.raises(NewtonsimError, match=f"score: expected {said}"):
        env.step(np.zeros((3, 1)))
    env.close()


def test_gymnasium_and_stable_baselines3_take_it():
    wrapped = RecordEpisodeStatistics(Hover(3, device="cpu", episode_infos=False))
    wrapped.reset(seed=0)
    infos: dict = {}
    while "episode" not in infos:
        infos = wrapped.step(wrapped.action_space.sample())[4]
    assert infos["episode"]["l"].max() > 1
    wrapped.close()
    env = Sb3Env(Hover(4, device="cpu"))
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, device="cpu", seed=0)
    model.learn(128)
    assert len(model.ep_info_buffer) > 4
    assert all(0 < info["l"] <= 12 for info in model.ep_info_buffer)
    env.seed(7)
    assert (env.reset() == env.env.reset(seed=[7, 8, 9, 10])[0]).all()
    env.close()


def test_arms_reach_as_under_pybullet():
    """The example's worlds and the real module go to the same goals by the same rule, in 20 actions."""
    pybullet = pytest.importorskip("pybullet")
    env = panda_reaches.PandaReach(2, device="cpu", max_episode_steps=0)
    obs, _ = env.reset(seed=4)
    goals, places = env.goal.copy(), [obs[:, :3]]
    for _ in range(20):
        obs, *_, infos = env.step(np.clip(20.0 * obs[:, 3:], -1.0, 1.0))
        places.append(obs[:, :3])
    assert infos["is_success"].all()
    env.close()
    at = {"physicsClientId": pybullet.connect(pybullet.DIRECT)}
    pybullet.setAdditionalSearchPath(getDataPath(), **at)
    pybullet.setGravity(0, 0, -9.81, **at)
    arm = pybullet.loadURDF("franka_panda/panda.urdf", [-0.6, 0, 0], useFixedBase=True, **at)
    link, forces = panda_reaches.HAND, panda_reaches.FORCES

    def hand():
        return np.array(pybullet.getLinkState(arm, link, computeForwardKinematics=1, **at)[0])

    for world, goal in enumerate(goals):
        for joint, angle in enumerate(panda_reaches.NEUTRAL):
            pybullet.resetJointState(arm, joint, angle, **at)
        for place in places:
            assert place[world] == pytest.approx(hand(), abs=2e-3)
            target = hand() + 0.05 * np.clip(20.0 * (goal - hand()), -1.0, 1.0)
            angles = pybullet.calculateInverseKinematics(arm, link, target, panda_reaches.DOWN, **at)
            mode = pybullet.POSITION_CONTROL
            pybullet.setJointMotorControlArray(arm, range(7), mode, angles[:7], forces=forces, **at)
            for _ in range(env.frame_skip):
                pybullet.stepSimulation(**at)
    pybullet.disconnect(**at)


@pytest.mark.slow
def test_arms_learn_to_reach(capsys):
    panda_reaches.main(num_envs=64, samples=6400, device="cpu")
    assert "of 64 goals reached before" in capsys.readouterr().out
