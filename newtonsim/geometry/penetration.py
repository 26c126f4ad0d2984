"""Penetration depth of two rounded convex polytopes, on the host."""

import numpy as np
import numpy.typing as npt

_MOST_ROUNDS = 64
_TOLERANCE = 1.0e-9
"""Fraction of the extent below which a distance counts as zero."""


def penetration_depth(a: npt.ArrayLike, b: npt.ArrayLike, radii: float = 0.0) -> float:
    """Return the length of the shortest translation that separates two rounded convex hulls, such as
    capsules.

    This is the distance of the origin from the boundary of the Minkowski difference: from outside by fully
    corrective Frank-Wolfe steps, which are those of Gilbert, Johnson and Keerthi, "A fast procedure for
    computing the distance between complex objects in three-dimensional space", 1988, with a larger simplex;
    from inside by the facets of its hull.

    Args:
        a: Points of the first, shape (n, 3) [m].
        b: Points of the second, shape (m, 3) [m].
        radii: Sum of the radii by which both are rounded [m].

    Returns:
        The depth [m]; negative values are gaps.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    gap = _distance(a, b)
    return radii - gap if gap > 0.0 else radii + _inside(a, b)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Distance [m] between the hulls of two point sets, 0 if they meet."""
    from scipy.optimize import nnls

    extent = float(max(np.ptp(a, axis=0).max(), np.ptp(b, axis=0).max()))
    nearest = a.mean(axis=0) - b.mean(axis=0)
    simplex = np.zeros((0, 3))
    for _ in range(_MOST_ROUNDS):
        length = float(np.linalg.norm(nearest))
        if length <= _TOLERANCE * extent:
            return 0.0
        direction = nearest / length
        support = a[np.argmin(a @ direction)] - b[np.argmax(b @ direction)]
        if len(simplex) and length - float(support @ direction) <= _TOLERANCE * max(extent, length):
            return length
        simplex = np.vstack([simplex, support])
        # the point of least norm in the hull of the simplex; the heavy last row makes the weights sum to one
        heavy = 1.0e3 * max(extent, float(np.abs(simplex).max()))
        weights, _ = nnls(
            np.vstack([simplex.T, np.full(len(simplex), heavy)]), np.array([0.0, 0.0, 0.0, heavy])
        )
        weights /= weights.sum()
        nearest = weights @ simplex
        simplex = simplex[weights > 0.0]
    return length


def _inside(a: np.ndarray, b: np.ndarray) -> float:
    """Shortest translation [m] that separates two overlapping hulls; 0 if their difference is flat."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull((a[:, None] - b[None]).reshape(-1, 3))
    except QhullError:
        return 0.0
    return max(0.0, float(np.min(-hull.equations[:, 3])))
