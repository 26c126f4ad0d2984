"""Ranges of worlds, and the indices of what belongs to them.

Worlds do not influence each other, so a step may handle any range of them at a time. Arrays are flat and
ordered by world: the bodies, joints, contact places and all else of consecutive worlds are consecutive too,
and a kernel that handles a range of worlds is launched over the range of its own kind of index.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.runtime import compilation
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

Starts = Sequence[int] | np.ndarray
"""Where each world's indices of a kind begin, and where the last one's end."""

_SHARD_WORK = 1000
"""Least degrees of freedom in a shard: 70 ants or 40 humanoids, about a millisecond of work.

Measured with 4096 ants on one core with 1 MB of level 2 cache: 17.0 µs a world and step in one piece, 14.9 in
shards of 64 worlds, 16.2 in shards of 256, 15.1 in shards of 32; smaller ones lose more by launches and cold
code than the cache saves.
"""

_SHARDS_PER_THREAD = 32
"""Most shards a thread: capturing one takes about 10 ms and 0.2 MB.

Measured with 1024 humanoids whose links collide, at rest, on one core: 25.9 µs a world and step in 16 shards,
25.0 in 27.
"""

_THREAD_WORK = 250
"""Least degrees of freedom for which another thread is woken, about 0.2 ms of work."""

_KINDS: dict[str, tuple[Callable[[Model], Starts], Callable[[Model], int]]] = {
    "world": (lambda m: range(m.world_count + 1), lambda m: m.world_count),
    "tree": (lambda m: topology_of(m).world_start, lambda m: topology_of(m).tree_count),
    "joint": (lambda m: m.world_joint_start, lambda m: m.joint_count),
    "coord": (lambda m: m.world_coord_start, lambda m: m.joint_coord_count),
    "dof": (lambda m: m.world_dof_start, lambda m: m.joint_dof_count),
    "articulation": (
        lambda m: np.searchsorted(m.articulation_start.numpy(), m.world_joint_start),
        lambda m: m.articulation_count,
    ),
    "body": (lambda m: m.world_body_start, lambda m: m.body_count),
    "shape": (lambda m: m.world_shape_start, lambda m: m.shape_count),
    "particle": (lambda m: m.world_particle_start, lambda m: m.particle_count),
}
"""Kinds of index: where each world's begin and the last one's end, and how many there are.

Rooms above add their own, see `add_kind`.
"""

_READ_FROM_DEVICE = ("shape", "articulation")


def add_kind(kind: str, starts_of: Callable[[Model], Starts]) -> None:
    """Let shards have ranges of one more kind of index.

    Args:
        kind: Its name.
        starts_of: Returns the first one of each world of a model and the end of the last, (world_count + 1,).
    """
    _KINDS[kind] = (starts_of, lambda model: int(starts_of(model)[-1]))


Ranges = tuple[tuple[int, int], ...]
"""Ranges of an index as (first, count)."""


class Shard:
    """Some worlds of a model, or the whole model with what belongs to no world.

    Args:
        model: The model.
        worlds: The worlds, one run of consecutive ones or several; None for the whole model.
        starts: Further kinds of index, as the first one of each world and the end of the last.
    """

    def __init__(
        self,
        model: Model,
        worlds: range | tuple[range, ...] | None = None,
        starts: Mapping[str, Starts] | None = None,
    ):
        self.model = model
        self.worlds = worlds
        self._starts = dict(starts or {})
        self._ranges: dict[str, Ranges] = {}
        if worlds is not None:
            # these read from the device, which must not happen while a step is recorded
            for kind in _READ_FROM_DEVICE:
                self.ranges(kind)

    def with_starts(self, starts: Mapping[str, Starts]) -> Shard:
        """Return the same worlds with further kinds of index."""
        other = copy.copy(self)
        other._starts = dict(starts)
        other._ranges = {kind: self._ranges[kind] for kind in _READ_FROM_DEVICE if kind in self._ranges}
        return other

    def ranges(self, kind: str) -> Ranges:
        """Ranges of one kind of index; empty ones are left out.

        Shapes of the global world, which stand still, are part of every shard.

        Args:
            kind: "world", "tree", "joint", "coord", "dof", "articulation", "body", "shape", "particle",
                one that a room above has added, such as "pair" (place for a pair of shapes), "contact" (place
                for a contact) and "sweep_entry" of `newtonsim.collision`, or one of the shard's own.

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
        runs = (self.worlds,) if isinstance(self.worlds, range) else self.worlds
        own = [(int(start[run.start]), int(start[run.stop])) for run in runs]
        found = [(first, end - first) for first, end in own]
        if kind == "shape":
            found += _outside(runs_of(self.model.shape_world.numpy() < 0), own)
        return found


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """Runs of true entries as (first, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def _outside(runs: list[tuple[int, int]], own: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges (first, count) of the runs that do not lie in one of `own`."""
    apart = [run for run in runs if all(run[1] <= o[0] or run[0] >= o[1] for o in own)]
    return [(first, end - first) for first, end in apart]


def divide(model: Model, shards: int) -> list[Shard]:
    """Cut a model into shards of consecutive worlds with about the same number of degrees of freedom.

    Args:
        model: The model.
        shards: Most shards; there are fewer if there are fewer worlds.

    Returns:
        The shards in the order of their worlds. A single one, the whole model, if the global world holds
        bodies, joints or particles, or if worlds are not stored one after the other.
    """
    shards = min(shards, model.world_count)
    if shards <= 1 or not _divisible(model):
        return [Shard(model)]
    work = np.concatenate(([0], np.cumsum(work_of_worlds(model))))
    shares = work[-1] * np.arange(1, shards) / shards
    cuts = np.searchsorted(work, shares)
    bounds = np.unique(np.concatenate(([0], cuts, [model.world_count]))).tolist()
    return [Shard(model, range(first, end)) for first, end in itertools.pairwise(bounds)]


def divide_among(model: Model, threads: int, least: int = _SHARD_WORK) -> list[Shard]:
    """Cut a model into shards such that a number of threads has work until the end; not at all on a GPU.

    Args:
        model: The model.
        threads: Number of threads.
        least: Least degrees of freedom in a shard; fewer than usual where each of them takes more memory.
    """
    if not model.device.is_cpu:
        return [Shard(model)]
    each = int(work_of_worlds(model).sum()) // (threads * least)
    return divide(model, threads * max(1, min(each, _SHARDS_PER_THREAD)))


def wanted_threads(model: Model, threads: int | None) -> int:
    """The number of threads asked for, or as many as there are cores and as pay; one on a GPU."""
    if not model.device.is_cpu:
        return 1
    if threads is not None:
        return threads
    paying = int(work_of_worlds(model).sum()) // _THREAD_WORK
    return max(1, min(compilation.core_count(), paying))


def work_of_worlds(model: Model) -> np.ndarray:
    """How much there is to do in each world: degrees of freedom and particles, at least 1, (world_count,)."""
    return 1 + np.diff(model.world_dof_start) + np.diff(model.world_particle_start)


def _divisible(model: Model) -> bool:
    """Whether every element that a step changes belongs to a world, and worlds are stored in order."""
    for kind, count in (
        ("body", model.body_count),
        ("joint", model.joint_count),
        ("particle", model.particle_count),
    ):
        world = getattr(model, f"{kind}_world").numpy() if count else np.zeros(0, int)
        if np.any(world < 0) or np.any(np.diff(world) < 0):
            return False
    shape_world = model.shape_world.numpy() if model.shape_count else np.zeros(0, int)
    return bool(np.all(np.diff(shape_world[shape_world >= 0]) >= 0))
