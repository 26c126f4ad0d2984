"""A real browser, headless: Debian's Chromium, or one that the environment variable CHROMIUM names."""

import os
import shutil

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
