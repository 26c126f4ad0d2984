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

from tasks import front_page


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


def lead_of_mujoco_warp(results: Path) -> str:
    """Return how many times as many steps as newtonsim mujoco_warp makes on a GPU, from least to most."""
    rows = [row for row in front_page.speed(results) if str(row["steps per second"]).endswith("H100")]
    pairs = [[float(str(row[e]).replace(",", "")) for e in ("mujoco_warp", "newtonsim")] for row in rows]
    ratios = [theirs / ours for theirs, ours in pairs]
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def share_of_return(results: Path, policy: str, engine: str) -> str:
    """Return which share of its return here a policy that ships achieves in another engine."""
    rows = _read(results / "transfer.json")["transfer"]
    (row,) = (r for r in rows if r["policy"] == f"`policies/{policy}.onnx`" and r["engine"] == engine)
    return row["share"]


def random_programs(results: Path) -> str:
    """Return how many random programs of PyBullet's calls differ from PyBullet in a number."""
    (row,) = _read(results / "pybullet_programs.json")["programs"]
    return f"{row['programs']} random programs, {row['differ_in_a_number']} differ in a number"


def slopes_of_a_bounce(results: Path) -> str:
    """Return the slope of a bounce through MuJoCo's soft contact, and through our rigid one."""
    slopes = {
        row["engine"]: float(row["note"].split()[1].rstrip(","))
        for row in _read(results / "gradients.json")["gradients"]
        if row["task"] == "sphere bounce" and row["note"].startswith("slope")
    }
    return f"{slopes['MuJoCo differences']:.2f} instead of {slopes['newtonsim Featherstone']:.2f}"


def robots_at_rest(results: Path) -> str:
    """Return how many robot files of other packages are simulated, and stay calm."""
    files = json.loads((results / "robot_calm.json").read_text(encoding="utf-8"))
    opened = [file for file in files if not file["error"]]
    calm = sum(file["rest"] < 1.0e-3 for file in opened)
    quiet = sum(file["gain"] < 1.0e-3 for file in opened)
    return (
        f"Of {len(files)} files {len(opened)} can be read and contain something that moves. None of these "
        f"becomes non-finite; {calm} stay below 1 mJ/kg at rest, and {quiet} gain less than that in the drop"
    )


def growth_of_memory(results: Path) -> str:
    """Return by how much memory grows in an hour of rounds."""
    document = json.loads((results / "soak.json").read_text(encoding="utf-8"))
    name, start, end, slope, error = document["growth"][0]
    rounds = len(document["samples"][name])
    return (
        f"In {document['minutes']:.0f} minutes, {rounds} rounds on a busy machine, memory grew from "
        f"{start:.1f} to {end:.1f} MB after warming up: by {slope:.2f} MB an hour, with a standard error of "
        f"{error:.2f} MB"
    )


def time_of_first_steps(results: Path, cache: str) -> str:
    """Return how long programs take to their first step or gradient, from the shortest to the longest."""
    starts = _read(results / "startup.json")["starts"]
    times = [
        row["wall_seconds"]
        for row in starts
        if row["engine"] == "newtonsim" and row["cache"] == cache and row["task"] != "import"
    ]
    digits = 0 if cache == "cold" else 1
    return f"{min(times):.{digits}f} to {max(times):.{digits}f} s"


FIGURES: dict[str, Callable[[Path], str]] = {
    "cost of gradients": cost_of_gradients,
    "networks": cost_of_networks,
    "share of velocity in MuJoCo": partial(share_of_return, policy="velocity", engine="MuJoCo"),
    "share of velocity in stiff MuJoCo": partial(
        share_of_return, policy="velocity", engine="MuJoCo, contacts of 0.005 s"
    ),
    "share of velocity_biped in MuJoCo": partial(share_of_return, policy="velocity_biped", engine="MuJoCo"),
    "share of velocity_biped in stiff MuJoCo": partial(
        share_of_return, policy="velocity_biped", engine="MuJoCo, contacts of 0.005 s"
    ),
    "share of lift in MuJoCo": partial(share_of_return, policy="lift", engine="MuJoCo"),
    "share of lift in stiff MuJoCo": partial(
        share_of_return, policy="lift", engine="MuJoCo, contacts of 0.005 s"
    ),
    "random programs": random_programs,
    "slopes of a bounce": slopes_of_a_bounce,
    "robots at rest": robots_at_rest,
    "growth of memory": growth_of_memory,
    "first runs": partial(time_of_first_steps, cache="cold"),
    "later runs": partial(time_of_first_steps, cache="warm"),
    "lead of mujoco_warp": lead_of_mujoco_warp,
    "iLQR ant": partial(time_of_ilqr, robot="ant"),
    "iLQR arm7": partial(time_of_ilqr, robot="arm7"),
}
"""What gives a figure, by its name on the pages."""


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["results"]
