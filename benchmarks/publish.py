"""Write the tables of results/README.md from the JSON files next to it.

    python benchmarks/publish.py [--run] [--only robots ...]

The table `gpu` is made of the files that `gpu_run.py` has left in results/gpu. With --run all other
benchmarks run first, in their full form: about an hour on a machine that is otherwise idle. The prose of the
page stays; what stands between a `figures` and an `end` comment is replaced, with --only in the named tables
alone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SCRIPTS = {
    "robots": [],
    "python_calls": [],
    "pybullet_compat": [],
    "contacts": [],
    "deformables": [],
    "gradients": [],
    "gradient_cost": [],
    "scaling": ["--plots", str(RESULTS)],
    "bullet_world": [],
    "cameras": [],
    "building": [],
    "startup": [],
    "profile_ant": ["ant"],
    "profile_humanoid": ["humanoid"],
}
"""Files in results/, and the arguments of the scripts that write them."""

UNMEASURED = "No card has been measured by `gpu_run.py` yet.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="run the benchmarks first")
    parser.add_argument("--only", nargs="+", choices=[*SCRIPTS, "gpu"], default=[*SCRIPTS, "gpu"])
    options = parser.parse_args()
    if options.run:
        for name in (name for name in SCRIPTS if name in options.only):
            script = "profile_step" if name.startswith("profile") else name
            command = [sys.executable, str(HERE / f"{script}.py"), *SCRIPTS[name]]
            subprocess.run([*command, "--json", str(RESULTS / f"{name}.json")], check=True)
    page = RESULTS / "README.md"
    text = page.read_text(encoding="utf-8")
    for name in options.only:
        path = RESULTS / f"{name}.json"
        if path.exists():
            text = replace(text, name, tables(name, json.loads(path.read_text(encoding="utf-8"))))
    if "gpu" in options.only:
        text = replace(text, "gpu", gpu_tables(RESULTS / "gpu"))
    page.write_text(text, encoding="utf-8")


def replace(text: str, name: str, figures: str) -> str:
    """Put figures between the comments with a name."""
    pattern = rf"(<!-- figures {name} -->\n).*?(<!-- end -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"results/README.md has no place for the figures of {name}")
    return re.sub(pattern, lambda match: match[1] + figures + match[2], text, flags=re.DOTALL)


def gpu_tables(folder: Path) -> str:
    """Return the tables of all parts of `gpu_run.py` that have ended, or that there are none."""
    parts = []
    for path in sorted(folder.glob("*.json")):
        if path.stem != "parts":
            found = tables(path.stem, json.loads(path.read_text(encoding="utf-8")))
            parts.append(f"### {path.stem.replace('_', ' ')}\n\n{found}")
    return "\n".join(parts) or UNMEASURED


def tables(name: str, document: dict) -> str:
    """Return Markdown tables of one file, each list of figures a table, and where they were measured."""
    results, machine = document["results"], document["machine"]
    if name.startswith("profile"):
        rows = [{"kernel": kernel} | cost for kernel, cost in list(results["kernels"].items())[:10]]
        lists = {"kernels": rows}
    elif isinstance(results, list):
        # the points of a curve are no table
        lists = {"": [{key: value for key, value in row.items() if key != "curve"} for row in results]}
        results = {}
    else:
        lists = {key: value for key, value in results.items() if key != "notes" and value}
    parts = [f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['device']}\n"]
    parts += [markdown(rows) for rows in lists.values()]
    notes = results.get("notes", [])
    if notes:
        parts.append("\n".join(f"- {note}" for note in dict.fromkeys(notes)) + "\n")
    return "\n".join(parts)


def markdown(rows: list[dict[str, object]]) -> str:
    """Return a Markdown table with a line for each row."""
    header = list(rows[0])
    lines = ["| " + " | ".join(key.replace("_", " ") for key in header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(row[key]) for key in header) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(value: object) -> str:
    """Return a number with three digits, or a text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
