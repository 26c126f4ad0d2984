"""Training that starts from another policy: it acts alike at first, whatever is added."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newtonsim.errors import NewtonsimError
from newtonsim.learn import PolicyFile, Run, Training, settings_of
from newtonsim.learn.learner import Learner
from newtonsim.learn.training import read_beginning

SMALL = {"num_envs": 4, "steps": 10, "samples": 80, "hidden": (8, 6), "mini_batches": 2}
PATCH = {"levels": 1, "kinds": ["rough"]}


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a short run on flat ground."""
    folder = tmp_path_factory.mktemp("flat")
    training = Training(Run("Velocity", settings_of("Velocity", SMALL)), folder, "cpu")
    while not training.done:
        training.step()
    training.finish()
    return folder


def started(
    folder: Path, path: Path, name: str = "VelocityRough", options: Any = PATCH, **changes: Any
) -> Training:
    settings = settings_of(name, {**SMALL, "init_std": 0.3, **changes})
    return Training(Run(name, settings, options, start=str(path)), folder, "cpu")


def answers(learner: Learner, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions and the values of observations."""
    groups = learner.policy.groups(torch.from_numpy(seen))
    with torch.no_grad():
        return learner.policy.to_env(learner.ppo.actor(groups)).numpy(), learner.ppo.critic(groups).numpy()


@pytest.mark.parametrize("hidden", [(8, 6), (20, 9)])
@pytest.mark.parametrize("file", ["", "policy.onnx"])
def test_it_acts_at_first_as_the_policy_that_it_starts_from(
    hidden: tuple[int, ...], file: str, flat: Path, tmp_path: Path
):
    """Also with more observations and wider layers; a folder has the critic as well, a file has none."""
    training = started(tmp_path, flat / file, hidden=hidden)
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(50, 93)).astype(np.float32)
    seen[:, 2] *= 100.0  # far from the mean, where normalisation matters
    actions, values = answers(training.learner, seen)
    policy = PolicyFile(flat / "policy.onnx")
    np.testing.assert_allclose(actions, policy(seen[:, :48]), atol=1e-5)
    before = Training(Run.read(flat), flat, "cpu")
    same = np.allclose(values, answers(before.learner, seen[:, :48])[1], atol=1e-4)
    assert same == (file == "")
    noise = training.learner.weights()["distribution.log_std_param"].exp()
    np.testing.assert_allclose(noise, 0.3, rtol=1e-5)
    before.close()
    training.close()


def test_new_observations_and_neurons_learn(flat: Path, tmp_path: Path):
    """No part of a widened network is stuck where its gradient vanishes."""
    training = started(tmp_path, flat, hidden=(20, 9), samples=160)
    first = {name: value.clone() for name, value in training.learner.weights().items()}
    while not training.done:
        training.step()
    now = training.learner.weights()
    moved = {name: np.abs((value - first[name]).numpy()) for name, value in now.items()}
    for layer, (rows, columns) in {0: (20, 93), 2: (9, 20), 4: (12, 9)}.items():
        change = moved[f"mlp.{layer}.weight"]
        assert change.shape == (rows, columns)
        assert np.all(change.max(axis=1) > 0.0)
        assert np.mean(change > 0.0) > 0.95
    assert np.ptp(now["obs_normalizer._mean"][0, 48:].numpy()) > 0.0
    training.finish()
    assert PolicyFile(tmp_path / "policy.onnx").about["start"] == str(flat)


def test_a_run_that_goes_on_does_not_start_again(flat: Path, tmp_path: Path):
    training = started(tmp_path, flat)
    training.step()
    training.save()
    training.close()
    again = started(tmp_path, flat)
    assert again.progress.iteration == 1
    for name, value in training.learner.weights().items():
        np.testing.assert_array_equal(again.learner.weights()[name], value)
    again.close()
    with pytest.raises(NewtonsimError, match=r"run\.json: the run in this folder has start = "):
        Training(Run("VelocityRough", again.run.settings, PATCH), tmp_path, "cpu")


@pytest.mark.parametrize(
    ("name", "options", "changes", "message"),
    [
        ("Hover", {}, {}, "it has 48 observations, the new policy "),
        ("Velocity", {"robot": "g1_like"}, {}, "it has 12 actions, the new policy 29"),
        ("Velocity", {}, {"hidden": (8,)}, "expected a policy with 1 hidden layers, as the new one"),
        ("Velocity", {}, {"hidden": (8, 4)}, "its layers are wider than those of the new run"),
        ("Velocity", {}, {"activation": "relu"}, "its activation is 'elu', that of the new run 'relu'"),
        ("Velocity", {}, {"normalise": False}, "its normalise is True, that of the new run False"),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, options: dict[str, Any], changes: dict[str, Any], message: str, flat: Path, tmp_path: Path
):
    folder = tmp_path / "run"
    with pytest.raises(NewtonsimError, match=message):
        started(folder, flat, name, options, **changes)
    # what is refused leaves nothing in the way of the next try
    assert not folder.exists()


def test_what_is_no_policy_is_refused(flat: Path, tmp_path: Path):
    with pytest.raises(NewtonsimError, match="expected an ONNX file"):
        read_beginning(flat / "run.json")
    with pytest.raises(FileNotFoundError):
        read_beginning(tmp_path / "nothing.onnx")
    with pytest.raises(FileNotFoundError):
        read_beginning(tmp_path)


def test_a_critic_with_privileged_observations_elsewhere_is_not_taken(tmp_path: Path):
    """They follow the observations: of the same task they fit, of one that observes more they do not."""
    options = {"privileged": {"height": {}}}
    first = Training(Run("Velocity", settings_of("Velocity", SMALL), options), tmp_path / "one", "cpu")
    first.step()
    first.finish()
    weights = first.learner.ppo.critic.state_dict()["mlp.0.weight"].numpy()
    for name, more, fits in (("Velocity", {}, True), ("VelocityRough", PATCH, False)):
        training = started(tmp_path / name, tmp_path / "one", name, {**options, **more})
        taken = training.learner.ppo.critic.state_dict()["mlp.0.weight"][:, :48].numpy()
        assert np.array_equal(taken, weights[:, :48]) == fits
        training.close()


def test_policies_from_pictures_begin_with_each_other(flat: Path, tmp_path: Path):
    """They act alike at first, of the same size alone, and neither begins with one that sees no pictures."""
    small = {**SMALL, "hidden": (8,)}
    options = {"screen_size": 36, "samples": 1}
    training = Training(
        Run("CartPoleVision", settings_of("CartPoleVision", small), options), tmp_path / "a", "cpu"
    )
    while not training.done:
        training.step()
    training.save()
    training.close()
    begun = started(tmp_path / "b", tmp_path / "a", "CartPoleVision", options, hidden=(12,))
    seen = np.random.default_rng(0).integers(0, 256, (5, 36, 36, 4)).astype(np.uint8)
    groups = begun.learner.policy.groups(torch.from_numpy(seen))
    kept = torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)
    fresh = Learner(begun.learner.policy, settings_of("CartPoleVision", small), 5, "cpu")
    fresh.ppo.actor.load_state_dict(kept["best"])
    fresh.ppo.critic.load_state_dict(kept["learner"]["critic_state_dict"])
    for role in ("actor", "critic"):
        with torch.no_grad():
            new, old = (getattr(learner.ppo, role)(groups) for learner in (begun.learner, fresh))
        torch.testing.assert_close(new, old, atol=1e-5, rtol=1e-5)
        assert role == "actor" or old.std() > 1e-5
    begun.close()
    with pytest.raises(NewtonsimError, match="it observes other pictures than the new policy, or none"):
        started(tmp_path / "c", tmp_path / "a", "CartPoleVision", {**options, "screen_size": 44}, hidden=(8,))
    with pytest.raises(NewtonsimError, match="it observes other pictures than the new policy, or none"):
        started(tmp_path / "d", flat, "CartPoleVision", options, hidden=(8, 6))
