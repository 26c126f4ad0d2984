"""Take the pictures of docs/cameras.md with `newtonsim.render.Camera` and with the facade's getCameraImage.

And what the environments of docs/envs.md observe that see.

python docs/make_camera_pictures.py [NAME ...] [--folder FOLDER]
"""

import argparse
import functools
import math
import pathlib
from collections.abc import Callable

import numpy as np
import warp as wp

import newtonsim
from newtonsim import envs
from newtonsim.examples import asset_path, scenes
from newtonsim.importers import parse_mjcf, parse_urdf
from newtonsim.render import Camera, Fisheye, Lighting, Pinhole, look_at
from newtonsim.render.films.pictures import Pictures
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver

DT = 1.0 / 240.0
WIDTH, HEIGHT = 1280, 960
SAMPLES = 2  # along each side of a pixel
COLORS, QUALITY = 256, 90
OBSERVED = ("camera_kinds", "env_frames")
"""Pictures that are written without loss."""

UP = (0.0, 0.0, 1.0)


ADD_SHAPE = (
    lambda builder, body: builder.add_shape_sphere(body, radius=0.1),
    lambda builder, body: builder.add_shape_box(body, hx=0.12, hy=0.08, hz=0.06),
    lambda builder, body: builder.add_shape_capsule(body, radius=0.06, half_height=0.08),
    lambda builder, body: builder.add_shape_cylinder(body, radius=0.08, half_height=0.09),
    lambda builder, body: builder.add_shape_cone(body, radius=0.1, half_height=0.09),
    lambda builder, body: builder.add_shape_ellipsoid(body, a=0.13, b=0.09, c=0.07),
)
"""Shapes of the pile."""


def new_scene() -> newtonsim.ModelBuilder:
    """Return a builder with a ground."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.set_ground_plane()
    return builder


def smooth(colors: np.ndarray) -> np.ndarray:
    """Return means over the samples of each pixel (rows, columns, 3)."""
    rows, columns, _ = colors.shape
    samples = colors.reshape(rows // SAMPLES, SAMPLES, columns // SAMPLES, SAMPLES, 3)
    return samples.astype(np.float64).mean(axis=(1, 3))


def shoot(model: newtonsim.Model, state: newtonsim.State, eye, target, fov: float = 40.0) -> np.ndarray:
    """Return a picture (rows, columns, 3), 0..255."""
    light = Lighting.fine(UP, reach=0.1 * math.dist(eye, target))
    camera = Camera(
        model, WIDTH, HEIGHT, pose=look_at(eye, target), lens=Pinhole(fov), lighting=light, samples=SAMPLES
    )
    return camera.render(state)["rgb"].numpy()[0, 0]


def standing_quadruped() -> tuple[newtonsim.Model, newtonsim.State]:
    """The quadruped in its first pose."""
    builder = new_scene()
    parse_mjcf(asset_path("quadruped.xml"), builder)
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return model, state


def quadruped() -> np.ndarray:
    """The robot by day."""
    return shoot(*standing_quadruped(), (0.9, -1.0, 0.6), (0.0, 0.0, 0.2))


def quality(name: str) -> np.ndarray:
    """The robot as films and sheets show it."""
    model, state = standing_quadruped()
    return Pictures(model, width=640, height=400, quality=name).take(state)


def kinds() -> np.ndarray:
    """Depth, normals and bodies of the robot, and what a fisheye on its trunk sees."""
    model, state = standing_quadruped()
    half = {"width": WIDTH // 2, "height": HEIGHT // 2}
    eye = look_at((0.9, -1.0, 0.6), (0.0, 0.0, 0.2))
    outputs = ("depth", "normal", "body")
    images = Camera(model, **half, pose=eye, lens=Pinhole(40.0), outputs=outputs).render(state)
    depth, normal, body = (images[name].numpy()[0, 0] for name in outputs)
    near = np.clip((depth - 0.8) / 2.0, 0.0, 1.0)[..., None] * np.full(3, 255.0)
    palette = np.random.default_rng(4).uniform(60.0, 255.0, (model.body_count + 1, 3))
    palette[-1] = 40.0
    below = look_at((0.0, 0.0, 0.3), (1.0, 0.0, -0.3))
    lens = Fisheye(200.0)
    fish = Camera(model, **half, pose=below, body="trunk", lens=lens).render(state)["rgb"].numpy()[0, 0]
    upper = np.concatenate([near, 127.5 * (normal + 1.0)], axis=1)
    return np.concatenate([upper, np.concatenate([palette[np.maximum(body, -1)], fish], axis=1)])


def arm() -> np.ndarray:
    """An arm on a table with things on it."""
    builder = new_scene()
    wood, steel = (0.62, 0.45, 0.30, 1.0), (0.45, 0.47, 0.50, 1.0)
    top = builder.add_shape_box(-1, pos=(0.35, 0.0, 0.68), hx=0.6, hy=0.5, hz=0.02)
    builder.shape_color[top] = wood
    for x in (-0.2, 0.9):
        for y in (-0.45, 0.45):
            leg = builder.add_shape_box(-1, pos=(x, y, 0.33), hx=0.03, hy=0.03, hz=0.33)
            builder.shape_color[leg] = steel
    parse_urdf(
        asset_path("arm7.urdf"), builder, xform=((0.0, 0.0, 0.7), (0.0, 0.0, 0.0, 1.0)), floating=False
    )
    builder.joint_q[-7:] = [0.3, 0.7, 0.0, 1.3, 0.0, 0.9, 0.0][: len(builder.joint_q[-7:])]
    rng = np.random.default_rng(3)
    for k in range(9):
        size, place = rng.uniform(0.03, 0.05), (0.45 + 0.15 * (k % 3), 0.22 * (k // 3) - 0.3)
        kind = k % 3
        if kind == 0:
            new = builder.add_shape_box(-1, pos=(*place, 0.7 + size), hx=size, hy=size, hz=size)
        elif kind == 1:
            new = builder.add_shape_sphere(-1, pos=(*place, 0.7 + size), radius=size)
        else:
            new = builder.add_shape_cylinder(
                -1, pos=(*place, 0.7 + size), radius=0.8 * size, half_height=size, up_axis=2
            )
        builder.shape_color[new] = (*rng.uniform(0.25, 0.9, 3), 1.0)
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return shoot(model, state, (2.3, -2.3, 1.9), (0.2, 0.0, 1.0))


def pile() -> np.ndarray:
    """Shapes of all kinds that have fallen on hills."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    upright = (2.0**-0.5, 0.0, 0.0, 2.0**-0.5)
    builder.add_shape_heightfield(-1, rot=upright, heightfield=scenes.containers.hills(height=0.25))
    rng = np.random.default_rng(1)
    for k in range(60):
        place = (0.28 * (k % 5 - 2), 0.28 * (k // 5 % 4 - 1.5), 0.4 + 0.28 * (k // 20))
        turn = rng.normal(size=4)
        body = builder.add_body(origin=(*place, *(turn / np.linalg.norm(turn))))
        ADD_SHAPE[k % 6](builder, body)
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    for _ in range(480):
        simulator.step()
    return shoot(simulator.model, simulator.state, (1.5, -2.0, 1.3), (0.0, 0.0, 0.1))


def soft() -> np.ndarray:
    """A cloth over a ball, a soft cube and grains."""
    builder = new_scene()
    ball = builder.add_shape_sphere(-1, pos=(-0.35, 0.0, 0.3), radius=0.3)
    builder.shape_color[ball] = (0.85, 0.85, 0.88, 1.0)
    cell, still = 0.96 / 24, (0.0, 0.0, 0.0, 1.0)
    builder.add_cloth_grid(
        (-0.8, -0.45, 0.64), still, (0.0, 0.0, 0.0), 24, 24, cell, cell, 3.0e-4, edge_ke=0.1, edge_kd=0.0
    )
    builder.add_soft_grid(
        (0.3, -0.2, 0.05), still, (0.0, 0.0, 0.0), 4, 4, 4, 0.08, 0.08, 0.08, 300.0, 2.0e4, 2.0e4, 10.0
    )
    rng = np.random.default_rng(0)
    for _ in range(200):
        place = rng.uniform((-0.1, -0.75, 0.03), (0.7, -0.45, 0.5))
        builder.add_particle(tuple(place), (0.0, 0.0, 0.0), 0.01, radius=0.022)
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, XPBDSolver(model, iterations=8, substeps=4), DT)
    for _ in range(300):
        simulator.step()
    return shoot(model, simulator.state, (1.1, -2.1, 1.1), (0.0, -0.1, 0.22), 36.0)


def kitchen() -> np.ndarray:
    """Robot files with textures, in the facade."""
    import newtonsim.pybullet_compat as p

    client = p.connect(p.DIRECT)
    folder = pathlib.Path(p.__file__).parent / "data"
    p.setAdditionalSearchPath(str(folder))
    p.loadURDF("plane.urdf")
    p.loadURDF("table/table.urdf", [0.0, 0.0, 0.0])
    for name, place, scale in (
        ("duck_vhacd.urdf", (0.3, -0.15, 0.63), 2.5),
        ("soccerball.urdf", (-0.05, 0.25, 0.75), 0.25),
        ("tray/tray.urdf", (-0.35, -0.1, 0.63), 0.8),
        ("jenga/jenga.urdf", (0.1, -0.3, 0.66), 1.0),
        ("domino/domino.urdf", (0.0, -0.1, 0.66), 1.0),
    ):
        if (folder / name).exists():
            p.loadURDF(name, place, globalScaling=scale)
    p.loadURDF("franka_panda/panda.urdf", [-0.55, 0.25, 0.63], useFixedBase=True)
    view = p.computeViewMatrix([1.9, -2.2, 1.9], [-0.1, 0.05, 0.9], UP)
    lens = p.computeProjectionMatrixFOV(40.0, WIDTH / HEIGHT, 0.1, 30.0)
    picture = p.getCameraImage(
        SAMPLES * WIDTH, SAMPLES * HEIGHT, view, lens, lightDirection=[0.4, -0.5, 1.0], shadow=1
    )
    p.disconnect(client)
    return smooth(picture[2][..., :3])


def frames() -> np.ndarray:
    """Return observations of environments that see: the four frames of two worlds each, the oldest left."""
    rows = []
    for name, steps in (("CartPoleVision", 12), ("ReacherVision", 9)):
        env = envs.make(name, 2, device="cpu", autoreset_mode="Disabled")
        obs, _ = env.reset(seed=4)
        ahead = np.array([0, 1]) if env.task.discrete_actions else np.array([[0.2, 0.1], [-0.2, 0.3]])
        for _ in range(steps):
            obs = env.step(ahead)[0]
        framed = np.pad(obs, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=90)
        rows.append(np.concatenate([*np.moveaxis(framed[0], -1, 0), *np.moveaxis(framed[1], -1, 0)], axis=1))
    sheet = np.concatenate(rows)
    return np.repeat(sheet[..., None], 3, axis=2)


PICTURES: dict[str, Callable[[], np.ndarray]] = {
    "camera_quadruped": quadruped,
    "quality_plain": functools.partial(quality, "plain"),
    "quality_fine": functools.partial(quality, "fine"),
    "camera_kinds": kinds,
    "camera_arm": arm,
    "camera_pile": pile,
    "camera_soft": soft,
    "camera_kitchen": kitchen,
    "env_frames": frames,
}


def save(path: pathlib.Path, picture: np.ndarray) -> None:
    """Write a JPEG, or observations as a PNG with few colours."""
    from PIL import Image

    pixels = Image.fromarray((picture + 0.5).clip(0.0, 255.0).astype(np.uint8))
    if path.suffix == ".png":
        pixels.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    else:
        pixels.save(path, quality=QUALITY, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "pictures")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or PICTURES:
        path = arguments.folder / f"{name}.{'png' if name in OBSERVED else 'jpg'}"
        save(path, PICTURES[name]())
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
