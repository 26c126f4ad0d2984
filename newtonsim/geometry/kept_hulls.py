"""Convex hulls of meshes, kept beside Warp's kernel cache.

A hull of a robot's mesh takes 50 ms, and the import of SciPy for the first one 300 ms, at each start of each
program. It depends only on the points and on `newtonsim.geometry.hull`, and is found by a hash of both.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import tempfile
import zipfile

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.geometry import hull as hulls
from newtonsim.geometry.hull import ConvexHull


def convex_hull(points: npt.ArrayLike, max_vertices: int = 64) -> ConvexHull:
    """Return the hull of points, from the cache if it was computed before.

    Args:
        points: Points, shape (n, 3) [m].
        max_vertices: As in `ConvexHull`.

    Raises:
        ModelError: If there are no points, one is not finite, or `max_vertices` is less than 6.
    """
    points = np.ascontiguousarray(points)
    path = _path(points, max_vertices)
    if path is None:
        return ConvexHull(points, max_vertices)
    # a file that is not there, or not whole, or not of hulls
    unreadable = contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
    with unreadable, np.load(path, allow_pickle=False) as arrays:
        return ConvexHull.from_arrays(dict(arrays))
    hull = ConvexHull(points, max_vertices)
    with contextlib.suppress(OSError):
        _write(path, hull.to_arrays())
    return hull


def _path(points: np.ndarray, max_vertices: int) -> pathlib.Path | None:
    """Return where the hull of points is cached; None while Warp has no cache."""
    if wp.config.kernel_cache_dir is None:
        return None
    digest = hashlib.sha256(_source())
    digest.update(f"{points.dtype} {points.shape} {max_vertices}".encode())
    digest.update(points.tobytes())
    return pathlib.Path(wp.config.kernel_cache_dir, "newtonsim_hulls", f"{digest.hexdigest()[:32]}.npz")


@functools.cache
def _source() -> bytes:
    return pathlib.Path(hulls.__file__).read_bytes()


def _write(path: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a file atomically, so that nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        np.savez(part, allow_pickle=False, **arrays)
    os.replace(part.name, path)
