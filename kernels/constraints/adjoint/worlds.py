"""Worlds of a backward pass: for which a gradient is requested, and why one has none.

Stage: backward pass of constraints, first and last
Called by: solvers/featherstone/constraint_adjoint.py, solvers/featherstone/step_adjoint.py
Reads: TreeView, dof, slope_q, slope_qd, solved, v_end, v_free, world_start
Writes: followed, reason
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# largest difference between recomputed velocities and those of the step, as a share of the change by
# constraints, and in any case [m/s or rad/s]: with redundant contacts that slide, it depends on the start of
# the sweeps which of them press more
DISAGREEMENT = wp.constant(1.0e-2)
SMALLEST_ERROR = wp.constant(1.0e-3)
# why a world has no gradient
NO_ROOM = wp.constant(1)
UNREACHED = wp.constant(2)
NOT_SOLVED = wp.constant(4)
UNSUPPORTED_CONTACT = wp.constant(8)
PROPAGATED_IMPACT = wp.constant(16)
# not a separate reason: the result of the step is not finite
NONFINITE = wp.constant(32)


@wp.kernel
def find_followed_worlds(
    first: int,
    tree: TreeView,
    slope_q: wp.array(dtype=wp.transform),
    slope_qd: wp.array(dtype=wp.spatial_vector),
    followed: wp.array(dtype=int),
):
    """One thread per body: set 1 for its world if there is a gradient of its pose or velocity.

    `followed` is 0 on entry. In a rollout, there is such a gradient where a loss reads bodies: often only
    after the last step, since steps start from coordinates.
    """
    b = first + wp.tid()
    t = tree.body_tree[b]
    if t >= 0:
        found = int(0)
        for i in range(7):
            if slope_q[b][i] != 0.0:
                found = 1
        for i in range(6):
            if slope_qd[b][i] != 0.0:
                found = 1
        if found == 1:
            followed[tree.world[t]] = 1


@wp.kernel
def compare_velocities(
    first: int,
    world_start: wp.array(dtype=int),
    dof: wp.array(dtype=int),
    v_free: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    solved: wp.array(dtype=float),
    reason: wp.array(dtype=int),
):
    """One thread per world: mark it unless the recomputed velocities are those of the step."""
    w = first + wp.tid()
    change = float(0.0)
    error = float(0.0)
    for i in range(world_start[w], world_start[w + 1]):
        d = dof[i]
        change = wp.max(change, wp.abs(v_end[d] - v_free[d]))
        error = wp.max(error, wp.abs(v_end[d] - solved[d]))
        if not wp.isfinite(solved[d]):
            error = wp.inf
        if not wp.isfinite(v_end[d]):
            reason[w] = reason[w] | NONFINITE
    if error > DISAGREEMENT * change + SMALLEST_ERROR:
        reason[w] = reason[w] | NOT_SOLVED
