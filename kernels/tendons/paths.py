"""Lengths of tendons, and their derivatives by the degrees of freedom.

A fixed tendon is a weighted sum of joint coordinates. A spatial one consists of straight segments between
points of bodies; after a pulley, lengths are divided by its divisor. Between two points it may wrap around a
sphere or cylinder of a body, see `wrapping`. A dof changes the length according to the velocities of both
ends of each segment, along the segment.

Source: MuJoCo's documentation, "XML reference", element tendon.

Stage: forces at the start of a step, first of tendons
Called by: newtonsim/dynamics/tendon_paths.py
Reads: KinematicsView, TendonMotion, TendonView, TreeView, body_A, body_q, gravity, q, qd
Writes: TendonMotion
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.tendons.wrapping import wrap_around
from newtonsim.kernels.trees.point_motion import BodyStateView, PointMotion, base_gravity, point_motion
from newtonsim.kernels.views.model import KinematicsView, TreeView

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True

# kinds of elements of a path: a joint coordinate, a point that starts a piece, one at the end of a segment, a
# ball or cylinder around which the path may wrap with its auxiliary points (a second point of its axis, a
# side point), and the point after it
ELEMENT_JOINT = wp.constant(0)
ELEMENT_START = wp.constant(1)
ELEMENT_SEGMENT = wp.constant(2)
ELEMENT_WRAP = wp.constant(3)
ELEMENT_AXIS = wp.constant(4)
ELEMENT_SIDE = wp.constant(5)
ELEMENT_AFTER = wp.constant(6)
# shortest segment that has a direction [m]
SHORTEST = wp.constant(1.0e-9)


@wp.struct
class TendonView:
    """Paths of tendons: T tendons, P elements, E entries, one for each dof that changes a length, D dofs."""

    start: wp.array(dtype=int)  # (T + 1) first element
    kind: wp.array(dtype=int)  # (P) ELEMENT_*
    dof: wp.array(dtype=int)  # (P) of a joint coordinate, or -1
    body: wp.array(dtype=int)  # (P) of a point, -1 for the world
    point: wp.array(dtype=wp.vec3)  # (P) [m] in the frame of the body
    scale: wp.array(dtype=float)  # (P) factor of the coordinate, or share of the segment's length
    before: wp.array(dtype=int)  # (P) element at which the segment that ends here begins, -1 for none
    radius: wp.array(dtype=float)  # (P) [m] radius of the wrapped body
    offset: wp.array(dtype=float)  # (T) [m or rad] added to the length
    entry_start: wp.array(dtype=int)  # (T + 1)
    entry_dof: wp.array(dtype=int)  # (E)
    entry_tendon: wp.array(dtype=int)  # (E)
    dof_start: wp.array(dtype=int)  # (D + 1) entries by dof
    dof_entry: wp.array(dtype=int)  # (E)


@wp.struct
class TendonMotion:
    """Lengths and derivatives of tendons in a step."""

    part: wp.array(dtype=float)  # (P) contribution of the element to the length
    along: wp.array(dtype=wp.vec3)  # (P) direction of the segment that ends there, times its scale
    begin: wp.array(dtype=wp.vec3)  # (P) [m] where that segment begins in the world
    end: wp.array(dtype=wp.vec3)  # (P) [m] where it ends, and where a point is
    J: wp.array(dtype=float)  # (E) change of the length with the dof
    length: wp.array(dtype=float)  # (T)
    rate: wp.array(dtype=float)  # (T)
    bend: wp.array(dtype=float)  # (T) second derivative of the length at constant joint velocities


@wp.func
def path_point(i: int, tendon: TendonView, body_q: wp.array(dtype=wp.transform)) -> wp.vec3:
    """World position of element i."""
    x = tendon.point[i]
    b = tendon.body[i]
    if b >= 0:
        x = wp.transform_point(body_q[b], tendon.point[i])
    return x


@wp.func
def direction(start: wp.vec3, end: wp.vec3, share: float) -> wp.vec3:
    """Vector from start to end whose length is `share`; zero if both coincide."""
    found = wp.vec3(0.0, 0.0, 0.0)
    d = end - start
    size = wp.length(d)
    if size > SHORTEST:
        found = share / size * d
    return found


@wp.func
def wrap(i: int, tendon: TendonView, body_q: wp.array(dtype=wp.transform), motion: TendonMotion):
    """Element i, around which the path may wrap: both segments, to it and from it to the point after it."""
    start = path_point(i - 1, tendon, body_q)
    centre = path_point(i, tendon, body_q)
    axis = wp.vec3(0.0, 0.0, 0.0)
    side = wp.vec3(0.0, 0.0, 0.0)
    sided = int(0)
    after = i + 1
    if tendon.kind[after] == ELEMENT_AXIS:
        axis = path_point(after, tendon, body_q) - centre
        after = after + 1
    if tendon.kind[after] == ELEMENT_SIDE:
        side = path_point(after, tendon, body_q)
        sided = 1
        after = after + 1
    end = path_point(after, tendon, body_q)
    found = wrap_around(start, end, centre, axis, tendon.radius[i], sided, side)
    share = tendon.scale[i]
    motion.begin[i] = start
    motion.end[i] = found.first
    motion.part[i] = share * (wp.length(found.first - start) + found.arc)
    motion.along[i] = direction(start, found.first, share)
    motion.begin[after] = found.last
    motion.part[after] = share * wp.length(end - found.last)
    motion.along[after] = direction(found.last, end, share)


@wp.kernel
def measure_paths(
    first: int,
    tree: TreeView,
    tendon: TendonView,
    body_q: wp.array(dtype=wp.transform),
    q: wp.array(dtype=float),
    motion: TendonMotion,
):
    """One thread per element of a path: its contribution to the length, and the direction of its segment."""
    i = first + wp.tid()
    if tendon.kind[i] == ELEMENT_JOINT:
        motion.part[i] = tendon.scale[i] * q[tree.dof_coord[tendon.dof[i]]]
        return
    if tendon.kind[i] == ELEMENT_WRAP:
        wrap(i, tendon, body_q, motion)
        return
    x = path_point(i, tendon, body_q)
    motion.end[i] = x
    if tendon.kind[i] == ELEMENT_SEGMENT:
        start = path_point(i - 1, tendon, body_q)
        motion.begin[i] = start
        motion.part[i] = tendon.scale[i] * wp.length(x - start)
        motion.along[i] = direction(start, x, tendon.scale[i])


@wp.func
def moves(d: int, b: int, tree: TreeView) -> bool:
    """True if dof d moves body b."""
    found = bool(False)
    if b >= 0:
        leaf = tree.body_leaf[b]
        if leaf >= 0:
            if tree.dof_depth[d] <= tree.dof_depth[leaf]:
                found = tree.row_dof[tree.dof_row[leaf] + tree.dof_depth[d]] == d
    return found


@wp.func
def point_rate(d: int, b: int, x: wp.vec3, along: wp.vec3, tree: TreeView, kin: KinematicsView) -> float:
    """Velocity of the point x of body b along a direction per unit velocity of dof d."""
    rate = float(0.0)
    if moves(d, b, tree):
        S = kin.S[d]
        arm = x - kin.origin[tree.body_tree[b]]
        rate = wp.dot(along, wp.spatial_bottom(S) + wp.cross(wp.spatial_top(S), arm))
    return rate


@wp.kernel
def fill_tendon_jacobian(
    first: int, tree: TreeView, tendon: TendonView, kin: KinematicsView, motion: TendonMotion
):
    """One thread per entry: change of the length of a tendon with a dof."""
    e = first + wp.tid()
    t = tendon.entry_tendon[e]
    d = tendon.entry_dof[e]
    total = float(0.0)
    for i in range(tendon.start[t], tendon.start[t + 1]):
        if tendon.kind[i] == ELEMENT_JOINT:
            if tendon.dof[i] == d:
                total += tendon.scale[i]
        elif tendon.before[i] >= 0:
            total += point_rate(d, tendon.body[i], motion.end[i], motion.along[i], tree, kin)
            begin = tendon.body[tendon.before[i]]
            total -= point_rate(d, begin, motion.begin[i], motion.along[i], tree, kin)
    motion.J[e] = total


@wp.kernel
def add_up_lengths(first: int, tendon: TendonView, qd: wp.array(dtype=float), motion: TendonMotion):
    """One thread per tendon: its length, and its rate at joint velocities."""
    t = first + wp.tid()
    length = tendon.offset[t]
    for i in range(tendon.start[t], tendon.start[t + 1]):
        if tendon.kind[i] == ELEMENT_JOINT or tendon.before[i] >= 0:
            length += motion.part[i]
    rate = float(0.0)
    for e in range(tendon.entry_start[t], tendon.entry_start[t + 1]):
        rate += motion.J[e] * qd[tendon.entry_dof[e]]
    motion.length[t] = length
    motion.rate[t] = rate


@wp.func
def carried_point(
    b: int,
    x: wp.vec3,
    tree: TreeView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
) -> PointMotion:
    """Motion of a point of body b; one that no dof moves is at rest."""
    moved = int(-1)
    if b >= 0:
        if tree.body_tree[b] >= 0:
            moved = b
    return point_motion(moved, x, tree, kin, body_A, base_gravity(moved, tree, gravity), BodyStateView())


@wp.func
def segment_bend(
    i: int,
    tree: TreeView,
    tendon: TendonView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    motion: TendonMotion,
) -> float:
    """Second derivative of the length of the straight segment that ends at element i."""
    m0 = carried_point(tendon.body[tendon.before[i]], motion.begin[i], tree, kin, body_A, gravity)
    m1 = carried_point(tendon.body[i], motion.end[i], tree, kin, body_A, gravity)
    d = motion.end[i] - motion.begin[i]
    size = wp.length(d)
    bend = float(0.0)
    if size > SHORTEST:
        v = m1.v - m0.v
        along = wp.dot(d, v) / size
        turning = (wp.length_sq(v) - along * along) / size
        bend = wp.dot(motion.along[i], m1.a - m0.a) + tendon.scale[i] * turning
    return bend


@wp.kernel
def bend_tendons(
    first: int,
    tree: TreeView,
    tendon: TendonView,
    kin: KinematicsView,
    body_A: wp.array(dtype=wp.spatial_vector),
    gravity: wp.array(dtype=wp.vec3),
    motion: TendonMotion,
):
    """One thread per tendon: second derivative of its length at constant joint velocities.

    `body_A` are the accelerations of bodies at these velocities, on a base that accelerates against gravity.
    A path that wraps has none, see `ModelBuilder.add_tendon_spatial`.
    """
    t = first + wp.tid()
    bend = float(0.0)
    for i in range(tendon.start[t], tendon.start[t + 1]):
        if tendon.kind[i] == ELEMENT_SEGMENT:
            bend += segment_bend(i, tree, tendon, kin, body_A, gravity, motion)
    motion.bend[t] = bend
