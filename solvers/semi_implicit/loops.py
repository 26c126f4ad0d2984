"""Constraints beside the joints by penalty: rows between bodies, and couplings of degrees of freedom."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.penalty import loops as penalty_loops
from newtonsim.kernels.penalty.joints import AttachView, BodyMotionView, JointInputView
from newtonsim.kernels.views import pair_rows
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.constraint_rows import constraint_row_table, loop_view
from newtonsim.solvers.semi_implicit.elements import order_by_world, slots_of


class LoopForces:
    """Springs and dampers in place of a model's constraints.

    Args:
        model: The model.

    Attributes:
        starts: Kinds of index of the rows, see `Shard`.
        owner: Bodies 0 and 1 of each row in turn, -1 for none, NumPy (2 * row_count,).
        effort: What each row adds to its two dofs [N or N m], shape (2 * row_count,).
        f: Inputs of all dofs with what couplings add [N or N m], shape (joint_dof_count,).
    """

    def __init__(self, model: Model):
        self.model, device = model, model.device
        table = constraint_row_table(model)
        coupled = table["kind"] == pair_rows.PAIR_COUPLING
        ends = np.stack([table["parent"], table["child"]], axis=1)
        self.owner = np.where(coupled[:, None], -1, ends).reshape(-1)
        self.row_count, self.couples = len(table), bool(coupled.any())
        self._rows = penalty_loops.LoopRowView()
        self._rows.kind = put(table["kind"], dtype=int, device=device)
        self._rows.constraint = put(table["constraint"], dtype=int, device=device)
        self._rows.index = put(table["index"], dtype=int, device=device)
        self._rows.dofs = put(table["dofs"], dtype=wp.vec2i, device=device)
        self._rows.axis0 = put(table["axis0"], dtype=wp.vec3, device=device)
        self._rows.axis1 = put(table["axis1"], dtype=wp.vec3, device=device)
        found = order_by_world(np.arange(len(table)), _row_worlds(model, table), model)
        self._order, self.starts = found.order, {"penalty_loop": found.start}
        grad = {"device": device, "requires_grad": model.requires_grad}
        self._dof_joint = put(topology_of(model).dof_joint, dtype=int, device=device)
        self.effort = zeros(2 * len(table) if self.couples else 0, dtype=float, **grad)
        self.f = zeros(model.joint_dof_count if self.couples else 0, dtype=float, **grad)
        dofs = np.where(coupled[:, None], table["dofs"], -1).reshape(-1)
        self._slots = slots_of(dofs, np.arange(len(dofs)), model.joint_dof_count, device)

    def pull(
        self, launch: Launcher, attach: AttachView, bodies: BodyMotionView, place: int, part: wp.array
    ) -> None:
        """Write the wrenches of all rows on both bodies to `part`, from `place` on."""
        launch(
            penalty_loops.pull_loops,
            "penalty_loop",
            reads=dict(
                order=self._order,
                rows=self._rows,
                loop=loop_view(self.model),
                attach=attach,
                bodies=bodies,
                place=place,
            ),
            writes=dict(part=part),
        )

    def couple(
        self, launch: Launcher, attach: AttachView, inputs: JointInputView, bodies: BodyMotionView
    ) -> wp.array:
        """Return the inputs of all dofs with what couplings add, shape (joint_dof_count,)."""
        if not self.couples:
            return inputs.f
        launch(
            penalty_loops.couple_joints,
            "penalty_loop",
            reads=dict(
                order=self._order,
                rows=self._rows,
                loop=loop_view(self.model),
                joint=launch.views.joint,
                dof_joint=self._dof_joint,
                attach=attach,
                inputs=inputs,
                bodies=bodies,
            ),
            writes=dict(effort=self.effort),
        )
        launch(
            penalty_loops.sum_efforts,
            "dof",
            reads=dict(start=self._slots.start, slot=self._slots.slot, effort=self.effort, given=inputs.f),
            writes=dict(f=self.f),
        )
        return self.f


def _row_worlds(model: Model, table: np.ndarray) -> np.ndarray:
    """World of each row: that of its bodies, or of its dofs; -1 for the global one."""
    of_body = np.append(model.body_world.numpy(), -1)
    of_dof = np.append(model.joint_world.numpy()[topology_of(model).dof_joint], -1).astype(int)
    ends = np.maximum(of_body[table["parent"]], of_body[table["child"]])
    return np.maximum(ends, of_dof[table["dofs"]].max(axis=1))
