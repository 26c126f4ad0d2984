"""Bodies that belong to no tree: they move as the user says."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.steps import integrate
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of


def move_kinematic_bodies(
    launch: Launcher, state: State, dt: float, body_q: wp.array, body_qd: wp.array
) -> None:
    """Move bodies without joints by the velocity that the user gave them."""
    if not topology_of(launch.model).has_loose_bodies:
        return
    launch(
        integrate.move_kinematic_bodies,
        "body",
        reads=dict(
            body_tree=launch.views.tree.body_tree,
            body_q=state.body_q,
            body_qd=state.body_qd,
            com=launch.model.body_com,
            dt=dt,
        ),
        writes=dict(body_q_out=body_q, body_qd_out=body_qd),
    )
