"""What commands do before they simulate: find device and robot, compile kernels."""

from __future__ import annotations

import time

from newtonsim.cli.scene import Robot, sample_scene
from newtonsim.runtime import progress


def device_name(name: str | None) -> str:
    """Return the name of the device to run on.

    Raises:
        NewtonsimError: There is no such device.
    """
    from newtonsim.runtime.devices import find_device

    return str(find_device(name, "--device"))


def default_file() -> str:
    """Return the robot that is used if none is named."""
    from newtonsim.examples.assets import asset_path

    return str(asset_path("quadruped.xml"))


def load_kernels(robot: Robot, device: str) -> float:
    """Compile what Warp's cache lacks, on all cores, and announce it, since the first time takes a while.

    Returns:
        How long it took [s].
    """
    from newtonsim import warmup

    start = time.perf_counter()
    with progress.shown():
        warmup(sample_scene(robot, device))
    return time.perf_counter() - start
