"""Gmsh's .msh files, version 2.2 and 4.1, text and binary.

Gmsh Reference Manual, "Gmsh file formats".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.clock import CHECK_EVERY, check_time
from newtonsim.importers.soft_meshes.cells import (
    LINE,
    QUAD,
    TETRAHEDRON,
    TETRAHEDRON10,
    TRIANGLE,
    TRIANGLE6,
    VERTEX,
    CellBlock,
    CellFile,
    Kind,
    numbers,
)

_KINDS = {
    1: (LINE, 2),
    2: (TRIANGLE, 3),
    3: (QUAD, 4),
    4: (TETRAHEDRON, 4),
    5: (Kind("hexahedron", 3, 8), 8),
    6: (Kind("wedge", 3, 6), 6),
    7: (Kind("pyramid", 3, 5), 5),
    8: (LINE, 3),
    9: (TRIANGLE6, 6),
    10: (Kind("quad of 9 nodes", 2, 9), 9),
    11: (TETRAHEDRON10, 10),
    12: (Kind("hexahedron of 27 nodes", 3, 27), 27),
    13: (Kind("wedge of 18 nodes", 3, 18), 18),
    14: (Kind("pyramid of 14 nodes", 3, 14), 14),
    15: (VERTEX, 1),
    16: (Kind("quad of 8 nodes", 2, 8), 8),
    17: (Kind("hexahedron of 20 nodes", 3, 20), 20),
    18: (Kind("wedge of 15 nodes", 3, 15), 15),
    19: (Kind("pyramid of 13 nodes", 3, 13), 13),
    20: (Kind("triangle of 9 nodes", 2, 9), 9),
    21: (Kind("triangle of 10 nodes", 2, 10), 10),
    26: (LINE, 4),
    29: (Kind("tetrahedron of 20 nodes", 3, 20), 20),
}
"""Kind and number of nodes by the number that Gmsh gives a type of element."""


def _kind(number: int) -> tuple[Kind, int]:
    if number not in _KINDS:
        raise ValueError(f"elements of type {number} are unknown")
    return _KINDS[number]


class _Text:
    """Numbers of a section in text."""

    def __init__(self, data: bytes):
        self.words, self.at = data.split(), 0

    def take(self, count: int, dtype: str) -> np.ndarray:
        """Return the next numbers as float64 or int64; the type says only whether they are whole."""
        if not 0 <= count <= len(self.words) - self.at:
            raise ValueError(f"{count} numbers are announced, but only {len(self.words) - self.at} are left")
        self.at += count
        return numbers(self.words[self.at - count : self.at], dtype == "f8")

    def table(self, rows: int, whole: str, integers: int, floats: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of integers and then floats."""
        words = self.take(rows * (integers + floats), "f8").reshape(rows, integers + floats)
        return words[:, :integers].astype(np.int64), words[:, integers:]

    def count(self) -> int:
        """Return the count at the head of a section of version 2."""
        return int(self.take(1, "i4")[0])


class _Binary:
    """Numbers of a section in binary."""

    def __init__(self, data: bytes, order: str):
        self.data, self.order, self.at = data, order, 0

    def take(self, count: int, dtype: str) -> np.ndarray:
        kind = np.dtype(self.order + dtype)
        self._check(count, kind)
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += count * kind.itemsize
        return found.astype(np.float64 if kind.kind == "f" else np.int64)

    def table(self, rows: int, whole: str, integers: int, floats: int) -> tuple[np.ndarray, np.ndarray]:
        order = self.order
        kind = np.dtype([("whole", order + whole, (integers,)), ("real", order + "f8", (floats,))])
        self._check(rows, kind)
        found = np.frombuffer(self.data, kind, rows, self.at)
        self.at += rows * kind.itemsize
        return found["whole"].astype(np.int64), found["real"].astype(np.float64)

    def _check(self, count: int, kind: np.dtype) -> None:
        if not 0 <= count <= (len(self.data) - self.at) // kind.itemsize:
            raise ValueError(f"{count} entries are announced, but the section ends earlier")

    def count(self) -> int:
        end = self.data.index(b"\n", self.at)
        found = int(self.data[self.at : end])
        self.at = end + 1
        return found


@dataclass(slots=True, eq=False)
class _Nodes:
    """Points and the numbers that the file gives them."""

    tags: np.ndarray
    points: np.ndarray

    def places(self, tags: np.ndarray) -> np.ndarray:
        """Return the places (m, k) of points with these numbers."""
        order = np.argsort(self.tags, kind="stable")
        ranked = self.tags[order]
        at = np.minimum(np.searchsorted(ranked, tags), len(ranked) - 1) if len(ranked) else tags * 0
        known = ranked[at] == tags if len(ranked) else np.zeros(tags.shape, bool)
        if not known.all():
            raise ValueError(f"an element refers to node {tags[~known][0]}, which does not exist")
        return order[at]


def read_gmsh(data: bytes, path: str) -> CellFile:
    """Read nodes and elements; groups, entities and data are skipped."""
    if not data.lstrip().startswith(b"$"):
        raise ImportFileError(
            "the file does not start with a section such as $MeshFormat; MuJoCo's own .msh format is "
            "different",
            path,
        )
    header = _section(data, "MeshFormat", path)
    version, binary, size = header.split(b"\n", 1)[0].split()[:3]
    if version not in (b"2.2", b"2", b"2.1", b"4.1") or (version == b"4.1" and size != b"8"):
        raise ImportFileError(
            f"version {version.decode('latin-1')} with numbers of {size.decode('latin-1')} bytes is not "
            "supported; save as 2.2 or 4.1",
            path,
            element="MeshFormat",
        )
    order = "<"
    if binary == b"1":
        order = "<" if header.split(b"\n", 1)[1][:4] == b"\x01\x00\x00\x00" else ">"

    def section(name: str) -> _Text | _Binary:
        body = _section(data, name, path)
        return _Binary(body, order) if binary == b"1" else _Text(body)

    readers = (_nodes_4, _elements_4) if version == b"4.1" else (_nodes_2, _elements_2)
    element = "Nodes"
    try:
        nodes = readers[0](section("Nodes"))
        element = "Elements"
        blocks = readers[1](section("Elements"))
        blocks = [CellBlock(kind, nodes.places(tags)) for kind, tags in blocks]
    except (ValueError, IndexError, OverflowError) as error:
        if isinstance(error, ImportFileError):
            raise
        raise ImportFileError(f"cannot be read: {error}", path, element=element) from error
    return CellFile(path, nodes.points, blocks)


def _section(data: bytes, name: str, path: str) -> bytes:
    """Return what stands between $Name and $EndName."""
    start, end = data.find(b"$" + name.encode()), data.rfind(b"$End" + name.encode())
    line = data.find(b"\n", start)
    if start < 0 or end < 0 or not 0 <= line < end:
        raise ImportFileError(f"has no section from ${name} to $End{name}", path, element=name)
    return data[line + 1 : end]


def _nodes_2(source: _Text | _Binary) -> _Nodes:
    tags, points = source.table(source.count(), "i4", 1, 3)
    return _Nodes(tags[:, 0], points)


def _nodes_4(source: _Text | _Binary) -> _Nodes:
    blocks, total, _, _ = source.take(4, "u8").tolist()
    tags, points = [np.zeros(0, np.int64)], [np.zeros((0, 3))]
    for _ in range(blocks):
        check_time()
        dimension, _, parametric = source.take(3, "i4").tolist()
        count = int(source.take(1, "u8")[0])
        tags.append(source.take(count, "u8"))
        width = 3 + (dimension if parametric else 0)
        points.append(source.take(width * count, "f8").reshape(count, width)[:, :3])
    nodes = _Nodes(np.concatenate(tags), np.concatenate(points))
    if len(nodes.tags) != total:
        raise ValueError(f"{total} nodes are announced, but there are {len(nodes.tags)}")
    return nodes


def _elements_2(source: _Text | _Binary) -> list[tuple[Kind, np.ndarray]]:
    count = source.count()
    if isinstance(source, _Binary):
        return _elements_2_binary(source, count)
    rows: dict[tuple[Kind, int], list[int]] = {}
    words = source.take(len(source.words) - source.at, "i4").tolist()
    at = 0
    for place in range(count):
        if place % CHECK_EVERY == 0:
            check_time()
        (kind, size), tags = _kind(words[at + 1]), words[at + 2]
        begin = at + 3 + tags
        at = begin + size
        if tags < 0 or at > len(words):
            raise ValueError(f"an element with {tags} tags goes beyond the section")
        rows.setdefault((kind, size), []).extend(words[begin:at])
    return [(kind, np.array(row, np.int64).reshape(-1, size)) for (kind, size), row in rows.items()]


def _elements_2_binary(source: _Binary, count: int) -> list[tuple[Kind, np.ndarray]]:
    blocks, done = [], 0
    while done < count:
        check_time()
        number, follow, tags = source.take(3, "i4").tolist()
        kind, size = _kind(number)
        if follow < 1 or tags < 0:
            raise ValueError(f"a block has {follow} elements with {tags} tags")
        rows = source.take(follow * (1 + tags + size), "i4").reshape(follow, -1)
        blocks.append((kind, rows[:, 1 + tags :]))
        done += follow
    return blocks


def _elements_4(source: _Text | _Binary) -> list[tuple[Kind, np.ndarray]]:
    count, total, _, _ = source.take(4, "u8").tolist()
    blocks = []
    for _ in range(count):
        check_time()
        kind, size = _kind(int(source.take(3, "i4")[2]))
        rows = int(source.take(1, "u8")[0])
        blocks.append((kind, source.take(rows * (1 + size), "u8").reshape(rows, 1 + size)[:, 1:]))
    if sum(len(tags) for _, tags in blocks) != total:
        raise ValueError(f"{total} elements are announced, but the blocks have a different number")
    return blocks
