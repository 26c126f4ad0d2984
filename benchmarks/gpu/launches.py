"""Recorded launches as a card would get them: with teams of several lanes, and the bytes of all arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from gpu.lanes import LANES
from newtonsim import Model, Simulator
from newtonsim.kernels.algebra.teams import Teams
from newtonsim.kernels.views.model import LevelView
from newtonsim.runtime import capture
from newtonsim.runtime.teams import lanes_on_gpu, teams_from


@dataclass(frozen=True)
class CardLaunch:
    """A launch of a card.

    Attributes:
        arguments: Bytes of its arguments, the bounds of the launch first.
        warps: Warps, each of which is a block.
        held: What has to live as long as the arguments.
    """

    arguments: list[bytes]
    warps: int
    held: object


def step_launches(simulator: Simulator) -> list[Any]:
    """Return the launches of a step on a GPU, recorded on the CPU."""
    state = simulator.state
    simulator.solver.constraints.buffers.sweep_first(simulator.model)
    with capture._collect() as commands:
        simulator.solver.step(simulator.model, state, state, simulator.control, None, simulator.dt)
    return commands


def lanes_of(command: wp.Launch, model: Model) -> int:
    """Return how many lanes of a card work on what one thread of a recorded launch does."""
    if not isinstance(command.fwd_args[0], Teams.cls):
        return 1
    # the docstring of a kernel begins with what its teams work on
    index = command.kernel.func.__doc__.removeprefix("One team per ").partition(":")[0]
    return model.cached("lanes", lanes_on_gpu)[index]


def as_on_card(command: wp.Launch, lanes: int, levels: LevelView | None = None) -> CardLaunch:
    """Return a launch that was recorded on the CPU as a card would get it.

    Args:
        command: The launch.
        lanes: Lanes that work on what one thread of it does, see `lanes_of`.
        levels: Levels of trees, wide, which take the place of those in its arguments.
    """
    packed = list(command.params)
    for i, value in enumerate(command.fwd_args):
        if isinstance(value, Teams.cls):
            packed[i + 1] = teams_from(value.first, lanes).__ctype__()
        elif isinstance(value, LevelView.cls):
            packed[i + 1] = levels.__ctype__()
    threads = command.bounds.size * lanes
    bounds = bytearray(bytes(packed[0]))
    if lanes > 1:
        bounds[0:4] = threads.to_bytes(4, "little")
        bounds[8:16] = threads.to_bytes(8, "little")
    return CardLaunch([bytes(bounds), *map(bytes, packed[1:])], -(-threads // LANES), levels)


def contents(command: wp.Launch) -> list[tuple[wp.array, np.ndarray]]:
    """Return all arrays that a recorded launch can reach, each with its bytes, which can be written to."""
    found: dict[int, wp.array] = {}
    for array in capture._arrays_of(command.fwd_args):
        known = found.get(array.ptr)
        if array.ptr and array.size and array.is_contiguous and (known is None or known.size < array.size):
            found[array.ptr] = array
    return [(array, _bytes(array)) for array in found.values()]


def _bytes(array: Any) -> np.ndarray:
    size = array.size * wp.types.type_size_in_bytes(array.dtype)
    interface = {"data": (array.ptr, False), "shape": (size,), "typestr": "|u1", "version": 3}
    return np.asarray(type("Bytes", (), {"__array_interface__": interface})())
