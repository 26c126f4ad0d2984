"""Sets of shapes that closest-point queries compare."""

from __future__ import annotations

import math

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry import Mesh


def ragged(rows: list, device: wp.Device) -> tuple[wp.array, wp.array]:
    """Return the first entry of each row and the end, and all entries, as int arrays."""
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32)
    entries = np.concatenate([np.asarray(row, np.int32) for row in rows] or [np.zeros(0, np.int32)])
    return wp.array(start, dtype=int, device=device), wp.array(entries, dtype=int, device=device)


class Selection:
    """Sets of shapes, one for each entry of an array whose first axis runs over the worlds.

    `SceneQuery.shapes`, `bodies`, `articulations` and `surroundings` make them.

    Attributes:
        batch: Shape of the array; an axis of length 1 stands for any length.
        sets: Shapes of each entry, in the order of the flat array.
        start: First shape of each set and the end, int, shape (sets + 1,).
        shape: Shapes of all sets, int.
    """

    def __init__(self, sets: list[np.ndarray], batch: tuple[int, ...], device: wp.Device):
        self.batch, self.sets = tuple(batch), sets
        self.start, self.shape = ragged(sets, device)


def pair_up(a: Selection, b: Selection) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """Broadcast two selections.

    Returns:
        The shape of the batch, and the set of each of its entries in `a` and in `b`, int32, flat.

    Raises:
        ModelError: Their shapes do not match.
    """
    try:
        batch = np.broadcast_shapes(a.batch, b.batch)
    except ValueError:
        raise ModelError(f"selections {a.batch} and {b.batch} cannot be broadcast together") from None
    flat = [
        np.broadcast_to(np.arange(math.prod(s.batch), dtype=np.int32).reshape(s.batch), batch).reshape(-1)
        for s in (a, b)
    ]
    return batch, flat[0], flat[1]


def local_indices(
    name: str, indices, start: np.ndarray, end: np.ndarray, total: int, per_world: bool
) -> np.ndarray:
    """Return indices into the model (worlds or 1, ...).

    Args:
        name: Kind of element, for messages.
        indices: Whole numbers of any shape.
        start: First element of each world (worlds,).
        end: End of each world (worlds,).
        total: Number of elements in the model.
        per_world: Whether the indices count from the start of each world, or in the model.

    Raises:
        ModelError: An index is out of range.
    """
    numbers = np.asarray(indices)
    if numbers.dtype.kind not in "iu":
        raise ModelError(f"{name}: expected whole numbers, got {numbers.dtype}")
    limit = int((end - start).min()) if per_world else total
    if numbers.size and (numbers.min() < 0 or numbers.max() >= limit):
        where = "each world has" if per_world else "the model has"
        raise ModelError(f"{name}: {where} 0..{limit - 1}, got {numbers.min()}..{numbers.max()}")
    if not per_world:
        return numbers[None]
    return start.reshape(-1, *[1] * numbers.ndim) + numbers[None]


def is_closed(source) -> bool:
    """Whether a mesh bounds a solid: each edge joins two triangles that traverse it in opposite ways."""
    if not isinstance(source, Mesh) or not len(source.indices):
        return False
    _, same = np.unique(source.vertices, axis=0, return_inverse=True)
    corners = same.reshape(-1)[source.indices].reshape(-1, 3).astype(np.int64)
    corners = corners[(corners != np.roll(corners, 1, axis=1)).all(axis=1)]
    edges = np.stack([corners, np.roll(corners, -1, axis=1)], axis=-1).reshape(-1, 2)
    count = len(source.vertices)
    there, back = edges[:, 0] * count + edges[:, 1], edges[:, 1] * count + edges[:, 0]
    return len(np.unique(there)) == len(there) and np.array_equal(np.sort(there), np.sort(back))
