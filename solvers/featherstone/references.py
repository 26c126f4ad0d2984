"""Limits and contacts by reference, as kernels take them, see `kernels.views.references`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.constraints.dof_rows import LimitView
from newtonsim.kernels.views.references import ContactParameters
from newtonsim.scene.allocation import put
from newtonsim.scene.model import Model
from newtonsim.solvers.inverse_weights import inverse_weights
from newtonsim.solvers.references import has_contact_parameters, has_limit_references


class References:
    """solref, solimp and what else decides about limits and contacts by reference.

    Inverse weights are those of the masses when this was made, in the pose where all coordinates are zero;
    parameters of pairs are those that the model had then, too.

    Args:
        model: The model.

    Attributes:
        any: Whether a limit or a contact of the model has parameters of its own.
    """

    def __init__(self, model: Model):
        self.model = model
        self._limits = has_limit_references(model)
        self._contacts = has_contact_parameters(model)
        self.any = self._limits or self._contacts
        by_body, by_dof = np.zeros(0), np.zeros(0)
        if self.any and model.joint_count:
            by_body, by_dof = inverse_weights(model)
        self._pairs = _sorted_pairs(model)
        self._by_body = put(by_body, dtype=float, device=model.device)
        self._by_dof = put(by_dof, dtype=float, device=model.device)

    def describe_limits(self, view: LimitView, joint_qd: wp.array) -> None:
        """Fill in what a view of limits holds of them.

        Args:
            view: Receives the arrays of the model.
            joint_qd: Velocities at the start of the step.
        """
        model = self.model
        view.by_reference = int(self._limits)
        view.qd = joint_qd
        view.ref, view.imp = model.joint_limit_solref, model.joint_limit_solimp
        view.margin, view.weight = model.joint_limit_margin, self._by_dof

    def contacts(self) -> ContactParameters:
        """Return the parameters of contacts; those of the model may be replaced."""
        model, view = self.model, ContactParameters()
        view.given = int(self._contacts)
        view.ref, view.imp = model.shape_solref, model.shape_solimp
        view.mix, view.priority = model.shape_solmix, model.shape_priority
        view.condim, view.weight = model.shape_condim, self._by_body
        view.pair, view.pair_ref, view.pair_imp, view.pair_mu = self._pairs
        return view


def _sorted_pairs(model: Model) -> tuple[wp.array, wp.array, wp.array, wp.array]:
    """Return pairs of shapes in ascending order, smaller one first, and their solref, solimp and friction."""
    shapes = np.sort(model.contact_pair_shapes.numpy(), axis=1)
    _, order = np.unique(shapes[:, 0].astype(np.int64) * model.shape_count + shapes[:, 1], return_index=True)
    ref, imp = model.contact_pair_solref.numpy()[order], model.contact_pair_solimp.numpy()[order]
    device = model.device
    return (
        put(shapes[order], dtype=wp.vec2i, device=device),
        put(ref, dtype=float, device=device),
        put(imp, dtype=float, device=device),
        put(model.contact_pair_friction.numpy()[order], dtype=wp.vec3, device=device),
    )
