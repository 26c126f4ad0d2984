"""Checks of users' arguments to a rollout, before anything is changed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import NewtonsimError, NotDifferentiableError, did_you_mean
from newtonsim.scene.allocation import put
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from newtonsim.diff.buffers import StateLayout
    from newtonsim.scene.model import Model
    from newtonsim.solver_protocol import DifferentiableSolver

_SOLVER_METHODS = (
    "step",
    "adjoints",
    "carried_arrays",
    "make_step_memory",
    "use_step_memory",
    "check_gradient",
    "near_switches",
    "options_without_gradient",
)


def check_numbers(steps: object, dt: object, clip: object) -> None:
    """Raise a NewtonsimError unless number of steps, time step [s] and bound of gradients are valid."""
    if not isinstance(steps, (int, np.integer)) or steps < 1:
        raise NewtonsimError(f"steps: expected a whole number of at least 1, got {steps!r}")
    if not (isinstance(dt, Real) and np.isfinite(dt) and dt > 0.0):
        raise NewtonsimError(f"dt: expected a positive number, got {dt!r}")
    if clip is not None and not (isinstance(clip, Real) and clip > 0.0):
        raise NewtonsimError(f"clip: expected a positive number or None, got {clip!r}")


def check_solver(solver: object, model: Model) -> None:
    """Raise a NewtonsimError unless it is a solver created for the model."""
    if not all(hasattr(solver, name) for name in _SOLVER_METHODS):
        what = type(solver).__name__
        raise NewtonsimError(f"solver: expected one such as FeatherstoneSolver(model), got {what}")
    if getattr(solver, "model", model) is not model:
        raise NewtonsimError("solver: it was created for another model")


def check_options(solver: DifferentiableSolver) -> None:
    """Raise a NotDifferentiableError if options of a solver exclude gradients."""
    options = solver.options_without_gradient()
    if options:
        raise NotDifferentiableError(
            f"solver: with {', '.join(options)} steps have no gradient; leave that out, or use differences "
            "(method='difference')"
        )


def check_function(name: str, function: object, *arguments: str) -> None:
    """Raise a NewtonsimError unless a function, or None, can be called with these positional arguments."""
    if function is None:
        return
    expected = f"{name}: expected a function of ({', '.join(arguments)})"
    if isinstance(function, wp.Kernel):
        raise NewtonsimError(f"{expected} that launches kernels, got the kernel {function.key!r} itself")
    if not callable(function):
        raise NewtonsimError(f"{expected}, got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins may have none
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise NewtonsimError(f"{expected}, got one of {signature}") from None


def check_names(names: object) -> tuple[str, ...]:
    """Return the names of `wrt`; raise a NewtonsimError if it is not a sequence, or has one twice."""
    if isinstance(names, str):
        raise NewtonsimError(f"wrt: expected a sequence of names, got the string {names!r}")
    try:
        names = tuple(names)
    except TypeError:
        raise NewtonsimError(f"wrt: expected a sequence of names, got {type(names).__name__}") from None
    for name in names:
        if names.count(name) > 1:
            raise NewtonsimError(f"wrt: {name!r} is listed twice")
    return names


def check_state(model: Model, state: object) -> None:
    """Raise a NewtonsimError unless it is a state; a ModelError if it belongs to another model."""
    if not isinstance(state, State):
        raise NewtonsimError(f"state: expected a State, such as model.state(), got {type(state).__name__}")
    model.check_state(state)


def read_seeds(seeds: wp.array | npt.ArrayLike | None, losses: wp.array) -> wp.array | None:
    """Return weights of losses as an array like them, None for ones.

    Raises:
        NewtonsimError: Shape or type is wrong.
    """
    return None if seeds is None else _as_array("seeds", seeds, wp.float32, len(losses), losses.device)


def read_state_seeds(
    state_seeds: Mapping[str, wp.array | npt.ArrayLike] | None, layout: StateLayout
) -> dict[str, wp.array]:
    """Return gradients of a function of the final state by the names of its arrays.

    Raises:
        NewtonsimError: A name is unknown, or a shape or type is wrong.
    """
    if not isinstance(state_seeds, Mapping | None):
        what = type(state_seeds).__name__
        raise NewtonsimError(f"state_seeds: expected a mapping of names to arrays or None, got {what}")
    read = {}
    for key, seed in (state_seeds or {}).items():
        name = str(key).removeprefix("state.")
        if name not in layout.arrays:
            names = list(layout.arrays)
            raise NewtonsimError(f"state_seeds: {key!r} is not one of {names}{did_you_mean(name, names)}")
        _, dtype, count = layout.arrays[name]
        read[name] = _as_array(f"state_seeds: {key!r}", seed, dtype, count, layout.model.device)
    return read


def _as_array(name: str, values: object, dtype: type, count: int, device: wp.Device) -> wp.array:
    """Return an array of Warp; other numbers have the components of an entry along axis 1."""
    if isinstance(values, wp.array):
        if values.shape != (count,) or values.dtype is not dtype:
            given = getattr(values.dtype, "__name__", values.dtype)
            raise NewtonsimError(
                f"{name}: expected {dtype.__name__} of shape ({count},), got {given} of shape {values.shape}"
            )
        return values
    numbers = np.asarray(values)
    width = wp.types.type_size_in_bytes(dtype) // 4
    shape = (count,) if width == 1 else (count, width)
    if numbers.dtype.kind not in "fiu" or numbers.shape != shape:
        raise NewtonsimError(
            f"{name}: expected numbers of shape {shape}, got {numbers.dtype} of shape {numbers.shape}"
        )
    return put(numbers, dtype=dtype, device=device)
