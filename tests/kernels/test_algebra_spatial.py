"""Spatial vectors, rotations and points of bodies against NumPy and SciPy."""

import numpy as np
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from newtonsim.kernels.algebra.body_points import point_in_world, point_velocity
from newtonsim.kernels.algebra.spatial import (
    cross_motion,
    left_jacobian_factors,
    load_quat,
    quat_exp,
    rotate_inertia,
)

call = DeviceFunctions(
    __name__,
    cross_motion,
    left_jacobian_factors,
    load_quat,
    quat_exp,
    rotate_inertia,
    point_in_world,
    point_velocity,
)


def skew(v: np.ndarray) -> np.ndarray:
    return np.cross(np.eye(3), v)


def test_cross_motion_is_the_matrix_of_the_book(device):
    rng = np.random.default_rng(0)
    v, m = rng.normal(size=(2, 20, 6))
    found = call(device, cross_motion, v, m)
    for a, b, c in zip(v, m, found):
        # RBDA (2.31)
        matrix = np.block([[skew(a[:3]), np.zeros((3, 3))], [skew(a[3:]), skew(a[:3])]])
        np.testing.assert_allclose(c, matrix @ b, atol=1e-5)


def test_exponential_of_rotation_vectors_of_all_sizes(device):
    rng = np.random.default_rng(1)
    way = rng.normal(size=(40, 3))
    sizes = np.concatenate([[0.0, 1e-6, 9e-4, 1.1e-3], rng.uniform(0.0, 3.1, 36)])
    vectors = way / np.linalg.norm(way, axis=1, keepdims=True) * sizes[:, None]
    np.testing.assert_allclose(
        call(device, quat_exp, vectors), Rotation.from_rotvec(vectors).as_quat(), atol=1e-6
    )


def test_left_jacobian_turns_a_change_of_the_rotation_vector_into_a_spin(device):
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(20, 3)) * np.geomspace(0.01, 1.5, 20)[:, None]
    factors = call(device, left_jacobian_factors, vectors)
    for phi, (a, b) in zip(vectors, factors):
        jacobian = np.eye(3) + a * skew(phi) + b * skew(phi) @ skew(phi)
        for axis in np.eye(3):
            h = 1e-6
            turned = expm(skew(phi + h * axis)) @ expm(skew(phi - h * axis)).T
            np.testing.assert_allclose(
                jacobian @ axis, Rotation.from_matrix(turned).as_rotvec() / (2.0 * h), atol=1e-5
            )


def test_inertia_and_quaternion_of_a_turned_body(device):
    rng = np.random.default_rng(3)
    turn = Rotation.random(10, random_state=3)
    inertia = np.array([np.diag(rng.uniform(0.1, 1.0, 3)) for _ in range(10)])
    R = turn.as_matrix()
    found = call(device, rotate_inertia, turn.as_quat(), inertia)
    np.testing.assert_allclose(found, R @ inertia @ R.transpose(0, 2, 1), atol=1e-5)
    stored = wp.array(np.append([9.0], 3.0 * turn.as_quat()[0]), dtype=float, device=device)
    np.testing.assert_allclose(call(device, load_quat, stored, 1)[0], turn.as_quat()[0], atol=1e-6)


def test_points_of_bodies_move_as_rigid_motion_says(device):
    rng = np.random.default_rng(4)
    turn = Rotation.random(3, random_state=4)
    x, com, point = rng.normal(size=(3, 3, 3))
    spin, speed = rng.normal(size=(2, 3, 3))
    body_q = wp.array(np.hstack([x, turn.as_quat()]), dtype=wp.transform, device=device)
    body_com = wp.array(com, dtype=wp.vec3, device=device)
    body_qd = wp.array(np.hstack([spin, speed]), dtype=wp.spatial_vector, device=device)
    bodies = [0, 1, 2]
    world = call(device, point_in_world, bodies, point, body_q)
    np.testing.assert_allclose(world, turn.apply(point) + x, atol=1e-5)
    # the distance of the centre of mass is what the spin turns, not that of the body's origin
    h = 1e-6
    centre = turn.apply(com) + x
    moved = Rotation.from_rotvec(h * spin).apply(world - centre) + centre + h * speed
    found = call(device, point_velocity, bodies, world, body_q, body_com, body_qd)
    np.testing.assert_allclose(found, (moved - world) / h, atol=1e-4)
    # body -1 stands still
    np.testing.assert_array_equal(call(device, point_in_world, -1, point, body_q), np.float32(point))
    assert not call(device, point_velocity, -1, point, body_q, body_com, body_qd).any()
