"""Queries of a scene: rays, closest points, overlap and boxes, for all worlds at once."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import ModelError
from newtonsim.kernels.collision.pairs import bounds
from newtonsim.kernels.queries import closest_points as queries_closest_points
from newtonsim.kernels.queries import rays
from newtonsim.kernels.steps import presence
from newtonsim.queries.inputs import Integers, Vectors, check_range, vector_pair, worlds_of
from newtonsim.queries.rays import RayRequest
from newtonsim.queries.results import ClosestPoints, RayHits, ShapesInBoxes
from newtonsim.queries.selection import Selection, is_closed, local_indices, pair_up, ragged
from newtonsim.runtime import compilation
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.enums import GeoType, ShapeFlags
from newtonsim.scene.model import check_model

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

ALL_BITS = 0xFFFFFFFF


class SceneQuery:
    """Rays, closest points, overlap and boxes of a model's shapes at the poses of a state.

    Call `update` after the bodies have moved, then query. Queries see the shapes of one world and of the
    global world -1; worlds never see each other. Distances are those of the bare geometry, without contact
    thickness. Queries with Warp arrays and a buffer `out` allocate nothing and can be captured into a graph.
    Kernels can query by `cast_ray` of `newtonsim.kernels.queries.rays` and `closest_on_shapes` of
    `newtonsim.kernels.queries.closest_points` with `view`.

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
        view: Kernel argument, `newtonsim.kernels.queries.rays.SceneView`.
        shape_mask: Bits of each shape, uint32, shape (shape_count,); a query sees the shapes that share one
            with its own mask. All bits by default; assign to the array to change them.
        shape_lower: Lower corners of the boxes about the shapes at the last update [m], vec3, shape
            (shape_count,); `shape_upper` has the upper ones. Shapes of type NONE have lower = inf, upper =
            -inf.
        body_lower: Lower corners of the boxes about all shapes of each body [m], vec3, shape (body_count,);
            `body_upper` has the upper ones. Bodies without shapes have lower = inf, upper = -inf.
    """

    def __init__(
        self,
        model: Model,
        *,
        visual: bool = False,
        surfaces: bool = False,
        without: npt.ArrayLike | None = None,
    ):
        """Prepare queries.

        Args:
            model: The model.
            visual: Whether shapes that collide with nothing are seen as well.
            surfaces: Whether meshes that collide as their convex hulls are seen as they are.
            without: Shapes that are never seen and cost no time, bool, shape (shape_count,).
        """
        check_model(model)
        self.model = model
        device, count = model.device, model.shape_count
        plan = collision_plan_of(model)
        shape = plan.shape
        if surfaces and count:
            shape = _copy_view(shape)
            shape.kind = wp.clone(model.shape_geo.type)
        self._sees_surfaces = surfaces and count > 0
        self.shape_mask = wp.full(count, ALL_BITS, dtype=wp.uint32, device=device)
        self.shape_lower = wp.zeros(count, dtype=wp.vec3, device=device)
        self.shape_upper = wp.zeros(count, dtype=wp.vec3, device=device)
        self.body_lower = wp.zeros(model.body_count, dtype=wp.vec3, device=device)
        self.body_upper = wp.zeros(model.body_count, dtype=wp.vec3, device=device)
        per_body = [model.body_shapes[body] for body in range(model.body_count)]
        self._body_start, self._body_shapes = ragged(per_body, device)
        self.view = rays.SceneView()
        self.view.shape, self.view.hulls = shape, plan.hulls
        self.view.pose = wp.zeros(count, dtype=wp.transform, device=device)
        self.view.lower, self.view.upper = self.shape_lower, self.shape_upper
        self.view.mask = self.shape_mask
        self.view.world = model.shape_world
        self.view.closed = wp.array(self._closed_meshes(), dtype=int, device=device)
        self.view.disabled = -1
        self.view.world_count = model.world_count
        seen = self._seen_shapes(visual, without)
        self._seen = np.zeros(count, bool)
        self._seen[np.concatenate(seen)] = True
        self._worlds = seen
        self.view.list_start, self.view.listed = ragged(seen, device)
        self._pairs: WeakKeyDictionary[Selection, WeakKeyDictionary] = WeakKeyDictionary()

    def _closed_meshes(self) -> np.ndarray:
        known: dict[int, bool] = {}
        for source in self.model.shape_geo_src:
            if id(source) not in known:
                known[id(source)] = is_closed(source)
        return np.array([known[id(source)] for source in self.model.shape_geo_src], np.int32)

    def _seen_shapes(self, visual: bool, without: npt.ArrayLike | None) -> list[np.ndarray]:
        """Return the shapes of each world with the global ones, and finally the global ones alone."""
        model = self.model
        if not model.shape_count:
            return [np.zeros(0, np.int32)] * (model.world_count + 1)
        world = model.shape_world.numpy()
        seen = model.shape_geo.type.numpy() != GeoType.NONE
        if not visual:
            flags = model.shape_flags.numpy()
            seen &= (flags & (ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND)) != 0
        if without is not None:
            seen &= ~np.asarray(without, bool)
        shapes = np.flatnonzero(seen)
        order = shapes[np.argsort(world[shapes], kind="stable")]
        edges = np.searchsorted(world[order], np.arange(-1, model.world_count + 1))
        everywhere = order[: edges[1]]
        own = [order[a:b] for a, b in pairwise(edges[1:])]
        return [*(np.sort(np.concatenate([shapes, everywhere])) for shapes in own), everywhere]

    def update(self, state: State) -> SceneQuery:
        """Read the poses of the bodies from a state; can be captured.

        Args:
            state: The state, of which `body_q` is read.

        Returns:
            This object.

        Raises:
            ModelError: It is the state of another model.
        """
        self.model.check_state(state)
        launch = Launcher(self.model, record_tape=False)
        self.launch_update(launch, state.body_q)
        launch(
            bounds.bound_bodies,
            "body",
            reads=dict(
                shape_start=self._body_start,
                shapes=self._body_shapes,
                shape_lower=self.shape_lower,
                shape_upper=self.shape_upper,
            ),
            writes=dict(lower=self.body_lower, upper=self.body_upper),
        )
        return self

    def launch_update(self, launch: Launcher, body_q: wp.array) -> rays.SceneView:
        """Update the poses of shapes by launches only, as part of a capture; boxes of bodies are not updated.

        Args:
            launch: Launcher for the worlds whose shapes are updated.
            body_q: Poses of the bodies, transform, shape (body_count,).

        Returns:
            The scene for kernels of the same capture.
        """
        view, model = self.view, self.model
        if self._sees_surfaces and model.bodies_may_be_absent:
            launch(
                presence.hide_shapes,
                "shape",
                reads=dict(
                    body=model.shape_body, present=model.body_present, solid_kind=model.shape_geo.type
                ),
                writes=dict(kind=view.shape.kind),
            )
        launch(
            bounds.bound_shapes,
            "shape",
            reads=dict(shape=view.shape, hulls=view.hulls, body_q=body_q),
            writes=dict(shape_X=view.pose, lower=self.shape_lower, upper=self.shape_upper),
        )
        return self.launch_view()

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

        Each shape counts once per ray, at the first point where the ray hits it; hits are ordered by
        distance, and by shape at equal distances. A solid (convex shape, distance field, infinite plane) is
        hit from outside only: a ray that starts inside leaves it without a hit, unless `inside` is set. A
        surface (mesh, height field, finite plane) is hit from both sides, unless `backs` is false. Normals
        always point outward, to the front.

        Args:
            origins: Starting points [m], world, shape (..., 3); or a Warp array of vec3 of the batch's shape.
                One ray is a batch (1,).
            directions: Directions of any length, likewise; both are broadcast to the shape of the batch.
                A zero direction in a Warp array, which is not checked, hits nothing.
            world: World of all rays or of each; -1 for the global shapes alone. None if the model has one
                world or the first axis of the batch runs over the worlds.
            max_distance: Length of the rays [m].
            mask: Bits of all rays or of each; shapes without any of these in `shape_mask` are not seen.
            ignored_body: Body that all rays, or each ray, pass through, -1 for none.
            backs: Whether surfaces are hit from behind.
            inside: Whether solids are hit from inside, where the ray leaves them.
            hit_number: Number of hits to skip: 0 for the first hit, 1 for the second one.
            max_hits: Hits to return for each ray, None for one.
            out: Buffer for the results, of the batch's shape; None for new arrays.

        Returns:
            The hits.

        Raises:
            ModelError: Shapes do not go together, a number is out of range or a direction is zero.
        """
        if not isinstance(directions, wp.array):
            lengths = np.linalg.norm(np.asarray(directions, np.float64), axis=-1)
            if np.any(lengths == 0.0):
                raise ModelError(f"directions: entry {int(np.argmin(lengths))} has length zero")
        request = RayRequest(self.model, ("origins", "directions"), origins, directions, world)
        request.view.max_distance = max_distance
        return request.cast(self.launch_view(), mask, ignored_body, backs, inside, hit_number, max_hits, out)

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
        """Cast rays from point to point; `fraction` gives the position of a hit between the two.

        A segment without length hits nothing.

        Args:
            starts: Starting points [m], as `origins` of `rays`.
            ends: End points [m], likewise.
            world: As in `rays`, like all that follow.
            mask: Bits.
            ignored_body: Body to pass through.
            backs: Whether surfaces are hit from behind.
            inside: Whether solids are hit from inside.
            hit_number: Number of hits to skip.
            max_hits: Hits to return for each ray.
            out: Buffer for the results.

        Returns:
            The hits.
        """
        request = RayRequest(self.model, ("starts", "ends"), starts, ends, world)
        request.view.ends = 1
        request.view.max_distance = math.inf
        return request.cast(self.launch_view(), mask, ignored_body, backs, inside, hit_number, max_hits, out)

    def shapes(self, indices: npt.ArrayLike, *, per_world: bool = True) -> Selection:
        """Select shapes, each as its own set.

        Args:
            indices: Shapes, a number or an array.
            per_world: Whether they count from the first shape of each world, so that the selection holds the
                same shapes of every world. If not, or if the model has one world, they count in the model,
                where the ground is `model.ground_shape`.

        Returns:
            A selection of shape (worlds or 1, ...).

        Raises:
            ModelError: An index is out of range.
        """
        model = self.model
        start = model.world_shape_start
        found = self._places("shapes", indices, start[:-1], start[1:], model.shape_count, per_world)
        return self._select([np.array([s]) for s in found.reshape(-1)], found.shape)

    def bodies(self, indices: npt.ArrayLike, *, per_world: bool = True) -> Selection:
        """Select bodies: the set of the shapes of each.

        Args:
            indices: Bodies, a number or an array.
            per_world: As in `shapes`.

        Returns:
            A selection of shape (worlds or 1, ...).
        """
        model = self.model
        start = model.world_body_start
        found = self._places("bodies", indices, start[:-1], start[1:], model.body_count, per_world)
        return self._select([model.body_shapes[b] for b in found.reshape(-1).tolist()], found.shape)

    def articulations(self, indices: npt.ArrayLike, *, per_world: bool = True) -> Selection:
        """Select articulations: the set of the shapes of all their bodies.

        Args:
            indices: Articulations, a number or an array.
            per_world: As in `shapes`.

        Returns:
            A selection of shape (worlds or 1, ...).
        """
        model = self.model
        joint_start = model.articulation_start.numpy()
        edges = np.searchsorted(joint_start[:-1], model.world_joint_start)
        total = model.articulation_count
        found = self._places("articulations", indices, edges[:-1], edges[1:], total, per_world)
        child = model.joint_child.numpy()
        sets = []
        for k in found.reshape(-1).tolist():
            bodies = child[joint_start[k] : joint_start[k + 1]].tolist()
            sets.append([s for body in bodies for s in model.body_shapes[body]])
        return self._select(sets, found.shape)

    def surroundings(self) -> Selection:
        """Select all static shapes of each world and of the global one, as one set per world."""
        body = self.model.shape_body.numpy() if self.model.shape_count else np.zeros(0, int)
        return self._select([s[body[s] < 0] for s in self._worlds[:-1]], (self.model.world_count,))

    def _places(self, name, indices, start, end, total, per_world) -> np.ndarray:
        per_world = per_world and self.model.world_count > 1
        return local_indices(name, indices, start, end, total, per_world)

    def _select(self, sets: list, batch: tuple[int, ...]) -> Selection:
        rows = [np.asarray(shapes, np.int32) for shapes in sets]
        return Selection([shapes[self._seen[shapes]] for shapes in rows], batch, self.model.device)

    def closest(
        self, a: Selection, b: Selection, *, max_distance: float = math.inf, out: ClosestPoints | None = None
    ) -> ClosestPoints:
        """Find the signed distance and the closest points of sets of shapes.

        Of two sets, the pair of shapes with the smallest distance is returned. Shapes of different worlds are
        never compared, nor is a shape with itself, and the order of equally near pairs is fixed. The distance
        of overlapping convex shapes is minus the penetration depth; that of a mesh or height field and
        another shape is the depth of the deepest triangle, for a shape inside a closed mesh the way out
        through the nearest face; that of a distance field is the depth of the deepest point of the other
        shape. Infinite planes are half-spaces.

        Args:
            a: Sets, see `shapes`, `bodies`, `articulations` and `surroundings`.
            b: Sets to compare them with; both are broadcast to one shape.
            max_distance: Search distance [m].
            out: Buffer for the results, of the batch's shape; None for new arrays.

        Returns:
            The closest points, shape (worlds or 1, ...).

        Raises:
            ModelError: The shapes of the selections or of `out` do not match, or two signed distance
                fields are compared.
        """
        if math.isnan(max_distance):
            raise ModelError("max_distance is not a number")
        batch, sets_a, sets_b = self._groups(a, b)
        if out is None:
            out = ClosestPoints(batch, self.model.device)
        elif out.batch != batch:
            raise ModelError(f"out: expected closest points {batch}, got {out.batch}")
        compilation.launch(
            queries_closest_points.find_closest,
            reads=dict(scene=self.launch_view(), sets_a=sets_a, sets_b=sets_b, reach=max_distance),
            writes=dict(closest=out.view),
            dim=math.prod(batch),
            device=self.model.device,
            record_tape=False,
        )
        return out

    def _groups(self, a: Selection, b: Selection) -> tuple:
        """Batch and kernel views of two selections; kept, so that repeated queries allocate nothing."""
        known = self._pairs.setdefault(a, WeakKeyDictionary())
        if b not in known:
            batch, *indices = pair_up(a, b)
            self._check_fields(a, b, *indices)
            views = []
            for selection, index in zip((a, b), indices):
                view = queries_closest_points.SetView()
                view.start, view.shape = selection.start, selection.shape
                view.index = wp.array(index, dtype=int, device=self.model.device)
                views.append(view)
            known[b] = (batch, *views)
        return known[b]

    def _check_fields(self, a: Selection, b: Selection, index_a: np.ndarray, index_b: np.ndarray) -> None:
        """Check that no group has a signed distance field on both sides."""
        if not self.model.shape_count:
            return
        field = self.model.shape_geo.type.numpy() == GeoType.SDF
        if field.any():
            has_a, has_b = (np.array([field[shapes].any() for shapes in s.sets], bool) for s in (a, b))
            if np.any(has_a[index_a] & has_b[index_b]):
                raise ModelError("closest points of two signed distance fields are not available")

    def overlaps(
        self, a: Selection, b: Selection, *, margin: float = 0.0, out: ClosestPoints | None = None
    ) -> wp.array:
        """Tell which sets of shapes overlap or are within a margin of each other.

        Args:
            a: Sets, as in `closest`.
            b: Sets, likewise.
            margin: Distance [m] up to which shapes count as overlapping.
            out: Buffer for the closest points; None for new arrays.

        Returns:
            1 where they overlap, int, shape (worlds or 1, ...).
        """
        return self.closest(a, b, max_distance=margin, out=out).found

    def shapes_in_boxes(
        self,
        lower: Vectors,
        upper: Vectors,
        *,
        world: Integers | None = None,
        mask: int = ALL_BITS,
        max_shapes: int = 32,
        out: ShapesInBoxes | None = None,
    ) -> ShapesInBoxes:
        """Find the shapes whose boxes overlap given boxes.

        Args:
            lower: Lower corners [m], world, as `origins` of `rays`.
            upper: Upper corners [m], likewise.
            world: As in `rays`.
            mask: Bits; shapes without any of these in `shape_mask` are not seen.
            max_shapes: Shapes to return for each box.
            out: Buffer for the results, of the batch's shape; None for new arrays.

        Returns:
            The shapes of each box.

        Raises:
            ModelError: Array shapes do not match or a number is out of range.
        """
        model, device = self.model, self.model.device
        low, high, batch = vector_pair(("lower", "upper"), lower, upper, device)
        one, each, per_world = worlds_of(batch, world, model.world_count, device)
        if out is None:
            out = ShapesInBoxes(batch, max_shapes, device)
        elif (out.batch, out.max_shapes) != (batch, max_shapes):
            raise ModelError(f"out: expected {batch}, {max_shapes}, got {out.batch}, {out.max_shapes}")
        check_range("mask", mask, 0, 1 << 32)
        compilation.launch(
            queries_closest_points.find_in_boxes,
            reads=dict(
                scene=self.launch_view(),
                lower=low,
                upper=high,
                world=one,
                boxes_per_world=per_world,
                worlds=each,
                mask=mask,
            ),
            writes=dict(shapes=out.view, count=out.count.flatten()),
            dim=math.prod(batch),
            device=model.device,
            record_tape=False,
        )
        return out

    def launch_view(self) -> rays.SceneView:
        """The view, without the ground plane while it is switched off."""
        model = self.model
        self.view.disabled = -1 if model.ground else model.ground_shape
        return self.view


def _copy_view(view):
    """Return a struct view with the same arrays."""
    twin = type(view)()
    for name in view._cls.vars:
        setattr(twin, name, getattr(view, name))
    return twin
