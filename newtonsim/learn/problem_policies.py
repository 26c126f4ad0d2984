"""Policies of SHAC, which learn for an `optimize.Problem`, as files that `newtonsim play` takes."""

from __future__ import annotations

import os

import numpy as np
import torch
import warp as wp
from torch import nn

from newtonsim.envs.registry import import_own
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.learn.policy_file import PolicyFile
from newtonsim.learn.saving import write_checked
from newtonsim.optimize import SHAC, Problem

_STARTS = 128
"""Starts of episodes that a file holds."""


class _Controls(nn.Module):
    """Maps states, joint_q and joint_qd (n, C + N), to controls (n, M)."""

    def __init__(self, policy: SHAC):
        super().__init__()
        # a module of its own, so that its weights are those of the graph
        self.actor = policy.actor
        self._policy, self._coords = policy, policy.problem.model.joint_coord_count

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return controls (n, M) without noise."""
        return self._policy.act(obs[:, : self._coords], obs[:, self._coords :])


def save_shac(path: str | os.PathLike, policy: SHAC, problem: str) -> None:
    """Write a policy of SHAC as a file for `PolicyFile` and the command `play`.

    The file holds its observation and network as an ONNX graph, from states (n, C + N), joint_q followed by
    joint_qd, to controls (n, M); how long its episodes are; and some of their starts.

    Args:
        path: The file.
        policy: The policy.
        problem: Where the problem is found, "module:name": a function of a module that returns it.

    Raises:
        NewtonsimError: There is no such function, it returns another problem than that of the policy, or
            torch cannot write the observation of the policy as a graph.
    """
    found = find_problem(problem)
    given, wanted = _facts(found), _facts(policy.problem)
    if given != wanted:
        raise NewtonsimError(f"problem: {problem} is not that of the policy: {given}, not {wanted}")
    starts = np.concatenate(policy.draw_starts(_STARTS), axis=1)
    module = _Controls(policy).eval()
    with torch.no_grad():
        controls = module(torch.from_numpy(starts)).numpy()
    about = {
        "problem": problem,
        "samples": policy.samples,
        "episode": policy.episode,
        "starts": starts.tolist(),
    }
    write_checked(path, module, starts, controls, about)


def find_problem(name: str, device: wp.DeviceLike = None) -> Problem:
    """Return the problem that a function of a module makes.

    Args:
        name: "module:name" of the function.
        device: Warp's default device for it; None for the current one.

    Raises:
        NewtonsimError: There is no such module or function, or it returns something else.
    """
    module, colon, rest = name.partition(":")
    if not (module and colon and rest):
        raise NewtonsimError(f"problem: expected module:name of a function that makes it, got {name!r}")
    inside = import_own(module, "to make problems")
    make = getattr(inside, rest, None)
    if not callable(make):
        known = [key for key, value in vars(inside).items() if callable(value)]
        raise NewtonsimError(f"problem: {module} has no function {rest!r}{did_you_mean(rest, known)}")
    with wp.ScopedDevice(device):
        problem = make()
    if not isinstance(problem, Problem):
        raise NewtonsimError(f"problem: {name} returned {type(problem).__name__}, not an optimize.Problem")
    return problem


def starts_of(policy: PolicyFile, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return joint_q (n, C) and joint_qd (n, N) of the starts in a policy's file.

    Raises:
        NewtonsimError: They are those of another robot.
    """
    starts, coords = np.array(policy.about["starts"], np.float32), problem.model.joint_coord_count
    if starts.shape[1] != coords + problem.model.joint_dof_count:
        raise NewtonsimError(
            f"{policy.about['problem']}: the policy is for a robot with {starts.shape[1]} coordinates and "
            f"velocities, this one has {coords + problem.model.joint_dof_count}"
        )
    return starts[:, :coords], starts[:, coords:]


def _facts(problem: Problem) -> dict[str, object]:
    """Return what a policy knows of its problem."""
    return {
        "joints": problem.model.joint_key,
        "inputs": problem.inputs,
        "actuated": problem.entries.tolist(),
        "low": problem.low.tolist(),
        "high": problem.high.tolist(),
        "interval": problem.interval,
    }
