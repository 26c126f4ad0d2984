"""VTU files: unstructured grids in XML, their arrays as text, in base64 or as raw bytes at the end.

The VTK User's Guide, "VTK File Formats", XML formats.
"""

from __future__ import annotations

import base64
import lzma
import re
import zlib
from dataclasses import dataclass

import numpy as np

from newtonsim.importers.files.limits import limits
from newtonsim.importers.files.xml import Node, parse_xml
from newtonsim.importers.soft_meshes.cells import CellFile, numbers, ragged_blocks
from newtonsim.importers.soft_meshes.vtk import kind_of

_TYPES = {
    f"{word}{bits}": f"{letter}{bits // 8}"
    for word, letter in (("Int", "i"), ("UInt", "u"), ("Float", "f"))
    for bits in (8, 16, 32, 64)
    if word != "Float" or bits > 16
}
_DECOMPRESSORS = {
    "vtkZLibDataCompressor": zlib.decompressobj,
    "vtkLZMADataCompressor": lzma.LZMADecompressor,
}
_PIECE = re.compile(rb"[^=]+=*")


@dataclass(frozen=True, slots=True)
class _Arrays:
    """How arrays of a file are written.

    Attributes:
        order: "<" or ">".
        header: Type of the numbers before an array.
        compressor: Name, or None.
        appended: What stands after the underscore of the AppendedData.
        is_raw: Whether that is raw bytes, not base64.
    """

    order: str
    header: np.dtype
    compressor: str | None
    appended: bytes
    is_raw: bool

    def read(self, node: Node) -> np.ndarray:
        """Return the numbers of a DataArray as float64 or int64."""
        kind = _TYPES.get(node.required("type"))
        if kind is None:
            raise node.error(f"type {node.text_of('type')!r} is unknown")
        dtype, form = np.dtype(self.order + kind), node.text_of("format", "ascii")
        wide = np.float64 if dtype.kind == "f" else np.int64
        try:
            if form == "ascii":
                return numbers(node.text.split(), dtype.kind == "f")
            if form == "binary":
                return np.frombuffer(self._unpack(_from_base64(node.text.encode())), dtype).astype(wide)
            if form != "appended":
                raise ValueError(f"format {form!r} is unknown")
            data = self.appended[int(node.required("offset")) :]
            return np.frombuffer(self._unpack(data if self.is_raw else _from_base64(data)), dtype).astype(
                wide
            )
        except (ValueError, zlib.error, lzma.LZMAError, EOFError) as error:
            raise node.error(f"the array cannot be read: {error}") from error

    def _unpack(self, data: bytes) -> bytes:
        """Return the bytes of an array from a header and blocks."""
        width = self.header.itemsize
        if self.compressor is None:
            size = int(np.frombuffer(data, self.header, 1)[0])
            if len(data) < width + size:
                raise ValueError(f"{size} bytes are announced, but there are {len(data) - width}")
            return data[width : width + size]
        count, size, last = np.frombuffer(data, self.header, 3).tolist()
        if count * size > limits.mesh_bytes:
            raise ValueError(f"{count} blocks of {size} bytes are more than the limit of {limits.mesh_bytes}")
        packed = np.frombuffer(data, self.header, count, 3 * width).tolist() if count else []
        at, blocks = (3 + count) * width, []
        for k, length in enumerate(packed):
            whole = last if k == count - 1 and last else size
            blocks.append(_decompress(self.compressor, data[at : at + length], whole))
            at += length
        return b"".join(blocks)


def _decompress(compressor: str, data: bytes, size: int) -> bytes:
    if compressor not in _DECOMPRESSORS:
        raise ValueError(f"compressor {compressor!r} is not one of {', '.join(_DECOMPRESSORS)}")
    found = _DECOMPRESSORS[compressor]().decompress(data, size)
    if len(found) != size:
        raise ValueError(f"a block has {len(found)} bytes, not {size}")
    return found


def _from_base64(text: bytes) -> bytes:
    """Decode texts that stand one after the other, each with padding of its own."""
    return b"".join(
        base64.b64decode(piece, validate=True) for piece in _PIECE.findall(b"".join(text.split()))
    )


def read_vtu(data: bytes, path: str) -> CellFile:
    """Read points and cells of all pieces; data of points and cells are skipped."""
    appended, is_raw, start = b"", False, data.find(b"<AppendedData")
    if start >= 0:
        mark, end = data.find(b"_", data.find(b">", start)), data.rfind(b"</AppendedData>")
        is_raw = b"raw" in data[start : data.find(b">", start)]
        appended = data[mark + 1 : end]
        data = data[:start] + b"</VTKFile>"
    root, _ = parse_xml(data, path)
    if root.tag != "VTKFile" or root.text_of("type") != "UnstructuredGrid":
        raise root.error("is not a VTKFile of type UnstructuredGrid")
    header = {"UInt32": "u4", "UInt64": "u8"}.get(root.text_of("header_type", "UInt32"))
    if header is None:
        raise root.error(f"header_type {root.text_of('header_type')!r} is not UInt32 or UInt64")
    order = ">" if root.text_of("byte_order") == "BigEndian" else "<"
    compressor = root.text_of("compressor") or None
    arrays = _Arrays(order, np.dtype(order + header), compressor, appended, is_raw)
    points, blocks, before = [np.zeros((0, 3))], [], 0
    for piece in (node for node in root.walk() if node.tag == "Piece"):
        piece.check_time()
        points.append(arrays.read(_array(piece, "Points", None)).astype(np.float64).reshape(-1, 3))
        offsets, nodes, types = (
            arrays.read(_array(piece, "Cells", name)).astype(np.int64)
            for name in ("offsets", "connectivity", "types")
        )
        kinds = [kind_of(number) for number in types.tolist()]
        blocks += ragged_blocks(kinds, np.append(0, offsets), nodes + before)
        before += len(points[-1])
    return CellFile(path, np.concatenate(points), blocks)


def _array(piece: Node, group: str, name: str | None) -> Node:
    parent = piece.find(group)
    for node in parent.findall("DataArray") if parent is not None else []:
        if name is None or node.text_of("Name") == name:
            return node
    raise piece.error(f"has no {group}{'' if name is None else ' ' + name}")
