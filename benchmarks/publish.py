"""Write the tables of results/README.md, the README and some pages of the docs from the files in results/.

    python benchmarks/publish.py [--run] [--only robots ...]

The table `gpu` is made of the files that `gpu_run.py` has left in results/gpu. With --run all other
benchmarks run first, in their full form: about two hours on a machine that is otherwise idle. A run that was
interrupted goes on where it stopped: files that were measured at the current commit are kept. The prose of
the pages stays; what stands between a `figures` and an `end` comment is replaced, with --only in the named
tables alone, and so is a figure in a sentence, between a `figure` and an `end` comment. A table without a
file says that its benchmark has not been run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tasks import contact_motion_table, front_page, sentences
from tasks.harness import commit

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SCRIPTS = {
    "robots": ["--self-collision"],
    "python_calls": [],
    "pybullet_compat": [],
    "pybullet_programs": ["--programs", "1000"],
    "contacts": [],
    "contact_motion": ["--scenes", *contact_motion_table.SCENES],
    "deformables": [],
    "gradients": [],
    "gradient_cost": [],
    "gradient_settings": ["--settings"],
    "dynamics": [],
    "linear_models": ["--ilqr", "--cpu-time"],
    "scaling": ["--plots", str(RESULTS)],
    "bullet_world": [],
    "cameras": [],
    "building": [],
    "startup": [],
    "envs": ["--cpu-time", "--names", *("CartPole", "Reacher", "Hopper", "HalfCheetah", "Ant", "Humanoid")],
    "actuators": ["--actuators", "--worlds", "1024"],
    "vision": ["--cpu-time", "--alone", "--worlds", "64", "--names", "CartPoleVision", "ReacherVision"],
    "transfer": ["--transfer"],
    "profile_ant": ["ant"],
    "profile_humanoid": ["humanoid"],
}
"""Files in results/, and the arguments of the scripts that write them."""

SCRIPT_OF = {
    **{"actuators": "envs", "vision": "envs", "transfer": "learning"},
    **{"pybullet_programs": "pybullet_compat", "gradient_settings": "gradients"},
    **{"profile_ant": "profile_step", "profile_humanoid": "profile_step"},
}
"""Scripts that write a file of another name."""

GPU = ("gpu_targets", "gpu_kernels", "gpu_shortfalls", "gpu_cycles", "gpu_blocks")
"""Files that were entered by hand from what was measured on a card."""

KEPT = ("learning", "learning_gpu", *GPU, "pybullet_packages")
"""Files that --run leaves as they are: they took hours, a GPU, or packages that no extra installs."""

ON_RESULTS_PAGE = [*SCRIPTS, *GPU, "gpu"]
"""Tables of results/README.md."""

DRAWN = {
    "docs/pybullet.md": ["pybullet_compat", "pybullet_programs", "pybullet_packages"],
    "docs/bullet_world.md": ["bullet_world"],
    "docs/contact.md": ["contact_motion", "contacts"],
    "docs/actuators.md": ["actuators"],
    "docs/dynamics.md": ["dynamics"],
    "docs/envs.md": ["envs", "vision"],
    "docs/learning.md": ["transfer", "learning", "learning_gpu"],
    "docs/gradients.md": ["gradient_settings", "linear_models"],
}
"""Pages of the docs, and the files that their tables are drawn from."""

UNMEASURED = "No card has been measured by `gpu_run.py` yet.\n"
NOT_RUN = "Not run.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="run the benchmarks first")
    parser.add_argument(
        "--only", nargs="+", choices=[*SCRIPTS, *KEPT, "gpu"], default=[*SCRIPTS, *KEPT, "gpu"]
    )
    options = parser.parse_args()
    if options.run:
        for name in (name for name in SCRIPTS if name in options.only):
            run(name)
    pages = {
        "benchmarks/results/README.md": lambda text: results_page(
            text, [name for name in options.only if name in ON_RESULTS_PAGE]
        ),
        "README.md": front,
    }
    for page, names in DRAWN.items():
        pages[page] = partial(results_page, names=[name for name in names if name in options.only])
    for page, update in pages.items():
        path = HERE.parent / page
        path.write_text(update(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in pages_with_prose():
        path.write_text(prose(path.read_text(encoding="utf-8")), encoding="utf-8")


def run(name: str) -> None:
    """Run a benchmark in its full form, unless its file was measured at this commit."""
    path = RESULTS / f"{name}.json"
    if path.exists() and commit() and _read(path)["machine"].get("commit") == commit():
        print(f"{name}: measured at this commit, kept")
        return
    command = [sys.executable, str(HERE / f"{SCRIPT_OF.get(name, name)}.py"), *SCRIPTS[name]]
    subprocess.run([*command, "--json", str(path)], check=True)


def results_page(text: str, names: Sequence[str] = tuple(ON_RESULTS_PAGE)) -> str:
    """Return a page, such as results/README.md, with the named tables drawn from their files."""
    for name in names:
        path = RESULTS / f"{name}.json"
        if name == "gpu":
            text = replace(text, name, gpu_tables(RESULTS / "gpu"))
        else:
            text = replace(text, name, tables(name, _read(path)) if path.exists() else NOT_RUN)
    return text


def front(text: str) -> str:
    """Return the README of the repository with its tables drawn from the files of results/."""
    text = replace(text, "speed", "\n" + markdown(front_page.speed(RESULTS), str))
    return replace(text, "accuracy", "\n" + markdown(front_page.accuracy(RESULTS), str))


def pages_with_prose() -> list[Path]:
    """Return the pages whose sentences may contain figures."""
    root = HERE.parent
    return [root / "README.md", root / "CHANGELOG.md", *sorted(root.glob("docs/*.md"))]


def prose(text: str) -> str:
    """Return a page with the figures in its sentences drawn from the files of results/."""

    def draw(place: re.Match[str]) -> str:
        return place[1] + sentences.FIGURES[place[2]](RESULTS) + place[3]

    return re.sub(r"(<!-- figure (.+?) -->).*?(<!-- end -->)", draw, text, flags=re.DOTALL)


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def replace(text: str, name: str, figures: str) -> str:
    """Put figures between the comments with a name."""
    pattern = rf"(<!-- figures {name} -->\n).*?(<!-- end -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"the page has no place for the figures of {name}")
    return re.sub(pattern, lambda match: match[1] + figures + match[2], text, flags=re.DOTALL)


def gpu_tables(folder: Path) -> str:
    """Return the tables of all parts of `gpu_run.py` that have ended, or that there are none."""
    parts = []
    for path in sorted(folder.glob("*.json")):
        if path.stem != "parts":
            found = tables(path.stem, _read(path))
            parts.append(f"### {path.stem.replace('_', ' ')}\n\n{found}")
    return "\n".join(parts) or UNMEASURED


def tables(name: str, document: dict) -> str:
    """Return Markdown tables of one file, each list of figures a table, and where they were measured."""
    results, machine = document["results"], document["machine"]
    if name.startswith("profile"):
        rows = [{"kernel": kernel} | cost for kernel, cost in list(results["kernels"].items())[:10]]
        lists = {"kernels": rows}
    elif name == "contact_motion":
        lists, results = {"scenes": contact_motion_table.rows(results["figures"])}, {}
    elif isinstance(results, list):
        lists, results = {"": results}, {}
    else:
        lists = {key: value for key, value in results.items() if key != "notes" and value}
    parts = [measured(machine)]
    # the points of a curve are no table
    parts += [
        markdown([{key: value for key, value in row.items() if key != "curve"} for row in rows])
        for rows in lists.values()
    ]
    notes = results.get("notes", [])
    if notes:
        parts.append("\n".join(f"- {note}" for note in dict.fromkeys(notes)) + "\n")
    return "\n".join(parts)


def measured(machine: dict) -> str:
    """Return a line that says when, where and with what figures were measured."""
    parts = [machine["date"], machine["cpu"], f"{machine['cores']} cores", machine["device"]]
    parts += [f"{name} {version}" for name, version in machine.get("versions", {}).items() if version]
    if machine.get("commit"):
        parts.append(f"commit {machine['commit']}")
    return ", ".join(parts) + "\n"


def spaced(key: str) -> str:
    return key.replace("_", " ")


def markdown(rows: list[dict[str, object]], spell: Callable[[str], str] = spaced) -> str:
    """Return a Markdown table with a line for each row, under keys as they are spelt."""
    header = list(rows[0])
    lines = ["| " + " | ".join(map(spell, header)) + " |", "|" + "---|" * len(header)]
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
