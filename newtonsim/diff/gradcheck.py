"""Gradients of a rollout against differences of the same rollout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.diff.check_report import DOUBT, PASS, ArrayCheck, GradCheck, Mixtures
from newtonsim.diff.differences import NEIGHBOURS, SPANS, Estimate, Limit, estimate, measure_noise
from newtonsim.diff.inputs import Controls, copy_controls
from newtonsim.diff.layout import Place, find_array
from newtonsim.diff.moving import copy_state, frozen_directions, update_inverses
from newtonsim.diff.passes import Loss, RunningLoss
from newtonsim.diff.rollout import Rollout
from newtonsim.diff.tangents import Tangents, find_tangents
from newtonsim.errors import NewtonsimError
from newtonsim.scene.state import State
from newtonsim.solver_protocol import DifferentiableSolver

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_CORE, _MORE = 4, 2
"""Number of steps of a scan that are tried first, and added if those do not suffice."""

_AROUND = np.array((1.7, 0.75, 0.55))
"""Where steps are added last, relative to the longest useful step: many of them reduce noise."""

_CLEAR = 0.03
"""Fraction of the tolerance at which a derivative is accurate enough to stop."""


def gradcheck(
    model: Model,
    solver: DifferentiableSolver,
    state: State,
    steps: int,
    dt: float,
    loss: Loss | None,
    wrt: Sequence[str],
    controls: Controls = None,
    running: RunningLoss | None = None,
    samples: int = 12,
    seed: int = 0,
    tolerance: float = 1.0e-2,
    spans: Sequence[float] = SPANS,
) -> GradCheck:
    """Compare the gradients of a rollout with central differences of the same rollout.

    Each difference is taken at a scan of steps and extrapolated to step zero; the noise of the loss, measured
    between close neighbours, determines how far; see `newtonsim.diff.differences`. Worlds do not influence
    each other, so the entries of all worlds are moved at once. Quaternions are rotated about three axes,
    since their fourth direction is meaningless; the gradient is projected accordingly. For arrays with many
    entries a sample is checked, half of it the entries with the largest gradients and the rest random ones.
    In addition, all entries are checked at once: the derivative along the gradient must be its length, and
    that along a random mixture of all entries must be the same mixture of the gradient.

    Args:
        model: A model finalized with `requires_grad=True`; its arrays are moved and restored.
        solver: A solver made for it.
        state: Initial state.
        steps: Number of steps.
        dt: Time of each [s].
        loss: Loss of the final state, see `Rollout`.
        wrt: Names of arrays, see `Rollout`.
        controls: See `Rollout.evaluate`.
        running: Loss of every step, see `Rollout`.
        samples: Entries of each array that are checked in each world; all if there are no more. With 0, only
            the derivatives along a mixture are, and if they are unreliable, along the gradient.
        seed: Seed of the sample.
        tolerance: The largest error that passes: a difference whose uncertainty exceeds a third of it,
            relative to the largest one of its array and world, counts as unreliable, and the reason is
            reported.
        spans: Steps of the scan, from long to short, in natural lengths: 1, or 10 for forces, or the entry if
            that is larger, for states and controls; half the entry for parameters of the model with a sign to
            keep. Those in the middle are tried first, and longer or shorter ones if these do not suffice.

    Returns:
        Errors by array; `str` of it is a table with a verdict.

    Raises:
        NewtonsimError: As `Rollout` does.
    """
    if samples < 0:
        raise NewtonsimError(f"samples: expected at least 0, got {samples}")
    if len(spans) < 3 or not all(a > b > 0.0 for a, b in pairwise(spans)):
        raise NewtonsimError(f"spans: expected at least 3 decreasing positive numbers, got {tuple(spans)}")
    rollout = Rollout(model, solver, steps, dt, loss, running, wrt, warn=False)
    result = rollout(state, controls)
    check = _Check(rollout, state, controls, np.array(spans), samples, np.random.default_rng(seed), tolerance)
    gradients = {name: gradient.numpy() for name, gradient in result.gradients.items()}
    parts = {p.name: check.compare(p, gradients[p.name]) for p in rollout.places}
    passed = float(np.linalg.norm([part.length for part in parts.values() if part.verdict == PASS]))
    return GradCheck({name: replace(part, beside=passed) for name, part in parts.items()}, tolerance)


@dataclass(frozen=True)
class _Moved:
    """An array whose entries are moved.

    Attributes:
        place: What it is.
        array: The array.
        values: Its contents.
        tangents: Its directions.
        owner: World of each direction; the number of worlds for what several share, (n,).
        frozen: Directions that have no derivative, bool, (n,).
        gradient: Derivatives by the backward pass in natural lengths, 0 where frozen, (n,).
    """

    place: Place
    array: wp.array
    values: np.ndarray
    tangents: Tangents
    owner: np.ndarray
    frozen: np.ndarray
    gradient: np.ndarray


class _Check:
    """Moves entries, runs the rollout and compares; losses are those of each world, followed by their sum."""

    def __init__(self, rollout, state, controls, spans, samples, rng, tolerance):
        self.rollout, self.spans, self.samples = rollout, spans, samples
        self.rng, self.tolerance = rng, tolerance
        self.worlds = rollout.model.world_count
        self.state = copy_state(state)
        self.controls = copy_controls(rollout.model, controls)
        self.middle = self._losses()

    def compare(self, place: Place, gradient: np.ndarray) -> ArrayCheck:
        """Check one array."""
        moved = self._find(place, gradient)
        tangents, entries, found = moved.tangents, [], []
        with self._moving(moved):
            noise = self._noise(moved)
            for group in self._choose(moved):
                unit = np.zeros(len(tangents))
                unit[group] = 1.0
                queries = [(int(moved.owner[i]), bool(tangents.border[i])) for i in group]
                known = [e for e, i in zip(found, entries) if moved.owner[i] in moved.owner[group]]
                entries += group.tolist()
                found += self._derive(moved, unit, queries, noise, known)
            mixtures = self._mix(moved, noise, known=len(entries) == int((~moved.frozen).sum()))
            slopes = np.full(self.worlds + 1, np.nan)
            if self.samples or self._is_vague(mixtures):
                slopes = self._slopes(moved, noise)
        entries = np.array(entries, int)
        lengths = tangents.scale[entries]
        own = [e.scaled(length) for e, length in zip(found, lengths)]
        natural, world = moved.gradient[entries], tangents.world[entries]
        allowed = self._allowed(found, moved.owner[entries])
        return ArrayCheck(
            name=place.name,
            labels=[tangents.label[i] for i in entries],
            worlds=world,
            gradient=natural / lengths,
            difference=np.array([e.value for e in own]),
            uncertainty=np.array([_or_infinite(e, a) for e, a in zip(found, allowed)]) / lengths,
            lengths=lengths,
            sides=np.array([e.sides for e in own]).reshape(-1, 3),
            reasons=[_reason(e, g / s, a / s) for e, g, a, s in zip(own, natural, allowed, lengths)],
            total=int((~moved.frozen).sum()),
            slopes=slopes,
            whole=np.sqrt(np.bincount(moved.owner, moved.gradient**2, self.worlds + 1)),
            mixtures=mixtures,
            kinks=np.array(
                [e.kink if _has_kink(e, a / s) else 0.0 for e, a, s in zip(own, allowed, lengths)]
            ),
            tolerance=self.tolerance,
        )

    def _find(self, place: Place, gradient: np.ndarray) -> _Moved:
        array = self._array(place)
        values = array.numpy().copy()
        tangents = find_tangents(self.rollout.model, place, values, array.dtype)
        frozen = frozen_directions(self.rollout.model, place, values, tangents)
        owner = np.where(tangents.world < 0, self.worlds, tangents.world)
        if self.worlds == 1:
            owner = np.zeros_like(owner)
        natural = np.where(frozen, 0.0, tangents.derivative(gradient) * tangents.scale)
        return _Moved(place, array, values, tangents, owner, frozen, natural)

    def _choose(self, moved: _Moved) -> list[np.ndarray]:
        """Directions to check, by groups that move at once: half those with the largest gradients."""
        groups = _groups(moved.tangents.world, ~moved.frozen)
        sizes = [np.nan_to_num(np.abs(moved.gradient[group])).max() for group in groups]
        order = np.argsort(sizes, kind="stable")[::-1]
        large = min(len(groups), (self.samples + 1) // 2)
        count = min(len(groups), self.samples) - large
        others = self.rng.choice(order[large:], count, replace=False) if count else []
        return [groups[i] for i in (*order[:large], *np.sort(others).astype(int))]

    def _slopes(self, moved: _Moved, noise: np.ndarray) -> np.ndarray:
        """Derivatives of each world's loss along its own gradient, relative to the gradient's prediction.

        Entries are measured in natural lengths, so that none is moved too far.
        """
        slopes = np.full(self.worlds + 1, np.nan)
        if not np.isfinite(moved.gradient).all():
            return slopes
        natural = np.where(moved.tangents.border, 0.0, moved.gradient)
        for part in self._separate(moved):
            largest = np.zeros(self.worlds + 1)
            np.maximum.at(largest, moved.owner[part], np.abs(natural[part]))
            owners = np.flatnonzero(largest)
            if not len(owners):
                continue
            unit = np.where(part, natural / np.where(largest > 0.0, largest, 1.0)[moved.owner], 0.0)
            expected = np.bincount(moved.owner, natural * unit, self.worlds + 1)
            found = self._derive(moved, unit, [(int(w), False) for w in owners], noise)
            for w, e in zip(owners, found):
                if max(e.uncertainty, 0.5 * e.kink) <= DOUBT * self.tolerance * abs(e.value):
                    slopes[w] = e.value / expected[w]
        return slopes

    def _mix(self, moved: _Moved, noise: np.ndarray, known: bool) -> Mixtures:
        """Derivatives along one mixture of the entries of each world; none if all entries are known."""
        rows = []
        for part in self._separate(moved) if not known else ():
            for border in (False, True):
                mixed = part & (moved.tangents.border == border) & ~moved.frozen
                if not mixed.any():
                    continue
                signs = np.ones(len(mixed)) if border else self.rng.choice((-1.0, 1.0), len(mixed))
                unit = np.where(mixed, signs, 0.0)
                owners = np.unique(moved.owner[mixed])
                gradient = np.bincount(moved.owner, moved.gradient * unit, self.worlds + 1)
                length = np.sqrt(np.bincount(moved.owner, (moved.gradient * unit) ** 2, self.worlds + 1))
                found = self._derive(moved, unit, [(int(w), border) for w in owners], noise)
                for w, e in zip(owners, found):
                    longer = max(length[w], np.nan_to_num(abs(e.value) - e.uncertainty))
                    doubt = _or_infinite(e, DOUBT * self.tolerance * longer)
                    rows.append((gradient[w], e.value, doubt, longer))
        return Mixtures(*np.array(rows, np.float64).reshape(-1, 4).T)

    def _is_vague(self, mixtures: Mixtures) -> bool:
        """Whether mixtures are too uncertain."""
        return bool((mixtures.uncertainty > DOUBT * self.tolerance * mixtures.length).any())

    def _separate(self, moved: _Moved) -> list[np.ndarray]:
        """Directions that may move at once: those of worlds, and those that they share, bool."""
        shared = moved.owner == self.worlds
        return [part for part in (~shared, shared) if part.any()]

    def _noise(self, moved: _Moved) -> np.ndarray:
        """Noise of the losses nearby, with all entries moved at random, (world_count + 1,)."""
        signs = self.rng.choice((-1.0, 1.0), len(moved.tangents))
        unit = np.where(moved.frozen, 0.0, np.where(moved.tangents.border, 1.0, signs))
        return measure_noise(np.array([self._at(moved, length * unit) for length in NEIGHBOURS]))

    def _derive(
        self,
        moved: _Moved,
        unit: np.ndarray,
        queries: list[tuple[int, bool]],
        noise: np.ndarray,
        known: Sequence[Estimate] = (),
    ) -> list[Estimate]:
        """Derivatives along a direction, in natural lengths, of the losses of some owners.

        Spans in the middle of the scan are tried first, then longer ones if rounding hides the derivative,
        and shorter ones if the loss bends or switches; finally some around the best.

        Args:
            moved: The array.
            unit: The direction, in natural lengths, (n,).
            queries: Owners, and whether they may only be moved forward.
            noise: Noise of the losses.
            known: Derivatives with respect to other entries, beside which a small one need not be known
                better.
        """
        largest = max((abs(e.value) for e in known if np.isfinite(e.value)), default=0.0)
        first = max((len(self.spans) - _CORE) // 2, 0)
        begin, end = first, first + _CORE
        losses: dict[float, list[np.ndarray]] = {}
        coarse: list[Estimate | None] = [None] * len(queries)
        while True:
            found = self._explore(moved, unit, queries, noise, losses, self.spans[begin:end])
            vague = [
                (e, float(noise[w]))
                for e, (w, _) in zip(found, queries)
                if not _is_clear(e, _CLEAR * self.tolerance * max(largest, abs(e.value)))
            ]
            coarse = [e if self._is_rough_line(e) else old for e, old in zip(found, coarse)]
            # what fits up to the longest step may fit beyond
            if begin > 0 and any(e.span >= self.spans[begin] for e, _ in vague):
                begin = max(begin - _MORE, 0)
            elif end < len(self.spans) and any(_is_worth(e, s, self.spans[end]) for e, s in vague):
                end += _MORE
            else:
                break
        spans = [e.span for e, _ in vague if e.limit is not Limit.JUMPS and e.kink == 0.0]
        if spans:
            found = self._explore(moved, unit, queries, noise, losses, np.median(spans) * _AROUND)
        return [_with_jumps(e, rough) for e, rough in zip(found, coarse)]

    def _explore(
        self,
        moved: _Moved,
        unit: np.ndarray,
        queries: list[tuple[int, bool]],
        noise: np.ndarray,
        losses: dict[float, list[np.ndarray]],
        spans: np.ndarray,
    ) -> list[Estimate]:
        """Derivatives from losses at some spans and those that are known, by span, forward and backward."""
        for span in spans:
            if span not in losses:
                losses[span] = [self._at(moved, span * unit), self._at(moved, -span * unit)]
        steps = np.array(sorted(losses, reverse=True))
        values = np.array([losses[step] for step in steps])
        return [
            estimate(steps, values[:, 0, w], values[:, 1, w], float(self.middle[w]), float(noise[w]), one)
            for w, one in queries
        ]

    def _is_rough_line(self, e: Estimate) -> bool:
        """Whether the loss jumps so regularly that it still has a slope."""
        return e.limit is Limit.JUMPS and e.uncertainty <= DOUBT * self.tolerance * abs(e.value)

    def _allowed(self, found: list[Estimate], owners: np.ndarray) -> np.ndarray:
        """Uncertainty in natural lengths that does not matter beside the largest derivative of an owner."""
        largest = np.zeros(self.worlds + 1)
        values = [abs(e.value) if np.isfinite(e.value) else 0.0 for e in found]
        np.maximum.at(largest, owners, values)
        return DOUBT * self.tolerance * largest[owners]

    def _array(self, place: Place) -> wp.array:
        if place.owner == "control":
            return self.controls[place.attribute]
        return find_array(place, {"state": self.state, "model": self.rollout.model}[place.owner])

    @contextmanager
    def _moving(self, moved: _Moved) -> Iterator[None]:
        """Restore the array at the end."""
        try:
            yield
        finally:
            self._put(moved, moved.values)

    def _at(self, moved: _Moved, offsets: np.ndarray) -> np.ndarray:
        """Losses with entries moved, in natural lengths."""
        self._put(moved, moved.tangents.move(moved.values, offsets * moved.tangents.scale))
        return self._losses()

    def _put(self, moved: _Moved, values: np.ndarray) -> None:
        moved.array.assign(values)
        if moved.place.owner == "model":
            update_inverses(self.rollout.model, moved.place.attribute)

    def _losses(self) -> np.ndarray:
        losses = self.rollout.evaluate(self.state, self.controls).losses.numpy().astype(np.float64)
        return np.append(losses, losses.sum())


def _is_clear(e: Estimate, allowed: float) -> bool:
    """Whether a derivative is known well enough."""
    return e.uncertainty <= allowed and e.kink <= allowed and e.limit is not Limit.JUMPS


def _with_jumps(e: Estimate, rough: Estimate | None) -> Estimate:
    """The slope that jumps make over longer steps, if there is one, and not that between two jumps."""
    differs = rough and abs(e.value - rough.value) > 3.0 * (e.uncertainty + rough.uncertainty)
    return rough if differs else e


def _is_worth(e: Estimate, noise: float, step: float) -> bool:
    """Whether a shorter step can tell more about a derivative than rounding takes away."""
    if e.limit is Limit.JUMPS or not np.isfinite(e.value):
        return True
    return noise / step < max(e.uncertainty if e.limit is Limit.RANGE else 0.0, e.kink)


def _has_kink(e: Estimate, allowed: float) -> bool:
    """Whether the slopes on both sides differ by more than matters."""
    return e.kink > 2.0 * max(allowed, e.uncertainty)


def _or_infinite(e: Estimate, allowed: float) -> float:
    """Uncertainty of a derivative, infinite where there is none."""
    none = not np.isfinite(e.value) or e.limit is Limit.JUMPS or _has_kink(e, allowed)
    return np.inf if none else e.uncertainty


def _reason(e: Estimate, gradient: float, allowed: float) -> str:
    """Return why a difference is too uncertain; "" if it is not."""
    if not np.isfinite(e.value):
        return "the loss is not finite nearby"
    if _has_kink(e, allowed):
        return (
            f"the slopes on both sides differ by {e.kink:.1e} ({e.value:.1e} on average): a contact, limit "
            "or other switch is right here"
        )
    known = f"differences give {e.value:.1e} ± {e.uncertainty:.1e} (gradient {gradient:.1e})"
    if e.limit is Limit.JUMPS:
        return f"{known}: the loss jumps or switches by about {e.noise:.0e} within the shortest steps"
    seen = gradient == 0.0 or abs(gradient) > e.uncertainty
    if e.uncertainty <= allowed or (e.value == 0.0 and seen):
        return ""
    noise = f"the loss is rounded, noise {e.noise:.0e}"
    if e.limit is Limit.ROUNDING:
        return f"{known}: {noise}, which hides the effect at all steps"
    return (
        f"{known}: {noise}, which hides the effect at short steps, and beyond steps of {e.span:.0e} the "
        "loss bends or something switches"
    )


def _groups(world: np.ndarray, usable: np.ndarray) -> list[np.ndarray]:
    """Directions that can be moved together: the k-th one of every world, and shared ones each alone."""
    seen: dict[int, int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for i in np.flatnonzero(usable):
        w = int(world[i])
        k = seen[w] = seen.get(w, -1) + 1
        groups.setdefault((k, 0) if w >= 0 else (k, 1), []).append(i)
    return [np.array(group) for group in groups.values()]
