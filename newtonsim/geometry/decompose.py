"""Convex decomposition of meshes, by the library CoACD.

X. Wei, M. Liu, Z. Ling, H. Su, "Approximate convex decomposition for 3D meshes with collision-aware concavity
and tree search", ACM Transactions on Graphics 41(4), 2022.
"""

from __future__ import annotations

import numpy as np

from newtonsim.errors import ModelError

_ROUNDING = 1.0e-4
"""Fraction of its hull's volume that a mesh may lack and still count as convex."""


Triangles = tuple[np.ndarray, np.ndarray]
"""Vertices (n, 3) [m] and the triangles' corners (m, 3), counter-clockwise seen from outside."""


def convex_decomposition(
    surface: Triangles, label: str, max_parts: int, concavity: float, seed: int, effort: float
) -> Triangles | list[Triangles]:
    """Split the solid that a mesh bounds into nearly convex parts.

    Add each part to the body as a separate shape: meshes on bodies that move collide as their hulls.

    Args:
        surface: The mesh. A mesh with borders is closed first, which rounds its edges. A convex one is
            returned as its hull; others take minutes if they have more than some ten thousand triangles.
        label: Its name in messages.
        max_parts: Largest number of parts.
        concavity: Largest distance of a part from its hull, relative to the extent of the mesh; 0.01 to 1.
        seed: Seed of the search.
        effort: Fraction of CoACD's usual search, in (0, 1]; less is faster and gives a few more parts.

    Returns:
        The hulls of the parts as closed surfaces, in a list; for a convex mesh only its hull.

    Raises:
        ModelError: If CoACD is not installed (extra `decompose`), or the mesh has no triangles.
    """
    try:
        import coacd
    except ImportError as error:
        raise ModelError(
            "convex decomposition needs the package coacd: pip install 'newtonsim[decompose]'"
        ) from error
    if not 0.0 < effort <= 1.0:
        raise ModelError(f"{label}: effort {effort:g} must be above 0 and at most 1")
    if max_parts < 1 or not 0.01 <= concavity <= 1.0:
        raise ModelError(
            f"{label}: max_parts {max_parts} must be 1 or more and concavity {concavity:g} in 0.01..1"
        )
    vertices, triangles = surface
    if not len(triangles):
        raise ModelError(f"{label}: has no triangles to decompose")
    hull = _hull_if_convex(vertices.astype(np.float64), triangles)
    if hull is not None:
        return hull
    coacd.set_log_level("error")
    return coacd.run_coacd(
        coacd.Mesh(vertices.astype(np.float64), triangles),
        threshold=concavity,
        max_convex_hull=max_parts,
        max_ch_vertex=64,
        decimate=True,
        seed=seed,
        mcts_iterations=max(int(150 * effort), 10),
        mcts_nodes=max(int(20 * effort), 10),
        mcts_max_depth=3 if effort > 0.5 else 2,
        resolution=max(int(2000 * effort), 500),
    )


def _hull_if_convex(vertices: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the hull of a mesh that fills it up to rounding, else None."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(vertices)
    except QhullError:  # flat
        return None
    a, b, c = np.moveaxis(vertices[triangles], 1, 0)
    volume = float(np.einsum("ij,ij->", a - vertices[0], np.cross(b - vertices[0], c - vertices[0]))) / 6.0
    if volume < (1.0 - _ROUNDING) * hull.volume:
        return None
    corners, faces = np.unique(hull.simplices, return_inverse=True)
    faces = faces.reshape(-1, 3)
    points = vertices[corners]
    first, second, third = np.moveaxis(points[faces], 1, 0)
    inwards = np.einsum("ij,ij->i", np.cross(second - first, third - first), hull.equations[:, :3]) < 0.0
    faces[inwards] = faces[inwards, ::-1]
    return points, faces
