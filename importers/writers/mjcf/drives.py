"""Drives of joint axes and tendons as MJCF actuators."""

from newtonsim.importers.writers.records import NO_LIMIT
from newtonsim.importers.writers.xml_text import number, numbers
from newtonsim.scene.enums import JointMode

_LEAST_EFFORT = 1.0e-12  # MuJoCo reads no empty range of forces


def drive_attributes(mode: int, ke: float, kd: float, effort_limit: float) -> tuple[str, dict[str, str]]:
    """Return the tag of the actuator that a drive is, and its gains and range of forces.

    Args:
        mode: A `JointMode`.
        ke: Gain of the position or velocity.
        kd: Gain of the velocity of a position drive.
        effort_limit: Largest force [N or N m].
    """
    if mode == JointMode.TARGET_POSITION:
        tag, attributes = "position", {"kp": number(ke), "kv": number(kd)}
    elif mode == JointMode.TARGET_VELOCITY:
        tag, attributes = "velocity", {"kv": number(ke)}
    else:
        tag, attributes = "motor", {}
    if effort_limit < NO_LIMIT:
        reach = max(effort_limit, _LEAST_EFFORT)
        attributes |= {"forcelimited": "true", "forcerange": numbers([-reach, reach])}
    return tag, attributes
