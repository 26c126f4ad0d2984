"""Which colliders of a stage pass through each other: groups, named pairs, scenes and articulations."""

from collections.abc import Iterable
from itertools import combinations_with_replacement

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.building.filters import MAX_FILTER_PAIRS, MAX_KINDS
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.records import Collider, Content
from newtonsim.importers.usd.stage import StageView


class Groups:
    """The CollisionGroup prims of a stage."""

    def __init__(self, view: StageView, report: ImportReport):
        from pxr import UsdPhysics

        prims = [prim for prim in view.stage.Traverse() if prim.IsA(UsdPhysics.CollisionGroup)]
        self.queries = [
            UsdPhysics.CollisionGroup(prim).GetCollidersCollectionAPI().ComputeMembershipQuery()
            for prim in prims
        ]
        self.paths = [prim.GetPath() for prim in prims]
        for prim in prims:
            element = Element(prim, str(prim.GetPath()), view.path, view.time)
            for target in element.targets("physics:filteredGroups"):
                if target not in self.paths:
                    report.unsupported(
                        element, f"'physics:filteredGroups' names {target}, which is not a CollisionGroup"
                    )
        self.table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(view.stage) if prims else None

    def of(self, element: Element) -> frozenset[int]:
        """Numbers of the groups that hold a collider."""
        path = element.prim.GetPath()
        return frozenset(n for n, query in enumerate(self.queries) if query.IsPathIncluded(path))

    def touch(self, first: frozenset[int], second: frozenset[int]) -> bool:
        """Whether colliders in these groups touch each other."""
        return all(self.table.IsCollisionEnabled(self.paths[a], self.paths[b]) for a in first for b in second)


def blocked_pairs(
    colliders: list[tuple[Collider, list[int]]],
    groups: Groups,
    owners: list[str | None],
    closed: dict[str, int],
) -> set[tuple[int, int]]:
    """Pairs of shapes that groups, scenes and articulations keep apart.

    Args:
        colliders: Each with its shapes.
        groups: The groups of the stage.
        owners: PhysicsScene of each collider, None for all.
        closed: Number of the articulation of each body whose parts do not touch each other.
    """
    kinds: dict[tuple, list[int]] = {}
    for (collider, shapes), owner in zip(colliders, owners):
        key = (groups.of(collider.place.element), owner, closed.get(collider.place.body, -1))
        kinds.setdefault(key, []).extend(shapes)
    if len(kinds) > MAX_KINDS:
        raise ImportFileError(f"the colliders have {len(kinds)} kinds of contact, more than {MAX_KINDS}")
    pairs: set[tuple[int, int]] = set()
    for (first, ours), (second, theirs) in combinations_with_replacement(kinds.items(), 2):
        apart = None not in (first[1], second[1]) and first[1] != second[1]
        apart |= first[2] == second[2] >= 0
        if apart or not groups.touch(first[0], second[0]):
            _add(pairs, ours, theirs)
    return pairs


def named_pairs(content: Content, shapes: dict[str, list[int]], report: ImportReport) -> set[tuple[int, int]]:
    """Pairs of shapes that FilteredPairsAPI names: of colliders, or of all below a prim.

    Args:
        content: The prims.
        shapes: Colliding shapes by label of the collider.
        report: Receives remarks.
    """
    pairs: set[tuple[int, int]] = set()
    for place in content.filtered:
        ours = shapes_below(place.element.label, shapes)
        for target in place.element.targets("physics:filteredPairs"):
            if not place.element.prim.GetStage().GetPrimAtPath(target):
                report.unsupported(
                    place.element, f"'physics:filteredPairs' names {target}, which does not exist"
                )
            _add(pairs, ours, shapes_below(place.label_of(target), shapes))
    return pairs


def shapes_below(label: str, shapes: dict[str, list[int]]) -> list[int]:
    """Shapes of a prim and of all below it."""
    return [
        shape
        for owner, indices in shapes.items()
        if owner == label or owner.startswith(label.rstrip("/") + "/")
        for shape in indices
    ]


def crossed(first: Iterable[int], second: Iterable[int]) -> set[tuple[int, int]]:
    """All pairs of a shape of one list and one of the other."""
    pairs: set[tuple[int, int]] = set()
    _add(pairs, list(first), list(second))
    return pairs


def _add(pairs: set[tuple[int, int]], ours: list[int], theirs: list[int]) -> None:
    if len(pairs) + len(ours) * len(theirs) > MAX_FILTER_PAIRS:
        raise ImportFileError(f"the shapes need more than {MAX_FILTER_PAIRS} filter pairs")
    grid = np.stack(np.meshgrid(ours, theirs, indexing="ij"), axis=-1).reshape(-1, 2)
    grid = np.sort(grid[grid[:, 0] != grid[:, 1]], axis=1)
    pairs.update(map(tuple, grid.astype(int).tolist()))
