"""Elements between particles in the adjoint of an implicit step."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.particles.adjoint import elements as elements_adjoint
from newtonsim.kernels.particles.adjoint.elements import SubstepView
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.solvers.particles.adjoint_system import CORNERS, ImplicitSystem

_VIEWS = {
    "spring": elements_adjoint.SpringView,
    "tri": elements_adjoint.TriangleView,
    "edge": elements_adjoint.EdgeView,
    "tet": elements_adjoint.TetrahedronView,
}
_PARAMETERS = {
    "spring": {
        "rest_length": "spring_rest_length",
        "stiffness": "spring_stiffness",
        "damping": "spring_damping",
        "control": "spring_control",
    },
    "tri": {"poses": "tri_poses", "areas": "tri_areas", "materials": "tri_materials"},
    "edge": {
        "rest_angle": "edge_rest_angle",
        "rest_length": "edge_rest_length",
        "properties": "edge_bending_properties",
    },
    "tet": {"poses": "tet_poses", "materials": "tet_materials"},
}
_ACTIVATIONS = {"tri": "tri_activations", "tet": "tet_activations"}


class Sinks:
    """Arrays that gradients are added to: those of the arrays themselves, or nobody's where they have none.

    Args:
        device: Where the arrays live.
    """

    def __init__(self, device: wp.Device):
        self._device = device
        self._unused: dict[tuple, wp.array] = {}

    def of(self, array: wp.array) -> wp.array:
        """Return where the gradient of an array goes."""
        if array.grad is not None:
            return array.grad
        key = (array.dtype, tuple(array.shape))
        if key not in self._unused:
            self._unused[key] = zeros(tuple(array.shape), dtype=array.dtype, device=self._device)
        return self._unused[key]


class ElementSlopes:
    """Matrix and gradients of the elements of a model, see `kernels.particles.adjoint.elements`.

    Args:
        model: The particles and elements.
        system: Where their blocks go.
        sinks: Where gradients of parameters go.

    Attributes:
        starts: Kinds of index, see `Shard`.
    """

    def __init__(self, model: Model, system: ImplicitSystem, sinks: Sinks):
        self.model, self.system, self.sinks = model, system, sinks
        self.starts = {f"implicit {kind}": [0, getattr(model, f"{kind}_count")] for kind in CORNERS}

    def weigh(self, launch: Launcher, control: Control, substep: SubstepView) -> None:
        """Add all elements to the matrix."""
        matrix = self.system.view.matrix
        launch(
            elements_adjoint.weigh_springs,
            "implicit spring",
            reads=dict(springs=self._view("spring", control), s=substep, entry=self.system.entries["spring"]),
            writes=dict(m=matrix),
        )
        launch(
            elements_adjoint.weigh_triangles,
            "implicit tri",
            reads=dict(t=self._view("tri", control), s=substep, entry=self.system.entries["tri"]),
            writes=dict(m=matrix),
        )
        launch(
            elements_adjoint.weigh_edges,
            "implicit edge",
            reads=dict(edges=self._view("edge", control), s=substep, entry=self.system.entries["edge"]),
            writes=dict(m=matrix),
        )
        launch(
            elements_adjoint.weigh_tetrahedra,
            "implicit tet",
            reads=dict(t=self._view("tet", control), s=substep, entry=self.system.entries["tet"]),
            writes=dict(m=matrix),
        )

    def reverse(self, launch: Launcher, control: Control, substep: SubstepView) -> None:
        """Add the gradients with respect to positions and parameters at the multipliers."""
        launch(
            elements_adjoint.reverse_springs,
            "implicit spring",
            writes=dict(springs=self._view("spring", control), s=substep),
        )
        launch(
            elements_adjoint.reverse_triangles,
            "implicit tri",
            writes=dict(t=self._view("tri", control), s=substep),
        )
        launch(
            elements_adjoint.reverse_edges,
            "implicit edge",
            writes=dict(edges=self._view("edge", control), s=substep),
        )
        launch(
            elements_adjoint.reverse_tetrahedra,
            "implicit tet",
            writes=dict(t=self._view("tet", control), s=substep),
        )

    def _view(self, kind: str, control: Control) -> object:
        """Parameters of the elements of a kind, and where their gradients go."""
        view = _VIEWS[kind]()
        if not getattr(self.model, f"{kind}_count"):
            return view
        view.indices = getattr(self.model, f"{kind}_indices")
        arrays = {name: getattr(self.model, array) for name, array in _PARAMETERS[kind].items()}
        if kind in _ACTIVATIONS:
            given = getattr(control, _ACTIVATIONS[kind])
            arrays["activations"] = getattr(self.model, _ACTIVATIONS[kind]) if given is None else given
        for name, array in arrays.items():
            setattr(view, name, array)
            setattr(view, f"{name}_grad", self.sinks.of(array))
        return view
