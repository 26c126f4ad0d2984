"""Whole runs: they learn, and go on after a kill as if the lost part had never been."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rsl_rl.algorithms import PPO

from newtonsim import envs
from newtonsim.cli.main import main
from newtonsim.errors import NewtonsimError
from newtonsim.learn import PolicyFile, Run, Training, evaluate, settings_of
from newtonsim.learn import training as training_module
from newtonsim.learn.collect import Rollout
from newtonsim.learn.training import write_policy

SMALL = {"num_envs": 8, "steps": 10, "samples": 400, "hidden": (8,), "mini_batches": 2}


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "curve.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def play(folder: Path) -> str:
    command = [sys.executable, "-m", "newtonsim", "play", str(folder), "--episodes", "20", "--num-envs", "10"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_cartpole_is_solved(tmp_path):
    run = Run("CartPole", settings_of("CartPole", {"samples": 700_000}))
    training = Training(run, tmp_path, "cpu")
    while not training.done and not training.progress.mean_return > 490.0:
        training.step()
    policy = training.finish()
    env = envs.make("CartPole", 50, "cpu")
    assert evaluate(policy, env, 100).returns.mean() >= 475.0
    env.close()


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    """What was learned after the checkpoint is forgotten, and learned again from other samples."""
    run = Run("Reacher", settings_of("Reacher", SMALL), {"max_episode_steps": 5})
    first = Training(run, tmp_path, "cpu")
    for k in range(4):
        first.step()
        if k == 1:
            first.save()
            saved = first.learner.weights()
    first.close()  # as if it were killed
    second = Training(run, tmp_path, "cpu")
    assert second.progress.iteration == 2
    for name, value in second.learner.weights().items():
        np.testing.assert_array_equal(value, saved[name])
    while not second.done:
        second.step()
    second.finish()
    assert second.progress.samples == 400
    rows = rows_of(tmp_path)
    assert [int(row["iteration"]) for row in rows] == [1, 2, 3, 4, 5]
    assert [int(row["samples"]) for row in rows] == [80, 160, 240, 320, 400]
    about = PolicyFile(tmp_path / "policy.onnx").about
    assert about["name"] == "Reacher"
    assert about["options"] == {"max_episode_steps": 5}


def test_a_run_of_a_gpu_goes_on_without_one(tmp_path, monkeypatch):
    run = Run("Reacher", settings_of("Reacher", SMALL))
    training = Training(run, tmp_path, "cpu")
    training.step()
    with monkeypatch.context() as patched:
        patched.setattr(torch.serialization, "location_tag", lambda storage: "cuda:7")
        training.save()
    training.close()
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(tmp_path / "checkpoint.pt")
    again = Training(run, tmp_path, "cpu")
    assert again.progress.iteration == 1
    again.close()
    assert write_policy(tmp_path).exists()


def test_a_folder_belongs_to_one_run(tmp_path):
    Training(Run("Reacher", settings_of("Reacher", SMALL)), tmp_path, "cpu").close()
    other = Run("Reacher", settings_of("Reacher", {**SMALL, "gamma": 0.5}))
    with pytest.raises(
        NewtonsimError, match=r"run\.json: the run in this folder has settings\.gamma = 0\.99, not 0\.5"
    ):
        Training(other, tmp_path, "cpu")


def test_a_run_that_had_ended_goes_on_with_more_samples(tmp_path):
    for samples in (160, 320):
        run = Run("Reacher", settings_of("Reacher", {**SMALL, "samples": samples}))
        training = Training(run, tmp_path, "cpu")
        while not training.done:
            training.step()
        training.save()
        training.close()
        assert training.progress.samples == samples
    assert [int(row["iteration"]) for row in rows_of(tmp_path)] == [1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"{}"])
def test_a_damaged_checkpoint_is_named(content: bytes, tmp_path):
    run = Run("Reacher", settings_of("Reacher", SMALL))
    Training(run, tmp_path, "cpu").close()
    (tmp_path / "checkpoint.pt").write_bytes(content)
    for read in (lambda: Training(run, tmp_path, "cpu"), lambda: write_policy(tmp_path)):
        with pytest.raises(NewtonsimError, match=r"checkpoint\.pt: damaged, or not a checkpoint; remove it"):
            read()


def test_a_checkpoint_that_was_cut_off_is_named(tmp_path):
    """Wherever it was, as on a full disk: torch raises errors of several kinds, among them of the system."""
    training = Training(Run("Reacher", settings_of("Reacher", SMALL)), tmp_path, "cpu")
    training.save()
    training.close()
    path = tmp_path / "checkpoint.pt"
    whole = path.read_bytes()
    for share in np.linspace(0.0, 0.99, 34):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(NewtonsimError, match=r"checkpoint\.pt: damaged, or not a checkpoint; remove it"):
            write_policy(tmp_path)


@pytest.mark.parametrize("content", ["", '{"name": "Reacher"', '{"name": "Reacher"}', "3"])
def test_a_damaged_run_is_named(content: str, tmp_path):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(NewtonsimError, match=r"run\.json: damaged"):
        Training(Run("Reacher", settings_of("Reacher", SMALL)), tmp_path, "cpu")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(NewtonsimError, match="run: expected a folder, got a file"):
        Training(Run("Reacher", settings_of("Reacher", SMALL)), tmp_path / "run", "cpu")


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_policy_that_is_kept_is_the_best_or_the_last(keep: str, tmp_path, monkeypatch):
    """Returns that fall, as where a task grows harder, count for the one and not for the other."""
    run = Run("Reacher", settings_of("Reacher", {**SMALL, "keep": keep}), {"max_episode_steps": 5})
    training = Training(run, tmp_path, "cpu")
    monkeypatch.setattr(training_module, "WINDOW", 8)
    count = training._count

    def count_worse(rollout: Rollout) -> None:
        rollout.returns = torch.full_like(rollout.returns, 10.0 - training.progress.iteration)
        count(rollout)

    monkeypatch.setattr(training, "_count", count_worse)
    acted = []
    while not training.done:
        acted.append(training.learner.weights())
        training.step()
    training.save()
    training.close()
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    expected = acted[0 if keep == "best" else -1]
    np.testing.assert_array_equal(kept["best"]["mlp.0.weight"], expected["mlp.0.weight"])
    assert kept["progress"]["best"] == (10.0 if keep == "best" else 6.0)


def test_the_curve_can_be_watched(tmp_path):
    training = Training(Run("Reacher", settings_of("Reacher", SMALL)), tmp_path, "cpu")
    for iteration in (1, 2):
        training.step()
        assert [int(row["iteration"]) for row in rows_of(tmp_path)] == [*range(1, iteration + 1)]
    training.close()


def test_wrong_activations_are_refused():
    with pytest.raises(NewtonsimError, match=r"activation: .*foo"):
        settings_of("Reacher", {"activation": "foo"})


def test_wrong_options_are_named():
    with pytest.raises(
        NewtonsimError, match="Ant: there is no option 'healthy_rewards'; did you mean 'healthy_reward'"
    ):
        Run("Ant", settings_of("Ant"), {"healthy_rewards": 1})


def test_options_must_be_writable():
    with pytest.raises(NewtonsimError, match="options: expected values that JSON can hold"):
        Run("Ant", settings_of("Ant"), {"healthy_z_range": np.array([0.2, 1.0])})


def test_a_missing_library_for_the_video_is_told_before_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    folder = tmp_path / "run"
    assert main(["train", "Reacher", "--folder", str(folder), "--device", "cpu"]) == 2
    assert "imageio" in capsys.readouterr().err
    assert not folder.exists()


def command_of(folder, iterations: int) -> list[str]:
    small = ["--num-envs", "8", "--set", "steps=8", "--set", "hidden=(8,)", "--samples", str(64 * iterations)]
    return ["train", "CartPole", "--folder", str(folder), "--device", "cpu", "--no-video", *small]


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_iteration_is_learned_once(signals: int, tmp_path, monkeypatch, capsys):
    """Ctrl-C in the middle of an update ends the run after it; a second one leaves the last checkpoint."""
    assert main(command_of(tmp_path / "three", 3)) == 0
    update = PPO.update
    done = []

    def interrupted(ppo: PPO):
        done.append(1)
        if len(done) == 3:
            for _ in range(signals):
                signal.raise_signal(signal.SIGINT)
        return update(ppo)

    monkeypatch.setattr(PPO, "update", interrupted)
    before = signal.getsignal(signal.SIGINT)
    capsys.readouterr()
    command = [*command_of(tmp_path / "many", 20), "--save-every", "1e-6"]
    assert main(command) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert "the same command continues" in capsys.readouterr().err
    kept = torch.load(tmp_path / "many" / "checkpoint.pt", weights_only=True)
    assert kept["progress"]["iteration"] == len(rows_of(tmp_path / "many")) == 4 - signals
    if signals == 1:
        whole = torch.load(tmp_path / "three" / "checkpoint.pt", weights_only=True)
        torch.testing.assert_close(kept["learner"], whole["learner"], atol=0.0, rtol=0.0)
    assert main(command_of(tmp_path / "many", 20)) == 0
    assert [int(row["iteration"]) for row in rows_of(tmp_path / "many")] == list(range(1, 21))


def test_a_run_in_the_background_ignores_interruptions(tmp_path, monkeypatch):
    """Of a command with an ampersand, shells without job control have Ctrl-C ignored; so does the run."""
    update = PPO.update

    def interrupted(ppo: PPO):
        signal.raise_signal(signal.SIGINT)
        return update(ppo)

    monkeypatch.setattr(PPO, "update", interrupted)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(command_of(tmp_path, 3)) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(rows_of(tmp_path)) == 3


@pytest.mark.slow
def test_the_command_survives_a_kill(tmp_path):
    """SIGKILL in mid-run; the same command ends the run with every iteration counted once."""
    command = [sys.executable, "-m", "newtonsim", "train", "CartPole", "--folder", str(tmp_path)]
    command += ["--samples", "20000", "--num-envs", "32", "--device", "cpu", "--set", "steps=8"]
    process = subprocess.Popen([*command, "--save-every", "0.2"], stderr=subprocess.PIPE, text=True)
    checkpoint = tmp_path / "checkpoint.pt"
    deadline = time.monotonic() + 120.0
    while not checkpoint.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "policy.onnx").exists()
    assert "20 episodes" in play(tmp_path)  # from the checkpoint
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert "continuing after" in result.stdout
    iterations = math.ceil(20000 / 256)
    rows = rows_of(tmp_path)
    assert [int(row["iteration"]) for row in rows] == list(range(1, iterations + 1))
    assert int(rows[-1]["samples"]) == 256 * iterations
    assert (tmp_path / "video.mp4").stat().st_size > 1000
    assert any(name.startswith("events.out.tfevents") for name in os.listdir(tmp_path))
    assert json.loads((tmp_path / "run.json").read_text())["name"] == "CartPole"
    assert "20 episodes" in play(tmp_path)


def test_evaluation_needs_the_infos_of_episodes():
    env = envs.make("CartPole", 2, "cpu", episode_infos=False)
    with pytest.raises(NewtonsimError, match="expected an environment with episode_infos=True"):
        evaluate(lambda obs: np.zeros(2, int), env)
    env.close()


def test_episodes_that_end_before_their_time_are_counted():
    """A pole that is pushed to one side falls in every episode; one whose episodes are short never does."""
    for steps, early in ((0, 4), (3, 0)):
        options = {"max_episode_steps": steps} if steps else {}
        env = envs.make("CartPole", 2, "cpu", episode_infos=True, **options)
        found = evaluate(lambda obs: np.ones(2, int), env, episodes=4)
        env.close()
        assert found.early == early
        assert ("4 of them ended early" in str(found)) == bool(early)


def test_a_run_whose_time_is_used_up_says_so(tmp_path, capsys):
    command = ["train", "CartPole", "--folder", str(tmp_path), "--num-envs", "8", "--set", "steps=8"]
    command += ["--device", "cpu", "--no-video", "--seconds", "0.05"]
    told = []
    for _ in range(2):
        assert main(command) == 0
        told.append(capsys.readouterr().out)
    assert "has trained for" not in told[0]
    assert "to go on, give more --seconds than that" in told[1]
    assert "continuing after" not in told[1]
