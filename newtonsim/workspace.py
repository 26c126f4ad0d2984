"""Scratch arrays and struct views that host code hands to kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from newtonsim.kernels import forward_kinematics, rnea
from newtonsim.kernels.views import BodyView, DriveView, JointView, KinematicsView

if TYPE_CHECKING:
    from newtonsim.model import Model


class ModelViews:
    """Struct views of a model's arrays, made anew for each use so that replaced arrays are seen.

    Attributes:
        tree: Topology.
        joint: Joint definitions.
        body: Inertial parameters.
        drive: Drives, springs, damping, armature.
    """

    def __init__(self, model: Model):
        self.tree = model.topology.view
        self.joint = JointView()
        for field in (
            "type",
            "parent",
            "child",
            "q_start",
            "qd_start",
            "axis_start",
            "axis_dim",
            "X_p",
            "X_c",
            "axis",
        ):
            setattr(self.joint, field, getattr(model, f"joint_{field}"))
        self.body = BodyView()
        for field in ("mass", "com", "inertia"):
            setattr(self.body, field, getattr(model, f"body_{field}"))
        self.drive = DriveView()
        self.drive.mode = model.joint_axis_mode
        for field in (
            "target_ke",
            "target_kd",
            "stiffness",
            "spring_ref",
            "effort_limit",
            "armature",
            "damping",
        ):
            setattr(self.drive, field, getattr(model, f"joint_{field}"))


class Motion:
    """Velocities and accelerations of one evaluation, with the poses shared between evaluations.

    Args:
        model: The model.
        requires_grad: Whether gradients flow through the arrays.
        poses: Another Motion whose poses are used, or None for own ones.
    """

    def __init__(self, model: Model, requires_grad: bool = False, poses: Motion | None = None):
        dofs, bodies = model.joint_dof_count, model.body_count
        options = {"device": model.device, "requires_grad": requires_grad}
        self.arrays: list[wp.array] = []

        def zeros(count: int, dtype: type) -> wp.array:
            array = wp.zeros(count, dtype=dtype, **options)
            self.arrays.append(array)
            return array

        self.kin = KinematicsView()
        if poses is None:
            self.kin.origin = wp.zeros(model.topology.tree_count, dtype=wp.vec3, device=model.device)
            self.kin.dof_X = zeros(dofs, wp.transform)
            self.kin.S = zeros(dofs, wp.spatial_vector)
            self.kin.body_X = zeros(bodies, wp.transform)
        else:
            for field in ("origin", "dof_X", "S", "body_X"):
                setattr(self.kin, field, getattr(poses.kin, field))
        self.kin.dof_V = zeros(dofs, wp.spatial_vector)
        self.kin.body_V = zeros(bodies, wp.spatial_vector)
        self.dof_A = zeros(dofs, wp.spatial_vector)
        self.body_A = zeros(bodies, wp.spatial_vector)
        self.body_F = zeros(bodies, wp.spatial_vector)
        self.tau = zeros(dofs, float)

    def zero_grad(self) -> None:
        """Clear the gradients of all own arrays."""
        for array in self.arrays:
            array.grad.zero_()


class Launcher:
    """Launches kernels for one model, on the active tape or not.

    Args:
        model: The model whose device is used.
        record_tape: Whether an active tape records the launches.
    """

    def __init__(self, model: Model, record_tape: bool):
        self.model = model
        self.views = ModelViews(model)
        self.record_tape = record_tape

    def __call__(self, kernel: wp.Kernel, dim: int, inputs: list, outputs: list | None = None) -> None:
        """Launch one kernel."""
        wp.launch(
            kernel,
            dim=dim,
            inputs=inputs,
            outputs=outputs or [],
            device=self.model.device,
            record_tape=self.record_tape,
        )

    @property
    def tree_count(self) -> int:
        """Number of kinematic trees."""
        return self.model.topology.tree_count

    def poses(self, motion: Motion, joint_q: wp.array) -> None:
        """Body frames and motion subspaces at joint_q."""
        v = self.views
        wp.launch(
            forward_kinematics.place_origins,
            dim=self.tree_count,
            inputs=[v.tree, v.joint, joint_q, motion.kin.origin],
            device=self.model.device,
            record_tape=False,
        )
        inputs = [v.tree, v.joint, self.model.body_com, joint_q, motion.kin]
        self(forward_kinematics.compute_poses, self.tree_count, inputs)

    def velocities(self, motion: Motion, joint_qd: wp.array) -> None:
        """Spatial velocities at joint_qd; needs the poses."""
        v = self.views
        self(forward_kinematics.compute_velocities, self.tree_count, [v.tree, v.joint, joint_qd, motion.kin])

    def inverse_dynamics(
        self, motion: Motion, joint_qd: wp.array, joint_qdd: wp.array, body_f: wp.array
    ) -> None:
        """motion.tau = M qdd + c(q, qd) - Jᵀ body_f; needs poses and velocities."""
        v = self.views
        motion.body_F.zero_()
        inputs = [v.tree, v.joint, v.body, self.model.gravity_vec, motion.kin, joint_qd, joint_qdd, body_f]
        outputs = [motion.dof_A, motion.body_A, motion.body_F, motion.tau]
        self(rnea.inverse_dynamics, self.tree_count, inputs, outputs)

    def write_bodies(
        self, motion: Motion, body_q: wp.array, body_qd: wp.array, tree_mask: wp.array | None = None
    ) -> None:
        """World poses and velocities of the bodies on trees, of the masked trees only if a mask is given."""
        v = self.views
        inputs = [v.tree, v.body, motion.kin, tree_mask, int(tree_mask is not None)]
        self(forward_kinematics.write_body_state, self.model.body_count, inputs, [body_q, body_qd])


def active_tape() -> wp.Tape | None:
    """Return the tape that records now.

    Warp has no public question for this; this is the only place that asks the private one.
    """
    return wp._src.context.runtime.tape if wp._src.context.runtime is not None else None
