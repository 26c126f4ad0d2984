"""Joint damping as in PyBullet: by the velocities at the start of a step, wherever that is stable."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.trees.damping import damp_axes
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.model import Model
from newtonsim.solvers.featherstone.servos import JointServos, ServoMode
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.featherstone.stages import StepForces


class StartDamping:
    """A stage of every step that damps joints by their velocities at its start.

    Where a step would remove most of a velocity, or more, damping stays implicit and thereby stable; see
    `kernels.trees.damping`.

    Args:
        model: The model, whose `joint_damping` it is.
        smooth: The smooth stage of its solver, which leaves damping to this stage from now on.
        servos: Those of the solver.

    Attributes:
        acting: What is left to the end of the step [N m s/rad or N s/m], shape (joint_dof_count,).
    """

    def __init__(self, model: Model, smooth: SmoothStage, servos: JointServos):
        self._model, self._smooth, self._servos = model, smooth, servos
        self.acting = wp.clone(model.joint_damping, requires_grad=False)
        smooth.acting_damping = self.acting

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """Damp the joints; see `StepStage`."""
        launch(
            damp_axes,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                body=launch.views.body,
                kin=self._smooth.motion.kin,
                mode=self._servos.mode,
                holding=int(ServoMode.VELOCITY),
                max_force=self._servos.max_force,
                damping=self._model.joint_damping,
                qd=step.state.joint_qd,
                dt=step.dt,
            ),
            writes=dict(acting=self.acting, joint_f=step.joint_f),
        )
