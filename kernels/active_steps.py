"""Steps of impulses along a direction, with every impulse held within its bounds.

With bounds, the impulses of frictionless contacts minimize

    φ(λ) = ½ λᵀ (A + C) λ - λᵀ (v* - v_free),   dφ/dλ = -r(λ),   A = B Bᵀ,

so a step δ brings it down by δᵀ r - ½ δᵀ (A + C) δ. A step towards the minimum for given active rows that
leaves the bounds is held at them; if φ does not fall enough then, a shorter one is taken, at the latest one
that goes no further than to the first bound, for which φ falls always (Bertsekas, "Projected Newton methods
for optimization problems with simple constraints", 1982).
"""

import warp as wp

from newtonsim.kernels.active_rows import (
    contact_equation,
    dof_equation,
    pair_equation,
    spin_equation,
)
from newtonsim.kernels.chains import push_row, push_triple, row_velocity, triple_velocity
from newtonsim.kernels.contacts import ContactView
from newtonsim.kernels.envelope import EnvelopeView, row_change, triple_change
from newtonsim.kernels.rows import RowsView
from newtonsim.kernels.views import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# share of the way to a bound at which it counts as reached
ROUNDING = wp.constant(0.99999)
# shorter steps that are tried before the one to the first bound, and each over the one before
TRIALS = wp.constant(3)
SHORTER = wp.constant(0.25)
# share of the first-order decrease that a step has to reach
DECREASE = wp.constant(0.1)


@wp.func
def room_within(impulse: float, change: float, bounds: wp.vec2) -> float:
    """Largest share of a change, up to 1, that stays within the bounds."""
    room = float(1.0)
    if impulse + change < bounds[0]:
        room = (bounds[0] - impulse) / change
    if impulse + change > bounds[1]:
        room = (bounds[1] - impulse) / change
    return room


@wp.func
def step_within(impulse: float, change: float, share: float, bounds: wp.vec2) -> float:
    """A share of a change of an impulse that is within its bounds, or what it takes to reach one of them."""
    room = room_within(impulse, change, bounds)
    step = share * change
    if room < 1.0 and share >= ROUNDING * room:
        step = bounds[int(change > 0.0)] - impulse
    return step


@wp.struct
class Change:
    """Change of an impulse that solves the equations, and the velocity that its row wants."""

    impulse: float
    wanted: float


@wp.struct
class TripleChange:
    """The same for three rows of a contact."""

    impulse: wp.vec3
    wanted: wp.vec3


@wp.func
def dof_change(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], r: int, base: int, depth: int, env: wp.ref[EnvelopeView]
) -> Change:
    """Change for a row on one dof."""
    leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
    e = dof_equation(rows.dof, r)
    change = Change()
    change.impulse = 0.0
    change.wanted = e.wanted
    if e.weight > 0.0:
        change.impulse = row_change(tree, env, base, leaf, depth, r, e.weight, e.wanted, rows.dof.B)
    return change


@wp.func
def pair_change(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], p: int, base: int, depth: int, env: wp.ref[EnvelopeView]
) -> Change:
    """Change for a row between two bodies or dofs."""
    e = pair_equation(rows.pair, p)
    change = Change()
    change.impulse = 0.0
    change.wanted = e.wanted
    if e.weight > 0.0:
        leaf = rows.pair.leaf[p]
        change.impulse = row_change(tree, env, base, leaf, depth, p, e.weight, e.wanted, rows.pair.B)
    return change


@wp.func
def contact_change(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    base: int,
    depth: int,
    pyramidal: bool,
    env: wp.ref[EnvelopeView],
) -> TripleChange:
    """Change for normal and friction of a contact."""
    e = contact_equation(rows.contact, c, pyramidal)
    change = TripleChange()
    change.impulse = wp.vec3(0.0, 0.0, 0.0)
    change.wanted = e.wanted
    if e.weight[0] > 0.0:
        leaf = rows.contact.leaf[c]
        change.impulse = triple_change(tree, env, base, leaf, depth, c, e.weight, e.wanted, rows.contact.B)
    return change


@wp.func(inline=False)
def spin_change(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    c: int,
    base: int,
    depth: int,
    pyramidal: bool,
    env: wp.ref[EnvelopeView],
) -> TripleChange:
    """Change for torsional and rolling friction of a contact."""
    e = spin_equation(rows.contact, rows.spin, c, pyramidal)
    change = TripleChange()
    change.impulse = wp.vec3(0.0, 0.0, 0.0)
    change.wanted = e.wanted
    if wp.length_sq(e.weight) > 0.0:
        leaf = rows.contact.leaf[c]
        change.impulse = triple_change(tree, env, base, leaf, depth, c, e.weight, e.wanted, rows.spin.B)
    return change


@wp.func
def contact_step(impulse: wp.vec3, change: wp.vec3, share: float) -> wp.vec3:
    """Step of a contact's impulses; they end if the normal one reaches zero."""
    normal = step_within(impulse[0], change[0], share, wp.vec2(0.0, wp.inf))
    step = wp.vec3(normal, share * change[1], share * change[2])
    if normal == -impulse[0]:
        step = -impulse
    return step


@wp.func
def spin_step(impulse: wp.vec3, change: wp.vec3, share: float, normal: float) -> wp.vec3:
    """Step of torsional and rolling friction of a contact whose normal impulse becomes `normal`."""
    step = share * change
    if normal == 0.0:
        step = -impulse
    return step


@wp.func(inline=False)
def room_of_changes(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    env: wp.ref[EnvelopeView],
) -> float:
    """Largest share of the changes, up to 1, at which no normal impulse and no row leaves its bounds."""
    base = env.world_start[w]
    room = float(1.0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        change = dof_change(tree, rows, r, base, depth, env)
        bounds = wp.vec2(rows.dof.lower[r], rows.dof.upper[r])
        room = wp.min(room, room_within(rows.dof.impulse[r], change.impulse, bounds))
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        change = pair_change(tree, rows, p, base, depth, env)
        bounds = wp.vec2(rows.pair.lower[p], rows.pair.upper[p])
        room = wp.min(room, room_within(rows.pair.impulse[p], change.impulse, bounds))
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        normal = rows.contact.impulse[c][0]
        if normal > 0.0:
            push = contact_change(tree, rows, c, base, depth, pyramidal, env).impulse
            room = wp.min(room, room_within(normal, push[0], wp.vec2(0.0, wp.inf)))
    return room


@wp.func(inline=False)
def take_step(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    share: float,
    keep: int,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
) -> wp.vec2:
    """Add a share of the changes to the velocities, and with `keep` 1 to the impulses, within the bounds.

    Returns:
        δᵀ r of the step δ, and δᵀ C δ; zero with `keep` 1.
    """
    base = env.world_start[w]
    sums = wp.vec2(0.0, 0.0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        change = dof_change(tree, rows, r, base, depth, env)
        if change.impulse != 0.0:
            leaf = wp.vec2i(rows.dof.source_dof[rows.dof.source[r]], -1)
            bounds = wp.vec2(rows.dof.lower[r], rows.dof.upper[r])
            step = step_within(rows.dof.impulse[r], change.impulse, share, bounds)
            push_row(tree, leaf, r, depth, step, rows.dof.B, z)
            if keep == 1:
                rows.dof.impulse[r] = rows.dof.impulse[r] + step
            else:
                lack = change.wanted - row_velocity(tree, leaf, r, depth, rows.dof.B, env.z)
                sums += step * wp.vec2(lack, rows.dof.softness[r] * step)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        change = pair_change(tree, rows, p, base, depth, env)
        if change.impulse != 0.0:
            bounds = wp.vec2(rows.pair.lower[p], rows.pair.upper[p])
            step = step_within(rows.pair.impulse[p], change.impulse, share, bounds)
            push_row(tree, rows.pair.leaf[p], p, depth, step, rows.pair.B, z)
            if keep == 1:
                rows.pair.impulse[p] = rows.pair.impulse[p] + step
            else:
                lack = change.wanted - row_velocity(tree, rows.pair.leaf[p], p, depth, rows.pair.B, env.z)
                sums += step * wp.vec2(lack, rows.pair.softness[p] * step)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        impulse = rows.contact.impulse[c]
        if impulse[0] > 0.0:
            leaf = rows.contact.leaf[c]
            towards = contact_change(tree, rows, c, base, depth, pyramidal, env)
            push = contact_step(impulse, towards.impulse, share)
            push_triple(tree, leaf, c, depth, push, rows.contact.B, z)
            if keep == 0:
                lack3 = towards.wanted - triple_velocity(tree, leaf, c, depth, rows.contact.B, env.z)
                sums += wp.vec2(wp.dot(push, lack3), rows.contact.softness[c] * push[0] * push[0])
            if rows.spins == 1:
                about = spin_change(tree, rows, c, base, depth, pyramidal, env)
                turn = spin_step(rows.spin.impulse[c], about.impulse, share, impulse[0] + push[0])
                push_triple(tree, leaf, c, depth, turn, rows.spin.B, z)
                if keep == 0:
                    lack3 = about.wanted - triple_velocity(tree, leaf, c, depth, rows.spin.B, env.z)
                    sums[0] = sums[0] + wp.dot(turn, lack3)
                else:
                    rows.spin.impulse[c] = rows.spin.impulse[c] + turn
            if keep == 1:
                rows.contact.impulse[c] = impulse + push
    return sums


@wp.func
def undo_step(env: wp.ref[EnvelopeView], w: int, z: wp.array(dtype=float)) -> float:
    """Return to the velocities before a step; δᵀ A δ, the square of their change."""
    square = float(0.0)
    for i in range(env.world_start[w], env.world_start[w + 1]):
        d = env.dof[i]
        change = z[d] - env.z[d]
        square += change * change
        z[d] = env.z[d]
    return square


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
) -> bool:
    """Move the impulses of all active rows towards the solution; True if a bound was in the way."""
    room = room_of_changes(tree, rows, contacts, w, depth, pyramidal, env)
    share = float(1.0)
    trial = int(0)
    while share > room and trial < TRIALS:
        sums = take_step(tree, rows, contacts, w, depth, pyramidal, share, 0, env, z)
        fall = sums[0] - 0.5 * (undo_step(env, w, z) + sums[1])
        if fall >= DECREASE * sums[0]:
            trial = TRIALS
        else:
            share = share * SHORTER
            trial += 1
            if trial == TRIALS:
                share = room
    take_step(tree, rows, contacts, w, depth, pyramidal, wp.max(share, room), 1, env, z)
    return room < 1.0
