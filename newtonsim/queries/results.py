"""What queries of a scene return."""

from __future__ import annotations

import math

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.queries.closest_points import ClosestView
from newtonsim.kernels.queries.rays import RayHitView


class RayHits:
    """Hits of rays; one entry per ray, or one row of `max_hits` entries per ray.

    All arrays have the same shape. Where there is no hit, `shape`, `body` and `triangle` are -1, `distance`
    and `fraction` are infinite, and `point` and `normal` are zero.

    Attributes:
        distance: Distance along the ray [m], float.
        fraction: Distance divided by the length of the given direction, float; for segments 0 at the start
            and 1 at the end.
        shape: Shapes, int.
        body: Bodies of the shapes, int; -1 for static shapes.
        point: Points [m], world, vec3.
        normal: Outward unit normals, world, vec3.
        triangle: Triangles of meshes and height fields, int; -1 for other shapes.
        view: The same arrays as kernel arguments, shape (rays, hits).
    """

    def __init__(self, shape: tuple[int, ...], max_hits: int | None = None, device: wp.DeviceLike = None):
        """Allocate hits.

        Args:
            shape: Shape of the batch of rays.
            max_hits: Hits per ray, a last axis of that length; None for one hit and no such axis.
            device: Where the arrays live.
        """
        if max_hits is not None and max_hits < 1:
            raise ModelError(f"max_hits is {max_hits}, expected at least 1")
        self.batch, self.max_hits = tuple(shape), max_hits
        full = self.batch if max_hits is None else (*self.batch, max_hits)
        flat = (math.prod(self.batch), max_hits or 1)
        self.view = RayHitView()

        def make(dtype: type) -> wp.array:
            return wp.zeros(flat, dtype=dtype, device=device)

        self.view.distance = make(wp.float32)
        self.view.fraction = make(wp.float32)
        self.view.shape = make(wp.int32)
        self.view.body = make(wp.int32)
        self.view.point = make(wp.vec3)
        self.view.normal = make(wp.vec3)
        self.view.triangle = make(wp.int32)
        self.distance = self.view.distance.reshape(full)
        self.fraction = self.view.fraction.reshape(full)
        self.shape = self.view.shape.reshape(full)
        self.body = self.view.body.reshape(full)
        self.point = self.view.point.reshape(full)
        self.normal = self.view.normal.reshape(full)
        self.triangle = self.view.triangle.reshape(full)

    @property
    def hit(self) -> np.ndarray:
        """Whether there is a hit, NumPy bool; reads the device."""
        return self.shape.numpy() >= 0


class ClosestPoints:
    """Closest points of pairs of sets of shapes.

    All arrays have the same shape, the first axis runs over the worlds. If no two shapes are within range,
    `found` is 0, `shape_a` and `shape_b` are -1, `distance` is infinite and the rest is zero.

    Attributes:
        found: 1 if there is a pair within range, int.
        distance: Signed distance [m], negative where the shapes overlap, float.
        normal: Unit normals from B to A, world, vec3; point_a - point_b = distance * normal.
        point_a: Points on A [m], world, vec3.
        point_b: Points on B [m], world, vec3.
        shape_a: Shapes of A, int.
        shape_b: Shapes of B, int.
        view: The same arrays as kernel arguments, flat.
    """

    def __init__(self, shape: tuple[int, ...], device: wp.DeviceLike = None):
        """Make room for results.

        Args:
            shape: Shape of the batch.
            device: Where the arrays live.
        """
        self.batch = tuple(shape)
        self.view = ClosestView()

        def make(dtype: type) -> wp.array:
            return wp.zeros(math.prod(self.batch), dtype=dtype, device=device)

        self.view.found = make(wp.int32)
        self.view.distance = make(wp.float32)
        self.view.normal = make(wp.vec3)
        self.view.point_a = make(wp.vec3)
        self.view.point_b = make(wp.vec3)
        self.view.shape_a = make(wp.int32)
        self.view.shape_b = make(wp.int32)
        self.found = self.view.found.reshape(self.batch)
        self.distance = self.view.distance.reshape(self.batch)
        self.normal = self.view.normal.reshape(self.batch)
        self.point_a = self.view.point_a.reshape(self.batch)
        self.point_b = self.view.point_b.reshape(self.batch)
        self.shape_a = self.view.shape_a.reshape(self.batch)
        self.shape_b = self.view.shape_b.reshape(self.batch)


class ShapesInBoxes:
    """Shapes whose boxes overlap given boxes.

    Attributes:
        shape: Shapes in ascending order, then -1, int, shape (..., max_shapes).
        count: Number of shapes found, int, shape (...); if above max_shapes, the last ones are missing.
        view: `shape` as kernel argument, shape (boxes, max_shapes).
    """

    def __init__(self, shape: tuple[int, ...], max_shapes: int, device: wp.DeviceLike = None):
        """Make room for results.

        Args:
            shape: Shape of the batch of boxes.
            max_shapes: Shapes per box.
            device: Where the arrays live.
        """
        if max_shapes < 1:
            raise ModelError(f"max_shapes is {max_shapes}, expected at least 1")
        self.batch, self.max_shapes = tuple(shape), max_shapes
        self.view = wp.zeros((math.prod(self.batch), max_shapes), dtype=int, device=device)
        self.shape = self.view.reshape((*self.batch, max_shapes))
        self.count = wp.zeros(self.batch, dtype=int, device=device)
