"""Armature and damping of floating joints, which act on the velocity of the origin of the body's frame.

The linear velocity v of a floating joint is that of the centre of mass. The origin, from which this lies at r
in world axes, moves with v_o = v + r × ω = J (ω, v). The linear armature a and damping d of the joint
therefore add Jᵀ (a + h d) J to the joint-space inertia, and Jᵀ (a v̇_o + d v_o) to the forces, with the
acceleration v̇_o of the origin, to which -ω × (ω × r) belongs. Their part without r is the addition to the
diagonal and that of `force_residual`, as for all other joints; these kernels add the rest, for root joints.
Angular armature and damping act on ω and need none of this.

Stage: smooth dynamics, joint-space inertia and forces
Called by: newtonsim/runtime/floating_terms.py, kernels/constraints/linear/origin_terms.py
Reads: BodyView, JointView, KinematicsView, TreeView, 10 arrays
Writes: H, L, by_q, by_qd, total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_vec3, world_axis
from newtonsim.kernels.trees.crba import PIVOT_FLOOR
from newtonsim.kernels.views.model import BodyView, JointView, KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def arm(b: int, com: wp.array(dtype=wp.vec3), kin: KinematicsView) -> wp.vec3:
    """From the origin of body b to its centre of mass, world axes [m]."""
    return wp.quat_rotate(wp.transform_get_rotation(kin.body_X[b]), com[b])


@wp.func
def origin_acceleration(r: wp.vec3, spin: wp.vec3, turning: wp.vec3) -> wp.vec3:
    """Acceleration of the origin less that of the centre of mass [m/s²]."""
    return wp.cross(r, turning) - wp.cross(spin, wp.cross(spin, r))


@wp.kernel
def add_forces(
    first: int,
    floating: wp.array(dtype=int),
    joint: JointView,
    com: wp.array(dtype=wp.vec3),
    kin: KinematicsView,
    armature: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qd_end: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    scale: float,
    total: wp.array(dtype=float),
):
    """One thread per tree: add scale times the forces on its floating joint that `force_residual` omits.

    `floating` is the joint of each tree, or -1. The acceleration of the origin is taken at the velocity `qd`,
    and damping at `qd_end`.
    """
    j = floating[first + wp.tid()]
    if j >= 0:
        d = joint.qd_start[j]
        r = arm(joint.child[j], com, kin)
        a = load_vec3(armature, d + 3)
        c = load_vec3(damping, d + 3)
        omitted = wp.cw_mul(a, origin_acceleration(r, load_vec3(qd, d), load_vec3(qdd, d)))
        omitted += wp.cw_mul(c, wp.cross(r, load_vec3(qd_end, d)))
        force = omitted + wp.cw_mul(a, load_vec3(qdd, d + 3)) + wp.cw_mul(c, load_vec3(qd_end, d + 3))
        torque = scale * wp.cross(force, r)
        push = scale * omitted
        for k in range(3):
            total[d + k] += torque[k]
            total[d + 3 + k] += push[k]


@wp.kernel(enable_backward=False)
def add_inertia(
    first: int,
    floating: wp.array(dtype=int),
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    diagonal: wp.array(dtype=float),
    H: wp.array(dtype=float),
):
    """One thread per tree: add what the diagonal omits to the joint-space inertia."""
    j = floating[first + wp.tid()]
    if j < 0:
        return
    d = joint.qd_start[j]
    X = wp.skew(arm(joint.child[j], body.com, kin))
    mixed = wp.diag(load_vec3(diagonal, d + 3)) * X
    turned = wp.transpose(X) * mixed
    for i in range(3):
        angular = tree.dof_row[d + i]
        linear = tree.dof_row[d + 3 + i]
        for k in range(i + 1):
            H[angular + k] = H[angular + k] + turned[i, k]
        for k in range(3):
            H[linear + k] = H[linear + k] + mixed[i, k]


@wp.func
def root_inertia(d: int, tree: TreeView, L: wp.array(dtype=float)) -> wp.spatial_matrix:
    """Lᵀ D L of the six first dofs of a tree, lower triangle: their inertia when all other dofs yield."""
    H = wp.spatial_matrix()
    for c in range(6):
        row = tree.dof_row[d + c]
        pivot = 1.0 / (L[row + c] * L[row + c])
        for i in range(c):
            for k in range(i + 1):
                H[i, k] = H[i, k] + pivot * L[row + i] * L[row + k]
            H[c, i] = H[c, i] + pivot * L[row + i]
        H[c, c] = H[c, c] + pivot
    return H


@wp.kernel(enable_backward=False)
def add_to_factors(
    first: int,
    floating: wp.array(dtype=int),
    tree: TreeView,
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    diagonal: wp.array(dtype=float),
    L: wp.array(dtype=float),
):
    """One thread per tree: add what the diagonal omits to the factors of the joint-space inertia.

    Only the last six pivots, those of the root, change.
    """
    j = floating[first + wp.tid()]
    if j < 0:
        return
    d = joint.qd_start[j]
    H = root_inertia(d, tree, L)
    X = wp.skew(arm(joint.child[j], body.com, kin))
    mixed = wp.diag(load_vec3(diagonal, d + 3)) * X
    turned = wp.transpose(X) * mixed
    for i in range(3):
        for k in range(3):
            H[i, k] = H[i, k] + turned[i, k]
            H[i + 3, k] = H[i + 3, k] + mixed[i, k]
    floor = PIVOT_FLOOR * wp.get_diag(H)
    for n in range(6):
        i = 5 - n
        row = tree.dof_row[d + i]
        inverse = 1.0 / wp.max(H[i, i], floor[i])
        for k in range(i):
            share = inverse * H[i, k]
            for c in range(k + 1):
                H[k, c] = H[k, c] - share * H[i, c]
            L[row + k] = share
        L[row + i] = wp.sqrt(inverse)


@wp.func
def origin_force(
    r: wp.vec3, d: int, armature: wp.array(dtype=float), qd: wp.array(dtype=float), qdd: wp.array(dtype=float)
) -> wp.vec3:
    """Force that accelerates the armature of the floating joint with the first dof d [N]."""
    acceleration = load_vec3(qdd, d + 3) + origin_acceleration(r, load_vec3(qd, d), load_vec3(qdd, d))
    return wp.cw_mul(load_vec3(armature, d + 3), acceleration)


@wp.func
def force_by_spin(e: wp.vec3, r: wp.vec3, armature: wp.vec3, spin: wp.vec3) -> wp.vec3:
    """Derivative of the force of armature by the angular velocity about e [N s]."""
    rate = wp.cross(e, wp.cross(spin, r)) + wp.cross(spin, wp.cross(e, r))
    return -wp.cw_mul(armature, rate)


@wp.kernel(enable_backward=False)
def differentiate_forces(
    first: int,
    floating: wp.array(dtype=int),
    joint: JointView,
    body: BodyView,
    kin: KinematicsView,
    armature: wp.array(dtype=float),
    qd: wp.array(dtype=float),
    qdd: wp.array(dtype=float),
    dof_articulation: wp.array(dtype=int),
    dof_local: wp.array(dtype=int),
    by_q: wp.array3d(dtype=float),
    by_qd: wp.array3d(dtype=float),
):
    """One thread per tree: add the derivatives of the forces of armature on its floating joint."""
    j = floating[first + wp.tid()]
    if j < 0:
        return
    d = joint.qd_start[j]
    block = dof_articulation[d]
    own = dof_local[d]
    r = arm(joint.child[j], body.com, kin)
    a = load_vec3(armature, d + 3)
    force = origin_force(r, d, armature, qd, qdd)
    for k in range(3):
        e = world_axis(k)
        turned = wp.cross(e, r)
        by_turn = wp.cw_mul(a, origin_acceleration(turned, load_vec3(qd, d), load_vec3(qdd, d)))
        torque_by_turn = wp.cross(by_turn, r) + wp.cross(force, turned)
        by_spin = force_by_spin(e, r, a, load_vec3(qd, d))
        torque_by_spin = wp.cross(by_spin, r)
        for i in range(3):
            by_q[block, own + i, own + k] = by_q[block, own + i, own + k] + torque_by_turn[i]
            by_q[block, own + 3 + i, own + k] = by_q[block, own + 3 + i, own + k] + by_turn[i]
            by_qd[block, own + i, own + k] = by_qd[block, own + i, own + k] + torque_by_spin[i]
            by_qd[block, own + 3 + i, own + k] = by_qd[block, own + 3 + i, own + k] + by_spin[i]
