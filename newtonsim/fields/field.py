"""One field of chosen elements in chosen worlds: an array (worlds, n, ...) that is read and written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import warp as wp

from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.fields.selection import choose_worlds, on_host
from newtonsim.kernels.steps import fields as field_kernels
from newtonsim.runtime import compilation
from newtonsim.scene.allocation import put

if TYPE_CHECKING:
    from collections.abc import Callable

    from newtonsim.fields.table import FieldSpec
    from newtonsim.scene.model import Model


class FieldOwner(Protocol):
    """Owner of fields: knows their arrays, and what depends on them.

    Attributes:
        model: The model.
    """

    model: Model

    def array_of(self, spec: FieldSpec) -> wp.array:
        """Return the array that currently holds a field."""
        ...

    def quaternions_of(self, spec: FieldSpec) -> np.ndarray:
        """Return where quaternions start in the array of a field, as indices of single numbers."""
        ...

    def check_change(self, field: Field, index: np.ndarray, words: wp.array) -> None:
        """Raise an error if entries of a field cannot be changed to these words."""

    def follow_change(self, spec: FieldSpec, worlds: np.ndarray, mask: wp.array) -> None:
        """Update what depends on a field in the masked worlds; an empty mask means all."""


class Field(np.lib.mixins.NDArrayOperatorsMixin):
    """Values of a field, shape (worlds, n, ...): one row with all elements for each world of a view.

    NumPy accepts it as an array, and `field[...]` reads as an array does; both give read-only arrays.
    `field[...] = values`, `field *= 2` and `write` change the model and what depends on the field.

    Args:
        spec: Row of the table.
        owner: Owner of the field.
        index: Entries of the array, (worlds, n).
        names: Labels of the elements of the second axis.
        worlds: World of each row.
        world_count: Number of worlds of the model.

    Attributes:
        spec: Row of the table.
        owner: Owner of the field.
        names: Labels of the entries of the second axis, one for each coordinate of a joint; empty for worlds.
        shape: Shape.
        device: Device of the values.
    """

    def __init__(
        self,
        spec: FieldSpec,
        owner: FieldOwner,
        index: np.ndarray,
        names: tuple[str, ...],
        worlds: np.ndarray,
        world_count: int,
    ):
        self.spec, self.names, self.owner = spec, names, owner
        self._index, self._worlds, self._world_count = index, worlds, world_count
        array = owner.array_of(spec)
        self.device: wp.Device = wp.get_device(str(array.device))
        sample = array.numpy()[:1] if self.device.is_cpu else np.zeros((1, *_tail(array.dtype)))
        self._tail = sample.shape[1:]
        self._width = int(np.prod(self._tail, dtype=int))
        self._kind: Any = wp.int32 if array.dtype is wp.int32 else wp.float32
        self._host: Any = np.int32 if array.dtype is wp.int32 else np.float32
        rows, columns = index.shape
        axes = () if spec.per == "world" else (columns,)
        self.shape: tuple[int, ...] = (rows, *axes, *self._tail)

    @property
    def array(self) -> wp.array:
        """The memory itself as a Warp array of `shape`, for kernels and other frameworks.

        Call `update` after writing to it.

        Raises:
            NewtonsimError: The elements are not equally spaced in memory.
        """
        stride = _strides(self._index)
        if stride is None:
            raise NewtonsimError(
                f"{self.spec.name}: the chosen entries are not equally spaced in memory; use numpy()"
            )
        source = self.owner.array_of(self.spec)
        size = self._width * 4
        inner = [4 * int(np.prod(self._tail[i + 1 :], dtype=int)) for i in range(len(self._tail))]
        outer = [stride[0] * size] if self.spec.per == "world" else [s * size for s in stride]
        view = wp.array(
            ptr=int(source.ptr or 0) + int(self._index[0, 0]) * size,
            dtype=self._kind,
            shape=self.shape,
            strides=(*outer, *inner),
            device=self.device,
        )
        view.memory = source  # pyright: ignore[reportAttributeAccessIssue]
        return view

    @property
    def entries(self) -> np.ndarray:
        """Indices of the entries in the array that holds them, int32 (worlds, n)."""
        return self._index.copy()

    @property
    def entry_size(self) -> int:
        """Number of values in an entry."""
        return self._width

    @property
    def memory(self) -> wp.array:
        """The whole array that holds them, as single numbers."""
        return _words_of(self.owner.array_of(self.spec), self._kind)

    def numpy(self) -> np.ndarray:
        """Return the values, shape `shape`: a view of the memory on the CPU if possible, else a copy.

        It is read-only; see `write`.
        """
        if self.device.is_cpu:
            regular = _strides(self._index) is not None
            found = self.array.numpy() if regular else self._flat().numpy().reshape(self.shape)
        else:
            found = self._flat().numpy().reshape(self.shape)
        found = found.view()
        found.flags.writeable = False
        return found

    def torch(self) -> Any:
        """Return the values as a tensor on their device: a view of the memory if possible, else a copy.

        If it is a view, call `update` after writing to it.
        """
        if _strides(self._index) is not None:
            return wp.to_torch(self.array)
        return wp.to_torch(self._flat()).reshape(self.shape)

    def write(self, values: Any, worlds: Any = None) -> None:
        """Change the values, and update what depends on them.

        Args:
            values: A number, or numbers, an array or a tensor that broadcast to `shape`, or with indices of
                worlds to (len(worlds), ...).
            worlds: Worlds of the view to write: indices, or a mask of booleans for all worlds of the model. A
                mask on the device is not read by the host.

        Quaternions are divided by their lengths, unless these differ from 1 by rounding (1e-5).

        Raises:
            NewtonsimError: There are no such worlds, or a value is invalid for the field, such as a
                quaternion of zeros.
            ModelError: The shapes do not match, which the error gives, or one number is given for coordinates
                of which some are a quaternion.
        """
        rows, mask = self._rows(worlds)
        shape = (len(rows), *self.shape[1:])
        words = self._words(values, shape)
        index = self._index[rows]
        self.owner.check_change(self, index, words)
        self._check_limits(words, rows, mask)
        self._check_sizes(words, rows)
        write_words(words, self.owner.array_of(self.spec), self._width, index, self._worlds[rows], mask)
        self.owner.follow_change(self.spec, self._worlds[rows], mask)

    def update(self) -> None:
        """Update what depends on the field in the worlds of the view; `write` calls it."""
        self.owner.follow_change(self.spec, self._worlds, self._rows(None)[1])

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def __setitem__(self, key: Any, values: Any) -> None:
        if key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
            self.write(values)
            return
        changed = np.array(self.numpy())
        changed[key] = on_host(values)
        self.write(changed)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        return found.astype(dtype, copy=bool(copy)) if dtype is not None or copy else found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", ())
        given = [np.asarray(i) if isinstance(i, Field) else i for i in inputs]
        result = getattr(ufunc, method)(*given, **options)
        if not out:
            return result
        out[0].write(result)
        return out[0]

    def __getattr__(self, name: str) -> Any:
        """Say how to get the array that has what is missing here."""
        hint = f"; field[...] is a NumPy array, which has {name!r}" if hasattr(np.ndarray, name) else ""
        raise AttributeError(f"a field has no {name!r}{hint if not name.startswith('_') else ''}")

    def __repr__(self) -> str:
        return f"<{self.spec.name} {self.shape} on {self.device}>"

    def _rows(self, worlds: Any) -> tuple[np.ndarray, wp.array]:
        """Return the rows that are written, and the mask of worlds that is applied on the device."""
        everything = np.arange(len(self._index))
        none = put(np.zeros(0, bool), dtype=bool, device=self.device)
        if worlds is None:
            return everything, none
        mask = _device_mask(worlds, self.device)
        host = np.atleast_1d(on_host(worlds)) if mask is None else None
        if host is not None and host.dtype == bool:
            mask = put(host, dtype=bool, device=self.device)
        if mask is not None:
            if mask.shape != (self._world_count,):
                raise NewtonsimError(
                    f"worlds: expected a mask of shape ({self._world_count},), got {tuple(mask.shape)}"
                )
            return everything, mask
        numbers = choose_worlds(self._world_count, host)
        place = np.full(self._world_count, -1)
        place[self._worlds] = everything
        if np.any(place[numbers] < 0):
            raise NewtonsimError(
                f"worlds: the view has no world {int(numbers[place[numbers] < 0][0])}, it has {self._worlds}"
            )
        return place[numbers], none

    def _words(self, values: Any, shape: tuple[int, ...]) -> wp.array:
        """Return values as words on the device, broadcast to a shape."""
        if isinstance(values, wp.array):
            values = values.numpy()
        if hasattr(values, "detach"):
            values = values.detach()
            if wp.device_from_torch(values.device) == self.device and not self.device.is_cpu:
                return self._torch_words(values, shape)
            values = values.cpu().numpy()
        try:
            with np.errstate(over="ignore"):
                given = np.asarray(values)
                if given.dtype.kind in "SU":  # which NumPy would read as numbers
                    raise TypeError("text")
                given = given.astype(np.float64)
                numbers = given.astype(self._host)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.spec.name}: expected numbers, got {values!r}") from error
        if self._kind is wp.int32 and np.any(numbers != given):
            raise NewtonsimError(f"{self.spec.name}: expected whole numbers, got {values!r}")
        self._check_values(numbers)
        whole = self._broadcast(lambda: np.broadcast_to(numbers, shape), numbers.shape, shape)
        whole = self._with_unit_quaternions(whole, np.array)
        flat = np.ascontiguousarray(whole).reshape(-1).view(np.int32)
        return put(flat, dtype=int, device=self.device)

    def _torch_words(self, values: Any, shape: tuple[int, ...]) -> wp.array:
        import torch

        self._check_values(values)
        kind = torch.int32 if self._kind is wp.int32 else torch.float32
        whole = self._broadcast(lambda: values.expand(shape), tuple(values.shape), shape)
        whole = self._with_unit_quaternions(whole, torch.clone)
        return wp.from_torch(whole.to(kind).contiguous().reshape(-1).view(torch.int32), dtype=wp.int32)

    def _broadcast(self, expand: Callable[[], Any], given: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        try:
            return expand()
        except (ValueError, RuntimeError):
            raise ModelError(
                f"{self.spec.name}: expected shape {shape}, or one that broadcasts to it, got {given}"
            ) from None

    def _with_unit_quaternions(self, whole: Any, copy: Callable[[Any], Any]) -> Any:
        """Normalise quaternions, as the builder does; unit quaternions keep their bits.

        Args:
            whole: An array or a tensor of as many columns as the field has.
            copy: Makes a contiguous copy of it.
        """
        at = self._quaternion_columns()
        if not at.size or not math.prod(whole.shape):
            return whole
        rows = copy(whole).reshape(len(whole), -1)
        quaternions = rows[:, at]
        length = (quaternions * quaternions).sum(-1)[..., None] ** 0.5
        if float(length.min()) <= 0.0:
            raise NewtonsimError(f"{self.spec.name}: a quaternion is zero")
        rows[:, at] = quaternions / (length + (1.0 - length) * (abs(length - 1.0) < _UNIT))
        return rows.reshape(whole.shape)

    def _quaternion_columns(self) -> np.ndarray:
        """Where the quaternions of a row are among its numbers, (quaternions, 4)."""
        starts = self.owner.quaternions_of(self.spec)
        numbers = self._index[:1, :, None] * self._width + np.arange(self._width)
        return np.flatnonzero(np.isin(numbers, starts))[:, None] + np.arange(4)

    def _check_values(self, values: Any) -> None:
        """Refuse invalid values, in an array or a tensor."""
        spec = self.spec
        if not math.prod(values.shape):
            return
        self._check_entries(values)
        low, high = float(values.min()), float(values.max())
        wrong = math.isnan(low) or low < spec.least or high > spec.most
        wrong = wrong or (spec.positive and low <= spec.least)
        wrong = wrong or (spec.key not in _ENDLESS and math.isinf(max(-low, high)))
        if spec.key == "inertia" and not wrong:
            inertia = on_host(values)
            mirrored = np.swapaxes(inertia, -1, -2)
            moments = np.linalg.eigvalsh(0.5 * (inertia + mirrored))
            skew = abs(inertia - mirrored).max(axis=(-1, -2))
            wrong = bool(moments.min() <= 0.0 or np.any(skew > 1e-4 * moments[..., 2]))
        if wrong:
            raise NewtonsimError(f"{spec.name}: expected {spec.allowed()}, got {low:g} to {high:g}")

    def _check_limits(self, words: wp.array, rows: np.ndarray, mask: wp.array) -> None:
        """Refuse lower limits above upper ones, unless a mask is on a GPU, which the host does not read.

        Args:
            words: The values to write, as words.
            rows: Rows that are written.
            mask: Mask of worlds that is applied on the device, empty for none.
        """
        key = self.spec.key
        if key not in _LIMITS or (mask.shape[0] and not self.device.is_cpu):
            return
        given = words.numpy().view(np.float32).reshape(len(rows), -1)
        name = f"joint_{_LIMITS[key]}"
        other: np.ndarray = getattr(self.owner.model, name).numpy()[self._index[rows]].reshape(given.shape)
        lower, upper = (given, other) if key == "limit_lower" else (other, given)
        crossed = lower > upper
        if mask.shape[0]:
            crossed &= mask.numpy()[self._worlds[rows], None]
        if crossed.any():
            at = np.unravel_index(int(np.argmax(crossed)), crossed.shape)
            raise NewtonsimError(
                f"{self.spec.name} of {self.names[at[1]]!r}: the lower limit would be {lower[at]:g}, above "
                f"the upper one, {upper[at]:g}; if both change, write the one that makes room first"
            )

    def _check_sizes(self, words: wp.array, rows: np.ndarray) -> None:
        """Refuse zeros where a value must remain positive, such as the radius of a sphere.

        Args:
            words: The values to write, as words.
            rows: Rows that are written.
        """
        if not self.spec.stays_positive:
            return
        given = words.numpy().view(np.float32).reshape(len(rows), -1)
        wrong = (given == 0.0) & (self.numpy()[rows].reshape(given.shape) != 0.0)
        if wrong.any():
            name = self.names[int(np.argmax(wrong.any(axis=0))) // self._width]
            raise NewtonsimError(f"{self.spec.name} of {name!r}: expected {self.spec.allowed()}, got 0")

    def _check_entries(self, values: Any) -> None:
        """Refuse a single number for matrices, poses, and non-zero gravity."""
        whole = self.spec.key in _WHOLE
        whole = whole or (self.spec.name == "gravity" and not values.shape and float(values) != 0.0)
        if whole and tuple(values.shape[-len(self._tail) :]) != self._tail:
            expected = " x ".join(map(str, self._tail))
            given = tuple(values.shape) or f"{float(values):g}"
            raise ModelError(f"{self.spec.name}: expected {expected} numbers for each, got {given}")
        self._check_stretched(values)

    def _check_stretched(self, values: Any) -> None:
        """Refuse one number for all coordinates, which would be written over orientations as well."""
        columns = self._quaternion_columns()
        if not columns.size or (values.shape and values.shape[-1] == self.shape[-1]):
            return
        name = self.names[columns[0, 0] // self._width]
        given = tuple(values.shape) or f"{float(values):g}"
        raise ModelError(
            f"{self.spec.name}: {name!r} has a quaternion: expected {self.shape[-1]} numbers, got {given}; "
            "write the other coordinates by a view of their joints"
        )

    def _flat(self) -> wp.array:
        """Return a flat copy of the values on the device."""
        return _read_words(self.owner.array_of(self.spec), self._width, self._index, self._kind)


_ENDLESS = ("limit_lower", "limit_upper", "effort_limit", "effort_lower", "velocity_limit", "max_force")
"""Fields that may be infinite."""
_LIMITS = {"limit_lower": "limit_upper", "limit_upper": "limit_lower"}
"""Limits of joint axes, each with the opposite limit."""
_WHOLE = ("inertia", "X_p", "X_c", "transform")
"""Fields of matrices and poses, which a single number cannot set."""
_UNIT = 1e-5
"""Quaternions whose length differs from 1 by at most this are left as they are."""


def _tail(dtype: Any) -> tuple[int, ...]:
    """Return the shape of an entry of a Warp type."""
    return tuple(getattr(dtype, "_shape_", ()))


def _words_of(array: wp.array, kind: Any = wp.int32) -> wp.array:
    """Return the memory of an array as 32-bit words or numbers."""
    count = array.size * wp.types.type_size_in_bytes(array.dtype) // 4
    words = wp.array(ptr=array.ptr, dtype=kind, shape=(count,), device=array.device)
    words.memory = array  # pyright: ignore[reportAttributeAccessIssue]
    return words


def write_words(
    words: wp.array, target: wp.array, width: int, index: np.ndarray, worlds: np.ndarray, mask: wp.array
) -> None:
    """Write entries of a target in the rows of an index whose worlds are masked; an empty mask means all."""
    if not index.size:
        return
    device = wp.get_device(str(target.device))
    compilation.launch(
        field_kernels.write_entries,
        index.size,
        reads=dict(
            first=0,
            index=put(index, dtype=int, device=device),
            worlds=put(worlds, dtype=int, device=device),
            mask=mask,
            width=width,
            values=words,
        ),
        writes=dict(target=_words_of(target)),
        device=device,
        record_tape=False,
    )


def _read_words(source: wp.array, width: int, index: np.ndarray, kind: Any = wp.int32) -> wp.array:
    """Return a flat copy of entries of a source, on its device."""
    device = wp.get_device(str(source.device))
    words = wp.empty(index.size * width, dtype=kind, device=device)
    compilation.launch(
        field_kernels.read_entries,
        index.size,
        reads=dict(
            first=0, index=put(index, dtype=int, device=device), width=width, source=_words_of(source)
        ),
        writes=dict(values=_words_of(words)),
        device=device,
        record_tape=False,
    )
    return words


def copy_entries(
    source: wp.array, target: wp.array, world: np.ndarray, worlds: np.ndarray, mask: wp.array
) -> None:
    """Copy the entries of some worlds.

    Args:
        source: Array to copy from.
        target: Array to copy to, of the same type and length.
        world: World of each entry, -1 for the global one.
        worlds: The worlds.
        mask: Mask of the worlds of the model, on the device; empty for all.
    """
    index = np.flatnonzero(np.isin(world, worlds))[:, None]
    width = wp.types.type_size_in_bytes(source.dtype) // 4
    if index.size:
        write_words(_read_words(source, width, index), target, width, index, world[index[:, 0]], mask)


def _strides(index: np.ndarray) -> tuple[int, int] | None:
    """Return the strides of entries between rows and between columns, None if they vary."""
    rows, columns = index.shape
    down = int(index[1, 0] - index[0, 0]) if rows > 1 else columns
    right = int(index[0, 1] - index[0, 0]) if columns > 1 else 1
    even = index[0, 0] + down * np.arange(rows)[:, None] + right * np.arange(columns)
    return (down, right) if down >= 0 and right > 0 and np.array_equal(index, even) else None


def _device_mask(worlds: Any, device: wp.Device) -> wp.array | None:
    """Return a mask that is already on the device, None if the worlds are given otherwise."""
    if isinstance(worlds, wp.array) and worlds.dtype is wp.bool and worlds.device == device:
        return worlds
    if hasattr(worlds, "detach"):
        import torch

        place: Any = worlds.device
        if worlds.dtype is torch.bool and wp.device_from_torch(place) == device:
            mask: Any = worlds.contiguous()
            return wp.from_torch(mask, dtype=wp.bool)
    return None
