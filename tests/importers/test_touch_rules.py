"""Which shapes of one file may touch, by the definition, pair by pair."""

from itertools import combinations

import numpy as np
import pytest

from newtonsim.importers.building.filters import TouchRules


@pytest.mark.parametrize("seed", range(8))
def test_blocked_pairs_are_those_of_the_definition(seed: int):
    rng = np.random.default_rng(seed)
    welds, within = 9, bool(seed % 2)
    rules = TouchRules(within_tree=within)
    rules.above = {weld: int(rng.integers(0, weld)) for weld in range(1, welds)}
    tree = {weld: weld % 2 if weld else -1 for weld in range(welds)}
    given = []
    for shape in rng.permutation(40).tolist():
        weld, offers, responds = (int(n) for n in (rng.integers(0, welds), *rng.integers(1, 4, 2)))
        rules.add(shape, weld - 1, weld, tree[weld], offers, responds)
        given.append((shape, weld, offers, responds))
    expected = set()
    for (a, weld_a, offers_a, responds_a), (b, weld_b, offers_b, responds_b) in combinations(given, 2):
        apart = not (offers_a & responds_b or offers_b & responds_a)
        joined = 0 not in (weld_a, weld_b) and (
            rules.above[weld_a] == weld_b or rules.above[weld_b] == weld_a
        )
        one_tree = not within and tree[weld_a] == tree[weld_b] >= 0
        if weld_a != weld_b and (apart or joined or one_tree):
            expected.add((min(a, b), max(a, b)))
    assert rules.blocked() == expected
