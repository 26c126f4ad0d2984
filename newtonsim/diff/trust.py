"""Checks whether gradients of rollouts agree with differences over a finite span.

Contacts and limits make losses with kinks: the gradient is right on one side of each, and says nothing about
the other. If something was about to switch in a backward pass, the rollout is repeated with each input in
turn moved a little in both directions, all its entries at once, along the gradient and at random, and the
slopes of each world's loss are compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import warp as wp

from newtonsim.diff.inputs import Controls, copy_controls
from newtonsim.diff.layout import Place, find_array
from newtonsim.diff.moving import copy_state, frozen_directions, update_inverses
from newtonsim.diff.tangents import find_directions
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.solver_protocol import DifferentiableSolver

SHARE = 0.05
"""Fraction of a gradient by which it may differ from differences without a warning."""

SPAN = 1.0e-3
"""Span of the differences: length of what all entries move by, in natural lengths."""

_ROUNDING = 2.0**-17
"""Relative noise of losses: from single precision, and from the iterations of solves."""

_AROUND = (0.94, 0.97, 1.03, 1.06)
"""Further spans, relative to that one, at which slopes of a smooth loss are equal up to noise."""

_NOISY = 3.0
"""Number of standard errors by which the mean of the slopes may be wrong."""

_SEED = 7
_MIXTURES = 3
"""Directions in which an input moves: errors of its entries may cancel in one of them, but not in all."""

_LONG = 100_000
"""Total steps of all worlds above which an input moves in one direction only."""


class Losses(Protocol):
    """The result of running a rollout forward."""

    @property
    def losses(self) -> wp.array:
        """Loss of each world."""
        ...


class Repeatable(Protocol):
    """What is needed of a `Rollout`."""

    model: Model
    solver: DifferentiableSolver
    steps: int
    places: tuple[Place, ...]

    def evaluate(self, state: State, controls: Controls = None) -> Losses:
        """Run forward only."""
        ...


class Trust:
    """Compares gradients of a rollout with differences, in the first call, and less and less often after it.

    Calls number 1, 2, 4, 8 and so on are checked, so that the cost in a training run is negligible.

    Args:
        rollout: The rollout.
    """

    def __init__(self, rollout: Repeatable):
        self.rollout = rollout
        self._calls = 0
        self._told: dict[str, float] = {}
        self._switches: np.ndarray | None = None
        self._gradients: dict[str, np.ndarray] = {}

    def begin(self) -> None:
        """Count a call."""
        self._calls += 1
        self._switches = None

    def note(self, gradients: Mapping[str, wp.array]) -> None:
        """Keep the gradients of a call that is due for a check, if something was about to switch in it."""
        near = self.rollout.solver.near_switches()
        if near is None or self._calls & (self._calls - 1):
            return
        found = near.found()
        if found.any():
            self._switches = found
            self._gradients = {name: g.numpy().copy() for name, g in gradients.items()}

    def check(self, state: State, controls: Controls, seeds: wp.array | None) -> bool:
        """Warn of worlds whose gradients differ from differences by more than the share, and of twice that.

        Args:
            state: Initial state.
            controls: Inputs of all steps.
            seeds: Weights of the losses, None for ones.

        Returns:
            Whether the rollout was run again.
        """
        if self._switches is None:
            return False
        worlds = self.rollout.model.world_count
        weights = np.ones(worlds) if seeds is None else seeds.numpy().astype(np.float64)
        count = _MIXTURES if self.rollout.steps * worlds <= _LONG else 1
        worst, most = None, SHARE
        for place in self.rollout.places:
            moves = _Moves(self.rollout, place, state, controls, self._gradients[place.name])
            found = [moves.share(mixture, weights) for mixture in moves.mixtures[:count]]
            shares = np.where(self._switches, np.max(found, axis=0), 0.0)
            largest = float(shares.max())
            if largest > max(most, 2.0 * self._told.get(place.name, 0.0)):
                worst, most = (place.name, shares), largest
        if worst is not None:
            self._told[worst[0]] = most
            self._warn(*worst)
        return True

    def _warn(self, name: str, shares: np.ndarray) -> None:
        world = int(np.argmax(shares))
        others = int((shares > SHARE).sum()) - 1
        more = f" and {others} more" if others else ""
        described = self.rollout.solver.near_switches().describe(world)  # pyright: ignore
        warnings.warn(
            f"the gradient of world {world}{more} differs by {shares[world]:.0%} from differences by {name} "
            f"over spans of {SPAN:g}: {described}, among others that may switch; the gradient is that of "
            "one side. FeatherstoneSolver(..., smoothing=5e-3) smooths contacts and limits over this "
            "length in metres, and diff.gradcheck shows slopes of both sides",
            RuntimeWarning,
            stacklevel=4,
        )


@dataclass(frozen=True)
class _Mixture:
    """A direction of an input in each world.

    Attributes:
        unit: Displacement of each entry, in natural lengths, (n,).
        size: Length of that in each world, (world_count,).
        expected: Derivative of each world's weighted loss along it by the gradient, (world_count,).
    """

    unit: np.ndarray
    size: np.ndarray
    expected: np.ndarray


class _Moves:
    """Directions for each world, along which an input of a rollout moves.

    Args:
        rollout: The rollout.
        place: The input.
        state: Initial state.
        controls: Inputs of all steps.
        gradient: Gradient by the input.

    Attributes:
        mixtures: The directions; the first one goes along the gradient, besides.
    """

    def __init__(
        self, rollout: Repeatable, place: Place, state: State, controls: Controls, gradient: np.ndarray
    ):
        self.rollout, self.place = rollout, place
        self.state, self.controls = copy_state(state), copy_controls(rollout.model, controls)
        self._array = self._find_array()
        self._values = self._array.numpy().copy()
        self._ways = ways = find_directions(rollout.model, place, self._values, self._array.dtype)
        still = frozen_directions(rollout.model, place, self._values, ways)
        moves = ~still & ~ways.border & (ways.world >= 0)
        owner, worlds = np.maximum(ways.world, 0), rollout.model.world_count
        # worlds whose gradient is not a number are told elsewhere
        along = np.nan_to_num(ways.derivative(gradient), posinf=0.0, neginf=0.0)
        slope = np.where(moves, along * ways.scale, 0.0)
        largest = np.zeros(worlds)
        np.maximum.at(largest, owner, np.abs(slope))
        largest = np.where(largest > 0.0, largest, 1.0)
        squares = np.bincount(owner, slope**2, worlds)
        self._length, self._owner = np.sqrt(squares), owner
        self.mixtures: list[_Mixture] = []
        rng = np.random.default_rng(_SEED)
        for k in range(_MIXTURES):
            signs = np.where(moves, rng.choice(np.array((-1.0, 1.0)), len(ways)), 0.0)
            # turned such that it never cancels what goes along the gradient
            expected = np.bincount(owner, slope * signs, worlds)
            unit = np.where(expected < 0.0, -1.0, 1.0)[owner] * signs
            expected = np.abs(expected)
            if k == 0:
                unit, expected = unit + slope / largest[owner], expected + squares / largest
            size = np.sqrt(np.bincount(owner, unit**2, worlds))
            self.mixtures.append(_Mixture(unit, np.where(size > 0.0, size, 1.0), expected))

    def share(self, mixture: _Mixture, weights: np.ndarray) -> np.ndarray:
        """Difference of both slopes of each world over the larger of them, beyond rounding and noise.

        Args:
            mixture: The direction.
            weights: Weights of the losses, (world_count,).
        """

        def slope_over(length: float) -> tuple[np.ndarray, np.ndarray]:
            span = length / mixture.size
            steps = span[self._owner] * mixture.unit
            high, low = (weights * self._losses(sign * steps) for sign in (1.0, -1.0))
            rounding = _ROUNDING * np.maximum(np.abs(high), np.abs(low)) / span
            return (high - low) / (2.0 * span), rounding

        def share(slope: np.ndarray, doubt: np.ndarray) -> np.ndarray:
            length = np.maximum(np.maximum(np.abs(slope), np.abs(mixture.expected)), self._length)
            missed = np.maximum(np.abs(slope - mixture.expected) - doubt, 0.0)
            return np.nan_to_num(np.divide(missed, length, out=np.zeros_like(missed), where=length > 0.0))

        slope, rounding = slope_over(SPAN)
        found = share(slope, rounding)
        if not (found > SHARE).any():
            return found
        slopes = np.array([slope, *(slope_over(part * SPAN)[0] for part in _AROUND)])
        noise = slopes.std(axis=0, ddof=1) / np.sqrt(len(slopes))
        return share(slopes.mean(axis=0), rounding + _NOISY * noise)

    def _losses(self, steps: np.ndarray) -> np.ndarray:
        """Losses of all worlds with the entries of the input moved, in natural lengths; puts them back."""
        try:
            self._put(self._ways.move(self._values, steps * self._ways.scale))
            return self.rollout.evaluate(self.state, self.controls).losses.numpy().astype(np.float64)
        finally:
            self._put(self._values)

    def _find_array(self) -> wp.array:
        if self.place.owner == "control":
            return self.controls[self.place.attribute]
        return find_array(self.place, {"state": self.state, "model": self.rollout.model}[self.place.owner])

    def _put(self, values: np.ndarray) -> None:
        self._array.assign(values)
        if self.place.owner == "model":
            update_inverses(self.rollout.model, self.place.attribute)
