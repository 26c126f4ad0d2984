"""Packing of the manifolds of pairs into lists of contacts per world.

Every contact is matched with one of the last pass: the same pair of shapes and the same feature, or else the
nearest point. Solvers start from the impulse of the match.

Stage: collision, last, packing of contacts
Called by: newtonsim/collision/contacts.py, kernels/collision/crowded.py,
    kernels/collision/world_contacts.py, kernels/collision/world_pairs.py,
    kernels/constraints/contact_rows.py
Reads: world_count
Writes: total
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.body_points import point_velocity
from newtonsim.kernels.collision.pairs.manifolds import ManifoldView, PairView
from newtonsim.kernels.views.shapes import GEO_CAPSULE, GEO_SPHERE, ShapeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

# share of the smaller shape's radius by which a point may move from pass to pass and still be the same
SAME_POINT = wp.constant(0.1)


@wp.struct
class ContactView:
    """Packed contacts: world w owns the range [world_start[w], world_start[w] + world_count[w])."""

    world_start: wp.array(dtype=int)  # (W + 1)
    world_count: wp.array(dtype=int)  # (W)
    world: wp.array(dtype=int)  # (C) world that owns the place, in use or not
    pair: wp.array(dtype=int)  # (C) place of the pair in PairView
    point: wp.array(dtype=int)  # (C) number of the point in the pair's manifold
    shape0: wp.array(dtype=int)  # (C) -1 where not in use
    shape1: wp.array(dtype=int)  # (C)
    point0: wp.array(dtype=wp.vec3)  # (C) [m] feature of shape 0, frame of its body
    point1: wp.array(dtype=wp.vec3)  # (C) [m] feature of shape 1, frame of its body
    offset0: wp.array(dtype=wp.vec3)  # (C) [m] from point0 along the normal to the surface, frame of body 0
    offset1: wp.array(dtype=wp.vec3)  # (C)
    normal: wp.array(dtype=wp.vec3)  # (C) world, from shape 1 towards shape 0
    thickness: wp.array(dtype=float)  # (C) [m] length of both offsets together
    distance: wp.array(dtype=float)  # (C) [m] gap, negative in penetration
    feature: wp.array(dtype=int)  # (C) number of the feature within its pair of shapes
    match: wp.array(dtype=int)  # (C) place of the same contact in the last pass, or -1


@wp.struct
class HistoryView:
    """Contacts of the last pass, by pairs of shapes.

    Pair q is an entry of the list of candidate pairs. Crowded worlds have no such list: there, q is the place
    of the pair in the last pass, found through lists that the smaller shape of each pair holds.
    """

    first: wp.array(dtype=int)  # (Q) place of the first contact of each pair
    end: wp.array(dtype=int)  # (Q) place after its last one, 0 if it had none
    head: wp.array(dtype=int)  # (S) first pair of each shape, or -1; empty with a list, as the next two
    next: wp.array(dtype=int)  # (Q) next pair of the same shape, or -1
    other: wp.array(dtype=int)  # (Q) the other shape
    feature: wp.array(dtype=int)  # (C)
    point0: wp.array(dtype=wp.vec3)  # (C) [m] frame of body 0


@wp.struct
class OverflowView:
    """Overflow of buffers."""

    pairs_needed: wp.array(dtype=int)  # (W) number of pairs in the last pass
    contacts_needed: wp.array(dtype=int)  # (W) number of contacts in the last pass
    most_pairs: wp.array(dtype=int)  # (W) largest number of pairs without room, 0 if there always was room
    most_contacts: wp.array(dtype=int)  # (W) largest number of contacts without room
    any: wp.array(dtype=int)  # (1) 1 after the first overflow; threads write no other value


@wp.func
def approach_speed(
    shape: ShapeView,
    s0: int,
    s1: int,
    p: wp.vec3,
    n: wp.vec3,
    body_q: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    body_qd: wp.array(dtype=wp.spatial_vector),
) -> float:
    """Speed [m/s] at which two surfaces approach each other at a point."""
    v = point_velocity(shape.body[s0], p, body_q, body_com, body_qd)
    v -= point_velocity(shape.body[s1], p, body_q, body_com, body_qd)
    return wp.max(0.0, -wp.dot(n, v))


@wp.func
def drop_points(
    p: int,
    pairs: PairView,
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    margin: float,
    dt: float,
    manifolds: ManifoldView,
):
    """Account for thickness in the manifold of a pair, and keep the points that may touch within the step.

    Hidden points are dropped.
    """
    count = manifolds.count[p]
    if count == 0:
        return
    s0 = pairs.shape0[p]
    s1 = pairs.shape1[p]
    thickness = shape.geo.thickness[s0] + shape.geo.thickness[s1]
    hidden = manifolds.hidden[p]
    n = int(0)
    for k in range(count):
        x = manifolds.point[p, k]
        normal = manifolds.normal[p, k]
        distance = manifolds.distance[p, k] - thickness
        speed = float(0.0)
        if dt > 0.0 and distance > margin:
            speed = approach_speed(shape, s0, s1, x, normal, body_q, body_com, body_qd)
        if distance <= margin + speed * dt and (hidden >> k) & 1 == 0:
            manifolds.point[p, n] = x
            manifolds.normal[p, n] = normal
            manifolds.distance[p, n] = distance
            manifolds.feature[p, n] = manifolds.feature[p, k]
            n += 1
    manifolds.count[p] = n


@wp.kernel
def sum_counts(world_count: wp.array(dtype=int), total: wp.array(dtype=int)):
    """One thread: contacts of all worlds."""
    n = int(0)
    for w in range(world_count.shape[0]):
        n += world_count[w]
    total[0] = n


@wp.func
def to_body(shape: ShapeView, s: int, body_q: wp.array(dtype=wp.transform)) -> wp.transform:
    """World to the frame of the shape's body."""
    inverse = wp.transform_identity()
    if shape.body[s] >= 0:
        inverse = wp.transform_inverse(body_q[shape.body[s]])
    return inverse


@wp.func
def rounding(shape: ShapeView, s: int) -> float:
    """Distance of the surface from the feature in contact, such as a sphere's centre or a capsule's axis."""
    r = float(0.0)
    if shape.kind[s] == GEO_SPHERE or shape.kind[s] == GEO_CAPSULE:
        r = shape.geo.scale[s][0]
    return r


@wp.func
def same_contact(
    shape: ShapeView, manifolds: ManifoldView, contacts: ContactView, history: HistoryView, c: int, q: int
) -> int:
    """Place of contact c in the last pass: the same feature, or else the nearest unmatched point; -1 if new.

    q is its pair in that pass, or -1.
    """
    found = int(-1)
    if q >= 0:
        tolerance = SAME_POINT * wp.min(shape.radius[contacts.shape0[c]], shape.radius[contacts.shape1[c]])
        nearest = tolerance * tolerance
        p = contacts.pair[c]
        for i in range(history.first[q], history.end[q]):
            if history.feature[i] == contacts.feature[c]:
                return i
            d = wp.length_sq(history.point0[i] - contacts.point0[c])
            if d < nearest:
                taken = int(0)
                for k in range(manifolds.count[p]):
                    if manifolds.feature[p, k] == history.feature[i]:
                        taken = 1
                if taken == 0:
                    nearest = d
                    found = i
    return found


@wp.func
def keep_identity(c: int, contacts: ContactView, history: HistoryView):
    """Store what identifies contact c in the next pass."""
    history.feature[c] = contacts.feature[c]
    history.point0[c] = contacts.point0[c]


@wp.func
def is_first_of_pair(c: int, begin: int, contacts: ContactView) -> bool:
    """True if no contact of the same pair comes before c among the contacts of a world from `begin` on."""
    before = wp.max(c - 1, begin)
    return before == c or contacts.pair[before] != contacts.pair[c]


@wp.func
def is_last_of_pair(c: int, end: int, contacts: ContactView) -> bool:
    """True if no contact of the same pair comes after c among the contacts of a world up to `end`."""
    behind = wp.min(c + 1, end - 1)
    return behind == c or contacts.pair[behind] != contacts.pair[c]


@wp.func
def clear_contact(c: int, contacts: ContactView):
    """Mark a place that is not in use."""
    contacts.shape0[c] = -1
    contacts.shape1[c] = -1


@wp.func
def describe_contact(
    c: int,
    pairs: PairView,
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    manifolds: ManifoldView,
    contacts: ContactView,
):
    """Describe contact c, except for its match, in the frames of its bodies."""
    pair = contacts.pair[c]
    k = contacts.point[c]
    s0 = pairs.shape0[pair]
    s1 = pairs.shape1[pair]
    n = manifolds.normal[pair, k]
    p = manifolds.point[pair, k]
    distance = manifolds.distance[pair, k]
    round0 = rounding(shape, s0)
    round1 = rounding(shape, s1)
    thickness0 = shape.geo.thickness[s0]
    thickness1 = shape.geo.thickness[s1]
    to0 = to_body(shape, s0, body_q)
    to1 = to_body(shape, s1, body_q)
    other = p - (distance + thickness0 + thickness1) * n
    contacts.shape0[c] = s0
    contacts.shape1[c] = s1
    contacts.point0[c] = wp.transform_point(to0, p + round0 * n)
    contacts.point1[c] = wp.transform_point(to1, other - round1 * n)
    contacts.offset0[c] = wp.transform_vector(to0, -(round0 + thickness0) * n)
    contacts.offset1[c] = wp.transform_vector(to1, (round1 + thickness1) * n)
    contacts.normal[c] = n
    contacts.thickness[c] = round0 + thickness0 + round1 + thickness1
    contacts.distance[c] = distance
    contacts.feature[c] = manifolds.feature[pair, k]
