"""Data that the broad phase passes to the narrow phase, and this to the packing of contacts.

Stage: between broad phase, narrow phase and packing
Called by: kernels/collision/convex/manifold_points.py, kernels/collision/families/plane.py,
    kernels/collision/families/round.py
Reads: its arguments
Writes: ManifoldView
"""

import newtonsim.kernels.lazy_warp as wp

# narrow phases; the broad phase chooses one for each pair from the kinds of both shapes
FAMILY_NONE = wp.constant(-1)
FAMILY_PLANE = wp.constant(0)  # anything with a plane
FAMILY_ROUND = wp.constant(1)  # sphere or capsule with sphere, capsule or box: closed forms
FAMILY_BOX = wp.constant(2)  # box with box
FAMILY_CONVEX = wp.constant(3)  # other pairs of convex shapes
FAMILY_MESH = wp.constant(4)  # convex shape with a triangle mesh or height field
FAMILY_MESH_MESH = wp.constant(5)  # triangle mesh or height field with another
FAMILY_SDF = wp.constant(6)  # anything but a plane with a signed distance field

MANIFOLD_SIZE = wp.constant(8)


@wp.struct
class PairView:
    """Pairs of shapes whose bounds overlap; world w owns the first world_count[w] places of its range.

    Shape 1 is the plane, the field or the surface if the other shape is convex.
    """

    world_start: wp.array(dtype=int)  # (W + 1)
    world_count: wp.array(dtype=int)  # (W)
    world: wp.array(dtype=int)  # (P) world that owns the place, in use or not
    shape0: wp.array(dtype=int)  # (P)
    shape1: wp.array(dtype=int)  # (P)
    entry: wp.array(dtype=int)  # (P) place in the list of the world; empty for crowded ones
    family: wp.array(dtype=int)  # (P) FAMILY_*; FAMILY_NONE where the place is not in use
    reach: wp.array(dtype=float)  # (P) [m] largest gap of points to report
    travel: wp.array(dtype=float)  # (P) [m] the part of it by which points may approach within the step


@wp.struct
class ManifoldView:
    """Contact points of each pair; P places with room for M points.

    M is the most that a pair of the model can have, MANIFOLD_SIZE if there are surfaces or fields.
    """

    count: wp.array(dtype=int)  # (P) zero before the narrow phase
    hidden: wp.array(dtype=int)  # (P) bits of the points at seams between other shapes, to be left out
    point: wp.array2d(dtype=wp.vec3)  # (P, M) [m] world, on the surface of shape 0
    normal: wp.array2d(dtype=wp.vec3)  # (P, M) world, unit, from shape 1 to shape 0
    distance: wp.array2d(dtype=float)  # (P, M) [m] gap along the normal, negative in penetration
    feature: wp.array2d(dtype=int)  # (P, M) number that stays the same while the feature touches


@wp.func
def put_point(manifolds: ManifoldView, pair: int, p: wp.vec3, n: wp.vec3, distance: float, feature: int):
    """Append a contact point; nothing happens if the manifold is full."""
    k = manifolds.count[pair]
    if k < manifolds.point.shape[1]:
        manifolds.point[pair, k] = p
        manifolds.normal[pair, k] = n
        manifolds.distance[pair, k] = distance
        manifolds.feature[pair, k] = feature
        manifolds.count[pair] = k + 1
