"""The linear system of the adjoint of an implicit step of particles, solved per world.

BiCGSTAB (van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG for the solution of
nonsymmetric linear systems", SIAM J. Sci. Stat. Comput. 13(2), 1992), preconditioned from the right by
the blocks on the diagonal. Friction and damping make the matrix unsymmetric.

Stage: backward pass of particles, linear system
Called by: solvers/particles/adjoint_bodies.py, solvers/particles/adjoint_system.py,
    kernels/particles/adjoint/coupled_system.py
Reads: SystemView
Writes: SystemView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.adjoint.elements import MatrixView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.struct
class SystemView:
    """Vectors of the system; N particles in W worlds, the last of which holds particles of no world."""

    matrix: MatrixView
    diagonal: wp.array(dtype=int)  # (N) block of each particle
    particle: wp.array(dtype=int)  # (N) particles by world
    world_start: wp.array(dtype=int)  # (W + 1) first of each world
    mass: wp.array(dtype=wp.float64)  # (N) [kg] 0 for particles that are not unknowns
    inverse: wp.array(dtype=wp.mat33d)  # (N) of the blocks on the diagonal
    right: wp.array(dtype=wp.vec3d)  # (N) right-hand side
    x: wp.array(dtype=wp.vec3d)  # (N) solution
    r: wp.array(dtype=wp.vec3d)  # (N) residual
    shadow: wp.array(dtype=wp.vec3d)  # (N) first residual
    p: wp.array(dtype=wp.vec3d)  # (N) direction, and so on
    p_hat: wp.array(dtype=wp.vec3d)
    v: wp.array(dtype=wp.vec3d)
    s_hat: wp.array(dtype=wp.vec3d)
    t: wp.array(dtype=wp.vec3d)
    iterations: wp.array(dtype=int)  # (W) iterations made
    residual: wp.array(dtype=wp.float64)  # (W) residual, over the norm of the right-hand side


@wp.func
def multiply(s: SystemView, i: int, a: wp.array(dtype=wp.vec3d)) -> wp.vec3d:
    """Row i of the matrix times a vector."""
    total = wp.vec3d()
    for k in range(s.matrix.row_start[i], s.matrix.row_start[i + 1]):
        total += s.matrix.value[k] * a[s.matrix.column[k]]
    return total


@wp.kernel
def invert_diagonal(first: int, s: SystemView):
    """One thread per particle: the preconditioner, and the start of the iteration."""
    i = first + wp.tid()
    s.x[i] = wp.vec3d()
    s.p_hat[i] = wp.vec3d()
    s.s_hat[i] = wp.vec3d()
    s.p[i] = wp.vec3d()
    s.v[i] = wp.vec3d()
    right = wp.vec3d()
    inverse = wp.mat33d()
    if s.mass[i] > ZERO:
        right = s.right[i]
        inverse = wp.inverse(s.matrix.value[s.diagonal[i]])
    s.inverse[i] = inverse
    s.r[i] = right
    s.shadow[i] = right


@wp.func
def rows_times(
    s: SystemView, start: int, end: int, a: wp.array(dtype=wp.vec3d), found: wp.array(dtype=wp.vec3d)
):
    """Matrix of a world times a vector."""
    for n in range(start, end):
        i = s.particle[n]
        row = wp.vec3d()
        if s.mass[i] > ZERO:
            row = multiply(s, i, a)
        found[i] = row


@wp.func
def product(
    s: SystemView, start: int, end: int, a: wp.array(dtype=wp.vec3d), b: wp.array(dtype=wp.vec3d)
) -> wp.float64:
    """a · b of a world."""
    total = ZERO
    for n in range(start, end):
        i = s.particle[n]
        total += wp.dot(a[i], b[i])
    return total


@wp.func
def next_directions(s: SystemView, start: int, end: int, beta: wp.float64, omega: wp.float64):
    """Directions of an iteration, from those of the previous one."""
    for n in range(start, end):
        i = s.particle[n]
        s.p[i] = s.r[i] + (s.p[i] - s.v[i] * omega) * beta
        s.p_hat[i] = s.inverse[i] * s.p[i]


@wp.func
def first_half(s: SystemView, start: int, end: int, alpha: wp.float64):
    """Residual after the first half of an iteration, preconditioned."""
    for n in range(start, end):
        i = s.particle[n]
        s.r[i] = s.r[i] - s.v[i] * alpha
        s.s_hat[i] = s.inverse[i] * s.r[i]


@wp.func
def second_half(s: SystemView, start: int, end: int, alpha: wp.float64, omega: wp.float64) -> wp.float64:
    """Solution after an iteration; returns the square of the residual."""
    left = ZERO
    for n in range(start, end):
        i = s.particle[n]
        s.x[i] = s.x[i] + s.p_hat[i] * alpha + s.s_hat[i] * omega
        s.r[i] = s.r[i] - s.t[i] * omega
        left += wp.dot(s.r[i], s.r[i])
    return left


@wp.kernel
def solve_worlds(first: int, most: int, tolerance: wp.float64, s: SystemView):
    """One thread per world: iterate until the residual is small, or `most` times."""
    w = first + wp.tid()
    start = s.world_start[w]
    end = s.world_start[w + 1]
    size = product(s, start, end, s.r, s.r)
    s.iterations[w] = 0
    s.residual[w] = ZERO
    if size == ZERO:
        return
    rho = ONE
    alpha = ONE
    omega = ONE
    left = size
    count = int(0)
    while count < most and left > tolerance * tolerance * size:
        rho_next = product(s, start, end, s.shadow, s.r)
        beta = (rho_next / rho) * (alpha / omega)
        rho = rho_next
        if count == 0:
            beta = ZERO
        next_directions(s, start, end, beta, omega)
        rows_times(s, start, end, s.p_hat, s.v)
        alpha = rho / product(s, start, end, s.shadow, s.v)
        first_half(s, start, end, alpha)
        rows_times(s, start, end, s.s_hat, s.t)
        tt = product(s, start, end, s.t, s.t)
        omega = ZERO
        if tt > ZERO:
            omega = product(s, start, end, s.t, s.r) / tt
        left = second_half(s, start, end, alpha, omega)
        count += 1
        if omega == ZERO or rho == ZERO:
            break
    s.iterations[w] = count
    s.residual[w] = wp.sqrt(left / size)
