"""Links of one robot that overlap in the pose in which it is described.

Coarse collision shapes often overlap where the bodies that they represent do not. Contact would push such
links apart against their joints, which at best costs accuracy and is never intended.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.builder.pairs import PairFinder
from newtonsim.geometry.penetration import penetration_depth
from newtonsim.geometry.transforms import quat_matrix, transform_inverse, transform_multiply, transform_point
from newtonsim.scene.columns import distinct
from newtonsim.scene.enums import GeoType

_SHARE = 0.01
"""Depth, relative to the radius of the smaller shape, up to which two shapes count as touching."""

_ROUND = 24
"""Number of corners that stand for the circles of cylinders and cones."""


@dataclass(frozen=True)
class Overlap:
    """Two shapes that overlap.

    Attributes:
        pair: The shapes, lower index first.
        depth: Shortest translation that separates them [m].
    """

    pair: tuple[int, int]
    depth: float


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


def find_overlaps(builder, arrays: dict[str, np.ndarray], finder: PairFinder) -> list[Overlap]:
    """Find pairs of links of one kinematic tree that could collide and overlap from the start.

    Args:
        builder: The description; its `body_q` is the pose that is checked.
        arrays: Its lists as arrays.
        finder: Tells which pairs could collide.

    Returns:
        The pairs that overlap by more than a hundredth of the smaller one's radius. Shapes that are not
        convex solids are left out.
    """
    pairs = finder.pairs_of_groups(_trees(arrays))
    if not len(pairs):
        return []
    shapes = np.unique(pairs)
    cores, core = _cores(shapes, builder, arrays)
    pose = _poses(shapes, arrays)
    place = np.searchsorted(shapes, pairs)
    near = _boxes_meet(place, cores, core, pose)
    place, pairs = place[near], pairs[near]
    relative = transform_multiply(transform_inverse(pose[place[:, 0]]), pose[place[:, 1]]).reshape(-1, 7)
    # copies of a robot are looked at once
    kinds = np.column_stack([core[place], np.round(relative, 4)])
    _, first, same = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    ends = [(cores[a], cores[b]) for a, b in core[place[first]].tolist()]
    depths = [_depth(a, b, relative[k]) for k, (a, b) in zip(first.tolist(), ends)]
    depth = np.array(depths, np.float64)[same.reshape(-1)]
    return [Overlap((a, b), d) for (a, b), d in zip(pairs.tolist(), depth.tolist()) if d > 0.0]


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
    unique, number = np.unique(rows, axis=0, return_inverse=True)
    return [_core(row, sources) for row in unique.tolist()], number.reshape(-1)


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
    bounds = np.array([np.full((2, 3), np.nan) if c is None else c.bounds for c in cores])[core]
    radius = np.array([0.0 if c is None else c.radius for c in cores])[core]
    middle = transform_point(pose, bounds[:, 0])
    turn = np.abs(quat_matrix(pose[:, 3:]))
    half = np.einsum("nij,nj->ni", turn, bounds[:, 1]) + radius[:, None]
    a, b = place.T
    return (np.abs(middle[a] - middle[b]) < half[a] + half[b]).all(axis=1)


def _depth(a: _Core | None, b: _Core | None, relative: np.ndarray) -> float:
    """Return the penetration depth of two solids [m], 0 if they only touch or one is not a convex solid."""
    if a is None or b is None:
        return 0.0
    other = transform_point(relative, b.points)
    depth = penetration_depth(a.points, other, a.radius + b.radius)
    return depth if depth > _SHARE * min(a.size, b.size) else 0.0


def describe_overlaps(builder, overlaps: Sequence[Overlap]) -> Iterator[str]:
    """Yield "link with link (depth)" for each pair of names of links, the deepest first."""
    deepest: dict[tuple[str, str], float] = {}
    for overlap in overlaps:
        bodies = tuple(builder.body_key[builder.shape_body[shape]] for shape in overlap.pair)
        deepest[bodies] = max(overlap.depth, deepest.get(bodies, 0.0))
    for (first, second), depth in sorted(deepest.items(), key=lambda item: -item[1]):
        yield f"{first!r} with {second!r} ({1000.0 * depth:.3g} mm)"
