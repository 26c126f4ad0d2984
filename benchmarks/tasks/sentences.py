"""Figures in the sentences of the README and of the docs, each drawn from a file in results/.

A page says `<!-- figure NAME -->` before a figure and `<!-- end -->` behind it; `publish.py` writes what is
between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def cost_of_gradients(results: Path) -> str:
    """Return how long values and gradients of `FeatherstoneSolver` take over values alone."""
    single = _read(results / "gradients.json")["gradients"]
    costs = [row["cost"] for row in single if row["engine"] == "newtonsim Featherstone"]
    costs += [1.0 + row["ratio"] for row in _read(results / "gradient_cost.json")["figures"]]
    return f"{min(costs):.1f} to {max(costs):.1f}"


FIGURES: dict[str, Callable[[Path], str]] = {"cost of gradients": cost_of_gradients}
"""What gives a figure, by its name on the pages."""


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))["results"]
