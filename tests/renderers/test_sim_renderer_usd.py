"""SimRendererUsd: what is read back from the file is what the states hold."""

import numpy as np
import pytest
import warp as wp
from drawn_scenes import SOLID, random_state, shapes, soft
from pxr import Usd, UsdGeom

import newtonsim
from newtonsim.geometry.tetmesh import surface_triangles
from newtonsim.geometry.transforms import quat_matrix, transform_multiply, transform_point
from newtonsim.utils import SimRenderer, SimRendererUsd

FPS = 50


def recorded(model, path, states, **options) -> Usd.Stage:
    renderer = SimRendererUsd(model, str(path), fps=FPS, **options)
    time = 0.0
    for state in states:
        renderer.begin_frame(time)
        renderer.render(state)
        renderer.end_frame()
        time += 1.0 / FPS
    renderer.save()
    return Usd.Stage.Open(str(path))


def prim(stage: Usd.Stage, path: str) -> Usd.Prim:
    """Find a prim below the default one."""
    return stage.GetPrimAtPath(stage.GetDefaultPrim().GetPath().AppendPath(path))


def prims(stage: Usd.Stage, world: str) -> list[Usd.Prim]:
    return list(Usd.PrimRange(prim(stage, world)))[1:]


def matrix_of(pose: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Matrix that acts on rows, as those of USD, of a pose (7,)."""
    matrix = np.eye(4)
    matrix[:3, :3] = scale * quat_matrix(pose[3:]).T
    matrix[3, :3] = scale * pose[:3]
    return matrix


@pytest.mark.parametrize("ending", ["usda", "usdc"])
@pytest.mark.parametrize("up", ["Y", "Z"])
def test_bodies_and_shapes_are_where_the_states_have_them(ending: str, up: str, tmp_path):
    scene = newtonsim.ModelBuilder(up_vector=(0, 1, 0) if up == "Y" else (0, 0, 1))
    scene.replicate(shapes(up_vector=scene.up_vector), 2, spacing=(3, 0, 3))
    model = scene.finalize("cpu")
    states = [random_state(model, seed) for seed in range(3)]
    stage = recorded(model, tmp_path / f"a.{ending}", states, scaling=100.0)
    assert UsdGeom.GetStageUpAxis(stage) == up
    assert UsdGeom.GetStageMetersPerUnit(stage) == pytest.approx(0.01)
    assert (stage.GetTimeCodesPerSecond(), stage.GetFramesPerSecond()) == (FPS, FPS)
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0.0, 2.0)
    shape_body, local = model.shape_body.numpy(), model.shape_transform.numpy().astype(float)
    for frame, state in enumerate(states):
        cache, body_q = UsdGeom.XformCache(float(frame)), state.body_q.numpy().astype(float)
        bodies = [p for world in range(2) for p in prims(stage, f"world_{world}") if p.IsA(UsdGeom.Xform)]
        assert len(bodies) == model.body_count
        for body, prim in enumerate(bodies):
            assert prim.GetAttribute("xformOp:translate").GetTimeSamples() == [0.0, 1.0, 2.0]
            found = np.array(cache.GetLocalToWorldTransform(prim))
            # translations are written in double precision; quaternions of float32 are unit to 1e-7 only
            np.testing.assert_allclose(found[3, :3], 100.0 * body_q[body, :3], rtol=1e-14)
            np.testing.assert_allclose(found, matrix_of(body_q[body], 100.0), rtol=1e-14, atol=5e-5)
            (child,) = prim.GetChildren()
            (shape,) = np.flatnonzero(shape_body == body)
            found = UsdGeom.Xformable(child).GetLocalTransformation() * cache.GetLocalToWorldTransform(prim)
            expected = matrix_of(transform_multiply(body_q[body], local[shape]), 100.0)
            rows = np.array(found)
            np.testing.assert_allclose(rows[3], expected[3], atol=5e-5)
            lengths = np.linalg.norm(rows[:3, :3], axis=1, keepdims=True)
            np.testing.assert_allclose(rows[:3, :3] / lengths, expected[:3, :3] / 100.0, atol=1e-6)


def test_colors_opacity_and_what_is_not_drawn(tmp_path):
    builder = newtonsim.ModelBuilder()
    for key, color in (("red", (1.0, 0.0, 0.0, 0.5)), ("none", None), ("hidden", None)):
        builder.add_shape_sphere(builder.add_body(key=key), radius=0.1)
        builder.shape_color[-1] = color
    builder.shape_flags[-1] &= ~int(newtonsim.ShapeFlags.VISIBLE)
    model = builder.finalize("cpu")
    stage = recorded(model, tmp_path / "a.usda", [model.state()])
    balls = [UsdGeom.Sphere(p) for p in stage.Traverse() if p.IsA(UsdGeom.Sphere)]
    assert len(balls) == 2
    assert tuple(balls[0].GetDisplayColorAttr().Get()[0]) == (1.0, 0.0, 0.0)
    assert balls[0].GetDisplayOpacityAttr().Get()[0] == 0.5
    assert len(balls[1].GetDisplayColorAttr().Get()) == 1


def test_bodies_have_the_same_names_in_all_worlds(tmp_path):
    robot = newtonsim.ModelBuilder()
    for key in ("trunk", "leg", "leg", "leg 1", "7th", "surface"):
        robot.add_shape_sphere(robot.add_body(key=key), radius=0.1)
    scene = newtonsim.ModelBuilder()
    scene.replicate(robot, 2, spacing=(1, 0, 0))
    model = scene.finalize("cpu")
    stage = recorded(model, tmp_path / "a.usda", [model.state()])
    for world in range(2):
        names = prim(stage, f"world_{world}").GetChildrenNames()
        assert names == ["trunk", "leg", "leg_1", "leg_1_1", "_7th", "surface_1"]


def test_particles_cloth_soft_bodies_springs_and_muscles(tmp_path):
    model = soft().finalize("cpu")
    states = [random_state(model, seed) for seed in range(2)]
    stage = recorded(model, tmp_path / "a.usdc", states)
    triangles, tets = model.tri_indices.numpy(), model.tet_indices.numpy()
    springs = model.spring_indices.numpy().reshape(-1, 2)
    bound = np.unique([*triangles.reshape(-1), *tets.reshape(-1)])
    ropes = springs[~np.isin(springs, bound).all(axis=1)]
    loose = np.setdiff1d(np.arange(model.particle_count), bound)
    mesh, lines, dots, muscles = (
        prim(stage, f"world_0/{name}") for name in ("surface", "springs", "particles", "muscles")
    )
    faces = np.array(UsdGeom.Mesh(mesh).GetFaceVertexIndicesAttr().Get()).reshape(-1, 3)
    assert len(faces) == len(triangles)
    assert len(ropes) == 3
    np.testing.assert_allclose(
        UsdGeom.Points(dots).GetWidthsAttr().Get(), 2.0 * model.particle_radius.numpy()[loose]
    )
    bodies, local = model.muscle_bodies.numpy(), model.muscle_points.numpy()
    for frame, state in enumerate(states):
        q = state.particle_q.numpy()
        points = np.array(UsdGeom.Mesh(mesh).GetPointsAttr().Get(frame))
        np.testing.assert_array_equal(points[faces], q[triangles])
        points = np.array(UsdGeom.BasisCurves(lines).GetPointsAttr().Get(frame))
        np.testing.assert_array_equal(points.reshape(-1, 2, 3), q[ropes])
        np.testing.assert_array_equal(UsdGeom.Points(dots).GetPointsAttr().Get(frame), q[loose])
        expected = transform_point(state.body_q.numpy()[bodies].astype(float), local)
        found = UsdGeom.BasisCurves(muscles).GetPointsAttr().Get(frame)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_tetrahedra_without_triangles_have_a_surface(tmp_path):
    builder = newtonsim.ModelBuilder()
    for point in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]):
        builder.add_particle(point, (0, 0, 0), 1.0)
    tets = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    for tet in tets:
        builder.add_tetrahedron(*tet.tolist())
    model = builder.finalize("cpu")
    stage = recorded(model, tmp_path / "a.usda", [model.state()])
    mesh = UsdGeom.Mesh(prim(stage, "world_0/surface"))
    faces = np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3)
    assert sorted(map(sorted, faces.tolist())) == sorted(map(sorted, surface_triangles(tets).tolist()))
    # 1/6 for the corner of the cube, and 1/3 beyond its face: divergence theorem
    a, b, c = np.array(mesh.GetPointsAttr().Get(0.0), dtype=float)[faces].transpose(1, 0, 2)
    assert np.einsum("ij,ij->", np.cross(a, b), c) / 6.0 == pytest.approx(0.5)


def test_contacts_and_joints(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    ball = builder.add_body(origin=(1.0, 2.0, 0.09, 0, 0, 0, 1), mass=1.0)
    builder.add_shape_sphere(ball, radius=0.1, thickness=0.0)
    arm = builder.add_body(origin=(1.0, 2.0, 3.0, 0, 0, 0, 1), **SOLID)
    builder.add_joint_free(ball)
    anchor = (0.1, 0.2, 0.3, *(0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)))
    builder.add_joint_revolute(ball, arm, parent_xform=anchor, axis=(1, 0, 0), key="hinge")
    builder.add_shape_plane((0, 0, 1, 0), width=0.0, length=0.0, thickness=0.0)
    model = builder.finalize("cpu")
    options = {"show_joints": True, "show_rigid_contact_points": True, "contact_points_radius": 0.01}
    stage = recorded(model, tmp_path / "a.usda", [model.state()], **options)
    points = UsdGeom.Points(prim(stage, "contacts"))
    np.testing.assert_allclose(points.GetWidthsAttr().Get(), 0.02)
    low_first = sorted(np.array(points.GetPointsAttr().Get(0.0)).tolist(), key=lambda point: point[2])
    np.testing.assert_allclose(low_first, [[1, 2, -0.01], [1, 2, 0.0]], atol=1e-6)
    normal = np.array(UsdGeom.BasisCurves(prim(stage, "contact_normals")).GetPointsAttr().Get(0.0))
    np.testing.assert_allclose(np.abs(normal[1] - normal[0]), [0, 0, 0.2], atol=1e-6)
    (axes,) = [p for p in stage.Traverse() if p.GetName().startswith("joint_hinge") and "axes" in p.GetName()]
    start, end = np.array(UsdGeom.BasisCurves(axes).GetPointsAttr().Get())
    to_world = UsdGeom.XformCache(0.0).GetLocalToWorldTransform(axes)
    np.testing.assert_allclose(to_world.Transform(start.tolist()), [1.1, 2.2, 0.39], atol=1e-6)
    np.testing.assert_allclose((end - start) / np.linalg.norm(end - start), [0, 1, 0], atol=1e-6)


def test_contacts_of_a_buffer(tmp_path):
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(origin=(0, 0.1, 0, 0, 0, 0, 1)), radius=0.1)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    renderer, counts = SimRenderer(model, tmp_path / "a.usda"), []
    for frame, height in enumerate((0.1, 1.0)):
        state = model.state()
        state.body_q.assign(np.array([[0, height, 0, 0, 0, 0, 1]], dtype=np.float32))
        renderer.begin_frame(frame / 60)
        renderer.render(state)
        renderer.render_contacts(state, newtonsim.collide(model, state), contact_point_radius=1e-2)
        points = UsdGeom.Points(prim(renderer.stage, "contacts")).GetPointsAttr()
        counts.append(len(points.Get(renderer.time)))
    assert counts == [2, 0]


def test_lines_of_newton_examples_run(tmp_path):
    model = shapes().finalize("cpu")
    stage_path, state = str(tmp_path / "example.usd"), model.state()
    renderer = newtonsim.utils.SimRenderer(model, stage_path, scaling=10.0)
    with wp.ScopedTimer("render", active=False):
        renderer.begin_frame(0.5)
        renderer.render(state)
        renderer.render_box(
            pos=(1.0, 2.0, 3.0),
            rot=wp.quat_identity(),
            extents=(0.1, 0.1, 0.1),
            name="target",
            color=(0.0, 0.0, 0.0),
        )
        renderer.render_line_strip(
            vertices=[wp.vec3(0.0, 0.0, 0.0), wp.vec3(0.0, 1.0, 1.0)],
            color=wp.render.bourke_color_map(0.0, 7.0, 3.0)
            if hasattr(wp.render, "bourke_color_map")
            else (1, 0, 0),
            radius=0.02,
            name="traj_0",
        )
        renderer.end_frame()
    renderer.save()
    stage = Usd.Stage.Open(stage_path)
    target = UsdGeom.XformCache(30.0).GetLocalToWorldTransform(prim(stage, "target"))
    np.testing.assert_allclose(target.ExtractTranslation(), [10, 20, 30])
    assert SimRenderer is SimRendererUsd
    assert isinstance(renderer, wp.render.UsdRenderer)


def test_bad_arguments(tmp_path):
    model = shapes(up_vector=(1, 0, 0)).finalize("cpu")
    for message, options in {
        "up axis X": {},
        "up_axis: expected X, Y or Z": {"up_axis": "W"},
        "scaling: expected a positive": {"scaling": 0.0},
        "fps: expected a positive": {"fps": -1},
        "must end in .usd": {"path": tmp_path / "a.txt"},
        "there is no folder": {"path": tmp_path / "none" / "a.usd"},
        "world 3: the model has 1": {"worlds": [3]},
        "world 0 is listed twice": {"worlds": [0, 0]},
        "contact_points_radius": {"contact_points_radius": 0.0},
    }.items():
        with pytest.raises(newtonsim.ModelError, match=message):
            SimRendererUsd(model, **{"path": tmp_path / "a.usd", **options})
    with pytest.raises(TypeError, match="screen_width"):
        SimRendererUsd(model, tmp_path / "a.usd", up_axis="Y", screen_width=100)
    renderer = SimRendererUsd(model, tmp_path / "a.usd", up_axis="z")
    with pytest.raises(newtonsim.ModelError, match="body_q"):
        renderer.render(newtonsim.State())
    with pytest.raises(newtonsim.ModelError, match="got a NoneType"):
        renderer.render(None)
    with pytest.raises(newtonsim.ModelError, match="model: expected a Model"):
        SimRendererUsd(None, tmp_path / "a.usd")
    assert not list(tmp_path.iterdir())
