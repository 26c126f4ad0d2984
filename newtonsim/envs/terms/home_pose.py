"""A robot in its home pose: how high it stands, where its feet touch, and which gains suit its joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import (
    quat_matrix,
    quat_rotate,
    transform_inverse,
    transform_multiply,
    transform_point,
)
from newtonsim.kinematics import eval_fk
from newtonsim.render.shapes import ShapeTable
from newtonsim.scene.enums import JointType, ShapeFlags

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder

_UP = np.array([0.0, 0.0, 1.0])
_GIVES = 0.2
"""Angle by which a drive gives when a foot's share of the weight acts at its whole distance [rad]."""
_SAGS, _SLIPS = 0.1, 0.005
"""How far a drive gives under what the robot carries and the weight of the limb [rad and m]."""
_FREQUENCY = 3.0
"""Least natural frequency of a limb on its drive [Hz]."""
_DAMPING_RATIO = 0.7
_TILT = 1.0e-4
"""Tilt by which the lowest point of a shape is found [rad]; of a level face it gives the middle."""
_LEVEL = 1.0e-5
"""Difference of heights that is rounding [m]."""


class HomePose:
    """A robot in its home pose, on the host.

    Args:
        builder: The robot, whose joint coordinates are those of the home pose.
    """

    def __init__(self, builder: ModelBuilder):
        model = builder.finalize("cpu")
        state = model.state()
        eval_fk(model, state.joint_q, state.joint_qd, None, state)
        self._builder = builder
        self._poses = state.body_q.numpy().astype(np.float64)
        self._mass = model.body_mass.numpy().astype(np.float64)
        self._inertia = model.body_inertia.numpy().astype(np.float64)
        self._com = transform_point(self._poses, model.body_com.numpy().astype(np.float64))
        self._gravity = float(np.linalg.norm(model.gravity))
        self._shapes = ShapeTable.of(model)
        flags = model.shape_flags.numpy().astype(np.uint32)
        self._touches = ((flags & int(ShapeFlags.COLLIDE_GROUND)) != 0) & (self._shapes.body >= 0)

    def lowest(self) -> float:
        """Return the height of the lowest point that can touch the ground [m]; inf without shapes."""
        return float(np.min(self._heights(_UP)[self._touches], initial=math.inf))

    def height_of(self, body: int) -> float:
        """Return the height of the origin of a body [m]."""
        return float(self._poses[body, 2])

    def pose_in(self, body: int, other: int) -> np.ndarray:
        """Return the pose of a body in the frame of another one, (7,)."""
        return transform_multiply(transform_inverse(self._poses[other]), self._poses[body])

    def extent(self, body: int, direction: np.ndarray) -> tuple[float, float]:
        """Return the least and the greatest coordinate of the shapes of a body along a direction [m].

        Both are in the frame of the body, and of shapes that can collide; inf and -inf if there are none.
        """
        mine = self._touches & (self._shapes.body == body)
        along = quat_rotate(self._poses[body, 3:], direction)
        origin = float(along @ self._poses[body, :3])
        low, high = (np.min(self._heights(sign * along)[mine], initial=math.inf) for sign in (1.0, -1.0))
        return float(low) - origin, -float(high) - origin

    def foot_point(self, body: int) -> np.ndarray:
        """Return the lowest point of a body that can touch the ground, in the frame of the body [m].

        The middle of those of its shapes that are equally low; its origin if it has no shapes.
        """
        mine = np.flatnonzero(self._touches & (self._shapes.body == body))
        heights = self._heights(_UP)
        if not len(mine) or not np.isfinite(heights[mine]).any():
            return np.zeros(3)
        # any one of several would differ from left to right, by the order of the file
        lowest = mine[heights[mine] <= heights[mine].min() + _LEVEL]
        point = heights[lowest].mean() * _UP
        # the derivative of the height along a turning direction is the coordinate across it
        for across in np.eye(3)[:2]:
            tilted = [math.cos(_TILT) * _UP + sign * math.sin(_TILT) * across for sign in (1.0, -1.0)]
            higher, lower = (self._heights(up)[lowest] for up in tilted)
            point = point + (higher - lower).mean() / (2.0 * math.sin(_TILT)) * across
        return transform_point(transform_inverse(self._poses[body]), point)

    def up_of(self, body: int) -> np.ndarray:
        """Return the upward direction in the frame of a body."""
        return quat_matrix(self._poses[body, 3:]).T @ _UP

    def gains(
        self,
        joints: Sequence[int],
        feet: Sequence[int],
        points: Sequence[Sequence[float]],
        payload: float = 0.0,
    ) -> list[tuple[float, float]]:
        """Return stiffness and damping of drives that suit the masses of the robot.

        A joint of a leg gives by 0.2 rad where the weight that its foot carries, at home or if all carry the
        same, acts at the whole distance of the foot: its natural frequency under this mass goes with the
        square root of gravity over length, as the gaits of large and small animals do. The limb that a joint
        moves has a natural frequency of at least 3 Hz on its drive, and is damped by 0.7 of the critical
        damping. If the robot carries something, a joint gives by at most 0.1 rad under this at the end of the
        limb and under the weight of the limb, or by 5 mm.

        Args:
            joints: Joints of one axis.
            feet: Bodies that walk.
            points: Point of each in its frame [m].
            payload: Mass of what the robot carries [kg].

        Returns:
            Stiffness [N m/rad or N/m] and damping [N m s/rad or N s/m] of each.

        Source: Alexander and Jayes, "A dynamic similarity hypothesis for the gaits of quadrupedal mammals",
        1983; Spong, Hutchinson and Vidyasagar, "Robot modeling and control", 2006, section 6.3.
        """
        places = [transform_point(self._poses[b], np.asarray(p, float)) for b, p in zip(feet, points)]
        loads = self._loads(places)
        found = []
        for joint in joints:
            moved = self._moved(joint)
            inertia = self._limb_inertia(joint, moved)
            torques = [
                load * self._arm(joint, place)
                for foot, place, load in zip(feet, places, loads)
                if foot in moved
            ]
            limb = inertia * (2.0 * math.pi * _FREQUENCY) ** 2
            carrying, more = self._carrying(joint, moved, payload) if payload > 0.0 else (0.0, 0.0)
            stiffness, inertia = max(sum(torques) / _GIVES, limb, carrying), inertia + more
            found.append((stiffness, 2.0 * _DAMPING_RATIO * math.sqrt(stiffness * inertia)))
        return found

    def _carrying(self, joint: int, moved: Sequence[int], payload: float) -> tuple[float, float]:
        """Return the stiffness that what a limb carries at its end asks of a joint, and its inertia there.

        Weights act across the whole limb, as if it were stretched and level.
        """
        mass = self._mass[moved]
        if self._builder.joint_type[joint] == JointType.PRISMATIC:
            return self._gravity * (mass.sum() + payload) / _SLIPS, payload
        _, point = self._axis(joint)
        ways = self._com[moved] - point
        lengths = np.linalg.norm(ways, axis=1)
        far, reach = ways[np.argmax(lengths)], float(lengths.max())
        if reach > 1.0e-6:
            outward = far / reach
            ends = -self._heights(-outward)[np.isin(self._shapes.body, moved)] - outward @ point
            reach = float(np.max(ends, initial=reach, where=np.isfinite(ends)))
        return self._gravity * (float(mass @ lengths) + payload * reach) / _SAGS, payload * reach**2

    def _loads(self, places: Sequence[np.ndarray]) -> np.ndarray:
        """Return the weight that each foot must carry [N]: an equal share, or that at home if it is larger.

        At home it is the solution of least norm that balances the weight, which is unique for three feet.
        """
        mass = self._mass.sum()
        equal = np.full(len(places), self._gravity * mass / max(len(places), 1))
        if not places:
            return equal
        centre = self._mass @ self._com / mass
        arms = np.stack([np.ones(len(places)), *(np.asarray(places) - centre).T[:2]])
        balanced, *_ = np.linalg.lstsq(arms, np.array([self._gravity * mass, 0.0, 0.0]), rcond=1.0e-9)
        return np.maximum(equal, balanced)

    def _heights(self, up: np.ndarray) -> np.ndarray:
        """Return how far along a direction the shapes begin [m]."""
        return self._shapes.lowest(self._poses, up)

    def _moved(self, joint: int) -> list[int]:
        """Return the bodies that a joint moves."""
        builder = self._builder
        moved = [int(builder.joint_child[joint])]
        for body in moved:
            moved += [int(c) for c, p in zip(builder.joint_child, builder.joint_parent) if p == body]
        return moved

    def _axis(self, joint: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the direction of a joint's axis and a point on it [m]."""
        builder = self._builder
        frame = transform_multiply(
            self._poses[builder.joint_child[joint]], np.array([*builder.joint_X_c[joint]], float)
        )
        axis = np.array([*builder.joint_axis[builder.joint_axis_start[joint]]], float)
        return quat_rotate(frame[3:], axis), frame[:3]

    def _limb_inertia(self, joint: int, moved: Sequence[int]) -> float:
        """Return the inertia of a limb about its axis [kg m²], or its mass along it [kg], with the rotor."""
        rotor = float(self._builder.joint_armature[self._builder.joint_qd_start[joint]])
        if self._builder.joint_type[joint] == JointType.PRISMATIC:
            return rotor + float(self._mass[moved].sum())
        axis, point = self._axis(joint)
        turns = quat_matrix(self._poses[moved, 3:])
        own = np.einsum("i,bij,bjk,blk,l->", axis, turns, self._inertia[moved], turns, axis)
        across = np.cross(axis, self._com[moved] - point)
        return rotor + float(own + self._mass[moved] @ (across**2).sum(axis=1))

    def _arm(self, joint: int, place: np.ndarray) -> float:
        """Return the stiffness per weight and angle that a foot asks of a joint: its distance [m], or 1/m."""
        axis, point = self._axis(joint)
        if self._builder.joint_type[joint] == JointType.PRISMATIC:
            return 1.0 / max(float(np.linalg.norm(place - point)), 1.0e-3)
        return float(np.linalg.norm(np.cross(axis, place - point)))
