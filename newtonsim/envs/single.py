"""One world behind gymnasium's interface for single environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from newtonsim.envs.batched import BatchedEnv


class SingleEnv(gymnasium.Env):
    """One world of a task, without a time limit: `gymnasium.make` adds the task's.

    Args:
        make: Makes the batched environment of one world from arguments of `BatchedEnv`.
        render_mode: "rgb_array" for pictures by `render`, or None.

    Attributes:
        batched: The environment behind it.

    Raises:
        NewtonsimError: There is no such render mode.
    """

    def __init__(self, make: Callable[..., BatchedEnv], render_mode: str | None = None):
        options = {"autoreset_mode": AutoresetMode.DISABLED, "max_episode_steps": 0}
        self.batched = make(render_mode=render_mode, **options)
        self.observation_space = self.batched.single_observation_space
        self.action_space = self.batched.single_action_space
        self.metadata = {key: self.batched.metadata[key] for key in ("render_modes", "render_fps")}
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode; see `BatchedEnv.reset`."""
        fresh = self._np_random is None
        super().reset(seed=seed)
        if seed is None and fresh:
            seed = self.np_random_seed
        observations, infos = self.batched.reset(seed=seed, options=options)
        return observations[0], _of_world(infos, "privileged")

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take an action; see `BatchedEnv.step`."""
        obs, reward, terminated, _, infos = self.batched.step(np.asarray(action)[None])
        told = {name: bool(infos[name][0]) for name in ("is_success", "failed") if name in infos}
        told |= _of_world(infos, "privileged")
        return obs[0], float(reward[0]), bool(terminated[0]), False, told

    def render(self) -> np.ndarray | None:
        """Return a picture; see `BatchedEnv.render`."""
        pictures = self.batched.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """Close the environment behind it."""
        self.batched.close()


def _of_world(infos: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an info of the one world, if there is one of that name."""
    return {name: infos[name][0]} if name in infos else {}
