"""Derivatives of the work of springs, triangles, bending edges and tetrahedra, for adjoints.

All terms are derivatives of `particles.adjoint.work`. Those by the displacement of the step, for unit vectors
λ, are the matrix of the linear system; at the solution λ, those by positions and parameters are their
gradients, and those by λ are the forces.

Stage: backward pass of particles, elements
Called by: solvers/particles/adjoint_elements.py, solvers/particles/adjoint_system.py,
    kernels/particles/adjoint/body_touches.py, kernels/particles/adjoint/contacts.py
Reads: EdgeView, MatrixView, SpringView, SubstepView, TetrahedronView, TriangleView, diagonal, entry
Writes: EdgeView, MatrixView, SpringView, SubstepView, TetrahedronView, TriangleView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.work import edge_work, spring_work, tetrahedron_work, triangle_work
from newtonsim.kernels.particles.elements.tetrahedron import column

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.struct
class SubstepView:
    """A substep of N particles, as needed by its adjoint."""

    dt: wp.float64  # length [s]
    secant: int  # 1 if damping is by changes of strain, 0 if by rates at the end
    mass: wp.array(dtype=wp.float64)  # (N) [kg] 0 for held particles
    x: wp.array(dtype=wp.vec3)  # (N) [m] positions at the start
    u: wp.array(dtype=wp.vec3)  # (N) [m] displacements
    rate: wp.array(dtype=wp.vec3)  # (N) [m] displacements for damping, which include those of held particles
    multiplier: wp.array(dtype=wp.vec3d)  # (N) λ
    slope_x: wp.array(dtype=wp.vec3d)  # (N) gradients with respect to x, added to
    slope_rate: wp.array(dtype=wp.vec3d)  # (N) gradients with respect to rate, added to
    residual: wp.array(dtype=wp.vec3d)  # (N) [N] R, to which forces are added


@wp.struct
class MatrixView:
    """Transposed slope of the particles' residual with respect to displacements, as sparse 3 x 3 blocks."""

    row_start: wp.array(dtype=int)  # (N + 1)
    column: wp.array(dtype=int)  # (B) in ascending order in each row
    value: wp.array(dtype=wp.mat33d)  # (B) [N/m]


@wp.func
def end_gap(s: SubstepView, i: int, j: int) -> wp.vec3d:
    """Vector from particle i to particle j at the end of the substep."""
    return (wp.vec3d(s.x[j]) - wp.vec3d(s.x[i])) + (wp.vec3d(s.u[j]) - wp.vec3d(s.u[i]))


@wp.func
def start_gap(s: SubstepView, i: int, j: int) -> wp.vec3d:
    """Vector from particle i to particle j at its start."""
    return wp.vec3d(s.x[j]) - wp.vec3d(s.x[i])


@wp.func
def rate_gap(s: SubstepView, i: int, j: int) -> wp.vec3d:
    """Displacement of particle j relative to particle i, for damping."""
    return wp.vec3d(s.rate[j]) - wp.vec3d(s.rate[i])


@wp.func
def multiplier_gap(s: SubstepView, i: int, j: int) -> wp.vec3d:
    """Difference of the multipliers of particles j and i."""
    return s.multiplier[j] - s.multiplier[i]


@wp.func
def unit(axis: int) -> wp.vec3d:
    """Unit vector."""
    e = wp.vec3d()
    e[axis] = ONE
    return e


@wp.func
def pair_sign(corner: int, k: int) -> wp.float64:
    """Slope of the vector from corner 0 to corner k with respect to corner `corner`."""
    sign = ZERO
    if corner == k:
        sign = ONE
    if corner == 0:
        sign = -ONE
    return sign


@wp.func
def add_block(m: MatrixView, place: int, column: int, value: wp.vec3d):
    """Add a column of a block."""
    block = wp.mat33d()
    for row in range(3):
        block[row, column] = value[row]
    wp.atomic_add(m.value, place, block)


@wp.kernel
def weigh_particles(first: int, s: SubstepView, diagonal: wp.array(dtype=int), m: MatrixView):
    """One thread per particle: clear its row, and put its inertia on the diagonal."""
    i = first + wp.tid()
    for k in range(m.row_start[i], m.row_start[i + 1]):
        m.value[k] = wp.mat33d()
    m.value[diagonal[i]] = wp.identity(n=3, dtype=wp.float64) * (s.mass[i] / (s.dt * s.dt))


@wp.struct
class SpringView:
    """S springs and their gradients."""

    indices: wp.array(dtype=int)
    rest_length: wp.array(dtype=float)
    stiffness: wp.array(dtype=float)
    damping: wp.array(dtype=float)
    control: wp.array(dtype=float)
    rest_length_grad: wp.array(dtype=float)
    stiffness_grad: wp.array(dtype=float)
    damping_grad: wp.array(dtype=float)
    control_grad: wp.array(dtype=float)


@wp.func
def spring_slopes(springs: SpringView, e: int, s: SubstepView, multiplier: wp.vec3d):
    """Slopes of the work of spring e with respect to all arguments of `spring_work` but the last two."""
    i = springs.indices[2 * e]
    j = springs.indices[2 * e + 1]
    d, moved, start, by_multiplier, rest, stiffness, damping, control, dt, kind = wp.grad(spring_work)(
        end_gap(s, i, j),
        rate_gap(s, i, j),
        start_gap(s, i, j),
        multiplier,
        wp.float64(springs.rest_length[e]),
        wp.float64(springs.stiffness[e]),
        wp.float64(springs.damping[e]),
        wp.float64(springs.control[e]),
        s.dt,
        s.secant,
    )
    return d, moved, start, by_multiplier, rest, stiffness, damping, control


@wp.func
def pulls(springs: SpringView, e: int, s: SubstepView) -> bool:
    """Whether the ends of a spring are separate."""
    d = end_gap(s, springs.indices[2 * e], springs.indices[2 * e + 1])
    return wp.dot(d, d) > ZERO


@wp.kernel
def weigh_springs(first: int, springs: SpringView, s: SubstepView, entry: wp.array(dtype=int), m: MatrixView):
    """One thread per spring: its blocks of the matrix."""
    e = first + wp.tid()
    if not pulls(springs, e, s):
        return
    for axis in range(3):
        d, moved, start, force, rest, stiffness, damping, control = spring_slopes(springs, e, s, unit(axis))
        slope = d + moved
        # rows: the end that moves; columns: the end of the residual
        add_block(m, entry[4 * e], axis, slope)
        add_block(m, entry[4 * e + 1], axis, -slope)
        add_block(m, entry[4 * e + 2], axis, -slope)
        add_block(m, entry[4 * e + 3], axis, slope)


@wp.kernel
def reverse_springs(first: int, springs: SpringView, s: SubstepView):
    """One thread per spring: gradients of the work at the multipliers, with the other sign."""
    e = first + wp.tid()
    if not pulls(springs, e, s):
        return
    i = springs.indices[2 * e]
    j = springs.indices[2 * e + 1]
    d, moved, start, force, rest, stiffness, damping, control = spring_slopes(
        springs, e, s, multiplier_gap(s, i, j)
    )
    wp.atomic_add(s.slope_x, i, d + start)
    wp.atomic_add(s.slope_x, j, -(d + start))
    wp.atomic_add(s.slope_rate, i, moved)
    wp.atomic_add(s.slope_rate, j, -moved)
    wp.atomic_add(s.residual, i, -force)
    wp.atomic_add(s.residual, j, force)
    springs.rest_length_grad[e] = springs.rest_length_grad[e] - float(rest)
    springs.stiffness_grad[e] = springs.stiffness_grad[e] - float(stiffness)
    springs.damping_grad[e] = springs.damping_grad[e] - float(damping)
    springs.control_grad[e] = springs.control_grad[e] - float(control)


@wp.struct
class TriangleView:
    """T triangles and their gradients."""

    indices: wp.array2d(dtype=int)
    poses: wp.array(dtype=wp.mat22)
    areas: wp.array(dtype=float)
    materials: wp.array2d(dtype=float)
    activations: wp.array(dtype=float)
    poses_grad: wp.array(dtype=wp.mat22)
    areas_grad: wp.array(dtype=float)
    materials_grad: wp.array2d(dtype=float)
    activations_grad: wp.array(dtype=float)


@wp.func
def triangle_slopes(t: TriangleView, e: int, s: SubstepView, multiplier_b: wp.vec3d, multiplier_c: wp.vec3d):
    """Slopes of the work of triangle e with respect to all arguments of `triangle_work` but the last two."""
    i = t.indices[e, 0]
    j = t.indices[e, 1]
    k = t.indices[e, 2]
    b, c, mb, mc, sb, sc, lb, lc, pose, area, material, activation, dt, kind = wp.grad(triangle_work)(
        end_gap(s, i, j),
        end_gap(s, i, k),
        rate_gap(s, i, j),
        rate_gap(s, i, k),
        start_gap(s, i, j),
        start_gap(s, i, k),
        multiplier_b,
        multiplier_c,
        wp.mat22d(t.poses[e]),
        wp.float64(t.areas[e]),
        wp.vec3d(wp.float64(t.materials[e, 0]), wp.float64(t.materials[e, 1]), wp.float64(t.materials[e, 2])),
        wp.float64(t.activations[e]),
        s.dt,
        s.secant,
    )
    return b, c, mb, mc, sb, sc, lb, lc, pose, area, material, activation


@wp.kernel
def weigh_triangles(first: int, t: TriangleView, s: SubstepView, entry: wp.array(dtype=int), m: MatrixView):
    """One thread per triangle: its blocks of the matrix."""
    e = first + wp.tid()
    for corner in range(3):
        for axis in range(3):
            lb = unit(axis) * pair_sign(corner, 1)
            lc = unit(axis) * pair_sign(corner, 2)
            b, c, mb, mc, sb, sc, force_b, force_c, pose, area, material, activation = triangle_slopes(
                t, e, s, lb, lc
            )
            on_b = b + mb
            on_c = c + mc
            add_block(m, entry[9 * e + corner], axis, -(on_b + on_c))
            add_block(m, entry[9 * e + 3 + corner], axis, on_b)
            add_block(m, entry[9 * e + 6 + corner], axis, on_c)


@wp.kernel
def reverse_triangles(first: int, t: TriangleView, s: SubstepView):
    """One thread per triangle: gradients of the work at the multipliers, with the other sign."""
    e = first + wp.tid()
    i = t.indices[e, 0]
    j = t.indices[e, 1]
    k = t.indices[e, 2]
    b, c, mb, mc, sb, sc, force_b, force_c, pose, area, material, activation = triangle_slopes(
        t, e, s, multiplier_gap(s, i, j), multiplier_gap(s, i, k)
    )
    wp.atomic_add(s.slope_x, i, b + sb + c + sc)
    wp.atomic_add(s.slope_x, j, -(b + sb))
    wp.atomic_add(s.slope_x, k, -(c + sc))
    wp.atomic_add(s.slope_rate, i, mb + mc)
    wp.atomic_add(s.slope_rate, j, -mb)
    wp.atomic_add(s.slope_rate, k, -mc)
    wp.atomic_add(s.residual, i, -(force_b + force_c))
    wp.atomic_add(s.residual, j, force_b)
    wp.atomic_add(s.residual, k, force_c)
    t.poses_grad[e] = t.poses_grad[e] - wp.mat22(pose)
    t.areas_grad[e] = t.areas_grad[e] - float(area)
    t.activations_grad[e] = t.activations_grad[e] - float(activation)
    for n in range(3):
        t.materials_grad[e, n] = t.materials_grad[e, n] - float(material[n])


@wp.struct
class EdgeView:
    """E bending edges and their gradients."""

    indices: wp.array2d(dtype=int)
    rest_angle: wp.array(dtype=float)
    rest_length: wp.array(dtype=float)
    properties: wp.array2d(dtype=float)
    rest_angle_grad: wp.array(dtype=float)
    rest_length_grad: wp.array(dtype=float)
    properties_grad: wp.array2d(dtype=float)


@wp.func
def has_area(a: wp.vec3d, b: wp.vec3d) -> bool:
    """Whether two edges of a triangle are not collinear."""
    n = wp.cross(a, b)
    return wp.dot(n, n) > ZERO


@wp.func
def bends(edges: EdgeView, e: int, s: SubstepView) -> bool:
    """Whether an edge lies between two triangles that both have an area, at the start and at the end."""
    i = edges.indices[e, 2]
    if edges.indices[e, 0] < 0 or edges.indices[e, 1] < 0 or i < 0 or edges.indices[e, 3] < 0:
        return False
    j = edges.indices[e, 3]
    bent = bool(True)
    for side in range(2):
        o = edges.indices[e, side]
        bent = bent and has_area(end_gap(s, i, j), end_gap(s, i, o))
        bent = bent and has_area(start_gap(s, i, j), start_gap(s, i, o))
    return bent


@wp.func
def edge_slopes(
    edges: EdgeView,
    e: int,
    s: SubstepView,
    multiplier_a: wp.vec3d,
    multiplier_b: wp.vec3d,
    multiplier_e: wp.vec3d,
):
    """Slopes of the work of edge e with respect to all arguments of `edge_work` but the last two."""
    o0 = edges.indices[e, 0]
    o1 = edges.indices[e, 1]
    i = edges.indices[e, 2]
    j = edges.indices[e, 3]
    a, b, g, ma, mb, mg, sa, sb, sg, la, lb, lg, angle, length, ke, kd, dt, kind = wp.grad(edge_work)(
        end_gap(s, i, o0),
        end_gap(s, i, o1),
        end_gap(s, i, j),
        rate_gap(s, i, o0),
        rate_gap(s, i, o1),
        rate_gap(s, i, j),
        start_gap(s, i, o0),
        start_gap(s, i, o1),
        start_gap(s, i, j),
        multiplier_a,
        multiplier_b,
        multiplier_e,
        wp.float64(edges.rest_angle[e]),
        wp.float64(edges.rest_length[e]),
        wp.float64(edges.properties[e, 0]),
        wp.float64(edges.properties[e, 1]),
        s.dt,
        s.secant,
    )
    return a, b, g, ma, mb, mg, sa, sb, sg, la, lb, lg, angle, length, ke, kd


@wp.kernel
def weigh_edges(first: int, edges: EdgeView, s: SubstepView, entry: wp.array(dtype=int), m: MatrixView):
    """One thread per bending edge: its blocks of the matrix; corners in the order start, a, b, end."""
    e = first + wp.tid()
    if not bends(edges, e, s):
        return
    for corner in range(4):
        for axis in range(3):
            la = unit(axis) * pair_sign(corner, 1)
            lb = unit(axis) * pair_sign(corner, 2)
            le = unit(axis) * pair_sign(corner, 3)
            a, b, g, ma, mb, mg, sa, sb, sg, fa, fb, fg, angle, length, ke, kd = edge_slopes(
                edges, e, s, la, lb, le
            )
            on_a = a + ma
            on_b = b + mb
            on_e = g + mg
            add_block(m, entry[16 * e + corner], axis, -(on_a + on_b + on_e))
            add_block(m, entry[16 * e + 4 + corner], axis, on_a)
            add_block(m, entry[16 * e + 8 + corner], axis, on_b)
            add_block(m, entry[16 * e + 12 + corner], axis, on_e)


@wp.kernel
def reverse_edges(first: int, edges: EdgeView, s: SubstepView):
    """One thread per bending edge: gradients of the work at the multipliers, with the other sign."""
    e = first + wp.tid()
    if not bends(edges, e, s):
        return
    o0 = edges.indices[e, 0]
    o1 = edges.indices[e, 1]
    i = edges.indices[e, 2]
    j = edges.indices[e, 3]
    a, b, g, ma, mb, mg, sa, sb, sg, fa, fb, fg, angle, length, ke, kd = edge_slopes(
        edges, e, s, multiplier_gap(s, i, o0), multiplier_gap(s, i, o1), multiplier_gap(s, i, j)
    )
    wp.atomic_add(s.slope_x, i, a + sa + b + sb + g + sg)
    wp.atomic_add(s.slope_x, o0, -(a + sa))
    wp.atomic_add(s.slope_x, o1, -(b + sb))
    wp.atomic_add(s.slope_x, j, -(g + sg))
    wp.atomic_add(s.slope_rate, i, ma + mb + mg)
    wp.atomic_add(s.slope_rate, o0, -ma)
    wp.atomic_add(s.slope_rate, o1, -mb)
    wp.atomic_add(s.slope_rate, j, -mg)
    wp.atomic_add(s.residual, i, -(fa + fb + fg))
    wp.atomic_add(s.residual, o0, fa)
    wp.atomic_add(s.residual, o1, fb)
    wp.atomic_add(s.residual, j, fg)
    edges.rest_angle_grad[e] = edges.rest_angle_grad[e] - float(angle)
    edges.rest_length_grad[e] = edges.rest_length_grad[e] - float(length)
    edges.properties_grad[e, 0] = edges.properties_grad[e, 0] - float(ke)
    edges.properties_grad[e, 1] = edges.properties_grad[e, 1] - float(kd)


@wp.struct
class TetrahedronView:
    """T tetrahedra and their gradients."""

    indices: wp.array2d(dtype=int)
    poses: wp.array(dtype=wp.mat33)
    materials: wp.array2d(dtype=float)
    activations: wp.array(dtype=float)
    poses_grad: wp.array(dtype=wp.mat33)
    materials_grad: wp.array2d(dtype=float)
    activations_grad: wp.array(dtype=float)


@wp.func
def tetrahedron_slopes(t: TetrahedronView, e: int, s: SubstepView, multiplier: wp.mat33d):
    """Slopes of its work with respect to edges at the end and the start, multiplier and parameters."""
    i = t.indices[e, 0]
    j = t.indices[e, 1]
    k = t.indices[e, 2]
    l = t.indices[e, 3]
    edges, start, by_multiplier, pose, material, activation, dt, kind = wp.grad(tetrahedron_work)(
        wp.matrix_from_cols(end_gap(s, i, j), end_gap(s, i, k), end_gap(s, i, l)),
        wp.matrix_from_cols(start_gap(s, i, j), start_gap(s, i, k), start_gap(s, i, l)),
        multiplier,
        wp.mat33d(t.poses[e]),
        wp.vec3d(wp.float64(t.materials[e, 0]), wp.float64(t.materials[e, 1]), wp.float64(t.materials[e, 2])),
        wp.float64(t.activations[e]),
        s.dt,
        s.secant,
    )
    return edges, start, by_multiplier, pose, material, activation


@wp.kernel
def weigh_tetrahedra(
    first: int, t: TetrahedronView, s: SubstepView, entry: wp.array(dtype=int), m: MatrixView
):
    """One thread per tetrahedron: its blocks of the matrix."""
    e = first + wp.tid()
    for corner in range(4):
        for axis in range(3):
            multiplier = wp.mat33d()
            for k in range(3):
                multiplier[axis, k] = pair_sign(corner, k + 1)
            edges, start, force, pose, material, activation = tetrahedron_slopes(t, e, s, multiplier)
            on_1 = column(edges, 0)
            on_2 = column(edges, 1)
            on_3 = column(edges, 2)
            add_block(m, entry[16 * e + corner], axis, -(on_1 + on_2 + on_3))
            add_block(m, entry[16 * e + 4 + corner], axis, on_1)
            add_block(m, entry[16 * e + 8 + corner], axis, on_2)
            add_block(m, entry[16 * e + 12 + corner], axis, on_3)


@wp.kernel
def reverse_tetrahedra(first: int, t: TetrahedronView, s: SubstepView):
    """One thread per tetrahedron: gradients of the work at the multipliers, with the other sign."""
    e = first + wp.tid()
    i = t.indices[e, 0]
    multiplier = wp.matrix_from_cols(
        multiplier_gap(s, i, t.indices[e, 1]),
        multiplier_gap(s, i, t.indices[e, 2]),
        multiplier_gap(s, i, t.indices[e, 3]),
    )
    edges, start, force, pose, material, activation = tetrahedron_slopes(t, e, s, multiplier)
    edges = edges + start
    for k in range(3):
        by_gap = column(edges, k)
        wp.atomic_add(s.slope_x, i, by_gap)
        wp.atomic_add(s.slope_x, t.indices[e, k + 1], -by_gap)
        on_corner = column(force, k)
        wp.atomic_add(s.residual, i, -on_corner)
        wp.atomic_add(s.residual, t.indices[e, k + 1], on_corner)
        t.materials_grad[e, k] = t.materials_grad[e, k] - float(material[k])
    t.poses_grad[e] = t.poses_grad[e] - wp.mat33(pose)
    t.activations_grad[e] = t.activations_grad[e] - float(activation)
