"""Work on a device that is recorded once and then repeated at little cost.

Warp's graphs serve every device. On the CPU their replay finds each kernel by its name and each array by its
address again, which takes 0.2 to 0.5 µs a launch, more than the physics of a small world takes. Where all of
the work is done by `Launcher`, `tapes.Tape` and `copies`, the entry points of the kernels and their packed
arguments are kept instead, and one kernel calls them in turn: 0.01 to 0.03 µs a launch, and as many
repetitions as wanted in one call.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
import warp as wp

from newtonsim.kernels.steps.replay import repeat_launches
from newtonsim.runtime import compilation

_ENTRY = ctypes.CFUNCTYPE(None)
"""Type of the entry points. Naming their two pointers would cost a conversion of each at every call."""


Condition = tuple[int, int, wp.array]
"""Launches, as the first and the end, that are left out while a mask of integers is zero everywhere."""


class Launches(list[wp.Launch]):
    """Launches with the structs that they were recorded with, whatever is written into these afterwards.

    Attributes:
        conditions: On which some of them are made; any two are one within the other, or apart.
    """

    def __init__(self):
        super().__init__()
        self.conditions: list[Condition] = []

    @contextlib.contextmanager
    def where_any(self, mask: wp.array) -> Iterator[None]:
        """Make what is appended meanwhile depend on a mask of integers: it is left out where all are zero."""
        first = len(self)
        yield
        if len(self) > first:
            self.conditions.append((first, len(self), mask))

    def append(self, launch: wp.Launch) -> None:
        launch.params = [
            type(p).from_buffer_copy(p) if isinstance(p, ctypes.Structure) else p for p in launch.params
        ]
        super().append(launch)


class _Collecting(threading.local):
    """Where the launches of a thread go; a default of the class is found faster than a missing attribute."""

    launches: Launches | None = None
    adopted: int = 0  # launches that Warp's capture holds as well


_collecting = _Collecting()

capturing = threading.RLock()
"""Held while something is recorded: Warp captures one graph at a time, of all launches of the process."""


class Recording(Protocol):
    """Recorded work, which a call does a number of times, one after the other.

    Attributes:
        once: Does it once, sooner than a call would.
    """

    once: Callable[[], object]

    def __call__(self, n: int) -> None: ...


def capture_launches(run: Callable[[], None], device: wp.Device) -> Recording:
    """Capture what a function launches, without doing it.

    Args:
        run: Launches kernels; may not allocate, nor read from the device.
        device: Where it launches. Other threads must not launch anything meanwhile, see `capturing`.
    """
    if device.is_cpu:
        with wp.ScopedCapture(device=device) as others, _collect() as launches:
            run()
            adopted = _collecting.adopted
        if _length(others.graph.apic_state) == adopted:
            return LaunchList(launches)
    with wp.ScopedCapture(device=device) as capture:
        run()
    return _Graph(capture.graph)


def collect(run: Callable[[], None]) -> Recording:
    """Record the launches of a function on the CPU, without making them or capturing a graph.

    Args:
        run: Does all of its work by `Launcher`, and has been called before, so that its kernels are loaded.
    """
    with _collect() as launches:
        run()
    return LaunchList(launches)


def collected() -> Launches | None:
    """Where the launches of this thread go instead of being made, None if it does not record."""
    return _collecting.launches


def adopt(run: Callable[[], None]) -> None:
    """Call a function of a user, of which a recording holds what it launches by `wp.launch`.

    Args:
        run: Where it does anything else, a graph of Warp is captured of the whole recording.
    """
    launches = _collecting.launches
    if launches is None:
        run()
        return
    state = wp._src.context.runtime._apic_capture.apic_state
    own, before = len(launches), _length(state)
    with wp.Tape() as tape:
        run()
    made = _length(state) - before
    if len(launches) > own or made != len(tape.launches) or any(map(callable, tape.launches)):
        return
    for kernel, dim, max_blocks, inputs, outputs, device, block_dim, _ in tape.launches:
        options = {"device": device, "max_blocks": max_blocks, "block_dim": block_dim}
        launches.append(wp.launch(kernel, dim, inputs, outputs, record_cmd=True, **options))
    _collecting.adopted += made


def _length(state: object) -> int:
    """Operations in a graph of Warp; Warp has no public question for this."""
    return wp._src.context.runtime.core.wp_apic_get_operation_count(state)


@contextlib.contextmanager
def _collect() -> Iterator[Launches]:
    _collecting.launches = launches = Launches()
    _collecting.adopted = 0
    try:
        yield launches
    finally:
        _collecting.launches = None


class _Graph:
    """A graph of Warp."""

    def __init__(self, graph: wp.Graph):
        self.once = partial(wp.capture_launch, graph)

    def __call__(self, n: int) -> None:
        for _ in range(n):
            self.once()


class LaunchList:
    """Launches on the CPU one after the other; called with the number of repetitions.

    Args:
        launches: Made by `wp.launch(..., record_cmd=True)`; what is changed in them later has no effect.
            `Launches` may have conditions.

    Attributes:
        once: Makes them once. All that it needs is bound: to look it up would take a share of a small step.
            It may outlive the list.
    """

    def __init__(self, launches: Sequence[wp.Launch]):
        self._kept = [(launch, _packed(launch), _packed_adjoints(launch)) for launch in launches]
        arguments = (a for launch in launches for a in (*launch.fwd_args, *(launch.adj_args or ())))
        self._arrays = _arrays_of(arguments)
        self._conditions = launches.conditions if isinstance(launches, Launches) else []
        rows = _with_conditions([_addresses(*kept) for kept in self._kept], self._conditions)
        self._table = wp.array(np.array(rows, np.uint64).reshape(-1, 4), dtype=wp.uint64, device="cpu")
        reads = dict(table=self._table, count=len(rows), repeats=0)
        self._caller = compilation.launch(repeat_launches, 1, reads=reads, device="cpu", record_cmd=True)
        self._arguments = self._called_with(1), self._called_with(0)
        entry, bounds = _ENTRY(_entry(self._caller)), ctypes.byref(self._caller.bounds)
        self.once, self._call = (partial(entry, bounds, ctypes.byref(known)) for known in self._arguments)

    def __call__(self, n: int) -> None:
        self._arguments[1].repeats = n
        self._call()

    def _called_with(self, repeats: int) -> Any:
        """Arguments of the caller, packed anew, which keep what the launches need."""
        arguments: Any = _packed(self._caller)
        arguments.repeats = repeats
        arguments.held = self._caller, self._table, self._kept, self._arrays
        return arguments


_Row = tuple[int, int, int, int]


def _with_conditions(launches: list[_Row], conditions: Sequence[Condition]) -> list[_Row]:
    """Put a row for each condition before the rows of its launches, see `repeat_launches`."""
    # of those that begin together, the widest first
    waiting = sorted(conditions, key=lambda condition: (condition[0], -condition[1]))
    rows: list[_Row] = []
    placed: list[tuple[int, Condition]] = []
    begins: list[int] = []
    for i in range(len(launches) + 1):
        begins.append(len(rows))
        while waiting and waiting[0][0] == i:
            placed.append((len(rows), waiting.pop(0)))
            rows.append((0, 0, 0, 0))
        rows += launches[i : i + 1]
    for row, (_, end, mask) in placed:
        rows[row] = (0, mask.ptr or 0, mask.size, begins[end] - row - 1)
    return rows


def _packed(launch: wp.Launch) -> ctypes.Structure:
    """Return the arguments of a launch as its kernel reads them."""
    names = _names(launch)
    return _packed_as(names, launch.params[1 : 1 + len(names)])


def _packed_adjoints(launch: wp.Launch) -> ctypes.Structure | None:
    """Return what receives the gradients of the arguments, if the launch runs backward."""
    names = _names(launch)
    return _packed_as(names, launch.params[1 + len(names) :]) if launch.adjoint else None


def _names(launch: wp.Launch) -> tuple[str, ...]:
    return tuple(argument.label for argument in launch.kernel.adj.args)


def _packed_as(names: tuple[str, ...], values: Sequence[object]) -> ctypes.Structure:
    return _structure(tuple(zip(names, map(type, values))))(*values)


@cache
def _structure(fields: tuple[tuple[str, type], ...]) -> type[ctypes.Structure]:
    return type("Arguments", (ctypes.Structure,), {"_fields_": list(fields)})


def _entry(launch: wp.Launch) -> int:
    """Address of the function of a kernel."""
    hook = launch.hooks.backward if launch.adjoint else launch.hooks.forward
    return ctypes.cast(hook, ctypes.c_void_p).value


def _addresses(launch: wp.Launch, packed: ctypes.Structure, adjoints: ctypes.Structure | None) -> _Row:
    """Addresses of entry point, bounds, packed arguments and adjoints, which are 0 if there are none."""
    last = 0 if adjoints is None else ctypes.addressof(adjoints)
    return _entry(launch), ctypes.addressof(launch.bounds), ctypes.addressof(packed), last


def _arrays_of(arguments: Iterable[object]) -> list[wp.array]:
    """Return the arrays in structs, which may be replaced there while kernels go on using them."""
    found: list[wp.array] = []
    seen: set[int] = set()
    waiting = list(arguments)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, wp.array):
            found.append(value)
            waiting += getattr(value, "pointed_to", ())
        elif hasattr(value, "__dict__"):
            waiting += vars(value).values()
    return found
