"""Buffers of the linear systems of the backward pass, see `kernels.constraints.adjoint.system`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.system import RoundsView, WeightView
from newtonsim.kernels.constraints.pair_rows import PairRowView
from newtonsim.kernels.constraints.rows import ImpulseView, RowsView
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.solvers.featherstone.constraints import ConstraintStage

ROUNDS = 384
"""Rounds after which a system counts as unsolved."""
KEPT = 192
"""Most directions that are kept; no world needs more than it has degrees of freedom."""


class AdjointSystem:
    """Weights of the rows, rounds, and the factorization of the forward solve.

    Args:
        stage: The rows, and the islands and matrix of their solve, whose memory is used again.

    Attributes:
        islands: Trees and rows by islands.
        factor: The matrix that is factorized.
        weights: Weights of the rows.
        transposed: The same, as those of the transposed system.
        rounds: What the outer rounds work with.
    """

    def __init__(self, stage: ConstraintStage):
        self.islands, self.factor = stage.buffers.islands, stage.buffers.system
        self.weights, self.transposed = (_weights(stage.rows) for _ in range(2))
        for name in ("dof", "pair", "contact", "spin", "mixed"):
            setattr(self.transposed, name, getattr(self.weights, name))
        self.transposed.transposed = 1
        self.rounds = _rounds(stage)


def pairs_alone(model: Model, pairs: PairRowView) -> tuple[RowsView, ContactView, ImpulseView]:
    """Rows between bodies or dofs with no others beside them, no contacts, and the impulses of the rows."""
    device = model.device
    none = zeros(model.world_count + 1, dtype=int, device=device)
    rows, contacts, impulse = RowsView(), ContactView(), ImpulseView()
    rows.pair, impulse.pair = pairs, pairs.impulse
    rows.dof.world_start = rows.dof.world_count = none
    contacts.world_start = contacts.world_count = none
    return rows, contacts, impulse


def _weights(rows: RowsView) -> WeightView:
    device = rows.dof.impulse.device
    contacts, spins = len(rows.contact.impulse), len(rows.spin.impulse)
    view = WeightView()
    view.dof = zeros(len(rows.dof.impulse), dtype=float, device=device)
    view.pair = zeros(len(rows.pair.impulse), dtype=float, device=device)
    view.contact = zeros(contacts, dtype=wp.mat33, device=device)
    view.spin = zeros(spins, dtype=wp.mat33, device=device)
    view.mixed = zeros(spins, dtype=wp.mat33, device=device)
    return view


def _rounds(stage: ConstraintStage) -> RoundsView:
    starts, device = stage.dofs.world_start.numpy(), stage.z.device
    dofs = len(stage.z)
    view = RoundsView()
    view.most = ROUNDS
    view.kept = int(min(KEPT, np.diff(starts).max(initial=1)))
    view.r = zeros(dofs, dtype=wp.float64, device=device)
    view.x = zeros(dofs, dtype=wp.float64, device=device)
    view.direction = zeros(view.kept * dofs, dtype=wp.float64, device=device)
    view.image = zeros(view.kept * dofs, dtype=wp.float64, device=device)
    return view
