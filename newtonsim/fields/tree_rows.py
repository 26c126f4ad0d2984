"""The entries of a tree of bodies in the arrays of a model, in several worlds at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.fields.field import write_words
from newtonsim.scene.allocation import put
from newtonsim.scene.arrays import MODEL_ARRAYS

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_PARTS = ("body", "joint", "axis", "coord", "dof", "shape")
_STARTS = ("joint_q", "joint_qd", "joint_act", "body_q", "body_qd")
"""Arrays of a model with the initial values of states and inputs."""
_FIXED = (
    *_STARTS,
    "body_world",
    "body_present",
    "joint_type",
    "joint_axis_dim",
    "joint_world",
    "joint_enabled",
)
_FIXED += ("shape_flags", "shape_world", "shape_spare")
_STRUCTS = ("shape_materials", "shape_geo")
_OF_SHAPES = ("type", "source")
"""Arrays of `shape_geo` that are not plain numbers."""


class TreeRows:
    """Entries of one tree in each of W worlds.

    Attributes:
        index: Entries by "body", "joint", "axis", "coord", "dof" and "shape", (W, n); bodies in order, and
            what belongs to them in the same order.
        layout: For each body its joint's type, numbers of axes and index of the parent in the tree, -1 for
            the world.
        link: Index in the tree of the body of each shape, (shapes,).

    Args:
        model: The model.
        bodies: The bodies of the tree, (W, n).
    """

    def __init__(self, model: Model, bodies: np.ndarray):
        joint = np.full(model.body_count, -1)
        child: np.ndarray = model.joint_child.numpy()
        joint[child] = np.arange(model.joint_count)
        joints = joint[bodies]
        joints = joints[:, joints[0] >= 0]
        dim = model.joint_axis_dim.numpy().reshape(-1, 2)
        starts = {
            "axis": np.append(model.joint_axis_start.numpy(), model.joint_axis_count),
            "coord": model.joint_q_start.numpy(),
            "dof": model.joint_qd_start.numpy(),
        }
        counts = {name: np.diff(start) for name, start in starts.items()}
        counts["axis"] = dim.sum(axis=1)
        self.index = {"body": bodies, "joint": joints}
        for name, start in starts.items():
            self.index[name] = _expand(start[joints], counts[name][joints[0]] if joints.size else joints[0])
        shapes = [[s for body in row for s in model.body_shapes[body]] for row in bodies.tolist()]
        self.index["shape"] = np.array(shapes, int).reshape(len(bodies), -1)
        place = {body: k for k, body in enumerate(bodies[0].tolist())}
        self.link = np.array(
            [place[b] for b in model.shape_body.numpy()[self.index["shape"][0]].tolist()], int
        )
        parents = model.joint_parent.numpy()[joints[0]]
        kinds = model.joint_type.numpy()[joints[0]]
        self.layout = [
            (int(kind), *dim[j].tolist(), place.get(int(parent), -1))
            for kind, j, parent in zip(kinds, joints[0].tolist(), parents)
        ]


def _expand(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return ranges of entries from `first` (W, n) on, `count` (n,) of each, side by side."""
    within = np.concatenate([np.arange(n) for n in count]) if len(count) else np.zeros(0, int)
    return np.repeat(first, count, axis=1) + within.astype(int)


def copy_numbers(source: Model, rows: TreeRows, target: Model, places: TreeRows, shapes: np.ndarray) -> None:
    """Copy all plain numbers that describe a tree: masses, frames, limits, drives, sizes, materials.

    Args:
        source: Model to copy from.
        rows: The tree in that model, in one world.
        target: Model to copy to.
        places: The trees in that model.
        shapes: Which of the shapes of `places` each shape of `rows` becomes.
    """
    own = {name: (rows.index[name][0], places.index[name]) for name in _PARTS}
    own["shape"] = (rows.index["shape"][0], places.index["shape"][:, shapes])
    for spec in MODEL_ARRAYS:
        if spec.per in own and not spec.host and spec.dtype and not spec.index_of and spec.name not in _FIXED:
            _copy(getattr(source, spec.name), getattr(target, spec.name), *own[spec.per])
    if own["shape"][0].size:
        _copy(source.shape_collision_radius, target.shape_collision_radius, *own["shape"])
    for struct in _STRUCTS if own["shape"][0].size else ():
        view = getattr(source, struct)
        for name in view._cls.vars:
            if struct != "shape_geo" or name not in _OF_SHAPES:
                _copy(getattr(view, name), getattr(getattr(target, struct), name), *own["shape"])


def _copy(source: wp.array, target: wp.array, entries: np.ndarray, index: np.ndarray) -> None:
    write_rows(target, index, source.numpy()[entries])


def write_rows(target: wp.array, index: np.ndarray, values: np.ndarray | float) -> None:
    """Write entries of an array, the same in all rows of an index (W, n)."""
    if not index.size:
        return
    device = wp.get_device(str(target.device))
    if device.is_cpu:
        target.numpy()[index] = values
        return
    held = target.numpy()
    whole = np.ascontiguousarray(np.broadcast_to(values, index.shape + held.shape[1:]).astype(held.dtype))
    if held.dtype.itemsize != 4:  # words are of four bytes
        held[index] = whole
        target.assign(held)
        return
    words = put(whole.reshape(-1).view(np.int32), dtype=int, device=device)
    width = wp.types.type_size_in_bytes(target.dtype) // 4
    everywhere = put(np.zeros(0, bool), dtype=bool, device=device)
    write_words(words, target, width, index, np.zeros(len(index), int), everywhere)
