"""Tendons in a step of FeatherstoneSolver: their lengths, forces and rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.builder.tendons import AXIS, ON_AXIS, ON_BODY, PULLEY, SIDE, WRAP
from newtonsim.errors import ModelError
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.tendons import forces, paths, rows
from newtonsim.kernels.views import pair_rows
from newtonsim.kernels.views.model import KinematicsView
from newtonsim.kernels.views.pair_rows import PairRowView
from newtonsim.kinematics import reference_state
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.constraint_rows import PAIR_ROW
from newtonsim.solvers.inverse_weights import inverse_inertias


@dataclass
class TendonLayout:
    """Which dofs change the length of each tendon, and which rows there are.

    Attributes:
        world: World of each tendon, int (T,).
        element_dof: Dof of each element of a path, -1 for points, int (P,).
        entry_tendon: Tendon of each entry, int (E,).
        entry_dof: Its dof, int (E,).
        row_kind: What each row is, int (R,), in the order of the worlds.
        row_tendons: Its tendons, int (R, 2).
        row_number: The equality, or the tendon, int (R,).
        row_leaves: Last dofs of both chains, int (R, 2).
        row_world: Its world, int (R,).
        spread: Why FeatherstoneSolver cannot have these rows, "" if it can.
    """

    world: np.ndarray
    element_dof: np.ndarray
    entry_tendon: np.ndarray
    entry_dof: np.ndarray
    row_kind: np.ndarray
    row_tendons: np.ndarray
    row_number: np.ndarray
    row_leaves: np.ndarray
    row_world: np.ndarray
    spread: str


def tendon_layout(model: Model) -> TendonLayout:
    """Work out the layout, once for a model."""
    return model.cached("tendon_layout", _layout)


def _layout(model: Model) -> TendonLayout:
    tree = topology_of(model).view
    dof_axis = tree.dof_axis.numpy()
    dof_of_axis = np.full(model.joint_axis_count + 1, -1)
    dof_of_axis[dof_axis[dof_axis >= 0]] = np.flatnonzero(dof_axis >= 0)
    kind: np.ndarray = model.tendon_element_kind.numpy()
    axis: np.ndarray = model.tendon_element_axis.numpy()
    element_dof = np.where(kind == ON_AXIS, dof_of_axis[axis], -1)
    body = np.where((kind == ON_BODY) | (kind == WRAP), model.tendon_element_body.numpy(), -1)
    leaf = np.append(tree.body_leaf.numpy(), -1)[body]
    ends = np.append(model.tendon_start.numpy(), model.tendon_element_count)
    chains = _Chains(tree.dof_row.numpy(), tree.dof_depth.numpy(), tree.row_dof.numpy())
    own: list[list[int]] = []
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist()):
        found = set(element_dof[first:last][element_dof[first:last] >= 0].tolist())
        for one in set(leaf[first:last][leaf[first:last] >= 0].tolist()):
            found |= set(chains.of(one))
        own.append(sorted(found))
    entry_tendon = np.repeat(np.arange(len(own)), [len(one) for one in own])
    entry_dof = np.array([d for one in own for d in one], np.int64)
    world = tendon_worlds(model)
    return TendonLayout(world, element_dof, entry_tendon, entry_dof, *_rows(model, own, chains, world))


class _Chains:
    """Dofs from the root to a dof."""

    def __init__(self, dof_row: np.ndarray, dof_depth: np.ndarray, row_dof: np.ndarray):
        self.dof_row, self.dof_depth, self.row_dof = dof_row, dof_depth, row_dof

    def of(self, leaf: int) -> list[int]:
        """Dofs of the chain that ends with a dof."""
        start = int(self.dof_row[leaf])
        return self.row_dof[start : start + int(self.dof_depth[leaf]) + 1].tolist()

    def leaves(self, dofs: list[int]) -> list[int]:
        """Last dofs of the fewest chains that hold some dofs."""
        left, found = set(dofs), []
        while left:
            deepest = max(left, key=lambda d: (int(self.dof_depth[d]), d))
            found.append(deepest)
            left -= set(self.of(deepest))
        return found


def _rows(model: Model, own: list[list[int]], chains: _Chains, world: np.ndarray) -> tuple:
    lower, upper = model.tendon_limit_lower.numpy(), model.tendon_limit_upper.numpy()
    friction = model.tendon_friction.numpy()
    limited = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper)).tolist()
    table = [(int(rows.TENDON_LIMIT), t, -1, t) for t in limited]
    table += [(int(rows.TENDON_FRICTION), t, -1, t) for t in np.flatnonzero(friction > 0.0).tolist()]
    if model.tendon_equality_count:
        pairs = model.tendon_equality_tendons.numpy().tolist()
        table += [(int(rows.TENDON_EQUALITY), a, b, k) for k, (a, b) in enumerate(pairs)]
    leaves, spread = np.full((len(table), 2), -1), ""
    for number, (_, first, second, _) in enumerate(table):
        found = chains.leaves(own[first] + (own[second] if second >= 0 else []))
        if len(found) > 2:
            spread = spread or (
                f"tendon '{model.tendon_key[first]}': FeatherstoneSolver has limits, friction and equalities "
                f"of tendons along at most two kinematic chains, but these are {len(found)}"
            )
        leaves[number, : len(found[:2])] = found[:2]
    columns = np.array(table, np.int64).reshape(-1, 4)
    of_row = world[columns[:, 1]]
    order = np.argsort(of_row, kind="stable")
    columns = columns[order]
    return columns[:, 0], columns[:, 1:3], columns[:, 3], leaves[order], of_row[order], spread


def tendon_worlds(model: Model) -> np.ndarray:
    """Return the world of each tendon, that of what it goes along, int (tendon_count,)."""
    joint_world = model.joint_world.numpy()
    of_axis = np.repeat(joint_world, model.joint_axis_dim.numpy().reshape(-1, 2).sum(axis=1))
    axis: np.ndarray = model.tendon_element_axis.numpy()
    body: np.ndarray = model.tendon_element_body.numpy()
    start: np.ndarray = model.tendon_start.numpy()
    world = np.maximum(np.append(of_axis, -1)[axis], np.append(model.body_world.numpy(), -1)[body])
    return np.maximum(np.maximum.reduceat(world, start), 0)


def reference_lengths(model: Model) -> np.ndarray:
    """Return the length of each tendon where all joint coordinates are zero, (tendon_count,)."""
    tendons = Tendons(model, None)
    tendons.measure_reference()
    return tendons.motion.length.numpy().astype(np.float64)


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


class Tendons:
    """Lengths, forces and rows of the tendons of a model.

    Args:
        model: A model with tendons.
        pair: Rows between bodies, among which those of tendons are; None for forces alone.
        requires_grad: Whether gradients flow through what a step finds.

    Attributes:
        force: Force of each tendon at the start of the step [N], positive where it lengthens, shape
            (tendon_count,).
        motion: Lengths and their rates, see `kernels.tendons.paths.TendonMotion`.
        starts: First tendon, element, entry and row of each world, and the end (host).
    """

    def __init__(self, model: Model, pair: PairRowView | None, requires_grad: bool = False):
        self.model, self.pair = model, pair
        layout = tendon_layout(model)
        self._make_view(layout)
        device = model.device

        def make(count: int, dtype: type) -> wp.array:
            return zeros(count, dtype=dtype, device=device, requires_grad=requires_grad)

        elements, entries, tendons = model.tendon_element_count, len(layout.entry_dof), model.tendon_count
        self.motion = paths.TendonMotion()
        self.motion.part, self.motion.along = make(elements, float), make(elements, wp.vec3)
        self.motion.begin, self.motion.end = make(elements, wp.vec3), make(elements, wp.vec3)
        self.motion.J = make(entries, float)
        self.motion.length, self.motion.rate = make(tendons, float), make(tendons, float)
        self.force = make(tendons, float)
        self.joint_f = make(model.joint_dof_count, float)
        self.terms = make(len(layout.row_kind), float)
        self.starts = self._starts(layout)
        self.row_count = 0 if pair is None else len(layout.row_kind)
        self.rows = rows.TendonRowView() if pair is None else self._make_rows(layout, pair)

    def _starts(self, layout: TendonLayout) -> dict[str, np.ndarray]:
        worlds = np.arange(self.model.world_count + 1)
        element_tendon = np.repeat(np.arange(self.model.tendon_count), np.diff(self._element_start))
        kinds = {
            "tendon": layout.world,
            "tendon_element": layout.world[element_tendon],
            "tendon_entry": layout.world[layout.entry_tendon],
            "tendon_row": layout.row_world,
        }
        return {kind: np.searchsorted(world, worlds) for kind, world in kinds.items()}

    def _make_view(self, layout: TendonLayout) -> None:
        model, device = self.model, self.model.device
        start = self._element_start = np.append(model.tendon_start.numpy(), model.tendon_element_count)
        kind, scale, before = _elements(model, start)

        def numbers(values: np.ndarray) -> wp.array:
            return put(values, dtype=int, device=device)

        view = self.view = paths.TendonView()
        view.start, view.kind = numbers(start), numbers(kind)
        view.dof, view.scale = numbers(layout.element_dof), put(scale, dtype=float, device=device)
        view.body, view.point = model.tendon_element_body, model.tendon_element_point
        view.offset, view.radius = model.tendon_offset, model.tendon_element_factor
        view.before = numbers(before)
        tendons, dofs = np.arange(model.tendon_count + 1), np.arange(model.joint_dof_count + 1)
        view.entry_start = numbers(np.searchsorted(layout.entry_tendon, tendons))
        view.entry_tendon, view.entry_dof = numbers(layout.entry_tendon), numbers(layout.entry_dof)
        order = np.argsort(layout.entry_dof, kind="stable")
        view.dof_start = numbers(np.searchsorted(layout.entry_dof[order], dofs))
        view.dof_entry = numbers(order)

    def _paths(self) -> paths.TendonView:
        """The paths, with arrays of the model as they are now."""
        self.view.point, self.view.offset = self.model.tendon_element_point, self.model.tendon_offset
        self.view.radius = self.model.tendon_element_factor
        return self.view

    def _drive(self) -> forces.TendonDrive:
        model, drive = self.model, forces.TendonDrive()
        drive.stiffness, drive.damping = model.tendon_stiffness, model.tendon_damping
        drive.spring_lower, drive.spring_upper = model.tendon_spring_lower, model.tendon_spring_upper
        drive.mode, drive.effort_limit = model.tendon_mode, model.tendon_effort_limit
        drive.target_ke, drive.target_kd = model.tendon_target_ke, model.tendon_target_kd
        drive.muscle = model.tendon_muscle
        return drive

    # -- forces ----------------------------------------------------------------------------------------------

    def measure(
        self, launch: Launcher, kin: KinematicsView, body_q: wp.array, joint_q: wp.array, joint_qd: wp.array
    ) -> None:
        """Find lengths, their rates and how they change with the dofs.

        Args:
            launch: Launcher that knows `starts`.
            kin: Motion subspaces in the poses.
            body_q: Poses.
            joint_q: Coordinates.
            joint_qd: Velocities.
        """
        view, motion, tree = self._paths(), self.motion, launch.views.tree
        launch(
            paths.measure_paths,
            "tendon_element",
            reads=dict(tree=tree, tendon=view, body_q=body_q, q=joint_q),
            writes=dict(motion=motion),
        )
        launch(
            paths.fill_tendon_jacobian,
            "tendon_entry",
            reads=dict(tree=tree, tendon=view, kin=kin),
            writes=dict(motion=motion),
        )
        launch(
            paths.add_up_lengths, "tendon", reads=dict(tendon=view, qd=joint_qd), writes=dict(motion=motion)
        )

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
        chains = _Chains(tree.dof_row.numpy(), dof_depth, tree.row_dof.numpy())
        begin = np.searchsorted(layout.entry_tendon, np.arange(self.model.tendon_count + 1))
        parts, starts = [], [0]
        for tendons, leaves in zip(layout.row_tendons.tolist(), layout.row_leaves.tolist()):
            near = set(chains.of(leaves[0])) if leaves[0] >= 0 else set()
            for second, t in enumerate(tendons):
                for e in range(*(begin[t : t + 2] if t >= 0 else (0, 0))):
                    d = int(layout.entry_dof[e])
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
        J, dof = self.motion.J.numpy().astype(np.float64), layout.entry_dof
        begin = np.searchsorted(layout.entry_tendon, np.arange(model.tendon_count + 1))
        weights = np.zeros(model.tendon_count)
        for t, (first, last) in enumerate(zip(begin[:-1].tolist(), begin[1:].tolist())):
            block, local = place[0][dof[first:last]], place[1][dof[first:last]]
            together = block[:, None] == block
            M = inverse[block[:, None], local[:, None], local] * together
            weights[t] = J[first:last] @ M @ J[first:last]
        return weights[layout.row_tendons[:, 0]] + np.append(weights, 0.0)[layout.row_tendons[:, 1]]

    def measure_reference(self) -> None:
        """`measure` where all joint coordinates are zero."""
        model, motion = self.model, Motion(self.model, forces=False)
        state = reference_state(model)
        launch = Launcher(model, record_tape=False, shard=Shard(model).with_starts(self.starts))
        launch.place(motion, state.joint_q, state.joint_qd, state.body_q, state.body_qd)
        self.measure(launch, motion.kin, state.body_q, state.joint_q, state.joint_qd)

    def describe_rows(self) -> rows.TendonRowView:
        """The rows, with arrays of the model as they are now."""
        model, view = self.model, self.rows
        view.lower, view.upper = model.tendon_limit_lower, model.tendon_limit_upper
        view.margin, view.friction = model.tendon_limit_margin, model.tendon_friction
        view.ref, view.imp = model.tendon_limit_solref, model.tendon_limit_solimp
        view.enabled, view.lengths = model.tendon_equality_enabled, model.tendon_equality_lengths
        view.coefficients = model.tendon_equality_coefficients
        view.equality_ref, view.equality_imp = model.tendon_equality_solref, model.tendon_equality_solimp
        return view

    def build(self, launch: Launcher, L: wp.array, s: ConstraintSettings) -> None:
        """Build the rows of tendons; needs `measure`.

        Args:
            launch: Launcher that knows `starts`.
            L: Factors of the joint-space inertia.
            s: Settings of the constraint solve.
        """
        launch(
            rows.build_tendon_rows,
            "tendon_row",
            reads=dict(
                tree=launch.views.tree,
                motion=self.motion,
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
        for array in (*found, self.force, self.joint_f):
            fill(array.grad)

    def add_terms(
        self,
        launch: Launcher,
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


def _elements(model: Model, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What each element of a path is to the kernels, its scale, and where its segment begins."""
    given, factor = model.tendon_element_kind.numpy(), model.tendon_element_factor.numpy()
    kind, scale = np.full(len(given), int(paths.ELEMENT_START)), np.ones(len(given))
    before = np.full(len(given), -1)
    belongings = {AXIS: int(paths.ELEMENT_AXIS), SIDE: int(paths.ELEMENT_SIDE)}
    for first, last in zip(start[:-1].tolist(), start[1:].tolist()):
        share, previous = 1.0, -1
        for i in range(first, last):
            scale[i] = share
            if given[i] == ON_AXIS:
                kind[i], scale[i] = int(paths.ELEMENT_JOINT), factor[i]
            elif given[i] == PULLEY:
                share, previous = 1.0 / factor[i], -1
            elif given[i] in belongings:
                kind[i] = belongings[int(given[i])]
            else:
                before[i] = previous
                if given[i] == WRAP:
                    kind[i] = int(paths.ELEMENT_WRAP)
                elif previous >= 0:
                    wrapped = kind[previous] == int(paths.ELEMENT_WRAP)
                    kind[i] = int(paths.ELEMENT_AFTER if wrapped else paths.ELEMENT_SEGMENT)
                previous = i
    return kind, scale, before
