"""Common base of the bridges to other frameworks: runs of a rollout on arrays that others own."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.diff.checks import check_state
from newtonsim.diff.layout import as_floats, find_array, find_place
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.fields.updates import follow
from newtonsim.scene.arrays import CONTROL_ARRAYS, STATE_ARRAYS
from newtonsim.scene.control import Control

if TYPE_CHECKING:
    from newtonsim.diff.inputs import Controls
    from newtonsim.diff.rollout import Rollout, RolloutResult
    from newtonsim.scene.state import State


class Slot:
    """An array that a tensor replaces.

    Args:
        name: Name, such as "state.joint_q".
        array: The array.
        steps: Steps of a sequence of such arrays; 0 if there are no sequences.

    Attributes:
        place: What the name refers to.
        entries: Number of entries.
        width: Floats of an entry.
        shape: Shape of the array as floats.
    """

    def __init__(self, name: str, array: wp.array, steps: int):
        self.name, self.place = name, find_place(name)
        self.dtype, self.steps = array.dtype, steps
        self.entries = array.size
        self.width = wp.types.type_size_in_bytes(array.dtype) // 4
        self.shape = (self.entries, self.width) if self.width > 1 else (self.entries,)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Raise a ModelError if a tensor of this shape cannot replace the array."""
        one, size = self.entries * self.width, math.prod(shape)
        if size == one or (
            self.steps and len(shape) > 1 and shape[0] == self.steps and size == self.steps * one
        ):
            return
        more = f", or such rows for each of {self.steps} steps" if self.steps else ""
        raise ModelError(
            f"{self.name}: expected shape {self.shape} or as many floats{more}, got {tuple(shape)}"
        )

    def cast(self, floats: wp.array) -> wp.array:
        """Return the same memory as entries: shape (entries,), or (steps, entries) for a sequence."""
        one = self.entries * self.width
        shape = (self.entries,) if floats.size == one else (floats.size // one, self.entries)
        array = wp.array(ptr=floats.ptr, dtype=self.dtype, shape=shape, device=floats.device)
        array.memory = floats
        return array


class Bridge:
    """Runs a rollout on float arrays that another framework owns, without copies where possible.

    Arrays of the model are copied into it, since captured graphs read them there; inverse masses and
    inertias follow masses and inertias.

    Args:
        rollout: The rollout.
        inputs: Names of the arrays that are passed to each run, a subset of the rollout's `wrt`; None for
            all.
        outputs: Names of arrays of the final state that are returned in addition to the losses.
        state: State that provides all other arrays of the initial state; None for the model's.
        controls: Controls that provide all other inputs, as in a call of the rollout.
        differentiable: Whether gradients with respect to the inputs will be needed.

    Raises:
        NewtonsimError: A name is unknown, or the rollout has no gradient with respect to it.
        ModelError: State or controls belong to another model.
    """

    def __init__(
        self,
        rollout: Rollout,
        inputs: Sequence[str] | None,
        outputs: Sequence[str],
        state: State | None,
        controls: Controls = None,
        differentiable: bool = True,
    ):
        model = rollout.model
        self.rollout, self.device = rollout, model.device
        self.state = model.state() if state is None else state
        check_state(model, self.state)
        rollout.inputs.check(controls)
        self.controls = controls
        wrt = tuple(place.name for place in rollout.places)
        names = wrt if inputs is None else tuple(inputs)
        for name in names:
            if differentiable and name not in wrt:
                raise NewtonsimError(
                    f"inputs: the rollout has no gradient with respect to {name!r}, only to {wrt}"
                )
        if not names or len(set(names)) < len(names):
            raise NewtonsimError(f"inputs: expected distinct names, got {names}")
        holders = {"model": model, "state": self.state, "control": model.control()}
        self.inputs = [self._slot(name, holders) for name in names]
        given = {spec.name for spec in STATE_ARRAYS if getattr(self.state, spec.name) is not None}
        for name in outputs:
            if name not in given:
                raise NewtonsimError(f"outputs: the final state has no {name!r}; there are {sorted(given)}")
        self.outputs = [Slot(f"state.{name}", getattr(self.state, name), 0) for name in outputs]

    def _slot(self, name: str, holders: Mapping[str, object]) -> Slot:
        place = find_place(name)
        steps = self.rollout.steps if place.owner == "control" else 0
        return Slot(name, find_array(place, holders[place.owner]), steps)

    def check_count(self, given: int) -> None:
        """Raise a TypeError unless there are as many tensors as inputs."""
        if given != len(self.inputs):
            names = ", ".join(slot.name for slot in self.inputs)
            raise TypeError(f"expected {len(self.inputs)} tensors ({names}), got {given}")

    def evaluate(self, arrays: Sequence[wp.array]) -> RolloutResult:
        """Run forward. Arrays are flat, of floats, and may be overwritten afterwards."""
        return self.rollout.evaluate(*self._bind(arrays))

    def results(self, result: RolloutResult) -> list[wp.array]:
        """Losses, and the outputs as flat arrays of floats."""
        outputs = [getattr(result.state, slot.place.attribute) for slot in self.outputs]
        return [result.losses, *(as_floats(array)[0] for array in outputs)]

    def pull_back(
        self,
        arrays: Sequence[wp.array],
        seeds: wp.array | None = None,
        state_seeds: Sequence[wp.array] = (),
    ) -> tuple[RolloutResult, list[wp.array]]:
        """Run forward and backward.

        Args:
            arrays: Inputs, flat, of floats.
            seeds: Gradients of the losses, shape (world_count,); None for ones.
            state_seeds: Gradients of the outputs, flat, of floats.

        Returns:
            The result of the rollout, and the gradients of the inputs, flat, of floats.
        """
        given = {slot.place.attribute: slot.cast(seed) for slot, seed in zip(self.outputs, state_seeds)}
        result = self.rollout(*self._bind(arrays), seeds=seeds, state_seeds=given or None)
        return result, [as_floats(result.gradients[slot.name])[0] for slot in self.inputs]

    def _bind(self, arrays: Sequence[wp.array]) -> tuple[State, Controls]:
        """State and controls of a run; arrays of the model are written at once."""
        state, inputs = copy.copy(self.state), {}
        for slot, array in zip(self.inputs, arrays):
            entries = slot.cast(array)
            if slot.place.owner == "model":
                wp.copy(find_array(slot.place, self.rollout.model), entries)
                follow(self.rollout.model, slot.place.attribute)
            elif slot.place.owner == "state":
                setattr(state, slot.place.attribute, entries)
            else:
                inputs[slot.place.attribute] = entries
        if not inputs:
            return state, self.controls
        others = self.controls or {}
        if isinstance(others, Control):
            others = {spec.name: getattr(others, spec.name) for spec in CONTROL_ARRAYS}
        others = {str(name).removeprefix("control."): a for name, a in others.items() if a is not None}
        return state, others | inputs
