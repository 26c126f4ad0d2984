"""Make the picture of the robots of the zoo, docs/pictures/zoo.png: each in its keyframe "home".

python docs/make_zoo_picture.py [--folder FOLDER]
"""

import argparse
import pathlib
import warnings

import numpy as np
from PIL import Image

from newtonsim import ModelBuilder
from newtonsim.errors import UnsupportedElementWarning
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.render import Camera, Lighting, Pinhole, look_at

VIEWS = {
    "go2_like": ((0.75, -0.95, 0.55), (0.0, 0.0, 0.2), 40.0),
    "g1_like": ((1.7, -1.6, 1.1), (0.0, 0.0, 0.65), 40.0),
    "fr3_like": ((1.35, -1.35, 0.85), (0.15, 0.0, 0.4), 38.0),
    "allegro_like": ((0.33, 0.3, 0.28), (0.0, 0.0, 0.12), 38.0),
    "crazyflie_like": ((0.42, -0.33, 0.3), (0.0, 0.0, 0.012), 14.0),
}
"""Where a camera is, what it looks at [m], and its vertical field of view [deg], by robot."""
SIZE, SAMPLES = 320, 2
"""Pixels of a side of a picture, and rays along each side of a pixel."""
LIGHT = Lighting(direction=(0.35, -0.45, 0.82), ambient=0.6, background=(0.93, 0.95, 0.98, 1.0), shadowed=0.1)


def picture_of(name: str) -> np.ndarray:
    """Return the picture of a robot on the ground, (SIZE, SIZE, 3)."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        parse_mjcf(asset_path(f"zoo/{name}.xml"), builder, ignore_inertial_definitions=False, keyframe="home")
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    side = SAMPLES * SIZE
    eye, target, fov = VIEWS[name]
    camera = Camera(model, side, side, pose=look_at(eye, target), lens=Pinhole(fov), lighting=LIGHT)
    colors = camera.render(model.state())["rgb"].numpy()[0, 0].astype(float)
    return colors.reshape(SIZE, SAMPLES, SIZE, SAMPLES, 3).mean(axis=(1, 3)).astype(np.uint8)


def main() -> None:
    """Put the pictures side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=pathlib.Path(__file__).parent / "pictures", type=pathlib.Path)
    folder = parser.parse_args().folder
    strip = np.concatenate([picture_of(name) for name in VIEWS], axis=1)
    Image.fromarray(strip).quantize(128).save(folder / "zoo.png", optimize=True)


if __name__ == "__main__":
    main()
