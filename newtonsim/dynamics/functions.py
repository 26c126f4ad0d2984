"""The quantities of `Dynamics` as functions, each of which returns a new array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.dynamics.quantities import Dynamics
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.trees import energy
from newtonsim.kinematics import check_length
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.floating_terms import FloatingTerms
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.allocation import zeros

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


def dynamics_of(model: Model) -> Dynamics:
    """Return the `Dynamics` of a model, which is created at the first call and kept with the model."""
    return model.cached("dynamics", Dynamics)


def mass_matrix(model: Model, state: State, *, armature: bool = True) -> wp.array:
    """Joint-space inertia of all articulations, see `Dynamics.mass_matrix`."""
    return wp.clone(dynamics_of(model).mass_matrix(state, armature=armature))


def inverse_dynamics(model: Model, state: State, joint_qdd: wp.array, *, armature: bool = True) -> wp.array:
    """Generalised forces that produce an acceleration, see `Dynamics.inverse_dynamics`.

    Differentiable under a tape, when the state and the model require gradients.

    Args:
        model: The model.
        state: Configuration, velocity, and `body_f` as external wrenches.
        joint_qdd: Joint accelerations, shape (joint_dof_count,).
        armature: Whether the armature adds to the forces.

    Returns:
        M(q) q̈ + c(q, q̇) - Jᵀ body_f, gravity included, shape (joint_dof_count,).

    Raises:
        NewtonsimError: `joint_qdd` has the wrong length.
        ModelError: The state belongs to another model.
    """
    if active_tape() is None:
        return wp.clone(dynamics_of(model).inverse_dynamics(state, joint_qdd, armature=armature))
    check_length("joint_qdd", joint_qdd, model.joint_dof_count)
    model.check_state(state)
    tendons = dynamics_of(model).tendon_inertia() if armature else None
    launch = Launcher(model, record_tape=True) if tendons is None else tendons.launcher(record_tape=True)
    motion = Motion(model, requires_grad=True)
    launch.poses(motion, state.joint_q)
    launch.velocities(motion, state.joint_qd)
    launch.inertias(motion)
    if tendons is not None:
        tendons.place(launch, motion, state.joint_q, state.joint_qd, Motion(model, True, poses=motion))
    launch.inverse_dynamics(motion, state.joint_qd, joint_qdd, state.body_f)
    if armature:
        launch(
            energy.add_product,
            "dof",
            reads=dict(a=model.joint_armature, b=joint_qdd),
            writes=dict(total=motion.tau),
        )
        velocities = (state.joint_qd, state.joint_qd)
        none = zeros(model.joint_dof_count, dtype=float, device=model.device)
        FloatingTerms(model).add_forces(launch, motion.kin, velocities, joint_qdd, none, 1.0, motion.tau)
    if tendons is not None:
        tendons.add_forces(launch, joint_qdd, motion.tau)
    return motion.tau


def bias(model: Model, state: State) -> wp.array:
    """Generalised forces without acceleration, see `Dynamics.bias`."""
    return wp.clone(dynamics_of(model).bias(state))


def holding_forces(model: Model, joint_q: npt.ArrayLike) -> np.ndarray:
    """Return the generalised forces that hold a model still against gravity, (joint_dof_count,).

    Args:
        model: The model.
        joint_q: Joint coordinates, shape (joint_coord_count,).

    Raises:
        NewtonsimError: They have the wrong length.
    """
    q = np.asarray(joint_q, np.float32)
    if q.shape != (model.joint_coord_count,):
        raise NewtonsimError(f"joint_q: expected shape ({model.joint_coord_count},), got {q.shape}")
    state = model.state()
    state.joint_q.assign(q)
    state.joint_qd.zero_()
    return dynamics_of(model).bias(state).numpy().copy()


def forward_dynamics(model: Model, state: State, joint_f: wp.array | None = None) -> wp.array:
    """Joint accelerations under gravity, wrenches and forces, see `Dynamics.forward_dynamics`."""
    return wp.clone(dynamics_of(model).forward_dynamics(state, joint_f))


def jacobian(model: Model, state: State) -> wp.array:
    """Geometric Jacobians of all bodies, see `Dynamics.jacobian`."""
    return wp.clone(dynamics_of(model).jacobian(state))


def center_of_mass(model: Model, state: State) -> wp.array:
    """Centre of mass of each articulation, see `Dynamics.center_of_mass`."""
    return wp.clone(dynamics_of(model).center_of_mass(state))


def kinetic_energy(model: Model, state: State) -> wp.array:
    """Kinetic energy of each articulation, see `Dynamics.kinetic_energy`."""
    return wp.clone(dynamics_of(model).kinetic_energy(state))


def potential_energy(model: Model, state: State) -> wp.array:
    """Potential energy of each articulation in gravity, see `Dynamics.potential_energy`."""
    return wp.clone(dynamics_of(model).potential_energy(state))
