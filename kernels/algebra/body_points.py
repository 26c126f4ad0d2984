"""Positions and velocities of points of bodies; body -1 is the world, which stands still.

Stage: any that needs points of bodies, collision, constraints, penalties, muscles
Called by: kernels/collision/contacts.py, kernels/constraints/adjoint/, kernels/constraints/contact_rows.py,
    kernels/maximal/contacts.py, kernels/penalty/, kernels/trees/muscles.py
Reads: body_com, body_q, body_qd
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp


@wp.func
def point_in_world(b: int, p: wp.vec3, body_q: wp.array(dtype=wp.transform)) -> wp.vec3:
    """World position of a point of body b."""
    x = p
    if b >= 0:
        x = wp.transform_point(body_q[b], p)
    return x


@wp.func
def point_velocity(
    b: int,
    p: wp.vec3,
    body_q: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    body_qd: wp.array(dtype=wp.spatial_vector),
) -> wp.vec3:
    """World velocity of the point of body b at world position p; zero for the world."""
    v = wp.vec3(0.0, 0.0, 0.0)
    if b >= 0:
        com = wp.transform_point(body_q[b], body_com[b])
        v = wp.spatial_bottom(body_qd[b]) + wp.cross(wp.spatial_top(body_qd[b]), p - com)
    return v
