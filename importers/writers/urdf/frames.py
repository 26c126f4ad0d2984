"""Link frames: URDF puts the frame of a link into the joint that moves it."""

import numpy as np

from newtonsim.geometry.transforms import quat_matrix, quat_rotate
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.records import JointRecord, Scene
from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING


def link_frames(scene: Scene) -> list[Pose]:
    """Return the pose of each link's frame in the body's frame; as many as can be are the body's own."""
    frames = []
    for body in scene.bodies:
        joint = None if body.joint is None else scene.joints[body.joint]
        frames.append(Pose.identity() if joint is None else _link_frame(joint))
    return frames


def _link_frame(joint: JointRecord) -> Pose:
    if joint.kind == JointType.BALL or (joint.kind in FLOATING and joint.parent >= 0):
        return joint.X_c
    if any(not axis.linear for axis in joint.axes):
        return Pose(joint.X_c.p, Pose.identity().q)  # rotations leave the origin of a link where it is
    return Pose.identity()


def joint_origin(joint: JointRecord, frames: list[Pose]) -> Pose:
    """Pose of the child's link frame in the parent's where all coordinates are zero."""
    above = frames[joint.parent] if joint.parent >= 0 else Pose.identity()
    return above.inverse() @ joint.zero @ frames[joint.child]


def link_axis(joint: JointRecord, axis: np.ndarray) -> np.ndarray:
    """Axis of a joint in the frame of its link (3,)."""
    return quat_rotate(joint.X_c.q, axis)


def roll_pitch_yaw(q: np.ndarray) -> np.ndarray:
    """Return URDF's rpy (3,) [rad] of a quaternion: rotations about the fixed axes x, y, z in this order.

    Roll comes from what yaw leaves over, so that the product stays right where the pitch is near ±90° and
    both are arbitrary.
    """
    m = quat_matrix(q)
    yaw = np.arctan2(m[1, 0], m[0, 0])
    pitch = np.arctan2(-m[2, 0], np.hypot(m[0, 0], m[1, 0]))
    s, c = np.sin(yaw), np.cos(yaw)
    roll = np.arctan2(s * m[0, 2] - c * m[1, 2], c * m[1, 1] - s * m[0, 1])
    return np.array([roll, pitch, yaw])
