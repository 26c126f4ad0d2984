"""Rays prepared for the kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import warp as wp

from newtonsim.errors import ModelError
from newtonsim.kernels.queries import rays
from newtonsim.queries.inputs import Integers, Vectors, check_range, integers, vector_pair, worlds_of
from newtonsim.queries.results import RayHits
from newtonsim.runtime import compilation

if TYPE_CHECKING:
    from newtonsim.scene.model import Model


class RayRequest:
    """Rays prepared for the kernel.

    Args:
        model: The model.
        names: Names of the two vectors of a ray in messages.
        first: Where rays start [m].
        second: Their directions, or where they end [m].
        world: World of all rays, or of each; None if the first axis runs over the worlds.
    """

    def __init__(
        self, model: Model, names: tuple[str, str], first: Vectors, second: Vectors, world: Integers | None
    ):
        self.model, self.device = model, model.device
        origin, direction, self.batch = vector_pair(names, first, second, self.device)
        self.view = rays.RayView()
        self.view.origin, self.view.direction = origin, direction
        one, each, per_world = worlds_of(self.batch, world, model.world_count, self.device)
        self.view.world, self.view.worlds, self.view.rays_per_world = one, each, per_world

    def cast(
        self,
        scene: rays.SceneView,
        mask: Integers,
        ignored_body: Integers,
        backs: bool,
        inside: bool,
        hit_number: int,
        max_hits: int | None,
        out: RayHits | None,
    ) -> RayHits:
        """Launch the kernel with the arguments that both kinds of rays share."""
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
        check_range("ignored_body", ignored_body, -1, self.model.body_count)
        view.ignored_body, view.ignored_bodies = integers("ignored_body", ignored_body, batch, device)
        view.sight = int(rays.SEE_BACKS) * backs + int(rays.SEE_INSIDE) * inside
        view.skip = hit_number
        compilation.launch(
            rays.cast_rays,
            reads=dict(scene=scene, rays=view),
            writes=dict(hits=out.view),
            dim=math.prod(batch),
            device=device,
            record_tape=False,
        )
        return out
