"""Tetrahedra in extended position-based dynamics: a stable neo-Hookean solid.

The energy is V (μ/2 (tr FᵀF - 3) - μ (J - 1) + (λ + μ)/2 (J - 1 - a)²), that of Smith, de Goes, Kim, "Stable
neo-Hookean flesh simulation", ACM TOG 37, 2018, without its logarithm, so that μ and λ are the Lamé
parameters at rest. Its first part is quadratic in F: nine linear constraints F = 0 with the stiffness μ V,
solved row by row. The rest is one constraint on the volume, J = 1 + a + μ / (λ + μ) with the stiffness (λ +
μ) V, as in Macklin, Müller, "A constraint-based formulation of stable neo-Hookean materials", MIG 2021. All
ten are solved together.

With the logarithm, V/2 (μ (I - log(I + 1)) + λ (J - 1 - 3/4 μ / λ)²) with I = tr FᵀF, the first part is
treated as if its stiffness μ V (1 - 1 / (1 + I)) were constant; its Lamé parameters at rest are 3/4 μ and λ -
5/8 μ.

A tetrahedron exerts -P on F, its deformation gradient; P itself is stored, see `particles.xpbd.springs`. The
axes of the rest shape are rotated to those in which the mobility G = Dᵀ M⁻¹ D of F is diagonal, which changes
neither energy.

Stage: XPBD substep, sweeps over elements
Called by: solvers/xpbd/adjoint.py, solvers/xpbd/elements.py
Reads: TetrahedronView, activations, inv_mass, mask, materials, poses, world, x
Writes: TetrahedronView, shift, v
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.elements.tetrahedron import column, rest_volume, volume_slope
from newtonsim.kernels.particles.xpbd.particles import is_cleared

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# ratio of volumes beyond which rates of deformation refer to the rest shape
CRUSHED = wp.constant(0.1)
# J / |F|³ below which a tetrahedron counts as crushed; 0.19 at rest, 0.06 if one edge is a fifth
DISTORTED = wp.constant(0.06)

# largest change of F in one update, over F: the response is linearised for small changes
LONGEST = wp.constant(0.3)
# square of a change that is always small
SMALLEST = wp.constant(1.0e-12)


@wp.struct
class TetrahedronView:
    """T tetrahedra by place; valid during a step."""

    place: wp.array(dtype=int)  # (T) of each tetrahedron of the model
    corner: wp.array(dtype=wp.vec4i)
    weight: wp.array(dtype=wp.vec4)  # inverse masses of the corners [1/kg]
    pose: wp.array(dtype=wp.mat33)  # inverse rest edges of the model [1/m]
    rest: wp.array(dtype=wp.mat33)  # the same in the rotated axes
    mobility: wp.array(dtype=wp.vec3)  # diagonal of G [1/(kg m²)]
    shear: wp.array(dtype=float)  # μ V [J]
    bulk: wp.array(dtype=float)  # (λ + μ) V [J]
    goal: wp.array(dtype=float)  # target ratio of volumes
    viscosity: wp.array(dtype=wp.vec2)  # of shear and of volume, times V [J s]
    force: wp.array(dtype=wp.mat33)  # P, negative [J]


@wp.func
def mobility_of(d: wp.mat33, w: wp.vec4) -> wp.mat33:
    """Mobility of F: Dᵀ (W + w0 1 1ᵀ) D."""
    top = wp.vec3(d[0, 0], d[0, 1], d[0, 2])
    middle = wp.vec3(d[1, 0], d[1, 1], d[1, 2])
    bottom = wp.vec3(d[2, 0], d[2, 1], d[2, 2])
    total = top + middle + bottom
    g = wp.outer(top, top) * w[1] + wp.outer(middle, middle) * w[2]
    return g + wp.outer(bottom, bottom) * w[3] + wp.outer(total, total) * w[0]


@wp.kernel
def prepare_tetrahedra(
    first: int,
    poses: wp.array(dtype=wp.mat33),
    materials: wp.array2d(dtype=float),
    activations: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    logarithm: float,
    tetrahedra: TetrahedronView,
):
    """One thread per tetrahedron: read its parameters from the model at the start of a step."""
    e = first + wp.tid()
    t = tetrahedra.place[e]
    corner = tetrahedra.corner[t]
    w = wp.vec4(inv_mass[corner[0]], inv_mass[corner[1]], inv_mass[corner[2]], inv_mass[corner[3]])
    d = poses[e]
    # finding the rotation takes as long as some sweeps, and it is mostly that of the last step
    change = d - tetrahedra.pose[t]
    if wp.length_sq(w - tetrahedra.weight[t]) + wp.ddot(change, change) > 0.0:
        axes = wp.mat33()
        mobility = wp.vec3()
        wp.eig3(mobility_of(d, w), axes, mobility)
        if wp.determinant(axes) < 0.0:
            axes = -axes
        tetrahedra.weight[t] = w
        tetrahedra.pose[t] = d
        tetrahedra.rest[t] = d * axes
        tetrahedra.mobility[t] = mobility
    volume = rest_volume(d)
    mu = materials[e, 0]
    bulk = materials[e, 1] + mu * (1.0 - logarithm)
    tetrahedra.shear[t] = mu * volume
    tetrahedra.bulk[t] = bulk * volume
    goal = 1.0 + activations[e]
    if bulk > 0.0:
        goal += (1.0 - 0.25 * logarithm) * mu / bulk
    tetrahedra.goal[t] = goal
    tetrahedra.viscosity[t] = wp.vec2(mu, materials[e, 1]) * (materials[e, 2] * volume)


@wp.kernel
def clear_tetrahedra(
    first: int,
    masked: int,
    mask: wp.array(dtype=bool),
    world: wp.array(dtype=int),
    tetrahedra: TetrahedronView,
):
    """One thread per tetrahedron: clear the forces of the last substep, in masked worlds or in all."""
    t = tetrahedra.place[first + wp.tid()]
    if is_cleared(masked, mask, world, tetrahedra.corner[t][0]):
        tetrahedra.force[t] = wp.mat33()


@wp.func
def push_corners(tetrahedra: TetrahedronView, t: int, p: wp.mat33, dt: float, shift: wp.array(dtype=wp.vec3)):
    """Move the corners of a tetrahedron by a force on F that acts for a time dt."""
    corner = tetrahedra.corner[t]
    w = tetrahedra.weight[t]
    q = p * wp.transpose(tetrahedra.rest[t]) * (dt * dt)
    q1 = column(q, 0)
    q2 = column(q, 1)
    q3 = column(q, 2)
    shift[corner[0]] = shift[corner[0]] - (q1 + q2 + q3) * w[0]
    shift[corner[1]] = shift[corner[1]] + q1 * w[1]
    shift[corner[2]] = shift[corner[2]] + q2 * w[2]
    shift[corner[3]] = shift[corner[3]] + q3 * w[3]


@wp.kernel
def start_tetrahedra(
    first: int,
    base: int,
    tetrahedra: TetrahedronView,
    keep: float,
    dt: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per tetrahedron of a colour: start from a share of the force of the last substep."""
    t = base + first + wp.tid()
    force = tetrahedra.force[t] * keep
    tetrahedra.force[t] = force
    push_corners(tetrahedra, t, force, dt, shift)


@wp.struct
class Response:
    """Response of the force on F to a residual, in co-rotating axes.

    It solves D + K(D G) = x, where K has the stiffness `sym` against symmetric changes of F and `skew`
    against rotations: off-diagonal components are coupled in pairs.
    """

    own: wp.vec3  # 1 + (sym + skew) / 2 g
    other: wp.vec3  # (sym - skew) / 2 g
    inside: wp.vec3  # factors on the diagonal
    beside: wp.vec3  # inverse determinants of the pairs 12, 02, 01


@wp.func
def make_response(g: wp.vec3, sym: float, skew: float) -> Response:
    """Prepare the response for the diagonal g of the mobility times dt²."""
    response = Response()
    a = 0.5 * (sym + skew)
    o = wp.vec3(1.0 + a * g[0], 1.0 + a * g[1], 1.0 + a * g[2])
    b = g * (0.5 * (sym - skew))
    response.own = o
    response.other = b
    response.inside = wp.vec3(1.0 / (1.0 + sym * g[0]), 1.0 / (1.0 + sym * g[1]), 1.0 / (1.0 + sym * g[2]))
    response.beside = wp.vec3(
        1.0 / (o[1] * o[2] - b[1] * b[2]),
        1.0 / (o[0] * o[2] - b[0] * b[2]),
        1.0 / (o[0] * o[1] - b[0] * b[1]),
    )
    return response


@wp.func
def respond(response: Response, x: wp.mat33) -> wp.mat33:
    """The change D for the residual x."""
    o = response.own
    b = response.other
    y = response.inside
    z = response.beside
    return wp.mat33(
        x[0, 0] * y[0],
        (x[0, 1] * o[0] - x[1, 0] * b[0]) * z[2],
        (x[0, 2] * o[0] - x[2, 0] * b[0]) * z[1],
        (x[1, 0] * o[1] - x[0, 1] * b[1]) * z[2],
        x[1, 1] * y[1],
        (x[1, 2] * o[1] - x[2, 1] * b[1]) * z[0],
        (x[2, 0] * o[2] - x[0, 2] * b[2]) * z[1],
        (x[2, 1] * o[2] - x[1, 2] * b[2]) * z[0],
        x[2, 2] * y[2],
    )


@wp.func
def weighted(a: wp.mat33, b: wp.mat33, g: wp.vec3) -> float:
    """Inner product of two matrices with weights of their columns."""
    total = g[0] * wp.dot(column(a, 0), column(b, 0))
    total += g[1] * wp.dot(column(a, 1), column(b, 1))
    return total + g[2] * wp.dot(column(a, 2), column(b, 2))


@wp.kernel
def solve_tetrahedra(
    first: int,
    base: int,
    tetrahedra: TetrahedronView,
    x: wp.array(dtype=wp.vec3),
    dt: float,
    fresh: int,
    relaxation: float,
    logarithm: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per tetrahedron of a colour: make its force agree with the deformation that it causes.

    The force is -∂E/∂F = p c - μV F with c = ∂J/∂F and p = -(λ + μ) V (J - goal). Its change with F is
    approximated by that of a rotated tetrahedron without strain, at the current p. `logarithm` is 1 for the
    energy with the logarithm, and 0 without.
    """
    t = base + first + wp.tid()
    corner = tetrahedra.corner[t]
    bulk = tetrahedra.bulk[t]
    x0 = x[corner[0]]
    s0 = shift[corner[0]]
    e1 = (x[corner[1]] - x0) + (shift[corner[1]] - s0)
    e2 = (x[corner[2]] - x0) + (shift[corner[2]] - s0)
    e3 = (x[corner[3]] - x0) + (shift[corner[3]] - s0)
    d = tetrahedra.rest[t]
    f0 = e1 * d[0, 0] + e2 * d[1, 0] + e3 * d[2, 0]
    f1 = e1 * d[0, 1] + e2 * d[1, 1] + e3 * d[2, 1]
    f2 = e1 * d[0, 2] + e2 * d[1, 2] + e3 * d[2, 2]
    square = wp.dot(f0, f0) + wp.dot(f1, f1) + wp.dot(f2, f2)
    shear = tetrahedra.shear[t] * (1.0 - logarithm / (1.0 + square))
    f = wp.matrix_from_cols(f0, f1, f2)
    slope, volume = volume_slope(f)
    pressure = -bulk * (volume - tetrahedra.goal[t])
    force = wp.mat33()
    if fresh == 0:
        force = tetrahedra.force[t]
    missing = slope * pressure - f * shear - force
    g = tetrahedra.mobility[t] * (dt * dt)
    # if crushed or inverted, it is as stiff against rotation as against strain, whatever its rotation
    sym = shear + wp.abs(pressure) * wp.sqrt(square)
    skew = sym
    turned = wp.identity(n=3, dtype=float)
    if volume > DISTORTED * square * wp.sqrt(square):
        # one step of Newton's iteration to the rotation (Higham 1986): 3 % off for a stretch of 30 %
        turned = (f + slope * (1.0 / volume)) * 0.5
        # at least as stiff against strain as at rest: for a stretched element, a step would be much too large
        sym = shear + wp.max(pressure, shear)
        skew = wp.max(shear - pressure, 0.1 * shear)
    back = wp.transpose(turned)
    slope = back * slope
    response = make_response(g, sym, skew)
    change = respond(response, back * missing)
    yields = respond(response, slope)
    bulk += wp.max(-pressure, 0.0)
    resisted = bulk * weighted(slope, change, g) / (1.0 + bulk * weighted(slope, yields, g))
    change = turned * (change - yields * resisted)
    squared = wp.vec3(g[0] * g[0], g[1] * g[1], g[2] * g[2])
    moved = weighted(change, change, squared)
    change = change * (relaxation * wp.min(1.0, LONGEST * wp.sqrt(square / wp.max(moved, SMALLEST))))
    tetrahedra.force[t] = force + change
    push_corners(tetrahedra, t, change, dt, shift)


@wp.kernel
def damp_tetrahedra(
    first: int,
    base: int,
    tetrahedra: TetrahedronView,
    x: wp.array(dtype=wp.vec3),
    dt: float,
    v: wp.array(dtype=wp.vec3),
):
    """One thread per tetrahedron of a colour: viscous stress 2 η D + ζ tr(D) I of the rate of deformation D.

    Each component of D and its trace are resisted implicitly, one after the other, by impulses between the
    corners; rigid motions are not resisted.
    """
    t = base + first + wp.tid()
    eta = tetrahedra.viscosity[t][0] * dt
    zeta = tetrahedra.viscosity[t][1] * dt
    weight = tetrahedra.weight[t]
    if (eta <= 0.0 and zeta <= 0.0) or weight[0] + weight[1] + weight[2] + weight[3] <= 0.0:
        return
    corners = tetrahedra.corner[t]
    i0 = corners[0]
    corner = wp.vec3i(corners[1], corners[2], corners[3])
    w0 = weight[0]
    w = wp.vec3(weight[1], weight[2], weight[3])
    slope = tetrahedra.rest[t]
    edges = wp.matrix_from_cols(x[corner[0]] - x[i0], x[corner[1]] - x[i0], x[corner[2]] - x[i0])
    ratio = wp.determinant(edges) * wp.determinant(slope)
    if ratio > CRUSHED and ratio < 1.0 / CRUSHED:
        slope = wp.inverse(edges)
    for c in range(7):
        # components 0 to 2 on the diagonal, 3 to 5 beside it, 6 the trace
        a = wp.min(c, 2)
        b = int(a)
        resistance = 2.0 * eta
        if c >= 3:
            a = wp.where(c == 5, 1, 0)
            b = wp.where(c == 3, 1, 2)
            resistance = eta
        g = wp.mat33()  # row k: gradient at corner k
        for k in range(3):
            g[k, a] = slope[k, b]
            g[k, b] = slope[k, a]
        if c == 6:
            g = slope
            resistance = zeta
        g0 = -(wp.vec3(g[0, 0], g[0, 1], g[0, 2]) + wp.vec3(g[1, 0], g[1, 1], g[1, 2]))
        g0 -= wp.vec3(g[2, 0], g[2, 1], g[2, 2])
        total = w0 * wp.dot(g0, g0)
        rate = wp.dot(g0, v[i0])
        for k in range(3):
            g_k = wp.vec3(g[k, 0], g[k, 1], g[k, 2])
            total += w[k] * wp.dot(g_k, g_k)
            rate += wp.dot(g_k, v[corner[k]])
        impulse = -rate * resistance / (1.0 + total * resistance)
        v[i0] = v[i0] + g0 * (w0 * impulse)
        for k in range(3):
            v[corner[k]] = v[corner[k]] + wp.vec3(g[k, 0], g[k, 1], g[k, 2]) * (w[k] * impulse)
