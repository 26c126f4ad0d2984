"""Small meshes: pieces made of vertices and faces, and OBJ and VTK files of them."""

# ruff: noqa: TID253

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull


@dataclass
class Piece:
    """A surface: vertices (n, 3), faces (m, 3), texture coordinates (n, 2) or None, smooth normals or not."""

    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray | None = None
    smooth: bool = True


def _grid_faces(rows: int, columns: int) -> np.ndarray:
    """Return triangles of a grid of rows x columns vertices."""
    first = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    quads = np.stack([first, first + 1, first + columns + 1, first + columns], 1)
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def sphere(rows: int = 17, columns: int = 33, power: float = 2.0) -> Piece:
    """Return |x|^p + |y|^p + |z|^p = 1, a sphere for p = 2 and nearly a cube for a high power, with uv."""
    polar, turn = np.meshgrid(np.linspace(0, np.pi, rows), np.linspace(0, 2 * np.pi, columns), indexing="ij")
    points = np.stack([np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], -1)
    points /= (np.abs(points) ** power).sum(-1, keepdims=True) ** (1 / power)
    uv = np.stack([turn / (2 * np.pi), 1 - polar / np.pi], -1)
    return Piece(points.reshape(-1, 3), _grid_faces(rows, columns)[:, ::-1], uv.reshape(-1, 2))


def ellipsoid(center: tuple, radii: tuple, rows: int = 11, columns: int = 17) -> Piece:
    """Return an ellipsoid with half axes radii."""
    piece = sphere(rows, columns)
    piece.vertices = piece.vertices * np.array(radii) + np.array(center)
    return piece


def hull(points: np.ndarray) -> Piece:
    """Return the convex hull of points (n, 3) with faces outwards."""
    shape = ConvexHull(points)
    used = np.unique(shape.simplices)
    place = np.zeros(len(points), int)
    place[used] = np.arange(len(used))
    vertices, faces = points[used], place[shape.simplices]
    corner = vertices[faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    inwards = (normal * (corner.mean(1) - vertices.mean(0))).sum(1) < 0
    faces[inwards] = faces[inwards][:, ::-1]
    return Piece(vertices, faces, None, False)


def box(low: tuple, high: tuple) -> Piece:
    """Return a box with flat faces, the whole texture on each."""
    unit = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)
    vertices, faces, uv = [], [], []
    for axis in range(3):
        for side in (0.0, 1.0):
            corner = np.empty((4, 3))
            corner[:, axis] = side
            corner[:, (axis + 1) % 3], corner[:, (axis + 2) % 3] = unit[:, 0], unit[:, 1]
            order = [[0, 1, 2], [0, 2, 3]] if side else [[0, 2, 1], [0, 3, 2]]
            faces += [[4 * len(vertices) + k for k in triangle] for triangle in order]
            vertices.append(corner)
            uv.append(unit)
    points = np.array(low) + np.concatenate(vertices) * (np.array(high) - np.array(low))
    return Piece(points, np.array(faces), np.concatenate(uv), False)


def lathe(profile: list[tuple[float, float]], columns: int = 33, axis: int = 2) -> Piece:
    """Return the surface that (radius, height) pairs sweep about an axis."""
    turn = np.linspace(0, 2 * np.pi, columns)
    radius, height = np.array(profile, float).T
    points = np.empty((len(profile), columns, 3))
    points[..., (axis + 1) % 3] = radius[:, None] * np.cos(turn)
    points[..., (axis + 2) % 3] = radius[:, None] * np.sin(turn)
    points[..., axis] = height[:, None]
    u, v = np.meshgrid(turn / (2 * np.pi), np.linspace(0, 1, len(profile)))
    uv = np.stack([u, v], -1)
    return Piece(points.reshape(-1, 3), _grid_faces(len(profile), columns), uv.reshape(-1, 2), False)


def torus(major: float, minor: float, rows: int = 17, columns: int = 33) -> Piece:
    """Return a torus about y."""
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, columns), np.linspace(0, 2 * np.pi, rows))
    radius = major + minor * np.cos(v)
    points = np.stack([radius * np.sin(u), minor * np.sin(v), radius * np.cos(u)], -1)
    uv = np.stack([u, v], -1) / (2 * np.pi)
    return Piece(points.reshape(-1, 3), _grid_faces(rows, columns), uv.reshape(-1, 2))


def blob(balls: list[tuple[tuple, tuple]], rows: int, columns: int) -> Piece:
    """Return the surface seen from the origin of a union of ellipsoids (center, radii) about it."""
    piece = sphere(rows, columns)
    reach = np.zeros(len(piece.vertices))
    for center, radii in balls:
        direction, middle = piece.vertices / np.array(radii), np.array(center) / np.array(radii)
        a, b, c = (direction**2).sum(1), direction @ middle, middle @ middle - 1
        root = np.maximum(b * b - a * c, 0)
        reach = np.maximum(reach, np.where(b * b > a * c, (b + np.sqrt(root)) / a, 0))
    piece.vertices = piece.vertices * reach[:, None]
    return piece


def welded(piece: Piece) -> Piece:
    """Return a closed surface where each point is one vertex and no triangle is degenerate."""
    _, first, place = np.unique(np.round(piece.vertices, 7), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    faces = rank[place.ravel()][piece.faces]
    good = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return Piece(piece.vertices[first[order]], faces[good], None, piece.smooth)


def grid(low: tuple, high: tuple, counts: tuple[int, int], height: object = None) -> Piece:
    """Return a flat or wavy sheet in x and y; height(x, y) gives z."""
    x, y = np.meshgrid(np.linspace(low[0], high[0], counts[0]), np.linspace(low[1], high[1], counts[1]))
    z = np.zeros_like(x) if height is None else height(x, y)
    uv = np.stack(np.meshgrid(np.linspace(0, 1, counts[0]), np.linspace(0, 1, counts[1])), -1)
    return Piece(np.stack([x, y, z], -1).reshape(-1, 3), _grid_faces(counts[1], counts[0]), uv.reshape(-1, 2))


def moved(piece: Piece, scale: object = 1.0, offset: object = 0.0, axes: tuple = (0, 1, 2)) -> Piece:
    """Return a piece with its axes permuted, then scaled, then moved."""
    points = piece.vertices[:, list(axes)] * np.array(scale) + np.array(offset)
    odd = np.linalg.det(np.eye(3)[list(axes)] * np.broadcast_to(scale, 3)) < 0
    return Piece(points, piece.faces[:, ::-1] if odd else piece.faces, piece.uv, piece.smooth)


def fitted(pieces: list[Piece], low: np.ndarray, high: np.ndarray) -> list[Piece]:
    """Return the pieces stretched to fill the box from low to high."""
    points = np.concatenate([piece.vertices for piece in pieces])
    least, size = points.min(0), np.ptp(points, axis=0)
    scale = np.where(size > 0, (high - low) / np.where(size > 0, size, 1), 1.0)
    return [moved(piece, scale, low - least * scale) for piece in pieces]


def _normals(piece: Piece) -> np.ndarray:
    corner = piece.vertices[piece.faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    if not piece.smooth:
        return normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    key = np.unique(np.round(piece.vertices, 6), axis=0, return_inverse=True)[1].ravel()
    total = np.zeros((key.max() + 1, 3))
    for k in range(3):
        np.add.at(total, key[piece.faces[:, k]], normal)
    total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return total[key]


def _text(value: float) -> str:
    return f"{value:.5g}" if abs(value) > 5e-6 else "0"


def obj(pieces: list[Piece], comment: str, material: str = "", normals: bool = True) -> str:
    """Return an OBJ text with one group for each piece.

    Args:
        pieces: The parts.
        comment: First line.
        material: File of the material library, "" for none.
        normals: Whether to write normals and texture coordinates.
    """
    lines = [f"# {comment}"] + ([f"mtllib {material}", "usemtl material0"] if material else [])
    count = np.ones(3, int)
    for index, piece in enumerate(pieces):
        lines.append(f"o part{index}")
        lines += ["v " + " ".join(map(_text, vertex)) for vertex in piece.vertices]
        uv = piece.uv if normals else None
        if uv is not None:
            lines += ["vt " + " ".join(map(_text, point)) for point in uv]
        vectors = _normals(piece) if normals else np.zeros((0, 3))
        lines += [f"vn {x:.3g} {y:.3g} {z:.3g}" for x, y, z in np.round(vectors, 3) + 0.0]
        for number, face in enumerate(piece.faces):
            corners = []
            for vertex in face:
                text = str(vertex + count[0])
                if normals:
                    normal = (vertex if piece.smooth else number) + count[2]
                    text += f"/{vertex + count[1] if uv is not None else ''}/{normal}"
                corners.append(text)
            lines.append("f " + " ".join(corners))
        count += [len(piece.vertices), 0 if uv is None else len(uv), len(vectors)]
    return "\n".join([*lines, ""])


def mtl(comment: str, image: str = "", colour: tuple = (1.0, 1.0, 1.0), alpha: float = 1.0) -> str:
    """Return a material library with one material."""
    lines = [f"# {comment}", "newmtl material0", "Ka 0.5 0.5 0.5", "Kd " + " ".join(map(_text, colour))]
    lines += ["Ks 0 0 0", f"d {alpha:g}"] + ([f"map_Kd {image}"] if image else [])
    return "\n".join([*lines, ""])


_KUHN = np.array([[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]])
"""Six tetrahedra of a cube about one diagonal (Kuhn 1960); bits 0, 1, 2 of a corner are its x, y, z."""


def block(counts: tuple[int, int, int], closed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices in 0..1 (n, 3) and tetrahedra (m, 4) of a brick of cubes.

    Args:
        counts: Number of cubes along x, y and z.
        closed: Whether the last slice along x is the first one (a ring).
    """
    nx, ny, nz = counts
    slices = nx if closed else nx + 1
    index = np.arange(slices * (ny + 1) * (nz + 1)).reshape(slices, ny + 1, nz + 1)
    vertices = np.stack(np.indices(index.shape), -1).reshape(-1, 3) / np.array(counts)
    cells = []
    for i, j, k in np.ndindex(counts):
        corners = [index[(i + (c & 1)) % slices, j + (c >> 1 & 1), k + (c >> 2)] for c in range(8)]
        cells.append(np.array(corners)[_KUHN])
    return vertices, np.concatenate(cells)


def vtk(vertices: np.ndarray, tetrahedra: np.ndarray, comment: str) -> str:
    """Return a legacy VTK file of an unstructured grid of tetrahedra, each with positive volume."""
    corner = vertices[tetrahedra]
    volume = np.einsum(
        "ij,ij->i",
        np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]),
        corner[:, 3] - corner[:, 0],
    )
    cells = np.where(volume[:, None] < 0, tetrahedra[:, [0, 2, 1, 3]], tetrahedra)
    lines = ["# vtk DataFile Version 2.0", comment, "ASCII", "DATASET UNSTRUCTURED_GRID"]
    lines.append(f"POINTS {len(vertices)} double")
    lines += [" ".join(map(_text, vertex)) for vertex in vertices]
    lines.append(f"CELLS {len(cells)} {5 * len(cells)}")
    lines += ["4 " + " ".join(map(str, cell)) for cell in cells]
    lines += [f"CELL_TYPES {len(cells)}", *["10"] * len(cells)]
    return "\n".join([*lines, ""])
