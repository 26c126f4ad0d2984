"""Absent bodies, which neither collide nor move and have no rows.

`present` of the root of a tree applies to the whole tree, see `newtonsim.fields.presence`.

Stage: beginning of a step in which bodies may be absent
Called by: newtonsim/fields/presence.py, newtonsim/fields/spares.py, newtonsim/queries/scene_query.py,
    render/camera/model.py, solvers/absent_bodies.py
Reads: 15 arrays
Writes: 11 arrays
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.shapes import GEO_NONE

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def follow_roots(first: int, root: wp.array(dtype=int), present: wp.array(dtype=int)):
    """One thread per body: copy the presence of the root of its tree."""
    b = first + wp.tid()
    if root[b] != b:
        present[b] = present[root[b]]


@wp.kernel
def hide_shapes(
    first: int,
    body: wp.array(dtype=int),
    present: wp.array(dtype=int),
    solid_kind: wp.array(dtype=int),
    kind: wp.array(dtype=int),
):
    """One thread per shape: its kind, or that of no shape on absent bodies."""
    s = first + wp.tid()
    b = body[s]
    there = int(1)
    if b >= 0:
        there = present[b]
    kind[s] = wp.where(there != 0, solid_kind[s], GEO_NONE)


@wp.kernel
def hold_bodies(
    first: int,
    present: wp.array(dtype=int),
    leaf: wp.array(dtype=int),
    qd: wp.array(dtype=wp.spatial_vector),
    body_leaf: wp.array(dtype=int),
    moving: wp.array(dtype=wp.spatial_vector),
):
    """One thread per body: neither dofs nor user-given velocities move absent bodies."""
    b = first + wp.tid()
    there = present[b] != 0
    body_leaf[b] = wp.where(there, leaf[b], -1)
    moving[b] = wp.where(there, qd[b], wp.spatial_vector())


@wp.kernel
def hold_dofs(
    first: int,
    body: wp.array(dtype=int),
    present: wp.array(dtype=int),
    qd: wp.array(dtype=float),
    settled: wp.array(dtype=int),
    applied: wp.array(dtype=float),
):
    """One thread per dof: dofs of absent bodies stand still, and their drives and servos are off.

    `settled` becomes 1 for drives that need no row; `applied` may be without entries.
    """
    d = first + wp.tid()
    if present[body[d]] == 0:
        qd[d] = 0.0
        settled[d] = 1
        if applied.shape[0] > 0:
            applied[d] = 0.0


@wp.kernel
def leave_out_rows(
    first: int,
    body: wp.array(dtype=int),
    present: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    own_kind: wp.array(dtype=int),
    idle_kind: int,
    source_kind: wp.array(dtype=int),
):
    """One thread per candidate for a row on a dof: its kind, or one that needs no row on absent bodies."""
    r = first + wp.tid()
    there = present[body[dof[r]]] != 0
    source_kind[r] = wp.where(there, own_kind[r], idle_kind)


@wp.kernel
def release_constraints(
    first: int,
    constraint: wp.array(dtype=int),
    ends: wp.array2d(dtype=int),
    present: wp.array(dtype=int),
    enabled: wp.array(dtype=int),
    acting: wp.array(dtype=int),
):
    """One thread per row between bodies: whether its constraint acts, which needs both bodies present."""
    c = constraint[first + wp.tid()]
    if c >= 0:
        acts = enabled[c]
        for side in range(2):
            if ends[c, side] >= 0:
                acts = wp.where(present[ends[c, side]] != 0, acts, 0)
        acting[c] = acts


@wp.kernel
def choose_families(
    first: int,
    solid_kind: wp.array(dtype=int),
    spare: wp.array(dtype=bool),
    family: wp.array2d(dtype=int),
    listed: wp.array(dtype=wp.vec3i),
):
    """One thread per listed pair: the narrow phase for the current kinds of spare shapes."""
    i = first + wp.tid()
    pair = listed[i]
    if spare[pair[0]] or spare[pair[1]]:
        pair[2] = family[solid_kind[pair[0]], solid_kind[pair[1]]]
        listed[i] = pair


@wp.kernel
def hide_rows(
    first: int,
    shape: wp.array(dtype=int),
    body: wp.array(dtype=int),
    present: wp.array(dtype=int),
    alpha: wp.array(dtype=float),
    color: wp.array(dtype=wp.vec4),
):
    """One thread per row of a camera's scene: invisible if the shape is on an absent body."""
    r = first + wp.tid()
    b = body[shape[r]]
    there = int(1)
    if b >= 0:
        there = present[b]
    c = color[r]
    c[3] = wp.where(there != 0, alpha[r], 0.0)
    color[r] = c
