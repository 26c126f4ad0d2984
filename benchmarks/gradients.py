"""Gradients of rollouts side by side: newtonsim, Newton and MuJoCo; error, and cost over that of the rollout.

    python benchmarks/gradients.py [--tasks "free body" ...] [--blocks 7] [--json OUT]
    python benchmarks/gradients.py --settings [--short] [--json OUT]

Every gradient is held against central differences of the same engine: a scan of steps, extrapolated by
Richardson's rule, the two estimates that agree best. The error is the length of the difference of both
vectors over that of the differences, each entry times the natural size of its input; `differences` is how
far these may be off themselves, by the same measure (for rounding in float32, also for MuJoCo).
MuJoCo has no gradients but differences, in float64: those of whole
rollouts, two for each input, and those of each step (`mjd_transitionFD`), which are multiplied; their own
error is that of their fixed step.

Cost is the time of value and gradient over that of a rollout forward, one world, one thread of the CPU.
Newton gets a state and contacts of its own for every step, the best case for wp.Tape, and its rollout is
replayed from one graph, as is its backward pass.

With --settings newtonsim is compared with itself (`tasks.gradient_settings`): iterations that stop early
with converged steps, softened and rigid contact with differences, and bounces with continuous time.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
import warp as wp
from engines.gradients import Choice, Engine, OurEngine
from engines.gradients_mujoco import MujocoEngine
from engines.gradients_newton import NewtonEngine
from tasks import gradient_settings
from tasks.gradients import TASKS, Task, bounce_slope
from tasks.harness import arguments, finish, interleave, missing, table, timing

from newtonsim.diff.differences import NEIGHBOURS, SPANS, estimate, measure_noise
from newtonsim.errors import NotDifferentiableError

UNRELIABLE = 0.1
"""Uncertainty of the differences, over their length, above which an error says nothing."""

SHORT_SPANS = SPANS[1::2]
HEADER = ("task", "engine", "inputs", "error", "differences", "forward us", "gradient us", "cost", "note")

_STILL = (("angular_damping", 0.0),)
_MANY = (("iterations", 40),)
_TIGHT = (("iterations", 100), ("joint_linear_relaxation", 1.0), ("joint_angular_relaxation", 1.0))
# with its stiffer default the rods of the arms explode at this step, and so does its XPBD when relaxed by 1
_SOFT = (*_STILL, ("joint_attach_ke", 1.0e3), ("joint_attach_kd", 1.0))
OURS = {
    "bodies": (
        Choice("FeatherstoneSolver"),
        Choice("SemiImplicitSolver", _STILL, substeps=8),
        Choice("XPBDSolver", _TIGHT),
    ),
    "contact": (
        Choice("FeatherstoneSolver"),
        Choice("FeatherstoneSolver", (("contact_mode", "compliant"),), penalty=True),
        Choice("SemiImplicitSolver", _STILL, penalty=True),
        Choice("XPBDSolver", (*_MANY, ("enable_restitution", True))),
    ),
    "particles": (
        Choice("SemiImplicitSolver"),
        Choice("XPBDSolver", _MANY),
        Choice("VBDSolver", (("iterations", 60),)),
    ),
}
NEWTONS = {
    "bodies": (
        Choice("SolverFeatherstone", _STILL),
        Choice("SolverSemiImplicit", _SOFT, substeps=8),
        Choice("SolverXPBD"),
    ),
    "contact": (
        Choice("SolverFeatherstone", _STILL, penalty=True),
        Choice("SolverSemiImplicit", _STILL, penalty=True),
        Choice("SolverXPBD", (("enable_restitution", True),)),
    ),
    # its XPBD has no triangles
    "particles": (
        Choice("SolverSemiImplicit", _STILL),
        Choice("SolverVBD", (("particle_enable_tile_solve", False), ("iterations", 60))),
    ),
}
"""What is compared, by what the task consists of."""


def engines(task: Task, options: argparse.Namespace, notes: list[str]) -> Iterator[Engine]:
    """Make the engines that can do a task."""
    kind = "particles" if task.particles else ("contact" if task.contact else "bodies")
    for choice in OURS[kind]:
        yield OurEngine(task, choice)
    if options.alone:
        return
    if why := missing("newton"):
        notes.append(why)
    else:
        for choice in NEWTONS[kind]:
            engine = NewtonEngine(task, choice)
            if not engine.captured:
                notes.append(f"{engine.name} cannot be captured in {task.name}: launched one by one")
            yield engine
    if task.particles:
        return
    if why := missing("mujoco"):
        notes.append(why)
        return
    for transition in (False, True):
        yield MujocoEngine(task, transition)


def differences(
    engine: Engine, scales: np.ndarray, spans: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient by differences and how far it may be off, each entry times its scale."""
    values, apart = np.zeros(len(scales)), np.zeros(len(scales))
    middle = engine.loss(engine.start)
    for k, scale in enumerate(scales):
        moved = [[engine.start.copy() for _ in spans] for _ in range(2)]
        for high, low, span in zip(*moved, spans, strict=True):
            high[k] += span * scale
            low[k] -= span * scale
        high, low = (np.array([engine.loss(inputs) for inputs in side]) for side in moved)
        near = [engine.start.copy() for _ in NEIGHBOURS]
        for inputs, length in zip(near, NEIGHBOURS, strict=True):
            inputs[k] += length * scale
        noise = float(measure_noise(np.array([[engine.loss(inputs)] for inputs in near]))[0])
        found = estimate(np.array(spans), high, low, middle, noise)
        values[k], apart[k] = found.value, found.uncertainty
    return values, apart


def judge(engine: Engine, task: Task, spans: tuple[float, ...]) -> dict[str, object]:
    """Return the errors of an engine's gradient; None with a note where there is none."""
    scales = task.scales(len(engine.start))
    figures = {"inputs": len(scales), "error": None, "differences": None, "note": ""}
    truth, apart = differences(engine, scales, spans)
    length = float(np.linalg.norm(truth))
    if not np.isfinite(length) or length == 0.0:
        return figures | {"note": "unstable"}
    figures["differences"] = float(np.linalg.norm(apart)) / length
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradient = engine.gradient() * scales
    except NotDifferentiableError as error:
        return figures | {"note": f"refused: {error}"}
    if task.height:
        k = int(np.argmax(np.abs(truth)))
        figures["note"] = f"slope {gradient[k]:.3f}, by differences {truth[k]:.3f}"
    if not np.isfinite(gradient).all():
        return figures | {"note": "not finite"}
    figures["error"] = float(np.linalg.norm(gradient - truth)) / length
    if not gradient.any():
        figures["note"] = "zeros in silence"
    if figures["differences"] > UNRELIABLE:
        figures["note"] = f"{figures['note']}; differences unreliable".removeprefix("; ")
    return figures


def measure(task: Task, options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Return the figures of all engines on a task."""
    spans = SHORT_SPANS if options.short else SPANS
    figures, contestants = [], {}
    for engine in engines(task, options, notes):
        found = judge(engine, task, spans)
        figures.append({"task": task.name, "engine": engine.name} | found)
        contestants[engine.name, "forward"] = engine.forward
        if found["error"] is not None:
            contestants[engine.name, "both"] = engine.both
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = interleave(contestants, timing(options, 0.2, short=(3, 0.02)))
    for row in figures:
        forward = samples[row["engine"], "forward"].median
        both = samples.get((row["engine"], "both"))
        row["forward_microseconds"] = 1.0e6 * forward
        row["gradient_microseconds"] = None if both is None else 1.0e6 * both.median
        row["cost"] = None if both is None else both.median / forward
        row["note"] = row.pop("note")
    return figures


def compare_settings(options: argparse.Namespace) -> None:
    """Print and write what options of newtonsim do to gradients."""
    wp.config.log_level = wp.LOG_ERROR
    parts = (gradient_settings.sweeps, gradient_settings.smoothing, gradient_settings.bounces)
    results = {part.__name__: part(options.short) for part in parts}
    for rows in results.values():
        print(table(list(rows[0]), [list(row.values()) for row in rows]) + "\n")
    finish(options, results, [])


def main() -> None:
    parser = arguments(__doc__, device=False, blocks=7)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--settings", action="store_true", help="what our own options do instead")
    options = parser.parse_args()
    if options.settings:
        compare_settings(options)
        return
    wp.config.log_level = wp.LOG_ERROR
    notes: list[str] = []
    figures = []
    for name in options.tasks:
        found = measure(TASKS[name], options, notes)
        print(table(HEADER, [list(row.values()) for row in found]) + "\n", flush=True)
        figures += found
    drop = TASKS["sphere bounce"]
    notes.append(
        f"sphere bounce: the slope of a bounce without loss is {bounce_slope(drop.dt * drop.steps):.3f}"
    )
    finish(options, {"gradients": figures}, notes)


if __name__ == "__main__":
    main()
