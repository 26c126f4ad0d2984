"""Arrays that users replace keep their shape: kernels do not look, and would touch foreign memory."""

from __future__ import annotations

import warp as wp

from newtonsim.errors import ModelError


def check_replacement(name: str, before: wp.array, value: object) -> None:
    """Check that what a user assigns can take the place of an array that kernels read.

    Args:
        name: What it is to the user.
        before: The array until now.
        value: What is to take its place.

    Raises:
        ModelError: It is no array, or shape, type or device differ.
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
