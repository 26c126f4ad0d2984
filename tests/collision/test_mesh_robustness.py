"""Broken and unusual meshes: what is refused, and that the rest collides as if nothing were wrong."""

import sys

import numpy as np
import pytest
from collision.harness import IDENTITY, pose
from collision.surfaces_lab import SurfaceLab, box_mesh, concatenated, floor_mesh
from collision.test_mesh_contacts import SOLIDS, bumpy_ball

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.geometry import Heightfield, Mesh
from newtonsim.geometry.edges import edge_table
from newtonsim.geometry.surfaces import pack_surfaces
from newtonsim.kernels.collision.families.mesh import collide_mesh
from newtonsim.kernels.collision.pairs.manifolds import FAMILY_MESH
from newtonsim.kernels.collision.surfaces.triangle_surface import ROLE_SHEET, ROLE_SOLID, ROLE_TERRAIN


def contacts(mesh: Mesh, device: str, X=None, kind: str = "box"):
    """Contacts of a solid with a mesh."""
    X = pose((0.1, 0.058, 0.2), angle=0.3) if X is None else X
    return SurfaceLab(collide_mesh, FAMILY_MESH, SOLIDS[kind], mesh, device).collide(X, IDENTITY, 0.01)[0]


def soup(mesh: Mesh) -> Mesh:
    """The same triangles, each with its own vertices."""
    triangles = mesh.vertices[mesh.indices]
    return Mesh(triangles, np.arange(len(triangles)), compute_inertia=False)


@pytest.mark.parametrize(
    ("vertices", "indices", "words"),
    [
        ([(0, 0, 0), (1, 0, np.nan), (0, 1, 0)], [0, 1, 2], "'rock'.*vertex 1.*not finite"),
        ([(0, 0, 0), (1, 0, 1e39), (0, 1, 0)], [0, 1, 2], "'rock'.*not finite"),
        ([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [0, 1, 3], "'rock'.*index"),
        ([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [0, 1, -1], "'rock'.*index"),
        ([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [0, 1], "'rock'.*triples"),
        ([(0, 0), (1, 0)], [0, 1, 2], "'rock'.*triples"),
        ("stone", [0, 1, 2], "'rock'.*numbers"),
    ],
)
def test_what_cannot_be_a_mesh_is_refused_by_name(vertices, indices, words):
    with pytest.raises(ModelError, match=words):
        Mesh(vertices, indices, name="rock")


def test_empty_mesh_is_refused_when_it_is_used(device):
    with pytest.raises(ModelError, match="'rock': has no triangles"):
        Mesh(np.zeros((0, 3)), [], name="rock").finalize(device)
    builder = newtonsim.ModelBuilder()
    builder.add_shape_mesh(-1, mesh=Mesh([(0, 0, 0)], []))
    with pytest.raises(ModelError, match="no triangles"):
        builder.finalize(device)


def test_vertices_that_no_triangle_uses_do_not_count(device):
    floor = floor_mesh(4, 2.0)
    vertices = np.concatenate([[(0.0, 9.0, 0.0)], floor.vertices, [(50.0, 60.0, 70.0)]])
    mesh = Mesh(vertices, floor.indices + 1, compute_inertia=False)
    np.testing.assert_allclose(mesh.bounds()[0], [-1.0, 0.0, -1.0])
    np.testing.assert_allclose(mesh.bounds()[1], [1.0, 0.0, 1.0])
    mesh.finalize(device)
    assert len(mesh.mesh.points) == len(floor.vertices)
    m, plain = contacts(mesh, device), contacts(floor, device)
    np.testing.assert_allclose(m.point, plain.point, atol=1e-6)


def test_duplicate_vertices_leave_the_floor_flat(device):
    """A soup of triangles has the same inner edges as the welded mesh."""
    for kind in ("box", "sphere", "cylinder"):
        floor = floor_mesh(6, 2.0)
        X = np.repeat(pose((0.0, 0.055, 0.0))[None], 100, axis=0)
        X[:, 0] = np.linspace(-0.4, 0.4, 100)
        lab = SurfaceLab(collide_mesh, FAMILY_MESH, SOLIDS[kind], soup(floor), device)
        for m in lab.collide(X, IDENTITY, 0.01):
            np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-6)


def test_triangles_without_area_do_not_collide(device):
    floor = floor_mesh(4, 2.0)
    top = len(floor.vertices)
    vertices = np.concatenate([floor.vertices, [(0.1, 0.5, 0.2), (0.1, 0.6, 0.2), (0.1, 0.7, 0.2)]])
    flat = [[top, top + 1, top + 2], [0, 0, top], [3, 3, 3], [top, top, top + 1]]
    mesh = Mesh(vertices, np.concatenate([floor.indices.reshape(-1, 3), flat]), compute_inertia=False)
    m, plain = contacts(mesh, device), contacts(floor, device)
    np.testing.assert_allclose(m.point, plain.point, atol=1e-6)
    only = Mesh(vertices, flat, compute_inertia=False)
    assert len(contacts(only, device, pose((0.1, 0.6, 0.2)))) == 0


def test_flat_mesh_and_mesh_of_no_extent(device):
    """A mesh whose scale or shape leaves no volume is touched as the sheet it is, or not at all."""
    sheet = box_mesh(1.0, 0.0, 1.0)
    assert not sheet.is_closed
    assert sheet.mass == 0.0
    m = contacts(sheet, device)
    np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-5)
    np.testing.assert_allclose(m.distance, -0.002, atol=1e-5)
    lab = SurfaceLab(collide_mesh, FAMILY_MESH, SOLIDS["box"], bumpy_ball(), device, scale_b=(1.0, 0.0, 1.0))
    assert len(lab.collide(IDENTITY, IDENTITY, 0.1)[0]) == 0


def test_inside_out_mesh_is_touched_from_the_side_one_is_on(device):
    crate = box_mesh(0.5, 0.5, 0.5)
    turned = Mesh(crate.vertices, crate.indices.reshape(-1, 3)[:, ::-1])
    assert crate.is_closed
    assert not turned.is_closed
    outside = contacts(turned, device, pose((0.1, 0.558, 0.2)))
    inside = contacts(turned, device, pose((0.1, -0.442, 0.2)))
    for m in (outside, inside):
        np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-5)
        np.testing.assert_allclose(m.distance, -0.002, atol=1e-5)


def test_triangles_wound_at_random(device):
    """A floor whose triangles look up or down at random is a flat sheet all the same."""
    floor = floor_mesh(8, 2.0)
    triangles = floor.indices.reshape(-1, 3).copy()
    turned = np.random.default_rng(0).random(len(triangles)) < 0.5
    triangles[turned] = triangles[turned][:, ::-1]
    for kind in ("box", "sphere"):
        X = pose((0.1, 0.058 if kind == "box" else 0.098, 0.2), angle=0.3)
        m = contacts(Mesh(floor.vertices, triangles, compute_inertia=False), device, X, kind)
        np.testing.assert_allclose(m.normal, np.broadcast_to([0.0, 1.0, 0.0], m.normal.shape), atol=1e-6)
        np.testing.assert_allclose(m.distance, -0.002, atol=1e-6)


def test_closed_means_closed():
    ball = bumpy_ball()
    assert ball.is_closed
    assert soup(ball).is_closed
    assert concatenated([ball, box_mesh(1, 1, 1)]).is_closed
    assert not Mesh(ball.vertices, ball.indices[:-3]).is_closed
    assert not Mesh(ball.vertices, np.concatenate([ball.indices, ball.indices[:3]])).is_closed
    assert not floor_mesh(3, 1.0).is_closed
    # two faces back to back hold no volume
    assert not Mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [0, 1, 2, 0, 2, 1]).is_closed


def test_edges_of_a_box():
    """Each of the twelve edges and eight corners of a box belongs to one triangle, the diagonals to none."""
    for mesh in (box_mesh(1, 2, 3), soup(box_mesh(1, 2, 3))):
        opposite, owned = edge_table(*mesh.surface, both_sides=False)
        assert np.all(opposite >= 0)
        bits = (owned[:, None] >> np.arange(6)) & 1
        assert bits[:, :3].sum() == 8
        assert bits[:, 3:].sum() == 12


def test_valley_and_border_edges():
    """A folded sheet of two triangles: the fold is a valley from above, a ridge only if both sides count."""
    fold = np.array([(0, 0, 0), (0, 0, 1), (1, 1, 0), (-1, 1, 0)], np.float32)
    triangles = np.array([[0, 1, 2], [1, 0, 3]], np.int32)
    for both, edges in ((False, 4), (True, 5)):
        opposite, owned = edge_table(fold, triangles, both)
        np.testing.assert_array_equal(opposite, [[3, -1, -1], [2, -1, -1]])
        assert ((owned[:, None] >> np.array([3, 4, 5])) & 1).sum() == edges


def test_three_triangles_at_an_edge_continue_flat():
    """Of a wall that stands on a floor, the floor's triangles are each other's neighbours."""
    vertices = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 0), (-1, 0, 0), (0, 1, 0)], np.float32)
    opposite, _ = edge_table(vertices, np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]], np.int32), True)
    assert opposite[0, 0] == 3
    assert opposite[1, 0] == 2


def test_roles_and_shared_sources(device):
    ball, floor, field = bumpy_ball(), floor_mesh(2, 1.0), Heightfield(np.zeros((3, 3)))
    view = pack_surfaces([ball, None, floor, field, ball], device)
    roles = [int(r) for r in (ROLE_SOLID, ROLE_SHEET, ROLE_SHEET, ROLE_TERRAIN, ROLE_SOLID)]
    assert view.role.numpy().tolist() == roles
    count = len(ball.indices) // 3
    assert view.triangle_start.numpy().tolist() == [0, -1, count, count + 8, 0]
    assert len(view.owned) == count + 16


def test_decomposition():
    """A ring becomes convex parts of about its volume; without the library the error names the extra."""
    pytest.importorskip("coacd")
    import trimesh

    ring = trimesh.creation.annulus(0.3, 0.5, 0.2)
    mesh = Mesh(ring.vertices, ring.faces, name="ring")
    parts = mesh.convex_decomposition(concavity=0.1)
    assert 4 <= len(parts) <= 32
    assert sum(p.mass for p in parts) == pytest.approx(mesh.mass, rel=0.15)
    assert all(p.is_closed for p in parts)
    assert parts[0].name == "ring, part 0"
    hole = np.zeros(3)
    for part in parts:
        corners = part.vertices[part.indices.reshape(-1, 3)].astype(np.float64)
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        assert np.any(np.einsum("ij,ij->i", normals, hole - corners[:, 0]) > 0.0)


def test_what_is_convex_is_not_taken_apart():
    """However fine: CoACD would search for a minute."""
    pytest.importorskip("coacd")
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=5)
    (part,) = Mesh(ball.vertices, ball.faces, name="ball").convex_decomposition()
    assert part.is_closed
    assert part.mass == pytest.approx(ball.volume, rel=1e-3)


def test_decomposition_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "coacd", None)
    with pytest.raises(ModelError, match=r"newtonsim\[decompose\]"):
        box_mesh(1, 1, 1).convex_decomposition()
