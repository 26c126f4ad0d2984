"""Projected Gauss-Seidel over constraint rows in energy coordinates.

Cottle, Pang, Stone, "The Linear Complementarity Problem", 1992, chapter 5, with a Coulomb cone as in
Jourdan, Alart, Jean, "A Gauss-Seidel like algorithm to solve frictional contact problems", 1998. A step of
the tangential pair divides by the largest eigenvalue of its 2x2 block: a fixed point then has friction
exactly opposite to sliding. Between sweeps, the impulses that act are solved for directly, see `active_set`.

Stage: constraints, solve
Called by: solvers/featherstone/constraints.py, kernels/constraints/adjoint/modes.py,
    kernels/constraints/adjoint/velocities.py, kernels/constraints/pair_solve.py
Reads: ContactView, EnvelopeView, RowsView, TreeView
Writes: EnvelopeView, RowsView, iterations, residual, world_state, z, z_moving
"""

import warp as wp

from newtonsim.kernels.algebra.envelope import EnvelopeView
from newtonsim.kernels.algebra.sparse_blas import copyi, row_axpyi, row_doti, squarei
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.active_set import keep_impulses, minimize_active_set, restore_impulses
from newtonsim.kernels.constraints.chains import push_row, push_triple, row_velocity, triple_velocity
from newtonsim.kernels.constraints.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.constraints.dof_rows import ACTED, NOTHING_ACTED, PUSHED, ROW_SERVO, TIMED, DofRowView
from newtonsim.kernels.constraints.impacts import any_rebound, propagate_impacts
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# sweeps between direct solves, and the remainder of the sweep after which they come
DIRECT_EVERY = wp.constant(8)
DIRECT_FIRST = wp.constant(6)
# sweeps that change as much as the one before, to this share, shift impulses between rows that contradict
# each other, without end and to no effect; so many in a row are enough
ALIKE = wp.constant(1.0e-3)
STALLING = wp.constant(2)
# steps without direct solves after one that failed
PAUSE = wp.constant(1)
# kinetic energy beyond which impulses are wrong, over that without them, and over that which their rows want;
# a row may have to move more than its own bodies
TOO_MUCH = wp.constant(2.0)
WANTED = wp.constant(50.0)


@wp.func
def dof_velocity(tree: wp.ref[TreeView], rows: wp.ref[DofRowView], r: int, z: wp.array(dtype=float)) -> float:
    """J v of a row on one dof."""
    d = rows.source_dof[rows.source[r]]
    return row_doti(tree.dof_depth[d] + 1, rows.B, r, 0, tree.row_dof, tree.dof_row[d], z)


@wp.func
def push_dof(
    tree: wp.ref[TreeView], rows: wp.ref[DofRowView], r: int, impulse: float, z: wp.array(dtype=float)
):
    """z += B impulse."""
    d = rows.source_dof[rows.source[r]]
    row_axpyi(tree.dof_depth[d] + 1, impulse, rows.B, r, 0, tree.row_dof, tree.dof_row[d], z)


@wp.func
def target_impulse(
    v: float,
    old: float,
    delassus: float,
    softness: float,
    target: wp.vec2,
    bounds: wp.vec2,
) -> float:
    """Impulse that brings the velocity v, reached with the impulse `old`, into the target interval.

    An interval asks for an impulse only where the velocity without one leaves it, which covers equalities
    and one-sided rows alike; softness c moves the target velocity by -c times the impulse.
    """
    free = v - delassus * old
    goal = wp.clamp(free, target[0], target[1])
    return wp.clamp((goal - free) / (delassus + softness), bounds[0], bounds[1])


@wp.func
def relax_dof(tree: wp.ref[TreeView], rows: wp.ref[DofRowView], r: int, z: wp.array(dtype=float)) -> float:
    """One Gauss-Seidel update of a row on one dof; returns the velocity change that it made."""
    old = rows.impulse[r]
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    v = dof_velocity(tree, rows, r, z)
    new = target_impulse(v, old, rows.delassus[r], rows.softness[r], target, bounds)
    rows.impulse[r] = new
    push_dof(tree, rows, r, new - old, z)
    return wp.abs(new - old) * rows.delassus[r]


@wp.func(inline=False)
def relax_pair(
    tree: wp.ref[TreeView], rows: wp.ref[PairRowView], r: int, depth: int, z: wp.array(dtype=float)
) -> float:
    """One Gauss-Seidel update of a row between two bodies or dofs; returns the velocity change."""
    if rows.delassus[r] <= 0.0:
        return 0.0
    old = rows.impulse[r]
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    v = row_velocity(tree, rows.leaf[r], r, depth, rows.B, z)
    new = target_impulse(v, old, rows.delassus[r], rows.softness[r], target, bounds)
    rows.impulse[r] = new
    push_row(tree, rows.leaf[r], r, depth, new - old, rows.B, z)
    return wp.abs(new - old) * rows.delassus[r]


@wp.func
def limit_friction(t: wp.vec2, bound: float, pyramidal: bool) -> wp.vec2:
    """Nearest tangential impulse within the cone's cross-section."""
    size = wp.length(t)
    limited = t
    if pyramidal:
        limited = wp.vec2(wp.clamp(t[0], -bound, bound), wp.clamp(t[1], -bound, bound))
    elif size > bound:
        limited = t * (bound / size)
    return limited


@wp.func
def relax_contact(
    tree: wp.ref[TreeView],
    rows: wp.ref[ContactRowView],
    c: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update the normal row, then both tangential rows; returns the largest velocity change."""
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    if delassus[0] <= 0.0:
        return 0.0
    softness = rows.softness[c]
    error = rows.target[c] - triple_velocity(tree, rows.leaf[c], c, depth, rows.B, z)
    normal = wp.max(0.0, old[0] + (error[0] - softness * old[0]) / (delassus[0] + softness))
    change = normal - old[0]
    bound = rows.friction[c] * normal
    t = wp.vec2(old[1], old[2])
    if delassus[1] > 0.0 and (bound > 0.0 or wp.length_sq(t) > 0.0):
        slip = rows.coupling[c] * change - wp.vec2(error[1], error[2])
        t = limit_friction(t - slip / delassus[1], bound, pyramidal)
    new = wp.vec3(normal, t[0], t[1])
    step = new - old
    if step[0] != 0.0 or step[1] != 0.0 or step[2] != 0.0:
        rows.impulse[c] = new
        push_triple(tree, rows.leaf[c], c, depth, step, rows.B, z)
    tangential = wp.max(wp.abs(step[1]), wp.abs(step[2])) * delassus[1]
    return wp.max(wp.abs(change) * delassus[0], tangential)


@wp.func(inline=False)
def relax_spin(
    tree: wp.ref[TreeView],
    contact: wp.ref[ContactRowView],
    rows: wp.ref[SpinRowView],
    c: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update the torsional row, then both rolling rows of a contact; returns the velocity change [rad/s]."""
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    normal = contact.impulse[c][0]
    if normal <= 0.0 and wp.length_sq(old) == 0.0:
        return 0.0
    error = rows.target[c] - triple_velocity(tree, contact.leaf[c], c, depth, rows.B, z)
    torsion = old[0]
    if delassus[0] > 0.0:
        bound = rows.torsion[c] * normal
        torsion = wp.clamp(old[0] + error[0] / delassus[0], -bound, bound)
    change = torsion - old[0]
    t = wp.vec2(old[1], old[2])
    if delassus[1] > 0.0:
        turn = rows.coupling[c] * change - wp.vec2(error[1], error[2])
        t = limit_friction(t - turn / delassus[1], rows.rolling[c] * normal, pyramidal)
    new = wp.vec3(torsion, t[0], t[1])
    step = new - old
    rows.impulse[c] = new
    push_triple(tree, contact.leaf[c], c, depth, step, rows.B, z)
    tangential = wp.max(wp.abs(step[1]), wp.abs(step[2])) * delassus[1]
    return wp.max(wp.abs(change) * delassus[0], tangential)


@wp.func
def start_rows(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    z: wp.array(dtype=float),
) -> int:
    """Apply the impulses to start from; returns the number of rows and contacts."""
    r0 = rows.dof.world_start[w]
    r1 = r0 + rows.dof.world_count[w]
    p0 = rows.pair.world_start[w]
    p1 = rows.pair.world_start[w + 1]
    c0 = contacts.world_start[w]
    c1 = c0 + contacts.world_count[w]
    for p in range(p0, p1):
        if rows.pair.delassus[p] > 0.0:
            push_row(tree, rows.pair.leaf[p], p, depth, rows.pair.impulse[p], rows.pair.B, z)
    for r in range(r0, r1):
        push_dof(tree, rows.dof, r, rows.dof.impulse[r], z)
    for c in range(c0, c1):
        push_triple(tree, rows.contact.leaf[c], c, depth, rows.contact.impulse[c], rows.contact.B, z)
        if rows.spins == 1:
            if wp.length_sq(rows.spin.impulse[c]) > 0.0:
                push_triple(tree, rows.contact.leaf[c], c, depth, rows.spin.impulse[c], rows.spin.B, z)
    return r1 - r0 + p1 - p0 + c1 - c0


@wp.func
def any_impulse(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int) -> int:
    """1 if a row of the world acted."""
    acted = int(0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if rows.dof.impulse[r] != 0.0:
            acted = 1
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if rows.pair.impulse[p] != 0.0:
            acted = 1
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.contact.impulse[c][0] != 0.0:
            acted = 1
    return acted


@wp.func
def sweep_rows(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update every row of a world once; returns the largest velocity change."""
    change = float(0.0)
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        change = wp.max(change, relax_pair(tree, rows.pair, p, depth, z))
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        change = wp.max(change, relax_dof(tree, rows.dof, r, z))
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        change = wp.max(change, relax_contact(tree, rows.contact, c, depth, pyramidal, z))
        if rows.spins == 1:
            change = wp.max(change, relax_spin(tree, rows.contact, rows.spin, c, depth, pyramidal, z))
    return change


@wp.func(inline=False)
def iterate(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    pyramidal: bool,
    max_iterations: int,
    tolerance: float,
    direct_cost: float,
    envelope: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
) -> wp.vec2:
    """Sweep, with direct solves between; returns the number of sweeps and the change of the last one."""
    used = int(0)
    change = float(0.0)
    # change of the sweep before the last direct solve
    before = float(0.0)
    budget = float(direct_cost)
    solved = bool(False)
    # sweeps in a row that changed as much as the one before
    alike = int(0)
    running = int(1)
    while running == 1:
        last = change
        change = sweep_rows(tree, rows, contacts, w, depth, pyramidal, z)
        used += 1
        alike += 1
        if wp.abs(change - last) > ALIKE * change:
            alike = 0
        stalls = alike >= STALLING
        # as long as no direct solve failed, sweeps may still be on the way to what one would find
        stuck = stalls and envelope.pause[w] > 0
        if used >= max_iterations or change <= tolerance or stuck:
            running = 0
        # servos along a chain are far from what sweeps would find one by one
        first_sweeps = used == 1 or used == 3
        due = used % DIRECT_EVERY == DIRECT_FIRST or (first_sweeps and rows.dof.world_servos[w] > 1)
        if running == 0 or stalls or due:
            alike = 0
            if solved and change > before:
                # sweeps did not mend the set of active rows since: without the direct solve they do better
                restore_impulses(rows, contacts, w, envelope, z)
                change = before
                budget = 0.0
                envelope.pause[w] = PAUSE
            solved = bool(False)
            if running == 1 and budget > 0.0:
                before = change
                cost = minimize_active_set(tree, rows, contacts, w, depth, pyramidal, budget, envelope, z)
                solved = cost > 0.0
                budget -= cost
                if not solved:
                    budget = 0.0
    return wp.vec2(float(used), change)


@wp.func
def copy_velocities(
    envelope: wp.ref[EnvelopeView], w: int, source: wp.array(dtype=float), target: wp.array(dtype=float)
):
    """Copy the entries of a world."""
    start = envelope.world_start[w]
    copyi(envelope.world_start[w + 1] - start, envelope.dof, start, source, target)


@wp.func
def kinetic_energy(envelope: wp.ref[EnvelopeView], w: int, z: wp.array(dtype=float)) -> float:
    """Kinetic energy of a world [J]."""
    start = envelope.world_start[w]
    return 0.5 * squarei(envelope.world_start[w + 1] - start, envelope.dof, start, z)


@wp.func
def wanted_energy(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int) -> float:
    """Kinetic energy that it takes to give every row the velocity that it wants, one by one [J].

    Servos may also do the work that their impulses do at that velocity.
    """
    total = float(0.0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if rows.dof.impulse[r] != 0.0:
            v = wp.min(wp.abs(rows.dof.target_lower[r]), wp.abs(rows.dof.target_upper[r]))
            total += 0.5 * v * v / rows.dof.delassus[r]
            if rows.dof.source_kind[rows.dof.source[r]] == ROW_SERVO:
                # what hangs on it makes it heavier than it is alone
                total += wp.max(0.0, rows.dof.impulse[r] * rows.dof.target_lower[r])
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if rows.pair.impulse[p] != 0.0:
            u = wp.min(wp.abs(rows.pair.target_lower[p]), wp.abs(rows.pair.target_upper[p]))
            total += 0.5 * u * u / rows.pair.delassus[p]
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.contact.impulse[c][0] > 0.0:
            push = wp.max(0.0, rows.contact.target[c][0])
            total += 0.5 * push * push / rows.contact.delassus[c][0]
            if rows.contact.delassus[c][1] > 0.0:
                along = wp.vec2(rows.contact.target[c][1], rows.contact.target[c][2])
                total += 0.5 * wp.length_sq(along) / rows.contact.delassus[c][1]
    return total


@wp.func(inline=False)
def drop_impulses(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int):
    """Set the impulses of all rows of a world to zero."""
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        rows.dof.impulse[r] = 0.0
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        rows.pair.impulse[p] = 0.0
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        rows.contact.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
        if rows.spins == 1:
            rows.spin.impulse[c] = wp.vec3(0.0, 0.0, 0.0)


@wp.func
def is_single(tree: wp.ref[TreeView], d: int) -> bool:
    """True if dof d moves a body that hangs on nothing and that nothing hangs on."""
    t = tree.body_tree[tree.dof_body[d]]
    return tree.joint_start[t + 1] - tree.joint_start[t] == 1


@wp.func
def pushes_apart(rows: wp.ref[RowsView], c: int) -> bool:
    """True if contact c removes a penetration, other than by the force of a spring."""
    pressing = rows.contact.impulse[c][0] > 0.0
    return rows.contact.soft[c] == 0 and rows.contact.impact[c][1] > 0.0 and pressing


@wp.func(inline=False)
def ease_wedged(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    depth: int,
    env: wp.ref[EnvelopeView],
    z: wp.array(dtype=float),
):
    """Start the next step from less if a penetration does not yield: such impulses would grow for ever.

    `kept_contact` itself stays what the solution for the positions came to, of which gradients are taken.
    """
    wedged = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if pushes_apart(rows, c):
            v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, z)
            if v[0] - rows.contact.target[c][0] < -0.5 * rows.contact.impact[c][1]:
                wedged = True
    for c in range(c0, c0 + contacts.world_count[w]):
        env.kept_share[c] = 1.0
        if wedged and pushes_apart(rows, c):
            env.kept_share[c] = 0.5


@wp.func
def any_push(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int) -> bool:
    """True if a contact of the world removes a penetration."""
    found = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if pushes_apart(rows, c):
            found = True
    return found


@wp.func(inline=False)
def has_gone_astray(
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    w: int,
    envelope: wp.ref[EnvelopeView],
    z_free: wp.array(dtype=float),
    z: wp.array(dtype=float),
) -> bool:
    """True if impulses made more energy than what their rows want: they do no work but towards that."""
    most = TOO_MUCH * kinetic_energy(envelope, w, z_free) + WANTED * wanted_energy(rows, contacts, w)
    return kinetic_energy(envelope, w, z) > most


@wp.func(inline=False)
def stop_pushing(
    tree: wp.ref[TreeView], rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int
) -> bool:
    """Let penetrating contacts of single bodies want no more than to stay; true if one wanted more."""
    pushed = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        impact = rows.contact.impact[c]
        pushes = pushes_apart(rows, c) and impact[1] == impact[2]
        for side in range(2):
            leaf = rows.contact.leaf[c][side]
            if leaf >= 0:
                pushes = pushes and is_single(tree, leaf)
        if pushes:
            target = rows.contact.target[c]
            rows.contact.target[c] = wp.vec3(target[0] - impact[1], target[1], target[2])
            pushed = True
    return pushed


@wp.func
def any_timed(rows: wp.ref[ContactRowView], contacts: wp.ref[ContactView], w: int) -> bool:
    """True if positions of the world move through an impact at another rate than their velocity."""
    found = bool(False)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.first_impact[c][0] > 0.0:
            found = True
    return found


@wp.func
def shift_timed(rows: wp.ref[ContactRowView], contacts: wp.ref[ContactView], w: int, sign: float):
    """Let impacts within the step want the velocity of positions (sign 1), or again that after it (-1)."""
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if rows.first_impact[c][0] > 0.0:
            slip = rows.slip_before_impact[c]
            shift = wp.vec3(rows.moving[c][0] - rows.impact[c][2], slip[0], slip[1])
            rows.target[c] = rows.target[c] + sign * shift


@wp.kernel
def solve_rows(
    first: int,
    tree: TreeView,
    rows: RowsView,
    contacts: ContactView,
    depth: int,
    pyramidal: bool,
    dt: float,
    restitution_speed: float,
    max_iterations: int,
    tolerance: float,
    direct_cost: float,
    envelope: EnvelopeView,
    z: wp.array(dtype=float),
    z_moving: wp.array(dtype=float),
    world_state: wp.array(dtype=int),
    iterations: wp.array(dtype=int),
    residual: wp.array(dtype=float),
):
    """One thread per world: impulses of all its rows, z after them, and the z that moves the positions.

    Both differ where penetration is removed: what pushes single bodies apart moves them, but leaves them no
    velocity (as in Catto, "Solver2D", 2024, and the split impulses of Bullet). Else penetrations would become
    energy. Soft contacts keep it: it is the force of their springs. So do articulated bodies, whose momentum
    depends on the pose: coordinates that move at another rate than their velocities would change it. Both
    differ, too, where something rebounds within the step: the positions of the world then move with the mean
    of the velocities before and after the impact, see `rebounds`. The first solution, whose impulses are in
    `kept_*` then, is that for the positions.
    """
    w = first + wp.tid()
    if any_rebound(rows.contact, contacts, w):
        propagate_impacts(tree, rows.contact, contacts, w, depth, restitution_speed, dt, envelope, z)
    has_impact = any_timed(rows.contact, contacts, w)
    if has_impact:
        shift_timed(rows.contact, contacts, w, 1.0)
    used = wp.vec2(0.0, 0.0)
    budget = float(direct_cost)
    if envelope.pause[w] > 0:
        envelope.pause[w] = envelope.pause[w] - 1
        budget = 0.0
    copy_velocities(envelope, w, z, z_moving)
    if start_rows(tree, rows, contacts, w, depth, z) > 0:
        used = iterate(
            tree, rows, contacts, w, depth, pyramidal, max_iterations, tolerance, budget, envelope, z
        )
        # what the first sweep confirmed is the last step's solution
        if used[0] > 1.0 and has_gone_astray(rows, contacts, w, envelope, z_moving, z):
            envelope.pause[w] = PAUSE
            copy_velocities(envelope, w, z_moving, z)
            drop_impulses(rows, contacts, w)
            used = iterate(
                tree, rows, contacts, w, depth, pyramidal, max_iterations, tolerance, 0.0, envelope, z
            )
    state = int(NOTHING_ACTED)
    if any_impulse(rows, contacts, w) == 1:
        state = ACTED
    if state == ACTED or has_impact:
        if has_impact or any_push(rows, contacts, w):
            state = PUSHED
            if has_impact:
                state = TIMED
            # the next step starts from the impulses that remove penetrations
            keep_impulses(rows, contacts, w, envelope, z)
            copy_velocities(envelope, w, z, z_moving)
            ease_wedged(tree, rows, contacts, w, depth, envelope, z)
            if has_impact:
                shift_timed(rows.contact, contacts, w, -1.0)
            if stop_pushing(tree, rows, contacts, w) or has_impact:
                again = iterate(
                    tree, rows, contacts, w, depth, pyramidal, max_iterations, tolerance, 0.0, envelope, z
                )
                used[1] = wp.max(used[1], again[1])
                for i in range(envelope.world_start[w], envelope.world_start[w + 1]):
                    if not has_impact and not is_single(tree, envelope.dof[i]):
                        z_moving[envelope.dof[i]] = z[envelope.dof[i]]
    world_state[w] = state
    iterations[w] = int(used[0])
    residual[w] = used[1]
