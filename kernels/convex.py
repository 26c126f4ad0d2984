"""Convex shapes by their support mappings."""

import warp as wp

from newtonsim.kernels.shapes import ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class Convex:
    """A convex shape, or a triangle of a surface, in its own frame."""

    kind: int  # GEO_* of a convex shape, KIND_HULL or KIND_TRIANGLE
    size: wp.vec3  # [m] scale of the shape, see GeoType
    hull: int  # index into HullView for KIND_HULL, else -1
    a: wp.vec3  # [m] corners of a triangle, counter-clockwise seen from its front
    b: wp.vec3
    c: wp.vec3


@wp.struct
class Closest:
    """Closest points of two convex shapes, or those of deepest penetration."""

    found: int  # 0 if the shapes are farther apart than was asked
    distance: float  # [m] negative in penetration
    normal: wp.vec3  # world, unit, from shape B to shape A
    point_a: wp.vec3  # [m] world, on the surface of A
    point_b: wp.vec3  # [m] world, on the surface of B; point_a - point_b = distance * normal


@wp.func
def convex_shape(shape: ShapeView, s: int) -> Convex:
    """Shape s, which must be convex."""
    c = Convex()
    c.kind = shape.kind[s]
    c.size = shape.geo.scale[s]
    c.hull = shape.hull[s]
    return c
