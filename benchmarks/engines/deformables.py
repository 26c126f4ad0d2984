"""One scene of deformables in two engines: newtonsim and Newton, both with a step replayed from a graph.

Particles, elements, masses and time steps are equal. Coefficients are equal too: both engines mean the same
by them, up to the energy of triangles, see tasks/deformables_residual.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import warp as wp
from tasks.deformables import Heap, Scene

import newtonsim
from engines.newton_models import newton_particles
from newtonsim.solvers import VBDSolver, XPBDSolver


class Engine(Protocol):
    """A scene in an engine.

    Attributes:
        name: What tables call it.
        graph: Whether steps are replayed from a graph.
    """

    name: str
    graph: bool

    def start_from(self, x: np.ndarray, v: np.ndarray) -> None:
        """Set the state that `again` starts from: positions and velocities (n, 3)."""

    def again(self, count: int) -> None:
        """Make the same step from that state some times."""

    def step(self, count: int) -> None:
        """Go on by some steps."""

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities (n, 3), float64."""


class _Replayed:
    """Steps of a solver between two states, replayed from graphs where the solver can be captured.

    Args:
        arrays: `particle_q` and `particle_qd` of the state that a step reads, and of the one that it writes.
        advance: Makes a step from the first to the second.
        count: Number of particles.
    """

    graph = True

    def __init__(self, arrays: list[wp.array], advance, count: int):
        self.before, self.after = arrays[:2], arrays[2:]
        self.first = [wp.zeros(count, dtype=wp.vec3, device="cpu") for _ in range(2)]
        self.advance = advance

    def capture(self) -> None:
        """Compile, and capture a step; without graphs if that fails."""

        def again() -> None:
            for source, target in zip(self.first, self.before):
                wp.copy(target, source)
            self.advance()

        def onward() -> None:
            self.advance()
            for source, target in zip(self.after, self.before):
                wp.copy(target, source)

        again()
        self._again, self._onward = again, onward
        try:
            with wp.ScopedCapture(device="cpu") as first:
                again()
            with wp.ScopedCapture(device="cpu") as second:
                onward()
        except Exception:  # whatever a solver raises that cannot be captured
            self.graph = False
            return
        self._again = lambda: wp.capture_launch(first.graph)
        self._onward = lambda: wp.capture_launch(second.graph)

    def start_from(self, x: np.ndarray, v: np.ndarray) -> None:
        for target, value in zip(self.first, (x, v)):
            target.assign(value.astype(np.float32))
        for source, before, after in zip(self.first, self.before, self.after):
            wp.copy(before, source)
            wp.copy(after, source)

    def again(self, count: int) -> None:
        for _ in range(count):
            self._again()

    def step(self, count: int) -> None:
        for _ in range(count):
            self._onward()
        for source, target in zip(self.before, self.after):
            wp.copy(target, source)

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        x, v = (array.numpy().astype(np.float64) for array in self.after)
        return x, v


class _Steps(_Replayed):
    """Steps of a solver of a model.

    Args:
        name: What tables call the engine.
        model: newtonsim's or Newton's.
        advance: Makes a step from the first of two states to the second.
    """

    def __init__(self, name: str, model, advance: Callable[[list], None]):
        self.name, self.states = name, [model.state(), model.state()]
        arrays = [array for state in self.states for array in (state.particle_q, state.particle_qd)]
        super().__init__(arrays, lambda: advance(self.states), model.particle_count)
        self.start_from(*(array.numpy() for array in arrays[:2]))
        self.capture()
        self.start_from(*(array.numpy() for array in self.first))


def our_steps(scene: Scene) -> Callable[[int], Engine]:
    """Return what makes newtonsim's engine with a number of iterations."""
    model = scene.builder.finalize("cpu")
    control = model.control()

    def make(iterations: int) -> Engine:
        solver = _our_solver(scene, model, iterations)
        return _Steps("newtonsim", model, lambda s: solver.step(model, *s, control, None, scene.dt))

    return make


def _our_solver(scene: Scene, model: newtonsim.Model, iterations: int):
    if scene.solver == "XPBD":
        return XPBDSolver(model, iterations=iterations)
    if scene.self_contact is None:
        return VBDSolver(model, iterations=iterations)
    model.soft_contact_radius = scene.self_contact.radius
    model.soft_contact_margin = scene.self_contact.margin
    return VBDSolver(model, iterations=iterations, handle_self_contact=True)


def peer_steps(scene: Scene) -> Callable[[int], Engine]:
    """Return what makes Newton's engine with a number of iterations."""
    import newton

    model = newton_particles(scene.builder)
    control = model.control()
    options = {}
    if scene.solver == "VBD":
        options["particle_enable_tile_solve"] = False  # for GPUs
    if scene.self_contact is not None:
        near = scene.self_contact
        options["particle_enable_self_contact"] = True
        options["particle_self_contact_margin"] = near.radius
        options["particle_self_contact_gap"] = near.margin - near.radius

    def make(iterations: int) -> Engine:
        kind = getattr(newton.solvers, f"Solver{scene.solver}")
        solver = kind(model, iterations=iterations, **options)
        return _Steps("Newton", model, lambda s: solver.step(*s, control, None, scene.dt))

    return make


def our_heaps(heap: Heap) -> Callable[[int], Engine]:
    """Return what makes newtonsim's engine of a heap with a number of iterations."""
    model = heap.builder.finalize("cpu")
    _set_friction(model)
    control = model.control()

    def make(iterations: int) -> Engine:
        solver = XPBDSolver(model, iterations=iterations)
        return _Steps("newtonsim", model, lambda s: solver.step(model, *s, control, None, heap.dt))

    return make


def peer_heaps(heap: Heap) -> Callable[[int], Engine]:
    """Return what makes Newton's engine of a heap; contacts with the walls are found in every step."""
    import newton

    model = newton_particles(heap.builder, heap.planes)
    _set_friction(model)
    pipeline, control = newton.CollisionPipeline(model), model.control()
    contacts = pipeline.contacts()

    def make(iterations: int) -> Engine:
        solver = newton.solvers.SolverXPBD(model, iterations=iterations)

        def advance(states: list) -> None:
            pipeline.collide(states[0], contacts)
            solver.step(*states, control, contacts, heap.dt)

        return _Steps("Newton", model, advance)

    return make


def _set_friction(model) -> None:
    model.particle_mu = _filled(model.particle_mu, 0.3)
    model.soft_contact_mu = 0.3


def _filled(value, number: float):
    """Return a number, or an array of it in the place of an array."""
    if isinstance(value, wp.array):
        value.fill_(number)
        return value
    return number
