"""The definition of an environment: its world, actions, observations and rewards."""

from __future__ import annotations

import dataclasses
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import warp as wp
from gymnasium import spaces

from newtonsim.envs.stages import KernelSequence
from newtonsim.envs.values import check_kind
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.kernels.envs import actions
from newtonsim.runtime.arguments import Kernel
from newtonsim.solvers import FeatherstoneSolver

if TYPE_CHECKING:
    from newtonsim.actuators import Actuator
    from newtonsim.builder import ModelBuilder
    from newtonsim.envs.sensors import Sensor
    from newtonsim.envs.vision import CameraSensor
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.model import Model
    from newtonsim.solvers import SolverBase

Stage = wp.Kernel | KernelSequence | Callable[..., None]
"""A kernel, a sequence of kernels of terms, or a Python function of a `HostView`."""


@dataclass
class Motors:
    """The motors that the actions of a world drive.

    Tasks with their own `act` may have more axes than actions.

    Attributes:
        axes: Joint axis of each action, counted from the first of its world.
        gears: Effort [N m or N], or target of a drive [rad, m, rad/s or m/s], at action 1.
        low: Smallest action.
        high: Largest action.
    """

    axes: list[int] = field(default_factory=list)
    gears: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    @classmethod
    def of_report(cls, actuators: list[dict[str, Any]]) -> Motors:
        """Return the motors that an importer found, `ImportReport.actuators`."""
        ranges = [a["ctrl_range"] or (-1.0, 1.0) for a in actuators]
        return cls(
            [int(a["axis"]) for a in actuators],
            [float(a["scale"]) for a in actuators],
            [float(low) for low, _ in ranges],
            [float(high) for _, high in ranges],
        )


_LARGEST = 4
"""Number of parts that an advice names."""


@dataclass(frozen=True)
class Metric:
    """What tells people how well worlds do their task, such as a distance, in the units of the quantity.

    Attributes:
        values: The quantity, one for each world or episode.
        unit: Its unit, "" for none.
        at_rest: What it would be for a robot that stands still, where that says something; None elsewhere.
        parts: The same of single parts of the robot, by name.
        most: Mean above which commands give the advice.
        advice: What this means, and what to do.
    """

    values: np.ndarray
    unit: str = ""
    at_rest: np.ndarray | None = None
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    most: float = math.inf
    advice: str = ""

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        rest = "" if self.at_rest is None else f" ({np.nanmean(self.at_rest):.2f} standing still)"
        return f"{np.nanmean(self.values):.{1 if self.unit == '%' else 3}f}{unit}{rest}"

    def advise(self, name: str) -> str:
        """Return the advice with figures and the parts that have most, given its name; "" if it is small."""
        known = self.values[np.isfinite(self.values)]
        if not known.size or known.mean() <= self.most:
            return ""
        means = {part: float(np.nanmean(values)) for part, values in self.parts.items()}
        largest = sorted(means, key=lambda part: -means[part])[:_LARGEST]
        of_parts = ", ".join(f"{part} {means[part]:.0f}" for part in largest if means[part] > 0.0)
        return f"{name} {self}{f' ({of_parts})' if of_parts else ''}: {self.advice}"

    def table(self) -> np.ndarray:
        """Return all numbers, a row for each world or episode."""
        rest = [] if self.at_rest is None else [self.at_rest]
        return np.stack([self.values, *rest, *self.parts.values()], axis=1)

    def with_table(self, table: np.ndarray) -> Metric:
        """Return the metric with the numbers of other worlds or episodes, in the order of `table`."""
        values, *others = table.T
        rest = None if self.at_rest is None else others.pop(0)
        return dataclasses.replace(self, values=values, at_rest=rest, parts=dict(zip(self.parts, others)))

    @staticmethod
    def joined(several: Sequence[Metric]) -> Metric:
        """Return the metric of all worlds or episodes, from those of several."""
        return several[0].with_table(np.concatenate([one.table() for one in several]))


def joined_metrics(parts: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    """Return the metrics by name of all worlds or episodes, from those of several."""
    return {name: Metric.joined([part[name] for part in parts]) for name in parts[0]}


def _check_names(task: type[Task], names: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error that gives the first unknown name."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            listed = ", ".join(known) or "none"
            label = getattr(task, "name", task.__name__)
            raise NewtonsimError(f"{label}: there is no option {name!r}{hint}; there are {listed}")


class Task(ABC):
    """Base of environments: one world, and kernels that act on it, observe it, score it and start its
    episodes.

    Every kernel has one thread per world, with index `first + wp.tid()`. `act` and `score` take
    `(first: int, env: EnvView)`; `observe` and `spawn` take `(first: int, env: EnvView, mask:
    wp.array(dtype=bool))` and skip worlds that are not in the mask. Each of the first three may also be a
    Python function of a `HostView`, which is slower: it runs between captured graphs.
    A kernel may have a team of threads per world instead, by `teams: Teams` in the place of `first`, see
    `newtonsim.kernels.algebra.teams`.

    - `act` writes `joint_act`, `joint_f` or `body_f` from `actions`; the default drives the motors.
    - `observe` writes the world's row of `obs` from the state.
    - `privileged`, if there is one, has the arguments of `observe`; in its view the row of `obs` is that of
    what only critics observe, of `privileged_size` numbers. It must be a kernel.
    - `score` writes `reward` and `terminated`. It runs after `observe`.
    - `spawn` writes `joint_q` and `joint_qd` of a fresh episode, by `random_of(env, world, SPAWN)`. Before,
    these hold the model's initial values.

    Args:
        options: Values for fields of `defaults`.

    Raises:
        NewtonsimError: There is no such option, or a value has another type than its default.

    Attributes:
        name: Name of the environment, without version.
        dt: Time of a solver step [s].
        frame_skip: Solver steps per action.
        episode_steps: Steps after which an episode is truncated.
        observation_size: Size of an observation.
        privileged_size: Size of what only critics observe in addition, 0 for nothing.
        memory_size: Number of values that the task remembers of a world from step to step, zero at the start
            of an episode.
        kept_size: Number of values that it remembers of a world from episode to episode, zero in the first
            one after seeding.
        has_terrain: Whether `spawn` starts on the level in `EnvView.terrain`, unless that is negative.
        contact_wrenches: Whether the kernels need the wrenches of contacts and constraints in
            `EnvView.body_wrench`, averaged over the last solver step; `FeatherstoneSolver` only.
        has_goal: Whether `score` writes to `EnvView.success` whether the goal is reached, for "is_success" in
            the infos.
        discrete_actions: Number of actions if they are discrete, 0 if they are continuous.
        camera_eye: Position of the camera of `render` [m].
        camera_target: Point that it looks at [m].
        camera_follows: Whether both move along the ground with the first body.
        camera_turns: Whether they also turn about the vertical with the body's x axis.
        defaults: Default values of the options, by name. If a default is True or False, a float or a range
            (low, high), other values must have the same type.
        options: The values in use.
        sensor_columns: Columns of `EnvView.sensed` that each of `sensors` has; set by the environment.
    """

    name: ClassVar[str]
    dt: float
    frame_skip: int = 1
    episode_steps: ClassVar[int] = 1000
    kept_size: ClassVar[int] = 0
    has_terrain: ClassVar[bool] = False
    contact_wrenches: ClassVar[bool] = False
    has_goal: ClassVar[bool] = False
    memory_size: int = 0
    discrete_actions: int = 0
    observation_size: int
    privileged_size: int = 0
    sensor_columns: Mapping[str, slice]
    defaults: ClassVar[Mapping[str, Any]] = {}

    camera_eye: ClassVar[tuple[float, float, float]] = (0.0, -3.0, 1.5)
    camera_target: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.8)
    camera_follows: ClassVar[bool] = False
    camera_turns: ClassVar[bool] = False

    act: ClassVar[Stage] = actions.drive_motors
    observe: ClassVar[Stage]
    privileged: ClassVar[Kernel | None] = None
    score: ClassVar[Stage]
    spawn: ClassVar[Kernel | None] = None

    def camera_pose(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Return the position of the camera of `render` and the point that it looks at [m].

        They are `camera_eye` and `camera_target`; tasks whose robots have other sizes move them.
        """
        return self.camera_eye, self.camera_target

    def __init__(self, **options: Any):
        _check_names(type(self), options, self.defaults)
        for name, value in options.items():
            check_kind(f"{self.name}: {name}", value, self.defaults[name])
        self.options = {**self.defaults, **options}

    @classmethod
    def check_names(cls, names: Iterable[str], others: Sequence[str] = ()) -> None:
        """Raise an error unless all names are names of options.

        Args:
            names: The names; fields of `defaults` and arguments of the class are valid.
            others: Further valid names.

        Raises:
            NewtonsimError: One is not; the error lists the valid ones.
        """
        _check_names(cls, names, [*cls._option_names(), *others])

    @classmethod
    def _option_names(cls) -> list[str]:
        """Return the names of the arguments of the class."""
        found: list[str] = []
        for owner in cls.__mro__:
            if "__init__" not in vars(owner):
                continue
            _self, *parameters = inspect.signature(vars(owner)["__init__"]).parameters.values()
            found += [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            # without **options none goes on to the base
            if owner is Task or all(p.kind is not p.VAR_KEYWORD for p in parameters):
                return found if owner is not Task else [*cls.defaults, *found]
        return found

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str]:
        """Return the names of those of some options whose values are paths of files; none by default."""
        return []

    @abstractmethod
    def build(self, builder: ModelBuilder) -> Motors:
        """Put one world into an empty z-up builder.

        Returns:
            The motors that the actions drive.
        """

    def stage(self, name: str) -> Stage | None:
        """Return "act", "observe", "privileged", "score" or "spawn"; called before `build`.

        None if there is none, as may be the case for "privileged" and "spawn".
        """
        return getattr(type(self), name, None)

    def bind(self, model: Model) -> None:  # noqa: B027 - nothing by default
        """Receive the model of all worlds, before the first stage runs; the sensors have their columns."""

    def finish_scene(self, scene: ModelBuilder) -> None:  # noqa: B027 - nothing by default
        """Add what all worlds share, such as the ground, to the builder that holds all of them."""

    def make_solver(self, model: Model) -> SolverBase:
        """Return the solver of the worlds."""
        return FeatherstoneSolver(model)

    def actuators(self) -> Mapping[str | tuple[str, ...], Actuator]:
        """Return the actuators of a world by pattern of the names of its joints, see `Actuators`.

        In every solver step they act between `joint_act`, which `act` writes, and the joints.
        """
        return {}

    def sensors(self) -> Mapping[str, Sensor]:
        """Return the sensors of a world, by name; called after `build`.

        Kernels find their readings in `EnvView.sensed`, in the columns of `sensor_columns`.
        """
        return {}

    def standard_sensors(self) -> Mapping[str, Sensor]:
        """Return the sensors that the task itself needs, whatever `sensors` of a subclass adds, by name."""
        return {}

    def numbers(self) -> list[float]:
        """Return the constants that the kernels find in `EnvView.numbers`."""
        return []

    def camera_sensor(self) -> CameraSensor | None:
        """Return the camera whose pictures are the observation, None if `observe` writes the observation.

        `observe` always writes its numbers, for `score` and for learners that use both.
        """
        return None

    def symmetry(self, model: Model) -> Any:
        """Return a `newtonsim.envs.terms.symmetry.Symmetry`: how the task is mirrored at the plane y = 0.

        None, the default, if that is unknown. Only called if it is needed, after `bind`.

        Args:
            model: The model of all worlds.

        Raises:
            NewtonsimError: The world is not symmetric.
        """
        return None

    def metrics(self, env: EnvView) -> dict[str, Metric]:
        """Return what tells people how well each world does its task now, by name; nothing by default.

        Commands of newtonsim show means over time, in this order. It waits for a GPU.
        """
        return {}

    def observation_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper bounds of observations, (observation_size,) each."""
        high = np.full(self.observation_size, np.inf, np.float32)
        return -high, high

    def observation_space(self) -> spaces.Box:
        """Return the space of the observations of one world."""
        sensor = self.camera_sensor()
        if sensor is not None:
            return sensor.space()
        low, high = self.observation_bounds()
        return spaces.Box(low, high, dtype=np.float32)
