"""A solver whose joints are driven by actuators."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from newtonsim.actuators.actuators import Actuators
from newtonsim.collision.contacts import Contacts
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solver_protocol import StepMemory
from newtonsim.solvers.base import SolverBase


class ActuatedSolver(SolverBase):
    """Any solver behind actuators, which turn the commands of each of its steps into efforts.

    Other attributes of the solver, such as `contact_forces` or options, are available here as well. On a
    tape, steps have gradients with respect to commands, state and parameters of actuators, also through their
    memory; a `Rollout`, which keeps only states, takes actuators without memory.

    Example:
        >>> from newtonsim import FeatherstoneSolver, ModelBuilder, Simulator
        >>> from newtonsim.actuators import Actuators, ActuatedSolver, DCMotor
        >>> builder = ModelBuilder()
        >>> arm = builder.add_body()
        >>> box = builder.add_shape_box(arm, hx=0.1, hy=0.1, hz=0.1)
        >>> joint = builder.add_joint_revolute(-1, arm, key="elbow")
        >>> model = builder.finalize("cpu")
        >>> motor = DCMotor(stiffness=20.0, damping=0.5, stall_torque=8.0, no_load_speed=12.0, delay=0.01)
        >>> actuators = Actuators(model, {"elbow": motor}, dt=0.002)
        >>> simulator = Simulator(model, ActuatedSolver(FeatherstoneSolver(model), actuators), dt=0.002)

    Args:
        solver: The solver.
        actuators: Actuators of the same model.

    Attributes:
        solver: The solver.
        actuators: The actuators.

    Raises:
        NewtonsimError: They have different models, or the solver has copied drives from the model that the
            actuators replace.
    """

    def __init__(self, solver: SolverBase, actuators: Actuators):
        if solver.model is not actuators.model:
            raise NewtonsimError("actuators: created for another model than the solver")
        twice = np.intersect1d(solver.copied_drives(), actuators.replaced_axes())
        if len(twice):
            joint = int(np.searchsorted(solver.model.joint_axis_start.numpy(), twice[0], side="right")) - 1
            raise NewtonsimError(
                f"actuators: {type(solver).__name__} has copied the drive of joint "
                f"{solver.model.joint_key[joint]!r}, which would act besides its actuator; create the "
                "actuators before the solver"
            )
        super().__init__(solver.model)
        self.solver, self.actuators = solver, actuators
        self.divides_worlds = solver.divides_worlds
        self.steps_on_host = solver.steps_on_host
        self.reads_model, self.lets_bodies_be_absent = solver.reads_model, solver.lets_bodies_be_absent
        self.end_motion = solver.end_motion

    def __getattr__(self, name: str) -> Any:
        """Find what the class lacks in the solver behind it."""
        if name.startswith("__") or "solver" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.solver, name)

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`.

        Raises:
            NewtonsimError: The time step is not the one that the actuators were created for.
        """
        self.check_model(model)
        control = self.check_step(model, state_in, state_out, control, self._default_control(), contacts, dt)
        tape = active_tape()
        if tape is None or not model.requires_grad:
            driven = self.actuators.launch(Launcher(model, record_tape=False), state_in, control, dt)
            self.solver.step(model, state_in, state_out, driven, contacts, dt)
            return
        recorded = self.actuators.record(tape, state_in, control, dt)
        self.solver.step(model, state_in, state_out, recorded.driven, contacts, dt)
        # the first that a backward pass calls: the solver's pass reads what drives the joints
        tape.record_func(recorded.evaluate, [])

    def _default_control(self) -> Control:
        if self._default is None:
            self._default = self.model.control(clone_variables=False)
        return self._default

    _default: Control | None = None

    def step_worlds(
        self,
        shard: Shard,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance some worlds by one step; see `SolverBase.step_worlds`."""
        launch = Launcher(self.model, record_tape=False, shard=shard)
        driven = self.actuators.launch(launch, state_in, control, dt)
        self.solver.step_worlds(shard, state_in, state_out, driven, contacts, dt)

    kernel_kind = None
    """Kernels of actuators are not those that the solver behind them needs, see `load_once`."""

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return self.revision + self.solver.baked_revision() + self.actuators.baked_revision()

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Forget what earlier steps left in solver and actuators; see `SolverBase.reset`."""
        self.solver.reset(state, world_mask)
        self.actuators.reset_worlds(Launcher(self.model, record_tape=False), world_mask)

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`."""
        self.solver.reset_worlds(shard, state, world_mask)
        launch = Launcher(self.model, record_tape=False, shard=shard)
        self.actuators.reset_worlds(launch, world_mask)

    def forget_bodies(self, bodies: np.ndarray) -> None:
        """See `SolverBase.forget_bodies`."""
        self.solver.forget_bodies(bodies)

    def make_step_memory(self) -> StepMemory | None:
        """See `SolverBase.make_step_memory`.

        Raises:
            NotDifferentiableError: Actuators remember commands or integrals, which rollouts do not keep.
        """
        if self.actuators.remembers:
            raise NotDifferentiableError(
                "rollouts keep only states, but the actuators remember commands or integrals: record the "
                "steps on a wp.Tape, or finalize without requires_grad to evaluate"
            )
        return self.solver.make_step_memory()

    def use_step_memory(self, memory: StepMemory | None) -> None:
        """See `SolverBase.use_step_memory`."""
        self.solver.use_step_memory(memory)

    def adjoints(self) -> tuple[object, ...]:
        """See `SolverBase.adjoints`."""
        return self.solver.adjoints()

    def workspaces(self) -> tuple[object, ...]:
        """See `SolverBase.workspaces`."""
        return self.solver.workspaces()

    def carried_arrays(self) -> list[wp.array] | None:
        """See `SolverBase.carried_arrays`."""
        return None if self.actuators.remembers else self.solver.carried_arrays()

    def check_gradient(self) -> None:
        """See `SolverBase.check_gradient`."""
        self.solver.check_gradient()

    def options_without_gradient(self) -> tuple[str, ...]:
        """See `SolverBase.options_without_gradient`."""
        return self.solver.options_without_gradient()

    def near_switches(self) -> Any:
        """See `SolverBase.near_switches`."""
        return self.solver.near_switches()

    def report(self) -> None:
        """See `SolverBase.report`."""
        self.solver.report()
