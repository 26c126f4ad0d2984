"""Bodies that are absent from their world, and what depends on it apart from solvers.

`body_present` of a model says for each body whether it is present. A kinematic tree is present or absent as a
whole, as its root is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.collision.plan import PLAN, CollisionPlan, collision_plan_of
from newtonsim.errors import ModelError
from newtonsim.kernels.steps import presence as presence_kernels
from newtonsim.scene.allocation import put
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    import warp as wp

    from newtonsim.runtime.launcher import Launcher
    from newtonsim.scene.model import Model

PRESENCE = "presence"
"""Name under which a model keeps it."""


class Presence:
    """What follows from `body_present` of a model.

    Attributes:
        root: Root of the tree of each body, itself for those without joints, (body_count,).
        ends: Bodies that each constraint connects, -1 for the world, (constraint_count, 2).
        acting: Whether each constraint is enabled and connects only bodies that are present,
            (constraint_count,).
    """

    def __init__(self, model: Model):
        self._model = model
        device = model.device
        self.root = put(roots_of_bodies(model), dtype=int, device=device)
        self.ends = put(ends_of_constraints(model), dtype=int, device=device)
        enabled = model.constraint_enabled.numpy() if model.constraint_count else np.zeros(0, int)
        self.acting = put(enabled, dtype=int, device=device)
        self._plan: CollisionPlan | None = None
        self._solid: wp.array | None = None

    def follow(self, launch: Launcher) -> None:
        """Give bodies the presence of their roots, and hide the shapes of absent ones; by launches only."""
        model = self._model
        launch(
            presence_kernels.follow_roots,
            "body",
            reads=dict(root=self.root),
            writes=dict(present=model.body_present),
        )
        plan: CollisionPlan | None = model.kept(PLAN)
        if plan is not None and model.shape_count:
            launch(
                presence_kernels.hide_shapes,
                "shape",
                reads=dict(body=model.shape_body, present=model.body_present, solid_kind=self.solid_kind),
                writes=dict(kind=plan.shape.kind),
            )

    @property
    def solid_kind(self) -> wp.array:
        """Kind of each shape in collisions if its body is present, (shape_count,)."""
        plan = collision_plan_of(self._model)
        if plan.spare_kind is not None:
            return plan.spare_kind
        if self._solid is None or self._plan is not plan:
            self._plan, self._solid = plan, put(plan.kind, dtype=int, device=self._model.device)
        return self._solid


def presence_of(model: Model) -> Presence | None:
    """Return what follows from `body_present`; None while no body can be absent."""
    return model.cached(PRESENCE, Presence) if model.bodies_may_be_absent else None


def acting_constraints(model: Model) -> wp.array:
    """Return whether each constraint acts, int, (constraint_count,); solvers update it in each step."""
    presence = presence_of(model)
    return model.constraint_enabled if presence is None else presence.acting


def roots_of_bodies(model: Model) -> np.ndarray:
    """Return the root of each body's tree, itself for bodies that no joint moves, int32 (body_count,)."""
    topology = topology_of(model)
    roots = model.joint_child.numpy()[topology.joint_level == 0] if model.joint_count else np.zeros(0, int)
    own = np.arange(model.body_count)
    tree = topology.body_tree
    return np.where(tree >= 0, np.append(roots, -1)[tree], own).astype(np.int32)


def check_trees(model: Model, index: np.ndarray, values: np.ndarray) -> None:
    """Check that bodies appear and disappear in whole trees.

    Args:
        model: The model.
        index: The bodies, (worlds, n).
        values: Their new values, (worlds, n).

    Raises:
        ModelError: A tree would be partly present.
    """
    if not index.size:
        return
    roots = roots_of_bodies(model)
    chosen = np.zeros(model.body_count, bool)
    chosen[index] = True
    told = np.zeros(model.body_count, int)
    told[index] = values
    members = np.flatnonzero(np.isin(roots, roots[index]))
    apart = members[~chosen[members] | (told[members] != told[roots[members]])]
    if len(apart):
        body, root = int(apart[0]), int(roots[apart[0]])
        raise ModelError(
            f"bodies.present: the tree of '{model.body_key[root]}' must be present or absent as a whole; "
            f"'{model.body_key[body]}' is a part of it and was "
            f"{'given another number' if chosen[body] else 'left out'}"
        )


def check_absence(model: Model) -> None:
    """Check that bodies of a model can be absent.

    Raises:
        ModelError: The model has particles, tendons or muscles, which may be attached to them.
    """
    for kind in ("particle", "tendon", "muscle"):
        if getattr(model, f"{kind}_count"):
            raise ModelError(f"bodies.present: bodies of models with {kind}s cannot be absent")


def ends_of_constraints(model: Model) -> np.ndarray:
    """Bodies of each constraint; for a coupling those that its joint axes move, (constraint_count, 2)."""
    if not model.constraint_count:
        return np.zeros((0, 2), np.int32)
    parent, child = model.constraint_parent.numpy(), model.constraint_child.numpy()
    ends = np.stack([parent, child], axis=1)
    axes: np.ndarray = model.constraint_coupled_axes.numpy().reshape(-1, 2)
    count = model.joint_axis_dim.numpy().reshape(-1, 2).sum(axis=1)
    moved: np.ndarray = np.append(np.repeat(model.joint_child.numpy(), count), -1)
    return np.where(axes >= 0, moved[axes], ends).astype(np.int32)
