"""Stages that export_usd writes, read with pxr alone."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from export_scenes import crowd, driven, looped, many_shapes, touching
from export_twins import robot
from pxr import Gf, Usd, UsdGeom, UsdPhysics, UsdShade

import newtonsim
from newtonsim.errors import UnsupportedElementWarning
from newtonsim.geometry.transforms import (
    quat_conjugate,
    quat_matrix,
    quat_multiply,
    transform_inverse,
    transform_multiply,
)
from newtonsim.scene.enums import JointMode, JointType
from newtonsim.testing import random_model
from newtonsim.utils import export_usd


def written(source, folder: Path, **options) -> tuple[Usd.Stage, object, object]:
    """Stage, model and report."""
    model = source.finalize("cpu") if isinstance(source, newtonsim.ModelBuilder) else source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        report = export_usd(model, folder / "out.usda", **options)
    return Usd.Stage.Open(report.path), model, report


def world_pose(prim: Usd.Prim) -> np.ndarray:
    matrix = UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default())
    q = matrix.RemoveScaleShear().ExtractRotationQuat()
    return np.array([*matrix.ExtractTranslation(), *q.GetImaginary(), q.GetReal()])


def local(position: Gf.Vec3f, rotation: Gf.Quatf) -> np.ndarray:
    return np.array([*position, *rotation.GetImaginary(), rotation.GetReal()])


def joint_frames(stage: Usd.Stage, joint: UsdPhysics.Joint) -> tuple[np.ndarray, np.ndarray]:
    """World poses of a joint's frames on both bodies."""
    sides = []
    attributes = (
        (joint.GetBody0Rel(), joint.GetLocalPos0Attr(), joint.GetLocalRot0Attr()),
        (joint.GetBody1Rel(), joint.GetLocalPos1Attr(), joint.GetLocalRot1Attr()),
    )
    for relation, position, rotation in attributes:
        targets = relation.GetTargets()
        body = world_pose(stage.GetPrimAtPath(targets[0])) if targets else np.array([0, 0, 0, 0, 0, 0, 1.0])
        sides.append(transform_multiply(body, local(position.Get(), rotation.Get())))
    return sides[0], sides[1]


def fk(model) -> np.ndarray:
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state.body_q.numpy()


def same_pose(ours: np.ndarray, theirs: np.ndarray, tolerance: float = 2.0e-6) -> None:
    np.testing.assert_allclose(ours[:3], theirs[:3], atol=tolerance)
    assert abs(abs(ours[3:] @ theirs[3:]) - 1.0) < tolerance


@pytest.mark.parametrize("name", ["humanoid.xml", "arm7.urdf", "quadruped.xml"])
def test_bodies_stand_and_weigh_as_in_the_model(tmp_path, name):
    builder = robot(name)
    rng = np.random.default_rng(0)
    free = 7 if builder.joint_type[0] == JointType.FREE else 0
    builder.joint_q[free:] = rng.normal(size=builder.joint_coord_count - free).tolist()
    stage, model, report = written(builder, tmp_path)
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert UsdPhysics.GetStageKilogramsPerUnit(stage) == 1.0
    poses = fk(model)
    for body, path in report.bodies.items():
        prim = stage.GetPrimAtPath(path)
        same_pose(world_pose(prim), poses[body])
        assert prim.HasAPI(UsdPhysics.RigidBodyAPI)
        mass = UsdPhysics.MassAPI(prim)
        assert mass.GetMassAttr().Get() == pytest.approx(model.body_mass.numpy()[body], rel=1e-6)
        np.testing.assert_allclose(mass.GetCenterOfMassAttr().Get(), model.body_com.numpy()[body], atol=1e-7)
        axes = mass.GetPrincipalAxesAttr().Get()
        R = quat_matrix(np.array([*axes.GetImaginary(), axes.GetReal()]))
        inertia = R @ np.diag(mass.GetDiagonalInertiaAttr().Get()) @ R.T
        expected = model.body_inertia.numpy()[body]
        np.testing.assert_allclose(inertia, expected, atol=1.0e-6 * np.abs(expected).max())


def test_a_file_that_is_open_is_read_anew(tmp_path):
    """OpenUSD keeps layers that somebody holds, also when their files were replaced."""
    path = tmp_path / "robot.usda"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        export_usd(robot("double_pendulum.xml"), path)
        kept = Usd.Stage.Open(str(path))
        report = export_usd(robot("arm7.urdf"), path)
    again = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    result = newtonsim.utils.parse_usd(path, again)
    assert set(result["path_body_map"]) == set(report.bodies.values())
    assert kept.GetPrimAtPath(next(iter(report.bodies.values())))


def test_joint_frames_meet_where_coordinates_are_zero(tmp_path):
    types = (JointType.REVOLUTE, JointType.PRISMATIC, JointType.BALL, JointType.FIXED, JointType.UNIVERSAL)
    builder = random_model(2, joint_types=(*types, JointType.D6, JointType.COMPOUND), base=JointType.D6)
    builder.joint_q[:] = [0.0] * builder.joint_coord_count
    for kind, start in zip(builder.joint_type, builder.joint_q_start):
        if kind == JointType.BALL:
            builder.joint_q[start + 3] = 1.0
    stage, _, report = written(builder, tmp_path)
    assert len(report.joints) == builder.joint_count
    for (path,) in report.joints.values():
        first, second = joint_frames(stage, UsdPhysics.Joint(stage.GetPrimAtPath(path)))
        same_pose(first, second)


def test_single_axes_turn_and_slide_as_the_model_says(tmp_path):
    builder = random_model(4, joint_types=(JointType.REVOLUTE, JointType.PRISMATIC), base=JointType.REVOLUTE)
    rng = np.random.default_rng(1)
    builder.joint_q[:] = rng.uniform(-1.5, 1.5, builder.joint_coord_count).tolist()
    stage, model, report = written(builder, tmp_path)
    for joint, (path,) in report.joints.items():
        prim = stage.GetPrimAtPath(path)
        first, second = joint_frames(stage, UsdPhysics.Joint(prim))
        motion = transform_multiply(transform_inverse(first), second)
        along = "XYZ".index(prim.GetAttribute("physics:axis").Get())
        q = model.joint_q.numpy()[joint]
        if prim.IsA(UsdPhysics.RevoluteJoint):
            expected = np.append(np.zeros(3), np.append(np.eye(3)[along] * np.sin(q / 2), np.cos(q / 2)))
        else:
            expected = np.append(np.eye(3)[along] * q, [0.0, 0.0, 0.0, 1.0])
        same_pose(motion, expected, 1.0e-5)


def test_limits_and_drives(tmp_path):
    stage, _, report = written(driven(), tmp_path)
    degree = np.pi / 180.0
    for joint, mode in enumerate((JointMode.TARGET_POSITION, JointMode.TARGET_VELOCITY, JointMode.FORCE)):
        prim = stage.GetPrimAtPath(report.joints[joint][0])
        own, drive = UsdPhysics.RevoluteJoint(prim), UsdPhysics.DriveAPI(prim, "angular")
        assert own.GetLowerLimitAttr().Get() * degree == pytest.approx(-1.0 - joint, rel=1e-6)
        assert own.GetUpperLimitAttr().Get() * degree == pytest.approx(0.5, rel=1e-6)
        assert drive.GetMaxForceAttr().Get() == 7.0 + joint
        gains = (drive.GetStiffnessAttr().Get() / degree, drive.GetDampingAttr().Get() / degree)
        expected = {0: (30.0, 4.0), 1: (0.0, 31.0), 2: (0.0, 0.0)}[joint]
        assert gains == pytest.approx(expected, rel=1e-6)
        if mode == JointMode.TARGET_POSITION:
            assert drive.GetTargetPositionAttr().Get() * degree == pytest.approx(0.25)
        if mode == JointMode.TARGET_VELOCITY:
            assert drive.GetTargetVelocityAttr().Get() * degree == pytest.approx(0.25)
        assert prim.GetAttribute("newtonsim:stiffness").Get() == pytest.approx([2.0])


def test_several_axes_lock_the_others(tmp_path):
    """Axes -z and x of translation, then y of rotation: a mirrored axis has mirrored limits."""
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(mass=1.0, I_m=np.eye(3), key="body")
    linear = [newtonsim.JointAxis((0, 0, -1), -0.5, 2.0), newtonsim.JointAxis((1, 0, 0))]
    builder.add_joint(JointType.D6, -1, body, linear, [newtonsim.JointAxis((0, 1, 0), -1.0, 0.5)], key="rail")
    stage, _, report = written(builder, tmp_path)
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    prim = stage.GetPrimAtPath(report.joints[0][0])
    turn = UsdPhysics.Joint(prim).GetLocalRot0Attr().Get()
    R = quat_matrix(np.array([*turn.GetImaginary(), turn.GetReal()]))
    bounds = {name[13:]: None for name in prim.GetAppliedSchemas() if name.startswith("PhysicsLimitAPI")}
    for name in [schema.split(":")[1] for schema in prim.GetAppliedSchemas() if "LimitAPI" in schema]:
        api = UsdPhysics.LimitAPI(prim, name)
        bounds[name] = (api.GetLowAttr().Get(), api.GetHighAttr().Get())
    free = {}
    for prefix in ("trans", "rot"):
        for k, letter in enumerate("XYZ"):
            low, high = bounds.get(prefix + letter, (-np.inf, np.inf))
            if low <= high:
                unit = 1.0 if prefix == "trans" else np.pi / 180.0
                free[prefix, tuple(R[:, k].round(6))] = (low * unit, high * unit)
    expected = {
        ("trans", (0.0, 0.0, 1.0)): (-2.0, 0.5),
        ("trans", (1.0, 0.0, 0.0)): (-np.inf, np.inf),
        ("rot", (0.0, 1.0, 0.0)): (-1.0, 0.5),
    }
    found = {}
    for (prefix, axis), limits in free.items():
        flip = min(axis) < -0.5
        found[prefix, tuple(abs(x) for x in axis)] = limits[::-1] if flip else limits
        if flip:
            found[prefix, tuple(abs(x) for x in axis)] = (-limits[1], -limits[0])
    assert found.keys() == expected.keys()
    for key, limits in expected.items():
        assert found[key] == pytest.approx(limits, rel=1e-6)


def test_shapes(tmp_path):
    builder = many_shapes(up=(0.0, 1.0, 0.0))
    builder.add_shape_ellipsoid(0, a=0.1, b=0.2, c=0.3, key="ellipsoid")
    builder.add_shape_cone(0, radius=0.2, half_height=0.4, key="cone")
    builder.set_ground_plane(mu=0.7)
    builder.shape_color[0] = (0.1, 0.2, 0.3, 0.5)
    builder.shape_flags[1] = 1
    stage, model, report = written(builder, tmp_path)
    extents = {}
    cache = UsdGeom.BBoxCache(Usd.TimeCode.Default(), ["default"])
    for shape, (path,) in report.shapes.items():
        prim = stage.GetPrimAtPath(path)
        size = cache.ComputeUntransformedBound(prim).ComputeAlignedRange().GetSize()
        scale = UsdGeom.Xformable(prim).GetLocalTransformation()
        lengths = [Gf.Vec3d(*scale.GetRow3(k)).GetLength() for k in range(3)]
        extents[model.shape_key[shape]] = np.array(size) * lengths
        if model.shape_key[shape] not in ("mesh", "box", "ellipsoid"):
            same_pose(world_pose(prim), _shape_pose(model, shape))
    np.testing.assert_allclose(extents["sphere"], [0.6] * 3, atol=1e-6)
    np.testing.assert_allclose(extents["box"], [0.2, 0.4, 0.6], atol=1e-6)
    np.testing.assert_allclose(extents["capsule"], [0.2, 0.6, 0.2], atol=1e-6)
    np.testing.assert_allclose(extents["cylinder"], [0.2, 0.6, 0.2], atol=1e-6)
    np.testing.assert_allclose(extents["ellipsoid"], [0.2, 0.4, 0.6], atol=1e-6)
    np.testing.assert_allclose(extents["cone"], [0.4, 0.8, 0.4], atol=1e-6)
    np.testing.assert_allclose(extents["mesh"], [0.3, 0.4, 1.2], atol=1e-6)
    sphere, box = (stage.GetPrimAtPath(report.shapes[shape][0]) for shape in (0, 1))
    assert sphere.HasAPI(UsdPhysics.CollisionAPI)
    assert not box.HasAPI(UsdPhysics.CollisionAPI)
    np.testing.assert_allclose(UsdGeom.Gprim(sphere).GetDisplayColorAttr().Get()[0], [0.1, 0.2, 0.3])
    ground = stage.GetPrimAtPath(report.shapes[model.ground_shape][0])
    material, _ = UsdShade.MaterialBindingAPI(ground).ComputeBoundMaterial("physics")
    assert UsdPhysics.MaterialAPI(material.GetPrim()).GetDynamicFrictionAttr().Get() == pytest.approx(0.7)


def _shape_pose(model, shape: int) -> np.ndarray:
    pose, body = model.shape_transform.numpy()[shape], int(model.shape_body.numpy()[shape])
    return pose if body < 0 else transform_multiply(fk(model)[body], pose)


def test_pairs_that_pass_through_each_other(tmp_path):
    """Groups, filtered pairs and jointed bodies, put together as UsdPhysics has it."""
    builder = crowd(ground=False)
    builder.shape_flags[6] = builder.shape_flags[7] = builder.shape_flags[0]
    stage, model, report = written(builder, tmp_path)
    shapes = {path: model.shape_key[shape] for shape, (path,) in report.shapes.items()}
    apart = set()

    def exclude(first, second):
        for one, a in shapes.items():
            for other, b in shapes.items():
                if one.startswith(str(first)) and other.startswith(str(second)):
                    apart.add(frozenset((a, b)))

    groups = {}
    for prim in stage.Traverse():
        if prim.HasAPI(UsdPhysics.FilteredPairsAPI):
            for other in UsdPhysics.FilteredPairsAPI(prim).GetFilteredPairsRel().GetTargets():
                exclude(prim.GetPath(), other)
        if prim.IsA(UsdPhysics.Joint):
            own = UsdPhysics.Joint(prim)
            ends = [relation.GetTargets() for relation in (own.GetBody0Rel(), own.GetBody1Rel())]
            if all(ends) and not own.GetCollisionEnabledAttr().Get():
                exclude(ends[0][0], ends[1][0])
        if prim.IsA(UsdPhysics.CollisionGroup):
            own = UsdPhysics.CollisionGroup(prim)
            members = own.GetCollidersCollectionAPI().GetIncludesRel().GetTargets()
            groups[prim.GetPath()] = (members, own.GetFilteredGroupsRel().GetTargets())
    for members, filtered in groups.values():
        for other in filtered:
            for a in members:
                for b in groups[other][0]:
                    exclude(a, b)
    names = sorted(shapes.values())
    pairs = {frozenset((a, b)) for a in names for b in names if a < b}
    assert pairs - apart == touching(model)


def test_constraints(tmp_path):
    builder = looped()
    builder.add_constraint_distance(0, 3, min_distance=0.1, max_distance=2.0, key="rope")
    stage, model, report = written(builder, tmp_path)
    kinds = {key: stage.GetPrimAtPath(report.constraints[i][0]) for i, key in enumerate(model.constraint_key)}
    assert kinds["touch"].IsA(UsdPhysics.SphericalJoint)
    assert kinds["glue"].IsA(UsdPhysics.FixedJoint)
    assert UsdPhysics.DistanceJoint(kinds["rope"]).GetMaxDistanceAttr().Get() == 2.0
    for key in ("touch", "glue", "rope"):
        assert UsdPhysics.Joint(kinds[key]).GetExcludeFromArticulationAttr().Get()
    own = UsdPhysics.Joint(kinds["touch"])
    np.testing.assert_allclose(own.GetLocalPos0Attr().Get(), model.constraint_X_p.numpy()[0, :3], atol=1e-6)
    targets = kinds["gear"].GetRelationship("newtonsim:coupledJoints").GetTargets()
    assert [str(path) for path in targets] == [report.joints[3][0], report.joints[0][0]]
    np.testing.assert_allclose(
        kinds["gear"].GetAttribute("newtonsim:coefficients").Get()[:3], [0.1, 2.0, -0.5]
    )


def test_velocity_gravity_and_kinematic_bodies(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(1.0, 0.0, 0.0), gravity=-3.0)
    body = builder.add_body(mass=1.0, I_m=np.eye(3), key="body")
    builder.body_qd[body] = wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    builder.add_body(key="still", origin=wp.transform((1.0, 2.0, 3.0), wp.quat_identity()))
    stage, _, report = written(builder, tmp_path)
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    scene = UsdPhysics.Scene(stage.GetPrimAtPath("/World/PhysicsScene"))
    assert scene.GetGravityMagnitudeAttr().Get() == pytest.approx(3.0)
    np.testing.assert_allclose(scene.GetGravityDirectionAttr().Get(), [0.0, 0.0, -1.0], atol=1e-6)
    # x became z, so z became -x
    moving = UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath(report.bodies[0]))
    np.testing.assert_allclose(moving.GetVelocityAttr().Get(), [-6.0, 5.0, 4.0], atol=1e-5)
    np.testing.assert_allclose(moving.GetAngularVelocityAttr().Get(), np.degrees([-3.0, 2.0, 1.0]), rtol=1e-5)
    still = stage.GetPrimAtPath(report.bodies[1])
    assert UsdPhysics.RigidBodyAPI(still).GetKinematicEnabledAttr().Get()
    np.testing.assert_allclose(world_pose(still)[:3], [-3.0, 2.0, 1.0], atol=1e-6)


def test_rotations_keep_their_sense():
    """The helpers of this file agree with pxr about the order of rotations."""
    a, b = (np.array(q) / np.linalg.norm(q) for q in ([0.1, 0.2, 0.3, 0.9], [0.5, -0.1, 0.2, 0.7]))
    product = quat_multiply(a, b)
    ours = Gf.Quatd(a[3], *a[:3]) * Gf.Quatd(b[3], *b[:3])
    np.testing.assert_allclose([*ours.GetImaginary(), ours.GetReal()], product)
    np.testing.assert_allclose(quat_multiply(a, quat_conjugate(a)), [0, 0, 0, 1], atol=1e-12)
