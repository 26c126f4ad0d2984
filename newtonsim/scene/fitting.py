"""Checks of the sizes of arrays: kernels do not check them, and would access foreign memory."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

import warp as wp

from newtonsim.errors import ModelError
from newtonsim.scene.arrays import COUNTS, ArraySpec
from newtonsim.scene.pickling import pack, unpack
from newtonsim.scene.revisions import Revised


class Counted(Protocol):
    """What is needed of a model, in addition to the attributes that `COUNTS` names."""

    device: wp.Device
    world_count: int


class ArrayGroup(Revised):
    """Base of State and Control: arrays of one table, whose lengths are the counts of a model.

    Arrays that fit are not checked again until one is replaced, so that every step can afford the check.
    """

    specs: ClassVar[tuple[ArraySpec, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls._names = frozenset(spec.name for spec in cls.specs)

    def __init__(self) -> None:
        for spec in self.specs:
            setattr(self, spec.name, None)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._names and not (value is None or isinstance(value, wp.array)):
            raise ModelError(f"{name}: expected a Warp array, got a {type(value).__name__}")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        arrays = {name: pack(value) for name, value in vars(self).items() if name != "_fits"}
        devices = {str(a.device) for a in vars(self).values() if isinstance(a, wp.array)}
        return {"device": devices.pop() if devices else "cpu", "arrays": arrays}

    def __setstate__(self, held: dict[str, Any]) -> None:
        device = wp.get_device(held["device"])
        self.__dict__.update({name: unpack(value, device) for name, value in held["arrays"].items()})

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(vars(self))
        return twin


class Sizes:
    """Lengths of the arrays of one table in one model.

    Args:
        model: The model.
        specs: The table.
    """

    __slots__ = ("device", "expected")

    def __init__(self, model: Counted, specs: tuple[ArraySpec, ...]):
        self.device = model.device
        self.expected = [(spec.name, (getattr(model, COUNTS[spec.per]),), spec.dtype) for spec in specs]

    def check(self, holder: object) -> None:
        """Check arrays by the names of the table.

        Args:
            holder: The object with the arrays as attributes.

        Raises:
            ModelError: One is missing or has another length, type or device.
        """
        held = vars(holder) if isinstance(holder, ArrayGroup) else None
        if held is not None:
            fits = held.get("_fits")
            if fits is not None and fits[0] is self and fits[1] == held.get("revision", 0):
                return
        if not any(hasattr(holder, name) for name, _, _ in self.expected):
            names = ", ".join(name for name, _, _ in self.expected)
            raise ModelError(f"expected something with {names}, got a {type(holder).__name__}")
        for name, shape, dtype in self.expected:
            if not hasattr(holder, name):
                raise ModelError(f"{name}: missing from a {type(holder).__name__}")
            self._check_array(name, shape, dtype, getattr(holder, name))
        if held is not None:
            held["_fits"] = (self, held.get("revision", 0))

    def _check_array(self, name: str, shape: tuple[int, ...], dtype: Any, array: object) -> None:
        if array is None:
            if shape != (0,):
                raise ModelError(f"{name}: expected {shape}, got (0,)")
        elif not isinstance(array, wp.array):
            raise ModelError(f"{name}: expected a Warp array, got a {type(array).__name__}")
        elif array.shape != shape:
            raise ModelError(f"{name}: expected {shape}, got {array.shape}")
        elif array.dtype is not dtype:
            raise ModelError(f"{name}: expected {dtype.__name__}, got {array.dtype.__name__}")
        elif array.device != self.device:
            raise ModelError(f"{name}: expected an array on {self.device}, got one on {array.device}")


def check_mask(model: Counted, mask: object) -> None:
    """Check a mask of worlds.

    Args:
        model: The model.
        mask: An array of one boolean for each world, on the model's device.

    Raises:
        ModelError: It is something else.
    """
    shape = (model.world_count,)
    if not isinstance(mask, wp.array):
        raise ModelError(f"world_mask: expected a Warp array, got a {type(mask).__name__}")
    if mask.shape != shape or mask.dtype is not wp.bool or mask.device != model.device:
        given = f"{mask.dtype.__name__} {mask.shape} on {mask.device}"
        raise ModelError(f"world_mask: expected bool {shape} on {model.device}, got {given}")
