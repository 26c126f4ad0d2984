"""The force elements around each particle, for programs that go over them particle by particle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.kernels.particles.vbd import adjacency
from newtonsim.runtime import compilation
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model


@dataclass(frozen=True)
class ForceElementAdjacency:
    """Bending edges and triangles around each particle.

    The elements of particle i are the entries from `offsets[i]` up to `offsets[i + 1]`, in any order.

    Attributes:
        vertex_adjacent_edges: Numbers of the bending edges, rows of `Model.edge_indices`, int (n,).
        vertex_adjacent_edges_offsets: Where those of each particle begin, int (particle_count + 1,).
        vertex_adjacent_faces: Numbers of the triangles, rows of `Model.tri_indices`, int (m,).
        vertex_adjacent_faces_offsets: Where those of each particle begin, int (particle_count + 1,).
    """

    vertex_adjacent_edges: wp.array
    vertex_adjacent_edges_offsets: wp.array
    vertex_adjacent_faces: wp.array
    vertex_adjacent_faces_offsets: wp.array


def find_adjacency(model: Model) -> ForceElementAdjacency:
    """List the force elements around the particles of a model; waits for the device."""
    edges = _edges(model) if model.edge_count else _none(model)
    faces = _faces(model) if model.tri_count else _none(model)
    return ForceElementAdjacency(*edges, *faces)


def _edges(model: Model) -> tuple[wp.array, wp.array]:
    """Lists of the bending edges around each particle, and where each list begins."""
    device, corners = model.device, model.edge_indices
    count, filled = (zeros(model.particle_count, int, device) for _ in range(2))
    compilation.launch(
        adjacency.count_num_adjacent_edges,
        len(corners),
        reads=dict(edges_array=corners),
        writes=dict(num_vertex_adjacent_edges=count),
        device=device,
    )
    offsets, listed = _room(model, count)
    compilation.launch(
        adjacency.fill_adjacent_edges,
        len(corners),
        reads=dict(edges_array=corners, vertex_adjacent_edges_offsets=offsets),
        writes=dict(vertex_adjacent_edges_fill_count=filled, vertex_adjacent_edges=listed),
        device=device,
    )
    return listed, offsets


def _faces(model: Model) -> tuple[wp.array, wp.array]:
    """Lists of the triangles around each particle, and where each list begins."""
    device, corners = model.device, model.tri_indices
    count, filled = (zeros(model.particle_count, int, device) for _ in range(2))
    compilation.launch(
        adjacency.count_num_adjacent_faces,
        len(corners),
        reads=dict(face_indices=corners),
        writes=dict(num_vertex_adjacent_faces=count),
        device=device,
    )
    offsets, listed = _room(model, count)
    compilation.launch(
        adjacency.fill_adjacent_faces,
        len(corners),
        reads=dict(face_indices=corners, vertex_adjacent_faces_offsets=offsets),
        writes=dict(vertex_adjacent_faces_fill_count=filled, vertex_adjacent_faces=listed),
        device=device,
    )
    return listed, offsets


def _room(model: Model, count: wp.array) -> tuple[wp.array, wp.array]:
    """Where the list of each particle begins, and room for all lists."""
    offsets = np.concatenate(([0], np.cumsum(count.numpy())))
    return put(offsets, int, model.device), zeros(int(offsets[-1]), int, model.device)


def _none(model: Model) -> tuple[wp.array, wp.array]:
    """Lists without elements."""
    return zeros(0, int, model.device), zeros(model.particle_count + 1, int, model.device)
