"""Modes of the rows of a solved step: open, an equation that holds, or at a bound.

Implicit differentiation of a complementarity problem starts from this active set, see
`constraints.adjoint.solve`.

Stage: backward pass of constraints, first, the active set
Called by: solvers/featherstone/constraint_adjoint.py, kernels/constraints/adjoint/solution_error.py,
    kernels/constraints/adjoint/solve.py, kernels/constraints/adjoint/switches.py,
    kernels/constraints/linear/selection.py
Reads: ContactView, RowsView
Writes: pushes, slip_before_impact
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.chains import triple_velocity
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.constraints.smoothing import friction_per_slip
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# modes of a row of the solved step
ROW_OPEN = wp.constant(0)  # no impulse
ROW_HOLDS = wp.constant(1)  # an equation; a contact presses and sticks
ROW_BOUNDED = wp.constant(2)  # the impulse is at its bound, or friction is softened; a contact slides
# share of the friction bound above which a contact slides, and the least slip [m/s] whose direction is used
AT_BOUND = wp.constant(0.999)
SLOWEST_SLIP = wp.constant(1.0e-4)


@wp.struct
class RowAdjointView:
    """Modes of the rows of a solved step, and their multipliers.

    The multiplier of a row that holds is m; that of a row whose impulse is at its bound is its J λ.
    """

    dof_mode: wp.array(dtype=int)  # (R)
    dof_multiplier: wp.array(dtype=float)  # (R)
    pair_mode: wp.array(dtype=int)  # (P)
    pair_multiplier: wp.array(dtype=float)  # (P)
    contact_mode: wp.array(dtype=int)  # (C)
    contact_multiplier: wp.array(dtype=wp.vec3)  # (C) m, or m of the normal and J λ of the tangents
    # (C) slip that the solution does not include, see `rebounds` [m/s]
    contact_slip_before_impact: wp.array(dtype=wp.vec2)
    contact_pushes: wp.array(dtype=int)  # (C) 0 if the target velocity omits the penetration
    spin_mode: wp.array(dtype=wp.vec2i)  # (C) of torsional and of rolling friction
    spin_multiplier: wp.array(dtype=wp.vec3)  # (C) about the normal and both tangents


@wp.func
def row_mode(impulse: float, delassus: float, target: wp.vec2, bounds: wp.vec2) -> int:
    """Mode of a row with an interval of target velocities and bounds of its impulse."""
    mode = int(ROW_OPEN)
    if delassus > 0.0:
        if impulse <= bounds[0] or impulse >= bounds[1]:
            mode = ROW_BOUNDED
        elif impulse != 0.0 or target[0] == target[1]:
            mode = ROW_HOLDS
    return mode


@wp.func
def friction_mode(t: wp.vec2, bound: float, slip: wp.vec2, width: float) -> int:
    """Whether friction holds or is at its bound; zero or softened friction counts as at its bound."""
    mode = int(ROW_HOLDS)
    if bound <= 0.0 or width > 0.0 or (wp.length(t) >= AT_BOUND * bound and wp.length(slip) > SLOWEST_SLIP):
        mode = ROW_BOUNDED
    return mode


@wp.func
def friction_by_slip(speed: float, width: float) -> float:
    """Share of its bound that friction has against a slip of that speed, over the speed [s/m]."""
    if width > 0.0:
        return friction_per_slip(speed, width)
    return 1.0 / wp.max(speed, SLOWEST_SLIP)


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
    """Find the mode of a contact; returns 1 if it acts."""
    p = impulse.contact[c]
    mode = int(ROW_OPEN)
    if p[0] > 0.0 and rows.contact.delassus[c][0] > 0.0:
        slip = contact_slip(tree, rows, c, depth, impulse.z) - adj.contact_slip_before_impact[c]
        bound = rows.contact.friction[c] * p[0]
        mode = friction_mode(wp.vec2(p[1], p[2]), bound, slip, rows.contact.slip_width[c])
    adj.contact_mode[c] = mode
    if rows.spins == 1:
        modes = wp.vec2i(ROW_OPEN, ROW_OPEN)
        delassus = rows.spin.delassus[c]
        if mode != ROW_OPEN and (delassus[0] > 0.0 or delassus[1] > 0.0):
            spin = contact_spin(tree, rows, c, depth, impulse.z)
            q = impulse.spin[c]
            width = rows.contact.slip_width[c]
            if delassus[0] > 0.0:
                modes[0] = friction_mode(
                    wp.vec2(q[0], 0.0), rows.spin.torsion[c] * p[0], wp.vec2(spin[0], 0.0), width
                )
            if delassus[1] > 0.0:
                modes[1] = friction_mode(
                    wp.vec2(q[1], q[2]), rows.spin.rolling[c] * p[0], wp.vec2(spin[1], spin[2]), width
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
    """Find the mode of every row of a world; returns how many hold or slide."""
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


@wp.func(inline=False)
def open_rows(rows: wp.ref[RowsView], contacts: wp.ref[ContactView], w: int, adj: wp.ref[RowAdjointView]):
    """Mark every row of a world as open."""
    for r in range(rows.dof.world_start[w], rows.dof.world_start[w + 1]):
        adj.dof_mode[r] = ROW_OPEN
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        adj.pair_mode[p] = ROW_OPEN
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        adj.contact_mode[c] = ROW_OPEN
        if rows.spins == 1:
            adj.spin_mode[c] = wp.vec2i(ROW_OPEN, ROW_OPEN)


@wp.func
def select_pairs(
    rows: wp.ref[PairRowView],
    w: int,
    impulse: wp.array(dtype=float),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
) -> int:
    """Find the modes of the rows of a world between bodies or dofs; returns how many act."""
    count = int(0)
    for p in range(rows.world_start[w], rows.world_start[w + 1]):
        target = wp.vec2(rows.target_lower[p], rows.target_upper[p])
        bounds = wp.vec2(rows.lower[p], rows.upper[p])
        mode[p] = row_mode(impulse[p], rows.delassus[p], target, bounds)
        multiplier[p] = 0.0
        if mode[p] != ROW_OPEN:
            count += 1
    return count


@wp.kernel
def mark_pushing(
    first: int,
    rows: RowsView,
    contacts: ContactView,
    final: int,
    pushes: wp.array(dtype=int),
    slip_before_impact: wp.array(dtype=wp.vec2),
):
    """One thread per contact place: whether its target removes the penetration, and the slip before impact.

    For contacts of single bodies, the target does so only in the solution that moves the positions, and not
    in the final one, see `solve.solve_rows`.
    """
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    slip_before_impact[c] = wp.vec2(0.0, 0.0)
    if final == 0 and rows.contact.first_impact[c][0] > 0.0:
        slip_before_impact[c] = rows.contact.slip_before_impact[c]
    pushes[c] = int(final == 0 or rows.contact.push[c] == 0.0)
