"""Stage of FeatherstoneSolver for bodies that are absent from their worlds."""

from __future__ import annotations

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.fields.presence import ends_of_constraints, presence_of
from newtonsim.kernels.constraints.dof_rows import ROW_DRIVE, DofRowView
from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.steps import presence as presence_kernels
from newtonsim.kernels.views.model import TreeView
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.residents import keep_on_device
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of


class AbsentBodies:
    """Keeps absent bodies out of a step: they collide with nothing, stand still and have no rows.

    Smooth dynamics of their trees are still computed, but not used.

    Args:
        model: The model.
        dof_rows: Rows on single dofs of the solver.
        pair_rows: Rows between bodies of the solver.

    Attributes:
        tree: The model's topology, without dofs for absent bodies.
        moving: Velocities of bodies at the start of the step, zero of absent ones, (body_count,).
    """

    def __init__(self, model: Model, dof_rows: DofRowView, pair_rows: PairRowView):
        self.model = model
        self._rows, self._pairs = dof_rows, pair_rows
        device, topology = model.device, topology_of(model)
        self._own_kind = put(dof_rows.source_kind.numpy(), dtype=int, device=device)
        self._no_servos = zeros(0, dtype=float, device=device)
        self.moving = zeros(model.body_count, dtype=wp.spatial_vector, device=device)
        self.tree = TreeView()
        for name in TreeView.cls.__annotations__:
            setattr(self.tree, name, getattr(topology.view, name))
        self.tree.body_leaf = zeros(model.body_count, dtype=int, device=device)
        keep_on_device(device, self.tree)

    def begin(self, launch: Launcher, state: State) -> Launcher:
        """Remove absent bodies from collisions and constraints.

        Returns:
            Launcher for the rest of the step, to which absent bodies have no dofs.
        """
        model, presence = self.model, presence_of(self.model)
        assert presence is not None
        present = model.body_present
        presence.follow(launch)
        launch(
            presence_kernels.hold_bodies,
            "body",
            reads=dict(present=present, leaf=launch.views.tree.body_leaf, qd=state.body_qd),
            writes=dict(body_leaf=self.tree.body_leaf, moving=self.moving),
        )
        launch(
            presence_kernels.leave_out_rows,
            "dof_row",
            reads=dict(
                body=self.tree.dof_body,
                present=present,
                dof=self._rows.source_dof,
                own_kind=self._own_kind,
                idle_kind=int(ROW_DRIVE),
            ),
            writes=dict(source_kind=self._rows.source_kind),
        )
        if model.constraint_count:
            launch(
                presence_kernels.release_constraints,
                "pair_row",
                reads=dict(
                    constraint=self._pairs.constraint,
                    ends=presence.ends,
                    present=present,
                    enabled=model.constraint_enabled,
                ),
                writes=dict(acting=presence.acting),
            )
        return launch.with_tree(self.tree)

    def hold(self, launch: Launcher, qd: wp.array, implicit: wp.array, applied: wp.array | None) -> None:
        """Zero the velocities of absent bodies, and switch off their drives and servos.

        Args:
            launch: Launcher of the model.
            qd: Velocities without constraints, (joint_dof_count,).
            implicit: 0 for dofs whose drive needs a row, likewise.
            applied: Efforts of servos, None without servos.
        """
        launch(
            presence_kernels.hold_dofs,
            "dof",
            reads=dict(body=self.tree.dof_body, present=self.model.body_present),
            writes=dict(qd=qd, settled=implicit, applied=self._no_servos if applied is None else applied),
        )


class StartingImpulsesOfBodies:
    """Which impulses the next step would start from belong to which bodies.

    Args:
        model: The model.
        rows: Rows of the solver.
    """

    def __init__(self, model: Model, rows: RowsView):
        self._model, self._rows = model, rows
        self._dof_body: np.ndarray = topology_of(model).view.dof_body.numpy()[rows.dof.source_dof.numpy()]
        self._shape_body: np.ndarray = np.append(model.shape_body.numpy(), -1)

    def forget(self, contacts: Contacts, bodies: np.ndarray) -> None:
        """Drop the impulses of rows of some bodies: of contacts, dofs and constraints.

        Args:
            contacts: Contacts of the last step.
            bodies: The bodies, (n,).
        """
        model, rows = self._model, self._rows
        gone = np.zeros(model.body_count + 1, bool)
        gone[bodies] = True
        of_dofs = gone[self._dof_body]
        if of_dofs.any():
            _clear(rows.dof.memory, of_dofs)
        if model.constraint_count:
            constraint: np.ndarray = rows.pair.constraint.numpy()
            held: np.ndarray = np.any(gone[ends_of_constraints(model)], axis=1)
            _clear(rows.pair.impulse, (constraint >= 0) & held[constraint])
        of_shapes = gone[self._shape_body]
        if not of_shapes.any() or not len(rows.contact.memory) or not contacts.view.world_count.numpy().any():
            return
        ends = (contacts.view.shape0.numpy(), contacts.view.shape1.numpy())
        touched = of_shapes[ends[0]] | of_shapes[ends[1]]
        for family in (rows.contact, rows.spin) if touched.any() else ():
            if len(family.memory):
                _clear(family.memory, touched)


def _clear(array: wp.array, entries: np.ndarray) -> None:
    """Set entries of an array to zero."""
    values = array.numpy()
    values[entries] = 0.0
    if not wp.get_device(str(array.device)).is_cpu:
        array.assign(values)
