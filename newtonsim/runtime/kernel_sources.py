"""The text of all kernel files: its fingerprint, and whether it is what this process reads."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
from collections.abc import Iterator

import warp as wp

import newtonsim.kernels
from newtonsim.kernels.lazy_warp import READ_SINCE

_MARGIN = 2.0
"""Seconds that a file has to be older than the process, for clocks that tell times of files coarsely."""


@functools.cache
def fingerprint() -> str:
    """Fingerprint of all kernel files and of Warp's version, which with options make up what is compiled."""
    digest = hashlib.sha256(wp.__version__.encode())
    for path in _kernel_files():
        digest.update(os.path.basename(path).encode())
        digest.update(pathlib.Path(path).read_bytes())
    return digest.hexdigest()


@functools.cache
def unchanged() -> bool:
    """Whether kernel files are what this process has read and will read."""
    return max(map(os.path.getmtime, _kernel_files())) < READ_SINCE - _MARGIN


def _kernel_files() -> Iterator[str]:
    for folder in newtonsim.kernels.__path__:
        for place, folders, names in os.walk(folder):
            folders.sort()
            yield from (os.path.join(place, name) for name in sorted(names) if name.endswith(".py"))
