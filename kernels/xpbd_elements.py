"""Elements between particles in extended position-based dynamics: damping of springs, tetrahedra.

Elements of one colour share no particle; a launch handles one colour. Corrections of positions are summed in
`shift`, apart from the predicted positions, see `xpbd_particles`.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# determinant below which the pair of constraints of a tetrahedron is taken to be singular, relative
SINGULAR = wp.constant(1.0e-9)
# least measure of strain that is divided by: a tetrahedron that has shrunk to a point
FLAT = wp.constant(1.0e-6)
# ratio of volumes beyond which rates of deformation are measured at rest
CRUSHED = wp.constant(0.1)


@wp.kernel
def accelerate(
    first: int,
    inv_mass: wp.array(dtype=float),
    gravity: wp.array(dtype=wp.vec3),
    max_speed: float,
    dt: float,
    v: wp.array(dtype=wp.vec3),
):
    """One thread per particle: gravity of a whole step, at its start, as rigid bodies feel it."""
    i = first + wp.tid()
    end = wp.vec3(0.0)
    if inv_mass[i] > 0.0:
        end = v[i] + gravity[0] * dt
        speed = wp.length(end)
        if speed > max_speed:
            end = end * (max_speed / speed)
    v[i] = end


@wp.kernel
def predict(
    first: int,
    dt: float,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: move on with its velocity."""
    i = first + wp.tid()
    shift[i] = wp.vec3(0.0)
    x[i] = x[i] + v[i] * dt


@wp.kernel
def finish(
    first: int,
    inv_mass: wp.array(dtype=float),
    dt: float,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per particle: a correction of the position is a velocity over the step."""
    i = first + wp.tid()
    if inv_mass[i] > 0.0:
        x[i] = x[i] + shift[i]
        v[i] = v[i] + shift[i] / dt


@wp.kernel
def clear_springs(first: int, multiplier: wp.array(dtype=float), resistance: wp.array(dtype=wp.vec3)):
    """One thread per spring: forget the forces of the last step."""
    s = first + wp.tid()
    multiplier[s] = 0.0
    resistance[s] = wp.vec3(0.0)


@wp.kernel
def clear_tetrahedra(first: int, multiplier: wp.array(dtype=wp.vec2)):
    """One thread per tetrahedron: forget the forces of the last step."""
    multiplier[first + wp.tid()] = wp.vec2(0.0, 0.0)


@wp.kernel
def solve_springs(
    first: int,
    spring: wp.array(dtype=int),
    indices: wp.array(dtype=int),
    rest_length: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    shift: wp.array(dtype=wp.vec3),
    multiplier: wp.array(dtype=float),
):
    """One thread per spring: Macklin et al. 2016, equations 18 and 26."""
    s = spring[first + wp.tid()]
    i = indices[2 * s]
    j = indices[2 * s + 1]
    w = inv_mass[i] + inv_mass[j]
    d = (x[i] - x[j]) + (shift[i] - shift[j])
    length = wp.length(d)
    if w > 0.0 and stiffness[s] > 0.0 and length > 0.0:
        n = d / length
        alpha = 1.0 / (stiffness[s] * dt * dt)
        gamma = damping[s] / (stiffness[s] * dt)
        motion = wp.dot(n, (v[i] - v[j]) * dt + (shift[i] - shift[j]))
        error = length - rest_length[s] + alpha * multiplier[s] + gamma * motion
        change = -error / ((1.0 + gamma) * w + alpha)
        multiplier[s] = multiplier[s] + change
        shift[i] = shift[i] + n * (inv_mass[i] * change)
        shift[j] = shift[j] - n * (inv_mass[j] * change)


@wp.kernel
def damp_springs(
    first: int,
    spring: wp.array(dtype=int),
    indices: wp.array(dtype=int),
    damping: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    shift: wp.array(dtype=wp.vec3),
    multiplier: wp.array(dtype=wp.vec3),
):
    """One thread per spring: damping of the relative velocity of its ends in all directions.

    The displacement of the step is what the damper resists: a constraint with the compliance 1 / (c dt).
    """
    s = spring[first + wp.tid()]
    i = indices[2 * s]
    j = indices[2 * s + 1]
    w = inv_mass[i] + inv_mass[j]
    if damping[s] > 0.0 and w > 0.0:
        alpha = 1.0 / (damping[s] * dt)
        moved = (v[i] - v[j]) * dt + (shift[i] - shift[j])
        change = (moved + multiplier[s] * alpha) / -(w + alpha)
        multiplier[s] = multiplier[s] + change
        shift[i] = shift[i] + change * inv_mass[i]
        shift[j] = shift[j] - change * inv_mass[j]


@wp.func
def column(m: wp.mat33, k: int) -> wp.vec3:
    """Column k of a matrix."""
    return wp.vec3(m[0, k], m[1, k], m[2, k])


@wp.func
def cofactor(f: wp.mat33) -> wp.mat33:
    """Derivative of the determinant of a matrix."""
    a = column(f, 0)
    b = column(f, 1)
    c = column(f, 2)
    return wp.matrix_from_cols(wp.cross(b, c), wp.cross(c, a), wp.cross(a, b))


@wp.func
def weighted(g: wp.mat33, h: wp.mat33, weight: wp.vec4) -> float:
    """Inner product of two sets of gradients at four particles; those of the first are the negative sums.

    Args:
        g: Columns are the gradients at particles 1 to 3.
        h: Likewise of the second set.
        weight: Inverse masses of particles 0 to 3.
    """
    g0 = column(g, 0) + column(g, 1) + column(g, 2)
    h0 = column(h, 0) + column(h, 1) + column(h, 2)
    total = weight[0] * wp.dot(g0, h0)
    total += weight[1] * wp.dot(column(g, 0), column(h, 0))
    total += weight[2] * wp.dot(column(g, 1), column(h, 1))
    total += weight[3] * wp.dot(column(g, 2), column(h, 2))
    return total


@wp.kernel
def solve_tetrahedra(
    first: int,
    tetrahedron: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    rest: wp.array(dtype=wp.mat33),
    material: wp.array2d(dtype=float),
    inv_mass: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    dt: float,
    shift: wp.array(dtype=wp.vec3),
    multiplier: wp.array(dtype=wp.vec2),
):
    """One thread per tetrahedron: stable neo-Hookean elasticity as two constraints, solved together.

    Two constraints as in Macklin, Müller, "A constraint-based formulation of stable neo-Hookean materials",
    MIG 2021, for the energy of Smith, de Goes, Kim, "Stable neo-Hookean flesh simulation", ACM TOG 37, 2018,
    V/2 (mu (I - log(I + 1)) + lambda (J - 1 - 3/4 mu / lambda)²) with I = tr FᵀF and J = det F. At rest its
    Lamé parameters are 3/4 mu and lambda - 5/8 mu. `material` begins with mu and lambda [Pa].
    """
    t = tetrahedron[first + wp.tid()]
    i0 = indices[t, 0]
    i1 = indices[t, 1]
    i2 = indices[t, 2]
    i3 = indices[t, 3]
    weight = wp.vec4(inv_mass[i0], inv_mass[i1], inv_mass[i2], inv_mass[i3])
    mu = material[t, 0]
    bulk = material[t, 1]
    if weight[0] + weight[1] + weight[2] + weight[3] <= 0.0 or mu <= 0.0 or bulk <= 0.0:
        return
    p0 = x[i0] + shift[i0]
    e1 = x[i1] + shift[i1] - p0
    e2 = x[i2] + shift[i2] - p0
    e3 = x[i3] + shift[i3] - p0
    d = rest[t]
    f = wp.matrix_from_cols(e1, e2, e3) * d
    volume = 1.0 / (6.0 * wp.determinant(d))
    square = wp.ddot(f, f)
    length = wp.sqrt(wp.max(square - wp.log(1.0 + square), FLAT * FLAT))
    g_d = f * wp.transpose(d) * ((1.0 - 1.0 / (1.0 + square)) / length)
    g_h = cofactor(f) * wp.transpose(d)
    a_d = 1.0 / (mu * volume * dt * dt)
    a_h = 1.0 / (bulk * volume * dt * dt)
    old = multiplier[t]
    r_d = length + a_d * old[0]
    r_h = wp.determinant(f) - 1.0 - 0.75 * mu / bulk + a_h * old[1]
    m_dd = weighted(g_d, g_d, weight) + a_d
    m_hh = weighted(g_h, g_h, weight) + a_h
    m_dh = weighted(g_d, g_h, weight)
    det = m_dd * m_hh - m_dh * m_dh
    if det <= SINGULAR * m_dd * m_hh:
        return
    c_d = -(m_hh * r_d - m_dh * r_h) / det
    c_h = -(m_dd * r_h - m_dh * r_d) / det
    multiplier[t] = old + wp.vec2(c_d, c_h)
    push = g_d * c_d + g_h * c_h
    q1 = column(push, 0)
    q2 = column(push, 1)
    q3 = column(push, 2)
    shift[i0] = shift[i0] - (q1 + q2 + q3) * weight[0]
    shift[i1] = shift[i1] + q1 * weight[1]
    shift[i2] = shift[i2] + q2 * weight[2]
    shift[i3] = shift[i3] + q3 * weight[3]


@wp.kernel
def damp_tetrahedra(
    first: int,
    tetrahedron: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    rest: wp.array(dtype=wp.mat33),
    material: wp.array2d(dtype=float),
    inv_mass: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    dt: float,
    v: wp.array(dtype=wp.vec3),
):
    """One thread per tetrahedron: viscous stress 2 d mu D + d lambda tr(D) I of the rate of deformation D.

    `material` holds mu, lambda [Pa] and d [s]. Each component of D and its trace are resisted implicitly, one
    after the other, by impulses between the corners; rigid motions are not resisted.
    """
    t = tetrahedron[first + wp.tid()]
    d = material[t, 2]
    i0 = indices[t, 0]
    corner = wp.vec3i(indices[t, 1], indices[t, 2], indices[t, 3])
    w0 = inv_mass[i0]
    w = wp.vec3(inv_mass[corner[0]], inv_mass[corner[1]], inv_mass[corner[2]])
    if d <= 0.0 or w0 + w[0] + w[1] + w[2] <= 0.0:
        return
    slope = rest[t]
    volume = 1.0 / (6.0 * wp.determinant(slope))
    edges = wp.matrix_from_cols(x[corner[0]] - x[i0], x[corner[1]] - x[i0], x[corner[2]] - x[i0])
    ratio = wp.determinant(edges) / (6.0 * volume)
    if ratio > CRUSHED and ratio < 1.0 / CRUSHED:
        slope = wp.inverse(edges)
    for c in range(7):
        # components 0 to 2 on the diagonal, 3 to 5 beside it, 6 the trace
        a = wp.min(c, 2)
        b = int(a)
        stiffness = 2.0 * d * material[t, 0]
        if c >= 3:
            a = wp.where(c == 5, 1, 0)
            b = wp.where(c == 3, 1, 2)
            stiffness = d * material[t, 0]
        g = wp.mat33()  # row k: gradient at corner k
        for k in range(3):
            g[k, a] = slope[k, b]
            g[k, b] = slope[k, a]
        if c == 6:
            g = slope
            stiffness = d * material[t, 1]
        g0 = -(wp.vec3(g[0, 0], g[0, 1], g[0, 2]) + wp.vec3(g[1, 0], g[1, 1], g[1, 2]))
        g0 -= wp.vec3(g[2, 0], g[2, 1], g[2, 2])
        total = w0 * wp.dot(g0, g0)
        rate = wp.dot(g0, v[i0])
        for k in range(3):
            g_k = wp.vec3(g[k, 0], g[k, 1], g[k, 2])
            total += w[k] * wp.dot(g_k, g_k)
            rate += wp.dot(g_k, v[corner[k]])
        resistance = stiffness * volume * dt
        impulse = -rate * resistance / (1.0 + total * resistance)
        v[i0] = v[i0] + g0 * (w0 * impulse)
        for k in range(3):
            v[corner[k]] = v[corner[k]] + wp.vec3(g[k, 0], g[k, 1], g[k, 2]) * (w[k] * impulse)
