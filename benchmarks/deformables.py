"""Time of a step of cloth, soft bodies and particles at equal residual: newtonsim and Newton in turn.

    python benchmarks/deformables.py [--scenes cloth twist beam net heap] [--blocks 7] [--json OUT]

Elastic scenes: both engines make steps from the same states of the motion, and the residual says how far from
the end point of implicit Euler they come (tasks/deformables_residual.py; norm of the gradient over its norm
at the inertial point, geometric mean over the states, after three steps of their own). Levels are what Newton
reaches with its default number of iterations, and with four times as many; each engine gets the fewest
iterations by which it is there. In the twist only particles count that are further from others than contact
reaches: what an engine means by contact is its own matter. Newton's XPBD has no triangles, and its tetrahedra
are unstable at every step tried (1/300 to 1/2400 s, mu 300 Pa to 100 kPa): XPBD is compared on a net of
springs, soft enough for Newton to be stable, and newtonsim's XPBD on the beam stands beside Newton's VBD.

Heap: particles fall into a box; the level is the largest overlap over the radius when they rest.

Both replay a captured graph of a step on one thread of the CPU, in blocks, one engine after the other; a
figure is the median over the blocks.
"""

import argparse
from collections.abc import Callable

import numpy as np
import warp as wp
from engines.deformables import (
    Engine,
    our_heaps,
    our_steps,
    peer_heaps,
    peer_steps,
)
from tasks.deformables import (
    Heap,
    Scene,
    hanging_cloth,
    hanging_springs,
    heap,
    objective,
    soft_beam,
    twisted_cloth,
)
from tasks.deformables_residual import Objective, overlap
from tasks.harness import arguments, finish, interleave, missing, table, timing

SCENES = ("cloth", "twist", "beam", "beam_xpbd", "net", "heap")
MOST = 640  # iterations that are tried
LEAD = 3  # steps that an engine makes of its own before the one that counts
DEFAULTS = {"VBD": 10, "XPBD": 2}  # iterations of Newton's solvers
SHORT = (3, 0.02)  # blocks, and the time of one [s]
HEADER = ("scene", "residual", "engine", "iterations", "reached", "us/step", "spread", "of newtonsim")

Maker = Callable[[int], Engine]


def scene_of(name: str, short: bool) -> Scene:
    """Return an elastic scene in full or short form."""
    cells = 12 if short else 64
    if name == "cloth":
        return hanging_cloth(cells)
    if name == "twist":
        return twisted_cloth(cells, times=(0.1,) if short else (0.4, 0.8))
    if name == "net":
        return hanging_springs(cells)
    size = (6, 3) if short else (25, 9)
    return soft_beam(*size, solver="XPBD" if name == "beam_xpbd" else "VBD")


def advance(engine: Engine, scene: Scene, at: float, steps: int) -> float:
    """Go on by some steps from a time [s]; return the time then."""
    if scene.drive is None:
        engine.step(steps)
        return at + steps * scene.dt
    for _ in range(steps):
        x, v = engine.motion()
        at += scene.dt
        target = scene.drive(x, at)
        moved = scene.held
        v[moved] = (target[moved] - x[moved]) / scene.dt
        engine.start_from(target, v)
        engine.step(1)
    return at


def states(scene: Scene, engine: Engine) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Return times, positions and velocities along the motion."""
    found, at = [], 0.0
    for end in scene.times:
        at = advance(engine, scene, at, round((end - at) / scene.dt))
        found.append((at, *engine.motion()))
    return found


def residual(engine: Engine, scene: Scene, goal: Objective, starts: list) -> float:
    """Return the residual that an engine leaves, the geometric mean over the states."""
    logs = []
    for at, x, v in starts:
        engine.start_from(x, v)
        at = advance(engine, scene, at, LEAD)
        before, speed = engine.motion()
        advance(engine, scene, at, 1)
        after = engine.motion()[0]
        left = goal.residual(before, speed, after, scene.apart(before))
        logs.append(np.log(left) if np.isfinite(left) else np.inf)
    return float(np.exp(np.mean(logs)))


def fewest(make: Maker, scene: Scene, goal: Objective, starts: list, level: float) -> tuple[int, float]:
    """Return the fewest iterations that come to a level, and the residual; 0 iterations if none do."""
    tried: dict[int, float] = {}

    def left(count: int) -> float:
        if count not in tried:
            tried[count] = residual(make(count), scene, goal, starts)
        return tried[count]

    high = 1
    while left(high) > level:
        high *= 2
        if high > MOST:
            return 0, min(tried.values())
    low = high // 2
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if left(middle) <= level else (middle, high)
    return high, left(high)


def measure(name: str, options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Return the figures of an elastic scene."""
    scene = scene_of(name, options.short)
    makers: dict[str, tuple[Maker, Objective]] = {"newtonsim": (our_steps(scene), objective(scene, False))}
    if not options.alone and not missing("newton"):
        peer = scene_of("beam", options.short) if name == "beam_xpbd" else scene
        makers["Newton"] = (peer_steps(peer), objective(peer, True))
    judge = scene_of("beam", options.short) if name == "beam_xpbd" else scene
    starts = states(judge, our_steps(judge)(20))
    reference = "Newton" if "Newton" in makers else "newtonsim"
    default = DEFAULTS["VBD" if name == "beam_xpbd" else scene.solver]
    make, goal = makers[reference]
    figures = []
    for count in (default, 4 * default):
        level = residual(make(count), scene, goal, starts)
        figures += compare(name, scene, makers, starts, level, options)
    for engine in makers:
        if not makers[engine][0](1).graph:
            notes.append(f"{engine} cannot be captured in {name}: its steps are launched one by one")
    return figures


def compare(
    name: str, scene: Scene, makers: dict, starts: list, level: float, options: argparse.Namespace
) -> list[dict[str, object]]:
    """Return the figures of all engines at a level."""
    counts, reached, contestants = {}, {}, {}
    for engine, (make, goal) in makers.items():
        counts[engine], reached[engine] = fewest(make, scene, goal, starts, level * 1.001)
        if counts[engine]:
            runner = make(counts[engine])
            runner.start_from(*starts[-1][1:])
            contestants[engine] = runner.again
    samples = interleave(contestants, timing(options, 0.3, SHORT))
    return [
        {
            "scene": name,
            "residual": level,
            "engine": engine,
            "iterations": counts[engine] or None,
            "reached": reached[engine],
            "microseconds": 1.0e6 * samples[engine].median if engine in samples else None,
            "spread": samples[engine].spread if engine in samples else None,
        }
        for engine in makers
    ]


def measure_heap(options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Return the figures of the heap."""
    pile = heap(6, 6) if options.short else heap()
    makers: dict[str, Maker] = {"newtonsim": our_heaps(pile)}
    if not options.alone and not missing("newton"):
        makers["Newton"] = peer_heaps(pile)
    reference = "Newton" if "Newton" in makers else "newtonsim"
    trials = (2,) if options.short else (1, 2, 4, 8, 16)
    found = {engine: [rest(make(count), pile) for count in trials] for engine, make in makers.items()}
    figures = []
    for index in range(len(trials)) if options.short else (1, 3):
        level = found[reference][index][0]
        chosen = {
            engine: next((k for k, (left, _) in enumerate(tries) if left <= level * 1.001), None)
            for engine, tries in found.items()
        }
        runners = {}
        for engine, k in chosen.items():
            if k is not None:
                runners[engine] = makers[engine](trials[k])
                rest(runners[engine], pile)
        steps = {engine: runner.step for engine, runner in runners.items()}
        samples = interleave(steps, timing(options, 0.3, SHORT))
        for engine, k in chosen.items():
            best = min(found[engine]) if k is None else found[engine][k]
            figures.append(
                {
                    "scene": "heap",
                    "residual": level,
                    "engine": engine,
                    "iterations": None if k is None else trials[k],
                    "reached": best[0],
                    "microseconds": None if k is None else 1.0e6 * samples[engine].median,
                    "spread": None if k is None else samples[engine].spread,
                }
            )
    for engine, tries in found.items():
        text = ", ".join(f"{count}: {speed:.3f} m/s" for count, (_, speed) in zip(trials, tries))
        notes.append(f"heap, {engine}: speed (root of the mean square) at rest by iterations: {text}")
    return figures


def rest(engine: Engine, pile: Heap) -> tuple[float, float]:
    """Let particles settle; return the median of the largest overlap over the last steps, and their speed."""
    steps = round(pile.settle / pile.dt)
    engine.step(steps)
    overlaps, speeds = [], []
    for _ in range(5):
        engine.step(max(1, steps // 40))
        x, v = engine.motion()
        overlaps.append(overlap(x, pile.radius, pile.half))
        speeds.append(float(np.sqrt(np.mean(np.sum(v * v, axis=1)))))
    return float(np.median(overlaps)), float(np.median(speeds))


def show(figures: list[dict[str, object]]) -> str:
    """Return a table of the figures of a scene."""
    rows, ours = [], None
    for figure in figures:
        ours = figure["microseconds"] if figure["engine"] == "newtonsim" else ours
        both = ours and figure["microseconds"]
        rows.append([*figure.values(), f"{figure['microseconds'] / ours:.2f}x" if both else None])
    return table(HEADER, rows)


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=7)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    notes = [line for line in [missing("newton")] if line and not options.alone]
    figures: list[dict[str, object]] = []
    for name in options.scenes:
        found = measure_heap(options, notes) if name == "heap" else measure(name, options, notes)
        figures += found
        print(show(found) + "\n", flush=True)
    finish(options, {"figures": figures}, notes)


if __name__ == "__main__":
    main()
