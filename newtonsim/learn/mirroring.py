"""Symmetry in learning: the mirror images of samples, as rsl-rl's algorithms ask for them."""

from __future__ import annotations

from typing import Any, cast

import torch
from tensordict import TensorDict

from newtonsim.envs.terms.symmetry import SignedPermutation
from newtonsim.learn.models import PolicySpaces
from newtonsim.learn.settings import Settings


def symmetry_of(policy: PolicySpaces, settings: Settings) -> dict[str, Any] | None:
    """Return the configuration of symmetry of rsl-rl's PPO, None for learning without."""
    if policy.symmetry is None:
        return None
    return {
        "env": None,
        "data_augmentation_func": Mirroring(policy),
        "use_data_augmentation": settings.symmetry == "augment",
        "use_mirror_loss": settings.symmetry == "loss",
        "mirror_loss_coeff": settings.symmetry_loss,
    }


class Mirroring:
    """Appends mirror images to batches of observations and actions.

    Actions are those of the policy, relative to the middle of their range in units of half of it; the ranges
    of an action and its mirror image are mirror images too.

    Args:
        policy: The spaces, with a symmetry.
    """

    def __init__(self, policy: PolicySpaces):
        maps = policy.symmetry
        assert maps is not None
        groups = {"policy": maps.observations, "privileged": maps.privileged}
        self._groups = {name: _TensorMirror(one) for name, one in groups.items()}
        self._actions = _TensorMirror(maps.actions)

    def __call__(
        self, env: object, obs: TensorDict | None, actions: torch.Tensor | None
    ) -> tuple[TensorDict | None, torch.Tensor | None]:
        """Return observations and actions (2 n, ...), the mirror images after the originals.

        Args:
            env: Unused.
            obs: Observations of n samples; None for none.
            actions: Actions (n, columns); None for none.
        """
        if obs is not None:
            given = set(obs.keys())
            images = {name: mirror(obs[name]) for name, mirror in self._groups.items() if name in given}
            both = torch.cat([obs, TensorDict(images, batch_size=obs.batch_size)])
            obs = cast(TensorDict, both)
        if actions is not None:
            actions = torch.cat([actions, self._actions(actions)])
        return obs, actions


class _TensorMirror:
    """A signed permutation of the columns of tensors, kept on the device of the last ones."""

    def __init__(self, mirror: SignedPermutation):
        self._index = torch.as_tensor(mirror.index)
        self._sign = torch.as_tensor(mirror.sign)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mirror images of rows of numbers."""
        self._index = self._index.to(values.device)
        self._sign = self._sign.to(values)
        return self._sign * values[..., self._index]
