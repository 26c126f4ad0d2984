"""Contacts between sets of shapes that patterns name, and contacts other than those of feet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.collision.collide import find_contacts
from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.envs.sensors import AttachedSensor, Element, Sensor, Site
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.constraints.reactions import READINGS
from newtonsim.kernels.envs import sensors as envs_sensors
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.enums import JointType
from newtonsim.scene.patterns import match_labels
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.builder import ModelBuilder
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.scene.model import Model
    from newtonsim.simulator import Simulator


@dataclass(frozen=True)
class ContactPairs(Sensor):
    """Contacts between bodies or shapes that patterns name; 13 readings for each pair of patterns.

    - Normal force on the elements that the first pattern names [N] (3).
    - Friction on it [N] (3).
    - Point where it acts, the mean of all contacts weighted by their normal forces [m] (3).
    - Direction of the normal force, unit (3).
    - Number of contacts with a positive force (1).

    Where both patterns name both sides of a contact, the force is that on one of them, whichever comes first
    in the collision detection: name the sides apart if the direction matters.

    All in world axes, the mean over the last solver step, at the poses at its start; zero without contact and
    in the first observation of an episode. Needs a solver with `pair_forces`, which FeatherstoneSolver has.

    Attributes:
        pairs: Pairs of patterns, see `match_labels`. They name bodies, with all their shapes, or shapes.
        noise: Standard deviation of the components of the forces [N].
    """

    pairs: Sequence[tuple[str, str]]
    noise: float = 0.0

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        site.check_noise(self.noise)
        if not hasattr(site.solver, "pair_forces"):
            solver = site.solver_name
            raise NewtonsimError(
                f"sensor {site.name!r}: it reads contact forces of pairs, which {solver} does not report; "
                "FeatherstoneSolver does"
            )
        if not self.pairs or any(len(pair) != 2 for pair in self.pairs):
            raise NewtonsimError(f"sensor {site.name!r}: expected pairs of patterns, got {self.pairs}")
        try:
            side = np.stack([shapes_of(site.model, a) + 2 * shapes_of(site.model, b) for a, b in self.pairs])
        except NewtonsimError as error:
            raise NewtonsimError(f"sensor {site.name!r}: {error}") from None
        return _AttachedPairs(site.model, side, column, self.noise)


@dataclass(frozen=True)
class Sole:
    """The part of a body with which it is to touch the ground: the points x of its frame with up · x <= top.

    Attributes:
        body: The body.
        up: Unit vector that points up in the frame of the body when it stands.
        top: How far along it the sole reaches [m].
    """

    body: Element
    up: Sequence[float]
    top: float


@dataclass(frozen=True)
class UndesiredContacts(Sensor):
    """Which bodies touch something other than with their soles; a reading of 1 or 0 for each body of a world.

    What a body touches counts unless it belongs to its own tree. The point of a contact decides, since foot
    and shin may be one body. Where a sole sinks into soft ground, what is less deep does not count on its
    body and on those that are fixed to it. Contacts are those at the start of the last solver step, with gaps
    of up to 1 mm; with solvers that do not say which they found, those at its end. Zero in the first
    observation of an episode.

    Attributes:
        soles: The soles; bodies without one are not to touch anything.
    """

    soles: Sequence[Sole] = ()

    def attach(self, site: Site, column: int) -> AttachedSensor:
        """See `Sensor.attach`."""
        bodies = site.world.body_count
        up, top = np.zeros((bodies, 3)), np.full(bodies, -1.0)
        for sole in self.soles:
            length = float(np.linalg.norm(sole.up))
            if np.shape(sole.up) != (3,) or not abs(length - 1.0) < 1.0e-3:
                raise NewtonsimError(f"sensor {site.name!r}: up: expected a unit vector, got {sole.up}")
            body = site.index("body", sole.body)
            up[body], top[body] = sole.up, sole.top
        return _AttachedUndesired(site, up, top, column)


def shapes_of(model: Model, pattern: str) -> np.ndarray:
    """Return which shapes a pattern names, by their own names or those of their bodies, uint8 (shape_count,).

    Raises:
        NewtonsimError: None.
    """
    labels = [*model.body_key, *model.shape_key]
    found = np.zeros(len(labels), bool)
    found[match_labels(pattern, labels, "bodies or shapes")] = True
    of_body, of_shape = found[: model.body_count], found[model.body_count :]
    carrier = np.asarray(model.shape_body.numpy(), np.int64)
    if model.body_count:
        of_shape = of_shape | ((carrier >= 0) & of_body[carrier])
    return of_shape.astype(np.uint8)


class _AttachedPairs(AttachedSensor):
    def __init__(self, model: Model, side: np.ndarray, column: int, noise: float):
        pairs, self._column = len(side), column
        self.deviations = ([noise] * 6 + [0.0] * 7) * pairs
        self._side = put(side, dtype=wp.uint8, device=model.device)
        readings = int(READINGS) * pairs
        self._sums = zeros((model.world_count, readings), dtype=float, device=model.device)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        if not fresh:
            sim.solver.pair_forces(launch.shard, sim.dt / sim.substeps, self._side, self._sums)  # pyright: ignore[reportAttributeAccessIssue]
        launch(
            envs_sensors.show_readings,
            "world",
            reads=dict(readings=self._sums, column=self._column, mask=mask, fresh=fresh),
            writes=dict(env=env),
        )


def _firsts_of_rigid(world: ModelBuilder) -> list[int]:
    """Return for each body of a world the first of those to which fixed joints hold it, or itself."""
    held = {
        child: parent
        for child, parent, kind in zip(world.joint_child, world.joint_parent, world.joint_type)
        if kind == JointType.FIXED and parent >= 0
    }
    firsts = []
    for body in range(world.body_count):
        first = body
        while first in held:
            first = held[first]
        firsts.append(first)
    return firsts


class _AttachedUndesired(AttachedSensor):
    def __init__(self, site: Site, up: np.ndarray, top: np.ndarray, column: int):
        model, device = site.model, site.model.device
        self.deviations, self._column = [0.0] * len(top), column
        self._shape = collision_plan_of(model).shape
        # solvers that report forces keep the contacts that they found
        finds = hasattr(site.solver, "pair_forces")
        self._contacts = site.solver.contacts if finds else Contacts(model)  # pyright: ignore[reportAttributeAccessIssue]
        self._finds = finds
        self._soles = envs_sensors.SoleView()
        self._soles.up = put(up, dtype=wp.vec3, device=device)
        self._soles.top = put(top, dtype=float, device=device)
        self._soles.rigid = put(_firsts_of_rigid(site.world), dtype=int, device=device)
        self._soles.tree = put(topology_of(model).body_tree, dtype=int, device=device)
        self._soles.gap = zeros((model.world_count, len(top)), dtype=float, device=device)

    def launch(self, launch: Launcher, env: EnvView, sim: Simulator, mask: wp.array, fresh: int) -> None:
        if not fresh and not self._finds:
            find_contacts(launch, env.body_q, env.body_qd, self._contacts, 0.0)
        launch(
            envs_sensors.sense_undesired,
            "world",
            reads=dict(
                contacts=self._contacts.view,
                shape=self._shape,
                column=self._column,
                mask=mask,
                fresh=fresh,
            ),
            writes=dict(env=env, soles=self._soles),
        )
