"""What warps of a GPU do in a step, function by function, told without one.

A machine executes the compiled kernels on the CPU, with the lanes, shuffles and barriers of warps. Cycles are
the least of a warp alone on its scheduler: with all loads in the first cache and no wait for instructions,
both of which cards add. They compare versions of a kernel, and name the functions that are worth work;
seconds only a card tells. A launch takes at least as long as its slowest warp.

Results are compared with those of the CPU's kernels: `differs` is the largest difference of numbers over
the larger of their size and the mean size in their array. Kernels that iterate stop at a tolerance, so that
theirs may be large.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from gpu.cards import CARDS
from gpu.launches import as_on_card, contents, lanes_of, step_launches
from gpu.machine import Machine, Share
from gpu.ptxas import compiled
from newtonsim import Simulator
from newtonsim.scene.levels import levels_of

SHOWN = 0.02
"""Share of a kernel's cycles from which a function is listed."""


@dataclass(frozen=True)
class Account:
    """What the warps of a kernel have done.

    Attributes:
        kernel: Its name.
        warps: What the functions did in each warp.
        differs: Largest relative difference to the results of the CPU.
    """

    kernel: str
    warps: list[list[Share]]
    differs: float

    def cycles(self) -> np.ndarray:
        """Cycles of each warp."""
        return np.array([sum(share.cycles for share in shares) for shares in self.warps])

    def instructions(self) -> np.ndarray:
        """Instructions of each warp."""
        return np.array([sum(share.instructions for share in shares) for shares in self.warps])


def run_step(simulator: Simulator, arch: int, kernels: Sequence[str] = ()) -> list[Account]:
    """Run the launches of a step on both, and return what the machine's warps did.

    Args:
        simulator: A simulation on the CPU; its step is made.
        arch: Architecture, such as 90.
        kernels: Names of the kernels to run on the machine, or none for all.
    """
    machines: dict[wp.Module, Machine] = {}
    accounts = []
    for command in step_launches(simulator):
        module = command.kernel.module
        if kernels and command.kernel.key not in kernels:
            command.launch()
            continue
        if module not in machines:
            machines[module] = Machine(compiled(module, arch))
        accounts.append(run_both(command, simulator, machines[module]))
    return accounts


def run_both(command: Any, simulator: Simulator, machine: Machine) -> Account:
    """Run a launch on the machine and on the CPU, whose results remain."""
    arrays = contents(command)
    before = [values.copy() for _, values in arrays]
    model = simulator.model
    launch = as_on_card(command, lanes_of(command, model), levels_of(model, wide=True))
    warps = []
    for warp in range(launch.warps):
        machine.run(machine.kernel(command.kernel.key), launch.arguments, [warp], launch.warps)
        warps.append(machine.shares())
    found = [values.copy() for _, values in arrays]
    for (_, values), old in zip(arrays, before):
        values[:] = old
    command.launch()
    differs = max(
        (_difference(array, own, values) for (array, values), own in zip(arrays, found)),
        default=0.0,
    )
    return Account(command.kernel.key, warps, differs)


def _difference(array: wp.array, found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference of floats over the larger of their size and the mean size; 1 for other numbers."""
    scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    if scalar is not wp.float32:
        return 0.0
    a, b = found.view(np.float32), expected.view(np.float32)
    finite = np.isfinite(b)
    if not finite.any():
        return 0.0
    scale = np.maximum(np.abs(b[finite]), max(float(np.abs(b[finite]).mean()), 1.0e-6))
    return float((np.abs(a[finite] - b[finite]) / scale).max())


def summary(account: Account, arch: int) -> dict[str, Any]:
    """Return the row of a kernel."""
    cycles = account.cycles()
    return {
        "kernel": account.kernel,
        "warps": len(account.warps),
        "instructions": round(float(account.instructions().mean())),
        "cycles": round(float(cycles.mean())),
        "slowest_warp": round(float(cycles.max())),
        "least_microseconds": round(1.0e6 * float(cycles.max()) / CARDS[arch].clock, 2),
        "differs": float(f"{account.differs:.1e}"),
    }


def functions_of(account: Account) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return what the functions of a kernel take, as the header and the rows of a table."""
    total = account.cycles().sum()
    rows: dict[str, list[float]] = {}
    for share in (share for shares in account.warps for share in shares):
        row = rows.setdefault(share.function, [0.0, 0.0, 0.0])
        row[0] += share.cycles
        row[1] += share.instructions
        row[2] += share.calls
    lines = [
        (readable(name), f"{row[0] / total:.0%}", round(row[0] / row[2]), round(row[1] / row[2]))
        for name, row in sorted(rows.items(), key=lambda item: -item[1][0])
        if row[0] > SHOWN * total
    ]
    return ("function", "cycles", "cycles a call", "instructions a call"), lines


def readable(name: str) -> str:
    """Return the name of a function as in the source."""
    match = re.search(r"_cu_[0-9a-f]{8}(\d+)(\w+)", name)
    if match:
        # the length of the name follows the hash of the file, whose last digits look like it
        for digits in range(len(match[1])):
            length = int(match[1][digits:])
            if length < len(match[2]) and match[2][:length].isidentifier():
                return match[2][:length].rpartition("_")[0]
    return name.rpartition("_cuda_kernel")[0] or name
