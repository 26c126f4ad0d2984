"""What contacts with meshes, height fields and distance fields need in addition to triangles, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import warp as wp

from newtonsim.geometry.edges import edge_table, grid_edges
from newtonsim.geometry.heightfield import Heightfield
from newtonsim.geometry.mesh import Mesh
from newtonsim.geometry.sdf import SDF
from newtonsim.kernels.collision.surfaces.triangle_surface import (
    ROLE_SHEET,
    ROLE_SOLID,
    ROLE_TERRAIN,
    SurfaceView,
)
from newtonsim.runtime.devices import find_device
from newtonsim.scene import allocation
from newtonsim.scene.columns import distinct


def pack_surfaces(
    sources: Sequence[Mesh | Heightfield | SDF | None],
    device: wp.DeviceLike = None,
    used: np.ndarray | None = None,
) -> SurfaceView:
    """Put edges of meshes and samples of distance fields into arrays for kernels.

    Args:
        sources: Source of each shape; None for shapes that have none.
        device: Where the arrays live.
        used: Shapes whose source is used, bool, shape (len(sources),); None for all.
    """
    objects, place = distinct(sources)
    used_object = np.bincount(place if used is None else place[used], minlength=len(objects)) > 0
    role_of, triangle_of = np.zeros(len(objects), np.int32), np.full(len(objects), -1, np.int32)
    sample_of, samples_of = np.zeros((2, len(objects)), np.int32)
    opposite, owned, samples = [np.zeros((0, 3), np.int32)], [np.zeros(0, np.int32)], [np.zeros((0, 3))]
    triangles_before, samples_before = 0, 0
    for number, source in enumerate(objects):
        if source is None or not used_object[number]:
            continue
        if isinstance(source, SDF):
            samples.append(source.surface_points)
            sample_of[number], samples_of[number] = samples_before, len(samples[-1])
            samples_before += len(samples[-1])
        else:
            terrain = isinstance(source, Heightfield)
            vertices, triangles = (source.to_mesh() if terrain else source).surface
            sheet = not terrain and not source.is_closed
            role_of[number] = ROLE_TERRAIN if terrain else ROLE_SHEET if sheet else ROLE_SOLID
            triangle_of[number] = triangles_before
            if terrain:
                across, own = grid_edges(vertices, triangles, source.heights.shape)
            else:
                across, own = edge_table(vertices, triangles, sheet)
            opposite.append(across)
            owned.append(own)
            triangles_before += len(triangles)
    role, triangle_start = role_of[place], triangle_of[place]
    sample_start, sample_count = sample_of[place], samples_of[place]
    if used is not None:
        role[~used], triangle_start[~used] = 0, -1
        sample_start[~used], sample_count[~used] = 0, 0

    put = partial(allocation.put, device=find_device(device))
    view = SurfaceView()
    view.role, view.triangle_start = put(role, int), put(triangle_start, int)
    view.opposite = put(np.concatenate(opposite).reshape(-1), int)
    view.owned = put(np.concatenate(owned), int)
    view.sample_start, view.sample_count = put(sample_start, int), put(sample_count, int)
    view.sample = put(np.concatenate(samples).astype(np.float32), wp.vec3)
    return view
