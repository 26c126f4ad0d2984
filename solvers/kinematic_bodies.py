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
    inputs = [launch.views.tree.body_tree, state.body_q, state.body_qd, launch.model.body_com, dt]
    launch(integrate.move_kinematic_bodies, "body", [*inputs, body_q, body_qd])
