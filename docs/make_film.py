"""Make the film of the README: a policy in a thousand worlds, cloth, an optimisation, and a PyBullet script.

    python docs/make_film.py [--folder FOLDER] [--recordings FOLDER]

Needs newtonsim[learn,plot,torch]. With --recordings the simulations of examples are kept, and used again.
"""

import argparse
import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator

import make_pictures
import numpy as np
import warp as wp
from PIL import Image, ImageDraw, ImageFont

import newtonsim
from newtonsim import envs
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.learn import PolicyFile
from newtonsim.render import Camera, Lighting, Pinhole, look_at

WIDTH, HEIGHT, FPS = 960, 540, 12.5
QUALITY = 55
UP = (0.0, 0.0, 1.0)
ROBOTS, SPACING, SECONDS = 1024, 1.5, 6.0
RAYS = 4
FILM = {"width": WIDTH, "height": HEIGHT, "fps": FPS}
PARTS = {
    "gripper_lifts_cloth": (
        "Cloth and a gripper, with friction in both directions",
        {"runs": ((1,),), "speed": 0.5},
    ),
    "bounce_to_target": ("Gradients through contact: six iterations of a throw", {"speed": 0.4}),
    "pybullet_batch": ("A PyBullet script in a thousand worlds, ten of them drawn together", {}),
}
"""Films of `make_pictures`, their titles, and what is different here."""


def walking_robots() -> Iterator[np.ndarray]:
    """Yield pictures of robots that walk by one policy, each in a world of its own, drawn on a grid."""
    policy = PolicyFile(asset_path("policies/velocity.onnx"))
    env = envs.make(policy.about["name"], ROBOTS, device="cpu")
    robot = newtonsim.ModelBuilder(up_vector=UP)
    parse_mjcf(asset_path("quadruped.xml"), robot, ignore_inertial_definitions=False)
    assert robot.body_count * ROBOTS == env.model.body_count
    robot.shape_flags = [int(newtonsim.ShapeFlags.VISIBLE)] * len(robot.shape_flags)
    crowd = newtonsim.ModelBuilder(up_vector=UP)
    for _ in range(ROBOTS):
        crowd.add_builder(robot, update_num_env_count=False)
    crowd.set_ground_plane()
    model = crowd.finalize("cpu")
    side = round(ROBOTS**0.5)
    places = (np.indices((side, side)).reshape(2, -1).T - 0.5 * (side - 1)) * SPACING
    camera = Camera(
        model,
        WIDTH,
        HEIGHT,
        pose=look_at((13.0, -12.0, 5.5), (1.5, -1.5, 0.0)),
        lens=Pinhole(fov=38.0),
        lighting=Lighting.fine(UP, reach=0.4, rays=RAYS),
        samples=2,
    )
    state = model.state()
    obs, _ = env.reset(seed=2)
    steps = round(env.metadata["render_fps"] / FPS)
    for _ in range(round(SECONDS * FPS)):
        for _ in range(steps):
            obs, *_ = env.step(policy(obs))
        poses = env.sim.state.body_q.numpy().reshape(ROBOTS, -1, 7).copy()
        poses[..., :2] += places[:, None]
        state.body_q.assign(poses.reshape(-1, 7))
        yield camera.render(state)["rgb"].numpy()[0, 0].copy()


def titled(picture: np.ndarray, title: str) -> Image.Image:
    """Return a picture with a title at its lower edge."""
    image = Image.fromarray(picture)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(24)
    draw.text(
        (24, HEIGHT - 44), title, fill=(20, 24, 30), font=font, stroke_width=2, stroke_fill=(255, 255, 255)
    )
    return image


def frames(recordings: pathlib.Path) -> Iterator[Image.Image]:
    """Yield the pictures of the film."""
    title = f"{ROBOTS:,} quadrupeds, each in a world of its own, walk by one policy"
    for picture in walking_robots():
        yield titled(picture, title)
    for name, (title, changes) in PARTS.items():
        film = dataclasses.replace(make_pictures.FILMS[name], **FILM, **changes)
        for picture in make_pictures.shoot(film, make_pictures.record(name, film.source, recordings)):
            yield titled(picture, title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "films")
    parser.add_argument("--recordings", type=pathlib.Path, help="keep the recordings of examples here")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    path = arguments.folder / "newtonsim.webp"
    with contextlib.ExitStack() as stack:
        recordings = arguments.recordings
        if recordings is None:
            recordings = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        first, *rest = frames(recordings)
    first.save(
        path, save_all=True, append_images=rest, duration=round(1000 / FPS), loop=0, quality=QUALITY, method=4
    )
    print(f"{path}: {1 + len(rest)} pictures, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
