"""Signed distances of a closed mesh on a grid, and values of fields at points, to build distance fields.

The generalized winding number determines the inside (A. Jacobson, L. Kavan, O. Sorkine-Hornung, "Robust
inside-outside segmentation using generalized winding numbers", ACM Transactions on Graphics 32(4), 2013),
which is correct also for solids that touch or overlap each other.

Stage: building of geometry, before any step
Called by: newtonsim/geometry/sdf.py
Reads: point
Writes: distance, slope, value
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

FAR = wp.constant(1.0e30)


@wp.kernel
def measure_distances(
    mesh: wp.uint64, lower: wp.vec3, voxel: float, ny: int, nz: int, distance: wp.array(dtype=float)
):
    """One thread per grid point, the last axis fastest: signed distance [m] from the mesh."""
    i = wp.tid()
    place = wp.vec3(float(i // (ny * nz)), float(i // nz % ny), float(i % nz))
    p = lower + voxel * place
    query = wp.mesh_query_point_sign_winding_number(mesh, p, FAR)
    if query.result:
        q = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
        distance[i] = query.sign * wp.length(p - q)


@wp.kernel
def read_field(
    volume: wp.uint64,
    point: wp.array(dtype=wp.vec3),
    step: float,
    value: wp.array(dtype=float),
    slope: wp.array(dtype=wp.vec3),
):
    """One thread per point: the field there, and its gradient by central differences."""
    i = wp.tid()
    p = point[i]
    value[i] = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, p), wp.Volume.LINEAR)
    g = wp.vec3()
    for k in range(3):
        shift = wp.vec3()
        shift[k] = step
        above = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, p + shift), wp.Volume.LINEAR)
        below = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, p - shift), wp.Volume.LINEAR)
        g[k] = (above - below) / (2.0 * step)
    slope[i] = g
