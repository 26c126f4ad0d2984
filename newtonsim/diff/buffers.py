"""States in contiguous memory, and the parts of them and of a solver that are kept at checkpoints."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.diff.layout import FORCES, worlds_of
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.arrays import COUNTS, STATE_ARRAYS
from newtonsim.scene.snapshot import find_arrays
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.solver_protocol import DifferentiableSolver

_ALIGNMENT = 16
"""Floats to which the arrays of a state are aligned: 64 bytes."""


class StateLayout:
    """Where the arrays of a state lie in one array of floats; forces are not included.

    Args:
        model: The model.

    Attributes:
        size: Number of floats.
        world: World of each float, -1 for none, int32 (size,).
        arrays: Name to (first float, type, number of entries).
    """

    def __init__(self, model: Model):
        self.model = model
        self.size = 0
        self.arrays: dict[str, tuple[int, type, int]] = {}
        worlds = []
        for spec in STATE_ARRAYS:
            count = getattr(model, COUNTS[spec.per])
            if not count or spec.name in FORCES:
                continue
            width = wp.types.type_size_in_bytes(spec.dtype) // 4
            self.arrays[spec.name] = (self.size, spec.dtype, count)
            room = -(-count * width // _ALIGNMENT) * _ALIGNMENT
            world = np.full(room, -1, np.int32)
            world[: count * width] = np.repeat(worlds_of(model, spec.per), width)
            worlds.append(world)
            self.size += room
        self.world = put(np.concatenate([*worlds, np.zeros(0, np.int32)]), dtype=int, device=model.device)

    def make_state(self, forces: State) -> tuple[State, wp.array]:
        """Return a state with gradients, and the array of floats that contains it.

        Args:
            forces: State whose forces the new one shares.
        """
        device = self.model.device
        values = wp.zeros(self.size, dtype=float, device=device, requires_grad=True)
        state = State()
        for name, (first, dtype, count) in self.arrays.items():
            options = {"dtype": dtype, "shape": (count,), "device": device}
            grad = wp.array(ptr=values.grad.ptr + 4 * first, **options)
            array = wp.array(ptr=values.ptr + 4 * first, grad=grad, **options)
            array.memory = values
            setattr(state, name, array)
        for name in FORCES:
            setattr(state, name, getattr(forces, name))
        return state, values


class ArrayCopies:
    """The contents of some arrays at several times, in contiguous memory for each time.

    Args:
        arrays: The arrays, all on one device.
        count: Number of times.
        device: The device.
    """

    def __init__(self, arrays: list[wp.array], count: int, device: wp.Device):
        self._on_cpu = device.is_cpu
        self._arrays = list({a.ptr: a for a in arrays if a.ptr and a.size}.values())
        self._sizes = [a.size * wp.types.type_size_in_bytes(a.dtype) for a in self._arrays]
        self._bytes = [
            wp.array(ptr=array.ptr, dtype=wp.uint8, shape=(size,), device=device)
            for array, size in zip(self._arrays, self._sizes)
        ]
        self._starts = np.concatenate([[0], np.cumsum(self._sizes, dtype=np.int64)]).tolist()
        self._copies = zeros((count, max(self._starts[-1], 1)), dtype=wp.uint8, device=device)

    def save(self, index: int) -> None:
        """Copy the current contents of the arrays."""
        base = index * self._copies.shape[1]
        for array, size, start in zip(self._bytes, self._sizes, self._starts):
            if self._on_cpu:
                ctypes.memmove(self._copies.ptr + base + start, array.ptr, size)
            else:
                wp.copy(self._copies, array, dest_offset=base + start, count=size)

    def load(self, index: int) -> None:
        """Restore a copy."""
        base = index * self._copies.shape[1]
        for array, size, start in zip(self._bytes, self._sizes, self._starts):
            if self._on_cpu:
                ctypes.memmove(array.ptr, self._copies.ptr + base + start, size)
            else:
                wp.copy(array, self._copies, src_offset=base + start, count=size)


class Checkpoints:
    """States at which segments of a rollout start, and the solver's memory there and at the end.

    The impulses that warm-start the next solve, and similar data, determine the last bits of what a step
    computes: a segment that runs again from its checkpoint must find the same.

    Args:
        layout: Layout of the states.
        count: Number of checkpoints.
        solver: The solver, after a step, so that all of its arrays are there.
    """

    def __init__(self, layout: StateLayout, count: int, solver: DifferentiableSolver):
        device = layout.model.device
        self._states = zeros((count, layout.size), dtype=float, device=device)
        every = arrays_of_steps(solver, layout.model)
        carried = solver.carried_arrays()
        self._memory = ArrayCopies(every if carried is None else carried, count, device)
        self._end = ArrayCopies(every, 1, device)

    def save(self, index: int, state: wp.array) -> None:
        """Keep the state and the solver's memory as those at a checkpoint."""
        wp.copy(self._states, state, dest_offset=index * state.size, count=state.size)
        self._memory.save(index)

    def load(self, index: int, state: wp.array) -> None:
        """Restore the state and the solver's memory."""
        wp.copy(state, self._states, src_offset=index * state.size, count=state.size)
        self._memory.load(index)

    def save_end(self) -> None:
        """Save all that the solver holds, for the end."""
        self._end.save(0)

    def load_end(self) -> None:
        """Restore it."""
        self._end.load(0)


def arrays_of_steps(solver: DifferentiableSolver, model: Model) -> list[wp.array]:
    """What steps leave in a solver: its arrays, but neither the model's nor those of backward passes.

    Arrays on another device than the model's, such as the host, are for reports and are left out.
    """
    found = find_arrays(solver, skip=(model, *solver.adjoints()))
    return [array for array in found if array.device == model.device]
