"""From the contact slots of pairs to packed lists of contacts per world."""

import warp as wp

from newtonsim.kernels.collide_plane import GEO_CAPSULE, GEO_SPHERE, ShapeView, SlotView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class ContactView:
    """Packed contacts: world w owns the range [world_start[w], world_start[w] + world_count[w])."""

    world_start: wp.array(dtype=int)  # (W + 1)
    world_count: wp.array(dtype=int)  # (W)
    world: wp.array(dtype=int)  # (C) world that owns the place, in use or not
    total: wp.array(dtype=int)  # (1)
    shape0: wp.array(dtype=int)  # (C) -1 where not in use
    shape1: wp.array(dtype=int)  # (C)
    point0: wp.array(dtype=wp.vec3)  # (C) [m] feature of shape 0, frame of its body
    point1: wp.array(dtype=wp.vec3)  # (C) [m] feature of shape 1, frame of its body
    offset0: wp.array(dtype=wp.vec3)  # (C) [m] from point0 along the normal to the surface, frame of body 0
    offset1: wp.array(dtype=wp.vec3)  # (C)
    normal: wp.array(dtype=wp.vec3)  # (C) world, from shape 1 towards shape 0
    thickness: wp.array(dtype=float)  # (C) [m] length of both offsets together
    distance: wp.array(dtype=float)  # (C) [m] gap, negative in penetration
    point_id: wp.array(dtype=int)  # (C) feature that persists from step to step


@wp.kernel
def pack_contacts(
    pair_start: wp.array(dtype=int),
    slots: SlotView,
    feature: wp.array(dtype=int),
    contacts: ContactView,
):
    """One thread per world: number the slots in use, in the order of the pairs."""
    w = wp.tid()
    first = contacts.world_start[w]
    n = int(0)
    for pair in range(pair_start[w], pair_start[w + 1]):
        for i in range(slots.count[pair]):
            feature[first + n] = pair
            contacts.point_id[first + n] = slots.index[slots.start[pair] + i]
            n += 1
    contacts.world_count[w] = n
    wp.atomic_add(contacts.total, 0, n)


@wp.func
def to_body(shape: ShapeView, s: int, body_q: wp.array(dtype=wp.transform)) -> wp.transform:
    """World to the frame of the shape's body."""
    inverse = wp.transform_identity()
    if shape.body[s] >= 0:
        inverse = wp.transform_inverse(body_q[shape.body[s]])
    return inverse


@wp.func
def rounding(shape: ShapeView, s: int) -> float:
    """Radius by which the surface lies off the feature in contact: a sphere's centre, a capsule's end."""
    r = float(0.0)
    if shape.geo.type[s] == GEO_SPHERE or shape.geo.type[s] == GEO_CAPSULE:
        r = shape.geo.scale[s][0]
    return r


@wp.kernel
def write_contacts(
    pairs: wp.array(dtype=wp.vec2i),
    shape: ShapeView,
    body_q: wp.array(dtype=wp.transform),
    slots: SlotView,
    feature: wp.array(dtype=int),
    contacts: ContactView,
):
    """One thread per place: the contact's description in the frames of its bodies."""
    c = wp.tid()
    w = contacts.world[c]
    if c - contacts.world_start[w] >= contacts.world_count[w]:
        contacts.shape0[c] = -1
        contacts.shape1[c] = -1
        return
    pair = feature[c]
    slot = contacts.point_id[c]
    s0 = pairs[pair][0]
    s1 = pairs[pair][1]
    n = slots.normal[pair]
    p = slots.point[slot]
    round0 = rounding(shape, s0)
    round1 = rounding(shape, s1)
    thickness0 = shape.geo.thickness[s0]
    thickness1 = shape.geo.thickness[s1]
    to0 = to_body(shape, s0, body_q)
    to1 = to_body(shape, s1, body_q)
    other = p - (slots.distance[slot] + thickness0 + thickness1) * n
    contacts.shape0[c] = s0
    contacts.shape1[c] = s1
    contacts.point0[c] = wp.transform_point(to0, p + round0 * n)
    contacts.point1[c] = wp.transform_point(to1, other - round1 * n)
    contacts.offset0[c] = wp.transform_vector(to0, -(round0 + thickness0) * n)
    contacts.offset1[c] = wp.transform_vector(to1, (round1 + thickness1) * n)
    contacts.normal[c] = n
    contacts.thickness[c] = round0 + thickness0 + round1 + thickness1
    contacts.distance[c] = slots.distance[slot]
