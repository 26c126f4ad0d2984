"""Actuators of a model as records."""

from collections.abc import Mapping

import numpy as np

from newtonsim.builder import ActuatorTarget
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.records import ActuatorRecord, Scene
from newtonsim.scene.model import Model


def read_actuators(
    model: Model, scene: Scene, body_number: Mapping[int, int], joint_number: Mapping[int, int]
) -> None:
    """Add the actuators that act on what is in a scene.

    Args:
        model: The model.
        scene: Holds bodies, joints and tendons; receives the actuators.
        body_number: Number in the scene of each body of the model in it, -1 for the world.
        joint_number: Number in the scene of each joint of the model in it.
    """
    if not model.actuator_count:
        return
    names = ("target", "joint", "axis", "tendon", "bodies", "frame", "has_reference", "reference", "ctrl")
    table = {name: getattr(model, f"actuator_{name}").numpy() for name in names}
    tendons = {one.index: place for place, one in enumerate(scene.tendons)}
    starts = np.zeros(0) if model.joint_axis_start is None else model.joint_axis_start.numpy()
    for number, key in enumerate(model.actuator_key):
        target = ActuatorTarget(int(table["target"][number]))
        joint, axis = int(table["joint"][number]), int(table["axis"][number])
        frames = [
            (body_number.get(int(body)), Pose.of(table[name][number]))
            for body, name in zip(table["bodies"][number], ("frame", "reference"))
        ]
        if not table["has_reference"][number]:
            frames.pop()
        on_joint = target in (ActuatorTarget.JOINT, ActuatorTarget.JOINT_IN_PARENT)
        on_tendon = target == ActuatorTarget.TENDON
        tendon = tendons.get(int(table["tendon"][number]))
        absent = joint_number.get(joint) is None if on_joint else any(body is None for body, _ in frames)
        if (tendon is None) if on_tendon else absent:
            continue
        scene.actuators.append(
            ActuatorRecord(
                key=key,
                index=number,
                target=target,
                law=model.actuator_law[number],
                joint=(joint_number[joint], axis - int(starts[joint]) if axis >= 0 else 0)
                if on_joint
                else None,
                tendon=tendon if on_tendon else None,
                frames=[(body, pose) for body, pose in frames if body is not None],
                ctrl=float(table["ctrl"][number]),
            )
        )
