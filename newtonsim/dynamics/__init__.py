"""Joint-space dynamics of all articulations of a model at once.

`Dynamics` keeps its work arrays and costs some microseconds per call; the functions return new arrays.
"""

from newtonsim.dynamics.functions import (
    bias,
    center_of_mass,
    dynamics_of,
    forward_dynamics,
    holding_forces,
    inverse_dynamics,
    jacobian,
    kinetic_energy,
    mass_matrix,
    potential_energy,
)
from newtonsim.dynamics.quantities import Dynamics

__all__ = [
    "Dynamics",
    "bias",
    "center_of_mass",
    "dynamics_of",
    "forward_dynamics",
    "holding_forces",
    "inverse_dynamics",
    "jacobian",
    "kinetic_energy",
    "mass_matrix",
    "potential_energy",
]
