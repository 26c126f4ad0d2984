"""Contact points that a collision pass fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.collide_plane import SlotView
from newtonsim.kernels.contacts import ContactView

if TYPE_CHECKING:
    from newtonsim.collide import CollisionPlan
    from newtonsim.model import Model

_POINT_ARRAYS = {
    "rigid_contact_point0": ("point0", wp.vec3),
    "rigid_contact_point1": ("point1", wp.vec3),
    "rigid_contact_offset0": ("offset0", wp.vec3),
    "rigid_contact_offset1": ("offset1", wp.vec3),
    "rigid_contact_normal": ("normal", wp.vec3),
    "rigid_contact_thickness": ("thickness", float),
    "rigid_contact_distance": ("distance", float),
    "rigid_contact_shape0": ("shape0", int),
    "rigid_contact_shape1": ("shape1", int),
    "rigid_contact_point_id": ("point_id", int),
}


class Contacts:
    """Contacts between the shapes of a model, packed per world.

    World w owns the places `world_start[w] .. world_start[w + 1]`; the first `world_count[w]` of them are in
    use, the others have shape indices -1. In a model with one world the contacts are the first
    `rigid_contact_count[0]` entries. Capacity follows from the model, so nothing is ever lost.

    Attributes:
        rigid_contact_max: Capacity, summed over all worlds.
        rigid_contact_count: Number of contacts in all worlds, shape (1,).
        world_start: First place of each world, shape (world_count + 1,).
        world_count: Contacts of each world, shape (world_count,).
        rigid_contact_shape0: Shape index, shape (rigid_contact_max,).
        rigid_contact_shape1: Other shape, shape (rigid_contact_max,).
        rigid_contact_point0: Feature of shape 0 in contact [m] in the frame of its body: a sphere's centre,
            the end of a capsule's axis, else a point on the geometry.
        rigid_contact_point1: Feature of shape 1, likewise.
        rigid_contact_offset0: From point 0 along the normal to the surface [m], radius and thickness
            together, frame of body 0; point and offset add up to the touching point.
        rigid_contact_offset1: From point 1 to the surface, frame of body 1.
        rigid_contact_normal: World direction from shape 1 to shape 0.
        rigid_contact_thickness: Length of both offsets together [m].
        rigid_contact_distance: Gap along the normal [m], negative in penetration.
        rigid_contact_point_id: Number of the contact feature, the same as long as the feature touches.
    """

    def __init__(self, model: Model):
        plan: CollisionPlan = model.collision_plan
        device = model.device
        self.rigid_contact_max = plan.slot_count
        self.rigid_contact_count = wp.zeros(1, dtype=int, device=device)
        self.world_start = wp.array(plan.contact_start, dtype=int, device=device)
        self.world_count = wp.zeros(model.world_count, dtype=int, device=device)
        self.pair = wp.zeros(plan.slot_count, dtype=int, device=device)
        view = ContactView()
        for name, (field, dtype) in _POINT_ARRAYS.items():
            array = wp.zeros(plan.slot_count, dtype=dtype, device=device)
            setattr(self, name, array)
            setattr(view, field, array)
        self.rigid_contact_shape0.fill_(-1)
        self.rigid_contact_shape1.fill_(-1)
        view.world_start = self.world_start
        view.world_count = self.world_count
        view.total = self.rigid_contact_count
        owner = np.repeat(np.arange(model.world_count), np.diff(plan.contact_start))
        view.world = wp.array(owner, dtype=int, device=device)
        self.view = view
        self.slots = _allocate_slots(plan, device)

    def clear(self) -> None:
        """Forget all contacts."""
        self.rigid_contact_count.zero_()
        self.world_count.zero_()
        self.rigid_contact_shape0.fill_(-1)
        self.rigid_contact_shape1.fill_(-1)


Contact = Contacts


def _allocate_slots(plan: CollisionPlan, device: wp.Device) -> SlotView:
    slots = SlotView()
    slots.start = plan.slot_start
    slots.count = wp.zeros(plan.pair_count, dtype=int, device=device)
    slots.index = wp.zeros(plan.slot_count, dtype=int, device=device)
    slots.point = wp.zeros(plan.slot_count, dtype=wp.vec3, device=device)
    slots.distance = wp.zeros(plan.slot_count, dtype=float, device=device)
    slots.normal = wp.zeros(plan.pair_count, dtype=wp.vec3, device=device)
    return slots
