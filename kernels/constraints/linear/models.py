"""Linear models of a step from the derivatives of its velocities; coordinates follow from q⁺ = q ⊕ h v⁺.

Rotations are composed on the left, exp(h ω + δ) = exp(J δ) exp(h ω) with the left Jacobian J of the rotation
group (Chirikjian, "Stochastic Models, Information Theory, and Lie Groups", vol. 2, 2012, section 10.8).

Stage: linear models of steps, last
Called by: solvers/featherstone/linear_model.py
Reads: ColumnsView, JointView, columns, qd
Writes: A, B
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_vec3, quat_exp
from newtonsim.kernels.constraints.linear.balance import ColumnsView
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import JOINT_BALL, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# angle [rad] below which the left Jacobian is computed by its series
SMALL_ANGLE = wp.constant(1.0e-3)


@wp.func
def left_jacobian(turn: wp.vec3) -> wp.mat33:
    """J with exp(turn + δ) = exp(J δ) exp(turn), to first order in δ."""
    angle = wp.length(turn)
    sway = 0.5 - angle * angle / 24.0
    rest = 1.0 / 6.0 - angle * angle / 120.0
    if angle > SMALL_ANGLE:
        half = wp.sin(0.5 * angle)
        sway = 2.0 * half * half / (angle * angle)
        rest = (1.0 - wp.sin(angle) / angle) / (angle * angle)
    cross = wp.skew(turn)
    return wp.identity(n=3, dtype=float) + sway * cross + rest * (cross * cross)


@wp.func
def write_entry(
    view: ColumnsView,
    w: int,
    row: int,
    c: int,
    value: float,
    A: wp.array3d(dtype=wp.float64),
    B: wp.array3d(dtype=wp.float64),
):
    """Entry of a row of the model in column c of all columns."""
    if c < 2 * view.dofs:
        A[w, row, c] = wp.float64(value)
    else:
        B[w, row, c - 2 * view.dofs] = wp.float64(value)


@wp.func
def velocity_change(view: ColumnsView, d: int, c: int, columns: wp.array(dtype=float)) -> float:
    """Derivative of the velocity of dof d at the end by column c."""
    n = view.dofs
    change = columns[d * view.width + c]
    if c == n + d % n:
        change += 1.0
    return change


@wp.kernel
def write_models(
    first: int,
    view: ColumnsView,
    joint: JointView,
    qd: wp.array(dtype=float),
    dt: float,
    columns: wp.array(dtype=float),
    A: wp.array3d(dtype=wp.float64),
    B: wp.array3d(dtype=wp.float64),
):
    """One thread per joint: rows of its coordinates and velocities; `qd` are the velocities at the end."""
    j = first + wp.tid()
    n = view.dofs
    begin = joint.qd_start[j]
    turning = int(0)
    jacobian = wp.mat33()
    turned = wp.mat33()
    if joint.type[j] == JOINT_BALL or is_floating(joint.type[j]):
        turning = 3
        turn = dt * load_vec3(qd, begin)
        jacobian = left_jacobian(turn)
        turned = wp.quat_to_matrix(quat_exp(turn))
    for d in range(begin, joint.qd_start[j + 1]):
        w = d / n
        row = d - w * n
        i = d - begin
        for c in range(view.width):
            change = velocity_change(view, d, c, columns)
            write_entry(view, w, n + row, c, change, A, B)
            moved = dt * change
            if i < turning:
                spin = wp.vec3(
                    velocity_change(view, begin, c, columns),
                    velocity_change(view, begin + 1, c, columns),
                    velocity_change(view, begin + 2, c, columns),
                )
                moved = dt * wp.dot(jacobian[i], spin)
            write_entry(view, w, row, c, moved, A, B)
        for k in range(begin, joint.qd_start[j + 1]):
            start = float(k == d)
            if i < turning and k - begin < turning:
                start = turned[i, k - begin]
            A[w, row, k - w * n] = A[w, row, k - w * n] + wp.float64(start)
