"""Joint efforts that give a point of a body a wanted acceleration, and a posture what freedom is left.

With the Jacobian J of the task, the operational-space inertia Λ = (J M⁻¹ Jᵀ)⁻¹ and the accelerations q̈₀ that
pull towards the posture, τ = M q̈₀ + c + Jᵀ Λ (a - J̇ q̇ - J q̈₀) accelerates the task by a. This is
JᵀΛ(a - J̇ q̇) + Nᵀ τ₀ + c with τ₀ = M q̈₀ and the dynamically consistent projector Nᵀ = 1 - Jᵀ Λ J M⁻¹. The
inverse dynamics that find M q̈₀ + c also find J q̈₀ + J̇ q̇, the acceleration of the body. J has six rows for
the pose of a frame, or three for the position of its origin.

Source: Khatib, "A unified approach for motion and force control of robot manipulators: the operational space
formulation", 1987; Hogan, "Impedance control: an approach to manipulation", 1985, for wrenches without Λ.

Stage: first of a step, efforts of operational-space control
Called by: newtonsim/actuators/operational_space.py
Reads: ArmView, KinematicsView, PostureView, TaskView, TreeView, dof_world, joint_q, joint_qd
Writes: joint_f, posture_qdd
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.jacobians import factorize_block, point_column, solve_block
from newtonsim.kernels.trees.joint_forces import least_effort
from newtonsim.kernels.views.model import KinematicsView, TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class PostureView:
    """Pull of joints towards a posture; entries of joints that carry no task are not read."""

    coord: wp.array(dtype=int)  # (dofs) coordinate of a degree of freedom, -1 for one that carries no task
    q: wp.array(dtype=float)  # (dofs) the posture
    stiffness: wp.array(dtype=float)  # (worlds) [1/s²]
    damping: wp.array(dtype=float)  # (worlds) [1/s]


@wp.struct
class TaskView:
    """A task of each world."""

    body: wp.array(dtype=int)  # (worlds)
    first_dof: wp.array(dtype=int)  # (worlds) of the body's articulation
    dofs: int  # how many it has
    point: wp.vec3  # in the frame of the body
    decoupled: int  # 1 if errors demand accelerations, 0 if they demand wrenches
    turns: int  # 1 if the task is a pose, 0 if it is a position, for which angular gains are 0
    target: wp.array(dtype=wp.transform)  # (worlds)
    target_qd: wp.array(dtype=wp.spatial_vector)  # (worlds) rates of the target, world axes
    target_qdd: wp.array(dtype=wp.spatial_vector)  # (worlds)
    stiffness: wp.array(dtype=wp.spatial_vector)  # (worlds) along the target's axes, rotation first
    damping: wp.array(dtype=wp.spatial_vector)  # (worlds)


@wp.struct
class ArmView:
    """What the dynamics of the arms have found, and properties of their joints."""

    com: wp.array(dtype=wp.vec3)
    body_q: wp.array(dtype=wp.transform)
    body_qd: wp.array(dtype=wp.spatial_vector)
    qd: wp.array(dtype=float)
    gravity: wp.array(dtype=wp.vec3)  # (worlds)
    tau: wp.array(dtype=float)  # M q̈₀ + c
    body_A: wp.array(dtype=wp.spatial_vector)  # accelerations about the tree's origin, less gravity
    mobility: wp.array3d(dtype=float)  # (worlds, 6, 6) Λ⁻¹ at centres of mass
    joint_damping: wp.array(dtype=float)
    effort_limit: wp.array(dtype=float)
    effort_lower: wp.array(dtype=float)


@wp.func
def rotation_between(start: wp.quat, end: wp.quat) -> wp.vec3:
    """Rotation vector [rad] in world axes that turns one orientation into the other, at most π long."""
    q = end * wp.quat_inverse(start)
    v = wp.vec3(q[0], q[1], q[2])
    if q[3] < 0.0:
        v = -v
    sine = wp.length(v)
    # 2 asin(s)/s is 2 up to rounding
    if sine < 1.0e-4:
        return 2.0 * v
    return 2.0 * wp.atan2(sine, wp.abs(q[3])) / sine * v


@wp.func
def scale_along(axes: wp.quat, gains: wp.spatial_vector, x: wp.spatial_vector) -> wp.spatial_vector:
    """R diag(gains) Rᵀ x for both halves of a vector in world axes."""
    top = wp.quat_rotate_inv(axes, wp.spatial_top(x))
    bottom = wp.quat_rotate_inv(axes, wp.spatial_bottom(x))
    top = wp.cw_mul(wp.spatial_top(gains), top)
    bottom = wp.cw_mul(wp.spatial_bottom(gains), bottom)
    return wp.spatial_vector(wp.quat_rotate(axes, top), wp.quat_rotate(axes, bottom))


@wp.func
def task_error(w: int, task: TaskView, arm: ArmView, lever: wp.vec3) -> wp.spatial_vector:
    """Stiffness times error plus damping times error of velocity, at the point, in world axes."""
    pose = arm.body_q[task.body[w]]
    spin = wp.spatial_top(arm.body_qd[task.body[w]])
    velocity = wp.spatial_bottom(arm.body_qd[task.body[w]]) + wp.cross(spin, lever)
    target = task.target[w]
    axes = wp.transform_get_rotation(target)
    turn = rotation_between(wp.transform_get_rotation(pose), axes)
    way = wp.transform_get_translation(target) - wp.transform_point(pose, task.point)
    pull = scale_along(axes, task.stiffness[w], wp.spatial_vector(turn, way))
    slip = task.target_qd[w] - wp.spatial_vector(spin, velocity)
    return pull + scale_along(axes, task.damping[w], slip)


@wp.kernel
def pull_to_posture(
    first: int,
    posture: PostureView,
    dof_world: wp.array(dtype=int),
    joint_q: wp.array(dtype=float),
    joint_qd: wp.array(dtype=float),
    posture_qdd: wp.array(dtype=float),
):
    """One thread per dof: acceleration towards the posture; 0 where a joint carries no task."""
    d = first + wp.tid()
    pull = float(0.0)
    if posture.coord[d] >= 0:
        w = wp.max(dof_world[d], 0)
        pull = posture.stiffness[w] * (posture.q[d] - joint_q[posture.coord[d]])
        pull -= posture.damping[w] * joint_qd[d]
    posture_qdd[d] = pull


@wp.func
def com_acceleration(
    w: int, b: int, arm: ArmView, com: wp.vec3, spin: wp.vec3, velocity: wp.vec3
) -> wp.spatial_vector:
    """Acceleration J q̈₀ + J̇ q̇ of body b and of its centre of mass, from that about the tree's origin."""
    A = arm.body_A[b]
    turning = wp.spatial_top(A)
    moving = wp.spatial_bottom(A) + arm.gravity[w] + wp.cross(turning, com) + wp.cross(spin, velocity)
    return wp.spatial_vector(turning, moving)


@wp.func
def pose_wrench(
    w: int,
    mobility: wp.array3d(dtype=float),
    lever: wp.vec3,
    lack: wp.spatial_vector,
    push: wp.spatial_vector,
) -> wp.spatial_vector:
    """Wrench at the centre of mass that gives the point an acceleration it lacks, and pushes it."""
    force = wp.spatial_bottom(push)
    angular = wp.spatial_top(lack)
    at_com = wp.spatial_vector(angular, wp.spatial_bottom(lack) - wp.cross(angular, lever))
    wrench = wp.spatial_vector(wp.spatial_top(push) + wp.cross(lever, force), force)
    return wrench + solve_block(factorize_block(mobility, w), at_com)


@wp.func
def point_mobility(w: int, mobility: wp.array3d(dtype=float), lever: wp.vec3) -> wp.mat33:
    """P Λ⁻¹ Pᵀ: accelerations of the point by forces at it, with P = (-lever x, 1) for its linear motion."""
    angular = wp.mat33()
    mixed = wp.mat33()
    linear = wp.mat33()
    for row in range(3):
        for column in range(3):
            angular[row, column] = mobility[w, row, column]
            mixed[row, column] = mobility[w, row, 3 + column]
            linear[row, column] = mobility[w, 3 + row, 3 + column]
    across = -wp.skew(lever)
    half = across * mixed
    return linear + half + wp.transpose(half) + across * angular * wp.transpose(across)


@wp.func
def point_wrench(
    w: int,
    mobility: wp.array3d(dtype=float),
    lever: wp.vec3,
    lack: wp.spatial_vector,
    push: wp.spatial_vector,
) -> wp.spatial_vector:
    """The same for the linear acceleration alone, by a force at the point."""
    force = wp.spatial_bottom(push)
    force += wp.inverse(point_mobility(w, mobility, lever)) * wp.spatial_bottom(lack)
    return wp.spatial_vector(wp.cross(lever, force), force)


@wp.kernel
def write_efforts(
    first: int,
    task: TaskView,
    arm: ArmView,
    tree: TreeView,
    kin: KinematicsView,
    joint_f: wp.array(dtype=float),
):
    """One thread per world: efforts of the joints that carry the task, within their limits."""
    w = first + wp.tid()
    b = task.body[w]
    lever = wp.quat_rotate(wp.transform_get_rotation(arm.body_q[b]), task.point - arm.com[b])
    spin = wp.spatial_top(arm.body_qd[b])
    wanted = task.target_qdd[w]
    push = task_error(w, task, arm, lever)
    if task.decoupled == 1:
        wanted = wanted + push
        push = wp.spatial_vector()
    com = kin.body_com[b]
    found = com_acceleration(w, b, arm, com, spin, wp.spatial_bottom(arm.body_qd[b]))
    turning = wp.spatial_top(found)
    moving = wp.spatial_bottom(found) + wp.cross(turning, lever) + wp.cross(spin, wp.cross(spin, lever))
    lack = wanted - wp.spatial_vector(turning, moving)
    wrench = wp.spatial_vector()
    if task.turns == 1:
        wrench = pose_wrench(w, arm.mobility, lever, lack, push)
    else:
        wrench = point_wrench(w, arm.mobility, lever, lack, push)
    for d in range(task.first_dof[w], task.first_dof[w] + task.dofs):
        joint_f[d] = arm.tau[d] + arm.joint_damping[d] * arm.qd[d]
    leaf = tree.body_leaf[b]
    for k in range(tree.dof_row[leaf], tree.dof_row[leaf] + tree.dof_depth[leaf] + 1):
        d = tree.row_dof[k]
        joint_f[d] = joint_f[d] + wp.dot(point_column(kin.S[d], com), wrench)
    for d in range(task.first_dof[w], task.first_dof[w] + task.dofs):
        a = tree.dof_axis[d]
        most = arm.effort_limit[a]
        joint_f[d] = wp.clamp(joint_f[d], least_effort(arm.effort_lower[a], most), most)
