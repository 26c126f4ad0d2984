"""Figures in the sentences of the README and of the docs, each drawn from a file in results/.

A page says `<!-- figure NAME -->` before a figure and `<!-- end -->` behind it; `publish.py` writes what is
between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def backward_passes(results: Path) -> str:
    """Return by how many times backward passes of `FeatherstoneSolver` take longer than steps."""
    tasks = _read(results / "gradients.json")["gradients"]
    ratios = [row["ratio"] for row in tasks if row["engine"] == "newtonsim Featherstone"]
    ratios += [row["ratio"] for row in _read(results / "gradient_cost.json")["figures"]]
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


FIGURES: dict[str, Callable[[Path], str]] = {"backward passes": backward_passes}
"""What gives a figure, by its name on the pages."""


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))["results"]
