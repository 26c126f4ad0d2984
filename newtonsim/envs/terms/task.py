"""A task composed of terms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np
import warp as wp

from newtonsim.envs.stages import KernelSequence
from newtonsim.envs.task import Motors, Stage, Task
from newtonsim.envs.terms import library
from newtonsim.envs.terms.robot_mirror import RobotMirror
from newtonsim.envs.terms.robots import ZOO, BuiltRobot, Robot, body_names_of
from newtonsim.envs.terms.symmetry import SignedPermutation, Symmetry
from newtonsim.envs.terms.term import (
    PER_ACTION,
    PER_BODY,
    PER_JOINT,
    Action,
    Ending,
    Event,
    Observation,
    Reward,
    Term,
    changed,
)
from newtonsim.envs.terms.term_mirror import TermMirror
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.fields.table import find_field
from newtonsim.fields.view import View
from newtonsim.kernels.envs.terms.rewards import begin_score
from newtonsim.kernels.envs.terms.views import TermView
from newtonsim.scene.allocation import put
from newtonsim.scene.enums import GeoType

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.model import Model

_STAGES = ("act", "observe", "privileged", "score", "spawn")
_COMMAND = 3
"""Size of a command, which comes first in the memory; the last two actions follow."""


class TermTask(Task):
    """Base of tasks composed of terms, for the robots of the zoo or any other one.

    `action`, `observation_terms`, `privileged_terms`, `reward_terms`, `end_terms` and `event_terms` return
    the terms. The options `observations`, `privileged`, `rewards`, `ends` and `events` change them by name:
    None removes a term, a number is its weight, a dict has arguments of a term of
    `newtonsim.envs.terms.library`, and a `Term` is added or replaces one. Privileged terms are observations
    that critics have in addition to those of policies.

    The robot is one of `ZOO` by name, a `Robot`, or the path of a file; then the options `base`, `feet`,
    `joints`, `home` and so on set the fields of `Robot`.

    Attributes:
        built: The robot within a world; after `build`.
        zoo: The robot by default.
        fixed_base: Whether a robot of a URDF file, which does not say so, is fixed to the world.
        action_scale: Shift of a drive's target at action 1, of robots that have none [rad or m].
    """

    zoo: ClassVar[str]
    has_ground: ClassVar[bool] = True
    fixed_base: ClassVar[bool] = False
    action_scale: ClassVar[float] = 0.25
    defaults: ClassVar[Mapping[str, Any]] = {
        "robot": None,
        "base": None,
        "feet": None,
        "foot_point": None,
        "foot_height": None,
        "sole_height": None,
        "joints": None,
        "home": None,
        "keyframe": None,
        "height": None,
        "stiffness": None,
        "damping": None,
        "action_scale": None,
        "self_collisions": False,
        "mirror": {},
        "mirror_tolerance": 0.01,
        "observations": {},
        "privileged": {},
        "rewards": {},
        "ends": {},
        "events": {},
    }

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.robot = self._find_robot()
        self._stages = {name: KernelSequence() for name in _STAGES}

    def _find_robot(self) -> Robot:
        """Return the robot that the options name."""
        o = self.options
        given = o["robot"] if o["robot"] is not None else self.zoo
        fields: dict[str, Any]
        if isinstance(given, Robot):
            fields = dict(vars(given))
        elif given in ZOO:
            fields = dict(vars(ZOO[given]))
        elif _is_path(given):
            fields = {"file": given, "floating": not self.fixed_base}
        else:
            hint = did_you_mean(str(given), ZOO)
            raise NewtonsimError(
                f"{self.name}: robot: there is no {given!r}{hint}; there are {', '.join(ZOO)}, paths of "
                "files and objects of Robot"
            )
        names = ("base", "feet", "foot_point", "foot_height", "sole_height", "joints", "home", "keyframe")
        for name in (*names, "height", "stiffness", "damping", "action_scale"):
            if o[name] is not None:
                fields[name] = tuple(o[name]) if isinstance(o[name], list) else o[name]
        if "base" not in fields:
            names = ", ".join(map(repr, body_names_of(Robot(base="*", **fields))))
            raise NewtonsimError(
                f"{self.name}: base: unknown for {given}; give the body that stands for the robot, such as "
                f"its trunk, or the hand of an arm; there are {names}"
            )
        return Robot(**fields)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str]:
        """See `Task.files`."""
        return ["robot"] if _is_path(options.get("robot")) else []

    def action(self) -> Action:
        """Return what actions do; by default they shift the targets of the drives from home."""
        robot = self.built.robot
        if robot.rotors:
            return library.thrust(
                robot.most_thrust, [r.place for r in robot.rotors], [r.drag for r in robot.rotors]
            )
        return library.aim(self.built.scale)

    @abstractmethod
    def observation_terms(self) -> dict[str, Observation]:
        """Return the terms of the observation, in order."""

    def privileged_terms(self) -> dict[str, Observation]:
        """Return the terms that only critics observe, in order; none by default."""
        return {}

    @abstractmethod
    def reward_terms(self) -> dict[str, Reward]:
        """Return the terms of the reward."""

    @abstractmethod
    def event_terms(self) -> dict[str, Event]:
        """Return the events, in order."""

    def end_terms(self) -> dict[str, Ending]:
        """Return the terms that end an episode; none by default."""
        return {}

    def payload(self) -> float:
        """Return the mass of what the robot carries [kg]; 0 by default."""
        return 0.0

    def add_others(self, builder: ModelBuilder) -> None:
        """Add what a world contains in addition to the robot."""

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        collides = self.options["self_collisions"]
        self.built = BuiltRobot(self.robot, builder, collides, self.action_scale, self.payload())
        self._needs_ground = self.has_ground and GeoType.PLANE not in builder.shape_geo_type
        self.add_others(builder)
        action = self.action()
        self._actions = len(self.built.axes) if action.size == PER_JOINT else int(action.size)
        self.memory_size = _COMMAND + 2 * self._actions
        o = self.options
        self._act = self._placed({"action": action})
        self._seen = self._placed(
            changed(Observation, self.observation_terms(), o["observations"], library.OBSERVATIONS)
        )
        self.observation_size = self._line_up(self._seen)
        known = library.OBSERVATIONS
        secret = changed(Observation, self.privileged_terms(), o["privileged"], known, "privileged")
        self._privileged = self._placed(secret)
        self.privileged_size = self._line_up(self._privileged)
        self._rewards = self._placed(changed(Reward, self.reward_terms(), o["rewards"], library.REWARDS))
        self._ends = self._placed(changed(Ending, self.end_terms(), o["ends"], library.ENDS))
        events = {**self.event_terms(), **self._holding()}
        self._events = self._placed(changed(Event, events, o["events"], library.EVENTS))
        low, high = [-1.0] * self._actions, [1.0] * self._actions
        axes = self.built.axes if action.size == PER_JOINT else []
        return Motors(axes, [1.0] * len(axes), low, high)

    def _holding(self) -> dict[str, Event]:
        """Return the event that gives other drives their targets, if the robot has any."""
        held = self.built.held
        return {"hold": library.EVENTS["hold"](held)} if held else {}

    def finish_scene(self, scene: ModelBuilder) -> None:
        """See `Task.finish_scene`."""
        if self._needs_ground:
            scene.set_ground_plane()

    def term_names(self) -> dict[str, list[str]]:
        """Return the names of the terms in use, by group."""
        groups = {
            "observations": self._seen,
            "privileged": self._privileged,
            "rewards": self._rewards,
            "ends": self._ends,
            "events": self._events,
        }
        return {group: [p.name for p in placed] for group, placed in groups.items()}

    def _line_up(self, seen: list[PlacedTerm]) -> int:
        """Give observations their columns, one after the other; return how many there are."""
        size = 0
        for placed in seen:
            placed.column = size
            placed.size = placed.count(placed.term.size, self._actions)  # pyright: ignore[reportAttributeAccessIssue]
            size += placed.size
        return size

    def _placed(self, terms: Mapping[str, Term]) -> list[PlacedTerm]:
        """Find the parts that terms refer to, and give the terms columns and memory."""
        found = []
        for name, term in terms.items():
            placed = PlacedTerm(name, term, self.built)
            if isinstance(term, Event) and term.floats and not self.built.floats:
                raise NewtonsimError(
                    f"{self.name}: events: {name}: it places a free base, and that of {self.robot.file} does "
                    "not float, or another joint is before it"
                )
            placed.note = self.memory_size
            self.memory_size += placed.count(term.notes, self._actions)
            found.append(placed)
        return found

    def symmetry(self, model: Model) -> Symmetry:
        """See `Task.symmetry`: of the robot, whose joints correspond by name, and of its terms.

        Raises:
            NewtonsimError: The robot is not its mirror image within the option `mirror_tolerance`, or a term
                has no mirror map.
        """
        tree = self.built.root
        robot = RobotMirror(model, tree, self.options["mirror"], self.options["mirror_tolerance"])
        maps = TermMirror(robot, self.name, self._act[0])
        return Symmetry(
            SignedPermutation.joined([maps.of(placed) for placed in self._seen]),
            maps.actions,
            SignedPermutation.joined([maps.of(placed) for placed in self._privileged]),
        )

    def _base_pose(self, env: EnvView) -> tuple[np.ndarray, Rotation]:
        """Return the positions (num_envs, 3) [m] and orientations of the bases."""
        from scipy.spatial.transform import Rotation

        poses = env.body_q.numpy()[self.built.base :: env.bodies]
        return poses[:, :3], Rotation.from_quat(poses[:, 3:])

    def _commands(self, env: EnvView) -> np.ndarray:
        """Return the commands, (num_envs, 3)."""
        return env.memory.numpy()[:, :_COMMAND]

    def stage(self, name: str) -> Stage | None:
        """See `Task.stage`."""
        return self._stages[name]

    def bind(self, model: Model) -> None:
        """See `Task.bind`."""
        events = [(p, p.term.when) for p in self._events if isinstance(p.term, Event)]
        starts = [p for p, when in events if when != "step"]
        steps = [p for p, when in events if when != "start"]
        views = {p: self._view(p, model, number) for number, p in enumerate(self._all())}
        for name, several in (
            ("act", [*self._act, *steps]),
            ("observe", self._seen),
            ("privileged", self._privileged),
            ("score", [*self._rewards, *self._ends]),
            ("spawn", starts),
        ):
            self._stages[name].terms = [(p.term.kernel, views[p]) for p in several]
        self._stages["score"].terms.insert(0, (begin_score, views[self._act[0]]))

    def _all(self) -> Iterable[PlacedTerm]:
        # events first: their random numbers do not depend on what else there is
        return (*self._events, *self._act, *self._seen, *self._rewards, *self._ends, *self._privileged)

    def _view(self, placed: PlacedTerm, model: Model, number: int) -> TermView:
        """Return the view that the kernel of a term receives."""
        view, term, device = TermView(), placed.term, model.device
        view.weight, view.stream = term.weight, number
        view.base, view.column, view.note = placed.base, placed.column, placed.note
        view.command, view.action, view.sensed = 0, _COMMAND, -1
        if term.sensor is not None:
            if term.sensor not in self.sensor_columns:
                hint = did_you_mean(term.sensor, self.sensor_columns)
                raise NewtonsimError(f"{placed.name}: there is no sensor {term.sensor!r}{hint}")
            columns = self.sensor_columns[term.sensor]
            view.sensed = columns.start
            wanted = max(term.readings * len(placed.bodies), placed.size)
            if wanted > columns.stop - columns.start:
                raise NewtonsimError(
                    f"{placed.name}: it needs {wanted} readings of the sensor {term.sensor!r}, which has "
                    f"{columns.stop - columns.start}"
                )
        if isinstance(term, Observation) and term.field is not None:
            _show_field(placed, term.field, model, view)
        for name in ("bodies", "axes", "coords", "dofs"):
            setattr(view, name, put(getattr(placed, name), dtype=int, device=device))
        view.home = put(placed.home, dtype=float, device=device)
        view.numbers = put(list(term.numbers), dtype=float, device=device)
        return view


def _is_path(robot: object) -> TypeGuard[str]:
    """Tell whether the option `robot` is the path of a file rather than a name."""
    return isinstance(robot, str) and robot not in ZOO and "." in robot


def _show_field(placed: PlacedTerm, name: str, model: Model, view: TermView) -> None:
    """Let the view of a term see a field of the model."""
    spec = find_field(name)
    selected = View(model, placed.term.select).field(name)  # pyright: ignore[reportAttributeAccessIssue]
    count = selected.entries.shape[1] * selected.entry_size
    if spec.owner != "model" or selected.memory.dtype is not wp.float32:
        raise NewtonsimError(f"{placed.name}: expected a field of the model with real numbers, got {name!r}")
    if count != placed.size:
        raise NewtonsimError(
            f"{placed.name}: {name!r} has {count} numbers in a world, but the term has size {placed.size}"
        )
    view.field, view.width = selected.memory, selected.entry_size
    view.entries = put(selected.entries, dtype=int, device=model.device)


class PlacedTerm:
    """A term and its place in a world.

    Args:
        name: Its name.
        term: The term.
        built: The robot.
    """

    def __init__(self, name: str, term: Term, built: BuiltRobot):
        self.name, self.term = name, term
        self.column = self.note = self.size = 0
        try:
            self.base = built.base if term.base is None else built.bodies(term.base)[0]
            self.bodies = built.feet if term.bodies is None else built.bodies(term.bodies)
            joints = built.joints if term.joints is None else built.joints_like(term.joints)
        except NewtonsimError as error:
            raise NewtonsimError(f"{name}: {error}") from None
        self.joints = joints
        self.axes, self.coords, self.dofs = built.places(joints)
        self.home = built.home_of(joints)

    def count(self, number: int | str, actions: int) -> int:
        """Return the number of "joints", "bodies" or "actions", or a given number itself."""
        if isinstance(number, str):
            return {PER_JOINT: len(self.axes), PER_BODY: len(self.bodies), PER_ACTION: actions}[number]
        return int(number)
