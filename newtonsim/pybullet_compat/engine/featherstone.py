"""The physics of a client: model, solver, simulator, and the state on the host.

The state is read from the device once after a step, when something asks for it, into float64 arrays that
bodies hold views of. What is written there goes to the device before the next step.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from newtonsim.pybullet_compat.engine import link_properties, model_building
from newtonsim.pybullet_compat.engine.damping_stage import StartDamping
from newtonsim.pybullet_compat.engine.gear_stage import AuxiliaryLinks
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.engine.limit_stage import ViolatedLimits, forces_at_limits
from newtonsim.pybullet_compat.engine.sensors import ForcesOfLastStep, JointSensors, joint_reaction
from newtonsim.pybullet_compat.engine.slots import Slots
from newtonsim.pybullet_compat.engine.swept_stage import SweptBounds
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import PD_ARRAYS, SERVO_ARRAYS, SERVO_OFF, Body, LastStep
from newtonsim.pybullet_compat.world.structure import NOBODY
from newtonsim.runtime import capture
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.enums import ConstraintType
from newtonsim.scene.model import Model
from newtonsim.simulator import Simulator
from newtonsim.solvers import BodyDamping, FeatherstoneSolver, PDForces, StepStage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.constraint_records import Constraint
    from newtonsim.pybullet_compat.world.structure import BodySlot, WorldContent
    from newtonsim.scene.snapshot import Snapshot

RESTITUTION_SPEED = 0.2
"""Slowest approach that bounces [m/s], as in a fresh PyBullet world."""


@cache
def _parts(name: str) -> tuple[str, str, bool]:
    """Part of the model and field that the name of an array says, and whether it is about shapes."""
    owner, _, field = name.rpartition(".")
    return owner, field, (owner or field).startswith("shape")


class FeatherstoneEngine:
    """Model and simulator of the present structure of a client, by `FeatherstoneSolver`.

    Its public attributes are those of `world.engine.Engine`.

    Args:
        client: The client.

    Attributes:
        client: The client.
        swept: What the shapes have swept over, None if that is not watched.
        q, u: Coordinates and velocities on the host (W, coordinates), float64.
        left_from: What the last body of an empty slot was made from and still like, by the slot's first row.
    """

    def __init__(self, client: Client):
        self.client = client
        self.worlds = client.num_worlds
        bodies = list(client.bodies.values())
        for body in bodies:
            body.refresh()
        self.set_content(self._content(client))
        self.changed: set[str] = set()
        self.loads_changed = False
        self._host_arrays: dict[str, HostArray] = {}
        self.left_from: dict[int, Body | None] = {}
        self.mirrored_arrays: tuple | None = None
        self.model: Model = model_building.make_model(client, self.content.builder)
        link_properties.write_axes(self.model, self.content.slots, self.worlds)
        settings = client.settings
        self.solver = FeatherstoneSolver(
            self.model,
            servos=True,
            coriolis="start",
            speed_limit=100.0,
            max_limit_speed=1.0e4,
            limit_erp=1.0,  # `ViolatedLimits` says how fast
            friction_combine="product",
            restitution_combine="product",
            contact_softness="shape",
            cone="weighted",
            restitution_speed=RESTITUTION_SPEED,
        )
        self.solver.push_at_own_anchors()
        self.solver.steps_are_noted = True
        self._stage = self.solver.constraints
        self._first_options = copy(self.solver.options)
        settings.apply_options(self.solver.options)
        self.damping = BodyDamping(self.model)
        self.pd: PDForces | None = None
        self.pd_written = False
        self._sensors_settled = True  # nothing was measured so far
        self.swept: SweptBounds | None = None
        self.gears: AuxiliaryLinks | None = None
        if np.any(self.model.constraint_type.numpy() == ConstraintType.COUPLING):
            self.gears = self._stage.changed_pairs = AuxiliaryLinks(self.model, self.worlds)
        self.simulator = Simulator(self.model, self.solver, settings.time_step, max(settings.substeps, 1))
        self.solver.servos.period = settings.time_step
        self._share_state()
        self._share_settings(bodies)
        self.limits = ViolatedLimits(self.model, self.solver.constraints)
        self.limits.take(settings)
        self._inside = HostArray(self.limits.inside, self.worlds)
        self._none_inside = np.full_like(self._inside.host, -np.inf).tobytes()
        self._unread_sides = self._at_limits = False
        self._told: dict[Body, np.ndarray] = {}
        self._shortened = 1.0  # time of the last step over the time of steps that was set since
        stages: list[StepStage] = [self.damping]
        if self.model.joint_axis_count:
            stages += [self.limits, StartDamping(self.model, self.solver.smooth, self.solver.servos)]
        self.solver.before_step = stages
        if any(body.pd is not None for body in bodies):
            self.use_pd()
        self._motion: Motion | None = None
        self._kinematics: capture.Recording | None = None
        model, solver, state = self.model, self.solver, self.simulator.state
        self._constraint_forces = ForcesOfLastStep(
            solver, solver.constraint_forces, model.constraint_count, self.worlds
        )
        sensors = JointSensors(solver, state, self.damping)
        self._joint_forces = ForcesOfLastStep(solver, sensors.find, model.joint_count, self.worlds)
        self.steps = self.moves = 0
        self._poses_are_behind = False
        slots = Slots(self)
        self.enter, self.leave, self.refill = slots.enter, slots.leave, slots.refill
        self.move = slots.move
        self.hold, self.let_go = slots.hold, slots.let_go
        for constraint in client.constraints.values():
            slots.lead(constraint)

    @staticmethod
    def _content(client: Client) -> WorldContent:
        """What the model is made from; clients of the same structure have the same."""
        structure = client.structure
        if structure.content is not None:
            structure.content.bind(client.bodies, client.constraints)
            return structure.content
        content = model_building.describe_world(client)
        client.call_hooks("build", content.builder)
        if not client.soft_bodies:  # those are not part of a structure
            structure.content = content
        return content

    def _share_state(self) -> None:
        """Let the bodies' coordinates and poses be views of this engine's."""
        worlds, state = self.worlds, self.simulator.state
        self._q, self._u = HostArray(state.joint_q, worlds), HostArray(state.joint_qd, worlds)
        self._pose, self._twist = HostArray(state.body_q, worlds), HostArray(state.body_qd, worlds)
        self._base = HostArray(self.model.joint_X_p, worlds)
        self._force = HostArray(state.body_f, worlds)
        self._torque = HostArray(self.simulator.control.joint_f, worlds)
        self._applied = HostArray(self.solver.servos.applied, worlds)
        self._start_pose = HostArray(self.solver.smooth.body_q, worlds)
        self._applied_of, self._torque_of, self._torque_row, self._start_of = {}, {}, {}, {}
        self.forces_set = self.torques_set = False
        self.q, self.u = np.zeros(self._q.host.shape), np.zeros(self._u.host.shape)
        self.pose, self.twist = np.zeros(self._pose.host.shape), np.zeros(self._twist.host.shape)
        self.unread_coordinates = self.unread_poses = self._unread_applied = self._unread_start = False
        self.written: set[Body] = set()
        self.columns: dict[int, tuple[slice, slice]] = {}
        for slot in self.content.slots:
            if slot.uid == NOBODY:
                self.q[:, slot.q] = slot.pattern.neutral_coordinates()
            else:
                self._share_body(self.client.bodies[slot.uid], slot)

    def _share_body(self, body: Body, slot: BodySlot) -> None:
        """Let coordinates and poses of a body be views of this engine's."""
        self.columns[body.uid] = (slot.q, slot.u)
        self._applied_of[body.uid] = self._applied.host[:, slot.u]
        self._start_of[body.uid] = self._start_pose.host[:, slot.rows]
        torques = self._torque_of[body.uid] = self._torque.host[:, slot.u]
        self._torque_row[body.uid] = memoryview(torques[0])  # single numbers are written faster so
        for name, places in (("q", slot.q), ("u", slot.u), ("pose", slot.rows), ("twist", slot.rows)):
            view = getattr(self, name)[:, places]
            view[...] = getattr(body, name)
            setattr(body, name, view)
        body.engine = self
        self.written.add(body)
        self._take_waiting_forces(body)

    def _take_waiting_forces(self, body: Body) -> None:
        """Take the forces for the next step that an earlier engine was told of."""
        if body.waiting is not None:
            wrench, torque = body.waiting
            self._force.host[:, body.first_row : body.first_row + len(body.links)] += wrench
            self._torque_of[body.uid][...] += torque
            body.waiting = None
            self.forces_set = self.torques_set = True

    def _share_settings(self, bodies: list[Body]) -> None:
        """Let the bodies' motors be views of the solver's, and hand over what changeDynamics has set."""
        self._servos = {
            name: HostArray(getattr(self.solver.servos, name), self.worlds) for name in SERVO_ARRAYS
        }
        self.servos_written = True
        self._damping = [HostArray(a, self.worlds) for a in (self.damping.linear, self.damping.angular)]
        self._speed_limit = HostArray(self.solver.speed_limit, self.worlds)
        for body in bodies:
            self._lend(body, body.servos, self._servos)
            self.write_damping(body)
            link_properties.write_differences(self, body)
        for constraint in self.client.constraints.values():
            if constraint.differs:
                constraint.tell(self, self.client.settings)

    def _lend(self, body: Body, record: object, arrays: dict[str, HostArray]) -> None:
        """Copy a body's settings into arrays of all bodies, and make them views of those."""
        q_columns, u_columns = self.columns[body.uid]
        for name, array in arrays.items():
            view = array.host[:, q_columns if name == "target_q" else u_columns]
            view[...] = getattr(record, name)
            setattr(record, name, view)

    def use_pd(self) -> None:
        """Have explicit PD forces in every step from now on."""
        if self.pd is None:
            self.pd = PDForces(self.model)
            self._pd = {name: HostArray(getattr(self.pd, name), self.worlds) for name in PD_ARRAYS}
            for body in self.client.bodies.values():
                self._lend(body, body.pd_gains(), self._pd)
            self.solver.before_step = (*self.solver.before_step, self.pd)
        self.pd_written = True

    def watch_bounds(self) -> None:
        """Record boxes around what the shapes sweep over from now on."""
        stages = [stage for stage in self.solver.before_step if stage is not self.swept]
        self.swept = SweptBounds(self.solver.contacts)
        self.solver.before_step = (*stages, self.swept)

    def swept_corners(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lower and upper corners of those boxes (shapes, 3) [m], None if they are not watched."""
        return None if self.swept is None else self.swept.corners()

    def differentiable_model(self) -> Model:
        """Return the scene as it is now as a new model that gradients flow through, for any solver."""
        client = self.client
        client.read_coordinates()
        for body in client.bodies.values():
            client.read_poses(body)
        content = model_building.describe_world(client, with_room=False)
        self.content.bind(client.bodies, client.constraints)
        model = model_building.make_model(client, content.builder, requires_grad=True)
        sources = {"joint_q": "q", "joint_qd": "u", "body_q": "pose", "body_qd": "twist"}
        for name, source in sources.items():
            values = [getattr(body, source) for body in client.bodies.values()]
            if values:
                joined = np.concatenate(values, axis=1, dtype=np.float32)
                getattr(model, name).assign(joined.reshape(-1, *joined.shape[2:]))
        return model

    def release(self) -> None:
        """Give bodies arrays of their own again."""
        if self.unread_coordinates:
            self.read_coordinates()
        if self.unread_poses:
            self.read_poses()
        for body in self.client.bodies.values():
            if body.uid in self.columns:
                self._give_back(body)
        for constraint in self.client.constraints.values():
            wrench, turn = self.constraint_wrench(constraint), self.constraint_turn(constraint)
            constraint.last_wrench, constraint.last_turn = wrench, turn

    @property
    def _has_forces(self) -> bool:
        """Whether the solver knows the forces of a step; one that is like another client's may not."""
        return bool(self.steps) and self.solver.constraints.last_contacts is not None

    def constraint_wrench(self, constraint: Constraint) -> np.ndarray | None:
        """What `Constraint.as_told` says of the last step (W, 6) [N m, N], None if there is nothing."""
        if constraint.changed_at == self.steps:
            return constraint.last_wrench
        if constraint.index < 0:
            return None
        if not self._has_forces:
            return constraint.last_wrench
        return constraint.as_told(self._constraint_forces.read()[:, constraint.index].astype(np.float64))

    def constraint_impulses_written(self) -> None:
        """Note that impulses of constraints were set."""
        self._constraint_forces.forget()

    def constraint_turn(self, constraint: Constraint) -> np.ndarray | None:
        """Orientation of its parent (W, 4) at the start of the step that `constraint_wrench` is of."""
        if constraint.index < 0 or not self._has_forces or constraint.changed_at == self.steps:
            return constraint.last_turn
        parent = self.client.bodies[constraint.parent_body]
        return self.start_poses(parent)[:, constraint.parent_link + 1, 3:].copy()

    def _give_back(self, body: Body, with_last_step: bool = True) -> None:
        """Give a body arrays of its own again, and keep the forces that wait for the next step."""
        if with_last_step:
            self._keep_last_step(body)
        for name in ("q", "u", "pose", "twist"):
            setattr(body, name, getattr(body, name).copy())
        for record, names in ((body.servos, SERVO_ARRAYS), (body.pd, PD_ARRAYS)):
            for name in names if record is not None else ():
                setattr(record, name, getattr(record, name).copy())
        body.first_row, body.engine, body.placed_at = -1, None, 0

    def _keep_last_step(self, body: Body) -> None:
        """Let a body keep what it is told of the last step, and the forces that wait for the next one."""
        if self.steps > body.placed_at:
            body.start_pose = self.start_poses(body).copy()
        if self.steps:
            body.last_step = self._last_step(body)
        if self.forces_set or self.torques_set:
            rows = slice(body.first_row, body.first_row + len(body.links))
            body.waiting = (self._force.host[:, rows].copy(), self._torque_of[body.uid].copy())

    def _last_step(self, body: Body) -> LastStep:
        """What motors of a body applied and its sensors measured in the last step."""
        reactions = None
        if body.sensors and self._has_forces:
            found = [self.joint_reaction(body, place) for place in range(len(body.links))]
            known = [reaction for reaction in found if reaction is not None]
            reactions = np.stack(known, axis=1) if known else None
        return LastStep(self.motor_forces(body).copy(), reactions)

    # -- slots -----------------------------------------------------------------------------------------------

    def set_content(self, content: WorldContent) -> None:
        """Put other bodies and constraints into the slots."""
        self.content = content
        self.rows, self.shape_link = content.rows, content.shape_link
        self.shape_geometry = content.shape_geometry

    def take_body(self, body: Body, slot: BodySlot) -> None:
        """Put a body into an empty slot."""
        body.first_row, body.first_joint, body.placed_at = slot.row, slot.joint, self.steps
        self._share_body(body, slot)
        self._lend(body, body.servos, self._servos)
        self.servos_written = True
        if self.pd is not None:
            self._lend(body, body.pd_gains(), self._pd)
            self.pd_written = True
        if body.last_step is not None:
            self._applied.pull()[:, slot.u] = body.last_step.applied / self._shortened
            self._applied.push()
        self.write_damping(body)
        made_from = self.left_from.pop(slot.row, None)
        if made_from is None or body.made_from is not made_from:
            link_properties.write_all(self, body)

    def drop_body(self, body: Body, slot: BodySlot, for_good: bool) -> None:
        """Remove a body and empty its slot; what goes on elsewhere takes the last step along."""
        self.written.discard(body)
        self.left_from[slot.row] = body.made_from
        self._give_back(body, not for_good)
        for known in (self.columns, self._applied_of, self._torque_of, self._torque_row, self._start_of):
            del known[body.uid]
        self._told.pop(body, None)
        self.rest(slot)

    def rest(self, slot: BodySlot) -> None:
        """Keep the contents of an empty slot at rest."""
        self.q[:, slot.q], self.u[:, slot.u] = slot.pattern.neutral_coordinates(), 0.0
        self._applied.pull()
        for array, columns, value in (
            (self._q, slot.q, self.q[:, slot.q]),
            (self._u, slot.u, 0.0),
            (self._torque, slot.u, 0.0),
            (self._force, slot.rows, 0.0),
            (self._applied, slot.u, 0.0),
            (self._speed_limit, slot.u, 0.0),
            (self._servos["mode"], slot.u, SERVO_OFF),
            *((self._pd[name], slot.u, 0.0) for name in ("kp", "kd") if self.pd is not None),
        ):
            array.host[:, columns] = value
            array.push()

    # -- settings --------------------------------------------------------------------------------------------

    def write_damping(self, body: Body) -> None:
        """Hand damping and greatest joint velocities of a body to the solver."""
        self.settle_sensors()
        rows = slice(body.first_row, body.first_row + len(body.links))
        for array, values in zip(self._damping, (body.linear_damping, body.angular_damping)):
            array.host[:, rows] = values
            array.push()
        self.write_top_speed(body)

    def write_top_speed(self, body: Body) -> None:
        """Hand the greatest joint velocity of a body, which is that of all its joints, to the solver."""
        self._speed_limit.host[:, self.columns[body.uid][1]] = body.max_joint_velocity[:, :1]
        self._speed_limit.push()

    def write(self, name: str, rows: slice | np.ndarray | int | list[int], values: npt.ArrayLike) -> None:
        """Set entries of an array of the model in place.

        Args:
            name: Attribute of the model, or "shape_materials." and the name of a material property.
            rows: Entries within each world.
            values: For each world, broadcast.
        """
        array = self._array_to_write(name)
        array.pull()[:, rows] = values
        array.push()

    def write_numbers(self, name: str, row: int, numbers: Sequence[float]) -> None:
        """Do what `write` does for one row of the only world, without NumPy.

        Args:
            name: As in `write`.
            row: Entry within the world.
            numbers: All numbers of the entry.
        """
        self._array_to_write(name).put(row, numbers)

    def write_for_all(self, name: str, row: int, number: float) -> None:
        """Do what `write` does for one row of a single number, the same in all worlds.

        Args:
            name: As in `write`.
            row: Entry within each world.
            number: The number.
        """
        if self.worlds == 1:
            self.write_numbers(name, row, (number,))
        else:
            self.write(name, row, number)

    @cached_property
    def axis_starts(self) -> list[int]:
        """The first axis of each joint of the model."""
        return self.model.joint_axis_start.numpy().tolist()

    def _array_to_write(self, name: str) -> HostArray:
        """An array of the model, from now on one of those that are not as they were built."""
        self.settle_sensors()
        self.changed.add(name)
        owner, field, of_shapes = _parts(name)
        if of_shapes and self.client.surroundings:
            self.require_own_shapes()
        source = getattr(getattr(self.model, owner) if owner else self.model, field)
        array = self._host_arrays.get(name)
        if array is None or not array.is_of(source):
            array = self._host_arrays[name] = HostArray(source, self.worlds)
        return array

    def require_own_shapes(self) -> None:
        """Raise if there are shapes that belong to no world.

        Raises:
            error: There are surroundings.
        """
        if self.client.surroundings:
            raise error("This world has surroundings: its shapes cannot be queried or changed.")

    def take_settings(self) -> None:
        """Take gravity, times and options from the client."""
        settings, options = self.client.settings, self.solver.options
        for field in fields(options):
            first = getattr(self._first_options, field.name)
            if getattr(options, field.name) != first:
                setattr(options, field.name, first)
        self.options_changed()
        self.time_step_changed()
        if not np.array_equal(self.model.gravity, settings.gravity):
            self.model.gravity = settings.gravity

    def options_changed(self) -> None:
        """Take what the settings ask of the solver."""
        self.client.settings.apply_options(self.solver.options)
        self.limits.take(self.client.settings)
        self._tell_constraints()

    def time_step_changed(self) -> None:
        """Take time step and substeps from the settings."""
        settings = self.client.settings
        self.simulator.dt, self.simulator.substeps = settings.time_step, max(settings.substeps, 1)
        self._shortened *= self.solver.servos.period / settings.time_step
        self.solver.servos.period = settings.time_step
        self.servos_written = True
        self._tell_constraints()

    def _tell_constraints(self) -> None:
        """Hand over what constraints take from the settings."""
        for constraint in self.client.constraints.values():
            constraint.tell_times(self, self.client.settings)

    # -- state -----------------------------------------------------------------------------------------------

    def read_coordinates(self) -> None:
        """Copy coordinates and velocities from the device."""
        self.unread_coordinates = False
        self.q[...] = self._q.pull()
        self.u[...] = self._u.pull()

    def read_poses(self) -> None:
        """Copy poses and velocities of links from the device."""
        self.unread_poses = False
        self.pose[...] = self._pose.pull()
        self.twist[...] = self._twist.pull()

    def applied(self, body: Body) -> np.ndarray:
        """Forces of the servos of a body in the last step (W, nu) [N m or N]."""
        if not self.steps and body.last_step is not None:
            return body.last_step.applied
        if self._unread_applied:
            self._unread_applied = False
            self._applied.pull()
        return self._applied_of[body.uid]

    def motor_forces(self, body: Body) -> np.ndarray:
        """Forces of the motors of a body as scripts are told them (W, nu) [N m or N]."""
        found = self._motor_forces(body)
        return found if self._shortened == 1.0 or not self.steps else self._shortened * found

    def _motor_forces(self, body: Body) -> np.ndarray:
        """Those forces as mean values of the last step."""
        applied = self.applied(body)
        if self._unread_sides:
            self._unread_sides = False
            self._told.clear()
            self._at_limits = self._inside.pull().tobytes() != self._none_inside  # sooner than by a maximum
        if not self._at_limits or not self.steps:
            return applied
        told = self._told.get(body)
        if told is None:
            if body in self.written:
                return applied
            if self.unread_coordinates:
                self.read_coordinates()
            coords, dofs = self.columns[body.uid]
            reached = self._q.host[:, coords], self._u.host[:, dofs]  # which scripts change in `body`
            speeds = self._inside.host[:, dofs] * self.limits.rate
            borne = self.limits.impulses(dofs, self.worlds) / self.solver.servos.period
            told = forces_at_limits(body, reached, speeds, borne, applied, self.client.settings.solver_step)
            self._told[body] = told
        return told

    def settle_motors(self, body: Body) -> None:
        """Have the forces of the last step known, which depend on motion and motors of the body in it."""
        if self._unread_sides or self._at_limits:
            self.motor_forces(body)

    def settle_sensors(self) -> None:
        """Have known what sensors measured in the last step, by what counted then."""
        if not self._sensors_settled:
            self._sensors_settled = True
            if self._has_forces and any(body.sensors for body in self.client.bodies.values()):
                self._joint_forces.read()

    def settings_of_scripts(self) -> tuple[object, ...]:
        """Parts of the solver that scripts set or are told, and which no state of theirs brings back."""
        stages = self.damping, self.limits, self.solver.speed_limit, self.simulator.state.body_f
        return (
            self.model,
            self.solver.contacts.plan,
            self.solver.servos,
            *stages,
            *([self.pd] if self.pd is not None else []),
        )

    def push_coordinates(self) -> None:
        """Send what the host has changed of coordinates, velocities and bases to the device."""
        if not self.written:
            return
        self._poses_are_behind = True
        self.moves += 1
        self._q.host[...] = self.q
        self._u.host[...] = self.u
        self._q.push()
        self._u.push()
        for body in self.written:
            if body.driven:
                self.write_base(body)
            elif not body.floating:
                self._base.host[:, body.first_joint] = body.base_pose
        self._base.push()
        self.written.clear()

    def put_back(self, memory: Snapshot, q: np.ndarray, u: np.ndarray) -> None:
        """Go back to a state of this engine, with the bodies that it has now; fixed bases are in place.

        Args:
            memory: What the device had.
            q: What `q` was.
            u: What `u` was.
        """
        self.q[...], self.u[...] = q, u
        self.unread_coordinates = False
        self.written = {body for body in self.client.bodies.values() if not body.floating}
        self.push_coordinates()
        memory.restore()
        self.moves += 1
        self._poses_are_behind, self.unread_poses = False, True

    def write_base(self, body: Body) -> None:
        """Send pose and velocity of a driven body, which no joint carries."""
        for array, values in ((self._pose, body.base_pose), (self._twist, body.base_twist)):
            array.pull()[:, body.first_row] = values
            array.push()

    def push(self) -> None:
        """Make the whole state on the device agree with what the host has changed."""
        if self.written or self._poses_are_behind:
            self.settle_sensors()
            self.push_coordinates()
            self._evaluate_kinematics()
            self._poses_are_behind = False
            for body in self.client.bodies.values():
                if body.driven:  # no joint tells kinematics where it is
                    self.write_base(body)

    def start_poses(self, body: Body) -> np.ndarray:
        """Poses of the links of a body at the start of the last step (W, links, 7)."""
        if body.driven:
            return body.pose
        self.all_start_poses()
        return self._start_of[body.uid]

    def all_start_poses(self) -> np.ndarray:
        """Poses of all links at the start of the last step (W, bodies, 7), but those of driven bodies."""
        if self._unread_start:
            self._unread_start = False
            self._start_pose.pull()
        return self._start_pose.host

    def refresh(self, body: Body) -> None:
        """Find the poses of a body from its coordinates on the device."""
        self.push()
        poses, twists = self._pose.pull(), self._twist.pull()
        for other in self.client.bodies.values():
            if other.stale_poses:
                rows = slice(other.first_row, other.first_row + len(other.links))
                self.pose[:, rows], self.twist[:, rows] = poses[:, rows], twists[:, rows]
                other.pose[:, 0], other.twist[:, 0] = other.base_coordinates, other.base_rates
                other.stale_poses = False

    def _evaluate_kinematics(self) -> None:
        """Write poses and velocities of all links of the state, by a capture from the second time on."""
        if self._kinematics is not None:
            self._kinematics.once()
            return
        with capture.capturing:
            if self._motion is None:
                self._motion = Motion(self.model)
                self._launch_kinematics()
                return
            self._kinematics = capture.capture_launches(self._launch_kinematics, self.model.device)
        self._kinematics.once()

    def _launch_kinematics(self) -> None:
        launch, state = Launcher(self.model, record_tape=False), self.simulator.state
        launch.poses(self._motion, state.joint_q)
        launch.velocities(self._motion, state.joint_qd)
        launch.write_bodies(self._motion, state.body_q, state.body_qd, None)

    # -- stepping --------------------------------------------------------------------------------------------

    def add_torque(self, body: Body, dof: int | slice | np.ndarray, torque: float | np.ndarray) -> None:
        """Add a force along velocity coordinates of a body, for the next step."""
        if torque.__class__ is float and dof.__class__ is int and self.worlds == 1:
            self._torque_row[body.uid][dof] += torque
        else:
            self._torque_of[body.uid][:, dof] += torque
        self.torques_set = True

    def joint_torques(self, body: Body) -> np.ndarray:
        """Forces that the next step applies along the velocity coordinates of a body (W, velocities)."""
        return self._torque_of[body.uid]

    def add_force(self, body: Body, place: int, torque: np.ndarray, force: np.ndarray) -> None:
        """Add a wrench at the centre of mass of a link in world axes, for the next step."""
        row = self._force.host[:, body.first_row + place]
        row[:, :3] += torque
        row[:, 3:] += force
        self.forces_set = True

    def add_force_numbers(self, body: Body, place: int, wrench: Sequence[float]) -> None:
        """Do what `add_force` does in the only world, without NumPy; the torque comes first (6,)."""
        known = self._force.numbers
        for at, number in enumerate(wrench, 6 * (body.first_row + place)):
            known[at] += number
        self.forces_set = True

    def drop_forces(self, body: Body, worlds: np.ndarray) -> None:
        """Forget the forces on a body that wait for the next step in some worlds."""
        self._force.host[worlds, body.first_row : body.first_row + len(body.links)] = 0.0
        self._torque_of[body.uid][worlds] = 0.0

    def drop_all_forces(self) -> None:
        """Forget all forces that wait for the next step."""
        self._force.clear()
        self._torque.clear()
        self.forces_set = self.torques_set = False

    def step(self, count: int = 1) -> None:
        """Make steps of the client's time step; forces act in the first one."""
        client = self.client
        if count > 1 and (client.hooked_steps or self.forces_set or self.torques_set):
            for _ in range(count):
                self.step()
            return
        if client.hooked_steps:
            client.call_hooks("before_step", self)
        if self.written:
            self.push_coordinates()
        if self.loads_changed:
            self._find_loads()
        if client.stale_bodies:
            for body in client.stale_bodies:
                body.stale_poses = False
            client.stale_bodies.clear()
        if client.silent_sensors:
            client.silent_sensors.clear()
        if self.forces_set:
            self._force.push()
        if self.torques_set:
            self._torque.push()
        if self.servos_written:
            self.servos_written = False
            for array in self._servos.values():
                array.push()
        if self.pd_written:
            self.pd_written = False
            for array in self._pd.values():
                array.push()
        self.simulator.step(count)
        if self._stage.last_contacts is None:
            self.solver.note_step(client.settings.solver_step)
        self.steps += count
        self._shortened = 1.0
        self.moves += 1
        self._poses_are_behind = False
        self.unread_coordinates = self.unread_poses = self._unread_applied = self._unread_start = True
        self._unread_sides = True
        self._forget_forces()
        if self.forces_set:
            self._force.clear()
            self.forces_set = False
        if self.torques_set:
            self._torque.clear()
            self.torques_set = False
        if client.hooked_steps:
            client.call_hooks("after_step", self)

    def _find_loads(self) -> None:
        """Have the solver calm the bodies that are too light for what they bear now."""
        self.loads_changed = False
        stage = self.solver.constraints
        had = stage.stiffness is not None
        with capture.capturing:
            self.solver.loads_changed()
        if had != (stage.stiffness is not None):
            self.client.call_hooks("content_changed", self)  # saved states lack its arrays

    def state_replaced(self) -> None:
        """Note that the arrays on the device were written, and that the host knows what they hold."""
        self.moves += 1
        self.unread_coordinates = self.unread_poses = False
        self._unread_applied = self._unread_start = True
        self._forget_forces()

    def _forget_forces(self) -> None:
        """Note that forces and readings are those of another step."""
        self._constraint_forces.forget()
        self._joint_forces.forget()
        self._sensors_settled = False

    def forget(self) -> None:
        """Return to the state of an engine that was just built, with the bodies as they are now."""
        with capture.capturing:
            self.solver.reset()
        self.solver.forget_step()
        self.simulator.time, self.steps, self._shortened = 0.0, 0, 1.0
        self.drop_all_forces()
        self._applied.clear()
        for body in self.client.bodies.values():
            body.placed_at = 0
            self._take_waiting_forces(body)
        self.written = set(self.client.bodies.values())
        self.state_replaced()

    def joint_reaction(self, body: Body, place: int) -> np.ndarray | None:
        """Force and moment that a joint's sensor measures (W, 6), see `sensors`; None before a step."""
        if not self.steps:
            known = None if body.last_step is None else body.last_step.reactions
            return None if known is None else known[:, place]
        if body.driven:
            return np.zeros((self.worlds, 6))
        reading = self._joint_forces.read()[:, body.first_joint + place]
        return joint_reaction(reading, self.start_poses(body)[:, place])
