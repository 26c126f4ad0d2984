"""Which axes of which joints the keys of `Actuators` name."""

from __future__ import annotations

from dataclasses import dataclass

from newtonsim.errors import NewtonsimError
from newtonsim.scene.model import Model
from newtonsim.scene.patterns import match_labels


@dataclass(frozen=True)
class AxisOf:
    """A key of `Actuators`: one axis of joints that move along several, where a pattern names all of them.

    Attributes:
        joint: Pattern of the names of the joints.
        axis: Number of the axis, in the order of the coordinates.
    """

    joint: str
    axis: int


Pattern = str | AxisOf
Key = Pattern | tuple[Pattern, ...]


def as_pattern(name: str) -> str:
    """Return the pattern that matches a name and nothing else."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def matched_dofs(key: Key, model: Model) -> list[int]:
    """Return the degrees of freedom that a key names, in order.

    Raises:
        NewtonsimError: A pattern matches no joint, or a joint has no axis of that number.
    """
    starts = model.joint_qd_start.numpy()
    found: set[int] = set()
    for one in [key] if isinstance(key, str | AxisOf) else key:
        pattern = one.joint if isinstance(one, AxisOf) else one
        for joint in match_labels(pattern, model.joint_key, "joints"):
            first, end = int(starts[joint]), int(starts[joint + 1])
            if not isinstance(one, AxisOf):
                found.update(range(first, end))
            elif 0 <= one.axis < end - first:
                found.add(first + one.axis)
            else:
                name = model.joint_key[joint]
                raise NewtonsimError(f"{one}: joint {name!r} has {end - first} degrees of freedom")
    return sorted(found)
