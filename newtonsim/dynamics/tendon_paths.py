"""Paths of tendons: which dofs change their lengths, lengths, rates, and accelerations at constant rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.kernels.tendons import paths
from newtonsim.kernels.views.model import KinematicsView
from newtonsim.kinematics import reference_state
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import AXIS, ON_AXIS, ON_BODY, PULLEY, SIDE, WRAP
from newtonsim.scene.model import Model
from newtonsim.scene.topology import topology_of


@dataclass
class PathLayout:
    """Which dofs change the length of each tendon.

    Attributes:
        world: World of each tendon, int (T,).
        element_dof: Dof of each element of a path, -1 for points, int (P,).
        dofs: Dofs of each tendon in ascending order.
        entry_tendon: Tendon of each entry, int (E,).
        entry_dof: Its dof, int (E,).
    """

    world: np.ndarray
    element_dof: np.ndarray
    dofs: list[list[int]]
    entry_tendon: np.ndarray
    entry_dof: np.ndarray


def path_layout(model: Model) -> PathLayout:
    """Work out the layout of paths, once for a model."""
    return model.cached("tendon_paths", _layout)


def _layout(model: Model) -> PathLayout:
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
    chains = chains_of(model)
    own: list[list[int]] = []
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist()):
        found = set(element_dof[first:last][element_dof[first:last] >= 0].tolist())
        for one in set(leaf[first:last][leaf[first:last] >= 0].tolist()):
            found |= set(chains.of(one))
        own.append(sorted(found))
    entry_tendon = np.repeat(np.arange(len(own)), [len(one) for one in own])
    entry_dof = np.array([d for one in own for d in one], np.int64)
    return PathLayout(tendon_worlds(model), element_dof, own, entry_tendon, entry_dof)


class Chains:
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


def chains_of(model: Model) -> Chains:
    """Return the chains of a model."""
    tree = topology_of(model).view
    return Chains(tree.dof_row.numpy(), tree.dof_depth.numpy(), tree.row_dof.numpy())


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
    tendons = TendonPaths(model)
    tendons.measure_reference()
    return tendons.motion.length.numpy().astype(np.float64)


def has_armature(model: Model) -> bool:
    """Return whether a tendon has armature."""
    return bool(model.tendon_count and model.tendon_armature.numpy().any())


class TendonPaths:
    """Lengths of the tendons of a model, and how they change.

    Args:
        model: A model with tendons.
        requires_grad: Whether gradients flow through what is found.

    Attributes:
        view: The paths.
        motion: Lengths and their rates, see `kernels.tendons.paths.TendonMotion`.
        starts: First tendon, element and entry of each world, and the end (host).
    """

    def __init__(self, model: Model, requires_grad: bool = False):
        self.model = model
        layout = path_layout(model)
        self._make_view(layout)

        def make(count: int, dtype: type) -> wp.array:
            return zeros(count, dtype=dtype, device=model.device, requires_grad=requires_grad)

        elements, entries, tendons = model.tendon_element_count, len(layout.entry_dof), model.tendon_count
        self.motion = paths.TendonMotion()
        self.motion.part, self.motion.along = make(elements, float), make(elements, wp.vec3)
        self.motion.begin, self.motion.end = make(elements, wp.vec3), make(elements, wp.vec3)
        self.motion.J = make(entries, float)
        self.motion.length, self.motion.rate = make(tendons, float), make(tendons, float)
        self.motion.bend = make(tendons, float)
        self._no_acceleration = zeros(model.joint_dof_count, dtype=float, device=model.device)
        self.starts = self._starts(layout)

    def _starts(self, layout: PathLayout) -> dict[str, np.ndarray]:
        worlds = np.arange(self.model.world_count + 1)
        element_tendon = np.repeat(np.arange(self.model.tendon_count), np.diff(self._element_start))
        kinds = {
            "tendon": layout.world,
            "tendon_element": layout.world[element_tendon],
            "tendon_entry": layout.world[layout.entry_tendon],
        }
        return {kind: np.searchsorted(world, worlds) for kind, world in kinds.items()}

    def _make_view(self, layout: PathLayout) -> None:
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

    def measure(
        self,
        launch: Launcher,
        kin: KinematicsView,
        body_q: wp.array,
        joint_q: wp.array,
        joint_qd: wp.array,
        moving: Motion | None = None,
    ) -> None:
        """Find lengths, their rates and how they change with the dofs.

        Args:
            launch: Launcher that knows `starts`.
            kin: Motion subspaces in the poses.
            body_q: Poses.
            joint_q: Coordinates.
            joint_qd: Velocities.
            moving: Room for velocities and accelerations in these poses, where tendons have armature.
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
        if moving is not None:
            self._bend(launch, moving, joint_qd)

    def _bend(self, launch: Launcher, moving: Motion, joint_qd: wp.array) -> None:
        """Find the second derivatives of the lengths at constant joint velocities."""
        launch.velocities(moving, joint_qd)
        launch.accelerations(moving, joint_qd, self._no_acceleration)
        launch(
            paths.bend_tendons,
            "tendon",
            reads=dict(
                tree=launch.views.tree,
                tendon=self.view,
                kin=moving.kin,
                body_A=moving.body_A,
                gravity=self.model.gravity_vec,
            ),
            writes=dict(motion=self.motion),
        )

    def measure_reference(self) -> None:
        """`measure` where all joint coordinates are zero."""
        model, motion = self.model, Motion(self.model, forces=False)
        state = reference_state(model)
        launch = Launcher(model, record_tape=False, shard=Shard(model).with_starts(self.starts))
        launch.place(motion, state.joint_q, state.joint_qd, state.body_q, state.body_qd)
        self.measure(launch, motion.kin, state.body_q, state.joint_q, state.joint_qd)


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
