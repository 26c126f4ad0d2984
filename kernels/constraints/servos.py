"""Servos: motors that bring a degree of freedom to a target velocity within one step, within their force.

A servo is a bounded row of the constraint solve, see `constraints.dof_rows`. Its target velocity is

    v* = kp e / h + (1 - kd) v + kd v_d,

where e is the position error and v is the velocity at the end of the step if no constraint acted. With kd = 1
and v_d = 0 the error shrinks by the factor 1 - kp in each step. In mode SERVO_PD, a servo is instead a spring
kp and a damper kd, evaluated at the end of the step, with the same force limit.

Stage: forces at the start of a step; constraints, assembly of rows
Called by: solvers/featherstone/stages.py, kernels/constraints/dof_rows.py
Reads: ServoView, TreeView, q, qd
Writes: joint_f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_quat
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

SERVO_OFF = wp.constant(0)
SERVO_VELOCITY = wp.constant(1)
SERVO_PD = wp.constant(2)
# keeps a servo without gains from dividing by zero
MIN_RATE = wp.constant(1.0e-9)


@wp.struct
class ServoView:
    """Servos of all degrees of freedom; empty arrays where a solver has none."""

    mode: wp.array(dtype=int)  # (D) SERVO_*
    kp: wp.array(dtype=float)  # (D)
    kd: wp.array(dtype=float)  # (D)
    target_q: wp.array(dtype=float)  # (C)
    target_qd: wp.array(dtype=float)  # (D)
    max_speed: wp.array(dtype=float)  # (D) [rad/s or m/s]
    max_force: wp.array(dtype=float)  # (D) [N m or N]
    applied: wp.array(dtype=float)  # (D) [N m or N]
    ball: wp.array(dtype=int)  # (D) first coordinate of a ball joint, or -1
    component: wp.array(dtype=int)  # (D) number of the dof in its ball joint
    period: float  # [s] time for which the force acts in a step


@wp.struct
class ServoRow:
    """The row of a servo on its dof."""

    velocity: float  # target velocity
    softness: float  # CFM
    bound: float  # largest impulse


@wp.func
def rotation_vector(q: wp.quat) -> wp.vec3:
    """Shortest rotation vector of a unit quaternion [rad]."""
    v = wp.vec3(q[0], q[1], q[2])
    w = q[3]
    if w < 0.0:
        v = -v
        w = -w
    s = wp.length(v)
    scale = 2.0 / wp.max(w, 0.5)
    if s > 1.0e-4:
        scale = 2.0 * wp.atan2(s, w) / s
    return scale * v


@wp.func
def position_error(
    d: int,
    coord: int,
    ball: int,
    component: int,
    target_q: wp.array(dtype=float),
    q: wp.array(dtype=float),
) -> float:
    """Target minus position of a dof; for ball joints, the rotation to the target, in the parent's axes."""
    error = float(0.0)
    if coord >= 0:
        error = target_q[coord] - q[coord]
    elif ball >= 0:
        turn = load_quat(target_q, ball) * wp.quat_inverse(load_quat(q, ball))
        error = rotation_vector(turn)[component]
    return error


@wp.func
def servo_row(
    d: int,
    servo: ServoView,
    tree: TreeView,
    q: wp.array(dtype=float),
    v_free: wp.array(dtype=float),
    dt: float,
) -> ServoRow:
    """Target velocity, softness and bound of the servo of dof d."""
    row = ServoRow()
    row.bound = 0.0
    mode = servo.mode[d]
    if mode == SERVO_OFF:
        return row
    kp = servo.kp[d]
    kd = servo.kd[d]
    error = position_error(d, tree.dof_coord[d], servo.ball[d], servo.component[d], servo.target_q, q)
    row.bound = servo.max_force[d] * servo.period
    if mode == SERVO_PD:
        rate = wp.max(kd + dt * kp, MIN_RATE)
        row.velocity = (kp * error + kd * servo.target_qd[d]) / rate
        row.softness = 1.0 / (dt * rate)
    else:
        row.velocity = kp * error / dt + (1.0 - kd) * v_free[d] + kd * servo.target_qd[d]
        row.softness = 0.0
    row.velocity = wp.clamp(row.velocity, -servo.max_speed[d], servo.max_speed[d])
    return row


@wp.kernel
def add_pd_forces(
    first: int,
    tree: TreeView,
    pd: ServoView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
):
    """One thread per dof: add kp e + kd (v_d - v), within the largest force, at the start of the step."""
    d = first + wp.tid()
    kp = pd.kp[d]
    kd = pd.kd[d]
    if kp == 0.0 and kd == 0.0:
        return
    error = position_error(d, tree.dof_coord[d], pd.ball[d], pd.component[d], pd.target_q, q)
    force = kp * error + kd * (pd.target_qd[d] - qd[d])
    joint_f[d] = joint_f[d] + wp.clamp(force, -pd.max_force[d], pd.max_force[d])
