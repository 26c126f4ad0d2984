"""MuJoCo's activation dynamics in front of the drives of joints and tendons, and those of MJCF files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.actuators.groups import ActuatorGroup, Pass, Sites
from newtonsim.actuators.models import Actuator, check_number
from newtonsim.actuators.patterns import Key, as_pattern
from newtonsim.dynamics.tendon_paths import tendon_worlds
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.actuators import activation, commands
from newtonsim.runtime.launcher import Launcher

if TYPE_CHECKING:
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model

DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")
"""Kinds of dynamics, by their numbers in kernels."""

_ANY = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class Dynamic(Actuator):
    """Base of actuators with MuJoCo's activation dynamics; for the attributes see `General` and `Activation`.

    Raises:
        NewtonsimError: A number is out of range.
    """

    dynamics: str = "none"
    time_constant: float = 1.0
    release: float = 1.0
    smoothing: float = 0.0
    control_range: tuple[float, float] = _ANY
    activation_range: tuple[float, float] = _ANY
    early: bool = False
    initial: float | tuple[float, ...] | None = None
    start: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dynamics not in DYNAMICS:
            known = ", ".join(DYNAMICS)
            raise NewtonsimError(f"dynamics: there is no {self.dynamics!r}; there are {known}")
        check_number("time_constant", self.time_constant, strict=True)
        check_number("release", self.release, strict=True)
        check_number("smoothing", self.smoothing)
        for name in ("initial", "start"):
            value = getattr(self, name)
            for number in () if value is None else np.ravel(value).tolist():
                check_number(name, number, -math.inf)
        for name in ("control_range", "activation_range"):
            self._check_range(name)

    def _check_range(self, name: str) -> None:
        low, high = getattr(self, name)
        if not low <= high:
            raise NewtonsimError(f"{name}: expected (low, high), got {(low, high)}")


@dataclass(frozen=True, kw_only=True)
class Activation(Dynamic):
    """MuJoCo's activation in front of the drive of a joint, or of the drive or the muscle of a tendon.

    Its command is MuJoCo's `ctrl`; what the drive gets is `scale` a + `offset`, where a is an activation that
    follows the control from where it starts. The drive is that of the model, implicit and stable at any gain.
    `general_actuators` and `tendon_actuators` make them from an MJCF file.

    Source: MuJoCo's documentation, "Computation: Actuation model" and "Modeling: Muscles".

    Attributes:
        dynamics: "none", "integrator", "filter", "filterexact" or "muscle", as `dyntype`.
        time_constant: Time constant of the filters, and of a muscle's rising activation [s].
        release: Time constant of a muscle's falling activation [s].
        smoothing: Width of the band of controls in which one of these blends into the other.
        control_range: Smallest and largest control.
        activation_range: Smallest and largest activation.
        early: Whether the activation at the end of a step acts in it, as `actearly`.
        initial: Initial control, which `Actuators` writes into the model, or one for each pattern of the
            key of `Actuators`; None leaves that of the model.
        start: Activation of worlds that start, likewise.
        scale, offset: What the drive gets of an activation.
        drive_range: Least and most that the drive gets: the range of the force where the drive is a motor.
    """

    dynamics: str = "muscle"
    time_constant: float = 0.01
    release: float = 0.04
    scale: float = 1.0
    offset: float = 0.0
    drive_range: tuple[float, float] = _ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale, -math.inf)
        check_number("offset", self.offset, -math.inf)
        self._check_range("drive_range")
        if self.motor is not None:
            raise NewtonsimError("Activation: a torque-speed curve needs an effort, and this has a drive")


def activation_view(model: Dynamic, sites: Sites) -> activation.ActivationView:
    """Return what kernels need of an activation."""
    view = activation.ActivationView()
    view.time_constant, view.release = sites.fill(model.time_constant), sites.fill(model.release)
    view.smoothing, view.dynamics = model.smoothing, DYNAMICS.index(model.dynamics)
    view.early, view.control = int(model.early), wp.vec2(*model.control_range)
    view.range = wp.vec2(*model.activation_range)
    return view


class TendonSites(Sites):
    """Tendons that one entry of `Actuators` drives, world by world.

    Args:
        name: Pattern of the entry, for messages.
        model: The model.
        tendons: The tendons.
        dt: Time of a solver step [s].

    Attributes:
        axes, dofs, coords: The tendons, int (n,).
        worlds: Their worlds.
    """

    def __init__(self, name: str, model: Model, tendons: list[int], dt: float):
        self.name, self.model, self.dt = name, model, dt
        worlds = tendon_worlds(model)[tendons]
        order = np.argsort(worlds, kind="stable")
        self.axes = self.dofs = self.coords = np.array(tendons, np.int32)[order]
        self.worlds = worlds[order].astype(np.int32)


class ActivationGroup(ActuatorGroup):
    """Activations of joint axes.

    Attributes:
        view: How they follow controls; `time_constant` and `release` have an entry for each, (count,).
    """

    def __init__(self, model: Activation, sites: Sites):
        super().__init__(model, sites)
        self.view, self._scale, self._offset = activation_view(model, sites), model.scale, model.offset
        self._bound = wp.vec2(*model.drive_range)

    def memory(self) -> dict[str, int]:
        """See `ActuatorGroup.memory`."""
        found = super().memory()
        return {**found, "general": 1} if self.view.dynamics else found

    def rooms(self) -> dict[str, int]:
        """See `ActuatorGroup.rooms`."""
        return {**super().rooms(), "general": 2}

    def launch_law(self, launch: Launcher, p: Pass, command: wp.array) -> None:
        """See `ActuatorGroup.launch_law`."""
        self._activate(launch, p, command, p.driven.joint_act)
        launch(
            commands.pass_forces,
            "actuator",
            reads=dict(dof=self.dof, force=p.control.joint_f),
            writes=dict(force_out=p.driven.joint_f),
        )

    def _activate(self, launch: Launcher, p: Pass, command: wp.array, inputs: wp.array) -> None:
        """Launch the activations, which write the inputs of drives."""
        before, after = (p.before, p.after) if self.view.dynamics else (p.room, p.room)
        launch(
            activation.activate_drives,
            "actuator",
            reads=dict(
                view=self.view,
                drive=self.axis,
                scale=self._scale,
                offset=self._offset,
                bound=self._bound,
                dt=p.dt,
                command=command,
                activation=before["general"],
            ),
            writes=dict(activation_out=after["general"], act_out=inputs),
        )


class TendonActivationGroup(ActivationGroup):
    """Activations of tendons."""

    def commands_of(self, control: Control) -> wp.array:
        """See `ActuatorGroup.commands_of`."""
        return control.tendon_act

    def launch_law(self, launch: Launcher, p: Pass, command: wp.array) -> None:
        """See `ActuatorGroup.launch_law`."""
        self._activate(launch, p, command, p.driven.tendon_act)


def tendon_actuators(
    actuators: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str | tuple[str, ...], Activation]:
    """Return the actuators of the tendons of an MJCF file, for the `tendons` of `Actuators`.

    They add the activation dynamics and the range of the control. `Control.tendon_act` then holds MuJoCo's
    `ctrl`, except on tendons with several actuators, which keep the input of their drive.

    Args:
        actuators: `ImportReport.actuators` of `parse_mjcf`.
        names: `Model.tendon_key`.
    """
    found = [entry for entry in actuators if entry["activation"] is not None and entry["tendon"] is not None]
    return {as_pattern(names[int(entry["tendon"])]): Activation(**entry["activation"]) for entry in found}


def set_initial(
    controls: wp.array,
    group: ActuatorGroup,
    entry: Actuator,
    key: Key,
    places_of: Callable[[Any], Any],
) -> None:
    """Write what an entry of `Actuators` starts with: controls into the model, activations into the group.

    Args:
        controls: `Model.joint_act` or `Model.tendon_act`, in place.
        group: The actuators of the entry.
        entry: The entry; one that says nothing leaves the controls.
        key: Its key.
        places_of: Returns the places in `controls` of a pattern of the key.

    Raises:
        NewtonsimError: The entry has as many initial values as the key has no patterns.
    """
    if not isinstance(entry, Dynamic):
        return
    patterns = key if isinstance(key, tuple) else (key,)
    for name in ("initial", "start"):
        given = getattr(entry, name)
        if given is None:
            continue
        if np.size(given) not in (1, len(patterns)):
            wanted = f"one number, or one for each of {len(patterns)} patterns"
            raise NewtonsimError(f"actuators {key!r}: {name}: expected {wanted}, got {given}")
        values = controls.numpy().copy()
        for pattern, value in zip(patterns, np.broadcast_to(given, len(patterns)), strict=True):
            values[places_of(pattern)] = value
        if name == "initial":
            controls.assign(values)
        else:
            axes: np.ndarray = group.axis.numpy()
            group.start.assign(values[axes])
