"""Controls of a rollout: the same in all steps, or one row of a sequence for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.kernels.steps import rollouts
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.arrays import CONTROL_ARRAYS, COUNTS
from newtonsim.scene.control import Control

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

Controls = Control | Mapping[str, wp.array | npt.ArrayLike] | None
"""One Control for all steps; or arrays by name, of shape (n,) or (steps, n); or None for the model's."""


class ControlInputs:
    """The control that every step reads, and the sequences from which its arrays are filled.

    Args:
        model: A model, finalized with gradients if they are needed.
        steps: Number of steps.

    Attributes:
        control: What steps read.
        sequences: Names of the arrays that have one row for each step.
        gradients: Gradients of sequences by name, shape (steps, n).
    """

    def __init__(self, model: Model, steps: int):
        self.model = model
        self.steps = steps
        self.control = model.control()
        self.sequences: tuple[str, ...] = ()
        self.gradients: dict[str, wp.array] = {}
        self._rows: dict[str, wp.array] = {}

    def check(self, controls: Controls) -> None:
        """Raise what `set` would raise."""
        self._read(controls)

    def set(self, controls: Controls) -> None:
        """Set new values.

        Raises:
            NewtonsimError: A name is unknown or an array has the wrong shape; then nothing is changed.
            ModelError: A Control does not fit the model.
        """
        given, sequences = self._read(controls)
        if sequences != self.sequences:
            self.sequences = sequences
            shapes = {name: (self.steps, getattr(self.control, name).size) for name in sequences}
            device = self.model.device
            self._rows = {n: wp.zeros(s, dtype=float, device=device) for n, s in shapes.items()}
            self.gradients = {n: wp.zeros(s, dtype=float, device=device) for n, s in shapes.items()}
        for spec in CONTROL_ARRAYS:
            target = self._rows.get(spec.name, getattr(self.control, spec.name))
            if target is None:
                continue
            values = given.get(spec.name, getattr(self.model, spec.name, None))
            if values is None:
                target.zero_()
            elif isinstance(values, wp.array):
                wp.copy(target, values)
            else:
                target.assign(values)

    def _read(self, controls: Controls) -> tuple[dict[str, wp.array | np.ndarray], tuple[str, ...]]:
        """Check controls; returns arrays by name, and the names of those that are sequences."""
        if controls is None:
            return {}, ()
        if isinstance(controls, Control):
            self.model.check_control(controls)
            given = {spec.name: getattr(controls, spec.name) for spec in CONTROL_ARRAYS}
            return {name: array for name, array in given.items() if array is not None}, ()
        if not isinstance(controls, Mapping):
            raise NewtonsimError(
                f"controls: expected a Control, a mapping of names to arrays or None, got {type(controls)}"
            )
        given, sequences = {}, []
        for key, values in controls.items():
            name = str(key).removeprefix("control.")
            spec = next((spec for spec in CONTROL_ARRAYS if spec.name == name), None)
            if spec is None:
                names = [spec.name for spec in CONTROL_ARRAYS]
                raise NewtonsimError(f"controls: {key!r} is not one of {names}{did_you_mean(name, names)}")
            count = getattr(self.model, COUNTS[spec.per])
            array = values if isinstance(values, wp.array) else _as_numbers(key, values)
            if array.shape not in ((count,), (self.steps, count)) or not count:
                raise NewtonsimError(
                    f"controls: expected {key!r} of shape ({count},) or ({self.steps}, {count}), "
                    f"got {tuple(array.shape)}"
                )
            if isinstance(array, wp.array) and array.dtype is not wp.float32:
                raise NewtonsimError(f"controls: expected {key!r} of float32, got {array.dtype.__name__}")
            given[name] = array
            if array.ndim == 2:
                sequences.append(name)
        return given, tuple(sorted(sequences))

    def load(self, launch: Launcher, step: wp.array, offset: int) -> None:
        """Fill the arrays of the control from the row step + offset of their sequences."""
        for name in self.sequences:
            launch(
                rollouts.fetch_row,
                name,
                reads=dict(step=step, offset=offset, rows=self._rows[name]),
                writes=dict(values=getattr(self.control, name)),
            )

    def store_gradients(self, launch: Launcher, step: wp.array, offset: int) -> None:
        """Move the gradients of the control to the row step + offset of the sequences."""
        for name in self.sequences:
            launch(
                rollouts.store_row,
                name,
                reads=dict(step=step, offset=offset),
                writes=dict(values=getattr(self.control, name).grad, rows=self.gradients[name]),
            )

    def zero_gradients(self) -> None:
        """Clear the gradients of the control's arrays."""
        for spec in CONTROL_ARRAYS:
            array = getattr(self.control, spec.name)
            if array is not None and array.grad is not None:
                array.grad.zero_()

    def gradient(self, name: str) -> wp.array:
        """Gradient of an array of the control, shape (n,) or (steps, n)."""
        return self.gradients[name] if name in self.sequences else getattr(self.control, name).grad

    @property
    def starts(self) -> dict[str, tuple[int, int]]:
        """Kinds of index to launch over, see `Shard.with_starts`."""
        return {spec.name: (0, getattr(self.model, COUNTS[spec.per])) for spec in CONTROL_ARRAYS}


def _as_numbers(key: object, values: npt.ArrayLike) -> np.ndarray:
    try:
        return np.asarray(values, np.float32)
    except (TypeError, ValueError):
        what = type(values).__name__
        raise NewtonsimError(f"controls: expected numbers for {key!r}, got {what}") from None


def copy_controls(model: Model, controls: Controls) -> dict[str, wp.array]:
    """Return all arrays of controls, as a mapping with writable arrays.

    Args:
        model: The model.
        controls: Controls that a rollout of the model has accepted.
    """
    given: dict = {}
    if isinstance(controls, Control):
        given = {spec.name: getattr(controls, spec.name) for spec in CONTROL_ARRAYS}
    elif controls is not None:
        given = {str(name).removeprefix("control."): array for name, array in controls.items()}
    copies = {}
    initial = model.control(requires_grad=False)
    for spec in CONTROL_ARRAYS:
        array = given.get(spec.name)
        array = getattr(initial, spec.name) if array is None else array
        if isinstance(array, wp.array):
            copies[spec.name] = wp.clone(array, requires_grad=False)
        elif array is not None:
            copies[spec.name] = wp.array(np.asarray(array, np.float32), dtype=float, device=model.device)
    return copies
