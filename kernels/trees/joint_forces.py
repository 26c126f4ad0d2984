"""Generalised forces of drives, springs and damping, and the motion of joint coordinates.

Drives, springs and damping are evaluated at the velocity and position at the end of the step, so that any
gain is stable with any time step: their derivative is the diagonal that `implicit_inertia` returns.

Stage: smooth dynamics, forces of joints; integration
Called by: solvers/featherstone/, kernels/actuators/, kernels/constraints/adjoint/row_terms.py,
    kernels/constraints/, kernels/constraints/linear/balance.py, kernels/envs/sensors.py,
    kernels/maximal/adjoint/, kernels/maximal/, kernels/optimize/runs.py, kernels/penalty/joints.py,
    kernels/trees/
Reads: DriveView, JointView, Span, TreeView, 11 arrays
Writes: diagonal, implicit, q_out, rate, residual
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spans import Span
from newtonsim.kernels.algebra.spatial import load_quat, load_vec3, quat_exp, unit_quat
from newtonsim.kernels.views.model import (
    JOINT_BALL,
    JOINT_DISTANCE,
    JOINT_FREE,
    MODE_FORCE,
    MODE_POSITION,
    MODE_VELOCITY,
    DriveView,
    JointView,
    TreeView,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def drive_effort(drive: DriveView, a: int, act: float, q_end: float, v_end: float) -> float:
    """Effort of the drive of axis a [N or N m] at position q_end and velocity v_end."""
    effort = float(0.0)
    if drive.mode[a] == MODE_POSITION:
        effort = drive.target_ke[a] * (act - q_end) - drive.target_kd[a] * v_end
    if drive.mode[a] == MODE_VELOCITY:
        effort = drive.target_ke[a] * (act - v_end)
    return effort


@wp.func
def least_effort(lower: float, limit: float) -> float:
    """Least effort of an axis [N or N m], given its `effort_lower` and `effort_limit`."""
    return wp.where(lower == -wp.inf, -limit, lower)


@wp.func
def bounded_effort(drive: DriveView, a: int, effort: float) -> float:
    """An effort within the bounds of the drive of axis a [N or N m]."""
    return wp.clamp(effort, least_effort(drive.effort_lower[a], drive.effort_limit[a]), drive.effort_limit[a])


@wp.func
def exceeds_bounds(drive: DriveView, a: int, effort: float) -> bool:
    """True if the drive of axis a cannot exert an effort."""
    most = drive.effort_limit[a]
    return effort > most or effort < least_effort(drive.effort_lower[a], most)


@wp.func
def implicit_inertia(d: int, tree: TreeView, drive: DriveView, implicit: int, dt: float) -> float:
    """Armature plus h kd + h² ke of drive, spring and damping of dof d."""
    a = tree.dof_axis[d]
    add = drive.armature[d] + dt * drive.damping[d]
    if a >= 0:
        add += dt * dt * drive.stiffness[a]
        if implicit != 0:
            if drive.mode[a] == MODE_POSITION:
                add += dt * drive.target_kd[a] + dt * dt * drive.target_ke[a]
            if drive.mode[a] == MODE_VELOCITY:
                add += dt * drive.target_ke[a]
    return add


@wp.func
def select_drive(
    d: int,
    tree: TreeView,
    drive: DriveView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    dt: float,
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
):
    """0 if the drive of dof d may exceed its effort limit in the step; what all others add to the inertia.

    Such a drive becomes a bounded row of the constraint solve; all others are part of the diagonal of the
    joint-space inertia.
    """
    selected = int(1)
    a = tree.dof_axis[d]
    if a >= 0:
        if drive.mode[a] != MODE_FORCE:
            effort = drive_effort(drive, a, act[a], q[tree.dof_coord[d]] + dt * qd[d], qd[d])
            if exceeds_bounds(drive, a, effort):
                selected = 0
    implicit[d] = selected
    diagonal[d] = implicit_inertia(d, tree, drive, selected, dt)


@wp.kernel(enable_backward=False)
def select_implicit_drives(
    first: int,
    tree: TreeView,
    drive: DriveView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    dt: float,
    implicit: wp.array(dtype=int),
    diagonal: wp.array(dtype=float),
):
    """One thread per dof: 0 for a drive that may exceed its effort limit in the step; what others add."""
    select_drive(first + wp.tid(), tree, drive, q, qd, act, dt, implicit, diagonal)


@wp.func
def force_residual(
    d: int,
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    qd_end: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    tau: wp.array(dtype=float),
    dt: float,
) -> float:
    """Tau plus armature and passive forces minus drives of dof d, at the end of the step."""
    a = tree.dof_axis[d]
    r = tau[d] - joint_f[d] + drive.armature[d] * qdd[d] + drive.damping[d] * qd_end[d]
    if a >= 0:
        q_end = q[tree.dof_coord[d]] + dt * qd_end[d]
        r += drive.stiffness[a] * (q_end - drive.spring_ref[a])
        if drive.mode[a] == MODE_FORCE:
            r -= bounded_effort(drive, a, act[a])
        if implicit[d] != 0:
            r -= drive_effort(drive, a, act[a], q_end, qd_end[d])
    return r


@wp.kernel
def joint_force_residual(
    span: Span,
    tree: TreeView,
    drive: DriveView,
    implicit: wp.array(dtype=int),
    q: wp.array(dtype=float),
    qd_end: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    act: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    tau: wp.array(dtype=float),
    dt: float,
    residual: wp.array(dtype=float),
):
    """A span of dofs: tau plus armature and passive forces minus drives, at the end of the step."""
    for d in range(span.first + wp.tid(), span.end, span.step):
        residual[d] = force_residual(d, tree, drive, implicit, q, qd_end, qdd, act, joint_f, tau, dt)


@wp.func
def integrate_floating(
    j: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
    q_out: wp.array(dtype=float),
):
    """Move the centre of mass on a straight line and turn the body about it."""
    i = joint.q_start[j]
    d = joint.qd_start[j]
    w = load_vec3(qd, d)
    v = load_vec3(qd, d + 3)
    if joint.parent[j] < 0:
        to_joint = wp.quat_inverse(wp.transform_get_rotation(joint.X_p[j]))
        w = wp.quat_rotate(to_joint, w)
        v = wp.quat_rotate(to_joint, v)
    pose = wp.transform(load_vec3(q, i), load_quat(q, i + 3)) * wp.transform_inverse(joint.X_c[j])
    r = wp.transform_get_rotation(pose)
    com_b = body_com[joint.child[j]]
    com = wp.transform_get_translation(pose) + wp.quat_rotate(r, com_b) + dt * v
    r_end = unit_quat(quat_exp(dt * w) * r)
    end = wp.transform(com - wp.quat_rotate(r_end, com_b), r_end) * joint.X_c[j]
    p = wp.transform_get_translation(end)
    o = wp.transform_get_rotation(end)
    for k in range(3):
        q_out[i + k] = p[k]
    for k in range(4):
        q_out[i + 3 + k] = o[k]


@wp.func(inline=True)
def integrate_joint(
    j: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
    q_out: wp.array(dtype=float),
):
    """q_out = q ⊕ dt qd of joint j, quaternions by the exponential map."""
    joint_type = joint.type[j]
    i = joint.q_start[j]
    d = joint.qd_start[j]
    if joint_type == JOINT_FREE or joint_type == JOINT_DISTANCE:
        integrate_floating(j, joint, body_com, q, qd, dt, q_out)
    elif joint_type == JOINT_BALL:
        o = unit_quat(quat_exp(dt * load_vec3(qd, d)) * load_quat(q, i))
        for k in range(4):
            q_out[i + k] = o[k]
    else:
        for k in range(joint.qd_start[j + 1] - d):
            q_out[i + k] = q[i + k] + dt * qd[d + k]


@wp.kernel
def integrate_joints(
    first: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    dt: float,
    q_out: wp.array(dtype=float),
):
    """One thread per joint: q_out = q ⊕ dt qd."""
    integrate_joint(first + wp.tid(), joint, body_com, q, qd, dt, q_out)


@wp.kernel
def difference_quotient(
    first: int,
    end: wp.array(dtype=float),
    start: wp.array(dtype=float),
    dt: float,
    rate: wp.array(dtype=float),
):
    """One thread per entry: (end - start) / dt."""
    i = first + wp.tid()
    rate[i] = (end[i] - start[i]) / dt
