"""Policies of other libraries as files that `newtonsim play` and `newtonsim transfer` take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.learn.policy_file import PolicyFile, write_module
from newtonsim.learn.settings import settings_of
from newtonsim.learn.training import Run

_WORLDS = 8
"""Worlds in which the file is compared with what was saved."""

_RELATIVE = 1.0e-3
"""How far, as a share of the largest action, the file may be off: float32, in another order of operations."""


class _Acting(nn.Module):
    """A function as a module; one that is a module itself keeps its parameters."""

    def __init__(self, act: Callable[[torch.Tensor], torch.Tensor]):
        super().__init__()
        self.act = act

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return actions (n, ...)."""
        return self.act(obs)


def save_policy(
    path: str | os.PathLike,
    act: Callable[[torch.Tensor], torch.Tensor],
    name: str,
    options: Mapping[str, Any] | None = None,
    samples: int = 0,
) -> None:
    """Write a policy of another library as a file for `PolicyFile` and the commands `play` and `transfer`.

    The file holds what the function computes, as an ONNX graph, and which environment it is for. Both are
    tried with the first observations of that environment.

    Args:
        path: The file.
        act: Maps observations (n, ...) of the environment, as tensors on the CPU, to its actions (n, ...),
            without noise, by operations of torch that do not depend on n: a function, or a module in the mode
            in which it is to act. Normalisation of observations and scaling of actions belong to it.
        name: Name of the environment.
        options: Its options, see `Run`.
        samples: Number of samples that it was learned from, which `play` tells.

    Raises:
        NewtonsimError: There is no such environment or option, actions have a wrong shape or are not finite,
            or torch cannot write the function as a graph that does the same.
    """
    run = Run(name, settings_of(name), dict(options or {}))
    written = run.written()
    about = {"name": written["name"], "options": written["options"], "samples": samples}
    write_policy_of(path, act, run, about)


def write_policy_of(
    path: str | os.PathLike,
    act: Callable[[torch.Tensor], torch.Tensor],
    run: Run[Any],
    about: dict[str, Any],
) -> None:
    """Write the policy of a run as a file, after it was tried in its environment.

    Args:
        path: The file.
        act: See `save_policy`.
        run: The run, of which the environment and its options count.
        about: See `write_module`.

    Raises:
        NewtonsimError: Actions have a wrong shape or are not finite, or torch cannot write the function as a
            graph that does the same.
    """
    env = envs.make(run.name, _WORLDS, "cpu", **run.options)
    seen = np.array(env.reset(seed=0)[0])
    observations = torch.from_numpy(seen)
    with torch.no_grad():
        actions = act(observations).numpy()
    env.step(actions)  # which refuses actions of a wrong shape, and those that are not finite
    env.close()
    write_checked(path, _Acting(act).eval(), seen, actions, about)


def write_checked(
    path: str | os.PathLike, module: nn.Module, seen: np.ndarray, actions: np.ndarray, about: dict[str, Any]
) -> None:
    """Write a module as the file of a policy, if the file acts as the module does.

    Args:
        path: The file.
        module: See `write_module`.
        seen: Observations of some worlds, (n, ...).
        actions: What the module makes of them, (n, ...).
        about: See `write_module`.

    Raises:
        NewtonsimError: torch cannot write the module as a graph that does the same.
    """
    part = f"{os.fspath(path)}.part"
    try:
        with torch.no_grad():
            write_module(part, module, torch.from_numpy(seen[:2]), about)
        _compare(PolicyFile(part), seen, actions)
        os.replace(part, path)
    except torch.onnx.OnnxExporterError as error:
        raise NewtonsimError(f"act: torch cannot write it as a graph: {error.__cause__ or error}") from error
    finally:
        if os.path.exists(part):
            os.remove(part)


def _compare(policy: PolicyFile, seen: np.ndarray, actions: np.ndarray) -> None:
    """Raise an error unless a file acts as its function does, in any number of worlds."""
    for count in (len(seen), 3):
        found, wanted = policy(seen[:count]), actions[:count]
        tolerance = _RELATIVE * max(1.0, float(np.abs(wanted).max()))
        if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=0.0, atol=tolerance):
            raise NewtonsimError(
                f"act: as a graph it does something else in {count} worlds; it must compute each action from "
                "the observation of its world alone, by operations of torch"
            )
