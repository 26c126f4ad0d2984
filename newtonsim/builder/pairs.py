"""Which pairs of shapes may collide, for all worlds at once."""

from collections.abc import Sequence

import numpy as np

from newtonsim.builder.validate import rigid_groups
from newtonsim.scene.enums import GeoType, ShapeFlags, among

_MOST_LISTED = 2000
"""Above this number of candidates in a world, pairs are not listed but found in each collision pass."""

_CHUNK = 1 << 22
"""Number of candidate pairs processed at a time, to bound memory."""


class PairFinder:
    """Decides which pairs of shapes may collide.

    Two shapes may collide if they share a world (or one is global), their groups allow it, both take part in
    shape collisions, no filter names them, and they can move relative to each other: they are not on bodies
    welded together, nor both on bodies that cannot move.
    """

    def __init__(self, builder, arrays: dict[str, np.ndarray]):
        self.count = builder.shape_count
        body = arrays["shape_body"].astype(np.int64)
        child, parent = arrays["joint_child"].astype(np.int64), arrays["joint_parent"].astype(np.int64)
        group = rigid_groups(builder.body_count, arrays["joint_type"], child, parent)
        moved = np.zeros(builder.body_count, bool)
        moved[child] = True
        top = np.where(group >= 0, group, 0)
        fixed = (group < 0) | ~moved[top] if builder.body_count else np.zeros(0, bool)
        rigid = np.where(fixed, -1, group)  # a root that no joint moves stands still, as the world does
        self.rigid = np.where(body < 0, -1, rigid[np.maximum(body, 0)]) if builder.body_count else body
        flags = arrays["shape_flags"]
        self.collides = (flags & int(ShapeFlags.COLLIDE_SHAPES)) != 0
        self.collides &= arrays["shape_geo_type"] != GeoType.NONE
        self.meets_ground = (flags & int(ShapeFlags.COLLIDE_GROUND)) != 0
        self.meets_ground &= ~among(arrays["shape_geo_type"], (GeoType.PLANE, GeoType.NONE, GeoType.HFIELD))
        self.group = np.array(builder.shape_collision_group, np.int64)
        self.world = arrays["shape_world"].astype(np.int64)
        pairs = builder.shape_collision_filter_pairs.array().astype(np.int64)
        jointed = joint_filter_pairs(body, child, parent, builder.joint_collision_filter_parent)
        ends = (
            np.array(bodies, np.int64) for bodies in (builder.constraint_child, builder.constraint_parent)
        )
        second, first = ends
        closed = joint_filter_pairs(body, second, first, builder.constraint_collision_filter)
        keys = np.sort(self._key(np.concatenate([pairs, jointed, closed])))
        self.filter_keys = keys[np.diff(keys, prepend=-1) > 0]

    def _key(self, pairs: np.ndarray) -> np.ndarray:
        return np.minimum(pairs[:, 0], pairs[:, 1]) * self.count + np.maximum(pairs[:, 0], pairs[:, 1])

    def allowed(self, pairs: np.ndarray) -> np.ndarray:
        """Return which of the pairs (n, 2) may collide, leaving worlds aside."""
        a, b = pairs.T
        keep = self.rigid[a] != self.rigid[b]
        ga, gb = self.group[a], self.group[b]
        keep &= (ga == gb) | (ga == -1) | (gb == -1)
        if len(self.filter_keys):
            keys = self._key(pairs)
            place = np.minimum(np.searchsorted(self.filter_keys, keys), len(self.filter_keys) - 1)
            keep &= self.filter_keys[place] != keys
        return keep

    def _world_sizes(self, local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first entry, number of shapes and number of moving shapes of each world in `local`."""
        worlds, starts, sizes = np.unique(self.world[local], return_index=True, return_counts=True)
        moves = self.rigid[local] >= 0
        moving = np.bincount(np.searchsorted(worlds, self.world[local]), moves, len(worlds)).astype(np.int64)
        return starts, sizes, moving

    def _candidates(self, exclude: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the colliding shapes of worlds, moving ones first in each, and those of the global world."""
        candidates = np.flatnonzero(self.collides)
        candidates = candidates[candidates != exclude]
        world = self.world[candidates]
        local = candidates[world >= 0]
        # what moves comes first in each world: two shapes that stand still never pair
        local = local[np.lexsort((self.rigid[local] < 0, self.world[local]))]
        return local, candidates[world < 0]

    def crowded(self, exclude: int = -1) -> bool:
        """Return whether a world has more candidate pairs than are worth listing.

        Filtered pairs and pairs on one rigid body are not counted; pairs of different groups are.
        """
        local, fixed = self._candidates(exclude)
        starts, sizes, moving = self._world_sizes(local)
        candidates = moving * (2 * sizes - moving - 1) // 2 + moving * len(fixed)
        if int(candidates.max(initial=0)) <= _MOST_LISTED:
            return False
        worlds = self.world[local[starts]]
        candidates -= np.bincount(np.searchsorted(worlds, self._never(local, fixed)), minlength=len(worlds))
        return int(candidates.max()) > _MOST_LISTED

    def _never(self, local: np.ndarray, fixed: np.ndarray) -> np.ndarray:
        """Return the worlds of pairs of colliding shapes that are filtered or on one rigid body."""
        used = np.zeros(self.count, bool)
        used[local], used[fixed] = True, True
        a, b = np.divmod(self.filter_keys, max(self.count, 1))
        filtered = used[a] & used[b] & (self.rigid[a] != self.rigid[b])
        world = np.maximum(self.world[a], self.world[b])[filtered]
        moves = local[self.rigid[local] >= 0]
        _, first, together = np.unique(self.rigid[moves], return_index=True, return_counts=True)
        same = np.repeat(self.world[moves[first]], together * (together - 1) // 2)
        return np.concatenate([world[world >= 0], same])

    def shape_pairs(self, exclude: int = -1) -> np.ndarray:
        """Return the pairs (n, 2), low index first, ordered by world.

        Args:
            exclude: A shape to leave out (the ground).
        """
        local, fixed = self._candidates(exclude)
        found = [self._within_worlds(local), self._between(local, fixed)]
        pairs = np.concatenate(found)
        pairs = np.sort(pairs, axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0], self.world[pairs].max(axis=1, initial=-1)))
        return pairs[order].astype(np.int32)

    def _within_worlds(self, local: np.ndarray) -> np.ndarray:
        """Return the pairs within each world; worlds of one size are processed together."""
        starts, sizes, moving = self._world_sizes(local)
        found = [np.zeros((0, 2), np.int64)]
        for size, movers in np.unique(np.stack([sizes, moving], axis=1), axis=0):
            begin = starts[(sizes == size) & (moving == movers)]
            ends = np.argwhere(np.arange(min(movers, size - 1))[:, None] < np.arange(size))
            for worlds in np.array_split(begin, max(1, len(begin) * len(ends) // _CHUNK)):
                pairs = local[worlds[:, None, None] + ends].reshape(-1, 2)
                found.append(pairs[self.allowed(pairs)])
        return np.concatenate(found)

    def pairs_of_groups(self, group: np.ndarray) -> np.ndarray:
        """Return the pairs (n, 2), low index first, of shapes of one group that may collide.

        Args:
            group: Group of each shape, negative for shapes without a group.
        """
        shapes = np.flatnonzero(self.collides & (group >= 0))
        shapes = shapes[np.argsort(group[shapes], kind="stable")]
        _, starts, sizes = np.unique(group[shapes], return_index=True, return_counts=True)
        found = [np.zeros((0, 2), np.int64)]
        for size in np.unique(sizes).tolist():
            ends = np.argwhere(np.arange(size)[:, None] < np.arange(size))
            begin = starts[sizes == size]
            for some in np.array_split(begin, max(1, len(begin) * len(ends) // _CHUNK)):
                pairs = shapes[some[:, None, None] + ends].reshape(-1, 2)
                found.append(pairs[self.allowed(pairs)])
        return np.concatenate(found)

    def leave_out(self, pairs: np.ndarray) -> None:
        """Let pairs (n, 2) of shapes pass through each other from now on."""
        keys = np.sort(np.concatenate([self.filter_keys, self._key(np.asarray(pairs, np.int64))]))
        self.filter_keys = keys[np.diff(keys, prepend=-1) > 0]

    def _between(self, local: np.ndarray, fixed: np.ndarray) -> np.ndarray:
        """Return the pairs of a shape in a world and a global one."""
        found = [np.zeros((0, 2), np.int64)]
        for shape in fixed:
            pairs = np.stack([np.full(len(local), shape), local], axis=1)
            found.append(pairs[self.allowed(pairs)])
        return np.concatenate(found)

    def ground_pairs(self, ground: int) -> np.ndarray:
        """Return the pairs (n, 2) of a shape that the ground may touch and the ground."""
        shapes = np.flatnonzero(self.meets_ground & (self.rigid >= 0))
        shapes = shapes[np.argsort(self.world[shapes], kind="stable")]
        pairs = np.stack([shapes, np.full(len(shapes), ground)], axis=1)
        return pairs[self.allowed(pairs)].astype(np.int32)


def joint_filter_pairs(
    body: np.ndarray, child: np.ndarray, parent: np.ndarray, filtered: Sequence[bool]
) -> np.ndarray:
    """Return the pairs (n, 2) of shapes on bodies that a joint or constraint keeps from colliding.

    Args:
        body: Body of each shape.
        child: Child of each joint.
        parent: Parent of each joint.
        filtered: Whether each joint excludes contacts between the two.
    """
    use = np.array(filtered, bool) & (parent >= 0) & (child >= 0) if len(filtered) else np.zeros(0, bool)
    child, parent = child[use], parent[use]
    if not len(child) or not len(body):
        return np.zeros((0, 2), np.int64)
    order = np.argsort(body, kind="stable")
    low_c, high_c = np.searchsorted(body[order], child, "left"), np.searchsorted(body[order], child, "right")
    low_p, high_p = (
        np.searchsorted(body[order], parent, "left"),
        np.searchsorted(body[order], parent, "right"),
    )
    count_c, count_p = high_c - low_c, high_p - low_p
    total = count_c * count_p
    joint = np.repeat(np.arange(len(child)), total)
    number = np.arange(total.sum()) - np.repeat(np.cumsum(total) - total, total)
    a = order[low_c[joint] + number // np.maximum(count_p[joint], 1)]
    b = order[low_p[joint] + number % np.maximum(count_p[joint], 1)]
    return np.stack([a, b], axis=1)
