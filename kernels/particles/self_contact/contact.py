"""Contact of cloth with itself: pairs, the planes that keep them apart, and their forces.

A pair is a vertex and a triangle or two edges that share no vertex. `particles.self_contact.pairs` lists
those that can touch until its next call. For each pair, the closest points define a plane between the two; as
long as the vertices of each side stay on their side of it, the two cannot pass through each other, in
whatever order they move (separating planes: Ericson, "Real-Time Collision Detection", 2005, section 5.2;
conservative bounds on displacements: Chen, Hsu, Liu, Macklin, Yang, Yuksel, "Offset Geometric Contact", TOG
2025). `refresh_pairs` recomputes the planes at the current positions, so that each sweep can close the same
share of the gap again, and `truncate` keeps a vertex behind its planes.

Forces: quadratic in the overlap of the radius, and logarithmic below half of it (C²; Offset Geometric
Contact, section 3.5), with smoothed Coulomb friction whose normal force and frame are those of the refresh
(Li et al., "Incremental Potential Contact", TOG 2020). A feature shared by several triangles, such as an
edge, exerts its force once.

Stage: self-contact, planes and forces within the sweeps
Called by: solvers/particles/self_contact.py, kernels/particles/self_contact/advance.py,
    kernels/particles/self_contact/pairs.py, kernels/particles/self_contact/prescribed_motion.py,
    kernels/particles/vbd/components.py, kernels/particles/vbd/self_contact_sweep.py
Reads: SelfContactView, x, x_start
Writes: SelfContactView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.self_contact.bvh_surface import Reach, SurfaceTree
from newtonsim.kernels.particles.self_contact.geometry import (
    fine_normal,
    is_inside,
    nearest_of_segments,
    nearest_on_triangle,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

EDGES = wp.constant(-1)
# rounding of a coordinate, over the largest coordinate of a pair, that is kept as a gap
ROUNDING = wp.constant(2.0e-6)
# share of the distance by which a pair must be separated along its normal; below it, rounding has spoilt the
# normal
EXACT = wp.constant(0.95)
# share of the radius within which pairs may begin to press in a sweep
ALERT = wp.constant(1.25)
# share of the radius below which the barrier continues as a parabola
DEEPEST = wp.constant(0.02)
# squared sine of the angle between edges below which their force fades, since it would jump where they are
# parallel
FADING = wp.constant(1.0e-3)
FAR = wp.constant(1.0e30)


@wp.struct
class SelfContactView:
    """Pairs of all worlds and their material; P particles, N places for pairs, W worlds."""

    tree: SurfaceTree
    reach: Reach
    # pairs: those of world w start at pair_first[w]
    pair_first: wp.array(dtype=int)  # (W + 1)
    pair_count: wp.array(dtype=int)  # (W) required; there may be less room
    corners: wp.array(dtype=wp.vec4i)  # (N) vertex and triangle, or first and second edge
    triangle: wp.array(dtype=int)  # (N) in the order of the tree; EDGES
    radius: wp.array(dtype=float)  # (N) [m]
    # renewed by refresh_pairs
    weight: wp.array(dtype=wp.vec4)  # (N) of the corners in nearest point minus nearest point, sums to 0
    normal: wp.array(dtype=wp.vec3)  # (N) from the second of the pair to the first
    slack: wp.array(dtype=wp.vec4)  # (N) [m] distance by which each corner may approach the plane
    before: wp.array(dtype=wp.vec3)  # (N) the weighted sum at the start of the step [m]
    load: wp.array(dtype=float)  # (N) [N] normal force
    share: wp.array(dtype=float)  # (N) part of the stiffness; 0 for pairs that cannot press in this sweep
    # pairs of each particle
    start: wp.array(dtype=int)  # (P)
    count: wp.array(dtype=int)  # (P)
    entry: wp.array(dtype=int)  # (4 N) 4 * pair + number of the corner
    # particles
    world: wp.array(dtype=int)  # (P)
    origin: wp.array(dtype=wp.vec3)  # (P) position at the refresh [m]
    free: wp.array(dtype=float)  # (P) [m] motion from the origin that violates no plane
    inv_mass: wp.array(dtype=float)  # (P) [1/kg] 0 for particles that are held
    hold: wp.array(dtype=float)  # (P) [m/s²] acceleration by the largest possible friction
    neighbor_start: wp.array(dtype=int)  # (P + 1) particles that share an edge with each
    neighbor: wp.array(dtype=int)
    # numbers
    relaxation: float
    parallel: float
    stiffness: float  # [N/m]
    damping: float  # [N s/m]
    friction: float
    friction_speed: float  # [m/s] slip above which friction is Coulomb's
    grip: float  # largest stiffness of friction, over that of inertia


@wp.struct
class ContactTerms:
    """Contributions of contacts to the equations of one particle."""

    force: wp.vec3  # [N]
    hessian: wp.mat33  # [N/m] symmetric, positive semi-definite
    near: int  # pairs that may press in this sweep
    pressing: int  # pairs that press now


@wp.struct
class Nearest:
    """Nearest points of a pair."""

    weight: wp.vec4  # weights of the corners in the difference of the nearest points
    gap: wp.vec3  # that difference, from the second to the first [m]
    normal: wp.vec3  # its direction; 0 if undetermined
    distance: float  # [m]
    inside: int  # 1 if the nearest point lies inside the triangle, or inside both edges


@wp.func
def weighted(w: wp.vec4, x0: wp.vec3, x1: wp.vec3, x2: wp.vec3, x3: wp.vec3) -> wp.vec3:
    """Sum of points by weights that add up to 0, exact for points that are close to each other."""
    return w[1] * (x1 - x0) + w[2] * (x2 - x0) + w[3] * (x3 - x0)


@wp.func
def directed(gap: wp.vec3, plain: wp.vec3, inside: int) -> wp.vec3:
    """Direction of a gap; inside the triangle or edges, their own normal `plain` is more accurate."""
    size = wp.length(plain)
    if inside == 1 and size > 0.0:
        n = plain / size
        return wp.where(wp.dot(n, gap) < 0.0, -n, n)
    return wp.normalize(gap)


@wp.func
def nearest_of_pair(
    edges: bool, x0: wp.vec3, x1: wp.vec3, x2: wp.vec3, x3: wp.vec3, parallel: float
) -> Nearest:
    """Nearest points of the edges (x0, x1), (x2, x3), or the vertex x0 and triangle (x1, x2, x3)."""
    near = Nearest()
    plain = wp.vec3()
    if edges:
        u = x1 - x0
        v = x3 - x2
        st = nearest_of_segments(u, v, x0 - x2, parallel)
        s = st[0]
        t = st[1]
        near.weight = wp.vec4(1.0 - s, s, t - 1.0, -t)
        plain = wp.cross(u, v)
        crossing = wp.dot(plain, plain) > FADING * wp.dot(u, u) * wp.dot(v, v)
        near.inside = wp.where(is_inside(s) and is_inside(t) and crossing, 1, 0)
        near.gap = x0 - x2 + s * u - t * v
    else:
        w = nearest_on_triangle(x0, x1, x2, x3)
        near.weight = wp.vec4(1.0, -w[0], -w[1], -w[2])
        plain = wp.cross(x2 - x1, x3 - x1)
        near.inside = wp.where(w[0] > 0.0 and w[1] > 0.0 and w[2] > 0.0, 1, 0)
        near.gap = w[0] * (x0 - x1) + w[1] * (x0 - x2) + w[2] * (x0 - x3)
    near.normal = directed(near.gap, plain, near.inside)
    near.distance = wp.length(near.gap)
    return near


@wp.func
def heights(edges: bool, n: wp.vec3, x0: wp.vec3, x1: wp.vec3, x2: wp.vec3, x3: wp.vec3) -> wp.vec4:
    """Heights of the corners over x0 along the normal, with the sign reversed for the second of the pair.

    The smaller a height, the nearer its corner is to the plane.
    """
    h1 = wp.dot(n, x1 - x0)
    return wp.vec4(0.0, wp.where(edges, h1, -h1), -wp.dot(n, x2 - x0), -wp.dot(n, x3 - x0))


@wp.func
def lowest_of_first(edges: bool, h: wp.vec4) -> float:
    """Smallest height of the corners of the first of a pair."""
    return wp.where(edges, wp.min(h[0], h[1]), h[0])


@wp.func
def lowest_of_second(edges: bool, h: wp.vec4) -> float:
    """Smallest reversed height of the corners of the second of a pair."""
    low = wp.min(h[2], h[3])
    return wp.where(edges, low, wp.min(low, h[1]))


@wp.func
def side_of_corner(edges: bool, corner: int) -> float:
    """1 for the corners of the first of a pair, -1 for those of the second."""
    return wp.where(corner == 0 or (edges and corner == 1), 1.0, -1.0)


@wp.func
def separating_normal(
    edges: bool, near: Nearest, x0: wp.vec3, x1: wp.vec3, x2: wp.vec3, x3: wp.vec3
) -> wp.vec3:
    """Direction along which a pair is separated by its distance, even for long elements that are close."""
    h = heights(edges, near.normal, x0, x1, x2, x3)
    if lowest_of_first(edges, h) + lowest_of_second(edges, h) < EXACT * near.distance:
        return fine_normal(edges, x0, x1, x2, x3)
    return near.normal


@wp.func
def room_of_sides(view: SelfContactView, gap: float, near: wp.vec3) -> float:
    """Distance by which each side of a pair may approach; a gap of the size of rounding errors remains."""
    size = wp.max(wp.max(wp.abs(near[0]), wp.abs(near[1])), wp.abs(near[2]))
    return view.relaxation * wp.max(gap - ROUNDING * size, 0.0)


@wp.func
def slacks(
    view: SelfContactView, edges: bool, n: wp.vec3, x0: wp.vec3, x1: wp.vec3, x2: wp.vec3, x3: wp.vec3
) -> wp.vec4:
    """Distance by which each corner may approach the other side of the pair along the normal [m].

    Each side may approach by the share `relaxation`, less than a half, of the gap between them. All points in
    between, and combinations of corners, keep the rest. Corners behind the foremost one may move further by
    their distance to it.
    """
    h = heights(edges, n, x0, x1, x2, x3)
    a = lowest_of_first(edges, h)
    b = lowest_of_second(edges, h)
    near = room_of_sides(view, a + b, x0)
    second = near - b
    first = near - a
    return h + wp.vec4(first, wp.where(edges, first, second), second, second)


@wp.func
def is_own_feature(view: SelfContactView, t: int, w: wp.vec4, p: wp.vec3, x: wp.array(dtype=wp.vec3)) -> bool:
    """Whether a triangle owns its feature nearest to p, and p lies in the region of the feature.

    Corners and sides belong to the first triangle that has them. Regions: Offset Geometric Contact, section
    3.3.
    """
    c = view.tree.corners[t]
    owned = view.tree.owned[t]
    zero = int(0)
    empty = int(0)
    full = int(0)
    for k in range(3):
        if w[k + 1] == 0.0:
            zero += 1
            empty = k
        else:
            full = k
    if zero == 0:
        return True
    if zero == 1:
        side = (empty + 1) % 3
        if (owned & (8 << side)) == 0:
            return False
        o = view.tree.across[t][side]
        if o < 0:
            return True
        a = x[c[side]]
        e = x[c[(side + 1) % 3]] - a
        arm = x[o] - a
        return wp.dot(p - a, arm - e * (wp.dot(arm, e) / wp.max(wp.dot(e, e), 1.0e-30))) <= 0.0
    if (owned & (1 << full)) == 0:
        return False
    v = c[full]
    a = x[v]
    for i in range(view.neighbor_start[v], view.neighbor_start[v + 1]):
        if wp.dot(p - a, x[view.neighbor[i]] - a) > 0.0:
            return False
    return True


@wp.func
def share_of_pair(
    view: SelfContactView,
    q: int,
    near: Nearest,
    p: wp.vec3,
    u: wp.vec3,
    v: wp.vec3,
    x: wp.array(dtype=wp.vec3),
) -> float:
    """Share of the stiffness that applies to a pair; p is its vertex, u and v its edges."""
    t = view.triangle[q]
    if t != EDGES:
        return wp.where(is_own_feature(view, t, near.weight, p, x), 1.0, 0.0)
    # nearest points at ends of edges belong to a vertex and a triangle
    if not is_inside(near.weight[1]) or not is_inside(-near.weight[3]):
        return 0.0
    n = wp.cross(u, v)
    c = wp.dot(n, n) / wp.max(FADING * wp.dot(u, u) * wp.dot(v, v), 1.0e-30)
    return wp.where(c < 1.0, (2.0 - c) * c, 1.0)


@wp.func
def press(radius: float, gap: float) -> wp.vec2:
    """Force and stiffness of a contact of unit stiffness: minus first and second derivative of its energy.

    With the radius r: (r - g)² / 2 down to g = r/2, then -(r²/4) log g + const.
    """
    if gap >= radius:
        return wp.vec2()
    if gap >= 0.5 * radius:
        return wp.vec2(radius - gap, 1.0)
    scale = 0.25 * radius * radius
    g = wp.max(gap, DEEPEST * radius)
    second = scale / (g * g)
    return wp.vec2(scale / g + second * (g - gap), second)


@wp.kernel
def start_sweep(first: int, x: wp.array(dtype=wp.vec3), view: SelfContactView):
    """One thread per particle: set the origin of the planes that follow."""
    i = first + wp.tid()
    view.origin[i] = x[i]
    view.free[i] = FAR
    view.hold[i] = 0.0


@wp.func
def refresh_pair(view: SelfContactView, q: int, x: wp.array(dtype=wp.vec3), x_start: wp.array(dtype=wp.vec3)):
    """Nearest points, plane and normal force of one pair at the positions x."""
    c = view.corners[q]
    edges = view.triangle[q] == EDGES
    x0 = x[c[0]]
    x1 = x[c[1]]
    x2 = x[c[2]]
    x3 = x[c[3]]
    near = nearest_of_pair(edges, x0, x1, x2, x3, view.parallel)
    n = separating_normal(edges, near, x0, x1, x2, x3)
    slack = slacks(view, edges, n, x0, x1, x2, x3)
    view.weight[q] = near.weight
    view.normal[q] = n
    view.slack[q] = slack
    for k in range(4):
        wp.atomic_min(view.free, c[k], slack[k])
    load = float(0.0)
    radius = view.radius[q]
    share = float(0.0)
    if near.distance < ALERT * radius:
        share = share_of_pair(view, q, near, x0, x1 - x0, x3 - x2, x)
        load = share * view.stiffness * press(radius, near.distance)[0]
        view.before[q] = weighted(near.weight, x_start[c[0]], x_start[c[1]], x_start[c[2]], x_start[c[3]])
        most = view.friction * load
        for k in range(4):
            if most > 0.0:
                wp.atomic_add(view.hold, c[k], most * wp.abs(near.weight[k]) * view.inv_mass[c[k]])
    view.share[q] = share
    view.load[q] = load


@wp.kernel
def refresh_pairs(
    first: int,
    workers: int,
    x: wp.array(dtype=wp.vec3),
    x_start: wp.array(dtype=wp.vec3),
    view: SelfContactView,
):
    """One thread per worker of a world: every so-manieth pair of the world."""
    i = first + wp.tid()
    w = i // workers
    begin = view.pair_first[w]
    end = begin + wp.min(view.pair_count[w], view.pair_first[w + 1] - begin)
    for q in range(begin + i % workers, end, workers):
        refresh_pair(view, q, x, x_start)


@wp.func
def smoothed_below(view: SelfContactView, q: int, dt: float) -> float:
    """Slip of a pair in a step below which its friction is smoothed [m].

    With a smaller slip, friction would be far stiffer than inertia: particles that stick to each other would
    follow other forces only by a small share in each sweep. The remaining error would act as a spurious
    force, which adds energy where many are pressed together.
    """
    c = view.corners[q]
    hold = wp.max(wp.max(view.hold[c[0]], view.hold[c[1]]), wp.max(view.hold[c[2]], view.hold[c[3]]))
    return wp.max(view.friction_speed * dt, 2.0 * hold * dt * dt / view.grip)


@wp.func
def pair_terms(
    view: SelfContactView, q: int, corner: int, x: wp.array(dtype=wp.vec3), dt: float, terms: ContactTerms
) -> ContactTerms:
    """Add force and Hessian of one pair at one of its corners."""
    c = view.corners[q]
    weights = view.weight[q]
    w = weights[corner]
    n = view.normal[q]
    e = weighted(weights, x[c[0]], x[c[1]], x[c[2]], x[c[3]])
    moved = e - view.before[q]
    gap = wp.dot(n, e)
    climb = wp.dot(n, moved)
    radius = view.radius[q]
    share = view.share[q]
    terms.near += 1
    if gap < radius:
        terms.pressing += 1
    fk = share * view.stiffness * press(radius, gap)
    damping = share * view.damping * wp.clamp(2.0 - 2.0 * gap / radius, 0.0, 1.0) / dt
    slide = moved - climb * n
    size = wp.length(slide)
    reach = smoothed_below(view, q, dt)
    # slope of the smoothed friction by the slip
    drag = view.friction * view.load[q] * wp.where(size < reach, (2.0 - size / reach) / reach, 1.0 / size)
    terms.force += w * ((fk[0] - damping * climb) * n - drag * slide)
    nn = wp.outer(n, n)
    terms.hessian += (w * w) * ((fk[1] + damping - drag) * nn + drag * wp.identity(n=3, dtype=float))
    return terms


@wp.func
def self_contact_terms(view: SelfContactView, i: int, x: wp.array(dtype=wp.vec3), dt: float) -> ContactTerms:
    """Forces and their Hessian at a particle.

    Args:
        view: Pairs, refreshed in this sweep.
        i: The particle.
        x: Current positions of all particles [m].
        dt: Time step [s].
    """
    terms = ContactTerms()
    begin = view.start[i]
    for k in range(begin, begin + view.count[i]):
        entry = view.entry[k]
        q = entry >> 2
        if view.share[q] > 0.0:
            terms = pair_terms(view, q, entry & 3, x, dt, terms)
    return terms


@wp.func
def count_pressing(view: SelfContactView, i: int, x: wp.array(dtype=wp.vec3)) -> int:
    """Number of pairs of a particle that press at the current positions."""
    pressing = int(0)
    begin = view.start[i]
    for k in range(begin, begin + view.count[i]):
        q = view.entry[k] >> 2
        if view.share[q] > 0.0:
            c = view.corners[q]
            e = weighted(view.weight[q], x[c[0]], x[c[1]], x[c[2]], x[c[3]])
            if wp.dot(view.normal[q], e) < view.radius[q]:
                pressing += 1
    return pressing


@wp.func
def within_reach(reach: Reach, i: int, to: wp.vec3) -> wp.vec3:
    """Closest point to a target that particle i may reach until the next detection."""
    a = reach.anchor[i]
    u = to - a
    p = reach.path[i]
    along = p * wp.clamp(wp.dot(u, p) / wp.max(wp.dot(p, p), 1.0e-30), 0.0, 1.0)
    off = u - along
    size = wp.length(off)
    if size > reach.spread:
        u = along + off * (reach.spread / size)
    size = wp.length(u)
    if size > reach.limit[i]:
        u = u * (reach.limit[i] / size)
    return a + u


@wp.func
def is_within_reach(reach: Reach, i: int, to: wp.vec3) -> bool:
    """Whether particle i may move to a point."""
    slip = wp.length(within_reach(reach, i, to) - to)
    return slip <= 1.0e-3 * reach.spread


@wp.func
def corner_direction(view: SelfContactView, entry: int) -> wp.vec3:
    """Direction in which a corner of a pair moves away from the other side."""
    q = entry >> 2
    return side_of_corner(view.triangle[q] == EDGES, entry & 3) * view.normal[q]


@wp.func
def slide_along_planes(view: SelfContactView, i: int, u: wp.vec3) -> wp.vec3:
    """Displacement of particle i without its components through the planes, removed one after the other."""
    begin = view.start[i]
    for k in range(begin, begin + view.count[i]):
        entry = view.entry[k]
        n = corner_direction(view, entry)
        through = -wp.dot(n, u) - view.slack[entry >> 2][entry & 3]
        if through > 0.0:
            u += through * n
    return u


@wp.func
def part_before_planes(view: SelfContactView, i: int, u: wp.vec3) -> float:
    """Share of a displacement, 0 to 1, that crosses none of the planes of particle i."""
    part = float(1.0)
    begin = view.start[i]
    for k in range(begin, begin + view.count[i]):
        entry = view.entry[k]
        approach = -wp.dot(corner_direction(view, entry), u)
        slack = view.slack[entry >> 2][entry & 3]
        if approach * part > slack:
            part = slack / approach
    return part


@wp.func
def truncate(view: SelfContactView, i: int, to: wp.vec3) -> wp.vec3:
    """The position to which particle i may move.

    Args:
        view: Pairs, refreshed in this sweep.
        i: The particle.
        to: Its target [m].

    Returns:
        `to`, or a point before the planes of its pairs and within its reach.
    """
    to = within_reach(view.reach, i, to)
    origin = view.origin[i]
    u = to - origin
    if wp.length(u) <= view.free[i]:
        return to
    slid = slide_along_planes(view, i, u)
    if is_within_reach(view.reach, i, origin + slid):
        u = slid
    to = origin + u * part_before_planes(view, i, u)
    # rounding must not lead through a touched plane
    if part_before_planes(view, i, to - origin) < 1.0 - ROUNDING:
        return origin
    return to
