"""A task of the benchmark of gradients in an engine: a loss, its gradient, and work to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import warp as wp
from tasks.gradients import Task

import newtonsim
from newtonsim import diff


class Engine(Protocol):
    """A task in an engine.

    Attributes:
        name: What tables call it.
        start: Inputs: initial velocities, and forces at the joints, flat, float64.
    """

    name: str
    start: np.ndarray

    def loss(self, inputs: np.ndarray) -> float:
        """Run forward."""

    def gradient(self) -> np.ndarray:
        """Gradient at the start by the engine's own means."""

    def forward(self, count: int) -> None:
        """Run forward from the start some times."""

    def both(self, count: int) -> None:
        """Find value and gradient at the start some times."""


@wp.kernel
def weigh_bodies(
    body_q: wp.array(dtype=wp.transform), weights: wp.array2d(dtype=float), losses: wp.array(dtype=float)
):
    b = wp.tid()
    p = wp.transform_get_translation(body_q[b])
    x = wp.quat_rotate(wp.transform_get_rotation(body_q[b]), wp.vec3(1.0, 0.0, 0.0))
    for k in range(3):
        wp.atomic_add(losses, 0, weights[b, k] * p[k] + weights[b, 3 + k] * x[k])


@wp.kernel
def weigh_particles(
    particle_q: wp.array(dtype=wp.vec3), weights: wp.array2d(dtype=float), losses: wp.array(dtype=float)
):
    i = wp.tid()
    x = particle_q[i]
    for k in range(3):
        wp.atomic_add(losses, 0, weights[i, k] * x[k])


def make_loss(task: Task, count: int) -> Callable:
    """Return the loss of a final state, of newtonsim or Newton."""
    weights = wp.array(task.weights(count), dtype=float, device="cpu")

    def loss(state, losses: wp.array) -> None:
        kernel, q = (weigh_particles, state.particle_q) if task.particles else (weigh_bodies, state.body_q)
        wp.launch(kernel, count, [q, weights], [losses], device="cpu")

    return loss


@dataclass(frozen=True)
class Choice:
    """A solver and how it is run.

    Attributes:
        solver: Class of the solver.
        options: Arguments of the solver.
        penalty: Whether contacts are springs and dampers.
        substeps: Steps of the solver for one of the task.
    """

    solver: str
    options: tuple[tuple[str, object], ...] = ()
    penalty: bool = False
    substeps: int = 1


class WarpEngine:
    """What both engines on Warp share: arrays of a model's first state and its control are the inputs.

    Args:
        task: The task.
        model: Of either engine.
        state: First state.
        control: The control.
        reduced: Whether the solver reads joint coordinates.
    """

    def __init__(self, task: Task, model, state, control, reduced: bool):
        velocity = "particle_qd" if task.particles else ("joint_qd" if reduced else "body_qd")
        self.places = {f"state.{velocity}": getattr(state, velocity)}
        if task.torques:
            self.places["control.joint_f"] = control.joint_f
        parts = [array.numpy().astype(np.float64).ravel() for array in self.places.values()]
        self._bounds = np.cumsum([part.size for part in parts])[:-1]
        self._movable = _movable(model) if task.particles else slice(None)
        self._full = np.concatenate(parts)
        self.start = self._full[self._movable]

    def write(self, inputs: np.ndarray) -> None:
        full = self._full.copy()
        full[self._movable] = inputs
        for array, part in zip(self.places.values(), np.split(full, self._bounds)):
            array.assign(part.astype(np.float32).reshape(array.numpy().shape))


def _movable(model) -> np.ndarray:
    """Indices of the velocities of particles that can move."""
    return np.flatnonzero(np.repeat(model.particle_inv_mass.numpy() > 0.0, 3))


class OurEngine(WarpEngine):
    """newtonsim: `newtonsim.diff.Rollout`, all states kept."""

    def __init__(self, task: Task, choice: Choice):
        soft = " compliant" if ("contact_mode", "compliant") in choice.options else ""
        self.name = f"newtonsim {choice.solver.removesuffix('Solver')}{soft}"
        dt, steps = task.dt / choice.substeps, task.steps * choice.substeps
        model = task.builder(dt, choice.penalty).finalize("cpu", requires_grad=True)
        solver = getattr(newtonsim.solvers, choice.solver)(model, **dict(choice.options))
        if choice.solver == "XPBDSolver" and model.body_count:
            # gradients are those of converged steps: sweeps over velocities, too
            solver.constraints.velocity_sweeps = solver.iterations
        self.state, self.control = model.state(), model.control()
        if not task.particles:
            newtonsim.eval_fk(model, self.state.joint_q, self.state.joint_qd, None, self.state)
        reduced = choice.solver == "FeatherstoneSolver"
        super().__init__(task, model, self.state, self.control, reduced)
        count = model.particle_count if task.particles else model.body_count
        loss, wrt = make_loss(task, count), tuple(self.places)
        self.rollout = diff.Rollout(model, solver, steps, dt, loss, wrt=wrt, checkpoint="tape")

    def loss(self, inputs: np.ndarray) -> float:
        self.write(inputs)
        return float(self.rollout.evaluate(self.state, self.control).losses.numpy()[0])

    def gradient(self) -> np.ndarray:
        self.write(self.start)
        found = self.rollout(self.state, self.control).gradients
        parts = [found[name].numpy().astype(np.float64).ravel() for name in self.places]
        return np.concatenate(parts)[self._movable]

    def forward(self, count: int) -> None:
        for _ in range(count):
            self.rollout.evaluate(self.state, self.control)

    def both(self, count: int) -> None:
        for _ in range(count):
            self.rollout(self.state, self.control)
