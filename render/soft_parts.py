"""The visible form of a model's particles and muscles, on the host: surfaces, lines and grains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.tetmesh import surface_triangles
from newtonsim.geometry.transforms import transform_point
from newtonsim.scene.enums import PARTICLE_FLAG_ACTIVE

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

CLOTH_COLOR = (0.84, 0.49, 0.27)
GRAIN_COLOR = (0.34, 0.54, 0.78)
ROPE_COLOR = (0.47, 0.35, 0.24)
MUSCLE_COLOR = (0.75, 0.20, 0.20)


@dataclass(frozen=True)
class SoftParts:
    """How the particles of all worlds are drawn.

    Attributes:
        world: World of each particle, -1 for the global one, shape (particles,).
        radius: Radius of each particle [m], shape (particles,).
        bound: Whether each particle is part of a surface or a soft body, bool, shape (particles,).
        triangles: Particles of the surfaces of cloth and soft bodies, wound outward, shape (n, 3).
        springs: Particles of springs that are not part of a surface or a soft body, shape (n, 2).
        loose: Active particles that are not part of a surface or a soft body, shape (n,).
    """

    world: np.ndarray
    radius: np.ndarray
    bound: np.ndarray
    triangles: np.ndarray
    springs: np.ndarray
    loose: np.ndarray

    @classmethod
    def of(cls, model: Model) -> SoftParts:
        """Read the particles of a model."""
        count = model.particle_count
        triangles = _rows(model.tri_indices if model.tri_count else None, 3)
        tetrahedra = _rows(model.tet_indices if model.tet_count else None, 4)
        springs = _rows(model.spring_indices if model.spring_count else None, 2)
        triangles = np.concatenate([triangles, _missing(surface_triangles(tetrahedra), triangles)])
        bound = np.zeros(count, dtype=bool)
        bound[triangles] = True
        bound[tetrahedra] = True
        active = model.particle_flags.numpy() & PARTICLE_FLAG_ACTIVE if count else np.zeros(0)
        return cls(
            world=model.particle_world.numpy() if count else np.zeros(0, np.int32),
            radius=model.particle_radius.numpy() if count else np.zeros(0, np.float32),
            bound=bound,
            triangles=triangles,
            springs=springs[~bound[springs].all(axis=1)],
            loose=np.flatnonzero(~bound & (active != 0)),
        )

    def in_world(self, world: int) -> SoftParts:
        """Return the parts of one world, of the same particles."""
        return SoftParts(
            self.world,
            self.radius,
            self.bound,
            self.triangles[self.world[self.triangles[:, 0]] == world],
            self.springs[self.world[self.springs[:, 0]] == world],
            self.loose[self.world[self.loose] == world],
        )

    def spring_radius(self) -> float:
        """Radius at which springs are drawn [m]: a third of that of their particles."""
        return float(self.radius[self.springs].mean()) / 3.0 if len(self.springs) else 0.0


@dataclass(frozen=True)
class MuscleLines:
    """Muscles as lines through their waypoints.

    Attributes:
        world: World of each muscle, shape (muscles,).
        count: Waypoints of each muscle, shape (muscles,).
        body: Bodies of the waypoints, shape (n,).
        local: Waypoints in the frames of the bodies [m], shape (n, 3).
    """

    world: np.ndarray
    count: np.ndarray
    body: np.ndarray
    local: np.ndarray

    @classmethod
    def of(cls, model: Model) -> MuscleLines:
        """Read the muscles of a model."""
        if not model.muscle_count:
            return cls(*np.zeros((3, 0), dtype=np.int32), np.zeros((0, 3)))
        start, body = model.muscle_start.numpy(), model.muscle_bodies.numpy()
        return cls(
            model.body_world.numpy()[body[start[:-1]]], np.diff(start), body, model.muscle_points.numpy()
        )

    def in_world(self, world: int) -> MuscleLines:
        """Return the muscles of one world."""
        mine = self.world == world
        points = np.repeat(mine, self.count)
        return MuscleLines(self.world[mine], self.count[mine], self.body[points], self.local[points])

    def points(self, body_q: np.ndarray) -> np.ndarray:
        """Return the waypoints in the world (n, 3) for body poses (bodies, 7)."""
        return transform_point(body_q[self.body], self.local.astype(np.float64))

    def segments(self) -> np.ndarray:
        """Return the pairs of neighbouring waypoints, shape (n, 2)."""
        last = np.zeros(len(self.body), dtype=bool)
        last[np.cumsum(self.count) - 1] = True
        first = np.flatnonzero(~last)
        return np.stack([first, first + 1], axis=1)


def _rows(indices, width: int) -> np.ndarray:
    """Copy an index array in rows of `width`; none if there is no array."""
    return np.zeros((0, width), np.int32) if indices is None else indices.numpy().reshape(-1, width)


def _missing(faces: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the faces (n, 3) whose three particles, in any order, form no known face."""
    _, place = np.unique(np.sort(np.concatenate([known, faces]), axis=1), axis=0, return_inverse=True)
    place = place.reshape(-1)
    return faces[~np.isin(place[len(known) :], place[: len(known)])]
