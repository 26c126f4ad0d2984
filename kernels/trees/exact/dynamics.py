"""Jacobian, joint-space inertia and inverse dynamics of one articulated body in given configurations.

Joint-space inertia by the composite-rigid-body algorithm and joint forces by the recursive Newton-Euler
algorithm: Featherstone, "Rigid body dynamics algorithms", 2008, chapters 6 and 5. The first six degrees of
freedom are those of the base, ω and the velocity of its centre of mass.

Stage: kinematics and dynamics that a PyBullet client asks for
Called by: newtonsim/pybullet_compat/kinematics/chains.py
Reads: ChainMotion, ChainState, ChainView, link, point
Writes: ChainMotion, ChainState, CompositeView, out
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.trees.exact.links import place_base, place_links, place_path, velocity_at
from newtonsim.kernels.trees.exact.views import (
    PLANAR,
    PRISMATIC,
    REVOLUTE,
    SPHERICAL,
    ChainMotion,
    ChainState,
    ChainView,
    CompositeView,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def put_column(
    out: wp.array2d(dtype=wp.float64), c: int, width: int, k: int, angular: wp.vec3d, linear: wp.vec3d
):
    """Column k of the linear Jacobian, and of the angular one below it."""
    for j in range(3):
        out[c, j * width + k] = linear[j]
        out[c, (3 + j) * width + k] = angular[j]


@wp.kernel
def compute_jacobian(
    chain: ChainView,
    state: ChainState,
    link: wp.array(dtype=int),
    point: wp.array(dtype=wp.vec3d),
    out: wp.array2d(dtype=wp.float64),
):
    """One thread writes the Jacobian (6, 6 + D), by rows, of a point of a link in one configuration."""
    c = wp.tid()
    i = link[0]
    place_base(state, c)
    place_path(chain, state, c, i)
    width = chain.dof_parent.shape[0] + 6
    for k in range(6 * width):
        out[c, k] = wp.float64(0.0)
    x = wp.transform_point(state.pose[c, i], point[c])
    for k in range(3):
        unit = wp.vec3d()
        unit[k] = wp.float64(1.0)
        put_column(out, c, width, k, unit, wp.cross(unit, x))
        put_column(out, c, width, 3 + k, wp.vec3d(), unit)
    d = chain.leaf[i]
    while d >= 0:
        angular = state.angular[c, d]
        put_column(out, c, width, 6 + d, angular, velocity_at(angular, state.linear[c, d], x))
        d = chain.dof_parent[d]


@wp.func
def point_inertia(mass: wp.float64, x: wp.vec3d) -> wp.mat33d:
    """Rotational inertia of a point mass about the origin."""
    return mass * (wp.dot(x, x) * wp.identity(n=3, dtype=wp.float64) - wp.outer(x, x))


@wp.func
def inertia_along(rotation: wp.quatd, moments: wp.vec3d) -> wp.mat33d:
    """Rotational inertia from principal moments, in the axes to which the rotation leads."""
    r = wp.quat_to_matrix(rotation)
    return r * wp.diag(moments) * wp.transpose(r)


@wp.func
def put_entry(matrix: wp.array2d(dtype=wp.float64), c: int, width: int, i: int, j: int, value: wp.float64):
    """Two symmetric entries."""
    matrix[c, i * width + j] = value
    matrix[c, j * width + i] = value


@wp.func
def compose(chain: wp.ref[ChainView], state: wp.ref[ChainState], body: wp.ref[CompositeView], c: int):
    """Masses, moments and inertias of the composite bodies."""
    count = chain.order.shape[0]
    for i in range(count + 1):
        centre = wp.transform_multiply(state.pose[c, i], chain.inertial_pose[i])
        x = wp.transform_get_translation(centre)
        mass = chain.mass[c, i]
        body.mass[c, i] = mass
        body.moment[c, i] = mass * x
        body.inertia[c, i] = inertia_along(
            wp.transform_get_rotation(centre), chain.inertia[c, i]
        ) + point_inertia(mass, x)
    for k in range(count):
        i = chain.order[count - 1 - k]
        parent = chain.parent[i]
        body.mass[c, parent] = body.mass[c, parent] + body.mass[c, i]
        body.moment[c, parent] = body.moment[c, parent] + body.moment[c, i]
        body.inertia[c, parent] = body.inertia[c, parent] + body.inertia[c, i]


@wp.kernel
def compute_mass_matrix(chain: ChainView, state: ChainState, body: CompositeView):
    """One thread writes the joint-space inertia of one configuration."""
    c = wp.tid()
    place_links(chain, state, c)
    compose(chain, state, body, c)
    width = chain.dof_parent.shape[0] + 6
    for k in range(width * width):
        body.matrix[c, k] = wp.float64(0.0)
    for k in range(3):
        unit = wp.vec3d()
        unit[k] = wp.float64(1.0)
        column = body.inertia[c, 0] * unit
        lever = wp.cross(unit, body.moment[c, 0])
        for j in range(3):
            body.matrix[c, k * width + j] = column[j]
            put_entry(body.matrix, c, width, k, 3 + j, lever[j])
        put_entry(body.matrix, c, width, 3 + k, 3 + k, body.mass[c, 0])
    for n in range(chain.order.shape[0]):
        i = chain.order[n]
        parent_leaf = chain.leaf[chain.parent[i]]
        d = chain.leaf[i]
        while d != parent_leaf:
            angular = state.angular[c, d]
            linear = state.linear[c, d]
            p = body.mass[c, i] * linear + wp.cross(angular, body.moment[c, i])
            h = body.inertia[c, i] * angular + wp.cross(body.moment[c, i], linear)
            for j in range(3):
                put_entry(body.matrix, c, width, 6 + d, j, h[j])
                put_entry(body.matrix, c, width, 6 + d, 3 + j, p[j])
            e = chain.leaf[i]
            while e >= 0:
                value = wp.dot(state.angular[c, e], h) + wp.dot(state.linear[c, e], p)
                put_entry(body.matrix, c, width, 6 + d, 6 + e, value)
                e = chain.dof_parent[e]
            d = chain.dof_parent[d]


@wp.func
def joint_vector(
    state: wp.ref[ChainState], c: int, d: int, count: int, x: wp.array2d(dtype=wp.float64), angular: bool
) -> wp.vec3d:
    """Sum of the rotations, or translations, of a joint's degrees of freedom with the factors x."""
    total = wp.vec3d()
    for j in range(count):
        axis = state.linear[c, d + j]
        if angular:
            axis = state.angular[c, d + j]
        total += x[c, 6 + d + j] * axis
    return total


@wp.func
def accelerate_link(
    chain: wp.ref[ChainView], state: wp.ref[ChainState], motion: wp.ref[ChainMotion], c: int, i: int
):
    """Angular velocity and accelerations of a link frame from those of its parent."""
    parent = chain.parent[i]
    d = chain.dof_start[i]
    type = chain.type[i]
    w = motion.omega[c, parent]
    alpha = motion.alpha[c, parent]
    arm = wp.transform_get_translation(state.pose[c, i]) - wp.transform_get_translation(state.pose[c, parent])
    a = motion.acceleration[c, parent] + wp.cross(alpha, arm) + wp.cross(w, wp.cross(w, arm))
    slides = int(0)
    if type == PRISMATIC:
        slides = 1
    elif type == PLANAR:
        slides = 2
    if slides > 0:
        v = joint_vector(state, c, d, slides, motion.qd, False)
        a += joint_vector(state, c, d, slides, motion.qdd, False)
        a += wp.float64(2.0) * wp.cross(w, v)
    turns = int(0)
    if type == REVOLUTE or type == PLANAR:
        turns = 1
    elif type == SPHERICAL:
        turns = 3
    if turns > 0:
        if type == PLANAR:
            d += 2
        u = joint_vector(state, c, d, turns, motion.qd, True)
        alpha += joint_vector(state, c, d, turns, motion.qdd, True) + wp.cross(w, u)
        w += u
    motion.omega[c, i] = w
    motion.alpha[c, i] = alpha
    motion.acceleration[c, i] = a


@wp.func
def weigh_link(
    chain: wp.ref[ChainView], state: wp.ref[ChainState], motion: wp.ref[ChainMotion], c: int, i: int
):
    """Force and torque that accelerate a link against gravity."""
    frame = state.pose[c, i]
    centre = wp.transform_multiply(frame, chain.inertial_pose[i])
    arm = wp.transform_get_translation(centre) - wp.transform_get_translation(frame)
    w = motion.omega[c, i]
    alpha = motion.alpha[c, i]
    a = motion.acceleration[c, i] + wp.cross(alpha, arm) + wp.cross(w, wp.cross(w, arm))
    force = chain.mass[c, i] * (a - motion.gravity[c])
    inertia = inertia_along(wp.transform_get_rotation(centre), chain.inertia[c, i])
    motion.force[c, i] = force
    motion.torque[c, i] = inertia * alpha + wp.cross(w, inertia * w) + wp.cross(arm, force)


@wp.kernel
def compute_forces(chain: ChainView, state: ChainState, motion: ChainMotion):
    """One thread writes the generalised forces of one configuration and motion."""
    c = wp.tid()
    place_links(chain, state, c)
    motion.omega[c, 0] = wp.vec3d(motion.qd[c, 0], motion.qd[c, 1], motion.qd[c, 2])
    motion.alpha[c, 0] = wp.vec3d(motion.qdd[c, 0], motion.qdd[c, 1], motion.qdd[c, 2])
    motion.acceleration[c, 0] = wp.vec3d(motion.qdd[c, 3], motion.qdd[c, 4], motion.qdd[c, 5])
    count = chain.order.shape[0]
    weigh_link(chain, state, motion, c, 0)
    for k in range(count):
        accelerate_link(chain, state, motion, c, chain.order[k])
        weigh_link(chain, state, motion, c, chain.order[k])
    for k in range(count):
        i = chain.order[count - 1 - k]
        parent = chain.parent[i]
        p = wp.transform_get_translation(state.pose[c, i])
        force = motion.force[c, i]
        moment = motion.torque[c, i] + wp.cross(p, force)
        d = chain.leaf[i]
        while d != chain.leaf[parent]:
            motion.tau[c, 6 + d] = wp.dot(state.angular[c, d], moment) + wp.dot(state.linear[c, d], force)
            d = chain.dof_parent[d]
        arm = p - wp.transform_get_translation(state.pose[c, parent])
        motion.force[c, parent] = motion.force[c, parent] + force
        motion.torque[c, parent] = motion.torque[c, parent] + motion.torque[c, i] + wp.cross(arm, force)
    for j in range(3):
        motion.tau[c, j] = motion.torque[c, 0][j]
        motion.tau[c, 3 + j] = motion.force[c, 0][j]
