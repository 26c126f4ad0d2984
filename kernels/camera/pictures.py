"""Pictures by ray casting: colour, depth, normals, segmentation; a directional light and its shadows.

Shading is Phong's ("Illumination for computer generated pictures", 1975): ambient light, Lambert's cosine and
a highlight by a power of the cosine between the reflected light and the viewer, who may be at infinity, as in
fixed-function graphics. Ambient light may be stronger from the sky than from the ground. Shadows follow
Whitted ("An improved illumination model for shaded display", 1980): a point in shadow receives only a share
of the light. Shadows are soft where several rays go to the disc of the light, and ambient light is occluded
where rays around the normal soon meet a surface (Cook, Porter and Carpenter, "Distributed ray tracing", 1984;
Zhukov, Iones and Kronin, "An ambient light illumination model", 1998). Transparent surfaces are blended front
to back (Porter and Duff, "Compositing digital images", 1984).

Stage: ray casting, last, shading
Called by: render/camera/caster.py
Reads: CameraRays, DressView, Light, TileView, TraceView, mask
Writes: PictureView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.camera.elements import element_normals
from newtonsim.kernels.camera.rays import (
    LENS_FISHEYE,
    CameraRays,
    ray_direction,
    ray_origin,
)
from newtonsim.kernels.camera.scene import (
    Appearance,
    Body,
    CameraHit,
    CornerView,
    Frame,
    TraceView,
    behind_elements,
    hit_of,
    is_lit,
    normal_at,
)
from newtonsim.kernels.camera.tiles import TILE, TileView, is_bare, trace_in_tile
from newtonsim.kernels.views.shapes import GEO_BOX, GEO_MESH, GEO_PLANE

# channels and axes are unrolled, layers are not
wp.set_module_options({"enable_backward": False, "max_unroll": 4})

# largest number of transparent surfaces that are blended
MAX_LAYERS = wp.constant(8)
# distance of the start of a shadow ray from its surface, as a share of the distance to the camera
LIFT = wp.constant(1.0e-4)
# angle between neighbours on Vogel's spiral [rad]
GOLDEN = wp.constant(2.39996323)
OPAQUE = wp.constant(0.999)
# values of segmentation besides numbers of shapes, bodies and joints
SEEN_NOTHING = wp.constant(-1)
SEEN_STATIC = wp.constant(-2)
SEEN_SURFACE = wp.constant(-3)
SEEN_PARTICLE = wp.constant(-4)
SEEN_SPRING = wp.constant(-5)


@wp.struct
class Light:
    """Lighting of a scene."""

    direction: wp.vec3  # unit, towards the light
    radius: float  # of its disc, as the tangent of the angle
    rays: int  # to points of the disc, for its shadow
    color: wp.vec3  # of the directional light
    ambient: float
    sky: wp.vec3  # change of the ambient light along the normal
    sky_rays: int  # that look for what occludes ambient light, 0 for none
    sky_reach: float  # their length [m]
    diffuse: float
    specular: float
    shininess: float  # power of the highlight's cosine
    viewer: wp.vec3  # unit, towards a viewer at infinity for highlights; zero for the camera's place
    shadow: int  # 1 for shadows
    shadowed: float  # part of the light that reaches points in shadow
    transparency: int  # 1 for alpha blending, 0 if all visible surfaces are opaque
    background: wp.vec4  # RGBA, 0..1
    up: wp.vec3  # unit; zero for a background of one colour
    zenith: wp.vec3  # colour of the background towards it
    empty_label: int  # segmentation where nothing is seen


@wp.struct
class TextureView:
    """T textures."""

    start: wp.array(dtype=int)  # (T) first texel
    width: wp.array(dtype=int)  # (T)
    height: wp.array(dtype=int)  # (T)
    texel: wp.array(dtype=wp.uint32)  # RGBA in bytes, rows from the top
    mean: wp.array(dtype=wp.vec4)  # (T) RGBA, 0..1
    smooth: int  # 1 for bilinear interpolation, 0 for the nearest texel


@wp.struct
class DressView:
    """Appearance of the items of a scene."""

    appearance: wp.array(dtype=Appearance)
    corners: CornerView
    textures: TextureView


@wp.struct
class PictureView:
    """N = W C pictures: those of C cameras in each of W worlds; arrays of length 0 are not written.

    All arrays have an entry for each pixel, rows from the top.
    """

    cameras: int  # C
    width: int
    height: int
    offset: wp.vec2  # of the sample in a pixel, from its upper left corner, 0..1
    samples: int  # of colours along each side of a pixel; if 1, at the offset
    shaded: int  # 1 if colour is written
    labelled: int  # 1 if anything else is written
    fade: int  # 1 if textures of planes fade to their mean where pixels are larger than texels
    color: wp.array(dtype=wp.uint32)  # RGBA in bytes
    rgb: wp.array(dtype=wp.vec3ub)
    depth: wp.array(dtype=float)  # as the cameras define it
    axial: wp.array(dtype=float)  # [m] along the view axis, infinite for nothing
    distance: wp.array(dtype=float)  # [m] along the ray, infinite for nothing
    normal: wp.array(dtype=wp.vec3)  # world, unit, towards the camera, zero for nothing
    label: wp.array(dtype=int)
    shape: wp.array(dtype=int)  # of the model, or SEEN_*
    body: wp.array(dtype=int)
    joint: wp.array(dtype=int)


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
def sample_texture(dress: wp.array(dtype=DressView), k: int, uv: wp.vec2) -> wp.vec4:
    """Colour of a texture, v pointing up."""
    w = dress[0].textures.width[k]
    h = dress[0].textures.height[k]
    start = dress[0].textures.start[k]
    x = (uv[0] - wp.floor(uv[0])) * float(w)
    y = (1.0 - (uv[1] - wp.floor(uv[1]))) * float(h)
    if dress[0].textures.smooth == 0:
        nearest = repeat(int(wp.floor(y)), h) * w + repeat(int(wp.floor(x)), w)
        return unpack_color(dress[0].textures.texel[start + nearest])
    x -= 0.5
    y -= 0.5
    left = repeat(int(wp.floor(x)), w)
    right = repeat(left + 1, w)
    upper = start + repeat(int(wp.floor(y)), h) * w
    lower = start + repeat(int(wp.floor(y)) + 1, h) * w
    a = x - wp.floor(x)
    b = y - wp.floor(y)
    above = (1.0 - a) * unpack_color(dress[0].textures.texel[upper + left]) + a * unpack_color(
        dress[0].textures.texel[upper + right]
    )
    below = (1.0 - a) * unpack_color(dress[0].textures.texel[lower + left]) + a * unpack_color(
        dress[0].textures.texel[lower + right]
    )
    return (1.0 - b) * above + b * below


@wp.func
def primitive_uv(kind: int, size: wp.vec3, p: wp.vec3, n: wp.vec3) -> wp.vec2:
    """Texture coordinates: per face of a box, in sizes of a plane, and as seen along the axis for others."""
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


@wp.func
def fade_texture(
    dress: wp.array(dtype=DressView), k: int, color: wp.vec4, texel: float, pixel: float
) -> wp.vec4:
    """Colour of a texture, which fades to its mean if its texels [m] are small against a pixel [m]."""
    mixed = wp.clamp(pixel / texel - 0.5, 0.0, 1.0)
    return (1.0 - mixed) * color + mixed * dress[0].textures.mean[k]


@wp.struct
class SurfacePoint:
    """Properties of a point for shading and segmentation."""

    normal: wp.vec3  # world, unit, smooth
    face_normal: wp.vec3  # world, unit, geometric; both point towards the camera
    uv: wp.vec2
    color: wp.vec4  # RGBA, 0..1
    specular: wp.vec3  # weight of highlights by channel


@wp.func
def corner_normal(dress: wp.array(dtype=DressView), first: int, hit: CameraHit) -> wp.vec3:
    """Smooth normal in the triangle whose corners begin at `first`, not normalised."""
    n = hit.u * dress[0].corners.normal[first] + hit.v * dress[0].corners.normal[first + 1]
    return n + (1.0 - hit.u - hit.v) * dress[0].corners.normal[first + 2]


@wp.func
def corner_uv(dress: wp.array(dtype=DressView), first: int, hit: CameraHit) -> wp.vec2:
    """Texture coordinates in the triangle whose corners begin at `first`."""
    uv = hit.u * dress[0].corners.uv[first] + hit.v * dress[0].corners.uv[first + 1]
    return uv + (1.0 - hit.u - hit.v) * dress[0].corners.uv[first + 2]


@wp.func
def describe_hit(
    body: Body,
    appearance: Appearance,
    frame: Frame,
    dress: wp.array(dtype=DressView),
    hit: CameraHit,
    origin: wp.vec3,
    direction: wp.vec3,
) -> SurfacePoint:
    """Normals and texture coordinates of a hit."""
    point = SurfacePoint()
    o = frame.to_local * (origin - frame.origin)
    d = frame.to_local * direction
    face_normal = normal_at(body, hit, o, d)
    normal = face_normal
    if body.kind == GEO_MESH:
        first = 3 * (appearance.first_triangle + hit.triangle)
        smooth = corner_normal(dress, first, hit)
        if wp.length_sq(smooth) > 1.0e-12:
            normal = smooth
        if appearance.texture >= 0:
            point.uv = corner_uv(dress, first, hit)
    elif appearance.texture >= 0:
        point.uv = primitive_uv(body.kind, body.size, o + hit.t * d, face_normal)
    to_world = wp.transpose(frame.to_local)
    point.normal = wp.normalize(to_world * normal)
    point.face_normal = wp.normalize(to_world * face_normal)
    return point


@wp.func
def describe_point(
    scene: wp.array(dtype=TraceView),
    dress: wp.array(dtype=DressView),
    hit: CameraHit,
    origin: wp.vec3,
    direction: wp.vec3,
    pixel: float,
) -> SurfacePoint:
    """Normals and colour of a hit; a pixel covers `pixel` [m] across the ray there, 0 for sharp textures."""
    point = SurfacePoint()
    if hit.element >= 0:
        position = origin + hit.t * direction
        smooth, flat = element_normals(scene[0].elements, hit.element, hit.u, hit.v, position)
        point.face_normal = flat
        point.normal = flat
        if wp.length_sq(smooth) > 0.0:
            point.normal = wp.normalize(smooth)
        if wp.dot(point.normal, flat) < 0.0:
            point.normal = flat
        point.color = scene[0].elements[0].color[hit.element]
        point.specular = wp.vec3(1.0, 1.0, 1.0)
    else:
        i = scene[0].item[hit.row]
        appearance = dress[0].appearance[i]
        body = scene[0].body[i]
        point = describe_hit(body, appearance, scene[0].frame[hit.row], dress, hit, origin, direction)
        point.color = scene[0].color[hit.row]
        point.specular = appearance.specular
        if appearance.texture >= 0:
            color = sample_texture(dress, appearance.texture, point.uv)
            if pixel > 0.0 and body.kind == GEO_PLANE:
                slope = wp.abs(wp.dot(point.face_normal, direction)) / wp.length(direction)
                texel = body.size[0] / float(dress[0].textures.width[appearance.texture])
                color = fade_texture(dress, appearance.texture, color, texel, pixel / wp.max(slope, 1.0e-6))
            point.color = wp.cw_mul(point.color, color)
    if wp.dot(point.face_normal, direction) > 0.0:
        point.face_normal = -point.face_normal
        point.normal = -point.normal
    return point


@wp.func
def spread_about(axis: wp.vec3, radius: float, turn: float) -> wp.vec3:
    """Vector across an axis, of a length, at an angle."""
    side = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(axis[0]) > 0.6:
        side = wp.vec3(0.0, 1.0, 0.0)
    x = wp.normalize(wp.cross(axis, side))
    return radius * (wp.cos(turn) * x + wp.sin(turn) * wp.cross(axis, x))


@wp.func
def lit_share(
    scene: wp.array(dtype=TraceView),
    lights: wp.array(dtype=Light),
    world: int,
    start: wp.vec3,
    normal: wp.vec3,
    turn: float,
) -> float:
    """Share of the light's disc that is seen from a point above a surface, by rays on Vogel's spiral."""
    if lights[0].radius == 0.0:
        return wp.where(is_lit(scene, world, start, lights[0].direction, wp.inf), 1.0, 0.0)
    lit = float(0.0)
    for k in range(lights[0].rays):
        radius = lights[0].radius * wp.sqrt((float(k) + 0.5) / float(lights[0].rays))
        towards = lights[0].direction + spread_about(lights[0].direction, radius, turn + GOLDEN * float(k))
        if wp.dot(normal, towards) > 0.0 and is_lit(scene, world, start, wp.normalize(towards), wp.inf):
            lit += 1.0
    return lit / float(lights[0].rays)


@wp.func
def open_share(
    scene: wp.array(dtype=TraceView),
    lights: wp.array(dtype=Light),
    world: int,
    start: wp.vec3,
    normal: wp.vec3,
    turn: float,
) -> float:
    """Share of rays around a normal, dense as the cosine, that meet nothing within reach."""
    free = float(0.0)
    for k in range(lights[0].sky_rays):
        square = (float(k) + 0.5) / float(lights[0].sky_rays)
        across = spread_about(normal, wp.sqrt(square), turn + GOLDEN * float(k))
        if is_lit(scene, world, start, across + wp.sqrt(1.0 - square) * normal, lights[0].sky_reach):
            free += 1.0
    return free / float(lights[0].sky_rays)


@wp.func
def dim(value: float, share: float, floor: float) -> float:
    """A light of which a share arrives, and at least the floor."""
    if share >= 1.0:
        return value
    return value * (floor + (1.0 - floor) * share)


@wp.func
def shade(
    scene: wp.array(dtype=TraceView),
    lights: wp.array(dtype=Light),
    world: int,
    point: SurfacePoint,
    position: wp.vec3,
    direction: wp.vec3,
    distance: float,
    turn: float,
) -> wp.vec3:
    """Share of its colour that a surface point reflects; `turn` [rad] turns the rays towards the light."""
    towards = lights[0].direction
    facing = wp.dot(point.normal, towards)
    viewer = lights[0].viewer
    if wp.length_sq(viewer) == 0.0:
        viewer = -wp.normalize(direction)
    mirrored = wp.dot(2.0 * facing * point.normal - towards, viewer)
    matt = lights[0].diffuse * wp.max(facing, 0.0)
    shine = float(0.0)
    if mirrored > 0.0:
        shine = lights[0].specular * wp.pow(mirrored, lights[0].shininess)
    start = position + (LIFT * distance) * point.face_normal
    if lights[0].shadow == 1 and matt + shine > 0.0:
        lit = float(0.0)
        if wp.dot(point.face_normal, towards) > 0.0:
            lit = lit_share(scene, lights, world, start, point.face_normal, turn)
        matt = dim(matt, lit, lights[0].shadowed)
        shine = dim(shine, lit, lights[0].shadowed)
    around = lights[0].ambient * (1.0 + wp.dot(lights[0].sky, point.normal))
    if lights[0].sky_rays > 0:
        free = open_share(scene, lights, world, start, point.face_normal, turn)
        around = dim(around, free, lights[0].shadowed)
    sent = wp.vec3(around, around, around)
    return sent + wp.cw_mul(lights[0].color, wp.vec3(matt, matt, matt) + shine * point.specular)


@wp.func
def pack_color(color: wp.vec4) -> wp.uint32:
    """RGBA of 0..1 in bytes, rounded down, red first in memory."""
    packed = wp.uint32(0)
    for k in range(4):
        byte = wp.uint32(wp.clamp(color[k], 0.0, 1.0) * 255.0 + 1.0e-3)
        packed = packed | (byte << wp.uint32(8 * k))
    return packed


@wp.func
def pixel_spread(camera: CameraRays, width: int) -> float:
    """Angle [rad] between the rays of neighbouring pixels at the centre of a picture."""
    if camera.lens == LENS_FISHEYE:
        return 2.0 * wp.abs(camera.angle[0]) / float(width)
    return 2.0 * wp.length(camera.direction_x) / float(width)


@wp.func
def write_labels(
    scene: wp.array(dtype=TraceView),
    dress: wp.array(dtype=DressView),
    hit: CameraHit,
    empty: int,
    picture: wp.array(dtype=PictureView),
    k: int,
):
    """Write all kinds of segmentation at pixel k."""
    label = empty
    shape = int(SEEN_NOTHING)
    body = int(SEEN_NOTHING)
    joint = int(SEEN_NOTHING)
    if hit.row >= 0:
        appearance = dress[0].appearance[scene[0].item[hit.row]]
        label = appearance.label
        shape = appearance.shape
        body = appearance.body
        joint = appearance.joint
    elif hit.element >= 0:
        label = scene[0].elements[0].label[hit.element]
        part = scene[0].elements[0].particle[hit.element]
        shape = wp.where(part[2] >= 0, SEEN_SURFACE, wp.where(part[1] >= 0, SEEN_SPRING, SEEN_PARTICLE))
        body = shape
        joint = shape
    if picture[0].label.shape[0] > 0:
        picture[0].label[k] = label
    if picture[0].shape.shape[0] > 0:
        picture[0].shape[k] = shape
    if picture[0].body.shape[0] > 0:
        picture[0].body[k] = body
    if picture[0].joint.shape[0] > 0:
        picture[0].joint[k] = joint


@wp.func
def write_depth(
    camera: CameraRays,
    direction: wp.vec3,
    hit: CameraHit,
    t: float,
    picture: wp.array(dtype=PictureView),
    k: int,
):
    """Write all kinds of depth at pixel k."""
    seen = hit.row >= 0 or hit.element >= 0
    if picture[0].depth.shape[0] > 0:
        c = camera.depth
        picture[0].depth[k] = wp.where(seen, (c[0] + c[1] * t) / (c[2] + c[3] * t), camera.empty_depth)
    if picture[0].axial.shape[0] > 0:
        rate = float(1.0)
        if camera.lens == LENS_FISHEYE:
            rate = wp.dot(direction, camera.direction)
        picture[0].axial[k] = wp.where(seen, rate * t, wp.inf)
    if picture[0].distance.shape[0] > 0:
        picture[0].distance[k] = wp.where(seen, wp.length(direction) * t, wp.inf)


@wp.func
def backdrop(lights: wp.array(dtype=Light), direction: wp.vec3) -> wp.vec4:
    """Colour of the background in a direction of any length."""
    color = lights[0].background
    height = wp.dot(lights[0].up, direction)
    if height > 0.0:
        low = 1.0 - height / wp.length(direction)
        high = 1.0 - low * low * low
        for k in range(3):
            color[k] += high * (lights[0].zenith[k] - color[k])
    return color


@wp.func
def on_background(total: wp.vec3, left: float, background: wp.vec4) -> wp.vec4:
    """RGBA in 0..1 of a colour, a share `left` of which is background."""
    color = wp.vec4()
    for k in range(3):
        color[k] = wp.clamp(total[k] + left * background[k], 0.0, 1.0)
    color[3] = 1.0 - left * (1.0 - background[3])
    return color


@wp.func
def write_color(color: wp.vec4, picture: wp.array(dtype=PictureView), k: int):
    """Write the colour of pixel k."""
    packed = pack_color(color)
    if picture[0].color.shape[0] > 0:
        picture[0].color[k] = packed
    if picture[0].rgb.shape[0] > 0:
        byte = wp.uint32(255)
        picture[0].rgb[k] = wp.vec3ub(
            wp.uint8(packed & byte),
            wp.uint8((packed >> wp.uint32(8)) & byte),
            wp.uint8((packed >> wp.uint32(16)) & byte),
        )


@wp.func
def look_along(
    scene: wp.array(dtype=TraceView),
    dress: wp.array(dtype=DressView),
    cameras: wp.array(dtype=CameraRays),
    image: int,
    lights: wp.array(dtype=Light),
    tiles: wp.array(dtype=TileView),
    tile: int,
    place: int,
    world: int,
    x: float,
    y: float,
    shaded: bool,
    labelled: bool,
    sample: int,
    picture: wp.array(dtype=PictureView),
    k: int,
) -> wp.vec4:
    """Trace the ray at (x, y) of a camera, at a place in a tile; return its colour if shaded.

    If labelled, everything but the colour is written to pixel k. The number of the sample in its pixel
    decides by which angle the rays of the light are turned.
    """
    camera = cameras[image]
    origin = ray_origin(camera, x, y)
    direction = ray_direction(camera, x, y)
    spread = float(0.0)
    if picture[0].fade == 1:
        spread = pixel_spread(camera, picture[0].width)
    bent = labelled and picture[0].normal.shape[0] > 0
    turn = float(0.0)
    if lights[0].radius > 0.0 or lights[0].sky_rays > 0:
        turn = 2.0 * wp.pi * wp.randf(wp.rand_init(k, sample))
    total = wp.vec3()
    left = float(1.0)
    t = float(camera.near)
    far = camera.far
    if wp.length_sq(direction) == 0.0:
        # outside the field of view of a fisheye
        direction = camera.direction
        far = -1.0
    for layer in range(MAX_LAYERS):
        start = origin + t * direction
        hit = trace_in_tile(scene, tiles, tile, place, world, start, direction, t, far - t)
        hit = behind_elements(scene, world, start, direction, far - t, hit)
        seen = hit.row >= 0 or hit.element >= 0
        if seen:
            t += hit.t
        if layer == 0 and labelled:
            write_depth(camera, direction, hit, t, picture, k)
            write_labels(scene, dress, hit, lights[0].empty_label, picture, k)
            if bent and not seen:
                picture[0].normal[k] = wp.vec3()
        if not seen or not (shaded or bent):
            break
        distance = t * wp.length(direction)
        point = describe_point(scene, dress, hit, start, direction, spread * distance)
        if layer == 0 and bent:
            picture[0].normal[k] = point.normal
        if not shaded:
            break
        position = start + hit.t * direction
        sent = shade(scene, lights, world, point, position, direction, distance, turn)
        alpha = float(1.0)
        if lights[0].transparency == 1:
            alpha = wp.clamp(point.color[3], 0.0, 1.0)
        total += (left * alpha) * wp.cw_mul(wp.vec3(point.color[0], point.color[1], point.color[2]), sent)
        left *= 1.0 - alpha
        if left < 1.0 - OPAQUE:
            left = float(0.0)
            break
        t += LIFT * t
    return on_background(total, left, backdrop(lights, direction))


@wp.func
def write_nothing(
    scene: wp.array(dtype=TraceView),
    dress: wp.array(dtype=DressView),
    cameras: wp.array(dtype=CameraRays),
    image: int,
    lights: wp.array(dtype=Light),
    x: float,
    y: float,
    picture: wp.array(dtype=PictureView),
    k: int,
):
    """Write pixel k without a hit by the ray at (x, y)."""
    hit = hit_of(-1, wp.inf, -1, 0.0, 0.0)
    write_depth(cameras[image], wp.vec3(), hit, 1.0, picture, k)
    write_labels(scene, dress, hit, lights[0].empty_label, picture, k)
    if picture[0].normal.shape[0] > 0:
        picture[0].normal[k] = wp.vec3()
    if picture[0].shaded == 1:
        sky = backdrop(lights, ray_direction(cameras[image], x, y))
        write_color(on_background(wp.vec3(), 1.0, sky), picture, k)


@wp.kernel
def render_pixels(
    scene: wp.array(dtype=TraceView),
    dress: wp.array(dtype=DressView),
    cameras: wp.array(dtype=CameraRays),
    lights: wp.array(dtype=Light),
    tiles: wp.array(dtype=TileView),
    first_tile: int,
    run: int,
    mask: wp.array(dtype=bool),
    picture: wp.array(dtype=PictureView),
):
    """One thread per `run` pixels of a tile, tile by tile from first_tile on.

    Pictures of worlds outside the mask do not change.
    """
    first = run * wp.tid()
    tile = first_tile + first // (TILE * TILE)
    place = first % (TILE * TILE)
    area = tiles[0].rows * tiles[0].columns
    image = tile // area
    left = ((tile - image * area) % tiles[0].columns) * TILE
    top = ((tile - image * area) // tiles[0].columns) * TILE
    world = image // picture[0].cameras
    if not mask[world]:
        return
    bare = is_bare(scene, tiles, tile, world)
    width = picture[0].width
    height = picture[0].height
    samples = picture[0].samples
    colors = samples * samples
    rays = colors
    if samples > 1 and picture[0].labelled == 1:
        rays += 1
    for pixel in range(place, place + run):
        column = left + pixel % TILE
        line = top + pixel // TILE
        if column < width and line < height:
            k = (image * height + line) * width + column
            color = wp.vec4()
            for ray in range(wp.where(bare, 1, rays)):
                shaded = picture[0].shaded == 1
                labelled = picture[0].labelled == 1
                offset = picture[0].offset
                if samples > 1 and ray < colors:
                    labelled = False
                    offset[0] = (float(ray % samples) + 0.5) / float(samples)
                    offset[1] = (float(ray // samples) + 0.5) / float(samples)
                elif samples > 1:
                    shaded = False
                x = 2.0 * (float(column) + offset[0]) / float(width) - 1.0
                y = 1.0 - 2.0 * (float(line) + offset[1]) / float(height)
                if bare:
                    write_nothing(scene, dress, cameras, image, lights, x, y, picture, k)
                else:
                    seen = look_along(
                        scene,
                        dress,
                        cameras,
                        image,
                        lights,
                        tiles,
                        tile,
                        pixel,
                        world,
                        x,
                        y,
                        shaded,
                        labelled,
                        ray,
                        picture,
                        k,
                    )
                    if shaded:
                        color += seen
            if picture[0].shaded == 1 and not bare:
                write_color(color / float(colors), picture, k)
