"""USD animations: every shape has the right size, place and axis, and bodies move as recorded."""

import numpy as np
import pytest
from pxr import Usd, UsdGeom

import newtonsim
from newtonsim.render.sim_renderer.usd import UsdAnimation, prim_name

TETRAHEDRON = newtonsim.Mesh(
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
)
QUARTER_ABOUT_Z = (0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4))  # turns local y to -x
PLACE = np.array([1.0, 2.0, 3.0])
# How to add a shape, and its extent along x, y, z in its own axes [m].
SHAPES = {
    "sphere": (lambda b, body: b.add_shape_sphere(body, radius=0.3), [[-0.3, 0.3]] * 3),
    "box": (
        lambda b, body: b.add_shape_box(body, hx=0.1, hy=0.2, hz=0.3),
        [[-0.1, 0.1], [-0.2, 0.2], [-0.3, 0.3]],
    ),
    "capsule": (
        lambda b, body: b.add_shape_capsule(body, radius=0.1, half_height=0.4),
        [[-0.1, 0.1], [-0.5, 0.5], [-0.1, 0.1]],
    ),
    "capsule along z": (
        lambda b, body: b.add_shape_capsule(body, radius=0.1, half_height=0.4, up_axis=2),
        [[-0.1, 0.1], [-0.1, 0.1], [-0.5, 0.5]],
    ),
    "cylinder": (
        lambda b, body: b.add_shape_cylinder(body, radius=0.1, half_height=0.4),
        [[-0.1, 0.1], [-0.4, 0.4], [-0.1, 0.1]],
    ),
    "cone": (
        lambda b, body: b.add_shape_cone(body, radius=0.1, half_height=0.4),
        [[-0.1, 0.1], [-0.4, 0.4], [-0.1, 0.1]],
    ),
    "ellipsoid": (
        lambda b, body: b.add_shape_ellipsoid(body, a=0.1, b=0.2, c=0.3),
        [[-0.1, 0.1], [-0.2, 0.2], [-0.3, 0.3]],
    ),
    "mesh": (
        lambda b, body: b.add_shape_mesh(body, mesh=TETRAHEDRON, scale=(1.0, 2.0, 0.5)),
        [[0, 1], [0, 2], [0, 0.5]],
    ),
}


def animation_of(builder: newtonsim.ModelBuilder, path, **options) -> Usd.Stage:
    model = builder.finalize("cpu")
    animation = UsdAnimation(path, model, **options)
    animation.record(model.state(), 0.0)
    animation.save()
    return Usd.Stage.Open(str(path))


def extent_of(stage: Usd.Stage, name: str) -> np.ndarray:
    """Return the box (3, 2) around the shapes of a body in the world."""
    (prim,) = [p for p in stage.Traverse() if p.GetName().startswith(name)]
    bounds = UsdGeom.BBoxCache(stage.GetStartTimeCode(), [UsdGeom.Tokens.default_]).ComputeWorldBound(prim)
    box = bounds.ComputeAlignedRange()
    return np.array([box.GetMin(), box.GetMax()]).T


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_size_place_and_axis(name: str, turned: bool, tmp_path):
    add, extent = SHAPES[name]
    builder = newtonsim.ModelBuilder()
    rotation = QUARTER_ABOUT_Z if turned else (0.0, 0.0, 0.0, 1.0)
    body = builder.add_body(origin=(*PLACE, *rotation), mass=1.0, key="thing")
    add(builder, body)
    expected = np.array(extent, dtype=float)
    if turned:
        expected = np.array([-expected[1, ::-1], expected[0], expected[2]])
    found = extent_of(animation_of(builder, tmp_path / "shape.usda"), "thing")
    np.testing.assert_allclose(found, expected + PLACE[:, None], atol=1e-5)


def test_ground_faces_up_and_belongs_to_all_worlds(tmp_path):
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    robot.add_shape_sphere(robot.add_body(key="ball"), radius=0.1)
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    builder.replicate(robot, 3, spacing=(0, 0, 0))
    builder.set_ground_plane(offset=-0.5)
    stage = animation_of(builder, tmp_path / "ground.usdc", worlds=[0, 2], spacing=2.0)
    assert UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.z
    (ground,) = [UsdGeom.Mesh(p) for p in stage.Traverse() if p.IsA(UsdGeom.Mesh)]
    to_world = UsdGeom.XformCache().GetLocalToWorldTransform(ground.GetPrim())
    corners = np.array([to_world.Transform(point) for point in ground.GetPointsAttr().Get()])
    np.testing.assert_allclose(corners[:, 2], -0.5, atol=1e-5)
    a, b, c = corners[np.array(ground.GetFaceVertexIndicesAttr().Get())[:3]]
    assert np.cross(b - a, c - b)[2] > 0.0
    balls = [p for p in stage.Traverse() if p.GetName().startswith("ball")]
    assert [str(p.GetPath()).split("/")[2] for p in balls] == ["world_0", "world_2"]


def test_bodies_move_as_recorded(tmp_path):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_box(builder.add_body(key="box"), hx=0.1, hy=0.1, hz=0.1)
    model = builder.finalize("cpu")
    animation = UsdAnimation(tmp_path / "move.usda", model, fps=50.0)
    state = model.state()
    poses = np.array([[0, 0, 0, 0, 0, 0, 1], [1, 2, 3, *QUARTER_ABOUT_Z]], dtype=np.float32)
    for k, pose in enumerate(poses):
        state.body_q.assign(pose[None])
        animation.record(state, 0.5 * k)
    animation.save()
    stage = Usd.Stage.Open(str(tmp_path / "move.usda"))
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0.0, 25.0)
    (box,) = [p for p in stage.Traverse() if p.GetName().startswith("box")]
    matrix = UsdGeom.XformCache(25.0).GetLocalToWorldTransform(box)
    np.testing.assert_allclose(matrix.ExtractTranslation(), poses[1, :3], atol=1e-6)
    np.testing.assert_allclose(matrix.TransformDir((0, 1, 0)), [-1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("key", ["leg/left foot", "3rd", "", "Größe", "a-b.c"])
def test_names_are_legal(key: str):
    from pxr import Sdf

    assert Sdf.Path.IsValidIdentifier(prim_name(key))
