"""Mesh files read as parts, against the solids that trimesh writes into them."""

import struct
from pathlib import Path

import numpy as np
import pytest
import trimesh

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.importers.geometry.mesh_files import read_parts

BOX = trimesh.creation.box((1.0, 2.0, 3.0))


def corners(path: Path, **arguments: bool) -> np.ndarray:
    """Corners of all triangles of a file (m, 3, 3)."""
    parts = read_parts(str(path), **arguments)
    return np.concatenate([part.vertices[part.faces] for part in parts])


@pytest.fixture
def stl(tmp_path) -> Path:
    path = tmp_path / "box.stl"
    path.write_bytes(BOX.export(file_type="stl"))
    return path


def twice(text: bytes) -> bytes:
    return text + text


@pytest.mark.parametrize("change", [bytes, bytes.upper, twice])
def test_text_of_stl(tmp_path, change):
    """Words of either case, and several solids one after the other."""
    path = tmp_path / "box.stl"
    path.write_bytes(change(BOX.export(file_type="stl_ascii").encode()))
    read = corners(path)
    np.testing.assert_array_equal(read, np.tile(BOX.triangles, (len(read) // 12, 1, 1)))


def test_equal_corners_of_stl_become_one_point(stl):
    (part,) = read_parts(str(stl))
    assert len(part.vertices) == 8
    np.testing.assert_array_equal(part.vertices[part.faces], BOX.triangles)


def test_binary_stl_that_calls_itself_solid(stl):
    stl.write_bytes(b"solid box".ljust(80) + stl.read_bytes()[80:])
    np.testing.assert_array_equal(corners(stl), BOX.triangles)


def test_a_tolerant_reader_says_what_follows_the_triangles(stl):
    stl.write_bytes(stl.read_bytes() + b"\0\0\0")
    assert read_parts(str(stl)) == []  # neither binary of that length, nor text
    with pytest.warns(UnsupportedElementWarning, match=r"box.stl: 3 bytes after the last triangle"):
        np.testing.assert_array_equal(corners(stl, tolerant=True), BOX.triangles)


def test_a_tolerant_reader_moves_points_that_are_not_finite(stl):
    data = bytearray(stl.read_bytes())
    struct.pack_into("<f", data, 84 + 12, np.inf)
    stl.write_bytes(data)
    assert np.isinf(corners(stl)).sum() == 1
    with pytest.warns(UnsupportedElementWarning, match=r"box.stl: 1 points are not finite"):
        read = corners(stl, tolerant=True)
    assert set(map(tuple, read.reshape(-1, 3))) <= set(map(tuple, BOX.vertices))


def test_a_word_that_is_no_number(tmp_path):
    path = tmp_path / "box.stl"
    path.write_text(BOX.export(file_type="stl_ascii").replace("vertex 0.5", "vertex 0.5m", 1))
    with pytest.raises(ValueError, match=r"0\.5m"):
        read_parts(str(path))


def test_the_unit_of_collada_counts_on_request(tmp_path):
    pytest.importorskip("collada")
    path = tmp_path / "box.dae"
    text = BOX.export(file_type="dae").decode()
    path.write_text(text.replace("</asset>", '<unit name="centimeter" meter="0.01"/></asset>', 1))
    for in_metres, factor in ((False, 1.0), (True, 0.01)):
        size = np.ptp(corners(path, in_metres=in_metres).reshape(-1, 3), axis=0)
        np.testing.assert_allclose(size, factor * BOX.extents, rtol=1e-6)
