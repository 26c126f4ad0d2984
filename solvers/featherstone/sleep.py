"""Sleep stage of FeatherstoneSolver: which trees stand still, and what wakes them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.constraints import sleep as sleep_kernels
from newtonsim.kernels.constraints.sleep import SleepView
from newtonsim.kernels.views.model import TreeView
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of


@dataclass
class SleepOptions(Revised):
    """When islands fall asleep.

    Attributes:
        speed: Fastest centre of mass at rest [m/s].
        spin: Fastest turning at rest [rad/s].
        time: How long all bodies of an island have to be slower than that [s].
    """

    speed: float = 0.01
    spin: float = 0.05
    time: float = 0.5

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0.0:
                given = getattr(self, field.name)
                raise ValueError(f"sleep_{field.name}: expected a positive number, got {given}")


class Awake:
    """Stands for `SleepStage` where nothing ever sleeps.

    Attributes:
        look_ahead: Part of a step within which contacts are found.
    """

    look_ahead = 1.0

    def begin(self, launch: Launcher, state: State, control: Control, contacts: Contacts) -> Launcher:
        """See `SleepStage.begin`."""
        return launch

    def hold(self, launch: Launcher, qd: wp.array) -> None:
        """See `SleepStage.hold`."""

    def end(self, launch: Launcher, state: State, contacts: Contacts, dt: float) -> None:
        """See `SleepStage.end`."""

    def wake(self, launch: Launcher, world_mask: wp.array | None) -> None:
        """See `SleepStage.wake`."""


class SleepStage:
    """Puts islands at rest to sleep and wakes them.

    Attributes:
        asleep: 1 for trees that stand still, shape (tree_count,).
        tree: The model's topology, without dofs for the bodies of sleeping trees.
        look_ahead: Part of a step within which contacts are found: what will be hit in the next step has to
            wake before it.
    """

    look_ahead = 2.0

    def __init__(self, model: Model, options: SleepOptions):
        self.model, self.options = model, options
        topology, device = topology_of(model), model.device
        trees = topology.tree_count
        self.view = SleepView()
        tree_world = topology.view.world.numpy()
        order = np.argsort(tree_world, kind="stable")
        self.view.tree = wp.array(order, dtype=int, device=device)
        self.view.world_start = self._starts(tree_world[order])
        for name in ("asleep", "island", "wake"):
            setattr(self.view, name, wp.zeros(trees, dtype=int, device=device))
        self.view.wake_world = wp.zeros(model.world_count, dtype=int, device=device)
        self.view.seen_body_q = wp.zeros(model.body_count, dtype=wp.transform, device=device)
        self.view.rest_time = wp.zeros(trees, dtype=float, device=device)
        link_world, links = _links(model)
        self.view.link_start = self._starts(link_world)
        self.view.link_a = wp.array(links[:, 0], dtype=int, device=device)
        self.view.link_b = wp.array(links[:, 1], dtype=int, device=device)
        self.view.seen_q = wp.zeros(model.joint_coord_count, dtype=float, device=device)
        self.view.seen_act = wp.zeros(model.joint_axis_count, dtype=float, device=device)
        self.view.seen_f = wp.zeros(model.joint_dof_count, dtype=float, device=device)
        self.view.seen_gravity = wp.zeros(model.world_count, dtype=wp.vec3, device=device)
        joint_tree = topology.joint_tree
        coords = np.diff(model.joint_q_start.numpy())
        self.dof_tree = wp.array(joint_tree[topology.dof_joint], dtype=int, device=device)
        self.coord_tree = wp.array(np.repeat(joint_tree, coords), dtype=int, device=device)
        self.asleep = self.view.asleep
        self.tree = TreeView()
        for name in TreeView.cls.__annotations__:
            setattr(self.tree, name, getattr(topology.view, name))
        self.tree.body_leaf = wp.clone(topology.view.body_leaf)

    def _starts(self, world: np.ndarray) -> wp.array:
        start = np.searchsorted(world, np.arange(self.model.world_count + 1))
        return wp.array(start, dtype=int, device=self.model.device)

    def begin(self, launch: Launcher, state: State, control: Control, contacts: Contacts) -> Launcher:
        """Wake islands whose inputs or coordinates have changed, or that something nears.

        Returns:
            Launcher for the rest of the step, to which the bodies of sleeping trees have no dofs.
        """
        model, view, topology = self.model, self.view, topology_of(self.model)
        inputs = [topology.view, state.joint_qd, control.joint_act, control.joint_f, model.gravity_vec]
        launch(sleep_kernels.notice_inputs, "dof", [*inputs, self.dof_tree, view])
        inputs = [state.joint_q, self.coord_tree, view]
        launch(sleep_kernels.notice_coordinates, "coord", inputs)
        launch(sleep_kernels.notice_wrenches, "body", [topology.view, state.body_f, view])
        inputs = [topology.view, state.body_q, model.body_world, view]
        launch(sleep_kernels.notice_moved_bodies, "body", inputs)
        launch(sleep_kernels.wake_islands, "world", [model.gravity_vec, view])
        inputs = [topology.view, view, self.tree.body_leaf]
        launch(sleep_kernels.hold_bodies, "body", inputs)
        if model.shape_count:
            inputs = [collision_plan_of(model).shape, topology.view, view, contacts.placement]
            launch(sleep_kernels.mark_awake_shapes, "shape", inputs)
        return launch.with_tree(self.tree)

    def hold(self, launch: Launcher, qd: wp.array) -> None:
        """Zero the velocities of sleeping trees."""
        launch(sleep_kernels.hold_dofs, "dof", [self.dof_tree, self.view, qd])

    def end(self, launch: Launcher, state: State, contacts: Contacts, dt: float) -> None:
        """Find islands, and put those at rest to sleep."""
        model, view, options = self.model, self.view, self.options
        inputs = [self.tree, model.joint_child, state.body_qd, options.speed, options.spin, dt, view]
        launch(sleep_kernels.time_rest, "tree", inputs)
        inputs = [self.tree, collision_plan_of(model).shape, state.body_qd, contacts.pairs, contacts.view]
        launch(sleep_kernels.settle_islands, "world", [*inputs, options.time, view])
        # what fell asleep just now may still creep; a velocity would wake it
        self.hold(launch, state.joint_qd)
        launch(sleep_kernels.still_bodies, "body", [self.tree, view, state.body_qd])
        launch(sleep_kernels.remember_coordinates, "coord", [state.joint_q, view])
        launch(sleep_kernels.remember_poses, "body", [state.body_q, view])

    def wake(self, launch: Launcher, world_mask: wp.array | None) -> None:
        """Wake the masked worlds of a launcher, or all."""
        if world_mask is None:
            self.view.asleep.zero_()
            self.view.rest_time.zero_()
            return
        launch(sleep_kernels.wake_worlds, "tree", [world_mask, topology_of(self.model).view, self.view])


def _links(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """World and bodies of every constraint, sorted by world; a coupling joins the bodies of its joints."""
    if not model.constraint_count:
        return np.zeros(0, int), np.zeros((0, 2), int)
    parent, child = model.constraint_parent.numpy(), model.constraint_child.numpy()
    view = topology_of(model).view
    axis_body = np.full(model.joint_axis_count + 1, -1)
    axis = view.dof_axis.numpy()
    axis_body[axis[axis >= 0]] = view.dof_body.numpy()[axis >= 0]
    coupled = axis_body[model.constraint_coupled_axes.numpy().reshape(-1, 2)]
    bodies = np.where((parent < 0)[:, None] & (child < 0)[:, None], coupled, np.column_stack([parent, child]))
    world = np.maximum(np.append(model.body_world.numpy(), -1)[bodies].max(axis=1), 0)
    order = np.argsort(world, kind="stable")
    return world[order], bodies[order]
