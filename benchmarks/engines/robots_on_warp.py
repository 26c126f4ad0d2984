"""Copies of a robot in the other engines on Warp: Newton and mujoco_warp, each step replayed from a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp
from tasks.harness import DT
from tasks.robots import HOLD, Task
from tasks.work import Work

from engines.mujoco_models import mujoco_model, mujoco_pose, mujoco_work


@dataclass(frozen=True)
class NewtonChoice:
    """A solver of Newton and how it is run.

    Attributes:
        solver: Class in `newton.solvers`.
        substeps: Solver steps of each step.
        options: Arguments of the solver.
    """

    solver: str
    substeps: int = 1
    options: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        """Name the solver, and the substeps if there are several."""
        name = self.solver.removeprefix("Solver")
        return name + (f" x {self.substeps}" if self.substeps > 1 else "")


STEEL = (("enable_joint_limits", True), ("articulation_constraint_max", 128))
"""What Newton's SolverSteel needs to keep the joint limits of a humanoid on the ground."""

NEWTON_CHOICES = (
    *(NewtonChoice("SolverXPBD", n) for n in (1, 2, 4, 8)),
    NewtonChoice("SolverMuJoCo", 1, (("nconmax", 96), ("njmax", 256))),
    *(NewtonChoice("SolverSteel", n, STEEL) for n in (1, 2, 4)),
    *(NewtonChoice("SolverSemiImplicit", n) for n in (4, 16)),
    *(NewtonChoice("SolverFeatherstone", n) for n in (2, 4)),
)
"""What is tried to find Newton's fastest stable solver."""

NEWTON_SHORT = 5
"""How many of them are tried in the short form."""


class NewtonRobots:
    """Newton: collision pipeline and solver, captured into a graph of two steps, which swap the states."""

    def __init__(self, task: Task, choice: NewtonChoice, device: str = "cpu"):
        import newton

        self.newton, self.task, self.worlds = newton, task, task.worlds
        self.device = wp.get_device(device)
        self.threads = 1 if self.device.is_cpu else 0
        self.name = f"Newton {choice}"
        self.model = newton_model(task, device, choice.solver)
        self.solver = getattr(newton.solvers, choice.solver)(self.model, **dict(choice.options))
        self.substeps = choice.substeps
        self.states = [self.model.state(), self.model.state()]
        self.control = self.model.control()
        # contact reduction serves meshes; without it robots of primitives are faster
        self.collisions = newton.CollisionPipeline(self.model, reduce_contacts=False)
        self.contacts = self.collisions.contacts()
        newton.eval_fk(self.model, self.model.joint_q, self.model.joint_qd, self.states[0])
        self.states[1].assign(self.states[0])
        self._two_steps()
        with wp.ScopedCapture(device=self.device) as capture:
            self._two_steps()
        self.graph = capture.graph

    def _two_steps(self) -> None:
        for _ in range(2):
            self.collisions.collide(self.states[0], self.contacts)
            for _ in range(self.substeps):
                self.states[0].clear_forces()
                self.solver.step(*self.states, self.control, self.contacts, DT / self.substeps)
                self.states.reverse()

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        if controls is None:
            self._command(self.task.idle_inputs(self.worlds))
            self._replay(steps)
        else:
            for frame in self.task.inputs(controls):
                self._command(frame)
                self._replay(HOLD)
        wp.synchronize_device(self.device)

    def _command(self, inputs: np.ndarray) -> None:
        # before the hinges, there is the free joint
        array, skipped = (self.control.joint_target_q, 7) if self.task.drives else (self.control.joint_f, 6)
        free = np.zeros((self.worlds, skipped), np.float32)
        array.assign(np.concatenate([free, inputs], axis=1).reshape(-1))

    def _replay(self, steps: int) -> None:
        for _ in range(steps // 2):
            wp.capture_launch(self.graph)

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        state = self.states[0]
        self.newton.eval_ik(self.model, state, state.joint_q, state.joint_qd)
        q, qd = (a.numpy().reshape(self.worlds, -1) for a in (state.joint_q, state.joint_qd))
        return q[:, 2], np.abs(qd).max(axis=1)

    def work(self) -> Work:
        model = self.model
        pairs, world = model.shape_contact_pairs.numpy(), model.shape_world.numpy()
        pairs = pairs[world[pairs].max(axis=1) == 0]
        kinds, sizes = model.shape_type.numpy(), model.shape_scale.numpy()
        shapes = []
        for s in np.unique(pairs):
            kind = self.newton.GeoType(kinds[s]).name.lower()
            count = {"plane": 0, "sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
            shapes.append((kind, tuple(sizes[s, :count].tolist())))
        iterations = getattr(self.solver, "iterations", None)
        stop = f"with {iterations} iterations" if iterations else "by its own rule"
        return Work(len(pairs), tuple(shapes), DT / self.substeps, 1, stop)

    def close(self) -> None:
        pass


def newton_model(task: Task, device: str, solver: str = ""):
    """Build Newton's model of all worlds in their start poses."""
    import newton

    robot = newton.ModelBuilder()
    if solver == "SolverMuJoCo":
        newton.solvers.SolverMuJoCo.register_custom_attributes(robot)
    # its importer does not know every option of MuJoCo
    robot.add_mjcf(task.path, parse_mujoco_options=False)
    scene = newton.ModelBuilder()
    scene.replicate(robot, task.worlds)
    if not task.has_ground:
        scene.add_ground_plane()
    model = scene.finalize(device)
    model.joint_q.assign(task.poses.astype(np.float32).reshape(-1))
    return model


class MujocoWarpRobots:
    """mujoco_warp with one evaluation a step, captured into a graph; room for contacts as MuJoCo needs it."""

    def __init__(self, task: Task, device: str = "cpu", contacts: int = 32, rows: int = 128):
        import mujoco
        import mujoco_warp

        self.worlds, self.idle = task.worlds, task.idle.astype(np.float32)
        self.device = wp.get_device(device)
        self.threads = 1 if self.device.is_cpu else 0
        self.name = "mujoco_warp EULER, NEWTON"
        # it has neither PGS nor a fast RK4
        self.host = host = mujoco_model(task, "EULER", "NEWTON")
        data = mujoco.MjData(host)
        mujoco.mj_forward(host, data)
        with wp.ScopedDevice(device):
            self.model = mujoco_warp.put_model(host)
            self.data = mujoco_warp.put_data(host, data, nworld=task.worlds, nconmax=contacts, njmax=rows)
            self.data.qpos.assign(np.stack([mujoco_pose(pose) for pose in task.poses]).astype(np.float32))
            mujoco_warp.step(self.model, self.data)
            with wp.ScopedCapture(device=self.device) as capture:
                mujoco_warp.step(self.model, self.data)
        self.graph = capture.graph

    def run(self, steps: int, controls: np.ndarray | None) -> None:
        if controls is None:
            self.data.ctrl.assign(np.tile(self.idle, (self.worlds, 1)))
            self._replay(steps)
        else:
            for frame in controls:
                self.data.ctrl.assign(frame)
                self._replay(HOLD)
        wp.synchronize_device(self.device)

    def _replay(self, steps: int) -> None:
        for _ in range(steps):
            wp.capture_launch(self.graph)

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos.numpy()[:, 2], np.abs(self.data.qvel.numpy()).max(axis=1)

    def work(self) -> Work:
        return mujoco_work(self.host, int(self.data.solver_niter.numpy().max()))

    def close(self) -> None:
        pass
