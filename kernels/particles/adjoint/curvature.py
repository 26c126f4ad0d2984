"""Curvature of shapes where particles and triangles touch them.

Stage: backward pass of particles, before the linear system
Called by: solvers/particles/adjoint_contacts.py
Reads: ContactView, RigidView, goal, radius, triangles, weight, x
Writes: curvature
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.contacts import ContactView, blend, corners_of
from newtonsim.kernels.particles.features import surface_curvature
from newtonsim.kernels.particles.point_distance import RigidView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func
def curve(
    rigid: RigidView,
    contacts: ContactView,
    i: int,
    p: wp.vec3,
    way: wp.vec3,
    radius: float,
    curvature: wp.array2d(dtype=wp.mat33),
):
    """Find the curvatures at the contacts of particle or triangle i, which was found at p."""
    for k in range(contacts.count[i]):
        if contacts.push[i, k] != 0.0:
            reach = wp.abs(contacts.overlap[i, k]) + 2.0 * radius
            n = contacts.normal[i, k]
            curvature[i, k] = surface_curvature(rigid, contacts.shape[i, k], p, p - way, n, radius, reach)


@wp.kernel
def curve_particles(
    first: int,
    rigid: RigidView,
    contacts: ContactView,
    radius: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    goal: wp.array(dtype=wp.vec3),
    curvature: wp.array2d(dtype=wp.mat33),
):
    """One thread per particle."""
    i = first + wp.tid()
    curve(rigid, contacts, i, x[i] + goal[i], goal[i], radius[i], curvature)


@wp.kernel
def curve_triangles(
    first: int,
    rigid: RigidView,
    contacts: ContactView,
    weight: wp.array2d(dtype=wp.vec3),
    triangles: wp.array2d(dtype=int),
    radius: wp.array(dtype=float),
    x: wp.array(dtype=wp.vec3),
    goal: wp.array(dtype=wp.vec3),
    curvature: wp.array2d(dtype=wp.mat33),
):
    """One thread per triangle; the contacts of its inside are near each other."""
    t = first + wp.tid()
    corner = corners_of(triangles, t)
    if contacts.count[t] > 0:
        way = blend(goal, corner, weight[t, 0])
        largest = wp.max(radius[corner[0]], wp.max(radius[corner[1]], radius[corner[2]]))
        curve(rigid, contacts, t, blend(x, corner, weight[t, 0]) + way, way, largest, curvature)
