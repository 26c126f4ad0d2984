"""Inner functions of environments: frames of reference, cars, levels, episodes and stacks of pictures."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions
from scipy.spatial.transform import Rotation

from newtonsim.kernels.envs import episodes, free, planar, racecar, terrain
from newtonsim.kernels.envs.actions import drive
from newtonsim.kernels.envs.cartpole import gaussian_tolerance
from newtonsim.kernels.envs.episodes import EpisodeView, begin_episodes, finish_step
from newtonsim.kernels.envs.frames import FrameView, fill_frames, push_frames
from newtonsim.kernels.envs.free import com_of_robot, wrench_about
from newtonsim.kernels.envs.planar import is_healthy
from newtonsim.kernels.envs.quadruped import MAX_TURN, own_down, own_velocity
from newtonsim.kernels.envs.racecar import drive_car
from newtonsim.kernels.envs.sensors import ImuView, imu_velocity
from newtonsim.kernels.envs.terrain import next_level, turn_to, whole
from newtonsim.kernels.envs.views import EnvView, random_of, uniform
from newtonsim.kernels.views.model import MODE_FORCE, MODE_POSITION

call = DeviceFunctions(
    __name__,
    drive,
    gaussian_tolerance,
    com_of_robot,
    wrench_about,
    is_healthy,
    own_down,
    own_velocity,
    imu_velocity,
    next_level,
    turn_to,
    whole,
    random_of,
    uniform,
)


class Env:
    """An environment of two worlds with two bodies each, and what is set of it."""

    def __init__(self, device: str):
        self.device, self.view = device, EnvView()
        rng = np.random.default_rng(0)
        self.turns = Rotation.random(4, random_state=0)
        self.x, self.com = rng.normal(size=(2, 4, 3))
        self.twist, self.mass = rng.normal(size=(4, 6)), rng.uniform(1.0, 2.0, 4)
        self.view.bodies = 2
        self.set("body_q", np.hstack([self.x, self.turns.as_quat()]), wp.transform)
        self.set("body_qd", self.twist, wp.spatial_vector)
        self.set("body_com", self.com, wp.vec3)
        self.set("body_mass", self.mass)
        self.center = self.turns.apply(self.com) + self.x

    def set(self, name: str, values, dtype=float) -> wp.array:
        array = wp.array(np.array(values), dtype=dtype, device=self.device)
        setattr(self.view, name, array)
        return array

    def numbers(self, values: dict) -> None:
        table = np.zeros(40)
        for place, value in values.items():
            table[int(place)] = value
        self.set("numbers", table)


def test_frames_of_reference_of_a_robot(device):
    env = Env(device)
    found = call(device, com_of_robot, env.view, [0, 1])
    exact = [np.average(env.center[b : b + 2], axis=0, weights=env.mass[b : b + 2]) for b in (0, 2)]
    np.testing.assert_allclose(found, exact, atol=1e-5)
    trunks = env.turns[[0, 2]].inv()
    np.testing.assert_allclose(
        call(device, own_velocity, env.view, [0, 1]), trunks.apply(env.twist[[0, 2], 3:]), atol=1e-5
    )
    np.testing.assert_allclose(call(device, own_down, env.view, [0, 1]), trunks.apply([0, 0, -1]), atol=1e-5)


def test_velocity_of_an_inertial_unit_is_that_of_its_place(device):
    env, imu = Env(device), ImuView()
    place = np.array([0.2, -0.1, 0.4])
    imu.pose = wp.transform(wp.vec3(*place), wp.quat_identity())
    found = call(device, imu_velocity, env.view, imu, [0, 3])
    h = 1e-6
    for b, v in zip((0, 3), found):
        turned = Rotation.from_rotvec(h * env.twist[b, :3]) * env.turns[b]
        moved = env.center[b] + h * env.twist[b, 3:] + turned.apply(place - env.com[b])
        np.testing.assert_allclose(v, (moved - env.turns[b].apply(place) - env.x[b]) / h, atol=1e-4)


def test_wrench_about_another_point_does_the_same_work(device):
    env = Env(device)
    env.numbers({free.WRENCH_CLIP: 100.0})
    wrench = np.random.default_rng(1).normal(size=(4, 6))
    env.set("body_wrench", wrench, wp.spatial_vector)
    about = np.array([0.5, -0.5, 1.0])
    found = call(device, wrench_about, env.view, [0, 1, 2, 3], about)
    at = env.twist[:, 3:] + np.cross(env.twist[:, :3], about - env.center)
    power = np.sum(wrench * env.twist, axis=1)
    np.testing.assert_allclose(np.sum(found * np.hstack([env.twist[:, :3], at]), axis=1), power, atol=1e-4)
    env.numbers({free.WRENCH_CLIP: 0.1})
    assert np.abs(call(device, wrench_about, env.view, [0, 1, 2, 3], about)).max() == np.float32(0.1)


def test_actions_are_bounded_and_strength_counts_for_forces_alone(device):
    env = Env(device)
    env.view.axes = 3
    env.set("actions", [[2.0, -0.5]] * 2)
    env.set("action_low", [-1.0, -1.0])
    env.set("action_high", [1.0, 1.0])
    env.set("motor_axis", [2, 0], int)
    env.set("motor_gear", [10.0, 4.0])
    env.set("strength", [1.0, 0.5])
    env.set("joint_axis_mode", [int(MODE_POSITION), 0, int(MODE_FORCE)] * 2, int)
    driven = env.set("joint_act", np.zeros(6))
    call(device, drive, env.view, [0, 1])
    assert driven.numpy().tolist() == [-2.0, 0.0, 10.0, -2.0, 0.0, 5.0]


def test_all_wheels_of_the_car_roll_about_one_centre(device):
    env = Env(device)
    env.view.axes = 4
    base, track, radius, speed = 0.3, 0.2, 0.05, 2.0
    env.numbers(
        {
            racecar.MAX_SPEED: speed,
            racecar.MAX_STEER: 0.5,
            racecar.WHEEL_RADIUS: radius,
            racecar.WHEELBASE: base,
            racecar.TRACK: track,
        }
    )
    env.set("actions", [[0.5, 0.8], [0.5, -0.3]])
    env.set("action_low", [-1.0, -1.0])
    env.set("action_high", [1.0, 1.0])
    env.set("motor_axis", [0, 1, 2, 3], int)
    env.set("motor_gear", np.ones(4))
    driven = env.set("joint_act", np.zeros(8))
    wp.launch(drive_car, 2, [0, env.view], device=device)
    for steering, (left, right, spin_left, spin_right) in zip((0.8, -0.3), driven.numpy().reshape(2, 4)):
        # the centre is on the line of the rear axle, beside the middle of the car
        centre = base / np.tan(0.5 * steering)
        for y, angle, spin in [(0.5 * track, left, spin_left), (-0.5 * track, right, spin_right)]:
            assert np.tan(angle) == pytest.approx(base / (centre - y), rel=1e-4)
            turning = 0.5 * speed / centre
            assert spin * radius == pytest.approx(turning * (centre - y), rel=1e-4)


def test_levels_of_terrain_follow_what_was_walked(device):
    env = Env(device)
    env.numbers({terrain.CURRICULUM: 1.0, terrain.PATCH_SIZE: 8.0, terrain.LEVELS: 5.0})
    kept = np.zeros((5, 8))
    kept[:, int(terrain.LEVEL)] = [2, 2, 2, 0, 4]
    # far enough, between, less than half of what was asked for, not at all, far enough on the last one
    kept[:, int(terrain.WALKED)] = [4.5, 3.0, 0.5, 0.0, 5.0]
    kept[:, int(terrain.WANTED)] = 4.0
    env.set("kept", kept)
    assert call(device, next_level, env.view, range(5), 0.5).tolist() == [3, 2, 1, 0, 2]
    u = np.linspace(0.0, 1.0, 1001)
    levels = call(device, whole, u, 5)
    assert np.bincount(levels).min() > 190
    assert levels.max() == 4


def test_turning_to_a_heading_takes_the_short_way(device):
    env = Env(device)
    heading = np.array([3.0, -3.0])
    yaw = np.array([-3.0, -2.9])
    turns = Rotation.from_euler("z", np.repeat(yaw, 2)[:, None])
    env.set("body_q", np.hstack([env.x, turns.as_quat()]), wp.transform)
    memory = np.zeros((2, 30))
    memory[:, int(terrain.HEADING)] = heading
    env.set("memory", memory)
    env.numbers({MAX_TURN: 1.0})
    error = np.angle(np.exp(1j * (heading - yaw)))
    np.testing.assert_allclose(call(device, turn_to, env.view, [0, 1]), 0.5 * error, atol=1e-5)


def test_random_numbers_of_a_world_depend_on_its_seed_and_episode_alone(device):
    env = Env(device)
    env.set("key", [5, 7], int)
    env.set("episode", [0, 0], int)
    first = call(device, random_of, env.view, [0, 1, 0], [3, 3, 4])
    env.set("key", [8, 7], int)
    second = call(device, random_of, env.view, [0, 1, 0], [3, 3, 4])
    env.set("episode", [0, 1], int)
    third = call(device, random_of, env.view, [0, 1, 0], [3, 3, 4])
    assert len({*first.tolist(), second[0], third[1]}) == 5
    assert first[1] == second[1]
    np.testing.assert_allclose(call(device, uniform, -2.0, 4.0, [0.0, 0.5]), [-2.0, 1.0])


def test_health_of_a_runner_and_tolerance_of_a_distance(device):
    env = Env(device)
    env.view.coords = env.view.dofs = 4
    env.numbers({planar.HEIGHT: 1.0, planar.Z_LOW: 0.7, planar.Z_HIGH: 2.0, planar.ANGLE_LOW: -0.2,
                 planar.ANGLE_HIGH: 0.2, planar.STATE_BOUND: 100.0})  # fmt: skip
    q = np.zeros((6, 4))
    q[1, 1], q[2, 2], q[3, 3], q[4, 0] = -0.4, 0.3, np.nan, 500.0
    qd = np.zeros((6, 4))
    qd[5, 0] = 101.0
    env.set("joint_q", q.reshape(-1))
    env.set("joint_qd", qd.reshape(-1))
    # too low, leaning, not a number, far along the track, too fast
    assert call(device, is_healthy, env.view, range(6)).tolist() == [True, False, False, False, True, False]
    np.testing.assert_allclose(
        call(device, gaussian_tolerance, [0.0, 0.4, -0.4], 0.4), [1.0, 0.1, 0.1], rtol=1e-5
    )


class Episodes(Env):
    """The two worlds with all that belongs to their episodes."""

    def __init__(self, device: str, worlds: int):
        super().__init__(device)
        self.worlds, episode = worlds, EpisodeView()
        self.episodes = episode
        for name in ("truncated", "ended", "fresh", "waiting", "broken"):
            setattr(episode, name, wp.zeros(worlds, dtype=bool, device=device))
        for name in ("failures", "final_length"):
            setattr(episode, name, wp.zeros(worlds, dtype=int, device=device))
        for name in ("episode_return", "final_return"):
            setattr(episode, name, wp.zeros(worlds, dtype=float, device=device))
        episode.final_obs = wp.zeros((worlds, 2), dtype=float, device=device)
        for name in ("terminated", "success"):
            self.set(name, np.zeros(worlds, bool), bool)
        self.set("length", np.zeros(worlds), int)
        self.set("episode", np.zeros(worlds), int)

    def step(self, obs, reward, terminated, mode: int) -> None:
        self.set("obs", obs)
        self.set("reward", reward)
        self.set("terminated", terminated, bool)
        wp.launch(finish_step, self.worlds, [0, self.view, self.episodes, 3, int(mode)], device=self.device)

    def flags(self, name: str) -> list[bool]:
        return getattr(self.episodes, name).numpy().tolist()


def test_episodes_end_by_limit_by_the_task_and_by_numbers_that_are_none(device):
    env = Episodes(device, 3)
    obs = np.ones((3, 2))
    env.step(obs, [1.0, 1.0, 1.0], [False, False, False], episodes.RESET_SAME_STEP)
    assert not any(env.flags("ended"))
    broken = obs.copy()
    broken[2, 1] = np.nan
    env.step(broken, [2.0, 3.0, 4.0], [False, True, False], episodes.RESET_SAME_STEP)
    assert env.flags("ended") == env.flags("fresh") == [False, True, True]
    assert env.flags("broken") == [False, False, True]
    assert env.view.terminated.numpy().tolist() == [False, True, True]
    # the step that broke gives no reward, and zeros to see
    assert env.episodes.final_return.numpy().tolist() == [0.0, 4.0, 1.0]
    assert env.view.obs.numpy()[2].tolist() == [0.0, 0.0]
    mask = wp.array([False, True, True], dtype=bool, device=device)
    wp.launch(begin_episodes, 3, [0, env.view, env.episodes, mask], device=device)
    env.step(obs, [1.0, 1.0, 1.0], [False, False, False], episodes.RESET_SAME_STEP)
    assert env.flags("truncated") == [True, False, False]
    assert env.episodes.final_length.numpy().tolist() == [3, 2, 2]
    assert env.view.length.numpy().tolist() == [3, 1, 1]


def test_a_world_may_wait_a_step_before_it_starts_anew(device):
    env = Episodes(device, 1)
    env.step([[1.0, 1.0]], [5.0], [True], episodes.RESET_NEXT_STEP)
    assert env.flags("waiting") == [True]
    assert env.flags("fresh") == [False]
    env.step([[1.0, 1.0]], [9.0], [True], episodes.RESET_NEXT_STEP)
    assert env.flags("fresh") == [True]
    assert env.flags("ended") == [False]
    assert env.view.reward.numpy().tolist() == [0.0]


@pytest.mark.parametrize("channels", [1, 3])
def test_stacks_of_pictures(device, channels):
    rng = np.random.default_rng(2)
    worlds, size, height, width, depth = 2, 2, 3, 4, 2
    frames = FrameView()
    frames.samples, frames.height, frames.width, frames.channels = size, height, width, channels
    frames.depth = depth * channels
    shape = (worlds, height, width, depth * channels)
    frames.stack, frames.final = (
        wp.zeros(int(np.prod(shape)), dtype=wp.uint8, device=device) for _ in range(2)
    )
    pixels = worlds * height * width
    no, ended = (wp.array(values, dtype=bool, device=device) for values in ([False, False], [False, True]))

    def show(kernel, *flags) -> np.ndarray:
        picture = rng.integers(0, 256, (worlds, size * height, size * width, 3))
        frames.picture = wp.array(picture.reshape(-1, 3), dtype=wp.vec3ub, device=device)
        wp.launch(kernel, pixels // width, [0, frames, width, *flags], device=device)
        means = picture.reshape(worlds, height, size, width, size, 3).mean(axis=(2, 4))
        return means if channels == 3 else means @ [[0.299], [0.587], [0.114]]

    first = show(fill_frames, wp.array([True, True], dtype=bool, device=device))
    np.testing.assert_allclose(
        frames.stack.numpy().reshape(shape), np.concatenate([first, first], axis=3), atol=0.51
    )
    second = show(push_frames, no, no)
    third = show(push_frames, ended, no)
    found = frames.stack.numpy().reshape(shape)
    np.testing.assert_allclose(found, np.concatenate([second, third], axis=3), atol=0.51)
    final = frames.final.numpy().reshape(shape)
    assert not final[0].any()
    np.testing.assert_array_equal(final[1], found[1])
