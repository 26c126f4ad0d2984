"""Networks of a policy: those of rsl-rl, with discrete actions and pictures added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from rsl_rl.models import CNNModel, MLPModel
from rsl_rl.modules.distribution import Distribution, GaussianDistribution
from tensordict import TensorDict
from torch import nn

from newtonsim.learn.settings import Settings

if TYPE_CHECKING:
    from newtonsim.envs import BatchedEnv
    from newtonsim.envs.terms.symmetry import Symmetry

_CONVOLUTIONS = {
    "output_channels": [16, 32, 32],
    "kernel_size": [8, 4, 3],
    "stride": [4, 2, 1],
    "activation": "relu",
}
"""Smaller than those of Mnih et al., "Human-level control through deep reinforcement learning", 2015."""


class CategoricalDistribution(Distribution):
    """One of several actions, by their logits; actions are indices (n, 1), as float."""

    def update(self, mlp_output: torch.Tensor) -> None:
        """See `Distribution.update`."""
        self._log = torch.log_softmax(mlp_output, dim=-1)

    def sample(self) -> torch.Tensor:
        """See `Distribution.sample`."""
        return torch.multinomial(self.mean, 1).float()

    def deterministic_output(self, mlp_output: torch.Tensor) -> torch.Tensor:
        """See `Distribution.deterministic_output`."""
        return mlp_output.argmax(dim=-1, keepdim=True).float()

    def as_deterministic_output_module(self) -> nn.Module:
        """See `Distribution.as_deterministic_output_module`."""
        return _Largest()

    @property
    def input_dim(self) -> int:
        """See `Distribution.input_dim`."""
        return self.output_dim

    @property
    def mean(self) -> torch.Tensor:
        """Probabilities of the actions (n, choices)."""
        return self._log.exp()

    @property
    def std(self) -> torch.Tensor:
        """Entropy relative to that of a uniform choice, (n, 1)."""
        return self.entropy[:, None] / np.log(self.output_dim)

    @property
    def entropy(self) -> torch.Tensor:
        """See `Distribution.entropy`."""
        return -(self._log.exp() * self._log).sum(dim=-1)

    @property
    def params(self) -> tuple[torch.Tensor, ...]:
        """Logarithms of the probabilities."""
        return (self._log,)

    def log_prob(self, outputs: torch.Tensor) -> torch.Tensor:
        """See `Distribution.log_prob`."""
        return self._log.gather(-1, outputs.long())[..., 0]

    def kl_divergence(
        self, old_params: tuple[torch.Tensor, ...], new_params: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """See `Distribution.kl_divergence`."""
        (old,), (new,) = old_params, new_params
        return (old.exp() * (old - new)).sum(dim=-1)


class _Largest(nn.Module):
    """Action with the largest logit."""

    def forward(self, mlp_output: torch.Tensor) -> torch.Tensor:
        """Return actions (n, 1)."""
        return mlp_output.argmax(dim=-1, keepdim=True).float()


class PolicySpaces:
    """What a policy observes and does, from the spaces of an environment.

    Pictures (height, width, channels) of uint8 become channels-first arrays between 0 and 1. Continuous
    actions of the policy are in half-ranges from the middle of their bounds, if these are finite.

    Args:
        observations: Observation space of one world.
        actions: Action space of one world.
        privileged: Number of values that only the critic observes.
        symmetry: How observations and actions are mirrored; None for learning without symmetry.

    Attributes:
        privileged: Number of values that only the critic observes.
        symmetry: How observations and actions are mirrored; None for learning without symmetry.
        is_picture: Whether observations are pictures.
        choices: Number of actions if they are discrete, else 0.
        columns: Size of an action of the policy.
    """

    def __init__(
        self,
        observations: spaces.Space,
        actions: spaces.Space,
        privileged: int = 0,
        symmetry: Symmetry | None = None,
    ):
        self.privileged, self.symmetry = privileged, symmetry
        self.shape, self.dtype = tuple(observations.shape), observations.dtype
        self.is_picture = len(self.shape) == 3
        self.choices = int(actions.n) if isinstance(actions, spaces.Discrete) else 0
        self.columns = 1 if self.choices else int(np.prod(actions.shape))
        if not self.choices:
            bounded = np.isfinite(actions.low) & np.isfinite(actions.high)
            self.low, self.high = torch.tensor(actions.low), torch.tensor(actions.high)
            self.middle = torch.tensor(np.where(bounded, (actions.high + actions.low) / 2.0, 0.0)).float()
            self.half = torch.tensor(np.where(bounded, (actions.high - actions.low) / 2.0, 1.0)).float()

    @classmethod
    def of_env(cls, env: BatchedEnv, settings: Settings) -> PolicySpaces:
        """Return those of an environment.

        Raises:
            NewtonsimError: The settings require symmetry, and the environment is not symmetric.
        """
        symmetry = None if settings.symmetry == "none" else env.symmetry()
        spaces = env.single_observation_space, env.single_action_space
        return cls(*spaces, env.task.privileged_size, symmetry)

    def groups(self, observations: torch.Tensor, privileged: torch.Tensor | None = None) -> TensorDict:
        """Return observations (n, ...) in the form that rsl-rl's networks take.

        Args:
            observations: What the policy observes.
            privileged: What only the critic observes, (n, P); None for the policy alone.
        """
        groups = {"policy": self.prepared(observations)}
        if self.privileged and privileged is not None:
            groups["privileged"] = privileged
        return TensorDict(groups, batch_size=[len(observations)])

    def example(self, count: int) -> TensorDict:
        """Return zeros as observations of some worlds."""
        return self.groups(torch.zeros(count, *self.shape), torch.zeros(count, self.privileged))

    def prepared(self, observations: torch.Tensor) -> torch.Tensor:
        """Return observations (n, ...) as float, pictures with their channels first."""
        if self.is_picture:
            return observations.permute(0, 3, 1, 2).float() / 255.0
        return observations.float()

    def to_env(self, actions: torch.Tensor) -> torch.Tensor:
        """Convert actions (n, columns) of the policy to those of the environment."""
        if self.choices:
            return actions[:, 0].long()
        low, high, middle, half = (
            values.to(actions.device) for values in (self.low, self.high, self.middle, self.half)
        )
        return torch.clamp(middle + half * actions, low, high)


def make_network(role: str, policy: PolicySpaces, settings: Settings) -> MLPModel:
    """Return the network of the "actor" or the "critic", with fresh weights."""
    seen = ["policy", "privileged"] if role == "critic" and policy.privileged else ["policy"]
    options: dict[str, Any] = {"hidden_dims": settings.hidden, "activation": settings.activation}
    outputs = 1
    if role == "actor":
        outputs = policy.choices or policy.columns
        kind = CategoricalDistribution if policy.choices else GaussianDistribution
        options["distribution_cfg"] = {"class_name": kind}
        if not policy.choices:
            options["distribution_cfg"] |= {"init_std": settings.init_std, "std_type": "log"}
    if policy.is_picture:
        options["cnn_cfg"] = _CONVOLUTIONS
    else:
        options["obs_normalization"] = settings.normalise
    kind = CNNModel if policy.is_picture else MLPModel
    model = kind(policy.example(1), {role: seen}, role, outputs, **options)
    if role == "actor":
        last = [module for module in model.mlp.modules() if isinstance(module, nn.Linear)][-1]
        nn.init.orthogonal_(last.weight, 0.01)
        nn.init.zeros_(last.bias)
    return model


def explore(actor: MLPModel, groups: TensorDict, noise: torch.Tensor) -> torch.Tensor:
    """Return actions of a policy for given noise.

    Args:
        actor: Its network.
        groups: Observations of n worlds.
        noise: Gaussian noise (n, columns). If it is drawn for all worlds at once, actions do not depend on
            how the worlds are partitioned.

    Returns:
        Actions (n, columns).
    """
    actor.distribution.update(actor.mlp(actor.get_latent(groups)))
    if isinstance(actor.distribution, CategoricalDistribution):
        u = torch.special.ndtr(noise)
        below = (actor.distribution.mean.cumsum(dim=-1)[:, :-1] <= u).sum(dim=-1, keepdim=True)
        return below.float()
    return actor.distribution.mean + actor.distribution.std * noise
