"""Policy improvement: rsl-rl's proximal policy optimisation, fed with rollouts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage

from newtonsim.errors import NewtonsimError
from newtonsim.learn.beginning import Beginning
from newtonsim.learn.collect import Rollout, Weights
from newtonsim.learn.mirroring import symmetry_of
from newtonsim.learn.models import PolicySpaces, make_network
from newtonsim.learn.settings import Settings

_ROWS = 65536
"""Batch size of a network when no gradient is needed."""


class Learner:
    """Actor and critic, and their updates.

    An update depends only on the learner's state, the rollout, the seed and the iteration, not on who
    collected the samples or on torch's global random numbers.

    Args:
        policy: Observation and action spaces of the policy.
        settings: How it learns.
        seed: Seed of the initial weights and of the mini-batches.
        device: Device of the networks.
    """

    def __init__(self, policy: PolicySpaces, settings: Settings, seed: int, device: torch.device | str):
        self.policy, self.settings, self.seed = policy, settings, seed
        self.device = torch.device(device)
        with self._random(-1):
            actor, critic = (make_network(role, policy, settings) for role in ("actor", "critic"))
        example = policy.example(settings.num_envs)
        storage = RolloutStorage(
            "rl", settings.num_envs, settings.steps, example, [policy.columns], str(self.device)
        )
        if policy.is_picture:
            _order_as_environments_do(storage)
        self.ppo = PPO(
            actor,
            critic,
            storage,
            num_learning_epochs=settings.epochs,
            num_mini_batches=settings.mini_batches,
            clip_param=settings.clip,
            gamma=settings.gamma,
            lam=settings.lam,
            value_loss_coef=settings.value_loss,
            entropy_coef=settings.entropy,
            learning_rate=settings.learning_rate,
            max_grad_norm=settings.max_grad_norm,
            schedule=settings.schedule,
            desired_kl=settings.desired_kl,
            symmetry_cfg=symmetry_of(policy, settings),
            device=str(self.device),
        )

    def weights(self) -> Weights:
        """Return the state of the actor, on the CPU."""
        return {name: value.detach().cpu().clone() for name, value in self.ppo.actor.state_dict().items()}

    def update(self, rollout: Rollout, iteration: int) -> dict[str, float]:
        """Improve actor and critic with the samples of all worlds.

        Args:
            rollout: The samples.
            iteration: Number of the iteration.

        Returns:
            Mean losses, deviation of actions and learning rate, by name.
        """
        rollout = rollout.to(self.device)
        self.ppo.train_mode()
        with self._random(iteration):
            with torch.no_grad():
                self._store(rollout)
                self.ppo.compute_returns(self.policy.groups(rollout.last_obs, rollout.last_privileged))
            losses = self.ppo.update()
        self._bound_deviation(self.settings.largest_std(iteration + 1))
        self.ppo.eval_mode()
        deviation = float(self.ppo.actor.output_std.detach().mean())
        return {**losses, "std": deviation, "learning_rate": float(self.ppo.learning_rate)}

    def _bound_deviation(self, most: float | None) -> None:
        if most is not None and not self.policy.choices:
            with torch.no_grad():
                self.ppo.actor.distribution.log_std_param.clamp_(max=math.log(most))  # pyright: ignore[reportOptionalMemberAccess]

    def state(self) -> dict[str, Any]:
        """Return everything that later updates depend on."""
        return self.ppo.save()

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Raises:
            NewtonsimError: It is that of other networks, such as a critic with other privileged observations.
        """
        try:
            self.ppo.load(state, None, True)
        except (RuntimeError, ValueError, KeyError) as error:
            raise NewtonsimError(
                f"the checkpoint does not fit the networks of the run, whose critic has {self._inputs()} "
                f"inputs: {error}"
            ) from error

    def begin(self, beginning: Beginning) -> None:
        """Begin with another policy, and with its critic if it is known and fits.

        Raises:
            NewtonsimError: The policy does not fit, see `Beginning.of_actor`.
        """
        actor, critic = self.ppo.actor, self.ppo.critic
        actor.load_state_dict(beginning.of_actor(actor.state_dict(), self.settings))
        critic.load_state_dict(beginning.of_critic(critic.state_dict()))

    def _inputs(self) -> str:
        numbers = " x ".join(map(str, self.policy.shape))
        return f"{numbers} and {self.policy.privileged} privileged" if self.policy.privileged else numbers

    def _store(self, rollout: Rollout) -> None:
        """Put a rollout into the storage, with values and the probabilities of its actions."""
        steps = self.settings.steps
        rewards = self.settings.reward_scale * rollout.rewards
        if len(rollout.cut):
            values = self._values(rollout.cut_obs, rollout.cut_privileged)
            rewards[rollout.cut[:, 0], rollout.cut[:, 1]] += self.settings.gamma * values[:, 0]
        for t in range(steps):
            groups = self.policy.groups(rollout.obs[t], rollout.privileged[t])
            step = RolloutStorage.Transition()
            step.observations, step.actions = groups, rollout.actions[t]
            step.rewards, step.dones = rewards[t], rollout.ended[t]
            self.ppo.actor(groups, stochastic_output=True)
            step.actions_log_prob = self.ppo.actor.get_output_log_prob(step.actions)
            step.distribution_params = self.ppo.actor.output_distribution_params
            step.values = self.ppo.critic(groups)
            self.ppo.storage.add_transition(step)

    def _values(self, observations: torch.Tensor, privileged: torch.Tensor) -> torch.Tensor:
        """Return the critic's values of observations, (n, 1)."""
        parts = zip(observations.split(_ROWS), privileged.split(_ROWS))
        return torch.cat([self.ppo.critic(self.policy.groups(*part)) for part in parts])

    def _random(self, iteration: int) -> _Random:
        return _Random(self.seed, iteration, self.device)


def _order_as_environments_do(storage: RolloutStorage) -> None:
    """Store pictures (channels, rows, columns) with the channels of a pixel side by side.

    Mini-batches keep this order, and so does what a convolution makes of them; on a CPU it takes half the
    time that the order of rsl-rl's storage takes.
    """
    steps, worlds, channels, *size = storage.observations["policy"].shape
    pictures = torch.zeros(steps, worlds, *size, channels, device=storage.device)
    storage.observations["policy"] = pictures.permute(0, 1, 4, 2, 3)


class _Random:
    """Context in which torch's random numbers depend only on seed and iteration."""

    def __init__(self, seed: int, iteration: int, device: torch.device):
        words = np.random.SeedSequence([seed, iteration + 1, 1]).generate_state(1)
        self._seed = int(words[0])
        devices = [device] if device.type == "cuda" else []
        self._fork = torch.random.fork_rng(devices)

    def __enter__(self) -> None:
        self._fork.__enter__()
        torch.manual_seed(self._seed)

    def __exit__(self, *exception: object) -> None:
        self._fork.__exit__(*exception)
