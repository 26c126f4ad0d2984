"""Quaternions, frames and contacts in MuJoCo's arrays, against MuJoCo's own functions."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.mujoco.contacts import MujocoContactView, bound_contacts, contact_frame, touching_point
from newtonsim.kernels.mujoco.state import clear_rows, quat_at, read_quat, to_wxyz, write_quat

call = DeviceFunctions(__name__, contact_frame, touching_point, quat_at, read_quat, to_wxyz, write_quat)


def test_quaternions_turn_vectors_as_mujoco_turns_them(device):
    mujoco = pytest.importorskip("mujoco")
    turns = Rotation.random(20, random_state=0)
    v = np.array([0.3, -0.5, 0.7])
    turned = np.zeros(3)
    for turn, q in zip(turns, call(device, to_wxyz, turns.as_quat())):
        mujoco.mju_rotVecQuat(turned, v, q.astype(np.float64))
        np.testing.assert_allclose(turned, turn.apply(v), atol=1e-6)


def test_quaternions_are_read_as_they_were_written(device):
    turns = Rotation.random(2, random_state=1).as_quat()
    values = wp.zeros((2, 6), dtype=float, device=device)
    call(device, write_quat, turns, [0, 1], [0, 2], values)
    stored = values.numpy()
    np.testing.assert_allclose(stored[1, 2:6], np.roll(turns[1], 1), atol=1e-7)
    assert not stored[1, :2].any()
    np.testing.assert_allclose(call(device, read_quat, values, [0, 1], [0, 2]), turns, atol=1e-6)
    # ours are stored the other way round, and may have lost their length
    flat = wp.array(np.append([9.0], 2.0 * turns[0]), dtype=float, device=device)
    np.testing.assert_allclose(call(device, quat_at, flat, 1)[0], turns[0], atol=1e-6)


def test_frames_of_contacts_have_the_normal_first_and_are_right_handed(device):
    n = np.vstack([np.eye(3), -np.eye(3), Rotation.random(50, random_state=2).apply([1.0, 0.0, 0.0])])
    frame = call(device, contact_frame, n)
    np.testing.assert_allclose(frame[:, 0], n, atol=1e-6)
    np.testing.assert_allclose(np.cross(frame[:, 0], frame[:, 1]), frame[:, 2], atol=1e-5)
    np.testing.assert_allclose(
        frame @ frame.transpose(0, 2, 1), np.tile(np.eye(3), (len(n), 1, 1)), atol=1e-5
    )


def test_points_of_contacts_of_bodies_and_of_the_world(device):
    turn = Rotation.random(random_state=3)
    pose = np.concatenate([[1.0, 2.0, 3.0], turn.as_quat()])
    body_q = wp.array([pose], dtype=wp.transform, device=device)
    point, offset = np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.0, 0.05])
    found = call(device, touching_point, [0, -1], body_q, point, offset)
    np.testing.assert_allclose(found, [turn.apply(point + offset) + pose[:3], point + offset], atol=1e-6)


def test_masked_rows_are_cleared_and_contacts_without_room_are_not_counted(device):
    values = wp.array(np.ones((3, 4)), dtype=float, device=device)
    mask = wp.array([True, False, True], dtype=bool, device=device)
    wp.launch(clear_rows, (3, 4), [mask, values], device=device)
    assert values.numpy().sum(axis=1).tolist() == [0.0, 4.0, 0.0]
    out = MujocoContactView()
    out.dist = wp.zeros(5, dtype=float, device=device)
    for found, kept in [(3, 3), (9, 5)]:
        out.count = wp.array([found], dtype=int, device=device)
        wp.launch(bound_contacts, 1, [0, out], device=device)
        assert out.count.numpy().tolist() == [kept]
