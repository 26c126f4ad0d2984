"""Pictures by ray casting: colour, depth and segmentation, with a directional light and hard shadows.

Shading is Phong's ("Illumination for computer generated pictures", 1975): ambient light, Lambert's cosine and
a highlight by a power of the cosine between the reflected light and the viewer, who may be at infinity, as in
fixed-function graphics. Shadows follow Whitted ("An improved illumination model for shaded display", 1980): a
point that does not see the light gets a part of it only. See-through surfaces are blended front to back
(Porter and Duff, "Compositing digital images", 1984).
"""

import warp as wp

from newtonsim.kernels.camera_scene import (
    Body,
    CameraHit,
    CornerView,
    Frame,
    Look,
    TraceView,
    is_lit,
    normal_at,
)
from newtonsim.kernels.camera_tiles import (
    TILE,
    CameraRays,
    TileView,
    ray_direction,
    ray_origin,
    trace_in_tile,
)
from newtonsim.kernels.shapes import GEO_BOX, GEO_MESH, GEO_PLANE

# channels and axes are unrolled, layers are not
wp.set_module_options({"enable_backward": False, "max_unroll": 4})

# see-through surfaces in a row that are blended
MAX_LAYERS = wp.constant(8)
# distance of the start of a shadow ray from its surface, as a part of the distance to the camera
LIFT = wp.constant(1.0e-4)
OPAQUE = wp.constant(0.999)


@wp.struct
class Light:
    """How a scene is lit."""

    direction: wp.vec3  # unit, towards the light
    color: wp.vec3  # of the directional light
    ambient: float
    diffuse: float
    specular: float
    shininess: float  # power of the highlight's cosine
    viewer: wp.vec3  # unit, towards a viewer at infinity for highlights; zero for the camera's place
    shadow: int  # 1 for shadows
    shadowed: float  # part of the directional light that reaches points in shadow
    transparency: int  # 1 for blending by alpha, 0 if all that is visible is opaque
    background: wp.vec4  # RGBA, 0..1
    empty_label: int  # segmentation where nothing is seen


@wp.struct
class TextureView:
    """T textures."""

    start: wp.array(dtype=int)  # (T) first texel
    width: wp.array(dtype=int)  # (T)
    height: wp.array(dtype=int)  # (T)
    texel: wp.array(dtype=wp.uint32)  # RGBA in bytes, rows from the top
    smooth: int  # 1 for bilinear interpolation, 0 for the nearest texel


@wp.struct
class PictureView:
    """N = W C pictures: those of C cameras in each of W worlds."""

    cameras: int  # C
    width: int
    height: int
    offset: wp.vec2  # of the sample in a pixel, from its upper left corner, 0..1
    color: wp.array(dtype=wp.uint32)  # (N height width) RGBA in bytes, rows from the top
    depth: wp.array(dtype=float)  # likewise
    label: wp.array(dtype=int)  # likewise


@wp.func
def repeat(k: int, count: int) -> int:
    """Place of a texel that may lie beyond the edges, where textures are repeated."""
    return ((k % count) + count) % count


@wp.func
def unpack_color(packed: wp.uint32) -> wp.vec4:
    """RGBA in 0..1 of four bytes."""
    color = wp.vec4()
    for k in range(4):
        color[k] = float((packed >> wp.uint32(8 * k)) & wp.uint32(255)) / 255.0
    return color


@wp.func
def sample_texture(textures: TextureView, k: int, uv: wp.vec2) -> wp.vec4:
    """Colour of a texture, v pointing up."""
    w = textures.width[k]
    h = textures.height[k]
    start = textures.start[k]
    x = (uv[0] - wp.floor(uv[0])) * float(w)
    y = (1.0 - (uv[1] - wp.floor(uv[1]))) * float(h)
    if textures.smooth == 0:
        nearest = repeat(int(wp.floor(y)), h) * w + repeat(int(wp.floor(x)), w)
        return unpack_color(textures.texel[start + nearest])
    x -= 0.5
    y -= 0.5
    left = repeat(int(wp.floor(x)), w)
    right = repeat(left + 1, w)
    upper = start + repeat(int(wp.floor(y)), h) * w
    lower = start + repeat(int(wp.floor(y)) + 1, h) * w
    a = x - wp.floor(x)
    b = y - wp.floor(y)
    above = (1.0 - a) * unpack_color(textures.texel[upper + left]) + a * unpack_color(
        textures.texel[upper + right]
    )
    below = (1.0 - a) * unpack_color(textures.texel[lower + left]) + a * unpack_color(
        textures.texel[lower + right]
    )
    return (1.0 - b) * above + b * below


@wp.func
def primitive_uv(kind: int, size: wp.vec3, p: wp.vec3, n: wp.vec3) -> wp.vec2:
    """Texture coordinates: on each face of a box, in sizes of a plane, of others as seen along the axis."""
    if kind == GEO_PLANE:
        return wp.vec2(p[0] / size[0], -p[2] / size[2])
    if kind == GEO_BOX:
        q = wp.cw_div(p, size)
        if wp.abs(n[0]) > 0.5:
            return wp.vec2(0.5 - 0.5 * n[0] * q[2], 0.5 + 0.5 * q[1])
        if wp.abs(n[1]) > 0.5:
            return wp.vec2(0.5 + 0.5 * q[0], 0.5 - 0.5 * n[1] * q[2])
        return wp.vec2(0.5 + 0.5 * n[2] * q[0], 0.5 + 0.5 * q[1])
    r = wp.max(size[0], 1.0e-12)
    return wp.vec2(0.5 + 0.5 * p[0] / r, 0.5 - 0.5 * p[2] / r)


@wp.struct
class SurfacePoint:
    """What shading asks of a point."""

    normal: wp.vec3  # world, unit, smooth
    face_normal: wp.vec3  # world, unit, of the surface as it is; both look towards the camera
    uv: wp.vec2


@wp.func
def corner_normal(corners: CornerView, first: int, hit: CameraHit) -> wp.vec3:
    """Smooth normal in the triangle whose corners begin at `first`, not normalised."""
    n = hit.u * corners.normal[first] + hit.v * corners.normal[first + 1]
    return n + (1.0 - hit.u - hit.v) * corners.normal[first + 2]


@wp.func
def corner_uv(corners: CornerView, first: int, hit: CameraHit) -> wp.vec2:
    """Texture coordinates in the triangle whose corners begin at `first`."""
    uv = hit.u * corners.uv[first] + hit.v * corners.uv[first + 1]
    return uv + (1.0 - hit.u - hit.v) * corners.uv[first + 2]


@wp.func
def describe_hit(
    body: Body,
    look: Look,
    frame: Frame,
    corners: CornerView,
    hit: CameraHit,
    origin: wp.vec3,
    direction: wp.vec3,
) -> SurfacePoint:
    """Normals and texture coordinates of a hit."""
    point = SurfacePoint()
    o = frame.to_local * (origin - frame.origin)
    d = frame.to_local * direction
    face_normal = normal_at(body, hit.triangle, o, d, body.double_sided != 0)
    normal = face_normal
    if body.kind == GEO_MESH:
        first = 3 * (look.first_triangle + hit.triangle)
        smooth = corner_normal(corners, first, hit)
        if wp.length_sq(smooth) > 1.0e-12:
            normal = smooth
        if look.texture >= 0:
            point.uv = corner_uv(corners, first, hit)
    elif look.texture >= 0:
        point.uv = primitive_uv(body.kind, body.size, o + hit.t * d, face_normal)
    to_world = wp.transpose(frame.to_local)
    point.normal = wp.normalize(to_world * normal)
    point.face_normal = wp.normalize(to_world * face_normal)
    if wp.dot(point.face_normal, direction) > 0.0:
        point.face_normal = -point.face_normal
        point.normal = -point.normal
    return point


@wp.func
def shade(
    scene: TraceView,
    light: Light,
    world: int,
    point: SurfacePoint,
    specular: wp.vec3,
    position: wp.vec3,
    direction: wp.vec3,
    distance: float,
) -> wp.vec3:
    """Part of its colour that a surface point sends back."""
    towards = light.direction
    facing = wp.dot(point.normal, towards)
    viewer = light.viewer
    if wp.length_sq(viewer) == 0.0:
        viewer = -wp.normalize(direction)
    mirrored = wp.dot(2.0 * facing * point.normal - towards, viewer)
    matt = light.diffuse * wp.max(facing, 0.0)
    shine = float(0.0)
    if mirrored > 0.0:
        shine = light.specular * wp.pow(mirrored, light.shininess)
    if light.shadow == 1 and matt + shine > 0.0:
        dark = bool(wp.dot(point.face_normal, towards) <= 0.0)
        if not dark:
            start = position + (LIFT * distance) * point.face_normal
            dark = not is_lit(scene, world, start, towards)
        if dark:
            matt *= light.shadowed
            shine *= light.shadowed
    sent = wp.vec3(light.ambient, light.ambient, light.ambient)
    return sent + wp.cw_mul(light.color, wp.vec3(matt, matt, matt) + shine * specular)


@wp.func
def pack_color(color: wp.vec4) -> wp.uint32:
    """RGBA of 0..1 in bytes, rounded down, red first in memory."""
    packed = wp.uint32(0)
    for k in range(4):
        byte = wp.uint32(wp.clamp(color[k], 0.0, 1.0) * 255.0 + 1.0e-3)
        packed = packed | (byte << wp.uint32(8 * k))
    return packed


@wp.kernel
def render_pixels(
    scene: TraceView,
    looks: wp.array(dtype=Look),
    corners: CornerView,
    textures: TextureView,
    cameras: wp.array(dtype=CameraRays),
    lights: wp.array(dtype=Light),
    tiles: TileView,
    first_tile: int,
    picture: PictureView,
):
    """One thread per pixel of a tile, tile by tile from first_tile on: what is seen there."""
    thread = wp.tid()
    tile = first_tile + thread // (TILE * TILE)
    place = thread % (TILE * TILE)
    area = tiles.rows * tiles.columns
    column = (tile % tiles.columns) * TILE + place % TILE
    line = ((tile % area) // tiles.columns) * TILE + place // TILE
    if column >= picture.width or line >= picture.height:
        return
    k = ((tile // area) * picture.height + line) * picture.width + column
    camera = cameras[tile // area]
    world = (tile // area) // picture.cameras
    light = lights[0]
    x = 2.0 * (float(column) + picture.offset[0]) / float(picture.width) - 1.0
    y = 1.0 - 2.0 * (float(line) + picture.offset[1]) / float(picture.height)
    origin = ray_origin(camera, x, y)
    direction = ray_direction(camera, x, y)
    total = wp.vec3()
    left = float(1.0)
    depth = float(camera.empty_depth)
    label = int(light.empty_label)
    t = float(camera.near)
    for layer in range(MAX_LAYERS):
        start = origin + t * direction
        hit = trace_in_tile(scene, tiles, tile, world, start, direction, t, camera.far - t)
        if hit.row < 0:
            break
        t += hit.t
        i = hit.row % scene.count
        look = looks[i]
        if layer == 0:
            c = camera.depth
            depth = (c[0] + c[1] * t) / (c[2] + c[3] * t)
            label = look.label
        point = describe_hit(scene.body[i], look, scene.frame[hit.row], corners, hit, start, direction)
        color = scene.color[hit.row]
        if look.texture >= 0:
            color = wp.cw_mul(color, sample_texture(textures, look.texture, point.uv))
        position = start + hit.t * direction
        distance = t * wp.length(direction)
        sent = shade(scene, light, world, point, look.specular, position, direction, distance)
        alpha = float(1.0)
        if light.transparency == 1:
            alpha = wp.clamp(color[3], 0.0, 1.0)
        total += (left * alpha) * wp.cw_mul(wp.vec3(color[0], color[1], color[2]), sent)
        left *= 1.0 - alpha
        if left < 1.0 - OPAQUE:
            left = float(0.0)
            break
        t += LIFT * t
    ground = light.background
    total += left * wp.vec3(ground[0], ground[1], ground[2])
    cover = 1.0 - left * (1.0 - ground[3])
    picture.color[k] = pack_color(wp.vec4(total[0], total[1], total[2], cover))
    picture.depth[k] = depth
    picture.label[k] = label
