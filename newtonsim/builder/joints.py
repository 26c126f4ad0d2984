"""Joints and articulations."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.builder.axis import JointAxis
from newtonsim.builder.lists import BuilderLists
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import (
    IDENTITY,
    as_warp_transform,
    transform_inverse,
    transform_multiply,
    warp_transform,
    warp_vector,
)
from newtonsim.scene.arrays import SOLIMP
from newtonsim.scene.enums import JOINT_MODE_FORCE, JointMode, JointType
from newtonsim.scene.joint_types import JOINT_KINDS, JointKind, axes_problem

Xform = Sequence | np.ndarray | wp.transform | None


@contextlib.contextmanager
def names_element(name: str) -> Iterator[None]:
    """Prepend the name of an element to errors about its parts, which do not know the name."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error


def _as_axes(axes: Sequence[JointAxis | npt.ArrayLike], key: str) -> list[JointAxis]:
    made = [axis for axis in axes if isinstance(axis, JointAxis)]
    if len(made) == len(axes):
        return made
    with names_element(f"joint '{key}'"):
        return [axis if isinstance(axis, JointAxis) else JointAxis(axis) for axis in axes]


class JointMethods(BuilderLists):
    """The part of ModelBuilder that adds joints."""

    def add_articulation(self, key: str | None = None) -> None:
        """Start an articulation: joints added from now on belong to it, until the next one starts."""
        self.articulation_key.append(key if key is not None else f"articulation_{self.articulation_count}")
        self.articulation_start.append(self.joint_count)
        self.articulation_end.append(-1)

    def add_joint(
        self,
        joint_type: int,
        parent: int,
        child: int,
        linear_axes: Sequence[JointAxis | npt.ArrayLike] | None = None,
        angular_axes: Sequence[JointAxis | npt.ArrayLike] | None = None,
        key: str | None = None,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Add a joint of any type.

        The child's pose is X_parent * parent_xform * X(q) * inverse(child_xform), where X(q) first moves
        along the linear axes, then rotates about the angular axes one after the other.

        Args:
            joint_type: JointType.
            parent: Parent body, -1 for the world.
            child: Child body.
            linear_axes: Axes of translation in the joint frame.
            angular_axes: Axes of rotation in the joint frame.
            key: Name.
            parent_xform: Joint frame in the parent body frame.
            child_xform: Joint frame in the child body frame.
            linear_compliance: Linear compliance [m/N].
            angular_compliance: Angular compliance [rad/(N m)].
            armature: Rotor inertia of axes that do not specify their own [kg m^2 or kg].
            collision_filter_parent: Whether shapes of parent and child pass through each other.
            enabled: Whether the joint is simulated.

        Returns:
            The index of the joint in the builder. `finalize` inserts joints for bodies that have none, which
            may shift it; `Model.joint_key` has the names in the order of the model.
        """
        index = self.joint_count
        key = self._joint_key(key)
        try:
            joint_type = joint_type if type(joint_type) is JointType else JointType(joint_type)
        except ValueError as error:
            raise ModelError(f"joint '{key}': type {joint_type!r} is not a JointType") from error
        linear, angular = _as_axes(linear_axes or (), key), _as_axes(angular_axes or (), key)
        dim = (len(linear), len(angular))
        if problem := axes_problem(joint_type, dim):
            raise ModelError(f"joint '{key}': {problem}")
        made_of = JOINT_KINDS[joint_type]
        coords, dofs = sum(dim) + made_of.own_coords, sum(dim) + made_of.own_dofs
        self.joint_type.append(int(joint_type))
        self.joint_parent.append(parent)
        self.joint_child.append(child)
        self.joint_X_p.append(as_warp_transform(parent_xform, f"joint '{key}': parent_xform"))
        self.joint_X_c.append(as_warp_transform(child_xform, f"joint '{key}': child_xform"))
        self.joint_axis_start.append(self.joint_axis_count)
        self.joint_axis_dim.append(dim)
        self.joint_linear_compliance.append(linear_compliance)
        self.joint_angular_compliance.append(angular_compliance)
        self.joint_enabled.append(int(enabled))
        self.joint_twist_lower.append(-math.inf)
        self.joint_twist_upper.append(math.inf)
        self.joint_swing_limit.append(math.inf)
        self.joint_distance_lower.append(-1.0)
        self.joint_distance_upper.append(-1.0)
        self.joint_collision_filter_parent.append(bool(collision_filter_parent))
        self.joint_world.append(-1)
        self.joint_key.append(key)
        self.joint_q_start.append(self.joint_coord_count)
        self.joint_qd_start.append(self.joint_dof_count)
        self._append_axes(linear + angular)
        if child in self._unplaced:
            self._place_child(parent, child, made_of)
        self._append_coordinates(made_of, parent, child, coords, dofs)
        axes = linear + angular
        own = [a.armature for a in axes] or [None] * dofs
        self.joint_armature.extend([armature if a is None else a for a in own])
        self.joint_damping.extend([a.damping for a in axes] or [0.0] * dofs)
        self.joint_friction.extend([a.friction for a in axes] or [0.0] * dofs)
        refs = [a.friction_solref or (0.0, 0.0) for a in axes]
        self.joint_friction_solref.extend(refs or [(0.0, 0.0)] * dofs)
        self.joint_friction_solimp.extend([a.friction_solimp for a in axes] or [SOLIMP] * dofs)
        return index

    def _place_child(self, parent: int, child: int, made_of: JointKind) -> None:
        """Place a body without a pose, and what follows it, where the last joint's coordinates are zero."""
        if not np.array_equal(self.body_q[child], IDENTITY):  # set since the body was added
            self._unplaced.leave(child)
            return
        moved = self._unplaced.place(parent, child)
        if made_of.place:
            return
        place = transform_multiply(self.joint_X_p[-1], transform_inverse(self.joint_X_c[-1]))
        if 0 <= parent < self.body_count:
            place = transform_multiply(self.body_q[parent], place)
        for body in moved:
            self.body_q[body] = warp_transform(transform_multiply(place, self.body_q[body]))

    def _joint_key(self, key: str | None) -> str:
        """Return the key of the joint that is being added."""
        return key if key is not None else f"joint_{self.joint_count}"

    def _append_axes(self, axes: list[JointAxis]) -> None:
        for axis in axes:
            self.joint_axis.append(warp_vector(axis.axis))
            self.joint_axis_mode.append(int(axis.mode))
            self.joint_act.append(axis.action)
            self.joint_target_ke.append(axis.target_ke)
            self.joint_target_kd.append(axis.target_kd)
            self.joint_limit_lower.append(axis.limit_lower)
            self.joint_limit_upper.append(axis.limit_upper)
            self.joint_limit_ke.append(axis.limit_ke)
            self.joint_limit_kd.append(axis.limit_kd)
            self.joint_limit_solref.append(axis.limit_solref or (0.0, 0.0))
            self.joint_limit_solimp.append(axis.limit_solimp)
            self.joint_limit_margin.append(axis.limit_margin)
            self.joint_stiffness.append(axis.stiffness)
            self.joint_spring_ref.append(axis.spring_ref)
            self.joint_effort_limit.append(axis.effort_limit)
            self.joint_effort_lower.append(axis.effort_lower)
            self.joint_velocity_limit.append(axis.velocity_limit)

    def _append_coordinates(
        self, made_of: JointKind, parent: int, child: int, coords: int, dofs: int
    ) -> None:
        """Start a joint at zero, and a floating one at the pose of its child."""
        q, qd = [0.0] * coords, [0.0] * dofs
        if made_of.quaternion and not made_of.place:
            q = [0.0, 0.0, 0.0, 1.0]
        elif made_of.quaternion:
            q = self._floating_coordinates(parent, child, self.joint_X_p[-1], self.joint_X_c[-1]).tolist()
            if parent < 0 and 0 <= child < self.body_count:
                qd = [float(x) for x in self.body_qd[child]]
        self.joint_q.extend(q)
        self.joint_qd.extend(qd)

    def _floating_coordinates(
        self, parent: int, child: int, X_p: wp.transform, X_c: wp.transform
    ) -> np.ndarray:
        """Return the pose (7,) of the child joint frame in the parent joint frame, from the body poses."""
        anchor, body = X_p, X_c
        if 0 <= parent < self.body_count:
            anchor = transform_multiply(self.body_q[parent], X_p)
        if 0 <= child < self.body_count:
            body = transform_multiply(self.body_q[child], X_c)
        return transform_multiply(transform_inverse(anchor), body)

    def _single_axis(
        self, axis, target, target_ke, target_kd, mode, limit_lower, limit_upper, limit_ke, limit_kd
    ) -> JointAxis:
        """Make the axis of a revolute or prismatic joint; a JointAxis overrides the other arguments."""
        if isinstance(axis, JointAxis):
            return axis
        if target is not None and mode == JointMode.FORCE and (target_ke > 0.0 or target_kd > 0.0):
            mode = (
                JointMode.TARGET_POSITION
            )  # gains and a target describe a drive, whatever the default mode says
        return JointAxis(
            axis=axis,
            limit_lower=limit_lower,
            limit_upper=limit_upper,
            limit_ke=self.default_joint_limit_ke if limit_ke is None else limit_ke,
            limit_kd=self.default_joint_limit_kd if limit_kd is None else limit_kd,
            action=target,
            target_ke=target_ke,
            target_kd=target_kd,
            mode=mode,
        )

    def add_joint_revolute(
        self,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        axis: JointAxis | npt.ArrayLike = (1.0, 0.0, 0.0),
        target: float | None = None,
        target_ke: float = 0.0,
        target_kd: float = 0.0,
        mode: int = JOINT_MODE_FORCE,
        limit_lower: float = -2 * math.pi,
        limit_upper: float = 2 * math.pi,
        limit_ke: float | None = None,
        limit_kd: float | None = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Add a hinge.

        Args:
            parent: Parent body, -1 for the world.
            child: Child body.
            parent_xform: Joint frame in the parent body frame.
            child_xform: Joint frame in the child body frame.
            axis: Axis of rotation in the joint frame; a JointAxis overrides the arguments about the axis.
            target: Target angle [rad] or velocity [rad/s]. None leaves the mode as given; a target with gains
                turns the default mode into a position drive.
            target_ke: Stiffness of a position drive [N m/rad], gain of a velocity drive [N m s/rad].
            target_kd: Damping of a position drive [N m s/rad].
            mode: What the control input means, see JointMode.
            limit_lower: Lower limit [rad].
            limit_upper: Upper limit [rad].
            limit_ke: Stiffness of the limits, None for the builder's default.
            limit_kd: Damping of the limits, None for the builder's default.
            linear_compliance: Linear compliance [m/N].
            angular_compliance: Angular compliance [rad/(N m)].
            armature: Rotor inertia [kg m^2].
            key: Name.
            collision_filter_parent: Whether shapes of parent and child pass through each other.
            enabled: Whether the joint is simulated.

        Returns:
            The index of the joint.
        """
        with names_element(f"joint '{self._joint_key(key)}'"):
            joint_axis = self._single_axis(
                axis, target, target_ke, target_kd, mode, limit_lower, limit_upper, limit_ke, limit_kd
            )
        return self.add_joint(
            JointType.REVOLUTE,
            parent,
            child,
            angular_axes=[joint_axis],
            key=key,
            parent_xform=parent_xform,
            child_xform=child_xform,
            linear_compliance=linear_compliance,
            angular_compliance=angular_compliance,
            armature=armature,
            collision_filter_parent=collision_filter_parent,
            enabled=enabled,
        )

    def add_joint_prismatic(
        self,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        axis: JointAxis | npt.ArrayLike = (1.0, 0.0, 0.0),
        target: float | None = None,
        target_ke: float = 0.0,
        target_kd: float = 0.0,
        mode: int = JOINT_MODE_FORCE,
        limit_lower: float = -1e4,
        limit_upper: float = 1e4,
        limit_ke: float | None = None,
        limit_kd: float | None = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Add a slider; arguments as in `add_joint_revolute`, in metres and newtons.

        Returns:
            The index of the joint.
        """
        with names_element(f"joint '{self._joint_key(key)}'"):
            joint_axis = self._single_axis(
                axis, target, target_ke, target_kd, mode, limit_lower, limit_upper, limit_ke, limit_kd
            )
        return self.add_joint(
            JointType.PRISMATIC,
            parent,
            child,
            linear_axes=[joint_axis],
            key=key,
            parent_xform=parent_xform,
            child_xform=child_xform,
            linear_compliance=linear_compliance,
            angular_compliance=angular_compliance,
            armature=armature,
            collision_filter_parent=collision_filter_parent,
            enabled=enabled,
        )

    def add_joint_ball(
        self,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
        swing_limit: float = math.inf,
        twist_lower: float = -math.inf,
        twist_upper: float = math.inf,
    ) -> int:
        """Add a ball joint: its position is a quaternion, its velocity an angular velocity in the parent
        joint frame.

        Its rotation splits into a swing, which tilts the x axis of the joint frame, and a twist about that
        axis; both can be limited.

        Args:
            parent: Parent body, -1 for the world.
            child: Child body.
            parent_xform: Joint frame in the parent body frame.
            child_xform: Joint frame in the child body frame.
            linear_compliance: Linear compliance [m/N].
            angular_compliance: Angular compliance [rad/(N m)].
            armature: Rotor inertia [kg m^2].
            key: Name.
            collision_filter_parent: Whether shapes of parent and child pass through each other.
            enabled: Whether the joint is simulated.
            swing_limit: Largest swing [rad], the half angle of the cone in which the x axis stays.
            twist_lower: Lower limit of the twist [rad].
            twist_upper: Upper limit of the twist [rad].

        Returns:
            The index of the joint.
        """
        index = self.add_joint(
            JointType.BALL,
            parent,
            child,
            None,
            None,
            key,
            parent_xform,
            child_xform,
            linear_compliance,
            angular_compliance,
            armature,
            collision_filter_parent,
            enabled,
        )
        self.joint_swing_limit[index] = swing_limit
        self.joint_twist_lower[index] = twist_lower
        self.joint_twist_upper[index] = twist_upper
        return index

    def add_joint_fixed(
        self,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Weld two bodies together; `collapse_fixed_joints` merges them into one.

        Returns:
            The index of the joint.
        """
        return self.add_joint(
            JointType.FIXED,
            parent,
            child,
            None,
            None,
            key,
            parent_xform,
            child_xform,
            linear_compliance,
            angular_compliance,
            armature,
            collision_filter_parent,
            enabled,
        )

    def add_joint_free(
        self,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        armature: float = 0.0,
        parent: int = -1,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Let a body move freely. The joint starts at the pose of the body.

        It has seven coordinates (position, quaternion) and six velocities (angular, linear of the centre of
        mass).

        Returns:
            The index of the joint.
        """
        return self.add_joint(
            JointType.FREE,
            parent,
            child,
            None,
            None,
            key,
            parent_xform,
            child_xform,
            0.0,
            0.0,
            armature,
            collision_filter_parent,
            enabled,
        )

    def add_joint_distance(
        self,
        parent: int,
        child: int,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        min_distance: float = -1.0,
        max_distance: float = 1.0,
        compliance: float = 0.0,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Let a body move freely, but keep its anchor within a distance of the parent's anchor.

        Args:
            parent: Parent body, -1 for the world.
            child: Child body.
            parent_xform: Anchor in the parent body frame.
            child_xform: Anchor in the child body frame.
            min_distance: Least distance [m], no limit if negative.
            max_distance: Largest distance [m], no limit if negative.
            compliance: Compliance [m/N].
            collision_filter_parent: Whether shapes of parent and child pass through each other.
            enabled: Whether the joint is simulated.

        Returns:
            The index of the joint.
        """
        index = self.add_joint(
            JointType.DISTANCE,
            parent,
            child,
            parent_xform=parent_xform,
            child_xform=child_xform,
            linear_compliance=compliance,
            armature=0.0,
            collision_filter_parent=collision_filter_parent,
            enabled=enabled,
        )
        self.joint_distance_lower[index] = min_distance
        self.joint_distance_upper[index] = max_distance
        return index

    def add_joint_universal(
        self,
        parent: int,
        child: int,
        axis_0: JointAxis | npt.ArrayLike,
        axis_1: JointAxis | npt.ArrayLike,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Add a joint that rotates about two axes, the second carried by the first.

        Returns:
            The index of the joint.
        """
        return self.add_joint(
            JointType.UNIVERSAL,
            parent,
            child,
            None,
            [axis_0, axis_1],
            key,
            parent_xform,
            child_xform,
            linear_compliance,
            angular_compliance,
            armature,
            collision_filter_parent,
            enabled,
        )

    def add_joint_compound(
        self,
        parent: int,
        child: int,
        axis_0: JointAxis | npt.ArrayLike,
        axis_1: JointAxis | npt.ArrayLike,
        axis_2: JointAxis | npt.ArrayLike,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        key: str | None = None,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Add a joint that rotates about three axes, each carried by the one before (any Euler angles).

        Returns:
            The index of the joint.
        """
        return self.add_joint(
            JointType.COMPOUND,
            parent,
            child,
            None,
            [axis_0, axis_1, axis_2],
            key,
            parent_xform,
            child_xform,
            linear_compliance,
            angular_compliance,
            armature,
            collision_filter_parent,
            enabled,
        )

    def add_joint_d6(
        self,
        parent: int,
        child: int,
        linear_axes: Sequence[JointAxis | npt.ArrayLike] | None = None,
        angular_axes: Sequence[JointAxis | npt.ArrayLike] | None = None,
        key: str | None = None,
        parent_xform: Xform = None,
        child_xform: Xform = None,
        linear_compliance: float = 0.0,
        angular_compliance: float = 0.0,
        armature: float = 1e-2,
        collision_filter_parent: bool = True,
        enabled: bool = True,
    ) -> int:
        """Add a joint with any axes: up to three linear and three angular ones.

        Returns:
            The index of the joint.
        """
        return self.add_joint(
            JointType.D6,
            parent,
            child,
            linear_axes,
            angular_axes,
            key,
            parent_xform,
            child_xform,
            linear_compliance,
            angular_compliance,
            armature,
            collision_filter_parent,
            enabled,
        )
