"""Rows of anchors that are held together where the bodies can hardly move along some direction.

The legs of a closed linkage move in one plane: no force along its normal parts their tips, and none along
the legs while they are stretched. Rows along axes of the world mix such directions with others. Rounding
then asks for speeds that only enormous impulses would yield, and contradictory rows get as much as their
bounds allow. They are replaced by rows along the principal directions of the inverse mass that the anchors
have together: those along which nothing moves are left out, and those along which next to nothing does yield.

Source: Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958 (one-sided Jacobi
rotations, which find small singular values as accurately as large ones).

Stage: constraints, assembly of rows
Called by: solvers/featherstone/constraints.py
Reads: PairRowView
Writes: PairRowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.pair_rows import PAIR_SPAN, PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# inverse mass along a direction, over the largest, below which rows are turned, are softened, and left out
UNEVEN = wp.constant(1.0e-2)
SOFT = wp.constant(1.0e-3)
RIGID = wp.constant(1.0e-8)
# cosine between two rows below which they are left as they are; most rounds of rotations
STRAIGHT = wp.constant(1.0e-7)
ROUNDS = wp.constant(8)


@wp.func
def row_product(a: int, b: int, length: int, B: wp.array2d(dtype=float)) -> float:
    """Product of two rows that move the same bodies."""
    total = float(0.0)
    for k in range(length):
        total += B[a, k] * B[b, k]
    return total


@wp.func
def begins_anchor(r: int, count: int, rows: PairRowView) -> bool:
    """Whether row r and the next two hold the same anchors together."""
    if r + 2 >= count or rows.kind[r] != PAIR_SPAN:
        return False
    c = rows.constraint[r]
    if rows.kind[r + 1] != PAIR_SPAN or rows.kind[r + 2] != PAIR_SPAN or rows.constraint[r + 2] != c:
        return False
    return r == 0 or rows.constraint[r - 1] != c or rows.kind[r - 1] != PAIR_SPAN


@wp.func
def is_uneven(r: int, length: int, B: wp.array2d(dtype=float)) -> bool:
    """Whether three rows have a direction of little inverse mass, by the invariants of B Bᵀ.

    Of the eigenvalues a ≥ b ≥ c, c / a is about the third invariant over the product of the others.
    """
    xx = row_product(r, r, length, B)
    yy = row_product(r + 1, r + 1, length, B)
    zz = row_product(r + 2, r + 2, length, B)
    xy = row_product(r, r + 1, length, B)
    xz = row_product(r, r + 2, length, B)
    yz = row_product(r + 1, r + 2, length, B)
    trace = xx + yy + zz
    second = (xx * yy - xy * xy) + (xx * zz - xz * xz) + (yy * zz - yz * yz)
    third = wp.determinant(wp.mat33(xx, xy, xz, xy, yy, yz, xz, yz, zz))
    return second <= UNEVEN * trace * trace or third <= UNEVEN * second * trace


@wp.func
def turn_rows(i: int, j: int, length: int, rows: PairRowView):
    """Turn two rows in the plane of their directions so that they are orthogonal."""
    a = row_product(i, i, length, rows.B)
    b = row_product(j, j, length, rows.B)
    c = row_product(i, j, length, rows.B)
    if wp.abs(c) <= STRAIGHT * wp.sqrt(a) * wp.sqrt(b):
        return
    zeta = (b - a) / (2.0 * c)
    t = 1.0 / (wp.abs(zeta) + wp.sqrt(1.0 + zeta * zeta))
    if zeta < 0.0:
        t = -t
    cosine = 1.0 / wp.sqrt(1.0 + t * t)
    sine = cosine * t
    for k in range(length):
        x = rows.B[i, k]
        y = rows.B[j, k]
        rows.B[i, k] = cosine * x - sine * y
        rows.B[j, k] = sine * x + cosine * y
    u = rows.target_lower[i]
    v = rows.target_lower[j]
    rows.target_lower[i] = cosine * u - sine * v
    rows.target_lower[j] = sine * u + cosine * v
    rows.target_upper[i] = rows.target_lower[i]
    rows.target_upper[j] = rows.target_lower[j]
    push = rows.push[i]
    rows.push[i] = cosine * push - sine * rows.push[j]
    rows.push[j] = sine * push + cosine * rows.push[j]
    free = rows.free[i]
    rows.free[i] = cosine * free - sine * rows.free[j]
    rows.free[j] = sine * free + cosine * rows.free[j]
    force = rows.force[i]
    rows.force[i] = cosine * force - sine * rows.force[j]
    rows.force[j] = sine * force + cosine * rows.force[j]
    torque = rows.torque[i]
    rows.torque[i] = cosine * torque - sine * rows.torque[j]
    rows.torque[j] = sine * torque + cosine * rows.torque[j]


@wp.kernel
def separate_directions(first: int, depth: int, rows: PairRowView):
    """One thread per row: rows along principal directions where three hold anchors of little mobility."""
    r = first + wp.tid()
    if not begins_anchor(r, rows.kind.shape[0], rows):
        return
    if wp.max(rows.delassus[r], wp.max(rows.delassus[r + 1], rows.delassus[r + 2])) <= 0.0:
        return  # disabled, or nothing moves
    length = 2 * depth
    if not is_uneven(r, length, rows.B):
        return
    for _ in range(ROUNDS):
        turn_rows(r, r + 1, length, rows)
        turn_rows(r, r + 2, length, rows)
        turn_rows(r + 1, r + 2, length, rows)
    largest = float(0.0)
    for k in range(3):
        largest = wp.max(largest, row_product(r + k, r + k, length, rows.B))
    for k in range(3):
        total = row_product(r + k, r + k, length, rows.B)
        if total <= RIGID * largest:
            rows.delassus[r + k] = 0.0
            rows.impulse[r + k] = 0.0
        else:
            rows.delassus[r + k] = total
            share = SOFT * largest / (total + SOFT * largest)
            # to the fourth power, so that a lever of some links' lengths yields by less than a hundredth
            rows.softness[r + k] = rows.softness[r + k] + SOFT * largest * wp.pow(share, 4.0)
