"""Which worlds are shown, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.render.films.framing import in_moving_trees
from newtonsim.render.shapes import world_grid

if TYPE_CHECKING:
    from newtonsim.scene.model import Model

FIRST = 16
"""Largest number of worlds that are shown at first."""


class Layout:
    """Shown worlds side by side.

    Attributes:
        count: Number of worlds of the model.
        worlds: Shown worlds in order, shape (n,).
        spacing: Distance between neighbours [m]; 0 leaves each where it is.

    Args:
        model: The model.
        body_q: Body poses, shape (bodies, 7); worlds that overlap in them are laid out on a grid.
    """

    def __init__(self, model: Model, body_q: np.ndarray, particle_q: np.ndarray):
        self.count, self._up = model.world_count, model.up_vector
        self.worlds = np.arange(min(FIRST, self.count))
        self.extent, self.spacing = _sizes(model, body_q, particle_q)
        self._place()

    def show(self, worlds: Iterable[int]) -> None:
        """Show other worlds.

        Raises:
            NewtonsimError: There is no such world, or none is named.
        """
        chosen = np.unique(np.array(list(worlds), np.int64))
        if not len(chosen) or chosen[0] < 0 or chosen[-1] >= self.count:
            raise NewtonsimError(f"worlds: expected some of 0..{self.count - 1}, got {chosen.tolist()}")
        self.worlds = chosen
        self._place()

    def spread(self, spacing: float) -> None:
        """Change the distance between neighbours."""
        self.spacing = float(spacing)
        self._place()

    def _place(self) -> None:
        self._slot = np.full(self.count + 1, -1)
        self._slot[self.worlds] = np.arange(len(self.worlds))
        self._offsets = world_grid(len(self.worlds), self.spacing, self._up)

    def shown(self, world: np.ndarray) -> np.ndarray:
        """Return whether worlds (n,) are shown; the global world -1 is not."""
        return (world >= 0) & (self._slot[world] >= 0)

    def offset(self, world: np.ndarray) -> np.ndarray:
        """Return the offsets of shown worlds (n,), shape (n, 3) [m]; zero for the global world -1."""
        if not len(self.worlds):
            return np.zeros((len(world), 3))
        return np.where((world >= 0)[:, None], self._offsets[self._slot[world]], 0.0)

    @property
    def origins(self) -> np.ndarray:
        """Distinct places of the worlds, shape (n, 3) [m]."""
        return self._offsets if self.spacing else np.zeros((1, 3))


def parse_worlds(text: str, count: int) -> list[int]:
    """Read "all", "3", "0-15" or "0, 3, 8-11".

    Raises:
        NewtonsimError: It is none of these.
    """
    if text.strip().lower() == "all":
        return list(range(count))
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            chosen += range(int(first), int(last if dash else first) + 1)
        except ValueError as error:
            raise NewtonsimError(f'worlds: expected "all", "3" or "0-15", got {text!r}') from error
    return chosen


def format_worlds(worlds: np.ndarray, count: int) -> str:
    """Format worlds as `parse_worlds` reads them."""
    if len(worlds) == count:
        return "all"
    runs = np.split(worlds, np.flatnonzero(np.diff(worlds) != 1) + 1)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _sizes(model: Model, body_q: np.ndarray, particle_q: np.ndarray) -> tuple[float, float]:
    """Extent of what can move in the first world, and the distance of worlds, 0 if they are apart [m]."""
    moves = in_moving_trees(model)
    counted = moves[:-1] if moves.any() else np.ones(model.body_count, bool)
    points = np.concatenate([body_q[counted, :3], particle_q])
    world = np.concatenate(
        [
            model.body_world.numpy()[counted] if model.body_count else [],
            model.particle_world.numpy() if model.particle_count else [],
        ]
    )
    reach = _shape_reach(model, counted)
    points, world = np.concatenate([points, points - reach, points + reach]), np.tile(world, 3)
    mine = points[world == 0]
    mine = mine[np.isfinite(mine).all(axis=1)]
    if not len(mine):
        return 2.0, 0.0
    extent = float(max(np.ptp(mine, axis=0).max(), 0.05))
    if model.world_count == 1:
        return extent, 0.0
    other = points[world == 1]
    apart = len(other) and np.linalg.norm(other.mean(axis=0) - mine.mean(axis=0)) > 0.3 * extent
    return extent, 0.0 if apart else round(0.3 + 1.3 * extent, 1)


def _shape_reach(model: Model, counted: np.ndarray) -> float:
    """A typical size of the shapes of some of the bodies, bool (bodies,) [m]."""
    if not model.shape_count:
        return 0.0
    body: np.ndarray = model.shape_body.numpy()
    radius = model.shape_collision_radius.numpy()[np.append(counted, False)[body]]
    radius = radius[radius < 1.0e3]
    return float(radius.max()) if len(radius) else 0.0
