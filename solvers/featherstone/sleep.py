"""Sleep stage of FeatherstoneSolver."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.constraints import sleep as sleep_kernels
from newtonsim.kernels.constraints.sleep import SleepView
from newtonsim.kernels.views.model import TreeView
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.residents import keep_on_device
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of


@dataclass
class SleepOptions(Revised):
    """When islands fall asleep.

    Attributes:
        speed: Largest speed of the centre of mass at rest [m/s].
        spin: Largest angular speed at rest [rad/s].
        time: How long all bodies of an island have to be slower than that [s].
    """

    speed: float = 0.01
    spin: float = 0.05
    time: float = 0.5

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0.0:
                given = getattr(self, field.name)
                raise NewtonsimError(f"sleep_{field.name}: expected a positive number, got {given}")


class Awake:
    """Replaces `SleepStage` if nothing ever sleeps.

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
        look_ahead: Share of a step within which contacts are found: an island that will be hit in the next
        step has to wake before it.
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
        self.view.asleep = wp.zeros(trees, dtype=int, device=device)
        self.view.island = wp.zeros(trees, dtype=int, device=device)
        self.view.wake = wp.zeros(trees, dtype=int, device=device)
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
        keep_on_device(device, self.tree)

    def _starts(self, world: np.ndarray) -> wp.array:
        start = np.searchsorted(world, np.arange(self.model.world_count + 1))
        return wp.array(start, dtype=int, device=self.model.device)

    def begin(self, launch: Launcher, state: State, control: Control, contacts: Contacts) -> Launcher:
        """Wake islands whose inputs or coordinates changed, or that a moving body approaches.

        Returns:
            Launcher for the rest of the step, to which the bodies of sleeping trees have no dofs.
        """
        model, view, topology = self.model, self.view, topology_of(self.model)
        launch(
            sleep_kernels.notice_inputs,
            "dof",
            reads=dict(
                tree=topology.view,
                joint_qd=state.joint_qd,
                joint_act=control.joint_act,
                joint_f=control.joint_f,
                gravity=model.gravity_vec,
                dof_tree=self.dof_tree,
            ),
            writes=dict(sleep=view),
        )
        launch(
            sleep_kernels.notice_coordinates,
            "coord",
            reads=dict(joint_q=state.joint_q, coord_tree=self.coord_tree),
            writes=dict(sleep=view),
        )
        launch(
            sleep_kernels.notice_wrenches,
            "body",
            reads=dict(tree=topology.view, body_f=state.body_f),
            writes=dict(sleep=view),
        )
        launch(
            sleep_kernels.notice_moved_bodies,
            "body",
            reads=dict(tree=topology.view, body_q=state.body_q, body_world=model.body_world),
            writes=dict(sleep=view),
        )
        launch(
            sleep_kernels.wake_islands,
            "world",
            reads=dict(gravity=model.gravity_vec),
            writes=dict(sleep=view),
        )
        launch(
            sleep_kernels.hold_bodies,
            "body",
            reads=dict(tree=topology.view, sleep=view),
            writes=dict(body_leaf=self.tree.body_leaf),
        )
        if model.shape_count:
            launch(
                sleep_kernels.mark_awake_shapes,
                "shape",
                reads=dict(shape=collision_plan_of(model).shape, tree=topology.view, sleep=view),
                writes=dict(place=contacts.placement),
            )
        return launch.with_tree(self.tree)

    def hold(self, launch: Launcher, qd: wp.array) -> None:
        """Zero the velocities of sleeping trees."""
        launch(
            sleep_kernels.hold_dofs,
            "dof",
            reads=dict(dof_tree=self.dof_tree, sleep=self.view),
            writes=dict(qd=qd),
        )

    def end(self, launch: Launcher, state: State, contacts: Contacts, dt: float) -> None:
        """Find islands, and put those at rest to sleep."""
        model, view, options = self.model, self.view, self.options
        launch(
            sleep_kernels.time_rest,
            "tree",
            reads=dict(
                tree=self.tree,
                joint_child=model.joint_child,
                body_qd=state.body_qd,
                speed=options.speed,
                spin=options.spin,
                dt=dt,
            ),
            writes=dict(sleep=view),
        )
        launch(
            sleep_kernels.settle_islands,
            "world",
            reads=dict(
                tree=self.tree,
                shape=collision_plan_of(model).shape,
                body_qd=state.body_qd,
                pairs=contacts.pairs,
                contacts=contacts.view,
                after=options.time,
            ),
            writes=dict(sleep=view),
        )
        # an island that has just fallen asleep may still creep; a velocity would wake it
        self.hold(launch, state.joint_qd)
        launch(
            sleep_kernels.still_bodies,
            "body",
            reads=dict(tree=self.tree, sleep=view),
            writes=dict(body_qd=state.body_qd),
        )
        launch(
            sleep_kernels.remember_coordinates,
            "coord",
            reads=dict(joint_q=state.joint_q),
            writes=dict(sleep=view),
        )
        launch(sleep_kernels.remember_poses, "body", reads=dict(body_q=state.body_q), writes=dict(sleep=view))

    def wake(self, launch: Launcher, world_mask: wp.array | None) -> None:
        """Wake the masked worlds of a launcher, or all."""
        if world_mask is None:
            self.view.asleep.zero_()
            self.view.rest_time.zero_()
            return
        launch(
            sleep_kernels.wake_worlds,
            "tree",
            reads=dict(mask=world_mask, tree=topology_of(self.model).view),
            writes=dict(sleep=self.view),
        )


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
