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


@wp.func_native(
    """
    const float* change = columns.data + (size_t)d * (2 * n + inputs);
    double* to_A = A.data + ((size_t)w * 2 * n + row) * 2 * n;
    double* to_B = B.data + ((size_t)w * 2 * n + row) * inputs;
    for (int c = 0; c < 2 * n; ++c) to_A[c] = factor * (change[c] + (c == start ? 1.0f : 0.0f));
    for (int c = 0; c < inputs; ++c) to_B[c] = factor * change[2 * n + c];
    """
)
def write_changes(
    d: int,
    start: int,
    factor: float,
    n: int,
    inputs: int,
    columns: wp.array(dtype=float),
    w: int,
    row: int,
    A: wp.array3d(dtype=wp.float64),
    B: wp.array3d(dtype=wp.float64),
):
    """Row of the model: a factor times the derivatives of the velocity of dof d, column `start` before."""
    ...


@wp.func_native(
    """
    const int width = 2 * n + inputs;
    const float* change = columns.data + (size_t)d * width;
    double* to_A = A.data + ((size_t)w * 2 * n + row) * 2 * n;
    double* to_B = B.data + ((size_t)w * 2 * n + row) * inputs;
    auto entry = [&](int c) {
        float total = 0.0f;
        for (int k = 0; k < 3; ++k)
            total += factors[k] * (change[k * width + c] + (c == start + k ? 1.0f : 0.0f));
        return total;
    };
    for (int c = 0; c < 2 * n; ++c) to_A[c] = entry(c);
    for (int c = 0; c < inputs; ++c) to_B[c] = entry(2 * n + c);
    """
)
def write_turns(
    d: int,
    start: int,
    factors: wp.vec3,
    n: int,
    inputs: int,
    columns: wp.array(dtype=float),
    w: int,
    row: int,
    A: wp.array3d(dtype=wp.float64),
    B: wp.array3d(dtype=wp.float64),
):
    """Likewise, a sum over three dofs from d on, which start from `start` on."""
    ...


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
        write_changes(d, n + row, 1.0, n, view.inputs, columns, w, n + row, A, B)
        if i < turning:
            at = n + begin - w * n
            write_turns(begin, at, dt * jacobian[i], n, view.inputs, columns, w, row, A, B)
        else:
            write_changes(d, n + row, dt, n, view.inputs, columns, w, row, A, B)
        for k in range(begin, joint.qd_start[j + 1]):
            start = float(k == d)
            if i < turning and k - begin < turning:
                start = turned[i, k - begin]
            A[w, row, k - w * n] = A[w, row, k - w * n] + wp.float64(start)
