"""Contacts of rigid bodies as smooth forces."""

from __future__ import annotations

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.penalty import contact_law
from newtonsim.runtime.launcher import Launcher

SLIP_SPEED = 1.0e-3
"""Friction of compliant contacts fades below this speed [m/s] by default."""


def apply_penalty(
    launch: Launcher,
    contacts: Contacts,
    body_q: wp.array,
    body_qd: wp.array,
    body_f: wp.array,
    slip_speed: float = SLIP_SPEED,
    fade_depth: float = contact_law.FADE_DEPTH,
) -> None:
    """Add the forces of compliant contacts to body_f.

    Friction fades below a speed [m/s], damping below a depth [m].
    """
    if contacts.rigid_contact_max == 0:
        return
    model = launch.model
    launch(
        contact_law.apply_contact_penalty,
        "contact",
        reads=dict(
            contacts=contacts.view,
            shape_body=model.shape_body,
            material=model.shape_materials,
            body_com=model.body_com,
            body_q=body_q,
            body_qd=body_qd,
            slip_speed=slip_speed,
            fade_depth=fade_depth,
        ),
        writes=dict(body_f=body_f),
    )
