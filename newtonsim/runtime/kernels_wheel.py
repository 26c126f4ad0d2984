"""Compiled kernels out of a wheel, `newtonsim-kernels`, for machines that have compiled nothing yet.

`tools/build_kernels_wheel.py` builds it on a machine of the kind that it is for: objects for CPUs of a common
level, where those of Warp's cache are for the CPU at hand, and machine code of GPUs; not PTX, which drivers
older than Warp's compiler do not read. A module is found in it by its hash. It
is used where Warp's version and the kernel files are those that it was built from and the machine has what
it was compiled for; otherwise one line says why it is left alone.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import pathlib
import platform
import sys
from dataclasses import dataclass
from typing import Any

import warp as wp

from newtonsim.runtime.kernel_sources import fingerprint

PACKAGE = "newtonsim_kernels"

CPU_LEVELS = {
    "x86_64": ("x86-64-v3", ("avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm")),
    "aarch64": ("generic", ("asimd",)),
}
"""Level of CPU that objects are compiled for, and its features in `/proc/cpuinfo`, by kind of machine."""


@dataclass(frozen=True)
class Compiled:
    """Files of a compiled module.

    Attributes:
        binary: Path of the object or the GPU's machine code.
        meta: Path of what Warp notes beside it.
        arch: Compute capability that machine code was made for, such as 90; None on a CPU.
    """

    binary: pathlib.Path
    meta: pathlib.Path
    arch: int | None


def records() -> dict[str, dict[str, Any]]:
    """What the wheel holds, as `remembered` keeps it; nothing if there is none that fits."""
    return _index().get("records", {})


def compiled(record: dict[str, Any], device: wp.Device) -> Compiled | None:
    """Files for a device of one of the `records`, None if they are for other devices.

    A GPU runs machine code of its own major compute capability, up to its minor one.
    """
    own = None if device.is_cpu else device.arch
    fitting = [one for one in record["binaries"] if _runs_on(one["arch"], own)]
    if not fitting:
        return None
    found = max(fitting, key=lambda one: one["arch"] or 0)
    folder = pathlib.Path(_folder() or "", "compiled")
    return Compiled(folder / found["binary"], folder / found["meta"], found["arch"])


def _runs_on(arch: int | None, own: int | None) -> bool:
    """Whether code for a compute capability, or for a CPU, runs on a GPU, or on a CPU."""
    if arch is None or own is None:
        return arch is own
    return arch // 10 == own // 10 and arch <= own


def machine() -> dict[str, str]:
    """What objects for a CPU depend on: the system and the kind of machine."""
    return {"system": platform.system(), "machine": platform.machine()}


def misfit(index: dict[str, Any]) -> str | None:
    """Why a wheel's contents do not fit this installation and this machine, None if they do."""
    if index.get("warp") != wp.__version__:
        return f"it is for Warp {index.get('warp')}, but this is {wp.__version__}"
    if index.get("fingerprint") != fingerprint():
        return f"it was built from other kernels, those of newtonsim {index.get('newtonsim')}"
    if index.get("machine") != machine():
        return f"it is for another machine, {index.get('machine')}"
    lacking = set(index["features"]) - _cpu_features()
    return f"this CPU lacks {', '.join(sorted(lacking))}" if lacking else None


def leave_alone(reason: str) -> None:
    """Say on stderr that the wheel is not used, once."""
    _say(f"newtonsim: the wheel of compiled kernels is not used: {reason}")


@functools.cache
def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


@functools.cache
def _folder() -> str | None:
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec else None
    return places[0] if places else None


@functools.cache
def _index() -> dict[str, Any]:
    """The wheel's list of contents, empty if there is no wheel or none that fits."""
    folder = _folder()
    if folder is None:
        return {}
    try:
        index = json.loads(pathlib.Path(folder, "index.json").read_text())
        reason = misfit(index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"its index cannot be read: {error}"
    if reason is None:
        return index
    leave_alone(reason)
    return {}


def _cpu_features() -> set[str]:
    """Features of this CPU by the names of Linux; none where they are not told."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    found = (line.partition(":")[2] for line in lines if line.lower().startswith(("flags", "features")))
    return set(next(found, "").split())
