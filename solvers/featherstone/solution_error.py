"""Warning of gradients through steps of FeatherstoneSolver whose sweeps stopped early."""

from __future__ import annotations

import warnings

import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.kernels.constraints.adjoint import solution_error as solution_error_adjoint
from newtonsim.kernels.constraints.adjoint.solution_error import ErrorView
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.constraint_adjoint import ConstraintAdjoint
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.gradient_reports import Shortfall
from newtonsim.solvers.step import CONVERGENCE_TOLERANCE


class SolutionError:
    """Distance between the sweeps of the steps of a backward pass and the solutions of their constraints.

    For each tree, it sums over the steps the squares, in the norm of kinetic energy, of the change of
    velocities to the solution and of the change by constraints. It considers only the solution for the final
    velocities, and not the one that removes penetrations.

    Args:
        model: A model finalized with gradients.
    """

    def __init__(self, model: Model):
        self.model = model
        device, trees = model.device, topology_of(model).tree_count
        self.errors = ErrorView()
        self.errors.looked = zeros(model.world_count, dtype=int, device=device)
        self.errors.change = zeros(model.joint_dof_count, dtype=float, device=device)
        self.errors.sums = zeros(trees, dtype=wp.vec2d, device=device)
        self.errors.worst = zeros(trees, dtype=float, device=device)
        self.errors.steps = zeros(trees, dtype=int, device=device)
        self.errors.worst_step = zeros(trees, dtype=int, device=device)
        self._shortfall = Shortfall(CONVERGENCE_TOLERANCE)

    def add(
        self, launch: Launcher, constraints: ConstraintAdjoint, contacts: Contacts, smooth: SmoothStage
    ) -> None:
        """Add a step, after the multipliers of its final solution were found."""
        v, stage = launch.views, constraints.stage
        launch(
            solution_error_adjoint.find_changes,
            "world",
            reads=dict(
                tree=v.tree,
                rows=stage.rows,
                contacts=contacts.view,
                depth=topology_of(self.model).max_depth,
                dofs=stage.dofs,
                impulse=constraints.impulses(pushing=False),
                residual=stage.residual,
                v_free=smooth.v_free,
                v_end=constraints.solved_qd,
                multiplier=constraints.multiplier,
                adj=constraints.rows,
            ),
            writes=dict(system=constraints.transposed, errors=self.errors),
        )
        launch(
            solution_error_adjoint.add_changes,
            "tree",
            reads=dict(
                tree=v.tree, L=smooth.L, v_free=smooth.v_free, z=stage.z, world_state=stage.world_state
            ),
            writes=dict(errors=self.errors),
        )

    def clear(self) -> None:
        """Clear the sums of all steps."""
        for name in ("sums", "worst", "steps", "worst_step"):
            fill(getattr(self.errors, name))

    def warn(self) -> None:
        """Warn if the steps so far are too far from their solutions, and again each time this doubles."""
        found = self._shortfall.untold(self.errors.sums.numpy())
        if found is None:
            return
        tree, part = found
        world = topology_of(self.model).view.world.numpy()[tree]
        after = self.errors.worst_step.numpy()[tree]
        where = f"{after} steps before the last" if after else "in the last step"
        warnings.warn(
            f"FeatherstoneSolver: the constraint solve ended {part:.0%} of what constraints do away from "
            f"their solution (world {world}, worst {where}); the gradient is that of the solution, and may "
            "be wrong by as much or more; steps end nearer with tolerance=1e-6, or with sweeps alone "
            "(iterations=1000, factorizations=0)",
            RuntimeWarning,
            stacklevel=4,
        )
