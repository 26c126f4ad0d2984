"""Contacts between particles and triangles of other particles in extended position-based dynamics.

A particle stays on that side of a triangle on which it was at the start of the substep, at a distance of its
own radius plus that of the triangle's corners (Bridson, Fedkiw, Anderson, "Robust treatment of collisions,
contact and friction for cloth animation", SIGGRAPH 2002, section 7, as constraints).

Stage: XPBD substep, contacts of particles with triangles
Called by: solvers/particles/surface_pairs.py
Reads: GridView, SurfacePairView, SurfaceView, start, v, x
Writes: SurfacePairView, shift
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.grid import SPANS, GridView, cell_of, is_placeable, span_of
from newtonsim.kernels.particles.self_contact.geometry import nearest_on_triangle

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most particles in contact with a triangle; the nearest ones are kept
NEAR = wp.constant(12)
# share of the overlap at the start of a substep that the substep removes
RECOVERY = wp.constant(0.2)
# distance from a triangle, in radii, below which contact is expected in the substep
EXPECTED = wp.constant(2.0)


@wp.struct
class SurfaceView:
    """T triangles between N particles."""

    corners: wp.array2d(dtype=int)  # (T, 3)
    world: wp.array(dtype=int)  # (N)
    body: wp.array(dtype=int)  # (N) connected body
    self_contact: wp.array(dtype=int)  # (N) whether a particle collides with its own body
    rest: wp.array(dtype=wp.vec3)  # (N) positions at rest [m]
    radius: wp.array(dtype=float)  # (N)
    mu: wp.array(dtype=float)  # (N) friction
    inv_mass: wp.array(dtype=float)  # (N)


@wp.struct
class SurfacePairView:
    """Contacts of T triangles, NEAR for each."""

    count: wp.array(dtype=int)  # (T)
    particle: wp.array2d(dtype=int)  # (T, NEAR)
    weight: wp.array2d(dtype=wp.vec3)  # of the corners in the nearest point
    normal: wp.array2d(dtype=wp.vec3)  # from the triangle to the particle
    least: wp.array2d(dtype=float)  # [m] target distance
    push: wp.array2d(dtype=float)  # impulse along the normal, times the length of the substep [kg m]
    hold: wp.array2d(dtype=wp.vec3)  # of friction, likewise
    dropped: wp.array(dtype=int)  # (1) number of contacts without a place


@wp.func
def may_touch(s: SurfaceView, i: int, a: int, b: int, c: int, least: float) -> bool:
    """Whether particle i may touch a triangle: not one of its own, nor one that it overlaps at rest."""
    if i == a or i == b or i == c or s.world[i] != s.world[a]:
        return False
    if s.body[i] != s.body[a]:
        return True
    if s.self_contact[i] == 0 or s.self_contact[a] == 0:
        return False
    w = nearest_on_triangle(s.rest[i], s.rest[a], s.rest[b], s.rest[c])
    return wp.length(s.rest[i] - s.rest[a] * w[0] - s.rest[b] * w[1] - s.rest[c] * w[2]) > least


@wp.func
def farthest(pairs: SurfacePairView, t: int) -> int:
    """Place of the contact with the largest distance."""
    place = int(0)
    for k in range(1, NEAR):
        if pairs.push[t, k] > pairs.push[t, place]:
            place = k
    return place


@wp.func
def note_pair(
    s: SurfaceView,
    t: int,
    i: int,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    pairs: SurfacePairView,
):
    """Record particle i as a contact of triangle t if it is near; `push` temporarily holds its distance."""
    a = s.corners[t, 0]
    b = s.corners[t, 1]
    c = s.corners[t, 2]
    least = s.radius[i] + s.radius[a]
    if not may_touch(s, i, a, b, c, least):
        return
    # relative to the first corner, so that no digits are lost far from the origin
    base = x[a] - v[a] * dt
    p0 = (x[i] - v[i] * dt) - base
    b0 = (x[b] - v[b] * dt) - base
    c0 = (x[c] - v[c] * dt) - base
    w = nearest_on_triangle(p0, wp.vec3(0.0), b0, c0)
    away = p0 - b0 * w[1] - c0 * w[2]
    before = wp.length(away)
    n = wp.vec3(0.0)
    if before > 1.0e-3 * least:
        n = away / before
    else:
        n = wp.normalize(wp.cross(b0, c0))
    speed = v[i] - v[a] * w[0] - v[b] * w[1] - v[c] * w[2]
    distance = before + wp.dot(n, speed) * dt
    if distance > EXPECTED * least:
        return
    place = pairs.count[t]
    if place == NEAR:
        wp.atomic_add(pairs.dropped, 0, 1)
        place = farthest(pairs, t)
        if distance >= pairs.push[t, place]:
            return
    else:
        pairs.count[t] = place + 1
    pairs.particle[t, place] = i
    pairs.weight[t, place] = w
    pairs.normal[t, place] = n
    pairs.least[t, place] = wp.min(least, before + RECOVERY * wp.max(least - before, 0.0))
    pairs.push[t, place] = distance


@wp.kernel
def find_surface_pairs(
    first: int,
    s: SurfaceView,
    grid: GridView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    pairs: SurfacePairView,
):
    """One thread per triangle: particles that come near it in the substep."""
    t = first + wp.tid()
    pairs.count[t] = 0
    a = s.corners[t, 0]
    centre = (x[a] + x[s.corners[t, 1]] + x[s.corners[t, 2]]) / 3.0
    if not is_placeable(centre):
        return
    r = grid.grid[a]
    cell = cell_of(grid, r, centre)
    for k in range(SPANS):
        span = span_of(grid, r, cell, k)
        for place in range(span[0], span[1]):
            note_pair(s, t, grid.order[place], x, v, dt, pairs)
    for k in range(pairs.count[t]):
        pairs.push[t, k] = 0.0
        pairs.hold[t, k] = wp.vec3(0.0)


@wp.func
def solve_pair(
    s: SurfaceView,
    t: int,
    k: int,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    pairs: SurfacePairView,
    shift: wp.array(dtype=wp.vec3),
):
    """Keep one particle away from a triangle, and hold it by friction."""
    i = pairs.particle[t, k]
    n = pairs.normal[t, k]
    weight = pairs.weight[t, k]
    moved = shift[i] + v[i] * dt
    start = (x[i] - v[i] * dt) - (x[s.corners[t, 0]] - v[s.corners[t, 0]] * dt)
    w = s.inv_mass[i]
    mu = 0.5 * (s.mu[i] + s.mu[s.corners[t, 0]])
    for c in range(3):
        j = s.corners[t, c]
        moved -= (shift[j] + v[j] * dt) * weight[c]
        start -= ((x[j] - v[j] * dt) - (x[s.corners[t, 0]] - v[s.corners[t, 0]] * dt)) * weight[c]
        w += weight[c] * weight[c] * s.inv_mass[j]
    if w <= 0.0:
        return
    old = pairs.push[t, k]
    push = wp.max(old + (pairs.least[t, k] - wp.dot(n, start + moved)) / w, 0.0)
    pairs.push[t, k] = push
    held = pairs.hold[t, k]
    hold = held - (moved - n * wp.dot(n, moved)) / w
    size = wp.length(hold)
    if size > mu * push:
        hold = hold * (mu * push / size)
    pairs.hold[t, k] = hold
    change = n * (push - old) + hold - held
    shift[i] = shift[i] + change * s.inv_mass[i]
    for c in range(3):
        j = s.corners[t, c]
        shift[j] = shift[j] - change * (weight[c] * s.inv_mass[j])


@wp.kernel
def solve_surface_pairs(
    first: int,
    start: wp.array(dtype=int),
    s: SurfaceView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    pairs: SurfacePairView,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per world: all its contacts, one after the other."""
    w = first + wp.tid()
    for t in range(start[w], start[w + 1]):
        for k in range(pairs.count[t]):
            solve_pair(s, t, k, x, v, dt, pairs, shift)
