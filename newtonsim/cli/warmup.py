"""``newtonsim warmup``: compile kernels ahead."""

from __future__ import annotations

import argparse
import os
import time

from newtonsim.cli.scene import load_robot, sample_scene
from newtonsim.cli.start import start_device
from newtonsim.runtime import progress


def warmup(arguments: argparse.Namespace) -> int:
    """Compile what the arguments ask for, and print what was compiled and where it is cached."""
    import warp as wp

    import newtonsim

    device = start_device(arguments.device)
    scenes = [sample_scene(load_robot(path, arguments.base, hold=True), device) for path in arguments.files]
    start = time.perf_counter()
    compiled: list[str] = []
    with progress.shown():
        for scene in scenes:
            compiled += newtonsim.warmup(scene, gradients=arguments.gradients)
        if arguments.all or not scenes:
            compiled += newtonsim.warmup(device=device, gradients=arguments.gradients)
    if compiled:
        count = len(compiled)
        print(f"compiled {count} kernel modules for {device} in {time.perf_counter() - start:.1f} s")
    else:
        print(f"nothing to compile for {device}: all kernels are in the cache")
    folder = str(wp.config.kernel_cache_dir)
    print(f"kernel cache: {folder}, {folder_size(folder) / 1e6:.0f} MB")
    return 0


def folder_size(folder: str) -> int:
    """Size of all files in a folder [bytes]; another process may be removing some."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(root, name))
            except OSError:
                continue
    return total
