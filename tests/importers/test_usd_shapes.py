"""Colliders of stages under every stretch, against OpenUSD's own parser and against their surfaces."""

import numpy as np
import pytest
import trimesh
from pxr import Gf, UsdPhysics
from usd_text import BODY, MESH, SOLID, ops, prim, read, remarks, stage_of

import newtonsim
from newtonsim.geometry.transforms import quat_rotate, transform_point
from newtonsim.scene.enums import GeoType, ShapeFlags

QUADS = """int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
int[] faceVertexIndices = [0, 1, 3, 2, 4, 6, 7, 5, 6, 2, 3, 7, 4, 5, 1, 0, 4, 0, 2, 6, 5, 7, 3, 1]
point3f[] points = [(-0.5, -0.5, 0.5), (0.5, -0.5, 0.5), (-0.5, 0.5, 0.5), (0.5, 0.5, 0.5),
(-0.5, -0.5, -0.5), (0.5, -0.5, -0.5), (-0.5, 0.5, -0.5), (0.5, 0.5, -0.5)]
"""
"""A unit cube of six squares."""

L_FACE = """int[] faceVertexCounts = [6]
int[] faceVertexIndices = [0, 1, 2, 3, 4, 5]
point3f[] points = [(0, 0, 0), (2, 0, 0), (2, 1, 0), (1, 1, 0), (1, 2, 0), (0, 2, 0)]
"""
"""One face of the form of an L, area 3."""

SHEAR = ops(transform="((1, 0, 0, 0), (0.5, 1, 0, 0), (0, 0, 1, 0), (3, 0, 0, 1))")


def parsed(text: str) -> object:
    """What OpenUSD's physics parser makes of the only collider."""
    found = UsdPhysics.UsdPhysicsLoadStageFromPrimRange(stage_of(text), ["/"])
    (shape,) = [
        one
        for kind, (_, records) in found.items()
        for one in records
        if isinstance(one, UsdPhysics.ShapeDesc)
    ]
    return shape


def world_pose(builder: newtonsim.ModelBuilder, shape: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Position and quaternion of a shape on a body."""
    from newtonsim.geometry.transforms import transform_multiply

    body = builder.shape_body[shape]
    local = list(builder.shape_transform[shape])
    row = np.array(local if body < 0 else transform_multiply(list(builder.body_q[body]), local))
    return row[:3], row[3:]


PLACE = ops(translate=(1, 2, 3), rotateXYZ=(20, 40, 60), scale=(2, 2, 2))


@pytest.mark.parametrize("axis", ["X", "Y", "Z"])
@pytest.mark.parametrize("scale", [(1, 1, 1), (2, 2, 2), (-2, -2, -2), (-1, 1, 1)])
@pytest.mark.parametrize("kind", ["Capsule", "Cylinder", "Cone"])
def test_round_shapes_along_each_axis(kind, axis, scale):
    """Radius, half height and place are those of OpenUSD's parser; a mirrored cone points the other way."""
    inside = f'double radius = 0.3\ndouble height = 0.8\nuniform token axis = "{axis}"\n'
    shape = prim(
        kind, "shape", SOLID, inside=inside + ops(translate=(0, 0, 1), rotateXYZ=(5, 6, 7), scale=scale)
    )
    text = prim("Xform", "body", BODY, inside=PLACE + shape)
    builder, result = read(text)
    theirs = parsed(text)
    assert builder.shape_geo_type[0] == GeoType[kind.upper()]
    np.testing.assert_allclose(
        list(builder.shape_geo_scale[0])[:2], [theirs.radius, theirs.halfHeight], rtol=1e-5
    )
    np.testing.assert_allclose(list(builder.shape_transform[0])[:3], theirs.localPos, atol=1e-5)
    np.testing.assert_allclose(
        np.abs(result["path_shape_scale"]["/body/shape"]), 2 * np.abs(scale), rtol=1e-5
    )
    stage = stage_of(text)
    matrix = stage.GetPrimAtPath("/body/shape")
    from pxr import UsdGeom

    to_world = UsdGeom.XformCache().GetLocalToWorldTransform(matrix)
    apex = Gf.Vec3d(*(np.eye(3)["XYZ".index(axis)] * 0.4).tolist())
    expected = np.array(to_world.Transform(apex)) - np.array(to_world.ExtractTranslation())
    _, q = world_pose(builder)
    ours = quat_rotate(q, (0.0, builder.shape_geo_scale[0][1], 0.0))
    sign = np.sign(ours @ expected) if kind != "Cone" else 1.0
    np.testing.assert_allclose(sign * ours, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "scale", "geometry", "size"),
    [
        ("Cube", (1, -2, 3), GeoType.BOX, (1.0, 2.0, 3.0)),
        ("Sphere", (2, 2, -2), GeoType.SPHERE, (2.0, 0.0, 0.0)),
        ("Sphere", (1, 2, 3), GeoType.ELLIPSOID, (1.0, 2.0, 3.0)),
        ("Cone", (2, 2, 3), GeoType.CONE, (2.0, 3.0, 0.0)),
        ("Cylinder", (2, 2, 3), GeoType.CYLINDER, (2.0, 3.0, 0.0)),
    ],
)
def test_stretched_shapes_that_stay_simple(kind, scale, geometry, size):
    """Sizes in metres, in a stage of decimetres."""
    builder, result = read(prim(kind, "shape", SOLID, inside=ops(scale=scale)), meters=0.1)
    assert builder.shape_geo_type[0] == geometry
    np.testing.assert_allclose(list(builder.shape_geo_scale[0]), 0.1 * np.array(size), rtol=1e-5)
    np.testing.assert_allclose(np.abs(result["path_shape_scale"]["/shape"]), np.abs(scale), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "inside", "volume"),
    [
        ("Cylinder", ops(scale=(1, 2, 1)), 4.0 * np.pi),
        ("Cone", ops(scale=(1, 2, 1)), 4.0 / 3.0 * np.pi),
        ("Capsule", ops(scale=(1, 2, 1)), np.pi * 0.5 * (1.0 + 2.0 / 3.0) * 0.5 * 2.0),
        ("Cylinder_1", "double radiusTop = 0.5\n", 2.0 * np.pi / 3.0 * (1.0 + 0.5 + 0.25)),
        ("Cylinder", SHEAR, 2.0 * np.pi),
        ("Cube", SHEAR, 8.0),
    ],
)
def test_stretched_shapes_that_become_meshes(kind, inside, volume):
    """Hulls with nearly the volume of the form, reported by name."""
    builder, result = read(prim("Xform", "body", BODY, inside=prim(kind, "shape", SOLID, inside=inside)))
    assert builder.shape_geo_type[0] == GeoType.MESH
    assert builder.shape_convex[0] == 1
    assert builder.body_mass[0] == pytest.approx(1000.0 * volume, rel=0.02)
    assert "convex mesh" in remarks(result, "approximated", "/body/shape")[0]


def test_a_sheared_ball_is_an_ellipsoid():
    """Its surface maps to that of the sheared ball."""
    builder, _ = read(prim("Sphere", "ball", SOLID, inside=SHEAR))
    assert builder.shape_geo_type[0] == GeoType.ELLIPSOID
    linear = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    points = np.random.default_rng(0).normal(size=(20, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    surface = points @ linear.T
    q = np.array(list(builder.shape_transform[0])[3:])
    local = np.array([quat_rotate(q * [-1, -1, -1, 1], point) for point in surface])
    np.testing.assert_allclose(
        np.linalg.norm(local / list(builder.shape_geo_scale[0]), axis=1), 1.0, atol=1e-5
    )


@pytest.mark.parametrize("axis", ["X", "Y", "Z"])
def test_planes_are_infinite(axis):
    """Their normal is their axis, turned."""
    text = prim(
        "Plane",
        "floor",
        SOLID,
        inside=f'uniform token axis = "{axis}"\n' + ops(translate=(0, 0, 1), rotateXYZ=(10, 20, 30)),
    )
    builder, _ = read(text)
    theirs = parsed(text)
    q = [*theirs.localRot.GetImaginary(), theirs.localRot.GetReal()]
    expected = quat_rotate(q, np.eye(3)["XYZ".index(axis)])
    _, ours = world_pose(builder)
    np.testing.assert_allclose(quat_rotate(ours, (0.0, 1.0, 0.0)), expected, atol=1e-6)
    np.testing.assert_allclose(list(builder.shape_geo_scale[0])[:2], 0.0)


def test_points_are_balls():
    """One per point, as wide as it says, moved and stretched."""
    inside = "point3f[] points = [(0, 0, 0), (1, 0, 0)]\nfloat[] widths = [0.2, 0.4]\n" + ops(
        translate=(0, 0, 1), scale=(2, 2, 2)
    )
    builder, result = read(prim("Points", "cloud", SOLID, inside=inside))
    np.testing.assert_allclose([next(iter(s)) for s in builder.shape_geo_scale], [0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(list(builder.shape_transform[1])[:3], [2.0, 0.0, 1.0], atol=1e-6)
    assert result["report"].shapes["/cloud"] == [0, 1]


def mesh(inside: str, approximation: str | None = None, place: str = "") -> str:
    """A mesh that collides, on a body."""
    token = "" if approximation is None else f'uniform token physics:approximation = "{approximation}"\n'
    return prim(
        "Xform", "body", BODY, inside=prim("Mesh", "mesh", SOLID, MESH, inside=inside + token + place)
    )


@pytest.mark.parametrize("scale", [(1, 1, 1), (-1, 1, 1), (2, -3, -1), (-1, -1, -2)])
@pytest.mark.parametrize("hand", ["rightHanded", "leftHanded"])
def test_meshes_look_outwards_under_any_stretch(scale, hand):
    """Vertices where OpenUSD puts them; the volume is positive for a mesh that looks outwards."""
    from pxr import UsdGeom

    order = f'uniform token orientation = "{hand}"\n'
    text = mesh(QUADS + order, "none", ops(translate=(1, 0, 0), rotateXYZ=(10, 20, 30), scale=scale))
    builder, _ = read(text)
    source = builder.shape_geo_src[0]
    volume = trimesh.Trimesh(source.vertices, source.indices.reshape(-1, 3), process=False).volume
    assert volume == pytest.approx(
        np.abs(np.prod(scale)) * (1.0 if hand == "rightHanded" else -1.0), rel=1e-5
    )
    assert builder.body_mass[0] == pytest.approx(1000.0 * np.abs(np.prod(scale)), rel=1e-5)
    stage = stage_of(text)
    found = stage.GetPrimAtPath("/body/mesh")
    to_world = UsdGeom.XformCache().GetLocalToWorldTransform(found)
    expected = np.array(
        [to_world.Transform(Gf.Vec3d(*map(float, p))) for p in found.GetAttribute("points").Get()]
    )
    p, q = world_pose(builder)
    ours = transform_point(np.concatenate([p, q]), source.vertices.astype(float))
    np.testing.assert_allclose(
        ours[np.lexsort(ours.T.round(4))], expected[np.lexsort(expected.T.round(4))], atol=1e-5
    )


def test_sheared_meshes_are_sheared_vertex_by_vertex():
    """The volume of a sheared cube is that of the cube."""
    builder, _ = read(mesh(QUADS, "none", SHEAR))
    assert builder.body_mass[0] == pytest.approx(1000.0, rel=1e-5)
    assert np.ptp(builder.shape_geo_src[0].vertices, axis=0) == pytest.approx([1.5, 1.0, 1.0])


@pytest.mark.parametrize(
    ("approximation", "kind", "convex", "size"),
    [
        (None, GeoType.MESH, 0, None),
        ("none", GeoType.MESH, 0, None),
        ("convexHull", GeoType.MESH, 1, None),
        ("meshSimplification", GeoType.MESH, 0, None),
        ("sdf", GeoType.MESH, 0, None),
        ("boundingCube", GeoType.BOX, None, (0.5, 0.5, 0.5)),
        ("boundingSphere", GeoType.SPHERE, None, (np.sqrt(0.75), 0.0, 0.0)),
    ],
)
def test_approximations_of_meshes(approximation, kind, convex, size):
    """Each token of UsdPhysics."""
    builder, result = read(mesh(QUADS, approximation))
    assert builder.shape_geo_type[0] == kind
    if convex is not None:
        assert builder.shape_convex[0] == convex
    if size is not None:
        np.testing.assert_allclose(list(builder.shape_geo_scale[0]), size, rtol=0.02)
    assert bool(remarks(result, "approximated", "/body/mesh")) == (approximation == "meshSimplification")


def test_decomposition_into_parts():
    """An L of two boxes becomes convex parts of about its volume, all under one path."""
    pytest.importorskip("coacd")
    polygon = np.array([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], float)
    bottom, top = (np.column_stack([polygon, np.full(6, z)]) for z in (0.0, 1.0))
    points = np.concatenate([bottom, top]).tolist()
    sides = [(i, (i + 1) % 6, 6 + (i + 1) % 6, 6 + i) for i in range(6)]
    indices = [*range(5, -1, -1), *range(6, 12), *(k for side in sides for k in side)]
    inside = f"int[] faceVertexCounts = {[6, 6] + [4] * 6}\nint[] faceVertexIndices = {indices}\n"
    inside += f"point3f[] points = {[tuple(p) for p in points]}\n"
    builder, result = read(mesh(inside, "convexDecomposition"))
    shapes = result["report"].shapes["/body/mesh"]
    assert len(shapes) >= 2
    assert all(builder.shape_convex[shape] == 1 for shape in shapes)
    assert builder.body_mass[0] == pytest.approx(3000.0, rel=0.1)


def test_hollow_corners_are_cut_by_ears():
    """A face with a corner that turns inwards keeps its area, and its hole stays out."""
    builder, _ = read(prim("Mesh", "mesh", inside=L_FACE))
    source = builder.shape_geo_src[0]
    faces = source.indices.reshape(-1, 3)
    assert len(faces) == 4
    assert trimesh.Trimesh(source.vertices, faces, process=False).area == pytest.approx(3.0)
    corners = source.vertices[faces]
    middles = corners.mean(axis=1)
    assert not ((middles[:, 0] > 1.0) & (middles[:, 1] > 1.0)).any()


def test_holes_are_left_out():
    """Faces named by holeIndices do not exist."""
    builder, _ = read(prim("Mesh", "mesh", SOLID, inside=QUADS + "int[] holeIndices = [0, 2]\n"))
    assert len(builder.shape_geo_src[0].indices) == 3 * 8


def test_what_is_only_seen_does_not_collide():
    """Visuals have colours and no part in contacts; guides collide unseen, what is off does not."""
    color = "color3f[] primvars:displayColor = [(1, 0.5, 0)]\nfloat[] primvars:displayOpacity = [0.5]\n"
    text = prim("Sphere", "seen", inside=color)
    text += prim("Sphere", "guide", SOLID, inside='uniform token purpose = "guide"\n')
    text += prim("Sphere", "off", SOLID, inside="bool physics:collisionEnabled = 0\n")
    text += prim("Sphere", "hidden", inside='token visibility = "invisible"\n')
    builder, result = read(text)
    flags = {path: builder.shape_flags[index] for path, index in result["path_shape_map"].items()}
    assert flags["/seen"] == ShapeFlags.VISIBLE
    assert flags["/guide"] == ShapeFlags.COLLIDE_SHAPES
    assert flags["/off"] == ShapeFlags.VISIBLE
    assert flags["/hidden"] == 0
    np.testing.assert_allclose(builder.shape_color[result["path_shape_map"]["/seen"]], (1.0, 0.5, 0.0, 0.5))


def test_materials():
    """Friction is the dynamic one, else the static one; what a material leaves open is the argument's."""

    def material(name: str, inside: str) -> str:
        return prim("Material", name, "PhysicsMaterialAPI", inside=inside)

    def ball(name: str, binding: str) -> str:
        return prim(
            "Sphere", name, SOLID, "MaterialBindingAPI", inside=f"rel material:binding{binding} = </{name}M>"
        )

    text = material(
        "aM",
        "float physics:dynamicFriction = 0.3\nfloat physics:staticFriction = 0.4\n"
        "float physics:restitution = 0.7",
    )
    text += material("bM", "float physics:staticFriction = 0.9") + material("cM", "")
    text += ball("a", ":physics") + ball("b", "") + ball("c", "") + prim("Sphere", "d", SOLID)
    builder, result = read(text, contact_mu=0.25, contact_restitution=0.125)
    np.testing.assert_allclose(builder.shape_material_mu, [0.3, 0.9, 0.25, 0.25])
    np.testing.assert_allclose(builder.shape_material_restitution, [0.7, 0.125, 0.125, 0.125])
    assert "dynamic one 0.3" in remarks(result, "approximated", "/aM")[0]


def test_contact_settings_of_scene_and_shape():
    """Attributes "warp:..." of the scene replace the arguments, those of a shape both."""
    text = prim(
        "PhysicsScene", "scene", inside="float warp:contact_ke = 5\nfloat warp:contact_thickness = 0.125"
    )
    text += prim("Sphere", "a", SOLID) + prim("Sphere", "b", SOLID, inside="float warp:contact_ke = 7")
    builder, _ = read(text, contact_ke=3.0, contact_kd=9.0)
    np.testing.assert_allclose(builder.shape_material_ke, [5.0, 7.0])
    np.testing.assert_allclose(builder.shape_material_kd, 9.0)
    np.testing.assert_allclose(builder.shape_geo_thickness, 0.125)


def test_inverted_rotations():
    """For files that write rotations of shapes the other way round."""
    text = prim("Xform", "body", BODY, inside=prim("Cube", "box", SOLID, inside=ops(rotateXYZ=(10, 20, 30))))
    plain, inverted = (
        np.array(list(read(text, invert_rotations=flag)[0].shape_transform[0])) for flag in (False, True)
    )
    np.testing.assert_allclose(inverted[3:], plain[3:] * [-1, -1, -1, 1], atol=1e-7)


def _mesh(inside: str) -> str:
    return prim("Mesh", "shape", SOLID, MESH, inside=inside)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (prim("Sphere", "shape", SOLID, inside="double radius = -1"), ["radius", "-1"]),
        (prim("Cone", "shape", SOLID, inside='uniform token axis = "W"'), ["axis", "W", "X, Y, Z"]),
        (prim("Cube", "shape", SOLID, inside=ops(scale=(1, 0, 1))), ["zero volume"]),
        (prim("Mesh", "shape", SOLID), ["no triangles"]),
        (_mesh(QUADS.replace("[0, 1,", "[0, 99,")), ["faceVertexIndices", "0..7"]),
        (_mesh(QUADS.replace("[4, 4,", "[5, 4,")), ["24 entries", "expected 25"]),
        (_mesh(QUADS + 'uniform token physics:approximation = "rough"'), ["physics:approximation", "rough"]),
        (prim("Points", "shape", SOLID, inside="point3f[] points = [(0, 0, 0), (1, 0, 0)]\n"
            "float[] widths = [1, 2, 3]"), ["widths", "3"]),
    ],
)  # fmt: skip
def test_broken_geometry_is_named(text, words):
    """Prim, attribute and value."""
    with pytest.raises(newtonsim.ImportFileError) as caught:
        read(text)
    assert all(word in str(caught.value) for word in ["/shape", *words])


def test_colliders_without_geometry_warn_by_name():
    """What cannot be modelled is never dropped in silence."""
    stage = stage_of(prim("Xform", "group", SOLID))
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="/group.*type Xform"):
        newtonsim.importers.parse_usd(stage, newtonsim.ModelBuilder())
    with pytest.raises(newtonsim.ImportFileError, match="/group"):
        newtonsim.importers.parse_usd(stage, newtonsim.ModelBuilder(), strict=True)
