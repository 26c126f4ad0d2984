"""Mass properties as robot files define them: shapes along z, bare surfaces, and meshes of doubtful quality.

The closed forms of solids are those of `newtonsim.geometry.inertia`; here are the shells (mass spread over
the closed surface, as MJCF's `shellinertia` wants it) and the sum over a body. Everything is float64.
"""

import math
from dataclasses import dataclass

import numpy as np

from newtonsim.geometry import inertia as solids
from newtonsim.geometry.transforms import quat_matrix
from newtonsim.importers.geometry.pose import Pose

# The area of an ellipsoid has no closed form; Thomsen's formula is within 1.1 percent for any semi-axes.
_THOMSEN_POWER = 1.6075
_ALONG_Z = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])  # local y to z


@dataclass(frozen=True, slots=True, eq=False)
class MassProps:
    """Mass [kg], centre of mass (3,) [m] and inertia (3, 3) about it [kg m^2], in one common frame."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray

    @staticmethod
    def zero() -> "MassProps":
        """Nothing."""
        return MassProps(0.0, np.zeros(3), np.zeros((3, 3)))

    def moved(self, pose: Pose) -> "MassProps":
        """The same matter, with its frame placed at `pose` in another frame."""
        inertia = self.inertia
        if pose.q[3] != 1.0:
            rotation = quat_matrix(pose.q)
            inertia = rotation @ inertia @ rotation.T
        return MassProps(self.mass, pose.apply(self.com), inertia)

    def times(self, factor: float) -> "MassProps":
        """The same shape with `factor` times the mass."""
        return MassProps(self.mass * factor, self.com, self.inertia * factor)

    def with_mass(self, mass: float) -> "MassProps":
        """The same shape with the given mass."""
        return (
            self.times(mass / self.mass) if self.mass > 0.0 else MassProps(0.0, self.com, self.inertia * 0.0)
        )


def principal_moments(inertia: np.ndarray) -> list[float]:
    """Eigenvalues of an inertia (3, 3) in ascending order; of a diagonal one without a solver."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = inertia.tolist()
    if xy == xz == yx == yz == zx == zy == 0.0:
        return sorted((xx, yy, zz))
    return np.linalg.eigvalsh(inertia).tolist()


def combine(parts: list[MassProps]) -> MassProps:
    """Sum of several parts in one frame."""
    return MassProps(*solids.combine(*((part.mass, part.com, part.inertia) for part in parts)))


def sphere(radius: float, density: float, shell: bool = False) -> MassProps:
    """Ball, or spherical surface."""
    if not shell:
        return MassProps(*solids.sphere_inertia(density, radius))
    mass = density * 4.0 * math.pi * radius**2
    return _centred(mass, np.full(3, 2.0 / 3.0 * mass * radius**2))


def box(half: np.ndarray, density: float, shell: bool = False) -> MassProps:
    """Box with the given half extents (3,), or its six faces."""
    if not shell:
        return MassProps(*solids.box_inertia(density, *half.tolist()))
    x, y, z = half
    squares = np.square(half)
    areas = 8.0 * np.array([y * z, x * z, x * y])  # both faces across each axis
    # second moment along each axis: the faces across it lie at its ends, the others spread along it
    moments = squares * (areas + (areas.sum() - areas) / 3.0)
    return _centred(density * areas.sum(), density * (moments.sum() - moments))


def cylinder(radius: float, half_height: float, density: float, shell: bool = False) -> MassProps:
    """Cylinder along z, or its wall with both lids."""
    if not shell:
        return _along_z(solids.cylinder_inertia(density, radius, half_height))
    r2, h2 = radius**2, half_height**2
    wall = density * 4.0 * math.pi * radius * half_height
    lids = density * 2.0 * math.pi * r2
    across = wall * (r2 / 2.0 + h2 / 3.0) + lids * (r2 / 4.0 + h2)
    return _centred(wall + lids, [across, across, wall * r2 + lids * r2 / 2.0])


def capsule(radius: float, half_height: float, density: float, shell: bool = False) -> MassProps:
    """Capsule along z with cylinder half length `half_height`, or its surface."""
    if not shell:
        return _along_z(solids.capsule_inertia(density, radius, half_height))
    r2, h, h2 = radius**2, half_height, half_height**2
    wall = density * 4.0 * math.pi * radius * h
    caps = density * 4.0 * math.pi * r2
    # half a spherical surface has its centroid at r/2
    across = wall * (r2 / 2.0 + h2 / 3.0) + caps * (2.0 / 3.0 * r2 + h2 + h * radius)
    return _centred(wall + caps, [across, across, wall * r2 + caps * 2.0 / 3.0 * r2])


def cone(radius: float, half_height: float, density: float) -> MassProps:
    """Cone along z, apex up; the origin is at half its height."""
    return _along_z(solids.cone_inertia(density, radius, half_height))


def ellipsoid(semi_axes: np.ndarray, density: float, shell: bool = False) -> MassProps:
    """Ellipsoid, or its surface as the limit of a thin layer of even thickness."""
    a, b, c = semi_axes
    if not shell:
        return MassProps(*solids.ellipsoid_inertia(density, a, b, c))
    squares = np.square(semi_axes)
    pairs = np.array([b * c, a * c, a * b])
    mass = density * 4.0 * math.pi * float(np.mean(pairs**_THOMSEN_POWER)) ** (1.0 / _THOMSEN_POWER)
    # derivative of the solid's inertia with respect to all three axes at once, divided by that of its volume
    growth = 2.0 * a * b * c * (np.sum(semi_axes) - np.asarray(semi_axes)) / pairs.sum()
    return _centred(mass, mass / 5.0 * (squares.sum() - squares + growth))


def mesh(vertices: np.ndarray, faces: np.ndarray, density: float, shell: bool = False) -> MassProps:
    """Inside of a closed triangle mesh, or its surface (density in kg/m^2)."""
    return MassProps(*solids.mesh_inertia(density, vertices, faces, not shell, 1.0))


def mesh_unsigned(vertices: np.ndarray, faces: np.ndarray, density: float) -> MassProps:
    """Mesh with every tetrahedron from an inner point to a triangle counted as positive, as MJCF's "legacy".

    The inner point is the centroid of the surface for the centre of mass, then that centre for mass and
    inertia. Exact for convex bodies whatever their winding, too heavy for others.
    """
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    if not areas.sum() > 0.0:
        return MassProps.zero()
    centroid = np.average(corners.mean(axis=1), axis=0, weights=areas)
    volumes = _unsigned_volumes(corners - centroid, normals)
    if not volumes.sum() > 0.0:
        return MassProps.zero()
    com = centroid + volumes @ (corners - centroid).sum(axis=1) / (4.0 * volumes.sum())
    corners = corners - com
    volumes = _unsigned_volumes(corners, normals)
    total = corners.sum(axis=1)
    second = np.einsum("i,ij,ik->jk", volumes, total, total) + np.einsum(
        "i,ivj,ivk->jk", volumes, corners, corners
    )
    second *= density / 20.0
    return MassProps(density * float(volumes.sum()), com, np.trace(second) * np.eye(3) - second)


def _unsigned_volumes(corners: np.ndarray, normals: np.ndarray) -> np.ndarray:
    return np.abs(np.einsum("ij,ij->i", corners[:, 0], normals)) / 6.0


def is_closed(faces: np.ndarray) -> bool:
    """Whether every edge of a mesh borders two triangles that run along it in opposite directions."""
    directed = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    size = int(faces.max()) + 1
    forth = np.sort(directed[:, 0].astype(np.int64) * size + directed[:, 1])
    back = np.sort(directed[:, 1].astype(np.int64) * size + directed[:, 0])
    return bool(np.array_equal(forth, back)) and bool(np.all(np.diff(forth) > 0))


def _along_z(properties: tuple[float, np.ndarray, np.ndarray]) -> MassProps:
    mass, com, inertia = properties
    return MassProps(mass, _ALONG_Z @ com, _ALONG_Z @ inertia @ _ALONG_Z.T)


def _centred(mass: float, diagonal: object) -> MassProps:
    return MassProps(float(mass), np.zeros(3), np.diag(np.asarray(diagonal, dtype=np.float64)))


def ball_of(mass: float, density: float = 1000.0) -> MassProps:
    """A ball of this mass: the inertia of something whose shape is not known."""
    radius = (3.0 * mass / (4.0 * math.pi * density)) ** (1.0 / 3.0)
    return sphere(radius, density).with_mass(mass)
