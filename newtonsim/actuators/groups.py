"""Actuators of one kind in all worlds: their arrays and launches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.actuators.models import PD, PID, Actuator, Delay
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.actuators import commands, feedback, filters, motor
from newtonsim.kernels.actuators import delay as delays
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import JointMode
from newtonsim.scene.revisions import Revised
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

Arrays = dict[str, wp.array]
"""Arrays by name."""


class Sites:
    """Joint axes that one entry of `Actuators` drives, world by world.

    Args:
        name: Pattern of the entry, for messages.
        model: The model.
        chosen: Degrees of freedom; all joints have some with angles or lengths as coordinates, which count.
        dt: Time of a solver step [s].

    Attributes:
        axes: Axes, int (n,).
        dofs: Their degrees of freedom.
        coords: Their coordinates.
        worlds: Their worlds.
    """

    def __init__(self, name: str, model: Model, chosen: list[int], dt: float):
        self.name, self.model, self.dt = name, model, dt
        tree = topology_of(model).view
        axis, coord = tree.dof_axis.numpy(), tree.dof_coord.numpy()
        joint = np.searchsorted(model.joint_qd_start.numpy(), chosen, side="right") - 1
        driven = (axis[chosen] >= 0) & (coord[chosen] >= 0)
        idle = np.setdiff1d(joint, joint[driven])
        if len(idle):
            key = model.joint_key[int(idle[0])]
            raise NewtonsimError(f"actuators {name!r}: joint {key!r} has no angle or length to drive")
        self.dofs = np.array(chosen, np.int32)[driven]
        self.axes, self.coords = axis[self.dofs], coord[self.dofs]
        self.worlds = tree.dof_world.numpy()[self.dofs]
        if model.world_count == 1:
            self.worlds = np.zeros(len(self.dofs), np.int32)
        if np.any(self.worlds < 0) or np.any(np.diff(self.worlds) < 0):
            raise NewtonsimError(f"actuators {name!r}: expected joints of worlds, ordered by world")

    @property
    def starts(self) -> np.ndarray:
        """First actuator of each world and the end, (world_count + 1,)."""
        return np.searchsorted(self.worlds, np.arange(self.model.world_count + 1))

    def fill(self, value: float | None, default: wp.array | None = None) -> wp.array:
        """Return a number for each actuator: a given one, or that of its axis."""
        if value is None and default is not None:
            values = default.numpy()[self.axes]
        else:
            values = np.full(len(self.axes), value)
        model = self.model
        return put(values, dtype=float, device=model.device, requires_grad=model.requires_grad)

    def indices(self, values: np.ndarray) -> wp.array:
        """Return indices on the device."""
        return put(values, dtype=int, device=self.model.device)


@dataclass
class Pass:
    """One evaluation of a group and its arrays; separate ones before and after if a tape needs both.

    Attributes:
        state: State at the start of the solver step.
        control: Commands of users.
        driven: Control for the solver.
        before: Memory of the actuators.
        after: Memory afterwards; the same arrays unless a tape records.
        room: Arrays between the stages.
        dt: Time of the solver step [s].
    """

    state: State
    control: Control
    driven: Control
    before: Arrays
    after: Arrays
    room: Arrays
    dt: float

    @property
    def copies(self) -> int:
        """1 if memory moves to other arrays, else 0."""
        return int(self.before is not self.after)


class ActuatorGroup(Revised, ABC):
    """The actuators of one entry.

    Attributes:
        name: Pattern of the entry.
        count: Number of them in all worlds.
        span: Range of delays that are drawn.
        ranges: First actuator of each world and the end, by kind of index, see `Shard`.
        axis: Axis of each, int (count,).
        dof: Degree of freedom.
        coord: Coordinate.
        world: World.
        delay: Delay of each world [s], (world_count,); random ones are drawn again when worlds restart.
        time_constant: Time constant of the activation [s], (count,); None without one.
        speeds: Speeds of the torque-speed curve [rad/s or m/s], None without one.
        torques: Torques of the torque-speed curve [N m or N], None without one.
        start: What activations by MuJoCo's dynamics, the memory "general", start with, (count,).
    """

    def __init__(self, model: Actuator, sites: Sites):
        self.name, self.ranges = sites.name, {"actuator": sites.starts}
        self.count = len(sites.axes)
        self.axis, self.dof, self.coord = map(sites.indices, (sites.axes, sites.dofs, sites.coords))
        self.world = sites.indices(sites.worlds)
        self._requires_grad, self._device = sites.model.requires_grad, sites.model.device
        span: Delay = model.delay  # pyright: ignore[reportAssignmentType]
        self.span = span
        worlds = sites.model.world_count
        self.delay = put(
            np.full(worlds, span.low), dtype=float, device=self._device, requires_grad=self._requires_grad
        )
        self._ring = int(np.ceil(span.longest / sites.dt - 1e-6)) + 2 if span.longest > 0.0 else 0
        self.time_constant = sites.fill(model.activation) if model.activation > 0.0 else None
        self.start = zeros(self.count, dtype=float, device=self._device)
        curve, grad = model.motor, self._requires_grad
        self.speeds = None if curve is None else put(curve.speeds, float, self._device, grad)
        self.torques = None if curve is None else put(curve.torques, float, self._device, grad)

    def memory(self) -> dict[str, int]:
        """Memory from step to step: number of values of each actuator, by name."""
        found = {"ring": self._ring, "activation": int(self.time_constant is not None)}
        return {name: size for name, size in found.items() if size}

    def rooms(self) -> dict[str, int]:
        """Number of values of each actuator that stages pass on, by name."""
        return {"command": 1, "delayed": 1, "activated": 1, "effort": 1, "limited": 1, "applied": 1}

    def new_memory(self, requires_grad: bool) -> Arrays:
        """Return the actuators' memory before the first step."""
        arrays = {
            name: self._zeros((self.count, size), requires_grad) for name, size in self.memory().items()
        }
        if arrays:
            arrays["count"] = zeros(self.count, dtype=int, device=self._device)
        return arrays

    def new_room(self, requires_grad: bool) -> Arrays:
        """Return buffers for what stages pass on."""
        return {
            name: self._zeros(self.count if size == 1 else (self.count, size), requires_grad)
            for name, size in self.rooms().items()
        }

    def _zeros(self, shape: int | tuple[int, ...], requires_grad: bool) -> wp.array:
        return zeros(shape, dtype=float, device=self._device, requires_grad=requires_grad)

    def commands_of(self, control: Control) -> wp.array:
        """Array of a control with the commands, by `axis`."""
        return control.joint_act

    def launch(self, launch: Launcher, p: Pass) -> None:
        """Launch all stages for the worlds of a launcher that has the kind "actuator"."""
        launch(
            commands.take_commands,
            "actuator",
            reads=dict(axis=self.axis, act=self.commands_of(p.control)),
            writes=dict(command=p.room["command"]),
        )
        command = p.room["command"]
        if self._ring:
            command = self._launch_delay(launch, p, command)
        if self.time_constant is not None:
            command = self._launch_activation(launch, p, command)
        self.launch_law(launch, p, command)
        if "count" in p.before:
            launch(
                commands.count_commands,
                "actuator",
                reads=dict(count=p.before["count"]),
                writes=dict(count_out=p.after["count"]),
            )

    def _launch_delay(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        launch(
            delays.delay_commands,
            "actuator",
            reads=dict(
                world=self.world,
                delay=self.delay,
                dt=p.dt,
                copies=p.copies,
                command=command,
                count=p.before["count"],
                ring=p.before["ring"],
            ),
            writes=dict(ring_out=p.after["ring"], delayed=p.room["delayed"]),
        )
        return p.room["delayed"]

    def _launch_activation(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        launch(
            filters.activate_commands,
            "actuator",
            reads=dict(
                time_constant=self.time_constant,
                dt=p.dt,
                command=command,
                count=p.before["count"],
                activation=p.before["activation"],
            ),
            writes=dict(activation_out=p.after["activation"], activated=p.room["activated"]),
        )
        return p.room["activated"]

    @abstractmethod
    def launch_law(self, launch: Launcher, p: Pass, command: wp.array) -> None:
        """Launch the law that processes the command."""


class DriveGroup(ActuatorGroup):
    """Actuators that pass commands to the solver's drives."""

    def launch_law(self, launch: Launcher, p: Pass, command: wp.array) -> None:
        """See `ActuatorGroup.launch_law`."""
        launch(
            commands.pass_targets,
            "actuator",
            reads=dict(axis=self.axis, dof=self.dof, command=command, force=p.control.joint_f),
            writes=dict(act_out=p.driven.joint_act, force_out=p.driven.joint_f),
        )


class EffortGroup(ActuatorGroup):
    """Actuators that compute an effort; the solver's drives are switched off for their axes."""

    def __init__(self, model: Actuator, sites: Sites):
        super().__init__(model, sites)
        self._owner = sites.model
        self._take_axes(sites.model, sites.axes)

    def _take_axes(self, model: Model, axes: np.ndarray) -> None:
        """Switch off drives: the effort is a force on the joint, with any solver."""
        for name, value in (
            ("joint_axis_mode", int(JointMode.TARGET_POSITION)),
            ("joint_target_ke", 0.0),
            ("joint_target_kd", 0.0),
        ):
            array = getattr(model, name)
            values = array.numpy().copy()
            values[axes] = value
            array.assign(values)

    def launch_law(self, launch: Launcher, p: Pass, command: wp.array) -> None:
        """See `ActuatorGroup.launch_law`."""
        effort = self.launch_effort(launch, p, command)
        if self.speeds is not None:
            launch(
                motor.saturate_motors,
                "actuator",
                reads=dict(
                    dof=self.dof,
                    speeds=self.speeds,
                    torques=self.torques,
                    qd=p.state.joint_qd,
                    wanted=effort,
                ),
                writes=dict(effort=p.room["limited"]),
            )
            effort = p.room["limited"]
        launch(
            commands.add_efforts,
            "actuator",
            reads=dict(
                axis=self.axis,
                dof=self.dof,
                limit=self._owner.joint_effort_limit,
                lower=self._owner.joint_effort_lower,
                effort=effort,
                act=p.control.joint_act,
                force=p.control.joint_f,
            ),
            writes=dict(applied=p.room["applied"], act_out=p.driven.joint_act, force_out=p.driven.joint_f),
        )

    def launch_effort(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        """Launch kernels that turn a command into an effort, and return its array."""
        return command


class PDGroup(EffortGroup):
    """PD control.

    Attributes:
        stiffness: kp [N m/rad or N/m], (count,).
        damping: kd [N m s/rad or N s/m], (count,).
    """

    def __init__(self, model: PD, sites: Sites):
        # the gains of the drives, before these are switched off
        self.stiffness = sites.fill(model.stiffness, sites.model.joint_target_ke)
        self.damping = sites.fill(model.damping, sites.model.joint_target_kd)
        super().__init__(model, sites)

    def launch_effort(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        """See `EffortGroup.launch_effort`."""
        launch(
            feedback.apply_pd,
            "actuator",
            reads=dict(
                coord=self.coord,
                dof=self.dof,
                stiffness=self.stiffness,
                damping=self.damping,
                q=p.state.joint_q,
                qd=p.state.joint_qd,
                target=command,
            ),
            writes=dict(effort=p.room["effort"]),
        )
        return p.room["effort"]


class PIDGroup(PDGroup):
    """PID control.

    Attributes:
        integral_gain: ki [N m/(rad s) or N/(m s)], (count,).
        integral_limit: Largest effort of the integral [N m or N], (count,).
    """

    def __init__(self, model: PID, sites: Sites):
        super().__init__(model, sites)
        self.integral_gain = sites.fill(model.integral)
        self.integral_limit = sites.fill(model.integral_limit)

    def memory(self) -> dict[str, int]:
        """See `ActuatorGroup.memory`."""
        return {**super().memory(), "integral": 1}

    def launch_effort(self, launch: Launcher, p: Pass, command: wp.array) -> wp.array:
        """See `EffortGroup.launch_effort`."""
        launch(
            feedback.apply_pid,
            "actuator",
            reads=dict(
                coord=self.coord,
                dof=self.dof,
                stiffness=self.stiffness,
                damping=self.damping,
                integral_gain=self.integral_gain,
                integral_limit=self.integral_limit,
                dt=p.dt,
                q=p.state.joint_q,
                qd=p.state.joint_qd,
                target=command,
                integral=p.before["integral"],
            ),
            writes=dict(integral_out=p.after["integral"], effort=p.room["effort"]),
        )
        return p.room["effort"]
