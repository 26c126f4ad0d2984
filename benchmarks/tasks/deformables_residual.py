"""How far a step is from the end point of implicit Euler, in float64, independent of the engines.

The end point of a step h from (x, v) minimises ½‖z - y‖²_M / h² + E(z), y = x + h v + h² g. The residual of
an engine's end point is the norm of the gradient of this objective over its norm at y, where elastic forces
are not yet answered. E is the energy that the engine means by its coefficients:

- springs: ½ ke (|d| - L)²;
- bending edges: ½ ke L (θ - θ0)²;
- tetrahedra: V (½ mu (tr FᵀF - 3) - mu (J - 1) + ½ (lambda + mu) (J - 1)²);
- triangles of newtonsim, St. Venant-Kirchhoff, with G = ½(FᵀF - I): A (ke |G|² + ½ ka (tr G)²);
- triangles of Newton 1.8, neo-Hookean: A (½ ke (tr FᵀF - 2) - ke (J - 1) + ½ (ke + ka) (J - 1)²), J the ratio
  of areas. Found from the forces that its VBD answers single triangles with (to 5e-6; the others agree with
  the formulas above as far); both have the same stiffness at rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True, eq=False)
class Springs:
    """Springs between particles (m, 2), rest lengths (m,) [m], stiffness (m,) [N/m]."""

    pairs: np.ndarray
    length: np.ndarray
    ke: np.ndarray

    def energy(self, x: np.ndarray) -> float:
        return float(np.sum(0.5 * self.ke * (self._stretch(x)[1] - self.length) ** 2))

    def add_gradient(self, x: np.ndarray, out: np.ndarray) -> None:
        d, now = self._stretch(x)
        pull = (self.ke * (now - self.length) / now)[:, None] * d
        np.add.at(out, self.pairs[:, 0], -pull)
        np.add.at(out, self.pairs[:, 1], pull)

    def _stretch(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        d = x[self.pairs[:, 1]] - x[self.pairs[:, 0]]
        return d, np.linalg.norm(d, axis=1)


@dataclass(slots=True, eq=False)
class Triangles:
    """Triangles (m, 3), inverse rest matrices (m, 2, 2), areas (m,) [m^2], ke and ka (m,) [N/m]."""

    corners: np.ndarray
    inverse: np.ndarray
    area: np.ndarray
    ke: np.ndarray
    ka: np.ndarray

    def energy(self, x: np.ndarray) -> float:
        _, green, trace = self._strain(x)
        square = np.einsum("nij,nij->n", green, green)
        return float(np.sum(self.area * (self.ke * square + 0.5 * self.ka * trace**2)))

    def add_gradient(self, x: np.ndarray, out: np.ndarray) -> None:
        f, green, trace = self._strain(x)
        stress = 2.0 * self.ke[:, None, None] * green + (self.ka * trace)[:, None, None] * np.eye(2)
        pull = np.einsum("n,nij,njk,nlk->nil", self.area, f, stress, self.inverse)
        _scatter(out, self.corners, pull)

    def _strain(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f = _edges(x, self.corners) @ self.inverse
        green = 0.5 * (f.transpose(0, 2, 1) @ f - np.eye(2))
        return f, green, np.einsum("nii->n", green)


class NeoHookeanTriangles(Triangles):
    """Triangles of Newton 1.8."""

    def energy(self, x: np.ndarray) -> float:
        f, j, _ = self._areas(x)
        shear = 0.5 * self.ke * (np.einsum("nij,nij->n", f, f) - 2.0) - self.ke * (j - 1.0)
        return float(np.sum(self.area * (shear + 0.5 * (self.ke + self.ka) * (j - 1.0) ** 2)))

    def add_gradient(self, x: np.ndarray, out: np.ndarray) -> None:
        f, j, slope = self._areas(x)
        tension = -self.ke + (self.ke + self.ka) * (j - 1.0)
        stress = self.ke[:, None, None] * f + tension[:, None, None] * slope
        _scatter(out, self.corners, np.einsum("n,nij,nkj->nik", self.area, stress, self.inverse))

    def _areas(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f = _edges(x, self.corners) @ self.inverse
        a, b = f[:, :, 0], f[:, :, 1]
        normal = np.cross(a, b)
        j = np.linalg.norm(normal, axis=1)
        normal /= j[:, None]
        return f, j, np.stack([np.cross(b, normal), np.cross(normal, a)], axis=2)


@dataclass(slots=True, eq=False)
class Hinges:
    """Bending edges (m, 4) as (o0, o1, v0, v1), rest angles (m,), lengths (m,) [m], ke (m,) [N/rad]."""

    corners: np.ndarray
    angle: np.ndarray
    length: np.ndarray
    ke: np.ndarray

    def energy(self, x: np.ndarray) -> float:
        return float(np.sum(0.5 * self.ke * self.length * (self._angles(x)[0] - self.angle) ** 2))

    def add_gradient(self, x: np.ndarray, out: np.ndarray) -> None:
        theta, slopes = self._angles(x)
        torque = self.ke * self.length * (theta - self.angle)
        for k in range(4):
            np.add.at(out, self.corners[:, k], torque[:, None] * slopes[k])

    def _angles(self, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Angles (m,), and their slopes with respect to each corner (m, 3).

        Bridson, Marino, Fedkiw, "Simulation of clothing with folds and wrinkles", SCA 2003.
        """
        o0, o1, v0, v1 = (x[self.corners[:, k]] for k in range(4))
        n0, n1, e = np.cross(v0 - o0, v1 - o0), np.cross(v1 - o1, v0 - o1), v1 - v0
        length = np.linalg.norm(e, axis=1, keepdims=True)
        sine = np.sum(np.cross(n0, n1) * e, axis=1) / length[:, 0]
        theta = np.arctan2(sine, np.sum(n0 * n1, axis=1))
        u0, u1 = n0 / np.sum(n0 * n0, axis=1, keepdims=True), n1 / np.sum(n1 * n1, axis=1, keepdims=True)

        def along(a: np.ndarray) -> np.ndarray:
            return np.sum(a * e, axis=1, keepdims=True) / length

        slopes = [
            -length * u0,
            -length * u1,
            -along(o0 - v1) * u0 - along(o1 - v1) * u1,
            along(o0 - v0) * u0 + along(o1 - v0) * u1,
        ]
        return theta, slopes


@dataclass(slots=True, eq=False)
class Tetrahedra:
    """Tetrahedra (m, 4), inverse rest matrices (m, 3, 3), volumes (m,) [m^3], mu and lambda (m,) [Pa]."""

    corners: np.ndarray
    inverse: np.ndarray
    volume: np.ndarray
    mu: np.ndarray
    lam: np.ndarray

    def energy(self, x: np.ndarray) -> float:
        f, j, _ = self._strain(x)
        shear = 0.5 * self.mu * (np.einsum("nij,nij->n", f, f) - 3.0) - self.mu * (j - 1.0)
        return float(np.sum(self.volume * (shear + 0.5 * (self.lam + self.mu) * (j - 1.0) ** 2)))

    def add_gradient(self, x: np.ndarray, out: np.ndarray) -> None:
        f, j, cofactor = self._strain(x)
        pressure = -self.mu + (self.lam + self.mu) * (j - 1.0)
        stress = self.mu[:, None, None] * f + pressure[:, None, None] * cofactor
        _scatter(out, self.corners, np.einsum("n,nij,nkj->nik", self.volume, stress, self.inverse))

    def _strain(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f = _edges(x, self.corners) @ self.inverse
        a, b, c = f[:, :, 0], f[:, :, 1], f[:, :, 2]
        cofactor = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=2)
        return f, np.sum(a * cofactor[:, :, 0], axis=1), cofactor


def _edges(x: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Edges from the first corner (m, 3, k) as columns."""
    return np.stack([x[corners[:, k]] - x[corners[:, 0]] for k in range(1, corners.shape[1])], axis=2)


def _scatter(out: np.ndarray, corners: np.ndarray, pull: np.ndarray) -> None:
    """Add the columns of (m, 3, k) to the corners after the first, and take them from it."""
    for k in range(pull.shape[2]):
        np.add.at(out, corners[:, k + 1], pull[:, :, k])
    np.add.at(out, corners[:, 0], -pull.sum(axis=2))


Elements = Springs | Triangles | Hinges | Tetrahedra


@dataclass(slots=True, eq=False)
class Objective:
    """What a step minimises.

    Attributes:
        mass: Of each particle, 0 for those that are held (n,) [kg].
        h: Time step [s].
        gravity: Shape (3,) [m/s^2].
        elements: Elastic elements.
    """

    mass: np.ndarray
    h: float
    gravity: np.ndarray
    elements: list[Elements] = field(default_factory=list)

    @property
    def free(self) -> np.ndarray:
        """Which particles move (n,)."""
        return self.mass > 0.0

    def inertial(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Where particles would go without elastic forces (n, 3)."""
        return x + self.free[:, None] * (self.h * v + self.h**2 * self.gravity)

    def energy(self, z: np.ndarray, y: np.ndarray) -> float:
        kinetic = 0.5 / self.h**2 * np.sum(self.mass[:, None] * (z - y) ** 2)
        return float(kinetic) + sum(part.energy(z) for part in self.elements)

    def gradient(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Gradient (n, 3), zero for particles that are held."""
        out = self.mass[:, None] * (z - y) / self.h**2
        for part in self.elements:
            part.add_gradient(z, out)
        return out * self.free[:, None]

    def residual(
        self, x: np.ndarray, v: np.ndarray, z: np.ndarray, counted: np.ndarray | None = None
    ) -> float:
        """Norm of the gradient at the end point z of a step from (x, v), over its norm at the inertial one.

        Args:
            x: Positions before the step (n, 3) [m].
            v: Velocities before the step (n, 3) [m/s].
            z: Positions after it (n, 3) [m].
            counted: Particles that count (n,), None for all.
        """
        rows = slice(None) if counted is None else counted
        y = self.inertial(x, v)
        y[~self.free] = z[~self.free]
        return float(np.linalg.norm(self.gradient(z, y)[rows]) / np.linalg.norm(self.gradient(y, y)[rows]))


def overlap(x: np.ndarray, radius: float, half: np.ndarray, floor: float = 0.0) -> float:
    """Largest overlap of equal spheres in a box, with each other or with its walls, over the radius.

    Args:
        x: Centres (n, 3) [m].
        radius: Of the spheres [m].
        half: Half widths (2,) of the box along x and y about the origin; z is up [m].
        floor: Height of its bottom [m].
    """
    from scipy.spatial import KDTree

    near = KDTree(x).query_pairs(2.0 * radius, output_type="ndarray")
    between = 2.0 * radius - np.linalg.norm(x[near[:, 0]] - x[near[:, 1]], axis=1)
    walls = radius - np.minimum((half - np.abs(x[:, :2])).min(axis=1), x[:, 2] - floor)
    return float(max(between.max(initial=0.0), walls.max(initial=0.0)) / radius)
