"""Velocity in the middle of a step, at which velocity-dependent forces are taken.

For most trees it is the mean of the old velocity and a predicted one. The rotation of a single body about its
centre of mass or a fixed point is stiffer: its gyroscopic torque grows with the square of the spin, and an
explicit prediction diverges if the body rotates by more than about half a radian in a step. The implicit
midpoint rule is used for these bodies; it conserves the energy of a free body at any spin (Hairer, Lubich,
Wanner, "Geometric Numerical Integration", 2006, sections IV.2 and VII.5).

Stage: smooth dynamics, velocity-dependent forces
Called by: solvers/featherstone/step_adjoint.py, kernels/constraints/linear/middle_spin.py,
    kernels/trees/free_body.py, kernels/trees/tree_advance.py, kernels/trees/tree_smooth.py
Reads: BodyView, JointView, KinematicsView, TreeView, predicted, start
Writes: middle
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_vec3, power_of_two, rotate_inertia
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def newton_step(mid: wp.vec3, start: wp.vec3, inertia: wp.mat33, impulse: wp.vec3, dt: float) -> wp.vec3:
    """One Newton step on 2 I (ω̄ - ω) + h ω̄ × I ω̄ = impulse."""
    momentum = inertia * mid
    residual = 2.0 * (inertia * (mid - start)) + dt * wp.cross(mid, momentum) - impulse
    slope = 2.0 * inertia + dt * (wp.skew(mid) * inertia - wp.skew(momentum))
    return mid - wp.inverse(slope) * residual


@wp.func
def middle_spin(start: wp.vec3, predicted: wp.vec3, inertia: wp.mat33, dt: float) -> wp.vec3:
    """Angular velocity of the implicit midpoint rule [rad/s].

    The prediction contains the impulse of all torques, with the gyroscopic one evaluated at the start. Its
    determinants would leave single precision for very small and large bodies: the equation is scaled.
    """
    inertia = inertia / power_of_two(wp.trace(inertia))
    impulse = inertia * (predicted - start) + dt * wp.cross(start, inertia * start)
    mid = newton_step(start, start, inertia, impulse, dt)
    mid = newton_step(mid, start, inertia, impulse, dt)
    mid = newton_step(mid, start, inertia, impulse, dt)
    mid = newton_step(mid, start, inertia, impulse, dt)
    return newton_step(mid, start, inertia, impulse, dt)


@wp.func
def pivot_inertia(j: int, joint: JointView, body: BodyView, kin: KinematicsView) -> wp.mat33:
    """Inertia of the child of joint j about its centre of mass, or about the anchor of a ball joint."""
    b = joint.child[j]
    pose = kin.body_X[b]
    inertia = rotate_inertia(wp.transform_get_rotation(pose), body.inertia[b])
    if joint.type[j] == JOINT_BALL:
        # relative to the tree's origin, which is the anchor of its root joint
        arm = wp.transform_point(pose, body.com[b])
        inertia += body.mass[b] * (wp.dot(arm, arm) * wp.identity(n=3, dtype=float) - wp.outer(arm, arm))
    return inertia


@wp.func
def is_single_rotating(t: int, tree: TreeView, joint: JointView) -> bool:
    """True if the tree is a single body that rotates freely or about a fixed point."""
    first = tree.joint_start[t]
    kind = joint.type[tree.joint[first]]
    return tree.joint_start[t + 1] - first == 1 and (is_floating(kind) or kind == JOINT_BALL)


@wp.func
def write_middle_spin(
    t: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """Joint velocities of a single rotating body in the middle of the step."""
    j = tree.joint[tree.joint_start[t]]
    d = joint.qd_start[j]
    axes = wp.quat_identity()
    if joint.type[j] == JOINT_BALL:
        axes = wp.transform_get_rotation(joint.X_p[j])
    old = wp.quat_rotate(axes, load_vec3(start, d))
    new = wp.quat_rotate(axes, load_vec3(predicted, d))
    spin = wp.quat_rotate_inv(axes, middle_spin(old, new, pivot_inertia(j, joint, body, kin), dt))
    for k in range(3):
        middle[d + k] = spin[k]
    for k in range(d + 3, joint.qd_start[j + 1]):
        middle[k] = 0.5 * (start[k] + predicted[k])


@wp.func
def write_middle_velocity(
    t: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """Joint velocities of one tree in the middle of the step."""
    if is_single_rotating(t, tree, joint):
        write_middle_spin(t, tree, joint, body, kin, start, predicted, dt, middle)
    else:
        for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
            k = tree.dof[i]
            middle[k] = 0.5 * (start[k] + predicted[k])


@wp.kernel
def find_middle_velocity(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """One thread per tree: joint velocities in the middle of the step."""
    t = first + wp.tid()
    write_middle_velocity(t, tree, joint, body, kin, start, predicted, dt, middle)
