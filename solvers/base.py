"""Common base of all solvers."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, ClassVar, Self

import numpy as np
import warp as wp

from newtonsim.arguments import check_time_step
from newtonsim.checking import check_arrays
from newtonsim.collision.contacts import Contacts, check_contacts
from newtonsim.errors import ModelError, NotDifferentiableError, did_you_mean
from newtonsim.kernels.steps import integrate
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.checked import config
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.fitting import check_mask
from newtonsim.scene.model import Model, check_model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.solver_protocol import DifferentiableSolver, LinearSteps, NearSwitches, StepMemory


class SolverBase(Revised, DifferentiableSolver):
    """Base class of solvers: advances a State by one time step.

    Args:
        model: The model to simulate; None if the solver is given one at each step.

    Raises:
        TypeError: There is no option of a given name.
    """

    model: Model
    """None in a solver that is given a model at each step."""

    reads_model: bool = True
    """Whether each step reads the model; otherwise all but a few arrays are copied once."""

    lets_bodies_be_absent: bool = False
    """Whether steps leave out bodies that are absent, see `newtonsim.fields.presence`."""

    options_of: ClassVar[type | None] = None
    """Dataclass of the further options that `__init__` takes as `**options`."""

    @classmethod
    def ignored(cls, model: Model) -> list[str]:
        """Return names of what solvers of this class leave out of a model without an error."""
        return []

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Return an object without contents, after checking the names of all options."""
        parameters = inspect.signature(cls.__init__).parameters
        names = [name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD]
        if cls.options_of is not None:
            names += [field.name for field in dataclasses.fields(cls.options_of)]
        if len(names) == len(parameters) or cls.options_of is not None:
            for name in options:
                if name not in names:
                    raise TypeError(f"{cls.__name__}: there is no option {name!r}{did_you_mean(name, names)}")
        return super().__new__(cls)

    def __init__(self, model: Model | None):
        if model is not None:
            check_model(model)
        self.model = model  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def device(self) -> wp.Device:
        """Device of the solver's model."""
        if self.model is None:
            raise RuntimeError(f"{type(self).__name__} was constructed without a model and has no device")
        return self.model.device

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step.

        Args:
            model: The model.
            state_in: State at the start of the step.
            state_out: Receives the state at its end; may be `state_in` when no gradient is recorded.
            control: Inputs of the step; None for those of the model.
            contacts: Contacts at the start; None to collide inside the step.
            dt: Time step [s].
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement step")

    def check_model(self, model: Model) -> None:
        """Raise a ModelError unless the model of a step is the solver's own."""
        if model is not self.model:
            name = type(self).__name__
            raise ModelError(f"{name}.step: the model is not the one the solver was constructed with")

    def check_step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        default: Control,
        contacts: Contacts | None,
        dt: float,
    ) -> Control:
        """Check the arguments of a step.

        Args:
            model: The model.
            state_in: State at the start of the step.
            state_out: State at its end.
            control: Inputs of the step; None for the default.
            default: Those of the model.
            contacts: Contacts at the start; None to collide inside the step.
            dt: Time step [s].

        Returns:
            The inputs of the step.

        Raises:
            ModelError: A state, the control or the contacts do not fit the model.
            NewtonsimError: dt is not positive.
            CheckError: With `newtonsim.config.checked`: the state at the start of the step is invalid.
        """
        if model.bodies_may_be_absent and not self.lets_bodies_be_absent:
            raise ModelError(f"{type(self).__name__} moves all bodies, even absent ones")
        for state in (state_in, state_out):
            model.check_state(state)
        control = default if control is None else control
        model.check_control(control)
        for buffer in (contacts, getattr(self, "contacts", None)):
            if buffer is not None:
                check_contacts(model, buffer)
        check_time_step(dt)
        if config.checked and not model.device.is_capturing:
            check_arrays(model, state_in, control, f"{type(self).__name__}.step")
        return control

    steps_on_host = False
    """Whether a step does work on the host that a graph cannot contain, so that it cannot be captured."""

    end_motion: Motion | None = None
    """Buffers for the kinematics at the end of a step, which no later step reads."""

    divides_worlds = False
    """Whether `step_worlds` can handle a part of the worlds, so that threads can share them."""

    def step_worlds(
        self,
        shard: Shard,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance some of the worlds by one step, without touching the others.

        All worlds, shard by shard in any order or in several threads at once, give bit for bit the results of
        `step`. Arguments are not checked and no gradient is recorded.

        Args:
            shard: The worlds.
            state_in: State of all worlds at the start of the step.
            state_out: Receives the state of these worlds at its end; may be `state_in`.
            control: Inputs of the step.
            contacts: Contacts at the start; None to collide inside the step.
            dt: Time step [s].

        Raises:
            NotImplementedError: The solver handles all worlds together, see `divides_worlds`.
        """
        raise NotImplementedError(f"{type(self).__name__} handles all worlds together")

    def baked_revision(self) -> int:
        """A number that grows whenever a number or an array that becomes part of a graph of `step` is
        replaced.

        A Simulator reads it again only after a `Revised` object, such as the solver itself, has changed.
        """
        return self.revision

    def simulate(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None = None,
        contacts: Contacts | None = None,
        dt: float = 1.0 / 60.0,
    ) -> None:
        """Advance by one step; another name of `step`."""
        self.step(model, state_in, state_out, control, contacts, dt)

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Clear what earlier steps left in the solver.

        Args:
            state: State that the worlds start from; solvers whose memory does not depend on it ignore it.
            world_mask: Worlds to clear, bool, shape (world_count,); None for all.

        Raises:
            ModelError: The state or the mask does not fit the solver's model.
        """
        self.check_reset(state, world_mask)

    def forget_bodies(self, bodies: np.ndarray) -> None:
        """Clear what earlier steps left of bodies, as if they were new.

        Args:
            bodies: The bodies, (n,).
        """

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """Clear what earlier steps left of the masked worlds among some, by launches only.

        It may be part of a capture, and does not touch other worlds.

        Args:
            shard: The worlds.
            state: State that the worlds start from.
            world_mask: Worlds to forget, bool, shape (world_count,).

        Raises:
            NotImplementedError: The solver cannot do this.
        """
        raise NotImplementedError(f"{type(self).__name__} does not reset worlds within a recording")

    def check_reset(self, state: State | None, world_mask: wp.array | None) -> None:
        """Check the arguments of `reset`.

        Raises:
            ModelError: The state does not fit the solver's model, or the mask is not an array of one boolean
                per each world on its device.
        """
        model = self.model
        if model is None:
            return
        if state is not None:
            model.check_state(state)
        if world_mask is not None:
            check_mask(model, world_mask)

    def make_step_memory(self) -> StepMemory | None:
        """Return what a step records in addition to the new state for its backward pass; None for nothing."""
        return None

    def use_step_memory(self, memory: StepMemory | None) -> None:
        """Let steps from now on write to one memory, recorded or not; None for one of each recorded step.

        Whoever replays one recorded step many times must save its contents after each replay, and restore
        them before the step's backward pass.
        """

    def use_worlds(self, worlds: Shard | None) -> None:
        """Let `step`, and backward passes of steps that are recorded, handle some worlds from now on.

        Args:
            worlds: The worlds; None for all.

        Raises:
            NotImplementedError: The solver always steps all worlds.
        """
        raise NotImplementedError(f"{type(self).__name__} steps all worlds, and cannot leave some out")

    def make_linear_model(self, inputs: str) -> LinearSteps | None:
        """Return what makes linear models of steps in closed form for the current solver; None if nothing
        does.

        Args:
            inputs: What the model is linear in, apart from the state, "joint_f" or "joint_act".
        """
        return None

    def adjoints(self) -> tuple[object, ...]:
        """What belongs only to backward passes: steps do not change it, and do not depend on it."""
        return ()

    def workspaces(self) -> tuple[object, ...]:
        """What checkpoints leave out: backward passes, results that are computed on demand, conversions."""
        return self.adjoints()

    def copied_drives(self) -> np.ndarray:
        """Joint axes whose drives the solver has copied from the model, so that changes do not reach it."""
        return np.zeros(0, np.int64)

    def carried_arrays(self) -> list[wp.array] | None:
        """Arrays through which earlier steps affect the last bits of the next one; None if all of them may. A
        step with their contents restored, from the same state, computes the same bits. Rollouts keep them at
        checkpoints.
        """
        return None

    def check_gradient(self) -> None:
        """Raise if a backward pass since the last call met something without a gradient, and clear this.

        Captured graphs cannot raise: they set the gradients of the affected worlds to NaN, and this call
        gives the reason. Reads from the device, which waits for it.

        Raises:
            NotDifferentiableError: The message names reason and worlds.
        """

    def options_without_gradient(self) -> tuple[str, ...]:
        """Options of the solver that exclude gradients, as they are written in a call; none by default."""
        return ()

    def near_switches(self) -> NearSwitches | None:
        """What was about to switch in the backward passes since `check_gradient`; None if none is known."""
        return None

    def report(self) -> None:
        """Warn of what went wrong in earlier steps and has not been reported yet, such as full buffers.

        Reads from the device, which waits for it.
        """

    def integrate_bodies(
        self, model: Model, state_in: State, state_out: State, dt: float, angular_damping: float = 0.0
    ) -> None:
        """Semi-implicit Euler step of all bodies under gravity and `body_f`, without joints.

        Args:
            model: The model.
            state_in: `body_q`, `body_qd` and `body_f` are read.
            state_out: `body_q` and `body_qd` are written.
            dt: Time step [s].
            angular_damping: Rate at which angular velocity decays [1/s].

        Raises:
            ModelError: A state is one of another model.
        """
        model.check_state(state_in)
        model.check_state(state_out)
        launch = Launcher(model, record_tape=True)
        launch(
            integrate.integrate_bodies,
            "body",
            reads=dict(
                world=model.body_world,
                body_q=state_in.body_q,
                body_qd=state_in.body_qd,
                body_f=state_in.body_f,
                com=model.body_com,
                mass=model.body_mass,
                inv_mass=model.body_inv_mass,
                inertia=model.body_inertia,
                inv_inertia=model.body_inv_inertia,
                gravity=model.gravity_vec,
                angular_damping=angular_damping,
                dt=dt,
            ),
            writes=dict(body_q_out=state_out.body_q, body_qd_out=state_out.body_qd),
        )

    def integrate_particles(
        self, model: Model, state_in: State, state_out: State, dt: float, shard: Shard | None = None
    ) -> None:
        """Semi-implicit Euler step of all particles under gravity and `particle_f`.

        Args:
            model: The model.
            state_in: `particle_q`, `particle_qd` and `particle_f` are read.
            state_out: `particle_q` and `particle_qd` are written.
            dt: Time step [s].
            shard: The worlds to handle; None for all.

        Raises:
            ModelError: A state belongs to another model.
        """
        model.check_state(state_in)
        model.check_state(state_out)
        integrate_particles(model, state_in, state_out, dt, shard)

    def _refuse_gradient(self, state: State, control: Control) -> None:
        """Refuse a step of a solver without gradients that a tape records.

        Args:
            state: State at the start of the step.
            control: Its inputs.

        Raises:
            NotDifferentiableError: A tape records, and model, state or inputs have gradients.
        """
        if active_tape() is None:
            return
        inputs = (control.joint_act, control.joint_f, control.tendon_act)
        asks = any(one is not None and one.requires_grad for one in inputs)
        if self.model.requires_grad or state.requires_grad or asks:
            raise NotDifferentiableError(f"{type(self).__name__} has no gradients")


def integrate_particles(
    model: Model, state_in: State, state_out: State, dt: float, shard: Shard | None = None
) -> None:
    """See `SolverBase.integrate_particles`."""
    launch = Launcher(model, record_tape=True, shard=shard)
    launch(
        integrate.integrate_particles,
        "particle",
        reads=dict(
            world=model.particle_world,
            x=state_in.particle_q,
            v=state_in.particle_qd,
            f=state_in.particle_f,
            inv_mass=model.particle_inv_mass,
            flags=model.particle_flags,
            gravity=model.gravity_vec,
            max_speed=float(model.particle_max_velocity),
            dt=dt,
        ),
        writes=dict(x_out=state_out.particle_q, v_out=state_out.particle_qd),
    )
