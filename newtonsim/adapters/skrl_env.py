"""Batched environments for the trainers of skrl (extra "skrl")."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import warp as wp
from gymnasium.vector import AutoresetMode

from newtonsim.envs import BatchedEnv
from newtonsim.errors import NewtonsimError

try:
    import torch
    from skrl.envs.wrappers.torch import Wrapper
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'newtonsim[skrl]'") from error


class SkrlEnv(Wrapper):
    """A batched environment for trainers and agents of skrl with torch; nothing in a step waits for a GPU.

    Worlds restart in the step that ends an episode, so that trainers never have to: `reset` restarts them
    once, and from then on returns what the last step returned. Hence the observation after the end of an
    episode is the first one of the next. PPO takes account of the step limit with `time_limit_bootstrap`.

    Observations are flat, (num_envs, n); pictures are floats from 0 to 255. If the task has privileged
    observations, they are skrl's states. All are copies, because agents store them after the step that
    overwrites the environment's own. `infos["episode"]` has the mean return and length of the last episode of
    each world that has ended one, 0 before, which trainers log.

    Args:
        env: The environment, made with `output="torch"`; it is reset.
        seed: Seed of its random numbers; None for a different one each time.

    Attributes:
        env: The environment.

    Raises:
        NewtonsimError: The environment gives no tensors, or does not start new episodes in the same step.
    """

    def __init__(self, env: BatchedEnv, seed: int | None = None):
        if env.output != "torch":
            raise NewtonsimError(f"env: expected one with output='torch', got {env.output!r}")
        mode = env.metadata["autoreset_mode"]
        if mode is not AutoresetMode.SAME_STEP:
            raise NewtonsimError(f"env: expected one with autoreset_mode='SameStep', got {mode.value!r}")
        super().__init__(env)
        self.env = env
        self._device = torch.device(wp.device_to_torch(env.device))
        episodes = env.buffers.episodes
        # not from the infos: whether these have "episode" is up to whoever made the environment
        self._final = wp.to_torch(episodes.final_return), wp.to_torch(episodes.final_length)
        self._observations, self._states = self._take(*env.reset(seed=seed))

    @property
    def observation_space(self) -> gymnasium.Space:
        """Space of the observations of a world."""
        return self.env.single_observation_space

    @property
    def action_space(self) -> gymnasium.Space:
        """Space of the actions of a world."""
        return self.env.single_action_space

    @property
    def state_space(self) -> gymnasium.Space | None:
        """Space of the privileged observations of a world; None if the task has none."""
        size = self.env.task.privileged_size
        return gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32) if size else None

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the observations after the last step, or of the first episodes, and an empty dict."""
        return self._observations, {}

    def state(self) -> torch.Tensor | None:
        """Return the privileged observations after the last step, if the task has some."""
        return self._states

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Take an action in each world.

        Args:
            actions: (num_envs, n), on the environment's device; of discrete ones n is 1.

        Returns:
            Observations (num_envs, n); rewards, which episodes ended by themselves and which by the step
            limit, (num_envs, 1); and infos.

        Raises:
            NewtonsimError: Shape, device or values are wrong; on a GPU, values are not checked.
        """
        if self.env.task.discrete_actions:
            actions = actions.flatten()
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._observations, self._states = self._take(observations, infos)
        # copies: agents add to rewards in place
        ends = (end.reshape(-1, 1).clone() for end in (rewards, terminated, truncated))
        return self._observations, *ends, {"episode": self._log()}

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pictures of `BatchedEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _take(
        self, observations: torch.Tensor, infos: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return observations and privileged ones that the next step does not overwrite."""
        flat = observations.reshape(self.num_envs, -1)
        flat = flat.float() if flat.dtype == torch.uint8 else flat.clone()
        privileged = infos.get("privileged")
        return flat, None if privileged is None else privileged.clone()

    def _log(self) -> dict[str, torch.Tensor]:
        """Statistics that skrl's trainers track."""
        returns, lengths = self._final
        # both are zero where no episode has ended yet
        ended = (lengths > 0).sum().clamp(min=1)
        return {"return": returns.sum() / ended, "length": lengths.sum() / ended}
