"""A machine that runs compiled kernels of CUDA on the CPU, one warp after the other.

Lanes run in step as long as they go the same way. Of several ways, the one that is earliest in the code goes
on, until the others catch up, as on cards before they schedule lanes independently; lanes that have to meet
wait for one another. Addresses are those of this process: kernels get arrays of the device "cpu".

What a warp does is counted, block by block. With `latency` this tells how long it takes at least, and which
functions take it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu import lanes
from gpu.lanes import LANES, LOWEST
from gpu.latency import cycles_of
from gpu.ptx import SIZES, Block, Branch, Call, Function, Return, UnknownCode, functions_of
from gpu.translation import DTYPES, Statement, translate

WHOLE = (1 << LANES) - 1
"""All lanes of a warp, as bits."""

_HELPERS = {
    name: getattr(lanes, name)
    for name in (
        *("shuffle", "reduce", "atomic", "quotient", "remainder", "shifted", "funnel", "to_integers"),
        *("leading_zeros", "reversed_bits"),
    )
}


class _Memory:
    """All memory of this process as an array."""

    def __init__(self, dtype: str):
        count = (2**47 - LOWEST) // np.dtype(dtype).itemsize
        self.__array_interface__ = {
            "data": (LOWEST, False),
            "shape": (count,),
            "typestr": f"<{dtype}",
            "version": 3,
        }


def memory(dtype: str) -> np.ndarray:
    """Return an array over all memory of this process, from `LOWEST` on."""
    return np.asarray(_Memory(dtype))


class Deadlock(RuntimeError):
    """Lanes wait for others that do not come."""


@dataclass
class Way:
    """A block, translated.

    Attributes:
        block: The block.
        some: Executes it for some lanes.
        all: Executes it for all.
        team: Where lanes meet: the register with the lanes that have to.
        predicate: That of a branch, and whether it is negated.
        cycles: Cycles that it takes.
        count: How many times it was executed.
        lanes: By how many lanes in all.
    """

    block: Block
    some: Callable[..., None]
    all: Callable[..., None]
    team: np.ndarray | None
    predicate: tuple[np.ndarray, bool] | None
    cycles: float
    count: int = 0
    lanes: int = 0


@dataclass(frozen=True)
class Share:
    """What a function has done, without what it calls.

    Attributes:
        function: Its name.
        calls: How many times it was called.
        instructions: Instructions of warps.
        lanes: Lanes that executed them, on the average.
        cycles: Least time of a warp alone.
        touched: Instructions that were executed at least once.
    """

    function: str
    calls: int
    instructions: int
    lanes: float
    cycles: float
    touched: int


class Frame:
    """Registers and memory of a function, and its translated blocks.

    Functions do not call themselves, so that each has one frame; lanes that are in it at different places
    have different entries.
    """

    def __init__(self, machine: Machine, function: Function):
        self.function = function
        self.lanes = machine.special
        self._machine = machine
        self._registers: dict[str, np.ndarray] = {}
        self._space: dict[str, Any] = {"np": np, **_HELPERS, **machine.memories}
        self._memory = {
            name: np.zeros((LANES, -(-size // 8) * 8), np.uint8)
            for name, size in [*function.parameters, *function.results, *function.arguments.items()]
        }
        self._local = {name: np.zeros((LANES, size), np.uint8) for name, size in function.local.items()}
        for name, size in function.shared.items():
            machine.reserve_shared(name, size)
        times = cycles_of(function.blocks)
        self.ways = [self._way(block, time) for block, time in zip(function.blocks, times)]

    def register(self, name: str) -> np.ndarray:
        """Return the values of a register in all lanes."""
        if name not in self._registers:
            kinds = self.function.registers
            kind = kinds.get(name) or kinds[name.rstrip("0123456789")]
            dtype = "?" if kind == "pred" else f"{'f' if kind[0] == 'f' else 'u'}{SIZES[kind]}"
            self._registers[name] = np.zeros(LANES, dtype)
        return self._registers[name]

    def argument(self, name: str) -> np.ndarray | None:
        """Return the memory of an argument, a parameter or a result, by lanes, or None."""
        return self._memory.get(name)

    def constant(self, value: Any) -> str:
        """Return a name for a value."""
        name = f"constant_{len(self._space)}"
        self._space[name] = value
        return name

    def view(self, register: str, dtype: str) -> str:
        """Return a name for the values of a register as a type."""
        name = f"r_{register.lstrip('%')}_{dtype.replace('?', 'p')}"
        self._space[name] = self.register(register).view(dtype)
        return name

    def operand(self, text: str, kind: str) -> str:
        """Return an expression for an operand that is read as a type."""
        dtype, size = DTYPES[kind], SIZES[kind]
        if text in self.lanes:
            return self.constant(self.lanes[text])
        if text[0] == "%":
            own = self.register(text).dtype
            if own.itemsize == size:
                return self.view(text, dtype)
            return f"{self.view(text, own.str[1:])}.astype('{dtype}')"
        if match := re.fullmatch(r"0([fd])([0-9A-Fa-f]+)", text):
            bits = np.array(int(match[2], 16), "u4" if match[1] == "f" else "u8")
            return self.constant(bits.view("f4" if match[1] == "f" else "f8").astype(dtype)[()])
        if re.match(r"-?\d", text):
            value = int(text.rstrip("U"), 0)
            if kind == "pred":
                return self.constant(np.bool_(value))
            return self.constant(np.array(value & (1 << 8 * size) - 1, f"u{size}").view(dtype)[()])
        return self.constant(self._address(text).astype(dtype))

    def places(self, base: str, offset: int, size: int, shared: bool) -> tuple[str, str]:
        """Return expressions for entries of `memory`: of all lanes, and of those in `act`."""
        lift = offset - LOWEST + (self._machine.shared.ctypes.data if shared else 0)
        address = f"{self.operand(base, 'u32' if shared else 'u64')}.astype('i8')"
        shift = size.bit_length() - 1
        return f"({address} + {lift} >> {shift})", f"({address}[act] + {lift} >> {shift})"

    def _address(self, name: str) -> np.ndarray:
        """Addresses of a name in all lanes."""
        own = self._local.get(name, self._memory.get(name))
        if own is not None:
            return own.ctypes.data + np.arange(LANES, dtype=np.uint64) * np.uint64(own.shape[1])
        return np.full(LANES, self._machine.symbol(name), np.uint64)

    def _way(self, block: Block, cycles: float) -> Way:
        lines = [line for each in block.instructions for line in translate(self, each)]
        team = predicate = None
        if block.meeting:
            text = block.instructions[0].operands[-1]
            team = np.broadcast_to(eval(self.operand(text, "b32"), self._space), (LANES,))
        if isinstance(block.end, Branch) and block.end.guard:
            predicate = (self.register(block.end.guard.lstrip("@!")), "!" in block.end.guard)
        some, whole = (self._compiled(lines, form) for form in ("some", "all"))
        return Way(block, some, whole, team, predicate, cycles)

    def _compiled(self, lines: Sequence[Statement], form: str) -> Callable[..., None]:
        body = [f"  {getattr(line, form)}" for line in lines]
        exec("\n".join(["def run(m, act):", "  pass", *body]), self._space)
        return self._space["run"]


class Machine:
    """Runs the kernels of a module.

    Args:
        code: The module in PTX.
    """

    def __init__(self, code: bytes):
        self._text = code.decode()
        self.functions = functions_of(self._text)
        self.memories = {f"memory_{dtype}": memory(dtype) for dtype in set(DTYPES.values()) - {"?"}}
        self.shared = np.zeros(64 * 1024, np.uint8)
        self.special = {
            f"%{what}.{axis}": np.full(LANES, value, np.uint32)
            for what, value in (("tid", 0), ("ctaid", 0), ("ntid", 1), ("nctaid", 1))
            for axis in "xyz"
        }
        self.special["%tid.x"][:] = np.arange(LANES)
        self.special["%ntid.x"][:] = LANES
        self._symbols: dict[str, int] = {}
        self._reserved = 0
        self._kept: list[np.ndarray] = []
        self._frames: dict[str, Frame] = {}
        self._meeting: dict[str, bool] = {}
        self._masks: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def kernel(self, key: str) -> str:
        """Return the full name of a forward kernel."""
        pattern = re.compile(re.escape(key) + r"_[0-9a-f]{8}_cuda_kernel_forward")
        return next(name for name in self.functions if pattern.fullmatch(name))

    def run(self, kernel: str, arguments: Sequence[bytes], warps: Iterable[int], count: int) -> None:
        """Run some warps of a launch, each a block of its own.

        Args:
            kernel: Full name of the kernel.
            arguments: Bytes of its arguments.
            warps: Numbers of the warps.
            count: Warps of the launch.

        Raises:
            UnknownCode: It contains an instruction that is not understood.
            Deadlock: Lanes wait for others that do not come.
        """
        frame = self._frame(kernel)
        for (name, size), data in zip(frame.function.parameters, arguments):
            frame.argument(name)[:, :size] = np.frombuffer(data, np.uint8)[:size]
        self.special["%nctaid.x"][:] = count
        with np.errstate(all="ignore"):
            for warp in warps:
                self.special["%ctaid.x"][:] = warp
                self._run(frame, WHOLE)

    def shares(self) -> list[Share]:
        """Return what the functions have done since the last time, the slowest first."""
        found = []
        for name, frame in self._frames.items():
            done = [way for way in frame.ways if way.count]
            total = sum(way.count * way.block.size for way in done)
            if done:
                found.append(
                    Share(
                        function=name,
                        calls=frame.ways[0].count,
                        instructions=total,
                        lanes=sum(way.lanes * way.block.size for way in done) / max(total, 1),
                        cycles=sum(way.count * way.cycles for way in done),
                        touched=sum(way.block.size for way in done),
                    )
                )
            for way in done:
                way.count = way.lanes = 0
        return sorted(found, key=lambda share: -share.cycles)

    def reserve_shared(self, name: str, size: int) -> None:
        """Give a name room in the shared memory."""
        if name not in self._symbols:
            self._symbols[name] = self._reserved
            self._reserved += -(-size // 16) * 16

    def symbol(self, name: str) -> int:
        """Return the address of a name outside of functions, or of shared memory its offset."""
        if name not in self._symbols:
            shared = re.search(rf"\.shared\s+\.align\s+\d+\s+\.\w+\s+{re.escape(name)}\[(\d+)\]", self._text)
            if shared:
                self.reserve_shared(name, int(shared[1]))
            else:
                self._kept.append(self._constants(name))
                self._symbols[name] = self._kept[-1].ctypes.data
        return self._symbols[name]

    def _constants(self, name: str) -> np.ndarray:
        """Values of a name outside of functions."""
        declared = rf"\.(?:global|const)\s+\.align\s+\d+\s+\.(\w+)\s+{re.escape(name)}"
        match = re.search(declared + r"(?:\[(\d+)\])?(?:\s*=\s*([^;]*))?;", self._text)
        if match is None:
            raise UnknownCode(name)
        values = np.zeros(int(match[2] or 1), DTYPES[match[1]])
        for i, text in enumerate(filter(None, (match[3] or "").strip("{} ").split(","))):
            number = re.fullmatch(r"\s*0[fd]([0-9A-Fa-f]+)\s*", text)
            if number:
                values.view(f"u{values.itemsize}")[i] = int(number[1], 16)
            else:
                values[i] = int(text, 0)
        return values

    def _frame(self, name: str) -> Frame:
        if name not in self._frames:
            self._frames[name] = Frame(self, self.functions[name])
        return self._frames[name]

    def _mask(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        if bits not in self._masks:
            mask = np.array([bits >> i & 1 for i in range(LANES)], bool)
            self._masks[bits] = (mask, np.nonzero(mask)[0])
        return self._masks[bits]

    def _run(self, frame: Frame, bits: int) -> None:
        """Run a function in some lanes, to its end."""
        groups, waiting = {0: bits}, {}
        while groups:
            # lanes that are about to meet in a function wait before its call until others have caught up
            place = min(groups, key=lambda at: (self._meets(frame.ways[at].block.end), at))
            group = groups.pop(place)
            way = frame.ways[place]
            if way.team is not None:
                group = _arrived(way.team, group | waiting.pop(place, 0), waiting, place)
                if not group:
                    continue
            way.count += 1
            way.lanes += group.bit_count()
            mask, act = self._mask(group)
            (way.all if group == WHOLE else way.some)(mask, act)
            for next, part in self._follow(frame, way, place, group):
                if part:
                    groups[next] = groups.get(next, 0) | part
        if waiting:
            raise Deadlock(frame.function.name)

    def _follow(self, frame: Frame, way: Way, place: int, group: int) -> list[tuple[int, int]]:
        """Where lanes go after a block, with their bits."""
        end = way.block.end
        if isinstance(end, Return):
            return []
        if isinstance(end, Call):
            self._call(frame, end, group)
        if not isinstance(end, Branch):
            return [(place + 1, group)] if place + 1 < len(frame.ways) else []
        if way.predicate is None:
            return [(end.target, group)]
        values, negated = way.predicate
        taken = int.from_bytes(np.packbits(values, bitorder="little").tobytes(), "little")
        taken = (~taken if negated else taken) & group
        return [(end.target, taken), (place + 1, group & ~taken)]

    def _meets(self, end: object) -> bool:
        """Whether a block ends with the call of a function in which lanes meet."""
        if not isinstance(end, Call):
            return False
        if end.function not in self._meeting:
            blocks = self.functions[end.function].blocks
            self._meeting[end.function] = any(b.meeting or self._meets(b.end) for b in blocks)
        return self._meeting[end.function]

    def _call(self, frame: Frame, call: Call, group: int) -> None:
        callee = self._frame(call.function)
        mask = self._mask(group)[0][:, None]
        for (name, size), own in zip(callee.function.parameters, call.arguments):
            np.copyto(callee.argument(name)[:, :size], frame.argument(own)[:, :size], where=mask)
        self._run(callee, group)
        for (name, size), own in zip(callee.function.results, call.results):
            np.copyto(frame.argument(own)[:, :size], callee.argument(name)[:, :size], where=mask)


def _arrived(team: np.ndarray, group: int, waiting: dict[int, int], place: int) -> int:
    """The lanes whose whole team has arrived; the others wait."""
    ready, rest = 0, group
    while rest:
        lane = (rest & -rest).bit_length() - 1
        wanted = int(team[lane])
        own = wanted & group | 1 << lane
        rest &= ~own
        if own == wanted:
            ready |= own
        else:
            waiting[place] = waiting.get(place, 0) | own
    return ready
