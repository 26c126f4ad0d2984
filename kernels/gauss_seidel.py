"""Projected Gauss-Seidel over constraint rows in energy coordinates.

Cottle, Pang, Stone, "The Linear Complementarity Problem", 1992, chapter 5, with a Coulomb cone as in
Jourdan, Alart, Jean, "A Gauss-Seidel like algorithm to solve frictional contact problems", 1998. A step of
the tangential pair divides by the largest eigenvalue of its 2x2 block: a fixed point then has friction
exactly opposite to sliding.
"""

import warp as wp

from newtonsim.kernels.chains import push_sides, sides_velocity
from newtonsim.kernels.constraint_rows import DofRowView
from newtonsim.kernels.contact_rows import ContactRowView, SpinRowView
from newtonsim.kernels.contacts import ContactView
from newtonsim.kernels.pair_rows import PairRowView
from newtonsim.kernels.views import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def to_energy_coordinates(
    tree: TreeView, L: wp.array(dtype=float), qd: wp.array(dtype=float), z: wp.array(dtype=float)
):
    """One thread per dof: z = √D L qd, in which the kinetic energy is zᵀz / 2."""
    d = wp.tid()
    row = tree.dof_row[d]
    depth = tree.dof_depth[d]
    y = qd[d]
    for k in range(depth):
        y += L[row + k] * qd[tree.row_dof[row + k]]
    z[d] = wp.sqrt(L[row + depth]) * y


@wp.func
def dof_velocity(tree: TreeView, rows: DofRowView, r: int, z: wp.array(dtype=float)) -> float:
    """J v of a row on one dof."""
    d = rows.source_dof[rows.source[r]]
    row = tree.dof_row[d]
    v = float(0.0)
    for k in range(tree.dof_depth[d] + 1):
        v += rows.B[r, k] * z[tree.row_dof[row + k]]
    return v


@wp.func
def push_dof(tree: TreeView, rows: DofRowView, r: int, impulse: float, z: wp.array(dtype=float)):
    """z += B impulse."""
    d = rows.source_dof[rows.source[r]]
    row = tree.dof_row[d]
    for k in range(tree.dof_depth[d] + 1):
        i = tree.row_dof[row + k]
        z[i] = z[i] + rows.B[r, k] * impulse


@wp.func
def wanted_impulse(
    v: float,
    old: float,
    delassus: float,
    softness: float,
    target: wp.vec2,
    bounds: wp.vec2,
) -> float:
    """Impulse that brings the velocity v, reached with the impulse `old`, into the target interval.

    An interval asks for an impulse only where the velocity without one leaves it, which covers equalities
    and one-sided rows alike; softness c moves the wanted velocity by -c times the impulse.
    """
    free = v - delassus * old
    wanted = wp.clamp(free, target[0], target[1])
    return wp.clamp((wanted - free) / (delassus + softness), bounds[0], bounds[1])


@wp.func
def relax_dof(tree: TreeView, rows: DofRowView, r: int, z: wp.array(dtype=float)) -> float:
    """One Gauss-Seidel update of a row on one dof; returns the velocity change that it made."""
    old = rows.impulse[r]
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    v = dof_velocity(tree, rows, r, z)
    new = wanted_impulse(v, old, rows.delassus[r], rows.softness[r], target, bounds)
    rows.impulse[r] = new
    push_dof(tree, rows, r, new - old, z)
    return wp.abs(new - old) * rows.delassus[r]


@wp.func
def relax_pair(tree: TreeView, rows: PairRowView, r: int, depth: int, z: wp.array(dtype=float)) -> float:
    """One Gauss-Seidel update of a row between two bodies or dofs; returns the velocity change."""
    if rows.delassus[r] <= 0.0:
        return 0.0
    old = rows.impulse[r]
    target = wp.vec2(rows.target_lower[r], rows.target_upper[r])
    bounds = wp.vec2(rows.lower[r], rows.upper[r])
    v = sides_velocity(tree, rows.leaf[r], r, 0, depth, rows.B, z)
    new = wanted_impulse(v, old, rows.delassus[r], rows.softness[r], target, bounds)
    rows.impulse[r] = new
    push_sides(tree, rows.leaf[r], r, 0, depth, new - old, rows.B, z)
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
    tree: TreeView, rows: ContactRowView, c: int, depth: int, pyramidal: bool, z: wp.array(dtype=float)
) -> float:
    """Update the normal row, then both tangential rows; returns the largest velocity change."""
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    if delassus[0] <= 0.0:
        return 0.0
    target = rows.target[c]
    leaf = rows.leaf[c]
    softness = rows.softness[c]
    error = target[0] - sides_velocity(tree, leaf, c, 0, depth, rows.B, z) - softness * old[0]
    normal = wp.max(0.0, old[0] + error / (delassus[0] + softness))
    push_sides(tree, leaf, c, 0, depth, normal - old[0], rows.B, z)
    change = wp.abs(normal - old[0]) * delassus[0]
    bound = rows.friction[c] * normal
    t = wp.vec2(old[1], old[2])
    if delassus[1] > 0.0 and (bound > 0.0 or wp.length_sq(t) > 0.0):
        slip = wp.vec2(
            sides_velocity(tree, leaf, c, 1, depth, rows.B, z) - target[1],
            sides_velocity(tree, leaf, c, 2, depth, rows.B, z) - target[2],
        )
        t = limit_friction(t - slip / delassus[1], bound, pyramidal)
        push_sides(tree, leaf, c, 1, depth, t[0] - old[1], rows.B, z)
        push_sides(tree, leaf, c, 2, depth, t[1] - old[2], rows.B, z)
        change = wp.max(change, wp.max(wp.abs(t[0] - old[1]), wp.abs(t[1] - old[2])) * delassus[1])
    rows.impulse[c] = wp.vec3(normal, t[0], t[1])
    return change


@wp.func
def relax_spin(
    tree: TreeView,
    contact: ContactRowView,
    rows: SpinRowView,
    c: int,
    depth: int,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update the torsional row, then both rolling rows of a contact; returns the velocity change [rad/s]."""
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    target = rows.target[c]
    leaf = contact.leaf[c]
    normal = contact.impulse[c][0]
    change = float(0.0)
    torsion = old[0]
    bound = rows.torsion[c] * normal
    if delassus[0] > 0.0 and (bound > 0.0 or old[0] != 0.0):
        v = sides_velocity(tree, leaf, c, 0, depth, rows.B, z)
        torsion = wp.clamp(old[0] + (target[0] - v) / delassus[0], -bound, bound)
        push_sides(tree, leaf, c, 0, depth, torsion - old[0], rows.B, z)
        change = wp.abs(torsion - old[0]) * delassus[0]
    t = wp.vec2(old[1], old[2])
    bound = rows.rolling[c] * normal
    if delassus[1] > 0.0 and (bound > 0.0 or wp.length_sq(t) > 0.0):
        turn = wp.vec2(
            sides_velocity(tree, leaf, c, 1, depth, rows.B, z) - target[1],
            sides_velocity(tree, leaf, c, 2, depth, rows.B, z) - target[2],
        )
        t = limit_friction(t - turn / delassus[1], bound, pyramidal)
        push_sides(tree, leaf, c, 1, depth, t[0] - old[1], rows.B, z)
        push_sides(tree, leaf, c, 2, depth, t[1] - old[2], rows.B, z)
        change = wp.max(change, wp.max(wp.abs(t[0] - old[1]), wp.abs(t[1] - old[2])) * delassus[1])
    rows.impulse[c] = wp.vec3(torsion, t[0], t[1])
    return change


@wp.struct
class RowsView:
    """All rows of a step."""

    dof: DofRowView
    pair: PairRowView
    contact: ContactRowView
    spin: SpinRowView
    spins: int  # 1 if contacts have torsional and rolling friction


@wp.func
def start_rows(
    tree: TreeView, rows: RowsView, contacts: ContactView, w: int, depth: int, z: wp.array(dtype=float)
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
            push_sides(tree, rows.pair.leaf[p], p, 0, depth, rows.pair.impulse[p], rows.pair.B, z)
    for r in range(r0, r1):
        push_dof(tree, rows.dof, r, rows.dof.impulse[r], z)
    for c in range(c0, c1):
        warm = rows.contact.impulse[c]
        for direction in range(3):
            push_sides(tree, rows.contact.leaf[c], c, direction, depth, warm[direction], rows.contact.B, z)
        if rows.spins == 1:
            if wp.length_sq(rows.spin.impulse[c]) > 0.0:
                warm = rows.spin.impulse[c]
                for direction in range(3):
                    push_sides(
                        tree, rows.contact.leaf[c], c, direction, depth, warm[direction], rows.spin.B, z
                    )
    return r1 - r0 + p1 - p0 + c1 - c0


@wp.func
def any_impulse(rows: RowsView, contacts: ContactView, w: int) -> int:
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


@wp.kernel
def solve_rows(
    tree: TreeView,
    rows: RowsView,
    contacts: ContactView,
    depth: int,
    pyramidal: bool,
    max_iterations: int,
    tolerance: float,
    z: wp.array(dtype=float),
    impulse_acted: wp.array(dtype=int),
    iterations: wp.array(dtype=int),
    residual: wp.array(dtype=float),
):
    """One thread per world: impulses of all its rows, and z after them."""
    w = wp.tid()
    running = wp.min(start_rows(tree, rows, contacts, w, depth, z), 1)
    r0 = rows.dof.world_start[w]
    r1 = r0 + rows.dof.world_count[w]
    c0 = contacts.world_start[w]
    c1 = c0 + contacts.world_count[w]
    used = int(0)
    change = float(0.0)
    while running == 1:
        change = float(0.0)
        for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
            change = wp.max(change, relax_pair(tree, rows.pair, p, depth, z))
        for r in range(r0, r1):
            change = wp.max(change, relax_dof(tree, rows.dof, r, z))
        for c in range(c0, c1):
            change = wp.max(change, relax_contact(tree, rows.contact, c, depth, pyramidal, z))
            if rows.spins == 1:
                change = wp.max(change, relax_spin(tree, rows.contact, rows.spin, c, depth, pyramidal, z))
        used += 1
        if used >= max_iterations or change <= tolerance:
            running = 0
    impulse_acted[w] = any_impulse(rows, contacts, w)
    iterations[w] = used
    residual[w] = change


@wp.kernel
def accept_velocity(
    tree: TreeView,
    L: wp.array(dtype=float),
    z: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    impulse_acted: wp.array(dtype=int),
    qd: wp.array(dtype=float),
):
    """One thread per tree: back to joint velocities; worlds without impulse keep theirs to the last bit."""
    t = wp.tid()
    acted = impulse_acted[tree.world[t]]
    for n in range(tree.dof_start[t], tree.dof_start[t + 1]):
        d = tree.dof[n]
        if acted == 0:
            qd[d] = v_free[d]
        else:
            row = tree.dof_row[d]
            depth = tree.dof_depth[d]
            y = z[d] / wp.sqrt(L[row + depth])
            for k in range(depth):
                y -= L[row + k] * qd[tree.row_dof[row + k]]
            qd[d] = y


@wp.kernel
def flag_nonfinite(tree: TreeView, qd: wp.array(dtype=float), world_nonfinite: wp.array(dtype=bool)):
    """One thread per dof: mark worlds whose velocities are not finite; marks stay until reset."""
    d = wp.tid()
    if not wp.isfinite(qd[d]):
        world_nonfinite[tree.dof_world[d]] = True


@wp.kernel
def clear_flags(mask: wp.array(dtype=bool), flags: wp.array(dtype=bool)):
    """One thread per entry: unset the masked flags."""
    i = wp.tid()
    if mask[i]:
        flags[i] = False
