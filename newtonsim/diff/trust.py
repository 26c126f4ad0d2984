"""Whether gradients of rollouts are those that differences over a finite span would give.

Contacts and limits make losses with kinks: the gradient is right on one side of each, and says nothing of the
other. Where something was about to switch in a backward pass, the rollout is made again with its inputs moved
a little both ways, along the gradient and at random at once, and the slope of each world's loss is compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
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
"""Part of a gradient by which it may differ from differences without a word."""

SPANS = (1.0e-3, 3.0e-4)
"""Spans of the differences in natural lengths; a gradient that agrees over one of them is trusted."""

_ROUNDING = 2.0**-24
"""Largest relative rounding of a loss, of which differences have twice as much."""

_SEED = 7


class Losses(Protocol):
    """What running a rollout forward gives."""

    @property
    def losses(self) -> wp.array:
        """Loss of each world."""
        ...


class Repeatable(Protocol):
    """What is asked of a `Rollout`."""

    model: Model
    solver: DifferentiableSolver
    places: tuple[Place, ...]

    def evaluate(self, state: State, controls: Controls = None) -> Losses:
        """Run forward only."""
        ...


class Trust:
    """Compares gradients of a rollout with differences, in the first call, and ever more rarely after it.

    The calls number 1, 2, 4, 8 and so on are looked at, so that all of it costs next to nothing in a training
    run.

    Args:
        rollout: The rollout.
    """

    def __init__(self, rollout: Repeatable):
        self.rollout = rollout
        self._calls, self._told = 0, 0.0
        self._switches: np.ndarray | None = None
        self._gradients: dict[str, np.ndarray] = {}

    def begin(self) -> None:
        """Count a call."""
        self._calls += 1
        self._switches = None

    def note(self, gradients: Mapping[str, wp.array]) -> None:
        """Keep the gradients of a call that is due, if something was about to switch in it."""
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
        shares = np.where(self._switches, self._shares(state, controls, weights), 0.0)
        worst = int(np.argmax(shares))
        if shares[worst] > max(SHARE, 2.0 * self._told):
            self._told = float(shares[worst])
            self._warn(worst, shares)
        return True

    def _shares(self, state: State, controls: Controls, weights: np.ndarray) -> np.ndarray:
        """Difference of both slopes of each world over the larger of them, beyond rounding."""
        moves = _Moves(self.rollout, state, controls, self._gradients)
        least = np.full(len(weights), np.inf)
        for span in SPANS:
            high, low = (weights * moves.losses(sign * span) for sign in (1.0, -1.0))
            slope = (high - low) / (2.0 * span)
            rounding = _ROUNDING * np.maximum(np.abs(high), np.abs(low)) / span
            length = np.maximum(np.maximum(np.abs(slope), np.abs(moves.expected)), moves.length)
            missed = np.maximum(np.abs(slope - moves.expected) - rounding, 0.0)
            share = np.divide(missed, length, out=np.zeros_like(missed), where=length > 0.0)
            least = np.minimum(least, np.nan_to_num(share))
        return least

    def _warn(self, world: int, shares: np.ndarray) -> None:
        others = int((shares > SHARE).sum()) - 1
        more = f" and {others} more" if others else ""
        described = self.rollout.solver.near_switches().describe(world)  # pyright: ignore
        warnings.warn(
            f"the gradient of world {world}{more} differs by {shares[world]:.0%} from differences over spans "
            f"of {SPANS[0]:g}: {described}, among others that may switch; it is that of one side. "
            "FeatherstoneSolver(..., smoothing=5e-3) softens contacts and limits over so many metres, and "
            "diff.gradcheck shows slopes of both sides",
            RuntimeWarning,
            stacklevel=4,
        )


class _Moves:
    """One direction for each world, along which all inputs of a rollout move.

    Attributes:
        expected: Derivative of each world's weighted loss along it, by the gradient, in natural lengths.
        length: Length of the gradient of each world in natural lengths.
    """

    def __init__(
        self, rollout: Repeatable, state: State, controls: Controls, gradients: Mapping[str, np.ndarray]
    ):
        self.rollout = rollout
        self.state, self.controls = copy_state(state), copy_controls(rollout.model, controls)
        self._arrays = []
        rng = np.random.default_rng(_SEED)
        worlds = rollout.model.world_count
        largest, squares, mixed = np.zeros(worlds), np.zeros(worlds), np.zeros(worlds)
        for place in rollout.places:
            array = self._array(place)
            values = array.numpy().copy()
            ways = find_directions(rollout.model, place, values, array.dtype)
            still = frozen_directions(rollout.model, place, values, ways)
            moves = ~still & ~ways.border & (ways.world >= 0)
            owner = np.maximum(ways.world, 0)
            # worlds whose gradient is no number are told elsewhere
            along = np.nan_to_num(ways.derivative(gradients[place.name]), posinf=0.0, neginf=0.0)
            slope = np.where(moves, along * ways.scale, 0.0)
            signs = np.where(moves, rng.choice(np.array((-1, 1), np.int8), len(ways)), 0)
            np.maximum.at(largest, owner, np.abs(slope))
            squares += np.bincount(owner, slope**2, worlds)
            mixed += np.bincount(owner, slope * signs, worlds)
            self._arrays.append((place, array, values, ways, owner, slope, signs))
        # the random part never cancels the one along the gradient
        self._turn = np.where(mixed < 0.0, -1.0, 1.0)
        self._largest = np.where(largest > 0.0, largest, 1.0)
        self.expected = squares / self._largest + np.abs(mixed)
        self.length = np.sqrt(squares)

    def losses(self, span: float) -> np.ndarray:
        """Losses of all worlds with everything moved by a span, in natural lengths; puts all back."""
        try:
            for place, array, values, ways, owner, slope, signs in self._arrays:
                unit = slope / self._largest[owner] + self._turn[owner] * signs
                self._put(place, array, ways.move(values, span * unit * ways.scale))
            return self.rollout.evaluate(self.state, self.controls).losses.numpy().astype(np.float64)
        finally:
            for place, array, values, *_ in self._arrays:
                self._put(place, array, values)

    def _array(self, place: Place) -> wp.array:
        if place.owner == "control":
            return self.controls[place.attribute]
        return find_array(place, {"state": self.state, "model": self.rollout.model}[place.owner])

    def _put(self, place: Place, array: wp.array, values: np.ndarray) -> None:
        array.assign(values)
        if place.owner == "model":
            update_inverses(self.rollout.model, place.attribute)
