"""Draw the pictures of docs/renderers.md with SimRendererOpenGL.

python docs/make_renderer_pictures.py [--folder FOLDER]
"""

import argparse
import pathlib

import numpy as np
import warp as wp
from PIL import Image

import newtonsim
from newtonsim.examples import asset_path, scenes
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver, XPBDSolver
from newtonsim.utils import SimRendererOpenGL

DT = 1.0 / 240.0
SIZE = {"screen_width": 640, "screen_height": 400}


def tiles() -> np.ndarray:
    """Six quadrupeds, pushed more and more, with their joints and contacts."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    parse_mjcf(asset_path("quadruped.xml"), robot, floating=None, ignore_inertial_definitions=False)
    robot.joint_q[:] = robot.keyframes[0]["joint_q"]
    robot.joint_act[:] = robot.keyframes[0]["joint_act"]
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    builder.replicate(robot, 6, spacing=(2, 2, 0))
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    simulator.step(240)
    velocity = simulator.state.joint_qd.numpy().reshape(6, -1).copy()
    velocity[:, 4] += np.linspace(0.0, 1.5, 6)
    simulator.state.joint_qd.assign(velocity.reshape(-1))
    simulator.step(72)
    renderer = SimRendererOpenGL(model, show_joints=True, headless=True, draw_axis=False, **SIZE)
    renderer.tile_worlds()
    return drawn(renderer, simulator, contacts=True)


def mat() -> np.ndarray:
    """A quadruped that has dropped onto a soft mat."""
    model = scenes.quadruped_on_mat().finalize("cpu")
    deformables = XPBDSolver(model, iterations=4, substeps=5)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model, deformables=deformables), DT)
    simulator.step(240)
    renderer = SimRendererOpenGL(model, headless=True, draw_axis=False, **SIZE)
    renderer.look_at((1.1, -1.3, 0.8), (0.0, 0.0, 0.15))
    return drawn(renderer, simulator, contacts=False)


def drawn(renderer: SimRendererOpenGL, simulator: newtonsim.Simulator, contacts: bool) -> np.ndarray:
    """Return the picture of the simulator's state."""
    renderer.begin_frame(simulator.time)
    renderer.render(simulator.state)
    if contacts:
        renderer.render_contacts(simulator.state, contact_point_radius=0.01)
    renderer.end_frame()
    picture = renderer.picture()
    renderer.close()
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "pictures")
    folder = parser.parse_args().folder
    wp.config.log_level = wp.LOG_ERROR
    for name, draw in {"renderer_tiles": tiles, "renderer_mat": mat}.items():
        picture = Image.fromarray(draw()).quantize(128, dither=Image.Dither.NONE)
        picture.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
