"""Contacts of a step or of a collision pass, read from the device and made into tuples."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.collision.collide import find_contacts
from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.constraints import records as constraints_records
from newtonsim.kernels.constraints.records import ContactRecords, ReportView
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.queries.replay import Replay
from newtonsim.runtime import compilation
from newtonsim.runtime.capture import Recording, capture_launches, capturing
from newtonsim.runtime.launcher import Launcher

if TYPE_CHECKING:
    from newtonsim.pybullet_compat.world.engine import Engine

FEW = 64
"""Contacts of a world up to which all are made into tuples at once."""

_ORDER = itemgetter(1, 2, 3, 4)
_FORCES = [
    int(constraints_records.NORMAL_FORCE),
    int(constraints_records.FRICTION_1),
    int(constraints_records.FRICTION_2),
]


class WorldPoints:
    """Contact points of one world; tuples are made of those that are asked for.

    Args:
        points: All of them, if they are known.
    """

    __slots__ = ("_all", "_bodies", "_links", "_numbers", "_of", "_shapes")

    def __init__(self, points: list[tuple] | None = None):
        self._all = points
        self._of: dict[int, list[tuple]] = {}

    @classmethod
    def from_rows(
        cls, shapes: np.ndarray, numbers: np.ndarray, links: list[tuple[int, int]], bodies: np.ndarray
    ) -> WorldPoints:
        """Return points that are made when they are asked for, before the rows change.

        Args:
            shapes: Rows of `ContactRecords.shapes` (n, 4).
            numbers: Rows of `ContactRecords.numbers` (n, CONTACT_NUMBERS).
            links: (body, link) of each shape.
            bodies: Body of each shape.
        """
        points = cls()
        points._shapes, points._numbers, points._links, points._bodies = shapes, numbers, links, bodies
        return points

    def all(self) -> list[tuple]:
        """All points, in the order of bodies and links."""
        if self._all is None:
            self._all = self._made(self._shapes, self._numbers)
        return self._all

    def of(self, body: int) -> list[tuple]:
        """Points of one body."""
        found = self._of.get(body)
        if found is None:
            if self._all is not None or len(self._shapes) <= FEW:
                found = [p for p in self.all() if p[1] == body or p[2] == body]
            else:
                rows = np.flatnonzero((self._bodies[self._shapes[:, :2]] == body).any(axis=1))
                found = self._made(self._shapes[rows], self._numbers[rows])
            self._of[body] = found
        return found

    def _made(self, shapes: np.ndarray, numbers: np.ndarray) -> list[tuple]:
        links, points = self._links, []
        for (a, b, _, kept), v in zip(shapes.tolist(), numbers.tolist()):
            if kept:
                body_a, link_a = links[a]
                body_b, link_b = links[b]
                ax, ay, az, bx, by, bz, nx, ny, nz, gap, force, f1, tx, ty, tz, f2, ux, uy, uz = v
                at_a, at_b, normal = (ax, ay, az), (bx, by, bz), (nx, ny, nz)
                friction = (f1, (tx, ty, tz), f2, (ux, uy, uz))
                pair = (0, body_a, body_b, link_a, link_b)
                points.append((*pair, at_a, at_b, normal, gap, force, *friction))
        if len(points) > 1:
            points.sort(key=_ORDER)
        return points


class ContactReader:
    """Turns the contacts of a collision pass into tuples.

    Args:
        engine: The engine.
        contacts: The contacts.
        report: What is reported.
        impulse: Impulses of the last step, vec3 (C), None for contacts without forces.
    """

    def __init__(
        self, engine: Engine, contacts: Contacts, report: ReportView, impulse: wp.array | None = None
    ):
        self.engine, self.contacts, self.report = engine, contacts, report
        device = engine.model.device
        count = contacts.rigid_contact_max
        self.impulse = wp.zeros(0, dtype=wp.vec3, device=device) if impulse is None else impulse
        self.records = ContactRecords()
        self.records.numbers = wp.zeros(
            (count, int(constraints_records.CONTACT_NUMBERS)), dtype=wp.float64, device=device
        )
        self.records.shapes = wp.zeros((count, 4), dtype=int, device=device)
        self._numbers = HostArray(self.records.numbers, 1)
        self._shapes = HostArray(self.records.shapes, 1)
        self._counts = HostArray(contacts.world_count, 1)
        self._starts = contacts.world_start.numpy().tolist()[:-1]
        self._links, self._bodies = engine.shape_link, _bodies_of(engine.shape_link)
        self.places: list[slice] = []
        self._replay: Replay | None = None
        self._rate = 0.0

    def launch(self) -> None:
        """Write the records on the device."""
        # as in PyBullet: the impulse of the last substep over the time of a whole step, as it is set now
        rate = 1.0 / self.engine.simulator.dt if self.engine.solver.constraints.last_dt > 0.0 else 0.0
        if self._replay is None or rate != self._rate:
            model = self.engine.model
            shape, places = collision_plan_of(model).shape, self.contacts.placement.X
            launch = compilation.launch(
                constraints_records.write_contact_records,
                reads=dict(
                    contacts=self.contacts.view,
                    shape=shape,
                    X=places,
                    report=self.report,
                    impulse=self.impulse,
                    rate=rate,
                ),
                writes=dict(records=self.records),
                dim=self.contacts.rigid_contact_max,
                device=model.device,
                record_cmd=True,
                record_tape=False,
            )
            self._replay, self._rate = Replay(model.device, [launch]), rate
        self._replay.launch()

    def read(self) -> list[WorldPoints]:
        """Contact points of each world; what was read before is no longer valid."""
        if not self.contacts.rigid_contact_max:
            return [WorldPoints([]) for _ in self._starts]
        self.launch()
        counts = self._counts.pull()[0].tolist()
        self.shapes, self.numbers = self._shapes.pull()[0], self._numbers.pull()[0]
        self.places = [slice(start, start + count) for start, count in zip(self._starts, counts)]
        if self._links is not self.engine.shape_link:
            self._links, self._bodies = self.engine.shape_link, _bodies_of(self.engine.shape_link)
        return [
            WorldPoints.from_rows(self.shapes[rows], self.numbers[rows], self._links, self._bodies)
            for rows in self.places
        ]

    def keep_forces(self, before: ContactReader) -> None:
        """Give contacts that go on the forces that they had; to be called after both were read."""
        for rows, old_rows in zip(self.places, before.places):
            shapes, old_shapes = self.shapes[rows], before.shapes[old_rows]
            if not len(shapes) or not len(old_shapes):
                continue
            keys, old_keys = _keys(shapes), _keys(old_shapes)
            order = np.argsort(old_keys, kind="stable")
            place = order[np.minimum(np.searchsorted(old_keys[order], keys), len(order) - 1)]
            same = old_keys[place] == keys
            forces = before.numbers[old_rows][place[same]][:, _FORCES]
            self.numbers[rows][np.ix_(same, _FORCES)] = forces
            shapes[same, 3] |= forces[:, 0] > 0.0


def _bodies_of(links: list[tuple[int, int]]) -> np.ndarray:
    """Unique ids of the bodies of links."""
    return np.array([uid for uid, _ in links], int)


class CollisionPass:
    """A collision pass without a step, in buffers of its own.

    Args:
        engine: The engine.
        report: What is reported.
    """

    def __init__(self, engine: Engine, report: ReportView):
        self.engine = engine
        self.contacts = Contacts(engine.model)
        self.reader = ContactReader(engine, self.contacts, report)
        self._replay: Recording | None = None
        self._passes = 0

    def read(self, step: ContactReader | None) -> list[WorldPoints]:
        """Contact points of each world that the last pass found.

        Args:
            step: Contacts of the last step, whose forces go on.
        """
        points = self.reader.read()
        if step is not None:
            self.reader.keep_forces(step)
        return points

    def collide(self) -> None:
        """Run the pass at the present poses, on the CPU by a recording from the second time on."""
        if self._replay is not None:
            self._replay.once()
            return
        self._passes += 1
        with capturing:
            if self._passes == 1 or not self.engine.model.device.is_cpu:
                self._launch()
                return
            self._replay = capture_launches(self._launch, self.engine.model.device)
        self._replay.once()

    def _launch(self) -> None:
        state = self.engine.simulator.state
        launch = Launcher(self.engine.model, record_tape=False)
        find_contacts(launch, state.body_q, state.body_qd, self.contacts, 0.0)


def _keys(shapes: np.ndarray) -> np.ndarray:
    """One number for both shapes and the feature of each contact (n,)."""
    a, b, feature = shapes[:, :3].T.astype(np.int64)
    return (a << 48) ^ (b << 32) ^ (feature & 0xFFFFFFFF)
