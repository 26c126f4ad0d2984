"""Penalty forces between particles that touch, or are near enough to attract each other.

Each particle sums up the forces of its neighbours in the order of the grid: no sum depends on threads, and
forces of two on each other are opposite to the last bit.

Stage: penalty forces, contacts between particles
Called by: solvers/semi_implicit/grains.py
Reads: GrainMaterial, GrainView, GridView, v, x
Writes: f
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.grid import SPANS, GridView, span_of
from newtonsim.kernels.particles.pairs import GrainView, may_touch
from newtonsim.kernels.penalty.contact_law import contact_force
from newtonsim.kernels.penalty.particle_contacts import inverse_of_mass, most_damping, pull_back

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class GrainMaterial:
    """Contact material of N particles; two in contact have the mean of both."""

    ke: wp.array(dtype=float)  # [N/m]
    kd: wp.array(dtype=float)  # [N s/m]
    kf: wp.array(dtype=float)  # [N s/m]
    mu: wp.array(dtype=float)
    radius: wp.array(dtype=float)  # [m]
    cohesion: wp.array(dtype=float)  # [m] gap up to which they attract each other
    slip: float  # [m/s] speed below which friction fades
    fade: float  # [m] penetration below which damping fades
    rate: float  # [1/s] one over the time step
    mass: wp.array(dtype=float)  # [kg]


@wp.func
def mean_of(values: wp.array(dtype=float), i: int, j: int) -> float:
    """Mean of two entries."""
    return 0.5 * (values[i] + values[j])


@wp.func
def grain_force(
    i: int, j: int, x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), material: GrainMaterial
) -> wp.vec3:
    """Force on particle i by particle j; none where they are in the same place."""
    d = x[i] - x[j]
    distance = wp.length(d)
    force = wp.vec3(0.0, 0.0, 0.0)
    if distance > 0.0:
        n = d / distance
        ke = mean_of(material.ke, i, j)
        w = inverse_of_mass(material.mass[i]) + inverse_of_mass(material.mass[j])
        most = most_damping(material.rate, w)
        kd = wp.min(mean_of(material.kd, i, j), most)
        kf = wp.min(mean_of(material.kf, i, j), most)
        mu = mean_of(material.mu, i, j)
        depth = material.radius[i] + material.radius[j] - distance
        force = contact_force(depth, v[i] - v[j], n, ke, kd, kf, mu, material.slip, material.fade)
        force -= pull_back(depth, mean_of(material.cohesion, i, j), ke) * n
    return force


@wp.kernel
def push_grains(
    first: int,
    grid: GridView,
    grains: GrainView,
    material: GrainMaterial,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: add the forces of its neighbours."""
    i = first + wp.tid()
    if grid.cell[i] < 0:
        return
    r = grid.grid[i]
    n = grid.cells[r]
    place = grid.cell[i] - grid.cell_first[r]
    c = wp.vec3i(place % n[0], (place / n[0]) % n[1], place / (n[0] * n[1]))
    for k in range(SPANS):
        span = span_of(grid, r, c, k)
        for other in range(span[0], span[1]):
            j = grid.order[other]
            if j != i:
                if may_touch(grains, i, j, grains.radius[i] + grains.radius[j]):
                    wp.atomic_add(f, i, grain_force(i, j, x, v, material))
