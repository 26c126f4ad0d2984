"""Segments that are cast repeatedly."""

from __future__ import annotations

import math
from itertools import pairwise

import warp as wp

from newtonsim.kernels.queries import rays
from newtonsim.queries.results import RayHits
from newtonsim.queries.scene_query import SceneQuery
from newtonsim.runtime import compilation


class PreparedSegments:
    """A fixed number of segments that are cast repeatedly: buffers and launches are created once.

    Fill `starts` and `ends`, launch each of `parts`, which may run in parallel threads, and read `hits`.
    Nothing is allocated, and the scene is that of the last update of the query.

    Args:
        query: The query.
        count: Number of segments in all worlds; they are ordered by world.
        parts: Number of parts that can be launched separately.
        mask: Bits of the shapes that are seen.
        skip: Number of hits to skip.
        max_hits: Number of hits per segment.
        sight: SEE_* of `newtonsim.kernels.queries.rays`, added up.

    Attributes:
        starts: Starting points, vec3, shape (count,).
        ends: End points, vec3, shape (count,).
        hits: The hits, shape (count, max_hits).
        parts: Recorded launches.
    """

    def __init__(
        self,
        query: SceneQuery,
        count: int,
        parts: int = 1,
        *,
        mask: int = 0xFFFFFFFF,
        skip: int = 0,
        max_hits: int = 1,
        sight: int = 0,
    ):
        device = query.model.device
        self.starts = wp.zeros(count, dtype=wp.vec3, device=device)
        self.ends = wp.zeros(count, dtype=wp.vec3, device=device)
        self.hits = RayHits((count,), max_hits, device)
        per_world = count // query.model.world_count
        worlds = wp.array([i // per_world for i in range(count)], dtype=int, device=device)
        self.parts: list[wp.Launch] = []
        for begin, end in pairwise(count * part // parts for part in range(parts + 1)):
            view, hits = rays.RayView(), rays.RayHitView()
            view.origin, view.direction = self.starts[begin:end], self.ends[begin:end]
            view.worlds = worlds[begin:end]
            view.ends, view.max_distance, view.sight = 1, math.inf, sight
            view.mask, view.skip, view.ignored_body = mask, skip, -1
            for name in hits._cls.vars:
                setattr(hits, name, getattr(self.hits.view, name)[begin:end])
            launch = compilation.launch(
                rays.cast_rays,
                reads=dict(scene=query.launch_view(), rays=view),
                writes=dict(hits=hits),
                dim=end - begin,
                device=device,
                record_cmd=True,
                record_tape=False,
            )
            self.parts.append(launch)
