"""Armature and damping of floating joints, which act on the velocity of the origin of the body's frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.kernels.trees import damping as trees_damping
from newtonsim.kernels.trees import floating_terms
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.joint_types import is_floating
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.kernels.views.model import KinematicsView
    from newtonsim.scene.model import Model


class FloatingTerms:
    """What armature and damping of floating joints add, see `kernels.trees.floating_terms`.

    Only joints at the root of a tree that have some when this is created are considered. Without any, there
    is nothing to launch.

    Args:
        model: The model.

    Attributes:
        joint: Floating joint of each tree that has armature or damping, or -1, shape (tree_count,).
        present: Whether there is any.
    """

    def __init__(self, model: Model):
        tree = topology_of(model).view
        joints = tree.joint.numpy()[tree.joint_start.numpy()[:-1]]
        acts = np.zeros(len(joints), bool)
        floating = np.flatnonzero(is_floating(model.joint_type.numpy()[joints]))
        if len(floating):
            linear = model.joint_qd_start.numpy()[joints[floating], None] + np.arange(3, 6)
            for array in (model.joint_armature, model.joint_damping):
                acts[floating] |= array.numpy()[linear].any(axis=1)
            acts &= model.joint_parent.numpy()[joints] < 0
        self.joint = put(np.where(acts, joints, -1), dtype=int, device=model.device)
        self.present = bool(acts.any())
        self._forces = zeros(model.joint_dof_count if self.present else 0, dtype=float, device=model.device)

    def add_inertia(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array, H: wp.array) -> None:
        """Add to the joint-space inertia what the diagonal omits; needs the poses.

        Args:
            launch: Launcher of the model.
            kin: Poses of the bodies.
            diagonal: What was added to the diagonal of H, shape (joint_dof_count,).
            H: The inertia, by rows of ancestors, shape (entry_count,).
        """
        if self.present:
            v = launch.views
            launch(
                floating_terms.add_inertia,
                "tree",
                reads=dict(
                    floating=self.joint, tree=v.tree, joint=v.joint, body=v.body, kin=kin, diagonal=diagonal
                ),
                writes=dict(H=H),
            )

    def add_to_factors(self, launch: Launcher, kin: KinematicsView, diagonal: wp.array, L: wp.array) -> None:
        """Do the same to the factors `L` of the joint-space inertia; arguments as before."""
        if self.present:
            v = launch.views
            launch(
                floating_terms.add_to_factors,
                "tree",
                reads=dict(
                    floating=self.joint, tree=v.tree, joint=v.joint, body=v.body, kin=kin, diagonal=diagonal
                ),
                writes=dict(L=L),
            )

    def add_forces(
        self,
        launch: Launcher,
        kin: KinematicsView,
        velocities: tuple[wp.array, wp.array],
        qdd: wp.array,
        damping: wp.array,
        scale: float,
        total: wp.array,
    ) -> None:
        """Add scale times the forces that armature and damping exert in addition to those on the diagonal.

        Args:
            launch: Launcher of the model; a recording one differentiates.
            kin: Poses of the bodies.
            velocities: That of which the acceleration of the origin depends, and that which is damped, each
                of shape (joint_dof_count,).
            qdd: Joint accelerations, shape (joint_dof_count,).
            damping: Damping, shape (joint_dof_count,).
            scale: Factor.
            total: Generalised forces to add to, shape (joint_dof_count,).
        """
        if self.present:
            launch(
                floating_terms.add_forces,
                "tree",
                reads=dict(
                    floating=self.joint,
                    joint=launch.views.joint,
                    com=launch.model.body_com,
                    kin=kin,
                    armature=launch.model.joint_armature,
                    damping=damping,
                    qd=velocities[0],
                    qd_end=velocities[1],
                    qdd=qdd,
                    scale=scale,
                ),
                writes=dict(total=total),
            )

    def add_derivatives(
        self,
        launch: Launcher,
        kin: KinematicsView,
        qd: wp.array,
        qdd: wp.array,
        blocks: tuple[wp.array, wp.array],
        by_q: wp.array,
        by_qd: wp.array,
    ) -> None:
        """Add the derivatives of the forces of armature by coordinates and velocities; needs the poses.

        Args:
            launch: Launcher of the model.
            kin: Poses of the bodies.
            qd: Joint velocities, shape (joint_dof_count,).
            qdd: Joint accelerations, shape (joint_dof_count,).
            blocks: Block and place in it of each dof, each of shape (joint_dof_count,).
            by_q: Derivatives by the coordinates to add to, shape (blocks, n, n).
            by_qd: Those by the velocities.
        """
        if self.present:
            v = launch.views
            launch(
                floating_terms.differentiate_forces,
                "tree",
                reads=dict(
                    floating=self.joint,
                    joint=v.joint,
                    body=v.body,
                    kin=kin,
                    armature=launch.model.joint_armature,
                    qd=qd,
                    qdd=qdd,
                    dof_articulation=blocks[0],
                    dof_local=blocks[1],
                ),
                writes=dict(by_q=by_q, by_qd=by_qd),
            )

    def less_forces(
        self,
        launch: Launcher,
        kin: KinematicsView,
        qd: wp.array,
        qdd: wp.array,
        damping: wp.array,
        joint_f: wp.array,
    ) -> wp.array:
        """Return generalised forces less these, at the velocity `qd`; only where there are any."""
        launch(trees_damping.copy_forces, "dof", reads=dict(source=joint_f), writes=dict(target=self._forces))
        self.add_forces(launch, kin, (qd, qd), qdd, damping, -1.0, self._forces)
        return self._forces
