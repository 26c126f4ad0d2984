"""Figures in the sentences of the README and of the docs, each drawn from a file in results/.

A page says `<!-- figure NAME -->` before a figure and `<!-- end -->` behind it; `publish.py` writes what is
between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def cost_of_gradients(results: Path) -> str:
    """Return how long values and gradients of `FeatherstoneSolver` take over values alone."""
    single = _read(results / "gradients.json")["gradients"]
    costs = [row["cost"] for row in single if row["engine"] == "newtonsim Featherstone"]
    costs += [1.0 + row["ratio"] for row in _read(results / "gradient_cost.json")["figures"]]
    return f"{min(costs):.1f} to {max(costs):.1f}"


def cost_of_networks(results: Path) -> str:
    """Return by how much actuators that are networks slow a step of an environment."""
    times = {row["actuators"]: row["step_microseconds"] for row in _read(results / "actuators.json")}
    shares = [
        time / times["none"] - 1.0 for name, time in times.items() if name.startswith(("network", "LSTM"))
    ]
    return f"{100.0 * min(shares):.0f} to {100.0 * max(shares):.0f} %"


def time_of_ilqr(results: Path, robot: str) -> str:
    """Return how long iLQR takes here and with MuJoCo's linear models."""
    (row,) = (r for r in _read(results / "linear_models.json")["ilqr"] if r["robot"] == robot)
    return f"{row['ours_milliseconds']:.1f} ms here and {row['mujoco_milliseconds']:.1f} ms there"


FIGURES: dict[str, Callable[[Path], str]] = {
    "cost of gradients": cost_of_gradients,
    "networks": cost_of_networks,
    "iLQR ant": partial(time_of_ilqr, robot="ant"),
    "iLQR arm7": partial(time_of_ilqr, robot="arm7"),
}
"""What gives a figure, by its name on the pages."""


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["results"]
