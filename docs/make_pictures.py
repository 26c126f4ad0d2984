"""Simulate the scenes of contact, constraints and deformables, and draw them by casting rays.

    python docs/make_pictures.py [NAME ...] [--folder FOLDER]

Every sample of a pixel is a ray of `newtonsim.SceneQuery`, and its shadow another.
"""

import argparse
import functools
import math
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp

import newtonsim
from newtonsim.examples import scenes, twisted_cloth
from newtonsim.render.shapes import PALETTE
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver

DT = 1.0 / 240.0
WIDTH, HEIGHT = 640, 400
SAMPLES = 2  # along each side of a pixel
SUN = np.array([0.35, -0.45, 0.82]) / np.linalg.norm([0.35, -0.45, 0.82])
SKY = np.array([0.95, 0.96, 0.98])
GROUND = np.array([0.78, 0.79, 0.80])
SOFT = np.array([0.93, 0.62, 0.35])
FARTHEST = 60.0  # [m]
COLORS = 128


@dataclass(frozen=True)
class Picture:
    """A scene, when to look at it, and from where.

    Attributes:
        build: Returns the builder.
        seconds: Simulated time [s] before the picture is taken.
        eye: Position of the camera [m].
        target: Point in the middle of the picture [m].
        angle: Vertical field of view [degrees].
        hidden: Shapes that are left out, by their indices.
        script: What to tell the drives over time, or None.
        run: Simulates instead of all this, or None.
    """

    build: Callable[[], newtonsim.ModelBuilder]
    seconds: float
    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    angle: float = 30.0
    hidden: tuple[int, ...] = ()
    script: scenes.GripperScript | None = None
    run: Callable[[], newtonsim.Simulator] | None = None


PICTURES = {
    "pyramid": Picture(scenes.box_pyramid, 10.0, (2.2, -3.4, 1.7), (0.0, 0.0, 0.35)),
    "wall": Picture(scenes.box_wall, 10.0, (1.8, -6.0, 1.9), (0.0, 0.0, 1.2)),
    "stack": Picture(scenes.box_stack, 10.0, (2.6, -3.8, 1.9), (0.0, 0.0, 0.98)),
    "stack_heavy_on_light": Picture(
        functools.partial(scenes.box_stack, ratio=0.01), 10.0, (2.6, -3.8, 1.9), (0.0, 0.0, 0.98)
    ),
    "card_house": Picture(scenes.card_house, 10.0, (0.55, -1.05, 0.5), (0.0, 0.0, 0.14)),
    "arch": Picture(scenes.arch, 10.0, (0.9, -2.1, 0.9), (0.0, 0.0, 0.28)),
    "dominoes": Picture(scenes.domino_row, 1.9, (-0.7, -1.5, 0.9), (1.6, 0.0, 0.0), 34.0),
    "cradle": Picture(scenes.newtons_cradle, 0.7, (0.45, -1.9, 0.55), (0.1, 0.0, 0.3)),
    "four_bar": Picture(scenes.four_bar, 5.1, (0.7, -2.2, 1.2), (0.25, 0.0, 0.6), 26.0),
    "ball_pit": Picture(scenes.ball_pit, 5.0, (1.6, -2.3, 2.3), (0.0, 0.0, 0.3), hidden=(2, 3)),
    "bolt_hull": Picture(scenes.bolt_in_box, 5.0, (0.25, -0.42, 0.42), (0.0, 0.0, 0.03)),
    "bolt_concave": Picture(
        functools.partial(scenes.bolt_in_box, convex=False), 5.0, (0.25, -0.42, 0.42), (0.0, 0.0, 0.03)
    ),
    "humanoid": Picture(scenes.humanoid_on_terrain, 8.0, (0.9, -3.0, 1.6), (-0.4, 0.0, 0.0), 24.0),
    "gripper_soft_ball": Picture(
        scenes.gripper_and_soft_ball,
        6.5,
        (0.35, -0.7, 0.36),
        (0.0, 0.0, 0.22),
        20.0,
        script=scenes.GripperScript(),
    ),
    "gripper_cloth": Picture(
        scenes.gripper_and_cloth,
        6.5,
        (0.5, -0.7, 0.36),
        (0.0, 0.0, 0.22),
        22.0,
        script=scenes.CLOTH_SCRIPT,
    ),
    "twisted_cloth": Picture(
        functools.partial(twisted_cloth.sphere_and_cloth, 16),
        0.0,
        (1.0, -2.4, 2.1),
        (0.0, 0.0, 1.25),
        34.0,
        run=functools.partial(twisted_cloth.twist, 16),
    ),
    "quadruped_mat": Picture(scenes.quadruped_on_mat, 2.0, (1.0, -1.5, 0.7), (0.0, 0.0, 0.18)),
    **{
        f"gripper_{grasped}": Picture(
            functools.partial(scenes.gripper, grasped),
            5.0,
            (0.35, -0.7, 0.42),
            (0.0, 0.0, 0.24),
            script=scenes.GripperScript(),
        )
        for grasped in scenes.GRASPED
    },
}


def simulate(picture: Picture) -> newtonsim.Simulator:
    """Run a scene up to its picture."""
    if picture.run is not None:
        return picture.run()
    model = picture.build().finalize("cpu")
    deformables = XPBDSolver(model, iterations=4, substeps=5) if model.particle_count else None
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model, deformables=deformables), DT)
    for _ in range(round(picture.seconds / DT)):
        if picture.script is not None:
            simulator.control.joint_act.assign(picture.script.targets(simulator.time))
        simulator.step()
    return simulator


def camera_rays(picture: Picture) -> np.ndarray:
    """Return the directions (rows, columns, 3) of the rays through all samples of the picture."""
    forward = np.subtract(picture.target, picture.eye)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    rows, columns = HEIGHT * SAMPLES, WIDTH * SAMPLES
    size = 2.0 * math.tan(math.radians(picture.angle) / 2.0) / rows
    x = size * (np.arange(columns) - 0.5 * (columns - 1))
    y = size * (np.arange(rows) - 0.5 * (rows - 1))
    return forward + x[None, :, None] * right + y[:, None, None] * down


def with_surfaces(simulator: newtonsim.Simulator, picture: Picture) -> tuple[newtonsim.Model, list[int]]:
    """Return a model with the triangles between particles, as they are now, and the shape that they are."""
    builder, model = picture.build(), simulator.model
    if not model.tri_count:
        return model, []
    triangles = model.tri_indices.numpy().reshape(-1)
    surface = newtonsim.Mesh(simulator.state.particle_q.numpy(), triangles, is_solid=False)
    shape = builder.add_shape_mesh(-1, mesh=surface, density=0.0)
    return builder.finalize("cpu"), [shape]


def draw(simulator: newtonsim.Simulator, picture: Picture) -> np.ndarray:
    """Return the picture (rows, columns, 3) with values from 0 to 1."""
    model, soft = with_surfaces(simulator, picture)
    query = newtonsim.SceneQuery(model, visual=True, surfaces=True).update(simulator.state)
    mask = query.shape_mask.numpy().copy()
    mask[list(picture.hidden)] = 0
    query.shape_mask.assign(mask)
    directions = camera_rays(picture)
    hits = query.rays(picture.eye, directions, max_distance=FARTHEST)
    shape, normal, point = hits.shape.numpy(), hits.normal.numpy(), hits.point.numpy()
    facing = np.sum(normal * directions, axis=-1) > 0.0
    normal = np.where(facing[..., None], -normal, normal)
    shadow = query.rays(point + 1.0e-3 * normal, SUN, max_distance=FARTHEST).hit
    sun = np.clip(normal @ SUN, 0.0, None) * np.where(shadow, 0.0, 1.0)
    light = 0.55 + 0.10 * normal[..., 2] + 0.45 * sun
    color = shape_colors(model, soft)[shape] * light[..., None]
    distance = hits.distance.numpy()[..., None]
    haze = np.clip((distance / FARTHEST) * 2.0, 0.0, 1.0)
    color = np.where(np.isfinite(distance), color * (1.0 - haze) + SKY * haze, SKY)
    color = np.clip(color, 0.0, 1.0).reshape(HEIGHT, SAMPLES, WIDTH, SAMPLES, 3)
    return color.mean(axis=(1, 3))


def shape_colors(model: newtonsim.Model, soft: list[int]) -> np.ndarray:
    """Return the colours (shapes, 3): grey for what stands still, a body's own, one for soft surfaces."""
    body = model.shape_body.numpy()
    palette = np.array(PALETTE)[:, :3]
    colors = np.where(body[:, None] >= 0, 0.25 + 0.75 * palette[body % len(palette)], GROUND)
    colors[soft] = SOFT
    return colors


def save(path: pathlib.Path, picture: np.ndarray) -> None:
    """Write a PNG with few colours."""
    from PIL import Image

    pixels = Image.fromarray((255.0 * picture + 0.5).astype(np.uint8))
    pixels.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "pictures")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or PICTURES:
        picture = PICTURES[name]
        path = arguments.folder / f"{name}.png"
        save(path, draw(simulate(picture), picture))
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
