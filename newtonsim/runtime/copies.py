"""Copies and fills of whole arrays, which recordings of launches hold as well.

Warp's own would make a graph of a recording on the CPU, whose replay takes ten times as long, see
`newtonsim.runtime.capture`. A dry run leaves them out as it does launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from newtonsim.kernels.steps import replay
from newtonsim.runtime import capture, compilation


def copy(target: wp.array, source: wp.array) -> None:
    """Copy an array to one of its size and type, and its gradient if both have one, as `wp.copy` does."""
    if compilation.dry_run_modules() is not None:
        return
    recorded = capture.collected()
    if recorded is None or not _has_words(target):
        wp.copy(target, source)
        return
    pairs = [(target, source)]
    if target.grad is not None and source.grad is not None:
        pairs.append((target.grad, source.grad))
    for to, of in pairs:
        compilation.load([replay.copy_words.module], target.device)
        launch = compilation.launch(
            replay.copy_words,
            1,
            reads=dict(source=_words(of)),
            writes=dict(target=_words(to)),
            device=target.device,
            record_cmd=True,
        )
        recorded.append(launch)


def together(pairs: Sequence[tuple[wp.array, wp.array]]) -> Callable[[], None]:
    """Return a function that copies arrays on the CPU by one launch, gradients apart.

    Args:
        pairs: Targets, and their sources of the same size and type; all are contiguous.
    """
    rows = [(to.ptr, of.ptr, _bytes(to)) for to, of in pairs if to.size]
    if not rows:
        return lambda: None
    table: Any = wp.array(np.array(rows, np.uint64), dtype=wp.uint64, device="cpu")
    table.pointed_to = tuple(pairs)  # they live as long as the launch
    compilation.load([replay.copy_blocks.module], table.device)
    reads = dict(table=table)
    return compilation.launch(replay.copy_blocks, 1, reads=reads, device="cpu", record_cmd=True).launch


def fill(target: wp.array | None, value: float = 0.0) -> None:
    """Fill an array of floats, or one of any type with zeros; None, where there is no gradient, is left."""
    if target is None or compilation.dry_run_modules() is not None:
        return
    recorded = capture.collected()
    if recorded is None or not _has_words(target):
        target.fill_(value) if value else target.zero_()
        return
    compilation.load([replay.fill_words.module], target.device)
    launch = compilation.launch(
        replay.fill_words,
        1,
        reads=dict(value=value),
        writes=dict(target=_words(target)),
        device=target.device,
        record_cmd=True,
    )
    recorded.append(launch)


def _bytes(array: wp.array) -> int:
    return array.size * wp.types.type_size_in_bytes(array.dtype)


def _has_words(array: wp.array) -> bool:
    """Whether the memory of an array is a number of floats; one of single bytes may not be."""
    return array.size > 0 and _bytes(array) % 4 == 0


def _words(array: wp.array) -> wp.array:
    """The memory of an array as floats."""
    words: Any = wp.array(ptr=array.ptr, dtype=float, shape=_bytes(array) // 4, device=array.device)
    words.memory = array
    return words
