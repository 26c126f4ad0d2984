"""``newtonsim doctor``: what works on this machine, and what is missing for the rest."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from importlib import metadata

from newtonsim.cli.warmup import folder_size
from newtonsim.runtime.extras import missing_packages

_EXTRAS = {
    "view": "viewer in the browser",
    "plot": "plots and drawings of models",
    "video": "videos",
    "opengl": "windows on the desktop",
    "mesh": "COLLADA meshes",
    "decompose": "convex decomposition of meshes",
    "tetrahedra": "tetrahedra from surfaces",
    "torch": "gradients and tensors with PyTorch",
    "jax": "gradients and arrays with JAX",
    "envs": "Gymnasium environments",
    "learn": "training and running policies",
    "stable-baselines3": "training with Stable-Baselines3",
    "skrl": "training with skrl",
    "ray": "training on a Ray cluster",
    "mujoco": "MuJoCoSolver",
    "server": "the PyBullet server",
    "completion": "shell completion",
}
"""What each extra is for, except the extras for developers."""


def doctor(arguments: argparse.Namespace) -> int:
    """Print versions, devices, the kernel cache and extras."""
    rows = [*_versions(), *_devices(), *_kernels(), *_extras()]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name.ljust(width)}  {text}" for name, text in rows))
    return 0


def _versions() -> Iterator[tuple[str, str]]:
    for name in ("newtonsim", "warp-lang", "numpy"):
        yield name, metadata.version(name)
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _devices() -> Iterator[tuple[str, str]]:
    import warp as wp

    from newtonsim.runtime.compilation import core_count

    for device in wp.get_devices():
        if device.is_cpu:
            yield "cpu", f"{core_count()} cores"
        else:
            yield str(device), f"{device.name}, sm_{device.arch}, {device.total_memory / 2**30:.0f} GiB"
    if not wp.is_cuda_available():
        yield "cuda", "no driver, or no GPU that the driver supports: everything runs on the CPU"


def _kernels() -> Iterator[tuple[str, str]]:
    import warp as wp

    folder = str(wp.config.kernel_cache_dir)
    yield "kernel cache", f"{folder}, {folder_size(folder) / 1e6:.0f} MB"


def _extras() -> Iterator[tuple[str, str]]:
    for extra, purpose in _EXTRAS.items():
        if missing := missing_packages(extra):
            yield extra, f"{purpose}: missing {', '.join(missing)}, pip install 'newtonsim[{extra}]'"
        else:
            yield extra, f"{purpose}: installed"
