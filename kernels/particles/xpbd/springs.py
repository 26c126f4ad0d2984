"""Springs in extended position-based dynamics.

Elements are stored by colour: those of one colour share no particle, and occupy consecutive "places". The
force of an element is stored as a vector, and not as a multiplier of the constraint's gradient as in Macklin
et al. 2016. When the gradient rotates during the sweeps, the vector rotates with it, so that sweeps converge
to the implicit Euler step itself, and not only near it.

Stage: XPBD substep, sweeps over elements
Called by: solvers/xpbd/elements.py
Reads: SpringView, 10 arrays
Writes: SpringView, shift
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.elements.spring import controlled_length
from newtonsim.kernels.particles.xpbd.particles import is_cleared

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class SpringView:
    """S springs by place; valid during a step."""

    place: wp.array(dtype=int)  # (S) of each spring of the model
    ends: wp.array(dtype=wp.vec2i)
    weight: wp.array(dtype=wp.vec2)  # inverse masses of the ends [1/kg]
    rest: wp.array(dtype=float)  # [m]
    stiffness: wp.array(dtype=float)  # [N/m]
    damping: wp.array(dtype=float)  # [N s/m]
    across: wp.array(dtype=float)  # damping of the relative velocity of the ends in all directions [N s/m]
    force: wp.array(dtype=wp.vec3)  # on the first end [N]
    resistance: wp.array(dtype=wp.vec3)  # on the first end, by `across` [N]


@wp.kernel
def prepare_springs(
    first: int,
    rest_length: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    control: wp.array(dtype=float),
    across: wp.array(dtype=float),
    inv_mass: wp.array(dtype=float),
    springs: SpringView,
):
    """One thread per spring: read its parameters from the model at the start of a step."""
    e = first + wp.tid()
    s = springs.place[e]
    i = springs.ends[s][0]
    j = springs.ends[s][1]
    springs.weight[s] = wp.vec2(inv_mass[i], inv_mass[j])
    springs.rest[s] = controlled_length(rest_length[e], control[e])
    springs.stiffness[s] = stiffness[e]
    springs.damping[s] = damping[e]
    springs.across[s] = across[e]


@wp.kernel
def clear_springs(
    first: int, masked: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), springs: SpringView
):
    """One thread per spring: clear the forces of the last substep, in masked worlds or in all."""
    s = springs.place[first + wp.tid()]
    if is_cleared(masked, mask, world, springs.ends[s][0]):
        springs.force[s] = wp.vec3(0.0)
        springs.resistance[s] = wp.vec3(0.0)


@wp.kernel
def start_springs(
    first: int, base: int, springs: SpringView, keep: float, dt: float, shift: wp.array(dtype=wp.vec3)
):
    """One thread per spring of a colour: start from a share of the force of the last substep."""
    s = base + first + wp.tid()
    i = springs.ends[s][0]
    j = springs.ends[s][1]
    force = springs.force[s] * keep
    springs.force[s] = force
    springs.resistance[s] = wp.vec3(0.0)
    shift[i] = shift[i] + force * (springs.weight[s][0] * dt * dt)
    shift[j] = shift[j] - force * (springs.weight[s][1] * dt * dt)


@wp.kernel
def solve_springs(
    first: int,
    base: int,
    springs: SpringView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    fresh: int,
    relaxation: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per spring of a colour: Macklin et al. 2016, equations 18 and 26, for the force along it.

    In a `fresh` substep, there is no force yet. The force perpendicular to the spring, which has rotated
    since, is removed; the tension resists this.
    """
    s = base + first + wp.tid()
    i = springs.ends[s][0]
    j = springs.ends[s][1]
    w_i = springs.weight[s][0] * dt * dt
    w_j = springs.weight[s][1] * dt * dt
    w = w_i + w_j
    d = (x[i] - x[j]) + (shift[i] - shift[j])
    length = wp.length(d)
    if w > 0.0 and length > 0.0:
        n = d * (1.0 / length)
        force = wp.vec3(0.0)
        if fresh == 0:
            force = springs.force[s]
        along = wp.dot(n, force)
        k = springs.stiffness[s]
        missing = along + k * (length - springs.rest[s])
        c = springs.damping[s] / dt
        if c > 0.0:
            missing += c * wp.dot(n, (v[i] - v[j]) * dt + (shift[i] - shift[j]))
        change = n * (missing / (1.0 + (k + c) * w))
        if fresh == 0:
            change += (force - n * along) * (length / (length + wp.abs(along) * w))
        change = change * relaxation
        springs.force[s] = force - change
        shift[i] = shift[i] - change * w_i
        shift[j] = shift[j] + change * w_j


@wp.kernel
def damp_springs(
    first: int,
    base: int,
    springs: SpringView,
    v: wp.array(dtype=wp.vec3),
    dt: float,
    fresh: int,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per spring of a colour: damping of the relative velocity of its ends in all directions."""
    s = base + first + wp.tid()
    i = springs.ends[s][0]
    j = springs.ends[s][1]
    w_i = springs.weight[s][0] * dt * dt
    w_j = springs.weight[s][1] * dt * dt
    c = springs.across[s] / dt
    moved = (v[i] - v[j]) * dt + (shift[i] - shift[j])
    resistance = wp.vec3(0.0)
    if fresh == 0:
        resistance = springs.resistance[s]
    change = (resistance + moved * c) / (1.0 + (w_i + w_j) * c)
    springs.resistance[s] = resistance - change
    shift[i] = shift[i] - change * w_i
    shift[j] = shift[j] + change * w_j
