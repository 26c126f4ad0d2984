"""Couplings of two dofs that follow the velocity of a third one without acting on it.

Stage: constraint rows
Called by: newtonsim/pybullet_compat/engine/gear_stage.py
Reads: LoopView, PairRowView, TreeView, dof, q, qd
Writes: PairRowView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PAIR_COUPLING, LoopView, PairRowView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def follow_dofs(
    first: int,
    tree: TreeView,
    loop: LoopView,
    dof: wp.array(dtype=int),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    rows: PairRowView,
):
    """One thread per row: v_a - s v_b = 0 becomes v_a - s v_b = -s v_c, and so for positions.

    `dof` has the dof c of each constraint, -1 for none, and s is the constraint's second coefficient.
    """
    r = first + wp.tid()
    if rows.kind[r] != PAIR_COUPLING:
        return
    c = rows.constraint[r]
    leader = dof[c]
    if leader < 0:
        return
    speed = qd[leader] + q[tree.dof_coord[leader]] / loop.recovery_time[c]
    shift = -loop.coefficients[c, 1] * speed
    rows.target_lower[r] += shift
    rows.target_upper[r] += shift
    rows.push[r] += shift
