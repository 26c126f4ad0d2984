"""Cycles that a warp takes for straight code, if nothing else runs on its scheduler.

The compiler of the device orders instructions, so that a block is taken as a graph: an instruction is issued
in the first free cycle after its operands are there. A load follows the stores before it, since their
addresses may be the same. Loads hit the first cache. What a card adds are misses, and the wait for the
instructions themselves. The figures are those of microbenchmarks of recent cards (Jia, Maggioni, Staiger,
Scarpazza, "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018; Luo and others,
"Benchmarking and dissecting the NVIDIA Hopper GPU architecture", 2024), rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpu.ptx import Block, Branch, Call, Instruction, Return

ARITHMETIC = 4
"""Cycles until the result of an ordinary instruction is there."""

LOAD = 33
"""Cycles until a load that hits the first cache is there."""

RESULTS = {
    **{"div": 45, "sqrt": 45, "rcp": 40, "rsqrt": 25, "ex2": 20, "lg2": 20, "sin": 20, "cos": 20},
    **{"shfl": 23, "redux": 30, "bar": 8, "cvt": 6, "popc": 12, "brev": 12, "bfind": 12, "clz": 12},
    **{"atom": 300, "mov": 2, "cvta": 2},
}
"""Cycles until the results of other instructions are there."""

ISSUED = {"div": 10, "sqrt": 10, "rcp": 8}
"""Instructions of the device that some stand for."""

ENDS = {type(None): 0, Branch: 8, Call: 12, Return: 12}
"""Cycles that the end of a block adds."""

_REGISTER = re.compile(r"%[a-z]+\d+")


def cycles_of(blocks: Sequence[Block]) -> list[float]:
    """Return the cycles of each block of a function.

    Blocks that only follow one another because lanes meet between them are one for the compiler; each gets
    its share of their cycles by its instructions.
    """
    found: list[float] = []
    chain: list[Block] = []
    for i, block in enumerate(blocks):
        chain.append(block)
        last = i + 1 == len(blocks) or blocks[i + 1].targeted or block.end is not None
        if last:
            whole = _straight([each for part in chain for each in part.instructions])
            whole += ENDS[type(block.end)]
            size = sum(part.size for part in chain) or 1
            found += [whole * part.size / size for part in chain]
            chain = []
    return found


def _straight(instructions: Sequence[Instruction]) -> int:
    """Cycles of instructions without branches."""
    ready: dict[str, int] = {}
    issued: set[int] = set()
    end = stored = 0
    for each in instructions:
        named = [_REGISTER.findall(operand) for operand in each.operands]
        stores = each.head in ("st", "red", "bar")
        results = [] if stores or not named else named[0]
        read = named if stores else named[1:]
        needed = [*(register for own in read for register in own), *_REGISTER.findall(each.guard)]
        at = max([0, *(ready.get(register, 0) for register in needed)])
        memory = each.head in ("ld", "st") and ".param" not in each.name
        if memory:
            at = max(at, stored)
        if each.head == "bar":
            at = max(at, end)
        while at in issued:
            at += 1
        issued.update(range(at, at + ISSUED.get(each.head, 1)))
        wait = _wait(each)
        if each.head == "bar" or (memory and each.head == "st"):
            stored = max(stored, at + (wait if each.head == "bar" else 0))
        ready.update(dict.fromkeys(results, at + wait))
        end = max(end, at + wait)
    return max([end, *(at + 1 for at in issued)])


def _wait(each: Instruction) -> int:
    """Cycles until the result is there."""
    if ".param" in each.name:
        return RESULTS["mov"]
    if each.head == "ld":
        return LOAD
    if each.head == "st":
        return 1
    if ".f64" in each.name:
        return 2 * ARITHMETIC
    return RESULTS.get(each.head, ARITHMETIC)
