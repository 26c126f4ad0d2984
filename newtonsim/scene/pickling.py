"""Objects with Warp arrays as bytes: for `pickle` and `copy.deepcopy`, on the same kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from newtonsim.scene.allocation import put


class PackedArray(NamedTuple):
    """An array copied from its device."""

    values: np.ndarray
    dtype: str
    requires_grad: bool


class PackedStruct(NamedTuple):
    """A struct view whose arrays were copied from their device."""

    fields: dict[str, Any]


def pack(value: Any) -> Any:
    """Return a value with Warp's arrays and struct views packed, also inside lists and tuples."""
    if isinstance(value, wp.array):
        return PackedArray(value.numpy().copy(), value.dtype.__name__, bool(value.requires_grad))
    if (struct := getattr(value, "_cls", None)) is not None:
        return PackedStruct({name: pack(getattr(value, name)) for name in struct.vars})
    if type(value) in (list, tuple):
        return type(value)(map(pack, value))
    return value


def unpack(value: Any, device: wp.Device) -> Any:
    """Return what was packed, on a device; struct views become mappings of their fields."""
    if isinstance(value, PackedArray):
        dtype = getattr(wp, value.dtype)
        return put(value.values, dtype=dtype, device=device, requires_grad=value.requires_grad)
    if isinstance(value, PackedStruct):
        return {name: unpack(field, device) for name, field in value.fields.items()}
    if type(value) in (list, tuple):
        return type(value)(unpack(item, device) for item in value)
    return value


def filled(struct: Any, fields: Mapping[str, Any]) -> Any:
    """Return a struct view with its fields set."""
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct
