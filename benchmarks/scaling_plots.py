"""Plots of the scaling tables."""

from __future__ import annotations

from pathlib import Path


def plot(results: dict[str, list[dict[str, object]]], folder: Path) -> None:
    """Write worlds.png and bodies.png, as far as there are figures for them."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "worlds": (("robot", "worlds", "steps_per_second"), "environment steps per second"),
        "bodies": (("scene", "bodies", "microseconds"), "time of a step [µs]"),
    }
    for name, (keys, label) in tables.items():
        if name in results:
            _plot(results[name], keys, label, folder / f"{name}.png")


def _plot(figures: list[dict[str, object]], keys: tuple[str, str, str], label: str, path: Path) -> None:
    """Draw one panel for each robot or scene, one line for each engine."""
    from matplotlib.figure import Figure

    panel, x, y = keys
    names = list(dict.fromkeys(figure[panel] for figure in figures))
    picture = Figure(figsize=(4.2 * len(names), 3.6), layout="constrained")
    axes = picture.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for figure in figures:
            if figure[panel] == name:
                lines.setdefault(_label(figure), []).append((figure[x], figure[y]))
        for engine, points in lines.items():
            axis.loglog(*zip(*sorted(points)), marker="o", markersize=3, label=engine)
        axis.set(title=name, xlabel=x)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(label)
    axes[0].legend(fontsize="small")
    picture.savefig(path, dpi=110)


def _label(figure: dict[str, object]) -> str:
    threads = figure.get("threads")
    return str(figure["engine"]) + (f", {threads} thread{'s' * (threads > 1)}" if threads else "")
