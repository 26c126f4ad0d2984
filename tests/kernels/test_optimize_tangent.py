"""Rotation vectors of device code against SciPy, and differences of coordinates against q ⊕ δ of a step."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

import newtonsim
from newtonsim.kernels.optimize.tangent import (
    ball_difference,
    floating_difference,
    quat_log,
    turn_between,
    turn_slope,
)
from newtonsim.kernels.trees.joint_forces import integrate_joints
from newtonsim.kernels.views.model import JointView
from newtonsim.runtime.launcher import ModelViews
from newtonsim.testing import random_transform

call = DeviceFunctions(__name__, quat_log, turn_between, turn_slope, ball_difference, floating_difference)


def turns() -> np.ndarray:
    """Rotation vectors of all sizes up to a half turn, tiny ones among them."""
    directions = np.random.default_rng(0).standard_normal((8, 3))
    sizes = np.array([0.0, 1e-5, 1e-3, 3e-3, 0.1, 1.0, 2.5, 3.1])
    return directions / np.linalg.norm(directions, axis=1)[:, None] * sizes[:, None]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_log_of_a_quaternion(device, sign):
    found = call(device, quat_log, sign * Rotation.from_rotvec(turns()).as_quat())
    assert np.allclose(found, turns(), atol=2e-6)


def test_turn_between_orientations(device):
    rng = np.random.default_rng(1)
    start, end = Rotation.random(20, rng=rng), Rotation.random(20, rng=rng)
    found = call(device, turn_between, start.as_quat(), end.as_quat())
    assert np.allclose(found, (end * start.inv()).as_rotvec(), atol=2e-5)


def test_slope_of_a_turn(device):
    """Differences of the turn as its end turns on, in double precision."""
    found = call(device, turn_slope, turns()[:-1])
    for J, turn in zip(found, turns()):
        h, end = 1e-6, Rotation.from_rotvec(turn)
        for k, axis in enumerate(np.eye(3)):
            ahead = (Rotation.from_rotvec(h * axis) * end).as_rotvec()
            behind = (Rotation.from_rotvec(-h * axis) * end).as_rotvec()
            assert np.allclose(J[:, k], (ahead - behind) / (2.0 * h), atol=2e-4)


def test_differences_undo_steps(device):
    """Of a floating joint of the world, a floating joint of a body, and a ball joint."""
    rng = np.random.default_rng(2)
    builder = newtonsim.ModelBuilder()
    builder.add_articulation()
    bodies = [
        builder.add_body(mass=1.0, com=rng.uniform(-0.3, 0.3, 3), I_m=0.1 * np.eye(3)) for _ in range(3)
    ]
    frames = [dict(parent_xform=random_transform(rng), child_xform=random_transform(rng)) for _ in range(3)]
    builder.add_joint_free(bodies[0], **frames[0])
    builder.add_joint_free(bodies[1], parent=bodies[0], **frames[1])
    builder.add_joint_ball(bodies[1], bodies[2], **frames[2])
    model = builder.finalize(device)
    q = rng.standard_normal(model.joint_coord_count).astype(np.float32)
    for i in (3, 10, 14):
        q[i : i + 4] /= np.linalg.norm(q[i : i + 4])
    step = rng.uniform(-1.0, 1.0, model.joint_dof_count)
    start = wp.array(q, dtype=float, device=device)
    qd = wp.array(step, dtype=float, device=device)
    end = wp.zeros_like(start)
    joint: JointView = ModelViews(model).joint
    inputs = [0, joint, model.body_com, start, qd, 1.0]
    wp.launch(integrate_joints, model.joint_count, inputs, [end], device=device)
    for j, i, d in ((0, 0, 0), (1, 7, 6)):
        (found,) = call(device, floating_difference, j, joint, model.body_com, end, start, i)
        assert np.allclose(found, step[d : d + 6], atol=1e-5)
    (found,) = call(device, ball_difference, 14, end, start, 14)
    assert np.allclose(found, step[12:], atol=1e-5)
