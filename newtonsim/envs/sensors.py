"""Sensors that a task puts on its robot; they are read in every step, within the captured graph."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.actuators import ActuatedSolver
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.geometry.transforms import as_transform, warp_transform
from newtonsim.kernels.envs import heights
from newtonsim.kernels.envs import sensors as envs_sensors
from newtonsim.queries.scene_query import SceneQuery
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.simulator import Simulator
    from newtonsim.solvers import SolverBase

Element = int | str
"""Body or joint of a world, by its index there or by its name."""


class Sensor(ABC):
    """Type of the sensors that `Task.sensors` returns."""

    @abstractmethod
    def attach(self, site: Site, column: int) -> AttachedSensor:
        """Return the sensor in all worlds of a model.

        Args:
            site: What it is attached to.
            column: First column of its readings in `EnvView.sensed`.

        Raises:
            NewtonsimError: An argument does not fit the world.
        """


@dataclass(frozen=True)
class Site:
    """What sensors are attached to.

    Attributes:
        name: Name of the sensor, for messages.
        world: One world, as the task built it.
        model: Model of all worlds.
        solver: Their solver.
        dt: Time of a step of the environment [s].
    """

    name: str
    world: ModelBuilder
    model: Model
    solver: SolverBase
    dt: float

    @property
    def solver_name(self) -> str:
        """Name of the solver, that behind the actuators if there are some."""
        solver = self.solver
        return type(solver.solver if isinstance(solver, ActuatedSolver) else solver).__name__

    def index(self, kind: str, element: Element) -> int:
        """Return the index of a "body" or "joint" within its world."""
        keys = getattr(self.world, f"{kind}_key")
        if isinstance(element, str):
            if element not in keys:
                hint = did_you_mean(element, keys)
                raise NewtonsimError(f"sensor {self.name!r}: there is no {kind} {element!r}{hint}")
            return keys.index(element)
        if not 0 <= element < len(keys):
            raise NewtonsimError(
                f"sensor {self.name!r}: {kind}: expected a name or 0..{len(keys) - 1}, got {element!r}"
            )
        return int(element)

    def indices(self, kind: str, elements: Sequence[Element]) -> list[int]:
        """Return the indices of bodies or joints, see `index`."""
        if isinstance(elements, str):
            raise NewtonsimError(f"sensor {self.name!r}: expected a list, [{elements!r}], got {elements!r}")
        return [self.index(kind, element) for element in elements]

    def pose(self, name: str, given: Sequence[float]) -> wp.transform:
        """Return a pose [m, quaternion xyzw] as a transform with a unit quaternion.

        Raises:
            NewtonsimError: It is not a pose; the error starts with the sensor and the name.
        """
        name = f"sensor {self.name!r}: {name}"
        pose = as_transform(given, name)
        if not np.isfinite(pose).all():
            raise NewtonsimError(f"{name}: expected finite numbers, got {given}")
        return warp_transform(pose)

    def check_noise(self, noise: float | Sequence[float]) -> None:
        """Raise an error unless the values are standard deviations."""
        if not all(0.0 <= value < math.inf for value in np.ravel(noise)):
            raise NewtonsimError(f"sensor {self.name!r}: noise: expected numbers of at least 0, got {noise}")


class AttachedSensor(ABC):
    """A sensor in all worlds, which launches kernels.

    Attributes:
        deviations: Standard deviation of the noise on each of its readings.
    """

    deviations: list[float]

    def launch_before(self, launch: Launcher, env: EnvView) -> None:  # noqa: B027 - most need nothing
        """Launch what must be recorded before the physics of a step."""

    @abstractmethod
    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        """Write the readings of the masked worlds.

        Args:
            launch: Launcher for these worlds.
            env: The environment.
            sim: The simulation.
            mask: Worlds, bool, shape (num_envs,).
            fresh: 1 if they are at the start of an episode, 0 after a step.
        """


@dataclass(frozen=True)
class Imu(Sensor):
    """Inertial measurement unit; 10 readings, in the axes of the sensor.

    - Specific force [m/s²] (3): acceleration minus gravity, so +g upward at rest and 0 in free fall. It is
    averaged over the step of the environment, as real units integrate it. In the first observation of an
    episode it is that of a body that does not accelerate.
    - Angular velocity [rad/s] (3).
    - Orientation of the sensor in the world, quaternion xyzw (4).

    Attributes:
        body: Body that carries it.
        pose: Of the sensor in the body's frame: position [m] and quaternion xyzw, 7 numbers.
        noise: Standard deviations of specific force [m/s²] and angular velocity [rad/s].
    """

    body: Element
    pose: Sequence[float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    noise: tuple[float, float] = (0.0, 0.0)

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        view = envs_sensors.ImuView()
        view.body, view.column = site.index("body", self.body), column
        view.pose = site.pose("pose", self.pose)
        view.gravity = site.model.gravity_vec
        worlds, device = site.model.world_count, site.model.device
        view.velocity = zeros(worlds, dtype=wp.vec3, device=device)
        view.orientation = zeros(worlds, dtype=wp.quat, device=device)
        return _AttachedImu(view, [self.noise[0]] * 3 + [self.noise[1]] * 3 + [0.0] * 4)


@dataclass(frozen=True)
class ContactSensor(Sensor):
    """Net force of the contacts of bodies; 4 readings for each.

    Force [N] (3), world axes, averaged over the last solver step, and 1 if its magnitude exceeds the
    threshold, else 0. Zero in the first observation of an episode. Needs a solver with `external_wrenches`.

    Attributes:
        bodies: Bodies.
        threshold: Force above which a contact counts as touch [N].
        noise: Standard deviation of the components of the force [N]; touch has no noise.
    """

    bodies: Sequence[Element]
    threshold: float = 1.0
    noise: float = 0.0

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        if not hasattr(site.solver, "external_wrenches"):
            solver = site.solver_name
            raise NewtonsimError(
                f"sensor {site.name!r}: it reads contact forces, which {solver} does not report; "
                "FeatherstoneSolver does"
            )
        if not 0.0 <= self.threshold < math.inf:
            raise NewtonsimError(
                f"sensor {site.name!r}: threshold: expected a force of at least 0, got {self.threshold}"
            )
        bodies = site.indices("body", self.bodies)
        return _AttachedContacts(site.model, bodies, self.threshold, column, self.noise)


@dataclass(frozen=True)
class JointSensor(Sensor):
    """Positions, velocities and efforts of joints; 3 readings for each degree of freedom, n of each kind.

    Positions [rad or m], velocities [rad/s or m/s], efforts [N m or N] that drives, actuators and `joint_f`
    exert at the end of the last solver step, excluding friction, damping and limits of the joint; they are
    zero in the first observation of an episode.

    Attributes:
        joints: Joints whose coordinates are angles or lengths; None for all of these.
        noise: Standard deviations of positions, velocities and efforts.
    """

    joints: Sequence[Element] | None = None
    noise: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        tree = topology_of(site.model).view
        axis, coord = tree.dof_axis.numpy(), tree.dof_coord.numpy()
        measured = (axis >= 0) & (coord >= 0)
        starts = site.model.joint_qd_start.numpy()
        every = range(site.world.joint_count)
        joints = every if self.joints is None else site.indices("joint", self.joints)
        dofs: list[int] = []
        for joint in joints:
            own = [d for d in range(starts[joint], starts[joint + 1]) if measured[d]]
            if not own and self.joints is not None:
                key = site.world.joint_key[joint]
                raise NewtonsimError(f"sensor {site.name!r}: joint {key!r} has no angle or length")
            dofs += own
        return _AttachedJoints(site.model, dofs, coord[dofs], axis[dofs], column, self.noise)


@dataclass(frozen=True)
class HeightScan(Sensor):
    """Heights of the ground about a body; one reading for each point of a grid, y varying fastest.

    The grid is level, centred at the origin of the body, and turns with its heading, the horizontal direction
    of the body's x axis. A reading is the height of the highest shape below the start of a ray, minus the
    height of the body's origin [m]; -depth if there is none. Rays hit colliding shapes of their own world and
    the global one, but not the robot itself, that is bodies on the same tree as `body`.

    Attributes:
        body: Body in the middle of the grid.
        x: Positions ahead of the body [m].
        y: Positions to its left [m].
        above: Height above the body at which rays start [m]; higher shapes are not seen.
        depth: Depth below the body at which rays end [m].
        noise: Standard deviation [m].
    """

    body: Element
    x: Sequence[float] = field(default_factory=lambda: np.linspace(-0.8, 0.8, 17).tolist())
    y: Sequence[float] = field(default_factory=lambda: np.linspace(-0.5, 0.5, 11).tolist())
    above: float = 1.0
    depth: float = 2.0
    noise: float = 0.0

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        for name in ("above", "depth"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise NewtonsimError(
                    f"sensor {site.name!r}: {name}: expected a length above 0, got {getattr(self, name)}"
                )
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        if min(x.size, y.size) == 0 or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise NewtonsimError(
                f"sensor {site.name!r}: expected positions x and y, got {self.x} and {self.y}"
            )
        model, view = site.model, heights.ScanView()
        view.body, view.column = site.index("body", self.body), column
        view.above, view.depth = self.above, self.depth
        view.x = put(np.repeat(x, y.size), dtype=float, device=model.device)
        view.y = put(np.tile(y, x.size), dtype=float, device=model.device)
        return _AttachedScan(model, view, [self.noise] * (x.size * y.size))


class SensorSet:
    """All sensors of an environment.

    Args:
        sensors: Sensors by name.
        world: One world, as the task built it.
        model: Model of all worlds.
        solver: Their solver.
        dt: Time of a step of the environment [s].

    Attributes:
        columns: Columns of the readings of each in `EnvView.sensed`.
        size: Number of readings in a world.
    """

    def __init__(
        self,
        sensors: Mapping[str, Sensor],
        world: ModelBuilder,
        model: Model,
        solver: SolverBase,
        dt: float,
    ):
        self.columns: dict[str, slice] = {}
        self.size = 0
        self._attached: list[AttachedSensor] = []
        for name, sensor in sensors.items():
            if not isinstance(sensor, Sensor):
                raise NewtonsimError(
                    f"sensor {name!r}: expected a sensor such as Imu('trunk'), got {sensor!r}"
                )
            attached = sensor.attach(Site(name, world, model, solver, dt), self.size)
            end = self.size + len(attached.deviations)
            self.columns[name], self.size = slice(self.size, end), end
            self._attached.append(attached)
        deviations = [d for attached in self._attached for d in attached.deviations]
        self._deviation = put(deviations, dtype=float, device=model.device) if any(deviations) else None
        self._starts = range(0, model.world_count * self.size + 1, self.size) if self.size else None

    def launch_before(self, launch: Launcher, env: EnvView) -> None:
        """Launch what must be recorded before the physics of a step."""
        for attached in self._attached:
            attached.launch_before(launch, env)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: bool) -> None:
        """Write `EnvView.sensed` of the masked worlds; see `AttachedSensor.launch`."""
        for attached in self._attached:
            attached.launch(launch, env, sim, mask, int(fresh))
        if self._deviation is not None:
            over = over_kind(launch, "reading", self._starts)
            over(
                envs_sensors.add_noise,
                "reading",
                reads=dict(deviation=self._deviation, mask=mask, fresh=int(fresh)),
                writes=dict(env=env),
            )


class _AttachedImu(AttachedSensor):
    def __init__(self, view: envs_sensors.ImuView, deviations: list[float]):
        self._view, self.deviations = view, deviations

    def launch_before(self, launch: Launcher, env: EnvView) -> None:
        launch(envs_sensors.note_motion, "world", reads=dict(env=env), writes=dict(imu=self._view))

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        launch(
            envs_sensors.sense_motion,
            "world",
            reads=dict(imu=self._view, mask=mask, fresh=fresh),
            writes=dict(env=env),
        )


class _AttachedContacts(AttachedSensor):
    def __init__(self, model: Model, bodies: list[int], threshold: float, column: int, noise: float):
        self.deviations = [noise, noise, noise, 0.0] * len(bodies)
        self._wrench = zeros(model.body_count, dtype=wp.spatial_vector, device=model.device)
        self._bodies = put(bodies, dtype=int, device=model.device)
        self._threshold, self._column = threshold, column

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        if not fresh:
            sim.solver.external_wrenches(launch.shard, sim.dt / sim.substeps, self._wrench, constraints=False)  # pyright: ignore[reportAttributeAccessIssue]
        launch(
            envs_sensors.sense_touch,
            "world",
            reads=dict(
                wrench=self._wrench,
                body=self._bodies,
                threshold=self._threshold,
                column=self._column,
                mask=mask,
                fresh=fresh,
            ),
            writes=dict(env=env),
        )


class _AttachedJoints(AttachedSensor):
    def __init__(self, model: Model, dof, coord, axis, column: int, noise: tuple[float, float, float]):
        self.deviations = np.repeat(noise, len(dof)).tolist()
        self._dof, self._coord, self._axis = (
            put(values, dtype=int, device=model.device) for values in (dof, coord, axis)
        )
        self._column = column

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        control = applied_control(sim)
        launch(
            envs_sensors.sense_joints,
            "world",
            reads=dict(
                drive=launch.views.drive,
                act=control.joint_act,
                force=control.joint_f,
                dof=self._dof,
                coord=self._coord,
                axis=self._axis,
                column=self._column,
                mask=mask,
                fresh=fresh,
            ),
            writes=dict(env=env),
        )


class _AttachedScan(AttachedSensor):
    def __init__(self, model: Model, view: heights.ScanView, deviations: list[float]):
        self._view, self.deviations = view, deviations
        worlds, rays = model.world_count, len(deviations)
        self._query = SceneQuery(model, without=shapes_of_robots(model, view.body))
        self._starts = range(0, worlds * rays + 1, rays)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        scene = self._query.launch_update(launch, env.body_q)
        over = over_kind(launch, "ray", self._starts)
        over(
            heights.scan_heights,
            "ray",
            reads=dict(scan=self._view, scene=scene, mask=mask),
            writes=dict(env=env),
        )


def applied_control(sim: Simulator) -> Control:
    """Return the control that the solver receives: the users' commands, or what actuators make of them."""
    solver = sim.solver
    return solver.actuators.driven if isinstance(solver, ActuatedSolver) else sim.control


def over_kind(launch: Launcher, kind: str, starts: range) -> Launcher:
    """Return a launcher for the same worlds with one more kind of index."""
    return Launcher(launch.model, record_tape=False, shard=launch.shard.with_starts({kind: starts}))


def shapes_of_robots(model: Model, body: int) -> np.ndarray:
    """Return the shapes of this body of each world and of its whole tree, bool (shape_count,)."""
    if not model.shape_count:
        return np.zeros(0, bool)
    bodies = np.arange(body, model.body_count, model.body_count // model.world_count)
    tree = np.append(topology_of(model).body_tree, -1)
    carrier = model.shape_body.numpy()
    on_tree = (tree[carrier] >= 0) & np.isin(tree[carrier], tree[bodies])
    return on_tree | np.isin(carrier, bodies)
