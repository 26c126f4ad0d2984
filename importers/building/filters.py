"""Which shapes of one file may touch: rigid groups, neighbours in the tree, bit masks and explicit pairs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from newtonsim.builder.pairs import joint_filter_pairs
from newtonsim.errors import ImportFileError
from newtonsim.scene.columns import distinct_rows

MAX_FILTER_PAIRS = 2_000_000
MAX_KINDS = 20_000


@dataclass(slots=True)
class TouchRules:
    """Everything that decides about pairs of shapes; one entry per shape in the lists.

    Attributes:
        shape: Index of the shape in the builder.
        body: Body of the shape, -1 for the world.
        weld: Rigid group: bodies joined by fixed joints share one, the world's is 0.
        tree: Kinematic tree, or -1 for shapes of the world.
        contype: Bits that this shape offers.
        conaffinity: Bits that it responds to.
        above: Rigid group above each rigid group, by group.
        allowed: Pairs of shapes that touch whatever their bits say.
        excluded: Pairs of bodies whose other shapes do not touch.
        within_tree: Whether shapes of one tree touch each other at all.
    """

    shape: list[int] = field(default_factory=list)
    body: list[int] = field(default_factory=list)
    weld: list[int] = field(default_factory=list)
    tree: list[int] = field(default_factory=list)
    contype: list[int] = field(default_factory=list)
    conaffinity: list[int] = field(default_factory=list)
    above: dict[int, int] = field(default_factory=dict)
    allowed: set[tuple[int, int]] = field(default_factory=set)
    excluded: set[tuple[int, int]] = field(default_factory=set)
    within_tree: bool = True

    def add(
        self, shape: int, body: int, weld: int, tree: int, contype: int = 1, conaffinity: int = 1
    ) -> None:
        """Append one shape that takes part in collisions."""
        self.shape.append(shape)
        self.body.append(body)
        self.weld.append(weld)
        self.tree.append(tree)
        self.contype.append(contype)
        self.conaffinity.append(conaffinity)

    def allow(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Let pairs of shapes touch whatever their bits say."""
        self.allowed.update(_ordered(pair) for pair in pairs)

    def exclude(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Keep the shapes of pairs of bodies apart, but for those that are allowed by name."""
        self.excluded.update(_ordered(pair) for pair in pairs)

    def blocked(self) -> set[tuple[int, int]]:
        """Return the pairs of shapes (lower index first) that must not touch.

        Pairs in one rigid group are left out: the builder keeps them apart anyway.
        """
        pairs = self._neighbours()
        # Shapes that the rules cannot tell apart are treated as one: a landscape of many stones is one kind.
        rows = np.array([self.weld, self.tree, self.contype, self.conaffinity], dtype=np.int64).T
        first, kind_of = distinct_rows(rows)
        kinds = rows[first]
        if len(kinds) > MAX_KINDS:
            raise ImportFileError(f"the shapes have {len(kinds)} kinds of contact, more than {MAX_KINDS}")
        members = _members(kind_of, np.ones(len(kind_of), bool))
        shape = np.array(self.shape)
        for i, others in self._blocked_kinds(kinds):
            for j in others.tolist():
                if len(pairs) + len(members[i]) * len(members[j]) > MAX_FILTER_PAIRS:
                    raise _too_many()
                ours, theirs = shape[members[i]].tolist(), shape[members[j]].tolist()
                pairs.update(_ordered((a, b)) for a in ours for b in theirs)
        return (pairs | self._excluded_now()) - self._allowed_now()

    def _neighbours(self) -> set[tuple[int, int]]:
        """Return the pairs of shapes in rigid groups that a joint connects."""
        # The world is nobody's neighbour: what hangs on it still collides with the floor.
        inner = {group: above for group, above in self.above.items() if group != 0 and above != 0}
        weld, ends = np.array(self.weld, np.int64), np.array(list(inner.items()), np.int64).reshape(-1, 2)
        count = np.bincount(weld, minlength=int(ends.max(initial=-1)) + 1)
        if int((count[ends[:, 0]] * count[ends[:, 1]]).sum()) > MAX_FILTER_PAIRS:
            raise _too_many()
        place = joint_filter_pairs(weld, ends[:, 0], ends[:, 1], [True] * len(ends))
        return set(map(tuple, np.sort(np.array(self.shape, np.int64)[place], axis=1).tolist()))

    def _blocked_kinds(self, kinds: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield kinds with the later ones that bits or a common tree keep from touching them."""
        weld, tree, offers, responds = kinds.T
        first, rule = distinct_rows(kinds[:, 2:])
        apart = [np.flatnonzero(((a & responds) | (offers & b)) == 0) for a, b in kinds[first, 2:].tolist()]
        within = _members(tree, tree >= 0) if not self.within_tree else {}
        if not within and not any(map(len, apart)):
            return
        none = np.zeros(0, np.int64)
        for i, (at, own, root) in enumerate(zip(rule.tolist(), weld.tolist(), tree.tolist())):
            found = (apart[at], within.get(root, none))
            parts = [part for part in found if len(part) and part[-1] > i]  # each in ascending order
            if parts:
                later = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
                later = later[later > i]
                yield i, later[weld[later] != own]

    def _allowed_now(self) -> set[tuple[int, int]]:
        if self.within_tree:
            return self.allowed
        tree = dict(zip(self.shape, self.tree))
        return {(a, b) for a, b in self.allowed if tree.get(a, -1) != tree.get(b, -1) or tree.get(a, -1) < 0}

    def _excluded_now(self) -> set[tuple[int, int]]:
        if not self.excluded:
            return set()
        by_body: dict[int, list[int]] = {}
        for shape, body in zip(self.shape, self.body):
            by_body.setdefault(body, []).append(shape)
        return {
            _ordered((a, b))
            for first, second in self.excluded
            for a in by_body.get(first, ())
            for b in by_body.get(second, ())
            if a != b
        }


def _too_many() -> ImportFileError:
    return ImportFileError(f"the shapes need more than {MAX_FILTER_PAIRS} filter pairs")


def _ordered(pair: tuple[int, int]) -> tuple[int, int]:
    return (min(pair), max(pair))


def _members(group: np.ndarray, counts: np.ndarray) -> dict[int, np.ndarray]:
    """Return the places (n,) of the entries of each group, of those that count."""
    place = np.flatnonzero(counts)
    place = place[np.argsort(group[place], kind="stable")]
    groups, starts = np.unique(group[place], return_index=True)
    return dict(zip(groups.tolist(), np.split(place, starts[1:])))
