"""Conversion of arguments, with the complaints of PyBullet.

The functions of the API check single ints, floats and strings before the function that does the
work is called (see `api.functions`); that converts vectors and lists with what is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from operator import index
from typing import Literal, Protocol

import numpy as np

from newtonsim.pybullet_compat.surface.errors import error, not_a_number

LARGEST = 1.0e12
"""Largest coordinate [m] or component of a velocity that single precision can work with, as in models."""

LARGEST_NUMBER = 1.0e20
"""Largest force, stiffness and the like: single precision can multiply it by lengths and masses."""

Size = Literal["number", "coordinate", "bound"]
"""What a number is: a coordinate or velocity, what bounds something, or any other."""

SIZES: dict[Size, float] = {"number": LARGEST_NUMBER, "coordinate": LARGEST, "bound": LARGEST_NUMBER}
"""The largest of each; a larger bound, up to infinity, counts as this one."""

SEQUENCES = (list, tuple)

NOT_NUMBERS = (TypeError, ValueError, OverflowError)
"""What Python and NumPy raise for sequences of anything else."""

_FEW = 16

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class HasWorlds(Protocol):
    """A client, as far as arguments depend on it.

    Attributes:
        num_worlds: Copies of its scene.
        given_worlds: For how many of them a call gives values.
        chooses: Whether the call names its worlds.
    """

    num_worlds: int
    given_worlds: int
    chooses: bool


def as_int(value: object, client: HasWorlds | None = None, name: str = "An argument") -> int:
    """Return an int of 32 bits.

    Args:
        value: The value.
        client: The client.
        name: Parameter that the error names.

    Raises:
        error: It is an array in a client of several worlds.
        TypeError: It is not an integer; floats are none.
        OverflowError: It has more than 32 bits.
    """
    if client is not None and client.num_worlds > 1 and np.ndim(value):
        raise error(f"{name}: expected one integer for all worlds, got shape {np.shape(value)}.")
    number = index(value)
    if not LONG_MIN <= number <= LONG_MAX:
        raise OverflowError("Python int too large to convert to C long")
    if number > INT_MAX:
        raise OverflowError("signed integer is greater than maximum")
    if number < INT_MIN:
        raise OverflowError("signed integer is less than minimum")
    return int(number)


def as_float(
    value: object,
    client: HasWorlds | None = None,
    name: str = "An argument",
    per_world: bool = True,
    size: Size = "number",
) -> float | np.ndarray:
    """Return a float; arrays with one value per world stay arrays in clients of several worlds.

    Args:
        value: The value.
        client: The client.
        name: Parameter that the error names.
        per_world: Whether worlds may have different values.
        size: Which numbers it may be.

    Raises:
        TypeError: It is not a real number.
        error: The array does not have one value per world, or something is too large or not a number (NaN).
    """
    if value.__class__ is int:
        number, largest = float(value), SIZES[size]  # pyright: ignore[reportArgumentType]
        if -largest <= number <= largest:
            return number
    if client is not None and (client.num_worlds > 1 or client.chooses) and has_axes(value):
        expected = "one number for all worlds"
        if per_world:
            expected = f"a number, or one for each world in shape ({client.given_worlds},)"
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise error(f"{name}: expected {expected}, got something other than numbers.") from None
        if not per_world or array.shape != (client.given_worlds,):
            raise error(f"{name}: expected {expected}, got shape {array.shape}.")
        array = sized(array, name, size)
        return array if client.num_worlds > 1 else float(array[0])
    if not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    number, largest = float(value), SIZES[size]  # pyright: ignore[reportArgumentType]
    return number if -largest <= number <= largest else float(sized(np.float64(number), name, size))


def sized(values: np.ndarray | np.floating, name: str, size: Size = "number") -> np.ndarray | np.floating:
    """Return numbers of any shape that the engine can work with.

    Args:
        values: The numbers.
        name: Parameter that the error names.
        size: What they are; bounds are cut to the largest.

    Raises:
        error: One is not a number (NaN), or too large.
    """
    largest = SIZES[size]
    if values.size <= _FEW and hypot(*values.ravel().tolist()) <= largest:  # quicker than NumPy
        return values
    if (np.abs(values) <= largest).all():
        return values
    if np.isnan(values).any():
        raise not_a_number(name)
    if size == "bound":
        return np.clip(values, -largest, largest)
    if np.isinf(values).any():
        raise error(f"{name} must be finite.")
    raise error(f"{name} must be at most {largest:g} in size.")


def sized_all(value: object, name: str, size: Size) -> object:
    """Return an object of numbers that the engine can work with; what is none is left to the function.

    Args:
        value: Any nested sequence.
        name: Parameter that the error names.
        size: What the numbers are.

    Raises:
        error: See `sized`.
    """
    try:
        array = np.asarray(value, np.float64)
    except NOT_NUMBERS:
        return value
    result = sized(array, name, size)
    return value if result is array else result


def has_axes(value: object) -> bool:
    """Whether a value is an array, or a list of numbers or lists of any lengths."""
    return (
        bool(np.ndim(value)) if isinstance(value, (np.ndarray, np.generic)) else isinstance(value, SEQUENCES)
    )


def finite(value: float | np.ndarray, name: str) -> None:
    """Raise `error` if a number, or one of them, is infinite."""
    if not np.isfinite(value).all():
        raise error(f"{name} must be finite.")


def as_str(value: object, position: int) -> str:
    """Return a string.

    Raises:
        TypeError: It is none; paths and bytes are none.
        ValueError: It has a null character.
    """
    if not isinstance(value, str):
        kind = "None" if value is None else type(value).__name__
        raise TypeError(f"argument {position} must be str, not {kind}")
    if "\0" in value:
        raise ValueError("embedded null character")
    return value


def vec3(value: Sequence[float], name: str) -> tuple[float, float, float]:
    """Return three floats.

    Args:
        value: Any sequence of three numbers up to `LARGEST`.
        name: Parameter that the error names.

    Raises:
        error: "Cannot convert <name>."
    """
    try:
        x, y, z = map(float, value)
    except (TypeError, ValueError):
        raise _cannot_convert(value, 3, name) from None
    if not abs(x) + abs(y) + abs(z) <= LARGEST:
        raise error(f"Cannot convert {name}.")
    return x, y, z


def quat(value: Sequence[float], name: str) -> tuple[float, float, float, float]:
    """Return four floats, x, y, z, w, as given; see `vec3`."""
    try:
        x, y, z, w = map(float, value)
    except (TypeError, ValueError):
        raise _cannot_convert(value, 4, name) from None
    if not abs(x) + abs(y) + abs(z) + abs(w) <= LARGEST:
        raise error(f"Cannot convert {name}.")
    return x, y, z, w


def _cannot_convert(value: object, size: int, name: str) -> error:
    """Return the error of what is not a vector; one for each world has its own."""
    given = value.shape if isinstance(value, np.ndarray) else ()
    said = f" Its shape is ({size},), the same in all worlds, not {given}." if len(given) > 1 else ""
    return error(f"Cannot convert {name}.{said}")


def vectors(value: object, size: int, client: HasWorlds, name: str) -> np.ndarray:
    """Return one vector for every world of a client.

    Args:
        value: One vector (size,) for all worlds, or one for each, (num_worlds, size); up to `LARGEST`.
        size: Length of a vector.
        client: The client.
        name: Parameter that the error names.

    Returns:
        A new array (num_worlds, size) of float64.

    Raises:
        error: "Cannot convert <name>."
    """
    if isinstance(value, np.ndarray) and value.shape == (1, size):
        value = value[0]
    array = rows(value, size, client, f"Cannot convert {name}.")
    return np.array(np.broadcast_to(array, (client.num_worlds, size)))


def rows(value: object, size: int, client: HasWorlds, message: str, largest: float = LARGEST) -> np.ndarray:
    """Return one vector (size,), or one for each world that a call is about (n, size), of finite numbers.

    Args:
        value: The vector or vectors.
        size: Length of a vector.
        client: The client.
        message: Text of the error, as PyBullet has it; with several worlds the shapes are added.
        largest: Largest size of a number.

    Raises:
        error: It is something else.
    """
    if client.num_worlds == 1 and not client.chooses and value.__class__ in SEQUENCES:
        try:
            if len(value) == size and hypot(*value) <= largest:  # quicker than NumPy, and NaN is no more
                return np.array(value, np.float64)
        except NOT_NUMBERS:
            pass
    shape = f"something other than numbers in a {type(value).__name__}"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    else:
        shapes = [(size,)]
        if client.num_worlds > 1 or client.chooses:
            shapes.append((client.given_worlds, size))
        if array.shape in shapes and (np.abs(array) <= largest).all():
            return array if client.num_worlds > 1 else array.reshape(size)
        sized = (np.abs(array) <= largest).all()
        shape = f"{array.shape}" if sized else f"numbers that are not finite or beyond {largest:g}"
    if client.num_worlds > 1 or client.chooses:
        message = f"{message} Shapes are ({size},) and ({client.given_worlds}, {size}), not {shape}."
    raise error(message)


def numbers(
    value: object, size: int, client: HasWorlds, message: str, largest: float = LARGEST
) -> Sequence[float] | np.ndarray:
    """Return what `rows` does, in a client of one world as plain numbers."""
    if client.num_worlds > 1:
        return rows(value, size, client, message, largest)
    if value.__class__ in SEQUENCES and not client.chooses:
        try:
            if len(value) == size and hypot(*value) <= largest:  # pyright: ignore[reportArgumentType]
                return tuple(map(float, value))  # pyright: ignore[reportArgumentType]
        except NOT_NUMBERS:
            pass
    return rows(value, size, client, message, largest).tolist()


def check_rows(array: np.ndarray, client: HasWorlds, name: str) -> None:
    """Raise `error` for rows of numbers that are not one for each world that a call is about.

    Args:
        array: Numbers (n,), or (n_worlds, n).
        client: The client; what one of one world takes is for others to say.
        name: Parameter that the error names.
    """
    worlds = client.given_worlds
    if client.num_worlds > 1 and array.ndim > 1 and (array.ndim > 2 or len(array) != worlds):
        raise error(
            f"{name}: expected numbers in shape (n,), or ({worlds}, n) with a row for each world, got shape "
            f"{array.shape}."
        )


def floats(value: object, message: str) -> list[float]:
    """Return a list of floats.

    Args:
        value: Any sequence of numbers.
        message: Text of the error.

    Raises:
        error: It is not a sequence of numbers.
    """
    try:
        return [float(item) for item in value]
    except (TypeError, ValueError):
        raise error(message) from None


def ints(value: object, message: str) -> list[int]:
    """Return a list of ints, of any sequence of integers; see `floats`."""
    try:
        return [index(item) for item in value]
    except TypeError:
        raise error(message) from None
