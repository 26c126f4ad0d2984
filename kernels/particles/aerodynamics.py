"""Aerodynamic forces on triangles: drag and lift of a thin plate, explicit at the start of a step.

Stage: forces on particles at the start of a step
Called by: solvers/particles/aerodynamics.py, kernels/particles/adjoint/steps.py, kernels/penalty/elements.py
Reads: force, indices, materials, start, triangle, v, x
Writes: f, force
"""

import newtonsim.kernels.lazy_warp as wp

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# [m²/s²] squared speed below which lift is zero, since its direction would be undefined
SLOW = wp.constant(1.0e-12)


@wp.func
def air_force(ab: wp.vec3, ac: wp.vec3, v: wp.vec3, drag: float, lift: float) -> wp.vec3:
    """Force of still air on a triangle [N].

    f = -drag A |n·v| v - lift A |v| (n·v) (n - v̂ (n·v̂)): both grow with the square of the speed; drag is
    opposite to the velocity, and lift is perpendicular to it.

    Args:
        ab: Edge from the first to the second corner [m].
        ac: Edge from the first to the third corner [m].
        v: Mean velocity of the corners [m/s].
        drag: Coefficient of drag [kg/m³]: half the density of the air times the dimensionless coefficient.
        lift: Coefficient of lift [kg/m³].
    """
    force = wp.vec3(0.0, 0.0, 0.0)
    double_area = wp.cross(ab, ac)
    size = wp.length(double_area)
    speed2 = wp.dot(v, v)
    if size > 0.0:
        n = double_area / size
        area = 0.5 * size
        vn = wp.dot(n, v)
        force = -drag * area * wp.abs(vn) * v
        if speed2 > SLOW:
            speed = wp.sqrt(speed2)
            force -= lift * area * vn * (speed * n - (vn / speed) * v)
    return force


@wp.kernel
def find_air_forces(
    first: int,
    indices: wp.array2d(dtype=int),
    materials: wp.array2d(dtype=float),
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
):
    """One thread per triangle: a third of the aerodynamic force, which is the share of each corner."""
    t = first + wp.tid()
    i = indices[t, 0]
    j = indices[t, 1]
    k = indices[t, 2]
    mean = (v[i] + v[j] + v[k]) / 3.0
    force[t] = air_force(x[j] - x[i], x[k] - x[i], mean, materials[t, 3], materials[t, 4]) / 3.0


@wp.kernel
def add_air_forces(
    first: int,
    start: wp.array(dtype=int),
    triangle: wp.array(dtype=int),
    force: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
):
    """One thread per particle: add the shares of its triangles, `triangle[start[i]:start[i + 1]]`."""
    i = first + wp.tid()
    total = f[i]
    for k in range(start[i], start[i + 1]):
        total += force[triangle[k]]
    f[i] = total
