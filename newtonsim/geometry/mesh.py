"""Triangle meshes."""

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry.inertia import mesh_inertia


class Mesh:
    """A triangle mesh with its mass properties at density 1.

    Attributes:
        vertices: Points, shape [n, 3], float32 [m].
        indices: Triangle corners, flat, shape [m * 3], int32; counter-clockwise seen from outside.
        is_solid: Whether the mass properties are those of the inside or of the surface.
        has_inertia: Whether they were computed.
        mass: Mass at density 1 [kg].
        com: Centre of mass (3,) [m].
        I: Inertia about the centre of mass at density 1 (3, 3) [kg m^2].
        mesh: The `wp.Mesh` of the last `finalize`, or None.
    """

    def __init__(
        self,
        vertices: npt.ArrayLike,
        indices: npt.ArrayLike,
        compute_inertia: bool = True,
        is_solid: bool = True,
    ):
        self.vertices = np.array(vertices, dtype=np.float32).reshape(-1, 3)
        self.indices = np.array(indices, dtype=np.int32).reshape(-1)
        if len(self.indices) % 3:
            raise ModelError(f"mesh: {len(self.indices)} indices are no whole number of triangles")
        if len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= len(self.vertices)):
            raise ModelError(f"mesh: an index is outside 0..{len(self.vertices) - 1}")
        if not np.all(np.isfinite(self.vertices)):
            raise ModelError("mesh: a vertex is not finite")
        self.is_solid = is_solid
        self.has_inertia = compute_inertia
        self.mass, self.com, self.I = 1.0, np.zeros(3), np.eye(3)
        self.mesh: wp.Mesh | None = None
        if compute_inertia:
            self.mass, self.com, self.I = mesh_inertia(1.0, self.vertices, self.indices, is_solid)

    def finalize(self, device: wp.DeviceLike = None, requires_grad: bool = False) -> int:
        """Create the `wp.Mesh` on a device; `self.mesh` keeps it alive.

        Returns:
            The id that kernels take (uint64).
        """
        points = wp.array(self.vertices, dtype=wp.vec3, device=device, requires_grad=requires_grad)
        indices = wp.array(self.indices, dtype=wp.int32, device=device)
        self.mesh = wp.Mesh(points=points, indices=indices)
        return self.mesh.id

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corner of the box about the vertices [m], zeros without any."""
        if not len(self.vertices):
            return np.zeros(3), np.zeros(3)
        return self.vertices.min(axis=0), self.vertices.max(axis=0)

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.indices) // 3} triangles)"
