"""The file format of recordings: blocks with checksums, and floats packed without loss.

A file is a signature followed by blocks, each with a kind, a checksum and a length before its bytes. Blocks
are only ever appended, so that a file whose writer was killed is valid up to its last whole block. An index
at the end says where chunks of frames are; without it they are found by walking from block to block.

Floats are read as integers, which vary as smoothly as the floats do. Differences of order 0 to 3 along time
leave what a polynomial through the last frames does not predict (Lorenzo prediction: Ibarria et al. 2003,
"Out-of-core compression and decompression of large n-dimensional scalar fields"), and sorting the bytes by
significance gathers the zeros in front for zlib.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from newtonsim.errors import RecordingError
from newtonsim.regular_files import open_regular

VERSION = 1
SIGNATURE = b"\x89NSR\r\n\x1a\n"
HEAD, MODEL, CHUNK, INDEX = b"HEAD", b"MODL", b"CHNK", b"INDX"

_BLOCK = struct.Struct("<4sIQ")  # kind, checksum of the bytes, their number
_CHUNK = struct.Struct("<II")  # frames, fields
_FIELD = struct.Struct("<IQ")  # order of the differences, packed bytes
_END = struct.Struct("<Q8s")  # offset of the index, signature
_LEVEL = 1
_HIGHEST_ORDER = 3


def pack_floats(values: np.ndarray) -> tuple[int, bytes]:
    """Pack frames without losing a bit.

    Args:
        values: Shape (frames, n), float32.

    Returns:
        The order of differences that fits best, and the bytes.
    """
    left = np.ascontiguousarray(values.T).view(np.uint32)
    best = None
    for order in range(min(_HIGHEST_ORDER, len(values) - 1) + 1):
        if order:
            left = np.concatenate([left[:, :order], left[:, order:] - left[:, order - 1 : -1]], axis=1)
        signed = left.view(np.int32)
        folded = ((signed << 1) ^ (signed >> 31)).view(np.uint32)
        size = float(np.log2(folded + 1.0).sum())
        if best is None or size < best[0]:
            best = (size, order, folded)
    _, order, folded = best
    planes = np.ascontiguousarray(folded.reshape(-1).view(np.uint8).reshape(-1, 4).T)
    return order, zlib.compress(planes.data, _LEVEL)


def unpack_floats(order: int, data: bytes, frames: int, width: int) -> np.ndarray:
    """Return the floats that `pack_floats` packed, shape (frames, width), float32."""
    planes = np.frombuffer(zlib.decompress(data), np.uint8).reshape(4, -1)
    folded = np.ascontiguousarray(planes.T).view(np.uint32).reshape(width, frames)
    left = (folded >> 1) ^ (np.uint32(0) - (folded & np.uint32(1)))
    for start in range(order - 1, -1, -1):
        left[:, start:] = np.cumsum(left[:, start:], axis=1, dtype=np.uint32)
    return np.ascontiguousarray(left.T).view(np.float32)


def pack_chunk(times: np.ndarray, fields: list[np.ndarray]) -> bytes:
    """Pack consecutive frames.

    Args:
        times: Shape (frames,), float64 [s].
        fields: Arrays (frames, n), float32.
    """
    packed = [pack_floats(values) for values in fields]
    parts = [_CHUNK.pack(len(times), len(fields)), times.astype("<f8").tobytes()]
    parts += [_FIELD.pack(order, len(data)) for order, data in packed]
    return b"".join(parts + [data for _, data in packed])


def unpack_field(chunk: bytes, number: int, width: int) -> np.ndarray:
    """Return one field of a chunk, shape (frames, width), float32."""
    frames, fields = _CHUNK.unpack_from(chunk)
    heads = _CHUNK.size + 8 * frames
    sizes = [_FIELD.unpack_from(chunk, heads + k * _FIELD.size) for k in range(fields)]
    start = heads + fields * _FIELD.size + sum(size for _, size in sizes[:number])
    order, size = sizes[number]
    return unpack_floats(order, chunk[start : start + size], frames, width)


def write_block(file: BinaryIO, kind: bytes, data: bytes) -> int:
    """Append a block and return where it starts."""
    offset = file.tell()
    file.write(_BLOCK.pack(kind, zlib.crc32(data), len(data)))
    file.write(data)
    file.flush()
    return offset


@dataclass(frozen=True)
class ChunkIndex:
    """Where frames are in a file.

    Attributes:
        offset: Where each chunk starts, shape (chunks,).
        first: First frame of each chunk and the number of frames, shape (chunks + 1,).
        times: Time of each frame [s], shape (frames,).
    """

    offset: np.ndarray
    first: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, chunks: list[tuple[int, np.ndarray]]) -> ChunkIndex:
        """Make one from the places of chunks and the times of their frames."""
        counts = [len(times) for _, times in chunks]
        return cls(
            np.array([offset for offset, _ in chunks], np.int64),
            np.cumsum([0, *counts]).astype(np.int64),
            np.concatenate([np.zeros(0), *(times for _, times in chunks)]),
        )

    def write(self, file: BinaryIO) -> None:
        """Append the index and a pointer to its start."""
        memory = io.BytesIO()
        np.savez_compressed(memory, offset=self.offset, first=self.first, times=self.times)
        offset = write_block(file, INDEX, memory.getvalue())
        file.write(_END.pack(offset, SIGNATURE))
        file.flush()


class BlockReader:
    """Reads the blocks of a file.

    Attributes:
        complete: Whether `index` has found the index that ends a file.

    Args:
        path: The file.

    Raises:
        RecordingError: It is not a recording.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self.complete = False
        self.file = open_regular(self.path)
        try:
            self.size = os.fstat(self.file.fileno()).st_size
            if self.file.read(len(SIGNATURE)) != SIGNATURE:
                raise self.error("is not a recording of newtonsim")
        except BaseException:
            self.file.close()
            raise

    def error(self, what: str) -> RecordingError:
        """Return an exception about the file."""
        return RecordingError(f"{self.path}: {what}")

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def block(self, offset: int, kind: bytes) -> bytes:
        """Return the bytes of the block at a place.

        Raises:
            RecordingError: It is damaged or of another kind.
        """
        if self.file.closed:
            raise self.error("is closed")
        head = self._head(offset)
        if head is None or head[0] != kind:
            raise self.error(f"is damaged: there is no block {kind.decode()} at byte {offset}")
        data = self.file.read(head[2])
        if zlib.crc32(data) != head[1]:
            raise self.error(f"is damaged: the checksum of block {kind.decode()} at byte {offset} is wrong")
        return data

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        """Find kind and place of all whole blocks."""
        offset = len(SIGNATURE)
        while (head := self._head(offset)) is not None:
            yield head[0], offset
            offset += _BLOCK.size + head[2]

    def index(self) -> ChunkIndex:
        """Return the index, rebuilt if the file has none."""
        if self.size >= _END.size:
            self.file.seek(self.size - _END.size)
            offset, end = _END.unpack(self.file.read(_END.size))
            if end == SIGNATURE and offset < self.size:
                with np.load(io.BytesIO(self.block(offset, INDEX)), allow_pickle=False) as arrays:
                    self.complete = True
                    return ChunkIndex(arrays["offset"], arrays["first"], arrays["times"])
        return self._found_index()

    def _found_index(self) -> ChunkIndex:
        """Find the chunks of a file whose writer did not finish."""
        places = [offset for kind, offset in self.blocks() if kind == CHUNK]
        if places:
            try:  # the last one may be long enough and yet not written
                self.block(places[-1], CHUNK)
            except RecordingError:
                places.pop()
        return ChunkIndex.of([(offset, self._times(offset)) for offset in places])

    def _times(self, offset: int) -> np.ndarray:
        """Return the times of a chunk without reading the rest of it."""
        self.file.seek(offset + _BLOCK.size)
        frames, _ = _CHUNK.unpack(self.file.read(_CHUNK.size))
        return np.frombuffer(self.file.read(8 * frames), "<f8").astype(np.float64)

    def _head(self, offset: int) -> tuple[bytes, int, int] | None:
        """Return kind, checksum and length of the block at a place, None if there is no whole one."""
        if offset + _BLOCK.size > self.size:
            return None
        self.file.seek(offset)
        kind, checksum, length = _BLOCK.unpack(self.file.read(_BLOCK.size))
        whole = kind in (HEAD, MODEL, CHUNK, INDEX) and offset + _BLOCK.size + length <= self.size
        return (kind, checksum, length) if whole else None
