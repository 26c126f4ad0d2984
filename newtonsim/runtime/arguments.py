"""Arguments of kernels by the names that the kernels give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

import warp as wp

from newtonsim.errors import LaunchError, did_you_mean
from newtonsim.scene.contiguity import check_contiguous

Kernel = Any
"""A `wp.Kernel`. Warp does not say what its decorator returns: to a type checker a kernel is a function."""

Arguments = Mapping[str, object]
"""Values by the names of a kernel's parameters."""

NONE: Arguments = {}
"""No arguments."""


def in_order(kernel: Kernel, reads: Arguments, writes: Arguments, added: int = 0) -> tuple[object, ...]:
    """Return the arguments of a kernel in the order of its signature.

    Args:
        kernel: The kernel.
        reads: Arguments that it only reads.
        writes: Arguments that it writes to, or to arrays of.
        added: How many parameters at the front the launch adds by itself.

    Raises:
        LaunchError: An argument is missing, given twice or unknown.
        NewtonsimError: An array is not contiguous.
    """
    count, pick = _signature(kernel, added)
    given = {**reads, **writes}
    for name, value in given.items():
        if isinstance(value, wp.array):
            check_contiguous(f"kernel {kernel.key}, {name}", value)
    if len(reads) + len(writes) == count == len(given):
        try:
            return pick(given)
        except KeyError:
            pass
    raise LaunchError(_complaint(kernel, reads, writes, added))


def last_written(kernel: Kernel, writes: Arguments) -> int:
    """Number of parameters at the end of a kernel's signature that a launch names as written."""
    order = _names(kernel)
    count = 0
    while count < len(order) and order[-1 - count] in writes:
        count += 1
    return count


def _names(kernel: wp.Kernel) -> list[str]:
    return [argument.label for argument in kernel.adj.args]


@lru_cache(maxsize=4096)
def _signature(kernel: Kernel, added: int) -> tuple[int, Callable[[Arguments], tuple[object, ...]]]:
    """Number of parameters that a launch names, and what picks their values in order."""
    names = _names(kernel)[added:]
    if len(names) > 1:
        return len(names), itemgetter(*names)
    return len(names), lambda given: tuple(given[name] for name in names)


def _complaint(kernel: Kernel, reads: Arguments, writes: Arguments, added: int) -> str:
    names = _names(kernel)[added:]
    faults = [f"{name!r} is missing" for name in names if name not in reads and name not in writes]
    faults += [f"{name!r} is given twice" for name in reads if name in writes]
    for name in (*reads, *writes):
        if name not in names:
            faults.append(f"there is no parameter {name!r}{did_you_mean(name, names)}")
    return f"launch of kernel {kernel.key}: {'; '.join(faults)}"
