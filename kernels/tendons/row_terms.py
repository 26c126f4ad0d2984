"""Terms of tendon rows in the scalar S whose derivatives are the gradient of a step, see `row_terms`.

Stage: backward pass of constraints, after the multipliers
Called by: solvers/tendons.py
Reads: TendonDrive, TendonMotion, TendonRowView, TendonView, act, impulse, lambda_, mode, multiplier, v_end
Writes: out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.constraints.adjoint.modes import ROW_BOUNDED, ROW_HOLDS, ROW_OPEN
from newtonsim.kernels.tendons.forces import TendonDrive
from newtonsim.kernels.tendons.paths import TendonMotion, TendonView
from newtonsim.kernels.tendons.rows import TENDON_FRICTION, TENDON_SERVO, TendonRowView, tendon_goal

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.kernel
def tendon_lagrangian(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    drive: TendonDrive,
    act: wp.array(dtype=float),
    rows: TendonRowView,
    lambda_: wp.array(dtype=float),
    v_end: wp.array(dtype=float),
    dt: float,
    late: int,
    impulse: wp.array(dtype=float),
    mode: wp.array(dtype=int),
    multiplier: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    """One thread per row of a tendon: its terms."""
    r = first + wp.tid()
    place = rows.place[r]
    if mode[place] == ROW_OPEN:
        return
    p = impulse[place]
    m = multiplier[place]
    goal = tendon_goal(r, motion, drive, act, dt, late, rows)
    under = float(0.0)
    end = float(0.0)
    for i in range(rows.part_start[r], rows.part_start[r + 1]):
        e = rows.part_entry[i]
        d = tendon.entry_dof[e]
        if rows.part_second[i] == 1:
            under += goal.slope * motion.J[e] * lambda_[d]
            end += goal.slope * motion.J[e] * v_end[d]
        else:
            under += motion.J[e] * lambda_[d]
            end += motion.J[e] * v_end[d]
    total = -p * under
    if mode[place] == ROW_HOLDS:
        target = goal.fastest
        if p > 0.0:
            target = goal.slowest
        total += m * (end + goal.softness * p - target)
    if mode[place] == ROW_BOUNDED and (rows.kind[r] == TENDON_FRICTION or rows.kind[r] == TENDON_SERVO):
        total -= m * wp.sign(p) * goal.bound
    out[r] = total
