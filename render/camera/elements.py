"""Cloth, soft bodies, grains and ropes as ray cameras see them: elements between particles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.camera import elements as camera_elements
from newtonsim.kernels.camera.elements import ElementView
from newtonsim.render.camera.rows import starts
from newtonsim.render.soft_parts import SoftParts
from newtonsim.runtime import compilation

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

SURFACE_COLOR = (0.80, 0.36, 0.28, 1.0)
PARTICLE_COLOR = (0.85, 0.70, 0.42, 1.0)
SPRING_COLOR = (0.55, 0.50, 0.45, 1.0)


class CameraElements:
    """The visible elements of particles: surfaces, and particles and springs that belong to no surface.

    Triangles are those of the model and the bare faces of its tetrahedra. Particles of neither are spheres of
    their radius, if they are active; springs with such a particle at an end are capsules of half its radius.

    Attributes:
        view: What kernels take, `newtonsim.kernels.camera.elements.ElementView`, shape (1,), or (0,) without
            elements.
        count: Number of elements.
        color: RGBA of the elements, vec4, shape (count,).

    Args:
        model: The model.
        worlds: Worlds to see, in the order in which the scene has them.
        label: Segmentation labels of surfaces, particles and springs (3,).
    """

    def __init__(self, model: Model, worlds: np.ndarray, label: tuple[int, int, int]):
        self._model, self._device = model, model.device
        particle, kind = list_elements(model)
        world, particle, kind = _spread(model, worlds, particle, kind)
        self.count = len(particle)
        self._has_loose = bool(np.any(kind > 0))
        device, view = self._device, ElementView()
        colors = np.array([SURFACE_COLOR, PARTICLE_COLOR, SPRING_COLOR], np.float32)
        self.color = wp.array(colors[kind], dtype=wp.vec4, device=device)
        view.color = self.color
        view.particle = wp.array(particle, dtype=wp.vec3i, device=device)
        view.label = wp.array(np.array(label, np.int32)[kind], dtype=int, device=device)
        view.normal = wp.zeros(model.particle_count, dtype=wp.vec3, device=device)
        view.radius = wp.zeros(self.count, dtype=float, device=device)
        view.position = wp.zeros(model.particle_count, dtype=wp.vec3, device=device)
        self._view = view
        radius = model.particle_radius.numpy() if self.count else np.zeros(0)
        thickness = np.array([0.0, 1.0, 0.5])[kind] * radius[particle[:, 0]]
        self._thickness = wp.array(thickness, dtype=float, device=device)
        self._boxes = [wp.zeros(self.count, dtype=wp.vec3, device=device) for _ in range(2)]
        self._world = wp.array(world, dtype=int, device=device)
        faces = particle[kind == 0]
        order = np.argsort(faces.reshape(-1), kind="stable")
        around = np.flatnonzero(kind == 0)[order // 3].astype(np.int32)
        counts = np.bincount(faces.reshape(-1), minlength=model.particle_count)
        self._start = wp.array(starts(counts), dtype=int, device=device)
        self._around = wp.array(around, dtype=int, device=device)
        self._bvh: wp.Bvh | None = None
        self.view = wp.array([view] if self.count else [], dtype=ElementView, device=device)

    def update(self, particle_q: wp.array) -> None:
        """Take the positions of the particles [m], vec3, flat; can be captured after the first call."""
        if not self.count:
            return
        options = {"device": self._device, "record_tape": False}
        lower, upper = self._boxes
        compilation.launch(
            camera_elements.take_positions,
            reads=dict(position=particle_q),
            writes=dict(view=self.view),
            dim=len(particle_q),
            **options,
        )
        compilation.launch(
            camera_elements.enclose_elements,
            dim=self.count,
            reads=dict(thickness=self._thickness, flags=self._model.particle_flags),
            writes=dict(view=self.view, lower=lower, upper=upper),
            **options,
        )
        if len(self._around):
            compilation.launch(
                camera_elements.smooth_elements,
                reads=dict(start=self._start, around=self._around),
                writes=dict(view=self.view),
                dim=len(particle_q),
                **options,
            )
        if self._bvh is None:
            self._bvh = wp.Bvh(*self._boxes, groups=self._world)  # pyright: ignore[reportArgumentType]
            self._view.bvh = self._bvh.id
            self.view.assign(wp.array([self._view], dtype=ElementView, device=self._device))
        elif self._has_loose:
            # grains change their neighbours, surfaces keep them
            self._bvh.rebuild()
        else:
            self._bvh.refit()


def list_elements(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the visible elements between the particles of a model.

    Returns:
        The particles of each element (n, 3), int32, -1 where it has fewer, and whether it is a triangle (0),
        a sphere (1) or a capsule (2), (n,).
    """
    if not model.particle_count:
        return np.zeros((0, 3), np.int32), np.zeros(0, np.int32)
    parts = SoftParts.of(model)
    faces, loose, springs = parts.triangles, parts.loose, parts.springs
    held = parts.bound
    springs = np.where(held[springs[:, :1]], springs[:, ::-1], springs)
    blank = np.full((max(len(loose), len(springs)), 2), -1)
    particle = np.concatenate(
        [
            faces,
            np.column_stack([loose, blank[: len(loose)]]),
            np.column_stack([springs, blank[: len(springs), :1]]),
        ]
    )
    kind = np.repeat([0, 1, 2], [len(faces), len(loose), len(springs)])
    return particle.astype(np.int32), kind.astype(np.int32)


def _spread(
    model: Model, worlds: np.ndarray, particle: np.ndarray, kind: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return world, particles and kind of the elements of the worlds; global ones are in each."""
    if not len(particle):
        return np.zeros(0, np.int32), particle, kind
    owner = model.particle_world.numpy()[particle[:, 0]]
    everywhere = np.flatnonzero(owner < 0)
    order = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[order], np.stack([worlds, worlds + 1], axis=1))
    chosen = [np.concatenate([everywhere, order[a:b]]) for a, b in edges.tolist()]
    world = np.repeat(np.arange(len(worlds), dtype=np.int32), [len(rows) for rows in chosen])
    rows = np.concatenate(chosen)
    return world, particle[rows], kind[rows]
