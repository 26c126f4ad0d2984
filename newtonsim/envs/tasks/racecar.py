"""A car that drives to a ball."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from newtonsim.builder import ModelBuilder
from newtonsim.envs.task import Motors
from newtonsim.envs.tasks.robots import RobotTask
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs import racecar as envs_racecar

if TYPE_CHECKING:
    pass

_WHEEL_RADIUS, _WHEELBASE, _TRACK = 0.05, 0.325, 0.24  # [m] of the file
_HULL = (0.22, 0.07, 0.025, 0.015)  # [m] half extents of the chassis, and its height over the axles
_BALL_RADIUS, _BALL_MASS = 0.5, 1.0  # [m], [kg]
_DRIVES = ("steer_left", "steer_right", "rear_left", "rear_right")


class Racecar(RobotTask):
    """Drive a car at scale 1:10 to a ball of 1 m.

    Observation (2): x and y of the ball in the frame of the car, x forward and y to the left [m]. Actions
    (2), 10 times a second: throttle, for up to `max_speed` [m/s] forward and backward, and steering, for up
    to `max_steer` [rad] to the left and to the right. With `discrete` there are nine: 3 t + s with t = 0, 1,
    2 for backward, stop, forward, and s = 0, 1, 2 for right, straight, left. The reward is minus the distance
    between the surfaces of chassis and ball [m]. Episodes end by time, after 10 s; they start with the ball 5
    to 7 m away in any direction.

    Source: RacecarBulletEnv of PyBullet (Coumans and Bai, 2016-2021), with 0.1 s instead of 0.5 s for an
    action and a car of our own.
    """

    name = "Racecar"
    asset = "racecar.xml"
    dt = 0.01
    frame_skip = 10
    episode_steps = 100
    observation_size = 2
    # from behind, as the driver of a model car sees it
    camera_eye, camera_target = (-1.7, 0.0, 1.1), (0.6, 0.0, 0.15)
    camera_follows = camera_turns = True
    act = envs_racecar.drive_car
    observe = envs_racecar.observe_ball
    score = envs_racecar.score_car
    spawn = envs_racecar.spawn_ball
    defaults: ClassVar[Mapping[str, Any]] = {
        **RobotTask.defaults,
        "discrete": False,
        "max_speed": 2.0,
        "max_steer": 0.6,
    }

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.discrete_actions = 9 if self.options["discrete"] else 0
        speed, steer = self.options["max_speed"], self.options["max_steer"]
        if not 0.0 < speed <= 3.0:
            raise NewtonsimError(f"Racecar: max_speed: expected a speed up to 3 m/s, got {speed}")
        if not 0.0 < steer <= 0.6:
            raise NewtonsimError(f"Racecar: max_steer: expected an angle up to 0.6 rad, got {steer}")

    def build(self, builder: ModelBuilder) -> Motors:
        """See `Task.build`."""
        report = self.load(builder)
        ball = builder.add_body(origin=(6.0, 0.0, _BALL_RADIUS, 0.0, 0.0, 0.0, 1.0), key="ball")
        density = _BALL_MASS / (4.18879 * _BALL_RADIUS**3)
        builder.add_shape_sphere(ball, radius=_BALL_RADIUS, density=density, mu=0.5, restitution=0.0)
        builder.shape_color[-1] = (0.80, 0.20, 0.20, 1.0)
        builder.add_joint_free(ball)
        found = {actuator["name"]: actuator for actuator in report.actuators}
        drives = [found[name] for name in _DRIVES]
        return Motors(
            [int(drive["axis"]) for drive in drives],
            [float(drive["scale"]) for drive in drives],
            [-1.0, -1.0],
            [1.0, 1.0],
        )

    def numbers(self) -> list[float]:
        """See `Task.numbers`."""
        o = self.options
        return [
            *(o["max_speed"], o["max_steer"]),
            *(_WHEEL_RADIUS, _WHEELBASE, _TRACK, _BALL_RADIUS, 5.0, 7.0),
            float(o["discrete"]),
            *_HULL,
        ]
