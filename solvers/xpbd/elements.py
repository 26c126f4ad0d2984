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

    def _masked(self, world_mask: wp.array | None) -> dict[str, object]:
        """What kernels that clear elements read: masked worlds, or all of the launcher's."""
        masked = world_mask is not None
        mask = world_mask if masked else self._no_mask
        return dict(masked=int(masked), mask=mask, world=self.model.particle_world)


class Springs(Elements):
    """Springs.

    Attributes:
        across: Damping of the relative velocity of the ends of each, in all directions [N s/m].
    """

    def __init__(self, model: Model):
        corners = _rows(model.spring_indices, 2)
        super().__init__(model, "spring", corners)
        arrays = dict.fromkeys(("rest", "stiffness", "damping", "across"), float)
        arrays |= {"weight": wp.vec2, "force": wp.vec3, "resistance": wp.vec3}
        self._allocate(springs.SpringView(), corners, wp.vec2i, **arrays)
        self.across = zeros(len(corners), dtype=float, device=model.device)

    def clear(self, launch: Launcher, world_mask: wp.array | None = None) -> None:
        """Forget the forces of the last substep, in masked worlds or in all of the launcher's."""
        launch(
            springs.clear_springs,
            f"soft_{self.name}",
            reads=self._masked(world_mask),
            writes=dict(springs=self.view),
        )

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        launch(
            springs.prepare_springs,
            f"soft_{self.name}",
            reads=dict(
                rest_length=model.spring_rest_length,
                stiffness=model.spring_stiffness,
                damping=model.spring_damping,
                control=model.spring_control,
                across=self.across,
                inv_mass=weight,
            ),
            writes=dict(springs=self.view),
        )

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the forces of the last one."""
        for kind, base in self.runs:
            launch(
                springs.start_springs,
                kind,
                reads=dict(base=base, keep=keep, dt=dt),
                writes=dict(springs=self.view, shift=shift),
            )

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        for kind, base in self.runs:
            launch(
                springs.solve_springs,
                kind,
                reads=dict(
                    base=base, x=step.x, v=step.v, dt=sweep.dt, fresh=sweep.fresh, relaxation=sweep.relaxation
                ),
                writes=dict(springs=self.view, shift=shift),
            )

    def damp(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours, for the damping in all directions."""
        for kind, base in self.runs:
            launch(
                springs.damp_springs,
                kind,
                reads=dict(base=base, v=step.v, dt=sweep.dt, fresh=sweep.fresh),
                writes=dict(springs=self.view, shift=shift),
            )


class Triangles(Elements):
    """Triangles that are stiff when they are made; the others only collide."""

    def __init__(self, model: Model):
        corners = _rows(model.tri_indices, 3)
        if not np.any(_rows(model.tri_materials, 5)[:, :3]):
            corners = corners[:0]
        super().__init__(model, "stiff_triangle", corners)
        arrays = {"weight": wp.vec3, "rest": wp.mat22, "mobility": wp.vec2, "stiffness": wp.vec3}
        arrays |= {"goal": float, "force": wp.spatial_vector}
        self._allocate(triangles.TriangleView(), corners, wp.vec3i, **arrays)

    def clear(self, launch: Launcher, world_mask: wp.array | None = None) -> None:
        """Forget the forces of the last substep, in masked worlds or in all of the launcher's."""
        launch(
            triangles.clear_triangles,
            f"soft_{self.name}",
            reads=self._masked(world_mask),
            writes=dict(triangles=self.view),
        )

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        activations = (model if control is None else control).tri_activations
        launch(
            triangles.prepare_triangles,
            f"soft_{self.name}",
            reads=dict(
                poses=model.tri_poses,
                areas=model.tri_areas,
                materials=model.tri_materials,
                activations=activations,
                inv_mass=weight,
            ),
            writes=dict(triangles=self.view),
        )

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the forces of the last one."""
        for kind, base in self.runs:
            launch(
                triangles.start_triangles,
                kind,
                reads=dict(base=base, keep=keep, dt=dt),
                writes=dict(triangles=self.view, shift=shift),
            )

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        for kind, base in self.runs:
            launch(
                triangles.solve_triangles,
                kind,
                reads=dict(
                    base=base, x=step.x, v=step.v, dt=sweep.dt, fresh=sweep.fresh, relaxation=sweep.relaxation
                ),
                writes=dict(triangles=self.view, shift=shift),
            )


class Edges(Elements):
    """Bending edges between two triangles."""

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

    def clear(self, launch: Launcher, world_mask: wp.array | None = None) -> None:
        """Forget the forces of the last substep, in masked worlds or in all of the launcher's."""
        launch(
            edges.clear_edges,
            f"soft_{self.name}",
            reads=self._masked(world_mask),
            writes=dict(edges=self.view),
        )

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        launch(
            edges.prepare_edges,
            f"soft_{self.name}",
            reads=dict(
                rest_length=model.edge_rest_length,
                rest_angle=model.edge_rest_angle,
                properties=model.edge_bending_properties,
                inv_mass=weight,
            ),
            writes=dict(edges=self.view),
        )

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the torques of the last one."""
        for kind, base in self.runs:
            launch(
                edges.start_edges,
                kind,
                reads=dict(base=base, x=x, keep=keep, dt=dt),
                writes=dict(edges=self.view, shift=shift),
            )

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        for kind, base in self.runs:
            launch(
                edges.solve_edges,
                kind,
                reads=dict(
                    base=base, x=step.x, v=step.v, dt=sweep.dt, fresh=sweep.fresh, relaxation=sweep.relaxation
                ),
                writes=dict(edges=self.view, shift=shift),
            )


class Tetrahedra(Elements):
    """Tetrahedra.

    Args:
        model: The particles.
        logarithm: Whether their energy has a logarithm, see `kernels.particles.xpbd.tetrahedra`.
    """

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

    def clear(self, launch: Launcher, world_mask: wp.array | None = None) -> None:
        """Forget the forces of the last substep, in masked worlds or in all of the launcher's."""
        launch(
            tetrahedra.clear_tetrahedra,
            f"soft_{self.name}",
            reads=self._masked(world_mask),
            writes=dict(tetrahedra=self.view),
        )

    def prepare(self, launch: Launcher, control: Control | None, weight: wp.array) -> None:
        """Read the model, or inputs in place of its own, at the start of a step."""
        model = self.model
        activations = (model if control is None else control).tet_activations
        launch(
            tetrahedra.prepare_tetrahedra,
            f"soft_{self.name}",
            reads=dict(
                poses=model.tet_poses,
                materials=model.tet_materials,
                activations=activations,
                inv_mass=weight,
                logarithm=self.logarithm,
            ),
            writes=dict(tetrahedra=self.view),
        )

    def damp(self, launch: Launcher, step: ParticleStep, dt: float) -> None:
        """Resist rates of deformation for a substep, at its start."""
        for kind, base in self.runs:
            launch(
                tetrahedra.damp_tetrahedra,
                kind,
                reads=dict(base=base, tetrahedra=self.view, x=step.x, dt=dt),
                writes=dict(v=step.v),
            )

    def start(self, launch: Launcher, x: wp.array, keep: float, dt: float, shift: wp.array) -> None:
        """Start a substep from a part of the forces of the last one."""
        for kind, base in self.runs:
            launch(
                tetrahedra.start_tetrahedra,
                kind,
                reads=dict(base=base, keep=keep, dt=dt),
                writes=dict(tetrahedra=self.view, shift=shift),
            )

    def solve(self, launch: Launcher, step: ParticleStep, sweep: Sweep, shift: wp.array) -> None:
        """Go once over all colours."""
        for kind, base in self.runs:
            launch(
                tetrahedra.solve_tetrahedra,
                kind,
                reads=dict(
                    base=base,
                    x=step.x,
                    dt=sweep.dt,
                    fresh=sweep.fresh,
                    relaxation=sweep.relaxation,
                    logarithm=self.logarithm,
                ),
                writes=dict(tetrahedra=self.view, shift=shift),
            )


def _rows(array: wp.array | None, columns: int) -> np.ndarray:
    """An array of the model as rows; none where the model has no such array."""
    if array is None or not len(array):
        return np.zeros((0, columns), int)
    return array.numpy().reshape(-1, columns)
