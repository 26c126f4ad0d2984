"""Contacts between particles, with friction and cohesion, in extended position-based dynamics.

Macklin, Müller, Chentanez, Kim, "Unified particle physics for real-time applications", TOG 33(4), 2014,
sections 4 and 6.1; impulses are accumulated over the sweeps and kept in the friction cone as a whole. Each
pair belongs to the particle whose cell comes first. Blocks of cells of the same parity share no particle, so
that their eight colours are solved one after the other (as in Fratarcangeli, Tibaldo, Pellacini, "Vivace: a
practical Gauss-Seidel method for stable soft body dynamics", TOG 35(6), 2016, but with colours known in
advance).

Stage: XPBD substep, contacts between particles
Called by: solvers/particles/pairs.py, kernels/penalty/grains.py
Reads: GrainView, GridView, PairView, cell, point, shift, v, x
Writes: Pair, PairView, count, listed, shift
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.contacts import UNBOUNDED
from newtonsim.kernels.particles.grid import BLOCK_X, BLOCK_Y, BLOCK_Z, GridView, cell_number

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# runs of cells after a cell, which contain half of the neighbours of its particles; twice as many at borders
RUNS = wp.constant(5)
# share of the sum of radii within which pairs are listed before they touch
MARGIN = wp.constant(0.05)
# places for the pairs of a particle; if all are used, the search is repeated to write them
LISTED = wp.constant(12)
# distance at rest over the sum of radii below which two particles of one body are neighbours
NEIGHBOURS = wp.constant(1.25)
# [m²] square of the distance below which the direction between two particles is not used
TINY = wp.constant(1.0e-18)
# [kg² m²] square of the friction below which there is none
TINIEST = wp.constant(1.0e-36)


@wp.struct
class Grain:
    """A particle while pairs are solved; values used together are stored together."""

    x: wp.vec3  # [m] predicted
    motion: wp.vec3  # [m] displacement to it
    shift: wp.vec3  # [m] correction so far
    w: float  # [1/kg] inverse mass


@wp.struct
class Pair:
    """Two particles near each other."""

    one: int  # place of the first particle
    other: int  # place of the second one
    rest: float  # [m] distance to be kept
    mu: float  # coefficient of friction of both
    least: float  # [kg m] least push: 0, or less for pairs with cohesion
    push: float  # [kg m] impulse along the normal, times the length of the substep
    hold: wp.vec3  # [kg m] impulse of friction on the second, likewise


@wp.struct
class PairView:
    """Pairs by the cell of their first particle; P pairs, N places of particles by cell, see `GridView`."""

    count: wp.array(dtype=int)  # (N) pairs of the particle at each place
    start: wp.array(dtype=int)  # (N) first of them
    first: wp.array(dtype=int)  # (R + 1) first pair of each grid
    point: wp.array(dtype=wp.vec4)  # (N) position and radius of the particle at each place [m]
    cell: wp.array(dtype=int)  # (N) its cell, -1 for unused places
    listed: wp.array2d(dtype=int)  # (N, LISTED) places of its partners
    grain: wp.array(dtype=Grain)  # (N) the particle
    pair: wp.array(dtype=Pair)  # (P)
    dropped: wp.array(dtype=int)  # (1) number of pairs without a place


@wp.struct
class GrainView:
    """Contact parameters of N particles."""

    inv_mass: wp.array(dtype=float)  # [1/kg]
    radius: wp.array(dtype=float)  # [m]
    mu: wp.array(dtype=float)
    cohesion: wp.array(dtype=float)  # [m] gap up to which two particles cohere
    world: wp.array(dtype=int)  # -1 collides with all
    body: wp.array(dtype=int)  # number of the connected body, -1 for a particle without elements
    self_contact: wp.array(dtype=int)  # whether it collides with others of its own body
    rest: wp.array(dtype=wp.vec3)  # [m] positions at rest
    widest_cohesion: float  # [m]
    mixed: int  # whether worlds have to be compared
    plain: int  # whether any two particles may touch


@wp.func
def may_touch(grains: GrainView, i: int, j: int, touching: float) -> bool:
    """Whether two particles belong to worlds that collide, and are not neighbours in one body."""
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
    """Place of a cell that is at most one beyond the border of a periodic grid."""
    place = c
    if c < 0:
        place = cells - 1
    elif c == cells:
        place = 0
    return place


@wp.func
def run_after(grid: GridView, r: int, c: wp.vec3i, place: int, k: int) -> wp.vec2i:
    """Places of run k, of 2 RUNS, of the particles that come after the one at a place, in or near its cell.

    Run 0 is the rest of its cell and the next one along x; the others are lines of three cells in the next
    rows. Runs from RUNS on are those across the border of the grid.
    """
    n = grid.cells[r]
    line = int(k)
    if k >= RUNS:
        line = k - RUNS
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
    """Number of runs of a cell: twice as many at the border of the grid."""
    runs = int(RUNS)
    if c[0] == 0 or c[0] == grid.cells[r][0] - 1:
        runs = 2 * RUNS
    return runs


@wp.func
def come_near(p: wp.vec4, o: wp.vec4, cohesion: float) -> bool:
    """Whether two particles, given as positions and radii, are near enough to be listed."""
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
    """One thread per place: gather the data of its particle."""
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
    """One thread per place: gather the correction of its particle."""
    a = first + wp.tid()
    i = grid.order[a]
    if i >= 0:
        pairs.grain[a].shift = shift[i]


@wp.kernel
def scatter_shifts(first: int, grid: GridView, pairs: PairView, shift: wp.array(dtype=wp.vec3)):
    """One thread per place: return the correction of its particle."""
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
    """One thread per place: find the pairs of its particle with those that come after it."""
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
                # written in any case, since the branch is hard to predict
                listed[a, wp.min(found, LISTED - 1)] = b
                found += int(touch)
    count[a] = found


@wp.func
def new_pair(grid: GridView, grains: GrainView, a: int, p: wp.vec4, b: int, o: wp.vec4) -> Pair:
    """Pair of the particles at places a and b, of positions and radii p and o."""
    i = grid.order[a]
    j = grid.order[b]
    pair = Pair()
    pair.one = a
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
            pair[start + k] = new_pair(grid, grains, a, p, b, point[b])
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
                    pair[start + found] = new_pair(grid, grains, a, p, b, o)
                    found += 1


@wp.func
def solve_pair(k: int, grain: wp.array(dtype=Grain), pairs: wp.array(dtype=Pair)):
    """Push the particles of pair k apart, and hold them by friction."""
    pair = pairs[k]
    me = grain[pair.one]
    other = grain[pair.other]
    w = me.w + other.w
    apart = me.x - other.x
    moved = me.shift - other.shift
    d = apart + moved
    motion = me.motion - other.motion
    # computed in any case, since the branch is hard to predict
    touches = w > 0.0 and (pair.push != 0.0 or pair.least < 0.0 or wp.length_sq(d) < pair.rest * pair.rest)
    # they may have passed through each other
    direction = wp.where(wp.dot(d, apart - motion) < 0.0, apart - motion, d)
    square = wp.length_sq(direction)
    direction = direction * (1.0 / wp.sqrt(wp.max(square, TINY)))
    direction = wp.where(square > TINY, direction, wp.vec3(0.0, 1.0, 0.0))
    inverse = 1.0 / wp.where(touches, w, 1.0)
    push = wp.max(pair.push + (pair.rest - wp.dot(d, direction)) * inverse, pair.least)
    push = wp.where(touches, push, pair.push)
    slide = motion + moved
    slide = slide - direction * wp.dot(direction, slide)
    hold = pair.hold + slide * inverse
    most = pair.mu * wp.abs(push)
    hold = hold * wp.min(most / wp.sqrt(wp.max(wp.length_sq(hold), TINIEST)), 1.0)
    change = direction * (push - pair.push) - (hold - pair.hold)
    pairs[k].push = push
    pairs[k].hold = hold
    grain[pair.other].shift = other.shift - change * other.w
    grain[pair.one].shift = me.shift + change * me.w


@wp.func
def corner_of(n: wp.vec3i, colour: int, t: int) -> wp.vec3i:
    """First cell of block t of a colour in a grid of n cells."""
    across = n[0] / (2 * BLOCK_X)
    along = n[1] / (2 * BLOCK_Y)
    x = BLOCK_X * (2 * (t % across) + (colour & 1))
    y = BLOCK_Y * (2 * (t / across % along) + ((colour >> 1) & 1))
    z = BLOCK_Z * (2 * (t / (across * along)) + (colour >> 2))
    return wp.vec3i(x, y, z)


@wp.func
def pairs_of_row(grid: GridView, pairs: PairView, r: int, corner: wp.vec3i, row: int) -> wp.vec2i:
    """Pairs of a row of the cells of a block in grid r: first and end."""
    beside = wp.vec3i(0, row % BLOCK_Y, row / BLOCK_Y)
    cell = cell_number(grid, r, corner + beside)
    last = cell + BLOCK_X - 1
    a = grid.start[cell]
    b = grid.start[last] + grid.count[last] - 1
    if b < a:
        return wp.vec2i(0, 0)
    # there may not have been room for all
    return wp.vec2i(pairs.start[a], wp.min(pairs.start[b] + pairs.count[b], pairs.first[r + 1]))


@wp.kernel
def solve_pairs(first: int, colour: int, grid: GridView, pairs: PairView):
    """One thread per two blocks of cells of one colour: solve the pairs of their particles.

    The blocks share no particle: a processor works on a pair of one block while it waits for the other.
    """
    volume = BLOCK_X * BLOCK_Y * BLOCK_Z
    block = first + wp.tid()
    r = grid.cell_grid[8 * volume * block]
    t = block - grid.cell_first[r] / (8 * volume)
    n = grid.cells[r]
    blocks = n[0] * n[1] * n[2] / (8 * volume)
    half = (blocks + 1) / 2
    if t >= half:
        return
    corner = corner_of(n, colour, t)
    twin = corner_of(n, colour, t + half)
    for row in range(BLOCK_Y * BLOCK_Z):
        one = pairs_of_row(grid, pairs, r, corner, row)
        two = wp.vec2i(0, 0)
        if t + half < blocks:
            two = pairs_of_row(grid, pairs, r, twin, row)
        both = wp.max(wp.min(one[1] - one[0], two[1] - two[0]), 0)
        for k in range(both):
            solve_pair(one[0] + k, pairs.grain, pairs.pair)
            solve_pair(two[0] + k, pairs.grain, pairs.pair)
        for k in range(one[0] + both, one[1]):
            solve_pair(k, pairs.grain, pairs.pair)
        for k in range(two[0] + both, two[1]):
            solve_pair(k, pairs.grain, pairs.pair)
