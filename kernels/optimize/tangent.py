"""Differences of joint coordinates in the axes of `joint_qd`: the inverse of q ⊕ δ of a step.

Rotations differ by a rotation vector [rad], floating joints by this and by the displacement of the centre of
mass [m].

Stage: optimisation, tangent coordinates
Called by: kernels/optimize/costs.py, kernels/optimize/expansions.py, kernels/optimize/runs.py
Reads: JointView, body_com, q, reference
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.spatial import load_quat, load_vec3, unit_quat
from newtonsim.kernels.views.model import JOINT_DISTANCE, JOINT_FREE, JointView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.func
def quat_log(q: wp.quat) -> wp.vec3:
    """Shortest rotation vector of a unit quaternion, smooth through zero."""
    sign = float(1.0)
    if q[3] < 0.0:
        sign = -1.0
    v = sign * wp.vec3(q[0], q[1], q[2])
    real = sign * q[3]
    s2 = wp.dot(v, v)
    # angle / sin(angle / 2) by its series near zero: the quotient has no derivative there
    factor = 2.0 + s2 / 3.0
    if s2 > 1.0e-6:
        s = wp.sqrt(s2)
        factor = 2.0 * wp.atan2(s, real) / s
    return factor * v


@wp.func
def turn_between(start: wp.quat, end: wp.quat) -> wp.vec3:
    """Rotation vector from one orientation to another, in the axes in which both are given."""
    return quat_log(unit_quat(end * wp.quat_inverse(start)))


@wp.func
def turn_slope(e: wp.vec3) -> wp.mat33:
    """Derivative of `turn_between` by a rotation of the end about the same axes: the inverse left Jacobian.

    Solà, Deray, Atchuthan, "A micro Lie theory for state estimation in robotics", 2018, eq. 146.
    """
    angle2 = wp.dot(e, e)
    c = 1.0 / 12.0 + angle2 / 720.0
    if angle2 > 1.0e-2:
        angle = wp.sqrt(angle2)
        c = 1.0 / angle2 - (1.0 + wp.cos(angle)) / (2.0 * angle * wp.sin(angle))
    cross = wp.skew(e)
    return wp.identity(n=3, dtype=float) - 0.5 * cross + c * (cross * cross)


@wp.func
def is_floating(kind: int) -> bool:
    """Whether a joint leaves all six degrees of freedom to its child."""
    return kind == JOINT_FREE or kind == JOINT_DISTANCE


@wp.func
def floating_difference(
    j: int,
    joint: JointView,
    body_com: wp.array(dtype=wp.vec3),
    q: wp.array(dtype=float),
    reference: wp.array(dtype=float),
    i_reference: int,
) -> wp.spatial_vector:
    """(rotation vector, displacement of the centre of mass) from a reference to q of a floating joint."""
    i = joint.q_start[j]
    from_child = wp.transform_inverse(joint.X_c[j])
    com = body_com[joint.child[j]]
    end = wp.transform(load_vec3(q, i), load_quat(q, i + 3)) * from_child
    start_p = load_vec3(reference, i_reference)
    start = wp.transform(start_p, load_quat(reference, i_reference + 3)) * from_child
    turn = turn_between(wp.transform_get_rotation(start), wp.transform_get_rotation(end))
    way = wp.transform_point(end, com) - wp.transform_point(start, com)
    if joint.parent[j] < 0:
        axes = wp.transform_get_rotation(joint.X_p[j])
        turn = wp.quat_rotate(axes, turn)
        way = wp.quat_rotate(axes, way)
    return wp.spatial_vector(turn, way)


@wp.func
def ball_difference(
    i: int, q: wp.array(dtype=float), reference: wp.array(dtype=float), i_reference: int
) -> wp.vec3:
    """Rotation vector from a reference to q of a ball joint."""
    return turn_between(load_quat(reference, i_reference), load_quat(q, i))
