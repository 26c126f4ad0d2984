"""One client: a world of bodies, shapes, constraints and settings, in one or many copies.

A client holds the scene as records on the host. Calls that need the physics have `ensure` build an `Engine`
from them. Structural changes drop the engine; coordinates, velocities and settings of the bodies pass to the
next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from newtonsim.collision.plan import collision_plan_of
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body, fresh_body
from newtonsim.pybullet_compat.world.ids import Ids
from newtonsim.pybullet_compat.world.room import Room
from newtonsim.pybullet_compat.world.scene_part import HOOKS
from newtonsim.pybullet_compat.world.settings import Settings
from newtonsim.pybullet_compat.world.standing_links import StandingLink
from newtonsim.pybullet_compat.world.structure import Structure
from newtonsim.runtime.capture import capturing

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.descriptions.description import BodyDescription
    from newtonsim.pybullet_compat.world.constraint_records import Constraint
    from newtonsim.pybullet_compat.world.engine import Engine, EngineCopy
    from newtonsim.pybullet_compat.world.soft_body import SoftBody
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State
    from newtonsim.simulator import Simulator
    from newtonsim.solvers import FeatherstoneSolver


Part = TypeVar("Part")


class Client:
    """A physics world.

    Args:
        make_engine: Builds the engine of its present structure.
        gui: Whether it was connected as GUI.
        num_worlds: Copies of the scene.
        device: Warp device, None for the CPU with one world and the default device with more.

    Attributes:
        remote: False; clients of a server have True.
        bodies: Rigid bodies by unique id.
        soft_bodies: Soft bodies by unique id.
        order: Unique ids of all bodies in the order of getBodyUniqueId.
        constraints: Constraints by unique id.
        settings: Numbers of the world.
        structure: What the engine is built from; every structural change replaces it.
        engine: The engine of the present structure, None until it is needed.
        reset_flags: Flags of the last resetSimulation.
        next_engine: What the next engine goes on from, None for none; see `clients.mirroring`.
        pair_filters: What setCollisionFilterPair said of pairs of (body, link).
        room: Empty slots that the next engine is to have.
        surroundings: Links of other clients that stand around all worlds, see `surround`.
        chosen: The worlds that a setter is about, all but in `choosing`; to index axes of worlds with.
        given_worlds: How many they are.
        chooses: Whether a setter is about worlds that were named.
        lends_arrays: Whether a script has the state, which it may change behind the engine's back.
    """

    remote = False

    def __init__(
        self,
        make_engine: Callable[[Client], Engine],
        gui: bool = False,
        num_worlds: int = 1,
        device: str | None = None,
    ):
        self._make_engine = make_engine
        self.gui = gui
        self.num_worlds = num_worlds
        self.device = device if device is not None or num_worlds > 1 else "cpu"
        self.settings = Settings()
        self.bodies: dict[int, Body] = {}
        self.soft_bodies: dict[int, SoftBody] = {}
        self.order: list[int] = []
        self.constraints: dict[int, Constraint] = {}
        self.pair_filters: dict[tuple[tuple[int, int], tuple[int, int]], bool] = {}
        self.structure = Structure()
        self.surroundings: list[StandingLink] = []
        self.engine: Engine | None = None
        self.next_engine: EngineCopy | None = None
        self._idle: Engine | None = None
        self.stale_bodies: set[Body] = set()
        self.silent_sensors: set[tuple[Body, int]] = set()
        self.room = Room()
        self.chosen: slice | np.ndarray = slice(None)
        self.given_worlds = num_worlds
        self.chooses = False
        self.hooked_steps = self.lends_arrays = False
        self.reset_flags = 0
        self.body_ids, self.constraint_ids = Ids(), Ids(1)
        self._parts: dict[type, object] = {}
        self._hooks: dict[str, list] = {name: [] for name in HOOKS}

    # -- parts -----------------------------------------------------------------------------------------------

    def known_part(self, kind: type[Part]) -> Part | None:
        """Return this client's part of a kind if it has one, else None; see `ScenePart`."""
        return self._parts.get(kind)

    def part(self, kind: type[Part]) -> Part:
        """Return this client's part of a kind, `kind(client)`, made at first use."""
        part = self._parts.get(kind)
        if part is None:
            part = self._parts[kind] = kind(self)
            for name, hooks in self._hooks.items():
                hook = getattr(part, name, None)
                if hook is not None:
                    hooks.append(hook)
            self.hooked_steps = bool(self._hooks["before_step"] or self._hooks["after_step"])
        return part

    def call_hooks(self, name: str, *args: object) -> None:
        """Call one hook of all parts that have it."""
        for hook in self._hooks[name]:
            hook(*args)

    # -- worlds ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def choosing(self, worlds: np.ndarray) -> Iterator[None]:
        """Restrict setters to some worlds, for which they get values; the others keep theirs.

        Args:
            worlds: Their indices (n,).
        """
        self.chosen, self.given_worlds, self.chooses = worlds, len(worlds), True
        try:
            yield
        finally:
            self.chosen, self.given_worlds, self.chooses = slice(None), self.num_worlds, False

    def spread(self, values: npt.ArrayLike, size: int = 0) -> np.ndarray:
        """Return values of the chosen worlds with zeros for the others.

        Args:
            values: A number, or one for each chosen world (n,); or vectors (size,) or (n, size).
            size: Length of vectors, 0 for numbers.

        Returns:
            (W,) or (W, size).
        """
        found = np.zeros((self.num_worlds, size) if size else self.num_worlds)
        found[self.chosen] = values
        return found

    # -- structure -------------------------------------------------------------------------------------------

    def ensure(self) -> Engine:
        """Return the engine, built anew if the structure has changed."""
        if self.engine is None:
            with capturing:  # no other thread may record meanwhile
                self.engine = self._refilled() or self._make_engine(self)
                if self.next_engine is not None:
                    self.next_engine.put_into(self.engine)
                    self.next_engine = None
                self.call_hooks("bind", self.engine)
        return self.engine

    def _refilled(self) -> Engine | None:
        """The engine that was kept if the present scene finds its slots there."""
        engine, self._idle = self._idle, None
        if engine is None or not engine.refill(self.structure.content):
            return None
        self.structure.content = engine.content
        return engine

    def structure_changed(self, coming: Body | Constraint | None = None, keep: bool = False) -> None:
        """Drop the engine; coordinates and velocities stay with the bodies.

        Args:
            coming: What is about to be added and found no slot, None for nothing.
            keep: Whether the next scene may find its slots in the engine.
        """
        self.structure, self.next_engine = Structure(), None
        if self.engine is not None:
            self.room.follow(self.engine.content)
            if coming is not None:
                self.room.ask(coming, grows=self.engine.steps > 0)
            self.call_hooks("release", self.engine)
            self.engine.release()
            self._idle = self.engine if keep else None
            self.engine = None
            self.stale_bodies.clear()

    def _content_changed(self) -> None:
        """Note that bodies or constraints have come or gone in the engine."""
        self.structure = Structure(self.engine.content)
        self.call_hooks("content_changed", self.engine)

    def add_body(self, description: BodyDescription) -> int:
        """Add a body and return its unique id."""
        uid = self.body_ids.take()
        body = fresh_body(uid, description, self.num_worlds, self.settings.time_step)
        in_place = self.engine is not None and self.engine.enter(body)
        if not in_place:
            self.structure_changed(body)
        self.bodies[uid] = body
        self.order.append(uid)
        if in_place:
            self.stale_bodies.add(body)
            self._content_changed()
        return uid

    def add_soft_body(self, make: Callable[[int], SoftBody]) -> int:
        """Add a soft body that `make` makes of its unique id, and return that."""
        self.structure_changed()
        uid = self.body_ids.take()
        self.soft_bodies[uid] = make(uid)
        self.order.append(uid)
        return uid

    def remove_body(self, uid: int) -> None:
        """Remove a body and the constraints on it; unknown ids do nothing."""
        if uid not in self.order:
            return
        for key in [k for k, c in self.constraints.items() if uid in (c.parent_body, c.child_body)]:
            self.remove_constraint(key)
        body = self.bodies.get(uid)
        if body is not None and self.engine is not None:
            self.call_hooks("body_leaves", self.engine)
        in_place = body is not None and self.engine is not None and self.engine.leave(body)
        if not in_place:
            self.structure_changed()
        self.bodies.pop(uid, None)
        self.soft_bodies.pop(uid, None)
        self.order[self.order.index(uid)] = self.order[-1]  # the last one takes the place, as in PyBullet
        self.order.pop()
        self.body_ids.give_back(uid)
        self.pair_filters = {
            pair: on for pair, on in self.pair_filters.items() if uid not in (pair[0][0], pair[1][0])
        }
        if in_place:
            self.stale_bodies.discard(body)
            self._content_changed()
        self.call_hooks("body_removed", uid)

    def add_constraint(self, constraint: Constraint) -> int:
        """Add a constraint and return its unique id."""
        uid = self.constraint_ids.take()
        in_place = self.engine is not None and self.engine.hold(uid, constraint)
        if not in_place:
            self.structure_changed(constraint)
        self.constraints[uid] = constraint
        if in_place:
            self._content_changed()
        return uid

    def remove_constraint(self, uid: int) -> None:
        """Remove a constraint; its id is not used again, as in PyBullet."""
        in_place = self.engine is not None and self.engine.let_go(uid)
        if not in_place:
            self.structure_changed()
        del self.constraints[uid]
        if in_place:
            self._content_changed()

    def change_gear(self, constraint: Constraint, values: dict[str, float]) -> None:
        """Change numbers of a gear that decide what it does, see `Constraint`."""
        uid = next(key for key, known in self.constraints.items() if known is constraint)
        engine, told = self.engine, self._told_of(constraint)
        let_go = engine is not None and engine.let_go(uid)
        if not let_go:
            self.structure_changed()  # which reads the force of the last step, by the old ratio
        for name, value in values.items():
            setattr(constraint, name, value)
        if let_go:
            self._hold_again(uid, constraint, told)

    def change_mobility(self, body: Body) -> None:
        """Free the base of a body, or fix it, after a change of its mass."""
        held = {uid: c for uid, c in self.constraints.items() if body.uid in (c.parent_body, c.child_body)}
        told = {uid: self._told_of(constraint) for uid, constraint in held.items()}
        if self.engine is not None:
            self.call_hooks("body_leaves", self.engine)
        if self.engine is None or not self.engine.move(body):
            self.structure_changed()
            body.update_mobility(self.settings.time_step)
            self.room.ask(body)
            return
        self.stale_bodies.add(body)
        self._content_changed()
        for uid, constraint in held.items():
            if self.engine is not None and self.engine.let_go(uid):
                self._hold_again(uid, constraint, told[uid])

    def _told_of(self, constraint: Constraint) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Force of a constraint in the last step and orientation of its parent, None if there are none."""
        engine = self.engine
        if engine is None:
            return constraint.last_wrench, constraint.last_turn
        return engine.constraint_wrench(constraint), engine.constraint_turn(constraint)

    def _hold_again(
        self, uid: int, constraint: Constraint, told: tuple[np.ndarray | None, np.ndarray | None]
    ) -> None:
        """Put a constraint that was let go into a slot again; what it was told of the last step stays."""
        engine = self.engine
        assert engine is not None  # which has let it go
        if engine.hold(uid, constraint):
            constraint.changed_at = engine.steps
            self._content_changed()
        else:
            self.structure_changed(constraint)
        constraint.last_wrench, constraint.last_turn = told

    def reset(self) -> None:
        """Empty the world, as resetSimulation does; the next scene may find its slots in the engine."""
        self.structure_changed(keep=True)
        for table in (self.bodies, self.soft_bodies, self.constraints, self.pair_filters, self.order):
            table.clear()
        self.silent_sensors.clear()
        self.surroundings.clear()
        self.room.clear()
        for ids in (self.body_ids, self.constraint_ids):
            ids.clear()
        self.settings.reset()
        self.call_hooks("reset")

    def close(self) -> None:
        """Release everything, at disconnect."""
        self.settings.real_time = False
        self.call_hooks("close")
        self.reset()
        self._idle = None

    # -- state -----------------------------------------------------------------------------------------------

    def read_coordinates(self) -> None:
        """Bring `q` and `u` of all bodies up to date with the last step."""
        engine = self.engine
        if engine is not None and engine.unread_coordinates:
            engine.read_coordinates()

    def read_poses(self, body: Body) -> None:
        """Bring `pose` and `twist` of a body up to date with its coordinates."""
        engine = self.engine
        if engine is not None and engine.unread_poses:
            engine.read_poses()
        if body.stale_poses:
            if engine is not None and len(body.links) > 1:
                engine.refresh(body)
            else:
                body.refresh()

    def applied(self, body: Body) -> np.ndarray | None:
        """Forces of the servos of a body in the last step (W, nu) [N m or N], None before an engine."""
        if self.engine is not None:
            return self.engine.motor_forces(body)
        if self.next_engine is not None:
            return self.next_engine.applied(body)
        return None if body.last_step is None else body.last_step.applied

    def joint_reaction(self, body: Body, place: int) -> np.ndarray | None:
        """What the sensor of a joint measured in the last step (W, 6) [N, N m], None before an engine."""
        if self.engine is not None:
            return self.engine.joint_reaction(body, place)
        known = body.last_step
        return None if known is None or known.reactions is None else known.reactions[:, place]

    def coordinates_written(self, body: Body) -> None:
        """Note that `q`, `u` or `base_pose` of a body were changed on the host.

        Call `read_coordinates` before the change.
        """
        engine = self.engine
        if engine is not None:
            if engine.unread_poses:
                engine.read_poses()
            if body not in engine.written:
                engine.settle_motors(body)
                engine.written.add(body)
            self.stale_bodies.add(body)
        elif self.next_engine is not None:
            self.next_engine.moved = True
        body.stale_poses = True
        self.links_placed(body)

    def links_placed(self, body: Body) -> None:
        """Note that the links of a body are where they are now in the chosen worlds, see `lagging_poses`."""
        start = None
        if self.given_worlds < self.num_worlds:
            engine, start = self.engine, body.start_pose
            if engine is not None and engine.steps > body.placed_at:
                start = engine.start_poses(body)
            if start is not None:
                start = start.copy()
                start[self.chosen] = np.nan
        body.placed_at = 0 if self.engine is None else self.engine.steps
        body.start_pose, body.was_placed = start, True

    def lagging_poses(self, body: Body) -> np.ndarray | None:
        """Poses of the links (W, links, 7) at the start of the last step, None if `pose` is what counts.

        As in PyBullet, links are there until the body is placed, given a velocity or asked for its forward
        kinematics; the base has its present pose all the time. Of a step that goes in substeps it is the
        start of the last one.
        """
        engine, start = self.engine, body.start_pose
        if engine is not None and engine.steps > body.placed_at:
            return engine.start_poses(body)
        if start is None or self.num_worlds == 1 or not (placed := np.isnan(start)).any():
            return start
        self.read_poses(body)
        return np.where(placed, body.pose, start)

    def force_poses(self, body: Body) -> np.ndarray:
        """Poses of the links (W, links, 7) that forces on them are turned by, see `lagging_poses`."""
        lagging = self.lagging_poses(body)
        if lagging is not None:
            return lagging
        self.read_poses(body)
        return body.pose

    def settle_motors(self, body: Body) -> None:
        """Have the forces of the last step known before motors of a body are set."""
        if self.engine is not None:
            self.engine.settle_motors(body)

    def servos_written(self) -> None:
        """Note that motors of a body were set."""
        if self.engine is not None:
            self.engine.servos_written = True

    def pd_written(self) -> None:
        """Note that gains of PD_CONTROL were set."""
        if self.engine is not None:
            self.engine.use_pd()

    def link_frame_poses(self, body: Body) -> np.ndarray:
        """World poses of the link frames of a body (W, links, 7), the base first."""
        self.read_poses(body)
        return body.link_frames()

    # -- beyond PyBullet -------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The `newtonsim.Model` of all worlds."""
        return self.ensure().model

    @property
    def solver(self) -> FeatherstoneSolver:
        """The solver that stepSimulation uses."""
        return self.ensure().solver

    @property
    def simulator(self) -> Simulator:
        """The `newtonsim.Simulator` that stepSimulation advances."""
        self.lends_arrays = True
        return self.ensure().simulator

    @property
    def state(self) -> State:
        """The current `newtonsim.State`, with everything that was set since the last step."""
        engine = self.ensure()
        engine.push()
        self.lends_arrays = True
        return engine.simulator.state

    def forget_last_step(self) -> None:
        """Let the next step start without the impulses of the last one, as the first step does."""
        self.ensure().solver.reset()

    def advance(self, steps: int) -> None:
        """Make some steps, as many calls of stepSimulation do; faster with many worlds.

        Each thread then makes several steps of a few worlds before it goes on to others.
        """
        if steps > 0 and self.settings.stands_still:
            self.ensure().drop_all_forces()
        elif steps > 0:
            self.ensure().step(steps)

    def filtered_bodies(self) -> set[int]:
        """Unique ids of bodies whose collisions were restricted by pairs, or by groups and masks."""
        pairs = {uid for pair, enabled in self.pair_filters.items() if not enabled for uid, _ in pair}
        masked = {
            uid
            for uid, body in self.bodies.items()
            if any(link.group is not None or link.mask is not None for link in body.links)
        }
        return pairs | masked

    def standing_links(self, links: Iterable[tuple[int, int]]) -> list[StandingLink]:
        """Return links (body unique id, link index) of the first world as they stand, for `surround`."""
        found = []
        for uid, link in links:
            body = self.bodies[uid]
            self.read_poses(body)
            found.append(StandingLink(body, link + 1, Pose.of(body.pose[0, link + 1])))
        return found

    def surround(self, links: Iterable[StandingLink]) -> None:
        """Place links of another client around the bodies of all worlds, as obstacles that never move.

        A step handles them once, not once per world. They are not bodies of this client. While there are
        any, the client steps and returns positions and bounds, but queries of shapes, contact points and
        changes of surfaces raise `error`, and cameras do not see them.
        """
        self.structure_changed()
        self.surroundings += links

    def watch_bounds(self) -> None:
        """Record boxes around what the shapes sweep over from now on, until bodies are added or removed."""
        self.ensure().watch_bounds()

    def swept_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of the boxes in which steps since `watch_bounds` have looked for contacts of each shape.

        Returns:
            Lower and upper corners (W, shapes, 3) [m]. Pairs of shapes whose boxes are apart have had no say
            in these steps. Boxes are endless where no contact is looked for, because nothing can collide, and
            empty (infinity, -infinity) about a shape that no other one can touch.

        Raises:
            error: They are not watched.
        """
        engine = self.ensure()
        shape = (self.num_worlds, len(engine.shape_link), 3)
        corners = engine.swept_corners()
        if corners is None:
            raise error("Bounds are not watched: call watch_bounds before the steps.")
        if not collision_plan_of(engine.model).contact_count:
            return np.full(shape, -np.inf), np.full(shape, np.inf)
        first = engine.model.shape_count - shape[0] * shape[1]  # surroundings come before
        lower, upper = corners
        return lower[first:].reshape(shape), upper[first:].reshape(shape)

    @property
    def shape_links(self) -> list[tuple[int, int]]:
        """(body unique id, link index) of each shape of a world, in the order of `swept_bounds`."""
        return self.ensure().shape_link

    def differentiable_model(self) -> Model:
        """Return the scene as it is now as a new model that gradients flow through, for any solver.

        It has neither the motors nor the damping of stepSimulation, which have no gradients.
        """
        return self.ensure().differentiable_model()

    @property
    def control(self) -> Control:
        """The `newtonsim.Control` that every step reads."""
        return self.ensure().simulator.control
