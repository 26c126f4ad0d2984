"""Auxiliary links of gears, whose joints set the pace of two others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from newtonsim.kernels.constraints.followed_dofs import follow_dofs
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.runtime.launcher import Launcher

if TYPE_CHECKING:
    import numpy as np

    from newtonsim.kernels.views.pair_rows import LoopView, PairRowView
    from newtonsim.scene.model import Model

NO_DOF = -1


class AuxiliaryLinks:
    """A change of the rows between bodies: gears with an auxiliary link, as measured with the real module.

    Such a gear keeps v_parent + ratio v_child at the velocity that the auxiliary joint has before
    constraints, motors and contacts of the step, and does not act on that joint.

    Args:
        model: The model.
        worlds: Number of worlds W.
    """

    def __init__(self, model: Model, worlds: int):
        self._dof = wp.full(model.constraint_count, NO_DOF, dtype=int, device=model.device)
        self._dofs = HostArray(self._dof, worlds)

    def lead(self, index: int, dofs: int | np.ndarray) -> None:
        """Let a gear follow a dof.

        Args:
            index: The constraint within each world.
            dofs: Dof of the auxiliary joint in each world (W,), or `NO_DOF`.
        """
        self._dofs.pull()[:, index] = dofs
        self._dofs.push()

    def change(self, launch: Launcher, loops: LoopView, q: wp.array, qd: wp.array, rows: PairRowView) -> None:
        """Change the targets of rows that were built; see `ConstraintStage.changed_pairs`."""
        launch(
            follow_dofs,
            "pair_row",
            reads=dict(tree=launch.views.tree, loop=loops, dof=self._dof, q=q, qd=qd),
            writes=dict(rows=rows),
        )
