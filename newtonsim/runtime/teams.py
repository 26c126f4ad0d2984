"""How many lanes a team has: one on the CPU, on a GPU as many as the model's trees can use."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from newtonsim.errors import SmallTeamWarning
from newtonsim.kernels.algebra.teams import Teams
from newtonsim.scene.levels import widest_level
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.runtime.arguments import Kernel
    from newtonsim.scene.model import Model

MOST_LANES = 32
"""A warp: its lanes wait for each other at little cost, and need no shared memory to do so."""

LEAST_LANES = 4
"""Lanes of the smallest teams on a GPU; with fewer, neighbours in a warp read memory that lies far apart."""


@dataclass(frozen=True)
class Limits:
    """What a card has for a launch of teams.

    Registers and shared memory are not among them: what a kernel takes of these does not depend on the model,
    and blocks are single warps, whose registers are an eighth of a multiprocessor's at the most.

    Attributes:
        lanes: Most lanes of a team, a power of two.
        threads: Most threads of a launch.
    """

    lanes: int = MOST_LANES
    threads: int = 2**31 - 1


CARD = Limits()
"""Those of all cards, with Warp's numbering of threads."""


def teams_from(first: int, lanes: int = 1) -> Teams:
    """Return the teams of a launch.

    Args:
        first: Index of the first one.
        lanes: Lanes of each, a power of two up to `MOST_LANES`.

    Raises:
        ValueError: It is not.
    """
    if lanes < 1 or lanes > MOST_LANES or lanes & (lanes - 1):
        raise ValueError(f"lanes: expected a power of two from 1 to {MOST_LANES}, got {lanes}")
    teams = Teams()
    teams.first, teams.shift = first, lanes.bit_length() - 1
    return teams


def takes_teams(kernel: Kernel) -> bool:
    """True if the first parameter of a kernel is its teams, and not the first index."""
    parameters = kernel.adj.args
    return bool(parameters) and getattr(parameters[0].type, "cls", None) is Teams.cls


def lanes_of(model: Model, index: str) -> int:
    """Lanes of each team of a launch.

    A tree has as many as the widest of the model's trees has joints in a level or ancestors of a dof, a world
    as many as it has dofs, both within the limits of the card. More trees in a world than a warp has lanes
    are wide enough side by side.

    Args:
        model: The model.
        index: What a team works on, "tree" or "world".
    """
    if model.device.is_cpu:
        return 1
    return model.cached("lanes", lanes_on_gpu)[index]


def lanes_on_gpu(model: Model, limits: Limits = CARD) -> dict[str, int]:
    """Return the lanes of each team on a GPU, by what it works on.

    Warns:
        SmallTeamWarning: The limits allow fewer lanes than the model has use for, up to `MOST_LANES`.
    """
    topology, worlds = topology_of(model), max(model.world_count, 1)
    dofs = -(-model.joint_dof_count // worlds)
    wanted = {
        "tree": lanes_for(max(widest_level(topology), topology.max_depth)),
        "world": lanes_for(dofs),
    }
    if topology.tree_count > MOST_LANES * worlds:
        wanted["tree"] = 1
    counts = {"tree": topology.tree_count, "world": worlds}
    lanes = {index: _within(count, counts[index], limits) for index, count in wanted.items()}
    smaller = [
        f"{lanes[index]} lanes for each {index} in place of {count}, since {_limit_of(lanes[index], limits)}"
        for index, count in wanted.items()
        if lanes[index] < count
    ]
    if smaller:
        name = next(iter(model.body_key), "no body")
        what = f"the model that starts with body {name!r}, {dofs:,} dofs a world"
        warnings.warn(f"{what}, runs on a GPU with {'; '.join(smaller)}", SmallTeamWarning, stacklevel=2)
    return lanes


def lanes_for(width: int) -> int:
    """Return the lanes of the smallest team that does so many things at once, or of the largest there is."""
    return min(max(1 << max(width - 1, 0).bit_length(), LEAST_LANES), MOST_LANES)


def _within(lanes: int, teams: int, limits: Limits) -> int:
    """Return so many lanes, or as many as the limits allow so many teams."""
    lanes = min(lanes, limits.lanes)
    while lanes > 1 and lanes * teams > limits.threads:
        lanes //= 2
    return lanes


def _limit_of(lanes: int, limits: Limits) -> str:
    """Return the limit that keeps teams to so many lanes, in words."""
    if lanes == limits.lanes:
        return f"a team has at most {limits.lanes}"
    return f"a launch has at most {limits.threads:,} threads"
