"""How joints meet their limits: as PyBullet's do, which notice a limit once it is violated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.trees.violated_limits import act_when_violated
from newtonsim.runtime.launcher import Launcher

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.settings import Settings
    from newtonsim.scene.model import Model
    from newtonsim.solvers.featherstone.constraints import ConstraintStage
    from newtonsim.solvers.featherstone.stages import StepForces

DEFAULT_SHARE = 0.2
"""Share of the violation that one step removes, where the parameter erp does not say otherwise."""
DEEPEST = 0.04
"""Violation from which on a joint is stopped and not pushed back [rad or m], with useSplitImpulse."""


class ViolatedLimits:
    """A stage of every step that has limits act as measured with the real module.

    A joint that is inside its limits feels nothing of them. One that is beyond goes back at a speed that
    removes a share of the violation in a step, and no further out where it is far beyond. The solver stops
    joints just at their limits, so this moves the limits that it sees; those of the model stay.

    Args:
        model: The model.
        constraints: Those of its solver, which see the limits of this from now on.

    Attributes:
        lower, upper: Limits that act in this step (axes,) [rad or m].
        push: Share that a step removes, and violation from which on none is (1,).
    """

    def __init__(self, model: Model, constraints: ConstraintStage):
        self._model, self._options = model, constraints.options
        self.lower = wp.clone(model.joint_limit_lower, requires_grad=False)
        self.upper = wp.clone(model.joint_limit_upper, requires_grad=False)
        constraints.acting_limits = (self.lower, self.upper)
        self.push = wp.zeros(1, dtype=wp.vec2, device=model.device)

    def take(self, settings: Settings) -> None:
        """Take the parameters of the physics engine that this depends on."""
        parameters = settings.parameters
        deepest = DEEPEST if parameters.get("useSplitImpulse", 1) else math.inf
        self.push.assign(np.array([[parameters.get("erp", DEFAULT_SHARE), deepest]], np.float32))

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """Move the limits; see `StepStage`."""
        model, rate = self._model, self._options.settings(step.dt).limit_rate
        launch(
            act_when_violated,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                nominal_lower=model.joint_limit_lower,
                nominal_upper=model.joint_limit_upper,
                push=self.push,
                scale=1.0 / (rate * step.dt),
                q=step.state.joint_q,
            ),
            writes=dict(lower=self.lower, upper=self.upper),
        )
