"""Edges that pass through triangles, found without anything of the library: a grid and exact predicates.

The signs of the determinants are those of exact arithmetic: in float64 where an error bound vouches for them
(Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997), with
integers elsewhere.
"""

import numpy as np

ERROR_BOUND = 8e-16
"""Relative to the sum of the absolute values of the products of the determinant; Shewchuk has 7.77e-16."""


def edges_of(triangles: np.ndarray) -> np.ndarray:
    """Edges (m, 2), low index first, of triangles (n, 3)."""
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    return np.unique(np.sort(sides, axis=1), axis=0)


def orientation(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Signs (n,) of the volumes of the tetrahedra with corners (n, 3); the corners are float32 numbers."""
    u, v, w = a - d, b - d, c - d
    terms = [
        u[:, 2] * (v[:, 0] * w[:, 1]),
        -u[:, 2] * (v[:, 1] * w[:, 0]),
        v[:, 2] * (w[:, 0] * u[:, 1]),
        -v[:, 2] * (w[:, 1] * u[:, 0]),
        w[:, 2] * (u[:, 0] * v[:, 1]),
        -w[:, 2] * (u[:, 1] * v[:, 0]),
    ]
    value = np.sum(terms, axis=0)
    doubtful = np.abs(value) <= ERROR_BOUND * np.sum(np.abs(terms), axis=0)
    signs = np.sign(value).astype(int)
    at = np.flatnonzero(doubtful)
    if len(at):
        signs[at] = exact_orientation(a[at], b[at], c[at], d[at])
    return signs


def exact_orientation(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Signs (n,) of the volumes of the tetrahedra with corners (n, 3) by integers."""
    points = np.stack([a, b, c, d]).astype(np.float32).astype(np.float64)
    whole = np.array([int(z) for z in np.ldexp(points, 149).reshape(-1)], object).reshape(points.shape)
    u, v, w = ((whole[k] - whole[3]).T for k in range(3))
    value = (
        u[2] * (v[0] * w[1] - v[1] * w[0])
        + v[2] * (w[0] * u[1] - w[1] * u[0])
        + w[2] * (u[0] * v[1] - u[1] * v[0])
    )
    return (value > 0).astype(int) - (value < 0).astype(int)


def pass_through(p: np.ndarray, q: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Whether the segments p-q meet the triangles a, b, c, touching included; corners (n, 3).

    Segments within the plane of a triangle do not count.
    """
    start, end = orientation(p, a, b, c), orientation(q, a, b, c)
    result = (start * end <= 0) & ((start != 0) | (end != 0))
    at = np.flatnonzero(result)
    sides = np.stack(
        [orientation(p[at], q[at], s[at], e[at]) for s, e in ((a, b), (b, c), (c, a))] or [[]] * 3
    )
    result[at] = ~(np.any(sides > 0, axis=0) & np.any(sides < 0, axis=0))
    return result


def near_pairs(low_a, high_a, low_b, high_b, cell: float) -> np.ndarray:
    """Pairs (n, 2) of boxes of two sets, given by their corners (m, 3), that overlap."""
    origin = np.minimum(low_a.min(axis=0), low_b.min(axis=0))

    def entries(low, high):
        first = ((low - origin) // cell).astype(np.int64)
        size = ((high - origin) // cell).astype(np.int64) - first + 1
        number = size.prod(axis=1)
        owner = np.repeat(np.arange(len(low)), number)
        k = np.arange(len(owner)) - np.repeat(np.cumsum(number) - number, number)
        place = np.stack(
            [k % size[owner, 0], k // size[owner, 0] % size[owner, 1], k // size[owner, :2].prod(axis=1)],
            axis=1,
        )
        cells = first[owner] + place
        return owner, (cells[:, 0] << 42) + (cells[:, 1] << 21) + cells[:, 2]

    owner_a, cell_a = entries(low_a, high_a)
    owner_b, cell_b = entries(low_b, high_b)
    order = np.argsort(cell_b, kind="stable")
    owner_b, cell_b = owner_b[order], cell_b[order]
    begin, end = np.searchsorted(cell_b, cell_a), np.searchsorted(cell_b, cell_a, side="right")
    found = []
    for part in np.array_split(np.arange(len(cell_a)), 1 + len(cell_a) // 50_000):
        number = end[part] - begin[part]
        a = np.repeat(owner_a[part], number)
        k = np.arange(len(a)) - np.repeat(np.cumsum(number) - number, number)
        b = owner_b[np.repeat(begin[part], number) + k]
        keep = np.ones(len(a), bool)
        for axis in range(3):
            a, b = a[keep], b[keep]
            keep = (low_a[a, axis] <= high_b[b, axis]) & (low_b[b, axis] <= high_a[a, axis])
        found.append(np.stack([a[keep], b[keep]], axis=1))
    pairs = np.concatenate(found)
    single = np.unique(pairs[:, 0] * len(low_b) + pairs[:, 1])
    return np.stack([single // len(low_b), single % len(low_b)], axis=1)


def crossings(x: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return the edges that pass through triangles with which they share no corner.

    Args:
        x: Positions (p, 3), float32.
        triangles: Corners (n, 3).

    Returns:
        Pairs (m, 5): the two particles of the edge, the three of the triangle.
    """
    assert np.all(np.isfinite(x)), "positions are not finite"
    points = np.asarray(x, np.float32).astype(np.float64)
    edges = edges_of(triangles)
    ends, corners = points[edges], points[triangles]
    cell = 0.75 * float(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean())
    pairs = near_pairs(
        ends.min(axis=1), ends.max(axis=1), corners.min(axis=1), corners.max(axis=1), max(cell, 1e-9)
    )
    e, t = edges[pairs[:, 0]], triangles[pairs[:, 1]]
    apart = ~np.any(e[:, :, None] == t[:, None, :], axis=(1, 2))
    e, t = e[apart], t[apart]
    hit = pass_through(points[e[:, 0]], points[e[:, 1]], *(points[t[:, k]] for k in range(3)))
    return np.concatenate([e[hit], t[hit]], axis=1)
