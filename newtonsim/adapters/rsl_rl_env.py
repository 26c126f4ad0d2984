"""Batched environments for the runners of rsl-rl (extra "learn")."""

from __future__ import annotations

from typing import Any

import warp as wp
from gymnasium.vector import AutoresetMode

from newtonsim.envs import BatchedEnv
from newtonsim.errors import NewtonsimError

try:
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'newtonsim[learn]'") from error


class RslRlEnv(VecEnv):
    """A batched environment for `rsl_rl.runners.OnPolicyRunner`; nothing in a step waits for a GPU.

    Observations are the group "policy"; if the task has privileged ones, they are the group "privileged", for
    critics: `obs_groups={"actor": ["policy"], "critic": ["policy", "privileged"]}`. Only these are copied:
    PPO stores the observations that it acted on after the step, which has by then overwritten the
    environment's own. Pictures become float (num_envs, channels, height, width) from 0 to 1.

    Actions of rsl-rl are continuous. If those of the environment are discrete, there is one for each choice,
    and the largest one is chosen.

    `extras["time_outs"]` marks episodes that ended only because of the step limit. `extras["log"]` has
    the mean return and length of the last episode of each world that has ended one, 0 before, and the number
    of worlds that have become NaN or infinite so far.

    Args:
        env: The environment, made with `output="torch"`; it is reset.
        seed: Seed of its random numbers; None for a different one each time.
        cfg: What a run's log keeps about the environment; None for its name, sizes and options.

    Attributes:
        env: The environment.
        num_envs: Number of worlds.
        num_actions: Number of continuous actions.
        max_episode_length: Steps after which an episode is truncated, 0 for never.
        device: Device of all tensors.
        cfg: What a run's log keeps about the environment.

    Raises:
        NewtonsimError: The environment gives no tensors, or does not start new episodes in the same step.
    """

    def __init__(self, env: BatchedEnv, seed: int | None = None, cfg: dict[str, Any] | None = None):
        if env.output != "torch":
            raise NewtonsimError(f"env: expected one with output='torch', got {env.output!r}")
        mode = env.metadata["autoreset_mode"]
        if mode is not AutoresetMode.SAME_STEP:
            raise NewtonsimError(f"env: expected one with autoreset_mode='SameStep', got {mode.value!r}")
        self.env, self.num_envs = env, env.num_envs
        self._choices = env.task.discrete_actions
        space: Any = env.single_action_space
        self.num_actions = self._choices or space.shape[0]
        self.max_episode_length = env.max_episode_steps
        self.device = torch.device(wp.device_to_torch(env.device))
        self.cfg = _describe(env) if cfg is None else cfg
        self._lengths = wp.to_torch(env.buffers.view.length)
        episodes = env.buffers.episodes
        # not from the infos: whether these have "episode" is up to whoever made the environment
        self._final = wp.to_torch(episodes.final_return), wp.to_torch(episodes.final_length)
        self._failures = wp.to_torch(episodes.failures)
        env.reset(seed=seed)

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of each world's episode so far, (num_envs,) int32: the environment's own memory.

        The runner writes random ones at the start, so that not all episodes are truncated together.
        """
        return self._lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        self._lengths.copy_(lengths)

    def get_observations(self) -> TensorDict:
        """Return the observations after the last step or reset, or after `env.restore`."""
        return self._take(*self.env.observations())

    def reset(self, seed: int | None = None) -> tuple[TensorDict, dict[str, Any]]:
        """Start new episodes in all worlds, and return their observations and an empty dict."""
        return self._take(*self.env.reset(seed=seed)), {}

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Take an action in each world.

        Args:
            actions: (num_envs, num_actions), on the environment's device.

        Returns:
            Observations; rewards (num_envs,), which the next step overwrites; which episodes have ended,
            bool (num_envs,); and extras.

        Raises:
            NewtonsimError: Shape, device or values are wrong; on a GPU, values are not checked.
        """
        if self._choices:
            if tuple(actions.shape) != (self.num_envs, self.num_actions):
                expected = (self.num_envs, self.num_actions)
                raise NewtonsimError(f"actions: expected shape {expected}, got {tuple(actions.shape)}")
            actions = actions.argmax(dim=1)
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        extras = {"time_outs": truncated & ~terminated, "log": self._log()}
        return self._take(observations, infos), rewards, terminated | truncated, extras

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _take(self, observations: torch.Tensor, infos: dict[str, Any]) -> TensorDict:
        """Return a copy that the next step does not overwrite."""
        if observations.dtype == torch.uint8:
            observations = observations.permute(0, 3, 1, 2).float() / 255.0
        elif not self.env.copy:
            observations = observations.clone()
        groups = {"policy": observations}
        if "privileged" in infos:
            groups["privileged"] = infos["privileged"].clone()
        return TensorDict(groups, batch_size=[self.num_envs], device=self.device)

    def _log(self) -> dict[str, torch.Tensor]:
        """Statistics that rsl-rl's logger averages over an iteration."""
        returns, lengths = self._final
        # both are zero where no episode has ended yet
        ended = (lengths > 0).sum().clamp(min=1)
        return {
            "/episode/return": returns.sum() / ended,
            "/episode/length": lengths.sum() / ended,
            "/episode/failures": self._failures.sum(dtype=torch.float32),
        }


def _describe(env: BatchedEnv) -> dict[str, Any]:
    """Return what a log keeps about an environment."""
    return {
        "name": env.task.name,
        "num_envs": env.num_envs,
        "device": str(env.device),
        "max_episode_steps": env.max_episode_steps,
        "options": dict(env.task.options),
    }
