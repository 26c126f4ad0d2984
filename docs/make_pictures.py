"""Make the pictures of the docs: scenes of contact and deformables, and films of the examples.

    python docs/make_pictures.py [NAME ...] [--folder FOLDER] [--films FOLDER] [--recordings FOLDER]

Scenes are simulated here. Examples are run with all their simulations recorded, and so is the Python code of
documents. With --recordings these are kept, and used again if they are there. Needs
newtonsim[plot,torch,video].
"""

import argparse
import contextlib
import dataclasses
import functools
import math
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp
from picture_camera import HUGE, SAMPLES, TILES, Eye, SideBySide, add_floor, merge, project, smooth
from picture_film import save_film

import newtonsim
from newtonsim.examples import (
    arm_reaches,
    bounce_to_target,
    cloth_to_target,
    double_pendulum_gradient,
    scenes,
)
from newtonsim.render import Lighting, Recording
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver

ROOT = pathlib.Path(__file__).parent.parent
DT = 1.0 / 240.0
WIDTH, HEIGHT = 1280, 800
FILM_WIDTH, FILM_HEIGHT = 1280, 720
STILL_SAMPLES = 2  # along each side of a pixel
COLORS = 256
"""Of plots."""
QUALITY = 90
"""Of JPEG."""
FLOOR = (0.62, 0.64, 0.66, 1.0)
"""Colour of floors that are bodies."""
MARK, ARM = (214, 39, 40), 14
"""Colour of crosses, and half their width [pixels]."""
LIGHT = Lighting(
    direction=(0.35, -0.45, 0.82),
    ambient=0.6,
    sky=(0.0, 0.0, 0.25),
    diffuse=0.72,
    background=(0.93, 0.95, 0.98, 1.0),
    shadowed=0.1,
)

FINE = dataclasses.replace(LIGHT, radius=0.07, rays=8, sky_rays=8)
"""For stills."""

SOFT = dataclasses.replace(LIGHT, radius=0.02, rays=2)
"""For films: two rays draw narrow soft shadows with little grain."""

REACH = 0.1
"""Distance within which surfaces take ambient light from each other, over that of the target."""

RECORD_CODE = """
import runpy, sys
from newtonsim.render import record_simulators
with record_simulators(".", sys.argv[1]):
    runpy.run_path(sys.argv[1] + ".py", run_name="__main__")
"""
"""Runs the code of a document; Warp needs it in a file."""


@dataclass(frozen=True)
class Scene:
    """A scene, when to look at it, and from where.

    Attributes:
        build: Returns the builder.
        seconds: Simulated time [s] before the picture is taken.
        eye: Position of the camera [m].
        target: Point in the middle of the picture [m].
        angle: Vertical field of view [degrees].
        hidden: Shapes that are left out, by their indices.
        script: What to tell the drives over time, or None.
    """

    build: Callable[[], newtonsim.ModelBuilder]
    seconds: float
    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    angle: float = 30.0
    hidden: tuple[int, ...] = ()
    script: scenes.GripperScript | None = None


@dataclass(frozen=True)
class Film:
    """A film of recorded simulations, or a picture of their end.

    Attributes:
        eye: Position of the camera [m].
        target: Point in the middle [m].
        angle: Vertical field of view [degrees].
        source: "DOCUMENT#HEADING", whose first Python code under the heading is run; None for the example of
            the picture's name.
        runs: What is shown side by side: numbers of recorded simulations that are seen together.
        worlds: Worlds of each that are seen together, None for all.
        spacing: Distance by which they are moved apart, side by side [m]; None for all where they are, drawn
            one after the other.
        columns: Worlds side by side, None for a square.
        start: Simulated time of the first frame [s].
        end: Simulated time of the last frame [s], or None for the end.
        speed: Simulated seconds in a second of the film.
        fps: Frames in a second of the film.
        hold: Seconds for which the last frame stays.
        width: Columns of one part.
        height: Rows of it.
        marks: Points that are marked by crosses [m]; one for each world if worlds are side by side.
        floor: Height of a floor that is drawn but was not simulated [m], or None.
        poster: What part of the film has passed in the picture that stands for it.
        still: Whether only the last frame is taken.
    """

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    angle: float = 30.0
    source: str | None = None
    runs: tuple[tuple[int, ...], ...] = ((-1,),)
    worlds: tuple[int, ...] | None = (0,)
    spacing: float | None = None
    columns: int | None = None
    start: float = 0.0
    end: float | None = None
    speed: float = 1.0
    fps: float = 12.5
    hold: float = 0.8
    width: int = FILM_WIDTH
    height: int = FILM_HEIGHT
    marks: tuple[tuple[float, float, float], ...] = ()
    floor: float | None = None
    poster: float = 0.5
    still: bool = False


SCENES = {
    "pyramid": Scene(scenes.box_pyramid, 10.0, (2.2, -3.4, 1.7), (0.0, 0.0, 0.35)),
    "wall": Scene(scenes.box_wall, 10.0, (1.8, -6.0, 1.9), (0.0, 0.0, 1.2)),
    "stack": Scene(scenes.box_stack, 10.0, (2.6, -3.8, 1.9), (0.0, 0.0, 0.98)),
    "stack_heavy_on_light": Scene(
        functools.partial(scenes.box_stack, ratio=0.01), 10.0, (2.6, -3.8, 1.9), (0.0, 0.0, 0.98)
    ),
    "card_house": Scene(scenes.card_house, 10.0, (0.55, -1.05, 0.5), (0.0, 0.0, 0.14)),
    "arch": Scene(scenes.arch, 10.0, (0.9, -2.1, 0.9), (0.0, 0.0, 0.28)),
    "dominoes": Scene(scenes.domino_row, 1.9, (-0.7, -1.5, 0.9), (1.6, 0.0, 0.0), 34.0),
    "cradle": Scene(scenes.newtons_cradle, 0.7, (0.45, -1.9, 0.55), (0.1, 0.0, 0.3), 20.0),
    "four_bar": Scene(scenes.four_bar, 5.1, (0.7, -2.2, 1.2), (0.25, 0.0, 0.6), 26.0),
    "ball_pit": Scene(scenes.ball_pit, 5.0, (1.6, -2.3, 2.3), (0.0, 0.0, 0.3), hidden=(2, 3)),
    "bolt_hull": Scene(scenes.bolt_in_box, 5.0, (0.25, -0.42, 0.42), (0.0, 0.0, 0.03), 33.0),
    "bolt_concave": Scene(
        functools.partial(scenes.bolt_in_box, convex=False), 5.0, (0.25, -0.42, 0.42), (0.0, 0.0, 0.03), 33.0
    ),
    "humanoid": Scene(scenes.humanoid_on_terrain, 8.0, (0.9, -3.0, 1.6), (-0.4, 0.0, 0.0), 24.0),
    "gripper_soft_ball": Scene(
        scenes.gripper_and_soft_ball,
        6.5,
        (0.35, -0.7, 0.36),
        (0.0, 0.0, 0.22),
        20.0,
        script=scenes.GripperScript(),
    ),
    "gripper_cloth": Scene(
        scenes.gripper_and_cloth,
        6.5,
        (0.5, -0.7, 0.36),
        (0.0, 0.0, 0.22),
        22.0,
        script=scenes.CLOTH_SCRIPT,
    ),
    "quadruped_mat": Scene(scenes.quadruped_on_mat, 2.0, (1.0, -1.5, 0.7), (0.0, 0.0, 0.18)),
    **{
        f"gripper_{grasped}": Scene(
            functools.partial(scenes.gripper, grasped),
            5.0,
            (0.35, -0.7, 0.42),
            (0.0, 0.0, 0.24),
            script=scenes.GripperScript(),
        )
        for grasped in scenes.GRASPED
    },
}

CLOTH_GOAL = tuple(
    tuple(cloth_to_target.CENTRE + 0.3 * np.array([0, y, z])) for y in (-1, 1) for z in (-1, 1)
)
"""Where the corners of the thrown cloth are to be [m]."""

FILMS = {
    "arm_ilqr": Film((2.0, -1.8, 1.1), (0.08, 0.1, 0.58), 27.0, start=0.05, speed=0.5, floor=0.0),
    "arm_mpc": Film((2.5, 1.1, 1.2), (0.2, 0.0, 0.4), 19.0, start=1.0, end=5.2, floor=0.0),
    "arm_reaches": Film(
        (5.6, -0.9, 3.0),
        (0.35, -0.05, 0.25),
        31.0,
        start=0.03,
        speed=0.3,
        worlds=tuple(range(8)),
        spacing=1.3,
        columns=4,
        marks=tuple(map(tuple, arm_reaches.targets())),
        floor=0.0,
        poster=0.9,
    ),
    "bounce_to_target": Film(
        (1.1, -4.2, 1.1),
        (1.05, 0.3, 0.62),
        23.0,
        runs=(tuple(range(1, 7)),),
        speed=0.3,
        marks=(tuple(bounce_to_target.TARGET),),
        poster=0.75,
    ),
    "box_on_slope": Film(
        (-3.0, -2.6, 0.9),
        (-0.92, 0.0, -0.18),
        32.0,
        runs=((0,), (1,), (2,)),
        speed=0.4,
        width=420,
        height=480,
        poster=0.8,
    ),
    "quadruped_mpc": Film((0.7, -2.2, 0.9), (0.5, 0.0, 0.2)),
    "cem_push": Film((1.5, -0.9, 1.2), (0.22, 0.03, 0.05), 27.0),
    "hand_on_a_circle": Film(
        (4.6, -1.9, 2.2),
        (0.35, 0.0, 0.4),
        25.0,
        worlds=(0, 1, 2),
        spacing=1.0,
        columns=3,
        floor=0.0,
    ),
    "identify_push": Film((1.0, -0.7, 0.8), (0.24, 0.18, 0.08), 26.0, runs=((0,),), speed=0.5),
    "swing_up_from_states": Film((0.5, -5.4, 1.9), (0.35, 0.0, 1.5), 24.0, floor=0.5, poster=0.35),
    "shac_cartpole": Film((0.0, -5.4, 1.9), (-0.2, 0.0, 1.5), 24.0, floor=0.5, poster=0.12),
    "cartpole_swing_up": Film((-0.4, -5.4, 1.9), (-0.6, 0.0, 1.5), 24.0, end=4.0, floor=0.5, poster=0.4),
    "cloth_on_sphere": Film(
        (1.2, -1.7, 1.1),
        (0.0, 0.0, 0.42),
        30.0,
        source="docs/deformables.md#Which solver",
        floor=0.1,
        poster=1.0,
    ),
    "cloth_to_target": Film(
        (0.1, -3.4, 1.9), (0.5, 0.0, 1.02), 24.0, speed=0.2, marks=CLOTH_GOAL, floor=0.55
    ),
    "double_pendulum_gradient": Film(
        (0.25, -3.4, 1.3),
        (0.2, 0.0, 1.0),
        24.0,
        speed=0.08,
        marks=((double_pendulum_gradient.TARGET[0], 0.0, double_pendulum_gradient.TARGET[1]),),
        floor=0.45,
        poster=0.9,
    ),
    "gripper_lifts_cloth": Film(
        (0.36, -0.62, 0.34), (0.0, 0.0, 0.2), 36.0, runs=((0,), (1,)), end=2.4, width=630
    ),
    "gripper_lifts_soft_ball": Film((0.34, -0.64, 0.34), (0.0, 0.0, 0.2), 35.0, end=2.4),
    "pybullet_batch": Film(
        (5.0, -3.4, 2.2),
        (0.0, -0.45, 0.55),
        31.0,
        source="docs/pybullet.md#Many worlds, a GPU, gradients",
        worlds=tuple(range(0, 640, 64)),
        spacing=0.62,
        columns=10,
        speed=0.4,
        poster=1.0,
    ),
    "pybullet_script": Film((1.9, -1.6, 1.3), (0.25, 0.0, 0.6), 39.0),
    "quadruped_gait_gradient": Film((0.9, -3.2, 0.9), (0.8, 0.0, 0.2), 26.0, speed=0.5),
    "quadrupeds": Film(
        (2.6, -4.1, 2.4),
        (-0.7, -0.8, 0.0),
        33.0,
        worlds=tuple(8 * row + column for row in range(2, 5) for column in range(2, 5)),
        spacing=0.0,
        start=1.88,
        end=2.6,
        speed=0.4,
    ),
    "quickstart": Film(
        (6.0, -5.0, 3.2),
        (0.0, 0.0, 0.2),
        source="docs/start.md#The first simulation",
        worlds=tuple(16 * row + column for row in range(5, 11) for column in range(5, 11)),
        still=True,
        width=WIDTH,
        height=HEIGHT,
    ),
    "shac_hopper": Film((1.7, -6.5, 1.5), (1.5, 0.0, 0.75), 20.0, end=2.3, speed=0.7),
    "soft_crawler": Film((0.5, -1.1, 0.5), (0.05, 0.0, 0.05), 26.0, speed=0.4),
    "system_identification": Film(
        (0.8, -1.4, 0.8),
        (0.0, 0.0, 0.0),
        36.0,
        runs=((0,), (1,), (2,)),
        speed=0.5,
        width=420,
        height=368,
        floor=-0.04,
    ),
    "twisted_cloth": Film((1.5, -3.0, 2.1), (0.0, 0.0, 1.0), 34.0),
}

PLOTS = ("cup_on_a_table",)
"""Examples whose own plot is the picture."""


def simulate(scene: Scene) -> newtonsim.Simulator:
    """Run a scene up to its picture."""
    model = scene.build().finalize("cpu")
    deformables = XPBDSolver(model, iterations=4, substeps=5) if model.particle_count else None
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model, deformables=deformables), DT)
    for _ in range(round(scene.seconds / DT)):
        if scene.script is not None:
            simulator.control.joint_act.assign(scene.script.targets(simulator.time))
        simulator.step()
    return simulator


def draw(scene: Scene) -> np.ndarray:
    """Simulate a scene, and return its picture (rows, columns, 3), uint8."""
    simulator = simulate(scene)
    model = simulator.model
    flags = model.shape_flags.numpy().astype(np.int64)
    flags[list(scene.hidden)] &= ~int(newtonsim.ShapeFlags.VISIBLE)
    model.shape_flags.assign(flags.astype(np.uint32))
    eye = eye_of(model, scene, WIDTH, HEIGHT, None, still=True)
    return smooth(eye.look(simulator.state)[0], WIDTH, HEIGHT)


def colour_floors(model: newtonsim.Model) -> None:
    """Give floors that are bodies a colour of their own."""
    bodies = model.shape_body.numpy()
    for shape in np.flatnonzero(model.shape_collision_radius.numpy() > HUGE).tolist():
        if model.shape_color[shape] is None and bodies[shape] >= 0:
            model.shape_color[shape] = FLOOR


def eye_of(
    model: newtonsim.Model,
    view: Scene | Film,
    width: int,
    height: int,
    worlds: tuple[int, ...] | None,
    still: bool,
) -> Eye:
    """Return a camera; stills are drawn finer, and as wholes."""
    colour_floors(model)
    samples, tiles, light = SAMPLES, TILES, SOFT
    if still:
        samples, tiles = STILL_SAMPLES, (1, 1)
        light = dataclasses.replace(FINE, sky_reach=REACH * math.dist(view.eye, view.target))
    sides = round(width * samples), round(height * samples)
    return Eye(model, *sides, view.eye, view.target, view.angle, light, worlds, tiles)


def mark(picture: np.ndarray, film: Film, places: np.ndarray) -> np.ndarray:
    """Return a picture with crosses at the film's marks, each moved to its world's place [m]."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    points = np.reshape(film.marks, (-1, 3)) + np.pad(places, ((0, 0), (0, 1)))
    for x, y in project(points, film.eye, film.target, film.angle, film.width, film.height):
        for side in (-1, 1):
            draw.line((x - ARM, y - ARM * side, x + ARM, y + ARM * side), fill=MARK, width=7)
    return np.asarray(image)


def record(name: str, code: str | None, folder: pathlib.Path) -> list[pathlib.Path]:
    """Run an example, or code of a document, unless it is recorded already.

    Args:
        name: Name of the example or of the picture.
        code: The code; None for the example of that name.
        folder: Where recordings and plots go.

    Returns:
        The recordings in their order.
    """

    def found() -> list[pathlib.Path]:
        return sorted(folder.glob(f"{name}-*.nsr"), key=lambda path: int(path.stem.rpartition("-")[2]))

    if not found():
        command = [sys.executable, "-m", "newtonsim.examples", name, "--record", "."]
        if code is not None:
            (folder / f"{name}.py").write_text(code)
            command = [sys.executable, "-c", RECORD_CODE, name]
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(command, cwd=folder, check=True)
    return found()


def code_of(source: str) -> str:
    """Return the first Python code under a heading, for "DOCUMENT#HEADING"."""
    document, heading = source.split("#")
    text = (ROOT / document).read_text()
    section = text[re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE).end() :]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)


def shoot(film: Film, paths: list[pathlib.Path]) -> list[np.ndarray]:
    """Return the frames of a film of recordings, each (rows, columns, 3), uint8."""
    recordings = [Recording.open(path, "cpu") for path in paths]
    parts = [[recordings[number] for number in part] for part in film.runs]
    end = max(float(run.times[-1]) for part in parts for run in part) if film.end is None else film.end
    times = np.arange(film.start, end + 1e-6, film.speed / film.fps)
    shots = [shoot_part(film, part, times[-1:] if film.still else times) for part in parts]
    width = (FILM_WIDTH - film.width * len(shots)) // max(1, len(shots) - 1)
    gap = np.full((film.height, width, 3), 255, np.uint8)
    return [
        np.concatenate([piece for shot in row for piece in (gap, shot)][1:], axis=1)
        for row in zip(*shots, strict=True)
    ]


def shoot_part(film: Film, runs: list[Recording], times: np.ndarray) -> list[np.ndarray]:
    """Return the frames of some recorded simulations that are seen together."""
    worlds, places, rows = film.worlds, np.zeros((1, 2)), []
    if film.spacing is not None:
        rows = [SideBySide(run.model, worlds, film.spacing, film.columns) for run in runs]
        worlds, places = (0,), rows[0].places
    if film.floor is not None:
        for run in runs:
            add_floor(run.model, film.floor)
    eyes = [eye_of(run.model, film, film.width, film.height, worlds, film.still) for run in runs]
    states = [run.model.state() for run in runs]
    frames = []
    for time in times:
        loaded = [run.load(run.at(time + 1e-6), state) for run, state in zip(runs, states)]
        for row, state in zip(rows, loaded):
            row.move(state)
        seen = [eye.look(state) for eye, state in zip(eyes, loaded)]
        colors, depths = (np.stack(values) for values in zip(*seen))
        picture = smooth(merge(colors, depths)[0], film.width, film.height)
        frames.append(mark(picture, film, places) if film.marks else picture)
    return frames


def save_picture(path: pathlib.Path, picture: np.ndarray) -> None:
    """Write a JPEG, or plots as a PNG with few colours."""
    from PIL import Image

    pixels = Image.fromarray(picture)
    if path.suffix == ".png":
        pixels.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    else:
        pixels.save(path, quality=QUALITY, optimize=True)


def make(name: str, folder: pathlib.Path, films: pathlib.Path, recordings: pathlib.Path) -> pathlib.Path:
    """Make a picture or a film, and return its file.

    Args:
        name: A name in SCENES, FILMS or PLOTS.
        folder: Where pictures go.
        films: Where films go.
        recordings: Where recordings and plots of examples are, or go.
    """
    path = folder / f"{name}.jpg"
    if name in SCENES:
        save_picture(path, draw(SCENES[name]))
    elif name in PLOTS:
        from PIL import Image

        record(name, None, recordings)
        path = path.with_suffix(".png")
        save_picture(path, np.asarray(Image.open(recordings / path.name).convert("RGB")))
    else:
        film = FILMS[name]
        code = None if film.source is None else code_of(film.source)
        frames = shoot(film, record(name, code, recordings))
        if film.still:
            save_picture(path, frames[-1])
        else:
            path = films / f"{name}.mp4"
            held = [frames[-1]] * round(film.hold * film.fps)
            save_film(path, [*frames, *held], film.fps, round(film.poster * (len(frames) - 1)))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*SCENES, *FILMS, *PLOTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    docs = pathlib.Path(__file__).parent
    parser.add_argument("--folder", type=pathlib.Path, default=docs / "pictures", help="of pictures")
    parser.add_argument("--films", type=pathlib.Path, default=docs / "films", help="folder of films")
    parser.add_argument("--recordings", type=pathlib.Path, help="keep the recordings of examples here")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.names} - {*known})
    if unknown:
        parser.error(f"there is no picture {unknown[0]!r}")
    wp.config.log_level = wp.LOG_ERROR
    for folder in (arguments.folder, arguments.films):
        folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        recordings = arguments.recordings
        if recordings is None:
            recordings = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in arguments.names or known:
            path = make(name, arguments.folder, arguments.films, recordings)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
