"""Particles and the elements between them: springs, triangles, bending edges, tetrahedra."""

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from newtonsim.builder.lists import BuilderLists
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import as_vector
from newtonsim.scene.arrays import SPECS
from newtonsim.scene.coloring import color_particles
from newtonsim.scene.columns import to_list
from newtonsim.scene.enums import PARTICLE_FLAG_ACTIVE, ColoringAlgorithm

DEFAULT_PARTICLE_MATERIAL = {
    "ke": 1.0e3,
    "kd": 1.0e2,
    "kf": 1.0e2,
    "mu": 0.5,
    "cohesion": 0.0,
    "adhesion": 0.0,
}


class ParticleMethods(BuilderLists):
    """The part of ModelBuilder that adds particles and their elements."""

    def add_particle(
        self,
        pos: npt.ArrayLike,
        vel: npt.ArrayLike,
        mass: float,
        radius: float | None = None,
        flags: int = PARTICLE_FLAG_ACTIVE,
    ) -> int:
        """Add a particle; one of mass 0 is kinematic.

        Args:
            pos: Position [m].
            vel: Velocity [m/s].
            mass: Mass [kg].
            radius: Radius [m], None for the builder's default.
            flags: PARTICLE_FLAG_* bits.

        Returns:
            The index of the particle.
        """
        index = self.particle_count
        position = as_vector(pos, 3, f"particle {index}: position")
        velocity = as_vector(vel, 3, f"particle {index}: velocity")
        self._extend_particles(position[None], velocity, np.array([mass], np.float64), radius, flags)
        return index

    def _extend_particles(
        self,
        positions: np.ndarray,
        velocity: npt.ArrayLike,
        masses: np.ndarray,
        radius: float | np.ndarray | None = None,
        flags: int = PARTICLE_FLAG_ACTIVE,
    ) -> int:
        """Append particles (n, 3) with one velocity; return the index of the first."""
        start, count = self.particle_count, len(positions)
        radius = self.default_particle_radius if radius is None else radius
        self.particle_q.extend(to_list(SPECS["particle_q"], positions))
        self.particle_qd.extend(to_list(SPECS["particle_qd"], np.broadcast_to(velocity, (count, 3))))
        self.particle_mass.extend(masses.tolist())
        self.particle_radius.extend(np.broadcast_to(radius, count).tolist())
        self.particle_flags.extend([int(flags)] * count)
        for name, value in DEFAULT_PARTICLE_MATERIAL.items():
            getattr(self, f"particle_{name}").extend([value] * count)
        self.particle_world.extend([-1] * count)
        return start

    def _positions(self, indices: npt.ArrayLike) -> np.ndarray:
        """Return positions (n, 3); those of indices that do not exist are zero (`finalize` reports them)."""
        indices = np.asarray(indices, np.int64)
        known = (indices >= 0) & (indices < self.particle_count)
        result = np.zeros((len(indices), 3))
        if known.any():
            rows = indices[known].tolist()
            result[known] = np.array([self.particle_q[i] for i in rows])
        return result

    def add_spring(self, i: int, j: int, ke: float, kd: float, control: float) -> None:
        """Connect two particles by a spring whose rest length is their current distance.

        Args:
            i: First particle.
            j: Second particle.
            ke: Stiffness [N/m].
            kd: Damping [N s/m].
            control: Activation.
        """
        self._extend_springs(np.array([[i, j]]), ke, kd, control)

    def _extend_springs(self, pairs: np.ndarray, ke: float, kd: float, control: float = 0.0) -> None:
        count = len(pairs)
        lengths = np.linalg.norm(self._positions(pairs[:, 0]) - self._positions(pairs[:, 1]), axis=1)
        self.spring_indices.extend(pairs.reshape(-1).tolist())
        self.spring_rest_length.extend(lengths.tolist())
        self.spring_stiffness.extend([ke] * count)
        self.spring_damping.extend([kd] * count)
        self.spring_control.extend([control] * count)

    def add_triangle(
        self,
        i: int,
        j: int,
        k: int,
        tri_ke: float | None = None,
        tri_ka: float | None = None,
        tri_kd: float | None = None,
        tri_drag: float | None = None,
        tri_lift: float | None = None,
    ) -> float:
        """Add an elastic triangle that is at rest in its current shape; None stands for the builder's
        defaults.

        Args:
            i: First particle.
            j: Second particle.
            k: Third particle.
            tri_ke: Stretch stiffness.
            tri_ka: Area stiffness.
            tri_kd: Damping.
            tri_drag: Drag coefficient.
            tri_lift: Lift coefficient.

        Returns:
            Its area [m^2]; 0 for a degenerate triangle, which is left out with a warning.
        """
        return self.add_triangles([i], [j], [k], [tri_ke], [tri_ka], [tri_kd], [tri_drag], [tri_lift])[0]

    def add_triangles(
        self,
        i: Sequence[int],
        j: Sequence[int],
        k: Sequence[int],
        tri_ke: Sequence[float | None] | None = None,
        tri_ka: Sequence[float | None] | None = None,
        tri_kd: Sequence[float | None] | None = None,
        tri_drag: Sequence[float | None] | None = None,
        tri_lift: Sequence[float | None] | None = None,
    ) -> list[float]:
        """Add elastic triangles that are at rest in their current shape; arguments as in `add_triangle`, one
        entry each.

        Returns:
            Their areas [m^2].
        """
        indices = np.stack([np.asarray(x, np.int64).reshape(-1) for x in (i, j, k)], axis=1)
        values = zip(("ke", "ka", "kd", "drag", "lift"), (tri_ke, tri_ka, tri_kd, tri_drag, tri_lift))
        materials = np.stack(
            [self._per_element(f"tri_{name}", value, len(indices)) for name, value in values], axis=1
        )
        a, b, c = (self._positions(indices[:, n]) for n in range(3))
        rest, areas = triangle_rest_poses(a, b, c)
        keep = areas > 0.0
        in_range = np.all((indices >= 0) & (indices < self.particle_count), axis=1)
        if not np.all(keep | ~in_range):
            warnings.warn(f"{np.sum(~keep & in_range)} triangles without area are left out", stacklevel=2)
        keep |= ~in_range  # finalize names them
        self.tri_indices.extend(map(tuple, indices[keep].tolist()))
        self.tri_poses.extend(to_list(SPECS["tri_poses"], rest[keep]))
        self.tri_activations.extend([0.0] * int(keep.sum()))
        self.tri_materials.extend(map(tuple, materials[keep].tolist()))
        self.tri_areas.extend(areas[keep].tolist())
        return areas.tolist()

    def _per_element(self, name: str, value, count: int) -> np.ndarray:
        """Expand None, a number or a sequence (with some entries None) to one number per element."""
        default = getattr(self, f"default_{name}")
        if value is None or np.isscalar(value):
            return np.full(count, default if value is None else value, np.float64)
        if len(value) != count:
            raise ModelError(f"{name}: expected {count} values, got {len(value)}")
        return np.array([default if v is None else v for v in value], np.float64)

    def add_tetrahedron(
        self,
        i: int,
        j: int,
        k: int,
        l: int,
        k_mu: float = 1.0e3,
        k_lambda: float = 1.0e3,
        k_damp: float = 0.0,
    ) -> float:
        """Add an elastic tetrahedron that is at rest in its current shape.

        Two corners of an inverted tetrahedron are exchanged, so that every rest volume is positive.

        Args:
            i: First particle.
            j: Second particle.
            k: Third particle.
            l: Fourth particle.
            k_mu: First Lamé parameter [Pa].
            k_lambda: Second Lamé parameter [Pa].
            k_damp: Damping.

        Returns:
            Its volume [m^3]; 0 for a flat tetrahedron, which is left out with a warning.
        """
        return self._extend_tetrahedra(np.array([[i, j, k, l]]), k_mu, k_lambda, k_damp)[0]

    def _extend_tetrahedra(
        self, indices: np.ndarray, k_mu: float, k_lambda: float, k_damp: float
    ) -> list[float]:
        indices = np.array(indices, np.int64)
        corners = [self._positions(indices[:, n]) for n in range(4)]
        rest = np.stack([corners[n] - corners[0] for n in (1, 2, 3)], axis=2)
        inverted = np.linalg.det(rest) < 0.0
        indices[inverted] = indices[inverted][:, [0, 2, 1, 3]]
        rest[inverted] = rest[inverted][:, :, [1, 0, 2]]
        volumes = np.linalg.det(rest) / 6.0
        size = np.abs(rest).max(axis=(1, 2), initial=0.0)
        flat = volumes <= 1e-9 * size**3
        in_range = np.all((indices >= 0) & (indices < self.particle_count), axis=1)
        if np.any(flat & in_range):
            warnings.warn(f"{np.sum(flat & in_range)} tetrahedra without volume are left out", stacklevel=3)
        keep = ~flat | ~in_range
        rest[flat] = np.eye(3)
        volumes[flat] = 0.0
        count = int(keep.sum())
        self.tet_indices.extend(map(tuple, indices[keep].tolist()))
        self.tet_poses.extend(to_list(SPECS["tet_poses"], np.linalg.inv(rest[keep])))
        self.tet_activations.extend([0.0] * count)
        self.tet_materials.extend([(k_mu, k_lambda, k_damp)] * count)
        return volumes.tolist()

    def add_edge(
        self,
        i: int,
        j: int,
        k: int,
        l: int,
        rest: float | None = None,
        edge_ke: float | None = None,
        edge_kd: float | None = None,
    ) -> None:
        """Add a bending edge between the triangles (i, k, l) and (j, l, k).

        Args:
            i: Particle opposite the edge in the first triangle, -1 if there is none.
            j: Particle opposite the edge in the second triangle, -1 if there is none.
            k: First particle of the edge.
            l: Second particle of the edge.
            rest: Rest angle [rad], None for the current one.
            edge_ke: Stiffness, None for the builder's default.
            edge_kd: Damping, None for the builder's default.
        """
        self.add_edges([i], [j], [k], [l], None if rest is None else [rest], [edge_ke], [edge_kd])

    def add_edges(
        self,
        i: Sequence[int],
        j: Sequence[int],
        k: Sequence[int],
        l: Sequence[int],
        rest: Sequence[float] | None = None,
        edge_ke: Sequence[float | None] | None = None,
        edge_kd: Sequence[float | None] | None = None,
    ) -> None:
        """Add bending edges; arguments as in `add_edge`, one entry per edge."""
        indices = np.stack([np.asarray(x, np.int64).reshape(-1) for x in (i, j, k, l)], axis=1)
        stiffness = self._per_element("edge_ke", edge_ke, len(indices))
        damping = self._per_element("edge_kd", edge_kd, len(indices))
        x = [self._positions(indices[:, n]) for n in range(4)]
        if rest is None:
            angles = dihedral_angles(*x)
            angles[np.any(indices[:, :2] < 0, axis=1)] = 0.0  # a border bends nothing
        else:
            angles = np.asarray(rest, np.float64).reshape(-1)
        self.edge_indices.extend(map(tuple, indices.tolist()))
        self.edge_rest_angle.extend(angles.tolist())
        self.edge_rest_length.extend(np.linalg.norm(x[3] - x[2], axis=1).tolist())
        self.edge_bending_properties.extend(zip(stiffness.tolist(), damping.tolist()))

    def set_coloring(self, particle_color_groups: Sequence[npt.ArrayLike]) -> None:
        """Set the particles of each colour, one array of indices per colour."""
        self.particle_color_groups = [
            np.array(group, np.int32).reshape(-1) for group in particle_color_groups
        ]

    def color(
        self,
        include_bending: bool = False,
        balance_colors: bool = True,
        target_max_min_color_ratio: float = 1.1,
        coloring_algorithm: ColoringAlgorithm = ColoringAlgorithm.MCS,
    ) -> None:
        """Colour the particles so that no two that share an element have the same colour.

        Args:
            include_bending: Whether the two particles opposite a bending edge must differ too.
            balance_colors: Whether to balance the sizes of the colours.
            target_max_min_color_ratio: Ratio of the largest to the smallest colour at which to stop.
            coloring_algorithm: `ColoringAlgorithm.MCS` or `ColoringAlgorithm.GREEDY`.
        """
        self.particle_color_groups = color_particles(
            self.particle_count,
            tri_indices=self.tri_indices,
            edge_indices=self.edge_indices if include_bending else (),
            tet_indices=self.tet_indices,
            spring_indices=self.spring_indices,
            balance=balance_colors,
            target_ratio=target_max_min_color_ratio,
            algorithm=coloring_algorithm,
        )


def triangle_rest_poses(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return inverse rest edge matrices (n, 2, 2) and areas (n,) of triangles with corners (n, 3).

    The edges b - a and c - a are written in an orthonormal basis of the triangle's plane whose first axis is
    b - a.
    """
    ab, ac = b - a, c - a
    length = np.linalg.norm(ab, axis=1)
    double = np.linalg.norm(np.cross(ab, ac), axis=1)
    flat = double <= 1e-12 * np.maximum(np.sum(ab * ab, axis=1), np.sum(ac * ac, axis=1))
    safe = np.where(flat, 1.0, length)
    rest = np.zeros((len(a), 2, 2))
    rest[:, 0, 0] = safe
    rest[:, 0, 1] = np.sum(ab * ac, axis=1) / safe
    rest[:, 1, 1] = np.where(flat, 1.0, double / safe)
    return np.linalg.inv(rest), np.where(flat, 0.0, 0.5 * double)


def dihedral_angles(o0: np.ndarray, o1: np.ndarray, v0: np.ndarray, v1: np.ndarray) -> np.ndarray:
    """Return the bending angles [rad] (n,) of the triangles (o0, v0, v1) and (o1, v1, v0); 0 when flat.

    Bridson, Marino, Fedkiw, "Simulation of clothing with folds and wrinkles", SCA 2003.
    """
    n0, n1 = np.cross(v0 - o0, v1 - o0), np.cross(v1 - o1, v0 - o1)
    edge = v1 - v0
    length = np.linalg.norm(edge, axis=1)
    sine = np.sum(np.cross(n0, n1) * edge, axis=1) / np.where(length > 0.0, length, 1.0)
    return np.arctan2(sine, np.sum(n0 * n1, axis=1))
