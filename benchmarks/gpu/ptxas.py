"""Registers, stack and shared memory of kernels, from the assembler of CUDA; no GPU is needed."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

import warp as wp

from newtonsim.runtime.compile_locks import CompileLock
from newtonsim.runtime.indexing import index_plainly


class NoAssembler(RuntimeError):
    """There is no `ptxas` that reads what Warp writes."""


@dataclass(frozen=True)
class Resources:
    """What a kernel takes.

    Attributes:
        registers: Of each thread.
        stack: Local memory of each thread [B].
        spills: Of that, what is written and read since registers are short [B].
        shared: Shared memory of a block [B].
    """

    registers: int
    stack: int
    spills: int
    shared: int


@functools.cache
def assembler() -> str:
    """Return the path of `ptxas`: that of PyPI's nvidia-cuda-nvcc, or else the system's.

    Raises:
        NoAssembler: There is none.
    """
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(pathlib.Path(folder).glob("*/bin/ptxas")):
            return str(path)
    if found := shutil.which("ptxas"):
        return found
    raise NoAssembler("no ptxas: pip install nvidia-cuda-nvcc, or newtonsim[bench] or [test]")


def resources(module: wp.Module, arch: int) -> dict[str, Resources]:
    """Compile a kernel file and return what its kernels take, by their names.

    Args:
        module: The kernel file.
        arch: Architecture, such as 90 for sm_90.

    Raises:
        NoAssembler: There is no assembler, or it refuses what Warp has compiled.
    """
    return assembled(compiled(module, arch), arch)


@functools.cache
def compiled(module: wp.Module, arch: int) -> bytes:
    """Return the intermediate code of a kernel file, which cards of this architecture and later ones read.

    It is compiled once, which takes a quarter of a minute for some files; then it is in the kernel cache.
    """
    index_plainly(module)
    with CompileLock(f"{module.get_module_identifier()}_{arch}") as lock:
        lock.acquire(wait=True)
        (path,) = wp.compile_aot_module(module, arch=arch, use_ptx=True)
    # Warp ends the text with a NUL, which ptxas takes for an error
    return path.read_bytes().rstrip(b"\0")


def assembled(code: bytes, arch: int) -> dict[str, Resources]:
    """Return what the kernels in intermediate code take on an architecture, by their names.

    Raises:
        NoAssembler: There is no assembler, or it refuses the code.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "kernels.ptx")
        path.write_bytes(code)
        command = [assembler(), f"-arch=sm_{arch}", "-v", "-o", str(path.with_suffix(".cubin")), str(path)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise NoAssembler(f"{' '.join(command[:3])}: {answer.stderr.splitlines()[0]}")
    return _parsed(answer.stderr)


def _parsed(text: str) -> dict[str, Resources]:
    """Return what `ptxas -v` says of each forward kernel."""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'", 1)[0]
        if (kernel := re.fullmatch(r"(\w+)_[0-9a-f]{8}_cuda_kernel_forward", name)) is None:
            continue
        found[kernel[1]] = Resources(
            registers=_number(r"Used (\d+) registers", part),
            stack=_number(r"(\d+) bytes stack frame", part),
            spills=_number(r"(\d+) bytes spill stores", part) + _number(r"(\d+) bytes spill loads", part),
            shared=_number(r"(\d+) bytes smem", part),
        )
    return found


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
