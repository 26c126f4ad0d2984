"""Inputs of a rollout that are moved for differences: copies, entries that cannot move, dependent arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.diff.layout import Place
from newtonsim.diff.tangents import FloatDirections, Tangents
from newtonsim.scene.state import State

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


def copy_state(state: State) -> State:
    """Return a state with copies of all arrays, without gradients."""
    twin = State()
    for name, array in vars(state).items():
        if isinstance(array, wp.array):
            setattr(twin, name, wp.clone(array, requires_grad=False))
    return twin


def frozen_directions(
    model: Model, place: Place, values: np.ndarray, tangents: Tangents | FloatDirections
) -> np.ndarray:
    """Directions that have no derivative: masses of static bodies, infinite limits; bool, (n,)."""
    first = values.reshape(-1)[tangents.first]
    frozen = ~np.isfinite(first)
    if place.attribute in ("body_mass", "particle_mass"):
        frozen |= first == 0.0
    if place.attribute == "body_inertia":
        masses = model.body_mass.numpy()
        frozen |= masses[tangents.first // 9] == 0.0
    return frozen


def update_inverses(model: Model, attribute: str) -> None:
    """Update the model's inverses of masses and inertias."""
    if attribute in ("body_mass", "particle_mass"):
        mass = getattr(model, attribute).numpy()
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
        getattr(model, attribute.replace("_mass", "_inv_mass")).assign(inverse)
    elif attribute == "body_inertia":
        moving = model.body_mass.numpy() > 0.0
        inverse = model.body_inv_inertia.numpy().copy()
        inverse[moving] = np.linalg.inv(model.body_inertia.numpy()[moving].astype(np.float64))
        model.body_inv_inertia.assign(inverse)
