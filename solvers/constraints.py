"""Constraint stage of FeatherstoneSolver: buffers, and the order of its kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.contacts import Contacts
from newtonsim.kernels import constraint_rows, gauss_seidel
from newtonsim.kernels.constraint_rows import ConstraintSettings, ContactRowView, ScalarRowView
from newtonsim.model import Model
from newtonsim.solvers.smooth import SmoothStage
from newtonsim.state import State
from newtonsim.workspace import Launcher


@dataclass
class ConstraintOptions:
    """Stiffness, damping and accuracy of the constraint solve.

    Attributes:
        iterations: Most Gauss-Seidel sweeps in a step.
        tolerance: The solve ends when no row's velocity changes by more [m/s or rad/s].
        cone: "elliptic" or "pyramidal" friction cone.
        contact_erp: Share of a penetration that one step removes.
        contact_cfm: Softness of contacts, added to the Delassus diagonal [1/kg].
        contact_slop: Penetration that is left alone [m].
        max_push_speed: Fastest removal of penetration [m/s].
        recovery_time: Shortest time constant of removing penetrations and violated limits [s]; where the ERP
            asks for more, as at small steps, the removal would kick bodies apart.
        restitution_speed: Slowest approach that bounces [m/s].
        limit_erp: Share of a joint limit's violation that one step removes.
        limit_cfm: Softness of joint limits.
        max_limit_speed: Fastest removal of a joint limit's violation [rad/s or m/s].
        limit_margin: Distance to a joint limit at which its row exists [rad or m].
        warm_start: Share of the last step's impulses to start from.
    """

    iterations: int = 16
    tolerance: float = 1.0e-5
    cone: str = "elliptic"
    contact_erp: float = 0.2
    contact_cfm: float = 0.0
    contact_slop: float = 1.0e-4
    max_push_speed: float = 1.0
    recovery_time: float = 0.02
    restitution_speed: float = 0.1
    limit_erp: float = 0.2
    limit_cfm: float = 0.0
    max_limit_speed: float = 5.0
    limit_margin: float = 0.05
    warm_start: float = 1.0

    def __post_init__(self) -> None:
        if self.cone not in ("elliptic", "pyramidal"):
            raise ValueError(f"cone: expected 'elliptic' or 'pyramidal', got {self.cone!r}")
        if self.iterations < 1:
            raise ValueError(f"iterations: expected at least 1, got {self.iterations}")
        for name in ("contact_erp", "limit_erp", "warm_start"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}: expected a number from 0 to 1, got {getattr(self, name)}")
        for name in (
            "contact_cfm",
            "limit_cfm",
            "contact_slop",
            "max_push_speed",
            "tolerance",
            "limit_margin",
        ):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name}: expected a number not below 0, got {getattr(self, name)}")

    def settings(self, dt: float) -> ConstraintSettings:
        """Return the device struct for one time step [s]."""
        s = ConstraintSettings()
        s.dt = dt
        fastest = 1.0 / max(self.recovery_time, dt)
        s.contact_rate = min(self.contact_erp / dt, fastest)
        s.limit_rate = min(self.limit_erp / dt, fastest)
        for name in (
            "contact_cfm",
            "contact_slop",
            "max_push_speed",
            "restitution_speed",
            "limit_cfm",
            "max_limit_speed",
            "limit_margin",
            "warm_start",
        ):
            setattr(s, name, getattr(self, name))
        return s


class ConstraintStage:
    """Rows of contacts, joint limits, bounded drives and dry friction, and their solve.

    Attributes:
        impulse_acted: 1 for worlds in which a constraint acted in the last step, shape (world_count,).
        iterations: Gauss-Seidel sweeps of the last step per world, shape (world_count,).
        residual: Last velocity change of the solve per world [m/s or rad/s], shape (world_count,).
    """

    def __init__(self, model: Model, options: ConstraintOptions):
        self.model = model
        self.options = options
        device = model.device
        worlds = model.world_count
        self.impulse_acted = wp.zeros(worlds, dtype=int, device=device)
        self.iterations = wp.zeros(worlds, dtype=int, device=device)
        self.residual = wp.zeros(worlds, dtype=float, device=device)
        self.z = wp.zeros(model.joint_dof_count, dtype=float, device=device)
        self.scalar = _scalar_rows(model)
        self.contact = _contact_rows(model)
        owner = np.repeat(np.arange(worlds), np.diff(model.collision_plan.contact_start))
        self.memory_world = wp.array(owner, dtype=int, device=device)

    def solve(
        self,
        launch: Launcher,
        smooth: SmoothStage,
        joint_q: wp.array,
        joint_act: wp.array,
        contacts: Contacts,
        dt: float,
        state_out: State,
    ) -> None:
        """Write the velocity that satisfies all constraints into `state_out.joint_qd`.

        Args:
            launch: Launcher of the model.
            smooth: Result of the smooth stage.
            joint_q: Coordinates at the start of the step.
            joint_act: Joint control inputs.
            contacts: Contacts at the start of the step.
            dt: Time step [s].
            state_out: Receives the result.
        """
        L, v_free = smooth.L, smooth.v_free
        model, v, rows = self.model, launch.views, self.scalar
        settings = self.options.settings(dt)
        launch(gauss_seidel.to_energy_coordinates, model.joint_dof_count, [v.tree, L, v_free, self.z])
        if self.scalar_count:
            inputs = [v.drive, v.tree, model.joint_limit_lower, model.joint_limit_upper, model.joint_friction]
            inputs += [smooth.implicit, joint_q, v_free, joint_act, settings, rows]
            launch(constraint_rows.select_scalar_rows, model.world_count, inputs)
            launch(constraint_rows.build_scalar_rows, self.scalar_count, [v.tree, L, settings, rows])
        self._build_contacts(launch, smooth, contacts, settings)
        inputs = [v.tree, rows, contacts.view, self.contact, model.topology.max_depth, settings]
        inputs += [self.options.cone == "pyramidal", self.options.iterations, self.options.tolerance]
        launch(
            gauss_seidel.solve_rows,
            model.world_count,
            [*inputs, self.z, self.impulse_acted, self.iterations, self.residual],
        )
        inputs = [v.tree, L, self.z, v_free, self.impulse_acted, state_out.joint_qd]
        launch(gauss_seidel.accept_velocity, launch.tree_count, inputs)
        self._remember(launch, contacts)

    @property
    def scalar_count(self) -> int:
        """Number of places for scalar rows."""
        return len(self.scalar.source)

    def _build_contacts(
        self,
        launch: Launcher,
        smooth: SmoothStage,
        contacts: Contacts,
        settings: ConstraintSettings,
    ) -> None:
        if contacts.rigid_contact_max == 0:
            return
        model, v = self.model, launch.views
        inputs = [v.tree, smooth.motion.kin, model.collision_plan.shape, model.shape_materials]
        inputs += [
            smooth.body_q,
            smooth.body_qd,
            model.body_com,
            smooth.L,
            self.z,
            contacts.view,
            model.topology.max_depth,
            settings,
            self.contact,
        ]
        launch(constraint_rows.build_contact_rows, contacts.rigid_contact_max, inputs)

    def _remember(self, launch: Launcher, contacts: Contacts) -> None:
        if self.scalar_count:
            launch(constraint_rows.remember_scalar_impulses, self.scalar_count, [self.scalar])
        if contacts.rigid_contact_max:
            self.contact.memory.zero_()
            inputs = [contacts.view, self.contact]
            launch(constraint_rows.remember_contact_impulses, contacts.rigid_contact_max, inputs)

    def forget(self, world_mask: wp.array | None) -> None:
        """Drop the warm start of the masked worlds, or of all."""
        if world_mask is None:
            self.scalar.memory.zero_()
            self.contact.memory.zero_()
            return
        options = {"device": self.model.device, "record_tape": False}
        memory = self.scalar.memory
        wp.launch(
            constraint_rows.forget_worlds, len(memory), [world_mask, self.scalar.world, memory], **options
        )
        memory = self.contact.memory
        inputs = [world_mask, self.memory_world, memory]
        wp.launch(constraint_rows.forget_contact_worlds, len(memory), inputs, **options)


def _scalar_rows(model: Model) -> ScalarRowView:
    """Find every dof that can have a scalar row, grouped by world."""
    view = model.topology.view
    # every axis is a candidate whatever its limits are now: their values may change between steps
    with_axis = np.flatnonzero(view.dof_axis.numpy() >= 0)
    candidates = {
        constraint_rows.ROW_LOWER: with_axis,
        constraint_rows.ROW_UPPER: with_axis,
        constraint_rows.ROW_DRIVE: with_axis,
        constraint_rows.ROW_FRICTION: np.arange(model.joint_dof_count),
    }
    dof = np.concatenate(list(candidates.values()))
    kind = np.repeat(list(candidates), [len(dofs) for dofs in candidates.values()])
    world = view.dof_world.numpy()[dof]
    order = np.lexsort((kind, world))
    count = len(dof)

    rows = ScalarRowView()
    device = model.device
    rows.source_kind = wp.array(kind[order], dtype=int, device=device)
    rows.source_dof = wp.array(dof[order], dtype=int, device=device)
    rows.world = wp.array(world[order], dtype=int, device=device)
    start = np.searchsorted(world[order], np.arange(model.world_count + 1))
    rows.world_start = wp.array(start, dtype=int, device=device)
    rows.world_count = wp.zeros(model.world_count, dtype=int, device=device)
    rows.source = wp.zeros(count, dtype=int, device=device)
    for name in ("lower", "upper", "target", "softness", "delassus", "impulse", "memory"):
        setattr(rows, name, wp.zeros(count, dtype=float, device=device))
    rows.B = wp.zeros((count, model.topology.max_depth), dtype=float, device=device)
    return rows


def _contact_rows(model: Model) -> ContactRowView:
    count = model.collision_plan.contact_count
    device = model.device
    rows = ContactRowView()
    rows.leaf = wp.zeros(count, dtype=wp.vec2i, device=device)
    rows.friction = wp.zeros(count, dtype=float, device=device)
    rows.target = wp.zeros(count, dtype=wp.vec3, device=device)
    rows.delassus = wp.zeros(count, dtype=wp.vec2, device=device)
    rows.impulse = wp.zeros(count, dtype=wp.vec3, device=device)
    rows.memory = wp.zeros(count, dtype=wp.vec3, device=device)
    rows.B = wp.zeros((count, 3, 2 * model.topology.max_depth), dtype=float, device=device)
    return rows
