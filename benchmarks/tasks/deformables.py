"""Scenes of the benchmark of deformables, each made with newtonsim's builder and handed to every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import newtonsim
from tasks.deformables_residual import (
    Elements,
    Hinges,
    NeoHookeanTriangles,
    Objective,
    Springs,
    Tetrahedra,
    Triangles,
)

GRAVITY = np.array([0.0, 0.0, -9.81])
"""Acceleration of gravity in all scenes [m/s^2]."""


NET_STIFFNESS = 10.0
"""Of the springs of the net [N/m], as stiff as Newton's XPBD is stable with at its time step."""


@dataclass(frozen=True, slots=True)
class SelfContact:
    """Distances of self-contact [m]: where forces begin, and up to where pairs are looked for."""

    radius: float
    margin: float


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What engines simulate.

    Attributes:
        name: Name in the tables.
        builder: Particles and elements.
        dt: Time step [s].
        times: Simulated times of the states that steps are measured from [s].
        solver: "VBD" or "XPBD".
        self_contact: Distances of self-contact, or None.
        drive: Returns the positions (n, 3) of all particles with held ones where they are at a time [s], from
            the positions now (n, 3); None if they stand still.
    """

    name: str
    builder: newtonsim.ModelBuilder
    dt: float
    times: tuple[float, ...]
    solver: str
    self_contact: SelfContact | None = None
    drive: Callable[[np.ndarray, float], np.ndarray] | None = None

    @property
    def held(self) -> np.ndarray:
        """Which particles no engine moves (n,)."""
        return np.array(self.builder.particle_mass) == 0.0

    def apart(self, x: np.ndarray) -> np.ndarray | None:
        """Particles (n,) that are further from others than contact reaches, but for neighbours at rest."""
        if self.self_contact is None:
            return None
        from scipy.spatial import KDTree

        rest = np.array([list(q) for q in self.builder.particle_q])
        cell = float(np.max(self.builder.edge_rest_length))
        near = KDTree(x).query_pairs(cell + self.self_contact.margin, output_type="ndarray")
        strange = np.linalg.norm(rest[near[:, 0]] - rest[near[:, 1]], axis=1) > 3.0 * cell
        found = np.ones(len(x), bool)
        found[near[strange].reshape(-1)] = False
        return found


def new_builder() -> newtonsim.ModelBuilder:
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))


def add_cloth(
    builder: newtonsim.ModelBuilder, cells: int, turn: tuple, pos: tuple, **options: object
) -> None:
    """Add one square metre of cloth, 0.3 kg, elastic in its plane and a little against bending."""
    material = dict(tri_ke=50.0, tri_ka=50.0, tri_kd=0.0, tri_drag=0.0, tri_lift=0.0)
    builder.add_cloth_grid(
        pos,
        turn,
        (0.0, 0.0, 0.0),
        cells,
        cells,
        1.0 / cells,
        1.0 / cells,
        0.3 / (cells + 1) ** 2,
        edge_ke=1.0e-3,
        edge_kd=0.0,
        particle_radius=0.2 / cells,
        **material | options,
    )


def hanging_cloth(cells: int = 64) -> Scene:
    """A cloth falls from the horizontal, held at two corners."""
    builder = new_builder()
    add_cloth(builder, cells, (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0))
    builder.particle_mass[0] = builder.particle_mass[cells] = 0.0
    builder.color(include_bending=True)
    return Scene("hanging cloth", builder, 1.0 / 600.0, (0.1, 0.2, 0.3, 0.4), "VBD")


def hanging_springs(cells: int = 64) -> Scene:
    """The same as a net of springs along the edges and across them, for engines without triangles."""
    builder, sheet = new_builder(), new_builder()
    add_cloth(
        sheet,
        cells,
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 1.0),
        add_springs=True,
        spring_ke=NET_STIFFNESS,
        spring_kd=0.0,
    )
    for position, mass in zip(sheet.particle_q, sheet.particle_mass):
        builder.add_particle(position, (0.0, 0.0, 0.0), mass, 0.2 / cells)
    for i, j in np.array(sheet.spring_indices).reshape(-1, 2).tolist():
        builder.add_spring(i, j, NET_STIFFNESS, 0.0, 0.0)
    builder.particle_mass[0] = builder.particle_mass[cells] = 0.0
    return Scene("hanging net", builder, 1.0 / 1500.0, (0.1, 0.2, 0.3), "XPBD")


def twisted_cloth(cells: int = 64, speed: float = 0.5, times: tuple[float, ...] = (0.4, 0.8)) -> Scene:
    """A cloth between two bars that turn against each other about its middle line, in contact with itself.

    Args:
        cells: Cells each way.
        speed: Turns of each bar a second.
        times: When steps are measured [s].
    """
    builder = new_builder()
    add_cloth(builder, cells, (0.0, 0.0, 0.0, 1.0), (-0.5, -0.5, 0.0), fix_left=True, fix_right=True)
    builder.color(include_bending=True)
    start = np.array([list(q) for q in builder.particle_q])
    held = np.array(builder.particle_mass) == 0.0
    side = np.sign(start[:, 0])

    def drive(x: np.ndarray, time: float) -> np.ndarray:
        angle = 2.0 * np.pi * speed * time * side
        out = x.copy()
        turned = np.stack(
            [
                start[:, 0] * (1.0 - 0.05 * min(time, 2.0)),
                np.cos(angle) * start[:, 1] - np.sin(angle) * start[:, 2],
                np.sin(angle) * start[:, 1] + np.cos(angle) * start[:, 2],
            ],
            axis=1,
        )
        out[held] = turned[held]
        return out

    contact = SelfContact(0.25 / cells, 0.5 / cells)
    return Scene("twisted cloth", builder, 1.0 / 600.0, times, "VBD", contact, drive)


def soft_beam(long: int = 25, wide: int = 9, solver: str = "VBD") -> Scene:
    """A rubber beam of five tetrahedra a cell, clamped at one end, sags and swings."""
    builder = new_builder()
    builder.add_soft_grid(
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
        long,
        wide,
        wide,
        0.02,
        0.02,
        0.02,
        1000.0,
        1.0e5,
        1.5e5,
        0.0,
        fix_left=True,
        tri_ke=0.0,
        tri_ka=0.0,
        tri_kd=0.0,
        tri_drag=0.0,
        tri_lift=0.0,
    )
    builder.color()
    return Scene("soft beam", builder, 1.0 / 300.0, (0.05, 0.1, 0.2, 0.4), solver)


def objective(scene: Scene, neo_hookean_triangles: bool) -> Objective:
    """Return what a step of a scene minimises."""
    b, elements = scene.builder, []
    if b.spring_count:
        pairs = np.array(b.spring_indices).reshape(-1, 2)
        elements.append(Springs(pairs, np.array(b.spring_rest_length), np.array(b.spring_stiffness)))
    if b.tri_count and np.any(np.array(b.tri_materials)[:, :2]):
        ke, ka = np.array(b.tri_materials, float)[:, :2].T
        kind = NeoHookeanTriangles if neo_hookean_triangles else Triangles
        inverse = np.array(b.tri_poses, float).reshape(-1, 2, 2)
        elements.append(kind(np.array(b.tri_indices), inverse, np.array(b.tri_areas), ke, ka))
    if b.edge_count:
        elements.append(_hinges(b))
    if b.tet_count:
        inverse = np.array(b.tet_poses, float).reshape(-1, 3, 3)
        mu, lam = np.array(b.tet_materials, float)[:, :2].T
        volume = 1.0 / (6.0 * np.linalg.det(inverse))
        elements.append(Tetrahedra(np.array(b.tet_indices), inverse, volume, mu, lam))
    return Objective(np.array(b.particle_mass), scene.dt, GRAVITY, elements)


def _hinges(b: newtonsim.ModelBuilder) -> Elements:
    corners = np.array(b.edge_indices)
    inner = (corners[:, :2] >= 0).all(axis=1)
    stiffness = np.array(b.edge_bending_properties, float)[:, 0]
    angle, length = np.array(b.edge_rest_angle), np.array(b.edge_rest_length)
    return Hinges(corners[inner], angle[inner], length[inner], stiffness[inner])


@dataclass(frozen=True, slots=True, eq=False)
class Heap:
    """Particles that fall into a box.

    Attributes:
        builder: Particles and the walls.
        planes: Floor and walls as (a, b, c, d), normals inwards.
        radius: Of the particles [m].
        half: Half widths of the box along x and y [m].
        dt: Time step [s].
        settle: Simulated time before the measurement [s].
    """

    builder: newtonsim.ModelBuilder
    planes: list[tuple]
    radius: float
    half: np.ndarray
    dt: float
    settle: float


def heap(across: int = 79, layers: int = 16, gap: float = 1.05) -> Heap:
    """Particles of 1 cm, a little apart and out of line, fall into a box that they fill.

    Args:
        across: Particles along x and y.
        layers: Particles along z.
        gap: Distance of neighbours at the start over the diameter.
    """
    radius, builder = 0.01, new_builder()
    step = 2.0 * radius * gap
    half = np.full(2, 0.5 * across * step + 0.2 * radius)
    low = -0.5 * (across - 1) * step
    builder.add_particle_grid(
        (low, low, 1.5 * radius),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
        across,
        across,
        layers,
        step,
        step,
        step,
        4.0e-3,
        0.05 * radius,
        radius,
    )
    planes = [(0.0, 0.0, 1.0, 0.0)]
    planes += [(s * (k == 0), s * (k == 1), 0.0, float(half[k])) for k in (0, 1) for s in (1.0, -1.0)]
    for plane in planes:
        builder.add_shape_plane(plane=plane, width=0.0, length=0.0)
    return Heap(builder, planes, radius, half, 1.0 / 240.0, 0.5)
