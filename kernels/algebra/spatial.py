"""Spatial vector algebra, angular part first, in world axes about one common reference point.

All spatial quantities of a kinematic tree are expressed about the same point, so moving them along the
tree needs no transform (Featherstone, "Rigid Body Dynamics Algorithms", 2008, chapter 2).

Stage: any that moves rigid bodies
Called by: kernels/constraints/linear/, kernels/constraints/servos.py, kernels/envs/randomise.py,
    kernels/maximal/adjoint/, kernels/maximal/, kernels/optimize/tangent.py,
    kernels/particles/adjoint/expected_bodies.py, kernels/particles/xpbd/deltas.py,
    kernels/penalty/joints.py, kernels/queries/joint_sensors.py, kernels/steps/, kernels/trees/adjoint/,
    kernels/trees/
Reads: q
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp


@wp.func
def cross_motion(v: wp.spatial_vector, m: wp.spatial_vector) -> wp.spatial_vector:
    """Spatial cross product of two motion vectors, RBDA eq. 2.31."""
    w = wp.spatial_top(v)
    mw = wp.spatial_top(m)
    return wp.spatial_vector(
        wp.cross(w, mw), wp.cross(w, wp.spatial_bottom(m)) + wp.cross(wp.spatial_bottom(v), mw)
    )


@wp.func
def rotate_inertia(q: wp.quat, inertia: wp.mat33) -> wp.mat33:
    """R I Rᵀ: rotational inertia in world axes."""
    rot = wp.quat_to_matrix(q)
    return rot * inertia * wp.transpose(rot)


@wp.func_native(
    """
    wp::uint32 bits;
    memcpy(&bits, &size, 4);
    bits = size > 0.0f ? bits & 0x7f800000u : 0x3f800000u;  // the exponent alone; of 1
    if (bits == 0u) bits = 0x00800000u;
    float power;
    memcpy(&power, &bits, 4);
    return power;
    """
)
def power_of_two(size: float) -> float:
    """Largest power of two up to a number, at least the smallest normal one; 1 for what is not positive.

    Division by it rounds nothing.
    """
    ...


@wp.func
def inverse_of(inertia: wp.mat33) -> wp.mat33:
    """Inverse of an inertia; zero for one that has none.

    Scaled, since determinants, products of three moments, of very small and large bodies leave single
    precision.
    """
    inverse = wp.mat33(0.0)
    size = wp.trace(inertia)
    if size > 0.0:
        inverse = wp.inverse(inertia / size) / size
    return inverse


@wp.func
def quat_exp(w: wp.vec3) -> wp.quat:
    """Unit quaternion of the rotation vector w [rad], smooth through zero."""
    angle2 = wp.dot(w, w)
    # sin(x/2)/x by its series near zero: the quotient has no derivative there
    half_sinc = 0.5 - angle2 / 48.0
    real = 1.0 - angle2 / 8.0
    if angle2 > 1.0e-6:
        angle = wp.sqrt(angle2)
        half_sinc = wp.sin(0.5 * angle) / angle
        real = wp.cos(0.5 * angle)
    v = half_sinc * w
    return wp.quat(v[0], v[1], v[2], real)


@wp.func
def left_jacobian_factors(phi: wp.vec3) -> wp.vec2:
    """a, b of the left Jacobian I + a [phi]ₓ + b [phi]ₓ² of the exponential map at a rotation vector [rad].

    Solà, Deray, Atchuthan, "A micro Lie theory for state estimation in robotics", 2018, eq. 145.
    """
    angle2 = wp.dot(phi, phi)
    a = 0.5 - angle2 / 24.0
    b = 1.0 / 6.0 - angle2 / 120.0
    if angle2 > 1.0e-2:
        angle = wp.sqrt(angle2)
        a = (1.0 - wp.cos(angle)) / angle2
        b = (angle - wp.sin(angle)) / (angle2 * angle)
    return wp.vec2(a, b)


@wp.func
def unit_quat(q: wp.quat) -> wp.quat:
    """q scaled to length one."""
    return q / wp.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])


@wp.func
def load_quat(q: wp.array(dtype=float), start: int) -> wp.quat:
    """Unit quaternion xyzw stored in four consecutive entries."""
    return unit_quat(wp.quat(q[start], q[start + 1], q[start + 2], q[start + 3]))


@wp.func
def load_vec3(q: wp.array(dtype=float), start: int) -> wp.vec3:
    """Three consecutive entries."""
    return wp.vec3(q[start], q[start + 1], q[start + 2])


@wp.func
def world_axis(index: int) -> wp.vec3:
    """Unit vector 0, 1 or 2."""
    e = wp.vec3(1.0, 0.0, 0.0)
    if index == 1:
        e = wp.vec3(0.0, 1.0, 0.0)
    if index == 2:
        e = wp.vec3(0.0, 0.0, 1.0)
    return e
