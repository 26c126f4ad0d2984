"""Poses: where bodies stand at first, and transforms of prims."""

from typing import cast

import numpy as np
from pxr import Gf, Tf, Usd, UsdGeom

from newtonsim.geometry.transforms import quat_multiply
from newtonsim.importers.geometry.pose import Pose, quat_from_axis_angle
from newtonsim.importers.writers.records import JointRecord, Scene
from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING


def joint_motion(joint: JointRecord) -> Pose:
    """Pose of the child's joint frame in the parent's at the initial coordinates."""
    if joint.kind in FLOATING:
        return Pose.of(joint.q)
    if joint.kind == JointType.BALL:
        return Pose(np.zeros(3), joint.q / np.linalg.norm(joint.q))
    position, rotation = np.zeros(3), Pose.identity().q
    for axis in joint.axes:
        if axis.linear:
            position = position + axis.axis * axis.q
        else:
            rotation = quat_multiply(rotation, quat_from_axis_angle(axis.axis, axis.q))
    return Pose(position, rotation / np.linalg.norm(rotation))


def initial_poses(scene: Scene) -> list[Pose]:
    """World poses of all bodies at the initial joint coordinates."""
    poses: list[Pose | None] = [body.pose if body.joint is None else None for body in scene.bodies]
    below: dict[int, list[JointRecord]] = {}
    for joint in scene.joints:
        below.setdefault(joint.parent, []).append(joint)
    pending = [-1, *(number for number, pose in enumerate(poses) if pose is not None)]
    while pending:
        parent = pending.pop()
        above = None if parent < 0 else poses[parent]
        above = Pose.identity() if above is None else above
        for joint in below.get(parent, ()):
            poses[joint.child] = above @ joint.X_p @ joint_motion(joint) @ joint.X_c.inverse()
            pending.append(joint.child)
    return cast("list[Pose]", poses)


def set_pose(prim: Usd.Prim, pose: Pose, scale: np.ndarray | None = None) -> None:
    """Give a prim translation, rotation and scale, in double precision; identity parts are left out."""
    place = UsdGeom.Xformable(prim)
    if pose.p.any():
        place.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(*pose.p.tolist()))
    if pose.q[:3].any():
        place.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(pose.q[3], *pose.q[:3].tolist()))
    if scale is not None and (scale != 1.0).any():
        place.AddScaleOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(*scale.tolist()))


def quatf(q: np.ndarray) -> Gf.Quatf:
    """Convert a quaternion xyzw."""
    return Gf.Quatf(float(q[3]), *(float(x) for x in q[:3]))


def vec3f(v: np.ndarray) -> Gf.Vec3f:
    """Convert a vector."""
    return Gf.Vec3f(*(float(x) for x in v))


def prim_name(key: str) -> str:
    """Return a key as the name of a prim; of a path, which `parse_usd` gives as key, the last part."""
    return Tf.MakeValidIdentifier(key.rstrip("/").rsplit("/", 1)[-1])
