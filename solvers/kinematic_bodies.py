"""Bodies that belong to no tree: they move as the user prescribes."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.steps import integrate
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.topology import topology_of


def move_kinematic_bodies(
    launch: Launcher, start_q: wp.array, start_qd: wp.array, dt: float, body_q: wp.array, body_qd: wp.array
) -> None:
    """Move bodies without joints from where they start by the velocity that the user gave them."""
    if not topology_of(launch.model).has_loose_bodies:
        return
    launch(
        integrate.move_kinematic_bodies,
        "body",
        reads=dict(
            body_tree=launch.views.tree.body_tree,
            body_q=start_q,
            body_qd=start_qd,
            com=launch.model.body_com,
            dt=dt,
        ),
        writes=dict(body_q_out=body_q, body_qd_out=body_qd),
    )
