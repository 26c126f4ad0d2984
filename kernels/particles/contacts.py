"""Contacts of particles, and of the inside of triangles between them, with the shapes of rigid bodies.

The deepest point of a triangle is found by descent from its centre along the gradient of the distance,
projected onto the triangle (Macklin, Erleben, Müller, Chentanez, Jeschke, Corse, "Local optimization for
robust signed distance field collision", PACMCGIT 3(1), 2020). Candidate shapes are first found for blocks of
consecutive particles or triangles.

Stage: collision of particles with shapes
Called by: solvers/particles/contacts.py, kernels/particles/adjoint/curvature.py,
    kernels/particles/features.py, kernels/particles/vbd/components.py, kernels/particles/vbd/contacts.py,
    kernels/particles/xpbd/contacts.py
Reads: BlockView, Mixing, MotionView, RigidView, SurfaceMaterial, indices, inv_mass, v, x
Writes: BlockView, ContactView, FaceView, MotionView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import Convex, convex_triangle
from newtonsim.kernels.collision.surfaces.triangle_surface import nearest_on_triangle
from newtonsim.kernels.maximal.moving_bodies import MotionView, velocity_at
from newtonsim.kernels.particles.point_distance import Gap, RigidView, gap_after, is_near, shape_distance
from newtonsim.kernels.views.shapes import GEO_PLANE

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# [kg m] an unbounded push
UNBOUNDED = wp.constant(1.0e30)
# most contacts of a particle, and of the inside of a triangle; the deepest ones are kept
CONTACTS = wp.constant(4)
FACE_CONTACTS = wp.constant(2)
# most shapes listed for a block; if there are more, all shapes of the world are tested
NEAR = wp.constant(16)
# particles or triangles of a block
BLOCK = wp.constant(32)
# share of the motion in a substep within which contacts are created before they touch
AHEAD = wp.constant(0.5)
# steps of the search for the deepest point of a triangle, the factor by which a step shrinks after one that
# did not lead deeper, and the step length, over the size of the triangle, at which the search ends
SEARCH = wp.constant(24)
SHORTER = wp.constant(0.4)
SETTLED = wp.constant(1.0e-3)
# squared sine below which a triangle has no inside
FLAT = wp.constant(1.0e-8)
# weight of a corner above which its particle takes the contact
CORNER = wp.constant(0.95)
# depth of the inside of a triangle below its corners, over its size, from which it has its own contact
DEEPER = wp.constant(1.0e-3)


@wp.struct
class ContactView:
    """Contacts of N particles or triangles, K places for each."""

    count: wp.array(dtype=int)  # (N)
    shape: wp.array2d(dtype=int)  # (N, K)
    normal: wp.array2d(dtype=wp.vec3)  # out of the shape
    overlap: wp.array2d(dtype=float)  # [m] of the predicted position
    before: wp.array2d(dtype=float)  # [m] at the start of the substep
    mu: wp.array2d(dtype=float)  # coefficient of friction of both
    stick: wp.array2d(dtype=float)  # [m] gap up to which the contact sticks, 0 for one that only pushes
    push: wp.array2d(dtype=float)  # impulse along the normal, times the length of the substep [kg m]
    hold: wp.array2d(dtype=wp.vec3)  # impulse of friction on the body, likewise


@wp.struct
class FaceView:
    """Contacts of the inside of T triangles, FACE_CONTACTS for each."""

    touch: ContactView
    weight: wp.array2d(dtype=wp.vec3)  # of the corners in the point of contact


@wp.struct
class BlockView:
    """Shapes near each block of particles or triangles; C blocks of N of them."""

    block: wp.array(dtype=int)  # (N) block of each
    first: wp.array(dtype=int)  # (C + 1) first of each block
    world: wp.array(dtype=int)  # (C) row in RigidView.start
    count: wp.array(dtype=int)  # (C) shapes near it
    near: wp.array2d(dtype=int)  # (C, NEAR) the first of them
    dropped: wp.array(dtype=int)  # (1) number of contacts without a place


@wp.struct
class SurfaceMaterial:
    """Contact material of particles and shapes."""

    radius: wp.array(dtype=float)  # (N) [m]
    friction: wp.array(dtype=float)  # (N)
    adhesion: wp.array(dtype=float)  # (N) [m] gap up to which a particle sticks to shapes
    shape_friction: wp.array(dtype=float)  # (S)
    anchored: wp.array(dtype=int)  # (N) body to which a particle is anchored, whose shapes it ignores


@wp.struct
class Mixing:
    """Coefficients that combine the friction of a particle and a shape: by their sum and their product."""

    constant: float
    of_shape: float
    of_product: float


@wp.func
def blend(m: wp.array(dtype=wp.vec3), corner: wp.vec3i, weight: wp.vec3) -> wp.vec3:
    """Interpolation of values at the corners of a triangle to a point of it."""
    return m[corner[0]] * weight[0] + m[corner[1]] * weight[1] + m[corner[2]] * weight[2]


@wp.func
def corners_of(indices: wp.array2d(dtype=int), t: int) -> wp.vec3i:
    """Particles of a triangle."""
    return wp.vec3i(indices[t, 0], indices[t, 1], indices[t, 2])


@wp.func
def shapes_near(rigid: RigidView, blocks: BlockView, i: int) -> int:
    """Number of shapes that may be near particle or triangle i."""
    c = blocks.block[i]
    count = blocks.count[c]
    if count > NEAR:
        w = blocks.world[c]
        count = rigid.start[w + 1] - rigid.start[w]
    return count


@wp.func
def shape_near(rigid: RigidView, blocks: BlockView, i: int, k: int) -> int:
    """Shape number k of these."""
    c = blocks.block[i]
    if blocks.count[c] > NEAR:
        return rigid.listed[rigid.start[blocks.world[c]] + k]
    return blocks.near[c, k]


@wp.func
def free_place(
    contacts: ContactView, blocks: BlockView, i: int, count: int, most: int, overlap: float
) -> int:
    """Place for another contact; if all are used, that of the least overlap, or -1 if that is the new one."""
    place = int(count)
    if count == most:
        wp.atomic_add(blocks.dropped, 0, 1)
        place = int(0)
        for other in range(1, most):
            if contacts.overlap[i, other] < contacts.overlap[i, place]:
                place = other
        if overlap <= contacts.overlap[i, place]:
            place = -1
    return place


@wp.func
def write_contact(
    contacts: ContactView,
    i: int,
    place: int,
    s: int,
    gap: Gap,
    margin: float,
    approach: float,
    mu: float,
    stick: float,
):
    """Start a contact whose gap closes by `approach` [m] in the substep."""
    contacts.shape[i, place] = s
    contacts.normal[i, place] = gap.normal
    contacts.overlap[i, place] = margin - gap.distance
    contacts.before[i, place] = margin - gap.distance - approach
    contacts.mu[i, place] = mu
    contacts.stick[i, place] = stick
    contacts.push[i, place] = 0.0
    contacts.hold[i, place] = wp.vec3(0.0)


@wp.func
def mixed(mixing: Mixing, particle: float, shape: float) -> float:
    """Friction of a contact."""
    return mixing.constant + mixing.of_shape * shape + mixing.of_product * particle * shape


@wp.func
def list_near(rigid: RigidView, blocks: BlockView, c: int, lower: wp.vec3, upper: wp.vec3):
    """List the shapes whose bounding spheres overlap a box."""
    count = int(0)
    w = blocks.world[c]
    for k in range(rigid.start[w], rigid.start[w + 1]):
        s = rigid.listed[k]
        ball = rigid.centre[s]
        p = wp.vec3(ball[0], ball[1], ball[2])
        beside = p - wp.min(wp.max(p, lower), upper)
        meets = wp.length_sq(beside) <= ball[3] * ball[3]
        if rigid.shape.kind[s] == GEO_PLANE:
            n = wp.transform_vector(rigid.pose[s], wp.vec3(0.0, 1.0, 0.0))
            lowest = 0.5 * (wp.dot(n, lower + upper) - wp.dot(wp.abs(n), upper - lower))
            meets = lowest <= wp.dot(n, p) + rigid.shape.geo.thickness[s]
        if meets and s != rigid.disabled:
            if count < NEAR:
                blocks.near[c, count] = s
            count += 1
    blocks.count[c] = count


@wp.kernel
def find_shapes_near_particles(
    first: int,
    material: SurfaceMaterial,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    rigid: RigidView,
    blocks: BlockView,
):
    """One thread per block of particles: shapes that one of them may reach within the substep."""
    c = first + wp.tid()
    start = blocks.first[c]
    lower = x[start]
    upper = x[start]
    reach = float(0.0)
    for i in range(start, blocks.first[c + 1]):
        lower = wp.min(lower, wp.min(x[i], x[i] - v[i] * dt))
        upper = wp.max(upper, wp.max(x[i], x[i] - v[i] * dt))
        reach = wp.max(reach, material.radius[i] + material.adhesion[i] + AHEAD * wp.length(v[i]) * dt)
    spread = wp.vec3(reach, reach, reach)
    list_near(rigid, blocks, c, lower - spread, upper + spread)


@wp.kernel
def find_shapes_near_triangles(
    first: int,
    indices: wp.array2d(dtype=int),
    material: SurfaceMaterial,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    rigid: RigidView,
    blocks: BlockView,
):
    """One thread per block of triangles: shapes that one of them may reach within the substep."""
    c = first + wp.tid()
    start = blocks.first[c]
    lower = x[indices[start, 0]]
    upper = lower
    reach = float(0.0)
    for t in range(start, blocks.first[c + 1]):
        for k in range(3):
            i = indices[t, k]
            lower = wp.min(lower, x[i])
            upper = wp.max(upper, x[i])
            reach = wp.max(reach, material.radius[i] + material.adhesion[i] + AHEAD * wp.length(v[i]) * dt)
    spread = wp.vec3(reach, reach, reach)
    list_near(rigid, blocks, c, lower - spread, upper + spread)


@wp.kernel
def find_contacts(
    first: int,
    inv_mass: wp.array(dtype=float),
    material: SurfaceMaterial,
    mixing: Mixing,
    rigid: RigidView,
    blocks: BlockView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
    contacts: ContactView,
):
    """One thread per particle: shapes that it touches or approaches on its way to the predicted position."""
    i = first + wp.tid()
    count = int(0)
    if inv_mass[i] > 0.0:
        p = x[i]
        radius = material.radius[i]
        stick = material.adhesion[i]
        for k in range(shapes_near(rigid, blocks, i)):
            s = shape_near(rigid, blocks, i, k)
            b = rigid.shape.body[s]
            way = (v[i] - velocity_at(bodies, b, p)) * dt
            length = wp.length(way)
            reach = radius + wp.max(AHEAD * wp.max(length, wp.length(v[i]) * dt), stick)
            passes = s == rigid.disabled or b == material.anchored[i]
            if not passes and is_near(rigid, s, p, reach + length):
                gap = gap_after(rigid, s, p - way, p, radius, reach)
                if gap.distance < reach:
                    place = free_place(contacts, blocks, i, count, CONTACTS, radius - gap.distance)
                    if place >= 0:
                        count = wp.max(count, place + 1)
                        mu = mixed(mixing, material.friction[i], material.shape_friction[s])
                        approach = -wp.dot(gap.normal, way)
                        write_contact(contacts, i, place, s, gap, radius, approach, mu, stick)
                        if b >= 0 and gap.distance < radius + stick:
                            wp.atomic_add(bodies.touching, b, 1)
    contacts.count[i] = count


@wp.func
def weights_of(t: Convex, p: wp.vec3) -> wp.vec3:
    """Weights of the corners of a triangle in a point of it (Ericson 2005, section 3.4)."""
    u = t.b - t.a
    v = t.c - t.a
    w = p - t.a
    uu = wp.dot(u, u)
    uv = wp.dot(u, v)
    vv = wp.dot(v, v)
    determinant = uu * vv - uv * uv
    weight = wp.vec3(1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
    if determinant > FLAT * uu * vv:
        b = (vv * wp.dot(w, u) - uv * wp.dot(w, v)) / determinant
        c = (uu * wp.dot(w, v) - uv * wp.dot(w, u)) / determinant
        weight = wp.max(wp.vec3(1.0 - b - c, b, c), wp.vec3(0.0))
        weight = weight / (weight[0] + weight[1] + weight[2])
    return weight


@wp.func
def deepest_point(
    rigid: RigidView, s: int, t: Convex, size: float, way: wp.vec3, first: Gap, reach: float
) -> wp.vec3:
    """Point of a triangle that is deepest in a shape, as weights of its corners.

    Args:
        rigid: The shapes.
        s: The shape.
        t: The triangle [m].
        size: Distance of its farthest corner from its centre [m].
        way: Its motion in the substep, relative to the shape [m].
        first: Gap of its centre.
        reach: See `shape_distance` [m].
    """
    p = (t.a + t.b + t.c) / 3.0
    gap = first
    step = wp.max(size, wp.abs(first.distance))
    for _k in range(SEARCH):
        goal = p - step * gap.normal
        q = goal + nearest_on_triangle(convex_triangle(t.a - goal, t.b - goal, t.c - goal), wp.vec3())
        if wp.length_sq(q - p) < SETTLED * SETTLED * size * size:
            break
        other = shape_distance(rigid, s, rigid.pose[s], q, q - way, reach)
        if other.distance < gap.distance:
            p = q
            gap = other
        else:
            step *= SHORTER
    return weights_of(t, p)


@wp.func
def is_beyond_corners(
    rigid: RigidView, s: int, t: Convex, size: float, way: wp.vec3, deepest: float, reach: float
) -> bool:
    """Whether a triangle, by `deepest`, is deeper in a shape than its corners, whose particles touch it too.

    If a corner is as deep, a contact of the inside would only take load from those of the corners.
    """
    beyond = bool(True)
    for k in range(3):
        corner = wp.where(k == 0, t.a, wp.where(k == 1, t.b, t.c))
        gap = shape_distance(rigid, s, rigid.pose[s], corner, corner - way, reach)
        if deepest > gap.distance - DEEPER * size:
            beyond = False
    return beyond


@wp.kernel
def find_face_contacts(
    first: int,
    indices: wp.array2d(dtype=int),
    inv_mass: wp.array(dtype=float),
    material: SurfaceMaterial,
    mixing: Mixing,
    rigid: RigidView,
    blocks: BlockView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
    faces: FaceView,
):
    """One thread per triangle: shapes that its inside overlaps or approaches at the predicted position."""
    t = first + wp.tid()
    corner = corners_of(indices, t)
    centre = wp.vec3(1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
    c = blend(x, corner, centre)
    size = float(0.0)
    radius = float(0.0)
    stick = float(0.0)
    movable = float(0.0)
    for k in range(3):
        movable += inv_mass[corner[k]]
        size = wp.max(size, wp.length(x[corner[k]] - c))
        radius = wp.max(radius, material.radius[corner[k]])
        stick = wp.max(stick, material.adhesion[corner[k]])
    friction = material.friction[corner[0]]
    count = int(0)
    shapes = int(0)
    if movable > 0.0:
        shapes = shapes_near(rigid, blocks, t)
    for place in range(shapes):
        s = shape_near(rigid, blocks, t, place)
        b = rigid.shape.body[s]
        way = (blend(v, corner, centre) - velocity_at(bodies, b, c)) * dt
        reach = radius + wp.max(AHEAD * wp.length(blend(v, corner, centre)) * dt, stick)
        # for a plane, a corner is nearest
        passes = s == rigid.disabled or rigid.shape.kind[s] == GEO_PLANE
        anchored = int(0)
        for k in range(3):
            anchored += int(b == material.anchored[corner[k]])
        passes = passes or anchored == 3
        if not passes and is_near(rigid, s, c, reach + size):
            gap = shape_distance(rigid, s, rigid.pose[s], c, c - way, reach + size)
            if gap.distance < reach + size:
                triangle = convex_triangle(x[corner[0]], x[corner[1]], x[corner[2]])
                weight = deepest_point(rigid, s, triangle, size, way, gap, reach + size)
                p = blend(x, corner, weight)
                way = (blend(v, corner, weight) - velocity_at(bodies, b, p)) * dt
                gap = gap_after(rigid, s, p - way, p, radius, reach)
                inside = gap.distance < reach and wp.max(weight) < CORNER
                if inside:
                    inside = is_beyond_corners(rigid, s, triangle, size, way, gap.distance, reach + size)
                if inside:
                    slot = free_place(faces.touch, blocks, t, count, FACE_CONTACTS, radius - gap.distance)
                    if slot >= 0:
                        count = wp.max(count, slot + 1)
                        mu = mixed(mixing, friction, material.shape_friction[s])
                        approach = -wp.dot(gap.normal, way)
                        write_contact(faces.touch, t, slot, s, gap, radius, approach, mu, stick)
                        faces.weight[t, slot] = weight
                        if b >= 0 and gap.distance < radius + stick:
                            wp.atomic_add(bodies.touching, b, 1)
    faces.touch.count[t] = count
