"""Values that SDFormat writes as the text of child elements."""

import math

import numpy as np

from newtonsim.importers.files.faults import REFUSE, Faults
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose, quat_from_rpy

UNBOUNDED = 1.0e15
"""Limits at or beyond this are none: the format's default is 1e16, and tools write the largest double."""

_INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


def _as_attribute(node: Node, name: str) -> Node:
    """A view of an element's text as an attribute, so that the attribute readers and their errors serve."""
    return Node(node.tag, {name: node.text, **_name(node)}, node.path, node.line)


def _name(node: Node) -> dict[str, str]:
    return {"name": node.attrib["name"]} if "name" in node.attrib else {}


def text(node: Node, tag: str, default: str | None = None) -> str | None:
    """Text of a child element, the default without one or without text."""
    child = node.find(tag)
    return child.text if child is not None and child.text else default


def required(node: Node, tag: str) -> str:
    """Text of a child element that must be there."""
    value = text(node, tag)
    if not value:
        raise node.error(f"<{tag}> is missing")
    return value


def number(node: Node, tag: str, default: float | None = None, faults: Faults = REFUSE) -> float | None:
    """One finite number."""
    child = node.find(tag)
    return default if child is None else _as_attribute(child, tag).float(tag, faults=faults)


def not_negative(node: Node, tag: str, default: float = 0.0) -> float:
    """One number that is not below zero."""
    value = number(node, tag, default)
    if value < 0.0:
        raise node.find(tag).error(f"the value must not be negative, got {value:g}")
    return value


def positive(node: Node, tag: str) -> float:
    """One required number above zero."""
    child = node.find(tag)
    if child is None:
        raise node.error(f"<{tag}> is missing")
    return _as_attribute(child, tag).positive(tag)


def bound(node: Node, tag: str, default: float) -> float:
    """A limit: a number, or infinite where the file means that there is none."""
    child = node.find(tag)
    if child is None:
        return default
    word = child.text.strip().lower()
    if word in _INFINITE:
        return _INFINITE[word]
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        return _as_attribute(child, tag).float(tag)  # raises with the place
    return math.copysign(math.inf, value) if abs(value) >= UNBOUNDED else value


def vector(
    node: Node, tag: str, count: int, default: object = None, faults: Faults = REFUSE
) -> np.ndarray | None:
    """`count` finite numbers."""
    child = node.find(tag)
    if child is None:
        return None if default is None else np.asarray(default, dtype=np.float64)
    return _as_attribute(child, tag).floats(tag, count, faults=faults)


def flag(node: Node, tag: str, default: bool) -> bool:
    """A boolean."""
    child = node.find(tag)
    if child is None or not child.text:
        return default
    return _as_attribute(child, tag).bool(tag, also={"True": True, "False": False})


def bits(node: Node, tag: str, default: int) -> int:
    """A bit mask, decimal or with 0x."""
    child = node.find(tag)
    if child is None:
        return default
    word = child.text.strip().lower()
    try:
        value = int(word, 16 if word.startswith("0x") else 10)
    except ValueError:
        raise child.error(f"not a bit mask: {word[:40]!r}") from None
    if not 0 <= value < 2**31:
        raise child.error(f"a bit mask must be within 31 bits, got {word[:40]!r}")
    return value


def pose(node: Node | None) -> Pose:
    """Value of a <pose> element; an empty or missing one changes nothing."""
    if node is None or not node.text:
        return Pose.identity()
    view = _as_attribute(node, "pose")
    kind = node.keyword("rotation_format", ("euler_rpy", "quat_xyzw"), "euler_rpy")
    if kind == "quat_xyzw":
        values = view.floats("pose", 7)
        length = np.linalg.norm(values[3:])
        if length < 1.0e-12:
            raise node.error("the quaternion is zero")
        return Pose(values[:3], values[3:] / length)
    values = view.floats("pose", 6)
    angles = np.radians(values[3:]) if node.bool("degrees", False) else values[3:]
    return Pose(values[:3], quat_from_rpy(angles))
