"""What actuators in a file receive, from what a model holds."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Control:
    """The ctrl of one actuator.

    Attributes:
        place: Entry of the scene's `joint_act` that is scale * ctrl + offset; None for a constant.
        scale: Not 0 if there is such an entry.
        offset: Likewise.
        value: ctrl where there is none.
    """

    place: int | None
    scale: float = 1.0
    offset: float = 0.0
    value: float = 0.0

    def of(self, joint_act: np.ndarray) -> float:
        """Return ctrl for the control inputs of all axes of a scene."""
        if self.place is None:
            return self.value
        return (float(joint_act[self.place]) - self.offset) / self.scale
