"""Networks that begin as those of another policy, which observes less and may be smaller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from newtonsim.errors import NewtonsimError
from newtonsim.learn.collect import Weights
from newtonsim.learn.settings import Settings

_COUNT = 100_000
"""Samples for which statistics of earlier observations count; those of new observations must soon follow."""
_CONVOLUTIONS = "cnns."
"""How the names of convolutions and their weights begin."""
_MUST_AGREE = ("activation", "normalise")


@dataclass(frozen=True)
class Beginning:
    """What a training begins with.

    Attributes:
        path: Where it is from.
        settings: Settings of the run that it is from.
        actor: State of the actor.
        critic: State of the critic; None if it is unknown.
    """

    path: str
    settings: Mapping[str, Any]
    actor: Weights
    critic: Weights | None

    def of_actor(self, fresh: Weights, settings: Settings) -> Weights:
        """Return the state of an actor that acts like this one, with the noise of a fresh one.

        It may have more observations after those that this one has, which have no influence at first, and
        wider layers. Pictures are of the same size in both.

        Args:
            fresh: State of a new actor.
            settings: Settings of the new run.

        Raises:
            NewtonsimError: This actor observes more, does something else, or its network has other layers.
        """
        for name in _MUST_AGREE:
            was, now = self.settings.get(name), getattr(settings, name)
            if was != now:
                raise NewtonsimError(f"{self.path}: its {name} is {was!r}, that of the new run {now!r}")
        if not _layers(fresh) or _layers(fresh) != _layers(self.actor):
            raise NewtonsimError(
                f"{self.path}: expected a policy with {len(settings.hidden)} hidden layers, as the new one"
            )
        if _pictures(fresh) != _pictures(self.actor):
            raise NewtonsimError(f"{self.path}: it observes other pictures than the new policy, or none")
        for what, axis, layer in (("observations", 1, 0), ("actions", 0, -1)):
            was, now = (_weight(state, layer).shape[axis] for state in (self.actor, fresh))
            if was > now or (was < now and what == "actions"):
                raise NewtonsimError(f"{self.path}: it has {was} {what}, the new policy {now}")
        return self._widened(fresh, self.actor)

    def of_critic(self, fresh: Weights) -> Weights:
        """Return the state of a critic that values like this one, or the fresh state if this cannot be.

        What only critics observe follows the observations; with more observations it is elsewhere.
        """
        if self.critic is None or _layers(fresh) != _layers(self.critic):
            return fresh
        if _pictures(fresh) != _pictures(self.critic):
            return fresh
        of_all, of_policy = (_weight(state, 0).shape[1] for state in (self.critic, self.actor))
        if of_all != of_policy and of_all != _weight(fresh, 0).shape[1]:
            return fresh
        return self._widened(fresh, self.critic)

    def _widened(self, fresh: Weights, old: Weights) -> Weights:
        """Return a fresh state in which the old network is embedded; new neurons have no influence yet."""
        state = {name: value.clone() for name, value in fresh.items()}
        for name in _layers(fresh):
            if any(a > b for a, b in zip(old[f"{name}.weight"].shape, state[f"{name}.weight"].shape)):
                raise NewtonsimError(f"{self.path}: its layers are wider than those of the new run")
            rows, columns = old[f"{name}.weight"].shape
            state[f"{name}.weight"][:rows, :columns] = old[f"{name}.weight"]
            state[f"{name}.weight"][:rows, columns:] = 0.0
            state[f"{name}.bias"][:rows] = old[f"{name}.bias"]
        state |= {name: value.clone() for name, value in old.items() if name.startswith(_CONVOLUTIONS)}
        for name in ("_mean", "_var", "_std"):
            key = f"obs_normalizer.{name}"
            if key in old:
                state[key][:, : old[key].shape[1]] = old[key]
        if "obs_normalizer.count" in state:
            state["obs_normalizer.count"] = torch.tensor(_COUNT)
        return state


def _layers(state: Weights) -> list[str]:
    """Return the names of the linear layers of a network, in order."""
    names = [name.removesuffix(".weight") for name in state if name.endswith(".weight")]
    return [name for name in names if not name.startswith(_CONVOLUTIONS)]


def _pictures(state: Weights) -> list[torch.Size]:
    """Return the shapes of what a network sees pictures by: convolutions, and the layer after them."""
    found = [value.shape for name, value in state.items() if name.startswith(_CONVOLUTIONS)]
    return [*found, _weight(state, 0).shape[1:]] if found else []


def _weight(state: Weights, layer: int) -> torch.Tensor:
    """Return the matrix of a linear layer."""
    return state[f"{_layers(state)[layer]}.weight"]
