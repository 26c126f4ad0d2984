"""Memory use of a simulation, array by array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

_DEEPEST = 8
_LONGEST = 1000
"""Longest list or dict that is searched for arrays: longer ones hold numbers and names."""


@dataclass(frozen=True)
class MemoryReport:
    """Bytes of the arrays of a simulation.

    Attributes:
        arrays: Bytes of each array by its path, such as "solver.contacts.manifolds.point"; an array that can
            be reached in several ways is listed under the first. Arrays on the host are marked "(host)".
        world_count: Number of worlds that share them.
    """

    arrays: dict[str, int]
    world_count: int

    @property
    def total(self) -> int:
        """Bytes of all arrays."""
        return sum(self.arrays.values())

    def parts(self, depth: int = 2) -> dict[str, int]:
        """Return bytes by the first `depth` names of the paths, largest first."""
        sums: dict[str, int] = {}
        for path, size in self.arrays.items():
            part = ".".join(path.removesuffix(" (host)").split(".")[:depth])
            sums[part] = sums.get(part, 0) + size
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        head = f"{self.total / 1e6:.1f} MB, {self.total / self.world_count / 1e3:.1f} kB for each world"
        lines = [f"{size / self.world_count:12.0f} B  {part}" for part, size in self.parts().items()]
        return "\n".join([head, *lines])


def memory_report(**owners: Any) -> MemoryReport:
    """List the arrays that models, solvers and simulators hold, each array once.

    Shared Python objects, compiled kernels, captured graphs and the triangles of meshes do not count.

    Args:
        owners: Objects to search, by the names to be used in the report; one of them is a model, or has one
            as its attribute `model`.

    Returns:
        The report.

    Raises:
        TypeError: None of the owners leads to a model.

    Example::

        print(newtonsim.memory_report(model=model, solver=solver, simulator=simulator))
    """
    worlds = [
        thing.world_count  # pyright: ignore[reportOptionalMemberAccess]
        for owner in owners.values()
        for thing in (owner, getattr(owner, "model", None))
        if hasattr(thing, "world_count") and hasattr(thing, "body_count")
    ]
    if not worlds:
        raise TypeError("memory_report: expected a model, or an object that has one, among the arguments")
    seen: set[int] = set()
    arrays: dict[str, int] = {}
    for name, owner in owners.items():
        for path, size in _arrays(owner, name, seen, 0):
            arrays[path] = arrays.get(path, 0) + size
    return MemoryReport(arrays, worlds[0])


def _arrays(thing: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, int]]:
    """Find arrays below an object that have not been seen; on the CPU, host and device share memory."""
    if isinstance(thing, (wp.array, np.ndarray)):
        host = isinstance(thing, np.ndarray)
        place = thing.__array_interface__["data"][0] if host else thing.ptr
        if place and place not in seen:
            seen.add(place)
            yield path + " (host)" * host, thing.nbytes if host else thing.capacity
        grad = None if host else thing.grad
        if grad is not None:
            yield from _arrays(grad, f"{path}.grad", seen, depth + 1)
        return
    if depth > _DEEPEST or id(thing) in seen:
        return
    if isinstance(thing, dict):
        members = thing.items() if len(thing) <= _LONGEST else ()
    elif isinstance(thing, (list, tuple)):
        members = enumerate(thing) if len(thing) <= _LONGEST else ()
    elif hasattr(thing, "__dict__") and (
        type(thing).__module__.startswith("newtonsim") or hasattr(thing, "_ctype")
    ):
        members = [(_seen_name(thing, name), member) for name, member in vars(thing).items()]
    else:
        return
    seen.add(id(thing))
    for name, member in list(members):
        if name == "_cached":  # what is kept with a model stands beside its own arrays
            yield from _arrays(member, path, seen, depth)
        elif name != "_ctype":
            yield from _arrays(member, f"{path}.{name}", seen, depth + 1)


def _seen_name(thing: Any, name: str) -> str:
    """Name of an attribute, or of the property that shows it."""
    shown = name[0] == "_" and isinstance(getattr(type(thing), name[1:], None), property)
    return name[1:] if shown else name
