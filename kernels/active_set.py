"""Direct solve for the impulses that Gauss-Seidel sweeps found to be active.

Sweeps tell soon which contacts press and which of them stick, but carry loads slowly through stacks, closed
loops and light parts that hold heavy ones. With the active rows B taken as equations,

    (B Bᵀ + C + ε D) δλ = r,  solved as  (1 + Bᵀ W B) δz = Bᵀ W r,  W = (C + ε D)⁻¹,

in energy coordinates, one factorization makes up for thousands of sweeps; the next sweeps then correct the
set (Silcowitz, Niebe, Erleben, "Projected Gauss-Seidel subspace minimization method for interactive rigid
body dynamics", 2010). C is the rows' own softness; ε D, a small share of the Delassus diagonal, makes
redundant rows solvable. What is left of a contradiction between such rows still asks for large opposite
impulses: hence the steps of `active_steps`, which no row follows beyond its bounds.
"""

import warp as wp

from newtonsim.kernels.active_rows import contact_equation, dof_equation, pair_equation, spin_equation
from newtonsim.kernels.active_steps import change_impulses
from newtonsim.kernels.contacts import ContactView
from newtonsim.kernels.envelope import (
    EnvelopeView,
    add_row,
    add_triple,
    factorize_envelope,
    lay_out_envelope,
    solve_envelope,
    widen_envelope,
)
from newtonsim.kernels.rows import RowsView
from newtonsim.kernels.views import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

SMALLEST_PIVOT = wp.constant(wp.float64(1.0e-12))
# factorizations in one solve, as long as bounds are in the way
ATTEMPTS = wp.constant(3)


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
        e = dof_equation(rows.dof, r)
        if e.weight > 0.0:
            add_row(tree, env, base, leaf, depth, r, e.weight, e.wanted, rows.dof.B)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        f = pair_equation(rows.pair, p)
        if f.weight > 0.0:
            add_row(tree, env, base, rows.pair.leaf[p], depth, p, f.weight, f.wanted, rows.pair.B)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        g = contact_equation(rows.contact, c, pyramidal)
        leaf = rows.contact.leaf[c]
        if g.weight[0] > 0.0:
            add_triple(tree, env, base, leaf, depth, c, g.weight, g.wanted, rows.contact.B)
            if rows.spins == 1:
                h = spin_equation(rows.contact, rows.spin, c, pyramidal)
                if wp.length_sq(h.weight) > 0.0:
                    add_triple(tree, env, base, leaf, depth, c, h.weight, h.wanted, rows.spin.B)


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
            for i in range(env.world_start[w], env.world_start[w + 1]):
                env.x[i] = env.x[i] + wp.float64(env.z[env.dof[i]])
            if not change_impulses(tree, rows, contacts, w, depth, pyramidal, env, z):
                attempts = ATTEMPTS
    return used
