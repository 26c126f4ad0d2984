"""The rigid bodies of a model while one step is being solved."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.maximal import moving_bodies as maximal_moving_bodies
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model


class MovingBodies:
    """Poses and velocities of rigid bodies within a step, which particles and constraints change.

    A step is `begin`, then for each substep `begin_substep` and sweeps that push bodies (`push_body` of the
    kernels) followed by `apply_impulses`, then `end` where another solver moves the bodies.

    Args:
        model: The bodies; each yields with its own mass, as its joints are solved in the same sweeps.

    Attributes:
        view: What kernels see.
    """

    def __init__(self, model: Model):
        self.model = model
        count, device = model.body_count, model.device
        view = maximal_moving_bodies.MotionView()
        view.inv_mass = zeros(count, dtype=float, device=device)
        view.inv_inertia = zeros(count, dtype=wp.mat33, device=device)
        view.touching = zeros(count, dtype=int, device=device)
        view.origin = zeros(count, dtype=wp.transform, device=device)
        view.pose = zeros(count, dtype=wp.transform, device=device)
        view.velocity = zeros(count, dtype=wp.spatial_vector, device=device)
        view.expected = zeros(count, dtype=wp.spatial_vector, device=device)
        view.impulse = zeros(count, dtype=wp.spatial_vector, device=device)
        view.total = zeros(count, dtype=wp.spatial_vector, device=device)
        view.com = model.body_com
        self.view = view

    def begin(
        self, launch: Launcher, body_q: wp.array, body_qd: wp.array, body_f: wp.array, dt: float
    ) -> None:
        """Start a step of length dt at the velocities that forces and gravity alone would give."""
        model = self.model
        launch(
            maximal_moving_bodies.begin_bodies,
            "body",
            reads=dict(
                world=model.body_world,
                body_q=body_q,
                body_qd=body_qd,
                body_f=body_f,
                inv_mass=model.body_inv_mass,
                inv_inertia=model.body_inv_inertia,
                gravity=model.gravity_vec,
                dt=dt,
            ),
            writes=dict(bodies=self.view),
        )

    def begin_substep(self, launch: Launcher, before: float, dt: float) -> None:
        """End a substep of length `before`, 0 for none, and begin one of length dt."""
        launch(
            maximal_moving_bodies.move_bodies,
            "body",
            reads=dict(before=before, dt=dt),
            writes=dict(bodies=self.view),
        )

    def share(self, launch: Launcher) -> None:
        """Let what has been counted as touching share the bodies' mass, before the first sweep."""

    def apply_impulses(self, launch: Launcher) -> None:
        """Change velocities by the impulses of a sweep."""
        launch(maximal_moving_bodies.apply_impulses, "body", writes=dict(bodies=self.view))

    def end(self, launch: Launcher, dt: float, body_f: wp.array) -> None:
        """Add the impulses of a step of length dt to the forces of the bodies' own solver."""
        launch(
            maximal_moving_bodies.end_bodies,
            "body",
            reads=dict(dt=dt, bodies=self.view),
            writes=dict(body_f=body_f),
        )
