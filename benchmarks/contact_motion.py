"""How contact converges in motion: residual, iterations, penetration of every step; time beside MuJoCo.

python benchmarks/contact_motion.py                                  # all scenes but the long ones
python benchmarks/contact_motion.py --scenes hit_wall heap --alone   # without MuJoCo
python benchmarks/contact_motion.py --set iterations=64 --set cone='"pyramidal"'
python benchmarks/contact_motion.py --short --json OUT               # shorter spans, all figures
python benchmarks/contact_motion.py --scenes held_1000 --repeats 1   # 1000 worlds at once
python benchmarks/contact_motion.py --scenes heap_1000 --every 2     # a line every two simulated seconds

One world at 1/240 s; scenes of many worlds show the worst of them, and the time of all. A scene is first run
once, and looked at after every step; then it is timed, as the processor's time of a step: several times from
the start, both engines in turn by blocks of a tenth of the same simulated span. MuJoCo has its default
solver, unless --mujoco-solver says otherwise: in heaps CG is much faster. Penetration is that which a step
finds when it begins.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np
import warp as wp
from engines.contacts import MujocoEngine
from tasks.contact_motion import Cars, HeldCubes, chain, heap, hit_wall, tower
from tasks.contacts import describe
from tasks.harness import DT, installed, write_json

from newtonsim import Model, ModelBuilder, Simulator
from newtonsim.examples import scenes
from newtonsim.solvers import FeatherstoneSolver

LOST, SLIPPED = 0.02, 2.0e-3
"""Ways in the hand [m] from which a held cube counts as lost, and as slipped."""

TOLERANCE = 1.0e-4
"""Residual [m/s] that every step is to reach."""

WATCHED = 12
"""Steps from one look at what a scene watches to the next."""

BLOCKS = 10
"""Blocks of steps that a timed span is cut into."""


@dataclass(frozen=True)
class Case:
    """A scene to measure.

    Attributes:
        title: What happens in it.
        build: Returns the builder.
        seconds: Simulated time [s].
        timed: Simulated time of the comparison with MuJoCo [s], 0 for none.
        short: Simulated time of both in the short form [s].
        observe: Returns figures of its own by name at the end, or None.
        script: Returns the inputs of all drives (`Control.joint_act`) at a time [s], None for those that they
            begin with.
        watch: Returns what `Run.watched` keeps, None for nothing.
    """

    title: str
    build: Callable[[], ModelBuilder]
    seconds: float
    timed: float
    short: float
    observe: Callable[[Run], dict[str, float]] | None = None
    script: Callable[[float], np.ndarray] | None = None
    watch: Callable[[Run], np.ndarray] | None = None


@dataclass
class Figures:
    """What was measured of one scene.

    Attributes:
        scene: Its name.
        title: What happens in it, and for how long.
        steps: Number of steps.
        finite: Whether all poses and velocities were numbers at the end.
        residual_max: Largest residual of a step [m/s or rad/s].
        residual_99: 99th percentile of the residual [m/s or rad/s].
        over: Share of the steps above the tolerance.
        iterations_mean: Mean number of iterations.
        iterations_99: 99th percentile.
        iterations_max: Most iterations.
        deepest: Greatest penetration of any step [m].
        deepest_end: Greatest penetration of the last step [m].
        fastest: Speed of the fastest centre of mass at the end [m/s].
        contacts: Most contacts of a step.
        microseconds: Time of a step [us], median over the repeats.
        mujoco_microseconds: That of MuJoCo, None without it.
        own: Figures of this scene alone.
    """

    scene: str
    title: str
    steps: int
    finite: bool
    residual_max: float
    residual_99: float
    over: float
    iterations_mean: float
    iterations_99: float
    iterations_max: int
    deepest: float
    deepest_end: float
    fastest: float
    contacts: int
    microseconds: float | None = None
    mujoco_microseconds: float | None = None
    own: dict[str, float] = field(default_factory=dict)


class Run:
    """A scene in newtonsim, with what was seen of each step.

    Args:
        model: The model.
        options: Keywords of the solver.
        case: The scene.

    Attributes:
        residual: Largest of all worlds, for each step [m/s or rad/s].
        iterations: Most of all worlds, for each step.
        deepest: Greatest penetration at the start of each step [m].
        contacts: Number of contacts of each step.
        watched: What the scene watches, every `WATCHED` steps.
    """

    def __init__(self, model: Model, options: Mapping[str, object], case: Case) -> None:
        self.model, self.case = model, case
        self.solver = FeatherstoneSolver(model, **options)
        self.simulator = Simulator(model, self.solver, DT)
        self.start = model.state().body_q.numpy()
        self.residual: list[float] = []
        self.iterations: list[int] = []
        self.deepest: list[float] = []
        self.contacts: list[int] = []
        self.watched: list[np.ndarray] = []
        self._made = 0

    def restart(self) -> None:
        """Go back to the start."""
        self.simulator.reset()
        self._made = 0

    def advance(self, count: int) -> None:
        """Make some steps."""
        script = self.case.script
        if script is None:
            self.simulator.step(count)
            return
        for _ in range(count):
            self.simulator.control.joint_act.assign(script(self._made * DT))
            self.simulator.step()
            self._made += 1

    def step(self, count: int) -> None:
        """Make some steps, and look at each."""
        constraints, contacts = self.solver.constraints, self.solver.contacts
        first = contacts.world_start.numpy()[:-1]
        for _ in range(count):
            self.advance(1)
            self.residual.append(float(constraints.residual.numpy().max()))
            counted = constraints.factorizations
            self.iterations.append(int(counted.numpy().max()))
            counts, distance = contacts.world_count.numpy(), contacts.rigid_contact_distance.numpy()
            gaps = [distance[s : s + n].min(initial=0.0) for s, n in zip(first, counts, strict=True)]
            self.deepest.append(-float(min(gaps)))
            self.contacts.append(int(counts.sum()))
            if self.case.watch is not None and len(self.residual) % WATCHED == 0:
                self.watched.append(self.case.watch(self))

    @property
    def poses(self) -> np.ndarray:
        """Poses of the bodies (bodies, 7) [m]."""
        return self.simulator.state.body_q.numpy()

    @property
    def velocities(self) -> np.ndarray:
        """Angular and linear velocities of the bodies (bodies, 6) [rad/s and m/s]."""
        return self.simulator.state.body_qd.numpy()

    def figures(self, name: str) -> Figures:
        """Sum up all steps so far."""
        residual, iterations = np.array(self.residual), np.array(self.iterations)
        return Figures(
            scene=name,
            title=f"{self.case.title}, {len(residual) * DT:g} s",
            steps=len(residual),
            finite=bool(np.isfinite(self.poses).all() and np.isfinite(self.velocities).all()),
            residual_max=float(residual.max()),
            residual_99=float(np.percentile(residual, 99.0)),
            over=float(np.mean(~(residual <= TOLERANCE))),
            iterations_mean=float(iterations.mean()),
            iterations_99=float(np.percentile(iterations, 99.0)),
            iterations_max=int(iterations.max()),
            deepest=max(self.deepest),
            deepest_end=self.deepest[-1],
            fastest=float(np.linalg.norm(self.velocities[:, 3:], axis=1).max()),
            contacts=max(self.contacts),
        )


def moved(run: Run) -> dict[str, float]:
    """How far the origin that moved most came [m]."""
    return {"moved_m": float(np.linalg.norm(run.poses[:, :3] - run.start[:, :3], axis=1).max())}


def moving(run: Run) -> dict[str, float]:
    """How many centres of mass are faster than 1 mm/s."""
    return {"moving": int(np.sum(np.linalg.norm(run.velocities[:, 3:], axis=1) > 1.0e-3))}


def fallen(run: Run) -> dict[str, float]:
    """How many bodies lean by more than 0.5 rad."""
    tilts = 2.0 * np.arcsin(np.clip(np.linalg.norm(run.poses[:, 3:5], axis=1), 0.0, 1.0))
    return {"fallen": int(np.sum(tilts > 0.5)), "bodies": len(tilts)}


def release(run: Run) -> dict[str, float]:
    """Put the last body 1 m higher, and return the fastest rise of the others in the next 0.2 s [m/s].

    How far they sank under the load is the depth at the end.
    """
    found = moved(run)
    state = run.simulator.state
    start = int(run.model.joint_q_start.numpy()[run.model.joint_count - 1])
    coordinates, speeds = state.joint_q.numpy(), state.joint_qd.numpy()
    coordinates[start + 2] += 1.0
    speeds[-6:] = 0.0
    state.joint_q.assign(coordinates)
    state.joint_qd.assign(speeds)
    fastest = 0.0
    for _ in range(round(0.2 / DT)):
        run.simulator.step()
        fastest = max(fastest, float(run.velocities[:-1, 5].max()))
    return found | {"pop_m_per_s": fastest}


def held(run: Run) -> dict[str, float]:
    """How many cubes are lost or slipped, and how far a corner of the others moved in the hand [m].

    From 0.2 s on, when the drives bear the weight of the arm.
    """
    corners = np.stack(run.watched[round(0.2 / DT) // WATCHED - 1 :])
    drift = np.linalg.norm(corners - corners[0], axis=-1).max(axis=(0, 2))
    lost = ~(drift <= LOST)
    return {
        "lost": int(np.sum(lost)),
        "slipped": int(np.sum(~(drift <= SLIPPED))),
        "drift_m": float(drift[~lost].max(initial=0.0)),
    }


def wheel_loads(run: Run) -> dict[str, float]:
    """How far the loads of a car's wheels are from each other, and from a quarter of the weight."""
    loads = np.stack(run.watched)
    standing, steady = (round(time / DT) // WATCHED for time in (Cars.STAND, Cars.STAND + Cars.SPEED_UP))
    spans = {"standing": loads[standing - 1 : standing], "driving": loads[steady:]}
    figures = {}
    for name, span in spans.items():
        if len(span):
            figures[f"{name}_spread"] = float(np.ptp(span, axis=-1).max())
            figures[f"{name}_error"] = float(np.abs(span - 1.0).max())
    return figures


HELD, CARS = HeldCubes(1000), Cars(64)

CASES = {
    "hit_wall": Case("wall of 95 bricks hit by a ball of 40 kg at 10 m/s", hit_wall, 2.0, 2.0, 0.75),
    "dominoes": Case("50 dominoes", scenes.domino_row, 6.0, 3.0, 1.5, fallen),
    "heap": Case("heap of 200 mixed shapes", heap, 10.0, 4.0, 1.5),
    "heap_1000": Case("heap of 1000 mixed shapes", partial(heap, 1000), 10.0, 0.0, 1.0, moving),
    "heap_1000_rolling": Case(
        "the same with rolling and torsional friction of 0.1 mm",
        partial(heap, 1000, rolling=1.0e-4),
        10.0,
        0.0,
        1.0,
        moving,
    ),
    "card_house": Case("house of cards", scenes.card_house, 2.0, 0.0, 1.0, moved),
    "stack_1000": Case("1000 kg on 1 kg", partial(tower, (1.0, 1.0e3)), 10.0, 0.0, 2.0, release),
    "stack_10000": Case("10 000 kg on 1 kg", partial(tower, (1.0, 1.0e4)), 10.0, 0.0, 2.0, release),
    "tower_1000": Case(
        "ten boxes, the highest 1000 times as heavy",
        partial(tower, (*(1.0,) * 9, 1.0e3)),
        10.0,
        0.0,
        2.0,
        release,
    ),
    "cars_64": Case(
        "64 cars that drive off",
        CARS.build,
        4.0,
        0.0,
        1.0,
        wheel_loads,
        CARS.targets,
        lambda run: CARS.loads(run.solver),
    ),
    "held_1000": Case(
        "1000 cubes in hands on moving arms",
        HELD.build,
        5.0,
        0.0,
        0.5,
        held,
        HELD.targets,
        lambda run: HELD.corners(run.poses),
    ),
    "chain_500": Case("chain of 500 links on the ground", chain, 10.0, 0.0, 0.25, moved),
    "straight_500": Case("the same, straight", partial(chain, bend=0.0), 10.0, 0.0, 0.25, moved),
}
"""Scenes by name, in the order of the table."""

LONG = ("heap_1000", "heap_1000_rolling", "held_1000", "chain_500", "straight_500")
"""Scenes that run only when they are asked for."""


def measure(name: str, options: argparse.Namespace, notes: list[str]) -> Figures:
    """Run a scene, look at every step, and time it."""
    case = CASES[name]
    model = case.build().finalize("cpu")
    run = Run(model, dict(options.set), case)
    advance(name, run, round((case.short if options.short else case.seconds) / DT), options.every)
    figures = run.figures(name)
    if figures.finite and case.observe is not None:
        figures.own = case.observe(run)
    if not options.repeats:
        return figures
    span = min(case.short, case.timed) if options.short else case.timed
    steps = round((span or (case.short if options.short else 1.0)) / DT / BLOCKS)
    starters: dict[str, Callable[[], Callable[[int], None]]] = {"ours": partial(_start_ours, run)}
    if span and not options.alone and installed({"mujoco": "mujoco"}, notes):
        scene = describe(model)
        starters["mujoco"] = lambda: MujocoEngine(scene, DT, options.mujoco_solver).step
    times = timed(starters, steps, 1 if options.short else options.repeats)
    figures.microseconds, figures.mujoco_microseconds = times["ours"], times.get("mujoco")
    return figures


def advance(name: str, run: Run, steps: int, every: float) -> None:
    """Make all steps of a scene; print how it stands every so many simulated seconds, unless 0."""
    block = round(every / DT) or steps
    for first in range(0, steps, block):
        count, start = min(block, steps - first), time.process_time()
        run.step(count)
        spent = (time.process_time() - start) / count
        if every:
            now, way = run.figures(name), moved(run)["moved_m"]
            print(
                f"  {now.steps * DT:6.2f} s: residual max {now.residual_max:.1e}, over {now.over:.2%}"
                f"  iterations {now.iterations_mean:.2f} / {now.iterations_99:.0f} / {now.iterations_max}"
                f"  depth max, now {1e3 * now.deepest:.3f}, {1e3 * now.deepest_end:.3f} mm"
                f"  fastest {now.fastest:.1e} m/s  moved {1e3 * way:.2f} mm  {1e3 * spent:.0f} ms/step"
                f"{'' if now.finite else '  NOT FINITE'}",
                flush=True,
            )


def _start_ours(run: Run) -> Callable[[int], None]:
    """Put a scene back to its start, and return what steps it."""
    run.restart()
    return run.advance


def timed(
    starters: Mapping[str, Callable[[], Callable[[int], None]]], steps: int, repeats: int
) -> dict[str, float]:
    """Return the processor's time of a step [us], the median over the repeats.

    Args:
        starters: Functions that put an engine to its start, and return what advances it by some steps.
        steps: Steps of a block.
        repeats: How often all engines run through all blocks from the start, taking turns at each block.
    """
    samples: dict[str, list[float]] = {name: [] for name in starters}
    for _ in range(repeats):
        advance = {name: start() for name, start in starters.items()}
        total = dict.fromkeys(starters, 0.0)
        for _ in range(BLOCKS):
            for name, work in advance.items():
                start = time.process_time()
                work(steps)
                total[name] += time.process_time() - start
        for name, seconds in total.items():
            samples[name].append(1.0e6 * seconds / (BLOCKS * steps))
    return {name: statistics.median(values) for name, values in samples.items()}


HEADER = (
    f"{'scene':<12} {'steps':>5}  {'residual max, 99% [m/s]':>23} {'over':>5}"
    f"  {'iterations mean/99%/max':>23}  {'depth max, end [mm]':>19}  {'end [m/s]':>9}  {'contacts':>8}"
    f"  {'us/step':>7}  {'MuJoCo':>7}  ratio"
)


def line(f: Figures) -> str:
    """One line of the table; `over` is the share of steps above the tolerance."""
    ours, mujoco = f.microseconds, f.mujoco_microseconds
    ratio = f"{ours / mujoco:5.2f}" if ours and mujoco else "    -"
    text = (
        f"{f.scene:<12} {f.steps:>5}  {f.residual_max:>12.1e} {f.residual_99:>10.1e} {f.over:>5.0%}"
        f"  {f.iterations_mean:>11.1f} {f.iterations_99:>5.0f} {f.iterations_max:>5}"
        f"  {1.0e3 * f.deepest:>10.3f} {1.0e3 * f.deepest_end:>8.3f}  {f.fastest:>9.1e}  {f.contacts:>8}"
        f"  {_whole(ours)}  {_whole(mujoco)}  {ratio}"
    )
    text += "".join(f"  {name} {value:.3g}" for name, value in f.own.items())
    return text if f.finite else f"{text}  NOT FINITE"


def _whole(value: float | None) -> str:
    return f"{'-':>7}" if value is None else f"{value:>7,.0f}"


def _setting(text: str) -> tuple[str, object]:
    """Read name=value."""
    name, sign, value = text.partition("=")
    if not (sign and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"expected name=value, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def main() -> None:
    """Measure the scenes, each with a line of its own as soon as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default = [name for name in CASES if name not in LONG]
    parser.add_argument("--scenes", nargs="+", choices=CASES, default=default)
    parser.add_argument(
        "--set", action="append", type=_setting, default=[], metavar="NAME=VALUE", help="option of the solver"
    )
    parser.add_argument("--short", action="store_true", help="shorter spans, timed once")
    parser.add_argument("--alone", action="store_true", help="newtonsim only, without MuJoCo")
    parser.add_argument("--mujoco-solver", choices=("Newton", "CG", "PGS"), default="Newton")
    parser.add_argument(
        "--repeats", type=int, default=5, help="timed runs of each engine, 0 for none (default: 5)"
    )
    parser.add_argument(
        "--every", type=float, default=0.0, metavar="SECONDS", help="print how a scene stands, as it goes"
    )
    parser.add_argument("--json", metavar="OUT", help="write all figures")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    found: list[Figures] = []
    notes: list[str] = []
    print(HEADER, flush=True)
    for name in options.scenes:
        found.append(measure(name, options, notes))
        print(line(found[-1]), flush=True)
    print("\n".join(dict.fromkeys(notes)))
    figures = [asdict(f) for f in found]
    settings = {"options": dict(options.set), "mujoco_solver": options.mujoco_solver}
    write_json(options.json, settings | {"figures": figures, "notes": notes})


if __name__ == "__main__":
    main()
