"""What loops need of a solver: `Simulator` of any, rollouts and linear models of one with gradients."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.runtime.launcher import Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State


class Solver(Protocol):
    """What Simulator needs of a solver; see `SolverBase`, which has all of it except `step`.

    Attributes:
        divides_worlds: Whether `step_worlds` can handle a part of the worlds.
        steps_on_host: Whether a step does work that a graph cannot contain, so that each is made without one.
        end_motion: Buffers for the kinematics at the end of a step, which no later step reads; or None.
    """

    divides_worlds: bool
    steps_on_host: bool
    end_motion: Motion | None

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step."""

    def step_worlds(
        self,
        shard: Shard,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance some of the worlds by one step."""

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Clear what earlier steps left in the solver."""

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """Clear it for the masked worlds among some, by launches only."""

    def workspaces(self) -> tuple[object, ...]:
        """What checkpoints leave out, since no step reads it."""
        ...

    def report(self) -> None:
        """Warn of what went wrong in earlier steps and has not been reported yet."""

    def baked_revision(self) -> int:
        """A number that grows whenever a number or an array that becomes part of a graph of `step` is
        replaced.

        Of solvers that are `Revised`, such as `SolverBase`, it is only asked for after a `Revised` object of
        the process has changed.
        """
        ...


class StepMemory(Protocol):
    """What a step records for its backward pass.

    Attributes:
        values: All of it as one array of floats, which must be copied bit for bit.
    """

    values: wp.array


class NearSwitches(Protocol):
    """Contacts and limits that were about to switch in a backward pass."""

    def found(self) -> np.ndarray:
        """Worlds in which there was one, bool (world_count,)."""
        ...

    def describe(self, world: int) -> str:
        """Describe the most important one of a world."""
        ...


class LinearSteps(Protocol):
    """Makes steps and their linear models in closed form.

    FeatherstoneSolver has it for trees with all types of joints, contacts, limits, drives and friction, but
    not with loops and couplings, single bodies that turn freely, compliant contacts or the pyramidal cone;
    nor for steps in which something rebounds, single bodies are pushed apart, ball or distance joints are at
    their limits, or contacts have torsional or rolling friction.

    Attributes:
        A: Derivative of the state after the last step by that before it, float64, (world_count, 2 n, 2 n),
            see `newtonsim.diff.Linearization`.
        B: Derivative by the inputs, float64, (world_count, 2 n, inputs).
    """

    A: wp.array
    B: wp.array

    def step(self, shard: Shard, state_in: State, state_out: State, control: Control, dt: float) -> None:
        """Make a step in some worlds, and linearise it, by launches only."""

    def forget_nonfinite(self, shard: Shard) -> None:
        """Forget what steps left of those among some worlds that they made non-finite, by launches only."""

    def not_covered(self) -> np.ndarray:
        """Worlds in which something acted in the last step that A and B do not hold, int (n,).

        Raises:
            NotDifferentiableError: Something acted that has no derivative.
        """
        ...


class DifferentiableSolver(Solver, Protocol):
    """What a rollout needs of a solver in addition; see `SolverBase`, which has all of it."""

    def adjoints(self) -> tuple[object, ...]:
        """What belongs only to backward passes."""
        ...

    def carried_arrays(self) -> list[wp.array] | None:
        """Arrays through which earlier steps affect the bits of the next one; None if all of them may."""
        ...

    def use_worlds(self, worlds: Shard | None) -> None:
        """Let `step` and its backward passes handle some worlds until the next call; None for all."""

    def check_gradient(self) -> None:
        """Raise if backward passes met what has no gradient."""

    def options_without_gradient(self) -> tuple[str, ...]:
        """Options of the solver that exclude gradients, as they are written in a call."""
        ...

    def near_switches(self) -> NearSwitches | None:
        """What was about to switch in the backward passes since `check_gradient`; None if none is known."""
        ...

    def make_linear_model(self, inputs: str) -> LinearSteps | None:
        """Return what makes linear models of steps in closed form; None if nothing does."""
        ...

    def make_step_memory(self) -> StepMemory | None:
        """Return what a step records in addition to the new state for its backward pass; None for nothing."""
        ...

    def use_step_memory(self, memory: StepMemory | None) -> None:
        """Let steps write to one memory until the next call; None for one of each recorded step."""
