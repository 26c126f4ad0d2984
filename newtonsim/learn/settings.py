"""How policies learn: the parameters of the algorithms, and values for each environment."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from rsl_rl.utils import resolve_nn_activation

from newtonsim.errors import NewtonsimError, did_you_mean


@dataclass(frozen=True)
class Settings:
    """Parameters of proximal policy optimisation over many worlds.

    Attributes:
        num_envs: Number of worlds.
        steps: Steps of each world in an iteration.
        samples: Samples after which training ends; a sample is one action of one world.
        epochs: Passes over the samples of an iteration.
        mini_batches: Parts into which they are split.
        learning_rate: Learning rate of Adam; the initial one if the schedule is adaptive.
        schedule: "adaptive" keeps the divergence of an update near `desired_kl`; "fixed" keeps the rate.
        desired_kl: Kullback-Leibler divergence of new and old policy.
        gamma: Discount factor of a step.
        lam: λ of generalised advantage estimation.
        clip: Range of the ratio of probabilities.
        entropy: Weight of the entropy bonus.
        value_loss: Weight of the critic's error.
        max_grad_norm: Norm to which gradients are clipped.
        hidden: Sizes of the hidden layers of actor and critic.
        activation: Activation of the layers, by its name in rsl-rl.
        init_std: Initial standard deviation of actions; 1 is half of an action's range.
        final_std: Largest standard deviation of actions at the end of training, which a bound reaches over
            the last quarter of the samples, so that the policy is good without noise, too; None for no bound.
        normalise: Whether observations are normalised by their mean and standard deviation so far.
        reward_scale: Factor on rewards, for the critic's sake; returns are reported without it.
        symmetry: "augment" adds the mirror image of each sample to mini-batches; "loss" adds a penalty on the
            difference between the action of a mirrored observation and the mirrored action; or "none".
        symmetry_loss: Weight of this penalty.
        keep: "best" keeps the policy of the iteration with the highest mean return; "last" keeps the last
            one, for tasks that grow harder as a policy learns, where easy beginnings have high returns.

    Raises:
        NewtonsimError: A number is out of range.

    Source: Schulman et al., "Proximal policy optimization algorithms", 2017; the schedule is that of Rudin et
    al., "Learning to walk in minutes using massively parallel deep reinforcement learning", 2021. Symmetry is
    that of Mittal et al., "Symmetry considerations for learning task symmetric robot policies", 2024; the
    penalty is that of Yu, Turk and Liu, "Learning symmetric and low-energy locomotion", 2018.
    """

    algorithm: ClassVar[str] = "ppo"

    num_envs: int = 1024
    steps: int = 24
    samples: int = 10_000_000
    epochs: int = 4
    mini_batches: int = 4
    learning_rate: float = 1.0e-3
    schedule: str = "adaptive"
    desired_kl: float = 0.01
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    value_loss: float = 1.0
    max_grad_norm: float = 1.0
    hidden: tuple[int, ...] = (128, 128)
    activation: str = "elu"
    init_std: float = 1.0
    final_std: float | None = None
    normalise: bool = True
    reward_scale: float = 1.0
    symmetry: str = "none"
    symmetry_loss: float = 1.0
    keep: str = "best"

    def __post_init__(self) -> None:
        if isinstance(self.hidden, list):  # as JSON has it
            object.__setattr__(self, "hidden", tuple(self.hidden))
        for field in dataclasses.fields(self):
            _check(field.name, getattr(self, field.name), field.default)
        for name in ("gamma", "lam"):
            if getattr(self, name) > 1.0:
                raise NewtonsimError(f"{name}: expected a number up to 1, got {getattr(self, name)}")
        if self.schedule not in ("adaptive", "fixed"):
            raise NewtonsimError(f"schedule: expected 'adaptive' or 'fixed', got {self.schedule!r}")
        if self.symmetry not in ("none", "augment", "loss"):
            raise NewtonsimError(f"symmetry: expected 'none', 'augment' or 'loss', got {self.symmetry!r}")
        if self.keep not in ("best", "last"):
            raise NewtonsimError(f"keep: expected 'best' or 'last', got {self.keep!r}")
        try:
            resolve_nn_activation(self.activation)
        except ValueError as error:
            raise NewtonsimError(f"activation: {error}") from error
        if self.num_envs * self.steps < self.mini_batches:
            raise NewtonsimError(
                f"mini_batches: expected at most the {self.num_envs * self.steps} samples of an iteration, "
                f"got {self.mini_batches}"
            )

    @property
    def batch(self) -> int:
        """Samples of an iteration."""
        return self.num_envs * self.steps

    @property
    def iterations(self) -> int:
        """Iterations until training ends."""
        return math.ceil(self.samples / self.batch)

    def largest_std(self, done: int) -> float | None:
        """Return the bound of the standard deviation of actions after so many iterations; None for none."""
        left = max(0.0, 1.0 - done / self.iterations) / _CALMING
        if self.final_std is None or left >= 1.0:
            return None
        return self.final_std * max(1.0, self.init_std / self.final_std) ** left


@dataclass(frozen=True)
class SacSettings:
    """Parameters of soft actor-critic, which learns from a replay buffer: few samples, many updates.

    Attributes:
        num_envs: Number of worlds.
        steps: Steps of each world in an iteration, after which progress is told.
        samples: Samples after which training ends; a sample is one action of one world.
        random_samples: Samples of random actions at the beginning.
        updates: Updates of the networks after each step of all worlds.
        batch_size: Samples of an update.
        buffer_size: Samples that are kept.
        learning_rate: Learning rate of Adam.
        gamma: Discount factor of a step.
        tau: Share by which the target networks follow in an update.
        hidden: Sizes of the hidden layers of actor and critics.

    Raises:
        NewtonsimError: A number is out of range.

    Source: Haarnoja et al., "Soft actor-critic algorithms and applications", 2018, whose weight of the
    entropy is learned, too; the implementation is that of stable-baselines3.
    """

    algorithm: ClassVar[str] = "sac"

    num_envs: int = 8
    steps: int = 64
    samples: int = 100_000
    random_samples: int = 1000
    updates: int = 4
    batch_size: int = 256
    buffer_size: int = 1_000_000
    learning_rate: float = 1.0e-3
    gamma: float = 0.99
    tau: float = 0.005
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        if isinstance(self.hidden, list):  # as JSON has it
            object.__setattr__(self, "hidden", tuple(self.hidden))
        for field in dataclasses.fields(self):
            _check(field.name, getattr(self, field.name), field.default)
        for name in ("gamma", "tau"):
            if getattr(self, name) > 1.0:
                raise NewtonsimError(f"{name}: expected a number up to 1, got {getattr(self, name)}")

    @property
    def batch(self) -> int:
        """Samples of an iteration."""
        return self.num_envs * self.steps

    @property
    def iterations(self) -> int:
        """Iterations until training ends."""
        return math.ceil(self.samples / self.batch)


S = TypeVar("S", Settings, SacSettings)
"""Settings of an algorithm."""

ALGORITHMS: dict[str, type[Settings] | type[SacSettings]] = {
    kind.algorithm: kind for kind in (Settings, SacSettings)
}
"""Settings by the name of their algorithm."""

_CALMING = 0.25
"""Share of the samples, the last ones, over which noise is reduced to `Settings.final_std`."""


def _check(name: str, value: Any, default: Any) -> None:
    """Raise an error unless a value is of its default's kind and in range."""
    if default is None and value is None:
        return
    if isinstance(default, (bool, str)):
        right = isinstance(value, type(default))
    elif isinstance(default, tuple):
        right = isinstance(value, tuple) and bool(value) and all(isinstance(n, int) and n > 0 for n in value)
    elif isinstance(default, int):
        right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    else:
        right = isinstance(value, (int, float)) and math.isfinite(value)
        right = right and (value > 0.0 or (value == 0.0 and name == "entropy"))
    if not right:
        such_as = 0.1 if default is None else default
        raise NewtonsimError(f"{name}: expected a value such as {such_as!r}, got {value!r}")


_PLANAR = {"steps": 32, "hidden": (64, 64), "entropy": 2.0e-3, "reward_scale": 0.1}
_LEGS = {"samples": 30_000_000, "entropy": 5.0e-3, "reward_scale": 5.0}
_SMALL = {
    "num_envs": 256,
    "epochs": 5,
    "schedule": "fixed",
    "learning_rate": 7.0e-4,
    "hidden": (64, 64),
    "init_std": 0.4,
}
"""Many small steps on few samples: an ant reaches 1000 with a quarter of the defaults' samples."""
_PICTURES = {
    "num_envs": 64,
    "steps": 32,
    "samples": 500_000,
    "schedule": "fixed",
    "learning_rate": 5.0e-4,
    "hidden": (128,),
}
"""An adaptive rate goes to its bound, 0.01, as long as pictures change the policy little, and stays bad."""

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole": {
        "num_envs": 256,
        "steps": 32,
        "samples": 700_000,
        "epochs": 5,
        "hidden": (64, 64),
        "normalise": False,
        "reward_scale": 0.1,
    },
    "CartPoleVision": {**_PICTURES, "reward_scale": 0.1},
    "CartPoleSwingUp": {"num_envs": 512, "steps": 32, "samples": 15_000_000, "hidden": (64, 64)},
    "InvertedDoublePendulum": {"num_envs": 256, "steps": 32, "samples": 4_000_000, "reward_scale": 0.02},
    "Reacher": {"steps": 50, "samples": 15_000_000},
    "ReacherVision": _PICTURES,
    "Hopper": {**_PLANAR, "samples": 12_000_000},
    "Walker2d": {**_PLANAR, "samples": 20_000_000},
    "HalfCheetah": {**_PLANAR, "samples": 10_000_000},
    "Ant": {**_SMALL, "samples": 4_000_000, "entropy": 2.0e-3, "reward_scale": 0.1},
    "Humanoid": {"samples": 60_000_000, "entropy": 2.0e-3, "reward_scale": 0.05},
    "Quadruped": _LEGS,
    "QuadrupedTerrain": {**_LEGS, "samples": 100_000_000, "hidden": (256, 128), "keep": "last"},
    "ArmReach": {"steps": 50, "samples": 5_000_000, "hidden": (64, 64)},
    "ArmPick": {"steps": 50, "samples": 30_000_000},
    "Velocity": {**_SMALL, **_LEGS, "samples": 8_000_000, "init_std": 0.5, "final_std": 0.05},
    "VelocityRough": {
        **_LEGS,
        "num_envs": 1024,
        "samples": 40_000_000,
        "epochs": 5,
        "learning_rate": 5.0e-4,
        "hidden": (256, 128),
        "entropy": 2.0e-3,
        "init_std": 0.35,
        "keep": "last",
    },
    "VelocityBiped": {
        **_SMALL,
        **_LEGS,
        "samples": 5_000_000,
        "learning_rate": 5.0e-4,
        "hidden": (128, 64),
        "symmetry": "augment",
    },
    "GetUp": {**_SMALL, **_LEGS, "samples": 8_000_000, "init_std": 0.5},
    "Hover": {**_SMALL, "steps": 32, "samples": 3_000_000, "reward_scale": 5.0},
    "Reach": {**_SMALL, "steps": 25, "samples": 3_000_000, "reward_scale": 2.0},
    "Lift": {
        **_SMALL,
        "steps": 32,
        "samples": 12_000_000,
        "entropy": 2.0e-3,
        "init_std": 0.6,
        "reward_scale": 2.0,
    },
    "Stack": {
        **_SMALL,
        "steps": 32,
        "samples": 30_000_000,
        "entropy": 2.0e-3,
        "init_std": 0.6,
        "reward_scale": 2.0,
    },
    "TurnInHand": {
        **_SMALL,
        "steps": 32,
        "samples": 2_000_000,
        "entropy": 2.0e-3,
        "init_std": 0.5,
        "final_std": 0.1,
        "reward_scale": 2.0,
    },
    "Racecar": {"num_envs": 256, "steps": 32, "samples": 2_000_000, "hidden": (64, 64), "reward_scale": 0.1},
}
"""Differences from the defaults, by name of the environment."""


def settings_of(name: str, changes: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of proximal policy optimisation for an environment.

    Args:
        name: Its name.
        changes: Values for fields of `Settings`.

    Raises:
        NewtonsimError: There is no such field, or a value is out of range.
    """
    return _changed(Settings, {**PRESETS.get(name, {}), **(changes or {})})


def sac_settings(changes: Mapping[str, Any] | None = None) -> SacSettings:
    """Return the settings of soft actor-critic, which are the same for all environments.

    Args:
        changes: Values for fields of `SacSettings`.

    Raises:
        NewtonsimError: There is no such field, or a value is out of range.
    """
    return _changed(SacSettings, changes or {})


def _changed(kind: type[S], changes: Mapping[str, Any]) -> S:
    """Return settings with changes, whose names are checked."""
    known = [field.name for field in dataclasses.fields(kind)]
    for field in changes:
        if field not in known:
            raise NewtonsimError(
                f"there is no setting {field!r}{did_you_mean(field, known)}; there are {', '.join(known)}"
            )
    return kind(**changes)
