"""The inside of triangles between particles against rigid bodies, in extended position-based dynamics.

The deepest point of a triangle is searched from its centre by the method of Frank and Wolfe (Macklin,
Erleben, Müller, Chentanez, Jeschke, Corse, "Local optimization for robust signed distance field collision",
PACMCGIT 3(1), 2020, section 4).
"""

import warp as wp

from newtonsim.kernels.moving_bodies import (
    MotionView,
    deviation_at,
    inverse_mass_at,
    push_body,
    velocity_at,
)
from newtonsim.kernels.point_distance import RigidView, shape_distance
from newtonsim.kernels.shapes import shape_pose
from newtonsim.kernels.xpbd_contacts import RECOVERY

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# most contacts of a triangle; the deepest ones are kept
FACE_CONTACTS = wp.constant(2)
# steps of the search for the deepest point
SEARCH = wp.constant(12)
# weight of a corner above which the contact is left to the particle there
CORNER = wp.constant(0.95)


@wp.struct
class FaceView:
    """Contacts of T triangles, FACE_CONTACTS for each."""

    count: wp.array(dtype=int)  # (T)
    shape: wp.array2d(dtype=int)  # (T, FACE_CONTACTS)
    weight: wp.array2d(dtype=wp.vec3)  # of the corners in the point of contact
    normal: wp.array2d(dtype=wp.vec3)  # out of the shape
    overlap: wp.array2d(dtype=float)  # [m] of the predicted position
    before: wp.array2d(dtype=float)  # [m] at the start of the substep
    push: wp.array2d(dtype=float)  # impulse along the normal, times the length of the substep [kg m]
    hold: wp.array2d(dtype=wp.vec3)  # impulse of friction on the body, likewise


@wp.func
def blend(m: wp.array(dtype=wp.vec3), corner: wp.vec3i, weight: wp.vec3) -> wp.vec3:
    """Value at a point of a triangle of what its corners have."""
    return m[corner[0]] * weight[0] + m[corner[1]] * weight[1] + m[corner[2]] * weight[2]


@wp.func
def corners_of(indices: wp.array2d(dtype=int), t: int) -> wp.vec3i:
    """Particles of a triangle."""
    return wp.vec3i(indices[t, 0], indices[t, 1], indices[t, 2])


@wp.func
def least_corner(x: wp.array(dtype=wp.vec3), corner: wp.vec3i, n: wp.vec3) -> wp.vec3:
    """Weights of the corner that lies lowest along n."""
    a = wp.dot(n, x[corner[0]])
    b = wp.dot(n, x[corner[1]])
    c = wp.dot(n, x[corner[2]])
    if a <= b and a <= c:
        return wp.vec3(1.0, 0.0, 0.0)
    if b <= c:
        return wp.vec3(0.0, 1.0, 0.0)
    return wp.vec3(0.0, 0.0, 1.0)


@wp.kernel
def find_face_contacts(
    first: int,
    indices: wp.array2d(dtype=int),
    world: wp.array(dtype=int),
    radius: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
    faces: FaceView,
):
    """One thread per triangle: shapes that its inside overlaps at the predicted position, or comes near."""
    t = first + wp.tid()
    corner = corners_of(indices, t)
    centre = wp.vec3(1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
    c = blend(x, corner, centre)
    size = float(0.0)
    for k in range(3):
        size = wp.max(size, wp.length(x[corner[k]] - c))
    margin = radius[corner[0]]
    reach = margin + 0.5 * wp.length(blend(v, corner, centre)) * dt
    count = int(0)
    w = world[corner[0]]
    for place in range(rigid.start[w], rigid.start[w + 1]):
        s = rigid.listed[place]
        X = shape_pose(rigid.shape, s, bodies.pose)
        viewer = c - blend(v, corner, centre) * dt
        gap = shape_distance(rigid, s, X, c, viewer, reach + size)
        if gap.distance < reach + size and count < FACE_CONTACTS:
            weight = centre
            for step in range(SEARCH):
                weight += (least_corner(x, corner, gap.normal) - weight) * (2.0 / (float(step) + 3.0))
                p = blend(x, corner, weight)
                gap = shape_distance(rigid, s, X, p, p - blend(v, corner, weight) * dt, reach + size)
            if gap.distance < reach and wp.max(weight) < CORNER:
                b = rigid.shape.body[s]
                p = blend(x, corner, weight)
                speed = blend(v, corner, weight) - velocity_at(bodies, b, p)
                faces.shape[t, count] = s
                faces.weight[t, count] = weight
                faces.normal[t, count] = gap.normal
                faces.overlap[t, count] = margin - gap.distance
                faces.before[t, count] = margin - gap.distance + wp.dot(gap.normal, speed) * dt
                faces.push[t, count] = 0.0
                faces.hold[t, count] = wp.vec3(0.0)
                if b >= 0 and gap.distance < margin:
                    wp.atomic_add(bodies.touching, b, 1)
                count += 1
    faces.count[t] = count


@wp.kernel
def solve_face_contacts(
    first: int,
    face: wp.array(dtype=int),
    indices: wp.array2d(dtype=int),
    inv_mass: wp.array(dtype=float),
    friction: wp.array(dtype=float),
    shape_friction: wp.array(dtype=float),
    rigid: RigidView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    bodies: MotionView,
    faces: FaceView,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per triangle of one colour: as `solve_contacts`, for a point of the triangle."""
    t = face[first + wp.tid()]
    corner = corners_of(indices, t)
    for k in range(faces.count[t]):
        s = faces.shape[t, k]
        n = faces.normal[t, k]
        weight = faces.weight[t, k]
        w = float(0.0)
        for c in range(3):
            w += weight[c] * weight[c] * inv_mass[corner[c]]
        b = rigid.shape.body[s]
        moved = blend(shift, corner, weight)
        p = blend(x, corner, weight) + moved
        w_n = w + inverse_mass_at(bodies, b, p, n)
        if w_n > 0.0:
            allowed = wp.max(faces.before[t, k], 0.0) * (1.0 - RECOVERY)
            depth = faces.overlap[t, k] - allowed - wp.dot(n, moved - deviation_at(bodies, b, p) * dt)
            old = faces.push[t, k]
            push = wp.max(old + depth / w_n, 0.0)
            faces.push[t, k] = push
            slide = blend(v, corner, weight) * dt + moved + n * ((push - old) * w)
            slide = slide - velocity_at(bodies, b, p) * dt
            slide = slide - n * wp.dot(n, slide)
            distance = wp.length(slide)
            held = faces.hold[t, k]
            hold = held
            if distance > 0.0:
                hold = held + slide / (w + inverse_mass_at(bodies, b, p, slide / distance))
            most = friction[corner[0]] * shape_friction[s] * push
            size = wp.length(hold)
            if size > most:
                hold = hold * (most / size)
            faces.hold[t, k] = hold
            change = n * (push - old) - (hold - held)
            for c in range(3):
                shift[corner[c]] = shift[corner[c]] + change * (weight[c] * inv_mass[corner[c]])
            push_body(bodies, b, p, -change / dt)
