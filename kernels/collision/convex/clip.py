"""Overlap of two support facets, seen along the normal of a contact.

Faces are cut by each other's edges (I. E. Sutherland, G. W. Hodgman, "Reentrant polygon clipping",
Communications of the ACM 17(1), 1974), lines by the edges of a face (M. Cyrus, J. Beck, "Generalized two- and
three-dimensional clipping", Computers & Graphics 3(1), 1978). Neither facet is the reference: the gap at a
place is the difference of both heights, so that the result does not change when the other facet becomes the
better aligned one.

Stage: narrow phase, contact points of convex shapes
Called by: kernels/collision/convex/manifold_points.py, kernels/collision/families/mesh.py,
    kernels/collision/families/mesh_mesh.py
Reads: corner, corner_a, corner_b, corner_label, label, label_a, label_b, line
Writes: code, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.facets import FACET_SIZE, Facet

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# room for the corners of an overlap and the closest points
CLIP_ROOM = wp.constant(33)
# kinds of points, in the upper bits of their codes: corner of A or B, crossing of edges, closest point
CODE_BITS = wp.constant(10)
CODE_B = wp.constant(1 << 20)
CODE_CROSSING = wp.constant(2 << 20)
CODE_CLOSEST = wp.constant(3 << 20)
OWNER_BITS = wp.constant(24)
# share of the radii of curvature by which nearly parallel lines may separate at their ends
BESIDE = wp.constant(0.03)


@wp.func
def flat(p: wp.vec3) -> wp.vec2:
    """Place of a point in the tangent plane."""
    return wp.vec2(p[0], p[1])


@wp.func
def cross2(p: wp.vec2, q: wp.vec2) -> float:
    """Signed area of the parallelogram with sides p and q."""
    return p[0] * q[1] - p[1] * q[0]


@wp.func
def crossing(label_a: int, label_b: int) -> int:
    """Code of the point where an edge of A crosses one of B."""
    return CODE_CROSSING + ((label_a & 1023) << CODE_BITS) + (label_b & 1023)


@wp.func
def inward(corner: wp.array(dtype=wp.vec3), count: int, j: int, turn: float) -> wp.vec2:
    """Unit vector perpendicular to edge j of a face, pointing inside; zero if the edge has no length."""
    e = flat(corner[(j + 1) % count] - corner[j])
    return wp.normalize(wp.vec2(-turn * e[1], turn * e[0]))


@wp.func
def cut_code(
    owner: int, j: int, count_b: int, label_a: wp.array(dtype=int), label_b: wp.array(dtype=int)
) -> int:
    """Code of the point where edge j of B cuts what lies on an edge of A or, from FACET_SIZE on, of B."""
    if owner < FACET_SIZE:
        return crossing(label_a[owner], label_b[j])
    earlier = owner - FACET_SIZE
    if earlier == 0 and j == count_b - 1:
        return CODE_B + label_b[0]
    return CODE_B + label_b[j]


@wp.func(inline=False)
def clip_faces(
    count_a: int,
    label_a: wp.array(dtype=int),
    b: Facet,
    corner_b: wp.array(dtype=wp.vec3),
    label_b: wp.array(dtype=int),
    tolerance: float,
    x: wp.array(dtype=wp.vec3),
    code: wp.array(dtype=int),
) -> int:
    """Cut the first count_a entries of x, the corners of face A, by the edges of face B.

    Corners of A that lie outside by no more than the tolerance are kept, so that the corners of congruent
    stacked faces do not come and go. The upper bits of a code say on which edge of A or B the next edge of
    the overlap lies. The overlap, whose number of corners is returned, replaces A.
    """
    count = int(count_a)
    for j in range(b.count):
        across = inward(corner_b, b.count, j, b.turn)
        base = flat(corner_b[j])
        first = x[0]
        first_code = code[0]
        here = first
        here_code = first_code
        before = wp.dot(across, flat(here) - base)
        kept = int(0)
        left = bool(False)
        for i in range(count):
            # an edge leaves a convex face once: writes are at most one place ahead of reads
            there = first
            there_code = first_code
            if i + 1 < count:
                there = x[i + 1]
                there_code = code[i + 1]
            after = wp.dot(across, flat(there) - base)
            inside = before >= -tolerance
            if inside and kept < CLIP_ROOM - 1:
                x[kept] = here
                code[kept] = here_code
                kept += 1
            if inside != (after >= -tolerance) and not (inside and left) and kept < CLIP_ROOM - 1:
                owner = here_code >> OWNER_BITS
                x[kept] = here + wp.clamp(before / (before - after), 0.0, 1.0) * (there - here)
                code[kept] = cut_code(owner, j, b.count, label_a, label_b) + (owner << OWNER_BITS)
                if inside:
                    left = True
                    code[kept] += (FACET_SIZE + j - owner) << OWNER_BITS
                kept += 1
            here = there
            here_code = there_code
            before = after
        count = kept
    for k in range(count):
        code[k] = code[k] & ((1 << OWNER_BITS) - 1)
    return count


@wp.func
def clip_line(
    line: wp.array(dtype=wp.vec3),
    label: wp.array(dtype=int),
    line_of_a: bool,
    face: Facet,
    corner: wp.array(dtype=wp.vec3),
    corner_label: wp.array(dtype=int),
    tolerance: float,
    x: wp.array(dtype=wp.vec3),
    code: wp.array(dtype=int),
) -> int:
    """Ends of the part of a line that lies within a face, written to x; returns their number."""
    p = flat(line[0])
    e = flat(line[1]) - p
    t0 = float(0.0)
    t1 = float(1.0)
    code[0] = label[0]
    code[1] = label[1]
    if not line_of_a:
        code[0] += CODE_B
        code[1] += CODE_B
    for j in range(face.count):
        across = inward(corner, face.count, j, face.turn)
        inside = wp.dot(across, p - flat(corner[j]))
        speed = wp.dot(across, e)
        cut = crossing(label[0], corner_label[j])
        if not line_of_a:
            cut = crossing(corner_label[j], label[0])
        if inside < -tolerance and inside + speed < -tolerance:
            return 0
        if inside < -tolerance and -inside / speed > t0:
            t0 = -inside / speed
            code[0] = cut
        elif inside + speed < -tolerance and -inside / speed < t1:
            t1 = -inside / speed
            code[1] = cut
    if t0 > t1:
        return 0
    x[0] = line[0] + t0 * (line[1] - line[0])
    x[1] = line[0] + t1 * (line[1] - line[0])
    return 2


@wp.func(inline=False)
def clip_lines(
    a: Facet,
    corner_a: wp.array(dtype=wp.vec3),
    label_a: wp.array(dtype=int),
    b: Facet,
    corner_b: wp.array(dtype=wp.vec3),
    label_b: wp.array(dtype=int),
    tolerance: float,
    x: wp.array(dtype=wp.vec3),
    code: wp.array(dtype=int),
) -> int:
    """Ends of the part of line A that line B runs alongside, written to x with their gaps.

    Nothing is found unless the lines are parallel enough to stay close to each other.
    """
    p = flat(corner_a[0])
    e = flat(corner_a[1]) - p
    length = wp.length(e)
    u = e / length
    b0 = flat(corner_b[0]) - p
    b1 = flat(corner_b[1]) - p
    s0 = wp.dot(u, b0)
    s1 = wp.dot(u, b1)
    first = int(0)
    if s0 > s1:
        first = 1
    low = wp.max(0.0, wp.min(s0, s1))
    high = wp.min(length, wp.max(s0, s1))
    if high - low <= tolerance:
        return 0
    code[0] = label_a[0]
    code[1] = label_a[1]
    if low > 0.0:
        code[0] = CODE_B + label_b[first]
    if high < length:
        code[1] = CODE_B + label_b[1 - first]
    for k in range(2):
        s = low
        if k == 1:
            s = high
        t_b = (s - s0) / (s1 - s0)
        beside = cross2(u, b0 + t_b * (b1 - b0))
        radius = a.radius[0] + s / length * (a.radius[1] - a.radius[0])
        radius += b.radius[0] + t_b * (b.radius[1] - b.radius[0])
        if wp.abs(beside) > BESIDE * radius + tolerance:
            return 0
        x[k] = corner_a[0] + (corner_a[1] - corner_a[0]) * (s / length)
        place = flat(x[k])
        gap = a.height - b.height + wp.dot(a.slope - b.slope, place)
        if radius > 0.0:
            gap += 0.5 * beside * beside / radius
        x[k] = wp.vec3(place[0], place[1], gap)
    return 2


@wp.func
def set_gaps(a: Facet, b: Facet, count: int, x: wp.array(dtype=wp.vec3)):
    """Replace the third coordinate of points by the gap between two facets at their places."""
    for k in range(count):
        place = flat(x[k])
        gap = a.height - b.height + wp.dot(a.slope - b.slope, place)
        x[k] = wp.vec3(place[0], place[1], gap)


@wp.func(inline=False)
def overlap(
    a: Facet,
    corner_a: wp.array(dtype=wp.vec3),
    label_a: wp.array(dtype=int),
    b: Facet,
    corner_b: wp.array(dtype=wp.vec3),
    label_b: wp.array(dtype=int),
    tolerance: float,
    x: wp.array(dtype=wp.vec3),
    code: wp.array(dtype=int),
) -> int:
    """Corners of the overlap of two facets, as places in the tangent plane and gaps.

    Args:
        a: Facet of A.
        corner_a: Its corners in the contact frame [m].
        label_a: Their numbers.
        b: Facet of B.
        corner_b: Its corners in the contact frame [m].
        label_b: Their numbers.
        tolerance: Length [m] by which corners may lie outside of the other facet.
        x: Corners found: two tangential coordinates and the gap [m]; room for CLIP_ROOM.
        code: What each corner is, see CODE_*; room for CLIP_ROOM.

    Returns:
        The number of corners.
    """
    if a.count < 2 or b.count < 2:
        return 0
    if a.count == 2 and b.count == 2:
        return clip_lines(a, corner_a, label_a, b, corner_b, label_b, tolerance, x, code)
    found = int(0)
    if a.count == 2:
        found = clip_line(corner_a, label_a, True, b, corner_b, label_b, tolerance, x, code)
    elif b.count == 2:
        found = clip_line(corner_b, label_b, False, a, corner_a, label_a, tolerance, x, code)
    else:
        for k in range(a.count):
            x[k] = corner_a[k]
            code[k] = label_a[k] + (k << OWNER_BITS)
        found = clip_faces(a.count, label_a, b, corner_b, label_b, tolerance, x, code)
    set_gaps(a, b, found, x)
    return found
