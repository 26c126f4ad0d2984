"""Work of the forces of springs, triangles, bending edges and tetrahedra in an implicit step.

Each element has one function for the work S = λᵀ R of a displacement field λ against its part R of the
residual of an implicit Euler step (minus its forces at the end), in terms of vectors from one corner to the
others. All terms of the adjoint are derivatives of it (`wp.grad`), see `particles.adjoint.elements`. Energies
are those of `particles.elements`. Depending on the solver, damping is a viscosity times the rate of strain at
the end of the substep (XPBD), or times the change of strain over the length of the substep (VBD, "secant").
All computations are in double precision, since the inertia of light particles among stiff elements is a small
difference.

Stage: backward pass of particles, elements
Called by: kernels/particles/adjoint/elements.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.elements.hinge import short_way
from newtonsim.kernels.particles.elements.spring import controlled_length
from newtonsim.kernels.particles.elements.tetrahedron import rest_volume, solid_stress, volume_slope
from newtonsim.kernels.particles.elements.triangle import (
    deformation_columns,
    green_strain,
    membrane_stress,
    strain_change,
)

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))


@wp.func
def spring_work(
    d: wp.vec3d,
    moved: wp.vec3d,
    start: wp.vec3d,
    multiplier: wp.vec3d,
    rest: wp.float64,
    stiffness: wp.float64,
    damping: wp.float64,
    control: wp.float64,
    dt: wp.float64,
    secant: int,
) -> wp.float64:
    """Work of a spring; all vectors from its first end to its second."""
    length = wp.length(d)
    n = d / length
    tension = stiffness * (length - controlled_length(rest, control))
    if secant == 1:
        tension += damping / dt * (length - wp.length(start))
    else:
        tension += damping / dt * wp.dot(n, moved)
    return tension * wp.dot(n, multiplier)


@wp.func
def triangle_work(
    b: wp.vec3d,
    c: wp.vec3d,
    moved_b: wp.vec3d,
    moved_c: wp.vec3d,
    start_b: wp.vec3d,
    start_c: wp.vec3d,
    multiplier_b: wp.vec3d,
    multiplier_c: wp.vec3d,
    pose: wp.mat22d,
    area: wp.float64,
    material: wp.vec3d,
    activation: wp.float64,
    dt: wp.float64,
    secant: int,
) -> wp.float64:
    """Work of a triangle with the material (ke, ka, kd); vectors from its first corner to the others."""
    f0, f1 = deformation_columns(b, c, pose)
    q0, q1 = deformation_columns(multiplier_b, multiplier_c, pose)
    g00, g11, g01 = green_strain(f0, f1)
    s00, s11, s01 = membrane_stress(g00, g11, g01, material[0], material[1], activation)
    viscous = material[2] / dt
    if secant == 1:
        o0, o1 = deformation_columns(start_b, start_c, pose)
        s00 += viscous * HALF * (wp.dot(f0, f0) - wp.dot(o0, o0))
        s11 += viscous * HALF * (wp.dot(f1, f1) - wp.dot(o1, o1))
        s01 += viscous * HALF * (wp.dot(f0, f1) - wp.dot(o0, o1))
    else:
        r0, r1 = deformation_columns(moved_b, moved_c, pose)
        rate00, rate11, rate01 = strain_change(f0, f1, r0, r1)
        s00 += viscous * rate00
        s11 += viscous * rate11
        s01 += viscous * HALF * rate01
    work00, work11, work01 = strain_change(f0, f1, q0, q1)
    return area * (s00 * work00 + s11 * work11 + s01 * work01)


@wp.func
def edge_angle(a: wp.vec3d, b: wp.vec3d, e: wp.vec3d) -> wp.float64:
    """Angle between the triangles at an edge e from the origin with opposite corners a and b, 0 when flat."""
    n0 = wp.cross(e, a)
    n1 = wp.cross(b, e)
    return wp.atan2(wp.dot(wp.cross(n0, n1), e) / wp.length(e), wp.dot(n0, n1))


@wp.func
def edge_turn(
    a: wp.vec3d, b: wp.vec3d, e: wp.vec3d, move_a: wp.vec3d, move_b: wp.vec3d, move_e: wp.vec3d
) -> wp.float64:
    """Slope of `edge_angle` along a motion of its corners; that of the origin is 0."""
    n0 = wp.cross(e, a)
    n1 = wp.cross(b, e)
    length = wp.length(e)
    g0 = n0 * (-length / wp.dot(n0, n0))
    g1 = n1 * (-length / wp.dot(n1, n1))
    far0 = wp.dot(a, e) / (length * length)
    far1 = wp.dot(b, e) / (length * length)
    return wp.dot(g0, move_a) + wp.dot(g1, move_b) - wp.dot(g0 * far0 + g1 * far1, move_e)


@wp.func
def edge_work(
    a: wp.vec3d,
    b: wp.vec3d,
    e: wp.vec3d,
    moved_a: wp.vec3d,
    moved_b: wp.vec3d,
    moved_e: wp.vec3d,
    start_a: wp.vec3d,
    start_b: wp.vec3d,
    start_e: wp.vec3d,
    multiplier_a: wp.vec3d,
    multiplier_b: wp.vec3d,
    multiplier_e: wp.vec3d,
    rest_angle: wp.float64,
    rest_length: wp.float64,
    stiffness: wp.float64,
    damping: wp.float64,
    dt: wp.float64,
    secant: int,
) -> wp.float64:
    """Work of a bending edge; vectors from its start to the opposite corners a and b and to its end e."""
    angle = edge_angle(a, b, e)
    torque = stiffness * short_way(angle - rest_angle)
    if secant == 1:
        torque += damping / dt * short_way(angle - edge_angle(start_a, start_b, start_e))
    else:
        torque += damping / dt * edge_turn(a, b, e, moved_a, moved_b, moved_e)
    return rest_length * torque * edge_turn(a, b, e, multiplier_a, multiplier_b, multiplier_e)


@wp.func
def tetrahedron_work(
    edges: wp.mat33d,
    start: wp.mat33d,
    multiplier: wp.mat33d,
    pose: wp.mat33d,
    material: wp.vec3d,
    activation: wp.float64,
    dt: wp.float64,
    secant: int,
) -> wp.float64:
    """Work of a tetrahedron with the material (mu, lambda, k_damp); columns from its first corner.

    Without `secant` there is no damping: XPBD's comes before the implicit step, see
    `particles.adjoint.damping`.
    """
    volume = rest_volume(pose)
    F = edges * pose
    Q = multiplier * pose
    slope, J = volume_slope(F)
    P = solid_stress(F, slope, J, material[0], material[1], activation)
    if secant == 1:
        S = start * pose
        change = (wp.transpose(F) * F - wp.transpose(S) * S) * (HALF * material[2] / dt)
        spread = material[1] * wp.trace(change)
        P += F * (change * (TWO * material[0]) + wp.identity(n=3, dtype=wp.float64) * spread)
    return volume * wp.ddot(P, Q)
