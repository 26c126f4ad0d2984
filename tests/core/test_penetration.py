"""Depth of rounded convex polytopes against closed forms and against quadratic programs."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from newtonsim.geometry.penetration import penetration_depth

BOX = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
ORIGIN = np.zeros((1, 3))


@pytest.mark.parametrize(
    ("a", "b", "radii", "depth"),
    [
        pytest.param(BOX, BOX + np.array([1.5, 0.2, 0.1]), 0.0, 0.5, id="boxes face to face"),
        pytest.param(BOX, BOX, 0.0, 2.0, id="the same box"),
        pytest.param(BOX, BOX + np.array([3.0, 4.0, 0.0]), 0.0, -np.sqrt(5.0), id="boxes apart"),
        pytest.param(BOX, BOX + np.array([2.0, 0.0, 0.0]), 0.0, 0.0, id="boxes that touch"),
        pytest.param(ORIGIN, ORIGIN + np.array([0.0, 0.6, 0.8]), 1.5, 0.5, id="spheres"),
        pytest.param(ORIGIN, ORIGIN, 1.5, 1.5, id="spheres about one point"),
        pytest.param(BOX, ORIGIN, 0.25, 1.25, id="sphere in a box"),
        pytest.param(BOX[[0, 1]], BOX[[6, 7]], 3.0, 3.0 - np.sqrt(8.0), id="parallel capsules"),
        pytest.param(BOX[[0, 7]], BOX[[1, 6]], 0.5, 0.5, id="crossed capsules"),
    ],
)
def test_closed_forms(a, b, radii, depth):
    assert penetration_depth(a, b, radii) == pytest.approx(depth, abs=1.0e-7)
    assert penetration_depth(b, a, radii) == pytest.approx(depth, abs=1.0e-7)


@pytest.mark.parametrize("seed", range(20))
def test_random_polytopes(seed):
    """A gap is the largest width of a slab between both; a depth is no more than any slab's overlap."""
    random = np.random.default_rng(seed)
    a = random.normal(size=(9, 3))
    b = random.normal(size=(12, 3)) + random.normal(size=3) * 2.0

    def overlap(direction):
        n = direction / np.linalg.norm(direction)
        return np.max(a @ n) - np.min(b @ n)

    starts = random.normal(size=(60, 3))
    least = min(minimize(overlap, start, method="Nelder-Mead", tol=1e-10).fun for start in starts)
    assert penetration_depth(a, b) == pytest.approx(least, abs=1.0e-4)


def test_units_do_not_matter():
    for scale in (1.0e-4, 1.0, 1.0e4):
        depth = penetration_depth(scale * BOX, scale * (BOX + np.array([1.5, 0.2, 0.1])))
        assert depth == pytest.approx(0.5 * scale, rel=1.0e-6)
