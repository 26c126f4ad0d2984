"""Adjoint of a step of particles and rigid bodies that the same sweeps move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels.maximal.adjoint import system as system_adjoint
from newtonsim.kernels.particles.adjoint import (
    body_touches,
    coupled_system,
    expected_bodies,
)
from newtonsim.kernels.particles.adjoint import system as particle_system_adjoint
from newtonsim.kernels.particles.adjoint.contacts import TouchSlopes
from newtonsim.kernels.particles.contacts import CONTACTS, FACE_CONTACTS
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.solvers.maximal.adjoint import BodyAdjoint, NoParticles, PositionSystem
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.particles.adjoint import LARGEST_RESIDUAL, KeptSubstep, ParticleAdjoint
from newtonsim.solvers.particles.adjoint_contacts import ContactSlopes
from newtonsim.solvers.particles.adjoint_system import TOLERANCE
from newtonsim.solvers.particles.system import starts_of
from newtonsim.solvers.step import Step

if TYPE_CHECKING:
    from newtonsim.solvers.particles.adjoint import ImplicitParticles


class ParticlesAmongBodies(NoParticles):
    """Particles in the backward pass of the bodies that they touch, see `kernels.particles.adjoint`.

    A substep is solved again by sweeps over both, as many as the bodies take. Its multipliers solve one
    system: particles by BiCGSTAB, bodies and their rows by the factors of their own system in each of its
    iterations.

    Args:
        particles: Backward pass of the particles.
        contacts: Its contacts with shapes.
        bodies: That of the bodies.
    """

    def __init__(self, particles: ParticleAdjoint, contacts: ContactSlopes, bodies: BodyAdjoint):
        model = particles.model
        self._particles, self._contacts, self._model = particles, contacts, model
        owner: np.ndarray = model.particle_world.numpy()
        self._astray = int((owner < 0).sum())
        contacts.meets_bodies = True
        particles.bodies = self
        particles.add_kinds({"coupled world": np.array([0, model.world_count])})
        device, count = model.device, model.body_count
        self._origin = wp.zeros(count, dtype=wp.vec3, device=device, requires_grad=True)
        self._centre = wp.zeros(count, dtype=wp.vec3, device=device, requires_grad=True)
        self._facing = wp.zeros(count, dtype=wp.quat, device=device, requires_grad=True)
        self._expected = zeros(count, dtype=wp.spatial_vector, device=device, requires_grad=True)
        self._term = wp.zeros(count, dtype=float, device=device, requires_grad=True)
        self._touched = self._make_touched()
        self._points = self._make_blocks(np.argsort(owner, kind="stable"), owner, int(CONTACTS))
        triangles: np.ndarray = model.tri_indices.numpy() if model.tri_count else np.zeros((0, 3), int)
        corner = triangles.reshape(-1, 3)[:, 0]
        order = np.argsort(owner[corner], kind="stable")
        self._faces = self._make_blocks(order, owner[corner], int(FACE_CONTACTS))
        self._system = coupled_system.BodiesView()
        self._system.gradient = zeros(6 * count, dtype=wp.float64, device=device)

    def _make_touched(self) -> body_touches.TouchedBodies:
        view, count, device = body_touches.TouchedBodies(), self._model.body_count, self._model.device
        view.origin, view.centre, view.expected = self._origin, self._centre, self._expected
        view.carry = zeros(count, dtype=wp.mat33, device=device)
        view.impulse = zeros(count, dtype=wp.spatial_vector, device=device, requires_grad=True)
        view.own = zeros((count, 4), dtype=wp.mat33d, device=device)
        view.by_turns, view.by_pushes = (zeros(count, dtype=wp.vec3d, device=device) for _ in range(2))
        for name in ("origin", "centre", "turn", "spin", "speed", "expected_spin", "expected_speed"):
            setattr(view, f"by_{name}", zeros(count, dtype=wp.vec3d, device=device))
        return view

    def _make_blocks(self, order: np.ndarray, owner: np.ndarray, most: int) -> body_touches.TouchBlocks:
        view, device = body_touches.TouchBlocks(), self._model.device
        view.member = put(order, dtype=int, device=device)
        start = starts_of(owner[order], self._model.world_count)
        view.world_start = put(start, dtype=int, device=device)
        for name in ("point_spin", "point_speed", "spin_point", "speed_point"):
            setattr(view, name, zeros((len(order), most), dtype=wp.mat33d, device=device))
        return view

    def check(self) -> None:
        """Refuse models whose global world has particles.

        Raises:
            NotDifferentiableError: It has.
        """
        if self._astray:
            raise NotDifferentiableError(
                f"{self._astray} particles of the global world among rigid bodies have no gradients"
            )

    def begin(self, step: Step, substeps: int, iterations: int) -> None:
        """See `NoParticles.begin`."""
        self._step, self._launch = step, self._particles.launcher()
        system: ImplicitParticles = self._particles.particles
        system.iterations, system.substeps = iterations, substeps
        self._again = self._particles.start_again(self._launch, step)

    def begin_substep(self, number: int, dt: float, bodies: MovingBodies, fresh: bool) -> None:
        """See `NoParticles.begin_substep`."""
        self._particles.start_substep(number, fresh)
        self._particles.particles.begin_substep(self._launch, self._again, dt, bodies)
        bodies.share(self._launch)

    def sweep(self, dt: float, bodies: MovingBodies) -> None:
        """See `NoParticles.sweep`."""
        self._particles.particles.sweep(self._launch, self._again, dt, bodies)
        bodies.apply_impulses(self._launch)

    def end_substep(self, number: int, dt: float, bodies: MovingBodies) -> None:
        """See `NoParticles.end_substep`."""
        self._particles.note(self._launch, number, dt)
        self._particles.particles.end_substep(self._launch, self._again, dt, bodies)

    def begin_reverse(self, step: Step) -> None:
        """See `NoParticles.begin_reverse`."""
        substeps = self._particles.particles.substeps
        self._particles.begin_reverse(self._launch, step)
        self._particles.compare_ends(self._launch, step, substeps - 1, step.dt / substeps)

    def record_free(self, taped: Launcher, adjoint: BodyAdjoint, dt: float) -> None:
        """See `NoParticles.record_free`."""
        for array in (self._origin, self._centre, self._facing, self._expected):
            fill(self._particles.sinks.of(array))
        taped(
            expected_bodies.predict_bodies,
            "body",
            reads=dict(x0=adjoint.x0, u0=adjoint.u0, com=self._model.body_com, dt=dt),
            writes=dict(
                origin=self._origin, centre=self._centre, facing=self._facing, expected=self._expected
            ),
        )

    def solve(self, launch: Launcher, adjoint: BodyAdjoint, number: int, dt: float) -> None:
        """See `NoParticles.solve`."""
        particles, launch, step = self._particles, self._launch, self._step
        touched, given = self._touched, adjoint.position_system()
        touched.world, touched.role = given["system"].world, given["system"].role
        touched.velocity = adjoint.u
        launch(body_touches.begin_touched, "body", writes=dict(bodies=touched))
        launch(
            body_touches.carry_impulses,
            "body",
            reads=dict(inertia=self._model.body_inertia, middle=adjoint.middle, facing=self._facing),
            writes=dict(bodies=touched),
        )
        kept = particles.prepare_system(launch, step, number, dt)
        launch(body_touches.hand_velocities, "body", writes=dict(bodies=touched, total=adjoint.u.grad))
        particles.weigh(launch, step, kept, dt)
        for (kind, touch), blocks in zip(self._views(dt), (self._points, self._faces)):
            launch(
                body_touches.couple_bodies,
                kind,
                reads=dict(
                    touch=touch,
                    goal=kept.goal,
                    s=particles.substep,
                    stiffness=self._contacts.stiffness,
                    world=particles.system.world,
                ),
                writes=dict(
                    bodies=touched,
                    matrix=particles.system.view.matrix.value,
                    blocks=blocks,
                    reason=particles.reason,
                ),
            )
        self._solve_both(launch, adjoint, given, dt)
        launch(
            system_adjoint.mask_driven,
            "body",
            reads=dict(system=given["system"], multiplier=adjoint.multiplier),
            writes=dict(moving=adjoint.moving),
        )
        particles.reverse_solution(launch, step, number, dt)

    def _solve_both(self, launch: Launcher, adjoint: BodyAdjoint, given: PositionSystem, dt: float) -> None:
        """Solve for the multipliers of particles and bodies."""
        particles = self._particles
        for name, part in given.items():
            setattr(self._system, name, part)
        views = [touch for _, touch in self._views(dt)]
        launch(particle_system_adjoint.invert_diagonal, "particle", writes=dict(s=particles.system.view))
        launch(
            coupled_system.solve_coupled_worlds,
            "coupled world",
            reads=dict(
                most=int(particles.iterations),
                tolerance=wp.float64(TOLERANCE),
                enough=wp.float64(LARGEST_RESIDUAL),
                dt=wp.float64(dt),
                orientation=adjoint.middle,
                gradient=adjoint.u.grad,
                points=views[0],
                point_blocks=self._points,
                faces=views[1] if len(views) > 1 else TouchSlopes(),
                face_blocks=self._faces,
            ),
            writes=dict(
                touched=self._touched,
                bodies=self._system,
                s=particles.system.view,
                multiplier=adjoint.multiplier,
                reason=particles.reason,
            ),
        )

    def _views(self, dt: float) -> list[tuple[str, TouchSlopes]]:
        return self._contacts.views(self._particles.law(dt))

    def reverse_momentum(
        self, launch: Launcher, kept: KeptSubstep, dt: float, components: object, right: wp.array
    ) -> None:
        """See `solvers.particles.adjoint.BodyTouches.reverse_momentum`."""
        for _, touch in self._views(dt):
            launch(
                body_touches.reverse_body_momentum,
                "vbd chunk",
                reads=dict(goal=kept.goal, s=self._particles.substep, components=components),
                writes=dict(touch=touch, bodies=self._touched, reverse=self._particles.slopes, right=right),
            )

    def reverse(self, launch: Launcher, kept: KeptSubstep, dt: float) -> None:
        """See `solvers.particles.adjoint.BodyTouches.reverse`."""
        for kind, touch in self._views(dt):
            launch(
                body_touches.push_bodies,
                kind,
                reads=dict(touch=touch, goal=kept.goal, s=self._particles.substep),
                writes=dict(bodies=self._touched),
            )
            launch(
                body_touches.reverse_bodies,
                kind,
                reads=dict(goal=kept.goal, stiffness=self._contacts.stiffness),
                writes=dict(
                    touch=touch,
                    s=self._particles.substep,
                    bodies=self._touched,
                    reverse=self._particles.slopes,
                ),
            )

    def weigh(self, taped: Launcher, adjoint: BodyAdjoint) -> None:
        """See `NoParticles.weigh`."""
        taped(
            expected_bodies.weigh_carried,
            "body",
            reads=dict(
                role=self._touched.role,
                inertia=self._model.body_inertia,
                middle=adjoint.middle,
                facing=self._facing,
                multiplier=adjoint.moving,
                impulse=self._touched.impulse,
            ),
            writes=dict(term=self._term),
        )

    def seed(self) -> None:
        """See `NoParticles.seed`."""
        fill(self._particles.sinks.of(self._term), -1.0)

    def hand_back(self, launch: Launcher, adjoint: BodyAdjoint) -> None:
        """See `NoParticles.hand_back`."""
        self._launch(
            body_touches.hand_predictions,
            "body",
            reads=dict(facing=self._facing, bodies=self._touched),
            writes=dict(
                by_origin=self._origin.grad,
                by_centre=self._centre.grad,
                by_facing=self._facing.grad,
                by_expected=self._expected.grad,
            ),
        )

    def end(self, step: Step) -> None:
        """See `NoParticles.end`."""
        self._particles.finish(self._launch, step)
