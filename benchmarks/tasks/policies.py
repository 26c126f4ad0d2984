"""Policies that ship with newtonsim: what they achieve here, on rough ground, and in other engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim import envs
from newtonsim.envs import BatchedEnv
from newtonsim.envs.task import joined_metrics
from newtonsim.examples import asset_path
from newtonsim.learn import Episodes, PolicyFile, evaluate, transfer

SEEDS = (0, 1, 2)
"""Seeds of all episodes."""


@dataclass(frozen=True)
class Shipped:
    """A policy in `examples/assets/policies`.

    Attributes:
        name: Its file, without the suffix.
        robot: What it moves.
        episodes: Episodes of each seed.
        engines: Other engines in which it plays, and the time constant of MuJoCo's contacts [s], None for
            the engine's default.
        falls: Whether it also plays as in its training, where falls are counted.
        rough: Whether its task is on terrain: it plays on all levels, which share the episodes of a seed.
    """

    name: str
    robot: str
    episodes: int
    engines: tuple[tuple[str, float | None], ...] = (("mujoco", None), ("pybullet", None))
    falls: bool = False
    rough: bool = False


SHIPPED = (
    Shipped(
        "velocity",
        "the quadruped `go2_like`",
        8,
        (("mujoco", None), ("mujoco", 0.005), ("pybullet", None)),
        falls=True,
    ),
    Shipped(
        "velocity_biped",
        "the humanoid `g1_like`",
        8,
        (("mujoco", None), ("mujoco", 0.005), ("pybullet", None)),
        falls=True,
    ),
    Shipped("velocity_rough", "the quadruped `go2_like`", 100, (), rough=True),
    Shipped("hover", "the quadrotor `crazyflie_like`", 16),
    Shipped("reach", "the arm `fr3_like`", 16),
    Shipped("lift", "the arm `fr3_like`", 32, (("mujoco", None), ("mujoco", 0.005))),
)
"""All that ship; one on terrain has no engines, because other engines do not report its contact forces."""

NAMES = {"mujoco": "MuJoCo", "pybullet": "PyBullet"}


def transfers(shipped: Shipped, engines: Sequence[str], seeds: Sequence[int]) -> list[dict[str, object]]:
    """Return a row for each other engine in which a policy plays the same episodes as here.

    Args:
        shipped: The policy.
        engines: Engines that are installed.
        seeds: Seeds of the environments.
    """
    policy = PolicyFile(asset_path(f"policies/{shipped.name}.onnx"))
    about = policy.about
    rows = []
    for engine, contact_time in shipped.engines:
        if engine not in engines:
            continue
        found = transfer(
            policy, about["name"], about["options"], engine, seeds, shipped.episodes, contact_time
        )
        here, there = _all(found.here), _all(found.there)
        rows.append(
            {
                "policy": f"`policies/{shipped.name}.onnx`",
                "task": f"`{about['name']}`, {shipped.robot}",
                "samples": f"{about['samples'] / 1e6:.1f} M",
                "engine": NAMES[engine] + (f", contacts of {contact_time:g} s" if contact_time else ""),
                "episodes": len(here.returns),
                "return_here": float(here.returns.mean()),
                "return_there": float(there.returns.mean()),
                "share": f"{100.0 * found.share:.0f} %",
                "error_here": _error(here),
                "error_there": _error(there),
                "goals_here": _goals(here),
                "goals_there": _goals(there),
            }
        )
    return rows


def played(shipped: Shipped, seeds: Sequence[int]) -> list[dict[str, object]]:
    """Return a row for each way in which a policy plays here beside the nominal one."""
    policy = PolicyFile(asset_path(f"policies/{shipped.name}.onnx"))
    name, options = policy.about["name"], policy.about["options"]
    rows = []
    if shipped.falls:
        env = envs.make(name, shipped.episodes, "cpu", **options)
        found = _all([evaluate(policy, env, shipped.episodes, seed) for seed in seeds])
        others = _others(found)
        rows.append(_row(shipped, name, "as in its training", found.returns, found.lengths, others, env))
        env.close()
    if shipped.rough:
        nominal = {key: value for key, value in options.items() if key != "randomise"}
        rows += by_level(policy, shipped, name, nominal, seeds)
    return rows


def by_level(
    policy: PolicyFile, shipped: Shipped, name: str, options: dict[str, object], seeds: Sequence[int]
) -> list[dict[str, object]]:
    """Return a row for each level of a terrain; worlds begin on any level and stay on it.

    Args:
        policy: The policy.
        shipped: What is known of it.
        name: Name of the task.
        options: Options of the task.
        seeds: Seeds of the environments.
    """
    levels = int(options.get("levels", 10))  # pyright: ignore[reportArgumentType]
    options = {**options, "levels": levels, "first_levels": levels, "curriculum": False}
    env = envs.make(name, shipped.episodes, "cpu", **options)
    returns, lengths, others, on = [], [], [], []
    for seed in seeds:
        found = evaluate(policy, env, env.num_envs, seed)
        returns.append(found.returns)
        lengths.append(found.lengths)
        others.append(_others(found))
        on.append(env.buffers.view.kept.numpy()[:, 0].astype(int))
    each = [np.concatenate(values) for values in (returns, lengths, others)]
    levels_of = np.concatenate(on)
    rows = []
    for level in np.unique(levels_of):
        there = levels_of == level
        how = f"level {level + 1} of {levels}"
        chosen = [values[there] for values in each]
        rows.append(_row(shipped, name, how, chosen[0], chosen[1], chosen[2], env))
    env.close()
    return rows


def _row(
    shipped: Shipped,
    name: str,
    how: str,
    returns: np.ndarray,
    lengths: np.ndarray,
    others: np.ndarray,
    env: BatchedEnv,
) -> dict[str, object]:
    return {
        "policy": f"`policies/{shipped.name}.onnx`",
        "task": f"`{name}`, {shipped.robot}",
        "how": how,
        "episodes": len(returns),
        "return": float(returns.mean()),
        "mean_steps": float(lengths.mean()),
        "most_steps": env.max_episode_steps,
        "falls": int((lengths < env.max_episode_steps).sum()),
        "contacts_besides_the_feet": f"{np.nanmean(others):.2f} %",
    }


def _others(episodes: Episodes) -> np.ndarray:
    """Return the share of each episode in which anything but the feet touches the ground [%]."""
    return episodes.metrics["contacts besides the feet"].values


def _all(parts: Sequence[Episodes]) -> Episodes:
    """Return the episodes of all seeds as one."""
    reached = [part.reached for part in parts if part.reached is not None]
    return Episodes(
        np.concatenate([part.returns for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        metrics=joined_metrics([part.metrics for part in parts]),
        reached=np.concatenate(reached) if reached else None,
    )


def _goals(episodes: Episodes) -> str:
    """Return in which share of the episodes the goal is reached at the end, "" if the task has none."""
    return "" if episodes.reached is None else f"{100.0 * episodes.reached.mean():.0f} %"


def _error(episodes: Episodes) -> str:
    """Return the mean of the task's first metric with its unit, "" if it has none."""
    first = next(iter(episodes.metrics.values()), None)
    return "" if first is None else f"{np.nanmean(first.values):.2g} {first.unit}"
