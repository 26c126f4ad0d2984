"""Stages that FeatherstoneSolver runs at the start of every step: forces that depend on the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import warp as wp

from newtonsim.kernels.constraints import servos as constraints_servos
from newtonsim.kernels.trees import damping as trees_damping
from newtonsim.kernels.trees import gravity_compensation
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.solvers.featherstone.servos import find_ball_dofs
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.gravity_shares import Shares, gravity_shares
from newtonsim.solvers.step import Step


@dataclass
class StepForces:
    """Arguments of a stage in a step.

    Attributes:
        state: State at the start of the step, to be read.
        control: Inputs of the step, to be read.
        dt: Time of the solver's step [s].
        body_q: Poses at the start of the step, shape (body_count,).
        body_qd: Velocities at the start of the step, shape (body_count,).
        body_f: Wrenches of this step as in `State.body_f`, to be added to, shape (body_count,).
        joint_f: Generalised forces of this step as in `Control.joint_f`, to be added to, shape
            (joint_dof_count,).
    """

    state: State
    control: Control
    dt: float
    body_q: wp.array
    body_qd: wp.array
    body_f: wp.array
    joint_f: wp.array


@runtime_checkable
class StepStage(Protocol):
    """Object that adds forces at the start of every step of the solver.

    If a stage derives from `Revised`, the step is captured again when one of its arrays is replaced.
    """

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """Add forces to `step.body_f` and `step.joint_f` by kernels that `launch` launches.

        It is called when a step is captured: nothing may be allocated or read back.
        """


class AddedForces:
    """Forces that stages add at the start of every step.

    Attributes:
        stages: The stages, in this order.
    """

    def __init__(self, model: Model, stages: Sequence[StepStage] = ()):
        """See the class.

        Raises:
            TypeError: A stage is none.
        """
        for stage in stages:
            if not isinstance(stage, StepStage):
                raise TypeError(f"before_step: {stage!r} has no apply(launch, step)")
        self.stages = tuple(stages)
        self._joint_f = zeros(model.joint_dof_count, dtype=float, device=model.device) if stages else None

    def add(self, launch: Launcher, smooth: SmoothStage, step: Step) -> wp.array:
        """Let all stages add their forces.

        Args:
            launch: For the worlds.
            smooth: The smooth stage, which holds poses, velocities and wrenches of the step.
            step: The step.

        Returns:
            The generalised forces of the stages and of the control, shape (joint_dof_count,).
        """
        state, control = step.state_in, step.control
        if self._joint_f is None:
            return control.joint_f
        launch(
            trees_damping.copy_forces,
            "dof",
            reads=dict(source=control.joint_f),
            writes=dict(target=self._joint_f),
        )
        forces = StepForces(
            state, control, step.dt, smooth.body_q, smooth.body_qd, smooth.body_f, self._joint_f
        )
        for stage in self.stages:
            stage.apply(launch, forces)
        return self._joint_f

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`."""
        return sum(getattr(stage, "revision", 0) for stage in self.stages)


class BodyDamping(Revised):
    """Damping of bodies by the medium: force -m v d (1 + |v|) and torque -I ω d (1 + |ω|), explicit.

    Attributes:
        linear: d of the force at the centre of mass [1/s], shape (body_count,).
        angular: d of the torque [1/s], shape (body_count,).
    """

    def __init__(self, model: Model):
        self.model = model
        self.linear = zeros(model.body_count, dtype=float, device=model.device)
        self.angular = zeros(model.body_count, dtype=float, device=model.device)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        model = self.model
        launch(
            trees_damping.damp_bodies,
            "body",
            reads=dict(
                mass=model.body_mass,
                inertia=model.body_inertia,
                body_q=step.body_q,
                body_qd=step.body_qd,
                linear=self.linear,
                angular=self.angular,
            ),
            writes=dict(body_f=step.body_f),
        )


class GravityCompensation(Revised):
    """Compensates a share of the weight of bodies, as `gravcomp` of MJCF: force -s m g at a point.

    Example:
        >>> from newtonsim import FeatherstoneSolver, ModelBuilder
        >>> from newtonsim.importers import parse_mjcf
        >>> text = '''<mujoco><worldbody><body name="balloon" gravcomp="1"><freejoint/><geom size=".1"/>
        ... </body></worldbody></mujoco>'''
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> report = parse_mjcf(text, builder)
        >>> model = builder.finalize("cpu")
        >>> solver = FeatherstoneSolver(model)
        >>> solver.before_step = (GravityCompensation(model, report.gravcomp),)

    Attributes:
        share: s, 1 for a body that floats, above 1 for one that rises, shape (body_count,).
        point: Point of application in the body frame [m], shape (body_count,), vec3.

    Args:
        model: The model.
        shares: By body the share, and the point; of every world if they are equal and it names bodies of the
            first.
    """

    def __init__(self, model: Model, shares: Shares):
        self.model = model
        share, point = gravity_shares(model, shares)
        self.share = put(share, dtype=float, device=model.device)
        self.point = put(point, dtype=wp.vec3, device=model.device)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        model = self.model
        launch(
            gravity_compensation.carry_weight,
            "body",
            reads=dict(
                world=model.body_world,
                mass=model.body_mass,
                gravity=model.gravity_vec,
                body_q=step.body_q,
                body_com=model.body_com,
                share=self.share,
                point=self.point,
            ),
            writes=dict(body_f=step.body_f),
        )


class JointDamping(Revised):
    """Explicit viscous damping of joints, in addition to the implicit `Model.joint_damping`.

    It is unstable if the step is longer than 2 I / d.

    Attributes:
        damping: d [N m s/rad or N s/m], shape (joint_dof_count,).
    """

    def __init__(self, model: Model):
        self.damping = zeros(model.joint_dof_count, dtype=float, device=model.device)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        launch(
            trees_damping.damp_joints,
            "dof",
            reads=dict(damping=self.damping, qd=step.state.joint_qd),
            writes=dict(joint_f=step.joint_f),
        )


class PDForces(Revised):
    """Explicit forces kp (q_d - q) + kd (v_d - v) on degrees of freedom, within a largest force.

    Attributes:
        kp: [N m/rad or N/m], shape (joint_dof_count,).
        kd: [N m s/rad or N s/m], shape (joint_dof_count,); no force where both are 0.
        target_q: Laid out like `State.joint_q`; of ball joints a quaternion, shape (joint_coord_count,).
        target_qd: [rad/s or m/s], shape (joint_dof_count,).
        max_force: [N m or N], infinite at first, shape (joint_dof_count,).
    """

    def __init__(self, model: Model):
        dofs, device = model.joint_dof_count, model.device
        self.kp = zeros(dofs, dtype=float, device=device)
        self.kd = zeros(dofs, dtype=float, device=device)
        self.target_q = wp.clone(model.joint_q, requires_grad=False)
        self.target_qd = zeros(dofs, dtype=float, device=device)
        self.max_force = put(np.full(dofs, float("inf")), dtype=float, device=device)
        self._ball, self._component = find_ball_dofs(model)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        view = constraints_servos.ServoView()
        view.kp = self.kp
        view.kd = self.kd
        view.target_q = self.target_q
        view.target_qd = self.target_qd
        view.max_force = self.max_force
        view.ball, view.component = self._ball, self._component
        launch(
            constraints_servos.add_pd_forces,
            "dof",
            reads=dict(tree=launch.views.tree, pd=view, q=step.state.joint_q, qd=step.state.joint_qd),
            writes=dict(joint_f=step.joint_f),
        )
