"""Element data for a substep of vertex block descent, in the order of access.

Materials, rest shapes and activations are read in each substep, so that changes take effect.
`particles.vbd.elements` explains the numbers.

Stage: VBD substep, before the sweeps
Called by: solvers/vbd/particles.py
Reads: EdgeView, SpringView, StencilView, TetrahedronView, TriangleView
Writes: StencilView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.elements.hinge import short_way
from newtonsim.kernels.particles.elements.spring import controlled_length
from newtonsim.kernels.particles.elements.tetrahedron import rest_volume
from newtonsim.kernels.particles.vbd.elements import StencilView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class SpringView:
    """Springs as the model has them."""

    order: wp.array(dtype=int)  # springs in the order of the worlds
    indices: wp.array(dtype=int)
    rest_length: wp.array(dtype=float)
    stiffness: wp.array(dtype=float)
    damping: wp.array(dtype=float)
    control: wp.array(dtype=float)


@wp.struct
class EdgeView:
    """Bending edges as the model has them."""

    order: wp.array(dtype=int)  # edges in the order of the worlds
    indices: wp.array2d(dtype=int)
    rest_angle: wp.array(dtype=float)
    rest_length: wp.array(dtype=float)
    properties: wp.array2d(dtype=float)


@wp.struct
class TriangleView:
    """Triangles as the model has them."""

    indices: wp.array2d(dtype=int)
    poses: wp.array(dtype=wp.mat22)
    areas: wp.array(dtype=float)
    materials: wp.array2d(dtype=float)
    activation: wp.array(dtype=float)


@wp.struct
class TetrahedronView:
    """Tetrahedra as the model has them."""

    indices: wp.array2d(dtype=int)
    poses: wp.array(dtype=wp.mat33)
    materials: wp.array2d(dtype=float)
    activation: wp.array(dtype=float)


@wp.kernel
def pack_springs(first: int, springs: SpringView, dt: float, stencils: StencilView):
    """One thread per spring: stiffness and rest length that represent spring and damper."""
    s = springs.order[first + wp.tid()]
    start = wp.length(stencils.x[springs.indices[2 * s + 1]] - stencils.x[springs.indices[2 * s]])
    rest = controlled_length(springs.rest_length[s], springs.control[s])
    viscous = springs.damping[s] / dt
    total = springs.stiffness[s] + viscous
    stencils.spring_row[2 * s] = total
    stencils.spring_row[2 * s + 1] = rest
    if viscous > 0.0:
        stencils.spring_row[2 * s + 1] = rest + (start - rest) * (viscous / total)


@wp.func
def bending_angle(o0: wp.vec3, o1: wp.vec3, v0: wp.vec3, v1: wp.vec3) -> float:
    """Angle between the triangles (o0, v0, v1) and (o1, v1, v0) [rad], 0 when flat."""
    n0 = wp.cross(v0 - o0, v1 - o0)
    n1 = wp.cross(v1 - o1, v0 - o1)
    return wp.atan2(wp.length(v1 - v0) * wp.dot(n0, v0 - o1), wp.dot(n0, n1))


@wp.kernel
def pack_edges(first: int, edges: EdgeView, dt: float, stencils: StencilView):
    """One thread per bending edge: stiffness and rest angle that represent spring and damper."""
    e = edges.order[first + wp.tid()]
    viscous = edges.properties[e, 1] / dt
    total = edges.properties[e, 0] + viscous
    rest = edges.rest_angle[e]
    o0 = edges.indices[e, 0]
    o1 = edges.indices[e, 1]
    if viscous > 0.0 and o0 >= 0 and o1 >= 0:
        x = stencils.x
        angle = bending_angle(x[o0], x[o1], x[edges.indices[e, 2]], x[edges.indices[e, 3]])
        rest += short_way(angle - rest) * (viscous / total)
    stencils.edge_row[2 * e] = total * edges.rest_length[e]
    stencils.edge_row[2 * e + 1] = rest


@wp.kernel
def pack_triangles(
    first: int,
    base: int,
    triangles: TriangleView,
    dt: float,
    stencils: StencilView,
):
    """One thread per particle of one colour: rows of its triangles.

    A row is N (11, 12, 22), A ke and A ka, A (ke N C' N) (1, 1) and 1 + a; ke and C' represent elasticity and
    damping together.
    """
    slot = base + first + wp.tid()
    i = stencils.vertex[slot]
    x = stencils.x
    row = stencils.triangle_row
    for pair in range(stencils.triangle_start[slot], stencils.triangle_start[slot + 1]):
        t = stencils.triangle_element[pair]
        j = stencils.triangle_corner[2 * pair]
        k = stencils.triangle_corner[2 * pair + 1]
        inverse = triangles.poses[t]
        # gradients of the shape functions of the other two corners
        w1 = wp.vec2(inverse[0, 0], inverse[0, 1])
        w2 = wp.vec2(inverse[1, 0], inverse[1, 1])
        p = w1
        q = w2
        if triangles.indices[t, 1] == i:
            p = w2
            q = -w1 - w2
        elif triangles.indices[t, 2] == i:
            p = -w1 - w2
            q = w1
        n11 = wp.dot(p, p)
        n12 = wp.dot(p, q)
        n22 = wp.dot(q, q)
        area = triangles.areas[t]
        ke = area * triangles.materials[t, 0]
        viscous = 0.5 * area * triangles.materials[t, 2] / dt
        h1 = n11 + n12
        h2 = n12 + n22
        t1 = ke * h1
        t2 = ke * h2
        if viscous > 0.0:
            a = x[j] - x[i]
            b = x[k] - x[i]
            c12 = wp.dot(a, b)
            z1 = wp.dot(a, a) * h1 + c12 * h2
            z2 = c12 * h1 + wp.dot(b, b) * h2
            t1 += viscous * (n11 * z1 + n12 * z2)
            t2 += viscous * (n12 * z1 + n22 * z2)
        row[8 * pair] = n11
        row[8 * pair + 1] = n12
        row[8 * pair + 2] = n22
        row[8 * pair + 3] = ke + viscous
        row[8 * pair + 4] = area * triangles.materials[t, 1]
        row[8 * pair + 5] = t1
        row[8 * pair + 6] = t2
        row[8 * pair + 7] = 1.0 + triangles.activation[t]


@wp.func
def shape_slope(inverse: wp.mat33, indices: wp.array2d(dtype=int), t: int, i: int) -> wp.vec3:
    """Gradient of the shape function of particle i in tetrahedron t [1/m]."""
    w = -(inverse[0] + inverse[1] + inverse[2])
    for corner in range(3):
        if indices[t, corner + 1] == i:
            w = inverse[corner]
    return w


@wp.kernel
def pack_tetrahedra(
    first: int,
    base: int,
    tetrahedra: TetrahedronView,
    dt: float,
    stencils: StencilView,
):
    """One thread per particle of one colour: rows of its tetrahedra.

    A row is V mu w·w' for the other corners and for the particle itself, 1 / 6 V, V (lambda + mu), the J
    without pressure, and whether there is damping. The damping row is N (11, 12, 13, 22, 23, 33), V mu' N C'
    N (1, 1, 1), V mu', half of V lambda', and N:C', with C' at the start of the substep and viscosities over
    dt.
    """
    slot = base + first + wp.tid()
    i = stencils.vertex[slot]
    row = stencils.tetrahedron_row
    for pair in range(stencils.tetrahedron_start[slot], stencils.tetrahedron_start[slot + 1]):
        corner = 4 * pair
        t = stencils.tetrahedron_corner[corner + 3]
        inverse = tetrahedra.poses[t]
        volume = rest_volume(inverse)
        w = shape_slope(inverse, tetrahedra.indices, t, i)
        mu = tetrahedra.materials[t, 0]
        lame = tetrahedra.materials[t, 1]
        k_damp = tetrahedra.materials[t, 2]
        for c in range(3):
            other = shape_slope(inverse, tetrahedra.indices, t, stencils.tetrahedron_corner[corner + c])
            row[8 * pair + c] = volume * mu * wp.dot(w, other)
        row[8 * pair + 3] = volume * mu * wp.dot(w, w)
        row[8 * pair + 4] = 1.0 / (6.0 * volume)
        row[8 * pair + 5] = volume * (lame + mu)
        pressed = float(0.0)
        if lame + mu > 0.0:
            pressed = mu / (lame + mu)
        row[8 * pair + 6] = 1.0 + tetrahedra.activation[t] + pressed
        row[8 * pair + 7] = k_damp
        if k_damp > 0.0:
            pack_damping(stencils, tetrahedra.indices, inverse, pair, i, volume * k_damp / dt, mu, lame)


@wp.func
def pack_damping(
    s: StencilView,
    indices: wp.array2d(dtype=int),
    inverse: wp.mat33,
    pair: int,
    i: int,
    scale: float,
    mu: float,
    lame: float,
):
    """Write the damping of a pair, see `pack_tetrahedra`."""
    j = s.tetrahedron_corner[4 * pair]
    k = s.tetrahedron_corner[4 * pair + 1]
    l = s.tetrahedron_corner[4 * pair + 2]
    t = s.tetrahedron_corner[4 * pair + 3]
    w = wp.matrix_from_rows(
        shape_slope(inverse, indices, t, j),
        shape_slope(inverse, indices, t, k),
        shape_slope(inverse, indices, t, l),
    )
    D = wp.matrix_from_cols(s.x[j] - s.x[i], s.x[k] - s.x[i], s.x[l] - s.x[i])
    N = w * wp.transpose(w)
    NC = N * wp.transpose(D) * D
    held = NC * N * wp.vec3(scale * mu)
    out = s.tetrahedron_damping
    place = 12 * pair
    out[place] = N[0, 0]
    out[place + 1] = N[0, 1]
    out[place + 2] = N[0, 2]
    out[place + 3] = N[1, 1]
    out[place + 4] = N[1, 2]
    out[place + 5] = N[2, 2]
    for c in range(3):
        out[place + 6 + c] = held[c]
    out[place + 9] = scale * mu
    out[place + 10] = 0.5 * scale * lame
    out[place + 11] = wp.trace(NC)
