"""Rows by reference, as kernels take them, see `kernels.views.references`."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.kernels.constraints.dof_rows import ConstraintSettings, LimitView
from newtonsim.kernels.trees import dof_inertia
from newtonsim.kernels.views.model import KinematicsView
from newtonsim.kernels.views.pair_rows import LoopView
from newtonsim.kernels.views.references import ContactParameters
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import ConstraintType
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.inverse_weights import inverse_weights
from newtonsim.solvers.references import (
    has_contact_parameters,
    has_friction_references,
    has_limit_references,
    has_loop_references,
)


class DofWeights:
    """What `kernels.trees.dof_inertia` finds.

    Attributes:
        inertia: Inertia of each dof alone without armature, shape (joint_dof_count,).
        light: 1 / inertia of each dof alone, shape (joint_dof_count,).
        added: What implicit forces of tendons add to it, shape (joint_dof_count,).
        heavy: 1 / inertia with what all implicit forces add to it, shape (joint_dof_count,).
    """

    def __init__(self, model: Model, requires_grad: bool = False):
        count, device = model.joint_dof_count, model.device
        self.inertia = zeros(count, dtype=float, device=device, requires_grad=requires_grad)
        self.light = zeros(count, dtype=float, device=device, requires_grad=requires_grad)
        self.added = zeros(count, dtype=float, device=device, requires_grad=requires_grad)
        self.heavy = zeros(count, dtype=float, device=device, requires_grad=requires_grad)


class References:
    """solref, solimp and other parameters of rows by reference.

    Inverse weights are those of the masses when this was made, in the pose where all coordinates are zero;
    parameters of pairs are those that the model had then, too.

    Args:
        model: The model.

    Attributes:
        any: Whether a limit, a dry friction, an equality or a contact of the model has parameters of its own.
        loops: Whether an equality has.
        pairs: Whether an equality or a dry friction has: rows between bodies may be by reference.
    """

    def __init__(self, model: Model):
        self.model = model
        self._limits = has_limit_references(model)
        self._contacts = has_contact_parameters(model)
        self._frictions, self.loops = has_friction_references(model), has_loop_references(model)
        self.pairs = self._frictions or self.loops
        self.any = self._limits or self._contacts or self._frictions or self.loops
        by_body, by_turn, by_dof = np.zeros(model.body_count), np.zeros(model.body_count), np.zeros(0)
        if self.any and model.joint_count:
            by_body, by_turn, by_dof = inverse_weights(model)
        self._pairs = _sorted_pairs(model)
        self._by_body = put(by_body, dtype=float, device=model.device)
        self._by_dof = put(by_dof, dtype=float, device=model.device)
        by_loop = _loop_weights(model, by_body, by_turn, by_dof) if self.loops else np.zeros((0, 3))
        self._by_loop = put(by_loop, dtype=wp.vec3, device=model.device)

    def need_weights(self, s: ConstraintSettings) -> bool:
        """Whether rows by reference ask how inert dofs are."""
        return bool(s.late) and (self._limits or self.pairs)

    def add_up(
        self, launch: Launcher, kin: KinematicsView, s: ConstraintSettings, weights: DofWeights
    ) -> None:
        """Compute inertias of dofs, if rows by reference need them.

        Args:
            launch: Launcher of the model.
            kin: Motion subspaces and inertias of bodies in the poses.
            s: Settings of the constraint solve.
            weights: Receives them.
        """
        if self.need_weights(s):
            v = launch.views
            launch(
                dof_inertia.add_up_inertias,
                "dof",
                reads=dict(tree=v.tree, joint=v.joint, body=v.body, kin=kin),
                writes=dict(inertia=weights.inertia),
            )

    def weigh(self, launch: Launcher, implicit: wp.array, s: ConstraintSettings, weights: DofWeights) -> None:
        """Compute the inverses of these inertias, without and with implicit forces; needs `add_up`.

        Args:
            launch: Launcher of the model.
            implicit: 0 for dofs whose drive may exceed its effort limit.
            s: Settings of the constraint solve.
            weights: Receives them, and has what tendons add.
        """
        if self.need_weights(s):
            v = launch.views
            launch(
                dof_inertia.weigh_dofs,
                "dof",
                reads=dict(
                    tree=v.tree,
                    drive=v.drive,
                    implicit=implicit,
                    inertia=weights.inertia,
                    added=weights.added,
                    dt=s.dt,
                ),
                writes=dict(light=weights.light, heavy=weights.heavy),
            )

    def describe_limits(self, view: LimitView, joint_qd: wp.array, weights: DofWeights) -> None:
        """Fill in what a view of limits holds of limits and dry friction by reference.

        Args:
            view: Receives the arrays of the model.
            joint_qd: Velocities at the start of the step.
            weights: How inert dofs are.
        """
        model = self.model
        view.by_reference = int(self._limits)
        view.qd, view.light, view.heavy = joint_qd, weights.light, weights.heavy
        view.ref, view.imp = model.joint_limit_solref, model.joint_limit_solimp
        view.margin, view.weight = model.joint_limit_margin, self._by_dof
        view.friction_by_reference = int(self._frictions)
        view.friction_ref, view.friction_imp = model.joint_friction_solref, model.joint_friction_solimp

    def describe_loops(self, view: LoopView, joint_qd: wp.array, weights: DofWeights) -> None:
        """Fill in what a view of constraints holds of equalities and dry friction by reference.

        Args:
            view: Receives the arrays of the model.
            joint_qd: Velocities at the start of the step.
            weights: How inert dofs are.
        """
        model = self.model
        view.by_reference = int(self.loops)
        view.qd, view.light, view.heavy = joint_qd, weights.light, weights.heavy
        view.ref, view.imp = model.constraint_solref, model.constraint_solimp
        view.turn, view.weight = model.constraint_torque_scale, self._by_loop
        view.friction_by_reference, view.dof_weight = int(self._frictions), self._by_dof

    def contacts(self) -> ContactParameters:
        """Return the parameters of contacts; those of the model may be replaced."""
        model, view = self.model, ContactParameters()
        view.given = int(self._contacts)
        view.ref, view.imp = model.shape_solref, model.shape_solimp
        view.mix, view.priority = model.shape_solmix, model.shape_priority
        view.condim, view.weight = model.shape_condim, self._by_body
        view.pair, view.pair_ref, view.pair_imp, view.pair_mu = self._pairs
        return view


def _loop_weights(model: Model, by_body: np.ndarray, by_turn: np.ndarray, by_dof: np.ndarray) -> np.ndarray:
    """Return inverse weights of shifts and turns, and 1 for welds, of each constraint (constraint_count, 3).

    Those of a coupling are the sum of the weights of both dofs, as inverse weight of shifts.
    """
    parent: np.ndarray = model.constraint_parent.numpy()
    child: np.ndarray = model.constraint_child.numpy()
    weights = np.append(np.column_stack([by_body, by_turn]), [[0.0, 0.0]], axis=0)
    shift, turn = (weights[parent] + weights[child]).T
    dof_axis: np.ndarray = topology_of(model).view.dof_axis.numpy()
    by_axis = np.zeros(model.joint_axis_count + 1)
    by_axis[dof_axis[dof_axis >= 0]] = by_dof[dof_axis >= 0]
    kind: np.ndarray = model.constraint_type.numpy()
    coupled: np.ndarray = kind == ConstraintType.COUPLING
    axes: np.ndarray = model.constraint_coupled_axes.numpy()
    shift[coupled] = by_axis[axes[coupled]].sum(axis=1)
    held = (model.constraint_axis_dim.numpy() == 0).all(axis=1) & (kind == ConstraintType.LOOP)
    return np.column_stack([shift, turn, held])


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
