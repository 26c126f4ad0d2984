"""Mass properties against point clouds, triangulations and each other."""

import math

import numpy as np
import pytest

from newtonsim import GeoType, Mesh, ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.geometry.inertia import box_inertia, combine, mesh_inertia, shape_inertia
from newtonsim.geometry.sdf import SDF

DENSITY = 700.0


def inside(kind: GeoType, size: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Membership in a solid, from its definition."""
    x, y, z = p.T
    r = np.hypot(x, z)
    if kind == GeoType.SPHERE:
        return x * x + y * y + z * z <= size[0] ** 2
    if kind == GeoType.BOX:
        return np.all(np.abs(p) <= size, axis=1)
    if kind == GeoType.ELLIPSOID:
        return np.sum((p / size) ** 2, axis=1) <= 1.0
    if kind == GeoType.CYLINDER:
        return (r <= size[0]) & (np.abs(y) <= size[1])
    if kind == GeoType.CAPSULE:
        beyond = np.maximum(np.abs(y) - size[1], 0.0)
        return r * r + beyond * beyond <= size[0] ** 2
    if kind == GeoType.CONE:
        return (np.abs(y) <= size[1]) & (r <= size[0] * (size[1] - y) / (2.0 * size[1]))
    raise AssertionError(kind)


def wall(kind: GeoType, size: np.ndarray, thickness: float, p: np.ndarray) -> np.ndarray:
    """Membership in the wall: inside the solid, and closer to its surface than the thickness."""
    solid = inside(kind, size, p)
    x, y, z = p.T
    r = np.hypot(x, z)
    if kind == GeoType.CONE:
        height = 2.0 * size[1]
        to_flank = (size[0] * (size[1] - y) / height - r) * height / math.hypot(height, size[0])
        return solid & (np.minimum(to_flank, y + size[1]) < thickness)
    inner = size - thickness
    if kind == GeoType.CAPSULE:
        inner = np.array([size[0] - thickness, size[1], 0.0])
    return solid & ~inside(kind, inner, p)


def cloud_properties(points: np.ndarray, mass: float) -> tuple[np.ndarray, np.ndarray]:
    com = points.mean(axis=0)
    second = (points - com).T @ (points - com) * (mass / len(points))
    return com, np.trace(second) * np.eye(3) - second


SHAPES = [
    (GeoType.SPHERE, (0.4, 0.0, 0.0)),
    (GeoType.BOX, (0.3, 0.5, 0.2)),
    (GeoType.ELLIPSOID, (0.3, 0.5, 0.2)),
    (GeoType.CYLINDER, (0.3, 0.45, 0.0)),
    (GeoType.CAPSULE, (0.3, 0.4, 0.0)),
    (GeoType.CONE, (0.4, 0.5, 0.0)),
]


@pytest.mark.parametrize("hollow", [False, True])
@pytest.mark.parametrize(("kind", "size"), SHAPES)
def test_primitive_inertia_matches_a_random_cloud(kind, size, hollow):
    size, thickness, count = np.array(size), 0.06, 1_000_000
    rng = np.random.default_rng(5)
    reach = 0.8
    points = rng.uniform(-reach, reach, (count, 3))
    member = wall(kind, size, thickness, points) if hollow else inside(kind, size, points)
    expected_mass = DENSITY * (2 * reach) ** 3 * member.mean()
    expected_com, expected = cloud_properties(points[member], expected_mass)
    mass, com, inertia = shape_inertia(kind, DENSITY, size, None, not hollow, thickness)
    # the share of a million points scatters by 0.5 % where the wall is thinnest
    np.testing.assert_allclose(mass, expected_mass, rtol=0.012)
    np.testing.assert_allclose(com, expected_com, atol=5e-3)
    np.testing.assert_allclose(inertia, expected, rtol=0.015, atol=0.01 * expected.max())


def test_wall_as_thick_as_the_shape_makes_it_solid():
    for kind, size in SHAPES:
        solid = shape_inertia(kind, DENSITY, size, None, True, 0.0)
        thick = shape_inertia(kind, DENSITY, size, None, False, 1.0)
        assert thick[0] == pytest.approx(solid[0])
        np.testing.assert_allclose(thick[2], solid[2])


def test_hollow_shape_without_thickness_is_an_error():
    with pytest.raises(ModelError, match="thickness"):
        shape_inertia(GeoType.BOX, 1.0, (1, 1, 1), None, False, 0.0)


def irregular_mesh():
    import trimesh

    mesh = trimesh.creation.icosphere(subdivisions=2)
    rng = np.random.default_rng(3)
    vertices = mesh.vertices * rng.uniform(0.7, 1.3, (len(mesh.vertices), 1)) * (0.3, 0.6, 0.2) + (
        3.0,
        -1.0,
        2.0,
    )
    return trimesh.Trimesh(vertices, mesh.faces, process=False)


def test_solid_mesh_matches_trimesh():
    reference = irregular_mesh()
    mass, com, inertia = mesh_inertia(DENSITY, reference.vertices, reference.faces)
    reference.density = DENSITY
    np.testing.assert_allclose(mass, reference.mass, rtol=1e-9)
    np.testing.assert_allclose(com, reference.center_mass, rtol=1e-9)
    np.testing.assert_allclose(inertia, reference.moment_inertia, rtol=1e-7, atol=1e-9 * inertia.max())


def test_mesh_inertia_does_not_depend_on_winding():
    reference = irregular_mesh()
    outward = mesh_inertia(1.0, reference.vertices, reference.faces)
    inward = mesh_inertia(1.0, reference.vertices, reference.faces[:, ::-1])
    for a, b in zip(outward, inward):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_hollow_mesh_matches_points_on_its_surface():
    import trimesh

    reference = irregular_mesh()
    thickness = 0.01
    points, _ = trimesh.sample.sample_surface(reference, 400_000, seed=1)
    expected_mass = DENSITY * reference.area * thickness
    expected_com, expected = cloud_properties(points, expected_mass)
    mass, com, inertia = mesh_inertia(DENSITY, reference.vertices, reference.faces, False, thickness)
    np.testing.assert_allclose(mass, expected_mass, rtol=1e-9)
    np.testing.assert_allclose(com, expected_com, atol=3e-3)
    np.testing.assert_allclose(inertia, expected, rtol=0.01, atol=0.005 * expected.max())


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (2.0, 0.5, 1.5), (-1.0, 1.0, 1.0)])
def test_stretched_mesh_equals_a_mesh_of_stretched_vertices(scale):
    reference = irregular_mesh()
    mesh = Mesh(reference.vertices, reference.faces)
    stretched = shape_inertia(GeoType.MESH, DENSITY, scale, mesh, True, 0.0)
    direct = mesh_inertia(DENSITY, mesh.vertices.astype(np.float64) * scale, reference.faces)
    for a, b in zip(stretched, direct):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * np.abs(b).max())


def test_sdf_uses_the_inertia_it_was_given():
    sdf = SDF(I=np.diag([1.0, 2.0, 3.0]), mass=2.0, com=(0.1, 0.0, 0.0))
    mass, com, inertia = shape_inertia(GeoType.SDF, 10.0, (1, 1, 1), sdf, True, 0.0)
    assert mass == pytest.approx(20.0)
    np.testing.assert_allclose(com, (0.1, 0.0, 0.0))
    np.testing.assert_allclose(inertia, np.diag([10.0, 20.0, 30.0]))


def test_body_of_two_halves_equals_one_box():
    """Parallel axes: two boxes side by side on one body are one box twice as wide."""
    whole, halves = ModelBuilder(), ModelBuilder()
    whole.add_shape_box(whole.add_body(), pos=(0.5, 0.2, 0.0), hx=0.4, hy=0.1, hz=0.3)
    body = halves.add_body()
    halves.add_shape_box(body, pos=(0.3, 0.2, 0.0), hx=0.2, hy=0.1, hz=0.3)
    quarter = (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5))  # x and y extents change places
    halves.add_shape_box(body, pos=(0.7, 0.2, 0.0), rot=quarter, hx=0.1, hy=0.2, hz=0.3)
    assert halves.body_mass[0] == pytest.approx(whole.body_mass[0])
    np.testing.assert_allclose(halves.body_com[0], whole.body_com[0], atol=1e-6)
    np.testing.assert_allclose(halves.body_inertia[0], whole.body_inertia[0], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("up_axis", "along"), [(0, 0), (1, 1), (2, 2)])
def test_up_axis_turns_the_inertia(up_axis, along):
    builder = ModelBuilder()
    builder.add_shape_capsule(builder.add_body(), radius=0.1, half_height=0.5, up_axis=up_axis)
    assert int(np.argmin(np.diag(builder.body_inertia[0]))) == along


def test_cone_points_along_its_axis():
    """The centroid lies towards the base, so a cone along +z has it at negative z."""
    builder = ModelBuilder()
    builder.add_shape_cone(builder.add_body(), radius=0.2, half_height=0.5, up_axis=2)
    np.testing.assert_allclose(builder.body_com[0], (0.0, 0.0, -0.25), atol=1e-6)


def test_armature_is_added_to_the_diagonal_once():
    builder = ModelBuilder()
    body = builder.add_body(armature=0.5)
    builder.add_shape_sphere(body, radius=0.1)
    builder.add_shape_sphere(body, radius=0.1)
    sphere = shape_inertia(GeoType.SPHERE, 1000.0, (0.1, 0, 0), None, True, 0.0)[2]
    np.testing.assert_allclose(builder.body_inertia[0], 2 * sphere + 0.5 * np.eye(3))


def test_shape_without_density_adds_nothing():
    builder = ModelBuilder()
    builder.add_shape_box(builder.add_body(mass=2.0, I_m=np.eye(3)), density=0.0)
    assert builder.body_mass == [2.0]
    np.testing.assert_array_equal(builder.body_inertia[0], np.eye(3))


def test_one_part_at_its_origin_is_joined_as_with_nothing_beside_it():
    """The short way for a single part gives the same bits as the sum."""
    mass, com, inertia = box_inertia(1234.5, 0.1, 0.2, 0.37)
    inertia[0, 1] = inertia[1, 0] = -0.0
    short = combine((mass, com, inertia))
    whole = combine((mass, com, inertia), (0.0, np.zeros(3), np.zeros((3, 3))))
    assert [np.asarray(part).tobytes() for part in short] == [np.asarray(part).tobytes() for part in whole]
