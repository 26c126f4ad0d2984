"""Runs of many worlds side by side: the start, the controls of each step, and the states along the way.

Stage: optimisation, before and after every step
Called by: newtonsim/optimize/ilqr.py, newtonsim/optimize/runs.py
Reads: JointView, RunView, body_com, change, controls, gain, length, q, qd
Writes: RunView, difference
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.optimize.tangent import ball_difference, floating_difference, is_floating
from newtonsim.kernels.optimize.views import RunView
from newtonsim.kernels.views.model import JOINT_BALL, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def keep_state(run: RunView, w: int, row: int):
    """Write down the state of a world."""
    for i in range(w * run.coords, (w + 1) * run.coords):
        run.q[row, i] = run.joint_q[i]
    for d in range(w * run.dofs, (w + 1) * run.dofs):
        run.qd[row, d] = run.joint_qd[d]


@wp.kernel
def begin_runs(first: int, run: RunView):
    """One thread per world: put it to the start, with a loss of 0."""
    w = first + wp.tid()
    run.step[w] = 0
    run.losses[w] = 0.0
    for i in range(run.coords):
        run.joint_q[w * run.coords + i] = run.start_q[i]
    for d in range(run.dofs):
        run.joint_qd[w * run.dofs + d] = run.start_qd[d]
    keep_state(run, w, 0)


@wp.kernel
def apply_controls(first: int, run: RunView):
    """One thread per world: the next controls of its sequence."""
    w = first + wp.tid()
    t = run.step[w] / run.hold
    for k in range(run.entry.shape[0]):
        run.control[w * run.inputs + run.entry[k]] = run.sequence[t, k, w]


@wp.kernel
def count_steps(first: int, run: RunView):
    """One thread per world: the steps of a control are done."""
    w = first + wp.tid()
    run.step[w] = run.step[w] + run.hold


@wp.kernel
def record_states(first: int, run: RunView):
    """One thread per world: write down its state."""
    w = first + wp.tid()
    keep_state(run, w, run.step[w] / run.hold)


@wp.kernel
def follow_feedback(
    first: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    length: wp.array(dtype=float),
    controls: wp.array2d(dtype=float),
    change: wp.array2d(dtype=float),
    gain: wp.array3d(dtype=float),
    q: wp.array2d(dtype=float),
    qd: wp.array2d(dtype=float),
    difference: wp.array2d(dtype=float),
    run: RunView,
):
    """One thread per world: controls + length · change + gain · (x ⊖ reference) within their bounds.

    Rows of controls, changes, gains and reference are those of the controls; each world has its own length.
    """
    w = first + wp.tid()
    t = run.step[w] / run.hold
    for j in range(w * run.joints, (w + 1) * run.joints):
        i = joint.q_start[j]
        d = joint.qd_start[j]
        own = d - w * run.dofs
        i_reference = i - w * run.coords
        if is_floating(joint.type[j]):
            e = floating_difference(j, joint, body_com, run.joint_q, q[t], i_reference)
            for k in range(6):
                difference[w, own + k] = e[k]
        elif joint.type[j] == JOINT_BALL:
            turn = ball_difference(i, run.joint_q, q[t], i_reference)
            for k in range(3):
                difference[w, own + k] = turn[k]
        else:
            for k in range(joint.qd_start[j + 1] - d):
                difference[w, own + k] = run.joint_q[i + k] - q[t, i_reference + k]
    for d in range(run.dofs):
        difference[w, run.dofs + d] = run.joint_qd[w * run.dofs + d] - qd[t, d]
    for k in range(run.entry.shape[0]):
        u = controls[t, k] + length[w] * change[t, k]
        for d in range(2 * run.dofs):
            u += gain[t, k, d] * difference[w, d]
        u = wp.clamp(u, run.low[k], run.high[k])
        run.sequence[t, k, w] = u
        run.control[w * run.inputs + run.entry[k]] = u
