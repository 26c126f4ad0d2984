"""Scratch arrays and struct views that host code hands to kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.kernels.trees import forward_kinematics, rnea, tree_state
from newtonsim.kernels.views.model import BodyView, DriveView, JointView, KinematicsView, TreeView
from newtonsim.runtime import capture, compilation
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import zeros
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


class ModelViews:
    """Struct views of a model's arrays, made anew for each use so that replaced arrays are seen.

    Attributes:
        tree: Topology.
        joint: Joint definitions.
        body: Inertial parameters.
        drive: Drives, springs, damping, armature.
    """

    def __init__(self, model: Model):
        self.tree = topology_of(model).view
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
        forces: Whether there is room for accelerations and forces, or for poses and velocities alone.
    """

    def __init__(
        self, model: Model, requires_grad: bool = False, poses: Motion | None = None, forces: bool = True
    ):
        dofs, bodies = model.joint_dof_count, model.body_count
        options = {"device": model.device, "requires_grad": requires_grad}
        self.arrays: list[wp.array] = []

        def own(count: int, dtype: type) -> wp.array:
            array = zeros(count, dtype=dtype, **options)
            self.arrays.append(array)
            return array

        self.kin = KinematicsView()
        if poses is None:
            self.kin.origin = zeros(topology_of(model).tree_count, dtype=wp.vec3, device=model.device)
            self.kin.dof_X = own(dofs, wp.transform)
            self.kin.S = own(dofs, wp.spatial_vector)
            self.kin.body_X = own(bodies, wp.transform)
            if forces:
                self.kin.body_com = own(bodies, wp.vec3)
                self.kin.body_I = own(bodies, wp.mat33)
        else:
            for field in ("origin", "dof_X", "S", "body_X", "body_com", "body_I"):
                setattr(self.kin, field, getattr(poses.kin, field))
        self.kin.dof_V = own(dofs, wp.spatial_vector)
        self.kin.body_V = own(bodies, wp.spatial_vector)
        if not forces:
            return
        self.dof_A = own(dofs, wp.spatial_vector)
        self.body_A = own(bodies, wp.spatial_vector)
        self.body_F = own(bodies, wp.spatial_vector)
        self.tau = own(dofs, float)

    def zero_grad(self) -> None:
        """Clear the gradients of all own arrays."""
        for array in self.arrays:
            array.grad.zero_()


class Launcher:
    """Launches kernels over the indices of a shard, on the active tape or not.

    What it launches takes the first index of the range as its first argument: one thread handles that index
    plus its own number. A step consists of launches alone: a captured `zero_` or `wp.copy` would act on all
    worlds, and on the CPU a graph keeps a copy of the whole array for it.

    Args:
        model: The model.
        record_tape: Whether an active tape records the launches.
        shard: The worlds to handle; None for the whole model.
    """

    def __init__(self, model: Model, record_tape: bool, shard: Shard | None = None):
        self.model = model
        self.shard = Shard(model) if shard is None else shard
        self.record_tape = record_tape

    @cached_property
    def views(self) -> ModelViews:
        """Struct views of the model's arrays, made at first use."""
        return ModelViews(self.model)

    def with_tree(self, tree: TreeView) -> Launcher:
        """Return a launcher whose `views` hold another topology of the model, and are else the same."""
        other = copy.copy(self)
        other.views = copy.copy(self.views)
        other.views.tree = tree
        return other

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function of the host between launches; a dry run leaves it out as it does them."""
        if compilation.dry_run_modules() is None:
            function(*arguments)

    def __call__(self, kernel: wp.Kernel, kind: str, inputs: list, outputs: list | None = None) -> None:
        """Launch one kernel over one kind of index, see `Shard.ranges`.

        Args:
            kernel: Its first argument, the first index, is added here.
            kind: What one thread handles.
            inputs: The other arguments.
            outputs: Arrays that the tape counts as written.
        """
        self._launch(kernel, kind, inputs, outputs or [], self.record_tape)

    def backward_only(self, kernel: wp.Kernel, kind: str, inputs: list, outputs: list) -> None:
        """Put a launch on the active tape without making it: nothing reads the values, only their gradients.

        Args:
            kernel: As for a launch; may not read what it writes.
            kind: What one thread handles.
            inputs: The other arguments.
            outputs: Arrays whose gradients the backward pass starts from.
        """
        if not compilation.prepare(kernel, self.model.device, on_tape=True):
            return
        for first, count in self.shard.ranges(kind):
            of_range = [first, *inputs]
            device = self.model.device
            block_dim = compilation.block_dim(device)
            active_tape().record_launch(kernel, count, 0, of_range, outputs, device, block_dim)

    def _launch(self, kernel: wp.Kernel, kind: str, inputs: list, outputs: list, record_tape: bool) -> None:
        ranges = self.shard.ranges(kind)
        on_tape = record_tape and active_tape() is not None
        if not ranges or not compilation.prepare(kernel, self.model.device, on_tape):
            return
        recorded = capture.collected()
        options = {"outputs": outputs, "device": self.model.device, "record_tape": record_tape}
        for first, count in ranges:
            if recorded is None:
                compilation.launch(kernel, count, [first, *inputs], **options)
            else:
                command = compilation.launch(kernel, count, [first, *inputs], record_cmd=True, **options)
                recorded.append(command)

    def poses(self, motion: Motion, joint_q: wp.array) -> None:
        """Body frames and motion subspaces at joint_q."""
        v = self.views
        inputs = [v.tree, v.joint, joint_q, motion.kin.origin]
        # nothing depends on where the origins are, so no gradient goes through them
        self._launch(forward_kinematics.place_origins, "tree", inputs, [], record_tape=False)
        inputs = [v.tree, v.joint, self.model.body_com, joint_q, motion.kin]
        self(forward_kinematics.compute_poses, "tree", inputs)

    def velocities(self, motion: Motion, joint_qd: wp.array) -> None:
        """Spatial velocities at joint_qd; needs the poses."""
        v = self.views
        self(forward_kinematics.compute_velocities, "tree", [v.tree, v.joint, joint_qd, motion.kin])

    def place(
        self, motion: Motion, joint_q: wp.array, joint_qd: wp.array, body_q: wp.array, body_qd: wp.array
    ) -> None:
        """`poses`, `velocities` and `write_bodies` in one launch, which no tape may record."""
        v = self.views
        inputs = [v.tree, v.joint, v.body, joint_q, joint_qd, motion.kin]
        self(tree_state.place_trees, "tree", inputs, [body_q, body_qd])

    def inertias(self, motion: Motion) -> None:
        """Centres of mass and inertias in world axes; needs the poses."""
        v = self.views
        self(forward_kinematics.turn_inertias, "body", [v.tree, v.body, motion.kin])

    def inverse_dynamics(
        self, motion: Motion, joint_qd: wp.array, joint_qdd: wp.array, body_f: wp.array
    ) -> None:
        """motion.tau = M qdd + c(q, qd) - Jᵀ body_f; needs poses, velocities and inertias."""
        v = self.views
        inputs = [v.tree, v.joint, v.body, self.model.gravity_vec, motion.kin, joint_qd, joint_qdd, body_f]
        outputs = [motion.dof_A, motion.body_A, motion.body_F, motion.tau]
        self(rnea.inverse_dynamics, "tree", inputs, outputs)

    def write_bodies(
        self, motion: Motion, body_q: wp.array, body_qd: wp.array, tree_mask: wp.array | None = None
    ) -> None:
        """World poses and velocities of the bodies on trees, of the masked trees only if a mask is given."""
        v = self.views
        inputs = [v.tree, v.body, motion.kin, tree_mask, int(tree_mask is not None)]
        self(forward_kinematics.write_body_state, "body", inputs, [body_q, body_qd])


def active_tape() -> wp.Tape | None:
    """Return the tape that records now.

    Warp has no public question for this; this is the only place that asks the private one.
    """
    return wp._src.context.runtime.tape if wp._src.context.runtime is not None else None
