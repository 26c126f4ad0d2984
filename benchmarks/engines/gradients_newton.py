"""The tasks of the benchmark of gradients in Newton, by wp.Tape, and in MuJoCo, by finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import warp as wp
from tasks.gradients import Task

import newtonsim
from engines.gradients import Choice, WarpEngine, make_loss
from engines.newton_models import newton_particles


class NewtonEngine(WarpEngine):
    """Newton: a state and contacts for every step, and wp.Tape; replayed from graphs where that can be.

    That every step has contacts of its own favours it: tapes read buffers as they are in the end.
    """

    def __init__(self, task: Task, choice: Choice):
        import newton

        self.name = f"Newton {choice.solver.removeprefix('Solver')}"
        self.dt, self.steps = task.dt / choice.substeps, task.steps * choice.substeps
        self.model = model = newton_model(task, task.builder(self.dt, choice.penalty))
        self.solver = getattr(newton.solvers, choice.solver)(model, **dict(choice.options))
        self.states = [model.state() for _ in range(self.steps + 1)]
        self.control = model.control()
        if not task.particles:
            newton.eval_fk(model, model.joint_q, model.joint_qd, self.states[0])
        self.contacts, self.pipeline = [None] * self.steps, None
        if task.contact:
            self.pipeline = newton.CollisionPipeline(model, rigid_contact_max=8, reduce_contacts=False)
            self.contacts = [self.pipeline.contacts() for _ in range(self.steps)]
        super().__init__(task, model, self.states[0], self.control, choice.solver == "SolverFeatherstone")
        self._loss = make_loss(task, model.particle_count if task.particles else model.body_count)
        self._total = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)
        self._found = [wp.zeros_like(array, requires_grad=False) for array in self.places.values()]
        self.captured = True
        self._forward, self._both = self._capture(self._run), self._capture(self._run_both)

    def _run(self) -> None:
        for step in range(self.steps):
            before, after = self.states[step : step + 2]
            if self.pipeline is not None:
                self.pipeline.collide(before, self.contacts[step])
            before.clear_forces()
            self.solver.step(before, after, self.control, self.contacts[step], self.dt)
        self._total.zero_()
        self._loss(self.states[-1], self._total)

    def _run_both(self) -> None:
        with wp.Tape() as tape:
            self._run()
        tape.backward(self._total)
        for found, array in zip(self._found, self.places.values(), strict=True):
            if array.grad is None:
                found.zero_()
            else:
                wp.copy(found, array.grad)
        tape.zero()  # which knows only after the backward pass what to clear

    def _capture(self, work: Callable[[], None]) -> Callable[[], object]:
        work()  # compiles
        try:
            with wp.ScopedCapture(device="cpu") as capture:
                work()
        except Exception:  # whatever a solver raises that cannot be captured
            self.captured = False
            return work
        return lambda: wp.capture_launch(capture.graph)

    def loss(self, inputs: np.ndarray) -> float:
        self.write(inputs)
        self._forward()
        return float(self._total.numpy()[0])

    def gradient(self) -> np.ndarray:
        self.write(self.start)
        self._both()
        parts = [found.numpy().astype(np.float64).ravel() for found in self._found]
        return np.concatenate(parts)[self._movable]

    def forward(self, count: int) -> None:
        for _ in range(count):
            self._forward()

    def both(self, count: int) -> None:
        for _ in range(count):
            self._both()


def newton_model(task: Task, b: newtonsim.ModelBuilder):
    """Return Newton's model with the particles of a builder, or its bodies on hinges or free joints."""
    import newton

    if task.particles:
        return newton_particles(b, requires_grad=True)
    p = newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=(0.0, 0.0, -9.81))
    for body in range(b.body_count):
        inertia, com = b.body_inertia[body], b.body_com[body]
        p.add_link(xform=b.body_q[body], mass=b.body_mass[body], com=com, inertia=inertia)
    joints = []
    for j, child in enumerate(b.joint_child):
        frames = {"parent_xform": b.joint_X_p[j], "child_xform": b.joint_X_c[j], "parent": b.joint_parent[j]}
        if b.joint_type[j] == newtonsim.JOINT_FREE:
            joints.append(p.add_joint_free(child, **frames))
        else:
            axis = b.joint_axis[b.joint_axis_start[j]]
            options = {"limit_lower": -1.0e6, "limit_upper": 1.0e6, "armature": 0.0}
            joints.append(p.add_joint_revolute(child=child, axis=axis, **options, **frames))
    p.add_articulation(joints)
    if task.contact:
        names = ("ke", "kd", "kf", "mu", "restitution")
        values = {name: getattr(b, f"shape_material_{name}")[0] for name in names}
        config = newton.ModelBuilder.ShapeConfig(density=0.0, **values)
        size = b.shape_geo_scale[0]
        if b.shape_geo_type[0] == newtonsim.GEO_SPHERE:
            p.add_shape_sphere(0, radius=size[0], cfg=config)
        else:
            p.add_shape_box(0, hx=size[0], hy=size[1], hz=size[2], cfg=config)
        p.add_ground_plane(cfg=config)
    model = p.finalize("cpu", requires_grad=True)
    model.joint_q.assign(np.array(b.joint_q, np.float32))
    velocities = np.array(b.joint_qd, np.float32)
    if b.joint_type[0] == newtonsim.JOINT_FREE:
        velocities = np.roll(velocities, 3)  # linear part first
    model.joint_qd.assign(velocities)
    return model
