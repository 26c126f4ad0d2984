"""Candidate instances for each tile of a picture, the nearest first.

A tile is a square of pixels. The planes through its edges bound its rays; boxes beyond one of them are culled
(Assarsson and Moeller, "Optimized view frustum culling algorithms for bounding boxes", 2000). Rays then test
the remaining ones instead of traversing the hierarchy of the scene.

Stage: ray casting, before the rays, culling
Called by: render/camera/caster.py, kernels/camera/pictures.py
Reads: CameraRays, TraceView, lower, mask, upper
Writes: TileView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.camera.rays import LENS_PINHOLE, CameraRays, ray_direction, ray_origin
from newtonsim.kernels.camera.scene import (
    CameraHit,
    TraceView,
    hit_of,
    is_endless,
    meet_body,
    meet_planes,
    trace,
)

# axes and edges are unrolled
wp.set_module_options({"enable_backward": False, "max_unroll": 4})

TILE = wp.constant(16)
# instances that a tile can list; rays of tiles with more use the hierarchy
CANDIDATES = wp.constant(12)
# pixels by which a tile is widened, against rounding
MARGIN = wp.constant(0.02)


@wp.struct
class TileView:
    """T tiles of each of N pictures."""

    columns: int  # tiles in a row
    rows: int
    count: wp.array(dtype=int)  # (N T) candidates, -1 for too many; or (0) for no tiles at all
    row: wp.array2d(dtype=int)  # (N T, CANDIDATES) rows of instances
    nearest: wp.array2d(dtype=float)  # (N T, CANDIDATES) least depth of their boxes [m], ascending
    span: wp.array2d(dtype=wp.vec4ub)  # (N T, CANDIDATES) first and last column and line of their boxes


@wp.func
def beyond_edge(
    camera: CameraRays, x0: float, y0: float, x1: float, y1: float, inner: wp.vec2, c: wp.vec3, h: wp.vec3
) -> bool:
    """Whether a box (middle c, half extents h) lies beyond the plane of the rays from (x0, y0) to (x1, y1).

    `inner` is a place in the picture on the side that is kept.
    """
    p = ray_origin(camera, x0, y0) + camera.near * ray_direction(camera, x0, y0)
    q = ray_origin(camera, x0, y0) + (camera.near + 1.0) * ray_direction(camera, x0, y0)
    r = ray_origin(camera, x1, y1) + (camera.near + 1.0) * ray_direction(camera, x1, y1)
    n = wp.cross(q - p, r - p)
    o = ray_origin(camera, inner[0], inner[1])
    kept = o + (camera.near + 1.0) * ray_direction(camera, inner[0], inner[1])
    if wp.dot(n, kept - p) < 0.0:
        n = -n
    return wp.dot(n, c - p) + wp.dot(wp.abs(n), h) < 0.0


@wp.func
def span_in_tile(
    camera: CameraRays, axis: wp.vec3, c: wp.vec3, h: wp.vec3, across: wp.vec2, corner: wp.vec2
) -> wp.vec4:
    """First and last column and line of a box (middle c, half extents h), in pixels of a tile.

    `across` is half the picture [pixels], `corner` the upper left one of the tile. The whole tile for boxes
    that extend to the camera, and for cameras other than plain perspective ones.
    """
    whole = wp.vec4(0.0, float(TILE), 0.0, float(TILE))
    dx = camera.direction_x
    dy = camera.direction_y
    skew = wp.abs(wp.dot(dx, dy)) + wp.length(camera.origin_x) + wp.length(camera.origin_y)
    if skew > 1.0e-6 * wp.length(dx) * wp.length(dy):
        return whole
    span = wp.vec4(wp.inf, -wp.inf, wp.inf, -wp.inf)
    # room for rounding of places far from the origin
    slack = 2.0e-6 * (wp.length(c) + wp.length(camera.origin))
    for k in range(8):
        side = wp.vec3(float(2 * (k & 1) - 1), float((k & 2) - 1), float((k & 4) // 2 - 1))
        q = c - camera.origin + wp.cw_mul(side, h + wp.vec3(slack, slack, slack))
        depth = wp.dot(axis, q)
        if depth <= camera.near + slack:
            return whole
        v = q / depth - camera.direction
        column = (1.0 + wp.dot(v, dx) / wp.length_sq(dx)) * across[0] - corner[0]
        line = (1.0 - wp.dot(v, dy) / wp.length_sq(dy)) * across[1] - corner[1]
        span[0] = wp.min(span[0], column)
        span[1] = wp.max(span[1], column)
        span[2] = wp.min(span[2], line)
        span[3] = wp.max(span[3], line)
    return span + MARGIN * wp.vec4(-1.0, 1.0, -1.0, 1.0)


@wp.func
def pack_span(span: wp.vec4) -> wp.vec4ub:
    """Whole pixels of a tile that a span touches."""
    packed = wp.vec4ub()
    for k in range(4):
        packed[k] = wp.uint8(wp.clamp(wp.floor(span[k]), 0.0, float(TILE - 1)))
    return packed


@wp.kernel
def list_candidates(
    scene: wp.array(dtype=TraceView),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
    cameras: wp.array(dtype=CameraRays),
    cameras_per_world: int,
    width: int,
    height: int,
    mask: wp.array(dtype=bool),
    tiles: wp.array(dtype=TileView),
):
    """One thread per tile of a picture: visible instances whose boxes extend into it, sorted by depth."""
    tile = wp.tid()
    area = tiles[0].columns * tiles[0].rows
    world = (tile // area) // cameras_per_world
    if not mask[world]:
        return
    camera = cameras[tile // area]
    column = float((tile % area) % tiles[0].columns) * float(TILE)
    line = float((tile % area) // tiles[0].columns) * float(TILE)
    left = 2.0 * (column - MARGIN) / float(width) - 1.0
    right = 2.0 * (column + float(TILE) + MARGIN) / float(width) - 1.0
    top = 1.0 - 2.0 * (line - MARGIN) / float(height)
    bottom = 1.0 - 2.0 * (line + float(TILE) + MARGIN) / float(height)
    inner = wp.vec2(0.5 * (left + right), 0.5 * (top + bottom))
    axis = wp.cross(camera.direction_x + camera.origin_x, camera.direction_y + camera.origin_y)
    axis = axis / wp.dot(axis, camera.direction)
    found = int(0)
    if camera.lens != LENS_PINHOLE:
        tiles[0].count[tile] = -1
        return
    for row in range(scene[0].start[world], scene[0].start[world + 1]):
        c = 0.5 * (lower[row] + upper[row])
        h = 0.5 * (upper[row] - lower[row])
        depth = wp.dot(axis, c - camera.origin)
        slack = wp.dot(wp.abs(axis), h) + 1.0e-5 * (wp.abs(depth) + wp.length(c) + wp.length(camera.origin))
        seen = scene[0].color[row][3] > 0.0 and not is_endless(scene[0].body[scene[0].item[row]])
        seen = seen and depth + slack >= camera.near and depth - slack <= camera.far
        seen = seen and not beyond_edge(camera, left, bottom, left, top, inner, c, h)
        seen = seen and not beyond_edge(camera, right, bottom, right, top, inner, c, h)
        seen = seen and not beyond_edge(camera, left, top, right, top, inner, c, h)
        seen = seen and not beyond_edge(camera, left, bottom, right, bottom, inner, c, h)
        span = wp.vec4()
        if seen:
            across = 0.5 * wp.vec2(float(width), float(height))
            span = span_in_tile(camera, axis, c, h, across, wp.vec2(column, line))
            seen = span[0] < float(TILE) and span[1] >= 0.0 and span[2] < float(TILE) and span[3] >= 0.0
        if seen and found >= CANDIDATES:
            tiles[0].count[tile] = -1
            return
        if seen:
            k = int(found)
            while k > 0 and tiles[0].nearest[tile, k - 1] > depth - slack:
                tiles[0].nearest[tile, k] = tiles[0].nearest[tile, k - 1]
                tiles[0].row[tile, k] = tiles[0].row[tile, k - 1]
                tiles[0].span[tile, k] = tiles[0].span[tile, k - 1]
                k -= 1
            tiles[0].nearest[tile, k] = depth - slack
            tiles[0].row[tile, k] = row
            tiles[0].span[tile, k] = pack_span(span)
            found += 1
    tiles[0].count[tile] = found


@wp.func
def is_bare(scene: wp.array(dtype=TraceView), tiles: wp.array(dtype=TileView), tile: int, world: int) -> bool:
    """Whether no ray of a tile can hit anything."""
    if tiles[0].count.shape[0] == 0:
        return False
    if scene[0].elements.shape[0] > 0 or scene[0].plane_start[world] < scene[0].plane_start[world + 1]:
        return False
    return tiles[0].count[tile] == 0


@wp.func
def trace_in_tile(
    scene: wp.array(dtype=TraceView),
    tiles: wp.array(dtype=TileView),
    tile: int,
    pixel: int,
    world: int,
    origin: wp.vec3,
    direction: wp.vec3,
    passed: float,
    reach: float,
) -> CameraHit:
    """Nearest visible point on a ray of a pixel of a tile, nearer than `reach`.

    The ray begins at depth `passed`.
    """
    count = int(-1)
    if tiles[0].count.shape[0] > 0:
        count = tiles[0].count[tile]
    if count < 0:
        return trace(scene, world, origin, direction, reach)
    best_row, best = meet_planes(scene, world, origin, direction, reach, False)
    best_triangle = int(-1)
    best_u = float(0.0)
    best_v = float(0.0)
    column = pixel % TILE
    line = pixel // TILE
    for k in range(count):
        if tiles[0].nearest[tile, k] > passed + best:
            break
        span = tiles[0].span[tile, k]
        inside = column >= int(span[0]) and column <= int(span[1])
        if inside and line >= int(span[2]) and line <= int(span[3]):
            row = tiles[0].row[tile, k]
            i = scene[0].item[row]
            t, triangle, u, v = meet_body(
                scene[0].body[i], scene[0].frame[row], origin, direction, best, False
            )
            if t < best:
                best = t
                best_row = row
                best_triangle = triangle
                best_u = u
                best_v = v
    return hit_of(best_row, best, best_triangle, best_u, best_v)
