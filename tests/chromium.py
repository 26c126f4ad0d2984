"""A real browser, headless: Debian's Chromium, or one that the environment variable CHROMIUM names."""

import os
import shutil
import time

import numpy as np
import pytest

FLAGS = (
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--disable-dev-shm-usage",
)


def chromium() -> str | None:
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    if path is None:
        message = "the viewer is tested in Chromium, which is missing: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield program
        program.close()


def until(condition, page, seconds=20.0):
    """Let the browser work until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened in the browser"
        page.wait_for_timeout(50)


def picture(viewer):
    """What the browser draws, without the controls; three numbers a pixel."""
    client = next(iter(viewer._server.get_clients().values()))
    return client.get_render(120, 180, transport_format="png", timeout=20.0)[..., :3].astype(float)


def changed(before, after):
    """Share of the pixels that differ."""
    return (np.abs(before - after).max(axis=2) > 30).mean()


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    for fraction in np.linspace(0.0, 1.0, 6)[1:]:
        page.mouse.move(*((1.0 - fraction) * np.array(start) + fraction * np.array(end)))
        page.wait_for_timeout(60)
