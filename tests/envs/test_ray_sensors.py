"""Ray casters and frames against geometry."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from sensor_bench import Bench, put_state, still

from newtonsim import envs
from newtonsim.errors import NewtonsimError

WALL, BALL, RADIUS = 4.0, np.array([-3.0, 1.0, 1.5]), 0.8
"""Face of a wall ahead of the box [m]; a ball behind it."""


class Yard(Bench):
    """The bench's box and arm, with a wall and a ball to look at."""

    name = "Yard"

    def finish_scene(self, scene):
        super().finish_scene(scene)
        scene.add_shape_box(-1, pos=(WALL + 0.5, 0.0, 0.0), hx=0.5, hy=50.0, hz=50.0)
        scene.add_shape_sphere(-1, pos=tuple(BALL), radius=RADIUS)


def yard(num_envs: int = 2, **mounted) -> envs.BatchedEnv:
    task = Yard()
    task.mounted = mounted
    env = envs.BatchedEnv(task, num_envs, "cpu", threads=1)
    env.reset(seed=0)
    return env


def place(env: envs.BatchedEnv, position, rotation: Rotation) -> tuple[np.ndarray, Rotation]:
    """Let the box stand somewhere at rest; returns where a step later it is in world 1."""
    put_state(env, [*position, *rotation.as_quat(), 0.0], [0.0] * 7)
    still(env)
    pose = env.sim.state.body_q.numpy()[2]
    return pose[:3], Rotation.from_quat(pose[3:])


def distances(origins: np.ndarray, directions: np.ndarray, reach: float) -> np.ndarray:
    """Distances to ground, wall and ball along unit directions."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ground = np.where(directions[:, 2] < 0.0, -origins[:, 2] / directions[:, 2], np.inf)
        wall = np.where(directions[:, 0] > 0.0, (WALL - origins[:, 0]) / directions[:, 0], np.inf)
        middle = np.einsum("ij,ij->i", BALL - origins, directions)
        inside = RADIUS**2 - np.sum((BALL - origins) ** 2, axis=1) + middle**2
        ball = np.where((inside > 0.0) & (middle > 0.0), middle - np.sqrt(np.abs(inside)), np.inf)
    return np.minimum(np.minimum(np.minimum(ground, wall), ball), reach)


POSE = (0.1, -0.2, 0.3, *Rotation.from_euler("xyz", [0.1, -0.2, 0.3]).as_quat())
RAYS = {
    "grid": envs.Rays.grid(np.linspace(-0.5, 0.5, 5), np.linspace(-0.3, 0.3, 4)),
    "cone": envs.Rays.cone(2.5, 6, 12),
    "lidar": envs.Rays.lidar(np.linspace(-0.6, 0.3, 5), 36),
}


@pytest.mark.parametrize("kind", RAYS)
def test_distances_are_those_of_geometry(kind: str):
    rays = RAYS[kind]
    # the arm of the bench is another tree at x = 3; it lies below these heights
    env = yard(eye=envs.RayCaster("box", rays, POSE, max_distance=6.0))
    position, turned = place(env, (0.0, 0.0, 2.0), Rotation.from_euler("xyz", [0.3, -0.2, 1.0]))
    frame = turned * Rotation.from_quat(POSE[3:])
    origin = position + turned.apply(POSE[:3])
    origins, directions = origin + frame.apply(rays.origins), frame.apply(rays.directions)
    expected = distances(origins, directions, 6.0)
    np.testing.assert_allclose(env.sensor("eye")[1], expected, atol=2e-4)
    assert len(np.unique(np.round(expected, 3))) > 3


def test_a_level_grid_keeps_to_the_heading():
    rays = envs.Rays.grid([0.0, 0.5], [0.0], direction=(1.0, 0.0, 0.0))
    env = yard(eye=envs.RayCaster("box", rays, level=True, max_distance=50.0))
    place(env, (0.0, 0.0, 3.0), Rotation.from_euler("ZYX", [0.4, 0.5, -0.3]))
    # level and 0.4 rad off the wall's normal
    first = WALL / math.cos(0.4)
    np.testing.assert_allclose(env.sensor("eye")[1], [first, first - 0.5], atol=1e-3)


def test_a_spinning_lidar_sees_a_turn_column_by_column():
    """A quarter of a turn in each step of 0.01 s: four steps are the picture of all columns at once."""
    elevations = [-0.2, 0.1]
    spinning = envs.Rays.lidar(elevations, 40, rate=25.0, dt=0.01)
    whole = envs.Rays.lidar(elevations, 40)
    env = yard(
        spin=envs.RayCaster("box", spinning, max_distance=20.0),
        all=envs.RayCaster("box", whole, max_distance=20.0),
    )
    for turn in range(2):
        for quarter in range(4):
            if turn or quarter:
                still(env)
            columns = slice(20 * quarter, 20 * (quarter + 1))
            # the box rests on the ground: it moves by micrometres
            np.testing.assert_allclose(env.sensor("spin")[1], env.sensor("all")[1][columns], atol=1e-3)
    assert np.ptp(env.sensor("all")[1]) > 1.0


def test_the_robot_itself_is_seen_only_if_asked_for():
    rays = envs.Rays(np.array([[0.0, 0.0, 0.5]]), np.array([[0.0, 0.0, -1.0]]))
    env = yard(blind=envs.RayCaster("box", rays), seeing=envs.RayCaster("box", rays, sees_robot=True))
    place(env, (0.0, 0.0, 2.0), Rotation.identity())
    np.testing.assert_allclose(env.sensor("blind")[0], 2.5, atol=1e-3)
    np.testing.assert_allclose(env.sensor("seeing")[0], 0.4, atol=1e-3)


def test_noise_of_rays_is_normal():
    rays = envs.Rays.lidar([0.0], 200)
    env = yard(4, eye=envs.RayCaster("box", rays, max_distance=1.0, noise=0.05))
    readings = env.sensor("eye")
    # nothing within a metre: all readings are the longest distance
    assert abs(readings.mean() - 1.0) < 5.0 * 0.05 / math.sqrt(800)
    assert readings.std() == pytest.approx(0.05, rel=0.15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: envs.Rays.cone(0.0, 1, 4), "half_angle: expected a number above 0, up to 3.14159, got 0.0"),
        (lambda: envs.Rays.cone(0.5, 0, 4), "rings"),
        (lambda: envs.Rays.lidar([0.0], 0), "azimuths"),
        (lambda: envs.Rays.lidar([0.0], 100, rate=10.0, dt=0.0123), "whole number of columns.*= 12.3"),
        (lambda: envs.Rays.grid([], [0.0]), "origins and directions"),
        (lambda: envs.Rays(np.zeros((1, 3)), np.zeros((1, 3))), "non-zero finite directions"),
        (
            lambda: yard(a=envs.RayCaster("boxx", RAYS["grid"])),
            "sensor 'a': there is no body 'boxx'; did you mean 'box'",
        ),
        (lambda: yard(a=envs.RayCaster("box", RAYS["grid"], max_distance=0.0)), "max_distance"),
        (lambda: yard(a=envs.RayCaster("box", RAYS["grid"], pose=(0.0,) * 7)), "a': pose: quaternion"),
        (
            lambda: yard(a=envs.FrameTransform("box", target_pose=(0.0,) * 7)),
            "sensor 'a': target_pose: quaternion",
        ),
        (
            lambda: yard(a=envs.FrameTransform("foot*")),
            r"sensor 'a': 'foot\*' matches no bodies; there are 'box', 'arm'",
        ),
    ],
)
def test_wrong_numbers_are_refused(make, message: str):
    with pytest.raises(NewtonsimError, match=message):
        make()


def test_frames_are_those_of_the_poses():
    rng = np.random.default_rng(3)
    offset = (0.2, 0.1, -0.3, *Rotation.random(random_state=4).as_quat())
    seen = envs.FrameTransform(["arm", "box"], source="box", pose=POSE, target_pose=offset)
    env = yard(seen=seen, world=envs.FrameTransform("a*"))
    rotation = Rotation.random(random_state=5)
    put_state(env, [1.0, 2.0, 3.0, *rotation.as_quat(), 0.7], rng.normal(size=7))
    still(env)
    poses = env.sim.state.body_q.numpy()[2:]

    def matrix(pose) -> np.ndarray:
        result = np.eye(4)
        result[:3, :3], result[:3, 3] = Rotation.from_quat(pose[3:]).as_matrix(), pose[:3]
        return result

    for k, body in enumerate((0, 1)):
        expected = np.linalg.inv(matrix(poses[0]) @ matrix(POSE)) @ matrix(poses[body]) @ matrix(offset)
        reading = env.sensor("seen")[1, 7 * k : 7 * k + 7]
        np.testing.assert_allclose(matrix(reading), expected, atol=1e-5)
        assert reading[6] >= 0.0
    np.testing.assert_allclose(env.sensor("world")[1, :3], poses[1, :3], atol=1e-6)
