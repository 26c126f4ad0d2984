"""Value and gradients of a number of steps, with a choice of memory use."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.diff import checks
from newtonsim.diff.buffers import Checkpoints, StateLayout, arrays_of_steps
from newtonsim.diff.inputs import ControlInputs, Controls
from newtonsim.diff.layout import FORCES, Place, as_floats, find_array, find_place, world_array
from newtonsim.diff.passes import Loss, Passes, RunningLoss
from newtonsim.diff.trust import Trust
from newtonsim.errors import NewtonsimError, NotDifferentiableError
from newtonsim.kernels.steps import rollouts
from newtonsim.runtime import compilation
from newtonsim.runtime.shards import Shard
from newtonsim.scene.arrays import STATE_ARRAYS
from newtonsim.scene.snapshot import bytes_of, find_arrays
from newtonsim.scene.state import State
from newtonsim.solver_protocol import DifferentiableSolver

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


TAPE_ROOM = 128_000_000
"""Size of states up to which "auto" keeps those of all steps [bytes]."""

StateSeeds = Mapping[str, wp.array | npt.ArrayLike]
"""Gradients with respect to a final state, by name of its array."""


@dataclass(frozen=True)
class RolloutResult:
    """The result of a rollout; the arrays belong to the caller.

    Attributes:
        losses: Loss of each world, shape (world_count,).
        state: State after the last step.
        gradients: Gradient of the sum of the losses (weighted by the seeds, if any) by name; empty without
            backward pass. Worlds do not influence each other, so what belongs to one world holds the gradient
            of its own loss. Arrays have the type of what they belong to; those of control sequences have
            shape (steps, n).
        nonfinite: For each world the last state at which its gradient was NaN or infinite, where state i is
            the one after i steps; -1 where it is finite everywhere. NumPy int, (world_count,). In such a
            world, and in what worlds share, all gradients to which the steps up to there contribute are NaN.
    """

    losses: wp.array
    state: State
    gradients: dict[str, wp.array]
    nonfinite: np.ndarray


class Rollout:
    """A fixed number of steps from a given state, a loss of each world, and its gradients.

    The step is captured into graphs once, forward and backward, and replayed. The backward pass needs only
    the states of all steps; `checkpoint` says which of them are kept, and the others are recomputed bit for
    bit. Gradients do not depend on this choice, to the last bit.

    Reverse accumulation with checkpoints: Griewank, "Achieving logarithmic growth of temporal and spatial
    complexity in reverse automatic differentiation", 1992.

    A rollout starts with `solver.reset()` and leaves the solver as ordinary steps would.
    `model.*` gradients are collected in the `grad` of the model's arrays, which are cleared first.
    The forces of the given state, `body_f` and `particle_f`, act in all steps.

    Args:
        model: A model finalized with `requires_grad=True`, unless only `evaluate` is used.
        solver: A solver made for it.
        steps: Number of steps.
        dt: Time of each [s].
        loss: `loss(state, losses)` adds the loss of the final state to `losses` (world_count,) by
            `wp.launch`; it must not allocate or read back.
        running: `running(step, state, control, losses)` does so after every step, with the control of the
            step and `step` of shape (1,), the number of steps done, from 1 to `steps`.
        wrt: What to differentiate with respect to: "state.NAME" of the initial state, "control.NAME",
            "model.NAME" with the names of arrays of State, Control and Model that are differentiable,
            "model.shape_materials.NAME" and "model.gravity_vec", or of `newtonsim.fields.FIELDS`, such as
            "joints.q", "bodies.mass" and "gravity".
        checkpoint: "tape" keeps the states of all steps; a number k keeps every k-th one, and computes
            segments of k steps twice; "sqrt" takes k = √steps, which needs least memory in long rollouts;
            "auto" is "tape" if the states take at most 128 MB, and "sqrt" otherwise.
        clip: Largest Euclidean length of the gradient of each world, taken over all entries of `wrt` that
            belong to it; longer ones are scaled. Gradients that worlds share are not clipped. None for no
            limit.
        strict: Whether a step without a gradient in any world raises; else the gradients of these worlds are
            NaN, with a warning that says why.
        capture: Whether to replay graphs. Without them, Python launches every kernel, which is slow, but
            allows a loss to allocate, and shows errors where they occur.
        warn: Whether to warn of gradients that are not finite, once of those that are zero everywhere, and of
            those that differences do not confirm, see `newtonsim.diff.trust`: if a contact or a limit is
            about to switch, calls number 1, 2, 4, 8 and so on are repeated four times with slightly moved
            inputs.

    Attributes:
        segment: Steps from checkpoint to checkpoint.
        worlds: Worlds that steps and their gradients handle, for solvers with `use_worlds`; None for all.

    Raises:
        NewtonsimError: An argument is out of range, or a name is unknown or not in the model.
        NotDifferentiableError: A name refers to an array without gradients.
    """

    def __init__(
        self,
        model: Model,
        solver: DifferentiableSolver,
        steps: int,
        dt: float,
        loss: Loss | None = None,
        running: RunningLoss | None = None,
        wrt: Sequence[str] = (),
        checkpoint: str | int = "auto",
        clip: float | None = None,
        strict: bool = True,
        capture: bool = True,
        warn: bool = True,
    ):
        checks.check_numbers(steps, dt, clip)
        checks.check_solver(solver, model)
        checks.check_function("loss", loss, "state", "losses")
        checks.check_function("running", running, "step", "state", "control", "losses")
        self.model, self.solver = model, solver
        self.steps, self.dt = int(steps), float(dt)
        self.loss, self.running = loss, running
        self.clip, self.strict, self.warn = clip, strict, warn
        self.worlds: Shard | None = None
        self.places = tuple(find_place(name) for name in checks.check_names(wrt))
        if self.places:
            checks.check_options(solver)
        if self.places and not model.requires_grad:
            name = self.places[0].name
            raise NewtonsimError(
                "model: finalize it with requires_grad=True to differentiate with respect to " + name
            )
        self.losses = wp.zeros(model.world_count, dtype=float, device=model.device, requires_grad=True)
        self.inputs = ControlInputs(model, self.steps)
        self._layout = StateLayout(model)
        self._forces = model.state()
        self._check_places()
        self._seeds = wp.ones(model.world_count, dtype=float, device=model.device)
        self._nonfinite = wp.full(model.world_count + 1, -1, dtype=int, device=model.device)
        self._passes = Passes(self, self._layout, self._forces, self._seeds, self._nonfinite, capture)
        self.segment = _segment_length(checkpoint, self.steps, self._passes.row_bytes)
        self._segments = -(-self.steps // self.segment)
        self._checkpoints: Checkpoints | None = None
        self._worlds: dict[str, wp.array] = {}
        self._in_history: int | None = None
        self._warned: set[str] = set()
        self._trust = Trust(self)

    def evaluate(self, state: State, controls: Controls = None) -> RolloutResult:
        """Run forward only.

        Args:
            state: Initial state, copied.
            controls: Inputs: None for those of the model, a Control for all steps, or a mapping of names to
                arrays of shape (n,), or (steps, n) with a row for each step; the model's for other names.

        Returns:
            Losses and final state; no gradients.

        Raises:
            NewtonsimError: State or controls do not fit.
        """
        self._begin(state, controls, backward=False)
        self._run_forward(keep=False)
        return self._result({})

    def __call__(
        self,
        state: State,
        controls: Controls = None,
        seeds: wp.array | npt.ArrayLike | None = None,
        state_seeds: StateSeeds | None = None,
    ) -> RolloutResult:
        """Run forward and backward.

        Args:
            state: Initial state, copied.
            controls: See `evaluate`.
            seeds: Weight of each world's loss in the sum that is differentiated, float32 (world_count,), or
                numbers of that shape; None for ones.
            state_seeds: Gradients of a further function of the final state, which is added to the sum, by
                name of the state's array: like it, or numbers of its shape as in `array.numpy()`.

        Returns:
            Losses, final state and gradients.

        Raises:
            NewtonsimError: State, controls or seeds do not fit, there is nothing to differentiate with
                respect to, or no loss.
            NotDifferentiableError: The solver has no gradient with respect to one of `wrt`, or something
                acted in a step that has none.
        """
        if not self.places:
            raise NewtonsimError("wrt: name at least one array to differentiate with respect to")
        read = self._read_seeds(seeds, state_seeds)
        self._begin(state, controls, backward=True)
        self._run_forward(keep=True)
        result = self._result({})
        self._trust.begin()
        gradients = self.backward(*read)
        result = RolloutResult(result.losses, result.state, gradients, self._nonfinite.numpy()[:-1].copy())
        if self.warn and not read[1] and self._trust.check(state, controls, read[0]):
            # a further backward pass finds the steps as they were
            self._begin(state, controls, backward=True)
            self._run_forward(keep=True)
        return result

    def backward(
        self, seeds: wp.array | npt.ArrayLike | None = None, state_seeds: StateSeeds | None = None
    ) -> dict[str, wp.array]:
        """Run backward again through the steps of the last call, for example for other rows of a Jacobian.

        Args:
            seeds: See `__call__`.
            state_seeds: See `__call__`.

        Returns:
            Gradients by name.

        Raises:
            NewtonsimError: Seeds do not fit, there is no loss, or the rollout was not called before, or
                evaluated since.
            NotDifferentiableError: See `__call__`.
        """
        seeds, state_seeds = self._read_seeds(seeds, state_seeds)
        if self._in_history is None:
            raise NewtonsimError(
                "backward: call the rollout first; `evaluate` keeps nothing for a backward pass"
            )
        checkpoints = self._checkpoints if self._segments > 1 else None
        if checkpoints is not None:
            checkpoints.save_end()
        self._run_backward(seeds, state_seeds)
        if checkpoints is not None:
            checkpoints.load_end()
        gradients = {place.name: self._gradient(place) for place in self.places}
        self._trust.note(gradients)
        try:
            self.solver.check_gradient()
        except NotDifferentiableError as error:
            if self.strict:
                raise
            warnings.warn(str(error), RuntimeWarning, stacklevel=3)
        self._finish(gradients)
        gradients = {name: wp.clone(g, requires_grad=False) for name, g in gradients.items()}
        if self.warn:
            self._warn(gradients, self._nonfinite.numpy())
        return gradients

    @property
    def memory(self) -> int:
        """Memory that gradients take [bytes], complete after a call.

        It counts states, checkpoints with the solver's memory, sequences of the rollout, and what the solver
        has only for backward passes. It does not count the model with the gradients of its arrays, the solver
        without gradients, compiled kernels and graphs.
        """
        model, solver = self.model, self.solver
        own = find_arrays(self, *solver.adjoints(), skip=(model, solver))
        return bytes_of(own, [*find_arrays(model), *arrays_of_steps(solver, model)])

    def _check_places(self) -> None:
        """Look up all names once, so that errors come early, and enable gradients of gravity."""
        for place in self.places:
            if place.attribute == "gravity_vec" and not self.model.gravity_vec.requires_grad:
                self.model.gravity_vec.requires_grad = True
            array = self._array(place)
            if array.grad is None:
                raise NotDifferentiableError(f"wrt: {place.name} was created without gradients")

    def _array(self, place: Place) -> wp.array:
        """The array that holds the values of a name, of which states share the layout of the model's."""
        holders = {"state": self._forces, "control": self.inputs.control, "model": self.model}
        return find_array(place, holders[place.owner])

    def _read_seeds(
        self, seeds: wp.array | npt.ArrayLike | None, state_seeds: StateSeeds | None
    ) -> tuple[wp.array | None, dict[str, wp.array]]:
        """Return seeds of the losses, and those of the state by the names of its arrays."""
        if self.loss is None and self.running is None and not state_seeds:
            raise NewtonsimError("loss: nothing to differentiate; give loss, running or state_seeds")
        return checks.read_seeds(seeds, self.losses), checks.read_state_seeds(state_seeds, self._layout)

    def _begin(self, state: State, controls: Controls, backward: bool) -> None:
        """Copy state and controls, and make sure that the graphs exist."""
        checks.check_state(self.model, state)
        self.inputs.set(controls)
        self._in_history = None
        passes = self._passes
        self._load(state)
        if passes.prepare(backward):
            self._checkpoints = None
            self._load(state)
        self.solver.reset(passes.state_in, None)
        self.losses.zero_()

    def _load(self, state: State) -> None:
        for spec in STATE_ARRAYS:
            target = getattr(self._passes.state_in, spec.name)
            if target is not None:
                wp.copy(target, getattr(state, spec.name))

    def _bounds(self, index: int) -> tuple[int, int]:
        """First step and number of steps of a segment."""
        first = index * self.segment
        return first, min(self.segment, self.steps - first)

    def _run_forward(self, keep: bool) -> None:
        """Run all segments; keep what is needed to run all but the last one again."""
        passes = self._passes
        if keep and self._checkpoints is None and self._segments > 1:
            self._checkpoints = Checkpoints(self._layout, self._segments, self.solver)
        for index in range(self._segments):
            if keep and self._checkpoints is not None and self._segments > 1:
                self._checkpoints.save(index, passes.values_in)
            first, count = self._bounds(index)
            passes.run_forward(first, count)
        passes.add_final_loss()
        self._in_history = self._segments - 1 if keep else None

    def _run_backward(self, seeds: wp.array | None, state_seeds: Mapping[str, wp.array]) -> None:
        """Run back through the last segment, then through each one before it, computed again."""
        passes = self._passes
        for place in self.places:
            if place.owner == "model":
                self._array(place).grad.zero_()  # pyright: ignore[reportOptionalMemberAccess]
        self.inputs.zero_gradients()
        self._nonfinite.fill_(-1)
        if seeds is None:
            self._seeds.fill_(1.0)
        else:
            wp.copy(self._seeds, seeds)
        for index in reversed(range(self._segments)):
            first, count = self._bounds(index)
            if index != self._in_history and self._checkpoints is not None:
                self._checkpoints.load(index, passes.values_in)
                passes.run_forward(first, count)
                self._in_history = index
            passes.place_at_end(first, count)
            if index == self._segments - 1:
                passes.begin_backward(state_seeds)
            passes.run_backward(count)

    def _gradient(self, place: Place) -> wp.array:
        """Return where the backward pass left a gradient."""
        if place.owner == "control":
            return self.inputs.gradient(place.attribute)
        if place.owner == "model":
            return self._array(place).grad  # pyright: ignore[reportReturnType]
        holder = self._forces if place.attribute in FORCES else self._passes.state_out
        return getattr(holder, place.attribute).grad

    def _finish(self, gradients: Mapping[str, wp.array]) -> None:
        """Spread and record non-finite gradients, and clip gradients of worlds that are too long."""
        model, device = self.model, self.model.device
        flat = []
        for place in self.places:
            if place.per not in self._worlds:
                self._worlds[place.per] = world_array(model, place.per)
            world = self._worlds[place.per]
            gradient = gradients[place.name]
            sequence = place.owner == "control" and place.attribute in self.inputs.sequences
            rows = as_floats(gradient, self.steps if sequence else 1)
            flat.append((world, rows, rows.shape[1] // len(world)))
        if (self._nonfinite.numpy() >= 0).any():
            for world, rows, columns in flat:
                compilation.launch(
                    rollouts.spread_nonfinite,
                    rows.shape[1],
                    reads=dict(first=0, world=world, nonfinite=self._nonfinite, columns=columns),
                    writes=dict(values=rows),
                    device=device,
                    record_tape=False,
                )
        for world, rows, columns in flat:
            compilation.launch(
                rollouts.note_nonfinite,
                rows.shape[1],
                reads=dict(first=0, state=0, world=world, values=rows, columns=columns),
                writes=dict(nonfinite=self._nonfinite),
                device=device,
                record_tape=False,
            )
        if self.clip is None:
            return
        squares = wp.zeros(model.world_count, dtype=wp.float64, device=device)
        for world, rows, columns in flat:
            compilation.launch(
                rollouts.add_squares,
                rows.shape[1],
                reads=dict(first=0, world=world, values=rows, columns=columns),
                writes=dict(squares=squares),
                device=device,
                record_tape=False,
            )
        for world, rows, columns in flat:
            compilation.launch(
                rollouts.shrink,
                rows.shape[1],
                reads=dict(first=0, world=world, squares=squares, longest=float(self.clip), columns=columns),
                writes=dict(values=rows),
                device=device,
                record_tape=False,
            )

    def _result(self, gradients: dict[str, wp.array]) -> RolloutResult:
        losses = wp.clone(self.losses, requires_grad=False)
        nothing = np.full(self.model.world_count, -1, np.int32)
        return RolloutResult(losses, self._final_state(), gradients, nothing)

    def _final_state(self) -> State:
        state = State()
        for spec in STATE_ARRAYS:
            array = getattr(self._passes.state_out, spec.name)
            if array is not None:
                setattr(state, spec.name, wp.clone(array, requires_grad=False))
        return state

    def _warn(self, gradients: Mapping[str, wp.array], nonfinite: np.ndarray) -> None:
        """Warn of gradients that are not finite, and once of those that are zero everywhere."""
        worlds = np.flatnonzero(nonfinite >= 0)
        if len(worlds):
            world_count = self.model.world_count
            named = [
                f"{'what worlds share' if w == world_count else f'world {w}'} at state {nonfinite[w]}"
                for w in worlds[:8]
            ]
            more = f" and {len(worlds) - 8} more" if len(worlds) > 8 else ""
            warnings.warn(
                f"gradients became NaN or infinite in the backward pass, in {', '.join(named)}{more} "
                f"(state i is the one after i of {self.steps} steps)",
                RuntimeWarning,
                stacklevel=3,
            )
        zero = [name for name, g in gradients.items() if name not in self._warned and not g.numpy().any()]
        if zero and self._seeds.numpy().any():
            self._warned.update(zero)
            unread = f", or {type(self.solver).__name__} does not read them"
            why = f"does not depend on them{unread}"
            if len(zero) == len(self.places):
                why = f"seems not to read the state that it is given{unread}"
            warnings.warn(
                f"the gradient is zero in all entries of {', '.join(zero)}: the loss of this rollout {why}",
                UserWarning,
                stacklevel=3,
            )


def rollout(
    model: Model,
    solver: DifferentiableSolver,
    state: State,
    controls: Controls,
    steps: int,
    dt: float,
    loss: Loss | None,
    wrt: Sequence[str],
    checkpoint: str | int = "auto",
    running: RunningLoss | None = None,
    clip: float | None = None,
    strict: bool = True,
) -> RolloutResult:
    """Run a number of steps forward and backward once; see `Rollout` for repeated calls."""
    rollout = Rollout(model, solver, steps, dt, loss, running, wrt, checkpoint, clip, strict)
    return rollout(state, controls)


def _segment_length(checkpoint: str | int, steps: int, row_bytes: int) -> int:
    if checkpoint == "auto":
        checkpoint = "tape" if (steps + 1) * row_bytes <= TAPE_ROOM else "sqrt"
    if checkpoint == "tape":
        return steps
    if checkpoint == "sqrt":
        return math.isqrt(steps - 1) + 1
    if isinstance(checkpoint, (int, np.integer)) and not isinstance(checkpoint, bool) and checkpoint >= 1:
        return min(int(checkpoint), steps)
    raise NewtonsimError(
        f"checkpoint: expected 'auto', 'tape', 'sqrt' or a number of at least 1, got {checkpoint!r}"
    )
