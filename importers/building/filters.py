"""Which shapes of one file may touch: rigid groups, neighbours in the tree, bit masks and explicit pairs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from newtonsim.errors import ImportFileError

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
        # Shapes that the rules cannot tell apart are treated as one: a landscape of many stones is one kind.
        rows = np.array([self.weld, self.tree, self.contype, self.conaffinity], dtype=np.int64).T
        kinds, kind_of = np.unique(rows.reshape(-1, 4), axis=0, return_inverse=True)
        if len(kinds) > MAX_KINDS:
            raise ImportFileError(f"the shapes have {len(kinds)} kinds of contact, more than {MAX_KINDS}")
        order = np.argsort(kind_of.reshape(-1), kind="stable")
        members = np.split(np.array(self.shape)[order], np.cumsum(np.bincount(kind_of.reshape(-1)))[:-1])
        above = np.array([self.above.get(group, 0) for group in kinds[:, 0].tolist()])
        pairs: set[tuple[int, int]] = set()
        for i, others in enumerate(self._blocked_kinds(kinds, above)):
            for j in others:
                if len(pairs) + len(members[i]) * len(members[j]) > MAX_FILTER_PAIRS:
                    raise ImportFileError(f"the shapes need more than {MAX_FILTER_PAIRS} filter pairs")
                pairs.update(_ordered((a, b)) for a in members[i].tolist() for b in members[j].tolist())
        return (pairs | self._excluded_now()) - self._allowed_now()

    def _blocked_kinds(self, kinds: np.ndarray, above: np.ndarray) -> Iterator[np.ndarray]:
        """Yield for each kind the later kinds that it must not touch, in time in proportion to them."""
        weld, tree, offers, responds = kinds.T
        rules, rule = np.unique(kinds[:, 2:], axis=0, return_inverse=True)
        apart = [np.flatnonzero(((a & responds) | (offers & b)) == 0) for a, b in rules.tolist()]
        # The world is nobody's neighbour: what hangs on it still collides with the floor.
        welded, hanging = _members(weld, weld != 0), _members(above, above != 0)
        within = _members(tree, tree >= 0) if not self.within_tree else {}
        none = np.zeros(0, np.int64)
        places = zip(rule.reshape(-1).tolist(), weld.tolist(), above.tolist(), tree.tolist())
        for i, (at, own, upper, root) in enumerate(places):
            found = (apart[at], hanging.get(own, none), welded.get(upper, none), within.get(root, none))
            parts = [part for part in found if len(part) and part[-1] > i]  # each in ascending order
            if not parts:
                yield none
                continue
            later = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
            later = later[later > i]
            yield later[weld[later] != own]

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


def _ordered(pair: tuple[int, int]) -> tuple[int, int]:
    return (min(pair), max(pair))


def _members(group: np.ndarray, counts: np.ndarray) -> dict[int, np.ndarray]:
    """Return the places (n,) of the entries of each group, of those that count."""
    place = np.flatnonzero(counts)
    place = place[np.argsort(group[place], kind="stable")]
    groups, starts = np.unique(group[place], return_index=True)
    return dict(zip(groups.tolist(), np.split(place, starts[1:])))
