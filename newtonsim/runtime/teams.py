"""How many lanes a team has: one on the CPU, on a GPU as many as the model's trees can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.kernels.algebra.teams import Teams
from newtonsim.scene.levels import widest_level
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

MOST_LANES = 32
"""A warp: its lanes wait for each other at little cost, and need no shared memory to do so."""

LEAST_LANES = 4
"""Lanes of the smallest teams on a GPU; with fewer, neighbours in a warp read memory that lies far apart."""


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


def lanes_of(model: Model, index: str) -> int:
    """Lanes of each team of a launch.

    A tree has as many as the widest of the model's trees has joints in a level or ancestors of a dof, a world
    as many as it has dofs. More trees in a world than a warp has lanes are wide enough side by side.

    Args:
        model: The model.
        index: What a team works on, "tree" or "world".
    """
    if model.device.is_cpu:
        return 1
    return model.cached("lanes", lanes_on_gpu)[index]


def lanes_on_gpu(model: Model) -> dict[str, int]:
    """Return the lanes of each team on a GPU, by what it works on."""
    topology, worlds = topology_of(model), max(model.world_count, 1)
    widest = lanes_for(max(widest_level(topology), topology.max_depth))
    return {
        "tree": 1 if topology.tree_count > MOST_LANES * worlds else widest,
        "world": lanes_for(-(-model.joint_dof_count // worlds)),
    }


def lanes_for(width: int) -> int:
    """Return the smallest team that does so many things at once, or else the largest one."""
    return min(max(1 << max(width - 1, 0).bit_length(), LEAST_LANES), MOST_LANES)
