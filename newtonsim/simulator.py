"""Stepping loop: owns states, captures the step into graphs, divides worlds among threads, resets worlds."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.arguments import check_count, check_time, check_time_step, show
from newtonsim.checking import check_simulator, step_once, warn_of_unused_gains
from newtonsim.checkpoints import HostPart, Memory, options_of
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.kernels.steps import reset as reset_kernels
from newtonsim.kernels.steps.replay import repeat_launches
from newtonsim.kernels.trees import tree_state
from newtonsim.kinematics import check_length, eval_fk
from newtonsim.runtime.capture import Recording, capture_launches, capturing
from newtonsim.runtime.checked import config
from newtonsim.runtime.compilation import dry_run, load, load_once
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard, divide_among, wanted_threads
from newtonsim.runtime.side_by_side import SideBySide
from newtonsim.scene.allocation import put
from newtonsim.scene.model import check_model
from newtonsim.scene.revisions import CountedStruct, Revised, latest, note_change

if TYPE_CHECKING:
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.snapshot import HostValues, Snapshot
    from newtonsim.scene.state import State
    from newtonsim.solver_protocol import Solver


StepHook = Callable[["Launcher", "Simulator"], None]
"""Launches kernels over the worlds of a launcher, as a part of every step."""

_watchers: list[Callable[[Simulator], None]] = []

_REPORT_EVERY = 100

_BLOCK = 32
"""Number of steps that a shard makes before the next one has its turn, if many are requested.

One at a time costs 15.7 µs instead of 14.9 in the measurement above.
"""

_STALE = -1
"""In the place of the latest change that the graphs of a Simulator know: they know not all."""

_ONCE = 1

_PIECE = 256
"""Number of steps that are replayed at once: Python handles Ctrl-C in between, but not during a replay."""


@contextmanager
def watch_simulators(watcher: Callable[[Simulator], None]) -> Iterator[None]:
    """Let a function observe every Simulator of the process that steps within the context.

    It is called before the first step of each call of `Simulator.step` and after each step, and reads
    `model`, `state` and `time`; the results of the steps are bit-identical to those without it. Programs that
    know nothing about it can be recorded in this way, see `newtonsim.render.record_simulators`.

    Args:
        watcher: Function that is called with the Simulator.
    """
    _watchers.append(watcher)
    note_change()
    try:
        yield
    finally:
        _watchers.remove(watcher)


_materials_of = operator.attrgetter("ke", "kd", "kf", "ka", "mu", "restitution")
_geometry_of = operator.attrgetter("type", "is_solid", "thickness", "source", "scale")


class Simulator:
    """Steps a model with a solver, replaying captured graphs.

    Write to the arrays of `state` and `control` in place between steps: the graphs use these arrays, and see
    new values in them and in the model's arrays. When an array itself is replaced, or a plain number such as
    `dt`, `model.ground` or an option of the solver, the next step captures again by itself; call `recapture`
    if a change cannot be noticed, as inside an object that the solver keeps.

    On the CPU worlds are split into shards of consecutive worlds, which threads step in parallel; results do
    not depend on the number of threads. There is one shard if the solver handles all worlds together
    (`SolverBase.divides_worlds`), or if the global world contains more than static shapes.
    A GPU runs all worlds at once.

    Simulators can be stepped from several Python threads, each from one at a time. While one captures, in its
    first step and after a change, another thread must launch nothing by Warp itself, outside Simulators.

    Args:
        model: The model.
        solver: A solver created for it, and used by this Simulator only, since it remembers the last step.
        dt: Time of one `step` [s].
        substeps: Number of solver steps into which one `step` is divided.
        threads: Threads that share the worlds on the CPU; None for as many as are available and worthwhile
            for this model. There are never more than worlds.
        before: Launches what every `step` starts with, such as motor commands from actions. It is called with
            a launcher and this Simulator whenever a step is captured, and what it launches by the launcher
            becomes part of the capture; it may not allocate, read from the device, or launch otherwise.
        after: Likewise for what every `step` ends with, such as rewards; see `reset_worlds`.

    Attributes:
        state: The current state.
        control: The inputs that every step reads.
        dt: Time of one `step` [s].
        substeps: Number of solver steps into which one `step` is divided.
        threads: Threads in use; worlds are distributed by degrees of freedom, so a few large worlds may need
            fewer than requested.
        time: Simulated time [s].
        report_every: Calls of `step` between two reports of the solver on a GPU, which wait for it; 0 for
            none, in which case call `solver.report()` from time to time.

    Raises:
        ModelError: The model is none, or the solver belongs to another one.
        NewtonsimError: dt, substeps or threads is not positive, or a hook is no function.
    """

    def __init__(
        self,
        model: Model,
        solver: Solver,
        dt: float,
        substeps: int = 1,
        threads: int | None = None,
        before: StepHook | None = None,
        after: StepHook | None = None,
    ):
        check_model(model)
        _check_solver(solver, model)
        _check_times(dt, substeps)
        if threads is not None and (not isinstance(threads, (int, np.integer)) or threads < 1):
            raise NewtonsimError(
                f"threads: expected a whole number of at least 1, or None, got {show(threads)}"
            )
        for name, hook in (("before", before), ("after", after)):
            if hook is not None and not callable(hook):
                raise NewtonsimError(f"{name}: expected a function or None, got {show(hook)}")
        warn_of_unused_gains(model)
        self.model = model
        self.solver = solver
        self._known = _STALE  # number of the latest change that the graphs know, if nobody watches
        self._dt, self._substeps = dt, substeps
        self._time = 0.0
        self._report_every = _REPORT_EVERY
        self._calls = 0
        self._before, self._after = before, after
        with capturing:
            self._state = model.state(requires_grad=False)
            self._control = model.control(requires_grad=False)
            self._starts = self._starts_of_worlds()
            self._actuators = self._actuators_by_world() if model.actuator_count else None
            self._load_kernels()
            if model.joint_count:
                eval_fk(model, self.state.joint_q, self.state.joint_qd, None, self.state)
            self._initial = self.state.clone()
            self._load_hooks()
            self._shards = self._divide(threads)
        self._threads = min(wanted_threads(model, threads), len(self._shards))
        self._side_by_side = SideBySide(self._threads)
        self._replays: list[Recording] = []
        self._replay: Callable[[int], None] = self._replay_shards
        self._replay_once: Callable[[], object] = partial(self._replay_shards, 1)
        self._captured: tuple | None = None
        self._on_cpu = model.device.is_cpu
        self._has_shapes = model.shape_count > 0

    # what graphs depend on: a setter that notes a change is cheaper than to compare in every step
    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state, self._known = state, _STALE

    @property
    def control(self) -> Control:
        """The inputs that every step reads."""
        return self._control

    @control.setter
    def control(self, control: Control) -> None:
        self._control, self._known = control, _STALE

    @property
    def dt(self) -> float:
        """Time of one `step` [s]."""
        return self._dt

    @dt.setter
    def dt(self, seconds: float) -> None:
        self._dt, self._known = seconds, _STALE

    @property
    def substeps(self) -> int:
        """Number of solver steps into which one `step` is divided."""
        return self._substeps

    @substeps.setter
    def substeps(self, count: int) -> None:
        self._substeps, self._known = count, _STALE

    @property
    def threads(self) -> int:
        """Threads in use."""
        return self._threads

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._time

    @time.setter
    def time(self, seconds: float) -> None:
        self._time = check_time("time", seconds)

    @property
    def report_every(self) -> int:
        """Calls of `step` between two reports of the solver on a GPU; 0 for none."""
        return self._report_every

    @report_every.setter
    def report_every(self, calls: int) -> None:
        self._report_every = check_count("report_every", calls, 0)

    def step(self, n: int = 1) -> None:
        """Advance by n times dt.

        Raises:
            NewtonsimError: n is negative or no whole number, or dt or substeps have become invalid.
            ModelError: An array of the state or the control was replaced by one that does not fit.
            CheckError: With `newtonsim.config.checked`: a number is not finite, a quaternion not a rotation,
                or a buffer is full.
        """
        # the common case first, in few operations: all others would take a share of a small step
        if n is _ONCE and self._known == latest[0] and not config.checks_steps:
            self._replay_once()
            self._time += self._dt
            if self._on_cpu:
                self.solver.report()
            else:
                self._report_at_times()
            return
        n = check_count("n", n, 0)
        if n == 0:
            return
        if _watchers or config.checks_steps:
            self._step_watched(n)
        elif n > _PIECE:
            for done in range(0, n, _PIECE):
                self._step(min(_PIECE, n - done))
        else:
            self._step(n)

    def _step(self, n: int) -> None:
        """Advance by n times dt."""
        replays = n
        if self._known != latest[0]:
            replays -= self._renew()
        if replays == 1:
            self._replay_once()
        else:
            self._replay(replays)
        self._time += n * self._dt
        if self._on_cpu:
            self.solver.report()
        else:
            self._report_at_times()

    def _renew(self) -> int:
        """Check state and control, capture again if need be, and return the number of steps made so."""
        known = latest[0]
        self.model.check_state(self.state)
        self.model.check_control(self.control)
        made = 0
        if self._captured != self._baked():
            with capturing:
                made = self._capture()
        self._known = known if self._counts_changes() and not _watchers else _STALE
        return made

    def _report_at_times(self) -> None:
        """Let the solver report after every so many calls, since it waits for the device."""
        self._calls += 1
        if self._report_every and self._calls % self._report_every == 0:
            self.solver.report()

    def _step_watched(self, n: int) -> None:
        """Advance step by step, and show each to all watchers and checks."""
        for number in range(n + 1):
            if number and config.checked:
                step_once(self, self._step)
            elif number:
                self._step(1)
            for watcher in tuple(_watchers):
                watcher(self)
            if config.checked:
                check_simulator(self)

    def recapture(self) -> None:
        """Drop the captured graphs; the next step captures new ones."""
        self._captured, self._known = None, _STALE

    def reset(self, world_mask: wp.array | np.ndarray | None = None, state: State | None = None) -> None:
        """Reset worlds to a state and clear the solver's memory of them.

        Args:
            world_mask: Worlds to reset, bool, shape (world_count,); None for all.
            state: State to copy from; None for the one that the simulation started from.

        Raises:
            ModelError: The state belongs to another model.
            NewtonsimError: The mask has the wrong length or does not hold booleans.
        """
        model, device = self.model, self.model.device
        source = self._initial if state is None else state
        model.check_state(source)
        model.check_state(self.state)
        if world_mask is None:
            world_mask = np.ones(model.world_count, dtype=bool)
            self._time = 0.0
        if not isinstance(world_mask, wp.array):
            world_mask = np.asarray(world_mask)
            if world_mask.dtype != bool:
                raise NewtonsimError(f"world_mask: expected booleans, one per world, got {world_mask.dtype}")
            if world_mask.ndim != 1:
                raise NewtonsimError(f"world_mask: expected one dimension, got shape {world_mask.shape}")
            world_mask = put(world_mask, dtype=bool, device=device)
        check_length("world_mask", world_mask, model.world_count)
        self._restore(Launcher(model, record_tape=False), world_mask, source)
        self.solver.reset(self.state, world_mask)

    def snapshot(self) -> Snapshot:
        """Return a copy of all that the next step reads; its `restore` method restores it, including the
        time.

        Steps from there on are the same bit for bit. It writes to the arrays that existed when it was
        created, and so belongs to them.
        """
        return self.memory().snapshot()

    def save(self, path: str | os.PathLike) -> None:
        """Write all that the next step reads to a file, completely or not at all.

        Args:
            path: The file; an existing one is replaced.

        Raises:
            CheckpointError: It cannot be written.
        """
        self.memory().save(path)

    def restore(self, path: str | os.PathLike) -> None:
        """Continue from a file of `save`: the next steps have the same bits, in any process.

        The Simulator must be created in the same way as the one that wrote the file: from the same
        description, with the same solver and options.

        Args:
            path: The file.

        Raises:
            CheckpointError: The file cannot be read or is damaged, or another simulation wrote it; then
                nothing is changed.
        """
        self.memory().restore(path)

    def memory(self, **more: object) -> Memory:
        """Return the contents of checkpoints of this simulation.

        Args:
            more: Further parts of it, by name: objects with arrays, or with a memory on the host.
        """
        solver = self.solver
        if self._captured is None and solver.divides_worlds:
            with dry_run():
                self._advance()  # makes what solvers make in their first step
        owners = {"state": self.state, "control": self.control, "start": self._initial, "solver": solver}
        clock = HostPart(self._clock, self._set_clock)
        return Memory({**owners, "clock": clock, **more}, self.model, solver.workspaces(), options_of(solver))

    def _clock(self) -> HostValues:
        return {"time": self.time, "calls": self._calls, "dt": self.dt, "substeps": self.substeps}

    def _set_clock(self, clock: HostValues) -> None:
        self.time, self._calls = clock["time"], clock["calls"]
        self.dt, self.substeps = clock["dt"], clock["substeps"]

    def reset_worlds(
        self, launch: Launcher, world_mask: wp.array, spawn: Callable[[], None] | None = None
    ) -> None:
        """Reset the masked worlds of a launcher by launches only, for `before` and `after`.

        Args:
            launch: The launcher.
            world_mask: Worlds to reset to the start of the simulation, bool, shape (world_count,), on
                the model's device; read when the launches run.
            spawn: Launches kernels that then change `joint_q` and `joint_qd` of these worlds; body poses
                follow.
        """
        state = self.state
        self._restore(launch, world_mask, self._initial)
        if spawn is not None:
            spawn()
            v = launch.views
            launch(
                tree_state.place_masked_trees,
                "tree team",
                reads=dict(
                    mask=world_mask,
                    tree=v.tree,
                    levels=v.levels,
                    joint=v.joint,
                    body=v.body,
                    q=state.joint_q,
                    qd=state.joint_qd,
                ),
                writes=dict(kin=self._motion.kin, body_q=state.body_q, body_qd=state.body_qd),
            )
        self.solver.reset_worlds(launch.shard, state, world_mask)

    @cached_property
    def _motion(self) -> Motion:
        """Buffers for the kinematics of worlds that restart: the solver's, which are in the caches."""
        return self.solver.end_motion or Motion(self.model, forces=False)

    def _restore(self, launch: Launcher, world_mask: wp.array, source: State) -> None:
        """Copy the state of the masked worlds of a launcher."""
        model, target = self.model, self.state
        if model.joint_count or model.body_count:
            coord_start, dof_start, body_start = self._starts
            launch(
                reset_kernels.restore_worlds,
                "world team",
                reads=dict(
                    mask=world_mask,
                    coord_start=coord_start,
                    dof_start=dof_start,
                    body_start=body_start,
                    body_world=model.body_world,
                    source_joint_q=source.joint_q,
                    source_joint_qd=source.joint_qd,
                    source_body_q=source.body_q,
                    source_body_qd=source.body_qd,
                ),
                writes=dict(
                    joint_q=target.joint_q,
                    joint_qd=target.joint_qd,
                    body_q=target.body_q,
                    body_qd=target.body_qd,
                    body_f=target.body_f,
                ),
            )
        if self._actuators is not None:
            start, number = self._actuators
            launch(
                reset_kernels.restore_activations,
                "world",
                reads=dict(mask=world_mask, start=start, number=number, source=source.actuator_act),
                writes=dict(target=target.actuator_act),
            )
        if model.particle_count:
            launch(
                reset_kernels.restore_particles,
                "particle",
                reads=dict(
                    mask=world_mask,
                    world=model.particle_world,
                    source_q=source.particle_q,
                    source_qd=source.particle_qd,
                ),
                writes=dict(
                    target_q=target.particle_q, target_qd=target.particle_qd, target_f=target.particle_f
                ),
            )

    def _load_kernels(self) -> None:
        """Compile and load what stepping and resetting launches, on all cores."""
        if self.solver.divides_worlds:
            worlds, state, dt = Shard(self.model), self.state, self.dt / self.substeps
            device = self.model.device
            extra = [reset_kernels.restore_worlds, *([repeat_launches] if device.is_cpu else [])]

            def launches() -> None:
                self.solver.step_worlds(worlds, state, state, self.control, None, dt)
                eval_fk(self.model, state.joint_q, state.joint_qd, None, state)

            load_once(self.solver, launches, device, extra)

    def _load_hooks(self) -> None:
        """Compile and load what `before` and `after` launch."""
        if self._before is None and self._after is None:
            return
        with dry_run() as modules:  # this also makes the buffers of `reset_worlds`, before any capture
            self._launch_hook(self._before, None)
            self._launch_hook(self._after, None)
        load(modules, self.model.device)

    def _divide(self, threads: int | None) -> list[Shard]:
        """Divide the model so that all threads have work until the end."""
        if not self.solver.divides_worlds:
            return [Shard(self.model)]
        return divide_among(self.model, wanted_threads(self.model, threads))

    def _counts_changes(self) -> bool:
        """Whether everything that `_baked` asks shows its changes in `revisions.latest`."""
        model = self.model
        structs = (model.shape_materials, model.shape_geo) if self._has_shapes else ()
        return isinstance(self.solver, Revised) and all(isinstance(s, CountedStruct) for s in structs)

    def _baked(self) -> tuple:
        """What is part of the graphs: counts of replaced arrays, arrays that are not counted, numbers."""
        model, state, control = self.model, self.state, self.control
        counts = (model.revision, state.revision, control.revision, self.solver.baked_revision())
        numbers = (state, control, self.dt, self.substeps)
        if not self._has_shapes:
            return counts + numbers
        # struct views have no revision of their own
        return counts + numbers + _materials_of(model.shape_materials) + _geometry_of(model.shape_geo)

    def _capture(self) -> int:
        """Record a step of each shard; returns the number of steps made on the way.

        Solvers that divide worlds only launch what `_load_kernels` has loaded. With others, and on a GPU, a
        step is made first, which loads kernels and makes buffers.
        """
        _check_times(self.dt, self.substeps)
        self._captured, self._replays = None, []
        self._replay, self._replay_once = self._replay_shards, partial(self._replay_shards, 1)
        device = self.model.device
        eager = not (device.is_cpu and self.solver.divides_worlds)
        if eager:
            self._advance()
        elif len(self._shards) > 1:
            with dry_run():
                self._advance()  # checks state and control
        if self.solver.steps_on_host:
            self._replay, self._replay_once = self._advance_times, self._advance
        elif self.model.body_count or self.model.particle_count:
            whole = len(self._shards) == 1
            self._replays = [
                capture_launches(partial(self._advance, None if whole else s), device) for s in self._shards
            ]
            if whole:
                self._replay, self._replay_once = self._replays[0], self._replays[0].once
        self._captured = self._baked()
        return int(eager)

    def _advance(self, shard: Shard | None = None) -> None:
        """Make the solver steps of one step, for a shard or all worlds, with the hooks around them."""
        dt = self.dt / self.substeps
        self._launch_hook(self._before, shard)
        for _ in range(self.substeps):
            if shard is None or not self.solver.divides_worlds:
                self.solver.step(self.model, self.state, self.state, self.control, None, dt)
            else:
                self.solver.step_worlds(shard, self.state, self.state, self.control, None, dt)
        self._launch_hook(self._after, shard)

    def _launch_hook(self, hook: StepHook | None, shard: Shard | None) -> None:
        if hook is not None:
            hook(Launcher(self.model, record_tape=False, shard=shard), self)

    def _advance_times(self, n: int) -> None:
        """Make n steps without a graph."""
        for _ in range(n):
            self._advance()

    def _replay_shards(self, n: int) -> None:
        """Replay the graphs of all shards n times, block by block."""
        for done in range(0, n, _BLOCK):
            self._side_by_side(self._replays, min(_BLOCK, n - done))

    def _starts_of_worlds(self) -> list[wp.array]:
        """First coordinate, dof and body of each world, and the end of the last one's."""
        model = self.model
        starts = (model.world_coord_start, model.world_dof_start, model.world_body_start)
        return [put(start, dtype=int, device=model.device) for start in starts]

    def _actuators_by_world(self) -> tuple[wp.array, wp.array]:
        """First place of each world's actuators and the end, and the actuator at each place."""
        # here, because few models need it
        from newtonsim.dynamics.actuator_worlds import actuators_by_world

        order, start = actuators_by_world(self.model)
        device = self.model.device
        return put(start, dtype=int, device=device), put(order, dtype=int, device=device)


def _check_times(dt: float, substeps: int) -> None:
    check_time_step(dt)
    check_count("substeps", substeps, 1)


def _check_solver(solver: object, model: Model) -> None:
    if not callable(getattr(solver, "step", None)) or not hasattr(solver, "divides_worlds"):
        raise ModelError(f"solver: expected a solver, got a {type(solver).__name__}")
    if getattr(solver, "model", None) not in (None, model):
        raise ModelError(f"solver: the {type(solver).__name__} was constructed with another model")
