"""Stages that FeatherstoneSolver runs at the start of every step: forces that depend on the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.constraints import servos as constraints_servos
from newtonsim.kernels.trees import damping as trees_damping
from newtonsim.kernels.trees import gravity_compensation, medium
from newtonsim.kernels.trees.articulated_factors import ResistanceView
from newtonsim.kernels.views.pair_rows import LoopView, PairRowView
from newtonsim.runtime.inertia_factors import ResistedInertia
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import MEDIUM, Model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.solvers.featherstone.servos import find_ball_dofs
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.gravity_shares import Shares, gravity_shares
from newtonsim.solvers.medium_boxes import medium_boxes
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
        resistance: Time step times the negative slopes of these wrenches by the velocities of the bodies, to
            be added to; None if no stage `resists`.
    """

    state: State
    control: Control
    dt: float
    body_q: wp.array
    body_qd: wp.array
    body_f: wp.array
    joint_f: wp.array
    resistance: ResistanceView | None = None


class PairChange(Protocol):
    """Object that changes rows between bodies or dofs in every step, see `ConstraintStage.changed_pairs`."""

    def change(self, launch: Launcher, loops: LoopView, q: wp.array, qd: wp.array, rows: PairRowView) -> None:
        """Change rows that were built, by kernels that `launch` launches.

        Args:
            launch: Launcher of the model.
            loops: Constraints of the model.
            q: Coordinates at the start of the step.
            qd: Velocities before constraints: of the prediction, and then of the step.
            rows: The rows.
        """


@runtime_checkable
class StepStage(Protocol):
    """Object that adds forces at the start of every step of the solver.

    If a stage derives from `Revised`, the step is captured again when one of its arrays is replaced. One
    whose attribute `resists` is True adds the slopes of its forces to `step.resistance`, so that these act as
    they are at the end of the step, linearised.
    """

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """Add forces to `step.body_f` and `step.joint_f` by kernels that `launch` launches.

        It is called when a step is captured: nothing may be allocated or read back.
        """


class AddedForces:
    """Forces that stages add at the start of every step.

    Attributes:
        stages: The stages, in this order.
        resists: Whether one of them adds slopes of forces.
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
        self.resists = any(getattr(stage, "resists", False) for stage in self.stages)
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
        if isinstance(smooth.factors, ResistedInertia):
            forces.resistance = smooth.factors.resistance
            launch(medium.begin_resistance, "body", writes=dict(resistance=forces.resistance))
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


class Medium(Revised):
    """A fluid that resists the motion of bodies: `density`, `viscosity` and `wind` of an MJCF file.

    It acts on a body as on the solid box with its mass and inertia. Along each axis of the box drag is
    quadratic, -2 ρ b_j b_k |v_i| v_i and -½ ρ b_i (b_j⁴ + b_k⁴) |ω_i| ω_i, with half extents b and velocities
    v, ω of the centre of mass relative to the wind; viscous resistance is that of a sphere whose radius r is
    their mean, -6 π μ r v and -8 π μ r³ ω (Todorov, Erez and Tassa, "MuJoCo: a physics engine for model-based
    control", IROS 2012, and the chapter on fluid forces of MuJoCo's documentation). There is neither buoyancy
    nor added mass. Forces act as they are at the end of a step, linearised about its start, as with MuJoCo's
    implicit integrators: they slow bodies down at any time step. `joint_reactions` has those at the start.

    Example:
        >>> from newtonsim import FeatherstoneSolver, ModelBuilder
        >>> from newtonsim.solvers import Medium
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> _ = builder.add_shape_box(builder.add_body(), hx=0.1, hy=0.2, hz=0.02)
        >>> model = builder.finalize("cpu")
        >>> solver = FeatherstoneSolver(model)
        >>> solver.before_step = (Medium(model, density=1000.0),)

    Attributes:
        density: ρ by world [kg/m³], shape (world_count,).
        viscosity: μ by world [Pa s], shape (world_count,).
        wind: Velocity of the fluid by world [m/s], shape (world_count,), vec3.
        half_extents: b by body [m], shape (body_count,), vec3.
        axes: Orientations of the boxes in the body frames, shape (body_count,), quat.

    Args:
        model: The model.
        density: ρ [kg/m³], that of the model's file by default, which is in `Model.solver_hint`, or else 0.
        viscosity: μ [Pa s], likewise.
        wind: Velocity of the fluid (3,) [m/s], likewise.

    Raises:
        ModelError: A value is negative or not finite.
    """

    resists = True

    def __init__(
        self,
        model: Model,
        density: float | None = None,
        viscosity: float | None = None,
        wind: Sequence[float] | None = None,
    ):
        self.model = model
        asked = dict(zip(MEDIUM, (density, viscosity, wind), strict=True))
        hints = {"density": 0.0, "viscosity": 0.0, "wind": (0.0, 0.0, 0.0)} | model.solver_hint
        values = {name: hints[name] if value is None else value for name, value in asked.items()}
        _check_medium(values)
        worlds, device = model.world_count, model.device
        self.density = put(np.full(worlds, values["density"]), dtype=float, device=device)
        self.viscosity = put(np.full(worlds, values["viscosity"]), dtype=float, device=device)
        self.wind = put(np.tile(values["wind"], (worlds, 1)), dtype=wp.vec3, device=device)
        half_extents, axes = medium_boxes(model)
        self.half_extents = put(half_extents, dtype=wp.vec3, device=device)
        self.axes = put(axes, dtype=wp.quat, device=device)

    def apply(self, launch: Launcher, step: StepForces) -> None:
        """See `StepStage.apply`."""
        launch(
            medium.resist_motion,
            "body",
            reads=dict(
                dt=step.dt,
                world=self.model.body_world,
                mass=self.model.body_mass,
                body_q=step.body_q,
                body_qd=step.body_qd,
                half_extents=self.half_extents,
                axes=self.axes,
                density=self.density,
                viscosity=self.viscosity,
                wind=self.wind,
            ),
            writes=dict(body_f=step.body_f, resistance=step.resistance),
        )


def _check_medium(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        shape = (3,) if name == "wind" else ()
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.full(shape, np.nan)
        if numbers.shape != shape or not np.isfinite(numbers).all():
            raise ModelError(f"{name}: {value!r} should be {'three numbers' if shape else 'a number'}")
        if not shape and numbers < 0.0:
            raise ModelError(f"{name}: {value!r} is negative")


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
