"""Links of one robot that overlap in the pose in which it is described.

Coarse collision shapes often overlap where the bodies that they represent do not. Contact would push such
links apart against their joints, which at best costs accuracy and is never intended.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.builder.pairs import PairFinder
from newtonsim.geometry.penetration import penetration_depth
from newtonsim.geometry.transforms import quat_matrix, transform_inverse, transform_multiply, transform_point
from newtonsim.scene.columns import distinct, distinct_rows
from newtonsim.scene.enums import GeoType

_SHARE = 0.01
"""Depth, relative to the radius of the smaller shape, up to which two shapes count as touching."""

_FEW = 512
"""Number of shapes of a tree up to which all pairs of them are looked at."""

_MOST_NEAR = 1 << 20
"""Number of pairs, of neighbours along an axis, that are looked at in larger trees: it bounds memory."""

_MOST_MEASURED = 5_000
"""Number of different pairs whose depth is measured, one after the other: it bounds time."""

_ROUND = 24
"""Number of corners that stand for the circles of cylinders and cones."""


@dataclass(frozen=True)
class _Core:
    """A convex shape as the hull of points (n, 3), rounded by a radius [m]."""

    points: np.ndarray
    radius: float

    @property
    def bounds(self) -> np.ndarray:
        """Centre and half extents of the points, (2, 3)."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        return np.array([0.5 * (low + high), 0.5 * (high - low)])

    @property
    def size(self) -> float:
        """Radius of the ball about the bounds [m]."""
        return float(np.linalg.norm(self.bounds[1])) + self.radius


@dataclass(frozen=True)
class Overlaps:
    """Pairs of shapes that overlap.

    Attributes:
        pairs: The shapes (n, 2), lower index first.
        depths: Shortest translations that separate them (n,) [m].
        unseen: Number of pairs of neighbours that were not examined.
    """

    pairs: np.ndarray
    depths: np.ndarray
    unseen: int


def find_overlaps(builder, arrays: dict[str, np.ndarray], finder: PairFinder) -> Overlaps:
    """Find pairs of links of one kinematic tree that could collide and overlap from the start.

    Args:
        builder: The description; its `body_q` is the pose that is checked.
        arrays: Its lists as arrays.
        finder: Tells which pairs could collide.

    Returns:
        The pairs that overlap by more than a hundredth of the smaller one's radius. Shapes that are not
        convex solids are left out. Of trees of more than 512 shapes, a million pairs of neighbours are
        examined in all, and of all trees 5,000 pairs that differ; the others count as apart.
    """
    tree = _trees(arrays)
    tree[~finder.collides] = -1
    sizes = np.bincount(tree + 1)[tree + 1]
    is_large = (sizes > _FEW) & (tree >= 0)
    few = finder.pairs_of_groups(np.where(is_large, -1, tree))
    many = np.flatnonzero(is_large)
    near, unseen = _neighbours(many, tree[many], builder, arrays, finder)
    pairs = np.concatenate([few, near])
    if not len(pairs):
        return Overlaps(pairs, np.zeros(0), unseen)
    shapes = np.unique(pairs)
    cores, core = _cores(shapes, builder, arrays)
    pose = _poses(shapes, arrays)
    place = np.searchsorted(shapes, pairs)
    near = _boxes_meet(place, cores, core, pose)
    place, pairs = place[near], pairs[near]
    relative = transform_multiply(transform_inverse(pose[place[:, 0]]), pose[place[:, 1]]).reshape(-1, 7)
    # copies of a robot are looked at once
    kinds = np.column_stack([core[place], np.round(relative, 4)])
    first, same = distinct_rows(kinds)
    ends = [(cores[a], cores[b]) for a, b in core[place[first[:_MOST_MEASURED]]].tolist()]
    depths = np.zeros(len(first))
    depths[: len(ends)] = [_depth(a, b, relative[k]) for k, (a, b) in zip(first.tolist(), ends)]
    depth = depths[same]
    unseen += int(np.count_nonzero(same >= len(ends)))
    return Overlaps(pairs[depth > 0.0], depth[depth > 0.0], unseen)


def _neighbours(
    shapes: np.ndarray, tree: np.ndarray, builder, arrays: dict[str, np.ndarray], finder: PairFinder
) -> tuple[np.ndarray, int]:
    """Return the pairs (n, 2) of shapes of one tree that may collide and whose bounds overlap.

    Beside them, it returns the number of pairs of neighbours that there was no room for.

    Shapes are sorted by where they begin along the axis on which their tree is spread out most, and each is
    compared with those that begin before it ends: as many as fit into `_MOST_NEAR` comparisons of all.

    Args:
        shapes: Shapes of trees.
        tree: Root body of each of them.
        builder: See `find_overlaps`, as for the rest.
        arrays: Lists of the builder.
        finder: Tells which pairs could collide.
    """
    if not len(shapes):
        return np.zeros((0, 2), np.int64), 0
    cores, core = _cores(shapes, builder, arrays)
    middle, half = _bounds(cores, core, _poses(shapes, arrays))
    order = np.argsort(tree, kind="stable")
    order = order[np.array([one is not None for one in cores])[core[order]]]
    shapes, middle, half = shapes[order], middle[order], half[order]
    starts = np.flatnonzero(np.diff(tree[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    most = max(_MOST_NEAR // max(len(order), 1), 1)
    found, unseen = [np.zeros((0, 2), np.int64)], 0
    for first, size in zip(starts.tolist(), sizes.tolist()):
        one = slice(first, first + size)
        pairs, missed = _that_meet(middle[one], half[one], most * size)
        pairs = np.sort(shapes[first + pairs], axis=1)
        found.append(pairs[finder.allowed(pairs)])
        unseen += missed
    return np.concatenate(found), unseen


def _that_meet(middle: np.ndarray, half: np.ndarray, most: int) -> tuple[np.ndarray, int]:
    """Return which pairs (k, 2) of boxes meet, and how many neighbours were not compared.

    Args:
        middle: Centres of the boxes (n, 3).
        half: Their half extents, likewise.
        most: Number of pairs that are compared.
    """
    axis = int(np.argmax(np.ptp(middle, axis=0)))
    low, high = middle[:, axis] - half[:, axis], middle[:, axis] + half[:, axis]
    order = np.argsort(low, kind="stable")
    count = np.maximum(np.searchsorted(low[order], high[order]) - np.arange(len(order)) - 1, 0)
    all_of_them = int(count.sum())
    if all_of_them > most:
        count = np.minimum(count, most // len(order))
    one = np.repeat(np.arange(len(order)), count)
    other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(count) - count, count)
    unseen = all_of_them - len(one)
    a, b = order[one], order[other]
    for along in (*range(axis), *range(axis + 1, 3), axis):  # the neighbours were found along `axis`
        meet = np.abs(middle[a, along] - middle[b, along]) < half[a, along] + half[b, along]
        a, b = a[meet], b[meet]
    return np.stack([a, b], axis=1), unseen


def _trees(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the root body of each shape's kinematic tree, -1 for shapes of the world."""
    body = arrays["shape_body"]
    above = np.arange(len(arrays["body_q"]))
    child, parent = arrays["joint_child"], arrays["joint_parent"]
    above[child[parent >= 0]] = parent[parent >= 0]
    while not np.array_equal(above, above[above]):
        above = above[above]
    return np.where(body >= 0, above[body] if len(above) else -1, -1)


def _cores(
    shapes: np.ndarray, builder, arrays: dict[str, np.ndarray]
) -> tuple[list[_Core | None], np.ndarray]:
    """Return the distinct solids, None for those that are not convex, and the index of each shape's solid."""
    sources, source = distinct(builder.shape_geo_src)
    rows = np.column_stack(
        [
            arrays["shape_geo_type"][shapes],
            source[shapes],
            arrays["shape_convex"][shapes],
            arrays["shape_geo_scale"][shapes],
            arrays["shape_geo_thickness"][shapes],
        ]
    )
    first, number = distinct_rows(rows)
    return [_core(row, sources) for row in rows[first].tolist()], number


def _core(row: Sequence[float], sources: Sequence) -> _Core | None:
    kind, source, convex, x, y, z, thickness = row
    if kind == GeoType.SPHERE:
        return _Core(np.zeros((1, 3)), x + thickness)
    if kind == GeoType.CAPSULE:
        return _Core(np.array([[0.0, -y, 0.0], [0.0, y, 0.0]]), x + thickness)
    if kind == GeoType.BOX:
        return _Core(np.array(list(itertools.product((-x, x), (-y, y), (-z, z)))), thickness)
    if kind in (GeoType.CYLINDER, GeoType.CONE):
        angle = 2.0 * np.pi * np.arange(_ROUND) / _ROUND
        ring = np.column_stack([x * np.cos(angle), np.full(_ROUND, -y), x * np.sin(angle)])
        top = ring * (1.0, -1.0, 1.0) if kind == GeoType.CYLINDER else np.array([[0.0, y, 0.0]])
        return _Core(np.concatenate([ring, top]), thickness)
    if kind == GeoType.ELLIPSOID:
        directions = np.array([d for d in itertools.product((-1, 0, 1), repeat=3) if any(d)], np.float64)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return _Core(directions * (x, y, z), thickness)
    if kind == GeoType.MESH and convex != 0:
        return _Core(sources[int(source)].convex_hull((x, y, z)).vertices.astype(np.float64), thickness)
    return None


def _poses(shapes: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the poses (n, 7) of shapes in the world."""
    local = arrays["shape_transform"][shapes].astype(np.float64)
    body = arrays["shape_body"][shapes]
    return transform_multiply(arrays["body_q"][body].astype(np.float64), local).reshape(-1, 7)


def _boxes_meet(
    place: np.ndarray, cores: Sequence[_Core | None], core: np.ndarray, pose: np.ndarray
) -> np.ndarray:
    """Return which pairs (n, 2) of indices have overlapping bounds, along each axis of the world."""
    middle, half = _bounds(cores, core, pose)
    a, b = place.T
    return np.all(np.abs(middle[a] - middle[b]) < half[a] + half[b], axis=1)


def _bounds(
    cores: Sequence[_Core | None], core: np.ndarray, pose: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return centres and half extents (n, 3) of the boxes around solids, NaN for None."""
    bounds = np.array([np.full((2, 3), np.nan) if c is None else c.bounds for c in cores])[core]
    radius = np.array([0.0 if c is None else c.radius for c in cores])[core]
    middle = transform_point(pose, bounds[:, 0])
    turn = np.abs(quat_matrix(pose[:, 3:]))
    half = np.einsum("nij,nj->ni", turn, bounds[:, 1]) + radius[:, None]
    return middle, half


def _depth(a: _Core | None, b: _Core | None, relative: np.ndarray) -> float:
    """Return the penetration depth of two solids [m], 0 if they only touch or one is not a convex solid."""
    if a is None or b is None:
        return 0.0
    other = transform_point(relative, b.points)
    depth = penetration_depth(a.points, other, a.radius + b.radius)
    return depth if depth > _SHARE * min(a.size, b.size) else 0.0


def describe_overlaps(builder, pairs: np.ndarray, depths: np.ndarray, most: int) -> tuple[list[str], int]:
    """Return "link with link (depth)" for the deepest pairs of names of links, and how many pairs there are.

    Args:
        builder: The description.
        pairs: Shapes (n, 2) that overlap.
        depths: How deep they do (n,) [m].
        most: Number of pairs that are described.
    """
    body, which = np.unique(np.array(builder.shape_body)[pairs], return_inverse=True)
    names, number = np.unique([builder.body_key[k] for k in body.tolist()], return_inverse=True)
    links = number[which.reshape(-1, 2)]
    deepest = np.argsort(-depths, kind="stable")
    _, first = np.unique(links[deepest] @ [len(names), 1], return_index=True)
    shown = deepest[np.sort(first)[:most]]
    texts = [
        f"{str(names[a])!r} with {str(names[b])!r} ({1000.0 * depth:.3g} mm)"
        for (a, b), depth in zip(links[shown].tolist(), depths[shown].tolist())
    ]
    return texts, len(first)
