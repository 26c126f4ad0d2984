"""Gradients of a rollout against differences of the same rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.diff.differences import SPANS, Estimate, estimate
from newtonsim.diff.inputs import Controls, copy_controls
from newtonsim.diff.layout import Place, find_array
from newtonsim.diff.passes import DifferentiableSolver, Loss, RunningLoss
from newtonsim.diff.rollout import Rollout
from newtonsim.diff.tangents import Tangents, find_tangents
from newtonsim.errors import NewtonsimError
from newtonsim.state import State

if TYPE_CHECKING:
    from newtonsim.model import Model


@dataclass(frozen=True)
class ArrayCheck:
    """Gradient of one array against differences.

    Attributes:
        name: Name of the array.
        labels: The directions that were checked, see `newtonsim.diff.tangents`: floats by their index, and
            rotations.
        worlds: World of each, -1 if worlds share it.
        gradient: Derivatives by the backward pass, (n,).
        difference: Derivatives by differences, (n,).
        uncertainty: How far each difference may be off, (n,).
        reasons: Why the difference is unreliable, "" where it is not.
        total: Number of directions of the array, of which n were checked.
        slopes: Of each world the derivative along its own gradient, by differences, over what the gradient
            says: 1 if it is right. It sees all entries at once, with the least rounding. NaN where unreliable
            or where the gradient is zero. (world_count,); empty for arrays that worlds share.
    """

    name: str
    labels: list[str]
    worlds: np.ndarray
    gradient: np.ndarray
    difference: np.ndarray
    uncertainty: np.ndarray
    reasons: list[str]
    total: int
    slopes: np.ndarray

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
    def error(self) -> float:
        """Length of the difference of both vectors over that of the differences; NaN if it cannot be told."""
        return _relative(self.gradient, self.difference, self.uncertainty, self.reliable)

    @property
    def direction_error(self) -> float:
        """Largest error of the slope along the gradient in any world; NaN if none is reliable."""
        errors = np.abs(self.slopes[np.isfinite(self.slopes)] - 1.0)
        return float(errors.max()) if len(errors) else np.nan


@dataclass(frozen=True)
class GradCheck(Mapping):
    """What `gradcheck` found, by name of the array.

    Attributes:
        checks: One `ArrayCheck` for each name.
    """

    checks: dict[str, ArrayCheck]

    def __getitem__(self, name: str) -> ArrayCheck:
        return self.checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    @property
    def error(self) -> float:
        """Relative error of the whole gradient vector, over all entries with a reliable difference."""
        parts = self.checks.values()
        return _relative(
            np.concatenate([part.gradient for part in parts]),
            np.concatenate([part.difference for part in parts]),
            np.concatenate([part.uncertainty for part in parts]),
            np.concatenate([part.reliable for part in parts]),
        )

    @property
    def unreliable(self) -> dict[str, dict[str, str]]:
        """Entries whose differences are unreliable, by name, with reasons."""
        return {name: part.unreliable for name, part in self.checks.items() if part.unreliable}

    def __str__(self) -> str:
        width = max([len(name) for name in self.checks] + [5])
        lines = [f"{'array':{width}s}   error  along it  length    checked  unreliable"]
        for name, part in self.checks.items():
            length = np.linalg.norm(part.difference[part.reliable])
            lines.append(
                f"{name:{width}s} {part.error:8.1e} {part.direction_error:8.1e} {length:8.2e} "
                f"{len(part.labels):4d}/{part.total:<6d} {len(part.unreliable):4d}"
            )
        lines.append(f"{'all':{width}s} {self.error:8.1e}")
        for name, entries in self.unreliable.items():
            shown = list(entries.items())[:6]
            lines += [f"  {name}{entry}: {reason}" for entry, reason in shown]
            if len(entries) > len(shown):
                lines.append(f"  {name}: {len(entries) - len(shown)} more")
        return "\n".join(lines)


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

    Each difference is taken at a scan of steps, and the best step is chosen by agreement within the scan.
    Worlds do not influence each other, so the entries of all worlds are moved at once. Quaternions are turned
    about three axes, since their fourth direction means nothing; the gradient is projected accordingly.
    Of arrays with many entries a random sample is checked, and besides, all at once: the derivative along
    the gradient has to be its length.

    Args:
        model: A model finalized with `requires_grad=True`; its arrays are moved and put back.
        solver: A solver made for it.
        state: Initial state.
        steps: Number of steps.
        dt: Time of each [s].
        loss: Loss of the final state, see `Rollout`.
        wrt: Names of arrays, see `Rollout`.
        controls: See `Rollout.evaluate`.
        running: Loss of every step, see `Rollout`.
        samples: Entries of each array that are checked in each world; all if there are no more.
        seed: Seed of the sample.
        tolerance: The error that matters: a difference that may be off by more than a third of it, relative
            to the largest one of its array and world, counts as unreliable, and its reason is told.
        spans: Steps of the scan, from long to short, in natural lengths: 1, or 10 for forces, or the entry if
            that is larger, for states and controls; half the entry for parameters of the model with a sign to
            keep.

    Returns:
        Errors by array; `str` of it is a table.

    Raises:
        NewtonsimError: As `Rollout` does.
    """
    if samples < 1:
        raise NewtonsimError(f"samples: expected at least 1, got {samples}")
    if len(spans) < 3 or not all(a > b > 0.0 for a, b in pairwise(spans)):
        raise NewtonsimError(f"spans: expected at least 3 falling positive numbers, got {tuple(spans)}")
    rollout = Rollout(model, solver, steps, dt, loss, running, wrt, warn=False)
    result = rollout(state, controls)
    check = _Check(rollout, state, controls, np.array(spans), samples, np.random.default_rng(seed), tolerance)
    gradients = {name: gradient.numpy() for name, gradient in result.gradients.items()}
    return GradCheck({p.name: check.compare(p, gradients[p.name]) for p in rollout.places})


class _Check:
    """Moves entries, runs the rollout and compares."""

    def __init__(self, rollout, state, controls, spans, samples, rng, tolerance):
        self.rollout, self.spans, self.samples = rollout, spans, samples
        self.rng, self.tolerance = rng, tolerance
        self.state = _copy_state(state)
        self.controls = copy_controls(rollout.model, controls)
        self.middle = self._losses()

    def compare(self, place: Place, gradient: np.ndarray) -> ArrayCheck:
        """Check one array."""
        array = self._array(place)
        values = array.numpy().copy()
        tangents = find_tangents(self.rollout.model, place, values, array.dtype)
        derivative = tangents.derivative(gradient)
        frozen = self._frozen(place, values, tangents)
        groups = _groups(tangents.world, ~frozen)
        chosen = np.sort(self.rng.choice(len(groups), min(self.samples, len(groups)), replace=False))
        entries, found = [], []
        with self._moving(place, array, values):
            for group in (groups[i] for i in chosen):
                unit = np.zeros(len(tangents))
                unit[group] = tangents.scale[group]
                scan = self._scan(array, values, tangents, unit, place)
                for i in group:
                    entries.append(i)
                    found.append(self._estimate(scan, tangents, i))
            slopes = self._slopes(place, array, values, tangents, np.where(frozen, 0.0, derivative))
        entries = np.array(entries, int)
        return ArrayCheck(
            name=place.name,
            labels=[tangents.label[i] for i in entries],
            worlds=tangents.world[entries],
            gradient=derivative[entries],
            difference=np.array([e.value for e in found]),
            uncertainty=np.array([e.uncertainty for e in found]),
            reasons=self._reasons(found, derivative[entries], tangents.world[entries]),
            total=int((~frozen).sum()),
            slopes=slopes,
        )

    def _slopes(
        self, place: Place, array: wp.array, values: np.ndarray, tangents: Tangents, derivative: np.ndarray
    ) -> np.ndarray:
        """Derivatives of each world's loss along its own gradient, over what the gradient says.

        Entries are measured in natural lengths, so that none is moved too far.
        """
        count = self.rollout.model.world_count
        world = tangents.world
        if (world < 0).any():
            return np.zeros(0)
        if not np.isfinite(derivative).all():
            return np.full(count, np.nan)
        natural = np.where(tangents.border, 0.0, derivative * tangents.scale)
        largest = np.zeros(count)
        np.maximum.at(largest, world, np.abs(natural))
        unit = natural / np.where(largest > 0.0, largest, 1.0)[world] * tangents.scale
        wanted = np.bincount(world, derivative * unit, count)
        scan = self._scan(array, values, tangents, unit, place)
        slopes = np.full(count, np.nan)
        for w in np.flatnonzero(wanted > 0.0):
            e = self._slope(scan, int(w), 1.0)
            if max(e.uncertainty, 0.5 * e.kink) <= self.tolerance / 3.0 * abs(e.value):
                slopes[w] = e.value / wanted[w]
        return slopes

    def _scan(
        self, array: wp.array, values: np.ndarray, tangents: Tangents, unit: np.ndarray, place: Place
    ) -> np.ndarray:
        """Losses forward and backward at all spans, (spans, 2, world_count)."""
        losses = []
        for span in self.spans:
            for sign in (1.0, -1.0):
                self._put(place, array, tangents.move(values, sign * span * unit))
                losses.append(self._losses())
        return np.array(losses).reshape(len(self.spans), 2, -1)

    def _estimate(self, scan: np.ndarray, tangents: Tangents, i: int) -> Estimate:
        """Derivative along one direction."""
        return self._slope(scan, int(tangents.world[i]), tangents.scale[i], bool(tangents.border[i]))

    def _slope(self, scan: np.ndarray, world: int, scale: float, one_sided: bool = False) -> Estimate:
        """Derivative of a world's loss, or of the sum of all, moved by spans * scale."""
        worlds = slice(None) if world < 0 else slice(world, world + 1)
        high, low = scan[:, 0, worlds].sum(axis=1), scan[:, 1, worlds].sum(axis=1)
        return estimate(self.spans * scale, high, low, float(self.middle[worlds].sum()), one_sided)

    def _reasons(self, found: list[Estimate], gradient: np.ndarray, worlds: np.ndarray) -> list[str]:
        """Say which differences are off by more than matters, and why."""
        largest: dict[int, float] = {}
        for e, world in zip(found, worlds):
            largest[world] = max(largest.get(world, 0.0), abs(e.value) if np.isfinite(e.value) else 0.0)
        reasons = []
        for e, g, world in zip(found, gradient, worlds):
            allowed = self.tolerance / 3.0 * largest[world]
            if not np.isfinite(e.value):
                reasons.append("the loss is not finite nearby")
            elif e.kink > 2.0 * max(allowed, e.uncertainty):
                reasons.append(
                    f"the slopes on both sides differ by {e.kink:.1e} ({e.value:.1e} on average): a contact, "
                    "limit or other switch is right here"
                )
            elif e.uncertainty > allowed and e.value != 0.0:
                drowned = e.rounding > 0.3 * e.uncertainty
                why = "rounding drowns the effect" if drowned else "the loss jumps or switches nearby"
                reasons.append(
                    f"the scan of steps agrees to {e.uncertainty:.1e} at best ({e.value:.1e}, gradient "
                    f"{g:.1e}): {why}"
                )
            else:
                reasons.append("")
        return reasons

    def _frozen(self, place: Place, values: np.ndarray, tangents: Tangents) -> np.ndarray:
        """Directions that have no derivative: masses of what does not move, infinite limits."""
        first = values.reshape(-1)[tangents.index[:, 0]]
        frozen = ~np.isfinite(first)
        if place.attribute in ("body_mass", "particle_mass"):
            frozen |= first == 0.0
        if place.attribute == "body_inertia":
            masses = self.rollout.model.body_mass.numpy()
            frozen |= masses[tangents.index[:, 0] // 9] == 0.0
        return frozen

    def _array(self, place: Place) -> wp.array:
        if place.owner == "control":
            return self.controls[place.attribute]
        return find_array(place, {"state": self.state, "model": self.rollout.model}[place.owner])

    @contextmanager
    def _moving(self, place: Place, array: wp.array, values: np.ndarray) -> Iterator[None]:
        """Put the array back in the end."""
        try:
            yield
        finally:
            self._put(place, array, values)

    def _put(self, place: Place, array: wp.array, values: np.ndarray) -> None:
        array.assign(values)
        if place.owner == "model":
            _update_inverses(self.rollout.model, place.attribute)

    def _losses(self) -> np.ndarray:
        return self.rollout.evaluate(self.state, self.controls).losses.numpy().astype(np.float64)


def _relative(
    gradient: np.ndarray, difference: np.ndarray, uncertainty: np.ndarray, reliable: np.ndarray
) -> float:
    if not reliable.any():
        return np.nan
    error = np.linalg.norm((gradient - difference)[reliable])
    length = np.linalg.norm(difference[reliable])
    if length == 0.0:
        if not reliable.all():
            return np.nan
        return 0.0 if error <= np.linalg.norm(uncertainty[reliable]) else np.inf
    return float(error / length)


def _groups(world: np.ndarray, usable: np.ndarray) -> list[np.ndarray]:
    """Directions that can be moved together: the k-th one of every world, and shared ones each alone."""
    seen: dict[int, int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for i in np.flatnonzero(usable):
        w = int(world[i])
        k = seen[w] = seen.get(w, -1) + 1
        groups.setdefault((k, 0) if w >= 0 else (k, 1), []).append(i)
    return [np.array(group) for group in groups.values()]


def _copy_state(state: State) -> State:
    twin = State()
    for name, array in vars(state).items():
        if isinstance(array, wp.array):
            setattr(twin, name, wp.clone(array, requires_grad=False))
    return twin


def _update_inverses(model: Model, attribute: str) -> None:
    """Let the inverses that the model keeps follow masses and inertias."""
    if attribute in ("body_mass", "particle_mass"):
        mass = getattr(model, attribute).numpy()
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
        getattr(model, attribute.replace("_mass", "_inv_mass")).assign(inverse)
    elif attribute == "body_inertia":
        moving = model.body_mass.numpy() > 0.0
        inverse = model.body_inv_inertia.numpy().copy()
        inverse[moving] = np.linalg.inv(model.body_inertia.numpy()[moving].astype(np.float64))
        model.body_inv_inertia.assign(inverse)
