"""Rays: rayTest and rayTestBatch."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.geometry.transforms import transform_point
from newtonsim.kernels.queries import rays
from newtonsim.pybullet_compat.engine.host_arrays import HostArray
from newtonsim.pybullet_compat.queries.replay import Replay
from newtonsim.pybullet_compat.queries.scene_queries import RAYS, SceneQueries
from newtonsim.pybullet_compat.surface.arguments import vec3, vectors
from newtonsim.pybullet_compat.surface.constants import MAX_RAY_INTERSECTION_BATCH_SIZE
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.plain_kinematics import rotated
from newtonsim.queries.prepared_segments import PreparedSegments
from newtonsim.queries.scene_query import ALL_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from newtonsim.pybullet_compat.world.client import Client

SIGHT = sum(map(int, (rays.SEE_BACKS, rays.SEE_BELOW, rays.SEE_MARGINS, rays.SEE_ROUNDED)))
MISS = (-1, -1, 1.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
LEAST_IN_THREADS = 512
"""Rays for which another thread is worth its while."""

KEPT = 4
"""Numbers of rays for which buffers are kept."""

FEW = 16
"""Rays whose hits are made into tuples one by one, sooner than by whole columns."""

NOT_VECTORS = "Items in the from/to positions need to be an [x,y,z] list of 3 floats/doubles"


def rayTest(
    client: Client,
    rayFromPosition: Sequence[float],
    rayToPosition: Sequence[float],
    collisionFilterMask: int = -1,
    reportHitNumber: int = -1,
) -> tuple:
    """Cast one ray; see `rayTestBatch`.

    Args:
        client: The client.
        rayFromPosition: Start [m], world.
        rayToPosition: End [m], world; in clients of several worlds both may be (W, 3).
        collisionFilterMask: As in `rayTestBatch`, and so is what follows.
        reportHitNumber: Hits to pass over.

    Returns:
        As `rayTestBatch` for one ray.
    """
    if client.num_worlds == 1:
        start, end = vec3(rayFromPosition, "rayFromPosition"), vec3(rayToPosition, "rayToPosition")
    else:
        start = vectors(rayFromPosition, 3, client, "rayFromPosition")[:, None]
        end = vectors(rayToPosition, 3, client, "rayToPosition")[:, None]
    return _cast(client, 1, start, end, 1, collisionFilterMask, reportHitNumber, -1.0)


def rayTestBatch(
    client: Client,
    rayFromPositions: Sequence,
    rayToPositions: Sequence,
    numThreads: int = 1,
    parentObjectUniqueId: int = -1,
    parentLinkIndex: int = -1,
    reportHitNumber: int = -1,
    collisionFilterMask: int = -1,
    fractionEpsilon: float = -1.0,
) -> tuple:
    """Cast rays from point to point.

    Solids are met from outside only, surfaces and planes from both sides; normals face the start, and turn
    from one face to the next within 1 mm of the edges of boxes and cylinders.

    Args:
        client: The client.
        rayFromPositions: Starts [m], (n, 3), in the world or in the inertial frame of a link; in clients of
            several worlds both may be (W, n, 3).
        rayToPositions: Ends, likewise.
        numThreads: 1 or negative for one thread, 0 for as many as there are cores.
        parentObjectUniqueId: Body whose frame the points are in, -1 for the world.
        parentLinkIndex: Its link, -1 for the base.
        reportHitNumber: Hits to pass over, in the order of their distance; negative for none.
        collisionFilterMask: Only links whose filter group shares a bit with it, and whose own mask has the
            first bit, are seen.
        fractionEpsilon: With reportHitNumber, hits of the same body whose fraction differs by less than this
            count as one; negative to count all.

    Returns:
        (body, link, fraction, point, normal) of each ray, (-1, -1, 1, 0, 0) where nothing is hit. In clients
        of several worlds these are arrays: (W, n) of bodies, links and fractions, (W, n, 3) of the others.

    Raises:
        error: There are too many rays, or the points are no vectors.
    """
    starts = _points(rayFromPositions, client)
    ends = _points(rayToPositions, client)
    if starts.shape[1] != ends.shape[1]:
        raise error("Size of from_positions need to be equal to size of to_positions.")
    if starts.shape[1] > MAX_RAY_INTERSECTION_BATCH_SIZE:
        raise error("Number of rays exceed the maximum batch size.")
    if not starts.shape[1]:
        return ()
    body = client.bodies.get(parentObjectUniqueId)
    if body is not None and -1 <= parentLinkIndex < len(body.links) - 1:
        client.read_poses(body)
        frame = body.pose[:, parentLinkIndex + 1]
        if client.num_worlds == 1 and starts.shape[1] <= FEW:
            starts, ends = _in_world(frame[0], starts), _in_world(frame[0], ends)
        else:
            starts, ends = transform_point(frame[:, None], starts), transform_point(frame[:, None], ends)
    count = starts.shape[1]
    if count == client.num_worlds == 1:
        starts, ends = starts.ravel().tolist(), ends.ravel().tolist()
    return _cast(
        client, count, starts, ends, numThreads, collisionFilterMask, reportHitNumber, fractionEpsilon
    )


def _points(values: Sequence, client: Client) -> np.ndarray:
    """Return points (W or 1, n, 3)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(NOT_VECTORS) from None
    if array.size == 0:
        return np.zeros((1, 0, 3))
    if array.ndim == 3 and array.shape[0] == client.num_worlds and array.shape[2] == 3:
        return array
    if array.ndim != 2 or array.shape[1] != 3:
        raise error(NOT_VECTORS)
    return array[None]


def _in_world(frame: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (1, n, 3) of a frame (7,) in the world, in plain numbers."""
    *origin, a, b, c, d = frame.tolist()
    x, y, z = origin
    turned = (rotated((a, b, c, d), point) for point in points[0].tolist())
    return np.array([[(x + i, y + j, z + k) for i, j, k in turned]])


def _cast(
    client: Client,
    count: int,
    starts: np.ndarray | Sequence[float],
    ends: np.ndarray | Sequence[float],
    threads: int,
    mask: int,
    skip: int,
    epsilon: float,
) -> tuple:
    """Cast rays that broadcast to (W, count, 3)."""
    if not client.bodies:
        return _nothing(client, count)
    queries = client.part(SceneQueries)
    queries.ready()
    skip = max(skip, 0)
    distinct = skip > 0 and epsilon >= 0.0
    rays = client.num_worlds * count
    on_cpu = queries.query.model.device.is_cpu
    parts = _thread_count(threads) if rays >= LEAST_IN_THREADS and threads != 1 and on_cpu else 1
    # a body has as many hits as it has shapes, so that many more are needed to count it once
    hits, passed = ((skip + 1) * 4, 0) if distinct else (1, skip)
    key = (RAYS, rays, parts, mask & ALL_BITS, passed, hits)
    batch = queries.keep(key, KEPT, lambda: RayBatch(queries, *key[1:]))
    batch.cast(starts, ends, queries.moved())
    if distinct:
        batch.count_once(skip, epsilon)
    if client.num_worlds > 1:
        return batch.arrays(client.num_worlds)
    if count == 1:
        return (batch.one(),)
    return batch.few() if count <= FEW else batch.tuples()


def _nothing(client: Client, count: int) -> tuple:
    """What rays that meet nothing return."""
    worlds = client.num_worlds
    if worlds == 1:
        return (MISS,) * count
    bodies = np.full((worlds, count), -1)
    return bodies, bodies.copy(), np.ones((worlds, count)), *np.zeros((2, worlds, count, 3))


def _thread_count(threads: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores if threads == 0 else min(threads, cores))


def _towards(start: list[float], end: list[float], normal: list[float]) -> tuple[float, float, float]:
    """The normal, or its opposite, that faces the start of a ray."""
    (ax, ay, az), (bx, by, bz), (x, y, z) = start, end, normal
    return (-x, -y, -z) if x * (bx - ax) + y * (by - ay) + z * (bz - az) > 0.0 else (x, y, z)


class RayBatch:
    """Rays of a fixed number, and their hits on the host.

    Args:
        queries: The queries of the client.
        count: Rays in all worlds.
        parts: Threads that share them.
        mask: Bits of the shapes that are seen.
        skip: Hits to pass over.
        hits: Hits of each ray.
    """

    def __init__(self, queries: SceneQueries, count: int, parts: int, mask: int, skip: int, hits: int):
        query = queries.query
        device = query.model.device
        self._rays = PreparedSegments(query, count, parts, mask=mask, skip=skip, max_hits=hits, sight=SIGHT)
        self._worlds = query.model.world_count
        launches = self._rays.parts
        self._update = Replay(device, queries.updates)
        self._parts = [Replay(device, [launch]) for launch in launches]
        self._both = Replay(device, [*queries.updates, *launches]) if parts == 1 else None
        self._starts = HostArray(self._rays.starts, self._worlds)
        self._ends = HostArray(self._rays.ends, self._worlds)
        found = self._rays.hits
        self._found = [HostArray(a, 1) for a in (found.shape, found.fraction, found.point, found.normal)]
        # the nearest hits, and the ends of the only ray: views that last
        self._shape, self._fraction, self._point, self._normal = (a.host[0, :, 0] for a in self._found)
        self._single = self._plain_views() if count == 1 and device.is_cpu else None
        self._pool = ThreadPoolExecutor(parts - 1, thread_name_prefix="rays") if parts > 1 else None
        self._queries = queries
        self._take_links()

    def _take_links(self) -> None:
        """Take the links that shapes belong to now."""
        count, self._links = self._queries.query.model.shape_count, self._queries.links
        per_world = count // self._worlds
        # the last row is what shape -1 stands for
        self._table = np.full((count + 1, 2), -1)
        local = np.array(self._links or np.zeros((0, 2)), int)
        for world in range(self._worlds):
            self._table[world * per_world : world * per_world + len(local)] = local

    def _plain_views(self) -> tuple[memoryview, ...]:
        """Start, end, shape, fraction, point and normal of the only ray, faster to read and write so."""
        arrays = (self._starts.host, self._ends.host, self._shape, self._fraction, self._point, self._normal)
        return tuple(memoryview(array.reshape(-1)) for array in arrays)

    def cast(
        self, starts: np.ndarray | Sequence[float], ends: np.ndarray | Sequence[float], moved: bool
    ) -> None:
        """Cast rays (W or 1, n, 3) at the present poses.

        Args:
            starts: Where they begin [m].
            ends: Where they end [m].
            moved: Whether shapes have moved since the last rays.
        """
        if self._links is not self._queries.links:
            self._take_links()
        if self._single is not None:
            start, end, *_ = self._single
            start[0], start[1], start[2] = starts
            end[0], end[1], end[2] = ends
            self._launch(moved)
            return
        self._starts.host[...] = starts
        self._ends.host[...] = ends
        self._starts.push()
        self._ends.push()
        self._launch(moved)
        for array in self._found:
            array.pull()

    def _launch(self, moved: bool) -> None:
        """Cast the rays that are in the buffers."""
        if self._both is not None:
            (self._both if moved else self._parts[0]).launch()
            return
        if moved:
            self._update.launch()
        if self._parts:
            others = [self._pool.submit(part.launch) for part in self._parts[1:]]
            self._parts[0].launch()
            for other in others:
                other.result()

    def count_once(self, skip: int, epsilon: float) -> None:
        """Choose the hit after `skip` others among those that differ in body or fraction."""
        shapes, fractions = self._found[0].host[0], self._found[1].host[0]
        for ray, row in enumerate(self._table[shapes, 0].tolist()):
            kept: list[int] = []
            for k, body in enumerate(row):
                f = fractions[ray, k]
                if body >= 0 and not any(
                    row[j] == body and abs(fractions[ray, j] - f) < epsilon for j in kept
                ):
                    kept.append(k)
            for array in self._found:
                values = array.host[0, ray]
                values[0] = values[kept[skip]] if len(kept) > skip else (-1 if array is self._found[0] else 0)

    def one(self) -> tuple:
        """The hit of the only ray."""
        a, b, shapes, fractions, p, n = self._single or self._plain_views()
        shape, fraction = shapes[0], fractions[0]
        if shape < 0 or fraction >= 1.0:
            return MISS
        normal = _towards(a.tolist(), b.tolist(), n.tolist())
        return (*self._links[shape], fraction, tuple(p.tolist()), normal)

    def few(self) -> tuple:
        """Hits of a few rays as tuples, in plain numbers."""
        columns = (self._shape, self._fraction, self._point, self._normal)
        ends = self._ends.host.reshape(-1, 3).tolist()
        starts = self._starts.host.reshape(-1, 3).tolist()
        found = []
        for shape, fraction, point, normal, start, end in zip(*(c.tolist() for c in columns), starts, ends):
            if shape < 0 or fraction >= 1.0:
                found.append(MISS)
            else:
                hit = (*self._links[shape], fraction, tuple(point))
                found.append((*hit, _towards(start, end, normal)))
        return tuple(found)

    def _columns(self) -> tuple[np.ndarray, ...]:
        """Bodies with links (n, 2), fractions, points and normals of all rays, misses included."""
        shape, fraction, point = self._shape.copy(), self._fraction, self._point
        missed = (shape < 0) | (fraction >= 1.0)
        shape[missed] = -1
        normal = self._normal.astype(np.float64)
        direction = (self._ends.host - self._starts.host).reshape(-1, 3)
        normal[np.einsum("ij,ij->i", normal, direction) > 0.0] *= -1.0
        point = point.astype(np.float64)
        point[missed] = normal[missed] = 0.0
        return self._table[shape], np.where(missed, 1.0, fraction), point, normal

    def tuples(self) -> tuple:
        """Hits as tuples."""
        link, fraction, point, normal = self._columns()
        # tuples of numbers are in no cycles; looking for some among so many takes as long as making them
        collects = gc.isenabled()
        gc.disable()
        try:
            points, normals = zip(*point.T.tolist()), zip(*normal.T.tolist())
            return tuple(zip(link[:, 0].tolist(), link[:, 1].tolist(), fraction.tolist(), points, normals))
        finally:
            if collects:
                gc.enable()

    def arrays(self, worlds: int) -> tuple:
        """Hits as arrays with a leading axis of worlds."""
        link, fraction, point, normal = self._columns()
        columns = (link[:, 0], link[:, 1], fraction, point, normal)
        return tuple(column.reshape(worlds, -1, *column.shape[1:]).copy() for column in columns)
