"""Contacts and closest points as rows of numbers in world axes, ready to be read by the host.

A row holds the points on both surfaces, the normal and the distance; a row of a contact also holds the normal
force and two friction forces with their directions. Both directions follow from the normal alone, so that
they do not change while a contact lasts.

Stage: after a step, where a PyBullet client reads contacts
Called by: newtonsim/pybullet_compat/queries/contact_reading.py
Reads: ContactView, ReportView, ShapeView, X, impulse
Writes: ContactRecords
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.contact_rows import contact_frame
from newtonsim.kernels.views.shapes import GEO_BOX, GEO_SPHERE, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# columns of a row of numbers
POINT_A = wp.constant(0)
POINT_B = wp.constant(3)
NORMAL = wp.constant(6)
DISTANCE = wp.constant(9)
NORMAL_FORCE = wp.constant(10)
FRICTION_1 = wp.constant(11)
DIRECTION_1 = wp.constant(12)
FRICTION_2 = wp.constant(15)
DIRECTION_2 = wp.constant(16)
CONTACT_NUMBERS = wp.constant(19)

# largest z component of a normal whose first tangent is horizontal
STEEP = wp.constant(0.70710678)

# [m] rounding error of positions in single precision
ROUNDING = wp.constant(1.0e-6)


@wp.struct
class ReportView:
    """Criteria for which contacts are reported and which of both shapes comes first; S shapes."""

    rank: wp.array(dtype=int)  # (S) the shape of lower rank comes first
    reach: wp.array(dtype=float)  # (S) [m] gap up to which the shape reports contacts without force
    part: wp.array(dtype=int)  # (S) 1 for a shape of a compound, which touches only what overlaps its box
    box: wp.array(dtype=wp.transform)  # (S) middle and axes of that box in the frame of the body
    half: wp.array(dtype=wp.vec3)  # (S) [m] its half extents
    round: wp.array(dtype=float)  # (S) [m] margin of its bounding box in the world, on each side
    local: wp.array(dtype=int)  # (S) number of the shape within its world, -1 for shapes that report nothing


@wp.struct
class ContactRecords:
    """Rows for C contact places."""

    numbers: wp.array2d(dtype=wp.float64)  # (C, CONTACT_NUMBERS)
    shapes: wp.array2d(dtype=int)  # (C, 4) shapes A and B within the world, feature, 1 if reported


@wp.func
def put_vector(numbers: wp.array2d(dtype=wp.float64), row: int, column: int, v: wp.vec3):
    """Write three numbers."""
    for i in range(3):
        numbers[row, column + i] = wp.float64(v[i])


@wp.func
def first_tangent(n: wp.vec3) -> wp.vec3:
    """Unit vector perpendicular to n: horizontal for steep surfaces, in the plane x = 0 for flat ones."""
    t = wp.vec3(-n[1], n[0], 0.0)
    if wp.abs(n[2]) > STEEP:
        t = wp.vec3(0.0, -n[2], n[1])
    return wp.normalize(t)


@wp.func
def touching_point(shape: ShapeView, s: int, X: wp.array(dtype=wp.transform), local: wp.vec3) -> wp.vec3:
    """World position of a point of the body of shape s, given the pose X[s] of the shape."""
    return wp.transform_point(X[s], wp.transform_point(wp.transform_inverse(shape.transform[s]), local))


@wp.func
def world_half(report: ReportView, s: int, X: wp.transform) -> wp.vec3:
    """Half extents of the world-aligned box around the box of a shape with the pose X."""
    half = wp.vec3(report.round[s], report.round[s], report.round[s])
    for k in range(3):
        axis = wp.vec3()
        axis[k] = report.half[s][k]
        half += wp.abs(wp.quat_rotate(wp.transform_get_rotation(X), axis))
    return half


@wp.func
def boxes_meet(
    shape: ShapeView, report: ReportView, s0: int, s1: int, X: wp.array(dtype=wp.transform)
) -> bool:
    """Whether the world-aligned boxes of two shapes overlap; X are the poses of the shapes."""
    X0 = X[s0] * wp.transform_inverse(shape.transform[s0]) * report.box[s0]
    X1 = X[s1] * wp.transform_inverse(shape.transform[s1]) * report.box[s1]
    apart = wp.abs(wp.transform_get_translation(X0) - wp.transform_get_translation(X1))
    apart = apart - world_half(report, s0, X0) - world_half(report, s1, X1)
    return wp.max(apart) <= ROUNDING


@wp.func
def touch(
    shape: ShapeView, report: ReportView, s0: int, s1: int, X: wp.array(dtype=wp.transform), distance: float
) -> bool:
    """Whether two separated shapes report a contact without force; X are the poses of the shapes."""
    kind = shape.kind[s0]
    if kind == shape.kind[s1] and (kind == GEO_BOX or kind == GEO_SPHERE):
        return distance <= ROUNDING
    if distance > wp.min(report.reach[s0], report.reach[s1]):
        return False
    if distance > 0.0 and report.part[s0] + report.part[s1] > 0:
        return boxes_meet(shape, report, s0, s1, X)
    return True


@wp.kernel
def write_contact_records(
    contacts: ContactView,
    shape: ShapeView,
    X: wp.array(dtype=wp.transform),
    report: ReportView,
    impulse: wp.array(dtype=wp.vec3),
    rate: float,
    records: ContactRecords,
):
    """One thread per contact place: its row, with forces if there are impulses."""
    c = wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        return
    s0 = contacts.shape0[c]
    s1 = contacts.shape1[c]
    n = contacts.normal[c]
    force = wp.vec3()
    if impulse.shape[0] > 0:
        force = rate * impulse[c]
    distance = contacts.distance[c]
    kept = force[0] > 0.0 or touch(shape, report, s0, s1, X, distance)
    kept = kept and report.local[s0] >= 0 and report.local[s1] >= 0
    p0 = touching_point(shape, s0, X, contacts.point0[c] + contacts.offset0[c])
    p1 = touching_point(shape, s1, X, contacts.point1[c] + contacts.offset1[c])
    friction = wp.transpose(contact_frame(n)) * wp.vec3(0.0, force[1], force[2])
    a = s0
    b = s1
    p_b = p1
    if report.rank[s1] < report.rank[s0]:
        a = s1
        b = s0
        p_b = p0
        n = -n
        friction = -friction
    t1 = first_tangent(n)
    t2 = wp.cross(n, t1)
    records.shapes[c, 0] = report.local[a]
    records.shapes[c, 1] = report.local[b]
    records.shapes[c, 2] = contacts.feature[c]
    records.shapes[c, 3] = wp.where(kept, 1, 0)
    put_vector(records.numbers, c, POINT_B, p_b)
    for i in range(3):  # on one line, so that forces have the same moment on both bodies
        records.numbers[c, POINT_A + i] = wp.float64(p_b[i]) + wp.float64(distance) * wp.float64(n[i])
    put_vector(records.numbers, c, NORMAL, n)
    records.numbers[c, DISTANCE] = wp.float64(distance)
    records.numbers[c, NORMAL_FORCE] = wp.float64(force[0])
    records.numbers[c, FRICTION_1] = wp.float64(wp.dot(friction, t1))
    put_vector(records.numbers, c, DIRECTION_1, t1)
    records.numbers[c, FRICTION_2] = wp.float64(wp.dot(friction, t2))
    put_vector(records.numbers, c, DIRECTION_2, t2)
