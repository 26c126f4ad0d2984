"""Bending edges and triangles adjacent to each particle: counted first, then listed.

The caller passes arrays of zeros for the counts, sums these to offsets, and passes another array of zeros to
the second kernel. The order within a particle's list is arbitrary.

Stage: VBD, adjacency of force elements
Called by: solvers/vbd/adjacency.py, solvers/vbd/solver.py
Reads: edges_array, face_indices, vertex_adjacent_edges_offsets, vertex_adjacent_faces_offsets
Writes: num_vertex_adjacent_edges, num_vertex_adjacent_faces, vertex_adjacent_edges,
    vertex_adjacent_edges_fill_count, vertex_adjacent_faces, vertex_adjacent_faces_fill_count
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def count_num_adjacent_edges(
    edges_array: wp.array(dtype=int, ndim=2), num_vertex_adjacent_edges: wp.array(dtype=int)
):
    """One thread per bending edge (o0, o1, v1, v2): count it for each of its particles."""
    edge = wp.tid()
    for corner in range(edges_array.shape[1]):
        particle = edges_array[edge, corner]
        if particle >= 0:
            wp.atomic_add(num_vertex_adjacent_edges, particle, 1)


@wp.kernel
def fill_adjacent_edges(
    edges_array: wp.array(dtype=int, ndim=2),
    vertex_adjacent_edges_offsets: wp.array(dtype=int),
    vertex_adjacent_edges_fill_count: wp.array(dtype=int),
    vertex_adjacent_edges: wp.array(dtype=int),
):
    """One thread per bending edge: its number goes to the lists of its particles, which begin there."""
    edge = wp.tid()
    for corner in range(edges_array.shape[1]):
        particle = edges_array[edge, corner]
        if particle >= 0:
            place = wp.atomic_add(vertex_adjacent_edges_fill_count, particle, 1)
            vertex_adjacent_edges[vertex_adjacent_edges_offsets[particle] + place] = edge


@wp.kernel
def count_num_adjacent_faces(
    face_indices: wp.array(dtype=int, ndim=2), num_vertex_adjacent_faces: wp.array(dtype=int)
):
    """One thread per triangle: count it for each of its corners."""
    face = wp.tid()
    for corner in range(face_indices.shape[1]):
        wp.atomic_add(num_vertex_adjacent_faces, face_indices[face, corner], 1)


@wp.kernel
def fill_adjacent_faces(
    face_indices: wp.array(dtype=int, ndim=2),
    vertex_adjacent_faces_offsets: wp.array(dtype=int),
    vertex_adjacent_faces_fill_count: wp.array(dtype=int),
    vertex_adjacent_faces: wp.array(dtype=int),
):
    """One thread per triangle: its number goes to the lists of its corners, which begin there."""
    face = wp.tid()
    for corner in range(face_indices.shape[1]):
        particle = face_indices[face, corner]
        place = wp.atomic_add(vertex_adjacent_faces_fill_count, particle, 1)
        vertex_adjacent_faces[vertex_adjacent_faces_offsets[particle] + place] = face
