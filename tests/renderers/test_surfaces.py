"""Triangles of distance fields and of mirrored meshes."""

import numpy as np
import pytest
import trimesh

from newtonsim import SDF, Mesh
from newtonsim.render.shapes import shape_triangles
from newtonsim.scene.enums import GeoType

BALL = trimesh.creation.icosphere(3, 0.5)


def volume_of(points: np.ndarray, triangles: np.ndarray) -> float:
    a, b, c = points[triangles].transpose(1, 0, 2)
    return float(np.einsum("ij,ij->", np.cross(a, b), c)) / 6.0


def test_field_without_mesh():
    source = SDF.from_mesh(Mesh(BALL.vertices, BALL.faces.reshape(-1)), resolution=24)
    source.finalize("cpu")
    mesh = SDF(source.volume).to_mesh()
    assert mesh.is_closed
    # the inner radius of the polyhedron that the field was sampled from, and the outer
    inner = np.linalg.norm(BALL.triangles_center, axis=1).min()
    radius = np.linalg.norm(mesh.vertices, axis=1)
    assert inner - 1e-3 < radius.min()
    assert radius.max() < 0.5 + 1e-3
    assert volume_of(mesh.vertices, mesh.indices.reshape(-1, 3)) == pytest.approx(BALL.volume, rel=0.01)


@pytest.mark.parametrize("scale", [(1, 1, 1), (1, 2, -0.5), (-1, -1, 1), (-1, -1, -1)])
def test_mirrored_meshes_look_outward(scale):
    mesh = Mesh(BALL.vertices, BALL.faces.reshape(-1))
    found = volume_of(*shape_triangles(GeoType.MESH, np.array(scale, dtype=float), mesh))
    assert found == pytest.approx(BALL.volume * abs(np.prod(scale)), rel=1e-5)
    assert shape_triangles(GeoType.SDF, np.ones(3), SDF()) is None
