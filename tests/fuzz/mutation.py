"""Damage by structure: values, tags, blocks and lines of texts, runs of bytes, arguments of calls."""

import math
import random
import re
from collections.abc import Callable

import numpy as np

NUMBERS = ("nan", "inf", "-1", "0", "1e400", "1e30", "-1e-300", "99999999999999999999", "0x10", "1_0")
WORDS = ("", " ", "x", "é", "\0", "../../etc/passwd", "a" * 3000, "$(find x)", "&amp;", '"', "1 2", "1,2,3")
TOKEN = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?|[A-Za-z_][\w:.]*|[<>{}()\[\]=\"]")
BLOCK = re.compile(r"<(\w+)[^<>]*>[^<>]*</\1>|<[^<>]*/>|\{[^{}]*\}|\([^()]*\)|^.*$", re.MULTILINE)


def of_text(text: str, rng: random.Random) -> str:
    """Replace, drop, double, move or cut a word, or a block that nests."""
    spots = list(TOKEN.finditer(text))
    blocks = [match for match in BLOCK.finditer(text) if match.group()]
    if not spots or not blocks:
        return text
    one, other = rng.choice(blocks), rng.choice(blocks)
    spot = rng.choice(spots)
    kind = rng.randrange(9)
    if kind < 4:
        is_number = spot.group()[0] in "+-.0123456789"
        choice = NUMBERS if is_number and kind < 2 else WORDS if kind == 3 else [rng.choice(spots).group()]
        return text[: spot.start()] + rng.choice(choice) + text[spot.end() :]
    if kind == 4:
        return text[: one.start()] + text[one.end() :]
    if kind == 5:
        return text[: one.end()] + other.group() + text[one.end() :]
    if kind == 6:
        return text[: one.start()] + one.group() * rng.choice((2, 3, 50)) + text[one.end() :]
    if kind == 7:
        return of_bytes(text.encode(), rng).decode(errors="replace")
    return text[: rng.randrange(len(text))]


def of_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip a bit, write a byte or a number, or drop, double, splice or cut a run."""
    if not data:
        return rng.randbytes(9)
    at, run = rng.randrange(len(data)), rng.choice((1, 2, 4, 8, 60, 999))
    kind = rng.randrange(7)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        number = rng.choice((0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1))
        return data[:at] + number.to_bytes(8, rng.choice(("little", "big")))[-run:] + data[at + run :]
    if kind == 2:
        return data[:at] + rng.randbytes(run) + data[at + run :]
    if kind == 3:
        return data[:at] + data[at + run :]
    if kind == 4:
        return data[: at + run] + data[at:]
    if kind == 5:
        source = rng.randrange(len(data))
        return data[:at] + data[source : source + run] + data[at + run :]
    return data[:at]


def of_value(value: object, rng: random.Random) -> object:
    """Replace an argument, or something in it, by what it should not be."""
    if isinstance(value, (list, tuple)) and value and rng.random() < 0.6:
        at = rng.randrange(len(value))
        changed = [of_value(item, rng) if n == at else item for n, item in enumerate(value)]
        return rng.choice((changed, changed[:-1], [*changed, 1.0], [changed] * 2))
    odd: list[Callable[[], object]] = [
        lambda: rng.choice((math.nan, math.inf, -math.inf, 1e30, 1e-44, -1.0, 0.0, 0.5)),
        lambda: rng.choice((-1, -2, 0, 1, 7, 1000, 2**31 - 1, -(2**31), 2**40)),
        lambda: rng.choice((None, True, "", "x", "a\0b", b"x", {}, (), [[]], object)),
        lambda: np.full(rng.choice(((), (3,), (256, 3), (0,))), rng.choice((1.0, math.nan))),
        lambda: [rng.uniform(-2.0, 2.0) for _ in range(rng.randrange(8))],
    ]
    return rng.choice(odd)()
