"""Buffers of the linear systems of the backward pass, see `kernels.constraints.adjoint.system`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.algebra.block_system import BlockSystemView
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.one_tree import MOST_DOFS, OneTreeView
from newtonsim.kernels.constraints.adjoint.system import SystemView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.featherstone.constraints import ConstraintStage

ROUNDS = 384
"""Rounds after which a system counts as unsolved."""
KEPT = 192
"""Most directions that are kept; no world needs more than it has degrees of freedom."""


def system_of(stage: ConstraintStage) -> SystemView:
    """Make the systems of the rows of a stage, which use the islands and the matrix of its solve again."""
    rows, device, dofs = stage.rows, stage.model.device, len(stage.z)
    contacts, spins = len(rows.contact.impulse), len(rows.spin.impulse)
    view = SystemView()
    view.islands, view.factor = stage.buffers.islands, stage.buffers.system
    view.rows = BlockSystemView()
    for name in BlockSystemView.vars:
        setattr(view.rows, name, getattr(view.factor, name))
    view.rows.L = zeros(len(view.factor.L), dtype=float, device=device)
    view.one = _one_tree(stage)
    view.dof = zeros(len(rows.dof.impulse), dtype=float, device=device)
    view.pair = zeros(len(rows.pair.impulse), dtype=float, device=device)
    view.contact = zeros(contacts, dtype=wp.mat33, device=device)
    view.spin = zeros(spins, dtype=wp.mat33, device=device)
    view.mixed = zeros(spins, dtype=wp.mat33, device=device)
    view.most = ROUNDS
    view.kept = int(min(KEPT, np.diff(stage.dofs.world_start.numpy()).max(initial=1)))
    view.r = zeros(dofs, dtype=wp.float64, device=device)
    view.x = zeros(dofs, dtype=wp.float64, device=device)
    view.direction = zeros(view.kept * dofs, dtype=wp.float64, device=device)
    view.image = zeros(view.kept * dofs, dtype=wp.float64, device=device)
    return view


def _one_tree(stage: ConstraintStage) -> OneTreeView:
    """Room for the matrix of every tree that is not too large for it."""
    device = stage.model.device
    size = np.diff(stage.buffers.islands.dof_start.numpy()).astype(np.int64)
    entries = np.where(size <= MOST_DOFS, (size + 7) * (-(-size // 4) * 4), 0)
    view = OneTreeView()
    view.start = put(np.cumsum(entries) - entries, dtype=int, device=device)
    view.place = stage.buffers.system.place
    view.M = zeros(int(entries.sum()), dtype=wp.float64, device=device)
    view.pivot = zeros(len(stage.z), dtype=int, device=device)
    return view


def transpose_of(system: SystemView) -> SystemView:
    """The systems with Mᵀ in the place of M, in the same memory."""
    view = SystemView()
    for name in SystemView.vars:
        setattr(view, name, getattr(system, name))
    view.transposed = 1
    return view


def pairs_alone(model: Model, pairs: PairRowView) -> tuple[RowsView, ContactView, ImpulseView]:
    """Rows between bodies or dofs with no others beside them, no contacts, and the impulses of the rows."""
    none = zeros(model.world_count + 1, dtype=int, device=model.device)
    rows, contacts, impulse = RowsView(), ContactView(), ImpulseView()
    rows.pair, impulse.pair = pairs, pairs.impulse
    rows.dof.world_start = rows.dof.world_count = none
    contacts.world_start = contacts.world_count = none
    return rows, contacts, impulse
