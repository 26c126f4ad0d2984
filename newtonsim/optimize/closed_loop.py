"""Robots of a problem that follow a policy, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.errors import NewtonsimError
from newtonsim.optimize.checks import check_count, read_numbers
from newtonsim.optimize.cost_rollout import CostRollout

if TYPE_CHECKING:
    from newtonsim.optimize.problem import Problem

Policy = Callable[[np.ndarray], npt.ArrayLike]
"""Controls (n, M) for states (n, C + N), float32: joint_q, then joint_qd."""


def run_policy(
    problem: Problem,
    policy: Policy,
    starts: tuple[npt.ArrayLike, npt.ArrayLike],
    controls: int,
    watch: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Return what robots that follow a policy cost in a second, each from a start of its own [1/s].

    Args:
        problem: Robot and costs; running costs count, final ones do not.
        policy: The policy.
        starts: joint_q (n, C) and joint_qd (n, N).
        controls: Number of controls, one after the other.
        watch: Called after each control with the number of controls so far.

    Returns:
        Mean costs over the time, (n,); NaN for robots whose motion did not stay finite.

    Raises:
        NewtonsimError: Starts or what the policy returns have a wrong shape, or an argument is out of range.
        NotDifferentiableError: A cost reads contact forces.
    """
    check_count("controls", controls)
    model = problem.model
    worlds = np.shape(starts[0])[0] if np.ndim(starts[0]) == 2 else 0
    if not worlds:
        raise NewtonsimError(f"starts: expected joint_q of shape (n, {model.joint_coord_count})")
    q = read_numbers("starts: joint_q", starts[0], (worlds, model.joint_coord_count)).astype(np.float32)
    qd = read_numbers("starts: joint_qd", starts[1], (worlds, model.joint_dof_count)).astype(np.float32)
    steps = CostRollout(problem, ("state.joint_q",), worlds, endless=True, strict=False)
    rest = getattr(model.control(), problem.inputs).numpy()
    inputs = np.tile(rest, (worlds, 1))
    total = np.zeros(worlds)
    for count in range(1, controls + 1):
        chosen = np.asarray(policy(np.concatenate([q, qd], axis=1)))
        if chosen.shape != (worlds, len(problem.entries)):
            wanted = (worlds, len(problem.entries))
            raise NewtonsimError(f"policy: expected controls of shape {wanted}, got {chosen.shape}")
        inputs[:, problem.entries] = chosen
        found = steps.rollout.evaluate(steps.state(q.ravel(), qd.ravel()), {problem.inputs: inputs.ravel()})
        total += found.losses.numpy()
        q, qd = found.state.joint_q.numpy().reshape(q.shape), found.state.joint_qd.numpy().reshape(qd.shape)
        if watch is not None:
            watch(count)
    finite = np.isfinite(total) & np.isfinite(q).all(axis=1) & np.isfinite(qd).all(axis=1)
    return np.where(finite, total / (controls * problem.interval), np.nan)
