"""Questions about worlds of objects: many candidates at once against one by one.

    python benchmarks/bullet_world.py [--scenes table kitchen] [--questions stable] [--short] [--json OUT]

Scenes: a cup and a table; a robot arm beside them; a kitchen with ten drawers, an arm and five blocks. Each
of the questions of `newtonsim.bullet_world.reasoning` that take many candidates is asked about the same ones
in both ways. One by one is measured on a sample of the candidates and extrapolated to all. `first call`
includes what only the first call does, such as loading kernels; other times are medians over rounds in which
both ways take turns. `ratio` is by the clock. `ratio of processor time` counts the seconds of all threads
together: others that load the machine disturb it less, and with two threads at work the ratio by the clock is
up to twice as much on a machine that does nothing else.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tasks.harness import arguments, table, write_json

from newtonsim.bullet_world import BulletWorld, Object, reasoning

TOP = 0.625
"""Height of tables [m]."""
STANDING = TOP + 0.001
"""Height of a cup on one [m]."""
HAND = "lbr_iiwa_link_6"
QUESTIONS = ("stable", "contact", "visible", "reachable")
HEADER = (
    *("scene", "question", "candidates", "one by one [s]", "first call [s]", "at once [s]"),
    *("ratio", "ratio of processor time"),
)


@dataclass
class Scene:
    """A world and what is asked about.

    Attributes:
        world: The world.
        cup: The object that has candidates for its place.
        below: What it stands on.
        arm: A robot, or None.
    """

    world: BulletWorld
    cup: Object
    below: Object
    arm: Object | None = None


def table_scene(folder: pathlib.Path, arm: bool = False) -> Scene:
    """A cup on a table."""
    world = BulletWorld("DIRECT")
    below = Object("table", "environment", "table/table.urdf", world=world, fixed_base=True)
    robot = None
    if arm:
        place = [-0.5, 0.0, TOP]
        robot = Object("arm", "robot", "kuka_iiwa/model.urdf", place, world=world, fixed_base=True)
    return Scene(world, add_cup(world), below, robot)


def arm_scene(folder: pathlib.Path) -> Scene:
    """A cup on a table with a robot arm."""
    return table_scene(folder, arm=True)


def kitchen_scene(folder: pathlib.Path) -> Scene:
    """A counter with ten drawers of five boards each, and on it an arm, five blocks and a cup."""
    path = folder / "kitchen.urdf"
    path.write_text(kitchen_urdf())
    world = BulletWorld("DIRECT")
    below = Object("kitchen", "environment", path, world=world, fixed_base=True)
    place = [-0.8, -0.1, TOP]
    robot = Object("arm", "robot", "kuka_iiwa/model.urdf", place, world=world, fixed_base=True)
    for k in range(5):
        place = [0.3 + 0.2 * k, -0.1, TOP + 0.025]
        Object(f"block {k}", "item", "cube_small.urdf", place, world=world)
    return Scene(world, add_cup(world), below, robot)


SCENES = {"table": table_scene, "arm": arm_scene, "kitchen": kitchen_scene}


def add_cup(world: BulletWorld) -> Object:
    return Object("cup", "cup", "objects/mug.urdf", [0.2, 0.1, STANDING], world=world)


def kitchen_urdf() -> str:
    """Text of a counter of 3.2 m with drawers that slide out along y."""
    worktop = [((0.0, 0.0, TOP - 0.02), (3.2, 0.64, 0.04)), ((0.0, -0.31, 0.3), (3.2, 0.02, 0.6))]
    drawer = [
        ((0.0, 0.0, -0.06), (0.26, 0.5, 0.01)),
        *(((0.0, y, 0.0), (0.26, 0.02, 0.12)) for y in (-0.25, 0.25)),
        *(((x, 0.0, 0.0), (0.01, 0.5, 0.12)) for x in (-0.125, 0.125)),
    ]
    text = [boards("counter", 100.0, worktop)]
    for k in range(10):
        text.append(boards(f"drawer_{k}", 2.0, drawer))
        text.append(
            f'<joint name="slide_{k}" type="prismatic"><parent link="counter"/><child link="drawer_{k}"/>'
            f'<origin xyz="{0.3 * k - 1.35} 0 0.5"/><axis xyz="0 1 0"/>'
            '<limit lower="0" upper="0.4" effort="100" velocity="1"/></joint>'
        )
    return f'<robot name="kitchen">{"".join(text)}</robot>'


def boards(name: str, mass: float, boxes: list[tuple]) -> str:
    """Text of a link of boxes, (centre, size) each."""
    text = [f'<link name="{name}"><inertial><mass value="{mass}"/>']
    text.append('<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>')
    for centre, size in boxes:
        xyz, edges = (" ".join(map(str, values)) for values in (centre, size))
        shape = f'<origin xyz="{xyz}"/><geometry><box size="{edges}"/></geometry>'
        text += [f"<{kind}>{shape}</{kind}>" for kind in ("visual", "collision")]
    return "".join(text) + "</link>"


Ways = tuple[Callable[[], np.ndarray], Callable[[int], bool]]


def ask(scene: Scene, question: str, count: int) -> Ways | None:
    """Return functions that ask about all candidates at once, and about one; None without a robot for it."""
    rng = np.random.default_rng(3)
    cup, arm = scene.cup, scene.arm
    if question == "reachable":
        if arm is None:
            return None
        targets = np.add(arm.get_position(), [0.0, 0.0, 0.36]) + rng.uniform(-1.0, 1.0, (count, 3))
        return (
            lambda: reasoning.reachable(arm, targets, HAND),
            lambda k: reasoning.reachable(arm, targets[k], HAND),
        )
    if question == "visible":
        cameras = around(rng, np.array(cup.get_position()), count)
        return (
            lambda: reasoning.visible(cup, cameras),
            lambda k: reasoning.visible(cup, (cameras[k, :3], cameras[k, 3:])),
        )
    places = rng.uniform([-1.0, -0.4], [1.0, 0.4], (count, 2))
    poses = np.c_[places, np.full(count, STANDING), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))]
    options = (scene.below,) if question == "contact" else ()
    answer = getattr(reasoning, question)

    def one(k: int) -> bool:
        cup.set_position_and_orientation(poses[k, :3], poses[k, 3:])
        return answer(cup, *options)

    return lambda: answer(cup, *options, poses), one


def around(rng: np.random.Generator, target: np.ndarray, count: int) -> np.ndarray:
    """Poses (count, 7) of cameras near a target that look at it, level."""
    places = target + rng.uniform([-1.0, -1.0, 0.05], [1.0, 1.0, 0.6], (count, 3))
    half = 0.5 * np.arctan2(*(target - places)[:, 1::-1].T)
    zero = np.zeros(count)
    return np.c_[places, zero, zero, np.sin(half), np.cos(half)]


def measure(ways: Ways, count: int, sample: int, rounds: int) -> dict[str, float]:
    """Time both ways in turns."""
    at_once, one = ways
    first, _ = timed(at_once)
    one(0)
    once, single = [], []
    for _ in range(rounds):
        once.append(timed(at_once))
        single.append(timed(lambda: [one(k) for k in range(sample)]))
    (seconds, processor), (each, each_processor) = (
        [statistics.median(column) for column in zip(*times, strict=True)] for times in (once, single)
    )
    each, each_processor = each / sample, each_processor / sample
    return {
        "one_by_one_seconds": each * count,
        "first_call_seconds": first,
        "at_once_seconds": seconds,
        "ratio": each * count / seconds,
        "ratio_of_processor_time": each_processor * count / processor,
        "one_microseconds": 1.0e6 * each,
        "at_once_microseconds": 1.0e6 * seconds / count,
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=5)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--candidates", type=int, default=1024)
    parser.add_argument("--sample", type=int, default=16, help="candidates that are tried one by one")
    options = parser.parse_args()
    count = min(options.candidates, 64) if options.short else options.candidates
    sample = min(options.sample, count, 2 if options.short else count)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.scenes:
            scene = SCENES[name](pathlib.Path(folder))
            with scene.world:
                for question in options.questions:
                    ways = ask(scene, question, count)
                    if ways is not None:
                        found = measure(ways, count, sample, 1 if options.short else options.blocks)
                        figures.append({"scene": name, "question": question, "candidates": count} | found)
    print(table(HEADER, [tuple(figure.values())[: len(HEADER)] for figure in figures]))
    notes = [f"One by one is measured on {sample} candidates and extrapolated to {count}."]
    print(notes[0])
    write_json(options.json, {"figures": figures, "notes": notes})


if __name__ == "__main__":
    main()
