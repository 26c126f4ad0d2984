"""Arrays that users replace keep their shape: kernels do not check, and would access foreign memory."""

from __future__ import annotations

import warp as wp

from newtonsim.errors import ModelError


def check_replacement(name: str, before: wp.array, value: object) -> None:
    """Check that an assigned value can replace an array that kernels read.

    Args:
        name: Its name in messages.
        before: The current array.
        value: The value that replaces it.

    Raises:
        ModelError: It is not an array, or shape, type or device differ.
    """
    if not isinstance(value, wp.array):
        got = "None" if value is None else f"a {type(value).__name__}"
        raise ModelError(f"{name}: expected a Warp array of shape {before.shape}, got {got}")
    if value.shape != before.shape:
        raise ModelError(f"{name}: expected shape {before.shape}, got {value.shape}")
    if value.dtype is not before.dtype:
        raise ModelError(f"{name}: expected {before.dtype.__name__}, got {value.dtype.__name__}")
    if value.device != before.device:
        raise ModelError(f"{name}: expected an array on {before.device}, got one on {value.device}")
