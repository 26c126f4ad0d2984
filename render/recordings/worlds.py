"""Some worlds of a model: their rows of its arrays, and the renumbering of indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.scene.arrays import COUNTS, SPECS

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

_MEMBERS = {
    "spring": ("spring_indices", "particle"),
    "tri": ("tri_indices", "particle"),
    "edge": ("edge_indices", "particle"),
    "tet": ("tet_indices", "particle"),
    "contact_pair": ("contact_pair_shapes", "shape"),
}
"""Array with the members of each element of a kind, and the kind of the members."""


class WorldSelection:
    """The elements of chosen worlds, with those of the global world.

    Attributes:
        worlds: Indices of the worlds, ascending.
        rows: Chosen elements of each kind of `newtonsim.scene.arrays.COUNTS`, ascending.

    Args:
        model: The model.
        worlds: Worlds to choose; None for all.

    Raises:
        ModelError: There is no such world, or none is chosen.
    """

    def __init__(self, model: Model, worlds: Iterable[int] | None = None):
        self.worlds = check_worlds(model, worlds)
        self._model = model
        self.whole = len(self.worlds) == model.world_count
        if self.whole:
            self.rows = {kind: np.arange(getattr(model, count)) for kind, count in COUNTS.items()}
            return
        self.rows = {kind: self._of_world(kind) for kind in ("body", "joint", "shape", "particle")}
        self._choose_joint_parts()
        for kind, (name, of) in _MEMBERS.items():
            self.rows[kind] = self._where_all(kind, name, of)
        self._choose_constraints()
        self._choose_muscles()
        self._choose_tendons()
        self._choose_actuators()

    def renumber(self, kind: str, old: np.ndarray) -> np.ndarray:
        """Return the indices of elements among the chosen ones; negative ones are unchanged.

        For an element that is not chosen, this is the index of the next that is, which is right for starts.
        """
        old = np.asarray(old)
        return np.where(old < 0, old, np.searchsorted(self.rows[kind], old)).astype(old.dtype)

    def has(self, kind: str, numbers: np.ndarray) -> np.ndarray:
        """Tell which elements are chosen; negative indices are."""
        return (numbers < 0) | np.isin(numbers, self.rows[kind])

    def _array(self, name: str) -> np.ndarray:
        array = getattr(self._model, name)
        spec = SPECS[name]
        if array is None:
            return np.zeros((0, 1), np.int32)
        return array.numpy().reshape(-1, spec.flat) if spec.flat > 1 else array.numpy()

    def _of_world(self, kind: str) -> np.ndarray:
        world = self._array(f"{kind}_world").reshape(-1)
        return np.flatnonzero((world < 0) | np.isin(world, self.worlds))

    def _where_all(self, kind: str, name: str, of: str) -> np.ndarray:
        """Return the elements whose members are all chosen."""
        if not getattr(self._model, COUNTS[kind]):
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.has(of, self._array(name)).reshape(-1, self._array(name).shape[-1]).all(1))

    def _parts(self, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the concatenated ranges start .. start + count of the elements."""
        spans = [np.arange(start, start + count) for start, count in zip(starts.tolist(), counts.tolist())]
        return np.concatenate([np.zeros(0, np.int64), *spans])

    def _choose_joint_parts(self) -> None:
        model, joints = self._model, self.rows["joint"]
        for kind, name in (("coord", "joint_q_start"), ("dof", "joint_qd_start")):
            bounds = np.zeros(1, np.int32) if not model.joint_count else getattr(model, name).numpy()
            self.rows[kind] = self._parts(bounds[joints], bounds[joints + 1] - bounds[joints])
        start, count = self._array("joint_axis_start"), self._array("joint_axis_dim")
        self.rows["axis"] = self._parts(start[joints], count[joints].sum(axis=-1))

    def _choose_constraints(self) -> None:
        if not self._model.constraint_count:
            self.rows |= {"constraint": np.zeros(0, np.int64), "constraint_axis": np.zeros(0, np.int64)}
            return
        bodies = np.stack([self._array("constraint_parent"), self._array("constraint_child")], axis=1)
        axes = self._array("constraint_coupled_axes")
        chosen = self.has("body", bodies).all(axis=1) & self.has("axis", axes).all(axis=1)
        rows = self.rows["constraint"] = np.flatnonzero(chosen)
        start, count = self._array("constraint_axis_start"), self._array("constraint_axis_dim")
        self.rows["constraint_axis"] = self._parts(start[rows], count[rows].sum(axis=-1))

    def _choose_muscles(self) -> None:
        if not self._model.muscle_count:
            self.rows |= {"muscle": np.zeros(0, np.int64), "muscle_point": np.zeros(0, np.int64)}
            return
        start: np.ndarray = self._model.muscle_start.numpy()
        chosen = self.has("body", self._array("muscle_bodies"))
        rows = self.rows["muscle"] = np.flatnonzero(np.logical_and.reduceat(chosen, start[:-1]))
        self.rows["muscle_point"] = self._parts(start[rows], start[rows + 1] - start[rows])

    def _choose_tendons(self) -> None:
        if not self._model.tendon_count:
            self.rows |= dict.fromkeys(("tendon", "tendon_element", "tendon_equality"), np.zeros(0, np.int64))
            return
        start = np.append(self._array("tendon_start"), self._model.tendon_element_count)
        chosen = self.has("body", self._array("tendon_element_body"))
        chosen &= self.has("axis", self._array("tendon_element_axis"))
        rows = self.rows["tendon"] = np.flatnonzero(np.logical_and.reduceat(chosen, start[:-1]))
        self.rows["tendon_element"] = self._parts(start[rows], start[rows + 1] - start[rows])
        self.rows["tendon_equality"] = self._where_all("tendon_equality", "tendon_equality_tendons", "tendon")

    def _choose_actuators(self) -> None:
        if not self._model.actuator_count:
            self.rows["actuator"] = np.zeros(0, np.int64)
            return
        chosen = self.has("body", self._array("actuator_bodies")).all(axis=1)
        for kind in ("joint", "axis", "tendon"):
            chosen &= self.has(kind, self._array(f"actuator_{kind}"))
        self.rows["actuator"] = np.flatnonzero(chosen)


def check_worlds(model: Model, worlds: Iterable[int] | None) -> np.ndarray:
    """Return the chosen worlds, ascending.

    Raises:
        ModelError: There is no such world, or none is chosen.
    """
    if worlds is None:
        return np.arange(model.world_count)
    given = list(worlds)
    whole = all(isinstance(world, (int, np.integer)) and not isinstance(world, bool) for world in given)
    if not given or not whole or min(given) < 0 or max(given) >= model.world_count:
        raise ModelError(f"worlds: expected numbers from 0 to {model.world_count - 1}, got {given}")
    return np.unique(given)
