"""Bodies in maximal coordinates: what rows measure, how bodies spin, yield and bounce."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.maximal.adjoint.contact_system import leaning
from newtonsim.kernels.maximal.adjoint.contact_terms import HOLDS, SLIDES, across_residual
from newtonsim.kernels.maximal.adjoint.modes import turned_back
from newtonsim.kernels.maximal.adjoint.row_terms import polynomial_slope, polynomial_value, rate_of
from newtonsim.kernels.maximal.adjoint.substep import momentum_of
from newtonsim.kernels.maximal.adjoint.system import left_slope
from newtonsim.kernels.maximal.axes import dual_axis, split_near
from newtonsim.kernels.maximal.contact_sweep import bounded
from newtonsim.kernels.maximal.contacts import rebound
from newtonsim.kernels.maximal.joints import polynomial, resisted
from newtonsim.kernels.maximal.motion import half_way, turn
from newtonsim.kernels.maximal.moving_bodies import MotionView, inverse_mass_at, moved, push_body, velocity_at
from newtonsim.kernels.maximal.rows import invert, row_value, row_wrench
from newtonsim.kernels.views import pair_rows
from newtonsim.kernels.views.pair_rows import LoopView

call = DeviceFunctions(
    __name__,
    leaning,
    across_residual,
    turned_back,
    polynomial_slope,
    polynomial_value,
    rate_of,
    momentum_of,
    left_slope,
    dual_axis,
    split_near,
    bounded,
    rebound,
    polynomial,
    resisted,
    half_way,
    turn,
    inverse_mass_at,
    moved,
    push_body,
    velocity_at,
    invert,
    row_value,
    row_wrench,
)

KINDS = {
    "offset": pair_rows.PAIR_OFFSET,
    "cosine": pair_rows.PAIR_COSINE,
    "twist": pair_rows.PAIR_TWIST,
    "swing": pair_rows.PAIR_SWING,
    "distance": pair_rows.PAIR_DISTANCE,
}


@pytest.mark.parametrize("kind", KINDS)
def test_power_of_a_row_is_the_rate_of_what_it_measures(device, kind):
    rng = np.random.default_rng(0)
    n, number = 60, int(KINDS[kind])
    center, velocity, spin, arm = rng.normal(size=(4, 2, n, 3))
    first = Rotation.random(n, random_state=0)
    turns = [first, first * Rotation.from_rotvec(rng.uniform(-0.8, 0.8, (n, 3)))]
    axis0, axis1 = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]

    def pair(t: float) -> dict:
        o = [Rotation.from_rotvec(t * spin[k]) for k in range(2)]
        x = [center[k] + t * velocity[k] + o[k].apply(arm[k]) for k in range(2)]
        q = [(o[k] * turns[k]).as_quat() for k in range(2)]
        r0 = x[1] - center[0] - t * velocity[0]
        r1 = x[1] - center[1] - t * velocity[1]
        return {"q0": q[0], "q1": q[1], "d": x[1] - x[0], "r0": r0, "r1": r1}

    h = 5e-3
    values = [call(device, row_value, number, pair(t), axis0, axis1) for t in (-h, h)]
    wrench = call(device, row_wrench, number, pair(0.0), axis0, axis1)
    twists = {"v0": velocity[0], "w0": spin[0], "v1": velocity[1], "w1": spin[1]}
    power = call(device, rate_of, {name: wrench[name] for name in ("force", "torque")}, pair(0.0), twists)
    np.testing.assert_allclose(power, (values[1] - values[0]) / (2.0 * h), atol=5e-3, rtol=1e-2)


def test_spin_half_way_keeps_the_momentum(device):
    rng = np.random.default_rng(1)
    moments = np.array([0.2, 0.5, 0.6])
    momentum = rng.normal(size=(50, 3)) * 2.0
    dt = 0.02
    w = call(device, half_way, momentum, np.diag(1.0 / moments), dt).astype(np.float64)
    # momentum that stands in the world has turned back by half the way in the axes of the body
    turned = Rotation.from_rotvec(-0.5 * dt * w).apply(momentum)
    np.testing.assert_allclose(moments * w, turned, rtol=1e-4, atol=1e-5)
    assert np.abs(w - momentum / moments).max() > 0.05


def test_turning_a_vector_does_not_stretch_it(device):
    turns, v = Rotation.random(30, random_state=2), np.random.default_rng(2).normal(size=(30, 3))
    # a quaternion that has lost its length by a percent
    np.testing.assert_allclose(call(device, turn, 0.99 * turns.as_quat(), v), turns.apply(v), atol=1e-5)


class Bodies:
    """Two bodies at rest with a mass, and their view."""

    def __init__(self, device: str):
        self.turns = Rotation.random(2, random_state=3)
        rng = np.random.default_rng(3)
        self.x, self.com = rng.normal(size=(2, 2, 3))
        self.twist = rng.normal(size=(2, 6))
        self.moments = rng.uniform(0.1, 0.5, (2, 3))
        self.center = self.turns.apply(self.com) + self.x
        view = self.view = MotionView()
        poses = np.hstack([self.x, self.turns.as_quat()])
        view.pose = wp.array(poses, dtype=wp.transform, device=device)
        view.com = wp.array(self.com, dtype=wp.vec3, device=device)
        view.velocity = wp.array(self.twist, dtype=wp.spatial_vector, device=device)
        view.inv_mass = wp.array([0.5, 0.25], dtype=float, device=device)
        inverse = np.array([np.diag(1.0 / m) for m in self.moments])
        view.inv_inertia = wp.array(inverse, dtype=wp.mat33, device=device)
        view.impulse = wp.zeros(2, dtype=wp.spatial_vector, device=device)
        view.touching = wp.array([0, 3], dtype=int, device=device)


def test_a_push_at_a_point_changes_its_velocity_by_the_inverse_mass_there(device):
    bodies = Bodies(device)
    p, n = np.array([0.3, -0.5, 0.8]), np.array([0.6, 0.0, 0.8])
    before = call(device, velocity_at, bodies.view, [0, 1, -1], p)
    arm = p - bodies.center
    exact = bodies.twist[:, 3:] + np.cross(bodies.twist[:, :3], arm)
    np.testing.assert_allclose(before, [*exact, np.zeros(3)], atol=1e-5)
    for b in range(2):
        call(device, push_body, bodies.view, b, p, n)
    call(device, push_body, bodies.view, -1, p, n)
    impulse = bodies.view.impulse.numpy()
    R = bodies.turns.as_matrix()
    spun = np.einsum("nij,nj,nkj,nk->ni", R, 1.0 / bodies.moments, R, impulse[:, :3])
    gained = np.array([[0.5], [0.25]]) * impulse[:, 3:] + np.cross(spun, arm)
    # a body that three particles touch seems to each of them three times as light
    found = call(device, inverse_mass_at, bodies.view, [0, 1, -1], p, n)
    np.testing.assert_allclose(found, [gained[0] @ n, 3.0 * gained[1] @ n, 0.0], rtol=1e-4)


def test_motion_at_constant_velocity_is_about_the_centre_of_mass(device):
    bodies = Bodies(device)
    dt = 0.3
    poses = np.hstack([bodies.x, bodies.turns.as_quat()])
    found = call(device, moved, poses, bodies.com, bodies.twist, dt)
    turned = Rotation.from_rotvec(dt * bodies.twist[:, :3]) * bodies.turns
    np.testing.assert_allclose(Rotation.from_quat(found[:, 3:]).as_matrix(), turned.as_matrix(), atol=1e-5)
    centre = turned.apply(bodies.com) + found[:, :3]
    np.testing.assert_allclose(centre, bodies.center + dt * bodies.twist[:, 3:], atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_angles_nearest_to_earlier_ones(device, n):
    rng = np.random.default_rng(4)
    axes = Rotation.random(100, random_state=4).as_matrix()
    # several turns away, and with three axes anywhere beyond the pole
    angles = rng.uniform(-9.0, 9.0, (100, 3)) * (np.arange(3) < n)
    turns = [Rotation.from_rotvec(angles[:, k : k + 1] * axes[:, k]) for k in range(3)]
    q = (turns[0] * turns[1] * turns[2]).as_quat()
    near = angles + rng.uniform(-0.05, 0.05, (100, 3)) * (np.arange(3) < n)
    clear = np.abs(np.cos(angles[:, 1])) > 0.2
    found = call(device, split_near, q, n, *axes.transpose(1, 0, 2), near)
    np.testing.assert_allclose(found[clear], angles[clear], atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_dual_axes(device, n):
    c = np.random.default_rng(5).normal(size=(3, 50, 3))
    c /= np.linalg.norm(c, axis=2, keepdims=True)
    clear = np.abs(np.linalg.det(c.transpose(1, 0, 2))) > 0.1
    for k in range(n):
        d = call(device, dual_axis, n, k, *c)
        products = np.einsum("ani,ni->na", c[:n], d)[clear]
        np.testing.assert_allclose(products, np.tile(np.eye(n)[k], (len(products), 1)), atol=1e-4)


def test_inverse_of_rows_leaves_those_out_that_depend_on_others(device):
    A = np.random.default_rng(6).normal(size=(6, 6))
    K = A @ A.T
    found = call(device, invert, K, 4)[0]
    np.testing.assert_allclose(found[:4, :4] @ K[:4, :4], np.eye(4), atol=1e-3)
    # the third row is the sum of the first two
    A[2] = A[0] + A[1]
    K = A @ A.T
    found = call(device, invert, K, 4)[0].astype(np.float64)
    left = [0, 1, 3]
    np.testing.assert_allclose(found[np.ix_(left, left)] @ K[np.ix_(left, left)], np.eye(3), atol=1e-3)
    assert not found[2, :4].any()


def test_a_ball_that_bounces_rises_to_the_square_of_its_restitution(device):
    rng = np.random.default_rng(7)
    pull, dt, e = 9.81, 0.01, rng.uniform(0.2, 1.0, 20)
    height = rng.uniform(0.5, 3.0, 20)
    # dropped from rest, in steps: v grows by g h before x falls by v h, until it would be below the ground
    for k in range(20):
        x, v = height[k], 0.0
        while x - (v + pull * dt) * dt > 0.0:
            v += pull * dt
            x -= v * dt
        up = call(device, rebound, v + pull * dt, x, pull, e[k], dt)[0]
        apex = 0.0
        while up > 0.0:
            apex += max(up - pull * dt, 0.0) * dt
            up -= pull * dt
        assert apex == pytest.approx(e[k] ** 2 * height[k], abs=0.01 + 0.01 * height[k])


def test_resisted_force_is_implicit_and_friction_stops_at_rest(device):
    v, w, damping, dt = np.array([2.0, -1.0, 0.0]), 0.5, 3.0, 0.01
    force = call(device, resisted, 4.0, v, w, damping, 0.0, dt)
    end = v + dt * w * force
    np.testing.assert_allclose(force, 4.0 - damping * end, rtol=1e-5)
    # friction greater than all else holds, smaller friction slows
    held = call(device, resisted, 1.0, 0.0, w, 0.0, 5.0, dt)
    np.testing.assert_allclose(dt * w * held, 0.0, atol=1e-7)
    slowed = call(device, resisted, 0.0, v[:2], w, 0.0, 0.5, dt)
    np.testing.assert_allclose(slowed, [-0.5, 0.5], rtol=1e-5)


def test_polynomials_of_couplings_and_their_slopes(device):
    coefficients = np.random.default_rng(8).normal(size=(2, 5))
    loop = LoopView()
    loop.coefficients = wp.array(coefficients, dtype=float, device=device)
    x = np.linspace(-1.5, 1.5, 7)
    exact = np.polynomial.Polynomial(coefficients[1])
    np.testing.assert_allclose(call(device, polynomial, 1, x, loop)[:, 0], exact(x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        call(device, polynomial, 1, x, loop)[:, 1], exact.deriv()(x), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(call(device, polynomial_value, 1, x, loop), exact(x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        call(device, polynomial_slope, 1, x, loop), exact.deriv()(x), rtol=1e-4, atol=1e-4
    )


def test_slope_of_the_exponential_map_and_its_transpose(device):
    rng = np.random.default_rng(9)
    phi, torque = rng.normal(size=(2, 40, 3))
    J = call(device, left_slope, phi)
    h = 1e-6
    for axis in np.eye(3):
        plus, minus = (Rotation.from_rotvec(phi + s * h * axis) for s in (1.0, -1.0))
        spin = (plus * minus.inv()).as_rotvec() / (2.0 * h)
        np.testing.assert_allclose(J @ axis, spin, atol=1e-4)
    found = call(device, turned_back, phi, torque)
    np.testing.assert_allclose(found, np.einsum("nji,nj->ni", J, torque), atol=1e-5)


def test_momentum_of_a_turned_body(device):
    turns, twist = Rotation.random(20, random_state=10), np.random.default_rng(10).normal(size=(20, 6))
    inertia = np.diag([0.1, 0.2, 0.5])
    R = turns.as_matrix()
    found = call(device, momentum_of, 3.0, inertia, turns.as_quat(), twist)
    np.testing.assert_allclose(
        found[:, :3], np.einsum("nij,nj->ni", R @ inertia @ R.transpose(0, 2, 1), twist[:, :3]), atol=1e-5
    )
    np.testing.assert_allclose(found[:, 3:], 3.0 * twist[:, 3:], rtol=1e-6)


def test_friction_across_the_normal_at_its_solution(device):
    rng = np.random.default_rng(11)
    rate, n = rng.normal(size=(30, 3)), Rotation.random(30, random_state=11).apply([0.0, 0.0, 1.0])
    slip = rate - np.sum(n * rate, axis=1, keepdims=True) * n
    against = -0.7 * slip / np.linalg.norm(slip, axis=1, keepdims=True)
    sliding = call(device, across_residual, int(SLIDES), rate, against + 5.0 * n, 0.7, n)
    np.testing.assert_allclose(sliding, 0.0, atol=1e-5)
    # by a unit of normal impulse friction grows by its coefficient, against the slip
    lean = call(device, leaning, int(SLIDES), n, rate, 0.7)
    np.testing.assert_allclose(lean, -against, atol=1e-5)
    held = call(device, across_residual, int(HOLDS), rate, against, 0.7, n)
    np.testing.assert_allclose(held, slip, atol=1e-5)
    long = call(device, bounded, rate, 0.5)
    np.testing.assert_allclose(
        long, rate * np.minimum(1.0, 0.5 / np.linalg.norm(rate, axis=1))[:, None], atol=1e-6
    )
