"""Forces of springs, triangles, bending edges and tetrahedra: negative gradients of energies, and damping.

Each element writes the force on each of its corners to its own place; particles add up their places
(`penalty.sums`), so that the order of a sum never depends on threads.

Triangles: St. Venant-Kirchhoff membrane. Tetrahedra: stable neo-Hookean energy without logarithm, Smith, de
Goes, Kim, "Stable neo-Hookean flesh simulation", 2018, with parameters such that its moduli at rest are the
Lamé parameters. Bending: Bridson, Marino, Fedkiw, "Simulation of clothing with folds and wrinkles", 2003.

Stage: penalty forces, elements
Called by: solvers/semi_implicit/elements.py
Reads: 14 arrays
Writes: corner
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.aerodynamics import air_force
from newtonsim.kernels.particles.elements.hinge import fold_between, short_way
from newtonsim.kernels.particles.elements.spring import controlled_length
from newtonsim.kernels.particles.elements.tetrahedron import column, rest_volume, solid_stress, volume_slope
from newtonsim.kernels.particles.elements.triangle import (
    deformation_column,
    deformation_columns,
    green_strain,
    membrane_stress,
    strain_change,
)

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# share of the rest volume that limits the divisor of the rate of strain from below
LEAST_VOLUME = wp.constant(0.1)


@wp.kernel
def pull_springs(
    first: int,
    order: wp.array(dtype=int),
    indices: wp.array(dtype=int),
    rest_length: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    control: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    place: int,
    corner: wp.array(dtype=wp.vec3),
):
    """One thread per spring: E = ½ ke (|d| - L)² with L = rest_length (1 - control), and kd along it."""
    s = order[first + wp.tid()]
    i = indices[2 * s]
    j = indices[2 * s + 1]
    d = x[j] - x[i]
    length = wp.length(d)
    pull = wp.vec3(0.0, 0.0, 0.0)
    if length > 0.0:
        n = d / length
        stretch = length - controlled_length(rest_length[s], control[s])
        pull = (stiffness[s] * stretch + damping[s] * wp.dot(n, v[j] - v[i])) * n
    corner[place + 2 * s] = pull
    corner[place + 2 * s + 1] = -pull


@wp.kernel
def stretch_triangles(
    first: int,
    order: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    poses: wp.array(dtype=wp.mat22),
    areas: wp.array(dtype=float),
    materials: wp.array2d(dtype=float),
    activations: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    place: int,
    corner: wp.array(dtype=wp.vec3),
):
    """One thread per triangle: membrane, viscous and aerodynamic forces.

    E = A (ke |G|² + ½ ka (tr G - a)²) with G = ½ (FᵀF - I); the viscous stress is kd dG/dt.
    """
    t = order[first + wp.tid()]
    i = indices[t, 0]
    j = indices[t, 1]
    k = indices[t, 2]
    inverse = poses[t]
    ab = x[j] - x[i]
    ac = x[k] - x[i]
    f0, f1 = deformation_columns(ab, ac, inverse)
    rate0 = deformation_column(v[j] - v[i], v[k] - v[i], inverse, 0)
    rate1 = deformation_column(v[j] - v[i], v[k] - v[i], inverse, 1)
    g00, g11, g01 = green_strain(f0, f1)
    kd = materials[t, 2]
    s00, s11, s01 = membrane_stress(g00, g11, g01, materials[t, 0], materials[t, 1], activations[t])
    rate00, rate11, rate01 = strain_change(f0, f1, rate0, rate1)
    s00 += kd * rate00
    s11 += kd * rate11
    s01 += 0.5 * kd * rate01
    p0 = areas[t] * (f0 * s00 + f1 * s01)
    p1 = areas[t] * (f0 * s01 + f1 * s11)
    on_b = -(p0 * inverse[0, 0] + p1 * inverse[0, 1])
    on_c = -(p0 * inverse[1, 0] + p1 * inverse[1, 1])
    air = air_force(ab, ac, (v[i] + v[j] + v[k]) / 3.0, materials[t, 3], materials[t, 4]) / 3.0
    corner[place + 3 * t] = air - on_b - on_c
    corner[place + 3 * t + 1] = air + on_b
    corner[place + 3 * t + 2] = air + on_c


@wp.kernel
def bend_edges(
    first: int,
    order: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    rest_angle: wp.array(dtype=float),
    rest_length: wp.array(dtype=float),
    properties: wp.array2d(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    place: int,
    corner: wp.array(dtype=wp.vec3),
):
    """One thread per edge between two triangles: E = ½ ke L (θ - θ0)², and the torque kd L dθ/dt."""
    e = order[first + wp.tid()]
    o0 = indices[e, 0]
    o1 = indices[e, 1]
    v0 = indices[e, 2]
    v1 = indices[e, 3]
    edge = x[v1] - x[v0]
    n0 = wp.cross(x[v0] - x[o0], x[v1] - x[o0])
    n1 = wp.cross(x[v1] - x[o1], x[v0] - x[o1])
    fold = fold_between(n0, n1, edge, x[o0] - x[v0], x[o1] - x[v0])
    bend = short_way(fold.angle - rest_angle[e])
    turning = (
        wp.dot(fold.g0, v[o0]) + wp.dot(fold.g1, v[o1]) + wp.dot(fold.g2, v[v0]) + wp.dot(fold.g3, v[v1])
    )
    torque = rest_length[e] * (properties[e, 0] * bend + properties[e, 1] * turning)
    corner[place + 4 * e] = -torque * fold.g0
    corner[place + 4 * e + 1] = -torque * fold.g1
    corner[place + 4 * e + 2] = -torque * fold.g2
    corner[place + 4 * e + 3] = -torque * fold.g3


@wp.kernel
def squeeze_tetrahedra(
    first: int,
    order: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    poses: wp.array(dtype=wp.mat33),
    materials: wp.array2d(dtype=float),
    activations: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    place: int,
    corner: wp.array(dtype=wp.vec3),
):
    """One thread per tetrahedron: elastic and viscous forces.

    E = V (½ mu (tr FᵀF - 3) - mu (J - 1) + ½ (lambda + mu) (J - 1 - a)²); the viscous stress is
    k_damp (2 mu D + lambda tr D) with D the rate of strain.
    """
    t = order[first + wp.tid()]
    i = indices[t, 0]
    j = indices[t, 1]
    k = indices[t, 2]
    l = indices[t, 3]
    inverse = poses[t]
    volume = rest_volume(inverse)
    mu = materials[t, 0]
    lame = materials[t, 1]
    kd = materials[t, 2]
    F = wp.matrix_from_cols(x[j] - x[i], x[k] - x[i], x[l] - x[i]) * inverse
    rate = wp.matrix_from_cols(v[j] - v[i], v[k] - v[i], v[l] - v[i]) * inverse
    slope, J = volume_slope(F)
    # the velocity gradient times J needs no inverse, so that flat and inverted elements are damped as well
    flow = rate * wp.transpose(slope)
    strain = 0.5 * (flow + wp.transpose(flow))
    divided = kd / wp.max(J, LEAST_VOLUME)
    trace = strain[0, 0] + strain[1, 1] + strain[2, 2]
    stress = 2.0 * mu * divided * strain + (lame * divided * trace) * wp.identity(n=3, dtype=float)
    P = solid_stress(F, slope, J, mu, lame, activations[t]) + stress * slope
    H = (-volume) * P * wp.transpose(inverse)
    on_j = column(H, 0)
    on_k = column(H, 1)
    on_l = column(H, 2)
    corner[place + 4 * t] = -(on_j + on_k + on_l)
    corner[place + 4 * t + 1] = on_j
    corner[place + 4 * t + 2] = on_k
    corner[place + 4 * t + 3] = on_l
