"""Trees level by level: the joints of a level can be processed in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from newtonsim.kernels.views.model import LevelView
from newtonsim.scene.allocation import put
from newtonsim.scene.topology import Topology, topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


def levels_of(model: Model, wide: bool | None = None) -> LevelView:
    """Return the levels of a model's trees; they are found at the first call and kept with the model.

    Args:
        model: The model.
        wide: Whether levels hold joints that can be processed in parallel. If not, each tree is one level
            that is processed in order; None for that on the CPU, where teams have one lane.
    """
    wide = not model.device.is_cpu if wide is None else wide
    return model.cached("wide levels", _find_levels) if wide else model.cached("levels", _whole_trees)


def widest_level(topology: Topology) -> int:
    """Return the largest number of joints of a tree that can be processed in parallel."""
    level = topology.joint_level
    return int(_sizes(topology.joint_tree, level, topology.tree_count).max(initial=0))


def _whole_trees(model: Model) -> LevelView:
    """Return one level and one family for each tree, in the arrays of `TreeView`."""
    topology = topology_of(model)
    tree, view = topology.view, LevelView()
    view.first = view.dof_first = view.family = put(
        np.arange(topology.tree_count + 1), dtype=int, device=model.device
    )
    view.joint_start = view.family_start = tree.joint_start
    view.joint, view.dof_start, view.dof = tree.joint, tree.dof_start, tree.dof
    return view


def _find_levels(model: Model) -> LevelView:
    topology = topology_of(model)
    tree, trees = topology.joint_tree, topology.tree_count
    parent = model.joint_parent.numpy()
    joints = _by_level(tree, topology.joint_level, parent, trees)
    dofs = _by_level(tree[topology.dof_joint], topology.dof_depth, topology.dof_joint, trees)
    # where a level begins, or another parent's children, another family does
    siblings = parent[joints[2]]
    begins = np.isin(np.arange(len(siblings)), joints[1]) | (np.diff(siblings, prepend=-2) != 0)
    family_start = np.append(np.flatnonzero(begins), len(siblings))
    view = LevelView()
    arrays = dict(zip(("first", "joint_start", "joint"), joints), family_start=family_start)
    arrays |= dict(zip(("dof_first", "dof_start", "dof"), dofs))
    arrays["family"] = np.searchsorted(family_start, joints[1])
    for name, values in arrays.items():
        setattr(view, name, put(values, dtype=int, device=model.device))
    return view


def _sizes(tree: np.ndarray, level: np.ndarray, trees: int) -> np.ndarray:
    """Return the number of nodes in each level of each tree, shape (trees, levels of the deepest one)."""
    levels = int(level.max(initial=-1)) + 1
    return np.bincount(tree * levels + level, minlength=trees * levels).reshape(trees, levels)


def _by_level(
    tree: np.ndarray, level: np.ndarray, parent: np.ndarray, trees: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First level of each tree, start of each level, and the nodes by tree, level, parent and index."""
    sizes = _sizes(tree, level, trees)
    first = np.concatenate(([0], np.cumsum(np.count_nonzero(sizes, axis=1))))
    start = np.concatenate(([0], np.cumsum(sizes[sizes > 0])))
    return first, start, np.lexsort((np.arange(len(tree)), parent, level, tree))
