"""A term: a kernel, its constants, and the parts of the robot that it refers to."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from newtonsim.envs.values import is_number
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.runtime.arguments import Kernel

PER_JOINT, PER_BODY, PER_ACTION = "joints", "bodies", "actions"
"""Sizes given as the number of a term's joints or bodies, or of the task's actions."""

Patterns = str | tuple[str, ...]
_Some = TypeVar("_Some", bound="Term")


@dataclass(frozen=True, kw_only=True)
class Term:
    """Base of terms.

    Attributes:
        kernel: `(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool))`, one thread per world
            `first + wp.tid()`; see `newtonsim.kernels.envs.terms.views.TermView`.
        weight: Factor on the term.
        numbers: Its constants, `TermView.numbers`.
        base: Body that it uses as the base, by pattern; None for the robot's.
        bodies: Bodies that it refers to, by patterns; None for the robot's feet.
        joints: Joints that it refers to, by patterns; None for the driven ones.
        sensor: Name of the task's sensor whose readings it uses, `TermView.sensed`; None for none.
        readings: Number of the sensor's readings that it uses for each of its bodies.
        notes: Number of values that it remembers from step to step, `TermView.note`: a number, or "bodies" or
            "joints" for one for each.

    Raises:
        NewtonsimError: The weight is not a finite number, or `kernel` is not a kernel.
    """

    kernel: Kernel
    weight: float = 1.0
    numbers: Sequence[float] = ()
    base: str | None = None
    bodies: Patterns | None = None
    joints: Patterns | None = None
    sensor: str | None = None
    readings: int = 0
    notes: int | str = 0

    def __post_init__(self) -> None:
        if not is_number(self.weight) or abs(self.weight) == float("inf"):
            raise NewtonsimError(f"weight: expected a finite number, got {self.weight!r}")
        if not hasattr(self.kernel, "adj"):
            raise NewtonsimError(f"kernel: expected a kernel of Warp, got {self.kernel!r}")


@dataclass(frozen=True, kw_only=True)
class Observation(Term):
    """A part of the observation.

    Attributes:
        size: Number of values; or "joints" or "actions" for one for each.
        field: Field of the model that it shows, see `newtonsim.fields.FIELDS`; None for none.
        select: Elements of the field, by a pattern of their labels.
        mirror: Its mirror image at the plane y = 0 of the robot: a kind of `symmetry.KINDS`; "same" for
            numbers that stay; "joints" or "actions"; or signed places from 1, such as (1, -2, 3). None if it
            is unknown.
    """

    size: int | str = 1
    field: str | None = None
    select: str = "*"
    mirror: str | tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Reward(Term):
    """A part of the reward: its kernel adds `env.control_dt * term.weight` times a value to it."""


@dataclass(frozen=True, kw_only=True)
class Ending(Term):
    """A reason to end an episode: its kernel sets `env.terminated`."""


@dataclass(frozen=True, kw_only=True)
class Event(Term):
    """Something that happens to the masked worlds.

    Attributes:
        when: "start" of an episode, before each "step", or "both".
        floats: Whether it places a free base, by setting the first coordinates and velocities of a world.
    """

    when: str = "start"
    floats: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.when not in ("start", "step", "both"):
            raise NewtonsimError(f"when: expected 'start', 'step' or 'both', got {self.when!r}")


@dataclass(frozen=True, kw_only=True)
class Action(Term):
    """Turns actions within ±1 into what drives the robot.

    Attributes:
        size: Number of actions; or "joints" for one for each.
        names: Names of the actions, for readers.
        mirror: As that of an `Observation`.
    """

    size: int | str = PER_JOINT
    names: tuple[str, ...] = field(default=())
    mirror: str | tuple[int, ...] | None = None


def changed(
    kind: type[_Some],
    terms: Mapping[str, _Some],
    changes: Mapping[str, Any],
    known: Mapping[str, Any],
    group: str | None = None,
) -> dict[str, _Some]:
    """Return terms after changes by name.

    Args:
        kind: Kind of the terms.
        terms: The terms.
        changes: None removes a term, a number is its weight, a term replaces one or is added; a dict changes
            fields, or arguments of a term of the library.
        known: Functions that make terms of the library, by name.
        group: Name of the group in errors; None for that of the kind.

    Raises:
        NewtonsimError: There is no such term, or a change is none of these.
    """
    found = dict(terms)
    group = group or {"Ending": "ends"}.get(kind.__name__, f"{kind.__name__.lower()}s")
    for name, change in changes.items():
        if change is None:
            if name not in found:
                raise _unknown(group, name, found)
            del found[name]
        elif isinstance(change, Term):
            if not isinstance(change, kind):
                raise NewtonsimError(
                    f"{group}: {name}: expected {kind.__name__}, got {type(change).__name__}"
                )
            found[name] = change  # pyright: ignore[reportArgumentType] - it is of the kind
        elif is_number(change):
            given: Any = found.get(name) or _of_library(group, name, known, {}, found)
            found[name] = dataclasses.replace(given, weight=float(change))
        elif isinstance(change, Mapping):
            arguments = dict(change)
            term = arguments.pop("term", name)
            weight = {"weight": arguments.pop("weight")} if "weight" in arguments else {}
            made = _of_library(group, term, known, arguments, found)
            found[name] = dataclasses.replace(made, **weight)
        else:
            raise NewtonsimError(
                f"{group}: {name}: expected None, a weight, a dict of arguments or {kind.__name__}, "
                f"got {change!r}"
            )
    return found


def _of_library(
    group: str, name: str, known: Mapping[str, Any], arguments: dict[str, Any], there: Mapping[str, Any]
) -> Any:
    """Make a term of the library."""
    if name not in known:
        raise _unknown(group, name, {**there, **known})
    _check_arguments(f"{group}: {name}", known[name], arguments)
    return known[name](**arguments)


def _check_arguments(what: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a term does not have, and the lack of those that it needs."""
    parameters = inspect.signature(make).parameters.values()
    names = [parameter.name for parameter in parameters]
    needed = [p.name for p in parameters if p.default is p.empty and p.name not in arguments]
    surplus = [name for name in arguments if name not in names]
    faults = [f"needs {', '.join(needed)}"] * bool(needed)
    faults += [f"has no {name!r}{did_you_mean(name, names)}" for name in surplus]
    if faults:
        own = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
        raise NewtonsimError(f"{what}: {'; '.join(faults)}; its arguments are {own or 'none'}")


def _unknown(group: str, name: str, known: Mapping[str, Any]) -> NewtonsimError:
    hint = did_you_mean(name, known)
    return NewtonsimError(f"{group}: there is no {name!r}{hint}; there are {', '.join(known) or 'none'}")
