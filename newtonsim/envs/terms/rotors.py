"""Rotors of drones, which actions drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.builder import ActuatorTarget, ModelBuilder
from newtonsim.geometry.transforms import quat_rotate

_PLACE_TOLERANCE = 1.0e-3
"""Distance within which an actuator is in the place of a rotor [m]."""
_WRENCH_TOLERANCE = 0.01
"""Largest error of its force, and of its torque over a metre, relative to the force."""


@dataclass(frozen=True)
class Rotor:
    """A rotor with thrust along z of the base.

    Attributes:
        place: Position in the frame of the base [m].
        drag: Torque about z per thrust [m], positive counter-clockwise from above.
    """

    place: tuple[float, float, float]
    drag: float

    def is_at(self, place: np.ndarray, wrench: np.ndarray) -> bool:
        """Return whether an actuator is this rotor.

        Args:
            place: Where it acts, in the frame of the base [m], (3,).
            wrench: Its force and torque at control 1, likewise, (6,).
        """
        size = float(np.linalg.norm(wrench[:3]))
        expected = size * np.array([0.0, 0.0, 1.0, 0.0, 0.0, self.drag])
        return (
            size > 0.0
            and bool(np.linalg.norm(place - self.place) < _PLACE_TOLERANCE)
            and bool(np.abs(wrench - expected).max() < _WRENCH_TOLERANCE * size)
        )


def replace_actuators(builder: ModelBuilder, base: int, rotors: Sequence[Rotor]) -> None:
    """Remove the actuators of a builder that are some rotors, which a task drives by itself.

    Others stay, and solvers without them say so.

    Args:
        builder: The builder.
        base: The body with the rotors.
        rotors: The rotors.
    """
    replaced = []
    for actuator, target in enumerate(builder.actuator_target):
        on_base = target == ActuatorTarget.SITE and builder.actuator_bodies[actuator][0] == base
        if on_base and not builder.actuator_has_reference[actuator]:
            frame = np.array([*builder.actuator_frame[actuator]])
            gear = np.zeros(6)
            given = builder.actuator_law[actuator].gear
            gear[: len(given)] = given
            wrench = np.concatenate([quat_rotate(frame[3:], gear[:3]), quat_rotate(frame[3:], gear[3:])])
            if any(rotor.is_at(frame[:3], wrench) for rotor in rotors):
                replaced.append(actuator)
    builder.remove_actuators(replaced)
