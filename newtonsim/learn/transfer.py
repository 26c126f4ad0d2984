"""Whether a policy does elsewhere what it does here: the same episodes in another physics engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim import envs
from newtonsim.errors import NewtonsimError
from newtonsim.learn.evaluation import Episodes, Policy, evaluate
from newtonsim.solvers import MuJoCoSolver

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

ENGINES = ("mujoco",)
"""Where policies can go."""


@dataclass(frozen=True)
class Transfer:
    """Episodes of a policy here and in another engine, of each seed.

    Attributes:
        engine: The other engine.
        seeds: Seeds of the environments.
        here: Episodes in the solver of the task.
        there: Episodes in the other engine.
    """

    engine: str
    seeds: tuple[int, ...]
    here: tuple[Episodes, ...]
    there: tuple[Episodes, ...]

    @property
    def share(self) -> float:
        """Mean return there over that here; NaN unless the latter is positive."""
        here, there = (np.concatenate([e.returns for e in side]).mean() for side in (self.here, self.there))
        return float(there / here) if here > 0.0 else float("nan")


def transfer(
    policy: Policy,
    name: str,
    options: dict[str, object] | None = None,
    engine: str = "mujoco",
    seeds: Sequence[int] = (0, 1, 2),
    episodes: int = 16,
) -> Transfer:
    """Play a policy here and in another engine, on the CPU.

    Observations, rewards, commands, actuators and the rate of actions are the same, of the same code and
    seeds; what moves and what touches is the other engine's.

    Args:
        policy: The policy, from observations (n, ...) to actions (n, ...).
        name: Name of the environment.
        options: Its options.
        engine: One of `ENGINES`: "mujoco" is MuJoCo on the host, with Newton's method, at most 100
            iterations, elliptic cones and the integrator "implicitfast".
        seeds: Of the environments.
        episodes: Episodes of each seed.

    Raises:
        NewtonsimError: There is no such engine, or it cannot do what the task needs.
    """
    if engine not in ENGINES:
        raise NewtonsimError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    sides = []
    for make_solver in (None, _mujoco):
        env = envs.make(name, episodes, "cpu", make_solver=make_solver, **(options or {}))
        sides.append(tuple(evaluate(policy, env, episodes, seed, track=True) for seed in seeds))
        env.close()
    return Transfer(engine, tuple(seeds), *sides)


def _mujoco(model: Model) -> MuJoCoSolver:
    return MuJoCoSolver(
        model,
        use_mujoco=True,
        solver="newton",
        iterations=100,
        ls_iterations=50,
        integrator="implicitfast",
        cone="elliptic",
        joint_damping=0.0,
    )
