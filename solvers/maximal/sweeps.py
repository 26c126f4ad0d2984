"""Rigid bodies with joints and contacts by sweeps over positions and velocities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import warp as wp

from newtonsim.collision.collide import find_contacts
from newtonsim.collision.contacts import Contacts, check_contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import ModelError
from newtonsim.kernels.maximal import contacts as maximal_contacts
from newtonsim.kernels.maximal import joints as maximal_joints
from newtonsim.kernels.maximal import motion as maximal_motion
from newtonsim.kernels.maximal import sweeps as maximal_sweeps
from newtonsim.kernels.maximal.axes import AxisView
from newtonsim.kernels.maximal.contacts import BodyContactView, BodySettings
from newtonsim.kernels.maximal.rows import SpinView
from newtonsim.kernels.maximal.sweeps import BlockView
from newtonsim.kernels.trees import inverse_kinematics
from newtonsim.runtime.copies import fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import is_floating
from newtonsim.scene.model import Model
from newtonsim.scene.revisions import Revised
from newtonsim.scene.state import State
from newtonsim.solvers.constraint_rows import loop_view
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.maximal.row_layout import body_rows_of
from newtonsim.solvers.option_ranges import check_not_negative, check_shares, check_words

_SHARES = ("linear_relaxation", "angular_relaxation", "contact_relaxation", "warm_start", "joint_warm_start")
_POSITIVE = ("push_speed", "recovery_speed", "limit_speed", "angular_damping")


@dataclass
class _Progress:
    """Where a step is while it is being launched."""

    contacts: Contacts
    dt: float = 0.0
    block: BlockView | None = None
    substep: int = 0
    sweep: int = 0


class BodySweeps(Revised):
    """A `BodySystem`: joints, constraints and contacts of rigid bodies that move in maximal coordinates.

    Positions at the end of a substep decide, as in XPBD (Müller et al. 2020); the impulses that correct them
    act as at its start (SHAKE, see `kernels.maximal.rows`), so that swinging bodies keep their energy at any
    number of sweeps that satisfies the joints. One thread per world goes over joints and contacts one after
    the other, forward and backward in turn, from a share of the impulses of the last step. After that,
    velocities alone are corrected. What removes penetrations moves bodies without leaving them speed.

    A step is `begin`, `deformables.advance`, `end`.

    Args:
        model: The bodies.
        linear_relaxation: Factor on corrections of the directions that joints hold, in all sweeps but the
            last.
        angular_relaxation: Likewise on corrections of the rotations that they hold. All rows of a joint are
            solved together; it takes the mean of its rows' factors.
        contact_relaxation: Factor on corrections of contacts.
        con_weighting: Whether the points of a pair of shapes divide the correction of the first sweep among
            them, so that none carries all; later sweeps correct each of them by what it still lacks.
        angular_damping: Rate at which angular velocities decay [1/s].
        restitution: Whether contacts bounce.

    Attributes:
        warm_start: Share of the impulses of the last step that contacts start from; 0 for none.
        joint_warm_start: Likewise for joints. With much more than half, linkages swing up where sweeps fail
            to converge.
        push_speed: Fastest removal of a penetration [m/s].
        recovery_speed: Fastest removal of errors of joints that are there at the start [m/s, rad/s].
        limit_speed: Fastest return to a violated limit [m/s, rad/s].
        velocity_sweeps: Sweeps over velocities after those over positions.
        soft_limits: Whether limits of axes have `joint_limit_ke` and `joint_limit_kd`; else they are hard, as
            FeatherstoneSolver's, and so are those with a stiffness of 0.
        friction_combine: "mean" or "product" of both shapes' friction coefficients.
        contacts: Contacts of the last step that was not given any.

    Torsional and rolling friction are those of the shapes; where both shapes have none, those of the model
    (`rigid_contact_torsional_friction`, `rigid_contact_rolling_friction`).

    Raises:
        ModelError: A joint has what bodies that move freely cannot have.
    """

    references: ClassVar[frozenset[str]] = frozenset({"_now"})
    """See `newtonsim.scene.snapshot.Snapshot`."""

    def __init__(
        self,
        model: Model,
        linear_relaxation: float = 0.7,
        angular_relaxation: float = 0.4,
        contact_relaxation: float = 0.8,
        con_weighting: bool = True,
        angular_damping: float = 0.0,
        restitution: bool = False,
    ):
        self.model = model
        self.linear_relaxation = linear_relaxation
        self.angular_relaxation = angular_relaxation
        self.contact_relaxation = contact_relaxation
        self.con_weighting = con_weighting
        self.angular_damping = angular_damping
        self.restitution = restitution
        self.warm_start = 1.0
        self.joint_warm_start = 0.5
        self.push_speed = 1.0
        self.recovery_speed = 5.0
        self.limit_speed = 5.0
        self.velocity_sweeps = 2
        self.soft_limits = False
        self.friction_combine = "mean"
        _check_joints(model)
        self.contacts = Contacts(model)
        self._floats = bool(model.joint_count and is_floating(model.joint_type.numpy()).any())
        self._rows, self._row_joint = body_rows_of(model)
        self._spin = _spin_view(model)
        self._near = zeros(model.joint_coord_count, dtype=float, device=model.device)
        self._places = _contact_view(model)
        self._now = _Progress(self.contacts)
        self._warned = False

    def check(self) -> None:
        """Raise a NewtonsimError that names an option which is out of range."""
        check_shares(self, _SHARES)
        check_not_negative(self, (*_POSITIVE, "velocity_sweeps"))
        check_words(self, {"friction_combine": ("mean", "product")})

    def begin(
        self, launch: Launcher, state: State, control: Control, contacts: Contacts | None, dt: float
    ) -> None:
        """Start a step: find contacts, unless they are given.

        Args:
            launch: For the worlds of the model.
            state: State at the start of the step.
            control: Inputs of the step.
            contacts: Contacts at the start of the step; None to find them.
            dt: Time step [s].
        """
        self.check()
        block = self._block(launch, control)
        check_contacts(self.model, self.contacts)
        self._now = _Progress(self.contacts if contacts is None else contacts, dt, block)
        if contacts is None:
            find_contacts(launch, state.body_q, state.body_qd, self.contacts, dt)
        launch(
            maximal_motion.keep_velocities,
            "body",
            reads=dict(body_qd=state.body_qd),
            writes=dict(spin=self._spin),
        )
        if self.model.joint_coord_count:
            launch(
                maximal_motion.copy_coordinates,
                "coord",
                reads=dict(q=state.joint_q),
                writes=dict(near=self._near),
            )

    def begin_substep(self, launch: Launcher, dt: float, bodies: MovingBodies) -> None:
        """See `BodySystem.begin_substep`."""
        model, spin = self.model, self._spin
        block, settings, fresh = self._now.block, self._settings(dt), int(self._now.substep == 0)
        launch(
            maximal_motion.turn_bodies,
            "body",
            reads=dict(
                inertia=model.body_inertia,
                joint=block.joint,
                enabled=block.enabled,
                linear=block.linear_compliance,
                angular=block.angular_compliance,
                dt=dt,
            ),
            writes=dict(bodies=bodies.view, spin=spin),
        )
        if self._floats:
            launch(
                maximal_joints.push_floating,
                "joint",
                reads=dict(
                    joint=block.joint,
                    force=block.axis.force,
                    damping=model.joint_damping,
                    friction=model.joint_friction,
                    dt=dt,
                    spin=spin,
                ),
                writes=dict(bodies=bodies.view),
            )
        if model.joint_count:
            launch(
                maximal_joints.place_joints,
                "joint",
                reads=dict(
                    joints=block.joints,
                    joint=block.joint,
                    enabled=block.enabled,
                    loop=block.loop,
                    linear=block.linear_compliance,
                    angular=block.angular_compliance,
                    near=self._near,
                    fresh=fresh,
                    s=settings,
                    bodies=bodies.view,
                    spin=spin,
                ),
                writes=dict(rows=block.rows),
            )
        if model.constraint_count:
            launch(
                maximal_joints.place_constraints,
                "world",
                reads=dict(
                    joints=block.joints,
                    joint=block.joint,
                    enabled=block.enabled,
                    loop=block.loop,
                    near=self._near,
                    fresh=fresh,
                    s=settings,
                    row_joint=self._row_joint,
                    bodies=bodies.view,
                    spin=spin,
                ),
                writes=dict(rows=block.rows),
            )
        contacts = self._now.contacts
        if model.shape_count:
            plan = collision_plan_of(model)
            launch(
                maximal_contacts.place_contacts,
                "contact",
                reads=dict(
                    contacts=contacts.view,
                    shape=plan.shape,
                    material=model.shape_materials,
                    mu_torsion=model.shape_mu_torsion,
                    mu_rolling=model.shape_mu_rolling,
                    gravity=model.gravity_vec,
                    fresh=fresh,
                    s=settings,
                    bodies=bodies.view,
                    spin=spin,
                ),
                writes=dict(view=self._places),
            )
        launch(
            maximal_sweeps.start_sweeps,
            "world",
            reads=dict(block=block, contacts=contacts.view, s=settings, spin=spin),
            writes=dict(view=self._places, bodies=bodies.view),
        )
        self._now.sweep = 0
        self._now.substep += 1

    def sweep(self, launch: Launcher, dt: float, bodies: MovingBodies, last: bool) -> None:
        """See `BodySystem.sweep`."""
        settings = self._settings(dt)
        if last:
            # what a joint still lacks would come back as speed in the next substep
            settings.linear_relaxation = settings.angular_relaxation = 1.0
        block, spin, number = self._now.block, self._spin, self._now.sweep
        # errors change little beyond what velocities tell, and the less the later the sweep
        if number & (number + 1) == 0:
            reads = dict(
                joints=block.joints,
                joint=block.joint,
                enabled=block.enabled,
                loop=block.loop,
                near=self._near,
                dt=dt,
                bodies=bodies.view,
                spin=spin,
            )
            if self.model.joint_count:
                launch(maximal_joints.measure_joints, "joint", reads=reads, writes=dict(rows=block.rows))
            if self.model.constraint_count:
                launch(maximal_joints.measure_constraints, "world", reads=reads, writes=dict(rows=block.rows))
        share = int(self.con_weighting and self._now.sweep == 0)
        launch(
            maximal_sweeps.sweep_worlds,
            "world",
            reads=dict(
                contacts=self._now.contacts.view, s=settings, backward=self._now.sweep % 2, share=share
            ),
            writes=dict(block=block, view=self._places, spin=spin, bodies=bodies.view),
        )
        self._now.sweep += 1

    def end_substep(self, launch: Launcher, dt: float, bodies: MovingBodies) -> None:
        """See `BodySystem.end_substep`: bodies are moved, and then velocities corrected."""
        model, spin = self.model, self._spin
        if model.joint_count:
            launch(
                maximal_joints.keep_rates,
                "joint",
                reads=dict(joint=launch.views.joint, dt=dt, bodies=bodies.view),
                writes=dict(rows=self._rows),
            )
        launch(
            maximal_motion.finish_bodies,
            "body",
            reads=dict(inertia=model.body_inertia, angular_damping=float(self.angular_damping), dt=dt),
            writes=dict(bodies=bodies.view, spin=spin),
        )
        contacts = self._now.contacts
        if model.shape_count:
            launch(
                maximal_contacts.place_contacts_again,
                "contact",
                reads=dict(contacts=contacts.view, bodies=bodies.view, spin=spin),
                writes=dict(view=self._places),
            )
        for number in range(self.velocity_sweeps):
            share = int(self.con_weighting and number == 0)
            launch(
                maximal_sweeps.relax_worlds,
                "world",
                reads=dict(contacts=contacts.view, backward=number % 2, share=share, spin=spin),
                writes=dict(block=self._now.block, view=self._places, bodies=bodies.view),
            )
        if model.shape_count:
            launch(
                maximal_contacts.keep_impulses,
                "contact",
                reads=dict(contacts=contacts.view),
                writes=dict(view=self._places),
            )
        launch(
            maximal_motion.keep_end_velocities,
            "body",
            reads=dict(dt=dt),
            writes=dict(bodies=bodies.view, spin=spin),
        )

    def end(self, launch: Launcher, bodies: MovingBodies, state: State) -> None:
        """Write poses and velocities of the bodies, and the joint coordinates that belong to them."""
        model = self.model
        launch(
            maximal_motion.write_bodies,
            "body",
            reads=dict(bodies=bodies.view),
            writes=dict(body_q=state.body_q, body_qd=state.body_qd),
        )
        if model.joint_count:
            joint = launch.views.joint
            launch(
                inverse_kinematics.read_joints,
                "joint",
                reads=dict(joint=joint, body_com=model.body_com, body_q=state.body_q, body_qd=state.body_qd),
                writes=dict(q=state.joint_q, qd=state.joint_qd),
            )
            launch(
                maximal_motion.follow_joints,
                "joint",
                reads=dict(joint=joint, near=self._near),
                writes=dict(q=state.joint_q, qd=state.joint_qd),
            )
            launch(
                maximal_joints.compare_rates,
                "joint",
                reads=dict(qd=state.joint_qd),
                writes=dict(rows=self._rows),
            )

    def report(self) -> None:
        """Warn of contacts without a place, and once of turns that were cut."""
        self.contacts.warn_of_overflow()
        limited = 0 if self._warned else int(self._spin.limited.numpy()[0])
        if limited:
            self._warned = True
            warnings.warn(
                f"{limited} times impulses would have turned a body by over a quarter turn in a substep; "
                "the angular velocity was limited: use shorter steps, more sweeps, or weaker drives",
                RuntimeWarning,
                stacklevel=4,
            )

    def reset(self, world_mask: wp.array | None = None) -> None:
        """Forget what earlier steps left of the masked worlds, bool, shape (world_count,), or of all."""
        if world_mask is None:
            for array in self._memory():
                fill(array)
            return
        self.forget(Launcher(self.model, record_tape=False), world_mask)

    def forget(self, launch: Launcher, world_mask: wp.array) -> None:
        """Forget what earlier steps left of the masked worlds of a launcher."""
        launch(
            maximal_joints.forget_rates, "world", reads=dict(mask=world_mask), writes=dict(rows=self._rows)
        )
        if self.model.shape_count:
            launch(
                maximal_contacts.forget_contacts,
                "contact",
                reads=dict(mask=world_mask, contacts=self.contacts.view),
                writes=dict(view=self._places),
            )

    def _memory(self) -> list[wp.array]:
        return [self._places.memory, self._places.spin_memory, self._rows.rate_excess, self._rows.impulse]

    def carried_arrays(self) -> list[wp.array]:
        """Arrays by which earlier steps decide on the bits of the next one, see `SolverBase`."""
        return self._memory() + self.contacts.carried_arrays()

    def _settings(self, dt: float) -> BodySettings:
        model = self.model
        s = BodySettings()
        s.dt, s.step, s.before = dt, self._now.dt, dt * self._now.substep
        s.linear_relaxation = float(self.linear_relaxation)
        s.angular_relaxation = float(self.angular_relaxation)
        s.contact_relaxation = float(self.contact_relaxation)
        s.warm_start = float(self.warm_start)
        s.joint_warm_start = float(self.joint_warm_start)
        s.push_speed = float(self.push_speed)
        s.recovery_speed = float(self.recovery_speed)
        s.limit_speed = float(self.limit_speed)
        s.angular_damping = float(self.angular_damping)
        s.torsion = float(model.rigid_contact_torsional_friction)
        s.rolling = float(model.rigid_contact_rolling_friction)
        s.restitution = int(self.restitution)
        s.product = int(self.friction_combine == "product")
        return s

    def _block(self, launch: Launcher, control: Control) -> BlockView:
        """Struct of the model's arrays, made anew in every step so that replaced ones are seen."""
        model = self.model
        block = BlockView()
        block.joints = model.joint_count
        block.joint = launch.views.joint
        block.enabled = model.joint_enabled
        block.linear_compliance = model.joint_linear_compliance
        block.angular_compliance = model.joint_angular_compliance
        block.loop = loop_view(model)
        axis = AxisView()
        axis.drive = launch.views.drive
        axis.limit_lower = model.joint_limit_lower
        axis.limit_upper = model.joint_limit_upper
        axis.limit_ke = model.joint_limit_ke
        axis.limit_kd = model.joint_limit_kd
        axis.velocity_limit = model.joint_velocity_limit
        axis.friction = model.joint_friction
        axis.act, axis.force = control.joint_act, control.joint_f
        axis.soft_limits = int(self.soft_limits)
        axis.limit_speed = float(self.limit_speed)
        block.axis = axis
        block.row_joint = self._row_joint
        block.rows = self._rows
        return block


def _spin_view(model: Model) -> SpinView:
    view, count, device = SpinView(), model.body_count, model.device
    view.limited = zeros(1, dtype=int, device=device)
    weld = np.full(count, -2)
    if model.joint_count:
        kind, child = model.joint_type.numpy(), model.joint_child.numpy()
        parent = model.joint_parent.numpy()
        holds = kind != JointType.FREE
        weld[child[holds]] = -1
        weld[parent[holds & (parent >= 0)]] = -1
        fixed = kind == JointType.FIXED
        weld[child[fixed]] = np.flatnonzero(fixed)
    view.weld = put(weld, dtype=int, device=device)
    view.com = zeros(count, dtype=wp.vec3, device=device)
    view.inv_inertia = zeros(count, dtype=wp.mat33, device=device)
    view.middle = zeros(count, dtype=wp.quat, device=device)
    view.shift = zeros(count, dtype=wp.spatial_vector, device=device)
    view.entering = zeros(count, dtype=wp.spatial_vector, device=device)
    return view


def _contact_view(model: Model) -> BodyContactView:
    count = collision_plan_of(model).contact_count if model.shape_count else 0
    view, device = BodyContactView(), model.device
    view.body0 = zeros(count, dtype=int, device=device)
    view.body1 = zeros(count, dtype=int, device=device)
    view.follows = zeros(count, dtype=int, device=device)
    view.pushes = zeros(count, dtype=int, device=device)
    view.bounces = zeros(count, dtype=int, device=device)
    view.motion_before_impact = zeros(count, dtype=wp.spatial_vector, device=device)
    view.turn0 = zeros(count, dtype=wp.mat33, device=device)
    view.turn1 = zeros(count, dtype=wp.mat33, device=device)
    view.mobility = zeros(count, dtype=wp.vec2, device=device)
    view.spin_mobility = zeros(count, dtype=wp.vec2, device=device)
    view.gap = zeros(count, dtype=float, device=device)
    view.speed = zeros(count, dtype=float, device=device)
    view.target = zeros(count, dtype=float, device=device)
    view.shift = zeros(count, dtype=float, device=device)
    view.share = zeros(count, dtype=float, device=device)
    view.arm0 = zeros(count, dtype=wp.vec3, device=device)
    view.arm1 = zeros(count, dtype=wp.vec3, device=device)
    view.friction = zeros(count, dtype=wp.vec3, device=device)
    view.impulse = zeros(count, dtype=wp.vec3, device=device)
    view.spin = zeros(count, dtype=wp.vec3, device=device)
    view.memory = zeros(count, dtype=wp.vec3, device=device)
    view.spin_memory = zeros(count, dtype=wp.vec3, device=device)
    return view


def _check_joints(model: Model) -> None:
    """Refuse what has no meaning for a body that moves freely."""
    if not model.joint_count:
        return
    floating = is_floating(model.joint_type.numpy())
    of_dof = np.repeat(floating, np.diff(model.joint_qd_start.numpy()))
    bad = np.flatnonzero(of_dof & (model.joint_armature.numpy() != 0.0))
    if len(bad):
        joint = np.searchsorted(model.joint_qd_start.numpy(), bad[0], side="right") - 1
        value = model.joint_armature.numpy()[bad[0]]
        raise ModelError(
            f"joint '{model.joint_key[joint]}': armature {value} of a free body; give it mass and inertia"
        )
