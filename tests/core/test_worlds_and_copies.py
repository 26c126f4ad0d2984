"""Copies of builders: block copies against a loop, moved roots, groups, articulations."""

import copy
import itertools

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import JointType, ModelBuilder
from newtonsim.builder.worlds import grid_offsets
from newtonsim.geometry.transforms import quat_rotate, transform_multiply, transform_point
from newtonsim.kinematics import eval_fk
from newtonsim.scene.arrays import MODEL_ARRAYS
from newtonsim.testing import random_model

TILT = wp.transform((1.0, 2.0, 3.0), wp.quat(0.18257419, 0.36514837, 0.54772256, 0.73029674))


def rich_builder() -> ModelBuilder:
    """A tree of all joint types with shapes, particles, a spring, a muscle, a site and a keyframe."""
    builder = random_model(4)
    builder.add_shape_box(0, hx=0.1, collision_group=2)
    builder.add_shape_sphere(1, radius=0.1)
    builder.add_shape_capsule(-1, pos=(0.5, 0.0, 0.0), radius=0.1, half_height=0.2, collision_group=5)
    builder.shape_collision_filter_pairs.add((0, 2))
    builder.add_particle((0.1, 0.2, 0.3), (1.0, 0.0, 0.0), 1.0)
    builder.add_particle((0.4, 0.2, 0.3), (0.0, 1.0, 0.0), 1.0)
    builder.add_spring(0, 1, 10.0, 0.1, 0.0)
    builder.add_muscle([0, 3], [(0, 0, 0), (0, 0.1, 0)], 1.0, 1.0, 1.0, 1.0, 0.0)
    builder.sites.append({"name": "tip", "body": 3, "xform": wp.transform_identity()})
    builder.add_loop_joint(newtonsim.JointType.PRISMATIC, -1, 2, linear_axes=[(0.0, 1.0, 0.0)])
    builder.add_loop_joint(newtonsim.JointType.REVOLUTE, 3, 0, angular_axes=[(0.0, 0.0, 1.0)])
    builder.add_constraint_distance(1, -1, max_distance=2.0)
    hinges = [j for j, kind in enumerate(builder.joint_type) if kind == newtonsim.JointType.REVOLUTE]
    builder.add_constraint_coupling(hinges[0], hinges[1], (0.1, -2.0, 0.5))
    builder.joint_mimic.append((hinges[1], hinges[0], 0.5, 0.1))
    builder.keyframes.append(
        {"name": "home", "joint_q": list(builder.joint_q), "joint_qd": None, "joint_act": None}
    )
    return builder


def assert_same_lists(a: ModelBuilder, b: ModelBuilder) -> None:
    for spec in MODEL_ARRAYS:
        left, right = getattr(a, spec.name), getattr(b, spec.name)
        assert len(left) == len(right), spec.name
        if spec.dtype is None:
            assert left == right, spec.name
        elif left:
            np.testing.assert_allclose(
                np.array(left, float), np.array(right, float), atol=1e-6, err_msg=spec.name
            )
    for name in (
        "articulation_start",
        "articulation_key",
        "joint_mimic",
        "shape_collision_filter_pairs",
        "num_envs",
    ):
        assert getattr(a, name) == getattr(b, name), name
    assert [(s["name"], s["body"]) for s in a.sites] == [(s["name"], s["body"]) for s in b.sites]


def test_replicate_equals_a_loop_of_add_builder():
    env = rich_builder()
    blocks, loop = ModelBuilder(), ModelBuilder()
    for target in (blocks, loop):  # contents before the copies shift all indices
        target.add_body(key="marker")
        target.add_shape_box(-1, hx=0.3)
        target.add_particle((0, 0, 0), (0, 0, 0), 0.0)
    blocks.replicate(env, 5, spacing=(2.0, 0.0, 3.0), xform=TILT)
    for offset in grid_offsets(5, (2.0, 0.0, 3.0)):
        place = np.array(TILT, float)
        place[:3] += offset
        loop.add_builder(env, xform=wp.transform(*place))
    assert_same_lists(blocks, loop)


def test_copying_leaves_the_source_alone():
    env = rich_builder()
    env.add_body(mass=1.0, I_m=np.eye(3), key="loose")
    before = copy.deepcopy(env)
    main = ModelBuilder()
    main.replicate(env, 3, (1.0, 0.0, 0.0), xform=TILT)
    main.body_q[0][0] = 99.0
    main.body_q[env.body_count][0] = 98.0
    assert_same_lists(env, before)
    assert main.body_q[0][0] != main.body_q[env.body_count][0]


@pytest.mark.parametrize("base", [JointType.FREE, JointType.REVOLUTE, JointType.DISTANCE, JointType.FIXED])
def test_xform_moves_every_body_rigidly(base):
    """Forward kinematics of the moved copy equals the moved forward kinematics, velocities included."""
    env = random_model(7, base=base)
    rng = np.random.default_rng(0)
    env.joint_qd = rng.normal(size=len(env.joint_qd)).tolist()
    plain, moved = ModelBuilder(), ModelBuilder()
    plain.add_builder(env)
    moved.add_builder(env, xform=TILT)
    states = []
    for builder in (plain, moved):
        model = builder.finalize(device="cpu")
        state = model.state()
        eval_fk(model, model.joint_q, model.joint_qd, None, state)
        states.append((state.body_q.numpy(), state.body_qd.numpy()))
    expected = transform_multiply(np.array(TILT, float), states[0][0])
    np.testing.assert_allclose(states[1][0][:, :3], expected[:, :3], atol=2e-5)
    aligned = np.abs(np.sum(states[1][0][:, 3:] * expected[:, 3:], axis=1))
    np.testing.assert_allclose(aligned, 1.0, atol=1e-5)
    rotation = np.array(TILT, float)[3:]
    for part in (slice(0, 3), slice(3, 6)):
        np.testing.assert_allclose(
            states[1][1][:, part], quat_rotate(rotation, states[0][1][:, part]), atol=2e-4
        )


def test_xform_moves_static_shapes_and_particles_but_not_attached_shapes():
    env = ModelBuilder()
    body = env.add_body(mass=1.0, I_m=np.eye(3))
    env.add_shape_box(body, pos=(0.1, 0.0, 0.0), density=0.0)
    env.add_shape_box(-1, pos=(0.1, 0.0, 0.0))
    env.add_particle((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), 1.0)
    main = ModelBuilder()
    main.add_builder(env, xform=TILT)
    rotation = np.array(TILT, float)[3:]
    np.testing.assert_allclose(main.shape_transform[0].p, (0.1, 0.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(main.shape_transform[1].p, transform_point(TILT, (0.1, 0, 0)), atol=1e-5)
    np.testing.assert_allclose(main.particle_q[0], transform_point(TILT, (1, 0, 0)), atol=1e-5)
    np.testing.assert_allclose(main.particle_qd[0], quat_rotate(rotation, (1.0, 0, 0)), atol=1e-5)


def test_grid_is_centred_square_and_without_repeats():
    offsets = grid_offsets(10, (2.0, 0.0, 3.0))
    assert len({tuple(row) for row in offsets.tolist()}) == 10
    np.testing.assert_allclose(0.5 * (offsets.min(axis=0) + offsets.max(axis=0)), 0.0, atol=1e-12)
    assert np.ptp(offsets[:, 0]) <= 3 * 2.0
    assert np.ptp(offsets[:, 2]) <= 3 * 3.0
    np.testing.assert_array_equal(offsets[:, 1], 0.0)
    np.testing.assert_allclose(grid_offsets(4, (1.0, 0.0, 0.0))[:, 0], (-1.5, -0.5, 0.5, 1.5))


def test_worlds_are_numbered_and_their_ranges_known():
    env = rich_builder()
    main = ModelBuilder()
    main.add_shape_box(-1)
    main.replicate(env, 3, (1.0, 0.0, 0.0))
    main.set_ground_plane()
    model = main.finalize(device="cpu")
    assert model.num_envs == model.world_count == 3
    np.testing.assert_array_equal(model.body_world.numpy(), np.repeat([0, 1, 2], env.body_count))
    np.testing.assert_array_equal(model.shape_world.numpy(), [-1, *np.repeat([0, 1, 2], env.shape_count), -1])
    np.testing.assert_array_equal(model.world_shape_start, 1 + env.shape_count * np.arange(4))
    np.testing.assert_array_equal(model.world_dof_start, env.joint_dof_count * np.arange(4))
    np.testing.assert_array_equal(model.world_coord_start, env.joint_coord_count * np.arange(4))
    np.testing.assert_array_equal(model.world_particle_start, 2 * np.arange(4))


def test_collision_groups_of_copies():
    env = ModelBuilder()
    body = env.add_body(mass=1.0, I_m=np.eye(3))
    for group in (-1, 0, 3):
        env.add_shape_sphere(body, density=0.0, collision_group=group)
    together, apart = ModelBuilder(), ModelBuilder()
    together.replicate(env, 2)
    assert len(set(together.shape_collision_group)) == 2
    assert together.shape_collision_group[:3] == [together.shape_collision_group[0]] * 3
    apart.replicate(env, 2, separate_collision_group=False)
    groups = apart.shape_collision_group
    assert groups[0] == groups[3] == -1
    assert len({groups[1], groups[2], groups[4], groups[5]}) == 4
    assert min(groups[1], groups[2], groups[4], groups[5]) > -1


def test_loose_body_becomes_free_and_its_tree_one_articulation():
    env = ModelBuilder()
    base = env.add_body(origin=wp.transform((0, 2, 0), (0, 0, 0, 1)), mass=1.0, I_m=np.eye(3), key="base")
    tip = env.add_body(mass=1.0, I_m=np.eye(3), key="tip")
    env.add_joint_revolute(base, tip, key="hinge")
    env.add_body(mass=1.0, I_m=np.eye(3), key="stone")
    env.add_body(key="marker")
    env.body_qd[base] = wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    model = env.finalize(device="cpu")
    assert sorted(model.joint_key) == ["base_free", "hinge", "stone_free"]
    root = model.joint_key.index("base_free")
    start = model.joint_q_start.numpy()[root]
    np.testing.assert_allclose(model.joint_q.numpy()[start : start + 7], (0, 2, 0, 0, 0, 0, 1))
    dof = model.joint_qd_start.numpy()[root]
    np.testing.assert_allclose(model.joint_qd.numpy()[dof : dof + 6], (1, 2, 3, 4, 5, 6))
    assert model.articulation_key == ["base", "stone"]
    starts = model.articulation_start.numpy()
    members = [{model.joint_key[j] for j in range(a, b)} for a, b in itertools.pairwise(starts)]
    assert members == [{"base_free", "hinge"}, {"stone_free"}]
    assert env.joint_count == 1


def test_joints_after_a_copied_builder_are_not_swallowed_by_its_articulation():
    arm = ModelBuilder()
    arm.add_articulation("arm")
    arm.add_joint_revolute(-1, arm.add_body(mass=1.0, I_m=np.eye(3)))
    main = ModelBuilder()
    main.add_builder(arm)
    main.add_joint_revolute(-1, main.add_body(mass=1.0, I_m=np.eye(3), key="own"), key="own_hinge")
    model = main.finalize(device="cpu")
    assert model.articulation_key == ["arm", "own"]
    np.testing.assert_array_equal(model.articulation_start.numpy(), [0, 1, 2])


def test_joint_added_to_a_copied_arm_belongs_to_it():
    arm = ModelBuilder()
    arm.add_articulation("arm")
    arm.add_joint_revolute(-1, arm.add_body(mass=1.0, I_m=np.eye(3)))
    main = ModelBuilder()
    main.add_builder(arm)
    for parent in (0, 1):
        main.add_joint_revolute(parent, main.add_body(mass=1.0, I_m=np.eye(3)))
    model = main.finalize(device="cpu")
    assert model.articulation_key == ["arm"]
    np.testing.assert_array_equal(model.articulation_start.numpy(), [0, 3])


def test_free_joint_before_others_keeps_all_joint_data_in_step():
    """The inserted joint shifts coordinates: limits, axes and initial values must stay with their joints."""
    builder = ModelBuilder()
    base = builder.add_body(mass=1.0, I_m=np.eye(3), key="base")
    for i in range(3):
        tip = builder.add_body(mass=1.0, I_m=np.eye(3))
        builder.add_joint_revolute(
            base, tip, axis=(0, 0, 1), limit_lower=-i - 1.0, armature=float(i), key=f"j{i}"
        )
        builder.joint_q[-1] = 0.1 * i
    builder.joint_mimic.append((2, 1, 1.0, 0.0))
    builder.keyframes.append({"name": "k", "joint_q": [7.0, 8.0, 9.0], "joint_qd": None, "joint_act": None})
    model = builder.finalize(device="cpu")
    assert model.joint_key == ["base_free", "j0", "j1", "j2"]
    np.testing.assert_array_equal(model.joint_q_start.numpy(), [0, 7, 8, 9, 10])
    np.testing.assert_array_equal(model.joint_axis_start.numpy(), [0, 0, 1, 2])
    np.testing.assert_allclose(model.joint_q.numpy()[7:], (0.0, 0.1, 0.2), atol=1e-6)
    np.testing.assert_allclose(model.joint_limit_lower.numpy(), (-1, -2, -3))
    np.testing.assert_allclose(model.joint_armature.numpy(), [0] * 6 + [0, 1, 2])
    assert model.joint_mimic == [(3, 2, 1.0, 0.0)]
    assert list(model.keyframes[0]["joint_q"]) == [0, 0, 0, 0, 0, 0, 1, 7.0, 8.0, 9.0]


def test_mass_outside_all_worlds_is_an_error():
    env = random_model(1)
    main = ModelBuilder()
    main.replicate(env, 2)
    main.add_body(mass=1.0, I_m=np.eye(3), key="stray")
    with pytest.raises(newtonsim.ModelError, match="stray"):
        main.finalize(device="cpu")


def test_many_copies_are_made_in_blocks():
    """Counts the calls that Python makes: they must not grow with the number of copies."""
    import sys

    env = rich_builder()
    env.sites.clear()
    env.joint_mimic.clear()

    def calls(copies: int) -> int:
        count = 0

        def tick(frame, event, argument):
            nonlocal count
            count += event == "call"

        main = ModelBuilder()
        sys.setprofile(tick)
        try:
            main.replicate(env, copies)
        finally:
            sys.setprofile(None)
        return count

    assert calls(512) < 1.5 * calls(8)
