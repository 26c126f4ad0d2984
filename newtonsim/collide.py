"""Collision pass: from body poses to packed contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from newtonsim.contacts import Contacts
from newtonsim.kernels import (
    broad_phase,
    collide_box,
    collide_convex,
    collide_mesh,
    collide_mesh_mesh,
    collide_plane,
    collide_round,
    collide_sdf,
    manifolds,
)
from newtonsim.kernels import contacts as contact_kernels

if TYPE_CHECKING:
    from newtonsim.model import Model
    from newtonsim.state import State

_NARROW_PHASES = {
    int(manifolds.FAMILY_ROUND): collide_round.collide_round,
    int(manifolds.FAMILY_BOX): collide_box.collide_box,
    int(manifolds.FAMILY_CONVEX): collide_convex.collide_convex,
}
_SURFACE_PHASES = {
    int(manifolds.FAMILY_PLANE): collide_plane.collide_plane,
    int(manifolds.FAMILY_MESH): collide_mesh.collide_mesh,
    int(manifolds.FAMILY_MESH_MESH): collide_mesh_mesh.collide_mesh_mesh,
    int(manifolds.FAMILY_SDF): collide_sdf.collide_sdf,
}


def collide(model: Model, state: State, contacts: Contacts | None = None, dt: float = 0.0) -> Contacts:
    """Find the contact points of a state.

    Args:
        model: The model.
        state: Poses are read from `body_q`, and velocities from `body_qd` if dt is positive.
        contacts: Where to write; None for the model's own buffer.
        dt: Time [s] to look ahead: points that arrive within it are found even beyond the contact margin.

    Returns:
        The contacts, with gaps up to `model.rigid_contact_margin` [m]. If a world has more than there is room
        for, the rest is missing, `contacts.needed` tells how many, and a warning says so once.
    """
    contacts = model.contacts if contacts is None else contacts
    find_contacts(model, state.body_q, state.body_qd, contacts, dt)
    contacts.warn_of_overflow()
    return contacts


def find_contacts(
    model: Model,
    body_q: wp.array,
    body_qd: wp.array,
    contacts: Contacts,
    dt: float,
    pairs_ahead: float | None = None,
) -> None:
    """Launch the collision pass on bare pose and velocity arrays; can be captured.

    Args:
        model: The model.
        body_q: World poses, shape (body_count,).
        body_qd: World velocities, shape (body_count,).
        contacts: Where to write.
        dt: Time [s] within which points have to arrive.
        pairs_ahead: Time [s] within which bounds of pairs have to overlap, None for dt.
    """
    plan = model.collision_plan
    if plan.contact_count == 0:
        return
    margin = float(model.rigid_contact_margin)
    device = model.device

    def launch(kernel: wp.Kernel, dim: int, inputs: list) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, device=device, record_tape=False)

    _keep_history(model, contacts, launch)
    ahead = dt if pairs_ahead is None else pairs_ahead
    inputs = [plan.shape, plan.hulls, body_q, body_qd, model.body_com, margin, ahead, contacts.placement]
    launch(broad_phase.place_shapes, model.shape_count, inputs)
    _find_pairs(model, contacts, margin, dt, launch)
    inputs = [plan.shape, plan.hulls, contacts.placement.X, contacts.manifolds]
    for family in sorted(plan.families):
        if family in _NARROW_PHASES:
            launch(_NARROW_PHASES[family], plan.pair_count, [contacts.pairs, *inputs])
        else:
            launch(_SURFACE_PHASES[family], plan.pair_count, [contacts.pairs, *inputs, plan.surfaces])
    inputs = [contacts.pairs, plan.shape, body_q, body_qd, model.body_com, margin, dt, contacts.manifolds]
    launch(contact_kernels.drop_distant_points, plan.pair_count, inputs)
    contacts.rigid_contact_count.zero_()
    inputs = [contacts.pairs, contacts.manifolds, contacts.overflow, contacts.view]
    launch(contact_kernels.pack_contacts, model.world_count, inputs)
    inputs = [contacts.pairs, plan.shape, model.shape_world, body_q]
    inputs += [contacts.manifolds, contacts.history, contacts.view]
    launch(contact_kernels.write_contacts, plan.contact_count, inputs)


def _keep_history(model: Model, contacts: Contacts, launch) -> None:
    """Remember the contacts of the last pass, which the new ones are matched with."""
    plan, history = model.collision_plan, contacts.history
    history.head.fill_(-1)
    launch(contact_kernels.remember_points, plan.contact_count, [contacts.view, history])
    inputs = [plan.shape, model.shape_world, contacts.pairs, contacts.view, history]
    launch(contact_kernels.remember_pairs, model.world_count, inputs)


def _find_pairs(model: Model, contacts: Contacts, margin: float, dt: float, launch) -> None:
    """Fill the pairs whose bounds overlap, and clear their manifolds."""
    plan, pairs, needed = model.collision_plan, contacts.pairs, contacts.overflow.pairs_needed
    disabled_plane = plan.ground_shape if plan.ground_shape >= 0 and not model.ground else -2
    if plan.listed is not None:
        inputs = [plan.listed, plan.listed_start, disabled_plane, plan.shape, contacts.placement]
        launch(broad_phase.select_pairs, model.world_count, [*inputs, margin, dt, pairs, needed])
    else:
        sweep, entries = contacts.sweep, len(plan.sweep_entries)
        launch(broad_phase.sort_along_axis, model.world_count, [contacts.placement, sweep])
        inputs = [contacts.sweep_world, disabled_plane, plan.shape, contacts.placement, sweep]
        launch(broad_phase.count_overlaps, entries, [*inputs, pairs])
        launch(broad_phase.place_overlaps, model.world_count, [sweep, pairs, needed])
        launch(broad_phase.write_overlaps, entries, [*inputs, margin, dt, pairs])
    launch(broad_phase.clear_unused_pairs, plan.pair_count, [pairs, contacts.manifolds.count])
