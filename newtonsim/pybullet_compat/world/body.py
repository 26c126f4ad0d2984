"""A body of a client while it lives: its coordinates, poses and what changeDynamics may change.

Arrays have the worlds of the client as their first axis W. Coordinates are those of `newtonsim` for frames at
the centres of mass: of a floating base (position, quaternion) and (ω, v), then those of the links in the
order of the description.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

from newtonsim.builder.validate import LARGEST_INERTIA
from newtonsim.geometry.transforms import quat_conjugate, quat_multiply, quat_rotate, transform_multiply
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import BodyDescription, Link
from newtonsim.pybullet_compat.surface.constants import (
    JOINT_FIXED,
    JOINT_PLANAR,
    JOINT_PRISMATIC,
    JOINT_REVOLUTE,
    JOINT_SPHERICAL,
)
from newtonsim.pybullet_compat.world.plain_kinematics import place_links

COORDINATES = {
    JOINT_REVOLUTE: (1, 1),
    JOINT_PRISMATIC: (1, 1),
    JOINT_SPHERICAL: (4, 3),
    JOINT_PLANAR: (3, 3),
    JOINT_FIXED: (0, 0),
}
"""Positions and velocities of each type of joint."""

FLOATING = (7, 6)
IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
DEFAULT_DAMPING = 0.04
DEFAULT_MAX_SPEED = 100.0
DEFAULT_MOTOR_IMPULSE = 1.0
"""Largest impulse per step of the velocity motor that holds every joint after loading [N m s or N s]."""
SPHERICAL_MOTOR_IMPULSE = 1000.0
"""The same of the motor that pulls every spherical joint back to where it was made, as measured [N m s]."""
SPHERICAL_MOTOR_GAIN = 0.04
"""Share of the error that this motor removes in a step, as measured."""

LEAST_MASS, LEAST_INERTIA, LEAST_GYRATION = 1.0e-9, 1.0e-9, 1.0e-6
"""Of links that have no mass [kg], and no inertia [kg m²], the latter also for each kilogram [m²]."""
LEAST_MOMENT = 1.0e-8
"""Least moment of inertia over the largest that the solver gets."""
ENDLESS_INERTIA = 1.0e6
"""Of bodies of one link without inertia, which no torque turns [kg m²]."""
SERVO_OFF, SERVO_ON, SERVO_IMPLICIT_PD = 0, 1, 2
UNLIMITED_SPEED = np.inf
_STATE = ("q", "u", "base_pose", "base_twist", "pose", "twist")
_PROPERTIES = (
    "mass",
    "inertia",
    "linear_damping",
    "angular_damping",
    "joint_damping",
    "limits",
    "stops",
    "max_joint_velocity",
)
SERVO_ARRAYS = ("mode", "kp", "kd", "target_q", "target_qd", "max_force", "max_speed")
PD_ARRAYS = ("kp", "kd", "target_q", "target_qd", "max_force")


@dataclass(slots=True, eq=False)
class Servos:
    """Motors of a body, laid out like `newtonsim.solvers.JointServos`; views into that of an engine.

    Attributes:
        mode: SERVO_*, shape (W, nu).
        kp: Position gain (W, nu).
        kd: Velocity gain (W, nu).
        target_q: Target positions, quaternions for spherical joints, shape (W, nq).
        target_qd: Target velocities (W, nu) [rad/s or m/s].
        max_force: [N m or N] (W, nu).
        max_speed: Bound of the velocity that a servo asks for (W, nu) [rad/s or m/s].
    """

    mode: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    target_q: np.ndarray
    target_qd: np.ndarray
    max_force: np.ndarray
    max_speed: np.ndarray
    _rows: tuple | None = None

    def rows(self) -> tuple[memoryview, ...]:
        """Entries of the first world by field, where setting one is faster than in an array."""
        if self._rows is None or self._rows[0] is not self.kp:
            arrays = (self.mode, self.kp, self.kd, self.target_q, self.target_qd)
            arrays += (self.max_force, self.max_speed)
            self._rows = (self.kp, tuple(memoryview(array[0]) for array in arrays))
        return self._rows[1]


@dataclass(slots=True, eq=False)
class PDGains:
    """Explicit PD forces of a body (PD_CONTROL), as `newtonsim.solvers.PDForces` has them."""

    kp: np.ndarray
    kd: np.ndarray
    target_q: np.ndarray
    target_qd: np.ndarray
    max_force: np.ndarray


class CoordinateSource(Protocol):
    """What a body asks of the engine that has its coordinates."""

    unread_coordinates: bool

    def read_coordinates(self) -> None:
        """Copy coordinates and velocities of all bodies from the device."""


@dataclass(frozen=True, slots=True)
class LastStep:
    """What motors applied and joint sensors measured in a step of a body.

    Attributes:
        applied: Forces of the motors (W, nu) [N m or N].
        reactions: What sensors measure at each link (W, links, 6) [N, N m], None without sensors.
    """

    applied: np.ndarray
    reactions: np.ndarray | None


class Body:
    """One multibody in all worlds.

    Attributes:
        uid: Body unique id.
        description: What it was made from; `links[0]` of this class is its base.
        links: Base and links; place i is the link index i - 1 of the API.
        floating: Whether the base moves freely.
        q: Positions (W, nq), float64; views into the engine's while one exists.
        u: Velocities (W, nu).
        pose: World poses of the inertial frames (W, links, 7).
        twist: (ω, v of the centre of mass) in the world (W, links, 6).
        stale_poses: Whether `pose` and `twist` are older than `q` and `u`.
        q_start, u_start: First coordinate of each place.
        q_count, u_count: Number of coordinates of each place.
        single_columns: Columns in `q` and in `u` of the joints with one coordinate.
        inertial, inverse_inertial: Inertial frames in the link frames and back (links, 7).
        centred: Whether both frames of each place are the same.
        mass, inertia: Of each place, (W, links) and (W, links, 3).
        plain_joints: What `plain_kinematics` asks of each joint, parents first.
        joint_infos: What getJointInfo has said of each joint.
        dynamics_infos: What getDynamicsInfo has said of each link since the last changeDynamics.
        unit_inertias: Moments that links would have with 1 kg, where they were asked for (3,) or (W, 3).
        servos: Motors.
        joint_groups: Joints named together, see `joint_groups`.
        engine: The engine that has its coordinates, None without one.
        first_row: Place of the base among the bodies of a world of the engine.
        first_joint: Place of the base's joint among the joints of a world.
        driven: Whether a static body was given a velocity: it moves with that, whatever is in its way.
        base_twist: (ω, v) of a driven base in the world (W, 6).
        made_from: Body of the same description that it was copied from, None once changeDynamics or a filter
            has changed it.
        kind: What `body_kind` says of bodies that are copied from it, None until it is asked.
        revision: Grows whenever masses, inertias or frames change.
        placed_at: Number of steps of the engine after which the host last placed the body.
        start_pose: Poses (W, links, 7) at the start of the last step, if the engine of that step is gone or
            some worlds were placed since; NaN in these.
        loaded_pose: Pose of the base's inertial frame as it was loaded (W, 7).
        held: Whether the base is fixed whatever its mass, as loaded; a mass from changeDynamics frees it.
        was_placed: Whether the host has placed the body since it was made.
        last_step: What motors and sensors had in the last step, if the engine of that step is gone.
        waiting: Wrenches on the links (W, links, 6) and forces along `u` (W, nu) for the next step, if the
            engine that was told of them is gone.
    """

    def __init__(self, uid: int, description: BodyDescription, worlds: int, time_step: float):
        self.uid, self.description, self.worlds = uid, description, worlds
        self.links: list[Link] = [description.base, *description.links]
        self.revision = 0
        self.made_from: Body | None = None
        self.kind: Hashable = None
        self.unit_inertias: dict[int, np.ndarray] = {}
        self.first_row = self.first_joint = -1
        self.engine: CoordinateSource | None = None
        self.placed_at = 0
        self.was_placed = False
        self.held = description.fixed
        self.start_pose: np.ndarray | None = None
        self.last_step: LastStep | None = None
        self.waiting: tuple[np.ndarray, np.ndarray] | None = None
        self.driven = False
        self.base_twist = np.zeros((worlds, 6))
        count = len(self.links)
        self.mass = _repeated([link.mass for link in self.links], worlds)
        self.inertia = np.zeros((worlds, count, 3))
        for place, link in enumerate(self.links):
            self.inertia[:, place] = link.inertia  # of all worlds, or of each
            if link.masses:
                self.mass[:, place] = link.masses
        self.inertial = np.array([link.inertial_pose.row() for link in self.links])
        self._inertial_changed()
        self.world_index: int | slice = 0 if worlds == 1 else slice(None)
        damping = 0.0 if description.maximal else DEFAULT_DAMPING
        self.linear_damping = np.full((worlds, count), damping)
        self.angular_damping = np.full((worlds, count), damping)
        self.joint_damping = _repeated([link.damping for link in self.links], worlds)
        self.limits = _repeated([link.limits for link in self.links], worlds)
        self.stops = _repeated([link.stops for link in self.links], worlds)
        self.limits_changed()
        self.max_joint_velocity = np.full((worlds, count), DEFAULT_MAX_SPEED)
        self.surface = {
            name: _repeated([float(getattr(link.surface, name)) for link in self.links], worlds)
            for name in (
                "lateral_friction",
                "rolling_friction",
                "spinning_friction",
                "restitution",
                "contact_stiffness",
                "contact_damping",
                "friction_anchor",
                "collision_margin",
            )
        }
        self.sensors: set[int] = set()
        self.parents = [-1] + [link.parent + 1 for link in description.links]
        self.order = _outwards(self.parents)
        self._offsets = [_joint_offsets(self.links, i, self.parents) for i in range(count)]
        self._anchors: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.floating = False
        self.q = self.u = np.zeros((worlds, 0))
        self._lay_out(self._movable(), time_step)
        self.pose = _repeated([IDENTITY] * count, worlds)
        self.twist = np.zeros((worlds, count, 6))
        self.put_at_start()

    @property
    def q(self) -> np.ndarray:
        """Positions (W, nq), those after the last step."""
        engine = self.engine
        if engine is not None and engine.unread_coordinates:
            engine.read_coordinates()
        return self._q

    @q.setter
    def q(self, values: np.ndarray) -> None:
        self._q = values

    @property
    def u(self) -> np.ndarray:
        """Velocities (W, nu), those after the last step."""
        engine = self.engine
        if engine is not None and engine.unread_coordinates:
            engine.read_coordinates()
        return self._u

    @u.setter
    def u(self, values: np.ndarray) -> None:
        self._u = values

    def renewed(self, uid: int, description: BodyDescription) -> Body:
        """Return another body of the same file, where this one is as it was made.

        Args:
            uid: Its unique id.
            description: A copy of this one's description, at another pose.
        """
        body = copy(self)
        body.uid, body.description, body.made_from = uid, description, self
        body.links = [description.base, *description.links]
        for name in (*_STATE, *_PROPERTIES):
            setattr(body, name, getattr(self, name).copy())
        body.surface = {name: values.copy() for name, values in self.surface.items()}
        body.servos = Servos(**{name: getattr(self.servos, name).copy() for name in SERVO_ARRAYS})
        body.sensors, body.joint_infos, body.dynamics_infos, body.joint_groups = set(), {}, {}, {}
        body.put_at_start()
        return body

    def put_at_start(self) -> None:
        """Put base and joints to where the description has them."""
        base = (self.description.pose @ self.description.base.inertial_pose).row()
        self.base_pose = _repeated(base, self.worlds)
        self.loaded_pose = self.base_pose.copy()
        self.q[...] = self.loaded_coordinates()
        self.stale_poses = True
        self.refresh()

    def copy_for(self, worlds: int) -> Body:
        """Return the same body for another client, in as many worlds as that has.

        Args:
            worlds: Number of worlds, one or as many as here if there are several.
        """
        twin = copy(self)
        twin.worlds, twin.world_index = worlds, 0 if worlds == 1 else slice(None)
        twin.engine, twin.first_row, twin.first_joint = None, -1, -1
        twin.made_from = twin.kind = None
        repeats = worlds // self.worlds
        for name in (*_STATE, *_PROPERTIES):
            setattr(twin, name, np.repeat(getattr(self, name), repeats, axis=0))
        twin.loaded_pose = np.repeat(self.loaded_pose, repeats, axis=0)
        twin.surface = {name: np.repeat(values, repeats, axis=0) for name, values in self.surface.items()}
        servos = {name: np.repeat(getattr(self.servos, name), repeats, axis=0) for name in SERVO_ARRAYS}
        twin.servos = Servos(**servos)
        twin.pd = None
        twin.links = [copy(link) for link in self.links]  # they hold the filters
        twin.joint_infos, twin.dynamics_infos, twin.unit_inertias = {}, {}, {}
        twin.take(self)
        twin.limits_changed()
        return twin

    def take(self, other: Body) -> None:
        """Take over the state, motors, properties and filters of the same body of another client.

        Args:
            other: A body with the same links, whose poses are fresh; of one world or as many as here.
        """
        for name in (*_STATE, *_PROPERTIES):
            getattr(self, name)[...] = getattr(other, name)
        for name, values in other.surface.items():
            self.surface[name][...] = values
        for name in SERVO_ARRAYS:
            getattr(self.servos, name)[...] = getattr(other.servos, name)
        if other.pd is not None:
            gains = self.pd_gains()
            for name in PD_ARRAYS:
                getattr(gains, name)[...] = getattr(other.pd, name)
        self.sensors, self.driven, self.revision = set(other.sensors), other.driven, other.revision
        self.placed_at, self.start_pose, self.waiting = other.placed_at, other.start_pose, other.waiting
        self.last_step, self.was_placed = other.last_step, other.was_placed
        for own, link in zip(self.links, other.links):
            own.group, own.mask = link.group, link.mask
        self.dynamics_infos.clear()
        self.made_from = None
        self.stale_poses = False

    def _movable(self) -> bool:
        if self.worlds == 1:
            return not self.held and self.mass.item(0) > 0.0
        return not self.held and bool((self.mass[:, 0] > 0.0).any())

    def solver_masses(self) -> tuple[np.ndarray, np.ndarray]:
        """Masses (W, links) and inertias (W, links, 3) that the solver gets.

        In PyBullet, links without mass move, and links without inertia never turn; the solver needs mass and
        inertia, except for links that are fixed to others. Driven bodies have neither, because the builder
        gives a free joint to every body with mass and no joint. It also takes the least moment of a needle
        for 0. Moments of planes about a point beside them are beyond single precision: they do not turn.
        """
        if self.driven:
            return np.zeros_like(self.mass), np.zeros_like(self.inertia)
        if self.worlds == 1:
            pairs = [self.solver_mass(place) for place in range(len(self.links))]
            return np.array([[mass for mass, _ in pairs]]), np.array([[moments for _, moments in pairs]])
        mass, inertia = self.mass.copy(), self.inertia.copy()
        moved = [place for place, count in enumerate(self.u_count) if place and count]
        mass[:, moved] = np.maximum(mass[:, moved], LEAST_MASS)
        least = LEAST_INERTIA + LEAST_GYRATION * mass
        if len(self.links) == 1:
            least[:, 0] = ENDLESS_INERTIA
        bare = ~(inertia.min(axis=2) > 0.0) & (mass > 0.0)
        inertia = np.where(bare[..., None], np.maximum(inertia, least[..., None]), inertia)
        inertia = np.where(inertia > LARGEST_INERTIA, ENDLESS_INERTIA, inertia)
        return mass, np.maximum(inertia, LEAST_MOMENT * inertia.max(axis=2, keepdims=True))

    def solver_mass(self, place: int) -> tuple[float, tuple[float, float, float]]:
        """What `solver_masses` says of one link in the only world, in plain numbers."""
        if self.driven:
            return 0.0, (0.0, 0.0, 0.0)
        mass, (x, y, z) = float(self.mass[0, place]), self.inertia[0, place].tolist()
        if place and self.u_count[place]:
            mass = max(mass, LEAST_MASS)
        if mass > 0.0 and not (x > 0.0 and y > 0.0 and z > 0.0):
            least = ENDLESS_INERTIA if len(self.links) == 1 else LEAST_INERTIA + LEAST_GYRATION * mass
            x, y, z = max(x, least), max(y, least), max(z, least)
        if max(x, y, z) > LARGEST_INERTIA:
            x, y, z = (ENDLESS_INERTIA if moment > LARGEST_INERTIA else moment for moment in (x, y, z))
        least = LEAST_MOMENT * max(x, y, z)
        return mass, (max(x, least), max(y, least), max(z, least))

    def is_inert(self, place: int) -> bool:
        """Whether nothing that a joint turns has inertia about it; then it stays where it is."""
        link = self.links[place]
        if self.mass_beyond[place] <= 0.0:
            return True
        if place in self.parents or link.joint_type == JOINT_PRISMATIC or self.inertia[0, place].any():
            return False
        arm = np.cross(link.axis, link.inertial_pose.p)
        return bool(np.linalg.norm(arm) < 1.0e-9)

    @property
    def mass_beyond(self) -> np.ndarray:
        """Mass that each joint carries in the first world (links,) [kg]."""
        total = self.mass[0].copy()
        for place in reversed(self.order[1:]):
            total[self.parents[place]] += total[place]
        return total

    @property
    def is_static(self) -> bool:
        """Whether nothing of the body can move: a fixed base, and no joint that is not fixed."""
        return not self.floating and self.u.shape[1] == 0

    def moves(self, place: int) -> bool:
        """Whether a link can move."""
        while place > 0 and not self.u_count[place]:
            place = self.parents[place]
        return place > 0 or self.floating

    def turns(self, place: int) -> bool:
        """Whether a torque can turn a link."""
        return self.moves(place) and (len(self.links) > 1 or bool(self.inertia[:, 0].any()))

    def neutral_coordinates(self) -> np.ndarray:
        """Positions at zero, with the base at the origin (W, nq)."""
        q = np.zeros((self.worlds, sum(self.q_count)))
        if self.floating:
            q[:, 6] = 1.0
        for place, link in enumerate(self.links[1:], 1):
            if link.joint_type == JOINT_SPHERICAL:
                q[:, self.q_start[place] + 3] = 1.0
        return q

    def loaded_coordinates(self) -> np.ndarray:
        """Positions as the body was loaded (W, nq)."""
        q = self.neutral_coordinates()
        if self.floating:
            q[:, :7] = self.loaded_pose
        for place, value in self.description.joint_positions.items():
            if self.q_count[place + 1]:
                q[:, self.q_start[place + 1]] = value
        return q

    def _lay_out(self, floating: bool, time_step: float) -> None:
        """Make coordinates, at zero, and servos that hold every joint."""
        self.floating = floating
        self.joint_groups = {}
        counts = [FLOATING if floating else (0, 0)]
        counts += [COORDINATES.get(link.joint_type, (0, 0)) for link in self.links[1:]]
        self.q_count = [c[0] for c in counts]
        self.u_count = [c[1] for c in counts]
        self.q_start = [0, *accumulate(self.q_count[:-1])]
        self.u_start = [0, *accumulate(self.u_count[:-1])]
        single = [place for place, count in enumerate(self.u_count) if place and count == 1]
        self.single_columns = tuple(np.array(starts)[single] for starts in (self.q_start, self.u_start))
        self.q = self.neutral_coordinates()
        self.u = np.zeros((self.worlds, sum(self.u_count)))
        self.servos = self._default_servos(time_step)
        self.joint_infos: dict[int, tuple] = {}
        self.dynamics_infos: dict[int, tuple] = {}
        self.plain_joints = [self._plain_joint(place) for place in self.order[1:]]
        self.pd: PDGains | None = None

    def _plain_joint(self, place: int) -> tuple:
        """What `place_links` needs of a joint: place, parent, type, axes, frames and first coordinates."""
        link, (before, after) = self.links[place], self._offsets[place]
        given = link.axis_length * link.axis
        axes = (link.axis, *(planar_axes(link.axis) if link.joint_type == JOINT_PLANAR else (given, ())))
        return (
            place,
            self.parents[place],
            link.joint_type,
            tuple(tuple(map(float, axis)) for axis in axes),
            _pose_tuples(before),
            _pose_tuples(after),
            self.q_start[place],
            self.u_start[place],
        )

    def _default_servos(self, time_step: float) -> Servos:
        """Motors with a force that gives the default impulse in one step.

        They hold joints with one coordinate at rest, and pull spherical ones to the identity.
        """
        shape = self.u.shape
        mode = np.full(shape, SERVO_ON, np.int32)
        kp = np.zeros(shape, np.float32)
        impulse = np.full(shape[1], DEFAULT_MOTOR_IMPULSE)
        for place, count in enumerate(self.u_count):
            dofs = slice(self.u_start[place], self.u_start[place] + count)
            kind = self.links[place].joint_type
            if not place or kind == JOINT_PLANAR:
                mode[:, dofs] = SERVO_OFF
            elif kind == JOINT_SPHERICAL:
                kp[:, dofs], impulse[dofs] = SPHERICAL_MOTOR_GAIN, SPHERICAL_MOTOR_IMPULSE
        target = self.q.astype(np.float32)
        return Servos(
            mode=mode,
            kp=kp,
            kd=np.ones(shape, np.float32),
            target_q=target,
            target_qd=np.zeros(shape, np.float32),
            max_force=np.tile(impulse / time_step, (shape[0], 1)).astype(np.float32),
            max_speed=np.full(shape, UNLIMITED_SPEED, np.float32),
        )

    def pd_gains(self) -> PDGains:
        """The gains of PD_CONTROL, zero until they are set."""
        if self.pd is None:
            zeros = [np.zeros(self.u.shape, np.float32) for _ in range(4)]
            self.pd = PDGains(zeros[0], zeros[1], self.q.astype(np.float32), zeros[2], zeros[3])
        return self.pd

    def time_step_changed(self, before: float, time_step: float) -> None:
        """Keep the largest impulses of motors, as PyBullet does, for steps of another length.

        Args:
            before: Length of steps so far [s].
            time_step: Their length from now on [s].
        """
        self.servos.max_force *= before / time_step
        if (last := self.last_step) is not None:
            self.last_step = LastStep(before / time_step * last.applied, last.reactions)

    def limits_changed(self) -> None:
        """Store the limits in the form that setters need."""
        self.joint_groups = {}
        pairs = [(float(a), float(b)) for a, b in self.limits[0]]
        if self.worlds > 1:
            pairs = [
                (self.limits[:, i, 0], self.limits[:, i, 1]) if a <= b else (a, b)
                for i, (a, b) in enumerate(pairs)
            ]
        self.limit_pairs = pairs

    def columns(self, place: int) -> tuple[slice, slice]:
        """Columns of `q` and of `u` that belong to a joint."""
        q, u = self.q_start[place], self.u_start[place]
        return slice(q, q + self.q_count[place]), slice(u, u + self.u_count[place])

    def mobility_changes(self) -> bool:
        """Whether the base has become fixed or free by its mass."""
        return self._movable() != self.floating

    def update_mobility(self, time_step: float) -> None:
        """Free or fix the base after a change of its mass, while there is no engine."""
        self.refresh()
        q, u, servos, was = self.q, self.u, self.servos, self.floating
        base = self.pose[:, 0].copy()
        self._lay_out(not was, time_step)
        skip_q, skip_u = FLOATING if was else (0, 0)
        put_q, put_u = FLOATING if self.floating else (0, 0)
        self.q[:, put_q:], self.u[:, put_u:] = q[:, skip_q:], u[:, skip_u:]
        for name in ("mode", "kp", "kd", "target_qd", "max_force", "max_speed"):
            getattr(self.servos, name)[:, put_u:] = getattr(servos, name)[:, skip_u:]
        self.servos.target_q[:, put_q:] = servos.target_q[:, skip_q:]
        if self.waiting is not None:
            torque = np.zeros(self.u.shape)
            torque[:, put_u:] = self.waiting[1][:, skip_u:]
            self.waiting = (self.waiting[0], torque)
        if self.last_step is not None:
            applied = np.zeros(self.u.shape)
            applied[:, put_u:] = self.last_step.applied[:, skip_u:]
            self.last_step = LastStep(applied, self.last_step.reactions)
        self.base_pose, self.driven = base, False
        self.base_twist[...] = 0.0
        if self.floating:
            self.q[:, :7] = base
        self.stale_poses = True

    @property
    def base_coordinates(self) -> np.ndarray:
        """Pose of the base's inertial frame as it was set or stepped to (W, 7)."""
        return self.q[:, :7] if self.floating else self.base_pose

    @property
    def base_rates(self) -> np.ndarray:
        """(ω, v) of the base as they were set or stepped to (W, 6)."""
        return self.u[:, :6] if self.floating else self.base_twist

    def refresh(self) -> None:
        """Make poses and velocities agree with the coordinates, on the host in float64."""
        if not self.stale_poses:
            return
        self.stale_poses = False
        self.pose[:, 0], self.twist[:, 0] = self.base_coordinates, self.base_rates
        if self.worlds == 1:
            q, u = self.q[0].tolist(), self.u[0].tolist()
            place_links(self.plain_joints, q, u, self.pose[0], self.twist[0])
            return
        for place in self.order[1:]:
            self._place(place)

    def drive(self, time_step: float) -> None:
        """Move the base of a driven body at its velocity for some time."""
        angle = np.linalg.norm(self.base_twist[:, :3], axis=1, keepdims=True) * time_step
        axis = self.base_twist[:, :3] * time_step / np.where(angle > 0.0, angle, 1.0)
        turn = np.concatenate([np.sin(0.5 * angle) * axis, np.cos(0.5 * angle)], axis=1)
        self.base_pose[:, :3] += time_step * self.base_twist[:, 3:]
        self.base_pose[:, 3:] = quat_multiply(turn, self.base_pose[:, 3:])
        self.pose[:, 0], self.twist[:, 0] = self.base_pose, self.base_twist

    def _place(self, place: int) -> None:
        """Pose and velocity of one link from those of its parent."""
        parent, link = self.parents[place], self.links[place]
        before, after = self._offsets[place]
        joint = transform_multiply(self.pose[:, parent], before)
        i, d = self.q_start[place], self.u_start[place]
        axis, kind = link.axis, link.joint_type
        move = np.tile(np.array(IDENTITY), (self.worlds, 1))
        w, v = np.zeros((self.worlds, 3)), np.zeros((self.worlds, 3))
        if kind == JOINT_REVOLUTE:
            half = 0.5 * self.q[:, i]
            move[:, 3:6], move[:, 6] = np.sin(half)[:, None] * axis, np.cos(half)
            w = self.u[:, d : d + 1] * link.axis_length * axis
        elif kind == JOINT_PRISMATIC:
            move[:, :3] = self.q[:, i : i + 1] * link.axis_length * axis
            v = self.u[:, d : d + 1] * link.axis_length * axis
        elif kind == JOINT_SPHERICAL:
            move[:, 3:] = self.q[:, i : i + 4]
            w = self.u[:, d : d + 3]
        elif kind == JOINT_PLANAR:
            first, second = planar_axes(axis)
            half = 0.5 * self.q[:, i + 2]
            move[:, :3] = self.q[:, i : i + 1] * first + self.q[:, i + 1 : i + 2] * second
            move[:, 3:6], move[:, 6] = np.sin(half)[:, None] * axis, np.cos(half)
            v = self.u[:, d : d + 1] * first + self.u[:, d + 1 : d + 2] * second
            w = self.u[:, d + 2 : d + 3] * axis
        frame = transform_multiply(joint, move)
        pose = transform_multiply(frame, after)
        self.pose[:, place] = pose
        turn = self.twist[:, parent, :3]
        omega = turn + quat_rotate(joint[:, 3:], w)
        arm = frame[:, :3] - self.pose[:, parent, :3]
        at_joint = self.twist[:, parent, 3:] + np.cross(turn, arm) + quat_rotate(joint[:, 3:], v)
        self.twist[:, place, :3] = omega
        self.twist[:, place, 3:] = at_joint + np.cross(omega, pose[:, :3] - frame[:, :3])

    def link_frames(self) -> np.ndarray:
        """World poses of the link frames (W, links, 7); the poses must be fresh."""
        return transform_multiply(self.pose, self.inverse_inertial)

    def _inertial_changed(self) -> None:
        """Store inertial frames in the forms that getters need."""
        q = quat_conjugate(self.inertial[:, 3:])
        self.inverse_inertial = np.concatenate([-quat_rotate(q, self.inertial[:, :3]), q], axis=1)
        self.centred = [bool(np.array_equal(row, IDENTITY)) for row in self.inertial]
        self.inertial_tuples = [_pose_tuples(row) for row in self.inertial]
        self.inverse_tuples = [_pose_tuples(row) for row in self.inverse_inertial]

    def joint_frames(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Frame of a joint at rest in the inertial frame of the parent, and of the child (7,) each."""
        before, after = self._offsets[place]
        q = quat_conjugate(after[3:])
        return before, np.concatenate([-quat_rotate(q, after[:3]), q])

    def joint_in_link(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the joint of a link is, and its axis, in the inertial frame of the link (3,) each."""
        found = self._anchors.get(place)
        if found is None:
            _, frame = self.joint_frames(place)
            found = self._anchors[place] = frame[:3], quat_rotate(frame[3:], self.links[place].axis)
        return found


def fresh_body(uid: int, description: BodyDescription, worlds: int, time_step: float) -> Body:
    """Return a body as it is loaded; see `Body`.

    Where a file is loaded again and again, all but the first are copied from one that nobody has.
    """
    patterns = description.patterns
    if patterns is None or worlds > 1:
        return Body(uid, description, worlds, time_step)
    pattern = patterns.get(time_step)
    if not isinstance(pattern, Body):
        patterns.clear()
        pattern = patterns[time_step] = Body(uid, description, worlds, time_step)
    return pattern.renewed(uid, description)


def _repeated(values: Sequence, worlds: int) -> np.ndarray:
    """The same values for each world; `numpy.tile` takes four times as long."""
    return np.array([values] * worlds)


def _pose_tuples(row: np.ndarray) -> tuple[tuple, tuple]:
    return tuple(row[:3].tolist()), tuple(row[3:].tolist())


def planar_axes(normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors that span the plane of a planar joint."""
    first = np.zeros(3)
    first[int(np.argmin(np.abs(normal)))] = 1.0
    first = np.cross(np.cross(normal, first), normal)
    first /= np.linalg.norm(first)
    return first, np.cross(normal, first)


def _joint_offsets(links: list[Link], place: int, parents: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Joint frame in the parent's inertial frame, and the own inertial frame in the joint frame."""
    link = links[place]
    if place == 0:
        return Pose.identity().row(), link.inertial_pose.row()
    parent = links[parents[place]].inertial_pose
    return (parent.inverse() @ link.joint_pose).row(), link.inertial_pose.row()


def _outwards(parents: list[int]) -> list[int]:
    """Places of links in an order in which parents come before their children."""
    children: list[list[int]] = [[] for _ in parents]
    for place, parent in enumerate(parents[1:], 1):
        children[parent].append(place)
    order = [0]
    for place in order:
        order.extend(children[place])
    return order
