"""Input of actions and output of results: as NumPy arrays or as torch tensors."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import warp as wp

from newtonsim.envs.buffers import Buffers
from newtonsim.errors import NewtonsimError
from newtonsim.runtime.devices import in_order_with_torch


def make_exchange(output: str, buffers: Buffers, copy: bool, **contents: Any) -> Exchange:
    """Return the exchange for "numpy" or "torch"; see `Exchange` for the arguments."""
    return (TorchExchange if output == "torch" else NumpyExchange)(buffers, copy, **contents)


class Exchange(ABC):
    """Input to and output from the buffers of an environment.

    Args:
        buffers: Arrays of the environment.
        copy: Whether results are copies.
        discrete_actions: Number of actions to choose from, 0 if actions are real numbers.
        has_goal: Whether the task reports success.
        episode_infos: Whether results include returns and lengths of episodes that end.
    """

    def __init__(
        self, buffers: Buffers, copy: bool, *, discrete_actions: int, has_goal: bool, episode_infos: bool
    ):
        self.buffers, self.copy = buffers, copy
        self.device = buffers.view.actions.device
        self.choices = discrete_actions
        self.has_goal, self.episode_infos = has_goal, episode_infos
        self.has_privileged = buffers.episodes.privileged.shape[1] > 0
        # on a GPU that would wait for it
        self.looks_at_values = self.device.is_cpu
        self.shape = (len(buffers.everyone),) if self.choices else tuple(self.buffers.view.actions.shape)

    def stream(self) -> contextlib.AbstractContextManager[None]:
        """Context whose work runs after what the caller has queued, and before what it queues next."""
        return contextlib.nullcontext()

    def take_keys(self, keys: np.ndarray) -> None:
        """Give the worlds of the last mask new keys, int32 (num_envs,), and restart their episode count."""
        view = self.buffers.view
        mask = self.buffers.asked.numpy()
        view.key.assign(np.where(mask, keys, view.key.numpy()))
        view.episode.assign(np.where(mask, -1, view.episode.numpy()))

    @abstractmethod
    def take_mask(self, mask: Any) -> None:
        """Store which worlds to reset, bool (num_envs,); None for all."""

    @abstractmethod
    def take_actions(self, actions: Any) -> None:
        """Copy actions into the buffer."""

    @abstractmethod
    def observations(self) -> Any:
        """Return the observations."""

    @abstractmethod
    def privileged(self) -> dict[str, Any]:
        """Return the privileged observations as infos; empty if the task has none."""

    @abstractmethod
    def readings(self) -> Any:
        """Return the readings of the sensors."""

    @abstractmethod
    def results(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Return what a step returns."""

    def _check_mask(self, mask: Any, is_bool: bool) -> None:
        """Raise an error unless a mask names worlds."""
        if tuple(mask.shape) != (self.shape[0],):
            raise NewtonsimError(f"reset_mask: expected shape ({self.shape[0]},), got {tuple(mask.shape)}")
        if not is_bool:
            raise NewtonsimError(f"reset_mask: expected booleans, got {mask.dtype}")

    def _check_shape(self, actions: Any) -> None:
        if tuple(actions.shape) != self.shape:
            raise NewtonsimError(f"actions: expected shape {self.shape}, got {tuple(actions.shape)}")

    def _are_right(self, actions: np.ndarray) -> bool:
        """Tell whether a quick check shows that all actions are valid."""
        if not self.choices:
            return math.isfinite(actions.sum())
        if actions.dtype.kind not in "iu":
            return False
        # negative ones are large then
        return np.maximum.reduce(actions.view(f"u{actions.itemsize}")) < self.choices

    def _check_values(self, actions: np.ndarray) -> None:
        """Raise an error that names the first invalid action."""
        if self._are_right(actions):
            return
        if self.choices:
            wrong = ~((actions >= 0) & (actions < self.choices) & (actions == np.floor(actions)))
            expected = f"a whole number from 0 to {self.choices - 1}"
        else:
            wrong = ~np.isfinite(actions)
            expected = "finite numbers"
        if wrong.any():  # large numbers may have a sum that is infinite
            where = tuple(np.argwhere(wrong)[0].tolist())
            raise NewtonsimError(
                f"actions[{', '.join(map(str, where))}]: expected {expected}, got {actions[where]}"
            )


class NumpyExchange(Exchange):
    """NumPy arrays; on a GPU, input and output wait for it."""

    def __init__(self, buffers: Buffers, copy: bool, **contents: Any):
        super().__init__(buffers, copy, **contents)
        view, episodes = self.buffers.view, self.buffers.episodes
        results = (self.buffers.observations, view.reward, view.terminated, episodes.truncated)
        final = (episodes.final_return, episodes.final_length, self.buffers.final_observations)
        # on the CPU always the same views of the buffers
        keep = wp.array.numpy if self.device.is_cpu else lambda array: array
        self._actions: Any = keep(view.actions)
        self._sensed: Any = keep(view.sensed)
        self._ended, self._failed = keep(episodes.ended), keep(episodes.broken)
        self._privileged = keep(episodes.privileged), keep(episodes.final_privileged)
        self._out, self._final = [*map(keep, results)], [*map(keep, final)]
        self._success, self._everyone = keep(view.success), np.ones(self.shape[0], bool)

    def _read(self, array: Any) -> np.ndarray:
        """Return the values of a stored array."""
        if self.device.is_cpu:
            return array.copy() if self.copy else array
        return array.numpy()

    def take_mask(self, mask: Any) -> None:
        """See `Exchange.take_mask`."""
        mask = np.ones(self.shape[0], bool) if mask is None else np.asarray(mask)
        self._check_mask(mask, mask.dtype == bool)
        self.buffers.asked.assign(mask)

    def take_actions(self, actions: Any) -> None:
        """See `Exchange.take_actions`."""
        actions = np.asarray(actions)
        if actions.dtype.kind not in "fiub":
            raise NewtonsimError(f"actions: expected numbers, got {actions.dtype}")
        self._check_shape(actions)
        self._check_values(actions)
        target = self.buffers.view.actions
        values = actions.reshape(target.shape)
        if self.device.is_cpu:
            self._actions[...] = values
        else:
            target.assign(np.ascontiguousarray(values, np.float32))

    def observations(self) -> np.ndarray:
        """See `Exchange.observations`."""
        return self._read(self._out[0])

    def privileged(self) -> dict[str, Any]:
        """See `Exchange.privileged`."""
        if not self.has_privileged:
            return {}
        return {"privileged": self._read(self._privileged[0]), "_privileged": self._everyone.copy()}

    def readings(self) -> np.ndarray:
        """See `Exchange.readings`."""
        return self._sensed if self.device.is_cpu else self._sensed.numpy()

    def results(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """See `Exchange.results`."""
        infos: dict[str, Any] = {}
        ended = self._read(self._ended)
        if np.count_nonzero(ended):
            returns, lengths, final_obs = map(self._read, self._final)
            episode: dict[str, Any] = {"failed": self._read(self._failed), "_failed": ended}
            if self.episode_infos:
                episode |= {"episode": {"r": returns, "l": lengths}, "_episode": ended}
            infos = {**episode, "final_obs": final_obs, "_final_obs": ended}
            infos["final_info"], infos["_final_info"] = dict(episode), ended
            if self.has_privileged:
                infos["final_privileged"], infos["_final_privileged"] = self._read(self._privileged[1]), ended
        infos |= self.privileged()
        if self.has_goal:
            infos["is_success"], infos["_is_success"] = self._read(self._success), self._everyone.copy()
        observed, rewards, terminated, truncated = map(self._read, self._out)
        return observed, rewards, terminated, truncated, infos


class TorchExchange(Exchange):
    """Torch tensors on the environment's device; its work is queued in order with torch's stream."""

    def __init__(self, buffers: Buffers, copy: bool, **contents: Any):
        super().__init__(buffers, copy, **contents)
        try:
            import torch
        except ImportError as error:
            raise ImportError("torch is not installed: pip install 'newtonsim[torch]'") from error
        self._torch = torch
        view, episodes = self.buffers.view, self.buffers.episodes
        self._actions, self._asked = wp.to_torch(view.actions), wp.to_torch(self.buffers.asked)
        self._sensed = wp.to_torch(view.sensed)
        self._privileged = wp.to_torch(episodes.privileged), wp.to_torch(episodes.final_privileged)
        arrays = (self.buffers.observations, view.reward, view.terminated, episodes.truncated)
        self._out = tuple(wp.to_torch(array) for array in arrays)
        final = self.buffers.final_observations
        arrays = (episodes.final_return, episodes.final_length, episodes.ended, episodes.broken, final)
        self._final = tuple(wp.to_torch(array) for array in arrays)
        self._success, self._everyone = wp.to_torch(view.success), wp.to_torch(self.buffers.everyone)

    def stream(self) -> contextlib.AbstractContextManager[None]:
        """See `Exchange.stream`."""
        return in_order_with_torch(self.device)

    def take_mask(self, mask: Any) -> None:
        """See `Exchange.take_mask`."""
        if mask is None:
            self._asked.fill_(True)
            return
        mask = self._torch.as_tensor(mask)
        self._check_mask(mask, mask.dtype == self._torch.bool)
        self._asked.copy_(mask)

    def take_actions(self, actions: Any) -> None:
        """See `Exchange.take_actions`."""
        if not isinstance(actions, self._torch.Tensor):
            raise NewtonsimError(f"actions: expected a torch tensor, got {type(actions).__name__}")
        if actions.device != self._actions.device:
            raise NewtonsimError(
                f"actions: expected a tensor on {self._actions.device}, got one on {actions.device}"
            )
        self._check_shape(actions)
        actions = actions.detach()
        if self.looks_at_values:
            self._check_values(actions.numpy())
        self._actions.copy_(actions.reshape(self._actions.shape))

    def observations(self) -> Any:
        """See `Exchange.observations`."""
        return self._copied(self._out[0])

    def privileged(self) -> dict[str, Any]:
        """See `Exchange.privileged`."""
        if not self.has_privileged:
            return {}
        return {"privileged": self._copied(self._privileged[0]), "_privileged": self._everyone}

    def _copied(self, tensor: Any) -> Any:
        return tensor.clone() if self.copy else tensor

    def readings(self) -> Any:
        """See `Exchange.readings`."""
        return self._sensed

    def results(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """See `Exchange.results`."""
        out, final = self._out, self._final
        if self.copy:
            out, final = tuple(t.clone() for t in out), tuple(t.clone() for t in final)
        returns, lengths, ended, failed, final_obs = final
        infos: dict[str, Any] = {"final_obs": final_obs, "_final_obs": ended}
        if self.episode_infos:
            infos["episode"], infos["_episode"] = {"r": returns, "l": lengths}, ended
        infos["failed"], infos["_failed"] = failed, ended
        if self.has_goal:
            infos["is_success"] = self._copied(self._success)
            infos["_is_success"] = self._everyone
        if self.has_privileged:
            infos |= self.privileged()
            infos["final_privileged"] = self._copied(self._privileged[1])
            infos["_final_privileged"] = ended
        observed, rewards, terminated, truncated = out
        return observed, rewards, terminated, truncated, infos
