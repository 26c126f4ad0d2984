"""Names of PyBullet's environments, and their counterparts here.

The names are those that the package pybullet_envs registers (Coumans and Bai, "PyBullet, a Python module for
physics simulation for games, robotics and machine learning", 2016-2021); sizes and times are those of its
environments.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from newtonsim.errors import NewtonsimError, SubstitutedEnvironmentWarning

if TYPE_CHECKING:
    from newtonsim.envs.batched import BatchedEnv


@dataclass(frozen=True)
class Original:
    """An environment of PyBullet that has a counterpart here.

    Attributes:
        counterpart: Name of ours.
        observed: Number of values in an observation.
        actions: Description of an action.
        seconds: Time of an action [s].
        steps: Actions of an episode.
        order: How the order of an observation of the same size differs, if at all.
    """

    counterpart: str
    observed: int
    actions: str
    seconds: float
    steps: int = 1000
    order: str = ""


ORIGINALS = {
    "AntBulletEnv-v0": Original("Ant", 28, "8 numbers within ±1", 0.0165),
    "CartPoleBulletEnv-v1": Original(
        "CartPole", 4, "2 choices", 0.02, 200, "the cart before the pole in the observation"
    ),
    "HalfCheetahBulletEnv-v0": Original("HalfCheetah", 26, "6 numbers within ±1", 0.0165),
    "HopperBulletEnv-v0": Original("Hopper", 15, "3 numbers within ±1", 0.0165),
    "HumanoidBulletEnv-v0": Original("Humanoid", 44, "17 numbers within ±1", 0.0165),
    "InvertedDoublePendulumBulletEnv-v0": Original(
        "InvertedDoublePendulum", 9, "1 number within ±1", 0.0165, order="another order of the observation"
    ),
    "InvertedPendulumSwingupBulletEnv-v0": Original("CartPoleSwingUp", 5, "1 number within ±1", 0.0165),
    "KukaBulletEnv-v0": Original("ArmPick", 9, "3 numbers within ±1", 1.0 / 240.0),
    "RacecarBulletEnv-v0": Original("Racecar", 2, "2 numbers within ±1", 0.5, 20),
    "ReacherBulletEnv-v0": Original("Reacher", 9, "2 numbers within ±1", 0.0165, 150),
    "Walker2DBulletEnv-v0": Original("Walker2d", 22, "6 numbers within ±1", 0.0165),
}
"""Those with a counterpart, by name."""

CLOSEST = {
    "CartPoleContinuousBulletEnv-v0": "CartPole",
    "HumanoidDeepMimicBackflipBulletEnv-v1": "Humanoid",
    "HumanoidDeepMimicWalkBulletEnv-v1": "Humanoid",
    "HumanoidFlagrunBulletEnv-v0": "Humanoid",
    "HumanoidFlagrunHarderBulletEnv-v0": "Humanoid",
    "InvertedPendulumBulletEnv-v0": "CartPole",
    "KukaCamBulletEnv-v0": "ArmPick",
    "KukaDiverseObjectGrasping-v0": "ArmPick",
    "MinitaurAlternatingLegsEnv-v0": "Quadruped",
    "MinitaurBallGymEnv-v0": "Quadruped",
    "MinitaurBulletDuckEnv-v0": "Quadruped",
    "MinitaurBulletEnv-v0": "Quadruped",
    "MinitaurExtendedEnv-v0": "Quadruped",
    "MinitaurFourLegStandEnv-v0": "Quadruped",
    "MinitaurReactiveEnv-v0": "Quadruped",
    "MinitaurStandGymEnv-v0": "Quadruped",
    "MinitaurTrottingEnv-v0": "Quadruped",
    "PusherBulletEnv-v0": "ArmReach",
    "RacecarZedBulletEnv-v0": "Racecar",
    "ThrowerBulletEnv-v0": "ArmPick",
}
"""The closest environment of ours to each of those without a counterpart."""

_told: set[str] = set()


def counterpart(name: str) -> str:
    """Return the name of our counterpart of PyBullet's environment, or the name itself if it is not
    PyBullet's.

    Raises:
        NewtonsimError: There is no counterpart.
    """
    if name in CLOSEST:
        raise NewtonsimError(
            f"{name}: PyBullet's environment has no counterpart; the closest is {CLOSEST[name]!r}"
        )
    return ORIGINALS[name].counterpart if name in ORIGINALS else name


def tell(name: str, env: BatchedEnv) -> None:
    """Warn, once for each of PyBullet's names, which environment replaces it and what differs."""
    if name not in ORIGINALS or name in _told:
        return
    _told.add(name)
    pairs = zip(_facts_of(ORIGINALS[name]), _facts(env), strict=True)
    differences = [f"{ours} instead of {theirs}" for theirs, ours in pairs if ours != theirs]
    task = env.task.name
    if ORIGINALS[name].order:
        differences.append(ORIGINALS[name].order)
    said = f"{name} is replaced by newtonsim's {task}, which has its own robot, reward and start"
    warnings.warn("; ".join([said, *differences]), SubstitutedEnvironmentWarning, stacklevel=3)


def _facts_of(original: Original) -> list[str]:
    """Return the facts of PyBullet's environment that can differ."""
    return _phrases(original.observed, original.actions, original.seconds, original.steps)


def _facts(env: BatchedEnv) -> list[str]:
    """Return the facts of our environment that can differ."""
    space: Any = env.single_action_space
    if isinstance(space, spaces.Discrete):
        actions = f"{space.n} choices"
    else:
        (size,) = space.shape
        actions = f"{size} number{'s' * (size > 1)} within ±{space.high.max():g}"
    observed: Any = env.single_observation_space.shape
    return _phrases(observed[0], actions, env.buffers.view.control_dt, env.task.episode_steps)


def _phrases(observed: int, actions: str, seconds: float, steps: int) -> list[str]:
    return [
        f"an observation of {observed} numbers",
        f"an action of {actions}",
        f"{seconds:.3g} s for an action",
        f"episodes of {steps} actions",
    ]
