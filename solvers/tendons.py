"""Tendons in a step of FeatherstoneSolver: their lengths, forces and rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.dynamics.tendon_paths import TendonPaths, chains_of, path_layout
from newtonsim.errors import ModelError
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.tendons import forces, muscles, rows
from newtonsim.kernels.views import pair_rows
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.enums import JointMode
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.constraint_rows import PAIR_ROW
from newtonsim.solvers.inverse_weights import inverse_inertias


@dataclass
class TendonLayout:
    """Which rows of tendons there are.

    Attributes:
        row_kind: What each row is, int (R,), in the order of the worlds.
        row_tendons: Its tendons, int (R, 2).
        row_number: The equality, or the tendon, int (R,).
        row_leaves: Last dofs of both chains, int (R, 2).
        row_world: Its world, int (R,).
        spread: Why FeatherstoneSolver cannot have these rows, "" if it can.
    """

    row_kind: np.ndarray
    row_tendons: np.ndarray
    row_number: np.ndarray
    row_leaves: np.ndarray
    row_world: np.ndarray
    spread: str


def tendon_layout(model: Model) -> TendonLayout:
    """Work out the layout of rows, once for a model."""
    return model.cached("tendon_layout", _layout)


def _layout(model: Model) -> TendonLayout:
    chains, layout = chains_of(model), path_layout(model)
    own = layout.dofs
    lower, upper = model.tendon_limit_lower.numpy(), model.tendon_limit_upper.numpy()
    friction, armature = model.tendon_friction.numpy(), model.tendon_armature.numpy()
    limited = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper)).tolist()
    table = [(int(rows.TENDON_LIMIT), t, -1, t) for t in limited]
    table += [(int(rows.TENDON_FRICTION), t, -1, t) for t in np.flatnonzero(friction > 0.0).tolist()]
    passive, servo, muscle = _implicit(model)
    near = np.array([len(chains.leaves(one)) <= 2 for one in own], bool)
    passive = (passive & near) | (armature > 0.0)
    table += [(int(rows.TENDON_PASSIVE), t, -1, t) for t in np.flatnonzero(passive).tolist()]
    table += [(int(rows.TENDON_SERVO), t, -1, t) for t in np.flatnonzero(servo & near).tolist()]
    table += [(int(rows.TENDON_MUSCLE), t, -1, t) for t in np.flatnonzero(muscle & near).tolist()]
    if model.tendon_equality_count:
        pairs = model.tendon_equality_tendons.numpy().tolist()
        table += [(int(rows.TENDON_EQUALITY), a, b, k) for k, (a, b) in enumerate(pairs)]
    leaves, spread = np.full((len(table), 2), -1), ""
    for number, (_, first, second, _) in enumerate(table):
        found = chains.leaves(own[first] + (own[second] if second >= 0 else []))
        if len(found) > 2:
            spread = spread or (
                f"tendon '{model.tendon_key[first]}': FeatherstoneSolver has limits, friction, equalities "
                f"and armature of tendons along at most two kinematic chains, but these are {len(found)}"
            )
        leaves[number, : len(found[:2])] = found[:2]
    columns = np.array(table, np.int64).reshape(-1, 4)
    of_row = layout.world[columns[:, 1]]
    order = np.argsort(of_row, kind="stable")
    columns = columns[order]
    return TendonLayout(columns[:, 0], columns[:, 1:3], columns[:, 3], leaves[order], of_row[order], spread)


def _implicit(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tendons with springs or dampers, those with servos, and those with muscles, bool (tendon_count,)."""
    names = ("stiffness", "damping", "mode", "target_ke", "target_kd", "muscle")
    stiffness, damping, mode, ke, kd, muscle = (getattr(model, f"tendon_{name}").numpy() for name in names)
    pulls = muscle[:, muscles.VMAX] > 0.0
    servo = (mode != int(JointMode.FORCE)) & ~pulls
    return (stiffness > 0.0) | (damping > 0.0), servo & ((ke > 0.0) | (kd > 0.0)), pulls


def tendon_row_table(model: Model) -> np.ndarray:
    """Return the rows of tendons as PAIR_ROW, whose "index" numbers them.

    Raises:
        ModelError: A tendon that needs rows goes along more than two kinematic chains.
    """
    if not model.tendon_count:
        return np.zeros(0, PAIR_ROW)
    layout = tendon_layout(model)
    if layout.spread:
        raise ModelError(layout.spread)
    leaves = layout.row_leaves
    table = np.zeros(len(leaves), PAIR_ROW)
    table["kind"], table["dofs"] = pair_rows.PAIR_TENDON, leaves
    table["index"] = np.arange(len(leaves))
    for name in ("constraint", "joint", "parent", "child"):
        table[name] = -1
    return table


class Tendons(TendonPaths):
    """Lengths, forces and rows of the tendons of a model.

    Args:
        model: A model with tendons.
        pair: Rows between bodies, among which those of tendons are; None for forces alone.
        requires_grad: Whether gradients flow through what a step finds.

    Attributes:
        force: Force of each tendon at the start of the step [N], positive where it lengthens and without what
            rows apply, shape (tendon_count,).
        weight: What implicit forces add to the inertia along each tendon [kg], shape (tendon_count,).
        starts: First tendon, element, entry and row of each world, and the end (host).
    """

    def __init__(self, model: Model, pair: PairRowView | None, requires_grad: bool = False):
        super().__init__(model, requires_grad)
        self.pair = pair
        layout = tendon_layout(model)
        device = model.device

        def make(count: int) -> wp.array:
            return zeros(count, dtype=float, device=device, requires_grad=requires_grad)

        self.force = make(model.tendon_count)
        self.weight = make(model.tendon_count)
        self.joint_f = make(model.joint_dof_count)
        self.terms = make(len(layout.row_kind))
        self.starts["tendon_row"] = np.searchsorted(layout.row_world, np.arange(model.world_count + 1))
        self.row_count = 0 if pair is None else len(layout.row_kind)
        self.rows = rows.TendonRowView() if pair is None else self._make_rows(layout, pair)
        self._have_rows = {
            name: self._with_row(layout, kind)
            for name, kind in (
                ("passive_row", rows.TENDON_PASSIVE),
                ("servo_row", rows.TENDON_SERVO),
                ("muscle_row", rows.TENDON_MUSCLE),
            )
        }

    def _with_row(self, layout: TendonLayout, kind: int) -> wp.array:
        """Whether each tendon has a row of a kind."""
        found = np.zeros(self.model.tendon_count, np.int32)
        if self.row_count:
            found[layout.row_number[layout.row_kind == int(kind)]] = 1
        return put(found, dtype=int, device=self.model.device)

    def _drive(self) -> forces.TendonDrive:
        model, drive = self.model, forces.TendonDrive()
        drive.stiffness, drive.damping = model.tendon_stiffness, model.tendon_damping
        drive.spring_lower, drive.spring_upper = model.tendon_spring_lower, model.tendon_spring_upper
        drive.mode, drive.effort_limit = model.tendon_mode, model.tendon_effort_limit
        drive.target_ke, drive.target_kd = model.tendon_target_ke, model.tendon_target_kd
        drive.muscle = model.tendon_muscle
        for name, array in self._have_rows.items():
            setattr(drive, name, array)
        return drive

    # -- forces ----------------------------------------------------------------------------------------------

    def pull(self, launch: Launcher, control: Control, joint_f: wp.array) -> wp.array:
        """Return the generalised forces of tendons and those that act besides; needs `measure`.

        Args:
            launch: Launcher that knows `starts`.
            control: Inputs.
            joint_f: What acts besides, shape (joint_dof_count,).
        """
        launch(
            forces.pull_tendons,
            "tendon",
            reads=dict(drive=self._drive(), motion=self.motion, act=control.tendon_act),
            writes=dict(force=self.force),
        )
        launch(
            forces.add_tendon_forces,
            "dof",
            reads=dict(tendon=self.view, motion=self.motion, force=self.force, joint_f=joint_f),
            writes=dict(total=self.joint_f),
        )
        return self.joint_f

    def weigh(self, launch: Launcher, control: Control, dt: float, added: wp.array) -> None:
        """Compute what implicit forces add to the inertia of each dof alone; needs `measure`.

        Args:
            launch: Launcher that knows `starts`.
            control: Inputs.
            dt: Time step [s].
            added: Receives it, shape (joint_dof_count,).
        """
        launch(
            forces.weigh_tendons,
            "tendon",
            reads=dict(drive=self._drive(), motion=self.motion, act=control.tendon_act, dt=dt),
            writes=dict(weight=self.weight),
        )
        launch(
            forces.add_up_weights,
            "dof",
            reads=dict(tendon=self.view, motion=self.motion, weight=self.weight),
            writes=dict(added=added),
        )

    # -- rows ------------------------------------------------------------------------------------------------

    def _make_rows(self, layout: TendonLayout, pair: PairRowView) -> rows.TendonRowView:
        device = self.model.device
        kind, index = pair.kind.numpy(), pair.index.numpy()
        mine = np.flatnonzero(kind == pair_rows.PAIR_TENDON)
        place = mine[np.argsort(index[mine])]
        start, entry, slot, second = self._parts(layout)

        def numbers(values: np.ndarray) -> wp.array:
            return put(values, dtype=int, device=device)

        view = rows.TendonRowView()
        view.place, view.kind = numbers(place), numbers(layout.row_kind)
        view.leaf = put(layout.row_leaves, dtype=wp.vec2i, device=device)
        view.tendon = put(layout.row_tendons, dtype=wp.vec2i, device=device)
        view.number = numbers(layout.row_number)
        view.part_start, view.part_entry = numbers(start), numbers(entry)
        view.part_slot, view.part_second = numbers(slot), numbers(second)
        view.weight = put(self._weights(layout), dtype=float, device=device)
        return view

    def _parts(self, layout: TendonLayout) -> tuple[np.ndarray, ...]:
        """First part of each row, and of each part the entry, its place in the row, and whose it is."""
        depth, tree = topology_of(self.model).max_depth, topology_of(self.model).view
        dof_depth = tree.dof_depth.numpy()
        chains, entries = chains_of(self.model), path_layout(self.model)
        begin = np.searchsorted(entries.entry_tendon, np.arange(self.model.tendon_count + 1))
        parts, starts = [], [0]
        for tendons, leaves in zip(layout.row_tendons.tolist(), layout.row_leaves.tolist()):
            near = set(chains.of(leaves[0])) if leaves[0] >= 0 else set()
            for second, t in enumerate(tendons):
                for e in range(*(begin[t : t + 2] if t >= 0 else (0, 0))):
                    d = int(entries.entry_dof[e])
                    parts.append((e, int(dof_depth[d]) + (0 if d in near else depth), second))
            starts.append(len(parts))
        table = np.array(parts, np.int64).reshape(-1, 3)
        return np.array(starts), table[:, 0], table[:, 1], table[:, 2]

    def _weights(self, layout: TendonLayout) -> np.ndarray:
        """Inverse weight of the tendons of each row where all coordinates are zero."""
        model = self.model
        if not self.row_count:
            return np.zeros(0)
        self.measure_reference()
        inverse, place = inverse_inertias(model)
        J, entries = self.motion.J.numpy().astype(np.float64), path_layout(model)
        dof = entries.entry_dof
        begin = np.searchsorted(entries.entry_tendon, np.arange(model.tendon_count + 1))
        weights = np.zeros(model.tendon_count)
        for t, (first, last) in enumerate(zip(begin[:-1].tolist(), begin[1:].tolist())):
            block, local = place[0][dof[first:last]], place[1][dof[first:last]]
            together = block[:, None] == block
            M = inverse[block[:, None], local[:, None], local] * together
            weights[t] = J[first:last] @ M @ J[first:last]
        return weights[layout.row_tendons[:, 0]] + np.append(weights, 0.0)[layout.row_tendons[:, 1]]

    def describe_rows(self) -> rows.TendonRowView:
        """The rows, with arrays of the model as they are now."""
        model, view = self.model, self.rows
        view.lower, view.upper = model.tendon_limit_lower, model.tendon_limit_upper
        view.margin, view.friction = model.tendon_limit_margin, model.tendon_friction
        view.armature = model.tendon_armature
        view.ref, view.imp = model.tendon_limit_solref, model.tendon_limit_solimp
        view.enabled, view.lengths = model.tendon_equality_enabled, model.tendon_equality_lengths
        view.coefficients = model.tendon_equality_coefficients
        view.equality_ref, view.equality_imp = model.tendon_equality_solref, model.tendon_equality_solimp
        return view

    def build(self, launch: Launcher, act: wp.array, L: wp.array, s: ConstraintSettings) -> None:
        """Build the rows of tendons; needs `measure`.

        Args:
            launch: Launcher that knows `starts`.
            act: Inputs of tendons, shape (tendon_count,).
            L: Factors of the joint-space inertia.
            s: Settings of the constraint solve.
        """
        launch(
            rows.build_tendon_rows,
            "tendon_row",
            reads=dict(
                tree=launch.views.tree,
                motion=self.motion,
                drive=self._drive(),
                act=act,
                rows=self.describe_rows(),
                L=L,
                depth=topology_of(self.model).max_depth,
                dt=s.dt,
                late=s.late,
                warm_start=s.warm_start,
            ),
            writes=dict(pair=self.pair),
        )

    # -- gradients -------------------------------------------------------------------------------------------

    def clear_gradients(self) -> None:
        """Clear the gradients of all that a step finds."""
        motion = self.motion
        found = (motion.part, motion.along, motion.begin, motion.end, motion.J, motion.length, motion.rate)
        for array in (*found, motion.bend, self.force, self.joint_f):
            fill(array.grad)

    def add_terms(
        self,
        launch: Launcher,
        act: wp.array,
        lambda_: wp.array,
        v_end: wp.array,
        s: ConstraintSettings,
        impulse: wp.array,
        mode: wp.array,
        multiplier: wp.array,
    ) -> None:
        """Put the terms of the rows on the tape, see `kernels.tendons.row_terms`.

        Args:
            launch: Launcher whose launches are recorded.
            act: Inputs of tendons, shape (tendon_count,).
            lambda_: Multipliers of the force balance, shape (joint_dof_count,).
            v_end: Velocities at the end.
            s: Settings of the constraint solve.
            impulse: Impulses of the rows between bodies.
            mode: What each of these rows is.
            multiplier: Their multipliers.
        """
        # here, because few models need it
        from newtonsim.kernels.tendons import row_terms

        launch.backward_only(
            row_terms.tendon_lagrangian,
            "tendon_row",
            reads=dict(
                tendon=self.view,
                motion=self.motion,
                drive=self._drive(),
                act=act,
                rows=self.describe_rows(),
                lambda_=lambda_,
                v_end=v_end,
                dt=s.dt,
                late=s.late,
                impulse=impulse,
                mode=mode,
                multiplier=multiplier,
            ),
            writes=dict(out=self.terms),
        )
