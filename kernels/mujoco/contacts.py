"""Contacts of the collision pass in MuJoCo's arrays.

A contact there has a frame whose first row is the normal from the first geom to the second, the distance and
the point midway between both surfaces. See "Contact" in MuJoCo's chapter "Computation".

Stage: step by MuJoCo, before it, collision
Called by: solvers/mujoco/contacts.py
Reads: ContactView, MujocoView, SurfaceView, body_q
Writes: MujocoContactView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.mujoco.state import MujocoView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

vec5 = wp.types.vector(length=5, dtype=float)

CONSTRAINT = wp.constant(1)  # mujoco_warp's bit for contacts that are no mere sensor readings
LEAST_FRICTION = wp.constant(1.0e-5)  # lower limit of MuJoCo's contact coefficients
NO_ROOM = wp.constant(8)  # its bit for contacts that were omitted


@wp.struct
class SurfaceView:
    """Geoms of the shapes (S) and contact parameters of the geoms (G)."""

    body: wp.array(dtype=int)  # (S)
    row: wp.array(dtype=int)  # (S) MuJoCo's world, -1 for shapes in all of them
    geom: wp.array(dtype=int)  # (S) or -1
    friction: wp.array(dtype=wp.vec3)  # (G) sliding, torsional, rolling
    condim: wp.array(dtype=int)  # (G)
    solref: wp.array(dtype=wp.vec2)  # (G)
    solimp: wp.array(dtype=vec5)  # (G)


@wp.struct
class MujocoContactView:
    """Contacts of all of MuJoCo's worlds, with room for C; arrays that are not listed here do not change."""

    count: wp.array(dtype=int)  # (1)
    overflow: wp.array(dtype=int)  # (rows)
    dist: wp.array(dtype=float)  # (C) [m]
    pos: wp.array(dtype=wp.vec3)  # (C) [m]
    frame: wp.array(dtype=wp.mat33)  # (C)
    includemargin: wp.array(dtype=float)  # (C) [m]
    friction: wp.array(dtype=vec5)  # (C)
    solref: wp.array(dtype=wp.vec2)  # (C)
    solreffriction: wp.array(dtype=wp.vec2)  # (C)
    solimp: wp.array(dtype=vec5)  # (C)
    dim: wp.array(dtype=int)  # (C)
    geom: wp.array(dtype=wp.vec2i)  # (C)
    worldid: wp.array(dtype=int)  # (C)
    type: wp.array(dtype=int)  # (C)
    geomcollisionid: wp.array(dtype=int)  # (C)


@wp.func
def touching_point(
    body: int, body_q: wp.array(dtype=wp.transform), point: wp.vec3, offset: wp.vec3
) -> wp.vec3:
    """World position of a point of a contact [m]."""
    p = point + offset
    if body >= 0:
        p = wp.transform_point(body_q[body], p)
    return p


@wp.func
def contact_frame(n: wp.vec3) -> wp.mat33:
    """Rows: the normal and two tangents."""
    e = wp.vec3(1.0, 0.0, 0.0)
    if wp.abs(n[0]) > 0.7:
        e = wp.vec3(0.0, 1.0, 0.0)
    t = wp.normalize(e - wp.dot(e, n) * n)
    return wp.matrix_from_rows(n, t, wp.cross(n, t))


@wp.kernel
def clear_contacts(first: int, out: MujocoContactView):
    """One thread: clear the number of contacts."""
    out.count[0] = 0


@wp.kernel
def write_contacts(
    first: int,
    contacts: ContactView,
    surfaces: SurfaceView,
    view: MujocoView,
    body_q: wp.array(dtype=wp.transform),
    out: MujocoContactView,
):
    """One thread per place of a contact: append it if its surfaces overlap."""
    c = first + wp.tid()
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    if s0 < 0 or s1 < 0:
        return
    g0 = surfaces.geom[s0]
    g1 = surfaces.geom[s1]
    if contacts.distance[c] >= 0.0 or g0 < 0 or g1 < 0:
        return
    row = wp.max(surfaces.row[s0], surfaces.row[s1])
    k = wp.atomic_add(out.count, 0, 1)
    if k >= out.dist.shape[0]:
        out.overflow[row] = NO_ROOM
        return
    p0 = touching_point(surfaces.body[s0], body_q, contacts.point0[c], contacts.offset0[c])
    p1 = touching_point(surfaces.body[s1], body_q, contacts.point1[c], contacts.offset1[c])
    inverse = wp.transform_inverse(view.origin[row])
    out.dist[k] = contacts.distance[c]
    out.pos[k] = wp.transform_point(inverse, 0.5 * (p0 + p1))
    out.frame[k] = contact_frame(wp.normalize(wp.transform_vector(inverse, contacts.normal[c])))
    out.includemargin[k] = 0.0
    f0 = surfaces.friction[g0]
    f1 = surfaces.friction[g1]
    slide = wp.max(wp.max(f0[0], f1[0]), LEAST_FRICTION)
    spin = wp.max(wp.max(f0[1], f1[1]), LEAST_FRICTION)
    roll = wp.max(wp.max(f0[2], f1[2]), LEAST_FRICTION)
    out.friction[k] = vec5(slide, slide, spin, roll, roll)
    out.solref[k] = 0.5 * (surfaces.solref[g0] + surfaces.solref[g1])
    out.solreffriction[k] = wp.vec2(0.0, 0.0)
    out.solimp[k] = 0.5 * (surfaces.solimp[g0] + surfaces.solimp[g1])
    out.dim[k] = wp.max(surfaces.condim[g0], surfaces.condim[g1])
    # the normal points from shape 1 to shape 0
    out.geom[k] = wp.vec2i(g1, g0)
    out.worldid[k] = row
    out.type[k] = CONSTRAINT
    out.geomcollisionid[k] = k


@wp.kernel
def bound_contacts(first: int, out: MujocoContactView):
    """One thread: limit the number of contacts to those that found room."""
    out.count[0] = wp.min(out.count[0], out.dist.shape[0])
