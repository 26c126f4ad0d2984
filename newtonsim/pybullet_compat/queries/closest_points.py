"""Closest points of bodies, of their links, and of collision shapes without a body."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.builder import ModelBuilder
from newtonsim.kernels.queries import closest_records
from newtonsim.pybullet_compat.descriptions.description import BodyDescription, Link
from newtonsim.pybullet_compat.engine import model_building
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.queries.contact_points import ANY_LINK
from newtonsim.pybullet_compat.queries.replay import Replay
from newtonsim.pybullet_compat.queries.scene_queries import SceneQueries
from newtonsim.pybullet_compat.surface.arguments import quat, vec3
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.body import Body
from newtonsim.pybullet_compat.world.shape_table import ShapeTable
from newtonsim.queries.scene_query import SceneQuery
from newtonsim.runtime import compilation
from newtonsim.runtime.devices import find_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.pybullet_compat.world.client import Client

NO_FRICTION = (0.0, 0.0, (0.0, 0.0, 0.0), 0.0, (0.0, 0.0, 0.0))
NO_LINK = -2
"""Link index of a shape without a body."""

KEPT = 256
"""Pairs of bodies or shapes whose prepared queries are kept."""


def getClosestPoints(
    client: Client,
    bodyA: int,
    bodyB: int,
    distance: float,
    linkIndexA: int = ANY_LINK,
    linkIndexB: int = ANY_LINK,
    collisionShapeA: int = -1,
    collisionShapeB: int = -1,
    collisionShapePositionA: Sequence[float] | None = None,
    collisionShapePositionB: Sequence[float] | None = None,
    collisionShapeOrientationA: Sequence[float] | None = None,
    collisionShapeOrientationB: Sequence[float] | None = None,
) -> tuple:
    """Return the closest points of two bodies at their present poses, one for each pair of shapes.

    Args:
        client: The client.
        bodyA: First body, negative for none.
        bodyB: Second body, which may be the first one.
        distance: How far apart shapes may be [m].
        linkIndexA: Link of the first body, -2 for all links.
        linkIndexB: Link of the second body.
        collisionShapeA: Shape of createCollisionShape that is compared as well, negative for none.
        collisionShapeB: Likewise.
        collisionShapePositionA: Where that shape is [m], world; the origin if it is not given.
        collisionShapePositionB: Likewise.
        collisionShapeOrientationA: Its rotation, quaternion xyzw.
        collisionShapeOrientationB: Likewise.

    Returns:
        Points as those of getContactPoints, without forces; body -1 and link -2 stand for shapes without a
        body. With several worlds one such tuple for each.
    """
    if collisionShapeA >= 0 or collisionShapeB >= 0:
        sides = (
            (bodyA, linkIndexA, collisionShapeA, collisionShapePositionA, collisionShapeOrientationA, "A"),
            (bodyB, linkIndexB, collisionShapeB, collisionShapePositionB, collisionShapeOrientationB, "B"),
        )
        found = _of_shapes(client, sides, float(distance))
    else:
        found = _of_bodies(client, bodyA, bodyB, linkIndexA, linkIndexB, float(distance))
    return found[0] if client.num_worlds == 1 else tuple(found)


def _of_bodies(
    client: Client, body_a: int, body_b: int, link_a: int, link_b: int, distance: float
) -> list[tuple]:
    """Closest points of the links of two bodies."""
    if body_a not in client.bodies or body_b not in client.bodies:
        return [()] * client.num_worlds
    queries = client.part(SceneQueries)
    queries.ready()
    query: Any = queries.query

    def prepare() -> ClosestPairs:
        first, second = (
            [s for s, (uid, link) in enumerate(queries.links) if uid == body and asked in (ANY_LINK, link)]
            for body, asked in ((body_a, link_a), (body_b, link_b))
        )
        return ClosestPairs(query, queries.updates, first, second, queries.links)

    return queries.keep(("closest", body_a, body_b, link_a, link_b), KEPT, prepare).find(distance)


def _of_shapes(client: Client, sides: tuple, distance: float) -> list[tuple]:
    """Closest points where at least one side is a shape of createCollisionShape."""
    parts, table = client.part(LooseShapes), client.part(ShapeTable).collisions
    places, poses = [], []
    for body, link, shape, position, rotation, side in sides:
        names = []
        if shape >= 0:
            if shape not in table:
                return [()] * client.num_worlds
            names.append((body, NO_LINK, shape))
            pose = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            if position is not None:
                pose[:3] = vec3(position, f"collisionShapePosition{side}")
            if rotation is not None:
                pose[3:] = quat(rotation, f"collisionShapeOrientation{side}")
            poses.append(np.tile(pose, (client.num_worlds, 1)))
        if body in client.bodies:
            record = client.bodies[body]
            client.read_poses(record)
            for place in range(len(record.links)):
                if link in (ANY_LINK, place - 1):
                    names.append((body, place - 1, -1))
                    poses.append(record.pose[:, place])
        places.append(tuple(names))
    return (
        parts.scene(*places).find(np.stack(poses, 1), distance) if all(places) else [()] * client.num_worlds
    )


class ClosestPairs:
    """Closest points of all pairs of two sets of shapes; buffers and the launch are made once.

    Args:
        query: The query.
        updates: Launches that come first, which update the query.
        first: Shapes of a world that come first.
        second: Shapes that they are compared with.
        links: (body, link) of each shape of a world.
    """

    def __init__(
        self,
        query: SceneQuery,
        updates: list[wp.Launch],
        first: list[int],
        second: list[int],
        links: list[tuple[int, int]],
    ):
        model = query.model
        worlds, per_world = model.world_count, model.shape_count // model.world_count
        pairs = [(a, b) for a in first for b in second]
        self._names = [(links[a][0], links[b][0], links[a][1], links[b][1]) for a, b in pairs]
        self._worlds, self._count = worlds, len(pairs)
        if not pairs:
            return
        offsets = per_world * np.arange(worlds)[:, None, None]
        table = (np.array(pairs)[None] + offsets).reshape(-1, 2).astype(np.int32)
        device = model.device
        self._reach = HostArray(wp.zeros(1, dtype=float, device=device), 1)
        reach = self._reach._device_array
        found = wp.zeros(len(table), dtype=int, device=device)
        numbers = wp.zeros(
            (len(table), int(closest_records.CLOSEST_NUMBERS)), dtype=wp.float64, device=device
        )
        self._found, self._numbers = HostArray(found, worlds), HostArray(numbers, worlds)
        launch = compilation.launch(
            closest_records.find_closest_pairs,
            reads=dict(
                scene=query.launch_view(), pairs=wp.array(table, dtype=wp.vec2i, device=device), reach=reach
            ),
            writes=dict(found=found, numbers=numbers),
            dim=len(table),
            device=device,
            record_cmd=True,
            record_tape=False,
        )
        self._replay = Replay(device, [*updates, launch])

    def find(self, distance: float) -> list[tuple]:
        """Closest points of each world up to a distance [m]."""
        if not self._count:
            return [()] * self._worlds
        self._reach.host[0, 0] = distance
        self._reach.push()
        self._replay.launch()
        found, numbers = self._found.pull(), self._numbers.pull()
        if self._count == 1 and self._worlds == 1:
            return [(_point(self._names[0], numbers[0, 0].tolist()),) if found[0, 0] else ()]
        results = []
        for world in range(self._worlds):
            near = np.flatnonzero(found[world])
            rows = numbers[world, near].tolist()
            results.append(tuple(_point(self._names[k], v) for k, v in zip(near.tolist(), rows)))
        return results


def _point(name: tuple[int, int, int, int], v: list[float]) -> tuple:
    return (0, *name, (v[0], v[1], v[2]), (v[3], v[4], v[5]), (v[6], v[7], v[8]), v[9], *NO_FRICTION)


class LooseShapes:
    """Scenes of shapes without bodies, kept from call to call.

    Args:
        client: The client.
    """

    def __init__(self, client: Client):
        self.client = client
        self._scenes: dict[tuple, LooseScene] = {}

    def scene(self, first: tuple, second: tuple) -> LooseScene:
        """The scene of two sets of (body, link, shape), where shape -1 stands for the link."""
        records = [self._record(name) for name in (*first, *second)]
        key = (first, second, *(id(geometry) for link in records for geometry in link.collisions))
        known = self._scenes.get(key)
        if known is None:
            if len(self._scenes) >= KEPT:
                del self._scenes[next(iter(self._scenes))]
            known = self._scenes[key] = LooseScene(self.client, first, second, records)
        return known

    def _record(self, name: tuple[int, int, int]) -> Link:
        body, link, shape = name
        if shape >= 0:
            shapes = self.client.part(ShapeTable).collisions[shape].collisions
            if any(geometry.variants for geometry in shapes):
                raise error("collisionShape: expected a shape that is the same in all worlds.")
            return Link(collisions=shapes)
        return self.client.bodies[body].links[link + 1]

    def body_removed(self, uid: int) -> None:
        """Forget all scenes: unique ids are used again."""
        self._scenes.clear()

    def reset(self) -> None:
        """Forget all scenes."""
        self._scenes.clear()


class LooseScene:
    """Shapes that nothing moves but the caller, and the closest points of two sets of them.

    Args:
        client: The client.
        first: (body, link, shape) of each link or shape of the first set.
        second: Those of the second set.
        records: What both consist of, one after the other.
    """

    def __init__(self, client: Client, first: tuple, second: tuple, records: list[Link]):
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        names, shapes = [(body, link) for body, link, _ in (*first, *second)], ([], [])
        links = []
        for k, record in enumerate(records):
            alone = replace(record, mass=0.0, parent=-1)
            body = Body(k, BodyDescription(base=alone, fixed=True), 1, client.settings.time_step)
            for _ in model_building.add_body(builder, body):
                shapes[k >= len(first)].append(len(links))
                links.append(names[k])
        many = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        many.replicate(builder, client.num_worlds, spacing=(0.0, 0.0, 0.0))
        with wp.ScopedDevice(find_device(client.device)):
            self.model = many.finalize()
        self._state = self.model.state()
        self._poses = HostArray(self._state.body_q, client.num_worlds)
        self._query = SceneQuery(self.model)
        self._query.update(self._state)
        self._pairs = ClosestPairs(self._query, [], *shapes, links)
        # shapes that are removed keep their records here, so that no other gets their identity
        self._records = records

    def find(self, poses: np.ndarray, distance: float) -> list[tuple]:
        """Closest points of each world, for links and shapes at poses (W, links, 7)."""
        self._poses.host[...] = poses
        self._poses.push()
        self._query.update(self._state)
        return self._pairs.find(distance)
