"""States in one piece of memory, their history, and the memory of a solver."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.allocation import put, zeros
from newtonsim.arrays import COUNTS, STATE_ARRAYS
from newtonsim.diff.layout import FORCES, worlds_of
from newtonsim.snapshot import find_arrays
from newtonsim.state import State

if TYPE_CHECKING:
    from newtonsim.diff.passes import DifferentiableSolver
    from newtonsim.model import Model

_ALIGNMENT = 16
"""Floats to which the arrays of a state are aligned: 64 bytes."""


class StateLayout:
    """Where the arrays of a state lie in one array of floats; forces are not among them.

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
        """Return a state with gradients and the array of floats that it lies in.

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


class SolverMemory:
    """Everything that a solver keeps from step to step, in one piece for each checkpoint.

    The impulses that the next solve starts from, and the like, decide on the last bits of what a step
    computes: a segment that runs again from its checkpoint has to find the same. What belongs to the backward
    pass alone, `adjoint` of the solver, is left out.

    Args:
        solver: The solver, after a step, so that all of its arrays are there.
        model: The model, which is not part of the memory.
        count: Number of copies.
    """

    def __init__(self, solver: DifferentiableSolver, model: Model, count: int):
        found = {a.ptr: a for a in find_arrays(solver, skip=(model, getattr(solver, "adjoint", None)))}
        device = model.device
        self._on_cpu = device.is_cpu
        # what lives elsewhere, such as on the host, serves reports
        self._arrays = [a for a in found.values() if a.ptr and a.size and a.device == device]
        self._sizes = [a.size * wp.types.type_size_in_bytes(a.dtype) for a in self._arrays]
        self._bytes = [
            wp.array(ptr=array.ptr, dtype=wp.uint8, shape=(size,), device=device)
            for array, size in zip(self._arrays, self._sizes)
        ]
        self._starts = np.concatenate([[0], np.cumsum(self._sizes, dtype=np.int64)]).tolist()
        self._copies = zeros((count, max(self._starts[-1], 1)), dtype=wp.uint8, device=device)

    def save(self, index: int) -> None:
        """Make a copy of what the solver holds now."""
        base = index * self._copies.shape[1]
        for array, size, start in zip(self._bytes, self._sizes, self._starts):
            if self._on_cpu:
                ctypes.memmove(self._copies.ptr + base + start, array.ptr, size)
            else:
                wp.copy(self._copies, array, dest_offset=base + start, count=size)

    def load(self, index: int) -> None:
        """Put a copy back."""
        base = index * self._copies.shape[1]
        for array, size, start in zip(self._bytes, self._sizes, self._starts):
            if self._on_cpu:
                ctypes.memmove(array.ptr, self._copies.ptr + base + start, size)
            else:
                wp.copy(array, self._copies, src_offset=base + start, count=size)

    @property
    def size(self) -> int:
        """Bytes of the copies."""
        return self._copies.capacity


class Checkpoints:
    """States at which segments of a rollout begin, and what the solver remembered there and at the end.

    Args:
        layout: Layout of the states.
        count: Number of checkpoints.
        solver: The solver.
    """

    def __init__(self, layout: StateLayout, count: int, solver: DifferentiableSolver):
        self._count = count
        self._states = zeros((count, layout.size), dtype=float, device=layout.model.device)
        self._memory = SolverMemory(solver, layout.model, count + 1)

    def save(self, index: int, state: wp.array) -> None:
        """Keep the state and the solver's memory as those at a checkpoint."""
        wp.copy(self._states, state, dest_offset=index * state.size, count=state.size)
        self._memory.save(index)

    def load(self, index: int, state: wp.array) -> None:
        """Put the state and the solver's memory back."""
        wp.copy(state, self._states, src_offset=index * state.size, count=state.size)
        self._memory.load(index)

    def save_end(self) -> None:
        """Keep the solver's memory as that at the end."""
        self._memory.save(self._count)

    def load_end(self) -> None:
        """Put the solver's memory at the end back."""
        self._memory.load(self._count)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._states.capacity + self._memory.size
