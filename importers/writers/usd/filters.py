"""Which shapes pass through each other: collision groups and filtered pairs."""

from collections import Counter

import numpy as np
from pxr import Sdf, Usd, UsdPhysics

from newtonsim.importers.writers.records import Scene


class FilterWriter:
    """Writes groups and pairs.

    Args:
        scene: The scene.
        body_paths: Path of each body, -1 for the world.
        shape_paths: Path of each shape, by its place in the scene.
    """

    def __init__(
        self, scene: Scene, body_paths: dict[int, Sdf.Path | None], shape_paths: dict[int, Sdf.Path]
    ):
        self.scene, self.body_paths, self.shape_paths = scene, body_paths, shape_paths
        self.body = np.array([shape.body for shape in scene.shapes], np.int64)
        colliders = [shape.body for shape in scene.shapes if shape.is_collider]
        self.colliders = Counter(colliders)
        self.pairs = self._pairs()

    def _pairs(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Filtered pairs of colliding shapes that can move apart, by pair of bodies."""
        scene, found = self.scene, {}
        for a, b in scene.filtered.tolist():
            both = scene.shapes[a].is_collider and scene.shapes[b].is_collider
            if both and scene.rigid[a] != scene.rigid[b]:
                if self.body[a] > self.body[b]:
                    a, b = b, a
                found.setdefault((int(self.body[a]), int(self.body[b])), []).append((a, b))
        return found

    def apart(self, first: int, second: int) -> bool:
        """Whether no shapes of two bodies touch because of filters."""
        pair = (min(first, second), max(first, second))
        count = self.colliders[first] * self.colliders[second]
        return count == 0 or len(self.pairs.get(pair, ())) == count

    def write_pairs(self, stage: Usd.Stage, jointed: set[tuple[int, int]]) -> None:
        """Write the filtered pairs: of bodies where all their shapes are, else of shapes.

        Args:
            stage: The stage.
            jointed: Pairs of bodies, lower first, that a joint keeps apart.
        """
        targets: dict[Sdf.Path, list[Sdf.Path]] = {}
        for bodies, shapes in sorted(self.pairs.items()):
            if bodies in jointed:
                continue
            if bodies[0] >= 0 and self.apart(*bodies):
                first, second = (self.body_paths[body] for body in bodies)
                if first is not None and second is not None:
                    targets.setdefault(first, []).append(second)
                continue
            for a, b in shapes:
                if a in self.shape_paths and b in self.shape_paths:
                    targets.setdefault(self.shape_paths[a], []).append(self.shape_paths[b])
        for path, others in targets.items():
            schema = UsdPhysics.FilteredPairsAPI.Apply(stage.GetPrimAtPath(path))
            schema.CreateFilteredPairsRel().SetTargets(others)

    def write_groups(self, stage: Usd.Stage, folder: Sdf.Path) -> None:
        """Write a collision group for each pair of world and group that does not collide with all others."""
        members: dict[tuple[int, int], list[Sdf.Path]] = {}
        for shape in self.scene.shapes:
            if shape.is_collider and shape.row in self.shape_paths:
                members.setdefault((shape.world, shape.group), []).append(self.shape_paths[shape.row])
        apart = {one: [other for other in members if not _meet(one, other)] for one in members}
        named = {one: f"group_{i}" for i, one in enumerate(one for one in members if apart[one])}
        for one, name in named.items():
            group = UsdPhysics.CollisionGroup.Define(stage, folder.AppendChild(name))
            group.GetCollidersCollectionAPI().CreateIncludesRel().SetTargets(members[one])
            others = [folder.AppendChild(named[other]) for other in apart[one]]
            group.CreateFilteredGroupsRel().SetTargets(others)


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether shapes of two (world, group) collide."""
    return all(a == b or a == -1 or b == -1 for a, b in zip(one, other))
