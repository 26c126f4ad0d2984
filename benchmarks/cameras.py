"""Pictures per second: getCameraImage beside PyBullet's, and cameras in many worlds beside those of peers.

    python benchmarks/cameras.py [--worlds 256] [--short] [--json OUT] [--device cuda:0]

`scene`: getCameraImage of 20 bodies at 320 x 240 with shadows, by newtonsim.pybullet_compat and by PyBullet's
software renderer (TinyRenderer); `ratio` is PyBullet's time over ours, `same` the share of pixels with the
same segmentation. `worlds`: one call for colour and depth at --size squared of our quadruped on a ground,
with hard shadows, one camera in each world; a frame is one picture with its depth. MuJoCo's renderer takes
one world after the other, on a GPU or with Mesa on the CPU, so that few stand for all.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable

import numpy as np
import warp as wp
from engines.cameras import ENGINES
from tasks.harness import arguments, finish, installed, interleave, missing, table, timing

OURS, PEER = "newtonsim.pybullet_compat", "pybullet"
SCENE_SIZE = (320, 240)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--worlds", type=int, default=256, help="worlds of the batch (default: 256)")
    parser.add_argument("--size", type=int, default=84, help="pixels across in the worlds (default: 84)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    if options.short:
        options.worlds, options.blocks = min(options.worlds, 8), min(options.blocks, 3)
    notes: list[str] = []
    scene = measure_scene(options, notes)
    worlds = measure_worlds(options, notes)
    for rows in (scene, worlds):
        print(table(list(rows[0]), [list(row.values()) for row in rows]) + "\n")
    finish(options, {"scene": scene, "worlds": worlds}, notes)


def measure_scene(options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Time getCameraImage of a scene of 20 bodies."""
    names = [OURS] if options.alone else [OURS, *installed({PEER: PEER}, notes)]
    work = {name: build_scene(importlib.import_module(name)) for name in names}
    labels = {name: np.reshape(take()[4], SCENE_SIZE[::-1]) for name, take in work.items()}
    samples = run(work, options)
    for name in names:
        importlib.import_module(name).disconnect()
    rows = []
    for name, sample in samples.items():
        rows.append(
            {
                "module": name,
                "pixels": "x".join(map(str, SCENE_SIZE)),
                "microseconds": 1.0e6 * sample.median,
                "frames_per_second": 1.0 / sample.median,
                "spread": sample.spread,
                "ratio": samples[PEER].median / sample.median if PEER in samples else None,
                "same": float(np.mean(labels[name] == labels[names[-1]])),
            }
        )
    return rows


def build_scene(p) -> Callable[[], tuple]:
    """Return what takes a picture of boxes, balls, cylinders, capsules and octahedra on a plane."""
    p.connect(p.DIRECT)
    rng = np.random.default_rng(0)
    plane = p.createCollisionShape(p.GEOM_PLANE)
    p.createMultiBody(0.0, plane)
    corners = [
        [0.12, 0.0, 0.0],
        [-0.12, 0.0, 0.0],
        [0.0, 0.12, 0.0],
        [0.0, -0.12, 0.0],
        [0.0, 0.0, 0.12],
        [0.0, 0.0, -0.12],
    ]
    octahedron = [0, 2, 4, 2, 1, 4, 1, 3, 4, 3, 0, 4, 2, 0, 5, 1, 2, 5, 3, 1, 5, 0, 3, 5]
    kinds = [
        {"shapeType": p.GEOM_BOX, "halfExtents": [0.1, 0.08, 0.12]},
        {"shapeType": p.GEOM_SPHERE, "radius": 0.1},
        {"shapeType": p.GEOM_CYLINDER, "radius": 0.08, "length": 0.2},
        {"shapeType": p.GEOM_CAPSULE, "radius": 0.06, "length": 0.15},
        {"shapeType": p.GEOM_MESH, "vertices": corners, "indices": octahedron},
    ]
    for k in range(20):
        color = [*rng.uniform(0.2, 0.9, 3), 1.0]
        shape = p.createVisualShape(rgbaColor=color, **kinds[k % 5])
        turn = p.getQuaternionFromEuler(rng.uniform(-1.0, 1.0, 3).tolist())
        p.createMultiBody(1.0, -1, shape, [0.35 * (k % 5 - 2), 0.35 * (k // 5 - 1.5), 0.2], turn)
    view = p.computeViewMatrixFromYawPitchRoll([0.0, 0.0, 0.1], 1.8, 40.0, -35.0, 0.0, 2)
    lens = p.computeProjectionMatrixFOV(50.0, 4.0 / 3.0, 0.1, 20.0)
    return lambda: p.getCameraImage(*SCENE_SIZE, view, lens, shadow=1, renderer=p.ER_TINY_RENDERER)


def measure_worlds(options: argparse.Namespace, notes: list[str]) -> list[dict[str, object]]:
    """Time colour and depth of one camera in each of many worlds."""
    work: dict[str, Callable[[], object]] = {}
    seen: dict[str, float] = {}
    counts: dict[str, int] = {}
    engines = ENGINES if not options.alone else dict(list(ENGINES.items())[:1])
    for name, (module, build) in engines.items():
        if missing(module):
            notes.append(missing(module))
            continue
        try:
            counts[name] = min(options.worlds, 8) if name == "MuJoCo" else options.worlds
            render, share = build(counts[name], options.size, options.device)
            render()
            seen[name] = share()
        except Exception as problem:  # engines and drivers raise what they like
            notes.append(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0][:150]}")
        else:
            work[name] = render
    rows = []
    samples = run(work, options)
    frame = {name: sample.median / counts[name] for name, sample in samples.items()}
    for name, sample in samples.items():
        rows.append(
            {
                "engine": name,
                "worlds": counts[name],
                "pixels": f"{options.size}x{options.size}",
                "microseconds": 1.0e6 * frame[name],
                "frames_per_second": 1.0 / frame[name],
                "spread": sample.spread,
                "ratio": frame[name] / frame[next(iter(frame))],
                "robot_share": seen[name],
            }
        )
    return rows


def run(work: dict[str, Callable[[], object]], options: argparse.Namespace) -> dict:
    """Time calls in turn."""

    def repeat(call: Callable[[], object]) -> Callable[[int], None]:
        def several(count: int) -> None:
            for _ in range(count):
                call()

        return several

    how = timing(options, 0.5, short=(options.blocks, 0.05))
    return interleave({name: repeat(call) for name, call in work.items()}, how)


if __name__ == "__main__":
    main()
