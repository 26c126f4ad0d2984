"""Contact of particles with each other in extended position-based dynamics: friction, cohesion.

Macklin, Müller, Chentanez, Kim, "Unified particle physics for real-time applications", TOG 33(4), 2014,
sections 4 and 6.1; impulses are accumulated over the sweeps and kept in the friction cone as a whole. Each
pair belongs to the particle whose cell comes first. Blocks of cells of the same parity share no particle, so
that eight colours of them are solved one after the other (as in Fratarcangeli, Tibaldo, Pellacini, "Vivace: a
practical Gauss-Seidel method for stable soft body dynamics", TOG 35(6), 2016, but known from the start).
"""

import warp as wp

from newtonsim.kernels.particle_grid import BLOCK_X, BLOCK_Y, BLOCK_Z, GridView, cell_number
from newtonsim.kernels.xpbd_contacts import UNBOUNDED, within_cone

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# runs of cells after a cell, among which half of the neighbours of its particles are; twice, for the borders
RUNS = wp.constant(5)
# part of the sum of radii within which pairs are listed that do not touch
MARGIN = wp.constant(0.05)
# places for the pairs that a particle is seen to have; who has as many is searched again when they are written
LISTED = wp.constant(12)
# distance at rest over the sum of radii below which two particles of one body are neighbours
NEIGHBOURS = wp.constant(1.25)
# [m²] square of the distance below which the direction between two particles is not used
TINY = wp.constant(1.0e-18)


@wp.struct
class Grain:
    """A particle while pairs are solved: what belongs together is read together."""

    x: wp.vec3  # [m] predicted
    motion: wp.vec3  # [m] that has led there
    shift: wp.vec3  # [m] correction so far
    w: float  # [1/kg] inverse mass


@wp.struct
class Pair:
    """Two particles near each other."""

    other: int  # place of the second particle
    rest: float  # [m] distance to be kept
    mu: float  # coefficient of friction of both
    least: float  # [kg m] least push: 0, or less for pairs that hold together
    push: float  # [kg m] impulse along the normal, times the length of the substep
    hold: wp.vec3  # [kg m] impulse of friction on the second, likewise


@wp.struct
class PairView:
    """Pairs by the cell of their first particle; P pairs, N places of particles by cell, see `GridView`."""

    count: wp.array(dtype=int)  # (N) pairs of the particle at each place
    start: wp.array(dtype=int)  # (N) first of them
    first: wp.array(dtype=int)  # (R + 1) first pair of each grid
    point: wp.array(dtype=wp.vec4)  # (N) position and radius of the particle at each place [m]
    cell: wp.array(dtype=int)  # (N) its cell, -1 for places that are left over
    listed: wp.array2d(dtype=int)  # (N, LISTED) places of those it makes pairs with
    grain: wp.array(dtype=Grain)  # (N) the particle
    pair: wp.array(dtype=Pair)  # (P)
    dropped: wp.array(dtype=int)  # (1) pairs that there was no place for


@wp.struct
class GrainView:
    """What decides about contact between particles; N of them."""

    inv_mass: wp.array(dtype=float)  # [1/kg]
    radius: wp.array(dtype=float)  # [m]
    mu: wp.array(dtype=float)
    cohesion: wp.array(dtype=float)  # [m] gap up to which two hold together
    world: wp.array(dtype=int)  # -1 meets all
    body: wp.array(dtype=int)  # number of the connected body, -1 for a particle without elements
    self_contact: wp.array(dtype=int)  # whether it meets others of its own body
    rest: wp.array(dtype=wp.vec3)  # [m] positions at rest
    widest_cohesion: float  # [m]
    mixed: int  # whether worlds have to be compared
    plain: int  # whether any two particles may touch


@wp.func
def may_touch(grains: GrainView, i: int, j: int, touching: float) -> bool:
    """Whether two particles are of worlds that meet, and not neighbours of one body."""
    body = grains.body[i]
    if body >= 0 and body == grains.body[j]:
        if grains.self_contact[i] == 0 or grains.self_contact[j] == 0:
            return False
        apart = NEIGHBOURS * touching
        if wp.length_sq(grains.rest[i] - grains.rest[j]) < apart * apart:
            return False
    if grains.mixed != 0:
        if grains.world[i] >= 0 and grains.world[j] >= 0 and grains.world[i] != grains.world[j]:
            return False
    return grains.inv_mass[i] + grains.inv_mass[j] > 0.0


@wp.func
def wrapped(c: int, cells: int) -> int:
    """Place of a cell that is at most one beyond the border of a grid that repeats itself."""
    place = c
    if c < 0:
        place = cells - 1
    elif c == cells:
        place = 0
    return place


@wp.func
def run_after(grid: GridView, r: int, c: wp.vec3i, place: int, k: int) -> wp.vec2i:
    """Places of run k, of 2 RUNS, of the particles that come after the one at a place, in or near its cell.

    Run 0 is the rest of its cell and the next one along x; the other ones are lines of three cells in the
    next rows. Runs from RUNS on are what lies across the border of the grid.
    """
    n = grid.cells[r]
    line = k % RUNS
    low = c[0] - 1
    if line == 0:
        low = c[0]
    high = c[0] + 1
    if k < RUNS:
        low = wp.max(low, 0)
        high = wp.min(high, n[0] - 1)
    elif high == n[0]:
        low = int(0)
        high = int(0)
    elif low < 0:
        low = n[0] - 1
        high = low
    else:
        return wp.vec2i(0, 0)
    y = c[1]
    z = c[2]
    if line == 1:
        y = wrapped(y + 1, n[1])
    elif line > 1:
        y = wrapped(y + line - 3, n[1])
        z = wrapped(z + 1, n[2])
    row = cell_number(grid, r, wp.vec3i(0, y, z))
    first = grid.start[row + low]
    if k == 0:
        first = place + 1
    return wp.vec2i(first, grid.start[row + high] + grid.count[row + high])


@wp.func
def run_count(grid: GridView, r: int, c: wp.vec3i) -> int:
    """How many runs a cell has: twice as many at the border of the grid."""
    runs = int(RUNS)
    if c[0] == 0 or c[0] == grid.cells[r][0] - 1:
        runs = 2 * RUNS
    return runs


@wp.func
def come_near(p: wp.vec4, o: wp.vec4, cohesion: float) -> bool:
    """Whether two particles, as positions and radii, are so near that they are listed."""
    reach = (1.0 + MARGIN) * (p[3] + o[3]) + cohesion
    x = p[0] - o[0]
    y = p[1] - o[1]
    z = p[2] - o[2]
    return x * x + y * y + z * z < reach * reach


@wp.kernel
def gather_points(
    first: int,
    grid: GridView,
    grains: GrainView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    pairs: PairView,
):
    """One thread per place: bring together what is known of the particle there."""
    a = first + wp.tid()
    i = grid.order[a]
    cell = int(-1)
    if i >= 0:
        cell = grid.cell[i]
        p = x[i]
        pairs.point[a] = wp.vec4(p[0], p[1], p[2], grains.radius[i])
        grain = Grain()
        grain.x = p
        grain.motion = v[i] * dt
        grain.w = grains.inv_mass[i]
        pairs.grain[a] = grain
    pairs.cell[a] = cell


@wp.kernel
def gather_shifts(first: int, grid: GridView, shift: wp.array(dtype=wp.vec3), pairs: PairView):
    """One thread per place: bring the correction of the particle there."""
    a = first + wp.tid()
    i = grid.order[a]
    if i >= 0:
        pairs.grain[a].shift = shift[i]


@wp.kernel
def scatter_shifts(first: int, grid: GridView, pairs: PairView, shift: wp.array(dtype=wp.vec3)):
    """One thread per place: return the correction of the particle there."""
    a = first + wp.tid()
    i = grid.order[a]
    if i >= 0:
        shift[i] = pairs.grain[a].shift


@wp.kernel
def count_pairs(
    first: int,
    grid: GridView,
    grains: GrainView,
    point: wp.array(dtype=wp.vec4),
    cell: wp.array(dtype=int),
    listed: wp.array2d(dtype=int),
    count: wp.array(dtype=int),
):
    """One thread per place: find the pairs that the particle there has with those that come after it."""
    a = first + wp.tid()
    found = int(0)
    cohesion = grains.widest_cohesion
    plain = grains.plain
    if cell[a] >= 0:
        r = grid.cell_grid[cell[a]]
        i = grid.order[a]
        c = grid.place[i]
        p = point[a]
        for k in range(run_count(grid, r, c)):
            run = run_after(grid, r, c, a, k)
            for b in range(run[0], run[1]):
                o = point[b]
                touch = come_near(p, o, cohesion)
                if plain == 0:
                    if touch:
                        touch = may_touch(grains, i, grid.order[b], p[3] + o[3])
                # written in any case: which are near is known too late to guess
                listed[a, wp.min(found, LISTED - 1)] = b
                found += int(touch)
    count[a] = found


@wp.func
def new_pair(grid: GridView, grains: GrainView, i: int, p: wp.vec4, b: int, o: wp.vec4) -> Pair:
    """Pair of particle i with the one at place b, of positions and radii p and o."""
    j = grid.order[b]
    pair = Pair()
    pair.other = b
    pair.rest = p[3] + o[3]
    pair.mu = 0.5 * (grains.mu[i] + grains.mu[j])
    stick = 0.5 * (grains.cohesion[i] + grains.cohesion[j])
    if stick > 0.0:
        if wp.length(wp.vec3(p[0] - o[0], p[1] - o[1], p[2] - o[2])) < pair.rest + stick:
            pair.least = -UNBOUNDED
    return pair


@wp.kernel
def write_pairs(
    first: int,
    grid: GridView,
    grains: GrainView,
    point: wp.array(dtype=wp.vec4),
    pairs: PairView,
    pair: wp.array(dtype=Pair),
):
    """One thread per place: the pairs of its particle, as far as there is room in the grid."""
    a = first + wp.tid()
    count = pairs.count[a]
    if count == 0:
        return
    r = grid.cell_grid[pairs.cell[a]]
    start = pairs.start[a]
    most = wp.clamp(pairs.first[r + 1] - start, 0, count)
    if most < count:
        wp.atomic_add(pairs.dropped, 0, count - most)
        pairs.count[a] = most
    i = grid.order[a]
    p = point[a]
    if count < LISTED:
        for k in range(most):
            b = pairs.listed[a, k]
            pair[start + k] = new_pair(grid, grains, i, p, b, point[b])
        return
    c = grid.place[i]
    found = int(0)
    for k in range(run_count(grid, r, c)):
        run = run_after(grid, r, c, a, k)
        for b in range(run[0], run[1]):
            o = point[b]
            if come_near(p, o, grains.widest_cohesion) and found < most:
                touch = bool(True)
                if grains.plain == 0:
                    touch = may_touch(grains, i, grid.order[b], p[3] + o[3])
                if touch:
                    pair[start + found] = new_pair(grid, grains, i, p, b, o)
                    found += 1


@wp.func
def solve_particle(a: int, begin: int, end: int, grain: wp.array(dtype=Grain), pairs: wp.array(dtype=Pair)):
    """Solve the pairs of the particle at place a, one after the other."""
    me = grain[a]
    s_i = me.shift
    for k in range(begin, end):
        pair = pairs[k]
        other = grain[pair.other]
        w = me.w + other.w
        apart = me.x - other.x
        d = apart + (s_i - other.shift)
        touches = pair.push != 0.0 or pair.least < 0.0 or wp.length_sq(d) < pair.rest * pair.rest
        if touches and w > 0.0:
            motion = me.motion - other.motion
            # they may have gone through each other
            direction = d
            if wp.dot(d, apart - motion) < 0.0:
                direction = apart - motion
            square = wp.length_sq(direction)
            if square > TINY:
                direction = direction * (1.0 / wp.sqrt(square))
            else:
                direction = wp.vec3(0.0, 1.0, 0.0)
            inverse = 1.0 / w
            push = wp.max(pair.push + (pair.rest - wp.dot(d, direction)) * inverse, pair.least)
            slide = motion + (s_i - other.shift)
            slide = slide - direction * wp.dot(direction, slide)
            hold = within_cone(pair.hold + slide * inverse, pair.mu * wp.abs(push))
            change = direction * (push - pair.push) - (hold - pair.hold)
            pairs[k].push = push
            pairs[k].hold = hold
            grain[pair.other].shift = other.shift - change * other.w
            s_i = s_i + change * me.w
    grain[a].shift = s_i


@wp.kernel
def solve_pairs(
    first: int,
    colour: int,
    grid: GridView,
    start: wp.array(dtype=int),
    count: wp.array(dtype=int),
    grain: wp.array(dtype=Grain),
    pairs: wp.array(dtype=Pair),
):
    """One thread per block of cells of one colour: push its particles apart and hold them by friction."""
    volume = BLOCK_X * BLOCK_Y * BLOCK_Z
    block = first + wp.tid()
    r = grid.cell_grid[8 * volume * block]
    t = block - grid.cell_first[r] / (8 * volume)
    n = grid.cells[r]
    across = n[0] / (2 * BLOCK_X)
    along = n[1] / (2 * BLOCK_Y)
    if t >= across * along * (n[2] / (2 * BLOCK_Z)):
        return
    c_x = BLOCK_X * (2 * (t % across) + (colour & 1))
    c_y = BLOCK_Y * (2 * (t / across % along) + ((colour >> 1) & 1))
    c_z = BLOCK_Z * (2 * (t / (across * along)) + (colour >> 2))
    for row in range(BLOCK_Y * BLOCK_Z):
        cell = cell_number(grid, r, wp.vec3i(c_x, c_y + row % BLOCK_Y, c_z + row / BLOCK_Y))
        last = cell + BLOCK_X - 1
        for a in range(grid.start[cell], grid.start[last] + grid.count[last]):
            if count[a] > 0:
                solve_particle(a, start[a], start[a] + count[a], grain, pairs)
