"""Runs of many worlds in parallel: the start, the controls of each step, and the states along the way.

Stage: optimisation, before and after every step
Called by: newtonsim/optimize/gaps.py, newtonsim/optimize/ilqr.py, newtonsim/optimize/runs.py
Reads: JointView, RunView, 12 arrays
Writes: RunView, difference, found, move, node_q, node_qd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.optimize.tangent import ball_difference, floating_difference, is_floating
from newtonsim.kernels.optimize.views import RunView
from newtonsim.kernels.trees.joint_forces import integrate_joint
from newtonsim.kernels.views.model import JOINT_BALL, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def keep_state(run: RunView, w: int, row: int):
    """Store the state of a world."""
    for i in range(w * run.coords, (w + 1) * run.coords):
        run.q[row, i] = run.joint_q[i]
    for d in range(w * run.dofs, (w + 1) * run.dofs):
        run.qd[row, d] = run.joint_qd[d]


@wp.kernel
def begin_runs(first: int, run: RunView):
    """One thread per world: set it to the start, with a loss of 0."""
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
    """One thread per world: count the steps of a control."""
    w = first + wp.tid()
    run.step[w] = run.step[w] + run.hold


@wp.kernel
def record_states(first: int, run: RunView):
    """One thread per world: store its state."""
    w = first + wp.tid()
    keep_state(run, w, run.step[w] / run.hold)


@wp.func
def subtract_state(
    w: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    run: RunView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    first_q: int,
    first_qd: int,
    difference: wp.array(dtype=float),
):
    """difference = state of world w ⊖ (q, qd), whose numbers of the world begin at first_q and first_qd."""
    for j in range(w * run.joints, (w + 1) * run.joints):
        i = joint.q_start[j]
        own = joint.qd_start[j] - w * run.dofs
        i_reference = i - w * run.coords + first_q
        if is_floating(joint.type[j]):
            e = floating_difference(j, joint, body_com, run.joint_q, q, i_reference)
            for k in range(6):
                difference[own + k] = e[k]
        elif joint.type[j] == JOINT_BALL:
            turn = ball_difference(i, run.joint_q, q, i_reference)
            for k in range(3):
                difference[own + k] = turn[k]
        else:
            for k in range(joint.qd_start[j + 1] - joint.qd_start[j]):
                difference[own + k] = run.joint_q[i + k] - q[i_reference + k]
    for d in range(run.dofs):
        difference[run.dofs + d] = run.joint_qd[w * run.dofs + d] - qd[first_qd + d]


@wp.func
def apply_feedback(
    w: int,
    t: int,
    length: float,
    controls: wp.array2d(dtype=float),
    change: wp.array2d(dtype=float),
    gain: wp.array3d(dtype=float),
    difference: wp.array(dtype=float),
    run: RunView,
):
    """Control number t of world w: controls + length · change + gain · difference, within their bounds."""
    for k in range(run.entry.shape[0]):
        u = controls[t, k] + length * change[t, k]
        for d in range(2 * run.dofs):
            u += gain[t, k, d] * difference[d]
        if t > 0:
            for m in range(
                gain.shape[2] - 2 * run.dofs
            ):  # of the previous control, if it is part of the state
                u += gain[t, k, 2 * run.dofs + m] * (run.sequence[t - 1, m, w] - controls[t - 1, m])
        u = wp.clamp(u, run.low[k], run.high[k])
        run.sequence[t, k, w] = u
        run.control[w * run.inputs + run.entry[k]] = u


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
    subtract_state(w, joint, body_com, run, q[t], qd[t], 0, 0, difference[w])
    apply_feedback(w, t, length[w], controls, change, gain, difference[w], run)


@wp.kernel
def find_nodes(
    first: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    length: wp.array(dtype=float),
    jump: wp.array(dtype=int),
    step: wp.array2d(dtype=float),
    gap: wp.array2d(dtype=float),
    q: wp.array2d(dtype=float),
    qd: wp.array2d(dtype=float),
    run: RunView,
    move: wp.array(dtype=float),
    node_q: wp.array2d(dtype=float),
    node_qd: wp.array2d(dtype=float),
    found: wp.array3d(dtype=float),
):
    """One thread per world: the state at the start of its next control, and the gap to it.

    If `jump` is set, this is the node of the reference, moved by the length times its step; otherwise, it is
    the result of the last control, where the share 1 - length of the reference's gap remains.
    """
    w = first + wp.tid()
    t = run.step[w] / run.hold
    for i in range(run.coords):
        node_q[t, w * run.coords + i] = run.joint_q[w * run.coords + i]
        if jump[t] == 1:
            node_q[t, w * run.coords + i] = q[t, i]
    for d in range(run.dofs):
        own = w * run.dofs + d
        if jump[t] == 1:
            move[own] = length[w] * step[t, d]
            node_qd[t, own] = qd[t, d] + length[w] * step[t, run.dofs + d]
        else:
            move[own] = (length[w] - 1.0) * gap[t, d]
            node_qd[t, own] = run.joint_qd[own] + (length[w] - 1.0) * gap[t, run.dofs + d]
    for j in range(w * run.joints, (w + 1) * run.joints):
        integrate_joint(j, joint, body_com, node_q[t], move, 1.0, node_q[t])
    subtract_state(w, joint, body_com, run, node_q[t], node_qd[t], w * run.coords, w * run.dofs, found[t, w])


@wp.kernel
def place_at_nodes(
    first: int, node_q: wp.array2d(dtype=float), node_qd: wp.array2d(dtype=float), run: RunView
):
    """One thread per world: set it to the state at the start of its next control."""
    w = first + wp.tid()
    t = run.step[w] / run.hold
    for i in range(w * run.coords, (w + 1) * run.coords):
        run.joint_q[i] = node_q[t, i]
    for d in range(w * run.dofs, (w + 1) * run.dofs):
        run.joint_qd[d] = node_qd[t, d]
