"""Particles, cloth and soft bodies: rest shapes, masses, topology."""

import math

import numpy as np
import pytest

from newtonsim import ModelBuilder, ModelError
from newtonsim.builder.grids import surface_triangles, unique_edges

ROT = (0.18257419, 0.36514837, 0.54772256, 0.73029674)


def positions(builder: ModelBuilder) -> np.ndarray:
    return np.array(builder.particle_q, np.float64)


def cloth(**options) -> ModelBuilder:
    builder = ModelBuilder()
    builder.add_particle((9, 9, 9), (0, 0, 0), 1.0)  # shifts all indices
    builder.add_cloth_grid((1, 2, 3), ROT, (0, 0, 1), 4, 3, 0.2, 0.5, 0.1, **options)
    return builder


def test_cloth_grid_covers_its_rectangle():
    builder = cloth()
    assert builder.particle_count == 1 + 5 * 4
    assert builder.tri_count == 2 * 4 * 3
    assert sum(builder.tri_areas) == pytest.approx(4 * 0.2 * 3 * 0.5, rel=1e-5)
    # Euler's formula of a disc: V - E + F = 1
    assert (builder.particle_count - 1) - builder.edge_count + builder.tri_count == 1
    np.testing.assert_allclose(builder.edge_rest_angle, 0.0, atol=1e-4)
    corner = positions(builder)[1]
    np.testing.assert_allclose(corner, (1, 2, 3), atol=1e-6)


def test_triangle_rest_pose_reproduces_the_rest_shape():
    """The deformation gradient of the undeformed cloth has the singular values of an isometry."""
    builder = cloth()
    x = positions(builder)
    for (i, j, k), pose in zip(builder.tri_indices, builder.tri_poses):
        gradient = np.stack([x[j] - x[i], x[k] - x[i]], axis=1) @ np.array(pose, float).reshape(2, 2)
        np.testing.assert_allclose(np.linalg.svd(gradient, compute_uv=False), 1.0, atol=1e-4)


def test_winding_can_be_reversed():
    normals = []
    for reverse in (False, True):
        builder = ModelBuilder()
        builder.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 2, 2, 1.0, 1.0, 1.0, reverse_winding=reverse)
        x, tri = positions(builder), np.array(builder.tri_indices)
        normals.append(np.cross(x[tri[:, 1]] - x[tri[:, 0]], x[tri[:, 2]] - x[tri[:, 0]]))
    assert np.all(normals[0][:, 2] > 0)
    assert np.all(normals[1][:, 2] < 0)


@pytest.mark.parametrize(
    ("side", "axis", "value"), [("left", 0, 0), ("right", 0, 4), ("bottom", 1, 0), ("top", 1, 3)]
)
def test_cloth_edges_can_be_held(side, axis, value):
    builder = ModelBuilder()
    builder.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 4, 3, 1.0, 1.0, 0.5, **{f"fix_{side}": True})
    held = np.array(builder.particle_mass) == 0.0
    np.testing.assert_array_equal(held, positions(builder)[:, axis] == value)


def test_springs_run_along_all_edges_and_across_inner_ones():
    builder = cloth(add_springs=True, spring_ke=5.0)
    inner = sum(edge[1] >= 0 for edge in builder.edge_indices)
    assert builder.spring_count == builder.edge_count + inner
    pairs = {tuple(sorted(p)) for p in np.array(builder.spring_indices).reshape(-1, 2).tolist()}
    assert len(pairs) == builder.spring_count
    assert set(builder.spring_stiffness) == {5.0}


def test_cloth_mesh_has_the_mass_of_its_area():
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2, radius=0.5)
    faces, edges = [], []
    builder = ModelBuilder()
    builder.add_cloth_mesh(
        (0, 1, 0), ROT, 2.0, (0, 0, 0), ball.vertices, ball.faces.reshape(-1), 0.3,
        face_callback=lambda *f: faces.append(f), edge_callback=lambda *e: edges.append(e), tri_ke=7.0,
    )  # fmt: skip
    assert sum(builder.particle_mass) == pytest.approx(0.3 * 4.0 * ball.area)
    assert sum(builder.tri_areas) == pytest.approx(4.0 * ball.area, rel=1e-5)
    assert builder.edge_count == len(ball.edges_unique)
    assert (len(faces), len(edges)) == (builder.tri_count, builder.edge_count)
    assert builder.tri_materials[0][0] == 7.0
    # a convex surface folds the same way at every edge
    assert min(builder.edge_rest_angle) * max(builder.edge_rest_angle) > 0.0


def test_bending_angle_is_that_between_the_planes():
    for angle in (0.0, 0.3, -0.7, 2.0):
        builder = ModelBuilder()
        points = [(-1, 0, 0), (math.cos(angle), math.sin(angle), 0), (0, 0, 0), (0, 0, 1)]
        for p in points:
            builder.add_particle(p, (0, 0, 0), 1.0)
        builder.add_edge(0, 1, 2, 3)
        builder.add_edge(0, 1, 2, 3, rest=0.25)
        assert abs(builder.edge_rest_angle[0]) == pytest.approx(abs(angle), abs=1e-6)
        assert builder.edge_rest_angle[1] == 0.25
        assert builder.edge_rest_length[0] == pytest.approx(1.0)


def test_border_edges_have_one_triangle():
    edges = unique_edges(np.array([[0, 1, 2], [2, 1, 3]]))
    assert len(edges) == 5
    inner = edges[edges[:, 1] >= 0]
    assert len(inner) == 1
    assert set(inner[0, :2]) == {0, 3}
    o0, _, v0, v1 = inner[0].tolist()
    assert (o0, v0, v1) in {(0, 1, 2), (3, 2, 1)}  # (o0, v0, v1) is wound as its triangle


def test_edge_of_three_triangles_is_an_error():
    with pytest.raises(ModelError, match="between vertices 0 and 1"):
        unique_edges(np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]]))


def soft(**options) -> ModelBuilder:
    builder = ModelBuilder()
    builder.add_soft_grid((1, 0, 0), ROT, (0, 0, 0), 3, 2, 2, 0.5, 0.25, 1.0, 100.0, 1e3, 1e4, 1.0, **options)
    return builder


def test_soft_grid_fills_its_box():
    builder = soft()
    assert builder.particle_count == 4 * 3 * 3
    assert builder.tet_count == 5 * 3 * 2 * 2
    volumes = [1.0 / np.linalg.det(np.array(pose, float)) / 6.0 for pose in builder.tet_poses]
    assert min(volumes) > 0.0
    box = (1.5, 0.5, 2.0)
    assert sum(volumes) == pytest.approx(np.prod(box), rel=1e-4)
    assert sum(builder.particle_mass) == pytest.approx(100.0 * np.prod(box))
    surface = 2 * (box[0] * box[1] + box[1] * box[2] + box[0] * box[2])
    assert sum(builder.tri_areas) == pytest.approx(surface, rel=1e-5)
    assert builder.tet_materials[0] == (1e3, 1e4, 1.0)


def test_soft_grid_neighbours_share_whole_faces():
    """A face inside the box belongs to two tetrahedra: the mirrored cells fit together."""
    builder = soft()
    tets = np.array(builder.tet_indices)
    faces = np.sort(np.concatenate([np.delete(tets, k, axis=1) for k in range(4)]), axis=1)
    _, counts = np.unique(faces, axis=0, return_counts=True)
    assert set(counts) == {1, 2}
    assert (counts == 1).sum() == builder.tri_count


def test_soft_surface_is_wound_outward():
    builder = soft()
    x, tri = positions(builder), np.array(builder.tri_indices)
    a, b, c = x[tri[:, 0]], x[tri[:, 1]], x[tri[:, 2]]
    volume = np.einsum("ij,ij->", a - x.mean(axis=0), np.cross(b - a, c - a)) / 6.0
    assert volume == pytest.approx(1.5 * 0.5 * 2.0, rel=1e-4)


def test_soft_grid_can_be_held_at_the_left():
    builder = ModelBuilder()
    builder.add_soft_grid(
        (0, 0, 0), None, (0, 0, 0), 2, 2, 2, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, fix_left=True
    )
    np.testing.assert_array_equal(np.array(builder.particle_mass) == 0.0, positions(builder)[:, 0] == 0.0)


def test_soft_mesh_with_an_inverted_tetrahedron():
    vertices = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    builder = ModelBuilder()
    builder.add_soft_mesh(
        (0, 0, 0), None, 1.0, (0, 0, 0), vertices, [0, 2, 1, 3, 1, 2, 3, 4], 6.0, 1.0, 1.0, 0.0
    )
    dets = [np.linalg.det(np.array(pose, float)) for pose in builder.tet_poses]
    assert all(d > 0 for d in dets)
    assert sum(builder.particle_mass) == pytest.approx(6.0 * (1 / 6 + 1 / 3))
    assert builder.tri_count == len(surface_triangles(np.array(builder.tet_indices))) == 6


def test_degenerate_elements_are_left_out_with_a_warning():
    builder = ModelBuilder()
    for i in range(4):
        builder.add_particle((float(i), 0, 0), (0, 0, 0), 1.0)
    with pytest.warns(UserWarning, match="triangles without area"):
        assert builder.add_triangle(0, 1, 2) == 0.0
    with pytest.warns(UserWarning, match="tetrahedra without volume"):
        assert builder.add_tetrahedron(0, 1, 2, 3) == 0.0
    assert (builder.tri_count, builder.tet_count) == (0, 0)


def test_particle_grid_spacing_jitter_and_radii():
    builder = ModelBuilder()
    builder.add_particle_grid((1, 0, 0), None, (0, 0, 2), 3, 2, 4, 0.1, 0.2, 0.3, 0.5, 0.0, radius_mean=0.03)
    x = positions(builder)
    assert len(x) == 24
    np.testing.assert_allclose(np.ptp(x, axis=0), (0.2, 0.2, 0.9), atol=1e-6)
    assert set(builder.particle_radius) == {0.03}
    rough = ModelBuilder()
    rough.add_particle_grid((1, 0, 0), None, (0, 0, 2), 3, 2, 4, 0.1, 0.2, 0.3, 0.5, 0.05, 0.03, 0.01)
    offset = positions(rough) - x
    assert 0.0 < np.abs(offset).max() <= 0.025 + 1e-6
    assert np.std(rough.particle_radius) > 0.0


def test_spring_rests_where_it_was_made():
    builder = ModelBuilder()
    builder.add_particle((0, 0, 0), (0, 0, 0), 1.0)
    builder.add_particle((3, 4, 0), (0, 0, 0), 1.0)
    builder.add_spring(0, 1, 10.0, 1.0, 0.5)
    assert builder.spring_rest_length == [5.0]
    model = builder.finalize(device="cpu")
    np.testing.assert_array_equal(model.spring_indices.numpy(), [0, 1])
    assert model.spring_control.numpy()[0] == 0.5


def test_rope_has_the_mass_and_stiffness_of_its_length():
    builder = ModelBuilder()
    points = np.array([(0, 0, 0), (0.5, 0, 0), (0.5, 1.0, 0)])
    held = builder.add_rope(points, (0, 0, 1), 0.2, 30.0, 0.3, fix_end=True)
    assert list(held) == [0, 1, 2]
    np.testing.assert_allclose(builder.particle_mass, (0.05, 0.15, 0.0))
    np.testing.assert_allclose(builder.spring_stiffness, (60.0, 30.0))  # EA / l
    np.testing.assert_allclose(builder.spring_damping, (0.6, 0.3))
    np.testing.assert_allclose(builder.spring_rest_length, (0.5, 1.0), rtol=1e-6)
    with pytest.raises(ModelError, match="points 1 and the next"):
        builder.add_rope(points[[0, 1, 1]], (0, 0, 0), 1.0, 1.0)
    with pytest.raises(ModelError, match="at least two"):
        builder.add_rope(points[:1], (0, 0, 0), 1.0, 1.0)
