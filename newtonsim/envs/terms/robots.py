"""Robots for tasks composed of terms: a file, and which of its parts are base, feet and driven joints."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.envs.contact_pairs import Sole
from newtonsim.envs.terms.home_pose import HomePose
from newtonsim.envs.terms.rotors import Rotor, replace_actuators
from newtonsim.envs.terms.term import Patterns
from newtonsim.errors import DefaultsWarning, NewtonsimError, UnsupportedElementWarning
from newtonsim.examples.assets import asset_path
from newtonsim.importers import parse_mjcf, parse_urdf, parse_usd
from newtonsim.importers.files.usd_names import USD_ENDINGS
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.scene.patterns import match_labels

_FOOT_SHARE = 0.03
"""Height below which a foot touches, as a share of the height of the base."""
_SOLE_SHARE = 0.1
"""Height up to which the points of a foot at home are its sole, likewise."""


@dataclass(frozen=True)
class Robot:
    """A robot from a file.

    Attributes:
        file: MJCF (.xml, .mjcf), URDF or USD.
        base: Body that represents the robot, by pattern: trunk, pelvis, hand of an arm.
        feet: Bodies that walk, by patterns.
        foot_point: Contact point of a foot, in the frame of its body [m]; None for the lowest point of each
            foot in the home pose.
        foot_height: Height of that point when it touches level ground [m]; None for 3 % of the height of the
            base.
        sole_height: Height above that point up to which, in the home pose, the points of the foot's body are
            its sole [m]; None for 10 % of the height of the base. Other contacts are undesired.
        joints: Joints that actions drive, by patterns; they have one axis. Other drives hold theirs at home.
        legs: Those of them that walk; None for all.
        home: Coordinates of the home pose by patterns of joints [rad or m]; others are as in the file, and
            in URDF 0 or the nearest limit.
        keyframe: Keyframe of an MJCF file that is the home pose.
        height: Height of the origin of a free base in the home pose [m]; None for that of the file, and with
            URDF, which has none, for one at which the lowest point touches the ground.
        floating: Whether the base of a URDF floats.
        stiffness: Stiffness of the drives [N m/rad or N/m], one for all or by patterns; None for that of the
            file, and without one for that of `HomePose.gains`.
        damping: Damping of the drives [N m s/rad or N s/m], likewise.
        action_scale: Shift of a drive's target at action 1 [rad or m], one for all or by patterns; None for
            that of the task.
        swing: Shift of a leg's joints from home when a step lifts its foot highest [rad or m], by patterns.
        rotors: Rotors of a drone, instead of joints. Actuators of the file that are the same rotors are left
            out.
        most_thrust: Largest thrust of each rotor [N].
    """

    file: str
    base: str
    feet: Patterns = ()
    foot_point: tuple[float, float, float] | None = None
    foot_height: float | None = None
    sole_height: float | None = None
    joints: Patterns = "*"
    legs: Patterns | None = None
    home: Mapping[str, float] = field(default_factory=dict)
    keyframe: str | None = None
    height: float | None = None
    floating: bool = True
    stiffness: float | Mapping[str, float] | None = None
    damping: float | Mapping[str, float] | None = None
    action_scale: float | Mapping[str, float] | None = None
    swing: Mapping[str, float] = field(default_factory=dict)
    rotors: tuple[Rotor, ...] = ()
    most_thrust: float = 0.0


@dataclass(frozen=True)
class JointFrame:
    """A joint with one axis, as its child body carries it.

    Attributes:
        body: The child body.
        carries: Whether it moves the base, as joints of an arm move its hand.
        slides: Whether it is prismatic.
        axis: Its axis in the frame of the body.
        point: A point on the axis in this frame [m].
        lower: Its lower limit [rad or m].
        upper: Its upper limit [rad or m].
    """

    body: int
    carries: bool
    slides: bool
    axis: tuple[float, ...]
    point: tuple[float, ...]
    lower: float
    upper: float

    def numbers(self) -> tuple[float, ...]:
        """Return the numbers of `newtonsim.kernels.envs.terms.hand.PER_JOINT`."""
        kind = float(self.carries), float(self.slides), float(self.body)
        return (*kind, *self.axis, *self.point, self.lower, self.upper)


class BuiltRobot:
    """The parts of a robot within one world.

    Args:
        robot: The robot.
        builder: An empty builder, which receives it.
        self_collisions: Whether its links collide with each other.
        scale: Action scale of joints for which the robot has none [rad or m].
        payload: Mass of what the robot carries [kg], for gains of drives that the file leaves open.

    Attributes:
        robot: The robot.
        base: Index of the base.
        root: Index of the body at the root of its tree.
        floats: Whether the base is on the first joint, and this is a free joint.
        height: Height of the base in the home pose [m], 0 unless it floats.
        feet: Indices of the feet.
        foot_points: Contact point of each foot in the frame of its body [m].
        foot_height: Height below which they touch level ground [m].
        soles: The soles of the feet.
        joints: Names of the driven joints.
        axes: Axis of each.
        coords: Coordinate of each.
        dofs: Degree of freedom of each.
        home: Coordinate of each in the home pose [rad or m].
        scale: Action scale of each [rad or m].
        lower: Lower limit of each [rad or m].
        upper: Upper limit of each [rad or m].
        held: Names of the joints with position drives that actions do not move.

    Raises:
        NewtonsimError: A pattern matches nothing, the kind of file is unknown, or the home pose is beyond
            limits of joints.

    Warns:
        DefaultsWarning: The file has no gains of drives, or a joint starts at a limit; once for each robot.
    """

    def __init__(
        self,
        robot: Robot,
        builder: ModelBuilder,
        self_collisions: bool,
        scale: float = 0.25,
        payload: float = 0.0,
    ):
        self.robot, self._builder, self._payload = robot, builder, payload
        _load(robot, builder, self_collisions)
        _check_numbers(robot)
        base = self.bodies(robot.base)
        if len(base) > 1:
            names = ", ".join(self.body_names[body] for body in base)
            raise NewtonsimError(f"{robot.file}: base: {robot.base!r} names several bodies: {names}")
        self.base = base[0]
        replace_actuators(builder, self.base, robot.rotors)
        self.feet = self.bodies(robot.feet) if robot.feet else []
        self.root = int(builder._roots()[self.base])
        first = (builder.joint_child[0], builder.joint_type[0]) if builder.joint_count else (-1, None)
        self.floats = first == (self.root, JointType.FREE)
        starts = zip(builder.joint_axis_start, builder.joint_q_start, builder.joint_qd_start)
        one = (JointType.REVOLUTE, JointType.PRISMATIC)
        self._places = {
            key: place
            for key, place, kind in zip(builder.joint_key, starts, builder.joint_type)
            if kind in one
        }
        self._bend_home()
        self._pose = HomePose(builder)
        self._stand_up()
        points = [robot.foot_point or self._pose.foot_point(body) for body in self.feet]
        self.foot_points = [tuple(float(x) for x in point) for point in points]
        height = 0.0
        if self.floats:
            is_root = self.base == self.root
            height = float(builder.joint_q[2]) if is_root else self._pose.height_of(self.base)
        self.height = height
        self.foot_height = _FOOT_SHARE * height if robot.foot_height is None else robot.foot_height
        self.soles = self._soles(_SOLE_SHARE * height if robot.sole_height is None else robot.sole_height)
        names = [] if robot.rotors else self._matching(robot.joints)
        self.joints = names
        self.axes, self.coords, self.dofs = self.places(names)
        self.home = self.home_of(names)
        self.lower = [float(builder.joint_limit_lower[a]) for a in self.axes]
        self.upper = [float(builder.joint_limit_upper[a]) for a in self.axes]
        scales = self._per_joint(robot.action_scale)
        self.scale = [float(scales.get(name, scale)) for name in names]
        self._set_drives()
        driven = set(self.axes)
        mode = builder.joint_axis_mode
        others = {name: axis for name, (axis, *_) in self._places.items() if axis not in driven}
        self.held = tuple(name for name, axis in others.items() if mode[axis] == JointMode.TARGET_POSITION)

    def _soles(self, height: float) -> list[Sole]:
        """Return the soles, which reach up to a height above the points of the feet at home [m]."""
        found = []
        for body, point in zip(self.feet, self.foot_points):
            up = self._pose.up_of(body)
            found.append(Sole(body, tuple(up.tolist()), float(up @ point) + height))
        return found

    def extent(self, body: int, direction: Sequence[float]) -> tuple[float, float]:
        """Return between what coordinates along a direction the shapes of a body are that can collide [m].

        Args:
            body: The body.
            direction: A unit vector in its frame.

        Returns:
            Least and greatest coordinate in its frame; inf and -inf without shapes.
        """
        return self._pose.extent(body, np.asarray(direction, float))

    def pose_in(self, body: int, other: int) -> np.ndarray:
        """Return the pose of a body at home in the frame of another one, (7,)."""
        return self._pose.pose_in(body, other)

    def branches(self, body: int) -> list[int]:
        """Return the bodies that joints with an axis hold to a body, or to what is fixed to it."""
        builder, fixed, found = self._builder, {body}, []
        for joint, parent in enumerate(builder.joint_parent):
            if parent in fixed:
                child = builder.joint_child[joint]
                if builder.joint_type[joint] == JointType.FIXED:
                    fixed.add(child)
                else:
                    found.append(child)
        return found

    def leg_of(self, names: list[str]) -> list[int]:
        """Return for each joint the number of the foot that it moves, -1 for none or several."""
        builder = self._builder
        joint_of = dict(zip(builder.joint_child, range(builder.joint_count)))
        legs: list[set[int]] = []
        for foot in self.feet:
            above, body = set(), foot
            while body in joint_of:
                above.add(joint_of[body])
                body = builder.joint_parent[joint_of[body]]
            legs.append(above)
        numbers = dict(zip(builder.joint_key, range(builder.joint_count)))
        found = [[k for k, leg in enumerate(legs) if numbers[name] in leg] for name in names]
        return [of_joint[0] if len(of_joint) == 1 else -1 for of_joint in found]

    def swing_of(self, names: list[str]) -> list[float]:
        """Return the shifts of joints at the top of a step [rad or m]."""
        shifts = dict.fromkeys(names, 0.0)
        for pattern, value in self.robot.swing.items():
            shifts |= {name: float(value) for name in self._matching(pattern) if name in shifts}
        return [shifts[name] for name in names]

    def bodies(self, patterns: Patterns) -> list[int]:
        """Return the indices of the bodies that patterns name."""
        return match_labels(patterns, self._builder.body_key, "bodies")

    @property
    def body_names(self) -> list[str]:
        """Names of all bodies of a world."""
        return list(self._builder.body_key)

    def places(self, names: list[str]) -> tuple[list[int], list[int], list[int]]:
        """Return the axes, coordinates and degrees of freedom of joints."""
        found = [self._places[name] for name in names]
        return [p[0] for p in found], [p[1] for p in found], [p[2] for p in found]

    def home_of(self, names: list[str]) -> list[float]:
        """Return the coordinates of joints in the home pose [rad or m]."""
        return [float(self._builder.joint_q[self._places[name][1]]) for name in names]

    def frames_of(self, names: list[str]) -> list[JointFrame]:
        """Return the frames of joints."""
        from scipy.spatial.transform import Rotation

        builder = self._builder
        above, body = set(), self.base
        while body >= 0 and body in builder.joint_child:
            joint = builder.joint_child.index(body)
            above.add(joint)
            body = builder.joint_parent[joint]
        found = []
        for name in names:
            joint, axis = builder.joint_key.index(name), self._places[name][0]
            frame = np.array([*builder.joint_X_c[joint]], float)
            turned = Rotation.from_quat(frame[3:]).apply(np.array([*builder.joint_axis[axis]], float))
            found.append(
                JointFrame(
                    builder.joint_child[joint],
                    joint in above,
                    builder.joint_type[joint] == JointType.PRISMATIC,
                    tuple(turned.tolist()),
                    tuple(frame[:3].tolist()),
                    float(builder.joint_limit_lower[axis]),
                    float(builder.joint_limit_upper[axis]),
                )
            )
        return found

    def joints_like(self, patterns: Patterns) -> list[str]:
        """Return the names of the single-axis joints that patterns name."""
        return self._matching(patterns)

    def _per_joint(self, given: float | Mapping[str, float] | None) -> dict[str, float]:
        """Return the numbers of joints, given one for all, some by patterns, or None."""
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            return dict.fromkeys(self._places, float(given))
        return {name: float(value) for pattern, value in given.items() for name in self._matching(pattern)}

    def _matching(self, patterns: Patterns) -> list[str]:
        names = list(self._places)
        return [names[i] for i in match_labels(patterns, names, "joints of one axis")]

    def _bend_home(self) -> None:
        """Write the home pose into the builder."""
        builder, robot = self._builder, self.robot
        given = {name: pattern for pattern in robot.home for name in self._matching(pattern)}
        for name, pattern in given.items():
            value = robot.home[pattern]
            axis, coord, _ = self._places[name]
            low, high = builder.joint_limit_lower[axis], builder.joint_limit_upper[axis]
            if not low <= value <= high:
                raise NewtonsimError(
                    f"{robot.file}: home: {name!r}: expected a value within its limits, {low:g} to "
                    f"{high:g}, got {value:g}" + f" from {pattern!r}" * (pattern != name)
                )
            builder.joint_q[coord] = float(value)
            builder.joint_act[axis] = float(value)
        if robot.height is not None:
            if JointType.FREE not in builder.joint_type:
                raise NewtonsimError(f"{robot.file}: height: the base does not float")
            builder.joint_q[2] = float(robot.height)

    def _stand_up(self) -> None:
        """Put a free base where the lowest point touches the ground, if neither file nor robot say where."""
        lowest = self._pose.lowest()
        if self.floats and self.robot.height is None and _is_urdf(self.robot.file) and np.isfinite(lowest):
            self._builder.joint_q[2] -= lowest
            self._pose = HomePose(self._builder)

    def _set_drives(self) -> None:
        """Give the driven joints position drives, with the gains of the robot, the file or their masses."""
        builder, robot = self._builder, self.robot
        stiffness, damping = self._per_joint(robot.stiffness), self._per_joint(robot.damping)
        numbers = [builder.joint_key.index(name) for name in self.joints]
        suited = self._pose.gains(numbers, self.feet, self.foot_points, self._payload)
        chosen, at_limits = [], []
        for name, axis, home, (suits, damps) in zip(self.joints, self.axes, self.home, suited):
            builder.joint_axis_mode[axis] = JointMode.TARGET_POSITION
            builder.joint_act[axis] = home
            bare = builder.joint_target_ke[axis] <= 0.0
            if bare and not (name in stiffness and name in damping):
                chosen.append((stiffness.get(name, suits), damping.get(name, damps)))
            builder.joint_target_ke[axis] = stiffness.get(
                name, suits if bare else builder.joint_target_ke[axis]
            )
            builder.joint_target_kd[axis] = damping.get(
                name, damps if bare else builder.joint_target_kd[axis]
            )
            low, high = float(builder.joint_limit_lower[axis]), float(builder.joint_limit_upper[axis])
            if _is_urdf(robot.file) and home in (low, high) and not low <= 0.0 <= high:
                at_limits.append(f"{name} at {home:g} of {low:g} to {high:g}")
        if chosen:
            _tell(
                f"{robot.file} has no gains of drives; they follow from its masses: "
                f"stiffness {_range([k for k, _ in chosen])} [N m/rad or N/m], "
                f"damping {_range([d for _, d in chosen])} [N m s/rad or N s/m]. "
                "The options `stiffness` and `damping` set others"
            )
        if at_limits:
            _tell(
                f"{robot.file}: joints whose limits exclude 0 start at a limit [rad or m]: "
                f"{'; '.join(at_limits)}; the option `home` sets others"
            )


def _check_numbers(robot: Robot) -> None:
    """Refuse numbers that no robot has, before it is built."""
    for name in ("stiffness", "damping", "action_scale", "height", "foot_height", "sole_height"):
        given = getattr(robot, name)
        numbers = given if isinstance(given, Mapping) else {} if given is None else {"": given}
        for pattern, value in numbers.items():
            right = isinstance(value, (int, float)) and math.isfinite(value)
            if not (right and (value >= 0.0 if name in ("damping", "sole_height") else value > 0.0)):
                of = f" of {pattern!r}" if pattern else ""
                raise NewtonsimError(f"{robot.file}: {name}{of}: expected a positive number, got {value!r}")


def _range(values: Sequence[float]) -> str:
    """Describe numbers by the least and the greatest."""
    ends = dict.fromkeys(f"{value:.3g}" for value in (min(values), max(values)))
    return " to ".join(ends)


def _tell(message: str) -> None:
    """Warn once in a process: a command builds a robot several times."""
    if message not in _told:
        _told.add(message)
        warnings.warn(message, DefaultsWarning, stacklevel=2)


_told: set[str] = set()


def body_names_of(robot: Robot) -> list[str]:
    """Return the names of the bodies of a robot's file.

    Raises:
        NewtonsimError: It is no MJCF, URDF or USD file.
        ImportFileError: It cannot be read.
    """
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    _load(robot, builder, self_collisions=False)
    return list(builder.body_key)


def _is_urdf(file: str) -> bool:
    return os.path.splitext(file)[1].lower() == ".urdf"


def _load(robot: Robot, builder: ModelBuilder, self_collisions: bool) -> None:
    path = os.fspath(robot.file)
    suffix = os.path.splitext(path)[1].lower()
    with warnings.catch_warnings():
        # cameras, lights and options of another engine's solver are of no concern here
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        if suffix in (".xml", ".mjcf"):
            options: dict[str, Any] = {"keyframe": robot.keyframe} if robot.keyframe else {}
            parse_mjcf(
                path,
                builder,
                floating=None,
                ignore_inertial_definitions=False,
                enable_self_collisions=self_collisions,
                single_axis_joints=True,
                **options,
            )
        elif _is_urdf(path):
            parse_urdf(
                path,
                builder,
                floating=robot.floating,
                ignore_inertial_definitions=False,
                enable_self_collisions=self_collisions,
                stiffness=0.0,
                damping=0.0,
            )
        elif suffix in USD_ENDINGS:
            parse_usd(path, builder)
        else:
            raise NewtonsimError(f"{path}: expected an MJCF (.xml), URDF or USD file")


def _zoo(name: str) -> str:
    return str(asset_path(f"zoo/{name}.xml"))


_ARM = 0.046 * math.sqrt(0.5)  # [m] of a rotor along x and y
_DRAG = 0.00596  # [m]

ZOO: dict[str, Robot] = {
    "go2_like": Robot(
        _zoo("go2_like"),
        "trunk",
        feet="*_calf",
        foot_point=(0.0, 0.0, -0.213),
        foot_height=0.03,
        keyframe="home",
        action_scale=0.5,
    ),
    "g1_like": Robot(
        _zoo("g1_like"),
        "pelvis",
        feet=("left_foot", "right_foot"),
        foot_point=(0.03, 0.0, -0.035),
        foot_height=0.015,
        legs=("*_hip_*", "*_knee", "*_ankle_*"),
        keyframe="home",
        action_scale=0.25,
        swing={"*_hip_pitch": -0.35, "*_knee": 0.7, "*_ankle_pitch": -0.35},
    ),
    "fr3_like": Robot(
        _zoo("fr3_like"), "hand", joints="joint?", keyframe="home", floating=False, action_scale=0.05
    ),
    "allegro_like": Robot(_zoo("allegro_like"), "palm", keyframe="cupped", floating=False, action_scale=0.1),
    "crazyflie_like": Robot(
        _zoo("crazyflie_like"),
        "drone",
        rotors=(
            Rotor((_ARM, -_ARM, 0.012), -_DRAG),
            Rotor((-_ARM, -_ARM, 0.012), _DRAG),
            Rotor((-_ARM, _ARM, 0.012), -_DRAG),
            Rotor((_ARM, _ARM, 0.012), _DRAG),
        ),
        most_thrust=0.16,
    ),
}
"""Robots of the zoo, by name."""
