"""Particles of all worlds, sorted into the cells of a grid for neighbour search.

Each world has its own grid: a box of cells around its particles if there are enough cells, else a periodic
one, in which distant cells share a place (Teschner, Heidelberger, Müller, Pomeranets, Gross, "Optimized
spatial hashing for collision detection of deformable objects", VMV 2003). Particles are sorted by counting
(Green, "Particle simulation using CUDA", NVIDIA 2010), within each cell in the order of their indices.

Stage: broad phase of particles
Called by: solvers/particles/grid.py, kernels/particles/pairs.py, kernels/particles/surface_pairs.py,
    kernels/penalty/grains.py
Reads: GridView, base, chunk_first, chunk_start, count, total, x
Writes: GridView, start, total
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# runs of cells that contain all neighbours of a cell
SPANS = wp.constant(18)
# particles of a group, whose bounds one thread finds, and cells of a chunk, whose counts one thread sums
GROUP = wp.constant(256)
CHUNK = wp.constant(256)
# cells from the origin beyond which all share the last one
LAST_CELL = wp.constant(wp.float64(5.0e8))
# cells of a block; the number of blocks along each axis is even, so that neighbouring blocks have different
# parity, and each neighbour of a particle is visited once
BLOCK_X = wp.constant(8)
BLOCK_Y = wp.constant(2)
BLOCK_Z = wp.constant(2)


@wp.struct
class GridView:
    """Particles in cells; N particles, R grids, C cells, K chunks of cells, B groups of particles."""

    size: float  # [m] of a cell
    grid: wp.array(dtype=int)  # (N) grid of each particle
    first: wp.array(dtype=int)  # (R + 1) first particle of each grid
    cell_first: wp.array(dtype=int)  # (R + 1) first cell of each grid
    cell_grid: wp.array(dtype=int)  # (C) grid of each cell
    corner: wp.array(dtype=wp.vec3i)  # (R) lowest cell
    cells: wp.array(dtype=wp.vec3i)  # (R) along each axis, even
    cell: wp.array(dtype=int)  # (N) cell of each particle, -1 for none
    place: wp.array(dtype=wp.vec3i)  # (N) that cell, counted along the axes from the corner
    rank: wp.array(dtype=int)  # (N) its place among the particles there
    count: wp.array(dtype=int)  # (C) particles in each cell
    start: wp.array(dtype=int)  # (C) place of the first of them
    order: wp.array(dtype=int)  # (N) particles by cell, -1 at unused places
    group_first: wp.array(dtype=int)  # (B + 1) first particle of each group
    group_lower: wp.array(dtype=wp.vec3i)  # (B) bounds of the cells of its particles
    group_upper: wp.array(dtype=wp.vec3i)  # (B)
    group_start: wp.array(dtype=int)  # (R + 1) first group of each grid
    chunk_start: wp.array(dtype=int)  # (R + 1) first chunk of each grid
    chunk_sum: wp.array(dtype=int)  # (K)


@wp.func
def lattice(x: float, size: float) -> int:
    """Cell number of a coordinate, in double precision for particles far from the origin."""
    return int(wp.clamp(wp.floor(wp.float64(x) / wp.float64(size)), -LAST_CELL, LAST_CELL))


@wp.func
def lattice_cell(p: wp.vec3, size: float) -> wp.vec3i:
    """Cell of a point in an infinite grid."""
    return wp.vec3i(lattice(p[0], size), lattice(p[1], size), lattice(p[2], size))


@wp.func
def is_placeable(p: wp.vec3) -> bool:
    """Whether a point is finite."""
    return not wp.isnan(p[0] + p[1] + p[2])


@wp.func
def folded(c: int, cells: int) -> int:
    """Place of a cell, counted from the corner, in a periodic grid."""
    place = int(c)
    # a division would take longer than the rest of this search
    if c < 0 or c >= cells:
        place = c % cells
        if place < 0:
            place += cells
    return place


@wp.func
def cell_of(grid: GridView, r: int, p: wp.vec3) -> wp.vec3i:
    """Cell of a point in grid r."""
    c = lattice_cell(p, grid.size) - grid.corner[r]
    n = grid.cells[r]
    return wp.vec3i(folded(c[0], n[0]), folded(c[1], n[1]), folded(c[2], n[2]))


@wp.func
def cell_number(grid: GridView, r: int, c: wp.vec3i) -> int:
    """Number of a cell of grid r among all cells."""
    n = grid.cells[r]
    return grid.cell_first[r] + c[0] + n[0] * (c[1] + n[1] * c[2])


@wp.func
def span_of(grid: GridView, r: int, c: wp.vec3i, k: int) -> wp.vec2i:
    """Places in `order` of run k, of SPANS, of the neighbours of cell c of grid r: first and end."""
    n = grid.cells[r]
    line = k % 9
    y = folded(c[1] + line % 3 - 1, n[1])
    z = folded(c[2] + line / 3 - 1, n[2])
    low = wp.max(c[0] - 1, 0)
    high = wp.min(c[0] + 1, n[0] - 1)
    if k >= 9:
        # the neighbour across the border, if there is one
        low = int(0)
        high = int(-1)
        if c[0] == 0:
            low = n[0] - 1
            high = n[0] - 1
        elif c[0] == n[0] - 1:
            high = int(0)
    if low > high:
        return wp.vec2i(0, 0)
    base = cell_number(grid, r, wp.vec3i(0, y, z))
    return wp.vec2i(grid.start[base + low], grid.start[base + high] + grid.count[base + high])


@wp.kernel
def bound_groups(first: int, x: wp.array(dtype=wp.vec3), grid: GridView):
    """One thread per group of particles: bounds of their cells."""
    b = first + wp.tid()
    lower = wp.vec3i(int(LAST_CELL), int(LAST_CELL), int(LAST_CELL))
    upper = -lower
    for i in range(grid.group_first[b], grid.group_first[b + 1]):
        if is_placeable(x[i]):
            c = lattice_cell(x[i], grid.size)
            lower = wp.min(lower, c)
            upper = wp.max(upper, c)
    grid.group_lower[b] = lower
    grid.group_upper[b] = upper


@wp.kernel
def lay_out_grids(first: int, grid: GridView):
    """One thread per grid: number of cells along each axis, as its particles need and its limit allows."""
    r = first + wp.tid()
    lower = wp.vec3i(int(LAST_CELL), int(LAST_CELL), int(LAST_CELL))
    upper = -lower
    for b in range(grid.group_start[r], grid.group_start[r + 1]):
        lower = wp.min(lower, grid.group_lower[b])
        upper = wp.max(upper, grid.group_upper[b])
    step = wp.vec3i(2 * BLOCK_X, 2 * BLOCK_Y, 2 * BLOCK_Z)
    cells = step
    for k in range(3):
        # an empty layer separates both borders
        cells[k] = wp.max((upper[k] - lower[k] + 1 + step[k]) / step[k] * step[k], step[k])
    most = float(grid.cell_first[r + 1] - grid.cell_first[r])
    while float(cells[0]) * float(cells[1]) * float(cells[2]) > most:
        longest = int(0)
        for k in range(1, 3):
            if cells[k] / step[k] > cells[longest] / step[longest]:
                longest = k
        cells[longest] = (cells[longest] / step[longest] + 1) / 2 * step[longest]
    grid.corner[r] = lower
    grid.cells[r] = cells


@wp.kernel
def clear_cells(first: int, grid: GridView):
    """One thread per cell: empty it."""
    grid.count[first + wp.tid()] = 0


@wp.kernel
def count_particles(first: int, x: wp.array(dtype=wp.vec3), grid: GridView):
    """One thread per particle: find its cell."""
    i = first + wp.tid()
    cell = int(-1)
    if is_placeable(x[i]):
        r = grid.grid[i]
        c = cell_of(grid, r, x[i])
        grid.place[i] = c
        cell = cell_number(grid, r, c)
        grid.rank[i] = wp.atomic_add(grid.count, cell, 1)
    grid.cell[i] = cell


@wp.kernel
def sum_chunks(
    first: int, chunk_first: wp.array(dtype=int), count: wp.array(dtype=int), total: wp.array(dtype=int)
):
    """One thread per chunk: sum of the counts in it."""
    k = first + wp.tid()
    sum = int(0)
    for c in range(chunk_first[k], chunk_first[k + 1]):
        sum += count[c]
    total[k] = sum


@wp.kernel
def scan_sums(
    first: int, chunk_start: wp.array(dtype=int), base: wp.array(dtype=int), total: wp.array(dtype=int)
):
    """One thread per grid: start of each of its chunks, from their sums."""
    r = first + wp.tid()
    place = base[r]
    for k in range(chunk_start[r], chunk_start[r + 1]):
        count = total[k]
        total[k] = place
        place += count


@wp.kernel
def scan_chunks(
    first: int,
    chunk_first: wp.array(dtype=int),
    count: wp.array(dtype=int),
    total: wp.array(dtype=int),
    start: wp.array(dtype=int),
):
    """One thread per chunk: start of each of its cells."""
    k = first + wp.tid()
    place = total[k]
    for c in range(chunk_first[k], chunk_first[k + 1]):
        start[c] = place
        place += count[c]


@wp.kernel
def clear_places(first: int, grid: GridView):
    """One thread per place: empty it."""
    grid.order[first + wp.tid()] = -1


@wp.kernel
def place_particles(first: int, grid: GridView):
    """One thread per particle: write it into its cell."""
    i = first + wp.tid()
    cell = grid.cell[i]
    if cell >= 0:
        grid.order[grid.start[cell] + grid.rank[i]] = i


@wp.kernel
def sort_cells(first: int, grid: GridView):
    """One thread per cell: sort its particles by index, so that the order of threads does not matter."""
    c = first + wp.tid()
    start = grid.start[c]
    for a in range(start + 1, start + grid.count[c]):
        i = grid.order[a]
        b = int(a)
        while b > start:
            if grid.order[b - 1] < i:
                break
            grid.order[b] = grid.order[b - 1]
            b -= 1
        grid.order[b] = i
