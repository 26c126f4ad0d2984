"""Factors of the joint-space inertia: by elimination, or, where that is imprecise, from articulated inertias.

Elimination finds the pivots as differences of entries that grow with the cube of a chain's length, and with
the mass at its end. In single precision they are wrong by 2e-4 at 20 equal links in a row, by 1e-2 at 50, and
altogether beyond 150, or with a load of 2,000 times a link's mass at the end of ten. Articulated inertias are
right to 1e-6 in all of these, and take some tenths of a microsecond longer for a short tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import warp as wp

from newtonsim.kernels.trees import articulated_factors, crba
from newtonsim.runtime.floating_terms import FloatingTerms
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.tree_inertias import tree_inertias
from newtonsim.scene.allocation import zeros
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.kernels.views.model import KinematicsView
    from newtonsim.scene.model import Model

MOST_ELIMINATED = 32
"""Degrees of freedom in a row up to which elimination is precise enough."""
LARGEST_LOSS = 1.0e5
"""Inertia of an axis with all behind it rigid, over that with all yielding, up to which it is, likewise."""
UNEVEN = 100.0
"""Mass of a tree over that of its lightest body up to which nobody needs to ask."""


class InertiaFactors(Protocol):
    """Room for the factors of H = Lᵀ D L, for one configuration of every tree.

    Attributes:
        L: L below the diagonal and D^(-1/2) on it, by rows of ancestors, shape (entry_count,).
        mass: Mass of each body with all that hangs on it [kg], shape (body_count,).
        floating: What floating joints add to H besides the diagonal.
    """

    L: wp.array
    mass: wp.array
    floating: FloatingTerms

    def factorize(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array) -> None:
        """Write the factors, and the inertias of bodies in world axes to `kin`.

        Args:
            launch: Launcher of the model.
            kin: Poses of the bodies.
            diagonal: What is added to the diagonal of H, shape (joint_dof_count,).
        """
        ...


class EliminatedInertia:
    """Composite inertias, H, and its elimination; see `InertiaFactors`.

    Attributes:
        composite: Inertia of each body with all that hangs on it.
        floor: Smallest pivots that the elimination may meet, shape (joint_dof_count,).
    """

    def __init__(self, model: Model):
        bodies, device = model.body_count, model.device
        self.L = zeros(topology_of(model).entry_count, dtype=float, device=device)
        self.mass = zeros(bodies, dtype=float, device=device)
        self.floor = zeros(model.joint_dof_count, dtype=float, device=device)
        self.composite = crba.CompositeView()
        self.composite.mass = self.mass
        self.composite.com = zeros(bodies, dtype=wp.vec3, device=device)
        self.composite.inertia = zeros(bodies, dtype=wp.mat33, device=device)
        self.floating = FloatingTerms(model)

    def factorize(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array) -> None:
        """See `InertiaFactors.factorize`."""
        v = launch.views
        launch(
            crba.factorize_trees,
            "tree team",
            reads=dict(tree=v.tree, levels=v.levels, joint=v.joint, body=v.body, diagonal=diagonal),
            writes=dict(kin=kin, composite=self.composite, L=self.L, floor=self.floor),
        )
        self.floating.add_to_factors(launch, kin, diagonal, self.L)

    def expand(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array) -> None:
        """Write H itself to `L`."""
        v = launch.views
        launch(
            crba.expand_trees,
            "tree team",
            reads=dict(tree=v.tree, levels=v.levels, joint=v.joint, body=v.body, diagonal=diagonal),
            writes=dict(kin=kin, composite=self.composite, H=self.L, floor=self.floor),
        )
        self.floating.add_inertia(launch, kin, diagonal, self.L)


class ArticulatedInertia:
    """Factors from articulated inertias; see `InertiaFactors`.

    Args:
        model: The model.
        factors: Those whose arrays receive the result; None for new arrays.
    """

    def __init__(self, model: Model, factors: InertiaFactors | None = None):
        bodies, device = model.body_count, model.device
        entries = topology_of(model).entry_count
        self.L = factors.L if factors else zeros(entries, dtype=float, device=device)
        self.mass = factors.mass if factors else zeros(bodies, dtype=float, device=device)
        self._articulated = articulated_factors.ArticulatedView()
        self._articulated.mass = self.mass
        self._articulated.rotational = zeros(bodies, dtype=wp.mat33, device=device)
        self._articulated.coupling = zeros(bodies, dtype=wp.mat33, device=device)
        self._articulated.translational = zeros(bodies, dtype=wp.mat33, device=device)
        self.floating = FloatingTerms(model)

    def factorize(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array) -> None:
        """See `InertiaFactors.factorize`."""
        v = launch.views
        launch(
            articulated_factors.factorize_chains,
            "tree team",
            reads=dict(tree=v.tree, levels=v.levels, joint=v.joint, body=v.body, diagonal=diagonal),
            writes=dict(kin=kin, articulated=self._articulated, L=self.L),
        )
        self.floating.add_to_factors(launch, kin, diagonal, self.L)


class ResistedInertia(ArticulatedInertia):
    """Factors of H with what resists the motion of bodies, in the room of others; see `InertiaFactors`.

    Args:
        model: The model.
        factors: Those whose arrays receive the result.

    Attributes:
        resistance: What is added to the inertia of each body, before `factorize`.
    """

    def __init__(self, model: Model, factors: InertiaFactors):
        super().__init__(model, factors)
        self.resistance = articulated_factors.ResistanceView()
        self.resistance.rotational = zeros(model.body_count, dtype=wp.mat33, device=model.device)
        self.resistance.translational = zeros(model.body_count, dtype=wp.mat33, device=model.device)

    def factorize(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array) -> None:
        """See `InertiaFactors.factorize`."""
        v = launch.views
        reads = dict(tree=v.tree, levels=v.levels, joint=v.joint, body=v.body, diagonal=diagonal)
        launch(
            articulated_factors.factorize_resisted,
            "tree team",
            reads=dict(**reads, resistance=self.resistance),
            writes=dict(kin=kin, articulated=self._articulated, L=self.L),
        )
        self.floating.add_to_factors(launch, kin, diagonal, self.L)


def inertia_factors(model: Model) -> InertiaFactors:
    """Return room for factors that hold for the longest and the most unevenly loaded chain of a model."""
    deep = topology_of(model).max_depth > MOST_ELIMINATED
    return ArticulatedInertia(model) if deep or _loses_precision(model) else EliminatedInertia(model)


def _loses_precision(model: Model) -> bool:
    """Whether an axis moves far more than what it moves while all behind it yields."""
    body_tree = topology_of(model).body_tree
    mass: np.ndarray = model.body_mass.numpy()
    total, least = np.zeros(topology_of(model).tree_count), np.full(topology_of(model).tree_count, np.inf)
    moved = (body_tree >= 0) & (mass > 0.0)
    np.add.at(total, body_tree[moved], mass[moved])
    np.minimum.at(least, body_tree[moved], mass[moved])
    uneven = np.flatnonzero(total > UNEVEN * least)
    if not len(uneven):
        return False
    inertias = tree_inertias(model, uneven)
    known = np.isfinite(inertias.rigid)
    return bool((inertias.rigid[known] > LARGEST_LOSS * inertias.yielding[known]).any())
