"""Which models have rows by reference, and tendons, and what solvers without them say."""

from __future__ import annotations

import warnings

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.scene.model import Model
from newtonsim.solvers.actuators import warn_of_actuators


def has_limit_references(model: Model) -> bool:
    """Return whether a limit of a joint axis has solref."""
    return bool(model.joint_axis_count and model.joint_limit_solref.numpy().any())


def has_friction_references(model: Model) -> bool:
    """Return whether the dry friction of a dof has solref."""
    return bool(model.joint_dof_count and model.joint_friction_solref.numpy().any())


def has_loop_references(model: Model) -> bool:
    """Return whether a weld, a connected point or a coupling has solref."""
    return bool(model.constraint_count and model.constraint_solref.numpy().any())


def has_contact_parameters(model: Model) -> bool:
    """Return whether a shape or a pair of shapes has solref, priority or a condim of its own."""
    if not model.shape_count:
        return False
    arrays = (model.shape_solref, model.shape_priority, model.shape_condim)
    return bool(model.contact_pair_count) or any(bool(array.numpy().any()) for array in arrays)


def references_of(model: Model) -> list[str]:
    """Return names of the tendons, and of the parameters of limits and contacts, that a model has."""
    lost = []
    if has_limit_references(model):
        lost.append("joint_limit_solref, joint_limit_solimp and joint_limit_margin")
    if has_friction_references(model):
        lost.append("joint_friction_solref and joint_friction_solimp")
    if has_loop_references(model):
        lost.append("constraint_solref, constraint_solimp and constraint_torque_scale")
    if has_contact_parameters(model):
        lost.append("shape_solref, shape_solimp, shape_priority, shape_condim and contact pairs")
    if model.tendon_count:
        lost.append("tendons")
    return lost


def warn_of_references(model: Model, solver: str) -> None:
    """Warn of tendons, actuators, and parameters of limits or contacts, that a solver does not know.

    Args:
        model: The model.
        solver: Name of the solver.
    """
    warn_of_actuators(model, solver)
    lost = references_of(model)
    if lost:
        warnings.warn(
            f"{solver} ignores {' and '.join(lost)} of the model; FeatherstoneSolver does not",
            UnsupportedElementWarning,
            stacklevel=3,
        )
