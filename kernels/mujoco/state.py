"""Conversion of state and inputs of a model to MuJoCo's arrays, and back.

MuJoCo's quaternions are wxyz. A free joint there has the pose of the body frame, the velocity of that frame's
origin in world axes and the angular velocity in body axes; a ball joint rotates the body frame about a point
of the body, with the angular velocity in body axes. See "Floating objects" in MuJoCo's chapter "Modeling".

Stage: step by MuJoCo, before and after it
Called by: solvers/mujoco/solver.py, solvers/mujoco/transfer.py
Reads: JointView, MujocoView, 14 arrays
Writes: 13 arrays
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.model import JOINT_BALL, JOINT_DISTANCE, JOINT_FREE, JointView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class MujocoView:
    """Places of a model's elements in MuJoCo's arrays; a row is one of MuJoCo's worlds, and -1 means none.

    Lengths: J joints, A joint axes, T tendons, U actuators, B bodies, K constraints, R rows.
    """

    joint_row: wp.array(dtype=int)  # (J)
    joint_coord: wp.array(dtype=int)  # (J) first place in qpos
    joint_dof: wp.array(dtype=int)  # (J) first place in qvel
    axis_ctrl: wp.array(dtype=int)  # (A) place in ctrl
    tendon_row: wp.array(dtype=int)  # (T)
    tendon_ctrl: wp.array(dtype=int)  # (T) place in ctrl
    actuator_row: wp.array(dtype=int)  # (U)
    actuator_ctrl: wp.array(dtype=int)  # (U) place in ctrl
    body_row: wp.array(dtype=int)  # (B)
    body_id: wp.array(dtype=int)  # (B)
    body_part_of: wp.array(dtype=int)  # (B) the body that it is one with in MuJoCo, which has the id
    body_mocap: wp.array(dtype=int)  # (B)
    constraint_row: wp.array(dtype=int)  # (K)
    constraint_id: wp.array(dtype=int)  # (K)
    constraint_kept: wp.array(dtype=int)  # (K) second equality of the same constraint
    origin: wp.array(dtype=wp.transform)  # (R) pose of the row's world frame in ours


@wp.func
def to_wxyz(q: wp.quat) -> wp.quat:
    return wp.quat(q[3], q[0], q[1], q[2])


@wp.func
def read_quat(values: wp.array2d(dtype=float), row: int, at: int) -> wp.quat:
    q = wp.quat(values[row, at + 1], values[row, at + 2], values[row, at + 3], values[row, at])
    return wp.normalize(q)


@wp.func
def write_quat(q: wp.quat, row: int, at: int, values: wp.array2d(dtype=float)):
    values[row, at] = q[3]
    values[row, at + 1] = q[0]
    values[row, at + 2] = q[1]
    values[row, at + 3] = q[2]


@wp.func
def read_vec3(values: wp.array2d(dtype=float), row: int, at: int) -> wp.vec3:
    return wp.vec3(values[row, at], values[row, at + 1], values[row, at + 2])


@wp.func
def write_vec3(v: wp.vec3, row: int, at: int, values: wp.array2d(dtype=float)):
    values[row, at] = v[0]
    values[row, at + 1] = v[1]
    values[row, at + 2] = v[2]


@wp.func
def vec3_at(values: wp.array(dtype=float), at: int) -> wp.vec3:
    return wp.vec3(values[at], values[at + 1], values[at + 2])


@wp.func
def quat_at(values: wp.array(dtype=float), at: int) -> wp.quat:
    return wp.normalize(wp.quat(values[at], values[at + 1], values[at + 2], values[at + 3]))


@wp.func
def floats(j: int, joint: JointView) -> bool:
    """Whether the joint's motion has six degrees of freedom."""
    return joint.type[j] == JOINT_FREE or joint.type[j] == JOINT_DISTANCE


@wp.func
def body_pose(j: int, joint: JointView, q: wp.array(dtype=float)) -> wp.transform:
    """World pose of the child of a joint with six degrees of freedom and without parent."""
    at = joint.q_start[j]
    X_j = wp.transform(vec3_at(q, at), quat_at(q, at + 3))
    return joint.X_p[j] * X_j * wp.transform_inverse(joint.X_c[j])


@wp.func
def joint_com(j: int, joint: JointView, com: wp.array(dtype=wp.vec3)) -> wp.vec3:
    """Centre of mass of the child in its joint frame [m]."""
    return wp.transform_point(wp.transform_inverse(joint.X_c[j]), com[joint.child[j]])


@wp.kernel
def write_joints(
    first: int,
    joint: JointView,
    com: wp.array(dtype=wp.vec3),
    view: MujocoView,
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qpos: wp.array2d(dtype=float),
    qvel: wp.array2d(dtype=float),
):
    """One thread per joint: its coordinates and velocities in MuJoCo's conventions."""
    j = first + wp.tid()
    row = view.joint_row[j]
    to_q = view.joint_coord[j]
    to_v = view.joint_dof[j]
    if to_q < 0:
        return
    at_q = joint.q_start[j]
    at_v = joint.qd_start[j]
    if floats(j, joint) and joint.parent[j] < 0:
        world = body_pose(j, joint, q)
        origin = view.origin[row]
        pose = wp.transform_inverse(origin) * world
        w = vec3_at(qd, at_v)
        arm = wp.transform_vector(world, com[joint.child[j]])
        v = vec3_at(qd, at_v + 3) - wp.cross(w, arm)
        write_vec3(wp.transform_get_translation(pose), row, to_q, qpos)
        write_quat(wp.transform_get_rotation(pose), row, to_q + 3, qpos)
        write_vec3(wp.quat_rotate_inv(wp.transform_get_rotation(origin), v), row, to_v, qvel)
        write_vec3(wp.quat_rotate_inv(wp.transform_get_rotation(world), w), row, to_v + 3, qvel)
        return
    if floats(j, joint) or joint.type[j] == JOINT_BALL:
        r_c = wp.transform_get_rotation(joint.X_c[j])
        turn_q = to_q
        turn_v = to_v
        r = quat_at(q, joint.q_start[j + 1] - 4)
        w = vec3_at(qd, at_v)
        if floats(j, joint):
            arm = wp.quat_rotate(r, joint_com(j, joint, com))
            write_vec3(vec3_at(q, at_q), row, to_q, qpos)
            write_vec3(vec3_at(qd, at_v + 3) - wp.cross(w, arm), row, to_v, qvel)
            turn_q = to_q + 3
            turn_v = to_v + 3
        write_quat(r_c * r * wp.quat_inverse(r_c), row, turn_q, qpos)
        write_vec3(wp.quat_rotate(r_c, wp.quat_rotate_inv(r, w)), row, turn_v, qvel)
        return
    for k in range(joint.q_start[j + 1] - at_q):
        qpos[row, to_q + k] = q[at_q + k]
        qvel[row, to_v + k] = qd[at_v + k]


@wp.kernel
def read_joints(
    first: int,
    joint: JointView,
    com: wp.array(dtype=wp.vec3),
    view: MujocoView,
    qpos: wp.array2d(dtype=float),
    qvel: wp.array2d(dtype=float),
    q: wp.array(dtype=float),
    qd: wp.array(dtype=float),
):
    """One thread per joint: the reverse of `write_joints`."""
    j = first + wp.tid()
    row = view.joint_row[j]
    from_q = view.joint_coord[j]
    from_v = view.joint_dof[j]
    if from_q < 0:
        return
    at_q = joint.q_start[j]
    at_v = joint.qd_start[j]
    if floats(j, joint) and joint.parent[j] < 0:
        origin = view.origin[row]
        pose = wp.transform(read_vec3(qpos, row, from_q), read_quat(qpos, row, from_q + 3))
        world = origin * pose
        X_j = wp.transform_inverse(joint.X_p[j]) * world * joint.X_c[j]
        w = wp.quat_rotate(wp.transform_get_rotation(world), read_vec3(qvel, row, from_v + 3))
        v = wp.transform_vector(origin, read_vec3(qvel, row, from_v))
        v = v + wp.cross(w, wp.transform_vector(world, com[joint.child[j]]))
        for k in range(7):
            q[at_q + k] = X_j[k]
        for k in range(3):
            qd[at_v + k] = w[k]
            qd[at_v + 3 + k] = v[k]
        return
    if floats(j, joint) or joint.type[j] == JOINT_BALL:
        r_c = wp.transform_get_rotation(joint.X_c[j])
        turn_q = from_q
        turn_v = from_v
        if floats(j, joint):
            turn_q = from_q + 3
            turn_v = from_v + 3
        r = wp.normalize(wp.quat_inverse(r_c) * read_quat(qpos, row, turn_q) * r_c)
        w = wp.quat_rotate(r, wp.quat_rotate_inv(r_c, read_vec3(qvel, row, turn_v)))
        for k in range(4):
            q[joint.q_start[j + 1] - 4 + k] = r[k]
        for k in range(3):
            qd[at_v + k] = w[k]
        if floats(j, joint):
            v = read_vec3(qvel, row, from_v) + wp.cross(w, wp.quat_rotate(r, joint_com(j, joint, com)))
            for k in range(3):
                q[at_q + k] = qpos[row, from_q + k]
                qd[at_v + 3 + k] = v[k]
        return
    for k in range(joint.q_start[j + 1] - at_q):
        q[at_q + k] = qpos[row, from_q + k]
        qd[at_v + k] = qvel[row, from_v + k]


@wp.kernel
def write_inputs(
    first: int,
    joint: JointView,
    com: wp.array(dtype=wp.vec3),
    view: MujocoView,
    q: wp.array(dtype=float),
    act: wp.array(dtype=float),
    f: wp.array(dtype=float),
    ctrl: wp.array2d(dtype=float),
    qfrc_applied: wp.array2d(dtype=float),
):
    """One thread per joint: control inputs of its axes, and generalised forces that do the same work."""
    j = first + wp.tid()
    row = view.joint_row[j]
    to = view.joint_dof[j]
    if to < 0:
        return
    at = joint.qd_start[j]
    if floats(j, joint) and joint.parent[j] < 0:
        world = body_pose(j, joint, q)
        force = vec3_at(f, at + 3)
        torque = vec3_at(f, at) + wp.cross(wp.transform_vector(world, com[joint.child[j]]), force)
        r_o = wp.transform_get_rotation(view.origin[row])
        write_vec3(wp.quat_rotate_inv(r_o, force), row, to, qfrc_applied)
        local = wp.quat_rotate_inv(wp.transform_get_rotation(world), torque)
        write_vec3(local, row, to + 3, qfrc_applied)
        return
    if floats(j, joint) or joint.type[j] == JOINT_BALL:
        r_c = wp.transform_get_rotation(joint.X_c[j])
        r = quat_at(q, joint.q_start[j + 1] - 4)
        torque = vec3_at(f, at)
        turn = to
        if floats(j, joint):
            force = vec3_at(f, at + 3)
            torque = torque + wp.cross(wp.quat_rotate(r, joint_com(j, joint, com)), force)
            write_vec3(force, row, to, qfrc_applied)
            turn = to + 3
        write_vec3(wp.quat_rotate(r_c, wp.quat_rotate_inv(r, torque)), row, turn, qfrc_applied)
        return
    for k in range(joint.q_start[j + 1] - joint.q_start[j]):
        qfrc_applied[row, to + k] = f[at + k]
        a = joint.axis_start[j] + k
        if view.axis_ctrl[a] >= 0:
            ctrl[row, view.axis_ctrl[a]] = act[a]


@wp.kernel
def write_controls(
    first: int,
    row: wp.array(dtype=int),
    place: wp.array(dtype=int),
    act: wp.array(dtype=float),
    ctrl: wp.array2d(dtype=float),
):
    """One thread per tendon or actuator: its control input."""
    i = first + wp.tid()
    ctrl[row[i], place[i]] = act[i]


@wp.kernel
def write_bodies(
    first: int,
    view: MujocoView,
    body_q: wp.array(dtype=wp.transform),
    body_f: wp.array(dtype=wp.spatial_vector),
    mocap_pos: wp.array2d(dtype=wp.vec3),
    mocap_quat: wp.array2d(dtype=wp.quat),
    xfrc_applied: wp.array2d(dtype=wp.spatial_vector),
):
    """One thread per body: external forces, and poses of bodies without joints."""
    b = first + wp.tid()
    row = view.body_row[b]
    if row < 0 or view.body_part_of[b] >= 0:
        return
    origin = view.origin[row]
    r_o = wp.transform_get_rotation(origin)
    torque = wp.quat_rotate_inv(r_o, wp.spatial_top(body_f[b]))
    force = wp.quat_rotate_inv(r_o, wp.spatial_bottom(body_f[b]))
    xfrc_applied[row, view.body_id[b]] = wp.spatial_vector(force, torque)
    m = view.body_mocap[b]
    if m >= 0:
        pose = wp.transform_inverse(origin) * body_q[b]
        mocap_pos[row, m] = wp.transform_get_translation(pose)
        mocap_quat[row, m] = to_wxyz(wp.transform_get_rotation(pose))


@wp.kernel
def add_parts(
    first: int,
    view: MujocoView,
    com: wp.array(dtype=wp.vec3),
    body_q: wp.array(dtype=wp.transform),
    body_f: wp.array(dtype=wp.spatial_vector),
    xfrc_applied: wp.array2d(dtype=wp.spatial_vector),
):
    """One thread per body: external forces on one that is part of another in MuJoCo, added to those there."""
    b = first + wp.tid()
    whole = view.body_part_of[b]
    if whole < 0:
        return
    row = view.body_row[b]
    arm = wp.transform_point(body_q[b], com[b]) - wp.transform_point(body_q[whole], com[whole])
    force = wp.spatial_bottom(body_f[b])
    torque = wp.spatial_top(body_f[b]) + wp.cross(arm, force)
    r_o = wp.transform_get_rotation(view.origin[row])
    wrench = wp.spatial_vector(wp.quat_rotate_inv(r_o, force), wp.quat_rotate_inv(r_o, torque))
    wp.atomic_add(xfrc_applied, row, view.body_id[whole], wrench)


@wp.kernel
def write_constraints(
    first: int,
    view: MujocoView,
    enabled: wp.array(dtype=int),
    eq_active: wp.array2d(dtype=bool),
):
    """One thread per constraint: whether its equalities act."""
    c = first + wp.tid()
    row = view.constraint_row[c]
    if view.constraint_id[c] >= 0:
        eq_active[row, view.constraint_id[c]] = enabled[c] != 0
    if view.constraint_kept[c] >= 0:
        eq_active[row, view.constraint_kept[c]] = enabled[c] != 0


@wp.kernel
def write_options(
    first: int,
    gravity: wp.array(dtype=wp.vec3),
    dt: float,
    timestep: wp.array(dtype=float),
    opt_gravity: wp.array(dtype=wp.vec3),
):
    """One thread per row: time step and gravity of MuJoCo's world."""
    row = first + wp.tid()
    if row == 0:
        timestep[0] = dt
    opt_gravity[row] = gravity[row]


@wp.kernel
def clear_rows(mask: wp.array(dtype=bool), values: wp.array2d(dtype=float)):
    """One thread per number: zero the rows of the worlds that the mask names."""
    row, column = wp.tid()
    if mask[row]:
        values[row, column] = 0.0
