"""Springs, triangles, bending edges and tetrahedra of extended position-based dynamics, ordered by colour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import warp as wp

from newtonsim.kernels.particles.xpbd import edges, springs, tetrahedra, triangles
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.coloring import color_worlds
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.solvers.particles.system import ParticleStep, starts_of


class Sweep(NamedTuple):
    """What elements are told of a sweep.

    Attributes:
        dt: Length of the substep [s].
        fresh: 1 if no forces act yet, whatever the arrays say; 0 otherwise.
        relaxation: Factor on corrections.
    """

    dt: float
    fresh: int
    relaxation: float


class Elements(Revised):
    """Elements of one kind, at places where those of one colour lie one after the other.

    Args:
        model: The particles.
        name: What an element is called in kinds of index.
        corners: Particles of each element, ordered by world (n, k).

    Attributes:
        starts: Kinds of index, see `Shard`: the elements by world, and the places of each colour.
        runs: The kind of index of each colour, and where its places begin.
        order: Element at each place (n,).
    """

    view: object
    clear_kernel: wp.Kernel

    def __init__(self, model: Model, name: str, corners: np.ndarray):
        self.model, self.name = model, name
        worlds, owner = model.world_count, model.particle_world.numpy()
        self.starts = {f"soft_{name}": starts_of(owner[corners[:, 0]], worlds)}
        self.runs: list[tuple[str, int]] = []
        groups = color_worlds(corners, worlds, model.particle_count)
        base = 0
        for color, group in enumerate(groups):
            kind = f"{name} of colour {color}"
            self.starts[kind] = starts_of(owner[corners[group, 0]], worlds)
            self.runs.append((kind, base))
            base += len(group)
        self.order = np.concatenate(groups) if groups else np.zeros(0, int)
        self._no_mask = zeros(1, dtype=bool, device=model.device)

    def _allocate(self, view: object, corners: np.ndarray, dtype: type, **arrays: type) -> None:
        """Fill a struct view: the places, the corners at each place, and zeros."""
        count, device = len(corners), self.model.device
        place = np.empty(count, int)
        place[self.order] = np.arange(count)
        view.place = put(place, dtype=int, device=device)
        first = "ends" if dtype is wp.vec2i else "corner"
        setattr(view, first, put(corners[self.order].reshape(-1, dtype._length_), dtype=dtype, device=device))
        for name, kind in arrays.items():
            setattr(view, name, zeros(count, dtype=kind, device=device))
        self.view = view

    def clear(self, launch: Launcher, world_mask: wp.array | None = None) -> None:
        """Forget the forces of the last substep, in masked worlds or in all of the launcher's."""
        masked = world_mask is not None
        inputs = [int(masked), world_mask if masked else self._no_mask, self.model.particle_world]
        self._each(launch, self.clear_kernel, inputs)

    def _each(self, launch: Launcher, kernel: wp.Kernel, inputs: list) -> None:
        launch(kernel, f"soft_{self.name}", [*inputs, self.view])

    def _by_color(self, launch: Launcher, kernel: wp.Kernel, inputs: list) -> None:
        for kind, base in self.runs:
            launch(kernel, kind, [base, self.view, *inputs])


class Springs(Elements):
    """Springs.

    Attributes:
        across: Damping of the relative velocity of the ends of each, in all directions [N s/m].
    """

    clear_kernel = springs.clear_springs

    def __init__(self, model: Model):
        corners = _rows(model.spring_indices, 2)
        super().__init__(model, "spring", corners)
        arrays = dict.fromkeys(("rest", "stiffness", "damping", "across"), float)
        arrays |= {"weight": wp.vec2, "force": wp.vec3, "resistance": wp.vec3}
        self._allocate(springs.SpringView(), corners, wp.vec2i, **arrays)
        self.across = zeros(len(corners), dtype=float, device=model.device)

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        inputs = [model.spring_rest_length, model.spring_stiffness, model.spring_damping]
        inputs += [model.spring_control, self.across, weight]
        self._each(launch, springs.prepare_springs, inputs)

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the forces of the last one."""
        self._by_color(launch, springs.start_springs, [keep, dt, shift])

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        self._by_color(launch, springs.solve_springs, [step.x, step.v, *sweep, shift])

    def damp(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours, for the damping in all directions."""
        self._by_color(launch, springs.damp_springs, [step.v, sweep.dt, sweep.fresh, shift])


class Triangles(Elements):
    """Triangles that are stiff when they are made; the others only collide."""

    clear_kernel = triangles.clear_triangles

    def __init__(self, model: Model):
        corners = _rows(model.tri_indices, 3)
        if not np.any(_rows(model.tri_materials, 5)[:, :3]):
            corners = corners[:0]
        super().__init__(model, "stiff_triangle", corners)
        arrays = {"weight": wp.vec3, "rest": wp.mat22, "mobility": wp.vec2, "stiffness": wp.vec3}
        arrays |= {"goal": float, "force": wp.spatial_vector}
        self._allocate(triangles.TriangleView(), corners, wp.vec3i, **arrays)

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        activations = (model if control is None else control).tri_activations
        inputs = [model.tri_poses, model.tri_areas, model.tri_materials, activations, weight]
        self._each(launch, triangles.prepare_triangles, inputs)

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the forces of the last one."""
        self._by_color(launch, triangles.start_triangles, [keep, dt, shift])

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        self._by_color(launch, triangles.solve_triangles, [step.x, step.v, *sweep, shift])


class Edges(Elements):
    """Bending edges between two triangles."""

    clear_kernel = edges.clear_edges

    def __init__(self, model: Model):
        corners = _rows(model.edge_indices, 4)
        element = np.flatnonzero(np.all(corners >= 0, axis=1))
        if not np.any(_rows(model.edge_bending_properties, 2)):
            element = element[:0]
        corners = corners[element]
        super().__init__(model, "edge", corners)
        arrays = {"weight": wp.vec4, "stiffness": wp.vec2, "rest": float, "torque": float}
        self._allocate(edges.EdgeView(), corners, wp.vec4i, **arrays)
        self.view.element = put(element, dtype=int, device=model.device)

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        inputs = [model.edge_rest_length, model.edge_rest_angle, model.edge_bending_properties, weight]
        self._each(launch, edges.prepare_edges, inputs)

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the torques of the last one."""
        self._by_color(launch, edges.start_edges, [x, keep, dt, shift])

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        self._by_color(launch, edges.solve_edges, [step.x, step.v, *sweep, shift])


class Tetrahedra(Elements):
    """Tetrahedra.

    Args:
        model: The particles.
        logarithm: Whether their energy has a logarithm, see `kernels.particles.xpbd.tetrahedra`.
    """

    clear_kernel = tetrahedra.clear_tetrahedra

    def __init__(self, model: Model, logarithm: bool):
        self.logarithm = float(logarithm)
        corners = _rows(model.tet_indices, 4)
        super().__init__(model, "tetrahedron", corners)
        arrays = {
            "weight": wp.vec4,
            "pose": wp.mat33,
            "rest": wp.mat33,
            "mobility": wp.vec3,
            "shear": float,
            "bulk": float,
        }
        arrays |= {"goal": float, "viscosity": wp.vec2, "force": wp.mat33}
        self._allocate(tetrahedra.TetrahedronView(), corners, wp.vec4i, **arrays)

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        activations = (model if control is None else control).tet_activations
        inputs = [model.tet_poses, model.tet_materials, activations, weight, self.logarithm]
        self._each(launch, tetrahedra.prepare_tetrahedra, inputs)

    def damp(self, launch: Launcher, step: ParticleStep, dt: float) -> None:
        """Resist rates of deformation for a substep, at its start."""
        self._by_color(launch, tetrahedra.damp_tetrahedra, [step.x, dt, step.v])

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the forces of the last one."""
        self._by_color(launch, tetrahedra.start_tetrahedra, [keep, dt, shift])

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        inputs = [step.x, *sweep, self.logarithm, shift]
        self._by_color(launch, tetrahedra.solve_tetrahedra, inputs)


def _rows(array: wp.array | None, columns: int) -> np.ndarray:
    """An array of the model as rows; none where the model has no such array."""
    if array is None or not len(array):
        return np.zeros((0, columns), int)
    return array.numpy().reshape(-1, columns)
