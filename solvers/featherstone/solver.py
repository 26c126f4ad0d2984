"""Reduced-coordinate solver with an implicit drive model and a unified constraint solve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.collision.collide import find_contacts
from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError
from newtonsim.kernels.constraints import energy_coordinates
from newtonsim.kernels.penalty.contact_law import FADE_DEPTH
from newtonsim.kernels.steps import reset
from newtonsim.kinematics import check_length
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.runtime.shards import Shard
from newtonsim.scene.allocation import put
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model, check_model
from newtonsim.scene.state import State
from newtonsim.solvers.absent_bodies import AbsentBodies, StartingImpulsesOfBodies
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.contact_modes import CompliantContacts, HardContacts
from newtonsim.solvers.featherstone.deformable_stage import DeformableStage, FreeParticles
from newtonsim.solvers.featherstone.options import ConstraintOptions
from newtonsim.solvers.featherstone.origin import explain
from newtonsim.solvers.featherstone.reactions import Reactions
from newtonsim.solvers.featherstone.servos import JointServos
from newtonsim.solvers.featherstone.sleep import Awake, SleepOptions, SleepStage
from newtonsim.solvers.featherstone.smooth import SmoothStage
from newtonsim.solvers.featherstone.stages import AddedForces, StepStage
from newtonsim.solvers.featherstone.step import FeatherstoneStep, StartingImpulses
from newtonsim.solvers.geometric_stiffness import LightBodies
from newtonsim.solvers.kinematic_bodies import move_kinematic_bodies
from newtonsim.solvers.launched import LaunchedSolver
from newtonsim.solvers.model_actuators import ModelActuators, warn_of_unmodelled_actuators
from newtonsim.solvers.particles.system import ParticleSystem
from newtonsim.solvers.penalty import SLIP_SPEED

if TYPE_CHECKING:
    from newtonsim.scene.snapshot import HostValues
    from newtonsim.solvers.featherstone.linear_model import LinearModel
    from newtonsim.solvers.featherstone.step_adjoint import FeatherstoneAdjoint
    from newtonsim.solvers.featherstone.switches import Switches

_ELEMENTS = {
    "spring": "springs",
    "tri": "triangles",
    "edge": "bending edges",
    "tet": "tetrahedra",
    "muscle": "muscles",
}
"""Elements between particles or bodies that the solver does not move by itself."""


class FeatherstoneSolver(LaunchedSolver):
    """Articulated bodies in reduced coordinates, with contacts, limits and friction solved together.

    A step reads `joint_q`, `joint_qd` and `body_f` of the state (and the poses of bodies without joints) and
    writes joint coordinates and body poses that agree with each other.

    Drives, springs and damping are implicit: any gain is stable with any time step. They are integrated by
    backward Euler, which damps fast oscillations: a spring of 10 rad/s loses half its energy in 2 s at 1/240
    s. Velocity-dependent forces are centred in the step, which conserves the energy of swinging bodies;
    single bodies conserve theirs at any spin.

    Constraints act at velocity level: contacts with a friction cone and restitution, limits of joints and of
    their velocities, drives at their effort limit, dry joint friction, and the model's constraints (loop
    joints, distances, couplings). They are solved from the last step's impulses, by sweeps of projected
    Gauss-Seidel and, where these are slow, by Newton's method. Contacts have torsional and rolling friction
    if a shape had a coefficient above zero when the solver was made. A finite plane touches only what is in
    front of it.

    Gradients flow through a step by the adjoint of the implicit equation: the backward pass recomputes what
    it needs from the states, so that a rollout stores only its states and the impulses that its steps found,
    or started from where they are solved again. Where constraints act, the adjoint includes their equations:
    limits, efforts and friction at their bound, loops, couplings, and contacts that press, stick, slide,
    twist or roll, with a fixed active set. Contact points and normals follow the poses with fixed contact
    features. Single bodies that rebound do so at the time of impact within the step, whose gradient is that
    of the bounce; trees of several joints rebound at the end of the step. `NotDifferentiableError` refuses
    cones other than "elliptic" with contacts, `before_step` and `deformables` when a step is recorded, and
    afterwards names worlds in which a contact acted that has no gradient, impacts with restitution were
    propagated more than four times or between contacts of different restitution, the rows that act contradict
    each other or have no room, or their solution was not found again; inside a captured graph, which cannot
    raise, the gradients of these worlds are NaN, and `check_gradient` raises.

    Args:
        model: The model to simulate.
        contact_mode: "hard" for contacts as constraints, with friction cone and restitution; "compliant" for
            smooth forces by the materials' ke, kd, kf and mu, which have gradients through contact. These
            forces are explicit: the step must stay well below √(m/ke) and m/kd of the lightest body in
            contact (for 1 kg and the default material 1e-3 s), or the motion explodes.
        sleep: Whether islands of trees that rest together fall asleep: they stand still, and cost neither
            collision tests among themselves nor constraint rows. They wake when a moving body comes near,
            when their inputs, coordinates or gravity change, or by `wake`; other changes of the model require
            that call. Not with gradients or compliant contacts.
        sleep_speed: Largest speed of the centre of mass of a body at rest [m/s].
        sleep_spin: Largest angular speed of a body at rest [rad/s].
        sleep_time: How long all bodies of an island have to be slower than that [s].
        servos: Whether joints may have `servos`. Not with gradients or sleep.
        speed_limit: Largest velocity of a degree of freedom [rad/s or m/s], including those of free bodies;
            None for no limit. Faster velocities are reduced to it, both before constraints act and at the
            end of a step.
        coriolis: Where velocity-dependent forces of trees are evaluated: in the "middle" of the step, which
            conserves the energy of swinging bodies, or at its "start", as explicit engines do, which costs
            less and adds a little energy; with "start", a robot that rotates by half a radian in a step
            becomes unstable. Not "start" with gradients.
        energy_limit: Whether linkages that turn by more than 0.3 rad in a step are kept from gaining energy
            by its length, which ends in infinite velocities, see `kernels.trees.energy_limit`. Not with
            `coriolis="start"`, `speed_limit`, deformables, or armature or damping of floating joints; None
            for True where none of them excludes it.
        deformables: Solver of particles with elements and contact, such as `XPBDSolver(model)`; see the
            property. Not with gradients or sleep. Without it, particles move freely and collide neither with
            the ground nor with bodies.
        slip_speed: Below this speed [m/s], friction of compliant contacts fades out: contacts that would
            stick creep.
        fade_depth: Below this penetration [m] damping of compliant contacts fades.
        options: Further fields of `ConstraintOptions`, such as iterations, tolerance, cone, contact_erp.

    Attributes:
        world_nonfinite: Worlds whose velocities became NaN or infinite, bool, shape (world_count,).
        contacts: Contacts of the last step that was not given any.
        constraints: The constraint stage with its iterations and residual per world.
        sleep: The sleep stage with `asleep` per tree, None without sleep.
        servos: Motors on joints, see `JointServos`; None without.
        steps_are_noted: Whether the caller of steps that are replayed calls `note_step` where `forget_step`
            was called before: then no graph has to be captured anew.
        speed_limit: Largest velocity of each degree of freedom, to be written to, shape (joint_dof_count,);
            None without.

    Not supported: muscles; `joint_limit_ke`, `joint_limit_kd` and joint compliances; `joint_enabled`.

    Sources: Featherstone, "Rigid Body Dynamics Algorithms", 2008; Stewart and Trinkle, "An implicit
    time-stepping scheme for rigid body dynamics", 1996.

    Raises:
        ModelError: The model holds elements that the solver does not move.
        NewtonsimError: An option is out of range.
    """

    options_of = ConstraintOptions
    lets_bodies_be_absent = True
    step_type = FeatherstoneStep
    differentiated_controls = ("joint_act", "joint_f", "tendon_act", "actuator_ctrl")

    def __init__(
        self,
        model: Model,
        contact_mode: str = "hard",
        sleep: bool = False,
        sleep_speed: float = 0.01,
        sleep_spin: float = 0.05,
        sleep_time: float = 0.5,
        servos: bool = False,
        speed_limit: float | None = None,
        coriolis: str = "middle",
        energy_limit: bool | None = None,
        deformables: SolverBase | ParticleSystem | None = None,
        slip_speed: float = SLIP_SPEED,
        fade_depth: float = FADE_DEPTH,
        **options: Any,
    ):
        check_model(model)
        super().__init__(model)
        warn_of_unmodelled_actuators(model, type(self).__name__)
        if contact_mode not in ("hard", "compliant"):
            raise NewtonsimError(f"contact_mode: expected 'hard' or 'compliant', got {contact_mode!r}")
        for name, value in (("slip_speed", slip_speed), ("fade_depth", fade_depth)):
            if not 0.0 < value < math.inf:
                raise NewtonsimError(f"{name}: expected a positive number, got {value}")
        _check_elements(model, deformables is not None)
        self.options = ConstraintOptions.on(model.device, **options)
        self.compliant = contact_mode == "compliant"
        if coriolis not in ("middle", "start"):
            raise NewtonsimError(f"coriolis: expected 'middle' or 'start', got {coriolis!r}")
        if coriolis == "start" and model.requires_grad:
            raise NewtonsimError("coriolis: 'start' is only for models without gradients")
        apart = coriolis == "start" or speed_limit is not None or deformables is not None
        if energy_limit and apart:
            raise NewtonsimError("energy_limit: not with coriolis='start', speed_limit or deformables")
        self.smooth = SmoothStage(model, coriolis == "start", False if apart else energy_limit)
        self.servos = self._make_servos(servos, sleep)
        self.constraints = ConstraintStage(model, self.options, self.servos, not self.smooth.from_start)
        self.speed_limit = self._make_speed_limit(speed_limit)
        self._added = AddedForces(model)
        self.actuators = ModelActuators(model, self.constraints.tendons) if model.actuator_count else None
        self._stage_changes = 0
        self._light_bodies: LightBodies | None = None
        self.steps_are_noted = False
        self.reactions = Reactions(model, self.smooth, self.constraints)
        self.contacts = Contacts(model)
        compliant = CompliantContacts(model, slip_speed, fade_depth) if self.compliant else None
        self._contact_mode = compliant or HardContacts()
        self.end_motion = Motion(model, forces=False)
        self.sleep = self._sleep_stage(sleep, SleepOptions(sleep_speed, sleep_spin, sleep_time))
        self._rest = self.sleep or Awake()
        self._absent: AbsentBodies | None = None
        self.world_nonfinite = self.constraints.nonfinite.worlds
        self.default_control = model.control(clone_variables=False)
        self.adjoint = self._make_adjoint()
        self._impulses_of_bodies: StartingImpulsesOfBodies | None = None
        # a list, since graphs are captured again when an attribute is replaced
        self._shared_starts: list[StartingImpulses] = []
        self._chosen_worlds: list[Shard] = []
        self._particles: DeformableStage | FreeParticles = FreeParticles()
        self._alarms = self._find_alarms()
        if deformables is not None:
            self.deformables = deformables

    def _prepare(self, model: Model) -> Control:
        self.check_model(model)
        if model.bodies_may_be_absent and self.deformables is not None:
            raise ModelError("FeatherstoneSolver: bodies that particles meet cannot be absent")
        return self.default_control

    def _advance(self, shard: Shard, step: FeatherstoneStep) -> None:
        launch = Launcher(self.model, record_tape=False, shard=shard.with_starts(self.constraints.starts))
        self._particles.begin(shard, step)
        if self.model.body_count:
            self._step_bodies(launch, step)
        else:
            self._particles.apply(launch, step, step.control.joint_f)

    @property
    def kernel_kind(self) -> tuple:
        """The same for solvers that launch mostly the same kernels, see `compilation.load_once`."""
        model = self.model
        families = frozenset(collision_plan_of(model).families) if model.shape_count else frozenset()
        parts = (self.servos is None, self.sleep is None, self.compliant, self.smooth.from_start)
        parts += (model.bodies_may_be_absent, self.constraints.stiffness is None)
        parts += (type(self.smooth.factors),)
        deformables = None if self.deformables is None else type(self.deformables.system)
        return type(self), families, parts, model.particle_count > 0, self.constraints.has_loops, deformables

    def _step_bodies(self, launch: Launcher, step: FeatherstoneStep) -> None:
        """Step everything except particles that move freely: the solver's algorithm."""
        state, out, control, dt = step.state_in, step.state_out, step.control, step.dt
        smooth, constraints, rest = self.smooth, self.constraints, self._rest
        contacts = self.contacts if step.contacts is None else step.contacts
        # place, and smooth dynamics of trees on which no other forces act
        others = [self.compliant, self.before_step, self.deformables]
        alone = not any([*others, constraints.tendons, constraints.stiffness, self.actuators])
        if alone:
            smooth.begin(launch, state, control, dt)
        else:
            smooth.place(launch, state)
            constraints.stiffen(launch, smooth, dt)
        launch = rest.begin(launch, state, control, contacts)
        absent = self._absent_bodies()
        launch = absent.begin(launch, state) if absent else launch
        # find contacts
        if step.contacts is None:
            find_contacts(launch, smooth.body_q, smooth.body_qd, contacts, dt, rest.look_ahead * dt)
        # smooth dynamics
        joint_f = control.joint_f
        if not alone:
            joint_f = self._add_forces(launch, step, contacts)
            smooth.factorize(launch, state, control, dt)
            smooth.predict(launch, state, control, joint_f, dt)
        constraints.predict(launch, smooth, state, dt)
        smooth.finish(launch, state, control, joint_f, dt)
        rest.hold(launch, smooth.v_free)
        if absent:
            absent.hold(launch, smooth.v_free, smooth.implicit, self.servos and self.servos.applied)
        self._limit_speeds(launch, smooth.v_free, smooth.v_free)
        # constraints
        constrained = self._contact_mode.constrained(contacts)
        constraints.build(launch, smooth, state.joint_q, state.joint_qd, control, constrained, dt)
        step.keep_starts(launch, constraints)
        constraints.find_impulses(launch, constrained, dt)
        step.keep_outcome(launch, constraints, constrained)
        # integrate
        self._advance_trees(launch, constrained, step)
        constraints.remember_pulls(launch, smooth, state.joint_qd, dt)
        velocities = absent.moving if absent else state.body_qd
        move_kinematic_bodies(launch, state.body_q, velocities, dt, out.body_q, out.body_qd)
        rest.end(launch, out, contacts, dt)

    def _absent_bodies(self) -> AbsentBodies | None:
        """The stage that excludes absent bodies, made in the first step in which there may be any."""
        if self.model.bodies_may_be_absent and self._absent is None:
            self._absent = AbsentBodies(self.model, self.constraints.rows.dof, self.constraints.rows.pair)
        return self._absent if self.model.bodies_may_be_absent else None

    def _add_forces(self, launch: Launcher, step: FeatherstoneStep, contacts: Contacts) -> wp.array:
        """Add compliant contacts, stages and particles to the forces; return the generalised ones."""
        smooth = self.smooth
        smooth.begin_forces(launch, step.state_in)
        self.constraints.slow(launch, smooth, step.dt)
        self._contact_mode.push(launch, contacts, smooth.body_q, smooth.body_qd, smooth.body_f)
        joint_f = self._added.add(launch, smooth, step)
        tendons = self.constraints.tendons
        if tendons is not None:
            state = step.state_in
            moves = (smooth.body_q, state.joint_q, state.joint_qd, smooth.moving)
            tendons.measure(launch, smooth.motion.kin, *moves)
        if self.actuators is not None:
            joint_f = self._actuate(launch, self.actuators, step, contacts, joint_f)
        if tendons is not None:
            joint_f = tendons.pull(launch, step.control, joint_f)
            self.constraints.weigh_tendons(launch, step.control, step.dt)
        self._particles.apply(launch, step, joint_f)
        return joint_f

    def _actuate(
        self,
        launch: Launcher,
        actuators: ModelActuators,
        step: FeatherstoneStep,
        contacts: Contacts,
        joint_f: wp.array,
    ) -> wp.array:
        """Add the forces of actuators of the model; return the generalised ones with those given."""
        smooth, state = self.smooth, step.state_in
        actuators.measure(launch, state, smooth.body_q, smooth.body_qd)
        inputs = (step.control.actuator_ctrl, state.actuator_act)
        actuators.actuate(launch, *inputs, step.dt, step.state_out.actuator_act)
        actuators.press(launch, contacts, smooth.body_q, smooth.body_f)
        return actuators.push(launch, joint_f, smooth.body_f)

    def _advance_trees(self, launch: Launcher, contacts: Contacts, step: FeatherstoneStep) -> None:
        """Velocities, coordinates and bodies at the end of the step."""
        smooth, constraints, out, dt = self.smooth, self.constraints, step.state_out, step.dt
        if self.speed_limit is None and self.deformables is None:
            constraints.advance(launch, smooth, contacts, step, self.end_motion)  # pyright: ignore[reportArgumentType]
            return
        constraints.accept(launch, smooth, out.joint_qd)
        constraints.remember(launch, contacts, dt)
        self._particles.remember(launch, out.joint_qd, dt)
        self._limit_speeds(launch, out.joint_qd, constraints.moving_qd)
        smooth.integrate(launch, step.state_in.joint_q, constraints.moving_qd, dt, out.joint_q)
        launch.place(self.end_motion, out.joint_q, out.joint_qd, out.body_q, out.body_qd)  # pyright: ignore[reportArgumentType]

    def _limit_speeds(self, launch: Launcher, joint_qd: wp.array, moving_qd: wp.array) -> None:
        """Reduce velocities to `speed_limit`, if there is one."""
        if self.speed_limit is not None:
            launch(
                energy_coordinates.clamp_velocities,
                "dof",
                reads=dict(limit=self.speed_limit),
                writes=dict(qd=joint_qd, moving_qd=moving_qd),
            )

    def _make_adjoint(self) -> FeatherstoneAdjoint | None:
        if not self.model.requires_grad:
            return None
        # here, because its kernels take as long to import as those of the step, and few models need them
        from newtonsim.solvers.featherstone.step_adjoint import FeatherstoneAdjoint

        return FeatherstoneAdjoint(self.model, self.options, self._contact_mode)

    def _make_servos(self, enabled: bool, sleep: bool) -> JointServos | None:
        if not enabled:
            return None
        if self.model.requires_grad or sleep:
            raise NewtonsimError("servos: only for models without gradients, and not with sleep")
        return JointServos(self.model)

    def _make_speed_limit(self, speed: float | None) -> wp.array | None:
        if speed is None:
            return None
        if self.model.requires_grad:
            raise NewtonsimError("speed_limit: only for models without gradients")
        if not speed > 0.0:
            raise NewtonsimError(f"speed_limit: expected a positive number or None, got {speed}")
        return put(np.full(self.model.joint_dof_count, speed), dtype=float, device=self.model.device)

    @property
    def before_step(self) -> tuple[StepStage, ...]:
        """Stages that add forces at the start of every step, in this order; assign another sequence."""
        return self._added.stages

    @before_step.setter
    def before_step(self, stages: Sequence[StepStage]) -> None:
        added = AddedForces(self.model, stages)
        self._stage_changes += 1 + self._added.baked_revision()
        self._added = added
        self.smooth.resist(self.model, added.resists)

    @property
    def deformables(self) -> DeformableStage | None:
        """Solver of particles with elements and contact; None for neither.

        Assign a solver of deformables that has `particles`, or a `ParticleSystem`. Its particles are those of
        this solver's model; or those of another one with the same worlds, whose state is then
        `deformables.state`.
        """
        return self._particles if isinstance(self._particles, DeformableStage) else None

    @deformables.setter
    def deformables(self, source: SolverBase | ParticleSystem | None) -> None:
        if source is None:
            _check_elements(self.model, False)
        elif self.sleep is not None:
            raise NewtonsimError("deformables: not with sleep")
        self._stage_changes += 1 + self._particles.baked_revision()
        parts = (self.model, self.smooth, self.constraints)
        self._particles = FreeParticles() if source is None else DeformableStage(source, *parts)
        self._alarms = self._find_alarms()

    def _find_alarms(self) -> list[memoryview]:
        """What is not 0 where `report` has something to tell; nothing if it has to ask other parts."""
        stage = self.constraints
        alarms = (self.contacts.alarm, stage.nonfinite.alarm, stage.unsolved.alarm)
        if isinstance(self._particles, DeformableStage):
            return []
        return [alarm for alarm in alarms if alarm is not None]

    def _sleep_stage(self, enabled: bool, options: SleepOptions) -> SleepStage | None:
        if not enabled:
            return None
        if self.model.requires_grad or self.compliant:
            raise NewtonsimError("sleep: only for models without gradients and hard contacts")
        if self.model.tendon_count:
            raise NewtonsimError("sleep: not with tendons")
        if self.model.actuator_count:
            raise NewtonsimError("sleep: not with actuators of the model")
        return SleepStage(self.model, options) if self.model.joint_count else None

    def report(self) -> None:
        """Warn of contacts without room, of constraints left unsolved and of non-finite worlds, once each.

        See `SolverBase.report`.
        """
        alarms = self._alarms
        # called after every step; for a single robot, the calls below would take a tenth of its time
        if alarms and not (alarms[0][0] or alarms[1][0] or alarms[2][0]):
            return
        self._particles.report()
        self.contacts.warn_of_overflow()
        self.constraints.unsolved.report(self.contacts)
        self.constraints.nonfinite.report(lambda origin: explain(origin, self.smooth, self.constraints))

    def baked_revision(self) -> int:
        """See `SolverBase.baked_revision`; the options count, too."""
        revision = self.revision + self.options.revision + self._stage_changes
        revision += self._particles.baked_revision() + self._added.baked_revision()
        revision += 0 if self.servos is None else self.servos.revision
        return revision if self.sleep is None else revision + self.sleep.options.revision

    def wake(self, world_mask: wp.array | None = None) -> None:
        """Wake sleeping islands, which is required after changes of the model that move bodies at rest.

        Args:
            world_mask: Worlds to wake, bool, shape (world_count,); None for all.

        Raises:
            ModelError: The mask has another shape or type.
        """
        if world_mask is not None:
            check_length("world_mask", world_mask, self.model.world_count, wp.bool)
        self._rest.wake(Launcher(self.model, record_tape=False), world_mask)

    def push_at_own_anchors(self) -> None:
        """Let loop joints act as those of Bullet; called before the first step.

        What holds anchors together then pushes each body at its own, along the axes of the world, or along
        those of the parent's frame if the joint slides; what holds the rotation turns about the axes of the
        parent's frame, by Euler angles. Otherwise both bodies are pushed where the child is held, along axes
        of the parent, and turned by the rotation vector, so that momentum is conserved whatever the error.
        """
        self.constraints.push_at_own_anchors()
        if self.adjoint is not None:
            self.adjoint.constraints.push_at_own_anchors()

    def contact_forces(self, out: wp.array | None = None) -> wp.array:
        """Return the force at every contact place, averaged over the last step.

        Args:
            out: Receives the result, vec3, shape (rigid_contact_max,); None for a new array.

        Returns:
            Force [N] on shape 0 in world axes, normal and friction together, zero where no contact is; the
            order is that of the contacts of the last step (`contacts` if the step was not given any). It acts
            in the middle between both surfaces.

        Raises:
            RuntimeError: No step was made, or contacts are compliant.
        """
        self._check_rigid("contact_forces")
        return self.reactions.contact_forces(out, torques=False)

    def contact_torques(self, out: wp.array | None = None) -> wp.array:
        """Return torsional and rolling friction at every contact place, as `contact_forces` does [N m]."""
        self._check_rigid("contact_torques")
        return self.reactions.contact_forces(out, torques=True)

    def constraint_forces(self, out: wp.array | None = None) -> wp.array:
        """Return the wrench of every constraint of the model, averaged over the last step.

        Args:
            out: Receives the result, spatial_vector, shape (constraint_count,); None for a new array.

        Returns:
            (τ, f) on the child about its anchor, world axes [N m, N]; the opposite acts on the parent at the
            same point, with solref at its own anchor. For a coupling the first component is the effort on its
            first axis [N m or N].

        Raises:
            RuntimeError: No step was made.
        """
        return self.reactions.constraint_forces(out)

    def external_wrenches(self, shard: Shard, dt: float, out: wp.array, constraints: bool = True) -> None:
        """Write the wrench of all contacts and constraints on every body of some worlds, by launches alone.

        It may be part of the capture of a step, after the step.

        Args:
            shard: The worlds.
            dt: Duration of the step that was made last [s], with the contacts that the solver found itself.
            out: Receives (τ, f) at the centre of mass, world axes [N m, N], mean of that step, (body_count,).
            constraints: Whether constraints count, or contacts alone.

        Raises:
            RuntimeError: Contacts are compliant.
        """
        self._check_rigid("external_wrenches")
        launch = Launcher(self.model, record_tape=False, shard=shard)
        launch(reset.clear_wrenches, "body", writes=dict(wrenches=out))
        self.reactions.add_external(launch, self.contacts, 1.0 / dt, out, constraints)

    def pair_forces(self, shard: Shard, dt: float, side: wp.array, out: wp.array) -> None:
        """Write the forces of contacts between sets of shapes in some worlds, by launches alone.

        It may be part of the capture of a step, after the step.

        Args:
            shard: The worlds.
            dt: Duration of the step that was made last [s], with the contacts that the solver found itself.
            side: For each of P pairs of sets and each shape 1 if it is in the first set, 2 if it is in the
                second one, 3 if it is in both, uint8, (P, shape_count).
            out: Receives 13 numbers for each pair, (world_count, 13 P): force along normals on shapes of the
                first set (3) [N], friction on them (3) [N], mean of the points where contacts push (3) [m]
                and mean of their normals (3), both by size of the force, in world axes, and the number of
                contacts that push; mean of that step, zero where nothing pushes.

        Raises:
            RuntimeError: Contacts are compliant.
        """
        self._check_rigid("pair_forces")
        starts = {"contact pair": range(0, self.model.world_count * len(side) + 1, len(side))}
        launch = Launcher(self.model, record_tape=False, shard=shard.with_starts(starts))
        self.reactions.sum_pairs(launch, self.contacts, 1.0 / dt, side, out)

    def joint_reactions(self, state: State, out: wp.array | None = None) -> wp.array:
        """Return the wrench that every joint transmits, averaged over the last step.

        Args:
            state: The state that the last step wrote, unchanged since.
            out: Receives the result, spatial_vector, shape (joint_count,); None for a new array. Pass one
                inside a captured graph, and call once before.

        Returns:
            (τ, f) that the parent exerts on the child, about the origin of the child's joint frame at the
            start of the step, world axes [N m, N]: drives, limits, friction, springs and damping of the joint
            included. Zero for free joints.

        Raises:
            ModelError: The state is one of another model.
            RuntimeError: No step was made.
        """
        self.model.check_state(state)
        return self.reactions.joint_reactions(state, out)

    def _check_rigid(self, name: str) -> None:
        if self.compliant:
            raise RuntimeError(f"{name}: compliant contacts are no constraints; the solver keeps no forces")

    def reset(self, state: State | None = None, world_mask: wp.array | None = None) -> None:
        """Clear warm starts, sleep and non-finite marks of the masked worlds, or of all.

        See `SolverBase.reset`.
        """
        self.check_reset(state, world_mask)
        self._forget(Shard(self.model), world_mask)
        if self.adjoint is not None:
            self.adjoint.error.clear()
            self.adjoint.switches.clear()
        self._particles.reset(state, world_mask)
        self.constraints.nonfinite.report_anew()

    def reset_worlds(self, shard: Shard, state: State, world_mask: wp.array) -> None:
        """See `SolverBase.reset_worlds`; worlds that become non-finite again are not reported again."""
        self._particles.reset_worlds(shard, state, world_mask)
        self._forget(shard, world_mask)

    def forget_bodies(self, bodies: np.ndarray) -> None:
        """See `SolverBase.forget_bodies`: impulses that contacts, dofs and constraints start from."""
        if self._impulses_of_bodies is None:
            self._impulses_of_bodies = StartingImpulsesOfBodies(self.model, self.constraints.rows)
        self._impulses_of_bodies.forget(self.contacts, bodies)
        if self.constraints.stiffness is not None:
            self.constraints.stiffness.forget_bodies(bodies)

    def loads_changed(self) -> None:
        """Find anew which bodies are too light for what they bear, after masses or constraints have changed.

        A solver finds them when it is made; docs/contact.md says what it does with them.
        """
        if self._light_bodies is None:
            self._light_bodies = LightBodies(self.model)
        self.stiffen_bodies(self._light_bodies.find())

    def stiffen_bodies(self, light: np.ndarray) -> None:
        """Have steps calm these bodies (body_count,), as `loads_changed` does with those that it finds."""
        if self.constraints.stiffen_bodies(light):
            self._stage_changes += 1

    def _forget(self, shard: Shard, world_mask: wp.array | None) -> None:
        """Drop warm starts, sleep and non-finite marks."""
        launch = Launcher(self.model, record_tape=False, shard=shard.with_starts(self.constraints.starts))
        self.constraints.forget(launch, world_mask)
        self._rest.wake(launch, world_mask)

    def _record(self, tape: wp.Tape, model: Model, step: FeatherstoneStep) -> None:
        """Put the step's adjoint on the tape, which reads what the step is going to put into `starts`."""
        step.check_not_in_place()
        if self.before_step:
            raise NotDifferentiableError("stages of before_step have no gradient")
        if self.deformables is not None:
            raise NotDifferentiableError("FeatherstoneSolver has no gradient with deformables")
        if self.actuators is not None and self.actuators.presses:
            raise NotDifferentiableError("actuators on the contacts of a body have no gradient")
        if model.bodies_may_be_absent:
            raise NotDifferentiableError("FeatherstoneSolver has no gradient with bodies that may be absent")
        cone = self.options.cone
        if cone != "elliptic" and collision_plan_of(model).contact_count and not self.compliant:
            raise NotDifferentiableError(
                f'FeatherstoneSolver has no gradient with cone="{cone}"; use cone="elliptic"'
            )
        step.check_gradients(has_adjoint=self.adjoint is not None)
        step.repeated = step.starts is not None
        step.starts = step.starts or StartingImpulses(self.constraints)
        self.adjoint.record(tape, step)  # pyright: ignore[reportOptionalMemberAccess]

    def make_step_memory(self) -> StartingImpulses:
        """Impulses that the sweeps of a step start from; see `SolverBase.make_step_memory`."""
        return StartingImpulses(self.constraints)

    def _use_memory(self, step: FeatherstoneStep) -> None:
        step.starts = self._shared_starts[0] if self._shared_starts else None
        step.worlds = self._chosen_worlds[0] if self._chosen_worlds else None

    def use_step_memory(self, memory: StartingImpulses | None) -> None:
        """See `SolverBase.use_step_memory`."""
        self._shared_starts[:] = [] if memory is None else [memory]

    def use_worlds(self, worlds: Shard | None) -> None:
        """See `SolverBase.use_worlds`."""
        self._chosen_worlds[:] = [] if worlds is None else [worlds]

    def adjoints(self) -> tuple[object, ...]:
        """See `SolverBase.adjoints`."""
        return () if self.adjoint is None else (self.adjoint,)

    def workspaces(self) -> tuple[object, ...]:
        """See `SolverBase.workspaces`."""
        absent = () if self._absent is None else (self._absent,)
        return (*self.adjoints(), self.reactions, *absent)

    def host_memory(self) -> HostValues:
        """What `contact_forces` and their like read of the last step, see `HostMemory`."""
        stage = self.constraints
        return {"last_dt": stage.last_dt, "found_contacts": stage.last_contacts is self._own_contacts}

    def recall(self, memory: HostValues) -> None:
        """See `HostMemory`."""
        self.constraints.last_dt = memory["last_dt"]
        if memory["found_contacts"]:
            self.constraints.last_contacts = self._own_contacts
        else:
            self.forget_step()

    def forget_step(self) -> None:
        """Reset `contact_forces` and the like to their state before the first step.

        A step is noted where it is captured, so the next one is captured again, unless `steps_are_noted`.
        """
        self.constraints.last_contacts = None
        if not self.steps_are_noted:
            self._stage_changes += 1

    def note_step(self, dt: float) -> None:
        """Let `contact_forces` and the like tell of a step [s] that was replayed; see `steps_are_noted`."""
        self.constraints.last_contacts, self.constraints.last_dt = self._own_contacts, dt

    @property
    def _own_contacts(self) -> Contacts:
        """What constraints are built from in steps that are not given contacts."""
        return self._contact_mode.constrained(self.contacts)

    def make_linear_model(self, inputs: str) -> LinearModel | None:
        """Linear models of steps in closed form; see `SolverBase.make_linear_model`."""
        if not self._has_closed_form():
            return None
        # here, because it is rarely needed
        from newtonsim.solvers.featherstone.linear_model import LinearModel

        parts = (self.model, self.smooth, self.constraints, self.contacts)
        return LinearModel(*parts, self._advance, inputs)

    def _has_closed_form(self) -> bool:
        """Whether steps have linear models in closed form, as far as this is known before them.

        They do not with loops and couplings, compliant contacts, other cones than the elliptic one, limits
        and contacts by reference, tendons, or anything without a gradient.
        """
        if self.constraints.has_loops:
            return False
        if self.compliant or self.before_step or self.deformables or self.smooth.from_start:
            return False
        if self.constraints.parameters.any or self.constraints.tendons or self.actuators:
            return False
        if self.servos or self.sleep or self.speed_limit or self.model.bodies_may_be_absent:
            return False
        return self.options.cone == "elliptic" or not collision_plan_of(self.model).contact_count

    def carried_arrays(self) -> list[wp.array] | None:
        """Impulses, and what identifies the contacts that they belong to; see `SolverBase.carried_arrays`."""
        if not (self.sleep is self.servos is self.deformables is None and not self.before_step):
            return None
        return self.constraints.carried_arrays() + self.contacts.carried_arrays()

    def check_gradient(self) -> None:
        """Raise if backward passes found terms without a gradient; see `SolverBase.check_gradient`."""
        if self.adjoint is not None:
            self.adjoint.check()

    def options_without_gradient(self) -> tuple[str, ...]:
        """See `SolverBase.options_without_gradient`."""
        given = {
            "coriolis='start'": self.smooth.from_start,
            "speed_limit": self.speed_limit is not None,
            "servos=True": self.servos is not None,
            "sleep=True": self.sleep is not None,
        }
        return tuple(option for option, there in given.items() if there)

    def near_switches(self) -> Switches | None:
        """See `SolverBase.near_switches`."""
        return None if self.adjoint is None else self.adjoint.switches


def _check_elements(model: Model, with_deformables: bool) -> None:
    """Raise if the model has elements that nothing moves."""
    for name, what in _ELEMENTS.items():
        count = getattr(model, f"{name}_count")
        if count and (name == "muscle" or not with_deformables):
            how = "use SemiImplicitSolver"
            if name != "muscle":
                how = "pass deformables=XPBDSolver(model) or VBDSolver(model), which move them"
            raise ModelError(f"FeatherstoneSolver: the model has {count} {what}; {how}")
