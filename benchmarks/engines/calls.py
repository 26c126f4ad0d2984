"""One world of a robot file in newtonsim, PyBullet and MuJoCo, called step by step from Python."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from tasks.harness import DT, missing
from tasks.robots import Task, load_task

from engines.mujoco_models import mujoco_from_urdf, mujoco_model, mujoco_pose
from engines.pybullet_client import PybulletClient, quiet
from engines.robots import PybulletWorld
from newtonsim import ModelBuilder, Simulator
from newtonsim.cli import scene as cli_scene
from newtonsim.importers import parse_urdf
from newtonsim.solvers import FeatherstoneSolver

URDF_GAINS = (200.0, 10.0)
"""Stiffness and damping [N m/rad, N m s/rad] of the drives of URDF robots in newtonsim and MuJoCo."""


@dataclass(frozen=True)
class Robot:
    """A robot and what it does.

    Attributes:
        path: URDF file, or the MJCF file of `task`.
        amplitude: Of the commands: angles about the pose [rad] of URDF robots, torques [N m] of others.
        height: Height of the root link of a URDF robot at the start [m]; None for a fixed root.
        pose: Angles that the drives of a URDF robot hold, by joint in the order of the file [rad].
        task: File and start pose of an MJCF robot, whose motors are idle but for the commands.
        touches_itself: Whether links of a URDF robot touch each other, but for neighbours.
    """

    path: str
    amplitude: float
    height: float | None = None
    pose: tuple[float, ...] = ()
    task: Task | None = None
    touches_itself: bool = False


def known_robots(notes: list[str]) -> dict[str, Robot]:
    """Return the robots whose files are installed, and note those that are missing."""
    robots = {}
    absent = missing("pybullet_data")
    if absent:
        notes.append(absent)
    else:
        import pybullet_data

        folder = Path(pybullet_data.getDataPath())
        kuka, a1 = folder / "kuka_iiwa" / "model.urdf", folder / "a1" / "a1.urdf"
        robots["kuka"] = Robot(os.fspath(kuka), 0.2, None, (0.0, 0.4, 0.0, -1.2, 0.0, 0.8, 0.0))
        panda = folder / "franka_panda" / "panda.urdf"
        reach = (0.0, -0.4, 0.0, -2.0, 0.0, 1.6, 0.8, 0.02, 0.02)
        robots["panda"] = Robot(os.fspath(panda), 0.01, None, reach)
        crouch = (0.0, 0.8, -1.6) * 4
        robots["a1"] = Robot(os.fspath(a1), 0.1, 0.32, crouch)
        robots["a1_self"] = Robot(os.fspath(a1), 0.1, 0.32, crouch, touches_itself=True)
    try:
        for name, torque in (("ant", 0.02), ("humanoid", 1.0)):
            task = load_task(name, 1)
            robots[name] = Robot(task.path, torque, task=task)
    except FileNotFoundError as error:
        notes.append(str(error))
    return robots


class CallEngine(Protocol):
    """One world; commands and answers are in the order of the joints of the file."""

    name: str
    joints: int

    def step(self) -> None:
        """Take one step."""

    def command(self, values: np.ndarray) -> None:
        """Set targets [rad] or torques [N m] of all joints, shape (joints,)."""

    def read(self) -> np.ndarray:
        """Return the angles of all joints [rad], shape (joints,)."""

    def at_rest(self) -> tuple[float, float]:
        """Return height of the root [m] and the fastest joint velocity [rad/s]."""


class NewtonsimCalls:
    """newtonsim: arrays of control and state are written and read through NumPy views, made once."""

    name = "newtonsim"

    def __init__(self, robot: Robot):
        self.model = newtonsim_model(robot)
        self.simulator = Simulator(self.model, FeatherstoneSolver(self.model), DT)
        self.joints = self.model.joint_axis_count
        self.fixed = robot.task is None and robot.height is None
        state = self.simulator.state
        self.targets = self.simulator.control.joint_act.numpy()
        self.q, self.qd = state.joint_q.numpy(), state.joint_qd.numpy()
        self.angles = self.q[-self.joints :]

    def step(self) -> None:
        self.simulator.step()

    def command(self, values: np.ndarray) -> None:
        self.targets[:] = values

    def read(self) -> np.ndarray:
        return self.angles

    def at_rest(self) -> tuple[float, float]:
        return 0.0 if self.fixed else float(self.q[2]), float(np.abs(self.qd).max())


def newtonsim_model(robot: Robot):
    """Return a model of the robot above a ground."""
    if robot.task is not None:
        model = cli_scene.build_scene(cli_scene.load_robot(robot.path), 1, "cpu")
        model.joint_q.assign(robot.task.poses[0])
        return model
    builder = ModelBuilder(up_vector=cli_scene.UP)
    parse_urdf(
        robot.path,
        builder,
        floating=robot.height is not None,
        stiffness=URDF_GAINS[0],
        damping=URDF_GAINS[1],
        contact_mu=0.5,
        contact_restitution=0.0,
        enable_self_collisions=robot.touches_itself,
        ignore_inertial_definitions=False,
    )
    first = len(builder.joint_q) - builder.joint_axis_count
    builder.joint_q[first:] = builder.joint_act[:] = list(robot.pose)
    if robot.height is not None:
        builder.joint_q[2] = robot.height
    builder.set_ground_plane(mu=0.5)
    return builder.finalize("cpu")


class PybulletCalls:
    """PyBullet without graphics."""

    name = "PyBullet"

    def __init__(self, robot: Robot):
        self.fixed = robot.task is None and robot.height is None
        if robot.task is not None:
            self.world = world = PybulletWorld(robot.task, robot.task.poses[0])
            self.pb, self.client, self.body, self.hinges = world.pb, world.client, world.body, world.joints
            self.mode = self.pb.TORQUE_CONTROL
        else:
            self.world = world = PybulletClient(DT)
            self.pb, self.client, self.mode = world.pb, world.client, world.pb.POSITION_CONTROL
            self._load_urdf(robot)
        self.joints = len(self.hinges)

    def _load_urdf(self, robot: Robot) -> None:
        pb, options = self.pb, self.world.options
        plane = pb.createCollisionShape(pb.GEOM_PLANE, planeNormal=[0.0, 0.0, 1.0], **options)
        pb.createMultiBody(0.0, plane, **options)
        start = [0.0, 0.0, robot.height or 0.0]
        flags = pb.URDF_USE_SELF_COLLISION if robot.touches_itself else 0
        with quiet():
            self.body = pb.loadURDF(robot.path, start, useFixedBase=self.fixed, flags=flags, **options)
        self.hinges = self.world.driven(self.body)
        self.limits = [pb.getJointInfo(self.body, j, **options)[10] for j in self.hinges]
        for joint, angle in zip(self.hinges, robot.pose, strict=True):
            pb.resetJointState(self.body, joint, angle, **options)
        self.command(np.array(robot.pose))

    def step(self) -> None:
        self.pb.stepSimulation(self.client)

    def command(self, values: np.ndarray) -> None:
        values = values.tolist()
        if self.mode == self.pb.TORQUE_CONTROL:
            self.pb.setJointMotorControlArray(
                self.body, self.hinges, self.mode, forces=values, physicsClientId=self.client
            )
        else:
            self.pb.setJointMotorControlArray(
                *(self.body, self.hinges, self.mode, values),
                forces=self.limits,
                physicsClientId=self.client,
            )

    def read(self) -> np.ndarray:
        states = self.pb.getJointStates(self.body, self.hinges, self.client)
        return np.array([state[0] for state in states])

    def at_rest(self) -> tuple[float, float]:
        base = self.pb.getBasePositionAndOrientation(self.body, self.client)[0]
        return 0.0 if self.fixed else base[2], self.world.fastest(self.body, self.hinges)


class MujocoCalls:
    """MuJoCo with one evaluation a step; URDF robots get a ground, a free joint and position actuators."""

    name = "MuJoCo"

    def __init__(self, robot: Robot):
        import mujoco

        self.mj_step = mujoco.mj_step
        task = robot.task
        self.model = (
            mujoco_from_urdf(robot.path, robot.height is not None, URDF_GAINS, robot.touches_itself)
            if task is None
            else mujoco_model(task)
        )
        self.model.opt.timestep = DT
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.data = mujoco.MjData(self.model)
        self.fixed = task is None and robot.height is None
        self.joints = self.model.nu
        self.angles = self.data.qpos[self.model.nq - self.joints :]
        # controls are in units of the gear
        self.gears = self.model.actuator_gear[:, 0].copy()
        # the joint of each actuator, from 0 on
        self.order = self.model.actuator_trnid[:, 0] - (0 if self.fixed else 1)
        if task is not None:
            self.data.qpos[:] = mujoco_pose(task.poses[0])
        else:
            self.angles[:] = self.data.ctrl[:] = robot.pose
            if robot.height is not None:
                self.data.qpos[2] = robot.height
        self.ctrl = self.data.ctrl

    def step(self) -> None:
        self.mj_step(self.model, self.data)

    def command(self, values: np.ndarray) -> None:
        self.ctrl[:] = values[self.order] / self.gears

    def read(self) -> np.ndarray:
        return self.angles

    def at_rest(self) -> tuple[float, float]:
        return 0.0 if self.fixed else float(self.data.qpos[2]), float(np.abs(self.data.qvel).max())


MAKERS = {"newtonsim": NewtonsimCalls, "PyBullet": PybulletCalls, "MuJoCo": MujocoCalls}
"""Engines by name."""

MODULES = {"newtonsim": "newtonsim", "PyBullet": "pybullet", "MuJoCo": "mujoco"}
"""The module that each needs."""
