"""Inverse dynamics by the recursive Newton-Euler algorithm.

Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 5.3, in world axes about the tree's origin.
The kernel serves three purposes: bias forces (zero acceleration), inverse dynamics, and the residual
M(q) a + c(q, v) = 0 whose derivative gives the gradient of the implicit step.
Functions are inlined to speed up that derivative, see `forward_kinematics`.

Stage: smooth dynamics, bias forces
Called by: newtonsim/runtime/launcher.py, solvers/featherstone/, kernels/trees/
Reads: BodyView, JointView, KinematicsView, TreeView, body_f, gravity, qd, qdd, source
Writes: body_A, body_F, dof_A, target, tau
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import cross_motion, load_vec3
from newtonsim.kernels.trees.forward_kinematics import anchor_frame, floating_axes, is_floating
from newtonsim.kernels.views.model import JOINT_BALL, BodyView, JointView, KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func(inline=True)
def body_wrench(
    mass: float,
    com: wp.vec3,
    inertia: wp.mat33,
    velocity: wp.spatial_vector,
    acceleration: wp.spatial_vector,
    external: wp.spatial_vector,
) -> wp.spatial_vector:
    """Wrench about the origin that moves one body, minus the external one (given at the COM).

    I a + v ×* I v (RBDA eq. 2.71) with the inertia split into mass, COM position [m] and the rotational
    inertia [kg m²] about the COM, all in world axes.
    """
    w = wp.spatial_top(velocity)
    v = wp.spatial_bottom(velocity)
    alpha = wp.spatial_top(acceleration)
    momentum = mass * (v + wp.cross(w, com))
    angular_momentum = inertia * w + wp.cross(com, momentum)
    push = mass * (wp.spatial_bottom(acceleration) + wp.cross(alpha, com))
    f_ext = wp.spatial_bottom(external)
    force = push + wp.cross(w, momentum) - f_ext
    torque = (
        inertia * alpha
        + wp.cross(com, push)
        + wp.cross(w, angular_momentum)
        + wp.cross(v, momentum)
        - wp.spatial_top(external)
        - wp.cross(com, f_ext)
    )
    return wp.spatial_vector(torque, force)


@wp.func(inline=True)
def floating_bias(
    j: int, origin: wp.vec3, joint: JointView, qd: wp.array(dtype=float), kin: KinematicsView
) -> wp.spatial_vector:
    """Velocity-product term of a floating joint: its angular axes follow the centre of mass."""
    anchor = anchor_frame(j, origin, joint, kin)
    axes = floating_axes(j, anchor, joint)
    w = wp.quat_rotate(axes, load_vec3(qd, joint.qd_start[j]))
    v = wp.quat_rotate(axes, load_vec3(qd, joint.qd_start[j] + 3))
    return wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), wp.cross(v, w))


@wp.func(inline=True)
def accelerate_joint(
    j: int,
    origin: wp.vec3,
    gravity: wp.vec3,
    joint: JointView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    kin: KinematicsView,
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
):
    """Spatial acceleration of the child of joint j; gravity enters as upward acceleration of the base."""
    parent = joint.parent[j]
    first = joint.qd_start[j]
    end = joint.qd_start[j + 1]
    joint_type = joint.type[j]
    base_A = wp.spatial_vector(wp.vec3(0.0, 0.0, 0.0), -gravity)
    base_V = wp.spatial_vector()
    if parent >= 0:
        base_A = body_A[parent]
        base_V = kin.body_V[parent]
    if is_floating(joint_type):
        base_A += floating_bias(j, origin, joint, qd, kin)
    # the axes of ball and floating joints are all fixed in the parent, those of other joints in one another
    parallel = joint_type == JOINT_BALL or is_floating(joint_type)
    for d in range(first, end):
        before_A = base_A
        before_V = base_V
        if d > first:
            before_A = dof_A[d - 1]
            if not parallel:
                before_V = kin.dof_V[d - 1]
        s = kin.S[d]
        dof_A[d] = before_A + s * qdd[d] + cross_motion(before_V, s * qd[d])
    if end > first:
        body_A[joint.child[j]] = dof_A[end - 1]
    else:
        body_A[joint.child[j]] = base_A


@wp.kernel(enable_backward=False)
def copy_wrenches(
    first: int, source: wp.array(dtype=wp.spatial_vector), target: wp.array(dtype=wp.spatial_vector)
):
    """One thread per body: target = source."""
    b = first + wp.tid()
    target[b] = source[b]


@wp.func(inline=True)
def tree_inverse_dynamics(
    t: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    gravity: wp.array(dtype=wp.vec3),
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    body_F: wp.array(dtype=wp.spatial_vector),
    tau: wp.array(dtype=float),
):
    """Tau = M(q) qdd + c(q, qd) - Jᵀ body_f of tree t."""
    start = tree.joint_start[t]
    end = tree.joint_start[t + 1]
    for i in range(start, end):
        j = tree.joint[i]
        b = joint.child[j]
        accelerate_joint(j, kin.origin[t], gravity[tree.world[t]], joint, qd, qdd, kin, dof_A, body_A)
        wrench = body_wrench(
            body.mass[b], kin.body_com[b], kin.body_I[b], kin.body_V[b], body_A[b], body_f[b]
        )
        body_F[b] = wrench
    for i in range(start, end):
        j = tree.joint[start + end - 1 - i]
        wrench = body_F[joint.child[j]]
        for d in range(joint.qd_start[j], joint.qd_start[j + 1]):
            tau[d] = wp.dot(kin.S[d], wrench)
        if joint.parent[j] >= 0:
            wp.atomic_add(body_F, joint.parent[j], wrench)


@wp.kernel
def accelerate_bodies(
    first: int,
    tree: TreeView,
    joint: JointView,
    gravity: wp.array(dtype=wp.vec3),
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
):
    """One thread per tree: spatial accelerations of its bodies, as in `inverse_dynamics`."""
    t = first + wp.tid()
    down = gravity[tree.world[t]]
    for i in range(tree.joint_start[t], tree.joint_start[t + 1]):
        accelerate_joint(tree.joint[i], kin.origin[t], down, joint, qd, qdd, kin, dof_A, body_A)


@wp.kernel
def inverse_dynamics(
    first: int,
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    gravity: wp.array(dtype=wp.vec3),
    kin: KinematicsView,
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    body_f: wp.array(dtype=wp.spatial_vector),
    dof_A: wp.array(dtype=wp.spatial_vector),
    body_A: wp.array(dtype=wp.spatial_vector),
    body_F: wp.array(dtype=wp.spatial_vector),
    tau: wp.array(dtype=float),
):
    """One thread per tree: tau = M(q) qdd + c(q, qd) - Jᵀ body_f."""
    t = first + wp.tid()
    tree_inverse_dynamics(t, tree, joint, body, gravity, kin, qd, qdd, body_f, dof_A, body_A, body_F, tau)
