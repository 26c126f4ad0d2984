"""Which elements of each world a pattern selects, and where their values are."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import NewtonsimError, did_you_mean

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

KIND = {
    "bodies": "body",
    "joints": "joint",
    "shapes": "shape",
    "constraints": "constraint",
    "particles": "particle",
}
"""Kind of element of each group."""
_MOST_NAMED = 12


class Selection:
    """Elements of one group of a model that a pattern selects, one row per world.

    Args:
        model: The model.
        group: "bodies", "joints", "shapes", "constraints" or "particles".
        pattern: Pattern of their labels, with `*`, `?` and `[...]`. A label is that of the element, "leg_*",
            or is prefixed with that of its articulation, "robot*/leg_*". Shapes are also selected by the
            labels of their bodies. Particles have none: "*".
        worlds: The worlds.

    Attributes:
        names: Labels of the elements of a world.
        index: The elements, int (len(worlds), len(names)).

    Raises:
        NewtonsimError: No element matches, worlds have different ones, or there are no worlds.
    """

    def __init__(self, model: Model, group: str, pattern: str, worlds: np.ndarray):
        self.model, self.group, self.kind = model, group, KIND[group]
        if group == "particles" and pattern != "*":
            raise NewtonsimError(
                f"particles have no labels, so none matches {pattern!r}; create a View with '*'"
            )
        keys = labels_of(model, group)
        world = worlds_of_elements(model, self.kind)
        matches = _matches(model, self.kind, keys, pattern)
        chosen = np.flatnonzero(matches & (world >= 0))
        if not len(chosen):
            raise NewtonsimError(_nothing(model, group, pattern, keys, world, matches))
        if not len(worlds):
            raise NewtonsimError("worlds: expected at least one, the mask has none")
        counts = np.bincount(world[chosen], minlength=model.world_count)[worlds]
        if np.any(counts != counts[0]) or not counts[0]:
            few, many = worlds[np.argmin(counts)], worlds[np.argmax(counts)]
            raise NewtonsimError(
                f"{group} {pattern!r}: world {few} has {counts.min()} of them and world {many} has "
                f"{counts.max()}; choose worlds with equal numbers"
            )
        order = chosen[np.argsort(world[chosen], kind="stable")]
        start = np.searchsorted(world[order], worlds)
        self.index = order[start[:, None] + np.arange(counts[0])].astype(np.int32)
        self.names = tuple(keys[i] if keys else "" for i in self.index[0].tolist())

    def entries(self, per: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return the indices of the entries of an array (worlds, n), and the elements that they belong to.

        Args:
            per: The kind of element that has one entry, see `newtonsim.scene.arrays`.

        Raises:
            NewtonsimError: None of the elements has one, or worlds have different numbers of them.
        """
        if per == self.kind:
            return self.index, self.names
        first, count = _parts(self.model, per)
        number = count[self.index]
        if np.any(number != number[0]):
            raise NewtonsimError(
                f"{self.group}: worlds have joints of different types; choose worlds with equal ones"
            )
        if not number[0].sum():
            raise NewtonsimError(f"{self.group}: {', '.join(self.names)} have no {per}")
        within = np.concatenate([np.arange(n) for n in number[0]])
        index = np.repeat(first[self.index], number[0], axis=1) + within
        return index.astype(np.int32), tuple(np.repeat(self.names, number[0]).tolist())


def labels_of(model: Model, group: str) -> list[str]:
    """Return the labels of all elements of a group; none for particles."""
    return list(getattr(model, f"{KIND[group]}_key")) if group != "particles" else []


def worlds_of_elements(model: Model, kind: str) -> np.ndarray:
    """Return the world of each element, -1 for none; in a model without worlds all belong to world 0."""
    if not getattr(model, f"{kind}_count"):
        return np.zeros(0, int)
    if kind == "constraint":
        of_body: np.ndarray = np.append(model.body_world.numpy(), -1)
        bodies: np.ndarray = np.stack([model.constraint_parent.numpy(), model.constraint_child.numpy()])
        ends = of_body[bodies]
        world = np.maximum(*ends)
        axes: np.ndarray = model.constraint_coupled_axes.numpy().reshape(-1, 2)[:, 0]
        _, count = _parts(model, "axis")
        owner: np.ndarray = np.append(np.repeat(np.arange(model.joint_count), count), -1)
        of_joint: np.ndarray = np.append(model.joint_world.numpy(), -1)
        world = np.maximum(world, of_joint[owner[axes]])
    else:
        world = getattr(model, f"{kind}_world").numpy().astype(int)
    return world if model.num_envs else np.maximum(world, 0)


def _parts(model: Model, per: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the first entry of each joint, and the number of its entries."""
    if per == "axis":
        count = model.joint_axis_dim.numpy().reshape(-1, 2).sum(axis=1)
        return model.joint_axis_start.numpy(), count
    start = (model.joint_q_start if per == "coord" else model.joint_qd_start).numpy()
    return start[:-1], np.diff(start)


def _matches(model: Model, kind: str, keys: Sequence[str], pattern: str) -> np.ndarray:
    """Return which elements a pattern selects, bool, (count,)."""
    if pattern == "*":
        return np.ones(getattr(model, f"{kind}_count"), bool)
    known = {key: fnmatchcase(key, pattern) for key in set(keys)}
    found = np.array([known[key] for key in keys], bool).reshape(-1)
    if "/" in pattern and kind != "constraint":
        robots = _articulations(model, kind)
        pairs = {pair: fnmatchcase(f"{pair[0]}/{pair[1]}", pattern) for pair in set(zip(robots, keys))}
        found |= np.array([pairs[pair] for pair in zip(robots, keys)], bool).reshape(-1)
    if kind == "shape":
        of_body: np.ndarray = np.append(_matches(model, "body", list(model.body_key), pattern), False)
        owner: np.ndarray = model.shape_body.numpy()
        found |= of_body[owner]
    return found


def _articulations(model: Model, kind: str) -> list[str]:
    """Return the label of the articulation of each element, "" for elements without one."""
    if kind == "particle":
        return []
    start, keys = model.articulation_start.numpy(), [*model.articulation_key, ""]
    of_joint = np.searchsorted(start, np.arange(model.joint_count), side="right") - 1
    if kind == "joint":
        return [keys[a] for a in of_joint]
    of_body = np.full(model.body_count + 1, -1)
    child: np.ndarray = model.joint_child.numpy()
    of_body[child] = of_joint
    of_shape: np.ndarray = model.shape_body.numpy() if kind == "shape" else np.arange(model.body_count)
    of_element = of_body[of_shape]
    return [keys[a] for a in of_element]


def _nothing(
    model: Model, group: str, pattern: str, keys: list[str], world: np.ndarray, matches: np.ndarray
) -> str:
    """Return the error for a pattern that selects nothing; it says what there is."""
    if not len(world):
        return f"the model has no {group}"
    if matches.any():
        return f"{group} {pattern!r}: they are shared by all worlds; write to the model's arrays"
    first = [key for key, w in zip(keys, world.tolist()) if w == 0]
    named = list(dict.fromkeys(first))
    listed = ", ".join(named[:_MOST_NAMED])
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    robots = sorted(set(model.articulation_key)) if "/" in pattern else []
    of = f", on {', '.join(robots[:_MOST_NAMED])}" if robots else ""
    hint = did_you_mean(pattern.rpartition("/")[2], named)
    return f"{group}: no label matches {pattern!r}{hint}; there are {listed or 'none'}{more}{of}"


def choose_worlds(world_count: int, worlds: object) -> np.ndarray:
    """Read a choice of worlds.

    Args:
        world_count: Number of worlds.
        worlds: None for all, one index, a list of indices, or a mask of booleans (world_count,).

    Returns:
        Their indices, int32.

    Raises:
        NewtonsimError: There are no such worlds, or the mask has another length.
    """
    if worlds is None:
        return np.arange(world_count, dtype=np.int32)
    numbers = np.atleast_1d(on_host(worlds))
    if numbers.dtype == bool:
        if numbers.shape != (world_count,):
            raise NewtonsimError(f"worlds: expected a mask of shape ({world_count},), got {numbers.shape}")
        return np.flatnonzero(numbers).astype(np.int32)
    whole = numbers.dtype.kind in "iu" and numbers.ndim == 1 and len(numbers)
    if not whole or numbers.min() < 0 or numbers.max() >= world_count:
        raise NewtonsimError(
            f"worlds: expected numbers from 0 to {world_count - 1} or a mask, got {worlds!r}"
        )
    if len(np.unique(numbers)) < len(numbers):
        raise NewtonsimError(f"worlds: expected distinct worlds, got {worlds!r}")
    return numbers.astype(np.int32)


def on_host(values: Any) -> np.ndarray:
    """Return values on the host, also of a tensor or an array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return values.numpy() if hasattr(values, "numpy") else np.asarray(values)
