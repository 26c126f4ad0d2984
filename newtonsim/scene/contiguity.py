"""Arrays from users must be contiguous: kernels rely on it, see `newtonsim.runtime.indexing`."""

from __future__ import annotations

import warp as wp

from newtonsim.errors import NewtonsimError


def check_contiguous(name: str, array: object) -> None:
    """Refuse an array that kernels would read incorrectly.

    Args:
        name: Its name in messages.
        array: The array; anything but a `wp.array` passes.

    Raises:
        NewtonsimError: It is not contiguous.
    """
    if isinstance(array, wp.array) and not array.is_contiguous:
        raise NewtonsimError(
            f"{name}: expected a contiguous array, got one of shape {array.shape} with strides of "
            f"{array.strides} bytes; `wp.clone` or torch's `contiguous()` makes one"
        )
