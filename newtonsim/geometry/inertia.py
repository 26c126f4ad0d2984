"""Mass, centre of mass and inertia of shapes, in closed form.

Solids follow the tables of any mechanics textbook (Goldstein, Poole, Safko, "Classical Mechanics", ch. 5;
Meriam, Kraige, "Engineering Mechanics: Dynamics", table D/4). A hollow shape is the outer solid minus the
solid that lies one wall thickness further in. Meshes are integrated exactly over signed tetrahedra (Tonon,
"Explicit exact formulas for the 3-D tetrahedron inertia tensor", J. Math. Stat. 1, 2005) or, when hollow,
over their surface.

Every function returns (mass [kg], centre of mass [m] (3,), inertia about it [kg m^2] (3, 3)) in shape axes.
"""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.scene.enums import GeoType

MassProperties = tuple[float, np.ndarray, np.ndarray]


def _about_origin(mass: float, diagonal: Iterable[float]) -> MassProperties:
    xx, yy, zz = diagonal
    # `np.diag` takes three times as long
    inertia = np.array([[xx, 0.0, 0.0], [0.0, yy, 0.0], [0.0, 0.0, zz]])
    return mass, np.zeros(3), inertia


def sphere_inertia(density: float, radius: float) -> MassProperties:
    """Solid sphere: I = 2/5 m r²."""
    mass = density * 4.0 / 3.0 * math.pi * radius**3
    return _about_origin(mass, (0.4 * mass * radius**2,) * 3)


def box_inertia(density: float, hx: float, hy: float, hz: float) -> MassProperties:
    """Solid box of half extents: Ixx = m/3 (hy² + hz²)."""
    mass = density * 8.0 * hx * hy * hz
    xx, yy, zz = hx * hx, hy * hy, hz * hz
    third = mass / 3.0
    return _about_origin(mass, ((yy + zz) * third, (xx + zz) * third, (xx + yy) * third))


def ellipsoid_inertia(density: float, a: float, b: float, c: float) -> MassProperties:
    """Solid ellipsoid of semi-axes: Ixx = m/5 (b² + c²)."""
    mass = density * 4.0 / 3.0 * math.pi * a * b * c
    return _about_origin(mass, np.array([b * b + c * c, a * a + c * c, a * a + b * b]) * (mass / 5.0))


def cylinder_inertia(density: float, radius: float, half_height: float) -> MassProperties:
    """Solid cylinder along y."""
    mass = density * 2.0 * math.pi * radius**2 * half_height
    across = mass * (radius**2 / 4.0 + half_height**2 / 3.0)
    return _about_origin(mass, [across, 0.5 * mass * radius**2, across])


def capsule_inertia(density: float, radius: float, half_height: float) -> MassProperties:
    """Solid capsule along y: a cylinder and two half balls, each with its centroid 3/8 r beyond the rim."""
    m_c = density * 2.0 * math.pi * radius**2 * half_height
    m_s = density * 4.0 / 3.0 * math.pi * radius**3
    along = 0.5 * m_c * radius**2 + 0.4 * m_s * radius**2
    across = m_c * (radius**2 / 4.0 + half_height**2 / 3.0)
    across += m_s * (0.4 * radius**2 + half_height**2 + 0.75 * half_height * radius)
    return _about_origin(m_c + m_s, [across, along, across])


def cone_inertia(density: float, radius: float, half_height: float) -> MassProperties:
    """Solid cone along y, apex up; its centroid is a quarter of the height above the base."""
    height = 2.0 * half_height
    mass = density * math.pi / 3.0 * radius**2 * height
    across = mass * (0.15 * radius**2 + 0.0375 * height**2)
    inertia = np.diag([across, 0.3 * mass * radius**2, across])
    return mass, np.array([0.0, -0.5 * half_height, 0.0]), inertia


def shift_inertia(inertia: np.ndarray, mass: float, offset: np.ndarray) -> np.ndarray:
    """Move an inertia (3, 3) from the centre of mass to a point `offset` [m] away (parallel axis theorem)."""
    return inertia + mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))


def combine(*parts: MassProperties) -> MassProperties:
    """Join mass properties given in one frame; a part of negative mass is cut out."""
    if len(parts) == 1 and parts[0][1].tolist() == [0.0, 0.0, 0.0] and 0.0 < parts[0][0] < math.inf:
        return parts[0][0], np.zeros(3), parts[0][2] + 0.0  # to the bit what follows below
    mass = sum(part[0] for part in parts)
    if mass == 0.0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    com = sum((part[0] * part[1] for part in parts), np.zeros(3)) / mass
    inertia = sum((shift_inertia(i, m, c - com) for m, c, i in parts), np.zeros((3, 3)))
    return mass, com, inertia


def _tetrahedron_moments(vertices: np.ndarray, indices: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return volume, first moment (3,) and second moment ∫x xᵀ (3, 3) of a closed mesh about the origin."""
    a, b, c = (vertices[indices[:, k]] for k in range(3))
    volumes = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0
    total = a + b + c
    first = (volumes / 4.0) @ total
    products = (np.einsum("i,ij,ik->jk", volumes, v, v) for v in (a, b, c, total))
    second = sum(products, np.zeros((3, 3))) / 20.0
    return float(volumes.sum()), first, second


def _triangle_moments(vertices: np.ndarray, indices: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return area, first moment and second moment of a triangulated surface."""
    a, b, c = (vertices[indices[:, k]] for k in range(3))
    areas = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    total = a + b + c
    first = (areas / 3.0) @ total
    products = (np.einsum("i,ij,ik->jk", areas, v, v) for v in (a, b, c, total))
    second = sum(products, np.zeros((3, 3))) / 12.0
    return float(areas.sum()), first, second


def mesh_inertia(
    density: float,
    vertices: npt.ArrayLike,
    indices: npt.ArrayLike,
    is_solid: bool = True,
    thickness: float = 0.001,
) -> MassProperties:
    """Integrate a triangle mesh: its inside when solid, its surface times `thickness` [m] when hollow.

    Args:
        density: Mass per volume [kg/m^3].
        vertices: Points, shape [n, 3] [m].
        indices: Triangles, shape [m, 3] or flat.
        is_solid: Whether the mesh is filled.
        thickness: Wall thickness [m] of a hollow mesh.
    """
    vertices = np.asarray(vertices, np.float64).reshape(-1, 3)
    indices = np.asarray(indices, np.int64).reshape(-1, 3)
    if len(vertices) == 0 or len(indices) == 0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    middle = vertices.mean(axis=0)  # the integrals cancel badly far from the mesh
    moments = _tetrahedron_moments if is_solid else _triangle_moments
    measure, first, second = moments(vertices - middle, indices)
    if measure < 0.0:  # wound inside out
        measure, first, second = -measure, -first, -second
    scale = max(float(np.ptp(vertices, axis=0).max()), 1e-30)
    if measure <= 1e-12 * scale ** (3 if is_solid else 2):
        return 0.0, np.zeros(3), np.zeros((3, 3))
    factor = density if is_solid else density * thickness
    com = first / measure
    covariance = factor * (second - measure * np.outer(com, com))
    inertia = np.trace(covariance) * np.eye(3) - covariance
    return factor * measure, com + middle, inertia


def scaled_inertia(properties: MassProperties, scale: npt.ArrayLike) -> MassProperties:
    """Stretch a solid of constant density along its axes by `scale` (3,)."""
    mass, com, inertia = properties
    scale = np.asarray(scale, np.float64)
    ratio = abs(float(np.prod(scale)))
    covariance = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    covariance = ratio * covariance * np.outer(scale, scale)
    return mass * ratio, np.asarray(com) * scale, np.trace(covariance) * np.eye(3) - covariance


def _inner_cone(radius: float, half_height: float, wall: float) -> MassProperties | None:
    """Cavity of a hollow cone: a similar cone, one wall thickness from the base and from the flank."""
    height = 2.0 * half_height
    slant = math.hypot(radius, height)
    inner = height - wall - wall * slant / radius
    if inner <= 0.0:
        return None
    mass, com, inertia = cone_inertia(1.0, radius * inner / height, 0.5 * inner)
    middle = -half_height + wall + 0.5 * inner
    return mass, com + np.array([0.0, middle, 0.0]), inertia


def _solid(geo_type: int, density: float, size: np.ndarray) -> MassProperties:
    if geo_type == GeoType.SPHERE:
        return sphere_inertia(density, size[0])
    if geo_type == GeoType.BOX:
        return box_inertia(density, *size)
    if geo_type == GeoType.ELLIPSOID:
        return ellipsoid_inertia(density, *size)
    solids = {
        GeoType.CAPSULE: capsule_inertia,
        GeoType.CYLINDER: cylinder_inertia,
        GeoType.CONE: cone_inertia,
    }
    return solids[GeoType(geo_type)](density, size[0], size[1])


def _cavity(geo_type: int, size: np.ndarray, wall: float) -> MassProperties | None:
    """Mass properties at density 1 of the cavity of a hollow primitive, None if there is none."""
    if geo_type == GeoType.CONE:
        return _inner_cone(size[0], size[1], wall)
    inner = size - wall
    if geo_type == GeoType.CAPSULE:
        inner[1] = size[1]  # the wall of a cap belongs to its radius
    used = {GeoType.SPHERE: 1, GeoType.CAPSULE: 1, GeoType.CYLINDER: 2}.get(GeoType(geo_type), 3)
    return None if np.any(inner[:used] <= 0.0) else _solid(geo_type, 1.0, inner)


def shape_inertia(
    geo_type: int, density: float, scale: npt.ArrayLike, source, is_solid: bool, thickness: float
) -> MassProperties:
    """Compute the mass properties of any shape.

    Args:
        geo_type: GeoType.
        density: Mass per volume [kg/m^3].
        scale: Size (3,), see GeoType.
        source: Mesh or SDF of the types that need one.
        is_solid: Whether the shape is filled.
        thickness: Wall thickness [m] of a hollow shape.
    """
    size = np.array(scale, np.float64)
    if density == 0.0 or geo_type in (GeoType.PLANE, GeoType.NONE, GeoType.HFIELD):
        return 0.0, np.zeros(3), np.zeros((3, 3))
    if geo_type in (GeoType.MESH, GeoType.SDF):
        if geo_type == GeoType.MESH and (not is_solid or not source.has_inertia or not source.is_solid):
            return mesh_inertia(density, source.vertices * size, source.indices, is_solid, thickness)
        mass, com, inertia = scaled_inertia((source.mass, source.com, source.I), size)
        return density * mass, com, density * inertia
    solid = _solid(geo_type, density, size)
    if is_solid:
        return solid
    if not thickness > 0.0:
        raise ModelError(f"a hollow shape needs a wall thickness above 0, got {thickness}")
    cavity = _cavity(geo_type, size, thickness)
    if cavity is None:
        return solid
    mass, com, inertia = cavity
    return combine(solid, (-density * mass, com, -density * inertia))
