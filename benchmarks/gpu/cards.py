"""What cards can do: for each architecture the one that is most often used for simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpu.ptxas import Resources
from newtonsim.runtime.compilation import BLOCK_DIM

REGISTERS = 65536
"""Registers of a multiprocessor; a warp gets them by 256."""

WARPS, BLOCKS, SCHEDULERS = 64, 32, 4
"""Most warps and blocks on a multiprocessor, and how many warps it issues instructions of in a cycle."""

DEPENDENT = 4.0
"""Cycles from an arithmetic instruction to one that needs its result: the least that a chain takes."""

LAUNCH = 2.5e-6
"""Duration of a kernel of a graph that does nothing [s]."""

INSTRUCTIONS = 5.0e9
"""Instructions that a core of a CPU is taken to make in a second, by which CPU time becomes work."""


@dataclass(frozen=True)
class Card:
    """A card; figures of its maker.

    Attributes:
        name: Its name.
        multiprocessors: How many it has.
        clock: [Hz] under load.
        bandwidth: Of its memory [B/s].
        shared: Shared memory of a multiprocessor [B].
    """

    name: str
    multiprocessors: int
    clock: float
    bandwidth: float
    shared: int


CARDS = {
    80: Card("A100", 108, 1.41e9, 2.04e12, 164 * 1024),
    90: Card("H100", 132, 1.83e9, 3.35e12, 228 * 1024),
    100: Card("B200", 148, 1.85e9, 8.0e12, 228 * 1024),
}
"""By architecture: A100 80 GB, H100 SXM, B200."""


def occupancy(card: Card, kernel: Resources) -> float:
    """Return the share of the warps that a multiprocessor can hold while only this kernel runs."""
    warps = BLOCK_DIM // 32
    registers = 256 * math.ceil(max(kernel.registers, 1) * 32 / 256)
    blocks = min(BLOCKS, REGISTERS // (registers * warps), WARPS // warps)
    if kernel.shared:
        blocks = min(blocks, card.shared // kernel.shared)
    return blocks * warps / WARPS


def least_time(card: Card, cpu_seconds: float, threads: float, moved: float) -> float:
    """Return the least time of a launch on a card [s].

    It is that of the slowest of: the memory, all instructions of all warps, and the chain of one thread,
    where its instructions depend on each other; and no less than an empty kernel takes.

    Args:
        card: The card.
        cpu_seconds: How long the same work takes on a core of a CPU.
        threads: Threads that share it evenly.
        moved: Memory that is read or written [B].
    """
    instructions = cpu_seconds * INSTRUCTIONS
    issue = instructions / 32.0 / (card.multiprocessors * SCHEDULERS * card.clock)
    chain = instructions / threads * DEPENDENT / card.clock
    return max(LAUNCH, moved / card.bandwidth, issue, chain)
