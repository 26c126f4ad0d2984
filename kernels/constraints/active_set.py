"""Direct solve for the impulses that Gauss-Seidel sweeps found to be active.

Sweeps tell soon which contacts press and which of them stick, but carry loads slowly through stacks, closed
loops and light parts that hold heavy ones. With the active rows B taken as equations,

    (B Bᵀ + C + ε D) δλ = r,  solved as  (1 + Bᵀ W B) δz = Bᵀ W r,  W = (C + ε D)⁻¹,

in energy coordinates, one factorization makes up for thousands of sweeps; the next sweeps then correct the
set (Silcowitz, Niebe, Erleben, "Projected Gauss-Seidel subspace minimization method for interactive rigid
body dynamics", 2010). C is the rows' own softness; ε D, a small share of the Delassus diagonal, makes
redundant rows solvable. Sliding contacts keep the friction that the last sweep gave them.

Stage: constraint solve, between its sweeps
Called by: kernels/constraints/gauss_seidel.py
Reads: ContactRowView, ContactView, DofRowView, EnvelopeView, PairRowView, RowsView, SpinRowView, TreeView, z
Writes: EnvelopeView, RowsView, z
"""

import warp as wp

from newtonsim.kernels.algebra.envelope import (
    EnvelopeView,
    add_row,
    add_triple,
    factorize_envelope,
    lay_out_envelope,
    row_change,
    solve_envelope,
    triple_change,
    widen_envelope,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.chains import push_row, push_triple, row_velocity, triple_velocity
from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import DofRowView
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

SOFTENING = wp.constant(1.0e-5)
# the same for contacts that stay closed, which do not contradict each other as loops do that cannot close;
# the tilt of a heavy body on light ones has eigenvalues as small as the inverse of the mass ratio
RESTING = wp.constant(1.0e-6)
# the same for contacts that remove a penetration, which is impossible for what is wedged in
PUSHING = wp.constant(1.0e-2)
SMALLEST_PIVOT = wp.constant(wp.float64(1.0e-12))
# factorizations in one solve, each after contacts that would pull were opened
ATTEMPTS = wp.constant(3)
# share of a bound below which an impulse counts as free
WITHIN = wp.constant(0.999)


@wp.struct
class Equation:
    """A row taken as an equation; weight zero if it is not active."""

    weight: float
    residual: float


@wp.struct
class TripleEquation:
    """Three rows of a contact taken as equations."""

    weight: wp.vec3
    residual: wp.vec3


@wp.func
def interval_equation(
    v: float,
    impulse: float,
    delassus: float,
    softness: float,
    target: wp.vec2,
    bounds: wp.vec2,
) -> Equation:
    """Equation of a row with an interval of target velocities and bounds of its impulse."""
    e = Equation()
    e.weight = 0.0
    e.residual = 0.0
    equality = target[0] == target[1]
    if delassus > 0.0 and (impulse != 0.0 or equality) and bounds[0] < impulse and impulse < bounds[1]:
        goal = target[0]
        if impulse < 0.0:
            goal = target[1]
        e.weight = 1.0 / (SOFTENING * delassus + softness)
        e.residual = goal - v - softness * impulse
    return e


@wp.func
def dof_equation(
    tree: wp.ref[TreeView],
    rows: wp.ref[DofRowView],
    r: int,
    leaf: wp.vec2i,
    depth: int,
    z: wp.array(dtype=float),
) -> Equation:
    """Equation of a row on one dof."""
    v = row_velocity(tree, leaf, r, depth, rows.B, z)
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    return interval_equation(v, rows.impulse[r], rows.delassus[r], rows.softness[r], target, bounds)


@wp.func
def pair_equation(
    tree: wp.ref[TreeView], rows: wp.ref[PairRowView], r: int, depth: int, z: wp.array(dtype=float)
) -> Equation:
    """Equation of a row between two bodies or dofs."""
    v = row_velocity(tree, rows.leaf[r], r, depth, rows.B, z)
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    return interval_equation(v, rows.impulse[r], rows.delassus[r], rows.softness[r], target, bounds)


@wp.func
def inside_cone(t: wp.vec2, bound: float, pyramidal: bool) -> wp.vec2i:
    """1 for the tangential impulses that are free to change."""
    limit = WITHIN * bound
    free = wp.vec2i(0, 0)
    if pyramidal:
        free = wp.vec2i(int(wp.abs(t[0]) < limit), int(wp.abs(t[1]) < limit))
    elif wp.length(t) < limit:
        free = wp.vec2i(1, 1)
    return free


@wp.func
def contact_equation(
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    c: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> TripleEquation:
    """Equations of a contact: a pressing normal, and tangents that stick."""
    e = TripleEquation()
    e.weight = wp.vec3(0.0, 0.0, 0.0)
    e.residual = wp.vec3(0.0, 0.0, 0.0)
    impulse = rows.impulse[c]
    delassus = rows.delassus[c]
    if impulse[0] > 0.0 and delassus[0] > 0.0:
        soft = rows.softness[c]
        e.residual = rows.target[c] - triple_velocity(tree, rows.leaf[c], c, depth, rows.B, z)
        e.residual[0] = e.residual[0] - soft * impulse[0]
        softening = RESTING
        if rows.impact[c][1] > 0.0:
            softening = PUSHING
        e.weight[0] = 1.0 / (softening * delassus[0] + soft)
        if delassus[1] > 0.0:
            free = inside_cone(wp.vec2(impulse[1], impulse[2]), rows.friction[c] * impulse[0], pyramidal)
            e.weight[1] = float(free[0]) / (RESTING * delassus[1])
            e.weight[2] = float(free[1]) / (RESTING * delassus[1])
    return e


@wp.func
def spin_equation(
    tree: wp.ref[TreeView],
    contact: wp.ref[ContactRowView],
    rows: wp.ref[SpinRowView],
    c: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> TripleEquation:
    """Equations of torsional and rolling friction that stick."""
    e = TripleEquation()
    e.weight = wp.vec3(0.0, 0.0, 0.0)
    e.residual = wp.vec3(0.0, 0.0, 0.0)
    impulse = rows.impulse[c]
    delassus = rows.delassus[c]
    normal = contact.impulse[c][0]
    if normal > 0.0:
        e.residual = rows.target[c] - triple_velocity(tree, contact.leaf[c], c, depth, rows.B, z)
        if delassus[0] > 0.0 and wp.abs(impulse[0]) < WITHIN * rows.torsion[c] * normal:
            e.weight[0] = 1.0 / (RESTING * delassus[0])
        if delassus[1] > 0.0:
            free = inside_cone(wp.vec2(impulse[1], impulse[2]), rows.rolling[c] * normal, pyramidal)
            e.weight[1] = float(free[0]) / (RESTING * delassus[1])
            e.weight[2] = float(free[1]) / (RESTING * delassus[1])
    return e


@wp.func(inline=False)
def keep_impulses(
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
):
    """Keep velocities and impulses of a world."""
    for i in range(env.world_start[w], env.world_start[w + 1]):
        env.kept_z[env.dof[i]] = z[env.dof[i]]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        env.kept_dof[r] = rows.dof.impulse[r]
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        env.kept_pair[p] = rows.pair.impulse[p]
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        env.kept_contact[c] = rows.contact.impulse[c]
        if rows.spins == 1:
            env.kept_spin[c] = rows.spin.impulse[c]


@wp.func(inline=False)
def restore_impulses(
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
):
    """Return to the velocities and impulses that were kept."""
    for i in range(env.world_start[w], env.world_start[w + 1]):
        z[env.dof[i]] = env.kept_z[env.dof[i]]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        rows.dof.impulse[r] = env.kept_dof[r]
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        rows.pair.impulse[p] = env.kept_pair[p]
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        rows.contact.impulse[c] = env.kept_contact[c]
        if rows.spins == 1:
            rows.spin.impulse[c] = env.kept_spin[c]


@wp.func(inline=False)
def find_envelope(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    most: float,
    env: wp.ref[EnvelopeView],
) -> float:
    """Lay out the matrix for all rows that may be active; Σ length² of its rows, 0 if that is too large."""
    base = env.world_start[w]
    for i in range(base, env.world_start[w + 1]):
        env.first[i] = i - base
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        widen_envelope(tree, env, base, wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1))
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if rows.pair.delassus[p] > 0.0:
            widen_envelope(tree, env, base, rows.pair.leaf[p])
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.contact.impulse[c][0] > 0.0:
            widen_envelope(tree, env, base, rows.contact.leaf[c])
    return lay_out_envelope(env, w, most)


@wp.func(inline=False)
def assemble_equations(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    env: wp.ref[EnvelopeView],
):
    """Add all active rows to the matrix."""
    base = env.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
        e = dof_equation(tree, rows.dof, r, leaf, depth, env.z)
        if e.weight > 0.0:
            add_row(tree, env, base, leaf, depth, r, e.weight, e.residual, rows.dof.B)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        f = pair_equation(tree, rows.pair, p, depth, env.z)
        if f.weight > 0.0:
            add_row(tree, env, base, rows.pair.leaf[p], depth, p, f.weight, f.residual, rows.pair.B)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        g = contact_equation(tree, rows.contact, c, depth, pyramidal, env.z)
        leaf = rows.contact.leaf[c]
        if g.weight[0] > 0.0:
            add_triple(tree, env, base, leaf, depth, c, g.weight, g.residual, rows.contact.B)
            if rows.spins == 1:
                h = spin_equation(tree, rows.contact, rows.spin, c, depth, pyramidal, env.z)
                if wp.length_sq(h.weight) > 0.0:
                    add_triple(tree, env, base, leaf, depth, c, h.weight, h.residual, rows.spin.B)


@wp.func(inline=False)
def change_impulses(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
):
    """Move the impulses of all active rows to the solution."""
    base = env.world_start[w]
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
        e = dof_equation(tree, rows.dof, r, leaf, depth, env.z)
        if e.weight > 0.0:
            change = row_change(tree, env, base, leaf, depth, r, e.weight, e.residual, rows.dof.B)
            rows.dof.impulse[r] = rows.dof.impulse[r] + change
            push_row(tree, leaf, r, depth, change, rows.dof.B, z)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        leaf = rows.pair.leaf[p]
        f = pair_equation(tree, rows.pair, p, depth, env.z)
        if f.weight > 0.0:
            change = row_change(tree, env, base, leaf, depth, p, f.weight, f.residual, rows.pair.B)
            rows.pair.impulse[p] = rows.pair.impulse[p] + change
            push_row(tree, leaf, p, depth, change, rows.pair.B, z)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        leaf = rows.contact.leaf[c]
        g = contact_equation(tree, rows.contact, c, depth, pyramidal, env.z)
        if g.weight[0] > 0.0:
            if rows.spins == 1:
                h = spin_equation(tree, rows.contact, rows.spin, c, depth, pyramidal, env.z)
                if wp.length_sq(h.weight) > 0.0:
                    turn = triple_change(tree, env, base, leaf, depth, c, h.weight, h.residual, rows.spin.B)
                    rows.spin.impulse[c] = rows.spin.impulse[c] + turn
                    push_triple(tree, leaf, c, depth, turn, rows.spin.B, z)
            push = triple_change(tree, env, base, leaf, depth, c, g.weight, g.residual, rows.contact.B)
            rows.contact.impulse[c] = rows.contact.impulse[c] + push
            push_triple(tree, leaf, c, depth, push, rows.contact.B, z)


@wp.func(inline=False)
def drop_pulling(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
) -> int:
    """Open the contacts that the solution would have pull; returns their number."""
    base = env.world_start[w]
    dropped = int(0)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        impulse = rows.contact.impulse[c]
        if impulse[0] > 0.0:
            leaf = rows.contact.leaf[c]
            e = contact_equation(tree, rows.contact, c, depth, pyramidal, env.z)
            change = triple_change(tree, env, base, leaf, depth, c, e.weight, e.residual, rows.contact.B)
            if impulse[0] + change[0] < 0.0:
                dropped += 1
                push_triple(tree, leaf, c, depth, -impulse, rows.contact.B, z)
                rows.contact.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
                if rows.spins == 1:
                    push_triple(tree, leaf, c, depth, -rows.spin.impulse[c], rows.spin.B, z)
                    rows.spin.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
    return dropped


@wp.func(inline=False)
def minimize_active_set(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    most: float,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
) -> float:
    """Solve the active rows of a world exactly, unless the envelope costs more than `most`.

    The velocities and impulses before are in `kept_*` of the workspace, for `restore_impulses`.

    Returns:
        Σ length² of the envelopes that were factorized; 0 if none was, and nothing has changed.
    """
    keep_impulses(rows, contacts, w, env, z)
    used = float(0.0)
    attempts = int(0)
    while attempts < ATTEMPTS:
        cost = find_envelope(tree, rows, contacts, w, depth, most - used, env)
        if cost == 0.0:
            attempts = ATTEMPTS
        else:
            used += cost
            attempts += 1
            for i in range(env.world_start[w], env.world_start[w + 1]):
                env.z[env.dof[i]] = z[env.dof[i]]
            assemble_equations(tree, rows, contacts, w, depth, pyramidal, env)
            factorize_envelope(env, w, SMALLEST_PIVOT)
            solve_envelope(env, w)
            dropped = int(0)
            if attempts < ATTEMPTS and used + cost <= most:
                dropped = drop_pulling(tree, rows, contacts, w, depth, pyramidal, env, z)
            if dropped == 0:
                change_impulses(tree, rows, contacts, w, depth, pyramidal, env, z)
                attempts = ATTEMPTS
    return used
