"""Legacy VTK files, text and binary, version 2 to 5: unstructured grids and polygons.

The VTK User's Guide, "VTK File Formats"; version 5 writes offsets and connectivity instead of counted rows.
"""

from __future__ import annotations

import functools

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.clock import CHECK_EVERY, check_time
from newtonsim.importers.soft_meshes.cells import (
    LINE,
    PIXEL,
    POLYGON,
    QUAD,
    STRIP,
    TETRAHEDRON,
    TETRAHEDRON10,
    TRIANGLE,
    TRIANGLE6,
    VERTEX,
    CellFile,
    Kind,
    numbers,
    ragged_blocks,
)

KINDS = {
    1: VERTEX,
    2: VERTEX,
    3: LINE,
    4: LINE,
    5: TRIANGLE,
    6: STRIP,
    7: POLYGON,
    8: PIXEL,
    9: QUAD,
    10: TETRAHEDRON,
    11: Kind("voxel", 3, 8),
    12: Kind("hexahedron", 3, 8),
    13: Kind("wedge", 3, 6),
    14: Kind("pyramid", 3, 5),
    21: LINE,
    22: TRIANGLE6,
    23: Kind("quad of 8 nodes", 2, 8),
    24: TETRAHEDRON10,
    25: Kind("hexahedron of 20 nodes", 3, 20),
    26: Kind("wedge of 15 nodes", 3, 15),
    27: Kind("pyramid of 13 nodes", 3, 13),
    42: Kind("polyhedron", 3, None),
}
"""Kinds by the number that VTK gives them."""

_SECTIONS = {"VERTICES": VERTEX, "LINES": LINE, "POLYGONS": POLYGON, "TRIANGLE_STRIPS": STRIP}
_TYPES = {
    "unsigned_char": "u1",
    "char": "i1",
    "unsigned_short": "u2",
    "short": "i2",
    "unsigned_int": "u4",
    "int": "i4",
    "unsigned_long": "u8",
    "long": "i8",
    "float": "f4",
    "double": "f8",
    "vtkidtype": "i8",
    "vtktypeint64": "i8",
    "vtktypeint32": "i4",
}


@functools.cache
def kind_of(number: int) -> Kind:
    """Return the kind with a number of VTK."""
    return KINDS.get(number) or Kind(f"cell of VTK type {number}", 3, None)


class _Text:
    """Words of a text file."""

    def __init__(self, data: bytes):
        self.words, self.at = data.split(), 0

    def word(self) -> str | None:
        if self.at >= len(self.words):
            return None
        self.at += 1
        return self.words[self.at - 1].decode("latin-1")

    def numbers(self, count: int, kind: str) -> np.ndarray:
        if not 0 <= count <= len(self.words) - self.at:
            raise ValueError(
                f"{count} numbers are announced, but only {len(self.words) - self.at} words are left"
            )
        self.at += count
        return numbers(self.words[self.at - count : self.at], _TYPES[kind][0] == "f")

    def skip_metadata(self) -> None:
        while self.at < len(self.words) and self.words[self.at] not in _AFTER_METADATA:
            self.at += 1


class _Binary:
    """Words and big-endian numbers of a binary file."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def word(self) -> str | None:
        while self.at < len(self.data) and self.data[self.at : self.at + 1].isspace():
            self.at += 1
        start = self.at
        while self.at < len(self.data) and not self.data[self.at : self.at + 1].isspace():
            self.at += 1
        return self.data[start : self.at].decode("latin-1") or None

    def numbers(self, count: int, kind: str) -> np.ndarray:
        dtype = np.dtype(">" + _TYPES[kind])
        start = self.data.find(b"\n", self.at) + 1  # numbers begin in a line of their own
        if start == 0 or not 0 <= count <= (len(self.data) - start) // dtype.itemsize:
            raise ValueError(f"{count} numbers of type {kind} are announced, but the file ends earlier")
        self.at = start + count * dtype.itemsize
        found = np.frombuffer(self.data, dtype, count, start)
        return found.astype(np.float64 if dtype.kind == "f" else np.int64)

    def skip_metadata(self) -> None:
        end = self.data.find(b"\n\n", self.at)
        self.at = len(self.data) if end < 0 else end + 2


_AFTER_METADATA = {b"CELLS", b"CELL_TYPES", b"CELL_DATA", b"POINT_DATA", b"FIELD"} | {
    name.encode() for name in _SECTIONS
}


def read_vtk(data: bytes, path: str) -> CellFile:
    """Read points and cells; data of points and cells are skipped."""
    head = data[:1024].replace(b"\r\n", b"\n").split(b"\n", 3)
    if len(head) < 4 or not head[0].lower().startswith(b"# vtk datafile version"):
        raise ImportFileError("the file does not start with '# vtk DataFile Version'", path, 1)
    form = head[2].strip().upper()
    if form not in (b"ASCII", b"BINARY"):
        raise ImportFileError(f"the third line is {form[:20]!r}, not ASCII or BINARY", path, 3)
    version = int(head[0].split()[-1].split(b".")[0])
    body = data.split(b"\n", 3)[3]
    source = _Text(body) if form == b"ASCII" else _Binary(body)
    return _read_sections(source, version, path)


def _read_sections(source: _Text | _Binary, version: int, path: str) -> CellFile:
    points, blocks = np.zeros((0, 3)), []
    cells: tuple[np.ndarray, np.ndarray] | None = None
    while (word := source.word()) is not None:
        check_time(path)
        name = word.upper()
        if name == "DATASET":
            kind = source.word()
            if kind not in ("UNSTRUCTURED_GRID", "POLYDATA"):
                raise ImportFileError(
                    f"is {kind}, not UNSTRUCTURED_GRID or POLYDATA", path, element="DATASET"
                )
        elif name == "POINTS":
            count = int(source.word() or "")
            points = source.numbers(3 * count, (source.word() or "").lower()).reshape(-1, 3)
        elif name == "CELLS":
            cells = _rows(source, version)
        elif name == "CELL_TYPES":
            types = source.numbers(int(source.word() or ""), "int").tolist()
            if cells is None:
                raise ValueError("CELL_TYPES come before CELLS")
            blocks += ragged_blocks([kind_of(number) for number in types], *cells)
        elif name in _SECTIONS:
            offsets, nodes = _rows(source, version)
            blocks += ragged_blocks([_SECTIONS[name]] * (len(offsets) - 1), offsets, nodes)
        elif name == "METADATA":
            source.skip_metadata()
        elif name == "FIELD":
            _skip_field(source)
        elif name in ("POINT_DATA", "CELL_DATA"):
            break
        else:
            raise ValueError(f"unknown section {word[:40]!r}")
    if cells is not None and not blocks and len(cells[0]) > 1:
        raise ValueError("CELLS without CELL_TYPES")
    return CellFile(path, points.astype(np.float64), blocks)


def _rows(source: _Text | _Binary, version: int) -> tuple[np.ndarray, np.ndarray]:
    """Read where each cell begins in the row of nodes (m + 1,), and the nodes."""
    count, size = int(source.word() or ""), int(source.word() or "")
    if version >= 5:
        found = []
        for expected, length in (("OFFSETS", count), ("CONNECTIVITY", size)):
            word = source.word()
            if word != expected:
                raise ValueError(f"expected {expected}, got {word!r}")
            found.append(source.numbers(length, (source.word() or "").lower()))
        return (found[0] if count else np.zeros(1, np.int64)), found[1]
    row = source.numbers(size, "int")
    starts, place = np.empty(count, np.int64), 0
    lengths = row.tolist()
    for k in range(count):
        if k % CHECK_EVERY == 0:
            check_time()
        starts[k] = place
        if lengths[place] < 0:
            raise ValueError(f"cell {k} has {lengths[place]} nodes")
        place += 1 + lengths[place]
    if place != size:
        raise ValueError(f"the nodes of {count} cells take {place} numbers, not {size}")
    offsets = np.append(starts, size) - np.arange(count + 1)
    return offsets, np.delete(row, starts)


def _skip_field(source: _Text | _Binary) -> None:
    source.word()
    for _ in range(int(source.word() or "")):
        source.word()
        width, count = int(source.word() or ""), int(source.word() or "")
        kind = (source.word() or "").lower()
        if kind == "string":
            raise ValueError("a field of strings cannot be skipped")
        source.numbers(width * count, kind)
