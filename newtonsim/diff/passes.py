"""One step forward and one step backward as graphs, which all steps of a rollout replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import warp as wp

from newtonsim.diff.buffers import StateLayout
from newtonsim.diff.inputs import ControlInputs
from newtonsim.diff.layout import Place, as_floats, find_array
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.kernels.steps import rollouts
from newtonsim.runtime.capture import adopt, capture_launches, capturing
from newtonsim.runtime.copies import copy, fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.runtime.tapes import Tape
from newtonsim.scene.control import Control
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.solver_protocol import DifferentiableSolver

Loss = Callable[[State, wp.array], None]
"""Adds the loss of a final state to the losses of the worlds, shape (world_count,)."""

RunningLoss = Callable[[wp.array, State, Control, wp.array], None]
"""Adds the loss of a step; the first argument is the number of steps done, int, shape (1,)."""

Replay = Callable[[int], None]


class Problem(Protocol):
    """What a rollout computes, as its passes see it; see `Rollout` for details.

    Attributes:
        model: The model.
        solver: Makes the steps.
        steps: Number of steps.
        dt: Time of each [s].
        loss: Loss of the final state, None for none.
        running: Loss of each step, None for none.
        places: Arrays to differentiate with respect to.
        strict: Whether a step without a gradient raises.
        worlds: Worlds that steps handle; None for all.
        losses: Loss of each world, with gradient, shape (world_count,).
        inputs: Control of each step.
        segment: Steps from checkpoint to checkpoint; known before the first `Passes.prepare`.
    """

    model: Model
    solver: DifferentiableSolver
    steps: int
    dt: float
    loss: Loss | None
    running: RunningLoss | None
    places: tuple[Place, ...]
    strict: bool
    worlds: Shard | None
    losses: wp.array
    inputs: ControlInputs
    segment: int


class Passes:
    """Buffers of a step and its graphs.

    A step leads from `state_in` to `state_out`, and its end becomes the start of the next one and a row of
    the history. In the backward pass, start and end are read from the history.

    Args:
        problem: The problem of the passes.
        layout: Layout of the states.
        forces: State that holds the external forces.
        seeds: Weights of the losses, shape (world_count,).
        nonfinite: Receives the last state at which gradients of each world, and of what worlds share, are not
            finite, shape (world_count + 1,).
        capture: Whether to capture graphs.
    """

    def __init__(
        self,
        problem: Problem,
        layout: StateLayout,
        forces: State,
        seeds: wp.array,
        nonfinite: wp.array,
        capture: bool,
    ):
        model = problem.model
        self.problem, self.layout, self.capture = problem, layout, capture
        self.state_in, self.values_in = layout.make_state(forces)
        self.state_out, self.values_out = layout.make_state(forces)
        self.seeds, self.nonfinite = seeds, nonfinite
        self._forces = forces
        self._step = wp.zeros(1, dtype=int, device=model.device)
        self._slot = wp.zeros(1, dtype=int, device=model.device)
        self._history: wp.array | None = None
        self._memory = problem.solver.make_step_memory() if model.requires_grad else None
        self._memories: wp.array | None = None
        starts = {"counter": (0, 1), "value": (0, layout.size), **problem.inputs.starts}
        if self._memory is not None:
            starts["memory"] = (0, self._memory.values.size)
        self._launch = Launcher(model, record_tape=False, shard=Shard(model).with_starts(starts))
        self._baked: tuple | None = None
        self._forward: Replay | None = None
        self._backward: Replay | None = None
        self._final_loss: Replay | None = None
        self._final_backward: Replay | None = None
        self._tapes: tuple[wp.Tape, wp.Tape] | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a state in the history, including what its step records."""
        return 4 * (self.layout.size + (0 if self._memory is None else self._memory.values.size))

    def prepare(self, backward: bool) -> bool:
        """Create graphs that are missing or out of date.

        A step is made first, which compiles and loads kernels, allocates, and reveals errors: call it with a
        valid state in `state_in`, and set that and the solver's memory again afterwards.

        Returns:
            Whether a step was made.
        """
        rows = self.problem.segment + 1
        if self._history is None:
            shape, device = (rows, self.layout.size), self.layout.model.device
            self._history = wp.zeros(shape, dtype=float, device=device)
            if self._memory is not None:
                shape = (rows, self._memory.values.size)
                self._memories = wp.zeros(shape, dtype=float, device=device)
        now = self._what_is_baked()
        if now != self._baked:
            self._forward = self._backward = self._final_loss = self._final_backward = None
        if self._forward is not None and (self._backward is not None or not backward):
            return False
        start = wp.clone(self.values_in, requires_grad=False)
        with capturing:
            if self._forward is None:
                self._make_forward()
            if backward and self._backward is None:
                wp.copy(self.values_in, start)
                self._make_backward()
        self._baked = now
        return True

    def run_forward(self, first: int, count: int) -> None:
        """Make steps from `state_in`, which is step number `first`, and write them to the history."""
        self._place(first)
        self._forward(count)

    def place_at_end(self, first: int, count: int) -> None:
        """Make the end of a segment in the history the start of the backward pass."""
        self._step.fill_(first + count)
        self._slot.fill_(count)
        size = self.layout.size
        wp.copy(self.values_out, self._history, src_offset=count * size, count=size)

    def add_final_loss(self) -> None:
        """Add the loss of the last state."""
        if self._final_loss is not None:
            self._final_loss(1)

    def begin_backward(self, state_seeds: Mapping[str, wp.array]) -> None:
        """Set the gradient of the last state."""
        self.values_in.grad.zero_()
        self.values_out.grad.zero_()
        for name in ("particle_f", "body_f"):
            force = getattr(self._forces, name)
            if force is not None:
                force.grad.zero_()
        for name, seed in state_seeds.items():
            wp.copy(getattr(self.state_out, name).grad, seed)
        if self._final_backward is not None:
            self._final_backward(1)
        gradient = as_floats(self.values_out.grad)
        self._launch(
            rollouts.note_nonfinite,
            "value",
            reads=dict(state=self.problem.steps, world=self.layout.world, values=gradient, columns=1),
            writes=dict(nonfinite=self.nonfinite),
        )

    def run_backward(self, count: int) -> None:
        """Run back through the steps of the history, from the gradient of `state_out`."""
        self._backward(count)

    def _place(self, step: int) -> None:
        """Make the state in `state_in` the first one of the history."""
        self._step.fill_(step)
        self._slot.fill_(0)
        wp.copy(self._history, self.values_in, count=self.layout.size)

    def _what_is_baked(self) -> tuple:
        """Return what a graph must be captured again for."""
        p = self.problem
        materials = p.model.shape_materials
        arrays = () if materials is None else tuple(getattr(materials, n) for n in ("ke", "kd", "kf", "mu"))
        counts = (p.model.revision, p.solver.baked_revision(), p.inputs.sequences)
        return (*counts, p.worlds, *map(id, arrays))

    def _step_once(self) -> None:
        p, memory = self.problem, self._memory
        if memory is not None:
            p.solver.use_step_memory(memory)
        if p.worlds is not None:
            p.solver.use_worlds(p.worlds)
        try:
            p.solver.step(p.model, self.state_in, self.state_out, p.inputs.control, None, p.dt)
        finally:
            if memory is not None:
                p.solver.use_step_memory(None)
            if p.worlds is not None:
                p.solver.use_worlds(None)

    def _running_loss(self) -> None:
        p = self.problem
        if p.running is not None:
            running = p.running
            adopt(lambda: running(self._step, self.state_out, p.inputs.control, p.losses))

    def _one_forward(self) -> None:
        launch, inputs = self._launch, self.problem.inputs
        inputs.load(launch, self._step, 0)
        self._step_once()
        launch(
            rollouts.count_step, "counter", reads=dict(by=1), writes=dict(step=self._step, slot=self._slot)
        )
        self._running_loss()
        if self._memory is not None:
            launch(
                rollouts.keep_row,
                "memory",
                reads=dict(slot=self._slot, values=self._memory.values),
                writes=dict(history=self._memories),
            )
        launch(
            rollouts.keep_state,
            "value",
            reads=dict(slot=self._slot, state=self.values_out),
            writes=dict(history=self._history, next_state=self.values_in),
        )

    def _first_step(self) -> None:
        """Make the first step without a graph, so that a backward step can follow."""
        self._place(0)
        self._one_forward()

    def _make_forward(self) -> None:
        p = self.problem
        self._first_step()
        self._forward = self._recorded(self._one_forward)
        if p.loss is not None:
            add = lambda: p.loss(self.state_out, p.losses)  # noqa: E731
            add()
            self._final_loss = self._recorded(add)

    def _make_backward(self) -> None:
        """Record a step and the losses on tapes, run them back once, and capture that."""
        p = self.problem
        self._first_step()
        with Tape() as loss_tape:
            if p.loss is not None:
                p.loss(self.state_out, p.losses)
        with Tape() as running_tape:
            self._running_loss()
        for name, tape in (("loss", loss_tape), ("running", running_tape)):
            if getattr(p, name) is not None and not tape.launches:
                raise NewtonsimError(
                    f"{name}: it launched nothing that the tape records; compute it with wp.launch, with "
                    "kernels that have gradients, from the state that it is given"
                )
        with Tape() as tape:
            self._step_once()
            self._running_loss()
        self._tapes = (tape, loss_tape)
        fill(self.values_out.grad)
        self._final_back()
        try:
            self._one_backward()
        except NotDifferentiableError:
            if p.strict:
                raise
        self._check_reach(tape)
        self._backward = self._recorded(self._one_backward)
        if p.loss is not None:
            self._final_backward = self._recorded(self._final_back)

    def _final_back(self) -> None:
        copy(self.problem.losses.grad, self.seeds)
        self._tapes[1].backward()

    def _one_backward(self) -> None:
        launch, inputs = self._launch, self.problem.inputs
        launch(
            rollouts.fetch_states,
            "value",
            reads=dict(slot=self._slot, history=self._history),
            writes=dict(state_in=self.values_in, state_out=self.values_out),
        )
        if self._memory is not None:
            launch(
                rollouts.fetch_row,
                "memory",
                reads=dict(step=self._slot, offset=0, rows=self._memories),
                writes=dict(values=self._memory.values),
            )
        inputs.load(launch, self._step, -1)
        copy(self.problem.losses.grad, self.seeds)
        self._tapes[0].backward()
        inputs.store_gradients(launch, self._step, -1)
        launch(
            rollouts.carry_back,
            "value",
            reads=dict(step=self._step, world=self.layout.world),
            writes=dict(grad_in=self.values_in.grad, grad_out=self.values_out.grad, nonfinite=self.nonfinite),
        )
        launch(
            rollouts.count_step, "counter", reads=dict(by=-1), writes=dict(step=self._step, slot=self._slot)
        )

    def _check_reach(self, tape: wp.Tape) -> None:
        """Raise if the step does not differentiate with respect to one of the requested arrays."""
        p = self.problem
        reached = {id(a) for a in _arrays_of(tape)}
        for place in p.places:
            holders = {"state": self.state_in, "control": p.inputs.control, "model": p.model}
            if id(find_array(place, holders[place.owner])) not in reached:
                raise NotDifferentiableError(
                    f"wrt: {type(p.solver).__name__} has no gradient with respect to {place.name}"
                )

    def _recorded(self, run: Callable[[], None]) -> Replay:
        """Capture what a function launches, or call it each time."""
        if self.capture:
            try:
                return capture_launches(run, self.layout.model.device)
            except NotDifferentiableError:
                raise
            except RuntimeError as error:  # Warp has no type of its own for what a GPU cannot record
                raise NewtonsimError(
                    f"rollout: cannot be recorded: {error}; losses and controllers may only launch kernels, "
                    "without reading from the device, or pass capture=False"
                ) from error

        def repeat(count: int) -> None:
            for _ in range(count):
                run()

        return repeat


def _arrays_of(tape: wp.Tape) -> list[wp.array]:
    """Arrays whose gradients a tape adds to."""
    found = []
    for key in tape.gradients:
        if isinstance(key, wp.array):
            found.append(key)
        else:
            found += [value for value in vars(key).values() if isinstance(value, wp.array)]
    return found
