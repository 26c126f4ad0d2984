"""Multipliers of the constraint solve: the adjoint of its fixed point over the rows that act.

A step ends at H v = H v_free + Jᵀ p with, for every row that acts, either an equation J v + C p = t, or an
impulse p at its bound, or friction p_t = μ p_n d(u) against the slip u = J_t v. A gradient g of v becomes the
solution (λ, m) of the transposed linearised system

    H λ + Jᵀ m + J_tᵀ K J_t λ = g,    (J + μ dᵀ J_t) λ = C m,    K = μ p_n (1 - d dᵀ) / |u|,

with the second term of the second equation for the normal rows of sliding contacts only. In energy
coordinates ζ of λ, with m eliminated by a small softening, this is one unsymmetric system
in a skyline for each world. Its gradients with respect to parameters follow from
`constraints.adjoint.row_terms` and `constraints.adjoint.contact_terms`.

Of redundant contacts, such as the corners of a box, only sums of the multipliers m are determined. Friction
would drive the rest to infinity as the softening goes to zero, see `share_multipliers`.

Source: implicit differentiation of complementarity problems at their active set, as in de Avila
Belbute-Peres, Smith, Allen, Tenenbaum, Kolter, "End-to-end differentiable physics for learning and control",
2018; Geilinger et al., "ADD: Analytically differentiable dynamics for multi-body systems with frictional
contact", 2020.

Stage: backward pass of constraints, multipliers
Called by: solvers/featherstone/constraint_adjoint.py, kernels/constraints/adjoint/impacts.py,
    kernels/constraints/adjoint/solution_error.py
Reads: ContactView, ImpulseView, PairRowView, RowAdjointView, RowsView, SkylineView, TreeView, dof, place
Writes: RowAdjointView, SkylineView, mode, multiplier, reason, y
"""

import warp as wp

from newtonsim.kernels.algebra.skyline_algebra import (
    add_outer,
    add_row,
    couple_chains,
    push_triple_to,
    row_product,
    triple_product,
)
from newtonsim.kernels.algebra.skyline_lu import (
    SkylineView,
    begin_skyline,
    clear_skyline,
    solve_system,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_BOUNDED,
    ROW_HOLDS,
    ROW_OPEN,
    SLOWEST_SLIP,
    ImpulseView,
    RowAdjointView,
    contact_slip,
    contact_spin,
    open_rows,
    select_pairs,
    select_rows,
)
from newtonsim.kernels.constraints.adjoint.worlds import NO_ROOM, SINGULAR
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# softness of hard rows as a share of their Delassus number, which makes redundant ones solvable
SOFTENING = wp.constant(wp.float64(1.0e-6))


@wp.func
def softness_weight(delassus: float, softness: float) -> wp.float64:
    """Multiplier per velocity of a row."""
    weight = wp.float64(0.0)
    if delassus > 0.0:
        weight = wp.float64(1.0) / (SOFTENING * wp.float64(delassus) + wp.float64(softness))
    return weight


@wp.func
def slide_slope(bound: float, slip: wp.vec2) -> wp.mat22:
    """K: how the friction of a sliding contact falls with the slip."""
    speed = wp.max(wp.length(slip), SLOWEST_SLIP)
    d = slip / speed
    return (bound / speed) * (wp.identity(n=2, dtype=float) - wp.outer(d, d))


@wp.struct
class ContactBlock:
    """A contact's part of the system: 3x3 blocks between its contact rows and its spin rows."""

    contact: wp.mat33d
    spin: wp.mat33d
    mixed: wp.mat33d  # contact rows by spin rows


@wp.func
def contact_block(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
) -> ContactBlock:
    """Weights of the products of the rows of a contact that acts."""
    block = ContactBlock()
    p = impulse.contact[c]
    delassus = rows.contact.delassus[c]
    normal = softness_weight(delassus[0], rows.contact.softness[c])
    A = wp.mat33d()
    A[0, 0] = normal
    if adj.contact_mode[c] == ROW_BOUNDED:
        mu = rows.contact.friction[c]
        slip = contact_slip(tree, rows, c, depth, impulse.z) - adj.contact_slip_before_impact[c]
        K = slide_slope(mu * p[0], slip)
        for i in range(2):
            A[0, 1 + i] = -normal * wp.float64(mu * slip[i] / wp.max(wp.length(slip), SLOWEST_SLIP))
            for j in range(2):
                A[1 + i, 1 + j] = wp.float64(K[i, j])
    else:
        A[1, 1] = softness_weight(delassus[1], 0.0)
        A[2, 2] = A[1, 1]
    block.contact = A
    if rows.spins == 1:
        S = wp.mat33d()
        M = wp.mat33d()
        modes = adj.spin_mode[c]
        turn = rows.spin.delassus[c]
        if modes[0] == ROW_HOLDS:
            S[0, 0] = softness_weight(turn[0], 0.0)
        if modes[1] == ROW_HOLDS:
            S[1, 1] = softness_weight(turn[1], 0.0)
            S[2, 2] = S[1, 1]
        if modes[0] == ROW_BOUNDED or modes[1] == ROW_BOUNDED:
            spin = contact_spin(tree, rows, c, depth, impulse.z)
            if modes[0] == ROW_BOUNDED:
                M[0, 0] = -normal * wp.float64(rows.spin.torsion[c] * wp.sign(spin[0]))
            if modes[1] == ROW_BOUNDED:
                roll = wp.vec2(spin[1], spin[2])
                R = slide_slope(rows.spin.rolling[c] * p[0], roll)
                for i in range(2):
                    way = roll[i] / wp.max(wp.length(roll), SLOWEST_SLIP)
                    M[0, 1 + i] = -normal * wp.float64(rows.spin.rolling[c] * way)
                    for j in range(2):
                        S[1 + i, 1 + j] = wp.float64(R[i, j])
        block.spin = S
        block.mixed = M
    return block


@wp.func
def couple_pairs(
    tree: wp.ref[TreeView],
    rows: wp.ref[PairRowView],
    w: int,
    place: wp.array(dtype=int),
    mode: wp.array(dtype=int),
    sky: wp.ref[SkylineView],
):
    """Make room for the rows between bodies or dofs that hold."""
    for p in range(rows.world_start[w], rows.world_start[w + 1]):
        if mode[p] == ROW_HOLDS:
            couple_chains(tree, place, sky, sky.world_start[w], rows.leaf[p])


@wp.func
def add_pairs(
    tree: wp.ref[TreeView],
    rows: wp.ref[PairRowView],
    w: int,
    depth: int,
    place: wp.array(dtype=int),
    mode: wp.array(dtype=int),
    sky: wp.ref[SkylineView],
):
    """Add the rows between bodies or dofs that hold to the matrix."""
    for p in range(rows.world_start[w], rows.world_start[w + 1]):
        if mode[p] == ROW_HOLDS:
            weight = softness_weight(rows.delassus[p], rows.softness[p])
            add_row(tree, place, sky, sky.world_start[w], rows.leaf[p], depth, p, weight, rows.B)


@wp.func
def write_pairs(
    tree: wp.ref[TreeView],
    rows: wp.ref[PairRowView],
    w: int,
    depth: int,
    place: wp.array(dtype=int),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
    sky: wp.ref[SkylineView],
):
    """Multipliers of the rows between bodies or dofs from the solution."""
    for p in range(rows.world_start[w], rows.world_start[w + 1]):
        if mode[p] != ROW_OPEN:
            m = row_product(tree, place, sky, sky.world_start[w], rows.leaf[p], depth, p, rows.B)
            if mode[p] == ROW_HOLDS:
                m *= softness_weight(rows.delassus[p], rows.softness[p])
            multiplier[p] = float(m)


@wp.func(inline=False)
def lay_out_system(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    place: wp.array(dtype=int),
    adj: wp.ref[RowAdjointView],
    sky: wp.ref[SkylineView],
) -> bool:
    """Make room for all rows that act and set the matrix to one; False if there is no room."""
    clear_skyline(sky, w)
    base = sky.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if adj.dof_mode[r] == ROW_HOLDS:
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            couple_chains(tree, place, sky, base, leaf)
    couple_pairs(tree, rows.pair, w, place, adj.pair_mode, sky)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            couple_chains(tree, place, sky, base, rows.contact.leaf[c])
    return begin_skyline(sky, w)


@wp.func(inline=False)
def assemble_system(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    place: wp.array(dtype=int),
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    sky: wp.ref[SkylineView],
):
    """Add all rows that act to the matrix."""
    base = sky.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if adj.dof_mode[r] == ROW_HOLDS:
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            weight = softness_weight(rows.dof.delassus[r], rows.dof.softness[r])
            add_row(tree, place, sky, base, leaf, depth, r, weight, rows.dof.B)
    add_pairs(tree, rows.pair, w, depth, place, adj.pair_mode, sky)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            leaf = rows.contact.leaf[c]
            block = contact_block(tree, rows, c, depth, impulse, adj)
            B = rows.contact.B
            add_outer(tree, place, sky, base, leaf, depth, c, block.contact, B, B)
            if rows.spins == 1:
                modes = adj.spin_mode[c]
                if modes[0] != ROW_OPEN or modes[1] != ROW_OPEN:
                    R = rows.spin.B
                    add_outer(tree, place, sky, base, leaf, depth, c, block.spin, R, R)
                    add_outer(tree, place, sky, base, leaf, depth, c, block.mixed, B, R)


@wp.func
def narrow(v: wp.vec3d) -> wp.vec3:
    """Single precision."""
    return wp.vec3(float(v[0]), float(v[1]), float(v[2]))


@wp.func
def write_contact_multiplier(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    place: wp.array(dtype=int),
    base: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    shared: bool,
    sky: wp.ref[SkylineView],
):
    """Multipliers of the rows of a contact that acts; adds Jᵀ m to `sky.sum` if they are `shared` later."""
    leaf = rows.contact.leaf[c]
    block = contact_block(tree, rows, c, depth, impulse, adj)
    v = triple_product(tree, place, sky, base, leaf, depth, c, rows.contact.B)
    m = block.contact * v
    if rows.spins == 1:
        modes = adj.spin_mode[c]
        u = triple_product(tree, place, sky, base, leaf, depth, c, rows.spin.B)
        m += block.mixed * u
        turn = block.spin * u
        if modes[0] == ROW_BOUNDED:
            turn[0] = u[0]
        if modes[1] == ROW_BOUNDED:
            turn[1] = u[1]
            turn[2] = u[2]
        adj.spin_multiplier[c] = narrow(turn)
    slides = adj.contact_mode[c] == ROW_BOUNDED
    if shared and is_rigid(rows, c):
        equations = m
        if slides:
            equations = wp.vec3d(m[0], wp.float64(0.0), wp.float64(0.0))
        push_triple_to(tree, place, sky.sum, base, leaf, depth, c, equations, rows.contact.B)
    if slides:
        m[1] = v[1]
        m[2] = v[2]
    adj.contact_multiplier[c] = narrow(m)


@wp.func(inline=False)
def write_multipliers(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    place: wp.array(dtype=int),
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    shared: bool,
    sky: wp.ref[SkylineView],
):
    """Multipliers of all rows from the solution; see `write_contact_multiplier`."""
    base = sky.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if adj.dof_mode[r] != ROW_OPEN:
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            m = row_product(tree, place, sky, base, leaf, depth, r, rows.dof.B)
            if adj.dof_mode[r] == ROW_HOLDS:
                m *= softness_weight(rows.dof.delassus[r], rows.dof.softness[r])
            adj.dof_multiplier[r] = float(m)
    write_pairs(tree, rows.pair, w, depth, place, adj.pair_mode, adj.pair_multiplier, sky)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            write_contact_multiplier(tree, rows, c, depth, place, base, impulse, adj, shared, sky)


@wp.func
def is_rigid(rows: wp.ref[RowsView], c: int) -> bool:
    """True if nothing but the softening of this file decides what a contact bears beside redundant ones."""
    return rows.contact.softness[c] == 0.0


@wp.func
def shares_multipliers(
    rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int, adj: wp.ref[RowAdjointView]
) -> bool:
    """True if a world has several rigid contacts that act, and friction where one slides."""
    rigid = int(0)
    slides = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN and is_rigid(rows, c):
            rigid += 1
            if adj.contact_mode[c] == ROW_BOUNDED and rows.contact.friction[c] > 0.0:
                slides = True
    return slides and rigid > 1


@wp.func
def equation_block(rows: wp.ref[RowsView], c: int, mode: int) -> wp.mat33d:
    """Weights of the rows of a rigid contact that are equations."""
    A = wp.mat33d()
    A[0, 0] = softness_weight(rows.contact.delassus[c][0], 0.0)
    if mode == ROW_HOLDS:
        A[1, 1] = softness_weight(rows.contact.delassus[c][1], 0.0)
        A[2, 2] = A[1, 1]
    return A


@wp.func(inline=False)
def share_multipliers(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    place: wp.array(dtype=int),
    adj: wp.ref[RowAdjointView],
    sky: wp.ref[SkylineView],
):
    """Of all multipliers of rigid contacts with the same Σ Jᵀ m, which `sky.sum` holds, take the least ones.

    Friction that slides makes the system unsymmetric, and its softened solution then has a part along the
    null space of Jᵀ that grows as the softening falls. It tells how the step would answer if the velocities
    that redundant contacts want came to contradict each other. As they move with the bodies they cannot; and
    where they do, as in rebounds at several moments of one step, the sweeps end in a compromise instead.
    Least squares, weighted by the Delassus numbers, leave that part out.
    """
    base = sky.world_start[w]
    if not begin_skyline(sky, w):
        return
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        mode = adj.contact_mode[c]
        if mode != ROW_OPEN and is_rigid(rows, c):
            A = equation_block(rows, c, mode)
            B = rows.contact.B
            add_outer(tree, place, sky, base, rows.contact.leaf[c], depth, c, A, B, B)
    for i in range(base, sky.world_start[w + 1]):
        sky.x[i] = sky.sum[i]
    solve_system(sky, w)
    for c in range(c0, c0 + contacts.world_count[w]):
        mode = adj.contact_mode[c]
        if mode != ROW_OPEN and is_rigid(rows, c):
            v = triple_product(tree, place, sky, base, rows.contact.leaf[c], depth, c, rows.contact.B)
            m = narrow(equation_block(rows, c, mode) * v)
            if mode == ROW_BOUNDED:
                kept = adj.contact_multiplier[c]
                m = wp.vec3(m[0], kept[1], kept[2])
            adj.contact_multiplier[c] = m


@wp.kernel
def solve_adjoint(
    first: int,
    tree: TreeView,
    rows: RowsView,
    contacts: ContactView,
    depth: int,
    place: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    impulse: ImpulseView,
    sky: SkylineView,
    adj: RowAdjointView,
    y: wp.array(dtype=float),
    reason: wp.array(dtype=int),
):
    """One thread per world: turn a gradient y of z into ζ; what its rows are, and their multipliers."""
    w = first + wp.tid()
    base = sky.world_start[w]
    end = sky.world_start[w + 1]
    asked = bool(False)
    for i in range(base, end):
        if y[dof[i]] != 0.0:
            asked = True
    if not asked:
        open_rows(rows, contacts, w, adj)
        return
    if select_rows(tree, rows, contacts, w, depth, impulse, adj) == 0:
        return
    if not lay_out_system(tree, rows, contacts, w, place, adj, sky):
        reason[w] = reason[w] | NO_ROOM
        return
    assemble_system(tree, rows, contacts, w, depth, place, impulse, adj, sky)
    for i in range(base, end):
        sky.x[i] = wp.float64(y[dof[i]])
    if not solve_system(sky, w):
        reason[w] = reason[w] | SINGULAR
        return
    for i in range(base, end):
        y[dof[i]] = float(sky.x[i])
        sky.sum[i] = wp.float64(0.0)
    shared = shares_multipliers(rows, contacts, w, adj)
    write_multipliers(tree, rows, contacts, w, depth, place, impulse, adj, shared, sky)
    if shared:
        share_multipliers(tree, rows, contacts, w, depth, place, adj, sky)


@wp.kernel
def solve_pair_adjoint(
    first: int,
    tree: TreeView,
    rows: PairRowView,
    depth: int,
    place: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    sky: SkylineView,
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
    y: wp.array(dtype=float),
    reason: wp.array(dtype=int),
):
    """One thread per world: `solve_adjoint` for rows between bodies or dofs alone."""
    w = first + wp.tid()
    if select_pairs(rows, w, rows.impulse, mode, multiplier) == 0:
        return
    clear_skyline(sky, w)
    couple_pairs(tree, rows, w, place, mode, sky)
    if not begin_skyline(sky, w):
        reason[w] = reason[w] | NO_ROOM
        return
    add_pairs(tree, rows, w, depth, place, mode, sky)
    base = sky.world_start[w]
    end = sky.world_start[w + 1]
    for i in range(base, end):
        sky.x[i] = wp.float64(y[dof[i]])
    if not solve_system(sky, w):
        reason[w] = reason[w] | SINGULAR
        return
    write_pairs(tree, rows, w, depth, place, mode, multiplier, sky)
    for i in range(base, end):
        y[dof[i]] = float(sky.x[i])
