"""Multipliers of the constraint solve: the adjoint of its fixed point over the rows that act.

A step ends at H v = H v_free + Jᵀ p with, for every row that acts, either an equation J v + C p = t, or an
impulse p at its bound, or friction p_t = μ p_n d(u) against the slip u = J_t v. A gradient g of v leads to
the solution (λ, m) of the transposed linearised system

    H λ + Jᵀ m + J_tᵀ K J_t λ = g,    (J + μ dᵀ J_t) λ = C m,    K = μ p_n (1 - d dᵀ) / |u|,

where the second term of the second equation occurs only for the normal rows of sliding contacts. In energy
coordinates ζ of λ, with m eliminated by means of a small softening, this is one system for each island, which
`constraints.adjoint.system` solves. Its gradients with respect to parameters follow from
`constraints.adjoint.row_terms` and `constraints.adjoint.contact_terms`.

For redundant contacts, such as the corners of a box, only sums of the multipliers m are determined. Friction
would drive the undetermined part to infinity as the softening goes to zero, see `share_multipliers`.

Source: implicit differentiation of complementarity problems at their active set, as in de Avila
Belbute-Peres, Smith, Allen, Tenenbaum, Kolter, "End-to-end differentiable physics for learning and control",
2018; Geilinger et al., "ADD: Analytically differentiable dynamics for multi-body systems with frictional
contact", 2020.

Stage: backward pass of constraints, multipliers
Called by: solvers/featherstone/constraint_adjoint.py, kernels/constraints/adjoint/impacts.py,
    kernels/constraints/adjoint/solution_error.py, kernels/constraints/linear/selection.py,
    kernels/constraints/linear/system.py
Reads: ContactView, ImpulseView, RowsView, TreeView, WorldDofsView
Writes: RowAdjointView, SystemView, reason, y
"""

import newtonsim.kernels.lazy_warp as wp
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
    friction_by_slip,
    open_rows,
    select_rows,
)
from newtonsim.kernels.constraints.adjoint.products import (
    assign,
    push_triple,
    row_product,
    triple_product,
    write_solution,
)
from newtonsim.kernels.constraints.adjoint.system import (
    TOLERANCE,
    ZERO,
    SystemView,
    contact_product,
    row_weight,
    solve_weighted,
    weigh,
    weigh_contact,
)
from newtonsim.kernels.constraints.contact_rows import spin_width
from newtonsim.kernels.constraints.islands import find_islands
from newtonsim.kernels.constraints.laws import dof_leaf, has_spin
from newtonsim.kernels.constraints.rows import RowsView, WorldDofsView
from newtonsim.kernels.constraints.smoothing import friction_matrix, friction_per_slip, friction_slope
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def slide_slope(bound: float, slip: wp.vec2, width: float) -> wp.mat22:
    """K: negative slope of the friction of a sliding contact by the slip, softened over a width if any."""
    if width > 0.0:
        return bound * friction_matrix(slip, width)
    speed = wp.max(wp.length(slip), SLOWEST_SLIP)
    d = slip / speed
    return (bound / speed) * (wp.identity(n=2, dtype=float) - wp.outer(d, d))


@wp.func
def equation_block(rows: wp.ref[RowsView], c: int, mode: int) -> wp.mat33:
    """Weights of the rows of a contact that are equations."""
    A = wp.mat33()
    delassus = rows.contact.delassus[c]
    A[0, 0] = row_weight(delassus[0], rows.contact.softness[c])
    if mode == ROW_HOLDS:
        A[1, 1] = row_weight(delassus[1], 0.0)
        A[2, 2] = A[1, 1]
    return A


@wp.func
def weigh_friction(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    c: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
):
    """Set the weights of a contact that acts."""
    A = equation_block(rows, c, adj.contact_mode[c])
    normal = A[0, 0]
    p = impulse.contact[c][0]
    if adj.contact_mode[c] == ROW_BOUNDED:
        mu = rows.contact.friction[c]
        slip = contact_slip(tree, rows, c, depth, impulse.z) - adj.contact_slip_before_impact[c]
        width = rows.contact.slip_width[c]
        K = slide_slope(mu * p, slip, width)
        rate = mu * friction_by_slip(wp.length(slip), width)
        for i in range(2):
            A[0, 1 + i] = -normal * rate * slip[i]
            for j in range(2):
                A[1 + i, 1 + j] = K[i, j]
    s.contact[c] = A
    if has_spin(rows, c):
        weigh_spin(tree, rows, s, c, depth, normal, p, impulse, adj)


@wp.func
def weigh_spin(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    c: int,
    depth: int,
    normal: float,
    p: float,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
):
    """Set the weights of the spin rows; `normal` is that of the normal row, and p its impulse."""
    S = wp.mat33()
    M = wp.mat33()
    modes = adj.spin_mode[c]
    turn = rows.spin.delassus[c]
    spin = contact_spin(tree, rows, c, depth, impulse.z)
    slip_width = rows.contact.slip_width[c]
    if modes[0] == ROW_HOLDS:
        S[0, 0] = row_weight(turn[0], 0.0)
    elif modes[0] == ROW_BOUNDED:
        torsion = rows.spin.torsion[c]
        M[0, 0] = -normal * torsion * wp.sign(spin[0])
        if slip_width > 0.0:
            turn_width = spin_width(slip_width, torsion)
            M[0, 0] = -normal * torsion * friction_per_slip(wp.abs(spin[0]), turn_width) * spin[0]
            S[0, 0] = torsion * p * friction_slope(wp.abs(spin[0]), turn_width)
    if modes[1] == ROW_HOLDS:
        S[1, 1] = row_weight(turn[1], 0.0)
        S[2, 2] = S[1, 1]
    elif modes[1] == ROW_BOUNDED:
        roll = wp.vec2(spin[1], spin[2])
        width = spin_width(slip_width, rows.spin.rolling[c])
        R = slide_slope(rows.spin.rolling[c] * p, roll, width)
        rate = rows.spin.rolling[c] * friction_by_slip(wp.length(roll), width)
        for i in range(2):
            M[0, 1 + i] = -normal * rate * roll[i]
            for j in range(2):
                S[1 + i, 1 + j] = R[i, j]
    s.spin[c] = S
    s.mixed[c] = M


@wp.func
def clear_contact(rows: wp.ref[RowsView], s: wp.ref[SystemView], c: int):
    """Clear the weights of contact c."""
    s.contact[c] = wp.mat33()
    if rows.spins == 1:
        s.spin[c] = wp.mat33()
        s.mixed[c] = wp.mat33()


@wp.func(inline=False)
def weigh_rows(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
):
    """Set the weights of all rows of an island."""
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = s.islands.dof_row[i]
        s.dof[r] = 0.0
        if adj.dof_mode[r] == ROW_HOLDS:
            s.dof[r] = row_weight(rows.dof.delassus[r], rows.dof.softness[r])
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = s.islands.pair[i]
        s.pair[p] = 0.0
        if adj.pair_mode[p] == ROW_HOLDS:
            s.pair[p] = row_weight(rows.pair.delassus[p], rows.pair.softness[p])
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        clear_contact(rows, s, c)
        if adj.contact_mode[c] != ROW_OPEN:
            weigh_friction(tree, rows, s, c, depth, impulse, adj)


@wp.func
def narrow(v: wp.vec3d) -> wp.vec3:
    """Single precision."""
    return wp.vec3(float(v[0]), float(v[1]), float(v[2]))


@wp.func
def write_contact_multiplier(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    c: int,
    depth: int,
    adj: wp.ref[RowAdjointView],
    x: wp.array(dtype=wp.float64),
):
    """Multipliers of the rows of a contact that acts."""
    v = contact_product(tree, rows, c, depth, x, 0)
    m = weigh_contact(rows, s, c, v)
    if adj.contact_mode[c] == ROW_BOUNDED:
        m.contact[1] = v.contact[1]
        m.contact[2] = v.contact[2]
    adj.contact_multiplier[c] = narrow(m.contact)
    if rows.spins == 1:
        modes = adj.spin_mode[c]
        if modes[0] == ROW_BOUNDED:
            m.spin[0] = v.spin[0]
        if modes[1] == ROW_BOUNDED:
            m.spin[1] = v.spin[1]
            m.spin[2] = v.spin[2]
        adj.spin_multiplier[c] = narrow(m.spin)


@wp.func(inline=False)
def write_multipliers(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    depth: int,
    adj: wp.ref[RowAdjointView],
    x: wp.array(dtype=wp.float64),
):
    """Multipliers of all rows of an island from the solution x."""
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        r = s.islands.dof_row[i]
        if adj.dof_mode[r] != ROW_OPEN:
            m = row_product(tree, dof_leaf(rows, r), depth, r, rows.dof.B, x, 0)
            if adj.dof_mode[r] == ROW_HOLDS:
                m *= wp.float64(s.dof[r])
            adj.dof_multiplier[r] = float(m)
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = s.islands.pair[i]
        if adj.pair_mode[p] != ROW_OPEN:
            u = row_product(tree, rows.pair.leaf[p], depth, p, rows.pair.B, x, 0)
            if adj.pair_mode[p] == ROW_HOLDS:
                u *= wp.float64(s.pair[p])
            adj.pair_multiplier[p] = float(u)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        if adj.contact_mode[c] != ROW_OPEN:
            write_contact_multiplier(tree, rows, s, c, depth, adj, x)


@wp.func
def is_rigid(rows: wp.ref[RowsView], c: int, adj: wp.ref[RowAdjointView]) -> bool:
    """True if only the softening determines the share of a contact that acts among redundant ones."""
    return adj.contact_mode[c] != ROW_OPEN and rows.contact.softness[c] == 0.0


@wp.func
def shares_multipliers(
    rows: wp.ref[RowsView], s: wp.ref[SystemView], k: int, adj: wp.ref[RowAdjointView]
) -> bool:
    """True if an island has several rigid contacts that act, and friction where one slides."""
    rigid = int(0)
    slides = bool(False)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        if is_rigid(rows, c, adj):
            rigid += 1
            if adj.contact_mode[c] == ROW_BOUNDED and rows.contact.friction[c] > 0.0:
                slides = True
    return slides and rigid > 1


@wp.func
def weigh_equations(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    depth: int,
    adj: wp.ref[RowAdjointView],
):
    """Set only the weights of the equations of rigid contacts, and `s.r` to their Σ Jᵀ m."""
    assign(s.islands, k, ZERO, s.x, 0, s.r, 0)
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        s.dof[s.islands.dof_row[i]] = 0.0
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        s.pair[s.islands.pair[i]] = 0.0
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        rigid = is_rigid(rows, c, adj)
        if rigid:
            # its null space may use up all digits of single precision
            v = contact_product(tree, rows, c, depth, s.x, 0)
            m = weigh_contact(rows, s, c, v).contact
            if adj.contact_mode[c] == ROW_BOUNDED:
                m = wp.vec3d(m[0], ZERO, ZERO)
            push_triple(tree, rows.contact.leaf[c], depth, c, m, rows.contact.B, s.r, 0)
        clear_contact(rows, s, c)
        if rigid:
            s.contact[c] = equation_block(rows, c, adj.contact_mode[c])


@wp.func(inline=False)
def share_multipliers(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    w: int,
    depth: int,
    adj: wp.ref[RowAdjointView],
) -> int:
    """Choose the least of all multipliers of rigid contacts with the same Σ Jᵀ m; see `solve_weighted`.

    `s.x` holds the solution that they come from, and is overwritten.

    Sliding friction makes the system unsymmetric, and its softened solution then has a component in the null
    space of Jᵀ that grows as the softening decreases. This component is the response of the step to
    contradictory target velocities of redundant contacts. Since the contacts move with the bodies, their
    targets cannot become contradictory; where they are, as in rebounds at different times of one step, the
    sweeps end in a compromise. Least squares, weighted by the Delassus numbers, remove this component.
    """
    weigh_equations(tree, rows, s, k, depth, adj)
    found = solve_weighted(tree, rows, s, k, w, depth, TOLERANCE)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        if is_rigid(rows, c, adj):
            v = triple_product(tree, rows.contact.leaf[c], depth, c, rows.contact.B, s.x, 0)
            m = narrow(weigh(s.contact[c], 0, v))
            if adj.contact_mode[c] == ROW_BOUNDED:
                kept = adj.contact_multiplier[c]
                m = wp.vec3(m[0], kept[1], kept[2])
            adj.contact_multiplier[c] = m
    return found


@wp.kernel
def solve_adjoint(
    first: int,
    tree: wp.array(dtype=TreeView),
    dofs: wp.array(dtype=WorldDofsView),
    rows: wp.array(dtype=RowsView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    impulse: ImpulseView,
    system: wp.array(dtype=SystemView),
    adj: wp.array(dtype=RowAdjointView),
    y: wp.array(dtype=float),
    reason: wp.array(dtype=int),
):
    """One thread per world: turn a gradient y of z into ζ; find the modes and multipliers of its rows."""
    w = first + wp.tid()
    asked = bool(False)
    for i in range(dofs[0].world_start[w], dofs[0].world_start[w + 1]):
        d = dofs[0].dof[i]
        asked = asked or y[d] != 0.0
        system[0].r[d] = wp.float64(y[d])
    if not asked:
        open_rows(rows[0], contacts[0], w, adj[0])
        return
    if select_rows(tree[0], rows[0], contacts[0], w, depth, impulse, adj[0]) == 0:
        return
    find_islands(tree[0], rows[0], contacts[0], w, system[0].islands)
    begin = system[0].islands.tree_start[w]
    found = int(0)
    for k in range(begin, begin + system[0].islands.count[w]):
        weigh_rows(tree[0], rows[0], system[0], k, depth, impulse, adj[0])
        found = found | solve_weighted(tree[0], rows[0], system[0], k, w, depth, TOLERANCE)
        write_multipliers(tree[0], rows[0], system[0], k, depth, adj[0], system[0].x)
        write_solution(system[0].islands, k, system[0].x, y)
        if shares_multipliers(rows[0], system[0], k, adj[0]):
            found = found | share_multipliers(tree[0], rows[0], system[0], k, w, depth, adj[0])
    reason[w] = reason[w] | found
