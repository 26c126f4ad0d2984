"""Whether a policy does its task is told in units of the task, beside the return."""

import re
from pathlib import Path

import numpy as np
import pytest
from small_quadruped import quadruped

from newtonsim import envs
from newtonsim.cli.main import main
from newtonsim.envs.terms import robots
from newtonsim.learn import Run, Training, evaluate, settings_of
from newtonsim.learn.collect import Rollout
from newtonsim.learn.workers import LocalWorkers

SMALL = {"num_envs": 6, "steps": 8, "samples": 96, "hidden": (8,), "mini_batches": 2}
NUMBER = r"[0-9]+\.[0-9]+"
TOLD = (
    rf"velocity error {NUMBER} m/s \({NUMBER} standing still\), turning error {NUMBER} rad/s \({NUMBER} "
    rf"standing still\), contacts besides the feet {NUMBER} %"
)


def test_standing_earns_but_does_not_follow_commands():
    """Errors of a robot that stands are those that the metric gives for standing still."""
    env = envs.make("Velocity", 8, "cpu", threads=1, max_episode_steps=200, still=0.0)
    found = evaluate(lambda obs: np.zeros((len(obs), 12), np.float32), env, 8, seed=1)
    assert np.all(found.returns > 0.0)
    for name in ("velocity error", "turning error"):
        error = found.metrics[name]
        assert error.at_rest is not None
        np.testing.assert_allclose(error.values, error.at_rest, rtol=0.1, atol=0.02)
    # means of a uniform draw: half of the largest turning, and more than that of the largest speed forward
    assert found.metrics["turning error"].at_rest.mean() == pytest.approx(0.5, abs=0.25)
    assert found.metrics["velocity error"].at_rest.mean() > 0.3


@pytest.mark.parametrize("name", ["Velocity", "Quadruped"])
def test_errors_are_those_of_what_the_policy_observes(name: str):
    """Velocity, spin and command are numbers 1 to 3, 4 to 6 and 10 to 12 of the observation."""
    env = envs.make(name, 3, "cpu", threads=1, max_episode_steps=30)
    rng = np.random.default_rng(0)
    seen = []

    def policy(obs: np.ndarray) -> np.ndarray:
        seen.append(obs)
        return rng.uniform(-0.5, 0.5, (3, 12)).astype(np.float32)

    found = evaluate(policy, env, 3, seed=2)
    # after the first step and until the last but one, which ends the episode
    obs = np.array(seen[1:30])
    assert np.all(found.lengths == 30)
    off = np.linalg.norm(obs[:, :, 9:11] - obs[:, :, :2], axis=2).mean(axis=0)
    np.testing.assert_allclose(found.metrics["velocity error"].values, off, rtol=1e-4)
    off = np.abs(obs[:, :, 11] - obs[:, :, 5]).mean(axis=0)
    np.testing.assert_allclose(found.metrics["turning error"].values, off, rtol=1e-4)
    assert found.metrics["turning error"].unit == "rad/s"


def test_a_training_knows_them_of_all_worlds():
    """From two collectors, which have three worlds each, as from the worlds themselves."""
    run = Run("Velocity", settings_of("Velocity", SMALL))
    workers = LocalWorkers(run.plan("cpu"), 2)
    learner_weights = workers._collectors[0].actor.state_dict()
    rollouts = workers.collect(learner_weights, 0)
    joined = Rollout.joined(rollouts)
    last = joined.last_obs.numpy()
    error = joined.metrics["velocity error"]
    np.testing.assert_allclose(error.values, np.linalg.norm(last[:, 9:11] - last[:, :2], axis=1), rtol=1e-4)
    np.testing.assert_allclose(error.at_rest, np.linalg.norm(last[:, 9:11], axis=1), rtol=1e-5)
    workers.close()


def test_a_training_knows_how_often_the_goal_was_reached(tmp_path: Path):
    """Drones that start at their points and whose episodes last a step are there; those far away are not."""
    for offset, reached in ((0.0, True), (1.5, False)):
        at = {"in_air": {"offset": offset, "tilt": 0.0, "speed": 0.0, "spin": 0.0}}
        options = {"max_episode_steps": 1, "events": at}
        training = Training(Run("Hover", settings_of("Hover", SMALL), options), tmp_path / str(offset), "cpu")
        training.step()
        assert len(training.progress.reached) == len(training.progress.returns) > 0
        assert np.mean(training.progress.reached) == pytest.approx(float(reached), abs=0.2)
        training.close()


def test_all_commands_tell_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """In the line of progress and at the end of a training, and where its policy is played."""
    numbers = ["--num-envs", "8", "--samples", "400", "--set", "steps=10", "--set", "mini_batches=2"]
    options = ["--option", "max_episode_steps=20", "--device", "cpu", "--no-video"]
    assert main(["train", "Velocity", "--folder", str(tmp_path), *numbers, *options]) == 0
    said = capsys.readouterr()
    assert re.search(rf"Velocity: .* samples, .* {TOLD}", said.err)
    assert re.search(rf"without noise: return .*, {TOLD}", said.out)
    assert main(["play", str(tmp_path), "--episodes", "2", "--device", "cpu"]) == 0
    assert re.search(rf"return .*, {TOLD}", capsys.readouterr().out)
    assert main(["transfer", str(tmp_path), "--episodes", "2", "--seeds", "5"]) == 0
    told = capsys.readouterr().out
    assert re.search(rf"return of all seeds: -?{NUMBER} here, -?{NUMBER} in mujoco", told)
    error = rf"{NUMBER} m/s \({NUMBER} standing still\)"
    assert re.search(rf"velocity error of all seeds: {error} here, {error} in mujoco", told)


def test_commands_say_what_touches_besides_the_feet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """A robot without strength lies on the ground; training alone tells gains that follow from masses."""
    robot = tmp_path / "pup.urdf"
    robot.write_text(quadruped())
    numbers = ["--num-envs", "8", "--samples", "800", "--set", "steps=10", "--set", "mini_batches=2"]
    task = {"robot": str(robot), "base": "trunk", "feet": "*_lower", "ends": {"low": None}, "stiffness": 0.01}
    options = [f"{name}={value}" for name, value in {**task, "max_episode_steps": 100}.items()]
    train = [
        "train",
        "Velocity",
        "--folder",
        str(tmp_path / "run"),
        *numbers,
        "--device",
        "cpu",
        "--no-video",
    ]
    play = ["play", str(tmp_path / "run"), "--episodes", "2", "--device", "cpu"]
    transfer = ["transfer", str(tmp_path / "run"), "--episodes", "2", "--seeds", "5"]
    for command in ([*train, *(part for option in options for part in ("--option", option))], play, transfer):
        monkeypatch.setattr(robots, "_told", set())
        assert main(command) == 0
        said = capsys.readouterr()
        notes = re.findall(r"^note: .*?(?=^\S|\Z)", said.out, re.MULTILINE | re.DOTALL)
        assert len(notes) == 1, said.out
        assert re.match(rf"note: contacts besides the feet {NUMBER} % \(.*_upper \d+", notes[0])
        assert ("has no gains of drives" in " ".join(said.err.split())) == (command[0] == "train")


def test_a_level_is_played_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options = {"levels": 4, "kinds": ["rough"], "max_episode_steps": 5}
    training = Training(Run("VelocityRough", settings_of("VelocityRough", SMALL), options), tmp_path, "cpu")
    training.step()
    training.finish()
    play = ["play", str(tmp_path), "--episodes", "4", "--device", "cpu"]
    assert main(play) == 0
    assert (
        "levels 1 (easy) to 4: episodes start on 1 to 3 and grow harder or easier" in capsys.readouterr().out
    )
    for level in (1, 4):
        assert main([*play, "--level", str(level)]) == 0
        assert f"level {level}.000, " in capsys.readouterr().out
    assert main([*play, "--level", "5"]) == 2
    assert "--level: expected 1 to 4, got 5" in capsys.readouterr().err
