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


def start_device(name: str | None) -> str:
    """Return the name of the device to simulate on, as `device_name`.

    On a machine that has compiled nothing, Warp's headers are read from now on, while a robot is read and a
    scene is built.
    """
    from newtonsim.kernels.steps.replay import repeat_launches
    from newtonsim.runtime import compilation
    from newtonsim.runtime.devices import find_device

    device = device_name(name)
    compilation.begin(repeat_launches.module, find_device(device))
    return device


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
