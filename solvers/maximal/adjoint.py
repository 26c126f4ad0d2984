"""Backward pass of a step of rigid bodies by sweeps over positions and velocities."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TypedDict

import numpy as np
import warp as wp

from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels.algebra.block_lu import BlockSkylineView
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.maximal.adjoint import contact_terms as contact_terms_adjoint
from newtonsim.kernels.maximal.adjoint import modes as modes_adjoint
from newtonsim.kernels.maximal.adjoint import row_terms as row_terms_adjoint
from newtonsim.kernels.maximal.adjoint import substep
from newtonsim.kernels.maximal.adjoint import system as system_adjoint
from newtonsim.kernels.maximal.adjoint.contact_terms import ContactStageView
from newtonsim.kernels.maximal.adjoint.row_terms import RowGradientView
from newtonsim.kernels.maximal.adjoint.system import BodySystemView
from newtonsim.kernels.maximal.contacts import BodyContactView
from newtonsim.kernels.maximal.moving_bodies import MotionView
from newtonsim.kernels.maximal.rows import RowView, SpinView
from newtonsim.kernels.maximal.sweeps import BlockView
from newtonsim.runtime.compilation import load_once
from newtonsim.runtime.copies import copy, fill
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.runtime.tapes import Tape
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.arrays import MODEL_ARRAYS
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.gradient_reports import Shortfall, refuse_worlds
from newtonsim.solvers.maximal.contact_adjoint import BodyContactTerms
from newtonsim.solvers.maximal.moving_bodies import MovingBodies
from newtonsim.solvers.maximal.sweeps import BodySweeps
from newtonsim.solvers.step import CONVERGENCE_TOLERANCE, Step

_MOST_BLOCKS = 1 << 14
_REASONS = {
    int(system_adjoint.REASON_ROOM): "its bodies couple too many others for the adjoint system",
    int(system_adjoint.REASON_TURN): "a body with joints turned by more than 0.7 rad in a substep",
    int(system_adjoint.REASON_FEATURES): "a contact between features that no rule covers acted",
    int(system_adjoint.REASON_KICK): "impulses changed a body's turn in a substep by more than 0.2 rad",
    int(system_adjoint.REASON_SINGULAR): "the adjoint system of its bodies is singular",
}


class PositionSystem(TypedDict):
    """What the adjoint of the sweeps over positions solves, see `kernels.maximal.adjoint.system`."""

    sky: BlockSkylineView
    block: BlockView
    rows: RowGradientView
    contacts: ContactView
    places: BodyContactView
    stage: ContactStageView
    system: BodySystemView


class NoParticles:
    """What a substep of bodies has to do with particles that the same sweeps move, where there are none.

    `solvers.particles.adjoint_bodies.ParticlesAmongBodies` is the other one.
    """

    def check(self) -> None:
        """Raise NotDifferentiableError if they have no gradients."""

    def begin(self, step: Step, substeps: int, iterations: int) -> None:
        """Start to solve a step again, with so many sweeps in each substep."""

    def begin_substep(self, number: int, dt: float, bodies: MovingBodies, fresh: bool) -> None:
        """Find the contacts of a substep; if it is not fresh, from where it started when it was."""

    def sweep(self, dt: float, bodies: MovingBodies) -> None:
        """Go once over the particles, which push the bodies."""

    def end_substep(self, number: int, dt: float, bodies: MovingBodies) -> None:
        """Keep what sweeps have found, and move the particles."""

    def begin_reverse(self, step: Step) -> None:
        """Start from the gradients of the end of the step."""

    def record_free(self, taped: Launcher, adjoint: BodyAdjoint, dt: float) -> None:
        """Put on a tape where particles expect the bodies."""

    def solve(self, launch: Launcher, adjoint: BodyAdjoint, number: int, dt: float) -> None:
        """Solve for the multipliers of a substep."""
        adjoint.solve_positions(launch)

    def weigh(self, taped: Launcher, adjoint: BodyAdjoint) -> None:
        """Put terms of the bodies on the tape of those of their rows."""

    def seed(self) -> None:
        """Ask for the gradient of the negative terms."""

    def hand_back(self, launch: Launcher, adjoint: BodyAdjoint) -> None:
        """Add the gradients with respect to where the bodies were expected."""

    def end(self, step: Step) -> None:
        """Add the gradients of the start of the step."""


class BodyAdjoint:
    """Gradients of `BodySweeps`: the adjoint of a converged substep.

    A substep is solved again, with as many sweeps as it takes, in memory of the adjoint's own. At the
    solution M (u - free) = Jᵀ p with wrenches J of the start, every row gives one equation: what it measures
    at the end, a force law, or a bound. Their linearisation, transposed, is solved per world by LU
    factorization; what is left is the gradient of a scalar with respect to poses, velocities and parameters,
    a reverse pass through the kernels of `kernels.maximal.adjoint`. The correction of velocities after a
    substep is another such system. With few sweeps the solver's step is not converged, and this is the
    gradient of the converged one.

    Contacts are such rows, too (`solvers.maximal.contact_adjoint`), in the two systems and in a third one
    that removes penetrations. Of more contacts than hold a body, each takes the smallest change of its
    impulse; in the sweeps that depends on their order. It counts where friction of these contacts has
    different directions.

    Gradients with respect to masses and inertias arrive at `body_mass` and `body_inertia`, as if
    `body_inv_mass` and `body_inv_inertia` followed. There is none with respect to `joint_axis`, whose part in
    the directions that a joint holds is not differentiated. Models with armature are refused: rotors keep
    rates from step to step that are not part of the state. What breaks redundant rows of a loop in different
    ways has no converged step; the gradient is then that of a compromise.

    Sources: Griewank, Walther, "Evaluating Derivatives", 2008, chapter 15 (implicit functions); Ryckaert,
    Ciccotti, Berendsen, 1977 (SHAKE), whose rows these are.

    Args:
        sweeps: The solver's, whose options are followed and whose memory is left alone; its model was
            finalized with gradients.

    Attributes:
        iterations: Sweeps over positions by which a substep is solved again.
        velocity_sweeps: Least number of sweeps over velocities after them.
        among: Particles that the same sweeps move.
    """

    def __init__(self, sweeps: BodySweeps):
        self.sweeps = sweeps
        self.model = model = sweeps.model
        self.velocity_sweeps = 100
        self.among: NoParticles = NoParticles()
        self.follow(0)
        self._again = BodySweeps(model)
        self._bodies = MovingBodies(model)
        self._rows = self._again._rows
        count = self._rows.row_start.numpy()[-1] if len(self._rows.row_start) else 0
        self._row_count = int(count)
        starts = {"row": [0, self._row_count], "block": [0, model.joint_count + model.constraint_count]}
        self._shard = Shard(model).with_starts(starts)
        self._allocate()
        self._position = _row_view(model, self._rows, self._row_count)
        self._velocity = _row_view(model, self._rows, self._row_count)
        self._idle = _row_view(model, self._rows, self._row_count)
        self._system, self._sky = _system_of(model)
        self._contacts = BodyContactTerms(self._again, self._system)
        self._after: State | None = None
        self._reasons = zeros(model.world_count, dtype=int, device=model.device)
        self._away = zeros(model.world_count, dtype=wp.vec2d, device=model.device)
        self._shortfall = Shortfall(CONVERGENCE_TOLERANCE)
        self._starts: list[list[wp.array]] = []
        self._rotors = np.zeros(0, int)

    def _allocate(self) -> None:
        model, device = self.model, self.model.device
        bodies, rows = model.body_count, self._row_count

        def body(dtype: type, grad: bool = True) -> wp.array:
            return wp.zeros(bodies, dtype=dtype, device=device, requires_grad=grad)

        self.x0, self.x1, self.x2 = (body(wp.transform) for _ in range(3))
        self.u0, self.u1, self.u2 = (body(wp.spatial_vector) for _ in range(3))
        self.free, self.kick, self.u, self.shift = (body(wp.spatial_vector) for _ in range(4))
        self.middle, self.turned = body(wp.quat), body(wp.quat)
        self.center0, self.center1 = body(wp.vec3), body(wp.vec3)
        self.half, self.half_slope = body(wp.vec3, False), body(wp.mat33, False)
        self.multiplier, self.moving = body(wp.spatial_vector, False), body(wp.spatial_vector, False)
        self.drift, self.drifting = body(wp.spatial_vector, False), body(wp.spatial_vector, False)
        self.still = body(wp.spatial_vector, False)
        self.body_term, self.shift_term = body(float), body(float)
        self.row_term = wp.zeros(rows, dtype=float, device=device, requires_grad=True)
        self.q = wp.zeros(model.joint_coord_count, dtype=float, device=device, requires_grad=True)
        self.qd = wp.zeros(model.joint_dof_count, dtype=float, device=device, requires_grad=True)
        self._none = zeros(0, dtype=float, device=device)
        view, spin = self._bodies.view, self._again._spin
        view.mobility = zeros(0, dtype=wp.spatial_matrix, device=device)  # tapes want every array of a struct
        self.start = _with(view, origin=self.x0, velocity=self.u)
        self.start_spin = _with(spin, com=self.center0)
        self.end = _with(view, origin=self.x1, velocity=self.u2)
        self.end_spin = _with(spin, com=self.center1)

    def record_arrays(self) -> list[wp.array]:
        """Arrays of the model whose gradients a backward pass adds to."""
        names = [spec.name for spec in MODEL_ARRAYS if spec.name not in ("joint_axis", "joint_armature")] + [
            "gravity_vec"
        ]
        arrays = [getattr(self.model, name, None) for name in names]
        return [a for a in arrays if isinstance(a, wp.array) and a.size and a.grad is not None]

    def check_gradient(self, solver: str = "rigid bodies") -> None:
        """Raise if a world had no gradient since this was last asked.

        Warn if steps ended so far from the converged ones that their gradients are not theirs, and again when
        that has become twice as much.

        Args:
            solver: Name of the solver, for the error.

        Raises:
            NotDifferentiableError: It names the reason and the worlds.
        """
        reason = self._reasons.numpy().copy()
        self._reasons.zero_()
        self._warn(solver, reason == 0)
        refuse_worlds(solver, reason, _REASONS)

    def _warn(self, solver: str, worlds: np.ndarray) -> None:
        """Warn of steps in the masked worlds that ended elsewhere than the converged ones."""
        found = self._shortfall.untold(self._away.numpy(), worlds)
        self._away.zero_()
        if found is not None:
            world, part = found
            warnings.warn(
                f"{solver}: sweeps ended {part:.0%} of what joints and contacts do away from the "
                f"converged step (world {world}); the gradient is that of the converged step, and may be "
                "wrong by as much: use more iterations and constraints.velocity_sweeps, or more substeps",
                RuntimeWarning,
                stacklevel=4,
            )

    def follow(self, iterations: int) -> None:
        """Solve substeps again with so many sweeps over positions, and with no fewer than 100."""
        self.iterations = max(100, iterations)

    def make_room(self, substeps: int) -> None:
        """Allocate what a step of so many substeps needs, before it is recorded.

        Raises:
            NotDifferentiableError: A joint has armature.
        """
        self.among.check()
        if not self.model.device.is_capturing and self.model.joint_dof_count:
            self._rotors = np.flatnonzero(self.model.joint_armature.numpy())
        if len(self._rotors):
            raise NotDifferentiableError(
                f"rigid bodies: {len(self._rotors)} degrees of freedom (first: {self._rotors[0]}) have "
                "armature, and such rotors keep rates between steps that are not part of the state; set "
                "joint_armature to 0, or use FeatherstoneSolver"
            )
        while len(self._starts) < substeps:
            self._starts.append([wp.empty_like(a) for a in self._memory()])

    def run(self, step: Step, substeps: int = 1) -> None:
        """Add a step's contribution to the gradients of its inputs.

        Args:
            step: The step, with the gradients of `state_out`.
            substeps: Substeps that it was made of.
        """
        device = self.model.device
        load_once(self, partial(self._reverse, step, substeps), device)
        self._reverse(step, substeps)
        self._after = step.state_in
        if not device.is_capturing:
            self.check_gradient()

    def _reverse(self, step: Step, substeps: int) -> None:
        """Everything that `run` launches."""
        launch = Launcher(self.model, record_tape=False, shard=self._shard)
        self._replay(launch, step, substeps)
        launch(
            system_adjoint.compare_ends,
            "body",
            reads=dict(
                system=self._system,
                poses=self.x0,
                free=self._starts[0][1],
                solved=self.u2,
                stepped=step.state_out.body_qd,
            ),
            writes=dict(away=self._away),
        )
        self._reverse_end(launch, step)
        self.among.begin_reverse(step)
        dt = step.dt / substeps
        for number in reversed(range(substeps)):
            if number < substeps - 1:
                self._restore(number)
                self._substep(launch, number, dt, fresh=False)
            self._reverse_substep(launch, step, number, dt)
        self.among.end(step)
        launch(
            system_adjoint.add_transforms,
            "body",
            reads=dict(more=self._contacts.start.grad),
            writes=dict(total=self.x0.grad),
        )
        self._reverse_start(step)
        launch(
            system_adjoint.keep_reasons,
            "world",
            reads=dict(system=self._system),
            writes=dict(kept_reason=self._reasons),
        )

    def _replay(self, launch: Launcher, step: Step, substeps: int) -> None:
        """Solve the step again, up to the end of its last substep, and keep where substeps start."""
        again, bodies, state = self._again, self._bodies, step.state_in
        again.contact_relaxation = self.sweeps.contact_relaxation
        again.con_weighting = self.sweeps.con_weighting
        again.angular_damping = self.sweeps.angular_damping
        again.restitution = self.sweeps.restitution
        again.push_speed = self.sweeps.push_speed
        again.recovery_speed = self.sweeps.recovery_speed
        again.limit_speed = self.sweeps.limit_speed
        again.soft_limits = self.sweeps.soft_limits
        again.friction_combine = self.sweeps.friction_combine
        again.linear_relaxation = again.angular_relaxation = again.warm_start = 1.0
        again.joint_warm_start = 0.0
        again.velocity_sweeps = max(self.velocity_sweeps, self.sweeps.velocity_sweeps)
        launch(system_adjoint.begin_worlds, "world", writes=dict(system=self._system))
        bodies.begin(launch, state.body_q, state.body_qd, state.body_f, step.dt)
        if self._after is not step.state_out:
            again.reset()
        again.begin(launch, state, step.control, step.contacts, step.dt)
        self._contacts.begin(launch, state.body_q)
        _fill_axis(again._now.block, self._none)
        self.make_room(substeps)
        self.among.begin(step, substeps, self.iterations)
        for number in range(substeps):
            for kept, array in zip(self._starts[number], self._memory()):
                copy(kept, array)
            self._substep(launch, number, step.dt / substeps, fresh=True)

    def _memory(self) -> tuple[wp.array, ...]:
        view = self._bodies.view
        return view.origin, view.velocity, self._again._spin.entering

    def _restore(self, number: int) -> None:
        """Return to the start of a substep."""
        for kept, array in zip(self._starts[number], self._memory()):
            copy(array, kept)
        self._again._now.substep = number

    def _substep(self, launch: Launcher, number: int, dt: float, fresh: bool) -> None:
        """Solve a substep, for the first time or anew, and keep what its two solves led to."""
        again, bodies, system, among = self._again, self._bodies, self._system, self.among
        bodies.begin_substep(launch, 0.0, dt)
        among.begin_substep(number, dt, bodies, fresh)
        copy(self.x0, bodies.view.origin)
        copy(self.u0, bodies.view.velocity)
        again.begin_substep(launch, dt, bodies)
        launch(
            system_adjoint.find_half_way,
            "body",
            reads=dict(x0=self.x0, u0=self.u0, dt=dt, bodies=bodies.view),
            writes=dict(system=system, half=self.half, half_slope=self.half_slope),
        )
        for sweep in range(self.iterations):
            among.sweep(dt, bodies)
            again.sweep(launch, dt, bodies, last=sweep == self.iterations - 1)
        copy(self.u, bodies.view.velocity)
        copy(self.shift, again._spin.shift)
        self._decide(launch, dt)
        self._contacts.decide(launch, self.u)
        among.end_substep(number, dt, bodies)
        again.end_substep(launch, dt, bodies)
        copy(self.x1, bodies.view.origin)
        copy(self.u2, bodies.view.velocity)
        copy(self.center1, again._spin.com)
        self._contacts.decide_relaxed(launch, self.u2, int(system_adjoint.REASON_FEATURES))
        if self._row_count:
            launch(
                modes_adjoint.decide_relaxed,
                "block",
                reads=dict(block=self._again._now.block, near=again._near, bodies=self.end, spin=again._spin),
                writes=dict(view=self._velocity),
            )

    def _decide(self, launch: Launcher, dt: float) -> None:
        """Find what decided the impulses of the rows."""
        again, spin, view = self._again, self._again._spin, self._position
        launch(
            system_adjoint.check_turns,
            "body",
            reads=dict(x0=self.x0, u=self.u, dt=dt, spin=spin),
            writes=dict(system=self._system),
        )
        if self._row_count:
            block, near, bodies = self._again._now.block, again._near, self._bodies.view
            launch(modes_adjoint.begin_rows, "row", reads=dict(rows=self._rows), writes=dict(view=view))
            launch(
                modes_adjoint.decide_rows,
                "block",
                reads=dict(block=block, near=near, s=again._settings(dt), bodies=bodies, spin=spin),
                writes=dict(view=view),
            )
            if self.model.constraint_count:
                launch(
                    modes_adjoint.decide_couplings,
                    "row",
                    reads=dict(block=block, near=near, dt=dt, bodies=bodies, spin=spin),
                    writes=dict(view=view),
                )

    def _reverse_end(self, launch: Launcher, step: Step) -> None:
        """From the state at the end to poses and velocities of the bodies after the last substep."""
        model, out = self.model, step.state_out
        copy(self.x2, out.body_q)  # gradients are copied, too
        fill(self.x2.grad)
        fill(self.u2.grad)
        if model.joint_count:
            copy(self.q.grad, out.joint_q.grad)
            copy(self.qd.grad, out.joint_qd.grad)
            with Tape() as tape:
                taped = Launcher(model, record_tape=True, shard=self._shard)
                taped(
                    substep.read_coordinates,
                    "joint",
                    reads=dict(
                        joint=taped.views.joint,
                        body_com=model.body_com,
                        near=self._again._near,
                        body_q=self.x2,
                        body_qd=self.u2,
                    ),
                    writes=dict(q=self.q, qd=self.qd),
                )
            tape.backward()
        launch(
            system_adjoint.add_transforms,
            "body",
            reads=dict(more=out.body_q.grad),
            writes=dict(total=self.x2.grad),
        )
        launch(
            system_adjoint.add_twists,
            "body",
            reads=dict(more=out.body_qd.grad),
            writes=dict(total=self.u2.grad),
        )

    def _reverse_substep(self, launch: Launcher, step: Step, number: int, dt: float) -> None:
        """From x2.grad and u2.grad, gradients at the end, to those at the start: the same arrays."""
        contacts = self._contacts
        for array in (self.x1, self.u1, self.center1, self.turned, self.x0, self.u0, self.center0):
            fill(array.grad)
        for array in (self.free, self.kick, self.middle, self.u, self.shift):
            fill(array.grad)
        fill(self.kick)
        copy(self.x1.grad, self.x2.grad)
        taped = Launcher(self.model, record_tape=True, shard=self._shard)
        with Tape() as free_tape:
            self._record_free(taped, step, dt)
            self.among.record_free(taped, self, dt)
        with Tape() as end_tape:
            self._record_end(taped, dt)
            bodies = (self.multiplier, self.moving)
            self._solve(launch, self.turned, self.u2.grad, self._velocity, contacts.velocity, bodies)
            contacts.hand_back(launch, self.moving)
            self._weigh_corrections(taped, dt)
        self._seed_terms()
        end_tape.backward()
        self.among.solve(launch, self, number, dt)
        if self.model.shape_count:
            contacts.hand_to_shifts(launch)
            bodies = (self.drift, self.drifting)
            self._solve(launch, self.middle, self.shift.grad, self._idle, contacts.shift, bodies)
        with Tape() as tape:
            self._weigh_impulses(taped, dt)
            self.among.weigh(taped, self)
            if self.model.shape_count:
                self._weigh_shifts(taped, dt)
        self._seed_terms()
        self.among.seed()
        tape.backward()
        self.among.hand_back(launch, self)
        free_tape.backward()
        copy(self.x2.grad, self.x0.grad)
        copy(self.u2.grad, self.u0.grad)

    def _record_free(self, taped: Launcher, step: Step, dt: float) -> None:
        """Put the motion without rows on the tape."""
        model, system = self.model, self._system
        taped(
            substep.free_bodies,
            "body",
            reads=dict(
                x0=self.x0,
                u0=self.u0,
                inertia=model.body_inertia,
                com=model.body_com,
                role=system.role,
                half=self.half,
                half_slope=self.half_slope,
                dt=dt,
            ),
            writes=dict(center=self.center0, middle=self.middle, free=self.free),
        )
        if self._again._floats:
            taped(
                substep.push_floating,
                "joint",
                reads=dict(
                    joint=taped.views.joint,
                    force=step.control.joint_f,
                    damping=model.joint_damping,
                    friction=model.joint_friction,
                    mass=model.body_mass,
                    inertia=model.body_inertia,
                    role=system.role,
                    x0=self.x0,
                    center=self.center0,
                    middle=self.middle,
                    free=self.free,
                    dt=dt,
                ),
                writes=dict(kick=self.kick),
            )
        self._contacts.foresee(taped, dt, self.x0, self.center0, self.middle, self.free, self.kick)

    def _record_end(self, taped: Launcher, dt: float) -> None:
        """Put the motion from the velocities that rows lead to, up to their correction, on the tape."""
        model = self.model
        taped(
            substep.finish_bodies,
            "body",
            reads=dict(
                x0=self.x0,
                u=self.u,
                shift=self.shift,
                middle=self.middle,
                inertia=model.body_inertia,
                com=model.body_com,
                role=self._system.role,
                angular_damping=float(self.sweeps.angular_damping),
                dt=dt,
            ),
            writes=dict(x1=self.x1, u1=self.u1, center=self.center1, turned=self.turned),
        )

    def _weigh_corrections(self, taped: Launcher, dt: float) -> None:
        """Put the terms of the correction of velocities at the end on the tape."""
        model, contacts = self.model, self._contacts
        taped(
            substep.balance_bodies,
            "body",
            reads=dict(
                mass=model.body_mass,
                inertia=model.body_inertia,
                role=self._system.role,
                orientation=self.turned,
                free=self.u1,
                kick=self.still,
                u=self.u2,
                multiplier=self.multiplier,
            ),
            writes=dict(term=self.body_term),
        )
        if self._row_count:
            taped(
                row_terms_adjoint.weigh_relaxed,
                "row",
                reads=dict(
                    block=self._again._now.block,
                    near=self._again._near,
                    multiplier=self.moving,
                    bodies=self.end,
                    spin=self.end_spin,
                    view=self._velocity,
                ),
                writes=dict(term=self.row_term),
            )
        number = int(contact_terms_adjoint.STAGE_VELOCITY)
        contacts.weigh(taped, number, dt, self.x1, self.center1, self.moving, self.u2)

    def _weigh_impulses(self, taped: Launcher, dt: float) -> None:
        """Put the terms of bodies and rows, by the impulses that lead to the end, on the tape."""
        again, model = self._again, self.model
        taped(
            substep.balance_bodies,
            "body",
            reads=dict(
                mass=model.body_mass,
                inertia=model.body_inertia,
                role=self._system.role,
                orientation=self.middle,
                free=self.free,
                kick=self.kick,
                u=self.u,
                multiplier=self.multiplier,
            ),
            writes=dict(term=self.body_term),
        )
        if self._row_count:
            block, near = again._now.block, again._near
            taped(
                row_terms_adjoint.weigh_rows,
                "row",
                reads=dict(
                    block=block,
                    near=near,
                    dt=dt,
                    recovery_speed=float(again.recovery_speed),
                    multiplier=self.moving,
                    bodies=self.start,
                    spin=self.start_spin,
                    view=self._position,
                ),
                writes=dict(term=self.row_term),
            )
            if model.constraint_count:
                taped(
                    row_terms_adjoint.weigh_couplings,
                    "row",
                    reads=dict(
                        block=block,
                        near=near,
                        dt=dt,
                        multiplier=self.moving,
                        bodies=self.start,
                        spin=self.start_spin,
                        view=self._position,
                    ),
                    writes=dict(term=self.row_term),
                )

    def _weigh_shifts(self, taped: Launcher, dt: float) -> None:
        """Put the terms of contacts, and of the shifts that remove penetrations, on the tape."""
        model, contacts = self.model, self._contacts
        taped(
            substep.balance_bodies,
            "body",
            reads=dict(
                mass=model.body_mass,
                inertia=model.body_inertia,
                role=self._system.role,
                orientation=self.middle,
                free=self.still,
                kick=self.still,
                u=self.shift,
                multiplier=self.drift,
            ),
            writes=dict(term=self.shift_term),
        )
        number = int(contact_terms_adjoint.STAGE_SHIFT)
        contacts.weigh(taped, number, dt, self.x0, self.center0, self.drifting, self.shift)
        number = int(contact_terms_adjoint.STAGE_POSITION)
        contacts.weigh(taped, number, dt, self.x0, self.center0, self.moving, self.u)

    def solve_positions(self, launch: Launcher) -> None:
        """Solve for the multipliers of the impulses that led to the end of a substep."""
        bodies = (self.multiplier, self.moving)
        self._solve(launch, self.middle, self.u.grad, self._position, self._contacts.position, bodies)

    def position_system(self) -> PositionSystem:
        """What `solve_positions` solves, for a solution together with particles."""
        contacts, places, stage = self._contacts.stage(self._contacts.position)
        return PositionSystem(
            sky=self._sky,
            block=self._again._now.block,
            rows=self._position,
            contacts=contacts,
            places=places,
            stage=stage,
            system=self._system,
        )

    def _solve(
        self,
        launch: Launcher,
        orientation: wp.array,
        gradient: wp.array,
        view: RowGradientView,
        stage: ContactStageView,
        bodies: tuple[wp.array, wp.array],
    ) -> None:
        """Multipliers for a gradient with respect to the velocities that rows and contacts lead to.

        Args:
            launch: Launcher.
            orientation: Orientations in which bodies have their inertia.
            gradient: By the velocities.
            view: How rows act; receives their multipliers.
            stage: How contacts act; receives theirs.
            bodies: Receive those of all bodies, and of those that impulses move.
        """
        multiplier, moving = bodies
        contacts, places, stage = self._contacts.stage(stage)
        launch(
            system_adjoint.solve_worlds,
            "world",
            reads=dict(
                orientation=orientation,
                gradient=gradient,
                block=self._again._now.block,
                contacts=contacts,
                places=places,
            ),
            writes=dict(sky=self._sky, view=view, stage=stage, system=self._system, multiplier=multiplier),
        )
        launch(
            system_adjoint.mask_driven,
            "body",
            reads=dict(system=self._system, multiplier=multiplier),
            writes=dict(moving=moving),
        )

    def _seed_terms(self) -> None:
        """Gradients are those of the negative Lagrangian; a reverse pass takes the seeds away."""
        fill(self.body_term.grad, -1.0)
        fill(self.row_term.grad, -1.0)
        fill(self.shift_term.grad, -1.0)
        self._contacts.seed()

    def _reverse_start(self, step: Step) -> None:
        """From poses and velocities at the start of the first substep to the state."""
        model, state = self.model, step.state_in
        with Tape() as tape:
            taped = Launcher(model, record_tape=True, shard=self._shard)
            taped(
                substep.kick_bodies,
                "body",
                reads=dict(
                    world=model.body_world,
                    body_q=state.body_q,
                    body_qd=state.body_qd,
                    body_f=state.body_f,
                    mass=model.body_mass,
                    inertia=model.body_inertia,
                    com=model.body_com,
                    gravity=model.gravity_vec,
                    dt=step.dt,
                ),
                writes=dict(x0=self.x0, u0=self.u0),
            )
        tape.backward()


def _fill_axis(block: BlockView, none: wp.array) -> None:
    """Put an array where inputs are missing; tapes want every array of a struct."""
    axis = block.axis
    axis.act = none if axis.act is None else axis.act
    axis.force = none if axis.force is None else axis.force
    block.axis = axis


def _with(view: MotionView | SpinView, **fields: wp.array) -> MotionView | SpinView:
    """A copy of a struct with other arrays in some fields."""
    copy = type(view)()
    for name in view._cls.vars:
        setattr(copy, name, fields.get(name, getattr(view, name)))
    return copy


def _row_view(model: Model, rows: RowView, count: int) -> RowGradientView:
    """How rows act, nothing yet."""
    view, device = RowGradientView(), model.device
    starts, blocks = rows.row_start.numpy(), rows.block.numpy()
    view.block = put(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), dtype=int, device=device)
    in_order = [np.arange(0), *(np.arange(starts[k], starts[k + 1]) for k in blocks)]
    view.row = put(np.concatenate(in_order), dtype=int, device=device)
    before = np.concatenate(([0], np.cumsum(np.diff(starts)[blocks])))
    view.world_start = put(before[rows.world_start.numpy()], dtype=int, device=device)
    view.mode = zeros(count, dtype=int, device=device)
    view.side = zeros(count, dtype=int, device=device)
    view.drive = zeros(count, dtype=int, device=device)
    view.slip = zeros(count, dtype=int, device=device)
    view.soft = zeros(count, dtype=int, device=device)
    view.total = zeros(count, dtype=float, device=device)
    view.multiplier = zeros(count, dtype=float, device=device)
    view.impulse_slope = zeros(count, dtype=float, device=device)
    view.scale = zeros(count, dtype=float, device=device)
    view.lent = zeros(count, dtype=float, device=device)
    view.slope = zeros(count, dtype=wp.vec2, device=device)
    view.pull0 = zeros(count, dtype=wp.spatial_vector, device=device)
    view.pull1 = zeros(count, dtype=wp.spatial_vector, device=device)
    view.end0 = zeros(count, dtype=wp.spatial_vector, device=device)
    view.end1 = zeros(count, dtype=wp.spatial_vector, device=device)
    return view


def _system_of(model: Model) -> tuple[BodySystemView, BlockSkylineView]:
    """Places of bodies in the adjoint systems of their worlds, and room for these."""
    device, start = model.device, np.asarray(model.world_body_start)
    count = model.body_count
    world = np.searchsorted(start, np.arange(count), side="right") - 1
    world = np.where((np.arange(count) >= start[0]) & (np.arange(count) < start[-1]), world, -1)
    system = BodySystemView()
    system.world = put(world, dtype=int, device=device)
    system.place = put(np.arange(count) - start[np.maximum(world, 0)], dtype=int, device=device)
    system.body_start = put(start, dtype=int, device=device)
    system.role = zeros(count, dtype=int, device=device)
    system.mass, system.inertia = model.body_mass, model.body_inertia
    system.reason = zeros(model.world_count, dtype=int, device=device)
    sky = BlockSkylineView()
    blocks = np.diff(start).astype(np.int64)
    room = np.minimum(blocks * (blocks + 1) // 2, _MOST_BLOCKS)
    sky.world_start = put(start, dtype=int, device=device)
    sky.entry_start = put(np.concatenate(([0], np.cumsum(room))), dtype=int, device=device)
    sky.first = zeros(count, dtype=int, device=device)
    sky.row = zeros(count, dtype=int, device=device)
    sky.given = zeros(6 * count, dtype=wp.float64, device=device)
    sky.x = zeros(6 * count, dtype=wp.float64, device=device)
    sky.lower = zeros(36 * int(room.sum()), dtype=wp.float64, device=device)
    sky.upper = zeros(36 * int(room.sum()), dtype=wp.float64, device=device)
    return system, sky
