"""What the solvers of particles have in common: a step of particles among rigid bodies."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.solvers.maximal.moving_bodies import MovingBodies


@dataclass
class ParticleStep:
    """What a particle system sees of a step.

    Attributes:
        x: Positions, changed in place [m], shape (particle_count,), vec3.
        v: Velocities, changed in place [m/s], shape (particle_count,), vec3.
        f: External forces [N], shape (particle_count,), vec3; None for none.
        control: Inputs of the step.
        dt: Length of the step [s].
        sweep: Sweeps made in the substep, for systems that count them.
        substep: Substeps begun, likewise.
    """

    x: wp.array
    v: wp.array
    f: wp.array | None
    control: Control | None
    dt: float
    sweep: int = 0
    substep: int = 0


@runtime_checkable
class ParticleSystem(Protocol):
    """Particles and their elements, moved within a step among rigid bodies that they push.

    Everything is launched, nothing is allocated or read back.

    Attributes:
        particles: The model of the particles.
        starts: Kinds of index beside those of the rigid bodies' model, see `Shard`.
        substeps: Substeps of a step.
        iterations: Sweeps of a substep.
    """

    particles: Model
    starts: dict[str, np.ndarray]
    substeps: int
    iterations: int

    def begin(self, launch: Launcher, step: ParticleStep) -> None:
        """Start a step: external forces, gravity and what else is explicit."""

    def begin_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """Predict positions after dt, and find contacts."""

    def sweep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """Go once over elements and contacts; bodies are pushed, and feel it after the sweep."""

    def end_substep(self, launch: Launcher, step: ParticleStep, dt: float, bodies: MovingBodies) -> None:
        """Write positions and velocities."""


class BodySystem(Protocol):
    """Constraints of rigid bodies that are solved in the same sweeps as the particles."""

    def begin_substep(self, launch: Launcher, dt: float, bodies: MovingBodies) -> None:
        """Prepare what is constant in a substep."""

    def sweep(self, launch: Launcher, dt: float, bodies: MovingBodies, last: bool) -> None:
        """Go once over joints and contacts, and change velocities and poses of the bodies."""

    def end_substep(self, launch: Launcher, dt: float, bodies: MovingBodies) -> None:
        """Move the bodies in `origin`, then change their velocities by restitution and damping."""


def advance(
    launch: Launcher,
    particles: ParticleSystem | None,
    step: ParticleStep,
    bodies: MovingBodies,
    constraints: BodySystem | None = None,
    substeps: int = 1,
    iterations: int = 1,
) -> None:
    """Move particles, and bodies as far as this step solves them, through a step.

    `MovingBodies.begin` comes before; what becomes of the bodies' motion is up to the caller. It is complete
    in `origin` after a last `begin_substep`, of length 0.

    Args:
        launch: For the worlds of the bodies' model.
        particles: The particles, if any.
        step: The step.
        bodies: The bodies.
        constraints: Joints and contacts of the bodies; None where another solver handles them.
        substeps: Substeps.
        iterations: Sweeps of each substep.
    """
    if particles is not None:
        launch = Launcher(launch.model, False, Shard(launch.model, launch.shard.worlds, particles.starts))
        particles.begin(launch, step)
    dt = step.dt / substeps
    for number in range(substeps):
        bodies.begin_substep(launch, dt if number and constraints is None else 0.0, dt)
        if particles is not None:
            particles.begin_substep(launch, step, dt, bodies)
            bodies.share(launch)
        if constraints is not None:
            constraints.begin_substep(launch, dt, bodies)
        for sweep in range(iterations):
            if particles is not None:
                particles.sweep(launch, step, dt, bodies)
                bodies.apply_impulses(launch)
            if constraints is not None:
                constraints.sweep(launch, dt, bodies, last=sweep == iterations - 1)
        if particles is not None:
            particles.end_substep(launch, step, dt, bodies)
        if constraints is not None:
            constraints.end_substep(launch, dt, bodies)


def starts_of(owner: np.ndarray, worlds: int) -> np.ndarray:
    """First index of each world, and the end, of things ordered by world (n,)."""
    return np.searchsorted(owner, np.arange(worlds + 1)).astype(int)


def check_models(particles: Model, rigid: Model) -> None:
    """Check the models of particles and of the bodies among them, which may be the same.

    Raises:
        ModelError: Their worlds differ.
    """
    if particles.world_count != rigid.world_count:
        raise ModelError(
            f"soft bodies: {particles.world_count} worlds of particles, {rigid.world_count} of bodies"
        )
    warn_of_weak_triangles(particles)


def warn_of_weak_triangles(model: Model) -> None:
    """Warn of bending edges that are strong enough to turn the triangles beside them inside out.

    A triangle that is pressed flat within its plane, and beyond, turns its normal round: the angle at its
    edges jumps by π, and the energy of a folded edge is there at once. Triangles prevent this as long as
    flattening them, which costs A (ke/4 + ka/8), takes more than folding the edge, ½ ke L π².

    Args:
        model: Triangles without stiffness, and edges without two triangles, are left out.
    """
    if not model.edge_count or not model.tri_count:
        return
    triangles, materials = model.tri_indices.numpy(), model.tri_materials.numpy().astype(np.float64)
    flattening = model.tri_areas.numpy() * (materials[:, 0] / 4.0 + materials[:, 1] / 8.0)
    stiff = materials[:, 0] > 0.0
    weakest = np.full(model.particle_count, np.inf)
    for corner in range(3):
        np.minimum.at(weakest, triangles[stiff, corner], flattening[stiff])
    edges = model.edge_indices.numpy()
    folding = 0.5 * np.pi**2 * model.edge_bending_properties.numpy()[:, 0] * model.edge_rest_length.numpy()
    beside = np.minimum(weakest[edges[:, 2]], weakest[edges[:, 3]])
    strong = np.flatnonzero((edges[:, :2] >= 0).all(axis=1) & np.isfinite(beside) & (folding > beside))
    if len(strong):
        first = int(strong[0])
        warnings.warn(
            f"{len(strong)} of {len(edges)} bending edges are strong enough to turn triangles inside out, "
            f"which releases energy: folding edge {first} takes {folding[first]:.2g} J, flattening a "
            f"triangle beside it {beside[first]:.2g} J; lower edge_ke or raise tri_ke and tri_ka",
            stacklevel=4,
        )
