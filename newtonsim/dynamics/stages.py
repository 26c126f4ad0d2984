"""The launches that compute the quantities of dynamics, with their buffers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.dynamics.tendon_inertia import TendonInertia
from newtonsim.dynamics.tendon_paths import has_armature
from newtonsim.kernels.trees import centroidal, crba, energy, jacobians, rnea_derivatives
from newtonsim.runtime.floating_terms import FloatingTerms
from newtonsim.runtime.inertia_factors import EliminatedInertia, InertiaFactors, inertia_factors
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


class Stages:
    """Launches with buffers that are allocated on first use.

    Args:
        model: The model.
        bodies: One body of each world whose mobilities are wanted, int (world_count,); None for all bodies.

    Attributes:
        max_dofs: Largest number of degrees of freedom of an articulation, n.
        floating: What armature of floating joints adds to inertia and forces besides the diagonal.
        tendons: What armature of tendons adds; None without any.
    """

    def __init__(self, model: Model, bodies: wp.array | None = None):
        self.model = model
        topology = topology_of(model)
        joint_start: np.ndarray = model.articulation_start.numpy()
        qd_start: np.ndarray = model.joint_qd_start.numpy()
        joint_articulation = np.searchsorted(joint_start, np.arange(model.joint_count), side="right") - 1
        dof_start = qd_start[joint_start]
        dof_articulation = joint_articulation[topology.dof_joint]
        body_articulation = np.full(model.body_count, -1)
        child: np.ndarray = model.joint_child.numpy()
        body_articulation[child] = joint_articulation
        self.floating = FloatingTerms(model)
        self.max_dofs = int(np.diff(dof_start).max(initial=0))
        self._max_depth = topology.max_depth
        self._dof_start = put(dof_start, dtype=int, device=model.device)
        self._dof_articulation = put(dof_articulation, dtype=int, device=model.device)
        local = np.arange(model.joint_dof_count) - dof_start[dof_articulation]
        self._dof_local = put(local, dtype=int, device=model.device)
        self._dof_joint = put(topology.dof_joint, dtype=int, device=model.device)
        self._body_articulation = put(body_articulation, dtype=int, device=model.device)
        self.tendons = self.tendon_inertia()
        if bodies is None:
            self._kind = "body"
            self._bodies = put(np.arange(model.body_count), dtype=int, device=model.device)
        else:
            self._kind, self._bodies = "world", bodies

    def launcher(self, shard: Shard | None = None) -> Launcher:
        """Return a launcher for the current arrays of the model, over the worlds of a shard or all."""
        if self.tendons is None:
            return Launcher(self.model, record_tape=False, shard=shard)
        return self.tendons.launcher(shard=shard)

    def tendon_inertia(self, requires_grad: bool = False) -> TendonInertia | None:
        """Return room for what armature of tendons adds, None without any."""
        if not has_armature(self.model):
            return None
        return TendonInertia(self.model, self._dof_articulation, self._dof_local, requires_grad)

    # -- room ------------------------------------------------------------------------------------------------

    @cached_property
    def motion(self) -> Motion:
        """Poses, velocities, accelerations and wrenches."""
        return Motion(self.model)

    @cached_property
    def inertia(self) -> EliminatedInertia:
        """Joint-space inertia, and inertias of subtrees."""
        return EliminatedInertia(self.model)

    @cached_property
    def factors(self) -> InertiaFactors:
        """Factors of the joint-space inertia."""
        return inertia_factors(self.model)

    @cached_property
    def no_dofs(self) -> wp.array:
        """Zeros, shape (joint_dof_count,)."""
        return self._of_dofs()

    @cached_property
    def acceleration(self) -> wp.array:
        """Joint accelerations, shape (joint_dof_count,)."""
        return self._of_dofs()

    @cached_property
    def _estimate(self) -> wp.array:
        return self._of_dofs()

    @cached_property
    def _chain(self) -> Any:
        dofs, bodies, device = self.model.joint_dof_count, self.model.body_count, self.model.device
        chain: Any = rnea_derivatives.ChainView()
        for name in ("rate", "drift", "turn"):
            setattr(chain, name, zeros(dofs, dtype=wp.spatial_vector, device=device))
        for name in ("momentum", "push", "twist"):
            setattr(chain, name, zeros(bodies, dtype=wp.vec3, device=device))
        for name in ("coriolis", "lever"):
            setattr(chain, name, zeros(bodies, dtype=wp.mat33, device=device))
        chain.wrench = zeros(bodies, dtype=wp.spatial_vector, device=device)
        chain.composite.mass = zeros(bodies, dtype=float, device=device)
        chain.composite.com = zeros(bodies, dtype=wp.vec3, device=device)
        chain.composite.inertia = zeros(bodies, dtype=wp.mat33, device=device)
        return chain

    @cached_property
    def _momentum_matrix(self) -> wp.array:
        shape = (self.model.articulation_count, 6, self.max_dofs)
        return zeros(shape, dtype=float, device=self.model.device)

    @cached_property
    def _center(self) -> dict[str, wp.array]:
        count, device = self.model.articulation_count, self.model.device
        types = dict(mass=float, moment=wp.vec3, com=wp.vec3)
        return {name: zeros(count, dtype=dtype, device=device) for name, dtype in types.items()}

    @cached_property
    def mobility(self) -> wp.array:
        """J M⁻¹ Jᵀ of n bodies, shape (n, 6, 6)."""
        return zeros((len(self._bodies), 6, 6), dtype=float, device=self.model.device)

    @cached_property
    def _mobility_work(self) -> wp.array:
        shape = (len(self._bodies), self._max_depth)
        return zeros(shape, dtype=wp.spatial_vector, device=self.model.device)

    def _of_dofs(self) -> wp.array:
        return zeros(self.model.joint_dof_count, dtype=float, device=self.model.device)

    # -- launches --------------------------------------------------------------------------------------------

    def move(self, launch: Launcher, state: State) -> None:
        """Poses and velocities."""
        launch.poses(self.motion, state.joint_q)
        launch.velocities(self.motion, state.joint_qd)
        self._place_tendons(launch, state.joint_q, state.joint_qd)

    def pose(self, launch: Launcher, joint_q: wp.array) -> None:
        """Poses, where inertias follow from them."""
        launch.poses(self.motion, joint_q)
        self._place_tendons(launch, joint_q, self.no_dofs)

    def _place_tendons(self, launch: Launcher, joint_q: wp.array, joint_qd: wp.array) -> None:
        if self.tendons is not None:
            self.tendons.place(launch, self.motion, joint_q, joint_qd, self.motion)

    def expand(self, launch: Launcher, armature: bool, dense: wp.array) -> None:
        """Joint-space inertia in blocks, with armature or without; needs the poses."""
        self.inertia.expand(launch, self.motion.kin, self.model.joint_armature if armature else self.no_dofs)
        launch(energy.clear_blocks, "articulation", writes=dict(dense=dense))
        launch(
            energy.expand_inertia,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                dof_articulation=self._dof_articulation,
                dof_local=self._dof_local,
                H=self.inertia.L,
            ),
            writes=dict(dense=dense),
        )
        if armature and self.tendons is not None:
            self.tendons.add_inertia(launch, dense)

    def force(self, launch: Launcher, state: State, joint_qdd: wp.array, armature: bool) -> None:
        """motion.tau = M q̈ + c(q, q̇) - Jᵀ body_f; needs poses, velocities and inertias.

        motion.body_A holds accelerations of bodies then, see `KinematicsView` and `ForceView`.
        """
        launch.inverse_dynamics(self.motion, state.joint_qd, joint_qdd, state.body_f)
        if armature:
            launch(
                energy.add_product,
                "dof",
                reads=dict(a=self.model.joint_armature, b=joint_qdd),
                writes=dict(total=self.motion.tau),
            )
            velocities = (state.joint_qd, state.joint_qd)
            kin, tau = self.motion.kin, self.motion.tau
            self.floating.add_forces(launch, kin, velocities, joint_qdd, self.no_dofs, 1.0, tau)
            if self.tendons is not None:
                self.tendons.add_forces(launch, joint_qdd, tau)

    def write_force(self, launch: Launcher, tau: wp.array) -> None:
        """Copy motion.tau to an array."""
        launch(energy.copy, "dof", reads=dict(a=self.motion.tau), writes=dict(b=tau))

    def accelerate(self, launch: Launcher, state: State, joint_f: wp.array, qdd: wp.array) -> None:
        """Joint accelerations, and factors of M; needs poses and velocities.

        The second round is one step of iterative refinement with the residual of the equation of motion.
        """
        self._factorize(launch)
        for before, after in ((self.no_dofs, self._estimate), (self._estimate, qdd)):
            self.force(launch, state, before, armature=True)
            launch(energy.subtract, "dof", reads=dict(b=joint_f), writes=dict(a=self.motion.tau))
            launch(
                crba.solve,
                "tree team",
                reads=dict(
                    tree=launch.views.tree,
                    levels=launch.views.levels,
                    L=self.factors.L,
                    rhs=self.motion.tau,
                    scale=-1.0,
                    base=before,
                ),
                writes=dict(x=after),
            )
            if self.tendons is not None:
                self.tendons.correct_vector(launch, before, after)

    def _factorize(self, launch: Launcher) -> None:
        """Factors of M, and corrections of their products for tendons; needs the poses."""
        self.factors.factorize(launch, self.motion.kin, self.model.joint_armature)
        if self.tendons is not None:
            self.tendons.factorize(launch, self.factors.L, self.no_dofs)

    def differentiate(
        self, launch: Launcher, state: State, joint_qdd: wp.array, by_q: wp.array, by_qd: wp.array
    ) -> None:
        """Derivatives of inverse dynamics at an acceleration; needs poses, velocities and inertias."""
        launch.accelerations(self.motion, state.joint_qd, joint_qdd)
        v, kin = launch.views, self.motion.kin
        launch(
            rnea_derivatives.sum_chains,
            "tree",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                body=v.body,
                kin=kin,
                qd=state.joint_qd,
                dof_A=self.motion.dof_A,
                body_A=self.motion.body_A,
                body_f=state.body_f,
                inertias=1,
            ),
            writes=dict(chain=self._chain),
        )
        for dense in (by_q, by_qd):
            launch(energy.clear_blocks, "articulation", writes=dict(dense=dense))
        launch(
            rnea_derivatives.differentiate_forces,
            "dof",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                dof_joint=self._dof_joint,
                kin=kin,
                chain=self._chain,
                dof_articulation=self._dof_articulation,
                dof_local=self._dof_local,
            ),
            writes=dict(by_q=by_q, by_qd=by_qd),
        )
        blocks = (self._dof_articulation, self._dof_local)
        self.floating.add_derivatives(launch, kin, state.joint_qd, joint_qdd, blocks, by_q, by_qd)

    def invert(self, launch: Launcher, inverse: wp.array) -> None:
        """Write M⁻¹; needs the factors."""
        launch(energy.clear_blocks, "articulation", writes=dict(dense=inverse))
        launch(
            rnea_derivatives.set_identities,
            "dof",
            reads=dict(dof_articulation=self._dof_articulation, dof_local=self._dof_local),
            writes=dict(dense=inverse),
        )
        self.solve_columns(launch, 1.0, inverse)

    def solve_columns(self, launch: Launcher, scale: float, dense: wp.array) -> None:
        """Multiply columns by scale M⁻¹ from the left; needs the factors."""
        launch(
            rnea_derivatives.solve_columns,
            "tree team",
            reads=dict(
                tree=launch.views.tree,
                L=self.factors.L,
                dof_articulation=self._dof_articulation,
                dof_local=self._dof_local,
                scale=scale,
                n=self.max_dofs,
            ),
            writes=dict(dense=dense.flatten()),
        )
        if self.tendons is not None:
            self.tendons.correct_blocks(launch, dense)

    def fill_jacobian(self, launch: Launcher, jacobian: wp.array) -> None:
        """Jacobians of all bodies; needs the poses."""
        v = launch.views
        launch(energy.clear_blocks, "body", writes=dict(dense=jacobian))
        launch(
            jacobians.fill_jacobian,
            "body",
            reads=dict(tree=v.tree, body=v.body, kin=self.motion.kin, dof_local=self._dof_local),
            writes=dict(jacobian=jacobian),
        )

    def fill_jacobian_rate(self, launch: Launcher, state: State, rate: wp.array) -> None:
        """Rates of the Jacobians of all bodies; needs poses and velocities."""
        v = launch.views
        launch(energy.clear_blocks, "body", writes=dict(dense=rate))
        launch(
            jacobians.fill_jacobian_rate,
            "body",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                body=v.body,
                kin=self.motion.kin,
                qd=state.joint_qd,
                dof_joint=self._dof_joint,
                dof_local=self._dof_local,
            ),
            writes=dict(rate=rate),
        )

    def fill_operational_inertia(self, launch: Launcher, damping: float, inertia: wp.array) -> None:
        """(J M⁻¹ Jᵀ + damping 1)⁻¹; needs the poses."""
        self.fill_mobility(launch, damping)
        reads = dict(inverse=self.mobility)
        launch(jacobians.invert_inertia, self._kind, reads=reads, writes=dict(inertia=inertia))

    def fill_mobility(self, launch: Launcher, damping: float) -> None:
        """Find mobility = J M⁻¹ Jᵀ + damping 1, factors of M and inertias of bodies; needs the poses."""
        v = launch.views
        self._factorize(launch)
        launch(
            jacobians.fill_inverse_inertia,
            self._kind,
            reads=dict(
                tree=v.tree,
                body=v.body,
                kin=self.motion.kin,
                L=self.factors.L,
                damping=damping,
                bodies=self._bodies,
            ),
            writes=dict(work=self._mobility_work, inverse=self.mobility),
        )
        if self.tendons is not None:
            self.tendons.correct_mobilities(launch, self.motion, self._kind, self._bodies, self.mobility)

    def find_center(self, launch: Launcher, com: wp.array) -> None:
        """Centres of mass of all articulations; needs the poses."""
        v, room = launch.views, self._center
        sums = dict(mass=room["mass"], moment=room["moment"])
        launch(energy.clear_sums, "articulation", writes=sums)
        launch(
            energy.sum_mass,
            "body",
            reads=dict(
                tree=v.tree, body=v.body, kin=self.motion.kin, body_articulation=self._body_articulation
            ),
            writes=sums,
        )
        launch(energy.divide, "articulation", reads=sums, writes=dict(com=com))

    def fill_momentum_matrix(self, launch: Launcher, matrix: wp.array) -> None:
        """Centroidal momentum matrices; needs the poses."""
        center = self._center["com"]
        self.find_center(launch, center)
        self.inertia.expand(launch, self.motion.kin, self.no_dofs)
        launch(energy.clear_blocks, "articulation", writes=dict(dense=matrix))
        launch(
            centroidal.fill_momentum_matrix,
            "dof",
            reads=dict(
                tree=launch.views.tree,
                kin=self.motion.kin,
                composite=self.inertia.composite,
                center=center,
                dof_articulation=self._dof_articulation,
                dof_local=self._dof_local,
            ),
            writes=dict(matrix=matrix),
        )

    def sum_momentum(self, launch: Launcher, state: State, momentum: wp.array) -> None:
        """Centroidal momenta; needs the poses."""
        self.fill_momentum_matrix(launch, self._momentum_matrix)
        launch(
            centroidal.sum_momentum,
            "articulation",
            reads=dict(qd_start=self._dof_start, qd=state.joint_qd, matrix=self._momentum_matrix),
            writes=dict(momentum=momentum),
        )

    def sum_kinetic_energy(self, launch: Launcher, total: wp.array) -> None:
        """Kinetic energies of all articulations; needs poses and velocities."""
        v, kin = launch.views, self.motion.kin
        launch(energy.clear_energies, "articulation", writes=dict(energy=total))
        launch(
            energy.sum_kinetic_energy,
            "body",
            reads=dict(tree=v.tree, body=v.body, kin=kin, body_articulation=self._body_articulation),
            writes=dict(energy=total),
        )

    def sum_potential_energy(self, launch: Launcher, total: wp.array) -> None:
        """Potential energies of all articulations; needs the poses."""
        v, kin = launch.views, self.motion.kin
        launch(energy.clear_energies, "articulation", writes=dict(energy=total))
        launch(
            energy.sum_potential_energy,
            "body",
            reads=dict(
                tree=v.tree,
                body=v.body,
                kin=kin,
                gravity=self.model.gravity_vec,
                body_articulation=self._body_articulation,
            ),
            writes=dict(energy=total),
        )
