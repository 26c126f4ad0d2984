"""Hashes of kernel files, remembered from process to process.

Warp finds what it compiled by a hash over all that the kernels of a file call, for which it parses all of it:
0.4 s for a robot's step. The hash follows from the text of the kernel files, from options and from Warp's
version. So it is kept in Warp's kernel cache, under a fingerprint of these, and where it is known, nothing is
parsed but the kernels that are launched.

On a machine that has compiled nothing yet, the optional wheel of compiled kernels brings the hashes.

Nothing is remembered of kernels that are not those of our files as they are on the disk: of users' kernels,
of kernels with overloads, and while files change.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterable
from typing import Any

import warp as wp

from newtonsim.kernels.lazy_warp import LazyKernel
from newtonsim.runtime import kernels_wheel
from newtonsim.runtime.kernel_sources import fingerprint, unchanged


class KnownHashes:
    """Hashes of a module and its kernels, in place of Warp's `ModuleHasher`, which would compute them.

    Attributes:
        hash: Hash of the module.
        kernel_hashes: Hash of each kernel.
        unique_kernels: Kernels by hash, in order.
    """

    def __init__(self, kernels: list[LazyKernel], record: dict[str, Any]):
        self.hash = bytes.fromhex(record["hash"])
        self.kernel_hashes = {}
        for kernel in kernels:
            known = record["kernels"][kernel.key]
            kernel.hash = self.kernel_hashes[kernel] = bytes.fromhex(known["hash"])
            # what Warp comes across while it hashes, and asks for at a launch
            kernel.grid_stride = known["grid_stride"]
            kernel.adj.kernel_dim = known["dim"]
            kernel.adj.tid_extent_limit_candidate = known["extent"]
        self.unique_kernels = dict(sorted((value, kernel) for kernel, value in self.kernel_hashes.items()))

    def get_hash(self) -> bytes:
        """Hash of the module."""
        return self.hash

    def get_unique_kernels(self) -> Iterable[wp.Kernel]:
        """Kernels that differ."""
        return self.unique_kernels.values()


def recall(module: wp.Module, block_dim: int) -> bool:
    """Give a module the hashes that it had in an earlier process.

    Args:
        module: The module.
        block_dim: Threads of a block that it is compiled for.

    Returns:
        Whether its hashes are known now.
    """
    if block_dim in module.hashers:
        return True
    kernels = _own_kernels(module)
    record = _record(module, block_dim) if kernels else None
    if record is None or record["kernels"].keys() != {kernel.key for kernel in kernels}:
        return False
    module.hashers[block_dim] = KnownHashes(kernels, record)
    module.resolved_options[block_dim] = module.resolve_options(wp.config, block_dim)
    return True


def compiled(module: wp.Module, device: wp.Device, block_dim: int) -> kernels_wheel.Compiled | None:
    """Where the wheel of compiled kernels has a module as it is now, None if it has not."""
    record = kernels_wheel.records().get(_key(module, block_dim))
    if record is None or record["hash"] != module.get_module_hash(block_dim).hex():
        return None
    return kernels_wheel.compiled(record, device)


def records_of(modules: Iterable[wp.Module], block_dim: int) -> dict[str, dict[str, Any]]:
    """What is remembered of modules that have been hashed, by what it is found under."""
    records = {}
    for module in modules:
        if kernels := _own_kernels(module):
            hashes = module.hashers[block_dim].kernel_hashes
            known = {kernel.key: _facts(kernel, hashes[kernel]) for kernel in kernels}
            text = module.get_module_hash(block_dim).hex()
            records[_key(module, block_dim)] = {"hash": text, "kernels": known}
    return records


def keep(modules: Iterable[wp.Module], block_dim: int) -> None:
    """Remember hashes of modules that have been loaded; where the cache cannot be written to, do nothing."""
    records = records_of(modules, block_dim)
    if records:
        file = _file()
        with contextlib.suppress(OSError):
            _write(file, _read(file) | records)
        _records.cache_clear()


def _facts(kernel: LazyKernel, kernel_hash: bytes) -> dict[str, Any]:
    extent = kernel.adj.tid_extent_limit_candidate
    known = {"grid_stride": kernel.grid_stride, "dim": kernel.adj.kernel_dim, "extent": extent}
    return {"hash": kernel_hash.hex(), **known}


def _own_kernels(module: wp.Module) -> list[LazyKernel]:
    """Kernels of one of our files, none if hashes of them are not to be remembered."""
    kernels = list(module.kernels.values())
    own = all(isinstance(k, LazyKernel) and k.__module__ == module.name and not k.is_generic for k in kernels)
    whole = set(module._live_kernels) == set(kernels) and not module.has_unresolved_static_expressions
    return kernels if own and whole and module.name.startswith("newtonsim.kernels.") and unchanged() else []


def _record(module: wp.Module, block_dim: int) -> dict[str, Any] | None:
    key = _key(module, block_dim)
    return _records(_file()).get(key) or kernels_wheel.records().get(key)


def _key(module: wp.Module, block_dim: int) -> str:
    options = module.resolve_options(wp.config, block_dim)
    text = repr(sorted((name, str(value)) for name, value in options.items()))
    return f"{module.name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _file() -> str:
    return os.path.join(str(wp.config.kernel_cache_dir), f"newtonsim_{fingerprint()[:16]}.json")


@functools.cache
def _records(file: str) -> dict[str, Any]:
    return _read(file)


def _read(file: str) -> dict[str, Any]:
    try:
        return json.loads(pathlib.Path(file).read_text())
    except (OSError, ValueError):
        return {}


def _write(file: str, records: dict[str, Any]) -> None:
    """Write a file at once, so that none who reads it meanwhile finds half of it."""
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(file), delete=False) as part:
        json.dump(records, part)
    os.replace(part.name, file)
