"""Contact points: what the last step, or the last collision pass without a step, has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newtonsim.pybullet_compat.queries.contact_reading import CollisionPass, ContactReader, WorldPoints
from newtonsim.pybullet_compat.queries.contact_report import ContactReport
from newtonsim.pybullet_compat.world.link_shapes import LinkShapes
from newtonsim.runtime.capture import capturing

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.client import Client
    from newtonsim.pybullet_compat.world.engine import Engine

ANY_LINK = -2


def getContactPoints(
    client: Client,
    bodyA: int = -1,
    bodyB: int = -1,
    linkIndexA: int = ANY_LINK,
    linkIndexB: int = ANY_LINK,
) -> tuple:
    """Return the contact points of the last stepSimulation or performCollisionDetection.

    Args:
        client: The client.
        bodyA: Only contacts of this body, which comes first in each of them; negative for all bodies.
        bodyB: Only contacts whose second body is this one; negative for all bodies.
        linkIndexA: Only contacts whose first link is this one; -2 for all links.
        linkIndexB: Only contacts whose second link is this one; -2 for all links.

    Returns:
        (0, body A, body B, link A, link B, point on A, point on B, normal on B, distance, normal force, first
        lateral friction force and its direction, second one and its direction) of each point; forces act on
        the body that comes first when nothing is asked for. With several worlds one such tuple for each.
    """
    worlds = client.part(ContactPoints).read()
    found = [
        _select(points.of(bodyA) if bodyA >= 0 else points.all(), bodyA, bodyB, linkIndexA, linkIndexB)
        for points in worlds
    ]
    return found[0] if client.num_worlds == 1 else tuple(found)


def performCollisionDetection(client: Client) -> None:
    """Find contacts at the present poses, without a step; those that go on keep their forces."""
    if client.bodies:
        client.part(ContactPoints).detect()


def _select(points: list[tuple], body_a: int, body_b: int, link_a: int, link_b: int) -> tuple:
    """Choose contacts; if there is a body A, they are its own."""
    if body_a >= 0:
        points = [p if p[1] == body_a else _turned(p) for p in points]
    if body_b >= 0:
        points = [p for p in points if p[2] == body_b]
    if link_a != ANY_LINK:
        points = [p for p in points if p[3] == link_a]
    if link_b != ANY_LINK:
        points = [p for p in points if p[4] == link_b]
    return tuple(points)


def _turned(point: tuple) -> tuple:
    """The same contact seen from the other body; friction forces stay as they are."""
    flag, body_a, body_b, link_a, link_b, point_a, point_b, (x, y, z) = point[:8]
    return (flag, body_b, body_a, link_b, link_a, point_b, point_a, (-x, -y, -z), *point[8:])


class ContactPoints:
    """Contact points of a client, read from the device when they are asked for.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self._points = self._none()
        self._step: ContactReader | None = None
        self._pass: CollisionPass | None = None
        self._report: ContactReport | None = None
        self._engine: Engine | None = None
        self._links: list[tuple[int, int]] = []
        self._unread = client.engine is not None and _has_stepped(client.engine)
        self._passed = False

    def _none(self) -> list[WorldPoints]:
        return [WorldPoints([]) for _ in range(self.client.num_worlds)]

    def read(self) -> list[WorldPoints]:
        """Contact points of each world."""
        if self._passed:
            self._passed = False
            self._points = self._pass.read(self._forces())
        elif self._unread:
            self._unread = False
            self._points = self._step_reader().read()
        return self._points

    def detect(self) -> None:
        """Find the contacts of the present poses."""
        engine = self.client.ensure()
        for body in self.client.bodies.values():
            body.was_placed = True
        self._hold(engine)
        engine.push()
        if self._pass is None:
            with capturing:
                self._pass = CollisionPass(engine, self._reported(engine).view)
        self._pass.collide()
        self._passed = True

    def _forces(self) -> ContactReader | None:
        """Reader of the contacts of the last step, None if there was none."""
        engine = self.client.engine
        if not _has_stepped(engine):
            return None
        step = self._step_reader()
        if self._unread or not step.places:
            self._unread = False
            step.read()
        return step

    def after_step(self, engine: Engine) -> None:
        """Note that a step was made."""
        self._unread, self._passed = True, False

    def release(self, engine: Engine) -> None:
        """Read what the engine knows."""
        known = not self.client.surroundings  # whose contacts cannot be read
        self._points = [WorldPoints(points.all()) for points in self.read()] if known else self._none()
        self._step = self._pass = self._engine = self._report = None

    def body_leaves(self, engine: Engine) -> None:
        """Read what the engine knows of a body that is about to go."""
        self._points = [WorldPoints(points.all()) for points in self.read()]

    def content_changed(self, engine: Engine) -> None:
        """Read from now on what belongs to the bodies that are in the engine now."""
        if self._engine is not None and self._engine.shape_link is not self._links:
            if self._passed:  # what was found for the bodies before is read while it is known whose it is
                self._points = [WorldPoints(points.all()) for points in self.read()]
            self._links = engine.shape_link
            if self._report is not None:
                self._report.update()

    def drop(self, gone) -> None:
        """Forget contacts.

        Args:
            gone: Tells of (body A, link A, body B, link B) whether their contacts are gone.
        """
        self._points = [
            WorldPoints([p for p in points.all() if not gone(p[1], p[3], p[2], p[4])])
            for points in self.read()
        ]

    def forget(self) -> None:
        """Forget all contacts."""
        self._unread = self._passed = False
        self._points = self._none()

    def time_step_changed(self, factor: float) -> None:
        """Multiply the forces that were read by a factor; what is read later is divided by the new time."""
        if not self._unread and not self._passed:
            self._points = [
                WorldPoints([_scaled(point, factor) for point in points.all()]) for points in self._points
            ]

    def state_restored(self) -> None:
        """Note that the contacts of the solver were replaced."""
        engine = self.client.engine
        self._passed = False
        self._unread = engine is not None and _has_stepped(engine)

    def body_removed(self, uid: int) -> None:
        """Forget the contacts of a body."""
        self.drop(lambda body_a, link_a, body_b, link_b: uid in (body_a, body_b))

    def reset(self) -> None:
        """Forget all contacts."""
        self.forget()

    def mirror(self, other: ContactPoints) -> None:
        """Take the contact points of another client, which this one has become like.

        They are left to be read from the engine only where there is one: the one that is built later may be
        built for other bodies.
        """
        self._passed = False
        self._unread = other._unread and not other._passed and self.client.engine is not None
        if not self._unread:
            self._points = [WorldPoints(list(world.all())) for world in other.read()]

    def _hold(self, engine: Engine) -> None:
        if self._engine is not engine:
            self._engine, self._step, self._pass, self._report = engine, None, None, None
            self._links = engine.shape_link

    def _step_reader(self) -> ContactReader:
        """Reader of the contacts of the last step."""
        engine = self.client.ensure()
        self._hold(engine)
        if self._step is None:
            solver = engine.solver
            impulse = solver.constraints.rows.contact.impulse
            with capturing:
                self._step = ContactReader(engine, solver.contacts, self._reported(engine).view, impulse)
        return self._step

    def _reported(self, engine: Engine) -> ContactReport:
        """What decides which contacts are reported."""
        if self._report is None:
            engine.require_own_shapes()
            self._report = ContactReport(engine, self.client.bodies, self.client.part(LinkShapes))
        return self._report


def _scaled(point: tuple, factor: float) -> tuple:
    """A contact point with its forces multiplied by a factor."""
    *place, normal_force, friction, direction, more_friction, other_direction = point
    return (
        *place,
        normal_force * factor,
        friction * factor,
        direction,
        more_friction * factor,
        other_direction,
    )


def _has_stepped(engine: Engine) -> bool:
    return engine.solver.constraints.last_contacts is not None
