"""Rays on their way to the kernel."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.queries import rays as queries_rays
from newtonsim.queries.inputs import Vectors, check_range, integers, vector_pair
from newtonsim.queries.results import RayHits
from newtonsim.runtime import compilation

if TYPE_CHECKING:
    from newtonsim.queries.scene_query import SceneQuery


class RayRequest:
    """Rays on their way to the kernel."""

    def __init__(self, query: SceneQuery, names: tuple[str, str], first: Vectors, second: Vectors, world):
        self.query, self.device = query, query.model.device
        origin, direction, self.batch = vector_pair(names, first, second, self.device)
        self.view = queries_rays.RayView()
        self.view.origin, self.view.direction = origin, direction
        one, each, per_world = query._worlds_of(self.batch, world)
        self.view.world, self.view.worlds, self.view.rays_per_world = one, each, per_world

    def cast(self, mask, ignored_body, backs, inside, hit_number, max_hits, out) -> RayHits:
        """Launch the kernel with what both kinds of rays share."""
        view, batch, device = self.view, self.batch, self.device
        if hit_number < 0:
            raise ModelError(f"hit_number is {hit_number}, expected at least 0")
        if out is None:
            out = RayHits(batch, max_hits, device)
        elif (out.batch, out.max_hits) != (batch, max_hits):
            raise ModelError(f"out: expected hits {batch}, {max_hits}, got {out.batch}, {out.max_hits}")
        if not view.max_distance >= 0.0:
            raise ModelError(f"max_distance is {view.max_distance}, expected at least 0")
        check_range("mask", mask, 0, 1 << 32)
        view.mask, view.masks = integers("mask", mask, batch, device, wp.uint32)
        check_range("ignored_body", ignored_body, -1, self.query.model.body_count)
        view.ignored_body, view.ignored_bodies = integers("ignored_body", ignored_body, batch, device)
        view.sight = int(queries_rays.SEE_BACKS) * backs + int(queries_rays.SEE_INSIDE) * inside
        view.skip = hit_number
        compilation.launch(
            queries_rays.cast_rays,
            dim=math.prod(batch),
            inputs=[self.query._scene(), view, out.view],
            device=device,
            record_tape=False,
        )
        return out


class PreparedSegments:
    """Segments of a fixed number that are cast again and again: buffers and launches are made once.

    Fill `starts` and `ends`, launch each of `parts`, which may run in threads side by side, and read `hits`.
    Nothing is allocated, and the scene is that of the last update of the query.

    Args:
        query: The query.
        count: Number of segments in all worlds; the first axis of their order runs over the worlds.
        parts: Parts that can be launched apart.
        mask: Bits of the shapes that are seen.
        skip: Hits to pass over.
        max_hits: Hits of each segment.
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
            view, hits = queries_rays.RayView(), queries_rays.RayHitView()
            view.origin, view.direction = self.starts[begin:end], self.ends[begin:end]
            view.worlds = worlds[begin:end]
            view.ends, view.max_distance, view.sight = 1, math.inf, sight
            view.mask, view.skip, view.ignored_body = mask, skip, -1
            for name in hits._cls.vars:
                setattr(hits, name, getattr(self.hits.view, name)[begin:end])
            launch = compilation.launch(
                queries_rays.cast_rays,
                dim=end - begin,
                inputs=[query._scene(), view, hits],
                device=device,
                record_cmd=True,
                record_tape=False,
            )
            self.parts.append(launch)
