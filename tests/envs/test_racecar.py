"""The car: it drives as a bicycle does, stands still, and its numbers are those of the definition."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.spatial.transform import Rotation

from newtonsim import envs
from newtonsim.errors import NewtonsimError

WHEELBASE = 0.325  # [m]


def racecar(num_envs: int, **options) -> envs.BatchedEnv:
    return envs.make("Racecar", num_envs, device="cpu", **options)


def poses(env: envs.BatchedEnv) -> tuple[np.ndarray, np.ndarray]:
    """Return the poses of the chassis and of the ball, (num_envs, 7) each."""
    pose = env.sim.state.body_q.numpy().reshape(env.num_envs, -1, 7).astype(float)
    return pose[:, 0], pose[:, -1]


def test_it_turns_as_a_bicycle():
    """Radii of the chassis, whose middle is half a wheelbase before the rear axle."""
    throttle, steering = np.array([0.4, 0.5, 0.5, -0.4, 0.3]), np.array([0.25, 0.6, -1.0, 0.8, 1.0])
    env = racecar(5)
    env.reset(seed=0)
    for _ in range(40):
        env.step(np.stack([throttle, steering], axis=1))
    velocity = env.sim.state.body_qd.numpy().reshape(5, -1, 6)[:, 0]
    speed, spin = np.linalg.norm(velocity[:, 3:5], axis=1), velocity[:, 2]
    rear = WHEELBASE / np.tan(0.6 * steering)
    np.testing.assert_array_equal(np.sign(spin), np.sign(throttle * steering))
    np.testing.assert_allclose(speed / np.abs(spin), np.hypot(rear, 0.5 * WHEELBASE), rtol=0.12)
    expected = 2.0 * np.abs(throttle) * np.hypot(1.0, 0.5 * WHEELBASE / rear)
    np.testing.assert_allclose(speed, expected, rtol=0.1)
    np.testing.assert_allclose(poses(env)[0][:, 2], 0.05, atol=1e-3)


def test_it_drives_straight():
    env = racecar(1)
    env.reset(seed=0)
    for _ in range(20):
        env.step(np.array([[1.0, 0.0]]))
    x, y, *_ = poses(env)[0][0]
    # two motors of 0.3 N m push 3.9 kg, and 1.2 kg for the inertia of four wheels, until they are at 2 m/s
    acceleration = 2.0 * 0.3 / 0.05 / 5.1
    np.testing.assert_allclose(x, 2.0 * 2.0 - 0.5 * 2.0**2 / acceleration, rtol=0.03)
    assert abs(y) < 0.05


def test_it_stops_and_stays():
    """Near the origin: four metres away, the steps of a creeping car would be of the size of rounding."""
    env = racecar(1)
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.array([[1.0, 0.0]]))
    assert poses(env)[0][0][0] > 0.1
    for _ in range(20):
        env.step(np.zeros((1, 2)))
    before = env.sim.state.joint_q.numpy().copy()
    for _ in range(20):
        env.step(np.zeros((1, 2)))
    np.testing.assert_allclose(env.sim.state.joint_qd.numpy(), 0.0, atol=5e-3)
    np.testing.assert_allclose(env.sim.state.joint_q.numpy()[:7], before[:7], atol=5e-4)


def test_four_rigid_wheels_share_the_weight():
    """Statics says what an axle bears; only the solver shares it between wheels that touch along lines."""
    env = racecar(3)
    env.reset(seed=0)
    for _ in range(10):
        env.step(np.array([[0.0, 0.0], [0.0, 0.6], [0.0, -1.0]]))
    owner, mass = env.sim.model.shape_body.numpy(), env.sim.model.body_mass.numpy().reshape(3, -1)[0, :-1]
    contacts, force = env.solver.contacts, env.solver.contact_forces().numpy()[:, 2].astype(float)
    load = np.zeros(3 * (len(mass) + 1))
    for sign, shapes in ((1.0, contacts.rigid_contact_shape0), (-1.0, contacts.rigid_contact_shape1)):
        body = np.where(shapes.numpy() >= 0, owner[shapes.numpy()], -1)
        np.add.at(load, body[body >= 0], sign * force[body >= 0])
    load = load.reshape(3, -1) / 9.81
    names = [key.rsplit("/", 1)[-1] for key in env.sim.model.body_key[: len(mass)]]
    left, right = (
        np.stack([load[:, names.index(f"{axle}_{side}_wheel")] for axle in ("front", "rear")], axis=1)
        for side in ("left", "right")
    )
    # all is symmetric about the middle but the cabin, 30 mm behind it, and the knuckles on the front axle
    weight = mass.sum(dtype=float)
    ahead = (0.1 * 0.5 * WHEELBASE - 0.3 * 0.03) / weight
    axles = 0.5 * weight + np.array([1.0, -1.0]) * weight * ahead / WHEELBASE
    np.testing.assert_allclose(left + right, np.tile(axles, (3, 1)), rtol=0.02)
    np.testing.assert_allclose(left, np.tile(0.5 * axles, (3, 1)), rtol=0.1)
    np.testing.assert_allclose(right, np.tile(0.5 * axles, (3, 1)), rtol=0.1)


def test_observation_and_reward():
    env = racecar(6)
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (6, 2))
    for _ in range(25):
        obs, reward, terminated, *_ = env.step(actions)
    car, ball = poses(env)
    seen = Rotation.from_quat(car[:, 3:]).inv().apply(ball[:, :3] - car[:, :3])
    np.testing.assert_allclose(obs, seen[:, :2], atol=1e-5)
    # the nearest point of the chassis, a box about (0, 0, 0.015) in its frame
    nearest = np.clip(seen, [-0.22, -0.07, -0.01], [0.22, 0.07, 0.04])
    np.testing.assert_allclose(reward, 0.5 - np.linalg.norm(seen - nearest, axis=1), atol=1e-5)
    assert not terminated.any()


def test_the_ball_lies_in_a_ring():
    env = racecar(1000)
    obs = env.reset(seed=0)[0]
    distance, angle = np.linalg.norm(obs, axis=1), np.arctan2(obs[:, 1], obs[:, 0])
    assert 5.0 <= distance.min() < distance.max() <= 7.0
    # standard errors of 1000 draws: 0.018 m, 0.022
    np.testing.assert_allclose(distance.mean(), 6.0, atol=0.08)
    np.testing.assert_allclose([np.cos(angle).mean(), np.sin(angle).mean()], 0.0, atol=0.1)


def test_a_driver_that_looks_reaches_the_ball():
    """Steers towards the ball wherever it is, and pushes it."""
    env = racecar(16)
    obs = env.reset(seed=1)[0]
    start = poses(env)[1]
    nearest = np.full(16, -np.inf)
    for _ in range(99):
        angle = np.arctan2(obs[:, 1], obs[:, 0])
        obs, reward, *_ = env.step(np.stack([np.full(16, 1.0), np.clip(2.0 * angle, -1.0, 1.0)], axis=1))
        nearest = np.maximum(nearest, reward)
    assert nearest.min() > -0.02
    assert np.linalg.norm((poses(env)[1] - start)[:, :2], axis=1).min() > 0.1


def test_discrete_actions_are_the_corners():
    choices, continuous = racecar(9, discrete=True), racecar(9)
    assert choices.single_action_space == gymnasium.spaces.Discrete(9)
    choices.reset(seed=0)
    continuous.reset(seed=0)
    number = np.arange(9)
    for _ in range(3):
        expected = continuous.step(np.stack([number // 3 - 1.0, number % 3 - 1.0], axis=1))[0]
        np.testing.assert_array_equal(choices.step(number)[0], expected)


def span(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Return the first and last row and the first and last column of what is in a mask."""
    rows, columns = np.nonzero(mask)
    return rows.min(), rows.max(), columns.min(), columns.max()


def test_the_camera_is_behind_the_car_wherever_it_has_turned():
    env = racecar(3, render_mode="rgb_array", render_size=(640, 480))
    env.reset(seed=5)
    starts = [span(picture.max(axis=2) < 50) for picture in env.render()]
    for _ in range(25):
        env.step(np.array([[1.0, 0.0], [0.5, 1.0], [0.5, -1.0]]))
    for start, picture in zip(starts, env.render(), strict=True):
        top, bottom, left, right = span(picture.max(axis=2) < 50)  # the tyres
        assert 60 <= right - left <= 90
        assert abs(left + right - 639) < 12
        assert bottom < 400
        # the front wheels are steered, and the car leans no more than a pixel or two
        assert np.abs(np.subtract((top, bottom, left, right), start)).max() < 8


def test_a_ball_ahead_is_in_the_picture():
    env = racecar(40, render_mode="rgb_array", render_size=(160, 120))
    obs = env.reset(seed=5)[0]
    far = np.abs(np.arctan2(obs[:, 1], obs[:, 0])) < 0.45
    assert far.sum() > 3
    for _ in range(25):
        angle = np.arctan2(obs[:, 1], obs[:, 0])
        pictures = np.stack(env.render()).astype(int)
        for picture in pictures[np.abs(angle) < 0.45]:
            top, bottom, left, right = span(picture[..., 0] > 2 * picture[..., 1])
            # no part of it is cut off
            assert 0 < top < bottom < 119
            assert 0 < left < right < 159
        for _ in range(3):
            obs = env.step(np.stack([np.full(40, 1.0), np.clip(2.0 * angle, -1.0, 1.0)], axis=1))[0]
            angle = np.arctan2(obs[:, 1], obs[:, 0])


@pytest.mark.parametrize("discrete", [False, True])
def test_gymnasium_finds_no_fault(discrete: bool):
    check_env(gymnasium.make("newtonsim/Racecar-v0", device="cpu", discrete=discrete).unwrapped)


def test_options_out_of_range_are_named():
    with pytest.raises(NewtonsimError, match="Racecar: max_speed: expected a speed up to 3 m/s, got 9"):
        racecar(1, max_speed=9.0)
    with pytest.raises(NewtonsimError, match=r"Racecar: max_steer: expected an angle up to 0\.6 rad, got 0"):
        racecar(1, max_steer=0.0)
