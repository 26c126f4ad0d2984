"""Kinematic trees of a model, as the index arrays that kernels walk along.

Joints may be in any order in the model: trees are found from parents and children, and everything that
walks a tree goes through the orders stored here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.views.model import TreeView
from newtonsim.scene.allocation import put
from newtonsim.scene.model import Model


@dataclass(frozen=True)
class Topology:
    """Host side of `TreeView`, plus the view on the model's device.

    Attributes:
        tree_count: Number of kinematic trees.
        max_depth: Largest number of degrees of freedom between a body and the world.
        entry_count: Non-zero entries of all joint-space inertias.
        world_start: First tree of each world and the end, shape (world_count + 1,).
        joint_tree: Tree of each joint, shape (joint_count,).
        joint_level: Number of joints between each joint and the world, shape (joint_count,).
        dof_depth: Number of ancestors of each dof, shape (joint_dof_count,).
        dof_row: Start of each dof's row, shape (joint_dof_count,).
        row_dof: Dofs of all rows, root first, shape (entry_count,).
        dof_joint: Joint of each dof, shape (joint_dof_count,).
        body_tree: Tree of each body or -1, shape (body_count,).
        has_loose_bodies: Whether a body is on no tree.
        tree_articulation: Articulation that holds each tree's root, on the device, shape (tree_count,).
        view: The same data on the device.
    """

    tree_count: int
    max_depth: int
    entry_count: int
    world_start: np.ndarray
    joint_tree: np.ndarray
    joint_level: np.ndarray
    dof_depth: np.ndarray
    dof_row: np.ndarray
    row_dof: np.ndarray
    dof_joint: np.ndarray
    body_tree: np.ndarray
    has_loose_bodies: bool
    tree_articulation: wp.array
    view: TreeView


def topology_of(model: Model) -> Topology:
    """Return the trees of a finalized model; they are found at the first call and kept with the model.

    Raises:
        ModelError: The parent of a joint is a body that no joint connects to the world.
    """
    return model.cached("topology", _find_trees)


def _find_trees(model: Model) -> Topology:
    parent: np.ndarray = model.joint_parent.numpy()
    child: np.ndarray = model.joint_child.numpy()
    q_start: np.ndarray = model.joint_q_start.numpy()
    qd_start: np.ndarray = model.joint_qd_start.numpy()
    joints = len(parent)

    inbound = np.full(model.body_count, -1, dtype=np.int32)
    inbound[child] = np.arange(joints)
    ancestor = np.where(parent >= 0, inbound[parent], -1) if model.body_count else np.full(joints, -1)
    hanging = np.flatnonzero((parent >= 0) & (ancestor < 0))
    if len(hanging):
        j = hanging[0]
        raise ModelError(
            f"joint '{model.joint_key[j]}' has the parent '{model.body_key[parent[j]]}', a body that no "
            "joint connects to the world"
        )
    root, level = _roots_and_levels(ancestor)
    roots = np.flatnonzero(ancestor < 0)
    joint_tree = np.searchsorted(roots, root).astype(np.int32)
    order = np.lexsort((np.arange(joints), level, joint_tree)).astype(np.int32)
    if np.all(ancestor < np.arange(joints)):
        order = np.lexsort((np.arange(joints), joint_tree)).astype(np.int32)
    joint_start = np.searchsorted(joint_tree[order], np.arange(len(roots) + 1)).astype(np.int32)

    dofs: np.ndarray = np.diff(qd_start)
    dof_joint = np.repeat(np.arange(joints), dofs).astype(np.int32)
    dof_parent = _dof_parents(ancestor, level, dofs, qd_start, dof_joint)
    dof_depth, dof_row, row_dof = _rows(dof_parent)
    dof_order = _expand(qd_start[order], dofs[order])
    dof_start = np.searchsorted(joint_tree[dof_joint][dof_order], np.arange(len(roots) + 1)).astype(np.int32)

    axis_count = model.joint_axis_dim.numpy().reshape(-1, 2).sum(axis=1)
    local = np.arange(len(dof_joint)) - qd_start[dof_joint]
    has_axis = axis_count[dof_joint] > 0
    dof_axis = np.where(has_axis, model.joint_axis_start.numpy()[dof_joint] + local, -1)
    dof_coord = np.where(has_axis, q_start[dof_joint] + local, -1)

    body_tree = np.full(model.body_count, -1, dtype=np.int32)
    body_tree[child] = joint_tree
    body_leaf = np.full(model.body_count, -1, dtype=np.int32)
    body_leaf[child] = _last_dof(ancestor, level, dofs, qd_start)
    joint_world = np.maximum(model.joint_world.numpy(), 0)

    articulation = np.searchsorted(model.articulation_start.numpy(), roots, side="right") - 1
    view = TreeView()
    view.joint_start = put(joint_start, dtype=int, device=model.device)
    view.joint = put(order, dtype=int, device=model.device)
    view.dof_start = put(dof_start, dtype=int, device=model.device)
    view.dof = put(dof_order, dtype=int, device=model.device)
    view.world = put(joint_world[roots], dtype=int, device=model.device)
    view.dof_depth = put(dof_depth, dtype=int, device=model.device)
    view.dof_row = put(dof_row, dtype=int, device=model.device)
    view.row_dof = put(row_dof, dtype=int, device=model.device)
    view.dof_body = put(child[dof_joint], dtype=int, device=model.device)
    view.dof_axis = put(dof_axis, dtype=int, device=model.device)
    view.dof_coord = put(dof_coord, dtype=int, device=model.device)
    view.dof_world = put(joint_world[dof_joint], dtype=int, device=model.device)
    view.body_tree = put(body_tree, dtype=int, device=model.device)
    view.body_leaf = put(body_leaf, dtype=int, device=model.device)
    return Topology(
        tree_count=len(roots),
        max_depth=int(dof_depth.max(initial=-1)) + 1,
        entry_count=len(row_dof),
        world_start=np.searchsorted(joint_world[roots], np.arange(model.world_count + 1)),
        joint_tree=joint_tree,
        joint_level=level,
        # on the CPU these share the memory of the device arrays
        dof_depth=view.dof_depth.numpy(),
        dof_row=view.dof_row.numpy(),
        row_dof=view.row_dof.numpy(),
        dof_joint=dof_joint,
        body_tree=view.body_tree.numpy(),
        has_loose_bodies=bool((body_tree < 0).any()),
        tree_articulation=put(articulation, dtype=int, device=model.device),
        view=view,
    )


def _roots_and_levels(ancestor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the root joint of every joint and the distance to it, one pass per level."""
    root = np.arange(len(ancestor))
    level = np.zeros(len(ancestor), dtype=np.int32)
    while True:
        above = ancestor[root]
        moving = above >= 0
        if not moving.any():
            return root, level
        root = np.where(moving, above, root)
        level += moving


def _last_dof(ancestor: np.ndarray, level: np.ndarray, dofs: np.ndarray, qd_start: np.ndarray) -> np.ndarray:
    """Return the last dof on the path from the world through each joint, or -1; fixed joints inherit it."""
    last = np.where(dofs > 0, qd_start[1:] - 1, -1).astype(np.int32)
    for depth in range(1, int(level.max(initial=0)) + 1):
        here = np.flatnonzero((level == depth) & (dofs == 0))
        last[here] = last[ancestor[here]]
    return last


def _dof_parents(
    ancestor: np.ndarray, level: np.ndarray, dofs: np.ndarray, qd_start: np.ndarray, dof_joint: np.ndarray
) -> np.ndarray:
    parent = np.arange(len(dof_joint)) - 1
    last = _last_dof(ancestor, level, dofs, qd_start)
    moving = np.flatnonzero(dofs > 0)
    parent[qd_start[moving]] = np.where(ancestor[moving] >= 0, last[ancestor[moving]], -1)
    return parent


def _rows(dof_parent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the depth, row start and concatenated root-first ancestor lists of every dof."""
    _, depth = _roots_and_levels(dof_parent)
    length = depth + 1
    start = (
        np.concatenate(([0], np.cumsum(length)[:-1])).astype(np.int32)
        if len(depth)
        else np.zeros(0, np.int32)
    )
    rows = np.zeros(int(length.sum()), dtype=np.int32)
    dof = np.arange(len(depth))
    position = depth.copy()
    alive = np.arange(len(depth))
    while len(alive):
        rows[start[alive] + position[alive]] = dof[alive]
        dof[alive] = dof_parent[dof[alive]]
        position[alive] -= 1
        alive = alive[dof[alive] >= 0]
    return depth.astype(np.int32), start, rows


def _expand(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenate the ranges [start, start + count)."""
    total = int(counts.sum())
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) if len(counts) else 0
    return (np.arange(total) + offsets).astype(np.int32)
