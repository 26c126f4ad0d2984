"""Robots of Newton's wheel against a direct reading of their stages, and a second of simulation each."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from pxr import Gf, Usd, UsdGeom, UsdPhysics
from usd_text import read, run

from newtonsim.geometry.transforms import quat_matrix

ASSETS = Path(importlib.util.find_spec("newton").origin).parent / "examples" / "assets"
ROBOTS = ("ant", "humanoid", "cartpole", "cartpole_single_pendulum", "boxes_fourbar", "palletizer_scene")
DEGREE = np.pi / 180.0


def quaternion(value: object) -> list[float]:
    """Components xyzw of one of OpenUSD's."""
    return [*value.GetImaginary(), value.GetReal()]


@pytest.fixture(scope="module", params=ROBOTS)
def robot(request):
    """The stage, our builder, our result, and OpenUSD's own parse: records by prim path."""
    stage = Usd.Stage.Open(str(ASSETS / f"{request.param}.usda"))
    builder, result = read(stage)
    found = UsdPhysics.UsdPhysicsLoadStageFromPrimRange(stage, ["/"])
    records = {str(one.primPath): one for _, (_, several) in found.items() for one in several}
    return stage, builder, result, records


def test_every_body_and_joint_is_there(robot):
    """One body per rigid body, one joint or constraint per joint of OpenUSD's parse."""
    _, _, result, records = robot
    bodies = {path for path, one in records.items() if isinstance(one, UsdPhysics.RigidBodyDesc)}
    joints = {path for path, one in records.items() if isinstance(one, UsdPhysics.JointDesc)}
    assert set(result["path_body_map"]) == bodies
    ours = {path for path in result["path_joint_map"] if path in records} | set(result["path_constraint_map"])
    assert ours == joints


def test_bodies_stand_where_the_stage_has_them(robot):
    """Positions and rotations, unless a joint moved them, which the report tells."""
    stage, builder, result, _ = robot
    if any("moved onto" in entry.message for entry in result["report"].of_kind("approximated")):
        return
    cache = UsdGeom.XformCache()
    for path, index in result["path_body_map"].items():
        pose = list(builder.body_q[index])
        # Frames of joints are written with six digits; what is above 1e-4 would be in the report.
        matrix = np.array(cache.GetLocalToWorldTransform(stage.GetPrimAtPath(path)))
        np.testing.assert_allclose(pose[:3], matrix[3, :3], atol=1e-5, err_msg=path)
        theirs = matrix[:3, :3].T / np.linalg.norm(matrix[:3, :3], axis=1)
        np.testing.assert_allclose(quat_matrix(pose[3:]), theirs, atol=1e-4, err_msg=path)


def volume_properties(stage: Usd.Stage, record: object) -> UsdPhysics.RigidBodyAPI.MassInformation:
    """Volume, centre and inertia at density 1 of a box, ball, capsule or cylinder, for OpenUSD's sum."""
    information = UsdPhysics.RigidBodyAPI.MassInformation()
    if isinstance(record, UsdPhysics.CubeShapeDesc):
        half = np.array(record.halfExtents, float)
        volume = 8.0 * half.prod()
        moments = volume / 3.0 * (np.square(half).sum() - np.square(half))
    elif isinstance(record, UsdPhysics.SphereShapeDesc):
        volume = 4.0 / 3.0 * np.pi * record.radius**3
        moments = np.full(3, 0.4 * volume * record.radius**2)
    else:
        r, h = record.radius, record.halfHeight
        tube, caps = 2.0 * np.pi * r**2 * h, 4.0 / 3.0 * np.pi * r**3
        caps *= isinstance(record, UsdPhysics.CapsuleShapeDesc)
        volume = tube + caps
        across = tube * (r**2 / 4 + h**2 / 3) + caps * (0.4 * r**2 + h**2 + 0.75 * h * r)
        moments = np.full(3, across)
        moments["XYZ".index(record.axis.name)] = tube * r**2 / 2 + caps * 0.4 * r**2
    information.volume = float(volume)
    information.inertia = Gf.Matrix3f(*np.diag(moments).ravel().tolist())
    information.centerOfMass = Gf.Vec3f(0.0)
    information.localPos, information.localRot = record.localPos, record.localRot
    return information


def test_masses_are_those_of_openusd(robot):
    """Mass, centre of mass and inertia of every body, by `ComputeMassProperties`."""
    stage, builder, result, records = robot
    for path, index in result["path_body_map"].items():
        shapes = [records[str(p)] for p in records[path].collisions]
        assert all(not isinstance(shape, UsdPhysics.MeshShapeDesc) for shape in shapes)
        if not shapes or builder.body_mass[index] == 0.0:
            continue
        api = UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath(path))
        mass, moments, com, axes = api.ComputeMassProperties(
            lambda collider: volume_properties(stage, records[str(collider.GetPath())])
        )
        rotation = quat_matrix(quaternion(axes))
        inertia = rotation @ np.diag(moments) @ rotation.T
        assert builder.body_mass[index] == pytest.approx(mass, rel=1e-4), path
        np.testing.assert_allclose(builder.body_com[index], com, atol=1e-4, err_msg=path)
        ours = np.array(builder.body_inertia[index])
        np.testing.assert_allclose(ours, inertia, atol=2e-4 * np.abs(inertia).max(), err_msg=path)


def test_frames_limits_and_drives_are_those_of_the_stage(robot):
    """Of revolute and prismatic joints, as OpenUSD parses them; the stages are in metres and kilograms."""
    stage, builder, result, records = robot
    assert (UsdGeom.GetStageMetersPerUnit(stage), result["mass_unit"]) == (1.0, 1.0)
    for path, joint in result["path_joint_map"].items():
        record = records.get(path)
        if not isinstance(record, UsdPhysics.RevoluteJointDesc | UsdPhysics.PrismaticJointDesc):
            continue
        unit = DEGREE if isinstance(record, UsdPhysics.RevoluteJointDesc) else 1.0
        axis = builder.joint_axis_start[joint]
        turned = builder.joint_child[joint] != result["path_body_map"][str(record.body1)]
        sign = -1.0 if turned else 1.0
        direction = sign * np.eye(3)["XYZ".index(record.axis.name)]
        np.testing.assert_allclose(list(builder.joint_axis[axis]), direction, err_msg=path)
        frames = (builder.joint_X_p[joint], builder.joint_X_c[joint])
        for ours, side in zip(frames[::-1] if turned else frames, (0, 1)):
            position = getattr(record, f"localPose{side}Position")
            np.testing.assert_allclose(list(ours)[:3], position, atol=1e-5, err_msg=path)
            theirs = quat_matrix(quaternion(getattr(record, f"localPose{side}Orientation")))
            np.testing.assert_allclose(quat_matrix(list(ours)[3:]), theirs, atol=1e-5, err_msg=path)
        ends = [builder.joint_limit_lower[axis], builder.joint_limit_upper[axis]]
        if record.limit.enabled:
            np.testing.assert_allclose(
                ends, np.array([record.limit.lower, record.limit.upper]) * unit, rtol=1e-5
            )
        else:
            np.testing.assert_allclose(ends, [-np.inf, np.inf])
        if record.drive.enabled and record.drive.stiffness > 0.0 and not record.drive.acceleration:
            assert builder.joint_target_ke[axis] == pytest.approx(record.drive.stiffness / unit, rel=1e-5)
            assert builder.joint_target_kd[axis] == pytest.approx(record.drive.damping / unit, rel=1e-5)
            assert builder.joint_act[axis] == pytest.approx(record.drive.targetPosition * unit, abs=1e-6)


def test_a_second_of_simulation_is_calm(robot):
    """Nothing flies away, and joints stay within their limits but for a little give."""
    stage, _, _, _ = robot
    builder, _ = read(stage)
    builder.set_ground_plane(offset=-0.01)
    start = np.array([list(pose)[:3] for pose in builder.body_q])
    model, state = run(builder, 240)
    energy_speed = np.sqrt(2 * 10.0 * (np.ptp(start[:, 2]) + 2.0 + np.abs(start).max()))
    assert np.abs(state.body_qd.numpy()[:, 3:]).max() < energy_speed
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    starts, dims = model.joint_q_start.numpy(), np.array(builder.joint_axis_dim).sum(axis=1)
    q = state.joint_q.numpy()
    values = np.concatenate([q[s : s + d] for s, d in zip(starts, dims)])
    linear = np.isfinite(lower) & np.isfinite(upper)
    assert (values[linear] > lower[linear] - 0.05).all()
    assert (values[linear] < upper[linear] + 0.05).all()
