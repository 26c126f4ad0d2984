"""Energies of elements and their damping in float64, independent of the kernels.

The materials are those of the solvers: springs, St. Venant-Kirchhoff triangles, bending edges and stable
neo-Hookean tetrahedra. Damping is that of an implicit step: a potential of the change of strain over it.
"""

import numpy as np

import newtonsim
from newtonsim.builder.particles import dihedral_angles


def energy(model: newtonsim.Model, x: np.ndarray, x0: np.ndarray, dt: float) -> float:
    """Elastic energy at positions x (n, 3), and that of damping since x0 with a step dt [J]."""
    parts = (springs, triangles, edges, tetrahedra)
    return sum(part(model, x.astype(np.float64), x0.astype(np.float64), dt) for part in parts)


def springs(model: newtonsim.Model, x: np.ndarray, x0: np.ndarray, dt: float) -> float:
    """Of springs."""
    if not model.spring_count:
        return 0.0
    pairs = model.spring_indices.numpy().reshape(-1, 2)
    length, before = (np.linalg.norm(y[pairs[:, 1]] - y[pairs[:, 0]], axis=1) for y in (x, x0))
    rest = model.spring_rest_length.numpy() * (1.0 - model.spring_control.numpy())
    stiffness, damping = model.spring_stiffness.numpy(), model.spring_damping.numpy()
    return float(np.sum(0.5 * stiffness * (length - rest) ** 2 + 0.5 * damping / dt * (length - before) ** 2))


def triangles(model: newtonsim.Model, x: np.ndarray, x0: np.ndarray, dt: float) -> float:
    """Of triangles."""
    if not model.tri_count:
        return 0.0
    corners, inverse = model.tri_indices.numpy(), model.tri_poses.numpy().astype(np.float64)
    ke, ka, kd = model.tri_materials.numpy().T[:3]
    strain, before = (green(y, corners, inverse) for y in (x, x0))
    trace = np.trace(strain, axis1=1, axis2=2) - model.tri_activations.numpy()
    density = ke * np.sum(strain**2, axis=(1, 2)) + 0.5 * ka * trace**2
    density += 0.5 * kd / dt * np.sum((strain - before) ** 2, axis=(1, 2))
    return float(np.sum(model.tri_areas.numpy() * density))


def edges(model: newtonsim.Model, x: np.ndarray, x0: np.ndarray, dt: float) -> float:
    """Of bending edges."""
    if not model.edge_count:
        return 0.0
    corners = model.edge_indices.numpy()
    inner = np.all(corners >= 0, axis=1)
    angle, before = (dihedral_angles(*(y[corners[inner][:, c]] for c in range(4))) for y in (x, x0))
    ke, kd = model.edge_bending_properties.numpy()[inner].T
    bend = short_way(angle - model.edge_rest_angle.numpy()[inner])
    potential = 0.5 * ke * bend**2 + 0.5 * kd / dt * short_way(angle - before) ** 2
    return float(np.sum(model.edge_rest_length.numpy()[inner] * potential))


def tetrahedra(model: newtonsim.Model, x: np.ndarray, x0: np.ndarray, dt: float) -> float:
    """Of tetrahedra."""
    if not model.tet_count:
        return 0.0
    corners, inverse = model.tet_indices.numpy(), model.tet_poses.numpy().astype(np.float64)
    mu, lame, damping = model.tet_materials.numpy().astype(np.float64).T
    volume = 1.0 / (6.0 * np.linalg.det(inverse))
    F = deformation(x, corners, inverse)
    J = np.linalg.det(F)
    strain, before = (green(y, corners, inverse) for y in (x, x0))
    rate = strain - before
    trace = np.trace(rate, axis1=1, axis2=2)
    density = 0.5 * mu * (np.sum(F**2, axis=(1, 2)) - 3.0) - mu * (J - 1.0)
    density += 0.5 * (lame + mu) * (J - 1.0 - model.tet_activations.numpy()) ** 2
    density += damping / dt * (mu * np.sum(rate**2, axis=(1, 2)) + 0.5 * lame * trace**2)
    return float(np.sum(volume * density))


def deformation(x: np.ndarray, corners: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Deformation gradients of triangles (n, 3, 2) or tetrahedra (n, 3, 3)."""
    edges_now = [x[corners[:, c]] - x[corners[:, 0]] for c in range(1, corners.shape[1])]
    return np.stack(edges_now, axis=2) @ inverse


def green(x: np.ndarray, corners: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Green strains of triangles (n, 2, 2) or tetrahedra (n, 3, 3)."""
    F = deformation(x, corners, inverse)
    return 0.5 * (F.transpose(0, 2, 1) @ F - np.eye(F.shape[2]))


def short_way(angle: np.ndarray) -> np.ndarray:
    """Angles between -pi and pi."""
    return angle - 2.0 * np.pi * np.round(angle / (2.0 * np.pi))


def gradient(f, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Central differences of a function of positions (n, 3)."""
    slope = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[at] += h
        behind[at] -= h
        slope[at] = (f(ahead) - f(behind)) / (2.0 * h)
    return slope
