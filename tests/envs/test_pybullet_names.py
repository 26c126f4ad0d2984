"""Names of PyBullet's environments: all are known, and what they become is said once."""

import re
import warnings
from pathlib import Path

import gymnasium
import pytest

from newtonsim import envs
from newtonsim.envs import pybullet_names
from newtonsim.errors import NewtonsimError, SubstitutedEnvironmentWarning


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pybullet_names, "_told", set())


def test_every_registered_name_is_known():
    package = pytest.importorskip("pybullet").__file__
    text = (Path(package).parent / "pybullet_envs" / "__init__.py").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    registered = set(re.findall(r"id='([^']+)'", text))
    assert len(registered) > 25
    assert registered == set(pybullet_names.ORIGINALS) | set(pybullet_names.CLOSEST)


def test_counterparts_exist():
    assert {original.counterpart for original in pybullet_names.ORIGINALS.values()} <= set(envs.names())
    assert set(pybullet_names.CLOSEST.values()) <= set(envs.names())


def test_the_warning_says_what_differs_and_comes_once():
    expected = (
        "AntBulletEnv-v0 is replaced by newtonsim's Ant, which has its own robot, reward and start; an "
        "observation of 105 numbers instead of an observation of 28 numbers; 0.05 s for an action instead "
        "of 0.0165 s for an action"
    )
    with pytest.warns(SubstitutedEnvironmentWarning) as caught:
        env = envs.make("AntBulletEnv-v0", 2, device="cpu")
    assert str(caught[0].message) == expected
    assert env.task.name == "Ant"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs.make("AntBulletEnv-v0", 2, device="cpu")
        envs.make("Ant", 2, device="cpu")


def test_gymnasium_makes_them():
    with pytest.warns(SubstitutedEnvironmentWarning, match="replaced by .*CartPole,.*episodes of 500"):
        single = gymnasium.make("CartPoleBulletEnv-v1", device="cpu")
    assert single.spec.max_episode_steps == 500
    assert single.reset(seed=0)[0].shape == (4,)
    with pytest.warns(SubstitutedEnvironmentWarning, match=r"0.1 s for an action instead of 0.5 s"):
        many = gymnasium.make_vec("RacecarBulletEnv-v0", num_envs=3, device="cpu")
    assert many.reset(seed=0)[0].shape == (3, 2)


def test_those_without_a_counterpart_say_so():
    message = "MinitaurBulletEnv-v0: PyBullet's environment has no counterpart; the closest is 'Quadruped'"
    with pytest.raises(NewtonsimError, match=message):
        envs.make("MinitaurBulletEnv-v0")
    with pytest.raises(NewtonsimError, match=message):
        gymnasium.make("MinitaurBulletEnv-v0")
    with pytest.raises(NewtonsimError, match="did you mean 'HopperBulletEnv-v0'"):
        envs.make("HopperBulletEnv")
