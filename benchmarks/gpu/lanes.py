"""What NumPy lacks of the operations on the lanes of a warp."""

from __future__ import annotations

import numpy as np

LANES = 32
"""Lanes of a warp."""


def shuffle(mode: str, result: np.ndarray, found: np.ndarray | None, a, b, c, m: np.ndarray) -> None:
    """Read a register of another lane: `shfl.sync`."""
    lane = np.arange(LANES)
    b, c = (np.broadcast_to(x, (LANES,)).astype(np.int64) for x in (b, c))
    segment, clamp = c >> 8 & 31, c & 31
    low = lane & segment
    high = low | (clamp & ~segment)
    source = {
        "bfly": lane ^ (b & 31),
        "up": lane - (b & 31),
        "down": lane + (b & 31),
        "idx": low | (b & 31 & ~segment),
    }[mode]
    inside = source >= high if mode == "up" else source <= high
    values = np.broadcast_to(a, (LANES,))[np.where(inside, source, lane) % LANES].copy()
    np.copyto(result, values, where=m)
    if found is not None:
        np.copyto(found, inside, where=m)


def reduce(what: str, result: np.ndarray, a, teams, m: np.ndarray) -> None:
    """Combine a register of all lanes of a team: `redux.sync`."""
    a, teams = np.broadcast_to(a, (LANES,)).copy(), np.broadcast_to(teams, (LANES,))
    combine = {"max": np.max, "min": np.min, "add": np.sum}[what]
    for bits in {int(team) for team in teams[m]}:
        own = np.array([bits >> i & 1 for i in range(LANES)], bool)
        np.copyto(result, combine(a[own]), where=own & m)


def atomic(what: str, result: np.ndarray | None, address, memory: np.ndarray, act, value, other=None) -> None:
    """Change memory lane by lane: `atom` and `red`."""
    address, value = np.broadcast_to(address, (LANES,)), np.broadcast_to(value, (LANES,))
    swapped = None if other is None else np.broadcast_to(other, (LANES,))
    for i in act:
        place = memory_place(int(address[i]), memory.dtype.itemsize)
        old = memory[place]
        if swapped is not None:
            memory[place] = swapped[i] if old == value[i] else old
        else:
            new = {"add": old + value[i], "min": min(old, value[i]), "max": max(old, value[i])}
            memory[place] = new.get(what, value[i])
        if result is not None:
            result[i] = old


def quotient(a, b):
    """Quotient of integers, rounded towards zero; 0 for a denominator of 0."""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    safe = np.where(b == 0, b.dtype.type(1), b)
    whole = np.abs(a) // np.abs(safe)
    signed = whole if a.dtype.kind == "u" else whole * np.sign(a) * np.sign(safe)
    return np.where(b == 0, a.dtype.type(0), signed)


def remainder(a, b):
    """Remainder of integers, with the sign of a."""
    return a - quotient(a, b) * b


def shifted(way: str, a, b, bits: int):
    """Shift by any number of bits."""
    a = np.asarray(a)
    n = np.minimum(b, bits - 1).astype(a.dtype)
    if way == "shr" and a.dtype.kind == "i":
        return a >> n
    return np.where(np.asarray(b) < bits, a << n if way == "shl" else a >> n, a.dtype.type(0))


def funnel(side: str, mode: str, a, b, c):
    """Upper or lower half of two words that are shifted together: `shf`."""
    pair = np.asarray(b).astype("u8") << np.uint64(32) | np.asarray(a).astype("u8")
    n = (np.asarray(c) & np.uint32(31) if mode == "wrap" else np.minimum(c, np.uint32(32))).astype("u8")
    return (pair << n >> np.uint64(32) if side == "l" else pair >> n).astype("u4")


def to_integers(x, dtype: str):
    """Integers, within the range of their type; what is not a number becomes 0."""
    limits = np.iinfo(dtype)
    return np.clip(np.nan_to_num(np.asarray(x, np.float64), nan=0.0), limits.min, limits.max).astype(dtype)


def leading_zeros(a):
    """Zero bits before the first one."""
    a = np.atleast_1d(np.asarray(a))
    bits = 8 * a.dtype.itemsize
    return np.array([bits - (int(x) & (1 << bits) - 1).bit_length() for x in a], np.uint32)


def reversed_bits(a):
    """Bits in the reverse order."""
    a = np.atleast_1d(np.asarray(a))
    bits = 8 * a.dtype.itemsize
    return np.array([int(f"{int(x):0{bits}b}"[::-1], 2) for x in a], a.dtype)


LOWEST = 1 << 16
"""Address at which the arrays of `machine.memory` begin."""


def memory_place(address: int, size: int) -> int:
    """Return the entry of an array of `machine.memory` at an address."""
    return (address - LOWEST) // size
