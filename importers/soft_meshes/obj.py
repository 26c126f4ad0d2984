"""Wavefront OBJ: points, and faces as polygons."""

from __future__ import annotations

import numpy as np

from newtonsim.errors import ImportFileError
from newtonsim.importers.files.clock import CHECK_EVERY, check_time
from newtonsim.importers.soft_meshes.cells import LINE, POLYGON, VERTEX, CellFile, Kind, ragged_blocks

_ELEMENTS = {"f": POLYGON, "l": LINE, "p": VERTEX}


def read_obj(data: bytes, path: str) -> CellFile:
    """Read points and faces; seams of texture coordinates do not divide points."""
    points: list[list[float]] = []
    kinds: list[Kind] = []
    offsets, nodes = [0], []
    for number, words in _lines(data):
        if number % CHECK_EVERY == 0:
            check_time(path, number)
        try:
            if words[0] == "v":
                points.append([float(words[k]) for k in (1, 2, 3)])
            elif words[0] in _ELEMENTS:
                nodes += [_place(word, len(points)) for word in words[1:]]
                if len(nodes) - offsets[-1] < (3 if words[0] == "f" else 1):
                    raise ValueError("has too few corners")
                offsets.append(len(nodes))
                kinds.append(_ELEMENTS[words[0]])
        except (ValueError, IndexError) as error:
            text = " ".join(words)[:80]
            raise ImportFileError(f"{text!r} cannot be read: {error}", path, number, words[0]) from error
    blocks = ragged_blocks(kinds, np.array(offsets), np.array(nodes, np.int64))
    return CellFile(path, np.array(points, np.float64).reshape(-1, 3), blocks)


def _lines(data: bytes):
    """Yield the number and the words of each line; one that ends in a backslash goes on in the next."""
    pending: list[str] = []
    for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
        line = line.split("#", 1)[0].rstrip()
        if line.endswith("\\"):
            pending += line[:-1].split()
            continue
        words = pending + line.split()
        pending = []
        if words:
            yield number, words


def _place(word: str, count: int) -> int:
    """Return the point that a corner such as `3/1/2` or `-1` names, from 0."""
    index = int(word.split("/", 1)[0])
    if index == 0 or index < -count:
        raise ValueError(f"point {index} does not exist")
    return index - 1 if index > 0 else count + index
