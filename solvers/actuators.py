"""What solvers without actuators of the model say of them."""

from __future__ import annotations

import warnings

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.scene.model import Model


def warn_of_actuators(model: Model, solver: str) -> None:
    """Warn of actuators of a model, which FeatherstoneSolver and MuJoCoSolver have.

    Args:
        model: The model.
        solver: Name of the solver.
    """
    if model.actuator_count:
        shown = ", ".join(map(repr, list(model.actuator_key)[:_SHOWN]))
        more = f" and {model.actuator_count - _SHOWN} more" if model.actuator_count > _SHOWN else ""
        warnings.warn(
            f"{solver} ignores {model.actuator_count} actuators of the model ({shown}{more}); "
            "FeatherstoneSolver and MuJoCoSolver do not",
            UnsupportedElementWarning,
            stacklevel=3,
        )


_SHOWN = 5
