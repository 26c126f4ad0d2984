"""The example of SAC learns within its time, and what it has learned plays."""

import re
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import SAC

from newtonsim import envs
from newtonsim.adapters.stable_baselines3_env import Sb3Env
from newtonsim.cli.main import main
from newtonsim.examples.learning import sac_double_pendulum
from newtonsim.learn import PolicyFile, save_policy


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
    act = sac_double_pendulum.policy_of(model)
    path = tmp_path / "pendulum.onnx"
    save_policy(path, act, "Hopper", samples=20)
    seen = np.random.default_rng(0).normal(size=(20, 11)).astype(np.float32)
    wanted = model.predict(seen, deterministic=True)[0]
    assert np.ptp(wanted) > 0.1
    np.testing.assert_allclose(PolicyFile(path)(seen), wanted, atol=1e-5)
    assert main(["play", str(path), "--device", "cpu", "--episodes", "4"]) == 0
    assert "Hopper, learned from 20 samples" in capsys.readouterr().out
