"""What shapes store: poses, sizes, flags, materials, sources."""

import gc
import math
import weakref

import numpy as np
import pytest

from newtonsim import GeoType, Heightfield, Mesh, ModelBuilder, ModelError, ShapeFlags
from newtonsim.geometry.transforms import quat_rotate, transform_point


@pytest.mark.parametrize(("up_axis", "direction"), [(0, (1, 0, 0)), (1, (0, 1, 0)), (2, (0, 0, 1))])
@pytest.mark.parametrize("name", ["capsule", "cylinder", "cone"])
def test_long_axis_is_local_y_turned_to_up_axis(name, up_axis, direction):
    builder = ModelBuilder()
    getattr(builder, f"add_shape_{name}")(-1, radius=0.2, half_height=0.7, up_axis=up_axis)
    np.testing.assert_allclose(quat_rotate(builder.shape_transform[0].q, (0, 1, 0)), direction, atol=1e-6)
    np.testing.assert_allclose(builder.shape_geo_scale[0], (0.2, 0.7, 0.0))


def test_up_axis_is_applied_before_rot():
    builder = ModelBuilder()
    half_turn_about_x = (1.0, 0.0, 0.0, 0.0)
    builder.add_shape_cone(-1, rot=half_turn_about_x, up_axis=2)
    np.testing.assert_allclose(quat_rotate(builder.shape_transform[0].q, (0, 1, 0)), (0, 0, -1), atol=1e-6)


@pytest.mark.parametrize("plane", [(0, 1, 0, 0), (0, 2, 0, -3), (1, 2, -2, 6), (0, -1, 0, 2), (0, 0, 1, 0.5)])
def test_plane_equation_holds_on_the_plane(plane):
    builder = ModelBuilder()
    builder.add_shape_plane(plane)
    xform = builder.shape_transform[0]
    for point in ((0, 0, 0), (3, 0, -2), (-1, 0, 5)):
        x = transform_point(xform, point)
        assert np.dot(plane[:3], x) + plane[3] == pytest.approx(0.0, abs=1e-5)
    normal = quat_rotate(xform.q, (0, 1, 0))
    np.testing.assert_allclose(normal, np.array(plane[:3]) / np.linalg.norm(plane[:3]), atol=1e-6)


def test_plane_by_pose():
    builder = ModelBuilder()
    builder.add_shape_plane(pos=(1, 2, 3), rot=(0, 0, 0, 1), width=0.0, length=4.0)
    np.testing.assert_allclose(builder.shape_transform[0], (1, 2, 3, 0, 0, 0, 1))
    np.testing.assert_allclose(builder.shape_geo_scale[0], (0, 4, 0))


def test_flags_say_what_a_shape_takes_part_in():
    builder = ModelBuilder()
    builder.add_shape_sphere(-1)
    builder.add_shape_sphere(-1, is_visible=False, has_ground_collision=False)
    builder.add_shape_sphere(-1, has_shape_collision=False)
    builder.add_shape_plane()
    every = ShapeFlags.VISIBLE | ShapeFlags.COLLIDE_SHAPES | ShapeFlags.COLLIDE_GROUND
    assert builder.shape_flags == [
        every,
        ShapeFlags.COLLIDE_SHAPES,
        ShapeFlags.VISIBLE | ShapeFlags.COLLIDE_GROUND,
        ShapeFlags.VISIBLE | ShapeFlags.COLLIDE_SHAPES,
    ]


def test_defaults_are_those_of_the_builder_at_the_time():
    builder = ModelBuilder()
    builder.default_shape_mu = 0.9
    builder.add_shape_sphere(-1)
    builder.add_shape_sphere(-1, mu=0.1, ke=1.0, kd=2.0, kf=3.0, ka=4.0, restitution=0.5, thickness=0.25)
    model = builder.finalize(device="cpu")
    np.testing.assert_allclose(model.shape_materials.mu.numpy(), (0.9, 0.1))
    second = [
        getattr(model.shape_materials, name).numpy()[1] for name in ("ke", "kd", "kf", "ka", "restitution")
    ]
    assert second == [1.0, 2.0, 3.0, 4.0, 0.5]
    np.testing.assert_allclose(model.shape_geo.thickness.numpy(), (1e-5, 0.25))


def tetrahedron() -> Mesh:
    return Mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])


def test_mesh_is_put_on_the_device_once_for_all_its_shapes(device):
    mesh = tetrahedron()
    builder = ModelBuilder()
    for _ in range(3):
        builder.add_shape_mesh(-1, mesh=mesh, scale=(2, 2, 2))
    builder.add_shape_box(-1)
    model = builder.finalize(device=device)
    ids = model.shape_geo.source.numpy()
    assert ids[0] == ids[1] == ids[2] == mesh.mesh.id
    assert ids[3] == 0
    assert model.shape_geo_src == [mesh, mesh, mesh, None]
    assert model.shape_sources[0] is mesh


def test_models_keep_their_own_mesh_alive():
    """A second finalize makes new device meshes; those of the first model must not be freed by it."""
    builder = ModelBuilder()
    shapes = (tetrahedron(), Heightfield(np.zeros((2, 2))))
    builder.add_shape_mesh(-1, mesh=shapes[0])
    builder.add_shape_heightfield(-1, heightfield=shapes[1])
    first = builder.finalize(device="cpu")
    meshes = [weakref.ref(shape.mesh) for shape in shapes]
    builder.finalize(device="cpu")
    gc.collect()
    assert [mesh() is not None and mesh().id for mesh in meshes] == first.shape_geo.source.numpy().tolist()


def test_heightfield_surface_has_the_heights_and_faces_up():
    heights = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    mesh = Heightfield(heights, size=(4.0, 2.0)).to_mesh()
    vertices, triangles = mesh.vertices, mesh.indices.reshape(-1, 3)
    assert len(triangles) == 2 * 1 * 2
    np.testing.assert_allclose(vertices[:, 1], heights.reshape(-1))
    np.testing.assert_allclose((vertices[0], vertices[-1]), ((-2, 0, -1), (2, 5, 1)))
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    assert np.all(np.cross(b - a, c - a)[:, 1] > 0.0)


@pytest.mark.parametrize(
    ("add", "radius"),
    [
        (lambda b: b.add_shape_sphere(-1, radius=0.5), 0.5),
        (lambda b: b.add_shape_box(-1, hx=1.0, hy=2.0, hz=2.0), 3.0),
        (lambda b: b.add_shape_capsule(-1, radius=0.5, half_height=1.0), 1.5),
        (lambda b: b.add_shape_cylinder(-1, radius=3.0, half_height=4.0), 5.0),
        (lambda b: b.add_shape_cone(-1, radius=3.0, half_height=4.0), 5.0),
        (lambda b: b.add_shape_ellipsoid(-1, a=1.0, b=3.0, c=2.0), 3.0),
        (lambda b: b.add_shape_mesh(-1, mesh=tetrahedron(), scale=(1, 2, 3)), 3.0),
        (lambda b: b.add_shape_plane(width=6.0, length=8.0), 5.0),
    ],
)
def test_collision_radius_reaches_the_farthest_point(add, radius):
    builder = ModelBuilder()
    add(builder)
    assert builder.finalize(device="cpu").shape_collision_radius.numpy()[0] == pytest.approx(radius)


def test_maps_from_bodies_and_groups_to_shapes():
    builder = ModelBuilder()
    bodies = [builder.add_body() for _ in range(3)]
    for body, group in ((bodies[2], 1), (-1, -1), (bodies[0], 1), (bodies[2], 2)):
        builder.add_shape_sphere(body, collision_group=group)
    model = builder.finalize(device="cpu")
    assert model.body_shapes == builder.body_shapes == {-1: [1], 0: [2], 1: [], 2: [0, 3]}
    assert (
        model.shape_collision_group_map == builder.shape_collision_group_map == {-1: [1], 1: [0, 2], 2: [3]}
    )


def test_geometry_types_and_keys():
    builder = ModelBuilder()
    builder.add_shape_ellipsoid(-1, key="egg")
    builder.add_shape_heightfield(-1, heightfield=Heightfield(np.zeros((2, 2))))
    model = builder.finalize(device="cpu")
    assert model.shape_geo.type.numpy().tolist() == [GeoType.ELLIPSOID, GeoType.HFIELD]
    assert model.shape_key == ["egg", "shape_1"]


SIZES = {
    "sphere": ("radius",),
    "box": ("hx", "hy", "hz"),
    "ellipsoid": ("a", "b", "c"),
    "capsule": ("radius", "half_height"),
    "cylinder": ("radius", "half_height"),
    "cone": ("radius", "half_height"),
    "plane": ("width", "length"),
}


@pytest.mark.parametrize("value", [-0.5, math.nan, math.inf])
@pytest.mark.parametrize(("kind", "size"), [(kind, size) for kind, sizes in SIZES.items() for size in sizes])
def test_impossible_sizes_name_the_shape_and_change_nothing(kind, size, value):
    builder = ModelBuilder()
    body = builder.add_body(key="link")
    add = getattr(builder, f"add_shape_{kind}")
    with pytest.raises(ModelError, match=rf"^shape 'ball': .*{size} is {value:g},"):
        add(body=body, key="ball", **{size: value})
    with pytest.raises(ModelError, match=rf"^shape 0: .*{size} is {value:g},"):
        add(body=body, **{size: value})
    assert builder.shape_count == len(builder.shape_transform) == 0
    assert builder.body_mass == [0.0]
