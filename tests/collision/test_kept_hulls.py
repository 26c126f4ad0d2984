"""Hulls of meshes are made once for all programs, and are the same from a file."""

import pathlib

import numpy as np
import pytest
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.geometry import Mesh, kept_hulls
from newtonsim.geometry.hull import ConvexHull


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    return tmp_path


def ball(count: int) -> np.ndarray:
    points = np.random.default_rng(1).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


SHAPES = {
    "ball": ball(200),
    "cube": np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T * 1.0,
    "square": np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]]),
    "segment": np.array([[0, 0, 0], [1, 0, 0], [0.5, 0, 0.0]]),
    "point": np.zeros((1, 3)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_hull_is_kept_as_it_is(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str):
    made = ConvexHull(SHAPES[name])
    kept_hulls.convex_hull(SHAPES[name])
    (file,) = (cache / "newtonsim_hulls").iterdir()
    assert file.suffix == ".npz"
    monkeypatch.setattr(ConvexHull, "__init__", lambda *_: pytest.fail("made again"))
    kept = kept_hulls.convex_hull(SHAPES[name])
    np.testing.assert_array_equal(kept.vertices, made.vertices)
    np.testing.assert_array_equal(kept.normals, made.normals)
    for mine, theirs in ((kept.faces, made.faces), (kept.neighbors, made.neighbors)):
        assert [(part.dtype, part.tolist()) for part in mine] == [(p.dtype, p.tolist()) for p in theirs]


def test_other_points_have_another_hull(cache: pathlib.Path):
    assert np.ptp(kept_hulls.convex_hull(SHAPES["cube"]).vertices) == 1.0
    assert np.ptp(kept_hulls.convex_hull(2.0 * SHAPES["cube"]).vertices) == 2.0


def test_a_changed_algorithm_makes_hulls_anew(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    before = kept_hulls._path(SHAPES["cube"], 64)
    monkeypatch.setattr(kept_hulls, "_source", lambda: b"another")
    assert kept_hulls._path(SHAPES["cube"], 64) != before


def test_a_broken_file_and_a_folder_that_is_none_do_no_harm(cache: pathlib.Path):
    kept_hulls.convex_hull(SHAPES["cube"])
    (file,) = (cache / "newtonsim_hulls").iterdir()
    for content in (b"", b"PK\x03\x04", b"no hull"):
        file.write_bytes(content)
        assert len(kept_hulls.convex_hull(SHAPES["cube"]).vertices) == 8
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("")
    assert len(kept_hulls.convex_hull(SHAPES["cube"]).vertices) == 8


def test_what_is_no_hull_is_refused_as_before(cache: pathlib.Path):
    with pytest.raises(ModelError, match="no points"):
        kept_hulls.convex_hull(np.zeros((0, 3)))
    assert not (cache / "newtonsim_hulls").exists()


def test_hulls_have_as_many_vertices_as_their_mesh_allows(cache: pathlib.Path):
    points = np.random.default_rng(0).normal(size=(400, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    triangles = np.arange(399).reshape(-1, 3)
    counts = [
        len(Mesh(points, triangles, False, **given).convex_hull().vertices)
        for given in ({}, {"max_hull_vertices": 1000}, {"max_hull_vertices": 20}, {})
    ]
    assert counts == [64, 399, 20, 64]
