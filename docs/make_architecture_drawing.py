"""Drawings of docs/architecture.md from the imports themselves: python docs/make_architecture_drawing.py

Boxes are rooms or groups of them, arrows are imports. An arrow that others imply is left out: where a imports
b and c, and b imports c, only a to b and b to c are drawn.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from import_graph import arrows, sources  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
Graph = dict[str, set[str]]


@dataclass(frozen=True)
class Plan:
    """What a drawing shows.

    Attributes:
        title: For those who cannot see it.
        floors: Names of the floors from the top, and the boxes in the rows of each, with a line about each.
        rooms: Boxes of rooms that do not belong to the box named like the first part of their own name.
        left_out: Rooms that are not drawn.
        inside: Folder whose rooms are drawn, with a dot at its end; empty for all.
    """

    title: str
    floors: Mapping[str, Sequence[Mapping[str, str]]]
    rooms: Mapping[str, str]
    left_out: frozenset[str]
    inside: str = ""

    def box_of(self, room: str) -> str | None:
        """Return the box that a room is in, None if it is not drawn."""
        name = room.removeprefix("newtonsim.")
        if name in self.left_out or not name.startswith(self.inside):
            return None
        box = self.rooms.get(name, name.removeprefix(self.inside).split(".")[0])
        if box not in self.boxes():
            raise LookupError(f"room {name}: give it a place in {Path(__file__).name}")
        return box

    def rows(self) -> list[list[str]]:
        """Return the boxes of each row, from the top."""
        return [list(row) for rows in self.floors.values() for row in rows]

    def boxes(self) -> dict[str, str]:
        """Return the line about each box."""
        return {box: line for rows in self.floors.values() for row in rows for box, line in row.items()}


HOUSE = Plan(
    title="The rooms of newtonsim, and which imports which",
    floors={
        "what people start": (
            {"cli": "run, view, train, info, ...", "examples": "programs and scenes"},
            {"learn": "policies by PPO, SAC, SHAC"},
            {"adapters": "rsl-rl, stable-baselines3, skrl"},
            {"envs": "tasks behind gymnasium", "bullet_world": "objects, reasoning"},
            {"pybullet_compat": "PyBullet's functions", "fidelity": "files beside their oracle"},
        ),
        "around a simulation": (
            {
                "optimize": "controls: MPPI, iLQR, ...",
                "actuators": "motors, delays, networks",
                "studies": "sweeps of parameters",
                "inspection": "inspect, warmup",
                "render": "viewer, cameras, recordings",
            },
        ),
        "a simulation": (
            {
                "diff": "rollouts, gradients",
                "solvers": "the steps, stage by stage",
                "simulator": "loop, graphs, threads",
                "importers": "URDF, MJCF, SDF, USD",
            },
        ),
        "a model": (
            {
                "solver_protocol": "the solvers' contract",
                "kinematics": "eval_fk, dynamics, fields",
                "queries": "rays, closest points",
                "builder": "ModelBuilder",
            },
            {"collision": "plan, contacts"},
            {"geometry": "meshes, hulls, inertia"},
            {"runtime": "launches, capture, shards"},
            {"scene": "Model, State, Control"},
        ),
        "device code": ({"kernels": "all physics"},),
    },
    rooms={
        "__main__": "cli",
        "examples.scenes": "examples",
        "utils": "render",
        "kernel_warmup": "inspection",
        "checkpoints": "scene",
        "checking": "collision",
        "dynamics": "kinematics",
        "fields": "kinematics",
        "testing": "kinematics",
    },
    left_out=frozenset({"arguments", "errors", "_version", "regular_files", "examples.assets"}),
)

KERNELS = Plan(
    title="The rooms of kernels, and which imports which",
    floors={
        "particles": (
            {"penalty": "SemiImplicitSolver"},
            {"particles": "cloth, soft bodies, grains"},
        ),
        "worlds of bodies": (
            {
                "maximal": "bodies of XPBD and VBD",
                "actuators": "delays, motors, networks",
                "envs": "tasks, sensors",
                "camera": "pictures by rays",
            },
            {"tendons": "lengths, forces, rows"},
            {
                "constraints": "rows and their solve",
                "queries": "rays, closest points",
                "mujoco": "states to and fro",
                "optimize": "controls, costs",
            },
        ),
        "stages": (
            {
                "steps": "integrate, reset, replay",
                "trees": "kinematics, RNEA, CRBA",
                "collision": "broad and narrow phase",
            },
        ),
        "ground": (
            {"algebra": "spatial, sparse, dense"},
            {"views": "structs of a model's arrays"},
        ),
    },
    rooms={},
    left_out=frozenset(),
    inside="kernels.",
)

WIDTH, BOX, HEIGHT, LANE, GAP, ROW = 1080, 174, 42, 8, 14, 70
"""Of the picture, of boxes, of the lanes of arrows between boxes, between those, and between rows [px]."""

MARGIN = 150
"""Left of the rows, for the names of floors [px]."""


def imports(plan: Plan) -> Graph:
    """Return which box imports which."""
    graph: Graph = {box: set() for box in plan.boxes()}
    for ends in arrows(sources()):
        source, target = map(plan.box_of, ends)
        if source is not None and target is not None and source != target:
            graph[source].add(target)
    return graph


def without_implied(graph: Graph) -> Graph:
    """Return a graph without circles without the arrows that others imply."""

    def below(box: str) -> set[str]:
        return graph[box].union(*map(below, graph[box]))

    implied = {box: set().union(*map(below, targets)) for box, targets in graph.items()}
    return {box: targets - implied[box] for box, targets in graph.items()}


class Layout:
    """Places of boxes, and of the lanes in which arrows pass the rows between their ends.

    Attributes:
        rows: What is in each row from the left: a box, or (source, target) of an arrow that passes.
        x: Middle of each of them and its row.
    """

    def __init__(self, plan: Plan, graph: Graph):
        self.rows: list[list[str | tuple[str, str]]] = [list(row) for row in plan.rows()]
        level = {box: i for i, row in enumerate(self.rows) for box in row}
        self.paths: dict[tuple[str, str], list[tuple[object, int]]] = {}
        for source, target in ((s, t) for s in plan.boxes() for t in sorted(graph[s])):
            if level[target] <= level[source]:
                raise ValueError(f"{source} imports {target}, which is not drawn below it")
            between = range(level[source] + 1, level[target])
            for i in between:
                self.rows[i].append((source, target))
            path = [(source, level[source]), *(((source, target), i) for i in between)]
            self.paths[source, target] = [*path, (target, level[target])]
        self.near: dict[tuple[object, int], list[tuple[object, int]]] = {}
        for path in self.paths.values():
            for a, b in itertools.pairwise(path):
                self.near.setdefault(a, []).append(b)
                self.near.setdefault(b, []).append(a)
        self.x = {(n, i): WIDTH / 2 for i, row in enumerate(self.rows) for n in row}
        self._settle()

    def _settle(self) -> None:
        """Sort the rows, and move what is in them towards what it is joined to."""
        for sweep in range(40):
            order = range(len(self.rows)) if sweep % 2 else range(len(self.rows) - 1, -1, -1)
            for i in order:
                aims = {n: self._aim(n, i) for n in self.rows[i]}
                if sweep < 24:
                    self.rows[i].sort(key=lambda n: aims[n])
                self._place(i, [aims[n] for n in self.rows[i]])

    def _aim(self, node: object, row: int) -> float:
        near = self.near.get((node, row), [])
        return sum(self.x[n] for n in near) / len(near) if near else self.x[node, row]

    def _place(self, row: int, aims: Sequence[float]) -> None:
        """Put what is in a row where it aims at, as far as there is room."""
        nodes = self.rows[row]
        half = [BOX / 2 if isinstance(n, str) else LANE / 2 for n in nodes]
        least = [a + b + GAP for a, b in itertools.pairwise(half)]
        x = list(aims)
        for _ in range(60):
            for k, distance in enumerate(least):
                push = (distance - (x[k + 1] - x[k])) / 2
                if push > 0:
                    x[k], x[k + 1] = x[k] - push, x[k + 1] + push
        x[0] = max(x[0], MARGIN + half[0])
        for k, distance in enumerate(least):
            x[k + 1] = max(x[k + 1], x[k] + distance)
        x[-1] = min(x[-1], WIDTH - 10 - half[-1])
        for k in range(len(least) - 1, -1, -1):
            x[k] = min(x[k], x[k + 1] - least[k])
        self.x.update({(n, row): place for n, place in zip(nodes, x)})


def svg(plan: Plan) -> str:
    """Return a drawing as text."""
    layout = Layout(plan, without_implied(imports(plan)))
    height = ROW * len(layout.rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif">',
        f"<title>{escape(plan.title)}</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#5a6b7c"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *_floors(plan),
        *(_arrow([(layout.x[n], n[1]) for n in path]) for path in layout.paths.values()),
        *_boxes(plan, layout),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _top(row: int) -> int:
    return 6 + ROW * row + (ROW - HEIGHT) // 2


def _floors(plan: Plan) -> Iterable[str]:
    first = 0
    for number, (name, rows) in enumerate(plan.floors.items()):
        y, height = 6 + ROW * first, ROW * len(rows)
        yield f'<rect x="6" y="{y}" width="{WIDTH - 12}" height="{height}" fill="{_SHADES[number % 2]}"/>'
        yield f'<text x="18" y="{y + height // 2 + 5}" font-size="14" fill="#44515e">{escape(name)}</text>'
        first += len(rows)


_SHADES = ("#f3f6f9", "#e6ecf2")


def _arrow(places: Sequence[tuple[float, int]]) -> str:
    """Return a line from the lower edge of the first place to the upper edge of the last."""
    x, y = places[0][0], _top(places[0][1]) + HEIGHT
    path = f"M{x:.0f},{y}"
    for k, (next_x, row) in enumerate(places[1:], 1):
        next_y = _top(row)
        middle = (y + next_y) / 2
        path += f" C{x:.0f},{middle:.0f} {next_x:.0f},{middle:.0f} {next_x:.0f},{next_y}"
        x, y = next_x, next_y
        if k < len(places) - 1:
            y += HEIGHT
            path += f" V{y}"
    return f'<path d="{path}" fill="none" stroke="#5a6b7c" stroke-width="1.4" marker-end="url(#head)"/>'


def _boxes(plan: Plan, layout: Layout) -> Iterable[str]:
    for row, nodes in enumerate(plan.rows()):
        for box in nodes:
            x, y = layout.x[box, row], _top(row)
            yield (
                f'<rect x="{x - BOX / 2:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6" '
                'fill="#ffffff" stroke="#2f6690" stroke-width="1.5"/>'
            )
            for dy, size, weight, text in ((17, 14, "bold", box), (33, 11.5, "normal", plan.boxes()[box])):
                yield (
                    f'<text x="{x:.0f}" y="{y + dy}" font-size="{size}" font-weight="{weight}" '
                    f'text-anchor="middle" fill="#16232e">{escape(text)}</text>'
                )


DRAWINGS = {"architecture_rooms.svg": HOUSE, "architecture_kernels.svg": KERNELS}


def main() -> None:
    """Write both drawings."""
    for name, plan in DRAWINGS.items():
        (FOLDER / name).write_text(svg(plan))


if __name__ == "__main__":
    main()
