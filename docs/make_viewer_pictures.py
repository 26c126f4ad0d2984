"""Pictures of the viewer: python docs/make_viewer_pictures.py (needs the extra `test` and Chromium)."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from newtonsim import Simulator
from newtonsim.cli.scene import build_scene, load_robot, vary_start
from newtonsim.examples import asset_path
from newtonsim.render.viewer import Viewer
from newtonsim.solvers import FeatherstoneSolver

FOLDER = Path(__file__).parent / "pictures"
SIZE = {"width": 1000, "height": 620}
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
LOADING = 20.0
"""Time that a browser without a GPU takes to draw everything [s]."""


def main() -> None:
    """Make all pictures."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        shoot(browser, "viewer", 9, lambda viewer: viewer.mouse.pick(0))
        shoot(browser, "viewer_marks", 1, show_marks)


def show_marks(viewer: Viewer) -> None:
    """Switch on what can be shown besides the shapes."""
    for label in ("Contacts", "Body frames", "Joint axes", "Centres of mass"):
        viewer.show_mark(label)


def shoot(browser: Browser, name: str, worlds: int, prepare: Callable[[Viewer], None]) -> None:
    """Let quadrupeds stand for a second, and take a picture of the page."""
    robot = load_robot(asset_path("quadruped.xml"), hold=True)
    model = build_scene(robot, worlds, "cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), robot.time_step)
    if worlds > 1:
        state = simulator.state.clone()
        vary_start(model, state, seed=0)
        simulator.reset(state=state)
    with Viewer(model, port=0) as viewer:
        page = browser.new_page(viewport=SIZE)
        page.goto(viewer.url)
        page.add_style_tag(content=".mantine-Notification-root { display: none !important }")
        playback = viewer.run(simulator)
        while viewer.frame.time < 1.0:
            time.sleep(0.02)
        playback.playing = False
        page.wait_for_timeout(1000.0 * LOADING)
        prepare(viewer)
        page.wait_for_timeout(1000.0 * LOADING)
        shot = Image.open(io.BytesIO(page.screenshot(timeout=120_000))).convert("RGB")
        shot.quantize(40).save(FOLDER / f"{name}.png", optimize=True)
        page.close()


if __name__ == "__main__":
    main()
