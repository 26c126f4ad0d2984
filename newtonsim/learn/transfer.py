"""Transfer of policies: the same episodes in another physics engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from newtonsim import envs
from newtonsim.envs import BatchedEnv
from newtonsim.envs.task import Metric, joined_metrics
from newtonsim.errors import NewtonsimError
from newtonsim.learn.bullet_solver import PyBulletSolver
from newtonsim.learn.evaluation import Episodes, Policy, evaluate
from newtonsim.learn.training import OF_ENVIRONMENT
from newtonsim.solvers import MuJoCoSolver

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.solvers import SolverBase

ENGINES = ("mujoco", "pybullet")
"""Engines that policies can be transferred to."""

Watch = Callable[[str, int, Callable[[], Episodes]], None]
"""Is told of the steps of a transfer: where it plays, the seed, and what returns its complete episodes."""

_CONTACT_TIME = 0.02
"""Time constant of contacts that MuJoCo has by default [s]."""

_MUJOCO_STEP = 0.002
"""Time step that MuJoCo has by default [s]; at 0.005 s a gripper loses what it carries in soft contacts."""

_BULLET_STEP = 0.005
"""Longest step between two exchanges of forces with PyBullet [s], which takes shorter ones of its own."""


@dataclass(frozen=True)
class Transfer:
    """Episodes of a policy here and in another engine, for each seed.

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
        """Mean return there divided by that here; NaN unless the latter is positive."""
        here, there = (np.concatenate([e.returns for e in side]).mean() for side in (self.here, self.there))
        return float(there / here) if here > 0.0 else float("nan")

    @property
    def metrics(self) -> dict[str, tuple[Metric, Metric]]:
        """What `Task.metrics` tells of the episodes of all seeds here and there, by name."""
        here, there = (joined_metrics([e.metrics for e in side]) for side in (self.here, self.there))
        return {name: (metric, there[name]) for name, metric in here.items()}


def transfer(
    policy: Policy,
    name: str,
    options: Mapping[str, object] | None = None,
    engine: str = "mujoco",
    seeds: Sequence[int] = (0, 1, 2),
    episodes: int = 16,
    contact_time: float | None = None,
    watch: Watch | None = None,
) -> Transfer:
    """Play a policy here and in another engine, on the CPU.

    Observations, rewards, commands, actuators and the rate of actions are the same, from the same code and
    seeds; dynamics and contacts are the other engine's. Robots are nominal, without the randomisation of
    training.

    Args:
        policy: The policy, from observations (n, ...) to actions (n, ...).
        name: Name of the environment.
        options: Its options.
        engine: One of `ENGINES`, see `solver_of`.
        seeds: Seeds of the environments.
        episodes: Episodes of each seed.
        contact_time: Time constant of MuJoCo's contacts [s], its `solref`, see `longest_step`. None for 0.02,
            and for PyBullet, whose contacts have none.
        watch: Called after each step with "here" or the engine, the seed, and a function that returns the
            episodes of both that are complete by then.

    Raises:
        NewtonsimError: There is no such engine, or it cannot do what the task needs.
    """
    given = {name: value for name, value in (options or {}).items() if name != "randomise"}
    solvers, longest = (None, solver_of(engine, contact_time)), longest_step(engine, contact_time)
    # both first, so that what the other engine cannot do is refused before anything plays
    both = [env_of(name, episodes, given, make_solver, longest) for make_solver in solvers]
    sides = []
    for place, env in zip(("here", engine), both, strict=True):
        watches = (None if watch is None else partial(watch, place, seed) for seed in seeds)
        sides.append(
            tuple(
                evaluate(policy, env, episodes, seed, told) for seed, told in zip(seeds, watches, strict=True)
            )
        )
        env.close()
    return Transfer(engine, tuple(seeds), *sides)


def env_of(
    name: str,
    worlds: int,
    options: Mapping[str, object],
    make_solver: Callable[[Model], SolverBase] | None,
    longest: float,
    **more: object,
) -> BatchedEnv:
    """Return an environment on the CPU, with another solver and shorter steps.

    Args:
        name: Its name.
        worlds: Number of worlds.
        options: Options of the task and of the environment.
        make_solver: Makes the other solver; None for the task's solver and time step.
        longest: Longest step of the other solver [s]; the duration of an action is unchanged.
        more: Further arguments of `BatchedEnv`.
    """
    of_env = {key: value for key, value in options.items() if key in OF_ENVIRONMENT}
    task = envs.find(name)(**{key: value for key, value in options.items() if key not in of_env})
    if make_solver is not None:
        parts = max(1, math.ceil(task.dt / longest - 1e-6))
        task.dt, task.frame_skip = task.dt / parts, task.frame_skip * parts
    return BatchedEnv(task, worlds, "cpu", make_solver=make_solver, **of_env, **more)  # pyright: ignore[reportArgumentType]


def solver_of(engine: str, contact_time: float | None = None) -> Callable[[Model], SolverBase]:
    """Return a function that makes the solver of an engine, for `make_solver` of an environment.

    "mujoco" is MuJoCo on the host, with Newton's method, at most 100 iterations, elliptic cones and the
    integrator "implicitfast". "pybullet" is `PyBulletSolver`, see there.

    Args:
        engine: One of `ENGINES`.
        contact_time: Time constant of MuJoCo's contacts [s]; None for 0.02.

    Raises:
        NewtonsimError: There is no such engine, the time is not positive, or the engine has none.
    """
    if engine not in ENGINES:
        raise NewtonsimError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    if engine == "pybullet":
        if contact_time is not None:
            raise NewtonsimError("contact_time: PyBullet's contacts have no time constant, MuJoCo's have")
        return PyBulletSolver
    contact_time = _CONTACT_TIME if contact_time is None else contact_time
    if not 0.0 < contact_time < math.inf:
        raise NewtonsimError(f"contact_time: expected a time above 0, got {contact_time!r}")
    return partial(_mujoco, contact_time=contact_time)


def longest_step(engine: str, contact_time: float | None = None) -> float:
    """Return the longest step that an engine is given [s], for `env_of`.

    MuJoCo steps as it does by default, 2 ms, but at most a quarter of the time constant of its contacts.

    Args:
        engine: One of `ENGINES`.
        contact_time: Time constant of MuJoCo's contacts [s]; None for 0.02.
    """
    if engine == "pybullet":
        return _BULLET_STEP
    return min(_MUJOCO_STEP, 0.25 * (_CONTACT_TIME if contact_time is None else contact_time))


def _mujoco(model: Model, contact_time: float) -> MuJoCoSolver:
    return MuJoCoSolver(
        model,
        use_mujoco=True,
        solver="newton",
        iterations=100,
        ls_iterations=50,
        integrator="implicitfast",
        cone="elliptic",
        joint_damping=0.0,
        geom_solref=(contact_time, 1.0),
    )
