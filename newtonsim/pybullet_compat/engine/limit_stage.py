"""Joint limits as in PyBullet, where they act only once they are violated."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.constraints.dof_rows import ROW_LIMIT
from newtonsim.kernels.trees.violated_limits import act_when_violated
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.engine.sensors import rows_of_dofs
from newtonsim.runtime.launcher import Launcher
from newtonsim.solvers.featherstone.servos import ServoMode

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.body import Body
    from newtonsim.pybullet_compat.world.settings import Settings
    from newtonsim.scene.model import Model
    from newtonsim.solvers.featherstone.constraints import ConstraintStage
    from newtonsim.solvers.featherstone.stages import StepForces

DEFAULT_SHARE = 0.2
"""Share of the violation that one step removes, where the parameter erp does not say otherwise."""
DEEPEST = 0.04
"""Violation from which on a joint is stopped and not pushed back [rad or m], with useSplitImpulse."""


NOTICED = 1.0e-5
"""Difference of rates from which on a motor does not do what it wants [rad/s or m/s]."""


class ViolatedLimits:
    """A stage of every step that has limits act as measured with the real module.

    Limits do not act on a joint inside them. A joint beyond a limit moves back at a speed that removes a
    share of the violation per step; far beyond, it is only kept from moving further out. The solver stops
    joints exactly at their limits, so this stage moves the limits that the solver sees; the model keeps its
    own.

    Args:
        model: The model.
        constraints: Those of its solver, which use the limits of this stage from now on.

    Attributes:
        lower, upper: Limits that act in this step (axes,) [rad or m].
        push: Share that a step removes, and violation from which on none is (1,).
        inside: How far inside of a joint's place its lower and upper limit act, -inf for none (dofs,).
        rate: What turns that into the speed at which they push back [1/s], as of the last captured step.
    """

    def __init__(self, model: Model, constraints: ConstraintStage):
        self._model, self._options = model, constraints.options
        self.lower = wp.clone(model.joint_limit_lower, requires_grad=False)
        self.upper = wp.clone(model.joint_limit_upper, requires_grad=False)
        constraints.acting_limits = (self.lower, self.upper)
        self.push = wp.zeros(1, dtype=wp.vec2, device=model.device)
        self.inside = wp.full(model.joint_dof_count, wp.vec2(-math.inf), dtype=wp.vec2, device=model.device)
        self.rate = 0.0
        self._rows, self._impulse = constraints.rows.dof, HostArray(constraints.rows.dof.memory, 1)

    @functools.cached_property
    def _row(self) -> np.ndarray:
        """Rows of the limits of each dof."""
        return rows_of_dofs(self._rows, ROW_LIMIT, self._model.joint_dof_count)

    def impulses(self, columns: slice, worlds: int) -> np.ndarray:
        """What limits did to joints in the last step (W, velocities) [N m s or N s], where they acted.

        Args:
            columns: Velocities of a body within a world.
            worlds: Number of worlds W.
        """
        return self._impulse.pull()[0, self._row.reshape(worlds, -1)[:, columns]]

    def take(self, settings: Settings) -> None:
        """Take the parameters of the physics engine that this depends on."""
        parameters = settings.parameters
        deepest = DEEPEST if parameters.get("useSplitImpulse", 1) else math.inf
        self.push.assign(np.array([[parameters.get("erp", DEFAULT_SHARE), deepest]], np.float32))

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """Move the limits; see `StepStage`."""
        model, self.rate = self._model, self._options.settings(step.dt).limit_rate
        launch(
            act_when_violated,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                nominal_lower=model.joint_limit_lower,
                nominal_upper=model.joint_limit_upper,
                push=self.push,
                scale=1.0 / (self.rate * step.dt),
                q=step.state.joint_q,
            ),
            writes=dict(lower=self.lower, upper=self.upper, inside=self.inside),
        )


def forces_at_limits(
    body: Body,
    reached: tuple[np.ndarray, np.ndarray],
    speeds: np.ndarray,
    borne: np.ndarray,
    applied: np.ndarray,
    dt: float,
) -> np.ndarray:
    """Forces that motors report beside limits that act, as PyBullet's do: they do not give way to them.

    A motor that drives its joint further past the limit, or back faster than the limit does, reports its full
    force; one that drives it as the limit does reports what the limit cannot bear. Both at once are not
    determined then: the sweeps start from forces of the last step, which may be the opposite of each other.

    Args:
        body: The body.
        reached: Its coordinates (W, coordinates) and velocities (W, velocities) after the step.
        speeds: How fast lower and upper limits pushed back (W, velocities, 2) [rad/s or m/s]; -inf where they
            did not act.
        borne: Forces of these limits (W, velocities) [N m or N].
        applied: Forces of motors that gave way to them (W, velocities) [N m or N].
        dt: Time of the step [s].
    """
    coords, dofs = body.single_columns
    if not len(dofs):
        return applied
    servos = body.servos
    acts = (speeds[:, dofs] > -math.inf).any(axis=-1) & (servos.mode[:, dofs] == ServoMode.VELOCITY)
    acts = (acts & (servos.max_force[:, dofs] > 0.0)).any(axis=0)
    if not acts.any():
        return applied
    coords, dofs = coords[acts], dofs[acts]
    rate, force, most = reached[1][:, dofs], applied[:, dofs], servos.max_force[:, dofs]
    error = servos.target_q[:, coords] - (reached[0][:, coords] - dt * rate)
    target = servos.kp[:, dofs] * error / dt + servos.kd[:, dofs] * servos.target_qd[:, dofs]
    target += (1.0 - servos.kd[:, dofs]) * rate
    missing = np.clip(target, -servos.max_speed[:, dofs], servos.max_speed[:, dofs]) - rate
    lower, upper = speeds[:, dofs, 0], speeds[:, dofs, 1]
    below, above = np.abs(rate - lower) < NOTICED, np.abs(rate + upper) < NOTICED
    holds = (below | above) & (servos.mode[:, dofs] == ServoMode.VELOCITY)
    rest = force + borne[:, dofs]
    spared = np.where(below, np.minimum(rest, 0.0), np.maximum(rest, 0.0))
    told = np.where(np.abs(missing) > NOTICED, np.sign(missing) * most, spared)
    known = applied.copy()
    known[:, dofs] = np.where(holds, told, force)
    return known
