"""Build the wheel `newtonsim-kernels`: compiled kernels, so that a fresh machine compiles nothing.

    python tools/build_kernels_wheel.py dist [--only trees constraints] [--cuda-arch 80 90]

Objects are for the kind of machine that this runs on, at a common level of its CPUs
(`newtonsim.runtime.kernels_wheel.CPU_LEVELS`): Warp's compiler generates code for no other kind, so the wheel
for AArch64 is built on AArch64. Machine code of GPUs can be made anywhere, without one. Files that have
gradients are there with and without code for the backward pass.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import importlib
import json
import pathlib
import platform
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import warp as wp

import newtonsim
from newtonsim.kernel_warmup import kernel_module_names
from newtonsim.runtime import compilation, kernels_wheel, remembered
from newtonsim.runtime.indexing import index_plainly
from newtonsim.runtime.kernel_sources import fingerprint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the wheel is written")
    parser.add_argument("--only", nargs="*", help="kernel files or folders, such as trees or steps.reset")
    parser.add_argument(
        "--cuda-arch", type=int, nargs="*", default=[], help="also for GPUs of these compute capabilities"
    )
    options = parser.parse_args()
    names = kernel_module_names()
    if options.only is not None:
        chosen = tuple(f"newtonsim.kernels.{name}." for name in options.only)
        names = [name for name in names if f"{name}.".startswith(chosen)]
    with tempfile.TemporaryDirectory() as folder:
        content = compile_all(names, pathlib.Path(folder), options.cuda_arch)
        path = write_wheel(options.folder, pathlib.Path(folder), content)
    print(f"{path}: {len(content['records'])} modules, {path.stat().st_size / 1e6:.1f} MB")


def compile_all(names: list[str], folder: pathlib.Path, cuda_archs: Sequence[int] = ()) -> dict[str, Any]:
    """Compile kernel files.

    Args:
        names: Python names of the files.
        folder: Where the compiled files are written.
        cuda_archs: Compute capabilities of GPUs, such as 90.

    Returns:
        The index of the wheel.
    """
    sources = fingerprint()
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    kernels = [value for value in values if isinstance(value, wp.Kernel) and value.__module__ in names]
    modules = list(dict.fromkeys(kernel.module for kernel in kernels))
    records: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(compilation.core_count()) as workers:
        for differentiable in (False, True):
            if differentiable:
                modules = [module for module in modules if compilation.is_differentiable(module)]
                compilation.enable_backward(*modules)
            for arch in (None, *cuda_archs):
                compiling = partial(compile_module, folder=folder, arch=arch)
                for found in workers.map(compiling, modules):
                    for key, record in found.items():
                        records.setdefault(key, record | {"binaries": []})["binaries"] += record["binaries"]
    _, features = kernels_wheel.CPU_LEVELS[platform.machine()]
    return {
        "newtonsim": newtonsim.__version__,
        "warp": wp.__version__,
        "fingerprint": sources,
        "machine": kernels_wheel.machine(),
        "features": features,
        "records": records,
    }


def compile_module(module: wp.Module, folder: pathlib.Path, arch: int | None) -> dict[str, dict[str, Any]]:
    """Compile a module as it is now, for CPUs or a kind of GPU; return what the index says of it."""
    index_plainly(module)
    blocks = 1 if arch is None else compilation.BLOCK_DIM
    module.get_module_hash(blocks)
    found = remembered.records_of([module], blocks)
    for record in found.values():
        stem = f"{module.name.removeprefix('newtonsim.kernels.')}.{record['hash'][:16]}"
        with tempfile.TemporaryDirectory(dir=folder) as built, portable(module, blocks):
            if arch is None:
                (binary,) = wp.compile_aot_module(module, device="cpu", module_dir=built)
            else:
                (binary,) = wp.compile_aot_module(module, arch=arch, module_dir=built, use_ptx=False)
                stem = f"{stem}.sm{arch}"
            (meta,) = pathlib.Path(built).glob("*.meta")
            files = {"binary": stem + pathlib.Path(binary).suffix, "meta": stem + ".meta"}
            record["binaries"] = [{"arch": arch, **files}]
            pathlib.Path(binary).rename(folder / files["binary"])
            meta.rename(folder / files["meta"])
    return found


@contextlib.contextmanager
def portable(module: wp.Module, block_dim: int) -> Iterator[None]:
    """Options of a module for CPUs of the common level in place of the one at hand."""
    level, _ = kernels_wheel.CPU_LEVELS[platform.machine()]
    flags = (wp.config.cpu_compiler_flags or "-march=native").replace("-march=native", f"-target-cpu {level}")
    before = dict(module.options)
    wp.set_module_options({"cpu_compiler_flags": flags, "block_dim": block_dim}, module=module)
    try:
        yield
    finally:
        wp.set_module_options(before, module=module)


def write_wheel(folder: pathlib.Path, compiled: pathlib.Path, index: dict[str, Any]) -> pathlib.Path:
    """Write a wheel.

    Args:
        folder: Where it is written.
        compiled: Folder of the compiled files.
        index: The index of the wheel.

    Returns:
        Its path.
    """
    version, machine = newtonsim.__version__, platform.machine()
    tag = f"py3-none-manylinux_2_28_{machine}"
    info = f"{kernels_wheel.PACKAGE}-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: newtonsim-kernels\nVersion: {version}\nLicense: Apache-2.0\n"
        "Summary: Compiled kernels of newtonsim\nRequires-Python: >=3.11\n"
    )
    wheel_text = f"Wheel-Version: 1.0\nGenerator: newtonsim\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {
        f"{kernels_wheel.PACKAGE}/__init__.py": b'"""Compiled kernels of newtonsim; nothing to import."""\n',
        f"{kernels_wheel.PACKAGE}/index.json": json.dumps(index).encode(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": wheel_text.encode(),
    }
    for path in sorted(compiled.iterdir()):
        files[f"{kernels_wheel.PACKAGE}/compiled/{path.name}"] = path.read_bytes()
    lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{kernels_wheel.PACKAGE}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
