"""Moves states and inputs between a model's arrays and MuJoCo's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.mujoco import state as mujoco_state
from newtonsim.runtime.capture import Recording, collect
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.state import State
from newtonsim.solvers.mujoco.convert import Conversion

if TYPE_CHECKING:
    import mujoco

_KEPT = 8
"""Sets of launches that are kept: two of each step, with room for states that take turns."""
_STATE_FIELDS = ("qpos", "qvel")
_INPUT_FIELDS = ("ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "eq_active")


class HostArrays:
    """Arrays like those of mujoco_warp's Data, on the model's device, for data of MuJoCo on the host.

    Args:
        conversion: The conversion; the arrays have one row for each of MuJoCo's worlds.
    """

    def __init__(self, conversion: Conversion):
        model, rows, device = conversion.mj_model, conversion.rows, conversion.model.device

        def room(columns: int, dtype: type = float) -> wp.array:
            return wp.zeros((rows, columns), dtype=dtype, device=device)

        self.qpos, self.qvel = room(model.nq), room(model.nv)
        self.ctrl, self.qfrc_applied = room(model.nu), room(model.nv)
        self.xfrc_applied = room(model.nbody, wp.spatial_vector)
        self.mocap_pos, self.mocap_quat = room(model.nmocap, wp.vec3), room(model.nmocap, wp.quat)
        self.eq_active = room(model.neq, bool)
        self.eq_active.assign(np.tile(model.eq_active0.astype(bool), (rows, 1)))

    def push(self, datas: Sequence[mujoco.MjData], exact: ExactStates | None) -> None:
        """Copy the rows to data of MuJoCo; positions and velocities only if these are given."""
        if exact is not None:
            exact.apply(self, datas)
        for name in _INPUT_FIELDS:
            values = getattr(self, name).numpy()
            if values.size:
                for row, data in enumerate(datas):
                    target = getattr(data, name)
                    target[...] = values[row].reshape(target.shape)

    def pull(self, datas: Sequence[mujoco.MjData]) -> None:
        """Copy positions and velocities from data of MuJoCo."""
        with np.errstate(over="ignore"):  # what overflows is told by the solver's report
            for name in _STATE_FIELDS:
                array = getattr(self, name)
                if array.size:
                    array.assign(np.stack([getattr(data, name) for data in datas]).astype(np.float32))


class ExactStates:
    """Positions and velocities of MuJoCo on the host, which are in double precision.

    A state holds them rounded to single precision. Rows that it holds as the last step left them go on from
    what MuJoCo had; the others start from the state.

    Args:
        conversion: The conversion.

    Attributes:
        coords: Joint coordinates as the last step left them, (joint_coord_count,).
        velocities: Joint velocities, likewise (joint_dof_count,).
    """

    def __init__(self, conversion: Conversion):
        model = conversion.model
        self.coords = np.full(model.joint_coord_count, np.nan, np.float32)
        self.velocities = np.full(model.joint_dof_count, np.nan, np.float32)
        self._model, self._rows = model, conversion.rows
        self._own: dict[str, np.ndarray] = {}
        self._changed, self._revision = np.ones(conversion.rows, bool), -1
        if model.joint_dof_count:
            row = conversion.view.joint_row.numpy()
            starts = (model.joint_q_start.numpy(), model.joint_qd_start.numpy())
            self._coord_row, self._dof_row = (np.repeat(row, np.diff(start)) for start in starts)

    def compare(self, state: State) -> None:
        """Find the rows in which a state, or the model that it is one of, is not what the last step left."""
        self._changed[:] = self._revision != self._model.revision
        if self._model.joint_dof_count:
            self._changed[self._coord_row[state.joint_q.numpy() != self.coords]] = True
            self._changed[self._dof_row[state.joint_qd.numpy() != self.velocities]] = True

    def apply(self, rounded: HostArrays, datas: Sequence[mujoco.MjData]) -> None:
        """Write positions and velocities to data of MuJoCo."""
        for name in _STATE_FIELDS:
            values = getattr(rounded, name).numpy()
            for row, data in enumerate(datas):
                exact = not self._changed[row] and name in self._own
                getattr(data, name)[...] = self._own[name][row] if exact else values[row]

    def forget(self, mask: np.ndarray) -> None:
        """Let masked rows start from what the state holds, mask (rows,)."""
        if self._model.joint_dof_count:
            self.coords[mask[self._coord_row]] = np.nan
            self.velocities[mask[self._dof_row]] = np.nan

    def keep(self, datas: Sequence[mujoco.MjData], state: State) -> None:
        """Take what MuJoCo has now, and how a state holds it."""
        self.take(datas)
        if self._model.joint_dof_count:
            self.coords[:], self.velocities[:] = state.joint_q.numpy(), state.joint_qd.numpy()

    def take(self, datas: Sequence[mujoco.MjData]) -> None:
        """Take what MuJoCo has now, which the state holds as `coords` and `velocities` say."""
        for name in _STATE_FIELDS:
            self._own[name] = np.stack([getattr(data, name) for data in datas])
        self._revision = self._model.revision


class Replays:
    """Makes the launches of host steps, which cost more than MuJoCo's step of a small world, at little cost.

    On the CPU they are kept packed when they are asked for a second time with the same arrays.

    Args:
        device: Where they run.
    """

    def __init__(self, device: wp.Device):
        self._on_cpu = device.is_cpu
        self._kept: dict[tuple, Recording | None] = {}

    def __call__(self, key: tuple, run: Callable[[], None]) -> None:
        """Make launches.

        Args:
            key: Equal only if the launches are; what it holds is kept for a while.
            run: Makes them, by `Launcher` alone.
        """
        replay = self._kept.get(key)
        if replay is not None:
            replay.once()
            return
        run()
        if self._on_cpu:
            if key in self._kept:
                self._kept[key] = collect(run)
            else:
                self._kept[key] = None
                if len(self._kept) > _KEPT:
                    del self._kept[next(iter(self._kept))]


class Transfer:
    """Launches the kernels that move states and inputs of one conversion.

    Args:
        conversion: The conversion.
    """

    def __init__(self, conversion: Conversion):
        self.conversion = conversion
        self.model = conversion.model
        self._has_parts = bool((conversion.view.body_part_of.numpy() >= 0).any())
        self._starts = {
            "constraint": [0, self.model.constraint_count],
            "tendon": [0, self.model.tendon_count],
            "actuator": [0, self.model.actuator_count],
            "once": [0, 1],
            "row": [0, conversion.rows],
        }

    def launcher(self) -> Launcher:
        """A launcher that knows the kinds of index used here."""
        return Launcher(self.model, record_tape=False, shard=Shard(self.model).with_starts(self._starts))

    def write_state(self, launch: Launcher, state: State, data: object) -> None:
        """Write joint coordinates and velocities to data of mujoco_warp, or to `HostArrays`."""
        if self.model.joint_dof_count:
            launch(
                mujoco_state.write_joints,
                "joint",
                reads=dict(
                    joint=launch.views.joint,
                    com=self.model.body_com,
                    view=self.conversion.view,
                    q=state.joint_q,
                    qd=state.joint_qd,
                ),
                writes=dict(qpos=data.qpos, qvel=data.qvel),
            )

    def write_control(self, launch: Launcher, state: State, control: Control, data: object) -> None:
        """Write controls and generalised forces; the state says where free and ball joints point."""
        if self.model.joint_dof_count:
            launch(
                mujoco_state.write_inputs,
                "joint",
                reads=dict(
                    joint=launch.views.joint,
                    com=self.model.body_com,
                    view=self.conversion.view,
                    q=state.joint_q,
                    act=control.joint_act,
                    f=control.joint_f,
                ),
                writes=dict(ctrl=data.ctrl, qfrc_applied=data.qfrc_applied),
            )
        view = self.conversion.view
        for kind, row, place, inputs in (
            ("tendon", view.tendon_row, view.tendon_ctrl, control.tendon_act),
            ("actuator", view.actuator_row, view.actuator_ctrl, control.actuator_ctrl),
        ):
            if inputs is not None:
                launch(
                    mujoco_state.write_controls,
                    kind,
                    reads=dict(row=row, place=place, act=inputs),
                    writes=dict(ctrl=data.ctrl),
                )

    def write_bodies(self, launch: Launcher, state: State, data: object) -> None:
        """Write external forces and the poses of bodies without joints."""
        if self.model.body_count:
            launch(
                mujoco_state.write_bodies,
                "body",
                reads=dict(view=self.conversion.view, body_q=state.body_q, body_f=state.body_f),
                writes=dict(
                    mocap_pos=data.mocap_pos, mocap_quat=data.mocap_quat, xfrc_applied=data.xfrc_applied
                ),
            )
        if self._has_parts:
            launch(
                mujoco_state.add_parts,
                "body",
                reads=dict(
                    view=self.conversion.view,
                    com=self.model.body_com,
                    body_q=state.body_q,
                    body_f=state.body_f,
                ),
                writes=dict(xfrc_applied=data.xfrc_applied),
            )

    def write_constraints(self, launch: Launcher, data: object) -> None:
        """Write which constraints act."""
        launch(
            mujoco_state.write_constraints,
            "constraint",
            reads=dict(view=self.conversion.view, enabled=self.model.constraint_enabled),
            writes=dict(eq_active=data.eq_active),
        )

    def write_options(self, launch: Launcher, dt: float, option: object) -> None:
        """Write time step and gravity to the options of a model of mujoco_warp."""
        launch(
            mujoco_state.write_options,
            "row",
            reads=dict(gravity=self.model.gravity_vec, dt=dt),
            writes=dict(timestep=option.timestep, opt_gravity=option.gravity),
        )

    def read_state(self, launch: Launcher, data: object, state: State) -> None:
        """Read joint coordinates and velocities from data of mujoco_warp, or from `HostArrays`."""
        if self.model.joint_dof_count:
            launch(
                mujoco_state.read_joints,
                "joint",
                reads=dict(
                    joint=launch.views.joint,
                    com=self.model.body_com,
                    view=self.conversion.view,
                    qpos=data.qpos,
                    qvel=data.qvel,
                ),
                writes=dict(q=state.joint_q, qd=state.joint_qd),
            )
