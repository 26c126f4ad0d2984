"""Meshes that scripts load by name, each shaped by us within the measured extents of the original."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from solids import Piece, blob, box, ellipsoid, grid, hull, lathe, moved, sphere, torus, welded


def duck(rows: int, columns: int) -> list[Piece]:
    """Return a bath duck, y up, looking along -x."""
    return [
        ellipsoid((0.15, 0.45, 0), (0.8, 0.45, 0.55), rows, columns),
        ellipsoid((-0.35, 1.15, 0), (0.4, 0.42, 0.38), rows, columns),
        ellipsoid((-0.8, 1.1, 0), (0.22, 0.07, 0.2), rows, columns),
        ellipsoid((0.75, 0.75, 0), (0.3, 0.14, 0.2), rows, columns),
    ]


def teddy(rows: int, columns: int) -> list[Piece]:
    """Return a sitting bear, y up, looking along z."""
    pieces = [
        ((0, 0.35, 0), (0.3, 0.36, 0.26)),
        ((0, 0.85, 0.02), (0.27, 0.25, 0.24)),
        ((0, 0.8, 0.24), (0.1, 0.08, 0.1)),
    ]
    for side in (-1, 1):
        pieces += [
            ((0.2 * side, 1.06, 0), (0.1, 0.1, 0.05)),
            ((0.34 * side, 0.48, 0.1), (0.16, 0.1, 0.12)),
            ((0.22 * side, 0.08, 0.28), (0.13, 0.12, 0.24)),
        ]
    return [ellipsoid(center, radii, rows, columns) for center, radii in pieces]


def bunny() -> list[Piece]:
    """Return a rabbit as one closed surface that a soft body can be made of."""
    balls = [((0, 0, 0), (0.42, 0.45, 0.6)), ((0, 0.35, 0.5), (0.3, 0.3, 0.35))]
    balls += [((0.12 * s, 0.6, 0.42), (0.1, 0.4, 0.14)) for s in (-1, 1)]
    balls += [((0.2 * s, -0.4, 0.35), (0.16, 0.2, 0.35)) for s in (-1, 1)] + [
        ((0, 0, -0.62), (0.2, 0.2, 0.2))
    ]
    return [welded(blob(balls, 17, 29))]


def stone() -> list[Piece]:
    """Return a worn block: a convex polyhedron."""
    random = np.random.default_rng(7)
    points = random.normal(size=(24, 3))
    points = np.sign(points) * np.abs(points / np.linalg.norm(points, axis=1, keepdims=True)) ** 0.6
    return [hull(points)]


def pebble(seed: int) -> list[Piece]:
    """Return a smooth lump of a random shape."""
    random = np.random.default_rng(seed)
    lumps = [((0, 0, 0), tuple(random.uniform(1.0, 2.0, 3)))]
    for _ in range(random.integers(2, 6)):
        direction = random.normal(size=3)
        direction /= np.linalg.norm(direction)
        lumps.append((tuple(direction * random.uniform(0.8, 1.6)), tuple(random.uniform(1.0, 1.8, 3))))
    lumps = [(c, r) for c, r in lumps if (np.square(c) / np.square(r)).sum() < 1] or lumps[:1]
    return [welded(blob(lumps, 7, 11))]


def studded() -> list[Piece]:
    """Return a brick with four studs, y up."""
    studs = [
        moved(lathe([(0, 0), (0.055, 0), (0.055, 0.03), (0, 0.03)], 17, 1), 1, (x, 0.2, z))
        for x in (0.08, 0.24)
        for z in (-0.08, -0.24)
    ]
    return [box((0, 0, -0.3175), (0.317, 0.2, 0)), *studs]


def tray(walls: float = 0.03) -> list[Piece]:
    """Return a square tray with walls leaning outwards, z up: a floor and four walls, each convex."""
    low, high, floor, top = 0.42, 0.59, -0.01, 0.26
    pieces = [box((-low, -low, floor), (low, low, 0.012))]
    for turn in range(4):
        cosine, sine = np.round(np.cos(turn * np.pi / 2)), np.round(np.sin(turn * np.pi / 2))
        outline = [(low - walls, floor), (low, floor), (high, top), (high - walls, top)]
        reach = [low, low, high, high]
        points = [(x, y * r, z) for (x, z), r in zip(outline, reach, strict=True) for y in (-1, 1)]
        points = np.array([(cosine * x - sine * y, sine * x + cosine * y, z) for x, y, z in points])
        pieces.append(hull(points))
    return pieces


def mug(segments: int) -> list[Piece]:
    """Return a mug with its handle along y."""
    profile = [(0, 0), (0.038, 0), (0.041, 0.004), (0.041, 0.1), (0.037, 0.1), (0.037, 0.006), (0, 0.006)]
    handle = moved(torus(0.025, 0.005, 9, segments), (1, 0.72, 1.2), (0, 0.059, 0.05), (1, 0, 2))
    return [lathe(profile, segments), handle]


def temple() -> list[Piece]:
    """Return a yard with a wall, a gate, a pagoda and lamps, y up; the middle of the yard is free."""
    pieces = [box((-69, -0.02, -61), (54, -0.019, 59))]
    for x0, x1, z0, z1 in ((-40, -38, -40, 40), (38, 40, -40, 40), (-40, 40, -40, -38)):
        pieces.append(box((x0, 0, z0), (x1, 4, z1)))
        pieces.append(box((x0 - 0.6, 4, z0 - 0.6), (x1 + 0.6, 4.6, z1 + 0.6)))
    pieces += [box((-40, 0, 38), (-8, 4, 40)), box((8, 0, 38), (40, 4, 40))]
    pieces += [box((s * 8 - 0.7, 0, 38), (s * 8 + 0.7, 9, 40)) for s in (-1, 1)] + [
        box((-11, 9, 37.6), (11, 10, 40.4))
    ]
    for story in range(4):
        half, base = 9 - 1.5 * story, 1.2 + 6.5 * story
        pieces.append(box((-half, base, -27 - half), (half, base + 4.2, -27 + half)))
        corners = [
            (x * s, base + 4.2 + h, -27 + z * s)
            for s, h in ((half + 2.5, 0.0), (half + 2.5, 0.4), (half - 1.6, 2.3))
            for x in (-1, 1)
            for z in (-1, 1)
        ]
        pieces.append(hull(np.array(corners, float)))
    pieces += [
        box((-12, 0, -39), (12, 1.2, -15)),
        moved(lathe([(0.4, 0), (0.2, 3), (0, 3.2)], 9, 1), 1, (0, 27, -27)),
    ]
    for x in (-24, 24):
        for z in (-12, 12):
            pieces += [
                box((x - 0.5, 0, z - 0.5), (x + 0.5, 2, z + 0.5)),
                box((x - 1, 2, z - 1), (x + 1, 3.2, z + 1)),
            ]
    return pieces


def framed(hole: float) -> list[Piece]:
    """Return a plate with a square hole, of four bars."""
    bars = [
        ((-1, -1), (1, -hole)),
        ((-1, hole), (1, 1)),
        ((-1, -hole), (-hole, hole)),
        ((hole, -hole), (1, hole)),
    ]
    return [box((*low, -0.1), (*high, 0.1)) for low, high in bars]


def ring(inner: tuple[float, float], outer: tuple[float, float]) -> list[Piece]:
    """Return a flat frame in the plane z = 0."""
    (a, b), (c, d) = inner, outer
    bars = [((-c, -d), (c, -b)), ((-c, b), (c, d)), ((-c, -b), (-a, b)), ((a, -b), (c, b))]
    return [grid(low, high, (2, 2)) for low, high in bars]


def plane(tiles: float) -> list[Piece]:
    """Return a square whose texture repeats."""
    piece = grid((-1, -1), (1, 1), (2, 2))
    piece.uv = piece.uv * tiles
    return [piece]


def cloth() -> list[Piece]:
    """Return a 5 x 5 sheet; vertices 15, 19, 20 and 24 are its corners, where scripts put anchors."""
    piece = grid((-1, -1), (1, 1), (5, 5))
    corners = {15: 24, 19: 20, 20: 0, 24: 4}
    rest = iter([k for k in range(25) if k not in corners.values()])
    order = np.array([corners[k] if k in corners else next(rest) for k in range(25)])
    piece.faces = np.argsort(order)[piece.faces]
    piece.vertices, piece.uv = piece.vertices[order], piece.uv[order]
    return [piece]


def hills() -> list[Piece]:
    """Return wavy ground."""
    return [grid((-15, -15), (14, 14), (30, 30), lambda x, y: np.sin(0.9 * x) * np.cos(0.7 * y + 0.3 * x))]


def cube(texture: bool = True) -> list[Piece]:
    """Return a cube."""
    return [box((-1, -1, -1), (1, 1, 1))]


def disc() -> list[Piece]:
    """Return a disc."""
    return [lathe([(0, -1), (1, -1), (1, 1), (0, 1)])]


NAMED: dict[str, tuple[Callable[[], list[Piece]], str]] = {
    "plane.obj": (lambda: plane(15), "checker_blue.png"),
    "plane100.obj": (lambda: plane(100), "checker_blue.png"),
    "plane_transparent.obj": (lambda: plane(15), "checker_blue.png"),
    "cube.obj": (cube, "cube.png"),
    "duck.obj": (lambda: duck(11, 17), "duckCM.png"),
    "duck_vhacd.obj": (lambda: [hull(part.vertices) for part in duck(7, 11)], ""),
    "sphere_smooth.obj": (lambda: [moved(sphere(13, 25), 1, 0, (1, 2, 0))], ""),
    "textured_sphere_smooth.obj": (lambda: [moved(sphere(13, 25), 1, 0, (1, 2, 0))], "uvmap.png"),
    "stone.obj": (stone, ""),
    "soccerball.obj": (lambda: [sphere(13, 25)], "soccerball.png"),
    "teddy2_VHACD_CHs.obj": (lambda: [hull(part.vertices) for part in teddy(7, 11)], ""),
    "terrain.obj": (hills, ""),
    "samurai_monastry.obj": (temple, ""),
    "cloth_z_up.obj": (cloth, "uvmap.png"),
    "bunny.obj": (bunny, ""),
    "torus/torus_textured.obj": (lambda: [torus(0.5, 0.25, 13, 29)], "../uvmap.png"),
    "domino/domino.obj": (cube, "domino.png"),
    "jenga/jenga.obj": (cube, "jenga.png"),
    "lego/lego.obj": (studded, ""),
    "table/table.obj": (cube, "table.png"),
    "table_square/table.obj": (cube, "checker_grid.jpg"),
    "tray/tray_textured.obj": (tray, "tray.jpg"),
    "tray/tray_textured2.obj": (tray, "tray.jpg"),
    "tray/tray_textured4.obj": (tray, "tray.jpg"),
    "objects/mug.obj": (lambda: mug(17), ""),
    "objects/mug_col.obj": (lambda: mug(13), ""),
    "urdf/mug.obj": (lambda: mug(17), ""),
    "urdf/mug_col.obj": (lambda: mug(13), ""),
    "toys/concave_box.obj": (lambda: framed(0.5), ""),
    "toys/cube.obj": (cube, ""),
    "toys/cylinder.obj": (lambda: [lathe([(0, -1), (1, -1), (1, 1), (0, 1)], 33, 0)], ""),
    "toys/prism.obj": (
        lambda: [hull(np.array([(x, y, z) for y, z in ((-1, -1), (1, -1), (0, 1)) for x in (-1, 1)]))],
        "",
    ),
    "toys/shape_sorter.obj": (lambda: framed(0.4), ""),
    "quadruped/tmotor3.obj": (disc, ""),
    "roboschool/models_outdoor/stadium/part0.obj": (lambda: ring((0.985, 0.975), (1, 1)), ""),
    "roboschool/models_outdoor/stadium/part1.obj": (lambda: plane(20), ""),
    "roboschool/models_outdoor/stadium/part2.obj": (lambda: ring((0.913, 0.865), (1, 1)), ""),
}
"""File name: (makes the pieces, its texture)."""
