"""Pairs of vertices and triangles, and of edges, that can touch until the next detection.

Every pair of overlapping triangle boxes is visited once. Corners and sides belong to the first triangle that
has them (representative triangles: Curtis, Tamstorf, Manocha, "Fast collision detection for deformable models
using representative-triangles", I3D 2008), so that no pair is listed twice.

Stage: self-contact, detection
Called by: solvers/particles/self_contact.py, kernels/particles/self_contact/prescribed_motion.py
Reads: Search, SelfContactView, busy, flags, inv_mass, particle_start, target, x
Writes: Search, SelfContactView, x
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.self_contact.bvh_surface import boxes_overlap
from newtonsim.kernels.particles.self_contact.contact import (
    EDGES,
    FAR,
    SelfContactView,
    heights,
    lowest_of_first,
    lowest_of_second,
    nearest_of_pair,
    side_of_corner,
)
from newtonsim.kernels.steps.integrate import PARTICLE_FLAG_ACTIVE

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# the search reaches slightly beyond the region of the particles, because of rounding
SAFETY = wp.constant(1.01)
# share of their rest distance at which two parts of one surface press on each other
OF_REST = wp.constant(0.5)
# particles from which the common displacement is estimated
SAMPLES = wp.constant(16)


@wp.struct
class Search:
    """Data of the detection besides the pairs."""

    rest: wp.array(dtype=wp.vec3)  # (P) positions at rest [m]
    component: wp.array(dtype=int)  # (P) number of the connected surface
    held: wp.array(dtype=int)  # (P) 1 if the user moves the particle, 2 if it stands still
    cursor: wp.array(dtype=int)  # (W) entries handed out to particles
    filled: wp.array(dtype=int)  # (P) entries written
    stopped: wp.array(dtype=int)  # (W) 1 if the particles do not move together
    drift: wp.array(dtype=wp.vec3)  # (W) common displacement [m]
    dropped: wp.array(dtype=int)  # (W) pairs without room, summed over all detections
    radius: float  # [m]


@wp.func
def is_held(inv_mass: wp.array(dtype=float), flags: wp.array(dtype=wp.uint32), i: int) -> bool:
    """Whether particle i is held, that is, not moved by the solver."""
    return inv_mass[i] == 0.0 or (flags[i] & PARTICLE_FLAG_ACTIVE) == wp.uint32(0)


@wp.kernel
def stop_drift(
    first: int,
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    busy: wp.array(dtype=int),
    view: SelfContactView,
    search: Search,
):
    """One thread per particle: if it is held or may touch a shape, its world does not drift as a whole."""
    i = first + wp.tid()
    if busy[i] > 0 or is_held(inv_mass, flags, i):
        wp.atomic_max(search.stopped, view.world[i], 1)


@wp.kernel
def find_drift(
    first: int,
    x: wp.array(dtype=wp.vec3),
    target: wp.array(dtype=wp.vec3),
    particle_start: wp.array(dtype=int),
    search: Search,
):
    """One thread per world: the common displacement of its particles, estimated from some of them."""
    w = first + wp.tid()
    begin = particle_start[w]
    count = particle_start[w + 1] - begin
    drift = wp.vec3()
    if search.stopped[w] == 0 and count > 0:
        samples = wp.min(count, SAMPLES)
        for k in range(samples):
            i = begin + (k * (count - 1)) // wp.max(samples - 1, 1)
            drift += (target[i] - x[i]) / float(samples)
    search.drift[w] = drift
    search.stopped[w] = 0


@wp.kernel
def let_drift(first: int, view: SelfContactView, search: Search, x: wp.array(dtype=wp.vec3)):
    """One thread per particle: move with the whole world, which changes no distance."""
    i = first + wp.tid()
    x[i] = x[i] + search.drift[view.world[i]]


@wp.kernel
def begin_search(
    first: int,
    inv_mass: wp.array(dtype=float),
    flags: wp.array(dtype=wp.uint32),
    x: wp.array(dtype=wp.vec3),
    target: wp.array(dtype=wp.vec3),
    view: SelfContactView,
    search: Search,
):
    """One thread per particle: set its reach until the next detection, and clear its pairs."""
    i = first + wp.tid()
    p = x[i]
    path = target[i] - p
    size = wp.length(path)
    longest = view.reach.longest[view.world[i]]
    if size > longest:
        path = path * (longest / size)
    spread = view.reach.spread * SAFETY
    search.held[i] = 0
    view.inv_mass[i] = inv_mass[i]
    if is_held(inv_mass, flags, i):
        search.held[i] = 1
        view.inv_mass[i] = 0.0
        if size == 0.0:
            search.held[i] = 2
            spread = 0.0
    view.reach.anchor[i] = p
    view.reach.path[i] = path
    view.reach.limit[i] = FAR
    around = wp.vec3(1.0, 1.0, 1.0) * (spread + view.reach.half_radius)
    view.reach.lower[i] = p + wp.min(path, wp.vec3()) - around
    view.reach.upper[i] = p + wp.max(path, wp.vec3()) + around
    view.count[i] = 0
    search.filled[i] = 0


@wp.kernel
def begin_worlds(first: int, view: SelfContactView, search: Search):
    """One thread per world: clear its pairs."""
    w = first + wp.tid()
    view.pair_count[w] = 0
    search.cursor[w] = 0


@wp.func
def approach(view: SelfContactView, search: Search, i: int, away: wp.vec3) -> float:
    """Distance by which particle i may move against a direction until the next detection [m]."""
    spread = wp.where(search.held[i] == 2, 0.0, view.reach.spread * SAFETY)
    return spread + wp.max(0.0, -wp.dot(view.reach.path[i], away))


@wp.func
def closest_meeting(
    view: SelfContactView, search: Search, edges: bool, c: wp.vec4i, n: wp.vec3, h: wp.vec4
) -> float:
    """Smallest separation along the normal that a pair can have until the next detection [m]."""
    for k in range(4):
        h[k] -= approach(view, search, c[k], n * side_of_corner(edges, k))
    return lowest_of_first(edges, h) + lowest_of_second(edges, h)


@wp.func
def radius_of_pair(view: SelfContactView, search: Search, edges: bool, c: wp.vec4i) -> float:
    """Contact radius of a pair: less than its rest distance if both belong to one surface."""
    if search.component[c[0]] != search.component[c[2]]:
        return search.radius
    x0 = search.rest[c[0]]
    x1 = search.rest[c[1]]
    x2 = search.rest[c[2]]
    x3 = search.rest[c[3]]
    size = wp.max(wp.length(x1 - x2), wp.length(x3 - x2))
    size = size + wp.where(edges, wp.length(x1 - x0), 0.0)
    if OF_REST * (wp.length(x0 - x2) - size) > search.radius:
        return search.radius
    near = nearest_of_pair(edges, x0, x1, x2, x3, view.parallel)
    return wp.min(search.radius, OF_REST * near.distance)


@wp.func
def drop_pair(view: SelfContactView, search: Search, w: int, c: wp.vec4i, distance: float):
    """Handle a pair without room: its corners may move no further than a share of the distance."""
    wp.atomic_add(search.dropped, w, 1)
    for k in range(4):
        wp.atomic_min(view.reach.limit, c[k], view.relaxation * distance)


@wp.func
def add_pair(view: SelfContactView, search: Search, w: int, t: int, c: wp.vec4i, x: wp.array(dtype=wp.vec3)):
    """List a pair if it can come into contact."""
    if search.held[c[0]] + search.held[c[1]] + search.held[c[2]] + search.held[c[3]] == 8:
        return
    edges = t == EDGES
    x0 = x[c[0]]
    x1 = x[c[1]]
    x2 = x[c[2]]
    x3 = x[c[3]]
    near = nearest_of_pair(edges, x0, x1, x2, x3, view.parallel)
    h = heights(edges, near.normal, x0, x1, x2, x3)
    if closest_meeting(view, search, edges, c, near.normal, h) > search.radius:
        return
    place = view.pair_first[w] + wp.atomic_add(view.pair_count, w, 1)
    if place >= view.pair_first[w + 1]:
        drop_pair(view, search, w, c, near.distance)
        return
    view.corners[place] = c
    view.triangle[place] = t
    view.radius[place] = radius_of_pair(view, search, edges, c)
    for k in range(4):
        wp.atomic_add(view.count, c[k], 1)


@wp.func
def add_vertices(view: SelfContactView, search: Search, w: int, a: int, b: int, x: wp.array(dtype=wp.vec3)):
    """List the corners that triangle a owns with triangle b."""
    c = view.tree.corners[a]
    d = view.tree.corners[b]
    owned = view.tree.owned[a]
    for k in range(3):
        v = c[k]
        if (owned & (1 << k)) != 0 and v != d[0] and v != d[1] and v != d[2]:
            low = view.reach.lower[v]
            high = view.reach.upper[v]
            if boxes_overlap(low, high, view.tree.triangle_lower[b], view.tree.triangle_upper[b]):
                add_pair(view, search, w, b, wp.vec4i(v, d[0], d[1], d[2]), x)


@wp.func
def add_edges(view: SelfContactView, search: Search, w: int, a: int, b: int, x: wp.array(dtype=wp.vec3)):
    """List the sides that triangle a owns with those that triangle b owns."""
    c = view.tree.corners[a]
    d = view.tree.corners[b]
    ours = view.tree.owned[a]
    theirs = view.tree.owned[b]
    for k in range(3):
        if (ours & (8 << k)) != 0:
            p = c[k]
            q = c[(k + 1) % 3]
            low = wp.min(view.reach.lower[p], view.reach.lower[q])
            high = wp.max(view.reach.upper[p], view.reach.upper[q])
            for l in range(3):
                r = d[l]
                s = d[(l + 1) % 3]
                if (theirs & (8 << l)) != 0 and p != r and p != s and q != r and q != s:
                    below = wp.min(view.reach.lower[r], view.reach.lower[s])
                    above = wp.max(view.reach.upper[r], view.reach.upper[s])
                    if boxes_overlap(low, high, below, above):
                        add_pair(view, search, w, EDGES, wp.vec4i(p, q, r, s), x)


@wp.func
def meet_leaves(view: SelfContactView, search: Search, w: int, i: int, j: int, x: wp.array(dtype=wp.vec3)):
    """List the pairs between the triangles of two leaves, or within one."""
    tree = view.tree
    for a in range(tree.leaf_start[i], tree.leaf_start[i + 1]):
        low = tree.triangle_lower[a]
        high = tree.triangle_upper[a]
        for b in range(wp.max(tree.leaf_start[j], a + 1), tree.leaf_start[j + 1]):
            if boxes_overlap(low, high, tree.triangle_lower[b], tree.triangle_upper[b]):
                add_vertices(view, search, w, a, b, x)
                add_vertices(view, search, w, b, a, x)
                add_edges(view, search, w, a, b, x)


@wp.kernel
def find_pairs(first: int, x: wp.array(dtype=wp.vec3), view: SelfContactView, search: Search):
    """One thread per leaf: pairs with itself and with the leaves after it."""
    leaf = first + wp.tid()
    w = view.tree.leaf_world[leaf]
    base = view.tree.world_leaf[w]
    leaves = view.tree.world_leaves[w]
    own = leaf - base
    low = view.tree.lower[2 * base + leaves + own]
    high = view.tree.upper[2 * base + leaves + own]
    node = int(1)
    width = int(leaves)  # leaves below the node
    while node != 0:
        last = (node + 1) * width - 1 - leaves
        inner = bool(False)
        if last >= own and boxes_overlap(
            low, high, view.tree.lower[2 * base + node], view.tree.upper[2 * base + node]
        ):
            if width > 1:
                inner = True
            else:
                meet_leaves(view, search, w, leaf, base + node - leaves, x)
        if inner:
            node = 2 * node
            width = width // 2
        else:  # the next node that is not below this one
            while (node & 1) == 1:
                node = node >> 1
                width = width * 2
            if node != 0:
                node = node + 1


@wp.kernel
def place_entries(first: int, view: SelfContactView, search: Search):
    """One thread per particle: room for the entries of its pairs."""
    i = first + wp.tid()
    w = view.world[i]
    count = view.count[i]
    if count > 0:
        view.start[i] = 4 * view.pair_first[w] + wp.atomic_add(search.cursor, w, count)


@wp.kernel
def fill_entries(first: int, workers: int, view: SelfContactView, search: Search):
    """One thread per worker of a world: enter its pairs, at a fixed stride, at their corners."""
    i = first + wp.tid()
    w = i // workers
    begin = view.pair_first[w]
    end = begin + wp.min(view.pair_count[w], view.pair_first[w + 1] - begin)
    for q in range(begin + i % workers, end, workers):
        c = view.corners[q]
        for k in range(4):
            v = c[k]
            view.entry[view.start[v] + wp.atomic_add(search.filled, v, 1)] = 4 * q + k
