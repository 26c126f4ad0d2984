"""Adapter that steps a model by MuJoCo or mujoco_warp."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.errors import ModelError
from newtonsim.kernels.mujoco import state as mujoco_state
from newtonsim.kinematics import eval_fk as evaluate_fk
from newtonsim.runtime import compilation
from newtonsim.runtime.launcher import Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model, check_model
from newtonsim.scene.state import State
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.gravity_shares import Shares
from newtonsim.solvers.kinematic_bodies import move_kinematic_bodies
from newtonsim.solvers.mujoco.checks import (
    warn_of_stiff_drives,
    warn_of_unstable_worlds,
    warn_of_what_warp_ignores,
)
from newtonsim.solvers.mujoco.contacts import GivenContacts
from newtonsim.solvers.mujoco.contacts import supported as takes_contacts
from newtonsim.solvers.mujoco.convert import Conversion, conversion_of, convert, remember
from newtonsim.solvers.mujoco.options import ElementArgs, MujocoOptions
from newtonsim.solvers.mujoco.transfer import ExactStates, HostArrays, Replays, Transfer
from newtonsim.solvers.option_ranges import check_counts

if TYPE_CHECKING:
    import mujoco
    import mujoco_warp

    from newtonsim.scene.snapshot import HostValues

_INSTALL = "pip install 'newtonsim[mujoco]'"


class MuJoCoSolver(SolverBase):
    """Steps a model with the MuJoCo physics engine, on the host or with mujoco_warp on the model's device.

    A step reads `joint_q`, `joint_qd` and `body_f` of the state (and the poses of bodies without joints),
    `joint_act`, `joint_f`, `tendon_act` and `actuator_ctrl` of the control, and of the model `gravity` and
    `constraint_enabled`; it writes joint coordinates and body poses that agree with each other. The rest of
    the model is converted when the solver is created: after a change of masses, gains, friction or shapes,
    create a new one.

    Joints keep their names and become MuJoCo's free, ball, hinge and slide joints, several of them if a joint
    has several axes; drives are actuators named after their joints, with effort limits as force ranges, and
    actuators of the model remain what they are, with their activations; loop
    joints, couplings and mimic joints are equalities, distances are limits of tendons. Collision groups and
    filter pairs become contact bits, excluded bodies and explicit pairs. A body without joint is a mocap
    body, which contacts treat as at rest: bodies that it pushes lag behind by 2 solref[0] times its speed.

    MuJoCo finds the contacts itself, unless a step is given those of `collide`, of which it uses the ones
    that overlap. Both are soft as in MuJoCo, by `geom_solref` and `geom_solimp`; of a contact's two
    coefficients of friction the larger one is used.

    With `use_mujoco=True` the step runs on the host, one MjData for each world, and cannot be captured into
    a graph; a Simulator can still step it.

    Not supported: gradients; restitution, ke, kd, kf and ka of materials; `joint_limit_ke`, `joint_limit_kd`,
    `joint_velocity_limit`, joint compliances and `joint_enabled`. Meshes collide as their convex hulls, cones
    as meshes of 32 sides. Refused with a ModelError that names the element: particles and what connects them,
    muscles, signed distance fields, finite planes, swing and twist limits of a ball joint that differ,
    constraints with a largest force or compliance, loops with sliding axes, two turning axes or limits.

    Args:
        model: The model to simulate.
        mjw_model: A model of mujoco_warp that `convert_to_mjc` created from `model`, or with `use_mujoco` one
            of MuJoCo; None to convert.
        mjw_data: Its data, likewise.
        separate_envs_to_worlds: Whether each world becomes a world of MuJoCo's, for which they must be copies
            of each other at different places; if not, one of MuJoCo's worlds contains them all. None for
            True.
        nefc_per_env: Capacity for constraint rows of each world of mujoco_warp; a warning says when it is too
            small.
        ncon_per_env: Room for contacts, likewise; None to leave it to mujoco_warp.
        iterations: Iterations of the constraint solver.
        ls_iterations: Iterations of its line search.
        solver: "cg", "newton" or "pgs" (not in mujoco_warp), or MuJoCo's number of it.
        integrator: "euler", "rk4", "implicit" or "implicitfast", or MuJoCo's number of it.
        use_mujoco: Whether MuJoCo steps on the host instead of mujoco_warp on the device.
        disable_contacts: Whether there are no contacts.
        register_collision_groups: Whether collision groups, flags and filter pairs of the model count; if
            not, all shapes touch but those of neighbours in the tree.
        joint_damping: Damping of joint axes for which the model has none [N m s/rad or N s/m].
        default_actuator_gear: Transmission ratio of drives, as MuJoCo's `gear`; None for 1.
        actuator_gears: Transmission ratios by name of the joint.
        update_data_every: Number of steps between copies of the state to MuJoCo; 0 for a copy before the
            first step only. With values other than 1 the step cannot be captured into a graph.
        save_to_mjcf: File name to write the converted model to; None for none.
        **options: Further fields of `MujocoOptions`, such as cone, tolerance, geom_solref.

    Attributes:
        conversion: How the model's elements were converted, see `solvers.mujoco.convert.Conversion`.
        mj_model: MuJoCo's model of one of its worlds.
        mj_datas: MuJoCo's data of each world, if `use_mujoco`.
        mjw_model: mujoco_warp's model, None if `use_mujoco`.
        mjw_data: mujoco_warp's data, likewise.

    Raises:
        ModelError: MuJoCo cannot represent the model.
        ImportError: mujoco, or mujoco_warp, is not installed.
    """

    options_of = MujocoOptions
    reads_model = False

    def __init__(
        self,
        model: Model,
        *,
        mjw_model: object | None = None,
        mjw_data: object | None = None,
        separate_envs_to_worlds: bool | None = None,
        nefc_per_env: int = 100,
        ncon_per_env: int | None = None,
        iterations: int = 20,
        ls_iterations: int = 10,
        solver: int | str = "cg",
        integrator: int | str = "euler",
        use_mujoco: bool = False,
        disable_contacts: bool = False,
        register_collision_groups: bool = True,
        joint_damping: float = 0.05,
        default_actuator_gear: float | None = None,
        actuator_gears: Mapping[str, float] | None = None,
        update_data_every: int = 1,
        save_to_mjcf: str | None = None,
        **options: Any,
    ):
        check_model(model)
        super().__init__(model)
        self.update_data_every = update_data_every
        check_counts(self, ("update_data_every",), 0)
        settings = MujocoOptions(
            separate_envs_to_worlds=True if separate_envs_to_worlds is None else separate_envs_to_worlds,
            nefc_per_env=nefc_per_env,
            ncon_per_env=ncon_per_env,
            iterations=iterations,
            ls_iterations=ls_iterations,
            solver=solver,
            integrator=integrator,
            register_collision_groups=register_collision_groups,
            default_joint_damping=joint_damping,
            default_actuator_gear=default_actuator_gear,
            actuator_gears=actuator_gears,
            **{"add_axes": False, **options},
        )
        if disable_contacts:
            settings.disableflags |= int(_mujoco().mjtDisableBit.mjDSBL_CONTACT)
        if use_mujoco:
            # otherwise MuJoCo would put a world that blows up back to its start
            settings.disableflags |= int(_mujoco().mjtDisableBit.mjDSBL_AUTORESET)
        self.use_mujoco = use_mujoco
        self.steps_on_host = use_mujoco or update_data_every != 1
        self.conversion = self._convert(mjw_model, mjw_data, settings)
        self.mj_model = self.conversion.mj_model
        self.mjw_model = self.mjw_data = self._host = None
        self.mj_datas: list[mujoco.MjData] = []
        if use_mujoco:
            datas = [_mujoco().MjData(self.mj_model) for _ in range(self.conversion.rows)]
            self.mj_datas = datas if mjw_data is None else [mjw_data, *datas[1:]]
            self._host, self._exact = HostArrays(self.conversion), ExactStates(self.conversion)
        elif mjw_model is not None:
            self.mjw_model, self.mjw_data = mjw_model, mjw_data
        else:
            warn_of_what_warp_ignores(self.mj_model)
            self.mjw_model, self.mjw_data = _to_warp(self.conversion, settings)
        if save_to_mjcf is not None:
            _save(self.conversion, save_to_mjcf)
        self._transfer = Transfer(self.conversion)
        self._replays = Replays(model.device)
        self._motion = Motion(model, forces=False)
        self._default_control = model.control(clone_variables=False)
        # in lists, since a replaced attribute would have graphs captured anew
        self._steps = [0]
        self._given: list[GivenContacts] = []
        self._overflow = [0]
        self._unstable: set[int] = set()
        self._checked_dt: list[float] = []

    def _convert(
        self, mjw_model: object | None, mjw_data: object | None, settings: MujocoOptions
    ) -> Conversion:
        """Convert the model, or find the conversion of a given one."""
        if mjw_model is None and mjw_data is None:
            return convert(self.model, settings)
        if mjw_model is None or mjw_data is None:
            raise ValueError("mjw_model and mjw_data: give both or neither")
        conversion = conversion_of(self.model, mjw_model)
        if conversion_of(self.model, mjw_data) is not conversion:
            raise ModelError("mjw_data: it does not belong to mjw_model")
        mujoco = _mujoco()
        given = (mujoco.MjModel, mujoco.MjData)
        for name, thing, kind in zip(("mjw_model", "mjw_data"), (mjw_model, mjw_data), given):
            if isinstance(thing, kind) != self.use_mujoco:
                raise ModelError(f"{name}: {type(thing).__name__} does not fit use_mujoco={self.use_mujoco}")
        return conversion

    @property
    def mj_data(self) -> mujoco.MjData | None:
        """MuJoCo's data of the first world, None unless `use_mujoco`."""
        return self.mj_datas[0] if self.mj_datas else None

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; see `SolverBase.step`.

        Args:
            model: The solver's model.
            state_in: State at the start of the step.
            state_out: State at its end; may be `state_in`.
            control: Inputs; None for those of the model.
            contacts: Contacts that `collide` found at the start; None to let MuJoCo find its own.
            dt: Time step [s].

        Raises:
            ValueError: The model is not the solver's, or the integrator takes no contacts from outside.
            NotDifferentiableError: A tape records a step with gradients.
        """
        self.check_model(model)
        control = self.check_step(model, state_in, state_out, control, self._default_control, contacts, dt)
        self._refuse_gradient(state_in, control)
        contacts = contacts if self._takes(contacts) else None
        if dt not in self._checked_dt:
            self._checked_dt[:] = [dt]
            warn_of_stiff_drives(self.mj_model, dt)
        check_counts(self, ("update_data_every",), 0)
        every, taken = self.update_data_every, self._steps[0]
        writes = taken == 0 if every == 0 else taken % every == 0
        self._steps[0] = taken + 1
        if self.use_mujoco:
            self._step_host(state_in, state_out, control, contacts, dt, writes)
        else:
            self._step_warp(state_in, state_out, control, contacts, dt, writes)

    def _step_host(
        self,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
        writes: bool,
    ) -> None:
        mujoco, model = _mujoco(), self.model
        arrays = (state_in, state_in.revision, control, control.revision, model.revision)
        write = partial(self._write, state_in, control, contacts, writes)
        self._replays((writes, contacts, *arrays), write)
        self.mj_model.opt.timestep = dt
        gravity = self._gravity_of_rows()
        if writes:
            self._exact.compare(state_in)
        self._host.push(self.mj_datas, self._exact if writes else None)
        if contacts is not None:
            self._given[0].step_host(self.mj_datas, gravity)
        else:
            for data, down in zip(self.mj_datas, gravity):
                self.mj_model.opt.gravity = down
                mujoco.mj_step(self.mj_model, data)
        self._host.pull(self.mj_datas)
        key = (dt, state_out, state_out.revision, *arrays)
        self._replays(key, partial(self._read, state_in, state_out, dt))
        self._exact.keep(self.mj_datas, state_out)

    def _gravity_of_rows(self) -> np.ndarray:
        """Gravity of each of MuJoCo's worlds, shape (rows, 3).

        Raises:
            ModelError: It differs between worlds that are one world to MuJoCo.
        """
        self._check_gravity()
        return np.broadcast_to(self.model.gravity, (self.conversion.rows, 3))

    def _check_gravity(self) -> None:
        if self.model.gravity_per_world and self.conversion.rows < self.model.world_count:
            raise ModelError("gravity: it cannot differ between worlds that MuJoCo steps as one")

    def _step_warp(
        self,
        state_in: State,
        state_out: State,
        control: Control,
        contacts: Contacts | None,
        dt: float,
        writes: bool,
    ) -> None:
        self._check_gravity()
        self._write(state_in, control, contacts, writes)
        option = self.mjw_model.opt
        self._transfer.write_options(self._transfer.launcher(), dt, option)
        option.run_collision_detection = contacts is None
        with wp.ScopedDevice(self.model.device):
            _mujoco_warp().step(self.mjw_model, self.mjw_data)
        self._read(state_in, state_out, dt)

    def _write(self, state: State, control: Control, contacts: Contacts | None, writes: bool) -> None:
        """Launch kernels that copy state, inputs and contacts to MuJoCo."""
        launch = self._transfer.launcher()
        data = self._host if self.use_mujoco else self.mjw_data
        if writes:
            self._transfer.write_state(launch, state, data)
        self._transfer.write_control(launch, state, control, data)
        self._transfer.write_bodies(launch, state, data)
        self._transfer.write_constraints(launch, data)
        if contacts is not None:
            self._given[0].write(launch, contacts, state)

    def _read(self, state_in: State, state_out: State, dt: float) -> None:
        """Launch kernels that copy coordinates back, and compute the poses and velocities of the bodies."""
        model, launch = self.model, self._transfer.launcher()
        self._transfer.read_state(launch, self._host if self.use_mujoco else self.mjw_data, state_out)
        if not model.body_count:
            return
        if model.joint_count:
            arrays = (state_out.joint_q, state_out.joint_qd, state_out.body_q, state_out.body_qd)
            launch.place(self._motion, *arrays)
        move_kinematic_bodies(
            launch, state_in.body_q, state_in.body_qd, dt, state_out.body_q, state_out.body_qd
        )

    def _takes(self, contacts: Contacts | None) -> bool:
        """Return whether a step uses given contacts; allocate them in MuJoCo's form."""
        disabled = self.mj_model.opt.disableflags & int(_mujoco().mjtDisableBit.mjDSBL_CONTACT)
        if contacts is None or disabled or not self.mj_model.ngeom:
            return False
        if not takes_contacts(self.conversion):
            raise ValueError(
                "contacts: with this integrator MuJoCo finds contacts within the step; pass None"
            )
        if not self._given:
            self._given.append(GivenContacts(self.conversion, self.mjw_data))
        return True

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Clear the warm starts of the constraint solver, activations of actuators and plastic strains.

        Args:
            state: Copied to MuJoCo before the next step in any case.
            world_mask: Worlds to forget, bool, shape (world_count,); None for all.
        """
        self.check_reset(state, world_mask)
        self._steps[0] = 0
        self._forget(world_mask)

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`; on the host it reads the mask.

        Raises:
            NotImplementedError: mujoco_warp steps on the device, within a recording.
        """
        if not self.use_mujoco:
            super().reset_worlds(shard, state, world_mask)
        self._forget(world_mask)

    def _forget(self, world_mask: wp.array | None) -> None:
        """Clear warm starts and activations of worlds, and what their states do not hold."""
        rows = self.conversion.rows
        mask = np.ones(rows, bool) if world_mask is None else world_mask.numpy()
        if rows == 1:
            mask = mask.any(keepdims=True)
        if self.mj_datas:
            self._exact.forget(mask)
        for data, clear in zip(self.mj_datas, mask):
            if clear:
                data.qacc_warmstart[:], data.act[:], data.plastic[:] = 0.0, 0.0, 0.0
        if self.mjw_data is None:
            return
        mask = wp.array(mask, dtype=bool, device=self.model.device)
        for values in self._carried_by_warp():
            compilation.launch(
                mujoco_state.clear_rows,
                values.shape,
                reads=dict(mask=mask),
                writes=dict(values=values),
                device=self.model.device,
            )

    def copied_drives(self) -> np.ndarray:
        """See `SolverBase.copied_drives`."""
        return np.flatnonzero(self.conversion.view.axis_ctrl.numpy() >= 0)

    def carried_arrays(self) -> list[wp.array] | None:
        """Warm starts and activations, by which earlier steps decide on the next; None on the host."""
        return None if self.steps_on_host else self._carried_by_warp()

    def _carried_by_warp(self) -> list[wp.array]:
        """Warm starts and activations of mujoco_warp, where it has any."""
        data, model = self.mjw_data, self.mj_model
        return [data.qacc_warmstart] * bool(model.nv) + [data.act] * bool(model.na)

    def workspaces(self) -> tuple[object, ...]:
        """See `SolverBase.workspaces`."""
        return (self.mjw_model, self.conversion, self._transfer, self._replays)

    def host_memory(self) -> HostValues:
        """Number of steps, and the full state of MuJoCo's data on the host; see `HostMemory`."""
        memory: HostValues = {"steps": self._steps[0]}
        if self.mj_datas:
            mujoco = _mujoco()
            kind = mujoco.mjtState.mjSTATE_INTEGRATION
            states = np.zeros((len(self.mj_datas), mujoco.mj_stateSize(self.mj_model, kind)))
            for data, row in zip(self.mj_datas, states):
                mujoco.mj_getState(self.mj_model, data, row, kind)
            memory["states"] = states
            exact = self._exact
            memory["coords"], memory["velocities"] = exact.coords.copy(), exact.velocities.copy()
        return memory

    def recall(self, memory: HostValues) -> None:
        """See `HostMemory`."""
        self._steps[0] = memory["steps"]
        if self.mj_datas:
            mujoco = _mujoco()
            for data, row in zip(self.mj_datas, np.asarray(memory["states"])):
                mujoco.mj_setState(self.mj_model, data, row, mujoco.mjtState.mjSTATE_INTEGRATION)
            self._exact.coords[:], self._exact.velocities[:] = memory["coords"], memory["velocities"]
            self._exact.take(self.mj_datas)

    def report(self) -> None:
        """Warn once of each buffer of mujoco_warp that was too small; on the host of unstable worlds."""
        if self.mjw_data is None:
            warn_of_unstable_worlds(self.mj_datas, self._unstable)
            return
        kinds = _mujoco_warp().OverflowType
        found = int(np.bitwise_or.reduce(self.mjw_data.overflow.numpy())) & ~self._overflow[0]
        short = [kind.name for kind in kinds if kind & found and kind.name not in _NO_ROOM]
        self._overflow[0] |= found
        if short:
            warnings.warn(
                f"MuJoCoSolver: mujoco_warp ran out of room for {', '.join(short)}, and dropped "
                "constraints: raise nefc_per_env and ncon_per_env",
                UserWarning,
                stacklevel=3,
            )

    # -- conversion without a solver -------------------------------------------------------------------------

    @staticmethod
    def apply_mjc_control(model: Model, control: Control | None, mj_data: object) -> None:
        """Copy `joint_act` and `joint_f` to data of MuJoCo or mujoco_warp.

        Args:
            model: The model.
            control: What to copy; None for the model's own.
            mj_data: MjData or mujoco_warp's Data that `convert_to_mjc` made of the model. The poses that are
                in it say where forces on free and ball joints point.
        """
        transfer = Transfer(conversion_of(model, mj_data))
        control = model.control(clone_variables=False) if control is None else control
        model.check_control(control)
        state = model.state(requires_grad=False)
        arrays = _arrays_of(transfer, mj_data)
        launch = transfer.launcher()
        transfer.read_state(launch, arrays, state)
        transfer.write_control(launch, state, control, arrays)
        if isinstance(arrays, HostArrays):
            for name in ("ctrl", "qfrc_applied"):
                getattr(mj_data, name)[:] = getattr(arrays, name).numpy()[0]

    @staticmethod
    def update_mjc_data(mj_data: object, model: Model, state: State | None = None) -> None:
        """Copy a state to data of MuJoCo or mujoco_warp, with its external forces.

        Args:
            mj_data: MjData or mujoco_warp's Data that `convert_to_mjc` made of the model. MjData has one of
                MuJoCo's worlds; with several, the first is copied.
            model: The model.
            state: What to copy; None for the initial state of the model.
        """
        transfer = Transfer(conversion_of(model, mj_data))
        state = model.state(requires_grad=False) if state is None else state
        model.check_state(state)
        arrays = _arrays_of(transfer, mj_data)
        launch = transfer.launcher()
        transfer.write_state(launch, state, arrays)
        transfer.write_bodies(launch, state, arrays)
        if isinstance(arrays, HostArrays):
            for name in ("qpos", "qvel", "mocap_pos", "mocap_quat", "xfrc_applied"):
                target = getattr(mj_data, name)
                target[...] = getattr(arrays, name).numpy()[0].reshape(target.shape)

    @staticmethod
    def update_newton_state(model: Model, state: State, mj_data: object, eval_fk: bool = True) -> None:
        """Copy positions and velocities from data of MuJoCo or mujoco_warp to a state.

        Args:
            model: The model.
            state: `joint_q` and `joint_qd` are written, and `body_q` and `body_qd` with `eval_fk`.
            mj_data: MjData or mujoco_warp's Data that `convert_to_mjc` made of the model.
            eval_fk: Whether poses and velocities of the bodies are evaluated as well.

        Raises:
            ModelError: The data does not belong to this model, or has one of several worlds.
        """
        transfer = Transfer(conversion_of(model, mj_data))
        model.check_state(state)
        arrays = _arrays_of(transfer, mj_data)
        if isinstance(arrays, HostArrays) and transfer.conversion.rows > 1:
            raise ModelError(f"mj_data: it has one world, but the model has {transfer.conversion.rows}")
        transfer.read_state(transfer.launcher(), arrays, state)
        if eval_fk and model.joint_count:
            evaluate_fk(model, state.joint_q, state.joint_qd, None, state)

    @staticmethod
    def convert_to_mjc(
        model: Model,
        state: State | None = None,
        *,
        separate_envs_to_worlds: bool = True,
        iterations: int = 20,
        ls_iterations: int = 10,
        nefc_per_env: int = 100,
        ncon_per_env: int | None = None,
        solver: int | str = "cg",
        integrator: int | str = "euler",
        disableflags: int = 0,
        impratio: float = 1.0,
        tolerance: float = 1e-8,
        ls_tolerance: float = 0.01,
        timestep: float = 0.01,
        cone: int | str = 0,
        is_sparse: bool | None = None,
        register_collision_groups: bool = True,
        joint_limit_threshold: float = 1e3,
        default_joint_damping: float = 0.0,
        geom_solref: Sequence[float] = (0.02, 1.0),
        geom_solimp: Sequence[float] = (0.9, 0.95, 0.001, 0.5, 2.0),
        geom_friction: Sequence[float] = (1.0, 0.05, 0.05),
        geom_condim: int = 3,
        target_filename: str | None = None,
        default_actuator_args: Mapping[str, Any] | None = None,
        default_actuator_gear: float | None = None,
        actuator_gears: Mapping[str, float] | None = None,
        actuated_axes: Collection[int] | None = None,
        gravcomp: Shares | None = None,
        element_args: ElementArgs | None = None,
        skip_visual_only_geoms: bool = True,
        add_axes: bool = True,
    ) -> tuple[mujoco_warp.Model, mujoco_warp.Data, mujoco.MjModel, mujoco.MjData]:
        """Convert a model and a state.

        Args:
            model: The model.
            state: The state; None for the model's initial one.
            separate_envs_to_worlds: Whether each world becomes a world of MuJoCo's; if not, one of them holds
                all.
            iterations: Iterations of the constraint solver.
            ls_iterations: Iterations of its line search.
            nefc_per_env: Room for constraint rows of each world of mujoco_warp.
            ncon_per_env: Room for contacts, likewise; None to leave it to mujoco_warp.
            solver: "cg", "newton" or "pgs" (not in mujoco_warp), or MuJoCo's number of it.
            integrator: "euler", "rk4", "implicit" or "implicitfast", or MuJoCo's number of it.
            disableflags: Bits of MuJoCo's mjtDisableBit.
            impratio: Ratio of frictional to normal impedance.
            tolerance: Tolerance of the constraint solver.
            ls_tolerance: Tolerance of its line search.
            timestep: Time step [s].
            cone: Friction cone: 0 or "pyramidal", 1 or "elliptic".
            is_sparse: Whether matrices are sparse; None to leave it to MuJoCo.
            register_collision_groups: Whether collision groups, flags and filter pairs of the model count; if
                not, all shapes touch but those of neighbours in the tree.
            joint_limit_threshold: From this size on a joint limit is none [rad or m].
            default_joint_damping: Damping of joint axes for which the model has none.
            geom_solref: Time constant [s] and damping ratio of contacts.
            geom_solimp: Impedance of contacts.
            geom_friction: Factor on the shapes' coefficients of friction; torsional and rolling coefficients
                [m] of shapes that have none, also not by an MJCF file.
            geom_condim: Dimensions of contacts: 1, 3, 4 or 6; 1 for shapes without friction, raised for
                such with torsional or rolling friction.
            target_filename: File name to write the converted model to, as MJCF; None for none.
            default_actuator_args: Further attributes of every actuator, by their names in MjSpec.
            default_actuator_gear: Transmission ratio of drives; None for 1.
            actuator_gears: Transmission ratios by name of the joint.
            actuated_axes: Joint axes that become actuators; None for all.
            gravcomp: Shares of their weight that bodies are relieved of, see `MujocoOptions`.
            element_args: Further attributes of elements, likewise.
            skip_visual_only_geoms: Whether shapes that meet nothing are left out.
            add_axes: Whether the world's axes are drawn, as sites.

        Returns:
            Model and data of mujoco_warp, which hold all worlds, and of MuJoCo, which hold the first.

        Raises:
            ModelError: MuJoCo cannot represent the model.
            ImportError: mujoco, or mujoco_warp, is not installed.
        """
        given = locals()
        names = [one.name for one in dataclasses.fields(MujocoOptions)]
        settings = MujocoOptions(**{name: given[name] for name in names})
        conversion = convert(model, settings)
        mj_data = _forwarded(conversion, state)
        mjw_model, mjw_data = _to_warp(conversion, settings, state)
        if target_filename is not None:
            _save(conversion, target_filename)
        return mjw_model, mjw_data, conversion.mj_model, mj_data


_NO_ROOM = ("ITERATIONS", "LS_ITERATIONS", "CONTACT_MATCH", "TACTILE")
"""Overflows of mujoco_warp that concern the accuracy of a result, or sensors, and drop nothing."""


def _mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(f"MuJoCoSolver needs the package mujoco: {_INSTALL}") from error
    return mujoco


def _mujoco_warp() -> Any:
    try:
        import mujoco_warp
    except ImportError as error:
        raise ImportError(f"MuJoCoSolver(use_mujoco=False) needs mujoco_warp: {_INSTALL}") from error
    return mujoco_warp


def _forwarded(conversion: Conversion, state: State | None) -> mujoco.MjData:
    """Data of MuJoCo at a state, with all that follows from it."""
    mujoco = _mujoco()
    mj_data = mujoco.MjData(conversion.mj_model)
    remember(conversion, mj_data)
    MuJoCoSolver.update_mjc_data(mj_data, conversion.model, state)
    mujoco.mj_forward(conversion.mj_model, mj_data)
    return mj_data


def _save(conversion: Conversion, filename: str) -> None:
    try:
        Path(filename).write_text(conversion.spec.to_xml(), encoding="utf-8")
    except OSError as error:
        raise ModelError(f"cannot write {str(filename)!r}: {error.strerror}") from error


def _to_warp(conversion: Conversion, settings: MujocoOptions, state: State | None = None) -> tuple[Any, Any]:
    """Model and data of mujoco_warp, on the device of the model."""
    mujoco_warp = _mujoco_warp()
    mj_data = _forwarded(conversion, state)
    with wp.ScopedDevice(conversion.model.device):
        try:
            mjw_model = mujoco_warp.put_model(conversion.mj_model)
        except NotImplementedError as error:
            raise ModelError(f"mujoco_warp does not accept the model: {error}") from error
        mjw_model.opt.warn_overflow = 0
        mjw_model.opt.gravity = wp.zeros(conversion.rows, dtype=wp.vec3)
        mjw_data = mujoco_warp.put_data(
            conversion.mj_model,
            mj_data,
            nworld=conversion.rows,
            nconmax=settings.ncon_per_env,
            njmax=max(settings.nefc_per_env, mj_data.nefc),
        )
    remember(conversion, mjw_model, mjw_data)
    MuJoCoSolver.update_mjc_data(mjw_data, conversion.model, state)
    return mjw_model, mjw_data


def _arrays_of(transfer: Transfer, mj_data: Any) -> Any:
    """The data of mujoco_warp itself, or arrays that hold what data of MuJoCo says in all rows."""
    if not isinstance(mj_data, _mujoco().MjData):
        return mj_data
    arrays = HostArrays(transfer.conversion)
    arrays.pull([mj_data] * transfer.conversion.rows)
    return arrays
