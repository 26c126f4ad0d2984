"""Inputs of queries: from lists, NumPy and Warp arrays to flat device arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError

Vectors = npt.ArrayLike | wp.array
Integers = int | npt.ArrayLike | wp.array


def host_vectors(name: str, values: npt.ArrayLike) -> np.ndarray:
    """Return vectors as float32 (..., 3).

    Raises:
        ModelError: They have another shape or are not finite.
    """
    vectors = np.asarray(values, dtype=np.float32)
    if vectors.ndim < 1 or vectors.shape[-1] != 3:
        raise ModelError(f"{name}: expected (..., 3), got {vectors.shape}")
    if not np.all(np.isfinite(vectors)):
        raise ModelError(f"{name}: a number is not finite")
    return vectors


def vector_pair(
    names: tuple[str, str], first: Vectors, second: Vectors, device: wp.Device
) -> tuple[wp.array, wp.array, tuple[int, ...]]:
    """Return two batches of vectors as flat vec3 arrays, and the shape of the batch.

    Warp arrays of vec3 are used as they are; host data is broadcast and copied.

    Raises:
        ModelError: The shapes do not match.
    """
    given: list[Any] = [first, second]
    shapes = []
    for k, (name, values) in enumerate(zip(names, given)):
        if isinstance(values, wp.array):
            if values.dtype is not wp.vec3 or values.device != device:
                raise ModelError(f"{name}: expected vec3 on {device}, got {values.dtype.__name__}")
        else:
            given[k] = host_vectors(name, values)
        shapes.append(tuple(values.shape) if isinstance(values, wp.array) else given[k].shape[:-1])
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(
            f"{names[0]} {shapes[0]} and {names[1]} {shapes[1]} cannot be broadcast together"
        ) from None
    flat = [_flat_vectors(name, v, batch, device) for name, v in zip(names, given)]
    return flat[0], flat[1], batch or (1,)


def _flat_vectors(name: str, values: np.ndarray | wp.array, batch: tuple[int, ...], device) -> wp.array:
    if isinstance(values, wp.array):
        if tuple(values.shape) != batch or not values.is_contiguous:
            raise ModelError(f"{name}: expected a contiguous array {batch}, got {tuple(values.shape)}")
        return values.flatten()
    full = np.ascontiguousarray(np.broadcast_to(values, (*batch, 3))).reshape(-1, 3)
    return wp.array(full, dtype=wp.vec3, device=device)


def integers(
    name: str, values: Integers, batch: tuple[int, ...], device: wp.Device, dtype: type = wp.int32
) -> tuple[int, wp.array | None]:
    """Return one number for all, or a flat array with a number for each entry of a batch.

    Raises:
        ModelError: The shape is not that of the batch.
    """
    if isinstance(values, (int, np.integer)):
        return int(values), None
    if isinstance(values, wp.array):
        if tuple(values.shape) != batch or values.dtype is not dtype or values.device != device:
            raise ModelError(
                f"{name}: expected {dtype.__name__} {batch} on {device},"
                f" got {values.dtype.__name__} {tuple(values.shape)}"
            )
        return 0, values.flatten()
    numbers = np.asarray(values)
    try:
        full = np.broadcast_to(numbers, batch).reshape(-1)
    except ValueError:
        raise ModelError(f"{name}: expected {batch}, got {numbers.shape}") from None
    return 0, wp.array(full.astype(wp.dtype_to_numpy(dtype)), dtype=dtype, device=device)


def check_range(name: str, values: Integers, lower: int, upper: int) -> None:
    """Check numbers given by the host.

    Raises:
        ModelError: One is outside lower..upper - 1.
    """
    if isinstance(values, wp.array):
        return
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iu":
        raise ModelError(f"{name}: expected whole numbers, got {numbers.dtype}")
    if numbers.size and (numbers.min() < lower or numbers.max() >= upper):
        raise ModelError(f"{name}: expected {lower}..{upper - 1}, got {numbers.min()}..{numbers.max()}")


def worlds_of(
    batch: tuple[int, ...], world: Integers | None, world_count: int, device: wp.Device
) -> tuple[int, wp.array | None, int]:
    """Return the world of a whole batch, of each entry, and the entries per world if the first axis runs over
    worlds.

    Args:
        batch: Shape of the batch.
        world: World of the whole batch or of each entry, None if the first axis runs over the worlds.
        world_count: Number of worlds.
        device: Where worlds of entries live.

    Raises:
        ModelError: A world is out of range, or is not given and the batch does not imply it.
    """
    if world is None:
        return 0, None, batch_worlds(batch, world_count)
    check_range("world", world, -1, world_count)
    return *integers("world", world, batch, device), 0


def batch_worlds(batch: tuple[int, ...], world_count: int) -> int:
    """Return the entries per world of a batch whose first axis runs over worlds, 0 in a model of one world.

    Raises:
        ModelError: There are several worlds and the first axis does not run over them.
    """
    if world_count == 1:
        return 0
    if len(batch) < 2 or batch[0] != world_count:
        raise ModelError(
            f"the model has {world_count} worlds: give a batch ({world_count}, n) or the argument world,"
            f" got a batch {batch}"
        )
    return max(math.prod(batch[1:]), 1)
