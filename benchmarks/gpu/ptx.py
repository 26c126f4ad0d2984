"""PTX, the intermediate code of CUDA, as blocks of instructions.

The language is that of NVIDIA's "Parallel Thread Execution ISA", as far as Warp's compiler writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

SIZES = {
    **{"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2},
    **{"b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8},
}
"""Bytes of the types of registers and memory."""

MEETINGS = ("bar.warp.sync", "shfl.sync", "redux.sync")
"""What the lanes of a warp do together: they have to arrive at it first."""

_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?")
_FUNCTION = re.compile(r"^(?:\.visible |\.weak |\.extern )*\.(?:func|entry)\b", re.M)
_HEAD = re.compile(r"(?:\.\w+ )*?\.(func|entry)\s*(?:\((.*?)\))?\s*([\w$]+)\s*(?:\((.*)\))?", re.S)
_INSTRUCTION = re.compile(r"(@!?%p\d+\s+)?(\S+)\s*(.*)", re.S)
_CALL = re.compile(r"(?:\(\s*([\w$, ]+?)\s*\),)?\s*([\w$]+)\s*(?:,\s*\(\s*(.*?)\s*\))?\s*$")


class UnknownCode(ValueError):
    """An instruction or a declaration that is not understood."""


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        name: With its types, such as "add.s32".
        operands: Registers, numbers, addresses; the result comes first.
        guard: Predicate, such as "@!%p1", if only some lanes execute it.
    """

    name: str
    operands: tuple[str, ...]
    guard: str = ""

    @property
    def head(self) -> str:
        """The name without types."""
        return self.name.partition(".")[0]

    @property
    def type(self) -> str:
        """The last type."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Branch:
    """End of a block that goes on elsewhere.

    Attributes:
        target: Number of the block.
        guard: Predicate of the lanes that go there, or nothing if all do.
    """

    target: int
    guard: str = ""


@dataclass(frozen=True)
class Call:
    """End of a block that calls a function.

    Attributes:
        function: Its name.
        results: Names of the memory for results.
        arguments: Names of the memory with arguments.
    """

    function: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Return:
    """End of a block that ends the function."""


@dataclass
class Block:
    """Instructions that are executed one after the other.

    Attributes:
        instructions: The instructions, without that at its end.
        end: How it ends; None if the next block follows.
        meeting: Whether its only instruction is one that lanes execute together.
        targeted: Whether branches lead to it.
    """

    instructions: list[Instruction] = field(default_factory=list)
    end: Branch | Call | Return | None = None
    meeting: bool = False
    targeted: bool = False

    @property
    def size(self) -> int:
        """Number of instructions."""
        return len(self.instructions) + (self.end is not None)


@dataclass
class Function:
    """A function or a kernel.

    Attributes:
        name: As in the code.
        parameters: Names and sizes [B] of what it is given.
        results: Names and sizes [B] of what it returns.
        arguments: Names and sizes [B] of memory for calls of others.
        registers: Types by the beginnings of the names of registers.
        local: Names and sizes [B] of the memory of a lane.
        shared: Names and sizes [B] of the memory of a block.
        blocks: Its code.
    """

    name: str
    parameters: list[tuple[str, int]]
    results: list[tuple[str, int]]
    arguments: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


def functions_of(text: str) -> dict[str, Function]:
    """Read all functions of a module, by their names.

    Raises:
        UnknownCode: A declaration is not understood.
    """
    text = re.sub(r"//[^\n]*", "", text)
    starts = [match.start() for match in _FUNCTION.finditer(text)]
    found = {}
    for begin, end in zip(starts, [*starts[1:], len(text)]):
        head, brace, body = text[begin:end].partition("\n{")
        if not brace:
            continue  # a declaration
        match = _HEAD.match(head)
        if match is None:
            raise UnknownCode(head.splitlines()[0])
        function = Function(match[3], _parameters(match[4] or ""), _parameters(match[2] or ""))
        _read_body(function, body[: body.rfind("}")])
        found[function.name] = function
    return found


def operands_of(text: str) -> tuple[str, ...]:
    """Split operands at the commas that are not within brackets."""
    return tuple(part.strip() for part in re.split(r",(?![^\[{(]*[\]})])", text) if part.strip())


def _parameters(text: str) -> list[tuple[str, int]]:
    return [(m[2], SIZES[m[1]] * int(m[3] or 1)) for m in _PARAMETER.finditer(text)]


def _statements(body: str) -> Iterator[str]:
    """Yield labels, which end with a colon, and statements without their semicolons."""
    pending = ""
    for line in map(str.strip, body.splitlines()):
        if not line or line in "{}":
            continue
        if re.fullmatch(r"[$\w]+:", line):
            yield line
            continue
        pending = f"{pending} {line}"
        if line.endswith(";"):
            yield from (part.strip() for part in pending.split(";") if part.strip())
            pending = ""


def _read_body(function: Function, body: str) -> None:
    """Read declarations and code."""
    labels: dict[str, int] = {}
    jumps: list[tuple[Block, str, str]] = []
    block = Block()
    function.blocks.append(block)

    def begin() -> Block:
        function.blocks.append(Block())
        return function.blocks[-1]

    for text in _statements(body):
        if text.endswith(":"):
            if block.size:
                block = begin()
            labels[text[:-1]] = len(function.blocks) - 1
            block.targeted = True
        elif text[0] == ".":
            _declare(function, text)
        else:
            match = _INSTRUCTION.match(text)
            guard, name, rest = (match[1] or "").strip(), match[2], match[3].strip()
            if name.startswith(MEETINGS):
                if block.size:
                    block = begin()
                block.meeting = True
                block.instructions.append(Instruction(name, operands_of(rest), guard))
                block = begin()
            elif name.partition(".")[0] in ("bra", "call", "ret", "exit"):
                if name.startswith("bra"):
                    jumps.append((block, rest, guard))
                else:
                    block.end = _end_of(name, rest, guard)
                block = begin()
            else:
                block.instructions.append(Instruction(name, operands_of(rest), guard))
    for jump, label, guard in jumps:
        jump.end = Branch(labels[label], guard)


def _end_of(name: str, rest: str, guard: str) -> Call | Return:
    if name.startswith("call"):
        match = _CALL.match(re.sub(r"\s+", " ", rest))
        if match is None or guard:
            raise UnknownCode(f"{guard} {name} {rest}")
        return Call(match[2], operands_of(match[1] or ""), operands_of(match[3] or ""))
    if guard:
        raise UnknownCode(f"{guard} {name}")
    return Return()


def _declare(function: Function, text: str) -> None:
    """Note what a declaration within a function tells."""
    if match := re.match(r"\.reg\s+\.(\w+)\s+(%[A-Za-z]+)", text):
        function.registers[match[2]] = match[1]
    elif match := re.match(r"\.(local|shared)\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[(\d+)\]", text):
        (function.local if match[1] == "local" else function.shared)[match[2]] = int(match[3])
    elif text.startswith(".param"):
        for name, size in _parameters(text):
            function.arguments[name] = max(size, function.arguments.get(name, 0))
    elif not text.startswith((".pragma", ".reg")):
        raise UnknownCode(text)
