"""The work of the robot tables: copies of a robot file above the ground, in varied poses, and its motors."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from newtonsim.cli import scene as cli_scene
from newtonsim.examples import asset_path
from newtonsim.scene.enums import GeoType, JointMode
from tasks.harness import DT, missing
from tasks.work import Work

ROBOTS = ("ant", "humanoid", "humanoid29", "quadruped")
"""gymnasium's ant and humanoid, a humanoid of 29 hinges that is made up, and our quadruped."""

HOLD = 4
"""Steps for which a random control is held: 60 different ones a second."""

MOTIONS = {"settled": 30.0, "random control": 200.0}
"""Kinds of motion, and the joint velocity [rad/s or m/s] above which a world counts as unstable in them."""

AT_REST = 1.0
"""Joint velocity [rad/s or m/s] below which a settled world is at rest."""

MOST_RESTLESS = 0.05
"""Share of the worlds that may still move when the others have settled."""

SETTLING = 8.0  # [s] of simulated time before the first measurement
FLAILING = 1.0  # [s] of random control before the second one


@dataclass(frozen=True)
class Task:
    """Copies of a robot, one a world.

    Attributes:
        name: Name of the robot.
        path: Its MJCF file.
        has_ground: Whether the file has a ground plane.
        poses: Start poses (worlds, 7 + hinges): position and quaternion xyzw of the root body, then the
            angles of the hinges in the order of the file.
        hinges: Which hinge each motor drives, shape (motors,).
        drives: Whether motors are position drives; their controls are angles [rad].
        gears: Torque [N m], or angle of a drive, of each motor at control 1, shape (motors,).
        ranges: Least and greatest control of each motor, shape (motors, 2).
        idle: Controls at rest: no torque, or the home pose, shape (motors,).
        damping: Damping of each hinge [N m s/rad], shape (hinges,).
        mass: Mass of the robot [kg].
        self_collision: Whether links collide with each other in newtonsim, as they do in MuJoCo anyway.
    """

    name: str
    path: str
    has_ground: bool
    poses: np.ndarray
    hinges: np.ndarray
    drives: bool
    gears: np.ndarray
    ranges: np.ndarray
    idle: np.ndarray
    damping: np.ndarray
    mass: float
    self_collision: bool = False

    @property
    def title(self) -> str:
        """Name for tables."""
        return self.name + " with self-collision" * self.self_collision

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return len(self.poses)

    def first(self, worlds: int) -> Task:
        """Return the task with the first worlds only."""
        return replace(self, poses=self.poses[:worlds])

    def controls(self, frames: int, worlds: int, seed: int) -> np.ndarray:
        """Draw uniform random controls (frames, worlds, motors)."""
        rng = np.random.default_rng(seed)
        low, high = self.ranges[:, 0], self.ranges[:, 1]
        return rng.uniform(low, high, (frames, worlds, len(self.gears))).astype(np.float32)

    def inputs(self, controls: np.ndarray) -> np.ndarray:
        """Return torques [N m] or targets [rad] of all hinges (..., hinges) for controls (..., motors)."""
        inputs = np.zeros((*controls.shape[:-1], self.poses.shape[1] - 7), np.float32)
        inputs[..., self.hinges] = controls * self.gears
        return inputs

    def idle_inputs(self, worlds: int) -> np.ndarray:
        """Return torques [N m] or targets [rad] of all hinges at rest, shape (worlds, hinges)."""
        return np.tile(self.inputs(self.idle), (worlds, 1))


def load_task(name: str, worlds: int, seed: int = 0, self_collision: bool = False) -> Task:
    """Read one of `ROBOTS` and vary its start pose.

    Args:
        name: Name of the robot.
        worlds: Number of copies.
        seed: Of the start poses.
        self_collision: Whether links collide with each other.

    Raises:
        FileNotFoundError: gymnasium is not installed.
    """
    path = robot_path(name)
    robot = cli_scene.load_robot(path, self_collision=self_collision)
    model = cli_scene.build_scene(robot, worlds, "cpu")
    state = model.state()
    cli_scene.vary_start(model, state, seed)
    motors = robot.report.actuators
    axes = np.array([motor["axis"] for motor in motors])
    gears = np.array([motor["scale"] for motor in motors])
    return Task(
        name,
        path,
        GeoType.PLANE in robot.builder.shape_geo_type,
        state.joint_q.numpy().reshape(worlds, -1).astype(float),
        axes,
        robot.builder.joint_axis_mode[axes[0]] == JointMode.TARGET_POSITION,
        gears,
        np.array([motor["ctrl_range"] or (-1.0, 1.0) for motor in motors]),
        np.array(robot.builder.joint_act)[axes] / gears,
        model.joint_damping.numpy()[6 : model.joint_dof_count // worlds],
        float(sum(robot.builder.body_mass)),
        self_collision,
    )


def robot_path(name: str) -> str:
    """Return the file of a robot: gymnasium's, where it has one."""
    if name == "quadruped":
        return str(asset_path("quadruped.xml"))
    if name == "humanoid29":
        return str(Path(__file__).with_name("humanoid29.xml"))
    absent = missing("gymnasium")
    if absent:
        raise FileNotFoundError(absent)
    import gymnasium

    return os.fspath(Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / f"{name}.xml")


class RobotEngine(Protocol):
    """Copies of a robot in an engine.

    Attributes:
        name: Engine and what is special of it.
        threads: Threads or processes that it uses; 0 on a GPU.
        worlds: Worlds that it steps; of those that step worlds one by one fewer than of the task.
    """

    name: str
    threads: int
    worlds: int

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        """Take steps and wait for their end; controls (steps / HOLD, worlds, motors) are held for HOLD."""

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """Return heights of the root bodies [m], (worlds,), and fastest joint velocities, (worlds,)."""

    def work(self) -> Work:
        """Return what the engine does in a step; ask after steps, which show whether solves converge."""

    def close(self) -> None:
        """Free what the engine holds."""


def stability(engine: RobotEngine, motion: str) -> str:
    """Return "" for an engine whose worlds are all finite and plausible, else what is wrong.

    Args:
        engine: The engine.
        motion: Key of MOTIONS. Settled worlds may roll on a little, but not more than a few of them.
    """
    heights, speeds = engine.motion()
    finite = np.isfinite(heights) & np.isfinite(speeds)
    if not finite.all():
        return f"{np.count_nonzero(~finite)} of {len(finite)} worlds not finite"
    away = (heights < -0.1) | (heights > 3.0)
    if away.any():
        return f"{np.count_nonzero(away)} of {len(away)} worlds through the ground or up in the air"
    fast = speeds > MOTIONS[motion]
    if fast.any():
        return f"{np.count_nonzero(fast)} of {len(fast)} worlds faster than {MOTIONS[motion]:g} rad/s"
    share = restless(engine)
    if motion == "settled" and share > MOST_RESTLESS:
        return f"{share:.0%} of the worlds faster than {AT_REST:g} rad/s"
    return ""


def restless(engine: RobotEngine) -> float:
    """Return the share of worlds with a joint that is faster than AT_REST."""
    return float(np.mean(engine.motion()[1] > AT_REST))


def settle(engine: RobotEngine, seconds: float = SETTLING) -> None:
    """Step without control."""
    engine.run(HOLD * round(seconds / DT / HOLD), None)
