"""Forces and Hessians of elements with respect to one of their particles, for vertex block descent.

Chen, Liu, Yang, Yuksel, "Vertex Block Descent", TOG 43(4), 2024. Each particle adds up the contributions of
its elements: the exact negative gradient of the energy, and its block of the Hessian, made positive
semidefinite. All energies are functions of the edges from the particle to its neighbours, so that rest data
reduces to a few numbers for each pair of a particle and an element (a row, see `particles.vbd.rows`):

- Triangle, edges D = [p, q], C = DᵀD, N the inverse of C at rest: the Green strain has the trace
  ½ N:C - 1, and the gradient is -D S 1 with S = A (ke (N C N - N) + ka (tr G - a) N).
- Tetrahedron: J is affine in each corner, so the block V (mu |w|² 1 + (lambda + mu) ∇J ∇Jᵀ) is exact, and the
  part with mu is linear (w the gradient of the corner's shape function).
- Bending edge and spring: Gauss-Newton, without the part that may be indefinite.
- Damping is that of a potential that grows with the change of strain, angle or length since the start of the
  substep; for springs and edges, it is equivalent to a different stiffness and a different rest length or
  angle.

Positions are x + u, where u is the displacement in the substep. Differences of x and of u are computed
separately, so that rounding of large coordinates does not act as a strain. The loops are in C++, as in
`sparse_blas`: all arrays have to be contiguous.

Stage: VBD substep, sweeps
Called by: kernels/particles/vbd/self_contact_sweep.py, kernels/particles/vbd/sweep.py
Reads: StencilView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class StencilView:
    """Particles with the elements around each of them; N particles, S places in the order of the colours."""

    x: wp.array(dtype=wp.vec3)  # (N) [m] at the start of the substep
    u: wp.array(dtype=wp.vec3)  # (N) [m] displacement since then
    longest: wp.array(dtype=float)  # (N) [m] largest extension of a step by over-relaxation
    vertex: wp.array(dtype=int)  # (S) particles in the order of the colours
    spring_start: wp.array(dtype=int)  # (S + 1)
    spring_end: wp.array(dtype=int)  # particle at the other end, and number of the spring
    spring_row: wp.array(dtype=float)  # 2 for each spring: stiffness [N/m], length [m]
    triangle_start: wp.array(dtype=int)  # (S + 1)
    triangle_corner: wp.array(dtype=int)  # 2 for each pair: the other corners
    triangle_element: wp.array(dtype=int)  # triangle of each pair
    triangle_row: wp.array(dtype=float)  # 8 for each pair, see `pack_triangles`
    edge_start: wp.array(dtype=int)  # (S + 1)
    edge_middle: wp.array(dtype=int)  # (S) from here on the particle is opposite the edge, else on it
    edge_corner: wp.array(dtype=int)  # 4 for each pair: the other corners, and number of the edge
    edge_row: wp.array(dtype=float)  # 2 for each edge: stiffness [N m/rad], angle [rad]
    tetrahedron_start: wp.array(dtype=int)  # (S + 1)
    tetrahedron_corner: wp.array(dtype=int)  # 4 for each pair: the other corners, and the tetrahedron
    tetrahedron_row: wp.array(dtype=float)  # 8 for each pair, see `pack_tetrahedra`
    tetrahedron_damping: wp.array(dtype=float)  # 12 for each pair


@wp.struct
class Block:
    """Force on a particle and its block of the Hessian."""

    force: wp.vec3  # [N]
    diagonal: wp.vec3  # [N/m] xx, yy, zz
    mixed: wp.vec3  # [N/m] yz, zx, xy


@wp.func_native(
    """
    const wp::vec3* x = s.x.data;
    const wp::vec3* u = s.u.data;
    for (int pair = s.spring_start.data[slot]; pair < s.spring_start.data[slot + 1]; ++pair) {
        const int j = s.spring_end.data[2 * pair];
        const float* row = s.spring_row.data + 2 * s.spring_end.data[2 * pair + 1];
        const wp::vec3 d = (x[j] - x[i]) + (u[j] - u[i]);
        const float length2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        if (!(length2 > 0.0f)) continue;
        const float length = sqrtf(length2);
        const float ratio = row[1] / length;
        const float along = row[0] * (1.0f - ratio);
        const float across = along > 0.0f ? along : 0.0f;
        // stiffness in all directions, and what is left for the one along the spring
        const float more = (row[0] - across) / length2;
        for (int c = 0; c < 3; ++c) {
            const int a = (c + 1) % 3, b = (c + 2) % 3;
            block.force[c] += along * d[c];
            block.diagonal[c] += across + more * d[c] * d[c];
            block.mixed[c] += more * d[a] * d[b];
        }
    }
    """
)
def add_springs(s: wp.ref[StencilView], slot: int, i: int, block: wp.ref[Block]):
    """Add the springs of the particle i at a place."""
    ...


@wp.func_native(
    """
    const wp::vec3* x = s.x.data;
    const wp::vec3* u = s.u.data;
    const int end = s.triangle_start.data[slot + 1];
    for (int pair = s.triangle_start.data[slot]; pair < end; ++pair) {
        const int j = s.triangle_corner.data[2 * pair];
        const int k = s.triangle_corner.data[2 * pair + 1];
        const float* row = s.triangle_row.data + 8 * pair;
        const wp::vec3 p = (x[j] - x[i]) + (u[j] - u[i]);
        const wp::vec3 q = (x[k] - x[i]) + (u[k] - u[i]);
        const float n11 = row[0], n12 = row[1], n22 = row[2], ke = row[3], ka = row[4];
        const float c11 = p[0] * p[0] + p[1] * p[1] + p[2] * p[2];
        const float c12 = p[0] * q[0] + p[1] * q[1] + p[2] * q[2];
        const float c22 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2];
        const float h1 = n11 + n12, h2 = n12 + n22;
        const float spread = ka * (0.5f * (n11 * c11 + n22 * c22) + n12 * c12 - row[7]);
        const float z1 = c11 * h1 + c12 * h2, z2 = c12 * h1 + c22 * h2;
        const float s1 = ke * (n11 * z1 + n12 * z2) - row[5] + spread * h1;
        const float s2 = ke * (n12 * z1 + n22 * z2) - row[6] + spread * h2;
        const float pressed = s1 + s2 > 0.0f ? s1 + s2 : 0.0f;
        const float kw = ke * (h1 + h2), ky = ke + ka;
        const float k11 = kw * n11 + ky * h1 * h1;
        const float k12 = kw * n12 + ky * h1 * h2;
        const float k22 = kw * n22 + ky * h2 * h2;
        for (int c = 0; c < 3; ++c) {
            const int a = (c + 1) % 3, b = (c + 2) % 3;
            const float ep = k11 * p[c] + k12 * q[c];
            const float eq = k12 * p[c] + k22 * q[c];
            const float eb = k11 * p[b] + k12 * q[b];
            const float ec = k12 * p[b] + k22 * q[b];
            block.force[c] += s1 * p[c] + s2 * q[c];
            block.diagonal[c] += pressed + p[c] * ep + q[c] * eq;
            block.mixed[c] += p[a] * eb + q[a] * ec;
        }
    }
    """
)
def add_triangles(s: wp.ref[StencilView], slot: int, i: int, block: wp.ref[Block]):
    """Add the membrane forces of the triangles of the particle i at a place."""
    ...


@wp.func_native(
    """
    const wp::vec3* x = s.x.data;
    const wp::vec3* u = s.u.data;
    const int middle = s.edge_middle.data[slot], end = s.edge_start.data[slot + 1];
    for (int pair = s.edge_start.data[slot]; pair < end; ++pair) {
        const int* corner = s.edge_corner.data + 4 * pair;
        const float* row = s.edge_row.data + 2 * corner[3];
        const int j = corner[0], k = corner[1], l = corner[2];
        const wp::vec3 a = (x[j] - x[i]) + (u[j] - u[i]);
        const wp::vec3 b = (x[k] - x[i]) + (u[k] - u[i]);
        const wp::vec3 c = (x[l] - x[i]) + (u[l] - u[i]);
        const bool on_edge = pair < middle;
        // edge from v0 to v1, normals of (o0, v0, v1) and (o1, v1, v0), from o1 to v0
        const wp::vec3 e = on_edge ? c : c - b;
        const wp::vec3 n0 = on_edge ? cross(c, a) : cross(b, c);
        const wp::vec3 r = on_edge ? -b : b - a;
        const wp::vec3 n1 = cross(e, r);
        const float size0 = dot(n0, n0), size1 = dot(n1, n1), length2 = dot(e, e);
        // a triangle without height has no angle
        const float least = 1.0e-10f * length2 * length2;
        if (!(size0 > least && size1 > least)) continue;
        const float length = sqrtf(length2);
        const float sine = length * dot(n0, r), cosine = dot(n0, n1);
        // arc tangent of the smaller over the larger: Abramowitz, Stegun, 4.4.49, error 2e-8
        const float high = fabsf(sine), wide = fabsf(cosine);
        const float t = high > wide ? wide / high : high / wide, tt = t * t;
        float angle = 0.0028662257f;
        angle = angle * tt - 0.0161657367f;
        angle = angle * tt + 0.0429096138f;
        angle = angle * tt - 0.0752896400f;
        angle = angle * tt + 0.1065626393f;
        angle = angle * tt - 0.1420889944f;
        angle = angle * tt + 0.1999355085f;
        angle = angle * tt - 0.3333314528f;
        angle = t + angle * tt * t;
        angle = high > wide ? 1.57079633f - angle : angle;
        angle = cosine < 0.0f ? 3.14159265f - angle : angle;
        float bend = (sine < 0.0f ? -angle : angle) - row[1];
        bend -= 6.28318531f * rintf(bend * 0.159154943f);
        wp::vec3 slope;
        if (on_edge) {
            const float t0 = dot(c - a, c) / (length * size0), t1 = dot(c - b, c) / (length * size1);
            slope = n0 * t0 + n1 * t1;
        } else {
            slope = n0 * (-length / size0);
        }
        const float torque = row[0] * bend;
        for (int m = 0; m < 3; ++m) {
            block.force[m] -= torque * slope[m];
            block.diagonal[m] += row[0] * slope[m] * slope[m];
            block.mixed[m] += row[0] * slope[(m + 1) % 3] * slope[(m + 2) % 3];
        }
    }
    """
)
def add_edges(s: wp.ref[StencilView], slot: int, i: int, block: wp.ref[Block]):
    """Add the bending edges of the particle i at a place."""
    ...


@wp.func_native(
    """
    const wp::vec3* x = s.x.data;
    const wp::vec3* u = s.u.data;
    const int end = s.tetrahedron_start.data[slot + 1];
    for (int pair = s.tetrahedron_start.data[slot]; pair < end; ++pair) {
        const int* corner = s.tetrahedron_corner.data + 4 * pair;
        const float* row = s.tetrahedron_row.data + 8 * pair;
        const int j = corner[0], k = corner[1], l = corner[2];
        const wp::vec3 p = (x[j] - x[i]) + (u[j] - u[i]);
        const wp::vec3 q = (x[k] - x[i]) + (u[k] - u[i]);
        const wp::vec3 r = (x[l] - x[i]) + (u[l] - u[i]);
        const wp::vec3 qr = cross(q, r);
        // minus the gradient of 6 V J
        const wp::vec3 area = cross(p, q - r) + qr;
        const float excess = dot(p, qr) * row[4] - row[6];
        const float press = row[5] * row[4] * excess, stiff = row[5] * row[4] * row[4];
        for (int c = 0; c < 3; ++c) {
            block.force[c] += press * area[c] - (row[0] * p[c] + row[1] * q[c] + row[2] * r[c]);
            block.diagonal[c] += row[3] + stiff * area[c] * area[c];
            block.mixed[c] += stiff * area[(c + 1) % 3] * area[(c + 2) % 3];
        }
        if (!(row[7] > 0.0f)) continue;
        const float* more = s.tetrahedron_damping.data + 12 * pair;
        const float n11 = more[0], n12 = more[1], n13 = more[2], n22 = more[3], n23 = more[4], n33 = more[5];
        const float mu = more[9], half_lame = more[10];
        const float h1 = n11 + n12 + n13, h2 = n12 + n22 + n23, h3 = n13 + n23 + n33;
        const wp::vec3 y = p * h1 + q * h2 + r * h3;
        const float z1 = dot(p, y), z2 = dot(q, y), z3 = dot(r, y);
        const wp::vec3 ep = p * n11 + q * n12 + r * n13;
        const wp::vec3 eq = p * n12 + q * n22 + r * n23;
        const wp::vec3 er = p * n13 + q * n23 + r * n33;
        const float spread = half_lame * (dot(p, ep) + dot(q, eq) + dot(r, er) - more[11]);
        const float s1 = mu * (n11 * z1 + n12 * z2 + n13 * z3) - more[6] + spread * h1;
        const float s2 = mu * (n12 * z1 + n22 * z2 + n23 * z3) - more[7] + spread * h2;
        const float s3 = mu * (n13 * z1 + n23 * z2 + n33 * z3) - more[8] + spread * h3;
        const float pressed = s1 + s2 + s3 > 0.0f ? s1 + s2 + s3 : 0.0f;
        const float kw = mu * (h1 + h2 + h3), ky = mu + 2.0f * half_lame;
        for (int c = 0; c < 3; ++c) {
            const int a = (c + 1) % 3, b = (c + 2) % 3;
            block.force[c] += s1 * p[c] + s2 * q[c] + s3 * r[c];
            const float along = p[c] * ep[c] + q[c] * eq[c] + r[c] * er[c];
            block.diagonal[c] += pressed + kw * along + ky * y[c] * y[c];
            block.mixed[c] += kw * (p[a] * ep[b] + q[a] * eq[b] + r[a] * er[b]) + ky * y[a] * y[b];
        }
    }
    """
)
def add_tetrahedra(s: wp.ref[StencilView], slot: int, i: int, block: wp.ref[Block]):
    """Add the tetrahedra of the particle i at a place."""
    ...


@wp.func
def solve_block(block: Block) -> wp.vec3:
    """Solve the positive definite block for its force, by a factorization without square roots."""
    b = block.force
    d0 = block.diagonal[0]
    l1 = block.mixed[2] / d0
    l2 = block.mixed[1] / d0
    d1 = wp.max(block.diagonal[1] - l1 * block.mixed[2], 1.0e-7 * block.diagonal[1])
    e = block.mixed[0] - l2 * block.mixed[2]
    l3 = e / d1
    d2 = wp.max(block.diagonal[2] - l2 * block.mixed[1] - l3 * e, 1.0e-7 * block.diagonal[2])
    y1 = b[1] - l1 * b[0]
    z2 = (b[2] - l2 * b[0] - l3 * y1) / d2
    z1 = y1 / d1 - l3 * z2
    return wp.vec3(b[0] / d0 - l1 * z1 - l2 * z2, z1, z2)


@wp.func
def relaxed_step(block: Block, inertia: float, relaxation: float, longest: float) -> wp.vec3:
    """Newton step of a block, extended in the directions in which its neighbours hold it.

    Where only inertia resists, such as perpendicular to a slack spring, longer steps have no benefit and
    would move the particle too far.

    Args:
        block: Force and Hessian.
        inertia: The inertial part of the Hessian [N/m].
        relaxation: Factor on the step in stiff directions.
        longest: Largest extension of the step [m].
    """
    step = solve_block(block)
    if relaxation != 1.0:
        block.force = step * inertia
        more = (relaxation - 1.0) * (step - solve_block(block))
        size = wp.length(more)
        if size > longest:
            more = more * (longest / size)
        step += more
    return step
