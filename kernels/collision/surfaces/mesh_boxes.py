"""Triangles of a mesh in a box, for loops whose bodies themselves query a mesh.

On a GPU, Warp stores the stack of a box or ray query in the shared memory of the block, one place per thread:
a query within the loop of another one overwrites that stack. Therefore, triangles are listed in batches
before they are processed. Every batch traverses the tree again and skips the triangles of previous batches,
since the order is always the same.

Stage: narrow phase, meshes
Called by: kernels/collision/families/mesh_mesh.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.pairs.bounds import Bounds

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

BATCH = wp.constant(32)

Numbers = wp.types.vector(length=int(BATCH), dtype=int)


@wp.struct
class Batch:
    """Some of the triangles in a box."""

    triangle: Numbers
    count: int
    before: int  # triangles in the batches before


@wp.func(inline=False)
def triangles_in_box(mesh: wp.uint64, box: Bounds, before: int) -> Batch:
    """Triangles of an unscaled mesh whose boxes overlap a box, without the first `before` of them."""
    batch = Batch()
    batch.before = before
    met = int(0)
    query = wp.mesh_query_aabb(mesh, box.lower, box.upper)
    t = int(0)
    while wp.mesh_query_aabb_next(query, t):
        if met >= before:
            batch.triangle[batch.count] = t
            batch.count += 1
            if batch.count == BATCH:
                break
        met += 1
    return batch


@wp.func
def triangles_after(mesh: wp.uint64, box: Bounds, batch: Batch) -> Batch:
    """The batch that follows; empty after the last one."""
    rest = Batch()
    if batch.count == BATCH:
        rest = triangles_in_box(mesh, box, batch.before + batch.count)
    return rest
