"""Merging over fixed joints keeps mass, geometry and motion."""

import numpy as np
import pytest
import warp as wp

from newtonsim import JointType, ModelBuilder
from newtonsim.geometry.inertia import shift_inertia
from newtonsim.geometry.transforms import quat_matrix, transform_multiply, transform_point
from newtonsim.kinematics import eval_fk
from newtonsim.testing import random_model


def body_poses(builder: ModelBuilder) -> np.ndarray:
    model = builder.finalize(device="cpu")
    state = model.state()
    eval_fk(model, model.joint_q, model.joint_qd, None, state)
    return state.body_q.numpy().astype(np.float64)


def totals(builder: ModelBuilder, poses: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about the world origin of all bodies."""
    mass, first, inertia = 0.0, np.zeros(3), np.zeros((3, 3))
    for b in range(builder.body_count):
        rotation = quat_matrix(poses[b, 3:])
        com = transform_point(poses[b], np.array(builder.body_com[b], float))
        mass += builder.body_mass[b]
        first += builder.body_mass[b] * com
        inertia += shift_inertia(
            rotation @ np.array(builder.body_inertia[b]) @ rotation.T, builder.body_mass[b], com
        )
    return mass, first / mass, inertia


def welded_model() -> ModelBuilder:
    builder = random_model(
        5,
        body_count=14,
        joint_types=[JointType.FIXED, JointType.REVOLUTE, JointType.BALL],
        base=JointType.FREE,
    )
    rng = np.random.default_rng(1)
    builder.joint_q[7:] = rng.normal(size=len(builder.joint_q) - 7).tolist()
    for b in range(builder.body_count):
        builder.add_shape_box(b, pos=rng.normal(size=3), rot=rng.normal(size=4), hx=0.1, hy=0.2, hz=0.3)
    builder.sites.append({"name": "tip", "body": 9, "xform": wp.transform((0.1, 0, 0), (0, 0, 0, 1))})
    return builder


def shape_poses(builder: ModelBuilder, poses: np.ndarray) -> np.ndarray:
    return np.array(
        [
            transform_multiply(poses[b] if b >= 0 else (0, 0, 0, 0, 0, 0, 1), builder.shape_transform[s])
            for s, b in enumerate(builder.shape_body)
        ]
    )


def test_collapse_keeps_mass_inertia_and_shapes_where_they_were():
    builder = welded_model()
    before_poses = body_poses(builder)
    before, shapes_before = totals(builder, before_poses), shape_poses(builder, before_poses)
    site = builder.sites[0]
    site_before = transform_multiply(before_poses[site["body"]], site["xform"])
    fixed = builder.joint_type.count(JointType.FIXED)
    bodies = builder.body_count
    result = builder.collapse_fixed_joints()
    assert fixed > 2
    assert JointType.FIXED not in builder.joint_type
    assert builder.body_count == bodies - fixed
    after_poses = body_poses(builder)
    after = totals(builder, after_poses)
    assert after[0] == pytest.approx(before[0], rel=1e-6)
    np.testing.assert_allclose(after[1], before[1], atol=1e-5)
    np.testing.assert_allclose(after[2], before[2], rtol=1e-4, atol=1e-3)
    shapes_after = shape_poses(builder, after_poses)
    np.testing.assert_allclose(shapes_after[:, :3], shapes_before[:, :3], atol=1e-5)
    aligned = np.abs(np.sum(shapes_after[:, 3:] * shapes_before[:, 3:], axis=1))
    np.testing.assert_allclose(aligned, 1.0, atol=1e-5)
    site = builder.sites[0]
    site_after = transform_multiply(after_poses[site["body"]], site["xform"])
    np.testing.assert_allclose(site_after[:3], site_before[:3], atol=1e-5)
    for old, new in result["body_remap"].items():
        np.testing.assert_allclose(after_poses[new, :3], before_poses[old, :3], atol=1e-5)
    for old, parent in result["body_merged_parent"].items():
        place = transform_multiply(after_poses[parent], result["body_merged_transform"][old])
        np.testing.assert_allclose(place[:3], before_poses[old, :3], atol=1e-5)
    assert set(result["merged_body_data"]) == set(result["body_merged_parent"])


def test_joint_remap_points_to_the_same_joints():
    builder = welded_model()
    keys = list(builder.joint_key)
    result = builder.collapse_fixed_joints()
    assert {builder.joint_key[new] for new in result["joint_remap"].values()} == set(builder.joint_key)
    assert all(builder.joint_key[new] == keys[old] for old, new in result["joint_remap"].items())


def test_what_is_fixed_to_the_world_becomes_part_of_it():
    builder = ModelBuilder()
    builder.add_articulation("arm")
    base = builder.add_body(mass=3.0, I_m=np.eye(3), key="base")
    link = builder.add_body(mass=1.0, I_m=np.eye(3), key="link")
    builder.add_joint_fixed(-1, base, parent_xform=((1, 2, 3), (0, 0, 0, 1)))
    builder.add_joint_revolute(base, link, parent_xform=((0, 1, 0), (0, 0, 0, 1)), key="hinge")
    builder.add_shape_sphere(base, radius=0.1)
    result = builder.collapse_fixed_joints()
    assert result["body_merged_parent"] == {0: -1}
    assert builder.shape_body == [-1]
    np.testing.assert_allclose(builder.shape_transform[0].p, (1, 2, 3))
    assert builder.joint_parent == [-1]
    np.testing.assert_allclose(builder.joint_X_p[0].p, (1, 3, 3))
    model = builder.finalize(device="cpu")
    assert (model.body_key, model.articulation_key) == (["link"], ["arm"])
    np.testing.assert_array_equal(model.articulation_start.numpy(), [0, 1])


def test_articulation_left_without_joints_disappears():
    builder = ModelBuilder()
    for name in ("post", "gate"):
        builder.add_articulation(name)
        body = builder.add_body(mass=1.0, I_m=np.eye(3))
        (builder.add_joint_fixed if name == "post" else builder.add_joint_revolute)(-1, body)
    builder.collapse_fixed_joints()
    assert (builder.articulation_key, builder.articulation_start) == (["gate"], [0])


def test_verbose_prints_the_merged_bodies(capsys):
    builder = welded_model()
    builder.collapse_fixed_joints(verbose=False)
    assert capsys.readouterr().out == ""
    result = (again := welded_model()).collapse_fixed_joints(verbose=True)
    assert capsys.readouterr().out.count("merged") == len(result["merged_body_data"])
    assert again.body_count == builder.body_count
