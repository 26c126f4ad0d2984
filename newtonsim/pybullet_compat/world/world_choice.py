"""Some worlds of a client: which they are, and their part of what is answered for all."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from newtonsim.pybullet_compat.surface.errors import error

Worlds = int | npt.ArrayLike
"""An index, a list of indices, or a mask of as many booleans as there are worlds."""


def chosen_worlds(worlds: Worlds, count: int) -> np.ndarray:
    """Return the indices of some worlds.

    Args:
        worlds: An index, indices (n,) without doubles, or a mask (count,) of booleans.
        count: How many worlds there are.

    Raises:
        error: It is none of these.
    """
    try:
        array = np.asarray(worlds)
    except ValueError:  # lists of different lengths
        array = np.asarray(worlds, object)
    if array.dtype == bool and array.shape == (count,):
        return np.flatnonzero(array)
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, np.int64)
    if array.dtype.kind in "iu" and array.ndim <= 1 and (array >= 0).all() and (array < count).all():
        found = np.atleast_1d(array)
        if len(np.unique(found)) == len(found):
            return found
    which = f"distinct indices from 0 to {count - 1}" if count > 1 else "indices of the only world, 0"
    given = f"{array.dtype} of shape {array.shape}" if array.ndim else repr(worlds)
    raise error(f"worlds: expected an index or {which}, or ({count},) booleans, got {given:.80}.")


def of_worlds(answer: Any, worlds: Worlds, count: int, by_world: bool = False) -> Any:
    """Return the part of an answer that belongs to some worlds; an index leaves the axis of worlds out.

    Args:
        answer: Arrays (count, ...), also in tuples and dicts; other things belong to all worlds.
        worlds: The worlds.
        count: How many there are.
        by_world: Whether the answer is a tuple with one item for each world.

    Raises:
        error: There are no such worlds.
    """
    rows = chosen_worlds(worlds, count)
    if count == 1:  # answered as PyBullet does, without an axis of worlds
        return answer
    is_one = np.ndim(worlds) == 0
    if by_world:
        found = tuple(answer[row] for row in rows)
        return found[0] if is_one else found
    if isinstance(answer, tuple):
        return tuple(of_worlds(part, worlds, count) for part in answer)
    if isinstance(answer, dict):
        return {name: of_worlds(part, worlds, count) for name, part in answer.items()}
    if isinstance(answer, np.ndarray) and answer.shape[:1] == (count,):
        return answer[index(rows[0])] if is_one else answer[rows]
    return answer
