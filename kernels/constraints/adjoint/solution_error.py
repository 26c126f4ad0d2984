"""Distance between the result of the sweeps of a step and the solution of its constraints.

The adjoint in `constraints.adjoint.solve` is that of the exact solution of the rows that act. If sweeps stop
before they reach it, one step of Newton's method from their result estimates the distance: with the residuals
r of all equations, and s of friction at its bound, the change δz of the velocities in energy coordinates
solves

    (1 + B Mᵀ Bᵀ) δz = B (Mᵀ r + s)

with the weights M of the adjoint, here transposed back. Rows that do not act but should, according to the
sign of their residual, count as equations, as in semismooth Newton methods (Hintermüller, Ito, Kunisch, "The
primal-dual active set strategy as a semismooth Newton method", SIAM J. Optim. 13, 2002).

Stage: after a step, where its accuracy is asked for
Called by: solvers/featherstone/solution_error.py
Reads: ContactView, ErrorView, ImpulseView, L, RowAdjointView, RowsView, TreeView, WorldDofsView, multiplier,
    residual, v_end, v_free, world_state, z
Writes: ErrorView, SystemView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import doti
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_BOUNDED,
    ROW_HOLDS,
    ROW_OPEN,
    ImpulseView,
    RowAdjointView,
    friction_by_slip,
    row_mode,
)
from newtonsim.kernels.constraints.adjoint.products import assign, push_row
from newtonsim.kernels.constraints.adjoint.solve import clear_contact, weigh_friction
from newtonsim.kernels.constraints.adjoint.system import (
    ZERO,
    ContactProduct,
    SystemView,
    push_contact,
    row_weight,
    solve_weighted,
    weigh_contact,
    widen,
)
from newtonsim.kernels.constraints.chains import row_velocity, triple_velocity
from newtonsim.kernels.constraints.contact_rows import spin_width
from newtonsim.kernels.constraints.dof_rows import NOTHING_ACTED
from newtonsim.kernels.constraints.islands import find_islands
from newtonsim.kernels.constraints.laws import dof_leaf, has_spin
from newtonsim.kernels.constraints.rows import RowsView, WorldDofsView
from newtonsim.kernels.constraints.smoothing import friction_per_slip
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# change of a velocity in the last sweep above which a world is examined: as a share of what constraints
# changed in the velocities (a thousand such sweeps add up to a hundredth of it), and in any case [m/s or
# rad/s]
SLOW = wp.constant(1.0e-5)
ROUNDED = wp.constant(1.0e-6)
# residual of the system, whose right-hand side contains residuals times the weights of hard rows
FINE = wp.constant(wp.float64(1.0e-10))
# least change by constraints, as a share of the velocities
ROUNDING = wp.constant(1.0e-2)


@wp.struct
class ErrorView:
    """Errors of the steps of a backward pass: D dofs, T trees, W worlds."""

    looked: wp.array(dtype=int)  # (W) 1 if `change` holds that of the step, else it counts as 0
    change: wp.array(dtype=float)  # (D) δz of the step
    steps: wp.array(dtype=int)  # (T) steps so far
    sums: wp.array(dtype=wp.vec2d)  # (T) sums of squares of δz, and of the change of z by constraints
    worst: wp.array(dtype=float)  # (T) largest square of δz in a step
    worst_step: wp.array(dtype=int)  # (T) steps before that


@wp.struct
class RowError:
    """A row of a system: weight, zero if it is not part of it, and residual."""

    weight: float
    residual: float


@wp.struct
class ContactError:
    """Residuals of the equations of a contact, and of its friction at a bound."""

    equations: ContactProduct
    friction: ContactProduct


@wp.func
def row_error(
    v: float, impulse: float, delassus: float, softness: float, target: wp.vec2, bounds: wp.vec2
) -> RowError:
    """Residual of a row with an interval of target velocities and bounds of its impulse."""
    goal = wp.clamp(v, target[0], target[1])
    if impulse > 0.0:
        goal = target[0]
    elif impulse < 0.0:
        goal = target[1]
    left = goal - v - softness * impulse
    acts = row_mode(impulse, delassus, target, bounds) == ROW_HOLDS
    acts = acts or (left > 0.0 and impulse < bounds[1]) or (left < 0.0 and impulse > bounds[0])
    e = RowError()
    if acts and delassus > 0.0:
        e.weight = row_weight(delassus, softness)
        e.residual = left
    return e


@wp.func
def dof_error(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], r: int, depth: int, impulse: wp.ref[ImpulseView]
) -> RowError:
    """Residual of a row on one dof."""
    v = row_velocity(tree, dof_leaf(rows, r), r, depth, rows.dof.B, impulse.z)
    target = wp.vec2(rows.dof.target_lower[r], rows.dof.target_upper[r])
    bounds = wp.vec2(rows.dof.lower[r], rows.dof.upper[r])
    return row_error(v, impulse.dof[r], rows.dof.delassus[r], rows.dof.softness[r], target, bounds)


@wp.func
def pair_error(
    tree: wp.ref[TreeView], rows: wp.ref[PairRowView], p: int, depth: int, impulse: wp.ref[ImpulseView]
) -> RowError:
    """Residual of a row between bodies or dofs."""
    v = row_velocity(tree, rows.leaf[p], p, depth, rows.B, impulse.z)
    target = wp.vec2(rows.target_lower[p], rows.target_upper[p])
    bounds = wp.vec2(rows.lower[p], rows.upper[p])
    return row_error(v, impulse.pair[p], rows.delassus[p], rows.softness[p], target, bounds)


@wp.func
def bound_error(bound: float, slip: wp.vec2, friction: wp.vec2, width: float) -> wp.vec2:
    """Residual of friction at its bound against being opposite to the slip, softened over a width if any."""
    return -bound * friction_by_slip(wp.length(slip), width) * slip - friction


@wp.func
def approach(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, depth: int, impulse: wp.ref[ImpulseView]
) -> wp.vec3:
    """Target velocity of a contact minus its velocity, and minus the term of its softness."""
    left = rows.contact.target[c]
    left -= triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, impulse.z)
    left[0] -= rows.contact.softness[c] * impulse.contact[c][0]
    return left


@wp.func
def acts(rows: wp.ref[RowsView], c: int, left: wp.vec3, adj: wp.ref[RowAdjointView]) -> bool:
    """Whether a contact is part of the system: it presses, or should."""
    return adj.contact_mode[c] != ROW_OPEN or (left[0] > 0.0 and rows.contact.delassus[c][0] > 0.0)


@wp.func
def contact_error(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    left: wp.vec3,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
) -> ContactError:
    """Residuals of a contact that acts; `left` is from `approach`."""
    e = ContactError()
    p = impulse.contact[c]
    sticks = float(adj.contact_mode[c] == ROW_HOLDS)
    e.equations.contact = widen(wp.vec3(left[0], sticks * left[1], sticks * left[2]))
    if adj.contact_mode[c] == ROW_BOUNDED:
        slip = wp.vec2(-left[1], -left[2])
        width = rows.contact.slip_width[c]
        s = bound_error(rows.contact.friction[c] * p[0], slip, wp.vec2(p[1], p[2]), width)
        e.friction.contact = widen(wp.vec3(0.0, s[0], s[1]))
    if has_spin(rows, c) and adj.contact_mode[c] != ROW_OPEN:
        modes = adj.spin_mode[c]
        q = impulse.spin[c]
        u = rows.spin.target[c] - triple_velocity(
            tree, rows.contact.leaf[c], c, depth, rows.spin.B, impulse.z
        )
        holds = wp.vec2(float(modes[0] == ROW_HOLDS), float(modes[1] == ROW_HOLDS))
        e.equations.spin = widen(wp.vec3(holds[0] * u[0], holds[1] * u[1], holds[1] * u[2]))
        s = wp.vec2(0.0, 0.0)
        if modes[1] == ROW_BOUNDED:
            roll_width = spin_width(rows.contact.slip_width[c], rows.spin.rolling[c])
            roll = wp.vec2(-u[1], -u[2])
            s = bound_error(rows.spin.rolling[c] * p[0], roll, wp.vec2(q[1], q[2]), roll_width)
        turn = float(0.0)
        if modes[0] == ROW_BOUNDED:
            torsion = rows.spin.torsion[c]
            turn_width = spin_width(rows.contact.slip_width[c], torsion)
            turn = torsion * p[0] * wp.sign(u[0]) - q[0]
            if turn_width > 0.0:
                turn = torsion * p[0] * friction_per_slip(wp.abs(u[0]), turn_width) * u[0] - q[0]
        e.friction.spin = widen(wp.vec3(turn, s[0], s[1]))
    return e


@wp.func(inline=False)
def weigh_errors(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    s: wp.ref[SystemView],
    k: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    r: wp.array(dtype=wp.float64),
):
    """Set the weights of the rows of an island, and the right-hand side."""
    assign(s.islands, k, ZERO, r, 0, r, 0)
    dofs = s.islands.dofs[k]
    for i in range(dofs[0], dofs[1]):
        d = s.islands.dof_row[i]
        e = dof_error(tree, rows, d, depth, impulse)
        s.dof[d] = e.weight
        m = wp.float64(e.weight) * wp.float64(e.residual)
        push_row(tree, dof_leaf(rows, d), depth, d, m, rows.dof.B, r, 0)
    pairs = s.islands.pairs[k]
    for i in range(pairs[0], pairs[1]):
        p = s.islands.pair[i]
        f = pair_error(tree, rows.pair, p, depth, impulse)
        s.pair[p] = f.weight
        n = wp.float64(f.weight) * wp.float64(f.residual)
        push_row(tree, rows.pair.leaf[p], depth, p, n, rows.pair.B, r, 0)
    touches = s.islands.contacts[k]
    for i in range(touches[0], touches[1]):
        c = s.islands.contact[i]
        left = approach(tree, rows, c, depth, impulse)
        clear_contact(rows, s, c)
        if acts(rows, c, left, adj):
            if adj.contact_mode[c] == ROW_OPEN:
                A = wp.mat33()
                A[0, 0] = row_weight(rows.contact.delassus[c][0], rows.contact.softness[c])
                s.contact[c] = A
            else:
                weigh_friction(tree, rows, s, c, depth, impulse, adj)
            g = contact_error(tree, rows, c, depth, left, impulse, adj)
            q = weigh_contact(rows, s, c, g.equations)
            q.contact += g.friction.contact
            q.spin += g.friction.spin
            push_contact(tree, rows, c, depth, q, r, 0)


@wp.func
def is_sure(
    w: int,
    world_start: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    residual: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    multiplier: wp.array(dtype=float),
) -> bool:
    """Whether the sweeps of a world have converged, judged by the last one, or no gradient is requested."""
    if residual[w] <= ROUNDED:
        return True
    asked = bool(False)
    change = float(0.0)
    for i in range(world_start[w], world_start[w + 1]):
        d = dof[i]
        change = wp.max(change, wp.abs(v_end[d] - v_free[d]))
        if multiplier[d] != 0.0:
            asked = True
    return not asked or residual[w] <= SLOW * change


@wp.kernel
def find_changes(
    first: int,
    tree: wp.array(dtype=TreeView),
    rows: wp.array(dtype=RowsView),
    contacts: wp.array(dtype=ContactView),
    depth: int,
    dofs: wp.array(dtype=WorldDofsView),
    impulse: ImpulseView,
    residual: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    multiplier: wp.array(dtype=float),
    system: wp.array(dtype=SystemView),
    adj: wp.array(dtype=RowAdjointView),
    errors: ErrorView,
):
    """One thread per world: compute δz, where sweeps may have stopped early.

    `adj` and `multiplier` come from the adjoint of the final solution; `multiplier` is all zero where no
    gradient was requested. `system` is transposed.
    """
    w = first + wp.tid()
    errors.looked[w] = 0
    if is_sure(w, dofs[0].world_start, dofs[0].dof, residual, v_free, v_end, multiplier):
        return
    find_islands(tree[0], rows[0], contacts[0], w, system[0].islands)
    begin = system[0].islands.tree_start[w]
    found = int(0)
    for k in range(begin, begin + system[0].islands.count[w]):
        weigh_errors(tree[0], rows[0], system[0], k, depth, impulse, adj[0], system[0].r)
        found = found | solve_weighted(tree[0], rows[0], system[0], k, w, depth, FINE)
    if found == 0:
        errors.looked[w] = 1
        for i in range(dofs[0].world_start[w], dofs[0].world_start[w + 1]):
            errors.change[dofs[0].dof[i]] = float(system[0].x[dofs[0].dof[i]])


@wp.kernel
def add_changes(
    first: int,
    tree: TreeView,
    L: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    z: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    errors: ErrorView,
):
    """One thread per tree: add up squares of δz, and of the change of z by constraints."""
    t = first + wp.tid()
    w = tree.world[t]
    off = float(0.0)
    acted = float(0.0)
    if world_state[w] != NOTHING_ACTED:
        for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
            d = tree.dof[n]
            row = tree.dof_row[d]
            depth = tree.dof_depth[d]
            gain = z[d] - (v_free[d] + doti(depth, L, tree.row_dof, row, v_free)) / L[row + depth]
            acted += gain * gain + ROUNDING * ROUNDING * z[d] * z[d]
            if errors.looked[w] == 1:
                off += errors.change[d] * errors.change[d]
    if wp.isfinite(off + acted):
        errors.sums[t] = errors.sums[t] + wp.vec2d(wp.float64(off), wp.float64(acted))
        if off > errors.worst[t]:
            errors.worst[t] = off
            errors.worst_step[t] = errors.steps[t]
    errors.steps[t] = errors.steps[t] + 1
