"""Collision pass: from body poses to packed contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from newtonsim.collision.contacts import Contacts, check_contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision import crowded, seams, world_contacts, world_pairs
from newtonsim.kernels.collision.pairs import broad_phase, manifolds
from newtonsim.kernels.collision.pairs import sweep as sweep_kernels
from newtonsim.runtime.arguments import Kernel
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.model import check_model

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

_SURFACE_FAMILIES = (
    int(manifolds.FAMILY_PLANE),
    int(manifolds.FAMILY_MESH),
    int(manifolds.FAMILY_MESH_MESH),
    int(manifolds.FAMILY_SDF),
)
"""Families of pairs whose narrow phase also reads the surfaces of the collision plan."""


def collide(model: Model, state: State, contacts: Contacts | None = None, dt: float = 0.0) -> Contacts:
    """Find the contact points of a state.

    Args:
        model: The model.
        state: Poses are read from `body_q`, and velocities from `body_qd` if dt is positive.
        contacts: Buffer to write to; None for the model's own.
        dt: Time [s] to look ahead: points that arrive within it are found even beyond the contact margin.

    Returns:
        The contacts, with gaps up to `model.rigid_contact_margin` [m]. If a world has more than fit into the
        buffer, the rest is missing, `contacts.needed` gives the number, and a warning is issued once.

    Raises:
        ModelError: The state or the contacts belong to another model.
    """
    check_model(model)
    model.check_state(state)
    found: Contacts = model.contacts if contacts is None else contacts
    find_contacts(Launcher(model, record_tape=False), state.body_q, state.body_qd, found, dt)
    found.warn_of_overflow()
    return found


def find_contacts(
    launch: Launcher,
    body_q: wp.array,
    body_qd: wp.array,
    contacts: Contacts,
    dt: float,
    pair_look_ahead: float | None = None,
) -> None:
    """Launch the collision pass on bare pose and velocity arrays; can be captured.

    Args:
        launch: Launcher of the model, or of a part of its worlds.
        body_q: World poses, shape (body_count,).
        body_qd: World velocities, shape (body_count,).
        contacts: Buffer to write to.
        dt: Time [s] within which points must arrive.
        pair_look_ahead: Time [s] within which bounds of pairs must overlap, None for dt.

    Raises:
        ModelError: The contacts belong to another model.
    """
    model, plan = launch.model, collision_plan_of(launch.model)
    check_contacts(model, contacts)
    if plan.contact_count == 0:
        return
    margin = float(model.rigid_contact_margin)
    ahead = dt if pair_look_ahead is None else pair_look_ahead
    launch(
        broad_phase.place_shapes,
        "shape",
        reads=dict(
            shape=plan.shape,
            hulls=plan.hulls,
            body_q=body_q,
            body_qd=body_qd,
            body_com=model.body_com,
            margin=margin,
            dt=ahead,
        ),
        writes=dict(place=contacts.placement, body_head=contacts.seams.head),
    )
    if plan.listed is None:
        _sweep_pairs(launch, contacts, margin, dt)
    else:
        _select_pairs(launch, contacts, margin, dt)
    solids = dict(pairs=contacts.pairs, shape=plan.shape, hulls=plan.hulls, shape_X=contacts.placement.X)
    for family in sorted(plan.families):
        surfaces = dict(surfaces=plan.surfaces) if family in _SURFACE_FAMILIES else {}
        reads = {**solids, **surfaces}
        launch(narrow_phase(family), "pair", reads=reads, writes=dict(manifolds=contacts.manifolds))
    if plan.has_seams:
        _find_seams(launch, body_q, body_qd, contacts, dt)
    if plan.listed is None:
        _gather_crowded(launch, body_q, body_qd, contacts, margin, dt)
    else:
        launch(
            world_contacts.gather_contacts,
            "world team",
            reads=dict(
                shape=plan.shape,
                body_q=body_q,
                body_qd=body_qd,
                body_com=model.body_com,
                margin=margin,
                dt=dt,
                pairs=contacts.pairs,
                history=contacts.history,
            ),
            writes=dict(manifolds=contacts.manifolds, overflow=contacts.overflow, contacts=contacts.view),
        )


def narrow_phase(family: int) -> Kernel:
    """Return the kernel of one family of pairs; a family that no model has met is not even imported."""
    if family == int(manifolds.FAMILY_ROUND):
        from newtonsim.kernels.collision.families.round import collide_round as kernel
    elif family == int(manifolds.FAMILY_BOX):
        from newtonsim.kernels.collision.families.box import collide_box as kernel
    elif family == int(manifolds.FAMILY_CONVEX):
        from newtonsim.kernels.collision.families.convex import collide_convex as kernel
    elif family == int(manifolds.FAMILY_PLANE):
        from newtonsim.kernels.collision.families.plane import collide_plane as kernel
    elif family == int(manifolds.FAMILY_MESH):
        from newtonsim.kernels.collision.families.mesh import collide_mesh as kernel
    elif family == int(manifolds.FAMILY_MESH_MESH):
        from newtonsim.kernels.collision.families.mesh_mesh import collide_mesh_mesh as kernel
    else:
        from newtonsim.kernels.collision.families.sdf import collide_sdf as kernel
    return kernel


def _disabled_plane(model: Model) -> int:
    """Number of the ground plane if it is switched off, else one that no shape has."""
    ground = collision_plan_of(model).ground_shape
    return ground if ground >= 0 and not model.ground else -2


def _select_pairs(launch: Launcher, contacts: Contacts, margin: float, dt: float) -> None:
    """Remember the last contacts, and fill the pairs from the list of those that may meet."""
    plan = collision_plan_of(launch.model)
    launch(
        world_pairs.find_pairs,
        "world team",
        reads=dict(
            listed=plan.listed,
            listed_start=plan.listed_start,
            disabled_plane=_disabled_plane(launch.model),
            shape=plan.shape,
            place=contacts.placement,
            margin=margin,
            dt=dt,
            contacts=contacts.view,
        ),
        writes=dict(
            history=contacts.history,
            pairs=contacts.pairs,
            count=contacts.manifolds.count,
            needed=contacts.overflow.pairs_needed,
        ),
    )


def _sweep_pairs(launch: Launcher, contacts: Contacts, margin: float, dt: float) -> None:
    """Remember the last contacts, and fill the pairs by sorting and sweeping."""
    model, pairs, sweep = launch.model, contacts.pairs, contacts.sweep
    shape, disabled_plane = collision_plan_of(model).shape, _disabled_plane(model)
    launch(crowded.clear_history, "shape", writes=dict(history=contacts.history))
    launch(
        crowded.remember_contacts,
        "world team",
        reads=dict(shape=shape, shape_world=model.shape_world, pairs=pairs, contacts=contacts.view),
        writes=dict(history=contacts.history),
    )
    launch(
        sweep_kernels.sort_along_axis,
        "world",
        reads=dict(place=contacts.placement),
        writes=dict(sweep=sweep),
    )
    launch(
        sweep_kernels.count_overlaps,
        "sweep_entry",
        reads=dict(
            entry_world=contacts.sweep_world,
            disabled_plane=disabled_plane,
            shape=shape,
            place=contacts.placement,
        ),
        writes=dict(sweep=sweep, pairs=pairs),
    )
    launch(
        sweep_kernels.place_overlaps,
        "world team",
        writes=dict(sweep=sweep, pairs=pairs, needed=contacts.overflow.pairs_needed),
    )
    launch(
        sweep_kernels.write_overlaps,
        "sweep_entry",
        reads=dict(
            entry_world=contacts.sweep_world,
            disabled_plane=disabled_plane,
            shape=shape,
            place=contacts.placement,
            sweep=sweep,
            margin=margin,
            dt=dt,
        ),
        writes=dict(pairs=pairs),
    )
    launch(sweep_kernels.clear_unused_pairs, "pair", writes=dict(pairs=pairs, count=contacts.manifolds.count))


def _find_seams(launch: Launcher, body_q: wp.array, body_qd: wp.array, contacts: Contacts, dt: float) -> None:
    """Mark the points at seams between shapes that others make no contacts."""
    plan, manifolds = collision_plan_of(launch.model), contacts.manifolds
    launch(
        seams.link_pairs,
        "pair",
        reads=dict(pairs=contacts.pairs, manifolds=manifolds, shape_body=plan.shape.body),
        writes=dict(seams=contacts.seams),
    )
    launch(
        seams.find_hidden_points,
        "pair",
        reads=dict(
            pairs=contacts.pairs,
            shape=plan.shape,
            hulls=plan.hulls,
            shape_X=contacts.placement.X,
            body_q=body_q,
            body_qd=body_qd,
            body_com=launch.model.body_com,
            dt=dt,
            manifolds=manifolds,
            seams=contacts.seams,
        ),
        writes=dict(hidden=manifolds.hidden),
    )


def _gather_crowded(
    launch: Launcher, body_q: wp.array, body_qd: wp.array, contacts: Contacts, margin: float, dt: float
) -> None:
    """From the manifolds of pairs to packed contacts."""
    model, shape = launch.model, collision_plan_of(launch.model).shape
    launch(
        crowded.drop_distant_points,
        "pair",
        reads=dict(
            pairs=contacts.pairs,
            shape=shape,
            body_q=body_q,
            body_qd=body_qd,
            body_com=model.body_com,
            margin=margin,
            dt=dt,
        ),
        writes=dict(manifolds=contacts.manifolds),
    )
    launch(
        crowded.pack_contacts,
        "world team",
        reads=dict(pairs=contacts.pairs, manifolds=contacts.manifolds),
        writes=dict(overflow=contacts.overflow, contacts=contacts.view),
    )
    launch(
        crowded.write_contacts,
        "contact",
        reads=dict(
            pairs=contacts.pairs,
            shape=shape,
            shape_world=model.shape_world,
            body_q=body_q,
            manifolds=contacts.manifolds,
            history=contacts.history,
        ),
        writes=dict(contacts=contacts.view),
    )
