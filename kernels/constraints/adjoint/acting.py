"""Worlds in which a row acts; a backward pass needs the row terms of these only.

Stage: backward pass of constraints, after the multipliers
Called by: solvers/featherstone/constraint_adjoint.py
Reads: ContactView, RowAdjointView, RowsView
Writes: acting
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.modes import ROW_OPEN, RowAdjointView
from newtonsim.kernels.constraints.rows import RowsView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def mark_acting(
    first: int, rows: RowsView, contacts: ContactView, adj: RowAdjointView, acting: wp.array(dtype=int)
):
    """One thread per world: 1 if one of its rows acts. Spin rows act with their contact."""
    w = first + wp.tid()
    found = int(0)
    r0 = rows.dof.world_start[w]
    for r in range(r0, r0 + rows.dof.world_count[w]):
        if adj.dof_mode[r] != ROW_OPEN:
            found = 1
    for p in range(rows.pair.world_start[w], rows.pair.world_start[w + 1]):
        if adj.pair_mode[p] != ROW_OPEN:
            found = 1
    c0 = contacts.world_start[w]
    for c in range(c0, c0 + contacts.world_count[w]):
        if adj.contact_mode[c] != ROW_OPEN:
            found = 1
    acting[w] = found
