"""Make the film of a minute: robots by the thousand, cloth and a gripper, an optimisation, a PyBullet script.

    python docs/make_film.py [--folder FOLDER] [--recordings FOLDER]

Writes newtonsim.mp4, its first picture newtonsim.jpg, and newtonsim.webp, the trailer in the README. Needs
newtonsim[learn,plot,torch,video]. With --recordings the simulations of examples are kept, and used again.
"""

import argparse
import contextlib
import dataclasses
import itertools
import math
import pathlib
import tempfile
from collections.abc import Iterator

import make_pictures
import numpy as np
import warp as wp
from picture_camera import SAMPLES, TILES, Eye, SideBySide, grid, project, smooth
from picture_film import encoder, save_poster
from PIL import Image, ImageDraw, ImageFont

import newtonsim
from newtonsim import envs
from newtonsim.examples import asset_path, bounce_to_target
from newtonsim.importers import parse_mjcf
from newtonsim.learn import PolicyFile
from newtonsim.render import Lighting, Recording

WIDTH, HEIGHT, BAND, FPS = 1280, 608, 112, 12.5
"""Columns and rows of the pictures [pixels], rows of the band below them, pictures in a second."""
FEW_SAMPLES = 1.25
"""Samples along each side of a pixel of pictures in which everything moves."""
UP = (0.0, 0.0, 1.0)
ROBOTS, SPACING = 2048, 1.5
COMMANDS = ((0.0, (0.0, 0.0, 0.0)), (0.4, (0.6, 0.0, 0.0)), (4.5, (0.5, 0.0, 0.4)), (7.5, (0.6, 0.0, 0.0)))
"""Forward and sideways velocity [m/s] and turning rate [rad/s] that robots are told, from a time [s] on."""
WALK, RISE, ARMS = 7.68, 7.0, 9.0
"""Lengths of the parts with thousands of robots, and of the rise of the first camera [s]."""
SCRIPT, SCRIPT_STEPS, ARM_SPACING = "docs/pybullet.md#Many worlds, a GPU, gradients", 960, 1.6
BURIED = -100.0
"""Where robots are drawn that fell [m]: they begin anew where others may have walked to."""
OPENING, CLOSING = 4.5, 5.0
INK, PAPER, ACCENT = (255, 255, 255), (16, 22, 30), (255, 140, 26)
PLOT = (900, 28, 350, 220)
"""Left, top, width and height of the plot of misses [pixels]."""
DECADES = 7.0
TRAILER = (960, 540, 10.0, 35)
"""Columns, rows, pictures in a second and quality of the trailer."""
CUTS = ((3.5, 1.5), (6.5, 4.0), (14.0, 3.5), (21.5, 3.5), (37.5, 5.0), (44.0, 4.0))
"""What the trailer shows: begin and length [s]."""


@dataclasses.dataclass(frozen=True)
class View:
    """Where a camera is and what it looks at (3,) [m], and its vertical field of view [degrees]."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    angle: float

    def towards(self, other: "View", part: float) -> "View":
        """Return a view on the way to another, at rest at either end; `part` is 0..1."""
        part = min(max(part, 0.0), 1.0)
        part *= part * (3.0 - 2.0 * part)
        blend = [
            tuple(np.add((1.0 - part) * np.array(a), part * np.array(b)).tolist())
            for a, b in ((self.eye, other.eye), (self.target, other.target))
        ]
        return View(blend[0], blend[1], (1.0 - part) * self.angle + part * other.angle)


CROWD = View((36.6, 37.0, 0.75), (32.2, 32.2, 0.3), 34.0), View((44.0, 41.0, 7.0), (22.0, 22.0, 0.0), 34.0)
FIELD = View((27.2, 26.6, 1.25), (24.8, 24.8, 0.68), 34.0), View((40.0, 36.0, 12.0), (8.0, 10.0, 0.0), 34.0)
"""Views at the begin and at the end."""
TWIST = View((1.2, 2.6, 1.8), (0.0, 0.0, 0.95), 37.0)
GRASP = View((0.5, 0.72, 0.4), (0.0, 0.0, 0.19), 30.0)
THROW = View((1.15, -4.0, 1.15), (1.15, 0.3, 0.66), 27.0)


def light(rays: int) -> Lighting:
    """Return a light with soft shadows, which few rays draw without grain."""
    return dataclasses.replace(Lighting.fine(UP, rays=rays), radius=0.02, sky_rays=0)


def eye_of(model: newtonsim.Model, view: View, rays: int, worlds: tuple[int, ...], whole: bool) -> Eye:
    """Return a camera; `whole` if everything moves in its pictures."""
    samples, tiles = (FEW_SAMPLES, (1, 1)) if whole else (SAMPLES, TILES)
    sides = round(WIDTH * samples), round(HEIGHT * samples)
    return Eye(model, *sides, view.eye, view.target, view.angle, light(rays), worlds, tiles)


def picture(eye: Eye, state: newtonsim.State) -> np.ndarray:
    """Return what a camera sees, (HEIGHT, WIDTH, 3), uint8."""
    return smooth(eye.look(state)[0], WIDTH, HEIGHT)


def walking_robots() -> Iterator[np.ndarray]:
    """Yield pictures of robots that walk by one policy, each in a world of its own, drawn on a grid.

    Worlds are drawn turned so that all robots look the same way at the begin.
    """
    policy = PolicyFile(asset_path("policies/velocity.onnx"))
    env = envs.make(policy.about["name"], ROBOTS, device="cpu")
    model = crowd_of_quadrupeds(env.model.body_count)
    state, eye = model.state(), eye_of(model, CROWD[0], 1, (0,), whole=True)
    obs, _ = env.reset(seed=2)
    turned, places = None, np.pad(grid(ROBOTS, SPACING), ((0, 0), (0, 1)))
    steps, rate = 0, env.metadata["render_fps"]
    for frame in range(round(WALK * FPS)):
        while steps < frame * rate / FPS:
            obs = np.array(obs)
            obs[:, 9:12] = next(what for begin, what in reversed(COMMANDS) if begin <= steps / rate)
            obs, _, ended, _, _ = env.step(policy(obs))
            places[np.asarray(ended, bool), 2] = BURIED
            steps += 1
        poses = env.sim.state.body_q.numpy().reshape(ROBOTS, -1, 7)
        turned = back_to_x(poses[:, 0, 3:]) if turned is None else turned
        state.body_q.assign((shift(turned, poses, places)).reshape(-1, 7))
        view = CROWD[0].towards(CROWD[1], frame / FPS / RISE)
        eye.move(view.eye, view.target)
        yield picture(eye, state)


def crowd_of_quadrupeds(bodies: int) -> newtonsim.Model:
    """Return a model of all robots in one world, which is only drawn; it must have so many bodies."""
    robot = newtonsim.ModelBuilder(up_vector=UP)
    parse_mjcf(asset_path("quadruped.xml"), robot, ignore_inertial_definitions=False)
    robot.shape_flags = [int(newtonsim.ShapeFlags.VISIBLE)] * len(robot.shape_flags)
    assert robot.body_count * ROBOTS == bodies
    crowd = newtonsim.ModelBuilder(up_vector=UP)
    for _ in range(ROBOTS):
        crowd.add_builder(robot, update_num_env_count=False)
    crowd.set_ground_plane()
    return crowd.finalize("cpu")


def back_to_x(turns: np.ndarray) -> np.ndarray:
    """Return the turns about z, as quaternions xyzw (n, 4), that take headings back to x."""
    yaw = 2.0 * np.arctan2(turns[:, 2], turns[:, 3])
    zero = np.zeros(len(yaw))
    return np.stack([zero, zero, np.sin(-0.5 * yaw), np.cos(-0.5 * yaw)], axis=1)


def shift(turns: np.ndarray, poses: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return poses (n, bodies, 7) turned about the z axes of their worlds, (n, 4), and moved (n, 3) [m]."""
    z, w = turns[:, 2, None], turns[:, 3, None]
    cos, sin = w * w - z * z, 2.0 * w * z
    x, y, height = np.moveaxis(poses[..., :3], -1, 0)
    moved = np.stack([cos * x - sin * y, sin * x + cos * y, height], axis=-1) + places[:, None]
    i, j, k, r = np.moveaxis(poses[..., 3:], -1, 0)
    turned = np.stack([w * i - z * j, w * j + z * i, w * k + z * r, w * r - z * k], axis=-1)
    return np.concatenate([moved, turned], axis=-1)


def playback(path: pathlib.Path, view: View, start: float, end: float, speed: float) -> Iterator[np.ndarray]:
    """Yield pictures of a recording from a time to another [s], in slow motion."""
    run = Recording.open(path, "cpu")
    eye, state = eye_of(run.model, view, 3, (0,), whole=False), run.model.state()
    for time in np.arange(start, end + 1e-6, speed / FPS):
        yield picture(eye, run.load(run.at(time + 1e-6), state))


def throws(paths: list[pathlib.Path], seconds: float) -> Iterator[tuple[np.ndarray, str]]:
    """Yield pictures of one throw after the other, with their traces, misses and titles."""
    target = bounce_to_target.TARGET
    runs = [Recording.open(path, "cpu") for path in paths]
    flights = [run.series("body_q")[:, 0, :3] for run in runs]
    misses = [float(np.linalg.norm(flight[-1] - target)) for flight in flights]
    model = runs[0].model
    eye, state = eye_of(model, THROW, 3, (0,), whole=False), model.state()
    view = THROW.eye, THROW.target, THROW.angle, WIDTH, HEIGHT
    traces = [project(flight, *view) for flight in flights]
    frames = round(seconds / len(runs) * FPS)
    flown = frames - 3
    for k, flight in enumerate(flights):
        miss = f"{1e3 * misses[k]:.{0 if misses[k] > 1e-3 else 3}f} mm"
        for frame in range(frames if k + 1 < len(runs) else frames + round(FPS)):
            row = min(frame * (len(flight) - 1) // flown, len(flight) - 1)
            seen = picture(eye, runs[k].load(row, runs[k].model.state() if k else state))
            seen = draw_traces(seen, [*traces[:k], traces[k][: row + 1]], project(target, *view)[0])
            done = k + (frame >= flown)
            yield draw_misses(seen, misses[:done], len(runs)), f"throw {k + 1} misses by {miss}"


def draw_traces(seen: np.ndarray, traces: list[np.ndarray], target: np.ndarray) -> np.ndarray:
    """Return a picture with the paths of throws, the last one bright, and a cross at the target."""
    image = Image.fromarray(seen)
    draw = ImageDraw.Draw(image)
    for k, trace in enumerate(traces):
        last = k + 1 == len(traces)
        draw.line([*map(tuple, trace)], fill=ACCENT if last else (120, 130, 145), width=5 if last else 2)
    x, y = target
    for side in (-1, 1):
        draw.line((x - 16, y - 16 * side, x + 16, y + 16 * side), fill=make_pictures.MARK, width=8)
    return np.asarray(image)


def draw_misses(seen: np.ndarray, misses: list[float], count: int) -> np.ndarray:
    """Return a picture with a plot of misses [m] over throws, on a logarithmic scale from 1 µm to 10 m."""
    image = Image.fromarray(seen).convert("RGBA")
    left, top, width, height = PLOT
    veil = Image.new("RGBA", image.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(veil)
    draw.rounded_rectangle((left, top, left + width, top + height), 12, fill=(*PAPER, 255))
    font = ImageFont.load_default(26)
    draw.text((left + 18, top + 10), "miss", fill=INK, font=font)
    for power, name in ((0, "1 m"), (-3, "1 mm")):
        y = top + 50 + (height - 70) * (1 - power) / DECADES
        draw.line((left + 92, y, left + width - 18, y), fill=(110, 120, 132), width=2)
        draw.text((left + 18, y - 16), name, fill=INK, font=font)
    across = (left + 104 + (width - 136) * np.arange(count) / (count - 1)).tolist()
    points = [
        (x, top + 50 + (height - 70) * (1 - math.log10(miss)) / DECADES) for x, miss in zip(across, misses)
    ]
    if len(points) > 1:
        draw.line(points, fill=ACCENT, width=4)
    for x, y in points:
        draw.ellipse((x - 7, y - 7, x + 7, y + 7), fill=ACCENT)
    return np.asarray(Image.alpha_composite(image, veil).convert("RGB"))


def field_of_arms(folder: pathlib.Path) -> Iterator[np.ndarray]:
    """Yield pictures of the arms of a PyBullet script, all worlds side by side, from one arm to all."""
    code = make_pictures.code_of(SCRIPT).replace("range(240)", f"range({SCRIPT_STEPS})")
    run = Recording.open(make_pictures.record("pybullet_field", code, folder)[0], "cpu")
    make_pictures.colour_floors(run.model)
    rows = SideBySide(run.model, None, ARM_SPACING)
    eye, state = eye_of(run.model, FIELD[0], 1, (0,), whole=True), run.model.state()
    length = float(run.times[-1])
    for frame in range(round(ARMS * FPS)):
        run.load(run.at(length * frame / (ARMS * FPS) + 1e-6), state)
        rows.move(state)
        view = FIELD[0].towards(FIELD[1], (frame / FPS - 1.0) / (ARMS - 3.5))
        eye.move(view.eye, view.target)
        yield picture(eye, state)


def titled(seen: np.ndarray, title: str, detail: str) -> np.ndarray:
    """Return a picture above a band that has a title and a line below it."""
    image = Image.new("RGB", (WIDTH, HEIGHT + BAND), PAPER)
    image.paste(Image.fromarray(seen))
    draw = ImageDraw.Draw(image)
    draw.text((36, HEIGHT + 8), title, fill=INK, font=ImageFont.load_default(44))
    draw.text((36, HEIGHT + 65), detail, fill=(200, 210, 222), font=ImageFont.load_default(30))
    return np.asarray(image)


def opening(seen: np.ndarray) -> np.ndarray:
    """Return a picture behind the name of the project."""
    image = Image.fromarray(seen).convert("RGBA")
    veil = Image.new("RGBA", image.size, (*PAPER, 165))
    draw = ImageDraw.Draw(veil)
    for text, size, y in (
        ("newtonsim", 150, 230),
        ("robots by the thousand, on a GPU or a CPU,", 48, 412),
        ("with gradients, in Python", 48, 474),
    ):
        font = ImageFont.load_default(size)
        draw.text((0.5 * (WIDTH - draw.textlength(text, font=font)), y), text, fill=INK, font=font)
    return np.asarray(Image.alpha_composite(image, veil).convert("RGB"))


def frames(recordings: pathlib.Path) -> Iterator[np.ndarray]:
    """Yield the pictures of the film."""
    walkers = walking_robots()
    first = next(walkers)
    walk = f"{ROBOTS:,} quadrupeds walk by one policy", "each in a world of its own, drawn side by side"
    begin = titled(first, *walk)
    card = opening(begin)
    yield from itertools.repeat(card, round(OPENING * FPS))
    for part in np.linspace(0.0, 1.0, 7):
        yield ((1.0 - part) * card + part * begin + 0.5).astype(np.uint8)
    for seen in walkers:
        yield titled(seen, *walk)
    (cloth,) = make_pictures.record("twisted_cloth", None, recordings)
    for seen in playback(cloth, TWIST, 0.0, 2.7, 0.36):
        yield titled(seen, "Cloth that never passes through itself", "vertex block descent, slow motion")
    grasp = make_pictures.record("gripper_lifts_cloth", None, recordings)[1]
    for seen in playback(grasp, GRASP, 0.0, 2.4, 0.32):
        yield titled(seen, "A gripper lifts cloth by friction", "solved together, slow motion")
    for seen, text in throws(make_pictures.record("bounce_to_target", None, recordings)[1:], 14.3):
        yield titled(seen, "Gradients through contact find the throw", text)
    for seen in field_of_arms(recordings):
        detail = "sim = BulletClient(p.DIRECT, num_worlds=1024)"
        yield (last := titled(seen, "A PyBullet script in 1,024 worlds", detail))
    end = opening(last)
    for part in np.linspace(0.0, 1.0, 7):
        yield ((1.0 - part) * last + part * end + 0.5).astype(np.uint8)
    yield from itertools.repeat(end, round(CLOSING * FPS))


def save_trailer(path: pathlib.Path, shots: list[Image.Image]) -> None:
    """Write an animated WebP."""
    rate, quality = TRAILER[2:]
    first, *rest = shots
    duration = round(1000 / rate)
    first.save(path, save_all=True, append_images=rest, duration=duration, loop=0, quality=quality, method=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "films")
    parser.add_argument("--recordings", type=pathlib.Path, help="keep the recordings of examples here")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    path = arguments.folder / "newtonsim.mp4"
    with contextlib.ExitStack() as stack:
        recordings = arguments.recordings
        if recordings is None:
            recordings = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        film, trailer = stack.enter_context(contextlib.closing(encoder(path, WIDTH, HEIGHT + BAND, FPS))), []
        width, height, rate, _ = TRAILER
        shown = [begin + k / rate for begin, length in CUTS for k in range(round(length * rate))]
        cuts = {round(time * FPS) for time in shown}
        for number, seen in enumerate(frames(recordings)):
            film.send(np.ascontiguousarray(seen))
            if number == 0:
                save_poster(path, seen)
            if number in cuts:
                trailer.append(Image.fromarray(seen).resize((width, height), Image.Resampling.LANCZOS))
    save_trailer(path.with_suffix(".webp"), trailer)
    for made in (path, path.with_suffix(".webp")):
        print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
