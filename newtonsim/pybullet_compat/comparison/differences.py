"""What differs between two answers of one function, and whether that is more than rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FORGIVEN_COLOUR, FORGIVEN_DEPTH = 64.0, 0.01
"""What colours (of 255) and depths (of 1) of a pixel may differ by before the pixel counts."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far numbers may differ.

    Attributes:
        absolute: For every number, in its unit.
        relative: Of the greatest number of the vector it stands in.
        pixels: Share of the pixels of a picture that may differ.
        structure_only: Functions whose numbers and pixels count as equal, whatever they are.
    """

    absolute: float = 1.0e-4
    relative: float = 1.0e-3
    pixels: float = 0.02
    structure_only: frozenset[str] = frozenset()

    def allowed(self, size: float) -> float:
        """Return what numbers of a size may be apart."""
        return self.absolute + self.relative * size


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two answers differ.

    Attributes:
        place: Place in the answer, such as `[0][2]`, empty for the answer itself.
        real: What PyBullet has there.
        ours: What this engine has there.
        amount: How far apart they are; infinite where they are not numbers of one kind.
        allowed: How far apart they may be.
    """

    place: str
    real: object
    ours: object
    amount: float = math.inf
    allowed: float = 0.0

    @property
    def structural(self) -> bool:
        """Whether ids, counts, names, types or errors differ, and not only a number's value."""
        return math.isinf(self.amount)

    @property
    def severity(self) -> float:
        """By what factor they are further apart than they may be."""
        return self.amount / self.allowed if self.allowed else math.inf

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        apart = "" if self.structural else f": {self.amount:.2g} apart, {self.allowed:.2g} allowed"
        return f"{place}PyBullet {_short(self.real)}, here {_short(self.ours)}{apart}"


def find_difference(name: str, real: object, ours: object, tolerances: Tolerances) -> Difference | None:
    """Return the worst difference between two answers that is beyond tolerances, None if there is none.

    What differs in structure is worse than any number. Quaternions count up to their sign. Contact points
    are compared by pairs of links: the number of points between two convex shapes is a choice, the force
    that they add up to and the smallest distance are not; a pair that one answer lacks has no force and no
    depth there. Overlapping objects count in any order. Pictures are compared by their pixels. Of several
    collision shapes of a link, PyBullet tells foreign memory as body and link of all but the first.

    Args:
        name: Name of the function.
        real: PyBullet's answer, or the exception that it raised.
        ours: Ours.
        tolerances: What counts as different.
    """
    compare = _RULES.get(name, _values)
    found = list(compare(real, ours, "", tolerances))
    if name in tolerances.structure_only:
        found = [difference for difference in found if difference.structural]
    return max(found, key=lambda difference: difference.severity, default=None)


Rule = Callable[[Any, Any, str, Tolerances], Iterator[Difference]]


def _values(real: Any, ours: Any, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in nested tuples, dictionaries, arrays, numbers and texts."""
    if isinstance(real, Exception) or isinstance(ours, Exception):
        yield from _errors(real, ours, place)
    elif type(real) is not type(ours):
        yield Difference(place, real, ours)
    elif isinstance(real, np.ndarray):
        yield from _arrays(real, ours, place, tolerances)
    elif isinstance(real, (tuple, list)):
        yield from _sequences(real, ours, place, tolerances)
    elif isinstance(real, dict):
        if list(real) != list(ours):
            yield Difference(place, list(real), list(ours))
            return
        for key, value in real.items():
            yield from _values(value, ours[key], f"{place}[{key!r}]", tolerances)
    elif isinstance(real, float):
        yield from _numbers([real], [ours], place, tolerances)
    elif real != ours:
        yield Difference(place, real, ours)


def _errors(real: Any, ours: Any, place: str) -> Iterator[Difference]:
    """Exceptions are alike if their types have one name; PyBullet's C leaves some without a type."""
    both = isinstance(real, Exception) and isinstance(ours, Exception)
    if not both or type(real).__name__ not in ("SystemError", type(ours).__name__):
        yield Difference(place, real, ours)


def _sequences(real: Sequence, ours: Sequence, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in tuples or lists."""
    if len(real) != len(ours):
        yield Difference(f"{place}[count]", len(real), len(ours))
    elif real and all(isinstance(value, float) for value in (*real, *ours)):
        yield from _numbers(real, ours, place, tolerances, indexed=True)
    else:
        for i, (a, b) in enumerate(zip(real, ours, strict=True)):
            yield from _values(a, b, f"{place}[{i}]", tolerances)


def _numbers(
    real: npt.ArrayLike,
    ours: npt.ArrayLike,
    place: str,
    tolerances: Tolerances,
    indexed: bool = False,
) -> Iterator[Difference]:
    """The number of a vector that differs most."""
    a, b = np.asarray(real), np.asarray(ours)
    if a.size == 4 and abs(a @ a - 1.0) < 1.0e-3 and abs(b @ b - 1.0) < 1.0e-3 and a @ b < 0.0:
        b = -b  # quaternions, of one rotation
    with np.errstate(invalid="ignore"):  # inf - inf
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    apart[np.isnan(apart)] = np.inf
    allowed = tolerances.allowed(float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)))
    worst = int(np.argmax(apart))
    if apart[worst] > allowed:
        spot = f"{place}[{worst}]" if indexed else place
        yield Difference(spot, float(a[worst]), float(b[worst]), float(apart[worst]), allowed)


def _arrays(real: np.ndarray, ours: np.ndarray, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in arrays."""
    if real.shape != ours.shape or real.dtype != ours.dtype:
        yield Difference(place, f"{real.dtype} {real.shape}", f"{ours.dtype} {ours.shape}")
    elif real.size:
        yield from _numbers(real.ravel().astype(float), ours.ravel().astype(float), place, tolerances, True)


def _contacts(real: Any, ours: Any, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in contact points: the force on each pair of links, and their distance."""
    if not isinstance(real, tuple) or not isinstance(ours, tuple):
        yield from _values(real, ours, place, tolerances)
        return
    a, b = _pairs(real), _pairs(ours)
    for pair in sorted({*a, *b}):
        of = f"{place}[bodies {pair[0]} and {pair[1]}, links {pair[2]} and {pair[3]}]"
        alone = pair not in a or pair not in b
        (force, distance), (our_force, our_distance) = (x.get(pair, (np.zeros(3), 0.0)) for x in (a, b))
        yield from _numbers(force, our_force, f"{of}.force", tolerances, True)
        if alone:
            distance, our_distance = min(distance, 0.0), min(our_distance, 0.0)
        yield from _numbers([distance], [our_distance], f"{of}.distance", tolerances)


def _sets(real: Any, ours: Any, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in lists whose order says nothing."""
    lists = isinstance(real, tuple) and isinstance(ours, tuple)
    a, b = (tuple(sorted(answer)) if lists else answer for answer in (real, ours))
    yield from _values(a, b, place, tolerances)


def _pairs(points: Sequence[tuple]) -> dict[tuple[int, ...], tuple[np.ndarray, float]]:
    """Force on B (3,) [N] and smallest distance [m] by bodies and links."""
    found: dict[tuple[int, ...], tuple[np.ndarray, float]] = {}
    for point in points:
        force, distance = found.get(point[1:5], (np.zeros(3), math.inf))
        for size, direction in ((point[9], point[7]), (point[10], point[11]), (point[12], point[13])):
            force = force + size * np.array(direction)
        found[point[1:5]] = force, min(distance, point[8])
    return found


def _pictures(real: Any, ours: Any, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in pictures: sizes and types, and the share of pixels that look otherwise."""
    if not isinstance(real, tuple) or not isinstance(ours, tuple) or real[:2] != ours[:2]:
        yield from _values(real, ours, place, tolerances)
        return
    for index, forgiven in ((2, FORGIVEN_COLOUR), (3, FORGIVEN_DEPTH), (4, 0.0)):
        a, b = np.asarray(real[index]), np.asarray(ours[index])
        if type(real[index]) is not type(ours[index]) or a.shape != b.shape or a.dtype != b.dtype:
            yield Difference(f"{place}[{index}]", f"{a.dtype} {a.shape}", f"{b.dtype} {b.shape}")
            continue
        share = float(np.mean(np.abs(a.astype(float) - b.astype(float)) > forgiven))
        if share > tolerances.pixels:
            yield Difference(f"{place}[{index}].pixels", 0.0, share, share, tolerances.pixels)


def _shapes(real: Any, ours: Any, place: str, tolerances: Tolerances) -> Iterator[Difference]:
    """What differs in the collision shapes of a link, but for ids that are foreign memory."""
    if isinstance(real, tuple) and isinstance(ours, tuple) and len(real) == len(ours):
        real = (*real[:1], *((*mine[:2], *shape[2:]) for shape, mine in zip(real[1:], ours[1:], strict=True)))
    yield from _values(real, ours, place, tolerances)


_RULES: dict[str, Rule] = {
    "getContactPoints": _contacts,
    "getClosestPoints": _contacts,
    "getCollisionShapeData": _shapes,
    "getOverlappingObjects": _sets,
    "getCameraImage": _pictures,
}


def _short(value: object) -> str:
    """A value as it stands in a report."""
    if isinstance(value, Exception):
        return f"raises {type(value).__name__}: {value}"
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
