"""Poses of bodies that are added without one: their joints place them."""

import copy
import warnings

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.errors import OverlapWarning

TURN = (0.0, 0.0, 0.0, 1.0)


def frame(rng: np.random.Generator) -> wp.transform:
    q = rng.normal(size=4)
    return wp.transform(wp.vec3(*rng.normal(size=3)), wp.quat(*(q / np.linalg.norm(q))))


def random_tree(rng: np.random.Generator, bodies: int, **root) -> newtonsim.ModelBuilder:
    """Hinges, sliders, balls and fixed joints between bodies without poses, in a random order."""
    builder = newtonsim.ModelBuilder()
    for body in range(bodies):
        builder.add_body(mass=1.0, I_m=np.eye(3), **(root if body == 0 else {}))
    kinds = (
        builder.add_joint_revolute,
        builder.add_joint_prismatic,
        builder.add_joint_ball,
        builder.add_joint_fixed,
    )
    for child in rng.permutation(np.arange(0 if not root else 1, bodies)).tolist():
        parent = int(rng.integers(-1, child)) if child > 0 else -1
        kinds[rng.integers(4)](parent, child, parent_xform=frame(rng), child_xform=frame(rng))
    return builder


def distance_from_kinematics(model: newtonsim.Model) -> float:
    """Largest difference between `body_q` and forward kinematics, up to signs of quaternions."""
    state = model.state()
    newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
    wanted, found = state.body_q.numpy(), model.body_q.numpy()
    sign = np.where(np.sum(wanted[:, 3:] * found[:, 3:], axis=1) < 0.0, -1.0, 1.0)
    found[:, 3:] *= sign[:, None]
    return float(np.max(np.abs(wanted - found)))


@pytest.mark.parametrize("seed", range(6))
def test_joints_place_bodies_in_whatever_order(seed):
    model = random_tree(np.random.default_rng(seed), 12).finalize(device="cpu")
    assert distance_from_kinematics(model) < 2e-5


@pytest.mark.parametrize("seed", range(3))
def test_a_floating_base_keeps_its_pose_and_the_rest_follows(seed):
    rng = np.random.default_rng(seed)
    builder = random_tree(rng, 8, origin=frame(rng))
    model = builder.finalize(device="cpu")
    np.testing.assert_array_equal(model.body_q.numpy()[0], np.array(builder.body_q[0], np.float32))
    assert distance_from_kinematics(model) < 2e-5


def test_a_pose_that_was_given_stays():
    builder = newtonsim.ModelBuilder()
    base = builder.add_body(origin=((1.0, 0.0, 0.0), TURN))
    given = builder.add_body(origin=((0.0, 0.0, 0.0), TURN))
    written = builder.add_body()
    builder.body_q[written] = wp.transform(wp.vec3(0.0, 5.0, 0.0), wp.quat_identity())
    for child in (given, written):
        builder.add_joint_revolute(base, child, parent_xform=((0.0, 0.0, 2.0), TURN))
    assert np.array(builder.body_q)[:, :3].tolist() == [[1, 0, 0], [0, 0, 0], [0, 5, 0]]


def test_a_pose_that_was_given_stays_where_the_parent_is_placed_later():
    """So does what hangs on it."""
    builder = newtonsim.ModelBuilder()
    above, given, below, written = (
        builder.add_body(origin=None if k != 1 else ((0.0, 0.0, 1.0), TURN)) for k in range(4)
    )
    builder.body_q[written] = wp.transform(wp.vec3(0.0, 5.0, 0.0), wp.quat_identity())
    builder.add_joint_revolute(above, given, parent_xform=((0.0, 0.0, 1.0), TURN))
    builder.add_joint_revolute(given, below, parent_xform=((0.0, 0.0, 1.0), TURN))
    builder.add_joint_revolute(above, written, parent_xform=((0.0, 5.0, 0.0), TURN))
    builder.add_joint_revolute(-1, above, parent_xform=((7.0, 0.0, 0.0), TURN))
    assert np.array(builder.body_q)[:, :3].tolist() == [[7, 0, 0], [0, 0, 1], [0, 0, 2], [0, 5, 0]]


def test_copies_are_placed_on_their_own():
    builder = newtonsim.ModelBuilder()
    above, below = builder.add_body(), builder.add_body()
    builder.add_joint_revolute(above, below, parent_xform=((1.0, 0.0, 0.0), TURN))
    twin = copy.deepcopy(builder)
    twin.add_joint_revolute(-1, above, parent_xform=((0.0, 3.0, 0.0), TURN))
    builder.add_joint_revolute(-1, above, parent_xform=((0.0, 0.0, 7.0), TURN))
    assert np.array(twin.body_q)[:, :3].tolist() == [[0, 3, 0], [1, 3, 0]]
    assert np.array(builder.body_q)[:, :3].tolist() == [[0, 0, 7], [1, 0, 7]]


def test_merging_of_bodies_leaves_no_pose_open():
    """The number of a merged body goes to another one, whose pose is not the joint's to set."""
    builder = newtonsim.ModelBuilder()
    base = builder.add_body(origin=((0.0, 0.0, 1.0), TURN))
    part = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_fixed(base, part)
    builder.add_body()
    builder.add_body(mass=1.0, I_m=np.eye(3), origin=((0.0, 0.0, 0.0), TURN))
    builder.collapse_fixed_joints()
    builder.add_joint_revolute(base, 2, parent_xform=((0.0, 0.0, 2.0), TURN))
    assert np.array(builder.body_q)[2, :3].tolist() == [0, 0, 0]


def test_a_weld_holds_bodies_where_their_joints_placed_them():
    builder = newtonsim.ModelBuilder()
    links = []
    for x in (0.0, 2.0):
        links.append(builder.add_body(mass=1.0, I_m=np.eye(3)))
        builder.add_joint_revolute(-1, links[-1], parent_xform=((x, 0.0, 0.0), TURN))
    builder.add_constraint_weld(*links)
    np.testing.assert_allclose(np.array(builder.constraint_X_p)[0, :3], [2.0, 0.0, 0.0], atol=1e-6)


def test_links_that_their_joints_keep_apart_collide():
    builder = newtonsim.ModelBuilder(gravity=0.0)
    above = -1
    for _ in range(3):
        body = builder.add_body()
        builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.2)
        builder.add_joint_revolute(above, body, parent_xform=((1.0, 0.0, 0.0), TURN))
        above = body
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        model = builder.finalize(device="cpu")
    assert model.shape_contact_pairs.numpy().tolist() == [[0, 2]]
