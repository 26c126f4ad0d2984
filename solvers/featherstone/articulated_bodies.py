"""The rigid bodies of FeatherstoneSolver during the substeps of particles."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.constraints.rows import RowsView
from newtonsim.kernels.maximal import articulated_bodies as maximal_articulated_bodies
from newtonsim.kernels.trees import joint_forces, tree_advance
from newtonsim.runtime.inertia_factors import inertia_factors
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.allocation import zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.maximal.moving_bodies import MovingBodies


class ArticulatedBodies(MovingBodies):
    """Bodies that respond as their kinematic trees do, and whose expected motion is that without particles.

    See `kernels.maximal.articulated_bodies`. A step is `begin`, `advance` with particles, `end`, the solver's
    own step, and `remember`.

    Args:
        model: The bodies.
        smooth: The smooth stage of their solver, which places them before `begin`.
    """

    def __init__(self, model: Model, smooth: SmoothStage):
        super().__init__(model)
        bodies, dofs, device = model.body_count, model.joint_dof_count, model.device
        self.smooth = smooth
        self.view.articulated = 1
        self.view.mobility = zeros(bodies, dtype=wp.spatial_matrix, device=device)
        self._B = zeros((2 * bodies, topology_of(model).max_depth), dtype=wp.vec3, device=device)
        self._carried = zeros(bodies, dtype=wp.spatial_vector, device=device)
        self._gain = zeros(bodies, dtype=wp.spatial_vector, device=device)
        self._dt = 1.0
        self._expected = Motion(model, poses=smooth.motion, forces=False)
        self._factors = inertia_factors(model)
        self._L = self._factors.L
        self._implicit = zeros(dofs, dtype=int, device=device)
        self._saturated = zeros(dofs, dtype=int, device=device)
        self._latest = zeros(dofs, dtype=wp.vec2, device=device)
        self._hold = zeros(dofs, dtype=float, device=device)
        self._forces = zeros(dofs, dtype=float, device=device)
        self._diagonal = zeros(dofs, dtype=float, device=device)
        self._force = zeros(dofs, dtype=float, device=device)
        self._qd = zeros(dofs, dtype=float, device=device)
        self._change = zeros(dofs, dtype=float, device=device)
        self._zero = zeros(dofs, dtype=float, device=device)
        self._z = zeros(dofs, dtype=float, device=device)

    def begin(self, launch: Launcher, state: State, control: Control, joint_f: wp.array, dt: float) -> None:
        """Start a step: poses, expected velocities, and mobilities of bodies.

        Args:
            launch: For the worlds.
            state: State at the start of the step.
            control: Inputs of the step.
            joint_f: Generalised forces in place of those of `control`, shape (joint_dof_count,).
            dt: Length of the step [s].
        """
        smooth, v = self.smooth, launch.views
        q, qd, act, kin = state.joint_q, state.joint_qd, control.joint_act, smooth.motion.kin
        launch(
            joint_forces.select_implicit_drives,
            "dof",
            reads=dict(tree=v.tree, drive=v.drive, q=q, qd=qd, act=act, dt=dt),
            writes=dict(implicit=self._implicit, diagonal=self._diagonal),
        )
        launch(
            maximal_articulated_bodies.expect_forces,
            "dof",
            reads=dict(
                tree=v.tree,
                drive=v.drive,
                q=q,
                qd=qd,
                act=act,
                dt=dt,
                hold=self._hold,
                saturated=self._saturated,
                expected=self._forces,
                joint_f=joint_f,
            ),
            writes=dict(implicit=self._implicit, diagonal=self._diagonal, force=self._force),
        )
        self._factors.factorize(launch, kin, self._diagonal)
        launch(
            tree_advance.predict_trees,
            "tree team",
            reads=dict(
                tree=v.tree,
                levels=v.levels,
                joint=v.joint,
                body=v.body,
                drive=v.drive,
                gravity=self.model.gravity_vec,
                body_f=smooth.body_f,
                L=self._L,
                implicit=self._implicit,
                q=q,
                qd=qd,
                qdd=self._zero,
                act=act,
                joint_f=self._force,
                kin=kin,
                dt=dt,
            ),
            writes=dict(forces=smooth.motion.forces, qd_end=self._qd),
        )
        launch.velocities(self._expected, self._qd)
        launch(
            maximal_articulated_bodies.begin_bodies,
            "body",
            reads=dict(
                tree=v.tree,
                body=v.body,
                kin=self._expected.kin,
                L=self._L,
                body_q=smooth.body_q,
                body_qd=smooth.body_qd,
            ),
            writes=dict(B=self._B, gain=self._gain, bodies=self.view),
        )
        self._dt = dt

    def begin_substep(self, launch: Launcher, before: float, dt: float) -> None:
        """See `MovingBodies.begin_substep`: forces act over all substeps, each takes its share."""
        launch(
            maximal_articulated_bodies.move_bodies,
            "body",
            reads=dict(before=before, dt=dt, share=dt / self._dt, gain=self._gain),
            writes=dict(bodies=self.view),
        )

    def share(self, launch: Launcher) -> None:
        """See `MovingBodies.share`."""
        v = launch.views
        launch(
            maximal_articulated_bodies.share_bodies,
            "tree",
            reads=dict(tree=v.tree, joint=v.joint),
            writes=dict(bodies=self.view),
        )

    def apply_impulses(self, launch: Launcher) -> None:
        """See `MovingBodies.apply_impulses`."""
        v, kin = launch.views, self.smooth.motion.kin
        launch(
            maximal_articulated_bodies.apply_impulses,
            "tree",
            reads=dict(tree=v.tree, levels=v.levels, joint=v.joint, kin=kin, L=self._L),
            writes=dict(carried=self._carried, qd=self._change, bodies=self.view),
        )

    def remember(self, launch: Launcher, rows: RowsView, joint_qd: wp.array, dt: float) -> None:
        """Store the constraint forces of a step, given the velocities after it."""
        smooth, tree = self.smooth, launch.views.tree
        launch(
            maximal_articulated_bodies.clear_memory,
            "dof",
            writes=dict(hold=self._hold, saturated=self._saturated, z=self._z),
        )
        launch(
            maximal_articulated_bodies.remember_holds,
            "dof_row",
            reads=dict(rows=rows.dof),
            writes=dict(hold=self._hold, saturated=self._saturated),
        )
        launch(
            maximal_articulated_bodies.add_steady_impulses,
            "world",
            reads=dict(tree=tree, rows=rows.dof, pairs=rows.pair, depth=topology_of(self.model).max_depth),
            writes=dict(z=self._z),
        )
        launch(
            maximal_articulated_bodies.remember_forces,
            "tree",
            reads=dict(tree=tree, L=smooth.L, v_free=smooth.v_free, v_end=joint_qd, z=self._z, dt=dt),
            writes=dict(change=self._change, latest=self._latest, expected=self._forces),
        )
        launch(
            maximal_articulated_bodies.leave_out_drives,
            "dof_row",
            reads=dict(rows=rows.dof, dt=dt),
            writes=dict(expected=self._forces),
        )

    def forget(self, world_mask: wp.array | None) -> None:
        """Clear these in the masked worlds, or in all."""
        memory = [self._hold, self._saturated, self._latest, self._forces]
        if world_mask is None:
            for array in memory:
                array.zero_()
            return
        self.forget_in(Launcher(self.model, record_tape=False), world_mask)

    def forget_in(self, launch: Launcher, world_mask: wp.array) -> None:
        """Clear these in the masked worlds of a launcher."""
        launch(
            maximal_articulated_bodies.forget_forces,
            "dof",
            reads=dict(mask=world_mask, world=topology_of(self.model).view.dof_world),
            writes=dict(
                hold=self._hold, saturated=self._saturated, latest=self._latest, expected=self._forces
            ),
        )
