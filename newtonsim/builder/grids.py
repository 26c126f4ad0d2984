"""Cloth, soft bodies and blocks of particles, made from regular grids or meshes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from newtonsim.builder.particles import ParticleMethods
from newtonsim.errors import ModelError
from newtonsim.geometry.tetmesh import surface_triangles
from newtonsim.geometry.transforms import pose, transform_point
from newtonsim.scene.columns import check_count

TETRAHEDRA_EVEN = np.array([[0, 1, 3, 4], [2, 3, 1, 6], [5, 4, 6, 1], [7, 6, 4, 3], [4, 1, 6, 3]])
TETRAHEDRA_ODD = np.array([[1, 2, 0, 5], [3, 0, 2, 7], [4, 7, 5, 0], [6, 5, 7, 2], [5, 2, 7, 0]])
"""Five tetrahedra of a cell with corners 0..3 counter-clockwise below and 4..7 above them, in its two mirror
forms.

Neighbouring cells take different forms, so that the diagonals of their common face agree.
"""


def unique_edges(triangles: np.ndarray) -> np.ndarray:
    """Return the bending edges (m, 4) of triangles (n, 3) as (o0, o1, v0, v1), o1 being -1 on a border.

    Raises:
        ModelError: More than two triangles share an edge.
    """
    corners = np.concatenate([triangles, triangles[:, [1, 2, 0]], triangles[:, [2, 0, 1]]])
    start, end, opposite = corners.T
    low, high = np.minimum(start, end), np.maximum(start, end)
    order = np.lexsort((np.arange(len(low)), high, low))
    low, high = low[order], high[order]
    first = (
        np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])) if len(low) else np.zeros(0, bool)
    )
    begin = np.flatnonzero(first)
    sharing = np.diff(np.append(begin, len(low)))
    if np.any(sharing > 2):
        at = begin[np.argmax(sharing > 2)]
        raise ModelError(f"more than two triangles share the edge between vertices {low[at]} and {high[at]}")
    edges = np.full((len(begin), 4), -1, np.int64)
    edges[:, 0] = opposite[order[begin]]
    edges[:, 2] = start[order[begin]]
    edges[:, 3] = end[order[begin]]
    paired = sharing == 2
    edges[paired, 1] = opposite[order[begin[paired] + 1]]
    return edges


class GridMethods(ParticleMethods):
    """The part of ModelBuilder that adds cloth and soft bodies.

    Arguments that the methods share: `pos`, `rot`, `vel` are position [m], orientation and velocity [m/s] of
    the whole; `tri_*`, `edge_*`, `spring_*` are the materials of the elements, None for the builder's
    defaults.
    """

    def add_cloth_grid(
        self,
        pos: npt.ArrayLike,
        rot: npt.ArrayLike,
        vel: npt.ArrayLike,
        dim_x: int,
        dim_y: int,
        cell_x: float,
        cell_y: float,
        mass: float,
        reverse_winding: bool = False,
        fix_left: bool = False,
        fix_right: bool = False,
        fix_top: bool = False,
        fix_bottom: bool = False,
        tri_ke: float | None = None,
        tri_ka: float | None = None,
        tri_kd: float | None = None,
        tri_drag: float | None = None,
        tri_lift: float | None = None,
        edge_ke: float | None = None,
        edge_kd: float | None = None,
        add_springs: bool = False,
        spring_ke: float | None = None,
        spring_kd: float | None = None,
        particle_radius: float | None = None,
    ) -> None:
        """Add a rectangular cloth in the local x-y plane with its corner at `pos`.

        Own arguments, beside those that the class describes:

        - dim_x: Cells along x.
        - dim_y: Cells along y.
        - cell_x: Width of a cell [m].
        - cell_y: Height of a cell [m].
        - mass: Mass of each particle [kg].
        - reverse_winding: Whether the normals point to local -z.
        - fix_left: Hold the particles at x = 0.
        - fix_right: Hold those at the largest x.
        - fix_top: Hold those at the largest y.
        - fix_bottom: Hold those at y = 0.
        - add_springs: Whether springs run along all edges and across them.
        - particle_radius: Radius [m].
        """
        if min(dim_x, dim_y) < 1:
            raise ModelError(f"cloth grid: needs at least one cell each way, got {dim_x} x {dim_y}")
        check_count("cloth grid", (dim_x + 1) * (dim_y + 1))
        columns = dim_x + 1
        x, y = np.tile(np.arange(columns), dim_y + 1), np.repeat(np.arange(dim_y + 1), columns)
        points = np.stack([x * cell_x, y * cell_y, np.zeros(len(x))], axis=1)
        masses = np.full(len(x), float(mass))
        masses[_held(x, dim_x, fix_left, fix_right) | _held(y, dim_y, fix_bottom, fix_top)] = 0.0
        start = self._extend_particles(
            transform_point(pose(pos, rot, "cloth grid"), points), vel, masses, particle_radius
        )
        corner = (np.arange(dim_y)[:, None] * columns + np.arange(dim_x)).reshape(-1)
        right, above, across = corner + 1, corner + columns, corner + columns + 1
        triangles = np.stack([corner, right, across, corner, across, above], axis=1).reshape(-1, 3)
        if reverse_winding:
            triangles = triangles[:, [0, 2, 1]]
        tri = (tri_ke, tri_ka, tri_kd, tri_drag, tri_lift)
        self._add_cloth_elements(
            triangles + start, tri, (edge_ke, edge_kd), add_springs, (spring_ke, spring_kd)
        )

    def _add_cloth_elements(
        self, triangles: np.ndarray, tri: tuple, edge: tuple, add_springs: bool, spring: tuple
    ) -> np.ndarray:
        """Add triangles, bending edges and springs over particles (n, 3); return the edges (m, 4)."""
        self.add_triangles(*triangles.T, *tri)
        edges = unique_edges(triangles)
        self.add_edges(*edges.T, None, *edge)  # pyright: ignore[reportCallIssue]
        if add_springs:
            across = edges[edges[:, 1] >= 0, :2]
            ke = self.default_spring_ke if spring[0] is None else spring[0]
            kd = self.default_spring_kd if spring[1] is None else spring[1]
            self._extend_springs(np.concatenate([edges[:, 2:], across]), ke, kd)
        return edges

    def add_cloth_mesh(
        self,
        pos: npt.ArrayLike,
        rot: npt.ArrayLike,
        scale: float,
        vel: npt.ArrayLike,
        vertices: npt.ArrayLike,
        indices: npt.ArrayLike,
        density: float,
        edge_callback: Callable[[int, int, int, int], None] | None = None,
        face_callback: Callable[[int, int, int], None] | None = None,
        tri_ke: float | None = None,
        tri_ka: float | None = None,
        tri_kd: float | None = None,
        tri_drag: float | None = None,
        tri_lift: float | None = None,
        edge_ke: float | None = None,
        edge_kd: float | None = None,
        add_springs: bool = False,
        spring_ke: float | None = None,
        spring_kd: float | None = None,
        particle_radius: float | None = None,
    ) -> None:
        """Add a cloth from a triangle mesh in which at most two triangles share an edge.

        Own arguments, beside those that the class describes:

        - scale: Factor on the vertices.
        - vertices: Points, shape [n, 3] [m].
        - indices: Triangle corners, flat or [m, 3].
        - density: Mass per area [kg/m^2].
        - edge_callback: Called with the particles (o0, o1, v0, v1) of every bending edge.
        - face_callback: Called with the particles (i, j, k) of every triangle.
        - add_springs: Whether springs run along all edges and across them.
        - particle_radius: Radius [m].
        """
        points = np.asarray(vertices, np.float64).reshape(-1, 3) * scale
        triangles = _indices(indices, 3, len(points), "cloth mesh")
        a, b, c = (points[triangles[:, n]] for n in range(3))
        areas = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
        masses = np.bincount(triangles.reshape(-1), np.repeat(density * areas / 3.0, 3), len(points))
        start = self._extend_particles(
            transform_point(pose(pos, rot, "cloth mesh"), points), vel, masses, particle_radius
        )
        tri = (tri_ke, tri_ka, tri_kd, tri_drag, tri_lift)
        edges = self._add_cloth_elements(
            triangles + start, tri, (edge_ke, edge_kd), add_springs, (spring_ke, spring_kd)
        )
        for callback, rows in ((face_callback, triangles + start), (edge_callback, edges)):
            if callback is not None:
                for row in rows.tolist():
                    callback(*row)

    def add_rope(
        self,
        points: npt.ArrayLike,
        vel: npt.ArrayLike,
        linear_density: float,
        stretch_stiffness: float,
        stretch_damping: float = 0.0,
        fix_start: bool = False,
        fix_end: bool = False,
        particle_radius: float | None = None,
    ) -> range:
        """Add a limp rope along a line of points: springs in series, which resist stretch and nothing else.

        A rope that also resists bending is a chain of bodies with joints, or a strip of cloth.

        Own arguments, beside those that the class describes:

        - points: Particles from start to end, shape [n, 3] [m]; the rope is at rest in this shape.
        - linear_density: Mass per length [kg/m]; each particle takes half the mass of both neighbouring
        segments.
        - stretch_stiffness: Young's modulus times cross-section [N]; a segment of length l has this stiffness
        divided by l.
        - stretch_damping: Force over rate of strain [N s].
        - fix_start: Hold the first particle.
        - fix_end: Hold the last one.
        - particle_radius: Radius [m].

        Returns:
            The indices of its particles.

        Raises:
            ModelError: There are fewer than two points, or two neighbours coincide.
        """
        points = np.asarray(points, np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2:
            raise ModelError(f"rope: expected at least two points [n, 3], got shape {points.shape}")
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if not np.all(lengths > 0.0):
            raise ModelError(f"rope: points {np.argmin(lengths > 0.0)} and the next coincide")
        masses = np.zeros(len(points))
        masses[:-1] += 0.5 * linear_density * lengths
        masses[1:] += 0.5 * linear_density * lengths
        masses[0] *= not fix_start
        masses[-1] *= not fix_end
        first = self._extend_particles(points, vel, masses, particle_radius)
        for k, length in enumerate(lengths.tolist()):
            ke, kd = stretch_stiffness / length, stretch_damping / length
            self.add_spring(first + k, first + k + 1, ke, kd, 0.0)
        return range(first, first + len(points))

    def add_particle_grid(
        self,
        pos: npt.ArrayLike,
        rot: npt.ArrayLike,
        vel: npt.ArrayLike,
        dim_x: int,
        dim_y: int,
        dim_z: int,
        cell_x: float,
        cell_y: float,
        cell_z: float,
        mass: float,
        jitter: float,
        radius_mean: float | None = None,
        radius_std: float = 0.0,
    ) -> None:
        """Add a block of dim_x * dim_y * dim_z unconnected particles.

        Own arguments, beside those that the class describes:

        - cell_x: Distance along x [m].
        - cell_y: Distance along y [m].
        - cell_z: Distance along z [m].
        - mass: Mass of each particle [kg].
        - jitter: Width of the random offset of each particle [m]; offsets are the same in every call.
        - radius_mean: Mean radius [m], None for the builder's default.
        - radius_std: Standard deviation of the radii [m].
        """
        rng = np.random.default_rng(42)
        x, y, z = _lattice(dim_x, dim_y, dim_z)
        points = np.stack([x * cell_x, y * cell_y, z * cell_z], axis=1)
        points = transform_point(pose(pos, rot, "particle grid"), points)
        points += jitter * rng.uniform(-0.5, 0.5, points.shape)
        mean = self.default_particle_radius if radius_mean is None else radius_mean
        radii = np.maximum(mean + radius_std * rng.standard_normal(len(points)), 0.0)
        self._extend_particles(points, vel, np.full(len(points), float(mass)), radii)

    def add_soft_grid(
        self,
        pos: npt.ArrayLike,
        rot: npt.ArrayLike,
        vel: npt.ArrayLike,
        dim_x: int,
        dim_y: int,
        dim_z: int,
        cell_x: float,
        cell_y: float,
        cell_z: float,
        density: float,
        k_mu: float,
        k_lambda: float,
        k_damp: float,
        fix_left: bool = False,
        fix_right: bool = False,
        fix_top: bool = False,
        fix_bottom: bool = False,
        tri_ke: float | None = None,
        tri_ka: float | None = None,
        tri_kd: float | None = None,
        tri_drag: float | None = None,
        tri_lift: float | None = None,
    ) -> None:
        """Add a box of tetrahedra, five per cell, with triangles on its surface.

        Own arguments, beside those that the class describes:

        - dim_x: Cells along x.
        - dim_y: Cells along y.
        - dim_z: Cells along z.
        - cell_x: Width of a cell along x [m].
        - cell_y: Width of a cell along y [m].
        - cell_z: Width of a cell along z [m].
        - density: Mass per volume [kg/m^3]; each corner of a cell takes an eighth of its mass.
        - k_mu: First Lamé parameter [Pa].
        - k_lambda: Second Lamé parameter [Pa].
        - k_damp: Damping.
        - fix_left: Hold the particles at x = 0.
        - fix_right: Hold those at the largest x.
        - fix_top: Hold those at the largest y.
        - fix_bottom: Hold those at y = 0.
        """
        if min(dim_x, dim_y, dim_z) < 1:
            raise ModelError(f"soft grid: needs at least one cell each way, got {dim_x} x {dim_y} x {dim_z}")
        check_count("soft grid", (dim_x + 1) * (dim_y + 1) * (dim_z + 1))
        columns, layer = dim_x + 1, (dim_x + 1) * (dim_y + 1)
        x, y, z = _lattice(dim_x + 1, dim_y + 1, dim_z + 1)
        points = np.stack([x * cell_x, y * cell_y, z * cell_z], axis=1)
        cx, cy, cz = _lattice(dim_x, dim_y, dim_z)
        base = cx + cy * columns + cz * layer
        corners = base[:, None] + np.array([0, 1, columns + 1, columns] * 2) + np.repeat([0, layer], 4)
        masses = np.bincount(corners.reshape(-1), minlength=len(points)) * (
            density * cell_x * cell_y * cell_z / 8.0
        )
        masses[_held(x, dim_x, fix_left, fix_right) | _held(y, dim_y, fix_bottom, fix_top)] = 0.0
        start = self._extend_particles(transform_point(pose(pos, rot, "soft grid"), points), vel, masses)
        even = (cx + cy + cz) % 2 == 0
        forms = np.where(even[:, None, None], TETRAHEDRA_EVEN, TETRAHEDRA_ODD).reshape(len(base), -1)
        tetrahedra = np.take_along_axis(corners, forms, axis=1).reshape(-1, 4) + start
        self._add_soft_elements(
            tetrahedra, (k_mu, k_lambda, k_damp), (tri_ke, tri_ka, tri_kd, tri_drag, tri_lift)
        )

    def _add_soft_elements(self, tetrahedra: np.ndarray, lame: tuple, tri: tuple) -> None:
        """Add tetrahedra (n, 4) and triangles on the surface of the kept ones."""
        before = self.tet_count
        self._extend_tetrahedra(tetrahedra, *lame)
        added = np.array(self.tet_indices[before:], np.int64).reshape(-1, 4)
        self.add_triangles(*surface_triangles(added).T, *tri)

    def add_soft_mesh(
        self,
        pos: npt.ArrayLike,
        rot: npt.ArrayLike,
        scale: float,
        vel: npt.ArrayLike,
        vertices: npt.ArrayLike,
        indices: npt.ArrayLike,
        density: float,
        k_mu: float,
        k_lambda: float,
        k_damp: float,
        tri_ke: float | None = None,
        tri_ka: float | None = None,
        tri_kd: float | None = None,
        tri_drag: float | None = None,
        tri_lift: float | None = None,
    ) -> None:
        """Add a soft body from a mesh of tetrahedra, with triangles on its surface.

        Own arguments, beside those that the class describes:

        - scale: Factor on the vertices.
        - vertices: Points, shape [n, 3] [m].
        - indices: Corners of the tetrahedra, flat or [m, 4].
        - density: Mass per volume [kg/m^3]; each corner of a tetrahedron takes a quarter of its mass.
        - k_mu: First Lamé parameter [Pa].
        - k_lambda: Second Lamé parameter [Pa].
        - k_damp: Damping.
        """
        points = np.asarray(vertices, np.float64).reshape(-1, 3) * scale
        tetrahedra = _indices(indices, 4, len(points), "soft mesh")
        a, b, c, d = (points[tetrahedra[:, n]] for n in range(4))
        volumes = np.abs(np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a)) / 6.0
        masses = np.bincount(tetrahedra.reshape(-1), np.repeat(density * volumes / 4.0, 4), len(points))
        start = self._extend_particles(transform_point(pose(pos, rot, "soft mesh"), points), vel, masses)
        self._add_soft_elements(
            tetrahedra + start, (k_mu, k_lambda, k_damp), (tri_ke, tri_ka, tri_kd, tri_drag, tri_lift)
        )


def _lattice(nx: int, ny: int, nz: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of nx * ny * nz points, x running fastest."""
    index = np.arange(nx * ny * nz)
    return index % nx, index // nx % ny, index // (nx * ny)


def _held(index: np.ndarray, last: int, low: bool, high: bool) -> np.ndarray:
    return (low & (index == 0)) | (high & (index == last))


def _indices(indices: npt.ArrayLike, corners: int, count: int, name: str) -> np.ndarray:
    """Read element corners (n, corners) and check them."""
    flat = np.asarray(indices, np.int64).reshape(-1)
    if len(flat) % corners:
        raise ModelError(
            f"{name}: {len(flat)} indices are not a whole number of elements with {corners} corners"
        )
    outside = (flat < 0) | (flat >= count)
    if outside.any():
        at = int(np.argmax(outside))
        raise ModelError(
            f"{name}: corner {at % corners} of element {at // corners} is vertex {flat[at]}, "
            f"outside 0..{count - 1}"
        )
    return flat.reshape(-1, corners)
