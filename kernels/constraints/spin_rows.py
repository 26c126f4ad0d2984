"""Constraint rows of contacts for torsional and rolling friction, where the scene has them.

Stage: constraints, assembly of rows
Called by: solvers/featherstone/constraints.py
Reads: ConstraintSettings, ContactParameters, ContactRowView, ContactView, KinematicsView, L, ShapeView,
    SpinRowView, TreeView, body_qd, mu, mu_rolling, mu_torsion
Writes: SpinRowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.chains import fill_turning, whiten_sides
from newtonsim.kernels.constraints.contact_rows import (
    ContactRowView,
    SpinRowView,
    contact_frame,
    triple_delassus,
)
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.views.model import KinematicsView, TreeView
from newtonsim.kernels.views.references import ContactParameters, contact_spin_friction
from newtonsim.kernels.views.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def build_spin_rows(
    first: int,
    tree: TreeView,
    kin: KinematicsView,
    shape: ShapeView,
    mu: wp.array(dtype=float),
    mu_torsion: wp.array(dtype=float),
    mu_rolling: wp.array(dtype=float),
    body_qd: wp.array(dtype=wp.spatial_vector),
    L: wp.array(dtype=float),
    contacts: ContactView,
    depth: int,
    s: ConstraintSettings,
    law: ContactParameters,
    contact: ContactRowView,
    rows: SpinRowView,
):
    """One thread per contact place: angular rows, targets, warm start; needs the contact rows."""
    c = first + wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    friction = contact_spin_friction(s0, s1, mu, mu_torsion, mu_rolling, law, s.friction_product)
    rows.torsion[c] = friction[0]
    rows.rolling[c] = friction[1]
    rows.delassus[c] = wp.vec2(0.0, 0.0)
    rows.impulse[c] = wp.vec3(0.0, 0.0, 0.0)
    if rows.torsion[c] <= 0.0 and rows.rolling[c] <= 0.0:
        return
    frame = contact_frame(contacts.normal[c])
    leaf = contact.leaf[c]
    prescribed = wp.vec3(0.0, 0.0, 0.0)
    for side in range(2):
        b = shape.body[s0]
        if side == 1:
            b = shape.body[s1]
        sign = 1.0 - 2.0 * float(side)
        if leaf[side] >= 0:
            fill_turning(tree, kin, c, leaf[side], side * depth, sign * frame, rows.B)
        elif b >= 0:
            prescribed += sign * wp.spatial_top(body_qd[b])
    whiten_sides(tree, L, c, leaf, depth, rows.B)
    delassus = triple_delassus(tree, c, leaf, depth, rows.B)
    rows.delassus[c] = delassus.diagonal
    rows.coupling[c] = delassus.coupling
    rows.target[c] = -(frame * prescribed)
    if contacts.match[c] >= 0:
        rows.impulse[c] = s.warm_start * rows.memory[contacts.match[c]]
