"""Ranges of worlds, and the indices of what belongs to them.

Worlds do not influence each other, so a step may handle any range of them at a time. Arrays are flat and
ordered by world: the bodies, joints, contact places and all else of consecutive worlds are consecutive too,
and a kernel that handles a range of worlds is launched over the range of its own kind of index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from newtonsim.model import Model

_KINDS: dict[str, tuple[Callable[[Model], Sequence[int]], Callable[[Model], int]]] = {
    "world": (lambda m: range(m.world_count + 1), lambda m: m.world_count),
    "tree": (lambda m: m.topology.world_start, lambda m: m.topology.tree_count),
    "joint": (lambda m: m.world_joint_start, lambda m: m.joint_count),
    "coord": (lambda m: m.world_coord_start, lambda m: m.joint_coord_count),
    "dof": (lambda m: m.world_dof_start, lambda m: m.joint_dof_count),
    "body": (lambda m: m.world_body_start, lambda m: m.body_count),
    "shape": (lambda m: m.world_shape_start, lambda m: m.shape_count),
    "particle": (lambda m: m.world_particle_start, lambda m: m.particle_count),
    "pair": (lambda m: m.collision_plan.pair_start, lambda m: m.collision_plan.pair_count),
    "contact": (lambda m: m.collision_plan.contact_start, lambda m: m.collision_plan.contact_count),
    "sweep_entry": (lambda m: m.collision_plan.sweep_start, lambda m: int(m.collision_plan.sweep_start[-1])),
}
"""Kinds of index: where each world's begin and the last one's end, and how many there are."""

Ranges = tuple[tuple[int, int], ...]
"""Ranges of an index as (first, count)."""


class Shard:
    """Consecutive worlds of a model, or the whole model with what belongs to no world.

    Args:
        model: The model.
        worlds: The worlds; None for the whole model.
        starts: Further kinds of index, as the first one of each world and the end of the last.
    """

    def __init__(
        self, model: Model, worlds: range | None = None, starts: Mapping[str, Sequence[int]] | None = None
    ):
        self.model = model
        self.worlds = worlds
        self._starts = dict(starts or {})
        self._ranges: dict[str, Ranges] = {}

    def with_starts(self, starts: Mapping[str, Sequence[int]]) -> Shard:
        """Return the same worlds with further kinds of index."""
        return Shard(self.model, self.worlds, starts)

    def ranges(self, kind: str) -> Ranges:
        """Ranges of one kind of index; empty ones are left out.

        Shapes of the global world, which stand still, are part of every shard.

        Args:
            kind: "world", "tree", "joint", "coord", "dof", "body", "shape", "particle", "pair" (place for a
                pair of shapes), "contact" (place for a contact), "sweep_entry", or one of the shard's own.

        Raises:
            KeyError: There is no such kind.
        """
        if kind not in self._ranges:
            self._ranges[kind] = tuple(r for r in self._find(kind) if r[1] > 0)
        return self._ranges[kind]

    def _find(self, kind: str) -> list[tuple[int, int]]:
        if kind in self._starts:
            start = self._starts[kind]
            total = int(start[-1])
        else:
            starts_of, total_of = _KINDS[kind]
            if self.worlds is None:
                return [(0, total_of(self.model))]
            start, total = starts_of(self.model), total_of(self.model)
        if self.worlds is None:
            return [(0, total)]
        own = (int(start[self.worlds.start]), int(start[self.worlds.stop]))
        found = [(own[0], own[1] - own[0])]
        if kind == "shape":
            found += _outside(_runs(self.model.shape_world.numpy() < 0), own)
        return found


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Runs of true entries as (first, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def _outside(runs: list[tuple[int, int]], own: tuple[int, int]) -> list[tuple[int, int]]:
    """Ranges (first, count) of the runs that do not lie in `own`."""
    return [(first, end - first) for first, end in runs if end <= own[0] or first >= own[1]]
