"""Tetrahedra inside closed surfaces, and what a TetMesh refuses."""

import os
import re

import numpy as np
import pytest
import trimesh

from newtonsim.errors import ModelError
from newtonsim.geometry import Mesh, TetMesh, tetrahedralize


def surface(mesh: trimesh.Trimesh, name: str | None = None) -> Mesh:
    return Mesh(mesh.vertices, mesh.faces.reshape(-1), compute_inertia=False, name=name)


BOX = trimesh.creation.box((1.0, 2.0, 0.5))


class TestFilling:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("pytetwild")

    @pytest.mark.parametrize("shape", ["ball", "torus"])
    def test_volume_and_boundary(self, shape: str, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        make = {
            "ball": lambda: trimesh.creation.icosphere(3, 0.15),
            "torus": lambda: trimesh.creation.torus(0.5, 0.15),
        }
        solid = make[shape]()
        mesh = tetrahedralize(surface(solid))
        assert mesh.volumes.min() > 0.0
        assert mesh.volume == pytest.approx(solid.volume, rel=0.01)
        assert mesh.surface.is_closed
        x, y, z = mesh.vertices[np.unique(mesh.surface.indices)].T
        middle = np.hypot(x, y) - (0.5 if shape == "torus" else 0.0)
        np.testing.assert_allclose(np.hypot(middle, z), 0.15, atol=0.005)
        assert os.listdir(tmp_path) == []  # the library leaves files where it runs

    def test_shorter_edges(self):
        found = [tetrahedralize(surface(BOX), edge_length=length) for length in (0.2, 0.1)]
        means = [
            np.linalg.norm(np.diff(m.vertices[m.tetrahedra[:, :2]], axis=1), axis=2).mean() for m in found
        ]
        assert 0.1 < means[0] < 0.3
        assert means[0] > 1.4 * means[1]

    def test_two_bodies_in_one_surface(self):
        both = trimesh.util.concatenate([BOX, BOX.copy().apply_translation((3.0, 0.0, 0.0))])
        assert tetrahedralize(surface(both)).volume == pytest.approx(2.0, rel=0.01)


class TestSurfacesThatCannotBeFilled:
    @pytest.mark.parametrize("faces", [BOX.faces[:-1], BOX.faces[:, ::-1]], ids=["open", "inside out"])
    def test_open(self, faces: np.ndarray):
        mesh = Mesh(BOX.vertices, faces.reshape(-1), compute_inertia=False, name="crate")
        with pytest.raises(ModelError, match="mesh 'crate': is open or inside out"):
            tetrahedralize(mesh)

    def test_empty(self):
        with pytest.raises(ModelError, match="no triangles"):
            tetrahedralize(Mesh(BOX.vertices, [], compute_inertia=False))

    @pytest.mark.parametrize("options", [{"edge_length": -1.0}, {"edge_length": 9.0}, {"tolerance": 0.5}])
    def test_arguments(self, options: dict):
        ((name, value),) = options.items()
        with pytest.raises(ModelError, match=f"{name} {value:g}"):
            tetrahedralize(surface(BOX), **options)

    def test_missing_library(self, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ModelError, match=re.escape("pip install 'newtonsim[tetrahedra]'")):
            tetrahedralize(surface(BOX))

    def test_what_the_library_says(self, monkeypatch):
        """Whatever ends the other process becomes an error that says so."""
        pytest.importorskip("pytetwild")
        monkeypatch.setattr("newtonsim.geometry.tetmesh._SCRIPT", "raise ValueError('no luck')")
        with pytest.raises(ModelError, match="no tetrahedral mesh was found: ValueError: no luck"):
            tetrahedralize(surface(BOX))
        monkeypatch.setattr("newtonsim.geometry.tetmesh._SCRIPT", "import os; os.abort()")
        with pytest.raises(ModelError, match="ended with code"):
            tetrahedralize(surface(BOX))


CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


class TestTetMesh:
    def test_inverted_ones_are_turned(self):
        mesh = TetMesh(CORNERS, [[0, 2, 1, 3], [0, 1, 2, 3]])
        np.testing.assert_allclose(mesh.volumes, 1.0 / 6.0)
        assert mesh.tetrahedra.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]

    def test_surface_looks_outwards(self):
        mesh = TetMesh(CORNERS, [0, 2, 1, 3]).surface
        assert mesh.is_closed
        assert len(mesh.indices) == 12

    @pytest.mark.parametrize(
        ("vertices", "tetrahedra", "message"),
        [
            (CORNERS, [], "has no tetrahedra"),
            (CORNERS, [[0, 1, 2, 3], [0, 1, 2, 4]], r"tetrahedron 1 has the corners \[0, 1, 2, 4\]"),
            (CORNERS, [0, 1, 2], "whole number of rows of 4"),
            (CORNERS * [1, np.nan, 1], [0, 1, 2, 3], "vertex 0 is not finite"),
            ([["a", 0, 0]], [0, 0, 0, 0], "vertices are not numbers"),
        ],
    )
    def test_bad_input(self, vertices, tetrahedra, message: str):
        with pytest.raises(ModelError, match=message):
            TetMesh(vertices, tetrahedra)
