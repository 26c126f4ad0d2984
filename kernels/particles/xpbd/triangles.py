"""Triangles of cloth in extended position-based dynamics: St. Venant-Kirchhoff membranes.

Three constraints, the components of Green's strain, are solved together with the stiffness matrix of the
material (Macklin et al. 2016, section 4). With F the 3x2 deformation gradient, a triangle exerts -P on it,
where P = F S and S is the second Piola-Kirchhoff stress times the rest area. P itself is stored, see
`particles.xpbd.springs`. Since the material is isotropic, its axes are rotated to those in which the mobility
G = Dᵀ M⁻¹ D of F is diagonal.

Stage: XPBD substep, sweeps over elements
Called by: solvers/xpbd/elements.py
Reads: TriangleView, 9 arrays
Writes: TriangleView, shift
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.elements.triangle import deformation_columns, green_strain, strain_change
from newtonsim.kernels.particles.xpbd.particles import is_cleared

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# largest change of F in one update, over F or over 1: the response is linearised for small changes
LONGEST = wp.constant(0.3)
# number whose cube, times a thousand, does not overflow
LARGE = wp.constant(1.0e10)


@wp.struct
class TriangleView:
    """T triangles by place; valid during a step."""

    place: wp.array(dtype=int)  # (T) of each triangle of the model
    corner: wp.array(dtype=wp.vec3i)
    weight: wp.array(dtype=wp.vec3)  # inverse masses of the corners [1/kg]
    rest: wp.array(dtype=wp.mat22)  # inverse rest edges in the rotated axes [1/m]
    mobility: wp.array(dtype=wp.vec2)  # diagonal of G [1/(kg m²)]
    stiffness: wp.array(dtype=wp.vec3)  # area times ke, ka, kd [N m, N m, N m s]
    goal: wp.array(dtype=float)  # rest strain along both axes
    force: wp.array(dtype=wp.spatial_vector)  # P along the first and the second axis, negative [N m]


@wp.kernel
def prepare_triangles(
    first: int,
    poses: wp.array(dtype=wp.mat22),
    areas: wp.array(dtype=float),
    materials: wp.array2d(dtype=float),
    activations: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    triangles: TriangleView,
):
    """One thread per triangle: read its parameters from the model at the start of a step."""
    e = first + wp.tid()
    t = triangles.place[e]
    corner = triangles.corner[t]
    w = wp.vec3(inv_mass[corner[0]], inv_mass[corner[1]], inv_mass[corner[2]])
    d = poses[e]
    sum0 = d[0, 0] + d[1, 0]
    sum1 = d[0, 1] + d[1, 1]
    g00 = w[1] * d[0, 0] * d[0, 0] + w[2] * d[1, 0] * d[1, 0] + w[0] * sum0 * sum0
    g11 = w[1] * d[0, 1] * d[0, 1] + w[2] * d[1, 1] * d[1, 1] + w[0] * sum1 * sum1
    g01 = w[1] * d[0, 0] * d[0, 1] + w[2] * d[1, 0] * d[1, 1] + w[0] * sum0 * sum1
    angle = 0.5 * wp.atan2(2.0 * g01, g00 - g11)
    c = wp.cos(angle)
    s = wp.sin(angle)
    triangles.weight[t] = w
    triangles.rest[t] = d * wp.mat22(c, -s, s, c)
    triangles.mobility[t] = wp.vec2(
        c * c * g00 + 2.0 * c * s * g01 + s * s * g11, s * s * g00 - 2.0 * c * s * g01 + c * c * g11
    )
    ke = materials[e, 0]
    ka = materials[e, 1]
    triangles.stiffness[t] = wp.vec3(ke, ka, materials[e, 2]) * areas[e]
    goal = float(0.0)
    if ke + ka > 0.0:
        goal = 0.5 * activations[e] * ka / (ke + ka)
    triangles.goal[t] = goal


@wp.kernel
def clear_triangles(
    first: int, masked: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), triangles: TriangleView
):
    """One thread per triangle: clear the forces of the last substep, in masked worlds or in all."""
    t = triangles.place[first + wp.tid()]
    if is_cleared(masked, mask, world, triangles.corner[t][0]):
        triangles.force[t] = wp.spatial_vector()


@wp.func
def push_corners(
    triangles: TriangleView, t: int, p0: wp.vec3, p1: wp.vec3, dt: float, shift: wp.array(dtype=wp.vec3)
):
    """Move the corners of a triangle by forces on the columns of F that act for a time dt."""
    corner = triangles.corner[t]
    w = triangles.weight[t]
    d = triangles.rest[t]
    q1 = (p0 * d[0, 0] + p1 * d[0, 1]) * (dt * dt)
    q2 = (p0 * d[1, 0] + p1 * d[1, 1]) * (dt * dt)
    shift[corner[0]] = shift[corner[0]] - (q1 + q2) * w[0]
    shift[corner[1]] = shift[corner[1]] + q1 * w[1]
    shift[corner[2]] = shift[corner[2]] + q2 * w[2]


@wp.kernel
def start_triangles(
    first: int, base: int, triangles: TriangleView, keep: float, dt: float, shift: wp.array(dtype=wp.vec3)
):
    """One thread per triangle of a colour: start from a share of the force of the last substep."""
    t = base + first + wp.tid()
    force = triangles.force[t] * keep
    triangles.force[t] = force
    push_corners(triangles, t, wp.spatial_top(force), wp.spatial_bottom(force), dt, shift)


@wp.func
def elastic_stress(f0: wp.vec3, f1: wp.vec3, k: wp.vec3, goal: float) -> wp.vec3:
    """Stress (00, 11, 01) of the strain of F, without viscosity [N m]."""
    k_near = 2.0 * k[0] + k[1]
    g00, g11, g01 = green_strain(f0, f1)
    beyond0 = g00 - goal
    beyond1 = g11 - goal
    return -wp.vec3(k_near * beyond0 + k[1] * beyond1, k[1] * beyond0 + k_near * beyond1, 2.0 * k[0] * g01)


@wp.func
def solve_stress(
    f0: wp.vec3,
    f1: wp.vec3,
    p0: wp.vec3,
    p1: wp.vec3,
    g0: float,
    g1: float,
    k: wp.vec3,
    viscous: float,
    stress: wp.vec3,
) -> wp.vec3:
    """Stress that agrees with the strain that it causes.

    Args:
        f0: First column of F.
        f1: Second column.
        p0: Force on the first column so far [N m].
        p1: On the second one.
        g0: Mobility of the first column times dt² [1/(N m)].
        g1: Of the second one.
        k: Stiffness, see `TriangleView`.
        viscous: Viscosity over dt [N m].
        stress: Stress of the current strain [N m].
    """
    a = wp.dot(f0, f0)
    b = wp.dot(f0, f1)
    c = wp.dot(f1, f1)
    h_near = 2.0 * k[0] + k[1] + viscous
    h_far = k[1]
    h_shear = k[0] + 0.5 * viscous
    q0 = g0 * wp.dot(f0, p0)
    q1 = g1 * wp.dot(f1, p1)
    q2 = g0 * wp.dot(f1, p0) + g1 * wp.dot(f0, p1)
    b00 = g0 * a
    b02 = g0 * b
    b11 = g1 * c
    b12 = g1 * b
    b22 = g0 * c + g1 * a
    right = stress + wp.vec3(h_near * q0 + h_far * q1, h_far * q0 + h_near * q1, h_shear * q2)
    system = wp.mat33(
        1.0 + h_near * b00,
        h_far * b11,
        h_near * b02 + h_far * b12,
        h_far * b00,
        1.0 + h_near * b11,
        h_far * b02 + h_near * b12,
        h_shear * b02,
        h_shear * b12,
        1.0 + h_shear * b22,
    )
    # the determinant has three factors of stiffness over inertia, which overflow in small stiff cloth;
    # elsewhere, scaling would cost accuracy
    size = wp.max(wp.max(system[0, 0], system[1, 1]), system[2, 2])
    if size > LARGE:
        system = system / size
        right = right / size
    return wp.inverse(system) * right


@wp.kernel
def solve_triangles(
    first: int,
    base: int,
    triangles: TriangleView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    fresh: int,
    relaxation: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per triangle of a colour: make its stress agree with the strain that it causes.

    With C the strains (ε00, ε11, 2 ε01), E their gradients, K and D stiffness and viscosity, the stress λ
    solves λ = -K (C + ΔC - C0) - D (Ċ + ΔC / dt), ΔC = dt² E (λ E - P) G, where P is the force so far. The
    current magnitude of the stress resists the rotation of P, so that taut cloth converges.
    """
    t = base + first + wp.tid()
    corner = triangles.corner[t]
    d = triangles.rest[t]
    mobility = triangles.mobility[t]
    s0 = shift[corner[0]]
    s1 = shift[corner[1]] - s0
    s2 = shift[corner[2]] - s0
    f0, f1 = deformation_columns((x[corner[1]] - x[corner[0]]) + s1, (x[corner[2]] - x[corner[0]]) + s2, d)
    k = triangles.stiffness[t]
    stress = elastic_stress(f0, f1, k, triangles.goal[t])
    viscous = float(0.0)
    if k[2] > 0.0:
        viscous = k[2] / dt
        m1 = (v[corner[1]] - v[corner[0]]) * dt + s1
        m2 = (v[corner[2]] - v[corner[0]]) * dt + s2
        r0, r1 = deformation_columns(m1, m2, d)
        moved00, moved11, moved01 = strain_change(f0, f1, r0, r1)
        stress -= wp.vec3(moved00, moved11, 0.5 * moved01) * viscous
    p0 = wp.vec3(0.0)
    p1 = wp.vec3(0.0)
    if fresh == 0:
        p0 = wp.spatial_top(triangles.force[t])
        p1 = wp.spatial_bottom(triangles.force[t])
    size = wp.dot(f0, f0) + wp.dot(f1, f1)
    turning = dt * dt * wp.sqrt((wp.dot(p0, p0) + wp.dot(p1, p1)) / wp.max(size, 1.0e-6))
    y0 = 1.0 / (1.0 + turning * mobility[0])
    y1 = 1.0 / (1.0 + turning * mobility[1])
    g0 = dt * dt * mobility[0] * y0
    g1 = dt * dt * mobility[1] * y1
    stress = solve_stress(f0, f1, p0, p1, g0, g1, k, viscous, stress)
    c0 = (f0 * stress[0] + f1 * stress[2] - p0) * y0
    c1 = (f1 * stress[1] + f0 * stress[2] - p1) * y1
    moved = dt * dt * wp.sqrt(wp.length_sq(c0 * mobility[0]) + wp.length_sq(c1 * mobility[1]))
    most = LONGEST * wp.sqrt(wp.max(size, 1.0))
    scale = relaxation
    if moved > most:
        scale *= most / moved
    c0 = c0 * scale
    c1 = c1 * scale
    triangles.force[t] = wp.spatial_vector(p0 + c0, p1 + c1)
    push_corners(triangles, t, c0, c1, dt, shift)
