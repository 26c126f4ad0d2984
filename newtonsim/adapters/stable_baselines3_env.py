"""Batched environments for stable-baselines3 (extra of that name)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from newtonsim.envs import BatchedEnv
from newtonsim.envs.script_env import ScriptEnv
from newtonsim.errors import NewtonsimError

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'newtonsim[stable-baselines3]'") from error

Indices = int | Iterable[int] | None


class Sb3Env(VecEnv):
    """A batched environment as a `VecEnv` of stable-baselines3, whose worlds step together.

    In the step that ends an episode the world's info has "terminal_observation", "TimeLimit.truncated" (ended
    only by the step limit), "failed" (ended because the world became NaN or infinite) and "episode" with
    return "r", length "l" and seconds "t" since this object was made, as `Monitor` gives them.

    All worlds are one environment, so attributes and methods are those of the environment: each requested
    world has the same value, and values cannot be set, nor methods called, for only some of the worlds.

    Args:
        env: A `BatchedEnv` made with `output="numpy"`, or a `ScriptEnv`.

    Attributes:
        env: The environment.

    Raises:
        NewtonsimError: The environment does not return new NumPy arrays, or does not start new episodes in
            the same step.
    """

    def __init__(self, env: BatchedEnv | ScriptEnv):
        if env.output != "numpy" or not env.copy:
            raise NewtonsimError(
                "env: expected one with output='numpy' and copy=True, "
                f"got output={env.output!r} and copy={env.copy}"
            )
        mode = env.metadata["autoreset_mode"]
        if mode is not AutoresetMode.SAME_STEP:
            raise NewtonsimError(f"env: expected one with autoreset_mode='SameStep', got {mode.value!r}")
        self.env = env
        self._actions: np.ndarray | None = None
        self._start = time.time()
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> np.ndarray:
        """Start new episodes with the seeds of the last call of `seed`, and return their observations.

        Raises:
            NewtonsimError: `set_options` was called with options: these environments have none.
        """
        for options in self._options:
            if options:
                raise NewtonsimError(f"set_options: expected none, got {sorted(map(str, options))}")
        seeds: Any = None if self._seeds[0] is None else self._seeds
        observations, _ = self.env.reset(seed=seeds)
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the actions of `step_async`.

        Returns:
            Observations (num_envs, n), rewards and ends of episodes (num_envs,), and an info of each world.

        Raises:
            NewtonsimError: The actions are wrong.
        """
        observations, rewards, terminated, truncated, of_batch = self.env.step(self._actions)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        if "is_success" in of_batch:
            for info, reached in zip(infos, of_batch["is_success"].tolist(), strict=True):
                info["is_success"] = reached
        if "final_obs" in of_batch:
            # not from the infos: whether these have "episode" is up to whoever made the environment
            returns, lengths = self.env.ended_episodes()
            seconds = round(time.time() - self._start, 6)
            for w in np.flatnonzero(of_batch["_final_obs"]).tolist():
                info = infos[w]
                info["TimeLimit.truncated"] = bool(truncated[w] and not terminated[w])
                info["terminal_observation"] = of_batch["final_obs"][w]
                info["failed"] = bool(of_batch["failed"][w])
                info["episode"] = {"r": float(returns[w]), "l": int(lengths[w]), "t": seconds}
        return observations, rewards, terminated | truncated, infos

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a picture of each world, RGB (height, width, 3) uint8; None without a render mode."""
        pictures = self.env.render()
        return [None] * self.num_envs if pictures is None else pictures

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the environment, once for each world.

        Raises:
            AttributeError: It has none of that name.
        """
        value = getattr(self.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of the environment.

        Raises:
            NewtonsimError: Only some of the worlds are named.
        """
        self._check_all(f"set_attr({attr_name!r})", indices)
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environment once, and return what it returns, once for each world.

        Raises:
            NewtonsimError: Only some of the worlds are named.
            AttributeError: It has none of that name.
        """
        self._check_all(f"env_method({method_name!r})", indices)
        value = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [value] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Indices = None) -> list[bool]:
        """Whether the worlds give what a wrapper would: infos are those of `Monitor`, and there is no other.

        `evaluate_policy` asks this to know whether infos have returns that no other wrapper has changed.
        """
        return [issubclass(wrapper_class, Monitor) for _ in self._get_indices(indices)]

    def _check_all(self, what: str, indices: Indices) -> None:
        """Raise an error unless all worlds are selected."""
        asked = list(self._get_indices(indices))
        if sorted(asked) != list(range(self.num_envs)):
            raise NewtonsimError(
                f"{what}: expected indices of all {self.num_envs} worlds or None, got {asked}"
            )
