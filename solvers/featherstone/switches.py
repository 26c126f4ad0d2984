"""Contacts and limits that were about to switch in a backward pass of FeatherstoneSolver, by name."""

from __future__ import annotations

import numpy as np

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.constraints.adjoint import switches as switches_adjoint
from newtonsim.kernels.constraints.adjoint.switches import SwitchView
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.constraint_adjoint import ConstraintAdjoint

_WHAT = {
    int(switches_adjoint.SWITCH_TOUCH): "contact of {} just touches",
    int(switches_adjoint.SWITCH_LOAD): "contact of {} bears next to nothing",
    int(switches_adjoint.SWITCH_SLIP): "contact of {} is between sticking and sliding",
    int(switches_adjoint.SWITCH_LIMIT): "{} is at its limit",
}


class Switches:
    """Of each world the row that most hangs on, of those about to switch in the steps of a backward pass.

    Args:
        model: A model finalized with gradients.
    """

    def __init__(self, model: Model):
        self.model = model
        worlds, device = model.world_count, model.device
        self.view = SwitchView()
        self.view.size = zeros(worlds, dtype=float, device=device)
        self.view.kind = zeros(worlds, dtype=int, device=device)
        self.view.first = zeros(worlds, dtype=int, device=device)
        self.view.second = zeros(worlds, dtype=int, device=device)

    def add(self, launch: Launcher, constraints: ConstraintAdjoint, contacts: Contacts, dt: float) -> None:
        """Look at a step, after the multipliers of its final solution were found."""
        stage = constraints.stage
        launch(
            switches_adjoint.find_switches,
            "world",
            reads=dict(
                tree=launch.views.tree,
                rows=stage.rows,
                contacts=contacts.view,
                depth=topology_of(self.model).max_depth,
                impulse=constraints.impulses(pushing=False),
                adj=constraints.rows,
                s=stage.options.settings(dt),
                y=constraints.y,
            ),
            writes=dict(switches=self.view),
        )

    def clear(self) -> None:
        """Forget all steps."""
        fill(self.view.size)

    def found(self) -> np.ndarray:
        """Worlds in which something was about to switch, bool (world_count,); waits for the device."""
        return self.view.size.numpy() > 0.0

    def describe(self, world: int) -> str:
        """Say what most hangs on in a world."""
        kind, first, second = (
            int(a.numpy()[world]) for a in (self.view.kind, self.view.first, self.view.second)
        )
        if kind == int(switches_adjoint.SWITCH_LIMIT):
            names = self._joint(first)
        else:
            names = " and ".join(self._body(shape) for shape in (first, second))
        return _WHAT[kind].format(names)

    def _body(self, shape: int) -> str:
        body = int(self.model.shape_body.numpy()[shape])
        return "the static world" if body < 0 else f"body {self.model.body_key[body]!r}"

    def _joint(self, dof: int) -> str:
        joint = int(np.searchsorted(self.model.joint_qd_start.numpy(), dof, side="right")) - 1
        return f"joint {self.model.joint_key[joint]!r}"
