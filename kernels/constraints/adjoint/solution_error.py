"""How far the sweeps of a step ended from the solution of its constraints.

The adjoint of `constraints.adjoint.solve` is that of the solution of the rows that act. Where sweeps stop
before they reach it, one step of Newton's method from where they stopped tells how far it is: with the
residuals r of all equations, and s of friction at its bound, the change δz of the velocities in energy
coordinates solves

    (1 + B Mᵀ Bᵀ) δz = B (Mᵀ r + s)

with the weights M that the adjoint has, here transposed back. Rows that do not act but should, by the sign of
their residual, count as equations, as in semismooth Newton methods (Hintermüller, Ito, Kunisch, "The
primal-dual active set strategy as a semismooth Newton method", SIAM J. Optim. 13, 2002).

Stage: after a step, where its accuracy is asked for
Called by: solvers/featherstone/solution_error.py
Reads: ContactView, ErrorView, ImpulseView, L, RowAdjointView, RowsView, SkylineView, TreeView, dof,
    multiplier, place, residual, v_end, v_free, world_state, z
Writes: ErrorView, SkylineView
"""

import warp as wp

from newtonsim.kernels.algebra.skyline_algebra import (
    add_outer,
    add_row,
    couple_chains,
    push_row_to,
    push_triple_to,
)
from newtonsim.kernels.algebra.skyline_lu import SkylineView, begin_skyline, clear_skyline, solve_system
from newtonsim.kernels.algebra.sparse_blas import doti
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_BOUNDED,
    ROW_HOLDS,
    ROW_OPEN,
    SLOWEST_SLIP,
    ImpulseView,
    RowAdjointView,
    row_mode,
)
from newtonsim.kernels.constraints.adjoint.solve import ContactBlock, contact_block, softness_weight
from newtonsim.kernels.constraints.chains import row_velocity, triple_velocity
from newtonsim.kernels.constraints.dof_rows import NOTHING_ACTED
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# change of a velocity in the last sweep beyond which a world is looked at: as a share of what constraints did
# to the velocities, of which a thousand such sweeps make a hundredth, and in any case [m/s or rad/s]
SLOW = wp.constant(1.0e-5)
ROUNDED = wp.constant(1.0e-6)
# share of the velocities that counts as what constraints do, in any case
ROUNDING = wp.constant(1.0e-2)


@wp.struct
class ErrorView:
    """Errors of the steps of a backward pass: D dofs, T trees, W worlds."""

    looked: wp.array(dtype=int)  # (W) 1 if `change` holds that of the step, else 0 stands for it
    change: wp.array(dtype=float)  # (D) δz of the step
    steps: wp.array(dtype=int)  # (T) steps so far
    sums: wp.array(dtype=wp.vec2d)  # (T) squares of δz, and of what constraints did to z
    worst: wp.array(dtype=float)  # (T) largest square of δz in a step
    worst_step: wp.array(dtype=int)  # (T) steps before that


@wp.struct
class RowError:
    """A row of a system: its weight, zero if it is none, and residual."""

    weight: wp.float64
    residual: wp.float64


@wp.struct
class ContactError:
    """Residuals of the equations of a contact, and of its friction at a bound."""

    equations: wp.vec3d
    friction: wp.vec3d
    spins: wp.vec3d
    spin_friction: wp.vec3d


@wp.func
def row_error(
    v: float, impulse: float, delassus: float, softness: float, target: wp.vec2, bounds: wp.vec2
) -> RowError:
    """What a row with an interval of target velocities and bounds of its impulse lacks."""
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
        e.weight = softness_weight(delassus, softness)
        e.residual = wp.float64(left)
    return e


@wp.func
def dof_error(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], r: int, depth: int, impulse: wp.ref[ImpulseView]
) -> RowError:
    """What a row on one dof lacks."""
    leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
    v = row_velocity(tree, leaf, r, depth, rows.dof.B, impulse.z)
    target = wp.vec2(rows.dof.target_lower[r], rows.dof.target_upper[r])
    bounds = wp.vec2(rows.dof.lower[r], rows.dof.upper[r])
    return row_error(v, impulse.dof[r], rows.dof.delassus[r], rows.dof.softness[r], target, bounds)


@wp.func
def pair_error(
    tree: wp.ref[TreeView], rows: wp.ref[PairRowView], p: int, depth: int, impulse: wp.ref[ImpulseView]
) -> RowError:
    """What a row between bodies or dofs lacks."""
    v = row_velocity(tree, rows.leaf[p], p, depth, rows.B, impulse.z)
    target = wp.vec2(rows.target_lower[p], rows.target_upper[p])
    bounds = wp.vec2(rows.lower[p], rows.upper[p])
    return row_error(v, impulse.pair[p], rows.delassus[p], rows.softness[p], target, bounds)


@wp.func
def bound_error(bound: float, slip: wp.vec2, friction: wp.vec2) -> wp.vec2:
    """What friction at its bound lacks to be opposite to the slip."""
    return -bound / wp.max(wp.length(slip), SLOWEST_SLIP) * slip - friction


@wp.func
def widen(v: wp.vec3) -> wp.vec3d:
    """Double precision."""
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def approach(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], c: int, depth: int, impulse: wp.ref[ImpulseView]
) -> wp.vec3:
    """Target velocity of a contact less what it has, and less what its softness gives."""
    left = rows.contact.target[c]
    left -= triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, impulse.z)
    left[0] -= rows.contact.softness[c] * impulse.contact[c][0]
    return left


@wp.func
def acts(rows: wp.ref[RowsView], c: int, left: wp.vec3, adj: wp.ref[RowAdjointView]) -> bool:
    """Whether a contact is part of the system: it presses, or ought to."""
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
    """What a contact that acts lacks; `left` is from `approach`."""
    e = ContactError()
    p = impulse.contact[c]
    sticks = float(adj.contact_mode[c] == ROW_HOLDS)
    e.equations = widen(wp.vec3(left[0], sticks * left[1], sticks * left[2]))
    if adj.contact_mode[c] == ROW_BOUNDED:
        slip = wp.vec2(-left[1], -left[2])
        s = bound_error(rows.contact.friction[c] * p[0], slip, wp.vec2(p[1], p[2]))
        e.friction = widen(wp.vec3(0.0, s[0], s[1]))
    if rows.spins == 1 and adj.contact_mode[c] != ROW_OPEN:
        modes = adj.spin_mode[c]
        q = impulse.spin[c]
        u = rows.spin.target[c] - triple_velocity(
            tree, rows.contact.leaf[c], c, depth, rows.spin.B, impulse.z
        )
        holds = wp.vec2(float(modes[0] == ROW_HOLDS), float(modes[1] == ROW_HOLDS))
        e.spins = widen(wp.vec3(holds[0] * u[0], holds[1] * u[1], holds[1] * u[2]))
        s = wp.vec2(0.0, 0.0)
        if modes[1] == ROW_BOUNDED:
            s = bound_error(rows.spin.rolling[c] * p[0], wp.vec2(-u[1], -u[2]), wp.vec2(q[1], q[2]))
        turn = float(0.0)
        if modes[0] == ROW_BOUNDED:
            turn = rows.spin.torsion[c] * p[0] * wp.sign(u[0]) - q[0]
        e.spin_friction = widen(wp.vec3(turn, s[0], s[1]))
    return e


@wp.func
def acting_block(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
) -> ContactBlock:
    """Weights of a contact; of one that ought to press, those of its normal row."""
    block = ContactBlock()
    if adj.contact_mode[c] == ROW_OPEN:
        A = wp.mat33d()
        A[0, 0] = softness_weight(rows.contact.delassus[c][0], rows.contact.softness[c])
        block.contact = A
    else:
        block = contact_block(tree, rows, c, depth, impulse, adj)
    return block


@wp.func(inline=False)
def lay_out_rows(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    place: wp.array(dtype=int),
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    sky: wp.ref[SkylineView],
) -> bool:
    """Make room for all rows of the system and set the matrix to one; False if there is no room."""
    clear_skyline(sky, w)
    base = sky.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if dof_error(tree, rows, r, depth, impulse).weight > wp.float64(0.0):
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            couple_chains(tree, place, sky, base, leaf)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if pair_error(tree, rows.pair, p, depth, impulse).weight > wp.float64(0.0):
            couple_chains(tree, place, sky, base, rows.pair.leaf[p])
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if acts(rows, c, approach(tree, rows, c, depth, impulse), adj):
            couple_chains(tree, place, sky, base, rows.contact.leaf[c])
    return begin_skyline(sky, w)


@wp.func(inline=False)
def assemble_rows(
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
    """Add all rows to the matrix, and their residuals to `sky.x`."""
    base = sky.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        e = dof_error(tree, rows, r, depth, impulse)
        if e.weight > wp.float64(0.0):
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            add_row(tree, place, sky, base, leaf, depth, r, e.weight, rows.dof.B)
            push_row_to(tree, place, sky.x, base, leaf, depth, r, e.weight * e.residual, rows.dof.B)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        f = pair_error(tree, rows.pair, p, depth, impulse)
        if f.weight > wp.float64(0.0):
            leaf = rows.pair.leaf[p]
            add_row(tree, place, sky, base, leaf, depth, p, f.weight, rows.pair.B)
            push_row_to(tree, place, sky.x, base, leaf, depth, p, f.weight * f.residual, rows.pair.B)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        left = approach(tree, rows, c, depth, impulse)
        if acts(rows, c, left, adj):
            leaf = rows.contact.leaf[c]
            block = acting_block(tree, rows, c, depth, impulse, adj)
            g = contact_error(tree, rows, c, depth, left, impulse, adj)
            A = wp.transpose(block.contact)
            B = rows.contact.B
            add_outer(tree, place, sky, base, leaf, depth, c, A, B, B)
            push_triple_to(tree, place, sky.x, base, leaf, depth, c, A * g.equations + g.friction, B)
            if rows.spins == 1:
                S = wp.transpose(block.spin)
                M = wp.transpose(block.mixed)
                R = rows.spin.B
                add_outer(tree, place, sky, base, leaf, depth, c, S, R, R)
                add_outer(tree, place, sky, base, leaf, depth, c, M, R, B)
                turn = S * g.spins + M * g.equations + g.spin_friction
                push_triple_to(tree, place, sky.x, base, leaf, depth, c, turn, R)


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
    """Whether the sweeps of a world have converged by what the last one did, or no gradient is asked for."""
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
    tree: TreeView,
    rows: RowsView,
    contacts: ContactView,
    depth: int,
    place: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    impulse: ImpulseView,
    residual: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    multiplier: wp.array(dtype=float),
    sky: SkylineView,
    adj: RowAdjointView,
    errors: ErrorView,
):
    """One thread per world: δz, where sweeps may have stopped early.

    `adj` and `multiplier` are what the adjoint of the final solution found, and the latter all zero where no
    gradient was asked for.
    """
    w = first + wp.tid()
    errors.looked[w] = 0
    if is_sure(w, sky.world_start, dof, residual, v_free, v_end, multiplier):
        return
    if not lay_out_rows(tree, rows, contacts, w, depth, place, impulse, adj, sky):
        return
    assemble_rows(tree, rows, contacts, w, depth, place, impulse, adj, sky)
    if solve_system(sky, w):
        errors.looked[w] = 1
        for i in range(sky.world_start[w], sky.world_start[w + 1]):
            errors.change[dof[i]] = float(sky.x[i])


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
    """One thread per tree: add up squares of δz, and of what constraints did to z."""
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
