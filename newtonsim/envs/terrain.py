"""Ground of patches that grow harder from row to row, after Rudin et al. (2021), section 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.geometry.heightfield import Heightfield

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder

_CELL = 0.1
_PLATFORM = 1.0
"""Half the side of the flat square in the middle of each patch [m]."""
_RIM = 0.2
"""Width of the flat strip around a patch [m]."""
_TREAD = 0.3
"""Depth of a stair [m]."""
_SURROUNDINGS = 30.0
"""Width of the flat ground around all patches [m]: farther than a robot walks in an episode."""
_UPRIGHT = (0.5**0.5, 0.0, 0.0, 0.5**0.5)


def _inward(x: np.ndarray, y: np.ndarray, half: float) -> np.ndarray:
    """Distance from the rim of a patch towards its platform [m], from 0 to the largest."""
    way = half - _RIM - np.maximum(np.abs(x), np.abs(y))
    return np.clip(way, 0.0, half - _RIM - _PLATFORM)


def _rough(x: np.ndarray, y: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """Uniform noise on a grid of 0.2 m, ±0.01 to ±0.08 m; it decreases towards the platform."""
    corners = rng.uniform(-1.0, 1.0, ((x.shape[0] + 1) // 2 + 1, (x.shape[1] + 1) // 2 + 1))
    fine = np.repeat(np.repeat(corners, 2, axis=0), 2, axis=1)
    fine = 0.5 * (fine + np.roll(fine, -1, axis=0))
    fine = 0.5 * (fine + np.roll(fine, -1, axis=1))
    calm = np.clip((np.maximum(np.abs(x), np.abs(y)) - _PLATFORM) / 0.5, 0.0, 1.0)
    return (0.01 + 0.07 * level) * calm * fine[: x.shape[0], : x.shape[1]]


def _hill(x: np.ndarray, y: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """Pyramid with slopes of 0.05 to 0.4, to walk down from."""
    return (0.05 + 0.35 * level) * _inward(x, y, np.abs(x).max())


def _valley(x: np.ndarray, y: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """The same upside down, to walk up from."""
    return -_hill(x, y, level, rng)


def _stairs_down(x: np.ndarray, y: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """Stairs of 0.03 to 0.18 m down from the platform; a riser spans one cell of the grid."""
    way = _inward(x, y, np.abs(x).max())
    return (0.03 + 0.15 * level) * np.ceil(way / _TREAD - 1.0e-6)


def _stairs_up(x: np.ndarray, y: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """The same upside down."""
    return -_stairs_down(x, y, level, rng)


def _blocks(x: np.ndarray, y: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """Twenty rectangles with sides of 1 to 2 m, up to 0.03 to 0.2 m above or below the ground."""
    half = np.abs(x).max()
    heights = np.zeros(x.shape)
    for _ in range(20):
        sides, middle = rng.uniform(0.5, 1.0, 2), rng.uniform(-half, half, 2)
        inside = (np.abs(x - middle[0]) <= sides[0]) & (np.abs(y - middle[1]) <= sides[1])
        heights[inside] = rng.choice([-1.0, -0.5, 0.5, 1.0]) * (0.03 + 0.17 * level)
    outer = np.maximum(np.abs(x), np.abs(y))
    return np.where((outer <= _PLATFORM) | (outer > half - _RIM), 0.0, heights)


_Kind = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], np.ndarray]
KINDS: dict[str, _Kind] = {
    "rough": _rough,
    "hill": _hill,
    "valley": _valley,
    "stairs_down": _stairs_down,
    "stairs_up": _stairs_up,
    "blocks": _blocks,
}
"""Kinds of patches: heights [m] at positions x and y from the middle [m], for a level from 0 to 1."""


@dataclass
class Terrain:
    """Square patches about the origin: levels along x, the easiest first, kinds along y.

    Every patch has a flat square of 2 m in its middle, to start on, and is surrounded by flat ground at 0.

    Attributes:
        kinds: Names in `KINDS`.
        levels: Number of levels.
        patch_size: Side of a patch [m].
        heights: At the corners of a grid, along x and y [m].
        platforms: Height in the middle of each patch [m], (levels, kinds).
    """

    kinds: Sequence[str]
    levels: int
    patch_size: float
    heights: np.ndarray
    platforms: np.ndarray

    def add_to(self, scene: ModelBuilder) -> None:
        """Add the patches and the ground around them to the global world of a z-up builder."""
        rows, columns = (n - 1 for n in self.heights.shape)
        length, width = rows * _CELL, columns * _CELL
        # rows of a height field run along its z axis, which is -y here
        field = Heightfield(self.heights.T[::-1], (length, width))
        scene.add_shape_heightfield(-1, rot=_UPRIGHT, heightfield=field, key="terrain")
        far, half = 0.5 * _SURROUNDINGS, 0.5
        for side in (-1.0, 1.0):
            place = (side * (0.5 * length + far), 0.0, -half)
            scene.add_shape_box(-1, pos=place, hx=far, hy=0.5 * width + _SURROUNDINGS, hz=half)
            place = (0.0, side * (0.5 * width + far), -half)
            scene.add_shape_box(-1, pos=place, hx=0.5 * length, hy=far, hz=half)

    def middle(self, level: int, kind: int) -> tuple[float, float, float]:
        """Return the middle of a patch, on the ground [m]."""
        x = (level + 0.5 - 0.5 * self.levels) * self.patch_size
        y = (kind + 0.5 - 0.5 * len(self.kinds)) * self.patch_size
        return x, y, float(self.platforms[level, kind])


def make_terrain(
    kinds: Sequence[str] = tuple(KINDS), levels: int = 10, patch_size: float = 8.0, seed: int = 0
) -> Terrain:
    """Return a terrain.

    Args:
        kinds: Kinds of patches, in their order along y; see `KINDS`.
        levels: Number of levels.
        patch_size: Side of a patch [m], at least 4.
        seed: Seed of its random parts.

    Raises:
        NewtonsimError: An argument is out of range.
    """
    if isinstance(kinds, str) or not kinds:
        raise NewtonsimError(f"kinds: expected some of {', '.join(KINDS)}, got {kinds!r}")
    for kind in kinds:
        if kind not in KINDS:
            raise NewtonsimError(
                f"kinds: there is no {kind!r}{did_you_mean(kind, KINDS)}; there are {', '.join(KINDS)}"
            )
    if not isinstance(levels, (int, np.integer)) or levels < 1:
        raise NewtonsimError(f"levels: expected a whole number of at least 1, got {levels!r}")
    if not 4.0 <= patch_size < np.inf:
        raise NewtonsimError(f"patch_size: expected at least 4 m, got {patch_size}")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise NewtonsimError(f"seed: expected a whole number of at least 0, got {seed!r}")
    cells = round(patch_size / _CELL)
    along = (np.arange(cells + 1) - 0.5 * cells) * _CELL
    x, y = np.meshgrid(along, along, indexing="ij")
    heights = np.zeros((levels * cells + 1, len(kinds) * cells + 1), np.float32)
    platforms = np.zeros((levels, len(kinds)))
    for level in range(levels):
        for number, kind in enumerate(kinds):
            rng = np.random.default_rng([seed, level, number])
            patch = KINDS[kind](x, y, level / max(levels - 1, 1), rng)
            heights[level * cells : (level + 1) * cells + 1, number * cells : (number + 1) * cells + 1] = (
                patch
            )
            platforms[level, number] = patch[cells // 2, cells // 2]
    return Terrain(tuple(kinds), int(levels), cells * _CELL, heights, platforms)


TERRAIN_OPTIONS: Mapping[str, Any] = {
    "levels": 10,
    "kinds": tuple(KINDS),
    "patch_size": 8.0,
    "terrain_seed": 0,
    "first_levels": 3,
    "curriculum": True,
}
"""Options of a task on terrain: those of `make_terrain`, levels to start on, whether worlds move."""


def terrain_of_task(options: dict[str, Any], given: Mapping[str, Any]) -> Terrain:
    """Return the terrain of a task, and limit its `first_levels` to the levels.

    Args:
        options: All options of the task, `TERRAIN_OPTIONS` among them.
        given: Those that the user has given.

    Raises:
        NewtonsimError: An option is out of range.
    """
    levels, first = options["levels"], options["first_levels"]
    terrain = make_terrain(options["kinds"], levels, options["patch_size"], options["terrain_seed"])
    if not 1 <= first <= levels:
        if "first_levels" in given:
            raise NewtonsimError(f"first_levels: expected 1..{levels}, got {first}")
        options["first_levels"] = levels
    return terrain
