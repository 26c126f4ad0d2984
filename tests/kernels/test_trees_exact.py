"""Links in double precision against an arm in NumPy, and small dense matrices against NumPy's own."""

import numpy as np
import small_arm
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.trees.exact.algebra import (
    damped_normal_matrix,
    diagonalize,
    solve_symmetric,
    transposed_product,
)
from newtonsim.kernels.trees.exact.dynamics import compute_forces, compute_jacobian, compute_mass_matrix
from newtonsim.kernels.trees.exact.links import place_links
from newtonsim.kernels.trees.exact.reach import rotation_vector
from newtonsim.kernels.trees.exact.views import (
    PRISMATIC,
    REVOLUTE,
    ChainMotion,
    ChainState,
    ChainView,
    CompositeView,
)

call = DeviceFunctions(
    __name__,
    damped_normal_matrix,
    diagonalize,
    solve_symmetric,
    transposed_product,
    place_links,
    rotation_vector,
)


def doubles(values, device) -> wp.array:
    return wp.array(np.array(values, np.float64), dtype=wp.float64, device=device)


def ints(values, device) -> wp.array:
    return wp.array(np.array(values, np.int32), dtype=int, device=device)


def pose(x: np.ndarray, turn: Rotation) -> np.ndarray:
    return np.concatenate([x, turn.as_quat()])


class Arm:
    """The arm of `small_arm` in some configurations, its base at rest in the origin."""

    def __init__(self, q: np.ndarray, device: str):
        self.device, self.count = device, len(q)
        still = pose(np.zeros(3), Rotation.identity())
        anchors = [pose(*each) for each in zip(small_arm.ANCHORS, small_arm.ANCHOR_TURNS)]
        centres = [pose(x, Rotation.identity()) for x in small_arm.CENTRES]
        chain = self.chain = ChainView()
        chain.order, chain.parent = ints([1, 2, 3], device), ints([-1, 0, 1, 1], device)
        kinds = [int(REVOLUTE if turns else PRISMATIC) for turns in small_arm.TURNS]
        chain.type = ints([-1, *kinds], device)
        chain.q_start = chain.dof_start = ints([0, 0, 1, 2], device)
        chain.leaf, chain.dof_parent = ints([-1, 0, 1, 2], device), ints([-1, 0, 0], device)
        chain.path_start, chain.path = ints([0, 0, 1, 3, 5], device), ints([1, 1, 2, 1, 3], device)
        chain.joint_pose = wp.array(np.array([still, *anchors]), dtype=wp.transformd, device=device)
        chain.axis = wp.array(np.vstack([np.zeros(3), small_arm.AXES]), dtype=wp.vec3d, device=device)
        chain.inertial_pose = wp.array(np.array([still, *centres]), dtype=wp.transformd, device=device)
        chain.mass = doubles(np.tile([5.0, *small_arm.MASSES], (self.count, 1)), device)
        moments = np.vstack([np.ones(3), small_arm.MOMENTS])
        chain.inertia = wp.array(np.tile(moments, (self.count, 1, 1)), dtype=wp.vec3d, device=device)
        state = self.state = ChainState()
        state.q = doubles(q, device)
        state.base = wp.array(np.tile(still[3:], (self.count, 1)), dtype=wp.quatd, device=device)
        state.pose = wp.zeros((self.count, 4), dtype=wp.transformd, device=device)
        state.angular = wp.zeros((self.count, 3), dtype=wp.vec3d, device=device)
        state.linear = wp.zeros((self.count, 3), dtype=wp.vec3d, device=device)


def configurations(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (3, 3))


def test_link_frames_and_jacobian(device):
    q = configurations(0)
    arm = Arm(q, device)
    call(device, place_links, arm.chain, arm.state, np.arange(3))
    found = arm.state.pose.numpy()
    point = np.array([0.3, -0.1, 0.2])
    points = wp.array(np.tile(point, (3, 1)), dtype=wp.vec3d, device=device)
    jacobians = wp.zeros((3, 6 * 9), dtype=wp.float64, device=device)
    wp.launch(
        compute_jacobian, 3, [arm.chain, arm.state, ints([3], device), points, jacobians], device=device
    )
    for c in range(3):
        for i, (R, p) in enumerate(small_arm.frames(q[c])):
            np.testing.assert_allclose(found[c, i + 1, :3], p, atol=1e-12)
            np.testing.assert_allclose(Rotation.from_quat(found[c, i + 1, 3:]).as_matrix(), R, atol=1e-12)
        J = jacobians.numpy()[c].reshape(6, 9)
        # by rows the linear part is above the angular one, see `put_column`
        exact = small_arm.jacobian(q[c], 2, point)
        np.testing.assert_allclose(J[:, 6:], np.vstack([exact[3:], exact[:3]]), atol=1e-8)


def test_mass_matrix_is_that_of_the_kinetic_energy(device):
    q = configurations(1)
    arm = Arm(q, device)
    body = CompositeView()
    body.mass = wp.zeros((3, 4), dtype=wp.float64, device=device)
    body.moment = wp.zeros((3, 4), dtype=wp.vec3d, device=device)
    body.inertia = wp.zeros((3, 4), dtype=wp.mat33d, device=device)
    body.matrix = wp.zeros((3, 81), dtype=wp.float64, device=device)
    wp.launch(compute_mass_matrix, 3, [arm.chain, arm.state, body], device=device)
    for c in range(3):
        M = body.matrix.numpy()[c].reshape(9, 9)
        np.testing.assert_allclose(M[6:, 6:], small_arm.mass_matrix(q[c]), atol=1e-8)
        np.testing.assert_allclose(M[3:6, 3:6], np.eye(3) * (5.0 + small_arm.MASSES.sum()), atol=1e-12)
        np.testing.assert_allclose(M, M.T, atol=1e-14)


def test_inverse_dynamics_solves_the_equations_of_lagrange(device):
    q, (qd, qdd) = configurations(2), np.random.default_rng(3).normal(size=(2, 3, 3))
    arm = Arm(q, device)
    motion = ChainMotion()
    motion.qd, motion.qdd = (doubles(np.hstack([np.zeros((3, 6)), x]), device) for x in (qd, qdd))
    motion.gravity = wp.array(np.tile(small_arm.GRAVITY, (3, 1)), dtype=wp.vec3d, device=device)
    for name in ("omega", "alpha", "acceleration", "force", "torque"):
        setattr(motion, name, wp.zeros((3, 4), dtype=wp.vec3d, device=device))
    motion.tau = wp.zeros((3, 9), dtype=wp.float64, device=device)
    wp.launch(compute_forces, 3, [arm.chain, arm.state, motion], device=device)
    exact = [small_arm.forces(*each) for each in zip(q, qd, qdd)]
    np.testing.assert_allclose(motion.tau.numpy()[:, 6:], exact, atol=1e-5)


def test_damped_least_squares(device):
    rng = np.random.default_rng(4)
    J, e, damping = rng.normal(size=(6, 4)), rng.normal(size=6), rng.uniform(0.1, 1.0, 4)
    rows = [doubles([values.reshape(-1)], device) for values in (J, damping, np.zeros((4, 4)))]
    x = doubles(np.zeros((1, 4)), device)
    call(device, damped_normal_matrix, 0, 6, 4, *rows)
    call(device, transposed_product, 0, 6, 4, rows[0], doubles([e], device), x)
    call(device, solve_symmetric, 0, 4, rows[2], x)
    np.testing.assert_allclose(x.numpy()[0], np.linalg.solve(J.T @ J + np.diag(damping), J.T @ e), rtol=1e-10)


def test_unknowns_that_a_singular_matrix_leaves_open_are_zero(device):
    A, x = (
        doubles([[4.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 1.0]], device),
        doubles([[8.0, 3.0, 4.0]], device),
    )
    # the third row is half the first, the second is empty
    call(device, solve_symmetric, 0, 3, A, x)
    np.testing.assert_allclose(x.numpy()[0], [2.0, 0.0, 0.0], atol=1e-12)


def test_eigenvectors(device):
    S = np.random.default_rng(5).normal(size=(5, 5))
    S = S + S.T
    A, V = doubles([S.reshape(-1)], device), doubles(np.zeros((1, 25)), device)
    call(device, diagonalize, 0, 5, A, V)
    D, V = A.numpy().reshape(5, 5), V.numpy().reshape(5, 5)
    np.testing.assert_allclose(np.sort(np.diag(D)), np.linalg.eigvalsh(S), atol=1e-10)
    np.testing.assert_allclose(V @ np.diag(np.diag(D)) @ V.T, S, atol=1e-10)
    np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-12)


def test_rotation_vectors_take_the_short_way(device):
    turns = Rotation.random(50, random_state=6)
    sign = np.random.default_rng(6).choice([-1.0, 1.0], (50, 1))
    np.testing.assert_allclose(
        call(device, rotation_vector, sign * turns.as_quat()), turns.as_rotvec(), atol=1e-12
    )
