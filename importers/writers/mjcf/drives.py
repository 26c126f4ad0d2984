"""Drives of joint axes and tendons as MJCF actuators."""

from newtonsim.importers.writers.records import NO_LIMIT
from newtonsim.importers.writers.xml_text import number, numbers
from newtonsim.scene.enums import JointMode

_LEAST_EFFORT = 1.0e-12  # MuJoCo reads no empty range of forces


def drive_attributes(
    mode: int, ke: float, kd: float, efforts: tuple[float, float]
) -> tuple[str, dict[str, str]]:
    """Return the tag of the actuator that a drive is, and its gains and range of forces.

    Args:
        mode: A `JointMode`.
        ke: Gain of the position or velocity.
        kd: Gain of the velocity of a position drive.
        efforts: Least and largest force [N or N m].
    """
    if mode == JointMode.TARGET_POSITION:
        tag, attributes = "position", {"kp": number(ke), "kv": number(kd)}
    elif mode == JointMode.TARGET_VELOCITY:
        tag, attributes = "velocity", {"kv": number(ke)}
    else:
        tag, attributes = "motor", {}
    least, most = efforts
    if least > -NO_LIMIT or most < NO_LIMIT:
        bounds = [max(min(least, -_LEAST_EFFORT), -NO_LIMIT), min(max(most, _LEAST_EFFORT), NO_LIMIT)]
        attributes |= {"forcelimited": "true", "forcerange": numbers(bounds)}
    return tag, attributes


def both_ways(effort: float) -> tuple[float, float]:
    """Return least and largest effort where one number bounds both directions."""
    return -effort, effort
