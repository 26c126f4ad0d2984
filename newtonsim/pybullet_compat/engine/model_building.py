"""Bodies of a client as the content of a ModelBuilder.

Body frames of the model are the inertial frames, so that what the API calls position and velocity is what the
solver integrates.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.builder import JointAxis, ModelBuilder
from newtonsim.geometry.transforms import quat_between, quat_multiply
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry
from newtonsim.pybullet_compat.surface.constants import (
    GEOM_BOX,
    GEOM_CAPSULE,
    GEOM_CYLINDER,
    GEOM_HEIGHTFIELD,
    GEOM_MESH,
    GEOM_PLANE,
    GEOM_SPHERE,
    JOINT_GEAR,
    JOINT_PLANAR,
    JOINT_PRISMATIC,
    JOINT_REVOLUTE,
    JOINT_SPHERICAL,
)
from newtonsim.pybullet_compat.world.body import IDENTITY, Body, planar_axes
from newtonsim.pybullet_compat.world.body_kind import body_kind
from newtonsim.pybullet_compat.world.constraint_records import add_loop
from newtonsim.pybullet_compat.world.link_shapes import MESH_MARGIN, is_single
from newtonsim.pybullet_compat.world.structure import NOBODY, BodySlot, ConstraintSlot, WorldContent

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.scene.model import Model

DYNAMIC_GROUP, STATIC_GROUP = 1, 2
ALL = -1
INERT_ARMATURE = 1.0e3
"""Rotor inertia of joints that turn nothing: they stay where they are [kg m²]."""
_FIELD_TO_LINK = np.array([0.5, 0.5, 0.5, 0.5])
"""Turns x, y, z of a height field to y, z, x."""


def describe_world(client: Client, with_room: bool = True) -> WorldContent:
    """Return the content of a client's first world, with its bodies where they are.

    Args:
        client: The client; its bodies and constraints are told where they are.
        with_room: Whether there are empty slots besides.
    """
    with_room = with_room and has_slots(client)
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    content = WorldContent(builder)
    filtered = {uid for pair in client.pair_filters for uid, _ in pair}
    for uid, body in client.bodies.items():
        slot = _add_slot(builder, body, uid, uid in filtered)
        content.add_slot(slot)
        body.first_row, body.first_joint = slot.row, slot.joint
    for pattern in client.room.patterns(client.bodies.values()) if with_room else ():
        content.add_slot(_add_slot(builder, pattern, NOBODY))
    content.filters = frozenset(filter_pairs(client, content))
    builder.shape_collision_filter_pairs.update(content.filters)
    _add_constraints(client, content, with_room)
    return content


def has_slots(client: Client) -> bool:
    """Whether bodies and constraints can come and go while an engine lives.

    Points of soft bodies and shapes of surroundings stand among those of bodies, and windows show a model as
    it was built.
    """
    return not (client.soft_bodies or client.surroundings or client.gui)


def _add_slot(builder: ModelBuilder, body: Body, uid: int, is_filtered: bool = False) -> BodySlot:
    """Add what a slot is made for; it is empty if `uid` is NOBODY."""
    row, joint, shape = builder.body_count, builder.joint_count, builder.shape_count
    q, u = builder.joint_coord_count, builder.joint_dof_count
    places = tuple(add_body(builder, body, is_there=uid != NOBODY))
    return BodySlot(
        kind=body_kind(body),
        is_filtered=is_filtered,
        pattern=body,
        row=row,
        joint=joint,
        q=slice(q, builder.joint_coord_count),
        u=slice(u, builder.joint_dof_count),
        shapes=slice(shape, builder.shape_count),
        places=places,
        uid=uid,
    )


def _add_constraints(client: Client, content: WorldContent, with_room: bool) -> None:
    """Add the constraints of a client, and with room disabled ones of the same kinds."""
    builder, slots = content.builder, content.constraint_slots
    for uid, constraint in client.constraints.items():
        constraint.build(builder, client.bodies, client.settings)
        slots.append(
            ConstraintSlot(constraint.slot_kind if constraint.index >= 0 else None, constraint.index, uid)
        )
    present = [slot.kind for slot in slots if slot.kind is not None]
    for kind in client.room.spares(present) if with_room else ():
        index = _add_spare(content, kind)
        if index >= 0:
            builder.constraint_enabled[index] = 0
            slots.append(ConstraintSlot(kind, index, NOBODY))


def _add_spare(content: WorldContent, kind: tuple[int, bytes]) -> int:
    """Add a constraint that holds nothing yet; return its index, -1 where there is nothing to hold."""
    builder = content.builder
    if kind[0] == JOINT_GEAR:
        joints = [joint for joint, dim in enumerate(builder.joint_axis_dim) if sum(dim) == 1]
        return builder.add_constraint_gear(joints[0], joints[1], 1.0, offset=0.0) if joints[1:] else -1
    for slot in content.slots:
        for place in range(len(slot.pattern.links)):
            if slot.pattern.moves(place):  # between others the solver has no rows
                return add_loop(builder, kind, slot.row + place, -1, IDENTITY, IDENTITY)
    return -1


def make_model(client: Client, builder: ModelBuilder, requires_grad: bool = False) -> Model:
    """Return the model of all worlds of a client, each like the builder."""
    many = builder
    if client.num_worlds == 1 and not client.surroundings:
        builder.num_envs = 1
    else:
        many = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        for link in client.surroundings:
            for geometry in link.body.links[link.place].collisions:
                _add_shapes(many, link.body, link.place, geometry, -1, link.pose)
        many.replicate(builder, client.num_worlds, spacing=(0.0, 0.0, 0.0))
    many.keep_overlaps = True  # as in PyBullet
    model = many.finalize(client.device, requires_grad=requires_grad)
    model.gravity = client.settings.gravity
    return model


def add_body(builder: ModelBuilder, body: Body, is_there: bool = True) -> list[tuple[int, int]]:
    """Add links, joints and shapes of a body.

    Args:
        builder: The builder of a world.
        body: The body.
        is_there: Whether it is at its pose, or at the origin until its slot is taken.

    Returns:
        (place of the link, number of the geometry) of each shape, in the order of the builder's shapes.
    """
    first = builder.body_count
    if not body.driven:
        builder.add_articulation(f"body {body.uid}")
    mass, inertia = body.solver_masses()
    for place, link in enumerate(body.links):
        builder.add_body(
            origin=body.pose[0, place] if is_there else IDENTITY,
            I_m=np.diag(inertia[0, place]),
            mass=float(mass[0, place]),
            key=f"{body.uid}:{place - 1} {link.name}",
        )
    if body.floating:
        builder.add_joint_free(first, key=f"{body.uid}:base")
    elif not body.driven:
        builder.add_joint_fixed(-1, first, parent_xform=body.base_pose[0], key=f"{body.uid}:base")
    for place in range(1, len(body.links)):
        _add_joint(builder, body, place, first)
    shapes = []
    for place, link in enumerate(body.links):
        for number, geometry in enumerate(link.collisions):
            shapes += [(place, number)] * _add_shapes(builder, body, place, geometry, first + place)
    return shapes


def _add_joint(builder: ModelBuilder, body: Body, place: int, first: int) -> None:
    link = body.links[place]
    parent_frame, child_frame = body.joint_frames(place)
    options = {
        "parent": first + body.parents[place],
        "child": first + place,
        "parent_xform": parent_frame,
        "child_xform": child_frame,
        "key": f"{body.uid}:{place - 1} {link.joint_name}",
    }
    lower, upper = body.limits[0, place]
    if lower > upper or not body.stops[0, place]:
        lower, upper = -np.inf, np.inf
    limits = {"limit_lower": float(lower), "limit_upper": float(upper)}
    damping = float(body.joint_damping[0, place])
    armature = INERT_ARMATURE if body.is_inert(place) else 0.0
    axis = JointAxis(link.axis, **limits, damping=damping) if np.any(link.axis) else None
    if link.joint_type == JOINT_REVOLUTE:
        builder.add_joint_revolute(**options, axis=axis, armature=armature)
    elif link.joint_type == JOINT_PRISMATIC:
        builder.add_joint_prismatic(**options, axis=axis, armature=armature)
    elif link.joint_type == JOINT_SPHERICAL:
        builder.add_joint_ball(**options, armature=armature)
    elif link.joint_type == JOINT_PLANAR:
        first_axis, second_axis = planar_axes(link.axis)
        linear = [JointAxis(first_axis), JointAxis(second_axis)]
        builder.add_joint_d6(
            **options, linear_axes=linear, angular_axes=[JointAxis(link.axis)], armature=armature
        )
    else:
        builder.add_joint_fixed(**options)


def _add_shapes(
    builder: ModelBuilder,
    body: Body,
    place: int,
    geometry: Geometry,
    owner: int,
    frame: Pose | None = None,
) -> int:
    """Add a geometry of a link to a body of the builder; returns the number of shapes that it became.

    The inertial frame of the link is in `frame` of the owner, None where both are the same.
    """
    link = body.links[place]
    pose = geometry.pose_in(link.inertial_pose)
    pose = pose if frame is None else frame @ pose
    surface = body.surface
    stiffness = surface["contact_stiffness"][0, place]
    damping = surface["contact_damping"][0, place]
    options = {
        "pos": pose.p,
        "rot": pose.q,
        "body": owner,
        "mu": float(surface["lateral_friction"][0, place]),
        "restitution": float(surface["restitution"][0, place]),
        "ke": max(float(stiffness), 0.0),
        "kd": max(float(damping), 0.0),
        "thickness": 0.0,
    }
    kind = geometry.kind
    count = builder.shape_count
    if kind == GEOM_SPHERE:
        builder.add_shape_sphere(**options, radius=geometry.radius, density=0.0)
    elif kind == GEOM_BOX:
        hx, hy, hz = geometry.half_extents
        builder.add_shape_box(**options, hx=hx, hy=hy, hz=hz, density=0.0)
    elif kind in (GEOM_CAPSULE, GEOM_CYLINDER):
        add = builder.add_shape_capsule if kind == GEOM_CAPSULE else builder.add_shape_cylinder
        add(**options, radius=geometry.radius, half_height=0.5 * geometry.height, up_axis=2, density=0.0)
    elif kind == GEOM_PLANE:
        options["rot"] = quat_multiply(pose.q, quat_between((0.0, 1.0, 0.0), geometry.normal))
        builder.add_shape_plane(**options, width=0.0, length=0.0)
    elif kind == GEOM_MESH:
        convex = not geometry.concave
        single = convex and is_single(link)
        options["thickness"] = float(surface["collision_margin"][0, place]) if single else MESH_MARGIN
        for mesh in geometry.meshes:
            builder.add_shape_mesh(**options, mesh=mesh, convex=convex, density=0.0)
    elif kind == GEOM_HEIGHTFIELD:
        options["rot"] = quat_multiply(pose.q, _FIELD_TO_LINK)
        builder.add_shape_heightfield(**options, heightfield=geometry.heightfield, density=0.0)
    added = builder.shape_count - count
    for name in ("mu_rolling", "mu_torsion"):
        values = surface["rolling_friction" if name == "mu_rolling" else "spinning_friction"]
        for shape in range(count, builder.shape_count):
            getattr(builder, f"shape_{name}")[shape] = float(values[0, place])
    return added


def filter_pairs(client: Client, content: WorldContent) -> set[tuple[int, int]]:
    """Pairs of shapes that pass through each other.

    Args:
        client: The client.
        content: Its slots; empty ones meet whatever does not forbid it, but not what their bodies will be.
    """
    pairs: set[tuple[int, int]] = set()
    shape_link = content.shape_link
    shapes_of = {slot.uid: slot.shapes for slot in content.slots if slot.uid != NOBODY}
    for slot in content.slots:
        body = slot.pattern
        shapes = range(slot.shapes.start, slot.shapes.stop)
        if not body.description.self_collision:
            pairs.update(combinations(shapes, 2))
            continue
        for a, b in combinations(shapes, 2):
            links = (shape_link[a][1], shape_link[b][1])
            if not self_collide(body, *links):
                pairs.add((a, b))
    pairs |= _masked_pairs(client, shape_link)
    for (first, second), collides in client.pair_filters.items():
        if first[0] == second[0] and not self_collide(client.bodies[first[0]], first[1], second[1]):
            continue
        sets = []
        for uid, link in (first, second):
            places = shapes_of.get(uid, slice(0, 0))
            sets.append([s for s in range(places.start, places.stop) if shape_link[s][1] == link])
        for a in sets[0]:
            for b in sets[1]:
                pair = (min(a, b), max(a, b))
                if collides:
                    pairs.discard(pair)
                elif a != b:
                    pairs.add(pair)
    return pairs


def self_collide(body: Body, first: int, second: int) -> bool:
    """Whether two links of one body may collide, by the flags that it was loaded with."""
    description = body.description
    if first == second or not description.self_collision:
        return False
    if description.exclude_ancestors:
        return second not in _ancestors(body, first) and first not in _ancestors(body, second)
    neighbours = body.parents[first + 1] == second + 1 or body.parents[second + 1] == first + 1
    return description.collide_parent or not neighbours


def collide(client: Client, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether two links collide by flags of loading, pair filters, groups and masks.

    Args:
        client: The client.
        first: Body unique id and link index.
        second: Likewise.
    """
    if first[0] == second[0] and not self_collide(client.bodies[first[0]], first[1], second[1]):
        return False
    said = client.pair_filters.get((min(first, second), max(first, second)))
    if said is not None:
        return said
    group_a, mask_a = group_and_mask(client.bodies[first[0]], first[1])
    group_b, mask_b = group_and_mask(client.bodies[second[0]], second[1])
    return bool(group_a & mask_b or group_b & mask_a)


def _ancestors(body: Body, link: int) -> set[int]:
    found, place = set(), link + 1
    while place > 0:
        place = body.parents[place]
        found.add(place - 1)
    return found


def group_and_mask(body: Body, link: int) -> tuple[int, int]:
    """Collision filter of a link."""
    record = body.links[link + 1]
    static = not body.floating and (link < 0 or body.is_static)
    group = record.group if record.group is not None else (STATIC_GROUP if static else DYNAMIC_GROUP)
    mask = record.mask if record.mask is not None else (~STATIC_GROUP if static else ALL)
    return group, mask


def _masked_pairs(client: Client, shape_link: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs that groups and masks forbid; links with the default filter are not tested against each other."""
    filters, special = {}, set()
    for uid, link in set(shape_link):
        if uid == NOBODY:
            filters[uid, link] = (DYNAMIC_GROUP, ALL)
            continue
        filters[uid, link] = group_and_mask(client.bodies[uid], link)
        record = client.bodies[uid].links[link + 1]
        if record.group is not None or record.mask is not None:
            special.add((uid, link))
    if not special:
        return set()
    pairs = set()
    for a, key in enumerate(shape_link):
        if key not in special:
            continue
        group, mask = filters[key]
        for b, other in enumerate(shape_link):
            other_group, other_mask = filters[other]
            if a != b and not (group & other_mask or other_group & mask):
                pairs.add((min(a, b), max(a, b)))
    return pairs
