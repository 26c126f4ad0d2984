"""Rows of a step that are about to switch, where finite differences and the adjoint need not agree.

The adjoint is the derivative on one side of each switch. The switches of a contact are: in its target, which
closes a gap but ignores slop and skin; between pressing and not pressing, if it has almost no load; between
sticking and sliding. Those of a softened contact are between open and closed, and between pressing and not
pressing; those of a joint limit are in its target, and between acting and not acting. The multiplier of a row
measures its influence: if the slope of its target were larger by 1/h, the gradient would change by |m|/h √(J
H⁻¹ Jᵀ), in the norm of kinetic energy.

Stage: backward pass of constraints, after the multipliers
Called by: solvers/featherstone/switches.py
Reads: ConstraintSettings, ContactView, ImpulseView, RowAdjointView, RowsView, TreeView, y
Writes: SwitchView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import (
    ROW_BOUNDED,
    ROW_HOLDS,
    ROW_OPEN,
    ImpulseView,
    RowAdjointView,
    contact_slip,
)
from newtonsim.kernels.constraints.chains import row_velocity, triple_velocity
from newtonsim.kernels.constraints.contact_rows import CONTACT_REFERENCE, CONTACT_SMOOTH, CONTACT_SPRING
from newtonsim.kernels.constraints.dof_rows import ROW_LIMIT, ConstraintSettings
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# kind of row that is about to switch
SWITCH_NONE = wp.constant(0)
SWITCH_TOUCH = wp.constant(1)  # a contact whose bodies just touch
SWITCH_LOAD = wp.constant(2)  # a contact, between pressing and not
SWITCH_SLIP = wp.constant(3)  # a contact, between sticking and sliding
SWITCH_LIMIT = wp.constant(4)  # the limit of a joint axis
# velocity below which loads and slips count as small, in steps of free fall
FEW_STEPS = wp.constant(0.25)
ONE_G = wp.constant(9.81)
# depth, over the width, at which a softened contact opens or closes
SHALLOW = wp.constant(0.1)
# share of the friction bound above which a sticking contact is about to slide
NEAR_BOUND = wp.constant(0.9)


@wp.struct
class SwitchView:
    """The row of each world with the largest influence, of those about to switch in a backward pass."""

    size: wp.array(dtype=float)  # (W) its influence; 0 if there is none
    kind: wp.array(dtype=int)  # (W) SWITCH_*
    first: wp.array(dtype=int)  # (W) shape of a contact, or dof of a limit
    second: wp.array(dtype=int)  # (W) other shape of the contact


@wp.func
def note_switch(w: int, size: float, kind: int, first: int, second: int, switches: wp.ref[SwitchView]):
    """Store a row if its influence is larger than those before."""
    if size > switches.size[w]:
        switches.size[w] = size
        switches.kind[w] = kind
        switches.first[w] = first
        switches.second[w] = second


@wp.func
def note_contact(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    contacts: wp.ref[ContactView],
    c: int,
    w: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    s: wp.ref[ConstraintSettings],
    y: wp.array(dtype=float),
    switches: wp.ref[SwitchView],
):
    """Examine a contact; y is ζ."""
    delassus = rows.contact.delassus[c]
    if delassus[0] <= 0.0:
        return
    shape0 = contacts.shape0[c]
    shape1 = contacts.shape1[c]
    p = impulse.contact[c]
    m = adj.contact_multiplier[c]
    mode = adj.contact_mode[c]
    slow = FEW_STEPS * ONE_G * s.dt
    if mode == ROW_OPEN:
        # its influence on the gradient if it pressed
        v = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, impulse.z)
        under = triple_velocity(tree, rows.contact.leaf[c], c, depth, rows.contact.B, y)
        yields = delassus[0] + rows.contact.softness[c]
        if v[0] - rows.contact.target[c][0] < slow:
            size = wp.abs(under[0]) / yields * wp.sqrt(delassus[0]) / s.dt
            note_switch(w, size, SWITCH_LOAD, shape0, shape1, switches)
        return
    normal = wp.abs(m[0]) * wp.sqrt(delassus[0]) / s.dt
    soft = rows.contact.soft[c]
    deepest = s.contact_skin + 2.0 * s.contact_slop
    if soft == CONTACT_SMOOTH:
        deepest = SHALLOW * s.smoothing
    springs = soft == CONTACT_SPRING or soft == CONTACT_REFERENCE
    if not springs and contacts.distance[c] > -deepest:
        note_switch(w, normal, SWITCH_TOUCH, shape0, shape1, switches)
    elif p[0] * (delassus[0] + rows.contact.softness[c]) < slow:
        note_switch(w, normal, SWITCH_LOAD, shape0, shape1, switches)
    bound = rows.contact.friction[c] * p[0]
    if bound > 0.0 and rows.contact.slip_width[c] == 0.0:
        across = wp.length(wp.vec2(m[1], m[2])) * wp.sqrt(delassus[1]) / s.dt
        if mode == ROW_BOUNDED:
            # its multipliers are velocities, not impulses
            across = wp.length(wp.vec2(m[1], m[2])) / wp.sqrt(wp.max(delassus[1], 1.0e-12)) / s.dt
            slip = contact_slip(tree, rows, c, depth, impulse.z) - adj.contact_slip_before_impact[c]
            if wp.length(slip) < bound * delassus[1]:
                note_switch(w, across, SWITCH_SLIP, shape0, shape1, switches)
        elif wp.length(wp.vec2(p[1], p[2])) > NEAR_BOUND * bound:
            note_switch(w, across, SWITCH_SLIP, shape0, shape1, switches)


@wp.func
def note_limit(
    tree: wp.ref[TreeView],
    rows: wp.ref[RowsView],
    r: int,
    w: int,
    depth: int,
    impulse: wp.ref[ImpulseView],
    adj: wp.ref[RowAdjointView],
    s: wp.ref[ConstraintSettings],
    y: wp.array(dtype=float),
    switches: wp.ref[SwitchView],
):
    """Examine a row on one dof, if it is a limit; y is ζ."""
    source = rows.dof.source[r]
    delassus = rows.dof.delassus[r]
    if rows.dof.source_kind[source] != ROW_LIMIT or delassus <= 0.0:
        return
    d = rows.dof.source_dof[source]
    leaf = wp.vec2i(d, -1)
    yields = delassus + rows.dof.softness[r]
    slow = FEW_STEPS * ONE_G * s.dt
    v = row_velocity(tree, leaf, r, depth, rows.dof.B, impulse.z)
    if adj.dof_mode[r] == ROW_HOLDS:
        target = rows.dof.target_lower[r]
        if impulse.dof[r] < 0.0:
            target = -rows.dof.target_upper[r]
        # a rigid limit is at its target; it switches within a step of free fall around it
        if wp.abs(impulse.dof[r]) * yields < slow or (s.smoothing == 0.0 and target < slow):
            size = wp.abs(adj.dof_multiplier[r]) * wp.sqrt(delassus) / s.dt
            note_switch(w, size, SWITCH_LIMIT, d, -1, switches)
    elif wp.min(v - rows.dof.target_lower[r], rows.dof.target_upper[r] - v) < slow:
        under = row_velocity(tree, leaf, r, depth, rows.dof.B, y)
        note_switch(w, wp.abs(under) / yields * wp.sqrt(delassus) / s.dt, SWITCH_LIMIT, d, -1, switches)


@wp.kernel
def find_switches(
    first: int,
    tree: TreeView,
    rows: RowsView,
    contacts: ContactView,
    depth: int,
    impulse: ImpulseView,
    adj: RowAdjointView,
    s: ConstraintSettings,
    y: wp.array(dtype=float),
    switches: SwitchView,
):
    """One thread per world: the row about to switch with the largest influence, in this and earlier steps.

    `adj` and y come from the adjoint of the final solution.
    """
    w = first + wp.tid()
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        note_limit(tree, rows, r, w, depth, impulse, adj, s, y, switches)
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        note_contact(tree, rows, contacts, c, w, depth, impulse, adj, s, y, switches)
