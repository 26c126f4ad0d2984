"""Copies of a robot in newtonsim, MuJoCo (`mujoco.rollout`) and PyBullet."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import numpy as np
import warp as wp
from tasks.harness import DT
from tasks.robots import HOLD, Task
from tasks.work import CONVERGED, Work

from engines.mujoco_models import describe_options, mujoco_model, mujoco_pose, mujoco_work
from engines.pybullet_client import PybulletClient, quiet
from newtonsim import Simulator
from newtonsim.cli import scene as cli_scene
from newtonsim.scene.enums import GeoType
from newtonsim.solvers import FeatherstoneSolver

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SAMPLED = 16
"""Worlds of MuJoCo in which the iterations of the constraint solver are counted."""

PYBULLET_WORLDS = 64
"""Worlds of PyBullet: it steps one after the other, so more would cost as much each."""


class NewtonsimRobots:
    """newtonsim with its default solver, as a user would call it."""

    def __init__(self, task: Task, device: str = "cpu", threads: int | None = None):
        self.task = task
        self.worlds = task.worlds
        self.device = wp.get_device(device)
        robot = cli_scene.load_robot(task.path, self_collision=task.self_collision)
        self.model = cli_scene.build_scene(robot, task.worlds, device)
        self.simulator = Simulator(self.model, FeatherstoneSolver(self.model), DT, threads=threads)
        self.threads = self.simulator.threads if self.device.is_cpu else 0
        self.name = "newtonsim"
        start = self.simulator.state.clone()
        start.joint_q.assign(task.poses.astype(np.float32).reshape(-1))
        self.simulator.reset(state=start)

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        if controls is None:
            self.simulator.control.joint_act.assign(self.task.idle_inputs(self.worlds).reshape(-1))
            self.simulator.step(steps)
        else:
            for frame in self.task.inputs(controls):
                self.simulator.control.joint_act.assign(frame.reshape(-1))
                self.simulator.step(HOLD)
        wp.synchronize_device(self.device)

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        state = self.simulator.state
        q, qd = (a.numpy().reshape(self.worlds, -1) for a in (state.joint_q, state.joint_qd))
        return q[:, 2], np.abs(qd).max(axis=1)

    def work(self) -> Work:
        model, unsolved = self.model, self.simulator.solver.constraints.unsolved.view.steps.numpy()
        every = np.concatenate([model.shape_contact_pairs.numpy(), model.shape_ground_contact_pairs.numpy()])
        moving = np.where(model.shape_body.numpy()[every[:, 0]] >= 0, every[:, 0], every[:, 1])
        pairs = every[model.body_world.numpy()[model.shape_body.numpy()[moving]] == 0]
        kinds, sizes = model.shape_geo.type.numpy(), model.shape_geo.scale.numpy()
        shapes = tuple(_shape(GeoType(kinds[s]), sizes[s]) for s in np.unique(pairs))
        stop = CONVERGED if not unsolved.any() else "to a residual above its promise"
        return Work(len(pairs), shapes, DT, 1, stop)

    def close(self) -> None:
        pass


def _shape(kind: GeoType, scale: np.ndarray) -> tuple[str, tuple[float, ...]]:
    """Return kind and sizes of one of our shapes; planes have none."""
    count = {GeoType.PLANE: 0, GeoType.SPHERE: 1, GeoType.CAPSULE: 2, GeoType.CYLINDER: 2}.get(kind, 3)
    return kind.name.lower(), tuple(float(size) for size in scale[:count])


class MujocoRobots:
    """MuJoCo's C engine through `mujoco.rollout`, which steps all worlds on a pool of threads.

    Args:
        task: The work.
        threads: Number of threads.
        integrator: Name of MuJoCo's integrator, None for that of the file.
        solver: Name of MuJoCo's constraint solver, None for that of the file.
    """

    def __init__(self, task: Task, threads: int, integrator: str | None = None, solver: str | None = None):
        from mujoco import MjData, rollout

        self.worlds, self.threads, self.idle = task.worlds, threads, task.idle[None, None]
        self.model = mujoco_model(task, integrator, solver)
        self.name = f"MuJoCo {describe_options(self.model)}"
        self.data = [MjData(self.model) for _ in range(threads)]
        self.pool = rollout.Rollout(nthread=threads)
        self.states = np.stack([_mujoco_state(self.model, self.data[0], pose) for pose in task.poses])

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        if controls is not None:
            controls = np.repeat(controls.astype(float).transpose(1, 0, 2), HOLD, axis=1)
        # parts, because a rollout returns all the states on its way
        for first in range(0, steps, 64):
            count = min(64, steps - first)
            part = self.idle if controls is None else np.ascontiguousarray(controls[:, first : first + count])
            states, _ = self.pool.rollout(self.model, self.data, self.states, part, nstep=count)
            self.states = states[:, -1].copy()

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        nq, nv = self.model.nq, self.model.nv
        return self.states[:, 3], np.abs(self.states[:, 1 + nq : 1 + nq + nv]).max(axis=1)

    def work(self) -> Work:
        import mujoco

        model, data, iterations = self.model, self.data[0], []
        for state in self.states[:SAMPLED]:
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            mujoco.mj_forward(model, data)
            iterations.append(data.solver_niter.max())
        return mujoco_work(model, max(iterations))

    def close(self) -> None:
        self.pool.close()


def _mujoco_state(model, data, pose: np.ndarray) -> np.ndarray:
    import mujoco

    mujoco.mj_resetData(model, data)
    data.qpos[:] = mujoco_pose(pose)
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    return state


class PybulletRobots:
    """PyBullet, a client for each world, the worlds divided over processes; one thread is this process."""

    name = "PyBullet"

    def __init__(self, task: Task, threads: int):
        self.worlds, self.threads = min(task.worlds, PYBULLET_WORLDS), threads
        parts = np.array_split(np.arange(self.worlds), threads)
        self.mine = None if threads > 1 else PybulletPart(task, parts[0])
        self.parts = [] if self.mine else [_Process(task, part) for part in parts]

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        if self.mine:
            self.mine.run(steps, controls)
            return
        for part in self.parts:
            part.pipe.send(("run", steps, None if controls is None else controls[:, part.worlds]))
        for part in self.parts:
            part.pipe.recv()

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        if self.mine:
            return self.mine.motion()
        for part in self.parts:
            part.pipe.send(("motion",))
        heights, speeds = zip(*(part.pipe.recv() for part in self.parts))
        return np.concatenate(heights), np.concatenate(speeds)

    def work(self) -> Work:
        # getCollisionShapeData crashes on robots of MJCF files, and nothing tells whether solves converge
        return Work(None, None, DT, 1, "with up to 50 iterations")

    def close(self) -> None:
        for part in self.parts:
            part.pipe.send(("close",))
            part.process.join()
        if self.mine:
            self.mine.close()


class _Process:
    """A process with some worlds of PyBullet."""

    def __init__(self, task: Task, worlds: np.ndarray):
        self.worlds = worlds
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, task, worlds), daemon=True)
        self.process.start()


def _serve(pipe: Connection, task: Task, worlds: np.ndarray) -> None:
    """Answer the requests of a `PybulletRobots`."""
    part = PybulletPart(task, worlds)
    while True:
        request, *values = pipe.recv()
        if request == "close":
            return
        pipe.send(getattr(part, request)(*values))


class PybulletPart:
    """Some worlds of a task in PyBullet."""

    def __init__(self, task: Task, worlds: np.ndarray):
        self.task = task
        self.worlds = [PybulletWorld(task, task.poses[w]) for w in worlds]

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        for k, world in enumerate(self.worlds):
            world.run(steps, None if controls is None else self.task.inputs(controls[:, k]))

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        heights, speeds = zip(*(world.motion() for world in self.worlds))
        return np.array(heights), np.array(speeds)

    def close(self) -> None:
        for world in self.worlds:
            world.close()


class PybulletWorld(PybulletClient):
    """One robot in a client of PyBullet.

    PyBullet reads the same file. It knows no armature, and ignores default densities: masses are scaled to
    those of the file. Joint motors, which it switches on by itself, are switched off, and self-collision is
    on where the file has it.
    """

    def __init__(self, task: Task, pose: np.ndarray):
        super().__init__(DT)
        pb, options = self.pb, self.options
        flags = pb.URDF_USE_SELF_COLLISION | pb.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        with quiet():
            bodies = pb.loadMJCF(task.path, flags=flags if task.name == "humanoid" else 0, **options)
        self.body = max(bodies, key=lambda body: pb.getNumJoints(body, **options))
        self.joints = self.driven(self.body)
        zeros = [0.0] * len(self.joints)
        velocity = pb.VELOCITY_CONTROL
        pb.setJointMotorControlArray(self.body, self.joints, velocity, forces=zeros, **options)
        self._set_dynamics(task)
        self._place(pose)

    def _set_dynamics(self, task: Task) -> None:
        """Give links the damping of the file, and scale their masses to that of the robot."""
        pb, options = self.pb, self.options
        links = range(-1, pb.getNumJoints(self.body, **options))
        masses = [pb.getDynamicsInfo(self.body, link, **options)[0] for link in links]
        for link, mass in zip(links, masses):
            pb.changeDynamics(self.body, link, linearDamping=0.0, angularDamping=0.0, **options)
            if mass > 0.0:
                pb.changeDynamics(self.body, link, mass=mass * task.mass / sum(masses), **options)
        for joint, damping in zip(self.joints, task.damping, strict=True):
            pb.changeDynamics(self.body, joint, jointDamping=float(damping), **options)

    def _place(self, pose: np.ndarray) -> None:
        pb = self.pb
        # PyBullet places the inertial frame of the root
        self.inertial = pb.getDynamicsInfo(self.body, -1, **self.options)[3:5]
        where = pb.multiplyTransforms(pose[:3].tolist(), pose[3:7].tolist(), *self.inertial)
        pb.resetBasePositionAndOrientation(self.body, *where, **self.options)
        for joint, angle in zip(self.joints, pose[7:], strict=True):
            pb.resetJointState(self.body, joint, float(angle), **self.options)

    def run(self, steps: int, torques: np.ndarray | None) -> None:
        step, client = self.pb.stepSimulation, self.client
        if torques is None:
            for _ in range(steps):
                step(physicsClientId=client)
            return
        for frame in torques.tolist():
            for _ in range(HOLD):
                # torques last for one step
                self.pb.setJointMotorControlArray(
                    self.body, self.joints, self.pb.TORQUE_CONTROL, forces=frame, **self.options
                )
                step(physicsClientId=client)

    def motion(self) -> tuple[float, float]:
        placed = self.pb.getBasePositionAndOrientation(self.body, **self.options)
        base = self.pb.multiplyTransforms(*placed, *self.pb.invertTransform(*self.inertial))[0]
        return base[2], self.fastest(self.body, self.joints)
