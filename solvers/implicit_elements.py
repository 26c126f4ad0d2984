"""Elements between particles in the adjoint of an implicit step."""

from __future__ import annotations

import warp as wp

from newtonsim.allocation import zeros
from newtonsim.control import Control
from newtonsim.kernels import implicit_elements
from newtonsim.kernels.implicit_elements import SubstepView
from newtonsim.model import Model
from newtonsim.solvers.implicit_system import CORNERS, ImplicitSystem
from newtonsim.workspace import Launcher

_VIEWS = {
    "spring": implicit_elements.SpringView,
    "tri": implicit_elements.TriangleView,
    "edge": implicit_elements.EdgeView,
    "tet": implicit_elements.TetrahedronView,
}
_WEIGH = {
    "spring": implicit_elements.weigh_springs,
    "tri": implicit_elements.weigh_triangles,
    "edge": implicit_elements.weigh_edges,
    "tet": implicit_elements.weigh_tetrahedra,
}
_REVERSE = {
    "spring": implicit_elements.reverse_springs,
    "tri": implicit_elements.reverse_triangles,
    "edge": implicit_elements.reverse_edges,
    "tet": implicit_elements.reverse_tetrahedra,
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
    """Matrix and gradients of the elements of a model, see `kernels.implicit_elements`.

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
        for kind, kernel in _WEIGH.items():
            inputs = [self._view(kind, control), substep, self.system.entries[kind], self.system.view.matrix]
            launch(kernel, f"implicit {kind}", inputs)

    def reverse(self, launch: Launcher, control: Control, substep: SubstepView) -> None:
        """Add the gradients by positions and parameters at the multipliers."""
        for kind, kernel in _REVERSE.items():
            launch(kernel, f"implicit {kind}", [self._view(kind, control), substep])

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
