"""Contact points of pairs of convex shapes without a special narrow phase.

Stage: narrow phase
Called by: newtonsim/collision/collide.py
Reads: HullView, PairView, ShapeView, shape_X
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.convex.convex import convex_shape
from newtonsim.kernels.collision.convex.gjk import closest_points
from newtonsim.kernels.collision.convex.manifold_points import write_manifold
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_CONVEX, ManifoldView, PairView
from newtonsim.kernels.views.shapes import HullView, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func(inline=False)
def find_convex_points(
    pair: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
):
    """Points of two convex shapes within reach of each other."""
    s0 = pairs.shape0[pair]
    s1 = pairs.shape1[pair]
    a = convex_shape(shape, s0)
    b = convex_shape(shape, s1)
    X_a = shape_X[s0]
    X_b = shape_X[s1]
    reach = pairs.reach[pair]
    closest = closest_points(a, X_a, b, X_b, hulls, reach)
    if closest.found == 1:
        write_manifold(a, X_a, b, X_b, hulls, closest, reach, 0, manifolds, pair)


@wp.kernel
def collide_convex(
    first: int,
    pairs: PairView,
    shape: ShapeView,
    hulls: HullView,
    shape_X: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
):
    """One thread per pair place: points of two convex shapes within reach of each other."""
    pair = first + wp.tid()
    # a function of its own: Warp clears all local variables at the start of the one that they are in
    if pairs.family[pair] == FAMILY_CONVEX:
        find_convex_points(pair, pairs, shape, hulls, shape_X, manifolds)
