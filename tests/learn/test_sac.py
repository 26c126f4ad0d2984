"""The example of SAC learns within its time, and what it has learned plays."""

import re
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import SAC

from newtonsim import envs
from newtonsim.adapters.stable_baselines3_env import Sb3Env
from newtonsim.cli.main import main
from newtonsim.errors import NewtonsimError
from newtonsim.examples.learning import sac_double_pendulum
from newtonsim.learn import PolicyFile, Run, sac_settings, save_policy
from newtonsim.learn.sac import SacTraining, acting


@pytest.mark.slow
def test_double_pendulums_learn_to_stand(capsys: pytest.CaptureFixture):
    """Without control they fall within about ten steps, each of which earns at most ten."""
    sac_double_pendulum.main()
    before, after = map(float, re.findall(r"(\d+) (?:before|after)", capsys.readouterr().out))
    assert before < 200.0
    assert after > 1000.0


def test_what_sac_has_learned_is_a_file_that_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It acts as stable-baselines3 does, whose actors know actions of ±1: here they are from -0.5 to 1."""
    env = Sb3Env(envs.make("Hopper", num_envs=4, device="cpu"))
    env.action_space.low[:] = -0.5
    model = SAC("MlpPolicy", env, policy_kwargs={"net_arch": [16]}, buffer_size=100, seed=0, device="cpu")
    path = tmp_path / "pendulum.onnx"
    save_policy(path, acting(model), "Hopper", samples=20)
    seen = np.random.default_rng(0).normal(size=(20, 11)).astype(np.float32)
    wanted = model.predict(seen, deterministic=True)[0]
    assert np.ptp(wanted) > 0.1
    np.testing.assert_allclose(PolicyFile(path)(seen), wanted, atol=1e-5)
    assert main(["play", str(path), "--device", "cpu", "--episodes", "4"]) == 0
    assert "Hopper, learned from 20 samples" in capsys.readouterr().out


SMALL = {"num_envs": 4, "steps": 10, "samples": 160, "random_samples": 20, "batch_size": 8, "hidden": (8,)}


def test_a_run_of_sac_goes_on_from_its_checkpoint(tmp_path: Path):
    """With the weights, the samples in the buffer, in their order, and the episodes that it had."""
    run = Run("Hopper", sac_settings({**SMALL, "buffer_size": 60}), {"max_episode_steps": 5})
    first = SacTraining(run, tmp_path, "cpu")
    for _ in range(2):
        first.step()
    first.save()
    first.close()
    second = SacTraining(run, tmp_path, "cpu")
    for old, new in zip(first.model.policy.parameters(), second.model.policy.parameters(), strict=True):
        assert bool((old == new).all())
    assert second.model.log_ent_coef == first.model.log_ent_coef
    old, new = first.model.replay_buffer, second.model.replay_buffer
    assert old.full
    assert new.full
    order = np.arange(old.pos, old.pos + 15) % 15  # the oldest first
    np.testing.assert_array_equal(new.observations, old.observations[order])
    np.testing.assert_array_equal(new.rewards, old.rewards[order])
    assert second.progress.samples == 80
    assert second.progress.returns == first.progress.returns
    second.step()
    # four worlds, two episodes of five steps each in an iteration of ten
    assert len(second.progress.returns) == len(first.progress.returns) + 8
    while not second.done:
        second.step()
    policy = second.finish()
    assert policy.about["samples"] == second.progress.samples == 160
    seen = np.random.default_rng(0).normal(size=(7, 11)).astype(np.float32)
    assert np.abs(policy(seen) - second.model.predict(seen, deterministic=True)[0]).max() < 1e-5


def test_the_command_trains_by_sac(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(tmp_path / "run")
    settings = [f"--set={name}={value}" for name, value in SMALL.items()]
    command = ["train", "Hopper", "--algorithm", "sac", "--folder", folder, "--device", "cpu", "--no-video"]
    assert main([*command, *settings]) == 0
    assert "without noise: return" in capsys.readouterr().out
    (tmp_path / "run" / "policy.onnx").unlink()  # as in a run that was killed
    assert main(["play", folder, "--device", "cpu", "--episodes", "4"]) == 0
    assert "Hopper, learned from 160 samples" in capsys.readouterr().out
    assert main([*command, *settings, "--set=updates=3"]) == 2
    assert "settings.updates = 4, not 3" in capsys.readouterr().err
    for wrong, error in (("--start=x", "start: only"), ("--ray-workers=2", "--ray-workers: --algorithm sac")):
        assert main([*command[:-1], "--folder", str(tmp_path / "other"), "--no-video", wrong]) == 2
        assert error in capsys.readouterr().err


def test_what_sac_cannot_learn_is_refused(tmp_path: Path):
    for name in ("CartPole", "ReacherVision"):
        with pytest.raises(NewtonsimError, match=f"{name}: soft actor-critic takes vectors"):
            SacTraining(Run(name, sac_settings({"num_envs": 1})), tmp_path / name, "cpu")
    assert not list(tmp_path.iterdir())
