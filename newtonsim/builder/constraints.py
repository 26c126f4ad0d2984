"""Constraints in addition to the kinematic trees: loop joints, welds, distances, couplings of joints."""

import math
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import warp as wp

from newtonsim.builder.axis import JointAxis
from newtonsim.builder.joints import Xform, names_element
from newtonsim.builder.lists import BuilderLists
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import (
    IDENTITY,
    as_transform,
    as_vector,
    transform_inverse,
    transform_multiply,
)
from newtonsim.scene.arrays import SOLIMP
from newtonsim.scene.enums import ConstraintType, JointType
from newtonsim.scene.joint_types import FLOATING, axes_problem

_XYZ = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
MAX_COEFFICIENTS = 5


class ConstraintMethods(BuilderLists):
    """The part of ModelBuilder that adds constraints.

    Every method takes the keyword arguments `key` (name), `max_force` (largest force [N] or torque [N m]
    along each constrained direction), `recovery_time` (time constant [s] of removing errors, 0 for the
    solver's), `linear_compliance` [m/N], `angular_compliance` [rad/(N m)], `enabled`, and, between bodies,
    `collision_filter` (whether their shapes pass through each other), and returns the constraint's index.

    Welds, connected points and couplings take `solref` and `solimp` as well, by which they yield as MuJoCo's
    do, in place of recovery time and compliance, see `JointAxis`, and welds `torque_scale`: the length [m]
    that a turn by one rad counts as, 1 by default.
    """

    def add_loop_joint(
        self,
        joint_type: int,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_axes: list[JointAxis | npt.ArrayLike] | None = None,
        angular_axes: list[JointAxis | npt.ArrayLike] | None = None,
        **options: Any,
    ) -> int:
        """Connect two bodies by a joint that closes a loop.

        The bodies keep their coordinates; constraint forces prevent motion in the directions that the joint
        does not allow. Frames and axes are those of `add_joint`. Axis limits are enforced, except with
        several angular axes; drives and passive forces of loop joints are not simulated.

        Args:
            joint_type: JointType other than FREE and DISTANCE.
            parent: A body, -1 for the world.
            child: Another body, -1 for the world.
            parent_xform: Joint frame in the parent body frame.
            child_xform: Joint frame in the child body frame.
            linear_axes: Axes of translation in the joint frame.
            angular_axes: Axes of rotation in the joint frame.
            **options: See the class.

        Returns:
            The index of the constraint.

        Raises:
            ModelError: Type and axes do not fit, or several angular axes have limits.
        """
        key = self._constraint_key(options)
        with names_element(f"constraint '{key}'"):
            linear = [JointAxis(a) for a in linear_axes or ()]
            angular = [JointAxis(a) for a in angular_axes or ()]
            _check_loop(joint_type, linear, angular)
        if joint_type == JointType.BALL:
            angular = [JointAxis(a) for a in _XYZ]
        frames = (parent_xform, child_xform)
        return self._add_body_constraint(
            ConstraintType.LOOP, parent, child, frames, linear, angular, key, options
        )

    def add_constraint_weld(
        self, parent: int, child: int, relative_xform: Xform = None, **options: Any
    ) -> int:
        """Hold two bodies, or a body and the world, in a relative pose.

        Args:
            parent: A body, -1 for the world.
            child: Another body, -1 for the world.
            relative_xform: Pose of the child in the parent's frame; None for that of the builder's `body_q`.
            **options: See the class.

        Returns:
            The index of the constraint.
        """
        if relative_xform is None:
            relative_xform = self._relative_pose(parent, child)
        return self.add_loop_joint(JointType.FIXED, parent, child, relative_xform, **options)

    def add_constraint_connect(
        self,
        parent: int,
        child: int,
        anchor: npt.ArrayLike = (0.0, 0.0, 0.0),
        child_anchor: npt.ArrayLike | None = None,
        **options: Any,
    ) -> int:
        """Hold a point of one body at a point of another body or of the world; rotation stays free.

        Args:
            parent: A body, -1 for the world.
            child: Another body, -1 for the world.
            anchor: The point in the parent's frame [m] (3,).
            child_anchor: The point in the child's frame [m] (3,); None for where the anchor lies at the
                poses of the builder's `body_q`.
            **options: See the class.

        Returns:
            The index of the constraint.
        """
        first = wp.transform(as_vector(anchor, 3, "anchor"), wp.quat_identity())
        if child_anchor is None:
            second = transform_multiply(transform_inverse(self._relative_pose(parent, child)), first)
        else:
            second = wp.transform(as_vector(child_anchor, 3, "child_anchor"), wp.quat_identity())
        return self.add_loop_joint(JointType.BALL, parent, child, first, second, **options)

    def add_constraint_distance(
        self,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        min_distance: float = -1.0,
        max_distance: float = -1.0,
        **options: Any,
    ) -> int:
        """Keep the distance of two anchors within limits: a rod if both are equal, a rope if only one is set.

        Args:
            parent: A body, -1 for the world.
            child: Another body, -1 for the world.
            parent_xform: Anchor in the parent body frame.
            child_xform: Anchor in the child body frame.
            min_distance: Least distance [m], no limit if negative.
            max_distance: Largest distance [m], no limit if negative.
            **options: See the class.

        Returns:
            The index of the constraint.
        """
        key = self._constraint_key(options)
        frames = (parent_xform, child_xform)
        kind = ConstraintType.DISTANCE
        index = self._add_body_constraint(kind, parent, child, frames, [], [], key, options)
        self.constraint_distance_lower[index] = min_distance
        self.constraint_distance_upper[index] = max_distance
        return index

    def add_constraint_coupling(
        self,
        joint: int,
        other: int = -1,
        coefficients: Sequence[float] = (0.0, 1.0),
        axis: int = 0,
        other_axis: int = 0,
        **options: Any,
    ) -> int:
        """Make one joint coordinate a polynomial of another: q = c0 + c1 q' + c2 q'^2 + c3 q'^3 + c4 q'^4.

        Args:
            joint: The joint that follows; forces act both ways.
            other: The joint that leads; -1 to hold the first one at c0.
            coefficients: c0, c1, ... (at most 5) [rad or m].
            axis: Index of the axis of `joint`.
            other_axis: Index of the axis of `other`.
            **options: See the class.

        Returns:
            The index of the constraint.

        Raises:
            ModelError: A joint does not have the axis, both axes are the same, or there are too many
                coefficients.
        """
        key = self._constraint_key(options)
        with names_element(f"constraint '{key}'"):
            axes = (self._joint_axis(joint, axis), -1 if other < 0 else self._joint_axis(other, other_axis))
            if axes[0] == axes[1]:
                raise ModelError(f"joint '{self.joint_key[joint]}' cannot be coupled to itself")
            if not 1 <= len(coefficients) <= MAX_COEFFICIENTS:
                raise ModelError(f"expected 1 to {MAX_COEFFICIENTS} coefficients, got {len(coefficients)}")
            numbers = [float(c) for c in coefficients]
        index = self._add_constraint(ConstraintType.COUPLING, -1, -1, (None, None), [], [], key, options)
        self.constraint_coupled_axes[index] = axes
        self.constraint_coefficients[index] = tuple(numbers + [0.0] * (MAX_COEFFICIENTS - len(numbers)))
        return index

    def add_constraint_gear(
        self, joint: int, other: int, ratio: float, offset: float | None = None, **options: Any
    ) -> int:
        """Couple two joints by a gear: q = ratio * q_other + offset.

        Args:
            joint: A joint with one axis.
            other: Another one.
            ratio: Transmission ratio; negative for gears that turn in opposite directions.
            offset: Value of q where the other joint is at zero; None to compute it from the builder's
                `joint_q`.
            **options: See the class.

        Returns:
            The index of the constraint.
        """
        with names_element("gear"):
            self._joint_axis(joint, 0)
            self._joint_axis(other, 0)
        if offset is None:
            q, q_other = (self.joint_q[self.joint_q_start[j]] for j in (joint, other))
            offset = q - ratio * q_other
        return self.add_constraint_coupling(joint, other, (offset, ratio), **options)  # pyright: ignore[reportArgumentType]

    def _constraint_key(self, options: dict) -> str:
        """Take the key out of the options, or make one."""
        key = options.pop("key", None)
        return f"constraint_{len(self.constraint_type)}" if key is None else str(key)

    def _relative_pose(self, parent: int, child: int):
        """Return the pose (7,) of the child in the parent's frame, computed from `body_q`."""
        poses = [IDENTITY if body < 0 else self.body_q[self._known_body(body)] for body in (parent, child)]
        return transform_multiply(transform_inverse(poses[0]), poses[1])

    def _known_body(self, body: int) -> int:
        if not body < self.body_count:
            raise ModelError(f"constraint: {body} is not a body (there are {self.body_count})")
        return body

    def _joint_axis(self, joint: int, axis: int) -> int:
        """Return the index of a joint's axis among all axes."""
        if not 0 <= joint < self.joint_count:
            raise ModelError(f"{joint} is not a joint (there are {self.joint_count})")
        count = sum(self.joint_axis_dim[joint])
        if not 0 <= axis < count:
            raise ModelError(f"joint '{self.joint_key[joint]}' has no axis {axis} (it has {count} axes)")
        return self.joint_axis_start[joint] + axis

    def _add_body_constraint(self, kind, parent, child, frames, linear, angular, key, options) -> int:
        if parent == child or max(parent, child) < 0:
            raise ModelError(f"constraint '{key}': it connects body {parent} to itself")
        return self._add_constraint(kind, parent, child, frames, linear, angular, key, options)

    def _add_constraint(self, kind, parent, child, frames, linear, angular, key, options) -> int:
        """Append one entry to every list of constraints."""
        with names_element(f"constraint '{key}'"):
            numbers = _options(options)
            holds = kind != ConstraintType.DISTANCE and not linear and len(angular) in (0, 3)
            if any(numbers["solref"]) and not holds:
                raise ModelError("solref is for welds, connected points and couplings")
            X_p, X_c = (
                wp.transform(*as_transform(frame, f"{name}_xform"))
                for name, frame in zip(("parent", "child"), frames)
            )
        index = len(self.constraint_type)
        self.constraint_type.append(int(kind))
        self.constraint_parent.append(parent)
        self.constraint_child.append(child)
        self.constraint_X_p.append(X_p)
        self.constraint_X_c.append(X_c)
        self.constraint_axis_start.append(len(self.constraint_axis))
        self.constraint_axis_dim.append((len(linear), len(angular)))
        self.constraint_coupled_axes.append((-1, -1))
        self.constraint_coefficients.append((0.0,) * MAX_COEFFICIENTS)
        self.constraint_distance_lower.append(-1.0)
        self.constraint_distance_upper.append(-1.0)
        self.constraint_collision_filter.append(bool(numbers.pop("collision_filter")))
        self.constraint_enabled.append(int(bool(numbers.pop("enabled"))))
        for name, value in numbers.items():
            getattr(self, f"constraint_{name}").append(value)
        self.constraint_key.append(key)
        for one in (*linear, *angular):
            self.constraint_axis.append(one.axis)
            self.constraint_limit_lower.append(one.limit_lower)
            self.constraint_limit_upper.append(one.limit_upper)
        return index

    def _with_mimics(self):
        """Return this builder, or a copy in which mimic joints are couplings."""
        if not self.joint_mimic:
            return self
        twin = self._shallow_copy()
        for joint, other, factor, offset in self.joint_mimic:
            twin.add_constraint_coupling(joint, other, (offset, factor), key=f"{self.joint_key[joint]}_mimic")
        return twin


def _options(given: dict) -> dict:
    """Return all options of a constraint, checked."""
    options = {
        "max_force": math.inf,
        "recovery_time": 0.0,
        "linear_compliance": 0.0,
        "angular_compliance": 0.0,
        "solref": (0.0, 0.0),
        "solimp": SOLIMP,
        "torque_scale": 1.0,
        "enabled": True,
        "collision_filter": True,
    }
    unknown = sorted(set(given) - set(options))
    if unknown:
        raise TypeError(f"unexpected arguments {unknown}; expected some of {sorted(options)}")
    options.update(given)
    names = ("max_force", "recovery_time", "linear_compliance", "angular_compliance", "torque_scale")
    for name in names:
        options[name] = float(options[name])
        if not options[name] >= 0.0:
            raise ModelError(f"{name} must not be negative, got {options[name]}")
    for name in ("solref", "solimp"):
        options[name] = tuple(map(float, options[name]))
    return options


def _check_loop(joint_type: int, linear: list[JointAxis], angular: list[JointAxis]) -> None:
    try:
        joint_type = JointType(joint_type)
    except ValueError as error:
        raise ModelError(f"type {joint_type!r} is not a JointType") from error
    if joint_type in FLOATING:
        raise ModelError(f"{joint_type.name} cannot close a loop; use add_constraint_distance for distances")
    dim = (len(linear), len(angular))
    if problem := axes_problem(joint_type, dim):
        raise ModelError(problem)
    limited = any(math.isfinite(a.limit_lower) or math.isfinite(a.limit_upper) for a in angular)
    if limited and len(angular) > 1:
        raise ModelError("limits of loop joints with several angular axes are not modelled")
