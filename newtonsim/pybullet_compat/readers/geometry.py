"""Geometries of all formats: cylinders as hulls, mesh files, and the files that robot files refer to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from newtonsim.geometry import Mesh
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry
from newtonsim.pybullet_compat.descriptions.kinds import Geom
from newtonsim.pybullet_compat.readers.mesh_files import read_mesh_file

CYLINDER_SIDES = 32
UNNAMED_MESH = "unknown_file"
"""File name that PyBullet reports for the hull of a cylinder."""


def cylinder_hull(radius: float, length: float, pose: Pose) -> Geometry:
    """A cylinder along z as the prism with 32 sides that PyBullet makes of it."""
    meshes = _prism(radius, length)
    return Geometry(Geom.MESH, pose, radius=radius, height=length, file=UNNAMED_MESH, meshes=meshes)


@lru_cache(maxsize=256)
def _prism(radius: float, length: float) -> list[Mesh]:
    n = CYLINDER_SIDES
    angles = 2.0 * np.pi * np.arange(n) / n
    ring = np.column_stack([radius * np.sin(angles), radius * np.cos(angles)])
    top = np.column_stack([ring, np.full(n, 0.5 * length)])
    bottom = top * np.array([1.0, 1.0, -1.0])
    here, after = np.arange(n), (np.arange(n) + 1) % n
    fan = np.arange(1, n - 1)
    faces = np.concatenate(
        [
            np.column_stack([here, here + n, after]),
            np.column_stack([after, here + n, after + n]),
            np.column_stack([np.zeros_like(fan), fan + 1, fan]),
            np.column_stack([np.zeros_like(fan), fan, fan + 1]) + n,
        ]
    )
    # the ring runs clockwise seen from above, hence the order of corners
    return [Mesh(np.concatenate([top, bottom]), faces[:, ::-1], compute_inertia=False, name="cylinder")]


def mesh_geometry(
    path: str, scale: Sequence[float], pose: Pose, *, concave: bool = False, use_cache: bool = True
) -> Geometry:
    """Collision geometry of a mesh file: one hull per group of an OBJ file, one for others."""
    file = read_mesh_file(path, use_cache)
    scale = np.asarray(scale, dtype=np.float64)
    meshes = file.whole(scale) if concave or not path.lower().endswith(".obj") else file.groups(scale)
    return Geometry(
        Geom.MESH, pose, scale=tuple(scale.tolist()), file=path, meshes=list(meshes), concave=concave
    )


def find_file(name: str, document: str) -> str | None:
    """Find a file that a robot file refers to.

    It is looked for in the folder of the document, the folders above it, and the working directory;
    `package://`, `model://` and `file://` are dropped.

    Returns:
        Its name as the API reports it: the parts are put together as text. None when there is none.
    """
    for scheme in ("package://", "model://", "file://"):
        name = name.removeprefix(scheme)
    if os.path.isabs(name) and os.path.isfile(name):
        return name
    folder = os.path.dirname(document)
    while folder.strip("/"):
        candidate = f"{folder}/{name}"
        if os.path.isfile(candidate):
            return candidate
        folder = os.path.dirname(folder)
    return next((path for path in (name, f"../{name}", f"../../{name}") if os.path.isfile(path)), None)
