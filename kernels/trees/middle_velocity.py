"""Velocity in the middle of a step, at which velocity-dependent forces are taken.

For most trees it is the mean of the old velocity and a predicted one. The rotation of a single body about its
centre of mass or a fixed point is stiffer: its gyroscopic torque grows with the square of the spin, and an
explicit prediction diverges if the body rotates by more than about half a radian in a step. The implicit
midpoint rule is used for these bodies; it conserves the energy of a free body at any spin (Hairer, Lubich,
Wanner, "Geometric Numerical Integration", 2006, sections IV.2 and VII.5). Newton's method solves it up to
some two radians in a step; beyond, the root of one scalar equation does, which there always is.

Stage: smooth dynamics, velocity-dependent forces
Called by: solvers/featherstone/step_adjoint.py, kernels/constraints/linear/middle_spin.py,
    kernels/trees/free_body.py, kernels/trees/tree_advance.py, kernels/trees/tree_smooth.py
Reads: BodyView, JointView, KinematicsView, TreeView, predicted, solution, start
Writes: middle
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_vec3, power_of_two, rotate_inertia
from newtonsim.kernels.trees.forward_kinematics import is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# what Newton's method may miss before its last step, as a share of the momentum
NEARLY = wp.constant(1.0e-4)
# bisections of a bracket, to the precision of float64
BISECTIONS = wp.constant(64)


@wp.func
def newton_step(mid: wp.vec3, start: wp.vec3, inertia: wp.mat33, impulse: wp.vec3, dt: float) -> wp.vec3:
    """One Newton step on 2 I (ω̄ - ω) + h ω̄ × I ω̄ = impulse."""
    momentum = inertia * mid
    residual = 2.0 * (inertia * (mid - start)) + dt * wp.cross(mid, momentum) - impulse
    slope = 2.0 * inertia + dt * (wp.skew(mid) * inertia - wp.skew(momentum))
    return mid - wp.inverse(slope) * residual


@wp.func
def principal_axes(inertia: wp.mat33d) -> wp.mat33d:
    """Rotation whose columns are the principal axes, that of the smallest moment first, the largest last."""
    Q, moments = wp.eig3(inertia)
    first = int(0)
    last = int(0)
    for k in range(1, 3):
        if moments[k] < moments[first]:
            first = k
        if moments[k] >= moments[last]:
            last = k
    if first == last:
        return wp.identity(n=3, dtype=wp.float64)
    x = wp.normalize(wp.vec3d(Q[0, first], Q[1, first], Q[2, first]))
    z = wp.vec3d(Q[0, last], Q[1, last], Q[2, last])
    z = wp.normalize(z - wp.dot(z, x) * x)
    return wp.matrix_from_cols(x, wp.cross(z, x), z)


@wp.func
def on_axis_of_least(s: wp.float64, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """ω̄ whose first component is s, from the last two of ω̄ = b + (-c₁ ω̄₂ ω̄₃, c₂ ω̄₃ ω̄₁, -c₃ ω̄₁ ω̄₂)."""
    share = wp.float64(1.0) / (wp.float64(1.0) + c[1] * c[2] * s * s)
    return wp.vec3d(s, (b[1] + c[1] * s * b[2]) * share, (b[2] - c[2] * s * b[1]) * share)


@wp.func(inline=False)
def bracketed_middle_spin(start: wp.vec3, inertia: wp.mat33, impulse: wp.vec3, dt: float) -> wp.vec3:
    """A solution of 2 I (ω̄ - ω) + h ω̄ × I ω̄ = impulse, found where Newton's method does not find one.

    There always is one. Along the principal axes, the second and third equations are linear in the second and
    third component of ω̄, with a positive determinant if the first axis is that of the smallest moment. What
    remains is one equation for the first component, whose sign changes between the bounds that the energy
    sets: ω̄·I ω̄ ≤ b·I b with b = ω + I⁻¹ impulse / 2, since the gyroscopic torque does no work.
    """
    wide = wp.mat33d(inertia)
    axes = principal_axes(wide)
    moments = wp.get_diag(wp.transpose(axes) * wide * axes)
    # a body without a moment about one of its axes is taken for one with a very small one
    least = wp.float64(1.0e-7) * (moments[0] + moments[1] + moments[2])
    b = wp.transpose(axes) * wp.vec3d(start)
    push = wp.transpose(axes) * wp.vec3d(impulse)
    c = wp.vec3d(moments[2] - moments[1], moments[2] - moments[0], moments[1] - moments[0])
    energy = wp.float64(0.0)
    for k in range(3):
        moments[k] = wp.max(moments[k], least)
        half = wp.float64(0.5) / moments[k]
        b[k] += half * push[k]
        c[k] = wp.float64(dt) * half * wp.max(c[k], wp.float64(0.0))
        energy += moments[k] * b[k] * b[k]
    x = on_axis_of_least(b[0], b, c)
    begin = b[0]
    end = wp.sqrt(energy / moments[0])
    if x[1] * x[2] > wp.float64(0.0):
        end = -end
    for _ in range(BISECTIONS):
        s = wp.float64(0.5) * (begin + end)
        x = on_axis_of_least(s, b, c)
        excess = s - b[0] + c[0] * x[1] * x[2]
        if (excess > wp.float64(0.0)) == (end > begin):
            end = s
        else:
            begin = s
    return wp.vec3(axes * on_axis_of_least(wp.float64(0.5) * (begin + end), b, c))


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
    missing = wp.length(2.0 * (inertia * (mid - start)) + dt * wp.cross(mid, inertia * mid) - impulse)
    if missing <= NEARLY * (wp.length(inertia * start) + wp.length(impulse)):
        return newton_step(mid, start, inertia, impulse, dt)
    return bracketed_middle_spin(start, inertia, impulse, dt)


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
def spin_axes(j: int, joint: JointView) -> wp.quat:
    """Rotation to the world from the axes of a spin: those of a ball joint are its parent anchor's."""
    if joint.type[j] == JOINT_BALL:
        return wp.transform_get_rotation(joint.X_p[j])
    return wp.quat_identity()


@wp.func
def write_middle(
    spin: wp.vec3,
    j: int,
    joint: JointView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    middle: wp.array(dtype=float),
):
    """Write the joint's spin in the middle of the step, and the mean of its other velocities."""
    d = joint.qd_start[j]
    for k in range(3):
        middle[d + k] = spin[k]
    for k in range(d + 3, joint.qd_start[j + 1]):
        middle[k] = 0.5 * (start[k] + predicted[k])


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
    axes = spin_axes(j, joint)
    old = wp.quat_rotate(axes, load_vec3(start, d))
    new = wp.quat_rotate(axes, load_vec3(predicted, d))
    spin = wp.quat_rotate_inv(axes, middle_spin(old, new, pivot_inertia(j, joint, body, kin), dt))
    write_middle(spin, j, joint, start, predicted, middle)


@wp.func
def write_refined_spin(
    t: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    solution: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """`write_middle_spin` by one Newton step from the solution."""
    j = tree.joint[tree.joint_start[t]]
    d = joint.qd_start[j]
    axes = spin_axes(j, joint)
    old = wp.quat_rotate(axes, load_vec3(start, d))
    new = wp.quat_rotate(axes, load_vec3(predicted, d))
    mid = wp.quat_rotate(axes, load_vec3(solution, d))
    inertia = pivot_inertia(j, joint, body, kin)
    inertia = inertia / power_of_two(wp.trace(inertia))
    impulse = inertia * (new - old) + dt * wp.cross(old, inertia * old)
    spin = wp.quat_rotate_inv(axes, newton_step(mid, old, inertia, impulse, dt))
    write_middle(spin, j, joint, start, predicted, middle)


@wp.kernel
def refine_middle_velocity(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    start: wp.array(dtype=float),
    predicted: wp.array(dtype=float),
    solution: wp.array(dtype=float),
    dt: float,
    middle: wp.array(dtype=float),
):
    """One thread per tree: joint velocities in the middle of the step, of which the solution is known.

    A Newton step from a solution has the derivatives of the solution, whatever it has been found by.
    """
    t = first + wp.tid()
    if is_single_rotating(t, tree, joint):
        write_refined_spin(t, tree, joint, body, kin, start, predicted, solution, dt, middle)
    else:
        for i in range(tree.dof_start[t], tree.dof_start[t + 1]):
            k = tree.dof[i]
            middle[k] = 0.5 * (start[k] + predicted[k])
