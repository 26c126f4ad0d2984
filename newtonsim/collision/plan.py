"""What the collision pass of a model needs, computed once per model."""

from __future__ import annotations

import warnings
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry.hull import pack_hulls
from newtonsim.geometry.surfaces import pack_surfaces
from newtonsim.kernels.collision.pairs import manifolds
from newtonsim.kernels.collision.pairs.manifolds import MANIFOLD_SIZE
from newtonsim.kernels.collision.pairs.sweep import SweepView
from newtonsim.kernels.views.shapes import KIND_HULL, HullView, ShapeView
from newtonsim.runtime.shards import add_kind
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.columns import distinct
from newtonsim.scene.enums import GeoType, among
from newtonsim.scene.model import ContactRules, Model
from newtonsim.scene.snapshot import HostValues
from newtonsim.scene.topology import topology_of

_KINDS = 13
_HULL = int(KIND_HULL)
_ROUND = (GeoType.SPHERE, GeoType.CAPSULE)
_CONVEX = (*_ROUND, GeoType.BOX, GeoType.CYLINDER, GeoType.CONE, GeoType.ELLIPSOID, _HULL)
_SURFACES = (GeoType.MESH, GeoType.HFIELD)

_POINTS = {GeoType.SPHERE: 1, GeoType.ELLIPSOID: 1, GeoType.CAPSULE: 2}
"""Most points at which a convex shape touches another, 4 where not listed."""

_PLANE_POINTS = {**_POINTS, GeoType.CONE: 5}
"""Most points at which a shape can touch a plane, 8 where not listed."""

_BOUNDED_FAMILIES = {
    int(family) for family in (manifolds.FAMILY_ROUND, manifolds.FAMILY_BOX, manifolds.FAMILY_CONVEX)
}
"""Families of pairs whose shapes are both convex and bounded."""

_NEIGHBOURS = 12
"""Pairs for which a shape that moves gets room if the world has more candidates than that."""

_TOUCHING = 6
"""Neighbours with which a shape that moves may be in full contact at once, likewise."""

_LEAST_ROOM = 64


PLAN = "collision_plan"
"""Under which a model keeps its plan."""


class CollisionPlan:
    """Which pairs of shapes can collide, by which narrow phase, and how many contacts they need.

    Attributes:
        hulls: Hulls of the meshes that collide as convex.
        surfaces: Edges and samples of the meshes and fields that do not.
        listed: Pairs (shape 0, shape 1, family) sorted by world, shape (n,), vec3i; None if worlds are swept.
        listed_start: First listed pair of each world, shape (world_count + 1,).
        sweep_entries: Shapes of each world and the global ones, in the order of the worlds; None if listed.
        sweep_start: First of them of each world (host), shape (world_count + 1,).
        families: Narrow phases that the model can need.
        pair_start: First pair place of each world (host), shape (world_count + 1,).
        contact_start: First contact place of each world (host), shape (world_count + 1,).
        pair_points: Most contact points of a pair.
        spare_kind: Kind of each shape now if its body is there, where some may become others, (shape_count,);
            else None. It is part of checkpoints, as the views of the shapes are.
        two_sided: Whether joints may move both shapes of a contact; if not, only the first one can move.
        ground_shape: Index of the ground plane, or -1.
        unsupported: Number of candidate pairs per pair of geometry names that no narrow phase handles.
    """

    references: ClassVar[frozenset[str]] = frozenset({"_hull_meshes"})
    """See `newtonsim.scene.snapshot.Snapshot`: meshes stay as they are."""

    def __init__(self, model: Model):
        self.model = model
        model.settle_shapes()
        rules = model.contact_rules
        self.ground_shape = model.ground_shape
        self.kind = _collision_kinds(model, rules)
        self._shape, self.hulls = self._shape_views()
        spares = self.spare.any()
        self.spare_kind = put(self.kind, dtype=int, device=model.device) if spares else None
        colliding = among(self.kind, (*_SURFACES, GeoType.SDF))
        self.surfaces = pack_surfaces(model.shape_geo_src, model.device, used=colliding)
        self.unsupported: dict[str, int] = {}
        self.listed, self.listed_start = None, None
        self.sweep_entries, self.sweep_start = None, None
        world = model.shape_world.numpy() if model.shape_count else np.zeros(0, int)
        movers = (rules.rigid >= 0) & (rules.collides | rules.meets_ground) & (world >= 0)
        counted = self._counted_kinds()[movers]
        moving_points = np.bincount(world[movers], _points(counted, _POINTS, 4), model.world_count)
        self.moving = np.bincount(world[movers], minlength=model.world_count)
        contacts = _LEAST_ROOM + _TOUCHING * moving_points.astype(np.int64)
        pairs = _LEAST_ROOM + _NEIGHBOURS * self.moving
        if model.shape_contact_pairs is not None:
            listed, listed_contacts = self._list_pairs(world)
            pairs = np.minimum(pairs, listed)
            contacts = np.minimum(contacts, listed_contacts)
        else:
            self._sweep_worlds(world, rules)
        for name, room in (("rigid_pair_max_per_world", pairs), ("rigid_contact_max_per_world", contacts)):
            limit = getattr(model, name)
            if limit < 0:
                raise ModelError(f"{name}: expected a number of at least 0, got {limit}")
            if limit:
                room[:] = limit
        self.pair_start = np.concatenate(([0], np.cumsum(pairs))).astype(np.int32)
        self.contact_start = np.concatenate(([0], np.cumsum(contacts))).astype(np.int32)

    @cached_property
    def tiled(self) -> np.ndarray:
        """Which shapes are fixed to a world with tiles: several besides planes, bool (shape_count,)."""
        fixed = (self.model.shape_body.numpy() < 0) & self.paired
        tiles = fixed & (self.model.shape_geo.type.numpy() != GeoType.PLANE)
        # shapes of world -1 are in all worlds
        world = self.model.shape_world.numpy() + 1
        counts = np.bincount(world[tiles], minlength=self.model.world_count + 1)
        counts[1:] += counts[0]
        counts[0] = counts.max()
        return fixed & (counts[world] > 1)

    @property
    def has_seams(self) -> bool:
        """Whether a floor may consist of several shapes, see `kernels.collision.seams`."""
        return not self.families.isdisjoint(_BOUNDED_FAMILIES) and bool(self.tiled.any())

    @property
    def pair_count(self) -> int:
        """Capacity for pairs in all worlds."""
        return int(self.pair_start[-1])

    @property
    def contact_count(self) -> int:
        """Capacity for contacts in all worlds."""
        return int(self.contact_start[-1])

    @property
    def shape(self) -> ShapeView:
        """Placement and geometry of the shapes, with the arrays that the model has now."""
        model, shape = self.model, self._shape
        shape.body = model.shape_body
        shape.transform = model.shape_transform
        shape.geo = model.shape_geo
        shape.radius = model.shape_collision_radius
        return shape

    @cached_property
    def contact_world(self) -> wp.array:
        """World of each contact place, shape (contact_count,)."""
        owner = np.repeat(np.arange(self.model.world_count), np.diff(self.contact_start))
        return put(owner, dtype=int, device=self.model.device)

    def _shape_views(self) -> tuple[ShapeView, HullView]:
        model, device = self.model, self.model.device
        index = np.full(model.shape_count, -1, np.int32)
        scale = model.shape_geo.scale.numpy() if model.shape_count else np.zeros((0, 3))
        objects, place = distinct(model.shape_geo_src)
        shapes = np.flatnonzero(self.kind == _HULL)
        first, index[shapes] = _same_geometry(place[shapes], scale[shapes])
        self._hull_meshes = [objects[place[s]] for s in shapes[first].tolist()]
        hulls = [mesh.convex_hull(scale[s]) for mesh, s in zip(self._hull_meshes, shapes[first].tolist())]
        shape = ShapeView()
        shape.kind = put(_of_present(model, self.kind), dtype=int, device=device)
        shape.hull = put(index, dtype=int, device=device)
        lower, upper = _local_bounds(objects, place, scale)
        shape.local_lower = put(lower, dtype=wp.vec3, device=device)
        shape.local_upper = put(upper, dtype=wp.vec3, device=device)
        return shape, pack_hulls(hulls, device)

    def _list_pairs(self, world: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Store the listed pairs; return the numbers of pairs and of possible contacts of each world."""
        model, could_be = self.model, self._counted_kinds()
        pairs = np.concatenate(
            [model.shape_contact_pairs.numpy(), model.shape_ground_contact_pairs.numpy()]
        ).reshape(-1, 2)
        family, swap = family_tables()
        kind0, kind1 = self.kind[pairs].T if len(pairs) else np.zeros((2, 0), int)
        turn = swap[kind0, kind1] == 1
        pairs = np.where(turn[:, None], pairs[:, ::-1], pairs)
        kinds, families = self.kind[pairs].reshape(-1, 2), family[kind0, kind1]
        handled = families != manifolds.FAMILY_NONE
        self._report_unsupported(kinds[~handled])
        pairs, families = pairs[handled], families[handled]
        kinds = could_be[pairs].reshape(-1, 2)
        owner = np.maximum(world[pairs].max(axis=1, initial=-1), 0) if len(pairs) else np.zeros(0, int)
        order = np.argsort(owner, kind="stable")
        table = np.column_stack([pairs, families])[order].astype(np.int32)
        start = np.searchsorted(owner[order], np.arange(model.world_count + 1))
        self.families = set(np.unique(families).tolist()) | self._spare_families()
        self.listed = put(table, dtype=wp.vec3i, device=model.device)
        self.listed_start = put(start, dtype=int, device=model.device)
        most = _pair_points(kinds, families)
        self.pair_points = int(most.max(initial=1))
        leaf = np.append(topology_of(model).view.body_leaf.numpy(), -1)
        second = model.shape_body.numpy()[pairs[:, 1]] if len(pairs) else np.zeros(0, int)
        self.two_sided = bool((leaf[second] >= 0).any())
        return np.diff(start), np.bincount(owner, most, model.world_count).astype(np.int64)

    def _sweep_worlds(self, world: np.ndarray, rules: ContactRules) -> None:
        """Store which shapes to sweep in each world."""
        model = self.model
        used = (rules.collides | rules.meets_ground) & (self.kind != GeoType.NONE)
        if self.ground_shape >= 0:
            used[self.ground_shape] = True
        everywhere = np.flatnonzero(used & (world < 0))
        entries = [
            np.concatenate([np.flatnonzero(used & (world == w)), everywhere])
            for w in range(model.world_count)
        ]
        self.sweep_start = np.concatenate(([0], np.cumsum([len(e) for e in entries]))).astype(np.int32)
        self.sweep_entries = np.concatenate(entries).astype(np.int32)
        family, swap = family_tables()
        present = np.isin(np.arange(_KINDS), self._counted_kinds()[used])
        kinds = np.argwhere((swap == 0) & present & present[:, None])
        families = family[tuple(kinds.T)]
        self.families = (set(families.tolist()) | self._spare_families()) - {int(manifolds.FAMILY_NONE)}
        self.pair_points = int(_pair_points(kinds, families).max(initial=1))
        self.two_sided = True

    @cached_property
    def spare(self) -> np.ndarray:
        """Whether each shape may become another one, bool (shape_count,)."""
        values, place = distinct(self.model.shape_spare)
        return np.array(values, bool)[place]

    @property
    def paired(self) -> np.ndarray:
        """Whether each shape is in a pair, or may come into one, bool (shape_count,)."""
        paired = self.spare.copy()
        if self.listed is None:
            paired[self.sweep_entries] = True
        elif len(self.listed):
            paired[self.listed.numpy()[:, :2]] = True
        return paired

    @property
    def is_hull(self) -> np.ndarray:
        """Which shapes collide as convex hulls now, bool (shape_count,)."""
        kinds = self.kind if self.spare_kind is None else self.spare_kind.numpy()
        return kinds == _HULL

    def host_memory(self) -> HostValues:
        """What spare shapes are now, see `HostMemory`: kinds of shapes, and the hulls of spare ones."""
        if self.spare_kind is None:
            return {}
        hull: np.ndarray = self.shape.hull.numpy()
        return {"kind": self.kind.copy(), "hull": np.where(self.spare & self.is_hull, hull, -1)}

    def recall(self, memory: HostValues) -> None:
        """See `HostMemory`; the meshes of hulls are those of this process."""
        if self.spare_kind is None:
            return
        model = self.model
        self.kind[:] = memory["kind"]
        source: np.ndarray = model.shape_geo.source.numpy().copy()
        for shape in np.flatnonzero(memory["hull"] >= 0).tolist():
            mesh = self._hull_meshes[memory["hull"][shape]]
            model.shape_geo_src[shape], source[shape] = mesh, mesh.finalize(model.device)
        model.shape_geo.source.assign(source)

    def _counted_kinds(self) -> np.ndarray:
        """Kinds for which there has to be room: spare shapes may become what has the most points."""
        return np.where(self.spare, int(GeoType.BOX), self.kind)

    def _spare_families(self) -> set[int]:
        """Narrow phases of what spare shapes may become, with each other and with all other shapes."""
        if not self.spare.any():
            return set()
        family, _ = family_tables()
        partners = np.union1d(_CONVEX, self.kind)
        return set(family[np.ix_(_CONVEX, partners)].reshape(-1).tolist()) - {int(manifolds.FAMILY_NONE)}

    def sweep_view(self) -> SweepView:
        """Return a new sweep with its own order of the shapes."""
        model, rules = self.model, self.model.contact_rules
        device, count = model.device, len(self.sweep_entries)
        family, swap = family_tables()
        start = np.searchsorted(
            rules.filter_keys, np.arange(model.shape_count + 1, dtype=np.int64) * model.shape_count
        )
        sweep = SweepView()
        # shapes spread least upwards, where gravity piles them up on each other
        sweep.axis = (model.up_axis + 1) % 3
        sweep.start = put(self.sweep_start, dtype=int, device=device)
        sweep.shape = put(self.sweep_entries, dtype=int, device=device)
        sweep.count = zeros(count, dtype=int, device=device)
        sweep.first = zeros(count, dtype=int, device=device)
        sweep.group = put(rules.group, dtype=int, device=device)
        sweep.rigid = put(rules.rigid, dtype=int, device=device)
        sweep.collides = put(rules.collides, dtype=int, device=device)
        sweep.meets_ground = put(rules.meets_ground, dtype=int, device=device)
        sweep.ground = self.ground_shape
        sweep.filter_start = put(start, dtype=int, device=device)
        partners = rules.filter_keys % max(model.shape_count, 1)
        sweep.filter = put(partners, dtype=int, device=device)
        sweep.family = put(family, dtype=int, device=device)
        sweep.second = put(swap, dtype=int, device=device)
        return sweep

    def _report_unsupported(self, kinds: np.ndarray) -> None:
        found, counts = np.unique(np.sort(kinds, axis=1), axis=0, return_counts=True)
        names = (" and ".join(sorted(GeoType(kind).name.lower() for kind in pair)) for pair in found)
        self.unsupported = dict(zip(names, counts.tolist()))
        if self.unsupported:
            listed = ", ".join(f"{n} of {kinds}" for kinds, n in sorted(self.unsupported.items()))
            warnings.warn(f"shape pairs without contact generation: {listed}", stacklevel=4)


def collision_plan_of(model: Model) -> CollisionPlan:
    """Return the collision plan of a model; it is created at the first call and kept with the model.

    Raises:
        ModelError: A capacity that the model sets is negative.
    """
    return model.cached(PLAN, CollisionPlan)


add_kind("pair", lambda model: collision_plan_of(model).pair_start)
add_kind("contact", lambda model: collision_plan_of(model).contact_start)
add_kind("sweep_entry", lambda model: collision_plan_of(model).sweep_start)


@cache
def family_tables() -> tuple[np.ndarray, np.ndarray]:
    """Return the narrow phase of each pair of kinds, and where the first one has to come second, (13, 13).

    Both are made once, and are only read.
    """
    family = np.full((_KINDS, _KINDS), int(manifolds.FAMILY_NONE), np.int32)
    rank = np.full(_KINDS, -1)
    rank[list(_CONVEX)], rank[list(_SURFACES)], rank[GeoType.SDF], rank[GeoType.PLANE] = 0, 1, 2, 3
    swap = (rank[:, None] > rank[None, :]).astype(np.int32)

    def assign(first: tuple, second: tuple, value: int) -> None:
        for a in first:
            for b in second:
                family[a, b] = family[b, a] = int(value)

    assign(_CONVEX, _CONVEX, manifolds.FAMILY_CONVEX)
    assign(_ROUND, (*_ROUND, GeoType.BOX), manifolds.FAMILY_ROUND)
    assign((GeoType.BOX,), (GeoType.BOX,), manifolds.FAMILY_BOX)
    assign(_CONVEX, _SURFACES, manifolds.FAMILY_MESH)
    assign(_SURFACES, _SURFACES, manifolds.FAMILY_MESH_MESH)
    assign((*_CONVEX, *_SURFACES, GeoType.SDF), (GeoType.SDF,), manifolds.FAMILY_SDF)
    assign((*_CONVEX, *_SURFACES, GeoType.SDF), (GeoType.PLANE,), manifolds.FAMILY_PLANE)
    family.setflags(write=False)
    swap.setflags(write=False)
    return family, swap


def _collision_kinds(model: Model, rules: ContactRules) -> np.ndarray:
    """GeoType of each shape, KIND_HULL for meshes that collide as their hull."""
    if not model.shape_count:
        return np.zeros(0, np.int32)
    kind = model.shape_geo.type.numpy().copy()
    convex = model.shape_convex.numpy()
    hull = (convex == 1) | ((convex < 0) & (rules.rigid >= 0))
    hull &= rules.collides | rules.meets_ground  # a hull costs time to make, and others are only looked at
    kind[(kind == GeoType.MESH) & hull] = _HULL
    return kind


def _of_present(model: Model, kinds: np.ndarray) -> np.ndarray:
    """Kinds of shapes, NONE on bodies that are absent."""
    if not model.bodies_may_be_absent:
        return kinds
    present: np.ndarray = np.append(model.body_present.numpy(), 1)
    owner: np.ndarray = model.shape_body.numpy()
    return np.where(present[owner] != 0, kinds, int(GeoType.NONE))


def _same_geometry(place: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one shape of each geometry (source and scale), and the number of each shape's geometry."""
    sized = np.column_stack([place, scale])
    _, first, number = np.unique(sized, axis=0, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def _local_bounds(objects: list, place: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes about meshes and fields in the frames of their shapes, else zero, (shape_count, 3)."""
    corners = np.array([np.zeros((2, 3)) if source is None else source.bounds() for source in objects])
    sized = corners.reshape(-1, 2, 3)[place] * scale[:, None]
    return sized.min(axis=1).astype(np.float32), sized.max(axis=1).astype(np.float32)


def _points(kind: np.ndarray, table: dict, default: int) -> np.ndarray:
    points = np.full(_KINDS, default)
    points[list(table)] = list(table.values())
    return points[kind]


def _pair_points(kinds: np.ndarray, families: np.ndarray) -> np.ndarray:
    """Most contact points of each pair (n, 2) of kinds."""
    points = np.where(families == int(manifolds.FAMILY_ROUND), 2, 4)  # ends of a line, corners of an area
    points[(kinds == GeoType.SPHERE).any(axis=1)] = 1
    planes = families == int(manifolds.FAMILY_PLANE)
    points[planes] = _points(kinds[planes, 0], _PLANE_POINTS, 8)
    surface = among(families, (manifolds.FAMILY_MESH, manifolds.FAMILY_MESH_MESH, manifolds.FAMILY_SDF))
    return np.where(surface, int(MANIFOLD_SIZE), points)
