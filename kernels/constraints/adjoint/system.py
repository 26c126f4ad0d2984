"""Linear systems of the backward pass: 1 + B M Bᵀ over the degrees of freedom of an island.

M contains a weight for each row, and 3x3 blocks for contacts. It is unsymmetric because friction depends on
the normal impulse, and the weights of hard rows are too large for single precision. The matrix is therefore
factorized with bounded weights, in the order of the forward solve (`unsymmetric`). Outer iterations of
generalised conjugate residuals (Eisenstat, Elman, Schultz, "Variational iterative methods for nonsymmetric
systems of linear equations", 1983) use its solutions as directions, and compute residuals and their smallest
combination in double precision, row by row. Hard rows with one weight in the factor and another in the matrix
only add one more cluster of eigenvalues. The matrix of a single tree is small enough for a factor in double
precision with the weights themselves (`one_tree`), whose first solution is already as exact as is asked.

Stage: backward pass of constraints, linear systems
Called by: kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/solution_error.py,
    kernels/constraints/adjoint/solve.py, kernels/constraints/linear/system.py
Reads: B, RowsView, SystemView, TreeView, x
Writes: SystemView, y
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import (
    BlockSystemView,
    add_row,
    add_triple,
    set_identity,
)
from newtonsim.kernels.algebra.teams import alone
from newtonsim.kernels.constraints.adjoint import one_tree
from newtonsim.kernels.constraints.adjoint.one_tree import MOST_DOFS, OneTreeView
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
from newtonsim.kernels.constraints.adjoint.unsymmetric import factorize_lu, solve_lu
from newtonsim.kernels.constraints.adjoint.worlds import NO_ROOM, UNREACHED
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.constraints.laws import dof_leaf, has_spin
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.constraints.solve.matrix import lay_out_rows
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# softness of hard rows as a share of their Delassus number, with which redundant rows are solvable, and least
# softness of a row in the factor
SOFTENING = wp.constant(1.0e-6)
FACTORED = wp.constant(3.0e-4)
# least pivot of the factor
LEAST_PIVOT = wp.constant(1.0e-6)
# residual, over the right-hand side, at which iterations end, and above which there is no solution
TOLERANCE = wp.constant(wp.float64(1.0e-6))
PROMISED = wp.constant(wp.float64(1.0e-5))
ONE = wp.constant(wp.float64(1.0))
ZERO = wp.constant(wp.float64(0.0))


@wp.struct
class SystemView:
    """Systems of all islands: D dofs, R rows on dofs, P rows between bodies, C contacts, K directions.

    Weights are zero where rows do not act.
    """

    islands: IslandView
    factor: BlockSystemView  # by columns
    rows: BlockSystemView  # by rows
    one: OneTreeView  # matrices of islands of a single tree
    dof: wp.array(dtype=float)  # (R) weights
    pair: wp.array(dtype=float)  # (P)
    contact: wp.array(dtype=wp.mat33)  # (C) between the rows of a contact, zero without that of the normal
    spin: wp.array(dtype=wp.mat33)  # (C) between its rows of spin
    mixed: wp.array(dtype=wp.mat33)  # (C) rows of the contact by rows of spin
    transposed: int  # 1 for the system with Mᵀ
    most: int  # iterations after which a system counts as unsolved
    kept: int  # K, directions after which the iterations restart
    r: wp.array(dtype=wp.float64)  # (D) right-hand side, then residual
    x: wp.array(dtype=wp.float64)  # (D) solution
    direction: wp.array(dtype=wp.float64)  # (K D) one after the other
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
    """A block of one normal and two friction rows in the factor."""
    G = wp.mat33()
    if A[0, 0] > 0.0:
        normal = bounded_weight(A[0, 0], delassus[0]) / A[0, 0]
        for k in range(3):
            G[0, k] = normal * A[0, k]
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
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, depth: int, x: wp.array(dtype=wp.float64), at: int
) -> ContactProduct:
    """Bᵀ x of a contact."""
    v = ContactProduct()
    leaf = rows.contact.leaf[c]
    v.contact = triple_product(tree, leaf, depth, c, rows.contact.B, x, at)
    if has_spin(rows, c):
        v.spin = triple_product(tree, leaf, depth, c, rows.spin.B, x, at)
    return v


@wp.func
def weigh_contact(rows: wp.ref[RowsView], s: wp.ref[SystemView], c: int, v: ContactProduct) -> ContactProduct:
    """M v of a contact."""
    m = ContactProduct()
    transposed = s.transposed
    m.contact = weigh(s.contact[c], transposed, v.contact)
    if has_spin(rows, c):
        m.spin = weigh(s.spin[c], transposed, v.spin)
        if transposed == 1:
            m.spin += weigh(s.mixed[c], transposed, v.contact)
        else:
            m.contact += weigh(s.mixed[c], transposed, v.spin)
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
def add_block(
    tree: wp.ref[TreeView],
    s: wp.ref[SystemView],
    w: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    G: wp.mat33,
    B: wp.array2d(dtype=wp.vec3),
):
    """Add b G bᵀ of three rows, or b Gᵀ bᵀ, to the panels of columns and of rows.

    If both sides of a contact are on one tree, only the symmetric part is exact.
    """
    A = wp.transpose(G)
    if s.transposed == 1:
        A = G
    add_triple(0, 1, tree, s.factor, w, leaf, depth, c, A, B)
    add_triple(0, 1, tree, s.rows, w, leaf, depth, c, wp.transpose(A), B)


@wp.func
def oriented(A: wp.mat33, transposed: int) -> wp.mat33:
    """A block of weights in the order of the system."""
    if transposed == 1:
        return wp.transpose(A)
    return A


@wp.func(inline=False)
def factorize_tree(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], s: wp.ref[SystemView], k: int, depth: int
) -> bool:
    """Factorize the matrix of an island; False if it is not that of a single small tree."""
    if not one_tree.begin_matrix(s.islands, s.one, k, MOST_DOFS):
        return False
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = s.islands.dof_row[i]
        if s.dof[r] > 0.0:
            leaf = dof_leaf(rows, r)
            weight = wp.float64(s.dof[r])
            one_tree.add_row(tree, s.islands, s.one, k, leaf, depth, r, weight, rows.dof.B)
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = s.islands.pair[i]
        if s.pair[p] > 0.0:
            stiff = wp.float64(s.pair[p])
            one_tree.add_row(tree, s.islands, s.one, k, rows.pair.leaf[p], depth, p, stiff, rows.pair.B)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        if s.contact[c][0, 0] > 0.0:
            touching = rows.contact.leaf[c]
            A = oriented(s.contact[c], s.transposed)
            one_tree.add_triple(tree, s.islands, s.one, k, touching, depth, c, A, rows.contact.B)
            if has_spin(rows, c):
                S = oriented(s.spin[c], s.transposed)
                one_tree.add_triple(tree, s.islands, s.one, k, touching, depth, c, S, rows.spin.B)
    one_tree.factorize_matrix(s.islands, s.one, k, LEAST_PIVOT)
    return True


@wp.func(inline=False)
def factorize_island(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], s: wp.ref[SystemView], k: int, w: int, depth: int
) -> bool:
    """Factorize the matrix with bounded weights; False if there is no room."""
    if lay_out_rows(alone(w), tree, rows, s.islands, k, w, s.factor) <= 0.0:
        return False
    set_identity(alone(w), s.factor, w)
    set_identity(alone(w), s.rows, w)
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = s.islands.dof_row[i]
        if s.dof[r] > 0.0:
            weight = bounded_weight(s.dof[r], rows.dof.delassus[r])
            add_row(0, 1, tree, s.factor, w, dof_leaf(rows, r), depth, r, weight, rows.dof.B)
            add_row(0, 1, tree, s.rows, w, dof_leaf(rows, r), depth, r, weight, rows.dof.B)
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = s.islands.pair[i]
        if s.pair[p] > 0.0:
            stiff = bounded_weight(s.pair[p], rows.pair.delassus[p])
            add_row(0, 1, tree, s.factor, w, rows.pair.leaf[p], depth, p, stiff, rows.pair.B)
            add_row(0, 1, tree, s.rows, w, rows.pair.leaf[p], depth, p, stiff, rows.pair.B)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        if s.contact[c][0, 0] > 0.0:
            leaf = rows.contact.leaf[c]
            G = bounded_block(s.contact[c], rows.contact.delassus[c])
            add_block(tree, s, w, leaf, depth, c, G, rows.contact.B)
            if has_spin(rows, c):
                S = bounded_block(s.spin[c], rows.spin.delassus[c])
                add_block(tree, s, w, leaf, depth, c, S, rows.spin.B)
    factorize_lu(s.factor, s.rows, w, LEAST_PIVOT)
    return True


@wp.func(inline=False)
def multiply(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    depth: int,
    x: wp.array(dtype=wp.float64),
    y: wp.array(dtype=wp.float64),
    at: int,
):
    """y = (1 + B M Bᵀ) x, both from `at` on."""
    assign(s.islands, k, ONE, x, at, y, at)
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = s.islands.dof_row[i]
        if s.dof[r] > 0.0:
            leaf = dof_leaf(rows, r)
            v = row_product(tree, leaf, depth, r, rows.dof.B, x, at)
            push_row(tree, leaf, depth, r, wp.float64(s.dof[r]) * v, rows.dof.B, y, at)
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = s.islands.pair[i]
        if s.pair[p] > 0.0:
            u = row_product(tree, rows.pair.leaf[p], depth, p, rows.pair.B, x, at)
            m = wp.float64(s.pair[p]) * u
            push_row(tree, rows.pair.leaf[p], depth, p, m, rows.pair.B, y, at)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        if s.contact[c][0, 0] > 0.0:
            product = contact_product(tree, rows, c, depth, x, at)
            push_contact(tree, rows, c, depth, weigh_contact(rows, s, c, product), y, at)


@wp.func(inline=False)
def advance(s: wp.ref[SystemView], k: int, kept: int):
    """Make the image of direction number `kept` orthonormal to the previous ones, and advance along it."""
    n = s.r.shape[0]
    at = kept * n
    for j in range(kept):
        share = dot(s.islands, k, s.image, j * n, s.image, at)
        axpy(s.islands, k, -share, s.image, j * n, s.image, at)
        axpy(s.islands, k, -share, s.direction, j * n, s.direction, at)
    size = wp.sqrt(dot(s.islands, k, s.image, at, s.image, at))
    if size > ZERO:
        assign(s.islands, k, ONE / size, s.image, at, s.image, at)
        assign(s.islands, k, ONE / size, s.direction, at, s.direction, at)
        step = dot(s.islands, k, s.image, at, s.r, 0)
        axpy(s.islands, k, step, s.direction, at, s.x, 0)
        axpy(s.islands, k, -step, s.image, at, s.r, 0)


@wp.func(inline=False)
def solve_weighted(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    w: int,
    depth: int,
    tolerance: wp.float64,
) -> int:
    """Solve (1 + B M Bᵀ) x = r for an island; returns 0, NO_ROOM or UNREACHED.

    Args:
        tree: Topology.
        rows: All rows.
        s: Holds the weights and r, which becomes the residual, and receives x.
        k: The island.
        w: Its world.
        depth: Longest chain of dofs.
        tolerance: Residual, over the right-hand side, at which iterations end.
    """
    assign(s.islands, k, ONE, s.r, 0, s.x, 0)
    given = dot(s.islands, k, s.r, 0, s.r, 0)
    if given == ZERO:
        return 0
    single = factorize_tree(tree, rows, s, k, depth)
    if not single and not factorize_island(tree, rows, s, k, w, depth):
        return NO_ROOM
    assign(s.islands, k, ZERO, s.r, 0, s.x, 0)
    left = given
    used = int(0)
    kept = int(0)
    while left > tolerance * tolerance * given and used < s.most:
        if kept == s.kept:
            kept = 0
        at = kept * s.r.shape[0]
        if single:
            one_tree.solve_matrix(s.islands, s.one, k, s.r, s.direction, at)
        else:
            # where rows act in step after step, gradients become too small for single precision
            size = wp.sqrt(left)
            narrow_island(s.islands, k, ONE / size, s.r, s.factor)
            solve_lu(s.factor, s.rows, w)
            widen_island(s.islands, k, size, s.factor, s.direction, at)
        multiply(tree, rows, s, k, depth, s.direction, s.image, at)
        advance(s, k, kept)
        left = dot(s.islands, k, s.r, 0, s.r, 0)
        used += 1
        kept += 1
    if left <= PROMISED * PROMISED * given:
        return 0
    return UNREACHED
