"""What loops ask of a solver: `Simulator` of any, rollouts and linear models of one with gradients."""

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
    """What Simulator asks of a solver; `SolverBase` has all of it but `step`, and says more.

    Attributes:
        divides_worlds: Whether `step_worlds` handles a part of the worlds.
        steps_on_host: Whether a step does work that a graph cannot hold, so that each is made anew.
        end_motion: Room for the kinematics of where a step ends, which no later step reads; or None.
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
        """Forget what earlier steps left in the solver."""

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """Forget it of the masked worlds among some, by launches alone."""

    def workspaces(self) -> tuple[object, ...]:
        """What checkpoints leave out, since no step reads it."""
        ...

    def report(self) -> None:
        """Warn of what went wrong in earlier steps and has not been reported yet."""

    def baked_revision(self) -> int:
        """A number that grows whenever a number or an array that `step` bakes into a graph is replaced.

        Of solvers that are `Revised`, such as `SolverBase`, it is only asked for after a `Revised` object of
        the process has changed.
        """
        ...


class StepMemory(Protocol):
    """What a step writes down for its backward pass.

    Attributes:
        values: All of it as one array of floats, which are to be copied bit by bit.
    """

    values: wp.array


class NearSwitches(Protocol):
    """Contacts and limits that were about to switch in a backward pass."""

    def found(self) -> np.ndarray:
        """Worlds in which there was one, bool (world_count,)."""
        ...

    def describe(self, world: int) -> str:
        """Name the one of a world that most hangs on."""
        ...


class LinearSteps(Protocol):
    """What makes steps and their linear models in closed form.

    FeatherstoneSolver has it for trees with all types of joints, contacts, limits, drives and friction, but
    not with loops and couplings, single bodies that turn freely, compliant contacts or the pyramidal cone;
    nor in steps in which something rebounds, single bodies are pushed apart, ball or distance joints stand
    on their limits, or contacts have torsional or rolling friction.

    Attributes:
        A: State after the last step by that before, float64, (world_count, 2 n, 2 n), see
            `newtonsim.diff.Linearization`.
        B: By the inputs, float64, (world_count, 2 n, inputs).
    """

    A: wp.array
    B: wp.array

    def step(self, shard: Shard, state_in: State, state_out: State, control: Control, dt: float) -> None:
        """Make a step in some worlds, and linearise it, by launches alone."""

    def not_covered(self) -> np.ndarray:
        """Worlds in which something acted in the last step that A and B do not hold, int (n,).

        Raises:
            NotDifferentiableError: Something acted that has no derivative.
        """
        ...


class DifferentiableSolver(Solver, Protocol):
    """What a rollout asks of a solver beside that; `SolverBase` has all of it, and says more."""

    def adjoints(self) -> tuple[object, ...]:
        """What belongs to backward passes alone."""
        ...

    def carried_arrays(self) -> list[wp.array] | None:
        """Arrays by which earlier steps decide on the bits of the next one; None if all of them may."""
        ...

    def use_worlds(self, worlds: Shard | None) -> None:
        """Let `step` and its backward passes handle some worlds until the next call; None for all."""

    def check_gradient(self) -> None:
        """Raise if backward passes met what has no gradient."""

    def near_switches(self) -> NearSwitches | None:
        """What was about to switch in the backward passes since `check_gradient`; None if none is known."""
        ...

    def make_linear_model(self, inputs: str) -> LinearSteps | None:
        """What makes linear models of steps in closed form; None if nothing does."""
        ...

    def make_step_memory(self) -> StepMemory | None:
        """What a step writes down beside the new state for its backward pass; None for nothing."""
        ...

    def use_step_memory(self, memory: StepMemory | None) -> None:
        """Let steps write to one memory until the next call; None for one of each recorded step."""
