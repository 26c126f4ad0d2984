"""All actuators of a model: they turn users' commands into the solver's control, before every solver step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import warp as wp

from newtonsim.actuators.activation import (
    Activation,
    ActivationGroup,
    TendonActivationGroup,
    TendonSites,
    set_initial,
)
from newtonsim.actuators.general import General, GeneralGroup
from newtonsim.actuators.groups import (
    ActuatorGroup,
    Arrays,
    DriveGroup,
    EffortGroup,
    Pass,
    PDGroup,
    PIDGroup,
    Sites,
)
from newtonsim.actuators.models import PD, PID, Actuator, DCMotor, Drive, Effort, Network, check_number
from newtonsim.actuators.network_group import NetworkGroup
from newtonsim.actuators.patterns import Key, Pattern, matched_dofs
from newtonsim.actuators.resolution import warn_of_gains
from newtonsim.dynamics.actuator_worlds import actuator_worlds
from newtonsim.dynamics.tendon_paths import tendon_worlds
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.actuators import activation, commands, episodes
from newtonsim.kernels.actuators import delay as delays
from newtonsim.kinematics import check_length
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.tapes import Tape
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.patterns import match_labels
from newtonsim.scene.revisions import Revised
from newtonsim.scene.snapshot import find_arrays
from newtonsim.scene.state import State

_PURPOSE = 1 << 30
"""Stream of random numbers of the first group; environments use small and negative ones."""


_GROUPS: dict[type[Actuator], Callable[[Any, Sites], ActuatorGroup]] = {
    Drive: DriveGroup,
    Effort: EffortGroup,
    PD: PDGroup,
    PID: PIDGroup,
    DCMotor: PDGroup,
    Network: NetworkGroup,
    General: GeneralGroup,
    Activation: ActivationGroup,
}
"""Makes the actuators of all worlds of an entry."""


class Actuators(Revised):
    """Actuators of the joints of a model, the same in all worlds except for random delays.

    `Control.joint_act` holds their commands, one for each axis: targets for `PD` and the like, efforts for
    `Effort`. Axes that no pattern matches keep their drives.

    The drives of axes that get an actuator other than `Drive` and `Activation` are switched off in the model
    (position mode with gains of zero), since the actuator replaces them;
    `Model.joint_effort_limit` limits its effort. Initial controls of entries go into `Model.joint_act` and
    `Model.tendon_act`, from which `Model.control` and a `Simulator` that are made later start.

    Args:
        model: The model.
        entries: Actuators by pattern of the names of joints, see `match_labels`, or by an `AxisOf` for one
            axis of joints with several; or by several of both.
        dt: Time of a solver step [s].
        seed: Seed of random delays.
        tendons: Activations by pattern of the names of tendons, whose commands are in `Control.tendon_act`.

    Attributes:
        groups: Groups of actuators by pattern, whose parameters are arrays that may be written.
        driven: Control that the solver received in the last step.
        key: Key of the random numbers of each world, int (world_count,).
        episode: How often each world has restarted, int (world_count,).

    Raises:
        NewtonsimError: A pattern matches nothing, two name the same joint, a joint cannot be driven, or a
            number is out of range.

    Warns:
        UserWarning: Explicit control with such gains is unstable with such steps.
    """

    def __init__(
        self,
        model: Model,
        entries: Mapping[Key, Actuator],
        dt: float,
        seed: int = 0,
        tendons: Mapping[str | tuple[str, ...], Activation] | None = None,
    ):
        check_number("dt", dt, strict=True)
        self.model, self.dt = model, float(dt)
        self.groups: dict[Key, ActuatorGroup] = {}
        owner: dict[int, object] = {}
        taken = np.zeros(model.joint_dof_count, np.int32)
        for patterns, entry in entries.items():
            if not isinstance(entry, Actuator):
                raise NewtonsimError(
                    f"actuators {patterns!r}: expected an actuator such as PD(), got {entry!r}"
                )
            dofs = matched_dofs(patterns, model)
            for dof in dofs:
                if dof in owner:
                    joint = int(np.searchsorted(model.joint_qd_start.numpy(), dof, side="right")) - 1
                    key = model.joint_key[joint]
                    raise NewtonsimError(f"joint {key!r}: both {owner[dof]!r} and {patterns!r} name it")
                owner[dof] = patterns
            sites = Sites(str(patterns), model, dofs, self.dt)
            group = self.groups[patterns] = _GROUPS[type(entry)](entry, sites)
            taken[sites.dofs] = 1
            set_initial(model.joint_act, group, entry, patterns, partial(self._axes_of, sites))
        self._add_tendons(tendons or {})
        if model.actuator_count:
            worlds = np.arange(model.world_count + 1)
            self._input_starts = {"tendon": np.searchsorted(actuator_worlds(model), worlds)}
            self._none_taken = zeros(model.actuator_count, dtype=int, device=model.device)
        self._taken = put(taken, dtype=int, device=model.device)
        words = np.random.SeedSequence(seed).generate_state(model.world_count).view(np.int32)
        self.key = put(words, dtype=int, device=model.device)
        self.episode = zeros(model.world_count, dtype=int, device=model.device)
        self._counts_episodes = True
        self.driven = model.control(requires_grad=False)
        self._memory = [group.new_memory(model.requires_grad) for group in self.groups.values()]
        self._room = [group.new_room(False) for group in self.groups.values()]
        self._everyone = put(np.ones(model.world_count, bool), dtype=bool, device=model.device)
        launch = Launcher(model, record_tape=False)
        self._draw(launch, self._everyone)
        self._forget(launch, self._everyone)
        explicit = [group for group in self.groups.values() if isinstance(group, PDGroup)]
        if explicit:
            warn_of_gains(model, explicit, self.dt)

    def _axes_of(self, sites: Sites, pattern: Pattern) -> np.ndarray:
        """Axes of an entry that one of its patterns names."""
        return sites.axes[np.isin(sites.dofs, matched_dofs(pattern, self.model))]

    def _add_tendons(self, entries: Mapping[str | tuple[str, ...], Activation]) -> None:
        model = self.model
        taken = np.zeros(model.tendon_count, np.int32)
        world = tendon_worlds(model) if model.tendon_count else taken
        self._tendon_starts = {"tendon": np.searchsorted(world, np.arange(model.world_count + 1))}
        for patterns, entry in entries.items():
            if not isinstance(entry, Activation):
                raise NewtonsimError(f"actuators of tendons {patterns!r}: expected Activation, got {entry!r}")
            found = match_labels(patterns, model.tendon_key, "tendons")
            if taken[found].any() or patterns in self.groups:
                raise NewtonsimError(f"actuators of tendons {patterns!r}: one of them already has one")
            taken[found] = 1
            sites = TendonSites(str(patterns), model, found, self.dt)
            group = self.groups[patterns] = TendonActivationGroup(entry, sites)

            def named(one: Any) -> list[int]:
                return match_labels(one, model.tendon_key, "tendons")

            set_initial(model.tendon_act, group, entry, patterns, named)
        self._tendons_taken = put(taken, dtype=int, device=model.device)

    def replaced_axes(self) -> np.ndarray:
        """Joint axes whose drives actuators replace, int (n,)."""
        groups = [group for group in self.groups.values() if isinstance(group, EffortGroup)]
        return np.concatenate([np.zeros(0, np.int64), *(group.axis.numpy() for group in groups)])

    @property
    def remembers(self) -> bool:
        """Whether steps depend on earlier ones beside the state: by delays, activations, integrals."""
        return any(self._memory)

    def follow_episodes(self, key: wp.array, episode: wp.array) -> None:
        """Use the random numbers of an environment.

        Args:
            key: Key of each world, int (world_count,).
            episode: Number of the episode of each world, int (world_count,), counted elsewhere.

        Raises:
            ModelError: An array has another shape or type.
        """
        for name, array in (("key", key), ("episode", episode)):
            check_length(name, array, self.model.world_count, wp.int32)
        self.key, self.episode, self._counts_episodes = key, episode, False

    def launch(self, launch: Launcher, state: State, control: Control, dt: float) -> Control:
        """Launch all actuators for the worlds of a launcher, in place.

        Args:
            launch: Launcher for these worlds.
            state: State at the start of the solver step.
            control: Commands of users.
            dt: Time of the solver step [s].

        Returns:
            The control for the solver.

        Raises:
            NewtonsimError: The time step is not the one that the actuators were created for.
        """
        self._check_step(dt)
        self._launch(launch, state, control, self.driven, self._memory, self._memory, self._room)
        return self.driven

    def record(self, tape: wp.Tape, state: State, control: Control, dt: float) -> RecordedPass:
        """Launch all actuators for all worlds on a tape, with separate memory and controls for this step.

        Raises:
            ModelError: State or control are of another model.
            NewtonsimError: The time step is not the one that the actuators were created for.
        """
        self.model.check_state(state)
        self.model.check_control(control)
        self._check_step(dt)
        groups = self.groups.values()
        driven = self.model.control(requires_grad=True)
        before, after = self._memory, [group.new_memory(True) for group in groups]
        room = [group.new_room(True) for group in groups]
        self._memory = after
        inputs = dict(state=state, control=control, driven=driven, before=before, after=after, room=room)
        recorded = RecordedPass(partial(self._launch, **inputs), self.model, driven, room)
        recorded.evaluate()
        arrays = [a for arrays in (*before, *after) for a in arrays.values()]
        arrays += [driven.joint_act, driven.joint_f, control.joint_act, control.joint_f]
        if self.model.tendon_count:
            arrays += [driven.tendon_act, control.tendon_act]
        arrays += [state.joint_q, state.joint_qd, *self._parameters()]
        tape.record_func(recorded.reverse, [a for a in arrays if a.size and a.grad is not None])
        return recorded

    def _parameters(self) -> list[wp.array]:
        found = find_arrays(*self.groups.values(), skip=(self.model,))
        return [*found, self.model.joint_effort_limit, self.model.joint_effort_lower]

    def _launch(
        self,
        launch: Launcher,
        state: State,
        control: Control,
        driven: Control,
        before: list[Arrays],
        after: list[Arrays],
        room: list[Arrays],
    ) -> None:
        launch(
            commands.pass_controls,
            "dof",
            reads=dict(
                dof_axis=launch.views.tree.dof_axis,
                taken=self._taken,
                act=control.joint_act,
                force=control.joint_f,
            ),
            writes=dict(act_out=driven.joint_act, force_out=driven.joint_f),
        )
        inputs = []
        if self.model.tendon_count:
            inputs.append((self._tendon_starts, self._tendons_taken, control.tendon_act, driven.tendon_act))
        if self.model.actuator_count:
            inputs.append((self._input_starts, self._none_taken, control.actuator_ctrl, driven.actuator_ctrl))
        for starts, taken, given, passed in inputs:
            shard = launch.shard.with_starts(starts)
            Launcher(launch.model, record_tape=launch.record_tape, shard=shard)(
                activation.pass_inputs,
                "tendon",
                reads=dict(taken=taken, act=given),
                writes=dict(act_out=passed),
            )
        for group, old, new, own in zip(self.groups.values(), before, after, room):
            group.launch(_over(launch, group), Pass(state, control, driven, old, new, own, self.dt))

    def _check_step(self, dt: float) -> None:
        if abs(dt - self.dt) > 1e-6 * self.dt:
            raise NewtonsimError(f"actuators: created for solver steps of {self.dt:g} s, got {dt:g} s")

    def reset_worlds(self, launch: Launcher, mask: wp.array | None = None) -> None:
        """Reset the memory of the masked worlds among those of a launcher, and draw their delays again.

        Args:
            launch: For these worlds.
            mask: Worlds, bool (world_count,); None for all.
        """
        mask = self._everyone if mask is None else mask
        if self._counts_episodes:
            launch(episodes.count_episodes, "world", reads=dict(mask=mask), writes=dict(episode=self.episode))
        self._draw(launch, mask)
        self._forget(launch, mask)

    def _forget(self, launch: Launcher, mask: wp.array) -> None:
        for group, arrays in zip(self.groups.values(), self._memory):
            over = _over(launch, group)
            for name, array in arrays.items():
                if name == "general":
                    over(
                        activation.start_activations,
                        "actuator",
                        reads=dict(mask=mask, world=group.world, start=group.start),
                        writes=dict(activation=array),
                    )
                    continue
                if name == "count":
                    kernel, written = commands.forget_counts, dict(count=array)
                else:
                    kernel, written = commands.forget_numbers, dict(values=array)
                over(kernel, "actuator", reads=dict(mask=mask, world=group.world), writes=written)

    def _draw(self, launch: Launcher, mask: wp.array) -> None:
        for number, group in enumerate(self.groups.values()):
            span = group.span
            if span.longest > span.low:
                launch(
                    delays.draw_delays,
                    "world",
                    reads=dict(
                        low=span.low,
                        high=span.longest,
                        purpose=_PURPOSE + number,
                        mask=mask,
                        key=self.key,
                        episode=self.episode,
                    ),
                    writes=dict(delay=group.delay),
                )

    def baked_revision(self) -> int:
        """A number that grows whenever graphs with the actuators become out of date."""
        return self.revision + sum(group.revision for group in self.groups.values())


class RecordedPass:
    """The actuators of one step on a tape, which replays may run with other values than it was recorded with.

    Args:
        run: Launches the pass by a launcher.
        model: The model.
        driven: Control for the solver.
        room: Arrays between the stages.

    Attributes:
        driven: Control for the solver.
    """

    def __init__(self, run: Callable[[Launcher], None], model: Model, driven: Control, room: list[Arrays]):
        self._run, self._model, self._room = run, model, room
        self.driven = driven

    def evaluate(self) -> None:
        """Launch it, without a tape."""
        self._run(Launcher(self._model, record_tape=False))

    def reverse(self) -> None:
        """Launch it once more on a tape, and run that back."""
        for arrays in self._room:
            for array in arrays.values():
                fill(array.grad)
        with Tape() as tape:
            self._run(Launcher(self._model, record_tape=True))
        tape.backward()
        for array in (self.driven.joint_act, self.driven.joint_f, self.driven.tendon_act):
            if array is not None:
                fill(array.grad)


def _over(launch: Launcher, group: ActuatorGroup) -> Launcher:
    """Return a launcher for the same worlds that knows the actuators of a group."""
    shard = launch.shard.with_starts(group.ranges)
    return Launcher(launch.model, record_tape=launch.record_tape, shard=shard)
