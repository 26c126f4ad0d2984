"""Projected Gauss-Seidel over constraint rows in energy coordinates.

Cottle, Pang, Stone, "The Linear Complementarity Problem", 1992, chapter 5, with a Coulomb cone as in
Jourdan, Alart, Jean, "A Gauss-Seidel like algorithm to solve frictional contact problems", 1998. A step of
the tangential pair divides by the largest eigenvalue of its 2x2 block: a fixed point then has friction
exactly opposite to sliding.
"""

import warp as wp

from newtonsim.kernels.constraint_rows import (
    ConstraintSettings,
    ContactRowView,
    ScalarRowView,
    contact_velocity,
)
from newtonsim.kernels.contacts import ContactView
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
def scalar_velocity(tree: TreeView, rows: ScalarRowView, r: int, z: wp.array(dtype=float)) -> float:
    """J v of a scalar row."""
    d = rows.source_dof[rows.source[r]]
    row = tree.dof_row[d]
    v = float(0.0)
    for k in range(tree.dof_depth[d] + 1):
        v += rows.B[r, k] * z[tree.row_dof[row + k]]
    return v


@wp.func
def push_scalar(tree: TreeView, rows: ScalarRowView, r: int, impulse: float, z: wp.array(dtype=float)):
    """z += B impulse."""
    d = rows.source_dof[rows.source[r]]
    row = tree.dof_row[d]
    for k in range(tree.dof_depth[d] + 1):
        i = tree.row_dof[row + k]
        z[i] = z[i] + rows.B[r, k] * impulse


@wp.func
def push_contact(
    tree: TreeView,
    rows: ContactRowView,
    c: int,
    direction: int,
    depth: int,
    impulse: float,
    z: wp.array(dtype=float),
):
    """z += B impulse."""
    for side in range(2):
        leaf = rows.leaf[c][side]
        if leaf >= 0:
            row = tree.dof_row[leaf]
            for k in range(tree.dof_depth[leaf] + 1):
                i = tree.row_dof[row + k]
                z[i] = z[i] + rows.B[c, direction, side * depth + k] * impulse


@wp.func
def relax_scalar(tree: TreeView, rows: ScalarRowView, r: int, z: wp.array(dtype=float)) -> float:
    """One Gauss-Seidel update of a scalar row; returns the velocity change that it made."""
    softness = rows.softness[r]
    old = rows.impulse[r]
    error = rows.target[r] - scalar_velocity(tree, rows, r, z) - softness * old
    new = wp.clamp(old + error / (rows.delassus[r] + softness), rows.lower[r], rows.upper[r])
    rows.impulse[r] = new
    push_scalar(tree, rows, r, new - old, z)
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
    tree: TreeView,
    rows: ContactRowView,
    c: int,
    depth: int,
    cfm: float,
    pyramidal: bool,
    z: wp.array(dtype=float),
) -> float:
    """Update the normal row, then both tangential rows; returns the largest velocity change."""
    old = rows.impulse[c]
    delassus = rows.delassus[c]
    if delassus[0] <= 0.0:
        return 0.0
    target = rows.target[c]
    error = target[0] - contact_velocity(tree, rows.leaf[c], c, 0, depth, rows.B, z) - cfm * old[0]
    normal = wp.max(0.0, old[0] + error / (delassus[0] + cfm))
    push_contact(tree, rows, c, 0, depth, normal - old[0], z)
    change = wp.abs(normal - old[0]) * delassus[0]
    bound = rows.friction[c] * normal
    t = wp.vec2(old[1], old[2])
    if delassus[1] > 0.0 and (bound > 0.0 or wp.length_sq(t) > 0.0):
        slip = wp.vec2(
            contact_velocity(tree, rows.leaf[c], c, 1, depth, rows.B, z) - target[1],
            contact_velocity(tree, rows.leaf[c], c, 2, depth, rows.B, z) - target[2],
        )
        t = limit_friction(t - slip / delassus[1], bound, pyramidal)
        push_contact(tree, rows, c, 1, depth, t[0] - old[1], z)
        push_contact(tree, rows, c, 2, depth, t[1] - old[2], z)
        change = wp.max(change, wp.max(wp.abs(t[0] - old[1]), wp.abs(t[1] - old[2])) * delassus[1])
    rows.impulse[c] = wp.vec3(normal, t[0], t[1])
    return change


@wp.kernel
def solve_rows(
    tree: TreeView,
    scalar: ScalarRowView,
    contacts: ContactView,
    contact: ContactRowView,
    depth: int,
    s: ConstraintSettings,
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
    r0 = scalar.world_start[w]
    r1 = r0 + scalar.world_count[w]
    c0 = contacts.world_start[w]
    c1 = c0 + contacts.world_count[w]
    for r in range(r0, r1):
        push_scalar(tree, scalar, r, scalar.impulse[r], z)
    for c in range(c0, c1):
        warm = contact.impulse[c]
        for direction in range(3):
            push_contact(tree, contact, c, direction, depth, warm[direction], z)
    used = int(0)
    change = float(0.0)
    running = int(1)
    if r1 - r0 + c1 - c0 == 0:
        running = 0
    while running == 1:
        change = float(0.0)
        for r in range(r0, r1):
            change = wp.max(change, relax_scalar(tree, scalar, r, z))
        for c in range(c0, c1):
            change = wp.max(change, relax_contact(tree, contact, c, depth, s.contact_cfm, pyramidal, z))
        used += 1
        if used >= max_iterations or change <= tolerance:
            running = 0
    acted = int(0)
    for r in range(r0, r1):
        if scalar.impulse[r] != 0.0:
            acted = 1
    for c in range(c0, c1):
        if contact.impulse[c][0] != 0.0:
            acted = 1
    impulse_acted[w] = acted
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
