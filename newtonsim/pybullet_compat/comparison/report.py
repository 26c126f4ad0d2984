"""The report of a run in lockstep, as text."""

from __future__ import annotations

import statistics

from newtonsim.pybullet_compat.comparison.lockstep import CallKind, Lockstep

_HEADS = ("call", "calls", "differ", "worst", "PyBullet [us]", "here [us]", "ratio", "first [ms]", "")


def report(run: Lockstep, name: str) -> str:
    """Return the first difference, that of each function, and a table of the calls.

    Its times are the medians of all calls but the first, and those of the first ones, in which kernels are
    loaded and scenes are built.

    Args:
        run: The run.
        name: Name of the script.
    """
    lines = [
        f"{name}: {run.calls} calls, {run.steps_made} steps, under PyBullet and newtonsim in lockstep",
        "",
    ]
    if run.first is None:
        lines.append("No call differs.")
    else:
        lines.append(f"First difference: {run.first}")
    if run.first_structural not in (None, run.first):
        lines.append(f"First difference in structure: {run.first_structural}")
    lines += _firsts(run)
    return "\n".join([*lines, "", *_table(run)])


def _firsts(run: Lockstep) -> list[str]:
    """The first difference of each function, in their order, and how many more there are."""
    found = [(kind.first, kind) for kind in run.kinds.values() if kind.first is not None]
    lines = []
    for first, kind in sorted(found, key=lambda pair: pair[0].number):
        more = kind.differing - 1
        rest = f"; and {more} more of {len(kind.seconds[0])} calls" if more else ""
        where = f"call {first.number}, after {first.step} steps, {first.where}"
        lines += [f"  {first.name}: {where}", f"    {first.difference}{rest}"]
    return ["", "First difference of each function:", *lines] if lines else []


def _table(run: Lockstep) -> list[str]:
    """Rows of all functions, those that take most of the time here first."""
    kinds = sorted(run.kinds.items(), key=lambda item: -sum(item[1].seconds[1]))
    rows = [_HEADS, *(_row(name, kind) for name, kind in kinds)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(w) for text, w in zip(row[1:], widths[1:]))]
        ).rstrip()
        for row in rows
    ]


def _row(name: str, kind: CallKind) -> tuple[str, ...]:
    """Cells of one function."""
    real, ours = (statistics.median(seconds[1:] or seconds) for seconds in kind.seconds)
    worst = ""
    if kind.worst is not None:
        difference = kind.worst.difference
        worst = "structure" if difference.structural else f"{difference.amount:.2g}"
    return (
        name,
        str(len(kind.seconds[0])),
        str(kind.differing or ""),
        worst,
        f"{real * 1e6:.1f}",
        f"{ours * 1e6:.1f}",
        f"{ours / real:.2g}",
        f"{kind.seconds[0][0] * 1e3:.1f}",
        f"{kind.seconds[1][0] * 1e3:.1f}",
    )
