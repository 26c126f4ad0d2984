"""Extended position-based dynamics."""

from weakref import WeakKeyDictionary

import numpy as np
import warp as wp

from newtonsim.coloring import color_springs
from newtonsim.contacts import Contacts
from newtonsim.control import Control
from newtonsim.errors import ModelError, NotDifferentiableError
from newtonsim.kernels import xpbd_particles
from newtonsim.model import Model
from newtonsim.solvers.base import SolverBase
from newtonsim.state import State


class _Buffers:
    """Scratch arrays of one model, and its springs by colour."""

    def __init__(self, model: Model):
        device = model.device
        self.predicted = State()
        self.predicted.particle_q = wp.zeros(model.particle_count, dtype=wp.vec3, device=device)
        self.predicted.particle_qd = wp.zeros(model.particle_count, dtype=wp.vec3, device=device)
        self.shift = wp.zeros(model.particle_count, dtype=wp.vec3, device=device)
        self.multiplier = wp.zeros(model.spring_count, dtype=float, device=device)
        pairs = (
            model.spring_indices.numpy().reshape(-1, 2) if model.spring_count else np.zeros((0, 2), np.int32)
        )
        self.springs = [wp.array(group, dtype=int, device=device) for group in color_springs(pairs)]


class XPBDSolver(SolverBase):
    """Implicit solver in positions: Macklin, Müller, Chentanez (MIG 2016); Müller et al. (SCA 2020) for
    bodies.

    It simulates particles, springs and the ground plane under gravity and `particle_f`. Rigid bodies,
    joints, other
    shapes, triangles, bending edges, tetrahedra, restitution and gradients are not supported: a model with
    any of them raises.

    Args:
        model: The model; None if one is given at each step only.
        iterations: Sweeps over the constraints in each step.
        soft_body_relaxation: Factor on the corrections of springs.
        soft_contact_relaxation: Factor on the corrections of contacts of particles.
        joint_linear_relaxation: Factor on linear corrections of joints.
        joint_angular_relaxation: Factor on angular corrections of joints.
        rigid_contact_relaxation: Factor on corrections of contacts of bodies.
        rigid_contact_con_weighting: Whether those are divided by the number of contacts of a body.
        angular_damping: Rate at which angular velocities of bodies decay [1/s].
        enable_restitution: Whether contacts bounce.
    """

    def __init__(
        self,
        model: Model | None = None,
        iterations: int = 2,
        soft_body_relaxation: float = 0.9,
        soft_contact_relaxation: float = 0.9,
        joint_linear_relaxation: float = 0.7,
        joint_angular_relaxation: float = 0.4,
        rigid_contact_relaxation: float = 0.8,
        rigid_contact_con_weighting: bool = True,
        angular_damping: float = 0.0,
        enable_restitution: bool = False,
    ):
        super().__init__(model)
        self.iterations = iterations
        self.soft_body_relaxation = soft_body_relaxation
        self.soft_contact_relaxation = soft_contact_relaxation
        self.joint_linear_relaxation = joint_linear_relaxation
        self.joint_angular_relaxation = joint_angular_relaxation
        self.rigid_contact_relaxation = rigid_contact_relaxation
        self.rigid_contact_con_weighting = rigid_contact_con_weighting
        self.angular_damping = angular_damping
        self.enable_restitution = enable_restitution
        self._buffers: WeakKeyDictionary[Model, _Buffers] = WeakKeyDictionary()
        if model is not None:
            self._prepare(model)

    def _prepare(self, model: Model) -> _Buffers:
        """Return the buffers of a model, made when it is first seen.

        Raises:
            ModelError: The model has something that this solver does not support.
        """
        if model not in self._buffers:
            unsupported = {
                "rigid bodies": model.body_count,
                "triangles": model.tri_count,
                "bending edges": model.edge_count,
                "tetrahedra": model.tet_count,
                "shapes other than the ground plane": model.shape_count - bool(model.ground),
                "restitution": self.enable_restitution,
            }
            found = [what for what, count in unsupported.items() if count]
            if found:
                raise ModelError(f"XPBDSolver does not support {', '.join(found)} yet")
            self._buffers[model] = _Buffers(model)
        return self._buffers[model]

    def step(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        control: Control | None,
        contacts: Contacts | None,
        dt: float,
    ) -> None:
        """Advance by one step; reads and writes `particle_q` and `particle_qd`, reads `particle_f`.

        Args:
            model: The model.
            state_in: State at the start of the step.
            state_out: Receives the state at its end; may be `state_in`.
            control: Not used by particles.
            contacts: Not used by particles.
            dt: Time step [s].

        Raises:
            ModelError: The model has something that this solver does not support, or a state does not fit it.
            NotDifferentiableError: The states ask for gradients.
        """
        buffers = self._prepare(model)
        model.check_state(state_in)
        model.check_state(state_out)
        if state_in.requires_grad or state_out.requires_grad:
            raise NotDifferentiableError("XPBDSolver has no gradients: use states with requires_grad=False")
        if not model.particle_count:
            return
        self.integrate_particles(model, state_in, buffers.predicted, dt)
        buffers.shift.zero_()
        buffers.multiplier.zero_()
        for _ in range(self.iterations):
            self._solve_springs(model, buffers, dt)
            if model.ground:
                self._solve_ground(model, buffers, dt)
        self.apply_particle_deltas(model, buffers.predicted, state_out, buffers.shift, dt)

    def _solve_springs(self, model: Model, buffers: _Buffers, dt: float) -> None:
        for group in buffers.springs:
            wp.launch(
                xpbd_particles.solve_springs,
                dim=len(group),
                inputs=[
                    group,
                    model.spring_indices,
                    model.spring_rest_length,
                    model.spring_stiffness,
                    model.spring_damping,
                    model.particle_inv_mass,
                    model.particle_flags,
                    buffers.predicted.particle_q,
                    buffers.predicted.particle_qd,
                    self.soft_body_relaxation,
                    dt,
                ],
                outputs=[buffers.shift, buffers.multiplier],
                device=model.device,
            )

    def _solve_ground(self, model: Model, buffers: _Buffers, dt: float) -> None:
        wp.launch(
            xpbd_particles.solve_ground,
            dim=model.particle_count,
            inputs=[
                model.ground_plane,
                model.particle_radius,
                model.particle_inv_mass,
                model.particle_flags,
                buffers.predicted.particle_q,
                buffers.predicted.particle_qd,
                float(model.soft_contact_mu),
                self.soft_contact_relaxation,
                dt,
            ],
            outputs=[buffers.shift],
            device=model.device,
        )

    def apply_particle_deltas(
        self, model: Model, state_in: State, state_out: State, particle_deltas: wp.array, dt: float
    ) -> None:
        """Move particles, and change their velocities by the displacement over `dt`.

        Args:
            model: The model.
            state_in: Predicted positions and velocities.
            state_out: Receives the corrected ones; may be `state_in`.
            particle_deltas: Corrections of the positions [m], shape (particle_count,), vec3.
            dt: Time step [s].
        """
        wp.launch(
            xpbd_particles.apply_shift,
            dim=model.particle_count,
            inputs=[
                model.particle_inv_mass,
                model.particle_flags,
                state_in.particle_q,
                state_in.particle_qd,
                particle_deltas,
                float(model.particle_max_velocity),
                dt,
            ],
            outputs=[state_out.particle_q, state_out.particle_qd],
            device=model.device,
        )

    def apply_body_deltas(
        self,
        model: Model,
        state_in: State,
        state_out: State,
        body_deltas: wp.array,
        dt: float,
        rigid_contact_inv_weight: wp.array | None = None,
    ) -> None:
        """Move bodies; not supported.

        Raises:
            ModelError: Always.
        """
        raise ModelError("XPBDSolver does not support rigid bodies yet")
