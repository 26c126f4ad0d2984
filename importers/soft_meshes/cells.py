"""What files of cells have in common: kinds of cells, points, and where an error is."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.importers.files.clock import CHECK_EVERY, check_time
from newtonsim.importers.files.limits import limits


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cell.

    Attributes:
        name: What messages call it.
        dimension: 0 for points to 3 for solids.
        nodes: Nodes of a cell, None if they vary.
    """

    name: str
    dimension: int
    nodes: int | None


VERTEX = Kind("vertex", 0, None)
LINE = Kind("line", 1, None)
TRIANGLE = Kind("triangle", 2, 3)
QUAD = Kind("quad", 2, 4)
PIXEL = Kind("pixel", 2, 4)
POLYGON = Kind("polygon", 2, None)
STRIP = Kind("triangle strip", 2, None)
TRIANGLE6 = Kind("triangle of 6 nodes", 2, 6)
TETRAHEDRON = Kind("tetrahedron", 3, 4)
TETRAHEDRON10 = Kind("tetrahedron of 10 nodes", 3, 10)


@dataclass(frozen=True, slots=True, eq=False)
class CellBlock:
    """Cells of one kind with equally many nodes.

    Attributes:
        kind: The kind.
        nodes: Points of each cell (m, k), int64.
    """

    kind: Kind
    nodes: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class CellFile:
    """Points and cells of a file, as it lists them.

    Attributes:
        path: The file.
        points: Shape (n, 3), float64 [m].
        blocks: Cells, in the order of the file; each kind may come several times.
    """

    path: str
    points: np.ndarray
    blocks: list[CellBlock]

    def check(self) -> None:
        """Raise ImportFileError if a point is not finite, or a cell refers to one that is not there."""
        bad = np.flatnonzero(~np.isfinite(self.points).all(axis=1))
        if len(bad):
            value = self.points[bad[0]].tolist()
            raise ImportFileError(f"is not finite: {value}", self.path, element=f"point {bad[0]}")
        total = 0
        for block in self.blocks:
            outside = np.flatnonzero(((block.nodes < 0) | (block.nodes >= len(self.points))).any(axis=1))
            if len(outside):
                row = block.nodes[outside[0]].tolist()
                raise ImportFileError(
                    f"refers to the points {row}, outside 0..{len(self.points) - 1}",
                    self.path,
                    element=f"{block.kind.name} {outside[0]}",
                )
            total += len(block.nodes)
        if total > limits.triangles:
            raise ImportFileError(
                f"the file has {total} cells, more than the limit of {limits.triangles}", self.path
            )

    def tetrahedra(self) -> np.ndarray:
        """Corners of all tetrahedra (m, 4), as the file winds them; of those of 10 nodes the corners.

        Raises:
            ImportFileError: There are none.
        """
        found = [b.nodes[:, :4] for b in self.blocks if b.kind in (TETRAHEDRON, TETRAHEDRON10)]
        return self._joined(found, 4, "tetrahedra")

    def triangles(self) -> np.ndarray:
        """Corners of all triangles (m, 3); quads, polygons and strips are cut into triangles.

        Raises:
            ImportFileError: There are none.
        """
        found = [_CUT[b.kind](b.nodes) for b in self.blocks if b.kind in _CUT]
        return self._joined(found, 3, "triangles")

    def _joined(self, found: list[np.ndarray], corners: int, what: str) -> np.ndarray:
        joined = np.concatenate([np.zeros((0, corners), np.int64), *found])
        if not len(joined):
            raise ImportFileError(f"the file has no {what}, only {self.describe()}", self.path)
        return joined

    def describe(self) -> str:
        """Return kinds and numbers of the cells."""
        counts: Counter[str] = Counter()
        for block in self.blocks:
            counts[block.kind.name] += len(block.nodes)
        return ", ".join(f"{name}: {count}" for name, count in counts.items()) or "points"

    def warn_of_rest(self, dimension: int, stacklevel: int) -> None:
        """Warn of cells with this dimension or more that are not read, and of mid-edge nodes."""
        known = {TETRAHEDRON} if dimension == 3 else set(_CUT) - {TRIANGLE6}
        halved = {TRIANGLE6, TETRAHEDRON10}
        lost: Counter[str] = Counter()
        for block in self.blocks:
            kind = block.kind
            if kind.dimension == dimension and kind not in known and len(block.nodes):
                lost[f"{kind.name}{' (its corners are read)' if kind in halved else ''}"] += len(block.nodes)
        if lost:
            text = ", ".join(f"{count} of {name}" for name, count in lost.items())
            message = f"{self.path}: cells that are not read: {text}"
            warnings.warn(message, UnsupportedElementWarning, stacklevel=stacklevel + 1)


def gather(points: np.ndarray, corners: np.ndarray, keep_unused: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the points that cells use, in their order, and the corners numbered by them."""
    used = np.zeros(len(points), bool)
    used[corners] = True
    if keep_unused or used.all():
        return points, corners
    return points[used], (np.cumsum(used) - 1)[corners]


def numbers(words: Sequence[bytes | str], is_real: bool) -> np.ndarray:
    """Return words as float64 or int64.

    Raises:
        ValueError: A word is no such number.
    """
    if is_real:
        return np.fromiter(map(float, words), np.float64, len(words))
    return np.fromiter(map(int, words), np.int64, len(words))


def ragged_blocks(kinds: list[Kind], offsets: np.ndarray, nodes: np.ndarray) -> list[CellBlock]:
    """Return blocks of neighbouring cells of the same kind and size.

    Args:
        kinds: Kind of each cell (m).
        offsets: Where each cell begins in `nodes`, and where the last one ends (m + 1,).
        nodes: Points of all cells in one row.

    Raises:
        ValueError: Offsets are not ascending or outside, or a cell has the wrong number of nodes.
    """
    sizes = np.diff(offsets)
    if len(offsets) != len(kinds) + 1 or (sizes < 0).any() or offsets[0] < 0 or offsets[-1] > len(nodes):
        raise ValueError(f"{len(kinds)} cells do not match the offsets and the {len(nodes)} nodes")
    blocks, start = [], 0
    for end in range(1, len(kinds) + 1):
        if end % CHECK_EVERY == 0:
            check_time()
        if end < len(kinds) and kinds[end] is kinds[start] and sizes[end] == sizes[start]:
            continue
        kind, size = kinds[start], int(sizes[start])
        if size == 0 or (kind.nodes is not None and size != kind.nodes):
            raise ValueError(f"cell {start}, a {kind.name}, has {size} nodes")
        blocks.append(CellBlock(kind, nodes[offsets[start] : offsets[end]].reshape(-1, size)))
        start = end
    return blocks


def _fans(nodes: np.ndarray) -> np.ndarray:
    """Cut polygons (m, k) into triangles about their first corner."""
    k = np.arange(1, max(nodes.shape[1] - 1, 1))
    return nodes[:, np.column_stack([0 * k, k, k + 1])].reshape(-1, 3)


def _strips(nodes: np.ndarray) -> np.ndarray:
    """Cut strips (m, k) into triangles, every second one turned."""
    k = np.arange(max(nodes.shape[1] - 2, 0))
    return nodes[:, np.column_stack([k + k % 2, k + 1 - k % 2, k + 2])].reshape(-1, 3)


_CUT = {
    TRIANGLE: _fans,
    QUAD: _fans,
    POLYGON: _fans,
    PIXEL: lambda nodes: _fans(nodes[:, [0, 1, 3, 2]]),
    STRIP: _strips,
    TRIANGLE6: lambda nodes: nodes[:, :3],
}
