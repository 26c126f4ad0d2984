"""Actuators of a model: their worlds, and what solvers without them say."""

from __future__ import annotations

import warnings

import numpy as np

from newtonsim.dynamics.tendon_paths import tendon_worlds
from newtonsim.errors import UnsupportedElementWarning
from newtonsim.scene.model import Model


def actuator_worlds(model: Model) -> np.ndarray:
    """Return the world of each actuator, that of what it acts on, int (actuator_count,)."""

    def of(index: np.ndarray, world: np.ndarray) -> np.ndarray:
        return np.append(world, -1)[index]  # an index of -1 is none

    none = np.zeros(0, np.int64)
    bodies = model.actuator_bodies.numpy()
    body = model.body_world.numpy() if model.body_count else none
    joint = model.joint_world.numpy() if model.joint_count else none
    tendon = tendon_worlds(model) if model.tendon_count else none
    found = [of(bodies[:, 0], body), of(bodies[:, 1], body)]
    found += [of(model.actuator_joint.numpy(), joint), of(model.actuator_tendon.numpy(), tendon)]
    return np.maximum(np.max(found, axis=0), 0).astype(np.int64)


def warn_of_actuators(model: Model, solver: str) -> None:
    """Warn of actuators of a model, which only MuJoCoSolver has.

    Args:
        model: The model.
        solver: Name of the solver.
    """
    if model.actuator_count:
        shown = ", ".join(map(repr, list(model.actuator_key)[:_SHOWN]))
        more = f" and {model.actuator_count - _SHOWN} more" if model.actuator_count > _SHOWN else ""
        warnings.warn(
            f"{solver} ignores {model.actuator_count} actuators of the model ({shown}{more}); MuJoCoSolver "
            "does not",
            UnsupportedElementWarning,
            stacklevel=3,
        )


_SHOWN = 5
