"""Joint-space dynamics of all articulations of a model at once.

All functions read `joint_q` and `joint_qd` of the state. Dense results have one block per articulation with
degrees of freedom numbered inside it; blocks of smaller articulations are padded with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.trees import crba, energy
from newtonsim.kinematics import check_length, refuse_gradient
from newtonsim.runtime.inertia_factors import EliminatedInertia, inertia_factors
from newtonsim.runtime.launcher import Launcher, Motion, active_tape
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


class _Articulations:
    """Which articulation bodies and dofs belong to."""

    def __init__(self, model: Model):
        joint_start: np.ndarray = model.articulation_start.numpy()
        qd_start: np.ndarray = model.joint_qd_start.numpy()
        joint_articulation = np.searchsorted(joint_start, np.arange(model.joint_count), side="right") - 1
        dof_start = qd_start[joint_start]
        self.max_dofs = int(np.diff(dof_start).max(initial=0))
        dof_articulation = joint_articulation[topology_of(model).dof_joint]
        body_articulation = np.full(model.body_count, -1)
        child: np.ndarray = model.joint_child.numpy()
        body_articulation[child] = joint_articulation
        self.dof = wp.array(dof_articulation, dtype=int, device=model.device)
        local = np.arange(model.joint_dof_count) - dof_start[dof_articulation]
        self.dof_local = wp.array(local, dtype=int, device=model.device)
        self.body = wp.array(body_articulation, dtype=int, device=model.device)


def _pose(model: Model, state: State, velocities: bool = False) -> tuple[Launcher, Motion]:
    refuse_gradient(model, state, "newtonsim.dynamics: only inverse_dynamics has a gradient")
    launch = Launcher(model, record_tape=False)
    motion = Motion(model)
    launch.poses(motion, state.joint_q)
    if velocities:
        launch.velocities(motion, state.joint_qd)
    return launch, motion


def mass_matrix(model: Model, state: State, *, armature: bool = True) -> wp.array:
    """Joint-space inertia, by the composite-rigid-body algorithm.

    Args:
        model: The model.
        state: Configuration.
        armature: Whether to add the armature to the diagonal.

    Returns:
        Array of shape (articulation_count, max_dofs, max_dofs).
    """
    launch, motion = _pose(model, state)
    diagonal = model.joint_armature if armature else wp.zeros_like(model.joint_armature, requires_grad=False)
    inertia = EliminatedInertia(model)
    inertia.expand(launch, motion.kin, diagonal)
    part = _Articulations(model)
    shape = (model.articulation_count, part.max_dofs, part.max_dofs)
    dense = wp.zeros(shape, dtype=float, device=model.device)
    launch(
        energy.expand_inertia,
        "dof",
        reads=dict(tree=launch.views.tree, dof_articulation=part.dof, dof_local=part.dof_local, H=inertia.L),
        writes=dict(dense=dense),
    )
    return dense


def inverse_dynamics(model: Model, state: State, joint_qdd: wp.array, *, armature: bool = True) -> wp.array:
    """Generalised forces that bring about an acceleration, by the recursive Newton-Euler algorithm.

    Differentiable under a tape, when the state and the model require gradients.

    Args:
        model: The model.
        state: Configuration, velocity, and `body_f` as external wrenches.
        joint_qdd: Joint accelerations, shape (joint_dof_count,).
        armature: Whether the armature adds to the forces.

    Returns:
        M(q) qdd + c(q, qd) - Jᵀ body_f, gravity included, shape (joint_dof_count,).

    Raises:
        NewtonsimError: `joint_qdd` has the wrong length.
    """
    check_length("joint_qdd", joint_qdd, model.joint_dof_count)
    launch = Launcher(model, record_tape=True)
    motion = Motion(model, requires_grad=active_tape() is not None)
    launch.poses(motion, state.joint_q)
    launch.velocities(motion, state.joint_qd)
    launch.inertias(motion)
    launch.inverse_dynamics(motion, state.joint_qd, joint_qdd, state.body_f)
    if armature:
        launch(
            energy.add_product,
            "dof",
            reads=dict(a=model.joint_armature, b=joint_qdd),
            writes=dict(total=motion.tau),
        )
    return motion.tau


def forward_dynamics(model: Model, state: State, joint_f: wp.array | None = None) -> wp.array:
    """Joint accelerations under gravity, external wrenches and generalised forces.

    Drives, springs, damping and constraints are not included; armature is.

    Args:
        model: The model.
        state: Configuration, velocity, and `body_f` as external wrenches.
        joint_f: Generalised forces, shape (joint_dof_count,); None for zero.

    Returns:
        M⁻¹ (joint_f - c(q, qd) + Jᵀ body_f), shape (joint_dof_count,).

    Raises:
        NewtonsimError: `joint_f` has the wrong length.
    """
    dofs = model.joint_dof_count
    zero = wp.zeros(dofs, dtype=float, device=model.device)
    joint_f = zero if joint_f is None else joint_f
    check_length("joint_f", joint_f, dofs)
    launch, motion = _pose(model, state, velocities=True)
    factors = inertia_factors(model)
    factors.factorize(launch, motion.kin, model.joint_armature)
    qdd = wp.zeros(dofs, dtype=float, device=model.device)
    # the second round is one step of iterative refinement with the residual of the equation of motion
    for _ in range(2):
        launch.inverse_dynamics(motion, state.joint_qd, qdd, state.body_f)
        launch(
            energy.add_product,
            "dof",
            reads=dict(a=model.joint_armature, b=qdd),
            writes=dict(total=motion.tau),
        )
        launch(energy.subtract, "dof", reads=dict(b=joint_f), writes=dict(a=motion.tau))
        launch(
            crba.solve,
            "tree team",
            reads=dict(
                tree=launch.views.tree,
                levels=launch.views.levels,
                L=factors.L,
                rhs=motion.tau,
                scale=-1.0,
                base=wp.clone(qdd),
            ),
            writes=dict(x=qdd),
        )
    return qdd


def jacobian(model: Model, state: State) -> wp.array:
    """Geometric Jacobians of all bodies.

    Args:
        model: The model.
        state: Configuration.

    Returns:
        Array of shape (body_count, 6, max_dofs): (ω, velocity of the COM) in world axes per unit joint
        velocity.
    """
    launch, motion = _pose(model, state)
    part = _Articulations(model)
    result = wp.zeros((model.body_count, 6, part.max_dofs), dtype=float, device=model.device)
    launch(
        energy.fill_jacobian,
        "body",
        reads=dict(tree=launch.views.tree, body=launch.views.body, kin=motion.kin, dof_local=part.dof_local),
        writes=dict(jacobian=result),
    )
    return result


def center_of_mass(model: Model, state: State) -> wp.array:
    """Centre of mass of each articulation [m] in the world, vec3, shape (articulation_count,)."""
    launch, motion = _pose(model, state)
    part = _Articulations(model)
    count, device = model.articulation_count, model.device
    mass = wp.zeros(count, dtype=float, device=device)
    moment = wp.zeros(count, dtype=wp.vec3, device=device)
    com = wp.zeros(count, dtype=wp.vec3, device=device)
    v = launch.views
    launch(
        energy.sum_mass,
        "body",
        reads=dict(tree=v.tree, body=v.body, kin=motion.kin, body_articulation=part.body),
        writes=dict(mass=mass, moment=moment),
    )
    launch(energy.divide, "articulation", reads=dict(moment=moment, mass=mass), writes=dict(com=com))
    return com


def kinetic_energy(model: Model, state: State) -> wp.array:
    """Kinetic energy of each articulation's bodies [J], without armature, shape (articulation_count,)."""
    launch, motion = _pose(model, state, velocities=True)
    part = _Articulations(model)
    total = wp.zeros(model.articulation_count, dtype=float, device=model.device)
    v = launch.views
    launch(
        energy.sum_kinetic_energy,
        "body",
        reads=dict(tree=v.tree, body=v.body, kin=motion.kin, body_articulation=part.body),
        writes=dict(energy=total),
    )
    return total


def potential_energy(model: Model, state: State) -> wp.array:
    """Potential energy of each articulation's bodies in gravity [J], zero at the world's origin."""
    launch, motion = _pose(model, state)
    part = _Articulations(model)
    total = wp.zeros(model.articulation_count, dtype=float, device=model.device)
    v = launch.views
    launch(
        energy.sum_potential_energy,
        "body",
        reads=dict(
            tree=v.tree, body=v.body, kin=motion.kin, gravity=model.gravity_vec, body_articulation=part.body
        ),
        writes=dict(energy=total),
    )
    return total
