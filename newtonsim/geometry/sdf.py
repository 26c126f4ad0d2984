"""Signed distance fields."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry.mesh import Mesh
from newtonsim.runtime import compilation
from newtonsim.runtime.devices import find_device

_MOST_VALUES = 2**28
"""Largest number of samples of a grid."""

_MOST_POINTS = 4096
"""Largest number of surface points that are tested against other fields and meshes."""


class SDF:
    """A signed distance field stored in a `wp.Volume`, with mass properties at density 1.

    Contacts expect true distances: a gradient of length 1 near the surface.

    Attributes:
        volume: Field of distances [m], negative inside, or None before `finalize` of a field from a mesh.
        I: Inertia about the centre of mass at density 1 (3, 3) [kg m^2].
        mass: Mass at density 1 [kg].
        com: Centre of mass (3,) [m].
    """

    def __init__(
        self,
        volume: wp.Volume | None = None,
        I: npt.ArrayLike | None = None,
        mass: float = 1.0,
        com: npt.ArrayLike | None = None,
    ):
        self.volume = volume
        self.I = np.eye(3) if I is None else np.array(I, dtype=np.float64).reshape(3, 3)
        self.mass = mass
        self.com = np.zeros(3) if com is None else np.array(com, dtype=np.float64).reshape(3)
        self.has_inertia = True
        self.is_solid = True
        self._values: np.ndarray | None = None
        self._lower = np.zeros(3)
        self._voxel = 0.0
        self._mesh: Mesh | None = None

    @classmethod
    def from_mesh(
        cls,
        mesh: Mesh,
        resolution: int = 64,
        voxel_size: float | None = None,
        margin: float | None = None,
        device: wp.DeviceLike = None,
    ) -> SDF:
        """Sample the distance from a closed mesh on a grid.

        Args:
            mesh: The mesh; its mass properties become those of the field.
            resolution: Voxels along the longest side of the mesh.
            voxel_size: Side of a voxel [m], instead of `resolution`.
            margin: Width of the grid beyond the mesh [m], None for three voxels.
            device: Where to compute.

        Raises:
            ModelError: If the mesh is not closed or is inside out, or a size is invalid.
        """
        if not mesh.is_closed:
            raise ModelError(
                f"{mesh.label}: a distance field needs a closed mesh with outward normals; this one has "
                "borders, edges of more than two triangles, or is inside out"
            )
        lower, upper = (corner.astype(np.float64) for corner in mesh.bounds())
        if voxel_size is None:
            if not resolution >= 2:
                raise ModelError(f"{mesh.label}: a distance field needs a resolution of 2 or more")
            voxel_size = float(np.max(upper - lower)) / resolution
        margin = 3.0 * voxel_size if margin is None else margin
        if not (
            voxel_size > 0.0 and np.isfinite(voxel_size) and margin >= voxel_size and np.isfinite(margin)
        ):
            raise ModelError(
                f"{mesh.label}: voxel size {voxel_size:g} must be positive, and margin {margin:g} at least "
                "as large"
            )
        shape = np.ceil((upper - lower + 2.0 * margin) / voxel_size) + 1.0
        if np.prod(shape) > _MOST_VALUES:
            raise ModelError(
                f"{mesh.label}: a voxel size of {voxel_size:g} makes {np.prod(shape):.3g} voxels"
            )
        shape = shape.astype(int)
        sdf = cls(None, mesh.I, mesh.mass, mesh.com)
        sdf._mesh, sdf._voxel = mesh, float(voxel_size)
        sdf._lower = 0.5 * (lower + upper) - 0.5 * voxel_size * (shape - 1)
        sdf._values = _distances(mesh, sdf._lower, sdf._voxel, shape, device)
        return sdf

    @property
    def source_mesh(self) -> Mesh | None:
        """The mesh that the field was sampled from, None if there was none."""
        return self._mesh

    @functools.cached_property
    def _zero_surface(self) -> Mesh | None:
        """Triangles where the field of a volume is zero, by marching cubes; None if there is no field."""
        if self.volume is None:
            return None
        from warp.geometry import IsoSurfaceMarchingCubes

        voxels = self.volume.get_voxels().numpy()
        low, high = voxels.min(axis=0), voxels.max(axis=0)
        shape = high - low + 1
        if np.prod(shape, dtype=np.int64) > _MOST_VALUES:
            raise ModelError(f"a field of {'x'.join(map(str, shape))} samples is too large to be drawn")
        index = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), axis=-1).reshape(-1, 3)
        values, _ = _read(self.volume, _to_world(self.volume, index + low))
        field = wp.array(values.reshape(shape).astype(np.float32), dtype=float, device=self.volume.device)
        # nodes of the grid at whole numbers, since the axes of a volume may be turned
        corners, triangles = IsoSurfaceMarchingCubes.extract(
            field, lower=wp.vec3(0.0), upper=wp.vec3(*(float(n - 1) for n in shape))
        )
        points = _to_world(self.volume, corners.numpy().astype(np.float64) + low)
        return Mesh(points, triangles.numpy(), compute_inertia=False)

    def to_mesh(self) -> Mesh | None:
        """Return the surface as a triangle mesh: the source mesh, or where the volume is zero; None without.

        Raises:
            ModelError: The volume has too many samples.
        """
        return self._mesh if self._mesh is not None else self._zero_surface

    def __getstate__(self) -> dict[str, Any]:
        held = dict(vars(self))
        if self.volume is not None:
            held["volume"] = None if self._values is not None else self.volume.array().numpy().copy()
        return held

    def __setstate__(self, held: dict[str, Any]) -> None:
        if held["volume"] is not None:
            held["volume"] = wp.Volume(wp.array(held["volume"], dtype=wp.uint8, device="cpu"))
        self.__dict__.update(held)

    def finalize(self, device: wp.DeviceLike = None) -> int:
        """Copy the field to a device, if it is not there yet.

        Returns:
            The id of the volume for kernels, 0 without one.
        """
        device = find_device(device)
        if self.volume is not None and self.volume.device == device:
            return self.volume.id
        if self._values is not None:
            far = float(self._values.max())
            self.volume = wp.Volume.load_from_numpy(
                self._values, tuple(self._lower.tolist()), self._voxel, far, device
            )
        elif self.volume is not None:
            data = wp.array(self.volume.array().numpy(), dtype=wp.uint8, device=device)
            self.volume = wp.Volume(data)
        return self.volume.id if self.volume is not None else 0

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corner of the box in which the field is defined [m]."""
        if self._values is not None:
            return self._lower, self._lower + self._voxel * (np.array(self._values.shape) - 1)
        if self.volume is None:
            return np.zeros(3), np.zeros(3)
        corners = _to_world(self.volume, self._known[0])
        return corners.min(axis=0), corners.max(axis=0)

    @functools.cached_property
    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices (n, 3) and values (n,) of the samples of a volume, without those that pad its tiles."""
        voxels = self.volume.get_voxels().numpy()
        values, _ = _read(self.volume, _to_world(self.volume, voxels))
        used = np.abs(values) < np.abs(values).max()
        return voxels[used], values[used]

    @functools.cached_property
    def surface_points(self) -> np.ndarray:
        """Points on the surface where it is not flat, in the field's frame, shape (n, 3) [m]."""
        if self._mesh is not None:
            points = _feature_points(self._mesh, 2.0 * self._voxel)
        elif self.volume is not None:
            voxels, values = self._known
            points = _to_world(self.volume, voxels[np.abs(values) < max(self.volume.get_voxel_size())])
            values, slopes = _read(self.volume, points)
            points = points - values[:, None] * slopes
        else:
            return np.zeros((0, 3))
        if len(points) > _MOST_POINTS:
            points = points[np.random.default_rng(0).permutation(len(points))[:_MOST_POINTS]]
        return points

    def __repr__(self) -> str:
        return f"SDF({'no field' if self.volume is None and self._values is None else self.bounds()})"


def _distances(
    mesh: Mesh, lower: np.ndarray, voxel: float, shape: np.ndarray, device: wp.DeviceLike
) -> np.ndarray:
    """Signed distances from a closed mesh on a grid (nx, ny, nz) [m]."""
    from newtonsim.kernels.collision.surfaces.distance_grid import measure_distances

    vertices, triangles = mesh.surface
    surface = wp.Mesh(
        wp.array(vertices, dtype=wp.vec3, device=device),
        wp.array(triangles.reshape(-1), dtype=wp.int32, device=device),
        support_winding_number=True,
    )
    distance = wp.zeros(int(np.prod(shape)), dtype=float, device=device)
    compilation.launch(
        measure_distances,
        reads=dict(mesh=surface.id, lower=wp.vec3(*lower), voxel=voxel, ny=int(shape[1]), nz=int(shape[2])),
        writes=dict(distance=distance),
        dim=len(distance),
        device=device,
    )
    return distance.numpy().reshape(shape).copy()


def _to_world(volume: wp.Volume, voxels: np.ndarray) -> np.ndarray:
    """Places (n, 3) [m] of samples with given indices."""
    info = volume.get_grid_info()
    matrix = np.array(info.transform_matrix, dtype=np.float64).reshape(3, 3)
    return voxels @ matrix.T + np.array(info.translation, dtype=np.float64)


def _read(volume: wp.Volume, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Field (n,) [m] and gradient (n, 3) at points."""
    from newtonsim.kernels.collision.surfaces.distance_grid import read_field

    device, count = volume.device, len(points)
    value, slope = wp.zeros(count, dtype=float, device=device), wp.zeros(count, dtype=wp.vec3, device=device)
    step = 0.5 * float(min(volume.get_voxel_size()))
    compilation.launch(
        read_field,
        reads=dict(volume=volume.id, point=wp.array(points, dtype=wp.vec3, device=device), step=step),
        writes=dict(value=value, slope=slope),
        dim=count,
        device=device,
    )
    return value.numpy().astype(np.float64), slope.numpy().astype(np.float64)


def _feature_points(mesh: Mesh, spacing: float) -> np.ndarray:
    """Points at most `spacing` [m] apart on the edges where a mesh bends away (n, 3)."""
    from newtonsim.geometry.edges import edge_table

    vertices, triangles = mesh.surface
    _, owned = edge_table(vertices, triangles, both_sides=False)
    bent = ((owned[:, None] >> np.array([3, 4, 5])) & 1).astype(bool)
    start = vertices[triangles].astype(np.float64)
    end = np.roll(start, -1, axis=1)
    start, end = start[bent], end[bent]
    # long edges may have many points, all edges together not too many
    spacing = max(spacing, float(np.linalg.norm(end - start, axis=1).sum()) / _MOST_POINTS)
    parts = np.ceil(np.linalg.norm(end - start, axis=1) / spacing).astype(int)
    edge = np.repeat(np.arange(len(parts)), parts)
    place = np.arange(len(edge)) - np.repeat(np.cumsum(parts) - parts, parts)
    inner = start[edge] + (place / parts[edge])[:, None] * (end - start)[edge]
    return np.unique(np.concatenate([inner, end]).astype(np.float32), axis=0).astype(np.float64)
