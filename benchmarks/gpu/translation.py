"""Instructions of PTX as statements on NumPy arrays with one entry a lane.

A statement assigns to a register in the lanes of the mask `m`, whose numbers are `act`. Each comes in two
forms, for some lanes and for all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu.ptx import SIZES, Instruction, UnknownCode

if TYPE_CHECKING:
    from gpu.machine import Frame

DTYPES = {
    **{"pred": "?", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2"},
    **{
        "b32": "u4",
        "u32": "u4",
        "s32": "i4",
        "f32": "f4",
        "b64": "u8",
        "u64": "u8",
        "s64": "i8",
        "f64": "f8",
    },
}
"""NumPy's types by those of PTX."""

COMPARISONS = {
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
    **{"lo": "<", "ls": "<=", "hi": ">", "hs": ">=", "neu": "!="},
}
OPPOSITES = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
"""Comparisons that also hold if a number is not one."""

ROUNDINGS = {"rzi": "np.trunc", "rni": "np.rint", "rmi": "np.floor", "rpi": "np.ceil"}

UNARY = {
    **{"abs": "np.abs", "sqrt": "np.sqrt", "ex2": "np.exp2", "lg2": "np.log2", "sin": "np.sin"},
    **{
        "cos": "np.cos",
        "neg": "-",
        "not": "~",
        "rcp": "1 / ",
        "rsqrt": "1 / np.sqrt",
        "brev": "reversed_bits",
    },
}
BINARY = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}


@dataclass(frozen=True)
class Statement:
    """A line of Python, for some lanes and for all."""

    some: str
    all: str


def translate(frame: Frame, each: Instruction) -> list[Statement]:
    """Return what an instruction does.

    Raises:
        UnknownCode: It is not understood.
    """
    lines = _TABLE.get(each.head, _arithmetic)(frame, each, each.name.split("."))
    if not each.guard:
        return lines
    predicate = frame.view(each.guard.lstrip("@!"), "?")
    mask = f"m & {'~' if '!' in each.guard else ''}{predicate}"
    begin = f"kept = m, act; m = {mask}; act = np.nonzero(m)[0]"
    return [
        Statement(begin, begin),
        *(Statement(line.some, line.some) for line in lines),
        Statement("m, act = kept", "m, act = kept"),
    ]


def _set(frame: Frame, register: str, kind: str, value: str) -> list[Statement]:
    """Assign a value of a type to a register, which may be wider."""
    if register == "_":
        return []
    width, size = frame.register(register).dtype.itemsize, SIZES[kind]
    target = frame.view(register, DTYPES[kind] if width == size else f"{_sign(kind)}{width}")
    if width != size:
        value = f"({value}).astype('{_sign(kind)}{width}')"
    return [Statement(f"np.copyto({target}, {value}, where=m)", f"{target}[:] = {value}")]


def _sign(kind: str) -> str:
    return "i" if kind[0] == "s" else "u"


def _arithmetic(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    head, kind, ops = each.head, each.type, each.operands
    if kind not in SIZES:
        raise UnknownCode(each.name)
    read = [frame.operand(operand, kind) for operand in ops[1:]]
    if head in BINARY:
        value = f"{read[0]} {BINARY[head]} {read[1]}"
    elif head in UNARY:
        value = f"{UNARY[head]}({read[0]})"
    elif head == "selp":
        value = f"np.where({frame.operand(ops[3], 'pred')}, {read[0]}, {read[1]})"
    elif head in ("min", "max"):
        name = {"min": "minimum", "max": "maximum"}[head] if kind[0] != "f" else f"f{head}"
        value = f"np.{name}({read[0]}, {read[1]})"
    elif head == "copysign":
        value = f"np.copysign({read[1]}, {read[0]})"
    elif head == "div" and kind[0] == "f":
        value = f"{read[0]} / {read[1]}"
    elif head in ("div", "rem"):
        value = f"{'quotient' if head == 'div' else 'remainder'}({read[0]}, {read[1]})"
    elif head == "fma":
        # exact in double precision, but for the last rounding
        wide = f"{read[0]}.astype('f8') * {read[1]} + {read[2]}"
        value = f"({wide}).astype('{DTYPES[kind]}')" if kind == "f32" else wide
    elif head in ("shl", "shr"):
        value = f"shifted('{head}', {read[0]}, {frame.operand(ops[2], 'u32')}, {8 * SIZES[kind]})"
    elif head in ("popc", "clz", "bfind"):
        return _set(frame, ops[0], "u32", _counted(each, parts, read[0]))
    elif head == "shf":
        value = f"funnel('{parts[1]}', '{parts[2]}', {', '.join(read)})"
    else:
        raise UnknownCode(each.name)
    return _set(frame, ops[0], kind, value)


def _counted(each: Instruction, parts: list[str], value: str) -> str:
    if each.head == "popc":
        return f"np.bitwise_count({value}).astype('u4')"
    if each.head == "clz" or parts[1] == "shiftamt":
        return f"leading_zeros({value})"
    return f"np.uint32({8 * SIZES[each.type] - 1}) - leading_zeros({value})"


def _multiply(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    kind, ops = each.type, each.operands
    a, b = frame.operand(ops[1], kind), frame.operand(ops[2], kind)
    wide = kind if kind[0] == "f" else f"{kind[0]}{min(2 * int(kind[1:]), 64)}"
    to = kind
    if kind[0] == "f" or parts[1] == "lo":
        value = f"{a} * {b}"
    elif parts[1] == "wide":
        to, value = wide, f"{a}.astype('{DTYPES[wide]}') * {b}"
    elif parts[1] == "hi" and SIZES[kind] == 4:
        value = f"({a}.astype('{DTYPES[wide]}') * {b} >> 32).astype('{DTYPES[kind]}')"
    else:
        raise UnknownCode(each.name)
    if each.head == "mad":
        value = f"{value} + {frame.operand(ops[3], to)}"
    return _set(frame, ops[0], to, value)


def _move(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    kind, (to, of) = each.type, each.operands
    if to[0] != "{" and of[0] != "{":
        return _set(frame, to, kind, frame.operand(of, kind))
    half = {"b64": "b32", "b32": "b16"}[kind]
    bits = 8 * SIZES[half]
    low, high = (part.strip() for part in (to if to[0] == "{" else of)[1:-1].split(","))
    if to[0] == "{":
        whole = frame.operand(of, kind)
        upper = f"(({whole}) >> {bits}).astype('{DTYPES[half]}')"
        return [
            *_set(frame, low, half, f"({whole}).astype('{DTYPES[half]}')"),
            *_set(frame, high, half, upper),
        ]
    a, b = (f"{frame.operand(part, half)}.astype('{DTYPES[kind]}')" for part in (low, high))
    return _set(frame, to, kind, f"{a} | ({b} << {bits})")


def _compare(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    kind, ops, how = each.type, each.operands, parts[1]
    a, b = frame.operand(ops[1], kind), frame.operand(ops[2], kind)
    if how in OPPOSITES:
        value = f"~({a} {OPPOSITES[how]} {b})"
    elif how == "equ" or (how == "ne" and kind[0] == "f"):
        value = f"{'~' if how == 'equ' else ''}(({a} < {b}) | ({a} > {b}))"
    elif how in COMPARISONS:
        value = f"({a} {COMPARISONS[how]} {b})"
    else:
        raise UnknownCode(each.name)
    if len(parts) == 4:
        other = frame.operand(ops[3].lstrip("!"), "pred")
        value = f"{value} {BINARY[parts[2]]} {'~' if ops[3][0] == '!' else ''}{other}"
    return _set(frame, ops[0], "pred", value)


def _convert(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    to, of = parts[-2], parts[-1]
    value = frame.operand(each.operands[1], of)
    rounding = next((ROUNDINGS[part] for part in parts if part in ROUNDINGS), None)
    if of[0] == "f" and rounding:
        value = f"{rounding}({value})"
    if of[0] == "f" and to[0] != "f":
        value = f"to_integers({value}, '{DTYPES[to]}')"
    if "sat" in parts:
        value = f"np.clip({value}, 0, 1)"
    return _set(frame, each.operands[0], to, f"({value}).astype('{DTYPES[to]}')")


def _field(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    """Insert or extract a field of bits at a fixed place."""
    kind, ops = each.type, each.operands
    at, width = (int(text, 0) for text in ops[-2:])
    number = np.dtype(DTYPES[kind]).type
    a, ones = frame.operand(ops[1], kind), (1 << width) - 1
    if each.head == "bfi":
        rest = ~(ones << at) & (1 << 8 * SIZES[kind]) - 1
        kept = f"({frame.operand(ops[2], kind)} & {frame.constant(number(rest))})"
        value = f"(({a} & {frame.constant(number(ones))}) << {at}) | {kept}"
    elif kind[0] == "s":
        bits = 8 * SIZES[kind]
        value = f"({a} << {bits - at - width}) >> {bits - width}"
    else:
        value = f"({a} >> {at}) & {frame.constant(number(ones))}"
    return _set(frame, ops[0], kind, value)


def _load_or_store(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    kind, loads = each.type, each.head == "ld"
    size, dtype = SIZES[kind], DTYPES[kind]
    registers, place = each.operands if loads else each.operands[::-1]
    names = [name.strip() for name in registers.strip("{}").split(",")]
    base, offset = re.fullmatch(r"\[([^+\]]+?)(?:\+(-?\d+))?\]", place).groups()
    lines = []
    for i, name in enumerate(names):
        at = int(offset or 0) + i * size
        if (memory := frame.argument(base)) is not None:
            column = frame.constant(memory.view(dtype)[:, at // size])
            if loads:
                lines += _set(frame, name, kind, column)
            else:
                value = frame.operand(name, kind)
                lines.append(Statement(f"np.copyto({column}, {value}, where=m)", f"{column}[:] = {value}"))
            continue
        index, some = frame.places(base, at, size, "shared" in parts)
        if not loads:
            value = frame.operand(name, kind)
            own = f"({value})[act]" if name in frame.lanes or name[0] == "%" else value
            lines.append(Statement(f"memory_{dtype}[{some}] = {own}", f"memory_{dtype}[{index}] = {value}"))
        elif name != "_":
            width = frame.register(name).dtype.itemsize
            wide = dtype if width == size else f"{_sign(kind)}{width}"
            cast = "" if width == size else f".astype('{wide}')"
            target = frame.view(name, wide)
            lines.append(
                Statement(
                    f"{target}[act] = memory_{dtype}[{some}]{cast}",
                    f"{target}[:] = memory_{dtype}[{index}]{cast}",
                )
            )
    return lines


def _atomic(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    kind, ops = each.type, list(each.operands)
    if each.head == "red":
        ops.insert(0, "_")
    what = next((part for part in parts if part in ("add", "min", "max", "exch", "cas")), None)
    if what is None:
        raise UnknownCode(each.name)
    base, offset = re.fullmatch(r"\[([^+\]]+?)(?:\+(-?\d+))?\]", ops[1]).groups()
    result = "None" if ops[0] == "_" else frame.view(ops[0], DTYPES[kind])
    values = ", ".join(frame.operand(operand, kind) for operand in ops[2:])
    address = f"{frame.operand(base, 'u64')} + np.uint64({int(offset or 0)})"
    line = f"atomic('{what}', {result}, {address}, memory_{DTYPES[kind]}, np.nonzero(m)[0], {values})"
    return [Statement(line, line)]


def _meet(frame: Frame, each: Instruction, parts: list[str]) -> list[Statement]:
    """What lanes do together, apart from waiting for one another."""
    ops = each.operands
    if each.name.startswith("bar"):
        return []
    result, _, found = ops[0].partition("|")
    read = [frame.operand(operand, "b32") for operand in ops[1:]]
    target = frame.view(result, "u4")
    flag = frame.view(found, "?") if found else "None"
    if each.head == "shfl":
        line = f"shuffle('{parts[2]}', {target}, {flag}, {', '.join(read[:3])}, m)"
    else:
        line = f"reduce('{parts[2]}', {target}, {', '.join(read)}, m)"
    return [Statement(line, line)]


_TABLE = {
    **{"mul": _multiply, "mad": _multiply, "mov": _move, "cvta": _move, "setp": _compare, "cvt": _convert},
    **{"bfi": _field, "bfe": _field, "ld": _load_or_store, "st": _load_or_store},
    **{"atom": _atomic, "red": _atomic, "bar": _meet, "shfl": _meet, "redux": _meet},
}
