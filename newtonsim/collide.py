"""Collision pass: from body poses to packed contacts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.contacts import Contacts
from newtonsim.enums import GeoType
from newtonsim.kernels import collide_plane
from newtonsim.kernels import contacts as contact_kernels

if TYPE_CHECKING:
    from newtonsim.model import Model
    from newtonsim.state import State

# most points at which a shape can touch a plane
_PLANE_POINTS = {
    GeoType.SPHERE: 1,
    GeoType.BOX: 8,
    GeoType.CAPSULE: 2,
    GeoType.CYLINDER: 8,
    GeoType.CONE: 5,
    GeoType.MESH: 8,
    GeoType.ELLIPSOID: 1,
}


class CollisionPlan:
    """What a model's shapes need from the collision pass, worked out once per model.

    Attributes:
        pairs: (shape, plane) pairs sorted by world, shape (pair_count,).
        pair_start: First pair of each world, shape (world_count + 1,).
        slot_start: First slot of each pair, shape (pair_count + 1,).
        contact_start: First contact place of each world (host), shape (world_count + 1,).
        ground_shape: Index of the ground plane, or -1.
        unsupported: Number of candidate pairs per pair of geometry names that no narrow phase handles yet.
    """

    def __init__(self, model: Model):
        self.pair_count = 0
        geo_type = model.shape_geo.type.numpy() if model.shape_count else np.zeros(0, dtype=int)
        pairs = _all_candidate_pairs(model)
        plane_side = geo_type[pairs] == GeoType.PLANE
        # the plane comes second
        pairs = np.where(plane_side[:, :1], pairs[:, ::-1], pairs)
        points = np.zeros(len(geo_type), dtype=np.int32)
        for kind, count in _PLANE_POINTS.items():
            points[geo_type == kind] = count
        has_plane = geo_type[pairs[:, 1]] == GeoType.PLANE
        handled = has_plane & (points[pairs[:, 0]] > 0)
        self.unsupported = _count_kinds(geo_type[pairs[~handled]])
        pairs = pairs[handled]
        world = model.shape_world.numpy()[pairs].max(axis=1, initial=-1) if len(pairs) else np.zeros(0, int)
        world = np.maximum(world, 0)
        order = np.argsort(world, kind="stable")
        pairs, world = pairs[order], world[order]
        slot_start = np.concatenate(([0], np.cumsum(points[pairs[:, 0]]))).astype(np.int32)
        pair_start = np.searchsorted(world, np.arange(model.world_count + 1))

        self.ground_shape = model.ground_shape
        self.pair_count = len(pairs)
        self.slot_count = int(slot_start[-1])
        self.contact_start = slot_start[pair_start]
        self.pairs = wp.array(pairs.astype(np.int32), dtype=wp.vec2i, device=model.device)
        self.pair_start = wp.array(pair_start, dtype=int, device=model.device)
        self.slot_start = wp.array(slot_start, dtype=int, device=model.device)
        self.shape = collide_plane.ShapeView()
        self.shape.body = model.shape_body
        self.shape.transform = model.shape_transform
        self.shape.geo = model.shape_geo
        self.shape.radius = model.shape_collision_radius
        if self.unsupported:
            listed = ", ".join(f"{n} of {kinds}" for kinds, n in sorted(self.unsupported.items()))
            warnings.warn(f"shape pairs without contact generation: {listed}", stacklevel=2)


def _count_kinds(kinds: np.ndarray) -> dict[str, int]:
    """Number of rows (n, 2) per unordered pair of geometry types, by name."""
    found, counts = np.unique(np.sort(kinds, axis=1), axis=0, return_counts=True)
    names = (" and ".join(sorted(GeoType(kind).name.lower() for kind in pair)) for pair in found)
    return dict(zip(names, counts.tolist()))


def _all_candidate_pairs(model: Model) -> np.ndarray:
    """Pairs of shapes that may touch, ground included even while it is off, shape (n, 2)."""
    found = [np.zeros((0, 2), dtype=np.int32)]
    for pairs in (model.shape_contact_pairs, model.shape_ground_contact_pairs):
        if pairs is not None:
            found.append(pairs.numpy().reshape(-1, 2))
    return np.concatenate(found)


def collide(model: Model, state: State, contacts: Contacts | None = None, dt: float = 0.0) -> Contacts:
    """Find the contact points of a state.

    Args:
        model: The model.
        state: Poses are read from `body_q`, and velocities from `body_qd` if dt is positive.
        contacts: Where to write; None for the model's own buffer.
        dt: Time [s] to look ahead: points that arrive within it are found even beyond the contact margin.

    Returns:
        The contacts, with gaps up to `model.rigid_contact_margin` [m].
    """
    contacts = model.contacts if contacts is None else contacts
    find_contacts(model, state.body_q, state.body_qd, contacts, dt)
    return contacts


def find_contacts(model: Model, body_q: wp.array, body_qd: wp.array, contacts: Contacts, dt: float) -> None:
    """Launch the collision pass on bare pose and velocity arrays; can be captured."""
    plan = model.collision_plan
    if plan.pair_count == 0:
        return
    margin = float(model.rigid_contact_margin)
    disabled_plane = -1 if model.ground else plan.ground_shape
    contacts.rigid_contact_count.zero_()
    options = {"device": model.device, "record_tape": False}
    wp.launch(
        collide_plane.find_plane_contacts,
        dim=plan.pair_count,
        inputs=[
            plan.pairs,
            plan.shape,
            body_q,
            body_qd,
            model.body_com,
            margin,
            dt,
            disabled_plane,
            contacts.slots,
        ],
        **options,
    )
    wp.launch(
        contact_kernels.pack_contacts,
        dim=model.world_count,
        inputs=[plan.pair_start, contacts.slots, contacts.pair, contacts.view],
        **options,
    )
    wp.launch(
        contact_kernels.write_contacts,
        dim=plan.slot_count,
        inputs=[plan.pairs, plan.shape, body_q, contacts.slots, contacts.pair, contacts.view],
        **options,
    )
