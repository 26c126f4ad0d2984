"""Linear systems of the backward pass: 1 + B M Bᵀ over the degrees of freedom of an island.

M holds a weight for each row, and 3x3 blocks for contacts. It is symmetric but for friction that follows the
normal impulse; the weights of hard rows are large, so that single precision does not do. Both are left to
outer rounds: the symmetric part with weights that single precision bears is factorized like the matrix of the
forward solve, in the same order (`block_cholesky`), and rounds of generalised conjugate residuals (Eisenstat,
Elman, Schultz, "Variational iterative methods for nonsymmetric systems of linear equations", 1983) take its
solutions as directions, and find residuals and their smallest combination in double precision, row by row.
Hard rows with one weight in the factor and another in the matrix are but one more cluster of eigenvalues:
what sticks takes some four rounds, heaps that slide about twenty.

Stage: backward pass of constraints, linear systems
Called by: kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/solution_error.py,
    kernels/constraints/adjoint/solve.py
Reads: BlockSystemView, IslandView, RowsView, TreeView, WeightView, x
Writes: BlockSystemView, RoundsView, y
"""

import warp as wp

from newtonsim.kernels.algebra.block_cholesky import (
    BlockSystemView,
    add_row,
    add_triple,
    factorize,
    set_identity,
    solve,
)
from newtonsim.kernels.constraints.adjoint.products import (
    assign,
    axpy,
    dot,
    narrow_island,
    push_row,
    push_triple,
    row_product,
    triple_product,
    widen_island,
)
from newtonsim.kernels.constraints.adjoint.worlds import NO_ROOM, UNREACHED
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import dof_leaf, has_spin
from newtonsim.kernels.constraints.newton import lay_out_rows
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# softness of hard rows as a share of their Delassus number, which makes redundant ones solvable, and least
# softness of a row in the factor
SOFTENING = wp.constant(1.0e-6)
FACTORED = wp.constant(1.0e-3)
# residual, over the right-hand side, at which rounds end, and above which there is no solution
TOLERANCE = wp.constant(wp.float64(1.0e-6))
PROMISED = wp.constant(wp.float64(1.0e-5))
ONE = wp.constant(wp.float64(1.0))
ZERO = wp.constant(wp.float64(0.0))


@wp.struct
class WeightView:
    """M: R rows on dofs, P rows between bodies, C contacts; zero for rows that do not act."""

    dof: wp.array(dtype=float)  # (R)
    pair: wp.array(dtype=float)  # (P)
    contact: wp.array(dtype=wp.mat33)  # (C) between the rows of a contact
    spin: wp.array(dtype=wp.mat33)  # (C) between its rows of spin
    mixed: wp.array(dtype=wp.mat33)  # (C) rows of the contact by rows of spin
    transposed: int  # 1 if the system is that with Mᵀ


@wp.struct
class RoundsView:
    """Workspace of the rounds: D dofs, K directions that are kept, one after the other."""

    most: int  # rounds after which a system counts as unsolved
    kept: int  # K, after which the rounds begin anew
    r: wp.array(dtype=wp.float64)  # (D) right-hand side, then residual
    x: wp.array(dtype=wp.float64)  # (D) solution
    direction: wp.array(dtype=wp.float64)  # (K D)
    image: wp.array(dtype=wp.float64)  # (K D) the matrix times each direction, orthonormal


@wp.func
def row_weight(delassus: float, softness: float) -> float:
    """Multiplier per velocity of a row."""
    weight = float(0.0)
    if delassus > 0.0:
        weight = 1.0 / (SOFTENING * delassus + softness)
    return weight


@wp.func
def bounded_weight(weight: float, delassus: float) -> float:
    """Weight of a row in the factor."""
    return wp.min(weight, 1.0 / (FACTORED * wp.max(delassus, 1.0e-30)))


@wp.func
def bounded_block(A: wp.mat33, delassus: wp.vec2) -> wp.mat33:
    """Symmetric part of a block, of one row and two of friction, in the factor."""
    G = wp.mat33()
    G[0, 0] = bounded_weight(A[0, 0], delassus[0])
    most = wp.max(A[1, 1], A[2, 2])
    if most > 0.0:
        share = bounded_weight(most, delassus[1]) / most
        for i in range(1, 3):
            for j in range(1, 3):
                G[i, j] = share * A[i, j]
    return G


@wp.func
def widen(v: wp.vec3) -> wp.vec3d:
    """Double precision."""
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def weigh(A: wp.mat33, transposed: int, v: wp.vec3d) -> wp.vec3d:
    """A v, or Aᵀ v."""
    if transposed == 1:
        A = wp.transpose(A)
    return wp.vec3d(wp.dot(widen(A[0]), v), wp.dot(widen(A[1]), v), wp.dot(widen(A[2]), v))


@wp.struct
class ContactProduct:
    """Products of the rows of a contact and of its rows of spin with a vector, weighted or not."""

    contact: wp.vec3d
    spin: wp.vec3d


@wp.func
def contact_product(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    x: wp.array(dtype=wp.float64),
    at: int,
) -> ContactProduct:
    """Bᵀ x of a contact."""
    v = ContactProduct()
    leaf = rows.contact.leaf[c]
    v.contact = triple_product(tree, leaf, depth, c, rows.contact.B, x, at)
    if has_spin(rows, c):
        v.spin = triple_product(tree, leaf, depth, c, rows.spin.B, x, at)
    return v


@wp.func
def weigh_contact(
    rows: wp.ref[RowsView], c: int, weights: wp.ref[WeightView], v: ContactProduct
) -> ContactProduct:
    """M v of a contact."""
    m = ContactProduct()
    transposed = weights.transposed
    m.contact = weigh(weights.contact[c], transposed, v.contact)
    if has_spin(rows, c):
        m.spin = weigh(weights.spin[c], transposed, v.spin)
        if transposed == 1:
            m.spin += weigh(weights.mixed[c], transposed, v.contact)
        else:
            m.contact += weigh(weights.mixed[c], transposed, v.spin)
    return m


@wp.func
def push_contact(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    m: ContactProduct,
    y: wp.array(dtype=wp.float64),
    at: int,
):
    """y += B m of a contact."""
    leaf = rows.contact.leaf[c]
    push_triple(tree, leaf, depth, c, m.contact, rows.contact.B, y, at)
    if has_spin(rows, c):
        push_triple(tree, leaf, depth, c, m.spin, rows.spin.B, y, at)


@wp.func
def is_weighted(rows: wp.ref[RowsView], c: int, weights: wp.ref[WeightView]) -> bool:
    """True if contact c acts."""
    A = weights.contact[c]
    found = A[0, 0] > 0.0 or A[1, 1] > 0.0 or A[2, 2] > 0.0
    if not found and has_spin(rows, c):
        S = weights.spin[c]
        found = S[0, 0] > 0.0 or S[1, 1] > 0.0 or S[2, 2] > 0.0
    return found


@wp.func
def any_weighted(
    rows: wp.ref[RowsView], islands: wp.ref[IslandView], k: int, weights: wp.ref[WeightView]
) -> bool:
    """True if a row of an island acts."""
    found = bool(False)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        found = found or weights.dof[islands.dof_row[i]] > 0.0
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        found = found or weights.pair[islands.pair[i]] > 0.0
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        found = found or is_weighted(rows, islands.contact[i], weights)
    return found


@wp.func(inline=False)
def factorize_island(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    weights: wp.ref[WeightView],
    sys: wp.ref[BlockSystemView],
) -> bool:
    """Factorize the symmetric part with bounded weights; False if there is no room."""
    if lay_out_rows(tree, rows, islands, k, w, sys) <= 0.0:
        return False
    set_identity(sys, w)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        if weights.dof[r] > 0.0:
            weight = bounded_weight(weights.dof[r], rows.dof.delassus[r])
            add_row(tree, sys, w, dof_leaf(rows, r), depth, r, weight, rows.dof.B)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        if weights.pair[p] > 0.0:
            stiff = bounded_weight(weights.pair[p], rows.pair.delassus[p])
            add_row(tree, sys, w, rows.pair.leaf[p], depth, p, stiff, rows.pair.B)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        if is_weighted(rows, c, weights):
            leaf = rows.contact.leaf[c]
            G = bounded_block(weights.contact[c], rows.contact.delassus[c])
            add_triple(tree, sys, w, leaf, depth, c, G, rows.contact.B)
            if has_spin(rows, c):
                S = bounded_block(weights.spin[c], rows.spin.delassus[c])
                add_triple(tree, sys, w, leaf, depth, c, S, rows.spin.B)
    factorize(sys, w)
    return True


@wp.func(inline=False)
def multiply(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    depth: int,
    weights: wp.ref[WeightView],
    x: wp.array(dtype=wp.float64),
    y: wp.array(dtype=wp.float64),
    at: int,
):
    """y = (1 + B M Bᵀ) x, both from `at` on."""
    assign(islands, k, ONE, x, at, y, at)
    dofs = islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = islands.dof_row[i]
        if weights.dof[r] > 0.0:
            leaf = dof_leaf(rows, r)
            v = row_product(tree, leaf, depth, r, rows.dof.B, x, at)
            push_row(tree, leaf, depth, r, wp.float64(weights.dof[r]) * v, rows.dof.B, y, at)
    pairs = islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = islands.pair[i]
        if weights.pair[p] > 0.0:
            u = row_product(tree, rows.pair.leaf[p], depth, p, rows.pair.B, x, at)
            m = wp.float64(weights.pair[p]) * u
            push_row(tree, rows.pair.leaf[p], depth, p, m, rows.pair.B, y, at)
    touches = islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = islands.contact[i]
        if is_weighted(rows, c, weights):
            s = contact_product(tree, rows, c, depth, x, at)
            push_contact(tree, rows, c, depth, weigh_contact(rows, c, weights, s), y, at)


@wp.func(inline=False)
def advance(islands: wp.ref[IslandView], k: int, kept: int, rounds: wp.ref[RoundsView]):
    """Make the image of direction number `kept` orthonormal to those before, and go along it."""
    n = rounds.r.shape[0]
    at = kept * n
    for j in range(kept):
        share = dot(islands, k, rounds.image, j * n, rounds.image, at)
        axpy(islands, k, -share, rounds.image, j * n, rounds.image, at)
        axpy(islands, k, -share, rounds.direction, j * n, rounds.direction, at)
    size = wp.sqrt(dot(islands, k, rounds.image, at, rounds.image, at))
    if size > ZERO:
        assign(islands, k, ONE / size, rounds.image, at, rounds.image, at)
        assign(islands, k, ONE / size, rounds.direction, at, rounds.direction, at)
        step = dot(islands, k, rounds.image, at, rounds.r, 0)
        axpy(islands, k, step, rounds.direction, at, rounds.x, 0)
        axpy(islands, k, -step, rounds.image, at, rounds.r, 0)


@wp.func(inline=False)
def solve_weighted(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    islands: wp.ref[IslandView],
    k: int,
    w: int,
    depth: int,
    weights: wp.ref[WeightView],
    tolerance: wp.float64,
    rounds: wp.ref[RoundsView],
    sys: wp.ref[BlockSystemView],
) -> int:
    """Solve (1 + B M Bᵀ) x = r for an island; returns 0, NO_ROOM or UNREACHED.

    Args:
        tree: Topology.
        rows: All rows.
        islands: Islands.
        k: The island.
        w: Its world.
        depth: Longest chain of dofs.
        weights: M.
        tolerance: Residual at which rounds end, over the right-hand side.
        rounds: Holds r, which becomes the residual, and receives x.
        sys: Workspace of the factorization.
    """
    assign(islands, k, ONE, rounds.r, 0, rounds.x, 0)
    given = dot(islands, k, rounds.r, 0, rounds.r, 0)
    if given == ZERO or not any_weighted(rows, islands, k, weights):
        return 0
    if not factorize_island(tree, rows, islands, k, w, depth, weights, sys):
        return NO_ROOM
    assign(islands, k, ZERO, rounds.r, 0, rounds.x, 0)
    left = given
    used = int(0)
    kept = int(0)
    while left > tolerance * tolerance * given and used < rounds.most:
        if kept == rounds.kept:
            kept = 0
        at = kept * rounds.r.shape[0]
        size = wp.sqrt(left)
        narrow_island(islands, k, ONE / size, rounds.r, sys)
        solve(sys, w)
        widen_island(islands, k, size, sys, rounds.direction, at)
        multiply(tree, rows, islands, k, depth, weights, rounds.direction, rounds.image, at)
        advance(islands, k, kept, rounds)
        left = dot(islands, k, rounds.r, 0, rounds.r, 0)
        used += 1
        kept += 1
    if left <= PROMISED * PROMISED * given:
        return 0
    return UNREACHED
