"""Convex decomposition of mesh files (vhacd), by the CoACD library of the extra `decompose`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newtonsim.errors import ImportFileError, ModelError
from newtonsim.geometry import Mesh
from newtonsim.pybullet_compat.readers.mesh_files import read_mesh_file

EFFORT = 0.25
"""Share of CoACD's search: the duck of pybullet_data takes 15 s instead of a minute."""
_CONCAVITY_FACTOR = 20.0
"""CoACD measures concavity as a distance, V-HACD as a volume; this brings its default to CoACD's own."""


def decompose_file(path: str, out: str, log: str, concavity: float, max_parts: int) -> list[Mesh]:
    """Write the convex parts of a mesh file as groups of a Wavefront file.

    Args:
        path: Mesh file.
        out: Wavefront file to write.
        log: Text file to write, "" for none.
        concavity: V-HACD's largest concavity.
        max_parts: Most parts.

    Returns:
        The parts.

    Raises:
        ImportFileError: The mesh is not readable, or the library is not installed.
        OSError: A file cannot be written.
    """
    mesh = read_mesh_file(path).whole(np.ones(3))[0]
    threshold = float(np.clip(_CONCAVITY_FACTOR * concavity, 0.01, 1.0))
    try:
        parts = mesh.convex_decomposition(max_parts, threshold, effort=EFFORT)
    except ModelError as error:
        raise ImportFileError(str(error), path) from error
    lines, start = [], 1
    for number, part in enumerate(parts):
        lines.append(f"o convex_{number}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in part.vertices.tolist()]
        lines += [f"f {a} {b} {c}" for a, b, c in (part.indices.reshape(-1, 3) + start).tolist()]
        start += len(part.vertices)
    Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    if log:
        corners = sum(len(part.vertices) for part in parts)
        Path(log).write_text(f"{path}: {len(parts)} convex parts, {corners} vertices\n", encoding="utf-8")
    return parts
