"""Questions about a scene: rays, closest points, overlap and boxes, for all worlds at once."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.enums import GeoType, ShapeFlags
from newtonsim.errors import ModelError
from newtonsim.kernels import bounds, rays
from newtonsim.queries_inputs import Integers, Vectors, batch_worlds, check_range, integers, vector_pair
from newtonsim.queries_results import RayHits

if TYPE_CHECKING:
    from newtonsim.model import Model
    from newtonsim.state import State

ALL_BITS = 0xFFFFFFFF


class SceneQuery:
    """Rays, closest points, overlap and boxes of a model's shapes at the poses of a state.

    Call `update` after the bodies have moved, then ask. Things meet inside a world and with the global world
    -1; worlds never see each other. Distances are those of the bare geometry, without contact thickness.
    Whatever gets Warp arrays and a buffer `out` allocates nothing and can be captured into a graph. Kernels
    can ask by `newtonsim.kernels.rays.cast_ray` with `view`.

    Example:
        >>> import newtonsim
        >>> builder = newtonsim.ModelBuilder()
        >>> ball = builder.add_shape_sphere(builder.add_body(), radius=0.5)
        >>> model = builder.finalize(device="cpu")
        >>> query = newtonsim.SceneQuery(model).update(model.state())
        >>> hits = query.rays((0.0, 2.0, 0.0), (0.0, -1.0, 0.0))
        >>> hits.distance.numpy()
        array([1.5], dtype=float32)

    Attributes:
        model: The model.
        view: What kernels take, `newtonsim.kernels.rays.SceneView`.
        shape_mask: Bits of each shape, uint32, shape (shape_count,); a query sees the shapes that share one
            with its own mask. All bits by default; assign to the array to change them.
        shape_lower: Lower corners of the boxes about the shapes at the last update [m], vec3, shape
            (shape_count,); `shape_upper` likewise. Shapes of type NONE have lower = inf, upper = -inf.
        body_lower: Lower corners of the boxes about all shapes of each body [m], vec3, shape (body_count,);
            `body_upper` likewise. Bodies without shapes have lower = inf, upper = -inf.
    """

    def __init__(self, model: Model, *, visual: bool = False, surfaces: bool = False):
        """Prepare queries.

        Args:
            model: The model.
            visual: Whether shapes that collide with nothing are seen as well.
            surfaces: Whether meshes that collide as their convex hulls are seen as they are.
        """
        self.model = model
        device, count = model.device, model.shape_count
        plan = model.collision_plan
        shape = plan.shape
        if surfaces and count:
            shape = _copy_view(shape)
            shape.kind = model.shape_geo.type
        self.shape_mask = wp.full(count, ALL_BITS, dtype=wp.uint32, device=device)
        self.shape_lower = wp.zeros(count, dtype=wp.vec3, device=device)
        self.shape_upper = wp.zeros(count, dtype=wp.vec3, device=device)
        self.body_lower = wp.zeros(model.body_count, dtype=wp.vec3, device=device)
        self.body_upper = wp.zeros(model.body_count, dtype=wp.vec3, device=device)
        per_body = [model.body_shapes[body] for body in range(model.body_count)]
        self._body_start, self._body_shapes = _ragged(per_body, device)
        self.view = rays.SceneView()
        self.view.shape, self.view.hulls = shape, plan.hulls
        self.view.pose = wp.zeros(count, dtype=wp.transform, device=device)
        self.view.lower, self.view.upper = self.shape_lower, self.shape_upper
        self.view.mask = self.shape_mask
        self.view.disabled = -1
        self.view.world_count = model.world_count
        self.view.list_start, self.view.listed = _ragged(self._seen_shapes(visual), device)

    def _seen_shapes(self, visual: bool) -> list[np.ndarray]:
        """Shapes of each world with the global ones, and last the global ones alone."""
        model = self.model
        if not model.shape_count:
            return [np.zeros(0, np.int32)] * (model.world_count + 1)
        world = model.shape_world.numpy()
        seen = model.shape_geo.type.numpy() != GeoType.NONE
        if not visual:
            flags = model.shape_flags.numpy()
            seen &= (flags & (ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND)) != 0
        shapes = np.flatnonzero(seen)
        order = shapes[np.argsort(world[shapes], kind="stable")]
        edges = np.searchsorted(world[order], np.arange(-1, model.world_count + 1))
        everywhere = order[: edges[1]]
        own = [order[a:b] for a, b in pairwise(edges[1:])]
        return [*(np.sort(np.concatenate([shapes, everywhere])) for shapes in own), everywhere]

    def update(self, state: State) -> SceneQuery:
        """Take the poses of the bodies from a state; can be captured.

        Args:
            state: The state, of which `body_q` is read.

        Returns:
            This object.
        """
        model = self.model
        options = {"device": model.device, "record_tape": False}
        boxes = [self.shape_lower, self.shape_upper]
        view = self.view
        if model.shape_count:
            wp.launch(
                bounds.bound_shapes,
                dim=model.shape_count,
                inputs=[view.shape, view.hulls, state.body_q, view.pose, *boxes],
                **options,
            )
        if model.body_count:
            wp.launch(
                bounds.bound_bodies,
                dim=model.body_count,
                inputs=[self._body_start, self._body_shapes, *boxes, self.body_lower, self.body_upper],
                **options,
            )
        return self

    def rays(
        self,
        origins: Vectors,
        directions: Vectors,
        *,
        world: Integers | None = None,
        max_distance: float = math.inf,
        mask: Integers = ALL_BITS,
        ignored_body: Integers = -1,
        backs: bool = True,
        inside: bool = False,
        hit_number: int = 0,
        max_hits: int | None = None,
        out: RayHits | None = None,
    ) -> RayHits:
        """Cast rays.

        Each shape counts once on a ray, at the first point where the ray meets it; hits are in the order of
        their distance, those at the same distance in the order of their shapes. A solid (convex shape,
        distance field, infinite plane) is met from outside only: a ray that starts in it passes out of it,
        unless `inside` is given. A surface (mesh, height field, finite plane) is met from both sides, unless
        `backs` is false. Normals always point outward, to the front.

        Args:
            origins: Starting points [m], world, shape (..., 3); or a Warp array of vec3 of the batch's shape.
                One ray is a batch (1,).
            directions: Directions of any length, likewise; both are broadcast to the shape of the batch.
                A direction of length zero in a Warp array, which is not looked at, hits nothing.
            world: World of all rays or of each; -1 for the global shapes alone. None if the model has one
                world or the first axis of the batch runs over the worlds.
            max_distance: Length of the rays [m].
            mask: Bits of all rays or of each; shapes without any of these in `shape_mask` are not seen.
            ignored_body: Body that all rays or each pass through, -1 for none.
            backs: Whether surfaces are met from behind.
            inside: Whether solids are met from within, where the ray leaves them.
            hit_number: Hits to pass over: 0 for the first hit, 1 for the second one.
            max_hits: Hits to return for each ray, None for one.
            out: Where to write, of the batch's shape; None for new arrays.

        Returns:
            The hits.

        Raises:
            ModelError: Shapes do not go together, a number is out of range or a direction is zero.
        """
        if not isinstance(directions, wp.array):
            lengths = np.linalg.norm(np.asarray(directions, np.float64), axis=-1)
            if np.any(lengths == 0.0):
                raise ModelError(f"directions: entry {int(np.argmin(lengths))} has length zero")
        request = _RayRequest(self, ("origins", "directions"), origins, directions, world)
        request.view.max_distance = max_distance
        return request.cast(mask, ignored_body, backs, inside, hit_number, max_hits, out)

    def segments(
        self,
        starts: Vectors,
        ends: Vectors,
        *,
        world: Integers | None = None,
        mask: Integers = ALL_BITS,
        ignored_body: Integers = -1,
        backs: bool = True,
        inside: bool = False,
        hit_number: int = 0,
        max_hits: int | None = None,
        out: RayHits | None = None,
    ) -> RayHits:
        """Cast rays from point to point; `fraction` says where between the two a hit is.

        A segment without length hits nothing.

        Args:
            starts: Starting points [m], as `origins` of `rays`.
            ends: End points [m], likewise.
            world: As in `rays`; so are all that follow.
            mask: Bits.
            ignored_body: Body to pass through.
            backs: Whether surfaces are met from behind.
            inside: Whether solids are met from within.
            hit_number: Hits to pass over.
            max_hits: Hits to return for each ray.
            out: Where to write.

        Returns:
            The hits.
        """
        request = _RayRequest(self, ("starts", "ends"), starts, ends, world)
        request.view.ends = 1
        request.view.max_distance = math.inf
        return request.cast(mask, ignored_body, backs, inside, hit_number, max_hits, out)

    def _scene(self) -> rays.SceneView:
        """The view, without the ground plane while that is off."""
        model = self.model
        self.view.disabled = -1 if model.ground else model.ground_shape
        return self.view


class _RayRequest:
    """Rays on their way to the kernel."""

    def __init__(self, query: SceneQuery, names: tuple[str, str], first: Vectors, second: Vectors, world):
        self.query, self.device = query, query.model.device
        worlds = query.model.world_count
        origin, direction, self.batch = vector_pair(names, first, second, self.device)
        self.view = rays.RayView()
        self.view.origin, self.view.direction = origin, direction
        if world is None:
            self.view.rays_per_world = batch_worlds(self.batch, worlds)
        else:
            check_range("world", world, -1, worlds)
            self.view.world, self.view.worlds = integers("world", world, self.batch, self.device)

    def cast(self, mask, ignored_body, backs, inside, hit_number, max_hits, out) -> RayHits:
        """Launch the kernel with what both kinds of rays share."""
        view, batch, device = self.view, self.batch, self.device
        if hit_number < 0:
            raise ModelError(f"hit_number is {hit_number}, expected at least 0")
        if out is None:
            out = RayHits(batch, max_hits, device)
        elif (out.batch, out.max_hits) != (batch, max_hits):
            raise ModelError(f"out: expected hits {batch}, {max_hits}, got {out.batch}, {out.max_hits}")
        view.mask, view.masks = integers("mask", mask, batch, device, wp.uint32)
        check_range("ignored_body", ignored_body, -1, self.query.model.body_count)
        view.ignored_body, view.ignored_bodies = integers("ignored_body", ignored_body, batch, device)
        view.sight = int(rays.SEE_BACKS) * backs + int(rays.SEE_INSIDE) * inside
        view.skip = hit_number
        wp.launch(
            rays.cast_rays,
            dim=math.prod(batch),
            inputs=[self.query._scene(), view, out.view],
            device=device,
            record_tape=False,
        )
        return out


def _copy_view(view):
    """Return a struct view with the same arrays."""
    twin = type(view)()
    for name in view._cls.vars:
        setattr(twin, name, getattr(view, name))
    return twin


def _ragged(rows: list, device: wp.Device) -> tuple[wp.array, wp.array]:
    """Return the first entry of each row and the end, and all entries."""
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32)
    entries = np.concatenate([np.asarray(row, np.int32) for row in rows] or [np.zeros(0, np.int32)])
    return wp.array(start, dtype=int, device=device), wp.array(entries, dtype=int, device=device)
