"""Joint limits that act only when violated, for solvers that stop joints before their limits.

Stage: start of a step
Called by: newtonsim/pybullet_compat/engine/limit_stage.py
Reads: TreeView, nominal_lower, nominal_upper, push, q
Writes: inside, lower, upper
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

CLOSE = wp.constant(1.0e-4)
"""Distance from its limit at which a joint rests against it [rad or m], which prevents trembling."""


@wp.func
def acting_limit(violation: float, push: wp.vec2) -> float:
    """Distance from a joint's position to its acting limit; infinite for none.

    A joint beyond its limit moves back by the share push[0] of the violation in each step; one that is beyond
    it by more than push[1] is only stopped, and one close to its limit is stopped there.
    """
    inside = float(-wp.inf)
    if violation > -CLOSE:
        inside = violation
    if violation > 0.0:
        inside = 0.0
    if violation > 0.0 and violation < push[1]:
        inside = push[0] * violation
    return inside


@wp.kernel
def act_when_violated(
    first: int,
    tree: TreeView,
    nominal_lower: wp.array(dtype=float),
    nominal_upper: wp.array(dtype=float),
    push: wp.array(dtype=wp.vec2),
    scale: float,
    q: wp.array(dtype=float),
    lower: wp.array(dtype=float),
    upper: wp.array(dtype=float),
    inside: wp.array(dtype=wp.vec2),
):
    """One thread per dof: limits of its axis in this step, which the solver restores by the share 1 / scale.

    `inside` receives the distances from the joint's position at which the lower and the upper limit act, -inf
    for none.
    """
    d = first + wp.tid()
    a = tree.dof_axis[d]
    if a < 0:
        return
    x = q[tree.dof_coord[d]]
    share = wp.vec2(push[0][0] * scale, push[0][1])
    below = acting_limit(nominal_lower[a] - x, share)
    above = acting_limit(x - nominal_upper[a], share)
    lower[a] = x + below
    upper[a] = x - above
    inside[d] = wp.vec2(below, above)
