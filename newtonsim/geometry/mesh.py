"""Triangle meshes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry.inertia import mesh_inertia
from newtonsim.runtime.devices import find_device

if TYPE_CHECKING:
    from newtonsim.geometry.hull import ConvexHull

MOST_HULL_VERTICES = 64
"""Vertices that a mesh's convex hull has at most unless told otherwise."""
_EMPTY = 1.0e-9
"""Volume of a closed mesh, over its extent cubed, up to which it counts as a sheet."""


class Mesh:
    """A triangle mesh with its mass properties at density 1.

    Triangles without area, duplicate vertices and vertices that no triangle uses are allowed: they do not
    collide and have no mass. A mesh is a solid for collisions if each of its edges joins two triangles and
    their normals look outwards; otherwise it is a sheet that is touched from both sides.

    Attributes:
        vertices: Points, shape [n, 3], float32 [m].
        indices: Triangle corners, flat, shape [m * 3], int32; counter-clockwise seen from outside.
        is_solid: Whether the mass properties are those of the inside or of the surface.
        has_inertia: Whether they were computed.
        mass: Mass at density 1 [kg].
        com: Centre of mass (3,) [m].
        I: Inertia about the centre of mass at density 1 (3, 3) [kg m^2].
        name: Name of the mesh in messages, or None.
        uvs: Texture coordinates of the triangles' corners, shape [m * 3, 2], float32, v up; None for none.
        texture: Image that they refer to, shape [height, width, 3 or 4], uint8, rows from the top; or None.
        max_hull_vertices: Greatest number of vertices of its convex hull, see `newtonsim.geometry.hull`.
        mesh: The `wp.Mesh` of the last `finalize`, or None. Its points are the vertices that triangles use.
    """

    def __init__(
        self,
        vertices: npt.ArrayLike,
        indices: npt.ArrayLike,
        compute_inertia: bool = True,
        is_solid: bool = True,
        name: str | None = None,
        uvs: npt.ArrayLike | None = None,
        texture: np.ndarray | None = None,
        max_hull_vertices: int = MOST_HULL_VERTICES,
    ):
        self.name = name
        self.max_hull_vertices = max_hull_vertices
        self.vertices = self._numbers(vertices, np.float32, "vertices").reshape(-1, 3)
        self.indices = self._numbers(indices, np.int32, "indices").reshape(-1)
        if len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= len(self.vertices)):
            raise ModelError(f"{self.label}: an index is outside 0..{len(self.vertices) - 1}")
        if not np.all(np.isfinite(self.vertices)):
            first = int(np.flatnonzero(~np.isfinite(self.vertices).all(axis=1))[0])
            raise ModelError(f"{self.label}: vertex {first} is not finite")
        self.uvs = None if uvs is None else self._corner_uvs(uvs)
        self.texture = self._image(texture)
        self.is_solid = is_solid
        self.has_inertia = compute_inertia
        self.mass, self.com, self.I = 1.0, np.zeros(3), np.eye(3)
        self.mesh: wp.Mesh | None = None
        self._hulls: dict[tuple, ConvexHull] = {}
        if compute_inertia:
            self.mass, self.com, self.I = mesh_inertia(1.0, self.vertices, self.indices, is_solid)

    def _numbers(self, values: npt.ArrayLike, dtype: type, what: str) -> np.ndarray:
        """Read a multiple of three numbers."""
        try:
            with np.errstate(over="ignore"):  # what is too large is reported as not finite
                array = np.array(values, dtype=dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{self.label}: the {what} are not numbers: {error}") from error
        if array.size % 3:
            raise ModelError(f"{self.label}: {array.size} numbers are not whole triples of {what}")
        return array

    def _corner_uvs(self, uvs: npt.ArrayLike) -> np.ndarray:
        """Read texture coordinates of corners, for triangles (m, 3, 2) or flat (3 m, 2)."""
        try:
            array = np.array(uvs, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.label}: the uvs are not numbers: {error}") from error
        count = len(self.indices)
        if array.shape not in ((count, 2), (count // 3, 3, 2)):
            raise ModelError(f"{self.label}: uvs: expected shape ({count}, 2), got {array.shape}")
        if not np.isfinite(array).all():
            raise ModelError(f"{self.label}: uvs: a number is not finite")
        return array.reshape(-1, 2)

    def _image(self, texture: np.ndarray | None) -> np.ndarray | None:
        if texture is None:
            return None
        if self.uvs is None:
            raise ModelError(f"{self.label}: a texture needs uvs")
        image = np.asarray(texture)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (3, 4) or not image.size:
            text = f"expected (height, width, 3 or 4) uint8, got {image.shape} {image.dtype}"
            raise ModelError(f"{self.label}: texture: {text}")
        return image

    @property
    def label(self) -> str:
        """Name of the mesh in messages."""
        return "mesh" if self.name is None else f"mesh '{self.name}'"

    @functools.cached_property
    def surface(self) -> tuple[np.ndarray, np.ndarray]:
        """The vertices that triangles use (n, 3) and the triangles (m, 3), numbered as in `indices`."""
        triangles = self.indices.reshape(-1, 3)
        used = np.zeros(len(self.vertices), bool)
        used[triangles] = True
        if used.all() or not used.any():
            return self.vertices, triangles
        place = np.cumsum(used, dtype=np.int32) - 1
        return self.vertices[used], place[triangles]

    @functools.cached_property
    def is_closed(self) -> bool:
        """Whether the mesh bounds a solid: each edge joins two triangles, and normals look outwards."""
        vertices, triangles = self.surface
        corners = weld(vertices)[triangles].astype(np.int64)
        corners = corners[(corners != np.roll(corners, 1, axis=1)).all(axis=1)]
        if not len(corners):
            return False
        start, end = corners.reshape(-1), np.roll(corners, -1, axis=1).reshape(-1)
        count = len(vertices)
        if not np.array_equal(np.sort(start * count + end), np.sort(end * count + start)):
            return False
        middle = vertices.mean(axis=0, dtype=np.float64)
        a, b, c = (vertices[triangles[:, k]] - middle for k in range(3))
        volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0
        return bool(volume > _EMPTY * np.max(np.ptp(vertices, axis=0)).astype(np.float64) ** 3)

    def convex_hull(self, scale: npt.ArrayLike = (1.0, 1.0, 1.0)) -> ConvexHull:
        """Return the hull of the surface scaled along the mesh axes; each is computed once.

        Args:
            scale: Scale (3,).
        """
        from newtonsim.geometry.kept_hulls import convex_hull

        scale = np.asarray(scale)
        key = tuple(scale.tolist())
        if key not in self._hulls:
            self._hulls[key] = convex_hull(self.surface[0] * scale, self.max_hull_vertices)
        return self._hulls[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "mesh": None}  # which lives on a device

    def finalize(self, device: wp.DeviceLike = None, requires_grad: bool = False) -> int:
        """Create the `wp.Mesh` on a device, unless the last one is there; `self.mesh` keeps it alive.

        Args:
            device: Device, None for Warp's default.
            requires_grad: Whether gradients can flow to its points; then it is always a new one.

        Returns:
            The id that kernels take (uint64).

        Raises:
            ModelError: If there are no triangles.
        """
        device = find_device(device)
        mesh = self.mesh
        reusable = mesh is not None and mesh.device == device and not mesh.points.requires_grad
        if mesh is not None and reusable and not requires_grad:
            return mesh.id
        vertices, triangles = self.surface
        if not len(triangles):
            raise ModelError(f"{self.label}: has no triangles")
        points = wp.array(vertices, dtype=wp.vec3, device=device, requires_grad=requires_grad)
        indices = wp.array(triangles.reshape(-1), dtype=wp.int32, device=device)
        self.mesh = wp.Mesh(points=points, indices=indices)
        return self.mesh.id

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corner of the box about the surface [m], zeros if there is none."""
        lower, upper = self._bounds
        return lower.copy(), upper.copy()

    @functools.cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        vertices, _ = self.surface
        if not len(vertices):
            return np.zeros(3), np.zeros(3)
        return vertices.min(axis=0), vertices.max(axis=0)

    def convex_decomposition(
        self, max_parts: int = 32, concavity: float = 0.05, seed: int = 0, effort: float = 1.0
    ) -> list[Mesh]:
        """Split the solid into nearly convex parts, see `newtonsim.geometry.decompose`.

        Args:
            max_parts: Largest number of parts.
            concavity: Largest distance of a part's surface from its hull, relative to the extent of the mesh.
            seed: Seed of the search.
            effort: Fraction of the usual search, in (0, 1].
        """
        from newtonsim.geometry.decompose import convex_decomposition

        parts = convex_decomposition(self.surface, self.label, max_parts, concavity, seed, effort)
        name = self.name or "mesh"
        if isinstance(parts, tuple):
            return [Mesh(*parts, name=name)]
        return [Mesh(points, faces, name=f"{name}, part {k}") for k, (points, faces) in enumerate(parts)]

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.indices) // 3} triangles)"


def weld(vertices: np.ndarray) -> np.ndarray:
    """Return for each vertex (n, 3) a number (n,) that vertices at the same place share."""
    # -0.0 and 0.0 are the same place
    _, same = np.unique(vertices + np.float32(0.0), axis=0, return_inverse=True)
    return same.reshape(-1)
