"""Multipliers of the constraint solve: the adjoint of its fixed point over the rows that act.

A step ends at H v = H v_free + Jᵀ p with, for every row that acts, either an equation J v + C p = t, or an
impulse p at its bound, or friction p_t = μ p_n d(u) against the slip u = J_t v. A gradient g of v becomes the
solution (λ, m) of the transposed linearised system

    H λ + Jᵀ m + J_tᵀ K J_t λ = g,    (J + μ dᵀ J_t) λ = C m,    K = μ p_n (1 - d dᵀ) / |u|,

with the second term of the second equation for the normal rows of sliding contacts only. In energy
coordinates ζ of λ, with m eliminated by a small softening as in `active_set`, this is one unsymmetric system
in a skyline for each world. Its gradients by parameters follow from `row_gradient` and `contact_gradient`.

Source: implicit differentiation of complementarity problems at their active set, as in de Avila
Belbute-Peres, Smith, Allen, Tenenbaum, Kolter, "End-to-end differentiable physics for learning and control",
2018; Geilinger et al., "ADD: Analytically differentiable dynamics for multi-body systems with frictional
contact", 2020.
"""

import warp as wp

from newtonsim.kernels.chains import triple_velocity
from newtonsim.kernels.constraint_rows import PUSHED
from newtonsim.kernels.contacts import ContactView
from newtonsim.kernels.energy_coordinates import to_joint_velocities
from newtonsim.kernels.gauss_seidel import is_single
from newtonsim.kernels.pair_rows import PairRowView
from newtonsim.kernels.rows import RowsView
from newtonsim.kernels.skyline_algebra import (
    add_outer,
    add_row,
    couple_chains,
    row_product,
    triple_product,
)
from newtonsim.kernels.skyline_lu import (
    SkylineView,
    clear_skyline,
    factorize_skyline,
    lay_out_skyline,
    solve_skyline,
)
from newtonsim.kernels.sparse_blas import axpyi
from newtonsim.kernels.views import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# what a row of the solved step is
ROW_OPEN = wp.constant(0)  # no impulse
ROW_HOLDS = wp.constant(1)  # an equation; of a contact: it presses and sticks
ROW_BOUNDED = wp.constant(2)  # the impulse is at its bound; of a contact: it presses and slides
# softness of hard rows as a share of their Delassus number, which makes redundant ones solvable
SOFTENING = wp.constant(wp.float64(1.0e-6))
# share of the friction bound from which a contact slides, and the slowest slip [m/s] whose direction counts
AT_BOUND = wp.constant(0.999)
SLOWEST_SLIP = wp.constant(1.0e-4)
# least share that is left of a diagonal entry when its unknown is eliminated
LEAST_PIVOT = wp.constant(wp.float64(1.0e-12))
# how far velocities that are found again may be from those of the step, as a share of what constraints
# changed, and in any case [m/s or rad/s]: of redundant contacts that slide, those that press more depend on
# where the sweeps began
DISAGREEMENT = wp.constant(1.0e-2)
SMALLEST_ERROR = wp.constant(1.0e-3)
# why a world has no gradient
NO_ROOM = wp.constant(1)
SINGULAR = wp.constant(2)
NOT_SOLVED = wp.constant(4)
UNSUPPORTED_CONTACT = wp.constant(8)
PASSED_ON_IMPACT = wp.constant(16)
# not a reason of its own: what the step computed is no number
NONFINITE = wp.constant(32)


@wp.struct
class RowAdjointView:
    """What the rows of a solved step are, and their multipliers.

    The multiplier of a row that holds is m; that of an impulse at its bound is the row's J λ.
    """

    dof_mode: wp.array(dtype=int)  # (R)
    dof_multiplier: wp.array(dtype=float)  # (R)
    pair_mode: wp.array(dtype=int)  # (P)
    pair_multiplier: wp.array(dtype=float)  # (P)
    contact_mode: wp.array(dtype=int)  # (C)
    contact_multiplier: wp.array(dtype=wp.vec3)  # (C) m, or m of the normal and J λ of the tangents
    contact_early: wp.array(dtype=wp.vec2)  # (C) slip that the solution does not count, see `rebounds` [m/s]
    contact_pushes: wp.array(dtype=int)  # (C) 0 if the wanted velocity leaves out the penetration
    spin_mode: wp.array(dtype=wp.vec2i)  # (C) of torsional and of rolling friction
    spin_multiplier: wp.array(dtype=wp.vec3)  # (C) about the normal and both tangents


@wp.struct
class ImpulseView:
    """Impulses of a solution, and the velocities that belong to it in energy coordinates."""

    dof: wp.array(dtype=float)  # (R)
    pair: wp.array(dtype=float)  # (P)
    contact: wp.array(dtype=wp.vec3)  # (C)
    spin: wp.array(dtype=wp.vec3)  # (C)
    z: wp.array(dtype=float)  # (D)


@wp.func
def row_mode(impulse: float, delassus: float, target: wp.vec2, bounds: wp.vec2) -> int:
    """What a row with an interval of wanted velocities and bounds of its impulse is."""
    mode = int(ROW_OPEN)
    if delassus > 0.0:
        if impulse <= bounds[0] or impulse >= bounds[1]:
            mode = ROW_BOUNDED
        elif impulse != 0.0 or target[0] == target[1]:
            mode = ROW_HOLDS
    return mode


@wp.func
def friction_mode(t: wp.vec2, bound: float, slip: wp.vec2) -> int:
    """Whether friction holds or is at its bound; without friction it is, and nothing holds."""
    mode = int(ROW_HOLDS)
    if bound <= 0.0 or (wp.length(t) >= AT_BOUND * bound and wp.length(slip) > SLOWEST_SLIP):
        mode = ROW_BOUNDED
    return mode


@wp.func
def contact_slip(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, depth: int, z: wp.array(dtype=float)
) -> wp.vec2:
    """Tangential velocity of a contact, prescribed motion included [m/s]."""
    v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, z) - rows.contact.target[c]
    return wp.vec2(v[1], v[2])


@wp.func
def contact_spin(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, depth: int, z: wp.array(dtype=float)
) -> wp.vec3:
    """Relative angular velocity of a contact about normal and tangents [rad/s]."""
    return triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.spin.B, z) - rows.spin.target[c]


@wp.func
def select_contact(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
) -> int:
    """Find what a contact is; 1 if it acts."""
    p = impulse.contact[c]
    mode = int(ROW_OPEN)
    if p[0] > 0.0 and rows.contact.delassus[c][0] > 0.0:
        slip = contact_slip(tree, rows, c, depth, impulse.z) - adj.contact_early[c]
        mode = friction_mode(wp.vec2(p[1], p[2]), rows.contact.friction[c] * p[0], slip)
    adj.contact_mode[c] = mode
    if rows.spins == 1:
        modes = wp.vec2i(ROW_OPEN, ROW_OPEN)
        delassus = rows.spin.delassus[c]
        if mode != ROW_OPEN and (delassus[0] > 0.0 or delassus[1] > 0.0):
            spin = contact_spin(tree, rows, c, depth, impulse.z)
            q = impulse.spin[c]
            if delassus[0] > 0.0:
                modes[0] = friction_mode(
                    wp.vec2(q[0], 0.0), rows.spin.torsion[c] * p[0], wp.vec2(spin[0], 0.0)
                )
            if delassus[1] > 0.0:
                modes[1] = friction_mode(
                    wp.vec2(q[1], q[2]), rows.spin.rolling[c] * p[0], wp.vec2(spin[1], spin[2])
                )
        adj.spin_mode[c] = modes
    return int(mode != ROW_OPEN)


@wp.func(inline=False)
def select_rows(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
) -> int:
    """Find what every row of a world is; returns how many hold or slide."""
    count = int(0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, rows.dof.world_start[w + 1]):
        mode = int(ROW_OPEN)
        if r - r0 < rows.dof.world_count[w]:
            target = wp.vec2(rows.dof.target_lower[r], rows.dof.target_upper[r])
            bounds = wp.vec2(rows.dof.lower[r], rows.dof.upper[r])
            mode = row_mode(impulse.dof[r], rows.dof.delassus[r], target, bounds)
        adj.dof_mode[r] = mode
        adj.dof_multiplier[r] = 0.0
        if mode != ROW_OPEN:
            count += 1
    count += select_pairs(rows.pair, w, impulse.pair, adj.pair_mode, adj.pair_multiplier)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        count += select_contact(tree, rows, c, depth, impulse, adj)
    return count


@wp.func
def select_pairs(
    rows: wp.ref[PairRowView],
    w: int,
    impulse: wp.array(dtype=float),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
) -> int:
    """Find what the rows of a world between bodies or dofs are; returns how many act."""
    count = int(0)
    for p in range(rows.world_start[w], rows.world_start[w + 1]):
        target = wp.vec2(rows.target_lower[p], rows.target_upper[p])
        bounds = wp.vec2(rows.lower[p], rows.upper[p])
        mode[p] = row_mode(impulse[p], rows.delassus[p], target, bounds)
        multiplier[p] = 0.0
        if mode[p] != ROW_OPEN:
            count += 1
    return count


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
        slip = contact_slip(tree, rows, c, depth, impulse.z) - adj.contact_early[c]
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
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if adj.pair_mode[p] == ROW_HOLDS:
            couple_chains(tree, place, sky, base, rows.pair.leaf[p])
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            couple_chains(tree, place, sky, base, rows.contact.leaf[c])
    room = lay_out_skyline(sky, w)
    if room:
        for i in range(sky.world_start[w + 1] - base):
            sky.upper[sky.row[base + i] + i - sky.first[base + i]] = wp.float64(1.0)
    return room


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
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if adj.pair_mode[p] == ROW_HOLDS:
            weight = softness_weight(rows.pair.delassus[p], rows.pair.softness[p])
            add_row(tree, place, sky, base, rows.pair.leaf[p], depth, p, weight, rows.pair.B)
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
    sky: wp.ref[SkylineView],
):
    """Multipliers of the rows of a contact that acts."""
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
    if adj.contact_mode[c] == ROW_BOUNDED:
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
    sky: wp.ref[SkylineView],
):
    """Multipliers of all rows from the solution."""
    base = sky.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if adj.dof_mode[r] != ROW_OPEN:
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            m = row_product(tree, place, sky, base, leaf, depth, r, rows.dof.B)
            if adj.dof_mode[r] == ROW_HOLDS:
                m *= softness_weight(rows.dof.delassus[r], rows.dof.softness[r])
            adj.dof_multiplier[r] = float(m)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if adj.pair_mode[p] != ROW_OPEN:
            n = row_product(tree, place, sky, base, rows.pair.leaf[p], depth, p, rows.pair.B)
            if adj.pair_mode[p] == ROW_HOLDS:
                n *= softness_weight(rows.pair.delassus[p], rows.pair.softness[p])
            adj.pair_multiplier[p] = float(n)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            write_contact_multiplier(tree, rows, c, depth, place, base, impulse, adj, sky)


@wp.kernel
def to_energy_gradient(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    gradient: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    """One thread per tree: y = D^(-1/2) L^(-T) gradient."""
    t = first + wp.tid()
    start = tree.dof_start[t]
    end = tree.dof_start[t + 1]
    for i in range(start, end):
        d = tree.dof[i]
        y[d] = gradient[d]
    for i in range(start, end):
        d = tree.dof[start + end - 1 - i]
        row = tree.dof_row[d]
        axpyi(tree.dof_depth[d], -y[d], L, tree.row_dof, row, y)
        y[d] = y[d] * L[row + tree.dof_depth[d]]


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
    if select_rows(tree, rows, contacts, w, depth, impulse, adj) == 0:
        return
    if not lay_out_system(tree, rows, contacts, w, place, adj, sky):
        reason[w] = reason[w] | NO_ROOM
        return
    assemble_system(tree, rows, contacts, w, depth, place, impulse, adj, sky)
    base = sky.world_start[w]
    end = sky.world_start[w + 1]
    for i in range(base, end):
        sky.x[i] = wp.float64(y[dof[i]])
    if not factorize_skyline(sky, w) > LEAST_PIVOT:
        reason[w] = reason[w] | SINGULAR
        return
    solve_skyline(sky, w)
    write_multipliers(tree, rows, contacts, w, depth, place, impulse, adj, sky)
    for i in range(base, end):
        y[dof[i]] = float(sky.x[i])


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
    base = sky.world_start[w]
    end = sky.world_start[w + 1]
    p0 = rows.world_start[w]
    p1 = rows.world_start[w + 1]
    for p in range(p0, p1):
        if mode[p] == ROW_HOLDS:
            couple_chains(tree, place, sky, base, rows.leaf[p])
    if not lay_out_skyline(sky, w):
        reason[w] = reason[w] | NO_ROOM
        return
    for i in range(base, end):
        sky.upper[sky.row[i] + i - base - sky.first[i]] = wp.float64(1.0)
        sky.x[i] = wp.float64(y[dof[i]])
    for p in range(p0, p1):
        if mode[p] == ROW_HOLDS:
            weight = softness_weight(rows.delassus[p], rows.softness[p])
            add_row(tree, place, sky, base, rows.leaf[p], depth, p, weight, rows.B)
    if not factorize_skyline(sky, w) > LEAST_PIVOT:
        reason[w] = reason[w] | SINGULAR
        return
    solve_skyline(sky, w)
    for p in range(p0, p1):
        if mode[p] != ROW_OPEN:
            m = row_product(tree, place, sky, base, rows.leaf[p], depth, p, rows.B)
            if mode[p] == ROW_HOLDS:
                m *= softness_weight(rows.delassus[p], rows.softness[p])
            multiplier[p] = float(m)
    for i in range(base, end):
        y[dof[i]] = float(sky.x[i])


@wp.kernel
def to_multiplier(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    zeta: wp.array(dtype=float),
    reason: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
):
    """One thread per tree: λ = L⁻¹ D^(-1/2) ζ; NaN in worlds without a gradient."""
    t = first + wp.tid()
    if reason[tree.world[t]] != 0:
        for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
            multiplier[tree.dof[n]] = wp.nan
    else:
        to_joint_velocities(tree, L, t, zeta, multiplier)


@wp.kernel
def mark_pushing(
    first: int,
    tree: TreeView,
    rows: RowsView,
    contacts: ContactView,
    world_state: wp.array(dtype=int),
    final: int,
    kept: wp.array(dtype=wp.vec3),
    pushes: wp.array(dtype=int),
    early: wp.array(dtype=wp.vec2),
):
    """One thread per contact place: whether its wanted velocity removes the penetration, and its early slip.

    That of contacts of single bodies does so only in the first solution, which moves the positions, and not
    in the final one, see `gauss_seidel.solve_rows`.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    early[c] = wp.vec2(0.0, 0.0)
    if final == 0 and rows.contact.timed[c][0] > 0.0:
        early[c] = rows.contact.early[c]
    result = int(1)
    if final == 1 and world_state[w] == PUSHED:
        impact = rows.contact.impact[c]
        stopped = rows.contact.soft[c] == 0 and impact[1] > 0.0 and kept[c][0] > 0.0
        stopped = stopped and impact[1] == impact[2]
        for side in range(2):
            leaf = rows.contact.leaf[c][side]
            if leaf >= 0:
                stopped = stopped and is_single(tree, leaf)
        if stopped:
            result = 0
    pushes[c] = result


@wp.kernel
def compare_velocities(
    first: int,
    world_start: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    solved: wp.array(dtype=float),
    reason: wp.array(dtype=int),
):
    """One thread per world: mark it unless the velocities found again are those of the step."""
    w = first + wp.tid()
    change = float(0.0)
    error = float(0.0)
    for i in range(world_start[w], world_start[w + 1]):
        d = dof[i]
        change = wp.max(change, wp.abs(v_end[d] - v_free[d]))
        error = wp.max(error, wp.abs(v_end[d] - solved[d]))
        if not wp.isfinite(solved[d]):
            error = wp.inf
        if not wp.isfinite(v_end[d]):
            reason[w] = reason[w] | NONFINITE
    if error > DISAGREEMENT * change + SMALLEST_ERROR:
        reason[w] = reason[w] | NOT_SOLVED
