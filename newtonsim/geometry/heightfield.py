"""Height fields."""

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry.mesh import Mesh


class Heightfield:
    """A grid of heights above a rectangle, the ground of a landscape.

    In the shape's frame the height is along local y, columns run along local x and rows along local z,
    centred.

    Attributes:
        heights: Heights [m], shape (rows, columns).
        size: Extent (x, z) of the rectangle [m].
    """

    def __init__(self, heights: npt.ArrayLike, size: tuple[float, float] = (1.0, 1.0)):
        self.heights = np.array(heights, dtype=np.float32)
        if self.heights.ndim != 2 or min(self.heights.shape) < 2:
            raise ModelError(f"height field: expected at least 2 x 2 heights, got shape {self.heights.shape}")
        if not np.all(np.isfinite(self.heights)):
            raise ModelError("height field: a height is not finite")
        if not min(size) > 0.0:
            raise ModelError(f"height field: size {size} must be positive")
        self.size = (float(size[0]), float(size[1]))
        self._mesh: Mesh | None = None

    @property
    def mesh(self) -> wp.Mesh | None:
        """The `wp.Mesh` of the last `finalize`, or None."""
        return None if self._mesh is None else self._mesh.mesh

    def to_mesh(self) -> Mesh:
        """Return the surface as a triangle mesh with upward normals, two triangles per cell."""
        if self._mesh is None:
            rows, columns = self.heights.shape
            x = np.linspace(-0.5, 0.5, columns) * self.size[0]
            z = np.linspace(-0.5, 0.5, rows) * self.size[1]
            vertices = np.stack([np.tile(x, rows), self.heights.reshape(-1), np.repeat(z, columns)], axis=1)
            corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
            right, below, across = corner + 1, corner + columns, corner + columns + 1
            triangles = np.stack([corner, below, right, right, below, across], axis=1)
            self._mesh = Mesh(vertices, triangles, compute_inertia=False)
        return self._mesh

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corner of the box about the surface [m]."""
        return self.to_mesh().bounds()

    def finalize(self, device: wp.DeviceLike = None) -> int:
        """Create the surface as a `wp.Mesh` on a device and return its id."""
        return self.to_mesh().finalize(device)
