"""The result of a check of gradients against differences, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

PASS, FAIL, UNKNOWN, NO_EFFECT, ZERO = "pass", "FAIL", "not verified", "no effect", "zero"
"""Verdicts."""

DOUBT = 1.0 / 3.0
"""Fraction of the tolerance by which differences may be wrong and still count as reliable."""

CHANCE = 2.0
"""Factor by which the error of a mixture may exceed that of the vector by chance."""

_ROUNDING = 1.0e-5
"""Fraction of the gradient with respect to all arrays that may be rounding in that of one array."""

_SHARE = 0.5
"""Fraction of the square of a sample's length that reliable entries need in order to represent the array."""

_SHOWN = 6
"""Largest number of unreliable entries of an array that the table names."""

_COMPARED = 4
"""Number of entries of an array whose slopes on both sides the table shows."""


@dataclass(frozen=True)
class Mixtures:
    """Derivatives along mixtures: all entries of a world moved at once, by natural lengths with random signs.

    The error of one is on average, in squares, that of the whole vector (Hutchinson, "A stochastic estimator
    of the trace of the influence matrix", 1990); it fails if it is twice as large as the tolerance. Arrays
    have one number for each mixture, in natural lengths.

    Attributes:
        gradient: By the backward pass.
        difference: By differences.
        uncertainty: Uncertainty of the difference; infinite at a kink.
        length: Length of the gradient of the entries that are moved, or the difference if that is larger.
    """

    gradient: np.ndarray = field(default_factory=lambda: np.zeros(0))
    difference: np.ndarray = field(default_factory=lambda: np.zeros(0))
    uncertainty: np.ndarray = field(default_factory=lambda: np.zeros(0))
    length: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class ArrayCheck:
    """Gradient of one array against differences.

    Entries have natural lengths: 1, 10 for forces, the entry itself if it is larger; half of its value for a
    parameter with a sign to keep. Errors are those of vectors whose entries are multiplied by them, so that
    different units make one vector.

    Attributes:
        name: Name of the array.
        labels: The directions that were checked, see `newtonsim.diff.tangents`: floats by their index, and
            rotations.
        worlds: World of each, -1 if worlds share it.
        gradient: Derivatives by the backward pass, (n,).
        difference: Derivatives by differences, (n,).
        uncertainty: Uncertainty of each difference, (n,); infinite if slopes on both sides differ.
        lengths: Natural lengths, (n,).
        sides: For each a step, about 1e-3 natural lengths, and the backward and forward quotients over it;
            their mean is the central one, (n, 3).
        reasons: Why the difference is unreliable, "" if it is reliable.
        total: Number of directions of the array, of which n were checked.
        slopes: Of each world, and last of what worlds share, the derivative along its own gradient, by
            differences, over what the gradient says: 1 if it is right. It sees all entries at once, with the
            least rounding. NaN where unreliable or where the gradient is zero. (world_count + 1,).
        whole: Length of the gradient of each world, and last of what worlds share, (world_count + 1,).
        mixtures: Random directions, each of which involves all entries.
        kinks: Difference between the slopes on both sides of each, (n,); 0 where there is none.
        tolerance: Largest error that passes.
        beside: Length of the gradient with respect to the arrays that passed with it, beside which it may
            be zero.
    """

    name: str
    labels: list[str]
    worlds: np.ndarray
    gradient: np.ndarray
    difference: np.ndarray
    uncertainty: np.ndarray
    lengths: np.ndarray
    sides: np.ndarray
    reasons: list[str]
    total: int
    slopes: np.ndarray
    whole: np.ndarray
    mixtures: Mixtures
    kinks: np.ndarray
    tolerance: float
    beside: float = 0.0

    @property
    def reliable(self) -> np.ndarray:
        """Whether each difference is reliable, bool (n,)."""
        return np.array([not reason for reason in self.reasons], bool)

    @property
    def unreliable(self) -> dict[str, str]:
        """Labels of the entries whose differences are unreliable, with worlds, and the reasons."""
        marked = zip(self.labels, self.worlds, self.reasons)
        return {f"{label} of world {world}": reason for label, world, reason in marked if reason}

    @property
    def furthest(self) -> np.ndarray:
        """Entries with the largest disagreement of gradient and central difference, the largest first."""
        _, backward, forward = self.sides.T
        central = np.where(np.isnan(backward), forward, 0.5 * (backward + forward))
        apart = np.nan_to_num(np.abs(self.gradient - central) * self.lengths)
        order = np.argsort(-apart, kind="stable")[:_COMPARED]
        largest = np.abs(self.gradient * self.lengths).max(initial=0.0)
        return order[apart[order] > self.tolerance * largest]

    @property
    def error(self) -> float:
        """Error of the sampled entries as one vector, relative to its length; see `relative_error`."""
        return relative_error([self], self.tolerance)[0]

    @property
    def direction_error(self) -> float:
        """Largest error of the slope along the gradient in any world; NaN if none is reliable."""
        errors = np.abs(self.slopes[np.isfinite(self.slopes)] - 1.0)
        return float(errors.max()) if len(errors) else np.nan

    @property
    def mixture_error(self) -> float:
        """Estimate of the error of the whole vector from mixtures of its entries; NaN if none is reliable."""
        return mixture_error([self], self.tolerance)

    @property
    def length(self) -> float:
        """Length of the sampled differences, or their share of the whole gradient's if that is longer.

        Only the part of the whole gradient that the slope along it confirms is counted.
        """
        difference = self.difference * self.lengths
        known = np.isfinite(difference) & (self.uncertainty * self.lengths < 0.3 * np.abs(difference))
        confirmed = np.nan_to_num(self.slopes) * self.whole
        share = len(self.labels) / max(self.total, 1)
        return float(max(np.linalg.norm(difference[known]), np.sqrt(share) * np.linalg.norm(confirmed)))

    @property
    def verdict(self) -> str:
        """The overall result: "pass", "FAIL", "not verified", "no effect" if all is zero, or "zero".

        The latter if gradient and differences are zero within noise that does not matter beside other arrays.
        """
        if self._is_zero():
            return NO_EFFECT
        error, usable = relative_error([self], self.tolerance)
        errors = [error, self.direction_error, self.mixture_error / CHANCE]
        if any(e > self.tolerance for e in errors):
            return FAIL
        part = np.linalg.norm((self.difference * self.lengths)[usable])
        spoken = self.length > 0.0 and part**2 >= _SHARE * self.length**2
        if spoken or not np.isnan(errors[1:]).all():
            return PASS
        return ZERO if self._is_zero_beside_others() else UNKNOWN

    def _is_zero(self) -> bool:
        """Whether gradient and differences are zero without noise."""
        found = (self, self.mixtures)
        known = all(np.isfinite(f.uncertainty).all() for f in found)
        return known and not self.whole.any() and not any(f.difference.any() for f in found)

    def _is_zero_beside_others(self) -> bool:
        """Whether gradient and differences are noise that is small compared with the other gradients."""
        limit = DOUBT * self.tolerance * self.beside
        mixtures = self.mixtures
        found = [
            (self.gradient, self.difference, self.uncertainty, self.lengths),
            (mixtures.gradient, mixtures.difference, mixtures.uncertainty, 1.0),
        ]
        for *vectors, lengths in found:
            gradient, difference, uncertainty = (np.linalg.norm(v * lengths) for v in vectors)
            noise = uncertainty + _ROUNDING * self.beside
            if not (uncertainty < limit and difference <= noise and gradient <= noise):
                return False
        return bool(np.linalg.norm(self.whole) < limit)


@dataclass(frozen=True)
class GradCheck(Mapping):
    """The result of `gradcheck`, by name of the array.

    Attributes:
        checks: One `ArrayCheck` for each name.
        tolerance: Largest error that passes.
    """

    checks: dict[str, ArrayCheck]
    tolerance: float

    def __getitem__(self, name: str) -> ArrayCheck:
        return self.checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    @property
    def error(self) -> float:
        """Relative error of all sampled entries as one vector, in natural lengths; see `relative_error`."""
        return relative_error(list(self.checks.values()), self.tolerance)[0]

    @property
    def direction_error(self) -> float:
        """Largest error of the slope along the gradient of any array; NaN if none is reliable."""
        errors = [part.direction_error for part in self.checks.values()]
        return float(np.nanmax(errors)) if not np.isnan(errors).all() else np.nan

    @property
    def mixture_error(self) -> float:
        """Estimate of the error of the whole gradient from mixtures; NaN if none is reliable."""
        return mixture_error(list(self.checks.values()), self.tolerance)

    @property
    def unreliable(self) -> dict[str, dict[str, str]]:
        """Entries whose differences are unreliable, by name, with reasons."""
        return {name: part.unreliable for name, part in self.checks.items() if part.unreliable}

    @property
    def verdict(self) -> str:
        """That of the worst array, and "not verified" if none has an effect."""
        verdicts = [part.verdict for part in self.checks.values()]
        if FAIL in verdicts:
            return FAIL
        return PASS if UNKNOWN not in verdicts and PASS in verdicts else UNKNOWN

    def __str__(self) -> str:
        width = max([len(name) for name in self.checks] + [5])
        lines = [f"{'array':{width}s}  verdict       error    along    mixed   length    checked  unreliable"]
        for name, part in self.checks.items():
            errors = " ".join(_number(e) for e in (part.error, part.direction_error, part.mixture_error))
            lines.append(
                f"{name:{width}s}  {part.verdict:12s} {errors} {part.length:8.1e} "
                f"{len(part.labels):4d}/{part.total:<6d} {len(part.unreliable):4d}"
            )
        errors = " ".join(_number(e) for e in (self.error, self.direction_error, self.mixture_error))
        lines.append(f"{'all':{width}s}  {self.verdict:12s} {errors}")
        for name, entries in self.unreliable.items():
            if self.checks[name].verdict == ZERO:
                continue
            shown = list(entries.items())[:_SHOWN]
            lines += [f"  {name}{entry}: {reason}" for entry, reason in shown]
            if len(entries) > len(shown):
                lines.append(f"  {name}: {len(entries) - len(shown)} more")
        lines += self._slopes()
        return "\n".join([*lines, *self._conclusion()])

    def _slopes(self) -> list[str]:
        """Gradients beside slopes of both sides, where they differ most in what did not pass or is unsure."""
        rows = []
        for name, part in self.checks.items():
            if part.verdict not in (FAIL, UNKNOWN) and not part.unreliable:
                continue
            for i in part.furthest:
                span, backward, forward = part.sides[i]
                label = f"{name}{part.labels[i]} of world {part.worlds[i]}"
                slopes = (part.gradient[i], backward, 0.5 * (backward + forward), forward, span)
                rows.append((label, " ".join("        -" if np.isnan(x) else f"{x:9.2e}" for x in slopes)))
        if not rows:
            return []
        width = max(len(label) for label, _ in rows)
        head = f"  {'slopes':{width}s}  gradient  backward      both   forward      span"
        return [head, *(f"  {label:{width}s} {numbers}" for label, numbers in rows)]

    def _conclusion(self) -> list[str]:
        """The verdict in words."""
        kinds = (FAIL, UNKNOWN, NO_EFFECT, ZERO)
        of = {v: [n for n, p in self.checks.items() if p.verdict == v] for v in kinds}
        lines = []
        kinks = [name for name in of[UNKNOWN] if self.checks[name].kinks.any()]
        if kinks:
            lines.append(
                f"kink: {', '.join(kinks)}: slopes on both sides differ, and no difference can tell which "
                "of them, or which value between them, the gradient should be"
            )
        if of[ZERO]:
            lines.append(
                f"zero: {', '.join(of[ZERO])}: gradient and differences are zero within noise, which is "
                f"small compared with the other arrays ({max(self.checks[n].beside for n in of[ZERO]):.1e})"
            )
        if of[NO_EFFECT]:
            lines.append(
                f"no effect: {', '.join(of[NO_EFFECT])}: gradient and differences are zero; the loss does "
                "not depend on it in these steps"
            )
        said = {
            FAIL: f"error above {self.tolerance:g} in {', '.join(of[FAIL])}",
            UNKNOWN: f"no reliable difference for {', '.join(of[UNKNOWN])}",
            PASS: f"errors within {self.tolerance:g}",
        }[self.verdict]
        if self.verdict == UNKNOWN and not of[UNKNOWN]:
            said = "the loss depends on none of these"
        return [*lines, f"verdict: {self.verdict}: {said}"]


def relative_error(parts: Sequence[ArrayCheck], tolerance: float) -> tuple[float, np.ndarray]:
    """Error of sampled entries of some arrays as one vector, and which entries are used.

    It is the length of gradient minus differences over that of all sampled differences. The best known
    entries are used, as many as are together known to a third of the tolerance; their error is relative to
    the length of all of them, reliable or not, so that rounding of a few small ones does not look like an
    error.

    Args:
        parts: The arrays.
        tolerance: The error that matters.

    Returns:
        The error, 0 if all is zero and NaN if nothing is known; and whether entries are used, bool, in the
        order of the arrays.
    """
    gradient, difference, uncertainty = (
        np.concatenate([getattr(part, name) * part.lengths for part in parts])
        for name in ("gradient", "difference", "uncertainty")
    )
    length = float(np.linalg.norm([part.length for part in parts]))
    usable = np.isfinite(difference) & np.isfinite(uncertainty)
    if length == 0.0:
        zero = usable & (gradient == 0.0) & (np.abs(difference) <= uncertainty)
        return (0.0 if len(zero) and zero.all() else np.nan), zero
    usable &= _known(uncertainty, DOUBT * tolerance * length)
    if not usable.any():
        return np.nan, usable
    return float(np.linalg.norm((gradient - difference)[usable]) / length), usable


def mixture_error(parts: Sequence[ArrayCheck], tolerance: float) -> float:
    """Error of some arrays as one vector, estimated from mixtures; NaN where nothing is known.

    Args:
        parts: The arrays.
        tolerance: The error that matters.
    """
    gradient, difference, uncertainty, length = (
        np.concatenate([getattr(part.mixtures, name) for part in parts])
        for name in ("gradient", "difference", "uncertainty", "length")
    )
    whole = float(np.linalg.norm(length))
    usable = _known(uncertainty, DOUBT * tolerance * whole)
    part = np.linalg.norm(length[usable])
    if whole == 0.0 or part**2 < _SHARE * whole**2:
        return np.nan
    return float(np.linalg.norm((gradient - difference)[usable]) / part)


def _known(uncertainty: np.ndarray, most: float) -> np.ndarray:
    """The best known ones that are together not more uncertain than that, bool."""
    order = np.argsort(uncertainty)
    known = np.zeros(len(uncertainty), bool)
    known[order] = np.sqrt(np.cumsum(np.square(uncertainty[order]))) <= most
    return known


def _number(error: float) -> str:
    return "       -" if np.isnan(error) else f"{error:8.1e}"
