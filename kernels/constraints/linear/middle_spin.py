"""Changes of the velocity in the middle of a step, at which velocity-dependent forces are taken.

They are half of those of the predicted velocity, except for the spin ω̄ of a single body that rotates freely
or about a fixed point, which solves the implicit midpoint rule of `trees.middle_velocity`,

    2 I (ω̄ - ω) + h ω̄ × I ω̄ = I (ω' - ω) + h ω × I ω,

where ω is the initial and ω' the predicted spin. The inertia I rotates with the body: under a rotation δθ, I
x changes by P(x) δθ with P(x) = I [x]ₓ - [I x]ₓ.

Stage: linear models of steps, smooth dynamics
Called by: solvers/featherstone/linear_model.py
Reads: BodyView, ColumnsView, JointView, KinematicsView, TreeView, middle, predicted, start
Writes: columns
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.sparse_blas import lane_scal
from newtonsim.kernels.algebra.spatial import load_vec3, power_of_two
from newtonsim.kernels.constraints.linear.balance import ColumnsView
from newtonsim.kernels.trees.middle_velocity import is_single_rotating, pivot_inertia, spin_axes
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def by_turning(inertia: wp.mat33, x: wp.vec3) -> wp.mat33:
    """P(x): derivative of I x by the rotation of the body."""
    return inertia * wp.skew(x) - wp.skew(inertia * x)


@wp.func
def gyroscopic_slope(inertia: wp.mat33, w: wp.vec3) -> wp.mat33:
    """Derivative of ω × I ω by ω."""
    return wp.skew(w) * inertia - wp.skew(inertia * w)


@wp.func
def load_column(d: int, c: int, view: ColumnsView, columns: wp.array(dtype=float)) -> wp.vec3:
    """Column c of the rows of three dofs, the first of which is d."""
    at = d * view.width + c
    return wp.vec3(columns[at], columns[at + view.width], columns[at + 2 * view.width])


@wp.func
def turn_columns(
    view: ColumnsView,
    d: int,
    axes: wp.quat,
    inertia: wp.mat33,
    old: wp.vec3,
    new: wp.vec3,
    mid: wp.vec3,
    dt: float,
    columns: wp.array(dtype=float),
):
    """Replace the change of ω' - ω by δω̄ - δω; d is the first dof of the spin, in these axes."""
    inertia = inertia / power_of_two(wp.trace(inertia))
    slope = wp.inverse(2.0 * inertia + dt * gyroscopic_slope(inertia, mid))
    by_spin = slope * (2.0 * inertia + dt * gyroscopic_slope(inertia, old)) - wp.identity(n=3, dtype=float)
    by_predicted = slope * inertia
    turned = 2.0 * by_turning(inertia, mid - old) - by_turning(inertia, new - old)
    turned += dt * (wp.skew(mid) * by_turning(inertia, mid) - wp.skew(old) * by_turning(inertia, old))
    by_turn = -slope * turned
    n = view.dofs
    for c in range(view.width):
        change = by_predicted * wp.quat_rotate(axes, load_column(d, c, view, columns))
        for k in range(3):
            e = wp.vec3()
            e[k] = 1.0
            if c == d % n + k:
                change += by_turn * wp.quat_rotate(axes, e)
            if c == n + d % n + k:
                change += by_spin * wp.quat_rotate(axes, e)
        change = wp.quat_rotate_inv(axes, change)
        for k in range(3):
            columns[(d + k) * view.width + c] = change[k]


@wp.kernel
def move_to_middle(
    first: int,
    view: ColumnsView,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    middle: wp.array(dtype=float),
    dt: float,
    columns: wp.array(dtype=float),
):
    """One thread per tree: from changes w' = δv' - δv of the predicted velocity to δv̄ - δv.

    Args:
        first: First tree.
        view: Sizes.
        tree: Topology.
        joint: Joints.
        body: Inertial parameters.
        kin: Poses at the start of the step.
        start: Velocities before.
        predicted: Predicted ones.
        middle: Those in the middle.
        dt: Time step [s].
        columns: w', and the result.
    """
    t = first + wp.tid()
    begin = tree.dof_start[t]
    spinning = int(0)
    if is_single_rotating(t, tree, joint):
        spinning = 3
        j = tree.joint[tree.joint_start[t]]
        d = joint.qd_start[j]
        axes = spin_axes(j, joint)
        old = wp.quat_rotate(axes, load_vec3(start, d))
        new = wp.quat_rotate(axes, load_vec3(predicted, d))
        mid = wp.quat_rotate(axes, load_vec3(middle, d))
        turn_columns(view, d, axes, pivot_inertia(j, joint, body, kin), old, new, mid, dt, columns)
    for i in range(begin + spinning, tree.dof_start[t + 1]):
        lane_scal(0, 1, view.width, 0.5, columns, tree.dof[i] * view.width)
