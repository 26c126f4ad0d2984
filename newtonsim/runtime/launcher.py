"""Scratch arrays and struct views that host code hands to kernels."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.kernels.algebra.spans import Span
from newtonsim.kernels.trees import forward_kinematics, rnea, tree_state
from newtonsim.kernels.views.model import BodyView, DriveView, ForceView, JointView, KinematicsView, TreeView
from newtonsim.runtime import capture, compilation
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.arguments import NONE, Arguments, Kernel, in_order, last_written
from newtonsim.runtime.copies import fill
from newtonsim.runtime.residents import resident_views
from newtonsim.runtime.shards import Shard
from newtonsim.runtime.tapes import Tape
from newtonsim.runtime.teams import lanes_of, takes_teams, teams_from
from newtonsim.scene.allocation import zeros
from newtonsim.scene.levels import levels_of
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


class ModelViews:
    """Struct views of a model's arrays, made anew for each use so that replaced arrays are seen.

    Attributes:
        tree: Topology.
        levels: The same, level by level.
        joint: Joint definitions.
        body: Inertial parameters.
        drive: Drives, springs, damping, armature.
    """

    def __init__(self, model: Model):
        self.tree = topology_of(model).view
        self.levels = levels_of(model)
        self.joint = JointView()
        self.joint.type = model.joint_type
        self.joint.parent = model.joint_parent
        self.joint.child = model.joint_child
        self.joint.q_start = model.joint_q_start
        self.joint.qd_start = model.joint_qd_start
        self.joint.axis_start = model.joint_axis_start
        self.joint.axis_dim = model.joint_axis_dim
        self.joint.X_p = model.joint_X_p
        self.joint.X_c = model.joint_X_c
        self.joint.axis = model.joint_axis
        self.body = BodyView()
        self.body.mass = model.body_mass
        self.body.com = model.body_com
        self.body.inertia = model.body_inertia
        self.drive = DriveView()
        self.drive.mode = model.joint_axis_mode
        self.drive.target_ke = model.joint_target_ke
        self.drive.target_kd = model.joint_target_kd
        self.drive.stiffness = model.joint_stiffness
        self.drive.spring_ref = model.joint_spring_ref
        self.drive.effort_limit = model.joint_effort_limit
        self.drive.effort_lower = model.joint_effort_lower
        self.drive.armature = model.joint_armature
        self.drive.damping = model.joint_damping


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

        def own(count: int, dtype: Any) -> wp.array:
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
            self.kin.origin = poses.kin.origin
            self.kin.dof_X = poses.kin.dof_X
            self.kin.S = poses.kin.S
            self.kin.body_X = poses.kin.body_X
            self.kin.body_com = poses.kin.body_com
            self.kin.body_I = poses.kin.body_I
        self.kin.dof_V = own(dofs, wp.spatial_vector)
        self.kin.body_V = own(bodies, wp.spatial_vector)
        if not forces:
            return
        self.dof_A = own(dofs, wp.spatial_vector)
        self.body_A = own(bodies, wp.spatial_vector)
        self.body_F = own(bodies, wp.spatial_vector)
        self.tau = own(dofs, float)
        self.forces = ForceView()
        self.forces.dof_A, self.forces.body_A = self.dof_A, self.body_A
        self.forces.body_F, self.forces.tau = self.body_F, self.tau

    def zero_grad(self) -> None:
        """Clear the gradients of all own arrays."""
        for array in self.arrays:
            fill(array.grad)


def gradients_of(kind: Any, view: Any) -> Any:
    """Return a view of a kind of the gradients of another's arrays; empty where an array keeps none."""
    gradients = kind()
    for name in kind.vars:
        array = getattr(view, name)
        if array is not None and array.grad is not None:
            setattr(gradients, name, array.grad)
    return gradients


class Launcher:
    """Launches kernels over the indices of a shard, on the active tape or not.

    What it launches takes the first index of the range as its first argument: one thread handles that index
    plus its own number. A kind such as "tree team" launches a team of threads for each index, and the first
    argument says how many lanes it has, see `kernels.algebra.teams`; one such as "contact span" launches
    threads that share the indices, see `kernels.algebra.spans`. A step consists of launches alone: a captured
    `zero_` or `wp.copy` would act on all worlds, and on the CPU a graph keeps a copy of the whole
    array for it.

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

    def __call__(
        self, kernel: Kernel, kind: str, *, reads: Arguments = NONE, writes: Arguments = NONE
    ) -> None:
        """Launch one kernel over one kind of index, see `Shard.ranges`.

        Args:
            kernel: Its first argument, `first`, `teams` or `span`, is added here.
            kind: What one thread handles, or a team if " team" follows; all of them if " span" does.
            reads: Arguments that it only reads, by the names of its parameters.
            writes: Arguments that it writes to, or to arrays of.

        Raises:
            LaunchError: An argument is missing, given twice or unknown.
        """
        arguments = in_order(kernel, reads, writes, added=1)
        self._launch(kernel, kind, arguments, writes, self.record_tape)

    def off_tape(
        self, kernel: Kernel, kind: str, *, reads: Arguments = NONE, writes: Arguments = NONE
    ) -> None:
        """Launch a kernel as by calling the launcher, but never on a tape."""
        self._launch(kernel, kind, in_order(kernel, reads, writes, added=1), writes, record_tape=False)

    def backward_only(
        self, kernel: Kernel, kind: str, *, reads: Arguments = NONE, writes: Arguments = NONE
    ) -> None:
        """Put a launch on the active tape without making it: nothing reads the values, only their gradients.

        Args:
            kernel: As for a launch; may not read what it writes.
            kind: What one thread handles.
            reads: Arguments that it only reads, by the names of its parameters.
            writes: Arrays whose gradients the backward pass starts from.

        Raises:
            LaunchError: As for a launch.
        """
        arguments = in_order(kernel, reads, writes, added=1)
        if not compilation.prepare(kernel, self.model.device, on_tape=True):
            return
        device = self.model.device
        tape: Any = active_tape()
        split = len(arguments) - last_written(kernel, writes)
        inputs, outputs = arguments[:split], list(arguments[split:])
        for first, count in self._threads(kind, on_tape=True):
            of_range, block_dim = [first, *inputs], compilation.block_dim(device)
            tape.record_launch(kernel, count, 0, of_range, outputs, device, block_dim)

    @contextlib.contextmanager
    def where_any(self, mask: wp.array, kind: str | None = None) -> Iterator[None]:
        """Let recordings on the CPU leave out launches that do nothing while a mask is zero everywhere.

        Those are the launches made within, and their way back on the tape of this launcher.

        Args:
            mask: Integers of any number; read when the recording runs, before these launches and before
                their way back.
            kind: What the mask has an entry of, see `Shard.ranges`, if those of other worlds do not matter.
        """
        if kind is not None:
            (first, count), *more = self.shard.ranges(kind) or ((0, 0),)
            mask = mask if more else mask[first : first + count]  # pyright: ignore[reportAssignmentType]
        recorded, tape = capture.collected(), active_tape() if self.record_tape else None
        with contextlib.ExitStack() as stack:
            if recorded is not None:
                stack.enter_context(recorded.where_any(mask))
                if isinstance(tape, Tape):
                    stack.enter_context(tape.where_any(mask))
            yield

    def user_kernel(self, kernel: Kernel, kind: str, *arguments: object) -> None:
        """Launch a kernel that users write: known are the meaning and the order of its parameters, not names.

        Args:
            kernel: Its first argument, the first index or the teams, is added here.
            kind: What one thread or team handles.
            arguments: The other arguments.
        """
        self._launch(
            kernel, f"{kind} team" if takes_teams(kernel) else kind, arguments, NONE, self.record_tape
        )

    def _launch(
        self,
        kernel: Kernel,
        kind: str,
        arguments: Sequence[object],
        writes: Arguments,
        record_tape: bool,
    ) -> None:
        device = self.model.device
        on_tape = record_tape and active_tape() is not None
        threads = self._threads(kind, on_tape)
        arguments = resident_views(kernel, arguments, device)
        if not threads or not compilation.prepare(kernel, device, on_tape):
            return
        recorded = capture.collected()
        # what a tape calls outputs are arrays at the end
        split = len(arguments) - (last_written(kernel, writes) if on_tape else 0)
        inputs, outputs = arguments[:split], list(arguments[split:])
        options = {"device": device, "record_tape": record_tape, "block_dim": compilation.block_dim(device)}
        if recorded is not None:
            options["record_cmd"] = True
        tape: Any = active_tape() if on_tape else None
        for first, count in threads:
            command: Any = wp.launch(kernel, count, [first, *inputs], outputs, **options)
            if recorded is not None:
                recorded.append(command)
                if tape is not None:  # which Warp forgets in launches that it only returns
                    tape.record_launch(
                        kernel, count, 0, [first, *inputs], outputs, device, options["block_dim"]
                    )

    def _threads(self, kind: str, on_tape: bool) -> Sequence[tuple[object, int]]:
        """First argument and number of threads of every launch over a kind of index."""
        if kind.endswith(" span"):
            ranges = self.shard.ranges(kind.removesuffix(" span"))
            return [self._span(first, count) for first, count in ranges]
        index = kind.removesuffix(" team")
        ranges = self.shard.ranges(index)
        if index == kind:
            return ranges
        # the reverse of a `sync` is none, so backward passes have teams of one
        lanes = 1 if on_tape else lanes_of(self.model, index)
        return [(teams_from(first, lanes), lanes * count) for first, count in ranges]

    def _span(self, first: int, count: int) -> tuple[Span, int]:
        """A span of indices, and the threads that share them."""
        span, threads = Span(), 1 if self.model.device.is_cpu else count
        span.first, span.end, span.step = first, first + count, threads
        return span, threads

    def _goes_back(self, motion: Motion) -> bool:
        """Whether a tape records, and a motion keeps gradients."""
        return self.record_tape and active_tape() is not None and motion.kin.body_V.grad is not None

    def _reverse_by(
        self,
        kernel: Kernel,
        kind: str,
        motion: Motion,
        inputs: Sequence[wp.array],
        *,
        reads: Arguments,
        writes: Arguments,
    ) -> None:
        """Let a kernel be the way back of the active tape through what was launched.

        Args:
            kernel: The kernel.
            kind: What one of its threads handles.
            motion: Motion whose gradients it changes.
            inputs: Other arrays whose gradients it changes, where they have any.
            reads: Arguments that it only reads, by the names of its parameters.
            writes: Gradients that it changes, likewise.
        """
        tape: Any = active_tape()
        arrays = [a for a in (*motion.arrays, *inputs) if a.size and a.grad is not None]
        tape.record_func(lambda: self.off_tape(kernel, kind, reads=reads, writes=writes), arrays)

    def poses(self, motion: Motion, joint_q: wp.array, known: bool = False) -> None:
        """Body frames and motion subspaces at joint_q; if they are known, only their way back is recorded."""
        v, com = self.views, self.model.body_com
        # nothing depends on where the origins are, so no gradient goes through them
        if not known:
            self.off_tape(
                forward_kinematics.place_origins,
                "tree",
                reads=dict(tree=v.tree, joint=v.joint, q=joint_q),
                writes=dict(origin=motion.kin.origin),
            )
            self.off_tape(
                forward_kinematics.compute_poses,
                "tree",
                reads=dict(tree=v.tree, joint=v.joint, body_com=com, q=joint_q),
                writes=dict(kin=motion.kin),
            )
        if self._goes_back(motion):
            from newtonsim.kernels.trees.adjoint import poses as poses_adjoint

            self._reverse_by(
                poses_adjoint.reverse_poses,
                "tree",
                motion,
                (joint_q, com, v.joint.X_p, v.joint.X_c, v.joint.axis),
                reads=dict(tree=v.tree, joint=v.joint, body_com=com, q=joint_q, kin=motion.kin),
                writes=dict(
                    by_joint=gradients_of(JointView, v.joint),
                    by_body_com=com.grad,
                    by_kin=gradients_of(KinematicsView, motion.kin),
                    by_q=joint_q.grad,
                ),
            )

    def velocities(self, motion: Motion, joint_qd: wp.array, known: bool = False) -> None:
        """Spatial velocities at joint_qd, `known` as in `poses`; needs the poses."""
        v = self.views
        if not known:
            self.off_tape(
                forward_kinematics.compute_velocities,
                "tree",
                reads=dict(tree=v.tree, joint=v.joint, qd=joint_qd),
                writes=dict(kin=motion.kin),
            )
        if self._goes_back(motion):
            from newtonsim.kernels.trees.adjoint import motion as motion_adjoint

            self._reverse_by(
                motion_adjoint.reverse_velocities,
                "tree",
                motion,
                (joint_qd,),
                reads=dict(tree=v.tree, joint=v.joint, kin=motion.kin, qd=joint_qd),
                writes=dict(by_kin=gradients_of(KinematicsView, motion.kin), by_qd=joint_qd.grad),
            )

    def place(
        self, motion: Motion, joint_q: wp.array, joint_qd: wp.array, body_q: wp.array, body_qd: wp.array
    ) -> None:
        """`poses`, `velocities` and `write_bodies` in one launch, which no tape may record."""
        v = self.views
        self(
            tree_state.place_trees,
            "tree team",
            reads=dict(tree=v.tree, levels=v.levels, joint=v.joint, body=v.body, q=joint_q, qd=joint_qd),
            writes=dict(kin=motion.kin, body_q=body_q, body_qd=body_qd),
        )

    def inertias(self, motion: Motion, known: bool = False) -> None:
        """Centres of mass and inertias in world axes, `known` as in `poses`; needs the poses."""
        v = self.views
        if not known:
            self.off_tape(
                forward_kinematics.turn_inertias,
                "body",
                reads=dict(tree=v.tree, body=v.body),
                writes=dict(kin=motion.kin),
            )
        if self._goes_back(motion):
            from newtonsim.kernels.trees.adjoint import poses as poses_adjoint

            self._reverse_by(
                poses_adjoint.reverse_inertias,
                "body",
                motion,
                (v.body.com, v.body.inertia),
                reads=dict(tree=v.tree, body=v.body, kin=motion.kin),
                writes=dict(
                    by_body=gradients_of(BodyView, v.body), by_kin=gradients_of(KinematicsView, motion.kin)
                ),
            )

    def inverse_dynamics(
        self, motion: Motion, joint_qd: wp.array, joint_qdd: wp.array, body_f: wp.array
    ) -> None:
        """motion.tau = M qdd + c(q, qd) - Jᵀ body_f; needs poses, velocities and inertias."""
        v, gravity = self.views, self.model.gravity_vec
        self.off_tape(
            rnea.inverse_dynamics,
            "tree",
            reads=dict(
                tree=v.tree,
                joint=v.joint,
                body=v.body,
                gravity=gravity,
                kin=motion.kin,
                qd=joint_qd,
                qdd=joint_qdd,
                body_f=body_f,
            ),
            writes=dict(dof_A=motion.dof_A, body_A=motion.body_A, body_F=motion.body_F, tau=motion.tau),
        )
        if self._goes_back(motion):
            from newtonsim.kernels.trees.adjoint import motion as motion_adjoint

            self._reverse_by(
                motion_adjoint.reverse_inverse_dynamics,
                "tree",
                motion,
                (joint_qd, joint_qdd, body_f, gravity, v.joint.X_p, v.body.mass),
                reads=dict(
                    tree=v.tree,
                    joint=v.joint,
                    body=v.body,
                    kin=motion.kin,
                    qd=joint_qd,
                    qdd=joint_qdd,
                    body_f=body_f,
                    body_A=motion.body_A,
                    body_F=motion.body_F,
                ),
                writes=dict(
                    by_joint=gradients_of(JointView, v.joint),
                    by_body=gradients_of(BodyView, v.body),
                    by_gravity=gravity.grad,
                    by_kin=gradients_of(KinematicsView, motion.kin),
                    by_qd=joint_qd.grad,
                    by_qdd=joint_qdd.grad,
                    by_body_f=body_f.grad,
                    by_dof_A=motion.dof_A.grad,
                    by_body_A=motion.body_A.grad,
                    by_body_F=motion.body_F.grad,
                    by_tau=motion.tau.grad,
                ),
            )

    def accelerations(
        self, motion: Motion, joint_qd: wp.array, joint_qdd: wp.array, known: bool = False
    ) -> None:
        """motion.body_A of `inverse_dynamics` alone, `known` as in `poses`; needs poses and velocities."""
        v, gravity = self.views, self.model.gravity_vec
        if not known:
            self.off_tape(
                rnea.accelerate_bodies,
                "tree",
                reads=dict(
                    tree=v.tree, joint=v.joint, gravity=gravity, kin=motion.kin, qd=joint_qd, qdd=joint_qdd
                ),
                writes=dict(dof_A=motion.dof_A, body_A=motion.body_A),
            )
        if self._goes_back(motion):
            from newtonsim.kernels.trees.adjoint import motion as motion_adjoint

            self._reverse_by(
                motion_adjoint.reverse_body_accelerations,
                "tree",
                motion,
                (joint_qd, joint_qdd, gravity, v.joint.X_p),
                reads=dict(tree=v.tree, joint=v.joint, kin=motion.kin, qd=joint_qd, qdd=joint_qdd),
                writes=dict(
                    by_joint=gradients_of(JointView, v.joint),
                    by_gravity=gravity.grad,
                    by_kin=gradients_of(KinematicsView, motion.kin),
                    by_qd=joint_qd.grad,
                    by_qdd=joint_qdd.grad,
                    by_dof_A=motion.dof_A.grad,
                    by_body_A=motion.body_A.grad,
                ),
            )

    def write_bodies(
        self, motion: Motion, body_q: wp.array, body_qd: wp.array, tree_mask: wp.array | None = None
    ) -> None:
        """World poses and velocities of the bodies on trees, of the masked trees only if a mask is given."""
        v = self.views
        self(
            forward_kinematics.write_body_state,
            "body",
            reads=dict(
                tree=v.tree, body=v.body, kin=motion.kin, mask=tree_mask, masked=int(tree_mask is not None)
            ),
            writes=dict(body_q=body_q, body_qd=body_qd),
        )
