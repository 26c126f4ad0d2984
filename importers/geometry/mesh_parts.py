"""Records of mesh files, and how large they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(slots=True, eq=False)
class Material:
    """What a mesh file says about one material.

    Attributes:
        rgba: Diffuse colour and opacity.
        texture: Image file for the diffuse colour, "" for none.
        image: Image for it that the mesh file holds, as Pillow has it, or None.
    """

    rgba: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    texture: str = ""
    image: Any = None


@dataclass(slots=True, eq=False)
class MeshPart:
    """One group of a mesh file.

    Attributes:
        vertices: Points, shape (n, 3), float64 [m].
        faces: Corners of triangles, shape (m, 3), int32.
        uvs: Texture coordinates of the points (n, 2), or None.
        material: Its material, or None.
        group: Number of the group that it belongs to; one group may have several materials.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray | None = None
    material: Material | None = None
    group: int = 0
