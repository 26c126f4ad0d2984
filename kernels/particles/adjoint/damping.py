"""Damping of tetrahedra at the start of an XPBD substep, backwards.

`particles.xpbd.tetrahedra.damp_tetrahedra` damps seven rates of one tetrahedron after the other, colour by
colour. Each is a linear map of the velocities of four corners; the backward pass applies the transposed maps
in reverse order.

Stage: backward pass of particles, last, damping
Called by: solvers/xpbd/adjoint.py
Reads: TetrahedronView, before, element, materials, v, x
Writes: ReverseView, before, materials_grad, poses_grad
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.steps import ReverseView
from newtonsim.kernels.particles.xpbd.tetrahedra import CRUSHED, TetrahedronView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

mat43d = wp.types.matrix((4, 3), wp.float64)

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
SIX = wp.constant(wp.float64(6.0))


@wp.func
def resist(
    v: mat43d, g1: wp.vec3d, g2: wp.vec3d, g3: wp.vec3d, w: wp.vec4d, resistance: wp.float64
) -> mat43d:
    """Velocities (rows) after a rate with the slopes g at corners 1 to 3 has been resisted."""
    g = wp.matrix_from_rows(-(g1 + g2 + g3), g1, g2, g3)
    rate = wp.ddot(g, v)
    total = w[0] * wp.dot(g[0], g[0]) + w[1] * wp.dot(g[1], g[1])
    total += w[2] * wp.dot(g[2], g[2]) + w[3] * wp.dot(g[3], g[3])
    impulse = -rate * resistance / (ONE + total * resistance)
    return v + wp.matrix_from_rows(g[0] * w[0], g[1] * w[1], g[2] * w[2], g[3] * w[3]) * impulse


@wp.func
def damping_work(
    edges: wp.mat33d,
    v: mat43d,
    rest: wp.mat33d,
    at_rest: int,
    pose: wp.mat33d,
    material: wp.vec3d,
    w: wp.vec4d,
    dt: wp.float64,
    multiplier: mat43d,
) -> wp.float64:
    """Product of the velocities of a tetrahedron's corners after damping with a multiplier.

    Args:
        edges: From corner 0 to the others, columns [m].
        v: Velocities, rows [m/s].
        rest: Inverse edges at rest [1/m].
        at_rest: 1 if rates refer to the rest shape, see `particles.xpbd.tetrahedra.CRUSHED`.
        pose: Inverse edges at rest in the axes of the model [1/m].
        material: (mu, lambda, k_damp) [Pa, Pa, s].
        w: Inverse masses [1/kg].
        dt: Length of the substep [s].
        multiplier: The multiplier.
    """
    scale = material[2] * dt / (SIX * wp.determinant(pose))
    eta = material[0] * scale
    zeta = material[1] * scale
    b = wp.inverse(edges)
    if at_rest == 1:
        b = rest
    x = wp.vec3d(ONE, ZERO, ZERO)
    y = wp.vec3d(ZERO, ONE, ZERO)
    z = wp.vec3d(ZERO, ZERO, ONE)
    v1 = resist(v, x * b[0, 0], x * b[1, 0], x * b[2, 0], w, TWO * eta)
    v2 = resist(v1, y * b[0, 1], y * b[1, 1], y * b[2, 1], w, TWO * eta)
    v3 = resist(v2, z * b[0, 2], z * b[1, 2], z * b[2, 2], w, TWO * eta)
    v4 = resist(v3, x * b[0, 1] + y * b[0, 0], x * b[1, 1] + y * b[1, 0], x * b[2, 1] + y * b[2, 0], w, eta)
    v5 = resist(v4, x * b[0, 2] + z * b[0, 0], x * b[1, 2] + z * b[1, 0], x * b[2, 2] + z * b[2, 0], w, eta)
    v6 = resist(v5, y * b[0, 2] + z * b[0, 1], y * b[1, 2] + z * b[1, 1], y * b[2, 2] + z * b[2, 1], w, eta)
    v7 = resist(v6, b[0], b[1], b[2], w, zeta)
    return wp.ddot(v7, multiplier)


@wp.kernel
def note_before(
    first: int,
    base: int,
    tetrahedra: TetrahedronView,
    v: wp.array(dtype=wp.vec3),
    before: wp.array(dtype=mat43d),
):
    """One thread per tetrahedron of a colour: velocities of its corners before they are damped."""
    t = base + first + wp.tid()
    c = tetrahedra.corner[t]
    before[t] = wp.matrix_from_rows(
        wp.vec3d(v[c[0]]), wp.vec3d(v[c[1]]), wp.vec3d(v[c[2]]), wp.vec3d(v[c[3]])
    )


@wp.kernel
def reverse_damping(
    first: int,
    base: int,
    tetrahedra: TetrahedronView,
    element: wp.array(dtype=int),
    materials: wp.array2d(dtype=float),
    x: wp.array(dtype=wp.vec3),
    before: wp.array(dtype=mat43d),
    dt: float,
    reverse: ReverseView,
    poses_grad: wp.array(dtype=wp.mat33),
    materials_grad: wp.array2d(dtype=float),
):
    """One thread per tetrahedron of a colour: from the velocities after damping to those before.

    This includes elements without damping: the derivative at zero is not zero.
    """
    t = base + first + wp.tid()
    weight = tetrahedra.weight[t]
    if weight[0] + weight[1] + weight[2] + weight[3] <= 0.0:
        return
    e = element[t]
    c = tetrahedra.corner[t]
    x0 = wp.vec3d(x[c[0]])
    edges = wp.matrix_from_cols(wp.vec3d(x[c[1]]) - x0, wp.vec3d(x[c[2]]) - x0, wp.vec3d(x[c[3]]) - x0)
    rest = wp.mat33d(tetrahedra.rest[t])
    ratio = float(wp.determinant(edges) * wp.determinant(rest))
    at_rest = int(1)
    if ratio > CRUSHED and ratio < 1.0 / CRUSHED:
        at_rest = 0
    multiplier = wp.matrix_from_rows(reverse.v[c[0]], reverse.v[c[1]], reverse.v[c[2]], reverse.v[c[3]])
    material = wp.vec3d(wp.float64(materials[e, 0]), wp.float64(materials[e, 1]), wp.float64(materials[e, 2]))
    w = wp.vec4d(weight)
    by_edges, by_v, by_rest, by_flag, by_pose, by_material, by_w, by_dt, by_multiplier = wp.grad(
        damping_work
    )(edges, before[t], rest, at_rest, wp.mat33d(tetrahedra.pose[t]), material, w, wp.float64(dt), multiplier)
    for k in range(4):
        reverse.v[c[k]] = by_v[k]
        # w = 1 / m
        wp.atomic_add(reverse.mass, c[k], -by_w[k] * w[k] * w[k])
    for k in range(3):
        by_gap = wp.vec3d(by_edges[0, k], by_edges[1, k], by_edges[2, k])
        wp.atomic_add(reverse.x, c[0], -by_gap)
        wp.atomic_add(reverse.x, c[k + 1], by_gap)
        materials_grad[e, k] = materials_grad[e, k] + float(by_material[k])
    poses_grad[e] = poses_grad[e] + wp.mat33(by_pose)
