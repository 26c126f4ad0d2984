"""Rays on their way to the kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels import rays
from newtonsim.queries_inputs import Vectors, check_range, integers, vector_pair
from newtonsim.queries_results import RayHits

if TYPE_CHECKING:
    from newtonsim.queries import SceneQuery


class RayRequest:
    """Rays on their way to the kernel."""

    def __init__(self, query: SceneQuery, names: tuple[str, str], first: Vectors, second: Vectors, world):
        self.query, self.device = query, query.model.device
        origin, direction, self.batch = vector_pair(names, first, second, self.device)
        self.view = rays.RayView()
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
        view.sight = int(rays.SEE_BACKS) * backs + int(rays.SEE_INSIDE) * inside
        view.skip = hit_number
        wp.launch(
            rays.cast_rays,
            dim=math.prod(batch),
            inputs=[self.query._scene(), view, out.view],
            device=device,
            record_tape=False,
        )
        return out
