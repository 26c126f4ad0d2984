"""Warp's C++ headers, read once for all threads and later processes.

All kernels for a CPU include them, and it takes Clang two seconds to read them. Warp keeps what Clang makes
of them, a precompiled header, for the one thread that needed it. Here, it is kept in the kernel cache, and
threads wait for the one that reads the headers, instead of reading them as well. Warp discards a precompiled
header that cannot be used, and writes another.

This depends on Warp's internals, and is active only in tested versions.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import time
from typing import Any

import warp as wp

from newtonsim.kernels import lazy_warp

_PATIENCE = 30.0
"""How long [s] a thread waits for another that reads the headers, before it reads them itself."""
_TICK = 0.01

_lock = threading.Lock()
_readers: dict[str, tuple[int, float]] = {}


@functools.cache
def share() -> None:
    """Have Warp keep precompiled headers in the kernel cache, if files that are read can be replaced."""
    if _supported():
        runtime: Any = wp._src.context.runtime  # pyright: ignore[reportAttributeAccessIssue]
        runtime.get_clang_pch_dir = _folder_to_use


def are_missing() -> bool:
    """Whether the first kernel that is compiled for a CPU will have the headers read for the kernel cache."""
    return _supported() and not _are_kept(_folder(str(wp.config.kernel_cache_dir)))


@functools.cache
def _supported() -> bool:
    runtime: Any = wp._src.context.runtime  # pyright: ignore[reportAttributeAccessIssue]
    return lazy_warp.TRIED and os.name == "posix" and runtime.llvm is not None


def _are_kept(folder: str) -> bool:
    return os.path.isdir(folder) and any(name.endswith(".pch") for name in os.listdir(folder))


def _folder_to_use() -> str:
    """Where the calling thread finds precompiled headers, or is to write them."""
    folder = _folder(str(wp.config.kernel_cache_dir))
    os.makedirs(folder, exist_ok=True)
    while not _are_kept(folder) and not _is_reader(folder):
        time.sleep(_TICK)
    return folder


def _is_reader(folder: str) -> bool:
    """Whether the calling thread is to read the headers, because no other has begun to a short time ago."""
    own, now = threading.get_ident(), time.monotonic()
    with _lock:
        reader, since = _readers.get(folder, (own, now))
        if reader != own and now - since < _PATIENCE:
            return False
        _readers[folder] = own, now
        return True


@functools.cache
def _folder(cache: str) -> str:
    """Folder for this processor and these headers; its name is one that `wp.clear_kernel_cache` clears."""
    native = os.path.join(os.path.dirname(str(wp.__file__)), "native")
    digest = hashlib.sha256(wp.get_cpu_kernel_cache_key(cpu_compiler_flags="-march=native").encode())
    for entry in sorted(os.scandir(native), key=lambda entry: entry.name):
        if entry.name.endswith(".h"):
            status = entry.stat()
            digest.update(f"{entry.path} {status.st_size} {status.st_mtime_ns}".encode())
    return os.path.join(cache, f"wp_newtonsim_headers_{digest.hexdigest()[:8]}")
