"""Collision shapes as kernels see them: placement, kind, size, and the hulls of convex meshes.

Stage: collision, queries, ray casting
Called by: kernels/collision/pairs/bounds.py, kernels/collision/pairs/broad_phase.py
Reads: ShapeView, body_q
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.views.structs import ModelShapeGeometry

GEO_SPHERE = wp.constant(0)
GEO_BOX = wp.constant(1)
GEO_CAPSULE = wp.constant(2)
GEO_CYLINDER = wp.constant(3)
GEO_CONE = wp.constant(4)
GEO_MESH = wp.constant(5)
GEO_SDF = wp.constant(6)
GEO_PLANE = wp.constant(7)
GEO_NONE = wp.constant(8)
GEO_ELLIPSOID = wp.constant(9)
GEO_HFIELD = wp.constant(10)
# kinds beyond GeoType: a mesh that collides as its convex hull, and a triangle of a surface
KIND_HULL = wp.constant(11)
KIND_TRIANGLE = wp.constant(12)


@wp.struct
class ShapeView:
    """Placement and geometry of shapes; S shapes."""

    body: wp.array(dtype=int)  # (S) -1 for static shapes
    transform: wp.array(dtype=wp.transform)  # (S) pose in the body frame
    geo: ModelShapeGeometry
    kind: wp.array(dtype=int)  # (S) GeoType, or KIND_HULL for meshes that collide as their hull
    hull: wp.array(dtype=int)  # (S) index into HullView, or -1
    radius: wp.array(dtype=float)  # (S) [m] about the shape's origin
    local_lower: wp.array(dtype=wp.vec3)  # (S) [m] box in the shape's frame; of meshes, height fields, SDFs
    local_upper: wp.array(dtype=wp.vec3)  # (S) [m]


@wp.struct
class HullView:
    """Convex polyhedra in the frames of their shapes, scale included; H hulls, V vertices, F faces.

    Vertex and face numbers in `neighbor` and `corner` count from the hull's own first vertex.
    """

    vertex_start: wp.array(dtype=int)  # (H + 1)
    vertex: wp.array(dtype=wp.vec3)  # (V) [m]
    neighbor_start: wp.array(dtype=int)  # (V + 1)
    neighbor: wp.array(dtype=int)  # vertices that share an edge
    face_start: wp.array(dtype=int)  # (H + 1)
    face_normal: wp.array(dtype=wp.vec3)  # (F) outward, unit
    corner_start: wp.array(dtype=int)  # (F + 1)
    corner: wp.array(dtype=int)  # vertices of each face, counter-clockwise seen from outside


@wp.func
def shape_pose(shape: ShapeView, s: int, body_q: wp.array(dtype=wp.transform)) -> wp.transform:
    """World pose of shape s."""
    pose = shape.transform[s]
    if shape.body[s] >= 0:
        pose = body_q[shape.body[s]] * pose
    return pose
